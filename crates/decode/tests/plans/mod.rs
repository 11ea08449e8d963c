//! Hand-made plans, and whole random programs with the records they could have written.
#![allow(dead_code)] // each test uses its part

use memtrail_decode::Table;
use memtrail_model::{Access, AccessSink, Kind, Via};
use memtrail_plan::{
    Addr, BitWord, Derived, Lin, LoopPlan, Mask, Narrow, Piece, Plan, PlannedAccess, Shape, Side, Slot, Step, FIRST,
    FS, GS, RSP,
};
use memtrail_plan::{XsaveComponent, XsaveTable};
use memtrail_ring::record::{CUT, FIRST_BLOCK, SIGNAL, SIGRETURN, STATE};

pub const PC: u64 = 0x40_1000;
pub const ID: u32 = 64;

#[derive(Default)]
pub struct List(pub Vec<Access>);
impl AccessSink for List {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.extend_from_slice(batch);
    }
}

pub fn xsave() -> XsaveTable {
    let component = |index, size, offset, aligned| XsaveComponent {
        index,
        size,
        offset,
        aligned,
    };
    XsaveTable {
        xcr0: 0xe7,
        components: vec![
            component(2, 256, 576, false),
            component(5, 64, 1088, false),
            component(6, 512, 1152, true),
            component(7, 1024, 1664, false),
            component(9, 8, 2688, false),
        ],
    }
}

pub fn table(plans: Vec<(u32, Plan)>) -> Table {
    let mut table = Table::default();
    for (id, plan) in plans {
        table.insert(id, plan).unwrap();
    }
    table
}

pub fn at(lin: Lin) -> Addr {
    Addr {
        lin,
        low32: false,
        segment: None,
    }
}
pub fn slot(i: u16) -> Lin {
    Lin::slot(FIRST + i)
}
pub fn plain(insn: u16, kind: Kind, lin: Lin, size: u32) -> PlannedAccess {
    let shape = Shape::Plain { addr: at(lin), size };
    PlannedAccess { insn, kind, shape }
}

pub fn plan(words: u16, insns: u16, accesses: Vec<PlannedAccess>) -> Plan {
    Plan {
        pc: PC,
        bytes: u32::from(insns) * 4,
        insn_offsets: (0..insns).map(|i| i * 4).collect(),
        pieces: Vec::new(),
        words,
        derived: Vec::new(),
        accesses,
        exit_rsp: Lin::slot(RSP),
        looping: None,
        sides: Vec::new(),
    }
}

pub fn one(words: u16, kind: Kind, shape: Shape) -> Plan {
    plan(words, 1, vec![PlannedAccess { insn: 0, kind, shape }])
}

/// A way out behind instruction `insn`, with a record of so many words.
pub fn way_out(insn: u16, rsp: Lin, words: u16) -> Side {
    Side {
        insn,
        rsp,
        moved: 0,
        words,
    }
}

pub fn by(slot: Slot, by: i64) -> Step {
    Step {
        slot,
        by: by as u64,
        low32: false,
        plus: None,
        anew: false,
    }
}

/// A small generator of random numbers: a failure is found again by its seed.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    /// Another one, which this one does not depend on.
    pub fn aside(&self) -> Rng {
        Rng::new(self.0)
    }
    pub fn below(&mut self, n: usize) -> usize {
        ((self.word() >> 33) % n.max(1) as u64) as usize
    }
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
    /// A value, often just at an edge where narrower arithmetic wraps.
    pub fn value(&mut self) -> u64 {
        let edge = self.pick(&[
            0,
            0,
            0x80,
            0x1_0000,
            1 << 31,
            1 << 32,
            1 << 32,
            1 << 63,
            0x7fff_0000_1000,
        ]);
        match self.below(8) {
            0 => self.word(),
            1 => self.word() >> 32,
            _ => u64::wrapping_add(edge, self.below(64) as u64).wrapping_sub(32),
        }
    }
}

const INSNS: u16 = 10;

/// Random plans, and a thread's records by them; each may be followed by the end of a buffer.
pub struct Program {
    pub table: Table,
    pub records: Vec<Vec<u64>>,
    /// Whether a record can stand for any number of iterations.
    pub affine: bool,
}

impl Program {
    pub fn words(&self) -> Vec<u64> {
        self.records.concat()
    }
}

