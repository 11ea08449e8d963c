//! A textbook simulator, written from `docs/simulation.md` and nothing else.
//!
//! **Problem.** The simulator of `memtrail-simulate` is fast, and so not obviously right. This one
//! is obviously right, and slow: every cache is a list of sets, every set a list of ways, every
//! line knows each of its bytes, every use has a time; a request is a function call to the next
//! level.
//!
//! **Invariant: a rule of the page stands here once.** The parts are called as the page calls them:
//! [`Naive::request`] is "One access", [`Naive::evicted`] is what an evicted line requires,
//! [`Naive::write_back`] a write-back that arrives, [`Naive::run_prefetcher`] a level's own
//! prefetcher.
//!
//! The sequences computed by hand in `crates/simulate/tests/by_hand.rs` hold it to the page.
mod bytes;
mod cache;
pub mod coherence;

use bytes::Bytes;
use cache::{Cache, Class, Line, Stride};
use memtrail_model::{Access, Kind};
use memtrail_simulate::config::{Holds, Inclusion, Prefetch, Shared, Write};
use memtrail_simulate::{Hierarchy, Level, LevelCounts, PointCounts};
use std::collections::{BTreeMap, HashMap};

/// The access of the program that everything else follows from.
#[derive(Clone, Copy)]
struct Cause {
    core: u32,
    point: u32,
    address: u64,
}

/// What a level is asked for.
#[derive(Clone, Copy)]
struct Request {
    kind: Kind,
    bytes: Bytes,
    /// The bytes of the program's access in it.
    touched: Bytes,
    /// Of lines that are placed for it.
    owner: u32,
}

struct NaiveLevel {
    level: Level,
    /// By number; made when needed.
    caches: BTreeMap<u32, Cache>,
    counts: LevelCounts,
}

impl NaiveLevel {
    fn line(&self) -> u64 {
        u64::from(self.level.line)
    }

    fn exclusive(&self) -> bool {
        self.level.inclusion == Inclusion::Exclusive
    }

    fn point(&mut self, point: u32) -> &mut PointCounts {
        let at = point as usize;
        if self.counts.points.len() <= at {
            self.counts.points.resize(at + 1, PointCounts::default());
        }
        &mut self.counts.points[at]
    }
}

pub struct Naive {
    levels: Vec<NaiveLevel>,
    cores: Option<u32>,
    seed: u64,
    evictors: bool,
    classes: bool,
    pub premature: bool,
    /// An eviction is charged to all users of the line.
    pub charge_all: bool,
    spaces: HashMap<u32, u32>,
}

impl Naive {
    pub fn new(hierarchy: &Hierarchy, evictors: bool, classes: bool) -> Naive {
        hierarchy.check().expect("a hierarchy that makes sense");
        let level = |level: &Level| NaiveLevel {
            level: level.clone(),
            caches: BTreeMap::new(),
            counts: LevelCounts::default(),
        };
        Naive {
            levels: hierarchy.levels.iter().map(level).collect(),
            cores: hierarchy.cores,
            seed: hierarchy.seed,
            evictors,
            classes,
            premature: false,
            charge_all: false,
            spaces: HashMap::new(),
        }
    }

    /// Writes back all that is dirty, from the first level outwards.
    pub fn flush(&mut self) {
        for at in 0..self.levels.len() {
            let numbers: Vec<u32> = self.levels[at].caches.keys().copied().collect();
            for number in numbers {
                let core = self.first_core(at, number);
                for line in self.cache(at, core).lines() {
                    let Some(owner) = self.cache(at, core).clean(line) else {
                        continue;
                    };
                    if self.levels[at].level.write == Write::None {
                        continue;
                    }
                    let cause = Cause {
                        core,
                        point: owner,
                        address: line * self.levels[at].line(),
                    };
                    let bytes = Bytes::line(line, self.levels[at].line());
                    self.send_back(at, cause, bytes, owner);
                }
            }
        }
    }

    /// The serial number of the thread's process.
    pub fn set_space(&mut self, thread: u32, space: u32) {
        self.spaces.insert(thread, space);
    }

    pub fn counts(&self) -> Vec<LevelCounts> {
        let counts = |level: &NaiveLevel| LevelCounts {
            caches: level.caches.len() as u32,
            ..level.counts.clone()
        };
        self.levels.iter().map(counts).collect()
    }

