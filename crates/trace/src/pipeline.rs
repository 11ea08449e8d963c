//! Compressing while the program runs, on all cores, to the same bytes whatever their number.
//!
//! ```text
//! drain ──events─► pieces ──► fold (workers) ──► stitch, cut to chunks (scribe) ──► encode (workers) ──► file (scribe)
//! ```
//! The drain thread makes events of words, while they are in its cache, until a piece is full.
//! Workers fold pieces and encode chunks. One thread, the *scribe*, does what must be done in
//! order: it stitches the folded pieces of each thread, decides where chunks end, and writes.
//! Everything that reaches it carries a ticket, given in the order of the drain, and is dealt with
//! in that order ([`Sequencer`]); decisions depend on nothing else.
//!
//! **Bounded.** Words that are being collected, words in flight and folded events that wait for
//! their chunk each have a limit. Over the first, the longest piece is cut early; over the third,
//! the longest chunk; over the second the drain waits, and with it the target.
use crate::leaves::{Kinds, Leaves, Numbers};
use crate::stream::{add_stamp, encode, Encoding, Stamp, Stream};
use crate::writer::Writer;
use crate::{StreamHead, ThreadHash, Totals};
use memtrail_decode::{Block, Message, Piece, Sink};
use memtrail_descriptor::{fold, stitch, Events, Folder};
use memtrail_sequencer::Sequencer;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Words of a piece. Predictions begin anew with each, so that long ones compress better; workers
/// need about 50 bytes of memory per word.
const PIECE_WORDS: usize = 1 << 20;
/// Events and parameters that make a chunk.
const CHUNK_EVENTS: usize = PIECE_WORDS / 2;
/// Time stamp ticks after which a chunk ends in any case: what a killed collector may lose.
const CHUNK_TICKS: u64 = 1 << 35;
/// Emptied vectors that are kept of each kind.
const SPARES: usize = 4;
/// What one worker needs.
const WORKER_BYTES: usize = 56 << 20;

/// How much memory and how many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub bytes: usize,
    pub workers: usize,
}

impl Limits {
    pub const DEFAULT_BYTES: usize = 256 << 20;
    /// Less than this does not do.
    pub const LEAST_BYTES: usize = 96 << 20;

    /// As many workers as there are cores, and as fit into the memory.
    pub fn of(bytes: usize) -> Limits {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let bytes = bytes.max(Limits::LEAST_BYTES);
        Limits {
            bytes,
            workers: cores.min(bytes / 2 / WORKER_BYTES).max(1),
        }
    }
    /// Words that may be collected in unfinished pieces.
    fn open(&self) -> usize {
        self.bytes / 64
    }
    /// Words of pieces and chunks that wait for a worker or are with one.
    fn in_flight(&self) -> usize {
        (self.bytes / 64).max(PIECE_WORDS)
    }
    /// Folded events and parameters that wait for their chunk's end.
    fn folded(&self) -> usize {
        self.bytes / 128
    }
}

/// A stretch of a thread's records.
struct Raw {
    head: StreamHead,
    stream: Stream,
    /// Those that are not events yet. Looking up leaves takes more memory than every one of many
    /// threads can have.
    words: Option<Vec<u64>>,
    kinds: Kinds,
}

impl Raw {
    fn words(&self) -> usize {
        self.head.words as usize
    }
}

/// A thread's chunk in the making.
struct Open {
    head: StreamHead,
    stream: Stream,
}

impl Open {
    fn size(&self) -> usize {
        self.stream.events.size()
    }

