//! Requests through the caches, in full: see `docs/simulation.md`, section by section.
use super::cache::{Cache, Traits, DIRTY, PREFETCHED};
use super::log::{Log, Missed};
use super::shadow::Class;
use super::steps::Steps;
use super::users::Users;
use super::words::{WordMap, Words};
use crate::config::{Inclusion, Prefetch, Write};
use crate::counts::{LevelCounts, PointCounts, Requests, Traffic};
use crate::sets::{Meta, Sets};
use memtrail_model::Kind;
use std::collections::BTreeMap;

/// The program's access behind a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// To whom whatever happens is due.
    pub point: u32,
    /// Who owns the lines that come in.
    pub owner: u32,
    pub addr: u64,
    /// The bytes of it that this request touches: from here, so many.
    from: u64,
    size: u64,
}

impl Origin {
    pub fn of(point: u32, addr: u64, size: u32) -> Origin {
        Origin {
            point,
            owner: point,
            addr,
            from: addr,
            size: u64::from(size.max(1)),
        }
    }

    /// For a request that is made on nobody's demand.
    fn untouching(self, owner: u32) -> Origin {
        Origin { owner, size: 0, ..self }
    }

    /// Where what it touches overlaps with [start, start + length): how far from the start, and how
    /// long. Distances are modulo 2^64, as addresses are.
    fn overlap(&self, start: u64, length: u64) -> Option<(u64, u64)> {
        let ahead = self.from.wrapping_sub(start);
        if ahead < length {
            return (self.size > 0).then(|| (ahead, self.size.min(length - ahead)));
        }
        let behind = start.wrapping_sub(self.from);
        (behind < self.size).then(|| (0, (self.size - behind).min(length)))
    }

    /// The bytes it touches of a line, from the start of the line.
    fn bytes_in(&self, line: u64, shift: u32) -> Option<(u64, u64)> {
        self.overlap(line << shift, 1 << shift)
    }

    /// For a request of these bytes.
    fn within(self, start: u64, length: u64) -> Origin {
        let (ahead, size) = self.overlap(start, length).unwrap_or((0, 0));
        Origin {
            from: start.wrapping_add(ahead),
            size,
            ..self
        }
    }
}

/// Hits of a reference point that are not in the ledger yet: apart from its other counts, and
/// short, so that many fit into a cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hits {
    all: u32,
    /// Those that were spatial.
    spatial: u32,
}

impl Hits {
    /// No more than this are counted before they are entered in the ledger.
    const MOST: u64 = u32::MAX as u64;

    #[inline(always)]
    pub fn count(&mut self, spatial: bool) {
        self.all += 1;
        self.spatial += u32::from(spatial);
    }

    fn add_to(self, counts: &mut PointCounts) {
        counts.hits += u64::from(self.all);
        counts.spatial_hits += u64::from(self.spatial);
    }
}

/// A level's counts in the making.
#[derive(Clone, Debug)]
pub(super) struct LevelState {
    /// By point: hits that were counted in the shortest way, and are to be added to those of the
    /// ledger.
    pub hits: Vec<Hits>,
    /// How many there may be of them.
    hits_at_most: u64,
    pub ledger: Ledger,
}

/// What a level had counted at some time.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    points: Vec<PointCounts>,
    traffic: Traffic,
    evictors: Option<Words>,
}

impl Mark {
    pub fn leave_out_evictions(&mut self) {
        for counts in &mut self.points {
            (counts.evictions, counts.used_bytes, counts.writebacks) = (0, 0, 0);
        }
        self.traffic.writebacks = 0;
    }
}

/// What is counted less often.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    points: Vec<PointCounts>,
    pub traffic: Traffic,
    /// By owner and evictor, if wanted.
    evictors: Option<Words>,
    /// The same of lines that were missed later.
    premature: Words,
}

/// Two points in one word.
#[inline]
fn pair(owner: u32, by: u32) -> u64 {
    u64::from(owner) << 32 | u64::from(by)
}

/// Numbers by pairs of points.
fn by_points(pairs: impl Iterator<Item = (u64, u64)>) -> BTreeMap<(u32, u32), u64> {
    let points = |pair: u64| ((pair >> 32) as u32, pair as u32);
    pairs.map(|(pair, n)| (points(pair), n)).collect()
}

