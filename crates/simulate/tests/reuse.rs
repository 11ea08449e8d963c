//! Reuse distances and curves are those of a stack that is searched from the top.
mod streams;

use memtrail_model::{Access, Kind, Point, Thread};
use memtrail_simulate::config::{Policy, Shared};
use memtrail_simulate::reuse::{point_bucket, Bucket, Curves, Histogram, PointBuckets, Reuse, Touches, POINT_BUCKETS};
use memtrail_simulate::sweep::{grid, Sweep, SweepConfig};
use proptest::prelude::*;
use std::collections::BTreeMap;
use streams::{feed, lines, stream};

/// Thread 2 is of another process.
const SPACES: [u32; 3] = [0, 0, 5];

#[derive(Default)]
struct Naive {
    /// The most recent line last.
    stack: Vec<u64>,
    distances: BTreeMap<u64, Touches>,
    never: Touches,
    points: Vec<PointBuckets>,
}

impl Naive {
    fn of(stream: &[Vec<Access>], line: u32) -> Naive {
        let mut naive = Naive::default();
        for access in stream.iter().flatten() {
            for line in lines(access, SPACES[access.thread.0 as usize], line) {
                naive.touch(access, line);
            }
        }
        naive
    }

    fn touch(&mut self, access: &Access, line: u64) {
        let distance = self.stack.iter().rev().position(|&other| other == line);
        if let Some(distance) = distance {
            self.stack.remove(self.stack.len() - 1 - distance);
        }
        self.stack.push(line);
        let distance = distance.map(|distance| distance as u64);
        let touches = match distance {
            Some(distance) => self.distances.entry(distance).or_default(),
            None => &mut self.never,
        };
        match access.kind {
            Kind::Read => touches.reads += 1,
            Kind::Write => touches.writes += 1,
            Kind::Prefetch | Kind::Fetch => return,
        }
        let point = access.point.index();
        self.points.resize(self.points.len().max(point + 1), [0; POINT_BUCKETS]);
        self.points[point][point_bucket(distance)] += 1;
    }
}

fn reused(stream: &[Vec<Access>], line: u32) -> (Histogram, Vec<PointBuckets>) {
    let mut reuse = Reuse::new(line).unwrap().by_point();
    for (thread, &space) in SPACES.iter().enumerate() {
        reuse.set_space(Thread(thread as u32), space);
    }
    feed(&mut reuse, stream);
    (reuse.histogram(), reuse.points())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn distances_are_depths_in_the_stack(stream in stream(), line in 2u32..13) {
        let naive = Naive::of(&stream, 1 << line);
        let (histogram, points) = reused(&stream, 1 << line);
        let expected: Vec<(u64, Touches)> = naive.distances.into_iter().filter(|(_, t)| t.total() > 0).collect();
        prop_assert_eq!(histogram.iter().collect::<Vec<_>>(), expected);
        prop_assert_eq!(histogram.never(), naive.never);
        prop_assert_eq!(points, naive.points);
    }

    #[test]
    fn counting_between_batches_changes_nothing(stream in stream()) {
        let mut reuse = Reuse::new(32).unwrap();
        let mut parts = Reuse::new(32).unwrap();
        for batch in &stream {
            feed(&mut parts, std::slice::from_ref(batch));
            parts.histogram();
        }
        feed(&mut reuse, &stream);
        prop_assert_eq!(parts.histogram(), reuse.histogram());
    }

    /// If no access has two lines, a fully associative cache is a cache with one set.
    #[test]
    fn fully_associative_is_one_set(stream in stream()) {
        let mut stream = stream;
        for access in stream.iter_mut().flatten() {
            access.size = 1;
        }
        let sizes: Vec<u64> = [1, 2, 3, 5, 16, 17, 20, 40].map(|lines| lines * 64).to_vec();
        let one_set: Vec<SweepConfig> = sizes.iter().map(|&size| SweepConfig::lru(size, 64, (size / 64) as u32)).collect();
        let mut sweep = Sweep::new(&one_set).unwrap().sharing(Shared::All, None);
        let mut reuse = Reuse::new(64).unwrap();
        feed(&mut sweep, &stream);
        feed(&mut reuse, &stream);
        let curve = reuse.histogram().curve(&sizes);
        prop_assert_eq!(curve.iter().map(|point| point.counts).collect::<Vec<_>>(), sweep.counts());
    }

    #[test]
    fn curves_are_those_of_sweep_and_histogram(stream in stream()) {
        let (sizes, ways) = ([256, 512, 768, 1024, 4096], [1, 2, 4, 8]);
        let mut curves = Curves::new(64, &sizes, &ways).unwrap();
        let mut reuse = Reuse::new(64).unwrap();
        let configs = grid(&sizes, &[64], &ways, Policy::Lru);
        let mut sweep = Sweep::new(&configs).unwrap().sharing(Shared::All, None);
        feed(&mut curves, &stream);
        feed(&mut reuse, &stream);
        feed(&mut sweep, &stream);
        let curves = curves.curves();
        let counts = sweep.counts();
        prop_assert_eq!(curves.iter().map(|curve| curve.ways).collect::<Vec<_>>(), [Some(1), Some(2), Some(4), Some(8), None]);
        // 256 bytes are not eight lines, 768 no multiple of them.
        prop_assert_eq!(curves.iter().map(|curve| curve.points.len()).collect::<Vec<_>>(), [5, 5, 5, 3, 5]);
        for curve in &curves[..4] {
            for point in &curve.points {
                let at = configs.iter().position(|c| (c.size, Some(c.ways)) == (point.size, curve.ways)).unwrap();
                prop_assert_eq!(point.counts, counts[at]);
            }
        }
        prop_assert_eq!(&curves[4].points, &reuse.histogram().curve(&sizes));
    }
}

