//! Loops whose addresses move evenly, taken whole.
//!
//! **Idea.** If all lines of an iteration are there at its end, the iterations that touch the same
//! lines find them, and leave the order of lines as it is: using lines a second time in the same
//! order changes nothing. Until an access leaves its line, only the touched bytes have to be kept
//! up, and where the accesses go through their lines one after the other without gaps, those of all
//! these iterations at once. Beyond that, whole stretches may be left out: see [`super::warp`].
//!
//! **Who touches first.** Of accesses that move alike, each by its own size, one that is ahead of
//! another comes to every byte before it; of two in the same place, the one that is first in the
//! body. So their bytes can be touched one access after the other, those ahead first, as if
//! iterations did not take turns. Accesses that do not move touch nothing for the first time, after
//! the first iteration. Those that move otherwise go by iterations.
use super::cache::Traits;
use super::fast::{pass, Pass};
use super::machine::{LevelState, Machine, Origin};
use super::placed;
use super::steps::Steps;
use super::warp::Watch;
use crate::sets::{each, lru, AnySets, Sets};
use memtrail_model::{Kind, LoopAccess, LoopRun, Mover, Repeat};

/// Misses that are written down at most, and those of one more iteration.
pub(super) const LOG: usize = 4096;
/// Loops of fewer accesses are not watched.
const WORTH_WATCHING: u64 = 4096;

/// An access of a loop's body.
#[derive(Clone, Copy, Debug)]
struct Lane {
    /// In the iteration at hand.
    addr: u64,
    stride: u64,
    last: u64,
    kind: Kind,
    point: u32,
    /// Where its line was found last.
    slot: u32,
    /// Logarithm of how far it moves, if that is a power of two.
    pace: Option<u32>,
    is_write: bool,
    spatial: u64,
    /// Iterations in which it did not simply hit.
    misses: u64,
}

impl Lane {
    /// How many iterations from here on touch the same line: this one is not counted.
    #[inline]
    fn stays(&self, within: u64) -> u64 {
        let from = self.addr & within;
        let way = match self.stride as i64 {
            0 => return u64::MAX,
            stride if stride > 0 => within - self.last - from,
            _ => from,
        };
        match self.pace {
            Some(pace) => way >> pace,
            None => way / (self.stride as i64).unsigned_abs(),
        }
    }

    /// Whether it moves by its own size, from one multiple of that to the next.
    fn is_even(&self) -> bool {
        let size = self.last + 1;
        size.is_power_of_two() && self.addr % size == 0 && (self.stride as i64).unsigned_abs() == size
    }

    /// Touches what so many further iterations touch of its line, of at most 64 bytes. It is even.
    #[inline]
    fn go_through(&mut self, touched: &mut u64, within: u64, iterations: u64) {
        let (from, size) = (self.addr & within, self.last + 1);
        let all = u64::MAX >> (64 - iterations * size);
        let bits = if (self.stride as i64) > 0 {
            all << (from + size)
        } else {
            all << (from - iterations * size)
        };
        let new = bits & !*touched;
        *touched |= bits;
        if new != 0 {
            self.spatial += if new == bits { iterations } else { pieces(new, size) };
        }
    }
}

/// How many pieces of a line, of so many bytes each, have a bit.
#[inline]
pub(super) fn pieces(mut bits: u64, size: u64) -> u64 {
    // The lowest bit of each piece gets all others.
    for width in [32, 16, 8, 4, 2, 1] {
        bits |= if width < size { bits >> width } else { 0 };
    }
    let lowest = u64::MAX / (u64::MAX >> (64 - size));
    u64::from((bits & lowest).count_ones())
}

/// Why a stretch ended.
enum End {
    /// It is finished, or the log is full.
    Here,
    /// This lane's access needs more than one line, or is a prefetch.
    Special(usize),
}

/// A body and how far it has come.
struct Body {
    lanes: Vec<Lane>,
    /// Those that move, each that is ahead of another before it; `None` if they do not all move
    /// alike and evenly.
    alike: Option<Vec<usize>>,
    /// The lane to go on with.
    next: usize,
    /// Iterations left.
    left: u64,
}

impl Body {
    fn of(run: &LoopRun<'_>, space: u64) -> Body {
        let lane = |access: &LoopAccess| Lane {
            addr: placed(access.addr, space),
            stride: access.stride,
            last: u64::from(access.size.max(1)) - 1,
            kind: access.kind,
            point: access.point.0,
            slot: 0,
            pace: (access.stride as i64)
                .unsigned_abs()
                .checked_ilog2()
                .filter(|pace| 1 << pace == (access.stride as i64).unsigned_abs()),
            is_write: access.kind == Kind::Write,
            spatial: 0,
            misses: 0,
        };
        let lanes: Vec<Lane> = run.body.iter().map(lane).collect();
        Body {
            alike: alike(&lanes),
            lanes,
            next: 0,
            left: 0,
        }
    }

