//! A short run of the fuzz targets: mutated recordings, descriptors and columns. Nothing may panic.
//!
//! The first [`TIMES`] mutations are the same every time. With `MEMTRAIL_FUZZ_SECONDS=n` each
//! target goes on for `n` seconds with mutations that nobody has seen before; a failure tells the
//! `MEMTRAIL_FUZZ_SEED` that begins with it.
mod common;

use common::{blocks, header, recording};
use memtrail_decode::{Counter, State, Table, ThreadDecoder};
use memtrail_descriptor::{fold, Encoder, Events, Folder};
use memtrail_model::Thread;
use memtrail_replay::{accesses, Selection};
use memtrail_trace::{compress, fuzzing, Known, Leaves, Reader, StreamHead, Totals, Writer};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Mutations per target.
const TIMES: usize = 4000;

/// xorshift
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n.max(1)
    }
}

const NUMBERS: [u64; 10] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0xffff,
    1 << 31,
    1 << 60,
    u64::MAX >> 1,
    u64::MAX,
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let (length, at) = (bytes.len(), random.below(bytes.len()));
        match random.below(8) {
            _ if length == 0 => bytes.push(random.next() as u8),
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = NUMBERS[random.below(5)] as u8,
            3 => bytes[at] = random.next() as u8,
            4 => {
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                let width = [2, 4, 8][random.below(3)];
                let end = (at + width).min(length);
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
            5 => {
                bytes.drain(at..(at + 1 + random.below(8)).min(length));
            }
            6 => {
                let from = random.below(length);
                let some = bytes[from..(from + 1 + random.below(16)).min(length)].to_vec();
                bytes.splice(at..at, some);
            }
            _ => {
                // The longest number there is, as a varint.
                let end = (at + 10).min(length);
                bytes.splice(at..end, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
            }
        }
    }
}

/// `name` is the target's in `fuzz/`, which gets the corpus as seeds with `MEMTRAIL_BLESS=1`.
fn run(name: &str, seed: u64, corpus: &[Vec<u8>], target: impl Fn(&[u8])) {
    if std::env::var_os("MEMTRAIL_BLESS").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/corpus")
            .join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (i, seed) in corpus.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{i}")), seed).unwrap();
        }
    }
    let mut random = Random(seed);
    corpus.iter().for_each(|seed| target(seed));
    for _ in 0..TIMES {
        target(&mutation(corpus, &mut random));
    }
    if let Some(seconds) = number("MEMTRAIL_FUZZ_SECONDS") {
        go_on(name, Duration::from_secs(seconds), corpus, target);
    }
}

fn mutation(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    mutate(&mut bytes, random);
    bytes
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {value}")),
    )
}

/// No input may take longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Mutations with consecutive seeds, one each. The first seed is the time, unless it is given.
fn go_on(name: &str, time: Duration, corpus: &[Vec<u8>], target: impl Fn(&[u8])) {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64;
    let first = number("MEMTRAIL_FUZZ_SEED").unwrap_or(now);
    let (begin, mut seed) = (Instant::now(), first);
    while begin.elapsed() < time {
        let at_work = AtWork { name, seed };
        // Neighbouring seeds must not give similar mutations, and 0 would give nothing but zeros.
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let bytes = mutation(corpus, &mut random);
        let started = Instant::now();
        target(&bytes);
        assert!(started.elapsed() < PATIENCE, "took {:?}", started.elapsed());
        drop(at_work);
        seed = seed.wrapping_add(1);
    }
    eprintln!("{name}: {} mutations from seed {first}", seed.wrapping_sub(first));
}

/// Says which mutation is at fault if one panics.
struct AtWork<'n> {
    name: &'n str,
    seed: u64,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let AtWork { name, seed } = self;
            eprintln!("{name}: MEMTRAIL_FUZZ_SECONDS=1 MEMTRAIL_FUZZ_SEED={seed} begins with this failure");
        }
    }
}

