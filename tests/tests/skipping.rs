//! Iterations that repeat others are left out, and nobody can tell: `sim` with and without
//! `--no-skip` on recorded kernels.

use memtrail_analyze::tagger::{Dimensions, Key, Tagger, Tally};
use memtrail_replay::Selection;
use memtrail_simulate::{Hierarchy, Level, LevelCounts, Options, Simulator};
use memtrail_tests::subject::{built, output, Subject};
use memtrail_trace::{Known, Reader};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::process::Command;

/// A name, and the caches. They are small beside what the kernels touch, so that lines come and go.
const HIERARCHIES: [(&str, &[&str]); 4] = [
    ("one level, LRU", &["--cache", "L1=4K:64:4"]),
    ("one level, FIFO", &["--cache", "L1=4K:64:4:fifo"]),
    (
        "three levels, LRU",
        &[
            "--cache",
            "L1=2K:64:2",
            "--cache",
            "L2=8K:64:8",
            "--cache",
            "L3=32K:128:4",
        ],
    ),
    (
        "three levels, FIFO",
        &[
            "--cache",
            "L1=2K:64:2:fifo",
            "--cache",
            "L2=8K:64:8:fifo",
            "--cache",
            "L3=32K:128:4:fifo",
        ],
    ),
];

const LEVELS: [&str; 2] = ["-O0", "-O2"];

/// Everything but the number that tells how much was left out. That comes beside it.
fn simulated(subject: &Subject, options: &[&str]) -> (String, u64) {
    let mut found = subject.simulated(options).unwrap_or_else(|why| panic!("{why}"));
    let skipped = found["skipped"].take();
    (format!("{found:#}"), skipped.as_u64().expect("a number"))
}

/// Compares, and returns how many accesses were left out in each of the hierarchies.
fn skipped(subject: &Subject) -> [u64; 4] {
    HIERARCHIES.map(|(name, caches)| {
        let options = [caches, &["--evictors"]].concat();
        let (short, skipped) = simulated(subject, &options);
        let (long, none) = simulated(subject, &[&options[..], &["--no-skip"]].concat());
        let what = subject.program.display();
        assert!(
            short == long,
            "{what}: {name}: skipping {skipped} accesses changes the result"
        );
        assert_eq!(none, 0, "{what}: {name}");
        skipped
    })
}

/// A kernel's recording; `level` is `-O0` or `-O2`.
fn kernel(name: &str, level: &str, args: &[&str]) -> Subject {
    let source = format!("bench/kernels/{name}.c");
    let made = Subject::new(&format!("skipping-{name}{level}"), &source, &[level], args);
    made.unwrap_or_else(|why| panic!("{why}"))
}

/// How many accesses there are.
fn accesses(subject: &Subject) -> u64 {
    let found: Value = subject
        .simulated(HIERARCHIES[0].1)
        .unwrap_or_else(|why| panic!("{why}"));
    found["accesses"].as_u64().expect("a number")
}

/// With and without optimisation: all the same.
macro_rules! kernels {
    ($($name:ident $args:expr;)*) => { $(
        #[test]
        fn $name() {
            for level in LEVELS {
                skipped(&kernel(stringify!($name), level, &$args));
            }
        }
    )* };
}

kernels! {
    matmul ["32", "1"];
    lu ["32"];
    trisolve ["120", "3"];
    vadd ["3000", "4"];
    quicksort ["2000", "1"];
}

/// Row after row does the same: most of it is left out. Without optimisation the counters lie in
/// memory, and less of it moves evenly.
fn mostly_skipped(name: &str, args: &[&str]) {
    assert!(skipped(&kernel(name, "-O0", args))[0] > 0);
    let subject = kernel(name, "-O2", args);
    let all = accesses(&subject);
    let [lru, fifo, ..] = skipped(&subject);
    assert!(lru * 2 > all && fifo * 2 > all, "{lru} and {fifo} of {all}");
}

#[test]
fn stencil() {
    mostly_skipped("stencil", &["100", "4"]);
}

#[test]
fn stencil3() {
    mostly_skipped("stencil3", &["24", "3"]);
}

/// The loops inside a row move in different ways, so that only whole rows repeat.
#[test]
fn rows_of_a_nest() {
    let subject = Subject::new("skipping-rows", "bench/kernels/matmul.c", &["-O2"], &["128", "1"]);
    let subject = subject.unwrap_or_else(|why| panic!("{why}"));
    let (all, skipped) = (accesses(&subject), skipped(&subject));
    assert!(skipped[0] * 2 > all, "{skipped:?} of {all}");
}

