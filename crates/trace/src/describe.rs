//! The accesses of a chunk as regular section descriptors.
//!
//! **Problem.** A chunk's loops are loops over records. Whoever reads traces in the form of the
//! literature wants loops over accesses: an *RSD* is an access that repeats, moving by a constant
//! stride in memory and in the sequence of accesses; a *PRSD* is an RSD or PRSD that repeats in the
//! same way; an *IAD* is an access by itself.
//!
//! **Idea.** The loops of the chunk are walked through record by record. What each iteration does,
//! described, is compared with what the iteration before did: as long as everything has moved by
//! the same distances, iterations become one descriptor a level higher. So a descriptor never says
//! more than what was found, however addresses come about (narrow arithmetic, masks, strings).
//!
//! **Invariants.** Every access is in exactly one descriptor, at its sequence id; the order of
//! descriptors has no meaning. Memory is bounded: what gets too long in the making is given out as
//! it is.
use crate::known::Known;
use crate::leaves::{cuts, Words};
use crate::reader::Chunk;
use crate::stream::Stream;
use crate::Error;
use memtrail_decode::{Expander, ThreadDecoder};
use memtrail_descriptor::{Definition, Dictionary};
use memtrail_model::{Access, AccessSink, Event, Kind, Point, Reply, Thread, Wants};
use memtrail_ring::record::SIGRETURN;

/// The instruction and the kind of access that a descriptor is of: what the literature has a source
/// table for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    pub pc: u64,
    pub point: Point,
    pub kind: Kind,
    pub size: u32,
}

/// Accesses of one instruction. Sequence ids are access numbers of the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Descriptor {
    Iad {
        address: u64,
        sequence: u64,
        source: Source,
    },
    Rsd {
        address: u64,
        length: u64,
        stride: u64,
        sequence: u64,
        sequence_stride: u64,
        source: Source,
    },
    Prsd {
        address: u64,
        shift: u64,
        sequence: u64,
        sequence_shift: u64,
        length: u64,
        /// What repeats, as it is the first time.
        of: Box<Descriptor>,
    },
}

use Descriptor::{Iad, Prsd, Rsd};

impl Descriptor {
    pub fn address(&self) -> u64 {
        match self {
            Iad { address, .. } | Rsd { address, .. } | Prsd { address, .. } => *address,
        }
    }
    pub fn sequence(&self) -> u64 {
        match self {
            Iad { sequence, .. } | Rsd { sequence, .. } | Prsd { sequence, .. } => *sequence,
        }
    }
    pub fn source(&self) -> Source {
        match self {
            Iad { source, .. } | Rsd { source, .. } => *source,
            Prsd { of, .. } => of.source(),
        }
    }

    /// Whether `other` is this one, moved.
    fn moved(&self, other: &Descriptor) -> bool {
        match (self, other) {
            (Iad { source: a, .. }, Iad { source: b, .. }) => a == b,
            (
                Rsd {
                    length: l,
                    stride: s,
                    sequence_stride: q,
                    source: a,
                    ..
                },
                Rsd {
                    length,
                    stride,
                    sequence_stride,
                    source,
                    ..
                },
            ) => (l, s, q, a) == (length, stride, sequence_stride, source),
            (
                Prsd {
                    shift: s,
                    sequence_shift: q,
                    length: l,
                    of: a,
                    ..
                },
                Prsd {
                    shift,
                    sequence_shift,
                    length,
                    of,
                    ..
                },
            ) => (s, q, l) == (shift, sequence_shift, length) && a.moved(of),
            _ => false,
        }
    }

    /// How far `other` is from this one, in memory and in sequence.
    fn distance(&self, other: &Descriptor) -> (u64, u64) {
        (
            other.address().wrapping_sub(self.address()),
            other.sequence().wrapping_sub(self.sequence()),
        )
    }

    /// This one, repeated.
    fn repeated(self, times: u64, (shift, sequence_shift): (u64, u64)) -> Descriptor {
        match self {
            Iad {
                address,
                sequence,
                source,
            } => Rsd {
                address,
                length: times,
                stride: shift,
                sequence,
                sequence_stride: sequence_shift,
                source,
            },
            of => Prsd {
                address: of.address(),
                shift,
                sequence: of.sequence(),
                sequence_shift,
                length: times,
                of: Box::new(of),
            },
        }
    }
}

