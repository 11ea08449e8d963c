//! The fast machine against the textbook one, on random streams of several threads.
use memtrail_coherence::{Coherence, CoherenceConfig, Geometry, Protocol, Sharing};
use memtrail_model::{Access, AccessSink, Kind, Point, Thread};
use memtrail_naive::coherence::{NaiveCoherence, NaiveLine};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Caches = Vec<(u64, u32)>;

#[derive(Clone, Debug)]
struct Machine {
    moesi: bool,
    line: u32,
    cores: u32,
    private: Caches,
    shared: Caches,
}

impl Machine {
    fn config(&self) -> CoherenceConfig {
        let caches = |all: &Caches| all.iter().map(|&(size, ways)| Geometry { size, ways }).collect();
        CoherenceConfig {
            protocol: match self.moesi {
                true => Protocol::Moesi,
                false => Protocol::Mesi,
            },
            line: self.line,
            private: caches(&self.private),
            shared: caches(&self.shared),
            cores: self.cores,
        }
    }
}

fn caches(line: u32, levels: usize) -> impl Strategy<Value = Caches> {
    let cache = (1..4u64, 1..4u32).prop_map(move |(sets, ways)| (sets * u64::from(ways) * u64::from(line), ways));
    proptest::collection::vec(cache, levels)
}

fn machine() -> impl Strategy<Value = Machine> {
    let line = prop::sample::select(vec![4u32, 16, 64, 128]);
    (line, any::<bool>(), 1..6u32, 1..4usize, 0..3usize).prop_flat_map(|(line, moesi, cores, private, shared)| {
        (caches(line, private), caches(line, shared)).prop_map(move |(private, shared)| Machine {
            moesi,
            line,
            cores,
            private,
            shared,
        })
    })
}

fn stream() -> impl Strategy<Value = Vec<Access>> {
    let access = (
        0..6u32,
        0..160u64,
        prop::sample::select(vec![0u32, 1, 2, 4, 8, 16, 100]),
        0..10u32,
        0..4u32,
    );
    let access = access.prop_map(|(thread, addr, size, kind, point)| Access {
        pc: u64::from(point),
        addr: 4096 + addr * 2,
        size,
        point: Point(point),
        thread: Thread(thread),
        kind: match kind {
            0..5 => Kind::Read,
            5..9 => Kind::Write,
            _ => Kind::Prefetch,
        },
    });
    proptest::collection::vec(access, 0..600)
}

fn simulated(machine: &Machine, stream: &[Access]) -> Sharing {
    let mut fast = Coherence::new(&machine.config()).unwrap();
    for batch in stream.chunks(7) {
        fast.accesses(batch);
    }
    fast.finish()
}

/// As the naive one tells it.
fn as_naive(sharing: &Sharing, line_bytes: u64) -> BTreeMap<u64, NaiveLine> {
    let line = |line: &memtrail_coherence::SharedLine| {
        let uses = line.uses.iter().map(|(used, c)| {
            let key = (
                u64::from(used.offset),
                u64::from(used.size),
                used.write,
                used.thread.0,
                used.point.0,
            );
            let counts = [
                c.accesses,
                c.invalidations,
                c.upgrades,
                c.transfers,
                c.true_misses,
                c.false_misses,
            ];
            (key, counts)
        });
        let pairs = line.pairs.iter();
        let pairs = pairs.map(|(pair, c)| ((pair.writer.0, pair.loser.0), [c.true_misses, c.false_misses]));
        let naive = NaiveLine {
            uses: uses.collect(),
            pairs: pairs.collect(),
        };
        (line.address / line_bytes, naive)
    };
    sharing.lines.iter().map(line).collect()
}

fn compare(machine: &Machine, stream: &[Access]) {
    let sharing = simulated(machine, stream);
    let (line, cores) = (u64::from(machine.line), machine.cores);
    let mut naive = NaiveCoherence::new(machine.moesi, line, cores, &machine.private, &machine.shared);
    stream.iter().for_each(|access| naive.access(access));
    let shared: Vec<[u64; 3]> = naive.shared_counts.clone();
    let (totals, lines) = naive.finish();
    assert_eq!(as_naive(&sharing, line), lines);
    let t = &sharing.totals;
    let fast = [
        t.accesses,
        t.misses,
        t.true_misses,
        t.false_misses,
        t.upgrades,
        t.invalidations,
        t.transfers,
        t.write_backs,
    ];
    assert_eq!(fast, totals);
    let levels: Vec<[u64; 3]> = t.shared.iter().map(|l| [l.requests, l.misses, l.write_backs]).collect();
    assert_eq!(levels, shared);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn all_counts_are_those_of_the_textbook(machine in machine(), stream in stream()) {
        compare(&machine, &stream);
    }
}
