//! A path, which is several blocks in one, tells what those blocks tell one after the other.
mod plans;

use memtrail_decode::{Counter, Counts, Expander, StepSink, Table, ThreadDecoder, Walker};
use memtrail_model::{Access, AccessSink, Edge, Event, Flow, Kind, Reply, Thread, Via, Wants};
use memtrail_plan::{
    Addr, Derived, Lin, LoopPlan, Narrow, Piece, Plan, PlannedAccess, Shape, Side, Slot, FIRST, FS, RSP,
};
use memtrail_ring::record::{CUT, STATE};
use plans::*;

const THREAD: Thread = Thread(3);

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Told {
    Access(Access),
    Flow(Flow),
    Edge(Edge),
    Instruction(u64, u32),
}

const ALL: Wants = Wants {
    flows: true,
    edges: true,
    fetches: true,
    loops: None,
    repeats: false,
    notes: false,
};

#[derive(Default)]
struct All {
    told: Vec<Told>,
    wants: Wants,
}

impl AccessSink for All {
    fn accesses(&mut self, batch: &[Access]) {
        self.told.extend(batch.iter().map(|&a| Told::Access(a)));
    }
    fn wants(&self) -> Wants {
        self.wants
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        self.told.push(match event {
            Event::Flow { thread: THREAD, flow } => Told::Flow(flow),
            Event::Edge { thread: THREAD, edge } => Told::Edge(*edge),
            other => panic!("{other:?}"),
        });
        Reply::NOTHING
    }
}

impl StepSink for All {
    fn instruction(&mut self, thread: Thread, pc: u64, bytes: u32) {
        assert_eq!(thread, THREAD);
        self.told.push(Told::Instruction(pc, bytes));
    }
    fn access(&mut self, access: &Access) {
        self.told.push(Told::Access(*access));
    }
}

fn sink(wants: Wants) -> All {
    All {
        wants,
        ..All::default()
    }
}

fn decode(table: &Table, words: &[u64], mut expander: Expander<'_, All>) -> Vec<Told> {
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder.feed(table, words, &mut expander).unwrap();
    decoder.finish(table, &mut expander).unwrap();
    expander.into_sink().told
}

/// The same, `n` accesses at a time.
fn in_slices(table: &Table, words: &[u64], wants: Wants, n: u64) -> Vec<Told> {
    let xsave = xsave();
    let mut expander = Expander::new(&xsave, sink(wants)).with_limit(0);
    let mut decoder = ThreadDecoder::new(THREAD);
    let mut at = 0;
    let mut finished = false;
    while !finished || expander.is_paused() {
        let before = expander.flush().told.len();
        expander.refill(table, n).unwrap();
        while !expander.full() && !finished {
            at += decoder.feed_some(table, &words[at..], &mut expander).unwrap();
            if at == words.len() && !expander.full() {
                decoder.finish(table, &mut expander).unwrap();
                finished = true;
            }
        }
        assert!(accesses(&expander.flush().told[before..]) <= n as usize);
    }
    expander.into_sink().told
}

fn accesses(told: &[Told]) -> usize {
    let is_access = |t: &&Told| matches!(t, Told::Access(a) if a.kind != Kind::Fetch);
    told.iter().filter(is_access).count()
}

/// In all ways there are.
fn in_all_ways(table: &Table, words: &[u64], wants: Wants) -> Vec<Told> {
    let xsave = xsave();
    let told = decode(table, words, Expander::new(&xsave, sink(wants)));
    let slowly = decode(table, words, Expander::new(&xsave, sink(wants)).one_by_one());
    assert_eq!(told, slowly);
    for n in [1, 3, 100] {
        assert_eq!(told, in_slices(table, words, wants, n), "{n} at a time");
    }
    told
}

fn walked(table: &Table, words: &[u64]) -> Vec<Told> {
    let xsave = xsave();
    let mut walker = Walker::new(&xsave, All::default());
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder.feed(table, words, &mut walker).unwrap();
    decoder.finish(table, &mut walker).unwrap();
    walker.into_sink().told
}

fn counted(table: &Table, words: &[u64]) -> Counts {
    let xsave = xsave();
    let mut counter = Counter::new(&xsave);
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder.feed(table, words, &mut counter).unwrap();
    decoder.finish(table, &mut counter).unwrap();
    counter.counts(table)
}

/// How a block goes on to whatever is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Jump,
    Call,
    Return,
}

/// A block that may be part of a path.
#[derive(Clone, Debug)]
struct Part {
    plan: Plan,
    end: End,
    /// The next block may be another one than usual.
    guarded: bool,
}

