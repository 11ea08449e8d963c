//! The out-of-order window: when each micro-operation is dispatched, issued, complete, committed.
//!
//! **Idea.** Micro-operations come in program order. Entries are dispatched and committed in that
//! order, so those cycles follow from the ones before: the last dispatch, the commit of the entry
//! that has to make room, the issue that frees a place in the scheduler. A micro-operation issues
//! in the first cycle in which its operands are there and an *older* one has left it a port. So
//! nothing depends on what comes later, and each takes constant time (a miss: as long as there are
//! misses under way).
//!
//! **Cycles**, all counted from 0:
//! - *dispatch*: not before the entry before, at most `width` in a cycle; the cycle after the commit
//!   of the entry `rob` before, of the load `loads` before, and after the store `stores` before went
//!   to the cache; the cycle after an issue left a place in the scheduler; not before the barrier
//!   that a branch which was not foreseen, or a miss of instructions, has set.
//! - *issue*: after the dispatch; operands complete, a port free. Classes without ports do not issue.
//! - *complete*: issue plus latency; of loads see [`CoreWindow::load`].
//! - *commit*: all of the entry complete, not before the entry before, at most `commit` in a cycle.
//! - *drain* of a store: after its commit, one a cycle, in order, when its line has come.
//!
//! **Charges.** A cycle in which something commits is *base*. Others belong to the entry that
//! commits next: before its dispatch to what held up dispatch, then to its memory access until that
//! is complete, then to execution.
use crate::cycles::{Calendar, Fills};
use crate::micro::{Micro, Reach, UnitClass, REGISTERS};
use crate::spec::CoreSpec;
use memtrail_simulate::config::Holds;

/// What a cycle went to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Cause {
    /// Something committed.
    Base,
    /// The oldest entry was being executed, or waited for a port.
    Execute,
    /// A branch was not foreseen.
    Branch,
    /// Instructions were not there.
    Fetch,
    /// The store queue was full.
    Stores,
    /// The oldest entry's load was served by this level (as many as there are: memory).
    Level(u8),
}

impl Cause {
    /// How many there are, with levels up to the fifth and memory.
    pub const COUNT: usize = 11;

    #[inline]
    pub fn index(self) -> usize {
        match self {
            Cause::Base => 0,
            Cause::Execute => 1,
            Cause::Branch => 2,
            Cause::Fetch => 3,
            Cause::Stores => 4,
            Cause::Level(level) => 5 + usize::from(level.min(5)),
        }
    }
}

/// Cycles by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charged(pub [u64; Cause::COUNT]);

impl Charged {
    pub fn of(&self, cause: Cause) -> u64 {
        self.0[cause.index()]
    }

    /// Cycles in which a memory access was at the head of the reorder buffer and nothing committed.
    pub fn memory(&self) -> u64 {
        self.0[Cause::Stores.index()..].iter().sum()
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl std::ops::AddAssign for Charged {
    fn add_assign(&mut self, other: Charged) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, more)| *mine += more);
    }
}

/// When a micro-operation went through the core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    pub dispatch: u64,
    /// The dispatch again if it was not issued.
    pub issue: u64,
    pub complete: u64,
    pub commit: u64,
}

#[derive(Clone, Copy, Debug)]
struct UnitTiming {
    latency: u64,
    ports: u32,
    busy: u32,
}

/// The entry that micro-operations are being added to.
#[derive(Clone, Copy, Debug)]
struct OpenEntry {
    dispatch: u64,
    complete: u64,
    /// What held up its dispatch, if something other than the window's size did.
    held: Cause,
    held_tag: u32,
    tag: u32,
    /// Its memory access: when it was complete, which level served it, whose it is.
    memory: Option<(u64, Cause, u32)>,
    load: bool,
    store: Option<PendingStore>,
}

impl OpenEntry {
    const NONE: OpenEntry = OpenEntry {
        dispatch: 0,
        complete: 0,
        held: Cause::Execute,
        held_tag: 0,
        tag: 0,
        memory: None,
        load: false,
        store: None,
    };
}

