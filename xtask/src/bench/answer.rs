//! `cargo xtask bench answer`: how long a user waits for the answer.
//!
//! A recording answers nothing by itself. What counts is the time until a table says which data are
//! missed in the host's caches: `record` and `objects` together, beside one run of cachegrind, which
//! simulates as it goes, and of callgrind. All are measured in turn within a round, as wall time and
//! peak memory of the largest process, and the least of all rounds is kept.
//!
//! The programs are small ones of the kinds that real codes are made of (`bench/answer`), three of
//! them also without optimisation, and those of the other tables.

use super::record::{least, Options};
use super::report::{conditions, put_results};
use super::workloads::{self, environment, setup, Prepared};
use crate::process::{self, Job};
use crate::project::{self, machine, root, today};
use crate::{packages, table, Outcome};
use serde_json::{json, Value};
use std::path::Path;
use std::time::Duration;

/// A program of `bench/answer`.
struct Source {
    name: &'static str,
    file: &'static str,
    level: &'static str,
    full: &'static str,
    quick: &'static str,
}

const fn source(name: &'static str, file: &'static str, full: &'static str, quick: &'static str) -> Source {
    Source {
        name,
        file,
        level: "-O2",
        full,
        quick,
    }
}

/// Sizes of a fraction of a second; quick ones of a tenth of that.
const SOURCES: &[Source] = &[
    source("cg_random", "cg_random.c", "60000 60", "20000 20"),
    source("cg_grid", "cg_grid.c", "32 20", "20 8"),
    source("sweep5", "sweep5.c", "24 6", "16 2"),
    source("multigrid", "multigrid.f90", "", ""),
    source("fft", "fft.f90", "", ""),
    source("bucket", "bucket.c", "1500000 5", "400000 3"),
    source("bfs", "bfs.c", "300000 8", "100000 3"),
    source("pagerank", "pagerank.c", "150000 20", "60000 6"),
    source("hydro", "hydro.c", "30 30", "20 8"),
    source("kmeans", "kmeans.c", "60000 8", "15000 4"),
    source("cholesky", "cholesky.c", "600", "250"),
    source("anneal", "anneal.c", "40000 300000", "20000 60000"),
    unoptimised("cg_grid-O0", "cg_grid.c", "24 10", "16 4"),
    unoptimised("kmeans-O0", "kmeans.c", "20000 6", "6000 3"),
    unoptimised("cholesky-O0", "cholesky.c", "350", "150"),
];

const fn unoptimised(name: &'static str, file: &'static str, full: &'static str, quick: &'static str) -> Source {
    Source {
        level: "-O0",
        ..source(name, file, full, quick)
    }
}

/// Of the other tables.
const WORKLOADS: &[&str] = &["matmul", "stencil", "gzip", "sqlite3", "python3"];

/// What is timed, in this order.
const WAYS: [&str; 7] = ["native", "record", "sim", "refs", "objects", "cachegrind", "callgrind"];

/// Slow emulators on a busy machine still end before this.
const TIMEOUT: Duration = Duration::from_secs(900);

struct Measured {
    name: String,
    /// By way: wall seconds of each round, and the peak of all.
    seconds: [Vec<f64>; 7],
    peaks: [u64; 7],
}

impl Measured {
    fn least(&self, way: &str) -> f64 {
        let at = WAYS.iter().position(|&known| known == way);
        at.map_or(f64::INFINITY, |at| least(&self.seconds[at]))
    }

    fn answer(&self) -> f64 {
        self.least("record") + self.least("objects")
    }

    fn to_native(&self, seconds: f64) -> f64 {
        seconds / self.least("native")
    }
}

pub fn run(options: &Options) -> Outcome {
    let wanted = |name: &str| options.names.is_empty() || options.names.iter().any(|given| given == name);
    let needed = [("gcc", "gcc"), ("gfortran", "gfortran"), ("valgrind", "valgrind")];
    packages::ensure(&needed)?;
    let memtrail = project::memtrail()?;
    let dir = project::target_dir().join("bench/answer");
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut prepared = Vec::new();
    for source in SOURCES.iter().filter(|source| wanted(source.name)) {
        prepared.push((source.name.to_string(), prepare(source, options.quick, &dir)?));
    }
    for name in WORKLOADS.iter().filter(|name| wanted(name)) {
        let workload = workloads::by_name(name).ok_or(format!("no workload `{name}`"))?;
        packages::ensure(workload.packages)?;
        let ready = workloads::prepare(workload, options.quick, &dir)?;
        prepared.push((name.to_string(), ready));
    }
    let mut all = Vec::new();
    for (name, prepared) in prepared {
        let measured = measure(name, &prepared, options.runs, &dir, &memtrail)?;
        println!("{:<12} {}", measured.name, row(&measured)[1..].join("  "));
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
            "programs": all.iter().map(raw).collect::<Vec<_>>(),
        });
        let text = format!("# Time to the answer, {date}\n\n{table}");
        put_results(&format!("{date}-answer"), &text, &raw)?;
    }
    Ok(true)
}

