//! Gives every access a number for all that tables tell apart.
//!
//! **Idea.** Simulators count by reference point. A tagger replaces the point of each access by a *composite*: a dense number for the point together with the call path, the group of
//! objects and the thread, as far as they are tracked. Nothing else about a simulation changes, and every table is a sum over composites.
//!
//! **An access belongs** to the object that has its first byte.
//!
//! **Fast** because of what accesses have in common: all of a batch have one thread and one node, and a point mostly accesses the object that it accessed last; then the composite is also the last
//! one. What a thread does between two calls is little, so that tagged accesses are collected and handed on in larger batches than they come.
//!
//! **Loops** are handed on whole if each access of the body stays in one object and the sink takes them. Iterations are left out only where neither paths nor objects are tracked: what the sink has then left
//! out is in its counts and not in the [`Tally`] of a composite ([`Tagger::left_out`]).
use crate::calls::{Calls, Tree};
use crate::hash::NumberMap;
use crate::objects::{self, Objects, SpaceIndex, UNKNOWN};
use crate::patterns::{summary, Summary, Walk};
use memtrail_model::{Access, AccessSink, Edge, Flow, Kind, LoopAccess, LoopRun, Next, Note, Point, Repeat, Thread};

/// Accesses that are handed on at once, at least if there are so many.
const BATCH: usize = 512;

/// What is told apart, besides the reference point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dimensions {
    pub callpath: bool,
    pub object: bool,
    pub thread: bool,
}

/// What a composite stands for; [`Key::NONE`] for what is not tracked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Key {
    pub point: Point,
    /// Of the call tree.
    pub node: u32,
    /// Of objects.
    pub group: u32,
    pub thread: u32,
}

impl Key {
    pub const NONE: u32 = u32::MAX;
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

/// A composite, and the last object it accessed.
#[derive(Clone, Copy, Debug)]
struct Known {
    key: Key,
    composite: u32,
    object: u32,
}

impl Known {
    const NOTHING: Known = Known {
        key: Key {
            point: Point::NONE,
            node: Key::NONE,
            group: Key::NONE,
            // No thread has this number.
            thread: Key::NONE - 1,
        },
        composite: 0,
        object: UNKNOWN,
    };

    /// Whether the point has this composite.
    #[inline]
    fn is(&self, node: u32, group: u32, thread: u32) -> bool {
        (self.key.node == node) & (self.key.group == group) & (self.key.thread == thread)
    }
}

/// What is known of a composite. Nearly all its accesses are of one kind and size, and are counted as steps of its walk only.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Record {
    /// Its `usual` is the kind and size of the first access, see [`usual`].
    walk: Walk,
    /// Those of another kind or size, by kind.
    others: [u64; 4],
    /// That these have read or written.
    bytes: u64,
}

/// A kind and a size in one number that is not 0; not for instructions, which are not walked through.
#[inline]
fn usual(kind: Kind, size: u32) -> u32 {
    match kind {
        Kind::Fetch => 0,
        _ => size.wrapping_mul(4) | (kind as u32 + 1),
    }
}

/// Bytes that are read or written.
fn bytes(kind: Kind, size: u32) -> u64 {
    match kind {
        Kind::Read | Kind::Write => u64::from(size),
        Kind::Prefetch | Kind::Fetch => 0,
    }
}

impl Record {
    /// To be told before the walk is.
    #[inline]
    fn count(&mut self, kind: Kind, size: u32, times: u64) {
        if self.walk.usual != usual(kind, size) || size >= 1 << 30 {
            self.count_other(kind, size, times);
        }
    }

    #[cold]
    fn count_other(&mut self, kind: Kind, size: u32, times: u64) {
        if self.walk.usual == 0 && kind != Kind::Fetch && size < 1 << 30 {
            self.walk.usual = usual(kind, size);
        } else {
            self.others[kind as usize] += times;
            self.bytes += bytes(kind, size) * times;
        }
    }

