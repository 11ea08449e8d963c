//! The window against the model that goes through cycles one by one, on random programs and cores.
mod naive;

use memtrail_timing::presets::CorePreset;
use memtrail_timing::{Cause, Charged, ClassSpec, CoreSpec, CoreWindow, Micro, Reach, UnitClass};
use naive::{Front, Naive, Step};
use proptest::prelude::*;

/// Lines in which loads and stores overlap; they are always there.
const SHARED: u64 = 2;

fn reach() -> impl Strategy<Value = (Reach, bool)> {
    let shared = (0..SHARED, 0u64..6, prop_oneof![Just(4u32), Just(8)]).prop_map(|(line, at, size)| Reach {
        addr: line * 64 + at * 4,
        size,
        line,
        ..Reach::default()
    });
    // Elsewhere stores use the upper halves of lines.
    let apart = (SHARED..6, 0u8..4, 0u16..3, 0u16..9).prop_map(|(line, level, walk, memory)| Reach {
        addr: line * 64,
        size: 8,
        line,
        level,
        walk: walk * 5,
        memory: 20 + memory,
        hint: false,
    });
    prop_oneof![shared.prop_map(|r| (r, true)), apart.prop_map(|r| (r, false))]
}

fn step() -> impl Strategy<Value = Step> {
    let classes = prop_oneof![
        1 => Just(UnitClass::Nop),
        1 => Just(UnitClass::Move),
        3 => Just(UnitClass::Alu),
        1 => Just(UnitClass::Mul),
        1 => Just(UnitClass::Div),
        1 => Just(UnitClass::Branch),
        4 => Just(UnitClass::Load),
        3 => Just(UnitClass::Store),
    ];
    let front = (0u32..20, 0u32..8).prop_map(|(delay, wrong)| Front {
        delay: if delay < 2 { u64::from(delay) * 6 } else { 0 },
        mispredicted: wrong == 0,
    });
    (
        classes,
        [0u8..6, 0u8..6],
        [0u8..6, 0u8..3],
        any::<bool>(),
        reach(),
        front,
        0u32..5,
        0u32..10,
    )
        .prop_map(
            |(class, sources, dests, fused, (mut reach, shared), front, tag, ideal)| {
                let memory = matches!(class, UnitClass::Load | UnitClass::Store);
                if class == UnitClass::Store && !shared {
                    reach.addr += 32;
                }
                reach.hint = class == UnitClass::Load && !shared && sources[0] == 5;
                let fused = fused && !memory;
                Step {
                    micro: Micro {
                        fused,
                        sources: [sources[0], sources[1], 0, 0],
                        dests: [dests[0], dests[1], 0, 0],
                        reach: memory.then_some(reach),
                        tag,
                        ..Micro::new(class)
                    },
                    front: Front {
                        delay: if fused { 0 } else { front.delay },
                        mispredicted: front.mispredicted && class == UnitClass::Branch,
                    },
                    ideal: ideal == 0 && memory,
                }
            },
        )
}

fn core() -> impl Strategy<Value = CoreSpec> {
    let sizes = (1u32..4, 1u32..4, 2u32..12, 1u32..12, 1u32..4, 1u32..4, 1u32..4);
    let times = (1u32..6, 0u32..8, 1u32..12, 0u32..4, 0u32..6);
    (sizes, times).prop_map(|((width, commit, rob, scheduler, loads, stores, mshrs), times)| {
        let (forward, mispredict, transfer, first, second) = times;
        let mut spec = CorePreset::named("alpha21264").unwrap().spec().unwrap();
        let class = |latency, ports: &[u8], busy| ClassSpec {
            latency,
            ports: ports.to_vec(),
            busy,
        };
        let classes = [
            ("alu", class(1, &[0, 1], 1)),
            ("move", class(0, &[], 1)),
            ("mul", class(3, &[1], 1)),
            ("div", class(7, &[2], 5)),
            ("branch", class(1, &[1], 1)),
            ("load", class(2, &[3], 1)),
            ("store", class(1, &[3, 4], 1)),
        ];
        spec.class
            .extend(classes.map(|(word, class)| (word.to_string(), class)));
        (spec.width, spec.commit, spec.rob, spec.scheduler) = (width, commit, rob, scheduler);
        (spec.loads, spec.stores, spec.mshrs) = (loads, stores, mshrs);
        (spec.forward, spec.mispredict, spec.memory.transfer) = (forward, mispredict, transfer);
        (spec.level[0].latency, spec.level[2].latency) = (first, second);
        spec.check().unwrap();
        spec
    })
}

/// Runs the window, as the flow would.
fn windowed(spec: &CoreSpec, steps: &[Step]) -> CoreWindow {
    let mut window = CoreWindow::new(spec).charging().logging();
    for (n, step) in steps.iter().enumerate() {
        if n > 0 && steps[n - 1].front.mispredicted {
            window.mispredicted();
        }
        if step.front.delay > 0 {
            window.fetch_delay(step.front.delay);
        }
        window.push(&step.micro, step.ideal);
    }
    window
}

/// Charges, with everything that holds up dispatch taken together.
fn comparable(charges: &[Charged]) -> (u64, Vec<Vec<u64>>) {
    let front = [Cause::Branch, Cause::Fetch, Cause::Stores];
    let held = charges
        .iter()
        .map(|c| front.iter().map(|&cause| c.of(cause)).sum::<u64>())
        .sum();
    let others = |c: &Charged| {
        let levels = (0..4).map(|level| c.of(Cause::Level(level)));
        [c.of(Cause::Base), c.of(Cause::Execute)]
            .into_iter()
            .chain(levels)
            .collect()
    };
    let mut rows: Vec<Vec<u64>> = charges.iter().map(others).collect();
    rows.resize(5, vec![0; 6]);
    (held, rows)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]
    #[test]
    fn the_window_agrees_with_the_model_that_goes_through_every_cycle(
        spec in core(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut steps = steps;
        steps[0].micro.fused = false;
        for n in 1..steps.len() {
            // What follows a branch begins an entry.
            steps[n].micro.fused &= !steps[n - 1].front.mispredicted;
        }
        let mut naive = Naive::new(&spec, &steps);
        let expected = naive.run();
        let mut window = windowed(&spec, &steps);
        let cycles = window.cycles();
        prop_assert_eq!(window.log(), &expected[..]);
        prop_assert_eq!(cycles, expected.last().unwrap().commit + 1);
        let total: u64 = window.charges().iter().map(Charged::total).sum();
        prop_assert_eq!(total, cycles, "every cycle is charged once");
        prop_assert_eq!(comparable(window.charges()), comparable(&naive.charges));
    }
}
