//! How fast simulations are: `cargo run --release -p memtrail-simulate --example simulation_speed -- [--accesses N] [--runs N] FILE.mtr…`
//!
//! Each recording is replayed into memory once (no more than so many accesses of it); then each simulation runs over it several times and the
//! fastest counts, in processor time of the thread that feeds it (or, of several workers, in time that passes). The last line is the way of `memtrail sim`: the whole
//! recording, from the file, with loops taken whole and iterations left out, in time that passes.
//!
//! Printed for each: a name, millions of accesses per second, and something that was counted, with tabs between.
use memtrail_model::{Access, AccessSink};
use memtrail_simulate::reuse::Reuse;
use memtrail_simulate::spec::configurations;
use memtrail_simulate::sweep::{Sweep, SweepConfig};
use memtrail_simulate::{Hierarchy, Level, Options, Simulator};
use memtrail_trace::{accesses, Known, Reader, Selection};
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

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

fn print(name: &str, accesses: u64, nanoseconds: f64, result: u64) {
    println!("{name}\t{:.1}\t{result}", accesses as f64 / nanoseconds * 1e3);
}

/// A recording in memory, and how often to run over it.
struct Stream {
    accesses: Vec<Access>,
    runs: usize,
}

impl Stream {
    fn time<S: AccessSink>(
        &self,
        name: &str,
        now: impl Fn() -> f64,
        make: impl Fn() -> S,
        end: impl Fn(&mut S) -> u64,
    ) {
        let of_thread = self.accesses.chunk_by(|a, b| a.thread == b.thread);
        let batches: Vec<&[Access]> = of_thread.flat_map(|accesses| accesses.chunks(BATCH)).collect();
        let mut best = f64::MAX;
        let mut result = 0;
        for _ in 0..self.runs {
            let mut sink = make();
            let begin = now();
            for batch in &batches {
                sink.accesses(batch);
            }
            result = end(&mut sink);
            best = best.min(now() - begin);
        }
        print(name, self.accesses.len() as u64, best, result);
    }

    fn hierarchy(&self, name: &str, hierarchy: &Hierarchy, options: Options) {
        let make = || Simulator::new(hierarchy, options).expect("a good hierarchy");
        self.time(name, processor_time, make, misses);
    }

    fn sweep(&self) {
        let levels = configurations("metasim26").expect("a known set");
        let configs: Vec<SweepConfig> = levels.iter().map(SweepConfig::from).collect();
        let misses = |sweep: &mut Sweep| sweep.counts().iter().map(|counts| counts.total().misses).sum();
        let one = || Sweep::new(&configs).expect("good configurations");
        self.time("26 configurations", processor_time, one, misses);
        let two = || Sweep::on(&configs, 2).expect("good configurations");
        self.time("26 configurations, 2 workers", clock(), two, misses);
    }

    fn reuse(&self) {
        let reuse = || Reuse::new(64).expect("a good line");
        let never = |reuse: &mut Reuse| reuse.histogram().never().total();
        self.time("reuse distances", processor_time, reuse, never);
        self.time(
            "reuse distances, by point",
            processor_time,
            || reuse().by_point(),
            never,
        );
    }
}

fn misses(simulator: &mut Simulator) -> u64 {
    simulator.counts()[0].total().misses
}

fn one_level() -> Hierarchy {
    Hierarchy::of(vec![Level::new("L1", 32 << 10, 64, 8)])
}

fn three_levels() -> Hierarchy {
    Hierarchy::of(vec![
        Level::new("L1", 32 << 10, 64, 8),
        Level::new("L2", 512 << 10, 64, 8),
        Level::new("L3", 8 << 20, 64, 16),
    ])
}

/// Replays a recording, or the first `limit` accesses of it.
fn replay(path: &str, limit: u64, sink: &mut impl AccessSink) -> Result<u64, Box<dyn Error>> {
    let mut reader = Reader::open(BufReader::new(File::open(path)?))?;
    let known = Known::read(&mut reader)?;
    let selection = Selection {
        limit,
        ..Selection::default()
    };
    accesses(&mut reader, &known, &selection, sink)?;
    Ok(known.streams.iter().map(|chunk| chunk.head.stream.accesses).sum())
}

fn from_the_file(path: &str, runs: usize) -> Result<(), Box<dyn Error>> {
    let (mut best, mut result) = (f64::MAX, (0, 0));
    for _ in 0..runs {
        let mut simulator = Simulator::new(&one_level(), Options::default())?;
        let now = clock();
        let all = replay(path, u64::MAX, &mut simulator)?;
        best = best.min(now());
        result = (all, misses(&mut simulator));
    }
    print("on descriptors", result.0, best, result.1);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut most, mut runs) = (30_000_000, 5);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--accesses" => most = args.next().ok_or("--accesses needs a number")?.parse()?,
            "--runs" => runs = args.next().ok_or("--runs needs a number")?.parse()?,
            path => {
                let mut memory = Memory(Vec::new());
                replay(path, most, &mut memory)?;
                let stream = Stream {
                    accesses: memory.0,
                    runs,
                };
                println!("{path}\t\t{}", stream.accesses.len());
                let everything = Options {
                    evictors: true,
                    classes: true,
                    ..Options::default()
                };
                stream.hierarchy("one level", &one_level(), Options::default());
                stream.hierarchy("evictors and classes", &one_level(), everything);
                stream.hierarchy("three levels", &three_levels(), Options::default());
                stream.sweep();
                stream.reuse();
                drop(stream);
                from_the_file(path, runs)?;
            }
        }
    }
    Ok(())
}
