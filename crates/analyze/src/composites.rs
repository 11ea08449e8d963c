//! Composites: dense numbers for all that tables tell apart, and what is counted of each.
//!
//! A *site* remembers what a reference point did last, in one line of the cache: an access that goes
//! on as the one before adds to the site and to nothing else. Sites are added up when a point does
//! something else, and at the end.
use crate::hash::{NumberHasher, NumberMap};
use crate::objects::UNKNOWN;
use crate::patterns::Walk;
use indexmap::IndexSet;
use memtrail_model::{Access, Kind, Point};
use std::hash::BuildHasherDefault;

/// What a composite stands for; [`Key::NONE`] for what is not tracked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Key {
    pub point: Point,
    /// Of the call tree.
    pub node: u32,
    /// Of objects.
    pub group: u32,
    pub thread: u32,
    /// The serial number of the process, which is that of its address space.
    pub process: u32,
    /// The number of the phase that [`Tagger::set_phase`] gave.
    pub phase: u32,
}

impl Key {
    pub const NONE: u32 = u32::MAX;

    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        let what = u64::from(self.point.0) | u64::from(self.node) << 32;
        let who = self.thread ^ self.process.rotate_left(16) ^ self.phase.rotate_left(8);
        let whose = u64::from(self.group) | u64::from(who) << 32;
        let mixed = what.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ whose.wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Dense numbers of keys, in the order in which they came.
pub(crate) type Numbers = IndexSet<Key, BuildHasherDefault<NumberHasher>>;

/// The number of a key; a new one if it has none.
pub(crate) fn number_of(numbers: &mut Numbers, key: Key) -> u32 {
    numbers.insert_full(key).0 as u32
}

/// What a composite did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub reads: u64,
    pub writes: u64,
    pub prefetches: u64,
    pub fetches: u64,
    /// That were read or written.
    pub bytes: u64,
}

impl Tally {
    pub fn accesses(&self) -> u64 {
        self.reads + self.writes
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.prefetches += other.prefetches;
        self.fetches += other.fetches;
        self.bytes += other.bytes;
    }
}

/// Who does what a thread does now, as composites have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doer {
    pub(crate) node: u32,
    pub(crate) thread: u32,
    pub(crate) process: u32,
}

/// A composite and its walker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) key: Key,
    pub(crate) composite: u32,
    pub(crate) walker: u32,
}

impl Known {
    pub(crate) const NOTHING: Known = Known {
        key: Key {
            point: Point::NONE,
            node: Key::NONE,
            group: Key::NONE,
            // No thread has this number.
            thread: Key::NONE - 1,
            process: Key::NONE,
            phase: Key::NONE,
        },
        composite: 0,
        walker: 0,
    };
}

/// What a reference point did last, and what it did since that was added up. A line of the cache:
/// most accesses of a point go on as the one before, and need nothing else.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Site {
    /// Where it was.
    pub(crate) last: u64,
    /// The step of the accesses that are not added up, and how many of them went from one object to
    /// another.
    pub(crate) stride: i64,
    pub(crate) steps: u32,
    pub(crate) hops: u32,
    /// Accesses of the usual kind and size that are not added up.
    pub(crate) times: u32,
    /// See [`usual`].
    pub(crate) usual: u32,
    pub(crate) composite: u32,
    pub(crate) walker: u32,
    pub(crate) object: u32,
    // What the composite stands for.
    pub(crate) group: u32,
    pub(crate) node: u32,
    pub(crate) thread: u32,
    pub(crate) process: u32,
}

impl Site {
    pub(crate) const NOTHING: Site = Site {
        last: 0,
        stride: 0,
        steps: 0,
        hops: 0,
        times: 0,
        usual: 0,
        composite: 0,
        walker: 0,
        object: UNKNOWN,
        group: Key::NONE,
        node: Key::NONE,
        // No thread has this number.
        thread: Key::NONE - 1,
        process: Key::NONE,
    };

    /// Whether the point has this composite.
    #[inline]
    pub(crate) fn is(&self, group: u32, by: &Doer) -> bool {
        (self.node == by.node) & (self.group == group) & (self.thread == by.thread) & (self.process == by.process)
    }

    pub(crate) fn is_new(&self) -> bool {
        self.thread == Site::NOTHING.thread
    }
}

