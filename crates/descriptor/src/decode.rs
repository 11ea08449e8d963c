//! Bytes to events, and the layout of the bytes.
//!
//! Numbers are variable-length ([`bytes`](crate::bytes)): seven bits a byte, lowest first. A piece
//! is the number of events and some two dozen streams, each `raw length`, `stored length * 2 +
//! packed?`, and the stored bytes:
//!
//! 1. *definitions*, one per kind: `zigzag(key - last leaf's key) * 2` is a leaf;
//!    `length * 2 + 1` a loop, followed by the numbers of its body's kinds, all smaller than its own;
//! 2. *counts*: events of each kind;
//! 3. the *paths*, four streams: the kind of the event after each event of a kind, kind by kind;
//! 4. *explicit*: the first event's kind, and for each code [`EXPLICIT`] in a path how far the kind is from the path's own;
//! 5. the *columns*, four streams: for each kind and each of its parameters what is left of the values when what follows from the sources
//!    has been taken away;
//! 6. *planes* 0–7: byte `b` of every residual that has one, in the order of the columns;
//! 7. *relations*: source and factor of each column of leaves that have [`FREQUENT`] events; they are in effect from the event
//!    with number [`RELATED_FROM`] on.
//!
//! Paths and columns are *series* of numbers, each of which is as expected (0) or has a code. The four streams are *heads*, one for each
//! series; *runs* and *sparse*, for each code how many numbers are as expected before it, and the code; and *dense*, a byte for every
//! number of series that have [`DENSE`] in their head. The head is `codes * 4 + flags`, without the codes if it is dense.
//!
//! A path expects the kind that came last time, at first the one with the next number. Codes below [`RECENT`] are
//! ranks in a move-to-front list. What a column expects is in [`series`](crate::series); its codes are [`OTHER`] if the other prediction
//! is right, or [`MISS`] plus the residual's length in bytes. Residuals are signed distances from the last number, or from a least one that stands behind
//! the head if that has [`LEAST`].
use crate::bytes::{take, unzigzag};
use crate::column::{Form, Relation, Sources};
use crate::dictionary::{Definition, Dictionary, MOST_PARAMETERS};
use crate::events::Events;
use crate::series::Past;
use crate::streams::{read, Pack};
use crate::{Alphabet, SOURCES};
use alloc::vec;
use alloc::vec::Vec;

/// Successors that are remembered of each kind.
pub(crate) const RECENT: usize = 4;
pub(crate) const EXPLICIT: u8 = 4;
/// Codes in columns.
pub(crate) const OTHER: u8 = 1;
pub(crate) const MISS: u8 = 2;
pub(crate) const STREAM_PLANES: usize = 8;
/// Flags in heads.
pub(crate) const DENSE: u64 = 1;
pub(crate) const LEAST: u64 = 2;
/// Events that make a leaf's relations worth telling, and the event from which on they hold.
pub(crate) const FREQUENT: u32 = 64;
pub(crate) const RELATED_FROM: u32 = 32;

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

/// A kind on the way through its events.
#[derive(Clone, Copy)]
struct Kind {
    arity: u32,
    /// Its first form.
    column: u32,
    /// Where its next values stand, and its next successor.
    value: u32,
    event: u32,
    event_end: u32,
    /// Events until its relations hold.
    until: u32,
}

const NEVER: u32 = u32::MAX;

