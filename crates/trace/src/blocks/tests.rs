//! Any plan the table accepts comes back as it was, and no bytes do harm.
use super::*;
use memtrail_collect::define;
use memtrail_decode::{Block, DecodeError, Definition, Image, ImageId, Message, Module, Table};
use memtrail_model::Kind;
use memtrail_plan::{
    Addr, BitWord, Derived, Layout, LoopPlan, Mask, Narrow, Piece, PlannedAccess, Repeat, Shape, Side, Step, Xstate,
    FS, GS,
};
use memtrail_translate::Options;
use proptest::collection::vec;
use proptest::prelude::*;
use std::ops::Range;

/// What blocks may refer to: two modules, one of them at two addresses.
fn images() -> Vec<Message> {
    let module = |generated| Module {
        path: if generated { Vec::new() } else { b"/a".to_vec() },
        build_id: None,
        generated,
    };
    let image = |module, base| Message::Image(Image { module, base });
    let modules = [false, true].map(|generated| Message::Module(module(generated)));
    modules
        .into_iter()
        .chain([image(0, 0x1000), image(0, 0), image(1, 0)])
        .collect()
}

fn table() -> Table {
    let mut table = Table::default();
    images().iter().for_each(|message| table.learn(message).unwrap());
    table
}

/// Small and large numbers.
fn number() -> BoxedStrategy<u64> {
    prop_oneof![
        (0u32..64, any::<u64>()).prop_map(|(s, v)| v >> s),
        (0u32..64, any::<u64>()).prop_map(|(s, v)| (v >> s).wrapping_neg()),
        Just(1 << 63),
        Just((1u64 << 63) - 1),
    ]
    .boxed()
}
fn scale() -> BoxedStrategy<i32> {
    prop_oneof![Just(1), Just(8), Just(-1), any::<i32>()].boxed()
}
fn kind() -> BoxedStrategy<Kind> {
    prop_oneof![Just(Kind::Read), Just(Kind::Write), Just(Kind::Prefetch)].boxed()
}

fn lin(slots: Range<Slot>) -> BoxedStrategy<Lin> {
    let term = (slots, scale());
    let general = (number(), vec(term, 0..=3)).prop_map(|(c, terms)| {
        let mut lin = Lin::constant(c);
        lin.n = terms.len() as u8;
        lin.terms[..terms.len()].copy_from_slice(&terms);
        lin
    });
    prop_oneof![general, number().prop_map(stack)].boxed()
}

fn addr(slots: Slot) -> BoxedStrategy<Addr> {
    let segment = prop_oneof![
        Just(None),
        Just(None),
        Just(Some(FS)),
        Just(Some(GS)),
        (0..slots).prop_map(Some)
    ];
    let low32 = prop_oneof![Just(false), Just(false), Just(true)];
    (lin(0..slots), low32, segment)
        .prop_map(|(lin, low32, segment)| Addr { lin, low32, segment })
        .boxed()
}

/// A mask of a vector of at most eight lanes of at most a byte: it lies in one word.
fn mask(slots: Slot) -> BoxedStrategy<Mask> {
    prop_oneof![
        Just(Mask::All),
        (0..slots).prop_map(Mask::Bits),
        (0..slots).prop_map(|first| Mask::SignOf { first, bytes: 1 }),
    ]
    .boxed()
}

