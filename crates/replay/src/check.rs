//! Whether a recording holds together.
//!
//! [`check`] reads everything and counts: checksums, records, totals. [`check_deep`] also expands
//! every access and believes nothing that can be found out in another way: the index by the heads
//! in the file, a chunk's head by its accesses, the state in a chunk by decoding the chunk before,
//! the numbers of notes by each other, the totals by counting accesses one by one, and the hashes
//! of a recording made with `--verify` by hashing again.
use crate::check_notes::Notes;
use crate::{feed, in_parts, OTHER_NUMBER};
use memtrail_decode::{Counter, Counts, State, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Event, Note, Reply, Thread, Wants};
use memtrail_trace::{stream, Chunk, Ending, Error, Hasher, Known, Reader, Stream, ThreadHash, Totals};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Seek};

/// What a check found.
#[derive(Debug)]
pub struct Checked {
    pub ending: Ending,
    pub counts: Counts,
    pub chunks: usize,
    pub threads: usize,
    pub blocks_defined: usize,
    /// The hashes of all threads' accesses, if they were expanded.
    pub hashes: Vec<ThreadHash>,
    /// How often threads were not recorded for some time, if that was looked at.
    pub gaps: Option<u64>,
    /// Those were compared with hashes that were made while recording.
    pub verified: bool,
}

fn same(what: &'static str, said: u64, found: u64) -> Result<(), Error> {
    if said == found {
        return Ok(());
    }
    Err(Error::Mismatch { what, said, found })
}

fn same_accesses(t: &Totals, counts: &Counts) -> Result<(), Error> {
    same("the number of accesses", t.accesses, counts.accesses())?;
    same("the number of reads", t.reads, counts.reads)?;
    same("the number of writes", t.writes, counts.writes)?;
    same("the number of prefetches", t.prefetches, counts.prefetches)?;
    same("the number of bytes", t.bytes, counts.bytes())
}

/// Checksums, every record, and the totals.
pub fn check<R: Read + Seek>(reader: &mut Reader<R>) -> Result<Checked, Error> {
    let known = Known::read(reader)?;
    count(reader, &known)
}

fn count<R: Read + Seek>(reader: &mut Reader<R>, known: &Known) -> Result<Checked, Error> {
    if let Ending::Damaged { at, what } = known.ending {
        return Err(Error::Damaged { at, what });
    }
    let mut counter = Counter::new(&known.xsave);
    let mut decoders: BTreeMap<u32, ThreadDecoder> = BTreeMap::new();
    for chunk in &known.streams {
        let (thread, before) = (Thread(chunk.head.stream.thread), counter.accesses());
        let stream = stream(reader, known, chunk)?;
        let resume = || ThreadDecoder::resume(thread, &stream.state);
        let decoder = decoders.entry(thread.0).or_insert_with(resume);
        feed(known, chunk, &stream, decoder, &mut counter, |_| true)?;
        if counter.accesses().wrapping_sub(before) != chunk.head.stream.accesses {
            let what = OTHER_NUMBER;
            return Err(Error::Damaged { at: chunk.at, what });
        }
    }
    let threads = decoders.len();
    if matches!(known.ending, Ending::Complete(_)) {
        for decoder in decoders.values_mut() {
            let finished = decoder.finish(&known.table, &mut counter);
            finished.map_err(|source| Error::Decode {
                at: reader.bytes(),
                source,
            })?;
        }
    }
    let counts = counter.counts(&known.table);
    if let Ending::Complete(t) = &known.ending {
        same_accesses(t, &counts)?;
        same("the number of instructions", t.instructions, counts.instructions)?;
        same("the number of blocks", t.blocks, counts.blocks)?;
    }
    Ok(Checked {
        ending: known.ending,
        counts,
        chunks: known.streams.len(),
        threads,
        blocks_defined: known.table.blocks().len(),
        hashes: Vec::new(),
        gaps: None,
        verified: false,
    })
}

/// As [`check`], and every access, and everything the file says twice.
pub fn check_deep<R: Read + Seek + Send>(reader: &mut Reader<R>) -> Result<Checked, Error> {
    reader.compare_index()?;
    let known = Known::read(reader)?;
    let mut checked = count(reader, &known)?;
    heads(&known)?;
    let at = Cell::new(0);
    let mut deep = Deep {
        hasher: Hasher::default(),
        notes: Notes::new(&known, &at),
        gaps: 0,
    };
    in_parts(reader, &known, &mut deep, |chunk, stream, reached| {
        at.set(chunk.at);
        agrees(chunk, stream, reached)
    })?;
    let Deep { hasher, notes, gaps } = deep;
    notes.finish()?;
    let counts = hasher.counts();
    same("the number of accesses", checked.counts.accesses(), counts.accesses())?;
    if let Ending::Complete(t) = &known.ending {
        same_accesses(t, &counts)?;
        same("the number of gaps", t.gaps, gaps)?;
        same(
            "the number of words",
            t.ring_words,
            known.streams.iter().map(|c| c.head.stream.words).sum(),
        )?;
    }
    checked.hashes = hasher.hashes();
    checked.gaps = Some(gaps);
    if let Some(said) = reader.hashes() {
        compare(said, &checked.hashes)?;
        checked.verified = true;
    }
    Ok(checked)
}

/// Everything that is expanded.
struct Deep<'k> {
    hasher: Hasher,
    notes: Notes<'k>,
    gaps: u64,
}

impl AccessSink for Deep<'_> {
    fn accesses(&mut self, batch: &[Access]) {
        self.hasher.accesses(batch);
    }
    fn wants(&self) -> Wants {
        Wants {
            notes: true,
            ..self.hasher.wants()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Note { thread, number, note } => {
                self.gaps += u64::from(matches!(note, Note::Gap { .. }));
                self.notes.take(thread, number, Some(note));
            }
            Event::ForkCall { thread, number, .. } => self.notes.take(thread, number, None),
            other => return self.hasher.event(other),
        }
        Reply::NOTHING
    }
    fn done(&self) -> bool {
        self.notes.failed()
    }
}

/// What heads say about threads and times.
fn heads(known: &Known) -> Result<(), Error> {
    let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
    for chunk in &known.streams {
        let head = &chunk.head.stream;
        let damaged = |what| Err(Error::Damaged { at: chunk.at, what });
        if !known.threads.contains_key(&head.thread) {
            return damaged("a chunk of a thread that nothing tells of");
        }
        if head.end < head.begin {
            return damaged("a chunk ends before it begins");
        }
        let before = ends.insert(head.thread, head.end);
        if before.is_some_and(|end| head.begin < end) {
            return damaged("a chunk begins before its thread's chunk before has ended");
        }
    }
    Ok(())
}

/// Whether a chunk begins with the state that the thread's chunk before has led to.
fn agrees(chunk: &Chunk, stream: &Stream, reached: Option<State>) -> Result<(), Error> {
    if stream.state == reached.unwrap_or_default() {
        return Ok(());
    }
    let what = "a chunk does not begin with the state in which the one before ended";
    Err(Error::Damaged { at: chunk.at, what })
}

fn compare(said: &[ThreadHash], found: &[ThreadHash]) -> Result<(), Error> {
    same(
        "the number of threads with hashes",
        said.len() as u64,
        found.len() as u64,
    )?;
    for (said, found) in said.iter().zip(found) {
        same("the thread of a hash", said.thread.into(), found.thread.into())?;
        let thread = said.thread;
        if said != found {
            return Err(Error::Hash {
                thread,
                said: *said,
                found: *found,
            });
        }
    }
    Ok(())
}