    fn tally(&self) -> Tally {
        let [reads, writes, prefetches, fetches] = self.others;
        let mut tally = Tally {
            reads,
            writes,
            prefetches,
            fetches,
            bytes: self.bytes,
        };
        let times = self.walk.accesses() - reads - writes - prefetches;
        let (kind, count) = match self.walk.usual % 4 {
            1 => (Kind::Read, &mut tally.reads),
            2 => (Kind::Write, &mut tally.writes),
            _ => (Kind::Prefetch, &mut tally.prefetches),
        };
        *count += times;
        tally.bytes += bytes(kind, self.walk.usual / 4) * times;
        tally
    }
}

/// A thread, as far as objects are concerned.
#[derive(Clone, Copy, Debug)]
struct Where {
    space: SpaceIndex,
    number: u32,
    /// Where its stack pointer was when its stack became known.
    rsp: Option<u64>,
    /// The base of its own memory.
    pointer: Option<u64>,
}

/// A variable that every thread has its own of, from the base of the thread's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadLocal {
    pub offset: i64,
    pub bytes: u64,
    pub group: u32,
}

/// A variable of a module that was mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    pub address: u64,
    pub bytes: u64,
    pub group: u32,
}

/// Asked at each mapping, with the address space: the variables that are there from now on, larger ones before those in them.
pub type Variables = Box<dyn FnMut(u32, &Note) -> Vec<Variable>>;

/// Entries of the cache of composites, as a power of two.
const CACHE: u32 = 14;

/// Composites: dense numbers of keys.
#[derive(Debug, Default)]
struct Composites {
    keys: Vec<Key>,
    by_key: NumberMap<Key, u32>,
    records: Vec<Record>,
    /// What a point did last; by point + 1: [`Point::NONE`] is the first.
    last: Vec<Known>,
    /// Where a point does not do the same as last time, it mostly does what it did before: by a hash of the key.
    cache: Vec<Known>,
}

impl Composites {
    /// The last object that a point accessed.
    #[inline]
    fn hint(&self, point: Point) -> u32 {
        let last = self.last.get(point.0.wrapping_add(1) as usize);
        last.map_or(UNKNOWN, |last| last.object)
    }

    /// The composite of an access to an object.
    #[inline]
    fn of(&mut self, point: Point, object: u32, group: u32, node: u32, thread: u32) -> u32 {
        match self.last.get_mut(point.0.wrapping_add(1) as usize) {
            Some(last) if last.is(node, group, thread) => {
                last.object = object;
                last.composite
            }
            _ => self.another(
                Key {
                    point,
                    node,
                    group,
                    thread,
                },
                object,
            ),
        }
    }

