//! How the objects of a group are walked through (DTrack's Figure 5).
//!
//! **Definitions.** A *walker* is a reference point in a group of objects, whatever else is told
//! apart. Its *steps* are the differences between the addresses of its successive accesses
//! (prefetches included, fetches not); its *hops* are the steps from one object to another. A
//! stride is *dominant* for a walker if at least one in [`DOMINANT`] of its steps has it; a stride
//! of 0 is one, too. A walker *chases* pointers if at least half of its steps are hops. It is
//! *regular* if it does not chase and at least [`REGULAR`] of its steps have dominant strides. It
//! is *indirect* if it is neither, and its addresses come from values that another reference loads
//! ([`Feeders`]) which
//! - makes, outside of stacks, at least as many accesses as the walker does;
//! - moves: less than half of its steps there are 0, so that it is no variable that holds an index;
//!   and
//! - is not in the same group, or regular: otherwise it may be a list in an array.
//!
//! The pattern of a group, from the steps of all its walkers:
//! - **pointer chase**: at least half of the steps are of walkers that chase, and the group has had
//!   at least [`MANY`] objects;
//! - **regular**: otherwise, if at least [`REGULAR`] of the steps have strides that are dominant
//!   for their walkers;
//! - **mixed**: otherwise, if at least a quarter of the steps are of regular walkers and at least a
//!   quarter of others;
//! - **indirect**: otherwise, if at least half of the steps are of indirect walkers;
//! - **irregular**: otherwise.
//!
//! With no steps there is no pattern. The group's stride is the one with most steps, as far as it
//! is dominant for their walkers (of equal ones the smallest), and its share is that of the steps
//! it accounts for.
//!
//! **Counting** takes four counters for each walker (space saving): the least used one is taken
//! over by a new stride. Only what a counter has counted since then is used, so that shares are
//! never too large, and exact for a stride that never lost its counter: one with more than a
//! quarter of the steps so far never does.
use memtrail_model::Point;
use std::collections::{BTreeMap, HashMap};

/// One step in this number makes a stride dominant.
pub const DOMINANT: u64 = 10;
/// Objects that a group must have had for a pointer chase.
pub const MANY: u64 = 8;
/// The share of steps that makes a group regular, as a fraction.
pub const REGULAR: (u64, u64) = (3, 4);

/// The share of steps of regular walkers, and of others, that makes a group mixed.
pub const MIXED: (u64, u64) = (1, 4);
/// The share of steps of indirect walkers that makes a group indirect.
pub const INDIRECT: (u64, u64) = (1, 2);

const COUNTERS: usize = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counter {
    stride: i64,
    count: u64,
    /// What it had when it was taken over.
    inherited: u64,
}

/// The steps of a walker. What most accesses need is in front, in one line of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Walk {
    last: u64,
    accesses: u64,
    hops: u64,
    object: u32,
    counters: [Counter; COUNTERS],
}

impl Walk {
    /// An access to an object. Returns the step to it, 0 for the first.
    #[inline]
    pub fn access(&mut self, addr: u64, object: u32) -> i64 {
        let stride = addr.wrapping_sub(self.last) as i64;
        self.last = addr;
        self.hops += u64::from(object != self.object);
        self.object = object;
        self.accesses += 1;
        let first = &mut self.counters[0];
        if first.stride == stride && first.count > 0 {
            first.count += 1;
            return stride;
        }
        if self.accesses == 1 {
            self.hops = 0;
            return 0;
        }
        self.count(stride, 1);
        stride
    }

    /// Accesses that were all the same step apart from each other and from the last one, `hops` of
    /// them to other objects; the last went to an address of an object.
    pub fn go(&mut self, last: u64, stride: i64, accesses: u64, hops: u64, object: u32) {
        self.accesses += accesses;
        self.hops += hops;
        self.count(stride, accesses);
        (self.last, self.object) = (last, object);
    }

