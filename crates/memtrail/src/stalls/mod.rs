//! `stalls`: what the program waits for, on the model of an out-of-order core.
//!
//! One replay charges cycles to composites, as a simulation does misses; a result set whose columns
//! are misses and cycles by cause makes rows of them. What ideal objects would give takes a second
//! replay, in which a window for each question runs beside the others.
pub mod args;
pub mod cores;
mod show;
mod timed;

use crate::dump::whole;
use crate::info::{open, warn_unless_whole, Recording};
use crate::output;
use crate::say;
use crate::sim::choose::Chosen;
use crate::tables::names::Names;
use crate::tables::results::{results, shown_groups};
use crate::tables::run::{replay_through, tagged, Measured};
use anyhow::{bail, Context};
use args::StallArgs;
use memtrail_analyze::scopes::Scopes;
use memtrail_report::{Dimension, ResultSet, Run, Sort, View};
use memtrail_simulate::{Hierarchy, Level, LevelCounts, PointCounts};
use memtrail_timing::{Cause, Charged, CoreFlow, CoreSpec, Templates};
use memtrail_trace::Known;
use show::{Ideal, Report};
use std::rc::Rc;
use timed::{Ideals, Kept, Timed};

/// The column by which rows are sorted: cycles in which the head of the reorder buffer waited for
/// memory.
const STALLS: &str = "stalls";

/// What a replay found.
struct Replayed {
    measured: Measured,
    charges: Vec<Charged>,
    misses: Vec<Vec<u64>>,
    /// By window: cycles of the thread that took longest.
    cycles: Vec<u64>,
    threads: usize,
    instructions: u64,
    mispredicted: u64,
}

/// What is replayed, on what.
struct Setting<'s> {
    args: &'s StallArgs,
    by: Vec<Dimension>,
    spec: &'s CoreSpec,
    templates: &'s Templates,
    known: &'s Known,
}

pub fn command(args: &StallArgs) -> anyhow::Result<u8> {
    if args.core.as_deref() == Some(cores::LIST) {
        return output::write(args.output.as_deref(), &cores::list());
    }
    let Some(file) = &args.file else {
        bail!("which recording? memtrail stalls FILE");
    };
    output::check(args.output.as_deref())?;
    let spec = cores::choose(args.core.as_deref())?;
    let mut reader = open(file)?;
    let mut known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    known.table.number_fetches();
    let templates = Templates::new(&known.table);
    if templates.unknown > 0 {
        say::line(format_args!(
            "{}: the code of {} instructions is not in the recording: each counts as one operation that waits for nothing",
            file.display(),
            templates.unknown
        ));
    }
    let mut by = args.by.clone();
    if by.is_empty() {
        by.push(Dimension::Object);
    }
    let shown = by.clone();
    if !by.contains(&Dimension::Object) {
        by.push(Dimension::Object);
    }
    let setting = Setting {
        args,
        by,
        spec: &spec,
        templates: &templates,
        known: &known,
    };
    let mut found = setting.replay(&mut reader, 1, Ideals::new(), 0)?;
    let set = setting.set(&mut found);
    let objects = View::new(&set, &[Dimension::Object], Sort::Misses, Some(STALLS))?;
    let ideal = setting.idealise(&mut reader, &found, &objects)?;
    let view = View::new(&set, &shown, Sort::Misses, Some(STALLS))?;
    let report = Report {
        spec: &spec,
        command: reader.header().command.clone(),
        file: file.display().to_string(),
        cycles: found.cycles[0],
        threads: found.threads,
        instructions: found.instructions,
        mispredicted: found.mispredicted,
        total: sum(&found.charges),
        levels: found.misses.len(),
        view: &view,
        ideal,
        reasons: found.measured.reasons(),
    };
    let text = match args.json {
        true => format!("{:#}\n", report.json(args.top.unwrap_or(usize::MAX))),
        false => report.text(args.top.unwrap_or(20)),
    };
    for reason in &report.reasons {
        say::line(format_args!("some names are missing: {reason}"));
    }
    output::write(args.output.as_deref(), &text)?;
    if !args.json && args.ideal.is_empty() && args.ideal_top.is_none() {
        let core = args
            .core
            .as_ref()
            .map_or_else(String::new, |core| format!(" --core {core}"));
        say::line(format_args!(
            "next: memtrail stalls{core} --ideal-top 5 {}",
            file.display()
        ));
    }
    whole(&known)
}

fn sum(charges: &[Charged]) -> Charged {
    let mut total = Charged::default();
    charges.iter().for_each(|&charged| total += charged);
    total
}

