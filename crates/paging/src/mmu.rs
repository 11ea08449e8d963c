//! Translates accesses on their way to a cache simulator: see the crate's head.
//!
//! **Fast**, because an access to the page that its core accessed last needs no look-up: that
//! translation is the most recently used one of its set, so a hit changes nothing. That is so only
//! of pages that the first level holds; and whatever takes translations out of a TLB also forgets
//! that page.
use crate::config::{PageSize, PagingConfig, PagingError, TlbArray};
use crate::counts::TranslationCounts;
use crate::plan::PagePlan;
use crate::tables::Tables;
use crate::tlb::{Tag, Tlb};
use memtrail_model::{Access, AccessSink, Event, Kind, Note, Point, Reply, SinkAdapter, Thread, Wants};

/// Where physical memory lies for cache simulators, to which virtual addresses of all processes lie
/// below 2^63.
pub const PHYSICAL: u64 = 1 << 63;

/// What the cache simulator calls the accesses of a reference point.
pub const fn data_point(point: u32) -> u32 {
    point * 2
}

/// What it calls the walks on behalf of one.
pub const fn walk_point(point: u32) -> u32 {
    point * 2 + 1
}

/// What is wanted of a translation.
#[derive(Clone, Debug, Default)]
pub struct MmuOptions {
    /// Data goes to the caches by physical address, too.
    pub physical: bool,
    pub plan: PagePlan,
}

/// The page that a core accessed last.
#[derive(Clone, Copy, Debug)]
struct Last {
    space: u32,
    first: u64,
    /// Bytes; 0 if there is none.
    bytes: u64,
    /// Where it begins in physical memory.
    start: u64,
    /// It is shared after a fork.
    copied: bool,
}

impl Last {
    const NONE: Last = Last {
        space: 0,
        first: 0,
        bytes: 0,
        start: 0,
        copied: false,
    };

    #[inline]
    fn holds(&self, space: u32, address: u64, write: bool) -> bool {
        address.wrapping_sub(self.first) < self.bytes && self.space == space && !(write && self.copied)
    }
}

#[derive(Debug)]
struct Core {
    /// As configured.
    tlbs: Vec<Tlb>,
    /// In the order of [`Mmu::walk_shifts`].
    walk_caches: Vec<Tlb>,
    last: Last,
}

/// Translation before a cache simulator.
#[derive(Debug)]
pub struct Mmu<S> {
    sink: S,
    config: PagingConfig,
    physical: bool,
    tables: Tables,
    cores: Vec<Option<Core>>,
    /// By thread: its address space.
    spaces: Vec<u32>,
    /// What page-walk caches hold, the lowest shift first.
    walk_shifts: Vec<u32>,
    /// By reference point.
    counts: Vec<TranslationCounts>,
    out: Vec<Access>,
}

impl<S: AccessSink> Mmu<S> {
    pub fn new(config: &PagingConfig, options: MmuOptions, sink: S) -> Result<Mmu<S>, PagingError> {
        config.check()?;
        let mut config = config.clone();
        config.walk_caches.sort_by_key(|cache| cache.shift);
        Ok(Mmu {
            sink,
            physical: options.physical,
            tables: Tables::new(config.levels, options.plan),
            cores: Vec::new(),
            spaces: Vec::new(),
            walk_shifts: config.walk_caches.iter().map(|cache| cache.shift).collect(),
            counts: Vec::new(),
            out: Vec::new(),
            config,
        })
    }

    /// By reference point, up to the last that has counted anything.
    pub fn counts(&self) -> &[TranslationCounts] {
        &self.counts
    }

    pub fn config(&self) -> &PagingConfig {
        &self.config
    }

    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    pub(crate) fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    fn space(&self, thread: Thread) -> u32 {
        self.spaces.get(thread.0 as usize).copied().unwrap_or(0)
    }

    fn core(&mut self, thread: Thread) -> usize {
        let at = self.config.cores.map_or(thread.0, |cores| thread.0 % cores) as usize;
        if self.cores.len() <= at {
            self.cores.resize_with(at + 1, || None);
        }
        let config = &self.config;
        self.cores[at].get_or_insert_with(|| Core {
            tlbs: config.arrays.iter().map(|a| Tlb::new(a.entries, a.ways)).collect(),
            walk_caches: config.walk_caches.iter().map(|c| Tlb::new(c.entries, c.ways)).collect(),
            last: Last::NONE,
        });
        at
    }

