//! A thread's accesses, a few at a time.
mod plans;

use memtrail_decode::{Expander, Table, ThreadDecoder};
use memtrail_model::{Access, Kind, Thread};
use memtrail_plan::{PlannedAccess, Repeat, Shape, FIRST};
use memtrail_ring::record::CUT;
use plans::*;

const THREAD: Thread = Thread(1);

/// Accesses in slices of `n`, as long as there are any; the last may be shorter.
fn slices(table: &Table, buffers: &[&[u64]], n: u64) -> Vec<Vec<Access>> {
    let xsave = xsave();
    let mut expander = Expander::new(&xsave, List::default()).with_limit(0);
    let mut decoder = ThreadDecoder::new(THREAD);
    let (mut slices, mut buffers, mut at) = (Vec::new(), buffers.iter().copied(), 0);
    let mut words = buffers.next();
    let mut finished = false;
    loop {
        expander.refill(table, n).unwrap();
        while !expander.full() && !finished {
            match words {
                Some(buffer) => {
                    at += decoder.feed_some(table, &buffer[at..], &mut expander).unwrap();
                    if at == buffer.len() {
                        (words, at) = (buffers.next(), 0);
                    }
                }
                None => {
                    decoder.finish(table, &mut expander).unwrap();
                    finished = true;
                }
            }
        }
        let slice = std::mem::take(&mut expander.flush().0);
        if slice.is_empty() {
            assert!(finished && !expander.is_paused());
            return slices;
        }
        slices.push(slice);
    }
}

#[test]
fn slices_put_together_are_the_whole() {
    let xsave = xsave();
    for seed in 0..150 {
        let program = program(seed, 30);
        let table = &program.table;
        let mut expander = Expander::new(&xsave, List::default()).one_by_one();
        let mut decoder = ThreadDecoder::new(THREAD);
        decoder.feed(table, &program.words(), &mut expander).unwrap();
        decoder.finish(table, &mut expander).unwrap();
        let expected = expander.into_sink().0;
        let whole: &[u64] = &program.words();
        let by_record: Vec<&[u64]> = program.records.iter().map(Vec::as_slice).collect();
        for n in [1, 2, 3, 50, 1000] {
            for buffers in [&[whole][..], &by_record] {
                let slices = slices(table, buffers, n);
                assert!(slices.concat() == expected, "seed {seed}, slices of {n}");
                let full = slices.iter().rev().skip(1).all(|s| s.len() as u64 == n);
                assert!(full, "seed {seed}, slices of {n}");
            }
        }
    }
}

#[test]
fn huge_repeats_are_taken_in_slices_without_going_through_them_again() {
    let shape = Shape::from(Repeat {
        source: Some(at(slot(1))),
        dest: Some((at(slot(2)), Kind::Write)),
        size: 1,
        before: slot(0),
        after: FIRST + 3,
        low32: false,
        pointer: slot(1),
        moved: FIRST + 4,
        moved_is_rsi: true,
    });
    let kind = Kind::Write;
    let t = table(vec![(ID, plan(6, 1, vec![PlannedAccess { insn: 0, kind, shape }]))]);
    let xsave = xsave();
    let elements = 1 << 40;
    // The whole instruction, or one that was interrupted near its end.
    for tail in [&[][..], &[CUT, 0, 5, 0x1000 + elements - 5, 0, 0]] {
        let mut words = vec![64, elements, 0x1000, 1 << 50, 0, 0x1000 + elements];
        words.extend_from_slice(tail);
        let mut expander = Expander::new(&xsave, List::default()).with_limit(3);
        let mut decoder = ThreadDecoder::new(THREAD);
        decoder.feed(&t, &words, &mut expander).unwrap();
        decoder.finish(&t, &mut expander).unwrap();
        let mut taken = 3;
        for n in [1, 2, 3, 8, 501, 1000, 1001].repeat(20) {
            assert!(expander.full() && expander.is_paused());
            expander.refill(&t, n).unwrap();
            taken += n;
        }
        let list = expander.into_sink().0;
        assert_eq!(list.len() as u64, taken);
        for (i, a) in list.iter().enumerate() {
            let element = i as u64 / 2;
            let read = (Kind::Read, 0x1000 + element);
            let write = (Kind::Write, (1 << 50) + element);
            assert_eq!((a.kind, a.addr), if i % 2 == 0 { read } else { write });
        }
    }
}
