//! Sets give back what went in, whatever it was, and stay small where members do the same.
use memtrail_descriptor::{fold, Events, Folder, Pack};
use memtrail_merge::{decode, encode, Mapped, Set};
use proptest::prelude::*;

/// Packs nothing.
struct Plain;
impl Pack for Plain {
    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
    fn unpack(&self, packed: &[u8], length: usize) -> Option<Vec<u8>> {
        (packed.len() == length).then(|| packed.to_vec())
    }
}

type Leaves = Vec<(u32, Vec<u64>)>;

fn events(leaves: &[(u32, Vec<u64>)]) -> Events {
    let mut events = Events::default();
    leaves.iter().for_each(|(key, values)| events.push_leaf(*key, values));
    events
}

fn leaves(events: &Events) -> Leaves {
    let mut all = Leaves::new();
    for i in 0..events.len() {
        let mut add = |key: u32, values: &[u64]| {
            all.push((key, values.to_vec()));
            true
        };
        assert!(events.dictionary.expand(events.kind(i), events.parameters(i), &mut add));
    }
    all
}

/// All members as one set, on a tree.
fn tree(mut sets: Vec<Set>) -> Set {
    while sets.len() > 1 {
        let pair = |pair: &[Set]| match pair {
            [a, b] => Set::merge(a, b),
            one => one[0].clone(),
        };
        sets = sets.chunks(2).map(pair).collect();
    }
    sets.remove(0)
}

/// What a set has besides its events, there and back.
fn coded(set: &Set) -> usize {
    let mut bytes = Vec::new();
    encode(set, &Plain, &mut bytes);
    let events = set.events().clone();
    let back = decode(&bytes, events, set.members(), set.size(), &Plain);
    assert_eq!(back.as_ref(), Ok(set));
    for cut in 0..bytes.len().min(64) {
        let damaged = decode(&bytes[..cut], set.events().clone(), set.members(), set.size(), &Plain);
        assert!(damaged.is_err());
    }
    bytes.len()
}

/// Leaves of keys 0 to 4, of which key `k` has `k` parameters.
fn member() -> impl Strategy<Value = Leaves> {
    let leaf = (0u32..5, proptest::collection::vec(0u64..4, 4));
    let leaf = leaf.prop_map(|(key, values)| (key, values[..key as usize].to_vec()));
    proptest::collection::vec(leaf, 0..40)
}

struct Names;
impl Mapped for Names {
    fn key(&self, key: u32) -> u32 {
        key + 100
    }
    fn roles(&self, key: u32) -> &[u8] {
        match key {
            2 => &[0, 1],
            _ => &[],
        }
    }
    fn value(&self, _role: u8, value: u64) -> u64 {
        [7, 3, 9, 1].get(value as usize).copied().unwrap_or(value)
    }
}

proptest! {
    #[test]
    fn members_come_back(members in proptest::collection::vec(member(), 1..9)) {
        let set = tree(members.iter().map(|m| Set::single(events(m))).collect());
        for (m, member) in members.iter().enumerate() {
            prop_assert_eq!(&leaves(&set.member(m as u32, |k| k)), member);
        }
        coded(&set);
    }

    #[test]
    fn names_are_mapped_in_loops_too(members in proptest::collection::vec(member(), 1..5), times in 1usize..90) {
        let (mut folder, mut sets, mut expected) = (Folder::default(), Vec::new(), Vec::new());
        for member in &members {
            let long: Leaves = std::iter::repeat_n(member.clone(), times).flatten().collect();
            let mut folded = events(&long);
            fold(&mut folded, &mut folder);
            sets.push(Set::single(folded));
            let map = |(key, values): (u32, Vec<u64>)| {
                let mut values = values;
                if key == 2 {
                    values[1] = Names.value(1, values[1]);
                }
                (key + 100, values)
            };
            expected.push(long.into_iter().map(map).collect::<Leaves>());
        }
        let mapped = tree(sets).mapped(&Names);
        for (m, expected) in expected.iter().enumerate() {
            prop_assert_eq!(&leaves(&mapped.member(m as u32, |k| k)), expected);
        }
    }
}

/// A loop whose name moves from iteration to iteration has to be taken apart.
#[test]
fn what_moves_is_mapped_one_by_one() {
    let mut folded = events(&(0..60).map(|i| (2, vec![i, i % 64])).collect::<Leaves>());
    fold(&mut folded, &mut Folder::default());
    assert_eq!(folded.len(), 1);
    let mapped = Set::single(folded).mapped(&Names);
    let expected: Leaves = (0..60).map(|i| (102, vec![i, Names.value(1, i)])).collect();
    assert_eq!(leaves(&mapped.member(0, |k| k)), expected);
}

/// Members of a grid: each works on its block, and talks to the neighbours that it has.
fn on_grid(index: [u64; 3], side: u64, dimensions: usize) -> Leaves {
    let mut all = vec![(1, vec![0])];
    let me: u64 = (0..3).map(|d| index[d] * side.pow(d as u32)).sum();
    for i in 0..20 {
        all.push((2, vec![0x10_0000 + 8 * i + 4096 * me, i]));
    }
    for (d, &at) in index.iter().enumerate().take(dimensions) {
        let distance = side.pow(d as u32);
        if at > 0 {
            all.push((10 + d as u32, vec![me - distance]));
        }
        if at + 1 < side {
            all.push((20 + d as u32, vec![me + distance]));
        }
    }
    all.push((3, vec![1, 2, me]));
    all
}

#[test]
fn a_grid_takes_as_many_bytes_however_many_members_it_has() {
    for (dimensions, sides) in [(1, [4, 16, 256]), (2, [4, 8, 16]), (3, [4, 5, 6])] {
        let bytes = sides.map(|side: u64| {
            let members: Vec<Leaves> = (0..side.pow(dimensions))
                .map(|i| on_grid([i % side, i / side % side, i / side / side], side, dimensions as usize))
                .collect();
            let set = tree(members.iter().map(|m| Set::single(events(m))).collect());
            for (m, member) in members.iter().enumerate() {
                assert_eq!(&leaves(&set.member(m as u32, |k| k)), member);
            }
            coded(&set)
        });
        println!("{dimensions}: {bytes:?}");
        assert!(bytes[2] <= bytes[0] + bytes[0] / 4, "{dimensions}: {bytes:?}");
    }
}
