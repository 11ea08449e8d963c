//! Leaving out iterations of a loop that streams through memory.
//!
//! **Problem.** In a factorisation, the row that is subtracted stays where it is while the rows
//! that it is subtracted from go by. A set meets both at ever changing distances, so the period
//! after which [`super::warp`] finds the caches as they were, moved, is long, often longer than the
//! loop.
//!
//! **Idea.** An LRU set forgets: what it holds are the lines used last, as many as it has ways. If
//! those of any two successive iterations fit, it does not matter for an iteration what was before
//! the last one. Its accesses to lines that *stay* hit, because the last iteration used them; those
//! to lines that *move* miss unless this iteration or the last one used them, because no other
//! comes near them. So once the loop is under way, what an iteration finds depends on nothing but
//! where in their lines the addresses are, and is the same after a *period* in which all have moved
//! by whole lines.
//!
//! **What is asked of a loop.** (1) Accesses that move, but not alike, have no lines in common;
//! those that move alike have none in common with those of the iteration after the next; and none
//! of them comes to a line that stays, except in the first iteration, which is simulated in any
//! case. (2) In no set, the lines that stay and those that move in two successive iterations are
//! more than its ways. (3) When the loop begins, the cache holds no line of the iterations behind
//! the first, of so many that each set they visit gets as many lines as it has ways: what it holds
//! otherwise is gone before it could be used. (4) No line is passed over between the first and the
//! last one of a span, in a whole period: that is looked at when it has been simulated.
//!
//! **From the second iteration on** all is as it will be: the first has touched whatever it touches
//! of lines that stay, and lines that it has in common with the second were not there before it.
//!
//! **What is evicted** when, and by whom, is not the same in each period; but nothing is lost. A
//! line goes in the state in which it was left behind, so over the whole loop those are evicted
//! that were there and those that came, but for those that are there in the end. So the lines that
//! left-out iterations leave behind are counted as evicted, as are all lines that are there when
//! iterations are left out, except those that the next iteration uses. The last iterations are
//! simulated, at least so many that each set they visit gets as many lines as it has ways: then all
//! lines are there that should be, in the right order, and whatever came before has been evicted.
//! Sets that lines come to in no iteration keep what they hold. Who evicts whom remains unknown: if
//! it is asked for, nothing is left out.
use super::cache::Traits;
use super::machine::Machine;
use super::placed;
use super::warp::{lengthen, Counted, COST};
use crate::config::{Inclusion, Prefetch, Write};
use crate::sets::{Meta, Sets};
use memtrail_model::{Kind, Mover, Repeat};
use std::ops::RangeInclusive;

/// Looking for how long it takes until all lines of a cache have gone is given up after so many
/// lines for each.
const MOST_TURNS: u64 = 4;

/// Bytes that lie together and move alike.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// In one iteration.
    shift: u64,
    /// The first and the last of the first iteration.
    low: u64,
    high: u64,
}

impl Span {
    /// Its lines in an iteration.
    fn lines(&self, iteration: u64, shift: u32) -> RangeInclusive<u64> {
        let way = self.shift.wrapping_mul(iteration);
        self.low.wrapping_add(way) >> shift..=self.high.wrapping_add(way) >> shift
    }

    /// From its first to its last line in these iterations.
    fn range(&self, first: u64, last: u64, shift: u32) -> RangeInclusive<u64> {
        let (first, last) = (self.lines(first, shift), self.lines(last, shift));
        *first.start().min(last.start())..=*first.end().max(last.end())
    }

    /// An iteration later.
    fn next(&self) -> Span {
        Span {
            shift: self.shift,
            low: self.low.wrapping_add(self.shift),
            high: self.high.wrapping_add(self.shift),
        }
    }

    /// Includes another that moves alike.
    fn include(&mut self, other: &Span) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }

    /// From its first byte to its last.
    fn length(&self) -> u64 {
        self.high - self.low
    }

    fn step(&self) -> u64 {
        (self.shift as i64).unsigned_abs()
    }

    /// How many lines an iteration has at most.
    fn most_lines(&self, line: u64) -> u64 {
        self.length().saturating_add(line - 1) / line + 1
    }
}

/// A loop of which iterations may be left out.
#[derive(Debug)]
pub(super) struct Stream {
    staying: Vec<Span>,
    moving: Vec<Span>,
    cache: usize,
    /// Logarithm of the bytes of a line.
    shift: u32,
    trips: u64,
    /// Of one iteration.
    accesses: u64,
    /// After this number of iterations everything has moved by whole lines.
    period: u64,
    /// After this number they are in the same sets.
    cycle: u64,
    /// By set: whether lines that move come to it.
    visited: Vec<bool>,
    /// Iterations at the end of the loop that are simulated.
    rest: u64,
    /// The iteration that comes next.
    at: u64,
    before: Option<Counted>,
    /// Lines that were used since then and will not be again, as they have been left, and how many
    /// of the same kind in a row.
    left_behind: Vec<(Meta, u64)>,
}