pub fn program(seed: u64, length: usize) -> Program {
    let mut rng = Rng::new(seed);
    let mut plans = Vec::new();
    let mut id = FIRST_BLOCK as u32;
    for _ in 0..1 + rng.below(6) {
        let plan = random_plan(&mut rng);
        let ids = plan.ids();
        plans.push((id, plan));
        id += ids;
    }
    let mut records = vec![vec![STATE, 0x7fff_0000_0000, 0x7000_0000_0000, rng.value()]];
    while records.len() < length {
        let (id, plan) = &plans[rng.below(plans.len())];
        executions(&mut rng, *id, plan, &mut records);
        match rng.below(12) {
            0 => records.push(vec![STATE, rng.value(), rng.value(), rng.value()]),
            1 => records.push(vec![SIGNAL, 11]),
            2 => records.push(vec![SIGRETURN]),
            _ => {}
        }
    }
    let is_affine = |p: &(u32, Plan)| matches!(p.1.looping, Some(LoopPlan::Affine { .. }));
    Program {
        affine: plans.iter().any(is_affine),
        table: table(plans),
        records,
    }
}

fn random_lin(rng: &mut Rng, slots: &[Slot]) -> Lin {
    let mut lin = Lin::constant(rng.value());
    let most = rng.pick(&[0, 1, 1, 1, 2, 2, 3]);
    for _ in 0..most {
        let slot = Lin::slot(rng.pick(slots));
        let scale = rng.pick(&[1, 1, 1, 2, 4, 8, -1, 24]);
        lin = lin.add(&slot, scale).unwrap_or(lin);
    }
    lin
}

fn random_shape(rng: &mut Rng, slots: &[Slot]) -> Shape {
    let addr = Addr {
        lin: random_lin(rng, slots),
        low32: rng.one_in(8),
        segment: if rng.one_in(8) { Some(rng.pick(&[FS, GS])) } else { None },
    };
    match rng.below(30) {
        0 => Shape::from(BitWord {
            addr,
            bit: random_lin(rng, slots),
            size: 4,
        }),
        1 => Shape::Elements {
            addr,
            lanes: 4,
            mask: Mask::Bits(rng.pick(slots)),
            size: 8,
        },
        _ => Shape::Plain {
            addr,
            size: rng.pick(&[1, 2, 4, 8, 64]),
        },
    }
}

fn random_rsp(rng: &mut Rng, slots: &[Slot]) -> Lin {
    match rng.below(8) {
        0 => Lin::slot(rng.pick(slots)).offset(rng.pick(&[0, 8])),
        1 => random_lin(rng, slots),
        _ => Lin::slot(RSP).offset(rng.pick(&[0, 8, 8u64.wrapping_neg(), 64])),
    }
}

fn random_step(rng: &mut Rng, slot: Slot, unchanging: &[Slot]) -> Step {
    Step {
        slot,
        by: rng.pick(&[1, 4, 8, 64, -1i64, -8]) as u64,
        low32: rng.one_in(4),
        plus: (!unchanging.is_empty() && rng.one_in(4)).then(|| (rng.pick(unchanging), rng.pick(&[1, -1, 8]))),
        anew: false,
    }
}

const NARROWS: [Narrow; 12] = {
    const fn bits(from: u8, bits: u8, signed: bool) -> Narrow {
        Narrow { from, bits, signed }
    }
    [
        Narrow::ZERO8,
        Narrow::ZERO16,
        Narrow::ZERO32,
        Narrow::ZERO32,
        Narrow::SIGN8,
        Narrow::SIGN16,
        Narrow::SIGN32,
        bits(0, 15, false),
        bits(3, 61, false),
        bits(3, 29, false),
        bits(2, 62, true),
        bits(8, 8, true),
    ]
};

fn random_pieces(rng: &mut Rng) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let often = rng.pick(&[usize::MAX, 3]);
    for insn in 1..INSNS {
        if rng.one_in(often) {
            pieces.push(Piece {
                insn,
                // There may be pieces that overlap.
                pc: PC + 4 * rng.below(64) as u64,
                via: rng.pick(&[Via::Jump, Via::Call, Via::Return]),
            });
        }
    }
    pieces
}

