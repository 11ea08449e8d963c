//! Our caches against pycachesim's, where the models agree, and where they do not, by how much.
//!
//! They agree on loads in hierarchies of LRU and FIFO. Its stores are different:
//! - A store that hits is no use of the line, in the program's order or as a write-back. So LRU is
//!   compared on loads, and on stores that follow a load of the same bytes; FIFO on everything.
//! - A write-back that misses always loads the line, also if it covers all of it. So lines grow
//!   from level to level here: then ours are asked for as well, and the level beyond counts how
//!   many.
//! - A level that writes back but does not allocate places the line all the same, without loading
//!   it.
//! - A victim cache keeps what is loaded from it (the line is then in both), gets clean lines
//!   alone, and may hold one twice: that is not an exclusive level.
//!
//! It counts lines, not accesses: accesses that cross a line of the first level are cut here. It
//! counts stores that hit nowhere.
use crate::caches::{self, kernel, Recording};
use memtrail_model::{Access, Kind, Point, Thread};
use memtrail_simulate::config::{Inclusion, Policy, Write};
use memtrail_simulate::{Level, LevelCounts};
use peers::pycachesim::{self, Cache, Stats};
use peers::Result;

fn fifo(name: &str, sets: u64, ways: u32, line: u32) -> Level {
    Level {
        policy: Policy::Fifo,
        ..lru(name, sets, ways, line)
    }
}

fn lru(name: &str, sets: u64, ways: u32, line: u32) -> Level {
    Level::new(name, sets * u64::from(ways) * u64::from(line), line, ways)
}

fn through(level: Level) -> Level {
    Level {
        write: Write::Through,
        allocate: false,
        ..level
    }
}

fn theirs(level: &Level) -> Cache {
    Cache::Level {
        sets: level.sets(),
        ways: level.ways,
        line: level.line,
        policy: match level.policy {
            Policy::Lru => "LRU",
            Policy::Fifo => "FIFO",
            other => panic!("{other:?} is another thing there, or nothing"),
        },
        write_back: level.write == Write::Back,
        allocate: level.allocate,
    }
}

fn run(caches: &[Cache], accesses: &[Access]) -> Vec<Stats> {
    let accesses: Vec<pycachesim::Access> = accesses
        .iter()
        .map(|access| pycachesim::Access {
            write: access.kind == Kind::Write,
            address: access.addr,
            size: access.size,
        })
        .collect();
    pycachesim::run(caches, &accesses).unwrap_or_else(|why| panic!("{why}"))
}

/// Our counts of a level as pycachesim's. `beyond` is the next level, or what stands for memory.
fn translated(level: &Level, here: &LevelCounts, beyond: &LevelCounts) -> Stats {
    let (traffic, next) = (here.traffic, beyond.traffic);
    // Lines that a write, or a write-back, brought in. Nothing but completing write-backs asks for
    // prefetches here.
    let for_stores = if level.allocate {
        traffic.writes.misses + next.prefetches.requests
    } else {
        0
    };
    let hits = |requests: memtrail_simulate::Requests| requests.requests - requests.misses;
    Stats {
        loads: traffic.reads.requests + traffic.prefetches.requests + for_stores,
        stores: traffic.writes.requests + traffic.writebacks_received,
        hits: hits(traffic.reads) + hits(traffic.prefetches),
        misses: traffic.reads.misses + traffic.prefetches.misses + for_stores,
        // Of a level that writes through: all that goes on.
        evicts: traffic.writebacks
            + if level.write == Write::Through {
                next.writes.requests
            } else {
                0
            },
    }
}

fn agree(levels: Vec<Level>, accesses: &[Access]) {
    let caches: Vec<Cache> = levels.iter().map(theirs).collect();
    let line = levels.last().map_or(64, |level| 2 * level.line);
    let memory = lru("memory", 1 << 12, 8, line);
    let with_memory: Vec<Level> = levels.iter().cloned().chain([memory]).collect();
    let counts = caches::simulate(with_memory, accesses);
    let ours: Vec<Stats> = levels
        .iter()
        .zip(counts.windows(2))
        .map(|(level, pair)| translated(level, &pair[0], &pair[1]))
        .collect();
    assert_eq!(ours, run(&caches, accesses));
    // Not for want of anything to count.
    assert!(ours.iter().all(|stats| stats.hits > 0 && stats.misses > 0), "{ours:?}");
}

/// The data accesses of a kernel, cut at lines of 32 bytes, at most as many as pycachesim takes in
/// a few seconds.
fn stream(name: &str, purpose: &str, args: &[&str]) -> Result<Vec<Access>> {
    const MOST: usize = 150_000;
    let (program, scratch) = kernel(name, purpose, args)?;
    let mut cut = Vec::new();
    for access in Recording::of(&program, &scratch)?.accesses()? {
        if access.kind == Kind::Fetch {
            continue;
        }
        let (mut addr, end) = (access.addr, access.addr + u64::from(access.size));
        while addr < end {
            let size = (end - addr).min(32 - addr % 32) as u32;
            cut.push(Access { addr, size, ..access });
            addr += u64::from(size);
        }
    }
    cut.truncate(MOST);
    Ok(cut)
}

