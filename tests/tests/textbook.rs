//! The simulators on what real programs did, against a textbook simulator: every count of every
//! reference.
//!
//! The recordings come as `sim` gets them, with loops whole and repeated iterations to be left out;
//! the textbook simulator is given each access.

use memtrail_model::{Access, AccessSink, Event, Reply, Wants};
use memtrail_naive::Naive;
use memtrail_replay::Selection;
use memtrail_simulate::config::Policy;
use memtrail_simulate::spec::configurations;
use memtrail_simulate::sweep::{grid, Single, Sweep, SweepConfig, SweepCounts};
use memtrail_simulate::{short, Hierarchy, Level, LevelCounts, Options, PointCounts, Simulator};
use memtrail_tests::subject::{built, Subject};
use memtrail_tests::tools::work_directory;
use memtrail_trace::{Known, Reader};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Small beside what the programs touch, so that lines come and go; between them, every policy and
/// every option.
const HIERARCHIES: [&[&str]; 9] = [
    &["L1=2K:64:8"],
    &["L1=3K:32:3", "L2=20K:32:5", "L3=64K:32:16"],
    &["L1=2K:64:4:fifo", "L2=16K:64:16:fifo"],
    &["L1=2K:64:2:random", "L2=12K:64:6:random:inclusive"],
    &["L1=2K:64:4:plru", "L2=16K:64:16:plru:exclusive"],
    &["L1=1K:16:2:write-through:no-allocate", "L2=16K:64:4:shared"],
    &["L1=2K:64:4:next=2", "L2=16K:128:8:stride=3:shared=2"],
    &["I1=2K:64:2:instructions", "L1=2K:64:8:data", "L2=24K:64:12"],
    &["L1=2K:64:full:write-none", "L2=16K:64:8:lru:shared"],
];

struct Recording {
    reader: Reader<BufReader<File>>,
    known: Known,
}

impl Recording {
    fn of(path: &Path) -> Recording {
        let file = File::open(path).expect("recorded");
        let mut reader = Reader::open(BufReader::new(file)).expect("a recording");
        let mut known = Known::read(&mut reader).expect("a whole recording");
        known.table.number_fetches();
        Recording { reader, known }
    }

    fn replay(&mut self, sink: &mut impl AccessSink) {
        memtrail_replay::accesses(&mut self.reader, &self.known, &Selection::default(), sink).expect("replayed");
    }
}

/// Every access, one by one; instructions are fetched if it is told so.
struct Textbook(Naive, bool);

