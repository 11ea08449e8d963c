//! `cargo xtask bench record`: how long recording to a file takes, and how fast what was recorded
//! is compressed and replayed.
//!
//! Wall times, for that is what a user waits for: the collector compresses on the cores that the
//! target leaves, and the target waits for it if need be. Native and recorded runs alternate within
//! a round, and the least time of each is kept. Beside them stands Valgrind's lackey, which prints
//! each access to /dev/null: once, it takes minutes.
//!
//! Compression (on one core) and replay are measured on the last recording by an example of
//! `memtrail-replay`, `recording_speed`.

use super::measure::{self, Mode};
use super::report::conditions;
use super::workloads::{self, Prepared, Workload};
use crate::process::{self, Job};
use crate::project::{self, first_line_of, machine, today};
use crate::{packages, table, Outcome};
use clap::ArgAction;
use serde_json::{json, Value};
use std::path::Path;
use std::time::Duration;

/// A slow recorder on a busy machine still ends before this.
const TIMEOUT: Duration = Duration::from_secs(900);

/// What recording a workload may cost, and how fast what it left is dealt with.
struct Bounds {
    name: &'static str,
    /// Wall time against native wall time.
    wall: f64,
    /// Millions of records a second that one core compresses; none for loops, of which there are
    /// too few.
    compress: Option<f64>,
    /// Millions of accesses a second replayed one by one.
    replay: f64,
}

const fn irregular(name: &'static str, wall: f64) -> Bounds {
    Bounds {
        name,
        wall,
        compress: Some(40.0),
        replay: 200.0,
    }
}

const fn dense(name: &'static str) -> Bounds {
    Bounds {
        name,
        wall: 1.3,
        compress: None,
        replay: 1000.0,
    }
}

const BOUNDS: &[Bounds] = &[
    dense("matmul"),
    dense("triad"),
    dense("stencil"),
    irregular("gzip", 8.0),
    irregular("xz", 8.0),
    irregular("sqlite3", 15.0),
    irregular("python3", 15.0),
];

/// What the command line asked for.
#[derive(clap::Args)]
pub struct Options {
    /// Small inputs
    #[arg(long)]
    pub quick: bool,
    /// Keep the table and the raw times in `bench/results`
    #[arg(long)]
    pub write: bool,
    /// Do not run Valgrind's lackey
    #[arg(long = "no-lackey", action = ArgAction::SetFalse)]
    lackey: bool,
    /// Rounds
    #[arg(long, default_value_t = 5, value_parser = super::at_least_one)]
    pub runs: usize,
    /// Only these workloads
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

struct Measured {
    bounds: &'static Bounds,
    accesses: u64,
    file_bytes: u64,
    /// Wall seconds of each run.
    native: Vec<f64>,
    recorded: Vec<f64>,
    lackey: Option<f64>,
    /// Of `speed`.
    speed: Value,
}

pub fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

impl Measured {
    fn ratio(&self) -> f64 {
        least(&self.recorded) / least(&self.native)
    }
    /// Millions a second.
    fn rate(&self, of: &str, seconds: &str) -> f64 {
        let number = |key: &str| self.speed.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
        number(of) / number(seconds) / 1e6
    }
    fn compress(&self) -> f64 {
        self.rate("blocks", "compress_seconds")
    }
    fn records(&self) -> f64 {
        self.rate("records", "compress_seconds")
    }
    fn replay(&self) -> f64 {
        self.rate("accesses", "replay_seconds")
    }
    fn whole(&self) -> f64 {
        self.rate("accesses", "whole_seconds")
    }
    /// The bounds that were missed.
    fn missed(&self) -> Vec<&'static str> {
        let bounds = self.bounds;
        let mut missed = Vec::new();
        missed.extend((self.ratio() > bounds.wall).then_some("wall"));
        missed.extend(
            bounds
                .compress
                .is_some_and(|b| self.compress() < b)
                .then_some("compression"),
        );
        missed.extend((self.replay() < bounds.replay).then_some("replay"));
        missed
    }
}

pub fn run(options: &Options) -> Outcome {
    let wanted = |b: &&Bounds| options.names.is_empty() || options.names.iter().any(|n| n == b.name);
    let chosen: Vec<(&'static Bounds, &'static Workload)> = BOUNDS
        .iter()
        .filter(wanted)
        .filter_map(|b| Some((b, workloads::by_name(b.name)?)))
        .collect();
    if chosen.len() < options.names.len() {
        return Err(format!(
            "not all of {} are workloads of this table",
            options.names.join(", ")
        ));
    }
    let mut needed: Vec<packages::Package> = chosen.iter().flat_map(|(_, w)| w.packages).copied().collect();
    needed.push(("gcc", "gcc"));
    if options.lackey {
        needed.push(("valgrind", "valgrind"));
    }
    packages::ensure(&needed)?;
    let memtrail = project::memtrail()?;
    let speed = project::example("memtrail-replay", "recording_speed")?;
    let dir = project::target_dir().join("bench/record");
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut all = Vec::new();
    for (bounds, workload) in chosen {
        let measured = measure(bounds, workload, options, &dir, &memtrail, &speed)?;
        println!("{:<9} {}", bounds.name, row(&measured)[1..].join("  "));
        all.push(measured);
    }
    let table = markdown(&all, options);
    println!("\n{table}");
    if options.write {
        let raw = json!({
            "date": today(),
            "machine": machine(),
            "quick": options.quick,
            "workloads": all.iter().map(raw).collect::<Vec<_>>(),
        });
        let date = today();
        super::report::put_results(
            &format!("{date}-record"),
            &format!("# Recording to a file, {date}\n\n{table}"),
            &raw,
        )?;
    }
    Ok(true)
}

