//! Hand-made plans and records, with the exact accesses that must come out, expanded and counted.
mod plans;

use memtrail_decode::{Counter, Counts, DecodeError, Expander, Table, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Kind, Thread};
use memtrail_plan::{
    Addr, BitWord, Derived, Layout, Lin, LoopPlan, Mask, Narrow, Plan, PlannedAccess, Repeat, Shape, Step, Xstate,
    FIRST, FS, RSP,
};
use memtrail_ring::record::{CUT, END, SIGNAL, SIGRETURN, STATE};
use plans::*;

/// Decodes buffers both ways; the counts must agree with the accesses.
fn decode(table: &Table, buffers: &[&[u64]]) -> Result<(Vec<Access>, Counts), DecodeError> {
    let xsave = xsave();
    let mut expander = Expander::new(&xsave, List::default());
    let mut decoder = ThreadDecoder::new(Thread(3));
    for words in buffers {
        decoder.feed(table, words, &mut expander)?;
    }
    decoder.finish(table, &mut expander)?;
    let accesses = expander.into_sink().0;
    let mut counter = Counter::new(&xsave);
    let mut decoder = ThreadDecoder::new(Thread(3));
    for words in buffers {
        decoder.feed(table, words, &mut counter)?;
    }
    decoder.finish(table, &mut counter)?;
    let counts = counter.counts(table);
    let mut expected = Counts::default();
    AccessSink::accesses(&mut expected, &accesses);
    expected.instructions = counts.instructions;
    expected.blocks = counts.blocks;
    assert_eq!(counts, expected, "counted and expanded differ");
    Ok((accesses, counts))
}

fn list(table: &Table, buffers: &[&[u64]]) -> Vec<(u64, Kind, u64, u32)> {
    let (accesses, _) = decode(table, buffers).unwrap();
    assert!(accesses.iter().all(|a| a.thread == Thread(3)));
    accesses.iter().map(|a| (a.pc - PC, a.kind, a.addr, a.size)).collect()
}

use Kind::{Prefetch as P, Read as R, Write as W};

#[test]
fn plain_accesses_follow_carried_and_captured_values() {
    let mut push = plan(
        2,
        3,
        vec![
            plain(0, W, Lin::slot(RSP).offset(8u64.wrapping_neg()), 8),
            plain(1, R, slot(0).offset(16), 4),
            plain(2, P, slot(0), 64),
        ],
    );
    push.exit_rsp = Lin::slot(RSP).offset(8u64.wrapping_neg());
    let t = table(vec![(ID, push)]);
    let words = [STATE, 0x8000, 0, 0, 64, 0x100, 64, 0x200];
    let expected = vec![
        (0, W, 0x7ff8, 8),
        (4, R, 0x110, 4),
        (8, P, 0x100, 64),
        (0, W, 0x7ff0, 8),
        (4, R, 0x210, 4),
        (8, P, 0x200, 64),
    ];
    assert_eq!(list(&t, &[&words]), expected);
    let (_, counts) = decode(&t, &[&words]).unwrap();
    assert_eq!((counts.instructions, counts.blocks), (6, 2));
    assert_eq!((counts.accesses(), counts.bytes()), (6, 24));
}

#[test]
fn segments_and_short_addresses() {
    let shape = Shape::Plain {
        addr: Addr {
            lin: slot(0).offset(0x20),
            low32: true,
            segment: Some(FS),
        },
        size: 8,
    };
    let t = table(vec![(ID, one(2, R, shape))]);
    let words = [STATE, 0, 0x7000_0000_0000, 0, 64, 0xffff_fff0];
    assert_eq!(list(&t, &[&words]), vec![(0, R, 0x7000_0000_0010, 8)]);
}

#[test]
fn derived_values_narrow_and_build_on_each_other() {
    let mut p = plan(2, 1, vec![plain(0, R, Lin::slot(FIRST + 2), 1)]);
    p.derived = vec![
        Derived {
            narrow: Narrow::SIGN8,
            of: slot(0),
        },
        Derived {
            narrow: Narrow::ZERO32,
            of: Lin::slot(FIRST + 1).offset(1),
        },
    ];
    let t = table(vec![(ID, p)]);
    assert_eq!(list(&t, &[&[64, 0x1280]]), vec![(0, R, 0xffff_ff81, 1)]);
}

