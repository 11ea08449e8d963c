//! Ring records as the leaves of descriptors, and back.
//!
//! A leaf's key is `32 * id + exit`: the head of the record, and 0, or `1 + s` if the record is
//! followed by a LEFT through the block's side exit `s`. So a block and how it was left are one
//! event, even if they were parsed one after the other. A LEFT at the beginning of a piece, away from its record, is the special record
//! [`LONE_LEFT`] with the branch as its only parameter.
//!
//! **Invariant.** [`parse`] and [`Words`] are each other's inverse on whole records.
use memtrail_collect::{Block, DecodeError};
use memtrail_descriptor::{Alphabet, Batch, Events, Leaf, Visit, BATCH_EVENTS};
use memtrail_ring::record::{self, left, special_words, CUT, END, FIRST_BLOCK, LEFT, SIGNAL, SIGRETURN, STATE};
use memtrail_translate::plan::{LoopPlan, FIRST};
use std::sync::Arc;

/// Leaves per head: how many ways out of a block can be told apart.
const EXITS: u32 = 32;
/// Heads one special record that rings do not have: a LEFT whose record is in the piece before.
const LONE_LEFT: u64 = 6;
const _: () = assert!(special_words(LONE_LEFT).is_none() && LONE_LEFT < FIRST_BLOCK);
/// Ids above this have no leaves: a recording would be larger than any disk.
const LAST: u32 = 1 << 26;

/// What a head word leads.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// Words of the record; 0 if there is no such head.
    words: u16,
    /// Instruction numbers of the side exits.
    sides: Box<[u16]>,
    /// The register each value was captured from.
    sources: Box<[u8]>,
}

const PAGE: usize = 256;
/// Values that are copied at once.
const LONG: usize = 8;

/// The words around a record's values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub head: u64,
    /// The LEFT behind them, or 0.
    pub left: u64,
}

/// All leaves of a recording so far. A clone is cheap, and does not see what is added later.
#[derive(Clone, Debug, Default)]
pub struct Leaves {
    pages: Vec<Arc<Vec<Entry>>>,
}

impl Leaves {
    /// Adds the leaves of a block.
    pub fn add(&mut self, block: &Block) {
        let sides: Box<[u16]> = block.plan.sides.iter().map(|s| s.insn).collect();
        let entry = |words: u16, sources: Box<[u8]>| Entry {
            words,
            sides: sides.clone(),
            sources,
        };
        self.insert(block.id, entry(block.plan.words, block.sources.clone()));
        if let Some(LoopPlan::Partly { free, .. }) = &block.plan.looping {
            let source = |slot: &u16| {
                let word = slot.checked_sub(FIRST).map(usize::from);
                let source = word.and_then(|w| block.sources.get(w));
                source.copied().unwrap_or(memtrail_collect::NO_REGISTER)
            };
            let sources = free.iter().map(source).collect();
            self.insert(block.id + 1, entry(1 + free.len() as u16, sources));
        }
    }

