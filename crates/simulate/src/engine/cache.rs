//! One cache: its lines, what is known of each, and what helps to explain its misses.
use super::shadow::Shadow;
use super::users::UsersBySlot;
use super::words::WordMap;
use super::{Charge, Options};
use crate::config::{Inclusion, Level, Prefetch, Write};
use crate::sets::{AnySets, Meta, Sets};

/// It has been written to.
pub(super) const DIRTY: u32 = 1;
/// A prefetch brought it in, and no access has found it since.
pub(super) const PREFETCHED: u32 = 2;

/// What a level is like, ready for use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    /// Bytes of a line, and their logarithm.
    pub line: u64,
    pub shift: u32,
    /// Logarithm of the bytes that a bit of [`Meta::touched`] stands for.
    pub unit: u32,
    pub write: Write,
    /// What a write makes of a line: [`DIRTY`], or nothing.
    pub dirty: u32,
    pub allocate: bool,
    pub inclusion: Inclusion,
    pub prefetch: Prefetch,
}

impl Traits {
    pub fn of(level: &Level) -> Traits {
        Traits {
            line: level.line.into(),
            shift: level.line.trailing_zeros(),
            unit: level.line.trailing_zeros().saturating_sub(6),
            write: level.write,
            dirty: if level.write == Write::Back { DIRTY } else { 0 },
            allocate: level.allocate,
            inclusion: level.inclusion,
            prefetch: level.prefetch,
        }
    }

    /// The bits of bytes [from, from + len) of a line.
    #[inline(always)]
    pub fn bits(&self, from: u64, len: u64) -> u64 {
        let (first, last) = (from >> self.unit, (from + len - 1) >> self.unit);
        (u64::MAX >> (63 - (last - first))) << first
    }

    /// How many bytes of a line have been touched.
    #[inline]
    pub fn used_bytes(&self, meta: &Meta) -> u64 {
        u64::from(meta.touched.count_ones()) << self.unit
    }

    /// Whether a write that misses passes by.
    pub fn passes_writes(&self) -> bool {
        self.write != Write::None && !self.allocate || self.inclusion == Inclusion::Exclusive
    }
}

/// A stride prefetcher's memory of a reference point.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stride {
    last: u64,
    stride: u64,
    confidence: u8,
    seen: bool,
}

impl Stride {
    /// Takes note of an access; returns the stride if it can be relied on.
    pub fn train(&mut self, addr: u64) -> Option<u64> {
        if !self.seen {
            *self = Stride {
                last: addr,
                seen: true,
                ..Stride::default()
            };
            return None;
        }
        let stride = addr.wrapping_sub(self.last);
        if stride == self.stride {
            self.confidence = (self.confidence + 1).min(3);
        } else {
            self.confidence = 0;
            self.stride = stride;
        }
        self.last = addr;
        (self.confidence >= 2 && stride != 0).then_some(stride)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// Index of its level.
    pub level: usize,
    pub traits: Traits,
    pub below: Option<usize>,
    /// Caches whose next level this is.
    pub above: Vec<usize>,
    pub sets: AnySets,
    /// How many lines fit.
    pub lines: usize,
    /// A prefetch has brought in a line.
    pub prefetched: bool,
    /// By reference point.
    pub strides: Vec<Stride>,
    pub shadow: Option<Shadow>,
    /// Lines that were evicted and not looked up since: who had brought them in and who took them
    /// away, as a pair in one word.
    pub gone: Option<WordMap<u64>>,
    pub users: UsersBySlot,
    /// Lines of the access at hand that a next-line prefetcher goes on from.
    pub leads: Vec<u64>,
}

impl Cache {
    pub fn new(level: &Level, number: usize, seed: u64, options: &Options) -> Cache {
        let lines = level.lines() as usize;
        let classes = options.classes && level.inclusion != Inclusion::Exclusive;
        Cache {
            level: number,
            traits: Traits::of(level),
            below: None,
            above: Vec::new(),
            sets: AnySets::new(level, seed),
            lines,
            prefetched: false,
            strides: Vec::new(),
            shadow: classes.then(|| Shadow::new(lines)),
            gone: options.premature.then(WordMap::default),
            users: UsersBySlot::new(options.charge == Charge::All, lines),
            leads: Vec::new(),
        }
    }

    /// Touches bytes [from, from + len) of the line in a slot. Returns whether one of them is
    /// touched for the first time.
    #[inline]
    pub fn touch(&mut self, slot: u32, (from, len): (u64, u64)) -> bool {
        let bits = self.traits.bits(from, len);
        let touched = &mut self.sets.meta(slot).touched;
        let new = bits & !*touched;
        *touched |= new;
        new != 0
    }
}
