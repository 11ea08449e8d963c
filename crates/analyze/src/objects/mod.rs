//! Data objects: what lies at an address, at this moment.
//!
//! **Problem.** Addresses are recycled, blocks lie in mappings, pools in blocks; the same code
//! allocates millions of blocks that are one thing to whoever reads a table. And every access asks.
//!
//! **Objects and groups.** An *object* (a dense number, used again after its death) is a range of
//! addresses of an address space from its birth to its death, in counted accesses of the whole run.
//! Objects with something in common are a [`Group`], which is what tables show and all that is left
//! of dead objects ([`Common`] says what it can be). Heap blocks are grouped by the call path that
//! asked for them: the innermost call that lies in no wrapper, as told by [`Options::wrapper`]. A
//! resized block stays the same object.
//!
//! **Layers.** *Areas* (mappings, the heap segment, stacks) do not overlap: a new one takes the
//! place of what was there. *Things* (heap blocks, variables, named memory) lie over them and may
//! lie in each other: blocks of a pool in the pool's block, a named part in a block. The innermost
//! is what an access belongs to; when it ends, what is around it is seen again. A thing never
//! outlives the one it lies in.
//!
//! **Rules.**
//! - A block lies in another only if that one is larger, holds all of it and comes from another
//!   allocator ([`Options::allocators`]). Any other block in its place has died unseen, which is
//!   counted ([`Anomalies::overlaid`]).
//! - Giving back ends the block that begins there, the innermost of the same allocator; else the
//!   innermost. If there is none that is counted ([`Anomalies::unmatched`]).
//! - What is given back by a function that resizes is held ready until the thread gives back
//!   something else: the block that this function returns for it is the same object.
//! - Mapping memory ends the blocks and names there, not the variables, which belong to what is
//!   mapped; unmapping ends all.
//! - Naming memory names the thing or area that is exactly there (with no bytes: the innermost that
//!   holds the address) from then on; otherwise a new thing of this name lies over each thing
//!   there. Blocks that are made in it later are their own objects.
//! - A stack is the area that holds a thread's stack pointer when it is first told, and grows down
//!   into free addresses as far as [`Options::stack`]. A stack that is a block or a variable stays
//!   that.
//!
//! **Look-ups** go through shadow memory (see `shadow.rs`), which caches what `things` and `areas`
//! say.
mod busy;
mod groups;
mod pieces;
mod shadow;
mod space;

pub use busy::busy;
pub use groups::{Common, Group};

use crate::calls::Tree;
use crate::hash::NumberMap;
use crate::placement::Placed;
use groups::Groups;
use memtrail_model::{Note, Thread};
use space::Space;

/// What sort of thing an object is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Kind {
    Unknown,
    Heap,
    File,
    Anonymous,
    /// Memory of the allocator that is in no block.
    Allocator,
    Stack,
    /// A variable of a module, or what is left of the module's data.
    Static,
    ThreadLocal,
    Named,
}

/// An address space, as the object map numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SpaceIndex(u32);

/// A function that says whether a call site lies in a wrapper.
pub type Wrapper = Box<dyn Fn(u64) -> bool>;

/// How objects are told apart.
pub struct Options {
    /// Whether a call site lies in a function that only passes on what an allocator gave it, or in
    /// an allocator.
    pub wrapper: Option<Wrapper>,
    /// Calls that count in a heap block's path, innermost first.
    pub depth: usize,
    /// Blocks of fewer bytes are one group.
    pub threshold: u64,
    /// By hook number: which allocator it belongs to. A hook beyond the list is an allocator of its
    /// own.
    pub allocators: Vec<u32>,
    /// How far stacks may grow.
    pub stack: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            wrapper: None,
            depth: usize::MAX,
            threshold: 0,
            allocators: Vec::new(),
            stack: 8 << 20,
        }
    }
}

/// What did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Blocks in whose place another was allocated.
    pub overlaid: u64,
    /// Giving back of what was no block.
    pub unmatched: u64,
    /// Blocks whose memory was unmapped, or mapped anew.
    pub unmapped: u64,
    /// Names for memory of which nothing is known.
    pub unnameable: u64,
}

/// What a look-up needs of an object.
#[derive(Clone, Copy, Debug)]
struct Hot {
    start: u64,
    /// Its bytes, if nothing else has been in it; otherwise 0: only the shadow knows what is where.
    span: u64,
    group: u32,
    space: u32,
}

/// The rest.
#[derive(Clone, Copy, Debug)]
struct Cold {
    bytes: u64,
    birth: u64,
    /// The thing it lies in; [`UNKNOWN`] for none.
    outer: u32,
    kind: Kind,
    allocator: u32,
    /// It came with a forked process's memory: it is in no number.
    copied: bool,
}

