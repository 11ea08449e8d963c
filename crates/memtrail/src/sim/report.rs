//! What a simulation found, for people.
//!
//! First, for each level, the block of figures that METRIC prints, in its two columns; then a line for each reference; then, if asked for, who
//! evicted whose lines. Where a ratio has no denominator it says what is missing.
use super::columns::{Align, Columns};
use super::rows::{kind_word, Row};
use super::Findings;
use crate::format::thousands;
use memtrail_simulate::{show_size, Classes, Level, LevelCounts, PointCounts};
use std::fmt::Write;

/// Most evictors shown of one reference.
const MOST_EVICTORS: usize = 10;

pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

pub fn miss_ratio(counts: &PointCounts) -> Option<f64> {
    ratio(counts.misses, counts.accesses())
}

pub fn spatial_use(counts: &PointCounts, line: u32) -> Option<f64> {
    ratio(counts.used_bytes, counts.evictions.saturating_mul(line.into()))
}

pub fn shown_ratio(ratio: Option<f64>, missing: &str) -> String {
    ratio.map_or_else(|| missing.to_string(), |ratio| format!("{ratio:.5}"))
}

pub fn shown_miss_ratio(counts: &PointCounts) -> String {
    shown_ratio(miss_ratio(counts), "no accesses")
}
pub fn shown_share(part: u64, counts: &PointCounts) -> String {
    shown_ratio(ratio(part, counts.hits), "no hits")
}
pub fn shown_use(counts: &PointCounts, line: u32) -> String {
    shown_ratio(spatial_use(counts, line), "no evicts")
}