    /// Accesses to one object that are evenly apart, at least one.
    pub fn run(&mut self, addr: u64, stride: u64, accesses: u64, object: u32) {
        self.access(addr, object);
        if accesses > 1 {
            self.accesses += accesses - 1;
            self.count(stride as i64, accesses - 1);
            self.last = addr.wrapping_add((accesses - 1).wrapping_mul(stride));
        }
    }

    fn count(&mut self, stride: i64, times: u64) {
        let counters = &mut self.counters;
        let known = counters.iter().position(|c| c.stride == stride);
        let at = known.unwrap_or_else(|| {
            let least = (0..COUNTERS).min_by_key(|&at| counters[at].count).unwrap_or(0);
            let count = counters[least].count;
            counters[least] = Counter {
                stride,
                count,
                inherited: count,
            };
            least
        });
        counters[at].count += times;
        // The most frequent is looked at first.
        if counters[at].count > counters[0].count {
            counters.swap(0, at);
        }
    }

    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    pub fn steps(&self) -> u64 {
        self.accesses.saturating_sub(1)
    }

    pub fn hops(&self) -> u64 {
        self.hops
    }

    /// Whether its steps lead to other objects.
    pub fn chases(&self) -> bool {
        self.steps() > 0 && self.hops >= self.steps().div_ceil(2)
    }

    /// Whether most of its steps have dominant strides, in one object or not at all often in
    /// another.
    pub fn is_regular(&self) -> bool {
        let regular = self.dominant().map(|(_, times)| times).sum();
        !self.chases() && is_share(regular, self.steps(), REGULAR)
    }

    /// Its steps say what it is like.
    pub fn is_explained(&self) -> bool {
        self.steps() == 0 || self.chases() || self.is_regular()
    }

    /// Steps of 0, as far as that is a dominant stride.
    pub fn still(&self) -> u64 {
        self.dominant()
            .find(|(stride, _)| *stride == 0)
            .map_or(0, |(_, times)| times)
    }

    /// Its dominant strides, with the steps they account for.
    pub fn dominant(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let certain = self.counters.iter().map(|c| (c.stride, c.count - c.inherited));
        certain.filter(|&(_, steps)| steps > 0 && steps.saturating_mul(DOMINANT) >= self.steps())
    }
}

/// By reference point: those whose loaded values its addresses come from, as far as its code tells.
pub type Feeders = HashMap<Point, Vec<Point>>;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pattern {
    Regular,
    Mixed,
    Indirect,
    Irregular,
    PointerChase,
}

/// A walk, by whom and where.
#[derive(Clone, Copy, Debug)]
pub struct Walker<'a> {
    pub point: Point,
    pub group: u32,
    /// The group is a thread's stack.
    pub on_stack: bool,
    pub walk: &'a Walk,
}

/// By walker: whether it is indirect.
pub fn indirect(walkers: &[Walker<'_>], feeders: &Feeders) -> Vec<bool> {
    let mut by_point: HashMap<Point, Vec<&Walker<'_>>> = HashMap::new();
    for walker in walkers {
        by_point.entry(walker.point).or_default().push(walker);
    }
    let feeds = |feeder: &Point, fed: &Walker<'_>| {
        let all = by_point.get(feeder).map_or(&[][..], Vec::as_slice);
        let loading = || all.iter().filter(|walker| !walker.on_stack);
        let sum = |of: fn(&Walk) -> u64| loading().map(|walker| of(walker.walk)).sum::<u64>();
        let elsewhere = loading().all(|walker| walker.group != fed.group);
        let moves = sum(Walk::still) * 2 < sum(Walk::steps);
        sum(Walk::accesses) >= fed.walk.accesses
            && moves
            && (elsewhere || loading().all(|walker| walker.walk.is_regular()))
    };
    let is_indirect = |walker: &Walker<'_>| {
        let known = feeders.get(&walker.point).filter(|_| !walker.walk.is_explained());
        known.is_some_and(|known| known.iter().any(|feeder| feeds(feeder, walker)))
    };
    walkers.iter().map(is_indirect).collect()
}

