//! Several threads' records, decoded a slice at a time and put in one order.
#[path = "../../decode/tests/plans/mod.rs"]
mod plans;

use memtrail_decode::{DecodeError, Expander, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Thread};
use memtrail_plan::XsaveTable;
use memtrail_replay::{interleave, AccessStream as Stream, Order, Segment, SLICE};
use plans::*;

/// A thread's records in pieces, each a segment of so many ticks.
struct Replayed<'a> {
    program: &'a Program,
    pieces: Vec<(Vec<u64>, Segment)>,
    next: usize,
    decoder: ThreadDecoder,
    expander: Expander<'a, List>,
    /// Words of segments that were begun, not all decoded yet.
    words: Vec<u64>,
    most: usize,
}

const TICKS: u64 = 1000;

impl<'a> Replayed<'a> {
    fn new(program: &'a Program, thread: Thread, xsave: &'a XsaveTable) -> Replayed<'a> {
        let mut decoder = ThreadDecoder::new(thread);
        let mut expander = Expander::new(xsave, List::default());
        let mut pieces = Vec::new();
        let mut begin = 0;
        for records in program.records.chunks(7) {
            let words = records.concat();
            decoder.feed(&program.table, &words, &mut expander).unwrap();
            let accesses = std::mem::take(&mut expander.flush().0).len() as u64;
            let end = begin + TICKS;
            pieces.push((words, Segment { begin, end, accesses }));
            begin = end;
        }
        Replayed {
            program,
            pieces,
            next: 0,
            decoder: ThreadDecoder::new(thread),
            expander: Expander::new(xsave, List::default()).with_limit(0),
            words: Vec::new(),
            most: 0,
        }
    }
}

impl Stream for Replayed<'_> {
    type Error = DecodeError;

    fn segment<S: AccessSink>(&mut self, _sink: &mut S) -> Result<Option<Segment>, DecodeError> {
        let Some((words, segment)) = self.pieces.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        self.words.extend_from_slice(words);
        Ok(Some(*segment))
    }

    fn produce<S: AccessSink>(&mut self, n: u64, sink: &mut S) -> Result<u64, DecodeError> {
        let table = &self.program.table;
        self.expander.refill(table, n)?;
        let fed = self.decoder.feed_some(table, &self.words, &mut self.expander)?;
        self.words.drain(..fed);
        assert!(self.expander.full(), "a segment has fewer accesses than it said");
        let list = &mut self.expander.flush().0;
        self.most = self.most.max(list.len());
        sink.accesses(list);
        list.clear();
        Ok(n)
    }
}

#[test]
fn every_thread_keeps_its_order_and_slices_keep_theirs() {
    let xsave = xsave();
    for seed in 0..60 {
        let programs: Vec<Program> = (0..3).map(|i| program(seed * 3 + i, 40)).collect();
        let streams = || -> Vec<Replayed> {
            let threads = programs.iter().zip(0..);
            threads.map(|(p, i)| Replayed::new(p, Thread(i), &xsave)).collect()
        };
        let mut expected: Vec<Vec<Access>> = Vec::new();
        for (program, i) in programs.iter().zip(0..) {
            let mut expander = Expander::new(&xsave, List::default()).one_by_one();
            let mut decoder = ThreadDecoder::new(Thread(i));
            decoder.feed(&program.table, &program.words(), &mut expander).unwrap();
            expected.push(expander.into_sink().0);
        }
        for order in [Order::Time, Order::EqualRate { quantum: 10 }] {
            let mut streams = streams();
            let mut all = List::default();
            interleave(&mut streams, order, &mut all).unwrap();
            for (i, expected) in expected.iter().enumerate() {
                let mine = all.0.iter().filter(|a| a.thread.0 == i as u32);
                assert!(mine.eq(expected), "seed {seed}, thread {i}, {order:?}");
                assert!(streams[i].most as u64 <= SLICE);
            }
            if order != Order::Time {
                let turns = all.0.iter().take(30).map(|a| a.thread.0);
                let long = expected.iter().all(|e| e.len() >= 10);
                assert!(!long || turns.eq((0..30).map(|i| i / 10)), "seed {seed}");
            }
        }
    }
}
