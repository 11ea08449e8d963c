//! A record's id tells how its block was left; one that ends early has only the words that were
//! captured until then.
mod plans;

use memtrail_decode::{Counter, DecodeError, Expander, Kinds, Records, State, Table, ThreadDecoder};
use memtrail_model::{Kind, Thread};
use memtrail_plan::{Lin, LoopPlan, Plan, Record, Side, FIRST, RSP};
use memtrail_ring::record::{CUT, STATE};
use plans::*;

const THREAD: Thread = Thread(3);

/// (instruction, address) of each access.
type Told = Vec<(u64, u64)>;

/// Decodes buffers fast, one access after the other, and by counting: they must agree.
fn decode(table: &Table, buffers: &[&[u64]]) -> Result<(Told, State), DecodeError> {
    let xsave = xsave();
    let mut results = Vec::new();
    for one_by_one in [false, true] {
        let mut expander = Expander::new(&xsave, List::default());
        if one_by_one {
            expander = expander.one_by_one();
        }
        let mut decoder = ThreadDecoder::new(THREAD);
        let fed = buffers
            .iter()
            .try_for_each(|words| decoder.feed(table, words, &mut expander));
        let finished = fed.and_then(|()| decoder.finish(table, &mut expander));
        let told: Told = expander
            .into_sink()
            .0
            .iter()
            .map(|a| ((a.pc - PC) / 4, a.addr))
            .collect();
        results.push(finished.map(|()| (told, decoder.state())));
    }
    let mut counter = Counter::new(&xsave);
    let mut decoder = ThreadDecoder::new(THREAD);
    let fed = buffers
        .iter()
        .try_for_each(|words| decoder.feed(table, words, &mut counter));
    let counted = fed.and_then(|()| decoder.finish(table, &mut counter));
    let counts = counted.map(|()| (counter.counts(table).accesses(), decoder.state()));
    let expected = results[0].clone().map(|(told, state)| (told.len() as u64, state));
    assert_eq!(counts, expected, "counted and expanded differ");
    assert_eq!(results[0], results[1]);
    results.remove(0)
}

fn told(table: &Table, words: &[u64]) -> Told {
    decode(table, &[words]).unwrap().0
}

fn record(words: u16, side: Option<u16>, steady: bool) -> Record {
    Record { words, side, steady }
}

/// Four instructions: one reads from the stack, the others at a value each, captured just before.
/// Ways out behind the first three.
fn four() -> Plan {
    let mut p = plan(
        4,
        4,
        vec![
            plain(0, Kind::Read, Lin::slot(RSP), 8),
            plain(1, Kind::Read, slot(0), 8),
            plain(2, Kind::Write, slot(1), 8),
            plain(3, Kind::Write, slot(2), 8),
        ],
    );
    let rsp = Lin::slot(RSP);
    p.sides = vec![
        way_out(0, rsp.offset(16), 1),
        way_out(1, slot(0).offset(8), 2),
        way_out(2, rsp, 3),
    ];
    p
}

#[test]
fn a_record_that_ends_early_has_fewer_words() {
    let p = four();
    assert_eq!(p.ids(), 4);
    let records = [0, 1, 2, 3].map(|n| p.record(n));
    let expected = [
        record(4, None, false),
        record(1, Some(0), false),
        record(2, Some(1), false),
        record(3, Some(2), false),
    ];
    assert_eq!(records, expected);
    let t = table(vec![(ID, p), (ID + 4, four())]);
    for (id, words, side) in [
        (64, 4, None),
        (65, 1, Some(0)),
        (66, 2, Some(1)),
        (67, 3, Some(2)),
        (68, 4, None),
    ] {
        let found = t.find(id).unwrap();
        assert_eq!((found.words, found.side, found.steady), (words, side, false), "{id}");
        assert_eq!(found.block.id, if id < 68 { 64 } else { 68 });
    }
    let words = [
        &[STATE, 0x8000, 0, 0][..],
        &[64, 0x10, 0x20, 0x30],
        &[65],
        &[66, 0x11],
        &[67, 0x12, 0x22],
        &[64, 0x13, 0x23, 0x33],
    ]
    .concat();
    let expected = vec![
        (0, 0x8000),
        (1, 0x10),
        (2, 0x20),
        (3, 0x30),
        (0, 0x8000),
        // The stack pointer is what the ways out leave behind.
        (0, 0x8010),
        (1, 0x11),
        (0, 0x19),
        (1, 0x12),
        (2, 0x22),
        (0, 0x19),
        (1, 0x13),
        (2, 0x23),
        (3, 0x33),
    ];
    assert_eq!(told(&t, &words), expected);
    // Wherever a buffer ends.
    for split in [4, 8, 9, 11, 14] {
        let (got, _) = decode(&t, &[&words[..split], &words[split..]]).unwrap();
        assert_eq!(got, expected, "split at word {split}");
    }
}

