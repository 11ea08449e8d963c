//! What a core is like, as a TOML file says it.
//!
//! Every number is in cycles or entries. How latencies add up is defined in `docs/timing.md`.
use crate::micro::UnitClass;
use memtrail_simulate::config::{Holds, Inclusion, Policy, Prefetch, Write};
use memtrail_simulate::{short, ConfigError, Hierarchy, Level};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is wrong with the description of a core.
#[derive(Debug, thiserror::Error)]
pub enum CoreSpecError {
    #[error("not a description of a core: {0}")]
    Form(#[from] Box<toml::de::Error>),
    #[error("{field} = {value}: {why}")]
    Value {
        field: &'static str,
        value: u64,
        why: &'static str,
    },
    #[error("class.{0}: there is no such class of micro-operations")]
    NoClass(String),
    #[error("class.{0} is missing")]
    Missing(&'static str),
    #[error("class.{class}: port {port}: ports are numbered from 0 to {MOST_PORT}")]
    Port { class: String, port: u8 },
    #[error(transparent)]
    Caches(#[from] ConfigError),
    #[error("level {0}: the model of time has only levels that are LRU, write back, allocate, hold no more than others and do not prefetch")]
    Kind(String),
    #[error("level {level}: lines of {line} bytes; all levels must have the same, {first}")]
    Line { level: String, line: u32, first: u32 },
}

/// Ports of a core, the last one.
pub const MOST_PORT: u8 = 31;
/// Entries of any queue at most.
const MOST_ENTRIES: u64 = 1 << 16;
/// Cycles of anything at most.
const MOST_CYCLES: u64 = 1 << 14;

/// How a class of micro-operations is executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    pub latency: u32,
    /// Any of these will do; none are needed if there are none.
    #[serde(default)]
    pub ports: Vec<u8>,
    /// Cycles for which it keeps its port.
    #[serde(default = "one")]
    pub busy: u32,
}

fn one() -> u32 {
    1
}

/// One level of caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelSpec {
    /// As `memtrail sim --cache` takes it.
    pub cache: String,
    /// Cycles for looking it up, on top of those of the levels before it.
    pub latency: u32,
}

/// One level of translation buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbSpec {
    pub entries: u32,
    /// As many as entries for one that is fully associative.
    pub ways: u32,
    /// Cycles that a miss in this level adds.
    pub miss: u32,
}

/// Memory behind the last level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySpec {
    pub banks: u32,
    /// Bytes of a row.
    pub row: u64,
    /// Cycles if the row is open.
    pub open: u32,
    /// Cycles if another one is.
    pub closed: u32,
    /// Cycles for which a line keeps the channel.
    pub transfer: u32,
}

/// Sizes are powers of two, in bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictorSpec {
    /// Local histories, and how long they are.
    pub histories: u32,
    pub history: u32,
    /// Counters by global history; as many choose.
    pub global: u32,
    /// Targets of indirect branches.
    pub targets: u32,
    /// Return addresses, in entries.
    pub returns: u32,
}

/// A core with its caches and memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreSpec {
    pub name: String,
    #[serde(default)]
    pub about: String,
    /// GHz, to turn cycles into time.
    #[serde(default)]
    pub ghz: Option<f64>,
    /// Entries dispatched, and committed, per cycle.
    pub width: u32,
    pub commit: u32,
    /// Entries of the reorder buffer, the scheduler, the load and the store queue.
    pub rob: u32,
    pub scheduler: u32,
    pub loads: u32,
    pub stores: u32,
    /// Misses of the first level that can be under way.
    pub mshrs: u32,
    /// From a store to a load of the same bytes.
    pub forward: u32,
    /// From a branch that was not foreseen to the dispatch of what follows.
    pub mispredict: u32,
    /// A load and its operation, and a comparison and its branch, share an entry.
    #[serde(default)]
    pub fuse: bool,
    /// Lines that a stream prefetcher runs ahead; 0 for none.
    #[serde(default)]
    pub ahead: u32,
    pub class: BTreeMap<String, ClassSpec>,
    pub level: Vec<LevelSpec>,
    #[serde(default)]
    pub tlb: Vec<TlbSpec>,
    pub memory: MemorySpec,
    pub predictor: PredictorSpec,
}

impl CoreSpec {
    /// Reads a description and checks it.
    pub fn parse(text: &str) -> Result<CoreSpec, CoreSpecError> {
        let spec: CoreSpec = toml::from_str(text).map_err(Box::new)?;
        spec.check()?;
        Ok(spec)
    }

    /// The description as a file.
    pub fn to_toml(&self) -> String {
        // Tables of numbers and texts: nothing that TOML does not know.
        toml::to_string(self).unwrap_or_default()
    }