/// What is told of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    pub pattern: Pattern,
    pub steps: u64,
    /// Steps that have dominant strides.
    pub regular: u64,
    /// The group's stride, if there is a dominant one, and the steps it accounts for.
    pub stride: Option<(i64, u64)>,
}

/// `part` is at least this fraction of `whole`.
fn is_share(part: u64, whole: u64, (share, of): (u64, u64)) -> bool {
    u128::from(part) * u128::from(of) >= u128::from(whole) * u128::from(share)
}

/// The pattern of a group that has had so many objects, from the walks through it, and whether each
/// is indirect.
pub fn summary<'a>(walks: impl IntoIterator<Item = (&'a Walk, bool)>, objects: u64) -> Option<Summary> {
    let (mut steps, mut chasing, mut regular) = (0, 0, 0);
    let (mut by_regular, mut by_indirect) = (0, 0);
    let mut strides: BTreeMap<i64, u64> = BTreeMap::new();
    for (walk, is_indirect) in walks {
        steps += walk.steps();
        chasing += if walk.chases() { walk.steps() } else { 0 };
        by_regular += if walk.is_regular() { walk.steps() } else { 0 };
        by_indirect += if is_indirect { walk.steps() } else { 0 };
        for (stride, times) in walk.dominant() {
            regular += times;
            *strides.entry(stride).or_default() += times;
        }
    }
    let pattern = if chasing >= steps.div_ceil(2) && objects >= MANY {
        Pattern::PointerChase
    } else if is_share(regular, steps, REGULAR) {
        Pattern::Regular
    } else if is_share(by_regular, steps, MIXED) && is_share(steps - by_regular, steps, MIXED) {
        Pattern::Mixed
    } else if is_share(by_indirect, steps, INDIRECT) {
        Pattern::Indirect
    } else {
        Pattern::Irregular
    };
    let most = strides
        .into_iter()
        .max_by_key(|&(stride, times)| (times, std::cmp::Reverse(stride.unsigned_abs())));
    (steps > 0).then_some(Summary {
        pattern,
        steps,
        regular,
        stride: most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(accesses: impl IntoIterator<Item = (u64, u32)>) -> Walk {
        let mut walk = Walk::default();
        accesses.into_iter().for_each(|(addr, object)| {
            walk.access(addr, object);
        });
        walk
    }

    #[test]
    fn one_access_is_no_pattern() {
        assert_eq!(summary([(&walk([(64, 1)]), false)], 1), None);
        assert_eq!(summary([], 100), None);
    }

    #[test]
    fn a_row_is_regular() {
        let row = walk((0..101).map(|i| (0x1000 + 8 * i, 1)));
        let told = summary([(&row, false)], 1).expect("steps");
        assert_eq!(
            told,
            Summary {
                pattern: Pattern::Regular,
                steps: 100,
                regular: 100,
                stride: Some((8, 100))
            }
        );
    }

    #[test]
    fn rows_of_a_matrix_have_two_strides() {
        // 10 rows of 10: 90 steps of 8, 9 of -72 + 800, which is not dominant (9 of 99).
        let matrix = walk((0..100).map(|i| (i / 10 * 800 + i % 10 * 8, 1)));
        let told = summary([(&matrix, false)], 1).expect("steps");
        assert_eq!((told.steps, told.regular, told.stride), (99, 90, Some((8, 90))));
        assert_eq!(told.pattern, Pattern::Regular);
    }

    #[test]
    fn many_strides_are_irregular() {
        let told = summary([(&random(), false)], 1).expect("steps");
        assert_eq!((told.pattern, told.regular, told.stride), (Pattern::Irregular, 0, None));
    }

    /// 1000 accesses to places that have nothing to do with each other.
    fn random() -> Walk {
        let mut place = 1u64;
        walk((0..1000).map(|_| {
            place = place
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (place >> 40 << 3, 1)
        }))
    }

    fn row() -> Walk {
        walk((0..1000).map(|i| (0x1000 + 8 * i, 1)))
    }

    #[test]
    fn rows_and_others_are_mixed() {
        let pattern = |walks: &[&Walk]| summary(walks.iter().map(|&walk| (walk, false)), 1).map(|told| told.pattern);
        let (row, random) = (row(), random());
        assert_eq!(pattern(&[&row, &random]), Some(Pattern::Mixed));
        assert_eq!(pattern(&[&row, &random, &random, &random]), Some(Pattern::Mixed));
        // A fifth is too little, and three quarters are the rule.
        assert_eq!(
            pattern(&[&row, &random, &random, &random, &random]),
            Some(Pattern::Irregular)
        );
        assert_eq!(pattern(&[&row, &row, &row, &random]), Some(Pattern::Regular));
    }

    /// Which of the walkers are indirect, if the second is fed by the first.
    fn fed(feeder: (u32, bool, &Walk), fed: (u32, &Walk)) -> bool {
        let walker = |point, (group, on_stack, walk)| Walker {
            point: Point(point),
            group,
            on_stack,
            walk,
        };
        let walkers = [walker(0, feeder), walker(1, (fed.0, false, fed.1))];
        let told = indirect(&walkers, &[(Point(1), vec![Point(0)])].into());
        assert!(!told[0]);
        told[1]
    }

    #[test]
    fn what_is_fed_by_another_array_is_indirect() {
        let (row, random) = (row(), random());
        assert!(fed((1, false, &row), (2, &random)));
        // Also by a random walk through another group, or a row of the same one.
        assert!(fed((1, false, &random), (2, &random)));
        assert!(fed((2, false, &row), (2, &random)));
        // But a list in an array is not, nor is what is regular.
        assert!(!fed((2, false, &random), (2, &random)));
        assert!(!fed((1, false, &row), (2, &row)));
        // A variable that holds an index stays where it is, or is on a stack.
        let variable = walk((0..1000).map(|_| (0x1000, 1)));
        assert!(!fed((1, false, &variable), (2, &random)));
        assert!(!fed((1, true, &row), (2, &random)));
        // Most addresses came from elsewhere.
        let short = walk((0..999).map(|i| (0x1000 + 8 * i, 1)));
        assert!(!fed((1, false, &short), (2, &random)));
        let told = summary([(&random, true), (&random, false)], 1);
        assert_eq!(told.map(|told| told.pattern), Some(Pattern::Indirect));
    }

    #[test]
    fn a_list_is_a_chase_if_it_is_long() {
        // Each node's two fields are read by two walkers; nodes are far from evenly apart.
        let nodes: Vec<u64> = (0..100u64).map(|i| i * i % 97 * 48).collect();
        let field = |at: u64| walk(nodes.iter().zip(1..).map(move |(&node, id)| (node + at, id)));
        let fields = [field(0), field(8)];
        let walks = || fields.iter().map(|field| (field, false));
        assert_eq!(summary(walks(), 100).map(|s| s.pattern), Some(Pattern::PointerChase));
        assert_ne!(summary(walks(), 7).map(|s| s.pattern), Some(Pattern::PointerChase));
    }

    #[test]
    fn a_frequent_stride_is_counted_exactly_among_many() {
        let mut walked = Walk::default();
        let mut addr = 0u64;
        for i in 0..1000u64 {
            addr = if i % 2 == 0 { addr + 16 } else { addr + 1000 + i * 24 };
            walked.access(addr, 1);
        }
        assert_eq!(walked.dominant().collect::<Vec<_>>(), [(16, 499)]);
    }

    #[test]
    fn a_run_is_its_accesses() {
        for (addr, stride, accesses) in [(100, 8, 1), (4096, u64::MAX - 63, 10), (0, 0, 5), (100, 24, 1000)] {
            let mut whole = walk([(1, 1), (7, 1), (90, 2)]);
            let mut single = whole;
            whole.run(addr, stride, accesses, 2);
            for i in 0..accesses {
                single.access(addr.wrapping_add(i.wrapping_mul(stride)), 2);
            }
            assert_eq!(whole, single);
        }
    }
}