#[test]
fn a_short_record_is_short_of_its_own_words() {
    let t = table(vec![(ID, four())]);
    let short = |words: &[u64]| decode(&t, &[words]).map(|_| ());
    assert_eq!(short(&[66, 1]), Ok(()));
    let (at, need, have) = (0, 3, 2);
    assert_eq!(short(&[67, 1]), Err(DecodeError::ShortRecord { at, need, have }));
    // A held record has exactly its words, whatever the state says.
    let xsave = xsave();
    for (held, need) in [(&[65, 1][..], 1), (&[66], 2), (&[67, 1], 3), (&[67, 1, 2, 3], 3)] {
        let state = State {
            held: held.to_vec(),
            ..State::default()
        };
        let mut expander = Expander::new(&xsave, List::default());
        let fed = ThreadDecoder::resume(THREAD, &state).feed(&t, &[65], &mut expander);
        let (at, have) = (0, held.len());
        assert_eq!(fed, Err(DecodeError::ShortRecord { at, need, have }));
    }
}

#[test]
fn a_record_of_a_way_out_is_not_cut() {
    let t = table(vec![(ID, four())]);
    let cut = [CUT, 1, 0, 0, 0, 0];
    let refused = Err(DecodeError::CutWithoutBlock);
    for left in [&[65][..], &[66, 1], &[67, 1, 2]] {
        let words = [left, &cut, &[64, 1, 2, 3]].concat();
        assert_eq!(decode(&t, &[&words]).map(|_| ()), refused);
        let behind = [&cut[..], &[64, 1, 2, 3]].concat();
        assert_eq!(decode(&t, &[left, &behind]).map(|_| ()), refused);
    }
    assert!(decode(&t, &[&[&[64, 1, 2, 3], &cut[..]].concat()]).is_ok());
    // Nor is it taken as one that is no words.
    let xsave = xsave();
    let mut what = Kinds::default();
    what.push(&t, 66, 1);
    what.push_other(true);
    let records = Records {
        kinds: &[0, 1],
        values: &[1, 1, 0, 0, 0, 0],
        what: &what,
    };
    let mut expander = Expander::new(&xsave, List::default());
    let fed = ThreadDecoder::new(THREAD).feed_records(&t, &records, &mut expander);
    assert_eq!(fed, Ok((0, 0)));
}

/// A loop whose first value moves and whose second is recorded anew each time; ways out behind its
/// first two instructions.
fn partly() -> Plan {
    let mut p = plan(
        3,
        3,
        vec![
            plain(0, Kind::Read, slot(0), 8),
            plain(1, Kind::Read, slot(1), 8),
            plain(2, Kind::Write, Lin::slot(RSP), 8),
        ],
    );
    p.exit_rsp = Lin::slot(RSP).offset(8);
    p.sides = vec![
        way_out(0, Lin::slot(RSP).offset(0x100), 3),
        way_out(1, slot(0).offset(1), 3),
    ];
    p.looping = Some(LoopPlan::Partly {
        steps: vec![by(FIRST, 8)],
        free: vec![FIRST + 1],
    });
    p
}

#[test]
fn later_iterations_have_ids_of_their_own_for_each_way_out() {
    let p = partly();
    assert_eq!((p.ids(), p.steady_ids()), (6, 3));
    let records: Vec<Record> = (0..6).map(|n| p.record(n)).collect();
    let expected = [
        record(3, None, false),
        record(3, Some(0), false),
        record(3, Some(1), false),
        record(2, None, true),
        record(2, Some(0), true),
        record(2, Some(1), true),
    ];
    assert_eq!(records, expected);
    let t = table(vec![(ID, p)]);
    let state = [STATE, 0x8000, 0, 0];
    // Through the second way out in the fourth iteration, and through the first in the first and in
    // the second.
    let words = [
        &state[..],
        &[64, 0x10, 1, 67, 2, 67, 3, 69, 4],
        &[65, 0x50, 5],
        &[64, 0x60, 6, 68, 7],
        &[64, 0x90, 8],
    ]
    .concat();
    let expected = vec![
        (0, 0x10),
        (1, 1),
        (2, 0x8000),
        (0, 0x18),
        (1, 2),
        (2, 0x8008),
        (0, 0x20),
        (1, 3),
        (2, 0x8010),
        (0, 0x28),
        (1, 4),
        (0, 0x50),
        (0, 0x60),
        (1, 6),
        (2, 0x129),
        (0, 0x68),
        (0, 0x90),
        (1, 8),
        (2, 0x231),
    ];
    assert_eq!(told(&t, &words), expected);
    for split in [4, 7, 9, 11, 13, 16, 19, 21] {
        let (got, _) = decode(&t, &[&words[..split], &words[split..]]).unwrap();
        assert_eq!(got, expected, "split at word {split}");
    }
    // Once it was left there is no later iteration.
    for left in [&[65, 0x10, 1][..], &[64, 0x10, 1, 69, 2]] {
        for id in [67, 68, 69] {
            let words = [&state[..], left, &[id, 1, 64, 0x10, 1]].concat();
            let lost = Err(DecodeError::SteadyWithoutFirst { id });
            assert_eq!(decode(&t, &[&words]).map(|_| ()), lost);
        }
    }
}

