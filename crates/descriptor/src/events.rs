//! A sequence of events in memory: kinds and their parameters, flat.
use crate::dictionary::{Definition, Dictionary};
use alloc::vec::Vec;

/// Events of a [`Batch`], at most.
pub const BATCH_EVENTS: usize = 128;

/// Some events that are not in a sequence yet: whoever makes many writes them here first.
#[derive(Clone, Debug)]
pub struct Batch {
    pub events: usize,
    pub kinds: [u32; BATCH_EVENTS],
    /// Where the parameters of each end.
    pub ends: [u32; BATCH_EVENTS],
    pub values: [u64; 8 * BATCH_EVENTS],
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            events: 0,
            kinds: [0; BATCH_EVENTS],
            ends: [0; BATCH_EVENTS],
            values: [0; 8 * BATCH_EVENTS],
        }
    }
}

/// Events of the kinds in a dictionary. Event `i` has the parameters
/// `values[starts[i]..starts[i + 1]]`, as many as its kind's arity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    pub dictionary: Dictionary,
    pub(crate) kinds: Vec<u32>,
    pub(crate) starts: Vec<u32>,
    pub(crate) values: Vec<u64>,
}

impl Default for Events {
    fn default() -> Events {
        Events::new(Dictionary::default())
    }
}

impl Events {
    pub fn new(dictionary: Dictionary) -> Events {
        Events {
            dictionary,
            kinds: Vec::new(),
            starts: [0].into(),
            values: Vec::new(),
        }
    }

    /// Removes all events, but keeps dictionary and memory.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    pub fn len(&self) -> usize {
        self.kinds.len()
    }
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
    /// Parameters of all events together.
    pub fn values(&self) -> usize {
        self.values.len()
    }
    /// Events, their parameters, and what defines their kinds: what decoding needs room for.
    pub fn size(&self) -> usize {
        self.len() + self.values() + self.dictionary.size()
    }
    /// Whether most of the memory is not needed for keeping the events: it was for making them.
    pub fn is_sparse(&self) -> bool {
        let vectors = 4 * (self.kinds.capacity() + self.starts.capacity()) + 8 * self.values.capacity();
        vectors + self.dictionary.spare_bytes() > 32 * self.size() + (32 << 10)
    }
    /// A copy that takes no more memory than it must. It is for [`stitch`](crate::stitch) and
    /// [`Encoder`](crate::Encoder): leaves cannot be added to it.
    pub fn compacted(&self) -> Events {
        Events {
            dictionary: self.dictionary.compacted(),
            kinds: self.kinds.clone(),
            starts: self.starts.clone(),
            values: self.values.clone(),
        }
    }
    pub fn kind(&self, i: usize) -> u32 {
        self.kinds[i]
    }
    #[inline]
    pub fn parameters(&self, i: usize) -> &[u64] {
        &self.values[self.starts[i] as usize..self.starts[i + 1] as usize]
    }

    /// Parameters of the events before event `i`.
    pub fn parameters_before(&self, i: usize) -> usize {
        self.starts[i] as usize
    }

    /// Adds a leaf by its key.
    #[inline]
    pub fn push_leaf(&mut self, key: u32, parameters: &[u64]) {
        let kind = self.dictionary.leaf(key, parameters.len());
        self.push(kind, parameters);
    }

    /// Adds an event of a kind in the dictionary.
    #[inline]
    pub fn push(&mut self, kind: u32, parameters: &[u64]) {
        debug_assert_eq!(self.dictionary.arity(kind), parameters.len());
        self.kinds.push(kind);
        self.values.extend_from_slice(parameters);
        self.starts.push(self.values.len() as u32);
    }

    /// Adds the events of a batch.
    pub fn append(&mut self, batch: &Batch) {
        let base = self.values.len() as u32;
        let ends = &batch.ends[..batch.events];
        let end = ends.last().copied().unwrap_or(0);
        self.kinds.extend_from_slice(&batch.kinds[..batch.events]);
        self.starts.extend(ends.iter().map(|e| base + e));
        self.values.extend_from_slice(&batch.values[..end as usize]);
    }

    /// Makes room for so many more words of events and parameters.
    pub fn reserve(&mut self, words: usize) {
        self.values.reserve(words);
        self.kinds.reserve(words / 2);
        self.starts.reserve(words / 2);
    }

    /// Adds events `range` of `other`, which has the same dictionary numbers.
    pub(crate) fn extend(&mut self, other: &Events, range: core::ops::Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (from, to) = (other.starts[range.start], other.starts[range.end]);
        let base = self.values.len() as u32;
        self.kinds.extend_from_slice(&other.kinds[range.clone()]);
        self.values.extend_from_slice(&other.values[from as usize..to as usize]);
        let ends = &other.starts[range.start + 1..=range.end];
        self.starts.extend(ends.iter().map(|s| s - from + base));
    }

    /// Removes all events from `at` on.
    pub(crate) fn truncate(&mut self, at: usize) {
        self.kinds.truncate(at);
        self.starts.truncate(at + 1);
        self.values.truncate(self.starts[at] as usize);
    }

    /// The same events over another dictionary, which is extended by what they need.
    pub(crate) fn moved_to(mut self, dictionary: Dictionary) -> Events {
        let mut into = dictionary;
        let mut number: Vec<u32> = Vec::with_capacity(self.dictionary.len());
        for kind in 0..self.dictionary.len() as u32 {
            number.push(match self.dictionary.definition(kind) {
                Definition::Leaf(key) => into.leaf(*key, self.dictionary.arity(kind)),
                Definition::Loop(body) => {
                    let body: Vec<u32> = body.iter().map(|&k| number[k as usize]).collect();
                    into.repetition(&body)
                }
            });
        }
        self.kinds.iter_mut().for_each(|k| *k = number[*k as usize]);
        self.dictionary = into;
        self
    }
}
