//! The probe plan: what a block's record holds, and how its accesses follow from it.
//!
//! A plan is what the translator knows of a block once and for all. The code it emitted
//! writes [`Plan::words`] words per execution; everything else is computed offline from
//! those words and three *carried* values that the reader of a thread's records keeps up
//! to date: the stack pointer and the bases of `fs` and `gs`.
//!
//! **Slots.** Expressions refer to values by slot number:
//! - [`RSP`], [`FS`], [`GS`]: the carried values as they were when the block was entered;
//! - [`FIRST`]` + i`: word `1 + i` of the record (word 0 is the id), for `i < words - 1`;
//! - after those, the [`Plan::derived`] values in order, each computed from earlier slots.
//!
//! All arithmetic is wrapping 64-bit arithmetic.
//!
//! The translator makes plans, the decoder reads records by them, and the file stores them: this
//! crate is what the three share.
//!
//! Not for: decoding instructions (that is `memtrail-translate`), decoding records
//! (`memtrail-decode`).
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod xsave;

pub use xsave::{XsaveComponent, XsaveTable};

use alloc::boxed::Box;
use alloc::vec::Vec;
use memtrail_model::Kind;
pub use memtrail_model::Via;

pub type Slot = u16;
pub const RSP: Slot = 0;
pub const FS: Slot = 1;
pub const GS: Slot = 2;
/// Slot of the record's first value word.
pub const FIRST: Slot = 3;

/// Most terms in a linear form. Three: base, scaled index, segment base.
pub const TERMS: usize = 3;

/// A linear form `c + Σ slot·scale`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lin {
    pub c: u64,
    pub n: u8,
    pub terms: [(Slot, i32); TERMS],
}

impl Lin {
    pub const fn constant(c: u64) -> Lin {
        Lin {
            c,
            n: 0,
            terms: [(0, 0); TERMS],
        }
    }
    pub const fn slot(s: Slot) -> Lin {
        Lin {
            c: 0,
            n: 1,
            terms: [(s, 1), (0, 0), (0, 0)],
        }
    }
    pub fn terms(&self) -> &[(Slot, i32)] {
        &self.terms[..self.n as usize]
    }
    /// The value, given the slots' values.
    #[inline]
    pub fn eval(&self, slots: &[u64]) -> u64 {
        let mut v = self.c;
        for &(s, k) in self.terms() {
            v = v.wrapping_add(slots[s as usize].wrapping_mul(k as i64 as u64));
        }
        v
    }
    /// Every slot the form refers to.
    pub fn each_slot(&mut self, f: &mut dyn FnMut(&mut Slot)) {
        let n = self.n as usize;
        self.terms[..n].iter_mut().for_each(|t| f(&mut t.0));
    }
    pub fn offset(mut self, d: u64) -> Lin {
        self.c = self.c.wrapping_add(d);
        self
    }
    /// `self + other·scale`, or `None` if it needs more than [`TERMS`] terms or a scale past 32
    /// bits.
    pub fn add(mut self, other: &Lin, scale: i64) -> Option<Lin> {
        self.c = self.c.wrapping_add(other.c.wrapping_mul(scale as u64));
        for &(s, k) in other.terms() {
            let k = (k as i64).checked_mul(scale)?;
            let have = self.n as usize;
            if let Some(i) = self.terms().iter().position(|t| t.0 == s) {
                self.terms[i].1 = i32::try_from(self.terms[i].1 as i64 + k).ok()?;
                if self.terms[i].1 == 0 {
                    self.terms[i] = self.terms[have - 1];
                    self.terms[have - 1] = (0, 0);
                    self.n -= 1;
                }
            } else if k != 0 {
                if have == TERMS {
                    return None;
                }
                self.terms[have] = (s, i32::try_from(k).ok()?);
                self.n += 1;
            }
        }
        Some(self)
    }
}

/// The bits of a linear form that make a derived value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Narrow {
    /// The lowest.
    pub from: u8,
    /// How many. There is at least one, and none is behind the 64th; not all 64.
    pub bits: u8,
    /// The highest is a sign: it is extended.
    pub signed: bool,
}

impl Narrow {
    pub const ZERO8: Narrow = Narrow::low(8, false);
    pub const ZERO16: Narrow = Narrow::low(16, false);
    pub const ZERO32: Narrow = Narrow::low(32, false);
    pub const SIGN8: Narrow = Narrow::low(8, true);
    pub const SIGN16: Narrow = Narrow::low(16, true);
    pub const SIGN32: Narrow = Narrow::low(32, true);