/// A recording that can be replayed to its end: two threads, two chunks each, blocks and loops.
fn sound() -> Vec<u8> {
    let mut table = Table::default();
    let (mut leaves, mut writer) = (Leaves::default(), Writer::new(Vec::new(), &header()).unwrap());
    for block in blocks() {
        leaves.add(&block);
        table
            .insert_with(block.id, block.plan.clone(), block.sources.clone())
            .unwrap();
    }
    writer.blocks(table.blocks()).unwrap();
    let xsave = header().xsave_table();
    for thread in 0..2 {
        let (mut decoder, mut first) = (ThreadDecoder::new(Thread(thread)), 0);
        for chunk in 0..2 {
            let mut words = vec![3, 0x7fff_0000, 0x1000, 0x2000];
            for i in 0..40 {
                words.extend([64, 8 * i, 66, 0x1000 + 64 * i, 0x1020 + 64 * i]);
            }
            let state: State = decoder.state();
            let mut counter = Counter::new(&xsave);
            decoder.feed(&table, &words, &mut counter).unwrap();
            let begin = 1000 + 300 * chunk + u64::from(thread);
            let head = StreamHead {
                thread,
                process: 0,
                first,
                accesses: counter.accesses(),
                begin,
                end: begin + 200,
                words: words.len() as u64,
            };
            first += head.accesses;
            let (payload, raw_bytes) = compress(&words, state, begin, &leaves).unwrap();
            writer.stream(&head, raw_bytes, &payload).unwrap();
        }
    }
    writer.finish(&Totals::default()).unwrap().0
}

#[test]
fn the_sound_recording_is_sound() {
    let bytes = sound();
    let mut reader = Reader::open(std::io::Cursor::new(&bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut counts = memtrail_decode::Counts::default();
    accesses(&mut reader, &known, &Selection::default(), &mut counts).unwrap();
    // Per thread and chunk 40 times three accesses, and eight iterations of one.
    assert_eq!(counts.accesses(), 2 * 2 * 40 * (3 + 8));
}

#[test]
fn files() {
    run("file", 1, &[recording().bytes, sound()], memtrail_replay::fuzzing::file);
}

#[test]
fn files_whose_checksums_are_right() {
    let bytes = recording().bytes;
    assert!(fuzzing::repaired(&bytes) == bytes);
    run("repaired", 2, &[bytes, sound()], |bytes| {
        memtrail_replay::fuzzing::file(&fuzzing::repaired(bytes));
    });
}

/// Small descriptors of every kind: loops and nests, several leaves, relations, values without a
/// rule.
fn pieces() -> Vec<Vec<u8>> {
    let mut random = Random(3);
    let mut lists: Vec<Vec<(u32, Vec<u64>)>> = vec![vec![]];
    let values = |key: u32, first: u64| (0..u64::from(key) % 9).map(|j| first.wrapping_mul(j + 1)).collect();
    lists.push((0..60).map(|i| (1, vec![8 * i])).collect());
    lists.push(
        (0..200)
            .map(|i| (i as u32 % 12, values(i as u32 % 12, i * i)))
            .collect(),
    );
    lists.push((0..100).map(|_| (13, values(13, random.next() >> 44))).collect());
    let mut nest = vec![];
    for i in 0..12 {
        nest.push((9, vec![]));
        nest.extend((0..7 + i).map(|j| (2, vec![4096 * i + 8 * j, i])));
    }
    lists.push(nest);
    let encoded = |list: &Vec<(u32, Vec<u64>)>, folded: bool| {
        let mut events = Events::default();
        list.iter().for_each(|(key, values)| events.push_leaf(*key, values));
        if folded {
            fold(&mut events, &mut Folder::default());
        }
        let mut bytes = Vec::new();
        Encoder::default().encode(&events, &fuzzing::Any, &fuzzing::Plain, &mut bytes);
        bytes
    };
    let both = |list| [encoded(list, false), encoded(list, true)];
    lists.iter().flat_map(both).collect()
}

#[test]
fn descriptors() {
    run("descriptors", 4, &pieces(), fuzzing::descriptors);
}

fn block_columns() -> [Vec<u8>; 3] {
    let records = |words: &[u64]| fuzzing::blocks_to_columns(&blocks(), words);
    [
        records(&[]),
        records(&[3, 1 << 20, 5, 6, 64, 100, 64, 200, 2, 1, 0, 0, 0, 0]),
        records(&[
            66, 0x1000, 0x2000, 0x2000, 65, 1, 2, 3, 4, 5, 66, 0x1000, 0x1004, 0x1004,
        ]),
    ]
}

#[test]
fn columns_of_blocks_and_records() {
    run("columns_of_blocks", 5, &block_columns(), fuzzing::columns_of_blocks);
}

#[test]
fn columns_of_events_and_indexes() {
    let mut random = Random(6);
    let corpus: Vec<Vec<u8>> = (0..50)
        .map(|_| {
            (0..200)
                .map(|_| (random.next() >> (8 * random.below(8))) as u8 & 0x8f)
                .collect()
        })
        .collect();
    run("columns_of_events", 7, &corpus, fuzzing::columns_of_events);
}
