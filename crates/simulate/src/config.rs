//! What a hierarchy of caches is like, and whether that makes sense.
//!
//! The fields are those of the table in `docs/simulation.md`. [`Hierarchy::check`] refuses what has
//! no meaning and names the level and the field; everything behind it takes a checked hierarchy for
//! granted.
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which line makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    Lru,
    Fifo,
    Random,
    /// Tree pseudo-LRU.
    Plru,
}

/// What a level holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    Data,
    Instructions,
    Both,
}

impl Holds {
    pub fn data(self) -> bool {
        self != Holds::Instructions
    }
    pub fn instructions(self) -> bool {
        self != Holds::Data
    }
}

/// What becomes of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    Back,
    Through,
    /// They are treated as reads.
    None,
}

/// What a level has to do with those above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inclusion {
    None,
    Inclusive,
    Exclusive,
}

/// Who uses one cache of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shared {
    /// This number of consecutive cores.
    By(u32),
    All,
}

/// What a level brings in by itself. The number is how many lines, or strides, ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prefetch {
    None,
    Next(u32),
    Stride(u32),
}

/// One level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Bytes of a line.
    pub line: u32,
    pub ways: u32,
    pub policy: Policy,
    pub holds: Holds,
    pub write: Write,
    /// A write that misses brings the line in.
    pub allocate: bool,
    pub inclusion: Inclusion,
    pub shared: Shared,
    pub prefetch: Prefetch,
}

impl Level {
    /// A level with the default of everything but its geometry.
    pub fn new(name: impl Into<String>, size: u64, line: u32, ways: u32) -> Level {
        Level {
            name: name.into(),
            size,
            line,
            ways,
            policy: Policy::Lru,
            holds: Holds::Both,
            write: Write::Back,
            allocate: true,
            inclusion: Inclusion::None,
            shared: Shared::By(1),
            prefetch: Prefetch::None,
        }
    }

    /// Of a checked level.
    pub fn sets(&self) -> u64 {
        self.size / (u64::from(self.line) * u64::from(self.ways))
    }

    /// Lines that fit.
    pub fn lines(&self) -> u64 {
        self.size / u64::from(self.line)
    }
}

/// Levels from the processor outwards.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Hierarchy {
    pub levels: Vec<Level>,
    /// Thread t runs on core t mod this; without it each thread has a core to itself.
    pub cores: Option<u32>,
    /// Of random replacement.
    pub seed: u64,
}

/// Lines of a cache are numbered with 32 bits.
pub const MOST_LINES: u64 = 1 << 31;
pub const LEAST_LINE: u32 = 4;
pub const MOST_LINE: u32 = 4096;
/// Lines or strides that a prefetcher may run ahead.
pub const MOST_AHEAD: u32 = 64;

/// What is wrong with a hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("no cache is given")]
    NoLevels,
    #[error("no level holds data")]
    NoData,
    #[error("cores = 0: there is at least one")]
    NoCores,
    #[error("two levels are called {0}")]
    SameName(String),
    #[error("{level}: {field} = {value}: {why}")]
    Field {
        level: String,
        field: &'static str,
        value: String,
        why: String,
    },
}

