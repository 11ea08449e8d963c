//! A planned block to instrumented code.
//!
//! **Layout.** A block has a *hot* piece (what runs) and a *cold* piece (exit stubs and constants).
//! ```text
//! hot:   [entry check]  head: [stand-in for r15]  id, captures, instructions, advance, exit jumps
//! cold:  one stub per exit, 64-bit constants
//! ```
//! **r15 is the buffer pointer.** The target's r15 lives at `gs:APP_R15`. A block that merely pushes, pops or moves it
//! works on that cell; any other use renames r15 to a *stand-in*, a register the block does not touch, for the length of the block.
//!
//! **State can be recovered everywhere.** While emitting, [`Emitter`] knows at each byte which instruction comes next and where each register of the
//! target is. With `map` set it writes this down as [`Site`]s; a signal handler emits the block again, looks its
//! program counter up, and delivers the signal with the state the program would have had. Every inserted sequence
//! is therefore either restartable or mapped step by step.
//!
//! **Indirect branches** jump through a per-thread table indexed by the low 16 bits of the target; the entry
//! check at the other end verifies the whole address without touching a flag.
use crate::analyze::{Block, Capture, Exit};
use crate::code::Code;
use crate::layout as at;
use crate::plan::{LoopPlan, FIRST};
use crate::symbolic::{gpr, Atom, R15, RSP_REG};
use alloc::vec::Vec;
use iced_x86::{Code as Op, Encoder, Instruction, Mnemonic, OpKind, Register};
use memtrail_ring::Probes;

/// How a block may be entered other than by a direct jump to its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    Direct,
    /// Through the indirect table: rcx holds the target address.
    Indirect,
    /// Through the return table: the target address lies just below the stack pointer.
    Return,
}

/// Where to put a block and what to call it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub hot: u64,
    pub cold: u64,
    /// Block id in records.
    pub id: u32,
    /// Number of the block's first link; the others follow.
    pub link: u32,
    pub entry: Entry,
    pub probes: Probes,
    /// Also produce the map of sites.
    pub map: bool,
}

/// What the dispatcher has to do when a link is taken that is not patched through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkKind {
    /// Go on at `target`; the jump at `patch` can be pointed there.
    Direct { target: u64, patch: u64 },
    /// Carry out the system call whose instruction lies at this address.
    Syscall { pc: u64 },
    /// Carry out the instruction at this address.
    Emulate { pc: u64 },
}

/// The target's program counter at a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SitePc {
    Const(u64),
    /// rcx plus this.
    Rcx(u64),
    /// The word just below the stack pointer.
    BelowStack,
}

/// What of the current record is in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recorded {
    Nothing,
    /// Begun at the buffer pointer, which has not moved.
    Open,
    /// Complete; the buffer pointer has moved past it.
    Done,
}

/// What the machine's state means at a byte of translated code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    pub pc: SitePc,
    /// Instructions of the block completed (in a loop: of this iteration).
    pub done: u16,
    pub recorded: Recorded,
    /// Inside an affine loop: whole iterations follow from the counter register.
    pub in_loop: bool,
    /// This is the copy for later iterations of a partly affine loop.
    pub steady: bool,
    pub rcx_saved: bool,
    pub rdx_saved: bool,
    /// Leaving through a side exit that is not on record yet: that of instruction `done - 1`.
    pub leaving: bool,
    /// Register standing in for r15, itself saved.
    pub stand_in: Option<u8>,
    /// Register saved in the scratch cell.
    pub scratch: Option<u8>,
    /// Add to the hardware's rsp.
    pub rsp: i64,
}

/// The result of [`emit`].
pub struct Emitted {
    pub hot: Vec<u8>,
    pub cold: Vec<u8>,
    /// Offset in `hot` of the head.
    pub head: u32,
    pub links: Vec<LinkKind>,
    /// `(address, site)` in ascending order of address, hot and cold apart; empty unless asked for.
    pub sites: Vec<(u64, Site)>,
}

impl Emitted {
    /// The site that covers address `pc`.
    pub fn site(&self, pc: u64) -> Option<Site> {
        self.sites.iter().filter(|s| s.0 <= pc).max_by_key(|s| s.0).map(|s| s.1)
    }
}

const RCX: u8 = 1;
const RDX: u8 = 2;

