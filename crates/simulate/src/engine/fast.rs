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
use super::cache::{Cache, Meta, Traits, DIRTY, PREFETCHED};
use super::machine::{forget, lose, Hits, Ledger, LevelState, Machine};
use super::placed;
use super::shadow::Shadow;
use super::words::WordMap;
use crate::config::{Hierarchy, Inclusion, Prefetch, Write};
use crate::sets::{AnySets, Sets};
use memtrail_model::{Access, Kind};
use safe_arch::prefetch_t0;

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
    pub meta: &'c mut [Meta],
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
        let Some(slot) = sets.look_up(request.line) else {
            self.miss(sets, request.line, request.bits, request.kind, request.point);
            return;
        };
        let meta = &mut self.meta[slot as usize];
        let hits = &mut counts[request.point as usize];
        hits.hits += 1;
        hits.spatial += u64::from(request.bits & !meta.touched != 0);
        meta.touched |= request.bits;
        if request.kind == Kind::Write {
            meta.flags |= self.traits.dirty();
        }
        self.ledger.requests(request.kind).requests += 1;
        self.ledger.find(meta, request.point);
        if let Some(shadow) = &mut self.shadow {
            shadow.hit(slot, true);
        }
    }

    /// Asks for a line that is not there and places it. Returns where.
    #[inline(never)]
    pub fn miss(&mut self, sets: &mut impl Sets, line: u64, bits: u64, kind: Kind, point: u32) -> u32 {
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
            flags: if kind == Kind::Write { self.traits.dirty() } else { 0 },
        };
        self.fill(sets, line, meta, point)
    }

    #[inline(always)]
    fn fill(&mut self, sets: &mut impl Sets, line: u64, meta: Meta, point: u32) -> u32 {
        let placed = sets.place(line);
        forget(self.gone, line);
        if let Some(shadow) = &mut self.shadow {
            shadow.placed(placed.slot, placed.evicted);
        }
        let old = std::mem::replace(&mut self.meta[placed.slot as usize], meta);
        let Some(line) = placed.evicted else { return placed.slot };
        self.ledger.evicted(self.traits, &old, point);
        lose(self.gone, line, &old, point);
        if old.flags & DIRTY != 0 {
            self.ledger.wrote_back(old.owner);
            if let Some(out) = &mut self.out {
                out.push(Request {
                    line,
                    bits: 0,
                    point,
                    owner: old.owner,
                    kind: Kind::Write,
                    is_write_back: true,
                });
            }
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
            Some(slot) => self.meta[slot as usize].flags |= DIRTY,
            None => {
                let meta = Meta {
                    flags: DIRTY,
                    ..Meta::new(request.owner)
                };
                self.fill(sets, request.line, meta, request.point);
            }
        }
    }
}

/// An access of one line: which, and what is touched of it. `None` for others, and for what is neither read nor written.
#[inline(always)]
fn plain<const COMMON: bool>(access: &Access, traits: &Traits, space: u64) -> Option<(u64, u64)> {
    let addr = if COMMON {
        access.addr
    } else {
        placed(access.addr, space)
    };
    let within = traits.line - 1;
    let from = addr & within;
    let last = u64::from(access.size).wrapping_sub(1);
    if access.kind > Kind::Write || last > within - from {
        return None;
    }
    let touched = if COMMON {
        (u64::MAX >> (63 - last)) << from
    } else {
        traits.bits(from, last + 1)
    };
    Some((addr >> traits.shift, touched))
}