    /// One access: its walks, then itself.
    fn access(&mut self, core: usize, space: u32, access: &Access) {
        let data = Point(data_point(access.point.0));
        if access.kind == Kind::Fetch {
            self.out.push(Access { point: data, ..*access });
            return;
        }
        let (mut address, mut left) = (access.addr, u64::from(access.size.max(1)));
        loop {
            let last = self.translated(core, space, address, access);
            let here = (last.first + (last.bytes - 1))
                .wrapping_sub(address)
                .saturating_add(1)
                .min(left);
            if self.physical {
                self.out.push(Access {
                    point: data,
                    addr: PHYSICAL | (last.start + (address - last.first)),
                    size: here as u32,
                    ..*access
                });
            }
            left -= here;
            if left == 0 {
                break;
            }
            address = address.wrapping_add(here);
        }
        if !self.physical {
            self.out.push(Access { point: data, ..*access });
        }
    }

    /// The page of an address, which its core has translated then.
    #[inline]
    fn translated(&mut self, core: usize, space: u32, address: u64, access: &Access) -> Last {
        let write = access.kind == Kind::Write;
        match &self.cores[core] {
            Some(known) if known.last.holds(space, address, write) => known.last,
            _ => self.translate(core, space, address, access),
        }
    }

    fn translate(&mut self, core: usize, space: u32, address: u64, access: &Access) -> Last {
        let within = self.tables.translated(address);
        let size = self.tables.plan.size(space, within);
        if access.kind == Kind::Write && self.tables.is_copied(space, within, size) {
            self.tables.copy(space, within, size);
            let first = size.page(within) << size.shift();
            self.shoot_down(space, first, first + (size.bytes() - 1));
        }
        let held = self.config.held_as(size);
        let tag = Tag::of(space, within, held.shift());
        let hit = self.look_up(core, tag, held, access.point);
        if hit.is_none() {
            self.walk(core, space, within, size, access);
        }
        self.fill(core, tag, held, hit);
        let page = self.tables.page(space, within);
        // A page that is held in pieces is known by the piece.
        let inside = within & (size.bytes() - 1);
        let known = Last {
            space,
            first: address & !(held.bytes() - 1),
            bytes: held.bytes(),
            start: page.start + (inside & !(held.bytes() - 1)),
            copied: page.copied,
        };
        let in_first = self.config.arrays.iter().any(|array| array.holds(1, held));
        if let Some(core) = &mut self.cores[core] {
            core.last = if in_first { known } else { Last::NONE };
        }
        known
    }

    /// The level that has a translation.
    fn look_up(&mut self, core: usize, tag: Tag, held: PageSize, point: Point) -> Option<u8> {
        let (config, core) = (&self.config, self.cores[core].as_mut()?);
        for level in 1..=config.depth() as u8 {
            let at = config.arrays.iter().position(|array| array.holds(level, held));
            if at.is_some_and(|at| core.tlbs[at].look_up(tag)) {
                return Some(level);
            }
            counted(&mut self.counts, point).misses[usize::from(level) - 1] += 1;
        }
        None
    }

    /// Puts a translation into the levels above the one that had it; into all, if none had.
    fn fill(&mut self, core: usize, tag: Tag, held: PageSize, hit: Option<u8>) {
        let Some(core) = &mut self.cores[core] else { return };
        let above = |array: &TlbArray| array.sizes.contains(&held) && hit.is_none_or(|hit| array.level < hit);
        let arrays = self.config.arrays.iter().zip(&mut core.tlbs);
        arrays
            .filter(|(array, _)| above(array))
            .for_each(|(_, tlb)| tlb.insert(tag));
    }

