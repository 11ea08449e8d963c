//! The accesses of a nest of loops, each with the iteration it was made in.
//!
//! **Problem.** To put a loop's iterations in another order one must know which iteration each
//! access belongs to. A recording has loops of its own, found by compression, which need not be the
//! program's.
//!
//! **Idea.** Every executed instruction comes as a fetch. Which loops an instruction is in is known
//! from the control flow; executing the header of a loop that is active begins its next iteration,
//! and executing an instruction that is not in it leaves it. What a called function does belongs to
//! the iteration that calls it.
//!
//! **Coordinates.** The outermost loop of a nest, its *root*, is level 0. An access has, for each
//! level, the number of the iteration and a *branch*: which of the loops that lie beside each other
//! in the level above it is in. What stands in an outer loop between inner ones belongs to no
//! iteration of an inner loop. So that all accesses can be ordered alike it is *sunk*: what comes
//! before an inner loop counts to that one's first iteration, what comes after the last inner loop
//! to that one's last.
//!
//! **Bound.** Whole iterations of the root are collected until there are as many accesses as asked
//! for. A root whose first iteration has four times as many is refused: one of its inner loops may
//! do.
use memtrail_model::{Access, AccessSink, Event, Flow, Kind, Reply, Thread, Wants};

/// Levels of a nest that are told apart.
pub const LEVELS: usize = 4;

/// Where a fetched instruction stands in the nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The loops around it, the root first.
    pub loops: Vec<u32>,
    /// It is the header of the innermost of them.
    pub header: bool,
}

/// When an access is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Coordinates {
    /// How often the root was entered before.
    pub instance: u32,
    /// By level: the iteration.
    pub index: [u32; LEVELS],
    /// By level: which of the loops of the iteration above it.
    pub branch: [u8; LEVELS],
}

/// An access, and when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    pub access: Access,
    pub at: Coordinates,
}

/// That an access is not in a loop of this level but beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sunk {
    /// Number of the access.
    pub access: u32,
    pub level: u8,
    /// It comes after the loop, not before it.
    pub after: bool,
    /// Number of the entry of the loop that it is beside: see [`Window::trips`].
    pub entry: u32,
}

/// Iterations of a nest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// In the order in which they were made.
    pub accesses: Vec<Captured>,
    pub sunk: Vec<Sunk>,
    /// By entry of an inner loop: its iterations.
    pub trips: Vec<u32>,
    /// By level: the loops of its branches.
    pub loops: Vec<Vec<u32>>,
    /// Iterations of the root that are complete.
    pub iterations: u64,
    /// The root went on after these.
    pub cut: bool,
}

impl Window {
    /// Levels that there are.
    pub fn levels(&self) -> usize {
        self.loops.len()
    }
}

/// An active loop.
#[derive(Clone, Copy, Debug)]
struct Active {
    number: u32,
    entry: u32,
}

/// The loop that was left last in the iteration of the level above.
#[derive(Clone, Copy, Debug)]
struct LastChild {
    at: Coordinates,
    /// By level, of those below: entries.
    entries: [Option<u32>; LEVELS],
}

/// Collects a window: see the module's head.
pub struct Capture {
    thread: Option<Thread>,
    /// By reference point, for fetches in the nest.
    standing: Vec<Option<Standing>>,
    budget: usize,
    window: Window,
    active: Vec<Active>,
    at: Coordinates,
    /// Calls that the nest made and that have not returned.
    calls: u32,
    /// By level: accesses of the current iteration of which it is not known yet what loop they are
    /// beside.
    pending: [Vec<u32>; LEVELS],
    last: [Option<LastChild>; LEVELS],
    instances: u32,
    done: bool,
    too_large: bool,
    /// Accesses when the current iteration of the root began.
    begun: usize,
}

impl Capture {
    /// `standing` by reference point of fetches; `thread`: the one that is followed, or else the
    /// first that enters the root. About `budget` accesses are wanted.
    pub fn new(standing: Vec<Option<Standing>>, thread: Option<Thread>, budget: usize) -> Capture {
        Capture {
            thread,
            standing,
            budget,
            window: Window::default(),
            active: Vec::new(),
            at: Coordinates::default(),
            calls: 0,
            pending: Default::default(),
            last: [None; LEVELS],
            instances: 0,
            done: false,
            too_large: false,
            begun: 0,
        }
    }

    /// What was collected; nothing if a single iteration of the root is too large, or if the root
    /// was never entered.
    pub fn finish(mut self) -> Option<Window> {
        if !self.active.is_empty() {
            self.leave_all();
        }
        let complete = !self.too_large && !self.window.accesses.is_empty();
        complete.then_some(self.window)
    }

    fn level(&self) -> usize {
        self.active.len() - 1
    }

    fn access(&mut self, access: &Access) {
        if self.active.is_empty() || access.kind == Kind::Prefetch {
            return;
        }
        let level = self.level();
        let number = self.window.accesses.len() as u32;
        self.pending[level].push(number);
        self.window.accesses.push(Captured {
            access: *access,
            at: self.at,
        });
        if self.window.accesses.len() - self.begun > 4 * self.budget {
            (self.too_large, self.done) = (true, true);
        }
    }

