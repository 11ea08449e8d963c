//! What folds to what.
mod common;

use common::{affine, events_of, expanded, folded, leaf, repeat, run, Affine, Event, Node, Random};
use memtrail_descriptor::{fold, Definition, Events, Folder};

const ALL: usize = 10_000_000;

/// An access to a row-major matrix of `columns` columns of eight bytes.
fn element(base: i64, columns: i64, row: usize, column: usize) -> Affine {
    let mut coefficients = [0; 4];
    coefficients[row] += 8 * columns;
    coefficients[column] += 8;
    affine(base, &coefficients)
}

/// for i, j: c = 0; for k: c += a[i][k] * b[k][j]; c[i][j] = c.
fn matmul(n: i64) -> Vec<Node> {
    let inner = leaf(3, &[element(0x1000, n, 0, 2), element(0x2000_0000, n, 2, 1)]);
    let body = [
        leaf(2, &[affine(7, &[])]),
        repeat(affine(n, &[]), &[inner]),
        leaf(4, &[element(0x4000_0000, n, 0, 1)]),
    ];
    vec![repeat(affine(n, &[]), &[repeat(affine(n, &[]), &body)])]
}

fn assert_one(events: &Events, depth: usize, list: &[Event]) {
    assert_eq!(
        events.len(),
        1,
        "{:?}",
        (0..events.len().min(20))
            .map(|i| events.parameters(i))
            .collect::<Vec<_>>()
    );
    assert_eq!(events.dictionary.depth(events.kind(0)), depth);
    assert_eq!(expanded(events, list.len() + 1), list);
}

#[test]
fn a_loop_is_its_trips_its_first_values_and_its_strides() {
    let list = run(
        &[repeat(
            affine(100, &[]),
            &[leaf(9, &[affine(40, &[8]), affine(5, &[])])],
        )],
        ALL,
    );
    let events = folded(&list);
    assert_eq!(events.len(), 1);
    assert_eq!(events.parameters(0), [100, 40, 5, 8, 0]);
    let Definition::Loop(body) = events.dictionary.definition(events.kind(0)) else {
        panic!("no loop");
    };
    assert_eq!(body.len(), 1);
    assert_eq!(*events.dictionary.definition(body[0]), Definition::Leaf(9));
}

#[test]
fn a_rectangular_nest_is_one_event() {
    let list = run(&matmul(20), ALL);
    let events = folded(&list);
    assert_one(&events, 3, &list);
    // Outermost first: its trips, then its body's parameters, which begin with the trips of the
    // loop inside.
    assert_eq!(events.parameters(0)[..2], [20, 20]);
}

#[test]
fn a_triangular_nest_is_one_event_whose_inner_trips_have_a_stride() {
    let inner = repeat(affine(5, &[1]), &[leaf(1, &[affine(0, &[4000, 8])])]);
    let list = run(&[repeat(affine(30, &[]), &[inner])], ALL);
    let events = folded(&list);
    assert_one(&events, 2, &list);
    // trips, first (trips, value, stride), strides of those three.
    assert_eq!(events.parameters(0), [30, 5, 0, 8, 1, 4000, 0]);
}

#[test]
fn downward_triangles_too() {
    let inner = repeat(affine(40, &[-1]), &[leaf(1, &[affine(1 << 40, &[-4000, -8])])]);
    let list = run(&[repeat(affine(36, &[]), &[inner])], ALL);
    let events = folded(&list);
    assert_one(&events, 2, &list);
    let minus = |n: u64| n.wrapping_neg();
    assert_eq!(
        events.parameters(0),
        [36, 40, 1 << 40, minus(8), minus(1), minus(4000), 0]
    );
}

/// A stencil that reads one grid and writes the other, and the other way round in the next step:
/// the steps are two and two one loop.
#[test]
fn two_grids_that_take_turns_are_one_event() {
    let sweep = |from: i64, to: i64| {
        let cell = leaf(1, &[affine(from, &[0, 800, 8]), affine(to, &[0, 800, 8])]);
        repeat(affine(12, &[]), &[repeat(affine(90, &[]), &[cell])])
    };
    let steps = [sweep(0x1000, 0x9000), sweep(0x9000, 0x1000)];
    let list = run(&[repeat(affine(25, &[]), &steps)], ALL);
    let events = folded(&list);
    assert_one(&events, 3, &list);
    assert_eq!(events.parameters(0)[..2], [25, 12]);
}

