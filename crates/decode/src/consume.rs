//! The two consumers of executions: one expands them to accesses, one only counts.
//!
//! The [`Expander`] takes executions in three ways: all addresses linear forms ([`Linear`]),
//! iterations of a loop whose addresses move evenly ([`Affine`]), and one access after the other.
//! The last takes everything, and the others must give the same. It can be stopped anywhere, even
//! between the elements of one string instruction, and go on later.
mod fetch;

use crate::affine::Affine;
use crate::decode::{advance, derive, step, Consumer, Mark, Run};
use crate::follow::{tell, Follower};
use crate::linear::Linear;
use crate::points::Points;
use crate::shape::{as_loop, count, expand, Values};
use crate::{Block, Counts, Cut, DecodeError, Noted, Table, MOST_ACCESSES};
use memtrail_model::{Access, AccessSink, Event, Flow, Kind, LoopAccess, LoopRun, Note, Point, Thread, Wants};
use memtrail_plan::XsaveTable;
use memtrail_plan::{PlannedAccess, Shape};

/// Accesses in a batch: it stays in the first-level cache between us and the sink.
const BATCH: usize = 512;
/// With less room than that a batch is handed on.
const LEAST_ROOM: usize = 64;

/// What room for accesses is filled with.
pub(crate) const NO_ACCESS: Access = Access {
    thread: Thread(0),
    pc: 0,
    kind: Kind::Read,
    addr: 0,
    size: 0,
    point: Point::NONE,
};

/// Expands executions to accesses and hands them on in batches of one thread each.
#[derive(Debug)]
pub struct Expander<'x, S: AccessSink> {
    xsave: &'x XsaveTable,
    sink: S,
    /// The batch in the making: the first `filled`.
    batch: Vec<Access>,
    filled: usize,
    /// Accesses still wanted.
    left: u64,
    thread: Thread,
    affine: Affine,
    /// A run that the limit stopped.
    paused: Option<Paused>,
    one_by_one: bool,
    /// What the sink wants; of loops, since the limit was set last.
    wants: Wants,
    follower: Follower,
}

/// What is left of a run.
#[derive(Clone, Debug)]
struct Rest {
    /// Whole executions, the current one included.
    complete: u64,
    cut: Option<Cut>,
    /// Where in the current execution to go on: at this access of the plan, past so many of its
    /// accesses.
    access: usize,
    past: u64,
    /// The first instruction whose fetch was not handed on, if fetches are wanted.
    insn: u16,
    /// The first bend that was not told, if they are wanted.
    bend: usize,
}

impl Rest {
    fn new(complete: u64, cut: Option<Cut>) -> Rest {
        Rest {
            complete,
            cut,
            access: 0,
            past: 0,
            insn: 0,
            bend: 0,
        }
    }
    fn is_at_start(&self) -> bool {
        (self.access, self.past, self.insn, self.bend) == (0, 0, 0, 0)
    }
    fn restart(&mut self) {
        *self = Rest::new(self.complete, self.cut);
    }
}

/// A run stopped in the middle, with its own copy of the slots.
#[derive(Debug)]
struct Paused {
    thread: Thread,
    block: u32,
    slots: Vec<u64>,
    rest: Rest,
}

impl<'x, S: AccessSink> Expander<'x, S> {
    pub fn new(xsave: &'x XsaveTable, sink: S) -> Self {
        Expander {
            xsave,
            wants: sink.wants(),
            follower: Follower::new(&sink.wants()),
            sink,
            batch: vec![NO_ACCESS; BATCH],
            filled: 0,
            left: u64::MAX,
            thread: Thread::default(),
            affine: Affine::default(),
            paused: None,
            one_by_one: false,
        }
    }

    /// Evaluates every access by itself: slow, and what the faster ways are held to.
    pub fn one_by_one(mut self) -> Self {
        self.one_by_one = true;
        self
    }

    /// Expands no more than the first `n` accesses.
    pub fn with_limit(mut self, n: u64) -> Self {
        self.left = n;
        self
    }

    /// Expands no more than `n` further accesses. What a limit before has stopped does not go on.
    pub fn set_limit(&mut self, n: u64) {
        self.paused = None;
        self.left = n;
        self.wants.loops = self.sink.wants().loops;
    }

