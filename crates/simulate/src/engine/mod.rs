//! A hierarchy of caches, access by access.
//!
//! **Problem.** Any levels, policies and options, exactly as `docs/simulation.md` says, at hundreds
//! of millions of accesses per second.
//!
//! **Idea.** Nearly all accesses are of one line, in hierarchies whose levels do not reach into
//! each other. Those are dealt with level by level ([`fast`]); whatever is more than that goes
//! through [`Machine`], which is written for being right: caches are a forest of indices, a request
//! goes down, what it evicts goes down behind it, invalidations go up.
//!
//! **Invariant.** The short way does what the other would have done: tests run both.
mod cache;
mod dwell;
mod fast;
mod log;
mod looped;
mod machine;
mod shadow;
mod steps;
mod stream;
mod users;
mod warp;
mod words;

use crate::config::{ConfigError, Hierarchy, Shared};
use crate::counts::{LevelCounts, PointCounts};
use cache::Cache;
use dwell::Dwell;
pub use machine::MemoryRequest;
use machine::{LevelState, Machine, Origin};
use memtrail_model::{Access, AccessSink, Event, Kind, LoopRun, Repeat, Reply, Thread, Wants};
use serde::{Deserialize, Serialize};
use stream::Stream;
use users::Users;
use warp::Watch;

/// To whom an eviction is charged where it is told who evicts whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Charge {
    /// The reference point that brought the line in.
    #[default]
    Owner,
    /// Every reference point that touched it.
    All,
}

/// What is wanted of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which reference point evicts whose lines.
    pub evictors: bool,
    /// Whose lines they are.
    pub charge: Charge,
    /// Compulsory, capacity and conflict misses.
    pub classes: bool,
    /// Which evictions took away what was missed later.
    pub premature: bool,
    /// Instruction fetches as well.
    pub instructions: bool,
    /// Simulate every iteration of every loop, also those that are known to repeat others.
    pub no_skip: bool,
    /// One access after the other, even where a shorter way is known to give the same.
    pub one_by_one: bool,
    /// What leaves the last level, request by request: [`Simulator::memory_requests`].
    pub memory: bool,
}

/// A loop that is being replayed, and how iterations of it may be left out.
#[derive(Debug)]
enum Watched {
    Stream(Stream),
    Warp(Watch),
    Dwell(Dwell),
}

impl Watched {
    /// How many iterations should come before it is asked again; 0 if it need not be.
    fn next(&self) -> u64 {
        match self {
            Watched::Stream(stream) => stream.next(),
            Watched::Warp(warp) => warp.next(),
            Watched::Dwell(dwell) => dwell.next(),
        }
    }
}

/// Loops of no more iterations are simulated sooner than prepared for.
const SHORT_LOOPS: u64 = 8;

/// A thread's way into the hierarchy.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    space: u64,
    /// The first caches for data and for instructions, made when they are first needed.
    data: Option<usize>,
    instructions: Option<usize>,
}

/// Simulates a hierarchy.
#[derive(Debug)]
pub struct Simulator {
    hierarchy: Hierarchy,
    options: Options,
    /// The hierarchy is one that can go the short way, and may.
    plain: bool,
    machine: Machine,
    /// By level: its caches by group of cores.
    groups: Vec<Vec<Option<usize>>>,
    /// By thread.
    entries: Vec<Entry>,
    /// The loops that are being replayed, innermost last.
    watches: Vec<Watched>,
}

impl Simulator {
    pub fn new(hierarchy: &Hierarchy, options: Options) -> Result<Simulator, ConfigError> {
        hierarchy.check()?;
        let level = |_| LevelState::new(options.evictors);
        Ok(Simulator {
            hierarchy: hierarchy.clone(),
            options,
            // The short way does not tell who finds a line.
            plain: fast::is_plain(hierarchy)
                && !options.one_by_one
                && !options.memory
                && options.charge == Charge::Owner,
            machine: Machine {
                caches: Vec::new(),
                levels: hierarchy.levels.iter().map(level).collect(),
                moved: None,
                moved_users: Users::default(),
                credit: warp::CREDIT,
                forget: warp::FORGET,
                noted: Default::default(),
                steps: Default::default(),
                logs: Default::default(),
                skipped: 0,
                memory: options.memory.then(Vec::new),
            },
            groups: vec![Vec::new(); hierarchy.levels.len()],
            entries: Vec::new(),
            watches: Vec::new(),
        })
    }

