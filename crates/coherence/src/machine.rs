//! The machine: cores, their caches, the directory, the caches they share.
//!
//! **Invariants.**
//! - A line is in a core's outermost private cache exactly if the directory says that the core
//!   holds it; what is in an inner one is in all further out.
//! - A line has at most one owner, and only that one may write to it. Unless it is `Owned`, no
//!   other core holds the line.
//! - `WRITABLE` is kept with a line of a first-level cache only if the line is modified there, and
//!   `CONTENDED` if and only if the directory knows the line as such.
use crate::config::{CoherenceConfig, CoherenceError, Protocol};
use crate::contended::{Contended, LineIndex, SharedLine, Use};
use crate::hash::Map;
use crate::level::Level;
use crate::place;
use memtrail_model::{Access, AccessSink, Event, Kind, Reply};

const WRITABLE: u8 = 1;
const CONTENDED: u8 = 2;

/// What a line's owner may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Nobody owns it: it is clean, and shared by those who hold it.
    None,
    /// Clean, and nowhere else.
    Exclusive(u32),
    /// Dirty, and nowhere else.
    Modified(u32),
    /// Dirty, and others may hold it as well.
    Owned(u32),
}

/// What the directory knows of a line.
#[derive(Clone, Copy, Debug)]
struct Entry {
    holders: u128,
    owner: Owner,
    contended: Option<LineIndex>,
}

const NOBODYS: Entry = Entry {
    holders: 0,
    owner: Owner::None,
    contended: None,
};

/// What a cache that all share did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SharedLevelCounts {
    /// Lines that private caches, or the level before, asked for.
    pub requests: u64,
    pub misses: u64,
    /// Lines written back to it.
    pub write_backs: u64,
}

/// What all caches did. An access to bytes of two lines counts as two.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Reads and writes.
    pub accesses: u64,
    /// Those of lines that no private cache of the core held.
    pub misses: u64,
    /// Of these, those of lines that the core lost by another core's write.
    pub true_misses: u64,
    pub false_misses: u64,
    pub upgrades: u64,
    pub invalidations: u64,
    /// Lines that came from the cache of another core that had written them.
    pub transfers: u64,
    /// Dirty lines that left private caches for the next level.
    pub write_backs: u64,
    pub shared: Vec<SharedLevelCounts>,
}

impl Totals {
    pub fn coherence_misses(&self) -> u64 {
        self.true_misses + self.false_misses
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    pub totals: Totals,
    /// All contended lines, by address space and address.
    pub lines: Vec<SharedLine>,
}

/// The private caches of a core.
#[derive(Debug)]
struct Core {
    first: Level<u8>,
    further: Vec<Level<()>>,
}

/// The part of an access that lies in one line.
#[derive(Clone, Copy)]
struct Part {
    core: u32,
    line: u64,
    used: Use,
}

impl Part {
    fn bytes(&self) -> u128 {
        let size = u32::from(self.used.size);
        (u128::MAX >> (128 - size)) << self.used.offset
    }
}

/// Simulates a machine: see the crate's head.
pub struct Coherence {
    config: CoherenceConfig,
    shift: u32,
    cores: Vec<Option<Core>>,
    /// What all share; with a line: whether it is dirty.
    shared: Vec<Level<bool>>,
    directory: Map<u64, Entry>,
    contended: Contended,
    /// How many contended lines have been told.
    told: usize,
    /// By thread.
    spaces: Vec<u32>,
    totals: Totals,
}

impl Coherence {
    pub fn new(config: &CoherenceConfig) -> Result<Coherence, CoherenceError> {
        config.check()?;
        let shared = |&geometry| Level::new(geometry, config.line);
        Ok(Coherence {
            shift: config.line.trailing_zeros(),
            cores: (0..config.cores).map(|_| None).collect(),
            shared: config.shared.iter().map(shared).collect(),
            directory: Map::default(),
            contended: Contended::default(),
            told: 0,
            spaces: Vec::new(),
            totals: Totals {
                shared: vec![SharedLevelCounts::default(); config.shared.len()],
                ..Totals::default()
            },
            config: config.clone(),
        })
    }

    /// The address space and first address of a line.
    fn address(&self, line: u64) -> (u32, u64) {
        let place = line << self.shift;
        match place >> 47 & 1 {
            0 => ((place >> 48) as u32, place & ((1 << 48) - 1)),
            _ => (0, place),
        }
    }

    /// Lines that have become contended since this was asked last.
    pub fn newly_contended(&mut self) -> Vec<(u32, u64)> {
        let lines = self
            .contended
            .lines_from(self.told)
            .map(|line| self.address(line))
            .collect();
        self.told = self.contended.len();
        lines
    }

    /// Whether there are any.
    pub fn has_news(&self) -> bool {
        self.told < self.contended.len()
    }

