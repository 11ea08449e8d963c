//! Events to bytes. The layout is described where it is read: [`decode`](crate::decode).
//!
//! One pass in the order of events takes from every value what follows from the sources, and puts
//! what is left, and the kind of the next event, where like lies by like: the events of a kind
//! together. Everything else is done there, column by column, where most of the time one number
//! after the other is as expected, and the next loop's turn has come when one is not.
use crate::bytes::{bits, put, zigzag};
use crate::column::{Form, Sources};
use crate::decode::{
    push_front, to_front, DENSE, EXPLICIT, FREQUENT, LEAST, MISS, RECENT, RELATED_FROM, STREAM_PLANES,
};
use crate::dictionary::Definition;
use crate::events::Events;
use crate::learn::Learner;
use crate::series::Past;
use crate::streams::{write, Pack};
use crate::{Alphabet, SOURCES};
use alloc::vec::Vec;
use core::ops::Range;

const NONE: u32 = u32::MAX;
/// Bytes before it is needed that memory is fetched which is written here and there: two lines.
/// Sorting writes to as many places as there are kinds, more than the processor follows by itself,
/// and each new line would cost a trip to the last cache: a third of the time.
const AHEAD: usize = 128;

/// Events that make a kind worth watching: for fewer, finding its relations takes longer than all
/// the rest.
const WATCHED: u32 = 160;
const _: () = assert!(WATCHED >= FREQUENT);
/// Events of such a kind that pass before it is watched.
const UNWATCHED: u32 = 8;
const _: () = assert!(UNWATCHED < RELATED_FROM);

/// A kind in the numbering of the encoded piece. Never on two lines of the cache.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Kind {
    arity: u32,
    /// Its first column.
    column: u32,
    /// Where its next values go, and its next successor.
    value: u32,
    event: u32,
    /// Events until it is watched.
    until: u32,
    learner: u32,
    /// The kind that is expected to follow.
    follows: u32,
    learns: bool,
}

/// Numbers the kinds that events use, in order of first use, bodies before loops.
#[derive(Default)]
struct Numbering {
    number: Vec<u32>,
    definitions: Vec<u8>,
    last_key: u32,
    kinds: Vec<Kind>,
    forms: Vec<Form>,
    counts: Vec<u32>,
}

/// Encodes pieces, one after the other; nothing but memory is kept from one to the next.
#[derive(Default)]
pub struct Encoder {
    numbering: Numbering,
    /// What is left of the values, kind by kind.
    rows: Vec<u64>,
    turns: Turns,
    learners: Learners,
    relations: Vec<u8>,
    /// Of successors, and of columns.
    paths: Coded,
    explicit: Vec<u8>,
    columns: Coded,
    /// Of the column in the making. There is more room than it has numbers.
    codes: Vec<u8>,
    misses: Misses,
    residuals: Vec<u64>,
    lengths: Vec<u8>,
    planes: [Vec<u8>; STREAM_PLANES],
}

/// Where the kind of the next event was not the expected one.
#[derive(Default)]
struct Turns {
    /// A code for every event, kind by kind.
    codes: Vec<u8>,
    /// By kind: the kinds that followed last, and how many codes are not 0.
    recent: Vec<([u32; RECENT], u32)>,
    /// Kinds that were none of those, and which kind they followed.
    explicit: Vec<(u32, u32)>,
}

impl Turns {
    fn clear(&mut self, events: usize, kinds: usize) {
        self.codes.clear();
        self.codes.resize(events, 0);
        self.recent.clear();
        self.recent.extend((0..kinds as u32).map(|k| ([k + 1, k, k, k], 0)));
        self.explicit.clear();
    }

    /// The event at `place`, of kind `k`, was followed by one of kind `next`, which was not
    /// expected.
    #[inline(never)]
    fn turn(&mut self, k: u32, place: usize, next: u32) {
        let (recent, coded) = &mut self.recent[k as usize];
        *coded += 1;
        self.codes[place] = match recent.iter().position(|&r| r == next) {
            Some(rank) => {
                to_front(recent, rank);
                rank as u8
            }
            None => {
                push_front(recent, next);
                self.explicit.push((k, next));
                EXPLICIT
            }
        };
    }