impl LevelState {
    pub fn new(evictors: bool) -> LevelState {
        let ledger = Ledger {
            points: Vec::new(),
            traffic: Traffic::default(),
            evictors: evictors.then(Words::default),
            premature: Words::default(),
        };
        LevelState {
            hits: Vec::new(),
            hits_at_most: 0,
            ledger,
        }
    }

    pub fn counts(&self, caches: u32) -> LevelCounts {
        let ledger = &self.ledger;
        let mut points = ledger.points.clone();
        points.resize(points.len().max(self.hits.len()), PointCounts::default());
        for (counts, hits) in points.iter_mut().zip(&self.hits) {
            hits.add_to(counts);
        }
        while points.last() == Some(&PointCounts::default()) {
            points.pop();
        }
        LevelCounts {
            points,
            traffic: ledger.traffic,
            evictors: by_points(ledger.evictors.iter().flat_map(Words::iter)),
            premature: by_points(ledger.premature.iter()),
            caches,
        }
    }

    /// So many requests may hit.
    #[inline]
    pub fn expect(&mut self, requests: usize) {
        self.hits_at_most += requests as u64;
        if self.hits_at_most > Hits::MOST {
            self.enter();
            self.hits_at_most = requests as u64;
        }
    }

    /// Enters all hits in the ledger.
    fn enter(&mut self) {
        for (point, hits) in self.hits.iter_mut().enumerate().filter(|(_, hits)| hits.all > 0) {
            std::mem::take(hits).add_to(self.ledger.point(point as u32));
        }
        self.hits_at_most = 0;
    }

    /// What has been counted so far, of one point.
    pub fn of_point(&self, point: u32) -> PointCounts {
        let at = point as usize;
        let mut counts = self.ledger.points.get(at).copied().unwrap_or_default();
        self.hits.get(at).copied().unwrap_or_default().add_to(&mut counts);
        counts
    }

    /// What has been counted so far, of so many points.
    pub fn mark(&self, points: &[u32]) -> Mark {
        Mark {
            points: points.iter().map(|&point| self.of_point(point)).collect(),
            traffic: self.ledger.traffic,
            evictors: self.ledger.evictors.clone(),
        }
    }

    /// Counts what was counted between two marks so many times more. No other points than these had
    /// to do with it.
    pub fn repeat(&mut self, points: &[u32], before: &Mark, after: &Mark, times: u64) {
        let ledger = &mut self.ledger;
        for (&point, (before, after)) in points.iter().zip(before.points.iter().zip(&after.points)) {
            *ledger.point(point) += (*after - *before) * times;
        }
        ledger.traffic += (after.traffic - before.traffic) * times;
        if let (Some(evictors), Some(before), Some(after)) = (&mut ledger.evictors, &before.evictors, &after.evictors) {
            for (pair, n) in after.iter() {
                let more = (n - before.get(pair)) * times;
                if more > 0 {
                    *evictors.at(pair) += more;
                }
            }
        }
    }

    /// Makes room for the hits of a point.
    #[inline]
    pub fn know(&mut self, point: u32) {
        if self.hits.len() <= point as usize {
            self.hits.resize(point as usize + 1, Hits::default());
        }
    }
}

#[inline(always)]
fn count_miss(counts: &mut PointCounts, class: Option<Class>) {
    counts.misses += 1;
    if let Some(class) = class {
        // Not by a jump: it could not be foreseen.
        counts.classes.compulsory += u64::from(class == Class::Compulsory);
        counts.classes.capacity += u64::from(class == Class::Capacity);
        counts.classes.conflict += u64::from(class == Class::Conflict);
    }
}

impl Ledger {
    /// It is wanted who evicts whom.
    pub fn has_evictors(&self) -> bool {
        self.evictors.is_some()
    }

    /// The counts of a point, made if it is new.
    #[inline(always)]
    fn point(&mut self, point: u32) -> &mut PointCounts {
        let at = point as usize;
        if self.points.len() <= at {
            return self.new_point(at);
        }
        &mut self.points[at]
    }

