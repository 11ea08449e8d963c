//! Tables for programs.
use super::args::By;
use super::objects::ObjectName;
use super::rows::{Cell, Row, Rows};
use super::run::Found;
use super::text::pattern_word;
use crate::sim::json as sim;
use crate::sim::rows::kind_word;
use memtrail_analyze::tables::{competition, Pairs};
use serde_json::{json, Map, Value};

/// What every table begins with.
pub fn head(found: &Found) -> Value {
    let levels = found.hierarchy.levels.iter().zip(&found.counts);
    json!({
        "schema_version": 1,
        "config": sim::config(&found.hierarchy, &found.source),
        "accesses": found.accesses,
        "skipped": found.skipped,
        "levels": levels.map(|(level, counts)| sim::level(level, counts, false)).collect::<Vec<_>>(),
        "reasons": found.reasons(),
    })
}

fn line(line: Option<&(String, u32)>) -> Value {
    line.map_or(Value::Null, |(file, line)| json!({"file": file, "line": line}))
}

fn object(found: &Found, object: &ObjectName, group: u32) -> Map<String, Value> {
    let mut value = Map::new();
    let mut put = |key: &str, item: Value| drop(value.insert(key.to_string(), item));
    put("name", object.name.clone().into());
    put("kind", object.kind.into());
    put("type", object.ty.clone().into());
    put("module", object.module.clone().into());
    put("path", object.path.clone().into());
    put("line", line(object.line.as_ref()));
    put("bytes", found.object_bytes(group).into());
    put("element_bytes", found.element_bytes(group).into());
    if let Some(about) = found.groups.get(group as usize) {
        put("blocks", found.blocks(group).into());
        put("most_live", about.most_live.into());
        put("total_bytes", about.bytes.into());
        put("resized", about.resized.into());
        let mean = (about.ended > 0).then(|| (about.lifetime / u128::from(about.ended)) as u64);
        put(
            "lifetime",
            json!({"ended": about.ended, "mean": mean, "longest": about.longest}),
        );
    }
    let summary = found.patterns.get(group as usize).copied().flatten();
    let pattern = |s: memtrail_analyze::patterns::Summary| {
        let (stride, times) = s.stride.map_or((None, 0), |(stride, times)| (Some(stride), times));
        json!({"kind": pattern_word(s.pattern), "steps": s.steps, "stride": stride, "stride_steps": times})
    };
    put("pattern", summary.map_or(Value::Null, pattern));
    value
}

/// A dimension: its key, and its value.
fn dimension(found: &Found, cell: &Cell) -> (&'static str, Value) {
    match cell {
        Cell::Ref(r) => {
            let value = json!({
                "name": r.name,
                "source": r.source,
                "certain": r.certain,
                "variable": r.variable,
                "function": r.function,
                "file": r.line.as_ref().map(|(file, _)| file),
                "line": r.line.as_ref().map(|(_, line)| line),
                "module": r.module,
                "offset": r.module.as_ref().map(|_| r.offset),
                "pc": r.pc,
                "kind": kind_word(r.kind),
            });
            ("ref", value)
        }
        Cell::Callpath(calls) => ("callpath", calls.clone().into()),
        Cell::Object(name, group) => ("object", object(found, name, *group).into()),
        Cell::Line(at) => ("line", line(at.as_ref())),
        Cell::Function(name) => ("function", name.clone().into()),
        Cell::Loop(one) => {
            let value = one.as_ref().map_or(Value::Null, |one| {
                let (file, low, high) = one
                    .lines
                    .clone()
                    .map_or((None, None, None), |(f, l, h)| (Some(f), Some(l), Some(h)));
                json!({
                    "function": one.function, "file": file, "first_line": low, "last_line": high,
                    "address": one.address, "depth": one.depth, "irreducible": one.irreducible,
                })
            });
            ("loop", value)
        }
        Cell::Module(name) => ("module", name.clone().into()),
        Cell::Thread(number) => ("thread", (*number).into()),
        Cell::Process(_, name) => ("process", name.as_str().into()),
    }
}

/// A row. What it is about, if `flat`, stands beside its counts, and otherwise each dimension under its name.
fn row(found: &Found, row: &Row, flat: By) -> Value {
    let mut value = Map::new();
    for cell in &row.cells {
        match (dimension(found, cell), flat) {
            (("ref", Value::Object(fields)), By::Ref) | (("object", Value::Object(fields)), By::Object) => {
                value.extend(fields);
            }
            (("line", Value::Object(fields)), By::Line) => value.extend(fields),
            ((key, item), _) => drop(value.insert(key.to_string(), item)),
        }
    }
    let mut put = |key: &str, item: Value| drop(value.insert(key.to_string(), item));
    put("accesses", row.accesses().into());
    put("reads", row.reads.into());
    put("writes", row.writes.into());
    put("accessed_bytes", row.bytes.into());
    let levels = || found.hierarchy.levels.iter().zip(&row.levels);
    let misses: Map<String, Value> = levels().map(|(l, c)| (l.name.clone(), c.misses.into())).collect();
    put("misses", misses.into());
    let levels: Map<String, Value> = levels()
        .map(|(level, counts)| (level.name.clone(), sim::counts(counts, level.line, false).into()))
        .collect();
    put("levels", levels.into());
    value.into()
}

pub fn rows(found: &Found, rows: &Rows, flat: By, top: usize) -> Value {
    rows.rows.iter().take(top).map(|one| row(found, one, flat)).collect()
}

/// Pairs of rows, by their places in the list.
pub fn pairs(found: &Found, pairs: &[Pairs], top: usize) -> Value {
    let levels = found.hierarchy.levels.iter().zip(pairs);
    let of_level = |(level, pairs): (&memtrail_simulate::Level, &Pairs)| {
        let shown = pairs
            .iter()
            .filter(|((a, b), _)| (*a as usize) < top && (*b as usize) < top);
        let name = level.name.clone();
        let pair = move |((owner, by), n): (&(u32, u32), &u64)| json!({"level": name, "owner": owner, "evictor": by, "count": n});
        shown.map(pair).collect::<Vec<_>>()
    };
    levels.flat_map(of_level).collect()
}

/// What rows lose to themselves and to others, by level.
pub fn losses(found: &Found, rows: &Rows, list: &mut Value) {
    for (level, pairs) in found.hierarchy.levels.iter().zip(&rows.premature) {
        for (i, loss) in competition(rows.rows.len(), pairs).into_iter().enumerate() {
            if let Some(row) = list.get_mut(i) {
                row["levels"][&level.name]["premature"] =
                    json!({"by_itself": loss.to_itself, "by_others": loss.to_others, "of_others": loss.from_others});
            }
        }
    }
}
