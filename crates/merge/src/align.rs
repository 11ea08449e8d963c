//! Two sequences side by side: which elements of one are which of the other.
//!
//! What both begin and end with is paired at once; that is all of them if members do the same. In
//! between, elements that occur exactly once in both are anchors, as in a patience diff, and short
//! stretches between anchors are compared by Myers' algorithm with a bound on the differences.
//! Stretches that are longer and have no anchors are left unpaired: exact, only not compact.
use std::collections::HashMap;

/// A stretch that the two sequences have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub left: usize,
    pub right: usize,
    pub length: usize,
}

/// Myers' algorithm is given up at this number of differences.
const MOST_DIFFERENCES: usize = 200;

/// The stretches in common, in order, without overlaps.
pub fn align(left: &[u32], right: &[u32]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    section(left, right, 0, 0, &mut pairs, 0);
    join(pairs)
}

/// Neighbours become one.
fn join(pairs: Vec<Pair>) -> Vec<Pair> {
    let mut joined: Vec<Pair> = Vec::with_capacity(pairs.len());
    for pair in pairs.into_iter().filter(|p| p.length > 0) {
        match joined.last_mut() {
            Some(last) if last.left + last.length == pair.left && last.right + last.length == pair.right => {
                last.length += pair.length;
            }
            _ => joined.push(pair),
        }
    }
    joined
}

fn section(left: &[u32], right: &[u32], l: usize, r: usize, pairs: &mut Vec<Pair>, depth: u32) {
    let begin = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let ends = left[begin..].iter().rev().zip(right[begin..].iter().rev());
    let end = ends.take_while(|(a, b)| a == b).count();
    pairs.push(Pair {
        left: l,
        right: r,
        length: begin,
    });
    let inner_left = &left[begin..left.len() - end];
    let inner_right = &right[begin..right.len() - end];
    if !inner_left.is_empty() && !inner_right.is_empty() {
        between(inner_left, inner_right, l + begin, r + begin, pairs, depth);
    }
    pairs.push(Pair {
        left: l + left.len() - end,
        right: r + right.len() - end,
        length: end,
    });
}

fn between(left: &[u32], right: &[u32], l: usize, r: usize, pairs: &mut Vec<Pair>, depth: u32) {
    let anchors = if depth < 16 { anchors(left, right) } else { Vec::new() };
    if anchors.is_empty() {
        let found = myers(left, right).unwrap_or_default();
        pairs.extend(found.into_iter().map(|p| Pair {
            left: l + p.left,
            right: r + p.right,
            length: p.length,
        }));
        return;
    }
    let (mut from_left, mut from_right) = (0, 0);
    for (a, b) in anchors {
        if a < from_left || b < from_right {
            continue;
        }
        let (ls, rs) = (&left[from_left..a], &right[from_right..b]);
        section(ls, rs, l + from_left, r + from_right, pairs, depth + 1);
        pairs.push(Pair {
            left: l + a,
            right: r + b,
            length: 1,
        });
        (from_left, from_right) = (a + 1, b + 1);
    }
    let (ls, rs) = (&left[from_left..], &right[from_right..]);
    section(ls, rs, l + from_left, r + from_right, pairs, depth + 1);
}

/// Elements that are in both exactly once, as many as are in the same order.
fn anchors(left: &[u32], right: &[u32]) -> Vec<(usize, usize)> {
    let once = |values: &[u32]| {
        let mut places: HashMap<u32, Option<usize>> = HashMap::new();
        for (i, &value) in values.iter().enumerate() {
            places.entry(value).and_modify(|p| *p = None).or_insert(Some(i));
        }
        places
    };
    let (in_left, in_right) = (once(left), once(right));
    let unique = |(i, value): (usize, &u32)| {
        let alone = in_left.get(value).copied().flatten().is_some();
        let other = in_right.get(value).copied().flatten();
        other.filter(|_| alone).map(|o| (i, o))
    };
    let all: Vec<(usize, usize)> = left.iter().enumerate().filter_map(unique).collect();
    longest_increasing(&all)
}

/// The longest part whose second numbers rise, by patience sorting.
fn longest_increasing(all: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut tops: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(all.len());
    for (i, &(_, value)) in all.iter().enumerate() {
        let pile = tops.partition_point(|&t| all[t].1 < value);
        before.push(pile.checked_sub(1).map(|p| tops[p]));
        match tops.get_mut(pile) {
            Some(top) => *top = i,
            None => tops.push(i),
        }
    }
    let mut chain = Vec::new();
    let mut at = tops.last().copied();
    while let Some(i) = at {
        chain.push(all[i]);
        at = before[i];
    }
    chain.reverse();
    chain
}

