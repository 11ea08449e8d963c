//! Nests of loops whose other orders are known: the captured and reordered accesses are compared
//! with those of the loops written in the other order by hand.
use memtrail_model::{Access, AccessSink, Event, Flow, Kind, Point, Thread};
use memtrail_whatif::capture::{Capture, Standing, Window};
use memtrail_whatif::legality;
use memtrail_whatif::order::Order;
use std::collections::HashSet;

const N: u64 = 6;
const ROW: u64 = 8 * N;
const A: u64 = 0x10000;
const B: u64 = 0x20000;
const C: u64 = 0x30000;

/// A program: what it fetches and accesses, in order.
#[derive(Default)]
struct Program(Vec<Access>);

impl Program {
    fn push(&mut self, point: u32, kind: Kind, addr: u64) {
        self.0.push(Access {
            pc: u64::from(point),
            addr,
            size: 8,
            point: Point(point),
            thread: Thread(0),
            kind,
        });
    }
    fn fetch(&mut self, point: u32) {
        self.push(point, Kind::Fetch, 0);
    }
    fn read(&mut self, point: u32, addr: u64) {
        self.push(point, Kind::Read, addr);
    }
    fn write(&mut self, point: u32, addr: u64) {
        self.push(point, Kind::Write, addr);
    }
}

/// Fetch points: headers of three loops, one inside the other; 10 is in loop 1 behind loop 2, 11
/// is outside, 12 the header of a loop beside loop 1.
fn standing() -> Vec<Option<Standing>> {
    let at = |loops: &[u32], header| {
        Some(Standing {
            loops: loops.to_vec(),
            header,
        })
    };
    let mut all = vec![None; 13];
    all[0] = at(&[0], true);
    all[1] = at(&[0, 1], true);
    all[2] = at(&[0, 1, 2], true);
    all[10] = at(&[0, 1], false);
    all[12] = at(&[0, 3], true);
    all
}

fn captured(program: &Program, budget: usize) -> Option<Window> {
    let mut capture = Capture::new(standing(), None, budget);
    for part in program.0.chunks(7) {
        capture.accesses(part);
    }
    capture.finish()
}

/// What an order makes of a window: reference points, kinds and addresses.
fn made(order: &Order, window: &Window) -> Vec<(u32, Kind, u64)> {
    let made = order.accesses(window);
    made.iter().map(|a| (a.point.0, a.kind, a.addr)).collect()
}

fn cell(array: u64, row: u64, column: u64) -> u64 {
    array + row * ROW + column * 8
}

/// A matrix product whose sum is kept in a register, as compilers do.
fn product() -> Program {
    let mut p = Program::default();
    p.fetch(11);
    for i in 0..N {
        p.fetch(0);
        for j in 0..N {
            p.fetch(1);
            p.read(20, cell(C, i, j));
            for k in 0..N {
                p.fetch(2);
                p.read(21, cell(A, i, k));
                p.read(22, cell(B, k, j));
            }
            p.fetch(10);
            p.write(23, cell(C, i, j));
        }
    }
    p.fetch(11);
    p.read(24, 0);
    p
}

#[test]
fn what_stands_in_the_nest_is_captured_with_its_iteration() {
    let window = captured(&product(), 1 << 20).unwrap();
    assert_eq!(window.accesses.len() as u64, N * N * (2 + 2 * N));
    assert_eq!(window.iterations, N);
    assert!(!window.cut);
    assert_eq!(window.loops, [vec![0], vec![1], vec![2]]);
    for captured in &window.accesses {
        let [i, j, k, _] = captured.at.index.map(u64::from);
        let expected = match captured.access.point.0 {
            20 => (cell(C, i, j), k == 0),
            21 => (cell(A, i, k), true),
            22 => (cell(B, k, j), true),
            _ => (cell(C, i, j), k == N - 1),
        };
        assert_eq!((captured.access.addr, true), expected);
    }
}

#[test]
fn the_original_order_is_what_was_made() {
    let program = product();
    let window = captured(&program, 1 << 20).unwrap();
    let own: Vec<Access> = window.accesses.iter().map(|a| a.access).collect();
    assert_eq!(Order::original(3).accesses(&window), own);
    assert_eq!(legality::check(&window, &Order::original(3), &HashSet::new()), Ok(()));
}

