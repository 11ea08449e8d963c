//! `cargo xtask long-test`: real programs, native against recorded.
//!
//! Problem: the claim "any unmodified program" is only worth the programs it was
//! tried on. Idea: each case (`cases`) is data: packages, a set-up script, a
//! command, and what of its effects must be identical. It runs natively and
//! recorded from the same starting state, *in the same directory*, so that even
//! paths in the output are equal; then everything named is compared byte for byte.
//!
//! A recorded run also fails if it hangs, leaves a process or a piece of shared
//! memory behind, or if its recording does not pass `check` and `info`. With `--verify` every
//! access is hashed while it is recorded, and replay must give the same.

mod cases;
mod compare;
mod record;

use crate::{packages, process, project, table, Outcome};
use cases::{Case, CASES, QUICK};
use record::Lab;
use std::time::Instant;

/// One line of the table.
struct Row {
    case: &'static Case,
    native: f64,
    recorded: f64,
    accesses: Option<u64>,
    faults: Vec<String>,
}

#[derive(clap::Args)]
pub struct Options {
    /// Write the table to `docs/real-programs.md`
    #[arg(long)]
    write: bool,
    /// Keep the directories the programs ran in
    #[arg(long)]
    keep: bool,
    /// Hash every access while it is recorded, and compare with replay
    #[arg(long)]
    verify: bool,
    /// List the programs and their commands
    #[arg(long)]
    list: bool,
    /// A minute's worth: programs that need no packages but those of the test command
    #[arg(long, conflicts_with_all = ["write", "names"])]
    pub quick: bool,
    /// Only these programs; `attach` attaches to running programs a thousand times each
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

impl Options {
    /// What the test command runs.
    pub fn quick() -> Options {
        Options {
            write: false,
            keep: false,
            verify: false,
            list: false,
            quick: true,
            names: Vec::new(),
        }
    }

    fn chosen(&self) -> Result<Vec<&'static Case>, String> {
        if let Some(unknown) = self.names.iter().find(|n| !CASES.iter().any(|c| c.name == n.as_str())) {
            return Err(format!("no case `{unknown}`; see --list"));
        }
        let wanted = |c: &&Case| match self.quick {
            true => QUICK.contains(&c.name),
            false => self.names.is_empty() || self.names.iter().any(|n| n == c.name),
        };
        Ok(CASES.iter().filter(wanted).collect())
    }
}

/// `long-test attach`: the tests of attaching, with this many cycles each.
const ATTACH: &str = "attach";
const ATTACH_CYCLES: &str = "1000";

/// Attaches to every guest again and again.
fn attach() -> Outcome {
    let mut cargo = std::process::Command::new("cargo");
    cargo
        .args([
            "test",
            "--release",
            "-p",
            "memtrail",
            "--test",
            "attach",
            "--",
            "--nocapture",
        ])
        .env("MEMTRAIL_ATTACH_CYCLES", ATTACH_CYCLES);
    match cargo.status() {
        Ok(status) => Ok(status.success()),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

pub fn run(options: &Options) -> Outcome {
    if options.names == [ATTACH] {
        return attach();
    }
    if options.list {
        CASES
            .iter()
            .for_each(|c| println!("{:<12} {}", c.name, c.argv.join(" ")));
        return Ok(true);
    }
    let chosen = options.chosen()?;
    let needed: Vec<packages::Package> = chosen.iter().flat_map(|c| c.packages).copied().collect();
    packages::ensure(&needed)?;
    let lab = Lab::new(project::memtrail()?, options.keep, options.verify)?;

    let begin = Instant::now();
    let mut rows = Vec::new();
    for case in chosen {
        eprintln!("--- {}: {}", case.name, case.argv.join(" "));
        let row = try_case(&lab, case);
        eprintln!("    {}", verdict(&row));
        rows.push(row);
    }
    let failed = rows.iter().filter(|r| !r.faults.is_empty()).count();
    let text = render(&rows);
    println!("{text}");
    eprintln!(
        "long-test: {} programs, {failed} failed, {:.0} s",
        rows.len(),
        begin.elapsed().as_secs_f64()
    );
    if options.write {
        let path = project::root().join("docs/real-programs.md");
        std::fs::write(&path, document(&text)).map_err(|e| format!("{}: {e}", path.display()))?;
        eprintln!("long-test: wrote docs/real-programs.md");
    }
    Ok(failed == 0)
}

/// Both runs and all comparisons; whatever goes wrong is a fault of the row.
fn try_case(lab: &Lab, case: &'static Case) -> Row {
    let mut row = Row {
        case,
        native: 0.0,
        recorded: 0.0,
        accesses: None,
        faults: Vec::new(),
    };
    if let Err(why) = both_runs(lab, case, &mut row) {
        row.faults.push(why);
    }
    lab.clean();
    row
}

fn both_runs(lab: &Lab, case: &'static Case, row: &mut Row) -> Result<(), String> {
    lab.prepare(case)?;
    let native = lab.native(case)?;
    row.native = native.finished.wall.as_secs_f64();
    if native.finished.timed_out {
        return Err("native run: timeout".into());
    }
    for how in case.how.runs() {
        let recorded = lab.recorded(case, *how)?;
        row.recorded = recorded.finished.wall.as_secs_f64();
        row.faults.extend(trouble(&recorded.finished, case));
        if !recorded.finished.timed_out {
            row.faults.extend(compare::runs(case, &native, &recorded)?);
        }
        if recorded.finished.timed_out || !row.faults.is_empty() {
            break;
        }
        if let Some(file) = &recorded.file {
            row.accesses = Some(lab.verify(file)?);
        }
    }
    Ok(())
}

fn trouble(finished: &process::Finished, case: &Case) -> Vec<String> {
    let mut faults = Vec::new();
    if finished.timed_out {
        faults.push(format!("no end after {} s", case.timeout));
        return faults;
    }
    if !finished.leftover_processes.is_empty() {
        faults.push(format!("processes left: {}", finished.leftover_processes.join(", ")));
    }
    if !finished.leftover_shm.is_empty() {
        faults.push(format!("shared memory left: {}", finished.leftover_shm.join(", ")));
    }
    faults
}

fn verdict(row: &Row) -> String {
    if row.faults.is_empty() {
        row.case.promise().to_string()
    } else {
        format!("FAILED: {}", row.faults.join("; "))
    }
}

fn render(rows: &[Row]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.case.name.to_string(),
                format!("`{}`", row.case.argv.join(" ").replace('|', "\\|").replace('\n', " ")),
                format!("{:.2}", row.native),
                format!("{:.2}", row.recorded),
                row.accesses.map_or("—".to_string(), |n| n.to_string()),
                verdict(row),
            ]
        })
        .collect();
    table::markdown(
        &["program", "command", "native s", "recorded s", "accesses", "verdict"],
        &[2, 3, 4],
        &cells,
    )
}

fn document(table: &str) -> String {
    format!(
        "# Real programs, native and recorded\n\n\
         Written by `cargo xtask long-test --write` on {}, {}.\n\n\
         Each program runs natively and recorded from the same starting state in the same directory. The verdict says what\n\
         was found identical; times are wall times in seconds, the recorder's own start and end included. Where no accesses\n\
         are given, the records were acquired and thrown away (`--discard`); everywhere else the recording passed\n\
         `memtrail check` and was counted by `memtrail info`. A case also fails if it does not end in time, or leaves\n\
         processes or shared memory behind.\n\n{table}",
        project::today(),
        project::machine()
    )
}
