//! Records back to executions of blocks, and those to accesses.
//!
//! **Problem.** A record holds only the values its block's accesses follow from. The rest is in
//! the plan, in the values carried from record to record (stack pointer, segment bases), in the
//! record before (later iterations of a loop), or in the record *after*: a CUT says that the
//! block before it was left early.
//!
//! **Idea.** [`ThreadDecoder`] reads one thread's words buffer by buffer and hands every execution,
//! a [`Run`], to a [`Consumer`] as soon as the next record's head is known. The last record of a
//! buffer is kept until the next buffer, or the end of the thread, shows its head. Most records
//! take a shorter way: [`skim`](crate::skim) if they are only counted, [`linear`](crate::linear) if
//! addresses are wanted. What is here is the way that takes everything, and what the others are
//! held to.
//!
//! **Invariants.**
//! - A consumer gets every execution once, in program order, with `slots` as at its entry, and
//!   leaves `slots` as after its last complete iteration ([`advance`]); if it needs addresses, with
//!   derived slots that are current wherever the run was left early.
//! - No words make it panic or loop without bound: tables are validated when they are made,
//!   lengths are checked here, and impossible counts are errors.
use crate::columns::Columns;
use crate::consume::Tally;
use crate::linear::Linear;
use crate::table::{Block, Found, Table};
use crate::work::Slots;
use crate::{DecodeError, Noted, MOST_ACCESSES};
use memtrail_model::{Access, Thread};
use memtrail_plan::{LoopPlan, Plan, Side, Step, FIRST, FS, GS, RSP};
use memtrail_ring::record::{is_note, special_words};
use memtrail_ring::record::{CUT, END, FIRST_BLOCK, LAST_BLOCK, SIGNAL, SIGRETURN, STATE};

/// How a block was left early: the CUT record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The instruction that did not complete.
    pub insn: u16,
    pub rcx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// Bit `i`: lane `i` of a gather or scatter was done.
    pub lanes: u64,
    /// Instruction `insn` had begun, so that part of it may have happened; not so after a branch
    /// taken before it.
    pub begun: bool,
}

impl Cut {
    /// Nothing of instruction `insn` happened.
    pub fn excludes(&self, insn: u16) -> bool {
        insn > self.insn || insn == self.insn && !self.begun
    }
}

/// One execution of a block, or one run of iterations of a loop.
#[derive(Debug)]
pub struct Run<'a> {
    pub thread: Thread,
    pub block: &'a Block,
    /// Values at entry; the consumer advances them by `complete` iterations.
    pub slots: &'a mut [u64],
    /// Whole executions, one after the other.
    pub complete: u64,
    /// One more that was left early.
    pub cut: Option<Cut>,
}

/// What else a thread's records tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    Signal(u64),
    SignalReturn,
    /// The stack pointer and the base of `fs` are here now.
    State {
        rsp: u64,
        fs: u64,
    },
}

