//! A textbook model of translation, written from `docs/paging.md`: TLBs are lists with the time of
//! each entry's last use, page tables are words in a memory that a walk really reads.
use memtrail_model::{Access, Kind, Point, Thread};
use memtrail_paging::{data_point, walk_point, PagingConfig, TranslationCounts};
use std::collections::{BTreeMap, BTreeSet};

const PHYSICAL: u64 = 1 << 63;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    space: u32,
    shift: u32,
    number: u64,
}

/// Entries with the time of their last use.
#[derive(Default)]
struct Array {
    entries: Vec<(Entry, u64)>,
    sets: u64,
    ways: usize,
}

impl Array {
    fn used(&mut self, entry: Entry, now: u64) -> bool {
        let found = self.entries.iter_mut().find(|(known, _)| *known == entry);
        found.map(|(_, used)| *used = now).is_some()
    }

    fn put(&mut self, entry: Entry, now: u64) {
        let set = entry.number % self.sets;
        let in_set = |&(other, _): &(Entry, u64)| other.number % self.sets == set;
        if self.entries.iter().filter(|e| in_set(e)).count() == self.ways {
            let oldest = self
                .entries
                .iter()
                .filter(|e| in_set(e))
                .map(|&(_, used)| used)
                .min()
                .unwrap();
            self.entries.retain(|&(_, used)| used != oldest);
        }
        self.entries.push((entry, now));
    }

    fn forget(&mut self, space: u32, first: u64, last: u64) {
        self.entries.retain(|(entry, _)| {
            let low = entry.number << entry.shift;
            let high = low + ((1 << entry.shift) - 1);
            entry.space != space || high < first || low > last
        });
    }
}

struct Core {
    tlbs: Vec<Array>,
    /// By shift.
    walk_caches: BTreeMap<u32, Array>,
}

pub struct Plain {
    config: PagingConfig,
    physical: bool,
    /// Space, shift, number of each page that is not small.
    pub plan: BTreeSet<(u32, u32, u64)>,
    cores: BTreeMap<u32, Core>,
    spaces: BTreeMap<u32, u32>,
    roots: BTreeMap<u32, u64>,
    /// Directory entries: physical address, and the table it points to.
    memory: BTreeMap<u64, u64>,
    /// Space, shift, number: where it is, and whether it is shared after a fork.
    pages: BTreeMap<(u32, u32, u64), (u64, bool)>,
    small: u64,
    large: u64,
    now: u64,
    pub counts: BTreeMap<u32, TranslationCounts>,
    pub out: Vec<Access>,
}

impl Plain {
    pub fn new(config: &PagingConfig, physical: bool) -> Plain {
        Plain {
            config: config.clone(),
            physical,
            plan: BTreeSet::new(),
            cores: BTreeMap::new(),
            spaces: BTreeMap::new(),
            roots: BTreeMap::new(),
            memory: BTreeMap::new(),
            pages: BTreeMap::new(),
            small: 4096,
            large: 1 << 40,
            now: 0,
            counts: BTreeMap::new(),
            out: Vec::new(),
        }
    }

    pub fn set_space(&mut self, thread: Thread, space: u32) {
        self.spaces.insert(thread.0, space);
    }

    fn frame(&mut self, shift: u32) -> u64 {
        if shift == 12 {
            self.small += 4096;
            return self.small - 4096;
        }
        while self.large % (1 << shift) != 0 {
            self.large += 4096;
        }
        self.large += 1 << shift;
        self.large - (1 << shift)
    }

    fn core(&mut self, thread: Thread) -> u32 {
        let number = match self.config.cores {
            Some(cores) => thread.0 % cores,
            None => thread.0,
        };
        let array = |entries: u32, ways: u32| Array {
            entries: Vec::new(),
            sets: u64::from(entries / ways),
            ways: ways as usize,
        };
        let config = &self.config;
        self.cores.entry(number).or_insert_with(|| Core {
            tlbs: config.arrays.iter().map(|a| array(a.entries, a.ways)).collect(),
            walk_caches: config
                .walk_caches
                .iter()
                .map(|c| (c.shift, array(c.entries, c.ways)))
                .collect(),
        });
        number
    }

    fn canonical(&self, address: u64) -> u64 {
        address % (1 << (12 + 9 * self.config.levels))
    }

    fn shift_of(&self, space: u32, address: u64) -> u32 {
        let larger = (13..=30)
            .rev()
            .find(|&shift| self.plan.contains(&(space, shift, address >> shift)));
        larger.unwrap_or(12)
    }

    /// The size that TLBs hold it by.
    fn held(&self, shift: u32) -> u32 {
        let all = self
            .config
            .arrays
            .iter()
            .flat_map(|a| &a.sizes)
            .map(|size| size.shift());
        all.filter(|&held| held <= shift).max().unwrap()
    }

    pub fn access(&mut self, access: &Access) {
        let space = self.spaces.get(&access.thread.0).copied().unwrap_or(0);
        let mut byte = 0;
        let size = u64::from(access.size.max(1));
        let data = Point(data_point(access.point.0));
        while byte < size {
            let address = access.addr.wrapping_add(byte);
            let (held, start) = self.page(space, address, access);
            let rest = (1u64 << held) - address % (1 << held);
            let piece = rest.min(size - byte);
            if self.physical {
                self.out.push(Access {
                    point: data,
                    addr: PHYSICAL + start + address % (1 << held),
                    size: piece as u32,
                    ..*access
                });
            }
            byte += piece;
        }
        if !self.physical {
            self.out.push(Access { point: data, ..*access });
        }
    }