/// Of what is told of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    pub address: u64,
    pub bytes: u64,
    pub kind: Kind,
    pub group: u32,
    pub birth: u64,
}

/// A block that was given back, or is being resized.
#[derive(Clone, Copy, Debug)]
struct Parked {
    space: SpaceIndex,
    /// The function that gave it back.
    hook: u32,
    start: u64,
    group: u32,
    death: u64,
    cold: Cold,
}

/// The object that addresses belong to of which nothing is known.
pub const UNKNOWN: u32 = 0;

/// The object map: see the module's head.
pub struct Objects {
    /// The number of accesses so far: what births and deaths are told by.
    pub now: u64,
    options: Options,
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    unused: Vec<u32>,
    spaces: Vec<Space>,
    by_number: NumberMap<u32, u32>,
    groups: Groups,
    /// By the node where a block was allocated.
    heap_groups: NumberMap<u32, u32>,
    /// For limited depth: the node that stands for all with the same last calls.
    last_calls: NumberMap<Vec<u64>, u32>,
    parked: NumberMap<u32, Parked>,
    anomalies: Anomalies,
}

impl Objects {
    pub fn new(options: Options) -> Objects {
        let mut objects = Objects {
            now: 0,
            options,
            hot: Vec::new(),
            cold: Vec::new(),
            unused: Vec::new(),
            spaces: Vec::new(),
            by_number: NumberMap::default(),
            groups: Groups::default(),
            heap_groups: NumberMap::default(),
            last_calls: NumberMap::default(),
            parked: NumberMap::default(),
            anomalies: Anomalies::default(),
        };
        objects.hot.push(Hot {
            start: 0,
            span: 0,
            group: Groups::UNKNOWN,
            space: u32::MAX,
        });
        objects.cold.push(Cold {
            bytes: 0,
            birth: 0,
            outer: UNKNOWN,
            kind: Kind::Unknown,
            allocator: 0,
            copied: true,
        });
        objects
    }

    /// The address space with this number; empty if it is new.
    pub fn space(&mut self, number: u32) -> SpaceIndex {
        let next = self.spaces.len() as u32;
        let index = *self.by_number.entry(number).or_insert(next);
        if index == next {
            self.spaces.push(Space::default());
        }
        SpaceIndex(index)
    }

    /// Address space `child` begins as a copy of `parent`.
    pub fn forks(&mut self, parent: u32, child: u32) {
        let (from, to) = (self.space(parent), self.space(child));
        if from == to {
            return;
        }
        self.clear(to);
        let mut copies = NumberMap::default();
        let mut copy = self.spaces[from.0 as usize].clone_ranges();
        copy.renumber(|id| self.copy_of(id, to, &mut copies));
        self.spaces[to.0 as usize] = copy;
    }

    /// The copy of an object, with those it lies in.
    fn copy_of(&mut self, id: u32, space: SpaceIndex, copies: &mut NumberMap<u32, u32>) -> u32 {
        if id == UNKNOWN {
            return UNKNOWN;
        }
        if let Some(&made) = copies.get(&id) {
            return made;
        }
        let (hot, cold) = (self.hot[id as usize], self.cold[id as usize]);
        let outer = self.copy_of(cold.outer, space, copies);
        let copied = Cold {
            outer,
            copied: true,
            ..cold
        };
        let made = self.add(Hot { space: space.0, ..hot }, copied);
        copies.insert(id, made);
        made
    }

    /// An address space has come to its end: a program was replaced, or all threads have ended.
    pub fn ends(&mut self, number: u32) {
        let space = self.space(number);
        self.clear(space);
    }

    fn clear(&mut self, space: SpaceIndex) {
        self.vacate(space, 0, u64::MAX, true);
        self.spaces[space.0 as usize] = Space::default();
    }

    fn add(&mut self, hot: Hot, cold: Cold) -> u32 {
        match self.unused.pop() {
            Some(id) => {
                self.hot[id as usize] = hot;
                self.cold[id as usize] = cold;
                id
            }
            None => {
                self.hot.push(hot);
                self.cold.push(cold);
                self.hot.len() as u32 - 1
            }
        }
    }

    /// The object at an address. `hint` is any object: the search is short if it is the one.
    #[inline]
    pub fn find(&mut self, space: SpaceIndex, addr: u64, hint: u32) -> u32 {
        self.find_any(space, addr, [hint])
    }

