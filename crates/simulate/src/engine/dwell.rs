//! Leaving out iterations that touch the same lines as the one before.
//!
//! **Problem.** In a matrix product, neighbouring columns lie in the same lines. A loop over
//! columns does the same to the lines for as many iterations as fit into a line; but the period
//! after which [`super::warp`] finds everything moved by as many sets may be longer than the loop.
//!
//! **Idea.** As long as every access stays in the line in which the corresponding access of the
//! iteration before was, all iterations make the same sequence of look-ups. If a cache has, after
//! an iteration, the lines that it had before, with their order, owners and marks, then so it does
//! after every further one, and what is found, missed and evicted repeats. Under LRU the order need
//! not be looked at: lines that the sequence looks up are in the order in which it looked them up
//! last, and the others behind them in the order in which they were. This is for one LRU cache: the
//! requests that reach a further one need not be the same from the beginning, and it would rarely
//! be small enough to be compared so often.
//!
//! **Touched bytes** decide nothing but what is spatial and how much of a line was used. All
//! accesses to a line are of one class, and move by the same distance (see [`super::warp`]). A
//! line's bytes fall under one of five cases, or nothing is left out:
//! 1. The class does not move, and the bytes are what they were: they stay so.
//! 2. They are what they were, moved. Either the line comes in and goes in every iteration, or it
//!    stays and cannot be touched (then it would have more bytes than before): so it is in every
//!    further iteration.
//! 3. The line was not used in the iteration: so it is not in any further one.
//! 4. They are all of the line's bytes, and were. It did not come in during the iteration, or one
//!    that touches all bytes would leave the line with the next iteration. Nothing is spatial any
//!    more.
//! 5. It can only be touched by accesses that come once in an iteration, so it is known where they
//!    go; and it did not come in during the iteration, because it has bytes that they did not
//!    touch. They are followed one by one, for as long as the same ones are spatial.
use super::machine::Machine;
use super::warp::{path_and_classes, Class, Counted};
use crate::sets::{AnySets, Sets};
use memtrail_model::{Kind, Mover, Repeat};

/// Fewer iterations on the same lines are not worth looking for: two of them are simulated.
const FEWEST: u64 = 4;
/// Comparisons that fail, one after the other, before a loop is given up.
const ATTEMPTS: u32 = 6;

/// A loop whose accesses stay in their lines for some iterations.
#[derive(Debug)]
pub(super) struct Dwell {
    classes: Vec<Class>,
    movers: Vec<Mover>,
    cache: usize,
    /// Accesses of an iteration.
    accesses: u64,
    /// Bytes of a line, and their logarithm.
    line: u64,
    shift: u32,
    /// The iteration that comes next.
    at: u64,
    /// The first that leaves a line.
    until: u64,
    /// After the iteration before, if that was on the same lines.
    before: Option<(AnySets, Counted)>,
    failed: u32,
}

/// What an access that comes once in an iteration touches of a line, if it is in that.
fn bits(mover: &Mover, iteration: u64, line: u64, shift: u32) -> Option<u64> {
    let addr = mover.first.wrapping_add(mover.shift.wrapping_mul(iteration));
    let size = u64::from(mover.size.clamp(1, 64));
    (addr >> shift == line).then(|| (u64::MAX >> (64 - size)) << (addr & ((1 << shift) - 1)))
}

/// The bits of a line moved by so many places, if none gets lost.
#[inline]
fn moved(bits: u64, by: i64, line: u64) -> Option<u64> {
    let way = by.unsigned_abs();
    if way >= line {
        return (bits == 0).then_some(0);
    }
    let lost = if by > 0 {
        bits >> (line - way)
    } else {
        bits & ((1 << way) - 1)
    };
    let moved = if by > 0 { bits << way } else { bits >> way };
    (by == 0 || lost == 0).then_some(moved)
}

impl Dwell {
    pub fn new(machine: &Machine, first: usize, space: u64, repeat: &Repeat<'_>) -> Option<Dwell> {
        let (path, classes) = path_and_classes(machine, first, space, repeat)?;
        let cache = &machine.caches[first];
        let fits = path.len() == 1 && cache.sets.lru_ways().is_some();
        // Comparing must not cost more than what it may save, and a bit stands for a byte.
        if !fits || repeat.accesses < cache.lines as u64 || cache.traits.unit > 0 {
            return None;
        }
        let placed = |mover: &Mover| Mover {
            first: super::placed(mover.first, space),
            low: super::placed(mover.low, space),
            high: super::placed(mover.high, space),
            ..*mover
        };
        let mut dwell = Dwell {
            classes,
            movers: repeat.movers.iter().map(placed).collect(),
            accesses: repeat.accesses,
            line: cache.traits.line,
            shift: cache.traits.shift,
            cache: first,
            at: 0,
            until: 0,
            before: None,
            failed: 0,
        };
        // Where it begins may be the end of a line; there is something to gain if there is after
        // that.
        dwell.until = dwell.stays(0);
        let longest = dwell.until.max(dwell.stays(dwell.until) - dwell.until);
        (longest >= FEWEST && repeat.trips >= FEWEST).then_some(dwell)
    }

