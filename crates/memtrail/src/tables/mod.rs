//! `refs`, `evictors`, `objects`, `lines`, `competition`: what caches do, by what the program is made of.
//!
//! One replay ([`run`]) through a tagger and a simulator counts by reference point, and by call path, object and thread as far as those are asked for. Rows ([`rows`]) add that up by any list of
//! dimensions; names come last ([`names`], [`references`], [`objects`], [`scopes`]), for people ([`text`], [`lines`]) or programs ([`json`]).
pub mod args;
mod feeders;
mod json;
mod lines;
pub mod names;
mod objects;
mod processes;
mod references;
mod rows;
mod run;
mod scopes;
mod statics;
mod tap;
mod text;
mod wrappers;

use crate::dump::whole;
use crate::info::{open, warn_unless_whole};
use crate::output;
use crate::say;
use crate::sim::args::Charge;
use anyhow::bail;
use args::{By, TableArgs};
use memtrail_trace::Known;
use rows::Rows;
use run::{Found, Wants};
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
    /// What its rows are told apart by unless told otherwise, and what stands in them without saying so.
    fn subject(self) -> By {
        match self {
            Table::Refs | Table::Evictors(_) => By::Ref,
            Table::Objects | Table::Competition => By::Object,
            Table::Lines => By::Line,
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
        }
    }
}

pub fn command(table: Table, args: &TableArgs) -> anyhow::Result<u8> {
    let by = match args.by.as_slice() {
        [] => vec![table.subject()],
        by => by.to_vec(),
    };
    if table == Table::Evictors(Charge::All) && by != [By::Ref] {
        // A line that two references of a row touched would count twice for the row.
        bail!("--charge all counts by reference: it goes with --by ref only");
    }
    output::check(args.output.as_deref())?;
    let mut reader = open(&args.file)?;
    let mut known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let found = run::run(args, &by, table.wants(), &mut reader, &mut known)?;
    let rows = rows::rows(&found, &by, args.sort);
    let text = match args.json {
        true => format!("{:#}\n", as_json(table, args, &found, &rows, &reader.header().command)),
        false => as_text(table, args, &found, &rows, &by),
    };
    for reason in found.reasons() {
        say::line(format_args!("some names are missing: {reason}"));
    }
    output::write(args.output.as_deref(), &text)?;
    if !args.json {
        suggest(table, args);
    }
    whole(&known)
}

fn as_text(table: Table, args: &TableArgs, found: &Found, rows: &Rows, by: &[By]) -> String {
    let top = args.top.unwrap_or(TOP);
    match table {
        Table::Refs => text::counts(found, rows, by, top),
        Table::Evictors(_) => text::evictors(found, rows, by, top),
        Table::Objects => text::objects(found, rows, by, top),
        Table::Lines if by == [By::Line] => lines::annotated(found, rows, top),
        Table::Lines => text::counts(found, rows, by, top),
        Table::Competition => text::competitors(found, rows, by, top),
    }
}

fn as_json(table: Table, args: &TableArgs, found: &Found, rows: &Rows, command: &[String]) -> Value {
    let top = args.top.unwrap_or(usize::MAX);
    let mut value = json::head(found);
    value["command"] = command.into();
    value["file"] = args.file.display().to_string().into();
    let mut list = json::rows(found, rows, table.subject(), top);
    match table {
        Table::Evictors(charge) => {
            value["charge"] = charge.word().into();
            value["evictors"] = json::pairs(found, &rows.evictors, top);
        }
        Table::Competition => {
            json::losses(found, rows, &mut list);
            value["pairs"] = json::pairs(found, &rows.premature, top);
        }
        Table::Refs | Table::Objects | Table::Lines => {}
    }
    value[table.key()] = list;
    value
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
        args.file.display()
    ));
}
