//! Counts that were worked out by hand.
use memtrail_model::{Access, AccessSink, Event, Kind, Note, Point, Thread};
use memtrail_paging::{
    Latencies, MemoryEvent, MemoryTrace, Mmu, MmuOptions, PagePlan, PageSize, PagingConfig, TableUpdate,
};
use memtrail_simulate::{short, Hierarchy, Options, Simulator};

const MB: u64 = 1 << 20;
/// Of each array of the microbenchmark, scaled down from 256 MB.
const BYTES: u64 = 4 * MB;
const LINES: u64 = BYTES / 64;
/// Where the first array lies: at the beginning of a gigabyte, the others behind it.
const ARRAYS: u64 = 0x7fff_4000_0000;

fn caches() -> Hierarchy {
    Hierarchy::of(short::levels(&["L1=32K:64:8:private"]).unwrap())
}

fn e5504() -> PagingConfig {
    PagingConfig::parse(&["xeon-e5504"]).unwrap()
}

/// Paper 004, IV.B: array `a`, by thread `a`, which has reference point 2a for reads and 2a + 1 for
/// writes.
fn traversal(a: u64, i: u64) -> Access {
    let write = i >= LINES / 4 * (4 - a);
    let line = if a >= 3 { LINES - 1 - i } else { i };
    Access {
        pc: 0x1000 + a,
        addr: ARRAYS + a * BYTES + line * 64,
        size: 1,
        point: Point((2 * a + u64::from(write)) as u32),
        thread: Thread(a as u32),
        kind: if write { Kind::Write } else { Kind::Read },
    }
}

/// The five threads in turns of eight accesses.
fn microbenchmark(sink: &mut impl AccessSink) {
    for first in (0..LINES).step_by(8) {
        for a in 0..5 {
            let batch: Vec<Access> = (first..first + 8).map(|i| traversal(a, i)).collect();
            sink.accesses(&batch);
        }
    }
}

#[test]
fn the_microbenchmark_of_the_paper() {
    let (mut reads, mut writes, mut walks) = ([0; 5], [0; 5], [0; 5]);
    let mut tables = 0;
    let mut trace = MemoryTrace::new(&e5504(), &caches(), MmuOptions::default(), |event| match event {
        MemoryEvent::Request(record) => {
            let a = ((record.vaddr - ARRAYS) / BYTES) as usize;
            assert_eq!(record.point as usize / 2, a);
            let count = match (record.walk, record.write) {
                (true, false) => &mut walks,
                (false, false) => &mut reads,
                (false, true) => &mut writes,
                (true, true) => panic!("a walk that writes"),
            };
            count[a] += 1;
        }
        MemoryEvent::Update(TableUpdate::Table { .. }) => tables += 1,
        MemoryEvent::Update(_) => {}
    })
    .unwrap();
    microbenchmark(&mut trace);
    trace.flush();
    drop(trace);
    // A line that is written is read first: Table II.
    assert_eq!(reads, [LINES; 5]);
    assert_eq!(writes, [0, 1, 2, 3, 4].map(|quarters| LINES / 4 * quarters));
    // 1024 pages: eight of their entries are in a line. Each thread reads an entry of each of the
    // three levels above, and that from bit 21 on again when it gets to its second table: by then
    // its line is gone.
    assert_eq!(walks, [1024 / 8 + 3 + 1; 5]);
    // The root, two below it, and one for every 2 MB.
    assert_eq!(tables, 3 + 5 * 2);
}

fn translated(plan: PagePlan, tlbs: &[&str]) -> Vec<(u64, u64, u64)> {
    let simulator = Simulator::new(&caches(), Options::default()).unwrap();
    let config = PagingConfig::parse(tlbs).unwrap();
    let options = MmuOptions {
        plan,
        ..MmuOptions::default()
    };
    let mut mmu = Mmu::new(&config, options, simulator).unwrap();
    microbenchmark(&mut mmu);
    let counts = mmu.counts();
    let of = |point: usize| counts.get(point).copied().unwrap_or_default();
    let both = |a: usize| {
        let mut sum = of(2 * a);
        sum += of(2 * a + 1);
        (sum.misses[0], sum.walks, sum.requests)
    };
    (0..5).map(both).collect()
}

