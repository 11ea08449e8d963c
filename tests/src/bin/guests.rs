//! Runs guests one by one for debugging: pass or fail each, and the first difference.

use memtrail_tests::matrix::{check, check_oracle, truth};
use memtrail_tests::run::{Configuration, Probes};
use memtrail_tests::{cpu, guest};
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str =
    "usage: guests [--filter NAME] [--mode naive|block|loop|paths|oracle] [--max-block N] [--show] [--list]

  --filter NAME   only guests whose name contains NAME
  --mode M        only this probe mode; `oracle` compares two runs of the oracle with each other
  --max-block N   only this block length (default: unlimited and 1)
  --show          print the true accesses of each guest
  --list          print the guests' names and stop";

#[derive(Default)]
struct Wanted {
    filter: String,
    probes: Option<Probes>,
    oracle_only: bool,
    max_block: Option<u32>,
    show: bool,
    list: bool,
}

fn parse() -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--filter" => wanted.filter = value()?,
            "--mode" => match value()?.as_str() {
                "oracle" => wanted.oracle_only = true,
                name => {
                    let known = Probes::ALL.into_iter().find(|p| p.name() == name);
                    wanted.probes = Some(known.ok_or(format!("no such mode: {name}"))?);
                }
            },
            "--max-block" => wanted.max_block = Some(value()?.parse().map_err(|_| "--max-block needs a number")?),
            "--show" => wanted.show = true,
            "--list" => wanted.list = true,
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(wanted)
}

impl Wanted {
    fn configurations(&self) -> Vec<Configuration> {
        match (self.probes, self.max_block) {
            (None, None) => Configuration::all(),
            (probes, max_block) => {
                let all = probes.map_or(Probes::ALL.to_vec(), |p| vec![p]);
                all.into_iter()
                    .map(|probes| Configuration { probes, max_block })
                    .collect()
            }
        }
    }
}

fn report(name: &str, start: Instant, outcome: Result<(), String>) -> bool {
    let seconds = start.elapsed().as_secs_f64();
    match outcome {
        Ok(()) => println!("pass  {name}  ({seconds:.2} s)"),
        Err(ref message) => println!("FAIL  {name}  ({seconds:.2} s)\n{message}"),
    }
    outcome.is_ok()
}

fn show(guest: &guest::Guest) {
    match truth(guest) {
        Ok(truth) => {
            for (thread, lines) in &truth.accesses {
                for line in lines {
                    println!("{thread} {:#x} {} {:#x} {}", line.pc, line.kind, line.addr, line.size);
                }
            }
        }
        Err(message) => println!("{message}"),
    }
}

fn main() -> ExitCode {
    let wanted = match parse() {
        Ok(wanted) => wanted,
        Err(message) => {
            eprintln!("guests: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let guests = match guest::all() {
        Ok(guests) => guests,
        Err(error) => {
            eprintln!("guests: {error}");
            return ExitCode::from(2);
        }
    };
    let (mut passed, mut failed, mut not_run) = (0, 0, 0);
    for guest in guests.iter().filter(|g| g.name.contains(&wanted.filter)) {
        if wanted.list {
            println!("{}", guest.name);
            continue;
        }
        let missing = cpu::missing(&guest.needs);
        if !missing.is_empty() {
            println!("NOT RUN  {}: this CPU lacks {}", guest.name, missing.join(", "));
            not_run += 1;
            continue;
        }
        if wanted.show {
            show(guest);
        }
        let mut count = |ok: bool| *(if ok { &mut passed } else { &mut failed }) += 1;
        if wanted.oracle_only {
            count(report(&guest.name, Instant::now(), check_oracle(guest)));
            continue;
        }
        for configuration in wanted.configurations() {
            let name = format!("{}/{}", guest.name, configuration.name());
            count(report(&name, Instant::now(), check(guest, configuration)));
        }
    }
    if !wanted.list {
        println!("{passed} passed, {failed} failed, {not_run} guests not runnable here");
    }
    ExitCode::from(u8::from(failed > 0))
}