#[test]
fn a_loop_with_one_record_ends_at_a_way_out() {
    let counter = by(FIRST, 8);
    let mut p = plan(
        3,
        3,
        vec![plain(0, Kind::Read, slot(0), 8), plain(2, Kind::Write, slot(0), 8)],
    );
    // The counter moves with the second instruction.
    p.sides = vec![
        way_out(0, Lin::slot(RSP), 3),
        Side {
            moved: 8,
            ..way_out(1, Lin::slot(RSP), 3)
        },
    ];
    p.looping = Some(LoopPlan::Affine {
        steps: vec![counter],
        counter,
    });
    let t = table(vec![(ID, p)]);
    let all = |n: u64| (0..n).flat_map(|i| [(0, 8 * i), (2, 8 * i)]).collect::<Told>();
    assert_eq!(told(&t, &[64, 0, 24]), all(3));
    for trips in [0, 1, 3] {
        let expected = [all(trips), vec![(0, 8 * trips)]].concat();
        assert_eq!(told(&t, &[65, 0, 8 * trips]), expected);
        assert_eq!(told(&t, &[66, 0, 8 * trips + 8]), expected);
    }
}

#[test]
fn ways_out_with_impossible_words_are_refused() {
    let insert = |p: Plan| table(Vec::new()).insert(ID, p);
    let with = |mut p: Plan, words: u16| {
        p.sides[0].words = words;
        insert(p)
    };
    for words in 1..=4 {
        assert_eq!(with(four(), words), Ok(()));
    }
    for words in [0, 5, u16::MAX] {
        assert!(with(four(), words).is_err(), "{words}");
    }
    assert_eq!(with(partly(), 3), Ok(()));
    for words in [0, 1, 2, 4] {
        assert!(with(partly(), words).is_err(), "{words}");
    }
    let many = |n: u16| {
        let mut p = plan(1, 1000, Vec::new());
        p.sides = (0..n).map(|i| way_out(i, Lin::slot(RSP).offset(i.into()), 1)).collect();
        p
    };
    let t = table(vec![(ID, many(254))]);
    let (_, state) = decode(&t, &[&[STATE, 0, 0, 0, 64 + 254, 64 + 1, 64 + 129]]).unwrap();
    assert_eq!(state.carried[0], 253 + 128);
    assert!(insert(many(255)).is_err() && insert(many(999)).is_err());
}

#[test]
fn values_that_a_record_does_not_have_never_panic() {
    let xsave = xsave();
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut program = program(seed, 30);
        let mut plans: Vec<(u32, Plan)> = Vec::new();
        for block in program.table.blocks() {
            let mut p = block.plan.clone();
            let last = p.words + FIRST - 2;
            for side in &mut p.sides {
                // The stack pointer follows from the last word, which the record may not have.
                if p.looping.is_none() {
                    side.words = 1 + rng.below(p.words.into()) as u16;
                }
                if p.words > 1 && rng.one_in(2) {
                    side.rsp = Lin::slot(last).offset(8);
                }
            }
            plans.push((block.id, p));
        }
        let mut words = Vec::new();
        for record in &program.records {
            let found = plans
                .iter()
                .find(|(id, p)| record[0].wrapping_sub((*id).into()) < p.ids().into());
            let length = found.map_or(record.len(), |(id, p)| p.record(record[0] as u32 - id).words.into());
            words.extend(record.iter().copied().chain(std::iter::repeat(7)).take(length));
        }
        program.table = table(plans);
        program.table.number_fetches();
        for split in [0, words.len() / 2, words.len()] {
            let mut counter = Counter::new(&xsave);
            let mut decoder = ThreadDecoder::new(THREAD);
            let mut expander = Expander::new(&xsave, List::default()).with_limit(100_000);
            let mut expanding = ThreadDecoder::new(THREAD);
            for part in [&words[..split], &words[split..]] {
                // Damage may be found or not.
                let _ = decoder.feed(&program.table, part, &mut counter);
                let _ = expanding.feed(&program.table, part, &mut expander);
            }
            let _ = decoder.finish(&program.table, &mut counter);
            let _ = expanding.finish(&program.table, &mut expander);
        }
    }
}
