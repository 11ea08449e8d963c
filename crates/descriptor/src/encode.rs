//! Events to bytes. The layout is described where it is read: [`decode`](crate::decode).
//!
//! One pass in the order of events finds what the predictions miss; a second one sorts that by
//! kind and by column. Looking for relations between columns is the encoder's affair alone, and is
//! done only where a prediction has failed.
use crate::bytes::{bits, put, zigzag};
use crate::column::{Column, Contexts, Relation, Sources, BEFORE, CONTEXT, RELATION, STRIDE};
use crate::decode::{
    push_front, to_front, BASE_LAST, BASE_LEAST, BASE_RELATION, EXPLICIT, FAILED, FRESH, MISS, RECENT, RELATED,
    STREAM_PLANES,
};
use crate::dictionary::Definition;
use crate::events::Events;
use crate::segments::Segments;
use crate::streams::{write, Pack};
use crate::{Alphabet, SOURCES};
use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// A kind in the numbering of the encoded piece.
struct Kind {
    arity: usize,
    column: usize,
    recent: [u32; RECENT],
    count: u32,
}

/// How the kind of the next event is told, unless it is the one that came last time.
struct Next {
    /// The lowest number above all kinds so far.
    fresh: u32,
    explicit: Vec<u8>,
}

impl Next {
    #[inline(never)]
    fn symbol(&mut self, recent: &mut [u32; RECENT], k: u32) -> u8 {
        match recent.iter().position(|&r| r == k) {
            Some(rank) => {
                to_front(recent, rank);
                rank as u8
            }
            None => {
                push_front(recent, k);
                if k == self.fresh {
                    return FRESH;
                }
                put(&mut self.explicit, k.into());
                EXPLICIT
            }
        }
    }
}

/// Numbers the kinds that events use, in order of first use, bodies before loops.
#[derive(Default)]
struct Numbering {
    number: Vec<u32>,
    definitions: Vec<u8>,
    last_key: u32,
}

#[derive(Clone, Copy, Default)]
struct Miss {
    column: u32,
    value: u64,
    from_last: u64,
    from_relation: u64,
}

/// The search for a relation of one column.
#[derive(Clone, Copy, Default)]
struct Search {
    /// Place of the sources as they were at the last value, in the pool; 0 for none.
    noted: u32,
    /// What was found last time.
    candidate: Option<Relation>,
    tries: u16,
}

/// A column that has not found a relation in so many tries is tried every 16th time only.
const EAGER: u16 = 64;

#[derive(Default)]
struct Searches {
    of: Vec<Search>,
    pool: Vec<[u64; SOURCES]>,
    free: Vec<u32>,
}

impl Searches {
    fn clear(&mut self) {
        self.of.clear();
        self.pool.clear();
        self.free.clear();
    }

    /// Looks at a value that no simple prediction got. Returns a relation that has held twice.
    fn look(&mut self, number: usize, column: &Column, value: u64, sources: &Sources) -> Option<Relation> {
        let search = &mut self.of[number];
        let mut found: Option<Relation> = None;
        if search.noted != 0 {
            let then = &self.pool[search.noted as usize - 1];
            let moved = value.wrapping_sub(column.last());
            for source in 0..SOURCES {
                let movement = sources[source].wrapping_sub(then[source]);
                let Some(guess) = Relation::guess(source as u8, movement, moved) else {
                    continue;
                };
                if search.candidate == Some(guess) {
                    found = Some(guess);
                    break;
                }
                if found.is_none_or(|f| f.factor != 1 && guess.factor == 1) {
                    found = Some(guess);
                }
            }
        }
        let confirmed = found.filter(|f| search.candidate == Some(*f) && column.related() != *f);
        if found.is_some() {
            search.candidate = found;
        }
        confirmed
    }

    /// Forgets what was noted at the last value.
    fn forget(&mut self, number: usize) {
        let noted = core::mem::take(&mut self.of[number].noted);
        if noted != 0 {
            self.free.push(noted);
        }
    }

    /// Notes the sources at a value, for the next one to be compared with, unless that was in vain too often.
    fn note(&mut self, number: usize, sources: &Sources) -> bool {
        let search = &mut self.of[number];
        search.tries = search.tries.wrapping_add(1);
        if search.tries > EAGER && search.tries % 16 != 0 {
            return false;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.pool.push([0; SOURCES]);
            self.pool.len() as u32
        });
        self.pool[place as usize - 1].copy_from_slice(&sources[..SOURCES]);
        search.noted = place;
        true
    }
}

