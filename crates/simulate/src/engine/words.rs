//! Numbers by words: counts of pairs of points, pages of lines.
//!
//! Open addressing with linear probing, at most a quarter full: nearly every search ends where it begins, which the processor foresees. Nothing is ever taken out.
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
        let x = (self.0 ^ word).wrapping_mul(FACTOR);
        self.0 = x ^ x >> 32;
    }
}

/// Where things are taken out as well.
pub(super) type WordMap<V> = HashMap<u64, V, BuildHasherDefault<WordHasher>>;

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Where a word belongs in a table whose length is 2^(64 - shift).
#[inline(always)]
pub(super) fn home(word: u64, shift: u32) -> usize {
    (word.wrapping_mul(FACTOR) >> shift) as usize
}

#[derive(Clone, Debug)]
pub(super) struct Words {
    /// Keys and numbers; a number of 0 is one that is not there.
    slots: Vec<(u64, u64)>,
    shift: u32,
    /// Numbers that are there.
    len: usize,
}

impl Default for Words {
    fn default() -> Words {
        Words {
            slots: vec![(0, 0); 64],
            shift: 64 - 6,
            len: 0,
        }
    }
}

impl Words {
    /// The number of a key, to be made greater than 0.
    #[inline]
    pub fn at(&mut self, key: u64) -> &mut u64 {
        if self.len * 4 >= self.slots.len() {
            self.grow();
        }
        let at = self.probe(key);
        let slot = &mut self.slots[at];
        self.len += usize::from(slot.1 == 0);
        slot.0 = key;
        &mut slot.1
    }

    #[inline]
    pub fn get(&self, key: u64) -> u64 {
        self.slots[self.probe(key)].1
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.slots.iter().copied().filter(|&(_, number)| number > 0)
    }

    #[inline(always)]
    fn probe(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = home(key, self.shift) & mask;
        while self.slots[at].1 != 0 && self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let twice = vec![(0, 0); self.slots.len() * 2];
        let before = std::mem::replace(&mut self.slots, twice);
        self.shift -= 1;
        for slot in before.into_iter().filter(|slot| slot.1 > 0) {
            let at = self.probe(slot.0);
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_again_however_many_there_are() {
        let mut words = Words::default();
        for round in 1..=2 {
            for key in 0..1000 {
                *words.at(key << 32) += 1;
                assert_eq!(words.get(key << 32), round);
            }
        }
        assert_eq!(words.get(1), 0);
        let mut all: Vec<(u64, u64)> = words.iter().collect();
        all.sort_unstable();
        assert_eq!(all, (0..1000).map(|key| (key << 32, 2)).collect::<Vec<_>>());
    }
}
