//! The short way: caches that only remember, one level after the other.
//!
//! **Problem.** Walking down the levels for every access has many branches and much to keep in
//! registers.
//!
//! **Idea.** If no level's content depends on what happens further out (nothing inclusive or
//! exclusive), a batch can be taken through the first cache as a whole. What it misses and writes
//! back is written down ([`Log`]), which is the next level's batch. In each level it is one tight
//! loop over one cache. This is done for hierarchies in which nothing but the common case is to be
//! considered: lines of one size, writes back or none, no prefetchers. Accesses to more than one
//! line, and software prefetches, are left to [`Machine::access`], after everything before them has
//! been through all levels.
//!
//! **Invariant.** Every cache sees the same requests in the same order as it would access by
//! access.
use super::cache::{Cache, Traits, DIRTY};
use super::log::{Log, Missed};
use super::machine::{Hits, Ledger, LevelState, Machine};
use super::placed;
use super::shadow::Shadow;
use crate::config::{Hierarchy, Inclusion, Prefetch, Write};
use crate::sets::{each, AnySets, Meta, Sets};
use memtrail_model::{Access, Kind};

/// Whether a hierarchy can go the short way.
pub(super) fn is_plain(hierarchy: &Hierarchy) -> bool {
    hierarchy.levels.iter().all(|level| {
        level.line == hierarchy.levels[0].line
            && level.prefetch == Prefetch::None
            && level.inclusion == Inclusion::None
            && level.write != Write::Through
            && level.allocate
    })
}

/// Of caches with so many lines, what is looked up next is fetched in advance: they do not fit into
/// the nearest caches of the machine that simulates them.
const LARGE: usize = 1 << 14;
/// By half as many requests.
const AHEAD: usize = 6;

/// A cache while a batch goes through it.
pub(super) struct Pass<'c> {
    pub traits: &'c Traits,
    is_large: bool,
    /// There is a level below.
    pub goes_on: bool,
    shadow: Option<&'c mut Shadow>,
    pub ledger: &'c mut Ledger,
    /// There is room in it.
    pub log: &'c mut Log,
}

impl Pass<'_> {
    /// A line that the level above has missed is asked for.
    #[inline]
    fn request<const CLASSES: bool>(&mut self, sets: &mut impl Sets, counts: &mut [Hits], asked: &Missed) {
        let time = sets.tick();
        let Some((slot, meta)) = sets.look_up_at(asked.line, time) else {
            self.miss_again::<CLASSES>(sets, time, asked);
            return;
        };
        counts[asked.point as usize].count(asked.bits & !meta.touched != 0);
        meta.touched |= asked.bits;
        self.ledger.traffic.reads.requests += 1;
        self.ledger.find(meta, asked.point);
        if let Some(shadow) = self.shadow.as_mut().filter(|_| CLASSES) {
            shadow.hit(slot, true);
        }
    }

    /// Places a line that is asked for and not there, with its flags. Returns where.
    #[cold]
    #[inline(never)]
    pub fn miss<const CLASSES: bool>(
        &mut self,
        sets: &mut impl Sets,
        time: u64,
        (line, bits, point): (u64, u64, u32),
        flags: u32,
        is_write: bool,
    ) -> u32 {
        self.bring::<CLASSES>(sets, time, (line, bits, point), flags, is_write)
    }

    /// The same for an access of the program, in as few arguments as there are registers for them.
    #[cold]
    #[inline(never)]
    fn miss_of<const CLASSES: bool>(&mut self, sets: &mut impl Sets, time: u64, line: u64, bits: u64, access: &Access) {
        // A read is 0, a write is 1, and it is nothing else.
        let is_write = access.kind as u32;
        let flags = self.traits.dirty & is_write;
        self.bring::<CLASSES>(sets, time, (line, bits, access.point.0), flags, is_write != 0);
    }

    /// The same for what the level above has missed.
    #[cold]
    #[inline(never)]
    fn miss_again<const CLASSES: bool>(&mut self, sets: &mut impl Sets, time: u64, asked: &Missed) {
        self.bring::<CLASSES>(sets, time, (asked.line, asked.bits, asked.point), 0, false);
    }

    #[inline(always)]
    fn bring<const CLASSES: bool>(
        &mut self,
        sets: &mut impl Sets,
        time: u64,
        (line, bits, point): (u64, u64, u32),
        flags: u32,
        is_write: bool,
    ) -> u32 {
        let meta = Meta {
            touched: bits,
            owner: point,
            flags,
        };
        let mut missed = Missed::new(line, bits, point, is_write);
        if CLASSES {
            missed.class = self.shadow.as_mut().map(|shadow| shadow.miss(line, true));
        }
        self.fill::<CLASSES>(sets, time, meta, missed)
    }

    /// Places a line. Returns where.
    #[inline(always)]
    fn fill<const CLASSES: bool>(&mut self, sets: &mut impl Sets, time: u64, meta: Meta, missed: Missed) -> u32 {
        let placed = sets.place_at(missed.line, meta, time);
        if let Some(shadow) = self.shadow.as_mut().filter(|_| CLASSES) {
            shadow.placed(placed.slot, placed.evicted.is_some());
        }
        self.log.push(missed.evicting(placed.evicted));
        placed.slot
    }

    /// A line is written back from the level above, where another has taken its place.
    #[inline(never)]
    fn write_back<const CLASSES: bool>(&mut self, sets: &mut impl Sets, line: u64, owner: u32, point: u32) {
        self.ledger.traffic.writebacks_received += 1;
        if self.traits.write == Write::None {
            return;
        }
        let found = sets.look_up(line);
        if let Some(shadow) = self.shadow.as_mut().filter(|_| CLASSES) {
            match found {
                Some(slot) => shadow.hit(slot, true),
                None => drop(shadow.miss(line, true)),
            }
        }
        match found {
            Some(slot) => sets.meta(slot).flags |= DIRTY,
            None => {
                let meta = Meta {
                    flags: DIRTY,
                    ..Meta::new(owner)
                };
                let mut missed = Missed::new(line, 0, point, true);
                missed.is_asked_for = false;
                let time = sets.tick();
                self.fill::<CLASSES>(sets, time, meta, missed);
            }
        }
    }
}