/// Longer lists are not compared any more.
const MOST: usize = 4096;

/// Iterations that may become one.
#[derive(Default)]
struct Group {
    /// The first and the last of them.
    first: Vec<Descriptor>,
    last: Vec<Descriptor>,
    distances: Vec<(u64, u64)>,
    trips: u64,
}

impl Group {
    /// Adds the next iteration. What cannot be continued goes to `out`.
    fn add(&mut self, next: Vec<Descriptor>, out: &mut Vec<Descriptor>) {
        if self.trips > 0 && self.continued(&next) {
            self.trips += 1;
            self.last = next;
            return;
        }
        self.close(out);
        self.trips = 1;
        self.last.clone_from(&next);
        self.first = next;
    }

    fn continued(&mut self, next: &[Descriptor]) -> bool {
        let same = self.last.len() == next.len() && self.last.iter().zip(next).all(|(a, b)| a.moved(b));
        if !same {
            return false;
        }
        let distances = self.last.iter().zip(next).map(|(a, b)| a.distance(b));
        if self.trips == 1 {
            self.distances = distances.collect();
            return true;
        }
        distances.eq(self.distances.iter().copied())
    }

    fn close(&mut self, out: &mut Vec<Descriptor>) {
        let group = std::mem::take(self);
        match group.trips {
            0 | 1 => out.extend(group.first),
            trips => {
                let whole = group.first.into_iter().zip(group.distances);
                out.extend(whole.map(|(descriptor, distance)| descriptor.repeated(trips, distance)));
            }
        }
    }
}

/// Collects descriptors of what a record does.
#[derive(Debug)]
struct Collect {
    list: Vec<Descriptor>,
    sequence: u64,
}

fn iad(a: &Access, sequence: u64) -> Descriptor {
    Iad {
        address: a.addr,
        sequence,
        source: Source {
            pc: a.pc,
            point: a.point,
            kind: a.kind,
            size: a.size,
        },
    }
}

impl AccessSink for Collect {
    fn accesses(&mut self, batch: &[Access]) {
        for access in batch {
            self.list.push(iad(access, self.sequence));
            self.sequence += 1;
        }
    }
    fn wants(&self) -> Wants {
        Wants {
            loops: Some(0),
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return Reply::NOTHING;
        };
        let each = run.body.len() as u64;
        for (j, a) in run.body.iter().enumerate() {
            self.list.push(Rsd {
                address: a.addr,
                length: run.trips,
                stride: a.stride,
                sequence: self.sequence + j as u64,
                sequence_stride: each,
                source: Source {
                    pc: a.pc,
                    point: a.point,
                    kind: a.kind,
                    size: a.size,
                },
            });
        }
        self.sequence += run.trips * each;
        Reply::skip(run.trips)
    }
}

/// Walks through a chunk.
struct Walk<'k, F> {
    known: &'k Known,
    dictionary: &'k Dictionary,
    decoder: ThreadDecoder,
    expander: Expander<'k, Collect>,
    words: Vec<u64>,
    /// Words that the chunk may still have.
    left: u64,
    /// Takes descriptors that are ready; says whether it wants more.
    out: F,
    going: bool,
    failed: Option<Error>,
    at: u64,
}

