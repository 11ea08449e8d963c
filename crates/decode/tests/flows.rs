//! Calls, returns and switched stacks, as they follow from records.
mod plans;

use memtrail_decode::{Expander, Table, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Edge, Event, Flow, Kind, Reply, Thread, Via, Wants};
use memtrail_plan::{Lin, Plan, FIRST, RSP};
use memtrail_ring::record::{CUT, SIGNAL, SIGRETURN, STATE};
use plans::*;

const THREAD: Thread = Thread(3);

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Told {
    Access(u64),
    Flow(Flow),
}

#[derive(Default)]
struct All {
    told: Vec<Told>,
    edges: Vec<Edge>,
}

impl AccessSink for All {
    fn accesses(&mut self, batch: &[Access]) {
        self.told.extend(batch.iter().map(|a| Told::Access(a.addr)));
    }
    fn wants(&self) -> Wants {
        Wants {
            flows: true,
            edges: true,
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Flow { thread: THREAD, flow } => self.told.push(Told::Flow(flow)),
            Event::Edge { thread: THREAD, edge } => self.edges.push(*edge),
            other => panic!("{other:?}"),
        }
        Reply::NOTHING
    }
}

fn rsp(c: i64) -> Lin {
    Lin::slot(RSP).offset(c as u64)
}

/// Two instructions of four bytes at `pc`; the last makes this access and leaves the stack pointer
/// there.
fn ends(pc: u64, kind: Kind, at: Lin, exit: Lin, words: u16) -> Plan {
    let access = plain(1, kind, at, 8);
    Plan {
        pc,
        exit_rsp: exit,
        ..plan(words, 2, vec![access])
    }
}

const CALL: u64 = 64;
const LEAF: u64 = 65;
const FRAME: u64 = 66;
const AFTER: u64 = 67;
/// [`AFTER`], left through its first instruction.
const LEFT: u64 = 68;
const PUSH: u64 = 69;

fn program() -> Table {
    let frame = Lin::slot(FIRST);
    table(vec![
        (64, ends(0x100, Kind::Write, rsp(-8), rsp(-8), 1)),
        (65, ends(0x200, Kind::Read, rsp(0), rsp(8), 1)),
        // leave, ret 16
        (66, ends(0x300, Kind::Read, frame.offset(8), frame.offset(32), 2)),
        (
            67,
            Plan {
                sides: vec![way_out(0, rsp(0), 1)],
                ..ends(0x108, Kind::Read, rsp(16), rsp(0), 1)
            },
        ),
        (69, ends(0x0f8, Kind::Write, rsp(-8), rsp(-8), 1)),
    ])
}

/// What is told of these records, in whatever way they are decoded and however they are cut into
/// buffers.
fn told(records: &[u64], cuts: &[usize]) -> All {
    let (table, xsave) = (program(), xsave());
    let decode = |cuts: &[usize], mut expander: Expander<'_, All>| {
        let mut decoder = ThreadDecoder::new(THREAD);
        let mut from = 0;
        for &to in cuts.iter().chain([&records.len()]) {
            decoder.feed(&table, &records[from..to], &mut expander).unwrap();
            from = to;
        }
        decoder.finish(&table, &mut expander).unwrap();
        expander.into_sink()
    };
    let all = decode(&[], Expander::new(&xsave, All::default()));
    let others = [
        decode(&[], Expander::new(&xsave, All::default()).one_by_one()),
        decode(cuts, Expander::new(&xsave, All::default())),
    ];
    for other in others {
        assert_eq!(all.told, other.told);
        assert_eq!(all.edges, other.edges);
    }
    all
}

fn call(slot: u64, target: u64) -> Told {
    let site = 0x104;
    Told::Flow(Flow::Call { site, target, slot })
}
fn back(slot: u64) -> Told {
    Told::Flow(Flow::Return { slot })
}
fn stack(rsp: u64) -> Told {
    Told::Flow(Flow::Stack { rsp })
}

#[test]
fn calls_and_returns_stand_between_the_accesses() {
    let records = [STATE, 0x8000, 0, 0, PUSH, CALL, LEAF, AFTER, CALL, LEAF, AFTER];
    let all = told(&records, &[4, 5, 6, 9]);
    let expected = [
        stack(0x8000),
        Told::Access(0x7ff8), // a push: the next block begins right behind
        Told::Access(0x7ff0),
        call(0x7ff0, 0x200),
        Told::Access(0x7ff0),
        back(0x7ff0),
        Told::Access(0x8008),
        Told::Access(0x7ff0),
        call(0x7ff0, 0x200),
        Told::Access(0x7ff0),
        back(0x7ff0),
        Told::Access(0x8008),
    ];
    assert_eq!(all.told, expected);
    let edge = |start, target, via| Edge {
        start,
        last: start + 4,
        end: start + 8,
        target,
        via,
    };
    let edges = [
        edge(0x0f8, 0x100, Via::Jump),
        edge(0x100, 0x200, Via::Call),
        edge(0x200, 0x108, Via::Return),
        edge(0x108, 0x100, Via::Jump),
    ];
    assert_eq!(all.edges, edges);
}

#[test]
fn a_return_may_leave_a_frame_and_drop_arguments() {
    let all = told(&[STATE, 0x8000, 0, 0, CALL, FRAME, 0x7fe8, AFTER], &[5]);
    let expected = [
        stack(0x8000),
        Told::Access(0x7ff8),
        call(0x7ff8, 0x300),
        Told::Access(0x7ff0),
        back(0x7ff0),
        Told::Access(0x8018),
    ];
    assert_eq!(all.told, expected);
}

#[test]
fn blocks_that_were_left_early_neither_call_nor_return() {
    let cut = [CUT, 1, 0, 0, 0, 0];
    let mut records = vec![STATE, 0x8000, 0, 0, CALL];
    records.extend(cut);
    records.extend([SIGNAL, 11, STATE, 0x7000, 0, 0, LEAF, SIGRETURN, STATE, 0x8000, 0, 0]);
    records.extend([LEFT, CALL, LEAF, AFTER]);
    let all = told(&records, &[4, 11, 13, 17, 18]);
    let expected = [
        stack(0x8000),
        Told::Flow(Flow::Signal { number: 11 }),
        stack(0x7000),
        Told::Access(0x7000),
        Told::Flow(Flow::SignalReturn),
        stack(0x8000),
        Told::Access(0x7ff8),
        call(0x7ff8, 0x200),
        Told::Access(0x7ff8),
        back(0x7ff8),
        Told::Access(0x8010),
    ];
    assert_eq!(all.told, expected);
    let left = Edge {
        start: 0x108,
        last: 0x108,
        end: 0x10c,
        target: 0x100,
        via: Via::Jump,
    };
    assert_eq!(all.edges[0], left);
}
