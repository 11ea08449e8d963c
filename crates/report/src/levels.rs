//! What a level did: the block of figures that METRIC prints, in its two columns. A ratio without a
//! denominator says what is missing.
use crate::format::{ratio, shown_ratio, thousands};
use crate::set::ResultSet;
use memtrail_simulate::{show_size, Classes, Level, PointCounts};
use std::fmt::Write;

pub fn miss_ratio(counts: &PointCounts) -> Option<f64> {
    ratio(counts.misses, counts.accesses())
}

/// How much of the lines that were evicted had been used.
pub fn spatial_use(counts: &PointCounts, line: u32) -> Option<f64> {
    ratio(counts.used_bytes, counts.evictions.saturating_mul(line.into()))
}

pub(crate) fn shown_miss_ratio(counts: &PointCounts) -> String {
    shown_ratio(miss_ratio(counts), "no accesses")
}

pub(crate) fn shown_share(part: u64, counts: &PointCounts) -> String {
    shown_ratio(ratio(part, counts.hits), "no hits")
}

pub(crate) fn shown_use(counts: &PointCounts, line: u32) -> String {
    shown_ratio(spatial_use(counts, line), "no evicts")
}

/// A name and a number or ratio.
type Figure = (&'static str, String);

/// One level's figures.
pub fn block(set: &ResultSet, at: usize, classes: bool) -> String {
    let (level, counts, total) = (&set.run.hierarchy.levels[at], &set.levels[at], set.total(at));
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