    /// What was found.
    pub fn finish(mut self) -> Sharing {
        let mut contended = std::mem::take(&mut self.contended);
        let lines = contended.finish(|line| self.address(line));
        for line in &lines {
            self.totals.true_misses += line.counts.true_misses;
            self.totals.false_misses += line.counts.false_misses;
        }
        Sharing {
            totals: self.totals,
            lines,
        }
    }

    fn core(&mut self, core: u32) -> &mut Core {
        let config = &self.config;
        self.cores[core as usize].get_or_insert_with(|| {
            let (first, further) = config
                .private
                .split_first()
                .expect("a checked machine has private caches");
            Core {
                first: Level::new(*first, config.line),
                further: further.iter().map(|&level| Level::new(level, config.line)).collect(),
            }
        })
    }

    /// Splits an access at the ends of lines.
    #[inline]
    fn access(&mut self, access: &Access) {
        let write = match access.kind {
            Kind::Read => false,
            Kind::Write => true,
            Kind::Prefetch | Kind::Fetch => return,
        };
        let space = self.spaces.get(access.thread.0 as usize).copied().unwrap_or(0);
        let line_bytes = u64::from(self.config.line);
        let mut at = place(space, access.addr);
        let mut left = u64::from(access.size.max(1));
        while left > 0 {
            let offset = at & (line_bytes - 1);
            let size = left.min(line_bytes - offset);
            self.part(Part {
                core: access.thread.0 % self.config.cores,
                line: at >> self.shift,
                used: Use {
                    offset: offset as u8,
                    size: size as u8,
                    write,
                    thread: access.thread,
                    point: access.point,
                },
            });
            at = at.wrapping_add(size);
            left -= size;
        }
    }

    #[inline]
    fn part(&mut self, part: Part) {
        self.totals.accesses += 1;
        let flags = self.core(part.core).first.touch(part.line).map(|flags| *flags);
        match flags {
            Some(0) if !part.used.write => {}
            Some(WRITABLE) => {}
            _ => self.ask(part, flags.is_some()),
        }
    }

    /// The directory is asked: the core does not have the line, may not write to it, or the line is
    /// contended.
    fn ask(&mut self, part: Part, in_first: bool) {
        let mut entry = self.directory.get(&part.line).copied().unwrap_or(NOBODYS);
        let bit = 1 << part.core;
        let held = entry.holders & bit != 0;
        if !held {
            self.totals.misses += 1;
            self.fetch(part, &mut entry);
        } else if part.used.write {
            self.permit(part, &mut entry);
        }
        let mut flags = match entry.owner {
            Owner::Modified(_) => WRITABLE,
            _ => 0,
        };
        if entry.contended.is_some() {
            flags |= CONTENDED;
        }
        entry.holders |= bit;
        // Known before others make room for it: they ask the directory, too.
        self.directory.insert(part.line, entry);
        match in_first {
            true => *self.core(part.core).first.peek(part.line).expect("it was touched") = flags,
            false => self.fill(part, held, flags),
        }
        if let Some(line) = entry.contended {
            self.contended.used(line, part.core, part.used, part.bytes());
        }
    }

    /// A core gets a line that it does not hold.
    fn fetch(&mut self, part: Part, entry: &mut Entry) {
        let dirty = matches!(entry.owner, Owner::Modified(_) | Owner::Owned(_));
        if let Some(line) = entry.contended {
            self.contended.filled(line, part.core, part.used);
        }
        if dirty {
            let line = self.contend(part.line, entry);
            self.contended.count(line, part.used).transfers += 1;
            self.totals.transfers += 1;
        } else {
            self.read_shared(part.line, 0);
        }
        if part.used.write {
            self.take_away(part, entry);
            entry.owner = Owner::Modified(part.core);
            return;
        }
        entry.owner = match entry.owner {
            Owner::None if entry.holders == 0 => Owner::Exclusive(part.core),
            Owner::None => Owner::None,
            Owner::Exclusive(_) => Owner::None,
            Owner::Modified(owner) => {
                let kept = self.core(owner).first.peek(part.line);
                kept.into_iter().for_each(|flags| *flags &= !WRITABLE);
                match self.config.protocol {
                    Protocol::Moesi => Owner::Owned(owner),
                    Protocol::Mesi => {
                        self.write_back(part.line);
                        Owner::None
                    }
                }
            }
            owned @ Owner::Owned(_) => owned,
        };
    }

    /// A core that holds a line writes to it.
    fn permit(&mut self, part: Part, entry: &mut Entry) {
        match entry.owner {
            Owner::Modified(_) | Owner::Exclusive(_) => {}
            Owner::None | Owner::Owned(_) => {
                self.totals.upgrades += 1;
                self.take_away(part, entry);
                if let Some(line) = entry.contended {
                    self.contended.count(line, part.used).upgrades += 1;
                }
            }
        }
        entry.owner = Owner::Modified(part.core);
    }

