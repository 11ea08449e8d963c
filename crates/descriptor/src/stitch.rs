//! Joining the folded events of consecutive pieces, so that a loop is one loop wherever it was cut.
//!
//! Where a piece ends in the middle of a nest, the nest's parts on both sides are: loops of the
//! same kind, of which the second goes on where the first stopped; whole or partial iterations
//! that stand before or after them; and loops whose bodies begin elsewhere, because the second
//! piece began in the middle of an iteration. Four rules put them together again, innermost
//! first; what they complete is folded as usual. Only events near the border are looked at.
use crate::dictionary::Definition;
use crate::events::Events;
use crate::fold::Folder;
use alloc::vec::Vec;

/// Events on each side of the border that are looked at.
const NEAR: usize = 512;
const MOST_ROUNDS: usize = 12;

/// Appends `more` to `events`.
pub fn stitch(events: &mut Events, more: Events, folder: &mut Folder) {
    let mut more = more.moved_to(core::mem::take(&mut events.dictionary));
    let from = events.len().saturating_sub(NEAR);
    let to = more.len().min(NEAR);
    let mut seam = Events::default();
    seam.extend(events, from..events.len());
    seam.extend(&more, 0..to);
    seam.dictionary = core::mem::take(&mut more.dictionary);
    if seam.kinds.iter().any(|&k| seam.dictionary.is_loop(k)) {
        for _ in 0..MOST_ROUNDS {
            let joined = join(&mut seam);
            if !folder.pass(&mut seam, false) && !joined {
                break;
            }
        }
    }
    events.truncate(from);
    events.extend(&seam, 0..seam.len());
    events.extend(&more, to..more.len());
    events.dictionary = seam.dictionary;
}

/// Applies the rules wherever they apply. Tells whether they did.
fn join(events: &mut Events) -> bool {
    let mut before = core::mem::take(events);
    let mut out = Events::new(core::mem::take(&mut before.dictionary));
    let mut changed = false;
    for i in 0..before.len() {
        let (kind, parameters) = (before.kinds[i], before.parameters(i));
        match turned(&out, kind, parameters) {
            Some(period) => {
                changed = true;
                push_turned(&mut out, kind, parameters, period);
            }
            None => changed |= push(&mut out, kind, parameters),
        }
    }
    *events = out;
    changed
}

/// Adds an event, and joins it with what stands before it. Tells whether that was done.
fn push(events: &mut Events, kind: u32, parameters: &[u64]) -> bool {
    let mut joined = false;
    events.push(kind, parameters);
    while join_last(events) {
        joined = true;
    }
    joined
}

/// Whether a loop that is about to be added goes on with one before it, but begins in the middle of an iteration whose
/// first events stand between them. Returns how many those are.
fn turned(events: &Events, kind: u32, parameters: &[u64]) -> Option<usize> {
    let Definition::Loop(body) = events.dictionary.definition(kind) else {
        return None;
    };
    if parameters[0] < 2 {
        return None;
    }
    (1..body.len().min(events.len())).find(|&begun| {
        let i = events.len() - 1 - begun;
        let Definition::Loop(other) = events.dictionary.definition(events.kinds[i]) else {
            return false;
        };
        let rest = body.len() - begun;
        if other.len() != body.len() || other[begun..] != body[..rest] || other[..begun] != body[rest..] {
            return false;
        }
        let parts = parts(events, i);
        let values: usize = body[..rest].iter().map(|&k| events.dictionary.arity(k)).sum();
        let at = parts.first.len() - values;
        let tail = Parts {
            trips: parts.trips,
            first: &parts.first[at..],
            strides: &parts.strides[at..],
        };
        fits(&tail, tail.trips, &parameters[1..1 + values])
    })
}

/// Adds a loop of which the body's first part belongs to the iteration before: that part, the loop as it is for the loop
/// before, and what is left at the end. `begun` is the number of events that come before that part.
fn push_turned(events: &mut Events, kind: u32, parameters: &[u64], begun: usize) {
    let Definition::Loop(body) = events.dictionary.definition(kind) else {
        return;
    };
    let body = body.clone();
    let rest = body.len() - begun;
    let (trips, values) = (parameters[0], &parameters[1..]);
    let (first, strides) = values.split_at(values.len() / 2);
    let at: usize = body[..rest].iter().map(|&k| events.dictionary.arity(k)).sum();
    push_all(events, &body[..rest], &first[..at]);
    let mut whole = body[rest..].to_vec();
    whole.extend_from_slice(&body[..rest]);
    let mut own: Vec<u64> = [trips - 1].into();
    own.extend_from_slice(&first[at..]);
    own.extend(first[..at].iter().zip(strides).map(|(f, s)| f.wrapping_add(*s)));
    own.extend_from_slice(&strides[at..]);
    own.extend_from_slice(&strides[..at]);
    let kind = events.dictionary.repetition(&whole);
    push(events, kind, &own);
    let last = first[at..].iter().zip(&strides[at..]);
    let last: Vec<u64> = last.map(|(f, s)| f.wrapping_add(s.wrapping_mul(trips - 1))).collect();
    push_all(events, &body[rest..], &last);
}

