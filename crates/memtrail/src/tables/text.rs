//! Tables for people.
use super::args::By;
use super::rows::{Cell, Row, Rows};
use super::run::Found;
use crate::format::{bytes, thousands};
use crate::sim::columns::{Align, Columns};
use crate::sim::report::{ratio, shown_miss_ratio, shown_ratio, shown_share, shown_use};
use crate::sim::rows::kind_word;
use memtrail_analyze::patterns::{Pattern, Summary};
use memtrail_analyze::tables::{competition, Pairs};
use std::fmt::Write;

/// Most evictors shown of one row.
const MOST_EVICTORS: usize = 10;
/// Calls of a path that are shown, the innermost ones.
const MOST_CALLS: usize = 6;

const LEFT: Align = Align::Left;
const RIGHT: Align = Align::Right;

/// The heads of a dimension's columns.
fn heads(by: By) -> &'static [(&'static str, Align)] {
    match by {
        By::Ref => &[("file:line", LEFT), ("reference", LEFT), ("source", LEFT)],
        By::Callpath => &[("call path", LEFT)],
        By::Object => &[("object", LEFT), ("kind", LEFT)],
        By::Line => &[("file:line", LEFT)],
        By::Function => &[("function", LEFT)],
        By::Loop => &[("loop", LEFT)],
        By::Module => &[("module", LEFT)],
        By::Thread => &[("thread", RIGHT)],
        By::Process => &[("process", LEFT)],
    }
}

/// A dimension's columns.
pub fn texts(cell: &Cell) -> Vec<String> {
    match cell {
        Cell::Ref(r) => {
            // What was guessed is marked.
            let guessed = |source: &String| format!("{source} ?");
            let written = r
                .source
                .as_ref()
                .map(|s| if r.certain { s.clone() } else { guessed(s) });
            let source = written.or_else(|| r.variable.clone());
            vec![
                r.place(),
                r.name.clone(),
                source.unwrap_or_else(|| kind_word(r.kind).to_string()),
            ]
        }
        Cell::Callpath(calls) => vec![path(calls)],
        Cell::Object(object, _) => vec![object.name.clone(), object.kind.to_string()],
        Cell::Line(line) => vec![match line {
            Some((file, line)) => format!("{}:{line}", super::names::base(file)),
            None => "?".to_string(),
        }],
        Cell::Function(name) | Cell::Module(name) => vec![name.clone()],
        Cell::Loop(one) => vec![one.as_ref().map_or_else(|| "-".to_string(), ToString::to_string)],
        Cell::Thread(number) => vec![number.to_string()],
        Cell::Process(_, name) => vec![name.clone()],
    }
}

/// The innermost calls of a path, the innermost first.
fn path(calls: &[String]) -> String {
    let mut shown: Vec<&str> = calls.iter().rev().take(MOST_CALLS).map(String::as_str).collect();
    if calls.len() > MOST_CALLS {
        shown.push("…");
    }
    if shown.is_empty() {
        return "-".to_string();
    }
    shown.join(" < ")
}

fn names(row: &Row) -> Vec<String> {
    row.cells.iter().flat_map(texts).collect()
}

fn percent(part: u64, whole: u64) -> String {
    ratio(part, whole).map_or_else(|| "-".to_string(), |share| format!("{:.2}", 100.0 * share))
}

/// What METRIC's Figure 5 tells, of any rows.
pub fn counts(found: &Found, rows: &Rows, by: &[By], top: usize) -> String {
    let level = found.level;
    let line = found.hierarchy.levels[level].line;
    let mut head: Vec<(&str, Align)> = by.iter().flat_map(|&by| heads(by)).copied().collect();
    head.extend(["hits", "misses", "miss ratio", "temporal", "spatial use"].map(|name| (name, RIGHT)));
    let others = other_levels(found);
    head.extend(others.iter().map(|(_, name)| (name.as_str(), RIGHT)));
    let mut columns = Columns::new(&head);
    for row in rows.rows.iter().take(top) {
        let counts = &row.levels[level];
        let mut texts = names(row);
        texts.extend([
            thousands(counts.hits),
            thousands(counts.misses),
            shown_miss_ratio(counts),
            shown_share(counts.temporal_hits(), counts),
            shown_use(counts, line),
        ]);
        texts.extend(others.iter().map(|(at, _)| thousands(row.levels[*at].misses)));
        columns.row(texts);
    }
    with_rest(columns, rows, level, top)
}

