//! Which streams become one set.
//!
//! Streams are worth a set if they consist of the same kinds of events. Whether the set is shorter is
//! not guessed from that: both ways are encoded, and the shorter one is kept.
use memtrail_descriptor::{Definition, Events};
use memtrail_merge::Set;
use memtrail_trace::{Leaves, Members};
use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// The share of events that two streams have in common, in percent, from which on a set is tried.
const ALIKE: u64 = 25;
/// No set takes more room than this when it is decoded, in words.
const MOST_WORDS: usize = 1 << 22;
/// A set is given up before it is encoded if more than one in this number of the smaller one's
/// parameters moves as no other does.
const IRREGULAR: usize = 3;

/// A set, and what is known of it.
#[derive(Clone, Debug)]
pub struct Grouped {
    /// It holds the members' chunks with this number, from 1.
    pub ordinal: u32,
    pub members: Members,
    /// Number of events by what they are.
    signature: HashMap<u64, u64>,
    /// Bytes of the payload, once they were counted.
    bytes: Option<usize>,
}

impl Grouped {
    pub fn new(ordinal: u32, members: Members) -> Grouped {
        Grouped {
            ordinal,
            signature: signature(members.set.events()),
            members,
            bytes: None,
        }
    }

    pub fn first_thread(&self) -> u32 {
        self.members.members.first().map_or(0, |m| m.head.thread)
    }

    fn bytes(&mut self, leaves: &Leaves) -> usize {
        let members = &self.members;
        *self.bytes.get_or_insert_with(|| members.encode(leaves).len())
    }

    /// Events in common, in percent of those of both.
    fn likeness(&self, other: &Grouped) -> u64 {
        if self.ordinal != other.ordinal {
            return 0;
        }
        let total = |of: &Grouped| of.signature.values().sum::<u64>();
        let both = |(kind, count): (&u64, &u64)| (*count).min(other.signature.get(kind).copied().unwrap_or(0));
        let common: u64 = self.signature.iter().map(both).sum();
        100 * common / (total(self) + total(other) - common).max(1)
    }

    /// Both as one, if that is shorter.
    fn with(&mut self, other: &mut Grouped, leaves: &Leaves) -> Option<Grouped> {
        let set = Set::merge(&self.members.set, &other.members.set);
        let smaller = self
            .members
            .set
            .events()
            .values()
            .min(other.members.set.events().values());
        let before = self.members.set.vectors() + other.members.set.vectors();
        let irregular = set.vectors().saturating_sub(before) > 64 + smaller / IRREGULAR;
        if irregular || set.size() > MOST_WORDS {
            return None;
        }
        let members = [self.members.members.clone(), other.members.members.clone()].concat();
        let mut both = Grouped::new(self.ordinal, Members { members, set });
        (both.bytes(leaves) < self.bytes(leaves) + other.bytes(leaves) + HEAD).then_some(both)
    }
}

/// What a chunk of its own costs besides its payload, about.
const HEAD: usize = 80;

/// Adds a set to the one it is most like, or as a group of its own.
pub fn add(groups: &mut Vec<Grouped>, mut set: Grouped, leaves: &Leaves) {
    let like = groups.iter().enumerate().map(|(i, g)| (g.likeness(&set), i));
    let best = like
        .filter(|l| l.0 >= ALIKE)
        .max_by_key(|&(likeness, i)| (likeness, std::cmp::Reverse(i)));
    if let Some((_, i)) = best {
        if let Some(both) = groups[i].with(&mut set, leaves) {
            groups[i] = both;
            return;
        }
    }
    groups.push(set);
}

/// Number of events by what they are: the leaves in them, whatever their numbers.
fn signature(events: &Events) -> HashMap<u64, u64> {
    let mut contents: Vec<u64> = Vec::with_capacity(events.dictionary.len());
    for kind in 0..events.dictionary.len() as u32 {
        let mut hasher = DefaultHasher::new();
        match events.dictionary.definition(kind) {
            Definition::Leaf(key) => (0, key).hash(&mut hasher),
            Definition::Loop(body) => {
                let body: Vec<u64> = body.iter().map(|&k| contents[k as usize]).collect();
                (1, body).hash(&mut hasher);
            }
        }
        contents.push(hasher.finish());
    }
    let mut counts = HashMap::new();
    (0..events.len()).for_each(|i| *counts.entry(contents[events.kind(i) as usize]).or_default() += 1);
    counts
}