    /// Adds the next piece of the thread.
    fn add(&mut self, head: &StreamHead, more: Stream, folder: &mut Folder) {
        let begin = Stamp {
            accesses: 0,
            tsc: self.head.begin,
        };
        let base = self.head.accesses;
        let first = Stamp {
            accesses: base,
            tsc: head.begin.max(self.head.begin),
        };
        let later = more.stamps.iter().map(|s| Stamp {
            accesses: base + s.accesses,
            tsc: s.tsc,
        });
        for stamp in std::iter::once(first).chain(later) {
            add_stamp(&mut self.stream.stamps, begin, stamp);
        }
        stitch(&mut self.stream.events, more.events, folder);
        if self.stream.events.is_sparse() {
            self.stream.events = self.stream.events.compacted();
        }
        self.head.words += head.words;
        self.head.accesses += head.accesses;
        self.head.end = head.end.max(self.head.end);
    }
}

enum Job {
    Fold(u64, Raw, Leaves),
    Encode(u64, Open, Leaves),
}

/// What the scribe deals with, in order of tickets.
enum Post {
    Blocks(Vec<Block>),
    Message(u32, Message),
    Folded(Box<(StreamHead, Stream, Leaves)>),
    Finish,
}

/// What the drain, the workers and the scribe share.
#[derive(Default)]
struct Shared {
    sequencer: Sequencer<Job, Post, Encoded, io::Error>,
    /// Emptied, to be filled again: fresh memory costs more than all the rest.
    spare_events: Mutex<Vec<Events>>,
    written: AtomicU64,
}

impl Shared {
    fn spare_events(&self) -> MutexGuard<'_, Vec<Events>> {
        self.spare_events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self, mut events: Events) {
        events.clear();
        events.dictionary.clear();
        let mut spares = self.spare_events();
        if spares.len() < SPARES {
            spares.push(events);
        }
    }
}

/// A [`Sink`] that compresses what is recorded and writes it to a file.
pub struct Pipeline<W: Write + Send + 'static> {
    shared: Arc<Shared>,
    limits: Limits,
    leaves: Leaves,
    numbers: Numbers,
    /// Emptied, to be filled again.
    spare_kinds: Vec<Kinds>,
    ticket: u64,
    open: HashMap<u32, Raw>,
    open_words: usize,
    /// Until the threads are started.
    writer: Option<Writer<W>>,
    workers: Vec<JoinHandle<()>>,
    scribe: Option<JoinHandle<Writer<W>>>,
}

