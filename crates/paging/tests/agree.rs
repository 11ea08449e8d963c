//! The translation under test and the plain one agree, access by access; and behind caches, count by
//! count.
mod plain;

use memtrail_model::{Access, AccessSink, Event, Kind, Note, Point, Thread};
use memtrail_naive::{without_idle_points, Naive};
use memtrail_paging::{Mmu, MmuOptions, PagePlan, PageSize, PagingConfig, TlbArray, TranslationCounts, WalkCache};
use memtrail_simulate::{short, Hierarchy, Options, Simulator};
use plain::Plain;
use proptest::prelude::*;

/// Keeps what it gets.
#[derive(Default)]
struct Kept(Vec<Access>);

impl AccessSink for Kept {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.extend_from_slice(batch);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Access(Access),
    Unmap { thread: u32, address: u64, bytes: u64 },
    Fork { parent: u32, child: u32 },
}

const SIZES: [u64; 6] = [4 << 10, 16 << 10, 1 << 20, 2 << 20, 32 << 20, 1 << 30];

fn sizes() -> impl Strategy<Value = Vec<PageSize>> {
    let size = |at: &usize| PageSize::of_bytes(SIZES[*at]).unwrap();
    proptest::collection::btree_set(1..SIZES.len(), 0..4).prop_map(move |set| set.iter().map(size).collect())
}

/// A level: the larger sizes in an array of their own, or with the small ones.
fn level(number: u8, sizes: Vec<PageSize>, split: bool, shape: [(u32, u32); 2]) -> Vec<TlbArray> {
    let array = |sizes: Vec<PageSize>, (sets, ways): (u32, u32)| TlbArray {
        level: number,
        sizes,
        entries: sets * ways,
        ways,
    };
    let small = vec![PageSize::SMALL];
    match split && !sizes.is_empty() {
        true => vec![array(small, shape[0]), array(sizes, shape[1])],
        false => vec![array([small, sizes].concat(), shape[0])],
    }
}

prop_compose! {
    fn levels(number: u8)(
        sizes in sizes(),
        split in any::<bool>(),
        shape in [(1u32..4, 1u32..4), (1u32..3, 1u32..3)],
    ) -> Vec<TlbArray> {
        level(number, sizes, split, shape)
    }
}

prop_compose! {
    fn configs()(
        first in levels(1),
        second in proptest::option::of(levels(2)),
        caches in proptest::collection::btree_map(0usize..4, (1u32..3, 1u32..4), 0..4),
        levels in 4u32..6,
        cores in proptest::option::of(1u32..3),
    ) -> PagingConfig {
        let cache = |(at, (sets, ways)): (usize, (u32, u32))| WalkCache {
            shift: WalkCache::NAMES[at].1,
            entries: sets * ways,
            ways,
        };
        PagingConfig {
            arrays: [first, second.unwrap_or_default()].concat(),
            // Not in the order of their shifts.
            walk_caches: caches.into_iter().rev().map(cache).collect(),
            levels,
            cores,
        }
    }
}

fn addresses() -> impl Strategy<Value = u64> {
    let base = prop_oneof![
        Just(0u64),
        Just(0x5555_5540_0000),
        Just(0x7fff_ffe0_0000),
        Just(0xffff_ffff_ff60_0000)
    ];
    let within = prop_oneof![0u64..0x8000, 0u64..0x40_0000, 0u64..0x1_0000_0000];
    (base, within).prop_map(|(base, within)| base.wrapping_add(within))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write), Just(Kind::Prefetch)];
    let access = (
        0u32..4,
        0u32..5,
        addresses(),
        prop_oneof![Just(8u32), 0u32..9000],
        kind,
        1u64..6,
        0u64..5000,
    );
    let runs = access.prop_map(|(thread, point, addr, size, kind, times, stride)| {
        let step = move |i: u64| {
            Step::Access(Access {
                pc: u64::from(point) + 0x400,
                addr: addr.wrapping_add(i * stride),
                size,
                point: Point(point),
                thread: Thread(thread),
                kind,
            })
        };
        (0..times).map(step).collect::<Vec<_>>()
    });
    let unmap = (0u32..4, addresses(), 1u64..0x40_0000).prop_map(|(thread, address, bytes)| {
        vec![Step::Unmap {
            thread,
            address: address % (1 << 47),
            bytes,
        }]
    });
    let fork = (0u32..2, 2u32..4).prop_map(|(parent, child)| vec![Step::Fork { parent, child }]);
    let step = prop_oneof![20 => runs, 2 => unmap, 1 => fork];
    proptest::collection::vec(step, 1..120).prop_map(|steps| steps.concat())
}

