//! A planned block to instrumented code.
//!
//! **Layout.** A block has a *hot* piece (what runs) and a *cold* piece (exit stubs and constants).
//! ```text
//! hot:   [entry check]  head: [stand-in for r15]  id, captures, instructions, advance, exit jumps
//! cold:  one stub per exit, 64-bit constants
//! ```
//! **r15 is the buffer pointer.** The target's r15 lives at `gs:APP_R15`. A block that merely
//! pushes, pops or moves it works on that cell; any other use renames r15 to a *stand-in*, a
//! register the block does not touch, for the length of the block.
//!
//! **State can be recovered everywhere.** While emitting, [`Emitter`] knows at each byte which
//! instruction comes next and where each register of the target is. With `map` set it writes this
//! down as [`Site`]s; a signal handler emits the block again, looks its program counter up, and
//! delivers the signal with the state the program would have had. Every inserted sequence is
//! therefore either restartable or mapped step by step.
//!
//! **Indirect branches** jump through a per-thread table indexed by the low 16 bits of the target;
//! the entry check at the other end verifies the whole address without touching a flag.
mod entry;
mod exit;
mod instruction;
pub(crate) mod registers;
pub(crate) mod sites;

use crate::analyze::{Block, Exit, Way};
use crate::code::Code;
use crate::layout as at;
use crate::marker::Marker;
use crate::symbolic::{R15, RSP_REG};
use alloc::vec::Vec;
use iced_x86::{Encoder, FlowControl};
use memtrail_plan::LoopPlan;
use memtrail_ring::Probes;

pub use entry::emit_entry;
use entry::entry_check;
use instruction::stand_in;
use sites::Sites;

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
    /// Note what the marker at this address tells, and go on behind it.
    Marker { pc: u64, next: u64, marker: Marker },
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
    /// Captures that are in the current record.
    pub captured: u16,
    /// Inside an affine loop: whole iterations follow from the counter register.
    pub in_loop: bool,
    /// This is the copy for later iterations of a partly affine loop.
    pub steady: bool,
    pub rcx_saved: bool,
    pub rdx_saved: bool,
    /// Leaving through the way out that is instruction `done - 1`: the record says so, and only the
    /// buffer pointer has yet to move.
    pub leaving: bool,
    /// Register standing in for r15, itself saved.
    pub stand_in: Option<u8>,
    /// Register saved in the scratch cell.
    pub scratch: Option<u8>,
    /// Add to the hardware's rsp.
    pub rsp: i64,
}

impl Site {
    /// At `pc`, with every register where it belongs and nothing on record.
    const fn at(pc: SitePc) -> Site {
        Site {
            pc,
            done: 0,
            recorded: Recorded::Nothing,
            captured: 0,
            in_loop: false,
            steady: false,
            leaving: false,
            rcx_saved: false,
            rdx_saved: false,
            stand_in: None,
            scratch: None,
            rsp: 0,
        }
    }
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

struct Emitter<'a> {
    block: &'a Block,
    code: &'a [u8],
    place: Place,
    hot: Code,
    cold: Code,
    links: Vec<LinkKind>,
    sites: Sites,
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
        EmitScratch {
            encoder: Encoder::new(64),
            hot: Vec::new(),
            cold: Vec::new(),
            links: Vec::new(),
        }
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
    let now = Site::at(SitePc::Const(block.pc));
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
        hot: Code {
            base: place.hot,
            bytes: reuse(&mut scratch.hot),
        },
        cold: Code {
            base: place.cold,
            bytes: reuse(&mut scratch.cold),
        },
        links,
        sites: Sites::new(place.map),
        now,
        stand_in: stand_in(block),
        uses_r15: block.used & (1 << R15) != 0,
        encoder: &mut scratch.encoder,
    };
    entry_check(&mut e.hot, &mut e.cold, place.entry, block.pc, &mut e.sites);
    e.hot.align_for_patch(0, 5);
    let head = e.hot.offset();
    e.mark();
    e.body();
    Emitted {
        hot: e.hot.bytes,
        cold: e.cold.bytes,
        head,
        links: e.links,
        sites: e.sites.list,
    }
}

impl<'a> Emitter<'a> {
    #[cfg_attr(test, track_caller)]
    fn mark(&mut self) {
        self.sites.mark(self.hot.here(), self.now);
    }

