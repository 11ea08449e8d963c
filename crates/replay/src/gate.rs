//! What stands between a chunk's accesses and whoever wants them: leaves out what comes before the
//! selection, and lets no more through than the chunk's head promises and the selection asks for.
use crate::limit::{accesses_of, count, end_of};
use memtrail_model::{Access, AccessSink, Event, LoopRun, Reply, SinkAdapter, Wants};

/// Accesses handed on in one go when a loop is entered in its middle.
const BATCH: usize = 512;

#[derive(Debug)]
pub(crate) struct Gate<S> {
    sink: S,
    /// Accesses to be left out first.
    pub skip: u64,
    /// Accesses that the chunk may still have, left out or not.
    pub promised: u64,
    /// Accesses that are still wanted.
    pub wanted: u64,
    /// There were more than promised.
    pub surplus: bool,
    /// The address space of the thread, if the sink is to be told of forks as such.
    pub space: Option<u32>,
    /// What the sink wants. Fetches are neither promised nor left out by number: what follows an
    /// access goes with the next one.
    pub wants: Wants,
}

impl<S: AccessSink> Gate<S> {
    pub fn new(sink: S, wanted: u64) -> Gate<S> {
        Gate {
            wants: sink.wants(),
            sink,
            skip: 0,
            promised: 0,
            wanted,
            surplus: false,
            space: None,
        }
    }

    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// A loop of which all, some or no iterations are selected.
    fn offer(&mut self, run: LoopRun<'_>) -> Reply {
        let each = accesses_of(run.body, self.wants.fetches);
        let accesses = run.trips.checked_mul(each);
        let Some(accesses) = accesses.filter(|&n| n <= self.promised && !run.body.is_empty()) else {
            return Reply::NOTHING;
        };
        // What follows an access goes with the next one.
        let follows = u64::from(self.wants.fetches);
        if self.skip > 0 && self.skip >= accesses.saturating_add(follows) {
            self.skip -= accesses;
            self.promised -= accesses;
            return Reply::skip(run.trips);
        }
        if self.skip > 0 {
            self.partly(&run, each);
            return Reply::skip(run.trips);
        }
        let most = self.wanted.saturating_sub(follows).checked_div(each);
        let trips = run.trips.min(most.unwrap_or(u64::MAX));
        if self.wants.loops.is_none() || trips == 0 || self.wanted == 0 {
            return Reply::NOTHING;
        }
        let reply = self.sink.event(Event::Loop(LoopRun { trips, ..run }));
        self.promised -= reply.skip * each;
        self.wanted -= reply.skip * each;
        reply
    }

    /// Iterations of which some are left out, or not wanted any more; of `each` accesses.
    fn partly(&mut self, run: &LoopRun<'_>, each: u64) {
        // One is gone through even if all of it is left out: fetches may follow.
        let whole = (self.skip - 1) / each;
        self.skip -= whole * each;
        self.promised -= whole * each;
        let mut body = run.body.to_vec();
        body.iter_mut().for_each(|access| access.advance(whole));
        let rest = LoopRun {
            thread: run.thread,
            trips: run.trips - whole,
            body: &body,
        };
        let after = self.promised - rest.trips * each;
        let mut accesses = rest.accesses();
        while self.wanted > 0 {
            let batch: Vec<Access> = accesses.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            self.pass(&batch);
        }
        self.promised = after;
    }
}

impl<S: AccessSink> SinkAdapter for Gate<S> {
    type Inner = S;
    fn inner(&self) -> &S {
        &self.sink
    }
    fn inner_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Whole loops can be left out, whether the sink wants them or not.
    fn adjust(&self, wants: Wants) -> Wants {
        Wants {
            loops: if self.skip > 0 {
                wants.loops.or(Some(0))
            } else {
                wants.loops
            },
            // The way back to a loop's beginning is told when it is taken, in the second iteration.
            repeats: wants.repeats && self.skip == 0 && !wants.edges,
            ..wants
        }
    }