/// Reads back what [`Encoder`](crate::Encoder) wrote, all of `bytes`. `most` bounds the events, their parameters, and their
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
    let (kinds, mut forms) = lay_out(&dictionary, alphabet, &counts, (n, most))?;
    let (successors, first) = read_paths(&mut from, &kinds, (n, most), pack)?;
    let (rows, related) = read_columns(&mut from, &kinds, &forms, pack)?;
    if !from.is_empty() {
        return Err(Error::Inconsistent);
    }

    let mut kinds = kinds;
    let mut events = Events::new(dictionary);
    let mut sources: Sources = [0; 2 * SOURCES];
    events.kinds.reserve_exact(n);
    events.starts.reserve_exact(n);
    events.values.resize(rows.len(), 0);
    let (kinds, forms) = (kinds.as_mut_slice(), forms.as_mut_slice());
    let mut left = events.values.as_mut_slice();
    let mut end = 0;
    let mut k = first;
    for _ in 0..n {
        let kind = kinds.get_mut(k as usize).ok_or(Error::Inconsistent)?;
        if kind.event == kind.event_end {
            return Err(Error::Inconsistent);
        }
        events.kinds.push(k);
        end += kind.arity;
        events.starts.push(end);
        k = successors[kind.event as usize];
        kind.event += 1;
        let arity = kind.arity as usize;
        let row = &rows[kind.value as usize..][..arity];
        kind.value += kind.arity;
        let columns = kind.column as usize..kind.column as usize + arity;
        if kind.until == 0 {
            forms[columns.clone()].copy_from_slice(&related[columns.clone()]);
        }
        kind.until = kind.until.wrapping_sub(1);
        let (values, rest) = left.split_at_mut(arity);
        left = rest;
        for ((value, number), form) in values.iter_mut().zip(row).zip(&forms[columns]) {
            *value = number.wrapping_add(form.part(&sources));
            form.note(*value, &mut sources);
        }
    }
    Ok(events)
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

/// Kinds at the beginning of their events, and the forms of the columns of those that have any.
fn lay_out(
    dictionary: &Dictionary,
    alphabet: &impl Alphabet,
    counts: &[u8],
    (events, most): (usize, usize),
) -> Result<(Vec<Kind>, Vec<Form>), Error> {
    let (mut kinds, mut forms) = (Vec::with_capacity(dictionary.len()), Vec::new());
    let mut from = counts;
    let (mut event, mut value) = (0usize, 0usize);
    for kind in 0..dictionary.len() as u32 {
        let count = usize::try_from(take(&mut from).ok_or(Error::CutOff)?).unwrap_or(usize::MAX);
        let event_end = event
            .checked_add(count)
            .filter(|&e| e <= events)
            .ok_or(Error::Inconsistent)?;
        let arity = dictionary.arity(kind);
        let value_end = count.checked_mul(arity).and_then(|v| v.checked_add(value));
        let value_end = value_end.filter(|&v| v <= most).ok_or(Error::TooLong)?;
        let mut this = Kind {
            arity: arity as u32,
            column: forms.len() as u32,
            value: u32::try_from(value).map_err(|_| Error::TooLong)?,
            event: u32::try_from(event).map_err(|_| Error::TooLong)?,
            event_end: u32::try_from(event_end).map_err(|_| Error::TooLong)?,
            until: NEVER,
        };
        if count > 0 {
            let mut sources = &[][..];
            if let Definition::Leaf(key) = dictionary.definition(kind) {
                sources = alphabet.leaf(*key).map_or(&[][..], |l| l.sources);
                if count >= FREQUENT as usize {
                    this.until = RELATED_FROM;
                }
            }
            forms.extend((0..arity).map(|j| Form::new(sources.get(j).copied())));
        }
        kinds.push(this);
        (event, value) = (event_end, value_end);
    }
    if event != events || !from.is_empty() {
        return Err(Error::Inconsistent);
    }
    Ok((kinds, forms))
}

/// Four streams of codes.
struct Coded {
    heads: Vec<u8>,
    runs: Vec<u8>,
    sparse: Vec<u8>,
    dense: Vec<u8>,
}

/// What is left of them.
struct Codes<'a> {
    heads: &'a [u8],
    runs: &'a [u8],
    sparse: &'a [u8],
    dense: &'a [u8],
}

/// The codes of one series.
enum Series<'a> {
    /// So many, each after a run.
    Sparse(usize),
    /// One for each number.
    Dense(&'a [u8]),
}

impl Coded {
    /// Reads the streams of at most `series` series with at most `most` numbers.
    fn read(from: &mut &[u8], series: usize, most: usize, pack: &impl Pack) -> Result<Coded, Error> {
        Ok(Coded {
            heads: read(from, series.saturating_mul(15), pack)?,
            runs: read(from, most.saturating_mul(5), pack)?,
            sparse: read(from, most, pack)?,
            dense: read(from, most, pack)?,
        })
    }
    fn codes(&self) -> Codes<'_> {
        Codes {
            heads: &self.heads,
            runs: &self.runs,
            sparse: &self.sparse,
            dense: &self.dense,
        }
    }
}

