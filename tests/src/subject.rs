//! Programs, built, recorded, simulated and asked for tables as a user would do it.

use crate::tools;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A program and a recording of one run of it.
#[derive(Clone, Debug)]
pub struct Subject {
    pub program: PathBuf,
    pub recording: PathBuf,
}

/// A table for programs, and what was said beside it.
#[derive(Clone, Debug)]
pub struct Table {
    pub found: Value,
    pub said: String,
}

impl Subject {
    /// Compiles a source and records it.
    pub fn new(name: &str, source: &str, flags: &[&str], args: &[&str]) -> Result<Subject, String> {
        Subject::record(built(name, source, flags)?, args)
    }

    /// Records a program that was built, without randomisation.
    pub fn record(program: PathBuf, args: &[&str]) -> Result<Subject, String> {
        let recording = program.with_extension("mtr");
        Subject::record_to(recording, program, args)
    }

    /// Records any program, without randomisation.
    pub fn record_to(recording: PathBuf, program: PathBuf, args: &[&str]) -> Result<Subject, String> {
        let mut record = Command::new(tools::memtrail()?);
        record.args(["record", "--no-aslr", "--force", "-o"]).arg(&recording);
        ran(record.arg("--").arg(&program).args(args))?;
        Ok(Subject { program, recording })
    }

    /// What `memtrail COMMAND --json` says of the recording. It must succeed.
    pub fn table(&self, command: &str, options: &[&str]) -> Result<Table, String> {
        let mut asked = Command::new(tools::memtrail()?);
        let output = ran(asked.args([command, "--json"]).args(options).arg(&self.recording))?;
        let found = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(Table { found, said })
    }

    /// Where a function lies, as `sim --pc` takes it.
    pub fn range_of(&self, function: &str) -> Result<String, String> {
        let symbols = output(Command::new("nm").arg("--print-size").arg(&self.program))?;
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        let found = symbols.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [start, size, _, name] if name == function => Some((hex(start)?, hex(size)?)),
                _ => None,
            }
        });
        let (start, size) = found.ok_or(format!("{}: no {function}", self.program.display()))?;
        Ok(format!("{start:#x}-{:#x}", start + size))
    }

    /// What `sim --json` says.
    pub fn simulated(&self, options: &[&str]) -> Result<Value, String> {
        let mut sim = Command::new(tools::memtrail()?);
        let text = output(sim.args(["sim", "--json"]).args(options).arg(&self.recording))?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    }
}

/// Compiles a source, given from the workspace's root, statically and at a fixed address. `name`
/// keeps it apart from others.
pub fn built(name: &str, source: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let fixed = ["-static", "-fno-pie", "-no-pie"];
    compiled("gcc", name, &source_path(source), &[&fixed, flags].concat())
}

/// Compiles a source. `name` keeps the program apart from others.
pub fn compiled(compiler: &str, name: &str, source: &Path, flags: &[&str]) -> Result<PathBuf, String> {
    let program = tools::work_directory().join(name);
    let mut compiler = Command::new(compiler);
    output(compiler.args(flags).arg("-o").arg(&program).arg(source))?;
    Ok(program)
}

/// A path that is given from the workspace's root.
pub fn source_path(source: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(source)
}

/// What a command prints; it must succeed.
pub fn output(command: &mut Command) -> Result<String, String> {
    String::from_utf8(ran(command)?.stdout).map_err(|e| e.to_string())
}

/// Runs a command, which must succeed.
fn ran(command: &mut Command) -> Result<Output, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}\n{said}", output.status))
}
