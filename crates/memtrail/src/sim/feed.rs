//! What stands between a replay and the analyses: a choice of instructions, a limit, a progress
//! line, and several analyses at once.
use crate::progress::Progress;
use memtrail_model::{Access, AccessSink, Event, Kind, LoopRun, Point, Reply, SinkAdapter, Thread, Wants};
use memtrail_replay::Limit;
use std::ops::Range;

/// Lets through what is wanted and counts it.
pub struct Feed<S> {
    sink: Limit<S>,
    fetches: bool,
    /// Addresses that are wanted; all, if there are neither these nor points.
    pcs: Vec<Range<u64>>,
    /// By reference point: whether it is wanted.
    points: Vec<bool>,
    /// Only this one's accesses, of whatever else there is to be told.
    thread: Option<Thread>,
    progress: Progress,
    /// For batches of which not everything is wanted.
    wanted: Vec<Access>,
}

impl<S: AccessSink> Feed<S> {
    pub fn new(sink: S, pcs: Vec<Range<u64>>, limit: u64, progress: Progress) -> Feed<S> {
        Feed {
            fetches: sink.wants().fetches,
            sink: Limit::new(sink, limit),
            pcs,
            points: Vec::new(),
            thread: None,
            progress,
            wanted: Vec::new(),
        }
    }

    /// Lets only accesses of one thread through.
    pub fn only(mut self, thread: Option<Thread>) -> Feed<S> {
        self.thread = thread;
        self
    }

    /// Lets accesses of these reference points through, too.
    pub fn with_points(mut self, points: Vec<bool>) -> Feed<S> {
        self.points = points;
        self
    }

    /// What took the accesses, and how many went through.
    pub fn finish(self) -> (S, u64) {
        let passed = self.sink.passed();
        (self.sink.into_inner(), passed)
    }

    fn passes_all(&self) -> bool {
        self.pcs.is_empty() && self.points.is_empty()
    }

    fn passes(&self, pc: u64, point: Point) -> bool {
        self.passes_all()
            || self.points.get(point.index()).is_some_and(|&wanted| wanted)
            || self.pcs.iter().any(|range| range.contains(&pc))
    }

    /// A loop goes on whole, or nothing of it does. If only some instructions of its body are
    /// wanted it comes as accesses.
    fn offer(&mut self, run: LoopRun<'_>) -> Reply {
        if self.thread.is_some_and(|thread| thread != run.thread) {
            return Reply::skip(run.trips);
        }
        let wanted = run
            .body
            .iter()
            .filter(|access| self.passes(access.pc, access.point))
            .count();
        let reply = match wanted {
            0 => Reply::skip(run.trips),
            _ if wanted < run.body.len() => Reply::NOTHING,
            _ => self.sink.event(Event::Loop(run)),
        };
        let each = run.body.iter().filter(|a| a.kind != Kind::Fetch).count() as u64;
        self.progress.add(reply.skip.saturating_mul(each), None);
        reply
    }
}

impl<S: AccessSink> SinkAdapter for Feed<S> {
    type Inner = Limit<S>;
    fn inner(&self) -> &Limit<S> {
        &self.sink
    }
    fn inner_mut(&mut self) -> &mut Limit<S> {
        &mut self.sink
    }

    fn adjust(&self, wants: Wants) -> Wants {
        Wants {
            repeats: wants.repeats && self.passes_all(),
            ..wants
        }
    }