/// Four loops; every bound is affine in the counters around, and so is every parameter.
fn deep(a: i64, b: i64, c: i64, d: i64) -> Vec<Node> {
    let body = |depth: usize| {
        leaf(
            depth as u32,
            &[affine(100 * depth as i64, &[1 << 32, 1 << 16, 16][..depth])],
        )
    };
    let innermost = repeat(
        affine(d, &[1, -1, 2]),
        &[leaf(4, &[affine(5, &[1 << 30, 1 << 20, 1 << 12, 8]), affine(1, &[])])],
    );
    let third = repeat(affine(c, &[2, 1]), &[body(3), innermost]);
    let second = repeat(affine(b, &[1]), &[third, body(2)]);
    vec![repeat(affine(a, &[]), &[body(1), second])]
}

#[test]
fn a_nest_of_four_loops_with_affine_bounds_is_one_event() {
    // The innermost bound is d + i - j + 2k with j < b + i: at least d - b + 1.
    let list = run(&deep(6, 4, 3, 9), ALL);
    let events = folded(&list);
    assert_one(&events, 4, &list);
}

#[test]
fn a_nest_takes_as_many_events_however_large_it_is() {
    // Whatever the first small iterations are, their number does not depend on the size.
    type Program = fn(i64) -> Vec<Node>;
    let programs: [(&str, usize, Program); 6] = [
        ("matmul", 1, matmul),
        ("deep", 1, |n| deep(n / 3, 4, 3, n)),
        ("triangle from nothing", 7, |n| {
            vec![repeat(
                affine(n, &[]),
                &[repeat(affine(0, &[1]), &[leaf(1, &[affine(0, &[8 * n, 8])])])],
            )]
        }),
        ("triangle from nothing, and more", 10, |n| {
            let inner = repeat(affine(0, &[1]), &[leaf(1, &[affine(0, &[8 * n, 8])])]);
            vec![repeat(
                affine(n, &[]),
                &[leaf(2, &[affine(3, &[16])]), inner, leaf(3, &[])],
            )]
        }),
        ("triangle to nothing", 8, |n| {
            let inner = repeat(affine(n, &[-1]), &[leaf(1, &[affine(0, &[8 * n, 8])])]);
            vec![repeat(
                affine(n, &[]),
                &[leaf(2, &[affine(3, &[16])]), inner, leaf(3, &[])],
            )]
        }),
        ("lu", 9, |n| {
            // for k, for i > k: l = a[i][k]; for j > k: a[i][j] -= l * a[k][j]
            let at = |i: usize, j: usize| element(0x1_0000, n, i, j);
            let inner = leaf(3, &[at(1, 2), at(0, 2)]);
            let rows = repeat(
                affine(n - 1, &[-1]),
                &[leaf(2, &[at(1, 0)]), repeat(affine(n - 1, &[-1]), &[inner])],
            );
            vec![repeat(affine(n, &[]), &[rows])]
        }),
    ];
    for (name, expected, program) in programs {
        for n in [24, 36, 48, 60] {
            let list = run(&program(n), ALL);
            let events = folded(&list);
            assert_eq!(expanded(&events, list.len() + 1), list, "{name} {n}");
            assert_eq!(events.len(), expected, "{name} {n}");
        }
    }
}

#[test]
fn inner_loops_that_run_once_or_never_do_not_break_the_outer_one() {
    // The inner loop runs 1, 1, 1, … times, or not at all: its body is part of the outer's, or
    // nothing is.
    for trips in [0, 1, 2] {
        let inner = repeat(affine(trips, &[]), &[leaf(1, &[affine(0, &[64, 8])])]);
        let list = run(&[repeat(affine(500, &[]), &[leaf(2, &[affine(0, &[4])]), inner])], ALL);
        let events = folded(&list);
        assert_one(&events, 1, &list);
        assert_eq!(events.parameters(0)[0], 500);
    }
}

#[test]
fn now_and_then_an_inner_loop_that_runs_once_or_never_costs_little() {
    // 10 trips mostly, but 0 or 1 in every 8th outer iteration.
    let mut list = Vec::new();
    for i in 0..800u64 {
        list.push((1, vec![16 * i]));
        let trips = if i % 8 == 7 { i / 8 % 2 } else { 10 };
        list.extend((0..trips).map(|j| (2, vec![1000 * i + 8 * j])));
    }
    let events = folded(&list);
    assert_eq!(expanded(&events, list.len() + 1), list);
    // Every group of eight is one loop of seven and what is left.
    assert!(events.len() <= 4 * 100, "{}", events.len());
}

