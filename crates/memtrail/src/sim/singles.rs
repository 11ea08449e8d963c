//! A sweep over a recording of loops that repeat themselves: cache by cache.
//!
//! **Problem.** A sweep goes through every access, once for all caches. Of a recording that is mostly loops, a single cache leaves nearly all accesses out, and all of them, one after the other and
//! on all cores, take less time than one sweep. Of any other recording they take many times as long.
//!
//! **Idea.** Try. The largest cache comes first: what does not repeat itself there can at once be left to a sweep. No cache may simulate more than a small part of the accesses, nor all together more than a larger one;
//! as soon as that is too little, all is left to a sweep. What the attempt has cost is little beside that. It is all or nothing: a sweep of some of the caches takes nearly as long as one of all.
use super::args::SimArgs;
use super::feed::Feed;
use super::{replay_thread, side_by_side, threads, total, Swept};
use crate::progress::Progress;
use memtrail_replay::Selection;
use memtrail_simulate::sweep::{Single, SweepConfig};
use memtrail_trace::Known;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One cache may simulate one in so many accesses.
const PART_OF_ONE: u64 = 16;
/// And all together, as many times this as there are caches.
const PART_OF_ALL: u64 = 64;

/// What all caches of a sweep counted.
pub struct Singles {
    /// In the order of the configurations.
    pub swept: Vec<Swept>,
    /// How many accesses there were.
    pub accesses: u64,
}

/// Whether a cache's thread is known, and each is asked for all that there is of it: then it can be replayed by itself.
fn may_try(args: &SimArgs, selection: &Selection) -> bool {
    let all = selection.from.is_none() && selection.to.is_none() && args.limit.is_none();
    !args.no_skip && args.pcs.is_empty() && args.caches.cores.is_none() && all
}

/// Simulates each configuration by itself, unless that would take too long.
pub fn simulate(
    args: &SimArgs,
    configs: &[SweepConfig],
    path: &Path,
    known: &Known,
    selection: &Selection,
) -> anyhow::Result<Option<Singles>> {
    if !may_try(args, selection) {
        return Ok(None);
    }
    let mut threads = threads(known, None, path)?;
    threads.retain(|&thread| selection.thread.is_none_or(|wanted| wanted.0 == thread));
    let total = total(known, selection.thread);
    let progress = Progress::towards(total.saturating_mul(configs.len() as u64));
    let purse = AtomicU64::new(total.saturating_mul(configs.len() as u64) / PART_OF_ALL);
    // Its number, what it counted, and how many accesses there were; nothing if it would take too long.
    let one = |&at: &usize| {
        let allowed = purse.load(Relaxed).min(total / PART_OF_ONE);
        let mut single = Single::new(&configs[at], allowed)?;
        let mut all = 0;
        for &thread in &threads {
            let mut feed = Feed::new(single, Vec::new(), u64::MAX, progress.clone());
            replay_thread(thread, path, known, selection, &mut feed)?;
            let (taken, passed) = feed.finish();
            single = taken;
            all += passed;
        }
        let counts = single.counts();
        // What is empty stays so: nobody is allowed anything from then on.
        let spend = |left: u64| Some(counts.map_or(0, |_| left.saturating_sub(single.simulated())));
        let _ = purse.fetch_update(Relaxed, Relaxed, spend);
        anyhow::Ok(counts.map(|counts| {
            let swept = Swept {
                config: configs[at],
                counts,
                skipped: all - single.simulated(),
            };
            (at, swept, all)
        }))
    };
    let mut order: Vec<usize> = (0..configs.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(configs[at].size));
    let (largest, others) = order.split_at(1);
    let mut done = side_by_side(largest, one)?;
    if done.iter().all(Option::is_some) {
        done.extend(side_by_side(others, one)?);
    }
    let done: Option<Vec<(usize, Swept, u64)>> = done.into_iter().collect();
    Ok(done.map(|mut done| {
        done.sort_by_key(|&(at, ..)| at);
        let accesses = done.first().map_or(0, |&(_, _, accesses)| accesses);
        let swept = done.into_iter().map(|(_, swept, _)| swept).collect();
        Singles { swept, accesses }
    }))
}
