//! `cargo xtask bench sim`: how fast caches are simulated, beside what others take for it.
//!
//! Each program is recorded once. On the recording, on one core: simulations of accesses that were
//! replayed before, where nothing but the simulator is timed, and from the file, where loops come
//! whole (an example of `memtrail-simulate`, `simulation_speed`). Then the command as users know
//! it, on all cores; and with `--live` 26 caches at once while the program runs. Peers run the same
//! program, or over the same addresses.
//!
//! A missed bound is shown, not failed on: only what does not run fails.

mod others;
mod report;

use super::record::{least, timed};
use super::sizes::{
    self,
    subjects::{self, Row},
};
use super::workloads::Prepared;
use crate::{packages, project, Outcome};
use clap::ArgAction;
use others::Peers;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What bounds a program's simulation is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Loops over arrays.
    Dense,
    /// The same, and row after row does the same to the caches.
    Repeating,
    Irregular,
}

struct Case {
    /// A subject of the size table, with its level.
    name: &'static str,
    shape: Shape,
    /// Full and quick size, where it is not that of the size table.
    sizes: Option<(&'static str, &'static str)>,
}

const fn case(name: &'static str, shape: Shape) -> Case {
    Case {
        name,
        shape,
        sizes: None,
    }
}

const CASES: &[Case] = &[
    case("matmul-O2", Shape::Dense),
    Case {
        name: "stencil-O2",
        shape: Shape::Repeating,
        // Where rows are left out, the start weighs: it has to be long.
        sizes: Some(("1000 600", "430 85")),
    },
    case("vadd-O2", Shape::Dense),
    case("lu-O2", Shape::Dense),
    case("spmv-O2", Shape::Irregular),
    case("quicksort-O2", Shape::Irregular),
    case("gzip", Shape::Irregular),
    case("sqlite3", Shape::Irregular),
    case("python3", Shape::Irregular),
];

/// Accesses that are replayed into memory, and given to the peer that wants them there: full and
/// quick.
const IN_MEMORY: (u64, u64) = (30_000_000, 2_000_000);
/// So often each simulation runs over them: they take little time, and on a shared machine many
/// runs are disturbed.
const IN_MEMORY_RUNS: usize = 9;

#[derive(clap::Args)]
pub struct Options {
    /// Small inputs
    #[arg(long)]
    quick: bool,
    /// Keep the table and the raw times in `bench/results`
    #[arg(long)]
    write: bool,
    /// Do not run other simulators
    #[arg(long = "no-peers", action = ArgAction::SetFalse)]
    peers: bool,
    /// Rounds
    #[arg(long, default_value_t = 3, value_parser = super::at_least_one)]
    runs: usize,
    /// Only these programs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
}

/// Millions of accesses a second, by what was simulated.
#[derive(Clone, Debug, Default, PartialEq)]
struct Speeds(Vec<(String, f64)>);

impl Speeds {
    /// Lines of a name, a number, and what does not matter here, with tabs between; the first is
    /// about the file.
    fn parse(text: &str) -> Option<Speeds> {
        let line = |line: &str| {
            let mut words = line.split('\t');
            Some((words.next()?.to_string(), words.next()?.parse().ok()?))
        };
        let speeds: Option<Vec<(String, f64)>> = text.lines().skip(1).map(line).collect();
        speeds.filter(|speeds| !speeds.is_empty()).map(Speeds)
    }

    fn of(&self, name: &str) -> f64 {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or(f64::NAN, |(_, speed)| *speed)
    }
}

struct Measured {
    case: &'static Case,
    size: &'static str,
    accesses: u64,
    speeds: Speeds,
    /// Wall seconds of each run: natively, of `sim` on the recording, and of `sim --live` with 26
    /// caches.
    native: Vec<f64>,
    command: Vec<f64>,
    /// The command with 26 caches.
    swept: Vec<f64>,
    live: Vec<f64>,
    peers: Option<Peers>,
}

impl Measured {
    /// Millions a second in so many seconds.
    fn rate(&self, seconds: f64) -> f64 {
        self.accesses as f64 / seconds / 1e6
    }

    fn slowdown(&self) -> f64 {
        least(&self.live) / least(&self.native)
    }
}

/// What is run.
struct Tools {
    memtrail: PathBuf,
    speed: PathBuf,
    /// With pycachesim, if peers take part.
    python: Option<PathBuf>,
    dir: PathBuf,
}

pub fn run(options: &Options) -> Outcome {
    let cases = chosen(&options.only)?;
    let mut rows = Vec::new();
    for case in cases {
        rows.push((case, row(case, options.quick)?));
    }
    let subjects = rows.iter().flat_map(|(_, row)| row.subject.packages);
    let mut needed: Vec<packages::Package> = subjects.copied().collect();
    needed.extend([("gcc", "gcc"), ("libc6-dev", ""), ("util-linux", "taskset")]);
    if options.peers {
        needed.extend(others::PACKAGES);
    }
    packages::ensure(&needed)?;
    let tools = Tools {
        memtrail: project::memtrail()?,
        speed: project::example("memtrail-simulate", "simulation_speed")?,
        python: options.peers.then(others::python).transpose()?,
        dir: project::target_dir().join("bench/sim"),
    };
    std::fs::create_dir_all(&tools.dir).map_err(|e| format!("{}: {e}", tools.dir.display()))?;

    let begin = Instant::now();
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for (case, row) in rows {
        match measure(case, &row, options, &tools) {
            Ok(measured) => {
                println!("{}", report::progress(&measured));
                all.push(measured);
            }
            Err(why) => {
                eprintln!("bench sim: {}: {why}", case.name);
                failures.push(format!("{}: {why}", case.name));
            }
        }
    }
    let table = report::markdown(&all, &failures, options);
    println!("\n{table}");
    eprintln!("bench sim: {:.0} s", begin.elapsed().as_secs_f64());
    if options.write {
        report::write(&all, &failures, options, &table)?;
    }
    Ok(failures.is_empty())
}