    /// The first iteration after one that does not touch its lines.
    fn stays(&self, iteration: u64) -> u64 {
        let stay = |mover: &Mover| {
            let by = mover.shift as i64;
            if by == 0 {
                return u64::MAX;
            }
            // Within an iteration it goes to the same place in cells of this size.
            let cell = 1u64 << (self.line | mover.grain).trailing_zeros();
            let place = mover.first.wrapping_add(mover.shift.wrapping_mul(iteration)) & (cell - 1);
            let size = u64::from(mover.size.max(1));
            let way = match cell.checked_sub(place + size) {
                None => 0,
                Some(up) if by > 0 => up,
                Some(_) => place,
            };
            way / by.unsigned_abs()
        };
        let further = self.movers.iter().map(stay).min().unwrap_or(0);
        iteration.saturating_add(further).saturating_add(1)
    }

    /// How many iterations should come before it is asked again; 0 if it need not be.
    pub fn next(&self) -> u64 {
        let left = self.until - self.at;
        if self.failed == ATTEMPTS {
            0
        } else if left >= FEWEST || self.before.is_some() {
            1
        } else {
            left
        }
    }

    /// Iterations have been simulated, and so many are left. Returns how many of those have been
    /// dealt with.
    pub fn iterated(&mut self, machine: &mut Machine, iterations: u64, left: u64) -> u64 {
        self.at += iterations;
        let before = self.before.take();
        let most = left.min(self.until - self.at);
        let mut more = 0;
        if most > 0 && self.failed < ATTEMPTS {
            let counted = Counted::by(machine);
            if let Some((sets, before)) = before {
                if before.has_points_of(&counted) {
                    more = self.leave_out(machine, &sets, most).unwrap_or(0);
                }
                before.repeat(&counted, machine, more);
                self.failed = if more == 0 { self.failed + 1 } else { 0 };
            }
            self.before = (more == 0 && most > 1).then(|| (machine.caches[self.cache].sets.clone(), counted));
        }
        self.at += more;
        if self.at == self.until {
            self.until = self.stays(self.at);
        }
        more
    }

    /// Leaves out at most so many iterations, if the last one repeats: touches what they would
    /// touch. Returns how many.
    fn leave_out(&self, machine: &mut Machine, before: &AnySets, most: u64) -> Option<u64> {
        let sets = &mut machine.caches[self.cache].sets;
        let all = u64::MAX >> (64 - self.line);
        let mut more = most;
        let (mut moving, mut followed) = (Vec::with_capacity(512), Vec::new());
        let mut near = (0, (1, 0));
        let repeats = sets.beside(before, |both| {
            let (was, is) = (both.before, both.now);
            let same = was.touched == is.touched;
            if (was.owner, was.flags) != (is.owner, is.flags) {
                return false;
            }
            if same && (!both.used || is.touched == all) {
                return true;
            }
            let addr = both.line << self.shift;
            if !(near.1 .0..=near.1 .1).contains(&addr) {
                near = self.shift(addr).unwrap_or((0, (addr, addr)));
            }
            let by = near.0;
            if by == 0 {
                return same;
            }
            if moved(was.touched, by, self.line) == Some(is.touched) {
                moving.push((both.slot, by, is.touched));
                return true;
            }
            let Some(same) = self.follow(both.line, was.touched, is.touched, most) else {
                return false;
            };
            more = more.min(same);
            followed.push((both.slot, both.line));
            true
        });
        let further = |(_, by, touched): &(u32, i64, u64)| moved(*touched, by.checked_mul(more as i64)?, self.line);
        if !repeats || moving.iter().any(|line| further(line).is_none()) {
            return None;
        }
        for line in &moving {
            sets.meta(line.0).touched = further(line)?;
        }
        for (slot, line) in followed {
            let bits = (self.at..self.at + more).fold(0, |bits, at| bits | self.all_bits(at, line));
            sets.meta(slot).touched |= bits;
        }
        machine.skipped += self.accesses * more;
        Some(more)
    }

    /// How far the accesses to a line move, and to others of a range around it.
    fn shift(&self, addr: u64) -> Option<(i64, (u64, u64))> {
        let ranges = self
            .classes
            .iter()
            .map(|class| (class.shift as i64, class.range(addr, addr + (self.line - 1))));
        ranges.filter_map(|(by, range)| Some((by, range?))).next()
    }

    /// What the accesses of an iteration touch of a line that only such touch as come once, one
    /// after the other.
    fn each_bits(&self, iteration: u64, line: u64) -> impl Iterator<Item = u64> + '_ {
        self.movers
            .iter()
            .filter_map(move |mover| bits(mover, iteration, line, self.shift))
    }

    fn all_bits(&self, iteration: u64, line: u64) -> u64 {
        self.each_bits(iteration, line).fold(0, |all, bits| all | bits)
    }

    /// For how many iterations, at most, the same accesses to a line are spatial as were in the
    /// last one, if that is known.
    fn follow(&self, line: u64, old: u64, new: u64, most: u64) -> Option<u64> {
        let (low, high) = (line << self.shift, (line << self.shift) + (self.line - 1));
        let mut near = self
            .movers
            .iter()
            .filter(|mover| mover.low <= high && mover.high >= low);
        if near.any(|mover| mover.grain > 0 || mover.kind > Kind::Write) {
            return None;
        }
        let last = self.all_bits(self.at - 1, line);
        if new != old | last || old & !last == 0 {
            return None;
        }
        let spatial = |iteration: u64, touched: &mut u64| -> Vec<bool> {
            let each = self.each_bits(iteration, line);
            each.map(|bits| {
                let new = bits & !*touched != 0;
                *touched |= bits;
                new
            })
            .collect()
        };
        let mut touched = old;
        let pattern = spatial(self.at - 1, &mut touched);
        let same = (0..most).take_while(|i| spatial(self.at + i, &mut touched) == pattern);
        Some(same.count() as u64)
    }
}
