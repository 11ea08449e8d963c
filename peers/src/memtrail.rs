//! memtrail itself: record, dump, add up.
//!
//! The binary is `MEMTRAIL_BIN`, or the one that was built with this test.

use crate::profile::{Direction, Profile};
use crate::program::{unrandomised_load_address, Program, Scratch};
use crate::Result;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The stages of probes that record; all must give the same.
pub const STAGES: [&str; 3] = ["naive", "block", "loop"];

pub fn binary() -> Result<PathBuf> {
    let path = match std::env::var_os("MEMTRAIL_BIN") {
        Some(path) => PathBuf::from(path),
        None => {
            let me = std::env::current_exe().map_err(|e| e.to_string())?;
            let profile = me
                .parent()
                .and_then(|deps| deps.parent())
                .ok_or("no target directory")?;
            profile.join("memtrail")
        }
    };
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!(
            "{} does not exist; build package memtrail with the same profile, or set MEMTRAIL_BIN",
            path.display()
        ))
    }
}

/// memtrail's view, which is the architectural one. `probes` is the value of `--probes`.
pub fn profile(program: &Program, scratch: &Scratch, probes: &str) -> Result<Profile> {
    let memtrail = binary()?;
    let file = scratch.path(&format!("{probes}.mtr"));
    let base = unrandomised_load_address(program)?;
    let mut record = Command::new(&memtrail);
    record.args(["record", "-f", "--probes", probes]);
    // Randomisation matters to position-independent programs alone; some containers forbid
    // switching it off.
    if base != 0 {
        record.arg("--no-aslr");
    }
    record.arg("-o").arg(&file);
    record.arg("--").arg(&program.path).args(&program.args);
    program.surround(&mut record)?;
    let status = record.status().map_err(|e| format!("memtrail record: {e}"))?;
    program.accept(status, "memtrail record")?;

    let mut dump = Command::new(&memtrail)
        .arg("dump")
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("memtrail dump: {e}"))?;
    let stdout = dump.stdout.take().ok_or("no pipe")?;
    let mut profile = Profile::default();
    for line in BufReader::with_capacity(1 << 20, stdout).lines() {
        let line = line.map_err(|e| format!("memtrail dump: {e}"))?;
        let (pc, kind, size) = parse(&line).ok_or_else(|| format!("memtrail dump: cannot read `{line}`"))?;
        match kind {
            "R" => profile.add(pc.wrapping_sub(base), Direction::Read, size, 1),
            "W" => profile.add(pc.wrapping_sub(base), Direction::Write, size, 1),
            // Neither emulator reports prefetches.
            _ => {}
        }
    }
    let status = dump.wait().map_err(|e| format!("memtrail dump: {e}"))?;
    if !status.success() {
        return Err(format!("memtrail dump: {status}"));
    }
    let _ = std::fs::remove_file(file);
    Ok(profile)
}

/// `thread pc R|W|P address size`
fn parse(line: &str) -> Option<(u64, &str, u32)> {
    let mut words = line.split_whitespace();
    let _thread = words.next()?;
    let pc = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    let kind = words.next().filter(|k| matches!(*k, "R" | "W" | "P"))?;
    let _address = words.next()?;
    Some((pc, kind, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn dump_lines() {
        assert_eq!(parse("0 0x401000 R 0x7ffc0000 8"), Some((0x401000, "R", 8)));
        assert_eq!(parse("nonsense"), None);
    }
}
