//! One configuration of a sweep by itself, as long as most of what comes can be left out.
//!
//! **Problem.** A sweep goes through every access. A single cache need not: of loops that repeat
//! themselves, iterations are left out, often all but a few of millions. But where that fails, a
//! cache for itself takes a third as long as all of them together.
//!
//! **Idea.** A cache is simulated by itself until it has had to simulate more accesses than it is
//! allowed to. Then it gives up, and its configuration is one for a sweep.
//!
//! **Invariant.** What is counted is what a sweep would count.
use super::{SweepConfig, SweepCounts};
use crate::config::{ConfigError, Hierarchy, Level};
use crate::engine::{Options, Simulator};
use memtrail_model::{Access, AccessSink, Event, Reply, SinkAdapter};

/// A cache that has left nothing out yet is allowed this factor less.
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
        (!self.has_enough()).then_some(SweepCounts {
            reads: traffic.reads,
            writes: traffic.writes,
        })
    }
}

impl SinkAdapter for Single {
    type Inner = Simulator;
    fn inner(&self) -> &Simulator {
        &self.simulator
    }
    fn inner_mut(&mut self) -> &mut Simulator {
        &mut self.simulator
    }

    fn pass(&mut self, batch: &[Access]) {
        self.came += batch.len() as u64;
        self.simulator.accesses(batch);
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        let reply = self.simulator.event(event);
        self.came += match event {
            Event::Loop(run) => reply.skip * run.body.len() as u64,
            Event::Iterated { repeat, .. } => reply.skip * repeat.accesses,
            _ => 0,
        };
        reply
    }

    /// It has given up: sooner if nothing could be left out so far.
    fn has_enough(&self) -> bool {
        let soon = if self.simulator.skipped() == 0 { HOPELESS } else { 1 };
        self.simulated() > self.allowed / soon
    }
}
