//! The short way: caches that only remember, one level after the other.
//!
//! **Problem.** Walking down the levels for every access has many branches and much to keep in registers.
//!
//! **Idea.** If no level's content depends on what happens further out (nothing inclusive or exclusive), a batch can be taken through the first cache as a
//! whole. What it misses and writes back is put into a queue, which is the next level's batch. In each level it is one tight loop over one
//! cache. This is done for hierarchies in which nothing but the common case is to be considered: lines of one size, writes
//! back or none, no prefetchers. Accesses to more than one line, and software prefetches, are left to [`Machine::access`], after everything before them has been through
//! all levels.
//!
//! **Invariant.** Every cache sees the same requests in the same order as it would access by access.
use super::cache::{Cache, Traits, DIRTY};
use super::machine::{forget, lose, Hits, Ledger, LevelState, Machine};
use super::placed;
use super::shadow::Shadow;
use super::words::WordMap;
use crate::config::{Hierarchy, Inclusion, Prefetch, Write};
use crate::sets::{AnySets, Meta, Sets};
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

/// Of caches with so many lines, what is looked up next is fetched in advance: they do not fit into the nearest caches of the machine that simulates them.
const LARGE: usize = 1 << 14;
/// By half as many requests.
const AHEAD: usize = 6;

/// What a cache asks of the next level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    line: u64,
    /// What is touched of it.
    bits: u64,
    point: u32,
    /// Of a write-back: who owned the line.
    owner: u32,
    kind: Kind,
    is_write_back: bool,
}

/// A cache while a batch goes through it.
pub(super) struct Pass<'c> {
    pub traits: &'c Traits,
    is_large: bool,
    pub shadow: Option<&'c mut Shadow>,
    pub gone: &'c mut Option<WordMap<u64>>,
    pub ledger: &'c mut Ledger,
    /// For the next level, if there is one.
    pub out: Option<&'c mut Vec<Request>>,
}

impl Pass<'_> {
    /// A line is asked for.
    #[inline]
    fn request(&mut self, sets: &mut impl Sets, counts: &mut [Hits], request: &Request) {
        let time = sets.tick();
        let Some((slot, meta)) = sets.look_up_at(request.line, time) else {
            self.miss(sets, time, request.line, request.bits, request.kind, request.point);
            return;
        };
        counts[request.point as usize].count(request.bits & !meta.touched != 0);
        meta.touched |= request.bits;
        if request.kind == Kind::Write {
            meta.flags |= self.traits.dirty;
        }
        self.ledger.requests(request.kind).requests += 1;
        self.ledger.find(meta, request.point);
        if let Some(shadow) = &mut self.shadow {
            shadow.hit(slot, true);
        }
    }

    /// Asks for a line that is not there and places it. Returns where.
    #[cold]
    #[inline(never)]
    pub fn miss(&mut self, sets: &mut impl Sets, time: u64, line: u64, bits: u64, kind: Kind, point: u32) -> u32 {
        let class = self.shadow.as_mut().map(|shadow| shadow.miss(line, true));
        self.ledger.missed(kind, class, point);
        self.ledger.missed_again(self.gone, line);
        if let Some(out) = &mut self.out {
            let kind = if kind == Kind::Write { Kind::Read } else { kind };
            out.push(Request {
                line,
                bits,
                point,
                owner: point,
                kind,
                is_write_back: false,
            });
        }
        let meta = Meta {
            touched: bits,
            owner: point,
            flags: if kind == Kind::Write { self.traits.dirty } else { 0 },
        };
        self.fill(sets, time, line, meta, point)
    }

    #[inline(always)]
    fn fill(&mut self, sets: &mut impl Sets, time: u64, line: u64, meta: Meta, point: u32) -> u32 {
        let placed = sets.place_at(line, meta, time);
        forget(self.gone, line);
        if let Some(shadow) = &mut self.shadow {
            shadow.placed(placed.slot, placed.evicted.map(|(line, _)| line));
        }
        let Some((line, old)) = placed.evicted else {
            return placed.slot;
        };
        self.ledger.evicted(self.traits, &old, point);
        lose(self.gone, line, &old, point);
        let dirty = old.flags & DIRTY != 0;
        self.ledger.wrote_back(old.owner, dirty);
        if let Some(out) = self.out.as_mut().filter(|_| dirty) {
            out.push(Request {
                line,
                bits: 0,
                point,
                owner: old.owner,
                kind: Kind::Write,
                is_write_back: true,
            });
        }
        placed.slot
    }

    #[inline(never)]
    fn write_back(&mut self, sets: &mut impl Sets, request: &Request) {
        self.ledger.traffic.writebacks_received += 1;
        if self.traits.write == Write::None {
            return;
        }
        let found = sets.look_up(request.line);
        if let Some(shadow) = &mut self.shadow {
            match found {
                Some(slot) => shadow.hit(slot, true),
                None => drop(shadow.miss(request.line, true)),
            }
        }
        match found {
            Some(slot) => sets.meta(slot).flags |= DIRTY,
            None => {
                let meta = Meta {
                    flags: DIRTY,
                    ..Meta::new(request.owner)
                };
                let time = sets.tick();
                self.fill(sets, time, request.line, meta, request.point);
            }
        }
    }
}

