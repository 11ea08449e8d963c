//! What was found, for programs. The keys are promised in the user guide.
use super::found::{Found, Huge, Row, Step};
use super::run::{Cost, Machine};
use memtrail_paging::{PageSize, WalkTotals};
use memtrail_report::json::SCHEMA_VERSION;
use serde_json::{json, Map, Value};
use std::path::Path;

pub fn report(found: &Found, file: &Path, command: &[String]) -> Value {
    let machine = &found.machine;
    let depth = machine.tlbs.depth();
    let mut value = json!({
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "file": file.display().to_string(),
        "accesses": found.accesses,
        "config": {
            "tlb": {"source": machine.tlb_source, "parts": machine.tlbs.to_string()},
            "caches": {
                "source": machine.source,
                "levels": machine.caches.levels.iter().map(ToString::to_string).collect::<Vec<_>>(),
            },
            "cores": machine.caches.cores,
            "physical": machine.physical,
            "latencies": {"caches": machine.latencies.caches, "memory": machine.latencies.memory, "tlbs": &machine.latencies.tlbs[..depth]},
            "huge_page_bytes": found.page_size.bytes(),
        },
        "total": costs(&found.total, machine),
        "working_set": {
            "pages": found.pages,
            "bytes": found.pages * PageSize::SMALL.bytes(),
            "window_accesses": found.window,
            "pages_by_window": found.windows,
        },
        "objects": found.rows.iter().map(|row| object(row, found)).collect::<Value>(),
        "simulations": found.simulations,
    });
    if found.asked > 0 {
        value["best"] = json!({
            "budget_huge_pages": found.budget,
            "steps": found.best.iter().map(|step| chosen(step, found)).collect::<Value>(),
        });
    }
    if let Some(everything) = &found.everything {
        value["all_asked_huge"] = huge(everything, &everything.all, machine);
    }
    value
}

fn served(walks: &WalkTotals, machine: &Machine) -> Value {
    let levels = machine.caches.levels.iter().zip(&walks.served);
    let mut by: Map<String, Value> = levels.map(|(level, &n)| (level.name.clone(), n.into())).collect();
    by.insert("memory".into(), walks.memory.into());
    by.into()
}

fn costs(cost: &Cost, machine: &Machine) -> Value {
    let counts = &cost.translations;
    json!({
        "tlb_misses": counts.misses[0],
        "tlb_misses_by_level": &counts.misses[..machine.tlbs.depth()],
        "walks": counts.walks,
        "walk_requests": counts.requests,
        "walk_requests_served": served(&cost.walks, machine),
        "walk_cycles": cost.walks.cycles,
        "translation_cycles": cost.cycles(),
        "data_cycles": cost.data_cycles,
    })
}

fn huge(huge: &Huge, own: &Cost, machine: &Machine) -> Value {
    json!({
        "tlb_misses": own.translations.misses[0],
        "walks": own.translations.walks,
        "walk_requests": own.translations.requests,
        "walk_requests_served": served(&own.walks, machine),
        "cycles_saved": huge.saved,
        "all": costs(&huge.all, machine),
        "huge_pages": huge.pages,
        "bytes_wasted": huge.wasted,
    })
}

fn object(row: &Row, found: &Found) -> Value {
    let mut value = costs(&row.cost, &found.machine);
    value["name"] = row.label.join(", ").into();
    for (dimension, label) in found.by.iter().zip(&row.label) {
        value[dimension.word()] = label.as_str().into();
    }
    value["kind"] = row.kind.clone().into();
    value["reads"] = row.reads.into();
    value["writes"] = row.writes.into();
    value["pages"] = row.pages.into();
    value["huge"] = match &row.huge {
        Some(one) => huge(one, &one.own, &found.machine),
        None => Value::Null,
    };
    value
}

/// A step, and where it is on the curve: how much memory is in huge pages by then, and which share
/// of the walks is gone.
fn chosen(step: &Step, found: &Found) -> Value {
    let total = &found.total;
    let touched = found.pages * PageSize::SMALL.bytes();
    let promoted = step.choice.pages * found.page_size.bytes() - step.wasted;
    let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
    json!({
        "name": found.rows[step.row].label.join(", "),
        "cycles_saved": step.choice.saved,
        "huge_pages": step.choice.pages,
        "bytes_wasted": step.wasted,
        "walks": step.cost.translations.walks,
        "walk_requests": step.cost.translations.requests,
        "translation_cycles": step.cost.cycles(),
        "memory_promoted": share(promoted, touched),
        "walks_removed": share(total.translations.walks.saturating_sub(step.cost.translations.walks), total.translations.walks),
    })
}
