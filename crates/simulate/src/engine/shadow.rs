//! Why a line is missed: never asked for, no room anywhere, or no room in its set.
//!
//! **Problem.** Beside the cache runs a fully associative one of the same size, with LRU. A line that was never asked for is a *compulsory* miss; of the
//! others, those that the fully associative cache misses too are *capacity* misses, the rest *conflicts*. The order of its lines changes at every access,
//! but is asked for only when the cache misses.
//!
//! **Idea.** Look-ups are numbered: that is their time. The full cache holds the N lines that were looked up last, so a line is there if and only if the time of its last look-up is not
//! less than [`Shadow::oldest`], that of the N-th. A hit of the cache writes down the time of the line in its slot, and takes the time before
//! out of a bit map of those times that are the last of some line; nothing is found or moved. When the full cache needs room, `oldest` goes on to the next
//! bit that is set. Lines that the full cache holds and the other does not are *away*, in a table of their own.
//!
//! When the times run out, those of the lines that are there are numbered anew, in the same order.
//!
//! Lines ever asked for are a bit each, in words of 64 neighbours.
use super::words::{home, Words};

/// Why a line was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Compulsory,
    Capacity,
    Conflict,
}

/// The time of what has not been looked up, or has been forgotten.
const NEVER: u32 = 0;
/// Times there are at least, and for each line.
const TIMES: usize = 1 << 14;
const TIMES_OF_A_LINE: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Shadow {
    /// How many the full cache has room for, and how many it holds.
    lines: usize,
    held: usize,
    /// By slot of the cache: when its line was looked up last.
    times: Vec<u32>,
    /// A bit by time: of the past, whether no later look-up was of the same line; of the future, set.
    last: Vec<u64>,
    now: u32,
    /// What the full cache holds was looked up then or later.
    oldest: u32,
    away: Away,
    /// When the line that is to be placed next was looked up.
    coming: u32,
    /// Bits of lines by `line / 64`.
    seen: Words,
}

impl Shadow {
    pub fn new(lines: usize) -> Shadow {
        let times = (lines * TIMES_OF_A_LINE).next_power_of_two().max(TIMES);
        Shadow {
            lines,
            held: 0,
            times: vec![NEVER; lines],
            last: vec![u64::MAX; times / 64],
            now: NEVER + 1,
            oldest: NEVER + 1,
            away: Away::new(lines),
            coming: NEVER,
            seen: Words::default(),
        }
    }

    /// A look-up of the line that the cache has in this slot. `place`: it would be placed if it were not there.
    #[inline(always)]
    pub fn hit(&mut self, slot: u32, place: bool) {
        self.make_room();
        let before = self.times[slot as usize];
        if place || before >= self.oldest {
            self.times[slot as usize] = self.look_up(before);
        }
    }

    /// A look-up of a line that the cache has not. `place`: [`Shadow::placed`] is called next.
    pub fn miss(&mut self, line: u64, place: bool) -> Class {
        self.make_room();
        let time = self.away.time(line);
        let before = time.as_deref().copied().unwrap_or(NEVER);
        let there = before >= self.oldest;
        let class = if there {
            Class::Conflict
        } else {
            let word = self.seen.at(line / 64);
            let new = *word >> (line % 64) & 1 == 0;
            *word |= 1 << (line % 64);
            if new {
                Class::Compulsory
            } else {
                Class::Capacity
            }
        };
        if place {
            time.into_iter().for_each(|time| *time = NEVER);
            self.coming = self.look_up(before);
        } else if there {
            time.into_iter().for_each(|time| *time = self.now);
            self.look_up(before);
        }
        class
    }

    /// The line that was missed is in this slot, from which another may have been evicted.
    #[inline]
    pub fn placed(&mut self, slot: u32, evicted: Option<u64>) {
        if let Some(line) = evicted {
            self.removed(slot, line);
        }
        self.times[slot as usize] = self.coming;
    }

    /// The line in this slot is no longer there.
    #[inline]
    pub fn removed(&mut self, slot: u32, line: u64) {
        let time = std::mem::replace(&mut self.times[slot as usize], NEVER);
        if time >= self.oldest {
            self.away.insert(line, time, self.oldest);
        }
    }

    #[inline(always)]
    fn make_room(&mut self) {
        if self.now as usize == self.last.len() * 64 {
            self.renumber();
        }
    }

    /// A look-up, at the full cache, of a line that was looked up before, and is placed if it is not there. Returns its time.
    #[inline(always)]
    fn look_up(&mut self, before: u32) -> u32 {
        let now = self.now;
        self.now += 1;
        if before >= self.oldest {
            self.last[before as usize / 64] &= !(1 << (before % 64));
        } else if self.held < self.lines {
            self.held += 1;
        } else {
            self.evict();
        }
        now
    }

