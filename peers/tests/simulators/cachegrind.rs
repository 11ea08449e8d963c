//! Our caches against cachegrind's, on what lackey says a program does.
//!
//! Cachegrind's model is `write = none` with LRU: a write brings its line in, nothing is written
//! back. What else is different:
//! - A *modify* (`M` of lackey) is one access there, a read; here it is a read and a write of the
//!   same bytes. The write finds what the read has just brought in and changes no order, so all
//!   misses are the same; only the number of writes is larger here, by the number of modifies.
//! - Cachegrind looks an access that misses the first level up in the last one *as it is*. Here the
//!   last level is asked for each line that was missed, and for no other. This makes a difference
//!   for accesses that cross a line: two lines missed are two requests here and one there, and a
//!   line that was there counts as used in the last level there and not here. First levels are not
//!   concerned.
//! - Accesses longer than a line are cut there; these programs make none.
use crate::caches::{build, kernel, point_of, simulate, Recording};
use memtrail_model::{Access, Kind, Point};
use memtrail_simulate::config::{Holds, Write};
use memtrail_simulate::{Level, LevelCounts};
use peers::cachegrind::{self, Caches, Geometry, References, Summary};
use peers::Result;

/// Small, so that a small program misses often.
const CACHES: Caches = Caches {
    i1: Geometry {
        size: 2048,
        ways: 2,
        line: 64,
    },
    d1: Geometry {
        size: 4096,
        ways: 4,
        line: 64,
    },
    ll: Geometry {
        size: 32768,
        ways: 8,
        line: 64,
    },
};

fn level(name: &str, geometry: Geometry, holds: Holds) -> Level {
    Level {
        holds,
        write: Write::None,
        ..Level::new(name, geometry.size, geometry.line, geometry.ways)
    }
}

/// The counts of a hierarchy in the form of cachegrind's.
fn summary(counts: &[LevelCounts]) -> Summary {
    let [i1, d1, ll] = counts else {
        panic!("three levels");
    };
    let references = |first: &LevelCounts, kind: Kind| {
        let at = |level: &LevelCounts| level.points.get(point_of(kind).index()).copied().unwrap_or_default();
        References {
            made: at(first).accesses(),
            missed_first: at(first).misses,
            missed_last: at(ll).misses,
        }
    };
    Summary {
        fetches: references(i1, Kind::Fetch),
        reads: references(d1, Kind::Read),
        writes: references(d1, Kind::Write),
    }
}

/// Our two levels.
fn ours(recording: &Recording) -> Result<Summary> {
    let levels = vec![
        level("I1", CACHES.i1, Holds::Instructions),
        level("D1", CACHES.d1, Holds::Data),
        level("LL", CACHES.ll, Holds::Both),
    ];
    Ok(summary(&recording.simulate(levels)?))
}

/// Our caches, with cachegrind's way of asking the last level: whole accesses, if they missed the
/// first one.
fn ours_asking_as_cachegrind_does(accesses: &[Access]) -> Summary {
    let firsts = vec![
        level("I1", CACHES.i1, Holds::Instructions),
        level("D1", CACHES.d1, Holds::Data),
    ];
    // Every access is a point of its own here, so that each can be asked whether it missed.
    let alone: Vec<Access> = (0..)
        .zip(accesses)
        .map(|(point, &access)| Access {
            point: Point(point),
            ..access
        })
        .collect();
    let first = simulate(firsts, &alone);
    let missed = |&(at, _): &(usize, &Access)| {
        first
            .iter()
            .any(|level| level.points.get(at).is_some_and(|p| p.misses > 0))
    };
    let asked: Vec<Access> = accesses
        .iter()
        .enumerate()
        .filter(missed)
        .map(|(_, &access)| access)
        .collect();
    let last = simulate(vec![level("LL", CACHES.ll, Holds::Both)], &asked);
    let references = |kind: Kind| References {
        made: accesses.iter().filter(|access| access.kind == kind).count() as u64,
        missed_first: asked.iter().filter(|access| access.kind == kind).count() as u64,
        missed_last: last[0]
            .points
            .get(point_of(kind).index())
            .map_or(0, |counts| counts.misses),
    };
    Summary {
        fetches: references(Kind::Fetch),
        reads: references(Kind::Read),
        writes: references(Kind::Write),
    }
}

fn agrees(name: &str, args: &[&str]) -> Result<()> {
    let (program, scratch) = kernel(name, "cachegrind", args)?;
    let theirs = cachegrind::run(&program, CACHES, &scratch)?;
    let recording = Recording::of(&program, &scratch)?;

    let mut same_asking = ours_asking_as_cachegrind_does(&recording.accesses()?);
    same_asking.writes.made -= recording.modifies;
    assert_eq!(same_asking, theirs, "{name}, asked as cachegrind does");

    // The hierarchy itself: first levels are the same, and what the last one is asked for differs
    // as said above.
    let mut ours = ours(&recording)?;
    ours.writes.made -= recording.modifies;
    ours.fetches.missed_last = theirs.fetches.missed_last;
    ours.reads.missed_last = theirs.reads.missed_last;
    ours.writes.missed_last = theirs.writes.missed_last;
    assert_eq!(ours, theirs, "{name}");
    Ok(())
}

macro_rules! kernels {
    ($($name:ident: $args:expr;)*) => { $(
        #[test]
        fn $name() {
            agrees(stringify!($name), &$args).unwrap_or_else(|why| panic!("{why}"));
        }
    )* };
}

kernels! {
    matmul: ["24", "2"];
    triad: ["5000", "3"];
    stencil: ["60", "4"];
    quicksort: ["5000", "1"];
    fib: ["15", "1"];
}

/// (made, missed by the first level, missed by the last one too) of the loads of
/// `line_crossings.S`: cachegrind's, and ours.
fn loads_at(offset: &str) -> Result<[References; 2]> {
    let (program, scratch) = build("programs/line_crossings.S", offset, &["-nostdlib", offset], &[])?;
    let theirs = cachegrind::run(&program, CACHES, &scratch)?;
    let ours = ours(&Recording::of(&program, &scratch)?)?;
    assert_eq!((ours.fetches, ours.writes), (theirs.fetches, theirs.writes));
    Ok([theirs.reads, ours.reads])
}

#[test]
fn the_last_level_is_asked_for_lines() {
    let missed_last = |missed_last| References {
        made: 16,
        missed_first: 16,
        missed_last,
    };
    let within = loads_at("-DOFFSET=0").unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(within, [missed_last(16), missed_last(16)]);
    let across = loads_at("-DOFFSET=60").unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(across, [missed_last(16), missed_last(32)]);
}
