//! The simulator and the naive one agree, on everything that is counted.
mod inputs;

use inputs::{hierarchies, nests, plain_hierarchies, streams, Nest, Piece, Stream};
use memtrail_model::{Access, AccessSink, Event, Kind, LoopAccess, LoopRun, Point, Repeat, Reply, Thread};
use memtrail_naive::{without_idle_points, Naive};
use memtrail_simulate::config::{Holds, Inclusion, Policy, Shared};
use memtrail_simulate::{Charge, Hierarchy, Level, LevelCounts, Options, Simulator};
use proptest::prelude::*;

/// The simulator under test, given loops whole if it takes them, and other accesses in batches of
/// one thread each and of at most `most`.
fn simulator(hierarchy: &Hierarchy, stream: &Stream, options: Options, most: usize) -> Simulator {
    let mut simulator = Simulator::new(hierarchy, options).expect("a hierarchy that makes sense");
    for &(thread, space) in &stream.spaces {
        let thread = Thread(thread);
        simulator.event(Event::Space { thread, space });
    }
    for piece in &stream.pieces {
        if let Piece::Loop { thread, trips, body } = piece {
            if takes_loop(&mut simulator, *thread, *trips, body) {
                continue;
            }
        }
        for batch in piece.accesses().chunks(most) {
            simulator.accesses(batch);
        }
    }
    simulator
}

fn simulated(hierarchy: &Hierarchy, stream: &Stream, options: Options, most: usize) -> Vec<LevelCounts> {
    without_idle_points(simulator(hierarchy, stream, options, most).counts())
}

fn takes_loop(simulator: &mut Simulator, thread: Thread, trips: u64, body: &[LoopAccess]) -> bool {
    let run = LoopRun { thread, trips, body };
    simulator.wants().loops.is_some() && simulator.event(Event::Loop(run)) == Reply::skip(trips)
}

/// Hands a nest over as a replay does: the simulator is asked now and then whether to leave out
/// iterations of the outer loop. Returns how many it left out.
fn hand_over(simulator: &mut Simulator, nest: &Nest) -> u64 {
    let movers = nest.movers().filter(|_| simulator.wants().repeats);
    let repeat = Repeat {
        thread: nest.thread,
        trips: nest.times,
        accesses: nest.trips * nest.body.len() as u64,
        movers: movers.as_deref().unwrap_or(&[]),
    };
    let mut after = match movers {
        Some(_) => simulator.event(Event::Enter(repeat)).after,
        None => 0,
    };
    let entered = after > 0;
    let (mut iteration, mut since, mut left_out) = (0, 0, 0);
    while iteration < nest.times {
        let (thread, trips, body) = (nest.thread, nest.trips, nest.body(iteration));
        if !takes_loop(simulator, thread, trips, &body) {
            let accesses: Vec<Access> = Piece::Loop { thread, trips, body }.accesses();
            simulator.accesses(&accesses);
        }
        iteration += 1;
        since += 1;
        if since == after && iteration < nest.times {
            let (done, left) = (since, nest.times - iteration);
            let next = simulator.event(Event::Iterated { repeat, done, left });
            (since, after) = (0, next.after);
            iteration += next.skip;
            left_out += next.skip;
        }
    }
    if entered {
        simulator.event(Event::Leave);
    }
    left_out
}

/// What the options ask for, naively.
fn naive(hierarchy: &Hierarchy, stream: &Stream, options: Options) -> Naive {
    let mut naive = Naive::new(hierarchy, options.evictors, options.classes);
    naive.premature = options.premature;
    naive.charge_all = options.charge == Charge::All;
    for &(thread, space) in &stream.spaces {
        naive.set_space(thread, space);
    }
    for access in stream.accesses() {
        naive.access(&access);
    }
    naive
}

