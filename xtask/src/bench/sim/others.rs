//! The same work done by others: cachegrind on the same program, pycachesim on the same addresses.
//!
//! Cachegrind simulates while it translates; what translation alone costs (`--tool=none`) is
//! measured as well. It also simulates the fetches of instructions and a last level, which cannot
//! be switched off. pycachesim gets bare addresses, in memory, all as loads, and counts for the
//! level as a whole. Dinero IV is in neither Debian nor the Python package index.

use super::{text, words, Tools};
use crate::bench::record::timed;
use crate::bench::workloads::Prepared;
use crate::packages::Package;
use crate::project::{root, target_dir};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

pub const PACKAGES: [Package; 3] = [("valgrind", "valgrind"), ("python3-venv", ""), ("python3-dev", "")];

#[derive(Clone, Copy, Debug)]
pub struct Peers {
    /// Wall seconds.
    pub cachegrind: f64,
    pub translation: f64,
    /// Millions of accesses a second.
    pub pycachesim: f64,
}

impl Peers {
    pub fn json(&self) -> Value {
        json!({
            "cachegrind_seconds": self.cachegrind,
            "valgrind_none_seconds": self.translation,
            "pycachesim_million_accesses_per_second": self.pycachesim,
        })
    }
}

/// A Python that has pycachesim.
pub fn python() -> Result<PathBuf, String> {
    peers::pycachesim::python_in(&target_dir())
}

/// Once: they take minutes.
pub fn measure(
    prepared: &Prepared,
    tools: &Tools,
    python: &Path,
    recording: &Path,
    most: u64,
) -> Result<Peers, String> {
    let valgrind = |options: &[&str]| {
        let mut argv = words(&["valgrind"]);
        argv.extend(words(options));
        argv.extend(prepared.argv.iter().cloned());
        timed(&argv, prepared, &tools.dir, None)
    };
    let caches = [
        "--tool=cachegrind",
        "--cache-sim=yes",
        "--I1=32768,8,64",
        "--D1=32768,8,64",
        "--LL=8388608,16,64",
        "--cachegrind-out-file=/dev/null",
    ];
    Ok(Peers {
        translation: valgrind(&["--tool=none"])?,
        cachegrind: valgrind(&caches)?,
        pycachesim: pycachesim(prepared, tools, python, recording, most)?,
    })
}

fn pycachesim(prepared: &Prepared, tools: &Tools, python: &Path, recording: &Path, most: u64) -> Result<f64, String> {
    let (addresses, said) = (tools.dir.join("addresses.bin"), tools.dir.join("pycachesim.txt"));
    let (memtrail, limit) = (text(&tools.memtrail), most.to_string());
    let output = text(&addresses);
    let export = [
        &memtrail,
        "export",
        "--format",
        "raw",
        "--limit",
        &limit,
        "--force",
        "-o",
        &output,
        &text(recording),
    ];
    timed(&words(&export), prepared, &tools.dir, None)?;
    let script = text(&root().join("peers/programs/pycachesim_speed.py"));
    timed(
        &words(&[&text(python), &script, &output]),
        prepared,
        &tools.dir,
        Some(&said),
    )?;
    // It is large.
    std::fs::remove_file(&addresses).map_err(|e| format!("{output}: {e}"))?;
    let line = std::fs::read_to_string(&said).map_err(|e| format!("{}: {e}", said.display()))?;
    let mut numbers = line.split_whitespace().map(|word| word.parse::<f64>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(accesses), Some(seconds)) if seconds > 0.0 => Ok(accesses / seconds / 1e6),
        _ => Err(format!("pycachesim_speed.py said `{line}`")),
    }
}