impl Stream {
    /// A loop that is about to begin, if iterations of it can be left out, and that is worth it.
    pub fn new(machine: &Machine, first: usize, space: u64, repeat: &Repeat<'_>) -> Option<Stream> {
        let &Repeat { trips, accesses, .. } = repeat;
        let cache = &machine.caches[first];
        let ways = cache.sets.lru_ways()? as u64;
        let (line, sets, lines) = (cache.traits.line, cache.sets.count() as u64, cache.lines as u64);
        let alone = cache.below.is_none() && cache.above.is_empty() && cache.shadow.is_none();
        let worth = COST * lines / accesses.max(1) + 1;
        let known = repeat.movers.iter().all(|mover| mover.kind <= Kind::Write);
        if !alone || !allocates(&cache.traits) || machine.levels[cache.level].ledger.has_evictors() {
            return None;
        }
        if trips <= worth || !known {
            return None;
        }
        let shift = cache.traits.shift;
        let spans = without_gaps(first_iteration(repeat.movers, space, trips)?, line);
        let (staying, moving): (Vec<Span>, Vec<Span>) = spans.into_iter().partition(|span| span.shift == 0);
        let groups = groups(&moving, trips, shift)?;
        let is_apart = |span: &Span| span.step().saturating_mul(2) >= span.length().saturating_add(line);
        let stays = |range: RangeInclusive<u64>| staying.iter().any(|span| meet(&range, &span.lines(0, shift)));
        let crowd = |spans: &[Span]| -> u64 { spans.iter().map(|s| s.most_lines(line).div_ceil(sets)).sum() };
        let next = moving.iter().map(Span::next);
        let two_iterations = without_gaps(moving.iter().copied().chain(next).collect(), line);
        if moving.is_empty()
            || !groups.iter().all(is_apart)
            || moving.iter().any(|span| stays(span.range(1, trips - 1, shift)))
            || crowd(&staying) + crowd(&two_iterations) > ways
        {
            return None;
        }
        let shifts = moving.iter().map(|span| span.shift);
        let multiple = |of: u64| shifts.clone().try_fold(1, |period, shift| lengthen(period, shift, of));
        let (period, cycle) = (multiple(line)?, multiple(line * sets)?);
        let mut stream = Stream {
            staying,
            moving,
            cache: first,
            shift,
            trips,
            accesses,
            period,
            cycle,
            visited: Vec::new(),
            rest: 0,
            at: 0,
            before: None,
            left_behind: Vec::new(),
        };
        let most: u64 = stream.moving.iter().map(|span| span.most_lines(line)).sum();
        let simulated = period.checked_add(1)?.checked_add(ways * sets.min(most) / most)?;
        if simulated.checked_add(worth.max(period))? > trips {
            return None;
        }
        (stream.rest, stream.visited) = stream.turnover(machine, trips - 1, -1)?;
        let left = trips.checked_sub(1 + period + stream.rest)?;
        (left >= worth.max(period) && stream.begins_anew(machine)).then_some(stream)
    }