    /// Reads table entries, from below the deepest directory entry that a page-walk cache has.
    fn walk(&mut self, core: usize, space: u32, address: u64, size: PageSize, access: &Access) {
        let (leaf, root) = (size.leaf_shift(), self.tables.root());
        let Some(core) = &mut self.cores[core] else { return };
        let caches = || {
            self.walk_shifts
                .iter()
                .enumerate()
                .filter(|(_, &shift)| shift > leaf && shift <= root)
        };
        let known = caches().find(|&(at, &shift)| core.walk_caches[at].look_up(Tag::of(space, address, shift)));
        let mut shift = known.map_or(root, |(_, &shift)| shift - 9);
        let counts = counted(&mut self.counts, access.point);
        counts.walks += 1;
        loop {
            let entry = self.tables.entry(space, address, shift);
            counts.requests += 1;
            self.out.push(Access {
                pc: access.pc,
                addr: PHYSICAL | entry,
                size: 8,
                point: Point(walk_point(access.point.0)),
                thread: access.thread,
                kind: Kind::Read,
            });
            if shift == leaf {
                break;
            }
            if let Some((at, _)) = caches().find(|(_, &cached)| cached == shift) {
                core.walk_caches[at].insert(Tag::of(space, address, shift));
            }
            shift -= 9;
        }
    }

    /// Translations of [first, last] go from all cores.
    fn shoot_down(&mut self, space: u32, first: u64, last: u64) {
        for core in self.cores.iter_mut().flatten() {
            core.tlbs.iter_mut().for_each(|tlb| tlb.invalidate(space, first, last));
            core.last = Last::NONE;
        }
    }

    /// Memory went away.
    fn unmap(&mut self, space: u32, address: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let first = self.tables.translated(address);
        let end = self.tables.translated(u64::MAX);
        let last = first.saturating_add(bytes - 1).min(end);
        self.tables.unmap(space, first, last);
        self.shoot_down(space, first, last);
        self.forget_directories(space, first, last);
    }

    /// Directory entries that page-walk caches remember go with any of what they cover.
    fn forget_directories(&mut self, space: u32, first: u64, last: u64) {
        for core in self.cores.iter_mut().flatten() {
            let caches = core.walk_caches.iter_mut();
            caches.for_each(|cache| cache.invalidate(space, first, last));
        }
    }

    fn note(&mut self, thread: Thread, note: &Note) {
        let space = self.space(thread);
        match *note {
            Note::Unmap { address, bytes } | Note::Map { address, bytes, .. } => self.unmap(space, address, bytes),
            Note::Remap { old, old_bytes, .. } => self.unmap(space, old, old_bytes),
            _ => {}
        }
    }
}

impl TlbArray {
    fn holds(&self, level: u8, size: PageSize) -> bool {
        self.level == level && self.sizes.contains(&size)
    }
}

fn counted(counts: &mut Vec<TranslationCounts>, point: Point) -> &mut TranslationCounts {
    let at = point.index();
    if counts.len() <= at {
        counts.resize(at + 1, TranslationCounts::default());
    }
    &mut counts[at]
}

impl<S: AccessSink> SinkAdapter for Mmu<S> {
    type Inner = S;
    fn inner(&self) -> &S {
        &self.sink
    }
    fn inner_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Loops come as accesses; memory that goes away is of interest.
    fn adjust(&self, wants: Wants) -> Wants {
        Wants {
            loops: None,
            repeats: false,
            notes: true,
            ..wants
        }
    }

    fn pass(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        let (core, space) = (self.core(first.thread), self.space(first.thread));
        self.out.clear();
        batch.iter().for_each(|access| self.access(core, space, access));
        let out = std::mem::take(&mut self.out);
        self.sink.accesses(&out);
        self.out = out;
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Loop(_) | Event::Enter(_) | Event::Iterated { .. } | Event::Leave => return Reply::NOTHING,
            Event::Space { thread, space } => {
                let at = thread.0 as usize;
                if self.spaces.len() <= at {
                    self.spaces.resize(at + 1, 0);
                }
                self.spaces[at] = space;
            }
            Event::Fork { parent, child } => {
                self.tables.fork(parent, child);
                // Both sides may only read what was writable.
                self.shoot_down(parent, 0, u64::MAX);
                self.shoot_down(child, 0, u64::MAX);
                self.forget_directories(child, 0, u64::MAX);
            }
            Event::Note { thread, note, .. } => self.note(thread, note),
            _ => {}
        }
        self.sink.event(event)
    }
}
