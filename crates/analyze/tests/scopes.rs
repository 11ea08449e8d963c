//! Loops: known shapes by hand, and any graph against the textbook definition by dominators.
use memtrail_analyze::scopes::Scopes;
use memtrail_model::{Edge, Via};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A way from a stretch whose last instruction is 4 bytes long.
fn way(start: u64, end: u64, target: u64, via: Via) -> Edge {
    let last = end - 4;
    Edge {
        start,
        last,
        end,
        target,
        via,
    }
}

fn address(block: u64) -> u64 {
    0x1000 + 16 * block
}

/// Blocks of 16 bytes, and ways between them by number. All are executed: what leads nowhere
/// returns.
fn scopes_of(blocks: u64, ways: &[(u64, u64)]) -> Scopes {
    let returns = (0..blocks).map(|n| way(address(n), address(n) + 16, 0x9000, Via::Return));
    let jumps = ways.iter();
    let jumps = jumps.map(|&(from, to)| way(address(from), address(from) + 16, address(to), Via::Jump));
    let edges: Vec<Edge> = returns.chain(jumps).collect();
    Scopes::new(&edges, &[address(0)])
}

/// Header, blocks, parent, whether irreducible; by block numbers.
fn shapes(scopes: &Scopes) -> Vec<(u64, Vec<u64>, Option<u32>, bool)> {
    let number = |addr: u64| (addr - 0x1000) / 16;
    let shape = |l: &memtrail_analyze::scopes::Loop| {
        let blocks = l.ranges.iter().flat_map(|r| number(r.0)..number(r.1));
        (number(l.header), blocks.collect(), l.parent, l.irreducible)
    };
    scopes.loops().iter().map(shape).collect()
}