    #[cold]
    #[inline(never)]
    fn new_point(&mut self, at: usize) -> &mut PointCounts {
        self.points.resize(at + 1, PointCounts::default());
        &mut self.points[at]
    }

    /// The counter of a kind of request.
    #[inline(always)]
    pub fn requests(&mut self, kind: Kind) -> &mut Requests {
        let traffic = &mut self.traffic;
        // In the order of how many there are: a jump to one of four places would be foreseen less
        // often.
        if kind == Kind::Read {
            &mut traffic.reads
        } else if kind == Kind::Write {
            &mut traffic.writes
        } else if kind == Kind::Fetch {
            &mut traffic.fetches
        } else {
            &mut traffic.prefetches
        }
    }

    /// A demand access that missed.
    #[inline(always)]
    pub fn missed(&mut self, kind: Kind, class: Option<Class>, by: u32) {
        *self.requests(kind) += Requests::missed(1);
        count_miss(self.point(by), class);
    }

    /// Accesses of a kind that missed, and have no class.
    pub fn missed_some(&mut self, kind: Kind, by: u32, misses: u64) {
        *self.requests(kind) += Requests::missed(misses);
        self.point(by).misses += misses;
    }

    /// Accesses of a kind that hit.
    pub fn found(&mut self, kind: Kind, by: u32, hits: u64, spatial: u64) {
        self.requests(kind).requests += hits;
        let counts = self.point(by);
        counts.hits += hits;
        counts.spatial_hits += spatial;
    }

    /// A demand access finds a line: was it a prefetch that brought it in?
    #[inline(always)]
    pub fn find(&mut self, meta: &mut Meta, by: u32) {
        if meta.flags & PREFETCHED != 0 {
            meta.flags &= !PREFETCHED;
            self.point(by).prefetch_hits += 1;
        }
    }

    /// A line leaves this level, and is written back.
    pub fn wrote_back(&mut self, owner: u32) {
        self.traffic.writebacks += 1;
        self.point(owner).writebacks += 1;
    }

    /// A demand access misses a line: had it been there?
    #[inline(always)]
    pub fn missed_again(&mut self, gone: &mut Option<WordMap<u64>>, line: u64) {
        if let Some(pair) = forget(gone, line) {
            *self.premature.at(pair) += 1;
        }
    }

    /// Lines were evicted of which the same was known. Returns the counts of their owner.
    #[inline(always)]
    pub fn evicted(&mut self, traits: &Traits, old: &Meta, by: u32, times: u64) -> &mut PointCounts {
        if let Some(evictors) = &mut self.evictors {
            *evictors.at(pair(old.owner, by)) += times;
        }
        self.gave_up(traits, old, times)
    }

    /// A line was evicted that these had used besides its owner.
    fn charge(&mut self, users: &Users, by: u32) {
        if let Some(evictors) = &mut self.evictors {
            users.iter().for_each(|user| *evictors.at(pair(user, by)) += 1);
        }
    }

    /// The same, whoever evicted them.
    #[inline(always)]
    fn gave_up(&mut self, traits: &Traits, old: &Meta, times: u64) -> &mut PointCounts {
        let counts = self.point(old.owner);
        counts.evictions += times;
        counts.used_bytes += traits.used_bytes(old) * times;
        counts
    }

    /// The same of lines that others have replaced: they are written back if they are dirty.
    #[inline(always)]
    pub fn replaced(&mut self, traits: &Traits, old: &Meta, by: u32, times: u64) {
        // Without a branch, which could not be foreseen.
        let written_back = times * u64::from(old.flags & DIRTY != 0);
        self.traffic.writebacks += written_back;
        self.evicted(traits, old, by, times).writebacks += written_back;
    }

    /// Counts what a cache has missed. `classes`: and why.
    pub fn settle(&mut self, traits: &Traits, gone: &mut Option<WordMap<u64>>, classes: bool, log: &[Missed]) {
        if classes || gone.is_some() || self.evictors.is_some() {
            self.settle_all::<true>(traits, gone, log);
        } else {
            self.settle_all::<false>(traits, gone, log);
        }
    }

