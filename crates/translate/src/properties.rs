//! What holds for all code, on random code.
//!
//! The runtime and the collector each analyse a block by themselves, from different amounts of bytes; and a signal
//! handler emits it again. Nothing checks at run time that they agree, so it is checked here.
use crate::plan::{LoopPlan, FIRST, RSP};
use crate::{analyze, emit, emit_with, Block, EmitScratch, Emitted, Entry, Error, Options, Place, Scratch};
use alloc::vec::Vec;
use iced_x86::{Decoder, DecoderOptions};
use memtrail_ring::{Probes, MAX_RECORD_WORDS};
use proptest::prelude::*;
use std::{format, vec};

const PC: u64 = 0x5555_5555_4123;
const HOT: u64 = 0x5555_6000_0000;
const COLD: u64 = 0x5555_6100_0000;

/// One valid instruction: random bytes behind a random lead-in, so that no encoding is rare.
fn instruction() -> impl Strategy<Value = Vec<u8>> {
    let lead = prop_oneof![
        4 => Just(&[][..]),
        2 => Just(&[0x48][..]),
        2 => Just(&[0x4d][..]),
        1 => Just(&[0x66][..]),
        1 => Just(&[0x67][..]),
        1 => Just(&[0xf2][..]),
        1 => Just(&[0xf3][..]),
        1 => Just(&[0xf3, 0x48][..]),
        1 => Just(&[0x64, 0x48][..]),
        1 => Just(&[0x65][..]),
        1 => Just(&[0x65, 0x4c][..]),
        1 => Just(&[0x65, 0x67][..]),
        2 => Just(&[0x0f][..]),
        1 => Just(&[0x0f, 0x38][..]),
        1 => Just(&[0x66, 0x0f, 0x38][..]),
        1 => Just(&[0x66, 0x0f, 0x3a][..]),
        1 => Just(&[0x0f, 0xae][..]),
        1 => Just(&[0x0f, 0xc7][..]),
        1 => Just(&[0xc5][..]),
        1 => Just(&[0xc4, 0xe2][..]),
        1 => Just(&[0xc4, 0x02][..]),
        2 => Just(&[0x62, 0xf2][..]),
        1 => Just(&[0x62, 0x72][..]),
        1 => Just(&[0x62, 0xf1][..]),
        1 => Just(&[0x8b][..]),
        1 => Just(&[0x4c, 0x8b][..]),
        1 => Just(&[0x48, 0x83][..]),
        1 => Just(&[0x4d, 0x8d][..]),
    ];
    let bytes = prop::collection::vec(any::<u8>(), 15);
    (lead, bytes).prop_filter_map("no instruction", |(lead, tail): (&[u8], Vec<u8>)| {
        let bytes = [lead, &tail[..]].concat();
        let insn = Decoder::with_ip(64, &bytes, PC, DecoderOptions::NONE).decode();
        (!insn.is_invalid()).then(|| bytes[..insn.len()].to_vec())
    })
}

/// A run of valid instructions; often with a branch back to its start behind it.
fn code() -> impl Strategy<Value = Vec<u8>> {
    let insns = prop::collection::vec(instruction(), 1..20);
    (insns, any::<bool>(), any::<[u8; 8]>()).prop_map(|(insns, back, junk)| {
        let mut code = insns.concat();
        if back {
            code.extend([0x0f, 0x85]);
            code.extend((-(code.len() as i32) - 4).to_le_bytes());
        }
        code.extend(junk);
        code
    })
}

/// Loops as compilers write them: loads, stores and steps of a few registers, then a branch back.
fn regular_loop() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (0u8..64, 0u8..16).prop_map(|(rm, r)| vec![0x48 | (r >> 3) << 2, 0x8b, (r & 7) << 3 | (rm & 7) & 3,]),
        (0u8..16, any::<i8>()).prop_map(|(r, by)| vec![0x48 | r >> 3, 0x83, 0xc0 | r & 7, by as u8]),
        (0u8..8, any::<i8>()).prop_map(|(r, by)| vec![0x83, 0xc0 | r, by as u8]),
        (0u8..8, 0u8..8).prop_map(|(r, s)| vec![0x48, 0x01, 0xc0 | r << 3 | s]),
        (0u8..8, any::<i8>()).prop_map(|(r, d)| vec![0x49, 0x89, 0x47 | r << 3, d as u8]),
        Just(vec![0x74, 0x20]),
        Just(vec![0x50]),
        Just(vec![0x58]),
    ];
    prop::collection::vec(piece, 1..12).prop_map(|pieces| {
        let mut code = pieces.concat();
        code.extend([0x0f, 0x82]);
        code.extend((-(code.len() as i32) - 4).to_le_bytes());
        code
    })
}

fn options() -> impl Strategy<Value = Options> {
    let probes = prop_oneof![
        1 => Just(Probes::None),
        1 => Just(Probes::Naive),
        1 => Just(Probes::Block),
        3 => Just(Probes::Loop)
    ];
    let max_block = prop_oneof![1 => Just(1u32), 1 => 2u32..8, 4 => Just(64)];
    (probes, max_block).prop_map(|(probes, max_block)| Options { probes, max_block })
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![Just(Entry::Direct), Just(Entry::Indirect), Just(Entry::Return)]
}

fn place(probes: Probes, entry: Entry, map: bool) -> Place {
    Place {
        hot: HOT,
        cold: COLD,
        id: 77,
        link: 5,
        entry,
        probes,
        map,
    }
}

