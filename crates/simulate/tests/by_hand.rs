//! The naive simulator on sequences that were worked out by hand.
//!
//! Each test is one rule of `docs/simulation.md` on caches of a few lines of 16 bytes; the comments
//! say what happens access by access. These numbers come from reading the page, not from running
//! anything.

use memtrail_model::{Access, Kind, Point, Thread};
use memtrail_naive::Naive;
use memtrail_simulate::config::{Holds, Inclusion, Policy, Prefetch, Shared, Write};
use memtrail_simulate::{Classes, Hierarchy, Level, LevelCounts, PointCounts, Requests};

/// Accesses written as `KIND hex-address [:size] [@point] [/thread]`: `R40:4@1/2` reads 4 bytes at
/// 0x40 at point 1 in thread 2. The size is 1, the point and the thread are 0 unless given.
fn parse(text: &str) -> Vec<Access> {
    const MARKS: [char; 3] = [':', '@', '/'];
    let number = |word: &str, mark: char| -> Option<u32> {
        let rest = word.split(mark).nth(1)?;
        Some(rest.split(MARKS).next()?.parse().expect("a number"))
    };
    let access = |word: &str| Access {
        pc: 0,
        thread: Thread(number(word, '/').unwrap_or(0)),
        point: Point(number(word, '@').unwrap_or(0)),
        kind: match &word[..1] {
            "R" => Kind::Read,
            "W" => Kind::Write,
            "P" => Kind::Prefetch,
            "F" => Kind::Fetch,
            other => panic!("a kind {other}"),
        },
        addr: u64::from_str_radix(word[1..].split(MARKS).next().expect("an address"), 16).expect("hexadecimal"),
        size: number(word, ':').unwrap_or(1),
    };
    text.split_whitespace().map(access).collect()
}

fn feed(naive: &mut Naive, text: &str) {
    for access in parse(text) {
        naive.access(&access);
    }
}

fn run_on(hierarchy: &Hierarchy, text: &str) -> Vec<LevelCounts> {
    let mut naive = Naive::new(hierarchy, true, true);
    feed(&mut naive, text);
    naive.counts()
}

fn run(levels: Vec<Level>, text: &str) -> Vec<LevelCounts> {
    run_on(&Hierarchy::of(levels), text)
}

/// `lines` lines of 16 bytes in sets of `ways`.
fn level(name: &str, lines: u64, ways: u32) -> Level {
    Level::new(name, lines * 16, 16, ways)
}

fn policy(policy: Policy, lines: u64, ways: u32) -> Vec<Level> {
    vec![Level {
        policy,
        ..level("L1", lines, ways)
    }]
}

/// (hits, misses, evictions)
fn outcome(counts: &LevelCounts) -> (u64, u64, u64) {
    let total = counts.total();
    (total.hits, total.misses, total.evictions)
}

fn requests(requests: u64, misses: u64) -> Requests {
    Requests { requests, misses }
}

#[test]
fn lru_evicts_what_was_not_used_for_longest() {
    // 0 and 10 come in, 0 is used, 20 replaces 10, 0 is used, 10 replaces 20.
    let counts = run(policy(Policy::Lru, 2, 2), "R0 R10 R0 R20 R0 R10");
    assert_eq!(outcome(&counts[0]), (2, 4, 2));
}

#[test]
fn fifo_evicts_what_came_first() {
    // As above, but 20 replaces 0, 0 replaces 10, 10 replaces 20.
    let counts = run(policy(Policy::Fifo, 2, 2), "R0 R10 R0 R20 R0 R10");
    assert_eq!(outcome(&counts[0]), (1, 5, 3));
}

