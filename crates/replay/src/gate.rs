//! What stands between a chunk's accesses and whoever wants them: leaves out what comes before the selection, and lets no more
//! through than the chunk's head promises and the selection asks for.
use memtrail_model::{Access, AccessSink, Kind, LoopAccess, LoopRun, Next, Note, Repeat, Thread};

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
    /// The sink wants fetches. They are neither promised nor left out by number: what follows an access goes with the next one.
    pub fetches: bool,
}

/// How many of these are no fetches.
pub(crate) fn count(batch: &[Access]) -> u64 {
    batch.iter().filter(|a| a.kind != Kind::Fetch).count() as u64
}

/// Where the first `n` of these that are no fetches end.
pub(crate) fn end_of(batch: &[Access], n: u64) -> usize {
    if n == 0 {
        return 0;
    }
    let mut left = n;
    let last = batch.iter().position(|a| {
        left -= u64::from(a.kind != Kind::Fetch);
        left == 0
    });
    last.map_or(batch.len(), |i| i + 1)
}

impl<S: AccessSink> Gate<S> {
    pub fn new(sink: S, wanted: u64) -> Gate<S> {
        Gate {
            fetches: sink.wants_fetches(),
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

    /// Accesses of an iteration.
    fn each(&self, run: &LoopRun<'_>) -> u64 {
        let fetches = run
            .body
            .iter()
            .filter(|a| self.fetches && a.kind == Kind::Fetch)
            .count();
        (run.body.len() - fetches) as u64
    }

    /// Accesses among fetches.
    fn mixed(&mut self, mut batch: &[Access]) {
        let mut accesses = count(batch);
        if accesses > self.promised {
            self.surplus = true;
            batch = &batch[..end_of(batch, self.promised)];
            accesses = self.promised;
        }
        self.promised -= accesses;
        if self.skip > accesses {
            self.skip -= accesses;
            return;
        }
        batch = &batch[end_of(batch, self.skip)..];
        accesses -= self.skip;
        self.skip = 0;
        if accesses >= self.wanted {
            batch = &batch[..end_of(batch, self.wanted)];
            accesses = self.wanted;
        }
        self.wanted -= accesses;
        if !batch.is_empty() {
            self.sink.accesses(batch);
        }
    }

    /// Iterations of which some are left out, or not wanted any more.
    fn partly(&mut self, run: &LoopRun<'_>) {
        let each = self.each(run);
        // One is gone through even if all of it is left out: fetches may follow.
        let whole = (self.skip - 1) / each;
        self.skip -= whole * each;
        self.promised -= whole * each;
        let moved = |a: &LoopAccess| LoopAccess {
            addr: a.addr.wrapping_add(whole.wrapping_mul(a.stride)),
            ..*a
        };
        let body: Vec<LoopAccess> = run.body.iter().map(moved).collect();
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
            self.accesses(&batch);
        }
        self.promised = after;
    }
}

impl<S: AccessSink> AccessSink for Gate<S> {
    fn accesses(&mut self, mut batch: &[Access]) {
        if self.fetches {
            return self.mixed(batch);
        }
        if batch.len() as u64 > self.promised {
            self.surplus = true;
            batch = &batch[..self.promised as usize];
        }
        self.promised -= batch.len() as u64;
        if self.skip > 0 {
            let skipped = self.skip.min(batch.len() as u64);
            self.skip -= skipped;
            batch = &batch[skipped as usize..];
        }
        if batch.len() as u64 > self.wanted {
            batch = &batch[..self.wanted as usize];
        }
        self.wanted -= batch.len() as u64;
        if !batch.is_empty() {
            self.sink.accesses(batch);
        }
    }

    fn wants_loops(&self) -> bool {
        self.skip > 0 || self.sink.wants_loops()
    }

    fn short_loops(&self) -> u64 {
        self.sink.short_loops()
    }

    fn looped(&mut self, run: &LoopRun<'_>) -> bool {
        let accesses = run.trips.checked_mul(self.each(run));
        let Some(accesses) = accesses.filter(|&n| n <= self.promised && !run.body.is_empty()) else {
            return false;
        };
        // What follows an access goes with the next one.
        let follows = u64::from(self.fetches);
        if self.skip > 0 && self.skip >= accesses.saturating_add(follows) {
            self.skip -= accesses;
            self.promised -= accesses;
            return true;
        }
        if self.skip > 0 {
            self.partly(run);
            return true;
        }
        let taken = accesses.saturating_add(follows) <= self.wanted && self.sink.wants_loops() && self.sink.looped(run);
        if taken {
            self.promised -= accesses;
            self.wanted -= accesses;
        }
        taken
    }

    fn wants_fetches(&self) -> bool {
        self.fetches
    }

    memtrail_model::hands_on_asides!(sink);

    fn wants_repeats(&self) -> bool {
        self.skip == 0 && self.sink.wants_repeats()
    }

    fn enters(&mut self, repeat: &Repeat<'_>) -> u64 {
        self.sink.enters(repeat)
    }

    fn iterated(&mut self, repeat: &Repeat<'_>, iterations: u64, left: u64) -> Next {
        // Of what is left no more than is wanted, and promised.
        let most = self.wanted.min(self.promised).checked_div(repeat.accesses);
        let next = self.sink.iterated(repeat, iterations, left.min(most.unwrap_or(0)));
        self.wanted -= next.skip * repeat.accesses;
        self.promised -= next.skip * repeat.accesses;
        next
    }

    fn leaves(&mut self) {
        self.sink.leaves();
    }

    fn numbered(&mut self, thread: Thread, number: u64, note: &Note) {
        self.sink.numbered(thread, number, note);
    }

    fn forked(&mut self, thread: Thread, number: u64, child: Option<u32>) {
        match (self.space, child) {
            (Some(parent), Some(child)) => self.sink.forks(parent, child),
            _ => self.sink.forked(thread, number, child),
        }
    }

    fn done(&self) -> bool {
        self.wanted == 0 || self.sink.done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::Point;

    #[derive(Default)]
    struct Seen {
        addresses: Vec<u64>,
        loops: Vec<u64>,
    }
    impl AccessSink for Seen {
        fn accesses(&mut self, batch: &[Access]) {
            self.addresses.extend(batch.iter().map(|a| a.addr));
        }
        fn wants_loops(&self) -> bool {
            true
        }
        fn looped(&mut self, run: &LoopRun<'_>) -> bool {
            self.loops.push(run.trips);
            true
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
    fn a_loop_is_entered_in_the_middle_of_an_iteration() {
        let mut g = gate(7, 100, u64::MAX);
        assert!(g.looped(&run(5, &body())));
        assert_eq!(g.sink.addresses, [1003, 40, 1004]);
        assert_eq!((g.skip, g.promised), (0, 90));
        assert!(g.looped(&run(5, &body())));
        assert_eq!(g.sink.loops, [5]);
        assert_eq!(g.promised, 80);
    }

    #[test]
    fn whole_loops_are_left_out_at_once() {
        let mut g = gate(1 << 50, 1 << 51, 1);
        assert!(g.looped(&run(1 << 49, &body())));
        assert_eq!((g.skip, g.promised), (0, 1 << 50));
        assert!(g.sink.addresses.is_empty() && g.sink.loops.is_empty());
    }

    #[test]
    fn a_loop_of_which_only_a_part_is_wanted_is_not_taken_whole() {
        let mut g = gate(0, 100, 3);
        assert!(!g.looped(&run(5, &body())));
        let mut g = gate(1, 1 << 41, 3);
        assert!(g.looped(&run(1 << 40, &body())));
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
        assert!(!g.looped(&run(3, &body())));
    }
}
