//! Loops whose addresses move evenly, taken whole.
//!
//! **Idea.** If an iteration has found every line, the iterations that touch the same lines find them too, and leave the order of lines as it is: using lines
//! a second time in the same order changes nothing. Until an access leaves its line, only the touched bytes have to be kept up. Beyond that, whole
//! stretches may be left out: see [`super::warp`].
use super::cache::{Meta, Traits};
use super::fast::{pass, Pass};
use super::machine::{Hits, Machine, Origin};
use super::placed;
use super::warp::Watch;
use crate::sets::{AnySets, Sets};
use memtrail_model::{Kind, LoopAccess, LoopRun, Mover, Repeat};

/// Requests that wait for the next level at most.
const QUEUE: usize = 4096;
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
    is_write: bool,
    spatial: u64,
    hits: u64,
}

impl Lane {
    /// How many iterations from here on touch the same line: this one is not counted.
    #[inline]
    fn stays(&self, within: u64) -> u64 {
        let from = self.addr & within;
        match self.stride as i64 {
            0 => u64::MAX,
            stride if stride > 0 => (within - self.last - from) / stride as u64,
            stride => from / stride.unsigned_abs(),
        }
    }
}

/// Why a stretch ended.
enum End {
    /// It is finished, or the queue is full.
    Here,
    /// This lane's access needs more than one line, or is a prefetch.
    Special(usize),
}

/// A body and how far it has come.
struct Body {
    lanes: Vec<Lane>,
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
            is_write: access.kind == Kind::Write,
            spatial: 0,
            hits: 0,
        };
        Body {
            lanes: run.body.iter().map(lane).collect(),
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

    /// Adds up what the lanes have counted.
    fn settle(&mut self, pass: &mut Pass, hits: &mut [Hits]) {
        for lane in &mut self.lanes {
            let (found, spatial) = (std::mem::take(&mut lane.hits), std::mem::take(&mut lane.spatial));
            if found > 0 {
                let counts = &mut hits[lane.point as usize];
                counts.hits += found;
                counts.spatial += spatial;
                pass.ledger.requests(lane.kind).requests += found;
            }
        }
    }
}

/// Iterations that touch the lines that the one before has found.
#[inline]
fn same_lines(body: &mut Body, meta: &mut [Meta], traits: &Traits, iterations: u64) {
    let within = traits.line - 1;
    for _ in 0..iterations {
        for lane in &mut body.lanes {
            lane.addr = lane.addr.wrapping_add(lane.stride);
            let bits = traits.bits(lane.addr & within, lane.last + 1);
            let touched = &mut meta[lane.slot as usize].touched;
            lane.spatial += u64::from(bits & !*touched != 0);
            *touched |= bits;
            lane.hits += 1;
        }
    }
    body.left -= iterations;
}

/// Iterations at the first cache.
#[inline(never)]
fn stretch<S: Sets>(sets: &mut S, pass: &mut Pass, hits: &mut [Hits], body: &mut Body) -> End {
    let traits = *pass.traits;
    let (shift, within, dirty) = (traits.shift, traits.line - 1, traits.dirty());
    while body.left > 0 {
        let mut all = body.next == 0;
        let mut stays = u64::MAX;
        for at in body.next..body.lanes.len() {
            let lane = &mut body.lanes[at];
            let from = lane.addr & within;
            if lane.kind > Kind::Write || lane.last > within - from {
                body.next = at;
                body.settle(pass, hits);
                return End::Special(at);
            }
            let line = lane.addr >> shift;
            let bits = traits.bits(from, lane.last + 1);
            let Some(slot) = sets.look_up(line) else {
                all = false;
                pass.miss(sets, line, bits, lane.kind, lane.point);
                continue;
            };
            let meta = &mut pass.meta[slot as usize];
            pass.ledger.find(meta, lane.point);
            lane.spatial += u64::from(bits & !meta.touched != 0);
            lane.hits += 1;
            lane.slot = slot;
            meta.touched |= bits;
            if lane.is_write {
                meta.flags |= dirty;
            }
            stays = stays.min(lane.stays(within));
        }
        body.advance(1);
        if all && stays > 0 && body.left > 0 {
            let more = stays.min(body.left);
            // They begin from where the iteration before was.
            for lane in &mut body.lanes {
                lane.addr = lane.addr.wrapping_sub(lane.stride);
            }
            same_lines(body, pass.meta, &traits, more);
            for lane in &mut body.lanes {
                lane.addr = lane.addr.wrapping_add(lane.stride);
            }
        }
        if pass.out.as_ref().is_some_and(|out| out.len() >= QUEUE) {
            break;
        }
    }
    body.settle(pass, hits);
    End::Here
}

impl Machine {
    /// A loop in a hierarchy that goes the short way.
    pub fn looped(&mut self, first: usize, space: u64, run: &LoopRun<'_>, may_skip: bool) {
        let level = self.caches[first].level;
        for access in run.body {
            self.levels[level].know(access.point.0);
        }
        let mut body = Body::of(run, space);
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
        let mut left = run.trips;
        while left > 0 {
            let next = watch.as_ref().map_or(0, Watch::next);
            let now = if next == 0 { left } else { next.min(left) };
            body.left = now;
            self.iterate(first, &mut body);
            left -= now;
            if let Some(watch) = &mut watch {
                let skipped = watch.iterated(self, now, left);
                body.left = skipped;
                body.advance(skipped);
                left -= skipped;
            }
        }
    }

    /// Simulates the iterations that are left of a body.
    fn iterate(&mut self, first: usize, body: &mut Body) {
        while body.left > 0 {
            let mut queue = std::mem::take(&mut self.queues.0);
            let cache = &mut self.caches[first];
            let (sets, mut first_pass, hits) = pass(cache, &mut self.levels[cache.level], &mut queue);
            let end = match sets {
                AnySets::Lru8(sets) => stretch(sets, &mut first_pass, hits, body),
                sets => stretch(sets, &mut first_pass, hits, body),
            };
            self.queues.0 = queue;
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
            shift: access.stride,
            low: u64::try_from(first.min(end)).ok()?,
            high: u64::try_from(high).ok()?,
        })
    };
    run.body.iter().map(mover).collect()
}
