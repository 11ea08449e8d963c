//! Valgrind's lackey: one line an access, parsed from its standard error as it comes.

use crate::profile::{Direction, Profile};
use crate::program::{load_address, Program};
use crate::Result;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Restores loads whose value is dead, which Valgrind's optimiser removes otherwise.
pub const DEAD_LOADS: &str = "--vex-iropt-register-updates=allregs-at-each-insn";
const OPTIONS: &[&str] = &["--tool=lackey", "--trace-mem=yes", "--basic-counts=no", DEAD_LOADS];

/// One line: `I` an instruction, `L` a load, `S` a store, `M` both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub kind: u8,
    pub address: u64,
    pub size: u32,
}

/// Runs a program under lackey and hands over its lines as they come, with the process that runs.
pub fn run(program: &Program, mut take: impl FnMut(u32, Line) -> Result<()>) -> Result<()> {
    let mut command = Command::new("valgrind");
    command.args(OPTIONS).arg(&program.path).args(&program.args);
    program.surround(&mut command)?;
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("valgrind: {e}"))?;
    let pid = child.id();
    let stderr = child.stderr.take().ok_or("no pipe")?;
    let mut lines = BufReader::with_capacity(1 << 20, stderr);
    let mut line = Vec::new();
    let broken = |e| format!("valgrind: {e}");
    while lines.read_until(b'\n', &mut line).map_err(broken)? > 0 {
        if let Some(line) = parse(&line) {
            take(pid, line)?;
        }
        line.clear();
    }
    let status = child.wait().map_err(|e| format!("valgrind: {e}"))?;
    program.accept(status, "lackey")
}

/// lackey's own view; see `rules::architectural`.
pub fn profile(program: &Program) -> Result<Profile> {
    let mut profile = Profile::default();
    let mut base = None;
    let mut pc = 0;
    run(program, |pid, line| {
        if line.kind == b'I' {
            // The program is mapped before its first instruction and gone after its last.
            let base = match base {
                Some(base) => base,
                None => *base.insert(load_address(program, pid)?),
            };
            pc = line.address.wrapping_sub(base);
            return Ok(());
        }
        if line.kind != b'S' {
            profile.add(pc, Direction::Read, line.size, 1);
        }
        if line.kind != b'L' {
            profile.add(pc, Direction::Write, line.size, 1);
        }
        Ok(())
    })?;
    Ok(profile)
}

/// `I  0401ab70,3`, ` L 1fff000758,8`, ` S …`, ` M …`; anything else is talk.
fn parse(line: &[u8]) -> Option<Line> {
    let kind = match line {
        [b'I', b' ', b' ', ..] => b'I',
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', ..] => *kind,
        _ => return None,
    };
    let rest = std::str::from_utf8(&line[3..]).ok()?.trim_end();
    let (address, size) = rest.split_once(',')?;
    Some(Line {
        kind,
        address: u64::from_str_radix(address, 16).ok()?,
        size: size.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{parse, Line};

    #[test]
    fn lines() {
        let line = |kind, address, size| Some(Line { kind, address, size });
        assert_eq!(parse(b"I  0401ab70,3\n"), line(b'I', 0x401ab70, 3));
        assert_eq!(parse(b" M 1fff000758,8\n"), line(b'M', 0x1fff000758, 8));
        assert_eq!(parse(b"==12== Lackey, an example\n"), None);
    }
}