/// Encodes pieces, one after the other; nothing but memory is kept from one to the next.
#[derive(Default)]
pub struct Encoder {
    numbering: Numbering,
    kinds: Vec<Kind>,
    columns: Vec<Column>,
    unexpected: Unexpected,
    /// Kind and op of every event, in order.
    order: Vec<u32>,
    ops: Vec<u8>,
    mask_kinds: Vec<u32>,
    masks: Vec<u8>,
    /// Room for sorting and writing.
    sorted: Vec<u8>,
    sorted_misses: Vec<Miss>,
    planes: [Vec<u8>; STREAM_PLANES],
    segments: Segments,
}

/// What is done about values that are not as expected.
#[derive(Default)]
struct Unexpected {
    searches: Searches,
    contexts: Contexts,
    codes: Vec<(u32, u8)>,
    misses: Vec<Miss>,
    /// New relations, in order.
    relations: Vec<u8>,
}

impl Unexpected {
    fn clear(&mut self) {
        self.searches.clear();
        self.contexts.clear();
        self.codes.clear();
        self.misses.clear();
        self.relations.clear();
    }

    /// Deals with the next value of column `number`; the column is not updated with it.
    fn value(&mut self, number: usize, column: &mut Column, value: u64, sources: &Sources) {
        let by_relation = column.relation(sources);
        let mut code = if column.stride() == value {
            STRIDE
        } else if by_relation == value {
            RELATION
        } else if column.before() == value {
            BEFORE
        } else if self.contexts.after(number, column.last()) == value {
            CONTEXT
        } else {
            MISS
        };
        if code < MISS {
            column.expected = code;
        } else {
            self.misses.push(Miss {
                column: number as u32,
                value,
                from_last: value.wrapping_sub(column.last()),
                from_relation: value.wrapping_sub(by_relation),
            });
        }
        self.contexts.note(number, column.last(), value);
        let hard = code >= BEFORE;
        if column.noted {
            if hard {
                if let Some(relation) = self.searches.look(number, column, value, sources) {
                    code |= RELATED;
                    self.relations.extend([relation.source, relation.factor as u8]);
                    column.relate(relation);
                }
            }
            self.searches.forget(number);
        }
        column.noted = hard && self.searches.note(number, sources);
        self.codes.push((number as u32, code));
    }
}

impl Encoder {
    /// Appends the encoded form of `events` to `out`.
    pub fn encode(&mut self, events: &Events, alphabet: &impl Alphabet, pack: &impl Pack, out: &mut Vec<u8>) {
        self.clear(events);
        let explicit = self.predict(events, alphabet);
        put(out, events.len() as u64);
        write(out, &self.numbering.definitions, pack);
        let mut counts = Vec::new();
        self.kinds.iter().for_each(|k| put(&mut counts, k.count.into()));
        write(out, &counts, pack);
        write(out, &explicit, pack);
        self.sort_ops();
        let counts = self.kinds.iter().map(|k| k.count as usize);
        self.segments.write(out, counts, &self.sorted, pack);
        let sizes = self.sort_masks();
        self.segments.write(out, sizes.into_iter(), &self.sorted, pack);
        self.write_columns(out, pack);
        write(out, &self.unexpected.relations, pack);
    }

    fn clear(&mut self, events: &Events) {
        self.numbering.clear(events.dictionary.len());
        self.kinds.clear();
        self.columns.clear();
        self.unexpected.clear();
        self.order.clear();
        self.ops.clear();
        self.mask_kinds.clear();
        self.masks.clear();
    }

