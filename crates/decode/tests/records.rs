//! Records that are not words give what their words give.
mod plans;

use memtrail_decode::{Expander, Kinds, Records, State, Table, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Edge, Event, Flow, Kind, Reply, Thread, Wants};
use memtrail_plan::{Derived, Lin, LoopPlan, Narrow, Plan, Slot, Step, FIRST, RSP};
use memtrail_ring::record::{special_words, CUT, FIRST_BLOCK, STATE};
use plans::*;

const THREAD: Thread = Thread(7);

/// Everything in order, and what it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct All {
    told: Vec<Told>,
    fetches: bool,
    flows: bool,
    edges: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Access(Access),
    Flow(Flow),
    Edge(Edge),
}

impl AccessSink for All {
    fn accesses(&mut self, batch: &[Access]) {
        self.told.extend(batch.iter().map(|&a| Told::Access(a)));
    }
    fn wants(&self) -> Wants {
        Wants {
            fetches: self.fetches,
            flows: self.flows,
            edges: self.edges,
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        self.told.push(match event {
            Event::Flow { flow, .. } => Told::Flow(flow),
            Event::Edge { edge, .. } => Told::Edge(*edge),
            other => panic!("{other:?}"),
        });
        Reply::NOTHING
    }
}

/// A program's records by kind.
struct Numbered {
    what: Kinds,
    /// The head of each kind.
    heads: Vec<u64>,
    kinds: Vec<u32>,
    values: Vec<u64>,
    /// Where each record's values begin, and its words.
    starts: Vec<usize>,
    records: Vec<Vec<u64>>,
}

fn numbered(table: &Table, words: &[u64]) -> Numbered {
    let mut all = Numbered {
        what: Kinds::default(),
        heads: Vec::new(),
        kinds: Vec::new(),
        values: Vec::new(),
        starts: Vec::new(),
        records: Vec::new(),
    };
    let mut at = 0;
    while at < words.len() {
        let head = words[at];
        let is_block = head >= FIRST_BLOCK;
        let length = match is_block {
            true => table.find(head).unwrap().words,
            false => special_words(head).unwrap(),
        };
        let end = at + length;
        let values = &words[at + 1..end];
        let kind = all.heads.iter().position(|&h| h == head).unwrap_or_else(|| {
            match is_block {
                true => all.what.push(table, head, values.len()),
                false => all.what.push_other(head == CUT),
            }
            all.heads.push(head);
            all.heads.len() - 1
        });
        all.kinds.push(kind as u32);
        all.starts.push(all.values.len());
        all.values.extend_from_slice(values);
        all.records.push(words[at..end].to_vec());
        at = end;
    }
    all
}

/// What the first `limit` accesses are as records where they can be, and as words where not; also
/// how many records were no words.
fn by_records(table: &Table, all: &Numbered, sink: All, limit: u64) -> (All, State, usize) {
    let xsave = xsave();
    let mut expander = Expander::new(&xsave, sink).with_limit(limit);
    let mut decoder = ThreadDecoder::new(THREAD);
    let (mut at, mut taken) = (0, 0);
    while at < all.kinds.len() && !expander.full() {
        let records = Records {
            kinds: &all.kinds[at..],
            values: &all.values[all.starts[at]..],
            what: &all.what,
        };
        let (n, words) = decoder.feed_records(table, &records, &mut expander).unwrap();
        assert_eq!(words as usize, all.records[at..at + n].concat().len());
        (at, taken) = (at + n, taken + n);
        if n == 0 {
            decoder.feed(table, &all.records[at], &mut expander).unwrap();
            at += 1;
        }
    }
    let state = decoder.state();
    decoder.finish(table, &mut expander).unwrap();
    (expander.into_sink(), state, taken)
}

fn by_words(table: &Table, words: &[u64], sink: All, limit: u64) -> (All, State) {
    let xsave = xsave();
    let mut expander = Expander::new(&xsave, sink).one_by_one().with_limit(limit);
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder.feed(table, words, &mut expander).unwrap();
    let state = decoder.state();
    decoder.finish(table, &mut expander).unwrap();
    (expander.into_sink(), state)
}

#[test]
fn records_give_what_their_words_give() {
    let mut taken = 0;
    for seed in 0..600 {
        let mut program = program(seed, 60);
        program.table.number_fetches();
        let (table, words) = (&program.table, program.words());
        let all = numbered(table, &words);
        for wants in 0..8 {
            let sink = All {
                fetches: wants & 1 != 0,
                flows: wants & 2 != 0,
                edges: wants & 4 != 0,
                ..All::default()
            };
            let (expected, state) = by_words(table, &words, sink.clone(), u64::MAX);
            let (got, reached, n) = by_records(table, &all, sink, u64::MAX);
            assert_eq!(got, expected, "seed {seed}");
            assert_eq!(reached, state, "seed {seed}");
            taken += n;
        }
    }
    assert!(taken > 10_000, "{taken}");
}

#[test]
fn a_limit_is_kept_anywhere() {
    for seed in 0..60 {
        let program = program(seed, 20);
        let (table, words) = (&program.table, program.words());
        let all = numbered(table, &words);
        let whole = by_words(table, &words, All::default(), 3000).0.told.len();
        for limit in (0..whole).step_by(1 + whole / 40) {
            let (expected, _) = by_words(table, &words, All::default(), limit as u64);
            let (got, ..) = by_records(table, &all, All::default(), limit as u64);
            assert_eq!(got, expected, "seed {seed}, limit {limit}");
            assert_eq!(got.told.len(), limit);
        }
    }
}

#[test]
fn values_that_are_missing_are_not_taken() {
    let program = program(3, 40);
    let all = numbered(&program.table, &program.words());
    let ready = |&i: &usize| all.what.is_ready(all.kinds[i]) && all.records[i].len() > 1;
    let first = (0..all.kinds.len()).find(ready).unwrap();
    let (kinds, values) = (&all.kinds[first..], &all.values[all.starts[first]..]);
    let xsave = xsave();
    for (kinds, values) in [(kinds, &[][..]), (&[u32::MAX, 0][..], values), (&kinds[..1], values)] {
        let mut expander = Expander::new(&xsave, All::default());
        let what = &all.what;
        let records = Records { kinds, values, what };
        let mut decoder = ThreadDecoder::new(THREAD);
        let fed = decoder.feed_records(&program.table, &records, &mut expander);
        assert_eq!(fed, Ok((0, 0)));
    }
}

/// A loop with a record for every iteration: of its five values two are in every record, one moves,
/// one becomes what was recorded, one stays. Its accesses follow from these, from bits of them, and
/// from bits of those.
fn partly_steady(rng: &mut Rng) -> Plan {
    let free = vec![FIRST + 1, FIRST + 3];
    let mut p = plan(6, 4, Vec::new());
    let narrows = [Narrow::ZERO16, Narrow::SIGN8, Narrow::ZERO32];
    for _ in 0..3 {
        let slots = FIRST + 5 + p.derived.len() as u16;
        let of = form(rng, slots);
        let narrow = rng.pick(&narrows);
        p.derived.push(Derived { narrow, of });
    }
    for insn in 0..4 {
        let kind = rng.pick(&[Kind::Read, Kind::Write]);
        p.accesses.push(plain(insn, kind, form(rng, FIRST + 8), 4));
    }
    p.sides = vec![way_out(1, Lin::slot(RSP).offset(16), 6)];
    let moves = Step {
        low32: rng.one_in(2),
        plus: rng.one_in(2).then_some((FIRST + 4, 2)),
        ..by(FIRST, 24)
    };
    let renewed = Step {
        low32: rng.one_in(2),
        plus: Some((rng.pick(&free), rng.pick(&[1, 4, -3]))),
        anew: true,
        ..by(FIRST + 2, 5)
    };
    p.looping = Some(LoopPlan::Partly {
        steps: vec![moves, renewed],
        free,
    });
    p
}

/// Multiples of one to three of the slots below this one, and a constant.
fn form(rng: &mut Rng, slots: Slot) -> Lin {
    let mut form = Lin::constant(rng.value());
    for _ in 0..=rng.below(3) {
        let slot = FIRST + rng.below(usize::from(slots - FIRST)) as Slot;
        let scale = rng.pick(&[1, 1, 2, 8, -1, 12]);
        form = form.add(&Lin::slot(slot), scale).unwrap_or(form);
    }
    form
}

#[test]
fn runs_of_iterations_give_what_one_after_the_other_gives() {
    let first = FIRST_BLOCK;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let p = partly_steady(&mut rng);
        let steady = first + u64::from(p.steady_ids());
        let table = table(vec![(first as u32, p)]);
        // Through the way out, or to the end, where it is left open how the loop goes on.
        for (later, left) in [
            (0, true),
            (1, false),
            (5, false),
            (8, true),
            (9, true),
            (47, false),
            (300, true),
        ] {
            let mut words = vec![STATE, 0x7fff_0000, 0x7000, 0x6000];
            for _ in 0..2 {
                words.push(first);
                words.extend((0..5).map(|_| rng.value()));
                for _ in 0..later {
                    words.extend([steady, rng.value(), rng.value()]);
                }
                if left {
                    words.extend([steady + 1, rng.value(), rng.value()]);
                }
            }
            let all = numbered(&table, &words);
            let (expected, state) = by_words(&table, &words, All::default(), u64::MAX);
            let (got, reached, taken) = by_records(&table, &all, All::default(), u64::MAX);
            assert_eq!(got, expected, "seed {seed}, {later} later iterations");
            assert_eq!(reached, state, "seed {seed}, {later} later iterations");
            assert!(taken + 2 >= 2 * later, "seed {seed}: {taken} of {later} twice");
        }
    }
}
