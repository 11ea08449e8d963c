//! The two consumers of executions: one expands them to accesses, one only counts.
use crate::affine::Affine;
use crate::decode::{advance, derive, step, Consumer, Run};
use crate::linear::Linear;
use crate::shape::{count, expand, Values};
use crate::{Counts, Cut, DecodeError, Table, MOST_ACCESSES};
use memtrail_model::{Access, AccessSink, Kind, LoopAccess, LoopRun, Thread};
use memtrail_tracee::XsaveTable;

/// Accesses in a batch: it stays in the first-level cache between us and the sink.
const BATCH: usize = 512;

const NO_ACCESS: Access = Access {
    thread: Thread(0),
    pc: 0,
    kind: Kind::Read,
    addr: 0,
    size: 0,
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
    one_by_one: bool,
}

impl<'x, S: AccessSink> Expander<'x, S> {
    pub fn new(xsave: &'x XsaveTable, sink: S) -> Self {
        Expander {
            xsave,
            sink,
            batch: vec![NO_ACCESS; BATCH],
            filled: 0,
            left: u64::MAX,
            thread: Thread::default(),
            affine: Affine::default(),
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

    /// Expands no more than `n` further accesses.
    pub fn set_limit(&mut self, n: u64) {
        self.left = n;
    }

    /// Whether the limit has been reached.
    pub fn full(&self) -> bool {
        self.left == 0
    }

    /// Hands over what is left, and gives access to the sink.
    pub fn flush(&mut self) -> &mut S {
        if self.filled > 0 {
            self.sink.accesses(&self.batch[..self.filled]);
            self.filled = 0;
        }
        &mut self.sink
    }

    /// Whether the sink wants no more; what it has not been given yet counts for nothing.
    pub fn done(&self) -> bool {
        self.sink.done()
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

    /// A batch is of one thread.
    fn switch(&mut self, thread: Thread) {
        if thread != self.thread {
            self.flush();
            self.thread = thread;
        }
    }

    /// The whole iterations of a run, if their addresses move evenly.
    fn evenly(&mut self, run: &Run) -> bool {
        let body = run.block.plan.accesses.len();
        if self.one_by_one || run.complete < 2 || body > BATCH {
            return false;
        }
        let mut affine = std::mem::take(&mut self.affine);
        let even = affine.body(run.block, run.slots, run.complete);
        let done = even.is_some();
        if let Some(body) = even {
            self.iterations(run.thread, run.complete, body);
        }
        self.affine = affine;
        done
    }

    fn iterations(&mut self, thread: Thread, trips: u64, body: &mut [LoopAccess]) {
        let whole = trips.checked_mul(body.len() as u64).filter(|&n| n <= self.left);
        if let (Some(accesses), true) = (whole, self.sink.wants_loops()) {
            if self.flush().looped(&LoopRun { thread, trips, body }) {
                self.left -= accesses;
                return;
            }
        }
        if body.is_empty() {
            return;
        }
        let mut trips = trips;
        while trips > 0 && self.left > 0 && !self.sink.done() {
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
        match body {
            [_] => fill::<1>(places, thread, body),
            [_, _] => fill::<2>(places, thread, body),
            [_, _, _] => fill::<3>(places, thread, body),
            [_, _, _, _] => fill::<4>(places, thread, body),
            _ => {
                for chunk in places.chunks_exact_mut(body.len()) {
                    for (place, access) in chunk.iter_mut().zip(&mut *body) {
                        *place = next(access, thread);
                    }
                }
            }
        }
        let wanted = (accesses as u64).min(self.left);
        self.filled += wanted as usize;
        self.left -= wanted;
    }

    /// The accesses of one execution, up to the cut if there is one.
    fn once(&mut self, run: &Run, cut: Option<&Cut>) -> Result<(), DecodeError> {
        let plan = &run.block.plan;
        for access in &plan.accesses {
            let values = Values {
                block: run.block.id,
                slots: run.slots,
                xsave: self.xsave,
                cut: cut.filter(|c| c.insn == access.insn),
            };
            if cut.is_some_and(|c| c.excludes(access.insn)) {
                break;
            }
            let offset = plan.insn_offsets[access.insn as usize];
            let pc = plan.pc.wrapping_add(offset.into());
            let (batch, filled) = (&mut self.batch, &mut self.filled);
            let (sink, left) = (&mut self.sink, &mut self.left);
            expand(access, &values, |kind, addr, size| {
                if *left == 0 {
                    return false;
                }
                *left -= 1;
                if *filled == batch.len() {
                    sink.accesses(batch);
                    *filled = 0;
                    if sink.done() {
                        *left = 0;
                    }
                }
                batch[*filled] = Access {
                    thread: run.thread,
                    pc,
                    kind,
                    addr,
                    size,
                };
                *filled += 1;
                true
            })?;
        }
        Ok(())
    }
}

/// An access of the current iteration; moves on to the next.
#[inline(always)]
fn next(access: &mut LoopAccess, thread: Thread) -> Access {
    let addr = access.addr;
    access.addr = addr.wrapping_add(access.stride);
    Access {
        thread,
        pc: access.pc,
        kind: access.kind,
        addr,
        size: access.size,
    }
}

/// Fills `places` with iterations of a body of `N` accesses, all of it in registers.
fn fill<const N: usize>(places: &mut [Access], thread: Thread, body: &mut [LoopAccess]) {
    let Some(body) = body.first_chunk_mut::<N>() else {
        return;
    };
    let mut now = *body;
    for chunk in places.chunks_exact_mut(N) {
        for (place, access) in chunk.iter_mut().zip(&mut now) {
            *place = next(access, thread);
        }
    }
    *body = now;
}

impl<S: AccessSink> Consumer for Expander<'_, S> {
    const NEEDS_ADDRESSES: bool = true;

    fn expect(&mut self, _table: &Table) {}
    fn ended(&mut self, _outcome: u32) {}

    fn takes_linear(&self) -> bool {
        !self.one_by_one
    }

    #[inline]
    fn linear(&mut self, linear: &Linear<'_>) {
        if linear.thread != self.thread {
            self.switch(linear.thread);
        }
        if self.filled + linear.len() > self.batch.len() {
            self.make_room(linear.len());
        }
        linear.write(&mut self.batch[self.filled..]);
        let accesses = (linear.len() as u64).min(self.left);
        self.filled += accesses as usize;
        self.left -= accesses;
    }

    fn run(&mut self, mut run: Run<'_>) -> Result<(), DecodeError> {
        self.switch(run.thread);
        if self.evenly(&run) {
            advance(run.block, run.slots, run.complete);
            if run.cut.is_some() {
                derive(run.block, run.slots);
            }
            run.complete = 0;
        }
        for i in 0..run.complete {
            if self.full() {
                return Ok(());
            }
            self.once(&run, None)?;
            step(run.block, run.slots);
            if i + 1 < run.complete || run.cut.is_some() {
                derive(run.block, run.slots);
            }
        }
        match run.cut {
            Some(cut) => self.once(&run, Some(&cut)),
            None => Ok(()),
        }
    }
}

/// Counts accesses without expanding those whose number is known beforehand.
#[derive(Debug)]
pub struct Counter<'x> {
    xsave: &'x XsaveTable,
    /// What was counted apart from `executions`.
    counts: Counts,
    /// Executions by outcome, where only their number matters.
    executions: Vec<Tally>,
    /// Accesses of those.
    accesses: u64,
}

/// How often an execution ended in one way, and the accesses that makes each time.
#[derive(Clone, Copy, Debug)]
struct Tally {
    times: u64,
    accesses: u64,
}

impl<'x> Counter<'x> {
    pub fn new(xsave: &'x XsaveTable) -> Self {
        Counter {
            xsave,
            counts: Counts::default(),
            executions: Vec::new(),
            accesses: 0,
        }
    }

    /// Accesses so far.
    pub fn accesses(&self) -> u64 {
        self.counts.accesses() + self.accesses
    }

    /// The totals so far. `table` is the one the records were decoded with.
    pub fn counts(&self, table: &Table) -> Counts {
        let mut counts = self.counts;
        for (outcome, tally) in table.outcomes().iter().zip(&self.executions) {
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

    fn expect(&mut self, table: &Table) {
        let new = table.outcomes().iter().skip(self.executions.len());
        self.executions.extend(new.map(|outcome| Tally {
            times: 0,
            accesses: outcome.accesses(),
        }));
    }

    #[inline]
    fn ended(&mut self, outcome: u32) {
        let tally = &mut self.executions[outcome as usize];
        tally.times += 1;
        self.accesses += tally.accesses;
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
