//! Loops whose addresses move evenly, line by line, under LRU.
//!
//! **Problem.** Most iterations touch the lines of the one before. [`super::looped`] takes those
//! together, but each time that one access comes to another line it looks all of them up.
//!
//! **Idea.** An access is dealt with when it comes to a line, for as long as it stays there. That
//! is exact because nothing can happen to the line meanwhile: before an access, those before it in
//! the body and, of the iteration before, those behind it were the last to use lines; so the lines
//! that accesses are on are among the last used, and are not evicted if the body has no more
//! accesses than a set has ways. Whoever stays on a line hits. And since it is known how long that
//! will be, the time of the line's last use is written down when the access comes to it: until then
//! no other line of the set is later, as it should be, and after that the order of lines is what it
//! should be.
//!
//! **Who touches first.** Bytes of a line are touched for all of the stay at once. Accesses of the
//! same size and stride, each at multiples of its size, either never touch the same bytes or one is
//! ahead and comes to every line before the other: only in the first iteration may they come to one
//! together, and then those ahead touch first. Others must not share lines.
//!
//! Accesses that are always in the same place are one, which takes the place of the first of them.
//! Strides divide lines, or lines strides, so that all lines but the first are come to in the same
//! place. What does not fit into this is left to [`super::looped`].
use super::cache::Traits;
use super::fast::Pass;
use super::log::Missed;
use super::looped::{pieces, LOG};
use super::machine::LevelState;
use super::placed;
use crate::sets::{Come, Meta, Sets, StampedSets, MOVES};
use memtrail_model::{Kind, LoopAccess, LoopRun};

/// Accesses of a body that are always in the same place.
#[derive(Clone, Copy, Debug)]
struct Lane {
    line: u64,
    /// From a line to the next.
    hop: u64,
    /// When the iteration begins in which it comes to that.
    next: u64,
    /// Iterations on a line, but for the first and the last, and what they touch.
    stay: u64,
    bits: u64,
    /// What it makes of a line.
    flags: u32,
    /// Its last place in the body.
    last: u64,
    /// How long it is on a line from the beginning of the first iteration there, and when after
    /// that it uses the line for the last time.
    lasts: u64,
    leaves: u64,
    kind: Kind,
    point: u32,
    spatial: u64,
    misses: u64,
    /// The same was known of so many lines that it evicted last.
    evicted: (Meta, u64),
    /// In the first of the iterations begun.
    addr: u64,
    stride: u64,
    size: u64,
    /// The lines' first and last bytes, in the whole run.
    range: (u64, u64),
}

impl Lane {
    /// What a run's access does, number `position` in the body, as far as it can be taken by lines.
    fn of(access: &LoopAccess, trips: u64, space: u64, traits: &Traits, position: u64) -> Option<Lane> {
        let addr = placed(access.addr, space);
        let (size, stride) = (u64::from(access.size), access.stride as i64);
        let (line, step) = (traits.line, stride.unsigned_abs());
        let even = size.is_power_of_two() && size <= line && (addr | step) & (size - 1) == 0;
        let regular = step & (line - 1) == 0 || step.is_power_of_two();
        if !even || !regular || access.kind > Kind::Write {
            return None;
        }
        let way = stride.checked_mul(i64::try_from(trips - 1).ok()?)?;
        let end = addr.checked_add_signed(way)?;
        let mut lane = Lane {
            line: 0,
            hop: if step < line {
                stride.signum() as u64
            } else {
                (stride >> traits.shift) as u64
            },
            next: 0,
            stay: 0,
            bits: 0,
            flags: if access.kind == Kind::Write { traits.dirty } else { 0 },
            last: position,
            lasts: 0,
            leaves: 0,
            kind: access.kind,
            point: access.point.0,
            spatial: 0,
            misses: 0,
            evicted: (Meta::default(), 0),
            addr,
            stride: access.stride,
            size,
            range: (addr.min(end) & !(line - 1), addr.max(end) | (line - 1)),
        };
        if step > 0 {
            // Where it comes to a line.
            let from = if step >= line {
                addr & (line - 1)
            } else if stride > 0 {
                addr & (step - 1)
            } else {
                line - step + (addr & (step - 1))
            };
            lane.stay = lane.stays(from, line);
            lane.bits = lane.touches(from, lane.stay);
        }
        Some(lane)
    }

    /// Whether these never come to a line together in such a way that it matters who is first.
    fn goes_with(&self, other: &Lane) -> bool {
        let alike = self.stride == other.stride && (self.size == other.size || self.stride == 0);
        alike || self.range.1 < other.range.0 || other.range.1 < self.range.0
    }

    /// Whether it is in the same place.
    fn is_twin(&self, other: &Lane) -> bool {
        (self.addr, self.stride, self.size) == (other.addr, other.stride, other.size)
    }

