//! Random replacement that can be repeated.
//!
//! The n-th random choice in a set is a function of the seed, the set and n alone, so that sets do
//! not depend on each other and can be simulated apart.
use super::{way_of, Index, Meta, Placed, Sets};

#[derive(Clone, Debug)]
pub(crate) struct RandomSets {
    index: Index,
    ways: usize,
    seed: u64,
    tags: Vec<u64>,
    meta: Vec<Meta>,
    /// Random evictions so far, by set.
    picked: Vec<u64>,
}

impl RandomSets {
    pub fn new(sets: u64, ways: u32, seed: u64) -> RandomSets {
        RandomSets {
            index: Index::new(sets),
            ways: ways as usize,
            seed,
            tags: vec![0; (sets * u64::from(ways)) as usize],
            meta: vec![Meta::default(); (sets * u64::from(ways)) as usize],
            picked: vec![0; sets as usize],
        }
    }

    fn set(&self, line: u64) -> (usize, usize) {
        let set = self.index.set(line);
        (set, set * self.ways)
    }
}

/// The finaliser of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

fn pick(seed: u64, set: u64, n: u64) -> u64 {
    mix(mix(seed.wrapping_add(set)).wrapping_add(n))
}

impl Sets for RandomSets {
    fn look_up(&mut self, line: u64) -> Option<u32> {
        self.find(line)
    }

    fn find(&self, line: u64) -> Option<u32> {
        let (_, base) = self.set(line);
        let way = way_of(&self.tags[base..base + self.ways], line)?;
        Some((base + way) as u32)
    }

    fn meta(&mut self, slot: u32) -> &mut Meta {
        &mut self.meta[slot as usize]
    }

    fn place(&mut self, line: u64, meta: Meta) -> Placed {
        let (set, base) = self.set(line);
        let free = self.tags[base..base + self.ways].iter().position(|&tag| tag == 0);
        let way = free.unwrap_or_else(|| {
            let n = self.picked[set];
            self.picked[set] += 1;
            (pick(self.seed, set as u64, n) % self.ways as u64) as usize
        });
        let old = std::mem::replace(&mut self.tags[base + way], line + 1);
        let known = std::mem::replace(&mut self.meta[base + way], meta);
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
