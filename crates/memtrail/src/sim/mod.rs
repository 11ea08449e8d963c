//! `sim`: caches, simulated on a recording or while a program runs.
//!
//! One file for each concern: what is asked for (`args`), which caches ([`choose`]), what finds it out ([`analyses`], in one pass: [`tee`]; [`singles`]), what gets through to
//! that ([`feed`]), what counts mean in terms of the program ([`rows`]), and how that is told to people ([`report`]) and to programs ([`json`]; [`many`] for both).
pub mod analyses;
pub mod args;
pub mod choose;
pub mod columns;
mod fan_out;
pub mod feed;
pub mod json;
mod many;
pub mod report;
pub mod rows;
mod singles;

use crate::args::RecordArgs;
use crate::dump::{replayed, selection, whole};
use crate::info::{open, threads, warn_unless_whole, Recording};
use crate::live::{self, Ran};
use crate::output;
use crate::progress::Progress;
use crate::record::{self, Done};
use crate::say;
use analyses::Analyses;
use anyhow::{bail, Context};
use args::{Charge, SimArgs};
use feed::Feed;
use memtrail_decode::{PointInfo, Table};
use memtrail_model::{AccessSink, Kind, Thread};
use memtrail_replay::{accesses, Selection};
use memtrail_simulate::reuse::{Curve, Histogram};
use memtrail_simulate::sweep::{SweepConfig, SweepCounts};
use memtrail_simulate::{Hierarchy, LevelCounts};
use memtrail_trace::Known;
use rows::{Reference, Row};
use serde_json::Value;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, ScopedJoinHandle};

const NOTHING: &str = "no access was simulated";

/// References in the table, unless told otherwise.
const TOP: usize = 20;

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// Accesses that were simulated.
    pub accesses: u64,
    pub levels: Option<Findings>,
    pub sweep: Vec<Swept>,
    pub curves: Option<Vec<Curve>>,
    pub reuse: Option<Histogram>,
    /// Bytes of a line in curves and reuse distances.
    pub line: u32,
}

/// What was found of one configuration of a sweep.
#[derive(Debug)]
pub struct Swept {
    pub config: SweepConfig,
    pub counts: SweepCounts,
    /// Accesses that were known to repeat others, and not simulated one by one.
    pub skipped: u64,
}

/// What the simulation of a hierarchy found.
#[derive(Debug)]
pub struct Findings {
    pub hierarchy: Hierarchy,
    /// Where the hierarchy is from.
    pub source: String,
    /// Accesses that were known to repeat others, and not simulated one by one.
    pub skipped: u64,
    /// By level.
    pub counts: Vec<LevelCounts>,
    pub rows: Vec<Row>,
    /// The level to tell of, if it is not the first.
    pub level: Option<usize>,
    pub classes: bool,
    /// Who evicts whom was asked for, charged to these.
    pub evictors: Option<Charge>,
}

impl Findings {
    /// The level that the figures of a reference are told of.
    pub fn level_of(&self, kind: Kind) -> usize {
        self.level.unwrap_or_else(|| rows::first_level(&self.hierarchy, kind))
    }

    fn sort(&mut self, args: &SimArgs) {
        let rows = std::mem::take(&mut self.rows);
        self.rows = rows::sort(rows, args.sort, |kind| self.level_of(kind));
    }

    /// The levels behind those.
    pub fn further(&self) -> Vec<usize> {
        let told: Vec<usize> = self.rows.iter().map(|row| self.level_of(row.reference.kind)).collect();
        let first = told.iter().copied().min().unwrap_or(0);
        (first..self.hierarchy.levels.len())
            .filter(|at| !told.contains(at))
            .collect()
    }
}

pub fn command(args: &SimArgs) -> anyhow::Result<u8> {
    if args.caches.preset.as_deref() == Some(choose::LIST) {
        return output::write(None, &choose::list());
    }
    output::check(args.output.as_deref())?;
    if args.live {
        return run(args);
    }
    if !args.command.is_empty() {
        bail!("a command is simulated with --live");
    }
    let path = args.file.as_deref().context("no recording is given")?;
    let mut reader = open(path)?;
    let mut known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let found = simulate(args, path, &mut reader, &mut known)?;
    let command = reader.header().command.clone();
    tell(args, &found, command, Some(path))?;
    whole(&known)
}

