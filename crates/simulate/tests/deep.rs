//! Loops over loops over loops count what access by access counts, whatever is left out of them at
//! any depth.

use memtrail_model::{gcd, Access, AccessSink, Event, Kind, LoopAccess, LoopRun, Mover, Point, Repeat, Reply, Thread};
use memtrail_naive::{without_idle_points, Naive};
use memtrail_simulate::config::{Policy, Write};
use memtrail_simulate::{Hierarchy, Level, Options, Simulator};
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

/// How the accesses of a loop move, of which the loops from `depth` on are `trips`, the outermost
/// first.
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
                    point: Point(site.point),
                    times: trips[1..].iter().product(),
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
    hand_over_some(simulator, trips, trips, body, around);
}

/// A loop of which only so many iterations are wanted.
fn hand_over_some(simulator: &mut Simulator, trips: u64, wanted: u64, body: &[Node], around: &[u64]) {
    let sites: Option<Vec<&Site>> = body
        .iter()
        .map(|node| if let Node::Site(site) = node { Some(site) } else { None })
        .collect();
    if let Some(sites) = sites.filter(|_| simulator.wants().loops.is_some()) {
        let access = |site: &&Site| LoopAccess {
            pc: 0,
            point: Point(site.point),
            kind: site.kind,
            size: site.size,
            addr: site.addr(around),
            stride: site.strides[around.len()] as u64,
        };
        let body: Vec<LoopAccess> = sites.iter().map(access).collect();
        let run = LoopRun {
            thread: Thread(0),
            trips: wanted,
            body: &body,
        };
        if simulator.event(Event::Loop(run)) == Reply::skip(wanted) {
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
    let mut after = match simulator.wants().repeats {
        true => simulator.event(Event::Enter(repeat)).after,
        false => 0,
    };
    let entered = after > 0;
    let (mut at, mut since) = (0, 0);
    while at < wanted {
        hand_over(simulator, body, &[around, &[at]].concat());
        (at, since) = (at + 1, since + 1);
        if since == after && at < wanted {
            let (done, left) = (since, wanted - at);
            let next = simulator.event(Event::Iterated { repeat, done, left });
            (since, after) = (0, next.after);
            at += next.skip;
            assert!(at <= wanted);
        }
    }
    if entered {
        simulator.event(Event::Leave);
    }
}

/// Compares with the naive simulator; returns how many accesses were left out.
fn agree(hierarchy: &Hierarchy, nodes: &[Node], options: Options) -> u64 {
    agree_in(0, hierarchy, nodes, options)
}

/// The same in some address space.
fn agree_in(space: u32, hierarchy: &Hierarchy, nodes: &[Node], options: Options) -> u64 {
    let mut simulator = Simulator::new(hierarchy, options).expect("a hierarchy that makes sense");
    let thread = Thread(0);
    simulator.event(Event::Space { thread, space });
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
    // The third line of c has been touched in part, so that not all columns there do the same; and
    // half of b is there already.
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
    // All fits. Of each line of b the first half has been touched: its columns are not spatial, but
    // the others are.
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

/// A factorisation in place, without its last steps: row k is subtracted from all behind it.
/// `ahead`: the head of each row is computed at the end of the iteration before, as a recording may
/// have it.
fn factorisation(n: u64, row: i64, steps: u64, ahead: bool) -> Vec<Node> {
    let mut nodes = Vec::new();
    for k in 0..steps {
        let at = |i: u64, j: u64| (1 << 20) + 24 + i * row as u64 + 8 * j;
        let inner = vec![
            site(0, Kind::Read, at(k, k + 1), [0, 8, 0]),
            site(1, Kind::Read, at(k + 1, k + 1), [row, 8, 0]),
            site(2, Kind::Write, at(k + 1, k + 1), [row, 8, 0]),
        ];
        let subtract = Node::Loop(n - k - 1, inner);
        let head = |i: u64| {
            [
                site(3, Kind::Read, at(i, k), [row, 0, 0]),
                site(4, Kind::Read, at(k, k), [0; DEEPEST]),
                site(5, Kind::Write, at(i, k), [row, 0, 0]),
            ]
        };
        if ahead {
            nodes.extend(head(k + 1));
            let body = [subtract].into_iter().chain(head(k + 2)).collect();
            nodes.push(Node::Loop(n - k - 1, body));
        } else {
            let body = head(k + 1).into_iter().chain([subtract]).collect();
            nodes.push(Node::Loop(n - k - 1, body));
        }
    }
    nodes
}

#[test]
fn rows_that_go_by_a_row_that_stays_are_left_out() {
    // Rows are 9.5 lines, or 10.125; neighbouring ones share a line or do not.
    for (n, row) in [(76, 608), (81, 648), (70, 648)] {
        for (sets, ways) in [(16, 8), (8, 8), (5, 16), (32, 4), (8, 16)] {
            for ahead in [false, true] {
                let hierarchy = Hierarchy::of(vec![Level::new("L1", sets * u64::from(ways) * 64, 64, ways)]);
                let mut nodes = factorisation(n, row, 12, ahead);
                let left_out = agree(&hierarchy, &nodes, Options::default());
                // Who evicts whom is not known of rows that are left out so.
                let others = agree(
                    &hierarchy,
                    &nodes,
                    Options {
                        evictors: true,
                        ..Options::default()
                    },
                );
                let mut all = Vec::new();
                expand(&nodes, &[], &mut all);
                assert!(
                    2 * left_out >= all.len() as u64 && left_out > others,
                    "{left_out} or {others} of {} with {sets} sets of {ways} ways, rows of {row}",
                    all.len()
                );
                // What is there in the end, and in which order.
                let again = site(6, Kind::Read, (1 << 20) + n * row as u64, [-64, 0, 0]);
                nodes.push(Node::Loop(sets * u64::from(ways), vec![again]));
                agree(&hierarchy, &nodes, Options::default());
                let simulated = Options {
                    no_skip: true,
                    ..Options::default()
                };
                assert_eq!(agree(&hierarchy, &nodes, simulated), 0);
            }
        }
    }
}

#[test]
fn lines_that_are_there_already_are_not_missed() {
    // The first rows have just been written; or rows in the middle, which have gone before it is
    // their turn, or have not.
    let hierarchy = Hierarchy::of(vec![Level::new("L1", 8 * 4 * 64, 64, 4)]);
    for from in [0, 1, 2, 3, 5, 8, 20, 60] {
        let written = Node::Loop(16, vec![site(7, Kind::Write, (1 << 20) + from * 616 + 16, [64, 0, 0])]);
        let rows = vec![
            site(0, Kind::Read, 3 << 20, [0, 8, 0]),
            site(1, Kind::Read, 1 << 20, [616, 8, 0]),
        ];
        let nodes = [written, Node::Loop(80, vec![Node::Loop(50, rows)])];
        let left_out = agree(&hierarchy, &nodes, Options::default());
        assert_eq!(left_out > 0, from >= 8, "{left_out} from row {from}");
    }
}

#[test]
fn rows_that_others_come_to_are_not_new() {
    // Two rows go towards each other, apart from each other, or the one after the other; or come to
    // the one that stays.
    let hierarchy = Hierarchy::of(vec![Level::new("L1", 8 * 8 * 64, 64, 8)]);
    for (from, row) in [
        (0, -616),
        (1, -616),
        (2, -616),
        (40, -616),
        (81, -616),
        (5, 1232),
        (7, 616),
        (40, 0),
        (79, 0),
    ] {
        let rows = vec![
            site(0, Kind::Read, 3 << 20, [0, 8, 0]),
            site(1, Kind::Write, 1 << 20, [616, 8, 0]),
            site(2, Kind::Read, (1 << 20) + 616 * from, [row, 8, 0]),
        ];
        agree(
            &hierarchy,
            &[Node::Loop(80, vec![Node::Loop(50, rows)])],
            Options::default(),
        );
    }
}

#[test]
fn rows_that_are_prefetched_or_go_through_more_than_one_cache_agree() {
    let level = |name, sets: u64| Level::new(name, sets * 8 * 64, 64, 8);
    for kind in [Kind::Prefetch, Kind::Read] {
        let rows = vec![
            site(0, Kind::Read, 3 << 20, [0, 8, 0]),
            site(1, kind, (1 << 20) + 64, [616, 8, 0]),
            site(2, Kind::Write, 1 << 20, [616, 8, 0]),
        ];
        let nodes = [Node::Loop(80, vec![Node::Loop(50, rows)])];
        agree(&Hierarchy::of(vec![level("L1", 8)]), &nodes, Options::default());
        agree(
            &Hierarchy::of(vec![level("L1", 8), level("L2", 32)]),
            &nodes,
            Options::default(),
        );
    }
}

#[test]
fn rows_are_left_out_of_what_is_wanted_only() {
    let hierarchy = Hierarchy::of(vec![Level::new("L1", 8 * 8 * 64, 64, 8)]);
    let body = [Node::Loop(
        50,
        vec![
            site(0, Kind::Read, 3 << 20, [0, 8, 0]),
            site(1, Kind::Write, 1 << 20, [616, 8, 0]),
        ],
    )];
    for wanted in [1, 2, 9, 10, 20, 40, 79, 80] {
        let mut simulator = Simulator::new(&hierarchy, Options::default()).expect("a hierarchy that makes sense");
        hand_over_some(&mut simulator, 80, wanted, &body, &[]);
        simulator.flush();
        let mut naive = Naive::new(&hierarchy, false, false);
        let mut all = Vec::new();
        expand(&[Node::Loop(wanted, body.to_vec())], &[], &mut all);
        all.iter().for_each(|access| naive.access(access));
        naive.flush();
        assert_eq!(
            without_idle_points(simulator.counts()),
            without_idle_points(naive.counts())
        );
        assert!(wanted < 80 || simulator.skipped() > 0);
    }
}

#[test]
fn rows_with_gaps_are_not_taken_for_whole() {
    // Of each row some lines are not used: what was in their sets before stays there.
    let hierarchy = Hierarchy::of(vec![Level::new("L1", 8 * 8 * 64, 64, 8)]);
    let pass = |kind| Node::Loop(64, vec![site(7, kind, 5 << 20, [64, 0, 0])]);
    for (stride, row) in [(128, 8192 + 512), (128, 1024), (72, 1024), (72, 1032), (192, 1216)] {
        let rows = vec![
            site(0, Kind::Read, 3 << 20, [0, 8, 0]),
            site(1, Kind::Read, 1 << 20, [row, stride, 0]),
        ];
        let nodes = [
            pass(Kind::Write),
            Node::Loop(90, vec![Node::Loop(6, rows)]),
            pass(Kind::Read),
        ];
        agree(&hierarchy, &nodes, Options::default());
    }
}

#[test]
fn lines_that_only_one_of_two_rows_uses_count_once() {
    // Rows overlap, and each passes over lines that the one before or behind it uses: the last
    // one's are used by none.
    let hierarchy = Hierarchy::of(vec![Level::new("L1", 6 * 16 * 64, 64, 16)]);
    for (row, trips) in [(-576, 38), (576, 38), (-576, 60), (-640, 60)] {
        for old in 0..6 {
            let before = Node::Loop(4, vec![site(7, Kind::Write, (3 << 20) + 64 * old, [64, 0, 0])]);
            let rows = vec![
                Node::Loop(13, vec![site(0, Kind::Read, (1 << 20) + 64, [row, 77, 0])]),
                site(1, Kind::Read, (3 << 20) + 64 * old + 128, [0; DEEPEST]),
                site(2, Kind::Read, (5 << 20) + 24, [row, 0, 0]),
            ];
            let nodes = [before, Node::Loop(trips, rows)];
            assert!(agree(&hierarchy, &nodes, Options::default()) > 0);
        }
    }
}

#[test]
fn sets_that_no_row_comes_to_stay_as_they_are() {
    // Rows are as far apart as the cache is large: they are in the same sets, and in the others is
    // what is right of them.
    let hierarchy = Hierarchy::of(vec![Level::new("L1", 32 * 4 * 64, 64, 4)]);
    let rows = (1 << 20) + (100 << 11);
    for (row, length, least) in [
        (2048, 50, 60),
        (-2048, 50, 60),
        (4096, 120, 60),
        (1024, 30, 60),
        (2056, 50, 0),
    ] {
        let pass = |kind| {
            let beside = site(7, kind, rows + 1408, [row, 64, 0]);
            Node::Loop(8, vec![Node::Loop(8, vec![beside])])
        };
        let body = vec![
            site(0, Kind::Read, (3 << 20) + 576, [0, 8, 0]),
            site(1, Kind::Write, rows + 24, [row, 8, 0]),
        ];
        let go_by = Node::Loop(90, vec![Node::Loop(length, body)]);
        let nodes = [pass(Kind::Write), go_by, pass(Kind::Read)];
        let left_out = agree(&hierarchy, &nodes, Options::default());
        assert!(
            left_out >= least * 2 * length,
            "{left_out} of rows of {length}, {row} apart"
        );
    }
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

/// Rows that go by rows that stay: how far from one to the next, and what is done to each.
fn a_stream() -> impl Strategy<Value = Vec<Node>> {
    let row = prop_oneof![4 => (20..80i64).prop_map(|i| 8 * i), 2 => (2..10i64).prop_map(|i| 64 * i), 1 => 100..700i64];
    let one = (
        0..6u32,
        prop::bool::weighted(0.4),
        prop_oneof![6 => Just(8u32), 1 => Just(4), 1 => 1..24u32],
        // Of which array, and where in its row.
        prop_oneof![3 => Just(0u64), 3 => Just(1), 1 => Just(2)],
        prop_oneof![3 => (0..6u64).prop_map(|i| 8 * i), 1 => 0..700u64],
        prop_oneof![8 => Just(8i64), 1 => Just(16), 1 => Just(-8), 1 => Just(64), 1 => Just(0), 1 => -90..90i64],
    );
    let sites = |most| prop::collection::vec(one.clone(), 0..most);
    let shape = (row, any::<bool>(), 1..60u64, 8..120u64);
    // What has been there before, and is used in the end.
    let other = (0..3u64, -2..40i64, 1..60u64, select(vec![64i64, -64, 8, 200]));
    let others = || prop::collection::vec(other.clone(), 0..3);
    (
        shape,
        sites(3),
        prop::collection::vec(one.clone(), 1..4),
        sites(3),
        others(),
        others(),
    )
        .prop_map(|((row, up, length, trips), head, inner, tail, before, after)| {
            let outer = if up { row } else { -row };
            let array = |at: u64| (1 << 30) + (at << 20) + 24;
            let a_site = |&(point, is_write, size, at, offset, stride): &(u32, bool, u32, u64, u64, i64), is_inner| {
                let kind = if is_write { Kind::Write } else { Kind::Read };
                Node::Site(Site {
                    point: point * 2 + kind as u32,
                    kind,
                    size,
                    base: array(at) + offset,
                    // The first array stays.
                    strides: [if at == 0 { 0 } else { outer }, if is_inner { stride } else { 0 }, 0],
                })
            };
            let mut body: Vec<Node> = head.iter().map(|one| a_site(one, false)).collect();
            body.push(Node::Loop(length, inner.iter().map(|one| a_site(one, true)).collect()));
            body.extend(tail.iter().map(|one| a_site(one, false)));
            let pass = |&(at, row, trips, stride): &(u64, i64, u64, i64)| {
                let base = array(at).wrapping_add_signed(row * outer);
                Node::Loop(trips, vec![site(20, Kind::Write, base, [stride, 0, 0])])
            };
            let mut nodes: Vec<Node> = before.iter().map(pass).collect();
            nodes.push(Node::Loop(trips, body));
            nodes.extend(after.iter().map(pass));
            nodes
        })
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

    /// Rows that go by, in caches that hold a few of them, twice.
    #[test]
    fn streams_agree(
        sets in prop_oneof![3 => 1..20u64, 1 => select(vec![8u64, 16])],
        ways in prop_oneof![1 => 1..17u32, 2 => select(vec![4u32, 8, 16])],
        line in prop_oneof![4 => Just(64u32), 1 => Just(32), 1 => Just(128)],
        write in prop_oneof![4 => Just(Write::Back), 1 => Just(Write::None), 1 => Just(Write::Through)],
        allocate in prop::bool::weighted(0.9),
        (first, second) in (a_stream(), a_stream()),
        (evictors, space) in (prop::bool::weighted(0.1), 0..2u32),
    ) {
        let level = Level { write, allocate, ..Level::new("L1", sets * u64::from(ways * line), line, ways) };
        let options = Options { evictors, ..Options::default() };
        agree_in(space, &Hierarchy::of(vec![level]), &[first, second].concat(), options);
    }

    /// Steps of a factorisation, in caches of all shapes.
    #[test]
    fn factorisations_agree(
        n in 4..70u64,
        pad in 0..20i64,
        sets in 1..20u64,
        ways in select(vec![2u32, 4, 8, 16]),
        line in select(vec![32u32, 64, 128]),
        ahead in any::<bool>(),
    ) {
        let level = Level::new("L1", sets * u64::from(ways * line), line, ways);
        let nodes = factorisation(n, n as i64 * 8 + pad * 8, n.min(6), ahead);
        agree(&Hierarchy::of(vec![level]), &nodes, Options::default());
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