impl<'a> Codes<'a> {
    /// Begins with the next series, of `length` numbers. Also returns its flags.
    fn next(&mut self, length: usize) -> Result<(Series<'a>, u64), Error> {
        let head = take(&mut self.heads).ok_or(Error::CutOff)?;
        let (codes, flags) = (head >> 2, head & 3);
        if flags & DENSE == 0 {
            let codes = usize::try_from(codes).ok().filter(|&c| c <= length);
            return Ok((Series::Sparse(codes.ok_or(Error::Inconsistent)?), flags));
        }
        if codes != 0 {
            return Err(Error::Inconsistent);
        }
        let (own, rest) = self.dense.split_at_checked(length).ok_or(Error::CutOff)?;
        self.dense = rest;
        Ok((Series::Dense(own), flags))
    }
    /// The next run, which is followed by a number within `length`, and its code.
    #[inline]
    fn code(&mut self, length: usize) -> Result<(usize, u8), Error> {
        let run = take(&mut self.runs).ok_or(Error::CutOff)?;
        let (&code, rest) = self.sparse.split_first().ok_or(Error::CutOff)?;
        self.sparse = rest;
        let run = usize::try_from(run).ok().filter(|&r| r < length && code != 0);
        Ok((run.ok_or(Error::Inconsistent)?, code))
    }
    fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.runs.is_empty() && self.sparse.is_empty() && self.dense.is_empty()
    }
}

/// The successors of all events, and the first event's kind.
fn read_paths(
    from: &mut &[u8],
    kinds: &[Kind],
    (events, most): (usize, usize),
    pack: &impl Pack,
) -> Result<(Vec<u32>, u32), Error> {
    let coded = Coded::read(from, kinds.len(), events, pack)?;
    let explicit = read(from, most.saturating_mul(5).saturating_add(1), pack)?;
    let (mut codes, mut explicit) = (coded.codes(), explicit.as_slice());
    let first = take(&mut explicit).ok_or(Error::CutOff)?;
    let first = u32::try_from(first).map_err(|_| Error::Inconsistent)?;
    let mut successors = Vec::with_capacity(events);
    for (k, kind) in kinds.iter().enumerate() {
        let k = k as u32;
        let mut left = (kind.event_end - kind.event) as usize;
        if left == 0 {
            continue;
        }
        let mut recent = [k + 1, k, k, k];
        let mut change = |recent: &mut [u32; RECENT], code: u8| {
            if code == EXPLICIT {
                let apart = take(&mut explicit).ok_or(Error::CutOff)?;
                let next = u64::from(k).wrapping_add(unzigzag(apart));
                push_front(recent, u32::try_from(next).map_err(|_| Error::Inconsistent)?);
            } else if (code as usize) < RECENT {
                to_front(recent, code as usize);
            } else {
                return Err(Error::Inconsistent);
            }
            Ok(())
        };
        let (series, flags) = codes.next(left)?;
        if flags & LEAST != 0 {
            return Err(Error::Inconsistent);
        }
        match series {
            Series::Sparse(changes) => {
                for _ in 0..changes {
                    let (run, code) = codes.code(left)?;
                    successors.resize(successors.len() + run, recent[0]);
                    change(&mut recent, code)?;
                    successors.push(recent[0]);
                    left -= run + 1;
                }
                successors.resize(successors.len() + left, recent[0]);
            }
            Series::Dense(own) => {
                for &code in own {
                    if code != 0 {
                        change(&mut recent, code)?;
                    }
                    successors.push(recent[0]);
                }
            }
        }
    }
    if codes.is_empty() && explicit.is_empty() {
        Ok((successors, first))
    } else {
        Err(Error::Inconsistent)
    }
}

/// What is left of the residuals.
struct Residuals<'a> {
    planes: [&'a [u8]; STREAM_PLANES],
}

