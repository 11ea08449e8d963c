//! Tagged accesses against the parts they are made of, one by one and without caches; and
//! simulations of tagged accesses against those of plain ones.
use memtrail_analyze::calls::Calls;
use memtrail_analyze::objects::{Objects, Options, UNKNOWN};
use memtrail_analyze::{Dimensions, Key, Tagger};
use memtrail_model::{
    testing, Access, AccessSink, Event, Flow, Kind, LoopAccess, LoopRun, Note, Point, Reply, SinkAdapter, Thread, Wants,
};
use memtrail_simulate::{Hierarchy, Level, Options as SimulatorOptions, Simulator};
use proptest::prelude::*;
use std::cell::RefCell;

const HEAP: u64 = 0x10_0000;
const STACK: u64 = 0x7fff_0000;

/// What was counted by composite, added up by a number of each.
fn sums<T: std::ops::AddAssign + Default>(
    numbers: &[u32],
    counted: impl IntoIterator<Item = T>,
) -> std::collections::BTreeMap<u32, T> {
    let mut sums = std::collections::BTreeMap::new();
    for (&number, one) in numbers.iter().zip(counted) {
        *sums.entry(number).or_insert_with(T::default) += one;
    }
    sums
}

/// Part of what a program does.
#[derive(Clone, Debug)]
enum Step {
    Accesses(u32, Vec<(u32, u64, u32)>),
    Loop(u32, u64, Vec<(u32, u64, i64)>),
    Call(u32, u64),
    Return(u32),
    Alloc(u32, u64, u64),
    Free(u32, u64),
    Map(u32, u64, u64),
    Fork(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let thread = 0u32..3;
    let addr = prop_oneof![4 => (0u64..512).prop_map(|n| n * 8), 1 => 0u64..4096];
    let access = (0u32..6, addr.clone(), 1u32..17);
    let in_loop = (0u32..6, addr.clone(), -24i64..25);
    prop_oneof![
        6 => (thread.clone(), prop::collection::vec(access, 1..20)).prop_map(|(t, a)| Step::Accesses(t, a)),
        2 => (thread.clone(), 1u64..30, prop::collection::vec(in_loop, 1..4))
            .prop_map(|(t, n, body)| Step::Loop(t, n, body)),
        3 => (thread.clone(), 1u64..6).prop_map(|(t, site)| Step::Call(t, site)),
        2 => thread.clone().prop_map(Step::Return),
        4 => (thread.clone(), addr.clone(), 1u64..400).prop_map(|(t, a, n)| Step::Alloc(t, a & !15, n)),
        2 => (thread.clone(), addr.clone()).prop_map(|(t, a)| Step::Free(t, a & !15)),
        1 => (thread.clone(), addr, 1u64..2000).prop_map(|(t, a, n)| Step::Map(t, a, n)),
        1 => thread.prop_map(Step::Fork),
    ]
}

fn kind(point: u32) -> Kind {
    [
        Kind::Read,
        Kind::Write,
        Kind::Read,
        Kind::Prefetch,
        Kind::Read,
        Kind::Write,
    ][point as usize]
}

fn access(thread: u32, (point, at, size): (u32, u64, u32)) -> Access {
    Access {
        pc: 0x40_0000 + u64::from(point),
        addr: HEAP + at,
        size,
        point: Point(point),
        thread: Thread(thread),
        kind: kind(point),
    }
}

fn noted(thread: Thread, note: &Note) -> Event<'_> {
    let number = 0;
    Event::Note { thread, number, note }
}

fn flowed(thread: Thread, flow: Flow) -> Event<'static> {
    Event::Flow { thread, flow }
}

