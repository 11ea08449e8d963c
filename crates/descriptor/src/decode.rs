//! Bytes to events, and the layout of the bytes.
//!
//! Numbers are variable-length ([`bytes`](crate::bytes)): seven bits a byte, lowest first. A piece
//! is the number of events and some two dozen streams, each `raw length`, `stored length * 2 +
//! packed?`, and the stored bytes:
//!
//! 1. *definitions*, one per kind: `zigzag(key - last leaf's key) * 2` is a leaf; `length * 2 + 1`
//!    a loop, followed by the numbers of its body's kinds, all smaller than its own;
//! 2. *counts*: events of each kind;
//! 3. the *paths*, four streams: the kind of the event after each event of a kind, kind by kind;
//! 4. *explicit*: the first event's kind, and for each code [`EXPLICIT`] in a path how far the kind
//!    is from the path's own;
//! 5. the *columns*, four streams: for each kind and each of its parameters what is left of the
//!    values when what follows from the sources has been taken away;
//! 6. *planes* 0–7: byte `b` of every residual that has one, in the order of the columns;
//! 7. *relations*: source and factor of each column of leaves that have [`FREQUENT`] events; they
//!    are in effect from the event with number [`RELATED_FROM`] on.
//!
//! Paths and columns are *series* of numbers, each of which is as expected (0) or has a code. The
//! four streams are *heads*, one for each series; *runs* and *sparse*, for each code how many
//! numbers are as expected before it, and the code; and *dense*, a byte for every number of series
//! that have [`DENSE`] in their head. The head is `codes * 4 + flags`, without the codes if it is
//! dense.
//!
//! A path expects the kind that came last time, at first the one with the next number. Codes below
//! [`RECENT`] are ranks in a move-to-front list. What a column expects is in
//! [`series`](crate::series); its codes are [`OTHER`] if the other prediction is right, or [`MISS`]
//! plus the residual's length in bytes. Residuals are signed distances from the last number, or
//! from a least one that stands behind the head if that has [`LEAST`].
use crate::bytes::{take, unzigzag};
use crate::column::{Form, Relation, Sources};
use crate::dictionary::{Definition, Dictionary, MOST_PARAMETERS};
use crate::events::Events;
use crate::series::Past;
use crate::streams::{read, Pack};
use crate::{Alphabet, SOURCES};
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

impl Events {
    /// The kinds of the events from number `first` on, and their parameters, one after the other.
    #[inline]
    pub fn rest(&self, first: usize) -> (&[u32], &[u64]) {
        (&self.kinds[first..], &self.values[self.starts[first] as usize..])
    }
}

/// A kind on the way through its events.
#[derive(Clone, Copy, Debug)]
struct Kind {
    arity: u32,
    /// Its first form.
    column: u32,
    /// Where its next values stand, and its next successor.
    value: u32,
    event: u32,
    event_end: u32,
    /// The event from which on its relations hold.
    related_from: u32,
}

const NEVER: u32 = u32::MAX;

impl Kind {
    /// Its events that are left.
    fn count(&self) -> usize {
        (self.event_end - self.event) as usize
    }
}

/// Among successors: the kind itself, so many times.
const ITSELF: u32 = 1 << 31;

/// Reads back what [`Encoder`](crate::Encoder) wrote, all of `bytes`. `most` bounds the events,
/// their parameters, and their kinds: it is at least [`Events::size`] of what was encoded.
pub fn decode(bytes: &[u8], alphabet: &impl Alphabet, pack: &impl Pack, most: usize) -> Result<Events, Error> {
    let mut events = Events::default();
    Decoder::default().decode(bytes, alphabet, pack, most, &mut events)?;
    Ok(events)
}