impl<F: FnMut(Descriptor) -> bool> Walk<'_, F> {
    fn give(&mut self, list: &mut Vec<Descriptor>) {
        for descriptor in list.drain(..) {
            self.going = self.going && (self.out)(descriptor);
        }
    }

    /// Whether the first leaf of a kind says how the record before it ended.
    fn cuts(&self, mut kind: u32) -> bool {
        loop {
            match self.dictionary.definition(kind) {
                Definition::Leaf(key) => return cuts(*key),
                Definition::Loop(body) => match body.first() {
                    Some(&first) => kind = first,
                    None => return false,
                },
            }
        }
    }

    /// Adds descriptors of an event to `list`; `cut` if what follows it says how it ends.
    fn event(&mut self, kind: u32, parameters: &[u64], cut: bool, list: &mut Vec<Descriptor>) {
        match self.dictionary.definition(kind) {
            Definition::Leaf(key) => self.leaf(*key, parameters, cut, list),
            Definition::Loop(body) => self.repetition(body, parameters, cut, list),
        }
    }

    fn repetition(&mut self, body: &[u32], parameters: &[u64], cut: bool, list: &mut Vec<Descriptor>) {
        let (trips, rest) = (parameters[0], &parameters[1..]);
        let (first, strides) = rest.split_at(rest.len() / 2);
        let mut now = first.to_vec();
        let again = body.first().is_some_and(|&k| self.cuts(k));
        let mut group = Group::default();
        for trip in 0..trips {
            let mut iteration = Vec::new();
            let mut rest = now.as_slice();
            for (i, &kind) in body.iter().enumerate() {
                let (own, others) = rest.split_at(self.dictionary.arity(kind));
                let cut = match body.get(i + 1) {
                    Some(&next) => self.cuts(next),
                    None if trip + 1 < trips => again,
                    None => cut,
                };
                self.event(kind, own, cut, &mut iteration);
                rest = others;
            }
            if !self.going {
                return;
            }
            group.add(iteration, list);
            if list.len() > MOST {
                self.give(list);
            }
            for (value, stride) in now.iter_mut().zip(strides) {
                *value = value.wrapping_add(*stride);
            }
        }
        group.close(list);
        if list.len() > MOST {
            self.give(list);
        }
    }

    fn leaf(&mut self, key: u32, parameters: &[u64], cut: bool, list: &mut Vec<Descriptor>) {
        let mut words = Words {
            words: std::mem::take(&mut self.words),
        };
        words.words.clear();
        words.push(key, parameters);
        match self.left.checked_sub(words.words.len() as u64) {
            Some(left) => self.left = left,
            None => {
                let what = "a stream has another length than its head says";
                self.failed = Some(Error::Damaged { at: self.at, what });
                self.going = false;
                return;
            }
        }
        if !cut {
            // Something that means nothing follows: so the record is known to be whole.
            words.words.push(SIGRETURN);
        }
        let fed = self.decoder.feed(&self.known.table, &words.words, &mut self.expander);
        self.words = words.words;
        if let Err(source) = fed {
            self.failed = Some(Error::Decode { at: self.at, source });
            self.going = false;
        }
        list.append(&mut self.expander.flush().list);
    }
}

/// Gives the descriptors of a chunk to `out` until that says no. `last` says that the chunk is its
/// thread's last. Returns whether `out` still wants more.
pub fn describe(
    known: &Known,
    chunk: &Chunk,
    stream: &Stream,
    last: bool,
    out: impl FnMut(Descriptor) -> bool,
) -> Result<bool, Error> {
    let events = &stream.events;
    let head = chunk.head.stream;
    let collect = Collect {
        list: Vec::new(),
        sequence: head.first,
    };
    let mut walk = Walk {
        known,
        dictionary: &events.dictionary,
        decoder: ThreadDecoder::resume(Thread(head.thread), &stream.state),
        expander: Expander::new(&known.xsave, collect),
        words: Vec::new(),
        left: head.words,
        out,
        going: true,
        failed: None,
        at: chunk.at,
    };
    let mut list = Vec::new();
    for i in 0..events.len() {
        if !walk.going {
            break;
        }
        // What follows the last event is in the next chunk.
        let cut = i + 1 == events.len() || walk.cuts(events.kind(i + 1));
        walk.event(events.kind(i), events.parameters(i), cut, &mut list);
        walk.give(&mut list);
    }
    if let Some(error) = walk.failed {
        return Err(error);
    }
    if last && walk.going {
        let finished = walk.decoder.finish(&known.table, &mut walk.expander);
        finished.map_err(|source| Error::Decode { at: chunk.at, source })?;
        list.append(&mut walk.expander.flush().list);
        walk.give(&mut list);
    }
    Ok(walk.going)
}