fn shape(slots: Slot) -> BoxedStrategy<Shape> {
    let size = || prop_oneof![(0u32..8).prop_map(|s| 1 << s), any::<u32>()];
    let plain = (addr(slots), size()).prop_map(|(addr, size)| Shape::Plain { addr, size });
    let line = (addr(slots), size()).prop_map(|(addr, size)| Shape::Line { addr, size });
    let ends = (
        lin(0..slots),
        0..slots,
        lin(0..slots),
        0..slots,
        any::<(u8, bool, bool)>(),
    );
    let operands = (
        proptest::option::of(addr(slots)),
        proptest::option::of((addr(slots), kind())),
    );
    let repeat = (operands, ends).prop_map(
        |((source, dest), (before, after, pointer, moved, (size, low32, moved_is_rsi)))| {
            Shape::from(Repeat {
                source,
                dest,
                size,
                before,
                after,
                low32,
                pointer,
                moved,
                moved_is_rsi,
            })
        },
    );
    let vector = (addr(slots), 0u8..=8, mask(slots), any::<u8>());
    let masked = (0..3, vector).prop_map(|(which, (addr, lanes, mask, size))| match which {
        0 => Shape::Elements {
            addr,
            lanes,
            mask,
            size,
        },
        1 => Shape::Broadcast {
            addr,
            lanes,
            mask,
            size,
        },
        _ => Shape::Packed {
            addr,
            lanes,
            mask,
            size,
        },
    });
    let vector = (addr(slots), 0u8..=8, mask(slots), any::<u8>());
    let lanes = (vector, 0..slots, any::<u8>()).prop_map(|((addr, lanes, mask, size), index, scale)| Shape::Lanes {
        addr,
        index,
        index_bytes: 1,
        scale,
        lanes,
        mask,
        size,
    });
    let bit = (addr(slots), lin(0..slots), any::<u8>())
        .prop_map(|(addr, bit, size)| Shape::from(BitWord { addr, bit, size }));
    let layout = prop_oneof![
        Just(Layout::Standard),
        Just(Layout::Compact),
        (0..slots).prop_map(Layout::Image)
    ];
    let xstate = (addr(slots), lin(0..slots), lin(0..slots), layout).prop_map(|(addr, low, high, layout)| {
        Shape::from(Xstate {
            addr,
            low,
            high,
            layout,
        })
    });
    prop_oneof![4 => plain, 1 => line, 1 => repeat, 1 => masked, 1 => lanes, 1 => bit, 1 => xstate].boxed()
}

fn derived(first: Slot) -> BoxedStrategy<Vec<Derived>> {
    let bits = (0u8..64, 1u8..64, any::<bool>());
    let narrow = bits.prop_filter_map("not past the end", |(from, bits, signed)| {
        Narrow::checked(from, bits, signed)
    });
    vec((narrow, lin(0..first)), 0..4)
        .prop_map(|all| all.into_iter().map(|(narrow, of)| Derived { narrow, of }).collect())
        .boxed()
}

fn step(slots: Slot) -> BoxedStrategy<Step> {
    let plus = proptest::option::of((0..slots, scale()));
    (0..slots, number(), any::<bool>(), plus, any::<bool>())
        .prop_map(|(slot, by, low32, plus, anew)| Step {
            slot,
            by,
            low32,
            plus,
            anew,
        })
        .boxed()
}

fn looping(slots: Slot) -> BoxedStrategy<Option<LoopPlan>> {
    let affine = (vec(step(slots), 0..4), step(slots)).prop_map(|(mut steps, mut counter)| {
        counter.by |= u64::from(counter.by == 0);
        steps.iter_mut().chain([&mut counter]).for_each(|s| s.anew = false);
        LoopPlan::Affine { steps, counter }
    });
    let partly =
        (vec(step(slots), 0..4), vec(0..slots, 0..4)).prop_map(|(steps, free)| LoopPlan::Partly { steps, free });
    prop_oneof![2 => Just(None), 1 => affine.prop_map(Some), 1 => partly.prop_map(Some)].boxed()
}

/// An instruction: its length, accesses, the way out if it is one (with the words captured since
/// the one before), and where it is if a piece begins with it.
type Instruction = (u16, Vec<(Kind, Shape)>, Option<(Lin, u64, u16)>, Option<(u64, Via)>);

fn instruction(slots: Slot) -> BoxedStrategy<Instruction> {
    let length = prop_oneof![8 => 1u16..=15, 1 => 16u16..3000];
    let accesses = prop_oneof![4 => vec((kind(), shape(slots)), 0..3), 1 => vec((kind(), shape(slots)), 3..6)];
    let side = proptest::option::weighted(0.2, (lin(0..slots), number(), 0u16..3));
    let via = prop_oneof![Just(Via::Jump), Just(Via::Call), Just(Via::Return)];
    let piece = proptest::option::weighted(0.2, (number(), via));
    (length, accesses, side, piece).boxed()
}

