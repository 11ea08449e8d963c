//! From samples to a table with verdicts, and to raw data that outlives the table.

use super::measure::Mode;
use super::workloads::Bound;
use super::Measured;
use crate::project::{first_line_of, machine, root, today};
use crate::table;
use serde_json::{json, Value};

/// When, where and how something was measured: what every table begins with.
pub fn conditions(quick: bool, runs: usize) -> String {
    let size = if quick { "quick sizes" } else { "full sizes" };
    format!("{}, {}; {size}, best of {runs}", today(), machine())
}

/// One workload's line while the rest still runs.
pub fn progress(measured: &Measured) -> String {
    let native = measured.best(Mode::Native).map_or(0.0, |s| s.cpu);
    let mut line = format!("{:<13} native {native:>7.3} s", measured.workload.name);
    for (mode, _) in measured.samples.iter().filter(|(m, _)| *m != Mode::Native) {
        line += &format!("  {} {}", mode.name(), cell(measured, *mode));
    }
    line
}

/// A mode's figure in the unit of the workload's bound.
fn figure(measured: &Measured, mode: Mode) -> Option<f64> {
    match measured.workload.bound {
        Bound::CpuRatio(_) => Some(measured.best(mode)?.cpu / measured.best(Mode::Native)?.cpu),
        Bound::AddedMs(_) => Some((measured.best_wall(mode)? - measured.best_wall(Mode::Native)?) * 1e3),
    }
}

fn cell(measured: &Measured, mode: Mode) -> String {
    match (figure(measured, mode), measured.workload.bound) {
        (None, _) if measured.failures.iter().any(|(m, _)| *m == mode) => "failed".into(),
        (None, _) => "—".into(),
        (Some(ratio), Bound::CpuRatio(_)) => format!("{ratio:.2}×"),
        (Some(added), Bound::AddedMs(_)) => format!("{added:+.1} ms"),
    }
}

fn bound_cell(bound: Bound) -> String {
    match bound {
        Bound::CpuRatio(most) => format!("≤ {most}×"),
        Bound::AddedMs(most) => format!("≤ +{most} ms"),
    }
}

/// Whether the default mode keeps its bound.
fn verdict(measured: &Measured) -> &'static str {
    let (Bound::CpuRatio(most) | Bound::AddedMs(most)) = measured.workload.bound;
    match figure(measured, Mode::Loop) {
        None => "—",
        Some(value) if value <= most => "kept",
        Some(_) => "MISSED",
    }
}

pub fn markdown(all: &[Measured], modes: &[Mode], quick: bool, runs: usize) -> String {
    let mut header = vec!["workload", "native s", "bound", "verdict"];
    header.extend(modes.iter().filter(|m| **m != Mode::Native).map(|m| m.name()));
    header.push("ring bytes");
    let right: Vec<usize> = (1..header.len()).filter(|i| *i != 3).collect();
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|measured| {
            let native = measured
                .best(Mode::Native)
                .map_or("—".into(), |s| format!("{:.3}", s.cpu));
            let mut row = vec![measured.workload.name.to_string(), native];
            row.extend([bound_cell(measured.workload.bound), verdict(measured).to_string()]);
            row.extend(modes.iter().filter(|m| **m != Mode::Native).map(|m| cell(measured, *m)));
            let ring = measured.best(Mode::Loop).and_then(|s| s.ring_bytes);
            row.push(ring.map_or("—".into(), |b| b.to_string()));
            row
        })
        .collect();
    let mut out = format!("{}, {}.\n\n", conditions(quick, runs), versions());
    out += "Ratios are CPU time of the target over native CPU time; `true` is wall time added.\n";
    out += "The verdict is on `loop`, memtrail's default; `ring bytes` is what it sent to the collector.\n\n";
    out += &table::markdown(&header, &right, &rows);
    for measured in all {
        for (mode, why) in &measured.failures {
            out += &format!("\n{} failed under {}: {why}\n", measured.workload.name, mode.name());
        }
    }
    out
}

fn versions() -> String {
    format!(
        "{}, {}",
        first_line_of("cc", &["--version"]),
        first_line_of("valgrind", &["--version"])
    )
}

/// The dated table and, beside it, every sample.
pub fn write(all: &[Measured], table: &str) -> Result<(), String> {
    let date = today();
    let raw = json!({
        "date": date,
        "machine": machine(),
        "versions": versions(),
        "workloads": all.iter().map(workload_json).collect::<Vec<_>>(),
    });
    put_results(&date, &format!("# Benchmarks of {date}\n\n{table}"), &raw)
}

/// Writes `bench/results/NAME.md` and `.json`.
pub fn put_results(name: &str, table: &str, raw: &Value) -> Result<(), String> {
    let dir = root().join("bench/results");
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let put = |name: String, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    put(format!("{name}.md"), table)?;
    put(format!("{name}.json"), &format!("{raw:#}\n"))?;
    eprintln!("bench: wrote bench/results/{name}.md and .json");
    Ok(())
}

fn workload_json(measured: &Measured) -> Value {
    let modes = measured.samples.iter().map(|(mode, samples)| {
        let list: Vec<Value> = samples
            .iter()
            .map(|s| json!({"cpu": s.cpu, "wall": s.wall, "ring_bytes": s.ring_bytes, "records": s.records}))
            .collect();
        (mode.name().to_string(), Value::from(list))
    });
    let (unit, most) = match measured.workload.bound {
        Bound::CpuRatio(most) => ("cpu_ratio", most),
        Bound::AddedMs(most) => ("added_ms", most),
    };
    json!({
        "name": measured.workload.name,
        "stresses": measured.workload.stresses,
        "bound": {unit: most},
        "samples": modes.collect::<serde_json::Map<_, _>>(),
        "failures": measured.failures.iter().map(|(m, why)| format!("{}: {why}", m.name())).collect::<Vec<_>>(),
    })
}

/// One bound of a row: how it reads, and whether it was kept.
#[derive(Debug, PartialEq, Eq)]
pub struct Verdict {
    pub bound: String,
    pub kept: bool,
}

/// `kept ≤ 24 KB, < xz -6; MISSED growth < 5%`
pub fn verdict_cell(verdicts: &[Verdict]) -> String {
    let list = |kept: bool, word: &str| {
        let bounds: Vec<&str> = verdicts
            .iter()
            .filter(|v| v.kept == kept)
            .map(|v| v.bound.as_str())
            .collect();
        (!bounds.is_empty()).then(|| format!("{word} {}", bounds.join(", ")))
    };
    let parts: Vec<String> = [list(false, "MISSED"), list(true, "kept")]
        .into_iter()
        .flatten()
        .collect();
    if parts.is_empty() {
        "—".into()
    } else {
        parts.join("; ")
    }
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