    /// `MORE`: somebody wants to know why, and by whom.
    #[inline(never)]
    fn settle_all<const MORE: bool>(&mut self, traits: &Traits, gone: &mut Option<WordMap<u64>>, log: &[Missed]) {
        let (mut asked_for, mut writes, mut written_back) = (0, 0, 0);
        for missed in log {
            if missed.is_asked_for {
                asked_for += 1;
                writes += u64::from(missed.is_write);
                count_miss(self.point(missed.point), missed.class.filter(|_| MORE));
                if MORE {
                    self.missed_again(gone, missed.line);
                }
            }
            if MORE {
                forget(gone, missed.line);
            }
            if let Some((line, old)) = missed.evicted() {
                // Without a branch, which could not be foreseen.
                let is_dirty = u64::from(old.flags & DIRTY != 0);
                written_back += is_dirty;
                let counts = if MORE {
                    lose(gone, line, old, missed.point);
                    self.evicted(traits, old, missed.point, 1)
                } else {
                    self.gave_up(traits, old, 1)
                };
                counts.writebacks += is_dirty;
            }
        }
        self.traffic.writebacks += written_back;
        self.traffic.writes += Requests::missed(writes);
        self.traffic.reads += Requests::missed(asked_for - writes);
    }
}

/// A line is here again. Returns who had brought it in and who took it away, if that is remembered.
#[inline(always)]
pub(super) fn forget(gone: &mut Option<WordMap<u64>>, line: u64) -> Option<u64> {
    #[inline(never)]
    fn remove(gone: &mut WordMap<u64>, line: u64) -> Option<u64> {
        gone.remove(&line)
    }
    gone.as_mut().and_then(|gone| remove(gone, line))
}

/// Remembers that a line was evicted.
#[inline(always)]
pub(super) fn lose(gone: &mut Option<WordMap<u64>>, line: u64, old: &Meta, by: u32) {
    #[inline(never)]
    fn insert(gone: &mut WordMap<u64>, line: u64, pair: u64) {
        gone.insert(line, pair);
    }
    if let Some(gone) = gone {
        insert(gone, line, pair(old.owner, by));
    }
}

/// What looking a line up for a request led to.
#[derive(Clone, Copy, Debug, Default)]
struct Looked {
    miss: bool,
    spatial: bool,
    /// Found for the first time since a prefetch brought it in.
    prefetched: bool,
    class: Option<Class>,
}

/// The reference points of the accesses since the outermost loop began that is watched.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub points: Vec<u32>,
    /// By point.
    seen: Vec<bool>,
    /// Loops that are watched.
    loops: u32,
}

impl Noted {
    pub fn begin(&mut self) {
        if self.loops == 0 {
            self.points
                .drain(..)
                .for_each(|point| self.seen[point as usize] = false);
        }
        self.loops += 1;
    }

    pub fn end(&mut self) {
        self.loops -= 1;
    }

    pub fn wants(&self) -> bool {
        self.loops > 0
    }

    #[inline]
    pub fn note(&mut self, point: u32) {
        let at = point as usize;
        if self.seen.len() <= at {
            self.seen.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.seen[at], true) {
            self.points.push(point);
        }
    }
}

#[derive(Debug)]
pub(super) struct Machine {
    pub caches: Vec<Cache>,
    pub levels: Vec<LevelState>,
    /// The line that an exclusive cache below has just given up to the request at hand.
    pub moved: Option<Meta>,
    /// Its users.
    pub moved_users: Users,
    /// What looking for repetitions may still cost, in accesses.
    pub credit: u64,
    /// How many lines for each of the caches' a loop brings before there is nothing in them that
    /// was there before it, by experience.
    pub forget: u64,
    pub noted: Noted,
    /// A loop that goes by lines.
    pub steps: Steps,
    /// Between the levels of the short way.
    pub logs: (Log, Log),
    /// Accesses that were counted without being simulated.
    pub skipped: u64,
    /// What left the last level since it was asked for, if that is wanted.
    pub memory: Option<Vec<MemoryRequest>>,
}

