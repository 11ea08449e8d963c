//! Loops over loops over loops count what access by access counts, whatever is left out of them at any depth.
mod naive;

use memtrail_model::{Access, AccessSink, Kind, LoopAccess, LoopRun, Mover, Point, Repeat, Thread};
use memtrail_simulate::config::{Policy, Write};
use memtrail_simulate::{Hierarchy, Level, LevelCounts, Options, PointCounts, Simulator};
use naive::Naive;
use proptest::prelude::*;
use proptest::sample::select;

const DEEPEST: usize = 3;

/// An access in the iterations of the loops around it, the outermost first.
#[derive(Clone, Debug)]
struct Site {
    point: u32,
    kind: Kind,
    size: u32,
    base: u64,
    strides: [i64; DEEPEST],
}

impl Site {
    fn addr(&self, iterations: &[u64]) -> u64 {
        let ways = self.strides.iter().zip(iterations);
        ways.fold(self.base, |addr, (&stride, &i)| {
            addr.wrapping_add_signed(stride * i as i64)
        })
    }

    fn access(&self, iterations: &[u64]) -> Access {
        Access {
            pc: 0,
            thread: Thread(0),
            point: Point(self.point),
            kind: self.kind,
            addr: self.addr(iterations),
            size: self.size,
        }
    }
}

#[derive(Clone, Debug)]
enum Node {
    Loop(u64, Vec<Node>),
    Site(Site),
}

