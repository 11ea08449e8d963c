//! Cycles of mutual eviction: data or references that take the cache away from each other.
//!
//! METRIC (section 7.2) finds the remedy for a matrix product in a table of evictors: references
//! that evict each other's lines in a cycle. Here such a cycle is a strongly connected set in the
//! graph of who evicts whom, without the edges that hardly count.
use memtrail_report::Pairs;

/// An edge counts if it is this part of all evictions: one of this many.
const COUNTS: u64 = 200;

/// Rows that evict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionCycle {
    /// In the order of what they lose to each other, most first.
    pub members: Vec<u32>,
    /// Lines that members lost to other members.
    pub evictions: u64,
    /// Loser, evictor, how often.
    pub edges: Vec<(u32, u32, u64)>,
}

/// The cycles among rows, those with most evictions first. A row that evicts itself is none.
pub fn cycles(pairs: &Pairs) -> Vec<EvictionCycle> {
    let all: u64 = pairs.values().sum();
    let counts = |n: u64| n.saturating_mul(COUNTS) >= all;
    let edges: Vec<(u32, u32, u64)> = pairs
        .iter()
        .filter(|(&(owner, by), &n)| owner != by && counts(n))
        .map(|(&(owner, by), &n)| (owner, by, n))
        .collect();
    let mut found: Vec<EvictionCycle> = components(&edges)
        .into_iter()
        .map(|members| {
            let inside = |&&(a, b, _): &&(u32, u32, u64)| members.contains(&a) && members.contains(&b);
            let mut edges: Vec<(u32, u32, u64)> = edges.iter().filter(inside).copied().collect();
            edges.sort_by_key(|&(owner, by, n)| (std::cmp::Reverse(n), owner, by));
            let mut ordered = Vec::new();
            for &(owner, ..) in &edges {
                if !ordered.contains(&owner) {
                    ordered.push(owner);
                }
            }
            EvictionCycle {
                members: ordered,
                evictions: edges.iter().map(|(_, _, n)| n).sum(),
                edges,
            }
        })
        .collect();
    found.sort_by_key(|cycle| std::cmp::Reverse(cycle.evictions));
    found
}

/// Strongly connected sets of more than one: nodes that reach each other.
fn components(edges: &[(u32, u32, u64)]) -> Vec<Vec<u32>> {
    let mut nodes: Vec<u32> = edges.iter().flat_map(|&(a, b, _)| [a, b]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let step = |from: u32, back: bool| {
        edges.iter().filter_map(move |&(a, b, _)| match back {
            false => (a == from).then_some(b),
            true => (b == from).then_some(a),
        })
    };
    let reached = |from: u32, back: bool| {
        let (mut seen, mut next) = (vec![from], vec![from]);
        while let Some(at) = next.pop() {
            for other in step(at, back) {
                if !seen.contains(&other) {
                    seen.push(other);
                    next.push(other);
                }
            }
        }
        seen
    };
    let mut found: Vec<Vec<u32>> = Vec::new();
    for &node in &nodes {
        if found.iter().any(|set| set.contains(&node)) {
            continue;
        }
        let (forth, back) = (reached(node, false), reached(node, true));
        let mut both: Vec<u32> = forth.into_iter().filter(|other| back.contains(other)).collect();
        both.sort_unstable();
        if both.len() > 1 {
            found.push(both);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_evict_each_other_are_a_cycle() {
        let pairs = Pairs::from([((0, 1), 90), ((1, 0), 80), ((0, 0), 10), ((2, 2), 500), ((2, 0), 50)]);
        let found = cycles(&pairs);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].members, [0, 1]);
        assert_eq!(found[0].evictions, 170);
        assert_eq!(found[0].edges, [(0, 1, 90), (1, 0, 80)]);
    }

    #[test]
    fn a_cycle_may_be_longer() {
        let pairs = Pairs::from([((0, 1), 5), ((1, 2), 6), ((2, 0), 7), ((3, 0), 9)]);
        let found = cycles(&pairs);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].members, [2, 1, 0]);
        assert_eq!(found[0].evictions, 18);
    }

    #[test]
    fn what_hardly_counts_makes_no_cycle() {
        assert_eq!(cycles(&Pairs::from([((0, 1), 500), ((1, 0), 1), ((1, 2), 99)])), []);
        assert_eq!(cycles(&Pairs::from([((0, 0), 100)])), []);
        assert_eq!(cycles(&Pairs::new()), []);
    }
}
