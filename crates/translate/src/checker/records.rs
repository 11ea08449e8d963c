//! What a thread's records tell: a plain reading of the plan, one access at a time.
use super::machine::Access;
use crate::analyze::Block;
use memtrail_model::Kind;
use memtrail_plan::{LoopPlan, Plan, Repeat, Shape, Step, FIRST, FS, GS, RSP};
use memtrail_ring::record;
use std::vec::Vec;

/// No program runs long enough to make more iterations, or elements of a string instruction: a
/// record that tells of more is wrong.
const MOST: u64 = 10_000;

/// A block and the first of its ids.
pub struct Known<'a> {
    pub id: u64,
    pub block: &'a Block,
}

/// The reader's state between two records.
#[derive(Clone)]
pub struct Reader {
    /// rsp, and the bases of fs and gs.
    pub carried: [u64; 3],
    /// The slots of the last record, for the records of later iterations.
    slots: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Cut {
    insn: u16,
    rcx: u64,
    rsi: u64,
    rdi: u64,
}

fn steps(plan: &Plan) -> &[Step] {
    match &plan.looping {
        Some(LoopPlan::Affine { steps, .. } | LoopPlan::Partly { steps, .. }) => steps,
        None => &[],
    }
}

impl Reader {
    pub fn new(carried: [u64; 3]) -> Reader {
        let slots = Vec::new();
        Reader { carried, slots }
    }

    /// Reads one record at the start of `words`, and what cuts it. Returns how many words that was.
    pub fn read<'a>(&mut self, words: &[u64], find: &dyn Fn(u64) -> Known<'a>, out: &mut Vec<Access>) -> usize {
        if words[0] == record::STATE {
            self.carried.copy_from_slice(&words[1..4]);
            return record::STATE_WORDS;
        }
        let Known { id, block } = find(words[0]);
        let plan = &block.plan;
        let kind = plan.record((words[0] - id) as u32);
        let (own, rest) = words.split_at(kind.words.into());
        let cut = match rest {
            [record::CUT, insn, rcx, rsi, rdi, _, ..] => Some(Cut {
                insn: *insn as u16,
                rcx: *rcx,
                rsi: *rsi,
                rdi: *rdi,
            }),
            _ => None,
        };
        self.load(plan, own, kind.steady);
        let side = kind.side.map(|s| &plan.sides[usize::from(s)]);
        assert!(
            side.is_none() || cut.is_none(),
            "a record that says how it ended is cut"
        );
        if let Some(LoopPlan::Affine { counter, .. }) = &plan.looping {
            let mut last = own[own.len() - 1].wrapping_sub(side.map_or(0, |s| s.moved));
            if counter.low32 {
                last &= 0xffff_ffff;
            }
            let entry = self.slots[usize::from(counter.slot)];
            let trips = Plan::trips(counter, entry, last);
            // Readers take such a record for damage, or for a counter that went all around.
            assert!(
                trips > 0 || side.is_some() || cut.is_some(),
                "a loop of no iterations that is not cut"
            );
            for _ in 0..trips.min(MOST) {
                self.iteration(plan, out);
            }
        } else if side.is_none() && cut.is_none() {
            self.iteration(plan, out);
        }
        self.derive(plan);
        if let Some(side) = side {
            self.accesses(plan, side.insn + 1, None, out);
            self.slots[usize::from(RSP)] = side.rsp.eval(&self.slots);
        }
        if let Some(cut) = cut {
            self.accesses(plan, cut.insn, Some(cut), out);
        }
        self.carried[0] = self.slots[usize::from(RSP)];
        own.len() + if cut.is_some() { record::CUT_WORDS } else { 0 }
    }

    fn load(&mut self, plan: &Plan, own: &[u64], steady: bool) {
        match &plan.looping {
            Some(LoopPlan::Partly { free, .. }) if steady => {
                for (slot, value) in free.iter().zip(&own[1..]) {
                    self.slots[usize::from(*slot)] = *value;
                }
            }
            _ => {
                self.slots = self.carried.to_vec();
                self.slots.extend(&own[1..]);
                assert_eq!(self.slots.len(), usize::from(FIRST) + own.len() - 1);
                self.slots.resize(plan.slots(), 0);
            }
        }
        self.slots[usize::from(RSP)] = self.carried[0];
        self.slots[usize::from(FS)] = self.carried[1];
        self.slots[usize::from(GS)] = self.carried[2];
    }

    fn derive(&mut self, plan: &Plan) {
        let first = plan.slots() - plan.derived.len();
        for (i, derived) in plan.derived.iter().enumerate() {
            self.slots[first + i] = derived.narrow.apply(derived.of.eval(&self.slots));
        }
    }

    /// A whole execution, or a whole iteration of a loop.
    fn iteration(&mut self, plan: &Plan, out: &mut Vec<Access>) {
        self.derive(plan);
        self.accesses(plan, u16::MAX, None, out);
        let rsp = plan.exit_rsp.eval(&self.slots);
        for step in steps(plan) {
            let distance = step.distance(&self.slots);
            let slot = &mut self.slots[usize::from(step.slot)];
            *slot = if step.anew {
                distance
            } else {
                slot.wrapping_add(distance)
            };
            if step.low32 {
                *slot &= 0xffff_ffff;
            }
        }
        self.slots[usize::from(RSP)] = rsp;
    }

    /// The accesses of instructions before number `end`, and of that one as far as `cut` tells.
    fn accesses(&self, plan: &Plan, end: u16, cut: Option<Cut>, out: &mut Vec<Access>) {
        for access in &plan.accesses {
            let (pc, kind) = (plan.instruction(access.insn).0, access.kind);
            match &access.shape {
                Shape::Plain { addr, size } if access.insn < end => {
                    let (addr, size) = (addr.eval(&self.slots), *size);
                    out.push(Access { pc, kind, addr, size });
                }
                Shape::Repeat(repeat) if access.insn < end => self.repeat(repeat, pc, None, out),
                Shape::Repeat(repeat) if access.insn == end && cut.is_some() => self.repeat(repeat, pc, cut, out),
                // The interpreter does not tell what these do.
                Shape::Plain { .. } | Shape::Repeat(_) | Shape::Xstate(_) => {}
                other => panic!("the checker does not know {other:?}"),
            }
        }
    }

    fn repeat(&self, repeat: &Repeat, pc: u64, cut: Option<Cut>, out: &mut Vec<Access>) {
        let slot = |s: u16| self.slots[usize::from(s)];
        let before = repeat.before.eval(&self.slots);
        let start = repeat.pointer.eval(&self.slots);
        let (after, moved) = match cut {
            Some(cut) if repeat.moved_is_rsi => (cut.rcx, cut.rsi),
            Some(cut) => (cut.rcx, cut.rdi),
            None => (slot(repeat.after), slot(repeat.moved)),
        };
        let size = u32::from(repeat.size);
        let down = (moved.wrapping_sub(start) as i64) < 0;
        let elements = before.wrapping_sub(after);
        for i in 0..elements.min(MOST) {
            let by = if down { i.wrapping_neg() } else { i }.wrapping_mul(size.into());
            let at = |addr: &memtrail_plan::Addr| addr.eval(&self.slots).wrapping_add(by);
            if let Some(source) = &repeat.source {
                let (addr, kind) = (at(source), Kind::Read);
                out.push(Access { pc, kind, addr, size });
            }
            if let Some((dest, kind)) = &repeat.dest {
                let (addr, kind) = (at(dest), *kind);
                out.push(Access { pc, kind, addr, size });
            }
        }
    }
}
