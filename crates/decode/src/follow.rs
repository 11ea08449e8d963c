//! Where control went: calls, returns, stacks that are switched, and the ways between stretches of
//! code.
//!
//! **Problem.** Call paths are wanted with every access, but nothing about calls is recorded.
//!
//! **Idea.** It follows from what is. A call writes its return address where the stack pointer then
//! is, with the last instruction of its block; a return reads one from just below it. Other
//! instructions that do so, a push or a pop, can end a block too, where the block was cut for its
//! length, but then the next one begins right behind: so the next block tells. Nothing is decoded
//! and nothing is stored, and a target pays nothing for it.
//!
//! Inside a path, whose pieces are run one after the other in one execution, the plan says how
//! control goes from piece to piece: a [`Bend`]. The return address is where the last access before
//! it was. Bends are told in their place among the accesses.
//!
//! **Limits.** A call to the very next instruction, which only asks for its own address, is none. A
//! far return is a change of stacks. A stack pointer that is set before a jump inside a path is
//! told when it is next known: at a jump that is a way out, or where the path is left.
use crate::table::Block;
use memtrail_model::{AccessSink, Edge, Event, Flow, Kind, Thread, Via, Wants};
use memtrail_plan::{Addr, Lin, Piece, Plan, Shape, RSP};
use std::collections::HashSet;

/// What a block's last instruction, or the one it was left through, did to the stack.
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
        let mut terms = l.terms;
        terms[..l.terms().len()].sort_unstable();
        terms
    };
    (a.terms() == b.terms() || a.n == b.n && sorted(a) == sorted(b)).then(|| a.c.wrapping_sub(b.c))
}

/// Where an instruction's last access is, if it is a plain one.
fn last_access(plan: &Plan, insn: u16) -> Option<(Kind, &Addr, u32)> {
    let made = plan.accesses.partition_point(|a| a.insn <= insn);
    let access = plan.accesses[..made].last().filter(|a| a.insn == insn)?;
    match &access.shape {
        Shape::Plain { addr, size } => Some((access.kind, addr, *size)),
        _ => None,
    }
}

/// A place near the stack pointer when the piece began that instruction `insn` is in, as far as
/// that is known.
fn base(plan: &Plan, insn: u16) -> Lin {
    let before = plan.pieces.iter().rev().filter(|p| p.insn <= insn);
    let known = |p: &Piece| match p.via {
        Via::Jump => plan.sides.iter().find(|s| s.insn == p.insn - 1).map(|s| s.rsp),
        Via::Call | Via::Return => last_access(plan, p.insn - 1).map(|(_, addr, _)| addr.lin),
    };
    before.filter_map(known).next().unwrap_or(Lin::slot(RSP))
}

impl Turn {
    pub fn at_end(plan: &Plan) -> Turn {
        let last = plan.insn_offsets.len().saturating_sub(1);
        Turn::at(plan, last as u16, &plan.exit_rsp)
    }

    /// What instruction `insn` has done to the stack, whose pointer is there after it.
    pub(crate) fn at(plan: &Plan, insn: u16, rsp: &Lin) -> Turn {
        let set = match distance(rsp, &base(plan, insn)) {
            Some(_) => Turn::None,
            None => Turn::Set,
        };
        let Some((kind, addr, 8)) = last_access(plan, insn) else {
            return set;
        };
        if addr.low32 || addr.segment.is_some() {
            return set;
        }
        match (kind, distance(rsp, &addr.lin)) {
            (Kind::Write, Some(0)) => Turn::Push,
            (Kind::Read, Some(below)) if (8..8 + 0x1_0000).contains(&below) => match u16::try_from(below) {
                Ok(below) => Turn::Pop(below),
                Err(_) => set,
            },
            _ => set,
        }
    }
}

/// Instructions that follow each other in memory, by their code addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stretch {
    start: u64,
    /// The last of them, and the first byte behind it.
    last: u64,
    end: u64,
}

impl Stretch {
    /// The end of a block.
    pub fn at_end(block: &Block) -> Stretch {
        match block.plan.insn_offsets.len().checked_sub(1) {
            Some(insn) => Stretch::until(block, insn as u16),
            None => {
                let start = block.starts[0];
                let end = start.wrapping_add(block.plan.bytes.into());
                Stretch {
                    start,
                    last: start,
                    end,
                }
            }
        }
    }

    /// The piece that instruction `insn` is in, as far as that.
    fn until(block: &Block, insn: u16) -> Stretch {
        let (_, length) = block.plan.instruction(insn);
        let last = block.code_address(insn);
        Stretch {
            start: block.piece_code(insn),
            last,
            end: last.wrapping_add(length.into()),
        }
    }
}

/// Control goes from one piece of a path to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bend {
    /// Before this instruction.
    pub insn: u16,
    /// After this number of the plan's accesses.
    pub accesses: u16,
    from: Stretch,
    target: u64,
    via: Via,
    flow: Option<Planned>,
}

/// A flow whose place is not worked out yet.
#[derive(Clone, Copy, Debug)]
enum Planned {
    Call(Addr),
    Return(Addr),
    Stack(Lin),
}

impl Bend {
    /// Whether it is no call, no return and no change of stacks.
    pub fn stays(&self) -> bool {
        self.flow.is_none()
    }

    /// Those of a block with a valid plan.
    pub fn all(block: &Block) -> Box<[Bend]> {
        block.plan.pieces.iter().map(|p| Bend::to(block, p)).collect()
    }

