//! Many configurations of one level of data cache, in one pass.
//!
//! Simulating each by itself would cost as much as their number says. What they have in common is
//! used instead:
//! - most touches are hits in all of them, and one look tells ([`front`]);
//! - of LRU, a list of the lines of each set in order of last use gives all associativities: a line
//!   at distance *d* is in the cache if there are more than *d* ways (Mattson et al., 1970). A list
//!   per line size and number of sets will do;
//! - a line that is most recent under few sets is so under a multiple of them ([`chain`]; Hill and
//!   Smith, 1989): most touches end at the first list;
//! - what a loop touches over and over, round after round, changes nothing from the second round
//!   on, and counts alike in each ([`rounds`], [`shapes`]);
//! - what can be left out under some lines can be left out under longer ones ([`stage`]);
//! - lists are short and hold short numbers ([`pages`]), so that finding a line and moving it to
//!   the front is some twenty instructions without a branch ([`lanes`]).
//!
//! FIFO has no such inclusion: each configuration has its own lists, which see only touches of
//! lines that are not the most recent.
//!
//! Where iterations of loops can be left out, caches by themselves are faster still ([`Single`]).
//!
//! An access of several lines misses where any of its lines misses: at the greatest of its lines'
//! distances ([`tally`]).
mod chain;
mod deep;
mod forest;
pub(crate) mod front;
mod full;
pub(crate) mod lanes;
mod packed;
pub(crate) mod pages;
mod plan;
mod rounds;
mod shapes;
mod single;
mod singles;
pub(crate) mod spaces;
mod stage;
mod tally;
mod workers;

pub use single::Single;
pub use singles::{one_by_one, side_by_side, Swept};

use crate::config::{ConfigError, Hierarchy, Level, Policy, Shared};
use crate::counts::Requests;
use crate::draft::show_size;
use front::{Batch, Common, Front};
use memtrail_model::{Access, AccessSink, Event, Reply, Thread};
use serde::{Deserialize, Serialize};
use spaces::Spaces;
use std::fmt;
use std::ops::AddAssign;
use workers::{Caches, Workers};

/// One configuration of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SweepConfig {
    /// Bytes.
    pub size: u64,
    /// Bytes of a line.
    pub line: u32,
    pub ways: u32,
    /// LRU or FIFO.
    pub policy: Policy,
}

impl SweepConfig {
    pub fn lru(size: u64, line: u32, ways: u32) -> SweepConfig {
        SweepConfig {
            size,
            line,
            ways,
            policy: Policy::Lru,
        }
    }

    /// Of a checked configuration.
    pub fn sets(&self) -> u64 {
        self.size / (u64::from(self.line) * u64::from(self.ways))
    }

    /// Whether this makes sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut level = Level::new(self.to_string(), self.size, self.line, self.ways);
        level.policy = self.policy;
        Hierarchy::of(vec![level]).check()?;
        match self.policy {
            Policy::Lru | Policy::Fifo => Ok(()),
            Policy::Random | Policy::Plru => Err(ConfigError::Field {
                level: self.to_string(),
                field: "policy",
                value: if self.policy == Policy::Random {
                    "random"
                } else {
                    "plru"
                }
                .to_string(),
                why: "a sweep knows lru and fifo".to_string(),
            }),
        }
    }
}

impl From<&Level> for SweepConfig {
    /// What a sweep needs to know of a level: of [`crate::spec::configurations`], say.
    fn from(level: &Level) -> SweepConfig {
        SweepConfig {
            size: level.size,
            line: level.line,
            ways: level.ways,
            policy: level.policy,
        }
    }
}

impl fmt::Display for SweepConfig {
    /// As on the command line: `32K:64:8`, with `:fifo` unless LRU.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", show_size(self.size), self.line, self.ways)?;
        match self.policy {
            Policy::Lru => Ok(()),
            Policy::Fifo => f.write_str(":fifo"),
            Policy::Random => f.write_str(":random"),
            Policy::Plru => f.write_str(":plru"),
        }
    }
}

/// All configurations of these sizes, lines and ways that make sense: where the size is a multiple
/// of line × ways.
///
/// ```
/// use memtrail_simulate::config::Policy;
/// use memtrail_simulate::sweep::grid;
/// // 4 lines do not fill 8 ways.
/// let configs = grid(&[256, 1024], &[64], &[4, 8], Policy::Lru);
/// assert_eq!(configs.iter().map(|c| c.to_string()).collect::<Vec<_>>(), ["256:64:4", "1K:64:4", "1K:64:8"]);
/// ```
pub fn grid(sizes: &[u64], lines: &[u32], ways: &[u32], policy: Policy) -> Vec<SweepConfig> {
    let mut configs = Vec::new();
    for &line in lines {
        for &size in sizes {
            let fitting = ways.iter().map(|&ways| SweepConfig {
                size,
                line,
                ways,
                policy,
            });
            configs.extend(fitting.filter(|config| config.check().is_ok()));
        }
    }
    configs
}

/// What a configuration did. Prefetches bring lines in but are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepCounts {
    pub reads: Requests,
    pub writes: Requests,
}

