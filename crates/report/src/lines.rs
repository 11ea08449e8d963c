//! Annotated source: what each line did, beside its text.
use crate::columns::{Align, Columns};
use crate::entry::Entry;
use crate::format::{base, thousands};
use crate::levels::shown_miss_ratio;
use crate::set::Row;
use crate::view::View;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Gives the text of a source file, or says why it is not there.
pub type Sources<'t> = &'t dyn Fn(&str) -> Result<Rc<str>, String>;

/// Lines shown around one that did something.
const CONTEXT: u32 = 2;

fn line_of<'s>(view: &View<'s>, row: &Row) -> Option<(&'s str, u32)> {
    view.entries(row).find_map(|entry| match entry {
        Entry::Line(Some(at)) => Some((at.file.as_str(), at.line)),
        _ => None,
    })
}

/// Figures of a line.
fn figures(view: &View<'_>, row: Option<&Row>) -> Vec<String> {
    let levels = view.hierarchy().levels.len();
    let Some(row) = row else {
        return vec![String::new(); 2 + levels];
    };
    let mut figures = vec![thousands(row.accesses())];
    figures.extend(row.levels.iter().map(|counts| thousands(counts.misses)));
    figures.push(shown_miss_ratio(view.counts(row)));
    figures
}

/// The first `top` rows, file by file, with what stands around them.
pub fn annotated(view: &View<'_>, top: usize, sources: Sources<'_>) -> String {
    let mut files: Vec<(&str, BTreeSet<u32>)> = Vec::new();
    let mut unknown = Vec::new();
    for row in view.rows.iter().take(top) {
        let Some((file, line)) = line_of(view, row) else {
            unknown.push(row);
            continue;
        };
        match files.iter_mut().find(|(other, _)| *other == file) {
            Some((_, lines)) => drop(lines.insert(line)),
            None => files.push((file, BTreeSet::from([line]))),
        }
    }
    let mut text = String::new();
    for (file, shown) in files {
        let with_lines = view.rows.iter().filter_map(|row| Some((line_of(view, row)?, row)));
        let lines = with_lines
            .filter(|((other, _), _)| *other == file)
            .map(|((_, line), row)| (line, row));
        text += &format!("{file}\n{}\n", of_file(view, file, sources, &shown, &lines.collect()));
    }
    for row in unknown {
        let counts = figures(view, Some(row)).join("  ");
        text += &format!("code of which no line is known: {counts}\n");
    }
    text
}

fn of_file(
    view: &View<'_>,
    file: &str,
    sources: Sources<'_>,
    asked: &BTreeSet<u32>,
    lines: &BTreeMap<u32, &Row>,
) -> String {
    let source = sources(file);
    let mut head: Vec<(String, Align)> = vec![("accesses".to_string(), Align::Right)];
    let misses = |level: &memtrail_simulate::Level| (format!("{} misses", level.name), Align::Right);
    head.extend(view.hierarchy().levels.iter().map(misses));
    head.push(("miss ratio".to_string(), Align::Right));
    head.push(("line".to_string(), Align::Right));
    let note = match &source {
        Ok(_) => base(file).to_string(),
        Err(reason) => reason.clone(),
    };
    head.push((note, Align::Left));
    let width = head.len();
    let mut columns = Columns::new(head);
    let texts: Vec<&str> = source
        .as_deref()
        .map_or_else(|_| Vec::new(), |text| text.lines().collect());
    let last = texts.len() as u32;
    let mut shown = 0;
    for &line in asked {
        let from = line.saturating_sub(CONTEXT).max(shown + 1).min(line);
        if shown > 0 && from > shown + 1 && last > 0 {
            let mut gap = vec![String::new(); width];
            gap[width - 1] = "...".to_string();
            columns.row(gap);
        }
        let to = if last == 0 {
            line
        } else {
            (line + CONTEXT).min(last.max(line))
        };
        let from = if last == 0 { line } else { from };
        for at in from..=to {
            // The context ends where the next line begins that is asked for.
            if at > line && asked.contains(&at) {
                break;
            }
            let mut row = figures(view, lines.get(&at).copied());
            row.push(at.to_string());
            row.push(
                texts
                    .get(at as usize - 1)
                    .map_or("", |text| text.trim_end())
                    .to_string(),
            );
            columns.row(row);
            shown = at;
        }
    }
    columns.fit(view.width, &[]).to_string()
}
