//! Tables for programs. The keys are promised in the user guide; a change of their meaning is a new
//! version.
use crate::entry::{kind_word, Dimension, Entry, Object, Reference};
use crate::format::ratio;
use crate::levels::{miss_ratio, spatial_use};
use crate::many;
use crate::set::{charge_word, Pairs, ResultSet, Row};
use crate::text::evictors_of;
use crate::view::{competition, View};
use memtrail_simulate::{Level, PointCounts};
use serde::Serialize;
use serde_json::{json, Map, Value};

pub const SCHEMA_VERSION: u32 = 1;

type Fields = Map<String, Value>;

/// A value's fields. What a set holds can always be written as JSON.
fn fields(value: impl Serialize) -> Fields {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Fields::new(),
    }
}

/// What all commands begin with.
fn head(set: &ResultSet, classes: bool) -> Value {
    let source = set.run.sources.first().cloned().unwrap_or_default();
    let mut value = json!({
        "schema_version": SCHEMA_VERSION,
        "command": source.command,
        "file": source.file,
        "accesses": set.run.accesses,
    });
    if !set.levels.is_empty() {
        let levels = (0..set.levels.len()).map(|at| level(set, at, classes));
        value["config"] = config(set);
        value["skipped"] = set.run.skipped.into();
        value["levels"] = levels.collect();
    }
    value
}

