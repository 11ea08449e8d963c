//! LRU and FIFO in sets of up to sixteen ways, without searching.
//!
//! **Problem.** Where in its set a line is cannot be foreseen, and each wrong guess of the
//! processor costs more than the look-up itself.
//!
//! **Idea.** Half of every line number of a set is compared at once, with vector instructions; that
//! names the way that the line is in if it is there, and the other half is then compared. Nothing
//! but whether the line is there decides a branch. Using a line writes down the time, and reads
//! nothing: look-ups of the same set do not wait for each other. The way to fill or to evict is
//! that of the earliest time, which is looked for only when a line is missed. Ways are in the
//! lowest bits of the times, so that the least of them names it.
//!
//! LRU and FIFO differ in one thing: whether a line that is found is used.
//!
//! **Invariants.** The stamps of a set are different, and each names its way. Those of free ways
//! are less than those of others, those of ways that do not exist are [`NEVER`].
use super::{Both, Index, Meta, Placed, Sets};
use safe_arch::{
    bitandnot_m128i, cast_to_m128d_from_m128i, cmp_eq_mask_i32_m128i, get_f64_from_m128d_s, m128i, min_m128d,
    min_m128d_s, move_mask_i8_m128i, pack_i16_to_i8_m128i, pack_i32_to_i16_m128i, prefetch_t0, set_splat_i32_m128i,
    unpack_high_m128d, zeroed_m128i,
};

/// A line that is found is used: LRU.
pub(crate) const MOVES: bool = true;
/// It is not: FIFO.
pub(crate) const KEEPS: bool = false;

pub(crate) const MOST_WAYS: u32 = 16;

/// The line of a free way, both halves: line numbers have at most 62 bits.
const FREE: u64 = u64::MAX;
/// The first stamp: the bits of 1 as a floating-point number. Positive ones have the order of their
/// bits, and the processor finds the least of two pairs of them at once.
const BEGIN: u64 = 0x3FF0_0000_0000_0000;
/// The stamp of a way that does not exist: the bits of infinity.
const NEVER: u64 = 0x7FF0_0000_0000_0000;

/// A set with room for `N` ways: 4, 8 or 16.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Set<const N: usize> {
    /// Of line numbers: the low and the high 32 bits.
    low: [u32; N],
    high: [u32; N],
    /// When each was used (of FIFO: placed) last, and its way.
    stamps: [u64; N],
    meta: [Meta; N],
}

impl<const N: usize> Set<N> {
    fn new(ways: usize) -> Self {
        let stamp = |way| if way < ways { BEGIN + way as u64 } else { NEVER };
        Set {
            low: [FREE as u32; N],
            high: [(FREE >> 32) as u32; N],
            stamps: std::array::from_fn(stamp),
            meta: [Meta::default(); N],
        }
    }

    /// [`Set::STEP`] bits for each way whose line has these low bits.
    #[inline(always)]
    fn like(&self, low: u32) -> u32 {
        let low = set_splat_i32_m128i(low as i32);
        let four = |i: usize| {
            let lines = [self.low[i], self.low[i + 1], self.low[i + 2], self.low[i + 3]];
            cmp_eq_mask_i32_m128i(m128i::from(lines), low)
        };
        let eight = |i| pack_i32_to_i16_m128i(four(i), if N > 4 { four(i + 4) } else { zeroed_m128i() });
        let all = if N > 8 {
            pack_i16_to_i8_m128i(eight(0), eight(N - 8))
        } else {
            eight(0)
        };
        move_mask_i8_m128i(all) as u32
    }

    /// Of up to eight ways, each has two bits.
    const STEP: usize = if N > 8 { 1 } else { 2 };

    /// The way a line is in.
    #[inline(always)]
    fn way(&self, line: u64) -> Option<usize> {
        let mut like = self.like(line as u32);
        while like != 0 {
            let way = like.trailing_zeros() as usize / Self::STEP % N;
            if self.high[way] == (line >> 32) as u32 {
                return Some(way);
            }
            like &= like - 1;
        }
        None
    }

    /// The way to fill or to evict.
    #[inline(always)]
    fn last(&self) -> usize {
        // In pairs: they do not wait for each other.
        let four = |i: usize| {
            let stamps = &self.stamps[i..i + 4];
            stamps[0].min(stamps[1]).min(stamps[2].min(stamps[3]))
        };
        let least = match N {
            4 => four(0),
            8 => four(0).min(four(4)),
            _ => self.least_of_many(),
        };
        least as usize % N
    }

