//! What holds for all code, on random code.
//!
//! The runtime and the collector each analyse a block by themselves, from different amounts of
//! bytes; and a signal handler emits it again. Nothing checks at run time that they agree, so it is
//! checked here.
use crate::{
    analyze, analyze_path, emit, emit_with, Block, EmitScratch, Emitted, Entry, Error, Exit, Options, Place, Scratch,
    Stretch, Way,
};
use alloc::vec::Vec;
use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind};
use memtrail_model::Via;
use memtrail_plan::{Lin, LoopPlan, Plan, Shape, Slot, FIRST, RSP};
use memtrail_ring::{Probes, MAX_RECORD_WORDS};
use proptest::prelude::*;
use std::collections::BTreeSet;
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

/// How a stretch of a path leads to the next.
#[derive(Clone, Copy, Debug)]
enum Joint {
    /// It goes straight on.
    Fall,
    Jump,
    Call,
    /// A branch with this condition that is taken.
    Taken(u8),
    /// And one that is not.
    NotTaken(u8),
    Return,
    /// Through this operand.
    JumpThrough(&'static [u8]),
    CallThrough(&'static [u8]),
}

impl Joint {
    /// What it is in the code at `pc`, and where the next stretch begins if that may be chosen to
    /// be `next`.
    fn code(self, pc: u64, next: u64) -> (Vec<u8>, u64) {
        let relative = |lead: &[u8], to: u64| {
            let end = pc + lead.len() as u64 + 4;
            let distance = to.wrapping_sub(end) as i32;
            [lead, &distance.to_le_bytes()].concat()
        };
        match self {
            Joint::Fall => (Vec::new(), pc),
            Joint::Jump => (relative(&[0xe9], next), next),
            Joint::Call => (relative(&[0xe8], next), next),
            Joint::Taken(condition) => (relative(&[0x0f, 0x80 | condition], next), next),
            Joint::NotTaken(condition) => (relative(&[0x0f, 0x80 | condition], next), pc + 6),
            Joint::Return => (vec![0xc3], next),
            Joint::JumpThrough(code) | Joint::CallThrough(code) => (code.to_vec(), next),
        }
    }
}

const JUMPS: &[&[u8]] = &[
    &[0xff, 0xe0],                         // jmp rax
    &[0xff, 0x63, 0x08],                   // jmp [rbx + 8]
    &[0xff, 0x24, 0xc5, 0x00, 0x10, 0, 0], // jmp [rax * 8 + 0x1000]
    &[0x41, 0xff, 0xe7],                   // jmp r15
    &[0xff, 0x25, 0x00, 0x10, 0, 0],       // jmp [rip + 0x1000]
];
const CALLS: &[&[u8]] = &[
    &[0xff, 0xd0],                   // call rax
    &[0xff, 0x53, 0x18],             // call [rbx + 24]
    &[0xff, 0x14, 0x24],             // call [rsp]
    &[0x41, 0xff, 0x57, 0x08],       // call [r15 + 8]
    &[0xff, 0x15, 0x00, 0x10, 0, 0], // call [rip + 0x1000]
];

fn joint() -> impl Strategy<Value = Joint> {
    prop_oneof![
        1 => Just(Joint::Fall),
        2 => Just(Joint::Jump),
        2 => Just(Joint::Call),
        3 => (0u8..16).prop_map(Joint::Taken),
        3 => (0u8..16).prop_map(Joint::NotTaken),
        2 => Just(Joint::Return),
        1 => prop::sample::select(JUMPS).prop_map(Joint::JumpThrough),
        1 => prop::sample::select(CALLS).prop_map(Joint::CallThrough),
    ]
}

/// An instruction that leads to the next one and that the code cache carries out.
fn straight() -> impl Strategy<Value = Vec<u8>> {
    instruction().prop_filter("does not go straight on", |code| {
        let insn = Decoder::with_ip(64, code, PC, DecoderOptions::NONE).decode();
        let opts = Options {
            probes: Probes::Block,
            max_block: 1,
        };
        insn.flow_control() == FlowControl::Next && analyze(code, PC, &opts).is_ok_and(|b| b.exit == Exit::Fall)
    })
}

/// Few registers, so that paths do not end because all are used.
fn plain() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u8..4, 0u8..4).prop_map(|(r, base)| vec![0x48, 0x8b, r << 3 | base]),
        (0u8..4, any::<i8>()).prop_map(|(r, by)| vec![0x48, 0x83, 0xc0 | r, by as u8]),
        (0u8..4, any::<i8>()).prop_map(|(r, at)| vec![0x48, 0x89, 0x44 | r << 3, 0x24, at as u8]),
        (0u8..4).prop_map(|r| vec![0x50 | r]),
        (0u8..4).prop_map(|r| vec![0x58 | r]),
        Just(vec![0x48, 0x8b, 0x26]),       // mov rsp, [rsi]
        Just(vec![0x41, 0x57]),             // push r15
        Just(vec![0x49, 0x83, 0xc7, 0x08]), // add r15, 8
    ]
}

