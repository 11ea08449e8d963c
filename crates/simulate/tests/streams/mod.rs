//! Streams of accesses for tests: pieces that wander, stride or loop, on a few threads.
use memtrail_model::{Access, AccessSink, Kind, Point, Thread};
use proptest::prelude::*;

/// A piece of a stream.
#[derive(Clone, Debug)]
pub struct Piece {
    pub thread: u32,
    pub base: u64,
    pub pattern: Pattern,
    pub size: u32,
    pub count: u64,
    /// Every so many accesses a write, and a prefetch; 0: none.
    pub writes: u64,
    pub prefetches: u64,
    pub seed: u64,
}

#[derive(Clone, Debug)]
pub enum Pattern {
    /// Anywhere within so many bytes.
    Random(u64),
    /// From the base on, so many bytes each time.
    Stride(u64),
    /// Strides that start anew every so many accesses.
    Loop(u64, u64),
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Piece {
    pub fn accesses(&self) -> Vec<Access> {
        let every = |n: u64, i: u64| n != 0 && mix(self.seed ^ i) % n == 0;
        let one = |i: u64| {
            let offset = match self.pattern {
                Pattern::Random(span) => mix(self.seed.wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15))) % span,
                Pattern::Stride(stride) => i.wrapping_mul(stride),
                Pattern::Loop(stride, length) => (i % length).wrapping_mul(stride),
            };
            Access {
                pc: 0,
                addr: self.base.wrapping_add(offset),
                size: self.size,
                point: Point((self.seed % 7) as u32),
                thread: Thread(self.thread),
                kind: match (every(self.prefetches, i), every(self.writes, i)) {
                    (true, _) => Kind::Prefetch,
                    (false, true) => Kind::Write,
                    (false, false) => Kind::Read,
                },
            }
        };
        (0..self.count).map(one).collect()
    }
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let strides = || {
        prop_oneof![
            1u64..300,
            Just(4096u64),
            Just(1024),
            Just(64),
            (1u64..200).prop_map(|s| s.wrapping_neg())
        ]
    };
    prop_oneof![
        prop_oneof![1u64..200, 1000u64..5000, 1u64 << 16..1 << 18].prop_map(Pattern::Random),
        strides().prop_map(Pattern::Stride),
        (strides(), 1u64..60).prop_map(|(stride, length)| Pattern::Loop(stride, length)),
    ]
}

fn piece() -> impl Strategy<Value = Piece> {
    let base = prop_oneof![
        4 => 0u64..1 << 14,
        2 => Just(0x7fff_ffff_f000u64),
        1 => Just(0xffff_ffff_ffff_ff00u64),
        1 => any::<u64>(),
    ];
    let size = prop_oneof![6 => Just(8u32), 2 => 0u32..70, 1 => 70u32..3000];
    (
        0u32..3,
        base,
        pattern(),
        size,
        1u64..250,
        0u64..4,
        0u64..5,
        any::<u64>(),
    )
        .prop_map(|(thread, base, pattern, size, count, writes, prefetches, seed)| Piece {
            thread,
            base,
            pattern,
            size,
            count,
            writes,
            prefetches,
            seed,
        })
}

/// A stream: batches of one thread each.
pub fn stream() -> impl Strategy<Value = Vec<Vec<Access>>> {
    prop::collection::vec(piece(), 1..12).prop_map(|pieces| pieces.iter().map(Piece::accesses).collect())
}

pub fn feed(sink: &mut impl AccessSink, stream: &[Vec<Access>]) {
    for batch in stream {
        sink.accesses(batch);
    }
}

/// Where an address lies among all, by its address space.
pub fn place(addr: u64, space: u32) -> u64 {
    if addr < 1 << 47 {
        (u64::from(space) << 48) + addr
    } else {
        addr
    }
}

/// The lines that an access touches, in order; addresses wrap.
pub fn lines(access: &Access, space: u32, line: u32) -> Vec<u64> {
    let first = place(access.addr, space);
    let last = first.wrapping_add(u64::from(access.size.max(1) - 1));
    let mut lines = vec![first / u64::from(line)];
    let mut byte = first;
    while byte / u64::from(line) != last / u64::from(line) {
        byte = byte.wrapping_add(u64::from(line));
        lines.push(byte / u64::from(line));
    }
    lines
}
