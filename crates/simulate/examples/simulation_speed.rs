//! How fast simulations are:
//! `cargo run --release -p memtrail-simulate --example simulation_speed -- [--accesses N] [--runs N] [--file-runs N] [--stream] [--only NAME] FILE.mtr…`
//!
//! Each recording is replayed into memory once (no more than so many accesses of it); then each
//! simulation runs over it several times.
//!
//! **What is timed.** Replay hands accesses over in batches that it has just written and that are
//! still in the nearest caches of the processor. A gigabyte of them in memory is not: waiting for
//! memory would be part of the time, and nobody who simulates has to. So they are copied piece by
//! piece to one place, as replay would write them there, and from that place handed over in batches
//! of replay's size; the clock runs while a piece is being simulated and stands still while the
//! next is copied. Nothing is subtracted. With `--stream` the clock runs all the time and batches
//! are handed over from where they are: memory's part is in the figures then. `reading alone` is a
//! sink that adds up the addresses: what handing over costs, in either way.
//!
//! **Which time counts.** Every run does the same, so what takes longer in one run than in another
//! was disturbed. Of each stretch of some hundred thousand accesses the least time of all runs
//! counts, and these are added up.
//!
//! Several workers go on while the clock stands still; they are timed as with `--stream`, and by
//! whole runs. So is the last line, the way of `memtrail sim`: the whole recording, from the file,
//! with loops taken whole and iterations left out.
//!
//! That one is done `--file-runs` times. `--only` takes one of the names that are printed.
//!
//! Printed for each: a name, millions of accesses per second, and something that was counted, with
//! tabs between.
use memtrail_model::{Access, AccessSink};
use memtrail_replay::{accesses, Selection};
use memtrail_simulate::reuse::Reuse;
use memtrail_simulate::spec::configurations;
use memtrail_simulate::sweep::{Sweep, SweepConfig};
use memtrail_simulate::{Hierarchy, Level, Options, Simulator};
use memtrail_trace::{Known, Reader};
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::time::{Duration, Instant};

/// Accesses, of one thread, that are handed over at once: as many as replay does.
const BATCH: usize = 512;
/// Accesses that are copied at once: few enough to lie in a second-level cache, and many enough
/// that looking at the clock costs nothing.
const PIECE: usize = 8 * BATCH;
/// Accesses whose least time counts: some milliseconds, so that chance does not make them faster.
const STRETCH: usize = 64 * PIECE;

const ON_DESCRIPTORS: &str = "on descriptors";

struct Memory(Vec<Access>);

impl AccessSink for Memory {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.extend_from_slice(batch);
    }
}

/// Adds up the addresses.
struct Reading(u64);

impl AccessSink for Reading {
    fn accesses(&mut self, batch: &[Access]) {
        self.0 = batch.iter().fold(self.0, |sum, access| sum.wrapping_add(access.addr));
    }
}

fn print(name: &str, accesses: u64, taken: Duration, result: u64) {
    println!("{name}\t{:.1}\t{result}", accesses as f64 / taken.as_secs_f64() / 1e6);
}

/// Batches of one thread each.
fn batches(accesses: &[Access]) -> Vec<&[Access]> {
    let of_thread = accesses.chunk_by(|a, b| a.thread == b.thread);
    of_thread.flat_map(|accesses| accesses.chunks(BATCH)).collect()
}