    const fn low(bits: u8, signed: bool) -> Narrow {
        Narrow { from: 0, bits, signed }
    }

    /// `None` if there are no such bits, or if they are all.
    pub const fn checked(from: u8, bits: u8, signed: bool) -> Option<Narrow> {
        if bits == 0 || bits == 64 || from > 63 || from + bits > 64 {
            return None;
        }
        Some(Narrow { from, bits, signed })
    }

    /// The largest number that the bits can hold.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The sign, if there is one, else 0.
    pub const fn sign(self) -> u64 {
        if self.signed {
            1 << (self.bits - 1)
        } else {
            0
        }
    }

    #[inline]
    pub const fn apply(self, v: u64) -> u64 {
        (((v >> self.from) & self.mask()) ^ self.sign()).wrapping_sub(self.sign())
    }

    /// How far the bits move, as a number, if all of the form moves by `stride`: `None` if that
    /// depends on where it was. It is meant modulo what they can hold.
    pub const fn stride(self, stride: u64) -> Option<u64> {
        if stride & ((1 << self.from) - 1) != 0 {
            return None;
        }
        Some((stride as i64 >> self.from) as u64)
    }
}

/// A value computed offline: `narrow(of)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Derived {
    pub narrow: Narrow,
    pub of: Lin,
}

/// An address: a linear form, cut to 32 bits under the 67h prefix (before the segment base is
/// added).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addr {
    pub lin: Lin,
    /// The effective address is `lin mod 2^32`.
    pub low32: bool,
    /// Slot of the segment base to add, if any ([`FS`] or [`GS`]).
    pub segment: Option<Slot>,
}

impl Addr {
    /// An address of 64 bits with no segment base.
    pub const fn of(lin: Lin) -> Addr {
        Addr {
            lin,
            low32: false,
            segment: None,
        }
    }
    #[inline]
    pub fn eval(&self, slots: &[u64]) -> u64 {
        let mut a = self.lin.eval(slots);
        if self.low32 {
            a = a as u32 as u64;
        }
        match self.segment {
            Some(s) => a.wrapping_add(slots[s as usize]),
            None => a,
        }
    }
}

/// Which lanes of a masked access are active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// All of them.
    All,
    /// Bit `i` of the word in this slot (an opmask register).
    Bits(Slot),
    /// The top bit of element `i`, elements of this many bytes, of the vector that begins in this
    /// slot and takes consecutive record words, little-endian.
    SignOf { first: Slot, bytes: u8 },
}

/// A repeated string instruction: `before - after` elements (counts cut to 32 bits if `low32`).
/// Element `i` touches the source (a read), then the destination with the access's own kind;
/// both move by `±size`, downwards if `moved` (the index register after) is below its value
/// before (`pointer`). Under a CUT record at this instruction `after` and `moved` are the
/// registers in the CUT record: rcx, and rsi or rdi as `moved_is_rsi` tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeat {
    /// Read operand that comes first in each element, if there are two operands or only a read.
    pub source: Option<Addr>,
    /// Second operand in each element.
    pub dest: Option<(Addr, Kind)>,
    pub size: u8,
    pub before: Lin,
    pub after: Slot,
    pub low32: bool,
    pub pointer: Lin,
    pub moved: Slot,
    pub moved_is_rsi: bool,
}

/// `bt m, r` and its kin: the `size`-byte word holding bit `bit` (signed, `size·8`-bit) from
/// `addr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BitWord {
    pub addr: Addr,
    pub bit: Lin,
    pub size: u8,
}

/// xsave and its kin: the extent of the components in `XCR0 & mask`; compact or standard layout.
/// `compact` is `Layout::Image` for xrstor: bit 63 of the word in that slot tells (XCOMP_BV).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Xstate {
    pub addr: Addr,
    pub low: Lin,
    pub high: Lin,
    pub layout: Layout,
}