    /// On to the next iteration, or further.
    #[inline]
    fn advance(&mut self, iterations: u64) {
        for lane in &mut self.lanes {
            lane.addr = lane.addr.wrapping_add(iterations.wrapping_mul(lane.stride));
        }
        self.left -= iterations;
        self.next = 0;
    }

    /// Adds up what the lanes have counted in `iterations`.
    fn settle(&mut self, level: &mut LevelState, iterations: u64) {
        for lane in &mut self.lanes {
            let found = iterations - std::mem::take(&mut lane.misses);
            let spatial = std::mem::take(&mut lane.spatial);
            level.ledger.found(lane.kind, lane.point, found, spatial);
        }
    }
}

/// The lanes that move, those ahead first, if they move alike and evenly.
fn alike(lanes: &[Lane]) -> Option<Vec<usize>> {
    let mut moving: Vec<usize> = (0..lanes.len()).filter(|&at| lanes[at].stride != 0).collect();
    let first = &lanes[*moving.first()?];
    let all = moving
        .iter()
        .all(|&at| lanes[at].is_even() && lanes[at].stride == first.stride);
    if !all {
        return None;
    }
    let up = (first.stride as i64) > 0;
    moving.sort_by_key(|&at| if up { !lanes[at].addr } else { lanes[at].addr });
    Some(moving)
}

/// Iterations after the one at hand that touch the same lines. The addresses stay where they are.
#[inline]
fn same_lines(body: &mut Body, sets: &mut impl Sets, traits: &Traits, iterations: u64) {
    let within = traits.line - 1;
    match &body.alike {
        Some(moving) if traits.unit == 0 => {
            for &at in moving {
                let lane = &mut body.lanes[at];
                lane.go_through(&mut sets.meta(lane.slot).touched, within, iterations);
            }
        }
        _ => {
            for iteration in 1..=iterations {
                for lane in &mut body.lanes {
                    let addr = lane.addr.wrapping_add(iteration.wrapping_mul(lane.stride));
                    let bits = traits.bits(addr & within, lane.last + 1);
                    let touched = &mut sets.meta(lane.slot).touched;
                    lane.spatial += u64::from(bits & !*touched != 0);
                    *touched |= bits;
                }
            }
        }
    }
}

/// Iterations at the first cache.
#[inline(never)]
fn stretch<S: Sets>(sets: &mut S, pass: &mut Pass, body: &mut Body) -> End {
    let traits = *pass.traits;
    let (shift, within, dirty) = (traits.shift, traits.line - 1, traits.dirty);
    while body.left > 0 {
        // Whether all lines of this iteration are there at its end.
        let mut all = body.next == 0;
        let mut stays = u64::MAX;
        for at in body.next..body.lanes.len() {
            let (before, rest) = body.lanes.split_at_mut(at);
            let lane = &mut rest[0];
            let from = lane.addr & within;
            if lane.kind > Kind::Write || lane.last > within - from {
                body.next = at;
                lane.misses += 1;
                return End::Special(at);
            }
            stays = stays.min(lane.stays(within));
            let line = lane.addr >> shift;
            let bits = traits.bits(from, lane.last + 1);
            let time = sets.tick();
            let Some((slot, meta)) = sets.look_up_at(line, time) else {
                lane.misses += 1;
                let flags = if lane.is_write { dirty } else { 0 };
                lane.slot = pass.miss::<false>(sets, time, (line, bits, lane.point), flags, lane.is_write);
                all &= before.iter().all(|other| other.slot != lane.slot);
                continue;
            };
            pass.ledger.find(meta, lane.point);
            lane.spatial += u64::from(bits & !meta.touched != 0);
            lane.slot = slot;
            meta.touched |= bits;
            if lane.is_write {
                meta.flags |= dirty;
            }
        }
        let more = if all { stays.min(body.left - 1) } else { 0 };
        if more > 0 {
            same_lines(body, sets, &traits, more);
        }
        body.advance(1 + more);
        if pass.log.len() >= LOG {
            break;
        }
    }
    End::Here
}