    /// Another than the point's last one.
    fn another(&mut self, key: Key, object: u32) -> u32 {
        let at = key.point.0.wrapping_add(1) as usize;
        if at >= self.last.len() {
            self.last.resize(at + 1, Known::NOTHING);
            self.cache.resize(1 << CACHE, Known::NOTHING);
        }
        let mixed = (u64::from(key.point.0) | u64::from(key.node) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (u64::from(key.group) | u64::from(key.thread) << 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let cached = (mixed >> (64 - CACHE)) as usize;
        let known = self.cache[cached];
        let composite = match known.key == key {
            true => known.composite,
            false => self.number(key),
        };
        let known = Known { key, composite, object };
        self.cache[cached] = known;
        self.last[at] = known;
        composite
    }

    #[cold]
    fn number(&mut self, key: Key) -> u32 {
        let next = self.keys.len() as u32;
        let number = *self.by_key.entry(key).or_insert(next);
        if number == next {
            self.keys.push(key);
            self.records.push(Record::default());
        }
        number
    }
}

/// Tags accesses on their way to a sink: see the module's head.
pub struct Tagger<S> {
    sink: S,
    dimensions: Dimensions,
    calls: Calls,
    objects: Objects,
    variables: Option<Variables>,
    thread_local: Vec<ThreadLocal>,
    threads: Vec<Option<Where>>,
    composites: Composites,
    /// Tagged accesses of one thread that wait to be handed on.
    waiting: Vec<Access>,
    body: Vec<LoopAccess>,
    /// The object of the last access.
    recent: u32,
    left_out: u64,
}

impl<S: AccessSink> Tagger<S> {
    pub fn new(sink: S, dimensions: Dimensions, options: objects::Options) -> Tagger<S> {
        Tagger {
            sink,
            dimensions,
            calls: Calls::new(),
            objects: Objects::new(options),
            variables: None,
            thread_local: Vec::new(),
            threads: Vec::new(),
            composites: Composites::default(),
            waiting: Vec::with_capacity(2 * BATCH),
            body: Vec::new(),
            recent: UNKNOWN,
            left_out: 0,
        }
    }

    /// With variables of modules; their groups are made by [`Objects::new_group`].
    pub fn with_variables(mut self, variables: Variables) -> Tagger<S> {
        self.variables = Some(variables);
        self
    }

    /// With variables that every thread has its own of, larger ones before those in them.
    pub fn with_thread_local(mut self, variables: Vec<ThreadLocal>) -> Tagger<S> {
        self.thread_local = variables;
        self
    }

    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    pub fn objects(&mut self) -> &mut Objects {
        &mut self.objects
    }

    /// The sink, which has everything by then.
    pub fn sink(&mut self) -> &mut S {
        self.flush();
        &mut self.sink
    }

    /// What composites stand for, by number.
    pub fn keys(&self) -> &[Key] {
        &self.composites.keys
    }

    pub fn composite(&self, id: u32) -> Option<Key> {
        self.composites.keys.get(id as usize).copied()
    }

    /// By composite.
    pub fn tallies(&self) -> impl ExactSizeIterator<Item = Tally> + '_ {
        self.composites.records.iter().map(Record::tally)
    }

    /// Accesses that the sink wanted to be left out: they are in no tally.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The access patterns, by group of objects.
    pub fn patterns(&self) -> Vec<Option<Summary>> {
        let mut walks: Vec<Vec<&Walk>> = Vec::new();
        for (key, record) in self.composites.keys.iter().zip(&self.composites.records) {
            if key.group == Key::NONE {
                continue;
            }
            let group = key.group as usize;
            if walks.len() <= group {
                walks.resize(group + 1, Vec::new());
            }
            walks[group].push(&record.walk);
        }
        let objects = |group: usize| self.objects.group(group as u32).objects;
        let by_group = walks.into_iter().enumerate();
        by_group.map(|(group, walks)| summary(walks, objects(group))).collect()
    }

    fn flush(&mut self) {
        if !self.waiting.is_empty() {
            self.sink.accesses(&self.waiting);
            self.waiting.clear();
        }
    }

    fn place_of(&mut self, thread: Thread) -> &mut Where {
        let at = thread.0 as usize;
        if self.threads.len() <= at {
            self.threads.resize(at + 1, None);
        }
        let objects = &mut self.objects;
        self.threads[at].get_or_insert_with(|| Where {
            space: objects.space(0),
            number: 0,
            rsp: None,
            pointer: None,
        })
    }

    /// Makes a thread's stack and its own variables known, as far as it is known where they are.
    fn own_memory(&mut self, thread: Thread) {
        let at = *self.place_of(thread);
        if let Some(rsp) = at.rsp {
            self.objects.stack(at.space, thread, rsp);
        }
        let Some(base) = at.pointer else { return };
        for variable in &self.thread_local {
            let address = base.wrapping_add_signed(variable.offset);
            self.objects
                .add_static(at.number, address, variable.bytes, variable.group);
        }
    }

    /// Memory was mapped, perhaps told of only after a thread began to use it; or it went away, with what threads had there.
    fn remapped(&mut self, number: u32, (start, bytes): (u64, u64), there: bool) {
        let within = |address: Option<u64>| address.is_some_and(|a| a.wrapping_sub(start) < bytes);
        for i in 0..self.threads.len() {
            let Some(at) = self.threads[i].as_mut().filter(|at| at.number == number) else {
                continue;
            };
            if !within(at.rsp) && !within(at.pointer) {
                continue;
            }
            if there {
                self.own_memory(Thread(i as u32));
            } else {
                at.rsp = at.rsp.filter(|_| !within(at.rsp));
                at.pointer = at.pointer.filter(|_| !within(at.pointer));
            }
        }
    }

    /// The node and the thread of what a thread does now, as composites have them.
    fn tracked(&self, thread: Thread) -> (u32, u32) {
        let node = match self.dimensions.callpath {
            true => self.calls.node(thread),
            false => Key::NONE,
        };
        let thread = match self.dimensions.thread {
            true => thread.0,
            false => Key::NONE,
        };
        (node, thread)
    }

    fn tag<const OBJECTS: bool>(&mut self, batch: &[Access], thread: Thread) {
        let space = self.place_of(thread).space;
        let (node, number) = self.tracked(thread);
        let Tagger {
            objects,
            composites,
            waiting,
            recent,
            ..
        } = self;
        let fetches = match self.sink.wants_fetches() {
            true => batch.iter().filter(|access| access.kind == Kind::Fetch).count(),
            false => 0,
        };
        objects.now += (batch.len() - fetches) as u64;
        waiting.extend(batch.iter().map(move |access| {
            let (object, group) = match OBJECTS {
                true => {
                    let object = objects.find_any(space, access.addr, [composites.hint(access.point), *recent]);
                    *recent = object;
                    (object, objects.group_of(object))
                }
                false => (UNKNOWN, Key::NONE),
            };
            let composite = composites.of(access.point, object, group, node, number);
            let record = &mut composites.records[composite as usize];
            record.count(access.kind, access.size, 1);
            if access.kind != Kind::Fetch {
                record.walk.access(access.addr, object);
            }
            Access {
                point: Point(composite),
                ..*access
            }
        }));
    }

    /// The object that all iterations of an access begin in, if it is one.
    fn object_of(&mut self, space: SpaceIndex, access: &LoopAccess, trips: u64) -> Option<u32> {
        let way = (trips - 1).checked_mul((access.stride as i64).unsigned_abs())?;
        let (low, high) = match (access.stride as i64) < 0 {
            true => (access.addr.checked_sub(way)?, access.addr),
            false => (access.addr, access.addr.checked_add(way)?),
        };
        let hint = self.composites.hint(access.point);
        let object = self.objects.find(space, low, hint);
        if self.objects.find(space, high, object) == object && self.objects.is_alone(object) {
            return Some(object);
        }
        let (object, _, last) = self.objects.extent(space, low);
        (last >= high).then_some(object)
    }

    /// Tags a body; the objects, by access, or nothing if one is in several.
    fn tag_body(&mut self, run: &LoopRun<'_>) -> Option<Vec<u32>> {
        let space = self.place_of(run.thread).space;
        let (node, thread) = self.tracked(run.thread);
        self.body.clear();
        let mut objects = Vec::with_capacity(run.body.len());
        for access in run.body {
            let (object, group) = match self.dimensions.object {
                true => {
                    let object = self.object_of(space, access, run.trips)?;
                    (object, self.objects.group_of(object))
                }
                false => (UNKNOWN, Key::NONE),
            };
            let composite = self.composites.of(access.point, object, group, node, thread);
            objects.push(object);
            self.body.push(LoopAccess {
                point: Point(composite),
                ..*access
            });
        }
        Some(objects)
    }

    /// Counts a run whose tagged body was taken.
    fn count_run(&mut self, trips: u64, objects: &[u32]) {
        let records = &mut self.composites.records;
        let data = |access: &LoopAccess| access.kind != Kind::Fetch;
        let mut points: Vec<u32> = self.body.iter().filter(|a| data(a)).map(|a| a.point.0).collect();
        points.sort_unstable();
        let apart = points.windows(2).all(|pair| pair[0] != pair[1]);
        for (access, &object) in self.body.iter().zip(objects) {
            let record = &mut records[access.point.index()];
            record.count(access.kind, access.size, trips);
            if data(access) {
                self.objects.now += trips;
                if apart {
                    record.walk.run(access.addr, access.stride, trips, object);
                }
            }
        }
        // A point that accesses several places in an iteration steps from one to the other.
        for i in 0..if apart { 0 } else { trips } {
            for (access, &object) in self.body.iter().zip(objects).filter(|(a, _)| data(a)) {
                let addr = access.addr.wrapping_add(i.wrapping_mul(access.stride));
                records[access.point.index()].walk.access(addr, object);
            }
        }
    }

    fn repeats(&self) -> bool {
        !self.dimensions.callpath && !self.dimensions.object
    }
}

impl<S: AccessSink> AccessSink for Tagger<S> {
    fn accesses(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        if self.waiting.first().is_some_and(|waits| waits.thread != first.thread) {
            self.flush();
        }
        match self.dimensions.object {
            true => self.tag::<true>(batch, first.thread),
            false => self.tag::<false>(batch, first.thread),
        }
        if self.waiting.len() >= BATCH {
            self.flush();
        }
    }

