//! From measurements to tables with verdicts, and to the raw data beside them.

use super::others::Peers;
use super::{Measured, Options, Shape, IN_MEMORY};
use crate::bench::record::least;
use crate::bench::report::{conditions, grouped, put_results, verdict_cell, Verdict};
use crate::project::{first_line_of, machine, today};
use crate::table;
use serde_json::{json, Value};

/// In memory, of irregular programs; millions of accesses a second (issue "Fast").
const IRREGULAR: [(&str, f64); 3] = [
    ("one level", 200.0),
    ("evictors and classes", 120.0),
    ("three levels", 150.0),
];
/// 26 configurations take so many times as long as one.
const SWEEP: f64 = 3.0;
/// On descriptors, millions of accesses a second.
const DENSE: f64 = 3_000.0;
const REPEATING: f64 = 50_000.0;

/// A case's line while the rest still runs.
pub fn progress(measured: &Measured) -> String {
    let mut line = format!("{:<13} {:>13} accesses", measured.case.name, grouped(measured.accesses));
    for (name, speed) in &measured.speeds.0 {
        line += &format!("  {name} {speed:.0}");
    }
    line + &format!("  live {:.1}×", measured.slowdown())
}

/// How many times as long as one configuration all 26 take.
fn sweep(measured: &Measured) -> f64 {
    measured.speeds.of("one level") / measured.speeds.of("26 configurations")
}

fn verdicts(measured: &Measured) -> Vec<Verdict> {
    let mut all = Vec::new();
    let mut at_least = |name: &str, speed: f64| {
        let bound = format!("{name} ≥ {speed}");
        let kept = measured.speeds.of(name) >= speed;
        all.push(Verdict { bound, kept });
    };
    match measured.case.shape {
        Shape::Irregular => IRREGULAR.iter().for_each(|(name, speed)| at_least(name, *speed)),
        Shape::Dense => at_least("on descriptors", DENSE),
        Shape::Repeating => at_least("on descriptors", REPEATING),
    }
    all.push(Verdict {
        bound: format!("26 ≤ {SWEEP}×"),
        kept: sweep(measured) <= SWEEP,
    });
    all
}

fn speeds_table(all: &[Measured], options: &Options) -> (String, usize, usize) {
    let mut header = vec![
        "program",
        "size",
        "accesses",
        "one level",
        "evictors and classes",
        "three levels",
        "26 caches",
        "26 / one",
        "reuse distances",
        "on descriptors",
        "command",
        "26, command",
    ];
    if options.peers {
        header.extend(["cachegrind", "less translation", "pycachesim", "against these"]);
    }
    let right: Vec<usize> = (2..header.len()).collect();
    header.push("against bound");
    let (mut kept, mut bounds) = (0, 0);
    let mut rows = Vec::new();
    for measured in all {
        let speed = |name: &str| format!("{:.0}", measured.speeds.of(name));
        let mut row = vec![
            measured.case.name.to_string(),
            measured.size.to_string(),
            grouped(measured.accesses),
            speed("one level"),
            speed("evictors and classes"),
            speed("three levels"),
            speed("26 configurations"),
            format!("{:.2}×", sweep(measured)),
            speed("reuse distances"),
            speed("on descriptors"),
            format!("{:.0}", measured.rate(least(&measured.command))),
            format!("{:.0}", measured.rate(least(&measured.swept))),
        ];
        if options.peers {
            row.extend(peer_cells(measured));
        }
        let verdicts = verdicts(measured);
        kept += verdicts.iter().filter(|v| v.kept).count();
        bounds += verdicts.len();
        row.push(verdict_cell(&verdicts));
        rows.push(row);
    }
    (table::markdown(&header, &right, &rows), kept, bounds)
}

/// Their speeds, and how many times as fast one level in memory is.
fn peer_cells(measured: &Measured) -> Vec<String> {
    let Some(peers) = &measured.peers else {
        return vec!["—".to_string(); 4];
    };
    let ours = measured.speeds.of("one level");
    let cachegrind = measured.rate(peers.cachegrind);
    let alone = measured.rate((peers.cachegrind - peers.translation).max(f64::MIN_POSITIVE));
    let ratios = [cachegrind, alone, peers.pycachesim].map(|theirs| format!("{:.1}×", ours / theirs));
    vec![
        format!("{cachegrind:.0}"),
        format!("{alone:.0}"),
        format!("{:.0}", peers.pycachesim),
        ratios.join(", "),
    ]
}