fn repeat(dest: Option<(Addr, Kind)>, source: Option<Addr>, low32: bool) -> Shape {
    Shape::from(Repeat {
        source,
        dest,
        size: 4,
        before: slot(0),
        after: FIRST + 3,
        low32,
        pointer: slot(1),
        moved: FIRST + 4,
        moved_is_rsi: true,
    })
}

#[test]
fn repeated_strings_read_then_write_each_element_in_their_direction() {
    let shape = repeat(Some((at(slot(2)), W)), Some(at(slot(1))), false);
    let t = table(vec![(ID, one(6, W, shape))]);
    let up = [64, 2, 0x1000, 0x2000, 0, 0x1008];
    let expected = vec![
        (0, R, 0x1000, 4),
        (0, W, 0x2000, 4),
        (0, R, 0x1004, 4),
        (0, W, 0x2004, 4),
    ];
    assert_eq!(list(&t, &[&up]), expected);
    let down = [64, 3, 0x1000, 0x2000, 1, 0xff8];
    let expected = vec![
        (0, R, 0x1000, 4),
        (0, W, 0x2000, 4),
        (0, R, 0xffc, 4),
        (0, W, 0x1ffc, 4),
    ];
    assert_eq!(list(&t, &[&down]), expected);
    assert_eq!(list(&t, &[&[64, 0, 0x1000, 0x2000, 0, 0x1000]]), vec![]);
}

#[test]
fn repeated_strings_with_short_counts_ignore_upper_halves() {
    let t = table(vec![(ID, one(6, R, repeat(None, Some(at(slot(1))), true)))]);
    let words = [64, 0xdead_0000_0001, 0x10, 0, 0, 0x14];
    assert_eq!(list(&t, &[&words]), vec![(0, R, 0x10, 4)]);
}

#[test]
fn a_cut_repeat_did_what_the_registers_tell() {
    let shape = repeat(Some((at(slot(2)), W)), Some(at(slot(1))), false);
    let t = table(vec![(ID, one(6, W, shape))]);
    let words = [
        64, 5, 0x1000, 0x2000, 0, 0, CUT, 0, 4, 0x1004, 0x2004, 0, STATE, 1, 2, 3,
    ];
    let expected = vec![(0, R, 0x1000, 4), (0, W, 0x2000, 4)];
    assert_eq!(list(&t, &[&words]), expected);
}

#[test]
fn an_impossible_repeat_count_is_an_error() {
    let t = table(vec![(ID, one(6, R, repeat(None, Some(at(slot(1))), false)))]);
    let error = decode(&t, &[&[64, 1, 0, 0, 2, 0]]).unwrap_err();
    assert!(matches!(error, DecodeError::TooMany { id: ID, .. }));
}

fn gather(mask: Mask) -> Shape {
    Shape::Lanes {
        addr: at(slot(0).offset(8)),
        index: FIRST + 1,
        index_bytes: 4,
        scale: 8,
        lanes: 4,
        mask,
        size: 8,
    }
}

#[test]
fn gathers_touch_active_lanes_with_signed_indices() {
    let t = table(vec![(ID, one(6, R, gather(Mask::Bits(FIRST + 3))))]);
    let words = [64, 0x1000, 1 | 0xffff_ffff << 32, 2 | 3 << 32, 0b1011, 0];
    let expected = vec![(0, R, 0x1010, 8), (0, R, 0x1000, 8), (0, R, 0x1020, 8)];
    assert_eq!(list(&t, &[&words]), expected);
}

#[test]
fn gathers_with_vector_masks_take_sign_bits() {
    let mask = Mask::SignOf {
        first: FIRST + 3,
        bytes: 4,
    };
    let t = table(vec![(ID, one(6, R, gather(mask)))]);
    let words = [64, 0, 10 << 32, 20 | 30 << 32, 1 << 63, 1 << 31 | 1 << 62];
    assert_eq!(list(&t, &[&words]), vec![(0, R, 88, 8), (0, R, 168, 8)]);
}