/// Simulates while a program runs.
fn run(args: &SimArgs) -> anyhow::Result<u8> {
    let analyses = Analyses::new(args)?;
    let mut record_args = RecordArgs::of(args.command.clone());
    // Nothing here asks what is allocated.
    record_args.objects.no_objects = true;
    let (done, ran) = live::run(&record_args, |pid| feed(args, analyses, Progress::of(pid)))?;
    let status = record::finish(&record_args, &done, false)?;
    let Some(ran) = ran else {
        // What went wrong has been said.
        return Ok(status);
    };
    let found = of_run(args, &done, ran)?;
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned());
    tell(args, &found, command.collect(), None)?;
    Ok(status)
}

/// What was found of a program that has run.
fn of_run(args: &SimArgs, done: &Done, ran: Ran<Feed<Analyses>>) -> anyhow::Result<Found> {
    match ran {
        Ran::Recorded(_) if done.totals.accesses == 0 => bail!(NOTHING),
        Ran::Recorded(memory) => of_file(args, &memory.path()),
        Ran::Told(lived) => {
            let (analyses, accesses) = ended(args, lived.sink);
            if accesses == 0 {
                bail!(NOTHING);
            }
            let points = references(&lived.table);
            Ok(analyses.found(args, accesses, &points))
        }
    }
}

/// Runs a command with MetaSim's 26 caches simulated on all its accesses, for the sake of the time that takes.
pub fn of_26_caches(record_args: &RecordArgs) -> anyhow::Result<Done> {
    let mut args = SimArgs::of(Default::default(), "");
    args.caches.caches.clear();
    args.many.sweeps.push("metasim26".to_string());
    let analyses = Analyses::new(&args)?;
    let (done, ran) = live::run(record_args, |pid| feed(&args, analyses, Progress::of(pid)))?;
    if let Some(ran) = ran {
        of_run(&args, &done, ran)?;
    }
    Ok(done)
}

fn feed(args: &SimArgs, analyses: Analyses, progress: Progress) -> Feed<Analyses> {
    let pcs = args.pcs.iter().map(|range| range.0.clone()).collect();
    Feed::new(analyses, pcs, args.limit.unwrap_or(u64::MAX), progress)
}

/// All accesses have come: the analyses, and how many there were.
fn ended(args: &SimArgs, feed: Feed<Analyses>) -> (Analyses, u64) {
    let (analyses, accesses) = feed.finish();
    (analyses.end(args), accesses)
}

/// Simulates a recording, as far as it is whole.
pub fn of_file(args: &SimArgs, path: &Path) -> anyhow::Result<Found> {
    let mut reader = open(path)?;
    let mut known = Known::read(&mut reader)?;
    simulate(args, path, &mut reader, &mut known)
}

/// Simulates a recording.
fn simulate(args: &SimArgs, path: &Path, reader: &mut Recording, known: &mut Known) -> anyhow::Result<Found> {
    let mut analyses = Analyses::new(args)?;
    if args.caches.instructions {
        known.table.number_fetches();
    }
    let known = &*known;
    // The limit is for accesses that are simulated, whatever else is replayed.
    let limit = if args.pcs.is_empty() { args.limit } else { None };
    let selection = selection(&args.part, limit, known)?;
    let swept = analyses.by_itself(|configs| singles::simulate(args, configs, path, known, &selection))?;
    let progress = progress(known, &selection);
    let several = selection.thread.is_none() && args.limit.is_none() && threads(known, None, path)?.len() > 1;
    let (analyses, accesses) = if let Some(accesses) = swept.filter(|_| analyses.is_done()) {
        (analyses, accesses)
    } else if several && analyses.keeps_threads_apart() {
        apart(args, path, known, &selection, analyses, &progress)?
    } else {
        let mut feed = feed(args, analyses, progress);
        replayed(accesses(reader, known, &selection, &mut feed))?;
        ended(args, feed)
    };
    if accesses == 0 {
        bail!("{}: {NOTHING}", path.display());
    }
    let points = references(&known.table);
    Ok(analyses.found(args, accesses, &points))
}

/// Simulates threads that have no cache in common, side by side.
fn apart(
    args: &SimArgs,
    path: &Path,
    known: &Known,
    selection: &Selection,
    mut analyses: Analyses,
    progress: &Progress,
) -> anyhow::Result<(Analyses, u64)> {
    let threads: Vec<u32> = threads(known, None, path)?.into_iter().collect();
    let one = |&thread: &u32| {
        let mut feed = feed(args, Analyses::of_levels(args)?, progress.clone());
        replay_thread(thread, path, known, selection, &mut feed)?;
        anyhow::Ok(ended(args, feed))
    };
    let done = side_by_side(&threads, one)?;
    let mut all = 0;
    for (part, accesses) in &done {
        analyses.add(part);
        all += accesses;
    }
    Ok((analyses, all))
}

