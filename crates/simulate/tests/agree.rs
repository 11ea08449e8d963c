//! Simulators agree, on everything that can be said.
mod inputs;
mod naive;

use inputs::{hierarchies, streams, Stream};
use memtrail_simulate::{Hierarchy, LevelCounts};
use naive::{Kind, Naive};
use proptest::prelude::*;

fn naively(hierarchy: &Hierarchy, stream: &Stream, evictors: bool, classes: bool) -> Vec<LevelCounts> {
    let mut naive = Naive::new(hierarchy, evictors, classes);
    for &(thread, space) in &stream.spaces {
        naive.set_space(thread, space);
    }
    for access in &stream.accesses {
        naive.access(access);
    }
    naive.counts()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// What the counts have to do with each other.
    #[test]
    fn counts_add_up(hierarchy in hierarchies(), stream in streams()) {
        let counts = naively(&hierarchy, &stream, true, true);
        let first_for = |fetch: bool| hierarchy.levels.iter().position(|l| if fetch { l.holds.instructions() } else { l.holds.data() });
        let made = |fetch: bool| stream.accesses.iter().filter(|a| a.kind != Kind::Prefetch && (a.kind == Kind::Fetch) == fetch).count() as u64;
        for (at, (level, counts)) in hierarchy.levels.iter().zip(&counts).enumerate() {
            let (total, traffic) = (counts.total(), counts.traffic);
            let demand = [traffic.reads, traffic.writes, traffic.fetches];
            prop_assert_eq!(total.accesses(), demand.iter().map(|r| r.requests).sum::<u64>());
            prop_assert_eq!(total.misses, demand.iter().map(|r| r.misses).sum::<u64>());
            prop_assert_eq!(total.evictions, counts.evictors.values().sum::<u64>());
            prop_assert!(total.used_bytes <= total.evictions * u64::from(level.line));
            prop_assert!(total.spatial_hits <= total.hits && total.prefetch_hits <= total.hits);
            let classes = total.classes.compulsory + total.classes.capacity + total.classes.conflict;
            let exclusive = level.inclusion == memtrail_simulate::config::Inclusion::Exclusive;
            prop_assert_eq!(classes, if exclusive { 0 } else { total.misses });
            if first_for(true) == Some(at) {
                prop_assert_eq!(traffic.fetches.requests, made(true));
            }
            if first_for(false) == Some(at) {
                prop_assert_eq!(traffic.reads.requests + traffic.writes.requests, made(false));
            }
        }
    }
}
