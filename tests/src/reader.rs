//! The independent reader, `reader/memtrail_reader.py`: written from docs/trace-format.md alone, and compared with `memtrail dump`.

use crate::compare::{parse, same_accesses};
use crate::run::{dump, text_of};
use std::path::Path;
use std::process::Command;

/// The distribution's, which has the packages of the distribution: no version manager's.
const PYTHON: &str = "/usr/bin/python3";

/// Runs the reader; its standard output.
fn reader(arguments: &[&str], trace: &Path) -> Result<String, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("reader/memtrail_reader.py");
    let mut command = Command::new(PYTHON);
    command.arg("-B").arg(script).args(arguments).arg(trace);
    text_of(command).map_err(|error| match error.contains("No module named 'zstandard'") {
        true => format!("{error}\ninstall the Debian package python3-zstandard"),
        false => error,
    })
}

/// Every access of a recording, one thread after the other.
pub fn accesses(trace: &Path) -> Result<String, String> {
    reader(&[], trace)
}

/// What of the format a recording makes use of.
pub fn features(trace: &Path) -> Result<Vec<String>, String> {
    let text = reader(&["--features"], trace)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Demands that `memtrail dump` prints what the reader prints, thread by thread.
pub fn agree(trace: &Path) -> Result<(), String> {
    let read = accesses(trace)?;
    let mut rest = read.as_str();
    while let Some((thread, _)) = rest.split_once(' ') {
        let own = |line: &&str| line.split_once(' ').is_some_and(|l| l.0 == thread);
        let length = rest.split_inclusive('\n').take_while(own).map(str::len).sum();
        let (lines, others) = rest.split_at(length);
        let dumped = dump(trace, &["--thread", thread])?;
        if dumped != lines {
            same_accesses(&parse(lines.as_bytes())?, &parse(dumped.as_bytes())?)?;
            return Err(format!("thread {thread}: the same accesses, printed differently"));
        }
        rest = others;
    }
    let all = dump(trace, &[])?.lines().count();
    match read.lines().count() {
        found if found == all => Ok(()),
        found => Err(format!("the reader finds {found} accesses, dump {all}")),
    }
}
