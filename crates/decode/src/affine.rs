//! Runs of loops whose addresses move evenly: every access as a first address and a stride.
//!
//! **Problem.** A loop with one record stands for any number of iterations. Stepping its slots and
//! evaluating its forms each time is slower than the loop itself.
//!
//! **Idea.** If all slots move by constants, so do all linear forms of them. What can break that is
//! arithmetic in less than 64 bits: it is the same until something is carried out of the lower
//! bits, and when that happens is known from the first value. A run is cut there, and what follows
//! is another run.
//!
//! **Invariant.** What [`Affine::body`] says is exact.
use crate::table::Block;
use memtrail_model::{Kind, LoopAccess};
use memtrail_plan::{Lin, LoopPlan, Narrow, Plan, Shape, Slot, Step, RSP};

/// Room for working out strides.
#[derive(Debug, Default)]
pub(crate) struct Affine {
    /// By slot.
    strides: Vec<u64>,
    body: Vec<LoopAccess>,
    /// The same with fetches.
    fetching: Vec<LoopAccess>,
}

impl Affine {
    /// The body of a run that begins with these slots, derived ones included, and for how many of
    /// `trips` iterations it holds; `None` if addresses do not move evenly, or if there is more to
    /// an access than an address.
    pub fn body(&mut self, block: &Block, slots: &[u64], trips: u64) -> Option<(&mut [LoopAccess], u64)> {
        let plan = &block.plan;
        if !block.even {
            return None;
        }
        let mut holds = trips;
        let strides = &mut self.strides;
        strides.clear();
        strides.resize(slots.len(), 0);
        for step in block.steps() {
            let slot = step.slot as usize;
            strides[slot] = step.distance(slots);
            if step.low32 {
                // The upper half of a register is gone after the first iteration.
                let odd = slots[slot] > u32::MAX.into();
                strides[slot] = strides[slot] as i32 as u64;
                let until = lasts(Narrow::ZERO32, slots[slot], strides[slot])?;
                holds = holds.min(if odd { 1 } else { until });
            }
        }
        strides[RSP as usize] = plan.exit_rsp.c;
        let first_derived = slots.len() - plan.derived.len();
        for (i, derived) in plan.derived.iter().enumerate() {
            let stride = scaled(&derived.of, strides);
            holds = holds.min(lasts(derived.narrow, derived.of.eval(slots), stride)?);
            strides[first_derived + i] = derived.narrow.stride(stride)?;
        }
        self.body.clear();
        for (access, points) in plan.accesses.iter().zip(&block.points) {
            let Shape::Plain { addr, size } = &access.shape else {
                return None;
            };
            let stride = scaled(&addr.lin, strides);
            if addr.low32 {
                holds = holds.min(lasts(Narrow::ZERO32, addr.lin.eval(slots), stride)?);
            }
            self.body.push(LoopAccess {
                pc: plan.instruction(access.insn).0,
                kind: access.kind,
                point: points.own,
                size: *size,
                addr: addr.eval(slots),
                stride,
            });
        }
        Some((&mut self.body, holds))
    }

    /// The body that was asked for last, of this block, with the fetches of its instructions, which
    /// do not move.
    pub fn fetching(&mut self, block: &Block) -> &mut [LoopAccess] {
        let fetch = |insn: u16| {
            let (pc, size) = block.plan.instruction(insn);
            LoopAccess {
                pc,
                kind: Kind::Fetch,
                point: block.fetch_point(insn),
                size,
                addr: pc,
                stride: 0,
            }
        };
        self.fetching = block.with_fetches(&self.body, fetch);
        &mut self.fetching
    }
}

/// Whether a plan's addresses move evenly but for arithmetic in less than 64 bits.
pub(crate) fn is_even(plan: &Plan) -> bool {
    let Some(LoopPlan::Affine { steps, .. }) = &plan.looping else {
        return false;
    };
    let once = |slot: Slot| steps.iter().filter(|s| s.slot == slot).count() == 1;
    let moves = |slot: Slot| slot == RSP || steps.iter().any(|s| s.slot == slot && s.moves());
    let even = |s: &Step| once(s.slot) && s.plus.is_none_or(|(slot, _)| !moves(slot));
    matches!(plan.exit_rsp.terms(), [(RSP, 1)])
        && steps.iter().all(even)
        && plan.accesses.iter().all(|a| matches!(a.shape, Shape::Plain { .. }))
}

/// How far a form moves if its slots move so far.
fn scaled(lin: &Lin, strides: &[u64]) -> u64 {
    let terms = lin.terms().iter();
    terms.fold(0, |sum: u64, &(slot, scale)| {
        sum.wrapping_add(strides[slot as usize].wrapping_mul(scale as i64 as u64))
    })
}

/// For how many iterations narrowing keeps the distances between values; `None` if it does not keep
/// any.
fn lasts(narrow: Narrow, first: u64, stride: u64) -> Option<u64> {
    let stride = narrow.stride(stride)? as i64;
    let most = narrow.mask();
    let low = (first >> narrow.from).wrapping_add(narrow.sign()) & most;
    let room = if stride < 0 { low } else { most - low };
    Some(match room.checked_div(stride.unsigned_abs()) {
        Some(moves) => moves + 1,
        None => u64::MAX,
    })
}
