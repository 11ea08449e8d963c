//! Why a line is missed: never asked for, no room anywhere, or no room in its set.
//!
//! **Problem.** Beside the cache runs a fully associative one of the same size, with LRU. A line
//! that was never asked for is a *compulsory* miss; of the others, those that the fully associative
//! cache misses too are *capacity* misses, the rest *conflicts*. The order of its lines changes at
//! every access, but is asked for only when the cache misses.
//!
//! **Idea.** Look-ups are numbered: that is their time. The full cache holds the N lines that were
//! looked up last, so a line is there if and only if the time of its last look-up is not less than
//! that of the N-th. A hit of the cache writes down the time of the line in its slot, and takes the
//! time before out of a bit map of those times that are the last of some line; nothing is found or
//! moved, and nothing decides a branch. The N-th is looked for when somebody wants to know: until
//! then, [`Shadow::oldest`] is that of some line before it, and how many lines are between is
//! known.
//!
//! Lines that the cache has not have their times in pages of 64 neighbours, which are found by a
//! hash table when a line is missed; a slot remembers where its line's time belongs when it goes.
//! Of a page none of whose lines is in either cache, no more matters than which were ever asked
//! for: a bit each. Such pages are given up when there are many, so that their number is bounded by
//! that of the caches' lines, and only the bits grow with the memory that is touched.
//!
//! When the times run out, those of the lines that are there are numbered anew, in the same order.
//! There are several times as many as lines in all pages, so that this is done seldom enough.
use super::words::Words;

/// Why a line was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Compulsory,
    Capacity,
    Conflict,
}

/// The time of a line that has never been looked up; of one whose time is forgotten, because the
/// full cache has it no more; and the first of others.
const NEVER: u32 = 0;
const FORGOTTEN: u32 = 1;
const BEGIN: u32 = 2;
/// Times there are at least, and for each line.
const TIMES: usize = 1 << 14;
const TIMES_OF_A_LINE: usize = 4;
/// And at most.
const MOST_TIMES: usize = 1 << 31;
/// Lines of a page: as many as bits of a word.
const PAGE: usize = 64;
/// So many pages are never too many.
const FEW_PAGES: usize = 1 << 10;

#[derive(Clone, Debug)]
pub(super) struct Shadow {
    /// How many the full cache has room for.
    lines: usize,
    /// How many were looked up last at `oldest` or later. What is more than `lines` is no longer
    /// there.
    held: usize,
    oldest: u32,
    now: u32,
    /// By slot of the cache: when its line was looked up last, and where in `away` that belongs.
    times: Vec<u32>,
    places: Vec<u32>,
    /// A bit by time: of the past, whether no later look-up was of the same line; of the future,
    /// set.
    last: Vec<u64>,
    /// The line that is to be placed next: when it was looked up, and its place in `away`.
    coming: (u32, u32),
    /// By page: the times of its lines when they went away. Of lines that are back, anything.
    away: Vec<u32>,
    /// Numbers of pages, from 1, by `line / PAGE`.
    pages: Words,
    /// Those that have no lines.
    free: Vec<u64>,
    /// How many there are before some are given up.
    most_pages: usize,
    /// Of pages that were given up, a bit for each line that was ever asked for, by `line / PAGE`.
    seen: Words,
}

impl Shadow {
    /// So many look-ups may be announced at once to a cache of any size.
    pub const MOST: usize = TIMES / 4;

    pub fn new(lines: usize) -> Shadow {
        let times = (lines * TIMES_OF_A_LINE).next_power_of_two().max(TIMES);
        Shadow {
            lines,
            held: 0,
            oldest: BEGIN,
            now: BEGIN,
            times: vec![FORGOTTEN; lines],
            places: vec![0; lines],
            last: vec![u64::MAX; times / 64],
            coming: (NEVER, 0),
            away: Vec::new(),
            pages: Words::default(),
            free: Vec::new(),
            most_pages: FEW_PAGES,
            seen: Words::compact(),
        }
    }

    /// A look-up of the line that the cache has in this slot. `place`: it would be placed if it
    /// were not there.
    pub fn hit(&mut self, slot: u32, place: bool) {
        self.expect(1);
        if place || self.holds(self.times[slot as usize]) {
            self.hit_next(slot);
        }
    }

