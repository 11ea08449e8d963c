//! A sweep counts what a simulation of each configuration by itself counts.
mod streams;

use memtrail_model::{Access, AccessSink, Event, Kind, LoopAccess, LoopRun, Point, Reply, Thread};
use memtrail_simulate::config::{ConfigError, Policy, Shared};
use memtrail_simulate::spec::configurations;
use memtrail_simulate::sweep::{grid, Single, Sweep, SweepConfig, SweepCounts};
use memtrail_simulate::{Hierarchy, Level, Options, Simulator};
use proptest::prelude::*;
use std::collections::BTreeMap;
use streams::{feed, lines, stream};

/// A cache as one would write it down: a list of lines per set, the next to go first.
struct Naive {
    config: SweepConfig,
    sets: BTreeMap<u64, Vec<u64>>,
    counts: SweepCounts,
}

impl Naive {
    fn new(config: SweepConfig) -> Naive {
        Naive {
            config,
            sets: BTreeMap::new(),
            counts: SweepCounts::default(),
        }
    }

    fn hits(&mut self, line: u64) -> bool {
        let set = self.sets.entry(line % self.config.sets()).or_default();
        let found = set.iter().position(|&other| other == line);
        match found {
            Some(at) if self.config.policy == Policy::Lru => {
                set.remove(at);
                set.push(line);
            }
            Some(_) => {}
            None => {
                if set.len() == self.config.ways as usize {
                    set.remove(0);
                }
                set.push(line);
            }
        }
        found.is_some()
    }

    fn access(&mut self, access: &Access, space: u32) {
        let mut missed = 0;
        for line in lines(access, space, self.config.line) {
            missed |= u64::from(!self.hits(line));
        }
        let requests = match access.kind {
            Kind::Read => &mut self.counts.reads,
            Kind::Write => &mut self.counts.writes,
            Kind::Prefetch | Kind::Fetch => return,
        };
        requests.requests += 1;
        requests.misses += missed;
    }
}

/// Thread 2 is of another process.
const SPACES: [u32; 3] = [0, 0, 5];

fn naive(config: SweepConfig, stream: &[Vec<Access>], cache: impl Fn(u32) -> u32) -> SweepCounts {
    let mut caches: BTreeMap<u32, Naive> = BTreeMap::new();
    for access in stream.iter().flatten() {
        let own = caches
            .entry(cache(access.thread.0))
            .or_insert_with(|| Naive::new(config));
        own.access(access, SPACES[access.thread.0 as usize]);
    }
    let mut total = SweepCounts::default();
    caches.values().for_each(|cache| total += cache.counts);
    total
}

fn swept(mut sweep: Sweep, stream: &[Vec<Access>]) -> Vec<SweepCounts> {
    for (thread, &space) in SPACES.iter().enumerate() {
        sweep.set_space(Thread(thread as u32), space);
    }
    feed(&mut sweep, stream);
    sweep.counts()
}

fn config() -> impl Strategy<Value = SweepConfig> {
    let ways = prop_oneof![4 => 1u32..9, 2 => 9u32..17, 1 => 17u32..40];
    let sets = prop_oneof![4 => (0u32..8).prop_map(|k| 1u64 << k), 1 => 1u64..100];
    let lines = prop_oneof![2 => 2u32..13, 4 => 5u32..8];
    (
        sets,
        lines,
        ways,
        prop_oneof![2 => Just(Policy::Lru), 1 => Just(Policy::Fifo)],
    )
        .prop_map(|(sets, line, ways, policy)| SweepConfig {
            size: (sets << line) * u64::from(ways),
            line: 1 << line,
            ways,
            policy,
        })
}

fn configs() -> impl Strategy<Value = Vec<SweepConfig>> {
    prop::collection::vec(config(), 1..14)
}

