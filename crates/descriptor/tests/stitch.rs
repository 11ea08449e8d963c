//! A nest that was cut anywhere is one loop again.
mod common;

use common::{affine, assert_comes_back, expanded, folded, leaf, repeat, run, stitched, Event, Node, Random};

const ALL: usize = 1_000_000;

/// Rectangular, triangular, and with something before, between and after the inner loops.
fn programs() -> Vec<(&'static str, Vec<Node>)> {
    let x = |key: u32, coefficients: &[i64]| leaf(key, &[affine(1000 * i64::from(key), coefficients)]);
    let n = |trips: i64| affine(trips, &[]);
    vec![
        ("one loop", vec![repeat(n(500), &[x(1, &[8])])]),
        (
            "a body of three",
            vec![repeat(n(160), &[x(1, &[8]), x(2, &[4]), x(1, &[16])])],
        ),
        ("two deep", vec![repeat(n(40), &[repeat(n(11), &[x(1, &[8000, 8])])])]),
        (
            "two deep, with more",
            vec![repeat(
                n(12),
                &[
                    x(2, &[8]),
                    repeat(n(9), &[x(1, &[8000, 8]), x(4, &[3, 1])]),
                    x(3, &[-4]),
                ],
            )],
        ),
        (
            "a triangle",
            vec![repeat(n(30), &[repeat(affine(5, &[1]), &[x(1, &[8000, 8])])])],
        ),
        (
            "a triangle, with more",
            vec![repeat(
                n(14),
                &[x(2, &[8]), repeat(affine(5, &[1]), &[x(1, &[8000, 8])]), x(3, &[])],
            )],
        ),
        (
            "three deep",
            vec![repeat(
                n(7),
                &[
                    x(4, &[1]),
                    repeat(
                        n(6),
                        &[x(2, &[8, 1]), repeat(n(8), &[x(1, &[1 << 20, 1 << 12, 8])]), x(3, &[])],
                    ),
                ],
            )],
        ),
        (
            "three deep, triangular",
            vec![repeat(
                n(6),
                &[repeat(
                    affine(5, &[1]),
                    &[repeat(affine(6, &[0, 1]), &[x(1, &[1 << 20, 1 << 12, 8])])],
                )],
            )],
        ),
    ]
}

/// The most events any cut leaves, and where.
fn worst(list: &[Event], cuts: impl Iterator<Item = Vec<usize>>) -> (usize, Vec<usize>) {
    let mut worst = (0, Vec::new());
    for cuts in cuts {
        let events = stitched(list, &cuts);
        assert_eq!(expanded(&events, list.len() + 1), *list, "{cuts:?}");
        if events.len() > worst.0 {
            worst = (events.len(), cuts);
        }
    }
    worst
}

#[test]
fn cut_in_two_anywhere() {
    for (name, program) in programs() {
        let list = run(&program, ALL);
        assert_eq!(folded(&list).len(), 1, "{name}");
        let (events, at) = worst(&list, (0..=list.len()).map(|at| vec![at]));
        assert_eq!(events, 1, "{name}, cut at {at:?} of {}", list.len());
    }
}

#[test]
fn cut_in_three_anywhere() {
    for (name, program) in programs() {
        let list = run(&program, ALL);
        let n = list.len();
        let step = n.div_ceil(60);
        let cuts = (0..=n)
            .step_by(step)
            .flat_map(|a| (a..=n).step_by(step).map(move |b| vec![a, b.min(n)]));
        let (events, at) = worst(&list, cuts);
        assert_eq!(events, 1, "{name}, cut at {at:?} of {n}");
    }
}

#[test]
fn a_long_loop_in_many_pieces_is_one_event() {
    let (_, program) = programs().swap_remove(3);
    let Node::Loop(_, body) = program[0].clone() else {
        panic!("no loop");
    };
    let list = run(&[repeat(affine(2000, &[]), &body)], ALL);
    let mut random = Random(5);
    let mut cuts = vec![];
    let mut at = 0;
    while at < list.len() {
        cuts.push(at);
        at += 300 + random.below(2000) as usize;
    }
    let events = stitched(&list, &cuts);
    assert_eq!(expanded(&events, list.len() + 1), list);
    assert_eq!(events.len(), 1);
    assert!(assert_comes_back(&events, &list) < 200);
}

#[test]
fn what_is_no_loop_stays_in_order() {
    let mut random = Random(9);
    let list: Vec<Event> = (0..3000)
        .map(|_| (1 + random.below(4) as u32, vec![random.next()]))
        .collect();
    for at in [0, 1, 1500, 2999, 3000] {
        let events = stitched(&list, &[at]);
        assert_eq!(events.len(), list.len());
        assert_eq!(expanded(&events, list.len() + 1), list);
    }
}

#[test]
fn empty_pieces_change_nothing() {
    let list = run(&programs()[4].1, ALL);
    let events = stitched(&list, &[0, 0, 100, 100, 100, list.len()]);
    assert_eq!(events.len(), 1);
    assert_eq!(stitched(&[], &[0, 0]).len(), 0);
}

#[test]
fn what_is_kept_takes_little_memory_and_can_be_gone_on_with() {
    // A long piece of one loop, and a key far out.
    let list: Vec<Event> = (0..100_000).map(|i| (300_000, vec![8 * i])).collect();
    let (first, second) = list.split_at(60_000);
    let mut all = folded(first);
    assert_eq!(all.len(), 1);
    assert!(all.is_sparse());
    all = all.compacted();
    assert!(!all.is_sparse());
    memtrail_descriptor::stitch(&mut all, folded(second).compacted(), &mut Default::default());
    assert_eq!(all.len(), 1);
    assert_eq!(expanded(&all, list.len() + 1), list);
}
