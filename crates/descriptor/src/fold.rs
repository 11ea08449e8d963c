//! Structure: stretches of events that repeat become loops.
//!
//! **Idea.** A kind that comes back at the same distance twice in a row, say `p`, may be in a loop
//! with a body of `p` events. If the two periods before it have the same kinds, and from there on
//! every event is its predecessor `p` events ago moved by the same distance as that one was, for at
//! least a third period, the stretch is a loop. It is extended as far as it goes in both
//! directions, the earliest event first, so that every instance of a loop in the program is cut the
//! same way. A pass over the events replaces all such stretches, the next pass sees loops as events
//! and folds loops over them, and so on until nothing is found. Of loops, twice the distance is
//! tried as well: a step that reads one array and writes another is often followed by one that does
//! it the other way round.
//!
//! Loops that stand for few events cost more than they save and hide what the column predictors
//! would have seen: those left at the top when folding is over are undone.
//!
//! **Cost.** On a sequence without loops: a look-up for every fourth event. A kind whose attempts
//! fail is tried less and less often.
use crate::dictionary::{Definition, Dictionary, MOST_PARAMETERS};
use crate::events::Events;
use alloc::vec::Vec;

/// Longest body, in events.
const LONGEST_BODY: usize = 2048;
/// Iterations that make a loop.
const FEWEST_TRIPS: usize = 3;
/// Leaves a loop at the top must stand for.
const FEWEST_LEAVES: u64 = 48;
/// Loops are made if they stand for at least one event in this number.
const WORTHWHILE: usize = 8;
/// So many events are looked at in any case, and loops made of whatever repeats: it takes no time,
/// and a loop of a few events may be all of what a program does, the rest being its start.
const FEW: usize = 1 << 15;
/// Events that are looked at in one go, and after how many goes without a find some are left out.
const STRETCH: usize = 512;
const PATIENCE: usize = 8;
/// Events that may be compared in vain before any was looked at, and one in how many of those after
/// that.
const IN_VAIN: usize = 4096;
const ONE_IN: usize = 4;
/// Attempts to let pass, at most, after one has failed.
const MOST_PENALTY: u16 = 1023;
/// More passes are never needed: parameters double with each.
const MOST_PASSES: usize = 12;

/// When a kind was last seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Index of the last event of this kind, plus one.
    after: u32,
    /// How far that was from the one before.
    distance: u32,
    /// Attempts to let pass before the next.
    skip: u16,
    /// Attempts to let pass after the next failure.
    penalty: u16,
}

const NEVER: Seen = Seen {
    after: 0,
    distance: 0,
    skip: 0,
    penalty: 0,
};

/// Working memory of [`fold`], kept from piece to piece.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    seen: Vec<Seen>,
    /// Where the next pass puts its result.
    spare: Events,
    found: Vec<Stretch>,
    /// Events that were compared in vain.
    in_vain: usize,
    /// Where the loops stand that were put in place last.
    places: Vec<usize>,
}

/// A stretch of events that is a loop: `trips` bodies of `period` events from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    start: usize,
    period: usize,
    trips: usize,
}

/// Replaces what repeats by loops, as far as it goes.
pub fn fold(events: &mut Events, folder: &mut Folder) {
    folder.find(events, false);
    // Where little repeats, what does is predicted as well as the rest.
    let covered: usize = folder.found.iter().map(|f| f.period * f.trips).sum();
    if covered < events.len() / WORTHWHILE && events.len() > FEW {
        return;
    }
    for _ in 0..MOST_PASSES {
        if !folder.replace(events) {
            break;
        }
        folder.find(events, true);
    }
    folder.undo_small(events);
}

impl Folder {
    /// One pass over everything. Tells whether anything was folded.
    pub(crate) fn pass(&mut self, events: &mut Events) -> bool {
        self.find(events, false);
        self.replace(events)
    }

    /// Looks for loops. A loop over loops has in its body one that was found just before, so that
    /// from the second time on only those, at `places`, need to be looked at.
    fn find(&mut self, events: &Events, only_places: bool) {
        self.seen.clear();
        self.seen.resize(events.dictionary.len(), NEVER);
        self.found.clear();
        self.in_vain = 0;
        // Events before this are dealt with.
        let mut done = 0;
        if only_places {
            for place in core::mem::take(&mut self.places) {
                self.look_at(events, place, &mut done);
            }
        } else {
            self.sample(events, &mut done);
        }
    }

    /// Looks at everything, but at every fourth stretch only while next to nothing is found. A loop
    /// that begins in between is extended to its beginning when it is found.
    fn sample(&mut self, events: &Events, done: &mut usize) {
        let (mut at, mut in_vain) = (0, 0);
        while at < events.len() {
            let end = (at + STRETCH).min(events.len());
            let found = self.found.len();
            for i in at..end {
                self.look_at(events, i, done);
            }
            let covered: usize = self.found[found..].iter().map(|f| f.period * f.trips).sum();
            in_vain = if covered >= STRETCH / 8 { 0 } else { in_vain + 1 };
            at = end.max(*done);
            if in_vain > PATIENCE && events.len() > FEW {
                at += 3 * STRETCH;
            }
        }
    }

