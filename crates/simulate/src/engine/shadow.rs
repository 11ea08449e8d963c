//! Why a line is missed: never asked for, no room anywhere, or no room in its set.
//!
//! **Idea.** Beside the cache runs a fully associative one of the same size. A line that was never asked for is a *compulsory* miss; of the
//! others, those that the fully associative cache misses too are *capacity* misses, the rest *conflicts*.
//!
//! Lines ever asked for are a bit each, in words of 64 neighbours.
use crate::sets::{Sets, WideSets, MOVES, NOTHING};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Why a line was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Compulsory,
    Capacity,
    Conflict,
}

/// A multiplicative hash of one word: keys are line numbers and pairs of points, no adversary chooses them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }
    fn write_u64(&mut self, word: u64) {
        let x = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = x ^ x >> 32;
    }
}

pub(super) type WordMap<V> = HashMap<u64, V, BuildHasherDefault<WordHasher>>;

#[derive(Clone, Debug)]
pub(super) struct Shadow {
    full: WideSets<MOVES>,
    /// Bits of lines by `line / 64`.
    seen: WordMap<u64>,
    last: u64,
    /// By slot of the cache: where its line was found in the full one last.
    nodes: Vec<u32>,
}

impl Shadow {
    pub fn new(lines: usize) -> Shadow {
        Shadow {
            full: WideSets::new(1, lines as u32),
            seen: WordMap::default(),
            // Line numbers have at most 62 bits.
            last: u64::MAX,
            nodes: vec![NOTHING; lines],
        }
    }

    /// A look-up of a line that the cache has in this slot. `place`: it would be placed if it were not there.
    #[inline(always)]
    pub fn hit(&mut self, line: u64, slot: u32, place: bool) {
        // The line used last stays the first, whatever happens.
        if line == self.last {
            return;
        }
        let node = self.nodes[slot as usize];
        if node != NOTHING && self.full.line(node) == line {
            self.full.touch(node);
            self.last = line;
        } else {
            self.find(line, slot, place);
        }
    }

    #[inline(never)]
    fn find(&mut self, line: u64, slot: u32, place: bool) {
        let found = self.full.look_up(line);
        if let Some(node) = found {
            self.nodes[slot as usize] = node;
        }
        self.settle(line, found.is_some(), place);
    }

    /// Places the line if it is to be.
    #[inline]
    fn settle(&mut self, line: u64, there: bool, place: bool) {
        if !there && place {
            self.full.place(line);
        }
        if there || place {
            self.last = line;
        }
    }

    /// A look-up of a line that the cache has not.
    pub fn miss(&mut self, line: u64, place: bool) -> Class {
        let word = self.seen.entry(line / 64).or_default();
        let new = *word >> (line % 64) & 1 == 0;
        *word |= 1 << (line % 64);
        let there = self.full.look_up(line).is_some();
        self.settle(line, there, place);
        match (new, there) {
            (true, _) => Class::Compulsory,
            (false, false) => Class::Capacity,
            (false, true) => Class::Conflict,
        }
    }
}