/// The cases that `only` names: with their level, or without.
fn chosen(only: &[String]) -> Result<Vec<&'static Case>, String> {
    let named = |case: &Case, name: &str| case.name == name || case.name.strip_suffix("-O2") == Some(name);
    if let Some(unknown) = only.iter().find(|name| !CASES.iter().any(|case| named(case, name))) {
        return Err(format!("no kernel or program `{unknown}`"));
    }
    let wanted = |case: &&Case| only.is_empty() || only.iter().any(|name| named(case, name));
    Ok(CASES.iter().filter(wanted).collect())
}

/// Of a pair of sizes the larger.
fn row(case: &Case, quick: bool) -> Result<Row, String> {
    let rows = subjects::rows(&[case.name.to_string()], quick)?;
    let mut row = rows.into_iter().next_back().ok_or(format!("no {}", case.name))?;
    if let Some((full, less)) = case.sizes {
        row.size = if quick { less } else { full };
    }
    Ok(row)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

fn measure(case: &'static Case, row: &Row, options: &Options, tools: &Tools) -> Result<Measured, String> {
    let dir = &tools.dir;
    let prepared = subjects::prepare(row, options.quick, dir)?;
    let recording = dir.join(format!("{}.mtr", case.name));
    let accesses = sizes::record(&prepared, &tools.memtrail, &recording, dir)?.accesses;
    let in_memory = if options.quick { IN_MEMORY.1 } else { IN_MEMORY.0 };
    let speeds = speeds(tools, &prepared, &recording, in_memory, options.runs)?;
    let memtrail = text(&tools.memtrail);
    let file = text(&recording);
    let on_file = words(&[&memtrail, "sim", "--json", "--cache", "L1=32K:64:8", &file]);
    let swept = words(&[&memtrail, "sim", "--json", "--sweep", "metasim26", &file]);
    let mut live = words(&[&memtrail, "sim", "--live", "--json", "--sweep", "metasim26", "--"]);
    live.extend(prepared.argv.iter().cloned());
    let mut measured = Measured {
        case,
        size: row.size,
        accesses,
        speeds,
        native: Vec::new(),
        command: Vec::new(),
        swept: Vec::new(),
        live: Vec::new(),
        peers: None,
    };
    for _ in 0..options.runs {
        measured.native.push(timed(&prepared.argv, &prepared, dir, None)?);
        measured.live.push(timed(&live, &prepared, dir, None)?);
        measured.command.push(timed(&on_file, &prepared, dir, None)?);
        measured.swept.push(timed(&swept, &prepared, dir, None)?);
    }
    if let Some(python) = &tools.python {
        measured.peers = Some(others::measure(&prepared, tools, python, &recording, in_memory)?);
    }
    std::fs::remove_file(&recording).map_err(|e| format!("{file}: {e}"))?;
    Ok(measured)
}

/// Runs `simulation_speed` on one core: what it does on several threads takes as long as all of
/// them together.
fn speeds(tools: &Tools, prepared: &Prepared, recording: &Path, most: u64, runs: usize) -> Result<Speeds, String> {
    let said = tools.dir.join("speed.txt");
    let argv = words(&[
        "taskset",
        "--cpu-list",
        &a_core(),
        &text(&tools.speed),
        "--accesses",
        &most.to_string(),
        "--runs",
        &IN_MEMORY_RUNS.to_string(),
        "--file-runs",
        &runs.to_string(),
        &text(recording),
    ]);
    timed(&argv, prepared, &tools.dir, Some(&said))?;
    let found = std::fs::read_to_string(&said).map_err(|e| format!("{}: {e}", said.display()))?;
    Speeds::parse(&found).ok_or(format!("simulation_speed said `{found}`"))
}

/// The last core that we may use: the first is the one that interrupts like.
fn a_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let last = list.and_then(|list| list.trim().rsplit([',', '-']).next());
    last.unwrap_or("0").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_row_of_the_size_table() {
        for case in CASES {
            assert_eq!(row(case, false).expect("known").name(), case.name);
        }
        assert_eq!(row(&CASES[0], false).expect("known").size, "400 1");
        assert_eq!(row(&CASES[1], true).expect("known").size, "430 85");
        let names = |only: &[&str]| {
            let cases = chosen(&words(only));
            cases.map(|cases| cases.iter().map(|case| case.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["lu", "gzip"]), Ok(vec!["lu-O2", "gzip"]));
        assert_eq!(names(&["lu-O0"]), Err("no kernel or program `lu-O0`".to_string()));
    }

    #[test]
    fn speeds_are_read() {
        let text = "x.mtr\t\t1000\none level\t250.5\t17\non descriptors\t9000.0\t18\n";
        let speeds = Speeds::parse(text).expect("good lines");
        assert_eq!((speeds.of("one level"), speeds.of("on descriptors")), (250.5, 9000.0));
        assert_eq!(Speeds::parse("x.mtr\t\t1000\none level\n"), None);
        assert_eq!(Speeds::parse("x.mtr\t\t1000\n"), None);
    }
}