    /// Results so far, by level.
    pub fn counts(&self) -> Vec<LevelCounts> {
        let levels = self.machine.levels.iter().zip(&self.groups);
        levels
            .map(|(level, groups)| level.counts(groups.iter().flatten().count() as u32))
            .collect()
    }

    /// Results so far of one point at one level.
    pub fn counts_of(&self, level: usize, point: u32) -> PointCounts {
        let level = self.machine.levels.get(level);
        level.map_or_else(PointCounts::default, |level| level.of_point(point))
    }

    /// Writes back all that is dirty, from the first level outwards, as if the program's memory
    /// were read by somebody else now.
    pub fn flush(&mut self) {
        for level in 0..self.groups.len() {
            for cache in self.groups[level].clone().into_iter().flatten() {
                self.machine.flush(cache);
            }
        }
    }

    /// What has left the last level since this was asked last, in order; nothing unless
    /// [`Options::memory`] is set.
    pub fn memory_requests(&mut self) -> impl Iterator<Item = MemoryRequest> + '_ {
        self.machine.memory.iter_mut().flat_map(|requests| requests.drain(..))
    }

    /// How many accesses so far were known to repeat others, and counted without being simulated.
    pub fn skipped(&self) -> u64 {
        self.machine.skipped
    }

    /// What is counted depends on more than what the caches hold.
    fn remembers(&self) -> bool {
        self.options.classes || self.options.premature || self.options.charge == Charge::All
    }

    fn entry(&mut self, thread: Thread) -> &mut Entry {
        let at = thread.0 as usize;
        if self.entries.len() <= at {
            self.entries.resize(at + 1, Entry::default());
        }
        &mut self.entries[at]
    }

    /// The way in for a thread's data, if there is one.
    fn enter(&mut self, thread: Thread) -> Entry {
        let entry = *self.entry(thread);
        if entry.data.is_none() {
            self.entry(thread).data = self.first(thread, |level| level.holds.data());
        }
        *self.entry(thread)
    }

    /// A thread's first cache for instructions.
    fn instructions(&mut self, thread: Thread) -> Option<usize> {
        let known = self.entry(thread).instructions;
        known.or_else(|| {
            let made = self.first(thread, |level| level.holds.instructions());
            self.entry(thread).instructions = made;
            made
        })
    }

    /// A thread's first cache among the levels that a path goes through; makes those that do not
    /// exist yet.
    fn first(&mut self, thread: Thread, on_path: impl Fn(&crate::Level) -> bool) -> Option<usize> {
        let core = self.hierarchy.cores.map_or(thread.0, |cores| thread.0 % cores);
        let mut below = None;
        for number in (0..self.hierarchy.levels.len()).rev() {
            let level = &self.hierarchy.levels[number];
            if !on_path(level) {
                continue;
            }
            let group = match level.shared {
                Shared::All => 0,
                Shared::By(cores) => (core / cores) as usize,
            };
            let groups = &mut self.groups[number];
            if groups.len() <= group {
                groups.resize(group + 1, None);
            }
            let made = groups[group].unwrap_or_else(|| {
                let mut cache = Cache::new(level, number, self.hierarchy.seed, &self.options);
                cache.below = below;
                let made = self.machine.caches.len();
                self.machine.caches.push(cache);
                if let Some(below) = below {
                    self.machine.caches[below].above.push(made);
                }
                made
            });
            self.groups[number][group] = Some(made);
            below = Some(made);
        }
        below
    }

    /// One access, in full.
    fn access(&mut self, access: &Access) {
        let first = match access.kind {
            Kind::Fetch => self.instructions(access.thread),
            _ => self.enter(access.thread).data,
        };
        let Some(first) = first else { return };
        let addr = placed(access.addr, self.entry(access.thread).space);
        let origin = Origin::of(access.point.0, addr, access.size);
        self.machine
            .access(first, access.kind, addr, u64::from(access.size.max(1)), &origin);
    }
}