/// Decodes pieces, one after the other; nothing but memory is kept from one to the next.
#[derive(Debug, Default)]
pub struct Decoder {
    kinds: Vec<Kind>,
    /// Of the values of each kind, [`SHORT`] at least; without relations, and with those that are
    /// told.
    forms: Vec<Form>,
    related: Vec<Form>,
    /// Forms that stand for values.
    columns: usize,
    /// By event, kind by kind; events that are followed by their own kind have [`ITSELF`] in the
    /// place of the first. What else is in this and in `rows` is of no account, and may be from
    /// other pieces.
    successors: Vec<u32>,
    /// By value, kind by kind: what is left of it.
    rows: Vec<u64>,
    unpacked: Unpacked,
}

/// Byte streams, unpacked.
#[derive(Debug, Default)]
struct Unpacked {
    /// Of definitions, then of counts.
    small: Vec<u8>,
    paths: Coded,
    explicit: Vec<u8>,
    columns: Coded,
    planes: [Vec<u8>; STREAM_PLANES],
    relations: Vec<u8>,
}

/// Places behind those that are used, so that short stretches can be read and written with a fixed
/// length.
const SPARE: usize = 8;
/// Values of an event that are made in one step, or in two.
const SHORT: usize = 4;
/// How far ahead of what is read memory is fetched: the next line of the cache, and some.
const AHEAD_BYTES: usize = 96;
const _: () = assert!(SHORT <= SPARE);

/// `n` places of whatever is in them, and [`SPARE`] more.
fn room<T: Clone + Default>(places: &mut Vec<T>, n: usize) -> &mut [T] {
    if places.len() < n + SPARE {
        places.clear();
        places.reserve_exact(n + SPARE);
        places.resize(n + SPARE, T::default());
    }
    &mut places[..n + SPARE]
}

/// What there is of everything.
struct Size {
    events: usize,
    values: usize,
    /// The first event's kind.
    first: u32,
}