    /// So many accesses do not come, though they count.
    pub fn leave_out(&mut self, accesses: u64) {
        self.left = self.left.saturating_sub(accesses);
    }

    /// Whether the sink wants no more.
    pub fn done(&self) -> bool {
        self.sink.done()
    }

    /// Whether the limit has been reached.
    pub fn full(&self) -> bool {
        self.left == 0
    }

    /// Whether accesses of the words fed so far are still to come.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Lets `n` more accesses come, and goes on with the run that the limit stopped. To get a
    /// thread's accesses `n` at a time: refill, then [`ThreadDecoder::feed_some`] until full.
    ///
    /// [`ThreadDecoder::feed_some`]: crate::ThreadDecoder::feed_some
    pub fn refill(&mut self, table: &Table, n: u64) -> Result<(), DecodeError> {
        self.left = self.left.saturating_add(n);
        self.wants.loops = self.sink.wants().loops;
        let Some(mut paused) = self.paused.take() else {
            return Ok(());
        };
        let id = paused.block;
        let found = table
            .find(id.into())
            .ok_or(DecodeError::UnknownBlock { id: id.into() })?;
        self.switch(paused.thread);
        derive(found.block, &mut paused.slots);
        if !self.go_on(paused.thread, found.block, &mut paused.slots, &mut paused.rest)? {
            self.paused = Some(paused);
        }
        Ok(())
    }

    /// Hands over what is left, and gives access to the sink.
    pub fn flush(&mut self) -> &mut S {
        if self.filled > 0 {
            self.sink.accesses(&self.batch[..self.filled]);
            self.filled = 0;
        }
        &mut self.sink
    }

    pub fn into_sink(mut self) -> S {
        self.flush();
        self.sink
    }

    #[cold]
    fn make_room(&mut self, room: usize) {
        self.flush();
        if self.batch.len() < room {
            self.batch.resize(room, NO_ACCESS);
        }
    }

    /// Puts what is linear into the batch. Inlined, since a form is evaluated faster than it is
    /// passed on.
    #[inline(always)]
    fn write(&mut self, linear: &Linear<'_>) {
        if linear.thread != self.thread {
            self.switch(linear.thread);
        }
        if self.filled + linear.len() > self.batch.len() {
            self.make_room(linear.len());
        }
        linear.write(&mut self.batch[self.filled..]);
        self.filled += linear.len();
    }

    /// A batch is of one thread.
    fn switch(&mut self, thread: Thread) {
        if thread != self.thread {
            self.flush();
            self.thread = thread;
        }
    }

    /// Goes on with a run as far as the limit allows; returns whether it is done. Derived slots
    /// must be current. If it is not done, `slots` and `rest` say where it stopped.
    fn go_on(
        &mut self,
        thread: Thread,
        block: &Block,
        slots: &mut [u64],
        rest: &mut Rest,
    ) -> Result<bool, DecodeError> {
        let nothing = block.plan.accesses.is_empty() && !self.wants.fetches;
        if nothing && rest.complete > 0 && !self.follower.bends(block) {
            advance(block, slots, rest.complete);
            derive(block, slots);
            rest.complete = 0;
        }
        while rest.complete > 0 {
            if rest.is_at_start() && !self.follower.bends(block) && self.evenly(thread, block, slots, rest) {
                continue;
            }
            if !self.once(thread, block, slots, rest, None)? {
                return Ok(false);
            }
            rest.restart();
            rest.complete -= 1;
            step(block, slots);
            if rest.complete > 0 || rest.cut.is_some() {
                derive(block, slots);
            }
        }
        match rest.cut {
            Some(cut) => self.once(thread, block, slots, rest, Some(&cut)),
            None => Ok(true),
        }
    }

