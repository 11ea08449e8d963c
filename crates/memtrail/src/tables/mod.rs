//! `refs`, `evictors`, `objects`, `lines`, `competition`: what caches do, by what the program is
//! made of.
//!
//! One replay ([`run`]) through a tagger and a simulator counts by reference point, and by call
//! path, object and thread as far as those are asked for. [`results`] makes a result set of the
//! counts, with names ([`names`], [`references`], [`objects`], [`scopes`]). The tables are views of
//! that set, or of one that was saved.
pub mod args;
mod feeders;
mod mapped;
pub mod names;
pub mod objects;
mod processes;
pub mod references;
pub mod results;
pub mod run;
pub mod scopes;
pub mod statics;
pub mod tap;
mod words;

use crate::args::RecordArgs;
use crate::dump::whole;
use crate::files::Bundled;
use crate::info::{ending_warning, open, warn_unless_whole, Recording};
use crate::input::{save, Input};
use crate::live;
use crate::output;
use crate::phases::{self, args::Settings};
use crate::record;
use crate::say;
use crate::sim::args::Charge;
use crate::terminal;
use anyhow::{bail, Context};
use args::TableArgs;
use memtrail_report::{json, lines, text, Counted, Dimension, Missing, ResultSet, Run, Source, View};
use memtrail_symbols::{Store, Symbols};
use memtrail_trace::Known;
use run::{Measured, Over, Wants};
use serde_json::Value;

/// Rows in a table, unless told otherwise.
const TOP: usize = 20;

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Refs,
    Evictors(Charge),
    Objects,
    Lines,
    Competition,
}

impl Table {
    /// What its rows are told apart by unless told otherwise, and what stands in them without
    /// saying so.
    fn subject(self) -> Dimension {
        match self {
            Table::Refs | Table::Evictors(_) => Dimension::Ref,
            Table::Objects | Table::Competition => Dimension::Object,
            Table::Lines => Dimension::Line,
        }
    }

    /// The key of its rows.
    fn key(self) -> &'static str {
        match self {
            Table::Refs | Table::Evictors(_) => "refs",
            Table::Objects | Table::Competition => "objects",
            Table::Lines => "lines",
        }
    }

    fn wants(self) -> Wants {
        Wants {
            evictors: match self {
                Table::Evictors(charge) => Some(charge),
                _ => None,
            },
            premature: self == Table::Competition,
            classes: false,
            map: false,
        }
    }

    /// Whether a set has what it shows.
    fn check(self, counted: Counted) -> Result<(), Missing> {
        let wants = self.wants();
        if let Some(charge) = wants.evictors {
            counted.has_evictors(charge.into())?;
        }
        if wants.premature && !counted.premature {
            return Err(Missing::Premature);
        }
        Ok(())
    }
}

pub fn command(table: Table, args: &TableArgs) -> anyhow::Result<u8> {
    let by = match args.by.as_slice() {
        [] => vec![table.subject()],
        by => by.to_vec(),
    };
    if table == Table::Evictors(Charge::All) && by != [Dimension::Ref] {
        // A line that two references of a row touched would count twice for the row.
        bail!("--charge all counts by reference: it goes with --by ref only");
    }
    output::check(args.output.as_deref())?;
    output::check(args.save.as_deref())?;
    if args.live {
        return live(table, args, &by);
    }
    let (set, whole) = match Input::open(args.file())? {
        Input::Recording(mut reader) => {
            let (set, whole) = simulated(table.wants(), args, &by, &mut reader)?;
            (set, Some(whole))
        }
        Input::Saved(set) => {
            args.refuse_for_saved()?;
            set.run.warnings.iter().for_each(say::line);
            (*set, None)
        }
    };
    show(table, args, &by, &set)?;
    let Some(whole) = whole else { return Ok(0) };
    if !args.json {
        suggest(table, args);
    }
    whole
}

/// Runs a command, and makes the table of what it did when it has ended. Names of calls and objects
/// need all of it, so it is recorded first, into memory.
fn live(table: Table, args: &TableArgs, by: &[Dimension]) -> anyhow::Result<u8> {
    if args.command.is_empty() {
        bail!("--live needs a command, behind `--`");
    }
    let record_args = RecordArgs::of(args.command.clone());
    let (done, memory) = live::into_memory(&record_args)?;
    let status = record::finish(&record_args, &done, false)?;
    let Some(memory) = memory else {
        // What went wrong has been said.
        return Ok(status);
    };
    let args = &TableArgs {
        file: Some(memory.path()),
        ..args.clone()
    };
    let (mut set, _) = simulated(table.wants(), args, by, &mut open(args.file())?)?;
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned());
    let command = command.collect();
    set.run.sources = [Source { command, file: None }].into();
    show(table, args, by, &set)?;
    Ok(status)
}

