//! From measurements to a table with verdicts, and to the raw data beside it.

use super::peers::{self, Packed, XZ};
use super::{Measured, Options, PEER_ACCESSES, PEER_ACCESSES_QUICK};
use crate::bench::report::{conditions, grouped, put_results, verdict_cell, Verdict};
use crate::project::{first_line_of, machine, today};
use crate::table;
use serde_json::{json, Value};

/// A row's line while the rest still runs.
pub fn progress(measured: &Measured) -> String {
    let (native, recorded) = measured.best();
    let xz = measured.packed.as_ref().and_then(|p| p.bits(XZ));
    format!(
        "{:<13} {:<12} {:>13} accesses {:>12} bytes {:>8} bits  {:>6.2}×  xz {}",
        measured.row.name(),
        measured.row.size,
        grouped(measured.accesses),
        grouped(measured.file_bytes),
        bits(measured.bits()),
        recorded / native,
        xz.map_or("—".into(), bits),
    )
}

/// Growth from the smaller to the larger of a pair: accesses as a factor, the file in per cent.
#[derive(Clone, Copy, Debug)]
struct Growth {
    accesses: f64,
    file: f64,
}

/// Growth of the row at `index`, if its smaller sibling was measured just before.
fn growth(all: &[Measured], index: usize) -> Option<Growth> {
    let large = &all[index];
    let small = all.get(index.checked_sub(1)?)?;
    (large.row.grown && !small.row.grown && small.row.name() == large.row.name()).then(|| Growth {
        accesses: large.accesses as f64 / small.accesses as f64,
        file: (large.file_bytes as f64 / small.file_bytes as f64 - 1.0) * 100.0,
    })
}

fn verdicts(measured: &Measured, growth: Option<Growth>) -> Vec<Verdict> {
    let bounds = measured.row.bounds();
    let mut all = Vec::new();
    let mut judge = |bound: String, kept: bool| all.push(Verdict { bound, kept });
    if let Some(most) = bounds.file {
        judge(format!("≤ {} KB", most / 1000), measured.file_bytes <= most);
    }
    if let (Some(most), Some(growth)) = (bounds.growth, growth) {
        judge(format!("growth < {most}%"), growth.file < most);
    }
    if let Some(most) = bounds.bits {
        judge(format!("≤ {most} bits"), measured.bits() <= most);
    }
    if let Some(xz) = measured.packed.as_ref().and_then(|p| p.bits(XZ)) {
        judge(format!("< {XZ}"), measured.bits() < xz);
    }
    if let Some(most) = bounds.wall {
        let (native, recorded) = measured.best();
        judge(format!("≤ {most}×"), recorded / native <= most);
    }
    all
}

pub fn markdown(all: &[Measured], failures: &[String], options: &Options) -> String {
    let mut header = vec![
        "program",
        "size",
        "accesses",
        "file bytes",
        "bits/access",
        "accesses grow",
        "file grows",
        "native s",
        "recorded s",
        "wall",
    ];
    if options.peers {
        header.extend(peers::names());
    }
    let right: Vec<usize> = (2..header.len()).collect();
    header.push("against bound");
    let mut count = (0, 0);
    let mut rows = Vec::new();
    for (index, measured) in all.iter().enumerate() {
        let (native, recorded) = measured.best();
        let growth = growth(all, index);
        let mut row = vec![
            measured.row.name(),
            measured.row.size.to_string(),
            grouped(measured.accesses),
            grouped(measured.file_bytes),
            bits(measured.bits()),
            growth.map_or(String::new(), |g| format!("{:.0}×", g.accesses)),
            growth.map_or(String::new(), |g| format!("{:+.1}%", g.file)),
            format!("{native:.3}"),
            format!("{recorded:.3}"),
            format!("{:.2}×", recorded / native),
        ];
        if options.peers {
            let packed = measured.packed.as_ref();
            row.extend(peers::names().map(|name| packed.and_then(|p| p.bits(name)).map_or("—".into(), bits)));
        }
        let verdicts = verdicts(measured, growth);
        count.0 += verdicts.iter().filter(|v| v.kept).count();
        count.1 += verdicts.len();
        row.push(verdict_cell(&verdicts));
        rows.push(row);
    }
    let mut out = format!(
        "{}; {}.\n\n",
        conditions(options.quick, options.runs),
        versions(options)
    );
    out += &caption(options);
    out += &table::markdown(&header, &right, &rows);
    out += &format!("\nBounds kept: {} of {}.\n", count.0, count.1);
    for failure in failures {
        out += &format!("\nFailed: {failure}\n");
    }
    out
}

