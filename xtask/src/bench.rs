//! `cargo xtask bench`: what recording costs, beside what others cost.
//!
//! Problem: a ratio of two times is only as good as the machine is quiet, and
//! machines are not. Idea: native and recorded runs alternate within one round,
//! several rounds are made, and the smallest time of each is kept: noise only
//! ever adds. Times are CPU times of the *target*; the collector is another
//! process on another core and is not counted (`docs/benchmarks.md` says how).
//!
//! Bounds stand beside the ratios, so that a table is also a verdict. `bench sizes` is another
//! table: what the recordings weigh; and so is `bench record`: how long a user waits for them; and
//! `bench sim`: how fast caches are simulated; `bench objects`: what noting allocations adds; and
//! `bench answer`: how long a user waits for an answer.

mod answer;
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

/// Which table; without a name, the overhead table.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    table: Option<Table>,
    #[command(flatten)]
    overhead: Options,
}

#[derive(clap::Subcommand)]
enum Table {
    /// How small recordings are
    Sizes(sizes::Options),
    /// How long recording to a file takes
    Record(record::Options),
    /// How fast caches are simulated
    Sim(sim::Options),
    /// What noting allocations adds
    Objects(record::Options),
    /// How long a user waits for the answer
    Answer(record::Options),
}

/// What the overhead table is made of.
#[derive(clap::Args)]
struct Options {
    /// Small inputs
    #[arg(long)]
    quick: bool,
    /// Keep the table and the raw times in `bench/results`
    #[arg(long)]
    write: bool,
    /// Rounds
    #[arg(long, default_value_t = 5, value_parser = at_least_one)]
    runs: usize,
    /// Rounds in which the slow emulators take part
    #[arg(long, default_value_t = 1)]
    peer_runs: usize,
    /// Do not run Valgrind
    #[arg(long)]
    no_valgrind: bool,
    /// Ways to run each workload; `native` always takes part
    #[arg(long, value_name = "MODE", value_delimiter = ',', value_parser = mode)]
    modes: Vec<Mode>,
    /// Only these workloads
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

impl Options {
    fn modes(&self) -> Vec<Mode> {
        let mut modes = match self.modes.is_empty() {
            true => Mode::DEFAULT.to_vec(),
            false => self.modes.clone(),
        };
        if !modes.contains(&Mode::Native) {
            modes.insert(0, Mode::Native);
        }
        modes.retain(|mode| !(self.no_valgrind && mode.is_peer()));
        modes
    }
}

fn mode(name: &str) -> Result<Mode, String> {
    Mode::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = Mode::ALL.iter().map(|(_, name)| *name).collect();
        format!("modes are {}", known.join(", "))
    })
}

/// No rounds would be no measurement.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&n| n > 0)
        .ok_or("at least 1 is needed".into())
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

pub fn run(bench: &Bench) -> Outcome {
    match &bench.table {
        Some(Table::Sizes(options)) => sizes::run(options),
        Some(Table::Record(options)) => record::run(options),
        Some(Table::Sim(options)) => sim::run(options),
        Some(Table::Objects(options)) => objects::run(options),
        Some(Table::Answer(options)) => answer::run(options),
        None => overhead(&bench.overhead),
    }
}

fn overhead(options: &Options) -> Outcome {
    let modes = options.modes();
    let chosen: Vec<&'static Workload> = if options.names.is_empty() {
        WORKLOADS.iter().collect()
    } else {
        let find = |name: &String| workloads::by_name(name).ok_or(format!("no workload `{name}`"));
        options.names.iter().map(find).collect::<Result<_, _>>()?
    };
    let mut needed: Vec<packages::Package> = chosen.iter().flat_map(|w| w.packages).copied().collect();
    needed.push(("gcc", "gcc"));
    if modes.iter().any(|m| m.is_peer()) {
        needed.push(("valgrind", "valgrind"));
    }
    packages::ensure(&needed)?;
    let memtrail = match modes.iter().any(|m| m.probes().is_some()) {
        true => Some(project::memtrail()?),
        false => None,
    };
    let dir = project::target_dir().join("bench");
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;

    let mut all = Vec::new();
    for workload in chosen {
        all.push(measure_one(workload, options, &modes, &dir, memtrail.as_deref())?);
        println!("{}", report::progress(all.last().expect("just pushed")));
    }
    let table = report::markdown(&all, &modes, options.quick, options.runs);
    println!("\n{table}");
    if options.write {
        report::write(&all, &table)?;
    }
    Ok(all.iter().all(|m| m.failures.is_empty()))
}

fn measure_one(
    workload: &'static Workload,
    options: &Options,
    modes: &[Mode],
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
        for &mode in modes {
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
