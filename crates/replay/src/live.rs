//! Accesses while the program runs: what is drained is decoded at once and handed to a sink, and
//! nothing is stored.
//!
//! **Problem.** The drain must not wait for a simulator, threads' buffers come whole and one after
//! the other, and a thread that sleeps for an hour holds back a buffer that it began an hour ago.
//!
//! **Idea.** A thread of its own decodes, fed through a queue of [`QUEUE`] buffers; the target
//! waits when that is full. Pieces wait per thread. As in [`interleave`](crate::interleave()), a
//! piece's accesses are spread evenly between its two time stamps, cut into slices of [`SLICE`],
//! and the slice whose first access is the earliest goes first, the lower thread number where times
//! are equal. It may go when
//! - every thread that has begun and not ended has a piece waiting, so that nothing earlier can
//!   come, or
//! - more than [`MOST_WAITING`] words wait (64 MB), or all has come.
//!
//! So the order is that of the time stamps as long as no thread takes longer to fill a buffer (512
//! KB) than the others take to fill 64 MB. A piece that comes later than that is handed on at once,
//! behind what happened after it. A thread that was killed by another thread's exec is taken for
//! one that sleeps.
//!
//! **Invariants.** Each thread's accesses come in order, all of them, whatever the times. While
//! only one thread lives, its loops are offered whole. Memory is bounded by the queue,
//! [`MOST_WAITING`], and a decoder for each thread that lives.
use crate::interleave::{Segment, SLICE};
use memtrail_decode::{Block, DecodeError, Definition, Expander, Fed, Message, Piece, Sink, Table, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Event, Reply, Thread, Wants};
use memtrail_plan::XsaveTable;
use memtrail_ring::message::FORKED;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::thread::{Builder, JoinHandle};

/// Buffers between the drain and the thread that decodes.
const QUEUE: usize = 16;
/// Words that wait for their turn.
const MOST_WAITING: usize = 8 << 20;

/// What the drain passes on.
enum Item {
    Blocks(Vec<Definition>),
    Message(u32, Message),
    Piece(Waiting),
    Ended(Thread),
}

/// A piece that waits for its turn.
struct Waiting {
    thread: Thread,
    process: u32,
    segment: Segment,
    words: Vec<u64>,
}

/// What is left when the program has ended.
#[derive(Debug)]
pub struct Lived<S> {
    pub sink: S,
    pub table: Table,
    /// What processes told, with the serial number of the process, but for blocks.
    pub messages: Vec<(u32, Message)>,
}

type Worker<S> = JoinHandle<Result<Lived<S>, DecodeError>>;

/// Drives an [`AccessSink`] with what a collector drains.
pub struct Live<S: AccessSink + Send + 'static> {
    /// What the worker is started with.
    start: Option<(Table, XsaveTable, S)>,
    running: Option<(SyncSender<Item>, Worker<S>)>,
    used: Option<Receiver<Vec<u64>>>,
}

impl<S: AccessSink + Send + 'static> Live<S> {
    /// If the sink wants fetches, the table numbers them.
    pub fn new(xsave: XsaveTable, sink: S) -> Live<S> {
        let mut table = Table::default();
        if sink.wants().fetches {
            table.number_fetches();
        }
        Live {
            start: Some((table, xsave, sink)),
            running: None,
            used: None,
        }
    }

    /// Starts the worker from the thread that drains, whose signal mask it must have.
    fn running(&mut self) -> io::Result<&(SyncSender<Item>, Worker<S>)> {
        if let Some((table, xsave, sink)) = self.start.take() {
            let (items, queue) = sync_channel(QUEUE);
            let (back, used) = channel();
            let work = move || work(table, &xsave, sink, &queue, &back);
            let worker = Builder::new().name("live".into()).spawn(work)?;
            self.running = Some((items, worker));
            self.used = Some(used);
        }
        self.running
            .as_ref()
            .ok_or_else(|| io::Error::other("decoding has ended"))
    }

    fn send(&mut self, item: Item) -> io::Result<()> {
        if self.running()?.0.send(item).is_ok() {
            return Ok(());
        }
        // The worker ends early only if it fails.
        match self.running.take().map(|(_, worker)| worker.join()) {
            Some(Ok(Err(error))) => Err(io::Error::other(error)),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => Err(io::Error::other("decoding has ended")),
        }
    }

    /// Everything has been drained: hands on what still waits.
    pub fn finish(mut self) -> io::Result<Lived<S>> {
        self.running()?;
        let Some((items, worker)) = self.running.take() else {
            return Err(io::Error::other("decoding has ended"));
        };
        drop(items);
        match worker.join() {
            Ok(lived) => lived.map_err(io::Error::other),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl<S: AccessSink + Send + 'static> Sink for Live<S> {
    fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
        self.send(Item::Blocks(blocks.iter().map(Block::definition).collect()))
    }

    fn message(&mut self, process: u32, message: &Message) -> io::Result<()> {
        self.send(Item::Message(process, message.clone()))
    }

    fn records(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        let used = self.used.as_ref().and_then(|used| used.try_recv().ok());
        let mut words = used.unwrap_or_default();
        words.clear();
        words.extend_from_slice(piece.words);
        self.send(Item::Piece(Waiting {
            thread: piece.thread,
            process: piece.process,
            segment: Segment {
                begin: piece.begin,
                end: piece.end,
                accesses: piece.accesses,
            },
            words,
        }))
    }

    fn ended(&mut self, thread: Thread) -> io::Result<()> {
        self.send(Item::Ended(thread))
    }
}