    fn fetch(&mut self, access: &Access) {
        if self.calls > 0 && !self.active.is_empty() {
            return;
        }
        let standing = self.standing.get_mut(access.point.index()).and_then(Option::take);
        let Some(here) = standing else {
            return self.leave_all();
        };
        let depth = here.loops.len().min(LEVELS);
        let common = self.active.iter().zip(&here.loops[..depth]);
        let common = common.take_while(|(active, number)| active.number == **number).count();
        while self.active.len() > common {
            self.leave();
        }
        let entered = depth > common;
        for &number in &here.loops[common..depth] {
            self.enter(number);
        }
        if here.header && !entered && here.loops.len() <= LEVELS {
            self.next();
        }
        self.standing[access.point.index()] = Some(here);
    }

    fn enter(&mut self, number: u32) {
        let level = self.active.len();
        if level == 0 {
            self.at = Coordinates {
                instance: self.instances,
                ..Coordinates::default()
            };
            self.instances += 1;
            self.calls = 0;
            self.begun = self.window.accesses.len();
        }
        if self.window.loops.len() == level {
            self.window.loops.push(Vec::new());
        }
        let loops = &mut self.window.loops[level];
        let branch = loops.iter().position(|&known| known == number).unwrap_or_else(|| {
            loops.push(number);
            loops.len() - 1
        });
        self.at.index[level] = 0;
        self.at.branch[level] = branch.min(usize::from(u8::MAX)) as u8;
        let entry = self.window.trips.len() as u32;
        self.window.trips.push(1);
        self.active.push(Active { number, entry });
        self.last[level] = None;
        if level > 0 {
            // What came before this loop, in the iteration around it, counts to its first
            // iteration.
            for access in std::mem::take(&mut self.pending[level - 1]) {
                self.sink(access, level, self.at, entry, false);
                self.pending[level].push(access);
            }
        }
    }

    fn sink(&mut self, access: u32, level: usize, at: Coordinates, entry: u32, after: bool) {
        let captured = &mut self.window.accesses[access as usize];
        captured.at.index[level] = at.index[level];
        captured.at.branch[level] = at.branch[level];
        self.window.sunk.push(Sunk {
            access,
            level: level as u8,
            after,
            entry,
        });
    }

    /// An iteration of the innermost active loop has ended.
    fn settle(&mut self) {
        let level = self.level();
        let pending = std::mem::take(&mut self.pending[level]);
        let Some(last) = self.last[level] else { return };
        for access in pending {
            for below in level + 1..LEVELS {
                if let Some(entry) = last.entries[below] {
                    self.sink(access, below, last.at, entry, true);
                }
            }
        }
        self.last[level] = None;
    }

    fn next(&mut self) {
        self.settle();
        let level = self.level();
        self.at.index[level] += 1;
        let entry = self.active[level].entry as usize;
        self.window.trips[entry] += 1;
        if level == 0 {
            self.window.iterations += 1;
            self.begun = self.window.accesses.len();
            if self.window.accesses.len() >= self.budget {
                (self.done, self.window.cut) = (true, true);
            }
        }
    }

    /// The innermost active loop as the last child of the one around it.
    fn last_child(&self) -> LastChild {
        let level = self.level();
        let mut child = LastChild {
            at: self.at,
            entries: [None; LEVELS],
        };
        if let Some(below) = &self.last[level] {
            child = *below;
            child.at.index[..=level].copy_from_slice(&self.at.index[..=level]);
            child.at.branch[..=level].copy_from_slice(&self.at.branch[..=level]);
        }
        child.entries[level] = Some(self.active[level].entry);
        child
    }

    /// Leaves the innermost active loop.
    fn leave(&mut self) {
        let level = self.level();
        let child = self.last_child();
        self.settle();
        self.active.pop();
        self.at.index[level] = 0;
        self.at.branch[level] = 0;
        match level {
            // Of a window that was cut the last iteration has been counted.
            0 if self.window.cut => {}
            0 => {
                self.window.iterations += 1;
                self.done |= self.window.accesses.len() >= self.budget;
            }
            _ => self.last[level - 1] = Some(child),
        }
    }

    fn leave_all(&mut self) {
        while !self.active.is_empty() {
            self.leave();
        }
    }

    fn flow(&mut self, flow: Flow) {
        if self.active.is_empty() {
            return;
        }
        match flow {
            Flow::Call { .. } => self.calls += 1,
            Flow::Return { .. } if self.calls > 0 => self.calls -= 1,
            Flow::Return { .. } => self.leave_all(),
            _ => {}
        }
    }
}

impl AccessSink for Capture {
    fn accesses(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        if self.thread.is_some_and(|thread| thread != first.thread) {
            return;
        }
        for access in batch {
            if self.done {
                return;
            }
            match access.kind {
                Kind::Fetch => self.fetch(access),
                _ => self.access(access),
            }
            if !self.active.is_empty() {
                self.thread = Some(access.thread);
            }
        }
    }

    fn wants(&self) -> Wants {
        Wants {
            fetches: true,
            flows: true,
            ..Wants::default()
        }
    }

    fn event(&mut self, event: Event<'_>) -> Reply {
        if let Event::Flow { thread, flow } = event {
            if self.thread == Some(thread) && !self.done {
                self.flow(flow);
            }
        }
        Reply::NOTHING
    }

    fn done(&self) -> bool {
        self.done
    }
}