/// Whoever consumes executions.
pub trait Consumer {
    /// Whether derived slots are needed even if only counts follow from them.
    const NEEDS_ADDRESSES: bool;
    fn run(&mut self, run: Run<'_>) -> Result<(), DecodeError>;
    /// Where executions are counted by how they ended, one entry for each of the table's outcomes.
    /// This takes the place of [`Consumer::run`] where it can, unless addresses are needed.
    fn tally(&mut self, table: &Table) -> Option<&mut Tally>;
    /// `records` records were passed that the tally does not have.
    fn passed(&mut self, _records: usize) {}
    /// Whether [`Consumer::linear`] may take the place of [`Consumer::run`].
    fn takes_linear(&self) -> bool {
        false
    }
    /// Loops of up to this number of iterations may be written to [`Consumer::room`], iteration
    /// after iteration.
    fn short_loops(&self) -> u64 {
        0
    }
    /// Whether nothing more can be taken for now: see [`ThreadDecoder::feed_some`].
    fn full(&self) -> bool {
        false
    }
    /// Whether `accesses` more accesses can be taken.
    fn takes(&self, _accesses: usize) -> bool {
        true
    }
    /// One execution, all of whose addresses are linear forms. [`Consumer::takes`] has been asked.
    fn linear(&mut self, _linear: &Linear<'_>) {}
    /// Where accesses of this thread can be written that [`Consumer::linear`] would be told; there
    /// may be no room.
    fn room(&mut self, _thread: Thread) -> &mut [Access] {
        &mut []
    }
    /// `accesses` accesses were written to the front of it.
    fn filled(&mut self, _accesses: usize) {}
    /// Whether [`Consumer::linear_fetching`] takes the place of [`Consumer::linear`].
    fn wants_fetches(&self) -> bool {
        false
    }
    /// One execution with its fetches, and how many accesses are among them.
    fn linear_fetching(&mut self, _linear: &Linear<'_>, _accesses: u64) {}
    fn mark(&mut self, _thread: Thread, _mark: Mark) {}
    /// Whether [`Consumer::noted`] is wanted.
    fn wants_notes(&self) -> bool {
        false
    }
    /// A note, and its number among those of its address space.
    fn noted(&mut self, _thread: Thread, _number: u64, _noted: &Noted) {}
    /// Whether [`Consumer::enters`] and [`Consumer::leaves`] are wanted.
    fn follows(&self) -> bool {
        false
    }
    /// A block is executed next, number `index` of the table, with the stack pointer there. Not
    /// told again for every iteration of a loop.
    fn enters(&mut self, _thread: Thread, _index: u32, _block: &Block, _rsp: u64) {}
    /// The block entered last was left before its end: through its instruction so and so, or else
    /// in mid-air.
    fn leaves(&mut self, _block: &Block, _branch: Option<u16>) {}
    /// Whether nothing is to be told of the next block when it begins, nor of any block that has no
    /// bends and is entered after a jump: then [`Consumer::went`] of the last of them is enough.
    fn is_calm(&self) -> bool {
        false
    }
    /// Blocks of which nothing was to be told were executed; this was the last of them, left
    /// through the instruction `left` or at its end.
    fn went(&mut self, _index: u32, _block: &Block, _left: Option<u16>) {}
    /// Whether [`Consumer::bend`] is wanted for this block, which was entered last.
    fn bends(&self, _block: &Block) -> bool {
        false
    }
    /// Control goes to the next piece of a block, its piece number `n + 1`, in an execution with
    /// these slots.
    fn bend(&mut self, _thread: Thread, _block: &Block, _n: usize, _slots: &[u64]) {}
}

/// What decoding goes on from between two buffers of a thread: with it, a thread's records can be
/// read from the middle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Stack pointer, base of fs, base of gs.
    pub carried: [u64; 3],
    /// The loop whose next iteration may write a steady record, if the thread is in one.
    pub in_loop: Option<u32>,
    /// That loop's captured values as they are when the next iteration begins.
    pub captured: Vec<u64>,
    /// The last record, if what follows it may still say that it was cut.
    pub held: Vec<u64>,
}

impl State {
    /// The same with other heads of records.
    pub fn renamed(mut self, key: impl Fn(u32) -> u32) -> State {
        self.in_loop = self.in_loop.map(&key);
        if let Some(head) = self.held.first_mut() {
            *head = u32::try_from(*head).map_or(*head, |head| key(head).into());
        }
        self
    }
}

/// The records of one thread, decoded one buffer at a time.
#[derive(Debug)]
pub struct ThreadDecoder {
    pub(crate) thread: Thread,
    pub(crate) carried: [u64; 3],
    pub(crate) slots: Vec<u64>,
    /// The block `slots` belongs to, if it was not cut and a steady record may follow.
    pub(crate) in_loop: Option<InLoop>,
    /// A whole block record whose successor is not known yet.
    pub(crate) held: Vec<u64>,
    /// Room for expanding by recipes.
    pub(crate) wide: Option<Box<Slots>>,
    pub(crate) columns: Option<Box<Columns>>,
}

/// How far decoding a buffer came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fed {
    /// To the end of its records, which is at this word.
    End(usize),
    /// To this word, where the consumer was full.
    Full(usize),
    /// To this word, which heads a record of a block that is not in the table.
    Unknown { id: u64, at: usize },
}

/// A partly steady loop whose next iteration may follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InLoop {
    /// Its id.
    pub block: u32,
    /// Captured values in the slots.
    pub captured: usize,
}