#[test]
fn walks_of_the_microbenchmark_with_small_and_with_huge_pages() {
    // One walk for each of 1024 pages; the first reads four entries, the one at the second table
    // two, since the entry above is in a page-walk cache.
    let each = (1024, 1024, 1024 + 3 + 1);
    assert_eq!(translated(PagePlan::default(), &["xeon-e5504"]), [each; 5]);
    // Without page-walk caches every walk reads four.
    let bare = ["L1=4K:64:4", "L1=2M:32:4", "L2=4K:512:4"];
    assert_eq!(translated(PagePlan::default(), &bare), [(1024, 1024, 4096); 5]);
    let five = ["L1=4K:64:4", "levels=5"];
    assert_eq!(translated(PagePlan::default(), &five), [(1024, 1024, 5120); 5]);
    // a1 in two huge pages: the first walk reads three entries, the second one.
    let mut plan = PagePlan::default();
    for page in 0..2 {
        plan.add(0, (ARRAYS + BYTES) / (2 * MB) + page, PageSize::HUGE);
    }
    assert_eq!(plan.bytes(), BYTES);
    assert_eq!(translated(plan, &["xeon-e5504"]), [each, (2, 2, 4), each, each, each]);
    // All of them in one page of 1 GB, which this machine holds in pieces of 2 MB; a walk ends at
    // the second level.
    let mut plan = PagePlan::default();
    plan.add(0, ARRAYS >> 30, PageSize::GIANT);
    assert_eq!(translated(plan, &["xeon-e5504"]), [(2, 2, 3); 5]);
}

fn access(thread: u32, addr: u64, kind: Kind) -> Access {
    Access {
        pc: 0,
        addr,
        size: 8,
        point: Point(0),
        thread: Thread(thread),
        kind,
    }
}

#[test]
fn cycles_are_those_of_who_serves_the_walk() {
    let caches = Hierarchy::of(short::levels(&["L1=32K:64:8", "L2=256K:64:8"]).unwrap());
    let simulator = Simulator::new(&caches, Options::default()).unwrap();
    let config = PagingConfig::parse(&["L1=4K:1", "L2=4K:2"]).unwrap();
    let mut mmu = Mmu::new(&config, MmuOptions::default(), simulator).unwrap();
    // Two pages in turn: two walks, the second of which finds all four entries in the caches; then
    // the second TLB has both.
    for address in [0x1000, 0x2000, 0x1000, 0x2000, 0x2008] {
        mmu.accesses(&[access(0, address, Kind::Read)]);
    }
    let counts = mmu.counts()[0];
    assert_eq!((counts.misses, counts.walks, counts.requests), ([4, 2, 0], 2, 8));
    let latencies = Latencies::of(&caches);
    let levels = mmu.sink().counts();
    let walks = latencies.walks(&caches, &levels, 0);
    assert_eq!(
        (walks.served, walks.memory, walks.cycles),
        (vec![4, 0], 4, 4 * 4 + 4 * 200)
    );
    assert_eq!(latencies.tlb_cycles(&counts, config.depth()), 2 * 7);
}

#[test]
fn what_is_unmapped_or_copied_is_translated_anew() {
    let walks = |steps: &[Result<Access, Event<'_>>]| {
        let simulator = Simulator::new(&caches(), Options::default()).unwrap();
        let mut mmu = Mmu::new(&e5504(), MmuOptions::default(), simulator).unwrap();
        for (thread, space) in [(0, 0), (1, 1)] {
            let thread = Thread(thread);
            mmu.event(Event::Space { thread, space });
        }
        for step in steps {
            match step {
                Ok(access) => mmu.accesses(&[*access]),
                Err(event) => drop(mmu.event(*event)),
            }
        }
        mmu.counts()[0].walks
    };
    let read = |thread| Ok(access(thread, 0x5000, Kind::Read));
    let write = |thread| Ok(access(thread, 0x5000, Kind::Write));
    let note = &Note::Unmap {
        address: 0x5000,
        bytes: 1,
    };
    let unmap = Err(Event::Note {
        thread: Thread(0),
        number: 0,
        note,
    });
    let fork = Err(Event::Fork { parent: 0, child: 1 });
    assert_eq!(walks(&[read(0), write(0), read(0)]), 1);
    assert_eq!(walks(&[read(0), unmap, read(0)]), 2);
    // After a fork both begin anew; the first write of each copies, the second does not.
    assert_eq!(walks(&[read(0), fork, read(0), read(1)]), 3);
    assert_eq!(walks(&[read(0), fork, read(0), write(0), write(0)]), 3);
}