/// The stretches in common, by Myers' algorithm. `None` if there are too many differences.
fn myers(left: &[u32], right: &[u32]) -> Option<Vec<Pair>> {
    let (n, m) = (left.len() as isize, right.len() as isize);
    let most = MOST_DIFFERENCES.min(left.len() + right.len()) as isize;
    let at = |k: isize| (k + most + 1) as usize;
    let mut furthest = vec![0isize; 2 * most as usize + 3];
    let mut history = Vec::new();
    for d in 0..=most {
        history.push(furthest.clone());
        for k in (-d..=d).step_by(2) {
            let down = k == -d || (k != d && furthest[at(k - 1)] < furthest[at(k + 1)]);
            let mut x = if down {
                furthest[at(k + 1)]
            } else {
                furthest[at(k - 1)] + 1
            };
            while x < n && x - k < m && left[x as usize] == right[(x - k) as usize] {
                x += 1;
            }
            furthest[at(k)] = x;
            if x >= n && x - k >= m {
                return Some(trace_back(&history, n, m, at));
            }
        }
    }
    None
}

fn trace_back(history: &[Vec<isize>], n: isize, m: isize, at: impl Fn(isize) -> usize) -> Vec<Pair> {
    let (mut x, mut y) = (n, m);
    let mut pairs = Vec::new();
    for (d, furthest) in history.iter().enumerate().rev() {
        let (d, k) = (d as isize, x - y);
        let down = k == -d || (k != d && furthest[at(k - 1)] < furthest[at(k + 1)]);
        let before = if down { k + 1 } else { k - 1 };
        let (from_x, from_y) = match d {
            0 => (0, 0),
            _ => (furthest[at(before)], furthest[at(before)] - before),
        };
        let start = match (d, down) {
            (0, _) => 0,
            (_, true) => from_x,
            (_, false) => from_x + 1,
        };
        pairs.push(Pair {
            left: start as usize,
            right: (start - k) as usize,
            length: (x - start) as usize,
        });
        (x, y) = (from_x, from_y);
    }
    pairs.reverse();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn length(pairs: &[Pair]) -> usize {
        pairs.iter().map(|p| p.length).sum()
    }

    /// Longest common subsequence by the textbook.
    fn textbook(left: &[u32], right: &[u32]) -> usize {
        let mut row = vec![0; right.len() + 1];
        for &a in left {
            let mut diagonal = 0;
            for (j, &b) in right.iter().enumerate() {
                let above = row[j + 1];
                row[j + 1] = if a == b { diagonal + 1 } else { above.max(row[j]) };
                diagonal = above;
            }
        }
        row[right.len()]
    }

    proptest! {
        #[test]
        fn pairs_are_equal_ordered_and_apart(
            left in proptest::collection::vec(0u32..6, 0..60),
            right in proptest::collection::vec(0u32..6, 0..60),
        ) {
            let pairs = align(&left, &right);
            let (mut l, mut r) = (0, 0);
            for p in &pairs {
                prop_assert!(p.left >= l && p.right >= r && p.length > 0);
                prop_assert_eq!(&left[p.left..p.left + p.length], &right[p.right..p.right + p.length]);
                (l, r) = (p.left + p.length, p.right + p.length);
            }
            let myers = myers(&left, &right).unwrap();
            prop_assert_eq!(length(&myers), textbook(&left, &right));
        }
    }

    #[test]
    fn what_is_the_same_is_one_pair() {
        let all: Vec<u32> = (0..1000).map(|i| i % 7).collect();
        assert_eq!(
            align(&all, &all),
            [Pair {
                left: 0,
                right: 0,
                length: 1000
            }]
        );
        assert_eq!(align(&all, &[]), []);
    }

    #[test]
    fn long_sequences_are_aligned_at_what_is_unique() {
        // 3000 elements each, 600 of them in one only; a unique one now and then.
        let base: Vec<u32> = (0..3000).map(|i| if i % 50 == 0 { 1000 + i } else { i % 3 }).collect();
        let mut other = Vec::new();
        for (i, &v) in base.iter().enumerate() {
            other.push(v);
            if i % 5 == 0 {
                other.push(7);
            }
        }
        let pairs = align(&base, &other);
        assert_eq!(length(&pairs), base.len());
    }
}
