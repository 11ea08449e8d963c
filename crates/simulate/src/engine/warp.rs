//! Leaving out iterations that provably repeat what the caches did before.
//!
//! **Problem.** A dense kernel touches billions of addresses to do the same thing over and over, a
//! little further on in memory.
//!
//! **Idea** (warping, after Morelli and Reineke, 2022). Let every access of a loop move by a fixed
//! distance from iteration to iteration, those of one *class* by the same. Let π be the map that
//! moves each line of a class by what that class moves in *p* iterations, and leaves other lines
//! alone. If the caches' state after some iteration is π of what it was *p* iterations before, then
//! the next *p* iterations do what the last *p* did, moved, and lead to π of the state again; and
//! so on to the loop's end. So what they count is counted as often as there are periods left, the
//! state is moved by as many periods at once, and they need not be simulated.
//!
//! **Why it is exact.** By induction over the accesses of a period: an access finds its line if and
//! only if the corresponding access did a period before. That needs (1) that π moves sets as a
//! whole: lines that share a set must go to a set together. The states are compared set by set,
//! each with the one that the period's *rotation* leads to, so this is checked with them. (2) That
//! no line gets into the way of another class: the bytes that each class touches in the whole loop
//! are apart from those of the others, and no line that is there moves through them either
//! (`in_the_way`). Lines' order, owners, touched bytes and marks must agree too, so everything that
//! is counted repeats.
//!
//! **What is no whole period** at the end of the loop begins as a period does: if the states and
//! counts after as many iterations of the first period were remembered too, the end need not be
//! simulated either.
//!
//! **Whose counts.** In a period that repeats, only reference points that made accesses in it count
//! anything, also as owners of what is evicted: a line of another owner that goes would have to be
//! there again after the period, and with the same owner. So counts are remembered of the points
//! that were seen in the loop ([`super::machine::Noted`]), and if there are new ones nothing is
//! left out.
//!
//! The period is computed, not searched: the least number of iterations after which all classes
//! have moved by whole lines, and by the same number of sets, in every cache. Where it is too long,
//! or there is memory of other kinds (random replacement, prefetchers, miss classes), nothing is
//! left out.
use super::cache::Cache;
use super::machine::{Machine, Mark};
use crate::config::{Inclusion, Prefetch};
use crate::sets::{Meta, Sets};
use memtrail_model::{gcd, Mover, Repeat};

/// Comparisons that fail before a loop is given up.
const ATTEMPTS: u32 = 24;

/// After so many other lines for each line of the caches, there probably is nothing in them that
/// was there before: at first, and at most.
pub(super) const FORGET: u64 = 2;
const MOST_TO_FORGET: u64 = 8;

/// A line that is remembered and compared costs as much as this number of accesses.
pub(super) const COST: u64 = 4;
/// Comparisons may take, in all, this fraction (one in …) of the time of simulating loops.
const SHARE: u64 = 4;
/// What they may take before there is any.
pub(super) const CREDIT: u64 = 1 << 24;

/// Lines that move alike: in the whole loop they lie in these ranges of addresses.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// In one iteration.
    pub shift: u64,
    /// In order, and apart from each other.
    ranges: Vec<(u64, u64)>,
}

impl Class {
    /// How many lines of so many bytes lie in its ranges, about.
    fn lines(&self, line: u64) -> u64 {
        self.ranges.iter().map(|&(low, high)| (high - low) / line).sum()
    }

    fn touches(&self, low: u64, high: u64) -> bool {
        self.range(low, high).is_some()
    }

    /// The last range that has addresses in common with this one.
    pub fn range(&self, low: u64, high: u64) -> Option<(u64, u64)> {
        let behind = self.ranges.partition_point(|&(from, _)| from <= high);
        let last = self.ranges[..behind].last().copied();
        last.filter(|&(_, to)| to >= low)
    }
}

/// The caches of a loop as they were after some iteration.
#[derive(Clone, Debug)]
struct Snapshot {
    /// By cache: lines in order, set after set.
    caches: Vec<Contents>,
    counted: Counted,
}

/// What had been counted then.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    /// By level, of the points that had been noted.
    marks: Vec<Mark>,
    points: usize,
}

