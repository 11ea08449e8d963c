//! Ring records as the leaves of descriptors, and back.
//!
//! A leaf's key is the head of the record. A block has one for each way in which it can be left, so
//! that a block and how it was left are one event.
//!
//! **Invariant.** [`parse`] and [`Words`] are each other's inverse on whole records.
use memtrail_decode::{Block, DecodeError};
use memtrail_descriptor::{Alphabet, Batch, Events, Leaf, Visit, BATCH_EVENTS};
use memtrail_plan::{LoopPlan, FIRST};
use memtrail_ring::record::{self, special_words, CUT, END, FIRST_BLOCK, LAST_BLOCK, SIGNAL, SIGRETURN, STATE};
use std::sync::Arc;

/// What a head word leads.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// Words of the record; 0 if there is no such head.
    words: u16,
    /// The register each value was captured from. There may be more.
    sources: Arc<[u8]>,
}

const PAGE: usize = 256;
/// Values that are copied at once.
const LONG: usize = 8;

/// All leaves of a recording so far. A clone is cheap, and does not see what is added later.
#[derive(Clone, Debug, Default)]
pub struct Leaves {
    pages: Vec<Arc<Vec<Entry>>>,
}

impl Leaves {
    /// Adds the leaves of a block.
    pub fn add(&mut self, block: &Block) {
        let all: Arc<[u8]> = block.sources.iter().copied().collect();
        let mut steady: Arc<[u8]> = Arc::default();
        if let Some(LoopPlan::Partly { free, .. }) = &block.plan.looping {
            let source = |slot: &u16| {
                let word = slot.checked_sub(FIRST).map(usize::from);
                let source = word.and_then(|w| block.sources.get(w));
                source.copied().unwrap_or(memtrail_decode::NO_REGISTER)
            };
            steady = free.iter().map(source).collect();
        }
        for n in 0..block.plan.ids() {
            let record = block.plan.record(n);
            let sources = if record.steady { &steady } else { &all };
            let entry = Entry {
                words: record.words,
                sources: sources.clone(),
            };
            self.insert(block.id + n, entry);
        }
    }

    fn insert(&mut self, id: u32, entry: Entry) {
        let (page, place) = (id as usize / PAGE, id as usize % PAGE);
        if u64::from(id) > LAST_BLOCK {
            return;
        }
        if self.pages.len() <= page {
            let empty = Arc::new(vec![Entry::default(); PAGE]);
            self.pages.resize(page + 1, empty);
        }
        Arc::make_mut(&mut self.pages[page])[place] = entry;
    }

    #[inline]
    fn entry(&self, id: u64) -> Option<&Entry> {
        let id = usize::try_from(id).ok()?;
        let entry = self.pages.get(id / PAGE)?.get(id % PAGE)?;
        (entry.words != 0).then_some(entry)
    }

    /// The events that a run of whole records stands for, added to `events`.
    pub fn parse(&self, words: &[u64], events: &mut Events) -> Result<(), DecodeError> {
        events.reserve(words.len());
        let mut at = 0;
        while at < words.len() {
            at = self.parse_one(words, at, events)?;
        }
        Ok(())
    }

    /// Adds the event at `at`. Returns where the next one is.
    fn parse_one(&self, words: &[u64], at: usize, events: &mut Events) -> Result<usize, DecodeError> {
        let Some(&head) = words.get(at) else {
            let have = 0;
            return Err(DecodeError::ShortRecord { at, need: 1, have });
        };
        let length = match head {
            FIRST_BLOCK..=LAST_BLOCK => Some(
                self.entry(head)
                    .ok_or(DecodeError::UnknownBlock { id: head })?
                    .words
                    .into(),
            ),
            END => None,
            _ => special_words(head),
        };
        let need = length.ok_or(DecodeError::BadHead { head, at })?;
        let have = words.len() - at;
        let short = DecodeError::ShortRecord { at, need, have };
        events.push_leaf(head as u32, words.get(at + 1..at + need).ok_or(short)?);
        Ok(at + need)
    }

    /// As [`Leaves::parse`] of records whose leaves are known by their numbers, all or none of
    /// them.
    pub(crate) fn parse_numbered(
        &self,
        words: &[u64],
        leaves: &[u32],
        numbers: &Numbers,
        kinds: &mut Kinds,
        events: &mut Events,
    ) -> Result<(), DecodeError> {
        if leaves.is_empty() {
            return self.parse(words, events);
        }
        events.reserve(words.len());
        kinds.0.resize(numbers.0.len().max(kinds.0.len()), UNKNOWN);
        let mut batch = Batch::default();
        let (mut at, mut leaves) = (0, leaves);
        while !leaves.is_empty() {
            let (done, next) = fill(&mut batch, leaves, words, at, &kinds.0);
            events.append(&batch);
            (leaves, at) = (&leaves[done..], next);
            // One that is not known yet, is looked at, or is long. And sometimes one that is not.
            if let Some((&leaf, rest)) = leaves.split_first() {
                leaves = rest;
                if let Some(number) = numbers.0.get(leaf as usize).filter(|n| n.words > 0) {
                    let kind = events.dictionary.leaf(number.key, number.values.into());
                    let (values, words) = (number.values, number.words);
                    kinds.0[leaf as usize] = Known { kind, values, words };
                }
                at = self.parse_one(words, at, events)?;
            }
        }
        match words.get(at) {
            None if at == words.len() => Ok(()),
            head => Err(DecodeError::BadHead {
                head: head.copied().unwrap_or(0),
                at,
            }),
        }
    }
}