    /// The moving lines of an iteration.
    fn lines(&self, iteration: u64) -> impl Iterator<Item = RangeInclusive<u64>> + '_ {
        let lines = move |span: &Span| span.lines(iteration, self.shift);
        self.moving.iter().map(lines)
    }

    /// How many iterations it takes, from one on to the loop's other end, until they have brought
    /// each set as many lines as it has ways, or will never bring it any; and which sets get lines.
    fn turnover(&self, machine: &Machine, first: u64, step: i64) -> Option<(u64, Vec<bool>)> {
        let cache = &machine.caches[self.cache];
        let (ways, sets) = (cache.sets.lru_ways()? as u64, cache.sets.count());
        let mut brought = Brought::new(sets);
        let mut enough = 0;
        let mut iteration = first;
        let mut others: Vec<_> = self.lines(first.wrapping_add_signed(-step)).collect();
        for done in 1..self.trips {
            // A line of two iterations may be used in only one of them: it counts if both are among
            // these, as one of the second.
            let next = iteration.wrapping_add_signed(step);
            others.extend(self.lines(next));
            self.lines(iteration)
                .for_each(|lines| without(&lines, &others, &mut |lines| brought.add(&lines)));
            others.clear();
            iteration = next;
            if brought.lines >= enough {
                let may_get_lines = |lines: &u64| *lines > 0 || done < self.cycle.saturating_add(2);
                let visited = brought.of_sets().filter(may_get_lines);
                let lacking: u64 = visited.map(|lines| ways.saturating_sub(lines)).sum();
                if lacking == 0 {
                    return Some((done, brought.of_sets().map(|lines| lines > 0).collect()));
                }
                enough = brought.lines + lacking;
            }
            if brought.lines > MOST_TURNS * cache.lines as u64 {
                break;
            }
        }
        None
    }

    /// Whether the cache holds no line of the iterations behind the first that could still be there
    /// when it is used.
    fn begins_anew(&self, machine: &Machine) -> bool {
        let Some((last, _)) = self.turnover(machine, 1, 1) else {
            return false;
        };
        let ranges = self.moving.iter().map(|span| span.range(1, last, self.shift));
        let ranges: Vec<_> = ranges.collect();
        let is_of_loop = |line| ranges.iter().any(|range| range.contains(&line)) && self.is_visited(line);
        let sets = &machine.caches[self.cache].sets;
        sets.all_lines(|line| !is_of_loop(line))
    }

    /// Whether lines that move come to the set of this one.
    fn is_visited(&self, line: u64) -> bool {
        self.visited[(line % self.visited.len() as u64) as usize]
    }

    /// How many iterations should come before it is asked again; 0 if it need not be.
    pub fn next(&self) -> u64 {
        match self.before {
            None if self.at > 0 => 0,
            _ => 1,
        }
    }

    /// Iterations have been simulated, and so many are left. Returns how many of those have been
    /// dealt with.
    pub fn iterated(&mut self, machine: &mut Machine, iterations: u64, left: u64) -> u64 {
        self.at += iterations;
        // If not all are wanted the last ones are others.
        if left != self.trips - self.at {
            self.before = None;
            return 0;
        }
        if self.at == 1 {
            self.before = Some(Counted::by(machine));
            return 0;
        }
        if self.leave_behind(machine).is_none() {
            self.before = None;
            return 0;
        }
        if self.at <= self.period {
            return 0;
        }
        let after = Counted::by(machine).without_evictions();
        let Some(before) = self.before.take().filter(|before| before.has_points_of(&after)) else {
            return 0;
        };
        let periods = (left - self.rest) / self.period;
        before.without_evictions().repeat(&after, machine, periods);
        self.leave_out(machine, periods);
        periods * self.period
    }

    /// Looks at the lines that the last iteration used and none will use again, unless some of them
    /// are not there.
    fn leave_behind(&mut self, machine: &mut Machine) -> Option<()> {
        let sets = &mut machine.caches[self.cache].sets;
        let next: Vec<_> = self.lines(self.at).collect();
        let mut own = Vec::new();
        self.lines(self.at - 1)
            .for_each(|lines| without(&lines, &next, &mut |lines| own.push(lines)));
        for line in own.into_iter().flatten() {
            let slot = sets.find(line)?;
            let meta = *sets.meta(slot);
            add(&mut self.left_behind, meta);
        }
        Some(())
    }

    /// Counts what so many periods evict, and leaves in the cache what the iteration after them
    /// uses again.
    fn leave_out(&self, machine: &mut Machine, periods: u64) {
        let cache = &mut machine.caches[self.cache];
        let ledger = &mut machine.levels[cache.level].ledger;
        let mut evicted = self.left_behind.clone();
        evicted.iter_mut().for_each(|(_, times)| *times *= periods);
        let mut moved = Vec::new();
        cache.sets.retain(|line, meta| {
            let mut staying = self.staying.iter().map(|span| span.lines(0, self.shift));
            if !self.is_visited(line) || staying.any(|lines| lines.contains(&line)) {
                return true;
            }
            match self.used_again(line) {
                Some(by) => moved.push((line.wrapping_add(by.wrapping_mul(periods)), *meta)),
                None => add(&mut evicted, *meta),
            }
            false
        });
        for (line, meta) in moved {
            cache.sets.place(line, meta);
        }
        for (meta, times) in evicted {
            ledger.replaced(&cache.traits, &meta, meta.owner, times);
        }
        machine.skipped += self.accesses * periods * self.period;
    }

    /// By how many lines a line moves in a period, if it is one that both the last and the next
    /// iteration use.
    fn used_again(&self, line: u64) -> Option<u64> {
        let is_in = |span: &&Span, iteration| span.lines(iteration, self.shift).contains(&line);
        let last = self.moving.iter().find(|span| is_in(span, self.at - 1))?;
        let next = self.moving.iter().any(|span| is_in(&span, self.at));
        next.then(|| (last.shift.wrapping_mul(self.period) as i64 >> self.shift) as u64)
    }
}