/// Hands batches over, and returns how long that takes.
fn feed(sink: &mut impl AccessSink, batches: &[&[Access]]) -> Duration {
    timed(|| batches.iter().for_each(|batch| sink.accesses(batch)))
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

/// A recording in memory, and how often to run over it.
struct Stream {
    accesses: Vec<Access>,
    runs: usize,
    /// The clock never stands still.
    stream: bool,
    /// The only simulation to run.
    only: Option<String>,
}

impl Stream {
    fn time<S: AccessSink>(&self, name: &str, make: impl Fn() -> S, end: impl Fn(&mut S) -> u64) {
        self.time_by(name, STRETCH, self.stream, make, end);
    }

    fn time_by<S: AccessSink>(
        &self,
        name: &str,
        stretch: usize,
        stream: bool,
        make: impl Fn() -> S,
        end: impl Fn(&mut S) -> u64,
    ) {
        if self.only.as_deref().is_some_and(|only| only != name) {
            return;
        }
        // By stretch; the last is what is to be done at the end.
        let stretches: Vec<&[Access]> = self.accesses.chunks(stretch).collect();
        // Before the clock runs: looking for them brings accesses into the caches.
        let in_place: Vec<Vec<&[Access]>> = stretches.iter().map(|stretch| batches(stretch)).collect();
        let mut least = vec![Duration::MAX; stretches.len() + 1];
        let mut result = 0;
        let mut here = Vec::with_capacity(PIECE);
        for _ in 0..self.runs {
            let mut sink = make();
            let mut taken = vec![Duration::ZERO; least.len()];
            for ((stretch, in_place), taken) in stretches.iter().zip(&in_place).zip(&mut taken) {
                if stream {
                    *taken = feed(&mut sink, in_place);
                    continue;
                }
                for piece in stretch.chunks(PIECE) {
                    here.clear();
                    here.extend_from_slice(piece);
                    *taken += feed(&mut sink, &batches(&here));
                }
            }
            if let Some(taken) = taken.last_mut() {
                *taken = timed(|| result = end(&mut sink));
            }
            least
                .iter_mut()
                .zip(taken)
                .for_each(|(least, taken)| *least = taken.min(*least));
        }
        print(name, self.accesses.len() as u64, least.iter().sum(), result);
    }

    fn hierarchy(&self, name: &str, hierarchy: &Hierarchy, options: Options) {
        let make = || Simulator::new(hierarchy, options).expect("a good hierarchy");
        self.time(name, make, misses);
    }

    fn sweep(&self) {
        let levels = configurations("metasim26").expect("a known set");
        let configs: Vec<SweepConfig> = levels.iter().map(SweepConfig::from).collect();
        let misses = |sweep: &mut Sweep| sweep.counts().iter().map(|counts| counts.total().misses).sum();
        let one = || Sweep::new(&configs).expect("good configurations");
        self.time("26 configurations", one, misses);
        let two = || Sweep::on(&configs, 2).expect("good configurations");
        self.time_by("26 configurations, 2 workers", usize::MAX, true, two, misses);
    }

    fn reuse(&self) {
        let reuse = || Reuse::new(64).expect("a good line");
        let never = |reuse: &mut Reuse| reuse.histogram().never().total();
        self.time("reuse distances", reuse, never);
        self.time("reuse distances, by point", || reuse().by_point(), never);
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
    let (mut best, mut result) = (Duration::MAX, (0, 0));
    for _ in 0..runs {
        let mut simulator = Simulator::new(&one_level(), Options::default())?;
        let begin = Instant::now();
        let all = replay(path, u64::MAX, &mut simulator)?;
        best = best.min(begin.elapsed());
        result = (all, misses(&mut simulator));
    }
    print(ON_DESCRIPTORS, result.0, best, result.1);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut most, mut runs, mut file_runs, mut stream, mut only) = (30_000_000, 5, 3, false, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--accesses" => most = args.next().ok_or("--accesses needs a number")?.parse()?,
            "--runs" => runs = args.next().ok_or("--runs needs a number")?.parse()?,
            "--file-runs" => file_runs = args.next().ok_or("--file-runs needs a number")?.parse()?,
            "--stream" => stream = true,
            "--only" => only = Some(args.next().ok_or("--only needs a name")?),
            path => {
                let mut memory = Memory(Vec::new());
                replay(path, most, &mut memory)?;
                let stream = Stream {
                    accesses: memory.0,
                    runs,
                    stream,
                    only: only.clone(),
                };
                println!("{path}\t\t{}", stream.accesses.len());
                let everything = Options {
                    evictors: true,
                    classes: true,
                    ..Options::default()
                };
                stream.time("reading alone", || Reading(0), |sink| std::hint::black_box(sink.0));
                stream.hierarchy("one level", &one_level(), Options::default());
                stream.hierarchy("evictors and classes", &one_level(), everything);
                stream.hierarchy("three levels", &three_levels(), Options::default());
                stream.sweep();
                stream.reuse();
                drop(stream);
                if only.as_deref().is_none_or(|only| only == ON_DESCRIPTORS) {
                    from_the_file(path, file_runs)?;
                }
            }
        }
    }
    Ok(())
}
