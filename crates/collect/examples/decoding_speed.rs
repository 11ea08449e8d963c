//! How fast records are counted and expanded: records a command in memory, then decodes it, also
//! one access after the other, to see that the fast ways give the same.
//!
//! `cargo run --release -p memtrail-collect --example decoding_speed -- gzip -c FILE`
//!
//! Prints the best of several passes; what the command writes goes to standard output as ever.
use memtrail_collect::{record, Options, Session};
use memtrail_decode::{Block, Consumer, Counter, Expander, Message, Piece, Sink, Table, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Thread, Wants};
use memtrail_plan::XsaveTable;
use memtrail_ring::record::special_words;
use memtrail_ring::{Paths, Probes};
use std::collections::HashMap;
use std::io;
use std::time::Instant;

const MOST_WORDS: usize = 20_000_000;
const PASSES: usize = 9;

/// What was recorded, up to [`MOST_WORDS`] words of records.
struct Memory {
    table: Table,
    buffers: Vec<(Thread, Vec<u64>)>,
    words: usize,
}

impl Sink for Memory {
    fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
        for b in blocks {
            let added = self.table.insert_with(b.id, b.plan.clone(), b.sources.clone());
            added.map_err(io::Error::other)?;
        }
        Ok(())
    }
    fn message(&mut self, _process: u32, _message: &Message) -> io::Result<()> {
        Ok(())
    }
    fn records(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        if self.words < MOST_WORDS {
            self.buffers.push((piece.thread, piece.words.to_vec()));
            self.words += piece.words.len();
        }
        Ok(())
    }
}

/// Looks at every access, so that none can be left out, and does as little as it can with it.
#[derive(Default)]
struct Sum {
    accesses: u64,
    sum: u64,
}

impl AccessSink for Sum {
    fn accesses(&mut self, batch: &[Access]) {
        self.accesses += batch.len() as u64;
        self.sum = self.sum.wrapping_add(batch.last().map_or(0, |a| a.addr));
    }
}

/// The same of accesses and fetches.
#[derive(Default)]
struct SumOfAll(Sum);

impl AccessSink for SumOfAll {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.accesses(batch);
    }
    fn wants(&self) -> Wants {
        Wants {
            fetches: true,
            ..Wants::default()
        }
    }
}

/// An order-sensitive hash of all accesses.
#[derive(Default, Debug, PartialEq)]
struct Hash {
    accesses: u64,
    hash: u64,
}

impl AccessSink for Hash {
    fn accesses(&mut self, batch: &[Access]) {
        self.accesses += batch.len() as u64;
        for a in batch {
            let rest = u64::from(a.size) << 40 | u64::from(a.thread.0) << 8 | a.kind as u64;
            for word in [a.pc, a.addr, rest] {
                self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            }
        }
    }
}

/// Decodes everything once.
fn decode<C: Consumer>(memory: &Memory, mut consumer: C) -> C {
    let mut decoders = HashMap::new();
    for (thread, words) in &memory.buffers {
        let decoder = decoders.entry(*thread).or_insert_with(|| ThreadDecoder::new(*thread));
        decoder
            .feed(&memory.table, words, &mut consumer)
            .expect("whole records");
    }
    consumer
}

/// Holds the fast ways to the slow one.
fn check(memory: &Memory, xsave: &XsaveTable) {
    let slow = decode(memory, Expander::new(xsave, Hash::default()).one_by_one()).into_sink();
    let fast = decode(memory, Expander::new(xsave, Hash::default())).into_sink();
    assert_eq!(slow, fast, "expanded fast and one by one");
    let counted = decode(memory, Counter::new(xsave)).counts(&memory.table).accesses();
    assert_eq!(slow.accesses, counted, "expanded and counted");
}

/// Seconds to decode everything: for each buffer the best of several passes, so that what else the
/// machine does counts little. As while recording, words have just been copied.
fn best<C: Consumer>(memory: &Memory, mut consumer: impl FnMut() -> C, mut done: impl FnMut(C)) -> f64 {
    let mut scratch = Vec::new();
    let mut best = vec![f64::INFINITY; memory.buffers.len()];
    for _ in 0..PASSES {
        let mut decoders = HashMap::new();
        let mut consumer = consumer();
        for ((thread, words), best) in memory.buffers.iter().zip(&mut best) {
            let decoder = decoders.entry(*thread).or_insert_with(|| ThreadDecoder::new(*thread));
            scratch.clear();
            scratch.extend_from_slice(words);
            let begin = Instant::now();
            decoder
                .feed(&memory.table, &scratch, &mut consumer)
                .expect("whole records");
            *best = best.min(begin.elapsed().as_secs_f64());
        }
        done(consumer);
    }
    best.iter().sum()
}

/// Block records, and those of blocks that were left before their end.
fn census(memory: &Memory) -> (u64, u64) {
    let (mut blocks, mut left) = (0, 0);
    for (_, words) in &memory.buffers {
        let mut at = 0;
        while at < words.len() {
            let found = memory.table.find(words[at]);
            blocks += u64::from(found.is_some());
            left += u64::from(found.is_some_and(|f| f.side.is_some()));
            let length = found.map(|f| f.words).or(special_words(words[at]));
            at += length.expect("whole records");
        }
    }
    (blocks, left)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut command = std::env::args_os().skip(1);
    let Some(program) = command.next() else {
        eprintln!("usage: decoding_speed COMMAND [ARGUMENT]...");
        std::process::exit(2);
    };
    let options = Options {
        probes: Probes::Loop,
        max_block: 64,
        discard: false,
        follow: true,
        paths: Paths::Hot,
    };
    let session = Session::create(&options)?;
    let xsave: XsaveTable = memtrail_tracee::xsave_table();
    let held = memtrail_tracee::launch(&memtrail_tracee::Command {
        program,
        args: command.collect(),
        fixed_addresses: true,
    })?;
    let mut memory = Memory {
        table: Table::default(),
        buffers: Vec::new(),
        words: 0,
    };
    record(&session, held.exec()?, &xsave, &mut memory, &mut |_| {})?;
    check(&memory, &xsave);
    let (blocks, left) = census(&memory);
    eprintln!(
        "{} words, {blocks} block records, {left} of them left early",
        memory.words
    );
    let time = best(
        &memory,
        || Counter::new(&xsave),
        |counter| {
            std::hint::black_box(counter.counts(&memory.table));
        },
    );
    eprintln!("count:  {:.2} ns per block record", time * 1e9 / blocks as f64);
    let mut accesses = 0;
    let time = best(
        &memory,
        || Expander::new(&xsave, Sum::default()),
        |expander| {
            accesses = std::hint::black_box(expander.into_sink()).accesses;
        },
    );
    eprintln!(
        "expand: {:.0} M accesses/s, {:.2} ns per block record, {:.2} accesses each",
        accesses as f64 / time / 1e6,
        time * 1e9 / blocks as f64,
        accesses as f64 / blocks as f64
    );
    memory.table.number_fetches();
    let mut all = 0;
    let time = best(
        &memory,
        || Expander::new(&xsave, SumOfAll::default()),
        |expander| {
            all = std::hint::black_box(expander.into_sink()).0.accesses;
        },
    );
    eprintln!(
        "fetch:  {:.0} M fetches/s among the accesses, {:.2} ns per block record, {:.2} fetches each",
        (all - accesses) as f64 / time / 1e6,
        time * 1e9 / blocks as f64,
        (all - accesses) as f64 / blocks as f64
    );
    Ok(())
}