    fn recording(&self) -> bool {
        self.place.probes != Probes::None
    }

    fn body(&mut self) {
        let block = self.block;
        match &block.plan.looping {
            None => {
                self.enter_stand_in();
                self.copy();
                self.exit();
            }
            Some(LoopPlan::Affine { .. }) => self.affine(),
            Some(LoopPlan::Partly { .. }) => {
                self.enter_stand_in();
                self.copy();
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
                self.copy();
                self.leave_stand_in();
                self.back_edge(steady);
                self.fall_out();
            }
        }
    }

    /// Captures and instructions, without the last one if that is a control transfer.
    fn copy(&mut self) {
        let block = self.block;
        let words = block.record_words(self.now.steady) as u32;
        let mut captures = block.captures_of(self.now.steady).peekable();
        self.begin_record();
        let n = self.straight_insns();
        for i in 0..=n {
            while let Some(c) = captures.next_if(|c| usize::from(c.pos) == i) {
                self.capture(&c);
            }
            if captures.peek().is_none() && self.now.recorded == Recorded::Open {
                self.finish_record(words);
            }
            if i < n && !self.side(i, words) && !self.turn(i) {
                self.instruction(i);
            }
        }
    }

    /// If instruction `i` is a side exit, emit it: the branch in place, the rest out of the way.
    fn side(&mut self, i: usize, words: u32) -> bool {
        let block = self.block;
        let Some(n) = block.plan.sides.iter().position(|s| s.insn as usize == i) else {
            return false;
        };
        let insn = block.insns[i];
        let (target, on_at, inverted) = match block.ways[n] {
            Way::Taken { target } => (target, insn.next_ip(), false),
            Way::NotTaken { next } => (next, insn.near_branch64(), true),
            Way::NotTo { expected } => {
                match insn.flow_control() {
                    FlowControl::Return => self.guarded_return(n, words, expected),
                    _ => self.guarded_indirect(n, words, expected),
                }
                return true;
            }
        };
        self.now.done = i as u16;
        self.now.pc = SitePc::Const(insn.ip());
        self.mark();
        self.put_jcc(i, inverted);
        let stub = self.cold.here();
        self.hot.rel32(stub);
        let on = self.now;
        self.now.done += 1;
        self.now.pc = SitePc::Const(target);
        self.mark_cold();
        if self.now.in_loop {
            let counter = self.counter_register();
            self.cold.capture((words - 1) * 8, counter);
        }
        self.record_way_out(n, words, self.now);
        self.drop_stand_in();
        self.cold.align_for_patch(0, 5);
        self.cold.put(&[0xe9]);
        let patch = self.cold.here();
        // Until it is linked the jump leads to the stub right behind it.
        self.cold.put32(0);
        self.stub(LinkKind::Direct { target, patch });
        self.now = on;
        self.now.done = i as u16 + 1;
        self.now.pc = SitePc::Const(on_at);
        self.mark();
        true
    }

    /// Out of the way: r15 goes where it belongs.
    fn drop_stand_in(&mut self) {
        if let Some(r) = self.stand_in {
            if self.block.writes_r15 {
                self.cold.store_gs(at::APP_R15, r);
            }
            self.cold.load_gs(r, at::SAVED_STAND_IN);
            self.now.stand_in = None;
            self.mark_cold();
        }
    }

    /// If a path goes on elsewhere after instruction `i`, and always does, emit what is left of the
    /// jump or call.
    fn turn(&mut self, i: usize) -> bool {
        let block = self.block;
        let Some(piece) = block.plan.pieces.iter().find(|p| usize::from(p.insn) == i + 1) else {
            return false;
        };
        let insn = block.insns[i];
        self.now.done = i as u16;
        self.now.pc = SitePc::Const(insn.ip());
        self.mark();
        if insn.is_call_near() {
            self.push_return(insn.next_ip());
        }
        self.now.done += 1;
        self.now.pc = SitePc::Const(piece.pc);
        self.mark();
        true
    }