    /// The least stamp of sixteen ways, two at a time. What has just been written one by one cannot
    /// be read so without waiting: for sets that are used again at once, [`Set::last`] goes one by
    /// one.
    #[inline(always)]
    fn least_of_many(&self) -> u64 {
        let two = |i: usize| cast_to_m128d_from_m128i(m128i::from([self.stamps[i], self.stamps[i + 1]]));
        let four = |i: usize| min_m128d(two(i), two(i + 2));
        let eight = |i: usize| min_m128d(four(i), four(i + 4));
        let least = min_m128d(eight(0), eight(N - 8));
        get_f64_from_m128d_s(min_m128d_s(least, unpack_high_m128d(least, least))).to_bits()
    }

    #[inline(always)]
    fn line(&self, way: usize) -> u64 {
        u64::from(self.high[way]) << 32 | u64::from(self.low[way])
    }

    #[inline(always)]
    fn put(&mut self, way: usize, line: u64) {
        // As many at once as are read at once: what is read could not be taken from a smaller write
        // that is still under way, and the line is often looked up again at once.
        let four = &mut self.low[way / 4 * 4..][..4];
        let here = cmp_eq_mask_i32_m128i(m128i::from([0, 1, 2, 3]), set_splat_i32_m128i((way % 4) as i32));
        let before = m128i::from([four[0], four[1], four[2], four[3]]);
        let after = bitandnot_m128i(here, before) | (here & set_splat_i32_m128i(line as i32));
        four.copy_from_slice(&<[u32; 4]>::from(after));
        self.high[way] = (line >> 32) as u32;
    }

    fn free(&mut self, way: usize) {
        self.put(way, FREE);
        self.stamps[way] = BEGIN + way as u64;
    }
}

/// What coming to a line finds.
pub(crate) struct Come<'s> {
    pub slot: u32,
    pub meta: &'s mut Meta,
    pub is_there: bool,
    /// The line that was there, if there was one.
    pub evicted: Option<u64>,
}

/// All `N` ways exist, and sets are a power of two.
pub(crate) const FULL: bool = true;

#[derive(Clone, Debug)]
pub(crate) struct StampedSets<const N: usize, const MOVE: bool, const FULL: bool = false> {
    index: Index,
    ways: usize,
    sets: Vec<Set<N>>,
    now: u64,
}

impl<const N: usize, const MOVE: bool, const FULL: bool> StampedSets<N, MOVE, FULL> {
    pub fn new(sets: u64, ways: u32) -> Self {
        let ways = ways as usize;
        assert!(!FULL || ways == N && sets.is_power_of_two());
        StampedSets {
            index: Index::new(sets),
            ways,
            sets: vec![Set::new(ways); sets as usize],
            now: BEGIN,
        }
    }

    pub fn count(&self) -> usize {
        self.sets.len()
    }

    pub fn clear(&mut self) {
        self.sets.fill(Set::new(self.ways));
    }

    #[inline(always)]
    fn set(&self, line: u64) -> usize {
        if FULL {
            line as usize & (self.sets.len() - 1)
        } else {
            self.index.set(line)
        }
    }

    #[inline(always)]
    fn slot(&self, set: usize, way: usize) -> u32 {
        (set * if FULL { N } else { self.ways } + way) as u32
    }

    pub fn ways(&self) -> usize {
        self.ways
    }