#[test]
fn a_cut_gather_did_the_lanes_that_are_marked() {
    let t = table(vec![(ID, one(6, R, gather(Mask::All)))]);
    let words = [64, 0, 1 << 32, 2 | 3 << 32, 0, 0, CUT, 0, 0, 0, 0, 0b0011];
    assert_eq!(list(&t, &[&words]), vec![(0, R, 8, 8), (0, R, 16, 8)]);
}

#[test]
fn masked_elements_broadcasts_and_packed_vectors() {
    let (addr, lanes, size) = (at(slot(0)), 8, 4);
    let mask = Mask::Bits(FIRST + 1);
    let accesses = vec![
        PlannedAccess {
            insn: 0,
            kind: R,
            shape: Shape::Elements {
                addr,
                lanes,
                mask,
                size,
            },
        },
        PlannedAccess {
            insn: 1,
            kind: W,
            shape: Shape::Packed {
                addr,
                lanes,
                mask,
                size,
            },
        },
        PlannedAccess {
            insn: 2,
            kind: R,
            shape: Shape::Broadcast {
                addr,
                lanes,
                mask,
                size,
            },
        },
    ];
    let t = table(vec![(ID, plan(3, 3, accesses))]);
    // Bits above the lanes do not count.
    let expected = vec![
        (0, R, 0x1004, 4),
        (0, R, 0x101c, 4),
        (4, W, 0x1000, 4),
        (4, W, 0x1004, 4),
        (8, R, 0x1000, 4),
    ];
    assert_eq!(list(&t, &[&[64, 0x1000, 0xff82]]), expected);
    assert_eq!(list(&t, &[&[64, 0x1000, 0xff00]]), vec![]);
}

#[test]
fn bit_strings_reach_below_their_base() {
    let bit_word = |size| {
        Shape::from(BitWord {
            addr: at(slot(0)),
            bit: slot(1),
            size,
        })
    };
    let t = table(vec![(ID, one(3, R, bit_word(8))), (65, one(3, W, bit_word(2)))]);
    let minus_one = u64::MAX;
    assert_eq!(list(&t, &[&[64, 0x1000, 130]]), vec![(0, R, 0x1010, 8)]);
    assert_eq!(list(&t, &[&[64, 0x1000, minus_one]]), vec![(0, R, 0xff8, 8)]);
    // 16-bit forms look at 16 bits of the register only.
    assert_eq!(list(&t, &[&[65, 0x1000, 0x1_ffff]]), vec![(0, W, 0xffe, 2)]);
    assert_eq!(list(&t, &[&[65, 0x1000, 0x1_0011]]), vec![(0, W, 0x1002, 2)]);
}

#[test]
fn xsave_extents_follow_mask_and_layout() {
    let xstate = |layout| {
        Shape::from(Xstate {
            addr: at(slot(0)),
            low: slot(1),
            high: slot(2),
            layout,
        })
    };
    let t = table(vec![
        (ID, one(5, W, xstate(Layout::Standard))),
        (65, one(5, W, xstate(Layout::Compact))),
        (66, one(5, R, xstate(Layout::Image(FIRST + 3)))),
    ]);
    let size = |words: &[u64]| list(&t, &[words])[0].3;
    assert_eq!(size(&[64, 0, 3, 0, 0]), 576);
    assert_eq!(size(&[64, 0, 7, 0, 0]), 832);
    // Component 9 is not enabled in XCR0; upper halves of eax do not count.
    assert_eq!(size(&[64, 0, 0xffff_ffff_ffff_ffff, 0xffff_ffff, 0]), 2688);
    assert_eq!(size(&[65, 0, 0x47, 0, 0]), 832 + 512);
    assert_eq!(size(&[65, 0, 0x60, 0, 0]), 640 + 512);
    // Layout by XCOMP_BV, extent by what is asked for.
    let image = 1 << 63 | 0xe7;
    assert_eq!(size(&[66, 0, 0x27, 0, image]), 832 + 64);
    assert_eq!(size(&[66, 0, 7, 0, 0]), 832);
}

