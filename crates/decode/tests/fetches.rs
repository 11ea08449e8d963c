//! Fetches: every executed instruction, in its place among the accesses.
mod plans;

use memtrail_decode::{Expander, Fed, StepSink, Table, ThreadDecoder, Walker};
use memtrail_model::{Access, AccessSink, Event, Kind, LoopAccess, Point, Reply, Thread, Wants};
use memtrail_plan::{Lin, LoopPlan, Mask, Repeat, Shape, FIRST, RSP};
use memtrail_ring::record::CUT;
use plans::*;
use Kind::{Fetch, Read, Write};

const THREAD: Thread = Thread(2);

/// Everything in order; takes loops if it is told to.
#[derive(Default)]
struct All {
    list: Vec<Access>,
    loops: bool,
    runs: Vec<(u64, Vec<LoopAccess>)>,
}

impl AccessSink for All {
    fn accesses(&mut self, batch: &[Access]) {
        self.list.extend_from_slice(batch);
    }
    fn wants(&self) -> Wants {
        Wants {
            fetches: true,
            loops: self.loops.then_some(0),
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return Reply::NOTHING;
        };
        self.runs.push((run.trips, run.body.to_vec()));
        self.list.extend(run.accesses());
        Reply::skip(run.trips)
    }
}

/// What a walker tells, as fetches and accesses.
#[derive(Default)]
struct Steps(Vec<Access>);

impl StepSink for Steps {
    fn instruction(&mut self, thread: Thread, pc: u64, bytes: u32) {
        self.0.push(Access {
            thread,
            pc,
            kind: Fetch,
            addr: pc,
            size: bytes,
            point: Point::NONE,
        });
    }
    fn access(&mut self, access: &Access) {
        self.0.push(*access);
    }
}

fn decode(table: &Table, words: &[u64], expander: Expander<'_, All>) -> All {
    let mut expander = expander;
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder.feed(table, words, &mut expander).unwrap();
    decoder.finish(table, &mut expander).unwrap();
    expander.into_sink()
}

fn walk(table: &Table, words: &[u64], limit: u64) -> Vec<Access> {
    let xsave = xsave();
    let mut walker = Walker::new(&xsave, Steps::default()).with_limit(limit);
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder.feed(table, words, &mut walker).unwrap();
    decoder.finish(table, &mut walker).unwrap();
    walker.into_sink().0
}

/// Fetches without their points.
fn bare(list: &[Access]) -> Vec<Access> {
    let without = |a: &Access| Access {
        point: if a.kind == Fetch { Point::NONE } else { a.point },
        ..*a
    };
    list.iter().map(without).collect()
}

#[test]
fn all_ways_of_expanding_agree_with_the_walker() {
    let xsave = xsave();
    for seed in 0..400 {
        let mut program = program(seed, 60);
        let words = program.words();
        let expected = walk(&program.table, &words, u64::MAX);
        let expand = |table: &Table, loops| {
            let sink = All {
                loops,
                ..All::default()
            };
            decode(table, &words, Expander::new(&xsave, sink))
        };
        let unnumbered = expand(&program.table, false).list;
        assert!(unnumbered == expected, "seed {seed}");
        program.table.number_fetches();
        let slow = decode(
            &program.table,
            &words,
            Expander::new(&xsave, All::default()).one_by_one(),
        );
        assert!(bare(&slow.list) == expected, "seed {seed}");
        assert!(expand(&program.table, false).list == slow.list, "seed {seed}");
        assert!(expand(&program.table, true).list == slow.list, "seed {seed}");
        let points = program.table.points();
        for fetch in slow.list.iter().filter(|a| a.kind == Fetch) {
            let point = points[fetch.point.index()];
            let found = (point.pc, point.kind, point.bytes, point.size);
            assert_eq!(found, (fetch.pc, Fetch, fetch.size, fetch.size));
        }
    }
}

#[test]
fn nothing_follows_the_last_access_of_a_limit() {
    let xsave = xsave();
    for seed in 0..300 {
        let mut program = program(seed, 40);
        program.table.number_fetches();
        let words = program.words();
        let all = walk(&program.table, &words, u64::MAX)
            .iter()
            .filter(|a| a.kind != Fetch)
            .count() as u64;
        for limit in [0, 1, 2, all / 3, all / 2, all.saturating_sub(1)] {
            let expander = Expander::new(&xsave, All::default()).with_limit(limit);
            let list = decode(&program.table, &words, expander).list;
            let expected = walk(&program.table, &words, limit);
            assert!(bare(&list) == expected, "seed {seed}, limit {limit}");
            assert!(limit == 0 || list.last().is_some_and(|a| a.kind != Fetch));
        }
    }
}

#[test]
fn a_thread_can_be_stopped_anywhere() {
    let xsave = xsave();
    for seed in 0..200 {
        let mut program = program(seed, 40);
        program.table.number_fetches();
        let (table, words) = (&program.table, program.words());
        let expected = decode(table, &words, Expander::new(&xsave, All::default())).list;
        let mut rng = Rng::new(seed);
        let mut expander = Expander::new(&xsave, All::default()).with_limit(0);
        let mut decoder = ThreadDecoder::new(THREAD);
        let mut at = 0;
        loop {
            expander.refill(table, rng.pick(&[1, 2, 3, 17, 500])).unwrap();
            if expander.full() {
                continue;
            }
            match decoder.feed_known(table, &words[at..], &mut expander).unwrap() {
                Fed::Full(n) => at += n,
                fed => {
                    assert!(matches!(fed, Fed::End(_)));
                    break;
                }
            }
        }
        while expander.is_paused() {
            expander.refill(table, 1).unwrap();
        }
        expander.refill(table, 1 << 40).unwrap();
        decoder.finish(table, &mut expander).unwrap();
        assert!(expander.into_sink().list == expected, "seed {seed}");
    }
}

