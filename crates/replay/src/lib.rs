//! From a recording back to its accesses.
//!
//! [`accesses`] replays to accesses: of one thread directly, with the next chunks decoded ahead by
//! other cores, or of several interleaved. [`replay`] replays to executions, chunk by chunk, for
//! those who only count; [`drain`] to records, as they came.
//!
//! [`Live`] does the same for a program that runs, and stores nothing. [`check`] and
//! [`check_deep`] tell whether a recording is whole and replays as it was recorded.
//!
//! **Invariants.** Each thread's accesses come in the order in which it made them, all of them. A
//! sink sees the same accesses live and from a file; only the interleaving of threads may differ.
//!
//! Not for: what is in a file (that is `memtrail-trace`), what a record means (`memtrail-decode`).
#![forbid(unsafe_code)]

mod check;
mod check_notes;
mod drain;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod interleave;
mod limit;
mod live;
mod nest;
mod player;
mod select;
mod threads;
mod turns;

pub use check::{check, check_deep, Checked};
pub use drain::drain;
pub use interleave::{interleave, Order, Segment, Stream as AccessStream, SLICE};
pub use limit::Limit;
pub use live::{Live, Lived};
pub(crate) use player::OTHER_NUMBER;
pub use select::{Point, Selection};

use memtrail_decode::{Consumer, State, ThreadDecoder};
use memtrail_model::{AccessSink, Event, Thread};
use memtrail_trace::{parse, stream, Chunk, Decoding, Ending, Error, Known, Reader, Stream};
use player::Player;
use select::{History, Part};
use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Mutex, PoisonError};

/// What to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub thread: Option<Thread>,
}

/// A recording that several threads read from.
struct Input<'r, R>(Mutex<&'r mut Reader<R>>);

impl<R: Read + Seek> Input<'_, R> {
    fn payload(&self, chunk: &Chunk) -> Result<Vec<u8>, Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).payload(chunk)
    }
}

/// Replays the selected accesses into a sink. Only the chunks that hold them are read.
///
/// One thread's accesses come in order. If several threads are selected they are interleaved as
/// [`Selection::order`] says; if it is only one, loops are offered whole. A sink that wants fetches
/// gets those before the first access of the selection that follow the access before it, and none
/// behind the last unless the thread ends there. Their points are those of the table, if it
/// [numbers them](memtrail_decode::Table::number_fetches). Of a recording that was cut off, a
/// thread's last record is left out: what followed it might have said that it was cut short. A sink
/// that wants to know of calls or allocations is told of them from the beginning of each thread,
/// even if the selection begins later; of allocations also by threads that had ended by then.
pub fn accesses<R: Read + Seek + Send, S: AccessSink>(
    reader: &mut Reader<R>,
    known: &Known,
    selection: &Selection,
    sink: &mut S,
) -> Result<(), Error> {
    let wants = sink.wants();
    let history = match wants.history() {
        _ if wants.notes => History::OfAll,
        true => History::OfThreads,
        false => History::Nothing,
    };
    let mut parts = select::parts(known, selection, wants.fetches, history)?;
    if selection.limit == 0 {
        return Ok(());
    }
    for part in &parts {
        let (thread, space) = (part.thread, known.space(part.thread));
        sink.event(Event::Space { thread, space });
    }
    let input = Input(Mutex::new(reader));
    match parts.len() {
        0 => Ok(()),
        1 => alone(&input, known, parts.remove(0), selection.limit, sink),
        _ => threads::together(&input, known, parts, selection, sink),
    }
}

/// Replays one thread.
fn alone<R: Read + Seek + Send, S: AccessSink>(
    input: &Input<'_, R>,
    known: &Known,
    part: Part,
    limit: u64,
    sink: &mut S,
) -> Result<(), Error> {
    let chunks = part.chunks.clone();
    let space = known.space(part.thread);
    if let Some(&parent) = known.forks().get(&space).filter(|_| sink.wants().notes) {
        sink.event(Event::Fork { parent, child: space });
    }
    let mut player = Player::new(known, part, limit, sink).alone();
    let more = ahead(input, known, &chunks, |chunk, stream| {
        player.begin(chunk, stream)?;
        player.play(chunk, stream)
    })?;
    if more && player.last()?.is_some() {
        player.finish()?;
    }
    Ok(())
}