    /// Translates one address: how large the piece is that TLBs hold, and where it begins.
    fn page(&mut self, space: u32, address: u64, access: &Access) -> (u32, u64) {
        self.now += 1;
        let address = self.canonical(address);
        let shift = self.shift_of(space, address);
        let id = (space, shift, address >> shift);
        if access.kind == Kind::Write && self.pages.get(&id).is_some_and(|page| page.1) {
            let frame = self.frame(shift);
            self.pages.insert(id, (frame, false));
            let first = address >> shift << shift;
            self.forget(space, first, first + (1 << shift) - 1, false);
        }
        let held = self.held(shift);
        let entry = Entry {
            space,
            shift: held,
            number: address >> held,
        };
        let core = self.core(access.thread);
        let depth = self.config.arrays.iter().map(|a| a.level).max().unwrap();
        let mut found = None;
        for level in 1..=depth {
            let mut hit = false;
            for (at, array) in self.config.arrays.iter().enumerate() {
                if array.level == level && array.sizes.iter().any(|size| size.shift() == held) {
                    hit |= self.cores.get_mut(&core).unwrap().tlbs[at].used(entry, self.now);
                }
            }
            if hit {
                found = Some(level);
                break;
            }
            self.counts.entry(access.point.0).or_default().misses[usize::from(level) - 1] += 1;
        }
        if found.is_none() {
            self.walk(core, space, address, shift, access);
        }
        for (at, array) in self.config.arrays.iter().enumerate() {
            let holds = array.sizes.iter().any(|size| size.shift() == held);
            if holds && array.level < found.unwrap_or(u8::MAX) {
                self.cores.get_mut(&core).unwrap().tlbs[at].put(entry, self.now);
            }
        }
        if !self.pages.contains_key(&id) {
            let frame = self.frame(shift);
            self.pages.insert(id, (frame, false));
        }
        let piece = (address % (1 << shift)) >> held << held;
        (held, self.pages[&id].0 + piece)
    }

    fn walk(&mut self, core: u32, space: u32, address: u64, shift: u32, access: &Access) {
        let top = 12 + 9 * (self.config.levels - 1);
        let leaf = if shift >= 30 {
            30
        } else if shift >= 21 {
            21
        } else {
            12
        };
        // The deepest directory entry that is remembered.
        let mut known = None;
        for at in [21, 30, 39, 48] {
            let entry = Entry {
                space,
                shift: at,
                number: address >> at,
            };
            let caches = &mut self.cores.get_mut(&core).unwrap().walk_caches;
            let there = caches
                .get_mut(&at)
                .is_some_and(|cache| at > leaf && at <= top && cache.used(entry, self.now));
            if there {
                known = Some(at);
                break;
            }
        }
        self.counts.entry(access.point.0).or_default().walks += 1;
        if !self.roots.contains_key(&space) {
            let root = self.frame(12);
            self.roots.insert(space, root);
        }
        let mut table = self.roots[&space];
        let mut at = top;
        loop {
            let word = table + (address >> at) % 512 * 8;
            if known.is_none_or(|known| at < known) {
                self.counts.entry(access.point.0).or_default().requests += 1;
                self.out.push(Access {
                    pc: access.pc,
                    addr: PHYSICAL + word,
                    size: 8,
                    point: Point(walk_point(access.point.0)),
                    thread: access.thread,
                    kind: Kind::Read,
                });
                if at > leaf {
                    let entry = Entry {
                        space,
                        shift: at,
                        number: address >> at,
                    };
                    let caches = &mut self.cores.get_mut(&core).unwrap().walk_caches;
                    if let Some(cache) = caches.get_mut(&at) {
                        cache.put(entry, self.now);
                    }
                }
            }
            if at == leaf {
                return;
            }
            if !self.memory.contains_key(&word) {
                let next = self.frame(12);
                self.memory.insert(word, next);
            }
            table = self.memory[&word];
            at -= 9;
        }
    }

    fn forget(&mut self, space: u32, first: u64, last: u64, directories: bool) {
        for core in self.cores.values_mut() {
            core.tlbs.iter_mut().for_each(|tlb| tlb.forget(space, first, last));
            if directories {
                core.walk_caches
                    .values_mut()
                    .for_each(|cache| cache.forget(space, first, last));
            }
        }
    }

    pub fn unmap(&mut self, thread: Thread, address: u64, bytes: u64) {
        let space = self.spaces.get(&thread.0).copied().unwrap_or(0);
        let last = address + bytes - 1;
        self.pages.retain(|&(of, shift, number), _| {
            let low = number << shift;
            of != space || low + ((1 << shift) - 1) < address || low > last
        });
        self.forget(space, address, last, true);
    }

    pub fn fork(&mut self, parent: u32, child: u32) {
        self.pages.retain(|&(space, ..), _| space != child);
        let mut copies = Vec::new();
        for (&(space, shift, number), page) in &mut self.pages {
            if space == parent {
                page.1 = true;
                copies.push(((child, shift, number), *page));
            }
        }
        self.pages.extend(copies);
        // The child's tables are its own.
        self.roots.remove(&child);
        self.forget(parent, 0, u64::MAX, false);
        self.forget(child, 0, u64::MAX, true);
    }
}
