//! `overhead`: what recording a command costs, by the experiments and stages of the MetaSim paper.
//!
//! **Experiments** (its section 5, Tables 3 and 8). 0: a dummy function is called after every
//! access, which does nothing. 1: every address is collected and discarded. 2: every address goes
//! through 26 caches. **Stages** (its sections 5.4 and 6, Table 9) are ways of collecting:
//! unbuffered, with a call for every access; buffered, every address stored in a buffer; chained,
//! addresses a constant apart stored once; delayed, registers stored once for a block. Ours go one
//! further: loops, and blocks that follow each other, have one record.
//!
//! **What is not measured.** The translator has no dummy probe, no probe that calls a function for
//! each access, and none that chains without delaying: there is no experiment 0 and no stage
//! unbuffered or chained. Translation without probes, which their tools do not have as such, stands
//! beside them; it is no experiment 0, since it interrupts nothing.
//!
//! Times are processor time of the command itself (user and system), the best of n; children that
//! it waits for are included. Collecting and simulating are done by another process and show in
//! wall times.
use crate::args::{OverheadArgs, PathMode, ProbeMode, RecordArgs};
use crate::record::{self, Keep};
use crate::{say, sim};
use anyhow::{bail, Context};
use memtrail_tracee::{run_native, Command};
use serde_json::json;
use std::time::Instant;

/// Seconds of a run.
#[derive(Clone, Copy, Debug)]
struct Seconds {
    cpu: f64,
    wall: f64,
}

impl Seconds {
    /// The better of each.
    fn best(self, other: Seconds) -> Seconds {
        Seconds {
            cpu: self.cpu.min(other.cpu),
            wall: self.wall.min(other.wall),
        }
    }
}

/// A way of collecting addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Buffered,
    Delayed,
    Loops,
}

impl Stage {
    const ALL: [Stage; 3] = [Stage::Buffered, Stage::Delayed, Stage::Loops];

    fn word(self) -> &'static str {
        match self {
            Stage::Buffered => "buffered",
            Stage::Delayed => "delayed",
            Stage::Loops => "loops",
        }
    }

    fn record_args(self, args: &OverheadArgs) -> RecordArgs {
        let mut record = RecordArgs::of(args.command.clone());
        (record.probes, record.paths) = match self {
            Stage::Buffered => (ProbeMode::Naive, PathMode::Off),
            Stage::Delayed => (ProbeMode::Block, PathMode::Off),
            Stage::Loops => (record.probes, record.paths),
        };
        record
    }
}

/// A way of running the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Native,
    Translated,
    Discarded(Stage),
    Counted,
    Simulated(Stage),
}

impl Run {
    fn all(args: &OverheadArgs) -> Vec<Run> {
        let mut all = vec![Run::Native, Run::Translated];
        all.extend(Stage::ALL.map(Run::Discarded));
        all.push(Run::Counted);
        let stages = Stage::ALL.into_iter();
        let simulated = stages.filter(|&stage| args.all_stages || stage == Stage::Loops);
        all.extend(simulated.map(Run::Simulated));
        all
    }

    /// The experiment, if it is one.
    fn experiment(self) -> Option<u32> {
        match self {
            Run::Discarded(_) => Some(1),
            Run::Simulated(_) => Some(2),
            Run::Native | Run::Translated | Run::Counted => None,
        }
    }

    fn stage(self) -> Option<Stage> {
        match self {
            Run::Discarded(stage) | Run::Simulated(stage) => Some(stage),
            Run::Counted => Some(Stage::Loops),
            Run::Native | Run::Translated => None,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Run::Native => "not recorded",
            Run::Translated => "translated, no probes",
            Run::Discarded(_) => "collected and discarded",
            Run::Counted => "collected and counted",
            Run::Simulated(_) => "26 caches",
        }
    }

    /// `experiment 1, delayed`.
    fn name(self) -> String {
        match (self, self.experiment(), self.stage()) {
            (_, Some(number), Some(stage)) => format!("experiment {number}, {}", stage.word()),
            (Run::Native, ..) => "native".to_string(),
            (_, _, Some(stage)) => format!("counted, {}", stage.word()),
            _ => "translation".to_string(),
        }
    }
}

