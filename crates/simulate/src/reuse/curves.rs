//! Miss-ratio curves over the size of a cache: fully associative and by ways.
use super::{CurvePoint, Reuse};
use crate::config::{ConfigError, Policy, Shared};
use crate::sweep::{grid, Sweep, SweepConfig};
use memtrail_model::{Access, AccessSink, Event, Reply, Thread};
use serde::{Deserialize, Serialize};

/// A curve: LRU caches of ascending size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Curve {
    /// None: fully associative.
    pub ways: Option<u32>,
    pub points: Vec<CurvePoint>,
}

/// Finds miss-ratio curves: a reuse histogram gives the fully associative one, a sweep the others.
///
/// One cache serves all threads. The fully associative curve counts lines touched, the others
/// accesses: they differ by the accesses that have several lines.
///
/// ```
/// use memtrail_model::{Access, AccessSink, Kind, Point, Thread};
/// use memtrail_simulate::reuse::{Curve, Curves};
/// let read = |addr| Access { pc: 0, addr, size: 8, point: Point(0), thread: Thread(0), kind: Kind::Read };
/// let mut curves = Curves::new(64, &[64, 128], &[1]).unwrap();
/// // Two lines that two sets of one way cannot both hold.
/// curves.accesses(&[read(0), read(128), read(0), read(128)]);
/// let misses = |curve: &Curve| curve.points.iter().map(|point| point.counts.reads.misses).collect::<Vec<_>>();
/// assert_eq!(curves.curves().iter().map(misses).collect::<Vec<_>>(), [[4, 4], [4, 2]]);
/// ```
pub struct Curves {
    sizes: Vec<u64>,
    ways: Vec<u32>,
    configs: Vec<SweepConfig>,
    reuse: Reuse,
    /// None if no configuration makes sense.
    sweep: Option<Sweep>,
}

impl Curves {
    /// Of these sizes in bytes and these ways; where a size is no multiple of line × ways, that
    /// curve has no point.
    pub fn new(line: u32, sizes: &[u64], ways: &[u32]) -> Result<Curves, ConfigError> {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let configs = grid(&sizes, &[line], ways, Policy::Lru);
        let sweep = if configs.is_empty() {
            None
        } else {
            Some(Sweep::new(&configs)?.sharing(Shared::All, None))
        };
        Ok(Curves {
            sizes,
            ways: ways.to_vec(),
            configs,
            reuse: Reuse::new(line)?,
            sweep,
        })
    }

    /// Says which address space (process) a thread belongs to; it is 0 otherwise. To be called
    /// before the thread's first access.
    pub fn set_space(&mut self, thread: Thread, space: u32) {
        self.reuse.set_space(thread, space);
        if let Some(sweep) = &mut self.sweep {
            sweep.set_space(thread, space);
        }
    }

    /// One for each number of ways, in the order given, and the fully associative one.
    pub fn curves(&mut self) -> Vec<Curve> {
        let counts = self.sweep.as_mut().map(Sweep::counts).unwrap_or_default();
        let of_ways = |&ways: &u32| {
            let own = self
                .configs
                .iter()
                .zip(&counts)
                .filter(|(config, _)| config.ways == ways);
            Curve {
                ways: Some(ways),
                points: own
                    .map(|(config, &counts)| CurvePoint {
                        size: config.size,
                        counts,
                    })
                    .collect(),
            }
        };
        let mut curves: Vec<Curve> = self.ways.iter().map(of_ways).collect();
        curves.push(Curve {
            ways: None,
            points: self.reuse.histogram().curve(&self.sizes),
        });
        curves
    }
}

impl AccessSink for Curves {
    fn event(&mut self, event: Event<'_>) -> Reply {
        if let Event::Space { thread, space } = event {
            self.set_space(thread, space);
        }
        Reply::NOTHING
    }

    fn accesses(&mut self, batch: &[Access]) {
        self.reuse.accesses(batch);
        if let Some(sweep) = &mut self.sweep {
            sweep.accesses(batch);
        }
    }
}