fn rsp(c: i64) -> Lin {
    Lin::slot(RSP).offset(c as u64)
}

fn random_part(rng: &mut Rng, pc: u64) -> Part {
    let insns = 1 + rng.below(5) as u16;
    let words = 1 + rng.below(3) as u16;
    let mut slots: Vec<Slot> = [RSP, FS].into_iter().chain(FIRST..FIRST + words - 1).collect();
    let mut p = plan(words, insns, Vec::new());
    p.pc = pc;
    if words > 1 && rng.one_in(2) {
        let of = Lin::slot(FIRST).offset(rng.value());
        let narrow = rng.pick(&[Narrow::ZERO8, Narrow::ZERO32, Narrow::SIGN16]);
        p.derived.push(Derived { narrow, of });
        slots.push(FIRST + words - 1);
    }
    let last = insns - 1;
    // The second value is captured somewhere on the way.
    let late = rng.aside().below(insns.into()) as u16;
    for insn in 0..last {
        let known = |s: Slot| s != FIRST + 1 || words < 3 || insn >= late;
        let slots: Vec<Slot> = slots.iter().copied().filter(|&s| known(s)).collect();
        for _ in 0..rng.pick(&[0, 0, 1, 2]) {
            let addr = Addr {
                lin: Lin::slot(rng.pick(&slots)).offset(rng.below(64) as u64),
                low32: false,
                segment: None,
            };
            let shape = match rng.below(12) {
                0 => Shape::Line { addr, size: 64 },
                _ => Shape::Plain { addr, size: 4 },
            };
            let kind = rng.pick(&[Kind::Read, Kind::Write]);
            p.accesses.push(PlannedAccess { insn, kind, shape });
        }
        if rng.one_in(4) {
            let captured = words - u16::from(!known(FIRST + 1));
            p.sides.push(way_out(insn, rsp(rng.pick(&[0, -16])), captured));
        }
    }
    // The stack pointer before the last instruction: the block may leave its frame.
    let set = words > 1 && rng.one_in(4);
    let before = if set {
        Lin::slot(FIRST)
    } else {
        rsp(rng.pick(&[0, -32, 8]))
    };
    let end = rng.pick(&[End::Jump, End::Jump, End::Call, End::Return]);
    p.exit_rsp = match end {
        End::Jump => before,
        End::Call => {
            if rng.one_in(2) {
                p.accesses.push(plain(last, Kind::Read, Lin::constant(0x1234), 8));
            }
            let slot = before.offset(8u64.wrapping_neg());
            p.accesses.push(plain(last, Kind::Write, slot, 8));
            slot
        }
        End::Return => {
            p.accesses.push(plain(last, Kind::Read, before, 8));
            before.offset(rng.pick(&[8, 8, 24]))
        }
    };
    Part {
        plan: p,
        end,
        guarded: end == End::Jump && set || rng.one_in(2),
    }
}

/// A form of a part's slots as one of the path's: the stack pointer was `entry`, values begin at
/// `first`, derived values at `derived`.
fn moved(lin: &Lin, entry: &Lin, part: &Plan, first: Slot, derived: Slot) -> Lin {
    let mut all = Lin::constant(lin.c);
    for &(slot, scale) in lin.terms() {
        let values = FIRST + part.words - 1;
        let term = match slot {
            RSP => *entry,
            s if s < FIRST => Lin::slot(s),
            s if s < values => Lin::slot(s - FIRST + first),
            s => Lin::slot(s - values + derived),
        };
        all = all.add(&term, scale.into()).unwrap();
    }
    all
}

