//! One configuration of a sweep by itself, as long as most of what comes can be left out.
//!
//! **Problem.** A sweep goes through every access. A single cache need not: of loops that repeat themselves, iterations are left out, often all but a few of millions. But where that
//! fails, a cache for itself takes a third as long as all of them together.
//!
//! **Idea.** A cache is simulated by itself until it has had to simulate more accesses than it is allowed to. Then it gives up, and its configuration is one for a sweep.
//!
//! **Invariant.** What is counted is what a sweep would count.
use super::{SweepConfig, SweepCounts};
use crate::config::{ConfigError, Hierarchy, Level};
use crate::engine::{Options, Simulator};
use memtrail_model::{Access, AccessSink, LoopRun, Next, Repeat, Thread};

/// A cache that has left nothing out yet is allowed so many times less.
const HOPELESS: u64 = 8;

/// A cache of a sweep, simulated by itself. Each thread has one.
pub struct Single {
    simulator: Simulator,
    /// Accesses so far, simulated or left out.
    came: u64,
    /// How many may be simulated.
    allowed: u64,
}

impl Single {
    pub fn new(config: &SweepConfig, allowed: u64) -> Result<Single, ConfigError> {
        config.check()?;
        let mut level = Level::new(config.to_string(), config.size, config.line, config.ways);
        level.policy = config.policy;
        Ok(Single {
            simulator: Simulator::new(&Hierarchy::of(vec![level]), Options::default())?,
            came: 0,
            allowed,
        })
    }

    /// How many accesses have been simulated.
    pub fn simulated(&self) -> u64 {
        self.came - self.simulator.skipped()
    }

    /// What was counted, unless it has given up.
    pub fn counts(&self) -> Option<SweepCounts> {
        let traffic = self.simulator.counts()[0].traffic;
        (!self.done()).then_some(SweepCounts {
            reads: traffic.reads,
            writes: traffic.writes,
        })
    }
}

impl AccessSink for Single {
    fn accesses(&mut self, batch: &[Access]) {
        self.came += batch.len() as u64;
        self.simulator.accesses(batch);
    }
    fn space(&mut self, thread: Thread, space: u32) {
        self.simulator.space(thread, space);
    }
    fn wants_loops(&self) -> bool {
        self.simulator.wants_loops()
    }
    fn short_loops(&self) -> u64 {
        self.simulator.short_loops()
    }
    fn looped(&mut self, run: &LoopRun<'_>) -> bool {
        let taken = self.simulator.looped(run);
        if taken {
            self.came += run.trips * run.body.len() as u64;
        }
        taken
    }
    fn wants_repeats(&self) -> bool {
        self.simulator.wants_repeats()
    }
    fn enters(&mut self, repeat: &Repeat<'_>) -> u64 {
        self.simulator.enters(repeat)
    }
    fn iterated(&mut self, repeat: &Repeat<'_>, iterations: u64, left: u64) -> Next {
        let next = self.simulator.iterated(repeat, iterations, left);
        self.came += next.skip * repeat.accesses;
        next
    }
    fn leaves(&mut self) {
        self.simulator.leaves();
    }
    /// It has given up: sooner if nothing could be left out so far.
    fn done(&self) -> bool {
        let soon = if self.simulator.skipped() == 0 { HOPELESS } else { 1 };
        self.simulated() > self.allowed / soon
    }
}