#[test]
fn no_loop() {
    let scopes = scopes_of(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    assert!(scopes.loops().is_empty());
    assert_eq!(scopes.innermost(0x1000), None);
}

#[test]
fn a_block_that_repeats_itself() {
    let scopes = scopes_of(3, &[(0, 1), (1, 1), (1, 2)]);
    assert_eq!(shapes(&scopes), [(1, vec![1], None, false)]);
    let one = &scopes.loops()[0];
    assert_eq!(one.depth, 0);
    assert_eq!(one.ranges, [(0x1010, 0x1020)]);
    assert_eq!(one.function, 0x1000);
    assert_eq!(scopes.innermost(0x101c), Some(0));
    assert_eq!(scopes.innermost(0x1020), None);
}

#[test]
fn loops_in_loops() {
    let scopes = scopes_of(6, &[(0, 1), (1, 2), (2, 3), (3, 3), (3, 2), (2, 4), (4, 1), (4, 5)]);
    let expected = [
        (1, vec![1, 2, 3, 4], None, false),
        (2, vec![2, 3], Some(0), false),
        (3, vec![3], Some(1), false),
    ];
    assert_eq!(shapes(&scopes), expected);
    let innermost = |n: u64| scopes.innermost(0x1000 + 16 * n);
    assert_eq!(
        [0, 1, 2, 3, 4, 5].map(innermost),
        [None, Some(0), Some(1), Some(2), Some(0), None]
    );
    assert_eq!(scopes.outwards(2).collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!(scopes.loops()[2].depth, 2);
}

#[test]
fn two_ways_back_to_one_header_are_one_loop() {
    let scopes = scopes_of(5, &[(0, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 4)]);
    assert_eq!(shapes(&scopes), [(1, vec![1, 2, 3], None, false)]);
}

#[test]
fn two_ways_in_are_irreducible() {
    let scopes = scopes_of(4, &[(0, 1), (0, 2), (1, 2), (2, 1), (2, 3)]);
    assert_eq!(shapes(&scopes), [(1, vec![1, 2], None, true)]);
}

#[test]
fn the_entry_of_a_function_may_be_a_header() {
    let scopes = scopes_of(2, &[(0, 1), (1, 0)]);
    assert_eq!(shapes(&scopes), [(0, vec![0, 1], None, false)]);
}

#[test]
fn a_stretch_may_be_left_before_its_end() {
    // From 0x1000, left at 0x1014 for code that comes back to 0x1008, and once at 0x103c.
    let edges = [
        way(0x1000, 0x1018, 0x2000, Via::Jump),
        way(0x1008, 0x1018, 0x2000, Via::Jump),
        way(0x1008, 0x1040, 0x9000, Via::Return),
        way(0x2000, 0x2008, 0x1008, Via::Jump),
    ];
    let scopes = Scopes::new(&edges, &[0x1000]);
    assert_eq!(scopes.loops().len(), 1);
    assert_eq!(scopes.loops()[0].header, 0x1008);
    assert_eq!(scopes.loops()[0].ranges, [(0x1008, 0x1018), (0x2000, 0x2008)]);
    let inside = |pc| scopes.innermost(pc).is_some();
    assert_eq!(
        [0x1000, 0x1008, 0x1014, 0x1018, 0x2000, 0x2004].map(inside),
        [false, true, true, false, true, true]
    );
}

#[test]
fn calls_come_back() {
    // A loop from 0x1010 to 0x1030 that calls 0x2000 at 0x101c.
    let edges = [
        way(0x1000, 0x1020, 0x2000, Via::Call),
        way(0x1010, 0x1020, 0x2000, Via::Call),
        way(0x2000, 0x2010, 0x1020, Via::Return),
        way(0x1020, 0x1030, 0x1010, Via::Jump),
        way(0x1020, 0x1040, 0x9000, Via::Return),
    ];
    let scopes = Scopes::new(&edges, &[]);
    assert_eq!(scopes.loops().len(), 1);
    assert_eq!(scopes.loops()[0].ranges, [(0x1010, 0x1030)]);
    assert_eq!(scopes.loops()[0].function, 0x1000);
    assert_eq!(scopes.innermost(0x2000), None, "what is called is another function");
}

#[test]
fn functions_are_apart() {
    // Each goes to the other at its end: that is no loop.
    let edges = [
        way(0x1000, 0x1010, 0x2000, Via::Jump),
        way(0x2000, 0x2010, 0x1000, Via::Jump),
    ];
    assert_eq!(Scopes::new(&edges, &[0x1000, 0x2000]).loops().len(), 0);
    assert_eq!(Scopes::new(&edges, &[0x1000]).loops().len(), 1);
    let of_nobody = Scopes::new(&edges, &[]);
    assert_eq!(
        of_nobody.loops()[0].function,
        0x1000,
        "the lowest address is taken for an entry"
    );
    let called = [edges[0], edges[1], way(0x3000, 0x3010, 0x2000, Via::Call)];
    assert_eq!(Scopes::new(&called, &[0x1000]).loops().len(), 0);
    assert_eq!(Scopes::new(&[], &[0x1000]), Scopes::default());
}

/// By block: the blocks without which it cannot be reached.
fn dominators(blocks: u64, edges: &[(u64, u64)]) -> Vec<Option<BTreeSet<u64>>> {
    let reach = |without: Option<u64>| {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![0];
        while let Some(at) = waiting.pop() {
            if Some(at) != without && seen.insert(at) {
                waiting.extend(edges.iter().filter(|e| e.0 == at).map(|e| e.1));
            }
        }
        seen
    };
    let all = reach(None);
    let of = |block| {
        let needs = (0..blocks).filter(|&d| d == block || (all.contains(&d) && !reach(Some(d)).contains(&block)));
        all.contains(&block).then(|| needs.collect())
    };
    (0..blocks).map(of).collect()
}

/// The natural loop of all back edges to each header.
fn natural_loops(edges: &[(u64, u64)], dominators: &[Option<BTreeSet<u64>>]) -> BTreeSet<(u64, Vec<u64>)> {
    let is_back = |e: &&(u64, u64)| dominators[e.0 as usize].as_ref().is_some_and(|d| d.contains(&e.1));
    let headers: BTreeSet<u64> = edges.iter().filter(is_back).map(|e| e.1).collect();
    let of = |header: u64| {
        let mut body = BTreeSet::from([header]);
        let mut waiting: Vec<u64> = edges
            .iter()
            .filter(is_back)
            .filter(|e| e.1 == header)
            .map(|e| e.0)
            .collect();
        while let Some(at) = waiting.pop() {
            if dominators[at as usize].is_some() && body.insert(at) {
                waiting.extend(edges.iter().filter(|e| e.1 == at).map(|e| e.0));
            }
        }
        (header, body.into_iter().collect())
    };
    headers.into_iter().map(of).collect()
}

/// Whether all cycles go through a back edge.
fn is_reducible(blocks: u64, edges: &[(u64, u64)], dominators: &[Option<BTreeSet<u64>>]) -> bool {
    let forward = |e: &&(u64, u64)| dominators[e.0 as usize].as_ref().is_some_and(|d| !d.contains(&e.1));
    let mut left: BTreeSet<u64> = (0..blocks).filter(|&b| dominators[b as usize].is_some()).collect();
    while let Some(&first) = left
        .iter()
        .find(|&&b| !edges.iter().filter(forward).any(|e| e.1 == b && left.contains(&e.0)))
    {
        left.remove(&first);
    }
    left.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn reducible_graphs_have_their_natural_loops(
        blocks in 1u64..9,
        edges in prop::collection::vec((0u64..9, 0u64..9), 0..16),
    ) {
        let mut edges: Vec<(u64, u64)> = edges.into_iter().filter(|e| e.0 < blocks && e.1 < blocks).collect();
        edges.sort_unstable();
        edges.dedup();
        let dominators = dominators(blocks, &edges);
        let scopes = scopes_of(blocks, &edges);
        let reached: BTreeSet<u64> = (0..blocks).filter(|&b| dominators[b as usize].is_some()).collect();
        let shapes: Vec<_> = shapes(&scopes).into_iter().filter(|s| reached.contains(&s.0)).collect();
        let reducible = is_reducible(blocks, &edges, &dominators);
        prop_assert_eq!(!reducible, shapes.iter().any(|s| s.3));
        if reducible {
            let found: BTreeSet<(u64, Vec<u64>)> = shapes.iter().map(|s| (s.0, s.1.clone())).collect();
            prop_assert_eq!(found.len(), shapes.len());
            prop_assert_eq!(found, natural_loops(&edges, &dominators));
        }
        // Loops are in their parents, and every place is in the innermost.
        for (number, one) in scopes.loops().iter().enumerate() {
            for &(start, end) in &one.ranges {
                for pc in (start..end).step_by(4) {
                    let innermost = scopes.innermost(pc).expect("in a loop");
                    prop_assert!(scopes.outwards(innermost).any(|l| l as usize == number));
                }
            }
            if let Some(parent) = one.parent {
                prop_assert!((parent as usize) < number);
            }
        }
    }
}
