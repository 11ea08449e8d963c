//! The events of several members as one sequence.
use crate::align::align;
use memtrail_descriptor::{Definition, Dictionary, Events};
use std::collections::HashMap;

/// The number of the vector that is zero, however long.
const ZERO: u32 = 0;
/// The number of the list of all members.
const ALL: u32 = 0;

/// Events of members 0, 1, …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The events of all, in an order that each member's keep; the parameters are those of the
    /// first member that has the event.
    pub(crate) events: Events,
    pub(crate) members: u32,
    /// Who has each event: a number in `whos`.
    pub(crate) who: Vec<u32>,
    /// Members by ascending number; the first list is that of all.
    pub(crate) whos: Vec<Vec<u32>>,
    /// How each parameter of each event moves from one who has it to the next: a number in
    /// `vectors`.
    pub(crate) moves: Vec<u32>,
    /// Distances from the first who has the event, which are 0 for that one. The first vector is
    /// empty, and stands for zeros.
    pub(crate) vectors: Vec<Vec<u64>>,
}

/// Renames what events refer to.
pub trait Mapped {
    /// The new key of a leaf.
    fn key(&self, key: u32) -> u32;
    /// For each parameter of a leaf, by its old key, 0 or the role that tells how to map it. May be
    /// shorter than there are parameters.
    fn roles(&self, key: u32) -> &[u8];
    /// The new value of a parameter with a role.
    fn value(&self, role: u8, value: u64) -> u64;
}

/// A role of strides: they must be 0, or what they move cannot be mapped as it is.
const STEADY: u8 = u8::MAX;

impl Set {
    /// The set of one member.
    pub fn single(events: Events) -> Set {
        Set {
            members: 1,
            who: vec![ALL; events.len()],
            whos: vec![vec![0]],
            moves: vec![ZERO; events.values()],
            vectors: vec![Vec::new()],
            events,
        }
    }

    pub fn members(&self) -> u32 {
        self.members
    }

    /// The events of all, with the parameters of the first who has each.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Events, parameters and distances: what decoding needs room for.
    pub fn size(&self) -> usize {
        let lists = self.whos.iter().map(Vec::len).sum::<usize>();
        self.events.size() + lists + self.vectors.iter().map(Vec::len).sum::<usize>()
    }

    /// The number of ways in which parameters move from member to member.
    pub fn vectors(&self) -> usize {
        self.vectors.len() - 1
    }

    /// The members that have event `i`.
    pub fn who(&self, i: usize) -> &[u32] {
        &self.whos[self.who[i] as usize]
    }

    /// How parameter `p` of event `i` moves from member to member: distances from the first that has
    /// the event, or nothing if it does not move.
    pub fn moves(&self, i: usize, p: usize) -> &[u64] {
        &self.vectors[self.moves[self.events.parameters_before(i) + p] as usize]
    }

    /// The events of one member; leaves get the keys that `key` gives them.
    pub fn member(&self, member: u32, key: impl Fn(u32) -> u32) -> Events {
        let place = |who: &Vec<u32>| who.binary_search(&member).ok();
        let places: Vec<Option<usize>> = self.whos.iter().map(place).collect();
        let (dictionary, number) = renamed(Dictionary::default(), &self.events.dictionary, key);
        let mut events = Events::new(dictionary);
        let (mut values, mut first) = (Vec::new(), 0);
        for i in 0..self.events.len() {
            let parameters = self.events.parameters(i);
            let moves = &self.moves[first..first + parameters.len()];
            first += parameters.len();
            let Some(place) = places[self.who[i] as usize] else {
                continue;
            };
            let moved = |(&value, &vector): (&u64, &u32)| {
                let vector = &self.vectors[vector as usize];
                value.wrapping_add(vector.get(place).copied().unwrap_or(0))
            };
            values.clear();
            values.extend(parameters.iter().zip(moves).map(moved));
            events.push(number[self.events.kind(i) as usize], &values);
        }
        events
    }

    /// One set of the members of two: first those of the left one.
    pub fn merge(left: &Set, right: &Set) -> Set {
        let (dictionary, _) = renamed(Dictionary::default(), &left.events.dictionary, |k| k);
        let (dictionary, number) = renamed(dictionary, &right.events.dictionary, |k| k);
        let kinds = |set: &Set| (0..set.events.len()).map(|i| set.events.kind(i)).collect::<Vec<u32>>();
        let left_kinds = kinds(left);
        let right_kinds: Vec<u32> = kinds(right).iter().map(|&k| number[k as usize]).collect();
        let mut merging = Merging::new(left, right, Events::new(dictionary));
        let (mut l, mut r) = (0, 0);
        for pair in align(&left_kinds, &right_kinds) {
            (l..pair.left).for_each(|i| merging.one(Side::Left, i, left_kinds[i]));
            (r..pair.right).for_each(|i| merging.one(Side::Right, i, right_kinds[i]));
            for i in 0..pair.length {
                merging.both(pair.left + i, pair.right + i, left_kinds[pair.left + i]);
            }
            (l, r) = (pair.left + pair.length, pair.right + pair.length);
        }
        (l..left_kinds.len()).for_each(|i| merging.one(Side::Left, i, left_kinds[i]));
        (r..right_kinds.len()).for_each(|i| merging.one(Side::Right, i, right_kinds[i]));
        merging.out
    }