fn same_block(a: &Block, b: &Block) {
    assert_eq!(a.plan, b.plan);
    assert_eq!((a.exit, a.used, a.writes_r15), (b.exit, b.used, b.writes_r15));
    assert_eq!((&a.captures, &a.ways), (&b.captures, &b.ways));
}

fn same_code(a: &Emitted, b: &Emitted) {
    assert_eq!((&a.hot, &a.cold, a.head, &a.links), (&b.hot, &b.cold, b.head, &b.links));
}

/// Everything that must hold of a block.
fn hold(code: &[u8], opts: &Options, entry: Entry) {
    let Ok(block) = analyze(code, PC, opts) else { return };
    // The collector has just the block's bytes.
    let own = &code[..block.plan.bytes as usize];
    same_block(&block, &analyze(own, PC, opts).unwrap());
    // Working memory that was used before makes no difference.
    let mut scratch = Scratch::default();
    for other in [&b"\x48\x8b\x07\x48\x83\xc7\x08\x75\xf7"[..], code] {
        if let Ok(block) = scratch.analyze(other, PC, opts) {
            scratch.recycle(block);
        }
    }
    same_block(&block, &scratch.analyze(code, PC, opts).unwrap());
    plan_is_sound(&block, opts);

    let emitted = emit(&block, own, place(opts.probes, entry, false));
    let mapped = emit(&block, own, place(opts.probes, entry, true));
    same_code(&emitted, &mapped);
    same_code(&emitted, &emit(&block, code, place(opts.probes, entry, false)));
    let mut scratch = EmitScratch::default();
    for _ in 0..2 {
        let again = emit_with(&mut scratch, &block, own, place(opts.probes, entry, false));
        same_code(&emitted, &again);
        scratch.recycle(again);
    }
    assert!(emitted.sites.is_empty());
    sites_cover(&mapped);
    let mut decoder = Decoder::with_ip(64, &emitted.hot, HOT, DecoderOptions::NONE);
    while decoder.can_decode() {
        let insn = decoder.decode();
        assert!(!insn.is_invalid(), "at {:#x} in {:x?}", insn.ip(), emitted.hot);
    }
}

fn plan_is_sound(block: &Block, opts: &Options) {
    let plan = &block.plan;
    assert!(plan.words as usize <= MAX_RECORD_WORDS, "{} words", plan.words);
    assert!(block.record_words(true) <= MAX_RECORD_WORDS);
    assert!(!block.insns.is_empty() && block.insns.len() <= opts.max_block as usize);
    assert_eq!(block.insns.len(), plan.insn_offsets.len());
    assert!(block
        .captures
        .windows(2)
        .all(|w| w[0].pos <= w[1].pos && w[0].slot < w[1].slot));
    if opts.probes == Probes::None {
        assert_eq!((plan.words, block.captures.len()), (0, 0));
        return;
    }
    let slots = plan.slots() as u16;
    let lin = |l: &crate::plan::Lin| assert!(l.terms().iter().all(|t| t.0 < slots));
    lin(&plan.exit_rsp);
    plan.sides.iter().for_each(|s| lin(&s.rsp));
    // A derived value is computed from values that come before it.
    let first_derived = slots - plan.derived.len() as u16;
    for (i, d) in plan.derived.iter().enumerate() {
        assert!(d.of.terms().iter().all(|t| t.0 < first_derived + i as u16));
    }
    let accesses = plan.accesses.iter().map(|a| a.insn as usize);
    assert!(accesses.clone().all(|i| i < block.insns.len()));
    assert!(
        accesses.clone().zip(accesses.skip(1)).all(|(a, b)| a <= b),
        "not in order of execution"
    );
    match &plan.looping {
        Some(LoopPlan::Affine { steps, counter }) => {
            assert_ne!(counter.by, 0);
            assert!(counter.slot == RSP || counter.slot >= FIRST);
            assert!(steps.iter().all(|s| s.slot < slots));
            assert!(block.counter().is_some());
        }
        Some(LoopPlan::Partly { steps, free }) => {
            assert!(free.iter().all(|f| *f >= FIRST && *f < slots));
            assert!(steps.iter().all(|s| !free.contains(&s.slot)));
        }
        None => {}
    }
}

/// Each byte has a site, and sites come in order.
fn sites_cover(emitted: &Emitted) {
    for (base, bytes) in [(HOT, emitted.hot.len() as u64), (COLD, 0)] {
        let inside = |a: u64| a >= base && a < base + 0x10_0000;
        let here: Vec<u64> = emitted.sites.iter().map(|s| s.0).filter(|a| inside(*a)).collect();
        assert!(here.windows(2).all(|w| w[0] <= w[1]), "sites are not in order");
        if bytes > 0 {
            assert_eq!(here.first(), Some(&base), "the first bytes have no site");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, max_local_rejects: u32::MAX, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(code in prop::collection::vec(any::<u8>(), 0..80), opts in options(), entry in entry()) {
        hold(&code, &opts, entry);
    }

    #[test]
    fn random_instructions(code in code(), opts in options(), entry in entry()) {
        hold(&code, &opts, entry);
    }

    #[test]
    fn random_loops(code in regular_loop(), opts in options(), entry in entry()) {
        hold(&code, &opts, entry);
    }

    #[test]
    fn every_length(code in code(), opts in options()) {
        for n in 0..code.len() {
            match analyze(&code[..n], PC, &opts) {
                Ok(block) => prop_assert!(block.plan.bytes as usize <= n),
                Err(e) => prop_assert!(matches!(e, Error::Truncated { .. } | Error::Unknown { .. }), "{}", format!("{e}")),
            }
        }
    }
}
