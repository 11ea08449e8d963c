//! `whatif`: the recorded run with one thing changed, beside the run as it was.
//!
//! A change of layout is applied to the whole run, which is exact. A change of loops is applied to
//! a window of the nest's iterations, simulated from empty caches before and after; whether it is
//! legal is decided by the dependences in that window.
pub mod advise;
pub mod args;
mod nests;
mod objects;

use crate::info::{ending_warning, open, warn_unless_whole};
use crate::output;
use crate::say;
use crate::tables::results::results;
use crate::tables::run::{run_placed, Measured, Wants};
use anyhow::{bail, Context};
use args::{FieldSpec, ReplayedArgs, WhatifArgs};
use memtrail_analyze::placement::Placement;
use memtrail_report::format::thousands;
use memtrail_report::{json, level_named, Counted, Dimension, Entry, ResultSet, Run, Sort, Source, View};
use memtrail_trace::Known;
use memtrail_whatif::layout::{Relocator, Rule};
use memtrail_whatif::order::Order;
use nests::Nest;
use objects::Objects;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Rows of the table of objects.
const TOP: usize = 10;

/// What rows of the first replay are told apart by.
const BY: [Dimension; 3] = [Dimension::Ref, Dimension::Object, Dimension::Loop];

pub fn command(args: &WhatifArgs) -> anyhow::Result<u8> {
    output::check(args.replayed.output.as_deref())?;
    let loops = [&args.interchange, &args.fuse].into_iter().flatten().count() + usize::from(args.tile.is_some());
    let layouts = args.pad.len() + args.align.len() + args.moved.len() + args.split.len() + args.reorder.len();
    match (layouts, loops) {
        (0, 0) => bail!("no change is named; see memtrail whatif --help, or let memtrail advise look for one"),
        (_, 0) => layout(args),
        (0, 1) => reordered(args),
        _ => bail!("one change of loops at a time, and without changes of data"),
    }
}

/// Replays the recording, perhaps with some objects elsewhere.
fn measure(
    args: &ReplayedArgs,
    wants: Wants,
    placement: Option<Box<dyn Placement>>,
) -> anyhow::Result<(Measured, ResultSet)> {
    let mut reader = open(&args.file)?;
    let mut known = Known::read(&mut reader)?;
    if placement.is_none() {
        warn_unless_whole(&known.ending);
    }
    let table = args.table();
    let measured = run_placed(&table, &BY, wants, placement, &mut reader, &mut known)?;
    let source = Source {
        command: reader.header().command.clone(),
        file: Some(args.file.display().to_string()),
    };
    let run = Run {
        sources: [source].into(),
        selection: table.selection(),
        counted: Counted {
            classes: wants.classes,
            bytes: measured.skipped == 0,
            ..Counted::default()
        },
        warnings: ending_warning(&known.ending).into_iter().collect(),
        ..Run::default()
    };
    let set = results(&measured, &BY, run);
    Ok((measured, set))
}

/// The level that choices are about.
fn level(args: &ReplayedArgs, measured: &Measured) -> anyhow::Result<usize> {
    match &args.level {
        Some(name) => Ok(level_named(&measured.hierarchy, name)?),
        None => Ok(0),
    }
}

/// Regions of addresses that programs have things in, whatever was seen: images, heaps, libraries,
/// stacks.
const USUAL: [u64; 6] = [0x00, 0x55, 0x56, 0x57, 0x7e, 0x7f];

/// Lays groups out by rules.
fn relocator(measured: &Measured, rules: BTreeMap<u32, Rule>) -> anyhow::Result<Relocator> {
    let seen = measured.first.iter().flatten().map(|first| first.address);
    let usual = USUAL.into_iter().map(|region| region << 40);
    Ok(Relocator::new(rules, seen.chain(usual))?)
}