/// The sink, for the expanders of all threads.
struct Shared<S> {
    sink: Rc<RefCell<S>>,
    /// Only one thread lives.
    alone: Rc<Cell<bool>>,
    /// Forked processes that the sink has not been told of, with their parents.
    forks: Rc<RefCell<BTreeMap<u32, u32>>>,
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Shared {
            sink: self.sink.clone(),
            alone: self.alone.clone(),
            forks: self.forks.clone(),
        }
    }
}

impl<S: AccessSink> AccessSink for Shared<S> {
    fn accesses(&mut self, batch: &[Access]) {
        self.sink.borrow_mut().accesses(batch);
    }
    fn wants(&self) -> Wants {
        let wants = self.sink.borrow().wants();
        Wants {
            loops: wants.loops.filter(|_| self.alone.get()),
            repeats: false,
            ..wants
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::ForkCall { child, .. } => {
                child.into_iter().for_each(|child| self.fork(child));
                Reply::NOTHING
            }
            other => self.sink.borrow_mut().event(other),
        }
    }
    fn done(&self) -> bool {
        self.sink.borrow().done()
    }
}

impl<S: AccessSink> Shared<S> {
    /// Tells of a fork, if it has not been told: when the parent's records come to it, or when the
    /// child's first do.
    fn fork(&self, child: u32) {
        let parent = self.forks.borrow_mut().remove(&child);
        if let Some(parent) = parent {
            self.sink.borrow_mut().event(Event::Fork { parent, child });
        }
    }
}

/// A thread that lives, or has pieces waiting.
struct Running<'x, S: AccessSink> {
    decoder: ThreadDecoder,
    expander: Expander<'x, Shared<S>>,
    /// In order. Of the first, so many words and accesses are done.
    pieces: VecDeque<Waiting>,
    words: usize,
    accesses: u64,
    /// The address space its accesses were last said to be in.
    space: Option<u32>,
    ended: bool,
}

impl<S: AccessSink> Running<'_, S> {
    /// When its next slice is due.
    fn due(&self) -> Option<u64> {
        self.pieces.front().map(|p| p.segment.time(self.accesses))
    }

    /// Decodes the first piece on until the expander is full or the piece is used up.
    fn feed(&mut self, table: &Table) -> Result<(), DecodeError> {
        let Some(piece) = self.pieces.front() else {
            return Ok(());
        };
        if self.expander.full() {
            return Ok(());
        }
        let words = &piece.words[self.words..];
        match self.decoder.feed_known(table, words, &mut self.expander)? {
            Fed::End(_) => self.words = piece.words.len(),
            Fed::Full(n) => self.words += n,
            Fed::Unknown { id, .. } => return Err(DecodeError::UnknownBlock { id }),
        }
        Ok(())
    }

    /// Hands on a slice of the first piece, or all that is left of it; returns the piece if it is
    /// used up.
    fn advance(&mut self, table: &Table, whole: bool) -> Result<Option<Waiting>, DecodeError> {
        let Some(piece) = self.pieces.front() else {
            return Ok(None);
        };
        if self.space != Some(piece.process) {
            self.space = Some(piece.process);
            let shared = self.expander.flush();
            shared.fork(piece.process);
            let (thread, space) = (piece.thread, piece.process);
            shared.sink.borrow_mut().event(Event::Space { thread, space });
        }
        let left = piece.segment.accesses - self.accesses;
        let last = whole || left <= SLICE;
        self.expander.refill(table, if last { u64::MAX } else { SLICE })?;
        self.feed(table)?;
        self.expander.flush();
        if !last {
            self.accesses += SLICE;
            return Ok(None);
        }
        self.expander.set_limit(0);
        (self.words, self.accesses) = (0, 0);
        Ok(self.pieces.pop_front())
    }

    /// Nothing follows the last record.
    fn finish(&mut self, table: &Table) -> Result<(), DecodeError> {
        self.expander.set_limit(u64::MAX);
        self.decoder.finish(table, &mut self.expander)?;
        self.expander.flush();
        Ok(())
    }
}