/// All accesses, with the iterations of the loops around.
fn expand(nodes: &[Node], around: &[u64], out: &mut Vec<Access>) {
    for node in nodes {
        match node {
            Node::Site(site) => out.push(site.access(around)),
            Node::Loop(trips, body) => (0..*trips).for_each(|i| expand(body, &[around, &[i]].concat(), out)),
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// How the accesses of a loop move, of which the loops from `depth` on are `trips`, the outermost first.
fn movers(nodes: &[Node], around: &[u64], trips: &[u64], out: &mut Vec<Mover>) {
    for node in nodes {
        match node {
            Node::Loop(inner, body) => movers(body, around, &[trips, &[*inner]].concat(), out),
            Node::Site(site) => {
                let depth = around.len();
                let (mut low, mut high, mut grain) = (0, 0, 0);
                for (at, (&trips, &stride)) in trips.iter().zip(&site.strides[depth..]).enumerate() {
                    let way = stride * (trips as i64 - 1);
                    (low, high) = (low + way.min(0), high + way.max(0));
                    if at > 0 && trips > 1 {
                        grain = gcd(grain, stride.unsigned_abs());
                    }
                }
                let first = site.addr(around);
                out.push(Mover {
                    kind: site.kind,
                    shift: site.strides[depth] as u64,
                    first,
                    size: site.size,
                    grain,
                    low: first.wrapping_add_signed(low),
                    high: first.wrapping_add_signed(high) + u64::from(site.size.max(1)) - 1,
                });
            }
        }
    }
}

/// Hands nodes over as a replay does.
fn hand_over(simulator: &mut Simulator, nodes: &[Node], around: &[u64]) {
    for node in nodes {
        match node {
            Node::Site(site) => simulator.accesses(&[site.access(around)]),
            Node::Loop(trips, body) => hand_over_loop(simulator, *trips, body, around),
        }
    }
}

fn hand_over_loop(simulator: &mut Simulator, trips: u64, body: &[Node], around: &[u64]) {
    let sites: Option<Vec<&Site>> = body
        .iter()
        .map(|node| if let Node::Site(site) = node { Some(site) } else { None })
        .collect();
    if let Some(sites) = sites.filter(|_| simulator.wants_loops()) {
        let access = |site: &&Site| LoopAccess {
            pc: 0,
            point: Point(site.point),
            kind: site.kind,
            size: site.size,
            addr: site.addr(around),
            stride: site.strides[around.len()] as u64,
        };
        let body: Vec<LoopAccess> = sites.iter().map(access).collect();
        if simulator.looped(&LoopRun {
            thread: Thread(0),
            trips,
            body: &body,
        }) {
            return;
        }
    }
    let mut all = Vec::new();
    movers(body, around, &[trips], &mut all);
    let mut once = Vec::new();
    expand(body, &[around, &[0]].concat(), &mut once);
    let repeat = Repeat {
        thread: Thread(0),
        trips,
        accesses: once.len() as u64,
        movers: &all,
    };
    let mut after = if simulator.wants_repeats() {
        simulator.enters(&repeat)
    } else {
        0
    };
    let entered = after > 0;
    let (mut at, mut since) = (0, 0);
    while at < trips {
        hand_over(simulator, body, &[around, &[at]].concat());
        (at, since) = (at + 1, since + 1);
        if since == after && at < trips {
            let next = simulator.iterated(&repeat, since, trips - at);
            (since, after) = (0, next.after);
            at += next.skip;
            assert!(at <= trips);
        }
    }
    if entered {
        simulator.leaves();
    }
}

fn without_idle_points(mut counts: Vec<LevelCounts>) -> Vec<LevelCounts> {
    for level in &mut counts {
        let used = level.points.iter().rposition(|point| *point != PointCounts::default());
        level.points.truncate(used.map_or(0, |last| last + 1));
    }
    counts
}

/// Compares with the naive simulator; returns how many accesses were left out.
fn agree(hierarchy: &Hierarchy, nodes: &[Node], options: Options) -> u64 {
    agree_in(0, hierarchy, nodes, options)
}

/// The same in some address space.
fn agree_in(space: u32, hierarchy: &Hierarchy, nodes: &[Node], options: Options) -> u64 {
    let mut simulator = Simulator::new(hierarchy, options).expect("a hierarchy that makes sense");
    simulator.space(Thread(0), space);
    hand_over(&mut simulator, nodes, &[]);
    let mut naive = Naive::new(hierarchy, options.evictors, options.classes);
    naive.premature = options.premature;
    naive.set_space(0, space);
    let mut all = Vec::new();
    expand(nodes, &[], &mut all);
    all.iter().for_each(|access| naive.access(access));
    simulator.flush();
    naive.flush();
    assert_eq!(
        without_idle_points(simulator.counts()),
        without_idle_points(naive.counts())
    );
    simulator.skipped()
}

fn site(point: u32, kind: Kind, base: u64, strides: [i64; DEEPEST]) -> Node {
    Node::Site(Site {
        point,
        kind,
        size: 8,
        base,
        strides,
    })
}

/// A matrix product of so many rows and columns, each row of so many bytes.
fn product(n: u64, row: i64) -> Vec<Node> {
    let inner = vec![
        site(0, Kind::Read, 1 << 20, [row, 0, 8]),
        site(1, Kind::Read, 2 << 20, [0, 8, row]),
    ];
    let middle = vec![
        Node::Loop(n, inner),
        site(2, Kind::Read, 3 << 20, [row, 8, 0]),
        site(3, Kind::Write, 3 << 20, [row, 8, 0]),
    ];
    vec![Node::Loop(n, vec![Node::Loop(n, middle)])]
}

#[test]
fn columns_of_a_product_that_share_lines_are_left_out() {
    // Neither does a row of the result repeat another, nor do columns, with whole lines, in so few.
    for (lines, least) in [(64, 0.5), (8, 0.5), (1024, 0.0)] {
        let hierarchy = Hierarchy::of(vec![Level::new("L1", lines * 64, 64, 8)]);
        let nodes = product(40, 40 * 8 + 64 * 9);
        let left_out = agree(
            &hierarchy,
            &nodes,
            Options {
                evictors: true,
                ..Options::default()
            },
        );
        let all = 40 * 40 * (2 * 40 + 2);
        assert!(
            left_out as f64 >= least * all as f64,
            "{left_out} of {all} with {lines} lines"
        );
        assert_eq!(
            agree(
                &hierarchy,
                &nodes,
                Options {
                    no_skip: true,
                    ..Options::default()
                }
            ),
            0
        );
    }
}

#[test]
fn bytes_that_were_touched_before_are_not_spatial_again() {
    // The third line of c has been touched in part, so that not all columns there do the same; and half of b is there already.
    let mut nodes = vec![
        site(9, Kind::Read, (3 << 20) + 128 + 24, [0; DEEPEST]),
        Node::Loop(5, vec![site(8, Kind::Write, (2 << 20) + 32, [896, 0, 0])]),
    ];
    nodes.extend(product(10, 896));
    for lines in [16, 32, 64, 256] {
        let hierarchy = Hierarchy::of(vec![Level::new("L1", lines * 64, 64, 8)]);
        agree(
            &hierarchy,
            &nodes,
            Options {
                evictors: true,
                ..Options::default()
            },
        );
    }
}

#[test]
fn lines_that_were_touched_in_part_are_not_taken_for_whole() {
    // All fits. Of each line of b the first half has been touched: its columns are not spatial, but the others are.
    let half = Node::Site(Site {
        point: 9,
        kind: Kind::Write,
        size: 32,
        base: 2 << 20,
        strides: [64, 0, 0],
    });
    let inner = vec![
        site(0, Kind::Read, 1 << 20, [0, 0, 8]),
        site(1, Kind::Read, 2 << 20, [0, 8, 64]),
    ];
    let middle = vec![Node::Loop(40, inner), site(2, Kind::Write, 3 << 20, [0, 8, 0])];
    let nodes = [Node::Loop(40, vec![half]), Node::Loop(1, vec![Node::Loop(8, middle)])];
    let hierarchy = Hierarchy::of(vec![Level::new("L1", 64 * 64, 64, 8)]);
    assert_eq!(agree(&hierarchy, &nodes, Options::default()), 0);
}

fn a_site() -> impl Strategy<Value = Site> {
    let kind = prop_oneof![8 => Just(Kind::Read), 5 => Just(Kind::Write), 1 => Just(Kind::Prefetch)];
    let size = prop_oneof![8 => Just(8u32), 1 => Just(4), 1 => Just(1), 1 => 0..40u32];
    let offset = prop_oneof![6 => (0..16u64).prop_map(|i| 8 * i), 1 => 0..128u64];
    let outer =
        prop_oneof![2 => Just(0i64), 2 => Just(8), 2 => select(vec![64i64, 320, 400, 512, -64]), 1 => -200..200i64];
    let middle =
        prop_oneof![3 => Just(0i64), 4 => Just(8), 1 => select(vec![4i64, 16, -8, 1, 64, 128]), 1 => -100..100i64];
    let inner = prop_oneof![2 => Just(0i64), 3 => Just(8), 4 => select(vec![64i64, 128, 192, 320, -64, 16, 32]), 1 => -300..300i64];
    (0..6u32, kind, size, 0..4u64, offset, outer, middle, inner).prop_map(
        |(point, kind, size, array, offset, outer, middle, inner)| Site {
            point: point * 3 + kind as u32,
            kind,
            size,
            base: (1 << 30) + (array << 20) + offset,
            strides: [outer, middle, inner],
        },
    )
}

fn a_nest() -> impl Strategy<Value = Node> {
    let sites = |most: usize| prop::collection::vec(a_site().prop_map(Node::Site), 0..most);
    let inner = || (1..24u64, prop::collection::vec(a_site().prop_map(Node::Site), 1..4));
    let middle = (
        sites(2),
        inner(),
        sites(3),
        prop::option::weighted(0.2, inner()),
        1..40u64,
    );
    let middle = middle.prop_map(|(mut body, (trips, first), after, second, times)| {
        body.push(Node::Loop(trips, first));
        body.extend(after);
        body.extend(second.map(|(trips, second)| Node::Loop(trips, second)));
        Node::Loop(times, body)
    });
    (sites(2), middle, prop_oneof![3 => 1..5u64, 1 => 5..40u64]).prop_map(|(mut body, middle, times)| {
        body.push(middle);
        Node::Loop(times, body)
    })
}

fn a_level() -> impl Strategy<Value = Level> {
    let policy = prop_oneof![8 => Just(Policy::Lru), 2 => Just(Policy::Fifo), 1 => Just(Policy::Plru), 1 => Just(Policy::Random)];
    let write = prop_oneof![4 => Just(Write::Back), 1 => Just(Write::None), 1 => Just(Write::Through)];
    let line = prop_oneof![4 => Just(64u32), 1 => Just(32), 1 => Just(128)];
    (0..5u32, 1..12u64, policy, write, line, prop::bool::weighted(0.8)).prop_map(
        |(ways, sets, policy, write, line, allocate)| {
            let ways = 1 << ways;
            Level {
                policy,
                write,
                allocate,
                ..Level::new("L", sets * u64::from(ways * line), line, ways)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_nests_agree(
        mut levels in prop_oneof![3 => prop::collection::vec(a_level(), 1..2), 1 => prop::collection::vec(a_level(), 2..4)],
        nests in prop::collection::vec(a_nest(), 1..3),
        (evictors, classes, premature) in (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.2)),
        space in 0..2u32,
        (no_skip, one_by_one) in (prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
    ) {
        for (i, level) in levels.iter_mut().enumerate() {
            level.name = format!("L{i}");
        }
        let hierarchy = Hierarchy::of(levels);
        prop_assume!(hierarchy.check().is_ok());
        let options = Options { evictors, classes, premature, no_skip, one_by_one, ..Options::default() };
        agree_in(space, &hierarchy, &nests, options);
    }

    /// Products of all shapes, in caches about as large as a column or a row.
    #[test]
    fn products_agree(
        n in 2..40u64,
        pad in 0..20i64,
        sets in 1..9u64,
        ways in select(vec![1u32, 2, 4, 8]),
        line in select(vec![32u32, 64]),
        evictors in any::<bool>(),
    ) {
        let level = Level::new("L1", sets * u64::from(ways * line), line, ways);
        let nodes = product(n, n as i64 * 8 + pad * 8);
        agree(&Hierarchy::of(vec![level]), &nodes, Options { evictors, ..Options::default() });
    }
}