#[test]
fn plru_follows_its_tree() {
    // 0, 10, 20, 30 fill ways 0 to 3: the root points to the lower half, the lower node to way 0,
    // the upper one to way 2. R0 turns the root up and the lower node to way 1. R40 goes to way 2
    // (20 leaves, though 10 was used before it), root down, upper node to way 3. R10 hits way 1:
    // root up, lower node to way 0. R20 goes to way 3 (30 leaves): root down, upper node to way 2.
    // R30 goes to way 0 (0 leaves): root up, lower node to way 1. R0 goes to way 2 (40 leaves).
    let counts = run(policy(Policy::Plru, 4, 4), "R0 R10 R20 R30 R0 R40 R10 R20 R30 R0");
    assert_eq!(outcome(&counts[0]), (2, 8, 4));
}

#[test]
fn random_picks_are_those_of_splitmix64() {
    // Picks of set 0 mod 3 are 0, 1, 1, 1: 30 replaces 0, 0 replaces 10, 10 replaces 0, then 20 and
    // 30 are there, 0 replaces 10.
    let counts = run(policy(Policy::Random, 3, 3), "R0 R10 R20 R30 R0 R10 R20 R30 R0");
    assert_eq!(outcome(&counts[0]), (2, 7, 4));
    // Picks of set 1 mod 3 are 2, 1: 70 replaces 50, 50 replaces 30; 10 and 70 are there.
    let counts = run(policy(Policy::Random, 6, 3), "R10 R30 R50 R70 R50 R10 R70");
    assert_eq!(outcome(&counts[0]), (2, 5, 2));
    // With seed 7 set 0 picks 0, 2: 30 replaces 0, 0 replaces 20; 10 and 30 are there.
    let seeded = Hierarchy {
        seed: 7,
        ..Hierarchy::of(policy(Policy::Random, 3, 3))
    };
    assert_eq!(outcome(&run_on(&seeded, "R0 R10 R20 R30 R0 R10 R30")[0]), (2, 5, 2));
}

#[test]
fn sets_need_not_be_a_power_of_two() {
    // Lines 0 and 3 share set 0 of three: 30 replaces 0, 0 replaces 30; 10 stays.
    let counts = run(vec![level("L1", 3, 1)], "R0 R10 R20 R0 R30 R0 R10");
    assert_eq!(outcome(&counts[0]), (2, 5, 2));
}

#[test]
fn an_access_of_several_lines_counts_once() {
    // R0e brings lines 0 and 1, the second time it touches nothing new. R1e finds line 1 and misses
    // line 2, touching 20 and 21. R20 touches 22 and 23 for the first time; size 0 is 1, byte 0 is
    // new.
    let counts = run(vec![level("L1", 4, 4)], "Re:4 Re:4 R1e:4 R20:4 R0:0");
    let expected = PointCounts {
        hits: 3,
        misses: 2,
        spatial_hits: 2,
        classes: Classes {
            compulsory: 2,
            ..Classes::default()
        },
        ..PointCounts::default()
    };
    assert_eq!(counts[0].points, [expected]);
    assert_eq!(counts[0].traffic.reads, requests(5, 2));
}

#[test]
fn lines_are_dealt_with_one_after_the_other() {
    // One line: the second line of each access evicts the first. After R8:16 line 1 is there, so
    // R18 hits; R8:16 misses line 0, which evicts line 1.
    let counts = run(vec![level("L1", 1, 1)], "R8:16 R18 R8:16");
    assert_eq!(outcome(&counts[0]), (1, 2, 3));
    // Line 0 left with bytes 8..16, line 1 with 10..18 and 18, line 0 with 8..16.
    assert_eq!(counts[0].total().used_bytes, 8 + 9 + 8);
}

#[test]
fn addresses_wrap_around() {
    let counts = run(vec![level("L1", 4, 4)], "Rffffffffffffffff:2 R0 Rfffffffffffffff0");
    assert_eq!(outcome(&counts[0]), (2, 1, 0));
    assert_eq!(counts[0].total().spatial_hits, 1);
}

