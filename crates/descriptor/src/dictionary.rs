//! The kinds of events of a piece: leaves, and loops over kinds.
//!
//! **Invariants.** A loop's body consists of kinds with smaller numbers, so definitions are well
//! founded. Two loops with the same body are one kind. A loop over bodies with `n` parameters has
//! `1 + 2n`: trip count, those of the first iteration, how far each moves per iteration.
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Bodies with more parameters are not made into loops.
pub const MOST_PARAMETERS: usize = 2048;

/// What a kind is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A leaf of the caller's, by key.
    Leaf(u32),
    /// A loop over these kinds, in order.
    Loop(Box<[u32]>),
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    definitions: Vec<Definition>,
    arities: Vec<u32>,
    /// Kind and arity by leaf key; keys are dense enough for an array.
    leaves: Vec<(u32, u32)>,
    loops: BTreeMap<Box<[u32]>, u32>,
    /// Kinds, and kinds in bodies.
    size: usize,
}

impl PartialEq for Dictionary {
    fn eq(&self, other: &Dictionary) -> bool {
        self.definitions == other.definitions && self.arities == other.arities
    }
}
impl Eq for Dictionary {}

/// Whoever receives the leaves that events expand to. `false` ends the expansion.
pub trait Visit {
    fn leaf(&mut self, key: u32, parameters: &[u64]) -> bool;
}

impl<F: FnMut(u32, &[u64]) -> bool> Visit for F {
    fn leaf(&mut self, key: u32, parameters: &[u64]) -> bool {
        self(key, parameters)
    }
}

impl Dictionary {
    pub fn len(&self) -> usize {
        self.definitions.len()
    }
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }
    /// Kinds, and kinds in their bodies.
    pub fn size(&self) -> usize {
        self.size
    }
    pub fn definition(&self, kind: u32) -> &Definition {
        &self.definitions[kind as usize]
    }
    #[inline]
    pub fn arity(&self, kind: u32) -> usize {
        self.arities[kind as usize] as usize
    }
    pub fn is_loop(&self, kind: u32) -> bool {
        matches!(self.definition(kind), Definition::Loop(_))
    }

    /// Forgets all kinds, but keeps the memory.
    pub fn clear(&mut self) {
        for definition in &self.definitions {
            if let Definition::Leaf(key) = definition {
                self.leaves.get_mut(*key as usize).into_iter().for_each(|l| l.0 = NONE);
            }
        }
        self.definitions.clear();
        self.arities.clear();
        self.loops.clear();
        self.size = 0;
    }

    /// A copy that takes no more memory than it must; leaves can be looked up in it after
    /// [`Dictionary::restore`].
    pub(crate) fn compacted(&self) -> Dictionary {
        Dictionary {
            definitions: self.definitions.clone(),
            arities: self.arities.clone(),
            leaves: Vec::new(),
            loops: self.loops.clone(),
            size: self.size,
        }
    }
    pub(crate) fn restore(&mut self) {
        if !self.leaves.is_empty() {
            return;
        }
        for kind in 0..self.definitions.len() {
            if let Definition::Leaf(key) = self.definitions[kind] {
                self.make_room(key);
                self.leaves[key as usize] = (kind as u32, self.arities[kind]);
            }
        }
    }
    /// Bytes that looking up leaves takes.
    pub(crate) fn spare_bytes(&self) -> usize {
        size_of::<(u32, u32)>() * self.leaves.capacity()
    }

    /// The kind of a leaf, defined if it is new.
    #[inline]
    pub fn leaf(&mut self, key: u32, arity: usize) -> u32 {
        match self.leaves.get(key as usize) {
            Some(&(kind, _)) if kind != NONE => kind,
            _ => self.new_leaf(key, arity),
        }
    }

    /// The kind and arity of a leaf, if it is defined.
    #[inline]
    pub fn find_leaf(&self, key: u64) -> Option<(u32, usize)> {
        let &(kind, arity) = self.leaves.get(key as usize)?;
        (kind != NONE).then_some((kind, arity as usize))
    }

    /// The kind of a leaf that is defined.
    pub(crate) fn known_leaf(&self, key: u32) -> u32 {
        self.leaves[key as usize].0
    }

    #[cold]
    fn new_leaf(&mut self, key: u32, arity: usize) -> u32 {
        self.make_room(key);
        self.leaves[key as usize] = (self.len() as u32, arity as u32);
        self.define(Definition::Leaf(key), arity)
    }

    fn make_room(&mut self, key: u32) {
        if self.leaves.len() <= key as usize {
            let room = (key as usize + 1).next_power_of_two();
            self.leaves.resize(room, (NONE, 0));
        }
    }

    /// The kind of the loop over `body`, defined if it is new.
    pub fn repetition(&mut self, body: &[u32]) -> u32 {
        if let Some(&kind) = self.loops.get(body) {
            return kind;
        }
        let arity = 1 + 2 * body.iter().map(|&k| self.arity(k)).sum::<usize>();
        self.loops.insert(body.into(), self.len() as u32);
        self.define(Definition::Loop(body.into()), arity)
    }

    fn define(&mut self, definition: Definition, arity: usize) -> u32 {
        self.size += match &definition {
            Definition::Leaf(_) => 1,
            Definition::Loop(body) => 1 + body.len(),
        };
        self.definitions.push(definition);
        self.arities.push(arity as u32);
        self.len() as u32 - 1
    }

    /// Hands every leaf that an event stands for to `visit`, in order. `false` if it was told to
    /// stop.
    ///
    /// The work is bounded by what `visit` lets through: a loop without iterations, which
    /// [`fold`](crate::fold) never makes, counts as a stop, so every iteration has a leaf.
    pub fn expand(&self, kind: u32, parameters: &[u64], visit: &mut impl Visit) -> bool {
        match self.definition(kind) {
            Definition::Leaf(key) => visit.leaf(*key, parameters),
            Definition::Loop(body) => {
                let (trips, rest) = (parameters[0], &parameters[1..]);
                let (first, strides) = rest.split_at(rest.len() / 2);
                let mut now: Vec<u64> = first.into();
                if trips == 0 {
                    return false;
                }
                for trip in 0..trips {
                    if trip > 0 {
                        for (value, stride) in now.iter_mut().zip(strides) {
                            *value = value.wrapping_add(*stride);
                        }
                    }
                    let mut rest = now.as_slice();
                    for &kind in body {
                        let (own, others) = rest.split_at(self.arity(kind));
                        if !self.expand(kind, own, visit) {
                            return false;
                        }
                        rest = others;
                    }
                }
                true
            }
        }
    }

    /// Loops inside loops, at most: 0 for a leaf.
    pub fn depth(&self, kind: u32) -> usize {
        match self.definition(kind) {
            Definition::Leaf(_) => 0,
            Definition::Loop(body) => 1 + body.iter().map(|&k| self.depth(k)).max().unwrap_or(0),
        }
    }
}
