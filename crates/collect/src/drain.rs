//! The drain: takes what targets have written, in order, and gives the space back.
//!
//! **Invariants.**
//! - Definitions reach the sink before records that refer to them: those that are there are taken
//!   before a buffer is.
//! - A buffer is zeroed before it is released, and so is a slot before it is freed.
//! - After the first failure nothing more is handed on; targets are told to go on without us.
use crate::define::{define_in, define_path};
use crate::hooks::{Hooks, Mapping};
use crate::mapped::Mapped;
use crate::renamed::Renamed;
use crate::session::{self, Session};
use memtrail_decode::{messages, tail, Counter, Counts, DecodeError, Message, Piece, Sink, Table, Tail, ThreadDecoder};
use memtrail_model::Thread;
use memtrail_plan::XsaveTable;
use memtrail_ring::message::FORKED;
use memtrail_ring::{request, slot_kind, slot_state, Slot as Control, BUFFERS, BUFFER_WORDS};
use memtrail_tracee::Wake;
use memtrail_translate::Options;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

/// How long the drain sleeps if nobody rings. Definitions do not ring: while they come, short
/// naps keep their analysis in step with the target instead of leaving it for the end.
const SHORTEST_NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_millis(20);

/// Why draining ended early.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error("cannot store what was recorded: {0}")]
    Store(#[from] io::Error),
    #[error("the target wrote something that makes no sense: {0}")]
    Corrupt(#[from] DecodeError),
}

/// What the drain saw in all.
#[derive(Debug, Default)]
pub struct Drained {
    pub counts: Counts,
    pub threads: u32,
    pub processes: u32,
    /// Words of records, or words thrown away inside targets.
    pub ring_words: u64,
    /// Times that threads were not recorded.
    pub gaps: u64,
    /// Records dropped because a killed thread may not have finished writing them.
    pub lost_tail: u64,
    pub failure: Option<CollectError>,
}

/// From the drain to the supervisor.
#[derive(Debug)]
pub(crate) enum Note {
    /// A process has shown up.
    Watch { pid: i32 },
    /// Draining has failed.
    Failed,
    /// As many accesses as were wanted have been recorded.
    Enough,
}

/// From the supervisor to the drain.
#[derive(Debug)]
pub(crate) enum Order {
    /// The image of this process is gone (ended, or replaced by exec): close its slots, then
    /// answer.
    Retire { pid: i32, done: Option<Sender<()>> },
    /// Take what is there and end.
    Finish,
}

/// What the drain remembers of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    active: bool,
    owner_pid: i32,
    /// Words of the current definitions buffer already read.
    read: usize,
}

/// What is known of a thread that may write more.
#[derive(Debug)]
struct Counted {
    decoder: ThreadDecoder,
    /// Accesses so far.
    accesses: u64,
    pid: i32,
}

pub(crate) struct Drain<'s, S> {
    session: &'s Session,
    sink: &'s mut S,
    /// Those the target's blocks were translated with.
    options: Options,
    table: Table,
    counter: Counter<'s>,
    seen: Vec<Seen>,
    watched: BTreeSet<i32>,
    decoders: HashMap<u32, Counted>,
    /// Threads that said they end.
    ended: BTreeSet<u32>,
    threads: BTreeSet<u32>,
    processes: BTreeSet<u32>,
    scratch: Vec<u64>,
    renamed: &'s Renamed,
    hooks: Hooks<'s>,
    mapped: Mapped,
    report: Drained,
    next_nap: Duration,
    notes: Sender<Note>,
    wake: Wake,
    /// Accesses after which the supervisor is to be told; taken when it was.
    enough: Option<u64>,
    pids: Pids,
}

/// The process ids of an attached target: in its own pid namespace, which the runtime knows, and in
/// ours.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pids {
    pub inner: i32,
    pub outer: i32,
}

impl Pids {
    /// What we call the process that calls itself `inner`.
    pub fn outer(self, inner: i32) -> i32 {
        if inner == self.inner {
            self.outer
        } else {
            inner
        }
    }
}

