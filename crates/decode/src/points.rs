//! Reference points: which accesses of a recording are one and the same piece of the program.
//!
//! **Problem.** Whoever counts by reference needs a small number for "the reads of this
//! instruction", at no cost per access. The same instruction may stand in several blocks, and after
//! an exec, or where code is unloaded or generated, another instruction may stand at its address.
//!
//! **Idea.** An instruction is identified by its [code address](crate::Images), which is the same
//! in whatever process and at whatever address its module lies, and by what its plan knows of it:
//! how long it is, and how much it accesses. Where code is generated, its bytes count as well. A
//! point is all of these together; points are numbered as they are first met.
//!
//! **Invariants.** The number is a function of the blocks and their order. One instruction's
//! accesses of one kind are one point, in whatever block or process it stands; different
//! instructions have different points.
use crate::images::Images;
use crate::table::Block;
use memtrail_model::{Kind, Point};
use memtrail_plan::{PlannedAccess, Shape};
use std::collections::HashMap;

const KINDS: usize = 4;

/// What a reference point is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PointInfo {
    /// Address of the instruction, in the first block that has it.
    pub pc: u64,
    /// Its code address: see [`Images`].
    pub code: u64,
    pub kind: Kind,
    /// Length of the instruction; 0 if the trace it was imported from did not tell.
    pub bytes: u32,
    /// Bytes that its first access of this kind touches; 0 if that depends on values.
    pub size: u32,
}

/// The points of one planned access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Points {
    /// Of its accesses of the planned kind.
    pub own: Point,
    /// Of the others: what a repeated string instruction reads.
    pub source: Point,
}

impl Points {
    /// The point of an access of this kind that `access` made.
    #[inline]
    pub fn of(&self, access: &PlannedAccess, kind: Kind) -> Point {
        if kind == access.kind {
            self.own
        } else {
            self.source
        }
    }
}

/// What makes a point: code address, kind, length and size, and the bytes of generated
/// instructions.
type Identity = (u64, Kind, u32, u32, Content);

/// The bytes of an instruction, of which no more than 15 exist, the first one lowest; 0 if they do
/// not matter.
type Content = u128;

/// A block whose points are numbered.
#[derive(Clone, Copy)]
pub(crate) struct Source<'b> {
    pub block: &'b Block,
    pub images: &'b Images,
}

impl Source<'_> {
    /// What the point of an access of this kind and size by instruction `insn` is.
    fn info(&self, insn: u16, kind: Kind, size: u32) -> PointInfo {
        let (pc, bytes) = self.block.plan.instruction(insn);
        PointInfo {
            pc,
            code: self.block.code_address(insn),
            kind,
            bytes,
            size,
        }
    }

    fn content(&self, insn: u16) -> Content {
        if !self.images.is_generated(self.block.piece_code(insn)) {
            return 0;
        }
        let offsets = &self.block.plan.insn_offsets;
        let begin = offsets[usize::from(insn)].into();
        let end = offsets.get(usize::from(insn) + 1).map(|&end| end.into());
        let code = self.block.code().unwrap_or_default();
        let bytes = code.get(begin..end.unwrap_or(code.len())).unwrap_or_default();
        bytes.iter().rev().fold(0, |all, &byte| all << 8 | Content::from(byte))
    }
}

/// All points of a table.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    all: Vec<PointInfo>,
    numbers: HashMap<Identity, Point>,
}

impl Numbering {
    pub fn all(&self) -> &[PointInfo] {
        &self.all
    }

    fn number(&mut self, info: PointInfo, content: Content) -> Point {
        let Numbering { all, numbers } = self;
        let identity = (info.code, info.kind, info.bytes, info.size, content);
        *numbers.entry(identity).or_insert_with(|| {
            let point = u32::try_from(all.len()).map_or(Point::NONE, Point);
            all.push(info);
            point
        })
    }

    /// The points of a block's accesses, in their order. Its plan has been validated.
    pub fn of(&mut self, source: &Source<'_>) -> Box<[Points]> {
        // Those of the instruction, by kind.
        let (mut insn, mut met) = (0, [None; KINDS]);
        let mut one = |access: &PlannedAccess| {
            if access.insn != insn {
                (insn, met) = (access.insn, [None; KINDS]);
            }
            let mut number = |kind: Kind| {
                let point = &mut met[kind as usize];
                let info = || source.info(access.insn, kind, size(&access.shape));
                *point.get_or_insert_with(|| self.number(info(), source.content(access.insn)))
            };
            let own = number(access.kind);
            let source = match &access.shape {
                Shape::Repeat(repeat) if repeat.source.is_some() => number(Kind::Read),
                _ => own,
            };
            Points { own, source }
        };
        source.block.plan.accesses.iter().map(&mut one).collect()
    }
}

impl Numbering {
    /// The points of the fetches of a block's instructions.
    pub fn fetches(&mut self, source: &Source<'_>) -> Box<[Point]> {
        let mut one = |insn: u16| {
            let (_, bytes) = source.block.plan.instruction(insn);
            self.number(source.info(insn, Kind::Fetch, bytes), source.content(insn))
        };
        (0..source.block.plan.insn_offsets.len() as u16).map(&mut one).collect()
    }
}

/// Bytes of each access, if that is known beforehand.
fn size(shape: &Shape) -> u32 {
    match shape {
        Shape::Plain { size, .. } | Shape::Line { size, .. } => *size,
        Shape::Lanes { size, .. }
        | Shape::Elements { size, .. }
        | Shape::Broadcast { size, .. }
        | Shape::Packed { size, .. } => (*size).into(),
        Shape::Repeat(repeat) => repeat.size.into(),
        Shape::BitWord(word) => word.size.into(),
        Shape::Xstate(_) => 0,
    }
}
