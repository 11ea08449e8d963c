//! pycachesim, a cache simulator in C with a Python interface, from the Python package index.
//!
//! It lives in a virtual environment under the target directory, which is made when it is first
//! needed and then stays. Making it takes the Debian packages `python3-venv` and `python3-dev`, a C
//! compiler and a way to the package index.

use crate::Result;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub const VERSION: &str = "0.3.1";
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// One cache of a hierarchy; `policy` is `LRU` or `FIFO`.
#[derive(Clone, Copy, Debug)]
pub enum Cache {
    Level {
        sets: u64,
        ways: u32,
        line: u32,
        policy: &'static str,
        write_back: bool,
        allocate: bool,
    },
    /// Beside the level before it.
    Victim {
        sets: u64,
        ways: u32,
        line: u32,
        policy: &'static str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub write: bool,
    pub address: u64,
    pub size: u32,
}

/// What it counts at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    pub loads: u64,
    pub stores: u64,
    /// Of lines, by loads alone.
    pub hits: u64,
    pub misses: u64,
    pub evicts: u64,
}

/// Runs the accesses through a hierarchy, from the processor outwards.
pub fn run(caches: &[Cache], accesses: &[Access]) -> Result<Vec<Stats>> {
    let mut input = String::new();
    for cache in caches {
        let written = match *cache {
            Cache::Level {
                sets,
                ways,
                line,
                policy,
                write_back,
                allocate,
            } => writeln!(
                input,
                "level {sets} {ways} {line} {policy} {} {}",
                u8::from(write_back),
                u8::from(allocate)
            ),
            Cache::Victim {
                sets,
                ways,
                line,
                policy,
            } => writeln!(input, "victim {sets} {ways} {line} {policy}"),
        };
        written.map_err(|e| e.to_string())?;
    }
    for access in accesses {
        let kind = if access.write { 'W' } else { 'R' };
        writeln!(input, "{kind} {} {}", access.address, access.size).map_err(|e| e.to_string())?;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/pycachesim.py");
    let mut child = Command::new(python()?)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("python: {e}"))?;
    // The script reads all of its input before it writes.
    let mut stdin = child.stdin.take().ok_or("no pipe")?;
    stdin.write_all(input.as_bytes()).map_err(|e| format!("python: {e}"))?;
    drop(stdin);
    let output = child.wait_with_output().map_err(|e| format!("python: {e}"))?;
    if !output.status.success() {
        return Err(format!("pycachesim.py: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(|line| parse(line).ok_or(format!("pycachesim.py: cannot read `{line}`")))
        .collect()
}

fn parse(line: &str) -> Option<Stats> {
    let numbers: Vec<u64> = line
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    let &[loads, stores, hits, misses, evicts] = numbers.as_slice() else {
        return None;
    };
    Some(Stats {
        loads,
        stores,
        hits,
        misses,
        evicts,
    })
}

/// A Python that has pycachesim.
fn python() -> Result<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf>> = OnceLock::new();
    match PYTHON.get_or_init(environment) {
        Ok(path) => Ok(path),
        Err(why) => Err(why.clone()),
    }
}

fn environment() -> Result<PathBuf> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    // target/PROFILE/deps/TEST
    python_in(me.ancestors().nth(3).ok_or("no target directory")?)
}

/// A Python that has pycachesim, under this target directory.
pub fn python_in(target: &Path) -> Result<PathBuf> {
    let venv = target.join(format!("pycachesim-{VERSION}"));
    let python = venv.join("bin/python");
    let works = || {
        let import = ["-c", "import cachesim.backend"];
        let status = Command::new(&python).args(import).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if works() {
        return Ok(python);
    }
    let step = |command: &mut Command| {
        let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let needed = "pycachesim needs the Debian packages python3-venv and python3-dev, and the Python package index";
        Err(format!("{command:?}: {}\n{said}\n{needed}", output.status))
    };
    step(Command::new(SYSTEM_PYTHON).args(["-m", "venv", "--clear"]).arg(&venv))?;
    step(
        Command::new(&python)
            .args(["-m", "pip", "install", "--no-deps"])
            .arg(format!("pycachesim=={VERSION}")),
    )?;
    if works() {
        return Ok(python);
    }
    Err(format!(
        "{}: pycachesim is installed but cannot be imported",
        venv.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn stats() {
        assert_eq!(
            parse("5 4 3 2 1").map(|stats| (stats.loads, stats.evicts)),
            Some((5, 1))
        );
        assert_eq!(parse("5 4"), None);
    }
}