impl SweepCounts {
    pub fn total(&self) -> Requests {
        let mut total = self.reads;
        total += self.writes;
        total
    }
}

impl AddAssign for SweepCounts {
    fn add_assign(&mut self, other: SweepCounts) {
        self.reads += other.reads;
        self.writes += other.writes;
    }
}

enum Back {
    Here(Caches),
    Workers(Workers),
}

/// Simulates many configurations at once.
///
/// ```
/// use memtrail_model::{Access, AccessSink, Kind, Point, Thread};
/// use memtrail_simulate::sweep::{Sweep, SweepConfig};
/// // Two lines that share the only set of two ways' cache, and the second of two sets of one way.
/// let configs = [SweepConfig::lru(128, 64, 2), SweepConfig::lru(128, 64, 1)];
/// let mut sweep = Sweep::new(&configs).unwrap();
/// let read = |addr| Access { pc: 0, addr, size: 8, point: Point(0), thread: Thread(0), kind: Kind::Read };
/// sweep.accesses(&[read(64), read(192), read(64), read(192)]);
/// let misses: Vec<u64> = sweep.counts().iter().map(|counts| counts.reads.misses).collect();
/// assert_eq!(misses, [2, 4]);
/// ```
pub struct Sweep {
    configs: usize,
    common: Common,
    shared: Shared,
    cores: Option<u32>,
    spaces: Spaces,
    /// By cache.
    fronts: Vec<Option<Front>>,
    back: Back,
}

impl Sweep {
    /// One cache for each thread, as for a single level by default. An error names the
    /// configuration.
    pub fn new(configs: &[SweepConfig]) -> Result<Sweep, ConfigError> {
        Sweep::on(configs, 1)
    }

    /// The same on so many more cores; with 1, in the caller itself. The counts do not depend on
    /// it.
    pub fn on(configs: &[SweepConfig], workers: usize) -> Result<Sweep, ConfigError> {
        if configs.is_empty() {
            return Err(ConfigError::NoLevels);
        }
        configs.iter().try_for_each(SweepConfig::check)?;
        let nodes = plan::nodes(configs);
        let shapes: Vec<(u32, u64)> = nodes.iter().map(|node| (node.line, node.sets)).collect();
        let common = Common::of(&shapes);
        let back = if workers <= 1 {
            Back::Here(Caches::new(nodes, common.shortest))
        } else {
            Back::Workers(Workers::new(plan::divide(nodes, workers), common.shortest))
        };
        Ok(Sweep {
            configs: configs.len(),
            common,
            shared: Shared::By(1),
            cores: None,
            spaces: Spaces::default(),
            fronts: Vec::new(),
            back,
        })
    }

    /// Which threads share a cache: as a level's `shared` and a hierarchy's `cores`. To be called
    /// before the first access.
    pub fn sharing(mut self, shared: Shared, cores: Option<u32>) -> Sweep {
        self.shared = shared;
        self.cores = cores;
        self
    }

    /// Says which address space (process) a thread belongs to; it is 0 otherwise. To be called
    /// before the thread's first access.
    pub fn set_space(&mut self, thread: Thread, space: u32) {
        self.spaces.set(thread, space);
    }

    /// By configuration, in the order they were given.
    pub fn counts(&mut self) -> Vec<SweepCounts> {
        let mut requests = SweepCounts::default();
        for (cache, front) in self.fronts.iter_mut().enumerate() {
            if let Some(front) = front {
                front.flush(&mut |batch| self.back.take(cache, batch));
                requests.reads.requests += front.reads;
                requests.writes.requests += front.writes;
            }
        }
        let mut counts = vec![requests; self.configs];
        self.back.each_result(&mut |config, (reads, writes)| {
            counts[config].reads.misses += reads;
            counts[config].writes.misses += writes;
        });
        counts
    }

    /// The cache a thread uses.
    fn cache(&self, thread: Thread) -> usize {
        let core = self.cores.map_or(thread.0, |cores| thread.0 % cores.max(1));
        match self.shared {
            Shared::By(cores) => (core / cores.max(1)) as usize,
            Shared::All => 0,
        }
    }
}

impl Back {
    fn take(&mut self, cache: usize, batch: &mut Batch) {
        match self {
            Back::Here(caches) => caches.take(cache, batch),
            Back::Workers(workers) => workers.take(cache, batch),
        }
    }

    fn each_result(&mut self, see: &mut dyn FnMut(usize, (u64, u64))) {
        match self {
            Back::Here(caches) => caches.each_result(see),
            Back::Workers(workers) => workers.each_result(see),
        }
    }
}

impl AccessSink for Sweep {
    fn event(&mut self, event: Event<'_>) -> Reply {
        if let Event::Space { thread, space } = event {
            self.set_space(thread, space);
        }
        Reply::NOTHING
    }

    fn accesses(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        let cache = self.cache(first.thread);
        let space = self.spaces.of(first.thread);
        if self.fronts.len() <= cache {
            self.fronts.resize_with(cache + 1, || None);
        }
        let front = self.fronts[cache].get_or_insert_with(|| Front::new(self.common));
        let back = &mut self.back;
        front.take(batch, space, &mut |full| back.take(cache, full));
    }
}