/// The rules that the options ask for, by group, and what they do in words.
fn rules(args: &WhatifArgs, objects: &Objects<'_>) -> anyhow::Result<(BTreeMap<u32, Rule>, Vec<String>)> {
    let mut rules = Vec::new();
    let mut words = Vec::new();
    for spec in &args.pad {
        let bytes = spec.bytes;
        for (group, row) in objects.pad(spec)? {
            let every = row.map_or("in front".to_string(), |row| {
                format!("after every {} bytes", thousands(row))
            });
            words.push(format!("{} is padded with {bytes} bytes {every}", objects.name(group)));
            rules.push((group, Rule::Pad { row, bytes }));
        }
    }
    for spec in &args.align {
        for group in objects.called(&spec.name)? {
            words.push(format!(
                "{} begins at a multiple of {}",
                objects.name(group),
                spec.bytes
            ));
            rules.push((group, Rule::Align(spec.bytes)));
        }
    }
    for spec in &args.moved {
        for group in objects.called(&spec.name)? {
            words.push(format!("{} lies {} bytes further on", objects.name(group), spec.bytes));
            rules.push((group, Rule::Move(spec.bytes)));
        }
    }
    let fields = |specs: &[FieldSpec], how: fn(u64, Vec<_>) -> Rule, word: &str| {
        let mut all = Vec::new();
        for spec in specs {
            for group in objects.called(&spec.name)? {
                let (element, parts) = objects.parts(group, spec)?;
                let text = format!("{} {word} {}", objects.name(group), spec.fields.join(", "));
                all.push((text, (group, how(element, parts))));
            }
        }
        anyhow::Ok(all)
    };
    let split = fields(
        &args.split,
        |element, parts| Rule::Split { element, parts },
        "has arrays of its own for",
    );
    let reorder = fields(
        &args.reorder,
        |element, parts| Rule::Reorder { element, parts },
        "begins its elements with",
    );
    for (text, rule) in split?.into_iter().chain(reorder?) {
        words.push(text);
        rules.push(rule);
    }
    let mut by_group = BTreeMap::new();
    for (group, rule) in rules {
        if by_group.insert(group, rule).is_some() {
            bail!("{}: one change for each object", objects.name(group));
        }
    }
    Ok((by_group, words))
}

/// Changes where data lies.
fn layout(args: &WhatifArgs) -> anyhow::Result<u8> {
    let replayed = &args.replayed;
    let (measured, before) = measure(replayed, Wants::default(), None)?;
    let at = level(replayed, &measured)?;
    let objects = Objects::new(&measured);
    let (rules, words) = rules(args, &objects)?;
    let placement = Box::new(relocator(&measured, rules)?);
    let (_, after) = measure(replayed, Wants::default(), Some(placement))?;
    let text = match replayed.json {
        true => format!("{:#}\n", as_json(&words, &before, &after)?),
        false => as_text(&words, &before, &after, at)?,
    };
    let status = output::write(replayed.output.as_deref(), &text)?;
    if !replayed.json {
        say::line(format_args!(
            "next: memtrail advise{} {}",
            replayed.caches,
            replayed.file.display()
        ));
    }
    Ok(status)
}

fn view(set: &ResultSet) -> anyhow::Result<View<'_>> {
    Ok(View::new(set, &[Dimension::Object], Sort::Misses, None)?)
}

fn as_json(words: &[String], before: &ResultSet, after: &ResultSet) -> anyhow::Result<Value> {
    let table = |set| anyhow::Ok(json::table(&view(set)?, Dimension::Object, "objects", usize::MAX));
    Ok(json!({
        "schema_version": json::SCHEMA_VERSION,
        "changes": words,
        "before": table(before)?,
        "after": table(after)?,
    }))
}

/// A change as users read it.
fn change(before: u64, after: u64) -> String {
    match (before, after) {
        (before, after) if before == after => "the same".to_string(),
        (0, _) => "new".to_string(),
        _ => format!("{:+.1}%", 100.0 * (after as f64 / before as f64 - 1.0)),
    }
}

