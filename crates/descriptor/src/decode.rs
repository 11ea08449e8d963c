//! Bytes to events, and the layout of the bytes.
//!
//! Numbers are variable-length ([`bytes`](crate::bytes)): seven bits a byte, lowest first. A piece
//! is the number of events and some two dozen streams, each `raw length`, `stored length * 2 +
//! packed?`, and the stored bytes:
//!
//! 1. *definitions*, one per kind: `zigzag(key - last leaf's key) * 2` is a leaf;
//!    `length * 2 + 1` a loop, followed by the numbers of its body's kinds, all smaller than its own;
//! 2. *counts*: events of each kind;
//! 3. *explicit*: the first event's kind, and those of symbol [`EXPLICIT`], in order of events;
//! 4. *ops*, one byte per event, in a [segment](crate::segments) per kind: bits 0–2 a symbol for the kind of the next event,
//!    bit 3 ([`FAILED`]) that not all parameters were as expected;
//! 5. *masks*, for each event with [`FAILED`], in a segment per kind: bit `j` for parameter `j`;
//! 6. *heads*, one per column (parameter of a kind, in order): number of codes, and unless that is
//!    zero the base of its residuals, and for [`BASE_LEAST`] the least value;
//! 7. *codes*, one per failed parameter, in a segment per column: which prediction was right, or [`MISS`]
//!    plus the residual's length in bytes; plus [`RELATED`] if a new relation begins after it;
//! 8. *planes* 0–7: byte `b` of every residual that has one, sorted by column;
//! 9. *relations*: source and factor of each new relation, in order of events.
//!
//! Symbols below [`RECENT`] are ranks in a move-to-front list that each kind keeps of its
//! successors; [`FRESH`] is the lowest number above all kinds so far.
use crate::bytes::{take, unzigzag};
use crate::column::{Column, Contexts, Relation, Sources};
use crate::dictionary::{Definition, Dictionary, MOST_PARAMETERS};
use crate::events::Events;
use crate::segments::read_segments;
use crate::streams::{read, Pack};
use crate::{Alphabet, SOURCES};
use alloc::vec::Vec;

/// Successors that are remembered of each kind.
pub(crate) const RECENT: usize = 4;
pub(crate) const FRESH: u8 = 4;
pub(crate) const EXPLICIT: u8 = 5;
pub(crate) const FAILED: u8 = 8;
pub(crate) const MISS: u8 = 4;
pub(crate) const RELATED: u8 = 0x10;
pub(crate) const BASE_RELATION: u8 = 0;
pub(crate) const BASE_LAST: u8 = 1;
pub(crate) const BASE_LEAST: u8 = 2;
pub(crate) const STREAM_PLANES: usize = 8;

/// Moves entry `rank` of a list of successors to the front.
#[inline]
pub(crate) fn to_front(recent: &mut [u32; RECENT], rank: usize) {
    let [a, b, c, d] = *recent;
    match rank {
        0 => {}
        1 => *recent = [b, a, c, d],
        2 => *recent = [c, a, b, d],
        _ => *recent = [d, a, b, c],
    }
}
/// Puts a new successor in front, in place of the last.
#[inline]
pub(crate) fn push_front(recent: &mut [u32; RECENT], kind: u32) {
    let [a, b, c, _] = *recent;
    *recent = [kind, a, b, c];
}

/// What can be wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// They end too early.
    CutOff,
    /// A stream does not unpack to its length.
    Unpack,
    /// There are more events or parameters than the caller allows.
    TooLong,
    /// There is no leaf with this key.
    UnknownLeaf(u32),
    /// Counts or numbers contradict each other.
    Inconsistent,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::CutOff => f.write_str("the descriptors end too early"),
            Error::Unpack => f.write_str("a descriptor stream cannot be unpacked"),
            Error::TooLong => f.write_str("the descriptors are longer than they may be"),
            Error::UnknownLeaf(key) => write!(f, "the descriptors use leaf {key}, which is not defined"),
            Error::Inconsistent => f.write_str("the descriptors contradict themselves"),
        }
    }
}