struct Threads<'x, S: AccessSink> {
    xsave: &'x XsaveTable,
    shared: Shared<S>,
    running: BTreeMap<u32, Running<'x, S>>,
    /// Those with pieces, by the time their next slice is due.
    due: BTreeSet<(u64, u32)>,
    /// Words in all pieces.
    waiting: usize,
}

impl<'x, S: AccessSink> Threads<'x, S> {
    fn of(&mut self, thread: Thread) -> &mut Running<'x, S> {
        let (xsave, shared) = (self.xsave, &self.shared);
        self.running.entry(thread.0).or_insert_with(|| Running {
            decoder: ThreadDecoder::new(thread),
            expander: Expander::new(xsave, shared.clone()).with_limit(0),
            pieces: VecDeque::new(),
            words: 0,
            accesses: 0,
            space: None,
            ended: false,
        })
    }

    fn add(&mut self, piece: Waiting) {
        self.waiting += piece.words.len();
        let thread = piece.thread;
        let running = self.of(thread);
        running.pieces.push_back(piece);
        if running.pieces.len() == 1 {
            let due = running.due().unwrap_or(0);
            self.due.insert((due, thread.0));
        }
    }

    fn end(&mut self, thread: Thread, table: &Table) -> Result<(), DecodeError> {
        let Some(running) = self.running.get_mut(&thread.0) else {
            return Ok(());
        };
        running.ended = true;
        self.bury(thread.0, table)
    }

    /// Forgets a thread that has ended and has nothing waiting.
    fn bury(&mut self, thread: u32, table: &Table) -> Result<(), DecodeError> {
        let over = |r: &&mut Running<'x, S>| r.ended && r.pieces.is_empty();
        if let Some(running) = self.running.get_mut(&thread).filter(over) {
            running.finish(table)?;
            self.running.remove(&thread);
        }
        Ok(())
    }

    /// Whether the earliest slice may go.
    fn is_ready(&self) -> bool {
        let silent = self.running.len() - self.due.len();
        silent == 0 || self.waiting > MOST_WAITING
    }

    /// Hands on what may go; with `all`, everything.
    fn advance(&mut self, table: &Table, back: &Sender<Vec<u64>>, all: bool) -> Result<(), DecodeError> {
        while all || self.is_ready() {
            let Some((_, thread)) = self.due.pop_first() else {
                break;
            };
            let alone = self.running.len() == 1;
            self.shared.alone.set(alone);
            let Some(running) = self.running.get_mut(&thread) else {
                break;
            };
            let used = running.advance(table, alone)?;
            if let Some(due) = running.due() {
                self.due.insert((due, thread));
            }
            if let Some(piece) = used {
                self.waiting -= piece.words.len();
                // The drain may have ended, and needs no more room.
                let _ = back.send(piece.words);
                self.bury(thread, table)?;
            }
        }
        Ok(())
    }
}

/// The body of the thread that decodes.
fn work<S: AccessSink>(
    mut table: Table,
    xsave: &XsaveTable,
    sink: S,
    queue: &Receiver<Item>,
    back: &Sender<Vec<u64>>,
) -> Result<Lived<S>, DecodeError> {
    let sink = Rc::new(RefCell::new(sink));
    let mut messages = Vec::new();
    let mut threads = Threads {
        xsave,
        shared: Shared {
            sink: sink.clone(),
            alone: Rc::default(),
            forks: Rc::default(),
        },
        running: BTreeMap::new(),
        due: BTreeSet::new(),
        waiting: 0,
    };
    for item in queue {
        match item {
            Item::Blocks(blocks) => {
                for block in blocks {
                    table.insert_definition(block)?;
                }
            }
            Item::Message(process, message) => {
                match &message {
                    Message::Thread { thread, .. } => drop(threads.of(Thread(*thread))),
                    Message::Process {
                        process,
                        parent,
                        how: FORKED,
                        ..
                    } => drop(threads.shared.forks.borrow_mut().insert(*process, *parent)),
                    _ => {}
                }
                table.learn(&message)?;
                messages.push((process, message));
            }
            // Who has enough gets no more.
            Item::Piece(_) if threads.shared.done() => {}
            Item::Piece(piece) => threads.add(piece),
            Item::Ended(thread) => threads.end(thread, &table)?,
        }
        threads.advance(&table, back, false)?;
    }
    threads.advance(&table, back, true)?;
    for running in threads.running.values_mut() {
        running.finish(&table)?;
    }
    drop(threads);
    match Rc::try_unwrap(sink) {
        Ok(sink) => Ok(Lived {
            sink: sink.into_inner(),
            table,
            messages,
        }),
        Err(_) => unreachable!("all expanders are gone"),
    }
}