impl Decoder {
    /// As [`decode`]. The events take the place of those in `events`; if it fails, there is nothing
    /// of use in it.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        alphabet: &impl Alphabet,
        pack: &impl Pack,
        most: usize,
        events: &mut Events,
    ) -> Result<(), Error> {
        events.dictionary.clear();
        let mut unpacked = core::mem::take(&mut self.unpacked);
        let read = self.read(bytes, alphabet, pack, most, &mut events.dictionary, &mut unpacked);
        self.unpacked = unpacked;
        let ordered = read.and_then(|size| self.put_in_order(size, pack, events));
        ordered.inspect_err(|_| events.clear())
    }

    /// Reads the columns.
    fn read(
        &mut self,
        bytes: &[u8],
        alphabet: &impl Alphabet,
        pack: &impl Pack,
        most: usize,
        dictionary: &mut Dictionary,
        unpacked: &mut Unpacked,
    ) -> Result<Size, Error> {
        let mut from = bytes;
        let n = usize::try_from(take(&mut from).ok_or(Error::CutOff)?).map_err(|_| Error::TooLong)?;
        if n > most {
            return Err(Error::TooLong);
        }
        let small = &mut unpacked.small;
        read(&mut from, most.saturating_mul(8), pack, small)?;
        define(dictionary, small, alphabet, most)?;
        read(&mut from, most.saturating_mul(4), pack, small)?;
        let values = self.lay_out(dictionary, alphabet, small, (n, most))?;
        unpacked.paths.read(&mut from, self.kinds.len(), n, pack)?;
        let explicit = &mut unpacked.explicit;
        read(&mut from, most.saturating_mul(5).saturating_add(1), pack, explicit)?;
        let first = self.read_paths(&unpacked.paths, explicit, n)?;
        unpacked.columns.read(&mut from, self.columns, values, pack)?;
        for plane in &mut unpacked.planes {
            read(&mut from, values, pack, plane)?;
        }
        read(&mut from, 2 * self.columns, pack, &mut unpacked.relations)?;
        self.read_columns(unpacked, values)?;
        match from {
            [] => Ok(Size {
                events: n,
                values,
                first,
            }),
            _ => Err(Error::Inconsistent),
        }
    }

    /// The pass through the columns in the order of events. Where it is lies in registers: the
    /// lengths of lists would be fetched from memory, event after event.
    fn put_in_order(&mut self, size: Size, pack: &impl Pack, events: &mut Events) -> Result<(), Error> {
        let mut sources: Sources = [0; 2 * SOURCES];
        events.kinds.resize(size.events, 0);
        events.starts.resize(size.events + 1, 0);
        events.values.resize(size.values + SHORT, 0);
        let values = events.values.as_mut_slice();
        let (kinds, forms) = (self.kinds.as_mut_slice(), self.forms.as_mut_slice());
        let (mut k, mut at, mut end) = (size.first, 0, 0);
        events.starts[0] = 0;
        while at < size.events {
            let kind = kinds.get_mut(k as usize).ok_or(Error::Inconsistent)?;
            let arity = kind.arity as usize;
            let (column, value, event) = (kind.column as usize, kind.value as usize, kind.event);
            if event == kind.event_end {
                return Err(Error::Inconsistent);
            }
            if event == kind.related_from {
                forms[column..column + arity].copy_from_slice(&self.related[column..column + arity]);
            }
            let (row, forms, to) = (&self.rows[value..], &forms[column..], &mut values[end..]);
            let next = self.successors[event as usize];
            if next >= ITSELF {
                // And the one behind them, which may go anywhere; as many as the same forms hold
                // for.
                let all = next - ITSELF + 1;
                let until = match kind.related_from > event {
                    true => kind.event_end.min(kind.related_from),
                    false => kind.event_end,
                };
                let n = all.min(until - event);
                kind.event += n;
                kind.value += n * kind.arity;
                let n = (n as usize).min(size.events - at);
                let (row, to) = (&row[..n * arity], &mut to[..n * arity]);
                follow(&forms[..arity], row, to, &mut sources);
                events.kinds[at..at + n].fill(k);
                let others = all - n as u32;
                if others > 1 {
                    self.successors[event as usize + n] = ITSELF + others - 1;
                }
                if others == 0 {
                    k = self.successors[event as usize + n - 1];
                }
                for start in &mut events.starts[at + 1..][..n] {
                    end += arity;
                    *start = end as u32;
                }
                at += n;
                continue;
            }
            kind.event += 1;
            kind.value += kind.arity;
            ahead(&self.successors, event as usize, pack);
            ahead(&self.rows, value, pack);
            match (
                row.first_chunk::<SHORT>(),
                forms.first_chunk::<SHORT>(),
                to.first_chunk_mut(),
            ) {
                (Some(row), Some(forms), Some(to)) if arity <= SHORT => {
                    let to: &mut [u64; SHORT] = to;
                    for j in 0..SHORT / 2 {
                        to[j] = forms[j].value(row[j], &mut sources);
                    }
                    if arity > SHORT / 2 {
                        for j in SHORT / 2..SHORT {
                            to[j] = forms[j].value(row[j], &mut sources);
                        }
                    }
                }
                _ => {
                    for ((to, &number), form) in to[..arity].iter_mut().zip(row).zip(forms) {
                        *to = form.value(number, &mut sources);
                    }
                }
            }
            end += arity;
            events.kinds[at] = k;
            events.starts[at + 1] = end as u32;
            (at, k) = (at + 1, next);
        }
        events.values.truncate(end);
        Ok(())
    }

    /// Kinds at the beginning of their events, and the forms of the columns of those that have any.
    /// Returns the number of values.
    fn lay_out(
        &mut self,
        dictionary: &Dictionary,
        alphabet: &impl Alphabet,
        counts: &[u8],
        (events, most): (usize, usize),
    ) -> Result<usize, Error> {
        self.kinds.clear();
        self.forms.clear();
        self.columns = 0;
        let mut from = counts;
        let (mut event, mut value) = (0usize, 0usize);
        let index = |i: usize| u32::try_from(i).map_err(|_| Error::TooLong);
        for number in 0..dictionary.len() as u32 {
            let count = usize::try_from(take(&mut from).ok_or(Error::CutOff)?).unwrap_or(usize::MAX);
            let event_end = event
                .checked_add(count)
                .filter(|&e| e <= events)
                .ok_or(Error::Inconsistent)?;
            let arity = dictionary.arity(number);
            let value_end = count.checked_mul(arity).and_then(|v| v.checked_add(value));
            let value_end = value_end.filter(|&v| v <= most).ok_or(Error::TooLong)?;
            let mut kind = Kind {
                arity: arity as u32,
                column: self.forms.len() as u32,
                value: index(value)?,
                event: index(event)?,
                event_end: index(event_end)?,
                related_from: NEVER,
            };
            if count > 0 {
                let mut sources = &[][..];
                if let Definition::Leaf(key) = dictionary.definition(number) {
                    sources = alphabet.leaf(*key).map_or(&[][..], |l| l.sources);
                    if count >= FREQUENT as usize {
                        kind.related_from = kind.event + RELATED_FROM;
                    }
                }
                self.columns += arity;
                self.forms
                    .extend((0..arity).map(|j| Form::new(sources.get(j).copied())));
                // Short rows are gone through as if they were of `SHORT` values.
                self.forms.extend((arity..SHORT).map(|_| Form::new(None)));
            }
            self.kinds.push(kind);
            (event, value) = (event_end, value_end);
        }
        if event != events || !from.is_empty() {
            return Err(Error::Inconsistent);
        }
        Ok(value)
    }

    /// The successors of all events. Returns the first event's kind.
    fn read_paths(&mut self, coded: &Coded, explicit: &[u8], events: usize) -> Result<u32, Error> {
        let (mut codes, mut explicit) = (coded.codes(), explicit);
        let first = take(&mut explicit).ok_or(Error::CutOff)?;
        let first = u32::try_from(first).map_err(|_| Error::Inconsistent)?;
        let successors = room(&mut self.successors, events);
        for (k, kind) in self.kinds.iter().enumerate().filter(|(_, kind)| kind.count() > 0) {
            let own = &mut successors[kind.event as usize..][..kind.count() + SPARE];
            read_path(k as u32, kind.count(), own, &mut codes, &mut explicit)?;
        }
        if codes.is_empty() && explicit.is_empty() {
            Ok(first)
        } else {
            Err(Error::Inconsistent)
        }
    }

    /// The numbers of all columns, row by row, and the forms of columns whose relations are told.
    fn read_columns(&mut self, unpacked: &Unpacked, values: usize) -> Result<(), Error> {
        let mut codes = unpacked.columns.codes();
        let mut residuals = Residuals {
            planes: core::array::from_fn(|b| unpacked.planes[b].as_slice()),
        };
        let mut relations = unpacked.relations.chunks_exact(2);
        self.related.clear();
        self.related.extend_from_slice(&self.forms);
        let rows = room(&mut self.rows, values);
        for kind in self.kinds.iter().filter(|kind| kind.count() > 0) {
            let (arity, count) = (kind.arity as usize, kind.count());
            let own = &mut rows[kind.value as usize..][..arity * count];
            for j in 0..arity {
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
                if kind.related_from != NEVER {
                    let bytes = relations.next().ok_or(Error::CutOff)?;
                    let relation = Relation::checked(bytes[0], bytes[1] as i8).ok_or(Error::Inconsistent)?;
                    self.related[kind.column as usize + j].relate(relation);
                }
            }
        }
        let over = relations.next().is_none() && relations.remainder().is_empty();
        if over && codes.is_empty() && residuals.planes.iter().all(|p| p.is_empty()) {
            Ok(())
        } else {
            Err(Error::Inconsistent)
        }
    }
}

