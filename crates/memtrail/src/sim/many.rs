//! Sweeps, curves and reuse distances, for people and for programs.
use super::columns::{Align, Columns};
use super::report::{ratio, shown_ratio};
use super::Swept;
use crate::format::thousands;
use memtrail_simulate::config::Policy;
use memtrail_simulate::reuse::{Bucket, Curve, CurvePoint, Histogram};
use memtrail_simulate::show_size;
use memtrail_simulate::sweep::{SweepConfig, SweepCounts};
use serde_json::{json, Value};

/// Buckets of distances in JSON: each power of two is divided into `1 << FINE`.
const FINE: u32 = 3;

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
    let mut columns = Columns::new(&head);
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
    let names: Vec<String> = curves.iter().map(name).collect();
    let mut head = vec![("size", Align::Right)];
    head.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
    let mut columns = Columns::new(&head);
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

/// By powers of two.
pub fn reuse(histogram: &Histogram) -> String {
    let all = histogram.touches().total();
    let right = |name| (name, Align::Right);
    let mut columns = Columns::new(&["distance", "reads", "writes", "percent", "so far"].map(right));
    let mut sum = 0;
    let percent = |part: u64| format!("{:.2}", part as f64 * 100.0 / all.max(1) as f64);
    for Bucket { from, to, touches } in histogram.buckets(0) {
        sum += touches.total();
        let range = match from == to {
            true => thousands(from),
            false => format!("{} to {}", thousands(from), thousands(to)),
        };
        let (reads, writes) = (thousands(touches.reads), thousands(touches.writes));
        columns.row(vec![range, reads, writes, percent(touches.total()), percent(sum)]);
    }
    let never = histogram.never();
    let (reads, writes) = (thousands(never.reads), thousands(never.writes));
    columns.row(vec![
        "first touch".to_string(),
        reads,
        writes,
        percent(never.total()),
        percent(sum + never.total()),
    ]);
    format!(
        "other lines of {} bytes touched between two touches of a line\n{columns}",
        histogram.line()
    )
}

pub fn reuse_json(histogram: &Histogram) -> Value {
    let bucket = |b: &Bucket| json!({"from": b.from, "to": b.to, "reads": b.touches.reads, "writes": b.touches.writes});
    let (all, never) = (histogram.touches(), histogram.never());
    json!({
        "line": histogram.line(),
        "touches": {"reads": all.reads, "writes": all.writes},
        "first": {"reads": never.reads, "writes": never.writes},
        "buckets": histogram.buckets(FINE).iter().map(bucket).collect::<Value>(),
    })
}