/// The first so many bits, by size of an access. One that has no size touches a byte.
const FIRST_BITS: [u64; 65] = {
    let mut bits = [1; 65];
    let mut size = 1;
    while size <= 64 {
        bits[size] = u64::MAX >> (64 - size);
        size += 1;
    }
    bits
};

/// An access of one line: which, and what is touched of it. `None` for others, and for what is neither read nor written.
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

/// A batch of the program's accesses at the first cache, up to one that needs more. Returns how many were dealt with.
///
/// `COMMON`: addresses are taken as they are, lines have 64 bytes, and are written back; none was prefetched. `CLASSES`: there may be classes.
#[inline(never)]
fn first_level<const COMMON: bool, const CLASSES: bool, S: Sets>(
    sets: &mut S,
    pass: &mut Pass,
    counts: &mut [Hits],
    space: u64,
    batch: &[Access],
) -> usize {
    let traits = *pass.traits;
    let dirty = if COMMON { DIRTY } else { traits.dirty };
    let (begin, mut misses, mut writes) = (sets.time(), 0, 0);
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
            misses += 1;
            pass.miss(sets, time, line, bits, access.kind, access.point.0);
            continue;
        };
        // A read is 0, a write is 1, and it is nothing else.
        let is_write = access.kind as u64;
        writes += is_write;
        let touched = meta.touched | bits;
        counts.count(touched != meta.touched);
        meta.touched = touched;
        meta.flags |= dirty & is_write as u32;
        if !COMMON {
            pass.ledger.find(meta, access.point.0);
        }
        if CLASSES {
            if let Some(shadow) = &mut pass.shadow {
                shadow.hit(slot, true);
            }
        }
    }
    sets.set_time(time);
    let done = ((time - begin) / S::TICK) as usize;
    pass.ledger.traffic.writes.requests += writes;
    pass.ledger.traffic.reads.requests += (done - misses) as u64 - writes;
    done
}

/// What another level asks for.
#[inline(never)]
fn next_level<S: Sets>(sets: &mut S, pass: &mut Pass, counts: &mut [Hits], batch: &[Request]) {
    for (at, request) in batch.iter().enumerate() {
        if pass.is_large {
            if let Some(coming) = batch.get(at + 2 * AHEAD) {
                sets.approach(coming.line);
            }
            if let Some(next) = batch.get(at + AHEAD) {
                sets.expect(next.line);
            }
        }
        if request.is_write_back {
            pass.write_back(sets, request);
        } else {
            pass.request(sets, counts, request);
        }
    }
}

/// Splits a cache and its level for a pass.
pub(super) fn pass<'c>(
    cache: &'c mut Cache,
    level: &'c mut LevelState,
    out: &'c mut Vec<Request>,
) -> (&'c mut AnySets, Pass<'c>, &'c mut Vec<Hits>) {
    let pass = Pass {
        traits: &cache.traits,
        is_large: cache.lines >= LARGE,
        shadow: cache.shadow.as_mut(),
        gone: &mut cache.gone,
        ledger: &mut level.ledger,
        out: cache.below.is_some().then_some(out),
    };
    (&mut cache.sets, pass, &mut level.hits)
}

impl Machine {
    /// Takes the accesses at the beginning of a batch the short way, from the given first cache on. Returns how many there were.
    pub fn run(&mut self, at: usize, space: u64, batch: &[Access]) -> usize {
        let cache = &mut self.caches[at];
        let prefetched = cache.prefetched;
        let level = &mut self.levels[cache.level];
        level.expect(batch.len());
        let mut queue = std::mem::take(&mut self.queues.0);
        let (sets, mut first, hits) = pass(cache, level, &mut queue);
        let common = space == 0 && !prefetched && first.traits.line == 64 && first.traits.dirty == DIRTY;
        let done = match sets {
            AnySets::FullLru8(sets) if common && first.shadow.is_none() => {
                first_level::<true, false, _>(sets, &mut first, hits, space, batch)
            }
            AnySets::FullLru8(sets) if common => first_level::<true, true, _>(sets, &mut first, hits, space, batch),
            AnySets::FullLru8(sets) => first_level::<false, true, _>(sets, &mut first, hits, space, batch),
            sets => first_level::<false, true, _>(sets, &mut first, hits, space, batch),
        };
        self.queues.0 = queue;
        self.further(at);
        done
    }

    /// Takes what a first cache has asked for through the levels below it.
    pub fn further(&mut self, first: usize) {
        let mut queue = std::mem::take(&mut self.queues.0);
        let cache = &self.caches[first];
        let known = self.levels[cache.level].hits.len();
        let mut below = cache.below;
        while let Some(at) = below {
            if queue.is_empty() {
                break;
            }
            let cache = &mut self.caches[at];
            let level = &mut self.levels[cache.level];
            level.expect(queue.len());
            if level.hits.len() < known {
                level.hits.resize(known, Hits::default());
            }
            let out = &mut self.queues.1;
            let (sets, mut next, hits) = pass(cache, level, out);
            match sets {
                AnySets::FullLru8(sets) => next_level(sets, &mut next, hits, &queue),
                AnySets::FullLru16(sets) => next_level(sets, &mut next, hits, &queue),
                sets => next_level(sets, &mut next, hits, &queue),
            }
            below = cache.below;
            queue.clear();
            std::mem::swap(&mut queue, &mut self.queues.1);
        }
        queue.clear();
        self.queues.0 = queue;
    }
}