/// A few arrays, gone through together, again and again: places in the first iteration, how far
/// they move, and iterations.
fn rounds() -> impl Strategy<Value = Vec<Vec<Access>>> {
    let place = (
        0u64..4,
        0u64..40,
        prop_oneof![5 => Just(8u32), 1 => Just(100)],
        any::<bool>(),
    );
    let arrays = prop::collection::vec(place, 1..8);
    let one = (arrays, prop_oneof![Just(0u64), Just(1), Just(8), Just(40)], 1u64..120);
    prop::collection::vec(one, 1..12).prop_map(|all| {
        let loops = all.into_iter().map(|(arrays, stride, iterations)| {
            let iteration = move |i: u64| {
                arrays
                    .clone()
                    .into_iter()
                    .map(move |(array, offset, size, is_write)| Access {
                        kind: if is_write { Kind::Write } else { Kind::Read },
                        ..reads([(array << 16) + 8 * offset + i * stride], size)[0]
                    })
            };
            (0..iterations).flat_map(iteration).collect()
        });
        loops.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn counts_are_those_of_each_by_itself(configs in configs(), stream in stream()) {
        let counts = swept(Sweep::new(&configs).unwrap(), &stream);
        for (&config, counts) in configs.iter().zip(counts) {
            prop_assert_eq!(counts, naive(config, &stream, |thread| thread), "{}", config);
        }
    }

    #[test]
    fn rounds_count_as_often_as_they_come(configs in configs(), stream in rounds(), only_lru in any::<bool>()) {
        let policy = |config: SweepConfig| if only_lru { Policy::Lru } else { config.policy };
        let configs: Vec<SweepConfig> =
            configs.into_iter().map(|config| SweepConfig { policy: policy(config), ..config }).collect();
        let expected: Vec<SweepCounts> = configs.iter().map(|&config| naive(config, &stream, |thread| thread)).collect();
        prop_assert_eq!(swept(Sweep::new(&configs).unwrap(), &stream), expected);
    }

    #[test]
    fn threads_share_as_told(configs in configs(), stream in stream()) {
        let all = swept(Sweep::new(&configs).unwrap().sharing(Shared::All, None), &stream);
        let pairs = swept(Sweep::new(&configs).unwrap().sharing(Shared::By(2), None), &stream);
        let cores = swept(Sweep::new(&configs).unwrap().sharing(Shared::By(1), Some(2)), &stream);
        for (i, &config) in configs.iter().enumerate() {
            prop_assert_eq!(all[i], naive(config, &stream, |_| 0), "{}", config);
            prop_assert_eq!(pairs[i], naive(config, &stream, |thread| thread / 2), "{}", config);
            prop_assert_eq!(cores[i], naive(config, &stream, |thread| thread % 2), "{}", config);
        }
    }

    #[test]
    fn a_cache_by_itself_counts_what_a_sweep_does(config in config(), stream in stream()) {
        let mut single = Single::new(&config, u64::MAX).unwrap();
        for (thread, &space) in SPACES.iter().enumerate() {
            let thread = Thread(thread as u32);
            single.event(Event::Space { thread, space });
        }
        feed(&mut single, &stream);
        prop_assert_eq!(single.counts(), Some(naive(config, &stream, |thread| thread)));
        prop_assert_eq!(single.simulated(), stream.iter().flatten().count() as u64);
    }

    #[test]
    fn workers_make_no_difference(configs in configs(), stream in stream(), workers in 2usize..6) {
        let alone = swept(Sweep::new(&configs).unwrap(), &stream);
        prop_assert_eq!(swept(Sweep::on(&configs, workers).unwrap(), &stream), alone);
    }

    #[test]
    fn more_ways_of_lru_never_miss_more(stream in stream(), sets in 1u64..40) {
        let configs: Vec<SweepConfig> = (1..40).map(|ways| SweepConfig::lru(sets * 64 * u64::from(ways), 64, ways)).collect();
        let counts = swept(Sweep::new(&configs).unwrap(), &stream);
        for pair in counts.windows(2) {
            prop_assert!(pair[0].reads.misses >= pair[1].reads.misses);
            prop_assert!(pair[0].writes.misses >= pair[1].writes.misses);
        }
    }
}

fn reads(addresses: impl IntoIterator<Item = u64>, size: u32) -> Vec<Access> {
    let read = |addr| Access {
        pc: 0,
        addr,
        size,
        point: Point(0),
        thread: Thread(0),
        kind: Kind::Read,
    };
    addresses.into_iter().map(read).collect()
}

/// Addresses all over the place, some of them again and again.
fn scattered(count: u64, span: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |i| (i / 3 + i % 3 * 50).wrapping_mul(0x9E37_79B9_7F4A_7C15) % span / 8 * 8)
}

#[test]
fn more_pages_than_have_short_numbers() {
    // 16-bit numbers run out twice; few are in use at any time.
    let stream = [reads(scattered(400_000, 1 << 40), 8)];
    let configs = [SweepConfig::lru(4096, 64, 2), SweepConfig::lru(64 << 10, 64, 8)];
    let counts = swept(Sweep::new(&configs).unwrap(), &stream);
    for (config, counts) in configs.into_iter().zip(counts) {
        assert_eq!(counts, naive(config, &stream, |thread| thread), "{config}");
    }
}

#[test]
fn more_pages_in_use_than_have_short_numbers() {
    let stream = [reads(scattered(400_000, 1 << 40), 8)];
    let mut configs = vec![SweepConfig::lru(4096, 64, 2), SweepConfig::lru(8 << 20, 64, 16)];
    configs.extend([SweepConfig::lru(1 << 20, 64, 4), SweepConfig::lru(8 << 20, 64, 64)]);
    configs.push(SweepConfig::lru(64 << 10, 64, 1024));
    configs.extend(grid(&[4096, 1 << 23], &[64], &[3, 4, 16, 32], Policy::Fifo));
    configs.extend(grid(&[12 << 20], &[64], &[8, 12, 24], Policy::Lru));
    let counts = swept(Sweep::new(&configs).unwrap(), &stream);
    for (config, counts) in configs.into_iter().zip(counts) {
        assert_eq!(counts, naive(config, &stream, |thread| thread), "{config}");
    }
}

#[test]
fn one_set_of_very_many_ways() {
    // Rounds over more and more lines: some caches are too small for each, and lines come back
    // after having been forgotten.
    let rounds = (1..12u64).flat_map(|round| (0..round * 350).map(move |i| i * 64 + round % 3 * 4096));
    let stream = [reads(rounds, 8), reads(scattered(6_000, 1 << 18), 80)];
    let mut configs: Vec<SweepConfig> = Vec::new();
    for ways in [65, 100, 1024, 3000] {
        for policy in [Policy::Lru, Policy::Fifo] {
            let full = |line| SweepConfig {
                policy,
                ..SweepConfig::lru(u64::from(ways) * u64::from(line), line, ways)
            };
            configs.extend([full(64), full(32)]);
        }
    }
    configs.extend((65..75).map(|ways| SweepConfig::lru(64 * u64::from(ways) * 3, 64, ways)));
    configs.extend((65..140).map(|ways| SweepConfig::lru(64 * u64::from(ways), 64, ways)));
    configs.push(SweepConfig::lru(4096, 64, 2));
    let counts = swept(Sweep::new(&configs).unwrap(), &stream);
    for (config, counts) in configs.into_iter().zip(counts) {
        assert_eq!(counts, naive(config, &stream, |thread| thread), "{config}");
    }
}

#[test]
fn two_lines_of_a_set_in_turn_until_a_third_comes() {
    let config = |sets: u64, ways: u32| SweepConfig::lru(sets * 64 * u64::from(ways), 64, ways);
    let configs = [
        config(16, 1),
        config(16, 2),
        config(32, 1),
        config(64, 1),
        config(64, 3),
        config(4096, 1),
    ];
    // Lines that share sets everywhere, in all caches but the last, and in none but the first.
    for apart in [4096 * 64, 64 * 64, 16 * 64] {
        let mut stream = Vec::new();
        for (round, turns) in [1, 2, 3, 600, 601, 3000].into_iter().enumerate() {
            let third = 3 * apart + apart * (round as u64 % 2);
            let lines = (0..turns).map(|turn| turn % 2 * apart).chain([third]);
            stream.extend(reads(lines, 8).into_iter().enumerate().map(|(i, access)| Access {
                kind: [Kind::Read, Kind::Write, Kind::Read, Kind::Prefetch][i % 4],
                ..access
            }));
        }
        let stream = [stream];
        let counts = swept(Sweep::new(&configs).unwrap(), &stream);
        for (config, counts) in configs.into_iter().zip(counts) {
            assert_eq!(
                counts,
                naive(config, &stream, |thread| thread),
                "{config}, {apart} bytes apart"
            );
        }
    }
}

#[test]
fn an_access_longer_than_a_batch() {
    // 16,384 lines of 4 bytes, in between other accesses.
    let mut stream = vec![
        reads([0, 8, 0], 8),
        reads([4096], 1 << 16),
        reads([0, 4096, 1 << 16], 8),
    ];
    stream.push(reads([2, 1 << 15, 0], 40_000));
    let configs = [
        SweepConfig::lru(1024, 4, 4),
        SweepConfig::lru(1 << 17, 4, 16),
        SweepConfig::lru(1 << 17, 64, 16),
    ];
    let counts = swept(Sweep::new(&configs).unwrap(), &stream);
    for (config, counts) in configs.into_iter().zip(counts) {
        assert_eq!(counts, naive(config, &stream, |thread| thread), "{config}");
    }
}

/// Nothing is left out of the first accesses; of a loop at one place, nearly everything is.
#[test]
fn a_cache_by_itself_gives_up_when_it_has_simulated_too_much() {
    let single = || Single::new(&SweepConfig::lru(1 << 10, 64, 2), 800).unwrap();
    let place = [LoopAccess {
        pc: 0,
        addr: 64,
        stride: 0,
        size: 8,
        point: Point(0),
        kind: Kind::Read,
    }];
    let run = LoopRun {
        thread: Thread(0),
        trips: 1_000_000,
        body: &place,
    };
    let mut hopeless = single();
    hopeless.accesses(&reads((0..100).map(|i| 64 * i), 8));
    assert_eq!(hopeless.counts().map(|counts| counts.reads.misses), Some(100));
    hopeless.accesses(&reads([0], 8));
    assert_eq!((hopeless.done(), hopeless.counts()), (true, None));
    let mut single = single();
    assert_eq!(single.event(Event::Loop(run)), Reply::skip(run.trips));
    let simulated = single.simulated();
    assert!(simulated < 100, "{simulated}");
    single.accesses(&reads((0..800 - simulated).map(|i| 64 * i), 8));
    assert_eq!((single.done(), single.simulated()), (false, 800));
    let counts = single.counts().unwrap();
    assert_eq!(counts.reads.requests, 1_000_800 - simulated);
    single.accesses(&reads([0], 8));
    assert_eq!((single.done(), single.counts()), (true, None));
}

fn metasim26() -> Vec<SweepConfig> {
    configurations("metasim26")
        .unwrap()
        .iter()
        .map(SweepConfig::from)
        .collect()
}

#[test]
fn a_sweep_agrees_with_the_simulator() {
    let configs = metasim26();
    assert_eq!(configs.len(), 26);
    let stream = [
        reads(scattered(100_000, 1 << 19), 8),
        reads((0..20_000).map(|i| i * 24), 16),
    ];
    let counts = swept(Sweep::new(&configs).unwrap(), &stream);
    for (config, counts) in configs.into_iter().zip(counts) {
        assert_eq!(counts, naive(config, &stream, |thread| thread), "{config}");
        let mut level = Level::new("L1", config.size, config.line, config.ways);
        level.policy = config.policy;
        let mut one = Simulator::new(&Hierarchy::of(vec![level]), Options::default()).unwrap();
        feed(&mut one, &stream);
        assert_eq!(one.counts()[0].traffic.reads, counts.reads, "{config}");
    }
}

#[test]
fn errors_name_the_configuration() {
    let wrong = |config: SweepConfig| {
        Sweep::new(&[SweepConfig::lru(1024, 64, 2), config])
            .err()
            .map(|e| e.to_string())
    };
    let says = |what: &str| Some(what.to_string());
    assert_eq!(Sweep::new(&[]).err(), Some(ConfigError::NoLevels));
    assert_eq!(
        wrong(SweepConfig::lru(1024, 64, 0)),
        says("1K:64:0: ways = 0: a set has at least one way")
    );
    let random = SweepConfig {
        policy: Policy::Random,
        ..SweepConfig::lru(1024, 64, 2)
    };
    assert_eq!(
        wrong(random),
        says("1K:64:2:random: policy = random: a sweep knows lru and fifo")
    );
    assert_eq!(
        wrong(SweepConfig::lru(1000, 64, 2)),
        says("1000:64:2: size = 1000: not a multiple of line x ways = 64 x 2 = 128 bytes")
    );
}