    pub fn access(&mut self, access: &Access) {
        let (thread, point) = (access.thread.0, access.point.0);
        let space = self.spaces.get(&thread).copied().unwrap_or(0);
        let address = if access.addr < 1 << 47 {
            u64::from(space).wrapping_mul(1 << 48).wrapping_add(access.addr)
        } else {
            access.addr
        };
        let bytes = Bytes {
            start: address,
            len: u64::from(access.size.max(1)),
        };
        let cause = Cause {
            core: self.cores.map_or(thread, |cores| thread % cores),
            point,
            address,
        };
        let touched = match access.kind {
            Kind::Prefetch => Bytes::none(),
            _ => bytes,
        };
        let request = Request {
            kind: access.kind,
            bytes,
            touched,
            owner: point,
        };
        let holds = |level: &NaiveLevel| match access.kind {
            Kind::Fetch => level.level.holds.instructions(),
            _ => level.level.holds.data(),
        };
        self.request(self.levels.iter().position(holds), cause, request);
    }

    /// The next level: the first further out that holds what this one holds. Beyond the last one is
    /// memory.
    fn next(&self, at: usize) -> Option<usize> {
        let (here, further) = (self.levels[at].level.holds, at + 1..self.levels.len());
        let meets = |holds: Holds| here.data() && holds.data() || here.instructions() && holds.instructions();
        further.into_iter().find(|&other| meets(self.levels[other].level.holds))
    }

    /// The number of the cache that serves the core.
    fn number(&self, at: usize, core: u32) -> u32 {
        match self.levels[at].level.shared {
            Shared::By(cores) => core / cores,
            Shared::All => 0,
        }
    }

    fn cache(&mut self, at: usize, core: u32) -> &mut Cache {
        let (number, seed) = (self.number(at, core), self.seed);
        let NaiveLevel { level, caches, .. } = &mut self.levels[at];
        caches.entry(number).or_insert_with(|| Cache::new(level, seed))
    }

    /// A read, write, fetch or prefetch arrives at a level. If the level is exclusive and has the
    /// line, the line moves up: it is returned.
    fn request(&mut self, at: Option<usize>, cause: Cause, request: Request) -> Option<Line> {
        let at = at?;
        let line = self.levels[at].line();
        let demand = request.kind != Kind::Prefetch;
        let mut moves_up = None;
        let (mut spatial, mut prefetch_hit) = (false, false);
        let mut missed: Option<Option<Class>> = None;
        // Lines that a next-line prefetcher goes by.
        let mut fresh = Vec::new();
        for number in request.bytes.lines(line) {
            let class = self.classify(at, cause, number, self.request_places(at, request.kind));
            let there = self.cache(at, cause.core).find(number).is_some();
            if demand && there {
                let found = self.demand_finds(at, cause, number, request.touched);
                spatial |= found.spatial;
                prefetch_hit |= found.marked;
                if found.marked {
                    fresh.push(number);
                }
            }
            if !demand {
                self.levels[at].counts.traffic.prefetches.requests += 1;
                self.levels[at].counts.traffic.prefetches.misses += u64::from(!there);
            }
            if !there && demand {
                self.miss_again(at, cause, number);
            }
            if !there {
                missed = missed.or(Some(class));
                fresh.push(number);
            }
            moves_up = match (self.is_write(at, request.kind), there) {
                (true, true) => self.write_hit(at, cause, number, request),
                (true, false) => self.write_miss(at, cause, number, request),
                (false, true) if self.levels[at].exclusive() => self.cache(at, cause.core).remove(number),
                (false, true) => None,
                (false, false) => self.bring_in(at, cause, number, request),
            };
        }
        if demand {
            self.count_demand(at, cause.point, request.kind, missed, spatial, prefetch_hit);
            self.run_prefetcher(at, cause, &fresh);
        }
        moves_up
    }

    /// Whether a request is a write to this level.
    fn is_write(&self, at: usize, kind: Kind) -> bool {
        kind == Kind::Write && self.levels[at].level.write != Write::None
    }

    /// Whether such a request leaves a line here that was not there.
    fn request_places(&self, at: usize, kind: Kind) -> bool {
        self.levels[at].level.allocate || !self.is_write(at, kind)
    }

    /// A demand access misses a line: an eviction of it was premature.
    fn miss_again(&mut self, at: usize, cause: Cause, number: u64) {
        let gone = self.cache(at, cause.core).gone.remove(&number);
        if let Some(pair) = gone.filter(|_| self.premature) {
            *self.levels[at].counts.premature.entry(pair).or_default() += 1;
        }
    }

