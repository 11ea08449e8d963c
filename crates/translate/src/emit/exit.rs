//! The ways out of a block: jumps that can be linked, indirect branches, calls and returns, and
//! stubs into the runtime.
use super::instruction::touches_segment;
use super::{Emitter, LinkKind, Recorded, SitePc, RCX, RDX};
use crate::analyze::Exit;
use crate::layout as at;
use iced_x86::{Code as Op, Instruction, OpKind, Register};

impl Emitter<'_> {
    /// The way out of an ordinary block. The record is complete by now, or has no captures left.
    pub(super) fn exit(&mut self) {
        let block = self.block;
        let last = block.insns[block.insns.len() - 1];
        if block.exit != Exit::Fall {
            self.now.done = (block.insns.len() - 1) as u16;
            self.now.pc = SitePc::Const(last.ip());
            self.mark();
        }
        match block.exit {
            Exit::Fall => {
                self.leave_stand_in();
                self.link_jump(block.end());
            }
            Exit::Jump { target } => {
                self.leave_stand_in();
                self.now.done += 1;
                self.link_jump(target);
            }
            Exit::Branch { target } => {
                self.leave_stand_in();
                self.branch(&last, target);
            }
            Exit::Call { target } => {
                self.leave_stand_in();
                self.push_return(last.next_ip());
                self.now.done += 1;
                self.link_jump(target);
            }
            Exit::JumpIndirect => self.indirect(&last, false),
            Exit::CallIndirect => self.indirect(&last, true),
            Exit::Return => self.return_(&last),
            Exit::Syscall => {
                self.leave_stand_in();
                self.leave(LinkKind::Syscall { pc: last.ip() });
            }
            Exit::Emulate => {
                self.leave_stand_in();
                self.leave(LinkKind::Emulate { pc: last.ip() });
            }
            Exit::Marker(marker) => {
                self.leave_stand_in();
                let (pc, next) = (last.ip(), last.next_ip());
                self.leave(LinkKind::Marker { pc, next, marker });
            }
            Exit::Abort { target } => {
                self.leave_stand_in();
                self.hot.put(&[0xb8, 0, 0, 0, 0]); // mov eax, 0
                self.now.done += 1;
                self.link_jump(target);
            }
        }
    }

    pub(super) fn branch(&mut self, insn: &Instruction, target: u64) {
        if insn.is_jcc_short_or_near() {
            self.hot.align_for_patch(2, 4);
            self.put_jcc(self.block.insns.len() - 1, false);
            let patch = self.hot.here();
            let stub = self.stub(LinkKind::Direct { target, patch });
            self.hot.rel32(stub);
            self.now.done += 1;
            self.link_jump(insn.next_ip());
        } else {
            // Over the jump on to the next instruction, which is padded to eight bytes so that both
            // jumps can be aligned.
            let lead = insn.len() as u64;
            while (self.hot.here() + lead) % 8 != 0 {
                self.hot.put(&[0x90]);
            }
            self.short_branch(8);
            self.now.done += 1;
            self.link_jump(insn.next_ip());
            self.hot.put(&[0xcc; 3]);
            self.link_jump(target);
        }
    }

    pub(super) fn push_return(&mut self, pc: u64) {
        if pc <= i32::MAX as u64 {
            self.hot.put(&[0x68]);
            self.hot.put32(pc as u32);
        } else {
            let k = self.constant(pc);
            self.hot.push_constant(k);
        }
    }

    pub(super) fn constant(&mut self, v: u64) -> u64 {
        while self.cold.here() % 8 != 0 {
            self.cold.put(&[0xcc]);
        }
        let at = self.cold.here();
        self.cold.put(&v.to_le_bytes());
        at
    }

    /// Load the target of an indirect branch into rcx.
    pub(super) fn load_target(&mut self, insn: &Instruction) {
        self.hot.store_gs(at::SAVED_RCX, RCX);
        self.mark();
        let mut load = *insn;
        load.set_code(Op::Mov_r64_rm64);
        load.set_op1_kind(insn.op0_kind());
        if insn.op0_kind() == OpKind::Register {
            load.set_op1_register(insn.op0_register());
        }
        load.set_op0_kind(OpKind::Register);
        load.set_op0_register(Register::RCX);
        load.set_has_repne_prefix(false);
        let gs = load.memory_segment() == Register::GS && touches_segment(&load);
        if gs || self.out_of_reach(&load) {
            let r = self.scratch_for(&load);
            self.open_scratch(r);
            let rewritten = self.load_base(load, gs, r);
            self.encode(&rewritten);
            self.now.rcx_saved = true;
            self.mark();
            self.close_scratch(r);
        } else {
            self.rename(&mut load);
            self.encode(&load);
            self.now.rcx_saved = true;
            self.mark();
        }
    }

    pub(super) fn indirect(&mut self, insn: &Instruction, call: bool) {
        self.load_target(insn);
        self.leave_stand_in();
        if call {
            self.push_return(insn.next_ip());
            self.now.rsp += 8;
            self.mark();
        }
        self.hot.store_gs(at::SAVED_RDX, RDX);
        self.mark();
        self.hot.put(&[0x0f, 0xb7, 0xd1]); // movzx edx, cx
        self.now.rdx_saved = true;
        self.mark();
        self.hot.jump_table(RDX, at::INDIRECT_TABLE);
    }

    pub(super) fn return_(&mut self, insn: &Instruction) {
        self.leave_stand_in();
        self.hot.store_gs(at::SAVED_RCX, RCX);
        self.mark();
        self.now.rcx_saved = true;
        let pop = if insn.op_count() == 1 {
            insn.immediate16() as u32
        } else {
            0
        };
        if pop == 0 {
            self.hot.put(&[0x0f, 0xb7, 0x0c, 0x24]); // movzx ecx, word [rsp]
            self.mark();
            self.hot.put(&[0x48, 0x8d, 0x64, 0x24, 0x08]); // lea rsp, [rsp+8]
            self.now.rsp -= 8;
            self.mark();
            self.hot.jump_table(RCX, at::RETURN_TABLE);
            return;
        }
        self.hot.put(&[0x48, 0x8b, 0x0c, 0x24]); // mov rcx, [rsp]
        self.mark();
        self.hot.put(&[0x48, 0x8d, 0xa4, 0x24]); // lea rsp, [rsp+8+pop]
        self.hot.put32(8 + pop);
        self.now.rsp -= 8 + pop as i64;
        self.mark();
        self.hot.store_gs(at::SAVED_RDX, RDX);
        self.mark();
        self.hot.put(&[0x0f, 0xb7, 0xd1]); // movzx edx, cx
        self.now.rdx_saved = true;
        self.mark();
        self.hot.jump_table(RDX, at::INDIRECT_TABLE);
    }

    /// A jump that can be linked to the translation of `target`.
    pub(super) fn link_jump(&mut self, target: u64) {
        self.now.pc = SitePc::Const(target);
        // The padding belongs to the jump: a call has pushed its return address by now.
        self.mark();
        self.hot.align_for_patch(0, 5);
        self.hot.put(&[0xe9]);
        let patch = self.hot.here();
        let stub = self.stub(LinkKind::Direct { target, patch });
        self.hot.rel32(stub);
    }

    /// A jump out that is never linked.
    pub(super) fn leave(&mut self, kind: LinkKind) {
        let stub = self.stub(kind);
        self.hot.jump(stub);
    }

    #[cfg_attr(test, track_caller)]
    pub(super) fn stub(&mut self, kind: LinkKind) -> u64 {
        let at = self.cold.here();
        let link = self.place.link + self.links.len() as u32;
        self.links.push(kind);
        if self.place.map {
            let mut site = self.now;
            match kind {
                LinkKind::Direct { target, .. } => {
                    site.pc = SitePc::Const(target);
                    if site.recorded == Recorded::Done {
                        site.done = self.block.insns.len() as u16;
                    }
                }
                LinkKind::Syscall { pc } | LinkKind::Emulate { pc } | LinkKind::Marker { pc, .. } => {
                    site.pc = SitePc::Const(pc)
                }
            }
            self.sites.mark(at, site);
        }
        self.cold.store_gs_imm(at::LINK, link);
        self.cold.jump_gs(at::LEAVE);
        at
    }
}