impl AccessSink for Textbook {
    fn accesses(&mut self, batch: &[Access]) {
        batch.iter().for_each(|access| self.0.access(access));
    }
    fn wants(&self) -> Wants {
        Wants {
            fetches: self.1,
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        if let Event::Space { thread, space } = event {
            self.0.set_space(thread.0, space);
        }
        Reply::NOTHING
    }
}

/// Points that did nothing may be missing at the end.
fn without_idle_points(mut counts: Vec<LevelCounts>) -> Vec<LevelCounts> {
    for level in &mut counts {
        let used = level.points.iter().rposition(|point| *point != PointCounts::default());
        level.points.truncate(used.map_or(0, |last| last + 1));
    }
    counts
}

fn by_the_book(recording: &mut Recording, hierarchy: &Hierarchy, options: Options) -> Vec<LevelCounts> {
    let mut textbook = Naive::new(hierarchy, options.evictors, options.classes);
    textbook.premature = options.premature;
    let mut textbook = Textbook(textbook, options.instructions);
    recording.replay(&mut textbook);
    without_idle_points(textbook.0.counts())
}

/// Returns how many accesses were left out in all.
fn hierarchies_agree(name: &str, recording: &mut Recording) -> u64 {
    let mut skipped = 0;
    for texts in HIERARCHIES {
        let hierarchy = Hierarchy::of(short::levels(texts).expect("levels"));
        // Without any, most is left out.
        for wanted in [false, true] {
            let options = Options {
                evictors: wanted,
                classes: wanted,
                premature: wanted,
                instructions: wanted || texts.iter().any(|text| text.contains("instructions")),
                ..Options::default()
            };
            let mut simulator = Simulator::new(&hierarchy, options).expect("a hierarchy that makes sense");
            recording.replay(&mut simulator);
            skipped += simulator.skipped();
            let got = without_idle_points(simulator.counts());
            let expected = by_the_book(recording, &hierarchy, options);
            assert!(
                expected.iter().any(|level| level.total().evictions > 100),
                "{name}: {texts:?}"
            );
            for (level, (got, expected)) in hierarchy.levels.iter().zip(got.iter().zip(&expected)) {
                let what = format!("{name}: {texts:?}, {wanted}: {}", level.name);
                assert_eq!(got.traffic, expected.traffic, "{what}");
                assert_eq!(got.total(), expected.total(), "{what}");
                assert!(got == expected, "{what}: references differ");
            }
        }
    }
    skipped
}

fn sweeps_agree(name: &str, recording: &mut Recording) {
    let mut configs: Vec<SweepConfig> = (configurations("metasim26").expect("a preset").iter())
        .map(SweepConfig::from)
        .collect();
    configs.extend(grid(&[1 << 10, 12 << 10], &[16, 64, 256], &[1, 3, 8], Policy::Lru));
    configs.extend(grid(&[1 << 10, 12 << 10], &[32, 64], &[2, 3, 8], Policy::Fifo));
    let expected: Vec<SweepCounts> = configs
        .iter()
        .map(|config| one_by_the_book(recording, config))
        .collect();
    for workers in [1, 3] {
        let mut sweep = Sweep::on(&configs, workers).expect("configurations that make sense");
        recording.replay(&mut sweep);
        for ((config, expected), got) in configs.iter().zip(&expected).zip(sweep.counts()) {
            assert_eq!(got, *expected, "{name}: {config}, {workers} workers");
        }
    }
    for (config, expected) in configs.iter().zip(expected) {
        let mut single = Single::new(config, u64::MAX).expect("a configuration that makes sense");
        recording.replay(&mut single);
        assert_eq!(single.counts(), Some(expected), "{name}: {config} by itself");
    }
}

fn one_by_the_book(recording: &mut Recording, config: &SweepConfig) -> SweepCounts {
    let level = Level {
        policy: config.policy,
        ..Level::new("L1", config.size, config.line, config.ways)
    };
    let traffic = by_the_book(recording, &Hierarchy::of(vec![level]), Options::default())[0].traffic;
    SweepCounts {
        reads: traffic.reads,
        writes: traffic.writes,
    }
}

fn kernel(name: &str, source: &str, args: &[&str]) -> Subject {
    let program = built(
        &format!("textbook-{name}"),
        source,
        &["-O2", "-pthread", "-I", "tests/guests/include"],
    );
    Subject::record(program.expect("built"), args).unwrap_or_else(|why| panic!("{why}"))
}

/// Returns how many accesses were left out.
fn agree(name: &str, subject: &Subject) -> u64 {
    let mut recording = Recording::of(&subject.recording);
    sweeps_agree(name, &mut recording);
    hierarchies_agree(name, &mut recording)
}

#[test]
fn what_branches_on_its_data() {
    agree(
        "quicksort",
        &kernel("quicksort", "bench/kernels/quicksort.c", &["1500", "1"]),
    );
}

#[test]
fn what_is_loops() {
    let skipped = agree("lu", &kernel("lu", "bench/kernels/lu.c", &["40"]));
    assert!(skipped > 10_000, "{skipped}");
}

#[test]
fn what_has_threads() {
    agree("threads", &kernel("threads", "tests/guests/threads_sixteen.c", &[]));
}

#[test]
fn what_debian_has() {
    let recording = work_directory().join("textbook-gzip.mtr");
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let subject = Subject::record_to(recording, "gzip".into(), &["-c", text]);
    agree("gzip", &subject.unwrap_or_else(|why| panic!("{why}")));
}
