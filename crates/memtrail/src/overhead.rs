//! `overhead`: what recording a command costs, in the three experiments known from MetaSim.
//!
//! 0: translate only, no probes. 1: collect every address, throw the buffers away. 2: collect and
//! count in the collector, store nothing. Times are processor time of the command itself (user and
//! system), the best of n; children that it waits for are included.
use crate::args::{OverheadArgs, ProbeMode, RecordArgs};
use crate::record::{self, Keep};
use crate::say;
use anyhow::{bail, Context};
use memtrail_tracee::{run_native, Command};
use serde_json::json;

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

const ROWS: [(&str, &str); 4] = [
    ("native", "not recorded"),
    ("experiment 0", "translated, no probes"),
    ("experiment 1", "collected and thrown away"),
    ("experiment 2", "collected and counted"),
];

pub fn command(args: &OverheadArgs) -> anyhow::Result<u8> {
    let mut best: [Option<Seconds>; 4] = [None; 4];
    // Taking turns spreads what else the machine does over all of them.
    for round in 0..args.n {
        for (which, best) in best.iter_mut().enumerate() {
            let run = once(args, which).with_context(|| format!("{}, run {}", ROWS[which].0, round + 1))?;
            *best = Some(best.map_or(run, |b| b.best(run)));
        }
    }
    let rows: Vec<Seconds> = best.into_iter().flatten().collect();
    print(&rows, args.n);
    if args.json {
        print_json(&rows);
    }
    Ok(0)
}

fn once(args: &OverheadArgs, which: usize) -> anyhow::Result<Seconds> {
    if which == 0 {
        return native(args);
    }
    let mut record_args = RecordArgs::of(args.command.clone());
    match which {
        1 => record_args.probes = ProbeMode::None,
        2 => record_args.discard = true,
        _ => {}
    }
    let done = record::run(&record_args, Keep::CountsOnly)?;
    if let Some(failure) = done.outcome.drained.failure {
        return Err(failure.into());
    }
    let Some(ended) = done.outcome.ended else {
        bail!("interrupted");
    };
    Ok(Seconds {
        cpu: (ended.usage.user + ended.usage.system).as_secs_f64(),
        wall: done.outcome.wall.as_secs_f64(),
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
fn print(rows: &[Seconds], n: u32) {
    say::line(format_args!("best of {n}; slowdown in parentheses"));
    say::line(format_args!("{:<14} {:>20} {:>20}", "", "CPU s", "wall s"));
    let cell = |value: f64, base: f64| {
        let ratio = if base > 0.0 { value / base } else { f64::NAN };
        format!("{value:.3} ({ratio:.2})")
    };
    for ((name, what), row) in ROWS.iter().zip(rows) {
        say::line(format_args!(
            "{name:<14} {:>20} {:>20}  {what}",
            cell(row.cpu, rows[0].cpu),
            cell(row.wall, rows[0].wall),
        ));
    }
}

fn print_json(rows: &[Seconds]) {
    let row = |((name, _), s): (&(&str, &str), &Seconds)| json!({ "name": name, "cpu_seconds": s.cpu, "wall_seconds": s.wall });
    let rows: Vec<_> = ROWS.iter().zip(rows).map(row).collect();
    eprintln!("{:#}", json!(rows));
}