const _: () = assert!(size_of::<Site>() == 64);

/// The first access of a reference point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstAccess {
    /// What it accessed.
    pub address: u64,
    /// Where the instruction was.
    pub pc: u64,
}

/// What is known of a composite. There may be millions, and nearly all their accesses are of one
/// kind and size: the others are kept elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    /// Of the usual kind and size.
    pub(crate) times: u64,
    /// The kind and size of the first access, see [`usual`].
    pub(crate) usual: u32,
}

/// A kind and a size in one number that is not 0; 0 for sizes that are too large.
#[inline]
pub(crate) fn usual(kind: Kind, size: u32) -> u32 {
    match size < 1 << 29 {
        true => size << 3 | (kind as u32 + 1),
        false => 0,
    }
}

impl Tally {
    pub(crate) fn count(&mut self, kind: Kind, size: u32, times: u64) {
        match kind {
            Kind::Read => self.reads += times,
            Kind::Write => self.writes += times,
            Kind::Prefetch => return self.prefetches += times,
            Kind::Fetch => return self.fetches += times,
        }
        self.bytes += u64::from(size) * times;
    }
}

impl Record {
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        let kind = match self.usual % 8 {
            1 => Kind::Read,
            2 => Kind::Write,
            3 => Kind::Prefetch,
            _ => Kind::Fetch,
        };
        tally.count(kind, self.usual >> 3, self.times);
        tally
    }
}

/// Entries of the cache of composites, as a power of two.
pub(crate) const CACHE: u32 = 14;

/// Composites: dense numbers of keys.
#[derive(Debug, Default)]
pub(crate) struct Composites {
    pub(crate) keys: Numbers,
    /// Of the accesses that come. All that is in `sites` and `cache` is of this phase.
    pub(crate) phase: u32,
    pub(crate) records: Vec<Record>,
    /// What is of another kind or size than usual, by composite.
    pub(crate) others: NumberMap<u32, Tally>,
    /// A point and a group, and how the one walks through the other.
    pub(crate) walkers: Numbers,
    pub(crate) walks: Vec<Walk>,
    /// What a point did last; by point + 1: [`Point::NONE`] is the first.
    pub(crate) sites: Vec<Site>,
    /// By point + 1.
    pub(crate) firsts: Vec<Option<FirstAccess>>,
    /// Where a point does not do the same as last time, it mostly does what it did before: by a
    /// hash of the key.
    pub(crate) cache: Vec<Known>,
    /// Accesses since all sites were added up.
    pub(crate) fresh: u64,
}

/// All sites are added up after this number of accesses: their counters are small.
pub(crate) const MOST_FRESH: u64 = 1 << 31;

impl Composites {
    /// Another phase begins. Forgetting what was last costs less than to compare phases at each
    /// access.
    pub(crate) fn set_phase(&mut self, phase: u32) {
        self.settle_all();
        self.phase = phase;
        self.sites.fill(Site::NOTHING);
        self.cache.fill(Known::NOTHING);
    }

    /// Where a point's site is; there is one from then on.
    #[inline]
    pub(crate) fn place(&mut self, point: Point) -> usize {
        let at = point.0.wrapping_add(1) as usize;
        if at >= self.sites.len() {
            self.make_place(at);
        }
        at
    }

    #[cold]
    pub(crate) fn make_place(&mut self, at: usize) {
        self.sites.resize(at + 1, Site::NOTHING);
        self.cache.resize(1 << CACHE, Known::NOTHING);
    }

    /// The last object that a point accessed.
    #[inline]
    pub(crate) fn hint(&self, point: Point) -> u32 {
        let site = self.sites.get(point.0.wrapping_add(1) as usize);
        site.map_or(UNKNOWN, |site| site.object)
    }

    /// Adds up what a site has not yet.
    pub(crate) fn settle(&mut self, at: usize) {
        let site = &mut self.sites[at];
        if site.steps > 0 {
            let walk = &mut self.walks[site.walker as usize];
            walk.go(site.last, site.stride, site.steps.into(), site.hops.into(), site.object);
        }
        if site.times > 0 {
            self.records[site.composite as usize].times += u64::from(site.times);
        }
        (site.steps, site.hops, site.times) = (0, 0, 0);
    }