    pub fn check(&self) -> Result<(), CoreSpecError> {
        let entries = [
            ("width", self.width),
            ("commit", self.commit),
            ("rob", self.rob),
            ("scheduler", self.scheduler),
            ("loads", self.loads),
            ("stores", self.stores),
            ("mshrs", self.mshrs),
            ("memory.banks", self.memory.banks),
            ("memory.transfer", self.memory.transfer),
            ("predictor.returns", self.predictor.returns),
        ];
        for (field, value) in entries {
            within(field, value.into(), 1, MOST_ENTRIES, "not between 1 and 65536")?;
        }
        let cycles = [
            ("forward", self.forward),
            ("mispredict", self.mispredict),
            ("memory.open", self.memory.open),
            ("memory.closed", self.memory.closed),
        ];
        for (field, value) in cycles {
            within(field, value.into(), 0, MOST_CYCLES, "more than 16384 cycles")?;
        }
        let bits = [
            ("predictor.histories", self.predictor.histories),
            ("predictor.history", self.predictor.history),
            ("predictor.global", self.predictor.global),
            ("predictor.targets", self.predictor.targets),
        ];
        for (field, value) in bits {
            within(field, value.into(), 1, 24, "not between 1 and 24 bits")?;
        }
        within("ahead", self.ahead.into(), 0, 64, "more than 64 lines")?;
        within("memory.row", self.memory.row, 1, 1 << 40, "not the size of a row")?;
        for tlb in &self.tlb {
            within(
                "tlb.entries",
                tlb.entries.into(),
                1,
                MOST_ENTRIES,
                "not between 1 and 65536",
            )?;
            let why = "does not divide the entries";
            within("tlb.ways", tlb.ways.into(), 1, tlb.entries.into(), why)?;
            within("tlb.ways", (tlb.entries % tlb.ways).into(), 0, 0, why)?;
            within("tlb.miss", tlb.miss.into(), 0, MOST_CYCLES, "more than 16384 cycles")?;
        }
        self.check_classes()?;
        self.hierarchy().map(drop)
    }

    fn check_classes(&self) -> Result<(), CoreSpecError> {
        for (word, class) in &self.class {
            if !UnitClass::ALL.iter().any(|known| known.word() == word) {
                return Err(CoreSpecError::NoClass(word.clone()));
            }
            if let Some(&port) = class.ports.iter().find(|&&port| port > MOST_PORT) {
                let class = word.clone();
                return Err(CoreSpecError::Port { class, port });
            }
            within(
                "class.latency",
                class.latency.into(),
                0,
                MOST_CYCLES,
                "more than 16384 cycles",
            )?;
            within("class.busy", class.busy.into(), 1, 256, "not between 1 and 256 cycles")?;
        }
        let missing = UnitClass::ALL
            .iter()
            .find(|class| !self.class.contains_key(class.word()));
        missing.map_or(Ok(()), |class| Err(CoreSpecError::Missing(class.word())))
    }

    /// A class's, of a checked description.
    pub fn class(&self, class: UnitClass) -> ClassSpec {
        let none = ClassSpec {
            latency: 0,
            ports: Vec::new(),
            busy: 1,
        };
        self.class.get(class.word()).cloned().unwrap_or(none)
    }

    /// Its caches, checked.
    pub fn hierarchy(&self) -> Result<Hierarchy, CoreSpecError> {
        let texts: Vec<&str> = self.level.iter().map(|level| level.cache.as_str()).collect();
        let hierarchy = Hierarchy::of(short::levels(&texts)?);
        hierarchy.check()?;
        for (level, spec) in hierarchy.levels.iter().zip(&self.level) {
            if !is_simple(level) {
                return Err(CoreSpecError::Kind(level.name.clone()));
            }
            let (line, first) = (level.line, hierarchy.levels[0].line);
            if line != first {
                let level = level.name.clone();
                return Err(CoreSpecError::Line { level, line, first });
            }
            within(
                "level.latency",
                spec.latency.into(),
                0,
                MOST_CYCLES,
                "more than 16384 cycles",
            )?;
        }
        Ok(hierarchy)
    }

    /// For data (or instructions): the cycles after which what each level has is there, and after
    /// the last of them, when memory is asked. Latencies add up.
    pub fn reached_after(&self, holds: impl Fn(Holds) -> bool) -> Vec<u32> {
        let hierarchy = self.hierarchy().unwrap_or_default();
        let levels = hierarchy.levels.iter().zip(&self.level);
        let on_path = levels.filter(|(level, _)| holds(level.holds));
        let mut sum = 0;
        let add = |(_, spec): (&Level, &LevelSpec)| {
            sum += spec.latency;
            sum
        };
        on_path.map(add).collect()
    }
}

fn is_simple(level: &Level) -> bool {
    level.policy == Policy::Lru
        && level.write == Write::Back
        && level.allocate
        && level.inclusion == Inclusion::None
        && level.prefetch == Prefetch::None
}

fn within(field: &'static str, value: u64, least: u64, most: u64, why: &'static str) -> Result<(), CoreSpecError> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(CoreSpecError::Value { field, value, why }),
    }
}
