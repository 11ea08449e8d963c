//! Where control went: calls, returns, stacks that are switched, and the ways between stretches of code.
//!
//! **Problem.** Call paths are wanted with every access, but nothing about calls is recorded.
//!
//! **Idea.** It follows from what is. A call writes its return address where the stack pointer then is, with the last instruction of its block;
//! a return reads one from just below it. Other instructions that do so, a push or a pop, can end a block too, where the block was cut for its
//! length, but then the next one begins right behind: so the next block tells. Nothing is decoded and nothing is stored, and a target pays nothing for it.
//!
//! **Limits.** A call to the very next instruction, which only asks for its own address, is none. A far return is a change of stacks.
use crate::table::Block;
use memtrail_model::{AccessSink, Edge, Flow, Kind, Thread, Via};
use memtrail_translate::plan::{Lin, Plan, Shape, Slot, RSP};
use std::collections::HashSet;

/// What a block's last instruction, or the branch it was left through, did to the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Nothing, or something that follows from where the stack pointer was.
    None,
    /// It wrote eight bytes where the stack pointer is now.
    Push,
    /// It read eight bytes, so far below where the stack pointer is now.
    Pop(u16),
    /// The stack pointer was set.
    Set,
}

/// The distance `a - b`, if it is constant.
fn distance(a: &Lin, b: &Lin) -> Option<u64> {
    let sorted = |l: &Lin| {
        let mut terms: Vec<(Slot, i32)> = l.terms().to_vec();
        terms.sort_unstable();
        terms
    };
    (sorted(a) == sorted(b)).then(|| a.c.wrapping_sub(b.c))
}

/// Whether the stack pointer only moves by a constant.
fn moves(rsp: &Lin) -> bool {
    matches!(rsp.terms(), [(RSP, 1)])
}

impl Turn {
    pub fn at_end(plan: &Plan) -> Turn {
        let set = if moves(&plan.exit_rsp) { Turn::None } else { Turn::Set };
        let Some(access) = plan.accesses.last() else { return set };
        let last = plan.insn_offsets.len().wrapping_sub(1);
        let Shape::Plain { addr, size: 8 } = access.shape else {
            return set;
        };
        if usize::from(access.insn) != last || addr.low32 || addr.segment.is_some() {
            return set;
        }
        match (access.kind, distance(&plan.exit_rsp, &addr.lin)) {
            (Kind::Write, Some(0)) => Turn::Push,
            (Kind::Read, Some(below)) if (8..8 + 0x1_0000).contains(&below) => match u16::try_from(below) {
                Ok(below) => Turn::Pop(below),
                Err(_) => set,
            },
            _ => set,
        }
    }
}

/// The block before.
#[derive(Clone, Copy, Debug)]
struct Last {
    index: u32,
    start: u64,
    last: u64,
    end: u64,
    turn: Turn,
}

/// Follows one thread from block to block.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    pub flows: bool,
    pub edges: bool,
    last: Option<Last>,
    /// The base of the thread's own memory.
    pointer: u64,
    /// By block: the way that control took last time: from the last instruction, to.
    usual: Vec<(u64, u64)>,
    /// Ways that were told: from (the last instruction), to.
    told: HashSet<(u64, u64)>,
}

impl Follower {
    pub fn new(sink: &impl AccessSink) -> Follower {
        Follower {
            flows: sink.wants_flows(),
            edges: sink.wants_edges(),
            ..Follower::default()
        }
    }

    pub fn wanted(&self) -> bool {
        self.flows || self.edges
    }

    /// A block begins, with the stack pointer where the one before has left it. Returns what is to be told before its accesses.
    #[inline]
    pub fn enters(&mut self, index: u32, block: &Block, rsp: u64) -> (Option<Flow>, Option<Edge>) {
        let plan = &block.plan;
        let last = self.last.replace(Last {
            index,
            start: plan.pc,
            last: block.last,
            end: plan.end().1,
            turn: block.turn,
        });
        let Some(last) = last else { return (None, None) };
        let target = plan.pc;
        let (via, flow) = match last.turn {
            Turn::None => (Via::Jump, None),
            Turn::Push | Turn::Pop(_) if target == last.end => (Via::Jump, None),
            Turn::Push => {
                let (site, slot) = (last.last, rsp);
                (Via::Call, Some(Flow::Call { site, target, slot }))
            }
            Turn::Pop(below) => {
                let slot = rsp.wrapping_sub(below.into());
                (Via::Return, Some(Flow::Return { slot }))
            }
            Turn::Set => (Via::Jump, Some(Flow::Stack { rsp })),
        };
        let edge = if self.edges {
            self.edge(&last, target, via)
        } else {
            None
        };
        (flow.filter(|_| self.flows), edge)
    }

    /// The way from the end of the block begun last to its beginning, if it is new.
    pub fn around(&mut self) -> Option<Edge> {
        let last = self.last?;
        self.edge(&last, last.start, Via::Jump)
    }

    /// The way, if it is new.
    fn edge(&mut self, last: &Last, target: u64, via: Via) -> Option<Edge> {
        let index = last.index as usize;
        if self.usual.len() <= index {
            self.usual.resize(index + 1, (0, 0));
        }
        let way = (last.last, target);
        if std::mem::replace(&mut self.usual[index], way) == way || !self.told.insert(way) {
            return None;
        }
        let &Last { start, last, end, .. } = last;
        Some(Edge {
            start,
            last,
            end,
            target,
            via,
        })
    }

    /// The block begun last was left through the branch that is its instruction `insn`.
    pub fn left(&mut self, block: &Block, insn: u16) {
        let plan = &block.plan;
        let (Some(last), Some(side)) = (&mut self.last, block.side(insn)) else {
            return;
        };
        let (at, length) = plan.instruction(insn);
        (last.last, last.end) = (at, at.wrapping_add(length.into()));
        last.turn = if moves(&side.rsp) { Turn::None } else { Turn::Set };
    }

    /// The base of the thread's own memory is there; tells if that is new.
    pub fn points(&mut self, base: u64) -> Option<u64> {
        (std::mem::replace(&mut self.pointer, base) != base).then_some(base)
    }

    /// The block begun last did not come to its end.
    pub fn lost(&mut self) {
        self.last = None;
    }
}

/// Tells what a [`Follower`] has found.
#[inline]
pub(crate) fn tell(sink: &mut impl AccessSink, thread: Thread, flow: Option<Flow>, edge: Option<Edge>) {
    if let Some(edge) = edge {
        sink.edges(thread, &edge);
    }
    if let Some(flow) = flow {
        sink.flows(thread, flow);
    }
}