impl core::error::Error for Error {}

struct Kind {
    arity: usize,
    column: usize,
    recent: [u32; RECENT],
    op: usize,
    op_end: usize,
    mask: usize,
}

/// What a column has left of its streams.
struct Coded {
    base: u8,
    least: u64,
    code: usize,
    code_end: usize,
    residual: usize,
}

/// Reads back what [`encode`](crate::encode) wrote, all of `bytes`. `most` bounds the events, their parameters, and their
/// kinds: it is at least [`Events::size`] of what was encoded.
pub fn decode(bytes: &[u8], alphabet: &impl Alphabet, pack: &impl Pack, most: usize) -> Result<Events, Error> {
    let mut from = bytes;
    let n = usize::try_from(take(&mut from).ok_or(Error::CutOff)?).map_err(|_| Error::TooLong)?;
    if n > most {
        return Err(Error::TooLong);
    }
    let definitions = read(&mut from, most.saturating_mul(8), pack)?;
    let dictionary = define(&definitions, alphabet, most)?;
    let counts = read(&mut from, most.saturating_mul(4), pack)?;
    let explicit = read(&mut from, most.saturating_mul(5), pack)?;
    let (mut columns, mut kinds) = (Vec::new(), Vec::new());
    lay_out(&dictionary, alphabet, &counts, (n, most), &mut kinds, &mut columns)?;
    let ops = read_segments(&mut from, kinds.iter().map(|k| k.op_end - k.op), n, pack)?;
    let sizes = mask_sizes(&mut kinds, &ops);
    let masks = read_segments(&mut from, sizes.into_iter(), most, pack)?;
    let heads = read(&mut from, most.saturating_mul(11), pack)?;
    let mut coded = column_heads(&heads, columns.len(), most)?;
    let codes = read_segments(&mut from, coded.iter().map(|c| c.code_end - c.code), most, pack)?;
    let mut planes: [Vec<u8>; STREAM_PLANES] = Default::default();
    for plane in &mut planes {
        *plane = read(&mut from, codes.len(), pack)?;
    }
    let residuals = residuals(&mut coded, &codes, &planes)?;
    let relations = read(&mut from, codes.len().saturating_mul(2), pack)?;
    if !from.is_empty() {
        return Err(Error::Inconsistent);
    }

    let mut events = Events::new(dictionary);
    let mut sources: Sources = [0; SOURCES + 1];
    let mut contexts = Contexts::default();
    let (mut explicit, mut relations) = (explicit.as_slice(), relations.chunks_exact(2));
    events.kinds.reserve_exact(n);
    events.starts.reserve_exact(n);
    let mut next = Symbol::Explicit;
    let (mut fresh, mut before) = (0, 0);
    for _ in 0..n {
        let k = match next {
            Symbol::Known(k) => k,
            Symbol::Fresh => fresh,
            Symbol::Explicit => {
                let k = take(&mut explicit).ok_or(Error::CutOff)?;
                u32::try_from(k).map_err(|_| Error::Inconsistent)?
            }
        };
        if k as usize >= kinds.len() {
            return Err(Error::Inconsistent);
        }
        if !matches!(next, Symbol::Known(_)) && !events.kinds.is_empty() {
            let recent = &mut kinds[before as usize].recent;
            push_front(recent, k);
        }
        fresh = fresh.max(k + 1);
        before = k;
        let kind = &mut kinds[k as usize];
        if kind.op == kind.op_end {
            return Err(Error::Inconsistent);
        }
        let op = ops[kind.op];
        kind.op += 1;
        if events.values.len() + kind.arity > most {
            return Err(Error::TooLong);
        }
        let own = &mut columns[kind.column..kind.column + kind.arity];
        if op & FAILED == 0 {
            for (j, column) in own.iter_mut().enumerate() {
                let value = column.expect(&sources, &contexts, kind.column + j);
                column.update(value, &mut sources);
                events.values.push(value);
            }
        } else {
            let size = kind.arity.div_ceil(8);
            let mask = masks.get(kind.mask..kind.mask + size).ok_or(Error::CutOff)?;
            kind.mask += size;
            for (j, column) in own.iter_mut().enumerate() {
                let number = kind.column + j;
                let mut value = column.expect(&sources, &contexts, number);
                if mask[j / 8] >> (j % 8) & 1 == 1 {
                    let coded = &mut coded[number];
                    if coded.code == coded.code_end {
                        return Err(Error::Inconsistent);
                    }
                    let code = codes[coded.code];
                    coded.code += 1;
                    let right = code & !RELATED;
                    if right < MISS {
                        value = column.predict(right, &sources, &contexts, number);
                        column.expected = right;
                    } else {
                        let residual = residuals[coded.residual];
                        coded.residual += 1;
                        value = match coded.base {
                            BASE_RELATION => column.relation(&sources).wrapping_add(unzigzag(residual)),
                            BASE_LAST => column.last().wrapping_add(unzigzag(residual)),
                            _ => coded.least.wrapping_add(residual),
                        };
                    }
                    contexts.note(number, column.last(), value);
                    if code & RELATED != 0 {
                        let bytes = relations.next().ok_or(Error::CutOff)?;
                        column.relate(Relation::checked(bytes[0], bytes[1] as i8).ok_or(Error::Inconsistent)?);
                    }
                }
                column.update(value, &mut sources);
                events.values.push(value);
            }
        }
        events.kinds.push(k);
        events.starts.push(events.values.len() as u32);
        next = match op & !FAILED {
            rank if (rank as usize) < RECENT => {
                let recent = &mut kinds[k as usize].recent;
                to_front(recent, rank as usize);
                Symbol::Known(recent[0])
            }
            FRESH => Symbol::Fresh,
            EXPLICIT => Symbol::Explicit,
            _ => return Err(Error::Inconsistent),
        };
    }
    if explicit.is_empty() && relations.next().is_none() && relations.remainder().is_empty() {
        Ok(events)
    } else {
        Err(Error::Inconsistent)
    }
}