    /// The same for one that would be placed, and has been announced.
    #[inline(always)]
    pub fn hit_next(&mut self, slot: u32) {
        let now = self.now;
        let before = std::mem::replace(&mut self.times[slot as usize], now);
        self.look_up(before);
    }

    /// A look-up of a line that the cache has not. `place`: [`Shadow::placed`] is called next.
    #[inline(always)]
    pub fn miss(&mut self, line: u64, place: bool) -> Class {
        self.expect(1);
        let at = self.place(line);
        let before = self.away[at];
        let there = self.holds(before);
        if place {
            self.coming = (self.now, at as u32);
            self.look_up(before);
        } else if there {
            self.away[at] = self.now;
            self.look_up(before);
        } else {
            self.away[at] = FORGOTTEN;
        }
        if before == NEVER {
            Class::Compulsory
        } else if there {
            Class::Conflict
        } else {
            Class::Capacity
        }
    }

    /// The line that was missed is in this slot, from which another may have been evicted.
    #[inline]
    pub fn placed(&mut self, slot: u32, evicts: bool) {
        if evicts {
            self.removed(slot);
        }
        (self.times[slot as usize], self.places[slot as usize]) = self.coming;
    }

    /// The line in this slot is no longer there.
    #[inline]
    pub fn removed(&mut self, slot: u32) {
        self.away[self.places[slot as usize] as usize] = self.times[slot as usize];
    }

    /// So many look-ups are coming, at most [`Shadow::MOST`] or as many as there are lines: there
    /// are times for them.
    #[inline(always)]
    pub fn expect(&mut self, look_ups: usize) {
        if self.now as usize + look_ups > self.last.len() * 64 {
            self.renumber();
        }
    }

    /// Where a line's time belongs when it is away.
    #[inline(always)]
    fn place(&mut self, line: u64) -> usize {
        let key = line / PAGE as u64;
        let mut page = self.pages.get(key);
        if page == 0 {
            page = self.new_page(key);
        }
        (page as usize - 1) * PAGE + line as usize % PAGE
    }

    #[cold]
    #[inline(never)]
    fn new_page(&mut self, key: u64) -> u64 {
        if self.free.is_empty() && self.away.len() >= self.most_pages * PAGE {
            self.give_up_pages();
        }
        let page = self.free.pop().unwrap_or_else(|| {
            self.away.resize(self.away.len() + PAGE, NEVER);
            (self.away.len() / PAGE) as u64
        });
        let seen = self.seen.get(key);
        let times = &mut self.away[(page as usize - 1) * PAGE..][..PAGE];
        for (i, time) in times.iter_mut().enumerate() {
            *time = if seen >> i & 1 == 0 { NEVER } else { FORGOTTEN };
        }
        *self.pages.at(key) = page;
        page
    }

    /// Keeps no more than bits of pages that have no line in either cache.
    #[cold]
    #[inline(never)]
    fn give_up_pages(&mut self) {
        if self.held > self.lines {
            self.evict();
        }
        let (away, oldest) = (&self.away, self.oldest);
        let is_held = |times: &[u32]| times.iter().fold(false, |held, &time| held | (time >= oldest));
        let mut held: Vec<bool> = away.chunks(PAGE).map(is_held).collect();
        // That of a free slot does no harm.
        self.places.iter().for_each(|&place| held[place as usize / PAGE] = true);
        let (seen, free) = (&mut self.seen, &mut self.free);
        self.pages.retain(|key, page| {
            let at = page as usize - 1;
            if !held[at] {
                let times = away[at * PAGE..][..PAGE].iter().enumerate();
                *seen.at(key) |= times.fold(0, |bits, (i, &time)| bits | u64::from(time != NEVER) << i);
                free.push(page);
            }
            held[at]
        });
        let kept = away.len() / PAGE - free.len();
        self.most_pages = FEW_PAGES.max(2 * kept);
    }

    /// Whether the full cache has a line that was looked up last at this time.
    #[inline(always)]
    fn holds(&mut self, time: u32) -> bool {
        if time >= self.oldest && self.held > self.lines {
            self.evict();
        }
        time >= self.oldest
    }

    /// A look-up, at the full cache, of a line that was looked up before, and is placed if it is
    /// not there.
    #[inline(always)]
    fn look_up(&mut self, before: u32) {
        // Of times before the oldest, nobody wants to know.
        self.last[before as usize / 64] &= !(1 << (before % 64));
        self.held += usize::from(before < self.oldest);
        self.now += 1;
    }

