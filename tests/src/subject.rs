//! Programs in C, built, recorded and simulated as a user would do it.

use crate::tools;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program and a recording of one run of it.
#[derive(Clone, Debug)]
pub struct Subject {
    pub program: PathBuf,
    pub recording: PathBuf,
}

impl Subject {
    /// Compiles a source and records it.
    pub fn new(name: &str, source: &str, flags: &[&str], args: &[&str]) -> Result<Subject, String> {
        Subject::record(built(name, source, flags)?, args)
    }

    /// Records a program without randomisation.
    pub fn record(program: PathBuf, args: &[&str]) -> Result<Subject, String> {
        let recording = program.with_extension("mtr");
        let mut record = Command::new(tools::memtrail()?);
        record.args(["record", "--no-aslr", "--force", "-o"]).arg(&recording);
        output(record.arg("--").arg(&program).args(args))?;
        Ok(Subject { program, recording })
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

/// Compiles a source, given from the workspace's root, statically and at a fixed address. `name` keeps it apart from others.
pub fn built(name: &str, source: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let program = tools::work_directory().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(source);
    let mut compiler = Command::new("gcc");
    compiler.args(["-static", "-fno-pie", "-no-pie"]).args(flags);
    output(compiler.arg("-o").arg(&program).arg(source))?;
    Ok(program)
}

/// What a command prints; it must succeed.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|e| e.to_string());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}\n{said}", output.status))
}
