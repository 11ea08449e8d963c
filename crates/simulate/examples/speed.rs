//! How fast simulations are: `cargo run --release -p memtrail-simulate --example speed -- FILE.mtr…`
//!
//! Each recording is replayed into memory once (no more than 30 million accesses of it); then each simulation runs over it several times and the
//! fastest counts, in processor time of the thread that feeds it (or, of several workers, in time that passes).
use memtrail_model::{Access, AccessSink};
use memtrail_simulate::reuse::Reuse;
use memtrail_simulate::spec::configurations;
use memtrail_simulate::sweep::{Sweep, SweepConfig};
use memtrail_simulate::{Hierarchy, Level, Options, Simulator};
use memtrail_trace::{accesses, Known, Reader, Selection};
use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

const MOST: u64 = 30_000_000;
const RUNS: usize = 5;
/// Accesses, of one thread, that are handed over at once.
const BATCH: usize = 4096;

struct Memory(Vec<Access>);

impl AccessSink for Memory {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.extend_from_slice(batch);
    }
}

/// Nanoseconds this thread has run for.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0)
}

fn clock() -> impl Fn() -> f64 {
    let begin = Instant::now();
    move || begin.elapsed().as_nanos() as f64
}

fn time<S: AccessSink>(
    name: &str,
    stream: &[Access],
    now: impl Fn() -> f64,
    make: impl Fn() -> S,
    end: impl Fn(&mut S) -> u64,
) {
    let of_thread = stream.chunk_by(|a, b| a.thread == b.thread);
    let batches: Vec<&[Access]> = of_thread.flat_map(|accesses| accesses.chunks(BATCH)).collect();
    let mut best = f64::MAX;
    let mut result = 0;
    for _ in 0..RUNS {
        let mut sink = make();
        let begin = now();
        for batch in &batches {
            sink.accesses(batch);
        }
        result = end(&mut sink);
        best = best.min(now() - begin);
    }
    let per_second = stream.len() as f64 / best * 1e3;
    println!("  {name:<32} {per_second:8.1} M accesses/s   ({result})");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let mut reader = Reader::open(BufReader::new(File::open(&path)?))?;
        let known = Known::read(&mut reader)?;
        let mut memory = Memory(Vec::new());
        let selection = Selection {
            limit: MOST,
            ..Selection::default()
        };
        accesses(&mut reader, &known, &selection, &mut memory)?;
        let stream = memory.0;
        println!("{path}: {} accesses", stream.len());
        let one = Hierarchy::of(vec![Level::new("L1", 32 << 10, 64, 8)]);
        let configs: Vec<SweepConfig> = configurations("metasim26")?.iter().map(SweepConfig::from).collect();
        let misses = |sweep: &mut Sweep| sweep.counts().iter().map(|counts| counts.total().misses).sum();
        time(
            "32K:64:8, by reference point",
            &stream,
            processor_time,
            || Simulator::new(&one, Options::default()).expect("a good hierarchy"),
            |simulator| simulator.counts()[0].total().misses,
        );
        time(
            "26 configurations",
            &stream,
            processor_time,
            || Sweep::new(&configs).expect("good configurations"),
            misses,
        );
        time(
            "26 configurations, 2 workers",
            &stream,
            clock(),
            || Sweep::on(&configs, 2).expect("good configurations"),
            misses,
        );
        let reuse = |line| Reuse::new(line).expect("a good line");
        let never = |reuse: &mut Reuse| reuse.histogram().never().total();
        time(
            "reuse distances of 64 bytes",
            &stream,
            processor_time,
            || reuse(64),
            never,
        );
        time(
            "reuse distances, by point",
            &stream,
            processor_time,
            || reuse(64).by_point(),
            never,
        );
    }
    Ok(())
}