    /// A return inside a path: goes on if the return address is the expected one.
    fn guarded_return(&mut self, n: usize, words: u32, expected: u64) {
        let i = usize::from(self.block.plan.sides[n].insn);
        self.now.done = i as u16;
        self.now.pc = SitePc::Const(self.block.insns[i].ip());
        self.mark();
        self.hot.store_gs(at::SAVED_RCX, RCX);
        self.mark();
        let miss = self.cold.here();
        self.hot.put(&[0x8b, 0x0c, 0x24]); // mov ecx, [rsp]
        self.now.rcx_saved = true;
        self.mark();
        self.unless_half(expected as u32, miss);
        self.hot.put(&[0x8b, 0x4c, 0x24, 0x04]); // mov ecx, [rsp+4]
        self.unless_half((expected >> 32) as u32, miss);
        let on = self.now;
        // Until it is on record that the return goes elsewhere it has not happened.
        self.mark_cold();
        self.cold.put(&[0x48, 0x8d, 0x64, 0x24, 0x08]); // lea rsp, [rsp+8]
        self.now.rsp -= 8;
        self.mark_cold();
        let done = i as u16 + 1;
        let pc = SitePc::BelowStack;
        self.record_way_out(n, words, Site { pc, done, ..on });
        self.drop_stand_in();
        self.cold.put(&[0x0f, 0xb7, 0x4c, 0x24, 0xf8]); // movzx ecx, word [rsp-8]
        self.cold.jump_table(RCX, at::RETURN_TABLE);
        self.now = on;
        self.hot.load_gs(RCX, at::SAVED_RCX);
        self.now.rcx_saved = false;
        self.mark();
        self.hot.put(&[0x48, 0x8d, 0x64, 0x24, 0x08]); // lea rsp, [rsp+8]
        self.now.done = i as u16 + 1;
        self.now.pc = SitePc::Const(expected);
        self.mark();
    }

    /// An indirect jump or call inside a path: goes on if it leads where it is expected to.
    fn guarded_indirect(&mut self, n: usize, words: u32, expected: u64) {
        let i = usize::from(self.block.plan.sides[n].insn);
        let insn = self.block.insns[i];
        let back = (insn.flow_control() == FlowControl::IndirectCall).then(|| self.constant(insn.next_ip()));
        self.now.done = i as u16;
        self.now.pc = SitePc::Const(insn.ip());
        self.mark();
        self.load_target(&insn);
        self.hot.store_gs(at::TARGET, RCX);
        let miss = self.cold.here();
        self.unless_half(expected as u32, miss);
        self.hot.put(&[0x65, 0x8b, 0x0c, 0x25]); // mov ecx, gs:[TARGET+4]
        self.hot.put32(at::TARGET + 4);
        self.unless_half((expected >> 32) as u32, miss);
        let on = self.now;
        self.mark_cold();
        self.cold.load_gs(RCX, at::TARGET);
        if let Some(back) = back {
            self.cold.push_constant(back);
            self.now.rsp += 8;
            self.mark_cold();
        }
        let done = i as u16 + 1;
        let pc = SitePc::Rcx(0);
        self.record_way_out(n, words, Site { pc, done, ..on });
        self.drop_stand_in();
        self.cold.store_gs(at::SAVED_RDX, RDX);
        self.mark_cold();
        self.cold.put(&[0x0f, 0xb7, 0xd1]); // movzx edx, cx
        self.now.rdx_saved = true;
        self.mark_cold();
        self.cold.jump_table(RDX, at::INDIRECT_TABLE);
        self.now = on;
        self.hot.load_gs(RCX, at::SAVED_RCX);
        self.now.rcx_saved = false;
        self.mark();
        if let Some(back) = back {
            self.hot.push_constant(back);
        }
        self.now.done = i as u16 + 1;
        self.now.pc = SitePc::Const(expected);
        self.mark();
    }

    /// Go to `miss` unless ecx is `half` an address. Addresses are compared by halves, because then
    /// rcx will do, and no flag is touched.
    fn unless_half(&mut self, half: u32, miss: u64) {
        self.hot.put(&[0x8d, 0x89]); // lea ecx, [rcx-half]
        self.hot.put32(half.wrapping_neg());
        self.hot.put(&[0xe3, 5]); // jrcxz over the jump
        self.hot.jump(miss);
    }

