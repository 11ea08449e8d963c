//! objdump's listing of a program, reduced to the instructions that need a rule.

use crate::Result;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Ordinary,
    /// lackey reports one read too many.
    ExtraRead,
    /// lackey reports accesses that are none.
    Phantom,
    /// The tools' views cannot be reconciled.
    LeftOut,
}

pub struct Listing {
    special: HashMap<u64, Class>,
}

impl Listing {
    pub fn of(program: &Path) -> Result<Listing> {
        let output = Command::new("objdump")
            .args(["-d", "-w", "--no-show-raw-insn"])
            .arg(program)
            .output()
            .map_err(|e| format!("objdump: {e}"))?;
        if !output.status.success() {
            return Err(format!("objdump {}: {}", program.display(), output.status));
        }
        Ok(Listing::parse(&String::from_utf8_lossy(&output.stdout)))
    }

    pub(crate) fn parse(text: &str) -> Listing {
        let mut special = HashMap::new();
        for line in text.lines() {
            let Some((address, instruction)) = line.split_once(":\t") else {
                continue;
            };
            let Ok(pc) = u64::from_str_radix(address.trim(), 16) else {
                continue;
            };
            let class = classify(instruction);
            if class != Class::Ordinary {
                special.insert(pc, class);
            }
        }
        Listing { special }
    }

    pub fn class(&self, pc: u64) -> Class {
        self.special.get(&pc).copied().unwrap_or(Class::Ordinary)
    }

    pub fn left_out(&self, pc: u64) -> bool {
        self.class(pc) == Class::LeftOut
    }
}

/// Mnemonics, by their beginnings, for which no rule can be given.
const IRRECONCILABLE: &[&str] = &[
    "fxsave",
    "fxrstor",
    "xsave",
    "xrstor",
    "fnsave",
    "fsave",
    "frstor",
    "fldenv",
    "fnstenv",
    "vpgather",
    "vgather",
    "vpscatter",
    "vscatter",
    "vmaskmov",
    "vpmaskmov",
    "maskmov",
    "vmaskmovdqu",
    "rep lods",
    "xlat",
];

fn classify(instruction: &str) -> Class {
    let text = instruction.trim();
    let memory = text.contains('(') || text.contains("ds:") || text.contains("fs:") || text.contains("gs:");
    let (mnemonic, _) = text.split_once(' ').unwrap_or((text, ""));
    if IRRECONCILABLE.iter().any(|name| text.starts_with(name)) {
        return Class::LeftOut;
    }
    let locked = text.strip_prefix("lock ");
    let bits = |m: &str| {
        ["bt", "bts", "btr", "btc"]
            .iter()
            .any(|b| m.strip_prefix(b).is_some_and(|s| s.len() <= 1))
    };
    match locked {
        Some(rest) if rest.starts_with("cmpxchg") => Class::Ordinary,
        Some(rest) if rest.starts_with("bt") => Class::LeftOut,
        Some(_) => Class::ExtraRead,
        None if mnemonic.starts_with("xchg") && memory => Class::ExtraRead,
        None if bits(mnemonic) && memory => Class::LeftOut,
        None if bits(mnemonic) => Class::Phantom,
        None => Class::Ordinary,
    }
}

#[cfg(test)]
mod tests {
    use super::{classify, Class};

    #[test]
    fn instructions_with_rules() {
        assert_eq!(classify("lock xadd %eax,(%rdx)"), Class::ExtraRead);
        assert_eq!(classify("xchg   %al,0x10(%rdi)"), Class::ExtraRead);
        assert_eq!(classify("xchg   %ax,%ax"), Class::Ordinary);
        assert_eq!(classify("lock cmpxchg %edx,(%rdi)"), Class::Ordinary);
        assert_eq!(classify("bt     %rax,%rdx"), Class::Phantom);
        assert_eq!(classify("btsq   $0x3,0x8(%rax)"), Class::LeftOut);
        assert_eq!(classify("xsavec 0x40(%rsp)"), Class::LeftOut);
        assert_eq!(classify("mov    (%rax),%rbx"), Class::Ordinary);
    }
}