    pub(crate) fn settle_all(&mut self) {
        (0..self.sites.len()).for_each(|at| self.settle(at));
        self.fresh = 0;
    }

    /// Has the site count for this composite; returns that and the walker.
    pub(crate) fn switch(&mut self, at: usize, group: u32, by: &Doer) -> (u32, u32) {
        let site = &self.sites[at];
        if site.is(group, by) {
            return (site.composite, site.walker);
        }
        self.settle(at);
        let key = Key {
            point: Point((at as u32).wrapping_sub(1)),
            node: by.node,
            group,
            thread: by.thread,
            process: by.process,
            phase: self.phase,
        };
        let cached = (key.hash() >> (64 - CACHE)) as usize;
        let mut known = self.cache[cached];
        if known.key != key {
            known = self.number(key);
            self.cache[cached] = known;
        }
        self.sites[at] = Site {
            usual: self.records[known.composite as usize].usual,
            composite: known.composite,
            walker: known.walker,
            group,
            node: by.node,
            thread: by.thread,
            process: by.process,
            ..Site::NOTHING
        };
        (known.composite, known.walker)
    }

    /// Remembers an access if it is the point's first.
    pub(crate) fn see(&mut self, at: usize, address: u64, pc: u64) {
        if self.sites[at].is_new() {
            if self.firsts.len() <= at {
                self.firsts.resize(at + 1, None);
            }
            self.firsts[at].get_or_insert(FirstAccess { address, pc });
        }
    }

    /// The composite of accesses of a loop to an object, and its walker, which the site has nothing
    /// to add to.
    pub(crate) fn of(&mut self, point: Point, object: u32, group: u32, by: &Doer) -> (u32, u32) {
        let at = self.place(point);
        let found = self.switch(at, group, by);
        self.settle(at);
        let site = &mut self.sites[at];
        // Where the walker is after the loop is not known here: the next access asks.
        (site.object, site.usual) = (object, 0);
        found
    }

    /// An access that does not go on as the one before; returns its composite.
    #[inline(never)]
    pub(crate) fn another(&mut self, at: usize, access: &Access, walks: Option<u32>, (group, by): (u32, &Doer)) -> u32 {
        self.see(at, access.addr, access.pc);
        let (composite, walker) = self.switch(at, group, by);
        self.settle(at);
        self.count(composite, access.kind, access.size, 1);
        let site = &mut self.sites[at];
        site.usual = self.records[composite as usize].usual;
        if let Some(object) = walks {
            let walk = &mut self.walks[walker as usize];
            let stride = walk.access(access.addr, object);
            (site.last, site.object, site.stride) = (access.addr, object, stride);
        }
        composite
    }

    #[cold]
    pub(crate) fn number(&mut self, key: Key) -> Known {
        let composite = number_of(&mut self.keys, key);
        if self.records.len() == composite as usize {
            self.records.push(Record::default());
        }
        let mut walker = 0;
        if key.group != Key::NONE {
            let walked = Key {
                node: Key::NONE,
                thread: Key::NONE,
                process: Key::NONE,
                phase: Key::NONE,
                ..key
            };
            walker = number_of(&mut self.walkers, walked);
            if self.walks.len() == walker as usize {
                self.walks.push(Walk::default());
            }
        }
        Known { key, composite, walker }
    }

    #[inline]
    pub(crate) fn count(&mut self, composite: u32, kind: Kind, size: u32, times: u64) {
        let record = &mut self.records[composite as usize];
        let is = usual(kind, size);
        match record.usual == is && is != 0 {
            true => record.times += times,
            false => self.count_other(composite, kind, size, times),
        }
    }

    #[cold]
    pub(crate) fn count_other(&mut self, composite: u32, kind: Kind, size: u32, times: u64) {
        let record = &mut self.records[composite as usize];
        if record.usual == 0 && usual(kind, size) != 0 {
            *record = Record {
                times,
                usual: usual(kind, size),
            };
        } else {
            self.others.entry(composite).or_default().count(kind, size, times);
        }
    }

    pub(crate) fn tally(&self, composite: u32) -> Tally {
        let mut tally = self.records[composite as usize].tally();
        tally += self.others.get(&composite).copied().unwrap_or_default();
        tally
    }
}