#[test]
fn processes_have_their_own_memory() {
    let mut naive = Naive::new(
        &Hierarchy::of(vec![Level {
            shared: Shared::All,
            ..level("L1", 4, 4)
        }]),
        false,
        false,
    );
    naive.set_space(1, 1);
    // Two places called 0; what is called 2^47 is one; s * 2^48 + 0 written in full is the second
    // process's 0.
    feed(&mut naive, "R0/0 R0/1 R800000000000/0 R800000000000/1 R1000000000000/0");
    assert_eq!(outcome(&naive.counts()[0]), (2, 3, 0));
}

#[test]
fn threads_run_on_cores() {
    let levels = vec![
        level("L1", 4, 4),
        Level {
            shared: Shared::All,
            ..level("L2", 8, 8)
        },
    ];
    let four = "R0/0 R0/2 R0/1 R0/3";
    let own = run(levels.clone(), four);
    assert_eq!((outcome(&own[0]), own[0].caches), ((0, 4, 0), 4));
    assert_eq!((outcome(&own[1]), own[1].caches), ((3, 1, 0), 1));
    let on_two = Hierarchy {
        cores: Some(2),
        ..Hierarchy::of(levels)
    };
    let two = run_on(&on_two, four);
    assert_eq!((outcome(&two[0]), two[0].caches), ((2, 2, 0), 2));
    assert_eq!((outcome(&two[1]), two[1].caches), ((1, 1, 0), 1));
    // Cores 0 and 1 share one, cores 2 and 3 the other.
    let paired = run(
        vec![Level {
            shared: Shared::By(2),
            ..level("L1", 4, 4)
        }],
        four,
    );
    assert_eq!((outcome(&paired[0]), paired[0].caches), ((2, 2, 0), 2));
}

#[test]
fn dirty_lines_are_written_back() {
    // R10 evicts the dirty 0: the write-back uses 0 in L2. R40 makes L2 evict 10, R50 the dirty 0.
    let counts = run(vec![level("L1", 1, 1), level("L2", 4, 4)], "W0 R10 R20 R30 R40 R50");
    assert_eq!(outcome(&counts[0]), (0, 6, 5));
    assert_eq!(outcome(&counts[1]), (0, 6, 2));
    assert_eq!(
        (counts[0].traffic.writes, counts[0].traffic.reads),
        (requests(1, 1), requests(5, 5))
    );
    // What a write that misses asks for is a read.
    assert_eq!(
        (counts[1].traffic.writes, counts[1].traffic.reads),
        (requests(0, 0), requests(6, 6))
    );
    assert_eq!(
        (counts[0].traffic.writebacks, counts[0].traffic.writebacks_received),
        (1, 0)
    );
    assert_eq!(
        (counts[1].traffic.writebacks, counts[1].traffic.writebacks_received),
        (1, 1)
    );
}

#[test]
fn writes_go_through() {
    // W0 reads the line from L2 and then writes 4 bytes to it; the second write hits both. Nothing
    // is dirty when 10 evicts 0.
    let through = Level {
        write: Write::Through,
        ..level("L1", 1, 1)
    };
    let counts = run(vec![through, level("L2", 4, 4)], "W0:4 W0:4 R10");
    assert_eq!(outcome(&counts[0]), (1, 2, 1));
    assert_eq!(
        (counts[1].traffic.reads, counts[1].traffic.writes),
        (requests(2, 2), requests(2, 0))
    );
    assert_eq!(counts[1].total().spatial_hits, 0);
    assert_eq!(
        (counts[0].traffic.writebacks, counts[1].traffic.writebacks_received),
        (0, 0)
    );
}

#[test]
fn writes_that_miss_pass_by_a_level_that_does_not_allocate() {
    // We:4 misses two lines: 2 bytes of each go on. R10 then misses L1 and finds line 1 in L2,
    // where byte 10 was written. W14 hits L1: L2 does not see it. R20 evicts the dirty line 1.
    let no_allocate = Level {
        allocate: false,
        ..level("L1", 1, 1)
    };
    let counts = run(vec![no_allocate, level("L2", 4, 4)], "We:4 R10 W14:4 R20");
    assert_eq!(outcome(&counts[0]), (1, 3, 1));
    assert_eq!(
        (counts[1].traffic.reads, counts[1].traffic.writes),
        (requests(2, 1), requests(2, 2))
    );
    assert_eq!((counts[1].total().hits, counts[1].total().spatial_hits), (1, 0));
    assert_eq!(
        (counts[0].traffic.writebacks, counts[1].traffic.writebacks_received),
        (1, 1)
    );
}