/// Where an address of an address space lies among all.
#[inline(always)]
pub(crate) fn placed(addr: u64, space: u64) -> u64 {
    if addr < 1 << 47 {
        addr | space
    } else {
        addr
    }
}

impl AccessSink for Simulator {
    fn accesses(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        if self.machine.noted.wants() {
            batch.iter().for_each(|access| self.machine.noted.note(access.point.0));
        }
        if !self.plain {
            return batch.iter().for_each(|access| self.access(access));
        }
        let mut rest = batch;
        while let Some(access) = rest.first() {
            let mut done = 0;
            if access.kind != Kind::Fetch {
                let entry = self.enter(first.thread);
                done = entry.data.map_or(0, |data| self.machine.run(data, entry.space, rest));
            }
            if done == 0 {
                self.access(access);
            }
            rest = &rest[done.max(1)..];
        }
    }

    fn wants(&self) -> Wants {
        Wants {
            fetches: self.options.instructions,
            loops: self.takes_loops().then_some(SHORT_LOOPS),
            repeats: !self.options.no_skip
                && !self.options.one_by_one
                && !self.options.memory
                && !self.remembers()
                && !self.options.instructions,
            ..Wants::default()
        }
    }

    fn event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Loop(run) => self.looped(&run),
            Event::Enter(repeat) => Reply::after(self.enter_repeat(&repeat)),
            Event::Iterated { repeat, done, left } => self.iterated(&repeat, done, left),
            Event::Leave => {
                if self.watches.pop().is_some() {
                    self.machine.noted.end();
                }
                Reply::NOTHING
            }
            Event::Space { thread, space } => {
                self.entry(thread).space = u64::from(space) << 48;
                Reply::NOTHING
            }
            _ => Reply::NOTHING,
        }
    }
}

impl Simulator {
    fn takes_loops(&self) -> bool {
        self.plain && !self.remembers() && !self.options.instructions
    }

    /// Takes a loop whole, if it can.
    fn looped(&mut self, run: &LoopRun<'_>) -> Reply {
        let entry = self.enter(run.thread);
        let fits = self.takes_loops() && (entry.space == 0 || looped::keeps_to_space(run));
        let Some(data) = entry.data.filter(|_| fits) else {
            return Reply::NOTHING;
        };
        self.machine.looped(data, entry.space, run, !self.options.no_skip);
        Reply::skip(run.trips)
    }

    /// Begins to watch a loop. Returns after how many iterations to ask; 0 for never.
    fn enter_repeat(&mut self, repeat: &Repeat<'_>) -> u64 {
        let entry = self.enter(repeat.thread);
        let Some(data) = entry.data else { return 0 };
        let (machine, space) = (&self.machine, entry.space);
        let stream = || Stream::new(machine, data, space, repeat).map(Watched::Stream);
        let warp = || Watch::new(machine, data, space, repeat).map(Watched::Warp);
        let dwell = || Dwell::new(machine, data, space, repeat).map(Watched::Dwell);
        let Some(watch) = stream().or_else(warp).or_else(dwell) else {
            return 0;
        };
        let after = watch.next();
        self.machine.noted.begin();
        self.watches.push(watch);
        after
    }

    /// Leaves out iterations of the innermost loop if they provably repeat what came before.
    fn iterated(&mut self, repeat: &Repeat<'_>, iterations: u64, left: u64) -> Reply {
        let entry = self.enter(repeat.thread);
        let (Some(watch), Some(data)) = (self.watches.last_mut(), entry.data) else {
            return Reply::NOTHING;
        };
        let skip = match watch {
            Watched::Stream(stream) => stream.iterated(&mut self.machine, iterations, left),
            Watched::Warp(warp) => warp.iterated(&mut self.machine, iterations, left),
            Watched::Dwell(dwell) => dwell.iterated(&mut self.machine, iterations, left),
        };
        if skip == 0 && matches!(watch, Watched::Stream(_)) && watch.next() == 0 {
            // It is no stream after all. What is left moves as the whole does, within the same
            // bounds.
            let rest = Repeat { trips: left, ..*repeat };
            let warp = Watch::new(&self.machine, data, entry.space, &rest);
            if let Some(warp) = warp {
                *watch = Watched::Warp(warp);
            }
        }
        Reply {
            skip,
            after: watch.next(),
        }
    }
}
