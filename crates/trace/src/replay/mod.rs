//! From a recording back to its accesses, and the check that everything in it holds.
//!
//! [`accesses`] replays to accesses: of one thread directly, with the next chunk decoded ahead by another core, or of several
//! interleaved. [`replay`] replays to executions, chunk by chunk, for those who only count.
mod gate;
mod player;
mod select;
mod threads;

pub use select::{Point, Selection};

use crate::known::Known;
use crate::reader::{Chunk, Ending, Reader};
use crate::stream::{self, Expansion, Stream};
use crate::Error;
use memtrail_collect::{Consumer, Counter, Counts, DecodeError, ThreadDecoder};
use memtrail_model::{AccessSink, Thread};
use player::Player;
use select::Part;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};

/// What to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub thread: Option<Thread>,
}

fn at(chunk: &Chunk) -> impl Fn(DecodeError) -> Error {
    let at = chunk.at;
    move |source| Error::Decode { at, source }
}

/// The stream in a chunk's payload.
fn parse(known: &Known, chunk: &Chunk, payload: &[u8]) -> Result<Stream, Error> {
    let most = chunk.head.raw_bytes as usize / 8;
    stream::read(payload, chunk.head.stream.begin, &known.leaves, most)
        .map_err(|what| Error::Damaged { at: chunk.at, what })
}

/// The stream in a chunk.
pub fn stream<R: Read + Seek>(reader: &mut Reader<R>, known: &Known, chunk: &Chunk) -> Result<Stream, Error> {
    parse(known, chunk, &reader.payload(chunk)?)
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
/// One thread's accesses come in order. If several threads are selected they are interleaved as [`Selection::order`] says; if it is
/// only one, loops are offered whole. Of a recording that was cut off, a thread's last record is left out: what followed
/// it might have said that it was cut short.
pub fn accesses<R: Read + Seek + Send, S: AccessSink>(
    reader: &mut Reader<R>,
    known: &Known,
    selection: &Selection,
    sink: &mut S,
) -> Result<(), Error> {
    let mut parts = select::parts(known, selection)?;
    if selection.limit == 0 {
        return Ok(());
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
    let mut player = Player::new(known, part, limit, sink);
    let decoded = |chunk: &Chunk| parse(known, chunk, &input.payload(chunk)?);
    let more = match chunks.as_slice() {
        [chunk] => one(&mut player, chunk, &decoded(chunk)?)?,
        _ => std::thread::scope(|scope| {
            let (out, streams) = sync_channel(0);
            scope.spawn(|| {
                let out = out;
                for chunk in &chunks {
                    let stream = decoded(chunk);
                    let failed = stream.is_err();
                    if out.send(stream).is_err() || failed {
                        break;
                    }
                }
            });
            for (chunk, stream) in chunks.iter().zip(streams) {
                if !one(&mut player, chunk, &stream?)? {
                    return Ok(false);
                }
            }
            Ok::<bool, Error>(true)
        })?,
    };
    if more && player.last()?.is_some() {
        player.finish()?;
    }
    Ok(())
}

fn one<S: AccessSink>(player: &mut Player<'_, S>, chunk: &Chunk, stream: &Stream) -> Result<bool, Error> {
    player.begin(chunk, stream)?;
    player.play(chunk, stream)
}
/// All record words of a chunk.
pub fn words<R: Read + Seek>(reader: &mut Reader<R>, known: &Known, chunk: &Chunk) -> Result<Vec<u64>, Error> {
    let stream = stream(reader, known, chunk)?;
    let mut all = Vec::new();
    let take = |words: &[u64]| {
        all.extend_from_slice(words);
        true
    };
    let expanded = Expansion::new(&stream).each(&known.leaves, chunk.head.stream.words, take);
    expanded.map_err(|what| Error::Damaged { at: chunk.at, what })?;
    Ok(all)
}

/// Replays the executions of a recording, chunk by chunk in the order of their beginnings. `go_on` is asked again and again.
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
        let mut failed = None;
        let mut stopped = false;
        let mut expansion = Expansion::new(&stream);
        let expanded = expansion.each(&known.leaves, chunk.head.stream.words, |words| {
            failed = decoder.feed(&known.table, words, consumer).err();
            stopped = !go_on(consumer);
            failed.is_none() && !stopped
        });
        if let Some(error) = failed {
            return Err(at(&chunk)(error));
        }
        expanded.map_err(|what| Error::Damaged { at: chunk.at, what })?;
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

/// What a check found.
#[derive(Debug)]
pub struct Checked {
    pub ending: Ending,
    pub counts: Counts,
    pub chunks: usize,
    pub threads: usize,
    pub blocks_defined: usize,
}

/// Reads everything, believes nothing: checksums, every record, and the totals.
pub fn check<R: Read + Seek>(reader: &mut Reader<R>) -> Result<Checked, Error> {
    let known = Known::read(reader)?;
    if let Ending::Damaged { at, what } = known.ending {
        return Err(Error::Damaged { at, what });
    }
    let mut counter = Counter::new(&known.xsave);
    replay(reader, &known, &Filter::default(), &mut counter, |_| true)?;
    let counts = counter.counts(&known.table);
    if let Ending::Complete(t) = &known.ending {
        for (what, said, found) in [
            ("the number of accesses", t.accesses, counts.accesses()),
            ("the number of reads", t.reads, counts.reads),
            ("the number of writes", t.writes, counts.writes),
            ("the number of prefetches", t.prefetches, counts.prefetches),
            ("the number of bytes", t.bytes, counts.bytes()),
            ("the number of instructions", t.instructions, counts.instructions),
            ("the number of blocks", t.blocks, counts.blocks),
        ] {
            if said != found {
                return Err(Error::Mismatch { what, said, found });
            }
        }
    }
    let threads: BTreeSet<u32> = known.streams.iter().map(|c| c.head.stream.thread).collect();
    Ok(Checked {
        ending: known.ending,
        counts,
        chunks: known.streams.len(),
        threads: threads.len(),
        blocks_defined: known.table.blocks().len(),
    })
}