    /// How many iterations it is on a line that it moves through from here.
    fn stays(&self, from: u64, line: u64) -> u64 {
        let step = (self.stride as i64).unsigned_abs();
        let way = if self.stride as i64 > 0 {
            line - self.size - from
        } else {
            from
        };
        // A step that is shorter than a line is a power of two.
        if step < line {
            (way >> step.trailing_zeros()) + 1
        } else {
            1
        }
    }

    /// What it touches of a line of at most 64 bytes in so many iterations from here.
    fn touches(&self, from: u64, iterations: u64) -> u64 {
        let piece = u64::MAX >> (64 - self.size);
        if self.stride == self.size {
            return u64::MAX >> (64 - self.size * iterations) << from;
        }
        let places = (0..iterations).map(|i| from.wrapping_add(self.stride.wrapping_mul(i)));
        places.fold(0, |bits, place| bits | piece << place)
    }

    /// Touches bits of a line that is there, in so many iterations.
    #[inline(always)]
    fn touch(&mut self, touched: &mut u64, bits: u64, iterations: u64) {
        let new = bits & !*touched;
        *touched |= bits;
        if new != 0 {
            self.spatial += if new == bits {
                iterations
            } else {
                pieces(new, self.size)
            };
        }
    }

    /// It comes to its line, which it uses until some time, and touches bits of it in so many
    /// iterations; `asked` are those of the first. Returns where the line is.
    #[inline(always)]
    fn comes<const N: usize, const FULL: bool>(
        &mut self,
        sets: &mut StampedSets<N, MOVES, FULL>,
        pass: &mut Pass,
        (bits, stay): (u64, u64),
        time: u64,
        asked: impl Fn(&Lane) -> u64,
    ) -> u32 {
        let Come {
            slot,
            meta,
            is_there,
            evicted,
        } = sets.come(self.line, time);
        if is_there {
            pass.ledger.find(meta, self.point);
            meta.flags |= self.flags;
            self.touch(&mut meta.touched, bits, stay);
            return slot;
        }
        self.misses += 1;
        self.spatial += stay - 1;
        let brought = Meta {
            touched: bits,
            owner: self.point,
            flags: self.flags,
        };
        let old = std::mem::replace(meta, brought);
        if evicted.is_some() {
            if old != self.evicted.0 {
                self.count_evicted(pass);
                self.evicted.0 = old;
            }
            self.evicted.1 += 1;
        }
        if pass.goes_on {
            let missed = Missed::new(self.line, asked(self), self.point, self.kind == Kind::Write);
            pass.log.push(missed.evicting(evicted.map(|line| (line, old))));
        }
        slot
    }

    #[inline(never)]
    fn count_evicted(&mut self, pass: &mut Pass) {
        let (old, times) = std::mem::take(&mut self.evicted);
        if times > 0 {
            pass.ledger.replaced(pass.traits, &old, self.point, times);
        }
    }
}

/// A loop on its way through a cache.
#[derive(Debug, Default)]
pub(super) struct Steps {
    lanes: Vec<Lane>,
    /// Where each one's first line is, and for how many iterations it is on that.
    firsts: Vec<(u32, u64)>,
    /// Lanes that move, those that are ahead of others before them.
    ahead: Vec<usize>,
    /// Those that are where one before them in the body is, which always hit.
    followers: Vec<(Kind, u32)>,
    /// The iteration at hand, of those of [`Steps::begin`], and how many these are.
    at: u64,
    end: u64,
    /// When they began, and how long each takes.
    began: u64,
    length: u64,
}

impl Steps {
    /// Takes a run over, if it is one that can be taken by lines through an LRU cache of so many
    /// ways.
    pub fn take(&mut self, run: &LoopRun<'_>, space: u64, traits: &Traits, ways: usize) -> bool {
        self.lanes.clear();
        self.followers.clear();
        self.ahead.clear();
        self.length = run.body.len() as u64;
        if traits.unit > 0 || run.body.len() > ways || run.trips == 0 {
            return false;
        }
        let mut meet = false;
        for (at, access) in run.body.iter().enumerate() {
            let Some(lane) = Lane::of(access, run.trips, space, traits, at as u64) else {
                return false;
            };
            if let Some(twin) = self.lanes.iter_mut().find(|other| other.is_twin(&lane)) {
                twin.last = lane.last;
                twin.flags |= lane.flags;
                self.followers.push((lane.kind, lane.point));
                continue;
            }
            if !self.lanes.iter().all(|other| other.goes_with(&lane)) {
                return false;
            }
            meet |= self.lanes.iter().any(|other| other.stride == lane.stride);
            if lane.stride != 0 {
                self.ahead.push(self.lanes.len());
            }
            self.lanes.push(lane);
        }
        self.firsts.resize(self.lanes.len(), (0, 0));
        if meet {
            let lanes = &self.lanes;
            let ahead = |at: &usize| match lanes[*at].stride as i64 > 0 {
                true => !lanes[*at].addr,
                false => lanes[*at].addr,
            };
            self.ahead.sort_by_key(ahead);
        }
        true
    }

