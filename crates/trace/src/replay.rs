//! From a recording back to its accesses, and the check that everything in it holds.
use crate::known::Known;
use crate::reader::{Chunk, Ending, Reader};
use crate::stream::{self, Expansion, Stream};
use crate::Error;
use memtrail_collect::{Consumer, Counter, Counts, DecodeError, ThreadDecoder};
use memtrail_model::Thread;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

/// What to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub thread: Option<Thread>,
}

fn at(chunk: &Chunk) -> impl Fn(DecodeError) -> Error {
    let at = chunk.at;
    move |source| Error::Decode { at, source }
}

/// The stream in a chunk.
pub fn stream<R: Read + Seek>(reader: &mut Reader<R>, known: &Known, chunk: &Chunk) -> Result<Stream, Error> {
    let payload = reader.payload(chunk)?;
    let most = chunk.head.raw_bytes as usize / 8;
    stream::read(&payload, chunk.head.stream.begin, &known.leaves, most)
        .map_err(|what| Error::Damaged { at: chunk.at, what })
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

/// Replays the executions of a recording. `go_on` is asked again and again.
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