fn naively(hierarchy: &Hierarchy, stream: &Stream, options: Options) -> Vec<LevelCounts> {
    without_idle_points(naive(hierarchy, stream, options).counts())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn all_counts_are_equal(
        hierarchy in hierarchies(),
        stream in streams(),
        evictors in any::<bool>(),
        charge in prop_oneof![Just(Charge::Owner), Just(Charge::All)],
        classes in any::<bool>(),
        premature in any::<bool>(),
        one_by_one in any::<bool>(),
        no_skip in any::<bool>(),
        batch in prop_oneof![Just(1usize), 2..9usize, Just(4096)],
    ) {
        let options = Options { evictors, charge, classes, premature, instructions: true, one_by_one, no_skip, memory: false };
        let expected = naively(&hierarchy, &stream, options);
        let got = simulated(&hierarchy, &stream, options, batch);
        for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
            prop_assert_eq!(got, expected, "level {}", at);
        }
        prop_assert_eq!(got.len(), expected.len());
    }

    #[test]
    fn what_is_dirty_at_the_end_is_written_back(hierarchy in hierarchies(), stream in streams()) {
        let options = Options { instructions: true, ..Options::default() };
        let mut simulator = simulator(&hierarchy, &stream, options, 4096);
        let mut naive = naive(&hierarchy, &stream, options);
        simulator.flush();
        naive.flush();
        prop_assert_eq!(without_idle_points(simulator.counts()), without_idle_points(naive.counts()));
        let before = simulator.counts();
        simulator.flush();
        prop_assert_eq!(simulator.counts(), before);
    }

    /// All accesses, or those to data alone: only then are iterations of nests left out.
    #[test]
    fn nests_of_loops_count_the_same(
        hierarchy in prop_oneof![hierarchies(), plain_hierarchies()],
        mut nests in nests(),
        instructions in any::<bool>(),
        evictors in any::<bool>(),
        charge in prop_oneof![Just(Charge::Owner), Just(Charge::All)],
        no_skip in any::<bool>(),
    ) {
        let mut hierarchy = hierarchy;
        if !instructions {
            hierarchy = hierarchy.data_only();
            prop_assume!(hierarchy.check().is_ok());
            nests.iter_mut().for_each(|nest| nest.body.retain(|access| access.kind != Kind::Fetch));
            nests.retain(|nest| !nest.body.is_empty());
        }
        let stream = Stream {
            pieces: nests.iter().map(|nest| Piece::Accesses(nest.accesses())).collect(),
            spaces: Vec::new(),
        };
        let options = Options { evictors, charge, instructions, no_skip, ..Options::default() };
        let mut simulator = Simulator::new(&hierarchy, options).expect("a hierarchy that makes sense");
        for nest in &nests {
            hand_over(&mut simulator, nest);
        }
        prop_assert_eq!(without_idle_points(simulator.counts()), naively(&hierarchy, &stream, options));
    }

    /// What the counts have to do with each other.
    #[test]
    fn counts_add_up(hierarchy in hierarchies(), stream in streams()) {
        let everything = Options { evictors: true, classes: true, premature: true, ..Options::default() };
        let all = naively(&hierarchy, &stream, everything);
        let next = |at: usize| (at + 1..hierarchy.levels.len()).find(|&other| {
            let (here, there) = (hierarchy.levels[at].holds, hierarchy.levels[other].holds);
            here.data() && there.data() || here.instructions() && there.instructions()
        });
        let first_for = |fetch: bool| hierarchy.levels.iter().position(|l| if fetch { l.holds.instructions() } else { l.holds.data() });
        let made = |fetch: bool| stream.accesses().iter().filter(|a| a.kind != Kind::Prefetch && (a.kind == Kind::Fetch) == fetch).count() as u64;
        for (at, (level, counts)) in hierarchy.levels.iter().zip(&all).enumerate() {
            let (total, traffic) = (counts.total(), counts.traffic);
            let demand = [traffic.reads, traffic.writes, traffic.fetches];
            prop_assert_eq!(total.accesses(), demand.iter().map(|r| r.requests).sum::<u64>());
            prop_assert_eq!(total.misses, demand.iter().map(|r| r.misses).sum::<u64>());
            prop_assert_eq!(total.evictions, counts.evictors.values().sum::<u64>());
            let missed_again = |(pair, n): (&(u32, u32), &u64)| *n <= counts.evictors[pair];
            prop_assert!(counts.premature.iter().all(missed_again), "an eviction was counted twice");
            prop_assert!(total.used_bytes <= total.evictions * u64::from(level.line));
            prop_assert!(total.spatial_hits <= total.hits && total.prefetch_hits <= total.hits);
            let classes = total.classes.compulsory + total.classes.capacity + total.classes.conflict;
            let exclusive = level.inclusion == Inclusion::Exclusive;
            prop_assert_eq!(classes, if exclusive { 0 } else { total.misses });
            let left_above = (0..at).filter(|&above| next(above) == Some(at)).map(|above| all[above].traffic.writebacks);
            prop_assert_eq!(traffic.writebacks_received, left_above.sum::<u64>());
            if first_for(true) == Some(at) {
                prop_assert_eq!(traffic.fetches.requests, made(true));
            }
            if first_for(false) == Some(at) {
                prop_assert_eq!(traffic.reads.requests + traffic.writes.requests, made(false));
            }
        }
    }
}