    fn to(block: &Block, piece: &Piece) -> Bend {
        let plan = &block.plan;
        let insn = piece.insn - 1;
        let from = Stretch::until(block, insn);
        let target = block.piece_code(piece.insn);
        let straight_on = target == from.end;
        let via = if straight_on { Via::Jump } else { piece.via };
        let slot = last_access(plan, insn).map(|(_, addr, _)| *addr);
        let flow = match piece.via {
            Via::Call | Via::Return if straight_on => None,
            Via::Call => slot.map(Planned::Call),
            Via::Return => slot.map(Planned::Return),
            // Only a way out knows where the stack pointer is.
            Via::Jump => plan
                .sides
                .iter()
                .find(|s| s.insn == insn && distance(&s.rsp, &base(plan, insn)).is_none())
                .map(|s| Planned::Stack(s.rsp)),
        };
        Bend {
            insn: piece.insn,
            accesses: plan.accesses.partition_point(|a| a.insn < piece.insn) as u16,
            from,
            target,
            via,
            flow,
        }
    }

    fn flow(&self, slots: &[u64]) -> Option<Flow> {
        let (site, target) = (self.from.last, self.target);
        self.flow.map(|flow| match flow {
            Planned::Call(addr) => Flow::Call {
                site,
                target,
                slot: addr.eval(slots),
            },
            Planned::Return(addr) => Flow::Return { slot: addr.eval(slots) },
            Planned::Stack(rsp) => Flow::Stack { rsp: rsp.eval(slots) },
        })
    }
}

/// The block before.
#[derive(Clone, Copy, Debug)]
struct Last {
    index: u32,
    stretch: Stretch,
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
    /// By the id of a path: how many of its bends need not be told as ways any more.
    bent: Vec<u8>,
}

impl Follower {
    pub fn new(wants: &Wants) -> Follower {
        Follower {
            flows: wants.flows,
            edges: wants.edges,
            ..Follower::default()
        }
    }

    pub fn wanted(&self) -> bool {
        self.flows || self.edges
    }

    /// A block begins, with the stack pointer where the one before has left it. Returns what is to
    /// be told before its accesses.
    #[inline]
    pub fn enters(&mut self, index: u32, block: &Block, rsp: u64) -> (Option<Flow>, Option<Edge>) {
        let last = self.last.replace(Last {
            index,
            stretch: block.end,
            turn: block.turn,
        });
        let Some(last) = last else { return (None, None) };
        let target = block.starts[0];
        let (via, flow) = match last.turn {
            Turn::None => (Via::Jump, None),
            Turn::Push | Turn::Pop(_) if target == last.stretch.end => (Via::Jump, None),
            Turn::Push => {
                let (site, slot) = (last.stretch.last, rsp);
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

    /// Whether the next block is entered without anything to tell, whichever it is.
    #[inline]
    pub fn is_calm(&self) -> bool {
        !self.edges && self.last.is_none_or(|last| last.turn == Turn::None)
    }

    /// A block was executed, and there was nothing to tell when it began.
    #[inline]
    pub fn went(&mut self, index: u32, block: &Block, left: Option<u16>) {
        self.last = Some(Last {
            index,
            stretch: block.end,
            turn: block.turn,
        });
        if let Some(insn) = left {
            self.left(block, insn);
        }
    }

    /// The way from the end of the block begun last to its beginning, if it is new.
    pub fn around(&mut self, block: &Block) -> Option<Edge> {
        let last = self.last?;
        self.edge(&last, block.starts[0], Via::Jump)
    }

    /// The way out of a block, if it is new.
    fn edge(&mut self, last: &Last, target: u64, via: Via) -> Option<Edge> {
        let index = last.index as usize;
        if self.usual.len() <= index {
            self.usual.resize(index + 1, (0, 0));
        }
        let way = (last.stretch.last, target);
        if std::mem::replace(&mut self.usual[index], way) == way {
            return None;
        }
        self.new_way(last.stretch, target, via)
    }

    fn new_way(&mut self, from: Stretch, target: u64, via: Via) -> Option<Edge> {
        let Stretch { start, last, end } = from;
        self.told.insert((last, target)).then_some(Edge {
            start,
            last,
            end,
            target,
            via,
        })
    }

    /// Whether there is anything to be told of a block's bends.
    #[inline]
    pub fn bends(&self, block: &Block) -> bool {
        !block.bends.is_empty()
            && (self.flows && block.bends.iter().any(|b| b.flow.is_some())
                || self.edges && self.told_bends(block) < block.bends.len())
    }

    fn told_bends(&self, block: &Block) -> usize {
        self.bent.get(block.id as usize).copied().unwrap_or(0).into()
    }

    /// Control takes bend number `n` of a path, in an execution with these slots. Returns what is
    /// to be told before the accesses that follow.
    pub fn bend(&mut self, block: &Block, n: usize, slots: &[u64]) -> (Option<Flow>, Option<Edge>) {
        let bend = &block.bends[n];
        let flow = if self.flows { bend.flow(slots) } else { None };
        let mut edge = None;
        if self.edges && self.told_bends(block) <= n {
            let id = block.id as usize;
            if self.bent.len() <= id {
                self.bent.resize(id + 1, 0);
            }
            self.bent[id] = (n + 1) as u8;
            edge = self.new_way(bend.from, bend.target, bend.via);
        }
        (flow, edge)
    }

    /// The block begun last was left through its instruction `insn`.
    pub fn left(&mut self, block: &Block, insn: u16) {
        if let (Some(last), Some(side)) = (&mut self.last, block.side(insn)) {
            last.stretch = Stretch::until(block, insn);
            last.turn = Turn::at(&block.plan, insn, &side.rsp);
        }
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
        sink.event(Event::Edge { thread, edge: &edge });
    }
    if let Some(flow) = flow {
        sink.event(Event::Flow { thread, flow });
    }
}
