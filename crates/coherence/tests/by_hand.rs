//! Short sequences whose counts were worked out by hand from `docs/simulation.md`.
use memtrail_coherence::{Coherence, CoherenceConfig, CoherenceError, Geometry, Pair, Protocol, Sharing};
use memtrail_model::{Access, AccessSink, Event, Kind, Point, Thread};

fn config(protocol: Protocol) -> CoherenceConfig {
    CoherenceConfig {
        protocol,
        line: 64,
        private: vec![Geometry { size: 4096, ways: 8 }],
        shared: Vec::new(),
        cores: 4,
    }
}

/// `(thread, kind, address)`, all of 4 bytes; the point is the thread's number.
fn run(config: &CoherenceConfig, steps: &[(u32, char, u64)]) -> Sharing {
    let mut machine = Coherence::new(config).unwrap();
    for &(thread, kind, addr) in steps {
        machine.accesses(&[Access {
            pc: 0,
            addr,
            size: 4,
            point: Point(thread),
            thread: Thread(thread),
            kind: if kind == 'W' { Kind::Write } else { Kind::Read },
        }]);
    }
    machine.finish()
}

/// Misses, true, false, upgrades, invalidations, transfers, write-backs.
fn totals(sharing: &Sharing) -> [u64; 7] {
    let t = &sharing.totals;
    [
        t.misses,
        t.true_misses,
        t.false_misses,
        t.upgrades,
        t.invalidations,
        t.transfers,
        t.write_backs,
    ]
}

#[test]
fn two_counters_in_a_line_are_shared_falsely() {
    // Both cold misses are no coherence misses; then every write takes the line away.
    let steps: Vec<(u32, char, u64)> = (0..20).map(|i| (i % 2, 'W', 0x1000 + u64::from(i % 2) * 4)).collect();
    for protocol in [Protocol::Mesi, Protocol::Moesi] {
        let sharing = run(&config(protocol), &steps);
        assert_eq!(totals(&sharing), [20, 0, 18, 0, 19, 19, 0]);
        let [line] = &sharing.lines[..] else {
            panic!("one line is contended")
        };
        assert_eq!((line.space, line.address), (0, 0x1000));
        let pair = |writer, loser| Pair {
            writer: Thread(writer),
            loser: Thread(loser),
        };
        let pairs: Vec<(Pair, u64)> = line.pairs.iter().map(|(pair, c)| (*pair, c.false_misses)).collect();
        assert_eq!(pairs, [(pair(0, 1), 9), (pair(1, 0), 9)]);
    }
}

#[test]
fn one_counter_is_shared_truly() {
    let steps: Vec<(u32, char, u64)> = (0..20).map(|i| (i % 2, 'W', 0x1000)).collect();
    let sharing = run(&config(Protocol::Mesi), &steps);
    assert_eq!(totals(&sharing), [20, 18, 0, 0, 19, 19, 0]);
}

#[test]
fn lines_of_their_own_are_not_shared() {
    let steps: Vec<(u32, char, u64)> = (0..20).map(|i| (i % 2, 'W', 0x1000 + u64::from(i % 2) * 64)).collect();
    let sharing = run(&config(Protocol::Mesi), &steps);
    assert_eq!(totals(&sharing), [2, 0, 0, 0, 0, 0, 0]);
    assert!(sharing.lines.is_empty());
}

#[test]
fn reading_what_nobody_writes_is_not_contended() {
    let steps: Vec<(u32, char, u64)> = (0..20).map(|i| (i % 4, 'R', 0x1000)).collect();
    let sharing = run(&config(Protocol::Mesi), &steps);
    assert_eq!(totals(&sharing), [4, 0, 0, 0, 0, 0, 0]);
    assert!(sharing.lines.is_empty());
}

#[test]
fn a_dirty_line_that_is_read_is_written_back_by_mesi_and_kept_by_moesi() {
    // A flag that one thread sets and another reads.
    let steps: Vec<(u32, char, u64)> = (0..10).flat_map(|_| [(0, 'W', 0x1000), (1, 'R', 0x1000)]).collect();
    // 2 cold misses, 9 of the reader; the writer asks 9 times for leave to write again.
    assert_eq!(totals(&run(&config(Protocol::Mesi), &steps)), [11, 9, 0, 9, 9, 10, 10]);
    assert_eq!(totals(&run(&config(Protocol::Moesi), &steps)), [11, 9, 0, 9, 9, 10, 0]);
}

#[test]
fn what_the_line_brought_is_used_only_after_the_next_loss() {
    // Thread 1 writes byte 8, then 16; thread 0 gets the line for byte 0 first, and for byte 8 only
    // after it lost the line again: the first of its two misses was not needed, the second was.
    let steps = [
        (0, 'R', 0x1000),
        (1, 'W', 0x1008),
        (0, 'R', 0x1000),
        (1, 'W', 0x1010),
        (0, 'R', 0x1008),
        (0, 'R', 0x1010),
    ];
    let sharing = run(&config(Protocol::Mesi), &steps);
    assert_eq!((sharing.totals.true_misses, sharing.totals.false_misses), (1, 1));
}

#[test]
fn a_line_lost_for_want_of_room_is_no_coherence_miss() {
    let mut config = config(Protocol::Mesi);
    config.private = vec![Geometry { size: 64, ways: 1 }];
    // Thread 0 loses the line to another one of its own, before thread 1 writes.
    let steps = [(0, 'R', 0x1000), (0, 'R', 0x2000), (1, 'W', 0x1000), (0, 'R', 0x1000)];
    assert_eq!(totals(&run(&config, &steps)), [4, 0, 0, 0, 0, 1, 1]);
}

#[test]
fn threads_of_one_core_do_not_take_lines_from_each_other() {
    let steps: Vec<(u32, char, u64)> = (0..20).map(|i| (i % 2 * 4, 'W', 0x1000)).collect();
    assert_eq!(totals(&run(&config(Protocol::Mesi), &steps)), [1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn equal_addresses_of_two_processes_are_two_places() {
    let mut machine = Coherence::new(&config(Protocol::Mesi)).unwrap();
    for i in 0..20 {
        let thread = Thread(i % 2);
        machine.event(Event::Space { thread, space: i % 2 });
        machine.accesses(&[Access {
            pc: 0,
            addr: 0x1000,
            size: 4,
            point: Point(0),
            thread,
            kind: Kind::Write,
        }]);
    }
    assert_eq!(totals(&machine.finish()), [2, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |change: &dyn Fn(&mut CoherenceConfig)| {
        let mut config = config(Protocol::Mesi);
        change(&mut config);
        config.check().unwrap_err()
    };
    assert_eq!(refused(&|c| c.private.clear()), CoherenceError::NothingPrivate);
    assert_eq!(refused(&|c| c.line = 48), CoherenceError::Line(48));
    assert_eq!(refused(&|c| c.line = 256), CoherenceError::Line(256));
    assert_eq!(refused(&|c| c.cores = 0), CoherenceError::Cores(0));
    assert_eq!(refused(&|c| c.cores = 129), CoherenceError::Cores(129));
    let (size, ways, line) = (100, 1, 64);
    assert_eq!(
        refused(&|c| c.shared = vec![Geometry { size, ways }]),
        CoherenceError::Geometry { size, ways, line }
    );
}
