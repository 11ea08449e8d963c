//! Random nests with random disturbances, cut at random places, there and back.
mod common;

use common::{assert_comes_back, folded, run, stitched, Affine, Event, Node};
use proptest::collection::vec;
use proptest::prelude::*;

/// Events of one case, at most.
const MOST: usize = 6000;
const DEPTH: u32 = 4;

fn coefficient() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => Just(0),
        4 => prop::sample::select(vec![1, 4, 8, 64, -8, 1 << 12]),
        1 => any::<i64>(),
    ]
}

fn value() -> impl Strategy<Value = Affine> {
    (any::<i64>(), vec(coefficient(), DEPTH as usize))
        .prop_map(|(constant, coefficients)| Affine { constant, coefficients })
}

/// A bound of a few iterations, also none; it may depend on the counters around.
fn bound() -> impl Strategy<Value = Affine> {
    let slope = prop_oneof![6 => Just(0), 2 => Just(1), 1 => Just(-1), 1 => Just(2)];
    (0..14i64, vec(slope, DEPTH as usize)).prop_map(|(constant, coefficients)| Affine { constant, coefficients })
}

/// Parameters as many as the leaf has: its key modulo 4.
fn leaves() -> impl Strategy<Value = Node> {
    (0..8u32, vec(value(), 3)).prop_map(|(key, mut values)| {
        values.truncate(key as usize % 4);
        Node::Leaf(key, values)
    })
}

fn nests() -> impl Strategy<Value = Node> {
    leaves().prop_recursive(DEPTH, 24, 4, |inner| {
        (bound(), vec(inner, 1..4)).prop_map(|(trips, body)| Node::Loop(trips, body))
    })
}

fn programs() -> impl Strategy<Value = Vec<Node>> {
    (vec(nests(), 1..4), 1..40i64).prop_map(|(body, times)| {
        let times = Affine {
            constant: times,
            coefficients: vec![],
        };
        vec![Node::Loop(times, body)]
    })
}

/// What happens to a list of events, at a place given in 65536ths.
#[derive(Clone, Debug)]
enum Disturbance {
    Insert(u16, u32, u64),
    Delete(u16),
    Change(u16, usize, u64),
    Repeat(u16, u16),
}

fn disturbances() -> impl Strategy<Value = Vec<Disturbance>> {
    let one = prop_oneof![
        (any::<u16>(), 0..8u32, any::<u64>()).prop_map(|(at, key, value)| Disturbance::Insert(at, key, value)),
        any::<u16>().prop_map(Disturbance::Delete),
        (any::<u16>(), 0..3usize, any::<u64>()).prop_map(|(at, j, value)| Disturbance::Change(at, j, value)),
        (any::<u16>(), 0..300u16).prop_map(|(at, length)| Disturbance::Repeat(at, length)),
    ];
    vec(one, 0..6)
}

fn disturb(list: &mut Vec<Event>, disturbances: &[Disturbance]) {
    for disturbance in disturbances {
        let place = |at: u16| usize::from(at) * list.len() / 65536;
        match *disturbance {
            Disturbance::Insert(at, key, value) => {
                let event = (key, vec![value; key as usize % 4]);
                list.insert(place(at), event);
            }
            Disturbance::Delete(at) if !list.is_empty() => {
                list.remove(place(at));
            }
            Disturbance::Change(at, j, value) if !list.is_empty() => {
                let at = place(at);
                list[at].1.iter_mut().skip(j).take(1).for_each(|v| *v = value);
            }
            Disturbance::Repeat(at, length) => {
                let from = place(at);
                let to = (from + usize::from(length)).min(list.len());
                let again = list[from..to].to_vec();
                list.splice(to..to, again);
            }
            _ => {}
        }
    }
}

fn cuts_in(length: usize, at: &[u16]) -> Vec<usize> {
    let mut cuts: Vec<usize> = at.iter().map(|&a| usize::from(a) * (length + 1) / 65536).collect();
    cuts.sort_unstable();
    cuts
}

/// Which leaf comes next, where in memory, and by which step.
fn walks() -> impl Strategy<Value = Vec<Event>> {
    let step = (
        0..8u32,
        prop::sample::select(vec![0u64, 8, 16, 8u64.wrapping_neg(), 4096]),
        1..30usize,
    );
    vec(step, 1..200).prop_map(|steps| {
        let (mut list, mut at) = (Vec::new(), 0x1000u64);
        for (key, by, times) in steps {
            for _ in 0..times {
                at = at.wrapping_add(by);
                list.push((key, (0..u64::from(key) % 4).map(|j| at.wrapping_mul(j + 1)).collect()));
            }
        }
        list
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nests_come_back(program in programs(), disturbances in disturbances(), cuts in vec(any::<u16>(), 0..5)) {
        let mut list = run(&program, MOST);
        disturb(&mut list, &disturbances);
        let cuts = cuts_in(list.len(), &cuts);
        assert_comes_back(&stitched(&list, &cuts), &list);
        assert_comes_back(&folded(&list), &list);
    }

    #[test]
    fn walks_come_back(list in walks(), cuts in vec(any::<u16>(), 0..5)) {
        let cuts = cuts_in(list.len(), &cuts);
        assert_comes_back(&stitched(&list, &cuts), &list);
    }

    #[test]
    fn folding_never_makes_more_events(program in programs(), disturbances in disturbances()) {
        let mut list = run(&program, MOST);
        disturb(&mut list, &disturbances);
        prop_assert!(folded(&list).len() <= list.len());
    }
}