    /// Writes the kinds that had to be told, by the kinds they followed.
    fn write_explicit(&self, out: &mut Vec<u8>) {
        let mut first = alloc::vec![0; self.recent.len() + 1];
        self.explicit.iter().for_each(|e| first[e.0 as usize + 1] += 1);
        for k in 1..first.len() {
            first[k] += first[k - 1];
        }
        let mut sorted = alloc::vec![(0, 0); self.explicit.len()];
        for &e in &self.explicit {
            let place = &mut first[e.0 as usize];
            sorted[*place] = e;
            *place += 1;
        }
        for (k, next) in sorted {
            put(out, zigzag(u64::from(next).wrapping_sub(k.into())));
        }
    }
}

/// Those of the kinds that are being watched, and spare ones.
#[derive(Default)]
struct Learners {
    all: Vec<Learner>,
    spare: Vec<u32>,
}

impl Learners {
    fn clear(&mut self) {
        self.all.iter_mut().for_each(Learner::clear);
        self.spare.clear();
        self.spare.extend(0..self.all.len() as u32);
    }

    /// Watches an event of a frequent kind, or puts what was learnt into effect.
    #[inline(never)]
    fn watch(&mut self, kind: &mut Kind, forms: &mut [Form], values: &[u64], sources: &Sources) {
        if kind.learner == NONE {
            kind.learner = self.spare.pop().unwrap_or_else(|| {
                self.all.push(Learner::default());
                self.all.len() as u32 - 1
            });
        }
        let learner = &mut self.all[kind.learner as usize];
        if learner.events() < RELATED_FROM - UNWATCHED {
            learner.watch(forms, values, sources);
            return;
        }
        for (form, relation) in forms.iter_mut().zip(learner.learnt()) {
            form.relate(relation);
        }
        learner.clear();
        self.spare.push(kind.learner);
        kind.until = NONE;
    }
}

/// Codes of many series of numbers.
#[derive(Default)]
struct Coded {
    /// For each series its head.
    heads: Vec<u8>,
    /// Of series that mostly are as expected: how often they are before each code, and the codes.
    runs: Vec<u8>,
    sparse: Vec<u8>,
    /// Of others: all codes.
    dense: Vec<u8>,
}

impl Coded {
    fn clear(&mut self) {
        for stream in [&mut self.heads, &mut self.runs, &mut self.sparse, &mut self.dense] {
            stream.clear();
        }
    }

    /// Adds a series by the codes of its numbers, of which so many are not 0. `flags` go to its
    /// head.
    #[inline]
    fn add(&mut self, codes: &[u8], coded: usize, flags: u64) {
        let dense = 2 * coded > codes.len();
        let head = if dense { DENSE } else { (coded as u64) << 2 };
        put(&mut self.heads, head | flags);
        if dense {
            self.dense.extend_from_slice(codes);
        } else if coded > 0 {
            let mut next = 0;
            for_each_set(codes, |at, code| {
                put(&mut self.runs, (at - next) as u64);
                self.sparse.push(code);
                next = at + 1;
            });
        }
    }

    fn write(&self, out: &mut Vec<u8>, pack: &impl Pack) {
        for stream in [&self.heads, &self.runs, &self.sparse, &self.dense] {
            write(out, stream, pack);
        }
    }
}

/// Hands on the places of all bytes that are not 0.
#[inline]
fn for_each_set(bytes: &[u8], mut each: impl FnMut(usize, u8)) {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    for (i, word) in words.enumerate() {
        let mut left = word.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
        while left != 0 {
            let byte = left.trailing_zeros() as usize / 8;
            each(8 * i + byte, word[byte]);
            left &= !(0xff << (8 * byte));
        }
    }
    let at = bytes.len() - rest.len();
    for (i, &byte) in rest.iter().enumerate().filter(|b| *b.1 != 0) {
        each(at + i, byte);
    }
}

