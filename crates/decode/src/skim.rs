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
//! On the way it notes the number of each record's leaf, so that whoever stores the records need
//! not look for them again.
//!
//! **Invariant.** What a decoder knows after skimming is what it would know after decoding.
use crate::consume::Tally;
use crate::decode::{step_by, Consumer, InLoop, ThreadDecoder};
use crate::table::{Block, Carry, Hot, Role, Table};
use crate::MOST_ACCESSES;
use memtrail_plan::{LoopPlan, Plan, FIRST, RSP};
use memtrail_ring::record::{CUT, END};

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
struct Skim<'a> {
    table: &'a Table,
    words: &'a [u64],
    /// Executions by outcome.
    tally: &'a mut Tally,
    rsp: u64,
    progress: Progress,
}

impl Skim<'_> {
    /// Counts the record of `length` words at `at`. Returns where to go on, or `None` if it is not
    /// for us.
    #[inline(always)]
    fn record(&mut self, head: u64, at: usize, length: usize) -> Option<usize> {
        let next = at + length;
        let &follows = self.words.get(next)?;
        let hot = self.table.hot(head)?;
        let ordinary = !matches!(follows, CUT | END);
        if let (true, Role::Straight, Carry::Add(by)) = (ordinary, hot.role, hot.carry) {
            self.progress.block = NO_BLOCK;
            self.rsp = self.rsp.wrapping_add(by as i64 as u64);
            self.tally.add(hot.outcome, 1)?;
            self.tally.leaves.push(hot.leaf);
            return Some(next);
        }
        if follows == head {
            if let (Role::Steady, 0, Carry::Add(by)) = (hot.role, hot.side, hot.carry) {
                return self.iterations(head, hot, by, at, length);
            }
        }
        if hot.role == Role::Affine {
            return self.affine(hot, follows, at, next);
        }
        self.other(hot, follows, at, next)
    }

    /// Counts steady records that are followed by another of the same.
    #[inline(always)]
    fn iterations(&mut self, head: u64, hot: &Hot, by: i32, mut at: usize, length: usize) -> Option<usize> {
        if self.progress.block != hot.block {
            return None;
        }
        let mut n = 0u64;
        while self.words.get(at + length) == Some(&head) {
            at += length;
            n += 1;
        }
        self.tally.add(hot.outcome, n)?;
        let leaves = &mut self.tally.leaves;
        leaves.resize(leaves.len() + n as usize, hot.leaf);
        self.rsp = self.rsp.wrapping_add((by as i64 as u64).wrapping_mul(n));
        self.progress.iterations += n;
        self.progress.last = Some(at - length);
        Some(at)
    }

    /// Counts all iterations of a loop that has one record.
    fn affine(&mut self, hot: &Hot, follows: u64, at: usize, next: usize) -> Option<usize> {
        let block = self.table.blocks().get(hot.block as usize)?;
        let (whole, Carry::Add(by)) = self.table.whole(hot) else {
            return None;
        };
        let (Some(LoopPlan::Affine { counter, .. }), false) = (&block.plan.looping, matches!(follows, CUT | END))
        else {
            return None;
        };
        let record = &self.words[at..next];
        let entry = match counter.slot {
            RSP => self.rsp,
            slot => *record.get(usize::from(slot.checked_sub(FIRST)?) + 1)?,
        };
        let mut exit = *record.last()?;
        let side = block.plan.sides.get(usize::from(hot.side).wrapping_sub(1));
        if let Some(side) = side {
            exit = Block::before(side, counter, exit);
        }
        let trips = Plan::trips(counter, entry, exit);
        let each = block.plan.accesses.len().max(1) as u64;
        // What is impossible, or all but, is looked at more closely elsewhere.
        if (trips == 0 && side.is_none()) || trips > MOST_ACCESSES / each {
            return None;
        }
        let mut rsp = self.rsp.wrapping_add((by as i64 as u64).wrapping_mul(trips));
        if side.is_some() {
            let Carry::Add(by) = hot.carry else { return None };
            rsp = rsp.wrapping_add(by as i64 as u64);
            self.tally.add(hot.outcome, 1)?;
        }
        self.tally.add(whole, trips)?;
        self.tally.leaves.push(hot.leaf);
        self.rsp = rsp;
        self.progress.block = NO_BLOCK;
        Some(next)
    }

    #[inline(always)]
    fn other(&mut self, hot: &Hot, follows: u64, at: usize, next: usize) -> Option<usize> {
        if follows == CUT || follows == END {
            return None;
        }
        let rsp = match hot.carry {
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
        if hot.side > 0 {
            self.progress.block = NO_BLOCK;
        }
        self.tally.add(hot.outcome, 1)?;
        self.tally.leaves.push(hot.leaf);
        self.rsp = rsp;
        Some(next)
    }
}

impl ThreadDecoder {
    /// Counts records as far as their counts are fixed and nothing cuts them. Returns where to go
    /// on.
    #[inline]
    pub(crate) fn skim<C: Consumer>(&mut self, table: &Table, words: &[u64], mut at: usize, consumer: &mut C) -> usize {
        let begin = at;
        let Some(tally) = consumer.tally(table) else {
            return at;
        };
        let mut skim = Skim {
            table,
            words,
            tally,
            rsp: self.carried[0],
            progress: Progress {
                block: self.loop_under_way(table).unwrap_or(NO_BLOCK),
                first: None,
                last: None,
                iterations: 0,
            },
        };
        while let Some(&head) = words.get(at) {
            let Some(length) = table.length(head) else { break };
            match skim.record(head, at, length) {
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
        let take = |anew: bool, slots: &mut Vec<u64>| {
            for step in steps.iter().filter(|s| s.anew == anew) {
                slots[step.slot as usize] = step_by(step, slots, progress.iterations);
            }
        };
        take(false, &mut self.slots);
        if let Some(last) = progress.last {
            for (&slot, &value) in free.iter().zip(&words[last + 1..]) {
                self.slots[slot as usize] = value;
            }
        }
        // What becomes of them follows from the last iteration alone.
        take(true, &mut self.slots);
        self.in_loop = Some(InLoop::of(block));
    }
}
