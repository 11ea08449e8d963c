//! Samples of a simulation against the same simulation, access by access.
use memtrail_analyze::objects;
use memtrail_analyze::tagger::{Dimensions, Tagger};
use memtrail_model::{Access, AccessSink, Event, Kind, LoopAccess, LoopRun, Note, Point, Thread};
use memtrail_phases::cut::{Cutter, Unit};
use memtrail_phases::sampler::{Phased, RegionMark, Sampler, SamplerOptions, Touch, CODE, OBJECTS};
use memtrail_simulate::{short, Hierarchy, Options, Simulator};
use proptest::prelude::*;
use std::collections::BTreeMap;

const THREAD: Thread = Thread(0);
const LEVELS: usize = 2;

fn simulator() -> Simulator {
    let levels = ["L1=128:32:2", "L2=512:32:2"].map(String::from);
    let hierarchy = Hierarchy::of(short::levels(&levels).unwrap());
    Simulator::new(&hierarchy, Options::default()).unwrap()
}

fn tagger() -> Tagger<Touch> {
    let dimensions = Dimensions {
        object: true,
        ..Dimensions::default()
    };
    Tagger::new(Touch::new(simulator(), true), dimensions, objects::Options::default())
}

/// Two objects that the program named: addresses below and from 4,096 on.
fn name_objects(sink: &mut impl AccessSink) {
    sink.event(Event::Space {
        thread: THREAD,
        space: 0,
    });
    for (number, address) in [0x1000u64, 0x2000].into_iter().enumerate() {
        let note = Note::Map {
            address,
            bytes: 0x1000,
            protection: 3,
            source: number as u32,
            offset: 0,
        };
        sink.event(Event::Note {
            thread: THREAD,
            number: number as u64,
            note: &note,
        });
    }
}

/// Steps of a program: single accesses and loops.
#[derive(Clone, Debug)]
struct Step {
    point: u32,
    address: u64,
    stride: u64,
    trips: u64,
}

fn body(step: &Step) -> Vec<LoopAccess> {
    let one = |offset: u64, kind, point| LoopAccess {
        pc: 0,
        kind,
        point: Point(point),
        size: 8,
        addr: step.address + offset,
        stride: step.stride,
    };
    vec![one(0, Kind::Read, step.point), one(8, Kind::Write, step.point + 10)]
}

fn run_of<'b>(step: &Step, body: &'b [LoopAccess]) -> LoopRun<'b> {
    LoopRun {
        thread: THREAD,
        trips: step.trips,
        body,
    }
}

fn feed(sink: &mut impl AccessSink, steps: &[Step]) {
    for step in steps {
        let body = body(step);
        let run = run_of(step, &body);
        let taken = sink.event(Event::Loop(run)).skip;
        let rest: Vec<Access> = run.accesses().skip(taken as usize * body.len()).collect();
        rest.chunks(3).for_each(|batch| sink.accesses(batch));
    }
}

/// Accesses and misses by level.
type Counts = [u64; 2 * LEVELS];