    fn wants_loops(&self) -> bool {
        self.sink.wants_loops()
    }

    fn wants_fetches(&self) -> bool {
        self.sink.wants_fetches()
    }

    fn looped(&mut self, run: &LoopRun<'_>) -> bool {
        if run.trips == 0 {
            return true;
        }
        let Some(objects) = self.tag_body(run) else {
            return false;
        };
        self.flush();
        let tagged = LoopRun {
            body: &self.body,
            ..*run
        };
        if !self.sink.looped(&tagged) {
            return false;
        }
        self.count_run(run.trips, &objects);
        true
    }

    fn wants_repeats(&self) -> bool {
        self.repeats() && self.sink.wants_repeats()
    }

    fn enters(&mut self, repeat: &Repeat<'_>) -> u64 {
        self.flush();
        match self.repeats() {
            true => self.sink.enters(repeat),
            false => 0,
        }
    }

    fn iterated(&mut self, repeat: &Repeat<'_>, iterations: u64, left: u64) -> Next {
        self.flush();
        let next = self.sink.iterated(repeat, iterations, left);
        let skipped = next.skip.saturating_mul(repeat.accesses);
        self.left_out += skipped;
        self.objects.now += skipped;
        next
    }

    fn leaves(&mut self) {
        self.flush();
        if self.repeats() {
            self.sink.leaves();
        }
    }