/// Makes the values of events of one kind that follow each other.
#[inline]
fn follow(forms: &[Form], rows: &[u64], to: &mut [u64], sources: &mut Sources) {
    match forms {
        [] => {}
        [form] if !form.follows_itself() || form.is_whole() => {
            let (mut part, sums) = (form.part(sources), form.follows_itself());
            for (to, number) in to.iter_mut().zip(rows) {
                *to = number.wrapping_add(part);
                part = if sums { *to } else { part };
            }
            form.note(to[to.len() - 1], sources);
        }
        _ => {
            let each = to.chunks_exact_mut(forms.len()).zip(rows.chunks_exact(forms.len()));
            for (to, row) in each {
                for ((to, &number), form) in to.iter_mut().zip(row).zip(forms) {
                    *to = form.value(number, sources);
                }
            }
        }
    }
}

/// The successors of the `count` events of kind `k`, to the front of `successors`, of which there
/// are [`SPARE`] more.
fn read_path(
    k: u32,
    count: usize,
    successors: &mut [u32],
    codes: &mut Codes<'_>,
    explicit: &mut &[u8],
) -> Result<(), Error> {
    let mut recent = [k + 1, k, k, k];
    let mut change = |recent: &mut [u32; RECENT], code: u8| {
        if code == EXPLICIT {
            let apart = take(explicit).ok_or(Error::CutOff)?;
            let next = u64::from(k).wrapping_add(unzigzag(apart));
            let next = u32::try_from(next).ok().filter(|&next| next < ITSELF);
            push_front(recent, next.ok_or(Error::Inconsistent)?);
        } else if (code as usize) < RECENT {
            to_front(recent, code as usize);
        } else {
            return Err(Error::Inconsistent);
        }
        Ok(())
    };
    // Up to here, or to the beginning of where the kind follows itself.
    let mut begin = 0;
    let mut put = |next: u32, at: usize, n: usize| {
        if next != k {
            fill(&mut successors[at..], n, next);
            begin = at + n;
        } else if at + n > begin {
            // Nobody asks for the others.
            successors[begin] = ITSELF + (at + n - begin) as u32;
        }
    };
    let (series, flags) = codes.next(count)?;
    if flags & LEAST != 0 {
        return Err(Error::Inconsistent);
    }
    match series {
        Series::Sparse(changes) => {
            let mut at = 0;
            for _ in 0..changes {
                let (run, code) = codes.code(count - at)?;
                put(recent[0], at, run);
                change(&mut recent, code)?;
                put(recent[0], at + run, 1);
                at += run + 1;
            }
            put(recent[0], at, count - at);
        }
        Series::Dense(own) => {
            for (at, &code) in own.iter().enumerate() {
                if code != 0 {
                    change(&mut recent, code)?;
                }
                put(recent[0], at, 1);
            }
        }
    }
    Ok(())
}