#[derive(Clone, Copy, Debug)]
struct PendingStore {
    reach: Reach,
    ideal: bool,
    complete: u64,
    tag: u32,
}

/// A store that has been dispatched.
#[derive(Clone, Copy, Debug, Default)]
struct Queued {
    addr: u64,
    size: u64,
    complete: u64,
    drain: u64,
    tag: u32,
}

const GRANULES: usize = 1 << 12;

/// Granules of 8 bytes that an access touches, hashed.
#[inline]
fn granules(addr: u64, size: u32) -> impl Iterator<Item = usize> {
    let (first, last) = (addr >> 3, addr.wrapping_add(u64::from(size.max(1)) - 1) >> 3);
    // Of very large ones (xsave) the first 64: they are found by those.
    (0..=last.wrapping_sub(first).min(63)).map(move |n| first.wrapping_add(n) as usize % GRANULES)
}

/// The last numbers of a queue of fixed size, by age.
#[derive(Clone, Debug)]
struct Ring<T> {
    all: Vec<T>,
    /// The place of the oldest, which is that of the next.
    next: usize,
    count: u64,
}

impl<T: Copy> Ring<T> {
    fn new(size: u32, empty: T) -> Ring<T> {
        Ring {
            all: vec![empty; size as usize],
            next: 0,
            count: 0,
        }
    }

    /// The one that the next has to wait for.
    #[inline]
    fn oldest(&self) -> Option<&T> {
        (self.count >= self.all.len() as u64).then(|| &self.all[self.next])
    }

    #[inline]
    fn push(&mut self, item: T) {
        self.all[self.next] = item;
        self.next += 1;
        if self.next == self.all.len() {
            self.next = 0;
        }
        self.count += 1;
    }

    /// The last `count` of them, the youngest first.
    fn youngest(&self, count: u64) -> impl Iterator<Item = &T> {
        let (after, before) = self.all.split_at(self.next);
        after.iter().rev().chain(before.iter().rev()).take(count as usize)
    }
}

/// A core's window: see the module's head.
#[derive(Clone, Debug)]
pub struct CoreWindow {
    units: [UnitTiming; UnitClass::ALL.len()],
    width: u32,
    commit_width: u32,
    scheduler: u64,
    forward: u64,
    mispredict: u64,
    /// After how many cycles each level's data are there.
    reached: Vec<u64>,
    ready: [u64; REGISTERS],
    dispatched: u64,
    in_cycle: u32,
    barrier: u64,
    barrier_cause: Cause,
    barrier_tag: u32,
    /// Commits of the last entries and loads, and the last stores.
    commits: Ring<u64>,
    loads: Ring<u64>,
    stores: Ring<Queued>,
    /// Stores that may still be in the queue.
    in_queue: u64,
    /// How many stores in the queue touch granules with this hash.
    stored: Vec<u16>,
    last_drain: u64,
    calendar: Calendar,
    fills: Fills,
    /// The entry that micro-operations are added to, if `is_open`.
    entry: OpenEntry,
    is_open: bool,
    last: Times,
    last_tag: u32,
    last_commit: Option<u64>,
    in_commit: u32,
    /// By tag, if wanted.
    charges: Option<Vec<Charged>>,
    log: Option<Vec<Times>>,
    logged: usize,
}