#[test]
fn writes_that_are_reads() {
    // Brought in although the level does not allocate, and never written back.
    let none = Level {
        write: Write::None,
        allocate: false,
        ..level("L1", 1, 1)
    };
    let counts = run(vec![none, level("L2", 4, 4)], "W0 W0 R10");
    assert_eq!(outcome(&counts[0]), (1, 2, 1));
    assert_eq!(counts[0].traffic.writes, requests(2, 1));
    assert_eq!(counts[1].traffic.reads, requests(2, 2));
    assert_eq!(
        (counts[0].traffic.writebacks, counts[1].traffic.writebacks_received),
        (0, 0)
    );
}

#[test]
fn a_level_without_writes_drops_write_backs() {
    let none = Level {
        write: Write::None,
        ..level("L2", 2, 2)
    };
    // R10 sends 0 back: that is no use of it, so R20 evicts 0 in L2 and 10 is still there at the
    // end.
    let counts = run(vec![level("L1", 1, 1), none], "W0 R10 R20 R10");
    assert_eq!(
        (counts[1].traffic.writebacks_received, counts[1].traffic.writebacks),
        (1, 0)
    );
    assert_eq!(outcome(&counts[1]), (1, 3, 1));
}

#[test]
fn write_backs_of_parts_are_completed() {
    let long = |name: &str, lines: u64, ways: u32| Level::new(name, lines * 64, 64, ways);
    // R40: L2 evicts line 0 (owner 1), then L1 sends its dirty 0 back: L2 asks L3 for line 0,
    // evicting line 1 (owner 2), and places it for owner 1. R80 makes L2 evict it: dirty, touched
    // by nobody.
    let counts = run(
        vec![level("L1", 1, 1), long("L2", 1, 1), long("L3", 4, 4)],
        "W0@1 R40@2 R80@3",
    );
    assert_eq!(counts[1].evictors, [((1, 2), 1), ((2, 2), 1), ((1, 3), 1)].into());
    assert_eq!((counts[1].points[1].evictions, counts[1].points[1].used_bytes), (2, 1));
    assert_eq!((counts[1].points[2].evictions, counts[1].points[2].used_bytes), (1, 1));
    assert_eq!(
        (counts[1].traffic.writebacks_received, counts[1].traffic.writebacks),
        (1, 1)
    );
    assert_eq!(
        (counts[2].traffic.prefetches, counts[2].traffic.writebacks_received),
        (requests(1, 0), 1)
    );
    // What covers the line is placed without asking: L1 sends 0 back to an L2 that has lost it.
    let counts = run(
        vec![level("L1", 1, 1), level("L2", 1, 1), level("L3", 4, 4)],
        "W0@1 R40@2 R80@3",
    );
    assert_eq!(counts[1].evictors, [((1, 2), 1), ((2, 2), 1), ((1, 3), 1)].into());
    assert_eq!(
        (counts[2].traffic.prefetches, counts[2].traffic.writebacks_received),
        (requests(0, 0), 1)
    );
}

#[test]
fn write_backs_go_on() {
    // L2 does not allocate and has lost 0; L3 writes through; L4 gets it.
    let l2 = Level {
        allocate: false,
        ..level("L2", 1, 1)
    };
    let l3 = Level {
        write: Write::Through,
        ..level("L3", 4, 4)
    };
    let counts = run(vec![level("L1", 1, 1), l2, l3, level("L4", 4, 4)], "W0 R10");
    let moved = |at: usize| (counts[at].traffic.writebacks_received, counts[at].traffic.writebacks);
    assert_eq!(
        [moved(0), moved(1), moved(2), moved(3)],
        [(0, 1), (1, 1), (1, 1), (1, 0)]
    );
}

