//! Gives every access a number for all that tables tell apart.
//!
//! **Idea.** Simulators count by reference point. A tagger replaces the point of each access by a
//! *composite*: a dense number for the point together with the call path, the group of objects, the
//! thread, the process and the phase, as far as they are tracked. Nothing else about a simulation changes, and
//! every table is a sum over composites.
//!
//! **An access belongs** to the object that has its first byte.
//!
//! **Fast** because of what accesses have in common: all of a batch have one thread and one node,
//! and a point mostly accesses the object that it accessed last; then the composite is also the
//! last one, and if the step is the last one, too, the access is counted at its point, in one line
//! of the cache, and added up when something changes ([`Site`]). What a thread does between two calls is little, so that tagged accesses are collected
//! and handed on in larger batches than they come.
//!
//! **Loops** are handed on whole if each access of the body stays in one object and the sink takes
//! them. Iterations of a loop without calls are left out where objects are not tracked; a loop says
//! how often each of its points accesses memory.
use crate::calls::{Calls, Tree};
use crate::composites::{usual, Composites, Doer, MOST_FRESH};
use crate::objects::{self, Objects, SpaceIndex, UNKNOWN};
use crate::patterns::{indirect, summary, Feeders, Summary, Walk, Walker};
use crate::placement::{Placed, Placement};
use memtrail_model::{
    Access, AccessSink, Event, Flow, Kind, LoopAccess, LoopRun, Note, Point, Repeat, Reply, SinkAdapter, Thread, Wants,
};

pub use crate::composites::{FirstAccess, Key, Tally};

/// Accesses that are handed on at once, if there are that many.
const BATCH: usize = 512;

/// What is told apart, besides the reference point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dimensions {
    pub callpath: bool,
    pub object: bool,
    pub thread: bool,
    pub process: bool,
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

/// Asked at each mapping, with the address space: the variables that are there from now on, larger
/// ones before those in them.
pub type Variables = Box<dyn FnMut(u32, &Note) -> Vec<Variable>>;

/// Tags accesses on their way to a sink: see the module's head.
pub struct Tagger<S> {
    sink: S,
    /// What the sink wants.
    wants: Wants,
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
    placement: Option<Box<dyn Placement>>,
}

impl<S: AccessSink> Tagger<S> {
    pub fn new(sink: S, dimensions: Dimensions, options: objects::Options) -> Tagger<S> {
        Tagger {
            wants: sink.wants(),
            sink,
            dimensions,
            calls: Calls::new(),
            objects: Objects::new(options),
            variables: None,
            thread_local: Vec::new(),
            threads: Vec::new(),
            composites: Composites {
                phase: Key::NONE,
                ..Composites::default()
            },
            waiting: Vec::with_capacity(2 * BATCH),
            body: Vec::new(),
            recent: UNKNOWN,
            placement: None,
        }
    }

    /// With accesses to some objects put elsewhere; objects must be told apart. Loops then come as
    /// accesses: what moves evenly need not do so in another layout.
    pub fn with_placement(mut self, placement: Box<dyn Placement>) -> Tagger<S> {
        self.placement = Some(placement);
        self
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

    /// The accesses that come belong to this phase.
    pub fn set_phase(&mut self, phase: u32) {
        self.composites.set_phase(phase);
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

    /// The sink, at the end.
    pub fn into_sink(mut self) -> S {
        self.flush();
        self.sink
    }

    /// What composites stand for, by number.
    pub fn keys(&self) -> Vec<Key> {
        self.composites.keys.iter().copied().collect()
    }

    pub fn composite(&self, id: u32) -> Option<Key> {
        self.composites.keys.get_index(id as usize).copied()
    }

    /// By reference point: its first access.
    pub fn firsts(&self) -> Vec<Option<FirstAccess>> {
        self.composites.firsts.iter().skip(1).copied().collect()
    }

    /// By composite.
    pub fn tallies(&mut self) -> impl ExactSizeIterator<Item = Tally> + '_ {
        self.composites.settle_all();
        (0..self.composites.records.len()).map(|composite| self.composites.tally(composite as u32))
    }

    fn walkers(&self) -> impl Iterator<Item = Walker<'_>> {
        let walks = self.composites.walkers.iter().zip(&self.composites.walks);
        walks.map(|(key, walk)| Walker {
            point: key.point,
            group: key.group,
            on_stack: self.objects.group(key.group).common.kind() == objects::Kind::Stack,
            walk,
        })
    }

