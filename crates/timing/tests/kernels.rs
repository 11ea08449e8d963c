//! Small kernels whose time can be worked out by hand, on the paper's machine: 4 wide, 80 entries,
//! 8 misses; 3 cycles for the first level, 12 more for the second, 104 for a row of memory that is
//! not open, 40 for a line on the channel.
use memtrail_timing::presets::CorePreset;
use memtrail_timing::{Cause, Charged, CoreSpec, CoreWindow, Micro, Reach, UnitClass};

const N: u64 = 10_000;

fn alpha() -> CoreSpec {
    CorePreset::named("alpha21264").unwrap().spec().unwrap()
}

/// Reads registers and writes one.
fn op(class: UnitClass, from: u8, to: u8) -> Micro {
    Micro {
        sources: [from, 0, 0, 0],
        dests: [to, 0, 0, 0],
        ..Micro::new(class)
    }
}

/// A load of another line each time.
fn load(n: u64, level: u8, from: u8, to: u8) -> Micro {
    Micro {
        reach: Some(Reach {
            addr: n * 64,
            size: 8,
            line: n,
            level,
            memory: 104,
            ..Reach::default()
        }),
        tag: 1,
        ..op(UnitClass::Load, from, to)
    }
}

/// Cycles of each of `N` rounds, checked to be within 2% of what is expected.
fn expect(what: &str, spec: &CoreSpec, each: f64, round: impl FnMut(&mut CoreWindow, u64)) -> Vec<Charged> {
    let mut round = round;
    let mut window = CoreWindow::new(spec).charging();
    (0..N).for_each(|n| round(&mut window, n));
    let found = window.cycles() as f64 / N as f64;
    assert!((found / each - 1.0).abs() < 0.02, "{what}: {found} cycles, not {each}");
    window.charges().to_vec()
}

#[test]
fn chains_run_at_the_latency_and_others_at_the_width() {
    let spec = alpha();
    expect("additions in a chain", &spec, 1.0, |w, _| {
        w.push(&op(UnitClass::Alu, 3, 3), false)
    });
    expect("multiplications in a chain", &spec, 7.0, |w, _| {
        w.push(&op(UnitClass::Mul, 3, 3), false)
    });
    expect("additions", &spec, 0.25, |w, n| {
        w.push(&op(UnitClass::Alu, 0, 3 + (n % 8) as u8), false)
    });
    expect("one adder", &spec, 1.0, |w, n| {
        w.push(&op(UnitClass::FpAdd, 0, 3 + (n % 8) as u8), false)
    });
    expect("a divider is busy", &spec, 15.0, |w, n| {
        w.push(&op(UnitClass::FpDiv, 0, 3 + (n % 8) as u8), false)
    });
}

#[test]
fn loads_that_depend_on_each_other_take_the_sum_of_latencies() {
    let spec = alpha();
    for (level, each) in [(0, 3.0), (1, 3.0 + 12.0), (2, 3.0 + 12.0 + 104.0)] {
        let charges = expect("loads in a chain", &spec, each, |w, n| {
            w.push(&load(n, level, 3, 3), false)
        });
        // But for one cycle, in which it commits, each waits at the head for this level.
        let waits = charges[1].of(Cause::Level(level)) as f64 / N as f64;
        assert!((waits / (each - 1.0) - 1.0).abs() < 0.02, "{waits}");
    }
}

#[test]
fn loads_that_do_not_are_bounded_by_misses_under_way_and_by_the_channel() {
    let spec = alpha();
    expect("hits, two ports", &spec, 0.5, |w, n| w.push(&load(n, 0, 0, 3), false));
    expect("8 misses in 15 cycles", &spec, 15.0 / 8.0, |w, n| {
        w.push(&load(n, 1, 0, 3), false)
    });
    expect("a line in 40 cycles", &spec, 40.0, |w, n| {
        w.push(&load(n, 2, 0, 3), false)
    });
    let mut one = spec.clone();
    one.mshrs = 1;
    expect("one miss after the other", &one, 15.0, |w, n| {
        w.push(&load(n, 1, 0, 3), false)
    });
    let mut quick = spec;
    quick.memory.transfer = 1;
    expect("8 misses in 119 cycles", &quick, 119.0 / 8.0, |w, n| {
        w.push(&load(n, 2, 0, 3), false)
    });
}

#[test]
fn a_branch_that_is_not_foreseen_costs_its_way_through_the_pipeline() {
    // Issued the cycle after its dispatch, complete after one more, and 7 until what follows.
    let charges = expect("branches", &alpha(), 9.0, |w, _| {
        w.push(&op(UnitClass::Branch, 0, 0), false);
        w.mispredicted();
    });
    let lost = charges[0].of(Cause::Branch) as f64 / N as f64;
    assert!((lost / 6.0 - 1.0).abs() < 0.02, "{lost}");
    // One that depends on a load is known when that is there.
    expect("branches on misses", &alpha(), 9.0 + 119.0, |w, n| {
        w.push(&load(n, 2, 0, 3), false);
        w.push(&op(UnitClass::Branch, 3, 0), false);
        w.mispredicted();
    });
}

#[test]
fn what_was_just_stored_is_forwarded() {
    // A counter in memory: 3 cycles from store to load, 1 to add, 1 to store.
    let at = |class, from, to| Micro {
        reach: Some(Reach {
            addr: 0x1000,
            size: 8,
            line: 0x40,
            ..Reach::default()
        }),
        ..op(class, from, to)
    };
    expect("a counter", &alpha(), 5.0, |w, _| {
        w.push(&at(UnitClass::Load, 0, 3), false);
        w.push(&op(UnitClass::Alu, 3, 3), false);
        w.push(&at(UnitClass::Store, 3, 0), false);
    });
}

#[test]
fn stores_that_miss_wait_in_their_queue() {
    let spec = alpha();
    let store = |n: u64| Micro {
        class: UnitClass::Store,
        dests: [0; 4],
        ..load(n, 2, 0, 0)
    };
    let charges = expect("a line in 40 cycles", &spec, 40.0, |w, n| w.push(&store(n), false));
    // In one cycle it commits; in the two before it was dispatched and executed.
    let lost = charges[1].of(Cause::Stores) as f64 / N as f64;
    assert!((lost / 37.0 - 1.0).abs() < 0.02, "{lost}");
}

#[test]
fn an_ideal_miss_takes_one_cycle_more_than_a_hit() {
    let spec = alpha();
    expect("a chain", &spec, 4.0, |w, n| w.push(&load(n, 2, 3, 3), true));
    expect("no chain", &spec, 0.5, |w, n| w.push(&load(n, 2, 0, 3), true));
}

#[test]
fn cycles_far_ahead_are_kept_apart() {
    // 448 entries that wait for each other in memory: the youngest issues more than 100,000 cycles
    // after its dispatch. Beside the chain, additions that issue at once.
    let mut spec = CorePreset::named("zen5").unwrap().spec().unwrap();
    spec.scheduler = 1 << 16;
    let reached = f64::from(*spec.reached_after(|holds| holds.data()).last().unwrap());
    expect("a long chain", &spec, reached + 104.0, |w, n| {
        w.push(&load(n, 3, 3, 3), false);
        w.push(&op(UnitClass::Alu, 0, 4), false);
    });
}