    /// Some iterations of a run at once. Returns `false` if their addresses do not move evenly, or
    /// only in less than two of those that the limit allows.
    fn evenly(&mut self, thread: Thread, block: &Block, slots: &mut [u64], rest: &mut Rest) -> bool {
        let length = block.plan.accesses.len() as u64;
        let mut left = self.left;
        let mut longest = BATCH;
        if self.wants.fetches {
            // What follows the last access of an iteration must be allowed as well.
            left = left.saturating_sub(1);
            longest = BATCH.saturating_sub(block.plan.insn_offsets.len());
        }
        let allowed = left
            .checked_div(length)
            .unwrap_or(if self.left > 0 { u64::MAX } else { 0 });
        let trips = rest.complete.min(allowed);
        if self.one_by_one || trips < 2 || length > longest as u64 {
            return false;
        }
        let mut affine = std::mem::take(&mut self.affine);
        let even = affine.body(block, slots, trips).filter(|&(_, trips)| trips >= 2);
        let done = even.is_some();
        if let Some((body, trips)) = even {
            self.left -= trips * length;
            let body = if self.wants.fetches {
                affine.fetching(block)
            } else {
                body
            };
            self.iterations(thread, trips, body);
            advance(block, slots, trips);
            derive(block, slots);
            rest.complete -= trips;
        }
        self.affine = affine;
        done
    }

    /// `trips` iterations, which are no longer in the limit.
    fn iterations(&mut self, thread: Thread, mut trips: u64, body: &mut [LoopAccess]) {
        if self.wants.loops.is_some_and(|short| trips > short) {
            let taken = self
                .flush()
                .event(Event::Loop(LoopRun { thread, trips, body }))
                .skip
                .min(trips);
            trips -= taken;
            if trips > 0 && taken > 0 {
                body.iter_mut().for_each(|access| access.advance(taken));
            }
        }
        if body.is_empty() {
            return;
        }
        while trips > 0 && !self.sink.done() {
            let mut room = (self.batch.len() - self.filled) / body.len();
            if room == 0 {
                self.flush();
                room = self.batch.len() / body.len();
            }
            let now = trips.min(room as u64);
            self.fill(thread, now, body);
            trips -= now;
        }
    }

    /// Adds iterations to the batch, which has room for them.
    fn fill(&mut self, thread: Thread, trips: u64, body: &mut [LoopAccess]) {
        let accesses = trips as usize * body.len();
        let places = &mut self.batch[self.filled..self.filled + accesses];
        let mut first = [NO_ACCESS; 4];
        for (place, access) in first.iter_mut().zip(&*body) {
            *place = access.at(thread, access.addr);
        }
        match body.len() {
            1 => fill::<1>(places, &first, body),
            2 => fill::<2>(places, &first, body),
            3 => fill::<3>(places, &first, body),
            4 => fill::<4>(places, &first, body),
            _ => {
                for chunk in places.chunks_exact_mut(body.len()) {
                    for (place, access) in chunk.iter_mut().zip(&mut *body) {
                        *place = access.at(thread, access.addr);
                        access.addr = access.addr.wrapping_add(access.stride);
                    }
                }
            }
        }
        self.filled += accesses;
    }