/// What the paper has and this table does not.
const NOT_MEASURED: [(&str, &str); 3] = [
    ("experiment 0", "there is no probe that calls a dummy function"),
    ("unbuffered", "there is no probe that calls a function for each access"),
    ("chained", "there is no probe that chains without delaying"),
];

pub fn command(args: &OverheadArgs) -> anyhow::Result<u8> {
    let runs = Run::all(args);
    let mut best: Vec<Option<Seconds>> = vec![None; runs.len()];
    // Taking turns spreads what else the machine does over all of them.
    for round in 0..args.n {
        for (run, best) in runs.iter().zip(&mut best) {
            let seconds = once(args, *run).with_context(|| format!("{}, run {}", run.name(), round + 1))?;
            *best = Some(best.map_or(seconds, |b| b.best(seconds)));
        }
    }
    let rows: Vec<(Run, Seconds)> = runs.into_iter().zip(best.into_iter().flatten()).collect();
    print(&rows, args.n);
    if args.json {
        print_json(&rows);
    }
    Ok(0)
}

fn once(args: &OverheadArgs, run: Run) -> anyhow::Result<Seconds> {
    let begin = Instant::now();
    let stage = run.stage().unwrap_or(Stage::Loops);
    let mut record_args = stage.record_args(args);
    let done = match run {
        Run::Native => return native(args),
        Run::Simulated(_) => {
            // Nothing here asks what is allocated.
            record_args.objects.no_objects = true;
            sim::of_26_caches(&record_args)?
        }
        Run::Translated | Run::Discarded(_) | Run::Counted => {
            record_args.discard = matches!(run, Run::Discarded(_));
            if run == Run::Translated {
                record_args.probes = ProbeMode::None;
            }
            record::run(&record_args, Keep::CountsOnly)?
        }
    };
    if let Some(failure) = done.outcome.drained.failure {
        return Err(failure.into());
    }
    let Some(ended) = done.outcome.ended else {
        bail!("interrupted");
    };
    let wall = match run {
        // The program may have ended before its simulation.
        Run::Simulated(_) => begin.elapsed(),
        _ => done.outcome.wall,
    };
    Ok(Seconds {
        cpu: (ended.usage.user + ended.usage.system).as_secs_f64(),
        wall: wall.as_secs_f64(),
    })
}

fn native(args: &OverheadArgs) -> anyhow::Result<Seconds> {
    let (ended, wall) = run_native(&Command {
        program: args.command[0].clone(),
        args: args.command[1..].to_vec(),
        fixed_addresses: false,
    })?;
    Ok(Seconds {
        cpu: (ended.usage.user + ended.usage.system).as_secs_f64(),
        wall: wall.as_secs_f64(),
    })
}

/// The table goes where our words go: stdout belongs to the command.
fn print(rows: &[(Run, Seconds)], n: u32) {
    say::line(format_args!("best of {n}; slowdown in parentheses"));
    say::line(format_args!("{:<22} {:>20} {:>20}", "", "CPU s", "wall s"));
    let cell = |value: f64, base: f64| {
        let ratio = if base > 0.0 { value / base } else { f64::NAN };
        format!("{value:.3} ({ratio:.2})")
    };
    let native = rows[0].1;
    for (run, row) in rows {
        say::line(format_args!(
            "{:<22} {:>20} {:>20}  {}",
            run.name(),
            cell(row.cpu, native.cpu),
            cell(row.wall, native.wall),
            run.what(),
        ));
    }
    for (what, why) in NOT_MEASURED {
        say::line(format_args!("{what:<22} {:>20} {:>20}  not measured: {why}", "-", "-"));
    }
}

fn print_json(rows: &[(Run, Seconds)]) {
    let row = |(run, s): &(Run, Seconds)| {
        json!({
            "name": run.name(),
            "experiment": run.experiment(),
            "stage": run.stage().map(Stage::word),
            "what": run.what(),
            "cpu_seconds": s.cpu,
            "wall_seconds": s.wall,
        })
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    let not_measured: Vec<_> = NOT_MEASURED
        .iter()
        .map(|(what, why)| json!({ "name": what, "why": why }))
        .collect();
    eprintln!("{:#}", json!({ "rows": rows, "not_measured": not_measured }));
}
