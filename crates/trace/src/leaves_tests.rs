//! Leaves that counting has numbered are the leaves that are found by looking.
use super::*;
use memtrail_collect::define;
use memtrail_decode::{Counter, Table, ThreadDecoder};
use memtrail_model::Thread;
use memtrail_plan::XsaveTable;
use memtrail_translate::Options;
use proptest::prelude::*;

fn table() -> Table {
    let mut table = Table::default();
    for (id, pc, code) in [
        // push rbp; mov rax, [rdi + 8]; ret
        (64, 0x1000, &[0x55, 0x48, 0x8b, 0x47, 0x08, 0xc3][..]),
        // test eax, eax; jz; mov rax, [rdi]; test eax, eax; jz; mov rax, [rax]; mov rax, [rax]; ret
        (
            65,
            0x2000,
            &[
                0x85, 0xc0, 0x74, 0x0a, 0x48, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0x03, 0x48, 0x8b, 0x00, 0x48, 0x8b, 0x00,
                0xc3,
            ],
        ),
        // mov rax, [rdi + rax * 8]; dec ecx; jnz to the first
        (68, 0x3000, &[0x48, 0x8b, 0x04, 0xc7, 0xff, 0xc9, 0x75, 0xf8]),
        // mov rsp, [rdi]; pop rax; ret
        (70, 0x4000, &[0x48, 0x8b, 0x27, 0x58, 0xc3]),
        // nine loads from nine registers; ret
        (
            71,
            0x5000,
            &[
                0x48, 0x8b, 0x00, 0x48, 0x8b, 0x0b, 0x48, 0x8b, 0x16, 0x48, 0x8b, 0x1f, 0x49, 0x8b, 0x30, 0x49, 0x8b,
                0x39, 0x4d, 0x8b, 0x02, 0x4d, 0x8b, 0x0b, 0x4d, 0x8b, 0x14, 0x24, 0xc3,
            ],
        ),
    ] {
        define(&mut table, &Options::default(), id, pc, code).unwrap();
    }
    table
}

const CUT_AT_START: [u64; 6] = [CUT, 0, 0, 0, 0, 0];

/// The records of one choice.
fn record(table: &Table, choice: u8, value: u64) -> Vec<u64> {
    let with = |id: u32, values: usize| [vec![id.into()], vec![value; values]].concat();
    let block = &table.blocks()[usize::from(choice) % 5];
    let whole = with(block.id, block.plan.words as usize - 1);
    match (choice / 5, &block.plan.looping) {
        (_, Some(LoopPlan::Partly { free, .. })) => {
            let steady = with(block.id + block.plan.steady_ids(), free.len()).repeat(usize::from(choice / 5));
            [whole, steady].concat()
        }
        (3, _) => [whole, CUT_AT_START.to_vec()].concat(),
        (4, _) => vec![STATE, value, 0, 0],
        (5, _) => vec![SIGNAL, 11],
        (exit @ 1..=2, _) if !block.plan.sides.is_empty() => {
            let record = block.plan.record(exit.into());
            with(block.id + u32::from(exit), record.words as usize - 1)
        }
        _ => whole,
    }
}

#[test]
fn the_table_has_all_that_matters() {
    let table = table();
    let blocks = table.blocks();
    let words: Vec<u16> = blocks[1].plan.sides.iter().map(|s| s.words).collect();
    assert_eq!((words, blocks[1].plan.words), (vec![2, 3], 4));
    assert!(matches!(blocks[2].plan.looping, Some(LoopPlan::Partly { .. })));
    assert!(blocks[4].plan.words as usize - 1 > LONG);
    let first: Vec<u32> = blocks.iter().map(|b| b.first_leaf).collect();
    assert_eq!(first, [0, 1, 4, 6, 7]);
}

proptest! {
    #[test]
    fn numbered_leaves_are_those_that_are_found(
        choices in prop::collection::vec((0u8..30, any::<u64>()), 1..400),
        cuts in prop::collection::vec(0usize..400, 0..6),
    ) {
        let table = table();
        let (mut leaves, mut numbers) = (Leaves::default(), Numbers::default());
        for block in table.blocks() {
            leaves.add(block);
            numbers.add(block);
        }
        let xsave = XsaveTable::default();
        let mut counter = Counter::new(&xsave);
        let mut decoder = ThreadDecoder::new(Thread(0));
        let (mut found, mut numbered, mut kinds) = (Events::default(), Events::default(), Kinds::default());
        let mut buffer = vec![STATE, 0x7fff_0000, 0, 0];
        for (i, &(choice, value)) in choices.iter().enumerate() {
            let words = record(&table, choice, value);
            // A buffer may end between a record and what says how it ended.
            let apart = words.len() - if words.ends_with(&CUT_AT_START) { CUT_AT_START.len() } else { 0 };
            buffer.extend_from_slice(&words[..apart]);
            if cuts.contains(&i) || i + 1 == choices.len() {
                counter.forget_leaves();
                decoder.feed(&table, &buffer, &mut counter).unwrap();
                leaves.parse(&buffer, &mut found).unwrap();
                leaves.parse_numbered(&buffer, counter.leaves(), &numbers, &mut kinds, &mut numbered).unwrap();
                prop_assert_eq!(&found, &numbered);
                buffer.clear();
            }
            buffer.extend_from_slice(&words[apart..]);
        }
    }
}
