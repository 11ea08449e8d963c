//! How fast a recording is compressed, on one core, and replayed: `recording_speed FILE`. Prints
//! JSON, for `cargo xtask bench record`.
//!
//! Its records are taken out of it, counted, and compressed once more, in pieces as large as a
//! recorder's and with their leaves numbered by the counting, as a recorder has them; and its
//! accesses are replayed into a sink that only counts, one by one and with loops taken whole. Each
//! is done several times, and the least time counts.
use memtrail_decode::{Counter, State, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Event, Reply, Thread, Wants};
use memtrail_replay::{accesses, Selection};
use memtrail_trace::{stream, Compressor, Known, Reader};
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

/// Words of a piece.
const PIECE: usize = 1 << 20;
/// Records that are enough to tell.
const ENOUGH: usize = 24 << 20;
const RUNS: usize = 5;

#[derive(Default)]
struct Count {
    accesses: u64,
    whole: bool,
}

impl AccessSink for Count {
    fn accesses(&mut self, batch: &[Access]) {
        self.accesses += batch.len() as u64;
    }
    fn wants(&self) -> Wants {
        Wants {
            loops: self.whole.then_some(0),
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return Reply::NOTHING;
        };
        self.accesses += run.trips * run.body.len() as u64;
        Reply::skip(run.trips)
    }
}

/// Records, and the numbers of their leaves.
#[derive(Default)]
struct Piece {
    words: Vec<u64>,
    leaves: Vec<u32>,
}

/// The records of the recording's first thread, whole records in each piece.
fn pieces(reader: &mut Reader<BufReader<File>>, known: &Known) -> Result<Vec<Piece>, Box<dyn Error>> {
    let (mut pieces, mut all) = (vec![Piece::default()], 0);
    let first = known.streams.first().ok_or("nothing was recorded")?.head.stream.thread;
    for chunk in known.streams.iter().filter(|c| c.head.stream.thread == first) {
        let stream = stream(reader, known, chunk)?;
        let take = |words: &[u64]| {
            if pieces.last().is_none_or(|p| p.words.len() >= PIECE) {
                pieces.push(Piece::default());
            }
            if let Some(piece) = pieces.last_mut() {
                piece.words.extend_from_slice(words);
            }
            all += words.len();
            all < ENOUGH
        };
        stream.words(chunk.head.stream.words, take)?;
        if all >= ENOUGH {
            break;
        }
    }
    let mut decoder = ThreadDecoder::new(Thread(first));
    let mut counter = Counter::new(&known.xsave);
    for piece in &mut pieces {
        counter.forget_leaves();
        decoder.feed(&known.table, &piece.words, &mut counter)?;
        piece.leaves.extend_from_slice(counter.leaves());
    }
    Ok(pieces)
}

/// Basic blocks in all: each goes to the next branch, jump, call or return. A loop that has one
/// record counts as one.
fn basic_blocks(pieces: &[Piece], known: &Known) -> u64 {
    let mut of_leaf = Vec::new();
    for block in known.table.blocks() {
        let each = |n| block.plan.basic_blocks(block.plan.record(n).side) as u64;
        of_leaf.extend((0..block.plan.ids()).map(each));
    }
    let leaves = pieces.iter().flat_map(|p| &p.leaves);
    leaves
        .map(|&leaf| of_leaf.get(leaf as usize).copied().unwrap_or(1))
        .sum()
}

/// The least time of several runs, and what they return.
fn best<T>(mut run: impl FnMut() -> Result<T, Box<dyn Error>>) -> Result<(f64, T), Box<dyn Error>> {
    let mut least = f64::INFINITY;
    let mut last = None;
    for _ in 0..RUNS {
        let begin = Instant::now();
        last = Some(run()?);
        least = least.min(begin.elapsed().as_secs_f64());
    }
    last.map(|last| (least, last)).ok_or("no run".into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("recording_speed FILE")?;
    let mut reader = Reader::open(BufReader::new(File::open(path)?))?;
    let known = Known::read(&mut reader)?;
    let pieces = pieces(&mut reader, &known)?;
    let mut compressor = Compressor::new(&known);
    let (compress_seconds, events) = best(|| {
        let mut events = 0;
        for piece in &pieces {
            let compressed = compressor.compress(&piece.words, &piece.leaves, State::default(), 0)?;
            events += compressed.events;
        }
        Ok(events)
    })?;
    let mut replay = |whole| {
        best(|| {
            let mut count = Count { accesses: 0, whole };
            accesses(&mut reader, &known, &Selection::default(), &mut count)?;
            Ok(count.accesses)
        })
    };
    let (replay_seconds, accesses) = replay(false)?;
    let (whole_seconds, _) = replay(true)?;
    let figures = serde_json::json!({
        "records": events,
        "blocks": basic_blocks(&pieces, &known),
        "compress_seconds": compress_seconds,
        "accesses": accesses,
        "replay_seconds": replay_seconds,
        "whole_seconds": whole_seconds,
    });
    println!("{figures}");
    Ok(())
}
