//! Numbers by words: counts of pairs of points, pages of lines, bits of lines.
//!
//! Open addressing with linear probing, at most a quarter full: nearly every search ends where it
//! begins, which the processor foresees. Where there may be many and few are searched for, three
//! quarters ([`Words::compact`]). Nothing is taken out but by making the table anew
//! ([`Words::retain`]).
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A multiplicative hash of one word: keys are line numbers and pairs of points, no adversary
/// chooses them.
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
    /// How full it may be, in quarters.
    quarters: usize,
}

impl Default for Words {
    fn default() -> Words {
        Words {
            slots: vec![(0, 0); 64],
            shift: 64 - 6,
            len: 0,
            quarters: 1,
        }
    }
}

impl Words {
    pub fn compact() -> Words {
        Words {
            quarters: 3,
            ..Words::default()
        }
    }

    /// The number of a key, to be made greater than 0.
    #[inline]
    pub fn at(&mut self, key: u64) -> &mut u64 {
        if self.len * 4 >= self.slots.len() * self.quarters {
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

    /// Takes out the numbers that are not to be kept.
    pub fn retain(&mut self, mut keep: impl FnMut(u64, u64) -> bool) {
        self.refill(self.slots.len(), |&(key, number)| keep(key, number));
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
        self.shift -= 1;
        self.refill(self.slots.len() * 2, |_| true);
    }

    /// Makes the table anew with room for so many, from those to be kept.
    fn refill(&mut self, room: usize, mut keep: impl FnMut(&(u64, u64)) -> bool) {
        let before = std::mem::replace(&mut self.slots, vec![(0, 0); room]);
        self.len = 0;
        for slot in before.into_iter().filter(|slot| slot.1 > 0 && keep(slot)) {
            let at = self.probe(slot.0);
            self.slots[at] = slot;
            self.len += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_again_however_many_there_are() {
        for words in [Words::default(), Words::compact()] {
            found_again(words);
        }
    }

    fn found_again(mut words: Words) {
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
        words.retain(|key, number| key >> 32 & 1 == 0 && number == 2);
        for key in 0..1000 {
            assert_eq!(words.get(key << 32), if key % 2 == 0 { 2 } else { 0 });
        }
        *words.at(1 << 32) += 1;
        assert_eq!(words.iter().count(), 501);
    }
}