    /// Out of the way: the block is left through way out number `n`, which the record tells by its
    /// id. From that moment on the state is `left`.
    fn record_way_out(&mut self, n: usize, words: u32, left: Site) {
        if self.recording() {
            let id = self.id(Some(n));
            if self.now.recorded == Recorded::Open {
                let words = match &self.block.plan.looping {
                    None => self.block.plan.sides[n].words.into(),
                    Some(_) => words,
                };
                if let (Some(LoopPlan::Partly { .. }), 2..) = (&self.block.plan.looping, words) {
                    // The end of the record must be there, or moving past it could jump over the
                    // guard.
                    self.cold.capture_zero((words - 1) * 8);
                }
                self.cold.change_id(0, id);
                self.now = Site { leaving: true, ..left };
                self.mark_cold();
                self.cold.advance(words * 8);
            } else {
                self.cold.change_id(words * 8, id);
            }
        }
        self.now = Site {
            recorded: Recorded::Nothing,
            in_loop: false,
            ..left
        };
        self.mark_cold();
    }

    #[cfg_attr(test, track_caller)]
    fn mark_cold(&mut self) {
        self.sites.mark(self.cold.here(), self.now);
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

    /// The id of the records that are being written, or of those that end at way out number `side`.
    fn id(&self, side: Option<usize>) -> u32 {
        let steady = if self.now.steady {
            self.block.plan.steady_ids()
        } else {
            0
        };
        self.place.id + steady + side.map_or(0, |n| n as u32 + 1)
    }

    fn begin_record(&mut self) {
        if self.recording() {
            self.hot.capture_id(self.id(None));
            self.now.recorded = Recorded::Open;
            self.now.captured = 0;
            self.mark();
        } else {
            // A head is patched over when the block dies: its first instruction must be long
            // enough.
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
        self.begin_record();
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
        let last = self.block.insns.len() - 1;
        let insn = self.block.insns[last];
        if insn.is_jcc_short_or_near() {
            self.put_jcc(last, false);
            self.hot.rel32(to);
            return;
        }
        self.short_back_edge();
        self.hot.rel32(to);
    }

    /// The branch of a loop that ends with loop or jrcxz: short, over a jump out, to a jump back
    /// whose distance follows. At either jump the branch is done, and with it the iteration.
    fn short_back_edge(&mut self) {
        self.short_branch(2);
        self.now.done = self.block.insns.len() as u16;
        self.now.pc = SitePc::Const(self.block.end());
        self.mark();
        self.hot.put(&[0xeb, 5]);
        self.now.pc = SitePc::Const(self.block.pc);
        self.mark();
        self.hot.put(&[0xe9]);
    }

    /// Like `back_edge`, to a place not known yet: emits the way out too, and returns the field to
    /// patch.
    fn conditional_to_later(&mut self) -> usize {
        let insn = self.block.insns[self.block.insns.len() - 1];
        self.now.done = (self.block.insns.len() - 1) as u16;
        self.now.pc = SitePc::Const(insn.ip());
        self.mark();
        let field;
        if insn.is_jcc_short_or_near() {
            self.put_jcc(self.block.insns.len() - 1, false);
            field = self.hot.bytes.len();
            self.hot.put32(0);
        } else {
            self.short_back_edge();
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

    /// The opcode of the conditional branch that is instruction `i`, or of its opposite; the
    /// distance follows.
    fn put_jcc(&mut self, i: usize, inverted: bool) {
        let bytes = self.bytes_of(i);
        // The condition is in the low half of the opcode byte of both encodings, its sense in the
        // lowest bit.
        let opcode = if self.block.insns[i].is_jcc_short() {
            bytes[bytes.len() - 2]
        } else {
            bytes[bytes.len() - 5]
        };
        self.hot.put(&[0x0f, 0x80 | (opcode & 15) ^ u8::from(inverted)]);
    }

    /// The code of instruction `i`.
    fn bytes_of(&self, i: usize) -> &'a [u8] {
        let start = usize::from(self.block.plan.insn_offsets[i]);
        &self.code[start..start + self.block.insns[i].len()]
    }

    /// loop, loope, loopne, jrcxz or jecxz with its distance replaced.
    fn short_branch(&mut self, rel: u8) {
        let bytes = self.bytes_of(self.block.insns.len() - 1);
        self.hot.put(&bytes[..bytes.len() - 1]);
        self.hot.put(&[rel]);
    }
}