/// Several blocks as one.
fn join(parts: &[&Part]) -> Plan {
    let values: u16 = parts.iter().map(|p| p.plan.words - 1).sum();
    let mut path = plan(1 + values, 0, Vec::new());
    path.pc = parts[0].plan.pc;
    let (mut first, mut entry) = (FIRST, rsp(0));
    for (i, part) in parts.iter().enumerate() {
        let p = &part.plan;
        let insns = path.insn_offsets.len() as u16;
        let derived = FIRST + values + path.derived.len() as Slot;
        let lin = |l: &Lin| moved(l, &entry, p, first, derived);
        if i > 0 {
            path.pieces.push(Piece {
                insn: insns,
                pc: p.pc,
                via: match parts[i - 1].end {
                    End::Jump => Via::Jump,
                    End::Call => Via::Call,
                    End::Return => Via::Return,
                },
            });
        }
        path.insn_offsets
            .extend(p.insn_offsets.iter().map(|o| o + path.bytes as u16));
        path.bytes += p.bytes;
        path.derived
            .extend(p.derived.iter().map(|d| Derived { of: lin(&d.of), ..*d }));
        path.accesses.extend(p.accesses.iter().map(|a| {
            let addr = |addr: Addr| Addr {
                lin: lin(&addr.lin),
                ..addr
            };
            let shape = match a.shape {
                Shape::Plain { addr: a, size } => Shape::Plain { addr: addr(a), size },
                Shape::Line { addr: a, size } => Shape::Line { addr: addr(a), size },
                ref other => panic!("{other:?}"),
            };
            let insn = insns + a.insn;
            PlannedAccess { insn, shape, ..*a }
        }));
        path.sides.extend(p.sides.iter().map(|s| Side {
            insn: insns + s.insn,
            rsp: lin(&s.rsp),
            moved: 0,
            words: first - FIRST + s.words,
        }));
        let exit = lin(&p.exit_rsp);
        if part.guarded && i + 1 < parts.len() {
            let last = path.insn_offsets.len() as u16 - 1;
            path.sides.push(way_out(last, exit, first - FIRST + p.words));
        }
        (first, entry) = (first + p.words - 1, exit);
    }
    path.exit_rsp = entry;
    path
}

/// The same executions, as blocks and as paths.
struct Both {
    blocks: Table,
    paths: Table,
    as_blocks: Vec<u64>,
    as_paths: Vec<u64>,
}

fn random(seed: u64) -> Both {
    let mut rng = Rng::new(seed);
    let mut parts: Vec<Part> = Vec::new();
    for i in 0..6 {
        let behind = parts.last().map_or(0x800, |p| p.plan.end().1);
        let far = rng.pick(&[0, 0x7fff_0000_0000]);
        let pc = if rng.one_in(4) { behind } else { far + 0x1000 * (i + 1) };
        parts.push(random_part(&mut rng, pc));
    }
    let paths: Vec<Vec<usize>> = (0..4)
        .map(|_| (0..2 + rng.below(4)).map(|_| rng.below(parts.len())).collect())
        .collect();
    let joined = paths.iter().map(|path| {
        let chosen: Vec<&Part> = path.iter().map(|&p| &parts[p]).collect();
        join(&chosen)
    });
    let mut free = ID;
    let plans: Vec<(u32, Plan)> = parts
        .iter()
        .map(|p| p.plan.clone())
        .chain(joined)
        .map(|plan| {
            let id = free;
            free += plan.ids();
            (id, plan)
        })
        .collect();
    let blocks = table(plans[..parts.len()].to_vec());
    let start = [STATE, 0x7fff_0000_0000, 0x7000_0000_0000, 0];
    let mut both = Both {
        blocks,
        paths: table(plans.clone()),
        as_blocks: start.to_vec(),
        as_paths: start.to_vec(),
    };
    if rng.one_in(2) {
        both.blocks.number_fetches();
        both.paths.number_fetches();
    }
    for _ in 0..30 {
        let Both {
            as_blocks, as_paths, ..
        } = &mut both;
        if rng.one_in(3) {
            // A block by itself.
            let i = rng.below(parts.len());
            let mut record = vec![u64::from(plans[i].0)];
            record.extend((1..parts[i].plan.words).map(|_| rng.value()));
            as_blocks.extend(&record);
            as_paths.extend(&record);
            continue;
        }
        let i = rng.below(paths.len());
        let path = &plans[parts.len() + i];
        let plan = &path.1;
        let insns = plan.insn_offsets.len() as u16;
        // Where it is left: past its end, behind a way out, or at an instruction that did not
        // complete.
        let (mut end, mut cut) = (insns, false);
        match rng.below(4) {
            0 => (end, cut) = (rng.below(insns.into()) as u16, true),
            1 if !plan.sides.is_empty() => end = plan.sides[rng.below(plan.sides.len())].insn + 1,
            _ => {}
        }
        let cut_at = |insn: u16| [CUT, insn.into(), 0, 0, 0, 0];
        // The record of a block that was left behind its instruction `end - 1`, if not at its end.
        let left = |(id, plan): &(u32, Plan), end: u16, values: &[u64]| {
            let side = plan.sides.iter().position(|s| !cut && s.insn + 1 == end);
            let n = side.map_or(0, |s| s as u32 + 1);
            let words = usize::from(plan.record(n).words);
            [&[u64::from(id + n)], &values[..words - 1]].concat()
        };
        let (mut begin, mut all) = (0, Vec::new());
        for &part in &paths[i] {
            let p = &parts[part].plan;
            let length = p.insn_offsets.len() as u16;
            let values: Vec<u64> = (1..p.words).map(|_| rng.value()).collect();
            all.extend(&values);
            if begin < end || cut && begin == end {
                as_blocks.extend(left(&plans[part], end - begin, &values));
                if cut && end < begin + length {
                    as_blocks.extend(cut_at(end - begin));
                }
            }
            begin += length;
        }
        as_paths.extend(left(path, end, &all));
        if cut {
            as_paths.extend(cut_at(end));
            let state = [STATE, rng.value(), 0x7000_0000_0000, 0];
            as_blocks.extend(state);
            as_paths.extend(state);
        }
    }
    both
}

