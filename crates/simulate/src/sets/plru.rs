//! Tree pseudo-LRU.
//!
//! The ways of a set are the leaves of a binary tree whose nodes point to a half. Nodes are
//! numbered as in a heap, from 1; a bit is set if the node points to the upper half. The victim is
//! where the pointers lead; using a way turns the nodes on its path away from it.
use super::{way_of, Index, Meta, Placed, Sets};

#[derive(Clone, Debug)]
pub(crate) struct PlruSets {
    index: Index,
    ways: usize,
    /// Words of pointers of a set.
    words: usize,
    tags: Vec<u64>,
    meta: Vec<Meta>,
    pointers: Vec<u64>,
}

impl PlruSets {
    pub fn new(sets: u64, ways: u32) -> PlruSets {
        let words = (ways as usize).div_ceil(64);
        PlruSets {
            index: Index::new(sets),
            ways: ways as usize,
            words,
            tags: vec![0; (sets * u64::from(ways)) as usize],
            meta: vec![Meta::default(); (sets * u64::from(ways)) as usize],
            pointers: vec![0; sets as usize * words],
        }
    }

    fn use_way(&mut self, set: usize, way: usize) {
        let pointers = &mut self.pointers[set * self.words..][..self.words];
        let mut leaf = way + self.ways;
        while leaf > 1 {
            let (node, upper) = (leaf / 2, leaf % 2 == 1);
            let bit = 1 << (node % 64);
            if upper {
                pointers[node / 64] &= !bit;
            } else {
                pointers[node / 64] |= bit;
            }
            leaf = node;
        }
    }

    fn victim(&self, set: usize) -> usize {
        let pointers = &self.pointers[set * self.words..][..self.words];
        let mut node = 1;
        while node < self.ways {
            node = 2 * node + (pointers[node / 64] >> (node % 64) & 1) as usize;
        }
        node - self.ways
    }
}

impl Sets for PlruSets {
    fn look_up(&mut self, line: u64) -> Option<u32> {
        let slot = self.find(line)?;
        let (set, way) = (slot as usize / self.ways, slot as usize % self.ways);
        self.use_way(set, way);
        Some(slot)
    }

    fn find(&self, line: u64) -> Option<u32> {
        let base = self.index.set(line) * self.ways;
        let way = way_of(&self.tags[base..base + self.ways], line)?;
        Some((base + way) as u32)
    }

    fn meta(&mut self, slot: u32) -> &mut Meta {
        &mut self.meta[slot as usize]
    }

    fn place(&mut self, line: u64, meta: Meta) -> Placed {
        let set = self.index.set(line);
        let base = set * self.ways;
        let free = self.tags[base..base + self.ways].iter().position(|&tag| tag == 0);
        let way = free.unwrap_or_else(|| self.victim(set));
        let old = std::mem::replace(&mut self.tags[base + way], line + 1);
        let known = std::mem::replace(&mut self.meta[base + way], meta);
        self.use_way(set, way);
        Placed {
            slot: (base + way) as u32,
            evicted: old.checked_sub(1).map(|line| (line, known)),
        }
    }

    fn remove(&mut self, line: u64) -> Option<u32> {
        let slot = self.find(line)?;
        self.tags[slot as usize] = 0;
        Some(slot)
    }

    fn line_in(&self, slot: u32) -> Option<u64> {
        self.tags[slot as usize].checked_sub(1)
    }
}
