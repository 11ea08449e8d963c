//! A thread's records, read from the middle.
mod plans;

use memtrail_decode::{Counter, DecodeError, Expander, Fed, State, Table, ThreadDecoder};
use memtrail_model::{Access, Thread};
use memtrail_plan::{LoopPlan, FIRST};
use memtrail_ring::record::{END, STATE};
use plans::*;

const THREAD: Thread = Thread(5);

/// The accesses of `words`, and the state after them; `last` if nothing follows.
fn decode(mut decoder: ThreadDecoder, table: &Table, words: &[u64], last: bool) -> (Vec<Access>, State) {
    let xsave = xsave();
    let mut expander = Expander::new(&xsave, List::default());
    decoder.feed(table, words, &mut expander).unwrap();
    let state = decoder.state();
    if last {
        decoder.finish(table, &mut expander).unwrap();
    }
    (expander.into_sink().0, state)
}

#[test]
fn two_halves_are_the_whole_wherever_a_buffer_ends() {
    for seed in 0..30 {
        let program = program(seed, 40);
        let (table, words) = (&program.table, program.words());
        let (whole, _) = decode(ThreadDecoder::new(THREAD), table, &words, true);
        let mut split = 0;
        for record in &program.records {
            let (mut accesses, state) = decode(ThreadDecoder::new(THREAD), table, &words[..split], false);
            let resumed = ThreadDecoder::resume(THREAD, &state);
            assert_eq!(resumed.state(), state);
            accesses.extend(decode(resumed, table, &words[split..], true).0);
            assert_eq!(accesses, whole, "seed {seed}, split at word {split}");
            split += record.len();
        }
    }
}

#[test]
fn counting_leaves_the_same_state_as_expanding() {
    let xsave = xsave();
    for (seed, records) in (0..120).flat_map(|seed| [1, 2, 5, 13].map(|n| (seed, n))) {
        let program = program(seed, 40);
        let table = &program.table;
        let [mut counting, mut expanding, mut slow] = [0; 3].map(|_| ThreadDecoder::new(THREAD));
        let mut counter = Counter::new(&xsave);
        let mut expander = Expander::new(&xsave, List::default());
        let mut one_by_one = Expander::new(&xsave, List::default()).one_by_one();
        for buffer in program.records.chunks(records).map(<[_]>::concat) {
            counting.feed(table, &buffer, &mut counter).unwrap();
            expanding.feed(table, &buffer, &mut expander).unwrap();
            slow.feed(table, &buffer, &mut one_by_one).unwrap();
            assert_eq!(counting.state(), slow.state(), "seed {seed}, {records} records");
            assert_eq!(expanding.state(), slow.state(), "seed {seed}, {records} records");
        }
    }
}

#[test]
fn decoding_stops_before_unknown_blocks_and_goes_on_when_they_are_known() {
    let read = |insns| plan(2, insns, vec![plain(0, memtrail_model::Kind::Read, slot(0), 8)]);
    let mut t = table(vec![(ID, read(1))]);
    let words = [64, 1, 64, 2, 65, 3, 64, 4, END, 9];
    let xsave = xsave();
    let mut counter = Counter::new(&xsave);
    let mut decoder = ThreadDecoder::new(THREAD);
    let fed = decoder.feed_known(&t, &words, &mut counter);
    assert_eq!(fed, Ok(Fed::Unknown { id: 65, at: 4 }));
    assert_eq!(counter.counts(&t).instructions, 2);
    t.insert(65, read(100)).unwrap();
    let fed = decoder.feed_known(&t, &words[4..], &mut counter);
    assert_eq!(fed, Ok(Fed::End(4)));
    decoder.finish(&t, &mut counter).unwrap();
    assert_eq!(counter.counts(&t).instructions, 103);
    let error = decoder.feed(&t, &[66, 0], &mut counter);
    assert_eq!(error, Err(DecodeError::UnknownBlock { id: 66 }));
}

fn partly() -> memtrail_plan::Plan {
    let mut p = plan(3, 2, vec![plain(0, memtrail_model::Kind::Read, slot(0), 8)]);
    p.looping = Some(LoopPlan::Partly {
        steps: vec![by(FIRST, 8)],
        free: vec![FIRST + 1],
    });
    p
}

#[test]
fn a_state_has_what_the_next_record_may_need() {
    let t = table(vec![(ID, partly())]);
    let mut decoder = ThreadDecoder::new(THREAD);
    let xsave = xsave();
    let mut counter = Counter::new(&xsave);
    let mut feed = |words: &[u64]| {
        decoder.feed(&t, words, &mut counter).unwrap();
        decoder.state()
    };
    let mut expected = State {
        carried: [1, 2, 3],
        ..State::default()
    };
    assert_eq!(feed(&[STATE, 1, 2, 3]), expected);
    expected.held = vec![64, 0x100, 7];
    assert_eq!(feed(&[64, 0x100, 7]), expected);
    expected.in_loop = Some(ID);
    expected.captured = vec![0x108, 7];
    expected.held = vec![65, 9];
    assert_eq!(feed(&[65, 9]), expected);
    expected.captured = vec![0x110, 9];
    expected.held.clear();
    assert_eq!(feed(&[STATE, 1, 2, 3]), expected);
}

#[test]
fn states_that_do_not_fit_are_errors() {
    let t = table(vec![(ID, partly())]);
    let feed = |state: State, words: &[u64]| {
        let xsave = xsave();
        let mut expander = Expander::new(&xsave, List::default());
        ThreadDecoder::resume(THREAD, &state).feed(&t, words, &mut expander)
    };
    let in_loop = |block, captured| State {
        in_loop: Some(block),
        captured,
        ..State::default()
    };
    let steady = [65, 1, STATE, 0, 0, 0];
    assert_eq!(feed(in_loop(ID, vec![1, 2]), &steady), Ok(()));
    let lost = Err(DecodeError::SteadyWithoutFirst { id: 65 });
    for captured in [vec![], vec![1], vec![1, 2, 3], vec![0; 1000]] {
        assert_eq!(feed(in_loop(ID, captured), &steady), lost);
    }
    assert_eq!(feed(in_loop(99, vec![1, 2]), &steady), lost);
    let held = |held: &[u64]| State {
        held: held.to_vec(),
        ..State::default()
    };
    let next = [STATE, 0, 0, 0];
    assert_eq!(feed(held(&[64, 1, 2]), &next), Ok(()));
    assert_eq!(feed(held(&[65, 1]), &next), lost);
    let unknown = |id| Err(DecodeError::UnknownBlock { id });
    assert_eq!(feed(held(&[9]), &next), unknown(9));
    assert_eq!(feed(held(&[STATE, 1, 2, 3]), &next), unknown(STATE));
    assert_eq!(feed(held(&[u64::MAX, 1]), &next), unknown(u64::MAX));
    for (wrong, have) in [(&[64][..], 1), (&[64, 1, 2, 3], 4)] {
        let (at, need) = (0, 3);
        assert_eq!(
            feed(held(wrong), &next),
            Err(DecodeError::ShortRecord { at, need, have })
        );
    }
}
