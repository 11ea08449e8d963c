//! Which registers an instruction touches, and how it uses its memory operand.
//!
//! The decoder's own tables know this for every instruction, but asking them costs as much as
//! decoding. Four of five instructions are of a few plain kinds whose effects are read off the
//! operands; a test holds the two ways against each other.
use crate::symbolic::{gpr, RSP_REG};
use iced_x86::{Code, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effects {
    /// General registers read or written, by hardware number.
    pub used: u16,
    /// Those written, also if only sometimes or in part.
    pub written: u16,
    /// The memory operand is read, written.
    pub reads: bool,
    pub writes: bool,
}

/// The effects of `insn`; `infos` is working memory.
pub fn effects(insn: &Instruction, infos: &mut InstructionInfoFactory) -> Effects {
    plain(insn).unwrap_or_else(|| looked_up(insn, infos))
}

/// As the decoder's tables have it.
pub fn looked_up(insn: &Instruction, infos: &mut InstructionInfoFactory) -> Effects {
    let info = infos.info(insn);
    let mut e = Effects {
        used: 0,
        written: 0,
        reads: false,
        writes: false,
    };
    for u in info.used_registers() {
        if let Some(r) = gpr(u.register()) {
            e.used |= 1 << r;
            if matches!(
                u.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            ) {
                e.written |= 1 << r;
            }
        }
    }
    if let Some(op) = crate::accesses::memory_operand(insn) {
        (e.reads, e.writes) = match info.op_access(op) {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            OpAccess::None | OpAccess::NoMemAccess => (false, false),
        };
    }
    e
}

/// What the first operand is to an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Read,
    Write,
    Both,
}

/// The plain kinds; `None` for everything else.
fn plain(insn: &Instruction) -> Option<Effects> {
    use Mnemonic::*;
    let (first, stack) = match insn.mnemonic() {
        Mov | Movzx | Movsx | Movsxd | Lea => (First::Write, false),
        Add | Sub | And | Or | Xor | Inc | Dec | Neg | Not | Shl | Shr | Sar => (First::Both, false),
        Cmp | Test => (First::Read, false),
        Push => (First::Read, true),
        Pop => (First::Write, true),
        Call if insn.code() == Code::Call_rel32_64 => (First::Read, true),
        Ret if matches!(insn.code(), Code::Retnq | Code::Retnq_imm16) => (First::Read, true),
        Jmp if insn.op0_kind() == OpKind::NearBranch64 => (First::Read, false),
        _ if insn.is_jcc_short_or_near() => (First::Read, false),
        _ => return None,
    };
    let mut e = Effects {
        used: 0,
        written: 0,
        reads: false,
        writes: false,
    };
    if stack {
        e.used |= 1 << RSP_REG;
        e.written |= 1 << RSP_REG;
    }
    for op in 0..insn.op_count() {
        match insn.op_kind(op) {
            OpKind::Register => {
                let r = gpr(insn.op_register(op))?;
                e.used |= 1 << r;
                if op == 0 && first != First::Read {
                    e.written |= 1 << r;
                }
            }
            OpKind::Memory => {
                for part in [insn.memory_base(), insn.memory_index()] {
                    if let Some(r) = gpr(part) {
                        e.used |= 1 << r;
                    }
                }
                let none = insn.mnemonic() == Lea;
                e.reads = !none && (op > 0 || first != First::Write);
                e.writes = !none && op == 0 && first != First::Read;
            }
            _ => {}
        }
    }
    Some(e)
}