/// Replays what is selected of one thread by itself: its loops come whole.
fn replay_thread(
    thread: u32,
    path: &Path,
    known: &Known,
    selection: &Selection,
    sink: &mut impl AccessSink,
) -> anyhow::Result<()> {
    let mut reader = open(path)?;
    let selection = Selection {
        thread: Some(Thread(thread)),
        ..*selection
    };
    replayed(accesses(&mut reader, known, &selection, sink))
}

/// How many there are.
fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Does something with each on all cores. The results come in no order.
fn side_by_side<T: Sync, R: Send>(all: &[T], one: impl Fn(&T) -> anyhow::Result<R> + Sync) -> anyhow::Result<Vec<R>> {
    let next = Mutex::new(all.iter());
    let work = || {
        let mut done = Vec::new();
        loop {
            let item = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            match item {
                Some(item) => done.push(one(item)?),
                None => return anyhow::Ok(done),
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores().min(all.len())).map(|_| scope.spawn(work)).collect();
        let join = |worker: ScopedJoinHandle<'_, _>| worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        let done: anyhow::Result<Vec<Vec<R>>> = workers.into_iter().map(join).collect();
        Ok(done?.into_iter().flatten().collect())
    })
}

/// How many accesses will be replayed is known unless a part is picked.
pub fn progress(known: &Known, selection: &Selection) -> Progress {
    if selection.from.is_some() || selection.to.is_some() {
        return Progress::new();
    }
    Progress::towards(total(known, selection.thread).min(selection.limit))
}

/// The accesses of a thread, or of all.
fn total(known: &Known, thread: Option<Thread>) -> u64 {
    let heads = known.streams.iter().map(|chunk| chunk.head.stream);
    let wanted = heads.filter(|head| thread.is_none_or(|thread| thread.0 == head.thread));
    wanted.map(|head| head.accesses).sum()
}

/// Where points are.
fn references(table: &Table) -> Vec<Reference> {
    let reference = |point: &PointInfo| {
        let place = table.images().place(point.code);
        Reference {
            pc: point.pc,
            code: point.code,
            place: place.file().map(|file| (file.name(), place.offset)),
            kind: point.kind,
        }
    };
    table.points().iter().map(reference).collect()
}

/// Prints what was found, and what to ask next.
fn tell(args: &SimArgs, found: &Found, command: Vec<String>, path: Option<&Path>) -> anyhow::Result<()> {
    let file = path.map(|path| path.display().to_string());
    let text = text(args, found, [("command", command.into()), ("file", file.into())]);
    output::write(args.output.as_deref(), &text)?;
    if let Some(path) = path.filter(|_| !args.json) {
        suggest(args, path);
    }
    Ok(())
}

/// What was found, as it is printed; for programs with something about the run.
fn text<const N: usize>(args: &SimArgs, found: &Found, about: [(&'static str, Value); N]) -> String {
    if args.json {
        let mut value = json::found(found, args.top.unwrap_or(usize::MAX));
        about.into_iter().for_each(|(key, item)| value[key] = item);
        return format!("{value:#}\n");
    }
    let mut parts = Vec::new();
    if let Some(findings) = &found.levels {
        let top = args.top.unwrap_or(TOP);
        let levels = findings.hierarchy.levels.iter().zip(&findings.counts);
        parts.extend(levels.map(|(level, counts)| report::block(level, counts, findings.classes)));
        parts.push(report::references(findings, top));
        if findings.evictors.is_some() {
            parts.push(report::evictors(findings, top));
        }
    }
    if !found.sweep.is_empty() {
        parts.push(many::sweep(&found.sweep));
    }
    if let Some(curves) = &found.curves {
        parts.push(many::curves(found.line, curves));
    }
    if let Some(histogram) = &found.reuse {
        parts.push(many::reuse(histogram));
    }
    parts.join("\n")
}

/// The next question, about the same caches.
fn suggest(args: &SimArgs, path: &Path) {
    // Where that is in the source, and which data it is.
    let next = match (args.evictors, args.classes) {
        (false, false) => "refs",
        (true, false) => "evictors",
        (_, true) => "objects",
    };
    say::line(format_args!("next: memtrail {next}{} {}", args.caches, path.display()));
}
