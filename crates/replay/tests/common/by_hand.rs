//! Recordings made of records.
#![allow(dead_code)] // not every test needs everything

use super::common::{blocks, header, table};
use memtrail_decode::{Block, Counter, Message, ThreadDecoder};
use memtrail_model::Thread;
use memtrail_trace::{compress, Leaves, StreamHead, Totals, Writer};

/// A record of a loop that reads 4 bytes at `from`, and so on, `trips` times.
pub fn scan(block: &Block, from: u64, trips: u64) -> Vec<u64> {
    vec![block.id.into(), from, from + 4 * trips]
}

/// What each thread does in each of its chunks, with the time at which it begins; a chunk takes
/// 1000 ticks.
pub struct Thread0 {
    pub thread: u32,
    pub chunks: Vec<(u64, Vec<u64>)>,
}

/// A recording of threads whose chunks are given as records.
pub fn recorded(threads: &[Thread0]) -> Vec<u8> {
    recorded_with(threads, |totals| totals)
}

/// The same, with other totals.
pub fn recorded_with(threads: &[Thread0], other: impl FnOnce(Totals) -> Totals) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let mut leaves = Leaves::default();
    let mut all = table();
    for block in blocks() {
        all.insert_with(block.id, block.plan.clone(), block.sources.clone())
            .unwrap();
        leaves.add(&block);
    }
    writer.blocks(&blocks()).unwrap();
    let xsave = header().xsave_table();
    let mut counter = Counter::new(&xsave);
    let mut words = 0;
    for t in threads {
        let message = Message::Thread {
            thread: t.thread,
            tid: 1,
            tsc: 100,
        };
        writer.message(0, &message).unwrap();
        let mut decoder = ThreadDecoder::new(Thread(t.thread));
        let mut first = 0;
        for (begin, records) in &t.chunks {
            let (state, before) = (decoder.state(), counter.accesses());
            decoder.feed(&all, records, &mut counter).unwrap();
            let head = StreamHead {
                thread: t.thread,
                process: 0,
                first,
                accesses: counter.accesses() - before,
                begin: *begin,
                end: begin + 1000,
                words: records.len() as u64,
            };
            first += head.accesses;
            words += head.words;
            let (payload, raw) = compress(records, state, *begin, &leaves).unwrap();
            writer.stream(&head, raw, &payload).unwrap();
        }
        decoder.finish(&all, &mut counter).unwrap();
    }
    let totals = Totals {
        ring_words: words,
        tsc_hz: 1_000_000,
        ..Totals::default()
    };
    let totals = totals.with_counts(&counter.counts(&all));
    writer.finish(&other(totals)).unwrap().0
}