/// Replays all accesses of all threads, one thread after the other. `look` sees every chunk before
/// it is replayed, and the state that the thread's chunk before has led to.
pub(crate) fn in_parts<R: Read + Seek + Send, S: AccessSink>(
    reader: &mut Reader<R>,
    known: &Known,
    sink: &mut S,
    look: impl Fn(&Chunk, &Stream, Option<State>) -> Result<(), Error>,
) -> Result<(), Error> {
    let parts = select::parts(known, &Selection::default(), false, History::Nothing)?;
    let input = Input(Mutex::new(reader));
    for part in parts {
        let chunks = part.chunks.clone();
        let mut player = Player::new(known, part, u64::MAX, &mut *sink);
        let more = ahead(&input, known, &chunks, |chunk, stream| {
            look(chunk, stream, player.state())?;
            player.begin(chunk, stream)?;
            player.play(chunk, stream)
        })?;
        if more && player.last()?.is_some() {
            player.finish()?;
        }
    }
    Ok(())
}

/// Chunks that are decoded ahead, at most: each takes a few tens of megabytes.
const MOST_AHEAD: usize = 8;

/// Hands chunks to `take` one after the other until it says no, while other threads decode those
/// that follow, on all cores. Returns what it said last.
fn ahead<R: Read + Seek + Send>(
    input: &Input<'_, R>,
    known: &Known,
    chunks: &[Chunk],
    mut take: impl FnMut(&Chunk, &Stream) -> Result<bool, Error>,
) -> Result<bool, Error> {
    if let [chunk] = chunks {
        let mut stream = Stream::default();
        parse(
            known,
            chunk,
            &input.payload(chunk)?,
            &mut Decoding::default(),
            &mut stream,
        )?;
        return take(chunk, &stream);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = cores.min(MOST_AHEAD).min(chunks.len());
    std::thread::scope(|scope| {
        // Worker `w` of `n` decodes chunks `w`, `w + n`, …, and blocks until its chunk is wanted.
        let begin = |worker: usize| {
            let (out, streams) = sync_channel(1);
            let (back, used) = channel();
            scope.spawn(move || {
                let mut decoding = Decoding::default();
                for chunk in chunks.iter().skip(worker).step_by(workers) {
                    let mut stream = used.try_recv().unwrap_or_default();
                    let payload = input.payload(chunk);
                    let parsed = payload.and_then(|p| parse(known, chunk, &p, &mut decoding, &mut stream));
                    let failed = parsed.is_err();
                    if out.send(parsed.map(|()| stream)).is_err() || failed {
                        break;
                    }
                }
            });
            (streams, back)
        };
        let workers: Vec<_> = (0..workers).map(begin).collect();
        for (chunk, (streams, back)) in chunks.iter().zip(workers.iter().cycle()) {
            let Ok(stream) = streams.recv() else { break };
            let stream = stream?;
            if !take(chunk, &stream)? {
                return Ok(false);
            }
            // It may have ended, and needs no more room.
            let _ = back.send(stream);
        }
        Ok(true)
    })
}

/// Decodes the words of a chunk. Returns whether it went on to the end.
pub(crate) fn feed<C: Consumer>(
    known: &Known,
    chunk: &Chunk,
    stream: &Stream,
    decoder: &mut ThreadDecoder,
    consumer: &mut C,
    mut go_on: impl FnMut(&mut C) -> bool,
) -> Result<bool, Error> {
    let mut failed = None;
    let mut stopped = false;
    let expanded = stream.words(chunk.head.stream.words, |words| {
        failed = decoder.feed(&known.table, words, consumer).err();
        stopped = !go_on(consumer);
        failed.is_none() && !stopped
    });
    if let Some(source) = failed {
        return Err(Error::Decode { at: chunk.at, source });
    }
    expanded.map_err(|what| Error::Damaged { at: chunk.at, what })?;
    Ok(!stopped)
}

/// Replays the executions of a recording, chunk by chunk in the order of their beginnings. `go_on`
/// is asked again and again.
pub fn replay<R: Read + Seek, C: Consumer>(
    reader: &mut Reader<R>,
    known: &Known,
    filter: &Filter,
    consumer: &mut C,
    mut go_on: impl FnMut(&mut C) -> bool,
) -> Result<(), Error> {
    let mut decoders: BTreeMap<u32, ThreadDecoder> = BTreeMap::new();
    for chunk in known.by_time() {
        let thread = Thread(chunk.head.stream.thread);
        if filter.thread.is_some_and(|t| t != thread) {
            continue;
        }
        let stream = stream(reader, known, &chunk)?;
        let decoder = decoders
            .entry(thread.0)
            .or_insert_with(|| ThreadDecoder::resume(thread, &stream.state));
        let stopped = !feed(known, &chunk, &stream, decoder, consumer, &mut go_on)?;
        if stopped {
            return Ok(());
        }
    }
    if !matches!(known.ending, Ending::Complete(_)) {
        return Ok(());
    }
    let end = reader.bytes();
    for decoder in decoders.values_mut() {
        decoder
            .finish(&known.table, consumer)
            .map_err(|source| Error::Decode { at: end, source })?;
    }
    Ok(())
}