impl InLoop {
    pub fn of(block: &Block) -> InLoop {
        InLoop {
            block: block.id,
            captured: block.captured(),
        }
    }
    /// Whether a steady record of `block` may follow. A state from elsewhere may tell of a loop
    /// that is none, or that has another number of values.
    pub fn is(&self, block: &Block) -> bool {
        self.block == block.id && self.captured == block.captured()
    }
}

/// The length in words of the record at `words[at]`, which must be inside.
#[inline]
fn record_words(table: &Table, words: &[u64], at: usize) -> Result<usize, DecodeError> {
    let head = words[at];
    let need = if (FIRST_BLOCK..=LAST_BLOCK).contains(&head) {
        let long = || table.hot(head).map(|hot| hot.words.into());
        match table.length(head).or_else(long) {
            Some(words) => words,
            None => return Err(DecodeError::UnknownBlock { id: head }),
        }
    } else {
        special_words(head).ok_or(DecodeError::BadHead { head, at })?
    };
    let have = words.len() - at;
    if need > have {
        return Err(DecodeError::ShortRecord { at, need, have });
    }
    Ok(need)
}

/// What of the buffer of a killed thread can be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Words of complete records.
    pub keep: usize,
    /// Records that may be incomplete, and are dropped.
    pub lost: u64,
}

/// Scans a buffer that was never submitted. `complete` words are known to be whole records. Of
/// what follows, a record is whole if another one follows it: words are written in order.
pub fn tail(table: &Table, words: &[u64], complete: usize) -> Result<Tail, DecodeError> {
    let (mut at, mut keep) = (0, 0);
    while at < words.len() && words[at] != 0 && words[at] != END {
        if at >= complete {
            keep = at;
        }
        match record_words(table, words, at) {
            Ok(n) => at += n,
            Err(e @ DecodeError::UnknownBlock { .. }) => return Err(e),
            Err(_) if at >= complete => return Ok(Tail { keep: at, lost: 1 }),
            Err(e) => return Err(e),
        }
    }
    if at <= complete || matches!(words.get(at), Some(&END)) {
        return Ok(Tail { keep: at, lost: 0 });
    }
    let whole = matches!(words[keep], CUT | STATE) || is_note(words[keep]);
    Ok(Tail {
        keep: if whole { at } else { keep },
        lost: u64::from(!whole),
    })
}

impl ThreadDecoder {
    pub fn new(thread: Thread) -> ThreadDecoder {
        ThreadDecoder {
            thread,
            carried: [0; 3],
            slots: Vec::new(),
            in_loop: None,
            held: Vec::new(),
            wide: None,
            columns: None,
        }
    }

    /// What [`ThreadDecoder::resume`] goes on from: after the buffers fed so far, before the next.
    pub fn state(&self) -> State {
        let captured = self.in_loop.map_or(0, |l| l.captured);
        let first = (FIRST as usize).min(self.slots.len());
        State {
            carried: self.carried,
            in_loop: self.in_loop.map(|l| l.block),
            captured: self.slots[first..].iter().take(captured).copied().collect(),
            held: self.held.clone(),
        }
    }

    /// Goes on where another decoder of this thread stood. A state that does not fit the table is
    /// an error when it is first used.
    pub fn resume(thread: Thread, state: &State) -> ThreadDecoder {
        let mut slots = state.carried.to_vec();
        slots.extend_from_slice(&state.captured);
        ThreadDecoder {
            thread,
            carried: state.carried,
            slots,
            in_loop: state.in_loop.map(|block| InLoop {
                block,
                captured: state.captured.len(),
            }),
            held: state.held.clone(),
            wide: None,
            columns: None,
        }
    }

    /// Decodes the words of one buffer.
    pub fn feed<C: Consumer>(&mut self, table: &Table, words: &[u64], consumer: &mut C) -> Result<(), DecodeError> {
        self.feed_some(table, words, consumer).map(|_| ())
    }

