//! `sim`: caches, simulated on a recording or while a program runs.
//!
//! One file for each concern: what is asked for (`args`), which caches ([`choose`]), what gets through to the simulator ([`feed`]), what its
//! counts mean in terms of the program ([`rows`]), and how that is told to people ([`report`]) and to programs ([`json`]).
pub mod args;
mod choose;
mod columns;
mod feed;
mod json;
pub mod report;
pub mod rows;
mod tee;

use crate::dump::{replayed, selection, whole, written};
use crate::info::{open, warn_unless_whole, Recording};
use crate::progress::Progress;
use crate::say;
use anyhow::{bail, Context};
use args::SimArgs;
use choose::choose;
use feed::Feed;
use memtrail_model::Kind;
use memtrail_simulate::{Hierarchy, LevelCounts, Options, Simulator};
use memtrail_trace::{accesses, Known, Places, Selection};
use rows::{Reference, Row};
use serde_json::Value;
use std::io::Write;
use std::path::Path;

/// References in the table, unless told otherwise.
const TOP: usize = 20;

/// What a simulation found.
#[derive(Debug)]
pub struct Findings {
    pub hierarchy: Hierarchy,
    /// Where the hierarchy is from.
    pub source: String,
    /// Accesses that were simulated.
    pub accesses: u64,
    /// Those among them that were known to repeat others.
    pub skipped: u64,
    /// By level.
    pub counts: Vec<LevelCounts>,
    pub rows: Vec<Row>,
    /// The level to tell of, if it is not the first.
    pub level: Option<usize>,
    pub classes: bool,
    pub evictors: bool,
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
        return print(&choose::list());
    }
    if !args.command.is_empty() && !args.live {
        bail!("a command is simulated with --live");
    }
    let path = args.file.as_deref().context("no recording is given")?;
    let mut reader = open(path)?;
    let mut known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let findings = simulate(args, path, &mut reader, &mut known)?;
    print(&text(args, &findings, || {
        [
            ("command", reader.header().command.clone().into()),
            ("file", path.display().to_string().into()),
        ]
    }))?;
    if !args.json {
        suggest(args, path);
    }
    whole(&known)
}

fn level_named(hierarchy: &Hierarchy, name: &str) -> anyhow::Result<usize> {
    let names: Vec<&str> = hierarchy.levels.iter().map(|level| level.name.as_str()).collect();
    let found = names.iter().position(|n| *n == name);
    found.with_context(|| format!("--level {name}: there are {}", names.join(", ")))
}

/// Simulates a recording, as far as it is whole.
pub fn of_file(args: &SimArgs, path: &Path) -> anyhow::Result<Findings> {
    let mut reader = open(path)?;
    let mut known = Known::read(&mut reader)?;
    simulate(args, path, &mut reader, &mut known)
}

/// Simulates a recording.
fn simulate(args: &SimArgs, path: &Path, reader: &mut Recording, known: &mut Known) -> anyhow::Result<Findings> {
    if args.caches.instructions {
        known.table.number_fetches();
    }
    let known = &*known;
    let chosen = choose(&args.caches)?;
    let level = args.level.as_deref().map(|name| level_named(&chosen.hierarchy, name));
    let level = level.transpose()?;
    let mut simulator = Simulator::new(&chosen.hierarchy, options(args))?;
    // The limit is for accesses that are simulated, whatever else is replayed.
    let limit = if args.pcs.is_empty() { args.limit } else { None };
    let selection = selection(&args.part, limit, known)?;
    let progress = progress(known, &selection);
    let pcs = args.pcs.iter().map(|range| range.0.clone()).collect();
    let mut feed = Feed::new(&mut simulator, pcs, args.limit.unwrap_or(u64::MAX), progress);
    replayed(accesses(reader, known, &selection, &mut feed))?;
    let accesses = feed.passed();
    drop(feed);
    if accesses == 0 {
        bail!("{}: no access was simulated", path.display());
    }
    let places = Places::new(known);
    let points = known.table.points().iter().map(|point| reference(&places, point));
    let points: Vec<Reference> = points.collect();
    let counts = simulator.counts();
    let mut findings = Findings {
        rows: rows::rows(&points, &counts),
        hierarchy: chosen.hierarchy,
        source: chosen.source,
        accesses,
        skipped: simulator.skipped(),
        counts,
        level,
        classes: args.classes,
        evictors: args.evictors,
    };
    findings.sort(args);
    Ok(findings)
}

fn options(args: &SimArgs) -> Options {
    Options {
        evictors: args.evictors,
        classes: args.classes,
        instructions: args.caches.instructions,
        no_skip: args.no_skip,
        ..Options::default()
    }
}

/// How many accesses will be replayed is known unless a part is picked.
fn progress(known: &Known, selection: &Selection) -> Progress {
    if selection.from.is_some() || selection.to.is_some() {
        return Progress::new();
    }
    let heads = known.streams.iter().map(|chunk| chunk.head.stream);
    let wanted = heads.filter(|head| selection.thread.is_none_or(|thread| thread.0 == head.thread));
    let total: u64 = wanted.map(|head| head.accesses).sum();
    Progress::towards(total.min(selection.limit))
}

fn reference(places: &Places, point: &memtrail_collect::PointInfo) -> Reference {
    let place = places.find_anywhere(point.pc).ok();
    Reference {
        pc: point.pc,
        place: place.map(|place| (place.module(), place.offset)),
        kind: point.kind,
    }
}

/// What was found, as it is printed; for programs with something about the run.
fn text<const N: usize>(
    args: &SimArgs,
    findings: &Findings,
    about: impl FnOnce() -> [(&'static str, Value); N],
) -> String {
    if args.json {
        let mut value = json::findings(findings, args.top.unwrap_or(usize::MAX));
        about().into_iter().for_each(|(key, item)| value[key] = item);
        return format!("{value:#}\n");
    }
    let top = args.top.unwrap_or(TOP);
    let mut text = String::new();
    for (level, counts) in findings.hierarchy.levels.iter().zip(&findings.counts) {
        text += &report::block(level, counts, findings.classes);
        text.push('\n');
    }
    text += &report::references(findings, top);
    if findings.evictors {
        text.push('\n');
        text += &report::evictors(findings, top);
    }
    text
}

/// Writes to standard output.
fn print(text: &str) -> anyhow::Result<u8> {
    written(std::io::stdout().write_all(text.as_bytes()).err())
}

/// The next question, about the same caches.
fn suggest(args: &SimArgs, path: &Path) {
    let more = match (args.evictors, args.classes) {
        (false, _) => "--evictors",
        (true, false) => "--classes",
        (true, true) => return say::line("next: memtrail sim --preset list"),
    };
    say::line(format_args!(
        "next: memtrail sim{} {more} {}",
        args.caches,
        path.display()
    ));
}
