//! Reference points: which accesses share one, and what the table says of them.
mod plans;

use memtrail_decode::{
    DecodeError, Definition, Expander, Image, ImageId, Message, Module, PointInfo, Table, ThreadDecoder,
};
use memtrail_model::{Access, Kind, Point, Thread};
use memtrail_plan::{Plan, PlannedAccess, Repeat, Shape, FIRST};
use plans::*;
use Kind::{Prefetch, Read, Write};

fn info(pc: u64, kind: Kind, bytes: u32, size: u32) -> PointInfo {
    PointInfo {
        pc,
        code: pc,
        kind,
        bytes,
        size,
    }
}

/// Instructions of 4 bytes from `pc` on; each access is (instruction, kind, size).
fn block(pc: u64, insns: u16, accesses: &[(u16, Kind, u32)]) -> Plan {
    let accesses = accesses
        .iter()
        .map(|&(insn, kind, size)| plain(insn, kind, slot(0), size));
    let mut p = plan(2, insns, accesses.collect());
    p.pc = pc;
    p
}

fn points(plans: Vec<(u32, Plan)>, words: &[u64]) -> (Vec<PointInfo>, Vec<u32>) {
    let (xsave, table) = (xsave(), table(plans));
    let mut expander = Expander::new(&xsave, List::default());
    let mut decoder = ThreadDecoder::new(Thread(0));
    decoder.feed(&table, words, &mut expander).unwrap();
    decoder.finish(&table, &mut expander).unwrap();
    let accesses = expander.into_sink().0;
    (table.points().to_vec(), accesses.iter().map(|a| a.point.0).collect())
}

#[test]
fn an_instruction_has_one_point_for_each_kind() {
    let one = block(PC, 3, &[(0, Read, 8), (0, Write, 8), (0, Read, 4), (2, Prefetch, 1)]);
    let (infos, seen) = points(vec![(64, one)], &[64, 10]);
    let expected = [
        info(PC, Read, 4, 8),
        info(PC, Write, 4, 8),
        info(PC + 8, Prefetch, 4, 1),
    ];
    assert_eq!(infos, expected);
    assert_eq!(seen, [0, 1, 0, 2]);
}

#[test]
fn blocks_that_overlap_share_their_points() {
    let long = block(PC, 3, &[(0, Read, 8), (1, Write, 4), (2, Read, 2)]);
    let rest = block(PC + 4, 3, &[(0, Write, 4), (1, Read, 2), (2, Read, 1)]);
    let (infos, seen) = points(vec![(64, long), (65, rest)], &[65, 1, 64, 2]);
    assert_eq!(infos.len(), 4);
    assert_eq!(infos[3], info(PC + 12, Read, 4, 1));
    assert_eq!(seen, [1, 2, 3, 0, 1, 2]);
}

#[test]
fn other_code_at_the_same_address_has_points_of_its_own() {
    let before = block(PC, 2, &[(0, Read, 8), (1, Write, 4)]);
    // Another length, another size, and once the same.
    let mut longer = before.clone();
    longer.insn_offsets[1] = 5;
    let mut wider = before.clone();
    wider.accesses[1] = plain(1, Write, slot(0), 16);
    let (infos, seen) = points(vec![(64, before), (65, longer), (66, wider)], &[64, 1, 65, 1, 66, 1]);
    let expected = [
        info(PC, Read, 4, 8),
        info(PC + 4, Write, 4, 4),
        info(PC, Read, 5, 8),
        info(PC + 5, Write, 3, 4),
        info(PC + 4, Write, 4, 16),
    ];
    assert_eq!(infos, expected);
    assert_eq!(seen, [0, 1, 2, 3, 0, 4]);
}

/// The points of blocks that read 8 bytes at [`PC`], each in an image, with these bytes of code.
fn points_in(modules: &[bool], images: &[(u32, u64)], blocks: &[(u32, u64, u8)]) -> (Table, Vec<PointInfo>) {
    let mut table = Table::default();
    for &generated in modules {
        let path = if generated { Vec::new() } else { b"/a".to_vec() };
        let module = Module {
            path,
            build_id: None,
            generated,
        };
        table.learn(&Message::Module(module)).unwrap();
    }
    for &(module, base) in images {
        table.learn(&Message::Image(Image { module, base })).unwrap();
    }
    for (id, &(image, pc, code)) in (64..).zip(blocks) {
        let plan = block(pc, 1, &[(0, Read, 8)]);
        let definition = Definition {
            id,
            sources: [7].into(),
            images: [ImageId(image)].into(),
            code: Some(vec![code; 4].into()),
            plan,
        };
        table.insert_definition(definition).unwrap();
    }
    let points = table.points().to_vec();
    (table, points)
}