    /// The same with other names. A loop in which something with a role moves from iteration to
    /// iteration is taken apart.
    pub fn mapped(&self, by: &impl Mapped) -> Set {
        let roles = roles(&self.events.dictionary, by);
        if !self.is_steady(&roles) {
            let member = |m| Set::single(mapped_one_by_one(&self.member(m, |k| k), by));
            let mut members = (0..self.members).map(member);
            let first = members.next().unwrap_or_else(|| Set::single(Events::default()));
            return members.fold(first, |all, next| Set::merge(&all, &next));
        }
        let (dictionary, number) = renamed(Dictionary::default(), &self.events.dictionary, |k| by.key(k));
        let mut out = Set {
            events: Events::new(dictionary),
            ..self.clone()
        };
        let mut vectors: HashMap<Vec<u64>, u32> = HashMap::new();
        let mut first = 0;
        for i in 0..self.events.len() {
            let kind = self.events.kind(i);
            let mut values = self.events.parameters(i).to_vec();
            for (p, &role) in roles[kind as usize].iter().enumerate() {
                if role == 0 || role == STEADY {
                    continue;
                }
                let vector = &self.vectors[self.moves[first + p] as usize];
                let new = by.value(role, values[p]);
                if !vector.is_empty() {
                    let moved = |d: &u64| by.value(role, values[p].wrapping_add(*d)).wrapping_sub(new);
                    let vector: Vec<u64> = vector.iter().map(moved).collect();
                    out.moves[first + p] = intern(&mut out.vectors, &mut vectors, vector);
                }
                values[p] = new;
            }
            first += values.len();
            out.events.push(number[kind as usize], &values);
        }
        out
    }

    /// Whether everything with a role stays what it is from iteration to iteration.
    fn is_steady(&self, roles: &[Vec<u8>]) -> bool {
        let mut first = 0;
        (0..self.events.len()).all(|i| {
            let values = self.events.parameters(i);
            let roles = &roles[self.events.kind(i) as usize];
            let moves = &self.moves[first..first + values.len()];
            first += values.len();
            let parameters = values.iter().zip(moves).zip(roles);
            let mut strides = parameters.filter(|(_, &role)| role == STEADY);
            strides.all(|((&value, &vector), _)| value == 0 && vector == ZERO)
        })
    }
}

/// The number of a vector.
fn intern(vectors: &mut Vec<Vec<u64>>, numbers: &mut HashMap<Vec<u64>, u32>, vector: Vec<u64>) -> u32 {
    if vector.iter().all(|&d| d == 0) {
        return ZERO;
    }
    *numbers.entry(vector).or_insert_with_key(|vector| {
        vectors.push(vector.clone());
        vectors.len() as u32 - 1
    })
}

/// Adds the kinds of one dictionary to another; the number each has there.
fn renamed(mut into: Dictionary, from: &Dictionary, key: impl Fn(u32) -> u32) -> (Dictionary, Vec<u32>) {
    let mut number: Vec<u32> = Vec::with_capacity(from.len());
    for kind in 0..from.len() as u32 {
        number.push(match from.definition(kind) {
            Definition::Leaf(leaf) => into.leaf(key(*leaf), from.arity(kind)),
            Definition::Loop(body) => {
                let body: Vec<u32> = body.iter().map(|&k| number[k as usize]).collect();
                into.repetition(&body)
            }
        });
    }
    (into, number)
}

/// The roles of the parameters of each kind.
fn roles(dictionary: &Dictionary, by: &impl Mapped) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::with_capacity(dictionary.len());
    for kind in 0..dictionary.len() as u32 {
        let mut roles = match dictionary.definition(kind) {
            Definition::Leaf(key) => by.roles(*key).to_vec(),
            Definition::Loop(body) => {
                let firsts: Vec<u8> = body.iter().flat_map(|&k| all[k as usize].iter().copied()).collect();
                let strides: Vec<u8> = firsts.iter().map(|&r| if r == 0 { 0 } else { STEADY }).collect();
                [vec![0], firsts, strides].concat()
            }
        };
        roles.resize(dictionary.arity(kind), 0);
        all.push(roles);
    }
    all
}