/// Adds events of these kinds with these parameters, one after the other.
fn push_all(events: &mut Events, kinds: &[u32], mut values: &[u64]) {
    for &kind in kinds {
        let (own, others) = values.split_at(events.dictionary.arity(kind));
        push(events, kind, own);
        values = others;
    }
}

fn join_last(events: &mut Events) -> bool {
    let last = events.len() - 1;
    append_loop(events, last) || prepend_iteration(events, last) || append_iteration(events, last)
}

/// Parts of a loop event's parameters.
struct Parts<'a> {
    trips: u64,
    first: &'a [u64],
    strides: &'a [u64],
}

fn parts(events: &Events, i: usize) -> Parts<'_> {
    let (trips, rest) = (events.parameters(i)[0], &events.parameters(i)[1..]);
    let (first, strides) = rest.split_at(rest.len() / 2);
    Parts { trips, first, strides }
}

/// Whether `values` are those of iteration `trip` of a loop.
fn fits(parts: &Parts<'_>, trip: u64, values: &[u64]) -> bool {
    let mut expected = parts.first.iter().zip(parts.strides);
    values.len() == parts.first.len()
        && values.iter().all(|v| {
            expected
                .next()
                .is_some_and(|(f, s)| f.wrapping_add(s.wrapping_mul(trip)) == *v)
        })
}

/// Two loops in a row that are one.
fn append_loop(events: &mut Events, last: usize) -> bool {
    let Some(before) = last.checked_sub(1) else {
        return false;
    };
    let kind = events.kinds[last];
    if kind != events.kinds[before] || !events.dictionary.is_loop(kind) {
        return false;
    }
    let (a, b) = (parts(events, before), parts(events, last));
    let Some(trips) = a.trips.checked_add(b.trips) else {
        return false;
    };
    if a.strides != b.strides || !fits(&a, a.trips, b.first) {
        return false;
    }
    let at = events.starts[before] as usize;
    events.values[at] = trips;
    events.truncate(last);
    true
}

/// The values of `count` events, if their kinds are those of the loop at `i`.
fn body_values(events: &Events, i: usize, begin: usize) -> Option<&[u64]> {
    let Definition::Loop(body) = events.dictionary.definition(events.kinds[i]) else {
        return None;
    };
    let end = begin + body.len();
    (events.kinds.get(begin..end)? == &**body)
        .then(|| &events.values[events.starts[begin] as usize..events.starts[end] as usize])
}

fn body_length(events: &Events, i: usize) -> Option<usize> {
    match events.dictionary.definition(events.kinds[i]) {
        Definition::Loop(body) => Some(body.len()),
        Definition::Leaf(_) => None,
    }
}

/// A loop whose iteration before the first stands before it.
fn prepend_iteration(events: &mut Events, last: usize) -> bool {
    let Some(begin) = body_length(events, last).and_then(|n| last.checked_sub(n)) else {
        return false;
    };
    let loop_parts = parts(events, last);
    let (Some(values), Some(trips)) = (body_values(events, last, begin), loop_parts.trips.checked_add(1)) else {
        return false;
    };
    if !fits(&loop_parts, u64::MAX, values) {
        return false;
    }
    let mut parameters: Vec<u64> = [trips].into();
    parameters.extend_from_slice(values);
    parameters.extend_from_slice(loop_parts.strides);
    let kind = events.kinds[last];
    events.truncate(begin);
    events.push(kind, &parameters);
    true
}

/// A loop with one more iteration after it.
fn append_iteration(events: &mut Events, last: usize) -> bool {
    for i in last.saturating_sub(NEAR)..last {
        if body_length(events, i) != Some(last - i) {
            continue;
        }
        let loop_parts = parts(events, i);
        let (Some(values), Some(trips)) = (body_values(events, i, i + 1), loop_parts.trips.checked_add(1)) else {
            continue;
        };
        if fits(&loop_parts, loop_parts.trips, values) {
            let at = events.starts[i] as usize;
            events.values[at] = trips;
            events.truncate(i + 1);
            return true;
        }
    }
    false
}