/// A request to memory: of a line that no level had, or of what is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRequest {
    /// As the caches have it: see `docs/simulation.md` for where processes lie.
    pub addr: u64,
    pub bytes: u64,
    pub write: bool,
    /// The reference point that asked for it; of a write-back, the one that brought the line in.
    pub point: u32,
}

/// The lines of a range of bytes, each with the part of the range in it. Addresses wrap around.
fn lines(addr: u64, size: u64, shift: u32) -> impl Iterator<Item = (u64, u64, u64)> {
    let mask = (1u64 << shift) - 1;
    let (mut addr, mut left) = (addr, size);
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let len = left.min(mask + 1 - (addr & mask));
        let part = (addr >> shift, addr, len);
        addr = addr.wrapping_add(len);
        left -= len;
        Some(part)
    })
}

impl Machine {
    /// A request of a range of bytes at a cache.
    pub fn access(&mut self, at: usize, kind: Kind, addr: u64, size: u64, origin: &Origin) {
        let traits = self.caches[at].traits;
        let mut whole = Looked::default();
        for (line, addr, len) in lines(addr, size, traits.shift) {
            let looked = self.look(at, kind, line, (addr, len), origin);
            if kind == Kind::Prefetch {
                let prefetches = &mut self.levels[self.caches[at].level].ledger.traffic.prefetches;
                prefetches.requests += 1;
                prefetches.misses += u64::from(looked.miss);
            } else if matches!(traits.prefetch, Prefetch::Next(_)) && (looked.miss || looked.prefetched) {
                self.caches[at].leads.push(line);
            }
            whole.miss |= looked.miss;
            whole.spatial |= looked.spatial;
            whole.prefetched |= looked.prefetched;
            whole.class = whole.class.or(looked.class);
        }
        if kind != Kind::Prefetch {
            self.count(at, kind, whole, origin.point);
            self.prefetch(at, origin);
        }
    }

    fn count(&mut self, at: usize, kind: Kind, whole: Looked, by: u32) {
        let level = &mut self.levels[self.caches[at].level];
        level.know(by);
        if whole.miss {
            level.ledger.missed(kind, whole.class, by);
        } else {
            level.ledger.requests(kind).requests += 1;
            let counts = level.ledger.point(by);
            counts.hits += 1;
            counts.spatial_hits += u64::from(whole.spatial);
            counts.prefetch_hits += u64::from(whole.prefetched);
        }
    }

    /// Looks one line up for a request; `part` is what the request wants of it.
    fn look(&mut self, at: usize, kind: Kind, line: u64, part: (u64, u64), origin: &Origin) -> Looked {
        let cache = &mut self.caches[at];
        let traits = cache.traits;
        let places = kind != Kind::Write || !traits.passes_writes();
        match cache.sets.look_up(line) {
            Some(slot) => {
                if let Some(shadow) = &mut cache.shadow {
                    shadow.hit(slot, places);
                }
                let looked = Machine::found(cache, kind, line, slot, origin);
                match (kind, traits.write) {
                    (Kind::Write, Write::Back) => cache.sets.meta(slot).flags |= DIRTY,
                    (Kind::Write, Write::Through) => self.pass_on(at, part, origin),
                    _ if traits.inclusion == Inclusion::Exclusive && kind != Kind::Write => {
                        cache.sets.remove(line);
                        self.moved = Some(*cache.sets.meta(slot));
                        self.moved_users = cache.users.replace(slot, Users::default());
                    }
                    _ => {}
                }
                looked
            }
            None => {
                let class = cache.shadow.as_mut().map(|shadow| shadow.miss(line, places));
                if kind != Kind::Prefetch {
                    self.levels[cache.level].ledger.missed_again(&mut cache.gone, line);
                }
                if places {
                    self.bring(at, kind, line, part, origin);
                } else {
                    self.pass_on(at, part, origin);
                }
                Looked {
                    miss: true,
                    class,
                    ..Looked::default()
                }
            }
        }
    }

