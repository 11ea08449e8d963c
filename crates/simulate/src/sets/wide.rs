//! LRU and FIFO in sets of many ways: fully associative caches, above all.
//!
//! **Idea.** A hash table finds the slot of a line; the slots of a set are linked in the order of
//! replacement. Everything takes constant time, and as much memory as the cache has lines. The
//! table is open-addressed with linear probing and at most half full; removing moves later entries
//! back, so there are no tombstones.
use super::{Index, Meta, Placed, Sets};

/// No slot.
const NOTHING: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct WideSets<const MOVE: bool> {
    index: Index,
    /// Slots by hash.
    table: Vec<u32>,
    shift: u32,
    /// By slot: the line, what is known of it, and the neighbours towards the front and towards the
    /// end.
    lines: Vec<u64>,
    meta: Vec<Meta>,
    before: Vec<u32>,
    after: Vec<u32>,
    /// By set.
    ends: Vec<Ends>,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
    /// Free slots, linked by `after`, the lowest first at the beginning.
    free: u32,
}

impl<const MOVE: bool> WideSets<MOVE> {
    pub fn new(sets: u64, ways: u32) -> Self {
        let lines = (sets * u64::from(ways)) as usize;
        let table = (lines * 2).next_power_of_two().max(2);
        let after = (0..lines).map(|slot| {
            let last = (slot + 1) % ways as usize == 0;
            if last {
                NOTHING
            } else {
                slot as u32 + 1
            }
        });
        let ends = |set| Ends {
            first: NOTHING,
            last: NOTHING,
            free: set as u32 * ways,
        };
        WideSets {
            index: Index::new(sets),
            table: vec![NOTHING; table],
            shift: 64 - table.trailing_zeros(),
            lines: vec![0; lines],
            meta: vec![Meta::default(); lines],
            before: vec![NOTHING; lines],
            after: after.collect(),
            ends: (0..sets).map(ends).collect(),
        }
    }

    #[inline(always)]
    fn home(&self, line: u64) -> usize {
        (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    /// Where in the table a line is, or the free place where its search ends.
    #[inline(always)]
    fn probe(&self, line: u64) -> (usize, u32) {
        let mask = self.table.len() - 1;
        let mut at = self.home(line);
        loop {
            let slot = self.table[at];
            if slot == NOTHING || self.lines[slot as usize] == line {
                return (at, slot);
            }
            at = (at + 1) & mask;
        }
    }

    /// Takes an entry out of the table and closes the gap.
    fn erase(&mut self, mut gap: usize) {
        let mask = self.table.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let slot = self.table[at];
            if slot == NOTHING {
                break;
            }
            let home = self.home(self.lines[slot as usize]);
            // It may move to the gap unless its home lies behind the gap.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.table[gap] = slot;
                gap = at;
            }
        }
        self.table[gap] = NOTHING;
    }

    #[inline]
    fn unlink(&mut self, set: usize, slot: u32) {
        let (before, after) = (self.before[slot as usize], self.after[slot as usize]);
        match before {
            NOTHING => self.ends[set].first = after,
            before => self.after[before as usize] = after,
        }
        match after {
            NOTHING => self.ends[set].last = before,
            after => self.before[after as usize] = before,
        }
    }

    #[inline]
    fn link_first(&mut self, set: usize, slot: u32) {
        let first = self.ends[set].first;
        self.before[slot as usize] = NOTHING;
        self.after[slot as usize] = first;
        match first {
            NOTHING => self.ends[set].last = slot,
            first => self.before[first as usize] = slot,
        }
        self.ends[set].first = slot;
    }

    /// Uses the line in a slot.
    #[inline]
    fn touch(&mut self, slot: u32) {
        let set = self.index.set(self.lines[slot as usize]);
        if MOVE && self.ends[set].first != slot {
            self.unlink(set, slot);
            self.link_first(set, slot);
        }
    }
}

impl<const MOVE: bool> Sets for WideSets<MOVE> {
    #[inline]
    fn look_up(&mut self, line: u64) -> Option<u32> {
        let (_, slot) = self.probe(line);
        if slot == NOTHING {
            return None;
        }
        self.touch(slot);
        Some(slot)
    }

    fn find(&self, line: u64) -> Option<u32> {
        let (_, slot) = self.probe(line);
        (slot != NOTHING).then_some(slot)
    }

    #[inline]
    fn meta(&mut self, slot: u32) -> &mut Meta {
        &mut self.meta[slot as usize]
    }

    fn place(&mut self, line: u64, meta: Meta) -> Placed {
        let set = self.index.set(line);
        let free = self.ends[set].free;
        let (slot, evicted) = if free == NOTHING {
            let slot = self.ends[set].last;
            let old = self.lines[slot as usize];
            let (at, _) = self.probe(old);
            self.erase(at);
            self.unlink(set, slot);
            (slot, Some((old, self.meta[slot as usize])))
        } else {
            self.ends[set].free = self.after[free as usize];
            (free, None)
        };
        (self.lines[slot as usize], self.meta[slot as usize]) = (line, meta);
        let at = self.probe_free(line);
        self.table[at] = slot;
        self.link_first(set, slot);
        Placed { slot, evicted }
    }

    fn remove(&mut self, line: u64) -> Option<u32> {
        let (at, slot) = self.probe(line);
        if slot == NOTHING {
            return None;
        }
        self.erase(at);
        let set = self.index.set(line);
        self.unlink(set, slot);
        self.after[slot as usize] = self.ends[set].free;
        self.ends[set].free = slot;
        Some(slot)
    }

    fn line_in(&self, slot: u32) -> Option<u64> {
        // What a free slot held last is either gone or somewhere else.
        let line = self.lines[slot as usize];
        Some(line).filter(|&line| self.find(line) == Some(slot))
    }
}

impl<const MOVE: bool> WideSets<MOVE> {
    /// The free place where the search for a line ends that is not in the table.
    #[inline]
    fn probe_free(&self, line: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = self.home(line);
        while self.table[at] != NOTHING {
            at = (at + 1) & mask;
        }
        at
    }
}