/// The numbers of a column that were not predicted. There is room for one more than the column has
/// numbers.
#[derive(Default)]
struct Misses {
    numbers: Vec<u64>,
    /// How far each is from the number before it.
    apart: Vec<u64>,
    /// Which number of the column it is.
    places: Vec<u32>,
    count: usize,
}

impl Misses {
    /// Begins a column of `length` numbers.
    fn begin(&mut self, length: usize) {
        self.count = 0;
        if self.numbers.len() <= length {
            let room = (length + 1).next_power_of_two();
            self.numbers.resize(room, 0);
            self.apart.resize(room, 0);
            self.places.resize(room, 0);
        }
    }
    fn numbers(&self) -> &[u64] {
        &self.numbers[..self.count]
    }
    fn apart(&self) -> &[u64] {
        &self.apart[..self.count]
    }
}

impl Encoder {
    /// Appends the encoded form of `events` to `out`.
    pub fn encode(&mut self, events: &Events, alphabet: &impl Alphabet, pack: &impl Pack, out: &mut Vec<u8>) {
        self.clear(events);
        self.numbering.count(events, alphabet);
        self.turns.clear(events.len(), self.numbering.kinds.len());
        self.rows.resize(events.values().max(self.rows.len()), 0);
        self.sort(events, pack);
        let first = events
            .kinds
            .first()
            .map_or(0, |&kind| self.numbering.number[kind as usize]);
        put(&mut self.explicit, first.into());
        self.turns.write_explicit(&mut self.explicit);
        self.code();
        put(out, events.len() as u64);
        write(out, &self.numbering.definitions, pack);
        let mut counts = Vec::new();
        self.numbering.counts.iter().for_each(|&c| put(&mut counts, c.into()));
        write(out, &counts, pack);
        self.paths.write(out, pack);
        write(out, &self.explicit, pack);
        self.columns.write(out, pack);
        self.planes.iter().for_each(|plane| write(out, plane, pack));
        write(out, &self.relations, pack);
    }

    fn clear(&mut self, events: &Events) {
        self.numbering.clear(events.dictionary.len());
        self.learners.clear();
        self.relations.clear();
        self.paths.clear();
        self.columns.clear();
        self.explicit.clear();
        self.planes.iter_mut().for_each(Vec::clear);
    }

    /// The pass in the order of events.
    fn sort(&mut self, events: &Events, pack: &impl Pack) {
        let Numbering {
            number, kinds, forms, ..
        } = &mut self.numbering;
        let (number, kinds, forms) = (number.as_slice(), kinds.as_mut_slice(), forms.as_mut_slice());
        let rows = self.rows.as_mut_slice();
        let mut sources: Sources = [0; 2 * SOURCES];
        let mut values = events.values.as_slice();
        // The event before: its kind, where its code goes, and what should follow it.
        let (mut before, mut place, mut expected) = (NONE, 0, NONE);
        let mut left = events.kinds.as_slice();
        while let [kind, others @ ..] = left {
            let k = number[*kind as usize];
            if k != expected && before != NONE {
                self.turns.turn(before, place, k);
                kinds[before as usize].follows = k;
            }
            let this = &mut kinds[k as usize];
            (before, place, expected) = (k, this.event as usize, this.follows);
            // Others of the kind follow often, and then nothing has to be looked up again. Not
            // while it is watched.
            let mut n = 1;
            if expected == k {
                let alike = others.iter().take_while(|&other| other == kind).count();
                n = (1 + alike).min(this.until.max(1) as usize);
                place += n - 1;
            }
            left = &left[n..];
            this.event += n as u32;
            let arity = this.arity as usize;
            let (own, rest) = values.split_at(n * arity);
            values = rest;
            let forms = &mut forms[this.column as usize..][..arity];
            let at = this.value as usize;
            this.value += own.len() as u32;
            rows.get(this.value as usize + AHEAD / size_of::<u64>())
                .inspect(|p| pack.soon(*p));
            if this.until == 0 {
                self.learners.watch(this, forms, own, &sources);
            } else {
                this.until -= n as u32;
            }
            let row = &mut rows[at..][..own.len()];
            if let [form] = forms {
                for (left, &value) in row.iter_mut().zip(own) {
                    *left = form.number(value, &mut sources);
                }
                continue;
            }
            let each = arity.max(1);
            for (row, own) in row.chunks_exact_mut(each).zip(own.chunks_exact(each)) {
                for ((left, form), &value) in row.iter_mut().zip(&*forms).zip(own) {
                    *left = form.number(value, &mut sources);
                }
            }
        }
    }