    fn space(&mut self, thread: Thread, space: u32) {
        self.flush();
        let index = self.objects.space(space);
        *self.place_of(thread) = Where {
            space: index,
            number: space,
            rsp: None,
            pointer: None,
        };
        self.sink.space(thread, space);
    }

    fn wants_flows(&self) -> bool {
        self.dimensions.callpath || self.dimensions.object || self.sink.wants_flows()
    }

    fn flows(&mut self, thread: Thread, flow: Flow) {
        if self.sink.wants_flows() {
            self.flush();
            self.sink.flows(thread, flow);
        }
        self.calls.flows(thread, flow);
        if !self.dimensions.object {
            return;
        }
        let at = *self.place_of(thread);
        let rsp = match flow {
            Flow::ThreadPointer { base } => {
                self.place_of(thread).pointer = Some(base);
                return self.own_memory(thread);
            }
            _ if at.rsp.is_some() => return,
            Flow::Call { slot, .. } | Flow::Return { slot } => slot.saturating_add(8),
            Flow::Stack { rsp } => rsp,
            Flow::Signal { .. } | Flow::SignalReturn => return,
        };
        self.place_of(thread).rsp = Some(rsp);
        self.own_memory(thread);
    }

    fn wants_edges(&self) -> bool {
        self.sink.wants_edges()
    }

    fn edges(&mut self, thread: Thread, edge: &Edge) {
        self.sink.edges(thread, edge);
    }

    fn wants_notes(&self) -> bool {
        self.dimensions.object || self.sink.wants_notes()
    }

    fn notes(&mut self, thread: Thread, note: &Note) {
        if self.sink.wants_notes() {
            self.flush();
            self.sink.notes(thread, note);
        }
        if !self.dimensions.object {
            return;
        }
        let at = *self.place_of(thread);
        let tree: &Tree = self.calls.tree();
        self.objects
            .notes(at.space, thread, tree, self.calls.just_left(thread), note);
        if let (Note::Map { .. }, Some(variables)) = (note, &mut self.variables) {
            for variable in variables(at.number, note) {
                self.objects
                    .add_static(at.number, variable.address, variable.bytes, variable.group);
            }
        }
        match *note {
            Note::Map { address, bytes, .. } => self.remapped(at.number, (address, bytes), true),
            Note::Unmap { address, bytes } => self.remapped(at.number, (address, bytes), false),
            _ => {}
        }
    }

    fn forks(&mut self, parent: u32, child: u32) {
        self.flush();
        if self.dimensions.object {
            self.objects.forks(parent, child);
        }
        self.sink.forks(parent, child);
    }

    fn done(&self) -> bool {
        self.sink.done()
    }
}