    fn insert(&mut self, id: u32, entry: Entry) {
        let (page, place) = (id as usize / PAGE, id as usize % PAGE);
        if id > LAST {
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

    /// What stands around a leaf's parameters; `None` if they do not stand there as they are.
    pub(crate) fn frame(&self, key: u32) -> Option<Frame> {
        let (head, exit) = (u64::from(key / EXITS), key % EXITS);
        let left = match exit.checked_sub(1) {
            None => 0,
            Some(side) => LEFT | u64::from(*self.entry(head)?.sides.get(side as usize)?),
        };
        (head != LONE_LEFT).then_some(Frame { head, left })
    }

    /// The leaf of a record that turns out to be followed by a LEFT through this branch.
    fn exit(&self, key: u32, branch: u32) -> Option<u32> {
        let head = u64::from(key / EXITS);
        let entry = self.entry(head).filter(|_| key % EXITS == 0 && head >= FIRST_BLOCK)?;
        let side = entry.sides.iter().position(|&s| u32::from(s) == branch)?;
        (side + 1 < EXITS as usize).then_some(key + 1 + side as u32)
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
    fn parse_one(&self, words: &[u64], mut at: usize, events: &mut Events) -> Result<usize, DecodeError> {
        let Some(&head) = words.get(at) else {
            let have = 0;
            return Err(DecodeError::ShortRecord { at, need: 1, have });
        };
        if (FIRST_BLOCK..LEFT).contains(&head) {
            let entry = self.entry(head).ok_or(DecodeError::UnknownBlock { id: head })?;
            let next = at + entry.words as usize;
            let short = || DecodeError::ShortRecord {
                at,
                need: entry.words.into(),
                have: words.len() - at,
            };
            let values = words.get(at + 1..next).ok_or_else(short)?;
            let mut key = head as u32 * EXITS;
            at = next;
            if let Some(branch) = words.get(at).copied().and_then(left) {
                let side = entry.sides.iter().position(|&s| u32::from(s) == branch);
                let side = side.filter(|&s| s + 1 < EXITS as usize);
                key += 1 + side.ok_or(DecodeError::BadHead { head: words[at], at })? as u32;
                at += 1;
            }
            events.push_leaf(key, values);
        } else if let Some(branch) = left(head) {
            // Its record is the last of the words before, if these were parsed here, too.
            match events.last_leaf().and_then(|key| self.exit(key, branch)) {
                Some(key) => events.change_last(key),
                None => events.push_leaf(LONE_LEFT as u32 * EXITS, &[branch.into()]),
            }
            at += 1;
        } else {
            let length = special_words(head).filter(|_| head != END);
            let length = length.ok_or(DecodeError::BadHead { head, at })?;
            let have = words.len() - at;
            let values = words
                .get(at + 1..at + length)
                .ok_or(DecodeError::ShortRecord { at, need: length, have })?;
            events.push_leaf(head as u32 * EXITS, values);
            at += length;
        }
        Ok(at)
    }

    /// As [`Leaves::parse`] of records whose leaves are known by their numbers, all or none of them.
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
    /// All of the record, with the LEFT behind it; 0 if it has to be looked at.
    words: u16,
}

/// All leaves by the numbers that counting gives them.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Vec<Number>);

impl Numbers {
    pub fn add(&mut self, block: &Block) {
        let sides = block.plan.sides.len() as u32;
        let mut lengths = vec![block.plan.words];
        if let Some(LoopPlan::Partly { free, .. }) = &block.plan.looping {
            lengths.push(1 + free.len() as u16);
        }
        let mut leaf = block.first_leaf as usize;
        for (id, words) in (block.id..).zip(lengths) {
            self.0
                .resize((leaf + 1 + sides as usize).max(self.0.len()), Number::default());
            for exit in 0..=sides {
                let fits = exit < EXITS && id <= LAST && words > 0;
                self.0[leaf] = Number {
                    key: id.wrapping_mul(EXITS).wrapping_add(exit),
                    values: words.saturating_sub(1),
                    words: if fits { words + u16::from(exit > 0) } else { 0 },
                };
                leaf += 1;
            }
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

/// Fills a batch with as many records as there is room for, up to one that is not known or too long; how many that was, and where the next one
/// is. How full it is stays in registers until then.
#[inline(always)]
fn fill(batch: &mut Batch, leaves: &[u32], words: &[u64], mut at: usize, known: &[Known]) -> (usize, usize) {
    let (mut events, mut end) = (0, 0);
    for &leaf in &leaves[..leaves.len().min(BATCH_EVENTS)] {
        let known = known.get(leaf as usize).copied().unwrap_or(UNKNOWN);
        let from = words.get(at + 1..).and_then(|w| w.first_chunk::<LONG>());
        let to = batch.values.get_mut(end..).and_then(|v| v.first_chunk_mut::<LONG>());
        let (Some(from), Some(to)) = (from, to) else { break };
        if known.words == 0 || usize::from(known.values) > LONG {
            break;
        }
        *to = *from;
        end += known.values as usize;
        at += known.words as usize;
        batch.kinds[events] = known.kind;
        batch.ends[events] = end as u32;
        events += 1;
    }
    batch.events = events;
    (events, at)
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
        let (head, exit) = (u64::from(key / EXITS), key % EXITS);
        if head < FIRST_BLOCK {
            let words = match head {
                LONE_LEFT => 2,
                END => return None,
                _ => special_words(head)?,
            };
            return (exit == 0).then_some(Leaf {
                arity: words - 1,
                sources: &[],
            });
        }
        let entry = self.entry(head)?;
        (exit as usize <= entry.sides.len()).then_some(Leaf {
            arity: entry.words as usize - 1,
            sources: &entry.sources,
        })
    }
}

/// What a leaf's key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafName {
    /// A block's record by its head, and the number of the side exit through which the block was left.
    Block { head: u32, exit: Option<usize> },
    /// Another record.
    Special(&'static str),
}

impl LeafName {
    pub fn of(key: u32) -> LeafName {
        let (head, exit) = (key / EXITS, key % EXITS);
        match u64::from(head) {
            CUT => LeafName::Special("cut"),
            STATE => LeafName::Special("state"),
            SIGNAL => LeafName::Special("signal"),
            SIGRETURN => LeafName::Special("signal return"),
            LONE_LEFT => LeafName::Special("left"),
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
            _ => LeafName::Block {
                head,
                exit: (exit as usize).checked_sub(1),
            },
        }
    }
}

/// Whether a leaf says how the record before it ended.
pub(crate) fn cuts(key: u32) -> bool {
    matches!(u64::from(key / EXITS), CUT | LONE_LEFT)
}

/// Leaves back to record words. Stops when there are as many as wanted.
pub struct Words<'a> {
    pub leaves: &'a Leaves,
    pub words: Vec<u64>,
}

impl Words<'_> {
    /// Adds the words of a leaf; leaves that are not in the alphabet have none.
    #[inline]
    pub fn push(&mut self, key: u32, parameters: &[u64]) {
        let (head, exit) = (u64::from(key / EXITS), key % EXITS);
        if head == LONE_LEFT {
            self.words.extend(parameters.iter().map(|branch| LEFT | branch));
            return;
        }
        self.words.push(head);
        self.words.extend_from_slice(parameters);
        if exit > 0 {
            let sides = self.leaves.entry(head).map_or(&[][..], |e| &e.sides);
            self.words
                .extend(sides.get(exit as usize - 1).map(|&s| LEFT | u64::from(s)));
        }
    }
}

impl Visit for Words<'_> {
    fn leaf(&mut self, key: u32, parameters: &[u64]) -> bool {
        self.push(key, parameters);
        true
    }
}

#[cfg(test)]
#[path = "leaves_tests.rs"]
mod tests;