    /// The object at an address: perhaps one of these.
    #[inline]
    pub fn find_any<const N: usize>(&mut self, space: SpaceIndex, addr: u64, hints: [u32; N]) -> u32 {
        let right = hints.into_iter().find(|&hint| self.holds(space, addr, hint));
        right.unwrap_or_else(|| self.search(space, addr))
    }

    /// Whether an address is this object's for certain.
    #[inline]
    fn holds(&self, space: SpaceIndex, addr: u64, id: u32) -> bool {
        let hot = &self.hot[id as usize];
        addr.wrapping_sub(hot.start) < hot.span && hot.space == space.0
    }

    /// Whether nothing lies in it, nor ever has: all its addresses are its own.
    pub fn is_alone(&self, object: u32) -> bool {
        self.hot[object as usize].span != 0
    }

    #[inline]
    pub fn group_of(&self, object: u32) -> u32 {
        self.hot[object as usize].group
    }

    pub fn object(&self, object: u32) -> Object {
        let (hot, cold) = (self.hot[object as usize], self.cold[object as usize]);
        Object {
            address: hot.start,
            bytes: cold.bytes,
            kind: cold.kind,
            group: hot.group,
            birth: cold.birth,
        }
    }

    /// An object with all pieces that it was mapped in, if it is a variable.
    pub fn whole(&mut self, space: SpaceIndex, number: u32) -> Placed {
        let object = self.object(number);
        let mut placed = Placed {
            object: number,
            birth: object.birth,
            address: object.address,
            bytes: object.bytes,
            group: object.group,
        };
        if object.kind != Kind::Static {
            return placed;
        }
        // All pieces of a variable are one object: the same number in the same place.
        (placed.object, placed.birth) = (object.group, 0);
        while placed.address > 0 {
            let before = self.find(space, placed.address - 1, UNKNOWN);
            if self.group_of(before) != object.group {
                break;
            }
            placed.bytes += placed.address - self.object(before).address;
            placed.address = self.object(before).address;
        }
        let mut end = placed.address + placed.bytes;
        loop {
            let behind = self.find(space, end, UNKNOWN);
            if self.group_of(behind) != object.group {
                break;
            }
            end = self.object(behind).address + self.object(behind).bytes;
        }
        placed.bytes = end - placed.address;
        placed
    }

