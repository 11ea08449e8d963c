//! One instruction of the target: copied, or rewritten where it meets r15, gs or a distance too
//! far.
use super::registers::{part, GPR64};
use super::{Emitter, SitePc, RDX};
use crate::analyze::{Block, Capture};
use crate::layout as at;
use crate::symbolic::{gpr, Atom, R15};
use iced_x86::{Code as Op, Instruction, Mnemonic, OpKind, Register};

/// The register to stand in for r15, if the block needs one.
pub(super) fn stand_in(block: &Block) -> Option<u8> {
    if block.used & (1 << R15) == 0 {
        return None;
    }
    let captured = block
        .captures
        .iter()
        .any(|c| matches!(c.atom, Atom::Gpr { reg, .. } if reg as usize == R15));
    if !captured
        && block
            .insns
            .iter()
            .all(|i| !mentions(i, R15) || works_in_memory(i).is_some())
    {
        return None;
    }
    let free = crate::STAND_INS & !block.used;
    // Prefer registers without REX-dependent byte names and away from the ABI's argument registers.
    [3u8, 14, 13, 12, 11, 10, 9, 8, 5, 7, 6, 0]
        .into_iter()
        .find(|r| free & (1 << r) != 0)
}

fn mentions(insn: &Instruction, reg: usize) -> bool {
    (0..insn.op_count()).any(|op| insn.op_kind(op) == OpKind::Register && gpr(insn.op_register(op)) == Some(reg))
        || gpr(insn.memory_base()) == Some(reg)
        || gpr(insn.memory_index()) == Some(reg)
}

/// Forms of r15 use that work on its memory cell as they are.
#[derive(Clone, Copy)]
enum InMemory {
    Push,
    Pop,
    From(u8),
    To(u8),
}