impl CoreWindow {
    /// Of a checked description.
    pub fn new(spec: &CoreSpec) -> CoreWindow {
        let unit = |class: UnitClass| {
            let class = spec.class(class);
            UnitTiming {
                latency: class.latency.into(),
                ports: class.ports.iter().fold(0, |mask, port| mask | 1 << port),
                busy: class.busy,
            }
        };
        let reached = spec.reached_after(Holds::data);
        CoreWindow {
            units: UnitClass::ALL.map(unit),
            width: spec.width,
            commit_width: spec.commit,
            scheduler: spec.scheduler.into(),
            forward: spec.forward.into(),
            mispredict: spec.mispredict.into(),
            reached: reached.into_iter().map(u64::from).collect(),
            ready: [0; REGISTERS],
            dispatched: 0,
            in_cycle: 0,
            barrier: 0,
            barrier_cause: Cause::Execute,
            barrier_tag: 0,
            commits: Ring::new(spec.rob, 0),
            loads: Ring::new(spec.loads, 0),
            stores: Ring::new(spec.stores, Queued::default()),
            in_queue: 0,
            stored: vec![0; GRANULES],
            last_drain: 0,
            calendar: Calendar::new(),
            fills: Fills::new(spec.mshrs, spec.memory.transfer),
            entry: OpenEntry::NONE,
            is_open: false,
            last: Times::default(),
            last_tag: 0,
            last_commit: None,
            in_commit: 0,
            charges: None,
            log: None,
            logged: 0,
        }
    }

    /// Charges cycles to tags, too.
    pub fn charging(mut self) -> CoreWindow {
        self.charges = Some(Vec::new());
        self
    }

    /// Remembers the times of every micro-operation: for tests and small programs.
    pub fn logging(mut self) -> CoreWindow {
        self.log = Some(Vec::new());
        self
    }

    /// The times of all micro-operations of entries that are done with.
    pub fn log(&self) -> &[Times] {
        self.log.as_deref().unwrap_or_default()
    }

    /// By tag.
    pub fn charges(&self) -> &[Charged] {
        self.charges.as_deref().unwrap_or_default()
    }

    /// Cycles until the last commit. Ends the entry that is open.
    pub fn cycles(&mut self) -> u64 {
        self.close();
        self.last_commit.map_or(0, |last| last + 1)
    }

    /// The next micro-operation. `ideal`: if its access misses, that takes a single cycle.
    #[inline]
    pub fn push(&mut self, micro: &Micro, ideal: bool) {
        if !micro.fused || !self.is_open {
            self.close();
            self.dispatch(micro);
        }
        let dispatch = self.entry.dispatch;
        let operands = micro.sources.iter().map(|&s| self.ready[usize::from(s) % REGISTERS]);
        let operands = operands.fold(0, u64::max);
        let unit = self.units[micro.class as usize];
        let (mut issue, mut complete) = (dispatch, operands.max(dispatch) + unit.latency);
        if unit.ports != 0 {
            let from = operands.max(dispatch + 1);
            issue = self.calendar.take(from, unit.ports, unit.busy, self.dispatched);
            complete = issue + unit.latency;
        }
        if let Some(reach) = &micro.reach {
            complete = self.access(micro, reach, issue, complete, ideal);
        }
        for &dest in &micro.dests {
            self.ready[usize::from(dest) % REGISTERS] = complete;
        }
        self.ready[0] = 0;
        self.entry.complete = self.entry.complete.max(complete);
        self.last_tag = micro.tag;
        self.last = Times {
            dispatch,
            issue,
            complete,
            commit: 0,
        };
        if let Some(log) = &mut self.log {
            log.push(self.last);
        }
    }

    /// A load or store that issues, and would be complete but for its access. Returns when it is.
    #[inline]
    fn access(&mut self, micro: &Micro, reach: &Reach, issue: u64, executed: u64, ideal: bool) -> u64 {
        let mut level = reach.level;
        let complete = if micro.class == UnitClass::Store {
            // Whatever has to come for it comes after its commit.
            level = 0;
            let complete = executed + if ideal { 0 } else { u64::from(reach.walk) };
            self.entry.store = Some(PendingStore {
                reach: *reach,
                ideal,
                complete,
                tag: micro.tag,
            });
            complete
        } else {
            self.entry.load = true;
            self.load(issue, reach, ideal)
        };
        self.entry.memory = Some((complete, Cause::Level(level), micro.tag));
        complete
    }

    /// The last micro-operation was a branch that was not foreseen.
    pub fn mispredicted(&mut self) {
        self.hold(self.last.complete + self.mispredict, Cause::Branch);
    }