impl<'s, S: Sink> Drain<'s, S> {
    pub fn new(
        session: &'s Session,
        options: Options,
        xsave: &'s XsaveTable,
        sink: &'s mut S,
        renamed: &'s Renamed,
        notes: Sender<Note>,
        wake: Wake,
    ) -> Self {
        Drain {
            session,
            sink,
            options,
            table: Table::counting(),
            counter: Counter::new(xsave),
            seen: Vec::new(),
            watched: BTreeSet::new(),
            decoders: HashMap::new(),
            ended: BTreeSet::new(),
            threads: BTreeSet::new(),
            processes: BTreeSet::new(),
            scratch: Vec::with_capacity(BUFFER_WORDS),
            renamed,
            hooks: Hooks::new(session.allocators(), &session.header().next_text),
            mapped: Mapped::default(),
            report: Drained::default(),
            next_nap: SHORTEST_NAP,
            notes,
            wake,
            enough: None,
            pids: Pids::default(),
        }
    }

    /// For a target that was attached to: until how many accesses, and who it is.
    pub fn attached(mut self, enough: Option<u64>, pids: Pids) -> Self {
        self.enough = enough;
        self.pids = pids;
        self.counter.count_gaps();
        self
    }

    /// Runs until told to finish.
    pub fn run(mut self, orders: Receiver<Order>) -> Drained {
        loop {
            let worked = self.pass();
            if worked {
                self.next_nap = SHORTEST_NAP;
            }
            match orders.try_recv() {
                Ok(Order::Retire { pid, done }) => {
                    self.guard(|d| d.retire(pid, done.is_some()));
                    if let Some(done) = done {
                        // The supervisor may have given up waiting; that is its affair.
                        let _ = done.send(());
                    }
                }
                Ok(Order::Finish) | Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) if !worked => self.nap(),
                Err(TryRecvError::Empty) => {}
            }
        }
        self.finish()
    }

    /// Sleeps until a producer or the supervisor rings.
    fn nap(&mut self) {
        let header = self.session.header();
        let bell = header.doorbell.load(Ordering::Acquire);
        header.asleep.store(1, Ordering::SeqCst);
        if self.pass() {
            self.next_nap = SHORTEST_NAP;
        } else {
            session::sleep(&header.doorbell, bell, self.next_nap);
            self.next_nap = (self.next_nap * 2).min(LONGEST_NAP);
        }
        header.asleep.store(0, Ordering::Relaxed);
    }

    /// Does `work` unless draining has failed; the first failure lets all targets go on alone.
    fn guard(&mut self, work: impl FnOnce(&mut Self) -> Result<bool, CollectError>) -> bool {
        if self.report.failure.is_some() {
            return false;
        }
        match work(self) {
            Ok(worked) => worked,
            Err(failure) => {
                self.report.failure = Some(failure);
                self.session.abandon();
                self.note(Note::Failed);
                false
            }
        }
    }

    fn note(&self, note: Note) {
        // A supervisor that is gone needs no notes.
        let _ = self.notes.send(note);
        self.wake.ring();
    }

    /// Looks at every slot once. Returns whether anything was there.
    fn pass(&mut self) -> bool {
        let slots = self.session.slots();
        self.seen.resize(slots.max(self.seen.len()), Seen::default());
        let mut order = Vec::new();
        for slot in 0..slots {
            if self.is_open(slot) {
                let control = self.session.control(slot);
                order.push((oldest(control), slot));
            }
        }
        // A thread whose exec failed goes on in a new slot, while the one before may still be full.
        order.sort_unstable();
        let mut worked = false;
        for (_, slot) in order {
            let control = self.session.control(slot);
            // Looked at only now: if a newer slot of the same thread was seen, this one is closed.
            let state = control.state.load(Ordering::Acquire);
            self.notice(slot, control);
            worked |= self.guard(|d| d.take(slot, control));
            if state == slot_state::CLOSED {
                self.guard(|d| d.close(slot, control, true).map(|()| true));
            }
        }
        worked
    }

    fn is_open(&self, slot: usize) -> bool {
        let state = self.session.control(slot).state.load(Ordering::Acquire);
        state == slot_state::ACTIVE || state == slot_state::CLOSED
    }

    /// Whether a slot other than this one has records of a thread.
    fn goes_on_elsewhere(&self, thread: u32, slot: usize) -> bool {
        (0..self.session.slots()).any(|other| {
            let control = self.session.control(other);
            other != slot
                && self.is_open(other)
                && control.kind.load(Ordering::Relaxed) == slot_kind::DATA
                && control.thread.load(Ordering::Relaxed) == thread
        })
    }

    fn take(&mut self, slot: usize, control: &Control) -> Result<bool, CollectError> {
        if control.kind.load(Ordering::Relaxed) == slot_kind::DEFINITIONS {
            self.take_definitions(slot, control)
        } else {
            self.take_records(slot, control)
        }
    }

    /// First sight of a slot, and requests in it.
    fn notice(&mut self, slot: usize, control: &Control) {
        let pid = control.pid.load(Ordering::Relaxed) as i32;
        if !self.seen[slot].active {
            self.seen[slot] = Seen {
                active: true,
                owner_pid: pid,
                ..Seen::default()
            };
            if self.followed(control) {
                self.count(control);
            }
            if self.watched.insert(pid) {
                self.note(Note::Watch { pid });
            }
        }
        // The supervisor answers. Ringing again until it has costs little; remembering what was
        // asked before would miss the same question asked twice.
        let asked = control.request.load(Ordering::Acquire);
        if asked == request::SEIZE || asked == request::FAILED {
            self.wake.ring();
        }
    }

    fn count(&mut self, control: &Control) {
        let process = control.process.load(Ordering::Relaxed);
        self.processes.insert(process);
        if control.kind.load(Ordering::Relaxed) == slot_kind::DATA {
            self.threads.insert(control.thread.load(Ordering::Relaxed));
        }
    }

    /// Whether this slot's process is recorded. A child that is not followed has slots, too.
    fn followed(&self, control: &Control) -> bool {
        let follow = self.session.header().follow.load(Ordering::Relaxed) == 1;
        follow || control.process.load(Ordering::Relaxed) == 0
    }

    /// Whether the records in this slot are meant for us. Threads that are not recorded write
    /// over their first buffer again and again.
    fn meant_for_us(&self, control: &Control) -> bool {
        let discard = self.session.header().discard.load(Ordering::Relaxed) == 1;
        !discard && self.followed(control)
    }

    fn take_definitions(&mut self, slot: usize, control: &Control) -> Result<bool, CollectError> {
        let mut worked = false;
        // Whoever asks has told of its modules before.
        let asked = control.hooks.asked.load(Ordering::Acquire);
        loop {
            let produced = control.produced.load(Ordering::Acquire);
            let number = control.consumed.load(Ordering::Relaxed);
            let index = (number % BUFFERS as u64) as usize;
            let published = control.buffers[index].words.load(Ordering::Acquire) as usize;
            let (from, to) = (self.seen[slot].read, published.min(BUFFER_WORDS));
            if to > from {
                worked = true;
                let words = copy(&self.session.buffer(slot, index)[from..to], Vec::new());
                self.learn(slot, control, &words)?;
                self.seen[slot].read = to;
            }
            if number >= produced {
                self.hooks.answer(slot, asked, &control.hooks);
                return Ok(worked);
            }
            worked = true;
            self.release(slot, control, index, to);
            self.seen[slot].read = 0;
        }
    }

    fn learn(&mut self, slot: usize, control: &Control, words: &[u64]) -> Result<(), CollectError> {
        let process = control.process.load(Ordering::Relaxed);
        let known = self.table.blocks().len();
        for message in messages(words) {
            let message = self.renamed.renamed(process, message?);
            match &message {
                Message::Block { id, pc, code } => {
                    let image = self.mapped.image(process, *pc);
                    define_in(&mut self.table, &self.options, image, *id, *pc, code)?;
                    continue;
                }
                Message::Path { id, stretches, code } => {
                    let mut image = |pc| self.mapped.image(process, pc);
                    define_path(&mut self.table, &self.options, *id, stretches, code, &mut image)?;
                    continue;
                }
                Message::Thread { thread, .. } => {
                    self.threads.insert(*thread);
                }
                Message::ThreadEnd { thread, .. } => {
                    self.ended.insert(*thread);
                }
                Message::Process {
                    process, parent, how, ..
                } => {
                    self.processes.insert(*process);
                    self.mapped.begins(*process, (*how == FORKED).then_some(*parent));
                }
                Message::Warn { text } => self.sink.warning(text),
                _ => {}
            }
            self.sink.message(process, &message)?;
            if let Message::Map {
                addr,
                len,
                offset,
                path,
                ..
            } = &message
            {
                let mapping = Mapping {
                    pid: self.pids.outer(control.pid.load(Ordering::Relaxed) as i32) as u32,
                    addr: *addr,
                    len: *len,
                    offset: *offset,
                    path,
                };
                for message in self.mapped.map(process, &mapping) {
                    self.table.learn(&message)?;
                    self.sink.message(process, &message)?;
                }
                for message in self.hooks.mapped(slot, &mapping) {
                    self.sink.message(process, &message)?;
                }
            }
        }
        match &self.table.blocks()[known..] {
            [] => Ok(()),
            new => Ok(self.sink.blocks(new)?),
        }
    }

    fn take_all_definitions(&mut self) -> Result<(), CollectError> {
        let slots = self.session.slots();
        self.seen.resize(slots.max(self.seen.len()), Seen::default());
        for slot in 0..slots {
            let control = self.session.control(slot);
            let state = control.state.load(Ordering::Acquire);
            let ours = state == slot_state::ACTIVE || state == slot_state::CLOSED;
            if ours && control.kind.load(Ordering::Relaxed) == slot_kind::DEFINITIONS {
                // A slot met here first must count as seen, or it would be read again from its
                // start.
                self.notice(slot, control);
                self.take_definitions(slot, control)?;
            }
        }
        Ok(())
    }

    fn take_records(&mut self, slot: usize, control: &Control) -> Result<bool, CollectError> {
        // Not more than is there now: a fast thread must not keep us from the others.
        let produced = control.produced.load(Ordering::Acquire);
        let consumed = control.consumed.load(Ordering::Relaxed);
        for number in consumed..produced {
            let words = self.take_buffer(slot, control, number)?;
            self.release(slot, control, (number % BUFFERS as u64) as usize, words);
        }
        Ok(consumed < produced)
    }

    /// Hands on a submitted buffer; returns its words.
    fn take_buffer(&mut self, slot: usize, control: &Control, number: u64) -> Result<usize, CollectError> {
        let index = (number % BUFFERS as u64) as usize;
        let words = control.buffers[index].words.load(Ordering::Relaxed) as usize;
        let words = words.min(BUFFER_WORDS);
        let scratch = std::mem::take(&mut self.scratch);
        let copied = copy(&self.session.buffer(slot, index)[..words], scratch);
        // A block is defined before its first record is written, so what is in the buffer is
        // defined by now.
        self.take_all_definitions()?;
        self.hand_on(control, index, &copied)?;
        self.scratch = copied;
        Ok(words)
    }

    fn hand_on(&mut self, control: &Control, index: usize, words: &[u64]) -> Result<(), CollectError> {
        let thread = control.thread.load(Ordering::Relaxed);
        let before = self.counter.accesses();
        let counted = self.decoders.entry(thread).or_insert_with(|| Counted {
            decoder: ThreadDecoder::new(Thread(thread)),
            accesses: 0,
            pid: 0,
        });
        counted.pid = control.pid.load(Ordering::Relaxed) as i32;
        let state = counted.decoder.state();
        self.counter.forget_leaves();
        let end = counted.decoder.feed_some(&self.table, words, &mut self.counter)?;
        if end == 0 {
            return Ok(());
        }
        self.report.ring_words += end as u64;
        let accesses = self.counter.accesses() - before;
        let first = counted.accesses;
        counted.accesses += accesses;
        if self.enough.is_some_and(|n| self.counter.accesses() >= n) {
            self.enough = None;
            self.note(Note::Enough);
        }
        let head = &control.buffers[index];
        let begin = head.begin.load(Ordering::Relaxed);
        self.sink.records(&Piece {
            thread: Thread(thread),
            process: control.process.load(Ordering::Relaxed),
            begin,
            end: head.end.load(Ordering::Relaxed).max(begin),
            first,
            accesses,
            state: &state,
            words: &words[..end],
            leaves: self.counter.leaves(),
        })?;
        Ok(())
    }

    /// Zeroes a buffer and gives it back. Behind the words that count there may be the beginning
    /// of a record that the producer is just moving to its next buffer: that is the producer's to
    /// zero, and must not be touched here.
    fn release(&self, slot: usize, control: &Control, index: usize, words: usize) {
        zero(&self.session.buffer(slot, index)[..words]);
        reset_head(control, index);
        // In one order with `waiting`: a producer that sees no room after it said that it waits must
        // be seen to wait here.
        control.consumed.fetch_add(1, Ordering::SeqCst);
        control.space.fetch_add(1, Ordering::SeqCst);
        if control.waiting.load(Ordering::SeqCst) != 0 {
            session::wake(&control.space);
        }
    }

    /// Closes all slots of an image that will never write again. After an exec its threads may go
    /// on in the next.
    fn retire(&mut self, pid: i32, exec: bool) -> Result<bool, CollectError> {
        self.pass();
        for definitions in [true, false] {
            for slot in 0..self.seen.len() {
                let control = self.session.control(slot);
                let kind = control.kind.load(Ordering::Relaxed);
                let seen = &self.seen[slot];
                let wanted = (kind == slot_kind::DEFINITIONS) == definitions;
                if seen.active && seen.owner_pid == pid && wanted {
                    self.take(slot, control)?;
                    self.close(slot, control, false)?;
                }
            }
        }
        if !exec {
            let of_pid = |(&thread, counted): (&u32, &Counted)| (counted.pid == pid).then_some(thread);
            let gone: Vec<u32> = self.decoders.iter().filter_map(of_pid).collect();
            gone.into_iter().try_for_each(|thread| self.end(thread))?;
        }
        self.watched.remove(&pid);
        Ok(true)
    }

    /// Takes the rest of a slot and frees it. `by_itself`: the producer closed it, so what it wrote
    /// is complete. Unless the thread has said that it ends, records may follow from another slot:
    /// it execs.
    fn close(&mut self, slot: usize, control: &Control, by_itself: bool) -> Result<(), CollectError> {
        self.take(slot, control)?;
        if control.kind.load(Ordering::Relaxed) == slot_kind::DATA {
            let produced = control.produced.load(Ordering::Acquire);
            self.take_rest(slot, control, produced, by_itself)?;
            let thread = control.thread.load(Ordering::Relaxed);
            if self.ended.contains(&thread) && !self.goes_on_elsewhere(thread, slot) {
                self.end(thread)?;
            }
        }
        // A thread that closed its slot left only what was just read; one that died may have left
        // anything, and its memory is better given back.
        let tidy = by_itself && self.meant_for_us(control);
        let emptied = tidy && self.zero_rest(slot, control);
        if !emptied {
            self.session.clear(slot)?;
        }
        self.free(slot, control);
        Ok(())
    }

    /// No more records of this thread will come.
    fn end(&mut self, thread: u32) -> Result<(), CollectError> {
        self.ended.remove(&thread);
        if let Some(mut counted) = self.decoders.remove(&thread) {
            counted.decoder.finish(&self.table, &mut self.counter)?;
        }
        Ok(self.sink.ended(Thread(thread))?)
    }

    /// Zeroes the buffer that was being written. False if this is not the whole of it.
    fn zero_rest(&self, slot: usize, control: &Control) -> bool {
        if control.kind.load(Ordering::Relaxed) != slot_kind::DATA {
            return false;
        }
        let index = (control.produced.load(Ordering::Acquire) % BUFFERS as u64) as usize;
        let buffer = self.session.buffer(slot, index);
        zero(&buffer[..written(buffer, 0).len()]);
        true
    }

    /// The buffer that was being written. Read twice: the first look decides how far records are
    /// whole, the second sees at least that much even if the thread still runs.
    fn take_rest(&mut self, slot: usize, control: &Control, number: u64, by_itself: bool) -> Result<(), CollectError> {
        if !self.meant_for_us(control) {
            return Ok(());
        }
        let index = (number % BUFFERS as u64) as usize;
        let complete = control.buffers[index].words.load(Ordering::Acquire) as usize;
        let buffer = self.session.buffer(slot, index);
        let first = written(buffer, complete.min(BUFFER_WORDS));
        let complete = if by_itself { BUFFER_WORDS } else { complete };
        self.take_all_definitions()?;
        let Tail { keep, lost } = tail(&self.table, &first, complete.min(BUFFER_WORDS))?;
        self.report.lost_tail += lost;
        let second = copy(&buffer[..keep], first);
        self.hand_on(control, index, &second)
    }

    /// Makes a slot, whose buffers are zero, as new.
    fn free(&mut self, slot: usize, control: &Control) {
        for index in 0..BUFFERS {
            reset_head(control, index);
        }
        for field in [
            &control.kind,
            &control.pid,
            &control.tid,
            &control.process,
            &control.thread,
            &control.space,
            &control.waiting,
            &control.request,
            &control.request_tid,
            &control.hooks.asked,
            &control.hooks.answered,
        ] {
            field.store(0, Ordering::Relaxed);
        }
        control.produced.store(0, Ordering::Relaxed);
        control.consumed.store(0, Ordering::Relaxed);
        self.seen[slot] = Seen::default();
        self.hooks.forget(slot);
        control.state.store(slot_state::FREE, Ordering::Release);
    }

    /// The last look: everything that can still be taken, then the totals.
    fn finish(mut self) -> Drained {
        self.pass();
        for definitions in [true, false] {
            for slot in 0..self.seen.len() {
                let control = self.session.control(slot);
                let kind = control.kind.load(Ordering::Relaxed);
                if self.seen[slot].active && (kind == slot_kind::DEFINITIONS) == definitions {
                    self.guard(|d| d.last(slot, control).map(|()| true));
                }
            }
        }
        let decoders = std::mem::take(&mut self.decoders);
        for mut counted in decoders.into_values() {
            self.guard(|d| {
                counted.decoder.finish(&d.table, &mut d.counter)?;
                Ok(true)
            });
        }
        self.report.counts = self.counter.counts(&self.table);
        self.report.gaps = self.counter.gaps();
        self.report.threads = self.threads.len() as u32;
        self.report.processes = self.processes.len() as u32;
        let header = self.session.header();
        self.report.ring_words += header.discarded_words.load(Ordering::Relaxed);
        self.report
    }

    /// As [`Drain::close`], but leaves the slot alone: its owner may still run. Since nothing is
    /// released, the buffers looked at stay as they are, and what follows them is not begun.
    fn last(&mut self, slot: usize, control: &Control) -> Result<(), CollectError> {
        if control.kind.load(Ordering::Relaxed) == slot_kind::DEFINITIONS {
            return self.take_definitions(slot, control).map(|_| ());
        }
        let produced = control.produced.load(Ordering::Acquire);
        let consumed = control.consumed.load(Ordering::Relaxed);
        for number in consumed..produced {
            self.take_buffer(slot, control, number)?;
        }
        if produced.saturating_sub(consumed) < BUFFERS as u64 {
            self.take_rest(slot, control, produced, false)?;
        }
        Ok(())
    }
}