    /// A line that is there is asked for.
    #[inline]
    fn found(cache: &mut Cache, kind: Kind, line: u64, slot: u32, origin: &Origin) -> Looked {
        if kind == Kind::Prefetch {
            return Looked::default();
        }
        let bytes = origin.bytes_in(line, cache.traits.shift);
        let spatial = bytes.is_some_and(|bytes| cache.touch(slot, bytes));
        let meta = cache.sets.meta(slot);
        let prefetched = meta.flags & PREFETCHED != 0;
        meta.flags &= !PREFETCHED;
        cache.users.add(slot, meta.owner, origin.point);
        Looked {
            spatial,
            prefetched,
            ..Looked::default()
        }
    }

    /// Brings a line in that is not there: asks for it, places it, and does what the request wants
    /// with it.
    fn bring(&mut self, at: usize, kind: Kind, line: u64, part: (u64, u64), origin: &Origin) {
        let traits = self.caches[at].traits;
        let asked = if kind == Kind::Write { Kind::Read } else { kind };
        self.ask(at, asked, line, origin);
        if traits.inclusion == Inclusion::Exclusive {
            // It goes up, as it came or as it was found further out.
            return;
        }
        let (mut moved, mut users) = self.take_moved(origin.owner);
        if kind == Kind::Prefetch {
            moved.flags |= PREFETCHED;
            self.caches[at].prefetched = true;
        } else {
            users.add(moved.owner, origin.point);
        }
        if kind == Kind::Write && traits.write == Write::Back {
            moved.flags |= DIRTY;
        }
        let bytes = if kind == Kind::Prefetch {
            None
        } else {
            origin.bytes_in(line, traits.shift)
        };
        self.place(at, line, (moved, users), bytes, origin);
        if kind == Kind::Write && traits.write == Write::Through {
            self.pass_on(at, part, origin);
        }
    }

    /// What is known of a line that was asked for, and its users: as an exclusive cache gave it up,
    /// or else as it comes from memory.
    fn take_moved(&mut self, owner: u32) -> (Meta, Users) {
        let users = std::mem::take(&mut self.moved_users);
        (self.moved.take().unwrap_or(Meta::new(owner)), users)
    }

    /// Asks the next level for a line.
    fn ask(&mut self, at: usize, kind: Kind, line: u64, origin: &Origin) {
        let cache = &self.caches[at];
        if let Some(below) = cache.below {
            let (addr, length) = (line << cache.traits.shift, cache.traits.line);
            self.access(below, kind, addr, length, &origin.within(addr, length));
        } else {
            let (addr, length) = (line << cache.traits.shift, cache.traits.line);
            self.ask_memory(addr, length, false, origin.point);
        }
    }

    /// A request leaves the last level.
    #[inline]
    fn ask_memory(&mut self, addr: u64, bytes: u64, write: bool, point: u32) {
        if let Some(requests) = &mut self.memory {
            requests.push(MemoryRequest {
                addr,
                bytes,
                write,
                point,
            });
        }
    }

    /// Sends written bytes on to the next level.
    fn pass_on(&mut self, at: usize, (addr, len): (u64, u64), origin: &Origin) {
        if let Some(below) = self.caches[at].below {
            self.access(below, Kind::Write, addr, len, &origin.within(addr, len));
        } else {
            self.ask_memory(addr, len, true, origin.point);
        }
    }

    /// Puts a line into a cache, touches bytes of it, and deals with the one that makes room.
    fn place(
        &mut self,
        at: usize,
        line: u64,
        (moved, users): (Meta, Users),
        bytes: Option<(u64, u64)>,
        origin: &Origin,
    ) {
        let cache = &mut self.caches[at];
        let placed = cache.sets.place(line, moved);
        let evicted_users = cache.users.replace(placed.slot, users);
        forget(&mut cache.gone, line);
        if let Some(shadow) = &mut cache.shadow {
            shadow.placed(placed.slot, placed.evicted.is_some());
        }
        if let Some(bytes) = bytes {
            cache.touch(placed.slot, bytes);
        }
        if let Some((line, old)) = placed.evicted {
            self.evicted(at, line, (old, evicted_users), origin);
        }
    }

