//! From a recording back to its accesses, and the check that everything in it holds.
use crate::reader::{Chunk, Ending, Reader};
use crate::{ChunkKind, Error};
use memtrail_collect::{messages, Consumer, Counter, Counts, DecodeError, Message, Table, ThreadDecoder, XsaveTable};
use memtrail_model::Thread;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Read, Seek};

/// What to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub thread: Option<Thread>,
}

/// Everything a recording defines.
#[derive(Debug)]
pub struct Known {
    pub table: Table,
    pub xsave: XsaveTable,
    pub messages: Vec<(u32, Message)>,
    pub chunks: Vec<Chunk>,
    pub ending: Ending,
}

impl Known {
    /// Reads all definitions of a recording.
    pub fn read<R: Read + Seek>(reader: &mut Reader<R>) -> Result<Known, Error> {
        let (chunks, ending) = reader.chunks()?;
        let mut known = Known {
            table: Table::new(reader.header().options()?),
            xsave: reader.header().xsave_table(),
            messages: Vec::new(),
            chunks: Vec::new(),
            ending,
        };
        for chunk in chunks {
            if chunk.kind() == ChunkKind::Records {
                known.chunks.push(chunk);
                continue;
            }
            let words = reader.words(&chunk)?;
            known.learn(chunk.serial(), &words).map_err(at(&chunk))?;
        }
        Ok(known)
    }

    fn learn(&mut self, process: u32, words: &[u64]) -> Result<(), DecodeError> {
        for message in messages(words) {
            match message? {
                Message::Block { id, pc, code } => self.table.define(id, pc, &code)?,
                other => self.messages.push((process, other)),
            }
        }
        Ok(())
    }

    /// Chunks of records by the time their buffers were begun; a thread's stay in file order.
    fn by_time(&self) -> Vec<Chunk> {
        let mut latest: HashMap<u32, u64> = HashMap::new();
        let mut keyed: Vec<(u64, Chunk)> = Vec::with_capacity(self.chunks.len());
        for &chunk in &self.chunks {
            let key = latest.entry(chunk.serial()).or_default();
            *key = (*key).max(chunk.begin());
            keyed.push((*key, chunk));
        }
        keyed.sort_by_key(|&(key, _)| key);
        keyed.into_iter().map(|(_, chunk)| chunk).collect()
    }
}

fn at(chunk: &Chunk) -> impl Fn(DecodeError) -> Error {
    let at = chunk.at;
    move |source| Error::Decode { at, source }
}

/// Replays the executions of a recording. `go_on` is asked before each chunk.
pub fn replay<R: Read + Seek, C: Consumer>(
    reader: &mut Reader<R>,
    known: &Known,
    filter: &Filter,
    consumer: &mut C,
    mut go_on: impl FnMut(&mut C) -> bool,
) -> Result<(), Error> {
    let mut decoders: BTreeMap<u32, ThreadDecoder> = BTreeMap::new();
    for chunk in known.by_time() {
        let thread = Thread(chunk.serial());
        if filter.thread.is_some_and(|t| t != thread) {
            continue;
        }
        if !go_on(consumer) {
            return Ok(());
        }
        let words = reader.words(&chunk)?;
        decoders
            .entry(thread.0)
            .or_insert_with(|| ThreadDecoder::new(thread))
            .feed(&known.table, &words, consumer)
            .map_err(at(&chunk))?;
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
    let threads: BTreeSet<u32> = known.chunks.iter().map(Chunk::serial).collect();
    Ok(Checked {
        ending: known.ending,
        counts,
        chunks: known.chunks.len(),
        threads: threads.len(),
        blocks_defined: known.table.blocks().len(),
    })
}
