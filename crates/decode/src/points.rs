//! Reference points: which accesses of a recording are one and the same piece of the program.
//!
//! **Problem.** Whoever counts by reference needs a small number for "the reads of this instruction", at no cost per access.
//! The same instruction may stand in several blocks, and after an exec, or where code is unloaded or generated, another instruction may
//! stand at its address.
//!
//! **Idea.** Blocks do not tell which process they are of, and need not: a forked process has its parent's blocks, and a library at the same
//! address in two processes is the same code. What tells different code apart is what a plan knows of an instruction besides its
//! address: how long it is, and how much it accesses. A point is all of these together; points are numbered as they are first met.
//!
//! **Invariants.** The number is a function of the blocks and their order. One instruction's accesses of one kind are one point, in
//! whatever block it stands. Two instructions at one address are taken for one only if they agree in length, kind and size;
//! whoever must not even do that counts by process and point.
use memtrail_model::{Kind, Point};
use memtrail_plan::{Plan, PlannedAccess, Shape};
use std::collections::HashMap;

const KINDS: usize = 4;

/// What a reference point is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PointInfo {
    /// Address of the instruction.
    pub pc: u64,
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

/// All points of a table.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    all: Vec<PointInfo>,
    numbers: HashMap<PointInfo, Point>,
}

impl Numbering {
    pub fn all(&self) -> &[PointInfo] {
        &self.all
    }

    fn number(&mut self, info: PointInfo) -> Point {
        let Numbering { all, numbers } = self;
        *numbers.entry(info).or_insert_with(|| {
            let point = u32::try_from(all.len()).map_or(Point::NONE, Point);
            all.push(info);
            point
        })
    }

    /// The points of a plan's accesses, in their order. The plan has been validated.
    pub fn of(&mut self, plan: &Plan) -> Box<[Points]> {
        // Those of the instruction, by kind.
        let (mut insn, mut met) = (0, [None; KINDS]);
        let mut one = |access: &PlannedAccess| {
            if access.insn != insn {
                (insn, met) = (access.insn, [None; KINDS]);
            }
            let mut number = |kind: Kind| {
                let point = &mut met[kind as usize];
                *point.get_or_insert_with(|| self.number(info(plan, access, kind)))
            };
            let own = number(access.kind);
            let source = match &access.shape {
                Shape::Repeat(repeat) if repeat.source.is_some() => number(Kind::Read),
                _ => own,
            };
            Points { own, source }
        };
        plan.accesses.iter().map(&mut one).collect()
    }
}

impl Numbering {
    /// The points of the fetches of a plan's instructions.
    pub fn fetches(&mut self, plan: &Plan) -> Box<[Point]> {
        let mut one = |insn: u16| {
            let (pc, bytes) = plan.instruction(insn);
            self.number(PointInfo {
                pc,
                kind: Kind::Fetch,
                bytes,
                size: bytes,
            })
        };
        (0..plan.insn_offsets.len() as u16).map(&mut one).collect()
    }
}

fn info(plan: &Plan, access: &PlannedAccess, kind: Kind) -> PointInfo {
    let (pc, bytes) = plan.instruction(access.insn);
    PointInfo {
        pc,
        kind,
        bytes,
        size: size(&access.shape),
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