fn prepare(source: &Source, quick: bool, base: &Path) -> Result<Prepared, String> {
    let dir = base.join(source.name);
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let env = environment();
    let binary = dir.join(source.name).display().to_string();
    let path = root().join("bench/answer").join(source.file).display().to_string();
    let compiler = if source.file.ends_with(".c") { "cc" } else { "gfortran" };
    setup(&[compiler, "-g", source.level, "-o", &binary, &path, "-lm"], &dir, &env)?;
    let arguments = if quick { source.quick } else { source.full };
    let argv = std::iter::once(binary).chain(arguments.split_whitespace().map(String::from));
    Ok(Prepared {
        argv: argv.collect(),
        dir,
        env,
    })
}

fn measure(name: String, prepared: &Prepared, rounds: usize, dir: &Path, memtrail: &Path) -> Result<Measured, String> {
    let memtrail = memtrail.display().to_string();
    let recording = dir.join("recording.mtr").display().to_string();
    let before: [&[&str]; 7] = [
        &[],
        &[&memtrail, "record", "--force", "--output", &recording, "--"],
        &[&memtrail, "sim", &recording],
        &[&memtrail, "refs", &recording],
        &[&memtrail, "objects", &recording],
        &[
            "valgrind",
            "--tool=cachegrind",
            "--cache-sim=yes",
            "--cachegrind-out-file=/dev/null",
        ],
        &[
            "valgrind",
            "--tool=callgrind",
            "--cache-sim=yes",
            "--callgrind-out-file=/dev/null",
        ],
    ];
    let mut measured = Measured {
        name,
        seconds: Default::default(),
        peaks: [0; 7],
    };
    for _ in 0..rounds {
        for (way, before) in before.iter().enumerate() {
            let mut argv: Vec<String> = before.iter().map(ToString::to_string).collect();
            // The others read what was recorded.
            if !matches!(WAYS[way], "sim" | "refs" | "objects") {
                argv.extend(prepared.argv.iter().cloned());
            }
            let mut job = Job::new(&argv, &prepared.dir);
            job.timeout = TIMEOUT;
            job.env = prepared.env.clone();
            job.stdout = Some(dir.join("stdout.txt"));
            job.stderr = Some(dir.join("stderr.txt"));
            let done = process::run(&job)?;
            if done.timed_out || !done.status.success() {
                return Err(format!("{} of {}: status {}", WAYS[way], measured.name, done.status.0));
            }
            measured.seconds[way].push(done.wall.as_secs_f64());
            measured.peaks[way] = measured.peaks[way].max(done.peak_bytes);
        }
    }
    let _ = std::fs::remove_file(&recording);
    Ok(measured)
}

fn row(measured: &Measured) -> Vec<String> {
    let ratio = |seconds: f64| format!("{:.1}", measured.to_native(seconds));
    let of = |way: &str| ratio(measured.least(way));
    let megabytes = |way: usize| (measured.peaks[way] >> 20).to_string();
    let cachegrind = measured.least("cachegrind");
    let sim = measured.least("sim");
    vec![
        measured.name.clone(),
        format!("{:.3}", measured.least("native")),
        of("record"),
        of("sim"),
        of("refs"),
        of("objects"),
        ratio(measured.answer()),
        of("cachegrind"),
        of("callgrind"),
        format!("{:.2}", measured.answer() / cachegrind),
        format!("{:.2}", measured.least("objects") / sim),
        format!("{:.2}", measured.least("refs") / sim),
        megabytes(1),
        megabytes(4),
        if measured.answer() <= cachegrind {
            "kept"
        } else {
            "MISSED"
        }
        .to_string(),
    ]
}

fn mean(all: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    let sum: f64 = all.iter().map(|measured| of(measured).ln()).sum();
    (sum / all.len().max(1) as f64).exp()
}

fn markdown(all: &[Measured], options: &Options) -> String {
    let header = [
        "program",
        "native s",
        "record",
        "sim",
        "refs",
        "objects",
        "answer",
        "cachegrind",
        "callgrind",
        "answer / cachegrind",
        "objects / sim",
        "refs / sim",
        "record MB",
        "objects MB",
        "verdict",
    ];
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let mut out = format!("{}.\n\n", conditions(options.quick, options.runs));
    out += "Wall time over native wall time, on the host's hierarchy; the answer is `record` and `objects`. ";
    out += "The verdict: it is there no later than cachegrind's.\n\n";
    out += &table::markdown(&header, &(1..14).collect::<Vec<_>>(), &rows);
    out += &format!(
        "\nGeometric means: answer {:.1}× native, cachegrind {:.1}×, answer / cachegrind {:.2} (≤ 0.5); objects / sim {:.2} (≤ 1.6), refs / sim {:.2} (≤ 1.3).\n",
        mean(all, |m| m.to_native(m.answer())),
        mean(all, |m| m.to_native(m.least("cachegrind"))),
        mean(all, |m| m.answer() / m.least("cachegrind")),
        mean(all, |m| m.least("objects") / m.least("sim")),
        mean(all, |m| m.least("refs") / m.least("sim")),
    );
    out
}

fn raw(measured: &Measured) -> Value {
    let ways = WAYS.iter().zip(&measured.seconds).zip(&measured.peaks);
    let ways = ways.map(|((way, seconds), peak)| (way.to_string(), json!({"seconds": seconds, "peak_bytes": peak})));
    json!({"name": measured.name, "ways": ways.collect::<serde_json::Map<_, _>>()})
}