    /// Of an iteration.
    pub fn accesses(&self) -> usize {
        self.length as usize
    }

    /// Begins with the next iterations.
    pub fn begin(&mut self, iterations: u64) {
        (self.at, self.end) = (0, iterations);
    }

    /// Whether all of them are done.
    pub fn done(&self) -> bool {
        self.at == self.end
    }

    /// Leaves iterations out, after those begun have been done.
    pub fn leave_out(&mut self, iterations: u64) {
        for lane in &mut self.lanes {
            lane.addr = lane.addr.wrapping_add(lane.stride.wrapping_mul(iterations));
        }
    }

    /// Counts what has been done, and is ready for more.
    pub fn settle(&mut self, level: &mut LevelState) {
        for lane in &mut self.lanes {
            let (misses, spatial) = (std::mem::take(&mut lane.misses), std::mem::take(&mut lane.spatial));
            level.ledger.missed_some(lane.kind, lane.point, misses);
            level.ledger.found(lane.kind, lane.point, self.end - misses, spatial);
        }
        for &(kind, point) in &self.followers {
            level.ledger.found(kind, point, self.end, 0);
        }
        self.leave_out(self.end);
    }

    /// Goes on with the iterations begun until they are done, or the log is full. What is written
    /// down is for the next level: it is counted here.
    #[inline(never)]
    pub fn go<const N: usize, const FULL: bool>(&mut self, sets: &mut StampedSets<N, MOVES, FULL>, pass: &mut Pass) {
        let tick = StampedSets::<N, MOVES, FULL>::TICK;
        let (length, line) = (self.length * tick, pass.traits.line);
        if self.at == 0 {
            self.began = sets.time() + tick;
            self.first_iteration(sets, pass);
        }
        let (began, end) = (self.began, self.began + self.end * length);
        let iteration = |time: u64| (time - began) / length;
        let mut now = began + self.at * length;
        while now < end {
            let mut next = end;
            for lane in &mut self.lanes {
                if lane.next == now {
                    lane.line = lane.line.wrapping_add(lane.hop);
                    lane.next = now + lane.lasts;
                    let (mut stay, mut bits, mut time) = (lane.stay, lane.bits, now + lane.leaves);
                    if lane.next > end {
                        (stay, bits) = lane.shorter(iteration(now), self.end, line);
                        time = end - length + lane.last * tick;
                    }
                    let asked = |lane: &Lane| lane.shorter(iteration(now), iteration(now) + 1, line).1;
                    lane.comes(sets, pass, (bits, stay), time, asked);
                }
                next = next.min(lane.next);
            }
            now = next;
            if pass.log.len() >= LOG {
                break;
            }
        }
        self.at = iteration(now);
        if now == end {
            self.lanes.iter_mut().for_each(|lane| lane.count_evicted(pass));
            sets.set_time(end);
        }
    }

    /// Every access comes to its line, and touches what it will touch there.
    fn first_iteration<const N: usize, const FULL: bool>(
        &mut self,
        sets: &mut StampedSets<N, MOVES, FULL>,
        pass: &mut Pass,
    ) {
        let tick = StampedSets::<N, MOVES, FULL>::TICK;
        let (traits, length) = (*pass.traits, self.length * tick);
        let within = traits.line - 1;
        self.at = self.end;
        for (lane, (slot, stay)) in self.lanes.iter_mut().zip(&mut self.firsts) {
            let from = lane.addr & within;
            lane.line = lane.addr >> traits.shift;
            *stay = self.end;
            if lane.stride != 0 {
                lane.lasts = lane.stay * length;
                lane.leaves = lane.lasts - length + lane.last * tick;
                *stay = lane.stays(from, traits.line).min(self.end);
            }
            self.at = self.at.min(*stay);
            lane.next = self.began + *stay * length;
            let bits = lane.touches(from, 1);
            let time = lane.next - length + lane.last * tick;
            *slot = lane.comes(sets, pass, (bits, 1), time, |_| bits);
        }
        for &i in &self.ahead {
            let (lane, (slot, stay)) = (&mut self.lanes[i], self.firsts[i]);
            let from = lane.addr & within;
            let more = lane.touches(from, stay) & !lane.touches(from, 1);
            lane.touch(&mut sets.meta(slot).touched, more, stay - 1);
        }
    }
}

impl Lane {
    /// How many iterations there are on a line it comes to `at` an iteration, before the `end`, and
    /// what they touch.
    #[cold]
    fn shorter(&self, at: u64, end: u64, line: u64) -> (u64, u64) {
        let addr = self.addr.wrapping_add(self.stride.wrapping_mul(at));
        (end - at, self.touches(addr & (line - 1), end - at))
    }
}