    /// The accesses of one execution from where `rest` says, up to the cut if there is one. Returns
    /// whether the limit allowed all of them; if not, `rest` says how many it did.
    fn once(
        &mut self,
        thread: Thread,
        block: &Block,
        slots: &[u64],
        rest: &mut Rest,
        cut: Option<&Cut>,
    ) -> Result<bool, DecodeError> {
        if self.wants.fetches {
            return self.once_fetching(thread, block, slots, rest, cut);
        }
        let plan = &block.plan;
        let points = &block.points[rest.access..];
        for (access, points) in plan.accesses[rest.access..].iter().zip(points) {
            if cut.is_some_and(|c| c.excludes(access.insn)) {
                break;
            }
            if !self.bend_until(thread, block, slots, rest, access.insn) {
                return Ok(false);
            }
            let values = Values {
                block: block.id,
                slots,
                xsave: self.xsave,
                cut: cut.filter(|c| c.insn == access.insn),
            };
            let (pc, _) = plan.instruction(access.insn);
            if !self.one_by_one && matches!(access.shape, Shape::Repeat(_)) {
                rest.past += self.repeated(thread, access, points, &values, rest.past, pc)?;
            }
            let (mut past, mut stopped) = (rest.past, false);
            expand(access, &values, rest.past, |kind, addr, size| {
                stopped = self.left == 0;
                if stopped {
                    return false;
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
            if stopped {
                rest.past = past;
                return Ok(false);
            }
            rest.access += 1;
            rest.past = 0;
        }
        Ok(self.bend_until(thread, block, slots, rest, reached(cut)))
    }

    /// Tells the bends of an execution that were not told yet, as far as instruction `insn`.
    /// Returns whether the limit allowed it: nothing comes behind the last access.
    #[inline]
    fn bend_until(&mut self, thread: Thread, block: &Block, slots: &[u64], rest: &mut Rest, insn: u16) -> bool {
        if block.bends.is_empty() || !self.follower.wanted() {
            return true;
        }
        while block.bends.get(rest.bend).is_some_and(|b| b.insn <= insn) {
            if self.left == 0 {
                return false;
            }
            self.bend(thread, block, rest.bend, slots);
            rest.bend += 1;
        }
        true
    }

    /// As many elements of a repeated string instruction as can be taken at once, after the first
    /// `past` accesses; returns how many accesses that was.
    fn repeated(
        &mut self,
        thread: Thread,
        access: &PlannedAccess,
        points: &Points,
        values: &Values,
        past: u64,
        pc: u64,
    ) -> Result<u64, DecodeError> {
        let operands = match &access.shape {
            Shape::Repeat(repeat) if repeat.source.is_some() && repeat.dest.is_some() => 2,
            _ => 1,
        };
        let (elements, mut body) = as_loop(access, values, past / operands, pc, points)?;
        let trips = elements.min(self.left / operands);
        if body.is_empty() || past % operands != 0 || trips < 2 {
            return Ok(0);
        }
        self.left -= trips * operands;
        self.iterations(thread, trips, &mut body);
        Ok(trips * operands)
    }

    #[inline]
    fn push(&mut self, access: Access) {
        if self.filled == self.batch.len() && self.flush().done() {
            // This one, and no more.
            self.left = 1;
        }
        self.batch[self.filled] = access;
        self.filled += 1;
        self.left -= 1;
    }
}

/// The last instruction of an execution to which control came.
fn reached(cut: Option<&Cut>) -> u16 {
    cut.map_or(u16::MAX, |c| c.insn - u16::from(!c.begun))
}

/// Fills `places` with iterations of a body of `N` accesses, of which `first` has those of one.
/// They are copied as they are, which takes two writes, and then get their addresses: to write what
/// they consist of, one after the other, would take six. It is a function by itself so that nobody
/// takes them to pieces.
#[inline(never)]
fn fill<const N: usize>(places: &mut [Access], first: &[Access], body: &mut [LoopAccess]) {
    let (Some(first), Some(body)) = (first.first_chunk::<N>(), body.first_chunk_mut::<N>()) else {
        return;
    };
    let (mut addrs, strides) = (body.map(|access| access.addr), body.map(|access| access.stride));
    for chunk in places.chunks_exact_mut(N) {
        for i in 0..N {
            chunk[i] = first[i];
            chunk[i].addr = addrs[i];
            addrs[i] = addrs[i].wrapping_add(strides[i]);
        }
    }
    for (access, addr) in body.iter_mut().zip(addrs) {
        access.addr = addr;
    }
}

impl<S: AccessSink> Consumer for Expander<'_, S> {
    const NEEDS_ADDRESSES: bool = true;

    fn tally(&mut self, _table: &Table) -> Option<&mut Tally> {
        None
    }

    fn takes_linear(&self) -> bool {
        !self.one_by_one
    }

    fn short_loops(&self) -> u64 {
        self.wants.loops.unwrap_or(u64::MAX)
    }

    #[inline(always)]
    fn linear(&mut self, linear: &Linear<'_>) {
        self.write(linear);
        self.left -= linear.len() as u64;
    }

    fn room(&mut self, thread: Thread) -> &mut [Access] {
        self.switch(thread);
        if self.batch.len() - self.filled < LEAST_ROOM {
            self.flush();
        }
        let room = &mut self.batch[self.filled..];
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(room.len());
        &mut room[..most]
    }

    fn filled(&mut self, accesses: usize) {
        self.filled += accesses;
        self.left -= accesses as u64;
    }

    fn wants_fetches(&self) -> bool {
        self.wants.fetches
    }

    #[inline(always)]
    fn linear_fetching(&mut self, linear: &Linear<'_>, accesses: u64) {
        self.write(linear);
        self.left -= accesses;
    }

    fn wants_notes(&self) -> bool {
        self.wants.notes
    }

    fn noted(&mut self, thread: Thread, number: u64, noted: &Noted) {
        let event = match noted {
            Noted::Note(note) => Event::Note { thread, number, note },
            &Noted::Fork { child } => Event::ForkCall { thread, number, child },
        };
        self.flush().event(event);
    }

    fn follows(&self) -> bool {
        self.follower.wanted()
    }

    #[inline]
    fn enters(&mut self, thread: Thread, index: u32, block: &Block, rsp: u64) {
        let (flow, edge) = self.follower.enters(index, block, rsp);
        if flow.is_some() || edge.is_some() {
            tell(self.flush(), thread, flow, edge);
        }
        if self.follower.edges && block.plan.looping.is_some() {
            let edge = self.follower.around(block);
            tell(self.flush(), thread, None, edge);
        }
    }

    fn leaves(&mut self, block: &Block, branch: Option<u16>) {
        match branch {
            Some(insn) => self.follower.left(block, insn),
            None => self.follower.lost(),
        }
    }

    fn is_calm(&self) -> bool {
        self.follower.is_calm()
    }

    fn went(&mut self, index: u32, block: &Block, left: Option<u16>) {
        self.follower.went(index, block, left);
    }

    #[inline]
    fn bends(&self, block: &Block) -> bool {
        self.follower.bends(block)
    }

    fn bend(&mut self, thread: Thread, block: &Block, n: usize, slots: &[u64]) {
        let (flow, edge) = self.follower.bend(block, n, slots);
        if flow.is_some() || edge.is_some() {
            tell(self.flush(), thread, flow, edge);
        }
    }

    fn mark(&mut self, thread: Thread, mark: Mark) {
        self.follower.lost();
        if self.follower.flows {
            let pointer = match mark {
                Mark::State { fs, .. } => self.follower.points(fs),
                _ => None,
            };
            let flow = match mark {
                Mark::Signal(number) => Flow::Signal { number: number as u32 },
                Mark::SignalReturn => Flow::SignalReturn,
                Mark::State { rsp, .. } => Flow::Stack { rsp },
            };
            let sink = self.flush();
            sink.event(Event::Flow { thread, flow });
            if let Some(base) = pointer {
                let flow = Flow::ThreadPointer { base };
                sink.event(Event::Flow { thread, flow });
            }
        }
    }

    fn full(&self) -> bool {
        self.left == 0
    }

    #[inline]
    fn takes(&self, accesses: usize) -> bool {
        // What is told of an execution without accesses does not come behind the last one either.
        accesses as u64 <= self.left && (self.left > 0 || !self.follower.wanted())
    }

    fn run(&mut self, run: Run<'_>) -> Result<(), DecodeError> {
        self.switch(run.thread);
        let mut rest = Rest::new(run.complete, run.cut);
        if !self.go_on(run.thread, run.block, run.slots, &mut rest)? {
            let complete = rest.complete;
            self.paused = Some(Paused {
                thread: run.thread,
                block: run.block.id,
                slots: run.slots.to_vec(),
                rest,
            });
            // The decoder goes on as if all had been taken.
            advance(run.block, run.slots, complete);
            derive(run.block, run.slots);
        }
        Ok(())
    }
}

/// Counts accesses without expanding those whose number is known beforehand.
#[derive(Debug)]
pub struct Counter<'x> {
    xsave: &'x XsaveTable,
    /// What was counted apart from `executions`.
    counts: Counts,
    /// Executions by outcome, where only their number matters.
    tally: Tally,
    /// Gaps so far, if they are counted.
    gaps: Option<u64>,
}

/// How often executions ended in each way.
#[derive(Debug, Default)]
pub struct Tally {
    outcomes: Vec<Outcome>,
    /// Accesses of all.
    accesses: u64,
    /// The leaves that were counted since somebody took them; [`NO_LEAF`] for records that were
    /// counted in another way.
    pub(crate) leaves: Vec<u32>,
}

/// Stands for a record, or for what says how the one before it ended, that has to be looked at to
/// know its leaf.
pub const NO_LEAF: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Outcome {
    times: u64,
    /// Accesses each time.
    accesses: u64,
}

impl Tally {
    /// Outcomes of this table may follow.
    fn know(&mut self, table: &Table) {
        let new = table.outcomes().iter().skip(self.outcomes.len());
        self.outcomes.extend(new.map(|counts| Outcome {
            times: 0,
            accesses: counts.accesses(),
        }));
    }
    /// Counts `n` executions; `None` if there is no such outcome.
    #[inline(always)]
    pub(crate) fn add(&mut self, outcome: u32, n: u64) -> Option<()> {
        let outcome = self.outcomes.get_mut(outcome as usize)?;
        outcome.times = outcome.times.wrapping_add(n);
        self.accesses = self.accesses.wrapping_add(outcome.accesses.wrapping_mul(n));
        Some(())
    }
}

impl<'x> Counter<'x> {
    pub fn new(xsave: &'x XsaveTable) -> Self {
        Counter {
            xsave,
            counts: Counts::default(),
            tally: Tally::default(),
            gaps: None,
        }
    }