impl Residuals<'_> {
    #[inline]
    fn next(&mut self, length: usize) -> Result<u64, Error> {
        let mut residual = 0;
        let planes = self.planes.get_mut(..length).ok_or(Error::Inconsistent)?;
        for (b, plane) in planes.iter_mut().enumerate() {
            let (&byte, rest) = plane.split_first().ok_or(Error::CutOff)?;
            *plane = rest;
            residual |= u64::from(byte) << (8 * b);
        }
        Ok(residual)
    }
}

/// One column on its way to its rows.
struct Column<'a> {
    past: Past,
    numbers: &'a mut [u64],
    /// Where the next number goes, and how far apart they are.
    at: usize,
    apart: usize,
    /// What residuals are distances from, if not from the last number.
    least: Option<u64>,
}

impl Column<'_> {
    fn read(
        &mut self,
        series: Series<'_>,
        mut left: usize,
        codes: &mut Codes<'_>,
        residuals: &mut Residuals<'_>,
    ) -> Result<(), Error> {
        match series {
            Series::Sparse(others) => {
                for _ in 0..others {
                    let (run, code) = codes.code(left)?;
                    self.expected(run);
                    self.other(code, residuals)?;
                    left -= run + 1;
                }
                self.expected(left);
            }
            Series::Dense(own) => {
                for &code in own {
                    if code == 0 {
                        self.expected(1);
                    } else {
                        self.other(code, residuals)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The next `n` numbers are as expected.
    #[inline]
    fn expected(&mut self, n: usize) {
        self.past.go_on(self.numbers, self.at, self.apart, n);
        self.at += n * self.apart;
    }

    /// The next number is not as expected.
    #[inline]
    fn other(&mut self, code: u8, residuals: &mut Residuals<'_>) -> Result<(), Error> {
        let number = if code >= MISS {
            let residual = residuals.next((code - MISS) as usize)?;
            match self.least {
                Some(least) => least.wrapping_add(residual),
                None => self.past.last().wrapping_add(unzigzag(residual)),
            }
        } else {
            let number = self.past.other();
            self.past.turn();
            number
        };
        self.past.update(number);
        self.numbers[self.at] = number;
        self.at += self.apart;
        Ok(())
    }
}

/// The numbers of all columns, row by row, and the forms of columns whose relations are told.
fn read_columns(
    from: &mut &[u8],
    kinds: &[Kind],
    forms: &[Form],
    pack: &impl Pack,
) -> Result<(Vec<u64>, Vec<Form>), Error> {
    let count = |kind: &Kind| (kind.event_end - kind.event) as usize;
    let all = kinds.iter().map(|k| count(k) * k.arity as usize).sum();
    let coded = Coded::read(from, forms.len(), all, pack)?;
    let mut planes: [Vec<u8>; STREAM_PLANES] = Default::default();
    for plane in &mut planes {
        *plane = read(from, all, pack)?;
    }
    let relations = read(from, 2 * forms.len(), pack)?;
    let mut codes = coded.codes();
    let mut residuals = Residuals {
        planes: core::array::from_fn(|b| planes[b].as_slice()),
    };
    let mut relations = relations.chunks_exact(2);
    let mut rows = vec![0; all];
    let mut related = forms.to_vec();
    for kind in kinds.iter().filter(|k| count(k) > 0) {
        let (arity, count) = (kind.arity as usize, count(kind));
        let own = &mut rows[kind.value as usize..][..arity * count];
        for j in 0..arity {
            let number = kind.column as usize + j;
            let (series, flags) = codes.next(count)?;
            let mut column = Column {
                past: Past::default(),
                numbers: own,
                at: j,
                apart: arity,
                least: None,
            };
            if flags & LEAST != 0 {
                column.least = Some(take(&mut codes.heads).ok_or(Error::CutOff)?);
            }
            column.read(series, count, &mut codes, &mut residuals)?;
            if kind.until == RELATED_FROM {
                let bytes = relations.next().ok_or(Error::CutOff)?;
                related[number].relate(Relation::checked(bytes[0], bytes[1] as i8).ok_or(Error::Inconsistent)?);
            }
        }
    }
    let over = relations.next().is_none() && relations.remainder().is_empty();
    if over && codes.is_empty() && residuals.planes.iter().all(|p| p.is_empty()) {
        Ok((rows, related))
    } else {
        Err(Error::Inconsistent)
    }
}