/// As many low bits as an access has bytes, by its size. One that has no size touches a byte.
const FIRST_BITS: [u64; 65] = {
    let mut bits = [1; 65];
    let mut size = 1;
    while size <= 64 {
        bits[size] = u64::MAX >> (64 - size);
        size += 1;
    }
    bits
};

/// An access of one line: which, and what is touched of it. `None` for others, and for what is
/// neither read nor written.
#[inline(always)]
fn plain<const COMMON: bool>(access: &Access, traits: &Traits, space: u64) -> Option<(u64, u64)> {
    if access.kind > Kind::Write {
        return None;
    }
    let size = access.size as usize;
    if COMMON {
        let from = access.addr as usize % 64;
        if from + size > 64 {
            return None;
        }
        return Some((access.addr >> 6, FIRST_BITS.get(size)? << from));
    }
    let addr = placed(access.addr, space);
    let from = addr & (traits.line - 1);
    let size = u64::from(access.size.max(1));
    (from + size <= traits.line).then(|| (addr >> traits.shift, traits.bits(from, size)))
}

/// A batch of the program's accesses at the first cache, up to one that needs more. Returns how
/// many were dealt with.
///
/// `COMMON`: addresses are taken as they are, lines have 64 bytes, and are written back; none was
/// prefetched. `CLASSES`: there may be classes.
#[inline(never)]
fn first_level<const COMMON: bool, const CLASSES: bool, S: Sets>(
    sets: &mut S,
    pass: &mut Pass,
    counts: &mut [Hits],
    space: u64,
    batch: &[Access],
) -> usize {
    let mut batch = batch;
    if let Some(shadow) = &mut pass.shadow {
        batch = &batch[..batch.len().min(Shadow::MOST)];
        shadow.expect(batch.len());
    }
    let traits = *pass.traits;
    let dirty = if COMMON { DIRTY } else { traits.dirty };
    let (begin, missed_before, mut writes) = (sets.time(), pass.log.len(), 0);
    let mut time = begin;
    for access in batch {
        let Some((line, bits)) = plain::<COMMON>(access, &traits, space) else {
            break;
        };
        let Some(counts) = counts.get_mut(access.point.index()) else {
            break;
        };
        time += S::TICK;
        let Some((slot, meta)) = sets.look_up_at(line, time) else {
            pass.miss_of::<CLASSES>(sets, time, line, bits, access);
            continue;
        };
        // A read is 0, a write is 1, and it is nothing else.
        let is_write = access.kind as u32;
        writes += is_write;
        let touched = meta.touched | bits;
        counts.count(touched != meta.touched);
        meta.touched = touched;
        meta.flags |= dirty & is_write;
        if !COMMON {
            pass.ledger.find(meta, access.point.0);
        }
        if CLASSES {
            if let Some(shadow) = &mut pass.shadow {
                shadow.hit_next(slot);
            }
        }
    }
    sets.set_time(time);
    let done = ((time - begin) / S::TICK) as usize;
    let misses = pass.log.len() - missed_before;
    pass.ledger.traffic.writes.requests += u64::from(writes);
    pass.ledger.traffic.reads.requests += (done - misses) as u64 - u64::from(writes);
    done
}