/// When the oldest buffer that a slot holds was begun.
fn oldest(control: &Control) -> u64 {
    let number = control.consumed.load(Ordering::Relaxed);
    let index = (number % BUFFERS as u64) as usize;
    control.buffers[index].begin.load(Ordering::Relaxed)
}

fn copy(words: &[AtomicU64], mut into: Vec<u64>) -> Vec<u64> {
    into.clear();
    into.extend(words.iter().map(|w| w.load(Ordering::Relaxed)));
    into
}

fn zero(words: &[AtomicU64]) {
    for word in words {
        word.store(0, Ordering::Relaxed);
    }
}

/// What has been written of a buffer, at least `complete` words. Looks no further than it must:
/// reading a page of shared memory that was never written makes one. No record is longer than a
/// page, so two pages of zeros cannot lie inside records.
fn written(buffer: &[AtomicU64], complete: usize) -> Vec<u64> {
    const PAGE_WORDS: usize = memtrail_ring::PAGE / 8;
    const _: () = assert!(memtrail_ring::MAX_RECORD_WORDS <= PAGE_WORDS);
    let mut words = Vec::new();
    let mut empty = 0;
    for page in buffer.chunks(PAGE_WORDS) {
        let begin = words.len();
        words.extend(page.iter().map(|w| w.load(Ordering::Relaxed)));
        let zeros = words[begin..].iter().all(|&w| w == 0);
        empty = if zeros { empty + 1 } else { 0 };
        if empty == 2 && words.len() > complete {
            break;
        }
    }
    words
}

fn reset_head(control: &Control, index: usize) {
    let head = &control.buffers[index];
    head.words.store(0, Ordering::Relaxed);
    head.begin.store(0, Ordering::Relaxed);
    head.end.store(0, Ordering::Relaxed);
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