/// What one instruction's memory operand amounts to. Nearly all are plain, and a session keeps
/// millions of them: what is long and rare is elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One access.
    Plain {
        addr: Addr,
        size: u32,
    },
    Repeat(Box<Repeat>),
    /// A gather or scatter: lane `i`, if active, touches `addr + index[i]·scale`, ascending `i`.
    Lanes {
        addr: Addr,
        index: Slot,
        index_bytes: u8,
        scale: u8,
        lanes: u8,
        mask: Mask,
        size: u8,
    },
    /// A masked vector access: element `i`, if active, touches `addr + i·size`.
    Elements {
        addr: Addr,
        lanes: u8,
        mask: Mask,
        size: u8,
    },
    /// A masked broadcast: one element at `addr` if any of the `lanes` is active.
    Broadcast {
        addr: Addr,
        lanes: u8,
        mask: Mask,
        size: u8,
    },
    /// Compress-store, expand-load: as many consecutive elements as there are active lanes.
    Packed {
        addr: Addr,
        lanes: u8,
        mask: Mask,
        size: u8,
    },
    BitWord(Box<BitWord>),
    /// One access to the aligned `size`-byte line that holds `addr` (clzero).
    Line {
        addr: Addr,
        size: u32,
    },
    Xstate(Box<Xstate>),
}

impl From<Repeat> for Shape {
    fn from(repeat: Repeat) -> Shape {
        Shape::Repeat(Box::new(repeat))
    }
}

impl From<BitWord> for Shape {
    fn from(word: BitWord) -> Shape {
        Shape::BitWord(Box::new(word))
    }
}

impl From<Xstate> for Shape {
    fn from(xstate: Xstate) -> Shape {
        Shape::Xstate(Box::new(xstate))
    }
}

impl Mask {
    fn each_slot(&mut self, f: &mut dyn FnMut(&mut Slot)) {
        match self {
            Mask::All => {}
            Mask::Bits(s) | Mask::SignOf { first: s, .. } => f(s),
        }
    }
}

impl Shape {
    /// The size of the one access that it makes; `None` if number or size depend on values.
    pub fn fixed_size(&self) -> Option<u32> {
        match self {
            Shape::Plain { size, .. } => Some(*size),
            Shape::BitWord(word) => Some(word.size.into()),
            _ => None,
        }
    }
    /// Every linear form of the shape.
    fn each_lin(&mut self, f: &mut dyn FnMut(&mut Lin)) {
        match self {
            Shape::Plain { addr, .. }
            | Shape::Line { addr, .. }
            | Shape::Lanes { addr, .. }
            | Shape::Elements { addr, .. }
            | Shape::Broadcast { addr, .. }
            | Shape::Packed { addr, .. } => f(&mut addr.lin),
            Shape::Repeat(repeat) => {
                repeat.source.iter_mut().for_each(|a| f(&mut a.lin));
                repeat.dest.iter_mut().for_each(|(a, _)| f(&mut a.lin));
                f(&mut repeat.before);
                f(&mut repeat.pointer);
            }
            Shape::BitWord(word) => {
                f(&mut word.addr.lin);
                f(&mut word.bit);
            }
            Shape::Xstate(xstate) => {
                f(&mut xstate.addr.lin);
                f(&mut xstate.low);
                f(&mut xstate.high);
            }
        }
    }
    /// Every slot the shape refers to, but for segment bases; vectors by their first.
    pub fn each_slot(&mut self, f: &mut dyn FnMut(&mut Slot)) {
        match self {
            Shape::Plain { addr, .. } | Shape::Line { addr, .. } => addr.lin.each_slot(f),
            Shape::Repeat(repeat) => {
                repeat.source.iter_mut().for_each(|a| a.lin.each_slot(f));
                repeat.dest.iter_mut().for_each(|(a, _)| a.lin.each_slot(f));
                repeat.before.each_slot(f);
                repeat.pointer.each_slot(f);
                f(&mut repeat.after);
                f(&mut repeat.moved);
            }
            Shape::Lanes { addr, index, mask, .. } => {
                addr.lin.each_slot(f);
                f(index);
                mask.each_slot(f);
            }
            Shape::Elements { addr, mask, .. }
            | Shape::Broadcast { addr, mask, .. }
            | Shape::Packed { addr, mask, .. } => {
                addr.lin.each_slot(f);
                mask.each_slot(f);
            }
            Shape::BitWord(word) => {
                word.addr.lin.each_slot(f);
                word.bit.each_slot(f);
            }
            Shape::Xstate(xstate) => {
                xstate.addr.lin.each_slot(f);
                xstate.low.each_slot(f);
                xstate.high.each_slot(f);
                if let Layout::Image(s) = &mut xstate.layout {
                    f(s);
                }
            }
        }
    }
}