/// How the next event's kind is told.
#[derive(Clone, Copy)]
enum Symbol {
    Known(u32),
    Fresh,
    Explicit,
}

fn define(bytes: &[u8], alphabet: &impl Alphabet, most: usize) -> Result<Dictionary, Error> {
    let mut from = bytes;
    let mut dictionary = Dictionary::default();
    let mut last_key = 0u64;
    while let Some(head) = (!from.is_empty()).then(|| take(&mut from)) {
        let head = head.ok_or(Error::CutOff)?;
        let number = dictionary.len() as u32;
        let defined = if head & 1 == 0 {
            last_key = last_key.wrapping_add(unzigzag(head >> 1));
            let key = u32::try_from(last_key).map_err(|_| Error::Inconsistent)?;
            let leaf = alphabet.leaf(key).ok_or(Error::UnknownLeaf(key))?;
            dictionary.leaf(key, leaf.arity)
        } else {
            let length = usize::try_from(head >> 1).unwrap_or(usize::MAX);
            // Every number takes a byte.
            if length == 0 || length > from.len() {
                return Err(Error::Inconsistent);
            }
            let mut body = Vec::with_capacity(length);
            let mut parameters = 0;
            for _ in 0..length {
                let kind = take(&mut from).ok_or(Error::CutOff)?;
                if kind >= number.into() {
                    return Err(Error::Inconsistent);
                }
                body.push(kind as u32);
                parameters += dictionary.arity(kind as u32);
            }
            if parameters > MOST_PARAMETERS {
                return Err(Error::TooLong);
            }
            dictionary.repetition(&body)
        };
        if defined != number || dictionary.len() > most {
            return Err(Error::Inconsistent);
        }
    }
    Ok(dictionary)
}