    /// The lines that were looked up longest ago have to go.
    #[inline(never)]
    fn evict(&mut self) {
        let mut at = self.oldest as usize / 64;
        let mut word = self.last[at] & (u64::MAX << (self.oldest % 64));
        for _ in self.lines..self.held {
            while word == 0 {
                at += 1;
                word = self.last[at];
            }
            self.oldest = at as u32 * 64 + word.trailing_zeros() + 1;
            word &= word - 1;
        }
        self.held = self.lines;
    }

    /// Numbers the times of the lines that are there anew, from the beginning.
    #[cold]
    #[inline(never)]
    fn renumber(&mut self) {
        if self.held > self.lines {
            self.evict();
        }
        let oldest = self.oldest;
        self.last[oldest as usize / 64] &= u64::MAX << (oldest % 64);
        let mut before = vec![0; self.last.len()];
        let mut sum = BEGIN;
        for (at, word) in self.last.iter().enumerate().skip(oldest as usize / 64) {
            before[at] = sum;
            sum += word.count_ones();
        }
        let last = &self.last;
        let renumber = |time: &mut u32| {
            let (at, bit) = (*time as usize / 64, *time % 64);
            *time = if *time < oldest {
                FORGOTTEN.min(*time)
            } else {
                before[at] + (last[at] & !(u64::MAX << bit)).count_ones()
            }
        };
        self.times.iter_mut().for_each(renumber);
        self.away.iter_mut().for_each(renumber);
        let enough = (self.away.len() * TIMES_OF_A_LINE).next_power_of_two().min(MOST_TIMES) / 64;
        self.last.fill(u64::MAX);
        self.last.resize(self.last.len().max(enough), u64::MAX);
        self.oldest = BEGIN;
        self.now = BEGIN + self.held as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No line has this number.
    const FREE: u64 = u64::MAX;

    #[test]
    fn classes_are_those_of_a_list() {
        compare_with_list(100);
    }

    /// So many pages that there have to be more times.
    #[test]
    fn classes_are_those_of_a_list_when_lines_are_far_apart() {
        let shadow = compare_with_list(1 << 20);
        assert!(shadow.last.len() * 64 > TIMES, "{} pages", shadow.away.len() / PAGE);
    }

    /// Pages are given up, and nothing that matters is forgotten with them.
    #[test]
    fn pages_do_not_become_more_than_lines_need() {
        let shadow = compare_with_list(1 << 17);
        assert_eq!(shadow.away.len() / PAGE, FEW_PAGES);
        assert!(shadow.seen.iter().count() > FEW_PAGES);
    }

    /// Beside a direct-mapped cache, and a list of the lines looked up last, half of the time among
    /// so many; for so long that times are numbered anew.
    fn compare_with_list(far: u64) -> Shadow {
        const LINES: u64 = 24;
        let mut shadow = Shadow::new(LINES as usize);
        let mut cache = [FREE; LINES as usize];
        let (mut list, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
        let mut state = 1u64;
        let mut classes = [0; 3];
        for step in 0..5 * TIMES {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let line = (state >> 33) % if step % 5000 < 2500 { 20 } else { far };
            // Some are not placed if they are missed; some lines are taken away.
            let place = state >> 60 != 0;
            let slot = (line * 7 % LINES) as u32;
            let resident = &mut cache[slot as usize];
            if state >> 55 & 31 == 0 && *resident != FREE {
                shadow.removed(slot);
                *resident = FREE;
            }
            let held = list.iter().position(|&other| other == line);
            if *resident == line {
                shadow.hit(slot, place);
            } else {
                let expected = match (seen.insert(line), held) {
                    (true, _) => Class::Compulsory,
                    (false, None) => Class::Capacity,
                    (false, Some(_)) => Class::Conflict,
                };
                assert_eq!(shadow.miss(line, place), expected, "step {step}");
                classes[expected as usize] += 1;
                if place {
                    let evicted = std::mem::replace(resident, line);
                    shadow.placed(slot, evicted != FREE);
                }
            }
            if let Some(at) = held {
                list.remove(at);
            }
            if held.is_some() || place {
                list.insert(0, line);
                list.truncate(LINES as usize);
            }
        }
        assert!(classes.iter().all(|&n| n >= 100), "{classes:?}");
        shadow
    }
}