impl<W: Write + Send + 'static> Pipeline<W> {
    /// Threads are started by the first that calls it as a [`Sink`], and have its signal mask: a
    /// thread that does not block what the collector waits for would swallow it.
    pub fn new(writer: Writer<W>, limits: Limits) -> Pipeline<W> {
        let shared = Arc::new(Shared::default());
        shared.written.store(writer.written(), Ordering::Relaxed);
        Pipeline {
            shared,
            limits,
            leaves: Leaves::default(),
            numbers: Numbers::default(),
            spare_kinds: Vec::new(),
            ticket: 0,
            open: HashMap::new(),
            open_words: 0,
            writer: Some(writer),
            workers: Vec::new(),
            scribe: None,
        }
    }

    fn start(&mut self) -> io::Result<()> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        for _ in 0..self.limits.workers.max(1) {
            let shared = self.shared.clone();
            self.workers.push(spawn("fold and encode", move || work(&shared))?);
        }
        let scribe = Scribe {
            shared: self.shared.clone(),
            writer,
            limits: self.limits,
            chunks: BTreeMap::new(),
            size: 0,
            folder: Folder::default(),
            next: 0,
            ticket: 0,
            encoded: BTreeMap::new(),
            orders: VecDeque::new(),
        };
        self.scribe = Some(spawn("write", move || scribe.run())?);
        Ok(())
    }

    /// Bytes in the file so far.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    fn ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket - 1
    }

    fn check(&self) -> io::Result<()> {
        let failed_before = || io::Error::other("writing has failed before");
        let checked = self.shared.sequencer.check();
        checked.map_err(|error| error.unwrap_or_else(failed_before))
    }

    /// Hands the words of a thread to the workers; waits while too many are in flight.
    fn cut(&mut self, thread: u32) -> io::Result<()> {
        let Some(mut raw) = self.open.remove(&thread) else {
            return Ok(());
        };
        if self.spare_kinds.len() < SPARES && raw.words.is_none() {
            let mut kinds = std::mem::take(&mut raw.kinds);
            kinds.clear();
            self.spare_kinds.push(kinds);
        }
        self.open_words -= raw.words();
        let (ticket, words) = (self.ticket(), raw.words());
        let job = Job::Fold(ticket, raw, self.leaves.clone());
        self.shared.sequencer.submit(job, words, self.limits.in_flight());
        self.check()
    }

    fn cut_all(&mut self) -> io::Result<()> {
        let mut threads: Vec<u32> = self.open.keys().copied().collect();
        threads.sort_unstable();
        threads.into_iter().try_for_each(|thread| self.cut(thread))
    }

    /// Everything has come: writes what is left, without the totals. Returns the writer even if
    /// something failed.
    fn close(&mut self) -> (Option<Writer<W>>, io::Result<()>) {
        if self.writer.is_some() {
            return (self.writer.take(), Ok(()));
        }
        let mut result = self.cut_all();
        let ticket = self.ticket();
        self.shared.sequencer.post(ticket, Post::Finish);
        let writer = self.scribe.take().and_then(|s| s.join().ok());
        self.shared.sequencer.end();
        let panicked = self.workers.drain(..).filter_map(|w| w.join().err()).count() > 0;
        if panicked {
            result = result.and(Err(io::Error::other("a worker has failed")));
        }
        (writer, result.and_then(|()| self.check()))
    }

    /// Writes what is left, the index and the totals. Returns the size of the file.
    pub fn finish(self, totals: &Totals) -> io::Result<(W, u64)> {
        self.finish_verified(totals, None)
    }

    /// As [`Pipeline::finish`], with the hashes of all threads' accesses if they are known.
    pub fn finish_verified(mut self, totals: &Totals, hashes: Option<&[ThreadHash]>) -> io::Result<(W, u64)> {
        let (writer, result) = self.close();
        result?;
        let writer = writer.ok_or_else(|| io::Error::other("the writer has failed"))?;
        writer.finish_verified(totals, hashes)
    }

    /// Recording has failed: writes what is left as far as that goes. Returns the bytes of whole
    /// chunks in the file.
    pub fn give_up(mut self) -> u64 {
        let (writer, _) = self.close();
        writer.map_or_else(|| self.written(), |w| w.written())
    }
}

impl<W: Write + Send + 'static> Drop for Pipeline<W> {
    fn drop(&mut self) {
        if self.scribe.is_some() {
            // Whoever drops a pipeline has an error to tell already.
            let _ = self.close();
        }
    }
}

fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.into()).spawn(body)
}

