//! Joining the folded events of consecutive pieces, so that a loop is one loop wherever it was cut.
//!
//! Where a piece ends in the middle of a nest, the nest's parts on both sides are: loops of the
//! same kind, of which the second goes on where the first stopped; and whole or partial iterations
//! that stand before or after them. Three rules put them together again, innermost first; what they
//! complete is folded as usual. A loop that was cut inside its body begins elsewhere in the body
//! behind the cut; a fourth rule turns it until it begins as early as it can, as everywhere else.
//! Only events near the border are looked at.
use crate::dictionary::Definition;
use crate::events::Events;
use crate::fold::Folder;
use alloc::vec::Vec;

/// Events on each side of the border that are looked at.
const NEAR: usize = 512;
const MOST_ROUNDS: usize = 12;

/// Appends `more` to `events`.
pub fn stitch(events: &mut Events, more: Events, folder: &mut Folder) {
    events.dictionary.restore();
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
            if !folder.pass(&mut seam) && !joined {
                break;
            }
        }
    }
    events.truncate(from);
    events.extend(&seam, 0..seam.len());
    events.extend(&more, to..more.len());
    events.dictionary = seam.dictionary;
}

/// Applies the three rules wherever they apply. Tells whether they did.
fn join(events: &mut Events) -> bool {
    let mut before = core::mem::take(events);
    let mut out = Events::new(core::mem::take(&mut before.dictionary));
    let mut turned = false;
    let mut tails = Vec::new();
    for i in 0..before.len() {
        out.push(before.kinds[i], before.parameters(i));
        while join_last(&mut out) {}
        while let Some(tail) = turn(&mut out) {
            tails.push(tail);
            while join_last(&mut out) {}
        }
        turned |= !tails.is_empty();
        while let Some((kind, parameters)) = tails.pop() {
            out.push(kind, &parameters);
            while join_last(&mut out) {}
        }
    }
    let changed = turned || out.len() != before.len();
    *events = out;
    changed
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

/// A loop with the last event of its body before it begins with that instead: the event is taken
/// into the loop, and the last one of the last iteration is returned, which belongs behind it.
fn turn(events: &mut Events) -> Option<(u32, Vec<u64>)> {
    let last = events.len() - 1;
    let before = last.checked_sub(1)?;
    let Definition::Loop(body) = events.dictionary.definition(events.kinds[last]) else {
        return None;
    };
    let (&moved, rest) = body.split_last().filter(|(_, rest)| !rest.is_empty())?;
    if moved != events.kinds[before] {
        return None;
    }
    let Parts { trips, first, strides } = parts(events, last);
    let at = first.len() - events.dictionary.arity(moved);
    let values = events.parameters(before);
    let own = Parts {
        trips,
        first: &first[at..],
        strides: &strides[at..],
    };
    if !fits(&own, u64::MAX, values) {
        return None;
    }
    let end = |(f, s): (&u64, &u64)| f.wrapping_add(s.wrapping_mul(trips.wrapping_sub(1)));
    let tail = own.first.iter().zip(own.strides).map(end).collect();
    let parameters = [&[trips], values, &first[..at], own.strides, &strides[..at]].concat();
    let body = [&[moved], rest].concat();
    events.truncate(before);
    let kind = events.dictionary.repetition(&body);
    events.push(kind, &parameters);
    Some((moved, tail))
}