    fn pass(&mut self, mut batch: &[Access]) {
        let fetches = self.wants.fetches;
        let mut accesses = count(batch, fetches);
        if accesses > self.promised {
            self.surplus = true;
            batch = &batch[..end_of(batch, self.promised, fetches)];
            accesses = self.promised;
        }
        self.promised -= accesses;
        if self.skip > 0 {
            if self.skip > accesses {
                self.skip -= accesses;
                return;
            }
            batch = &batch[end_of(batch, self.skip, fetches)..];
            accesses -= self.skip;
            self.skip = 0;
        }
        if accesses >= self.wanted {
            batch = &batch[..end_of(batch, self.wanted, fetches)];
            accesses = self.wanted;
        }
        self.wanted -= accesses;
        if !batch.is_empty() {
            self.sink.accesses(batch);
        }
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Loop(run) => self.offer(run),
            Event::Iterated { repeat, done, left } => {
                let most = self.wanted.min(self.promised).checked_div(repeat.accesses);
                let left = left.min(most.unwrap_or(0));
                let reply = self.sink.event(Event::Iterated { repeat, done, left });
                self.wanted -= reply.skip * repeat.accesses;
                self.promised -= reply.skip * repeat.accesses;
                reply
            }
            Event::ForkCall { child: Some(child), .. } if self.space.is_some() => {
                let parent = self.space.unwrap_or_default();
                self.sink.event(Event::Fork { parent, child })
            }
            other => self.sink.event(other),
        }
    }

    fn has_enough(&self) -> bool {
        self.wanted == 0 || self.sink.done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::testing::check_adapter;
    use memtrail_model::{Kind, LoopAccess, Point, Thread};
    use std::cell::RefCell;

    #[derive(Default)]
    struct Seen {
        addresses: Vec<u64>,
        loops: Vec<u64>,
    }
    impl AccessSink for Seen {
        fn accesses(&mut self, batch: &[Access]) {
            self.addresses.extend(batch.iter().map(|a| a.addr));
        }
        fn wants(&self) -> Wants {
            Wants {
                loops: Some(0),
                ..Wants::default()
            }
        }
        fn event(&mut self, event: Event<'_>) -> Reply {
            let Event::Loop(run) = event else {
                return Reply::NOTHING;
            };
            self.loops.push(run.trips);
            Reply::skip(run.trips)
        }
    }

    fn run(trips: u64, body: &[LoopAccess]) -> LoopRun<'_> {
        LoopRun {
            thread: Thread(0),
            trips,
            body,
        }
    }

    fn body() -> [LoopAccess; 2] {
        let access = |addr, stride| LoopAccess {
            pc: 0,
            kind: Kind::Read,
            point: Point(0),
            size: 8,
            addr,
            stride,
        };
        [access(0, 10), access(1000, 1)]
    }

    fn gate(skip: u64, promised: u64, wanted: u64) -> Gate<Seen> {
        Gate {
            skip,
            promised,
            ..Gate::new(Seen::default(), wanted)
        }
    }

    #[test]
    fn what_is_selected_is_forwarded() {
        let whole = |probe| Gate {
            promised: 1000,
            ..Gate::new(probe, 1000)
        };
        check_adapter(&RefCell::default(), whole, |event| matches!(event, Event::Loop(_)));
    }

    #[test]
    fn a_loop_is_entered_in_the_middle_of_an_iteration() {
        let mut g = gate(7, 100, u64::MAX);
        assert_eq!(g.offer(run(5, &body())), Reply::skip(5));
        assert_eq!(g.sink.addresses, [1003, 40, 1004]);
        assert_eq!((g.skip, g.promised), (0, 90));
        assert_eq!(g.offer(run(5, &body())), Reply::skip(5));
        assert_eq!(g.sink.loops, [5]);
        assert_eq!(g.promised, 80);
    }

    #[test]
    fn whole_loops_are_left_out_at_once() {
        let mut g = gate(1 << 50, 1 << 51, 1);
        assert_eq!(g.offer(run(1 << 49, &body())), Reply::skip(1 << 49));
        assert_eq!((g.skip, g.promised), (0, 1 << 50));
        assert!(g.sink.addresses.is_empty() && g.sink.loops.is_empty());
    }

    #[test]
    fn of_a_loop_whole_iterations_are_handed_on_as_far_as_they_are_wanted() {
        let mut g = gate(0, 100, 3);
        assert_eq!(g.offer(run(5, &body())), Reply::skip(1));
        assert_eq!((&g.sink.loops[..], g.wanted, g.promised), (&[1][..], 1, 98));
        assert_eq!(g.offer(run(4, &body())), Reply::NOTHING);
        let mut g = gate(1, 1 << 41, 3);
        assert_eq!(g.offer(run(1 << 40, &body())), Reply::skip(1 << 40));
        assert_eq!(g.sink.addresses, [1000, 10, 1001]);
        assert_eq!((g.wanted, g.promised, g.done()), (0, 0, true));
    }

    #[test]
    fn no_more_than_promised_comes_through() {
        let accesses: Vec<Access> = run(3, &body()).accesses().collect();
        let mut g = gate(2, 5, 100);
        g.accesses(&accesses);
        assert_eq!(g.sink.addresses, [10, 1001, 20]);
        assert!(g.surplus);
        let mut g = gate(0, 5, 100);
        assert_eq!(g.offer(run(3, &body())), Reply::NOTHING);
    }
}