/// The leaves of a sequence, each mapped by itself.
fn mapped_one_by_one(events: &Events, by: &impl Mapped) -> Events {
    let mut out = Events::default();
    let mut add = |key: u32, parameters: &[u64]| {
        let roles = by.roles(key);
        let role = |p: usize| roles.get(p).copied().unwrap_or(0);
        let map = |(p, &value): (usize, &u64)| match role(p) {
            0 => value,
            role => by.value(role, value),
        };
        let values: Vec<u64> = parameters.iter().enumerate().map(map).collect();
        out.push_leaf(by.key(key), &values);
        true
    };
    for i in 0..events.len() {
        events.dictionary.expand(events.kind(i), events.parameters(i), &mut add);
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// What a new vector is made of: length and number of the left one and of the right one, and how far
/// the right one's first value is from the left one's.
type Parts = (usize, u32, usize, u32, u64);

/// Two sets on their way to be one.
struct Merging<'s> {
    left: &'s Set,
    right: &'s Set,
    /// Numbers of lists by those of the left and the right one they are made of.
    whos: HashMap<(Option<u32>, Option<u32>), u32>,
    parts: HashMap<Parts, u32>,
    vectors: HashMap<Vec<u64>, u32>,
    out: Set,
}

impl<'s> Merging<'s> {
    fn new(left: &'s Set, right: &'s Set, events: Events) -> Merging<'s> {
        let members = left.members + right.members;
        Merging {
            left,
            right,
            whos: HashMap::from([((Some(ALL), Some(ALL)), ALL)]),
            parts: HashMap::new(),
            vectors: HashMap::new(),
            out: Set {
                events,
                members,
                who: Vec::new(),
                whos: vec![(0..members).collect()],
                moves: Vec::new(),
                vectors: vec![Vec::new()],
            },
        }
    }

    fn who(&mut self, left: Option<u32>, right: Option<u32>) -> u32 {
        if let Some(&number) = self.whos.get(&(left, right)) {
            return number;
        }
        let of_left = left.map_or(&[][..], |w| &self.left.whos[w as usize]);
        let of_right = right.map_or(&[][..], |w| &self.right.whos[w as usize]);
        let shifted = of_right.iter().map(|m| m + self.left.members);
        let list = of_left.iter().copied().chain(shifted).collect();
        self.out.whos.push(list);
        let number = self.out.whos.len() as u32 - 1;
        self.whos.insert((left, right), number);
        number
    }

    fn vector(&mut self, parts: Parts) -> u32 {
        let (left_length, left, right_length, right, distance) = parts;
        if left == ZERO && right == ZERO && (distance == 0 || right_length == 0) {
            return ZERO;
        }
        if let Some(&number) = self.parts.get(&parts) {
            return number;
        }
        let at = |vector: &[u64], i: usize| vector.get(i).copied().unwrap_or(0);
        let (of_left, of_right) = (&self.left.vectors[left as usize], &self.right.vectors[right as usize]);
        let mut vector: Vec<u64> = (0..left_length).map(|i| at(of_left, i)).collect();
        vector.extend((0..right_length).map(|i| at(of_right, i).wrapping_add(distance)));
        let number = intern(&mut self.out.vectors, &mut self.vectors, vector);
        self.parts.insert(parts, number);
        number
    }

    /// An event that only one of them has.
    fn one(&mut self, side: Side, i: usize, kind: u32) {
        let set = match side {
            Side::Left => self.left,
            Side::Right => self.right,
        };
        let start = set.events.parameters_before(i);
        let length = set.who(i).len();
        let who = match side {
            Side::Left => self.who(Some(set.who[i]), None),
            Side::Right => self.who(None, Some(set.who[i])),
        };
        let parameters = set.events.parameters(i);
        for p in 0..parameters.len() {
            let vector = set.moves[start + p];
            let moves = match side {
                Side::Left => self.vector((length, vector, 0, ZERO, 0)),
                Side::Right => self.vector((0, ZERO, length, vector, 0)),
            };
            self.out.moves.push(moves);
        }
        self.out.who.push(who);
        self.out.events.push(kind, parameters);
    }

    /// An event that both have.
    fn both(&mut self, l: usize, r: usize, kind: u32) {
        let (left, right) = (self.left, self.right);
        let who = self.who(Some(left.who[l]), Some(right.who[r]));
        let lengths = (left.who(l).len(), right.who(r).len());
        let starts = (left.events.parameters_before(l), right.events.parameters_before(r));
        let (ours, theirs) = (left.events.parameters(l), right.events.parameters(r));
        for p in 0..ours.len() {
            let (a, b) = (left.moves[starts.0 + p], right.moves[starts.1 + p]);
            let moves = self.vector((lengths.0, a, lengths.1, b, theirs[p].wrapping_sub(ours[p])));
            self.out.moves.push(moves);
        }
        self.out.who.push(who);
        self.out.events.push(kind, ours);
    }
}
