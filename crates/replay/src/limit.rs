//! No more than a number of accesses.
use memtrail_model::{Access, AccessSink, Event, Kind, LoopRun, Reply, SinkAdapter};

/// Hands on the first accesses and what comes among them, and nothing behind the last.
#[derive(Debug)]
pub struct Limit<S> {
    sink: S,
    limit: u64,
    left: u64,
    /// The sink wants fetches, which do not count.
    fetches: bool,
}

impl<S: AccessSink> Limit<S> {
    pub fn new(sink: S, limit: u64) -> Limit<S> {
        Limit {
            fetches: sink.wants().fetches,
            sink,
            limit,
            left: limit,
        }
    }

    /// How many accesses were handed on, or left out by the sink.
    pub fn passed(&self) -> u64 {
        self.limit - self.left
    }

    pub fn into_inner(self) -> S {
        self.sink
    }

    fn offer(&mut self, run: LoopRun<'_>) -> Reply {
        let each = accesses_of(run.body, self.fetches);
        let most = self.left.saturating_sub(u64::from(self.fetches));
        let trips = run.trips.min(most.checked_div(each).unwrap_or(u64::MAX));
        if trips == 0 || self.left == 0 {
            return Reply::NOTHING;
        }
        let reply = self.sink.event(Event::Loop(LoopRun { trips, ..run }));
        self.left -= reply.skip * each;
        reply
    }
}

impl<S: AccessSink> SinkAdapter for Limit<S> {
    type Inner = S;
    fn inner(&self) -> &S {
        &self.sink
    }
    fn inner_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    fn pass(&mut self, batch: &[Access]) {
        let end = end_of(batch, self.left, self.fetches);
        let batch = &batch[..end];
        if !batch.is_empty() {
            self.left -= count(batch, self.fetches);
            self.sink.accesses(batch);
        }
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Loop(run) => self.offer(run),
            Event::Iterated { repeat, done, left } => {
                let most = self.left.checked_div(repeat.accesses).unwrap_or(0);
                let left = left.min(most);
                let reply = self.sink.event(Event::Iterated { repeat, done, left });
                self.left -= reply.skip * repeat.accesses;
                reply
            }
            Event::Flow { .. }
            | Event::Edge { .. }
            | Event::Note { .. }
            | Event::ForkCall { .. }
            | Event::Fork { .. }
                if self.left == 0 =>
            {
                Reply::NOTHING
            }
            other => self.sink.event(other),
        }
    }

    fn has_enough(&self) -> bool {
        self.left == 0 || self.sink.done()
    }
}

/// How many accesses an iteration has: all of the body but fetches.
pub(crate) fn accesses_of(body: &[memtrail_model::LoopAccess], fetches: bool) -> u64 {
    let among = body.iter().filter(|a| fetches && a.kind == Kind::Fetch).count();
    (body.len() - among) as u64
}

/// How many of these are no fetches.
pub(crate) fn count(batch: &[Access], fetches: bool) -> u64 {
    match fetches {
        false => batch.len() as u64,
        true => batch.iter().filter(|a| a.kind != Kind::Fetch).count() as u64,
    }
}

