//! One cache: sets of numbered ways, a replacement policy, and what it remembers for prefetching
//! and for miss classes.
use memtrail_simulate::config::Policy;
use memtrail_simulate::Level;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A line in a cache.
#[derive(Clone, Debug)]
pub struct Line {
    pub number: u64,
    pub dirty: bool,
    /// Placed for a prefetch and not found by a demand access since.
    pub marked: bool,
    /// The reference point that brought it in.
    pub owner: u32,
    /// The reference points that an eviction may be charged to.
    pub users: BTreeSet<u32>,
    /// For each byte, or each 64th of the line, whether it was touched.
    pub touched: Vec<bool>,
}

impl Line {
    pub fn used_units(&self) -> u64 {
        self.touched.iter().filter(|&&unit| unit).count() as u64
    }
}

/// A line in a way, with the times that replacement goes by.
struct Way {
    line: Line,
    used: u64,
    placed: u64,
}

struct Set {
    ways: Vec<Option<Way>>,
    /// Nodes of the tree of plru, the root at 1, the children of n at 2n and 2n + 1: whether it
    /// points to the upper half.
    points_up: Vec<bool>,
    /// Random evictions so far.
    picked: u64,
}

/// Of one reference point, for the stride prefetcher.
pub struct Stride {
    pub last: u64,
    pub stride: u64,
    pub confidence: u32,
}

/// Why a line is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Compulsory,
    Capacity,
    Conflict,
}

pub struct Cache {
    policy: Policy,
    seed: u64,
    sets: Vec<Set>,
    clock: u64,
    pub strides: HashMap<u32, Stride>,
    /// Lines that were evicted and neither missed nor placed since: their owner, and who evicted
    /// them.
    pub gone: HashMap<u64, (u32, u32)>,
    /// Lines ever looked up.
    asked: HashSet<u64>,
    /// The fully associative cache beside this one: line numbers, the least recently used first.
    shadow: Vec<u64>,
    shadow_lines: usize,
}

fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The random number `n` of a set.
fn pick(seed: u64, set: u64, n: u64) -> u64 {
    mix(mix(seed.wrapping_add(set)).wrapping_add(n))
}

impl Set {
    fn new(ways: u32) -> Set {
        Set {
            ways: (0..ways).map(|_| None).collect(),
            points_up: vec![false; ways as usize],
            picked: 0,
        }
    }

    /// Makes the nodes on the way's path point away from it, if there are any.
    fn point_away(&mut self, policy: Policy, way: usize) {
        if policy != Policy::Plru {
            return;
        }
        let (mut node, mut low, mut width) = (1, 0, self.ways.len());
        while width > 1 {
            width /= 2;
            let in_upper = way >= low + width;
            self.points_up[node] = !in_upper;
            node = 2 * node + usize::from(in_upper);
            low += if in_upper { width } else { 0 };
        }
    }

    fn pointed_to(&self) -> usize {
        let (mut node, mut low, mut width) = (1, 0, self.ways.len());
        while width > 1 {
            width /= 2;
            let up = self.points_up[node];
            node = 2 * node + usize::from(up);
            low += if up { width } else { 0 };
        }
        low
    }

    /// The way with the smallest of some time; the set is full.
    fn earliest(&self, time: impl Fn(&Way) -> u64) -> usize {
        let time_of = |&way: &usize| time(self.ways[way].as_ref().expect("a full set"));
        (0..self.ways.len()).min_by_key(time_of).expect("a set has ways")
    }
}

impl Cache {
    pub fn new(level: &Level, seed: u64) -> Cache {
        Cache {
            policy: level.policy,
            seed,
            sets: (0..level.sets()).map(|_| Set::new(level.ways)).collect(),
            clock: 0,
            gone: HashMap::new(),
            strides: HashMap::new(),
            asked: HashSet::new(),
            shadow: Vec::new(),
            shadow_lines: level.lines() as usize,
        }
    }