/// Layout of an xsave area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    Standard,
    Compact,
    /// As bit 63 of the captured XCOMP_BV in this slot says.
    Image(Slot),
}

/// One memory operand of one instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedAccess {
    /// Index of the instruction in the block.
    pub insn: u16,
    pub kind: Kind,
    pub shape: Shape,
}

const _: () = assert!(size_of::<PlannedAccess>() <= 72);

/// How a slot changes from one iteration of a self-loop to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub slot: Slot,
    pub by: u64,
    /// The register is stepped with 32-bit instructions: `next = (value + by) mod 2^32`.
    pub low32: bool,
    /// A multiple of another, unchanging slot that is added besides.
    pub plus: Option<(Slot, i32)>,
    /// What the slot was does not count: it becomes `by` and `plus`. Only in loops with a record
    /// for every iteration; the other slot then is that of a value word that they all have.
    pub anew: bool,
}

impl Step {
    /// Whether it does anything.
    pub fn moves(&self) -> bool {
        self.by != 0 || self.low32 || self.plus.is_some() || self.anew
    }

    /// How far the slot moves each time, given the slots' values.
    #[inline]
    pub fn distance(&self, slots: &[u64]) -> u64 {
        match self.plus {
            None => self.by,
            Some((s, k)) => self.by.wrapping_add(slots[s as usize].wrapping_mul(k as i64 as u64)),
        }
    }
}

/// A way out of a block before its end: a conditional branch, or in a path a return or an indirect
/// jump or call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Side {
    /// The instruction through which it is left.
    pub insn: u16,
    /// The stack pointer then.
    pub rsp: Lin,
    /// In an affine loop: how far the counter has moved in this iteration then.
    pub moved: u64,
    /// Words of a record that ends there: what is captured later is not in it. In a loop all of
    /// them.
    pub words: u16,
}

/// What a record with a certain id is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Words of the record, id included.
    pub words: u16,
    /// The way out before the end through which the block was left, by its place in
    /// [`Plan::sides`].
    pub side: Option<u16>,
    /// It is that of an iteration after the first.
    pub steady: bool,
}

/// What kind of record a self-loop writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoopPlan {
    /// One record per entry of the loop. Its last word is the value of the register captured in
    /// `counter` when the loop was left; the trip count is the difference divided by that slot's
    /// step (taken mod 2^32 if the step is `low32`). `counter` may be [`RSP`]. A whole execution
    /// without the last word's slot being used by any access: expressions never refer to it.
    Affine { steps: Vec<Step>, counter: Step },
    /// The first iteration writes an ordinary record of `words` words; each later one writes a
    /// *steady* one, with ids of its own and `free.len()` value words: the new values of the slots
    /// in `free`, in order. The slots in `steps` move by their steps; all others stay.
    Partly { steps: Vec<Step>, free: Vec<Slot> },
}

/// A stretch of a path's code: where it stands and how many bytes it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    pub pc: u64,
    pub bytes: u32,
}

/// A stretch of a path's code that does not follow on the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The index of its first instruction.
    pub insn: u16,
    pub pc: u64,
    /// How control gets there from the instruction before.
    pub via: Via,
}

/// The plan of one block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub pc: u64,
    /// Bytes of code in the block.
    pub bytes: u32,
    /// Where every instruction begins in the block's code, whose pieces are put end to end.
    pub insn_offsets: Vec<u16>,
    /// The pieces of a path after the first, in order. Most blocks are of one piece.
    pub pieces: Vec<Piece>,
    /// Words of the record, id included. 0 if this probe mode writes no records.
    pub words: u16,
    pub derived: Vec<Derived>,
    /// In execution order.
    pub accesses: Vec<PlannedAccess>,
    /// The stack pointer after the block (for a loop: after one iteration, as a function of that
    /// iteration's slots).
    pub exit_rsp: Lin,
    pub looping: Option<LoopPlan>,
    /// Ways out before the end, in order.
    pub sides: Vec<Side>,
}

