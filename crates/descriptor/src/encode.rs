//! Events to bytes. The layout is described where it is read: [`decode`](crate::decode).
//!
//! One pass in the order of events takes from every value what follows from the sources, and puts what is left, and the kind
//! of the next event, where like lies by like: the events of a kind together. Everything else is done there, column by column, where
//! most of the time one number after the other is as expected, and the next loop's turn has come when one is not.
use crate::bytes::{bits, put, zigzag};
use crate::column::{Form, Sources};
use crate::decode::{push_front, to_front, DENSE, EXPLICIT, FREQUENT, LEAST, MISS, OTHER, RELATED_FROM, STREAM_PLANES};
use crate::dictionary::Definition;
use crate::events::Events;
use crate::learn::Learner;
use crate::series::Past;
use crate::streams::{write, Pack};
use crate::{Alphabet, SOURCES};
use alloc::vec::Vec;
use core::ops::Range;

const NONE: u32 = u32::MAX;
/// Events of a frequent kind that pass before it is watched.
const UNWATCHED: u32 = 8;
const _: () = assert!(UNWATCHED < RELATED_FROM);

/// A kind in the numbering of the encoded piece.
#[derive(Clone, Copy)]
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
    /// What is left of the values, and the kinds of the next events, kind by kind. After them all the first event's kind.
    rows: Vec<u64>,
    successors: Vec<u32>,
    learners: Learners,
    relations: Vec<u8>,
    /// Of successors, and of columns.
    paths: Coded,
    explicit: Vec<u8>,
    columns: Coded,
    misses: Vec<Miss>,
    residuals: Vec<u64>,
    planes: [Vec<u8>; STREAM_PLANES],
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
    /// Those of the series in the making.
    codes: Vec<(u32, u8)>,
}

impl Coded {
    fn clear(&mut self) {
        for stream in [&mut self.heads, &mut self.runs, &mut self.sparse, &mut self.dense] {
            stream.clear();
        }
        self.codes.clear();
    }

    /// Writes the series in the making, of `length` numbers. `flags` go to its head.
    #[inline]
    fn end(&mut self, length: usize, flags: u64) {
        let dense = 2 * self.codes.len() > length;
        let head = if dense { DENSE } else { (self.codes.len() as u64) << 2 };
        put(&mut self.heads, head | flags);
        if dense {
            let mut at = self.dense.len();
            self.dense.resize(at + length, 0);
            for &(run, code) in &self.codes {
                at += run as usize;
                self.dense[at] = code;
                at += 1;
            }
        } else {
            for &(run, code) in &self.codes {
                put(&mut self.runs, run.into());
                self.sparse.push(code);
            }
        }
        self.codes.clear();
    }

    fn write(&self, out: &mut Vec<u8>, pack: &impl Pack) {
        for stream in [&self.heads, &self.runs, &self.sparse, &self.dense] {
            write(out, stream, pack);
        }
    }
}

/// A number that was not predicted.
#[derive(Clone, Copy)]
struct Miss {
    number: u64,
    from_last: u64,
}

impl Encoder {
    /// Appends the encoded form of `events` to `out`.
    pub fn encode(&mut self, events: &Events, alphabet: &impl Alphabet, pack: &impl Pack, out: &mut Vec<u8>) {
        self.clear(events);
        self.numbering.count(events, alphabet);
        self.rows.resize(events.values().max(self.rows.len()), 0);
        self.sort(events);
        self.code(events.len());
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
        self.successors.resize((events.len() + 1).max(self.successors.len()), 0);
        self.learners.clear();
        self.relations.clear();
        self.paths.clear();
        self.columns.clear();
        self.explicit.clear();
        self.planes.iter_mut().for_each(Vec::clear);
    }

    /// The pass in the order of events.
    fn sort(&mut self, events: &Events) {
        let Numbering {
            number, kinds, forms, ..
        } = &mut self.numbering;
        let (number, kinds, forms) = (number.as_slice(), kinds.as_mut_slice(), forms.as_mut_slice());
        let (rows, successors) = (self.rows.as_mut_slice(), self.successors.as_mut_slice());
        let mut sources: Sources = [0; 2 * SOURCES];
        let mut values = events.values.as_slice();
        // Where the kind of this event goes.
        let mut place = events.len();
        for &kind in &events.kinds {
            let k = number[kind as usize];
            successors[place] = k;
            let this = &mut kinds[k as usize];
            place = this.event as usize;
            this.event += 1;
            let (own, rest) = values.split_at(this.arity as usize);
            values = rest;
            let forms = &mut forms[this.column as usize..][..own.len()];
            let row = &mut rows[this.value as usize..][..own.len()];
            this.value += this.arity;
            if this.until == 0 {
                self.learners.watch(this, forms, own, &sources);
            } else {
                this.until -= 1;
            }
            for ((left, form), &value) in row.iter_mut().zip(forms).zip(own) {
                *left = value.wrapping_sub(form.part(&sources));
                form.note(value, &mut sources);
            }
        }
        // Nothing follows the last.
        successors[place] = NONE;
    }