fn affine(counter: Step, steps: Vec<Step>) -> Plan {
    let mut p = plan(4, 3, vec![plain(0, R, slot(0), 8), plain(1, W, slot(1).offset(4), 4)]);
    p.looping = Some(LoopPlan::Affine { steps, counter });
    p
}
#[test]
fn affine_loops_run_from_entry_to_exit() {
    let up = by(FIRST, 8);
    let t = table(vec![(ID, affine(up, vec![up, by(FIRST + 1, -4)]))]);
    let words = [64, 0x1000, 0x2000, 0x1018];
    let expected = vec![
        (0, R, 0x1000, 8),
        (4, W, 0x2004, 4),
        (0, R, 0x1008, 8),
        (4, W, 0x2000, 4),
        (0, R, 0x1010, 8),
        (4, W, 0x1ffc, 4),
    ];
    assert_eq!(list(&t, &[&words]), expected);
    let (_, counts) = decode(&t, &[&words]).unwrap();
    assert_eq!((counts.instructions, counts.blocks), (9, 3));
}

#[test]
fn short_counters_wrap_around() {
    let down = Step {
        slot: FIRST,
        by: (-1i64) as u64,
        low32: true,
        plus: None,
        anew: false,
    };
    let t = table(vec![(ID, affine(down, vec![down]))]);
    // The upper half is cut off by the first 32-bit step.
    let words = [64, 0x7_0000_0001, 0, 0xffff_ffff];
    let reads: Vec<u64> = list(&t, &[&words]).iter().map(|a| a.2).collect();
    assert_eq!(reads, vec![0x7_0000_0001, 4, 0, 4]);
}

#[test]
fn cut_loops_end_inside_an_iteration() {
    let up = by(FIRST, 8);
    let t = table(vec![(ID, affine(up, vec![up]))]);
    let words = [64, 0x1000, 0x2000, 0x1008, CUT, 1, 0, 0, 0, 0, STATE, 7, 0, 0];
    let expected = vec![(0, R, 0x1000, 8), (4, W, 0x2004, 4), (0, R, 0x1008, 8)];
    assert_eq!(list(&t, &[&words]), expected);
    let (_, counts) = decode(&t, &[&words]).unwrap();
    assert_eq!((counts.instructions, counts.blocks), (4, 2));
    // In the first iteration, before anything.
    let words = [64, 0x1000, 0x2000, 0x1000, CUT, 0, 0, 0, 0, 0];
    assert_eq!(list(&t, &[&words]), vec![]);
}

#[test]
fn stack_pointers_come_out_of_loops() {
    let reader = plan(1, 1, vec![plain(0, R, Lin::slot(RSP), 8)]);
    let mut pushes = affine(by(FIRST, 1), vec![by(FIRST, 1), by(RSP, -8)]);
    pushes.accesses = vec![plain(0, W, Lin::slot(RSP).offset(8u64.wrapping_neg()), 8)];
    pushes.exit_rsp = Lin::slot(RSP).offset(8u64.wrapping_neg());
    // The stack pointer is set from a stepped register in every iteration.
    let mut sets = affine(by(FIRST, 1), vec![by(FIRST, 1), by(FIRST + 1, 16)]);
    sets.exit_rsp = slot(1);
    let t = table(vec![(ID, reader), (65, pushes), (66, sets)]);
    let words = [STATE, 0x1000, 0, 0, 65, 0, 0, 3, 64];
    let addrs: Vec<u64> = list(&t, &[&words]).iter().map(|a| a.2).collect();
    assert_eq!(addrs, vec![0xff8, 0xff0, 0xfe8, 0xfe8]);
    let words = [STATE, 0x1000, 0, 0, 66, 0, 0x500, 3, 64];
    assert_eq!(list(&t, &[&words]).last().unwrap().2, 0x520);
}

