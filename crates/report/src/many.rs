//! Sweeps, curves and reuse distances, for people and for programs.
use crate::columns::{Align, Columns};
use crate::format::{percent, ratio, shown_ratio, thousands};
use crate::set::Reuse;
use memtrail_simulate::config::Policy;
use memtrail_simulate::reuse::{Curve, CurvePoint};
use memtrail_simulate::show_size;
use memtrail_simulate::sweep::{SweepConfig, SweepCounts, Swept};
use serde_json::{json, Value};

fn policy(config: &SweepConfig) -> &'static str {
    if config.policy == Policy::Fifo {
        "fifo"
    } else {
        "lru"
    }
}

pub fn sweep(found: &[Swept]) -> String {
    let right = |name| (name, Align::Right);
    let mut head = ["size", "line", "ways"].map(right).to_vec();
    head.push(("policy", Align::Left));
    head.extend(["misses", "miss ratio", "read misses", "write misses"].map(right));
    let mut columns = Columns::new(head);
    for Swept { config, counts, .. } in found {
        let total = counts.total();
        columns.row(vec![
            show_size(config.size),
            config.line.to_string(),
            config.ways.to_string(),
            policy(config).to_string(),
            thousands(total.misses),
            shown_ratio(ratio(total.misses, total.requests), "no accesses"),
            thousands(counts.reads.misses),
            thousands(counts.writes.misses),
        ]);
    }
    columns.to_string()
}

pub fn sweep_json(found: &[Swept]) -> Value {
    let one = |Swept {
                   config,
                   counts,
                   skipped,
               }: &Swept| {
        let mut value = counts_json(counts);
        value["skipped"] = (*skipped).into();
        value["size"] = config.size.into();
        value["line"] = config.line.into();
        value["ways"] = config.ways.into();
        value["sets"] = config.sets().into();
        value["policy"] = policy(config).into();
        value
    };
    found.iter().map(one).collect()
}

fn counts_json(counts: &SweepCounts) -> Value {
    let total = counts.total();
    json!({
        "accesses": total.requests,
        "misses": total.misses,
        "miss_ratio": ratio(total.misses, total.requests),
        "reads": counts.reads.requests,
        "read_misses": counts.reads.misses,
        "writes": counts.writes.requests,
        "write_misses": counts.writes.misses,
    })
}

/// Sizes down, ways across.
pub fn curves(line: u32, curves: &[Curve]) -> String {
    let name = |curve: &Curve| match curve.ways {
        None => "fully associative".to_string(),
        Some(1) => "direct-mapped".to_string(),
        Some(ways) => format!("{ways} ways"),
    };
    let mut head = vec![("size".to_string(), Align::Right)];
    head.extend(curves.iter().map(|curve| (name(curve), Align::Right)));
    let mut columns = Columns::new(head);
    let mut sizes: Vec<u64> = curves.iter().flat_map(|c| c.points.iter().map(|p| p.size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        let mut texts = vec![show_size(size)];
        texts.extend(curves.iter().map(|curve| {
            let point = curve.points.iter().find(|point| point.size == size);
            point.map_or_else(|| "-".to_string(), |p| shown_ratio(point_ratio(p), "no accesses"))
        }));
        columns.row(texts);
    }
    format!("miss ratio of LRU caches with lines of {line} bytes\n{columns}")
}

fn point_ratio(point: &CurvePoint) -> Option<f64> {
    let total = point.counts.total();
    ratio(total.misses, total.requests)
}

pub fn curves_json(line: u32, curves: &[Curve]) -> Value {
    let point = |point: &CurvePoint| {
        let mut value = counts_json(&point.counts);
        value["size"] = point.size.into();
        value
    };
    let curve =
        |curve: &Curve| json!({"ways": curve.ways, "points": curve.points.iter().map(point).collect::<Value>()});
    json!({"line": line, "curves": curves.iter().map(curve).collect::<Value>()})
}

/// By powers of two: buckets that begin at one are put together with those up to the next.
pub fn reuse(reuse: &Reuse) -> String {
    let all = reuse.touches.total();
    let right = |name| (name, Align::Right);
    let mut columns = Columns::new(["distance", "reads", "writes", "percent", "so far"].map(right));
    let percent = |part: u64| percent(part, all.max(1));
    let mut sum = 0;
    let mut buckets = reuse.buckets.iter().peekable();
    while let Some(&(mut whole)) = buckets.next() {
        while let Some(more) = buckets.next_if(|next| !next.from.is_power_of_two()) {
            whole.to = more.to;
            whole.reads += more.reads;
            whole.writes += more.writes;
        }
        let touches = whole.reads + whole.writes;
        sum += touches;
        let range = match whole.from == whole.to {
            true => thousands(whole.from),
            false => format!("{} to {}", thousands(whole.from), thousands(whole.to)),
        };
        let (reads, writes) = (thousands(whole.reads), thousands(whole.writes));
        columns.row(vec![range, reads, writes, percent(touches), percent(sum)]);
    }
    let first = reuse.first;
    columns.row(vec![
        "first touch".to_string(),
        thousands(first.reads),
        thousands(first.writes),
        percent(first.total()),
        percent(sum + first.total()),
    ]);
    let line = reuse.line;
    format!("other lines of {line} bytes touched between two touches of a line\n{columns}")
}
