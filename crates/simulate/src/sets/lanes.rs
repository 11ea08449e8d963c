//! LRU and FIFO in sets of up to sixteen ways, without searching.
//!
//! **Problem.** Where in its set a line is cannot be foreseen, and each wrong guess of the processor costs more than the look-up itself.
//!
//! **Idea.** A set has a byte for each way, side by side in one word. One word holds 8 bits of a hash of each line: comparing all of them
//! at once names the way that the line is in if it is there, and the line itself is then compared. Another word holds each way's rank, 0 for the way used last.
//! Using a way adds 1 to all ranks below its own and makes its own 0: a handful of operations on the word, and no branch.
//!
//! LRU and FIFO differ in one thing: whether a line that is found is used.
//!
//! **Invariants.** The ranks of a set are a permutation of 0 … ways − 1; bytes of ways that do not exist are [`NEVER`]. Free ways have the
//! highest ranks, so that the way of the highest rank is the one to fill or to evict.
use super::{Index, Placed, Sets};
use safe_arch::prefetch_t0;

/// A line that is found is used: LRU.
pub(crate) const MOVES: bool = true;
/// It is not: FIFO.
pub(crate) const KEEPS: bool = false;

pub(crate) const MOST_WAYS: u32 = 16;

/// The line of a free way: line numbers have at most 62 bits.
const FREE: u64 = u64::MAX;
/// The rank of a way that does not exist.
const NEVER: u8 = 0x7f;

/// A word of bytes.
pub(crate) trait Lanes: Copy + std::fmt::Debug {
    /// The byte in every lane.
    fn splat(byte: u8) -> Self;
    /// 0x80 in each lane that equals the byte; perhaps in some that do not, above one that does.
    fn like(self, byte: u8) -> Self;
    fn keep(self, lanes: Self) -> Self;
    fn without_lowest(self) -> Self;
    /// The lowest lane with a bit, or `None`.
    fn lowest(self) -> Option<usize>;
    fn get(self, lane: usize) -> u8;
    fn set(&mut self, lane: usize, byte: u8);
    /// Adds 1 to the lanes below `rank` and makes `lane` 0. All are less than 0x80.
    fn raise_below(&mut self, rank: u8, lane: usize);
}

macro_rules! lanes {
    ($word:ty) => {
        impl Lanes for $word {
            #[inline(always)]
            fn splat(byte: u8) -> $word {
                <$word>::MAX / 0xff * <$word>::from(byte)
            }
            #[inline(always)]
            fn like(self, byte: u8) -> $word {
                let differs = self ^ <$word>::splat(byte);
                differs.wrapping_sub(<$word>::splat(1)) & !differs & <$word>::splat(0x80)
            }
            #[inline(always)]
            fn keep(self, lanes: $word) -> $word {
                self & lanes
            }
            #[inline(always)]
            fn without_lowest(self) -> $word {
                self & (self - 1)
            }
            #[inline(always)]
            fn lowest(self) -> Option<usize> {
                (self != 0).then(|| self.trailing_zeros() as usize / 8)
            }
            #[inline(always)]
            fn get(self, lane: usize) -> u8 {
                (self >> (8 * lane)) as u8
            }
            #[inline(always)]
            fn set(&mut self, lane: usize, byte: u8) {
                *self = *self & !(<$word>::from(0xffu8) << (8 * lane)) | <$word>::from(byte) << (8 * lane);
            }
            #[inline(always)]
            fn raise_below(&mut self, rank: u8, lane: usize) {
                let not_below = (*self | <$word>::splat(0x80)) - <$word>::splat(rank);
                let raised = *self + (!not_below >> 7 & <$word>::splat(1));
                *self = raised & !(<$word>::from(0xffu8) << (8 * lane));
            }
        }
    };
}

lanes!(u64);
lanes!(u128);

/// What is looked at first of a set.
#[derive(Clone, Copy, Debug)]
struct Head<W> {
    /// The line looked up or placed last, if it is still there, and its slot.
    recent: u64,
    slot: u32,
    hashes: W,
    ranks: W,
}