/// Tells a sink what happens, as a replay does.
fn play(steps: &[Step], sink: &mut impl AccessSink) {
    let mut slots = [0u64; 3].map(|_| Vec::new());
    for thread in (0..3).map(Thread) {
        sink.event(Event::Space { thread, space: 0 });
    }
    let mut spaces = 0;
    for step in steps {
        match *step {
            Step::Accesses(thread, ref list) => {
                let batch: Vec<Access> = list.iter().map(|&a| access(thread, a)).collect();
                sink.accesses(&batch);
            }
            Step::Loop(thread, trips, ref body) => {
                let body: Vec<LoopAccess> = body
                    .iter()
                    .map(|&(point, at, stride)| LoopAccess {
                        pc: 0x40_0000 + u64::from(point),
                        kind: kind(point),
                        point: Point(point),
                        size: 8,
                        addr: HEAP + at,
                        stride: stride as u64,
                    })
                    .collect();
                let run = LoopRun {
                    thread: Thread(thread),
                    trips,
                    body: &body,
                };
                let taken = match sink.wants().loops {
                    Some(_) => sink.event(Event::Loop(run)).skip,
                    None => 0,
                };
                if taken < run.trips {
                    let all: Vec<Access> = run.accesses().skip(taken as usize * body.len()).collect();
                    all.chunks(7).for_each(|batch| sink.accesses(batch));
                }
            }
            Step::Call(thread, site) => {
                let stack = &mut slots[thread as usize];
                let top = STACK - 0x10_0000 * u64::from(thread);
                let slot = top - 32 * stack.len() as u64;
                stack.push(slot);
                let flow = Flow::Call { site, target: 0, slot };
                sink.event(flowed(Thread(thread), flow));
            }
            Step::Return(thread) => {
                if let Some(slot) = slots[thread as usize].pop() {
                    let flow = Flow::Return { slot };
                    sink.event(flowed(Thread(thread), flow));
                }
            }
            Step::Alloc(thread, at, bytes) => {
                let note = Note::Alloc {
                    hook: 0,
                    address: HEAP + at,
                    bytes,
                };
                sink.event(noted(Thread(thread), &note));
            }
            Step::Free(thread, at) => {
                let note = Note::Free {
                    hook: 0,
                    address: HEAP + at,
                };
                sink.event(noted(Thread(thread), &note));
            }
            Step::Map(thread, at, bytes) => {
                let note = Note::Map {
                    address: HEAP + at,
                    bytes,
                    protection: 3,
                    source: (at % 5) as u32,
                    offset: 0,
                };
                sink.event(noted(Thread(thread), &note));
            }
            Step::Fork(thread) => {
                spaces += 1;
                let space = spaces;
                sink.event(Event::Fork {
                    parent: 0,
                    child: space,
                });
                let thread = Thread(thread);
                sink.event(Event::Space { thread, space });
            }
        }
    }
}

/// Writes down every access; takes loops if it may.
#[derive(Default)]
struct Log {
    all: Vec<Access>,
    loops: bool,
}

impl AccessSink for Log {
    fn accesses(&mut self, batch: &[Access]) {
        assert!(
            batch.iter().all(|a| a.thread == batch[0].thread),
            "one thread at a time"
        );
        self.all.extend_from_slice(batch);
    }
    fn wants(&self) -> Wants {
        Wants {
            loops: self.loops.then_some(0),
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return Reply::NOTHING;
        };
        // Now and then not, or not all of it.
        let trips = match run.trips % 5 {
            1 => 0,
            2 => run.trips - 1,
            _ => run.trips,
        };
        self.all.extend(LoopRun { trips, ..run }.accesses());
        Reply::skip(trips)
    }
}

/// Does what a tagger does, access by access.
struct Slow {
    dimensions: Dimensions,
    calls: Calls,
    objects: Objects,
    spaces: Vec<u32>,
    knows_stack: Vec<bool>,
    tagged: Vec<(Access, Key)>,
}

impl AccessSink for Slow {
    fn accesses(&mut self, batch: &[Access]) {
        for access in batch {
            let thread = access.thread.0;
            let space = self.objects.space(self.spaces[thread as usize]);
            let object = self.objects.find(space, access.addr, UNKNOWN);
            let only_if = |wanted, number| if wanted { number } else { Key::NONE };
            let key = Key {
                point: access.point,
                node: only_if(self.dimensions.callpath, self.calls.node(access.thread)),
                group: only_if(self.dimensions.object, self.objects.group_of(object)),
                thread: only_if(self.dimensions.thread, thread),
                process: only_if(self.dimensions.process, self.spaces[thread as usize]),
                phase: Key::NONE,
            };
            self.tagged.push((*access, key));
            self.objects.now += 1;
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Space { thread, space } => {
                let before = std::mem::replace(&mut self.spaces[thread.0 as usize], space);
                self.knows_stack[thread.0 as usize] &= before == space;
            }
            Event::Flow { thread, flow } => self.flow(thread, flow),
            Event::Note { thread, note, .. } => {
                let space = self.objects.space(self.spaces[thread.0 as usize]);
                let node = self.calls.node(thread);
                self.objects.notes(space, thread, self.calls.tree(), node, note);
            }
            Event::Fork { parent, child } => self.objects.forks(parent, child),
            other => panic!("{other:?}"),
        }
        Reply::NOTHING
    }
}

impl Slow {
    fn flow(&mut self, thread: Thread, flow: Flow) {
        self.calls.flows(thread, flow);
        if let (Flow::Call { slot, .. } | Flow::Return { slot }, false) = (flow, self.knows_stack[thread.0 as usize]) {
            self.knows_stack[thread.0 as usize] = true;
            let space = self.objects.space(self.spaces[thread.0 as usize]);
            self.objects.stack(space, thread, slot + 8);
        }
    }
}

