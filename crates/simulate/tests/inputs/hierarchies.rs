//! Hierarchies of one to four levels in which everything happens soon.
use memtrail_simulate::config::{Holds, Inclusion, Policy, Prefetch, Shared, Write};
use memtrail_simulate::{Hierarchy, Level};
use proptest::prelude::*;
use proptest::sample::select;

fn ways() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 1..=4u32, 2 => 5..=9u32, 1 => 10..=40u32]
}

fn prefetch() -> impl Strategy<Value = Prefetch> {
    let ahead = || prop_oneof![3 => 1..=3u32, 1 => 4..=9u32];
    prop_oneof![
        3 => Just(Prefetch::None),
        1 => ahead().prop_map(Prefetch::Next),
        1 => ahead().prop_map(Prefetch::Stride),
    ]
}

fn holds() -> impl Strategy<Value = Holds> {
    prop_oneof![2 => Just(Holds::Both), 2 => Just(Holds::Data), 2 => Just(Holds::Instructions)]
}

prop_compose! {
    /// One level by itself. Lines of 16 to 64 bytes are more likely, so that levels often agree.
    fn level()(
        geometry in (1..=6u64, ways(), prop_oneof![1 => 2..=8u32, 2 => 4..=6u32]),
        policy in select(vec![Policy::Lru, Policy::Fifo, Policy::Random, Policy::Plru]),
        holds in holds(),
        write in select(vec![Write::Back, Write::Back, Write::Back, Write::Through, Write::None]),
        allocate in prop_oneof![3 => Just(true), 1 => Just(false)],
        inclusion in select(vec![Inclusion::None, Inclusion::Inclusive, Inclusion::Exclusive]),
        shared in select(vec![Shared::By(1), Shared::By(2), Shared::By(6), Shared::All]),
        prefetch in prefetch(),
    ) -> Level {
        let (sets, ways, bits) = geometry;
        let ways = if policy == Policy::Plru { ways.next_power_of_two() } else { ways };
        let line = 1 << bits;
        Level {
            policy, holds, write, allocate, inclusion, shared, prefetch,
            ..Level::new("", sets * u64::from(ways) * u64::from(line), line, ways)
        }
    }
}

fn reach(shared: Shared) -> u32 {
    match shared {
        Shared::By(cores) => cores,
        Shared::All => u32::MAX,
    }
}

/// The levels that lead to `level`, the nearest one for data and the nearest one for instructions,
/// and whether each way into it has one.
fn nearest_above<'a>(above: &'a [Level], level: &Level) -> (Vec<&'a Level>, bool) {
    let ways: [fn(Holds) -> bool; 2] = [Holds::data, Holds::instructions];
    let nearest = ways
        .iter()
        .filter(|way| way(level.holds))
        .map(|way| above.iter().rev().find(|other| way(other.holds)));
    let nearest: Vec<Option<&Level>> = nearest.collect();
    (
        nearest.iter().flatten().copied().collect(),
        nearest.iter().all(Option::is_some),
    )
}

/// Bends a level until it fits under those above it.
fn fit(above: &[Level], mut level: Level) -> Level {
    level.name = format!("L{}", above.len());
    if above.iter().any(|other| other.holds == Holds::Both) {
        level.holds = Holds::Both;
    }
    let (nearest, complete) = nearest_above(above, &level);
    let widest = above
        .iter()
        .map(|other| other.shared)
        .max_by_key(|&shared| reach(shared));
    level.shared = widest
        .into_iter()
        .chain([level.shared])
        .max_by_key(|&shared| reach(shared))
        .expect("its own");
    if nearest.is_empty() {
        level.inclusion = Inclusion::None;
    }
    if level.inclusion == Inclusion::Inclusive {
        let largest = above.iter().map(|other| other.size).max().unwrap_or(0);
        level.size *= largest.div_ceil(level.size).max(1);
    }
    if level.inclusion == Inclusion::Exclusive {
        let line = nearest[0].line;
        if complete
            && nearest
                .iter()
                .all(|other| other.line == line && other.write == Write::Back)
        {
            level.size = level.size / u64::from(level.line) * u64::from(line);
            level.line = line;
            level.write = Write::Back;
            level.prefetch = Prefetch::None;
        } else {
            level.inclusion = Inclusion::None;
        }
    }
    level
}

prop_compose! {
    pub fn hierarchies()(
        drawn in prop::collection::vec(level(), 1..=4),
        cores in prop_oneof![2 => Just(None), 1 => (1..=3u32).prop_map(Some)],
        seed in prop_oneof![Just(0), any::<u64>()],
    ) -> Hierarchy {
        let mut levels: Vec<Level> = Vec::new();
        for level in drawn {
            levels.push(fit(&levels, level));
        }
        if !levels.iter().any(|level| level.holds.data()) {
            levels[0].holds = Holds::Data;
            levels.truncate(1);
        }
        Hierarchy { levels, cores, seed }
    }
}

/// Hierarchies without anything that connects iterations of a loop but what lies in the caches:
/// those in which loops are taken whole.
pub fn plain_hierarchies() -> impl Strategy<Value = Hierarchy> {
    hierarchies().prop_map(|mut hierarchy| {
        for level in &mut hierarchy.levels {
            level.inclusion = Inclusion::None;
            level.prefetch = Prefetch::None;
            level.allocate = true;
            if level.write == Write::Through {
                level.write = Write::None;
            }
        }
        hierarchy
    })
}