fn plan() -> BoxedStrategy<Plan> {
    (2u16..9)
        .prop_flat_map(|words| (Just(words), derived(FIRST + words - 1)))
        .prop_flat_map(|(words, derived)| {
            let captured = FIRST + words - 1;
            let slots = captured + derived.len() as Slot;
            let instructions = vec(instruction(slots), 1..12);
            let parts = (number(), lin(0..slots), looping(captured), instructions);
            (Just(words), Just(derived), parts)
        })
        .prop_map(|(words, derived, (pc, exit_rsp, looping, instructions))| {
            let mut plan = Plan {
                pc,
                bytes: 0,
                insn_offsets: Vec::new(),
                pieces: Vec::new(),
                words,
                derived,
                accesses: Vec::new(),
                exit_rsp,
                looping,
                sides: Vec::new(),
            };
            let affine = matches!(plan.looping, Some(LoopPlan::Affine { .. }));
            let last = instructions.len() - 1;
            for (i, (length, accesses, side, piece)) in instructions.into_iter().enumerate() {
                let insn = i as u16;
                if let (Some((pc, via)), true) = (piece, i > 0) {
                    plan.pieces.push(Piece { insn, pc, via });
                }
                plan.insn_offsets.push(plan.bytes as u16);
                plan.bytes += u32::from(length);
                let accesses = accesses.into_iter();
                plan.accesses
                    .extend(accesses.map(|(kind, shape)| PlannedAccess { insn, kind, shape }));
                // The table has no way out at the last instruction: there the block ends anyway.
                if let (Some((rsp, moved, more)), true) = (side, i < last) {
                    let before = plan.sides.last().map_or(1, |s| s.words);
                    plan.sides.push(Side {
                        insn,
                        rsp,
                        moved: if affine { moved } else { 0 },
                        words: match plan.looping {
                            Some(_) => words,
                            None => words.min(before + more),
                        },
                    });
                }
            }
            plan
        })
        .boxed()
}

/// Blocks with ids that mostly follow each other.
fn blocks() -> BoxedStrategy<Vec<Block>> {
    let source = proptest::collection::vec(0u8..=16, 8);
    vec(
        (
            plan(),
            source,
            prop_oneof![4 => Just(0u32), 1 => 0u32..1000],
            (any::<bool>(), any::<u32>(), 0u8..3),
        ),
        0..6,
    )
    .prop_map(|all| {
        let (mut table, mut id) = (table(), FIRST_BLOCK as u32);
        let mut swap = Vec::new();
        for (plan, sources, gap, (late, image, code)) in all {
            id += gap;
            let words = usize::from(plan.words) - 1;
            let image = |piece| ImageId((image.rotate_left(piece)) % 4);
            // Unknown, and one of two bytes, so that some have code at the same address that
            // differs.
            let short = plan.insn_offsets.windows(2).all(|o| o[1] - o[0] < 16);
            let short = short && plan.bytes - u32::from(*plan.insn_offsets.last().unwrap()) < 16;
            let code = (code > 0 && short).then(|| vec![code; plan.bytes as usize].into());
            let definition = Definition {
                id,
                sources: sources[..words].into(),
                images: (0..=plan.pieces.len() as u32).map(image).collect(),
                code,
                plan: plan.clone(),
            };
            table.insert_definition(definition).expect("a valid plan");
            id += plan.ids();
            swap.push(late);
        }
        let mut blocks = table.blocks().to_vec();
        for (i, _) in swap.iter().enumerate().skip(1).filter(|s| *s.1) {
            blocks.swap(i - 1, i);
        }
        blocks
    })
    .boxed()
}

fn encode(blocks: &[Block]) -> [Vec<u8>; COLUMNS] {
    let mut encoder = Encoder::default();
    images().iter().for_each(|message| encoder.learn(message).unwrap());
    blocks.iter().for_each(|b| encoder.add(b).unwrap());
    encoder.take()
}