    /// Uses a line that is there until some time, or longer if that was known before, or puts it in
    /// the way of the one to go, whose [`Meta`] it leaves there to be replaced.
    #[inline(always)]
    pub fn come(&mut self, line: u64, time: u64) -> Come<'_> {
        let at = self.set(line);
        let found = self.sets[at].way(line);
        let way = found.unwrap_or_else(|| self.sets[at].last());
        let slot = self.slot(at, way);
        let set = &mut self.sets[at];
        let old = set.line(way);
        set.stamps[way] = set.stamps[way].max(time + way as u64);
        if found.is_none() {
            set.put(way, line);
        }
        Come {
            slot,
            meta: &mut set.meta[way],
            is_there: found.is_some(),
            evicted: (old != FREE).then_some(old),
        }
    }

    /// The lines of a set from the last used (of FIFO: placed) to the next to go.
    #[inline]
    pub fn in_order(&self, set: usize) -> impl Iterator<Item = (u64, Meta)> + '_ {
        let set = &self.sets[set];
        let stamps = descending(set.stamps);
        let ways = stamps.into_iter().skip(N - self.ways);
        let lines = ways.map(move |stamp| (set.line(stamp as usize % N), set.meta[stamp as usize % N]));
        lines.take_while(|&(line, _)| line != FREE)
    }

    /// All lines, in no order.
    pub fn lines(&self) -> impl Iterator<Item = u64> + '_ {
        let lines = |set| (0..self.ways).map(move |way| Set::line(set, way));
        self.sets.iter().flat_map(lines).filter(|&line| line != FREE)
    }

    /// Shows all lines, and takes out those that are not to stay.
    pub fn retain(&mut self, mut stays: impl FnMut(u64, &Meta) -> bool) {
        for set in &mut self.sets {
            for way in 0..self.ways {
                let line = set.line(way);
                if line != FREE && !stays(line, &set.meta[way]) {
                    set.free(way);
                }
            }
        }
    }

    /// Shows all lines beside what they were before, unless there are some that were not there.
    /// Returns whether each was as it should be.
    pub fn beside(&self, before: &Self, mut look: impl FnMut(Both) -> bool) -> bool {
        let since = before.now + Self::TICK;
        for (at, (is, was)) in self.sets.iter().zip(&before.sets).enumerate() {
            for way in 0..self.ways {
                let line = is.line(way);
                if line == FREE {
                    continue;
                }
                let Some(before) = was.way(line) else { return false };
                let both = Both {
                    slot: self.slot(at, way),
                    line,
                    before: was.meta[before],
                    now: is.meta[way],
                    used: is.stamps[way] >= since,
                };
                if !look(both) {
                    return false;
                }
            }
        }
        true
    }
}

/// Sorts a power of two of stamps, the greatest first: Batcher's network, whose comparisons do not
/// depend on what they find.
#[inline]
fn descending<const N: usize>(mut stamps: [u64; N]) -> [u64; N] {
    let mut sorted = 1;
    while sorted < N {
        let mut apart = sorted;
        while apart > 0 {
            for from in ((apart % sorted)..N - apart).step_by(2 * apart) {
                for i in from..(from + apart).min(N - apart) {
                    let (a, b) = (stamps[i], stamps[i + apart]);
                    if i / (2 * sorted) == (i + apart) / (2 * sorted) {
                        (stamps[i], stamps[i + apart]) = (a.max(b), a.min(b));
                    }
                }
            }
            apart /= 2;
        }
        sorted *= 2;
    }
    stamps
}

impl<const N: usize, const MOVE: bool, const FULL: bool> Sets for StampedSets<N, MOVE, FULL> {
    const TICK: u64 = MOST_WAYS as u64;

    #[inline(always)]
    fn time(&self) -> u64 {
        self.now
    }
    #[inline(always)]
    fn set_time(&mut self, time: u64) {
        self.now = time;
    }

    #[inline(always)]
    fn look_up_at(&mut self, line: u64, time: u64) -> Option<(u32, &mut Meta)> {
        let at = self.set(line);
        let way = self.sets[at].way(line)?;
        let slot = self.slot(at, way);
        let set = &mut self.sets[at];
        if MOVE {
            set.stamps[way] = time + way as u64;
        }
        Some((slot, &mut set.meta[way]))
    }
    #[inline(always)]
    fn look_up(&mut self, line: u64) -> Option<u32> {
        let time = self.tick();
        self.look_up_at(line, time).map(|(slot, _)| slot)
    }

    #[inline(always)]
    fn meta(&mut self, slot: u32) -> &mut Meta {
        let ways = if FULL { N } else { self.ways };
        &mut self.sets[slot as usize / ways].meta[slot as usize % ways]
    }

    fn find(&self, line: u64) -> Option<u32> {
        let set = self.set(line);
        let way = self.sets[set].way(line)?;
        Some(self.slot(set, way))
    }

    #[inline(always)]
    fn place_at(&mut self, line: u64, meta: Meta, time: u64) -> Placed {
        let at = self.set(line);
        let set = &mut self.sets[at];
        let way = set.last();
        let old = set.line(way);
        let known = std::mem::replace(&mut set.meta[way], meta);
        set.put(way, line);
        set.stamps[way] = time + way as u64;
        Placed {
            slot: self.slot(at, way),
            evicted: (old != FREE).then_some((old, known)),
        }
    }
    #[inline(always)]
    fn place(&mut self, line: u64, meta: Meta) -> Placed {
        let time = self.tick();
        self.place_at(line, meta, time)
    }

