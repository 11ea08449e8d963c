//! What stands between a replay and the analyses: a choice of instructions, a limit, a progress line, and several analyses at once.
use crate::progress::Progress;
use memtrail_model::{Access, AccessSink, Kind, LoopRun, Next, Point, Repeat, Thread};
use std::ops::Range;

/// Lets through what is wanted and counts it.
pub struct Feed<S> {
    sink: S,
    fetches: bool,
    /// Addresses that are wanted; all, if there are neither these nor points.
    pcs: Vec<Range<u64>>,
    /// By reference point: whether it is wanted.
    points: Vec<bool>,
    /// Only this one's accesses, of whatever else there is to be told.
    thread: Option<Thread>,
    left: u64,
    passed: u64,
    progress: Progress,
    /// For batches of which not everything is wanted.
    wanted: Vec<Access>,
}

impl<S: AccessSink> Feed<S> {
    pub fn new(sink: S, pcs: Vec<Range<u64>>, limit: u64, progress: Progress) -> Feed<S> {
        Feed {
            fetches: sink.wants_fetches(),
            sink,
            pcs,
            points: Vec::new(),
            thread: None,
            left: limit,
            passed: 0,
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
        (self.sink, self.passed)
    }

    fn wants_all(&self) -> bool {
        self.pcs.is_empty() && self.points.is_empty()
    }

    fn wants(&self, pc: u64, point: Point) -> bool {
        self.wants_all()
            || self.points.get(point.index()).is_some_and(|&wanted| wanted)
            || self.pcs.iter().any(|range| range.contains(&pc))
    }

    fn count(&mut self, accesses: u64) {
        self.passed += accesses;
        self.left -= accesses;
    }
}

/// Fetches are in no number of accesses.
fn accesses(batch: &[Access]) -> u64 {
    batch.iter().filter(|access| access.kind != Kind::Fetch).count() as u64
}

impl<S: AccessSink> AccessSink for Feed<S> {
    fn accesses(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        if self.thread.is_some_and(|thread| thread != first.thread) {
            return;
        }
        let count = match self.fetches {
            true => accesses(batch),
            false => batch.len() as u64,
        };
        self.progress.add(count, None);
        if self.wants_all() && count <= self.left {
            self.sink.accesses(batch);
            return self.count(count);
        }
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.clear();
        let mut left = self.left;
        for access in batch.iter().filter(|access| self.wants(access.pc, access.point)) {
            if access.kind != Kind::Fetch {
                if left == 0 {
                    break;
                }
                left -= 1;
            }
            wanted.push(*access);
        }
        if !wanted.is_empty() {
            self.sink.accesses(&wanted);
        }
        self.count(self.left - left);
        self.wanted = wanted;
    }

    fn space(&mut self, thread: Thread, space: u32) {
        self.sink.space(thread, space);
    }

    memtrail_model::hands_on_asides!(sink);

    fn wants_loops(&self) -> bool {
        self.sink.wants_loops()
    }
    fn short_loops(&self) -> u64 {
        self.sink.short_loops()
    }

    fn wants_fetches(&self) -> bool {
        self.fetches
    }

    fn looped(&mut self, run: &LoopRun<'_>) -> bool {
        if self.thread.is_some_and(|thread| thread != run.thread) {
            return true;
        }
        let accesses = run
            .trips
            .saturating_mul(run.body.iter().filter(|a| a.kind != Kind::Fetch).count() as u64);
        let wanted = run.body.iter().filter(|access| self.wants(access.pc, access.point));
        let wanted = wanted.count();
        let taken = match wanted {
            0 => true,
            _ if wanted < run.body.len() || accesses > self.left => false,
            _ => self.sink.looped(run),
        };
        if taken {
            self.progress.add(accesses, None);
            self.count(if wanted == 0 { 0 } else { accesses });
        }
        taken
    }

    fn wants_repeats(&self) -> bool {
        self.wants_all() && self.sink.wants_repeats()
    }

    fn enters(&mut self, repeat: &Repeat<'_>) -> u64 {
        self.sink.enters(repeat)
    }

    fn iterated(&mut self, repeat: &Repeat<'_>, iterations: u64, left: u64) -> Next {
        let most = self.left.checked_div(repeat.accesses).unwrap_or(0);
        let next = self.sink.iterated(repeat, iterations, left.min(most));
        let skipped = next.skip * repeat.accesses;
        self.progress.add(skipped, None);
        self.count(skipped);
        next
    }

    fn leaves(&mut self) {
        self.sink.leaves();
    }

    fn done(&self) -> bool {
        self.left == 0 || self.sink.done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::LoopAccess;

    /// Remembers pcs, and loops as such.
    #[derive(Default)]
    struct Seen {
        pcs: Vec<u64>,
        loops: Vec<u64>,
        fetches: bool,
    }

    impl AccessSink for &mut Seen {
        fn accesses(&mut self, batch: &[Access]) {
            self.pcs.extend(batch.iter().map(|a| a.pc));
        }
        fn wants_loops(&self) -> bool {
            true
        }
        fn wants_fetches(&self) -> bool {
            self.fetches
        }
        fn looped(&mut self, run: &LoopRun<'_>) -> bool {
            self.loops.push(run.trips);
            true
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
    fn only_wanted_instructions_get_through_and_count() {
        let mut seen = Seen::default();
        let mut feed = feed(&mut seen, &[(10, 20), (30, 31)], 3);
        let batch = [5, 10, 19, 20, 30, 10].map(|pc| access(pc, Kind::Read));
        assert!(!feed.done());
        feed.accesses(&batch);
        assert_eq!(feed.passed, 3);
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
        assert_eq!(feed.passed, 5);
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
        assert!(feed.wants_fetches());
        feed.accesses(&batch[..3]);
        assert_eq!(feed.passed, 1);
        feed.accesses(&batch[3..]);
        assert_eq!(feed.passed, 1);
        assert_eq!(seen.pcs, [1, 1, 2]);
    }

    #[test]
    fn loops_stay_whole_if_all_of_them_is_wanted() {
        let mut seen = Seen::default();
        let mut feed = feed(&mut seen, &[(10, 20)], 10);
        let run = |pcs: &[u64], trips, feed: &mut Feed<&mut Seen>| {
            feed.looped(&LoopRun {
                thread: Thread(0),
                trips,
                body: &body(pcs),
            })
        };
        assert!(run(&[10, 11], 3, &mut feed));
        assert!(
            run(&[1, 2], 1000, &mut feed),
            "a loop of which nothing is wanted is done with"
        );
        assert!(!run(&[10, 2], 1, &mut feed), "a part is wanted");
        assert!(!run(&[10], 5, &mut feed), "it is more than is left");
        assert!(run(&[10], 4, &mut feed));
        assert_eq!(feed.passed, 10);
        assert!(feed.done());
        assert_eq!(seen.loops, [3, 4]);
    }
}
