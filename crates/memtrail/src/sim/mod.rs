//! `sim`: caches, simulated on a recording or while a program runs.
//!
//! One file for each concern: what is asked for (`args`), which caches ([`choose`]), what finds it
//! out ([`analyses`], in one pass: [`tee`]), and what gets through to that ([`feed`]). What it
//! found is a result set, as that of the tables.
pub mod analyses;
pub mod args;
pub mod choose;
mod fan_out;
pub mod feed;

use crate::args::RecordArgs;
use crate::dump::{replayed, selection, whole};
use crate::info::{ending_warning, open, threads, warn_unless_whole, Recording};
use crate::input::{save, Input};
use crate::live::{self, Ran};
use crate::output;
use crate::progress::Progress;
use crate::record::{self, Done};
use crate::say;
use crate::tables::args::refuse_for_saved;
use crate::tables::names::Names;
use crate::tables::results::results as of_measured;
use crate::tables::run::Measured;
use crate::terminal;
use analyses::Analyses;
use anyhow::{bail, Context};
use args::SimArgs;
use choose::Chosen;
use feed::Feed;
use memtrail_decode::PointInfo;
use memtrail_model::{AccessSink, Thread};
use memtrail_replay::{accesses, Selection};
use memtrail_report::{json, text, Counted, Dimension, Missing, ResultSet, Reuse, Run, Source, View};
use memtrail_simulate::reuse::Curve;
use memtrail_simulate::sweep::{self, side_by_side, Single, SweepConfig, Swept};
use memtrail_simulate::LevelCounts;
use memtrail_trace::Known;
use std::path::Path;
use std::rc::Rc;
use std::thread::available_parallelism;

const NOTHING: &str = "no access was simulated";

/// References in the table, unless told otherwise.
const TOP: usize = 20;

/// What was found.
pub struct Found {
    levels: Option<Findings>,
    sweep: Vec<Swept>,
    /// Bytes of a line, and curves.
    curves: Option<(u32, Vec<Curve>)>,
    reuse: Option<Reuse>,
}

/// What the simulation of a hierarchy found.
struct Findings {
    chosen: Chosen,
    /// Accesses that were known to repeat others, and not simulated one by one.
    skipped: u64,
    /// By level.
    counts: Vec<LevelCounts>,
}

pub fn command(args: &SimArgs) -> anyhow::Result<u8> {
    if args.caches.preset.as_deref() == Some(choose::LIST) {
        return output::write(None, &choose::list());
    }
    output::check(args.output.as_deref())?;
    output::check(args.save.as_deref())?;
    if args.live {
        return run(args);
    }
    if !args.command.is_empty() {
        bail!("a command is simulated with --live");
    }
    let path = args.file.as_deref().context("no recording is given")?;
    let mut reader = match Input::open(path)? {
        Input::Recording(reader) => reader,
        Input::Saved(set) => return again(args, path, &set),
    };
    let mut known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let set = simulate(args, path, &mut reader, &mut known)?;
    tell(args, &set)?;
    if !args.json {
        suggest(args, path);
    }
    whole(&known)
}

/// Shows what was saved.
fn again(args: &SimArgs, path: &Path, set: &ResultSet) -> anyhow::Result<u8> {
    let mut given = args.part.given(args.limit, &args.pcs, args.flush);
    given.extend(args.many.sweeps.iter().map(|sweep| format!("--sweep {sweep}")));
    refuse_for_saved(path, &args.caches, &given)?;
    let counted = set.run.counted;
    let classes = match args.classes && !counted.classes {
        true => Err(Missing::Classes),
        false => Ok(()),
    };
    let evictors = args.evictors.then_some(args.charge.into());
    let missing = classes.and(evictors.map_or(Ok(()), |charge| counted.has_evictors(charge)));
    missing.with_context(|| path.display().to_string())?;
    set.run.warnings.iter().for_each(say::line);
    tell(args, set).with_context(|| path.display().to_string())?;
    Ok(0)
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
    let mut set = of_run(args, &done, ran)?;
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned());
    let command = command.collect();
    set.run.sources = [Source { command, file: None }].into();
    tell(args, &set)?;
    Ok(status)
}

/// What was found of a program that has run.
fn of_run(args: &SimArgs, done: &Done, ran: Ran<Feed<Analyses>>) -> anyhow::Result<ResultSet> {
    match ran {
        Ran::Recorded(_) if done.totals.accesses == 0 => bail!(NOTHING),
        Ran::Recorded(memory) => of_file(args, &memory.path()),
        Ran::Told(lived) => {
            let (analyses, accesses) = ended(args, lived.sink);
            if accesses == 0 {
                bail!(NOTHING);
            }
            let names = Names::new(&lived.table, args.symbols.options());
            Ok(results(args, analyses, accesses, lived.table.points(), names))
        }
    }
}