const GPR64: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The part of register `n` that `like` is of r15.
fn part(n: u8, like: Register) -> Register {
    const R8: [Register; 16] = [
        Register::AL,
        Register::CL,
        Register::DL,
        Register::BL,
        Register::SPL,
        Register::BPL,
        Register::SIL,
        Register::DIL,
        Register::R8L,
        Register::R9L,
        Register::R10L,
        Register::R11L,
        Register::R12L,
        Register::R13L,
        Register::R14L,
        Register::R15L,
    ];
    const R16: [Register; 16] = [
        Register::AX,
        Register::CX,
        Register::DX,
        Register::BX,
        Register::SP,
        Register::BP,
        Register::SI,
        Register::DI,
        Register::R8W,
        Register::R9W,
        Register::R10W,
        Register::R11W,
        Register::R12W,
        Register::R13W,
        Register::R14W,
        Register::R15W,
    ];
    const R32: [Register; 16] = [
        Register::EAX,
        Register::ECX,
        Register::EDX,
        Register::EBX,
        Register::ESP,
        Register::EBP,
        Register::ESI,
        Register::EDI,
        Register::R8D,
        Register::R9D,
        Register::R10D,
        Register::R11D,
        Register::R12D,
        Register::R13D,
        Register::R14D,
        Register::R15D,
    ];
    match like.size() {
        1 => R8[n as usize],
        2 => R16[n as usize],
        4 => R32[n as usize],
        _ => GPR64[n as usize],
    }
}

struct Emitter<'a> {
    block: &'a Block,
    code: &'a [u8],
    place: Place,
    hot: Code,
    cold: Code,
    links: Vec<LinkKind>,
    sites: Vec<(u64, Site)>,
    now: Site,
    stand_in: Option<u8>,
    uses_r15: bool,
    encoder: &'a mut Encoder,
}

/// Working memory, kept from block to block.
pub struct EmitScratch {
    encoder: Encoder,
    hot: Vec<u8>,
    cold: Vec<u8>,
    links: Vec<LinkKind>,
}

impl Default for EmitScratch {
    fn default() -> EmitScratch {
        EmitScratch { encoder: Encoder::new(64), hot: Vec::new(), cold: Vec::new(), links: Vec::new() }
    }
}

impl EmitScratch {
    /// Take the memory of a finished piece back.
    pub fn recycle(&mut self, out: Emitted) {
        (self.hot, self.cold, self.links) = (out.hot, out.cold, out.links);
    }
}

/// Emit `block`, whose code bytes are `code`. Pure: the same arguments give the same bytes.
pub fn emit(block: &Block, code: &[u8], place: Place) -> Emitted {
    emit_with(&mut EmitScratch::default(), block, code, place)
}

/// As [`emit`], in working memory that is used again.
pub fn emit_with(scratch: &mut EmitScratch, block: &Block, code: &[u8], place: Place) -> Emitted {
    let now = Site {
        pc: SitePc::Const(block.pc),
        done: 0,
        recorded: Recorded::Nothing,
        in_loop: false,
        steady: false,
        leaving: false,
        rcx_saved: false,
        rdx_saved: false,
        stand_in: None,
        scratch: None,
        rsp: 0,
    };
    let reuse = |v: &mut Vec<u8>| {
        let mut v = core::mem::take(v);
        v.clear();
        v
    };
    let mut links = core::mem::take(&mut scratch.links);
    links.clear();
    let mut e = Emitter {
        block,
        code,
        place,
        hot: Code { base: place.hot, bytes: reuse(&mut scratch.hot) },
        cold: Code { base: place.cold, bytes: reuse(&mut scratch.cold) },
        links,
        sites: Vec::new(),
        now,
        stand_in: stand_in(block),
        uses_r15: block.used & (1 << R15) != 0,
        encoder: &mut scratch.encoder,
    };
    entry_check(&mut e.hot, &mut e.cold, place.entry, block.pc, &mut |at, site| {
        if place.map {
            e.sites.push((at, site));
        }
    });
    e.hot.align_for_patch(0, 5);
    let head = e.hot.offset();
    e.mark();
    e.body();
    Emitted { hot: e.hot.bytes, cold: e.cold.bytes, head, links: e.links, sites: e.sites }
}

/// A separate entry for a block that was first met otherwise; jumps on to `head`.
pub fn emit_entry(entry: Entry, tag: u64, hot: u64, cold: u64, head: u64) -> Emitted {
    let (mut h, mut c) = (Code::at(hot), Code::at(cold));
    let mut sites = Vec::new();
    entry_check(&mut h, &mut c, entry, tag, &mut |at, site| sites.push((at, site)));
    h.jump(head);
    Emitted { hot: h.bytes, cold: c.bytes, head: 0, links: Vec::new(), sites }
}

