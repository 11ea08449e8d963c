//! Valgrind's lackey: one line an access, parsed from its standard error as it comes.

use crate::profile::{Direction, Profile};
use crate::program::{load_address, Program};
use crate::Result;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// The last option restores loads whose value is dead, which Valgrind's optimiser removes otherwise.
const OPTIONS: &[&str] = &[
    "--tool=lackey",
    "--trace-mem=yes",
    "--basic-counts=no",
    "--vex-iropt-register-updates=allregs-at-each-insn",
];

/// lackey's own view; see `rules::architectural`.
pub fn profile(program: &Program) -> Result<Profile> {
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
    let mut profile = Profile::default();
    let mut base = None;
    let mut pc = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines
            .read_until(b'\n', &mut line)
            .map_err(|e| format!("valgrind: {e}"))?
            == 0
        {
            break;
        }
        let Some((kind, address, size)) = parse(&line) else {
            continue;
        };
        if kind == b'I' {
            // The program is mapped before its first instruction and gone after its last.
            let base = match base {
                Some(base) => base,
                None => *base.insert(load_address(program, pid)?),
            };
            pc = address.wrapping_sub(base);
            continue;
        }
        if kind != b'S' {
            profile.add(pc, Direction::Read, size, 1);
        }
        if kind != b'L' {
            profile.add(pc, Direction::Write, size, 1);
        }
    }
    let status = child.wait().map_err(|e| format!("valgrind: {e}"))?;
    program.accept(status, "lackey")?;
    Ok(profile)
}

/// `I  0401ab70,3`, ` L 1fff000758,8`, ` S …`, ` M …`; anything else is talk.
fn parse(line: &[u8]) -> Option<(u8, u64, u32)> {
    let kind = match line {
        [b'I', b' ', b' ', ..] => b'I',
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', ..] => *kind,
        _ => return None,
    };
    let rest = std::str::from_utf8(&line[3..]).ok()?.trim_end();
    let (address, size) = rest.split_once(',')?;
    Some((kind, u64::from_str_radix(address, 16).ok()?, size.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines() {
        assert_eq!(parse(b"I  0401ab70,3\n"), Some((b'I', 0x401ab70, 3)));
        assert_eq!(parse(b" M 1fff000758,8\n"), Some((b'M', 0x1fff000758, 8)));
        assert_eq!(parse(b"==12== Lackey, an example\n"), None);
    }
}