impl<W: Write + Send + 'static> Sink for Pipeline<W> {
    fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
        self.start()?;
        for block in blocks {
            self.leaves.add(block);
            self.numbers.add(block);
        }
        let ticket = self.ticket();
        self.shared.sequencer.post(ticket, Post::Blocks(blocks.to_vec()));
        self.check()
    }

    fn message(&mut self, process: u32, message: &Message) -> io::Result<()> {
        self.start()?;
        let ticket = self.ticket();
        self.shared
            .sequencer
            .post(ticket, Post::Message(process, message.clone()));
        self.check()
    }

    fn records(&mut self, p: &Piece<'_>) -> io::Result<()> {
        self.start()?;
        let (shared, spare_kinds) = (&self.shared, &mut self.spare_kinds);
        // A thread of few records among many must not sit on the memory of a long piece.
        let few = self.open.len() < SPARES;
        let raw = self.open.entry(p.thread.0).or_insert_with(|| Raw {
            head: StreamHead {
                thread: p.thread.0,
                process: p.process,
                first: p.first,
                begin: p.begin,
                ..StreamHead::default()
            },
            words: (!few).then(Vec::new),
            kinds: few.then(|| spare_kinds.pop()).flatten().unwrap_or_default(),
            stream: Stream {
                state: p.state.clone(),
                stamps: Vec::new(),
                events: few.then(|| shared.spare_events().pop()).flatten().unwrap_or_default(),
            },
        });
        if raw.head.words > 0 {
            let begin = Stamp {
                accesses: 0,
                tsc: raw.head.begin,
            };
            let stamp = Stamp {
                accesses: raw.head.accesses,
                tsc: p.begin.max(raw.head.begin),
            };
            add_stamp(&mut raw.stream.stamps, begin, stamp);
        }
        match &mut raw.words {
            Some(words) => words.extend_from_slice(p.words),
            None => {
                let Raw { stream, kinds, .. } = &mut *raw;
                let parsed = self
                    .leaves
                    .parse_numbered(p.words, p.leaves, &self.numbers, kinds, &mut stream.events);
                parsed.map_err(io::Error::other)?;
            }
        }
        raw.head.words += p.words.len() as u64;
        raw.head.accesses += p.accesses;
        raw.head.end = p.end.max(raw.head.end);
        self.open_words += p.words.len();
        if raw.words() >= PIECE_WORDS {
            self.cut(p.thread.0)?;
        }
        while self.open_words > self.limits.open() {
            let longest = self.open.iter().max_by_key(|(thread, raw)| (raw.words(), **thread));
            match longest.map(|(&thread, _)| thread) {
                Some(thread) => self.cut(thread)?,
                None => break,
            }
        }
        Ok(())
    }
}

/// Tells the others if its thread panics: they would wait for ever.
struct Alarm<'s>(&'s Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lost = io::Error::other("a thread that compresses has failed");
            self.0.sequencer.break_off(lost);
        }
    }
}

/// A worker: folds pieces and encodes chunks, the latter first, since they free memory.
fn work(shared: &Shared) {
    let _alarm = Alarm(shared);
    let mut folder = Folder::default();
    let mut encoding = Encoding::default();
    while let Some(job) = shared.sequencer.next_job() {
        match job {
            Job::Fold(ticket, raw, leaves) => {
                let words_in_flight = raw.words();
                let Raw {
                    head,
                    mut stream,
                    words,
                    ..
                } = raw;
                if let Some(words) = words {
                    stream.events = shared.spare_events().pop().unwrap_or_default();
                    if let Err(error) = leaves.parse(&words, &mut stream.events) {
                        shared.sequencer.fail(io::Error::other(error));
                    }
                }
                fold(&mut stream.events, &mut folder);
                if stream.events.is_sparse() {
                    let kept = stream.events.compacted();
                    shared.spare(std::mem::replace(&mut stream.events, kept));
                }
                shared.sequencer.finished(words_in_flight);
                let folded = Post::Folded(Box::new((head, stream, leaves)));
                shared.sequencer.post(ticket, folded);
            }
            Job::Encode(ticket, chunk, leaves) => {
                let raw_bytes = 8 * chunk.size() as u64;
                let payload = encode(&chunk.stream, chunk.head.begin, &leaves, &mut encoding);
                let words = chunk.size();
                shared.spare(chunk.stream.events);
                shared.sequencer.deliver(ticket, (chunk.head, raw_bytes, payload));
                shared.sequencer.finished(words);
            }
        }
    }
}

/// A chunk ready to be written: its head, the bytes it decodes to, its payload.
type Encoded = (StreamHead, u64, Vec<u8>);

/// The one thread that writes.
struct Scribe<W: Write> {
    shared: Arc<Shared>,
    writer: Writer<W>,
    limits: Limits,
    /// Chunks in the making, by thread.
    chunks: BTreeMap<u32, (Open, Leaves)>,
    /// Their size.
    size: usize,
    folder: Folder,
    /// The next post to be dealt with.
    next: u64,
    /// Of the next chunk to be encoded.
    ticket: u64,
    /// Chunks whose turn has not come.
    encoded: BTreeMap<u64, Encoded>,
    /// What goes to the file, in order.
    orders: VecDeque<Order>,
}