#[test]
fn an_inclusive_level_takes_lines_away_above() {
    // L2 is direct-mapped: 40 evicts 0 there and so in L1; then 0 evicts 40, which is dirty in L1
    // and written back by L2.
    let inclusive = Level {
        inclusion: Inclusion::Inclusive,
        ..level("L2", 4, 1)
    };
    let counts = run(vec![level("L1", 4, 4), inclusive], "R0@1 W40:2@2 R0@3");
    assert_eq!(outcome(&counts[0]), (0, 3, 2));
    assert_eq!(counts[0].evictors, [((1, 2), 1), ((2, 3), 1)].into());
    assert_eq!(counts[0].points[2].used_bytes, 2);
    assert_eq!((counts[0].traffic.invalidations, counts[0].traffic.writebacks), (2, 0));
    assert_eq!((counts[1].traffic.invalidations, counts[1].traffic.writebacks), (0, 1));
}

#[test]
fn an_inclusive_level_takes_lines_of_other_sizes_away() {
    // L2 has two lines of 64: 80 evicts lines 0 to 3 of L1's size, of which 0 and 30 are there; 40
    // stays.
    let inclusive = Level {
        inclusion: Inclusion::Inclusive,
        ..Level::new("L2", 128, 64, 2)
    };
    let counts = run(vec![level("L1", 8, 8), inclusive], "R0 R30 R40 R80 R40 R30");
    // R30 comes to L2 again, which evicts 40 to 7f: the second R40 was a hit in L1 that L2 has not
    // seen.
    assert_eq!(outcome(&counts[1]), (1, 4, 2));
    assert_eq!((outcome(&counts[0]), counts[0].traffic.invalidations), ((1, 5, 3), 3));
}

#[test]
fn an_exclusive_level_holds_what_was_evicted_above() {
    // R10 moves the dirty 0 out, R0 moves it up again and 10 out; R20 moves 0 out, R30 20 (10 is
    // lost), R40 30 (0 is written back).
    let exclusive = Level {
        inclusion: Inclusion::Exclusive,
        ..level("L2", 2, 2)
    };
    let counts = run(vec![level("L1", 1, 1), exclusive], "W0@1 R10@2 R0@3 R20@4 R30@5 R40@6");
    assert_eq!(outcome(&counts[0]), (0, 6, 5));
    assert_eq!(outcome(&counts[1]), (1, 5, 2));
    assert_eq!(
        counts[0].evictors,
        [((1, 2), 1), ((2, 3), 1), ((1, 4), 1), ((4, 5), 1), ((5, 6), 1)].into()
    );
    assert_eq!(counts[1].evictors, [((2, 5), 1), ((1, 6), 1)].into());
    // R0 touches the byte that W0 touched, in L2 as well.
    assert_eq!((counts[1].points[3].hits, counts[1].points[3].spatial_hits), (1, 0));
    assert_eq!(
        (counts[0].traffic.writebacks, counts[1].traffic.writebacks_received),
        (0, 0)
    );
    assert_eq!(counts[1].traffic.writebacks, 1);
    assert_eq!(counts[1].total().classes, Classes::default());
}

#[test]
fn two_caches_above_an_exclusive_one_may_move_the_same_line_out() {
    // Threads 0 and 1 bring in line 0; both move it out to the one L2: it is there once, with the
    // bytes both touched and dirty.
    let exclusive = Level {
        inclusion: Inclusion::Exclusive,
        shared: Shared::All,
        ..level("L2", 2, 2)
    };
    let counts = run(
        vec![level("L1", 1, 1), exclusive],
        "R0@1/0 W1@2/1 R10@3/0 R20@4/1 R30@5/0 R40@6/1",
    );
    // L2: 0 (owner 1), 0 again, then 10 (R30); 20 (R40) evicts 0: dirty.
    assert_eq!(counts[1].evictors, [((1, 6), 1)].into());
    assert_eq!((counts[1].points[1].used_bytes, counts[1].traffic.writebacks), (2, 1));
}