fn random_plan(rng: &mut Rng) -> Plan {
    let words = 1 + rng.below(6) as u16;
    let looping = if words > 2 { rng.below(3) } else { 0 };
    // The last word of an affine loop's record is its counter at the end, which nothing refers to.
    let captured: Vec<Slot> = (FIRST..FIRST + words - 1 - u16::from(looping == 1)).collect();
    let mut slots: Vec<Slot> = [RSP, FS, GS].into_iter().chain(captured.iter().copied()).collect();
    // The instruction before which each slot has its value: a loop captures everything at its
    // beginning.
    let mut ready = vec![0; slots.len()];
    if looping == 0 {
        let mut aside = rng.aside();
        let late = &mut ready[FIRST.into()..];
        late.iter_mut()
            .for_each(|at| *at = aside.pick(&[0, 0, 1, 3, INSNS - 2, INSNS - 1]));
        late.sort();
    }
    let known = |slots: &[Slot], ready: &[u16], insn: u16| -> Vec<Slot> {
        let both = slots.iter().zip(ready);
        both.filter(|&(_, &at)| at <= insn).map(|(&s, _)| s).collect()
    };
    let mut p = plan(words, INSNS, Vec::new());
    for i in 0..rng.pick(&[0, 0, 1, 2]) {
        let of = random_lin(rng, &slots);
        let parts = of.terms().iter().filter_map(|t| slots.iter().position(|s| *s == t.0));
        ready.push(parts.map(|at| ready[at]).max().unwrap_or(0));
        p.derived.push(Derived {
            narrow: rng.pick(&NARROWS),
            of,
        });
        slots.push(FIRST + words - 1 + i);
    }
    for insn in 0..INSNS {
        let slots = known(&slots, &ready, insn);
        for _ in 0..rng.pick(&[0, 0, 1, 1, 2]) {
            p.accesses.push(PlannedAccess {
                insn,
                kind: rng.pick(&[Kind::Read, Kind::Read, Kind::Write, Kind::Prefetch]),
                shape: random_shape(rng, &slots),
            });
        }
    }
    p.exit_rsp = random_rsp(rng, &slots);
    for insn in 0..INSNS - 1 {
        if rng.one_in(4) && p.sides.len() < 5 {
            let captured = ready[FIRST.into()..].iter().take(captured.len());
            p.sides.push(Side {
                insn,
                rsp: random_rsp(rng, &known(&slots, &ready, insn)),
                moved: rng.below(3) as u64,
                words: match looping {
                    0 => 1 + captured.filter(|&&at| at <= insn).count() as u16,
                    _ => words,
                },
            });
        }
    }
    p.pieces = random_pieces(&mut rng.aside());
    let unchanging: Vec<Slot> = captured.iter().copied().filter(|s| s % 2 == 0).collect();
    let stepped: Vec<Slot> = captured.iter().copied().filter(|s| s % 2 == 1).collect();
    p.looping = match looping {
        1 => {
            let counter = Step {
                plus: None,
                anew: false,
                ..random_step(rng, FIRST, &[])
            };
            let mut steps = vec![counter];
            for &slot in stepped.iter().filter(|&&s| s != FIRST) {
                steps.push(random_step(rng, slot, &unchanging));
            }
            for &slot in &unchanging {
                if rng.one_in(2) {
                    steps.push(by(slot, 0));
                }
            }
            Some(LoopPlan::Affine { steps, counter })
        }
        2 => {
            let mut steps: Vec<Step> = stepped.iter().map(|&slot| random_step(rng, slot, &[])).collect();
            let mut aside = rng.aside();
            for step in &mut steps {
                if !aside.one_in(3) {
                    continue;
                }
                step.anew = true;
                step.plus = (!unchanging.is_empty() && !aside.one_in(4))
                    .then(|| (aside.pick(&unchanging), aside.pick(&[1, 2, -1])));
            }
            Some(LoopPlan::Partly {
                free: unchanging,
                steps,
            })
        }
        _ => None,
    };
    p
}

/// One execution of a block with whatever ends it, or a whole run of a partly steady loop.
fn executions(rng: &mut Rng, id: u32, plan: &Plan, records: &mut Vec<Vec<u64>>) {
    let values = usize::from(plan.words) - 1;
    let mut first = vec![u64::from(id)];
    first.extend((0..values).map(|_| rng.value()));
    let side = if plan.sides.is_empty() || rng.one_in(2) {
        None
    } else {
        Some(rng.below(plan.sides.len()))
    };
    let cut = side.is_none() && rng.one_in(6);
    if let Some(LoopPlan::Affine { counter, .. }) = &plan.looping {
        let least = u64::from(side.is_none() && !cut);
        let trips = rng.pick(&[least, 1, 2, 2, 3, 5, 17, 700]);
        let mut exit = first[1].wrapping_add(counter.by.wrapping_mul(trips));
        exit = exit.wrapping_add(side.map_or(0, |s| plan.sides[s].moved));
        first[values] = if counter.low32 { exit as u32 as u64 } else { exit };
    }
    let mut all = vec![first];
    if let Some(LoopPlan::Partly { free, .. }) = &plan.looping {
        let most = rng.pick(&[5, 5, 5, 130]);
        for _ in 0..rng.below(most) {
            let mut steady = vec![u64::from(id + plan.steady_ids())];
            steady.extend((0..free.len()).map(|_| rng.value()));
            all.push(steady);
        }
    }
    if let (Some(side), Some(last)) = (side, all.last_mut()) {
        last[0] += 1 + side as u64;
        last.truncate(plan.record((last[0] - u64::from(id)) as u32).words.into());
    }
    records.extend(all);
    if cut {
        let insn = rng.below(INSNS.into()) as u64;
        records.push(vec![CUT, insn, rng.value(), rng.value(), rng.value(), rng.word()]);
    }
}
