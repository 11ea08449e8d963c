//! What an access is for that no expression of the source stands for, told by its instruction.
//!
//! A compiler adds accesses of its own: it keeps registers on the stack, reads constants from
//! beside the code, and calls push addresses. Recordings hold the code, so the instruction tells.
use super::names::Names;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use memtrail_decode::{Block, PointInfo};
use std::collections::HashMap;

/// By point: what its accesses are, as far as the instruction tells.
pub fn words(blocks: &[Block], points: &[PointInfo], names: &Names) -> Vec<Option<&'static str>> {
    let mut by_code: HashMap<u64, Option<&'static str>> = HashMap::new();
    for block in blocks {
        let Some(code) = block.code() else { continue };
        for access in &block.plan.accesses {
            let at = block.code_address(access.insn);
            by_code.entry(at).or_insert_with(|| {
                let begin = block.plan.insn_offsets.get(usize::from(access.insn)).copied();
                let (_, length) = block.plan.instruction(access.insn);
                let begin = usize::from(begin?);
                let bytes = code.get(begin..begin + length as usize)?;
                let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
                word(&instruction, |target| is_constant(names, at, target))
            });
        }
    }
    let word = |point: &PointInfo| by_code.get(&point.code).copied().flatten();
    points.iter().map(word).collect()
}

/// Whether an address near an instruction is in a part of its file that nothing can be written to.
fn is_constant(names: &Names, code: u64, target: u64) -> bool {
    let place = names.code(code);
    let Some((module, (_, offset))) = names.module_of(code).zip(place.place.as_ref()) else {
        return false;
    };
    let Some(vaddr) = module.to_vaddr(*offset) else {
        return false;
    };
    let target = target.wrapping_sub(code).wrapping_add(vaddr);
    let inside = |s: &&memtrail_symbols::Segment| target.checked_sub(s.vaddr).is_some_and(|at| at < s.memsz);
    module
        .segments()
        .iter()
        .find(inside)
        .is_some_and(|segment| !segment.writable)
}

fn word(instruction: &Instruction, is_constant: impl Fn(u64) -> bool) -> Option<&'static str> {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Ret | M::Retf => return Some("return address"),
        M::Call if !has_memory(instruction) => return Some("return address"),
        M::Push | M::Pushfq if !has_memory(instruction) => return Some("saved register"),
        M::Pop | M::Popfq | M::Leave | M::Enter if !has_memory(instruction) => return Some("saved register"),
        M::Movsb | M::Movsw | M::Movsd | M::Movsq if instruction.is_string_instruction() => return Some("copy"),
        M::Stosb | M::Stosw | M::Stosd | M::Stosq => return Some("fill"),
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq if instruction.is_string_instruction() => return Some("comparison"),
        M::Xsave | M::Xsavec | M::Xsaveopt | M::Xsave64 | M::Xsavec64 | M::Xsaveopt64 | M::Fxsave | M::Fxsave64 => {
            return Some("saved registers")
        }
        M::Xrstor | M::Xrstor64 | M::Fxrstor | M::Fxrstor64 => return Some("saved registers"),
        _ => {}
    }
    if !has_memory(instruction) {
        return None;
    }
    if matches!(instruction.segment_prefix(), Register::FS | Register::GS) {
        return Some("thread-local");
    }
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    match (base, index) {
        (Register::RSP | Register::RBP, Register::None) => Some("spill"),
        (Register::RIP, _) if is_constant(instruction.ip_rel_memory_address()) => Some("constant"),
        (Register::RIP, _) => Some("static data"),
        _ => None,
    }
}

fn has_memory(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Option<&'static str> {
        let instruction = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        // Whatever lies below 0x2000 is read-only here.
        word(&instruction, |target| target < 0x2000)
    }

    #[test]
    fn what_a_compiler_adds_is_known_by_its_instruction() {
        assert_eq!(of(&[0xc3]), Some("return address"), "ret");
        assert_eq!(of(&[0xe8, 0, 0, 0, 0]), Some("return address"), "call");
        assert_eq!(of(&[0x55]), Some("saved register"), "push rbp");
        assert_eq!(of(&[0x5d]), Some("saved register"), "pop rbp");
        assert_eq!(of(&[0x48, 0x8b, 0x44, 0x24, 0x08]), Some("spill"), "mov rax, [rsp+8]");
        assert_eq!(of(&[0x48, 0x89, 0x45, 0xf8]), Some("spill"), "mov [rbp-8], rax");
        assert_eq!(
            of(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]),
            Some("constant"),
            "mov rax, [rip+0x10]"
        );
        assert_eq!(
            of(&[0x48, 0x8b, 0x05, 0, 0x10, 0, 0]),
            Some("static data"),
            "mov rax, [rip+0x1000]"
        );
        assert_eq!(of(&[0xf3, 0x48, 0xa5]), Some("copy"), "rep movsq");
        assert_eq!(of(&[0xf3, 0x48, 0xab]), Some("fill"), "rep stosq");
        assert_eq!(
            of(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]),
            Some("thread-local"),
            "mov rax, fs:[0x28]"
        );
        assert_eq!(of(&[0x48, 0x8b, 0x04, 0x8f]), None, "mov rax, [rdi+rcx*4]");
        // A call through memory reads a pointer and writes a return address: what it is, is open.
        assert_eq!(of(&[0xff, 0x10]), None, "call [rax]");
    }
}
