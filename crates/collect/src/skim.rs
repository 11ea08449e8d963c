//! Counting without looking: the fast path of a decoder whose consumer needs no addresses.
//!
//! **Problem.** While a target is recorded, every record is counted by the one thread that drains.
//!
//! **Idea.** Most records end in a way whose counts are known beforehand: whole, or left through a
//! branch. Such an *outcome* is a number, and counting is adding one to its tally. Of the values
//! only the stack pointer is kept up to date. A partly steady loop needs its values when a buffer
//! ends; they follow from its first record, the number of iterations and the last record, so they
//! are made then and not before.
//!
//! **Invariant.** What a decoder knows after skimming is what it would know after decoding.
use crate::decode::{step_by, Consumer, InLoop, ThreadDecoder};
use crate::table::{Carry, Role, Table};
use memtrail_ring::record::{CUT, END, LEFT};
use memtrail_translate::plan::LoopPlan;

const NO_BLOCK: u32 = u32::MAX;

/// A partly steady loop in the making.
#[derive(Clone, Copy)]
struct Progress {
    /// Index of the block, or [`NO_BLOCK`].
    block: u32,
    /// Where its first record stands; `None` if the slots have an earlier iteration's values.
    first: Option<usize>,
    /// Where its last steady record stands.
    last: Option<usize>,
    /// Iterations since those values.
    iterations: u64,
}

/// What skimming keeps up to date.
struct Skim<'a, C> {
    table: &'a Table,
    words: &'a [u64],
    consumer: &'a mut C,
    rsp: u64,
    progress: Progress,
}

impl<C: Consumer> Skim<'_, C> {
    /// Counts the record of `length` words at `at`. Returns where to go on, or `None` if it is not for us.
    #[inline(always)]
    fn record(&mut self, head: u64, at: usize, length: usize) -> Option<usize> {
        let mut next = at + length;
        let &follows = self.words.get(next)?;
        let hot = self.table.hot(head)?;
        let (mut outcome, mut carry) = (hot.outcome, hot.carry);
        let left = follows >= LEFT;
        if left {
            (outcome, carry) = self.table.left(hot, follows - LEFT)?;
            next += 1;
        } else if follows == CUT || follows == END {
            return None;
        }
        let rsp = match carry {
            Carry::Add(by) => self.rsp.wrapping_add(by as i64 as u64),
            Carry::Set(word, by) => self.words[at + word as usize].wrapping_add(by as i64 as u64),
            Carry::Other => return None,
        };
        match hot.role {
            Role::Straight => self.progress.block = NO_BLOCK,
            Role::First => {
                self.progress = Progress {
                    block: hot.block,
                    first: Some(at),
                    last: None,
                    iterations: 1,
                }
            }
            Role::Steady if self.progress.block == hot.block => {
                self.progress.last = Some(at);
                self.progress.iterations += 1;
            }
            _ => return None,
        }
        if left {
            self.progress.block = NO_BLOCK;
        }
        self.rsp = rsp;
        self.consumer.ended(outcome);
        Some(next)
    }
}

impl ThreadDecoder {
    /// Counts records as far as their counts are fixed and nothing cuts them. Returns where to go on.
    #[inline]
    pub(crate) fn skim<C: Consumer>(&mut self, table: &Table, words: &[u64], mut at: usize, consumer: &mut C) -> usize {
        consumer.expect(table);
        let begin = at;
        let mut skim = Skim {
            table,
            words,
            consumer,
            rsp: self.carried[0],
            progress: Progress {
                block: self.loop_under_way(table).unwrap_or(NO_BLOCK),
                first: None,
                last: None,
                iterations: 0,
            },
        };
        while let Some(&head) = words.get(at) {
            // Common lengths apart: the processor then guesses the next record's place instead of
            // waiting for the length.
            let next = match table.length(head) {
                Some(1) => skim.record(head, at, 1),
                Some(2) => skim.record(head, at, 2),
                Some(3) => skim.record(head, at, 3),
                Some(4) => skim.record(head, at, 4),
                Some(length) => skim.record(head, at, length),
                None => None,
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        if at > begin {
            let (rsp, progress) = (skim.rsp, skim.progress);
            self.carried[0] = rsp;
            self.settle(table, words, &progress);
        }
        at
    }

    /// Makes the slots what they are after skimming.
    fn settle(&mut self, table: &Table, words: &[u64], progress: &Progress) {
        self.in_loop = None;
        let Some(block) = table.blocks().get(progress.block as usize) else {
            return;
        };
        let Some(LoopPlan::Partly { steps, free }) = &block.plan.looping else {
            return;
        };
        if let Some(first) = progress.first {
            self.slots.clear();
            self.slots.extend_from_slice(&self.carried);
            let values = first + 1..first + 1 + block.captured();
            self.slots.extend_from_slice(&words[values]);
        }
        self.slots.resize(block.plan.slots(), 0);
        for step in steps {
            self.slots[step.slot as usize] = step_by(step, &self.slots, progress.iterations);
        }
        if let Some(last) = progress.last {
            for (&slot, &value) in free.iter().zip(&words[last + 1..]) {
                self.slots[slot as usize] = value;
            }
        }
        self.in_loop = Some(InLoop::of(block));
    }
}