    /// Living objects.
    pub fn len(&self) -> usize {
        self.hot.len() - 1 - self.unused.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn anomalies(&self) -> Anomalies {
        self.anomalies
    }

    pub fn group(&self, group: u32) -> &Group {
        &self.groups.all[group as usize]
    }

    /// All groups, at the end: blocks that might still have been resized have ended.
    pub fn groups(&mut self) -> &[Group] {
        for (_, parked) in std::mem::take(&mut self.parked) {
            self.bury(&parked);
        }
        &self.groups.all
    }

    /// A group for variables, thread-local memory or whatever the caller knows of.
    pub fn new_group(&mut self, kind: Kind) -> u32 {
        self.groups.give(kind)
    }

    /// A variable, to be told when its module is there. Larger ones before those in them.
    pub fn add_static(&mut self, space: u32, address: u64, bytes: u64, group: u32) {
        let space = self.space(space);
        let kind = match self.groups.all.get(group as usize) {
            Some(known) => known.common.kind(),
            None => return,
        };
        self.place(space, address, bytes, kind, group, u32::MAX, self.now);
    }

    /// The stack pointer of a thread that is on the stack it began on.
    pub fn stack(&mut self, space: SpaceIndex, thread: Thread, rsp: u64) {
        let group = self.groups.of(Common::Stack { thread });
        self.make_stack(space, rsp, group);
    }

    /// What a thread did to memory as a whole, at a node of the call tree.
    pub fn notes(&mut self, space: SpaceIndex, thread: Thread, tree: &Tree, node: u32, note: &Note) {
        match *note {
            Note::Alloc { hook, address, bytes } => {
                let group = self.heap_group(tree, node, bytes);
                self.allocate(space, hook, address, bytes, group);
            }
            Note::Free { hook, address } => self.free(space, thread, hook, address),
            Note::Realloc {
                hook,
                old,
                address,
                bytes,
            } => {
                let group = self.heap_group(tree, node, bytes);
                self.resize(space, thread, hook, old, (address, bytes), group);
            }
            Note::Map {
                address, bytes, source, ..
            } => {
                let group = self.groups.of(match source {
                    Note::ANONYMOUS => Common::Anonymous {
                        node: self.caller(tree, node),
                    },
                    source => Common::File { source },
                });
                self.map(space, address, bytes, group);
            }
            Note::Unmap { address, bytes } => self.vacate(space, address, address.saturating_add(bytes), true),
            Note::Remap {
                old,
                old_bytes,
                address,
                bytes,
            } => self.remap(space, (old, old_bytes), (address, bytes)),
            Note::Break { address } => self.set_break(space, address),
            Note::Name { address, bytes, text } => {
                let group = self.groups.of(Common::Name { text });
                self.name(space, address, bytes, group);
            }
            Note::Enter { .. } | Note::Leave { .. } => {}
            // Of threads, not of memory.
            Note::Wait { .. } | Note::Woken { .. } | Note::Wake { .. } => {}
            Note::Start { .. } | Note::End { .. } | Note::Gap { .. } => {}
        }
    }

    /// The node of the innermost call that is in no wrapper; if all are, the outermost.
    fn caller(&self, tree: &Tree, node: u32) -> u32 {
        let Some(wrapper) = &self.options.wrapper else {
            return node;
        };
        let mut outermost = node;
        for node in tree.upwards(node) {
            outermost = node;
            if tree.site(node).is_some_and(|site| !wrapper(site)) {
                break;
            }
        }
        outermost
    }

    fn heap_group(&mut self, tree: &Tree, node: u32, bytes: u64) -> u32 {
        if bytes < self.options.threshold {
            return self.groups.of(Common::Small);
        }
        if let Some(&group) = self.heap_groups.get(&node) {
            return group;
        }
        let mut caller = self.caller(tree, node);
        if self.options.depth < usize::MAX {
            let calls = tree.upwards(caller).take(self.options.depth);
            let last = calls.filter_map(|node| tree.site(node)).collect();
            caller = *self.last_calls.entry(last).or_insert(caller);
        }
        let group = self.groups.of(Common::Block { node: caller });
        self.heap_groups.insert(node, group);
        group
    }

    fn allocator(&self, hook: u32) -> u32 {
        let known = self.options.allocators.get(hook as usize);
        // Its own number, out of the way of the listed ones.
        known.copied().unwrap_or(hook | 1 << 31)
    }

    fn allocate(&mut self, space: SpaceIndex, hook: u32, address: u64, bytes: u64, group: u32) {
        if address == 0 {
            return;
        }
        let allocator = self.allocator(hook);
        self.place(space, address, bytes, Kind::Heap, group, allocator, self.now);
    }

    fn free(&mut self, space: SpaceIndex, thread: Thread, hook: u32, address: u64) {
        if address == 0 {
            return;
        }
        let Some(block) = self.block_at(space, address, self.allocator(hook)) else {
            self.anomalies.unmatched += 1;
            return;
        };
        let (hot, cold) = (self.hot[block as usize], self.cold[block as usize]);
        let parked = Parked {
            space,
            hook,
            start: hot.start,
            group: hot.group,
            death: self.now,
            cold,
        };
        self.remove(space, block, false);
        if let Some(before) = self.parked.insert(thread.0, parked) {
            self.bury(&before);
        }
    }

    /// A block that was given back is really gone.
    fn bury(&mut self, parked: &Parked) {
        if !parked.cold.copied {
            self.groups.all[parked.group as usize].end(parked.death - parked.cold.birth);
        }
    }

    /// Whether this thread has given back this block, by this function, and nothing since.
    fn is_parked(&self, space: SpaceIndex, thread: Thread, hook: u32, address: u64) -> bool {
        let parked = self.parked.get(&thread.0);
        parked.is_some_and(|parked| parked.start == address && parked.space == space && parked.hook == hook)
    }

    fn resize(
        &mut self,
        space: SpaceIndex,
        thread: Thread,
        hook: u32,
        old: u64,
        (address, bytes): (u64, u64),
        group: u32,
    ) {
        if old == 0 {
            return self.allocate(space, hook, address, bytes, group);
        }
        if !self.is_parked(space, thread, hook, old) {
            if address == 0 && bytes != 0 {
                return;
            }
            self.free(space, thread, hook, old);
            if !self.is_parked(space, thread, hook, old) {
                return self.allocate(space, hook, address, bytes, group);
            }
        }
        if address == 0 && bytes == 0 {
            return;
        }
        let Some(mut parked) = self.parked.remove(&thread.0) else {
            return;
        };
        let before = parked.cold.bytes;
        let (start, now) = match address {
            0 => (old, before),
            _ => (address, bytes),
        };
        if !parked.cold.copied {
            let group = &mut self.groups.all[parked.group as usize];
            group.bytes += now.saturating_sub(before);
            group.resized += u64::from(address != 0);
        }
        parked.cold.bytes = now;
        self.put_back(space, start, &parked);
    }
}
