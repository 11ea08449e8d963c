//! The block table in the file: plans in columns.
//!
//! **Problem.** A small program runs a thousand blocks before its `main`; what is known of them
//! must not outweigh what they did.
//!
//! **Idea.** Fields of one class stand together in a column, so that the compressor behind sees
//! alike bytes side by side. What is common takes one byte: an instruction with its length, the
//! number of its accesses and whether it is a way out; an access with its kind, size and the form
//! of its address. Numbers are stored as distances from what is likely. What is uncommon goes,
//! field after field, to one column of its own.
//!
//! **Invariants.** Decoding gives exactly the plans that were encoded. Every list element takes at
//! least one byte, so what decoding allocates is bounded by what it reads. `docs/trace-format.md`
//! specifies the layout.
mod code;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(crate) use code::CodeMap;
pub(crate) use decode::{decode, Catalog, Wrong};
pub(crate) use encode::Encoder;

use memtrail_model::{Kind, Via};
use memtrail_plan::{Lin, Plan, Slot, FIRST, RSP};
use memtrail_ring::record::FIRST_BLOCK;
use std::ops::Range;

/// The columns, in the order in which they stand in the payload.
#[derive(Clone, Copy)]
enum Column {
    /// Per block: how it differs from the usual.
    Flags,
    /// Per block: id, as a distance from the first free one.
    Id,
    /// Per block: which of the latest ends it begins at, from 1 for the last; 0 if at none.
    Pc,
    /// Per block that begins at none: address, as a distance from the end of the block before.
    Jump,
    /// Per block: words of its record.
    Words,
    /// Per value word: the register it comes from.
    Source,
    /// Per instruction.
    Instruction,
    /// Per access.
    Access,
    /// Per stack access: distance from the likely stack pointer.
    Stack,
    /// Per way out and end: the stack pointer, as a distance from the likely one.
    Rsp,
    /// Slots of captured values.
    Slot,
    /// Distances from captured values.
    Offset,
    /// Constant addresses, as distances from the one before.
    Address,
    /// All the rest.
    Rare,
    /// Per piece of code: its image, as a distance from the one before.
    Image,
    /// Bytes of code that stand nowhere before.
    Code,
}
pub(crate) const COLUMNS: usize = 16;

// Block flags.
const DERIVED: u8 = 1;
const AFFINE: u8 = 2;
const PARTLY: u8 = 4;
const PIECES: u8 = 8;
/// Its code is known.
const CODE: u8 = 16;
/// All of its code stands in the column, and takes the place of what was known.
const CODE_ANEW: u8 = 32;

/// No instruction is longer, if its code is known.
const LONGEST_INSTRUCTION: u32 = 15;

// Head of a piece: how control gets there, and above it how many instructions behind the beginning
// of the piece before.
const VIA: u64 = 3;
const INSNS_SHIFT: u32 = 2;
/// Ways to get to a piece, by number.
const VIAS: [Via; 3] = [Via::Jump, Via::Call, Via::Return];

// Instruction byte: length, way out, accesses, last of its block.
const LENGTH: u8 = 0x0f;
const WAY_OUT: u8 = 0x10;
const ACCESSES_SHIFT: u32 = 5;
const ACCESSES: u8 = 3;
const LAST: u8 = 0x80;

// Access byte: kind, log2 of the size, form.
const KIND: u8 = 3;
const SIZE_SHIFT: u32 = 2;
const SIZE: u8 = 7;
const FORM_SHIFT: u32 = 5;

/// Forms of a plain access's address.
const FORM_STACK: u8 = 0;
const FORM_SLOT: u8 = 1;
const FORM_CONSTANT: u8 = 2;
const FORM_INDEXED: u8 = 3;
const FORM_FS: u8 = 4;
const FORM_OTHER: u8 = 7;