/// A path: its code and its stretches. It goes where it is wanted to.
fn path() -> impl Strategy<Value = (Vec<u8>, Vec<Stretch>)> {
    let insn = prop_oneof![5 => plain().boxed(), 1 => straight().boxed()];
    let place = prop_oneof![3 => (0u64..0x1000).prop_map(Some), 1 => Just(None)];
    let piece = (prop::collection::vec(insn, 0..6), joint(), place).boxed();
    let pieces = prop_oneof![
        8 => prop::collection::vec(piece.clone(), 1..9),
        1 => prop::collection::vec(piece, 9..80),
    ];
    pieces.prop_map(|pieces| {
        let (mut code, mut stretches, mut pc) = (Vec::new(), Vec::<Stretch>::new(), PC);
        for (insns, joint, place) in pieces {
            let mut own = insns.concat();
            let at = pc + own.len() as u64;
            // Somewhere near, or just behind.
            let next = place.map_or(at + joint.code(at, at).0.len() as u64, |p| PC + p);
            let (end, next) = joint.code(at, next);
            own.extend(end);
            let bytes = own.len() as u32;
            code.extend(own);
            stretches.push(Stretch { pc, bytes });
            pc = next;
        }
        // Something must be there.
        code.push(0x90);
        stretches.push(Stretch { pc, bytes: 1 });
        (code, stretches)
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
    let mut scratch = used_before(opts);
    if let Ok(block) = scratch.analyze(code, PC, opts) {
        scratch.recycle(block);
    }
    same_block(&block, &scratch.analyze(code, PC, opts).unwrap());
    assert!(block.insns.len() <= opts.max_block as usize && block.plan.pieces.is_empty());
    plan_is_sound(&block, opts);
    emits_the_same(&block, code, opts, entry);
}

/// Everything that must hold of a path. Returns how many pieces it has, and whether it goes all the
/// way.
fn hold_path(code: &[u8], stretches: &[Stretch], opts: &Options, entry: Entry) -> (usize, bool) {
    let block = analyze_path(code, stretches, opts).unwrap();
    // The collector has just the path's bytes.
    let own = &code[..block.plan.bytes as usize];
    let mut trimmed = stretches.to_vec();
    let mut left = block.plan.bytes;
    for stretch in &mut trimmed {
        stretch.bytes = stretch.bytes.min(left);
        left -= stretch.bytes;
    }
    trimmed.retain(|s| s.bytes > 0);
    same_block(&block, &analyze_path(own, &trimmed, opts).unwrap());
    // Where one stretch goes over into the next makes no difference.
    let mut joined: Vec<Stretch> = Vec::new();
    for &stretch in &trimmed {
        match joined.last_mut() {
            Some(last) if last.pc + u64::from(last.bytes) == stretch.pc => last.bytes += stretch.bytes,
            _ => joined.push(stretch),
        }
    }
    same_block(&block, &analyze_path(own, &joined, opts).unwrap());
    let mut scratch = used_before(opts);
    for _ in 0..2 {
        let again = scratch.analyze_path(code, stretches, opts).unwrap();
        same_block(&block, &again);
        scratch.recycle(again);
    }
    assert!(block.plan.looping.is_none());
    plan_is_sound(&block, opts);
    pieces_are_sound(&block);
    emits_the_same(&block, code, opts, entry);
    (block.plan.pieces.len() + 1, own.len() == code.len())
}

/// Working memory in which a loop was analysed.
fn used_before(opts: &Options) -> Scratch {
    let mut scratch = Scratch::default();
    if let Ok(block) = scratch.analyze(b"\x48\x8b\x07\x48\x83\xc7\x08\x75\xf7", PC, opts) {
        scratch.recycle(block);
    }
    scratch
}

/// The same code is emitted whatever is behind the block's own, with and without a map, in new
/// memory and in old.
fn emits_the_same(block: &Block, code: &[u8], opts: &Options, entry: Entry) {
    let own = &code[..block.plan.bytes as usize];
    let emitted = emit(block, own, place(opts.probes, entry, false));
    let mapped = emit(block, own, place(opts.probes, entry, true));
    same_code(&emitted, &mapped);
    same_code(&emitted, &emit(block, code, place(opts.probes, entry, false)));
    let mut scratch = EmitScratch::default();
    for _ in 0..2 {
        let again = emit_with(&mut scratch, block, own, place(opts.probes, entry, false));
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
    assert!(!block.insns.is_empty());
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
    let lin = |l: &Lin| assert!(l.terms().iter().all(|t| t.0 < slots));
    lin(&plan.exit_rsp);
    plan.sides.iter().for_each(|s| lin(&s.rsp));
    sides_are_sound(block);
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

/// Each way out has a record with all that was done until then.
fn sides_are_sound(block: &Block) {
    let plan = &block.plan;
    assert_eq!(plan.sides.len(), block.ways.len());
    assert!(plan
        .sides
        .windows(2)
        .all(|w| w[0].insn < w[1].insn && w[0].words <= w[1].words));
    let steady = matches!(plan.looping, Some(LoopPlan::Partly { .. }));
    assert_eq!(plan.ids() as usize, (1 + plan.sides.len()) << u32::from(steady));
    for (n, side) in plan.sides.iter().enumerate() {
        assert!(usize::from(side.insn) + 1 < block.insns.len());
        assert!((1..=plan.words).contains(&side.words));
        assert!(plan.looping.is_none() || side.words == plan.words);
        let (record, words) = (plan.record(1 + n as u32), side.words);
        assert_eq!(
            (record.words, record.side, record.steady),
            (words, Some(n as u16), false)
        );
        let known = |slot: Slot| known(plan, slot, words);
        assert!(
            side.rsp.terms().iter().all(|t| known(t.0)),
            "{:?} of {words} words",
            side.rsp
        );
        for access in plan.accesses.iter().filter(|a| a.insn <= side.insn) {
            let mut shape = access.shape.clone();
            shape.each_slot(&mut |s| assert!(known(*s), "{access:?} with {words} words"));
            // A vector is known by its last word.
            if let Shape::Lanes {
                index,
                lanes,
                index_bytes,
                ..
            } = access.shape
            {
                let more = (usize::from(lanes) * usize::from(index_bytes)).div_ceil(8).max(1) - 1;
                assert!(known(index + more as Slot));
            }
        }
    }
}

/// Whether a slot's value follows from the first `words` words of a record.
fn known(plan: &Plan, slot: Slot, words: u16) -> bool {
    let first_derived = FIRST + plan.words - 1;
    match slot.checked_sub(first_derived) {
        Some(n) => {
            let of = &plan.derived[usize::from(n)].of;
            of.terms().iter().all(|t| known(plan, t.0, words))
        }
        None => slot < FIRST + words - 1,
    }
}

/// Pieces begin where the instruction before leads to; all else goes straight on.
fn pieces_are_sound(block: &Block) {
    let plan = &block.plan;
    assert!(plan.pieces.windows(2).all(|w| w[0].insn < w[1].insn));
    let mut end = 0;
    for (i, insn) in block.insns.iter().enumerate() {
        assert_eq!(plan.instruction(i as u16), (insn.ip(), insn.len() as u32));
        assert_eq!(usize::from(plan.insn_offsets[i]), end);
        end += insn.len();
        let piece = plan.pieces.iter().find(|p| usize::from(p.insn) == i);
        let Some(before) = i.checked_sub(1).map(|i| &block.insns[i]) else {
            assert!(piece.is_none() && insn.ip() == plan.pc);
            continue;
        };
        let side = plan.sides.iter().position(|s| usize::from(s.insn) + 1 == i);
        let way = side.map(|n| block.ways[n]);
        let (pc, next) = (insn.ip(), before.next_ip());
        let call = if pc == next { Via::Jump } else { Via::Call };
        let expected = match before.flow_control() {
            FlowControl::ConditionalBranch if pc == next => {
                let target = before.near_branch64();
                assert_eq!(way, Some(Way::Taken { target }));
                None
            }
            FlowControl::ConditionalBranch => {
                assert_eq!((way, pc), (Some(Way::NotTaken { next }), before.near_branch64()));
                Some(Via::Jump)
            }
            FlowControl::UnconditionalBranch | FlowControl::Call => {
                assert_eq!((way, pc), (None, before.near_branch64()));
                let calls = before.flow_control() == FlowControl::Call;
                Some(if calls { call } else { Via::Jump })
            }
            flow @ (FlowControl::Return | FlowControl::IndirectBranch | FlowControl::IndirectCall) => {
                assert_eq!(way, Some(Way::NotTo { expected: pc }));
                Some(match flow {
                    FlowControl::Return => Via::Return,
                    FlowControl::IndirectCall => call,
                    _ => Via::Jump,
                })
            }
            _ => {
                assert_eq!((way, pc), (None, next));
                None
            }
        };
        assert_eq!(piece.map(|p| (p.pc, p.via)), expected.map(|via| (pc, via)));
    }
    assert_eq!(end, plan.bytes as usize);
    assert_eq!(plan.end().1, block.end());
}

/// Sites come in order, and each instruction that can be reached has one: of its own piece, and
/// exactly there if hot code branches to cold code, where the site of what stands before it says
/// nothing.
fn sites_cover(emitted: &Emitted) {
    let pieces = [(HOT, &emitted.hot), (COLD, &emitted.cold)];
    for (base, bytes) in pieces {
        let inside = |a: &u64| (base..base + bytes.len() as u64).contains(a);
        let here: Vec<u64> = emitted.sites.iter().map(|s| s.0).filter(inside).collect();
        assert!(here.windows(2).all(|w| w[0] <= w[1]), "sites are not in order");
    }
    let covered = |from: u64, to: u64| emitted.sites.iter().any(|s| (from..=to).contains(&s.0));
    let mut seen = BTreeSet::new();
    let mut todo = vec![HOT, HOT + u64::from(emitted.head)];
    while let Some(pc) = todo.pop() {
        let within = |(base, bytes): &&(u64, &Vec<u8>)| (*base..base + bytes.len() as u64).contains(&pc);
        let Some((base, bytes)) = pieces.iter().find(within) else {
            continue;
        };
        if !seen.insert(pc) {
            continue;
        }
        assert!(covered(*base, pc), "no site covers {pc:x}");
        let insn = Decoder::with_ip(64, &bytes[(pc - base) as usize..], pc, DecoderOptions::NONE).decode();
        if insn.op0_kind() == OpKind::NearBranch64 {
            let target = insn.near_branch64();
            let exactly = *base == COLD || target < COLD || covered(target, target);
            assert!(exactly, "no site at {target:x}, where {pc:x} branches to");
            todo.push(target);
        }
        let leads_away = matches!(
            insn.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
        );
        todo.extend((!leads_away).then_some(insn.next_ip()));
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, max_local_rejects: u32::MAX, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_paths((code, stretches) in path(), opts in options(), entry in entry()) {
        hold_path(&code, &stretches, &opts, entry);
    }
}

/// Most paths go all the way, and some do not: they are too long, or have no register left.
#[test]
fn paths_have_pieces() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let opts = Options {
        probes: Probes::Loop,
        max_block: 64,
    };
    let (mut whole, mut cut, mut pieces) = (0, 0, 0);
    for _ in 0..300 {
        let (code, stretches) = path().new_tree(&mut runner).unwrap().current();
        let (n, all) = hold_path(&code, &stretches, &opts, Entry::Direct);
        whole += usize::from(all);
        cut += usize::from(!all);
        pieces += n;
    }
    assert!(whole > 150 && cut > 10 && pieces > 900, "{whole} {cut} {pieces}");
}