    /// A line has made room.
    fn evicted(&mut self, at: usize, line: u64, (mut old, users): (Meta, Users), origin: &Origin) {
        let cache = &mut self.caches[at];
        let (traits, below) = (cache.traits, cache.below);
        lose(&mut cache.gone, line, &old, origin.point);
        let ledger = &mut self.levels[cache.level].ledger;
        ledger.evicted(&traits, &old, origin.point, 1);
        ledger.charge(&users, origin.point);
        let addr = line << traits.shift;
        if traits.inclusion == Inclusion::Inclusive && self.invalidate(at, addr, traits.line, origin) {
            old.flags |= DIRTY;
        }
        let exclusive = below.filter(|&below| self.caches[below].traits.inclusion == Inclusion::Exclusive);
        if let Some(below) = exclusive {
            self.take_in(below, line, (old, users), origin);
        } else if old.flags & DIRTY != 0 && traits.write != Write::None {
            self.levels[self.caches[at].level].ledger.wrote_back(old.owner);
            if let Some(below) = below {
                let origin = origin.untouching(old.owner);
                self.write_back(below, addr, traits.line, &origin);
            } else {
                self.ask_memory(addr, traits.line, true, old.owner);
            }
        }
    }

    /// An exclusive cache gets what the level above it has evicted.
    fn take_in(&mut self, at: usize, line: u64, (old, users): (Meta, Users), origin: &Origin) {
        let cache = &mut self.caches[at];
        match cache.sets.look_up(line) {
            // From another cache above it.
            Some(slot) => {
                let meta = cache.sets.meta(slot);
                meta.flags |= old.flags;
                meta.touched |= old.touched;
                for user in users.iter().chain([old.owner]) {
                    cache.users.add(slot, meta.owner, user);
                }
            }
            None => self.place(at, line, (old, users), None, origin),
        }
    }

    /// Takes a range of bytes out of all caches above one. Returns whether a line of it was dirty.
    fn invalidate(&mut self, at: usize, addr: u64, size: u64, origin: &Origin) -> bool {
        let mut dirty = false;
        for i in 0..self.caches[at].above.len() {
            let above = self.caches[at].above[i];
            for (line, _, _) in lines(addr, size, self.caches[above].traits.shift) {
                let cache = &mut self.caches[above];
                if let Some(slot) = cache.sets.remove(line) {
                    let old = *cache.sets.meta(slot);
                    if let Some(shadow) = &mut cache.shadow {
                        shadow.removed(slot);
                    }
                    let level = &mut self.levels[cache.level].ledger;
                    level.traffic.invalidations += 1;
                    level.evicted(&cache.traits, &old, origin.point, 1);
                    level.charge(&cache.users.replace(slot, Users::default()), origin.point);
                    lose(&mut cache.gone, line, &old, origin.point);
                    dirty |= old.flags & DIRTY != 0;
                }
            }
            dirty |= self.invalidate(above, addr, size, origin);
        }
        dirty
    }

    /// A write-back arrives at a cache.
    fn write_back(&mut self, at: usize, addr: u64, size: u64, origin: &Origin) {
        let cache = &self.caches[at];
        let (traits, level) = (cache.traits, cache.level);
        self.levels[level].ledger.traffic.writebacks_received += 1;
        if traits.write == Write::None {
            return;
        }
        for (line, addr, len) in lines(addr, size, traits.shift) {
            self.write_back_line(at, line, (addr, len), origin);
        }
    }

    fn write_back_line(&mut self, at: usize, line: u64, (addr, len): (u64, u64), origin: &Origin) {
        let cache = &mut self.caches[at];
        let traits = cache.traits;
        let places = !traits.passes_writes();
        let dirty = traits.dirty;
        let mut goes_on = traits.write == Write::Through;
        if let Some(slot) = cache.sets.look_up(line) {
            if let Some(shadow) = &mut cache.shadow {
                shadow.hit(slot, places);
            }
            cache.sets.meta(slot).flags |= dirty;
        } else {
            if let Some(shadow) = &mut cache.shadow {
                shadow.miss(line, places);
            }
            if places {
                if len < traits.line {
                    self.ask(at, Kind::Prefetch, line, origin);
                }
                let (mut moved, users) = self.take_moved(origin.owner);
                moved.flags |= dirty;
                self.place(at, line, (moved, users), None, origin);
            } else {
                goes_on = true;
            }
        }
        if goes_on {
            self.levels[self.caches[at].level].ledger.wrote_back(origin.owner);
            if let Some(below) = self.caches[at].below {
                self.write_back(below, addr, len, origin);
            } else {
                self.ask_memory(addr, len, true, origin.owner);
            }
        }
    }

