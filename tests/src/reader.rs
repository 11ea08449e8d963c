//! Two readers in Python, compared with `memtrail dump`. `cleanroom/memtrail_reader.py` was written
//! from docs/trace-format.md alone, by somebody who had seen none of the code.
//! `reader/memtrail_reader.py` follows the same page and also tells what of the format a file makes
//! use of.

use crate::compare::{parse, same_accesses};
use crate::run::{dump, text_of};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The distribution's, which has the packages of the distribution: no version manager's.
const PYTHON: &str = "/usr/bin/python3";

/// Runs one of our Python programs; its standard output.
fn python(script: &str, arguments: &[&OsStr]) -> Result<String, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let mut command = Command::new(PYTHON);
    command.arg("-B").arg(script).args(arguments);
    text_of(command).map_err(|error| match error.contains("No module named 'zstandard'") {
        true => format!("{error}\ninstall the Debian package python3-zstandard"),
        false => error,
    })
}

fn reader(option: &[&str], trace: &Path) -> Result<String, String> {
    let arguments: Vec<&OsStr> = option.iter().map(OsStr::new).chain([trace.as_os_str()]).collect();
    python("reader/memtrail_reader.py", &arguments)
}

/// Makes damaged files out of a valid one.
pub fn make_invalid(valid: &Path, directory: &Path, suffix: &str) -> Result<(), String> {
    let arguments = [valid.as_os_str(), directory.as_os_str(), OsStr::new(suffix)];
    python("golden/make_invalid.py", &arguments).map(|_| ())
}

/// As [`accesses`], read by the reader that knows nothing but the specification.
pub fn clean_room(trace: &Path) -> Result<String, String> {
    python("cleanroom/memtrail_reader.py", &[trace.as_os_str()])
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

/// Demands that `memtrail dump` prints what the clean-room reader prints, thread by thread.
pub fn agree(trace: &Path) -> Result<(), String> {
    same_as_dump(trace, &clean_room(trace)?)
}

/// Demands that `memtrail dump` prints these lines, thread by thread.
pub fn same_as_dump(trace: &Path, expected: &str) -> Result<(), String> {
    let mut rest = expected;
    while let Some((thread, _)) = rest.split_once(' ') {
        let length = rest
            .split_inclusive('\n')
            .take_while(|l| thread_of(l) == thread)
            .map(str::len);
        let (lines, others) = rest.split_at(length.sum());
        let dumped = dump(trace, &["--thread", thread])?;
        if dumped != lines {
            same_accesses(&parse(lines.as_bytes())?, &parse(dumped.as_bytes())?)?;
            return Err(format!("thread {thread}: the same accesses, printed differently"));
        }
        rest = others;
    }
    let all = dump(trace, &[])?.lines().count();
    match expected.lines().count() {
        count if count == all => Ok(()),
        count => Err(format!("{count} accesses are expected, dump prints {all}")),
    }
}

/// The thread of an access's line.
fn thread_of(line: &str) -> &str {
    line.split_once(' ').map_or("", |l| l.0)
}

/// Lines of accesses, one thread after the other.
pub fn by_thread(dumped: &str) -> String {
    let mut lines: Vec<&str> = dumped.split_inclusive('\n').collect();
    lines.sort_by_key(|line| thread_of(line).parse::<u32>().unwrap_or(u32::MAX));
    lines.concat()
}