impl Machine {
    /// A loop in a hierarchy that goes the short way.
    pub fn looped(&mut self, first: usize, space: u64, run: &LoopRun<'_>, may_skip: bool) {
        let level = self.caches[first].level;
        for access in run.body {
            self.levels[level].know(access.point.0);
            if self.noted.wants() {
                self.noted.note(access.point.0);
            }
        }
        let mut steps = std::mem::take(&mut self.steps);
        let by_lines = self.caches[first]
            .sets
            .lru_ways()
            .is_some_and(|ways| steps.take(run, space, &self.caches[first].traits, ways));
        let mut body = (!by_lines).then(|| Body::of(run, space));
        let accesses = run.body.len() as u64;
        let worth = may_skip && run.trips.saturating_mul(accesses) >= WORTH_WATCHING;
        let movers = worth.then(|| movers(run)).flatten();
        let mut watch = movers.and_then(|movers| {
            let repeat = Repeat {
                thread: run.thread,
                trips: run.trips,
                accesses,
                movers: &movers,
            };
            Watch::new(self, first, space, &repeat)
        });
        if watch.is_some() {
            self.noted.begin();
            run.body.iter().for_each(|access| self.noted.note(access.point.0));
        }
        let mut left = run.trips;
        while left > 0 {
            let next = watch.as_ref().map_or(0, Watch::next);
            let now = if next == 0 { left } else { next.min(left) };
            match &mut body {
                Some(body) => {
                    body.left = now;
                    self.iterate(first, body);
                }
                None => self.step(first, &mut steps, now),
            }
            left -= now;
            if let Some(watch) = &mut watch {
                let skipped = watch.iterated(self, now, left);
                match &mut body {
                    Some(body) => {
                        body.left = skipped;
                        body.advance(skipped);
                    }
                    None => steps.leave_out(skipped),
                }
                left -= skipped;
            }
        }
        if watch.is_some() {
            self.noted.end();
        }
        self.steps = steps;
    }

    /// Simulates iterations of a loop that goes by lines.
    fn step(&mut self, first: usize, steps: &mut Steps, iterations: u64) {
        steps.begin(iterations);
        while !steps.done() {
            let log = &mut self.logs.0;
            log.make_room(LOG + steps.accesses());
            let cache = &mut self.caches[first];
            let (sets, mut first_pass, _) = pass(cache, &mut self.levels[cache.level], log);
            lru!(sets, sets => steps.go(sets, &mut first_pass), else {});
            self.further(first);
        }
        steps.settle(&mut self.levels[self.caches[first].level]);
    }

    /// Simulates the iterations that are left of a body.
    fn iterate(&mut self, first: usize, body: &mut Body) {
        let iterations = body.left;
        while body.left > 0 {
            let log = &mut self.logs.0;
            log.make_room(LOG + body.lanes.len());
            let cache = &mut self.caches[first];
            let (sets, mut first_pass, _) = pass(cache, &mut self.levels[cache.level], log);
            let end = each!(sets, sets => stretch(sets, &mut first_pass, body));
            self.settle(first);
            self.further(first);
            if let End::Special(at) = end {
                let lane = body.lanes[at];
                let size = lane.last + 1;
                let origin = Origin::of(lane.point, lane.addr, size as u32);
                self.access(first, lane.kind, lane.addr, size, &origin);
                body.next = at + 1;
                if body.next == body.lanes.len() {
                    body.advance(1);
                }
            }
        }
        body.settle(&mut self.levels[self.caches[first].level], iterations);
    }
}

/// Whether all of a loop's addresses belong to one address space, or none do.
pub(super) fn keeps_to_space(run: &LoopRun<'_>) -> bool {
    const END: u64 = 1 << 47;
    let all = movers(run);
    all.is_some_and(|movers| movers.iter().all(|m| m.high < END || m.low >= END))
}

/// How the accesses of a loop move, unless one goes around the end of memory.
fn movers(run: &LoopRun<'_>) -> Option<Vec<Mover>> {
    let mover = |access: &LoopAccess| {
        let way = i128::from(access.stride as i64) * i128::from(run.trips - 1);
        let (first, end) = (i128::from(access.addr), i128::from(access.addr) + way);
        let high = first.max(end) + i128::from(access.size.max(1)) - 1;
        Some(Mover {
            point: access.point,
            times: 1,
            kind: access.kind,
            shift: access.stride,
            first: access.addr,
            size: access.size,
            grain: 0,
            low: u64::try_from(first.min(end)).ok()?,
            high: u64::try_from(high).ok()?,
        })
    };
    run.body.iter().map(mover).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_with_a_bit_are_counted() {
        for size in [1, 2, 4, 8, 16, 32, 64] {
            assert_eq!(pieces(u64::MAX, size), 64 / size);
            assert_eq!(pieces(0, size), 0);
            assert_eq!(pieces(1 << 63 | 1, size), if size == 64 { 1 } else { 2 });
        }
        assert_eq!(pieces(0x00ff_8000_0001_0100, 8), 4);
    }
}