impl Plan {
    pub fn slots(&self) -> usize {
        FIRST as usize + (self.words as usize).saturating_sub(1) + self.derived.len()
    }
    /// Every constant that may be an address, but for where pieces of code stand.
    pub fn each_constant(&mut self, f: &mut dyn FnMut(&mut u64)) {
        self.derived.iter_mut().for_each(|d| f(&mut d.of.c));
        let mut in_lin = |lin: &mut Lin| f(&mut lin.c);
        self.accesses.iter_mut().for_each(|a| a.shape.each_lin(&mut in_lin));
        in_lin(&mut self.exit_rsp);
        self.sides.iter_mut().for_each(|s| in_lin(&mut s.rsp));
        if let Some(LoopPlan::Affine { steps, .. } | LoopPlan::Partly { steps, .. }) = &mut self.looping {
            steps.iter_mut().for_each(|s| f(&mut s.by));
        }
    }
    /// Where an instruction stands, and how long it is.
    pub fn instruction(&self, insn: u16) -> (u64, u32) {
        let insn = usize::from(insn);
        let offset = u32::from(self.insn_offsets[insn]);
        let end = self.insn_offsets.get(insn + 1).map_or(self.bytes, |&o| o.into());
        let (begin, pc) = self.piece_of(insn);
        let distance = offset.wrapping_sub(u32::from(self.insn_offsets[begin]));
        (pc.wrapping_add(distance.into()), end.saturating_sub(offset))
    }
    /// The first instruction of the piece that instruction `insn` is in, and where it stands.
    fn piece_of(&self, insn: usize) -> (usize, u64) {
        match self.pieces.iter().rev().find(|p| usize::from(p.insn) <= insn) {
            Some(piece) => (piece.insn.into(), piece.pc),
            None => (0, self.pc),
        }
    }
    /// Where the piece begins that instruction `insn` is in.
    pub fn piece_start(&self, insn: u16) -> u64 {
        self.piece_of(insn.into()).1
    }
    /// The last instruction, and the first byte behind it.
    pub fn end(&self) -> (u64, u64) {
        match self.insn_offsets.len().checked_sub(1) {
            Some(last) => {
                let (pc, length) = self.instruction(last as u16);
                (pc, pc.wrapping_add(length.into()))
            }
            None => (self.pc, self.pc.wrapping_add(self.bytes.into())),
        }
    }
    /// Ids this plan takes: one for a whole record, one for each way out before the end, and the
    /// same again if iterations after the first have records of their own. The first of them is the
    /// block's.
    pub fn ids(&self) -> u32 {
        let steady = matches!(self.looping, Some(LoopPlan::Partly { .. }));
        (1 + self.sides.len() as u32) << u32::from(steady)
    }
    /// What a record with the `n`th of the block's ids is.
    pub fn record(&self, n: u32) -> Record {
        let each = 1 + self.sides.len() as u32;
        let side = (n % each).checked_sub(1).map(|s| s as u16);
        let steady = n >= each;
        let words = match (&self.looping, side) {
            (Some(LoopPlan::Partly { free, .. }), _) if steady => 1 + free.len() as u16,
            (_, Some(side)) => self.sides[usize::from(side)].words,
            _ => self.words,
        };
        Record { words, side, steady }
    }
    /// Basic blocks that an execution runs through which ends at a way out, or is whole: each goes
    /// to the next branch, jump, call or return, taken or not.
    pub fn basic_blocks(&self, side: Option<u16>) -> usize {
        let last = side.map_or(u16::MAX, |s| self.sides[usize::from(s)].insn);
        let is_side = |insn: u16| self.sides.iter().any(|s| s.insn == insn);
        let sides = self.sides.iter().filter(|s| s.insn < last).count();
        let turns = self
            .pieces
            .iter()
            .map(|p| p.insn - 1)
            .filter(|&insn| insn < last && !is_side(insn));
        1 + sides + turns.count()
    }
    /// How far after the block's own id those of steady records begin.
    pub fn steady_ids(&self) -> u32 {
        1 + self.sides.len() as u32
    }
    /// Trip count of an affine loop from the counter's first and last values.
    pub fn trips(counter: &Step, entry: u64, exit: u64) -> u64 {
        let (mut d, mut by) = (exit.wrapping_sub(entry), counter.by);
        if (by as i64) < 0 {
            (d, by) = (d.wrapping_neg(), by.wrapping_neg());
        }
        if counter.low32 {
            d = d as u32 as u64;
        }
        d / by
    }
}