/// Pseudo-random accesses of four threads within `bytes`; every fourth is a write, some are
/// prefetches or fetches.
fn random_stream(accesses: usize, bytes: u64) -> Stream {
    let mut state = 1u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let access = |_| {
        let (place, what) = (next(), next());
        let kind = match what % 16 {
            0..=3 => Kind::Write,
            4 => Kind::Prefetch,
            5 => Kind::Fetch,
            _ => Kind::Read,
        };
        Access {
            pc: 0,
            // Half of them in an eighth of the memory.
            addr: place % if what % 32 < 16 { bytes } else { bytes / 8 },
            size: 1 << (what >> 8 & 3),
            point: Point((what >> 10) as u32 % 50),
            thread: Thread((what >> 20) as u32 % 4),
            kind,
        }
    };
    let all: Vec<Access> = (0..accesses).map(access).collect();
    let pieces = all
        .chunk_by(|a, b| a.thread == b.thread)
        .map(|batch| Piece::Accesses(batch.to_vec()));
    Stream {
        pieces: pieces.collect(),
        spaces: vec![(3, 1)],
    }
}

fn same(hierarchy: &Hierarchy, stream: &Stream, classes: bool) {
    for charge in [Charge::Owner, Charge::All] {
        let options = Options {
            evictors: true,
            charge,
            classes,
            premature: classes,
            instructions: true,
            ..Options::default()
        };
        same_with(hierarchy, stream, options);
    }
}

fn same_with(hierarchy: &Hierarchy, stream: &Stream, options: Options) {
    let expected = naively(hierarchy, stream, options);
    assert!(
        expected.iter().all(|level| level.total().evictions > 0),
        "too large to see anything"
    );
    for (at, (got, expected)) in simulated(hierarchy, stream, options, 4096)
        .iter()
        .zip(&expected)
        .enumerate()
    {
        assert_eq!(got.traffic, expected.traffic, "level {at}");
        assert_eq!(got.total(), expected.total(), "level {at}");
        assert!(got == expected, "level {at}: points or evictors differ");
    }
}

#[test]
fn a_hierarchy_as_they_are_built() {
    let level = |name: &str, size: u64, ways: u32, policy: Policy, holds: Holds, shared: Shared| Level {
        policy,
        holds,
        shared,
        ..Level::new(name, size, 64, ways)
    };
    let hierarchy = Hierarchy::of(vec![
        level("L1I", 8 << 10, 8, Policy::Plru, Holds::Instructions, Shared::By(1)),
        level("L1D", 12 << 10, 12, Policy::Lru, Holds::Data, Shared::By(1)),
        level("L2", 80 << 10, 20, Policy::Random, Holds::Both, Shared::By(2)),
        Level {
            inclusion: Inclusion::Inclusive,
            ..level("L3", 352 << 10, 11, Policy::Lru, Holds::Both, Shared::All)
        },
    ]);
    same(&hierarchy, &random_stream(100_000, 1 << 20), false);
}