    /// Decodes the words of one buffer, to its end or END, or until the consumer is full; returns
    /// how many need not be fed again.
    pub fn feed_some<C: Consumer>(
        &mut self,
        table: &Table,
        words: &[u64],
        consumer: &mut C,
    ) -> Result<usize, DecodeError> {
        match self.feed_known(table, words, consumer)? {
            Fed::End(_) => Ok(words.len()),
            Fed::Full(at) => Ok(at),
            Fed::Unknown { id, .. } => Err(DecodeError::UnknownBlock { id }),
        }
    }

    /// Decodes the words of one buffer as far as they are of known blocks and the consumer is not
    /// full. What was decoded need not be fed again, so that definitions can be fetched when they
    /// turn out to be missing.
    pub fn feed_known<C: Consumer>(
        &mut self,
        table: &Table,
        words: &[u64],
        consumer: &mut C,
    ) -> Result<Fed, DecodeError> {
        let mut at = 0;
        if !self.held.is_empty() && words.first().is_some_and(|&w| w != END) {
            if consumer.full() {
                return Ok(Fed::Full(0));
            }
            let held = std::mem::take(&mut self.held);
            at = self.block(table, &held, words, 0, consumer)?;
            // What said how it ended: it is in the words before itself.
            consumer.passed(usize::from(at > 0));
            self.held = held;
            self.held.clear();
        }
        loop {
            if !C::NEEDS_ADDRESSES {
                at = self.skim(table, words, at, consumer);
            } else if consumer.takes_linear() {
                at = match consumer.wants_fetches() {
                    false => self.expand_linear::<C, false>(table, words, at, consumer),
                    true if table.numbers_fetches() => self.expand_linear::<C, true>(table, words, at, consumer),
                    true => at,
                };
            }
            if at >= words.len() || words[at] == END {
                return Ok(Fed::End(at));
            }
            if consumer.full() {
                return Ok(Fed::Full(at));
            }
            let next = match record_words(table, words, at) {
                Err(DecodeError::UnknownBlock { id }) => return Ok(Fed::Unknown { id, at }),
                words => at + words?,
            };
            if words[at] < FIRST_BLOCK {
                self.special(&words[at..next], consumer)?;
                consumer.passed(1);
                at = next;
            } else if next < words.len() && words[next] != END {
                at = self.block(table, &words[at..next], words, next, consumer)?;
                consumer.passed(1 + usize::from(words[next] == CUT));
            } else {
                consumer.passed(1);
                self.held.extend_from_slice(&words[at..next]);
                return Ok(Fed::End(next));
            }
        }
    }

    /// The index of the partly steady loop whose next iteration may follow.
    pub(crate) fn loop_under_way(&self, table: &Table) -> Option<u32> {
        let in_loop = self.in_loop?;
        let found = table.find_first(in_loop.block)?;
        in_loop.is(&table.blocks()[found as usize]).then_some(found)
    }