fn works_in_memory(insn: &Instruction) -> Option<InMemory> {
    match insn.code() {
        Op::Push_r64 => Some(InMemory::Push),
        Op::Pop_r64 => Some(InMemory::Pop),
        Op::Mov_r64_rm64 | Op::Mov_rm64_r64
            if insn.op0_kind() == OpKind::Register && insn.op1_kind() == OpKind::Register =>
        {
            let (d, s) = (gpr(insn.op0_register())?, gpr(insn.op1_register())?);
            match (d == R15, s == R15) {
                (true, false) => Some(InMemory::From(s as u8)),
                (false, true) => Some(InMemory::To(d as u8)),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Emitter<'_> {
    pub(super) fn enter_stand_in(&mut self) {
        if let Some(r) = self.stand_in {
            self.hot.store_gs(at::SAVED_STAND_IN, r);
            self.mark();
            self.hot.load_gs(r, at::APP_R15);
            self.now.stand_in = Some(r);
            self.mark();
        }
    }

    pub(super) fn leave_stand_in(&mut self) {
        if let Some(r) = self.stand_in {
            if self.block.writes_r15 {
                self.hot.store_gs(at::APP_R15, r);
            }
            self.hot.load_gs(r, at::SAVED_STAND_IN);
            self.now.stand_in = None;
            self.mark();
        }
    }

    pub(super) fn capture(&mut self, c: &Capture) {
        let disp = u32::from(c.word()) * 8;
        match c.atom {
            Atom::Gpr { reg, .. } => {
                let reg = if reg as usize == R15 {
                    self.stand_in.unwrap_or(reg)
                } else {
                    reg
                };
                self.hot.capture(disp, reg);
            }
            Atom::Vector { reg, words, .. } => {
                let op = match (words, reg.is_mm(), reg.number() > 15) {
                    (_, true, _) => Op::Movq_mmm64_mm,
                    (2, _, false) => Op::Movdqu_xmmm128_xmm,
                    (2, _, true) => Op::EVEX_Vmovdqu64_xmmm128_k1z_xmm,
                    (4, _, false) => Op::VEX_Vmovdqu_ymmm256_ymm,
                    (4, _, true) => Op::EVEX_Vmovdqu64_ymmm256_k1z_ymm,
                    _ => Op::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
                };
                self.store_to_buffer(op, reg, disp);
            }
            Atom::Opmask { reg, .. } => self.store_to_buffer(Op::VEX_Kmovq_m64_kr, reg, disp),
            Atom::XcompBv { pos } => {
                let mut insn = self.block.insns[pos as usize];
                let scratch = self.scratch_for(&insn);
                self.open_scratch(scratch);
                insn.set_code(Op::Mov_r64_rm64);
                insn.set_op1_kind(OpKind::Memory);
                insn.set_op0_kind(OpKind::Register);
                insn.set_op0_register(GPR64[scratch as usize]);
                let low32 = insn.memory_base().is_gpr32() || insn.memory_index().is_gpr32();
                let displacement = insn.memory_displacement64().wrapping_add(520);
                insn.set_memory_displacement64(if low32 {
                    displacement as u32 as u64
                } else {
                    displacement
                });
                if !insn.is_ip_rel_memory_operand() {
                    insn.set_memory_displ_size(if low32 { 4 } else { 8 });
                }
                let gs = insn.memory_segment() == Register::GS;
                if gs || self.out_of_reach(&insn) {
                    insn = self.load_base(insn, gs, scratch);
                } else {
                    self.rename(&mut insn);
                }
                self.encode(&insn);
                self.hot.capture(disp, scratch);
                self.close_scratch(scratch);
            }
            Atom::Carried | Atom::Derived(_) => {}
        }
        self.now.captured += 1;
        self.mark();
    }

    pub(super) fn store_to_buffer(&mut self, op: Op, reg: Register, disp: u32) {
        let m = iced_x86::MemoryOperand::with_base_displ(Register::R15, disp as i64);
        if let Ok(insn) = Instruction::with2(op, m, reg) {
            self.encode(&insn);
        }
    }

    /// Encode at the current place. Every instruction given here is encodable by construction.
    pub(super) fn encode(&mut self, insn: &Instruction) -> bool {
        let done = self.encoder.encode(insn, self.hot.here()).is_ok();
        if cfg!(test) {
            assert!(done, "cannot encode {insn:?}");
        }
        let mut bytes = self.encoder.take_buffer();
        // Were the impossible to happen, the target must not go on as if nothing were missing.
        self.hot.put(if done { &bytes } else { &[0x0f, 0x0b] });
        bytes.clear();
        self.encoder.set_buffer(bytes);
        done
    }

    pub(super) fn rename(&self, insn: &mut Instruction) {
        let Some(r) = self.stand_in else { return };
        for op in 0..insn.op_count() {
            if insn.op_kind(op) == OpKind::Register && gpr(insn.op_register(op)) == Some(R15) {
                insn.set_op_register(op, part(r, insn.op_register(op)));
            }
        }
        if gpr(insn.memory_base()) == Some(R15) {
            insn.set_memory_base(part(r, insn.memory_base()));
        }
        if gpr(insn.memory_index()) == Some(R15) {
            insn.set_memory_index(part(r, insn.memory_index()));
        }
    }

    /// One ordinary instruction.
    pub(super) fn instruction(&mut self, i: usize) {
        let insn = self.block.insns[i];
        self.now.done = i as u16;
        self.now.pc = SitePc::Const(insn.ip());
        self.mark();
        let uses_r15 = self.uses_r15 && mentions(&insn, R15);
        let gs = insn.memory_segment() == Register::GS && touches_segment(&insn);
        if uses_r15 && self.stand_in.is_none() {
            match works_in_memory(&insn) {
                Some(InMemory::Push) => self.hot.push_gs(at::APP_R15),
                Some(InMemory::Pop) => self.hot.pop_gs(at::APP_R15),
                Some(InMemory::From(r)) => self.hot.store_gs(at::APP_R15, r),
                Some(InMemory::To(r)) => self.hot.load_gs(r, at::APP_R15),
                None => {}
            }
        } else if gs {
            self.through_scratch(insn, true);
        } else if insn.is_ip_rel_memory_operand() {
            self.ip_relative(insn, i, uses_r15);
        } else if uses_r15 {
            let mut insn = insn;
            self.rename(&mut insn);
            self.encode(&insn);
        } else {
            let bytes = self.bytes_of(i);
            self.hot.put(bytes);
        }
        self.now.done = i as u16 + 1;
        self.now.pc = SitePc::Const(insn.next_ip());
        self.mark();
    }

    pub(super) fn ip_relative(&mut self, insn: Instruction, i: usize, uses_r15: bool) {
        let target = insn.ip_rel_memory_address();
        let next = self.hot.here() + insn.len() as u64;
        let distance = target.wrapping_sub(next) as i64;
        let near = distance.unsigned_abs() < 0x7fff_0000;
        let offsets = self.block.offsets[i];
        if near && !uses_r15 && offsets.displacement_size() == 4 && insn.memory_base() == Register::RIP {
            let bytes = self.bytes_of(i);
            let at = self.hot.bytes.len() + offsets.displacement_offset();
            self.hot.put(bytes);
            self.hot.bytes[at..at + 4].copy_from_slice(&(distance as u32).to_le_bytes());
        } else if near && insn.memory_base() == Register::RIP {
            let mut insn = insn;
            self.rename(&mut insn);
            self.encode(&insn);
        } else {
            self.through_scratch(insn, false);
        }
    }

    /// Is the operand relative to rip, and too far away from here?
    pub(super) fn out_of_reach(&self, insn: &Instruction) -> bool {
        insn.is_ip_rel_memory_operand()
            && (insn.ip_rel_memory_address().wrapping_sub(self.hot.here()) as i64).unsigned_abs() > 0x7fff_0000
    }

    /// A register that the instruction does not touch, for use inside its rewriting.
    pub(super) fn scratch_for(&self, insn: &Instruction) -> u8 {
        let mut infos = iced_x86::InstructionInfoFactory::new();
        let mut used = 0u16;
        for u in infos.info(insn).used_registers() {
            if let Some(r) = gpr(u.register()) {
                used |= 1 << r;
            }
        }
        if let Some(r) = self.stand_in {
            used |= 1 << r;
        }
        let free = crate::STAND_INS & !used;
        free.trailing_zeros() as u8
    }

    pub(super) fn open_scratch(&mut self, r: u8) {
        self.hot.store_gs(at::SAVED_SCRATCH, r);
        self.now.scratch = Some(r);
        self.mark();
    }

    pub(super) fn close_scratch(&mut self, r: u8) {
        self.hot.load_gs(r, at::SAVED_SCRATCH);
        self.now.scratch = None;
        self.mark();
    }

    /// Run an instruction with its memory operand's base computed into a scratch register: for `gs`
    /// (ours now) and for addresses out of reach of the instruction pointer.
    pub(super) fn through_scratch(&mut self, insn: Instruction, gs: bool) {
        let r = self.scratch_for(&insn);
        self.open_scratch(r);
        let rewritten = self.load_base(insn, gs, r);
        self.encode(&rewritten);
        self.now.done += 1;
        self.now.pc = SitePc::Const(insn.next_ip());
        self.mark();
        self.close_scratch(r);
    }

    pub(super) fn load_base(&mut self, mut insn: Instruction, gs: bool, r: u8) -> Instruction {
        self.rename(&mut insn);
        insn.set_code(without_moffs(insn.code()));
        if gs && address_wraps(&insn) {
            self.load_effective_address(&insn, r);
            self.hot.store_gs(at::SAVED_RDX, RDX);
            self.now.rdx_saved = true;
            self.mark();
            self.hot.load_gs(RDX, at::APP_GS);
            self.hot.add_reg(r, RDX);
            self.hot.load_gs(RDX, at::SAVED_RDX);
            self.now.rdx_saved = false;
            self.mark();
            insn.set_memory_displacement64(0);
            insn.set_memory_index(Register::None);
        } else if insn.is_ip_rel_memory_operand() {
            let target = insn.ip_rel_memory_address();
            if gs {
                self.hot.load_gs(r, at::APP_GS);
                insn.set_memory_displacement64(target);
            } else {
                self.hot.load_imm(r, target);
                insn.set_memory_displacement64(0);
            }
        } else {
            self.hot.load_gs(r, at::APP_GS);
            if let Some(base) = gpr(insn.memory_base()) {
                self.hot.add_reg(r, base as u8);
            }
        }
        insn.set_segment_prefix(Register::None);
        insn.set_memory_base(GPR64[r as usize]);
        if gpr(insn.memory_index()).is_some() {
            insn.set_memory_index(insn.memory_index().full_register());
        }
        insn.set_memory_displ_size(8);
        insn
    }

    /// `lea r, [the instruction's memory operand]`, without its segment.
    pub(super) fn load_effective_address(&mut self, insn: &Instruction, r: u8) {
        if insn.is_ip_rel_memory_operand() {
            return self.hot.load_imm(r, insn.ip_rel_memory_address());
        }
        if insn.memory_base() == Register::None && insn.memory_index() == Register::None {
            return self.hot.load_imm(r, insn.memory_displacement64());
        }
        let mut lea = *insn;
        lea.set_code(Op::Lea_r64_m);
        lea.set_op0_kind(OpKind::Register);
        lea.set_op0_register(GPR64[r as usize]);
        lea.set_op1_kind(OpKind::Memory);
        lea.set_segment_prefix(Register::None);
        lea.set_has_lock_prefix(false);
        lea.set_has_rep_prefix(false);
        lea.set_has_repne_prefix(false);
        self.encode(&lea);
    }
}

/// Does the instruction really use its memory operand's segment (lea and nop do not).
pub(super) fn touches_segment(insn: &Instruction) -> bool {
    !matches!(insn.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
}

/// Whether the address is cut to 32 bits, or its constant part is too long: then it is not simply
/// moved by another base.
fn address_wraps(insn: &Instruction) -> bool {
    let constant = match insn.is_ip_rel_memory_operand() {
        true => insn.ip_rel_memory_address(),
        false => insn.memory_displacement64(),
    };
    insn.memory_base().is_gpr32() || insn.memory_index().is_gpr32() || i32::try_from(constant as i64).is_err()
}

/// Moves between the accumulator and a constant address have encodings of their own, without a
/// base.
fn without_moffs(op: Op) -> Op {
    match op {
        Op::Mov_AL_moffs8 => Op::Mov_r8_rm8,
        Op::Mov_AX_moffs16 => Op::Mov_r16_rm16,
        Op::Mov_EAX_moffs32 => Op::Mov_r32_rm32,
        Op::Mov_RAX_moffs64 => Op::Mov_r64_rm64,
        Op::Mov_moffs8_AL => Op::Mov_rm8_r8,
        Op::Mov_moffs16_AX => Op::Mov_rm16_r16,
        Op::Mov_moffs32_EAX => Op::Mov_rm32_r32,
        Op::Mov_moffs64_RAX => Op::Mov_rm64_r64,
        op => op,
    }
}