#[test]
fn impossible_trip_counts_are_errors() {
    let up = by(FIRST, 1);
    let t = table(vec![(ID, affine(up, vec![up]))]);
    let error = decode(&t, &[&[64, 0, 0, 1 << 50]]).unwrap_err();
    assert!(matches!(error, DecodeError::TooMany { .. }), "{error}");
    let error = decode(&t, &[&[64, 5, 0, 5]]).unwrap_err();
    assert!(matches!(error, DecodeError::BadTrips { .. }), "{error}");
}

fn partly() -> Plan {
    let mut p = plan(
        4,
        2,
        vec![
            plain(0, R, slot(0), 8),
            plain(1, R, Lin::slot(FIRST + 3), 4),
            plain(1, W, slot(2), 1),
        ],
    );
    p.derived = vec![Derived {
        narrow: Narrow::ZERO8,
        of: slot(1),
    }];
    p.looping = Some(LoopPlan::Partly {
        steps: vec![by(FIRST, 8)],
        free: vec![FIRST + 1],
    });
    p
}

#[test]
fn partly_steady_loops_step_some_values_and_record_others() {
    let t = table(vec![(ID, partly())]);
    let words = [64, 0x1000, 0x101, 0x9000, 65, 0x102, 65, 0x203];
    let expected = vec![
        (0, R, 0x1000, 8),
        (4, R, 1, 4),
        (4, W, 0x9000, 1),
        (0, R, 0x1008, 8),
        (4, R, 2, 4),
        (4, W, 0x9000, 1),
        (0, R, 0x1010, 8),
        (4, R, 3, 4),
        (4, W, 0x9000, 1),
    ];
    assert_eq!(list(&t, &[&words]), expected);
    // Cut anywhere between buffers, it is the same.
    for split in [0, 4, 6, 8] {
        assert_eq!(list(&t, &[&words[..split], &words[split..]]), expected);
    }
}

#[test]
fn a_steady_record_needs_its_first_iteration() {
    let other = plan(1, 1, vec![]);
    let t = table(vec![(ID, partly()), (66, other)]);
    for words in [
        &[65, 1][..],
        &[64, 0, 0, 0, 66, 65, 1],
        &[64, 0, 0, 0, CUT, 0, 0, 0, 0, 0, 65, 1],
    ] {
        let error = decode(&t, &[words]).unwrap_err();
        assert_eq!(error, DecodeError::SteadyWithoutFirst { id: 65 });
    }
}

#[test]
fn a_cut_may_stand_in_the_next_buffer() {
    let t = table(vec![(
        ID,
        plan(2, 2, vec![plain(0, R, slot(0), 8), plain(1, W, slot(0), 8)]),
    )]);
    let cut = [CUT, 1, 0, 0, 0, 0];
    let expected = vec![(0, R, 0x10, 8)];
    assert_eq!(list(&t, &[&[64, 0x10, END], &cut]), expected);
    assert_eq!(list(&t, &[&[64, 0x10], &[], &[END, 9], &cut]), expected);
    let whole = vec![(0, R, 0x10, 8), (4, W, 0x10, 8)];
    assert_eq!(list(&t, &[&[64, 0x10, END, 77]]), whole);
    assert_eq!(list(&t, &[&[64, 0x10], &[STATE, 0, 0, 0]]), whole);
}

#[test]
fn signals_stand_between_blocks() {
    let t = table(vec![(ID, plan(2, 1, vec![plain(0, R, slot(0), 8)]))]);
    let words = [64, 1, SIGNAL, 11, STATE, 5, 5, 5, 64, 2, SIGRETURN, 64, 3];
    let addrs: Vec<u64> = list(&t, &[&words]).iter().map(|a| a.2).collect();
    assert_eq!(addrs, vec![1, 2, 3]);
}