/// (kind, address, size) of each.
fn told(plan: memtrail_plan::Plan, words: &[u64]) -> Vec<(Kind, u64, u32)> {
    let (xsave, mut table) = (xsave(), table(vec![(64, plan)]));
    table.number_fetches();
    let all = decode(&table, words, Expander::new(&xsave, All::default()));
    let slow = decode(&table, words, Expander::new(&xsave, All::default()).one_by_one());
    assert_eq!(all.list, slow.list);
    all.list.iter().map(|a| (a.kind, a.addr, a.size)).collect()
}

#[test]
fn instructions_without_accesses_are_told_and_those_behind_a_way_out_are_not() {
    let mut three = plan(2, 3, vec![plain(1, Read, slot(0), 8)]);
    (three.insn_offsets, three.bytes) = (vec![0, 3, 5], 9);
    three.sides = vec![way_out(0, Lin::slot(RSP), 1), way_out(1, Lin::slot(RSP), 2)];
    let first = [(Fetch, PC, 3)];
    let second = [(Fetch, PC + 3, 2), (Read, 7, 8)];
    let third = [(Fetch, PC + 5, 4)];
    let words = [64, 7, 65, 66, 7, 64, 7, CUT, 2, 0, 0, 0, 0, 64, 7, CUT, 0, 0, 0, 0, 0];
    let whole = [&first[..], &second, &third].concat();
    let expected = [&whole[..], &first, &first, &second, &first, &second].concat();
    assert_eq!(told(three, &words), expected);
}

#[test]
fn a_string_instruction_is_fetched_once() {
    let movs = Shape::from(Repeat {
        source: Some(at(slot(0))),
        dest: Some((at(slot(1)), Write)),
        size: 8,
        before: slot(2),
        after: FIRST + 3,
        low32: false,
        pointer: slot(1),
        moved: FIRST + 4,
        moved_is_rsi: false,
    });
    let record = |elements: u64| [64, 0x100, 0x900, elements, 0, 0x900 + 8 * elements];
    let fetch = (Fetch, PC, 4);
    let element = |i: u64| [(Read, 0x100 + 8 * i, 8), (Write, 0x900 + 8 * i, 8)];
    let expected = |n: u64| [vec![fetch], (0..n).flat_map(element).collect()].concat();
    let plan = || one(6, Write, movs.clone());
    assert_eq!(told(plan(), &record(0)), expected(0));
    assert_eq!(told(plan(), &record(1)), expected(1));
    assert_eq!(told(plan(), &record(5)), expected(5));
    // Cut short before the first element it was not executed; after two of three it was.
    let cut = |done: u64| [&record(3)[..], &[CUT, 0, 3 - done, 0, 0x900 + 8 * done, 0]].concat();
    assert_eq!(told(plan(), &cut(0)), []);
    assert_eq!(told(plan(), &cut(2)), expected(2));
}

#[test]
fn an_instruction_whose_lanes_are_all_off_is_fetched() {
    let shape = Shape::Elements {
        addr: at(slot(0)),
        lanes: 4,
        mask: Mask::Bits(FIRST + 1),
        size: 8,
    };
    assert_eq!(told(one(3, Read, shape.clone()), &[64, 0x100, 0]), [(Fetch, PC, 4)]);
    let lanes = [(Fetch, PC, 4), (Read, 0x108, 8), (Read, 0x118, 8)];
    assert_eq!(told(one(3, Read, shape), &[64, 0x100, 0b1010]), lanes);
}

#[test]
fn the_body_of_a_loop_has_fetches_that_do_not_move() {
    let mut p = plan(3, 3, vec![plain(1, Write, slot(0), 8)]);
    p.looping = Some(LoopPlan::Affine {
        steps: vec![by(FIRST, 8)],
        counter: by(FIRST, 8),
    });
    let mut idle = plan(3, 2, vec![]);
    idle.pc = PC + 0x100;
    idle.looping = p.looping.clone();
    let (xsave, mut table) = (xsave(), table(vec![(64, p), (65, idle)]));
    table.number_fetches();
    let words = [64, 0x1000, 0x1000 + 8 * 1000, 65, 0, 8 * 77];
    let sink = All {
        loops: true,
        ..All::default()
    };
    let all = decode(&table, &words, Expander::new(&xsave, sink));
    let access = |pc, kind, point, size, addr, stride| LoopAccess {
        pc,
        kind,
        point: Point(point),
        size,
        addr,
        stride,
    };
    let fetch = |pc, point| access(pc, Fetch, point, 4, pc, 0);
    let body = vec![
        fetch(PC, 1),
        fetch(PC + 4, 2),
        access(PC + 4, Write, 0, 8, 0x1000, 8),
        fetch(PC + 8, 3),
    ];
    let idle = vec![fetch(PC + 0x100, 4), fetch(PC + 0x104, 5)];
    assert_eq!(all.runs, [(1000, body), (77, idle)]);
    assert_eq!(all.list.len(), 4000 + 154);
    assert_eq!(
        all.list,
        decode(&table, &words, Expander::new(&xsave, All::default())).list
    );
}