/// The levels that the table is not about, and what their column is called.
fn other_levels(found: &Found) -> Vec<(usize, String)> {
    let levels = found.hierarchy.levels.iter().enumerate();
    levels
        .filter(|(at, _)| *at != found.level)
        .map(|(at, level)| (at, format!("{} misses", level.name)))
        .collect()
}

fn with_rest(columns: Columns, rows: &Rows, level: usize, top: usize) -> String {
    let mut text = columns.to_string();
    let rest = rows.rows.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        let misses: u64 = rest.iter().map(|row| row.levels[level].misses).sum();
        let (rows, misses) = (thousands(rest.len() as u64), thousands(misses));
        let _ = writeln!(text, "and {rows} more with {misses} misses (--top N)");
    }
    text
}

/// METRIC's Figure 6: who evicted whose lines.
pub fn evictors(found: &Found, rows: &Rows, by: &[By], top: usize) -> String {
    let mut head: Vec<(&str, Align)> = by.iter().flat_map(|&by| heads(by)).copied().collect();
    let width = head.len();
    head.push(("evicted by", LEFT));
    head.extend(vec![("", LEFT); width.saturating_sub(1)]);
    head.extend([("count", RIGHT), ("percent", RIGHT)]);
    let mut columns = Columns::new(&head);
    let pairs = &rows.evictors[found.level];
    for (owner, row) in rows.rows.iter().take(top).enumerate() {
        let mut others: Vec<(u32, u64)> = of(pairs, owner as u32).collect();
        others.sort_by_key(|&(by, n)| (std::cmp::Reverse(n), by));
        let all: u64 = others.iter().map(|(_, n)| n).sum();
        let mut first = names(row);
        let (shown, more) = others.split_at(others.len().min(MOST_EVICTORS));
        for &(by, n) in shown {
            let mut texts = std::mem::replace(&mut first, vec![String::new(); width]);
            texts.extend(names(&rows.rows[by as usize]));
            texts.extend([thousands(n), percent(n, all)]);
            columns.row(texts);
        }
        if !more.is_empty() {
            let n = more.iter().map(|(_, n)| n).sum();
            let mut texts = vec![String::new(); width];
            texts.push(format!("{} others", thousands(more.len() as u64)));
            texts.extend(vec![String::new(); width.saturating_sub(1)]);
            texts.extend([thousands(n), percent(n, all)]);
            columns.row(texts);
        }
    }
    if columns.is_empty() {
        return "nothing was evicted\n".to_string();
    }
    columns.to_string()
}

/// Who met a row, and how often.
pub fn of(pairs: &Pairs, owner: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
    pairs
        .range((owner, 0)..=(owner, u32::MAX))
        .map(|(&(_, by), &n)| (by, n))
}