#[test]
fn writes_that_pass_by_write_to_an_exclusive_level() {
    // R10 moves 0 out; W0 is not placed in L1 and writes to 0 in L2, where it stays; W20 is in
    // neither. R30 and R40 push 0 out of L2.
    let l1 = Level {
        allocate: false,
        ..level("L1", 1, 1)
    };
    let exclusive = Level {
        inclusion: Inclusion::Exclusive,
        ..level("L2", 2, 2)
    };
    let counts = run(vec![l1, exclusive, level("L3", 8, 8)], "R0 R10 W0 W20 R30 R40");
    assert_eq!(counts[1].traffic.writes, requests(2, 1));
    assert_eq!(
        (counts[2].traffic.writes, counts[2].traffic.reads),
        (requests(1, 1), requests(4, 4))
    );
    assert_eq!((counts[1].total().evictions, counts[1].traffic.writebacks), (1, 1));
}

#[test]
fn next_lines_are_prefetched() {
    // R0 brings 10 and 20. R10 finds 10 for the first time: 20 is there, 30 comes. Again: nothing.
    // R20: 40 comes.
    let next = Level {
        prefetch: Prefetch::Next(2),
        ..level("L1", 8, 8)
    };
    let counts = run(vec![next, level("L2", 16, 16)], "R0 R10 R10 R20");
    let total = counts[0].total();
    assert_eq!(
        (total.hits, total.misses, total.spatial_hits, total.prefetch_hits),
        (3, 1, 2, 2)
    );
    assert_eq!(counts[0].traffic.prefetches, requests(4, 4));
    assert_eq!(counts[1].traffic.prefetches, requests(4, 4));
    assert_eq!(counts[1].traffic.reads, requests(1, 1));
}

#[test]
fn strides_are_prefetched() {
    // The stride is known after 40 and confirmed by 80 and c0, which brings 100; 100 brings 140,
    // 140 brings 180.
    let stride = Level {
        prefetch: Prefetch::Stride(1),
        ..level("L1", 16, 16)
    };
    let counts = run(vec![stride.clone()], "R0 R40 R80 Rc0 R100 R140");
    let total = counts[0].total();
    assert_eq!((total.hits, total.misses, total.prefetch_hits), (2, 4, 2));
    assert_eq!(counts[0].traffic.prefetches, requests(3, 3));
    // c brings the line of 10; 10 would bring that of 14, which is its own.
    let counts = run(vec![stride], "R0 R4 R8 Rc R10");
    assert_eq!(counts[0].traffic.prefetches, requests(1, 1));
    assert_eq!(outcome(&counts[0]), (4, 1, 0));
}

#[test]
fn software_prefetches_are_no_demand() {
    // P0 brings 0 in for point 1. R0 finds it, the second P0 uses it: R20 evicts 10.
    let counts = run(
        vec![level("L1", 2, 2), level("L2", 4, 4)],
        "P0@1 R0@2 R10@2 P0@1 R20@2 R30@3",
    );
    assert_eq!(counts[0].traffic.prefetches, requests(2, 1));
    assert_eq!(counts[1].traffic.prefetches, requests(1, 1));
    let point = |at: usize| {
        (
            counts[0].points[at].hits,
            counts[0].points[at].misses,
            counts[0].points[at].prefetch_hits,
        )
    };
    assert_eq!([point(1), point(2), point(3)], [(0, 0, 0), (1, 2, 1), (0, 1, 0)]);
    assert_eq!(counts[0].evictors, [((2, 2), 1), ((1, 3), 1)].into());
    assert_eq!(counts[0].points[1].used_bytes, 1);
}