    fn set_of(&self, number: u64) -> usize {
        (number % self.sets.len() as u64) as usize
    }

    /// Set and way of a line that is there.
    fn position(&self, number: u64) -> Option<(usize, usize)> {
        let set = self.set_of(number);
        let here = |way: &Option<Way>| way.as_ref().is_some_and(|way| way.line.number == number);
        self.sets[set].ways.iter().position(here).map(|way| (set, way))
    }

    pub fn holds(&self, number: u64) -> bool {
        self.position(number).is_some()
    }

    /// A look-up: finding the line is a use of it.
    pub fn find(&mut self, number: u64) -> Option<&mut Line> {
        let (set, way) = self.position(number)?;
        self.clock += 1;
        let set = &mut self.sets[set];
        set.point_away(self.policy, way);
        let way = set.ways[way].as_mut().expect("found");
        way.used = self.clock;
        Some(&mut way.line)
    }

    /// The lines that are there, by number.
    pub fn lines(&self) -> Vec<u64> {
        let ways = self.sets.iter().flat_map(|set| set.ways.iter().flatten());
        let mut lines: Vec<u64> = ways.map(|way| way.line.number).collect();
        lines.sort_unstable();
        lines
    }

    /// Makes a line clean; its owner if it was there and dirty. This is no use of it.
    pub fn clean(&mut self, number: u64) -> Option<u32> {
        let (set, way) = self.position(number)?;
        let line = &mut self.sets[set].ways[way].as_mut().expect("found").line;
        std::mem::take(&mut line.dirty).then_some(line.owner)
    }

    /// Takes a line away.
    pub fn remove(&mut self, number: u64) -> Option<Line> {
        let (set, way) = self.position(number)?;
        self.sets[set].ways[way].take().map(|way| way.line)
    }

    /// Places a line that is not there and returns the one that made room.
    pub fn place(&mut self, line: Line) -> Option<Line> {
        assert!(!self.holds(line.number), "line {:#x} is there twice", line.number);
        self.clock += 1;
        let (policy, index) = (self.policy, self.set_of(line.number));
        let set = &mut self.sets[index];
        let way = match set.ways.iter().position(Option::is_none) {
            Some(free) => free,
            None => match policy {
                Policy::Lru => set.earliest(|way| way.used),
                Policy::Fifo => set.earliest(|way| way.placed),
                Policy::Plru => set.pointed_to(),
                Policy::Random => {
                    let number = pick(self.seed, index as u64, set.picked);
                    set.picked += 1;
                    (number % set.ways.len() as u64) as usize
                }
            },
        };
        set.point_away(policy, way);
        let (used, placed) = (self.clock, self.clock);
        set.ways[way].replace(Way { line, used, placed }).map(|way| way.line)
    }

    /// Notes a look-up for the miss classes, and returns the class that the line has if it is not
    /// there. `places`: a look-up of this sort places a line that is missing.
    pub fn classify(&mut self, number: u64, places: bool) -> Class {
        let known = !self.asked.insert(number);
        let in_shadow = self.shadow.iter().position(|&line| line == number);
        if let Some(at) = in_shadow {
            self.shadow.remove(at);
        }
        if in_shadow.is_some() || places {
            if self.shadow.len() == self.shadow_lines {
                self.shadow.remove(0);
            }
            self.shadow.push(number);
        }
        match (known, in_shadow) {
            (false, _) => Class::Compulsory,
            (true, None) => Class::Capacity,
            (true, Some(_)) => Class::Conflict,
        }
    }
}

#[test]
fn picks_are_those_of_splitmix64() {
    // The first number of SplitMix64 seeded with 0, as published; the picks were computed from the
    // page by another program.
    assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
    assert_eq!(pick(0, 0, 0), 0xA706_DD2F_4D19_7E6F);
    assert_eq!(pick(0, 1, 1), 0x86D6_FD95_3217_AE03);
    assert_eq!(pick(7, 0, 5), 0xD6A4_EC19_6A40_61AF);
}
