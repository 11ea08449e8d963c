//! `cargo xtask bench`: what recording costs, beside what others cost.
//!
//! Problem: a ratio of two times is only as good as the machine is quiet, and
//! machines are not. Idea: native and recorded runs alternate within one round,
//! several rounds are made, and the smallest time of each is kept: noise only
//! ever adds. Times are CPU times of the *target*; the collector is another
//! process on another core and is not counted (`docs/benchmarks.md` says how).
//!
//! Bounds stand beside the ratios, so that a table is also a verdict.
//! `bench sizes` is another table: what the recordings weigh; and so is `bench record`: how long a user waits for them;
//! and `bench sim`: how fast caches are simulated; and `bench objects`: what noting allocations adds.

mod measure;
mod objects;
mod record;
mod report;
mod sim;
mod sizes;
mod workloads;

use crate::{packages, project, Outcome};
use measure::{Mode, Sample};
use std::path::Path;
use workloads::{Workload, WORKLOADS};

/// What the command line asked for.
struct Options {
    quick: bool,
    write: bool,
    runs: usize,
    /// Rounds in which the slow emulators take part.
    peer_runs: usize,
    modes: Vec<Mode>,
    names: Vec<String>,
}

/// All samples of one workload, by mode.
pub struct Measured {
    pub workload: &'static Workload,
    pub samples: Vec<(Mode, Vec<Sample>)>,
    /// Modes that failed, with the reason.
    pub failures: Vec<(Mode, String)>,
}

impl Measured {
    /// The sample with the least CPU time.
    pub fn best(&self, mode: Mode) -> Option<&Sample> {
        let (_, samples) = self.samples.iter().find(|(m, _)| *m == mode)?;
        samples.iter().min_by(|a, b| a.cpu.total_cmp(&b.cpu))
    }

    pub fn best_wall(&self, mode: Mode) -> Option<f64> {
        let (_, samples) = self.samples.iter().find(|(m, _)| *m == mode)?;
        samples.iter().map(|s| s.wall).min_by(f64::total_cmp)
    }
}

pub fn run(args: &[String]) -> Outcome {
    match args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("sizes", rest)) => return sizes::run(rest),
        Some(("record", rest)) => return record::run(rest),
        Some(("sim", rest)) => return sim::run(rest),
        Some(("objects", rest)) => return objects::run(rest),
        _ => {}
    }
    let options = parse(args)?;
    let chosen: Vec<&'static Workload> = if options.names.is_empty() {
        WORKLOADS.iter().collect()
    } else {
        let find = |name: &String| workloads::by_name(name).ok_or(format!("no workload `{name}`"));
        options.names.iter().map(find).collect::<Result<_, _>>()?
    };
    let mut needed: Vec<packages::Package> = chosen.iter().flat_map(|w| w.packages).copied().collect();
    needed.push(("gcc", "gcc"));
    if options.modes.iter().any(|m| m.is_peer()) {
        needed.push(("valgrind", "valgrind"));
    }
    packages::ensure(&needed)?;
    let memtrail = match options.modes.iter().any(|m| m.probes().is_some()) {
        true => Some(project::memtrail()?),
        false => None,
    };
    let dir = project::target_dir().join("bench");
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;

    let mut all = Vec::new();
    for workload in chosen {
        all.push(measure_one(workload, &options, &dir, memtrail.as_deref())?);
        println!("{}", report::progress(all.last().expect("just pushed")));
    }
    let table = report::markdown(&all, &options.modes, options.quick, options.runs);
    println!("\n{table}");
    if options.write {
        report::write(&all, &table)?;
    }
    Ok(all.iter().all(|m| m.failures.is_empty()))
}

fn measure_one(
    workload: &'static Workload,
    options: &Options,
    dir: &Path,
    memtrail: Option<&Path>,
) -> Result<Measured, String> {
    let prepared = workloads::prepare(workload, options.quick, dir)?;
    let rounds = options.runs * workload.repeat();
    let mut measured = Measured {
        workload,
        samples: Vec::new(),
        failures: Vec::new(),
    };
    for round in 0..rounds {
        for &mode in &options.modes {
            let over = mode.is_peer() && round >= options.peer_runs;
            if over || measured.failures.iter().any(|(m, _)| *m == mode) {
                continue;
            }
            match measure::once(&prepared, mode, dir, memtrail) {
                Ok(sample) => match measured.samples.iter_mut().find(|(m, _)| *m == mode) {
                    Some((_, list)) => list.push(sample),
                    None => measured.samples.push((mode, vec![sample])),
                },
                Err(why) => {
                    eprintln!("bench: {} under {}: {why}", workload.name, mode.name());
                    measured.failures.push((mode, why));
                }
            }
        }
    }
    Ok(measured)
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        quick: false,
        write: false,
        runs: 5,
        peer_runs: 1,
        modes: Mode::DEFAULT.to_vec(),
        names: Vec::new(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--quick" => options.quick = true,
            "--write" => options.write = true,
            "--runs" => options.runs = value()?.parse().map_err(|_| "--runs needs a number")?,
            "--peer-runs" => options.peer_runs = value()?.parse().map_err(|_| "--peer-runs needs a number")?,
            "--valgrind" => match value()?.as_str() {
                "no" => options.modes.retain(|m| !m.is_peer()),
                "yes" => {}
                other => return Err(format!("--valgrind takes yes or no, got `{other}`")),
            },
            "--modes" => {
                let named = value()?
                    .split(',')
                    .map(|n| Mode::by_name(n).ok_or(format!("no mode `{n}`")));
                options.modes = named.collect::<Result<_, _>>()?;
                if !options.modes.contains(&Mode::Native) {
                    options.modes.insert(0, Mode::Native);
                }
            }
            name if name.starts_with('-') => return Err(format!("unknown option {name}")),
            name => options.names.push(name.to_string()),
        }
    }
    if options.runs == 0 {
        return Err("--runs must be at least 1".into());
    }
    Ok(options)
}