impl Setting<'_> {
    fn replay(&self, reader: &mut Recording, windows: usize, ideals: Ideals, always: u64) -> anyhow::Result<Replayed> {
        let (args, known) = (self.args.table(), self.known);
        let names = Rc::new(Names::new(&known.table, args.symbols.options()));
        let flow = CoreFlow::new(self.spec, self.templates, windows).with_context(|| self.spec.name.clone())?;
        let tagged = tagged(&args, &self.by, Kept::default(), &names, known);
        let moves = [Dimension::Callpath, Dimension::Thread, Dimension::Process];
        let points = known.table.points().len();
        let points = (!self.by.iter().any(|by| moves.contains(by))).then_some(points);
        let timed = Timed::new(tagged.tagger, flow, ideals, always, points);
        let replayed = replay_through(&args, &self.by, timed, &names, reader, known)?;
        let mut timed = replayed.sink;
        timed.flow.finish();
        let longest = |n: usize| timed.flow.cycles(n).into_iter().map(|(_, cycles)| cycles).max();
        let longest: Vec<u64> = (0..windows).map(longest).map(|cycles| cycles.unwrap_or(0)).collect();
        let threads = timed.flow.cycles(0).len();
        let chosen = Chosen {
            hierarchy: Hierarchy::default(),
            source: self.spec.name.clone(),
        };
        let mut measured = Measured::by_point(chosen, Vec::new(), known.table.points(), names);
        measured.accesses = replayed.accesses;
        measured.scopes = Scopes::new(&replayed.edges, &[]);
        measured.statics = tagged.statics;
        Ok(Replayed {
            charges: timed.flow.charges(),
            misses: timed.flow.misses().to_vec(),
            cycles: longest,
            threads,
            instructions: timed.flow.instructions(),
            mispredicted: timed.flow.mispredicted(),
            measured: measured.with_tags(&mut timed.tagger, &args, &self.by, known),
        })
    }

    /// A set whose levels are columns: misses by level, cycles by cause, and what stalls memory.
    fn set(&self, found: &mut Replayed) -> ResultSet {
        let hierarchy = self.spec.hierarchy().unwrap_or_default().data_only();
        let mut columns: Vec<(String, Vec<u64>)> = Vec::new();
        for (level, misses) in hierarchy.levels.iter().zip(&found.misses) {
            columns.push((level.name.clone(), misses.clone()));
        }
        for cause in show::causes(found.misses.len()) {
            let cycles = found.charges.iter().map(|charged| charged.of(cause)).collect();
            columns.push((format!("{cause:?}"), cycles));
        }
        let stalls = found.charges.iter().map(Charged::memory).collect();
        columns.push((STALLS.to_string(), stalls));
        let tallies = found.measured.tallies.iter().map(|tally| tally.accesses()).collect();
        columns.push(("accesses".to_string(), tallies));
        let as_misses = |&misses: &u64| PointCounts {
            misses,
            ..PointCounts::default()
        };
        let mut counted = Vec::new();
        let mut levels = Vec::new();
        for (name, numbers) in columns {
            levels.push(Level::new(name, 64, 64, 1));
            counted.push(LevelCounts {
                points: numbers.iter().map(as_misses).collect(),
                ..LevelCounts::default()
            });
        }
        found.measured.hierarchy = Hierarchy::of(levels);
        found.measured.counts = counted;
        results(&found.measured, &self.by, Run::default())
    }

    /// How long it would take if misses of some objects were ideal.
    fn idealise(
        &self,
        reader: &mut Recording,
        found: &Replayed,
        objects: &View<'_>,
    ) -> anyhow::Result<Option<Vec<Ideal>>> {
        let groups = shown_groups(&found.measured, objects);
        let mut questions: Vec<(String, Vec<u32>)> = Vec::new();
        if !self.args.ideal.is_empty() {
            let mut chosen = Vec::new();
            for asked in &self.args.ideal {
                let before = chosen.len();
                let of_object = groups
                    .iter()
                    .filter(|(_, names)| names.iter().any(|name| name == asked));
                chosen.extend(of_object.map(|(group, _)| *group));
                if chosen.len() == before {
                    bail!("--ideal {asked}: no object of this name was accessed; memtrail stalls names them");
                }
            }
            questions.push((self.args.ideal.join(", "), chosen));
        }
        let named = questions.len();
        if let Some(most) = self.args.ideal_top {
            let mut chosen = Vec::new();
            for row in objects.rows.iter().take(most as usize) {
                let name = memtrail_report::text::row_names(objects, row).swap_remove(0);
                let of_object = groups.iter().filter(|(_, names)| names.contains(&name));
                chosen.extend(of_object.map(|(group, _)| *group));
                questions.push((name, chosen.clone()));
            }
        }
        if questions.is_empty() {
            return Ok(None);
        }
        // The last window is for all objects together.
        let mut ideals = Ideals::new();
        for (n, (_, groups)) in questions.iter().enumerate() {
            groups
                .iter()
                .for_each(|&group| *ideals.entry(group).or_default() |= 1 << n);
        }
        let all = questions.len();
        let again = self.replay(reader, all + 1, ideals, 1 << all)?;
        let ideal = |(n, (name, _)): (usize, (String, Vec<u32>))| Ideal {
            name,
            place: (n >= named).then(|| n - named + 1),
            cycles: again.cycles[n],
        };
        let mut answers: Vec<Ideal> = questions.into_iter().enumerate().map(ideal).collect();
        answers.push(Ideal {
            name: "all objects".to_string(),
            place: None,
            cycles: again.cycles[all],
        });
        Ok(Some(answers))
    }
}