/// Runs a command with MetaSim's 26 caches simulated on all its accesses, for the sake of the time
/// that takes.
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
pub fn of_file(args: &SimArgs, path: &Path) -> anyhow::Result<ResultSet> {
    let mut reader = open(path)?;
    let mut known = Known::read(&mut reader)?;
    simulate(args, path, &mut reader, &mut known)
}

/// Simulates a recording.
fn simulate(args: &SimArgs, path: &Path, reader: &mut Recording, known: &mut Known) -> anyhow::Result<ResultSet> {
    args.part.only_rank(known)?;
    let mut analyses = Analyses::new(args)?;
    if args.caches.instructions {
        known.table.number_fetches();
    }
    let known = &*known;
    // The limit is for accesses that are simulated, whatever else is replayed.
    let limit = if args.pcs.is_empty() { args.limit } else { None };
    let selection = selection(&args.part, limit, known)?;
    let swept = analyses.by_itself(|configs| one_by_one(args, configs, path, known, &selection))?;
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
    let names = Names::new(&known.table, args.symbols.options());
    let mut set = results(args, analyses, accesses, known.table.points(), names);
    let source = Source {
        command: reader.header().command.clone(),
        file: Some(path.display().to_string()),
    };
    set.run.sources = [source].into();
    set.run.warnings.extend(ending_warning(&known.ending));
    Ok(set)
}

/// What was found, with names.
fn results(args: &SimArgs, analyses: Analyses, accesses: u64, points: &[PointInfo], names: Names) -> ResultSet {
    let found = analyses.found(args);
    let run = Run {
        accesses,
        selection: args.part.given(args.limit, &args.pcs, args.flush),
        counted: Counted {
            classes: args.classes,
            evictors: args.evictors.then_some(args.charge.into()),
            ..Counted::default()
        },
        ..Run::default()
    };
    let set = match found.levels {
        Some(levels) => {
            let mut measured = Measured::by_point(levels.chosen, levels.counts, points, Rc::new(names));
            (measured.accesses, measured.skipped) = (accesses, levels.skipped);
            of_measured(&measured, &[Dimension::Ref], run)
        }
        None => ResultSet {
            run,
            ..ResultSet::default()
        },
    };
    ResultSet {
        sweep: found.sweep,
        curves: found.curves,
        reuse: found.reuse,
        ..set
    }
}

/// Simulates each configuration of a sweep by itself, if each thread can be replayed whole and it
/// does not take too long.
fn one_by_one(
    args: &SimArgs,
    configs: &[SweepConfig],
    path: &Path,
    known: &Known,
    selection: &Selection,
) -> anyhow::Result<Option<(Vec<Swept>, u64)>> {
    let all = selection.from.is_none() && selection.to.is_none() && args.limit.is_none();
    if args.no_skip || !args.pcs.is_empty() || args.caches.cores.is_some() || !all {
        return Ok(None);
    }
    let mut threads = threads(known, None, path)?;
    threads.retain(|&thread| selection.thread.is_none_or(|wanted| wanted.0 == thread));
    let total = total(known, selection.thread);
    let progress = Progress::towards(total.saturating_mul(configs.len() as u64));
    let replay = |mut single: Single| {
        let mut all = 0;
        for &thread in &threads {
            let mut feed = Feed::new(single, Vec::new(), u64::MAX, progress.clone());
            replay_thread(thread, path, known, selection, &mut feed)?;
            let (taken, passed) = feed.finish();
            single = taken;
            all += passed;
        }
        anyhow::Ok((single, all))
    };
    sweep::one_by_one(configs, total, replay)
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
    let mut done = side_by_side(&threads, one)?;
    let mut all = 0;
    for (part, accesses) in &mut done {
        analyses.add(part);
        all += *accesses;
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
pub fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
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

/// Saves and prints what was found.
fn tell(args: &SimArgs, set: &ResultSet) -> anyhow::Result<()> {
    save(set, args.save.as_deref())?;
    let view = match set.levels.is_empty() {
        true => None,
        false => {
            let level = args.level.as_deref();
            let mut view = View::new(set, &[Dimension::Ref], args.sort.into(), level)?;
            view.width = terminal::width(args.wide);
            Some(view)
        }
    };
    let (view, classes, evictors) = (view.as_ref(), args.classes, args.evictors);
    let text = match args.json {
        true => {
            let top = args.top.unwrap_or(usize::MAX);
            format!("{:#}\n", json::sim(set, view, top, classes, evictors))
        }
        false => text::sim(set, view, args.top.unwrap_or(TOP), classes, evictors),
    };
    output::write(args.output.as_deref(), &text)?;
    Ok(())
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