fn live_table(all: &[Measured]) -> String {
    let header = ["program", "native s", "live s", "slowdown", "M accesses/s"];
    let row = |measured: &Measured| {
        let live = least(&measured.live);
        vec![
            measured.case.name.to_string(),
            format!("{:.3}", least(&measured.native)),
            format!("{live:.3}"),
            format!("{:.1}×", measured.slowdown()),
            format!("{:.0}", measured.rate(live)),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    table::markdown(&header, &[1, 2, 3, 4], &rows)
}

pub fn markdown(all: &[Measured], failures: &[String], options: &Options) -> String {
    let mut out = format!(
        "{}; {}.\n\n",
        conditions(options.quick, options.runs),
        versions(options)
    );
    let most = if options.quick { IN_MEMORY.1 } else { IN_MEMORY.0 };
    out += &format!(
        "Millions of accesses a second. Up to `reuse distances` on one core, the first {} accesses, in\npieces that lie in the cache, the simulator alone; `on descriptors` \
         from the file, all of it, on one core; `command` is `memtrail sim` as it is, on all cores, with one cache and with 26. One level is 32K:64:8.\n",
        grouped(most)
    );
    if options.peers {
        out += "Cachegrind runs the program (also less what `--tool=none` takes); pycachesim runs over the same addresses. Dinero IV cannot be had\n\
                from Debian or the Python package index. `against these`: one level over each of the three.\n";
    }
    let (table, kept, bounds) = speeds_table(all, options);
    out += &format!("\n{table}\nBounds kept: {kept} of {bounds}.\n");
    out += "\nSimulating 26 caches while the program runs (`memtrail sim --live --sweep metasim26`), wall times:\n\n";
    out += &live_table(all);
    for failure in failures {
        out += &format!("\nFailed: {failure}\n");
    }
    out
}

fn versions(options: &Options) -> String {
    let mut all = vec![first_line_of("cc", &["--version"])];
    if options.peers {
        all.push(first_line_of("valgrind", &["--version"]));
        all.push(format!("pycachesim {}", peers::pycachesim::VERSION));
    }
    all.join(", ")
}

/// The dated tables and, beside them, every figure.
pub fn write(all: &[Measured], failures: &[String], options: &Options, table: &str) -> Result<(), String> {
    let date = today();
    let raw = json!({
        "date": date,
        "machine": machine(),
        "versions": versions(options),
        "quick": options.quick,
        "rows": all.iter().map(row_json).collect::<Vec<_>>(),
        "failures": failures,
    });
    put_results(
        &format!("{date}-sim"),
        &format!("# Simulation, {date}\n\n{table}"),
        &raw,
    )
}

fn row_json(measured: &Measured) -> Value {
    let speeds = measured
        .speeds
        .0
        .iter()
        .map(|(name, speed)| (name.clone(), Value::from(*speed)));
    let bounds = verdicts(measured).into_iter().map(|v| (v.bound, Value::from(v.kept)));
    json!({
        "name": measured.case.name,
        "size": measured.size,
        "accesses": measured.accesses,
        "million_accesses_per_second": speeds.collect::<serde_json::Map<_, _>>(),
        "native_seconds": measured.native,
        "command_seconds": measured.command,
        "swept_seconds": measured.swept,
        "live_seconds": measured.live,
        "peers": measured.peers.as_ref().map(Peers::json),
        "bounds": bounds.collect::<serde_json::Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Speeds, CASES};
    use super::*;

    /// A case with these speeds.
    fn measured(name: &str, speeds: &[(&str, f64)]) -> Measured {
        Measured {
            case: CASES.iter().find(|case| case.name == name).expect("a case"),
            size: "1",
            accesses: 100_000_000,
            speeds: Speeds(speeds.iter().map(|(name, speed)| (name.to_string(), *speed)).collect()),
            native: vec![0.5, 0.25],
            command: vec![0.5, 0.4],
            swept: vec![0.8, 1.0],
            live: vec![0.9, 0.75],
            peers: Some(Peers {
                cachegrind: 2.0,
                translation: 1.0,
                pycachesim: 25.0,
            }),
        }
    }

    #[test]
    fn bounds_are_those_of_the_shape() {
        let speeds = [
            ("one level", 200.0),
            ("evictors and classes", 119.0),
            ("three levels", 150.0),
            ("26 configurations", 66.0),
            ("on descriptors", 3_000.0),
        ];
        assert_eq!(
            verdict_cell(&verdicts(&measured("gzip", &speeds))),
            "MISSED evictors and classes ≥ 120, 26 ≤ 3×; kept one level ≥ 200, three levels ≥ 150"
        );
        assert_eq!(
            verdict_cell(&verdicts(&measured("lu-O2", &speeds))),
            "MISSED 26 ≤ 3×; kept on descriptors ≥ 3000"
        );
        assert_eq!(
            verdict_cell(&verdicts(&measured("stencil-O2", &speeds))),
            "MISSED on descriptors ≥ 50000, 26 ≤ 3×"
        );
    }

    #[test]
    fn peers_are_compared_with_one_level() {
        let measured = measured("gzip", &[("one level", 200.0)]);
        assert_eq!(peer_cells(&measured), ["50", "100", "25", "4.0×, 2.0×, 8.0×"]);
        assert_eq!(measured.slowdown(), 3.0);
        assert_eq!(measured.rate(0.4), 250.0);
    }
}
