//! Loops taken whole, with iterations left out, count what access by access counts.
use memtrail_model::{Access, AccessSink, Event, Kind, LoopAccess, LoopRun, Point, Reply, Thread};
use memtrail_simulate::config::{Policy, Write};
use memtrail_simulate::{Hierarchy, Level, LevelCounts, Options, Simulator};
use proptest::prelude::*;

/// A loop over a body, so many times.
#[derive(Clone, Debug)]
struct Run {
    trips: u64,
    body: Vec<LoopAccess>,
}

impl Run {
    fn as_run(&self) -> LoopRun<'_> {
        LoopRun {
            thread: Thread(0),
            trips: self.trips,
            body: &self.body,
        }
    }
}

fn simulate(hierarchy: &Hierarchy, options: Options, runs: &[Run]) -> Vec<LevelCounts> {
    let mut simulator = Simulator::new(hierarchy, options).unwrap();
    for run in runs {
        if options.one_by_one || simulator.event(Event::Loop(run.as_run())).skip == 0 {
            let accesses: Vec<Access> = run.as_run().accesses().collect();
            simulator.accesses(&accesses);
        }
    }
    simulator.counts()
}

/// Compares all ways of simulating; returns the counts.
fn agree(hierarchy: &Hierarchy, runs: &[Run]) -> Vec<LevelCounts> {
    let options = |no_skip, one_by_one| Options {
        evictors: true,
        no_skip,
        one_by_one,
        ..Options::default()
    };
    let expected = simulate(hierarchy, options(true, true), runs);
    for no_skip in [false, true] {
        let counts = simulate(hierarchy, options(no_skip, false), runs);
        assert_eq!(counts, expected, "no_skip = {no_skip}");
    }
    expected
}

fn access(point: u32, kind: Kind, addr: u64, stride: i64) -> LoopAccess {
    LoopAccess {
        pc: 0x1000 + u64::from(point),
        kind,
        size: 8,
        addr,
        stride: stride as u64,
        point: Point(point),
    }
}

/// Eight sets of two ways.
fn small() -> Hierarchy {
    Hierarchy::of(vec![Level::new("L1", 1024, 64, 2)])
}

/// Reads two arrays and writes a third, a word each time.
fn stream(trips: u64, apart: u64) -> Run {
    let body = vec![
        access(0, Kind::Read, 1 << 20, 8),
        access(1, Kind::Read, (1 << 44) + apart, 8),
        access(2, Kind::Write, (1 << 45) + 2 * apart, 8),
    ];
    Run { trips, body }
}

#[test]
fn a_stream_misses_once_a_line_however_long() {
    let mut simulator = Simulator::new(&small(), Options::default()).unwrap();
    let run = stream(1 << 40, 64);
    assert_eq!(simulator.event(Event::Loop(run.as_run())), Reply::skip(1 << 40));
    let counts = simulator.counts().remove(0);
    let each: Vec<(u64, u64, u64)> = counts
        .points
        .iter()
        .map(|p| (p.hits, p.misses, p.spatial_hits))
        .collect();
    let lines = 1 << 37;
    assert_eq!(each, [(7 * lines, lines, 7 * lines); 3]);
    assert_eq!(counts.traffic.writebacks, counts.points[2].evictions);
}

#[test]
fn three_streams_in_a_set_of_two_ways_never_hit() {
    let mut simulator = Simulator::new(&small(), Options::default()).unwrap();
    let run = stream(1 << 40, 0);
    assert_eq!(simulator.event(Event::Loop(run.as_run())), Reply::skip(1 << 40));
    let counts = simulator.counts().remove(0);
    let each: Vec<(u64, u64)> = counts.points.iter().map(|p| (p.hits, p.misses)).collect();
    assert_eq!(each, [(0, 1 << 40); 3]);
}

#[test]
fn short_streams_agree() {
    agree(&small(), &[stream(5000, 64), stream(5000, 0), stream(3, 64)]);
}

#[test]
fn lines_in_common_are_not_confused() {
    // x[i] and x[i + 100] move alike; the third stays.
    let body = vec![
        access(0, Kind::Read, 4096, 8),
        access(1, Kind::Write, 4096 + 800, 8),
        access(2, Kind::Read, 64, 0),
    ];
    let run = Run { trips: 5000, body };
    let counts = agree(&small(), &[run.clone(), run]);
    assert_eq!(counts[0].total().accesses(), 30_000);
}