/// What a leaf's number stands for.
#[derive(Clone, Copy, Debug, Default)]
struct Number {
    key: u32,
    values: u16,
    /// All of the record; 0 if it has to be looked at.
    words: u16,
}

/// All leaves by the numbers that counting gives them.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Vec<Number>);

impl Numbers {
    pub fn add(&mut self, block: &Block) {
        let first = block.first_leaf as usize;
        let ids = block.plan.ids();
        self.0
            .resize((first + ids as usize).max(self.0.len()), Number::default());
        for n in 0..ids {
            let words = block.plan.record(n).words;
            self.0[first + n as usize] = Number {
                key: block.id + n,
                values: words.saturating_sub(1),
                words,
            };
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Known {
    kind: u32,
    values: u16,
    words: u16,
}

const UNKNOWN: Known = Known {
    kind: 0,
    values: 0,
    words: 0,
};

/// Fills a batch with as many records as there is room for, up to one that is not known; how many
/// that was, and where the next one is. How full it is stays in registers until then.
#[inline(always)]
fn fill(batch: &mut Batch, leaves: &[u32], words: &[u64], mut at: usize, known: &[Known]) -> (usize, usize) {
    let (mut events, mut end) = (0, 0);
    for &leaf in &leaves[..leaves.len().min(BATCH_EVENTS)] {
        let known = known.get(leaf as usize).copied().unwrap_or(UNKNOWN);
        let from = words.get(at + 1..).and_then(|w| w.first_chunk::<LONG>());
        let to = batch.values.get_mut(end..).and_then(|v| v.first_chunk_mut::<LONG>());
        let (Some(from), Some(to)) = (from, to) else { break };
        if known.words == 0 {
            break;
        }
        let values = usize::from(known.values);
        if values <= LONG {
            *to = *from;
        } else if !copy_long(words, at + 1, &mut batch.values, end, values) {
            break;
        }
        end += values;
        at += known.words as usize;
        batch.kinds[events] = known.kind;
        batch.ends[events] = end as u32;
        events += 1;
    }
    batch.events = events;
    (events, at)
}

/// Copies so many values, if there is room for them.
#[inline(never)]
fn copy_long(words: &[u64], at: usize, to: &mut [u64], end: usize, values: usize) -> bool {
    match (words.get(at..at + values), to.get_mut(end..end + values)) {
        (Some(from), Some(to)) => {
            to.copy_from_slice(from);
            true
        }
        _ => false,
    }
}

/// The kinds of leaves in a dictionary, by number.
#[derive(Debug, Default)]
pub(crate) struct Kinds(Vec<Known>);

impl Kinds {
    /// For another dictionary.
    pub fn clear(&mut self) {
        self.0.fill(UNKNOWN);
    }
}

impl Alphabet for Leaves {
    fn leaf(&self, key: u32) -> Option<Leaf<'_>> {
        let head = u64::from(key);
        if head < FIRST_BLOCK {
            let words = special_words(head).filter(|_| head != END)?;
            return Some(Leaf {
                arity: words - 1,
                sources: &[],
            });
        }
        let entry = self.entry(head)?;
        let arity = entry.words as usize - 1;
        Some(Leaf {
            arity,
            sources: entry.sources.get(..arity).unwrap_or(&[]),
        })
    }
}

/// What a leaf's key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafName {
    /// A block's record by its head.
    Block { head: u32 },
    /// Another record.
    Special(&'static str),
}

impl LeafName {
    pub fn of(head: u32) -> LeafName {
        match u64::from(head) {
            CUT => LeafName::Special("cut"),
            STATE => LeafName::Special("state"),
            SIGNAL => LeafName::Special("signal"),
            SIGRETURN => LeafName::Special("signal return"),
            record::ALLOC => LeafName::Special("alloc"),
            record::FREE => LeafName::Special("free"),
            record::REALLOC => LeafName::Special("realloc"),
            record::MAPPED => LeafName::Special("mapped"),
            record::UNMAPPED => LeafName::Special("unmapped"),
            record::REMAPPED => LeafName::Special("remapped"),
            record::BREAK => LeafName::Special("break"),
            record::NAME => LeafName::Special("name"),
            record::ENTER => LeafName::Special("enter"),
            record::LEAVE => LeafName::Special("leave"),
            record::FORKED => LeafName::Special("forked"),
            record::WAIT => LeafName::Special("wait"),
            record::WOKEN => LeafName::Special("woken"),
            record::WAKE => LeafName::Special("wake"),
            record::STARTED => LeafName::Special("started"),
            record::ENDED => LeafName::Special("ended"),
            record::GAP => LeafName::Special("gap"),
            _ => LeafName::Block { head },
        }
    }
}

/// Whether a leaf says how the record before it ended.
pub fn cuts(key: u32) -> bool {
    u64::from(key) == CUT
}

/// Leaves back to record words. Stops when there are as many as wanted.
#[derive(Default)]
pub struct Words {
    pub words: Vec<u64>,
}

impl Words {
    /// Adds the words of a leaf.
    #[inline]
    pub fn push(&mut self, key: u32, parameters: &[u64]) {
        self.words.push(key.into());
        self.words.extend_from_slice(parameters);
    }
}

impl Visit for Words {
    fn leaf(&mut self, key: u32, parameters: &[u64]) -> bool {
        self.push(key, parameters);
        true
    }
}

#[cfg(test)]
#[path = "leaves_tests.rs"]
mod tests;
