//! Executions instruction by instruction.
mod plans;

use memtrail_decode::{Consumer, Counter, Expander, StepSink, ThreadDecoder, Walker};
use memtrail_model::{Access, Kind, Thread};
use memtrail_plan::{Repeat, Shape, FIRST};
use memtrail_ring::record::CUT;
use plans::*;

const THREAD: Thread = Thread(2);

#[derive(Default)]
struct Steps {
    instructions: Vec<(u64, u32)>,
    accesses: Vec<Access>,
}

impl StepSink for Steps {
    fn instruction(&mut self, thread: Thread, pc: u64, bytes: u32) {
        assert_eq!(thread, THREAD);
        self.instructions.push((pc, bytes));
    }
    fn access(&mut self, access: &Access) {
        assert_eq!(self.instructions.last().map(|i| i.0), Some(access.pc));
        self.accesses.push(*access);
    }
}

fn decode<C: Consumer>(program: &Program, consumer: &mut C) {
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder
        .feed(&program.table, &program.words(), consumer)
        .and_then(|()| decoder.finish(&program.table, consumer))
        .unwrap();
}

#[test]
fn accesses_are_those_of_the_expander_and_follow_their_instructions() {
    let xsave = xsave();
    for seed in 0..300 {
        let program = program(seed, 60);
        let mut expander = Expander::new(&xsave, List::default());
        decode(&program, &mut expander);
        let expected = expander.into_sink().0;
        let mut walker = Walker::new(&xsave, Steps::default());
        decode(&program, &mut walker);
        let steps = walker.into_sink();
        assert!(steps.accesses == expected, "seed {seed}");
        let mut counter = Counter::new(&xsave);
        decode(&program, &mut counter);
        let counted = counter.counts(&program.table).instructions;
        assert_eq!(steps.instructions.len() as u64, counted, "seed {seed}");
        let limit = expected.len() as u64 / 2;
        let mut walker = Walker::new(&xsave, Steps::default()).with_limit(limit);
        decode(&program, &mut walker);
        assert!(walker.sink().accesses == expected[..limit as usize], "seed {seed}");
    }
}

#[test]
fn instructions_are_told_with_their_lengths_up_to_a_cut() {
    let xsave = xsave();
    let mut three = plan(
        3,
        3,
        vec![plain(0, Kind::Read, slot(0), 8), plain(2, Kind::Write, slot(1), 4)],
    );
    (three.pc, three.insn_offsets, three.bytes) = (0x1000, vec![0, 3, 5], 9);
    let table = table(vec![(64, three)]);
    let words = [64, 10, 20, 64, 30, 40, CUT, 2, 0, 0, 0, 0, 64, 50, 60];
    let mut walker = Walker::new(&xsave, Steps::default());
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder.feed(&table, &words, &mut walker).unwrap();
    decoder.finish(&table, &mut walker).unwrap();
    let steps = walker.into_sink();
    let all = [(0x1000, 3), (0x1003, 2), (0x1005, 4)];
    assert_eq!(steps.instructions, [&all[..], &all[..2], &all].concat());
    let addrs: Vec<u64> = steps.accesses.iter().map(|a| a.addr).collect();
    assert_eq!(addrs, [10, 20, 30, 50, 60]);
}

#[test]
fn elements_of_repeated_strings_are_executions_of_their_own() {
    let xsave = xsave();
    let stos = Shape::from(Repeat {
        source: None,
        dest: Some((at(slot(0)), Kind::Write)),
        size: 8,
        before: slot(1),
        after: FIRST + 2,
        low32: false,
        pointer: slot(0),
        moved: FIRST + 3,
        moved_is_rsi: false,
    });
    let table = table(vec![(64, one(5, Kind::Write, stos))]);
    let told = |words: &[u64]| {
        let mut walker = Walker::new(&xsave, Steps::default());
        let mut decoder = ThreadDecoder::new(THREAD);
        decoder.feed(&table, words, &mut walker).unwrap();
        decoder.finish(&table, &mut walker).unwrap();
        let steps = walker.into_sink();
        let addrs: Vec<u64> = steps.accesses.iter().map(|a| a.addr).collect();
        (steps.instructions.len(), addrs)
    };
    assert_eq!(told(&[64, 0x100, 3, 0, 0x118]), (3, vec![0x100, 0x108, 0x110]));
    // Without an element it was executed once; cut short before the first, it was not.
    assert_eq!(told(&[64, 0x100, 0, 0, 0x100]), (1, vec![]));
    assert_eq!(told(&[64, 0x100, 3, 9, 9, CUT, 0, 3, 0, 0x100, 0]), (0, vec![]));
    assert_eq!(
        told(&[64, 0x100, 3, 9, 9, CUT, 0, 1, 0, 0x110, 0]),
        (2, vec![0x100, 0x108])
    );
}
