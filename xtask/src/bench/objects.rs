//! `cargo xtask bench objects`: what noting allocations adds to recording, and how fast accesses
//! are attributed to objects.
//!
//! Recording with and without notes alternates within a round, and the least wall time of each is
//! kept. Call paths add nothing to it: they follow from what is recorded anyway. The last recording
//! then goes through `memtrail objects`, which tells how many of its accesses are of no known
//! object.

use super::record::{least, read_json, timed, Options};
use super::report::conditions;
use super::workloads::{self, Workload};
use crate::project::{self, machine, today};
use crate::{packages, table, Outcome};
use serde_json::{json, Value};
use std::path::Path;

/// What notes may add to the wall time, as a factor.
struct Bounds {
    workload: &'static Workload,
    most: f64,
}

struct Measured {
    name: &'static str,
    most: f64,
    /// Wall seconds of each run.
    plain: Vec<f64>,
    noted: Vec<f64>,
    accesses: u64,
    /// Wall seconds of `memtrail objects`.
    attributed: f64,
    objects: usize,
    unknown: u64,
}

impl Measured {
    fn ratio(&self) -> f64 {
        least(&self.noted) / least(&self.plain)
    }
    /// Per cent of accesses.
    fn unknown(&self) -> f64 {
        100.0 * self.unknown as f64 / self.accesses as f64
    }
}

pub fn run(options: &Options) -> Outcome {
    let usual = ["gzip", "sqlite3", "python3"];
    let of = |name: &str| workloads::by_name(name).map(|workload| Bounds { workload, most: 1.1 });
    let mut chosen: Vec<Bounds> = usual.into_iter().filter_map(of).collect();
    let workload = &workloads::BLOCKS;
    chosen.push(Bounds { workload, most: 1.25 });
    chosen.retain(|b| options.names.is_empty() || options.names.iter().any(|name| name == b.workload.name));
    let mut needed: Vec<packages::Package> = chosen.iter().flat_map(|b| b.workload.packages).copied().collect();
    needed.push(("gcc", "gcc"));
    packages::ensure(&needed)?;
    let memtrail = project::memtrail()?;
    let dir = project::target_dir().join("bench/objects");
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut all = Vec::new();
    for bounds in chosen {
        let measured = measure(&bounds, options, &dir, &memtrail)?;
        println!("{:<9} {}", measured.name, row(&measured)[1..].join("  "));
        all.push(measured);
    }
    let table = markdown(&all, options);
    println!("\n{table}");
    if options.write {
        let date = today();
        let raw = json!({
            "date": date,
            "machine": machine(),
            "quick": options.quick,
            "workloads": all.iter().map(raw).collect::<Vec<_>>(),
        });
        let text = format!("# Objects: what they cost, {date}\n\n{table}");
        super::report::put_results(&format!("{date}-objects"), &text, &raw)?;
    }
    Ok(true)
}

fn measure(bounds: &Bounds, options: &Options, dir: &Path, memtrail: &Path) -> Result<Measured, String> {
    let prepared = workloads::prepare(bounds.workload, options.quick, dir)?;
    let text = |path: &Path| path.display().to_string();
    let recording = dir.join("recording.mtr");
    let record = |more: &[&str]| {
        let mut argv = vec![text(memtrail), "record".into(), "--force".into(), "--output".into()];
        argv.push(text(&recording));
        argv.extend(more.iter().map(ToString::to_string));
        argv.push("--".into());
        argv.extend(prepared.argv.iter().cloned());
        timed(&argv, &prepared, dir, None)
    };
    let (mut plain, mut noted) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        plain.push(record(&["--no-objects"])?);
        noted.push(record(&[])?);
    }
    let said = dir.join("objects.json");
    let argv = [text(memtrail), "objects".into(), "--json".into(), "--cache".into()];
    let argv: Vec<String> = argv
        .into_iter()
        .chain(["L1=32K:64:8".into(), text(&recording)])
        .collect();
    let attributed = timed(&argv, &prepared, dir, Some(&said))?;
    let told = read_json(&said)?;
    let none = Vec::new();
    let objects = told["objects"].as_array().unwrap_or(&none);
    let accesses = |object: &Value| object["accesses"].as_u64().unwrap_or(0);
    let _ = std::fs::remove_file(&recording);
    Ok(Measured {
        name: bounds.workload.name,
        most: bounds.most,
        plain,
        noted,
        accesses: objects.iter().map(accesses).sum(),
        attributed,
        objects: objects.len(),
        unknown: objects.iter().filter(|o| o["kind"] == "unknown").map(accesses).sum(),
    })
}

fn row(measured: &Measured) -> Vec<String> {
    let kept = measured.ratio() <= measured.most && measured.unknown() < 0.1;
    vec![
        measured.name.to_string(),
        format!("{:.3}", least(&measured.plain)),
        format!("{:.3}", least(&measured.noted)),
        format!("{:.3}× (≤ {}×)", measured.ratio(), measured.most),
        format!("{:.1}", measured.accesses as f64 / 1e6),
        measured.objects.to_string(),
        format!("{:.4}% (< 0.1%)", measured.unknown()),
        format!("{:.0}", measured.accesses as f64 / measured.attributed / 1e6),
        if kept { "kept" } else { "MISSED" }.to_string(),
    ]
}

fn markdown(all: &[Measured], options: &Options) -> String {
    let header = [
        "workload",
        "without notes s",
        "with notes s",
        "ratio",
        "M accesses",
        "objects",
        "unknown",
        "attributed M accesses/s",
        "verdict",
    ];
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let mut out = format!("{}.\n\n", conditions(options.quick, options.runs));
    out += "Wall time of recording to a file, without and with notes of allocations and mappings; then how fast `memtrail objects` with one cache of 32 KB goes through it, names included.\n\n";
    out += &table::markdown(&header, &[1, 2, 3, 4, 5, 6, 7], &rows);
    out
}

fn raw(measured: &Measured) -> Value {
    json!({
        "name": measured.name,
        "without": measured.plain,
        "with": measured.noted,
        "accesses": measured.accesses,
        "unknown": measured.unknown,
        "objects": measured.objects,
        "attributed_seconds": measured.attributed,
    })
}