/// What has the shortest ways: one thread, levels of eight and sixteen ways and lines of 64 bytes;
/// with and without prefetches, which end some of the ways.
#[test]
fn the_usual_levels() {
    let levels = [
        Level::new("L1", 4 << 10, 64, 8),
        Level::new("L2", 16 << 10, 64, 8),
        Level::new("L3", 64 << 10, 64, 16),
    ];
    let mut accesses = random_stream(60_000, 256 << 10).accesses();
    for access in &mut accesses {
        access.thread = Thread(0);
        // Half of them close together: hits.
        access.addr = if access.addr % 2 == 0 {
            access.addr / 64
        } else {
            access.addr
        };
        access.size = if access.addr % 11 == 0 { 0 } else { access.size };
    }
    let only = |wanted: fn(Kind) -> bool| {
        let kept = accesses.iter().copied().filter(|access| wanted(access.kind));
        Stream {
            pieces: vec![Piece::Accesses(kept.collect())],
            spaces: Vec::new(),
        }
    };
    for stream in [only(|kind| kind <= Kind::Write), only(|kind| kind != Kind::Fetch)] {
        for classes in [false, true] {
            same(&Hierarchy::of(levels[..1].to_vec()), &stream, classes);
            same(&Hierarchy::of(levels.to_vec()), &stream, classes);
        }
    }
}

#[test]
fn every_policy_with_many_ways() {
    for policy in [Policy::Lru, Policy::Fifo, Policy::Random, Policy::Plru] {
        for ways in [1, 2, 8, 16, 32, 64, 128] {
            let level = Level {
                policy,
                ..Level::new("L1", 3 * 32 * u64::from(ways), 32, ways)
            };
            same(&Hierarchy::of(vec![level]), &random_stream(5_000, 16 << 10), true);
        }
    }
}

#[test]
fn write_backs_pass_by_a_level_into_an_exclusive_one() {
    let level = |name: &str, lines: u64| Level::new(name, lines * 16, 16, lines as u32);
    let passed_by = Level {
        allocate: false,
        ..level("L2", 3)
    };
    let exclusive = Level {
        inclusion: Inclusion::Exclusive,
        ..level("L3", 6)
    };
    let hierarchy = Hierarchy {
        cores: Some(1),
        ..Hierarchy::of(vec![level("L1", 4), passed_by, exclusive, level("L4", 8)])
    };
    same(&hierarchy, &random_stream(5_000, 512), true);
}

/// What is asked for by itself, level by level: in short batches, what a level misses often begins
/// with a line that was written back to it.
#[test]
fn every_option_by_itself() {
    let hierarchy = Hierarchy::of(vec![Level::new("L1", 512, 64, 8), Level::new("L2", 1024, 64, 8)]);
    let mut accesses = random_stream(20_000, 4 << 10).accesses();
    accesses.retain(|access| matches!(access.kind, Kind::Read | Kind::Write));
    accesses.iter_mut().for_each(|access| access.thread = Thread(0));
    let stream = Stream {
        pieces: vec![Piece::Accesses(accesses)],
        spaces: Vec::new(),
    };
    for which in 0..4 {
        let options = Options {
            evictors: which == 1,
            classes: which == 2,
            premature: which == 3,
            ..Options::default()
        };
        let expected = naively(&hierarchy, &stream, options);
        for batch in [3, 512] {
            let got = simulated(&hierarchy, &stream, options, batch);
            assert!(got == expected, "option {which}, batches of {batch}");
        }
    }
}

/// Iterations are indeed left out, or the nests above would show nothing: a row of 64 lines, again
/// and again, each time a row further on.
#[test]
fn iterations_of_a_nest_are_left_out() {
    let access = LoopAccess {
        pc: 0,
        point: Point(0),
        kind: Kind::Read,
        addr: 1 << 20,
        size: 8,
        stride: 16,
    };
    let nest = Nest {
        thread: Thread(0),
        times: 1000,
        further: 4096,
        trips: 256,
        body: vec![access],
    };
    let hierarchy = Hierarchy::of(vec![Level::new("L1", 4096, 64, 4)]);
    let mut simulator = Simulator::new(&hierarchy, Options::default()).expect("a hierarchy that makes sense");
    let left_out = hand_over(&mut simulator, &nest);
    assert!(left_out > 900, "{left_out}");
    let stream = Stream {
        pieces: vec![Piece::Accesses(nest.accesses())],
        spaces: Vec::new(),
    };
    assert_eq!(
        without_idle_points(simulator.counts()),
        naively(&hierarchy, &stream, Options::default())
    );
}
