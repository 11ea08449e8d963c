//! A set as bytes: what it has besides its events, which are encoded as any others are.
//!
//! ```text
//! set     := whos:string who:string vectors:string moves:string
//! whos    := count (first vector)*     the lists of members but for that of all
//! who     := for each event 0 if the same have it as had the one before (at first: all), else 1 + the list's number
//! vectors := count vector*             but for the one that is zero
//! moves   := kind by kind, in the order of their first events, and column by column, for each event 0 if the vector is that of the event
//!            before (at first: zero), else 1 + its number
//! ```
use crate::nest::{self, take};
use crate::set::Set;
use memtrail_descriptor::bytes::put;
use memtrail_descriptor::{read_string, write_string, Events, Pack};

/// Why bytes are no set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    #[error("a string of the set cannot be read")]
    String,
    #[error("the set ends too early")]
    CutOff,
    #[error("a list of members makes no sense")]
    Members,
    #[error("a vector makes no sense")]
    Vector,
    #[error("bytes are left over")]
    LeftOver,
}

/// Members by ascending number.
type Who = Vec<u32>;

/// The places of parameters, kind by kind and column by column, and whether each is its column's
/// first. Kinds come in the order of their first events: their numbers are not kept.
fn columns(events: &Events) -> Vec<(bool, usize)> {
    let mut by_kind: Vec<Vec<usize>> = vec![Vec::new(); events.dictionary.len()];
    let mut kinds = Vec::new();
    for i in 0..events.len() {
        let starts = &mut by_kind[events.kind(i) as usize];
        if starts.is_empty() {
            kinds.push(events.kind(i));
        }
        starts.push(events.parameters_before(i));
    }
    let mut places = Vec::with_capacity(events.values());
    for kind in kinds {
        let starts = &by_kind[kind as usize];
        for p in 0..events.dictionary.arity(kind) {
            places.extend(starts.iter().enumerate().map(|(n, start)| (n == 0, start + p)));
        }
    }
    places
}

/// Adds what a set has besides its events.
pub fn encode(set: &Set, pack: &impl Pack, out: &mut Vec<u8>) {
    let mut whos = Vec::new();
    put(&mut whos, set.whos.len() as u64 - 1);
    for list in &set.whos[1..] {
        let members: Vec<u64> = list.iter().map(|&m| m.into()).collect();
        put(&mut whos, members[0]);
        nest::encode(&members, &mut whos);
    }
    let (mut who, mut last) = (Vec::new(), 0);
    for &list in &set.who {
        put(&mut who, if list == last { 0 } else { 1 + u64::from(list) });
        last = list;
    }
    let mut vectors = Vec::new();
    put(&mut vectors, set.vectors.len() as u64 - 1);
    set.vectors[1..].iter().for_each(|v| nest::encode(v, &mut vectors));
    let (mut moves, mut last) = (Vec::new(), 0);
    for (first, place) in columns(&set.events) {
        let vector = set.moves[place];
        last = if first { 0 } else { last };
        put(&mut moves, if vector == last { 0 } else { 1 + u64::from(vector) });
        last = vector;
    }
    for string in [whos, who, vectors, moves] {
        write_string(out, &string, pack);
    }
}

/// The set of these events, whose rest stands in `bytes`. It takes no more room than `most` words.
pub fn decode(bytes: &[u8], events: Events, members: u32, most: usize, pack: &impl Pack) -> Result<Set, SetError> {
    let mut rest = bytes;
    let mut string = || {
        let mut string = Vec::new();
        let longest = most.saturating_mul(15).saturating_add(16);
        let read = read_string(&mut rest, longest, pack, &mut string);
        read.map(|()| string).map_err(|_| SetError::String)
    };
    let strings = [string()?, string()?, string()?, string()?];
    if !rest.is_empty() {
        return Err(SetError::LeftOver);
    }
    let [whos, who, vectors, moves] = &strings;
    if members == 0 || members as usize > most {
        return Err(SetError::Members);
    }
    let whos = lists(whos, members, most)?;
    let who = numbers(who, events.len(), whos.len())?;
    let vectors = all_vectors(vectors, members, most)?;
    let moves = columns_of(moves, &events, vectors.len())?;
    let set = Set {
        events,
        members,
        who,
        whos,
        moves,
        vectors,
    };
    check(&set)?;
    Ok(set)
}

fn lists(mut bytes: &[u8], members: u32, most: usize) -> Result<Vec<Who>, SetError> {
    let count = take(&mut bytes).ok_or(SetError::CutOff)?;
    let mut lists: Vec<Who> = vec![(0..members).collect()];
    let mut room = most;
    for _ in 0..count {
        let first = take(&mut bytes).ok_or(SetError::CutOff)?;
        let list = nest::decode(&mut bytes, first, room.min(members as usize)).ok_or(SetError::Members)?;
        room -= list.len();
        let rises = list.windows(2).all(|w| w[0] < w[1]);
        let fits = list.last().is_some_and(|&m| m < u64::from(members));
        if !rises || !fits {
            return Err(SetError::Members);
        }
        lists.push(list.iter().map(|&m| m as u32).collect());
    }
    left_over(bytes).map(|()| lists)
}

fn all_vectors(mut bytes: &[u8], members: u32, most: usize) -> Result<Vec<Vec<u64>>, SetError> {
    let count = take(&mut bytes).ok_or(SetError::CutOff)?;
    let mut vectors = vec![Vec::new()];
    let mut room = most;
    for _ in 0..count {
        let vector = nest::decode(&mut bytes, 0, room.min(members as usize)).ok_or(SetError::Vector)?;
        if vector.is_empty() {
            return Err(SetError::Vector);
        }
        room -= vector.len();
        vectors.push(vector);
    }
    left_over(bytes).map(|()| vectors)
}

fn left_over(bytes: &[u8]) -> Result<(), SetError> {
    match bytes {
        [] => Ok(()),
        _ => Err(SetError::LeftOver),
    }
}

/// Numbers below `below`, each 0 for the one before, or 1 + itself.
fn numbers(mut bytes: &[u8], count: usize, below: usize) -> Result<Vec<u32>, SetError> {
    let mut last = 0;
    let all: Result<Vec<u32>, SetError> = (0..count).map(|_| next(&mut bytes, &mut last, below)).collect();
    left_over(bytes).and(all)
}

fn next(bytes: &mut &[u8], last: &mut u32, below: usize) -> Result<u32, SetError> {
    match take(bytes).ok_or(SetError::CutOff)? {
        0 => {}
        n if n - 1 < below as u64 => *last = (n - 1) as u32,
        _ => return Err(SetError::Vector),
    }
    Ok(*last)
}

fn columns_of(mut bytes: &[u8], events: &Events, below: usize) -> Result<Vec<u32>, SetError> {
    let mut moves = vec![0; events.values()];
    let mut last = 0;
    for (first, place) in columns(events) {
        last = if first { 0 } else { last };
        moves[place] = next(&mut bytes, &mut last, below)?;
    }
    left_over(bytes).map(|()| moves)
}

/// Vectors are as long as the lists of those whose parameters they move.
fn check(set: &Set) -> Result<(), SetError> {
    let mut at = 0;
    for i in 0..set.events.len() {
        let members = set.who(i).len();
        let end = at + set.events.parameters(i).len();
        let fits = |&v: &u32| v == 0 || set.vectors[v as usize].len() == members;
        if !set.moves[at..end].iter().all(fits) {
            return Err(SetError::Vector);
        }
        at = end;
    }
    Ok(())
}
