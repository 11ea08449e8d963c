//! A recording as it came: for those who want records as they are drained, and not accesses.
use crate::select::segments;
use crate::Segment;
use memtrail_decode::{Counter, Message, Piece, Sink, ThreadDecoder};
use memtrail_model::Thread;
use memtrail_trace::{parse, Chunk, Decoding, Error, Known, Reader, Stream};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Seek};

/// Words that are handed on at once: as many as a buffer has, about.
const WORDS: usize = 1 << 16;

/// Hands everything that a recording holds to a sink, as if it were drained now: all blocks, then
/// the streams as they stand in the file, each thread told of before its first. Of the threads in
/// `ended` no more will come.
pub fn drain<R: Read + Seek>(
    reader: &mut Reader<R>,
    known: &Known,
    ended: &[Thread],
    sink: &mut impl Sink,
) -> Result<(), Error> {
    // Blocks refer to images.
    let (images, others): (Vec<_>, Vec<_>) = known
        .messages
        .iter()
        .partition(|(_, message)| matches!(message, Message::Module(_) | Message::Image(_)));
    for (process, message) in images {
        sink.message(*process, message)?;
    }
    sink.blocks(known.table.blocks())?;
    // A thread that goes on in another process is told of once more.
    let mut threads: BTreeMap<u32, Vec<(u32, &Message)>> = BTreeMap::new();
    for (process, message) in others {
        match message {
            Message::Thread { thread, .. } => threads.entry(*thread).or_default().push((*process, message)),
            _ => sink.message(*process, message)?,
        }
    }
    let last: HashMap<u32, u64> = known.streams.iter().map(|c| (c.head.stream.thread, c.at)).collect();
    let ended: HashSet<u32> = ended.iter().map(|thread| thread.0).collect();
    let (mut decoding, mut stream) = (Decoding::default(), Stream::default());
    for chunk in &known.streams {
        let thread = chunk.head.stream.thread;
        for (process, message) in threads.remove(&thread).unwrap_or_default() {
            sink.message(process, message)?;
        }
        let payload = reader.payload(chunk)?;
        parse(known, chunk, &payload, &mut decoding, &mut stream)?;
        pieces(known, chunk, &stream, sink)?;
        if last.get(&thread) == Some(&chunk.at) && ended.contains(&thread) {
            sink.ended(Thread(thread))?;
        }
    }
    // Those that have recorded nothing yet.
    for (thread, told) in threads {
        for (process, message) in told {
            sink.message(process, message)?;
        }
        if ended.contains(&thread) {
            sink.ended(Thread(thread))?;
        }
    }
    Ok(())
}

/// When so many accesses of a chunk had happened.
fn time(segments: &[Segment], mut accesses: u64) -> u64 {
    let mut end = 0;
    for segment in segments {
        if accesses < segment.accesses {
            return segment.time(accesses);
        }
        accesses -= segment.accesses;
        end = segment.end;
    }
    end
}

/// Hands a chunk on in pieces.
fn pieces(known: &Known, chunk: &Chunk, stream: &Stream, sink: &mut impl Sink) -> Result<(), Error> {
    let head = chunk.head.stream;
    let mut decoder = ThreadDecoder::resume(Thread(head.thread), &stream.state);
    let damaged = |what| Error::Damaged { at: chunk.at, what };
    let segments = segments(&head, stream).map_err(damaged)?;
    let mut words = Vec::with_capacity(WORDS);
    let mut passed = 0;
    let mut hand_on = |words: &mut Vec<u64>| -> Result<(), Error> {
        let state = decoder.state();
        let mut counter = Counter::new(&known.xsave);
        let fed = decoder.feed(&known.table, words, &mut counter);
        fed.map_err(|source| Error::Decode { at: chunk.at, source })?;
        let accesses = counter.accesses();
        sink.records(&Piece {
            thread: Thread(head.thread),
            process: known.space(Thread(head.thread)),
            begin: time(&segments, passed),
            end: time(&segments, passed + accesses),
            first: head.first + passed,
            accesses,
            state: &state,
            words,
            leaves: &[],
        })?;
        passed += accesses;
        words.clear();
        Ok(())
    };
    let mut failed = None;
    let expanded = stream.words(head.words, |batch| {
        words.extend_from_slice(batch);
        if words.len() >= WORDS {
            failed = hand_on(&mut words).err();
        }
        failed.is_none()
    });
    if let Some(error) = failed {
        return Err(error);
    }
    expanded.map_err(damaged)?;
    if words.is_empty() {
        return Ok(());
    }
    hand_on(&mut words)
}
