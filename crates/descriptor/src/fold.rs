//! Structure: stretches of events that repeat become loops.
//!
//! **Idea.** A kind that comes back at the same distance twice in a row, say `p`, may be in a loop
//! with a body of `p` events. If the two periods before it have the same kinds, and from there on
//! every event is its predecessor `p` events ago moved by the same distance as that one was, for
//! at least a third period, the stretch is a loop. It is extended as far as it goes in both
//! directions, the earliest event first, so that every instance of a loop in the program is cut
//! the same way. A pass over the events replaces all such stretches, the next pass sees loops
//! as events and folds loops over them, and so on until nothing is found.
//!
//! Loops that stand for few events cost more than they save and hide what the column predictors
//! would have seen: those left at the top when folding is over are undone.
//!
//! **Cost.** On a sequence without loops: one look-up per event. A kind whose attempts fail is
//! tried less and less often.
use crate::dictionary::{Definition, Dictionary, MOST_PARAMETERS};
use crate::events::Events;
use alloc::vec;
use alloc::vec::Vec;

/// Longest body, in events.
const LONGEST_BODY: usize = 2048;
/// Iterations that make a loop.
const FEWEST_TRIPS: usize = 3;
/// Leaves a loop at the top must stand for.
const FEWEST_LEAVES: u64 = 48;
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
}

/// A stretch of events that is a loop: `trips` bodies of `period` events from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    start: usize,
    period: usize,
    trips: usize,
}

/// Replaces what repeats by loops, as far as it goes.
pub fn fold(events: Events, folder: &mut Folder) -> Events {
    undo_small(folder.passes(events))
}

impl Folder {
    /// All passes. A loop over loops has in its body one that the pass before found, so that from
    /// the second pass on only those are looked at.
    pub(crate) fn passes(&mut self, events: Events) -> Events {
        let mut events = events;
        let mut places = None;
        for _ in 0..MOST_PASSES {
            let found = match places {
                None => self.pass(&mut events, 0..),
                Some(places) => self.pass(&mut events, Vec::into_iter(places)),
            };
            match found {
                Some((folded, loops)) => (events, places) = (folded, Some(loops)),
                None => break,
            }
        }
        events
    }

    /// One pass, in which the events at `places`, in order, are looked at. Returns the events with
    /// what was found and the places of the loops among them; `None` if there was nothing to fold.
    pub(crate) fn pass(
        &mut self,
        events: &mut Events,
        places: impl Iterator<Item = usize>,
    ) -> Option<(Events, Vec<usize>)> {
        self.seen.clear();
        self.seen.resize(events.dictionary.len(), NEVER);
        let mut out: Option<Events> = None;
        let mut loops = Vec::new();
        // Events before this are dealt with.
        let mut done = 0;
        let n = events.len();
        for i in places {
            if i < done {
                continue;
            }
            let Some(&kind) = events.kinds.get(i) else { break };
            let seen = &mut self.seen[kind as usize];
            let before = seen.after as usize;
            let distance = (i + 1 - before) as u32;
            let again = distance == seen.distance && before > done;
            seen.after = i as u32 + 1;
            seen.distance = distance;
            if !again || distance as usize > LONGEST_BODY || i < done + 2 * distance as usize {
                continue;
            }
            if seen.skip > 0 {
                seen.skip -= 1;
            } else if let Some(found) = attempt(events, i, distance as usize, done) {
                // The dictionary goes with the result: from here on only numbers are looked at.
                let out = out.get_or_insert_with(|| Events::new(core::mem::take(&mut events.dictionary)));
                out.extend(events, done..found.start);
                loops.push(out.len());
                push_loop(out, events, found);
                done = found.start + found.period * found.trips;
            } else {
                seen.penalty = (seen.penalty * 2 + 1).min(255);
                seen.skip = seen.penalty;
            }
        }
        let mut out = out?;
        out.extend(events, done..n);
        Some((out, loops))
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

/// Looks for a loop with this period around event `i`, in which two periods precede `i`.
fn attempt(events: &Events, i: usize, period: usize, done: usize) -> Option<Stretch> {
    let kinds = &events.kinds;
    if kinds[i - 2 * period..i - period] != kinds[i - period..i] {
        return None;
    }
    let mut end = i;
    while end < kinds.len() && moves_on(events, end, period) {
        end += 1;
    }
    let mut start = i - 2 * period;
    if end - start < FEWEST_TRIPS * period {
        return None;
    }
    while start > done
        && kinds[start - 1] == kinds[start - 1 + period]
        && moves_on(events, start - 1 + 2 * period, period)
    {
        start -= 1;
    }
    let parameters = (events.starts[start + period] - events.starts[start]) as usize;
    (parameters <= MOST_PARAMETERS).then_some(Stretch {
        start,
        period,
        trips: (end - start) / period,
    })
}

fn push_loop(out: &mut Events, events: &Events, found: Stretch) {
    let Stretch { start, period, trips } = found;
    let kind = out.dictionary.repetition(&events.kinds[start..start + period]);
    let range = |i: usize| events.starts[i] as usize..events.starts[i + period] as usize;
    let first = &events.values[range(start)];
    let second = &events.values[range(start + period)];
    let mut parameters = vec![trips as u64];
    parameters.extend_from_slice(first);
    parameters.extend(first.iter().zip(second).map(|(a, b)| b.wrapping_sub(*a)));
    out.push(kind, &parameters);
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

/// Puts leaves back in place of loops that stand for few.
pub(crate) fn undo_small(events: Events) -> Events {
    let small = |i: usize| {
        let kind = events.kinds[i];
        events.dictionary.is_loop(kind)
            && leaves(&events.dictionary, kind, events.parameters(i), FEWEST_LEAVES) < FEWEST_LEAVES
    };
    let Some(first) = (0..events.len()).find(|&i| small(i)) else {
        return events;
    };
    let mut out = Events::new(Dictionary::default());
    let mut done = 0;
    for i in first..events.len() {
        if !small(i) {
            continue;
        }
        out.extend(&events, done..i);
        events
            .dictionary
            .expand(events.kinds[i], events.parameters(i), &mut |key, parameters: &[u64]| {
                let kind = events.dictionary.known_leaf(key);
                out.kinds.push(kind);
                out.values.extend_from_slice(parameters);
                out.starts.push(out.values.len() as u32);
                true
            });
        done = i + 1;
    }
    out.extend(&events, done..events.len());
    out.dictionary = events.dictionary;
    out
}