    /// Successors and columns, kind by kind.
    fn code(&mut self, events: usize) {
        let first = if events > 0 { self.successors[events] } else { 0 };
        put(&mut self.explicit, first.into());
        let mut event = 0;
        for k in 0..self.numbering.kinds.len() {
            let (kind, count) = (self.numbering.kinds[k], self.numbering.counts[k] as usize);
            if count > 0 {
                let arity = kind.arity as usize;
                let value = kind.value as usize - count * arity;
                self.code_path(k as u32, event..event + count);
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

    fn code_path(&mut self, k: u32, range: Range<usize>) {
        let length = range.len();
        let mut recent = [k + 1, k, k, k];
        let mut run = 0;
        for &next in &self.successors[range] {
            if next == recent[0] || next == NONE {
                run += 1;
                continue;
            }
            let code = match recent.iter().position(|&r| r == next) {
                Some(rank) => {
                    to_front(&mut recent, rank);
                    rank as u8
                }
                None => {
                    push_front(&mut recent, next);
                    put(&mut self.explicit, zigzag(u64::from(next).wrapping_sub(k.into())));
                    EXPLICIT
                }
            };
            self.paths.codes.push((run, code));
            run = 0;
        }
        self.paths.end(length, 0);
    }

    /// The numbers `j`, `j + arity` and so on of `range`.
    fn code_column(&mut self, range: Range<usize>, (j, arity): (usize, usize)) {
        let length = range.len() / arity;
        let rows = &self.rows[range];
        let Encoder { columns, misses, .. } = self;
        misses.clear();
        let mut past = Past::default();
        let mut at = j;
        loop {
            let run = past.follow(rows, at, arity);
            at += run * arity;
            let Some(&number) = rows.get(at) else { break };
            at += arity;
            let mut code = OTHER;
            if past.other() == number {
                past.turn();
            } else {
                code = MISS;
                misses.push(Miss {
                    number,
                    from_last: number.wrapping_sub(past.last()),
                });
            }
            columns.codes.push((run as u32, code));
            past.update(number);
        }
        let least = least_base(misses);
        if !misses.is_empty() {
            self.residuals.clear();
            self.residuals.extend(misses.iter().map(|miss| match least {
                Some(least) => miss.number.wrapping_sub(least),
                None => zigzag(miss.from_last),
            }));
            write_residuals(&self.residuals, &mut columns.codes, &mut self.planes);
        }
        columns.end(length, if least.is_some() { LEAST } else { 0 });
        if let Some(least) = least {
            put(&mut columns.heads, least);
        }
    }
}

/// Writes the residuals of a column to the planes, and their lengths to the codes.
fn write_residuals(residuals: &[u64], codes: &mut [(u32, u8)], planes: &mut [Vec<u8>; STREAM_PLANES]) {
    let mut lengths = [0usize; 9];
    residuals.iter().for_each(|&r| lengths[length_of(r)] += 1);
    // The length that most have or come close to: writing some zeros costs less than telling lengths apart.
    let usual = (0..9)
        .rev()
        .find(|&l| lengths[l] * 4 > residuals.len() * 3)
        .unwrap_or(0);
    let longest = (usual..9).rev().find(|&l| lengths[l] > 0).unwrap_or(usual);
    let missed = codes.iter_mut().filter(|c| c.1 == MISS);
    if longest == usual {
        missed.for_each(|c| c.1 += usual as u8);
    } else {
        missed
            .zip(residuals)
            .for_each(|(c, &r)| c.1 += length_of(r).max(usual) as u8);
    }
    for (b, plane) in planes.iter_mut().enumerate().take(longest) {
        let byte = |r: &u64| (r >> (8 * b)) as u8;
        if b < usual {
            plane.extend(residuals.iter().map(byte));
        } else {
            plane.extend(residuals.iter().filter(|&&r| length_of(r) > b).map(byte));
        }
    }
}

/// Bytes of a residual.
#[inline]
fn length_of(residual: u64) -> usize {
    bits(residual).div_ceil(8) as usize
}

/// Misses that are looked at to decide how all of a column's are written.
const LOOKED_AT: usize = 64;

/// The least number that a column has missed, if they are shorter to write from there than each from the number before.
fn least_base(misses: &[Miss]) -> Option<u64> {
    if misses.len() < 3 {
        return None;
    }
    let least = misses.iter().map(|m| m.number).min()?;
    let apart = misses.len().div_ceil(LOOKED_AT);
    let (mut last, mut offset) = (0, 64 / apart as u32);
    for miss in misses.iter().step_by(apart) {
        last += bits(zigzag(miss.from_last));
        offset += bits(miss.number.wrapping_sub(least));
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
            if !kind.learns || count < FREQUENT {
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
            learns,
        });
    }
}