impl Level {
    fn wrong(&self, field: &'static str, value: impl fmt::Display, why: impl Into<String>) -> ConfigError {
        ConfigError::Field {
            level: self.name.clone(),
            field,
            value: value.to_string(),
            why: why.into(),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        if !self.line.is_power_of_two() || !(LEAST_LINE..=MOST_LINE).contains(&self.line) {
            let why = format!("a line is a power of two from {LEAST_LINE} to {MOST_LINE} bytes");
            return Err(self.wrong("line", self.line, why));
        }
        if self.ways == 0 {
            return Err(self.wrong("ways", 0, "a set has at least one way"));
        }
        if self.size < u64::from(self.line) {
            return Err(self.wrong("size", self.size, format!("less than a line of {} bytes", self.line)));
        }
        let set = u64::from(self.line) * u64::from(self.ways);
        if self.size % set != 0 || self.size == 0 {
            let why = format!(
                "not a multiple of line x ways = {} x {} = {set} bytes",
                self.line, self.ways
            );
            return Err(self.wrong("size", self.size, why));
        }
        if self.lines() > MOST_LINES {
            return Err(self.wrong("size", self.size, format!("more than {MOST_LINES} lines")));
        }
        if self.policy == Policy::Plru && !self.ways.is_power_of_two() {
            return Err(self.wrong("ways", self.ways, "plru needs a power of two"));
        }
        if self.shared == Shared::By(0) {
            return Err(self.wrong("shared", 0, "a cache belongs to at least one core"));
        }
        if self.inclusion == Inclusion::Exclusive {
            if self.write != Write::Back {
                return Err(self.wrong("inclusion", "exclusive", "an exclusive cache must write back"));
            }
            if self.prefetch != Prefetch::None {
                return Err(self.wrong("inclusion", "exclusive", "an exclusive cache has no prefetcher"));
            }
        }
        match self.prefetch {
            Prefetch::Next(n) | Prefetch::Stride(n) if !(1..=MOST_AHEAD).contains(&n) => {
                Err(self.wrong("prefetch", n, format!("a prefetcher runs 1 to {MOST_AHEAD} ahead")))
            }
            _ => Ok(()),
        }
    }

    /// Whether something can pass through both levels.
    fn meets(&self, other: &Level) -> bool {
        self.holds.data() && other.holds.data() || self.holds.instructions() && other.holds.instructions()
    }

    /// Checks this level against one above it; `next` if there is none between.
    fn check_below(&self, above: &Level, next: bool) -> Result<(), ConfigError> {
        if above.holds == Holds::Both && self.holds != Holds::Both {
            let value = if self.holds == Holds::Data {
                "data"
            } else {
                "instructions"
            };
            return Err(self.wrong("holds", value, format!("{} above it holds both", above.name)));
        }
        let wider = match (above.shared, self.shared) {
            (_, Shared::All) => true,
            (Shared::All, Shared::By(_)) => false,
            (Shared::By(a), Shared::By(b)) => b % a == 0,
        };
        if !wider {
            let why = format!(
                "{} above it is shared by more cores, or not by a part of them",
                above.name
            );
            return Err(self.wrong("shared", Shown(self.shared), why));
        }
        match self.inclusion {
            Inclusion::None => Ok(()),
            Inclusion::Inclusive if self.size < above.size => {
                let why = format!(
                    "an inclusive cache smaller than {} ({} bytes) above it",
                    above.name, above.size
                );
                Err(self.wrong("size", self.size, why))
            }
            Inclusion::Inclusive => Ok(()),
            Inclusion::Exclusive if !next => Ok(()),
            Inclusion::Exclusive if self.line != above.line => {
                let why = format!(
                    "an exclusive cache needs lines as long as those of {} ({})",
                    above.name, above.line
                );
                Err(self.wrong("line", self.line, why))
            }
            Inclusion::Exclusive if above.write != Write::Back => {
                let why = format!("{} above it must write back", above.name);
                Err(self.wrong("inclusion", "exclusive", why))
            }
            Inclusion::Exclusive => Ok(()),
        }
    }
}

/// How many share a cache, as it is written.
pub(crate) struct Shown(pub Shared);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Shared::By(n) => write!(f, "{n}"),
            Shared::All => f.write_str("all"),
        }
    }
}

impl Hierarchy {
    pub fn of(levels: Vec<Level>) -> Hierarchy {
        Hierarchy {
            levels,
            cores: None,
            seed: 0,
        }
    }

    /// Without the levels that hold only instructions, and without instructions in the others: what
    /// is left if no fetches are simulated.
    pub fn data_only(mut self) -> Hierarchy {
        self.levels.retain(|level| level.holds.data());
        self.levels.iter_mut().for_each(|level| level.holds = Holds::Data);
        self
    }

    /// Whether no two threads have a cache in common: then each can be simulated by itself.
    pub fn keeps_threads_apart(&self) -> bool {
        self.cores.is_none() && self.levels.iter().all(|level| level.shared == Shared::By(1))
    }

    /// Whether this makes sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.levels.is_empty() {
            return Err(ConfigError::NoLevels);
        }
        if !self.levels.iter().any(|level| level.holds.data()) {
            return Err(ConfigError::NoData);
        }
        if self.cores == Some(0) {
            return Err(ConfigError::NoCores);
        }
        for (i, level) in self.levels.iter().enumerate() {
            level.check()?;
            let above = &self.levels[..i];
            if above.iter().any(|other| other.name == level.name) {
                return Err(ConfigError::SameName(level.name.clone()));
            }
            let meeting: Vec<&Level> = above.iter().filter(|other| other.meets(level)).collect();
            let has = |path: fn(Holds) -> bool| !path(level.holds) || above.iter().any(|other| path(other.holds));
            let (value, entered) = match level.inclusion {
                Inclusion::None => ("none", true),
                Inclusion::Inclusive => ("inclusive", !meeting.is_empty()),
                // Nothing may get into it but from above.
                Inclusion::Exclusive => ("exclusive", has(Holds::data) && has(Holds::instructions)),
            };
            if !entered {
                return Err(level.wrong("inclusion", value, "there is no level above it"));
            }
            for (j, other) in meeting.iter().enumerate() {
                let next = !meeting[j + 1..].iter().any(|between| between.meets(other));
                level.check_below(other, next)?;
            }
        }
        Ok(())
    }
}
