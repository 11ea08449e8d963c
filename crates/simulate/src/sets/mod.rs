//! Which lines are in a cache, and which has to make room: one file per way of keeping them.
//!
//! A line's *slot* stays the same for as long as the line stays. Whatever else a cache knows of its lines is kept in arrays by slot,
//! so that the look-ups, which are many, touch nothing but tags.
//!
//! **Invariants.** Slots are below the number of lines that fit. A line is in at most one slot. [`Sets::place`] is called for lines that are
//! not there.
mod lanes;
mod plru;
mod random;
mod wide;

pub(crate) use lanes::{LaneSets, KEEPS, MOVES};
pub(crate) use plru::PlruSets;
pub(crate) use random::RandomSets;
pub(crate) use wide::WideSets;

use crate::config::{Level, Policy};

/// What placing a line did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub slot: u32,
    /// The line that was in the slot.
    pub evicted: Option<u64>,
}

/// A cache's lines by set.
pub(crate) trait Sets {
    /// Where a line is; this uses it.
    fn look_up(&mut self, line: u64) -> Option<u32>;
    /// Where a line is.
    fn find(&self, line: u64) -> Option<u32>;
    /// Puts a line in that is not there.
    fn place(&mut self, line: u64) -> Placed;
    /// Takes a line out; returns where it was.
    fn remove(&mut self, line: u64) -> Option<u32>;
    /// The line in a slot.
    fn line_in(&self, slot: u32) -> Option<u64>;
    /// A line will be looked up before long: its set should be at hand by then.
    #[inline(always)]
    fn approach(&self, _line: u64) {}
    /// It will be very soon, and most probably be in, or go to, this slot.
    #[inline(always)]
    fn expect(&self, _line: u64) -> Option<u32> {
        None
    }
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

/// The tags of a way-ordered cache: a line number plus 1, or 0 for none. Line numbers have at most 62 bits.
pub(crate) fn way_of(set: &[u64], line: u64) -> Option<usize> {
    set.iter().position(|&tag| tag == line + 1)
}

/// Any of them.
#[derive(Clone, Debug)]
pub(crate) enum AnySets {
    Lru8(LaneSets<u64, MOVES>),
    Lru16(LaneSets<u128, MOVES>),
    Fifo8(LaneSets<u64, KEEPS>),
    Fifo16(LaneSets<u128, KEEPS>),
    WideLru(WideSets<MOVES>),
    WideFifo(WideSets<KEEPS>),
    Random(RandomSets),
    Plru(PlruSets),
}

impl AnySets {
    /// Of a checked level.
    pub fn new(level: &Level, seed: u64) -> AnySets {
        let (sets, ways) = (level.sets(), level.ways);
        match level.policy {
            Policy::Lru if ways <= 8 => AnySets::Lru8(LaneSets::new(sets, ways)),
            Policy::Lru if ways <= lanes::MOST_WAYS => AnySets::Lru16(LaneSets::new(sets, ways)),
            Policy::Fifo if ways <= 8 => AnySets::Fifo8(LaneSets::new(sets, ways)),
            Policy::Fifo if ways <= lanes::MOST_WAYS => AnySets::Fifo16(LaneSets::new(sets, ways)),
            Policy::Lru => AnySets::WideLru(WideSets::new(sets, ways)),
            Policy::Fifo => AnySets::WideFifo(WideSets::new(sets, ways)),
            Policy::Random => AnySets::Random(RandomSets::new(sets, ways, seed)),
            Policy::Plru => AnySets::Plru(PlruSets::new(sets, ways)),
        }
    }
}

/// Lines from the last used (of FIFO: placed) to the next to go, with their slots.
pub(crate) type InOrder<'s> = dyn Iterator<Item = (u64, u32)> + 's;

macro_rules! ordered {
    ($self:expr, $sets:ident => $do:expr, else $other:expr) => {
        match $self {
            AnySets::Lru8($sets) => $do,
            AnySets::Lru16($sets) => $do,
            AnySets::Fifo8($sets) => $do,
            AnySets::Fifo16($sets) => $do,
            _ => $other,
        }
    };
}

/// For those that consist of lines in an order and nothing else.
impl AnySets {
    pub fn has_order(&self) -> bool {
        ordered!(self, _sets => true, else false)
    }
    /// How many there are; 0 of others.
    pub fn count(&self) -> usize {
        ordered!(self, sets => sets.count(), else 0)
    }
    /// Shows each set's lines, set after set.
    pub fn each_in_order(&self, mut show: impl FnMut(&mut InOrder<'_>)) {
        ordered!(self, sets => (0..sets.count()).for_each(|set| show(&mut sets.in_order(set))), else {});
    }
    /// Takes all lines out.
    pub fn clear(&mut self) {
        ordered!(self, sets => sets.clear(), else {});
    }
}

macro_rules! each {
    ($self:expr, $sets:ident => $do:expr) => {
        match $self {
            AnySets::Lru8($sets) => $do,
            AnySets::Lru16($sets) => $do,
            AnySets::Fifo8($sets) => $do,
            AnySets::Fifo16($sets) => $do,
            AnySets::WideLru($sets) => $do,
            AnySets::WideFifo($sets) => $do,
            AnySets::Random($sets) => $do,
            AnySets::Plru($sets) => $do,
        }
    };
}

impl Sets for AnySets {
    #[inline]
    fn look_up(&mut self, line: u64) -> Option<u32> {
        each!(self, sets => sets.look_up(line))
    }
    fn find(&self, line: u64) -> Option<u32> {
        each!(self, sets => sets.find(line))
    }
    #[inline]
    fn place(&mut self, line: u64) -> Placed {
        each!(self, sets => sets.place(line))
    }
    fn remove(&mut self, line: u64) -> Option<u32> {
        each!(self, sets => sets.remove(line))
    }
    fn line_in(&self, slot: u32) -> Option<u64> {
        each!(self, sets => sets.line_in(slot))
    }
}