fn reads(addresses: impl IntoIterator<Item = u64>) -> Vec<Access> {
    let read = |addr| Access {
        pc: 0,
        addr,
        size: 8,
        point: Point(0),
        thread: Thread(0),
        kind: Kind::Read,
    };
    addresses.into_iter().map(read).collect()
}

#[test]
fn far_distances_after_many_moves() {
    // A walk over 50,000 lines, three times over, and on the way every tenth line again from the
    // middle of what is there.
    let round = |_| {
        (0..50_000u64)
            .flat_map(|i| [Some(i), (i % 10 == 0).then_some(i / 2)])
            .flatten()
    };
    let stream = [reads((0..3).flat_map(round).map(|line| line * 4096 / 3))];
    let naive = Naive::of(&stream, 64);
    let (histogram, _) = reused(&stream, 64);
    assert_eq!(
        histogram.iter().collect::<Vec<_>>(),
        naive.distances.into_iter().collect::<Vec<_>>()
    );
    assert_eq!(histogram.never(), naive.never);
    assert_eq!(histogram.never().reads, 50_000);
}

#[test]
fn buckets_are_powers_of_two_in_parts() {
    // Ten lines in a row and again: ten at distance 9; then the last three backwards: 0 again, 1,
    // 2.
    let mut reuse = Reuse::new(64).unwrap();
    feed(
        &mut reuse,
        &[reads((0..20).map(|i| i % 10 * 64)), reads([9 * 64, 8 * 64, 7 * 64])],
    );
    let histogram = reuse.histogram();
    let bucket = |from, to, reads| Bucket {
        from,
        to,
        touches: Touches { reads, writes: 0 },
    };
    let whole = [
        bucket(0, 0, 1),
        bucket(1, 1, 1),
        bucket(2, 3, 1),
        bucket(4, 7, 0),
        bucket(8, 15, 10),
    ];
    assert_eq!(histogram.buckets(0), whole);
    let halves = [bucket(4, 5, 0), bucket(6, 7, 0), bucket(8, 11, 10)];
    assert_eq!(histogram.buckets(1)[4..], halves);
    assert_eq!(histogram.touches().reads, 23);
    let mut twice = histogram.clone();
    twice.merge(&histogram);
    assert_eq!((twice.at(9).reads, twice.never().reads), (20, 20));
}

#[test]
fn lines_of_odd_length_are_refused() {
    let error = Reuse::new(48).err().map(|error| error.to_string());
    let why = "reuse distances: line = 48: a line is a power of two from 4 to 4096 bytes";
    assert_eq!(error, Some(why.to_string()));
}