/// Threads 0 and 1 are in space 0, the others in spaces of their own.
const SPACES: [(u32, u32); 4] = [(0, 0), (1, 0), (2, 1), (3, 2)];

/// Some of the pages that addresses lie in, larger.
fn plans() -> impl Strategy<Value = Vec<(u32, u64, PageSize)>> {
    let page = (0u32..4, addresses(), 1usize..SIZES.len());
    let page = page.prop_map(|(space, address, at)| (space, address, PageSize::of_bytes(SIZES[at]).unwrap()));
    proptest::collection::vec(page, 0..6)
}

fn canonical(config: &PagingConfig, address: u64) -> u64 {
    address % (1 << (12 + 9 * config.levels))
}

fn tested<S: AccessSink>(
    config: &PagingConfig,
    physical: bool,
    pages: &[(u32, u64, PageSize)],
    steps: &[Step],
    sink: S,
) -> Mmu<S> {
    let mut plan = PagePlan::default();
    for &(space, address, size) in pages {
        plan.add(space, size.page(canonical(config, address)), size);
    }
    let mut mmu = Mmu::new(config, MmuOptions { physical, plan }, sink).unwrap();
    for (thread, space) in SPACES {
        let thread = Thread(thread);
        mmu.event(Event::Space { thread, space });
    }
    // As replay does: batches of one thread.
    let mut batch: Vec<Access> = Vec::new();
    for step in steps {
        let of_batch = matches!(step, Step::Access(access) if batch.first().is_none_or(|b| b.thread == access.thread));
        if !of_batch {
            mmu.accesses(&std::mem::take(&mut batch));
        }
        match *step {
            Step::Access(access) => batch.push(access),
            Step::Unmap { thread, address, bytes } => {
                let (thread, note) = (Thread(thread), &Note::Unmap { address, bytes });
                mmu.event(Event::Note {
                    thread,
                    number: 0,
                    note,
                });
            }
            Step::Fork { parent, child } => {
                mmu.event(Event::Fork { parent, child });
            }
        }
    }
    mmu.accesses(&batch);
    mmu
}

fn plainly(config: &PagingConfig, physical: bool, pages: &[(u32, u64, PageSize)], steps: &[Step]) -> Plain {
    let mut plain = Plain::new(config, physical);
    for &(space, address, size) in pages {
        let number = canonical(config, address) >> size.shift();
        plain.plan.insert((space, size.shift(), number));
    }
    for (thread, space) in SPACES {
        plain.set_space(Thread(thread), space);
    }
    for step in steps {
        match *step {
            Step::Access(ref access) => plain.access(access),
            Step::Unmap { thread, address, bytes } => plain.unmap(Thread(thread), address, bytes),
            Step::Fork { parent, child } => plain.fork(parent, child),
        }
    }
    plain
}

fn hierarchy() -> Hierarchy {
    Hierarchy::of(short::levels(&["L1=512:64:2", "L2=2K:64:4:shared"]).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_walk_and_every_count_is_that_of_the_plain_model(
        config in configs(), physical in any::<bool>(), pages in plans(), steps in steps(),
    ) {
        let mmu = &mut tested(&config, physical, &pages, &steps, Kept::default());
        let plain = plainly(&config, physical, &pages, &steps);
        prop_assert_eq!(&mmu.sink().0, &plain.out);
        for (point, counts) in mmu.counts().iter().enumerate() {
            let expected = plain.counts.get(&(point as u32)).copied().unwrap_or_default();
            prop_assert_eq!(*counts, expected);
        }
        let sum = |all: &mut dyn Iterator<Item = &TranslationCounts>| all.map(|c| c.requests).sum::<u64>();
        prop_assert_eq!(sum(&mut mmu.counts().iter()), sum(&mut plain.counts.values()));
    }

    #[test]
    fn caches_behind_it_count_what_naive_ones_do(
        config in configs(), physical in any::<bool>(), pages in plans(), steps in steps(),
    ) {
        let simulator = Simulator::new(&hierarchy(), Options::default()).unwrap();
        let mmu = &mut tested(&config, physical, &pages, &steps, simulator);
        let plain = plainly(&config, physical, &pages, &steps);
        let mut naive = Naive::new(&hierarchy(), false, false);
        SPACES.iter().for_each(|&(thread, space)| naive.set_space(thread, space));
        plain.out.iter().for_each(|access| naive.access(access));
        let counts = without_idle_points(mmu.sink().counts());
        prop_assert_eq!(counts, without_idle_points(naive.counts()));
    }
}