/// Where the first `n` of these that are no fetches end, or all if there are fewer.
pub(crate) fn end_of(batch: &[Access], n: u64, fetches: bool) -> usize {
    if !fetches || n == 0 {
        return n.min(batch.len() as u64) as usize;
    }
    let mut left = n;
    let last = batch.iter().position(|a| {
        left -= u64::from(a.kind != Kind::Fetch);
        left == 0
    });
    last.map_or(batch.len(), |i| i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::testing::{check_adapter, events};
    use memtrail_model::{LoopAccess, Point, Repeat, Thread, Wants};
    use std::cell::RefCell;

    #[derive(Default)]
    struct Seen {
        addresses: Vec<u64>,
        /// Iterations of loops that were taken whole.
        loops: Vec<u64>,
        events: usize,
        fetches: bool,
    }

    impl AccessSink for Seen {
        fn accesses(&mut self, batch: &[Access]) {
            self.addresses.extend(batch.iter().map(|a| a.addr));
        }
        fn wants(&self) -> Wants {
            Wants {
                fetches: self.fetches,
                loops: Some(0),
                ..Wants::default()
            }
        }
        fn event(&mut self, event: Event<'_>) -> Reply {
            match event {
                Event::Loop(run) => {
                    self.loops.push(run.trips);
                    Reply::skip(run.trips)
                }
                Event::Iterated { left, .. } => Reply::skip(left),
                _ => {
                    self.events += 1;
                    Reply::NOTHING
                }
            }
        }
    }

    fn run(trips: u64, body: &[LoopAccess]) -> LoopRun<'_> {
        LoopRun {
            thread: Thread(0),
            trips,
            body,
        }
    }

    fn access(addr: u64, kind: Kind) -> LoopAccess {
        LoopAccess {
            pc: 0,
            kind,
            point: Point(0),
            size: 8,
            addr,
            stride: 1,
        }
    }

    fn limit(n: u64, fetches: bool) -> Limit<Seen> {
        let seen = Seen {
            fetches,
            ..Seen::default()
        };
        Limit::new(seen, n)
    }

    #[test]
    fn everything_is_forwarded_below_the_limit() {
        check_adapter(&RefCell::default(), |probe| Limit::new(probe, 1000), |_| false);
    }

    #[test]
    fn the_first_accesses_get_through_and_nothing_behind_the_last() {
        let mut limit = limit(5, false);
        let body = [access(10, Kind::Read), access(20, Kind::Write)];
        let all: Vec<Access> = run(3, &body).accesses().collect();
        limit.accesses(&all[..4]);
        assert!(!limit.done());
        let told = events().filter(|e| !matches!(e, Event::Loop(_) | Event::Iterated { .. }));
        for event in told {
            limit.event(event);
        }
        assert_eq!(limit.sink.events, 8);
        limit.accesses(&all[4..]);
        assert!(limit.done());
        assert_eq!(
            (limit.passed(), &limit.sink.addresses[..]),
            (5, &[10, 20, 11, 21, 12][..])
        );
        for event in events() {
            limit.event(event);
        }
        limit.accesses(&all);
        // Loops that were entered are left, and where a thread's memory is, is told in any case.
        assert_eq!(
            (limit.sink.events, limit.sink.loops.len(), limit.sink.addresses.len()),
            (11, 0, 5)
        );
    }

    #[test]
    fn as_many_iterations_of_a_loop_as_fit_are_handed_on_whole() {
        let body = [access(10, Kind::Read), access(20, Kind::Write)];
        let mut limit = limit(7, false);
        assert_eq!(limit.event(Event::Loop(run(1 << 40, &body))), Reply::skip(3));
        assert_eq!((limit.sink.loops.as_slice(), limit.passed()), (&[3][..], 6));
        assert_eq!(limit.event(Event::Loop(run(1 << 40, &body))), Reply::NOTHING);
    }

    #[test]
    fn fetches_do_not_count_and_none_follows_the_last_access() {
        let kinds = [Kind::Fetch, Kind::Read, Kind::Fetch];
        let body = kinds.map(|kind| access(0, kind));
        let all: Vec<Access> = run(1, &body).accesses().collect();
        let mut few = limit(1, true);
        few.accesses(&all);
        assert_eq!((few.sink.addresses.len(), few.done()), (2, true));
        // The fetch behind the second access would be one too many.
        let mut few = limit(2, true);
        assert_eq!(few.event(Event::Loop(run(2, &body))), Reply::skip(1));
    }

    #[test]
    fn no_more_iterations_are_left_out_than_fit() {
        let repeat = Repeat {
            thread: Thread(0),
            trips: 100,
            accesses: 7,
            movers: &[],
        };
        let mut limit = limit(30, false);
        let iterated = |left| Event::Iterated { repeat, done: 1, left };
        assert_eq!(limit.event(iterated(3)), Reply::skip(3));
        assert_eq!(limit.event(iterated(90)), Reply::skip(1));
        assert_eq!((limit.passed(), limit.done()), (28, false));
    }
}
