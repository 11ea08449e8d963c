//! A sweep over a recording of loops that repeat themselves: cache by cache.
//!
//! **Problem.** A sweep goes through every access, once for all caches. Where a recording is mostly
//! loops, a single cache skips nearly all accesses, and all caches, one after the other and on all
//! cores, take less time than one sweep. On any other recording they take many times as long.
//!
//! **Idea.** Try. The largest cache comes first: if the recording does not repeat itself there, a
//! sweep is needed. One cache may simulate 1 in [`PART_OF_ONE`] accesses, and all caches together 1
//! in [`PART_OF_ALL`] of what they would simulate without skipping. When that budget is spent,
//! everything is left to a sweep: a sweep over some of the caches takes nearly as long as one over
//! all.
use super::{Single, SweepConfig, SweepCounts};
use crate::config::ConfigError;
use serde::{Deserialize, Serialize};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, ScopedJoinHandle};

const PART_OF_ONE: u64 = 16;
const PART_OF_ALL: u64 = 64;

/// What was found of one configuration of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    pub config: SweepConfig,
    pub counts: SweepCounts,
    /// Accesses that were known to repeat others, and not simulated one by one.
    pub skipped: u64,
}

/// Simulates each configuration by itself, in the order given, and tells how many accesses there
/// were; `None` if that would take too long. `total` is the number of accesses in the recording.
/// `replay` drives one cache with all of them and returns it with the number of accesses it drove
/// it with; it is called on several threads.
pub fn one_by_one<E: From<ConfigError> + Send>(
    configs: &[SweepConfig],
    total: u64,
    replay: impl Fn(Single) -> Result<(Single, u64), E> + Sync,
) -> Result<Option<(Vec<Swept>, u64)>, E> {
    let budget = AtomicU64::new(total.saturating_mul(configs.len() as u64) / PART_OF_ALL);
    let one = |&at: &usize| -> Result<Option<(usize, Swept, u64)>, E> {
        let allowed = budget.load(Relaxed).min(total / PART_OF_ONE);
        let (single, accesses) = replay(Single::new(&configs[at], allowed)?)?;
        let counts = single.counts();
        // After one failure the budget is 0: the others give up at once.
        let spend = |left: u64| Some(counts.map_or(0, |_| left.saturating_sub(single.simulated())));
        let _ = budget.fetch_update(Relaxed, Relaxed, spend);
        Ok(counts.map(|counts| {
            let swept = Swept {
                config: configs[at],
                counts,
                skipped: accesses - single.simulated(),
            };
            (at, swept, accesses)
        }))
    };
    let mut order: Vec<usize> = (0..configs.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(configs[at].size));
    let (largest, others) = order.split_at(order.len().min(1));
    let mut done = side_by_side(largest, one)?;
    if done.iter().all(Option::is_some) {
        done.extend(side_by_side(others, one)?);
    }
    let done: Option<Vec<(usize, Swept, u64)>> = done.into_iter().collect();
    Ok(done.map(|mut done| {
        done.sort_by_key(|&(at, ..)| at);
        let accesses = done.first().map_or(0, |&(_, _, accesses)| accesses);
        (done.into_iter().map(|(_, swept, _)| swept).collect(), accesses)
    }))
}

/// Does something with each item, on all cores. The results come in no particular order.
pub fn side_by_side<T: Sync, R: Send, E: Send>(
    items: &[T],
    one: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = Mutex::new(items.iter());
    let work = || {
        let mut done = Vec::new();
        loop {
            let item = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            match item {
                Some(item) => done.push(one(item)?),
                None => return Ok(done),
            }
        }
    };
    let cores = available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores.min(items.len())).map(|_| scope.spawn(work)).collect();
        let join = |worker: ScopedJoinHandle<'_, _>| worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        let done: Result<Vec<Vec<R>>, E> = workers.into_iter().map(join).collect();
        Ok(done?.into_iter().flatten().collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::{Access, AccessSink, Event, Kind, LoopAccess, LoopRun, Point, Thread};

    const TRIPS: u64 = 1 << 16;

    fn configs() -> [SweepConfig; 2] {
        [SweepConfig::lru(1024, 64, 2), SweepConfig::lru(4096, 64, 2)]
    }

    #[test]
    fn loops_are_counted_cache_by_cache() {
        let access = LoopAccess {
            pc: 0,
            kind: Kind::Read,
            point: Point(0),
            size: 8,
            addr: 0x1000,
            stride: 0,
        };
        let run = LoopRun {
            thread: Thread(0),
            trips: TRIPS,
            body: &[access],
        };
        let replay = |mut single: Single| {
            let reply = single.event(Event::Loop(run));
            assert_eq!(reply.skip, TRIPS, "a cache takes the loop whole");
            Ok::<_, ConfigError>((single, TRIPS))
        };
        let (swept, accesses) = one_by_one(&configs(), TRIPS, replay).unwrap().unwrap();
        assert_eq!(accesses, TRIPS);
        assert_eq!(swept.iter().map(|s| s.config).collect::<Vec<_>>(), configs());
        for one in swept {
            assert_eq!((one.counts.reads.requests, one.counts.reads.misses), (TRIPS, 1));
        }
    }

    #[test]
    fn what_does_not_repeat_is_left_to_a_sweep() {
        let replay = |mut single: Single| {
            for i in 0..TRIPS {
                let access = Access {
                    pc: 0,
                    addr: i * i * 64,
                    size: 8,
                    point: Point(0),
                    thread: Thread(0),
                    kind: Kind::Read,
                };
                single.accesses(&[access]);
            }
            Ok::<_, ConfigError>((single, TRIPS))
        };
        assert_eq!(one_by_one(&configs(), TRIPS, replay).unwrap(), None);
    }

    #[test]
    fn results_come_from_all_items_or_the_first_error() {
        let mut done = side_by_side(&[1, 2, 3], |n| Ok::<_, String>(n * 2)).unwrap();
        done.sort_unstable();
        assert_eq!(done, [2, 4, 6]);
        let failed = side_by_side(&[1, 2, 3], |n| if *n == 2 { Err("two") } else { Ok(*n) });
        assert_eq!(failed, Err("two"));
    }
}