    fn classify(&mut self, at: usize, cause: Cause, number: u64, places: bool) -> Option<Class> {
        let asked_for = self.classes && !self.levels[at].exclusive();
        asked_for.then(|| self.cache(at, cause.core).classify(number, places))
    }

    fn count_demand(
        &mut self,
        at: usize,
        point: u32,
        kind: Kind,
        missed: Option<Option<Class>>,
        spatial: bool,
        prefetch_hit: bool,
    ) {
        let level = &mut self.levels[at];
        let requests = match kind {
            Kind::Read => &mut level.counts.traffic.reads,
            Kind::Write => &mut level.counts.traffic.writes,
            Kind::Fetch => &mut level.counts.traffic.fetches,
            Kind::Prefetch => unreachable!("not a demand access"),
        };
        requests.requests += 1;
        requests.misses += u64::from(missed.is_some());
        let counts = level.point(point);
        match missed {
            None => {
                counts.hits += 1;
                counts.spatial_hits += u64::from(spatial);
                counts.prefetch_hits += u64::from(prefetch_hit);
            }
            Some(class) => {
                counts.misses += 1;
                match class {
                    None => {}
                    Some(Class::Compulsory) => counts.classes.compulsory += 1,
                    Some(Class::Capacity) => counts.classes.capacity += 1,
                    Some(Class::Conflict) => counts.classes.conflict += 1,
                }
            }
        }
    }

    /// Touches bytes of a line that a demand access has found.
    fn demand_finds(&mut self, at: usize, cause: Cause, number: u64, touched: Bytes) -> Found {
        let line = self.levels[at].line();
        let found = self.cache(at, cause.core).find(number).expect("a line that is there");
        let before = found.used_units();
        touch(found, touched, line);
        found.users.insert(cause.point);
        Found {
            spatial: found.used_units() > before,
            marked: std::mem::take(&mut found.marked),
        }
    }

    /// A line is missing: it is asked for further on and placed. An exclusive level hands it up
    /// instead.
    fn bring_in(&mut self, at: usize, cause: Cause, number: u64, request: Request) -> Option<Line> {
        let line = self.levels[at].line();
        let touched = request.touched.within(number, line);
        let asked = Request {
            kind: if request.kind == Kind::Write {
                Kind::Read
            } else {
                request.kind
            },
            bytes: Bytes::line(number, line),
            touched,
            owner: request.owner,
        };
        let moved = self.request(self.next(at), cause, asked);
        if self.levels[at].exclusive() {
            return moved;
        }
        let mut placed = moved.unwrap_or_else(|| self.new_line(at, number, request.owner));
        placed.marked = request.kind == Kind::Prefetch;
        if request.kind != Kind::Prefetch {
            placed.users.insert(cause.point);
        }
        placed.dirty |= self.is_write(at, request.kind) && self.levels[at].level.write == Write::Back;
        touch(&mut placed, touched, line);
        self.place(at, cause, placed);
        None
    }

    /// A clean line of which nothing is touched.
    fn new_line(&self, at: usize, number: u64, owner: u32) -> Line {
        Line {
            number,
            dirty: false,
            marked: false,
            owner,
            users: [owner].into(),
            touched: vec![false; self.levels[at].level.line.min(UNITS) as usize],
        }
    }

    fn place(&mut self, at: usize, cause: Cause, line: Line) {
        let cache = self.cache(at, cause.core);
        cache.gone.remove(&line.number);
        if let Some(evicted) = cache.place(line) {
            self.evicted(at, cause, evicted);
        }
    }

    fn write_hit(&mut self, at: usize, cause: Cause, number: u64, request: Request) -> Option<Line> {
        if self.levels[at].level.write == Write::Through {
            return self.write_on(at, cause, number, request);
        }
        self.cache(at, cause.core).find(number).expect("a hit").dirty = true;
        None
    }

    fn write_miss(&mut self, at: usize, cause: Cause, number: u64, request: Request) -> Option<Line> {
        let NaiveLevel { level, .. } = &self.levels[at];
        let (write, places) = (level.write, level.allocate && level.inclusion != Inclusion::Exclusive);
        if places {
            self.bring_in(at, cause, number, request);
        }
        if !places || write == Write::Through {
            self.write_on(at, cause, number, request);
        }
        None
    }

