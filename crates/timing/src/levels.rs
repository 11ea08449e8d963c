//! What does not depend on time: at which level accesses hit, and which pages are known.
//!
//! Caches are those of `docs/simulation.md` with the defaults of everything but geometry: LRU,
//! written back, nothing inclusive. A test holds the hits and misses to the simulator's.
use memtrail_simulate::config::Shared;
use memtrail_simulate::{Hierarchy, Level};

/// Sets of tags, the last used first; a tag of 0 is none.
#[derive(Clone, Debug)]
struct Tags {
    sets: u64,
    ways: usize,
    /// Twice (line + 1), plus 1 if it is dirty.
    all: Vec<u64>,
}

impl Tags {
    fn new(sets: u64, ways: u32) -> Tags {
        Tags {
            sets,
            ways: ways as usize,
            all: vec![0; sets as usize * ways as usize],
        }
    }

    #[inline]
    fn set(&mut self, line: u64) -> &mut [u64] {
        let set = match self.sets.is_power_of_two() {
            true => line & (self.sets - 1),
            false => line % self.sets,
        };
        let begin = set as usize * self.ways;
        &mut self.all[begin..begin + self.ways]
    }

    /// Whether a line is there; this uses it, and perhaps makes it dirty.
    #[inline]
    fn look_up(&mut self, line: u64, dirty: bool) -> bool {
        let tag = (line + 1) << 1;
        let set = self.set(line);
        if set[0] >> 1 == tag >> 1 {
            set[0] |= u64::from(dirty);
            return true;
        }
        let Some(way) = set.iter().position(|&t| t >> 1 == tag >> 1) else {
            return false;
        };
        let found = set[way] | u64::from(dirty);
        set.copy_within(..way, 1);
        set[0] = found;
        true
    }

    fn has(&mut self, line: u64) -> bool {
        self.set(line).iter().any(|&tag| tag >> 1 == line + 1)
    }

    /// Puts a line in that is not there. Returns the dirty line that made room.
    #[inline]
    fn place(&mut self, line: u64, dirty: bool) -> Option<u64> {
        let set = self.set(line);
        let last = set.len() - 1;
        let old = set[last];
        set.copy_within(..last, 1);
        set[0] = (line + 1) << 1 | u64::from(dirty);
        (old & 1 == 1).then(|| (old >> 1) - 1)
    }
}

/// Where an access was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit {
    /// The level that had all of it; as many as there are on the path for memory.
    pub level: u8,
    /// The first of its lines that had to come from there, or its first line.
    pub line: u64,
}

/// The caches of a machine.
#[derive(Clone, Debug)]
pub struct LevelStack {
    levels: Vec<Level>,
    shift: u32,
    /// By level and group of cores.
    caches: Vec<Vec<Option<Tags>>>,
    /// Which levels data, and instructions, pass through.
    data: Vec<usize>,
    instructions: Vec<usize>,
}

impl LevelStack {
    /// Of a checked hierarchy whose levels have lines of one size.
    pub fn new(hierarchy: &Hierarchy) -> LevelStack {
        let levels = hierarchy.levels.clone();
        let on_path = |on: fn(&Level) -> bool| {
            let numbered = levels.iter().enumerate();
            numbered.filter(|(_, level)| on(level)).map(|(n, _)| n).collect()
        };
        LevelStack {
            shift: levels.first().map_or(6, |level| level.line.trailing_zeros()),
            caches: vec![Vec::new(); levels.len()],
            data: on_path(|level| level.holds.data()),
            instructions: on_path(|level| level.holds.instructions()),
            levels,
        }
    }

    /// Levels that data pass through.
    #[inline]
    pub fn data_levels(&self) -> usize {
        self.data.len()
    }

    /// As a power of two.
    #[inline]
    pub fn line_bits(&self) -> u32 {
        self.shift
    }

