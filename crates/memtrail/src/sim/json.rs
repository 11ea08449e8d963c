//! What a simulation found, for programs. The keys are promised in the user guide; a change of their meaning is a new version.
use super::report::{miss_ratio, ratio, spatial_use};
use super::rows::{kind_word, Reference, Row};
use super::{many, Findings, Found};
use memtrail_simulate::{Classes, Hierarchy, Level, LevelCounts, PointCounts};
use serde_json::{json, Map, Value};

pub const SCHEMA_VERSION: u32 = 1;

pub fn config(hierarchy: &Hierarchy, source: &str) -> Value {
    let levels: Vec<Value> = hierarchy.levels.iter().map(level_config).collect();
    json!({
        "source": source,
        "cores": hierarchy.cores,
        "seed": hierarchy.seed,
        "levels": levels,
    })
}

fn level_config(level: &Level) -> Value {
    let mut value = json!({
        "name": level.name,
        "size": level.size,
        "line": level.line,
        "ways": level.ways,
        "sets": level.sets(),
    });
    for (field, text) in level.settings() {
        value[field] = match text.parse::<u64>() {
            Ok(number) => number.into(),
            Err(_) => text.into(),
        };
    }
    value["allocate"] = level.allocate.into();
    value
}

/// What levels and references have in common.
pub fn counts(counts: &PointCounts, line: u32, classes: bool) -> Map<String, Value> {
    let mut value = Map::new();
    let mut put = |name: &str, item: Value| value.insert(name.to_string(), item);
    put("accesses", counts.accesses().into());
    put("hits", counts.hits.into());
    put("misses", counts.misses.into());
    put("miss_ratio", miss_ratio(counts).into());
    put("temporal_hits", counts.temporal_hits().into());
    put("spatial_hits", counts.spatial_hits.into());
    put("temporal_ratio", ratio(counts.temporal_hits(), counts.hits).into());
    put("spatial_ratio", ratio(counts.spatial_hits, counts.hits).into());
    put("spatial_use", spatial_use(counts, line).into());
    put("used_bytes", counts.used_bytes.into());
    put("evictions", counts.evictions.into());
    put("writebacks", counts.writebacks.into());
    put("prefetch_hits", counts.prefetch_hits.into());
    if classes {
        let Classes {
            compulsory,
            capacity,
            conflict,
        } = counts.classes;
        put(
            "classes",
            json!({"compulsory": compulsory, "capacity": capacity, "conflict": conflict}),
        );
    }
    value
}

pub fn level(level: &Level, found: &LevelCounts, classes: bool) -> Value {
    let traffic = &found.traffic;
    let mut value = Value::Object(counts(&found.total(), level.line, classes));
    value["name"] = level.name.clone().into();
    value["caches"] = found.caches.into();
    for (name, misses_name, requests) in [
        ("reads", "read_misses", traffic.reads),
        ("writes", "write_misses", traffic.writes),
        ("fetches", "fetch_misses", traffic.fetches),
        ("prefetches", "prefetch_misses", traffic.prefetches),
    ] {
        value[name] = requests.requests.into();
        value[misses_name] = requests.misses.into();
    }
    value["writebacks"] = traffic.writebacks.into();
    value["writebacks_received"] = traffic.writebacks_received.into();
    value["invalidations"] = traffic.invalidations.into();
    value
}

fn reference(reference: &Reference) -> Value {
    let place = reference.place.as_ref();
    json!({
        "name": reference.to_string(),
        "pc": reference.pc,
        "module": place.map(|(module, _)| module),
        "offset": place.map(|(_, offset)| offset),
        "kind": kind_word(reference.kind),
    })
}

fn row(findings: &Findings, id: usize, row: &Row) -> Value {
    let mut value = reference(&row.reference);
    value["id"] = id.into();
    let levels = findings.hierarchy.levels.iter().zip(&row.levels);
    let levels = levels.filter(|(_, found)| **found != PointCounts::default());
    let by_level: Map<String, Value> = levels
        .map(|(level, found)| (level.name.clone(), counts(found, level.line, findings.classes).into()))
        .collect();
    value["levels"] = by_level.into();
    let first = findings.level_of(row.reference.kind);
    let line = findings.hierarchy.levels[first].line;
    for (name, item) in counts(&row.levels[first], line, findings.classes) {
        value[name] = item;
    }
    value
}

fn evictors(findings: &Findings, top: usize) -> Vec<Value> {
    let mut all = Vec::new();
    for (owner, row) in findings.rows.iter().take(top).enumerate() {
        for (level, evictors) in findings.hierarchy.levels.iter().zip(&row.evictors) {
            let whole: u64 = evictors.iter().map(|(_, n)| n).sum();
            all.extend(evictors.iter().map(|&(evictor, count)| {
                json!({
                    "level": level.name,
                    "owner": owner,
                    "evictor": evictor,
                    "evictor_name": findings.rows[evictor].reference.to_string(),
                    "evictor_kind": kind_word(findings.rows[evictor].reference.kind),
                    "count": count,
                    "percent": count as f64 * 100.0 / whole as f64,
                })
            }));
        }
    }
    all
}

/// The hierarchy, with at most `top` references.
pub fn findings(findings: &Findings, top: usize) -> Map<String, Value> {
    let levels = findings.hierarchy.levels.iter().zip(&findings.counts);
    let levels: Vec<Value> = levels.map(|(l, found)| level(l, found, findings.classes)).collect();
    let rows = findings.rows.iter().take(top).enumerate();
    let refs: Vec<Value> = rows.map(|(id, r)| row(findings, id, r)).collect();
    let mut value = Map::new();
    value.insert("config".to_string(), config(&findings.hierarchy, &findings.source));
    value.insert("skipped".to_string(), findings.skipped.into());
    value.insert("levels".to_string(), levels.into());
    value.insert("refs".to_string(), refs.into());
    if let Some(charge) = findings.evictors {
        value.insert("charge".to_string(), charge.word().into());
        value.insert("evictors".to_string(), evictors(findings, top).into());
    }
    value
}

/// Everything.
pub fn found(found: &Found, top: usize) -> Value {
    let mut value = json!({"schema_version": SCHEMA_VERSION, "accesses": found.accesses});
    for (key, item) in found.levels.iter().flat_map(|levels| findings(levels, top)) {
        value[key] = item;
    }
    if !found.sweep.is_empty() {
        value["sweep"] = many::sweep_json(&found.sweep);
    }
    if let Some(curves) = &found.curves {
        value["curve"] = many::curves_json(found.line, curves);
    }
    if let Some(histogram) = &found.reuse {
        value["reuse"] = many::reuse_json(histogram);
    }
    value
}