    /// The bytes that lie in this line go on to the next level as a write.
    fn write_on(&mut self, at: usize, cause: Cause, number: u64, request: Request) -> Option<Line> {
        let line = self.levels[at].line();
        let part = Request {
            bytes: request.bytes.within(number, line),
            touched: request.touched.within(number, line),
            ..request
        };
        self.request(self.next(at), cause, part)
    }

    /// Counts a line that had to make room.
    fn count_eviction(&mut self, at: usize, cause: Cause, line: &Line) {
        let (with_evictors, charge_all) = (self.evictors, self.charge_all);
        let level = &mut self.levels[at];
        let unit = level.line().div_ceil(u64::from(UNITS));
        let owner = level.point(line.owner);
        owner.evictions += 1;
        owner.used_bytes += line.used_units() * unit;
        let charged = line.users.iter().filter(|&&user| charge_all || user == line.owner);
        for &user in charged.filter(|_| with_evictors) {
            *level.counts.evictors.entry((user, cause.point)).or_default() += 1;
        }
    }

    /// What an evicted line requires.
    fn evicted(&mut self, at: usize, cause: Cause, mut line: Line) {
        self.count_eviction(at, cause, &line);
        let gone = &mut self.cache(at, cause.core).gone;
        gone.insert(line.number, (line.owner, cause.point));
        let bytes = Bytes::line(line.number, self.levels[at].line());
        if self.levels[at].level.inclusion == Inclusion::Inclusive {
            line.dirty |= self.invalidate_above(at, self.number(at, cause.core), cause, bytes);
        }
        match self.next(at) {
            Some(next) if self.levels[next].exclusive() => self.move_out(next, cause, line),
            _ if line.dirty && self.levels[at].level.write != Write::None => {
                self.send_back(at, cause, bytes, line.owner);
            }
            _ => {}
        }
    }

    /// Invalidates all lines above a cache that overlap the bytes; returns whether one was dirty.
    fn invalidate_above(&mut self, at: usize, number: u32, cause: Cause, bytes: Bytes) -> bool {
        let mut dirty = false;
        for above in 0..at {
            if self.next(above) != Some(at) {
                continue;
            }
            let caches: Vec<u32> = self.levels[above].caches.keys().copied().collect();
            for upper in caches {
                if self.number(at, self.first_core(above, upper)) != number {
                    continue;
                }
                for n in bytes.lines(self.levels[above].line()) {
                    let cache = self.levels[above].caches.get_mut(&upper).expect("it is listed");
                    if let Some(line) = cache.remove(n) {
                        cache.gone.insert(n, (line.owner, cause.point));
                        self.count_eviction(above, cause, &line);
                        self.levels[above].counts.traffic.invalidations += 1;
                        dirty |= line.dirty;
                    }
                }
                dirty |= self.invalidate_above(above, upper, cause, bytes);
            }
        }
        dirty
    }

    /// One of the cores that a cache serves.
    fn first_core(&self, at: usize, number: u32) -> u32 {
        match self.levels[at].level.shared {
            Shared::By(cores) => number * cores,
            Shared::All => 0,
        }
    }

    /// A line that the level above has evicted comes to an exclusive level.
    fn move_out(&mut self, at: usize, cause: Cause, line: Line) {
        match self.cache(at, cause.core).find(line.number) {
            None => self.place(at, cause, line),
            // Another cache above had it too.
            Some(here) => {
                here.dirty |= line.dirty;
                here.marked |= line.marked;
                here.users.extend(line.users);
                for (mine, theirs) in here.touched.iter_mut().zip(line.touched) {
                    *mine |= theirs;
                }
            }
        }
    }

    /// A write-back leaves a level.
    fn send_back(&mut self, at: usize, cause: Cause, bytes: Bytes, owner: u32) {
        self.levels[at].counts.traffic.writebacks += 1;
        self.levels[at].point(owner).writebacks += 1;
        if let Some(next) = self.next(at) {
            self.write_back(next, cause, bytes, owner);
        }
    }

    /// A write-back arrives at a level.
    fn write_back(&mut self, at: usize, cause: Cause, bytes: Bytes, owner: u32) {
        self.levels[at].counts.traffic.writebacks_received += 1;
        let level = &self.levels[at].level;
        let (write, allocate) = (level.write, level.allocate && !self.levels[at].exclusive());
        if write == Write::None {
            return;
        }
        let line = self.levels[at].line();
        for number in bytes.lines(line) {
            let part = bytes.within(number, line);
            self.classify(at, cause, number, allocate);
            let there = match self.cache(at, cause.core).find(number) {
                Some(found) => {
                    found.dirty |= write == Write::Back;
                    true
                }
                None => false,
            };
            if !there && allocate {
                self.complete(at, cause, number, part, owner);
            }
            if write == Write::Through || !there && !allocate {
                self.send_back(at, cause, part, owner);
            }
        }
    }