#[test]
fn paths_tell_what_their_blocks_tell() {
    let (mut flows, mut edges) = (0, 0);
    for seed in 0..200 {
        let both = random(seed);
        for wants in [
            Wants::default(),
            Wants {
                flows: true,
                ..Wants::default()
            },
            Wants {
                edges: true,
                ..Wants::default()
            },
            Wants {
                fetches: true,
                ..Wants::default()
            },
            Wants { fetches: false, ..ALL },
            ALL,
        ] {
            let expected = in_all_ways(&both.blocks, &both.as_blocks, wants);
            let got = in_all_ways(&both.paths, &both.as_paths, wants);
            let differ = (0..got.len()).find(|&i| got.get(i) != expected.get(i));
            let around =
                |told: &[Told]| differ.map(|i| told[i.saturating_sub(3)..].iter().take(5).copied().collect::<Vec<_>>());
            assert!(
                got == expected,
                "seed {seed}, {wants:?}: {:#?} {:#?}",
                around(&got),
                around(&expected)
            );
            flows += got.iter().filter(|t| matches!(t, Told::Flow(_))).count();
            edges += got.iter().filter(|t| matches!(t, Told::Edge(_))).count();
        }
        assert_eq!(
            walked(&both.paths, &both.as_paths),
            walked(&both.blocks, &both.as_blocks),
            "seed {seed}"
        );
        let (mut path, block) = (
            counted(&both.paths, &both.as_paths),
            counted(&both.blocks, &both.as_blocks),
        );
        path.blocks = block.blocks;
        assert_eq!(path, block, "seed {seed}");
    }
    assert!(flows > 5_000 && edges > 5_000, "{flows} flows, {edges} edges");
}

#[test]
fn all_ways_tell_the_same_of_any_program() {
    for seed in 0..30 {
        let mut program = program(seed, 25);
        program.table.number_fetches();
        in_all_ways(&program.table, &program.words(), ALL);
        in_all_ways(&program.table, &program.words(), Wants { fetches: false, ..ALL });
    }
}

#[test]
fn points_of_paths_are_those_of_their_blocks() {
    for seed in 0..50 {
        let both = random(seed);
        assert_eq!(both.paths.points(), both.blocks.points(), "seed {seed}");
    }
}

/// A loop that calls a function: call at the end of the first piece, return at the end of the
/// second.
fn calling(looping: Option<LoopPlan>, words: u16) -> Plan {
    let mut p = plan(
        words,
        5,
        vec![
            plain(0, Kind::Read, slot(0), 8),
            plain(1, Kind::Write, rsp(-8), 8),
            plain(2, Kind::Write, slot(1), 4),
            plain(3, Kind::Read, rsp(-8), 8),
        ],
    );
    let piece = |insn, pc, via| Piece { insn, pc, via };
    p.pieces = vec![piece(2, 0x2000, Via::Call), piece(4, PC + 8, Via::Return)];
    p.looping = looping;
    p
}

/// What one iteration tells but for edges, with these values.
fn iteration(a: u64, b: u64) -> [Told; 6] {
    let access = |pc, kind, addr, size| Access {
        thread: THREAD,
        pc,
        kind,
        addr,
        size,
        point: memtrail_model::Point::NONE,
    };
    let slot = 0x7ff8;
    [
        Told::Access(access(PC, Kind::Read, a, 8)),
        Told::Access(access(PC + 4, Kind::Write, slot, 8)),
        Told::Flow(Flow::Call {
            site: PC + 4,
            target: 0x2000,
            slot,
        }),
        Told::Access(access(0x2000, Kind::Write, b, 4)),
        Told::Access(access(0x2004, Kind::Read, slot, 8)),
        Told::Flow(Flow::Return { slot }),
    ]
}

