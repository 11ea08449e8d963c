//! What programs do, in small: walks, loops, scattered accesses, of several threads.
use crate::naive::{Access, Kind};
use proptest::prelude::*;
use proptest::sample::select;

/// Accesses, and the process of each thread.
#[derive(Clone, Debug)]
pub struct Stream {
    pub accesses: Vec<Access>,
    pub spaces: Vec<(u32, u32)>,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![5 => Just(Kind::Read), 4 => Just(Kind::Write), 1 => Just(Kind::Prefetch), 2 => Just(Kind::Fetch)]
}

fn sizes() -> impl Strategy<Value = u32> {
    prop_oneof![6 => select(vec![1, 2, 4, 8]), 2 => 0..=70u32, 1 => 71..=512u32]
}

/// Places far apart, among them the ends of the numbers and of what belongs to one process.
fn places() -> impl Strategy<Value = u64> {
    let far = vec![(1 << 47) - 100, 1 << 47, 1 << 48, u64::MAX - 150];
    prop_oneof![6 => select(vec![0, 0x1000, 0x5550]), 1 => select(far)]
}

fn addresses() -> impl Strategy<Value = u64> {
    (places(), 0..400u64).prop_map(|(place, offset)| place.wrapping_add(offset))
}

/// Reference points are few, so that they meet.
fn points() -> impl Strategy<Value = u32> {
    0..8u32
}

fn scattered() -> impl Strategy<Value = Vec<Access>> {
    let one = (points(), kinds(), addresses(), sizes()).prop_map(|(point, kind, addr, size)| Access {
        thread: 0,
        point,
        kind,
        addr,
        size,
    });
    prop::collection::vec(one, 1..12)
}

/// One reference point that goes on evenly.
fn walk() -> impl Strategy<Value = Vec<Access>> {
    let stride = prop_oneof![2 => -9..=80i64, 1 => select(vec![-64i64, 64, 128, 256, 1000])];
    (points(), kinds(), addresses(), sizes(), stride, 2..24i64).prop_map(|(point, kind, start, size, stride, times)| {
        let step = |i: i64| Access {
            thread: 0,
            point,
            kind,
            addr: start.wrapping_add_signed(stride * i),
            size,
        };
        (0..times).map(step).collect()
    })
}

/// A stretch of one thread, done several times.
fn stretch() -> impl Strategy<Value = Vec<Access>> {
    let body = prop_oneof![scattered(), walk()];
    (0..4u32, body, 1..4usize).prop_map(|(thread, body, times)| {
        let own = body.into_iter().map(|access| Access { thread, ..access });
        own.collect::<Vec<Access>>().repeat(times)
    })
}

pub fn streams() -> impl Strategy<Value = Stream> {
    let spaces = prop::collection::vec((0..4u32, select(vec![0, 1, 2, 0x1_0001])), 0..3);
    (prop::collection::vec(stretch(), 1..20), spaces).prop_map(|(stretches, spaces)| Stream {
        accesses: stretches.concat(),
        spaces,
    })
}
