//! Which lines are in a cache, and which has to make room: one file per way of keeping them.
//!
//! A line's *slot* stays the same for as long as the line stays. What is known of it lies beside
//! it.
//!
//! **Invariants.** Slots are below the number of lines that fit. A line is in at most one slot.
//! [`Sets::place`] is called for lines that are not there.
mod plru;
mod random;
mod stamped;
mod wide;

pub(crate) use plru::PlruSets;
pub(crate) use random::RandomSets;
pub(crate) use stamped::{Come, StampedSets, FULL, KEEPS, MOVES};
pub(crate) use wide::WideSets;

use crate::config::{Level, Policy};

/// What is known of a line that is there, or on its way from one cache to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Its bytes that have been touched, a bit each; of lines longer than 64 bytes, its 64 parts.
    pub touched: u64,
    /// The reference point that brought it in.
    pub owner: u32,
    pub flags: u32,
}

impl Meta {
    /// Of a line from memory.
    pub fn new(owner: u32) -> Meta {
        Meta {
            owner,
            ..Meta::default()
        }
    }
}

/// What placing a line did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub slot: u32,
    /// The line that was in the slot, and what was known of it.
    pub evicted: Option<(u64, Meta)>,
}

/// A cache's lines by set.
pub(crate) trait Sets {
    /// Where a line is; this uses it.
    fn look_up(&mut self, line: u64) -> Option<u32>;
    /// Where a line is.
    fn find(&self, line: u64) -> Option<u32>;
    /// What is known of the line in a slot.
    fn meta(&mut self, slot: u32) -> &mut Meta;
    /// Puts a line in that is not there.
    fn place(&mut self, line: u64, meta: Meta) -> Placed;
    /// Takes a line out; returns where it was.
    fn remove(&mut self, line: u64) -> Option<u32>;
    /// The line in a slot.
    fn line_in(&self, slot: u32) -> Option<u64>;
    /// How much later each look-up is than the one before, for those that write down times.
    const TICK: u64 = 1;
    /// When the last look-up was. Whoever has many of them can keep the time, and give it back in
    /// the end.
    #[inline(always)]
    fn time(&self) -> u64 {
        0
    }
    #[inline(always)]
    fn set_time(&mut self, _time: u64) {}
    /// The time of the next.
    #[inline(always)]
    fn tick(&mut self) -> u64 {
        let time = self.time() + Self::TICK;
        self.set_time(time);
        time
    }
    /// [`Sets::look_up`] by those who keep the time; and what is known of the line.
    #[inline(always)]
    fn look_up_at(&mut self, line: u64, _time: u64) -> Option<(u32, &mut Meta)> {
        let slot = self.look_up(line)?;
        Some((slot, self.meta(slot)))
    }
    /// [`Sets::place`] by those who keep the time.
    #[inline(always)]
    fn place_at(&mut self, line: u64, meta: Meta, _time: u64) -> Placed {
        self.place(line, meta)
    }
    /// A line will be looked up before long: its set should be at hand by then.
    #[inline(always)]
    fn approach(&self, _line: u64) {}
    /// It will be very soon: so should what is known of it, or of the line that makes room for it.
    #[inline(always)]
    fn expect(&self, _line: u64) {}
}

/// From line numbers to sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    sets: u64,
    /// `sets - 1` if that is a mask, else 0.
    mask: u64,
}

impl Index {
    pub fn new(sets: u64) -> Index {
        let mask = if sets.is_power_of_two() { sets - 1 } else { 0 };
        Index { sets, mask }
    }

    #[inline(always)]
    pub fn set(&self, line: u64) -> usize {
        if self.mask != 0 {
            (line & self.mask) as usize
        } else {
            (line % self.sets) as usize
        }
    }
}

/// The tags of a way-ordered cache: a line number plus 1, or 0 for none. Line numbers have at most
/// 62 bits.
pub(crate) fn way_of(set: &[u64], line: u64) -> Option<usize> {
    set.iter().position(|&tag| tag == line + 1)
}

/// Any of them.
#[derive(Clone, Debug)]
pub(crate) enum AnySets {
    FullLru8(StampedSets<8, MOVES, FULL>),
    FullLru16(StampedSets<16, MOVES, FULL>),
    Lru4(StampedSets<4, MOVES>),
    Lru8(StampedSets<8, MOVES>),
    Lru16(StampedSets<16, MOVES>),
    Fifo4(StampedSets<4, KEEPS>),
    Fifo8(StampedSets<8, KEEPS>),
    Fifo16(StampedSets<16, KEEPS>),
    WideLru(WideSets<MOVES>),
    WideFifo(WideSets<KEEPS>),
    Random(RandomSets),
    Plru(PlruSets),
}

impl AnySets {
    /// Of a checked level.
    pub fn new(level: &Level, seed: u64) -> AnySets {
        let (sets, ways) = (level.sets(), level.ways);
        let power = sets.is_power_of_two();
        match level.policy {
            Policy::Lru if ways == 8 && power => AnySets::FullLru8(StampedSets::new(sets, ways)),
            Policy::Lru if ways == 16 && power => AnySets::FullLru16(StampedSets::new(sets, ways)),
            Policy::Lru if ways <= 4 => AnySets::Lru4(StampedSets::new(sets, ways)),
            Policy::Lru if ways <= 8 => AnySets::Lru8(StampedSets::new(sets, ways)),
            Policy::Lru if ways <= stamped::MOST_WAYS => AnySets::Lru16(StampedSets::new(sets, ways)),
            Policy::Fifo if ways <= 4 => AnySets::Fifo4(StampedSets::new(sets, ways)),
            Policy::Fifo if ways <= 8 => AnySets::Fifo8(StampedSets::new(sets, ways)),
            Policy::Fifo if ways <= stamped::MOST_WAYS => AnySets::Fifo16(StampedSets::new(sets, ways)),
            Policy::Lru => AnySets::WideLru(WideSets::new(sets, ways)),
            Policy::Fifo => AnySets::WideFifo(WideSets::new(sets, ways)),
            Policy::Random => AnySets::Random(RandomSets::new(sets, ways, seed)),
            Policy::Plru => AnySets::Plru(PlruSets::new(sets, ways)),
        }
    }
}