    /// Successors and columns, kind by kind.
    fn code(&mut self) {
        let mut event = 0;
        for k in 0..self.numbering.kinds.len() {
            let (kind, count) = (self.numbering.kinds[k], self.numbering.counts[k] as usize);
            if count > 0 {
                let arity = kind.arity as usize;
                let value = kind.value as usize - count * arity;
                let codes = &self.turns.codes[event..event + count];
                self.paths.add(codes, self.turns.recent[k].1 as usize, 0);
                for j in 0..arity {
                    self.code_column(value..value + count * arity, (j, arity));
                }
                if kind.learns && count >= FREQUENT as usize {
                    for form in &self.numbering.forms[kind.column as usize..][..arity] {
                        let relation = form.relation();
                        self.relations.extend([relation.source, relation.factor as u8]);
                    }
                }
                event += count;
            }
        }
    }

    /// The numbers `j`, `j + arity` and so on of `range`.
    fn code_column(&mut self, range: Range<usize>, (j, arity): (usize, usize)) {
        let length = range.len() / arity;
        let rows = &self.rows[range];
        let Encoder {
            columns, misses, codes, ..
        } = self;
        misses.begin(length);
        codes.clear();
        codes.resize(length, 0);
        let mut past = Past::default();
        let (mut i, mut coded, mut missed) = (0, 0, 0);
        while i < length {
            i += past.follow(rows, j + i * arity, arity);
            // Where one is not as expected others are not: some without branching, which could not
            // be foreseen.
            let end = (i + WITHOUT_BRANCHES).min(length);
            let numbers = rows.iter().skip(j + i * arity).step_by(arity);
            for (code, &number) in codes[i..end].iter_mut().zip(numbers) {
                misses.numbers[missed] = number;
                misses.apart[missed] = number.wrapping_sub(past.last());
                misses.places[missed] = i as u32;
                *code = past.code(number);
                coded += usize::from(*code != 0);
                missed += usize::from(*code == MISS);
                i += 1;
            }
        }
        misses.count = missed;
        let least = least_base(misses);
        if missed > 0 {
            self.residuals.clear();
            match least {
                Some(least) => self
                    .residuals
                    .extend(misses.numbers().iter().map(|n| n.wrapping_sub(least))),
                None => self.residuals.extend(misses.apart().iter().map(|&a| zigzag(a))),
            }
            let usual = write_residuals(&self.residuals, &mut self.lengths, &mut self.planes);
            for (&place, &length) in misses.places.iter().zip(&self.lengths) {
                codes[place as usize] = MISS + length.max(usual);
            }
        }
        columns.add(codes, coded, if least.is_some() { LEAST } else { 0 });
        if let Some(least) = least {
            put(&mut columns.heads, least);
        }
    }
}

/// Writes the residuals of a column to the planes. Puts their lengths into `lengths`, and returns
/// the least with which one is written.
fn write_residuals(residuals: &[u64], lengths: &mut Vec<u8>, planes: &mut [Vec<u8>; STREAM_PLANES]) -> u8 {
    lengths.clear();
    lengths.extend(residuals.iter().map(|&r| length_of(r)));
    let mut counts = [0usize; 16];
    lengths.iter().for_each(|&l| counts[usize::from(l % 16)] += 1);
    // The length that most have or come close to: writing some zeros costs less than telling
    // lengths apart.
    let usual = (0..9).rev().find(|&l| counts[l] * 4 > residuals.len() * 3).unwrap_or(0);
    let longest = (usual..9).rev().find(|&l| counts[l] > 0).unwrap_or(usual);
    for (b, plane) in planes.iter_mut().enumerate().take(longest) {
        let byte = |r: &u64| (r >> (8 * b)) as u8;
        if b < usual {
            plane.extend(residuals.iter().map(byte));
        } else {
            let long = residuals.iter().zip(&*lengths).filter(|r| usize::from(*r.1) > b);
            plane.extend(long.map(|r| byte(r.0)));
        }
    }
    usual as u8
}