#[test]
fn instructions_and_data_take_their_own_ways() {
    let held = |name: &str, holds: Holds| Level {
        holds,
        ..level(name, 2, 2)
    };
    let counts = run(
        vec![
            held("L1I", Holds::Instructions),
            held("L1D", Holds::Data),
            level("L2", 8, 8),
        ],
        "F0:4@1 R0:4@2 F0:4@1 R8:4@3",
    );
    assert_eq!(
        (counts[0].traffic.fetches, counts[0].traffic.reads),
        (requests(2, 1), requests(0, 0))
    );
    assert_eq!(
        (counts[1].traffic.fetches, counts[1].traffic.reads),
        (requests(0, 0), requests(2, 1))
    );
    assert_eq!(
        (counts[2].traffic.fetches, counts[2].traffic.reads),
        (requests(1, 1), requests(1, 0))
    );
    assert_eq!(counts[2].points[2].spatial_hits, 0);
}

#[test]
fn misses_have_causes() {
    // Two sets of one way. 20 evicts 0, 0 evicts 20 though two lines would hold both: conflict. 10
    // is new; 20 is not among the last two: capacity.
    let counts = run(vec![level("L1", 2, 1)], "R0 R20 R0 R10 R20");
    let classes = Classes {
        compulsory: 3,
        capacity: 1,
        conflict: 1,
    };
    assert_eq!(counts[0].total().classes, classes);
}

#[test]
fn the_first_line_missed_gives_the_cause() {
    // Line 2 took the set of line 0: conflict, although lines 1 and 3, missed after it, are new.
    let counts = run(vec![level("L1", 2, 1)], "R0@1 R20@2 R0:64@3");
    let classes = |at: usize| counts[0].points[at].classes;
    assert_eq!((classes(1).compulsory, classes(2).compulsory), (1, 1));
    assert_eq!(
        (classes(3).compulsory, classes(3).capacity, classes(3).conflict),
        (0, 0, 1)
    );
}

#[test]
fn only_the_bytes_that_the_program_touches_count_further_out() {
    // L2 is asked for 16 bytes and told of one. R1 misses L1 after R20 and finds byte 1 untouched
    // in L2, R0 finds byte 0 touched.
    let counts = run(
        vec![level("L1", 1, 1), Level::new("L2", 64, 64, 1)],
        "R0 R20 R1 R20 R0 R40",
    );
    let total = counts[1].total();
    // R20, R1 are spatial; R20, R0 are not.
    assert_eq!((total.hits, total.misses, total.spatial_hits), (4, 2, 2));
    assert_eq!((total.evictions, total.used_bytes), (1, 3));
}

#[test]
fn long_lines_know_64ths() {
    // Units of 2 bytes: R1 touches that of R0, R2 does not. R80 evicts two units: 4 bytes.
    let counts = run(vec![Level::new("L1", 128, 128, 1)], "R0 R1 R2 R80");
    assert_eq!(counts[0].total().spatial_hits, 1);
    assert_eq!((counts[0].total().evictions, counts[0].total().used_bytes), (1, 4));
}

#[test]
fn a_line_that_moves_out_unused_is_still_a_prefetched_one() {
    let exclusive = Level {
        inclusion: Inclusion::Exclusive,
        ..level("L2", 2, 2)
    };
    // 0 comes for a prefetch, R10 moves it out, R0 finds it there.
    let counts = run(vec![level("L1", 1, 1), exclusive], "P0 R10 R0");
    assert_eq!((counts[1].total().hits, counts[1].total().prefetch_hits), (1, 1));
}

#[test]
fn an_access_of_two_lines_touches_a_longer_one_in_two_steps() {
    // L2 is asked for line 0 and told of bytes e and f, then for line 1 and told of 10 and 11: a
    // hit, and spatial.
    let counts = run(vec![level("L1", 4, 4), Level::new("L2", 64, 64, 1)], "Re:4");
    let total = counts[1].total();
    assert_eq!((total.hits, total.misses, total.spatial_hits), (1, 1, 1));
}