fn config(set: &ResultSet) -> Value {
    let hierarchy = &set.run.hierarchy;
    json!({
        "source": set.run.config,
        "cores": hierarchy.cores,
        "seed": hierarchy.seed,
        "levels": hierarchy.levels.iter().map(level_config).collect::<Value>(),
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
fn counts(counts: &PointCounts, line: u32, classes: bool) -> Fields {
    let mut value = fields(counts);
    let mut put = |name: &str, item: Value| drop(value.insert(name.to_string(), item));
    put("accesses", counts.accesses().into());
    put("miss_ratio", miss_ratio(counts).into());
    put("temporal_hits", counts.temporal_hits().into());
    put("temporal_ratio", ratio(counts.temporal_hits(), counts.hits).into());
    put("spatial_ratio", ratio(counts.spatial_hits, counts.hits).into());
    put("spatial_use", spatial_use(counts, line).into());
    if !classes {
        value.remove("classes");
    }
    value
}

fn level(set: &ResultSet, at: usize, classes: bool) -> Value {
    let (level, totals) = (&set.run.hierarchy.levels[at], &set.levels[at]);
    let traffic = &totals.traffic;
    let mut value = Value::Object(counts(&set.total(at), level.line, classes));
    value["name"] = level.name.clone().into();
    value["caches"] = totals.caches.into();
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

fn object(view: &View<'_>, row: &Row, object: &Object) -> Value {
    let facts = &object.facts;
    let mean = (facts.ended > 0).then(|| (facts.lifetime / u128::from(facts.ended)) as u64);
    let (stride, times) = facts
        .stride()
        .map_or((None, 0), |(stride, times)| (Some(stride), times));
    let pattern = facts
        .pattern()
        .map(|kind| json!({"kind": kind, "steps": facts.steps(), "stride": stride, "stride_steps": times}));
    json!({
        "name": view.object_name(row, object),
        "kind": object.kind,
        "type": object.ty,
        "module": object.module,
        "path": object.path.calls,
        "line": object.line,
        "bytes": facts.bytes,
        "element_bytes": facts.element_bytes(),
        "blocks": facts.blocks,
        "most_live": facts.most_live,
        "total_bytes": facts.total_bytes,
        "resized": facts.resized,
        "lifetime": {"ended": facts.ended, "mean": mean, "longest": facts.longest},
        "pattern": pattern,
    })
}

/// What a dimension of a row is.
fn dimension(view: &View<'_>, row: &Row, entry: &Entry) -> Value {
    match entry {
        Entry::Ref(reference) => fields(reference).into(),
        Entry::Callpath(path) => path.calls.clone().into(),
        Entry::Object(one) => object(view, row, one),
        Entry::Block(block) => fields(block).into(),
        Entry::Field(field) => json!(field),
        Entry::Line(line) => json!(line),
        Entry::Function(function) => function.name.clone().into(),
        Entry::Loop(one) => json!(one),
        Entry::Module(name) => name.clone().into(),
        Entry::Thread(number) | Entry::Phase(number) => (*number).into(),
        Entry::Process(process) => process.name.clone().into(),
        Entry::Rank(rank) => json!(rank),
    }
}

/// What a row is of. What the table is about stands beside the counts, each other dimension under
/// its name.
pub fn row_names(view: &View<'_>, row: &Row, subject: Dimension) -> Map<String, Value> {
    let mut value = Fields::new();
    for entry in view.entries(row) {
        match dimension(view, row, entry) {
            Value::Object(fields) if entry.dimension() == subject => value.extend(fields),
            item => drop(value.insert(entry.dimension().word().to_string(), item)),
        }
    }
    value
}

/// A row of a table.
fn row(view: &View<'_>, row: &Row, subject: Dimension) -> Value {
    let mut value = row_names(view, row, subject);
    let mut put = |key: &str, item: Value| drop(value.insert(key.to_string(), item));
    put("accesses", row.accesses().into());
    put("reads", row.reads.into());
    put("writes", row.writes.into());
    put("accessed_bytes", view.set.run.counted.bytes.then_some(row.bytes).into());
    let levels = || view.hierarchy().levels.iter().zip(&row.levels);
    let misses: Fields = levels().map(|(l, c)| (l.name.clone(), c.misses.into())).collect();
    put("misses", misses.into());
    let levels: Fields = levels()
        .map(|(level, found)| (level.name.clone(), counts(found, level.line, false).into()))
        .collect();
    put("levels", levels.into());
    value.into()
}

/// A table: at most `top` rows, under `key`. What it is about is `subject`.
pub fn table(view: &View<'_>, subject: Dimension, key: &str, top: usize) -> Value {
    let mut value = head(view.set, false);
    value["reasons"] = json!(view.set.run.reasons);
    value[key] = view.rows.iter().take(top).map(|one| row(view, one, subject)).collect();
    value
}

/// To whom evictions were charged.
fn charge(view: &View<'_>) -> Value {
    view.set.run.counted.evictors.map(charge_word).into()
}

/// Adds who evicted whose lines to a table.
pub fn with_evictors(mut table: Value, view: &View<'_>, top: usize) -> Value {
    table["charge"] = charge(view);
    table["evictors"] = pairs(view, &view.evictors, top);
    table
}

/// Adds who evicted what was missed again to a table: pairs of rows, and what each row loses to
/// itself and to others.
pub fn with_losses(mut table: Value, view: &View<'_>, key: &str, top: usize) -> Value {
    for (level, pairs) in view.hierarchy().levels.iter().zip(&view.premature) {
        for (i, loss) in competition(view.rows.len(), pairs).into_iter().take(top).enumerate() {
            table[key][i]["levels"][&level.name]["premature"] =
                json!({"by_itself": loss.to_itself, "by_others": loss.to_others, "of_others": loss.from_others});
        }
    }
    table["pairs"] = pairs(view, &view.premature, top);
    table
}

/// Pairs of rows, by their places in the list.
fn pairs(view: &View<'_>, pairs: &[Pairs], top: usize) -> Value {
    let levels = view.hierarchy().levels.iter().zip(pairs);
    let of_level = |(level, pairs): (&Level, &Pairs)| {
        let shown = pairs
            .iter()
            .filter(|((a, b), _)| (*a as usize) < top && (*b as usize) < top);
        let pair = |((owner, by), n): (&(u32, u32), &u64)| json!({"level": level.name, "owner": owner, "evictor": by, "count": n});
        shown.map(pair).collect::<Vec<_>>()
    };
    levels.flat_map(of_level).collect()
}

fn reference<'v>(view: &'v View<'_>, row: &'v Row) -> Option<&'v Reference> {
    view.entries(row).find_map(|entry| match entry {
        Entry::Ref(reference) => Some(&**reference),
        _ => None,
    })
}

/// A reference of `sim`: called by its place. Where that is in the source is told if it is known.
fn sim_row(view: &View<'_>, id: usize, row: &Row, classes: bool) -> Value {
    let levels = view.hierarchy().levels.iter().zip(&row.levels);
    let reached = levels.filter(|(_, found)| **found != PointCounts::default());
    let reached: Fields = reached
        .map(|(level, found)| (level.name.clone(), counts(found, level.line, classes).into()))
        .collect();
    let line = view.hierarchy().levels[view.level_of(row)].line;
    let mut value = counts(view.counts(row), line, classes);
    let mut put = |key: &str, item: Value| drop(value.insert(key.to_string(), item));
    put("id", id.into());
    put("levels", reached.into());
    if let Some(r) = reference(view, row) {
        put("name", r.address().into());
        put("pc", r.pc.into());
        put("module", r.module.clone().into());
        put("offset", r.offset.into());
        put("kind", kind_word(r.kind).into());
        if r.line.is_some() {
            put("reference", r.name.clone().into());
            put("source", r.source.clone().into());
            put("function", r.function.clone().into());
            put("file", r.file.clone().into());
            put("line", r.line.into());
        }
    }
    value.into()
}

fn sim_evictors(view: &View<'_>, top: usize) -> Value {
    let mut all = Vec::new();
    for (owner, _) in view.rows.iter().take(top).enumerate() {
        for (level, pairs) in view.hierarchy().levels.iter().zip(&view.evictors) {
            let evictors = evictors_of(pairs, owner as u32);
            let whole: u64 = evictors.iter().map(|(_, n)| n).sum();
            all.extend(evictors.iter().map(|&(evictor, count)| {
                let by = reference(view, &view.rows[evictor as usize]);
                json!({
                    "level": level.name,
                    "owner": owner,
                    "evictor": evictor,
                    "evictor_name": by.map(Reference::address),
                    "evictor_kind": by.map(|by| kind_word(by.kind)),
                    "count": count,
                    "percent": count as f64 * 100.0 / whole as f64,
                })
            }));
        }
    }
    all.into()
}

/// What `sim` found. `view`: by reference, if a hierarchy was simulated.
pub fn sim(set: &ResultSet, view: Option<&View<'_>>, top: usize, classes: bool, evictors: bool) -> Value {
    let mut value = head(set, classes);
    if let Some(view) = view {
        let rows = view.rows.iter().take(top).enumerate();
        value["refs"] = rows.map(|(id, row)| sim_row(view, id, row, classes)).collect();
        if evictors {
            value["charge"] = charge(view);
            value["evictors"] = sim_evictors(view, top);
        }
    }
    if !set.sweep.is_empty() {
        value["sweep"] = many::sweep_json(&set.sweep);
    }
    if let Some((line, curves)) = &set.curves {
        value["curve"] = many::curves_json(*line, curves);
    }
    if let Some(reuse) = &set.reuse {
        value["reuse"] = json!(reuse);
    }
    value
}