    /// Hands the last record on, if what follows it is known not to say that it was cut.
    pub fn hand_on<C: Consumer>(&mut self, table: &Table, consumer: &mut C) -> Result<(), DecodeError> {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.block(table, &held, &[], 0, consumer)?;
        }
        Ok(())
    }

    /// The thread has ended, or its image was replaced: nothing follows the last record.
    pub fn finish<C: Consumer>(&mut self, table: &Table, consumer: &mut C) -> Result<(), DecodeError> {
        self.hand_on(table, consumer)?;
        self.in_loop = None;
        Ok(())
    }

    fn special<C: Consumer>(&mut self, words: &[u64], consumer: &mut C) -> Result<(), DecodeError> {
        match words[0] {
            head if is_note(head) => {
                if consumer.wants_notes() {
                    let (number, noted) = Noted::parse(words).ok_or(DecodeError::BadNote { head })?;
                    consumer.noted(self.thread, number, &noted);
                }
            }
            STATE => {
                self.carried.copy_from_slice(&words[1..4]);
                let (rsp, fs) = (words[1], words[2]);
                consumer.mark(self.thread, Mark::State { rsp, fs });
            }
            SIGNAL => consumer.mark(self.thread, Mark::Signal(words[1])),
            SIGRETURN => consumer.mark(self.thread, Mark::SignalReturn),
            _ => return Err(DecodeError::CutWithoutBlock),
        }
        Ok(())
    }

    /// Decodes a block record; what follows it begins at `words[next]`. Returns where to go on.
    pub(crate) fn block<C: Consumer>(
        &mut self,
        table: &Table,
        record: &[u64],
        words: &[u64],
        next: usize,
        consumer: &mut C,
    ) -> Result<usize, DecodeError> {
        let head = record[0];
        let found = table.find(head).ok_or(DecodeError::UnknownBlock { id: head })?;
        // Only a held record of a state from elsewhere can be of the wrong length.
        if record.len() != found.words {
            let (need, have) = (found.words, record.len());
            return Err(DecodeError::ShortRecord { at: 0, need, have });
        }
        let side = found.side.and_then(|s| found.block.plan.sides.get(s));
        let (cut, next) = match words.get(next) {
            Some(&CUT) => {
                let end = next + record_words(table, words, next)?;
                let cut = parse_cut(found.block, &words[next..end])?;
                if side.is_some() {
                    return Err(DecodeError::CutWithoutBlock);
                }
                (Some(cut), end)
            }
            _ => (side.map(left), next),
        };
        self.load(&found, record)?;
        let block = found.block;
        if C::NEEDS_ADDRESSES || block.counts_need_derived {
            derive(block, &mut self.slots);
        }
        if let (Some(side), Some(LoopPlan::Affine { counter, .. })) = (side, &block.plan.looping) {
            let exit = &mut self.slots[FIRST as usize + block.plan.words as usize - 2];
            *exit = Block::before(side, counter, *exit);
        }
        let complete = self.complete(block, cut.is_some())?;
        let follows = consumer.follows();
        if follows {
            consumer.enters(self.thread, found.index, block, self.carried[0]);
        }
        consumer.run(Run {
            thread: self.thread,
            block,
            slots: &mut self.slots,
            complete,
            cut,
        })?;
        if let Some(cut) = cut.filter(|_| follows) {
            consumer.leaves(block, (!cut.begun).then(|| cut.insn - 1));
        }
        if let Some(side) = side {
            if !C::NEEDS_ADDRESSES {
                derive(block, &mut self.slots);
            }
            self.carried[0] = side.rsp.eval(&self.slots);
        } else if cut.is_none() {
            self.carried[0] = self.slots[RSP as usize];
        }
        let steady = matches!(block.plan.looping, Some(LoopPlan::Partly { .. }));
        self.in_loop = (steady && cut.is_none()).then(|| InLoop::of(block));
        Ok(next)
    }

    /// Fills the slots from a record.
    fn load(&mut self, found: &Found, record: &[u64]) -> Result<(), DecodeError> {
        let plan = &found.block.plan;
        if found.steady {
            if !self.in_loop.is_some_and(|l| l.is(found.block)) {
                return Err(DecodeError::SteadyWithoutFirst { id: record[0] });
            }
            self.slots.resize(plan.slots(), 0);
            if let Some(LoopPlan::Partly { free, .. }) = &plan.looping {
                for (&slot, &value) in free.iter().zip(&record[1..]) {
                    self.slots[slot as usize] = value;
                }
            }
        } else {
            self.slots.clear();
            self.slots.extend_from_slice(&self.carried);
            self.slots.extend_from_slice(&record[1..]);
            self.slots.resize(plan.slots(), 0);
        }
        self.slots[RSP as usize] = self.carried[0];
        self.slots[FS as usize] = self.carried[1];
        self.slots[GS as usize] = self.carried[2];
        Ok(())
    }

    /// Whole iterations the record in the slots stands for.
    fn complete(&self, block: &Block, cut: bool) -> Result<u64, DecodeError> {
        let Some(LoopPlan::Affine { counter, .. }) = &block.plan.looping else {
            return Ok(u64::from(!cut));
        };
        let entry = self.slots[counter.slot as usize];
        let exit = self.slots[FIRST as usize + block.plan.words as usize - 2];
        let trips = match Plan::trips(counter, entry, exit) {
            0 if !cut => wrapped_trips(counter).ok_or(DecodeError::BadTrips {
                id: block.id,
                entry,
                exit,
            })?,
            n => n,
        };
        let each = block.plan.accesses.len().max(1) as u128;
        if u128::from(trips) * each > MOST_ACCESSES.into() {
            return Err(DecodeError::TooMany {
                id: block.id,
                count: u128::from(trips) * each,
            });
        }
        Ok(trips)
    }
}