/// The check of the target address in front of a head.
fn entry_check(hot: &mut Code, cold: &mut Code, entry: Entry, tag: u64, site: &mut dyn FnMut(u64, Site)) {
    let mut now = Site {
        pc: SitePc::Rcx(0),
        done: 0,
        recorded: Recorded::Nothing,
        in_loop: false,
        steady: false,
        leaving: false,
        rcx_saved: true,
        rdx_saved: true,
        stand_in: None,
        scratch: None,
        rsp: 0,
    };
    let low = tag <= i32::MAX as u64;
    let constant = |cold: &mut Code| {
        while cold.here() % 8 != 0 {
            cold.put(&[0xcc]);
        }
        let at = cold.here();
        cold.put(&tag.wrapping_neg().to_le_bytes());
        at
    };
    match entry {
        Entry::Direct => {}
        Entry::Indirect => {
            site(hot.here(), now);
            if low {
                hot.put(&[0x48, 0x8d, 0x89]); // lea rcx, [rcx-tag]
                hot.put32((tag as u32).wrapping_neg());
            } else {
                let k = constant(cold);
                hot.put(&[0x48, 0x8b, 0x15]); // mov rdx, [rip+k]
                hot.rel32(k);
                hot.put(&[0x48, 0x8d, 0x0c, 0x11]); // lea rcx, [rcx+rdx]
            }
            now.pc = SitePc::Rcx(tag);
            site(hot.here(), now);
            let undo: u8 = if low { 7 } else { 8 };
            hot.put(&[0xe3, undo + 8]); // jrcxz ok
            if low {
                hot.put(&[0x48, 0x8d, 0x89]); // lea rcx, [rcx+tag]
                hot.put32(tag as u32);
            } else {
                hot.put(&[0x48, 0xf7, 0xd2]); // not rdx
                hot.put(&[0x48, 0x8d, 0x4c, 0x11, 0x01]); // lea rcx, [rcx+rdx+1]
            }
            now.pc = SitePc::Rcx(0);
            site(hot.here(), now);
            hot.jump_gs(at::INDIRECT_MISS);
            now.pc = SitePc::Const(tag);
            site(hot.here(), now);
            hot.load_gs(RDX, at::SAVED_RDX);
            now.rdx_saved = false;
            site(hot.here(), now);
            hot.load_gs(RCX, at::SAVED_RCX);
            now.rcx_saved = false;
            site(hot.here(), now);
        }
        Entry::Return => {
            now.pc = SitePc::BelowStack;
            now.rdx_saved = false;
            site(hot.here(), now);
            if low {
                hot.put(&[0x48, 0x8b, 0x4c, 0x24, 0xf8]); // mov rcx, [rsp-8]
                hot.put(&[0x48, 0x8d, 0x89]); // lea rcx, [rcx-tag]
                hot.put32((tag as u32).wrapping_neg());
            } else {
                let k = constant(cold);
                hot.store_gs(at::SAVED_RDX, RDX);
                now.rdx_saved = true;
                site(hot.here(), now);
                hot.put(&[0x48, 0x8b, 0x4c, 0x24, 0xf8]); // mov rcx, [rsp-8]
                hot.put(&[0x48, 0x8b, 0x15]); // mov rdx, [rip+k]
                hot.rel32(k);
                hot.put(&[0x48, 0x8d, 0x0c, 0x11]); // lea rcx, [rcx+rdx]
                hot.load_gs(RDX, at::SAVED_RDX);
                now.rdx_saved = false;
                site(hot.here(), now);
            }
            hot.put(&[0xe3, 8]); // jrcxz ok
            hot.jump_gs(at::RETURN_MISS);
            now.pc = SitePc::Const(tag);
            site(hot.here(), now);
            hot.load_gs(RCX, at::SAVED_RCX);
            now.rcx_saved = false;
            site(hot.here(), now);
        }
    }
}