    /// The next instruction comes so much later.
    pub fn fetch_delay(&mut self, cycles: u64) {
        self.hold(self.barrier.max(self.dispatched) + cycles, Cause::Fetch);
    }

    /// A line is brought in without being asked for, from the cycle in which the last
    /// micro-operation issued.
    pub fn prefetch(&mut self, reach: &Reach) {
        let at = self.last.issue;
        let end = self.come(at, reach);
        self.fills.add(reach.line, at, end, false, self.dispatched);
    }

    fn hold(&mut self, until: u64, cause: Cause) {
        if until > self.barrier {
            (self.barrier, self.barrier_cause, self.barrier_tag) = (until, cause, self.last_tag);
        }
    }

    #[inline]
    fn dispatch(&mut self, micro: &Micro) {
        let mut at = self.dispatched.max(self.barrier);
        let held_by_barrier = self.barrier > self.dispatched;
        let (mut held, mut held_tag) = match held_by_barrier {
            true => (self.barrier_cause, self.barrier_tag),
            false => (Cause::Execute, micro.tag),
        };
        if at == self.dispatched && self.in_cycle == self.width {
            at += 1;
        }
        if let Some(&commit) = self.commits.oldest() {
            at = at.max(commit + 1);
        }
        let is_load = micro.reach.is_some() && micro.class != UnitClass::Store;
        if let Some(&commit) = self.loads.oldest().filter(|_| is_load) {
            at = at.max(commit + 1);
        }
        if let Some(oldest) = self.stores.oldest().filter(|_| micro.class == UnitClass::Store) {
            if oldest.drain + 1 > at {
                at = oldest.drain + 1;
                (held, held_tag) = (Cause::Stores, oldest.tag);
            }
        }
        at = self.calendar.room(at, self.scheduler);
        self.in_cycle = if at == self.dispatched { self.in_cycle + 1 } else { 1 };
        self.dispatched = at;
        self.is_open = true;
        self.entry = OpenEntry {
            dispatch: at,
            complete: at,
            held,
            held_tag,
            tag: micro.tag,
            memory: None,
            load: false,
            store: None,
        };
    }

    /// When what a load reads is there. An older store that is still in the queue hands it on if
    /// it has all of it; if it has a part, the load waits until the store has gone to the cache.
    #[inline]
    fn load(&mut self, issue: u64, reach: &Reach, ideal: bool) -> u64 {
        let at = issue + if ideal { 0 } else { u64::from(reach.walk) };
        if reach.hint {
            self.fetch(at, reach, ideal);
            return issue + 1;
        }
        let Some(store) = self.youngest_store(reach, at) else {
            return self.fetch(at, reach, ideal);
        };
        let behind = reach.addr.wrapping_sub(store.addr);
        let covers = behind < store.size && u64::from(reach.size) <= store.size - behind;
        match covers {
            true => at.max(store.complete) + self.forward,
            false => store.drain + self.first_level(),
        }
    }

    fn first_level(&self) -> u64 {
        self.reached.first().copied().unwrap_or(0)
    }

    /// The youngest store that overlaps and has not gone to the cache by then.
    #[inline]
    fn youngest_store(&mut self, reach: &Reach, at: u64) -> Option<Queued> {
        self.leave_queue();
        if !granules(reach.addr, reach.size).any(|g| self.stored[g] != 0) {
            return None;
        }
        let size = u64::from(reach.size.max(1));
        let overlaps = |store: &&Queued| {
            reach.addr.wrapping_sub(store.addr) < store.size || store.addr.wrapping_sub(reach.addr) < size
        };
        let youngest = self.stores.youngest(self.in_queue).find(overlaps).copied();
        youngest.filter(|store| store.drain > at)
    }

    /// Stores that had gone to the cache by the last dispatch are forgotten.
    fn leave_queue(&mut self) {
        while self.in_queue > 0 {
            let size = self.stores.all.len();
            let place = (self.stores.next + size - self.in_queue as usize) % size;
            let store = self.stores.all[place];
            if store.drain > self.dispatched {
                return;
            }
            self.leave(&store);
        }
    }