fn caption(options: &Options) -> String {
    let mut out = String::from(
        "`file bytes` is the whole trace as `memtrail record` writes it, control flow and everything included; \
         `bits/access` is\nits bits over all accesses. Growth is against the row before. Times are wall times, \
         recorder and collector included.\n",
    );
    if options.peers {
        let limit = if options.quick {
            PEER_ACCESSES_QUICK
        } else {
            PEER_ACCESSES
        };
        out += &format!(
            "The compressors' columns are bits per access of the bare addresses (8 bytes each, little-endian) of \
             {}\naccesses in four stretches from all over the run, or of all where there are fewer; memtrail's \
             figure is that of the whole file.\n`split` is zstd -3 of the addresses separated by thread and \
             instruction, as differences; it leaves the control flow out.\n",
            grouped(limit)
        );
    }
    out + "\n"
}

fn versions(options: &Options) -> String {
    let mut all = vec![first_line_of("cc", &["--version"])];
    if options.peers {
        all.extend(peers::versions());
    }
    all.join(", ")
}

/// The dated table and, beside it, every figure.
pub fn write(all: &[Measured], failures: &[String], options: &Options, table: &str) -> Result<(), String> {
    let date = today();
    let rows: Vec<Value> = (0..all.len()).map(|index| row_json(all, index)).collect();
    let raw = json!({
        "date": date,
        "machine": machine(),
        "versions": versions(options),
        "quick": options.quick,
        "rows": rows,
        "failures": failures,
    });
    put_results(
        &format!("{date}-sizes"),
        &format!("# Trace sizes of {date}\n\n{table}"),
        &raw,
    )
}

fn row_json(all: &[Measured], index: usize) -> Value {
    let measured = &all[index];
    let growth = growth(all, index);
    let verdicts: serde_json::Map<String, Value> = verdicts(measured, growth)
        .into_iter()
        .map(|v| (v.bound, Value::from(v.kept)))
        .collect();
    json!({
        "name": measured.row.name(),
        "size": measured.row.size,
        "accesses": measured.accesses,
        "file_bytes": measured.file_bytes,
        "bits_per_access": measured.bits(),
        "accesses_growth": growth.map(|g| g.accesses),
        "file_growth_percent": growth.map(|g| g.file),
        "native_seconds": measured.native,
        "recorded_seconds": measured.recorded,
        "peers": measured.packed.as_ref().map(Packed::json),
        "bounds": verdicts,
    })
}

/// Three figures that count, whether a trace takes five bits an access or a thousandth of one.
fn bits(value: f64) -> String {
    match value {
        v if v >= 0.1 => format!("{v:.2}"),
        v if v >= 0.001 => format!("{v:.4}"),
        v => format!("{v:.6}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::subjects;
    use super::*;

    /// matmul-O2 at both sizes, with files of these bytes.
    fn pair(small: u64, large: u64) -> Vec<Measured> {
        let rows = subjects::rows(&["matmul-O2".to_string()], false).expect("a known kernel");
        let sizes = [(300_000, small), (150_000_000, large)];
        let one = |(row, (accesses, file_bytes))| Measured {
            row,
            accesses,
            file_bytes,
            native: vec![0.2, 0.1],
            recorded: vec![0.3, 0.4],
            packed: Some(Packed {
                accesses: 8_000,
                bytes: vec![(XZ, 1_000)],
            }),
        };
        rows.into_iter().zip(sizes).map(one).collect()
    }

    #[test]
    fn a_file_that_hardly_grows() {
        let all = pair(20_000, 20_900);
        let found = growth(&all, 1).expect("a pair");
        assert_eq!(found.accesses, 500.0);
        assert!(growth(&all, 0).is_none());
        assert_eq!(
            verdict_cell(&verdicts(&all[1], Some(found))),
            "kept ≤ 24 KB, growth < 5%, < xz -6"
        );
        assert_eq!(all[1].best(), (0.1, 0.3));
    }

    #[test]
    fn a_file_that_grows() {
        let all = pair(20_000, 24_001);
        let found = verdicts(&all[1], growth(&all, 1));
        assert_eq!(verdict_cell(&found), "MISSED ≤ 24 KB, growth < 5%; kept < xz -6");
    }

    #[test]
    fn numbers_for_readers() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(bits(3.456), "3.46");
        assert_eq!(bits(0.0123), "0.0123");
        assert_eq!(bits(0.000_123), "0.000123");
    }
}
