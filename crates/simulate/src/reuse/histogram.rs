//! How often each reuse distance was seen.
use crate::counts::Requests;
use crate::sweep::SweepCounts;
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touches {
    pub reads: u64,
    pub writes: u64,
}

impl Touches {
    pub fn total(&self) -> u64 {
        self.reads + self.writes
    }
}

impl AddAssign for Touches {
    fn add_assign(&mut self, other: Touches) {
        self.reads += other.reads;
        self.writes += other.writes;
    }
}

/// Touches with distances in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub from: u64,
    /// Inclusive.
    pub to: u64,
    pub touches: Touches,
}

/// The misses of a fully associative LRU cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Bytes.
    pub size: u64,
    pub counts: SweepCounts,
}

/// Exact: a number for each distance.
///
/// ```
/// use memtrail_model::{Access, AccessSink, Kind, Point, Thread};
/// use memtrail_simulate::reuse::Reuse;
/// let read = |addr| Access { pc: 0, addr, size: 8, point: Point(0), thread: Thread(0), kind: Kind::Read };
/// let mut reuse = Reuse::new(64).unwrap();
/// // Three lines, twice over: the second time each is at distance 2.
/// reuse.accesses(&[read(0), read(64), read(128), read(0), read(64), read(128)]);
/// let histogram = reuse.histogram();
/// assert_eq!((histogram.never().reads, histogram.at(2).reads), (3, 3));
/// // Two lines are too few for them, three are enough.
/// let misses: Vec<u64> = histogram.curve(&[128, 192]).iter().map(|point| point.counts.reads.misses).collect();
/// assert_eq!(misses, [6, 3]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    line: u32,
    distances: Vec<Touches>,
    never: Touches,
}

impl Histogram {
    pub(super) fn new(line: u32) -> Histogram {
        Histogram {
            line,
            distances: Vec::new(),
            never: Touches::default(),
        }
    }

    pub(super) fn slot(&mut self, distance: Option<u64>) -> &mut Touches {
        let Some(distance) = distance else {
            return &mut self.never;
        };
        let distance = distance as usize;
        if self.distances.len() <= distance {
            self.distances
                .resize((distance + 1).next_power_of_two(), Touches::default());
        }
        &mut self.distances[distance]
    }

    /// Bytes of a line.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// At one distance.
    pub fn at(&self, distance: u64) -> Touches {
        self.distances.get(distance as usize).copied().unwrap_or_default()
    }

    /// Of lines that had not been touched before: as many as there are different lines, less those
    /// that a prefetch touched first.
    pub fn never(&self) -> Touches {
        self.never
    }

    /// All.
    pub fn touches(&self) -> Touches {
        self.from(0)
    }

    /// The distances that occur, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Touches)> + '_ {
        let all = self
            .distances
            .iter()
            .enumerate()
            .map(|(distance, &touches)| (distance as u64, touches));
        all.filter(|(_, touches)| *touches != Touches::default())
    }

    /// At this distance, a greater one, or never before.
    fn from(&self, distance: u64) -> Touches {
        let mut sum = self.never;
        self.distances
            .iter()
            .skip(distance as usize)
            .for_each(|&touches| sum += touches);
        sum
    }

    /// What a fully associative LRU cache of so many lines does, each touched line a request of its
    /// own.
    pub fn cache(&self, lines: u64) -> SweepCounts {
        let (all, missed) = (self.touches(), self.from(lines));
        SweepCounts {
            reads: Requests {
                requests: all.reads,
                misses: missed.reads,
            },
            writes: Requests {
                requests: all.writes,
                misses: missed.writes,
            },
        }
    }

    /// The misses of fully associative LRU caches of these sizes (in bytes; of a part of a line
    /// nothing is made).
    pub fn curve(&self, sizes: &[u64]) -> Vec<CurvePoint> {
        let point = |&size: &u64| CurvePoint {
            size,
            counts: self.cache(size / u64::from(self.line)),
        };
        sizes.iter().map(point).collect()
    }

    /// Distances by powers of two, each divided into `1 << sub` equal parts (small ones one by
    /// one), up to the last that occurs.
    pub fn buckets(&self, sub: u32) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = Vec::new();
        let last = self.iter().last().map(|(distance, _)| distance);
        let mut from = 0u64;
        while last.is_some_and(|last| from <= last) {
            let length = if from == 0 {
                1
            } else {
                (1u64 << from.ilog2() >> sub.min(63)).max(1)
            };
            let mut touches = Touches::default();
            (from..from + length).for_each(|distance| touches += self.at(distance));
            buckets.push(Bucket {
                from,
                to: from + length - 1,
                touches,
            });
            from += length;
        }
        buckets
    }

    /// Adds what another found with lines of the same length.
    pub fn merge(&mut self, other: &Histogram) {
        for (distance, touches) in other.iter() {
            *self.slot(Some(distance)) += touches;
        }
        self.never += other.never;
    }
}
