//! Loops handed on whole.
mod plans;

use memtrail_decode::{Expander, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Event, Kind, LoopAccess, LoopRun, Point, Reply, Thread, Wants};
use memtrail_plan::{Derived, Lin, LoopPlan, Narrow, Plan, Step, FIRST, RSP};
use plans::*;

const THREAD: Thread = Thread(4);

/// Takes loops, all or every other one, whole or the first half, and expands them itself.
struct Taker {
    list: Vec<Access>,
    runs: Vec<(u64, Vec<LoopAccess>)>,
    every: usize,
    offered: usize,
    halves: bool,
}

impl AccessSink for Taker {
    fn accesses(&mut self, batch: &[Access]) {
        self.list.extend_from_slice(batch);
    }
    fn wants(&self) -> Wants {
        Wants {
            loops: Some(0),
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return Reply::NOTHING;
        };
        self.offered += 1;
        if self.offered % self.every != 0 {
            return Reply::NOTHING;
        }
        assert_eq!(run.thread, THREAD);
        let trips = if self.halves { run.trips / 2 } else { run.trips };
        self.list.extend(LoopRun { trips, ..run }.accesses());
        self.runs.push((run.trips, run.body.to_vec()));
        Reply::skip(trips)
    }
}

fn take(program: &Program, every: usize, limit: u64) -> Taker {
    take_some(program, every, limit, false)
}

fn take_some(program: &Program, every: usize, limit: u64, halves: bool) -> Taker {
    let taker = Taker {
        list: Vec::new(),
        runs: Vec::new(),
        every,
        offered: 0,
        halves,
    };
    let xsave = xsave();
    let mut expander = Expander::new(&xsave, taker).with_limit(limit);
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder
        .feed(&program.table, &program.words(), &mut expander)
        .and_then(|()| decoder.finish(&program.table, &mut expander))
        .unwrap();
    expander.into_sink()
}

fn one_by_one(program: &Program) -> Vec<Access> {
    let xsave = xsave();
    let mut expander = Expander::new(&xsave, List::default()).one_by_one();
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder
        .feed(&program.table, &program.words(), &mut expander)
        .and_then(|()| decoder.finish(&program.table, &mut expander))
        .unwrap();
    expander.into_sink().0
}

#[test]
fn loops_taken_whole_expand_to_their_accesses() {
    let mut taken = 0;
    for seed in 0..600 {
        let program = program(seed, 60);
        let expected = one_by_one(&program);
        for every in [1, 2] {
            let taker = take(&program, every, u64::MAX);
            taken += taker.runs.len();
            assert!(taker.list == expected, "seed {seed}, every {every}");
            let taker = take_some(&program, every, u64::MAX, true);
            assert!(taker.list == expected, "seed {seed}, every {every}, halves");
        }
        let limit = expected.len() as u64 / 2;
        assert!(
            take(&program, 1, limit).list == expected[..limit as usize],
            "seed {seed}"
        );
    }
    assert!(taken > 1000, "only {taken} loops were handed on whole");
}

fn one_loop(plan: Plan, values: &[u64]) -> Taker {
    let mut words = vec![u64::from(ID)];
    words.extend_from_slice(values);
    let program = Program {
        table: table(vec![(ID, plan)]),
        records: vec![words],
        affine: true,
    };
    let taker = take(&program, 1, u64::MAX);
    assert_eq!(taker.list, one_by_one(&program));
    taker
}

fn step(slot: u16, by: i64, low32: bool, plus: Option<(u16, i32)>) -> Step {
    let by = by as u64;
    Step {
        slot,
        by,
        low32,
        plus,
        anew: false,
    }
}

/// A row and a column: one slot moves by a constant, one by a multiple of a register.
fn row_and_column() -> Plan {
    let mut p = plan(
        5,
        3,
        vec![
            plain(0, Kind::Read, slot(0), 8),
            plain(1, Kind::Write, slot(1).offset(4), 4),
        ],
    );
    p.exit_rsp = Lin::slot(RSP);
    p.looping = Some(LoopPlan::Affine {
        steps: vec![
            step(FIRST, 8, false, None),
            step(FIRST + 1, -4, false, Some((FIRST + 2, 2))),
            step(FIRST + 2, 0, false, None),
        ],
        counter: step(FIRST, 8, false, None),
    });
    p
}

#[test]
fn a_run_tells_first_addresses_and_strides() {
    let taker = one_loop(row_and_column(), &[0x1000, 0x9000, 0x100, 0x1000 + 8 * 50]);
    let read = LoopAccess {
        pc: PC,
        kind: Kind::Read,
        point: Point(0),
        size: 8,
        addr: 0x1000,
        stride: 8,
    };
    let write = LoopAccess {
        pc: PC + 4,
        kind: Kind::Write,
        point: Point(1),
        size: 4,
        addr: 0x9004,
        stride: 0x1fc,
    };
    assert_eq!(taker.runs, vec![(50, vec![read, write])]);
}

/// A loop over one 32-bit register that counts up by 4, seen through a derived value.
fn narrow(narrow: Narrow, low32: bool) -> Plan {
    let mut p = plan(3, 1, vec![plain(0, Kind::Read, Lin::slot(FIRST + 2).offset(0x100), 4)]);
    p.derived = vec![Derived { narrow, of: slot(0) }];
    let counter = step(FIRST, 4, low32, None);
    p.looping = Some(LoopPlan::Affine {
        steps: vec![counter],
        counter,
    });
    p
}

#[test]
fn a_run_is_cut_where_narrow_values_wrap() {
    let pieces = |plan: Plan, first: u64, trips: u64| {
        let last = first.wrapping_add(4 * trips);
        let low32 = matches!(&plan.looping, Some(LoopPlan::Affine { counter, .. }) if counter.low32);
        let last = if low32 { u64::from(last as u32) } else { last };
        let runs = one_loop(plan, &[first, last]).runs;
        runs.iter().map(|r| r.0).collect::<Vec<_>>()
    };
    // Ten values lie before the edge.
    for (kind, edge) in [
        (Narrow::ZERO8, 1u64 << 8),
        (Narrow::ZERO16, 1 << 16),
        (Narrow::ZERO32, 1 << 32),
        (Narrow::SIGN8, 1 << 7),
        (Narrow::SIGN16, 1 << 15),
        (Narrow::SIGN32, 1 << 31),
    ] {
        assert_eq!(pieces(narrow(kind, false), edge - 40, 10), [10], "{kind:?}");
        // A single iteration is no loop.
        assert_eq!(pieces(narrow(kind, false), edge - 40, 11), [10], "{kind:?}");
        assert_eq!(pieces(narrow(kind, false), edge - 40, 30), [10, 20], "{kind:?}");
        assert_eq!(pieces(narrow(kind, false), edge, 10), [10], "{kind:?}");
    }
    // Zero is an edge for unsigned values only.
    assert_eq!(pieces(narrow(Narrow::SIGN32, false), 0u64.wrapping_sub(40), 20), [20]);
    assert_eq!(
        pieces(narrow(Narrow::ZERO32, false), 0u64.wrapping_sub(40), 20),
        [10, 10]
    );
    // A register stepped with 32-bit instructions; its upper half is there in the first iteration
    // only.
    let top = 1u64 << 32;
    assert_eq!(pieces(narrow(Narrow::ZERO32, true), top - 40, 12), [10, 2]);
    assert_eq!(pieces(narrow(Narrow::SIGN32, true), top + 40, 12), [11]);
}