    /// The line that was looked up longest ago has to go.
    #[inline]
    fn evict(&mut self) {
        let mut at = self.oldest as usize / 64;
        let mut word = self.last[at] & (u64::MAX << (self.oldest % 64));
        while word == 0 {
            at += 1;
            word = self.last[at];
        }
        self.oldest = at as u32 * 64 + word.trailing_zeros() + 1;
    }

    /// Numbers the times of the lines that are there anew, from the beginning.
    #[cold]
    #[inline(never)]
    fn renumber(&mut self) {
        let oldest = self.oldest;
        self.last[oldest as usize / 64] &= u64::MAX << (oldest % 64);
        let mut before = vec![0; self.last.len()];
        let mut sum = NEVER + 1;
        for (at, word) in self.last.iter().enumerate().skip(oldest as usize / 64) {
            before[at] = sum;
            sum += word.count_ones();
        }
        let last = &self.last;
        let renumbered = |time: u32| {
            let (at, bit) = (time as usize / 64, time % 64);
            if time < oldest {
                NEVER
            } else {
                before[at] + (last[at] & !(u64::MAX << bit)).count_ones()
            }
        };
        self.times.iter_mut().for_each(|time| *time = renumbered(*time));
        self.away.each(|time| *time = renumbered(*time));
        self.last.fill(u64::MAX);
        self.oldest = NEVER + 1;
        self.now = self.oldest + self.held as u32;
    }
}

/// Times of lines that are away. Those that the full cache has evicted, or that came back, stay in the table until it is full.
#[derive(Clone, Debug)]
struct Away {
    /// Open addressing.
    slots: Vec<(u64, u32)>,
    shift: u32,
    used: usize,
}

/// No line has this number.
const FREE: u64 = u64::MAX;

impl Away {
    fn new(lines: usize) -> Away {
        let slots = (lines * 2).next_power_of_two().max(4);
        Away {
            slots: vec![(FREE, NEVER); slots],
            shift: 64 - slots.trailing_zeros(),
            used: 0,
        }
    }

    #[inline(always)]
    fn probe(&self, line: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = home(line, self.shift) & mask;
        while self.slots[at].0 != line && self.slots[at].0 != FREE {
            at = (at + 1) & mask;
        }
        at
    }

    /// The time of a line, if it is in the table.
    #[inline]
    fn time(&mut self, line: u64) -> Option<&mut u32> {
        let at = self.probe(line);
        let slot = &mut self.slots[at];
        (slot.0 == line).then_some(&mut slot.1)
    }

    /// A line goes away.
    #[inline]
    fn insert(&mut self, line: u64, time: u32, oldest: u32) {
        let mut at = self.probe(line);
        if self.slots[at].0 == FREE {
            // No more lines are away than the full cache holds: half of the slots.
            if self.used * 4 >= self.slots.len() * 3 {
                self.purge(oldest);
                at = self.probe(line);
            }
            self.used += 1;
        }
        self.slots[at] = (line, time);
    }

    #[cold]
    #[inline(never)]
    fn purge(&mut self, oldest: u32) {
        let kept: Vec<(u64, u32)> = self.slots.iter().copied().filter(|slot| slot.1 >= oldest).collect();
        self.slots.fill((FREE, NEVER));
        self.used = kept.len();
        for slot in kept {
            let at = self.probe(slot.0);
            self.slots[at] = slot;
        }
    }

    fn each(&mut self, change: impl Fn(&mut u32)) {
        self.slots.iter_mut().for_each(|slot| change(&mut slot.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a direct-mapped cache, and a list of the lines looked up last; for so long that times are numbered anew and tables cleaned up.
    #[test]
    fn classes_are_those_of_a_list() {
        const LINES: u64 = 24;
        let mut shadow = Shadow::new(LINES as usize);
        let mut cache = [FREE; LINES as usize];
        let (mut list, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
        let mut state = 1u64;
        let mut classes = [0; 3];
        for step in 0..5 * TIMES {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let line = (state >> 33) % if step % 5000 < 2500 { 20 } else { 100 };
            // Some are not placed if they are missed; some lines are taken away.
            let place = state >> 60 != 0;
            let slot = (line * 7 % LINES) as u32;
            let resident = &mut cache[slot as usize];
            if state >> 55 & 31 == 0 && *resident != FREE {
                shadow.removed(slot, std::mem::replace(resident, FREE));
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
                    shadow.placed(slot, Some(evicted).filter(|&line| line != FREE));
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
    }
}