#[test]
fn an_interchanged_product_is_the_one_written_that_way() {
    let window = captured(&product(), 1 << 20).unwrap();
    let order = Order::interchanged(3, 1, 2);
    let mut expected = Vec::new();
    for i in 0..N {
        for k in 0..N {
            for j in 0..N {
                expected.push((20, Kind::Read, cell(C, i, j)));
                expected.push((21, Kind::Read, cell(A, i, k)));
                expected.push((22, Kind::Read, cell(B, k, j)));
                expected.push((23, Kind::Write, cell(C, i, j)));
            }
        }
    }
    assert_eq!(made(&order, &window), expected);
    assert_eq!(legality::check(&window, &order, &HashSet::new()), Ok(()));
}

#[test]
fn a_tiled_product_is_the_one_written_that_way() {
    const T: u64 = 4;
    let window = captured(&product(), 1 << 20).unwrap();
    let order = Order::original(3).tiled(&[1, 2], T as u32);
    let mut expected = Vec::new();
    for jj in (0..N).step_by(T as usize) {
        for kk in (0..N).step_by(T as usize) {
            for i in 0..N {
                for j in jj..(jj + T).min(N) {
                    expected.push((20, Kind::Read, cell(C, i, j)));
                    for k in kk..(kk + T).min(N) {
                        expected.push((21, Kind::Read, cell(A, i, k)));
                        expected.push((22, Kind::Read, cell(B, k, j)));
                    }
                    expected.push((23, Kind::Write, cell(C, i, j)));
                }
            }
        }
    }
    assert_eq!(made(&order, &window), expected);
    assert_eq!(legality::check(&window, &order, &HashSet::new()), Ok(()));
}

/// `for i: for j: a[i][j] = a[i-1][j+shift]`, without the borders.
fn wavefront(shift: i64) -> Program {
    let mut p = Program::default();
    for i in 1..N {
        p.fetch(0);
        for j in 1..N - 1 {
            p.fetch(1);
            p.read(20, cell(A, i - 1, j.wrapping_add_signed(shift)));
            p.write(21, cell(A, i, j));
        }
    }
    p.fetch(11);
    p
}

#[test]
fn an_order_that_breaks_a_dependence_is_found() {
    let order = Order::interchanged(2, 0, 1);
    let forward = captured(&wavefront(-1), 1 << 20).unwrap();
    assert_eq!(legality::check(&forward, &order, &HashSet::new()), Ok(()));
    let backward = captured(&wavefront(1), 1 << 20).unwrap();
    let broken = legality::check(&backward, &order, &HashSet::new()).unwrap_err();
    // The first read of what an earlier row wrote, one column further on.
    assert_eq!(broken.address, cell(A, 1, 2));
    assert_eq!(backward.accesses[broken.access as usize].access.kind, Kind::Read);
}

/// METRIC's adi: two loops down the columns, in a loop over the columns.
fn columns() -> Program {
    let mut p = Program::default();
    for k in 0..N {
        p.fetch(0);
        for i in 1..N {
            p.fetch(1);
            p.read(20, cell(A, i - 1, k));
            p.write(21, cell(A, i, k));
        }
        for i in 1..N {
            p.fetch(12);
            p.read(22, cell(B, i - 1, k));
            p.write(23, cell(B, i, k));
        }
    }
    p.fetch(11);
    p
}

#[test]
fn loops_beside_each_other_are_distributed_and_fused() {
    let window = captured(&columns(), 1 << 20).unwrap();
    assert_eq!(window.loops, [vec![0], vec![1, 3]]);
    let order = Order::interchanged(2, 0, 1);
    let body = |array: u64, first: u32, i: u64, k: u64| {
        [
            (first, Kind::Read, cell(array, i - 1, k)),
            (first + 1, Kind::Write, cell(array, i, k)),
        ]
    };
    let nest = |array, first| {
        let cells = (1..N).flat_map(|i| (0..N).map(move |k| (i, k)));
        cells.flat_map(move |(i, k)| body(array, first, i, k))
    };
    let distributed: Vec<_> = nest(A, 20).chain(nest(B, 22)).collect();
    assert_eq!(made(&order, &window), distributed);
    let cells = (1..N).flat_map(|i| (0..N).map(move |k| (i, k)));
    let fused: Vec<_> = cells
        .flat_map(|(i, k)| body(A, 20, i, k).into_iter().chain(body(B, 22, i, k)))
        .collect();
    assert_eq!(made(&order.fused(1), &window), fused);
    for order in [order.fused(1), order, Order::original(2).fused(1)] {
        assert_eq!(legality::check(&window, &order, &HashSet::new()), Ok(()));
    }
}