#[test]
fn evictions_of_what_is_missed_later_are_premature() {
    // One line. R10@2 takes 0 of point 1 away, R0@1 misses it: premature, and takes 10 of point 2
    // away. P10 brings that back before it is missed, and takes 0 away: not premature. R0@3 misses
    // 0: premature, by the point of the prefetch.
    let mut naive = Naive::new(&Hierarchy::of(vec![level("L1", 1, 1)]), true, false);
    naive.premature = true;
    feed(&mut naive, "R0@1 R10@2 R0@1 P10@4 R10@2 R0@3");
    let counts = &naive.counts()[0];
    assert_eq!(counts.premature, [((1, 2), 1), ((1, 4), 1)].into());
    assert_eq!(
        counts.evictors,
        [((1, 2), 1), ((1, 4), 1), ((2, 1), 1), ((4, 3), 1)].into()
    );
}

/// Who evicts whose lines, if evictions are charged to all users of a line.
fn charged_to_all(levels: Vec<Level>, text: &str) -> Vec<LevelCounts> {
    let mut naive = Naive::new(&Hierarchy::of(levels), true, false);
    naive.charge_all = true;
    feed(&mut naive, text);
    naive.counts()
}

#[test]
fn evictions_are_charged_to_all_who_touched_the_line() {
    // One line. 0 is brought in by 1 and found by 2, 1 and a prefetch of 5, which does not count; 3
    // evicts it. 10 has been touched by 3 alone, twice. 20 is brought in by a prefetch of 6, which
    // owns it, and found by 7.
    let counts = charged_to_all(
        vec![level("L1", 1, 1)],
        "R0@1 W0@2 R0@1 P0@5 R10@3 R10@3 P20@6 R20@7 R30@8",
    );
    let expected = [((1, 3), 1), ((2, 3), 1), ((3, 6), 1), ((6, 8), 1), ((7, 8), 1)];
    assert_eq!(counts[0].evictors, expected.into());
    // The evictions themselves belong to the owners.
    let evictions: Vec<u64> = counts[0].points.iter().map(|point| point.evictions).collect();
    assert_eq!(evictions, [0, 1, 0, 1, 0, 0, 1, 0, 0]);
}

#[test]
fn users_move_with_a_line() {
    // R10 moves 0 out with users 1 and 2. R0@4 finds it in L2, moves it up as its third user, and
    // 10 out. R20 moves 0 out; R30 moves 20 out, for which 10 goes; R40 moves 30 out, for which 0
    // goes.
    let exclusive = Level {
        inclusion: Inclusion::Exclusive,
        ..level("L2", 2, 2)
    };
    let levels = vec![level("L1", 1, 1), exclusive];
    let counts = charged_to_all(levels, "R0@1 R0@2 R10@3 R0@4 R20@5 R30@6 R40@7");
    let first = [
        ((1, 3), 1),
        ((2, 3), 1),
        ((3, 4), 1),
        ((1, 5), 1),
        ((2, 5), 1),
        ((4, 5), 1),
        ((5, 6), 1),
        ((6, 7), 1),
    ];
    assert_eq!(counts[0].evictors, first.into());
    let second = [((3, 6), 1), ((1, 7), 1), ((2, 7), 1), ((4, 7), 1)];
    assert_eq!(counts[1].evictors, second.into());
}

#[test]
fn what_is_dirty_is_written_back_at_the_end() {
    // Both lines are dirty in L1, and clean in L2: each is written back to L2 and from there to
    // memory, for the point that brought it in.
    let mut naive = Naive::new(&Hierarchy::of(vec![level("L1", 2, 2), level("L2", 4, 4)]), true, false);
    feed(&mut naive, "W0@1 R10@2 W10@3 R20@4");
    let writebacks = |naive: &Naive| naive.counts().iter().map(|l| l.traffic.writebacks).collect::<Vec<_>>();
    // R20 has taken the dirty 0 out of L1.
    assert_eq!(writebacks(&naive), [1, 0]);
    naive.flush();
    assert_eq!(writebacks(&naive), [2, 2]);
    assert_eq!(naive.counts()[1].points[1].writebacks, 1);
    assert_eq!(naive.counts()[1].points[2].writebacks, 1);
}