/// A name and a number or ratio.
type Figure = (&'static str, String);

/// One level's figures.
pub fn block(level: &Level, counts: &LevelCounts, classes: bool) -> String {
    let total = counts.total();
    let traffic = &counts.traffic;
    let number = |name, n| (name, thousands(n));
    let mut left = Vec::new();
    if level.holds.data() {
        left.push(number("reads", traffic.reads.requests));
        left.push(number("writes", traffic.writes.requests));
    }
    if traffic.fetches.requests > 0 {
        left.push(number("fetches", traffic.fetches.requests));
    }
    left.extend([
        number("hits", total.hits),
        number("misses", total.misses),
        ("miss ratio", shown_miss_ratio(&total)),
    ]);
    let mut right = vec![
        number("temporal hits", total.temporal_hits()),
        number("spatial hits", total.spatial_hits),
        ("temporal ratio", shown_share(total.temporal_hits(), &total)),
        ("spatial ratio", shown_share(total.spatial_hits, &total)),
        ("spatial use", shown_use(&total, level.line)),
    ];
    let mut more = vec![number("evictions", total.evictions)];
    let rare = [
        ("write-backs", traffic.writebacks),
        ("write-backs in", traffic.writebacks_received),
        ("invalidations", traffic.invalidations),
        ("prefetches", traffic.prefetches.requests),
        ("prefetch misses", traffic.prefetches.misses),
        ("prefetch hits", total.prefetch_hits),
    ];
    more.extend(
        rare.into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| number(name, n)),
    );
    if classes {
        let Classes {
            compulsory,
            capacity,
            conflict,
        } = total.classes;
        more.extend([
            number("compulsory", compulsory),
            number("capacity", capacity),
            number("conflict", conflict),
        ]);
    }
    for figure in more {
        let shorter = if left.len() <= right.len() {
            &mut left
        } else {
            &mut right
        };
        shorter.push(figure);
    }
    let name_width = |figures: &[Figure]| figures.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let (left_names, right_names) = (name_width(&left), name_width(&right));
    let values = left.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
    let mut text = format!("{}\n", head(level, counts.caches));
    for i in 0..left.len().max(right.len()) {
        let shown = |(name, value): &Figure| format!("  {name:<left_names$} = {value:<values$}");
        let mut line = left
            .get(i)
            .map_or_else(|| " ".repeat(2 + left_names + 3 + values), shown);
        if let Some((name, value)) = right.get(i) {
            let _ = write!(line, "    {name:<right_names$} = {value}");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn head(level: &Level, caches: u32) -> String {
    let ways = match (level.ways, level.sets()) {
        (1, _) => "direct-mapped".to_string(),
        (_, 1) => "fully associative".to_string(),
        (ways, _) => format!("{ways} ways"),
    };
    let usual = Level::new("", level.size, level.line, level.ways);
    let mut text = format!(
        "{}: {} in lines of {} bytes, {ways}",
        level.name,
        show_size(level.size),
        level.line
    );
    for ((field, value), (_, default)) in level.settings().zip(usual.settings()) {
        match field {
            "policy" => text += &format!(", {value}"),
            "shared" => {}
            // Without fetches all levels hold data only.
            "holds" if value == "data" => {}
            "allocate" if value != default => text += ", no-allocate",
            "write" if value != default => text += &format!(", write {value}"),
            _ if value != default => text += &format!(", {value}"),
            _ => {}
        }
    }
    if caches > 1 {
        text += &format!("; {caches} caches");
    }
    text
}

/// The table of references, at most `top` of them.
pub fn references(findings: &Findings, top: usize) -> String {
    let about = |row: &Row| row.levels[findings.level_of(row.reference.kind)];
    let prefetches = findings.rows.iter().any(|row| about(row).prefetch_hits > 0);
    let further = findings.further();
    let further_names: Vec<String> = further
        .iter()
        .map(|&at| format!("{} misses", findings.hierarchy.levels[at].name))
        .collect();
    let right = |name| (name, Align::Right);
    let mut head = vec![("reference", Align::Left), ("kind", Align::Left)];
    head.extend(["hits", "misses", "miss ratio", "temporal", "spatial use", "evictions"].map(right));
    if prefetches {
        head.push(right("prefetch hits"));
    }
    if findings.classes {
        head.extend(["compulsory", "capacity", "conflict"].map(right));
    }
    head.extend(further_names.iter().map(|name| right(name.as_str())));
    let mut columns = Columns::new(&head);
    for row in findings.rows.iter().take(top) {
        let at = findings.level_of(row.reference.kind);
        let counts = &row.levels[at];
        let mut texts = vec![
            row.reference.to_string(),
            kind_word(row.reference.kind).to_string(),
            thousands(counts.hits),
            thousands(counts.misses),
            shown_miss_ratio(counts),
            shown_share(counts.temporal_hits(), counts),
            shown_use(counts, findings.hierarchy.levels[at].line),
            thousands(counts.evictions),
        ];
        if prefetches {
            texts.push(thousands(counts.prefetch_hits));
        }
        if findings.classes {
            let Classes {
                compulsory,
                capacity,
                conflict,
            } = counts.classes;
            texts.extend([compulsory, capacity, conflict].map(thousands));
        }
        texts.extend(further.iter().map(|&at| thousands(row.levels[at].misses)));
        columns.row(texts);
    }
    let mut text = columns.to_string();
    let rest = findings.rows.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        let misses: u64 = rest.iter().map(|row| about(row).misses).sum();
        let _ = writeln!(
            text,
            "and {} more with {} misses (--top N)",
            thousands(rest.len() as u64),
            thousands(misses)
        );
    }
    text
}

/// Who evicted the lines of the references in the table.
pub fn evictors(findings: &Findings, top: usize) -> String {
    let left = |name| (name, Align::Left);
    let mut columns = Columns::new(&[
        left("reference"),
        left("kind"),
        left("evicted by"),
        left("kind"),
        ("count", Align::Right),
        ("percent", Align::Right),
    ]);
    for row in findings.rows.iter().take(top) {
        let evictors = &row.evictors[findings.level_of(row.reference.kind)];
        let all: u64 = evictors.iter().map(|(_, n)| n).sum();
        let percent = |n: u64| format!("{:.2}", n as f64 * 100.0 / all as f64);
        let (shown, others) = evictors.split_at(evictors.len().min(MOST_EVICTORS));
        for (i, &(evictor, n)) in shown.iter().enumerate() {
            let [name, kind] = match i {
                0 => named(row),
                _ => [String::new(), String::new()],
            };
            let [by, by_kind] = named(&findings.rows[evictor]);
            columns.row(vec![name, kind, by, by_kind, thousands(n), percent(n)]);
        }
        if !others.is_empty() {
            let n = others.iter().map(|(_, n)| n).sum();
            let name = format!("{} others", thousands(others.len() as u64));
            columns.row(vec![
                String::new(),
                String::new(),
                name,
                String::new(),
                thousands(n),
                percent(n),
            ]);
        }
    }
    match columns.is_empty() {
        true => "no line was evicted\n".to_string(),
        false => columns.to_string(),
    }
}

fn named(row: &Row) -> [String; 2] {
    [row.reference.to_string(), kind_word(row.reference.kind).to_string()]
}
