//! `cargo xtask bench sizes`: how small a trace is, beside what general compressors make of it.
//!
//! Each kernel and program (`subjects`) is recorded to a file as a user would, and the whole file
//! counts: control flow, block table, modules, index. Sizes must be the same tomorrow, so the
//! environment is fixed and address-space randomisation is off. Native and recorded runs alternate
//! and the least wall time of each is kept, as in the overhead table; there the collector is left
//! out, here it is what is measured.
//!
//! The same accesses, taken back out of the file, are given to general compressors (`peers`).
//! A missed bound is shown, not failed on: only what does not run fails.

mod peers;
mod report;
pub mod subjects;

use super::workloads::Prepared;
use crate::process::{self, Job};
use crate::{packages, project, Outcome};
use clap::ArgAction;
use peers::Packed;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use subjects::Row;

/// The peers get this many accesses at most, 160 MB: `xz -6` of a whole trace would take hours.
const PEER_ACCESSES: u64 = 4_000_000;
const PEER_ACCESSES_QUICK: u64 = 1_000_000;

/// A slow recorder on a busy machine still ends before this.
const TIMEOUT: Duration = Duration::from_secs(1800);

#[derive(clap::Args)]
pub struct Options {
    /// Small inputs
    #[arg(long)]
    quick: bool,
    /// Keep the table and the raw figures in `bench/results`
    #[arg(long)]
    write: bool,
    /// Do not run general compressors
    #[arg(long = "no-peers", action = ArgAction::SetFalse)]
    peers: bool,
    /// Keep the recordings
    #[arg(long)]
    keep: bool,
    /// Rounds
    #[arg(long, default_value_t = 3, value_parser = super::at_least_one)]
    runs: usize,
    /// Only these kernels and programs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
}

/// What was found out about one row.
struct Measured {
    row: Row,
    accesses: u64,
    file_bytes: u64,
    /// Wall seconds of each run.
    native: Vec<f64>,
    recorded: Vec<f64>,
    packed: Option<Packed>,
}

impl Measured {
    fn bits(&self) -> f64 {
        self.file_bytes as f64 * 8.0 / self.accesses as f64
    }

    /// Least wall times: native, recorded.
    fn best(&self) -> (f64, f64) {
        let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
        (least(&self.native), least(&self.recorded))
    }
}

pub fn run(options: &Options) -> Outcome {
    let rows = subjects::rows(&options.only, options.quick)?;
    let mut needed: Vec<packages::Package> = rows.iter().flat_map(|r| r.subject.packages).copied().collect();
    needed.extend([("gcc", "gcc"), ("libc6-dev", "")]);
    if options.peers {
        needed.extend([("gzip", "gzip"), ("zstd", "zstd"), ("xz-utils", "xz")]);
    }
    packages::ensure(&needed)?;
    let memtrail = project::memtrail()?;
    let dir = project::target_dir().join("bench/sizes");
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;

    let begin = Instant::now();
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for row in rows {
        let name = format!("{} {}", row.name(), row.size);
        match measure(row, options, &dir, &memtrail) {
            Ok(measured) => {
                println!("{}", report::progress(&measured));
                all.push(measured);
            }
            Err(why) => {
                eprintln!("bench sizes: {name}: {why}");
                failures.push(format!("{name}: {why}"));
            }
        }
    }
    let table = report::markdown(&all, &failures, options);
    println!("\n{table}");
    eprintln!(
        "bench sizes: {} rows, {:.0} s",
        all.len(),
        begin.elapsed().as_secs_f64()
    );
    if options.write {
        report::write(&all, &failures, options, &table)?;
    }
    Ok(failures.is_empty())
}

fn measure(row: Row, options: &Options, dir: &Path, memtrail: &Path) -> Result<Measured, String> {
    let prepared = subjects::prepare(&row, options.quick, dir)?;
    let recording = dir.join(format!("{}-{}.mtr", row.name(), row.size.replace(' ', "-")));
    let (mut native, mut recorded, mut made) = (Vec::new(), Vec::new(), Made::default());
    for _ in 0..options.runs {
        native.push(timed(&prepared, &[], dir)?);
        made = record(&prepared, memtrail, &recording, dir)?;
        recorded.push(made.wall);
    }
    let size = std::fs::metadata(&recording).map_err(|e| format!("{}: {e}", recording.display()))?;
    let limit = if options.quick {
        PEER_ACCESSES_QUICK
    } else {
        PEER_ACCESSES
    };
    let packed = match options.peers {
        true => Some(peers::pack(memtrail, &recording, &made, limit, dir)?),
        false => None,
    };
    if !options.keep {
        std::fs::remove_file(&recording).map_err(|e| format!("{}: {e}", recording.display()))?;
    }
    Ok(Measured {
        row,
        accesses: made.accesses,
        file_bytes: size.len(),
        native,
        recorded,
        packed,
    })
}

/// A run that was recorded.
#[derive(Default)]
pub struct Made {
    /// Wall seconds.
    pub wall: f64,
    pub accesses: u64,
    pub threads: u64,
}

/// Records one run.
pub fn record(prepared: &Prepared, memtrail: &Path, recording: &Path, dir: &Path) -> Result<Made, String> {
    let summary = dir.join("summary.json");
    // A stale summary must not pass for this run's.
    let _ = std::fs::remove_file(&summary);
    let text = |path: &Path| path.display().to_string();
    let wrapper = [
        text(memtrail),
        "record".into(),
        "--no-aslr".into(),
        "--force".into(),
        "--output".into(),
        text(recording),
        "--summary".into(),
        text(&summary),
        "--".into(),
    ];
    let wall = timed(prepared, &wrapper, dir)?;
    let said = std::fs::read_to_string(&summary).map_err(|e| format!("{}: {e}", text(&summary)))?;
    let json: Value = serde_json::from_str(&said).map_err(|e| format!("summary: {e}"))?;
    let count = |what: &str| {
        let counted = json.get(what).and_then(Value::as_u64).filter(|n| *n > 0);
        counted.ok_or_else(|| format!("the summary counts no {what}"))
    };
    Ok(Made {
        wall,
        accesses: count("accesses")?,
        threads: count("threads")?,
    })
}

/// Wall seconds of the prepared command under `wrapper`. The environment is the prepared one and
/// nothing else: a C library reads all of it at the start, so it would show in the trace.
fn timed(prepared: &Prepared, wrapper: &[String], dir: &Path) -> Result<f64, String> {
    let mut argv: Vec<String> = vec!["env".into(), "-i".into()];
    argv.extend(prepared.env.iter().map(|(key, value)| format!("{key}={value}")));
    argv.extend(wrapper.iter().chain(&prepared.argv).cloned());
    let mut job = Job::new(&argv, &prepared.dir);
    job.timeout = TIMEOUT;
    let errors: PathBuf = dir.join("stderr.txt");
    job.stderr = Some(errors.clone());
    let done = process::run(&job)?;
    if done.timed_out {
        return Err(format!("no end after {} s", TIMEOUT.as_secs()));
    }
    if !done.status.success() {
        let said = std::fs::read_to_string(&errors).unwrap_or_default();
        let last = said.lines().last().unwrap_or("");
        return Err(format!("status {}: {last}", done.status.0));
    }
    Ok(done.wall.as_secs_f64())
}