/// Tells of the place where a kind's events will be read from some events later: kinds are many,
/// each has its own places, and by then they should be in the cache.
#[inline(always)]
fn ahead<T>(places: &[T], at: usize, pack: &impl Pack) {
    if let Some(place) = places.get(at + AHEAD_BYTES / size_of::<T>()) {
        pack.soon(place);
    }
}

/// `n` times the same at the front of `places`, of which there are [`SPARE`] more.
#[inline(always)]
fn fill(places: &mut [u32], n: usize, value: u32) {
    let (front, rest) = places.split_at_mut(SPARE);
    front.fill(value);
    if n > SPARE {
        rest[..n - SPARE].fill(value);
    }
}

/// Defines the kinds in an empty dictionary.
fn define(dictionary: &mut Dictionary, bytes: &[u8], alphabet: &impl Alphabet, most: usize) -> Result<(), Error> {
    let mut from = bytes;
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
    Ok(())
}

/// Four streams of codes.
#[derive(Debug, Default)]
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
    fn read(&mut self, from: &mut &[u8], series: usize, most: usize, pack: &impl Pack) -> Result<(), Error> {
        read(from, series.saturating_mul(15), pack, &mut self.heads)?;
        read(from, most.saturating_mul(5), pack, &mut self.runs)?;
        read(from, most, pack, &mut self.sparse)?;
        read(from, most, pack, &mut self.dense)
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

/// What is left of the residuals.
struct Residuals<'a> {
    planes: [&'a [u8]; STREAM_PLANES],
}

impl Residuals<'_> {
    /// The next one, which has so many bytes. Most have one or two: which of these it has cannot be
    /// foreseen, and so makes no branch.
    #[inline(always)]
    fn next(&mut self, length: usize) -> Result<u64, Error> {
        if length > 2 {
            return self.long(length);
        }
        let [low, high, ..] = &mut self.planes;
        let (has_low, has_high) = (usize::from(length > 0), usize::from(length > 1));
        let byte = |plane: &[u8], has: usize| u64::from(plane.first().copied().unwrap_or(0)) * has as u64;
        let residual = byte(low, has_low) | byte(high, has_high) << 8;
        *low = low.get(has_low..).ok_or(Error::CutOff)?;
        *high = high.get(has_high..).ok_or(Error::CutOff)?;
        Ok(residual)
    }

    #[inline(never)]
    fn long(&mut self, length: usize) -> Result<u64, Error> {
        let planes = self.planes.get_mut(..length).ok_or(Error::Inconsistent)?;
        planes.iter_mut().rev().try_fold(0, |residual, plane| {
            let (&byte, rest) = plane.split_first().ok_or(Error::CutOff)?;
            *plane = rest;
            Ok(residual << 8 | u64::from(byte))
        })
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
                    let number = other(&mut self.past, code, self.least, residuals)?;
                    self.past.update(number);
                    self.numbers[self.at] = number;
                    self.at += self.apart;
                    left -= run + 1;
                }
                self.expected(left);
            }
            Series::Dense(mut own) => {
                while let Some((&code, rest)) = own.split_first() {
                    let number = match code {
                        0 => self.past.expected(),
                        _ => other(&mut self.past, code, self.least, residuals)?,
                    };
                    self.past.update(number);
                    self.numbers[self.at] = number;
                    self.at += self.apart;
                    let short = match self.least {
                        Some(least) => self.short(rest, residuals, |_, residual| least.wrapping_add(residual)),
                        None => self.short(rest, residuals, |last, residual| last.wrapping_add(unzigzag(residual))),
                    };
                    own = &rest[short?..];
                }
            }
        }
        Ok(())
    }

    /// Makes the next numbers, as long as their residuals have one or two bytes: nearly all have in
    /// series with a code for each. Returns how many.
    #[inline(never)]
    fn short(
        &mut self,
        codes: &[u8],
        residuals: &mut Residuals<'_>,
        number: impl Fn(u64, u64) -> u64,
    ) -> Result<usize, Error> {
        let [low, high, ..] = &mut residuals.planes;
        // All that changes with every number is in registers.
        let (mut past, mut at, mut n, mut long) = (self.past, self.at, 0, 0);
        for (&code, &byte) in codes.iter().zip(*low) {
            let is_long = code.wrapping_sub(MISS + 1);
            let Some(place) = self.numbers.get_mut(at).filter(|_| is_long <= 1) else {
                break;
            };
            let above = high.get(long).copied().unwrap_or(0) & is_long.wrapping_neg();
            *place = number(past.last(), u64::from(above) << 8 | u64::from(byte));
            past.update(*place);
            long += usize::from(is_long);
            at += self.apart;
            n += 1;
        }
        (self.past, self.at) = (past, at);
        *low = &low[n..];
        *high = high.get(long..).ok_or(Error::CutOff)?;
        Ok(n)
    }

    /// The next `n` numbers are as expected.
    #[inline]
    fn expected(&mut self, n: usize) {
        self.past.go_on(self.numbers, self.at, self.apart, n);
        self.at += n * self.apart;
    }
}

/// The next number, which is not as expected.
#[inline(always)]
fn other(past: &mut Past, code: u8, least: Option<u64>, residuals: &mut Residuals<'_>) -> Result<u64, Error> {
    if code < MISS {
        let number = past.other();
        past.turn();
        return Ok(number);
    }
    let residual = residuals.next((code - MISS) as usize)?;
    Ok(match least {
        Some(least) => least.wrapping_add(residual),
        None => past.last().wrapping_add(unzigzag(residual)),
    })
}
