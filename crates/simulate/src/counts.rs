//! Results: numbers by dense ids. What each means is said in `docs/simulation.md`.
//!
//! Results of parts that do not influence each other, such as threads with caches of their own, are
//! added up with `merge`.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{AddAssign, Mul, Sub};

/// What a reference point did at a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PointCounts {
    pub hits: u64,
    pub misses: u64,
    pub spatial_hits: u64,
    pub prefetch_hits: u64,
    /// Of lines it had brought in.
    pub evictions: u64,
    /// Bytes of those that had been touched.
    pub used_bytes: u64,
    /// That left this level, of lines it had brought in.
    pub writebacks: u64,
    pub classes: Classes,
}

/// Misses by cause; all 0 unless asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Classes {
    pub compulsory: u64,
    pub capacity: u64,
    pub conflict: u64,
}

impl PointCounts {
    pub fn accesses(&self) -> u64 {
        self.hits + self.misses
    }
    pub fn temporal_hits(&self) -> u64 {
        self.hits - self.spatial_hits
    }
}

/// Of one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Requests {
    pub requests: u64,
    pub misses: u64,
}

impl Requests {
    /// So many that all missed.
    pub(crate) fn missed(misses: u64) -> Requests {
        Requests {
            requests: misses,
            misses,
        }
    }
}

/// What happened at a level that is not counted by reference point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traffic {
    pub reads: Requests,
    pub writes: Requests,
    pub fetches: Requests,
    /// Lines looked up for prefetches.
    pub prefetches: Requests,
    /// That left this level.
    pub writebacks: u64,
    /// That arrived at it.
    pub writebacks_received: u64,
    /// Lines lost to an inclusive level below.
    pub invalidations: u64,
}

/// Counts are added up, subtracted and multiplied field by field.
macro_rules! arithmetic {
    ($counts:ident { $($field:ident),* }) => {
        impl AddAssign for $counts {
            fn add_assign(&mut self, other: $counts) {
                $(self.$field += other.$field;)*
            }
        }
        impl Sub for $counts {
            type Output = $counts;
            fn sub(self, before: $counts) -> $counts {
                $counts { $($field: self.$field - before.$field),* }
            }
        }
        impl Mul<u64> for $counts {
            type Output = $counts;
            fn mul(self, times: u64) -> $counts {
                $counts { $($field: self.$field * times),* }
            }
        }
    };
}

arithmetic!(Classes {
    compulsory,
    capacity,
    conflict
});
arithmetic!(PointCounts {
    hits,
    misses,
    spatial_hits,
    prefetch_hits,
    evictions,
    used_bytes,
    writebacks,
    classes
});
arithmetic!(Requests { requests, misses });
arithmetic!(Traffic {
    reads,
    writes,
    fetches,
    prefetches,
    writebacks,
    writebacks_received,
    invalidations
});

/// One level's results, over all its caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// By point, up to the last that has counted anything.
    pub points: Vec<PointCounts>,
    pub traffic: Traffic,
    /// How often a line of the first point was evicted by the second.
    pub evictors: BTreeMap<(u32, u32), u64>,
    /// The same, of lines that were missed later; empty unless asked for.
    pub premature: BTreeMap<(u32, u32), u64>,
    /// Caches that were in use.
    pub caches: u32,
}

impl LevelCounts {
    /// All points together.
    pub fn total(&self) -> PointCounts {
        let mut total = PointCounts::default();
        for point in &self.points {
            total += *point;
        }
        total
    }

    pub fn merge(&mut self, other: &LevelCounts) {
        if self.points.len() < other.points.len() {
            self.points.resize(other.points.len(), PointCounts::default());
        }
        for (mine, theirs) in self.points.iter_mut().zip(&other.points) {
            *mine += *theirs;
        }
        self.traffic += other.traffic;
        let add = |mine: &mut BTreeMap<_, u64>, theirs: &BTreeMap<_, u64>| {
            for (&pair, &n) in theirs {
                *mine.entry(pair).or_default() += n;
            }
        };
        add(&mut self.evictors, &other.evictors);
        add(&mut self.premature, &other.premature);
        self.caches += other.caches;
    }
}