#[test]
fn fusing_what_depends_on_later_iterations_is_found() {
    // The second loop reads what the first one writes in the next iteration.
    let mut p = Program::default();
    for k in 0..2 {
        p.fetch(0);
        for i in 1..N {
            p.fetch(1);
            p.write(21, cell(A, i, k));
        }
        for i in 1..N {
            p.fetch(12);
            p.read(22, cell(A, i + 1, k));
        }
    }
    p.fetch(11);
    let window = captured(&p, 1 << 20).unwrap();
    let broken = legality::check(&window, &Order::original(2).fused(1), &HashSet::new()).unwrap_err();
    assert_eq!(broken.address, cell(A, 2, 0));
}

#[test]
fn what_a_called_function_does_belongs_to_the_iteration() {
    let mut capture = Capture::new(standing(), None, 1000);
    for i in 0..3 {
        let mut p = Program::default();
        p.fetch(0);
        capture.accesses(&p.0);
        let thread = Thread(0);
        let call = Flow::Call {
            site: 0,
            target: 0,
            slot: 0,
        };
        capture.event(Event::Flow { thread, flow: call });
        let mut p = Program::default();
        // The function's own code, which is not in the nest, nor are its loops.
        p.fetch(11);
        p.read(30, i);
        capture.accesses(&p.0);
        let flow = Flow::Return { slot: 0 };
        capture.event(Event::Flow { thread, flow });
    }
    let window = capture.finish().unwrap();
    let at: Vec<(u32, u64)> = window.accesses.iter().map(|a| (a.at.index[0], a.access.addr)).collect();
    assert_eq!(at, [(0, 0), (1, 1), (2, 2)]);
}

#[test]
fn a_window_ends_with_a_whole_iteration_of_the_root() {
    let per_iteration = (N * (2 + 2 * N)) as usize;
    let window = captured(&product(), per_iteration + 1).unwrap();
    assert_eq!(window.accesses.len(), 2 * per_iteration);
    assert_eq!((window.iterations, window.cut), (2, true));
    // An iteration that has more than four times what is wanted is refused.
    assert_eq!(captured(&product(), per_iteration / 5), None);
    assert!(captured(&product(), per_iteration / 4).is_some());
}

#[test]
fn a_root_that_is_entered_again_is_another_instance() {
    let mut p = columns();
    p.0.extend(columns().0);
    let window = captured(&p, 1 << 20).unwrap();
    let half = window.accesses.len() / 2;
    assert!(window.accesses[..half].iter().all(|a| a.at.instance == 0));
    assert!(window.accesses[half..].iter().all(|a| a.at.instance == 1));
    let order = Order::interchanged(2, 0, 1);
    let once = captured(&columns(), 1 << 20).unwrap();
    assert_eq!(made(&order, &window)[..half], made(&order, &once)[..]);
}

#[test]
fn scalars_on_the_stack_do_not_count() {
    let mut p = Program::default();
    const SCALAR: u64 = 0x7fff_0000;
    for i in 0..N {
        p.fetch(0);
        for j in 0..N {
            p.fetch(1);
            p.read(20, SCALAR);
            p.read(21, cell(A, i, j));
            p.write(22, SCALAR);
        }
    }
    p.fetch(11);
    let window = captured(&p, 1 << 20).unwrap();
    let order = Order::interchanged(2, 0, 1);
    assert!(legality::check(&window, &order, &HashSet::new()).is_err());
    assert_eq!(legality::private(&window, |_| false), HashSet::new());
    let private = legality::private(&window, |_| true);
    assert_eq!(private, HashSet::from([20, 22]));
    assert_eq!(legality::check(&window, &order, &private), Ok(()));
}