fn dimensions() -> impl Strategy<Value = Dimensions> {
    any::<[bool; 4]>().prop_map(|[callpath, object, thread, process]| Dimensions {
        callpath,
        object,
        thread,
        process,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn accesses_get_the_number_of_what_they_belong_to(
        steps in prop::collection::vec(step(), 1..60),
        dimensions in dimensions(),
        loops: bool,
    ) {
        let sink = Log { loops, ..Log::default() };
        let mut tagger = Tagger::new(sink, dimensions, Options::default());
        play(&steps, &mut tagger);
        let mut slow = Slow {
            dimensions,
            calls: Calls::new(),
            objects: Objects::new(Options::default()),
            spaces: vec![0; 3],
            knows_stack: vec![false; 3],
            tagged: Vec::new(),
        };
        play(&steps, &mut slow);
        let tagged = std::mem::take(&mut tagger.sink().all);
        prop_assert_eq!(tagged.len(), slow.tagged.len());
        let mut reads = vec![0; tagger.keys().len()];
        let mut bytes = vec![0; tagger.keys().len()];
        for (tagged, &(plain, key)) in tagged.iter().zip(&slow.tagged) {
            prop_assert_eq!(tagger.composite(tagged.point.0), Some(key));
            prop_assert_eq!(Access { point: plain.point, ..*tagged }, plain);
            reads[tagged.point.index()] += u64::from(plain.kind == Kind::Read);
            let counts = matches!(plain.kind, Kind::Read | Kind::Write);
            bytes[tagged.point.index()] += if counts { u64::from(plain.size) } else { 0 };
        }
        let tallies: Vec<_> = tagger.tallies().collect();
        prop_assert_eq!(tallies.iter().map(|t| t.reads).collect::<Vec<_>>(), reads);
        prop_assert_eq!(tallies.iter().map(|t| t.bytes).collect::<Vec<_>>(), bytes);
        prop_assert_eq!(tagger.objects().now, slow.objects.now);
    }

    #[test]
    fn loops_taken_whole_count_as_their_accesses(steps in prop::collection::vec(step(), 1..60)) {
        let dimensions = Dimensions { object: true, ..Dimensions::default() };
        let of = |loops| {
            let mut tagger = Tagger::new(Log { loops, ..Log::default() }, dimensions, Options::default());
            play(&steps, &mut tagger);
            tagger
        };
        let (mut whole, mut single) = (of(true), of(false));
        prop_assert_eq!(whole.keys(), single.keys());
        prop_assert!(whole.tallies().eq(single.tallies()));
        prop_assert_eq!(whole.patterns(&Default::default()), single.patterns(&Default::default()));
    }

    #[test]
    fn simulations_count_the_same_in_sum(
        steps in prop::collection::vec(step(), 1..60),
        dimensions in dimensions(),
    ) {
        let hierarchy = Hierarchy::of(vec![Level::new("L1", 512, 64, 2), Level::new("L2", 1024, 64, 4)]);
        let options = SimulatorOptions { evictors: true, ..SimulatorOptions::default() };
        let simulator = || Simulator::new(&hierarchy, options).expect("a good hierarchy");
        let mut plain = simulator();
        play(&steps, &mut plain);
        let mut tagger = Tagger::new(simulator(), dimensions, Options::default());
        play(&steps, &mut tagger);
        let counts = tagger.sink().counts();
        let points: Vec<u32> = tagger.keys().iter().map(|key| key.point.0).collect();
        for (plain, tagged) in plain.counts().iter().zip(&counts) {
            prop_assert_eq!(plain.traffic, tagged.traffic);
            for (point, counts) in sums(&points, tagged.points.iter().copied()) {
                prop_assert_eq!(counts, plain.points.get(point as usize).copied().unwrap_or_default());
            }
            prop_assert_eq!(plain.total(), tagged.total());
            let mut pairs = std::collections::BTreeMap::new();
            for (&(owner, evictor), n) in &tagged.evictors {
                *pairs.entry((points[owner as usize], points[evictor as usize])).or_default() += n;
            }
            prop_assert_eq!(&pairs, &plain.evictors);
        }
    }
}

#[test]
fn another_program_has_nothing_of_the_one_before() {
    let dimensions = Dimensions {
        callpath: true,
        object: true,
        thread: true,
        process: true,
    };
    let mut tagger = Tagger::new(Log::default(), dimensions, Options::default());
    let thread = Thread(2);
    tagger.event(Event::Space { thread, space: 9 });
    tagger.event(flowed(
        thread,
        Flow::Call {
            site: 1,
            target: 0,
            slot: STACK,
        },
    ));
    tagger.event(noted(
        thread,
        &Note::Alloc {
            hook: 0,
            address: HEAP,
            bytes: 64,
        },
    ));
    tagger.accesses(&[access(2, (0, 0, 8))]);
    tagger.replaced(thread);
    tagger.accesses(&[access(2, (0, 0, 8))]);
    let key = |composite| tagger.composite(composite).expect("one for each");
    assert_eq!((tagger.keys().len(), key(0).thread, key(1).thread), (2, 2, 2));
    assert_eq!(tagger.calls().path(key(0).node), [1]);
    assert_eq!((key(1).node, key(1).group), (0, 0));
    assert!(tagger.objects().is_empty());
}

#[test]
fn two_lists_from_one_wrapper_are_told_apart() {
    let options = Options {
        wrapper: Some(Box::new(|site| site == 500)),
        ..Options::default()
    };
    let dimensions = Dimensions {
        object: true,
        ..Dimensions::default()
    };
    let mut tagger = Tagger::new(Log::default(), dimensions, options);
    let thread = Thread(0);
    tagger.event(Event::Space { thread, space: 0 });
    // Nodes of both lists in turn, 48 bytes apart, each through the wrapper's call of malloc at
    // 500.
    for node in 0..20u64 {
        let site = [0x10, 0x20][node as usize % 2];
        tagger.event(flowed(
            thread,
            Flow::Call {
                site,
                target: 0,
                slot: STACK,
            },
        ));
        tagger.event(flowed(
            thread,
            Flow::Call {
                site: 500,
                target: 0,
                slot: STACK - 32,
            },
        ));
        tagger.event(flowed(thread, Flow::Return { slot: STACK - 32 }));
        let address = HEAP + 48 * node;
        tagger.event(noted(
            thread,
            &Note::Alloc {
                hook: 0,
                address,
                bytes: 40,
            },
        ));
        tagger.event(flowed(thread, Flow::Return { slot: STACK }));
    }
    // The first is read to its end, and each node of the second is written twice, in both fields,
    // by two points.
    for node in (0..20).step_by(2) {
        tagger.accesses(&[access(0, (0, 48 * node, 8))]);
    }
    for node in (1..20).step_by(2) {
        tagger.accesses(&[access(0, (1, 48 * node, 8)), access(0, (5, 48 * node + 8, 4))]);
    }
    let groups: Vec<u32> = tagger.keys().iter().map(|key| key.group).collect();
    let by_object = sums(&groups, tagger.tallies());
    let told: Vec<_> = by_object.values().map(|t| (t.reads, t.writes, t.bytes)).collect();
    assert_eq!(told, [(10, 0, 80), (0, 20, 120)]);
    let patterns = tagger.patterns(&Default::default());
    for (row, &group) in by_object.keys().enumerate() {
        let pattern = patterns[group as usize].expect("steps");
        assert_eq!(pattern.pattern, memtrail_analyze::patterns::Pattern::PointerChase);
        assert_eq!(pattern.stride, Some((96, [9, 18][row])));
        let known = tagger.objects().groups()[group as usize].clone();
        assert_eq!((known.objects, known.bytes, known.element_bytes()), (10, 400, Some(40)));
    }
}

#[test]
fn what_it_has_no_use_for_is_handed_on() {
    let tagger = |probe| Tagger::new(probe, Dimensions::default(), Options::default());
    // Calls and notes go on if they are wanted.
    let asides = |event: &Event<'_>| matches!(event, Event::Flow { .. } | Event::Note { .. });
    let probe = RefCell::default();
    testing::check_adapter(
        &probe,
        |probe| Flushed(tagger(probe)),
        |e| asides(e) || matches!(e, Event::Loop(_)),
    );
    for event in testing::events().filter(asides) {
        *probe.borrow_mut() = testing::Probe::default();
        tagger(testing::Shared(&probe)).event(event);
        assert_eq!(probe.borrow().event, None);
        probe.borrow_mut().wants = Wants {
            flows: true,
            notes: true,
            ..Wants::default()
        };
        tagger(testing::Shared(&probe)).event(event);
        assert_eq!(probe.borrow().event, Some(event));
    }
}

/// A tagger that keeps no accesses back.
struct Flushed<S>(Tagger<S>);

impl<S: AccessSink> SinkAdapter for Flushed<S> {
    type Inner = Tagger<S>;
    fn inner(&self) -> &Tagger<S> {
        &self.0
    }
    fn inner_mut(&mut self) -> &mut Tagger<S> {
        &mut self.0
    }
    fn pass(&mut self, batch: &[Access]) {
        self.0.accesses(batch);
        self.0.sink();
    }
}