/// What another level has missed and written back.
#[inline(never)]
fn next_level<const CLASSES: bool>(sets: &mut impl Sets, pass: &mut Pass, counts: &mut [Hits], batch: &[Missed]) {
    for (at, missed) in batch.iter().enumerate() {
        if pass.is_large {
            if let Some(coming) = batch.get(at + 2 * AHEAD) {
                sets.approach(coming.line);
            }
            if let Some(next) = batch.get(at + AHEAD) {
                sets.expect(next.line);
            }
        }
        if missed.is_asked_for {
            pass.request::<CLASSES>(sets, counts, missed);
        }
        if let Some((line, owner)) = missed.written_back() {
            pass.write_back::<CLASSES>(sets, line, owner, missed.point);
        }
    }
}

fn any_next_level<const CLASSES: bool>(sets: &mut AnySets, pass: &mut Pass, counts: &mut [Hits], batch: &[Missed]) {
    each!(sets, sets => next_level::<CLASSES>(sets, pass, counts, batch));
}

fn any_first_level<const COMMON: bool, const CLASSES: bool>(
    sets: &mut AnySets,
    pass: &mut Pass,
    counts: &mut [Hits],
    space: u64,
    batch: &[Access],
) -> usize {
    each!(sets, sets => first_level::<COMMON, CLASSES, _>(sets, pass, counts, space, batch))
}

/// Splits a cache and its level for a pass.
pub(super) fn pass<'c>(
    cache: &'c mut Cache,
    level: &'c mut LevelState,
    log: &'c mut Log,
) -> (&'c mut AnySets, Pass<'c>, &'c mut Vec<Hits>) {
    let pass = Pass {
        traits: &cache.traits,
        is_large: cache.lines >= LARGE,
        goes_on: cache.below.is_some(),
        shadow: cache.shadow.as_mut(),
        ledger: &mut level.ledger,
        log,
    };
    (&mut cache.sets, pass, &mut level.hits)
}

impl Machine {
    /// Takes the accesses at the beginning of a batch the short way, from the given first cache on.
    /// Returns how many there were.
    pub fn run(&mut self, at: usize, space: u64, batch: &[Access]) -> usize {
        let cache = &mut self.caches[at];
        let prefetched = cache.prefetched;
        let level = &mut self.levels[cache.level];
        level.expect(batch.len());
        let log = &mut self.logs.0;
        log.make_room(batch.len());
        let (sets, mut first, hits) = pass(cache, level, log);
        let common = space == 0 && !prefetched && first.traits.line == 64 && first.traits.dirty == DIRTY;
        let done = match (common, first.shadow.is_some()) {
            (true, false) => any_first_level::<true, false>(sets, &mut first, hits, space, batch),
            (true, true) => any_first_level::<true, true>(sets, &mut first, hits, space, batch),
            (false, _) => any_first_level::<false, true>(sets, &mut first, hits, space, batch),
        };
        self.settle(at);
        self.further(at);
        done
    }

    /// Counts what a cache has missed.
    pub fn settle(&mut self, at: usize) {
        let cache = &mut self.caches[at];
        let ledger = &mut self.levels[cache.level].ledger;
        let classes = cache.shadow.is_some();
        ledger.settle(&cache.traits, &mut cache.gone, classes, self.logs.0.all());
    }

    /// Takes what a first cache has missed through the levels below.
    pub fn further(&mut self, first: usize) {
        let known = self.levels[self.caches[first].level].hits.len();
        let mut at = first;
        while let Some(below) = self.caches[at].below.filter(|_| self.logs.0.len() > 0) {
            let (log, next_log) = (&mut self.logs.0, &mut self.logs.1);
            let cache = &mut self.caches[below];
            let level = &mut self.levels[cache.level];
            level.expect(log.len());
            if level.hits.len() < known {
                level.hits.resize(known, Hits::default());
            }
            // Of each, both the line and the one that is written back may be missed.
            next_log.make_room(2 * log.len());
            let (sets, mut next, hits) = pass(cache, level, next_log);
            match next.shadow {
                Some(_) => any_next_level::<true>(sets, &mut next, hits, log.all()),
                None => any_next_level::<false>(sets, &mut next, hits, log.all()),
            }
            log.clear();
            std::mem::swap(log, next_log);
            self.settle(below);
            at = below;
        }
        self.logs.0.clear();
    }
}