/// A line that is there at two times.
pub(crate) struct Both {
    pub slot: u32,
    pub line: u64,
    pub before: Meta,
    pub now: Meta,
    /// It has been used since.
    pub used: bool,
}

/// Does something with those that are LRU, of few ways.
macro_rules! lru {
    ($self:expr, $sets:ident => $do:expr, else $other:expr) => {
        match $self {
            AnySets::FullLru8($sets) => $do,
            AnySets::FullLru16($sets) => $do,
            AnySets::Lru4($sets) => $do,
            AnySets::Lru8($sets) => $do,
            AnySets::Lru16($sets) => $do,
            _ => $other,
        }
    };
}
pub(crate) use lru;

/// The same with those that are FIFO.
macro_rules! ordered {
    ($self:expr, $sets:ident => $do:expr, else $other:expr) => {
        lru!($self, $sets => $do, else match $self {
            AnySets::Fifo4($sets) => $do,
            AnySets::Fifo8($sets) => $do,
            AnySets::Fifo16($sets) => $do,
            _ => $other,
        })
    };
}

/// For those that consist of lines in an order and nothing else.
impl AnySets {
    /// How many ways, if they are LRU and few.
    pub fn lru_ways(&self) -> Option<usize> {
        lru!(self, sets => Some(sets.ways()), else None)
    }
    pub fn has_order(&self) -> bool {
        ordered!(self, _sets => true, else false)
    }
    /// How many there are; 0 of others.
    pub fn count(&self) -> usize {
        ordered!(self, sets => sets.count(), else 0)
    }
    /// Adds each set's lines, from the last used (of FIFO: placed) to the next to go, set after
    /// set, and where each set begins.
    pub fn in_order(&self, lines: &mut Vec<(u64, Meta)>, begins: &mut Vec<u32>) {
        ordered!(self, sets => for set in 0..sets.count() {
            begins.push(lines.len() as u32);
            lines.extend(sets.in_order(set));
        }, else {});
    }
    /// Shows all lines beside what they were before, unless there are some that were not there.
    /// Returns whether each was as it should be; only for LRU of few ways.
    pub fn beside(&self, before: &AnySets, look: impl FnMut(Both) -> bool) -> bool {
        match (self, before) {
            (AnySets::FullLru8(now), AnySets::FullLru8(before)) => now.beside(before, look),
            (AnySets::FullLru16(now), AnySets::FullLru16(before)) => now.beside(before, look),
            (AnySets::Lru4(now), AnySets::Lru4(before)) => now.beside(before, look),
            (AnySets::Lru8(now), AnySets::Lru8(before)) => now.beside(before, look),
            (AnySets::Lru16(now), AnySets::Lru16(before)) => now.beside(before, look),
            _ => false,
        }
    }
    /// Whether all lines are as they should be; only for LRU of few ways.
    pub fn all_lines(&self, look: impl FnMut(u64) -> bool) -> bool {
        lru!(self, sets => sets.lines().all(look), else false)
    }
    /// Shows all lines, and takes out those that are not to stay. The order of the others remains;
    /// only for LRU of few ways.
    pub fn retain(&mut self, stays: impl FnMut(u64, &Meta) -> bool) {
        lru!(self, sets => sets.retain(stays), else {});
    }
    /// Takes all lines out.
    pub fn clear(&mut self) {
        ordered!(self, sets => sets.clear(), else {});
    }
}

/// Does something with any of them: what is generic is made for each, and asks no more which it is.
macro_rules! each {
    ($self:expr, $sets:ident => $do:expr) => {
        match $self {
            AnySets::FullLru8($sets) => $do,
            AnySets::FullLru16($sets) => $do,
            AnySets::Lru4($sets) => $do,
            AnySets::Lru8($sets) => $do,
            AnySets::Lru16($sets) => $do,
            AnySets::Fifo4($sets) => $do,
            AnySets::Fifo8($sets) => $do,
            AnySets::Fifo16($sets) => $do,
            AnySets::WideLru($sets) => $do,
            AnySets::WideFifo($sets) => $do,
            AnySets::Random($sets) => $do,
            AnySets::Plru($sets) => $do,
        }
    };
}
pub(crate) use each;

impl Sets for AnySets {
    #[inline]
    fn look_up(&mut self, line: u64) -> Option<u32> {
        each!(self, sets => sets.look_up(line))
    }
    fn find(&self, line: u64) -> Option<u32> {
        each!(self, sets => sets.find(line))
    }
    #[inline]
    fn place(&mut self, line: u64, meta: Meta) -> Placed {
        each!(self, sets => sets.place(line, meta))
    }
    #[inline]
    fn meta(&mut self, slot: u32) -> &mut Meta {
        each!(self, sets => sets.meta(slot))
    }
    fn remove(&mut self, line: u64) -> Option<u32> {
        each!(self, sets => sets.remove(line))
    }
    fn line_in(&self, slot: u32) -> Option<u64> {
        each!(self, sets => sets.line_in(slot))
    }
}