impl<W: Lanes> Head<W> {
    fn new(ways: usize) -> Head<W> {
        let mut ranks = W::splat(NEVER);
        (0..ways).for_each(|way| ranks.set(way, way as u8));
        Head {
            recent: FREE,
            slot: 0,
            hashes: W::splat(0),
            ranks,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LaneSets<W, const MOVE: bool> {
    index: Index,
    ways: usize,
    /// The top bit of each way that exists.
    exist: W,
    heads: Vec<Head<W>>,
    /// By slot.
    lines: Vec<u64>,
}

#[inline(always)]
fn hash(line: u64) -> u8 {
    (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

impl<W: Lanes, const MOVE: bool> LaneSets<W, MOVE> {
    pub fn new(sets: u64, ways: u32) -> Self {
        let ways = ways as usize;
        let mut exist = W::splat(0);
        (0..ways).for_each(|way| exist.set(way, 0x80));
        LaneSets {
            index: Index::new(sets),
            ways,
            exist,
            heads: vec![Head::new(ways); sets as usize],
            lines: vec![FREE; sets as usize * ways],
        }
    }

    pub fn count(&self) -> usize {
        self.heads.len()
    }

    pub fn clear(&mut self) {
        self.heads.fill(Head::new(self.ways));
        self.lines.fill(FREE);
    }

    /// The way a line is in.
    #[inline(always)]
    fn way(&self, set: usize, line: u64) -> Option<usize> {
        let mut like = self.heads[set].hashes.like(hash(line)).keep(self.exist);
        loop {
            let way = like.lowest()?;
            if self.lines[set * self.ways + way] == line {
                return Some(way);
            }
            like = like.without_lowest();
        }
    }

    /// The way to fill or to evict.
    #[inline(always)]
    fn last(&self, set: usize) -> usize {
        let last = self.heads[set].ranks.like(self.ways as u8 - 1);
        // The lowest such lane is always right, and there is one.
        last.lowest().unwrap_or(0)
    }

    #[inline(always)]
    fn raise(&mut self, set: usize, way: usize) {
        let ranks = &mut self.heads[set].ranks;
        let rank = ranks.get(way);
        ranks.raise_below(rank, way);
    }

    #[inline(always)]
    fn look_at(&mut self, set: usize, way: usize, line: u64) -> u32 {
        let slot = (set * self.ways + way) as u32;
        let head = &mut self.heads[set];
        (head.recent, head.slot) = (line, slot);
        slot
    }

    /// The lines of a set from the last used (of FIFO: placed) to the next to go, with their slots.
    pub fn in_order(&self, set: usize) -> impl Iterator<Item = (u64, u32)> + '_ {
        let base = set * self.ways;
        let way_of = move |rank| (0..self.ways).find(|&way| self.heads[set].ranks.get(way) == rank as u8);
        let slots = (0..self.ways).filter_map(way_of).map(move |way| base + way);
        let there = slots.take_while(|&slot| self.lines[slot] != FREE);
        there.map(|slot| (self.lines[slot], slot as u32))
    }
}

impl<W: Lanes, const MOVE: bool> Sets for LaneSets<W, MOVE> {
    #[inline(always)]
    fn look_up(&mut self, line: u64) -> Option<u32> {
        let set = self.index.set(line);
        let head = &self.heads[set];
        if head.recent == line {
            return Some(head.slot);
        }
        let way = self.way(set, line)?;
        if MOVE {
            self.raise(set, way);
        }
        Some(self.look_at(set, way, line))
    }

    fn find(&self, line: u64) -> Option<u32> {
        let set = self.index.set(line);
        let way = self.way(set, line)?;
        Some((set * self.ways + way) as u32)
    }

    #[inline(always)]
    fn place(&mut self, line: u64) -> Placed {
        let set = self.index.set(line);
        let way = self.last(set);
        self.raise(set, way);
        self.heads[set].hashes.set(way, hash(line));
        let slot = self.look_at(set, way, line);
        let old = std::mem::replace(&mut self.lines[slot as usize], line);
        Placed {
            slot,
            evicted: (old != FREE).then_some(old),
        }
    }

    fn remove(&mut self, line: u64) -> Option<u32> {
        let set = self.index.set(line);
        let way = self.way(set, line)?;
        // Ranks above its own go down by one; it gets the highest.
        let ranks = &mut self.heads[set].ranks;
        let rank = ranks.get(way);
        for other in 0..self.ways {
            let its = ranks.get(other);
            if its > rank {
                ranks.set(other, its - 1);
            }
        }
        ranks.set(way, self.ways as u8 - 1);
        let slot = set * self.ways + way;
        self.lines[slot] = FREE;
        self.heads[set].recent = FREE;
        Some(slot as u32)
    }

    fn line_in(&self, slot: u32) -> Option<u64> {
        Some(self.lines[slot as usize]).filter(|&line| line != FREE)
    }

    #[inline(always)]
    fn approach(&self, line: u64) {
        prefetch_t0(&self.heads[self.index.set(line)]);
    }

    #[inline(always)]
    fn expect(&self, line: u64) -> Option<u32> {
        let set = self.index.set(line);
        let like = self.heads[set].hashes.like(hash(line)).keep(self.exist);
        let slot = set * self.ways + like.lowest().unwrap_or(self.last(set));
        prefetch_t0(&self.lines[slot]);
        Some(slot as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_compared_and_ranked_side_by_side() {
        let word = 0x0706_0504_0302_0100u64;
        assert_eq!(word.like(3), 0x80 << 24);
        assert_eq!(word.like(9), 0);
        assert_eq!(word.like(3).lowest(), Some(3));
        // Way 3 is used: ranks 0 to 2 go up.
        let mut ranks = word;
        ranks.raise_below(3, 3);
        assert_eq!(ranks, 0x0706_0504_0003_0201);
        let mut wide = (u128::from(word) << 64) | 0x0f0e_0d0c_0b0a_0908;
        wide.raise_below(9, 1);
        assert_eq!(wide, (0x0807_0605_0403_0201u128 << 64) | 0x0f0e_0d0c_0b0a_0009);
    }

    #[test]
    fn a_set_of_three_ways_keeps_the_three_used_last() {
        let mut sets = LaneSets::<u64, MOVES>::new(5, 3);
        let mut evicted = Vec::new();
        for line in [5, 10, 15, 5, 20, 25, 10] {
            if sets.look_up(line).is_none() {
                evicted.extend(sets.place(line).evicted);
            }
        }
        assert_eq!(evicted, [10, 15, 5]);
        let lines: Vec<u64> = sets.in_order(0).map(|(line, _)| line).collect();
        assert_eq!(lines, [10, 25, 20]);
        assert!(sets.remove(25).is_some());
        assert_eq!(sets.place(30).evicted, None);
        assert_eq!(sets.place(35).evicted, Some(20));
    }
}
