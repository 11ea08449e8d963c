//! Results: numbers by dense ids. What each means is said in `docs/simulation.md`.
//!
//! Results of parts that do not influence each other (sets, threads) are added up with `merge`.
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// What a reference point did at a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointCounts {
    pub hits: u64,
    pub misses: u64,
    pub spatial_hits: u64,
    pub prefetch_hits: u64,
    /// Of lines it had brought in.
    pub evictions: u64,
    /// Bytes of those that had been touched.
    pub used_bytes: u64,
    pub classes: Classes,
}

/// Misses by cause; all 0 unless asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl AddAssign for Classes {
    fn add_assign(&mut self, other: Classes) {
        self.compulsory += other.compulsory;
        self.capacity += other.capacity;
        self.conflict += other.conflict;
    }
}

impl AddAssign for PointCounts {
    fn add_assign(&mut self, other: PointCounts) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.spatial_hits += other.spatial_hits;
        self.prefetch_hits += other.prefetch_hits;
        self.evictions += other.evictions;
        self.used_bytes += other.used_bytes;
        self.classes += other.classes;
    }
}

/// Of one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub requests: u64,
    pub misses: u64,
}

impl AddAssign for Requests {
    fn add_assign(&mut self, other: Requests) {
        self.requests += other.requests;
        self.misses += other.misses;
    }
}

/// What happened at a level that is not counted by reference point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.fetches += other.fetches;
        self.prefetches += other.prefetches;
        self.writebacks += other.writebacks;
        self.writebacks_received += other.writebacks_received;
        self.invalidations += other.invalidations;
    }
}

/// One level's results, over all its caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// By point; those that never got here may be missing at the end.
    pub points: Vec<PointCounts>,
    pub traffic: Traffic,
    /// How often a line of the first point was evicted by the second.
    pub evictors: BTreeMap<(u32, u32), u64>,
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
        for (&pair, &n) in &other.evictors {
            *self.evictors.entry(pair).or_default() += n;
        }
        self.caches = self.caches.max(other.caches);
    }
}