/// The register to stand in for r15, if the block needs one.
fn stand_in(block: &Block) -> Option<u8> {
    if block.used & (1 << R15) == 0 {
        return None;
    }
    let captured = block.captures.iter().any(|c| matches!(c.atom, Atom::Gpr { reg, .. } if reg as usize == R15));
    if !captured && block.insns.iter().all(|i| !mentions(i, R15) || works_in_memory(i).is_some()) {
        return None;
    }
    let free = crate::STAND_INS & !block.used;
    // Prefer registers without REX-dependent byte names and away from the ABI's argument registers.
    [3u8, 14, 13, 12, 11, 10, 9, 8, 5, 7, 6, 0].into_iter().find(|r| free & (1 << r) != 0)
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
        Op::Mov_r64_rm64 | Op::Mov_rm64_r64 if insn.op0_kind() == OpKind::Register && insn.op1_kind() == OpKind::Register => {
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

impl<'a> Emitter<'a> {
    fn mark(&mut self) {
        if self.place.map {
            self.sites.push((self.hot.here(), self.now));
        }
    }

    fn recording(&self) -> bool {
        self.place.probes != Probes::None
    }

    fn body(&mut self) {
        let block = self.block;
        match &block.plan.looping {
            None => {
                self.enter_stand_in();
                self.copy(None);
                self.exit();
            }
            Some(LoopPlan::Affine { .. }) => self.affine(),
            Some(LoopPlan::Partly { steps: _, free }) => {
                self.enter_stand_in();
                self.copy(None);
                self.leave_stand_in();
                let exit = self.conditional_to_later();
                // The copy for later iterations follows.
                self.now.done = 0;
                self.now.pc = SitePc::Const(self.block.pc);
                self.now.recorded = Recorded::Nothing;
                self.now.steady = true;
                let steady = self.hot.here();
                self.patch(exit, steady);
                self.mark();
                self.enter_stand_in();
                self.copy(Some(free));
                self.leave_stand_in();
                self.back_edge(steady);
                self.fall_out();
            }
        }
    }

    /// Captures and instructions, without the last one if that is a control transfer.
    fn copy(&mut self, only: Option<&[u16]>) {
        let block = self.block;
        let mut steady = Vec::new();
        let captures: &[Capture] = match only {
            None => &block.captures,
            Some(free) => {
                for c in &block.captures {
                    if let Some(k) = free.iter().position(|s| *s == c.slot) {
                        steady.push(Capture { slot: FIRST + k as u16, ..*c });
                    }
                }
                &steady
            }
        };
        let words = match only {
            None => self.block.plan.words as u32,
            Some(free) => 1 + free.len() as u32,
        };
        self.begin_record(only.is_some() as u32);
        let mut next = 0;
        let n = self.straight_insns();
        for i in 0..=n {
            while next < captures.len() && captures[next].pos as usize == i {
                self.capture(&captures[next]);
                next += 1;
            }
            if next == captures.len() && self.now.recorded == Recorded::Open {
                self.finish_record(words);
            }
            if i < n && !self.side(i, words) {
                self.instruction(i);
            }
        }
    }

    /// If instruction `i` is a side exit, emit it: the branch in place, the rest out of the way.
    fn side(&mut self, i: usize, words: u32) -> bool {
        let block = self.block;
        let Some(n) = block.plan.sides.iter().position(|s| s.insn as usize == i) else { return false };
        let insn = block.insns[i];
        let target = block.side_targets[n];
        self.now.done = i as u16;
        self.now.pc = SitePc::Const(insn.ip());
        self.mark();
        self.put_jcc(&insn);
        let stub = self.cold.here();
        self.hot.rel32(stub);
        let on = self.now;
        self.now.done += 1;
        self.now.pc = SitePc::Const(target);
        self.mark_cold();
        if self.now.in_loop {
            let counter = self.counter_register();
            self.cold.capture((words - 1) * 8, counter);
            self.now.leaving = true;
            self.mark_cold();
        }
        if self.now.recorded == Recorded::Open {
            if !self.now.in_loop {
                // The end of the record must be there, or moving past it could jump over the guard.
                self.cold.capture_zero((words - 1) * 8);
            }
            self.cold.advance(words * 8);
        }
        if self.recording() {
            self.now.in_loop = false;
            self.now.recorded = Recorded::Done;
            self.now.leaving = true;
            self.mark_cold();
            self.cold.capture_id((memtrail_ring::record::LEFT as u32) | i as u32);
            self.cold.advance(8);
            self.now.recorded = Recorded::Nothing;
            self.now.leaving = false;
            self.mark_cold();
        }
        if let Some(r) = self.stand_in {
            if block.writes_r15 {
                self.cold.store_gs(at::APP_R15, r);
            }
            self.cold.load_gs(r, at::SAVED_STAND_IN);
            self.now.stand_in = None;
            self.mark_cold();
        }
        self.cold.align_for_patch(0, 5);
        self.cold.put(&[0xe9]);
        let patch = self.cold.here();
        // Until it is linked the jump leads to the stub right behind it.
        self.cold.put32(0);
        self.stub(LinkKind::Direct { target, patch });
        self.now = on;
        self.now.done = i as u16 + 1;
        self.now.pc = SitePc::Const(insn.next_ip());
        self.mark();
        true
    }

    fn mark_cold(&mut self) {
        if self.place.map {
            self.sites.push((self.cold.here(), self.now));
        }
    }

    /// The register that holds an affine loop's counter, here and now.
    fn counter_register(&self) -> u8 {
        let counter = self.block.counter().map_or(RSP_REG, |c| c.0);
        if counter == R15 {
            self.stand_in.unwrap_or(R15 as u8)
        } else {
            counter as u8
        }
    }

    fn begin_record(&mut self, plus: u32) {
        if self.recording() {
            self.hot.capture_id(self.place.id + plus);
            self.now.recorded = Recorded::Open;
            self.mark();
        } else {
            // A head is patched over when the block dies: its first instruction must be long enough.
            self.hot.put(&[0x0f, 0x1f, 0x44, 0x00, 0x00]);
        }
    }

    fn finish_record(&mut self, words: u32) {
        self.hot.advance(words * 8);
        self.now.recorded = Recorded::Done;
        self.mark();
    }

    /// Instructions before the exit's own.
    fn straight_insns(&self) -> usize {
        self.block.insns.len() - (self.block.exit != Exit::Fall) as usize
    }

    fn affine(&mut self) {
        let words = self.block.plan.words as u32;
        self.enter_stand_in();
        self.begin_record(0);
        let block = self.block;
        for c in &block.captures {
            self.capture(c);
        }
        self.now.in_loop = true;
        let body = self.hot.here();
        self.mark();
        for i in 0..self.straight_insns() {
            if !self.side(i, words) {
                self.instruction(i);
            }
        }
        let last = self.block.insns.len() - 1;
        self.now.done = last as u16;
        self.now.pc = SitePc::Const(self.block.insns[last].ip());
        self.mark();
        self.back_edge(body);
        // Left: `done` counts the whole iteration.
        self.now.done = self.block.insns.len() as u16;
        self.now.pc = SitePc::Const(self.block.end());
        self.mark();
        let counter = self.counter_register();
        self.hot.capture((words - 1) * 8, counter);
        self.finish_record(words);
        self.now.in_loop = false;
        self.mark();
        self.leave_stand_in();
        self.link_jump(self.block.end());
    }

    fn fall_out(&mut self) {
        self.now.done = self.block.insns.len() as u16;
        self.now.pc = SitePc::Const(self.block.end());
        self.mark();
        self.link_jump(self.block.end());
    }

    /// The loop's branch, back to `to`; falls through when the loop ends.
    fn back_edge(&mut self, to: u64) {
        let insn = self.block.insns[self.block.insns.len() - 1];
        if insn.is_jcc_short_or_near() {
            self.put_jcc(&insn);
            self.hot.rel32(to);
            return;
        }
        // loop, jrcxz: a short branch over a jump.
        self.short_branch(2);
        self.hot.put(&[0xeb, 5]);
        self.hot.jump(to);
    }

    /// Like `back_edge`, to a place not known yet: emits the way out too, and returns the field to patch.
    fn conditional_to_later(&mut self) -> usize {
        let insn = self.block.insns[self.block.insns.len() - 1];
        self.now.done = (self.block.insns.len() - 1) as u16;
        self.now.pc = SitePc::Const(insn.ip());
        self.mark();
        let field;
        if insn.is_jcc_short_or_near() {
            self.put_jcc(&insn);
            field = self.hot.bytes.len();
            self.hot.put32(0);
        } else {
            self.short_branch(2);
            self.hot.put(&[0xeb, 5, 0xe9]);
            field = self.hot.bytes.len();
            self.hot.put32(0);
        }
        self.fall_out();
        field
    }

    fn patch(&mut self, field: usize, to: u64) {
        let from = self.hot.base + field as u64 + 4;
        self.hot.bytes[field..field + 4].copy_from_slice(&(to.wrapping_sub(from) as u32).to_le_bytes());
    }

    fn put_jcc(&mut self, insn: &Instruction) {
        let bytes = self.bytes_of(insn);
        // The condition is in the low half of the opcode byte of both encodings.
        let opcode = if insn.is_jcc_short() { bytes[bytes.len() - 2] } else { bytes[bytes.len() - 5] };
        self.hot.put(&[0x0f, 0x80 | (opcode & 15)]);
    }

    fn bytes_of(&self, insn: &Instruction) -> &'a [u8] {
        let start = (insn.ip() - self.block.pc) as usize;
        &self.code[start..start + insn.len()]
    }

    /// loop, loope, loopne, jrcxz or jecxz with its distance replaced.
    fn short_branch(&mut self, rel: u8) {
        let insn = self.block.insns[self.block.insns.len() - 1];
        let bytes = self.bytes_of(&insn);
        self.hot.put(&bytes[..bytes.len() - 1]);
        self.hot.put(&[rel]);
    }

    fn enter_stand_in(&mut self) {
        if let Some(r) = self.stand_in {
            self.hot.store_gs(at::SAVED_STAND_IN, r);
            self.mark();
            self.hot.load_gs(r, at::APP_R15);
            self.now.stand_in = Some(r);
            self.mark();
        }
    }

    fn leave_stand_in(&mut self) {
        if let Some(r) = self.stand_in {
            if self.block.writes_r15 {
                self.hot.store_gs(at::APP_R15, r);
            }
            self.hot.load_gs(r, at::SAVED_STAND_IN);
            self.now.stand_in = None;
            self.mark();
        }
    }

    fn capture(&mut self, c: &Capture) {
        let disp = (c.slot - FIRST + 1) as u32 * 8;
        match c.atom {
            Atom::Gpr { reg, .. } => {
                let reg = if reg as usize == R15 { self.stand_in.unwrap_or(reg) } else { reg };
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
                insn.set_memory_displacement64(insn.memory_displacement64().wrapping_add(520));
                if !insn.is_ip_rel_memory_operand() {
                    insn.set_memory_displ_size(if insn.memory_base().is_gpr32() { 4 } else { 8 });
                }
                self.rename(&mut insn);
                self.encode(&insn);
                self.hot.capture(disp, scratch);
                self.close_scratch(scratch);
            }
            Atom::Carried | Atom::Derived(_) => {}
        }
        self.mark();
    }

    fn store_to_buffer(&mut self, op: Op, reg: Register, disp: u32) {
        let m = iced_x86::MemoryOperand::with_base_displ(Register::R15, disp as i64);
        if let Ok(insn) = Instruction::with2(op, m, reg) {
            self.encode(&insn);
        }
    }

    /// Encode at the current place. Every instruction given here is encodable by construction.
    fn encode(&mut self, insn: &Instruction) -> bool {
        let done = self.encoder.encode(insn, self.hot.here()).is_ok();
        let mut bytes = self.encoder.take_buffer();
        if done {
            self.hot.put(&bytes);
        }
        bytes.clear();
        self.encoder.set_buffer(bytes);
        done
    }

    fn rename(&self, insn: &mut Instruction) {
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
    fn instruction(&mut self, i: usize) {
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
            let start = (insn.ip() - self.block.pc) as usize;
            let code = self.code;
            self.hot.put(&code[start..start + insn.len()]);
        }
        self.now.done = i as u16 + 1;
        self.now.pc = SitePc::Const(insn.next_ip());
        self.mark();
    }

    fn ip_relative(&mut self, insn: Instruction, i: usize, uses_r15: bool) {
        let target = insn.ip_rel_memory_address();
        let next = self.hot.here() + insn.len() as u64;
        let distance = target.wrapping_sub(next) as i64;
        let near = distance.unsigned_abs() < 0x7fff_0000;
        let offsets = self.block.offsets[i];
        if near && !uses_r15 && offsets.displacement_size() == 4 && insn.memory_base() == Register::RIP {
            let start = (insn.ip() - self.block.pc) as usize;
            let code = self.code;
            let at = self.hot.bytes.len() + offsets.displacement_offset();
            self.hot.put(&code[start..start + insn.len()]);
            self.hot.bytes[at..at + 4].copy_from_slice(&(distance as u32).to_le_bytes());
        } else if near && insn.memory_base() == Register::RIP {
            let mut insn = insn;
            self.rename(&mut insn);
            self.encode(&insn);
        } else {
            self.through_scratch(insn, false);
        }
    }

    /// A register that the instruction does not touch, for use inside its rewriting.
    fn scratch_for(&self, insn: &Instruction) -> u8 {
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

    fn open_scratch(&mut self, r: u8) {
        self.hot.store_gs(at::SAVED_SCRATCH, r);
        self.now.scratch = Some(r);
        self.mark();
    }

    fn close_scratch(&mut self, r: u8) {
        self.hot.load_gs(r, at::SAVED_SCRATCH);
        self.now.scratch = None;
        self.mark();
    }

    /// Run an instruction with its memory operand's base computed into a scratch register: for `gs` (ours
    /// now) and for addresses out of reach of the instruction pointer.
    fn through_scratch(&mut self, insn: Instruction, gs: bool) {
        let r = self.scratch_for(&insn);
        self.open_scratch(r);
        let rewritten = self.load_base(insn, gs, r);
        self.encode(&rewritten);
        self.now.done += 1;
        self.now.pc = SitePc::Const(insn.next_ip());
        self.mark();
        self.close_scratch(r);
    }

    fn load_base(&mut self, mut insn: Instruction, gs: bool, r: u8) -> Instruction {
        self.rename(&mut insn);
        if insn.is_ip_rel_memory_operand() {
            let target = insn.ip_rel_memory_address();
            if gs {
                self.hot.load_gs(r, at::APP_GS);
                let displ = target as i32 as i64;
                insn.set_memory_displacement64(displ as u64);
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
            insn.set_memory_index(part_of(insn.memory_index()));
        }
        insn.set_memory_displ_size(8);
        insn
    }

    /// The way out of an ordinary block. The record is complete by now, or has no captures left.
    fn exit(&mut self) {
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
            Exit::Abort { target } => {
                self.leave_stand_in();
                self.hot.put(&[0xb8, 0, 0, 0, 0]); // mov eax, 0
                self.now.done += 1;
                self.link_jump(target);
            }
        }
    }

    fn branch(&mut self, insn: &Instruction, target: u64) {
        if insn.is_jcc_short_or_near() {
            self.hot.align_for_patch(2, 4);
            self.put_jcc(insn);
            let patch = self.hot.here();
            let stub = self.stub(LinkKind::Direct { target, patch });
            self.hot.rel32(stub);
            self.now.done += 1;
            self.link_jump(insn.next_ip());
        } else {
            // Over the jump on to the next instruction, which is padded to eight bytes so that both jumps can be aligned.
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

    fn push_return(&mut self, pc: u64) {
        if pc <= i32::MAX as u64 {
            self.hot.put(&[0x68]);
            self.hot.put32(pc as u32);
        } else {
            let k = self.constant(pc);
            self.hot.put(&[0xff, 0x35]);
            self.hot.rel32(k);
        }
    }

    fn constant(&mut self, v: u64) -> u64 {
        while self.cold.here() % 8 != 0 {
            self.cold.put(&[0xcc]);
        }
        let at = self.cold.here();
        self.cold.put(&v.to_le_bytes());
        at
    }

    fn indirect(&mut self, insn: &Instruction, call: bool) {
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
        let far = load.is_ip_rel_memory_operand()
            && (load.ip_rel_memory_address().wrapping_sub(self.hot.here()) as i64).unsigned_abs() > 0x7fff_0000;
        if gs || far {
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

    fn return_(&mut self, insn: &Instruction) {
        self.leave_stand_in();
        self.hot.store_gs(at::SAVED_RCX, RCX);
        self.mark();
        self.now.rcx_saved = true;
        let pop = if insn.op_count() == 1 { insn.immediate16() as u32 } else { 0 };
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
    fn link_jump(&mut self, target: u64) {
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
    fn leave(&mut self, kind: LinkKind) {
        let stub = self.stub(kind);
        self.hot.jump(stub);
    }

    fn stub(&mut self, kind: LinkKind) -> u64 {
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
                LinkKind::Syscall { pc } | LinkKind::Emulate { pc } => site.pc = SitePc::Const(pc),
            }
            self.sites.push((at, site));
        }
        self.cold.store_gs_imm(at::LINK, link);
        self.cold.jump_gs(at::LEAVE);
        at
    }
}

fn part_of(r: Register) -> Register {
    r.full_register()
}

/// Does the instruction really use its memory operand's segment (lea and nop do not).
fn touches_segment(insn: &Instruction) -> bool {
    !matches!(insn.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
}
