//! The oracle's table of directions against the decoder's, over every instruction that exists.
//!
//! The oracle decides by its own rules whether an operand is read or written.
//! The decoder library has an opinion too, made by other people from the same
//! manuals. They must agree, except where the two mean different things: those
//! cases are listed here, each with its reason.

use iced_x86::{
    Code, CpuidFeature, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpCodeOperandKind, OpKind, Register,
};
use memtrail_oracle::direction::{direction, Direction};

/// Instructions that no user program on a 64-bit Linux can run to its end, or that no sold CPU has
/// kept.
fn out_of_scope(code: Code) -> bool {
    let info = code.op_code();
    let gone = [
        CpuidFeature::MPX,
        CpuidFeature::KNC,
        CpuidFeature::VMX,
        CpuidFeature::SVM,
        CpuidFeature::INVPCID,
        CpuidFeature::SMX,
        CpuidFeature::PADLOCK_ACE,
        CpuidFeature::AMX_TILE,
        CpuidFeature::CET_SS,
        CpuidFeature::KL,
        CpuidFeature::AESKLE,
        CpuidFeature::WIDE_KL,
        CpuidFeature::AVX512PF,
        CpuidFeature::ENQCMD,
    ];
    !info.mode64() || info.must_be_cpl0() || code.cpuid_features().iter().any(|f| gone.contains(f))
}

fn may_be_memory(kind: OpCodeOperandKind) -> bool {
    let name = format!("{kind:?}");
    name.contains("mem") && !name.contains("vsib")
}

fn as_direction(access: OpAccess) -> Direction {
    match access {
        OpAccess::Read | OpAccess::CondRead => Direction::Read,
        OpAccess::Write | OpAccess::CondWrite => Direction::Write,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Direction::ReadThenWrite,
        OpAccess::NoMemAccess | OpAccess::None => Direction::Nothing,
    }
}

#[test]
fn every_memory_operand_has_the_same_direction() {
    let mut factory = InstructionInfoFactory::new();
    let mut disagreements = Vec::new();
    let mut compared = 0;
    for code in Code::values().filter(|&code| !out_of_scope(code)) {
        let info = code.op_code();
        for operand in 0..info.op_count() {
            if !may_be_memory(info.op_kind(operand)) || dealt_with_elsewhere(code.mnemonic()) {
                continue;
            }
            let mut instruction = Instruction::default();
            instruction.set_code(code);
            // A fifth operand is always an immediate.
            for other in 0..info.op_count().min(4) {
                instruction.set_op_kind(other, OpKind::Register);
                instruction.set_op_register(other, Register::RCX);
            }
            instruction.set_op_kind(operand, OpKind::Memory);
            instruction.set_memory_base(Register::RBX);
            let theirs = as_direction(factory.info(&instruction).op_access(operand));
            let ours = direction(&instruction, operand);
            compared += 1;
            if ours != Some(theirs) && !differs_on_purpose(code.mnemonic(), ours) {
                disagreements.push(format!("{code:?} operand {operand}: ours {ours:?}, theirs {theirs:?}"));
            }
        }
    }
    assert!(compared > 2000, "only {compared} operands compared");
    assert!(
        disagreements.is_empty(),
        "{} of {compared}:\n{}",
        disagreements.len(),
        disagreements.join("\n")
    );
}

/// The decoder tells what an instruction needs; memtrail, what the program reads and writes.
fn differs_on_purpose(mnemonic: Mnemonic, ours: Option<Direction>) -> bool {
    let flushes = matches!(mnemonic, Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb);
    ours == Some(Direction::Prefetch) || flushes && ours == Some(Direction::Nothing)
}

/// Planned by rules of their own, before the table is asked.
fn dealt_with_elsewhere(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Push
            | Mnemonic::Pop
            | Mnemonic::Call
            | Mnemonic::Bt
            | Mnemonic::Bts
            | Mnemonic::Btr
            | Mnemonic::Btc
            | Mnemonic::Movdir64b
            | Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64
            | Mnemonic::Xsavec
            | Mnemonic::Xsavec64
            | Mnemonic::Xrstor
            | Mnemonic::Xrstor64
    )
}
