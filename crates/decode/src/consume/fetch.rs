//! Expanding with fetches: every executed instruction is told before its accesses.
//!
//! Which instructions were executed follows from how the block was left, and what a limit means is
//! the same as without them: it counts accesses, and nothing comes behind the last. So an execution
//! can also be stopped between two fetches.
use super::{reached, Expander, Rest};
use crate::shape::{expand, Values};
use crate::{Block, Cut, DecodeError};
use memtrail_model::{Access, AccessSink, Kind, Thread};
use memtrail_plan::Shape;

impl<S: AccessSink> Expander<'_, S> {
    /// As [`Expander::once`].
    pub(super) fn once_fetching(
        &mut self,
        thread: Thread,
        block: &Block,
        slots: &[u64],
        rest: &mut Rest,
        cut: Option<&Cut>,
    ) -> Result<bool, DecodeError> {
        let plan = &block.plan;
        let points = &block.points[rest.access..];
        for (access, points) in plan.accesses[rest.access..].iter().zip(points) {
            if cut.is_some_and(|c| c.excludes(access.insn)) {
                break;
            }
            let cut = cut.filter(|c| c.insn == access.insn);
            // One that did not complete is told only if it made an access.
            let told = access.insn.saturating_add(u16::from(cut.is_none()));
            if !self.fetch_until(thread, block, slots, rest, told)
                || !self.bend_until(thread, block, slots, rest, access.insn)
            {
                return Ok(false);
            }
            let values = Values {
                block: block.id,
                slots,
                xsave: self.xsave,
                cut,
            };
            let (pc, _) = plan.instruction(access.insn);
            if !self.one_by_one && cut.is_none() && matches!(access.shape, Shape::Repeat(_)) {
                rest.past += self.repeated(thread, access, points, &values, rest.past, pc)?;
            }
            let (mut past, mut stopped) = (rest.past, false);
            let mut due = rest.insn <= access.insn;
            expand(access, &values, rest.past, |kind, addr, size| {
                stopped = self.left == 0;
                if stopped {
                    return false;
                }
                if due {
                    self.fetch(thread, block, access.insn);
                    due = false;
                }
                self.push(Access {
                    thread,
                    pc,
                    kind,
                    addr,
                    size,
                    point: points.of(access, kind),
                });
                past += 1;
                true
            })?;
            if !due {
                rest.insn = rest.insn.max(access.insn.saturating_add(1));
            }
            if stopped {
                rest.past = past;
                return Ok(false);
            }
            rest.access += 1;
            rest.past = 0;
        }
        let end = cut.map_or(plan.insn_offsets.len() as u16, |c| c.insn);
        Ok(self.fetch_until(thread, block, slots, rest, end)
            && self.bend_until(thread, block, slots, rest, reached(cut)))
    }

    /// The fetches of the instructions before `end` that were not told yet, and the bends among
    /// them. Returns whether the limit allowed all of them.
    fn fetch_until(&mut self, thread: Thread, block: &Block, slots: &[u64], rest: &mut Rest, end: u16) -> bool {
        while rest.insn < end {
            if self.left == 0 || !self.bend_until(thread, block, slots, rest, rest.insn) {
                return false;
            }
            self.fetch(thread, block, rest.insn);
            rest.insn += 1;
        }
        true
    }

    fn fetch(&mut self, thread: Thread, block: &Block, insn: u16) {
        if self.filled == self.batch.len() && self.flush().done() {
            // This one, and no more.
            self.left = 0;
        }
        let (pc, size) = block.plan.instruction(insn);
        self.batch[self.filled] = Access {
            thread,
            pc,
            kind: Kind::Fetch,
            addr: pc,
            size,
            point: block.fetch_point(insn),
        };
        self.filled += 1;
    }
}