impl Counted {
    pub fn by(machine: &Machine) -> Counted {
        let points = &machine.noted.points;
        Counted {
            marks: machine.levels.iter().map(|level| level.mark(points)).collect(),
            points: points.len(),
        }
    }

    /// Whether all that has counted anything until later is in both.
    pub fn has_points_of(&self, later: &Counted) -> bool {
        self.points == later.points
    }

    /// The same but for what has been evicted.
    pub fn without_evictions(&self) -> Counted {
        let mut counted = self.clone();
        counted.marks.iter_mut().for_each(Mark::leave_out_evictions);
        counted
    }

    /// Counts what was counted until later so many times more.
    pub fn repeat(&self, later: &Counted, machine: &mut Machine, times: u64) {
        let points = &machine.noted.points[..self.points];
        for (level, (before, after)) in machine.levels.iter_mut().zip(self.marks.iter().zip(&later.marks)) {
            level.repeat(points, before, after, times);
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Contents {
    lines: Vec<(u64, Meta)>,
    /// Where each set begins, and where the last ends.
    begins: Vec<u32>,
}

impl Contents {
    fn of(cache: &Cache) -> Contents {
        let mut contents = Contents {
            lines: Vec::with_capacity(cache.lines),
            begins: Vec::with_capacity(cache.sets.count() + 1),
        };
        cache.sets.in_order(&mut contents.lines, &mut contents.begins);
        contents.begins.push(contents.lines.len() as u32);
        contents
    }

    fn sets(&self) -> usize {
        self.begins.len() - 1
    }

    fn set(&self, set: usize) -> &[(u64, Meta)] {
        &self.lines[self.begins[set] as usize..self.begins[set + 1] as usize]
    }
}

/// A loop that is watched.
#[derive(Debug)]
pub(super) struct Watch {
    classes: Vec<Class>,
    /// The caches it goes through, from the first outwards.
    path: Vec<usize>,
    /// Accesses of an iteration.
    accesses: u64,
    /// Of a comparison, in accesses.
    cost: u64,
    /// Iterations since the last comparison, and how many have to pass before the next.
    passed: u64,
    wait: u64,
    before: Option<Snapshot>,
    /// After so many iterations of a period the loop's last ends, and how it was after those of
    /// this.
    rest: u64,
    middle: Option<Snapshot>,
    attempts: u32,
}

/// The least period that is a multiple of `period` and in which `distance` per iteration becomes a
/// multiple of `modulus`.
pub(super) fn lengthen(period: u64, distance: u64, modulus: u64) -> Option<u64> {
    let moved = period.wrapping_mul(distance);
    // Distances are modulo 2^64; taking the nearer way round keeps this right for all sizes of
    // caches.
    let moved = moved.min(moved.wrapping_neg()) % modulus;
    period.checked_mul(modulus / gcd(moved, modulus).max(1))
}

impl Watch {
    /// A loop of `trips` iterations, if it may be worth watching.
    pub fn new(machine: &Machine, first: usize, space: u64, repeat: &Repeat<'_>) -> Option<Watch> {
        let &Repeat { trips, accesses, .. } = repeat;
        let (path, classes) = path_and_classes(machine, first, space, repeat)?;
        let caches = || path.iter().map(|&at| &machine.caches[at]);
        let mut period = 1;
        for cache in caches() {
            let (line, span) = (cache.traits.line, cache.traits.line * cache.sets.count() as u64);
            for class in &classes {
                period = lengthen(period, class.shift, line)?;
                period = lengthen(period, class.shift.wrapping_sub(classes[0].shift), span)?;
            }
            if period > trips {
                return None;
            }
        }
        let lines: usize = caches().map(|cache| cache.lines).sum();
        let cost = COST * lines as u64;
        // Comparing must not cost much more than what goes on between.
        let least = lines as u64 / accesses.max(1);
        let wait = (least / period + 1).checked_mul(period)?;
        let line = machine.caches[first].traits.line;
        // A period may begin anywhere: the first comparison needs no more than time for the caches
        // to forget what was before.
        let lead = (machine.forget * lines as u64 / fresh(&classes, trips, line, lines as u64).max(1) + 1).min(wait);
        // Something must be left to leave out.
        (lead.checked_add(wait)?.checked_add(wait / 4)? <= trips).then_some(Watch {
            classes,
            path,
            accesses,
            cost,
            passed: wait - lead,
            wait,
            before: None,
            rest: 0,
            middle: None,
            attempts: 0,
        })
    }

    /// How many iterations should come before it is asked again; 0 if it need not be.
    pub fn next(&self) -> u64 {
        if self.attempts == ATTEMPTS {
            0
        } else if self.passed < self.rest {
            self.rest - self.passed
        } else {
            self.wait - self.passed
        }
    }

    /// Iterations have been simulated, and so many are left. Returns how many of those have been
    /// dealt with.
    pub fn iterated(&mut self, machine: &mut Machine, iterations: u64, left: u64) -> u64 {
        self.passed += iterations;
        machine.credit = machine
            .credit
            .saturating_add(iterations.saturating_mul(self.accesses) / SHARE);
        if self.attempts == ATTEMPTS || left == 0 {
            return 0;
        }
        if self.passed < self.wait {
            if self.passed == self.rest && self.before.is_some() {
                self.middle = Some(self.snapshot(machine));
            }
            return 0;
        }
        let since = std::mem::take(&mut self.passed);
        let middle = self.middle.take();
        if machine.credit < self.cost {
            self.before = None;
            self.rest = 0;
            return 0;
        }
        machine.credit -= self.cost;
        let now = self.snapshot(machine);
        if let Some(before) = self.before.take() {
            let (periods, rest) = (left / since, left % since);
            let middle = middle.filter(|_| rest == self.rest && rest > 0);
            let dealt_with = periods * since + if middle.is_some() { rest } else { 0 };
            let fits = since == self.wait && dealt_with > 0 && before.counted.has_points_of(&now.counted);
            if fits && self.repeats(machine, &before, &now, since, periods) {
                before.counted.repeat(&now.counted, machine, periods);
                match &middle {
                    Some(middle) => {
                        before.counted.repeat(&middle.counted, machine, 1);
                        self.place(machine, middle, since * (periods + 1));
                    }
                    None => self.place(machine, &now, since * periods),
                }
                machine.skipped += self.accesses * dealt_with;
                machine.credit += (u64::from(self.attempts) + 2) * self.cost;
                if self.attempts > 0 {
                    machine.forget = (machine.forget + 1).min(MOST_TO_FORGET);
                }
                self.attempts = ATTEMPTS;
                return dealt_with;
            }
            self.attempts += 1;
            if self.attempts % 4 == 0 {
                self.wait = self.wait.saturating_mul(2);
            }
        }
        self.rest = left % self.wait;
        self.before = Some(now);
        0
    }

    fn snapshot(&self, machine: &Machine) -> Snapshot {
        Snapshot {
            caches: self.path.iter().map(|&at| Contents::of(&machine.caches[at])).collect(),
            counted: Counted::by(machine),
        }
    }

    /// How far a line moves in one iteration.
    fn shift(&self, addr: u64, line: u64) -> u64 {
        let high = addr + (line - 1);
        let class = self.classes.iter().find(|class| class.touches(addr, high));
        class.map_or(0, |class| class.shift)
    }

    /// Whether the state now is the one before, moved by `since` iterations, and can go on so for
    /// `periods`.
    fn repeats(&self, machine: &Machine, before: &Snapshot, now: &Snapshot, since: u64, periods: u64) -> bool {
        let caches = self.path.iter().map(|&at| &machine.caches[at]);
        let mut pairs = before.caches.iter().zip(&now.caches).zip(caches);
        pairs.all(|((before, now), cache)| {
            let (line, shift) = (cache.traits.line, cache.traits.shift);
            let sets = before.sets() as u64;
            // All classes move by the same number of sets: see the period.
            let first = self.classes.first().map_or(0, |class| class.shift.wrapping_mul(since));
            let rotation = ((first as i64 >> shift).rem_euclid(sets as i64)) as u64;
            (0..sets).all(|set| {
                let (from, to) = (before.set(set as usize), now.set(((set + rotation) % sets) as usize));
                from.len() == to.len()
                    && from.iter().zip(to).all(|(a, b)| {
                        let per_iteration = self.shift(a.0 << shift, line);
                        let moved = (a.0 << shift).wrapping_add(per_iteration.wrapping_mul(since)) >> shift;
                        moved == b.0 && a.1 == b.1 && !self.in_the_way(b.0 << shift, line, since, periods)
                    })
            })
        })
    }

    /// Whether a line comes near bytes of another class on its way through so many periods.
    fn in_the_way(&self, addr: u64, line: u64, since: u64, periods: u64) -> bool {
        let shift = self.shift(addr, line);
        let way = shift.wrapping_mul(since).wrapping_mul(periods);
        let end = addr.wrapping_add(way);
        let (low, high) = if (way as i64) < 0 { (end, addr) } else { (addr, end) };
        // Once around memory: better not.
        let Some(high) = high.checked_add(line - 1).filter(|_| low <= high) else {
            return true;
        };
        self.classes
            .iter()
            .any(|class| class.shift != shift && class.touches(low, high))
    }

    /// Puts the lines of a snapshot where they would be so many iterations later.
    fn place(&self, machine: &mut Machine, snapshot: &Snapshot, iterations: u64) {
        for (contents, &at) in snapshot.caches.iter().zip(&self.path) {
            let cache = &mut machine.caches[at];
            let (line, shift) = (cache.traits.line, cache.traits.shift);
            cache.sets.clear();
            // Those to go first are placed first.
            for set in 0..contents.sets() {
                for &(number, meta) in contents.set(set).iter().rev() {
                    let addr = number << shift;
                    let way = self.shift(addr, line).wrapping_mul(iterations);
                    cache.sets.place(addr.wrapping_add(way) >> shift, meta);
                }
            }
        }
    }
}

/// How many lines each iteration brings, about, that caches of so many lines do not hold.
fn fresh(classes: &[Class], trips: u64, line: u64, held: u64) -> u64 {
    let lines = |moving: bool| -> u64 {
        let those = classes.iter().filter(|class| (class.shift != 0) == moving);
        those.map(|class| class.lines(line)).sum()
    };
    let staying = lines(false);
    lines(true) / trips + if staying > held { staying } else { 0 }
}

/// The caches of a loop's way, from the first outwards, and its classes, if its iterations may be
/// left out.
pub(super) fn path_and_classes(
    machine: &Machine,
    first: usize,
    space: u64,
    repeat: &Repeat<'_>,
) -> Option<(Vec<usize>, Vec<Class>)> {
    let mut path = vec![first];
    while let Some(below) = path.last().and_then(|&at| machine.caches[at].below) {
        path.push(below);
    }
    let caches = || path.iter().map(|&at| &machine.caches[at]);
    if caches().any(|cache| !cache.can_warp()) {
        return None;
    }
    let longest = caches().map(|cache| cache.traits.line).max()?;
    let classes = classes(repeat.movers, space, longest)?;
    Some((path, classes))
}

/// The classes of a loop's accesses, if they keep apart by whole lines.
fn classes(movers: &[Mover], space: u64, line: u64) -> Option<Vec<Class>> {
    let mut classes: Vec<Class> = Vec::new();
    for mover in movers {
        let (low, high) = (super::placed(mover.low, space), super::placed(mover.high, space));
        let range = (low & !(line - 1), high | (line - 1));
        if range.0 > range.1 {
            return None;
        }
        match classes.iter_mut().find(|class| class.shift == mover.shift) {
            Some(class) => class.ranges.push(range),
            None => classes.push(Class {
                shift: mover.shift,
                ranges: vec![range],
            }),
        }
    }
    for class in &mut classes {
        class.ranges.sort_unstable();
        class.ranges.dedup_by(|next, before| {
            let touch = next.0 <= before.1.saturating_add(1);
            if touch {
                before.1 = before.1.max(next.1);
            }
            touch
        });
    }
    for (i, class) in classes.iter().enumerate() {
        let mut others = classes[..i].iter().flat_map(|other| &other.ranges);
        if others.any(|&(low, high)| class.touches(low, high)) {
            return None;
        }
    }
    Some(classes)
}

impl Cache {
    /// Whether all its memory is its lines and what is known of each, it holds no lines but those
    /// that accesses touch, and it reaches into no cache that is not on the way to it.
    fn can_warp(&self) -> bool {
        (self.traits.inclusion == Inclusion::None || self.above.len() <= 1)
            && self.shadow.is_none()
            && self.traits.prefetch == Prefetch::None
            && self.sets.has_order()
    }
}