/// DTrack's Figures 4 and 5: what objects cost, and what they are like.
pub fn objects(found: &Found, rows: &Rows, by: &[By], top: usize) -> String {
    let mut head: Vec<(String, Align)> = Vec::new();
    head.extend(
        by.iter()
            .flat_map(|&by| heads(by))
            .map(|(name, align)| (name.to_string(), *align)),
    );
    let right = |name: &str| (name.to_string(), RIGHT);
    head.extend(["accesses", "%", "writes %"].map(right));
    for level in &found.hierarchy.levels {
        head.extend([right(&format!("{} misses", level.name)), right("%"), right("ratio")]);
    }
    head.extend(["size", "blocks", "element"].map(right));
    head.push(("pattern".to_string(), LEFT));
    let head: Vec<(&str, Align)> = head.iter().map(|(name, align)| (name.as_str(), *align)).collect();
    let mut columns = Columns::new(&head);
    let all: u64 = rows.rows.iter().map(Row::accesses).sum();
    let misses = |at: usize| rows.rows.iter().map(|row| row.levels[at].misses).sum::<u64>();
    let all_misses: Vec<u64> = (0..found.hierarchy.levels.len()).map(misses).collect();
    for row in rows.rows.iter().take(top) {
        let mut texts = names(row);
        texts.extend([
            thousands(row.accesses()),
            percent(row.accesses(), all),
            percent(row.writes, row.accesses()),
        ]);
        for (counts, &whole) in row.levels.iter().zip(&all_misses) {
            texts.push(thousands(counts.misses));
            texts.push(percent(counts.misses, whole));
            texts.push(shown_ratio(ratio(counts.misses, counts.accesses()), "-"));
        }
        texts.extend(shape(found, row));
        columns.row(texts);
    }
    with_rest(columns, rows, found.level, top)
}

/// Size, number of blocks, element and pattern of a row's object.
fn shape(found: &Found, row: &Row) -> Vec<String> {
    let group = row.cells.iter().find_map(|cell| match cell {
        Cell::Object(_, group) => Some(*group as usize),
        _ => None,
    });
    let nothing = || "-".to_string();
    let Some(group) = group.filter(|&group| group < found.groups.len()) else {
        return vec![nothing(), nothing(), nothing(), nothing()];
    };
    let size = found.object_bytes(group as u32);
    let element = found.element_bytes(group as u32);
    let summary = found.patterns.get(group).copied().flatten();
    vec![
        size.map_or_else(nothing, bytes),
        thousands(found.blocks(group as u32)),
        element.map_or_else(nothing, bytes),
        summary.map_or_else(nothing, |summary| pattern(&summary)),
    ]
}

pub fn pattern_word(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Regular => "regular",
        Pattern::Mixed => "mixed",
        Pattern::Indirect => "indirect",
        Pattern::Irregular => "irregular",
        Pattern::PointerChase => "pointer chase",
    }
}

fn pattern(summary: &Summary) -> String {
    let word = pattern_word(summary.pattern);
    match summary.stride {
        Some((stride, times)) => format!("{word}, {stride:+} in {}%", percent(times, summary.steps)),
        None => word.to_string(),
    }
}

/// DTrack's Figure 6: evictions of what is missed again, by the same object and by others.
pub fn competitors(found: &Found, rows: &Rows, by: &[By], top: usize) -> String {
    let pairs = &rows.premature[found.level];
    let losses = competition(rows.rows.len(), pairs);
    let mut head: Vec<(&str, Align)> = by.iter().flat_map(|&by| heads(by)).copied().collect();
    head.extend(["evictions", "premature", "%", "by itself", "%", "by others", "%"].map(|name| (name, RIGHT)));
    head.extend([("most by", LEFT), ("", RIGHT)]);
    let mut columns = Columns::new(&head);
    for (i, row) in rows.rows.iter().take(top).enumerate() {
        let loss = losses[i];
        let premature = loss.to_itself + loss.to_others;
        let evictions = row.levels[found.level].evictions;
        let mut texts = names(row);
        texts.extend([
            thousands(evictions),
            thousands(premature),
            percent(premature, evictions),
            thousands(loss.to_itself),
            percent(loss.to_itself, premature),
            thousands(loss.to_others),
            percent(loss.to_others, premature),
        ]);
        let others = of(pairs, i as u32).filter(|&(other, _)| other != i as u32);
        let worst = others.max_by_key(|&(by, n)| (n, std::cmp::Reverse(by)));
        texts.extend(match worst {
            Some((by, n)) => [names(&rows.rows[by as usize])[0].clone(), thousands(n)],
            None => [String::new(), String::new()],
        });
        columns.row(texts);
    }
    with_rest(columns, rows, found.level, top)
}