/// A sweep is made cache by cache where each can leave most of it out, and in one pass elsewhere.
#[test]
fn sweeps() {
    const SWEEP: [&str; 2] = ["--sweep", "size=2K..16K,line=32,128,ways=1,2,16,policy=lru,fifo"];
    let skipped = |name: &str, args: &[&str]| {
        let source = format!("bench/kernels/{name}.c");
        let subject = Subject::new(&format!("skipping-sweep-{name}"), &source, &["-O2"], args);
        let subject = subject.unwrap_or_else(|why| panic!("{why}"));
        let swept = |options: &[&str]| {
            let mut found = subject.simulated(options).unwrap_or_else(|why| panic!("{why}"));
            // Of the hierarchy, if there is one.
            found["skipped"].take();
            let each = found["sweep"].as_array_mut().expect("a list");
            let skipped = |one: &mut Value| one["skipped"].take().as_u64().expect("a number");
            let skipped: Vec<u64> = each.iter_mut().map(skipped).collect();
            (format!("{found:#}"), skipped)
        };
        let (short, skipped) = swept(&SWEEP);
        let (long, none) = swept(&[&SWEEP[..], &["--no-skip"]].concat());
        assert!(
            short == long,
            "{name}: skipping {skipped:?} accesses changes the result"
        );
        assert!(none.iter().all(|&n| n == 0), "{name}: {none:?}");
        // With a hierarchy beside it, that leaves out by itself.
        let both = |more: &[&str]| swept(&[&SWEEP[..], HIERARCHIES[0].1, more].concat()).0;
        assert_eq!(both(&["--top", "0"]), both(&["--top", "0", "--no-skip"]));
        skipped
    };
    let all = skipped("vadd", &["10000", "60"]);
    assert!(all.len() == 48 && all.iter().all(|&n| n > 1_500_000), "{all:?}");
    assert!(skipped("quicksort", &["2000", "1"]).iter().all(|&n| n == 0));
}

/// One row stays and the others go by: who evicts whom must not be asked.
#[test]
fn rows_that_go_by() {
    let subject = Subject::new("skipping-by", "bench/kernels/lu.c", &["-O2"], &["120"]);
    let subject = subject.unwrap_or_else(|why| panic!("{why}"));
    let options = ["--cache", "L1=8K:64:8", "--flush"];
    let (short, skipped) = simulated(&subject, &options);
    let (long, _) = simulated(&subject, &[&options[..], &["--no-skip"]].concat());
    let all = accesses(&subject);
    assert!(short == long, "skipping {skipped} of {all} accesses changes the result");
    assert!(skipped * 2 > all, "{skipped} of {all}");
}

#[test]
fn spmv() {
    for level in LEVELS {
        let name = format!("skipping-spmv{level}");
        let subject = built(&name, "bench/kernels/spmv.c", &[level]).and_then(|program| {
            let matrix = program.with_extension("matrix").display().to_string();
            output(Command::new(&program).args(["make", &matrix, "600", "300"]))?;
            Subject::record(program, &[&matrix])
        });
        skipped(&subject.unwrap_or_else(|why| panic!("{why}")));
    }
}

/// Simulates with call paths told apart: what was counted, by composite, and how many accesses were
/// left out.
fn by_callpath(subject: &Subject, no_skip: bool) -> (Vec<Key>, Vec<Tally>, Vec<LevelCounts>, u64) {
    let file = File::open(&subject.recording).expect("a recording");
    let mut reader = Reader::open(BufReader::new(file)).expect("a recording");
    let known = Known::read(&mut reader).expect("a whole recording");
    let hierarchy = Hierarchy::of(vec![Level::new("L1", 2048, 64, 2), Level::new("L2", 8192, 64, 8)]);
    let options = Options {
        no_skip,
        ..Options::default()
    };
    let simulator = Simulator::new(&hierarchy, options).expect("a good hierarchy");
    let dimensions = Dimensions {
        callpath: true,
        thread: true,
        ..Dimensions::default()
    };
    let mut tagger = Tagger::new(simulator, dimensions, Default::default());
    memtrail_replay::accesses(&mut reader, &known, &Selection::default(), &mut tagger).expect("replayed");
    let (counts, skipped) = (tagger.sink().counts(), tagger.sink().skipped());
    (tagger.keys(), tagger.tallies().collect(), counts, skipped)
}

#[test]
fn iterations_are_left_out_where_call_paths_are_told_apart() {
    for (name, args) in [("stencil", ["100", "4"]), ("matmul", ["64", "1"])] {
        let source = format!("bench/kernels/{name}.c");
        let subject = Subject::new(&format!("skipping-paths-{name}"), &source, &["-O2"], &args);
        let subject = subject.unwrap_or_else(|why| panic!("{why}"));
        let (keys, tallies, counts, skipped) = by_callpath(&subject, false);
        let (all_keys, all_tallies, all_counts, none) = by_callpath(&subject, true);
        assert_eq!(none, 0);
        assert!(
            keys == all_keys && tallies == all_tallies,
            "{name}: other accesses are counted"
        );
        assert!(
            counts == all_counts,
            "{name}: skipping {skipped} accesses changes the result"
        );
        let nodes: BTreeSet<u32> = keys.iter().map(|key| key.node).collect();
        assert!(nodes.len() > 10, "{name}: call paths are told apart");
        let all = accesses(&subject);
        assert!(skipped * 2 > all, "{name}: {skipped} of {all}");
    }
}