fn as_text(words: &[String], before: &ResultSet, after: &ResultSet, at: usize) -> anyhow::Result<String> {
    let mut text = String::new();
    for word in words {
        writeln!(text, "If {word}:")?;
    }
    let levels = &before.run.hierarchy.levels;
    writeln!(
        text,
        "\n{:<28} {:>16} {:>16} {:>10}",
        "misses", "as it is", "changed", ""
    )?;
    for (number, level) in levels.iter().enumerate() {
        let (was, is) = (before.total(number).misses, after.total(number).misses);
        let row = (thousands(was), thousands(is), change(was, is));
        writeln!(text, "{:<28} {:>16} {:>16} {:>10}", level.name, row.0, row.1, row.2)?;
    }
    let misses = |set: &ResultSet| {
        let view = view(set)?;
        let name = |row| match view.entries(row).next() {
            Some(Entry::Object(object)) => view.object_name(row, object).to_string(),
            _ => String::new(),
        };
        let rows = view.rows.iter().map(|row| (name(row), row.levels[at].misses));
        anyhow::Ok(rows.collect::<BTreeMap<String, u64>>())
    };
    let (was, is) = (misses(before)?, misses(after)?);
    let differs = |name: &&String| was.get(*name) != is.get(*name);
    let mut names: Vec<&String> = was.keys().filter(differs).collect();
    let moved = |name: &&String| was[*name].abs_diff(is.get(*name).copied().unwrap_or(0));
    names.sort_by_key(|name| std::cmp::Reverse(moved(name)));
    writeln!(text, "\n{} misses of the objects that change most", levels[at].name)?;
    for name in names.iter().take(TOP) {
        let (was, is) = (was[*name], is.get(*name).copied().unwrap_or(0));
        let row = (thousands(was), thousands(is), change(was, is));
        let short: String = name.chars().take(28).collect();
        writeln!(text, "{short:<28} {:>16} {:>16} {:>10}", row.0, row.1, row.2)?;
    }
    if names.is_empty() {
        writeln!(text, "none: the change makes no difference")?;
    }
    Ok(text)
}

/// Puts iterations of loops in another order.
fn reordered(args: &WhatifArgs) -> anyhow::Result<u8> {
    let replayed = &args.replayed;
    let (measured, _) = measure(replayed, Wants::default(), None)?;
    let tiled = args.tile.as_ref();
    let named = args
        .interchange
        .as_deref()
        .or(args.fuse.as_deref())
        .or(tiled.map(|tile| tile.name.as_str()));
    let number = nests::find(&measured, named.context("no loop is named")?)?;
    let inside = |inner: u32| measured.scopes.outwards(inner).any(|outer| outer == number);
    let deepest = (0..measured.scopes.loops().len() as u32).filter(|&inner| inside(inner));
    let deepest = deepest.max_by_key(|&inner| measured.scopes.loops()[inner as usize].depth);
    let nest = Nest::around(replayed, &measured, deepest.unwrap_or(number))?;
    let nest = nest.context("no iteration of that loop could be collected; give a larger --window")?;
    let level = nest.level_of(number);
    let level = level.context("one iteration of that loop has too many accesses; give a larger --window")?;
    let size = tiled.map(|tile| tile.bytes.min(u64::from(u32::MAX)) as u32);
    let (word, order) = nests::asked(&nest, level, (args.interchange.is_some(), size, args.fuse.is_some()))?;
    let legal = nest.check(&order);
    let own = nest.simulate(&measured, &Order::original(nest.window.levels()))?;
    let other = nest.simulate(&measured, &order)?;
    let described = nests::described(&measured, number);
    let text = if replayed.json {
        let levels = |outcome: &nests::Outcome| -> Value {
            let named = measured.hierarchy.levels.iter().enumerate();
            named
                .map(|(n, l)| json!({"name": l.name, "misses": outcome.misses(n)}))
                .collect()
        };
        let value = json!({
            "schema_version": json::SCHEMA_VERSION,
            "changes": [format!("{word} {described}")],
            "loop": described,
            "iterations": nest.window.iterations,
            "complete": !nest.window.cut,
            "legal": legal.is_ok(),
            "before": {"accesses": own.accesses, "levels": levels(&own)},
            "after": {"accesses": other.accesses, "levels": levels(&other)},
        });
        format!("{value:#}\n")
    } else {
        let mut text = format!("If {word} is done to {described}:\n");
        let whole = if nest.window.cut { "the first" } else { "all" };
        let iterations = thousands(nest.window.iterations);
        writeln!(
            text,
            "({whole} {iterations} iterations of {}, from empty caches)\n",
            nests::described(&measured, nest.root)
        )?;
        writeln!(text, "{:<28} {:>16} {:>16} {:>10}", "misses", "as it is", "changed", "")?;
        for (number, level) in measured.hierarchy.levels.iter().enumerate() {
            let (was, is) = (own.misses(number), other.misses(number));
            let row = (thousands(was), thousands(is), change(was, is));
            writeln!(text, "{:<28} {:>16} {:>16} {:>10}", level.name, row.0, row.1, row.2)?;
        }
        match legal {
            Ok(()) => text += "\nLegal for this run: every access meets the value that it met.\n",
            Err(broken) => writeln!(
                text,
                "\nNot legal: an access to {:#x} would meet another value than it does now.",
                broken.address
            )?,
        }
        text
    };
    output::write(replayed.output.as_deref(), &text)
}