    /// Writes back all that is dirty in a cache, in the order of addresses; it stays there.
    pub fn flush(&mut self, at: usize) {
        let cache = &self.caches[at];
        let traits = cache.traits;
        let slots = 0..cache.lines as u32;
        let mut lines: Vec<u64> = slots.filter_map(|slot| cache.sets.line_in(slot)).collect();
        lines.sort_unstable();
        for line in lines {
            // One written back before may have taken it away.
            let cache = &mut self.caches[at];
            let Some(meta) = cache.sets.find(line).map(|slot| cache.sets.meta(slot)) else {
                continue;
            };
            if meta.flags & DIRTY == 0 || traits.write == Write::None {
                continue;
            }
            meta.flags &= !DIRTY;
            let (owner, below) = (meta.owner, cache.below);
            self.levels[cache.level].ledger.wrote_back(owner);
            if let Some(below) = below {
                let addr = line << traits.shift;
                let origin = Origin::of(owner, addr, 1).untouching(owner);
                self.write_back(below, addr, traits.line, &origin);
            } else {
                self.ask_memory(line << traits.shift, traits.line, true, owner);
            }
        }
    }

    /// What a cache's prefetcher makes of a demand access.
    #[inline]
    fn prefetch(&mut self, at: usize, origin: &Origin) {
        match self.caches[at].traits.prefetch {
            Prefetch::None => {}
            Prefetch::Next(ahead) => self.prefetch_next(at, ahead, origin),
            Prefetch::Stride(ahead) => self.prefetch_stride(at, ahead, origin),
        }
    }

    fn prefetch_next(&mut self, at: usize, ahead: u32, origin: &Origin) {
        let mut leads = std::mem::take(&mut self.caches[at].leads);
        let last = u64::MAX >> self.caches[at].traits.shift;
        for lead in leads.drain(..) {
            for k in 1..=u64::from(ahead) {
                self.prefetch_line(at, (lead + k) & last, origin);
            }
        }
        self.caches[at].leads = leads;
    }

    fn prefetch_stride(&mut self, at: usize, ahead: u32, origin: &Origin) {
        let cache = &mut self.caches[at];
        let shift = cache.traits.shift;
        let by = origin.point as usize;
        if cache.strides.len() <= by {
            cache.strides.resize(by + 1, Default::default());
        }
        let Some(stride) = cache.strides[by].train(origin.addr) else {
            return;
        };
        for k in 1..=u64::from(ahead) {
            let line = origin.addr.wrapping_add(stride.wrapping_mul(k)) >> shift;
            if line != origin.addr >> shift {
                self.prefetch_line(at, line, origin);
            }
        }
    }

    fn prefetch_line(&mut self, at: usize, line: u64, origin: &Origin) {
        let cache = &mut self.caches[at];
        if cache.sets.find(line).is_some() {
            return;
        }
        if let Some(shadow) = &mut cache.shadow {
            shadow.miss(line, true);
        }
        let prefetches = &mut self.levels[cache.level].ledger.traffic.prefetches;
        prefetches.requests += 1;
        prefetches.misses += 1;
        let origin = origin.untouching(origin.point);
        self.bring(at, Kind::Prefetch, line, (line, 0), &origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_hits_than_fit_into_half_a_word_are_counted() {
        let mut level = LevelState::new(false);
        level.know(1);
        for _ in 0..3 {
            // As if there had been so many, all of them spatial.
            level.expect(u32::MAX as usize);
            level.hits[1].all += u32::MAX;
            level.hits[1].spatial += u32::MAX;
        }
        level.expect(2);
        level.hits[1].count(false);
        level.hits[1].count(true);
        let all = level.counts(1).total();
        assert_eq!((all.hits, all.spatial_hits), (3 * Hits::MOST + 2, 3 * Hits::MOST + 1));
    }
}