    /// The first pass. Returns the explicit kinds, which stay in order.
    fn predict(&mut self, events: &Events, alphabet: &impl Alphabet) -> Vec<u8> {
        let explicit = Vec::new();
        let mut sources: Sources = [0; SOURCES + 1];
        let Encoder {
            numbering,
            kinds,
            columns,
            unexpected,
            order,
            ops,
            mask_kinds,
            masks,
            ..
        } = self;
        order.reserve(events.len());
        ops.reserve(events.len());
        let mut values = events.values.as_slice();
        let mut next = Next { fresh: 0, explicit };
        // The event before: its kind, and its op as far as it is known.
        let (mut before, mut op) = (None, 0);
        for &kind in &events.kinds {
            let mut k = numbering.number[kind as usize];
            if k == NONE {
                numbering.define(events, alphabet, kind, kinds, columns);
                unexpected.searches.of.resize(columns.len(), Search::default());
                k = numbering.number[kind as usize];
            }
            match before {
                Some(before) => {
                    let recent: &mut [u32; RECENT] = &mut kinds[before as usize].recent;
                    let symbol = if recent[0] == k { 0 } else { next.symbol(recent, k) };
                    ops.push(op | symbol);
                }
                None => put(&mut next.explicit, k.into()),
            }
            next.fresh = next.fresh.max(k + 1);
            before = Some(k);
            order.push(k);
            let this = &mut kinds[k as usize];
            this.count += 1;
            let first = this.column;
            let (parameters, rest) = values.split_at(this.arity);
            values = rest;
            let mask_at = masks.len();
            for ((j, column), &value) in columns[first..].iter_mut().enumerate().zip(parameters) {
                let number = first + j;
                if column.expect(&sources, &unexpected.contexts, number) != value {
                    if masks.len() == mask_at {
                        masks.resize(mask_at + parameters.len().div_ceil(8), 0);
                    }
                    masks[mask_at + j / 8] |= 1 << (j % 8);
                    unexpected.value(number, column, value, &sources);
                } else if column.noted {
                    column.noted = false;
                    unexpected.searches.forget(number);
                }
                column.update(value, &mut sources);
            }
            op = 0;
            if masks.len() > mask_at {
                mask_kinds.push(k);
                op = FAILED;
            }
        }
        if before.is_some() {
            ops.push(op);
        }
        next.explicit
    }

    fn sort_ops(&mut self) {
        let mut at = starts(self.kinds.iter().map(|k| k.count as usize));
        self.sorted.clear();
        self.sorted.resize(self.ops.len(), 0);
        for (&k, &op) in self.order.iter().zip(&self.ops) {
            let place = &mut at[k as usize];
            self.sorted[*place] = op;
            *place += 1;
        }
    }

    /// Returns the bytes of each kind's masks.
    fn sort_masks(&mut self) -> Vec<usize> {
        let bytes = |k: u32| self.kinds[k as usize].arity.div_ceil(8);
        let mut sizes = vec![0; self.kinds.len()];
        self.mask_kinds.iter().for_each(|&k| sizes[k as usize] += bytes(k));
        let mut at = starts(sizes.iter().copied());
        self.sorted.clear();
        self.sorted.resize(self.masks.len(), 0);
        let mut from = 0;
        for &k in &self.mask_kinds {
            let size = bytes(k);
            let place = &mut at[k as usize];
            self.sorted[*place..*place + size].copy_from_slice(&self.masks[from..from + size]);
            *place += size;
            from += size;
        }
        sizes
    }
}

impl Numbering {
    fn clear(&mut self, kinds: usize) {
        self.number.clear();
        self.number.resize(kinds, NONE);
        self.definitions.clear();
        self.last_key = 0;
    }

    fn define(
        &mut self,
        events: &Events,
        alphabet: &impl Alphabet,
        kind: u32,
        kinds: &mut Vec<Kind>,
        columns: &mut Vec<Column>,
    ) {
        let arity = events.dictionary.arity(kind);
        let first = |columns: &Vec<Column>| columns.len();
        let column;
        match events.dictionary.definition(kind) {
            Definition::Leaf(key) => {
                let apart = zigzag(u64::from(*key).wrapping_sub(self.last_key.into()));
                self.last_key = *key;
                put(&mut self.definitions, apart << 1);
                column = first(columns);
                let sources = alphabet.leaf(*key).map_or(&[][..], |l| l.sources);
                columns.extend((0..arity).map(|j| Column::new(sources.get(j).copied())));
            }
            Definition::Loop(body) => {
                for &inner in body {
                    if self.number[inner as usize] == NONE {
                        self.define(events, alphabet, inner, kinds, columns);
                    }
                }
                put(&mut self.definitions, (body.len() as u64) << 1 | 1);
                for &inner in body {
                    put(&mut self.definitions, self.number[inner as usize].into());
                }
                column = first(columns);
                columns.extend((0..arity).map(|_| Column::new(None)));
            }
        }
        self.number[kind as usize] = kinds.len() as u32;
        kinds.push(Kind {
            arity,
            column,
            recent: [NONE; RECENT],
            count: 0,
        });
    }
}

