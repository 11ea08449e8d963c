//! Markers: what a program tells of itself while it runs.
//!
//! A marker is one instruction, `nop dword ptr [rax + rax + MAGIC]` in its form with a 32-bit
//! displacement: eight bytes that do nothing, in any program on any processor, and touch no memory.
//! Compilers and assemblers pad with displacement 0 only. It takes no library, no symbol and no
//! relocation, costs what a nop costs, and survives inlining and link-time optimisation. One
//! instruction cannot be torn apart, by a branch into its middle or by a block that ends, as a
//! sequence could. The arguments are in the registers of the first three arguments of a call.
use iced_x86::{Code, Instruction, Register};

/// What a marker tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// `rsi` bytes at `rdi` have the name at `rdx`, which ends with a zero byte.
    Name,
    /// The region named at `rdx` is entered.
    Enter,
    /// It is left.
    Leave,
}

/// Displacements: `mtr` and a number.
const NAME: u64 = 0x0172_746d;
const ENTER: u64 = 0x0272_746d;
const LEAVE: u64 = 0x0372_746d;

impl Marker {
    /// The marker that an instruction is.
    pub fn of(insn: &Instruction) -> Option<Marker> {
        let form = (insn.code(), insn.memory_base(), insn.memory_index());
        if form != (Code::Nop_rm32, Register::RAX, Register::RAX) {
            return None;
        }
        Some(match insn.memory_displacement64() {
            NAME => Marker::Name,
            ENTER => Marker::Enter,
            LEAVE => Marker::Leave,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analyze, Exit, Options};
    use memtrail_ring::Probes;

    const OPTIONS: Options = Options {
        probes: Probes::Loop,
        max_block: 64,
    };

    #[test]
    fn a_marker_ends_its_block_and_touches_no_memory() {
        for (number, marker) in [(1, Marker::Name), (2, Marker::Enter), (3, Marker::Leave)] {
            // push rax; the marker; pop rax; ret
            let code = [0x50, 0x0f, 0x1f, 0x84, 0x00, 0x6d, 0x74, 0x72, number, 0x58, 0xc3];
            let block = analyze(&code, 0x1000, &OPTIONS).unwrap();
            assert_eq!(block.exit, Exit::Marker(marker));
            assert_eq!((block.insns.len(), block.plan.bytes), (2, 9));
            assert_eq!(block.plan.accesses.len(), 1);
        }
    }

    #[test]
    fn other_nops_are_none() {
        for nop in [
            &[0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0][..],
            &[0x0f, 0x1f, 0x84, 0x00, 0x6d, 0x74, 0x72, 0x04],
            &[0x0f, 0x1f, 0x80, 0x6d, 0x74, 0x72, 0x01],
            &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x6d, 0x74, 0x72, 0x01],
            &[0x90],
        ] {
            let code = [nop, &[0xc3]].concat();
            let block = analyze(&code, 0x1000, &OPTIONS).unwrap();
            assert_eq!(block.exit, Exit::Return, "{nop:x?}");
        }
    }
}