/// Saves and prints what was found.
fn show(table: Table, args: &TableArgs, by: &[Dimension], set: &ResultSet) -> anyhow::Result<()> {
    save(set, args.save.as_deref())?;
    let name = || args.file().display().to_string();
    table.check(set.run.counted).with_context(name)?;
    let mut view = View::new(set, by, args.sort.into(), args.level.as_deref()).with_context(name)?;
    view.width = terminal::width(args.wide);
    if !args.all && !args.json && matches!(table, Table::Refs | Table::Objects) {
        view.fold();
    }
    let text = match args.json {
        true => format!("{:#}\n", as_json(table, args, &view)),
        false => as_text(table, args, &view),
    };
    for reason in &set.run.reasons {
        say::line(format_args!("some names are missing: {reason}"));
    }
    output::write(args.output.as_deref(), &text)?;
    Ok(())
}

/// Results of a recording, and whether it was whole.
pub fn simulated(
    wants: Wants,
    args: &TableArgs,
    by: &[Dimension],
    reader: &mut Recording,
) -> anyhow::Result<(ResultSet, anyhow::Result<u8>)> {
    let (set, _, whole) = measured(wants, args, by, reader)?;
    Ok((set, whole))
}

/// The same, with what they were made of.
pub fn measured(
    wants: Wants,
    args: &TableArgs,
    by: &[Dimension],
    reader: &mut Recording,
) -> anyhow::Result<(ResultSet, Measured, anyhow::Result<u8>)> {
    let mut known = Known::read(reader)?;
    args.part.only_rank(&mut known)?;
    warn_unless_whole(&known.ending);
    let over = over(args, by, reader, &mut known)?;
    let only = over.length_of(args.phase);
    let mut measured = run::run(args, by, wants, over, reader, &mut known)?;
    measured.accesses = only.unwrap_or(measured.accesses);
    let source = Source {
        command: reader.header().command.clone(),
        file: Some(args.file().display().to_string()),
    };
    let run = Run {
        sources: [source].into(),
        selection: args.selection(),
        counted: Counted {
            classes: wants.classes,
            evictors: wants.evictors.map(Into::into),
            premature: wants.premature,
            bytes: measured.skipped == 0,
        },
        warnings: ending_warning(&known.ending).into_iter().collect(),
        ..Run::default()
    };
    let set = results::results(&measured, by, run);
    Ok((set, measured, whole(&known)))
}

/// What is made of time. Phases have to be found first, in a replay of their own.
fn over(args: &TableArgs, by: &[Dimension], reader: &mut Recording, known: &mut Known) -> anyhow::Result<Over> {
    if !by.contains(&Dimension::Phase) && args.phase.is_none() {
        return Ok(Over::Whole);
    }
    let settings = Settings::default();
    let found = phases::find(args, settings, reader, known)?;
    let phases: Vec<(u64, u32)> = (found.phases.iter())
        .map(|phase| (phase.to - phase.from, phase.id))
        .collect();
    let kinds = phases.iter().map(|&(_, id)| id).max().unwrap_or(0);
    if let Some(asked) = args.phase.filter(|&asked| asked > kinds) {
        let file = args.file().display();
        bail!("--phase {asked}: there are {kinds} kinds of phases (memtrail phases {file} shows them)");
    }
    Ok(Over::Phases {
        unit: settings.unit,
        phases,
    })
}

fn as_text(table: Table, args: &TableArgs, view: &View<'_>) -> String {
    let top = args.top.unwrap_or(TOP);
    match table {
        Table::Refs => text::counts(view, top),
        Table::Evictors(_) => text::evictors(view, top),
        Table::Objects => text::objects(view, top),
        Table::Lines if view.by == [Dimension::Line] => {
            let store = Store::default();
            let symbols = Symbols::new(&store, Box::new(Bundled), args.symbols.options());
            lines::annotated(view, top, &|file| {
                symbols.source(file).map_err(|reason| reason.to_string())
            })
        }
        Table::Lines => text::counts(view, top),
        Table::Competition => text::competitors(view, top),
    }
}

fn as_json(table: Table, args: &TableArgs, view: &View<'_>) -> Value {
    let top = args.top.unwrap_or(usize::MAX);
    let value = json::table(view, table.subject(), table.key(), top);
    match table {
        Table::Evictors(_) => json::with_evictors(value, view, top),
        Table::Competition => json::with_losses(value, view, table.key(), top),
        Table::Refs | Table::Objects | Table::Lines => value,
    }
}

/// The next question, about the same caches.
fn suggest(table: Table, args: &TableArgs) {
    let next = match table {
        Table::Refs => "evictors",
        Table::Evictors(_) => "objects",
        Table::Objects => "competition",
        Table::Competition => "lines",
        Table::Lines => "refs",
    };
    say::line(format_args!(
        "next: memtrail {next}{} {}",
        args.caches,
        args.file().display()
    ));
}