    /// Counts gaps as well: every note is looked at.
    pub fn count_gaps(&mut self) {
        self.gaps = Some(0);
    }

    /// Gaps so far.
    pub fn gaps(&self) -> u64 {
        self.gaps.unwrap_or(0)
    }

    /// The numbers of the leaves that were counted since they were forgotten: see
    /// [`Piece::leaves`](crate::Piece::leaves).
    pub fn leaves(&self) -> &[u32] {
        &self.tally.leaves
    }
    pub fn forget_leaves(&mut self) {
        self.tally.leaves.clear();
    }

    /// Accesses so far.
    pub fn accesses(&self) -> u64 {
        self.counts.accesses().wrapping_add(self.tally.accesses)
    }

    /// The totals so far. `table` is the one the records were decoded with.
    pub fn counts(&self, table: &Table) -> Counts {
        let mut counts = self.counts;
        for (outcome, tally) in table.outcomes().iter().zip(&self.tally.outcomes) {
            counts.add_times(outcome, tally.times);
        }
        counts
    }

    /// Counts of the accesses that depend on values, for one whole execution.
    fn dynamic(&self, run: &Run) -> Result<Counts, DecodeError> {
        let mut counts = Counts::default();
        for &i in &run.block.fixed.dynamic {
            let values = Values {
                block: run.block.id,
                slots: run.slots,
                xsave: self.xsave,
                cut: None,
            };
            count(&run.block.plan.accesses[i as usize], &values, &mut counts)?;
        }
        if counts.accesses() > MOST_ACCESSES {
            return Err(DecodeError::TooMany {
                id: run.block.id,
                count: counts.accesses().into(),
            });
        }
        Ok(counts)
    }