/// What goes to the file next.
enum Order {
    Blocks(Vec<Block>),
    Message(u32, Message),
    /// The chunk with this ticket.
    Chunk(u64),
}

impl<W: Write> Scribe<W> {
    fn run(mut self) -> Writer<W> {
        let shared = self.shared.clone();
        let _alarm = Alarm(&shared);
        let mut finished = false;
        while !finished || !self.orders.is_empty() {
            let Some(posts) = self.wait() else { break };
            for post in posts {
                finished |= matches!(post, Post::Finish);
                self.deal_with(post);
            }
            // What is left after a failure is taken off the list: nothing may come that it could
            // wait for.
            while let Err(error) = self.write() {
                self.shared.sequencer.fail(error);
            }
            self.shared.written.store(self.writer.written(), Ordering::Relaxed);
        }
        self.writer
    }

    /// The posts whose turn it is; there may be none if chunks were encoded. `None` if no more will
    /// come.
    fn wait(&mut self) -> Option<Vec<Post>> {
        let arrived = self.shared.sequencer.wait(&mut self.next)?;
        self.encoded.extend(arrived.delivered);
        Some(arrived.posts)
    }

    /// Writes as far as everything is there. After a failure orders are only taken off the list.
    fn write(&mut self) -> io::Result<()> {
        let failed = self.shared.sequencer.has_failed();
        while let Some(order) = self.orders.pop_front() {
            if let Order::Chunk(ticket) = order {
                let Some((head, raw_bytes, payload)) = self.encoded.remove(&ticket) else {
                    self.orders.push_front(order);
                    break;
                };
                if !failed {
                    self.writer.stream(&head, raw_bytes, &payload)?;
                }
            } else if !failed {
                match order {
                    Order::Blocks(blocks) => self.writer.blocks(&blocks)?,
                    Order::Message(process, message) => self.writer.message(process, &message)?,
                    Order::Chunk(_) => {}
                }
            }
        }
        Ok(())
    }

    fn deal_with(&mut self, post: Post) {
        match post {
            Post::Blocks(blocks) => self.orders.push_back(Order::Blocks(blocks)),
            Post::Message(process, message) => self.orders.push_back(Order::Message(process, message)),
            Post::Folded(folded) => {
                let (head, stream, leaves) = *folded;
                self.add(head, stream, leaves);
            }
            Post::Finish => {
                let threads: Vec<u32> = self.chunks.keys().copied().collect();
                threads.into_iter().for_each(|t| self.end_chunk(t));
            }
        }
    }

    fn add(&mut self, head: StreamHead, stream: Stream, leaves: Leaves) {
        let thread = head.thread;
        let folder = &mut self.folder;
        match self.chunks.get_mut(&thread) {
            Some((open, known)) => {
                self.size -= open.size();
                open.add(&head, stream, folder);
                *known = leaves;
            }
            None => {
                self.chunks.insert(thread, (Open { head, stream }, leaves));
            }
        }
        let (open, _) = &self.chunks[&thread];
        self.size += open.size();
        let long = open.head.end.saturating_sub(open.head.begin) >= CHUNK_TICKS;
        if open.size() >= CHUNK_EVENTS || long {
            self.end_chunk(thread);
        }
        while self.size > self.limits.folded() {
            let longest = self.chunks.iter().max_by_key(|(_, (open, _))| open.size());
            match longest.map(|(&thread, _)| thread) {
                Some(thread) => self.end_chunk(thread),
                None => break,
            }
        }
    }

    fn end_chunk(&mut self, thread: u32) {
        let Some((open, leaves)) = self.chunks.remove(&thread) else {
            return;
        };
        let words = open.size();
        self.size -= words;
        self.orders.push_back(Order::Chunk(self.ticket));
        let job = Job::Encode(self.ticket, open, leaves);
        self.shared.sequencer.submit_urgent(job, words);
        self.ticket += 1;
    }
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
