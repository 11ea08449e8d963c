//! QEMU in user mode with the plugin `peers/plugin/count.c`.

use crate::profile::{Counts, Function};
use crate::program::{Program, Scratch};
use crate::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// QEMU's view: sums by instruction, in pieces of at most 8 bytes.
#[derive(Debug, Default)]
pub struct Pieces {
    pub by_pc: BTreeMap<u64, Counts>,
}

impl Pieces {
    pub fn of(&self, function: &Function, left_out: impl Fn(u64) -> bool) -> Counts {
        let mut sum = Counts::default();
        for (_, counts) in self
            .by_pc
            .range(function.start..function.end)
            .filter(|(pc, _)| !left_out(**pc))
        {
            sum.add(counts);
        }
        sum
    }
}

pub fn profile(program: &Program, scratch: &Scratch) -> Result<Pieces> {
    let plugin = scratch.path("count.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugin/count.c");
    scratch.compile(&["-O2", "-shared", "-fPIC", "-fvisibility=hidden"], &source, &plugin)?;
    let counts = scratch.path("qemu.txt");
    let mut command = Command::new("qemu-x86_64");
    command.args(["-cpu", "max", "-plugin"]);
    command.arg(format!("{},out={}", plugin.display(), counts.display()));
    command.arg(&program.path).args(&program.args);
    program.surround(&mut command)?;
    let status = command
        .stderr(Stdio::inherit())
        .status()
        .map_err(|e| format!("qemu-x86_64: {e}"))?;
    program.accept(status, "QEMU")?;
    let text = std::fs::read_to_string(&counts).map_err(|e| format!("{}: {e}", counts.display()))?;
    parse(&text, program.code_start()?).ok_or("the plugin's output is broken".into())
}

/// `C` gives where the code begins in memory; less where it begins in the file, that is the load
/// address.
fn parse(text: &str, code_start: u64) -> Option<Pieces> {
    let mut lines = text.lines();
    let start = u64::from_str_radix(lines.next()?.strip_prefix("C ")?, 16).ok()?;
    let base = start.wrapping_sub(code_start);
    let mut pieces = Pieces::default();
    for line in lines {
        let mut words = line.strip_prefix("A ")?.split(' ');
        let pc = u64::from_str_radix(words.next()?, 16).ok()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let counts = Counts {
            reads: number()?,
            read_bytes: number()?,
            writes: number()?,
            written_bytes: number()?,
        };
        pieces.by_pc.insert(pc.wrapping_sub(base), counts);
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn load_address_is_taken_off() {
        let pieces = parse("C 4000003000\nA 4000003010 1 8 0 0\n", 0x3000).expect("well formed");
        assert_eq!(pieces.by_pc[&0x3010].read_bytes, 8);
    }
}