#[test]
fn the_last_use_of_a_line_is_that_of_the_last_access_on_it() {
    // The first comes to the line of the third in the last iteration, and uses it before the third
    // does.
    let body = vec![
        access(0, Kind::Read, 64 * 100 + 8, -8),
        access(1, Kind::Read, 0, 8),
        access(2, Kind::Read, 64 * 100 - 16, -8),
    ];
    let one_set = Hierarchy::of(vec![Level::new("L1", 192, 64, 3)]);
    for trips in 1..20 {
        let run = Run {
            trips,
            body: body.clone(),
        };
        let others = (0..2).map(|i| vec![access(3, Kind::Write, 1 << (20 + i), 0)]);
        let others = others.map(|body| Run { trips: 1, body });
        agree(&one_set, &[vec![run], others.collect()].concat());
    }
}

fn a_level() -> impl Strategy<Value = Level> {
    let policy = prop_oneof![
        4 => Just(Policy::Lru),
        1 => Just(Policy::Fifo),
        1 => Just(Policy::Plru),
        1 => Just(Policy::Random)
    ];
    let write = prop_oneof![3 => Just(Write::Back), 1 => Just(Write::None)];
    (0u32..4, 1u64..12, policy, write).prop_map(|(ways, sets, policy, write)| {
        let ways = 1 << ways;
        Level {
            policy,
            write,
            ..Level::new("L", sets * u64::from(ways) * 32, 32, ways)
        }
    })
}

fn a_body() -> impl Strategy<Value = Vec<LoopAccess>> {
    let stride = prop_oneof![
        2 => Just(0i64),
        4 => Just(8),
        1 => Just(32),
        1 => Just(-8),
        1 => Just(4096),
        1 => -100i64..100,
        1 => -5000i64..5000
    ];
    let kind = prop_oneof![6 => Just(Kind::Read), 4 => Just(Kind::Write), 1 => Just(Kind::Prefetch)];
    let size = prop_oneof![6 => Just(8u32), 1 => 1u32..70];
    let one = (0u32..3, kind, 0u64..40, 0u64..40, stride, size);
    prop::collection::vec(one, 1..5).prop_map(|all| {
        let each = all
            .into_iter()
            .map(|(point, kind, array, offset, stride, size)| LoopAccess {
                size,
                ..access(
                    point * 3 + kind as u32,
                    kind,
                    (1 << 30) + (array << 22) + 8 * offset,
                    stride,
                )
            });
        each.collect()
    })
}

/// Accesses of a few neighbours that move alike, each by its size, and of some that stay or move
/// otherwise.
fn neighbours() -> impl Strategy<Value = Vec<LoopAccess>> {
    let one = (
        0u64..24,
        prop::bool::weighted(0.3),
        prop_oneof![8 => Just(None), 1 => Just(Some(0i64)), 1 => Just(Some(8))],
    );
    let size = prop_oneof![Just(1u64), Just(4), Just(8), Just(32)];
    (size, any::<bool>(), prop::collection::vec(one, 1..6)).prop_map(|(size, up, all)| {
        let each = all
            .into_iter()
            .enumerate()
            .map(|(point, (place, is_write, other))| LoopAccess {
                size: size as u32,
                ..access(
                    point as u32,
                    if is_write { Kind::Write } else { Kind::Read },
                    (1 << 20) + place * size,
                    other.unwrap_or(if up { size as i64 } else { -(size as i64) }),
                )
            });
        each.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn neighbours_agree(
        bodies in prop::collection::vec((neighbours(), 1u64..200), 1..6),
        line in prop_oneof![Just(16u32), Just(64), Just(256)],
        ways in 1u32..5,
        sets in 1u64..4,
    ) {
        let level = Level::new("L1", sets * u64::from(line) * u64::from(ways), line, ways);
        let runs: Vec<Run> = bodies.into_iter().map(|(body, trips)| Run { trips, body }).collect();
        agree(&Hierarchy::of(vec![level]), &runs);
    }

    #[test]
    fn any_loops_agree(
        mut levels in prop::collection::vec(a_level(), 1..4),
        bodies in prop::collection::vec((a_body(), prop_oneof![1u64..50, 500u64..3000]), 1..4),
    ) {
        for (i, level) in levels.iter_mut().enumerate() {
            level.name = format!("L{i}");
        }
        let runs: Vec<Run> = bodies.into_iter().map(|(body, trips)| Run { trips, body }).collect();
        agree(&Hierarchy::of(levels), &runs);
    }
}