/// By object, of each access: what it added to the counts, by a simulator that gets one at a time.
fn one_by_one(steps: &[Step]) -> Vec<(bool, u32, Counts)> {
    let mut simulator = simulator();
    let mut found = Vec::new();
    let all = |simulator: &Simulator| -> Counts {
        let totals = simulator.counts();
        let total = |i: usize| {
            let total = totals[i / 2].total();
            [total.accesses(), total.misses][i % 2]
        };
        std::array::from_fn(total)
    };
    for step in steps {
        let body = body(step);
        for access in run_of(step, &body).accesses() {
            let before = all(&simulator);
            simulator.accesses(&[access]);
            let after = all(&simulator);
            let added = std::array::from_fn(|i| after[i] - before[i]);
            found.push((access.addr >= 0x2000, access.point.0, added));
        }
    }
    found
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        0u32..4,
        0x1000u64..0x2f00,
        prop::sample::select(vec![0u64, 8, 32]),
        1u64..7,
    );
    let step = step.prop_map(|(point, address, stride, trips)| Step {
        point,
        address: (address & !7).min(if address < 0x2000 { 0x1f00 } else { 0x2f00 }),
        stride,
        trips,
    });
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Every sample holds exactly what the accesses of its period added, by object and by code.
    #[test]
    fn samples_are_exact(steps in steps(), most in 2usize..30, period in 1u64..5) {
        let options = SamplerOptions {
            period,
            most,
            levels: LEVELS,
            level: 0,
            // Reads and writes of a point are one unit.
            code: (0..20).map(|point| point % 10).collect(),
            marks: true,
        };
        let mut cutter = Cutter::new(Sampler::new(tagger(), options), Unit::Accesses);
        name_objects(&mut cutter);
        feed(&mut cutter, &steps);
        let (sampler, room) = cutter.finish();
        let (mut tagger, gather, _) = sampler.finish(room);
        let truth = one_by_one(&steps);
        prop_assert_eq!(gather.total(), truth.len() as u64);
        let groups: Vec<u32> = tagger.keys().iter().map(|key| key.group).collect();
        prop_assert!(groups.iter().all(|&group| tagger.objects().group(group).objects > 0));
        let period = gather.period() as usize;
        let objects = gather.samples(OBJECTS).iter().chain(gather.tail(OBJECTS));
        let codes = gather.samples(CODE).iter().chain(gather.tail(CODE));
        prop_assert_eq!(objects.clone().count(), truth.len().div_ceil(period));
        let mut group_of = BTreeMap::new();
        for (part, (object, code)) in truth.chunks(period).zip(objects.zip(codes)) {
            let mut by_object: BTreeMap<bool, Counts> = BTreeMap::new();
            let mut by_code: BTreeMap<u32, u64> = BTreeMap::new();
            for (second, point, added) in part {
                let sum = by_object.entry(*second).or_default();
                (0..2 * LEVELS).for_each(|i| sum[i] += added[i]);
                *by_code.entry(point % 10).or_default() += added[0];
            }
            let mut found: Vec<(u32, Vec<u64>)> = object.rows().map(|(key, counts)| (key, counts.to_vec())).collect();
            prop_assert_eq!(found.len(), by_object.len());
            for (second, sum) in by_object {
                // Which number an object has is the tagger's affair, but it is always the same.
                let known = group_of.get(&second).copied();
                let at = found.iter().position(|(key, counts)| known.is_none_or(|k| k == *key) && counts[..] == sum);
                prop_assert!(at.is_some(), "{:?} not in {:?}", sum, found);
                group_of.insert(second, found.remove(at.unwrap()).0);
            }
            let found: BTreeMap<u32, u64> = code.rows().map(|(key, counts)| (key, counts[0])).collect();
            prop_assert_eq!(found, by_code);
        }
    }

    /// Phases cut the counts where they should, and change nothing else.
    #[test]
    fn phases_split_counts_exactly(steps in steps(), lengths in prop::collection::vec((1u64..40, 1u32..4), 1..12)) {
        let mut cutter = Cutter::new(Phased::new(tagger(), lengths.clone()), Unit::Accesses);
        name_objects(&mut cutter);
        feed(&mut cutter, &steps);
        let mut tagger = cutter.finish().0.finish();
        let mut found: BTreeMap<u32, Counts> = BTreeMap::new();
        let keys = tagger.keys();
        for (composite, key) in keys.iter().enumerate() {
            let sum = found.entry(key.phase).or_default();
            for level in 0..LEVELS {
                let counts = tagger.sink().simulator().counts_of(level, composite as u32);
                sum[2 * level] += counts.accesses();
                sum[2 * level + 1] += counts.misses;
            }
        }
        let mut expected: BTreeMap<u32, Counts> = BTreeMap::new();
        let phase_of_each = lengths.iter().flat_map(|&(length, number)| vec![number; length as usize]);
        let phase_of_each = phase_of_each.chain(std::iter::repeat(lengths.last().unwrap().1));
        for ((_, _, added), phase) in one_by_one(&steps).into_iter().zip(phase_of_each) {
            let sum = expected.entry(phase).or_default();
            (0..2 * LEVELS).for_each(|i| sum[i] += added[i]);
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn regions_are_remembered_where_they_are() {
    let options = SamplerOptions {
        period: 3,
        most: 4,
        levels: LEVELS,
        marks: true,
        ..SamplerOptions::default()
    };
    let mut cutter = Cutter::new(Sampler::new(tagger(), options), Unit::Accesses);
    name_objects(&mut cutter);
    let step = Step {
        point: 0,
        address: 0x1000,
        stride: 8,
        trips: 7,
    };
    for text in 0..3 {
        feed(&mut cutter, std::slice::from_ref(&step));
        let note = Note::Enter { text };
        let number = u64::from(text);
        cutter.event(Event::Note {
            thread: THREAD,
            number,
            note: &note,
        });
    }
    let (sampler, room) = cutter.finish();
    let (_, gather, marks) = sampler.finish(room);
    let mark = |at, text| RegionMark { at, text, enters: true };
    assert_eq!(marks, [mark(14, 0), mark(28, 1), mark(42, 2)]);
    assert_eq!(gather.total(), 42);
}