#[test]
fn values_without_a_rule_leave_the_events_as_they_are() {
    let mut random = Random(11);
    let list: Vec<Event> = (0..5000)
        .map(|i| (1 + i % 3, vec![u64::from(i), random.next()]))
        .collect();
    let events = folded(&list);
    assert_eq!(events, events_of(&list));
}

#[test]
fn a_loop_between_events_without_a_rule_is_found_where_it_stands() {
    let mut random = Random(3);
    let mut noise = |n: usize| (0..n).map(|_| (7, vec![random.next()])).collect::<Vec<Event>>();
    let mut list = noise(101);
    list.extend(run(&[repeat(affine(1000, &[]), &[leaf(1, &[affine(0, &[8])])])], ALL));
    list.extend(noise(57));
    let events = folded(&list);
    assert_eq!(events.len(), 101 + 1 + 57);
    assert_eq!(events.parameters(101), [1000, 0, 8]);
}

/// A program that starts, and then does one thing fifty times: most events are of its start, but
/// what it does is the loop.
#[test]
fn a_short_loop_behind_a_long_start_is_found() {
    let mut random = Random(5);
    for start in [4_000, 9_000, 30_000] {
        let mut list: Vec<Event> = (0..start)
            .map(|_| (7 + random.below(50) as u32, vec![random.next()]))
            .collect();
        let body = [1, 2, 3, 4, 5].map(|key| leaf(key, &[affine(64, &[8])]));
        list.extend(run(&[repeat(affine(50, &[]), &body)], ALL));
        let events = folded(&list);
        assert_eq!(events.len(), start + 1);
        assert_eq!(events.parameters(start)[0], 50);
        assert_eq!(expanded(&events, list.len()), list);
    }
}

#[test]
fn loops_of_few_leaves_are_not_kept() {
    let short = |n| run(&[repeat(affine(n, &[]), &[leaf(1, &[affine(0, &[8])])])], ALL);
    let events = folded(&short(47));
    assert_eq!(events.len(), 47);
    assert_eq!(expanded(&events, 48), short(47));
    assert_eq!(folded(&short(48)).len(), 1);
}

/// Calls and returns of a quicksort, with the bounds and the elements it compares.
fn quicksort(values: &mut [u64], at: u64, list: &mut Vec<Event>) {
    list.push((1, vec![at, values.len() as u64]));
    if values.len() > 1 {
        let pivot = values[values.len() / 2];
        let (mut i, mut j) = (0usize, values.len() - 1);
        loop {
            while values[i] < pivot {
                list.push((2, vec![at + 8 * i as u64]));
                i += 1;
            }
            while values[j] > pivot {
                list.push((3, vec![at + 8 * j as u64]));
                j -= 1;
            }
            if i >= j {
                break;
            }
            list.push((4, vec![at + 8 * i as u64, at + 8 * j as u64]));
            values.swap(i, j);
            i += 1;
            j -= 1;
        }
        let (left, right) = values.split_at_mut(i.max(1));
        let middle = at + 8 * left.len() as u64;
        quicksort(left, at, list);
        quicksort(right, middle, list);
    }
    list.push((5, vec![]));
}

/// A complete binary tree, walked.
fn walk(node: u64, depth: u32, list: &mut Vec<Event>) {
    list.push((1, vec![node, u64::from(depth)]));
    if depth > 0 {
        walk(2 * node, depth - 1, list);
        list.push((2, vec![node]));
        walk(2 * node + 1, depth - 1, list);
    }
    list.push((3, vec![node]));
}

#[test]
fn recursion_stays_exact() {
    let mut random = Random(77);
    let mut values: Vec<u64> = (0..4000).map(|_| random.below(100_000)).collect();
    let mut list = Vec::new();
    quicksort(&mut values, 0x7fff_0000, &mut list);
    assert!(values.is_sorted());
    let events = folded(&list);
    assert_eq!(expanded(&events, list.len() + 1), list);
    // Passes over parts that are sorted fold; nothing becomes longer.
    assert!(events.len() <= list.len());
    let mut list = Vec::new();
    walk(1, 12, &mut list);
    let events = folded(&list);
    assert_eq!(expanded(&events, list.len() + 1), list);
    assert!(events.len() <= list.len());
}

#[test]
fn what_is_folded_depends_on_the_events_alone() {
    let mut folder = Folder::default();
    let lists = [run(&matmul(12), ALL), run(&deep(6, 4, 3, 9), ALL), run(&matmul(9), ALL)];
    for list in &lists {
        let mut events = events_of(list);
        // This one has seen other pieces before.
        fold(&mut events, &mut folder);
        assert_eq!(events, folded(list));
    }
}