    /// Places a line of which a write-back has `part`, asking for the rest of it if there is one.
    fn complete(&mut self, at: usize, cause: Cause, number: u64, part: Bytes, owner: u32) {
        let whole = Bytes::line(number, self.levels[at].line());
        let mut moved = None;
        if part != whole {
            let asked = Request {
                kind: Kind::Prefetch,
                bytes: whole,
                touched: Bytes::none(),
                owner,
            };
            moved = self.request(self.next(at), cause, asked);
        }
        let mut placed = moved.unwrap_or_else(|| self.new_line(at, number, owner));
        placed.dirty |= self.levels[at].level.write == Write::Back;
        self.place(at, cause, placed);
    }

    /// The level's own prefetcher looks at a demand access that has been dealt with. `fresh`: lines
    /// that were missed, or found for the first time since a prefetch brought them in.
    fn run_prefetcher(&mut self, at: usize, cause: Cause, fresh: &[u64]) {
        let line = self.levels[at].line();
        let line_of = |address: u64| address / line;
        match self.levels[at].level.prefetch {
            Prefetch::None => {}
            Prefetch::Next(ahead) => {
                for &number in fresh {
                    for k in 1..=u64::from(ahead) {
                        let following = line_of((number * line).wrapping_add(k * line));
                        self.prefetch_line(at, cause, following);
                    }
                }
            }
            Prefetch::Stride(ahead) => {
                let Some(stride) = self.learn_stride(at, cause) else {
                    return;
                };
                for k in 1..=u64::from(ahead) {
                    let number = line_of(cause.address.wrapping_add(stride.wrapping_mul(k)));
                    if number != line_of(cause.address) {
                        self.prefetch_line(at, cause, number);
                    }
                }
            }
        }
    }

    /// Takes in the next address of a reference point; returns its stride if that is to be trusted.
    fn learn_stride(&mut self, at: usize, cause: Cause) -> Option<u64> {
        let strides = &mut self.cache(at, cause.core).strides;
        let Some(known) = strides.get_mut(&cause.point) else {
            let first = Stride {
                last: cause.address,
                stride: 0,
                confidence: 0,
            };
            strides.insert(cause.point, first);
            return None;
        };
        let difference = cause.address.wrapping_sub(known.last);
        if difference == known.stride {
            known.confidence = (known.confidence + 1).min(3);
        } else {
            known.confidence = 0;
            known.stride = difference;
        }
        known.last = cause.address;
        (known.confidence >= 2 && known.stride != 0).then_some(known.stride)
    }

    fn prefetch_line(&mut self, at: usize, cause: Cause, number: u64) {
        if self.cache(at, cause.core).holds(number) {
            return;
        }
        self.classify(at, cause, number, true);
        self.levels[at].counts.traffic.prefetches.requests += 1;
        self.levels[at].counts.traffic.prefetches.misses += 1;
        let asked = Request {
            kind: Kind::Prefetch,
            bytes: Bytes::line(number, self.levels[at].line()),
            touched: Bytes::none(),
            owner: cause.point,
        };
        let moved = self.request(self.next(at), cause, asked);
        let mut placed = moved.unwrap_or_else(|| self.new_line(at, number, cause.point));
        placed.marked = true;
        self.place(at, cause, placed);
    }
}

/// What a demand access found in a line.
struct Found {
    spatial: bool,
    marked: bool,
}

/// Bytes of a line are told apart as far as it has no more than this many; else units of a 64th of
/// it are.
const UNITS: u32 = 64;

fn touch(line: &mut Line, bytes: Bytes, line_size: u64) {
    let part = bytes.within(line.number, line_size);
    let unit = line_size.div_ceil(u64::from(UNITS));
    for i in 0..part.len {
        let offset = part.start - line.number * line_size + i;
        line.touched[(offset / unit) as usize] = true;
    }
}

/// Without the points at the end that nothing was counted for: how many there are is not part of an
/// answer.
pub fn without_idle_points(mut counts: Vec<LevelCounts>) -> Vec<LevelCounts> {
    for level in &mut counts {
        let used = level.points.iter().rposition(|point| *point != PointCounts::default());
        level.points.truncate(used.map_or(0, |last| last + 1));
    }
    counts
}