    /// Reference points of which it would help to know what their addresses come from, with
    /// repetitions.
    pub fn unexplained(&mut self) -> impl Iterator<Item = Point> + '_ {
        self.composites.settle_all();
        let unexplained = self.walkers().filter(|walker| !walker.walk.is_explained());
        unexplained.map(|walker| walker.point)
    }

    /// The access patterns, by group of objects.
    pub fn patterns(&mut self, feeders: &Feeders) -> Vec<Option<Summary>> {
        self.composites.settle_all();
        let walkers: Vec<Walker<'_>> = self.walkers().collect();
        let mut walks: Vec<Vec<(&Walk, bool)>> = Vec::new();
        for (walker, is_indirect) in walkers.iter().zip(indirect(&walkers, feeders)) {
            let group = walker.group as usize;
            if walks.len() <= group {
                walks.resize(group + 1, Vec::new());
            }
            walks[group].push((walker.walk, is_indirect));
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

    /// Memory was mapped, perhaps told of only after a thread began to use it; or it went away,
    /// with what threads had there.
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

    fn tracked(&mut self, thread: Thread) -> Doer {
        let tracked = |is: bool, number: u32| if is { number } else { Key::NONE };
        let process = self.place_of(thread).number;
        Doer {
            node: match self.dimensions.callpath {
                true => self.calls.node(thread),
                false => Key::NONE,
            },
            thread: tracked(self.dimensions.thread, thread.0),
            process: tracked(self.dimensions.process, process),
        }
    }

    /// Puts what was tagged last, from `first` on, where the placement has it.
    fn put_elsewhere(&mut self, first: usize) {
        let Some(placement) = &mut self.placement else { return };
        // Nothing is allocated or mapped within a batch.
        let mut last: Option<(u32, Placed)> = None;
        for access in &mut self.waiting[first..] {
            let Some(key) = self.composites.keys.get_index(access.point.index()) else {
                continue;
            };
            if access.kind == Kind::Fetch || !placement.moves(key.group) {
                continue;
            }
            let Some(Some(at)) = self.threads.get(access.thread.0 as usize) else {
                continue;
            };
            let hint = self.composites.hint(key.point);
            let number = self.objects.find(at.space, access.addr, hint);
            let object = match last {
                Some((known, object)) if known == number => object,
                _ => self.objects.whole(at.space, number),
            };
            last = Some((number, object));
            access.addr = placement.place(&object, access.addr);
        }
    }

    fn tag<const OBJECTS: bool>(&mut self, batch: &[Access], thread: Thread) {
        let space = self.place_of(thread).space;
        let by = self.tracked(thread);
        let Tagger {
            objects,
            composites,
            waiting,
            recent,
            ..
        } = self;
        let fetches = match self.wants.fetches {
            true => batch.iter().filter(|access| access.kind == Kind::Fetch).count(),
            false => 0,
        };
        objects.now += (batch.len() - fetches) as u64;
        composites.fresh += batch.len() as u64;
        if composites.fresh > MOST_FRESH {
            composites.settle_all();
        }
        waiting.extend(batch.iter().map(move |access| {
            let at = composites.place(access.point);
            let site = &composites.sites[at];
            let (mut object, mut group) = (UNKNOWN, Key::NONE);
            if OBJECTS {
                object = objects.find_any(space, access.addr, [site.object, *recent]);
                *recent = object;
                group = objects.group_of(object);
            }
            let walks = OBJECTS && access.kind != Kind::Fetch;
            let stride = access.addr.wrapping_sub(site.last) as i64;
            let goes_on = site.is(group, &by)
                & (site.usual == usual(access.kind, access.size))
                & (!walks | (stride == site.stride));
            let composite = match goes_on && site.usual != 0 {
                true => {
                    let site = &mut composites.sites[at];
                    site.times += 1;
                    site.steps += u32::from(walks);
                    site.hops += u32::from(walks & (object != site.object));
                    site.last = access.addr;
                    site.object = object;
                    site.composite
                }
                false => composites.another(at, access, walks.then_some(object), (group, &by)),
            };
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

    /// Tags a body; objects and walkers, by access, or nothing if one is in several objects.
    fn tag_body(&mut self, run: &LoopRun<'_>) -> Option<Vec<(u32, u32)>> {
        let space = self.place_of(run.thread).space;
        let by = self.tracked(run.thread);
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
            let at = self.composites.place(access.point);
            self.composites.see(at, access.addr, access.pc);
            let (composite, walker) = self.composites.of(access.point, object, group, &by);
            objects.push((object, walker));
            self.body.push(LoopAccess {
                point: Point(composite),
                ..*access
            });
        }
        Some(objects)
    }

    /// Counts a run whose tagged body was taken.
    fn count_run(&mut self, trips: u64, objects: &[(u32, u32)]) {
        for access in &self.body {
            self.composites.count(access.point.0, access.kind, access.size, trips);
            self.objects.now += if access.kind == Kind::Fetch { 0 } else { trips };
        }
        if !self.dimensions.object {
            return;
        }
        let walks = &mut self.composites.walks;
        let walked = self.body.iter().zip(objects).filter(|(a, _)| a.kind != Kind::Fetch);
        let mut walkers: Vec<u32> = walked.clone().map(|(_, &(_, walker))| walker).collect();
        walkers.sort_unstable();
        if walkers.windows(2).all(|pair| pair[0] != pair[1]) {
            for (access, &(object, walker)) in walked {
                walks[walker as usize].run(access.addr, access.stride, trips, object);
            }
            return;
        }
        // A point that accesses several places in an iteration steps from one to the other.
        for i in 0..trips {
            for (access, &(object, walker)) in walked.clone() {
                let addr = access.addr.wrapping_add(i.wrapping_mul(access.stride));
                walks[walker as usize].access(addr, object);
            }
        }
    }

    /// A thread's process goes on with another program: nothing of its memory is left, and nothing
    /// of what it was in.
    pub fn replaced(&mut self, thread: Thread) {
        self.calls.begins(thread);
        let at = self.place_of(thread);
        (at.rsp, at.pointer) = (None, None);
        let number = at.number;
        self.objects.ends(number);
    }

    /// Whether iterations may be left out: a point's composite is the same in all of them, because
    /// no loop with a call inside is offered. How objects are walked through is not known then.
    fn repeats(&self) -> bool {
        !self.dimensions.object
    }

    /// Counts iterations of a loop that the sink has dealt with.
    fn count_skipped(&mut self, repeat: &Repeat<'_>, iterations: u64) {
        if iterations == 0 {
            return;
        }
        let by = self.tracked(repeat.thread);
        for mover in repeat.movers {
            let (composite, _) = self.composites.of(mover.point, UNKNOWN, Key::NONE, &by);
            let times = mover.times * iterations;
            self.composites.count(composite, mover.kind, mover.size, times);
        }
        self.objects.now += iterations * repeat.accesses;
    }

    /// Hands a loop on whole if each access of it stays in one object.
    fn offer(&mut self, run: &LoopRun<'_>) -> Reply {
        if run.trips == 0 {
            return Reply::NOTHING;
        }
        let Some(objects) = self.tag_body(run) else {
            return Reply::NOTHING;
        };
        self.flush();
        let tagged = LoopRun {
            body: &self.body,
            ..*run
        };
        let reply = self.sink.event(Event::Loop(tagged));
        if reply.skip > 0 {
            self.count_run(reply.skip, &objects);
        }
        reply
    }

    /// The thread's accesses are in this address space from now on. It may be told again and again.
    fn set_space(&mut self, thread: Thread, space: u32) {
        let index = self.objects.space(space);
        let at = self.place_of(thread);
        if at.space != index {
            *at = Where {
                space: index,
                number: space,
                rsp: None,
                pointer: None,
            };
        }
    }

    /// A call, a return, or a change of stacks.
    fn follow(&mut self, thread: Thread, flow: Flow) {
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

    /// Memory was allocated, freed, mapped or named.
    fn note(&mut self, thread: Thread, note: &Note) {
        if !self.dimensions.object {
            return;
        }
        let at = *self.place_of(thread);
        let tree: &Tree = self.calls.tree();
        // A return is told when the next block begins, which is after the note of what it returns.
        self.objects
            .notes(at.space, thread, tree, self.calls.node(thread), note);
        if let (Note::Map { .. }, Some(variables)) = (note, &mut self.variables) {
            for variable in variables(at.number, note) {
                self.objects
                    .add_static(at.number, variable.address, variable.bytes, variable.group);
            }
        }
        match *note {
            Note::Unmap {
                address: 0,
                bytes: u64::MAX,
            } => self.replaced(thread),
            Note::Map { address, bytes, .. } => self.remapped(at.number, (address, bytes), true),
            Note::Unmap { address, bytes } => self.remapped(at.number, (address, bytes), false),
            _ => {}
        }
    }
}

impl<S: AccessSink> SinkAdapter for Tagger<S> {
    type Inner = S;
    fn inner(&self) -> &S {
        &self.sink
    }
    fn inner_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    fn adjust(&self, wants: Wants) -> Wants {
        let Dimensions { callpath, object, .. } = self.dimensions;
        Wants {
            loops: wants.loops.filter(|_| self.placement.is_none()),
            repeats: wants.repeats && self.repeats(),
            flows: wants.flows || callpath || object,
            notes: wants.notes || object,
            ..wants
        }
    }

    fn pass(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        if self.waiting.first().is_some_and(|waits| waits.thread != first.thread) {
            self.flush();
        }
        let before = self.waiting.len();
        match self.dimensions.object {
            true => self.tag::<true>(batch, first.thread),
            false => self.tag::<false>(batch, first.thread),
        }
        if self.placement.is_some() {
            self.put_elsewhere(before);
        }
        if self.waiting.len() >= BATCH {
            self.flush();
        }
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        // Calls and notes are many, and mostly for the tagger alone.
        let wanted = match event {
            Event::Loop(run) => return self.offer(&run),
            Event::Flow { .. } => self.wants.flows,
            Event::Note { .. } => self.wants.notes,
            _ => true,
        };
        if wanted {
            self.flush();
        }
        match event {
            Event::Iterated { repeat, .. } => {
                let reply = self.sink.event(event);
                self.count_skipped(&repeat, reply.skip);
                return reply;
            }
            Event::Space { thread, space } => self.set_space(thread, space),
            Event::Flow { thread, flow } => self.follow(thread, flow),
            Event::Note { thread, note, .. } => self.note(thread, note),
            Event::Fork { parent, child } if self.dimensions.object => self.objects.forks(parent, child),
            _ => {}
        }
        match wanted {
            true => self.sink.event(event),
            false => Reply::NOTHING,
        }
    }
}