/// Decodes as a reader does, into a table.
fn decode_into_table(columns: &[Vec<u8>; COLUMNS]) -> Result<Table, Wrong> {
    let mut table = table();
    decode(columns, &mut CodeMap::default(), &mut table)?;
    Ok(table)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn plans_come_back_as_they_were(blocks in blocks()) {
        let table = decode_into_table(&encode(&blocks)).unwrap();
        prop_assert_eq!(table.blocks().len(), blocks.len());
        for (got, expected) in table.blocks().iter().zip(&blocks) {
            prop_assert_eq!(got.id, expected.id);
            prop_assert_eq!(&got.plan, &expected.plan);
            prop_assert_eq!(&got.sources, &expected.sources);
            prop_assert_eq!(&got.images, &expected.images);
            prop_assert_eq!(got.code(), expected.code());
        }
    }

    #[test]
    fn changed_bytes_do_no_harm(blocks in blocks(), changes in vec((0..COLUMNS, any::<u16>(), any::<u8>()), 1..4)) {
        let mut columns = encode(&blocks);
        for (column, at, byte) in changes {
            let length = columns[column].len();
            if length > 0 {
                columns[column][usize::from(at) % length] = byte;
            }
        }
        // An error or other plans: anything but a panic.
        let _ = decode_into_table(&columns);
    }

    #[test]
    fn any_bytes_do_no_harm(columns in vec(vec(any::<u8>(), 0..60), COLUMNS)) {
        let columns = columns.try_into().unwrap();
        let _ = decode_into_table(&columns);
    }

    #[test]
    fn a_missing_byte_is_noticed(blocks in blocks(), column in 0..COLUMNS) {
        let mut columns = encode(&blocks);
        if columns[column].pop().is_some() {
            // Without its flags a block's other fields are left over.
            prop_assert!(decode_into_table(&columns).is_err());
        }
    }
}

#[test]
fn a_common_block_takes_few_bytes() {
    let mut table = table();
    // push rbp; mov rax, [rdi + 8]; ret
    define(
        &mut table,
        &Options::default(),
        64,
        0x40_1000,
        &[0x55, 0x48, 0x8b, 0x47, 0x08, 0xc3],
    )
    .unwrap();
    let columns = encode(table.blocks());
    assert_eq!(columns, specified());
}

/// The bytes of the columns in the specification's example, in which two are empty.
fn specified() -> [Vec<u8>; COLUMNS] {
    let text = include_str!("../../../../docs/trace-format.md");
    let example = &text[text.find("**Example.**").unwrap()..];
    let rows = example.lines().filter_map(|line| line.split('`').nth(1));
    let bytes = |row: &str| {
        row.split(' ')
            .map(|b| u8::from_str_radix(b, 16))
            .collect::<Result<_, _>>()
    };
    let mut columns: Vec<Vec<u8>> = rows.skip(1).map_while(|row| bytes(row).ok()).collect();
    columns.splice(12..12, [Vec::new(), Vec::new()]);
    columns.try_into().expect("a row for every column")
}

#[test]
fn plans_the_layout_has_no_place_for_are_refused() {
    let mut table = table();
    define(&mut table, &Options::default(), 64, 0x1000, &[0x55, 0x5d, 0xc3]).unwrap();
    let good = table.blocks()[0].clone();
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut block = good.clone();
        change(&mut block.plan);
        block.images = vec![ImageId::UNKNOWN; 1 + block.plan.pieces.len()].into();
        Encoder::default().add(&block).is_err()
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|p| p.insn_offsets[0] = 1));
    assert!(refused(&|p| p.insn_offsets[1] = 0));
    assert!(refused(&|p| p.insn_offsets.clear()));
    assert!(refused(&|p| p.bytes = 1));
    assert!(refused(&|p| p.accesses.reverse()));
    let piece = |insn| {
        let (pc, via) = (0x2000, Via::Call);
        Piece { insn, pc, via }
    };
    assert!(!refused(&|p| p.pieces = vec![piece(1), piece(2)]));
    for wrong in [vec![0], vec![1, 1], vec![2, 1], vec![3], vec![1, 3]] {
        assert!(refused(&|p| p.pieces = wrong.iter().map(|&i| piece(i)).collect()));
    }
    let side = |insn, moved, words| {
        let rsp = stack(0);
        Side {
            insn,
            rsp,
            moved,
            words,
        }
    };
    assert!(!refused(&|p| p.sides = vec![side(0, 0, 1)]));
    assert!(refused(&|p| p.sides = vec![side(0, 1, 1)]));
    assert!(refused(&|p| p.sides = vec![side(1, 0, 1), side(0, 0, 1)]));
    for (words, fits) in [
        ([1, 1], true),
        ([1, 3], true),
        ([2, 1], false),
        ([0, 1], false),
        ([1, 4], false),
    ] {
        let refused = refused(&|p| {
            p.words = 3;
            p.sides = vec![side(0, 0, words[0]), side(1, 0, words[1])];
        });
        assert_eq!(refused, !fits, "{words:?}");
    }
}