    fn leave(&mut self, store: &Queued) {
        granules(store.addr, store.size as u32).for_each(|g| self.stored[g] -= 1);
        self.in_queue -= 1;
    }

    /// When a line is there that is asked for in cycle `at`.
    #[inline]
    fn fetch(&mut self, at: u64, reach: &Reach, ideal: bool) -> u64 {
        let first = self.first_level();
        if reach.level == 0 || ideal {
            self.fills.settle(self.dispatched);
            let there = at + first + u64::from(reach.level != 0);
            return match ideal {
                true => there,
                false => there.max(self.fills.arrival(reach.line)),
            };
        }
        let begin = self.fills.register(at);
        let end = self.come(begin, reach);
        self.fills.add(reach.line, begin, end, true, self.dispatched);
        end
    }

    /// When a line comes whose miss begins in a cycle.
    fn come(&mut self, begin: u64, reach: &Reach) -> u64 {
        match self.reached.get(usize::from(reach.level)) {
            Some(&reached) => begin + reached,
            None => {
                let asked = begin + self.reached.last().copied().unwrap_or(0);
                self.fills.transfer(asked) + u64::from(reach.memory)
            }
        }
    }

    /// The entry that is open commits.
    #[inline]
    fn close(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let entry = &self.entry;
        let mut commit = entry.complete;
        if let Some(last) = self.last_commit {
            commit = commit.max(last + u64::from(self.in_commit == self.commit_width));
        }
        let same = self.last_commit == Some(commit);
        if self.charges.is_some() && !same {
            let entry = *entry;
            self.charge(&entry, commit);
        }
        self.in_commit = if same { self.in_commit + 1 } else { 1 };
        self.last_commit = Some(commit);
        self.commits.push(commit);
        if self.entry.load {
            self.loads.push(commit);
        }
        if let Some(store) = self.entry.store {
            self.drain(&store, commit);
        }
        if let Some(log) = &mut self.log {
            log[self.logged..].iter_mut().for_each(|times| times.commit = commit);
            self.logged = log.len();
        }
    }

    /// A store that has committed goes to the cache.
    fn drain(&mut self, store: &PendingStore, commit: u64) {
        let reach = &store.reach;
        let there = match (store.ideal, reach.level) {
            (true, _) => commit,
            (false, 0) => commit.max(self.fills.arrival(reach.line)),
            (false, _) => self.fetch(commit, reach, false),
        };
        self.leave_queue();
        if let Some(&oldest) = self.stores.oldest() {
            if self.in_queue == self.stores.all.len() as u64 {
                // It has left the queue, or this one would not have been dispatched.
                self.leave(&oldest);
            }
        }
        self.last_drain = there.max(self.last_drain + 1);
        self.stores.push(Queued {
            addr: reach.addr,
            size: reach.size.max(1).into(),
            complete: store.complete,
            drain: self.last_drain,
            tag: store.tag,
        });
        self.in_queue += 1;
        granules(reach.addr, reach.size).for_each(|g| self.stored[g] += 1);
    }

    /// The cycles between the last commit and this one.
    fn charge(&mut self, entry: &OpenEntry, commit: u64) {
        let begin = self.last_commit.map_or(0, |last| last + 1);
        let dispatch = entry.dispatch.clamp(begin, commit);
        let (memory, cause, tag) = entry.memory.unwrap_or((0, Cause::Execute, entry.tag));
        let memory = memory.clamp(dispatch, commit);
        self.add(entry.held_tag, entry.held, dispatch - begin);
        self.add(tag, cause, memory - dispatch);
        self.add(entry.tag, Cause::Execute, commit - memory);
        self.add(entry.tag, Cause::Base, 1);
    }

    fn add(&mut self, tag: u32, cause: Cause, cycles: u64) {
        let Some(charges) = &mut self.charges else { return };
        if cycles == 0 {
            return;
        }
        let at = tag as usize;
        if charges.len() <= at {
            charges.resize(at + 1, Charged::default());
        }
        charges[at].0[cause.index()] += cycles;
    }
}