#[test]
fn a_module_at_two_addresses_has_one_point_and_two_modules_at_one_have_two() {
    let images = [(0, 0x40_0000), (0, 0x50_0000), (1, 0x40_0000)];
    let blocks = [(1, 0x40_1000, 1), (2, 0x50_1000, 1), (3, 0x40_1000, 1)];
    let (table, points) = points_in(&[false, false], &images, &blocks);
    let told: Vec<_> = points
        .iter()
        .map(|p| (p.pc, table.images().place(p.code).offset))
        .collect();
    assert_eq!(told, [(0x40_1000, 0x1000), (0x40_1000, 0x1000)]);
    assert_ne!(points[0].code, points[1].code);
    assert_eq!(table.blocks()[1].code(), Some(&[1; 4][..]));
}

#[test]
fn of_generated_code_the_bytes_count() {
    let blocks = [(1, 0x7000, 1), (1, 0x7000, 2), (1, 0x7000, 1)];
    assert_eq!(points_in(&[true], &[(0, 0)], &blocks).1.len(), 2);
    assert_eq!(points_in(&[false], &[(0, 0)], &blocks).1.len(), 1);
}

#[test]
fn what_blocks_refer_to_must_be_there() {
    let mut table = points_in(&[false], &[(0, 0)], &[]).0;
    let definition = |image, images: usize, code: usize| Definition {
        id: 64,
        plan: block(PC, 1, &[(0, Read, 8)]),
        sources: [7].into(),
        images: vec![ImageId(image); images].into(),
        code: Some(vec![0; code].into()),
    };
    let (id, need) = (64, 4);
    for (wrong, error) in [
        (definition(2, 1, 4), DecodeError::UnknownImage { image: 2, images: 1 }),
        (definition(1, 2, 4), DecodeError::BadImages { id, have: 2, need: 1 }),
        (definition(1, 1, 3), DecodeError::BadCodeLength { id, have: 3, need }),
    ] {
        assert_eq!(table.insert_definition(wrong), Err(error));
    }
    table.insert_definition(definition(1, 1, 4)).unwrap();
}

#[test]
fn what_a_string_instruction_reads_and_writes_are_two_points() {
    let repeat = |kind| {
        Shape::from(Repeat {
            source: Some(at(slot(0))),
            dest: Some((at(slot(1)), kind)),
            size: 4,
            before: slot(2),
            after: FIRST + 3,
            low32: false,
            pointer: slot(0),
            moved: FIRST + 4,
            moved_is_rsi: true,
        })
    };
    let movs = one(6, Write, repeat(Write));
    let mut cmps = one(6, Read, repeat(Read));
    cmps.pc = PC + 4;
    let record = |id: u64, elements: u64| [id, 0x1000, 0x2000, elements, 0, 0x1000 + 4 * elements];
    // One element is expanded by itself, more as a loop.
    let words = [record(64, 1), record(64, 3), record(65, 1), record(65, 2)].concat();
    let (infos, seen) = points(vec![(64, movs), (65, cmps)], &words);
    let expected = [info(PC, Write, 4, 4), info(PC, Read, 4, 4), info(PC + 4, Read, 4, 4)];
    assert_eq!(infos, expected);
    assert_eq!(seen, [1, 0, 1, 0, 1, 0, 1, 0, 2, 2, 2, 2, 2, 2]);
}

#[test]
fn every_access_is_of_a_point_of_its_instruction_and_kind() {
    let xsave = xsave();
    for seed in 0..200 {
        let program = program(seed, 60);
        let mut expander = Expander::new(&xsave, List::default());
        let mut decoder = ThreadDecoder::new(Thread(0));
        decoder.feed(&program.table, &program.words(), &mut expander).unwrap();
        let points = program.table.points();
        let agrees = |a: &Access| {
            let point = points[a.point.index()];
            (point.pc, point.kind) == (a.pc, a.kind)
        };
        assert!(expander.into_sink().0.iter().all(agrees), "seed {seed}");
    }
}

#[test]
fn points_are_numbered_densely_in_the_order_of_blocks() {
    let planned = |insn, kind| PlannedAccess {
        insn,
        ..plain(0, kind, slot(0), 8)
    };
    let first = plan(2, 2, vec![planned(0, Read), planned(1, Write)]);
    let table = table(vec![(64, first.clone()), (65, first)]);
    assert_eq!(table.points().len(), 2);
    assert_eq!(Point(1).index(), 1);
}
