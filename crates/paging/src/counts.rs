//! Results: what translation cost, by reference point.
use crate::config::MOST_TLB_LEVELS;
use crate::mmu::walk_point;
use memtrail_simulate::{Hierarchy, LevelCounts};
use std::ops::AddAssign;

/// What the translations of a reference point needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranslationCounts {
    /// By TLB level. A level that holds no pages of a size misses all of those.
    pub misses: [u64; MOST_TLB_LEVELS],
    /// Misses of the last level.
    pub walks: u64,
    /// Reads of table entries by walks.
    pub requests: u64,
}

impl AddAssign for TranslationCounts {
    fn add_assign(&mut self, other: TranslationCounts) {
        for (mine, theirs) in self.misses.iter_mut().zip(other.misses) {
            *mine += theirs;
        }
        self.walks += other.walks;
        self.requests += other.requests;
    }
}

/// Who served the requests of walks, and how long that took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkTotals {
    /// By level of the hierarchy.
    pub served: Vec<u64>,
    /// Requests that left the last level.
    pub memory: u64,
    pub cycles: u64,
}

impl AddAssign<&WalkTotals> for WalkTotals {
    fn add_assign(&mut self, other: &WalkTotals) {
        self.served.resize(self.served.len().max(other.served.len()), 0);
        for (mine, theirs) in self.served.iter_mut().zip(&other.served) {
            *mine += theirs;
        }
        self.memory += other.memory;
        self.cycles += other.cycles;
    }
}

/// What things cost, in cycles. No machine says so of itself: the defaults are those of a server of
/// these years, in round numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// A hit in a level of the hierarchy.
    pub caches: Vec<u64>,
    pub memory: u64,
    /// A hit in a TLB level behind the first, beyond a hit in the first.
    pub tlbs: [u64; MOST_TLB_LEVELS],
}

impl Latencies {
    /// Of a hierarchy: 4, 14 and 50 cycles for the levels of data, 200 for memory, 7 for the second
    /// TLB level.
    pub fn of(hierarchy: &Hierarchy) -> Latencies {
        let mut usual = [4, 14, 50].into_iter();
        let mut last = 4;
        let mut latency = |data: bool| {
            if data {
                last = usual.next().unwrap_or(last);
            }
            last
        };
        Latencies {
            caches: hierarchy
                .levels
                .iter()
                .map(|level| latency(level.holds.data()))
                .collect(),
            memory: 200,
            tlbs: [0, 7, 20],
        }
    }

    /// The requests of one point at each level, and the time they took.
    pub fn served(&self, hierarchy: &Hierarchy, counts: &[LevelCounts], point: u32) -> WalkTotals {
        let at = |level: &LevelCounts| level.points.get(point as usize).copied().unwrap_or_default();
        let mut totals = WalkTotals::default();
        for (number, level) in counts.iter().enumerate() {
            let counts = at(level);
            totals.served.push(counts.hits);
            totals.cycles += counts.hits * self.caches.get(number).copied().unwrap_or(0);
            if hierarchy.levels[number].holds.data() {
                totals.memory = counts.misses;
            }
        }
        totals.cycles += totals.memory * self.memory;
        totals
    }

    /// Those of the walks on behalf of a reference point.
    pub fn walks(&self, hierarchy: &Hierarchy, counts: &[LevelCounts], point: u32) -> WalkTotals {
        self.served(hierarchy, counts, walk_point(point))
    }

    /// Time spent in TLBs behind the first.
    pub fn tlb_cycles(&self, counts: &TranslationCounts, depth: usize) -> u64 {
        let hits = |level: usize| counts.misses[level - 1] - counts.misses[level];
        (1..depth).map(|level| hits(level) * self.tlbs[level]).sum()
    }
}