    /// All other cores lose the line.
    fn take_away(&mut self, part: Part, entry: &mut Entry) {
        let mut others = entry.holders & !(1 << part.core);
        entry.holders &= 1 << part.core;
        while others != 0 {
            let core = others.trailing_zeros();
            others &= others - 1;
            let there = self.core(core);
            there.first.remove(part.line);
            for level in &mut there.further {
                level.remove(part.line);
            }
            self.totals.invalidations += 1;
            let line = self.contend(part.line, entry);
            self.contended.count(line, part.used).invalidations += 1;
            self.contended.invalidated(line, core, part.used.thread);
        }
    }

    /// The number of a line that is contended from now on, if it was not before. Cores that hold it
    /// have to ask from now on.
    fn contend(&mut self, line: u64, entry: &mut Entry) -> LineIndex {
        if let Some(known) = entry.contended {
            return known;
        }
        let index = self.contended.begin(line);
        entry.contended = Some(index);
        let mut holders = entry.holders;
        while holders != 0 {
            let kept = self.core(holders.trailing_zeros()).first.peek(line);
            kept.into_iter().for_each(|flags| *flags |= CONTENDED);
            holders &= holders - 1;
        }
        index
    }

    /// Puts a line in the private caches that do not have it, from the outermost inwards. `held`: it
    /// is in the outermost.
    fn fill(&mut self, part: Part, held: bool, flags: u8) {
        let core = self.core(part.core);
        let mut lost = None;
        // The innermost of the further levels that has it; those before it have not.
        let has = core
            .further
            .iter_mut()
            .position(|level| level.touch(part.line).is_some());
        debug_assert_eq!(has.is_some(), held);
        let outermost = core.further.len();
        for i in (0..has.unwrap_or(outermost)).rev() {
            let (inner, level) = core.further[..=i].split_at_mut(i);
            if let Some((old, ())) = level[0].place(part.line, ()) {
                core.first.remove(old);
                for level in inner {
                    level.remove(old);
                }
                lost = lost.or((i + 1 == outermost).then_some(old));
            }
        }
        if let Some((old, _)) = core.first.place(part.line, flags) {
            lost = lost.or((outermost == 0).then_some(old));
        }
        if let Some(line) = lost {
            self.evicted(part.core, line);
        }
    }

    /// A core has no room for a line any more.
    fn evicted(&mut self, core: u32, line: u64) {
        let Some(mut entry) = self.directory.get(&line).copied() else {
            return;
        };
        entry.holders &= !(1 << core);
        match entry.owner {
            Owner::Modified(owner) | Owner::Owned(owner) if owner == core => {
                entry.owner = Owner::None;
                self.write_back(line);
            }
            Owner::Exclusive(owner) if owner == core => entry.owner = Owner::None,
            _ => {}
        }
        if let Some(contended) = entry.contended {
            self.contended.evicted(contended, core);
        }
        if entry.holders == 0 && entry.contended.is_none() {
            self.directory.remove(&line);
        } else {
            self.directory.insert(line, entry);
        }
    }

    /// Asks the shared level with this number for a line; beyond the last is memory.
    fn read_shared(&mut self, line: u64, level: usize) {
        if level == self.shared.len() {
            return;
        }
        self.totals.shared[level].requests += 1;
        if self.shared[level].touch(line).is_some() {
            return;
        }
        self.totals.shared[level].misses += 1;
        self.read_shared(line, level + 1);
        self.place_shared(line, level, false);
    }

    fn place_shared(&mut self, line: u64, level: usize, dirty: bool) {
        if let Some((old, true)) = self.shared[level].place(line, dirty) {
            self.write_to_shared(old, level + 1);
        }
    }

    /// A dirty line leaves the private caches.
    fn write_back(&mut self, line: u64) {
        self.totals.write_backs += 1;
        self.write_to_shared(line, 0);
    }

    fn write_to_shared(&mut self, line: u64, level: usize) {
        if level == self.shared.len() {
            return;
        }
        self.totals.shared[level].write_backs += 1;
        match self.shared[level].touch(line) {
            Some(dirty) => *dirty = true,
            None => self.place_shared(line, level, true),
        }
    }
}

impl AccessSink for Coherence {
    fn accesses(&mut self, batch: &[Access]) {
        batch.iter().for_each(|access| self.access(access));
    }

    fn event(&mut self, event: Event<'_>) -> Reply {
        if let Event::Space { thread, space } = event {
            let at = thread.0 as usize;
            if self.spaces.len() <= at {
                self.spaces.resize(at + 1, 0);
            }
            self.spaces[at] = space;
        }
        Reply::NOTHING
    }
}
