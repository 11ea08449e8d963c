//! Valgrind's cachegrind: a cache simulator that sees the same accesses as lackey, if the two run
//! in the same surroundings.

use crate::lackey::DEAD_LOADS;
use crate::program::{Program, Scratch};
use crate::Result;
use std::process::{Command, Stdio};

/// One cache.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub size: u64,
    pub ways: u32,
    pub line: u32,
}

/// The three caches that it knows.
#[derive(Clone, Copy, Debug)]
pub struct Caches {
    pub i1: Geometry,
    pub d1: Geometry,
    pub ll: Geometry,
}

/// Of one sort of reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct References {
    pub made: u64,
    /// That missed the first level.
    pub missed_first: u64,
    /// That missed the last one as well.
    pub missed_last: u64,
}

/// What it counts in all, by the names of its own output: `Ir I1mr ILmr`, `Dr D1mr DLmr`,
/// `Dw D1mw DLmw`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub fetches: References,
    pub reads: References,
    pub writes: References,
}

const EVENTS: &str = "Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw";

pub fn run(program: &Program, caches: Caches, scratch: &Scratch) -> Result<Summary> {
    let file = scratch.path("cachegrind.out");
    let geometry = |name: &str, cache: Geometry| format!("--{name}={},{},{}", cache.size, cache.ways, cache.line);
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", DEAD_LOADS]);
    command.args([
        geometry("I1", caches.i1),
        geometry("D1", caches.d1),
        geometry("LL", caches.ll),
    ]);
    command.arg(format!("--cachegrind-out-file={}", file.display()));
    command.arg(&program.path).args(&program.args);
    program.surround(&mut command)?;
    let status = command
        .stderr(Stdio::null())
        .status()
        .map_err(|e| format!("valgrind: {e}"))?;
    program.accept(status, "cachegrind")?;
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    parse(&text).ok_or(format!("{}: cannot be read", file.display()))
}

fn parse(text: &str) -> Option<Summary> {
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    line("events:").filter(|events| *events == EVENTS)?;
    let counts: std::result::Result<Vec<u64>, _> = line("summary:")?.split_whitespace().map(str::parse).collect();
    let counts: [u64; 9] = counts.ok()?.try_into().ok()?;
    let references = |at: usize| References {
        made: counts[at],
        missed_first: counts[at + 1],
        missed_last: counts[at + 2],
    };
    Some(Summary {
        fetches: references(0),
        reads: references(3),
        writes: references(6),
    })
}

#[cfg(test)]
mod tests {
    use super::{parse, References};

    #[test]
    fn summaries() {
        let text = "events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw \nfl=x\nsummary: 9 8 7 6 5 4 3 2 1\n";
        let writes = References {
            made: 3,
            missed_first: 2,
            missed_last: 1,
        };
        assert_eq!(parse(text).map(|summary| summary.writes), Some(writes));
        assert_eq!(parse("events: Ir\nsummary: 1\n"), None);
    }
}