/// Counts a line, together with the last one if the same is known of both.
fn add(lines: &mut Vec<(Meta, u64)>, meta: Meta) {
    match lines.last_mut() {
        Some((last, times)) if *last == meta => *times += 1,
        _ => lines.push((meta, 1)),
    }
}

/// Lines that were brought to sets.
struct Brought {
    /// In all.
    lines: u64,
    /// To each set.
    to_each: u64,
    /// By set: how many more to this one than to the one before.
    more: Vec<u64>,
}

impl Brought {
    fn new(sets: usize) -> Brought {
        Brought {
            lines: 0,
            to_each: 0,
            more: vec![0; sets],
        }
    }

    fn add(&mut self, lines: &RangeInclusive<u64>) {
        let sets = self.more.len() as u64;
        let number = lines.end() - lines.start() + 1;
        self.lines += number;
        self.to_each += number / sets;
        let first = lines.start() % sets;
        let end = first + number % sets;
        let mut more = |set: u64, by: u64| {
            let more = &mut self.more[set as usize];
            *more = more.wrapping_add(by);
        };
        more(first, 1);
        if end < sets {
            more(end, u64::MAX);
        } else {
            more(0, 1);
            more(end - sets, u64::MAX);
        }
    }

    fn of_sets(&self) -> impl Iterator<Item = u64> + '_ {
        self.more.iter().scan(self.to_each, |lines, more| {
            *lines = lines.wrapping_add(*more);
            Some(*lines)
        })
    }
}

/// What is left of a range without others.
fn without(range: &RangeInclusive<u64>, others: &[RangeInclusive<u64>], look: &mut dyn FnMut(RangeInclusive<u64>)) {
    let Some((other, others)) = others.split_first() else {
        return look(range.clone());
    };
    if !meet(range, other) {
        return without(range, others, look);
    }
    if range.start() < other.start() {
        without(&(*range.start()..=other.start() - 1), others, look);
    }
    if range.end() > other.end() {
        without(&(other.end() + 1..=*range.end()), others, look);
    }
}

fn meet(a: &RangeInclusive<u64>, b: &RangeInclusive<u64>) -> bool {
    a.start() <= b.end() && b.start() <= a.end()
}

/// Whether a cache has every line that is used, and nobody else's.
fn allocates(traits: &Traits) -> bool {
    traits.allocate
        && traits.write != Write::Through
        && traits.inclusion == Inclusion::None
        && traits.prefetch == Prefetch::None
}

/// What accesses touch in the first iteration.
fn first_iteration(movers: &[Mover], space: u64, trips: u64) -> Option<Vec<Span>> {
    let span = |mover: &Mover| {
        let (mut low, mut high) = (placed(mover.low, space), placed(mover.high, space));
        let way = (mover.shift as i64).unsigned_abs().checked_mul(trips - 1)?;
        if mover.shift as i64 > 0 {
            high = high.checked_sub(way)?;
        } else {
            low = low.checked_add(way)?;
        }
        let shift = mover.shift;
        (low <= high).then_some(Span { shift, low, high })
    };
    movers.iter().map(span).collect()
}

/// Takes together what has lines in common in any iterations. `None` if it does not move alike.
fn groups(spans: &[Span], trips: u64, shift: u32) -> Option<Vec<Span>> {
    let mut all: Vec<(RangeInclusive<u64>, Span)> = spans.iter().map(|s| (s.range(0, trips - 1, shift), *s)).collect();
    all.sort_unstable_by_key(|(range, _)| *range.start());
    let mut groups: Vec<(u64, Span)> = Vec::with_capacity(all.len());
    for (range, span) in all {
        let last = groups.last_mut().filter(|(end, _)| range.start() <= end);
        match last {
            Some((_, group)) if group.shift != span.shift => return None,
            Some((end, group)) => {
                *end = *range.end().max(end);
                group.include(&span);
            }
            None => groups.push((*range.end(), span)),
        }
    }
    Some(groups.into_iter().map(|(_, group)| group).collect())
}

/// Takes together what moves alike and may have lines in common in one iteration: there is no whole
/// line between.
fn without_gaps(mut spans: Vec<Span>, line: u64) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| (span.shift, span.low));
    spans.dedup_by(|next, before| {
        let near = next.shift == before.shift && next.low.saturating_sub(before.high) <= line;
        if near {
            before.include(next);
        }
        near
    });
    spans
}