fn measure(
    bounds: &'static Bounds,
    workload: &'static Workload,
    options: &Options,
    dir: &Path,
    memtrail: &Path,
    speed: &Path,
) -> Result<Measured, String> {
    let prepared = workloads::prepare(workload, options.quick, dir)?;
    let text = |path: &Path| path.display().to_string();
    let (recording, summary) = (dir.join("recording.mtr"), dir.join("summary.json"));
    let (mut native, mut recorded) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        native.push(measure::once(&prepared, Mode::Native, dir, None)?.wall);
        let mut argv = vec![text(memtrail), "record".into(), "--force".into()];
        argv.extend([
            "--output".into(),
            text(&recording),
            "--summary".into(),
            text(&summary),
            "--".into(),
        ]);
        // A stale summary must not pass for this run's.
        let _ = std::fs::remove_file(&summary);
        argv.extend(prepared.argv.iter().cloned());
        recorded.push(timed(&argv, &prepared, dir, None)?);
    }
    let lackey = match options.lackey {
        true => Some(measure::once(&prepared, Mode::LackeyTrace, dir, None)?.wall),
        false => None,
    };
    let said = dir.join("speed.json");
    timed(&[text(speed), text(&recording)], &prepared, dir, Some(&said))?;
    let of = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_u64)
            .ok_or(format!("no {key} is told"))
    };
    let told = read_json(&summary)?;
    let measured = Measured {
        bounds,
        accesses: of(&told, "accesses")?,
        file_bytes: of(&told, "file_bytes")?,
        native,
        recorded,
        lackey,
        speed: read_json(&said)?,
    };
    let _ = std::fs::remove_file(&recording);
    Ok(measured)
}

pub fn read_json(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Wall seconds of a command in the workload's directory and environment.
pub fn timed(argv: &[String], prepared: &Prepared, dir: &Path, stdout: Option<&Path>) -> Result<f64, String> {
    let mut job = Job::new(argv, &prepared.dir);
    job.timeout = TIMEOUT;
    job.env = prepared.env.clone();
    job.stdout = stdout.map(Path::to_path_buf);
    let errors = dir.join("stderr.txt");
    job.stderr = Some(errors.clone());
    let done = process::run(&job)?;
    if done.timed_out {
        return Err(format!("no end after {} s", TIMEOUT.as_secs()));
    }
    if !done.status.success() {
        let said = std::fs::read_to_string(&errors).unwrap_or_default();
        return Err(format!(
            "status {}: {}",
            done.status.0,
            said.lines().last().unwrap_or("")
        ));
    }
    Ok(done.wall.as_secs_f64())
}

fn row(measured: &Measured) -> Vec<String> {
    let bounds = measured.bounds;
    let native = least(&measured.native);
    let missed = measured.missed();
    vec![
        bounds.name.to_string(),
        format!("{native:.3}"),
        format!("{:.2}× (≤ {}×)", measured.ratio(), bounds.wall),
        measured
            .lackey
            .map_or("—".into(), |seconds| format!("{:.0}×", seconds / native)),
        format!("{:.3}", measured.file_bytes as f64 * 8.0 / measured.accesses as f64),
        match bounds.compress {
            Some(bound) => format!("{:.0} (≥ {bound}; {:.0})", measured.compress(), measured.records()),
            None => "—".into(),
        },
        format!("{:.0} (≥ {})", measured.replay(), bounds.replay),
        format!("{:.0}", measured.whole()),
        match missed.is_empty() {
            true => "kept".into(),
            false => format!("MISSED: {}", missed.join(", ")),
        },
    ]
}

fn markdown(all: &[Measured], options: &Options) -> String {
    let header = [
        "workload",
        "native s",
        "recorded",
        "lackey",
        "bits/access",
        "compressed M blocks/s (records)",
        "replayed M accesses/s",
        "loops whole",
        "verdict",
    ];
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let mut out = format!(
        "{}, {}.\n\n",
        conditions(options.quick, options.runs),
        first_line_of("valgrind", &["--version"])
    );
    out += "Recorded and lackey (`--trace-mem=yes --log-file=/dev/null`) are wall time over native wall time.\n";
    out += "Compression is on one core, replay into a sink that only counts, on all.\n\n";
    out += &table::markdown(&header, &[1, 2, 3, 4, 5, 6, 7], &rows);
    out
}

fn raw(measured: &Measured) -> Value {
    json!({
        "name": measured.bounds.name,
        "accesses": measured.accesses,
        "file_bytes": measured.file_bytes,
        "native": measured.native,
        "recorded": measured.recorded,
        "lackey": measured.lackey,
        "speed": measured.speed,
    })
}