    fn partial(&mut self, run: &Run, cut: &Cut) -> Result<(), DecodeError> {
        let accesses = run.block.plan.accesses.iter();
        for access in accesses.take_while(|a| !cut.excludes(a.insn)) {
            let values = Values {
                block: run.block.id,
                slots: run.slots,
                xsave: self.xsave,
                cut: Some(cut).filter(|c| c.insn == access.insn),
            };
            count(access, &values, &mut self.counts)?;
        }
        self.counts.instructions += u64::from(cut.insn);
        self.counts.blocks += 1;
        Ok(())
    }
}

impl Consumer for Counter<'_> {
    const NEEDS_ADDRESSES: bool = false;

    fn tally(&mut self, table: &Table) -> Option<&mut Tally> {
        self.tally.know(table);
        Some(&mut self.tally)
    }

    fn passed(&mut self, records: usize) {
        let leaves = &mut self.tally.leaves;
        leaves.resize(leaves.len() + records, NO_LEAF);
    }

    fn wants_notes(&self) -> bool {
        self.gaps.is_some()
    }

    fn noted(&mut self, _thread: Thread, _number: u64, noted: &Noted) {
        if let (Some(gaps), Noted::Note(Note::Gap { .. })) = (&mut self.gaps, noted) {
            *gaps += 1;
        }
    }

    #[inline]
    fn run(&mut self, run: Run<'_>) -> Result<(), DecodeError> {
        self.counts.add_times(&run.block.fixed.counts, run.complete);
        if run.block.fixed.dynamic.is_empty() {
            advance(run.block, run.slots, run.complete);
        } else {
            for _ in 0..run.complete {
                let counts = self.dynamic(&run)?;
                self.counts += counts;
                step(run.block, run.slots);
                derive(run.block, run.slots);
            }
        }
        match run.cut {
            Some(cut) => {
                derive(run.block, run.slots);
                self.partial(&run, &cut)
            }
            None => Ok(()),
        }
    }
}