/// The accesses at the beginning of a batch that are hits and nothing else. Returns how many there were, and how many of them were writes.
/// In the common case there are no calls in this loop, so that it has the registers to itself.
#[inline(always)]
fn hits<const COMMON: bool, const CLASSES: bool, S: Sets>(
    sets: &mut S,
    meta: &mut [Meta],
    mut shadow: Option<&mut Shadow>,
    hits: &mut [Hits],
    traits: &Traits,
    space: u64,
    batch: &[Access],
) -> (usize, u64) {
    let dirty = traits.dirty();
    let (mut done, mut writes) = (0, 0);
    for access in batch {
        let Some((line, touched)) = plain::<COMMON>(access, traits, space) else {
            break;
        };
        let Some(hits) = hits.get_mut(access.point.index()) else {
            break;
        };
        let Some(slot) = sets.look_up(line) else {
            break;
        };
        let meta = &mut meta[slot as usize];
        if meta.flags & PREFETCHED != 0 {
            break;
        }
        let is_write = access.kind == Kind::Write;
        hits.hits += 1;
        hits.spatial += u64::from(touched & !meta.touched != 0);
        meta.touched |= touched;
        meta.flags |= dirty & u32::from(is_write).wrapping_neg();
        writes += u64::from(is_write);
        done += 1;
        if CLASSES {
            if let Some(shadow) = &mut shadow {
                shadow.hit(slot, true);
            }
        }
    }
    (done, writes)
}

/// A batch of the program's accesses at the first cache, up to one that needs more. Returns how many were dealt with.
///
/// `COMMON`: addresses are taken as they are, and lines have at most 64 bytes. `CLASSES`: there may be classes.
#[inline(never)]
fn first_level<const COMMON: bool, const CLASSES: bool, S: Sets>(
    sets: &mut S,
    pass: &mut Pass,
    counts: &mut [Hits],
    space: u64,
    batch: &[Access],
) -> usize {
    let traits = *pass.traits;
    let mut done = 0;
    while done < batch.len() {
        let shadow = pass.shadow.as_deref_mut();
        let (found, writes) =
            hits::<COMMON, CLASSES, S>(sets, pass.meta, shadow, counts, &traits, space, &batch[done..]);
        pass.ledger.traffic.writes.requests += writes;
        pass.ledger.traffic.reads.requests += found as u64 - writes;
        done += found;
        // A miss, or the first hit after a prefetch.
        let Some(access) = batch.get(done) else { break };
        let known = access.point.index() < counts.len();
        let Some((line, touched)) = plain::<COMMON>(access, &traits, space).filter(|_| known) else {
            break;
        };
        let request = Request {
            line,
            bits: touched,
            point: access.point.0,
            owner: access.point.0,
            kind: access.kind,
            is_write_back: false,
        };
        pass.request(sets, counts, &request);
        done += 1;
    }
    done
}

/// What another level asks for.
#[inline(never)]
fn next_level<S: Sets>(sets: &mut S, pass: &mut Pass, counts: &mut [Hits], batch: &[Request]) {
    let is_large = pass.meta.len() >= LARGE;
    for (at, request) in batch.iter().enumerate() {
        if is_large {
            if let Some(coming) = batch.get(at + 2 * AHEAD) {
                sets.approach(coming.line);
            }
            if let Some(slot) = batch.get(at + AHEAD).and_then(|next| sets.expect(next.line)) {
                prefetch_t0(&pass.meta[slot as usize]);
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
        meta: &mut cache.meta,
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
        let level = &mut self.levels[cache.level];
        let mut queue = std::mem::take(&mut self.queues.0);
        let (sets, mut first, hits) = pass(cache, level, &mut queue);
        let common = space == 0 && first.traits.unit == 0;
        let done = match sets {
            AnySets::Lru8(sets) if common && first.shadow.is_none() => {
                first_level::<true, false, _>(sets, &mut first, hits, space, batch)
            }
            AnySets::Lru8(sets) if common => first_level::<true, true, _>(sets, &mut first, hits, space, batch),
            AnySets::Lru8(sets) => first_level::<false, true, _>(sets, &mut first, hits, space, batch),
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
            if level.hits.len() < known {
                level.hits.resize(known, Hits::default());
            }
            let out = &mut self.queues.1;
            let (sets, mut next, hits) = pass(cache, level, out);
            match sets {
                AnySets::Lru8(sets) => next_level(sets, &mut next, hits, &queue),
                AnySets::Lru16(sets) => next_level(sets, &mut next, hits, &queue),
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