/// Bytes of a residual.
#[inline]
fn length_of(residual: u64) -> u8 {
    bits(residual).div_ceil(8) as u8
}

/// Numbers that are coded without a branch after one that was not as expected.
const WITHOUT_BRANCHES: usize = 32;
/// Misses that are looked at to decide how all of a column's are written.
const LOOKED_AT: usize = 64;

/// The least number that a column has missed, if they are shorter to write from there than each
/// from the number before.
fn least_base(misses: &Misses) -> Option<u64> {
    let (numbers, distances) = (misses.numbers(), misses.apart());
    if numbers.len() < 3 {
        return None;
    }
    let least = *numbers.iter().min()?;
    let every = numbers.len().div_ceil(LOOKED_AT);
    let (mut last, mut offset) = (0, 64 / every as u32);
    for (number, &apart) in numbers.iter().zip(distances).step_by(every) {
        last += bits(zigzag(apart));
        offset += bits(number.wrapping_sub(least));
    }
    (offset < last).then_some(least)
}

impl Numbering {
    fn clear(&mut self, kinds: usize) {
        self.number.clear();
        self.number.resize(kinds, NONE);
        self.definitions.clear();
        self.last_key = 0;
        self.kinds.clear();
        self.forms.clear();
        self.counts.clear();
    }

    /// Numbers and counts all kinds, and gives them their places.
    fn count(&mut self, events: &Events, alphabet: &impl Alphabet) {
        for &kind in &events.kinds {
            let mut k = self.number[kind as usize];
            if k == NONE {
                self.define(events, alphabet, kind);
                k = self.number[kind as usize];
            }
            self.counts[k as usize] += 1;
        }
        let (mut value, mut event) = (0, 0);
        for (kind, &count) in self.kinds.iter_mut().zip(&self.counts) {
            (kind.value, kind.event) = (value, event);
            value += kind.arity * count;
            event += count;
            if !kind.learns || count < WATCHED {
                kind.until = NONE;
            }
        }
    }

    fn add_forms(&mut self, arity: usize, sources: &[u8]) {
        self.forms
            .extend((0..arity).map(|j| Form::new(sources.get(j).copied())));
    }

    fn define(&mut self, events: &Events, alphabet: &impl Alphabet, kind: u32) {
        let arity = events.dictionary.arity(kind);
        let (column, learns);
        match events.dictionary.definition(kind) {
            Definition::Leaf(key) => {
                let apart = zigzag(u64::from(*key).wrapping_sub(self.last_key.into()));
                self.last_key = *key;
                put(&mut self.definitions, apart << 1);
                column = self.forms.len();
                let sources = alphabet.leaf(*key).map_or(&[][..], |l| l.sources);
                self.add_forms(arity, sources);
                learns = arity > 0;
            }
            Definition::Loop(body) => {
                for &inner in body {
                    if self.number[inner as usize] == NONE {
                        self.define(events, alphabet, inner);
                    }
                }
                put(&mut self.definitions, (body.len() as u64) << 1 | 1);
                for &inner in body {
                    put(&mut self.definitions, self.number[inner as usize].into());
                }
                column = self.forms.len();
                self.add_forms(arity, &[]);
                learns = false;
            }
        }
        self.number[kind as usize] = self.kinds.len() as u32;
        self.counts.push(0);
        self.kinds.push(Kind {
            arity: arity as u32,
            column: column as u32,
            value: 0,
            event: 0,
            until: UNWATCHED,
            learner: NONE,
            follows: self.kinds.len() as u32 + 1,
            learns,
        });
    }
}