    /// An access of a core's to data.
    #[inline]
    pub fn data(&mut self, core: u32, addr: u64, size: u32, write: bool) -> Hit {
        let first = addr >> self.shift;
        let last = addr.wrapping_add(u64::from(size.max(1)) - 1) >> self.shift;
        let level = self.line(core, first, write, false);
        let mut hit = Hit { level, line: first };
        let mut line = first;
        while line != last && last > first {
            line += 1;
            let level = self.line(core, line, write, false);
            if level > hit.level {
                hit = Hit { level, line };
            }
        }
        hit
    }

    /// The fetch of a line of instructions.
    #[inline]
    pub fn fetch(&mut self, core: u32, line: u64) -> u8 {
        match self.instructions.is_empty() {
            true => 0,
            false => self.line(core, line, false, true),
        }
    }

    /// Brings a line in unless it is in the first level. Returns where it was.
    pub fn prefetch(&mut self, core: u32, line: u64) -> Option<u8> {
        let number = *self.data.first()?;
        match self.cache(number, core).has(line) {
            true => None,
            false => Some(self.line(core, line, false, false)),
        }
    }

    #[inline]
    fn cache(&mut self, number: usize, core: u32) -> &mut Tags {
        let level = &self.levels[number];
        let group = match level.shared {
            Shared::All => 0,
            Shared::By(cores) => (core / cores) as usize,
        };
        let groups = &mut self.caches[number];
        if groups.len() <= group {
            groups.resize_with(group + 1, || None);
        }
        groups[group].get_or_insert_with(|| Tags::new(level.sets(), level.ways))
    }

    #[inline]
    fn line(&mut self, core: u32, line: u64, write: bool, fetch: bool) -> u8 {
        let number = if fetch { self.instructions[0] } else { self.data[0] };
        match self.cache(number, core).look_up(line, write) {
            true => 0,
            false => self.miss(core, line, write, fetch),
        }
    }

    /// Asks the levels behind the first, and places the line on the way back.
    fn miss(&mut self, core: u32, line: u64, write: bool, fetch: bool) -> u8 {
        let depth = if fetch {
            self.instructions.len()
        } else {
            self.data.len()
        };
        let number = |stack: &LevelStack, n: usize| if fetch { stack.instructions[n] } else { stack.data[n] };
        let mut found = 1;
        while found < depth {
            let at = number(self, found);
            if self.cache(at, core).look_up(line, false) {
                break;
            }
            found += 1;
        }
        for n in (0..found).rev() {
            let at = number(self, n);
            let old = self.cache(at, core).place(line, write && n == 0);
            if let Some(old) = old {
                self.write_back(core, old, at + 1);
            }
        }
        found as u8
    }

    /// A dirty line goes to the next level that holds data, from `number` on.
    fn write_back(&mut self, core: u32, line: u64, number: usize) {
        let next = (number..self.levels.len()).find(|&n| self.levels[n].holds.data());
        let Some(next) = next else { return };
        if !self.cache(next, core).look_up(line, true) {
            if let Some(old) = self.cache(next, core).place(line, true) {
                self.write_back(core, old, next + 1);
            }
        }
    }
}

/// Translation buffers of one core, for pages of 4 KiB.
#[derive(Clone, Debug)]
pub struct Translation {
    levels: Vec<(Tags, u32)>,
    last: u64,
}

impl Translation {
    pub fn new(specs: &[crate::TlbSpec]) -> Translation {
        let tags = |spec: &crate::TlbSpec| (Tags::new(u64::from(spec.entries / spec.ways), spec.ways), spec.miss);
        Translation {
            levels: specs.iter().map(tags).collect(),
            last: u64::MAX,
        }
    }

    /// Cycles that it takes to find the page of an address.
    #[inline]
    pub fn walk(&mut self, addr: u64) -> u16 {
        let page = addr >> 12;
        if page == self.last {
            return 0;
        }
        self.last = page;
        let mut cycles = 0;
        for (tags, miss) in &mut self.levels {
            if tags.look_up(page, false) {
                break;
            }
            tags.place(page, false);
            cycles += *miss;
        }
        cycles as u16
    }
}