#[test]
fn limits_stop_inside_huge_loops() {
    let up = by(FIRST, 1);
    let t = table(vec![(ID, affine(up, vec![up]))]);
    let xsave = xsave();
    let mut expander = Expander::new(&xsave, List::default()).with_limit(5);
    let mut decoder = ThreadDecoder::new(Thread(0));
    decoder.feed(&t, &[64, 0, 0, 1 << 40], &mut expander).unwrap();
    decoder.finish(&t, &mut expander).unwrap();
    assert!(expander.full());
    assert_eq!(expander.into_sink().0.len(), 5);
}

#[test]
fn nonsense_words_are_typed_errors() {
    let t = table(vec![(ID, plan(3, 1, vec![plain(0, R, slot(0), 8)]))]);
    let error = |words: &[u64]| decode(&t, &[words]).unwrap_err();
    assert_eq!(error(&[70]), DecodeError::UnknownBlock { id: 70 });
    assert_eq!(error(&[0]), DecodeError::BadHead { head: 0, at: 0 });
    assert_eq!(error(&[25]), DecodeError::BadHead { head: 25, at: 0 });
    let short = DecodeError::ShortRecord {
        at: 0,
        need: 3,
        have: 2,
    };
    assert_eq!(error(&[64, 1]), short);
    assert_eq!(error(&[CUT, 0, 0, 0, 0, 0]), DecodeError::CutWithoutBlock);
    let bad_cut = DecodeError::BadCut { insn: 1, insns: 1 };
    assert_eq!(
        error(&[64, 1, 2, CUT, 1, 0, 0, 0]),
        DecodeError::ShortRecord {
            at: 3,
            need: 6,
            have: 5
        }
    );
    assert_eq!(error(&[64, 1, 2, CUT, 1, 0, 0, 0, 0, 0]), bad_cut);
}

#[test]
fn random_words_never_panic_or_hang() {
    let t = table(vec![(ID, partly()), (66, one(6, R, gather(Mask::All)))]);
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..20_000 {
        let words: Vec<u64> = (0..24)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                seed % 68
            })
            .collect();
        // Only that it returns is asked for.
        let _ = decode(&t, &[&words]);
    }
}

#[test]
fn plans_that_refer_to_nothing_are_refused() {
    let mut t = Table::default();
    let bad = plan(2, 1, vec![plain(0, R, slot(1), 8)]);
    let error = t.insert(ID, bad).unwrap_err();
    assert!(matches!(error, DecodeError::BadPlan { slot: 4, slots: 4, .. }));
    let zero_step = affine(by(FIRST, 0), vec![]);
    assert!(t.insert(ID, zero_step).is_err());
    let fine = plan(1, 1, vec![]);
    t.insert(ID, fine.clone()).unwrap();
    let twice = t.insert(ID, fine.clone()).unwrap_err();
    assert_eq!(twice, DecodeError::DefinedTwice { id: ID });
    assert!(t.insert(3, fine.clone()).is_err());
    assert!(t.insert(0x7fff_fffe, fine).is_err());
}

#[test]
fn tails_of_killed_threads_keep_what_is_whole() {
    use memtrail_decode::{tail, Tail};
    let t = table(vec![(ID, plan(3, 1, vec![]))]);
    let keep = |words: &[u64], complete| tail(&t, words, complete).unwrap();
    // Two records, then zeros: the second may be half-written.
    let words = [64, 1, 2, 64, 3, 0, 0, 0, 0];
    assert_eq!(keep(&words, 0), Tail { keep: 3, lost: 1 });
    assert_eq!(keep(&words, 3), Tail { keep: 3, lost: 1 });
    // A system call after the second record vouches for it.
    assert_eq!(keep(&words, 6), Tail { keep: 6, lost: 0 });
    // A record that runs off the end cannot be whole.
    assert_eq!(keep(&[64, 1, 2, 64, 3], 0), Tail { keep: 3, lost: 1 });
    assert_eq!(keep(&[0; 8], 0), Tail { keep: 0, lost: 0 });
    assert_eq!(keep(&[64, 1, 2, STATE, 1, 2, 3, 0], 0), Tail { keep: 7, lost: 0 });
    assert!(tail(&t, &[99, 0], 0).is_err());
}