    #[inline]
    fn look_at(&mut self, events: &Events, i: usize, done: &mut usize) {
        if i < *done {
            return;
        }
        let seen = &mut self.seen[events.kinds[i] as usize];
        let before = seen.after as usize;
        let distance = i + 1 - before;
        let again = distance == seen.distance as usize && before > *done;
        seen.after = i as u32 + 1;
        seen.distance = distance as u32;
        if !again || distance > LONGEST_BODY || i < *done + 2 * distance {
            return;
        }
        // Loops that take turns on two sets of data repeat every second time: worth a look only
        // where events are few.
        let twice = || {
            let worth = events.dictionary.is_loop(events.kinds[i]) && i >= *done + 4 * distance;
            (worth && 2 * distance <= LONGEST_BODY).then(|| attempt(events, i, 2 * distance, *done, &mut 0))?
        };
        if seen.skip > 0 {
            seen.skip -= 1;
            return;
        }
        // Where nothing repeats for long, the search must not cost more than it could save.
        if ONE_IN * self.in_vain > i + IN_VAIN {
            return;
        }
        if let Some(found) = attempt(events, i, distance, *done, &mut self.in_vain).or_else(twice) {
            self.found.push(found);
            *done = found.start + found.period * found.trips;
        } else {
            seen.penalty = (seen.penalty * 2 + 1).min(MOST_PENALTY);
            seen.skip = seen.penalty;
        }
    }

    /// Puts loops in the places where they were found. Tells whether there were any.
    fn replace(&mut self, events: &mut Events) -> bool {
        let mut done = 0;
        self.places.clear();
        for &found in &self.found {
            self.spare.extend(events, done..found.start);
            self.places.push(self.spare.len());
            push_loop(&mut self.spare, events, found);
            done = found.start + found.period * found.trips;
        }
        if done > 0 {
            self.spare.extend(events, done..events.len());
            self.swap(events);
        }
        done > 0
    }

    /// The spare events become the events; the dictionary stays.
    fn swap(&mut self, events: &mut Events) {
        core::mem::swap(&mut self.spare, events);
        core::mem::swap(&mut self.spare.dictionary, &mut events.dictionary);
        self.spare.clear();
    }

    /// Puts leaves back in place of loops that stand for few.
    fn undo_small(&mut self, events: &mut Events) {
        let small = |i: usize| {
            let kind = events.kinds[i];
            events.dictionary.is_loop(kind)
                && leaves(&events.dictionary, kind, events.parameters(i), FEWEST_LEAVES) < FEWEST_LEAVES
        };
        let spare = &mut self.spare;
        let mut done = 0;
        for i in (0..events.len()).filter(|&i| small(i)) {
            spare.extend(events, done..i);
            let mut put_back = |key, parameters: &[u64]| {
                spare.kinds.push(events.dictionary.known_leaf(key));
                spare.values.extend_from_slice(parameters);
                spare.starts.push(spare.values.len() as u32);
                true
            };
            events
                .dictionary
                .expand(events.kinds[i], events.parameters(i), &mut put_back);
            done = i + 1;
        }
        if done > 0 {
            spare.extend(events, done..events.len());
            self.swap(events);
        }
    }
}

/// Whether the event at `i` is the one a period before, moved as that one was.
#[inline]
fn moves_on(events: &Events, i: usize, period: usize) -> bool {
    if events.kinds[i] != events.kinds[i - period] {
        return false;
    }
    let now = events.parameters(i);
    let before = events.parameters(i - period);
    let first = events.parameters(i - 2 * period);
    now.iter()
        .zip(before)
        .zip(first)
        .all(|((n, b), f)| n.wrapping_sub(*b) == b.wrapping_sub(*f))
}

/// Looks for a loop with this period around event `i`, in which two periods precede `i`. Adds to
/// `compared` what that took if there is none.
fn attempt(events: &Events, i: usize, period: usize, done: usize, compared: &mut usize) -> Option<Stretch> {
    let kinds = &events.kinds;
    if !moves_on(events, i, period) {
        return None;
    }
    if kinds[i - 2 * period..i - period] != kinds[i - period..i] {
        *compared += period.div_ceil(8);
        return None;
    }
    let mut end = i + 1;
    while end < kinds.len() && moves_on(events, end, period) {
        end += 1;
    }
    if end == i {
        return None;
    }
    let mut start = i - 2 * period;
    while start > done
        && kinds[start - 1] == kinds[start - 1 + period]
        && moves_on(events, start - 1 + 2 * period, period)
    {
        start -= 1;
    }
    if end - start < FEWEST_TRIPS * period {
        *compared += period.div_ceil(8) + (end - i) + (i - 2 * period - start);
        return None;
    }
    let parameters = (events.starts[start + period] - events.starts[start]) as usize;
    (parameters <= MOST_PARAMETERS).then_some(Stretch {
        start,
        period,
        trips: (end - start) / period,
    })
}

fn push_loop(out: &mut Events, events: &mut Events, found: Stretch) {
    let Stretch { start, period, trips } = found;
    let kind = events.dictionary.repetition(&events.kinds[start..start + period]);
    let range = |i: usize| events.starts[i] as usize..events.starts[i + period] as usize;
    let first = &events.values[range(start)];
    let second = &events.values[range(start + period)];
    out.kinds.push(kind);
    out.values.push(trips as u64);
    out.values.extend_from_slice(first);
    out.values
        .extend(first.iter().zip(second).map(|(a, b)| b.wrapping_sub(*a)));
    out.starts.push(out.values.len() as u32);
}

/// Leaves that an event stands for, or a number above `enough` if there are more.
fn leaves(dictionary: &Dictionary, kind: u32, parameters: &[u64], enough: u64) -> u64 {
    match dictionary.definition(kind) {
        Definition::Leaf(_) => 1,
        Definition::Loop(body) if parameters[0] > enough || body.len() as u64 > enough => enough + 1,
        Definition::Loop(_) => {
            let mut count = 0;
            dictionary.expand(kind, parameters, &mut |_, _: &[u64]| {
                count += 1;
                count <= enough
            });
            count
        }
    }
}