/// Shapes that have no form of their own.
mod shape {
    pub const PLAIN: u8 = 0;
    pub const REPEAT: u8 = 1;
    pub const LANES: u8 = 2;
    pub const ELEMENTS: u8 = 3;
    pub const BROADCAST: u8 = 4;
    pub const PACKED: u8 = 5;
    pub const BIT_WORD: u8 = 6;
    pub const LINE: u8 = 7;
    pub const XSTATE: u8 = 8;
}

// Flags of a repeated string instruction; above them the destination's kind + 1, or 0.
const COUNT_IS_LOW32: u8 = 1;
const MOVED_IS_RSI: u8 = 2;
const HAS_SOURCE: u8 = 4;
const DEST_SHIFT: u32 = 3;

const MASK_ALL: u8 = 0;
const MASK_BITS: u8 = 1;
const MASK_SIGNS: u8 = 2;

// Flags of a step.
const STEP_IS_LOW32: u8 = 1;
const STEP_HAS_PLUS: u8 = 2;
const STEP_IS_ANEW: u8 = 4;
/// With the number of a derived value's bits.
const NARROW_SIGNED: u8 = 0x80;

const fn stack(c: u64) -> Lin {
    let mut lin = Lin::slot(RSP);
    lin.c = c;
    lin
}

/// Ends of blocks are kept until a block begins there, but no more than these.
const MOST_ENDS: usize = 32;
/// Instructions up to this length that access the stack are pushes and pops; so are those at the
/// ends of pieces: calls and returns.
const PUSH_LENGTH: u32 = 2;

/// Whether instruction `insn` is the last of its piece, but not of its block.
fn ends_piece(plan: &Plan, insn: usize) -> bool {
    plan.pieces.iter().any(|p| usize::from(p.insn) == insn + 1)
}

/// The pieces of a plan: where each stands, and which bytes of the code it is.
fn pieces(plan: &Plan) -> impl Iterator<Item = (u64, Range<usize>)> + '_ {
    let begin = |insn: usize| plan.insn_offsets.get(insn).map_or(plan.bytes, |&o| o.into()) as usize;
    let firsts = [(plan.pc, 0)]
        .into_iter()
        .chain(plan.pieces.iter().map(|p| (p.pc, p.insn.into())));
    firsts.enumerate().map(move |(i, (pc, first))| {
        let next = plan.pieces.get(i).map_or(plan.insn_offsets.len(), |p| p.insn.into());
        (pc, begin(first)..begin(next))
    })
}

/// What neighbouring blocks and accesses are told by.
struct Likely {
    id: u32,
    /// End of the block before.
    end: u64,
    /// Ends of blocks at which none has begun since, the latest last. A callee is met before the
    /// block behind its call, so that many blocks begin at one of these.
    ends: Vec<u64>,
    address: u64,
    /// The image of the piece before.
    image: u32,
    /// Within a block: distance of the stack pointer from what it was at entry, as far as pushes,
    /// pops and ways out tell.
    rsp: u64,
    /// Within a block: the slot that was not used yet.
    slot: Slot,
}

impl Likely {
    fn new() -> Likely {
        Likely {
            id: FIRST_BLOCK as u32,
            end: 0,
            ends: Vec::with_capacity(MOST_ENDS + 1),
            address: 0,
            image: 0,
            rsp: 0,
            slot: FIRST,
        }
    }
    fn enter_block(&mut self) {
        self.rsp = 0;
        self.slot = FIRST;
    }
    fn use_slot(&mut self, slot: Slot) {
        self.slot = self.slot.max(slot.saturating_add(1));
    }
    /// After an access to the stack, `at` from the stack pointer at entry.
    fn use_stack(&mut self, at: u64, kind: Kind, size: u32) {
        self.rsp = match kind {
            Kind::Read => at.wrapping_add(size.into()),
            _ => at,
        };
    }
    fn leave_block(&mut self, id: u32, plan: &Plan) {
        self.id = id.wrapping_add(plan.ids());
        self.end = plan.end().1;
        self.ends.push(self.end);
        if self.ends.len() > MOST_ENDS {
            self.ends.remove(0);
        }
    }
}