/// Kinds and columns in their initial states.
fn lay_out(
    dictionary: &Dictionary,
    alphabet: &impl Alphabet,
    counts: &[u8],
    (events, most): (usize, usize),
    kinds: &mut Vec<Kind>,
    columns: &mut Vec<Column>,
) -> Result<(), Error> {
    let mut from = counts;
    let mut op = 0usize;
    for kind in 0..dictionary.len() as u32 {
        let count = usize::try_from(take(&mut from).ok_or(Error::CutOff)?).unwrap_or(usize::MAX);
        let end = op
            .checked_add(count)
            .filter(|&e| e <= events)
            .ok_or(Error::Inconsistent)?;
        let arity = dictionary.arity(kind);
        kinds.push(Kind {
            arity,
            column: columns.len(),
            recent: [u32::MAX; RECENT],
            op,
            op_end: end,
            mask: 0,
        });
        op = end;
        // Kinds that are used have no more columns than there are values, and those that are only in the bodies of loops
        // no more than the loops.
        if columns.len() + arity > most.saturating_mul(2) {
            return Err(Error::TooLong);
        }
        let sources = match dictionary.definition(kind) {
            Definition::Leaf(key) => alphabet.leaf(*key).map_or(&[][..], |l| l.sources),
            Definition::Loop(_) => &[],
        };
        columns.extend((0..arity).map(|j| Column::new(sources.get(j).copied())));
    }
    if op != events || !from.is_empty() {
        return Err(Error::Inconsistent);
    }
    Ok(())
}

/// The bytes of each kind's masks; also tells the kinds where theirs begin.
fn mask_sizes(kinds: &mut [Kind], ops: &[u8]) -> Vec<usize> {
    let mut at = 0usize;
    let size = |kind: &mut Kind| {
        let failed = ops[kind.op..kind.op_end].iter().filter(|&&o| o & FAILED != 0).count();
        kind.mask = at;
        at = at.saturating_add(failed.saturating_mul(kind.arity.div_ceil(8)));
        at - kind.mask
    };
    kinds.iter_mut().map(size).collect()
}

/// What the heads tell of each column.
fn column_heads(heads: &[u8], columns: usize, most: usize) -> Result<Vec<Coded>, Error> {
    let mut from = heads;
    let mut coded = Vec::with_capacity(columns);
    let mut code = 0usize;
    for _ in 0..columns {
        let count = usize::try_from(take(&mut from).ok_or(Error::CutOff)?).unwrap_or(usize::MAX);
        let end = code.checked_add(count).filter(|&e| e <= most).ok_or(Error::TooLong)?;
        let mut this = Coded {
            base: BASE_RELATION,
            least: 0,
            code,
            code_end: end,
            residual: 0,
        };
        if count > 0 {
            let base = take(&mut from).ok_or(Error::CutOff)?;
            this.base = u8::try_from(base)
                .ok()
                .filter(|&b| b <= BASE_LEAST)
                .ok_or(Error::Inconsistent)?;
            if this.base == BASE_LEAST {
                this.least = take(&mut from).ok_or(Error::CutOff)?;
            }
        }
        code = end;
        coded.push(this);
    }
    if !from.is_empty() {
        return Err(Error::Inconsistent);
    }
    Ok(coded)
}

/// The residuals of all columns; also tells the columns where theirs begin.
fn residuals(coded: &mut [Coded], codes: &[u8], planes: &[Vec<u8>; STREAM_PLANES]) -> Result<Vec<u64>, Error> {
    let mut at = [0; STREAM_PLANES];
    let mut residuals = Vec::new();
    for column in coded {
        column.residual = residuals.len();
        for &code in &codes[column.code..column.code_end] {
            let code = code & !RELATED;
            if code < MISS {
                continue;
            }
            let length = (code - MISS) as usize;
            if length > STREAM_PLANES {
                return Err(Error::Inconsistent);
            }
            let mut bytes = [0; 8];
            for ((byte, plane), at) in bytes.iter_mut().zip(planes).zip(&mut at).take(length) {
                *byte = *plane.get(*at).ok_or(Error::CutOff)?;
                *at += 1;
            }
            residuals.push(u64::from_le_bytes(bytes));
        }
    }
    if at.iter().zip(planes).any(|(&at, plane)| at != plane.len()) {
        return Err(Error::Inconsistent);
    }
    Ok(residuals)
}