    fn pass(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        if self.thread.is_some_and(|thread| thread != first.thread) {
            return;
        }
        // Fetches are in no number of accesses.
        let fetches = match self.fetches {
            true => batch.iter().filter(|access| access.kind == Kind::Fetch).count(),
            false => 0,
        };
        self.progress.add((batch.len() - fetches) as u64, None);
        if self.passes_all() {
            return self.sink.accesses(batch);
        }
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.clear();
        wanted.extend(batch.iter().filter(|access| self.passes(access.pc, access.point)));
        if !wanted.is_empty() {
            self.sink.accesses(&wanted);
        }
        self.wanted = wanted;
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Loop(run) => self.offer(run),
            Event::Iterated { repeat, .. } => {
                let reply = self.sink.event(event);
                self.progress.add(reply.skip * repeat.accesses, None);
                reply
            }
            other => self.sink.event(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::testing::check_adapter;
    use memtrail_model::LoopAccess;
    use std::cell::RefCell;

    /// Remembers pcs, and loops as such.
    #[derive(Default)]
    struct Seen {
        pcs: Vec<u64>,
        loops: Vec<u64>,
        fetches: bool,
    }

    impl AccessSink for Seen {
        fn accesses(&mut self, batch: &[Access]) {
            self.pcs.extend(batch.iter().map(|a| a.pc));
        }
        fn wants(&self) -> Wants {
            Wants {
                loops: Some(0),
                fetches: self.fetches,
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

    fn access(pc: u64, kind: Kind) -> Access {
        Access {
            thread: Thread(0),
            pc,
            kind,
            addr: 0,
            size: 8,
            point: Point(0),
        }
    }

    fn body(pcs: &[u64]) -> Vec<LoopAccess> {
        let one = |&pc: &u64| LoopAccess {
            pc,
            kind: Kind::Read,
            point: Point(0),
            size: 8,
            addr: 0,
            stride: 8,
        };
        pcs.iter().map(one).collect()
    }

    fn feed<'s>(seen: &'s mut Seen, pcs: &[(u64, u64)], limit: u64) -> Feed<&'s mut Seen> {
        let pcs = pcs.iter().map(|&(low, high)| low..high).collect();
        Feed::new(seen, pcs, limit, Progress::new())
    }

    #[test]
    fn everything_is_handed_on() {
        let probe = RefCell::default();
        let feed = |probe| Feed::new(probe, Vec::new(), u64::MAX, Progress::new());
        check_adapter(&probe, feed, |_| false);
    }

    #[test]
    fn only_wanted_instructions_get_through_and_count() {
        let mut seen = Seen::default();
        let mut feed = feed(&mut seen, &[(10, 20), (30, 31)], 3);
        let batch = [5, 10, 19, 20, 30, 10].map(|pc| access(pc, Kind::Read));
        assert!(!feed.done());
        feed.accesses(&batch);
        assert_eq!(feed.sink.passed(), 3);
        assert!(feed.done());
        assert_eq!(seen.pcs, [10, 19, 30]);
    }

    #[test]
    fn everything_gets_through_up_to_the_limit() {
        let mut seen = Seen::default();
        let mut feed = feed(&mut seen, &[], 5);
        let batch = [1, 2, 3].map(|pc| access(pc, Kind::Write));
        feed.accesses(&batch);
        feed.accesses(&batch);
        assert_eq!(feed.sink.passed(), 5);
        assert_eq!(seen.pcs, [1, 2, 3, 1, 2]);
    }

    #[test]
    fn fetches_get_through_uncounted() {
        let mut seen = Seen {
            fetches: true,
            ..Seen::default()
        };
        let mut feed = feed(&mut seen, &[], 1);
        let batch = [
            access(1, Kind::Fetch),
            access(1, Kind::Read),
            access(2, Kind::Fetch),
            access(2, Kind::Read),
        ];
        assert!(feed.wants().fetches);
        feed.accesses(&batch[..3]);
        assert_eq!(feed.sink.passed(), 1);
        feed.accesses(&batch[3..]);
        assert_eq!(feed.sink.passed(), 1);
        // None follows the last access.
        assert_eq!(seen.pcs, [1, 1]);
    }

    #[test]
    fn loops_stay_whole_if_all_of_them_is_wanted() {
        let mut seen = Seen::default();
        let mut feed = feed(&mut seen, &[(10, 20)], 10);
        let run = |pcs: &[u64], trips, feed: &mut Feed<&mut Seen>| {
            let run = LoopRun {
                thread: Thread(0),
                trips,
                body: &body(pcs),
            };
            feed.event(Event::Loop(run)).skip
        };
        assert_eq!(run(&[10, 11], 3, &mut feed), 3);
        let skipped = run(&[1, 2], 1000, &mut feed);
        assert_eq!(skipped, 1000, "a loop of which nothing is wanted is done with");
        assert_eq!(run(&[10, 2], 1, &mut feed), 0, "a part of the body is wanted");
        assert_eq!(run(&[10], 5, &mut feed), 4, "it is more than is left");
        assert_eq!(feed.sink.passed(), 10);
        assert!(feed.done());
        assert_eq!(seen.loops, [3, 4]);
    }
}
