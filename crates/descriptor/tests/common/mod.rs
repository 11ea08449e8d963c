//! Loop nests to make events from, and the way there and back.
#![allow(dead_code)] // not every test needs everything

use memtrail_descriptor::{decode, fold, stitch, Alphabet, Encoder, Events, Folder, Leaf, Pack};

/// A leaf and its parameters.
pub type Event = (u32, Vec<u64>);

/// `constant + Σ coefficient·counter`, over the counters of the loops around, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    pub constant: i64,
    pub coefficients: Vec<i64>,
}

impl Affine {
    pub fn at(&self, counters: &[i64]) -> i64 {
        let terms = self.coefficients.iter().zip(counters);
        terms.fold(self.constant, |sum, (k, i)| sum.wrapping_add(k.wrapping_mul(*i)))
    }
}

pub fn affine(constant: i64, coefficients: &[i64]) -> Affine {
    Affine {
        constant,
        coefficients: coefficients.to_vec(),
    }
}

/// A piece of a program.
#[derive(Clone, Debug)]
pub enum Node {
    Leaf(u32, Vec<Affine>),
    /// Runs as often as its bound says; not at all if that is negative.
    Loop(Affine, Vec<Node>),
}

pub fn leaf(key: u32, parameters: &[Affine]) -> Node {
    Node::Leaf(key, parameters.to_vec())
}
pub fn repeat(trips: Affine, body: &[Node]) -> Node {
    Node::Loop(trips, body.to_vec())
}

/// The events of a program, at most `most`.
pub fn run(program: &[Node], most: usize) -> Vec<Event> {
    let mut out = Vec::new();
    step(program, &mut Vec::new(), most, &mut out);
    out
}

fn step(nodes: &[Node], counters: &mut Vec<i64>, most: usize, out: &mut Vec<Event>) {
    for node in nodes {
        match node {
            _ if out.len() >= most => return,
            Node::Leaf(key, parameters) => {
                let values = parameters.iter().map(|p| p.at(counters) as u64);
                out.push((*key, values.collect()));
            }
            Node::Loop(trips, body) => {
                for i in 0..trips.at(counters) {
                    counters.push(i);
                    step(body, counters, most, out);
                    counters.pop();
                    if out.len() >= most {
                        return;
                    }
                }
            }
        }
    }
}

pub fn events_of(list: &[Event]) -> Events {
    let mut events = Events::default();
    list.iter().for_each(|(key, values)| events.push_leaf(*key, values));
    events
}

pub fn folded(list: &[Event]) -> Events {
    let mut events = events_of(list);
    fold(&mut events, &mut Folder::default());
    events
}

/// Folds the parts between the cuts by themselves and stitches them in order.
pub fn stitched(list: &[Event], cuts: &[usize]) -> Events {
    let mut folder = Folder::default();
    let mut all = Events::default();
    let ends = cuts.iter().copied().chain([list.len()]);
    let mut from = 0;
    for to in ends {
        let mut piece = events_of(&list[from..to]);
        fold(&mut piece, &mut folder);
        stitch(&mut all, piece, &mut folder);
        from = to;
    }
    all
}

/// The leaves that events stand for, but no more than `most`.
pub fn expanded(events: &Events, most: usize) -> Vec<Event> {
    let mut out = Vec::new();
    for i in 0..events.len() {
        let mut visit = |key, values: &[u64]| {
            out.push((key, values.to_vec()));
            out.len() < most
        };
        if !events
            .dictionary
            .expand(events.kind(i), events.parameters(i), &mut visit)
        {
            break;
        }
    }
    out
}

/// Leaves by key: how many parameters, and their sources.
#[derive(Clone, Debug, Default)]
pub struct Keys(pub Vec<Option<(usize, Vec<u8>)>>);

impl Keys {
    /// The leaves of a list; parameter `j` is from source `j`.
    pub fn of(list: &[Event]) -> Keys {
        let mut keys = Keys::default();
        for (key, values) in list {
            let key = *key as usize;
            if keys.0.len() <= key {
                keys.0.resize(key + 1, None);
            }
            let sources = (0..values.len()).map(|j| j.min(200) as u8);
            keys.0[key] = Some((values.len(), sources.collect()));
        }
        keys
    }
}

impl Alphabet for Keys {
    fn leaf(&self, key: u32) -> Option<Leaf<'_>> {
        let (arity, sources) = self.0.get(key as usize)?.as_ref()?;
        Some(Leaf { arity: *arity, sources })
    }
}

/// Pairs of a count and a byte.
pub struct Runs;

impl Pack for Runs {
    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out: Vec<u8> = Vec::new();
        for &byte in bytes {
            match out.as_mut_slice() {
                [.., count, last] if *last == byte && *count < u8::MAX => *count += 1,
                _ => out.extend([1, byte]),
            }
        }
        out
    }

    fn unpack(&self, packed: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for pair in packed.chunks(2) {
            let &[count, byte] = pair else { return None };
            out.resize(out.len() + usize::from(count), byte);
        }
        (out.len() == length).then_some(out)
    }
}

pub fn encoded(events: &Events, keys: &Keys) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::default().encode(events, keys, &Runs, &mut out);
    out
}

/// Encodes, decodes and expands; returns the size of the encoded form.
pub fn assert_comes_back(events: &Events, list: &[Event]) -> usize {
    let keys = Keys::of(list);
    let bytes = encoded(events, &keys);
    let back = decode(&bytes, &keys, &Runs, events.size()).expect("what was encoded is decoded");
    assert_eq!((back.len(), back.values()), (events.len(), events.values()));
    let leaves = expanded(&back, list.len() + 1);
    assert_eq!(leaves.len(), list.len());
    if let Some(i) = (0..list.len()).find(|&i| leaves[i] != list[i]) {
        panic!("event {i}: {:?} instead of {:?}", leaves[i], list[i]);
    }
    bytes.len()
}

/// A generator of numbers that follow no rule: xorshift.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