/// Places where each group begins, given the size of each.
fn starts(sizes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut at = 0;
    sizes
        .map(|size| {
            at += size;
            at - size
        })
        .collect()
}

impl Encoder {
    /// Codes and misses, column by column.
    fn write_columns(&mut self, out: &mut Vec<u8>, pack: &impl Pack) {
        let (columns, codes, misses) = (self.columns.len(), &self.unexpected.codes, &self.unexpected.misses);
        let mut code_counts = vec![0; columns];
        codes.iter().for_each(|c| code_counts[c.0 as usize] += 1);
        let mut at = starts(code_counts.iter().copied());
        let sorted_codes = &mut self.sorted;
        sorted_codes.clear();
        sorted_codes.resize(codes.len(), 0);
        for &(column, code) in codes {
            let place = &mut at[column as usize];
            sorted_codes[*place] = code;
            *place += 1;
        }
        let mut miss_counts = vec![0; columns];
        misses.iter().for_each(|m| miss_counts[m.column as usize] += 1);
        let mut at = starts(miss_counts.iter().copied());
        // Sorted once, and then read in order several times.
        let sorted = &mut self.sorted_misses;
        sorted.clear();
        sorted.resize(misses.len(), Miss::default());
        for miss in misses {
            let place = &mut at[miss.column as usize];
            sorted[*place] = *miss;
            *place += 1;
        }
        let mut heads = Vec::new();
        let planes = &mut self.planes;
        planes.iter_mut().for_each(Vec::clear);
        let (mut code_at, mut miss_at) = (0, 0);
        for column in 0..columns {
            put(&mut heads, code_counts[column] as u64);
            if code_counts[column] == 0 {
                continue;
            }
            let own = &sorted[miss_at..miss_at + miss_counts[column]];
            miss_at += own.len();
            let (base, least) = choose_base(own, &mut heads);
            let residual = |miss: &Miss| match base {
                BASE_RELATION => zigzag(miss.from_relation),
                BASE_LAST => zigzag(miss.from_last),
                _ => miss.value.wrapping_sub(least),
            };
            let least_length = usual_length(own.iter().map(residual));
            let mut own = own.iter();
            for code in &mut sorted_codes[code_at..code_at + code_counts[column]] {
                if *code & !RELATED != MISS {
                    continue;
                }
                let Some(miss) = own.next() else { break };
                let residual = residual(miss);
                let length = least_length.max(bits(residual).div_ceil(8) as usize);
                *code += length as u8;
                for (plane, byte) in planes.iter_mut().zip(&residual.to_le_bytes()[..length]) {
                    plane.push(*byte);
                }
            }
            code_at += code_counts[column];
        }
        write(out, &heads, pack);
        self.segments
            .write(out, code_counts.iter().copied(), sorted_codes, pack);
        planes.iter().for_each(|plane| write(out, plane, pack));
    }
}

/// The length that most of a column's residuals have or come close to: writing some zeros costs less than telling lengths
/// apart.
fn usual_length(residuals: impl Iterator<Item = u64>) -> usize {
    let mut lengths = [0usize; 9];
    residuals.for_each(|r| lengths[bits(r).div_ceil(8) as usize] += 1);
    let all: usize = lengths.iter().sum();
    (0..9).rev().find(|&l| lengths[l] * 4 > all * 3).unwrap_or(0)
}

/// The base from which a column's missed values are shortest to write.
fn choose_base(own: &[Miss], heads: &mut Vec<u8>) -> (u8, u64) {
    let least = own.iter().map(|m| m.value).min().unwrap_or(0);
    let (mut relation, mut last, mut offset) = (0, 0, 64);
    for miss in own {
        relation += bits(zigzag(miss.from_relation));
        last += bits(zigzag(miss.from_last));
        offset += bits(miss.value.wrapping_sub(least));
    }
    let base = if relation <= last.min(offset) {
        BASE_RELATION
    } else if last <= offset {
        BASE_LAST
    } else {
        BASE_LEAST
    };
    heads.push(base);
    if base == BASE_LEAST {
        put(heads, least);
    }
    (base, least)
}