fn without_points(mut told: Vec<Told>) -> Vec<Told> {
    for told in &mut told {
        if let Told::Access(access) = told {
            access.point = memtrail_model::Point::NONE;
        }
    }
    told
}

fn edge(start: u64, end: u64, target: u64, via: Via) -> Told {
    Told::Edge(Edge {
        start,
        last: end - 4,
        end,
        target,
        via,
    })
}

/// Each iteration's flows, and each way once.
fn check_loop(table: &Table, words: &[u64], iterations: &[(u64, u64)]) {
    let flows = Wants {
        flows: true,
        ..Wants::default()
    };
    let mut expected = vec![
        Told::Flow(Flow::Stack { rsp: 0x8000 }),
        Told::Flow(Flow::ThreadPointer { base: 1 }),
    ];
    expected.extend(iterations.iter().flat_map(|&(a, b)| iteration(a, b)));
    let told = in_all_ways(table, words, flows);
    assert_eq!(without_points(told), expected);
    let edges = Wants {
        edges: true,
        ..Wants::default()
    };
    let told = in_all_ways(table, words, edges);
    let ways: Vec<Told> = told.into_iter().filter(|t| matches!(t, Told::Edge(_))).collect();
    let expected = [
        edge(PC + 8, PC + 12, PC, Via::Jump),
        edge(PC, PC + 8, 0x2000, Via::Call),
        edge(0x2000, 0x2008, PC + 8, Via::Return),
    ];
    assert_eq!(ways, expected);
}

#[test]
fn a_path_that_is_a_loop_tells_of_every_iteration() {
    let state = [STATE, 0x8000, 1, 0];
    let steps = vec![by(FIRST, 16)];
    let free = vec![FIRST + 1];
    let partly = table(vec![(ID, calling(Some(LoopPlan::Partly { steps, free }), 3))]);
    let (first, again) = (u64::from(ID), u64::from(ID) + 1);
    let mut words = state.to_vec();
    words.extend([first, 0x100, 0x5000, again, 0x6000, again, 0x7000, again, 0x5000]);
    let expected = [(0x100, 0x5000), (0x110, 0x6000), (0x120, 0x7000), (0x130, 0x5000)];
    check_loop(&partly, &words, &expected);

    let counter = by(FIRST, 8);
    let steps = vec![counter, by(FIRST + 1, 4)];
    let affine = table(vec![(ID, calling(Some(LoopPlan::Affine { steps, counter }), 4))]);
    let mut words = state.to_vec();
    words.extend([first, 0x100, 0x5000, 0x118]);
    let expected = [(0x100, 0x5000), (0x108, 0x5004), (0x110, 0x5008)];
    check_loop(&affine, &words, &expected);
}

#[test]
fn a_path_that_returns_elsewhere_returns_all_the_same() {
    let mut path = calling(None, 3);
    path.sides = vec![way_out(3, rsp(0), 3)];
    let other = Plan {
        pc: 0x3000,
        ..plan(1, 1, Vec::new())
    };
    let id = u64::from(ID);
    let table = table(vec![(ID, path), (ID + 2, other)]);
    let words = [STATE, 0x8000, 1, 0, id + 1, 0x100, 0x5000, id + 2];
    let told = without_points(in_all_ways(&table, &words, Wants { fetches: false, ..ALL }));
    let [read, push, call, write, pop, back] = iteration(0x100, 0x5000);
    let expected = [
        Told::Flow(Flow::Stack { rsp: 0x8000 }),
        Told::Flow(Flow::ThreadPointer { base: 1 }),
        read,
        push,
        edge(PC, PC + 8, 0x2000, Via::Call),
        call,
        write,
        pop,
        edge(0x2000, 0x2008, 0x3000, Via::Return),
        back,
    ];
    assert_eq!(told, expected);
}

#[test]
fn plans_whose_pieces_are_not_in_order_are_refused() {
    let piece = |insn| Piece {
        insn,
        pc: 0x2000,
        via: Via::Jump,
    };
    let insert = |insns: &[u16]| {
        let mut p = plan(1, 300, Vec::new());
        p.pieces = insns.iter().map(|&i| piece(i)).collect();
        table(Vec::new()).insert(ID, p)
    };
    assert!(insert(&[1, 2, 299]).is_ok());
    assert!(insert(&(1..256).collect::<Vec<_>>()).is_ok());
    for wrong in [&[0][..], &[1, 1], &[2, 1], &[300], &[1, 300]] {
        assert!(insert(wrong).is_err(), "{wrong:?}");
    }
    assert!(insert(&(1..257).collect::<Vec<_>>()).is_err());
}