/// As reads: `W` becomes `R`.
fn loads(accesses: &[Access]) -> Vec<Access> {
    let load = |access: &Access| Access {
        kind: Kind::Read,
        ..*access
    };
    accesses.iter().map(load).collect()
}

/// Every write after a read of the same bytes.
fn loads_before_stores(accesses: &[Access]) -> Vec<Access> {
    let both = |access: &Access| {
        let load = Access {
            kind: Kind::Read,
            ..*access
        };
        [Some(load), (access.kind == Kind::Write).then_some(*access)]
            .into_iter()
            .flatten()
    };
    accesses.iter().flat_map(both).collect()
}

macro_rules! kernels {
    ($($name:ident: $args:expr;)*) => { $(
        #[test]
        fn $name() {
            let accesses = stream(stringify!($name), "pycachesim", &$args).unwrap_or_else(|why| panic!("{why}"));
            // Loads alone: LRU throughout, sets that are no power of two.
            agree(vec![lru("L1", 4, 4, 64), lru("L2", 12, 8, 64), lru("L3", 64, 12, 64)], &loads(&accesses));
            agree(vec![lru("L1", 7, 3, 64), fifo("L2", 50, 4, 64)], &loads(&accesses));
            // Stores as well.
            agree(vec![fifo("L1", 8, 4, 32), fifo("L2", 12, 4, 64), fifo("L3", 40, 6, 128)], &accesses);
            agree(vec![lru("L1", 8, 4, 32), fifo("L2", 12, 4, 64)], &loads_before_stores(&accesses));
            agree(vec![through(fifo("L1", 8, 4, 32)), fifo("L2", 12, 4, 64), fifo("L3", 40, 6, 128)], &accesses);
        }
    )* };
}

kernels! {
    matmul: ["24", "1"];
    quicksort: ["5000", "1"];
}

/// `R` or `W` and the number of a line of 64 bytes.
fn lines(text: &str) -> Vec<Access> {
    let access = |word: &str| Access {
        pc: 0,
        thread: Thread(0),
        point: Point(0),
        kind: if word.starts_with('W') { Kind::Write } else { Kind::Read },
        addr: 64 * word[1..].parse::<u64>().expect("a line"),
        size: 8,
    };
    text.split_whitespace().map(access).collect()
}

/// (hits, misses) of our levels.
fn ours(levels: Vec<Level>, accesses: &[Access]) -> Vec<(u64, u64)> {
    let counts = caches::simulate(levels, accesses);
    counts
        .iter()
        .map(|level| (level.total().hits, level.total().misses))
        .collect()
}

#[test]
fn a_store_that_hits_is_no_use_there() {
    // Here W0 makes 1 the line to go, there it is 0.
    let (level, accesses) = (lru("L1", 1, 2, 64), lines("R0 R1 W0 R2 R0"));
    let stats = run(&[theirs(&level)], &accesses);
    assert_eq!((stats[0].hits, stats[0].misses), (0, 4));
    assert_eq!(ours(vec![level], &accesses), [(2, 3)]);
}

#[test]
fn a_write_back_that_misses_loads_the_line_there() {
    // R1 makes L2 lose line 0, which L1 then writes back. There, L2 loads it from L3.
    let levels = vec![lru("L1", 1, 1, 64), lru("L2", 1, 1, 64), lru("L3", 1, 8, 64)];
    let accesses = lines("W0 R1");
    let stats = run(&levels.iter().map(theirs).collect::<Vec<_>>(), &accesses);
    assert_eq!((stats[1].loads, stats[2].loads), (3, 3));
    let counts = caches::simulate(levels, &accesses);
    assert_eq!(
        (counts[1].traffic.reads.requests, counts[2].traffic.reads.requests),
        (2, 2)
    );
    assert_eq!(
        (
            counts[1].traffic.writebacks_received,
            counts[2].traffic.prefetches.requests
        ),
        (1, 0)
    );
}

#[test]
fn a_store_is_placed_there_by_a_level_that_does_not_allocate() {
    let level = Level {
        allocate: false,
        ..lru("L1", 1, 2, 64)
    };
    let accesses = lines("W0 R0");
    let stats = run(&[theirs(&level)], &accesses);
    assert_eq!((stats[0].hits, stats[0].misses), (1, 0));
    assert_eq!(ours(vec![level], &accesses), [(0, 2)]);
}

#[test]
fn a_victim_cache_keeps_its_lines_there() {
    // R0 finds 0 in the victim cache. There it stays, so that 2, which makes room for it, drives 1
    // out; here it moves up, and R1 finds 1.
    let accesses = lines("R0 R1 R2 R0 R1");
    let victim = Cache::Victim {
        sets: 1,
        ways: 2,
        line: 64,
        policy: "LRU",
    };
    let stats = run(&[theirs(&lru("L1", 1, 1, 64)), victim], &accesses);
    let exclusive = Level {
        inclusion: Inclusion::Exclusive,
        ..lru("L2", 1, 2, 64)
    };
    assert_eq!((stats[0].misses, stats[1].hits), (5, 1));
    assert_eq!(ours(vec![lru("L1", 1, 1, 64), exclusive], &accesses), [(0, 5), (2, 3)]);
}