/// A loop runs at least once; a 32-bit counter that came back to where it was went all around.
fn wrapped_trips(counter: &Step) -> Option<u64> {
    let by = counter.by as i64;
    let all = 1u64 << 32;
    (counter.low32 && by.unsigned_abs().is_power_of_two() && by.unsigned_abs() <= all).then(|| all / by.unsigned_abs())
}

/// A block left through a way out: cut at the instruction after it, which did not begin.
fn left(side: &Side) -> Cut {
    Cut {
        insn: side.insn.saturating_add(1),
        rcx: 0,
        rsi: 0,
        rdi: 0,
        lanes: 0,
        begun: false,
    }
}

fn parse_cut(block: &Block, words: &[u64]) -> Result<Cut, DecodeError> {
    let insns = block.plan.insn_offsets.len();
    let insn = words[1];
    if insn >= insns as u64 {
        return Err(DecodeError::BadCut { insn, insns });
    }
    Ok(Cut {
        insn: insn as u16,
        rcx: words[2],
        rsi: words[3],
        rdi: words[4],
        lanes: words[5],
        begun: true,
    })
}

/// Computes the derived slots.
#[inline]
pub(crate) fn derive(block: &Block, slots: &mut [u64]) {
    let first = slots.len() - block.plan.derived.len();
    for (i, derived) in block.plan.derived.iter().enumerate() {
        slots[first + i] = derived.narrow.apply(derived.of.eval(slots));
    }
}

pub(crate) fn step_by(step: &Step, slots: &[u64], times: u64) -> u64 {
    let next = if step.anew && times > 0 {
        step.distance(slots)
    } else {
        slots[step.slot as usize].wrapping_add(step.distance(slots).wrapping_mul(times))
    };
    if step.low32 && times > 0 {
        next as u32 as u64
    } else {
        next
    }
}

/// Moves the slots from one iteration (or execution) to the next; derived slots become stale.
#[inline]
pub(crate) fn step(block: &Block, slots: &mut [u64]) {
    let rsp = block.plan.exit_rsp.eval(slots);
    for step in block.steps() {
        slots[step.slot as usize] = step_by(step, slots, 1);
    }
    slots[RSP as usize] = rsp;
}

/// Moves the slots by `n` iterations at once. Derived slots must be current, and become stale.
pub(crate) fn advance(block: &Block, slots: &mut [u64], n: u64) {
    let exit = &block.plan.exit_rsp;
    let constant_step = match exit.terms() {
        [(RSP, 1)] => Some(exit.c),
        _ => None,
    };
    if n > 1 && constant_step.is_none() {
        return advance_by_last(block, slots, n);
    }
    let rsp = match constant_step {
        Some(c) => slots[RSP as usize].wrapping_add(c.wrapping_mul(n)),
        None if n == 1 => exit.eval(slots),
        None => slots[RSP as usize],
    };
    for step in block.steps() {
        slots[step.slot as usize] = step_by(step, slots, n);
    }
    slots[RSP as usize] = rsp;
}

/// The stack pointer after an iteration is some other function of that iteration's values: if
/// it does not depend on the one before, only the last iteration matters.
fn advance_by_last(block: &Block, slots: &mut [u64], n: u64) {
    let plan = &block.plan;
    let on_rsp = |l: &memtrail_plan::Lin| l.terms().iter().any(|t| t.0 == RSP);
    let depends = on_rsp(&plan.exit_rsp) || plan.derived.iter().any(|d| on_rsp(&d.of));
    let one_by_one = if depends { n } else { 1 };
    for step in block.steps() {
        slots[step.slot as usize] = step_by(step, slots, n - one_by_one);
    }
    for _ in 0..one_by_one {
        derive(block, slots);
        step(block, slots);
    }
}