#[test]
fn words_of_ways_out_follow_each_other() {
    let mut table = table();
    // test eax, eax; jz; mov rax, [rdi]; test eax, eax; jz; mov rax, [rsi]; test eax, eax; jz; mov
    // rax, [rax]; ret
    let code = [
        0x85, 0xc0, 0x74, 0x11, 0x48, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0x0a, 0x48, 0x8b, 0x06, 0x85, 0xc0, 0x74, 0x03,
        0x48, 0x8b, 0x00, 0xc3,
    ];
    define(&mut table, &Options::default(), 64, 0x40_1000, &code).unwrap();
    let plan = &table.blocks()[0].plan;
    let words: Vec<u16> = plan.sides.iter().map(|s| s.words).collect();
    assert_eq!((plan.words, words), (4, vec![3, 3, 4]));
    let mut columns = encode(table.blocks());
    assert_eq!(columns[Column::Words as usize], [4, 2, 0, 1]);
    // More than the block has.
    columns[Column::Words as usize][3] += 1;
    let what = "a way out has more words than the block";
    assert_eq!(decode_into_table(&columns).err(), Some(Wrong::Layout(what)));
}

#[test]
fn code_is_stored_once_and_anew_if_it_differs() {
    let mut table = table();
    let code = [0x55, 0x48, 0x8b, 0x47, 0x08, 0xc3];
    let other = [0x56, 0x48, 0x8b, 0x47, 0x08, 0xc3];
    let define_in = |table: &mut Table, image, id, pc, code: &[u8]| {
        memtrail_collect::define_in(table, &Options::default(), ImageId(image), id, pc, code).unwrap();
    };
    // The same code at two addresses of its module, its end by itself, other code there, and the
    // same address in another module.
    define_in(&mut table, 1, 64, 0x2000, &code);
    define_in(&mut table, 2, 65, 0x1000, &code);
    define_in(&mut table, 1, 66, 0x2001, &code[1..]);
    define_in(&mut table, 1, 67, 0x2000, &other);
    define_in(&mut table, 3, 68, 0x1000, &code[5..]);
    let columns = encode(table.blocks());
    assert_eq!(
        columns[Column::Flags as usize],
        [CODE, CODE, CODE, CODE | CODE_ANEW, CODE]
    );
    assert_eq!(columns[Column::Code as usize], [&code[..], &other, &code[5..]].concat());
    assert_eq!(columns[Column::Image as usize], [2, 2, 1, 0, 4]);
    let read = decode_into_table(&columns).unwrap();
    let codes: Vec<_> = read.blocks().iter().map(|b| b.code().unwrap()).collect();
    assert_eq!(codes, [&code[..], &code, &code[1..], &other, &code[5..]]);
}

#[test]
fn hostile_images_and_code_are_errors() {
    let mut table = table();
    define(&mut table, &Options::default(), 64, 0x1000, &[0x55, 0x5d, 0xc3]).unwrap();
    let columns = encode(table.blocks());
    let changed = |column: Column, bytes: &[u8]| {
        let mut columns = columns.clone();
        columns[column as usize] = bytes.to_vec();
        decode_into_table(&columns).map(drop)
    };
    assert_eq!(changed(Column::Image, &[0]), Ok(()));
    let unknown = DecodeError::UnknownImage { image: 4, images: 3 };
    assert_eq!(changed(Column::Image, &[8]), Err(Wrong::Plan(unknown)));
    assert!(matches!(changed(Column::Image, &[1]), Err(Wrong::Layout(_))));
    assert!(matches!(changed(Column::Code, &[1, 2]), Err(Wrong::Layout(_))));
    assert!(matches!(changed(Column::Code, &[1; 4]), Err(Wrong::Layout(_))));
    assert!(matches!(changed(Column::Flags, &[CODE_ANEW]), Err(Wrong::Layout(_))));
    assert!(matches!(changed(Column::Flags, &[64]), Err(Wrong::Layout(_))));
}