    fn remove(&mut self, line: u64) -> Option<u32> {
        let at = self.set(line);
        let set = &mut self.sets[at];
        let way = set.way(line)?;
        set.free(way);
        Some(self.slot(at, way))
    }

    fn line_in(&self, slot: u32) -> Option<u64> {
        let (set, way) = (slot as usize / self.ways, slot as usize % self.ways);
        Some(self.sets[set].line(way)).filter(|&line| line != FREE)
    }

    #[inline(always)]
    fn approach(&self, line: u64) {
        let set = &self.sets[self.set(line)];
        prefetch_t0(&set.low);
        prefetch_t0(&set.stamps);
        if N > 8 {
            prefetch_t0(&set.high);
            prefetch_t0(&set.stamps[N / 2]);
        }
    }

    #[inline(always)]
    fn expect(&self, line: u64) {
        let set = &self.sets[self.set(line)];
        let way = set.way(line).unwrap_or_else(|| set.last());
        prefetch_t0(&set.meta[way]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_compared_side_by_side() {
        fn check<const N: usize>() {
            let mut set = Set::<N>::new(N - 1);
            // A bit for each way; of all its bits, none is without the others.
            let like = |set: &Set<N>, low: u32| {
                let like = set.like(low) as u64;
                let all = (1u64 << Set::<N>::STEP) - 1;
                let bits = (0..N).map(|way| (way, like >> (way * Set::<N>::STEP) & all));
                let ways = bits.map(|(way, bits)| {
                    if bits == 0 {
                        0
                    } else {
                        assert_eq!(bits, all);
                        1u32 << way
                    }
                });
                ways.sum::<u32>()
            };
            assert_eq!((like(&set, FREE as u32), set.last()), ((1 << N) - 1, 0));
            for way in 0..N - 1 {
                set.put(way, ((way as u64) << 32) | (7 + way as u64 % 2));
                set.stamps[way] = BEGIN + (((100 - way as u64) * u64::from(MOST_WAYS)) | way as u64);
            }
            assert_eq!(
                (like(&set, 7), like(&set, 8)),
                (0x5555 & ((1 << (N - 1)) - 1), 0xAAAA & ((1 << (N - 1)) - 1))
            );
            assert_eq!(set.last(), N - 2);
            // Of the same low bits, the one with the same high bits.
            assert_eq!(set.way(2 << 32 | 7), Some(2));
            assert_eq!(set.way(2 << 32 | 8), None);
            assert_eq!(set.way(3), None);
        }
        check::<4>();
        check::<8>();
        check::<16>();
    }

    #[test]
    fn networks_sort() {
        // A network that sorts all sequences of 0 and 1 sorts all.
        fn check<const N: usize>() {
            for bits in 0u64..1 << N {
                let stamps: [u64; N] = std::array::from_fn(|i| bits >> i & 1);
                assert!(descending(stamps).is_sorted_by(|a, b| a >= b), "{bits:b}");
            }
        }
        check::<4>();
        check::<8>();
        check::<16>();
    }

    #[test]
    fn a_set_of_three_ways_keeps_the_three_used_last() {
        let mut sets = StampedSets::<8, MOVES>::new(5, 3);
        let mut evicted = Vec::new();
        for line in [5, 10, 15, 5, 20, 25, 10] {
            if sets.look_up(line).is_none() {
                let placed = sets.place(line, Meta::new(line as u32));
                evicted.extend(placed.evicted.map(|(line, meta)| (line, meta.owner)));
            }
        }
        assert_eq!(evicted, [(10, 10), (15, 15), (5, 5)]);
        let lines: Vec<u64> = sets.in_order(0).map(|(line, _)| line).collect();
        assert_eq!(lines, [10, 25, 20]);
        assert!(sets.remove(25).is_some());
        let lines: Vec<u64> = sets.in_order(0).map(|(line, _)| line).collect();
        assert_eq!(lines, [10, 20]);
        assert_eq!(sets.place(30, Meta::new(30)).evicted, None);
        assert_eq!(sets.place(35, Meta::new(35)).evicted, Some((20, Meta::new(20))));
    }
}
