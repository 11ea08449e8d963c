//! Caches of the timing model against the simulator, and perfect memory against ideal misses.
use memtrail_model::{Access, AccessSink, Kind, Point, Thread};
use memtrail_simulate::{short, Hierarchy, Options, Simulator};
use memtrail_timing::presets::CorePreset;
use memtrail_timing::{CoreWindow, LevelStack, Micro, Reach, UnitClass};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn every_level_misses_what_the_simulator_misses(
        accesses in prop::collection::vec((0u32..3, 0u64..6000, 1u32..80, any::<bool>()), 1..600),
        l1 in prop::sample::select(vec!["L1=512:64:2", "L1=256:64:1", "L1=768:64:12"]),
        l2 in prop::sample::select(vec!["L2=1K:64:4", "L2=1152:64:6"]),
    ) {
        let levels = short::levels(&[l1, l2, "L3=2K:64:8:shared"]).unwrap();
        let hierarchy = Hierarchy::of(levels);
        let mut simulator = Simulator::new(&hierarchy, Options::default()).unwrap();
        let mut stack = LevelStack::new(&hierarchy);
        let mut misses = [0u64; 3];
        for (thread, addr, size, write) in accesses {
            let kind = if write { Kind::Write } else { Kind::Read };
            let access = Access { pc: 0, addr, size, point: Point(0), thread: Thread(thread), kind };
            simulator.accesses(&[access]);
            let hit = stack.data(thread, addr, size, write);
            misses.iter_mut().take(hit.level.into()).for_each(|n| *n += 1);
        }
        let counts = simulator.counts();
        // An access of several lines is one access in the first level and several behind it.
        prop_assert_eq!(misses[0], counts[0].points.first().map_or(0, |c| c.misses));
    }

    #[test]
    fn levels_behind_the_first_agree_where_accesses_are_of_one_line(
        accesses in prop::collection::vec((0u32..3, 0u64..100, any::<bool>()), 1..800),
    ) {
        let levels = short::levels(&["L1=512:64:2", "L2=1K:64:4", "L3=2K:64:8:shared"]).unwrap();
        let hierarchy = Hierarchy::of(levels);
        let mut simulator = Simulator::new(&hierarchy, Options::default()).unwrap();
        let mut stack = LevelStack::new(&hierarchy);
        let mut misses = vec![0u64; 3];
        for (thread, line, write) in accesses {
            let kind = if write { Kind::Write } else { Kind::Read };
            let access = Access { pc: 0, addr: line * 64, size: 8, point: Point(0), thread: Thread(thread), kind };
            simulator.accesses(&[access]);
            let hit = stack.data(thread, line * 64, 8, write);
            misses.iter_mut().take(hit.level.into()).for_each(|n| *n += 1);
        }
        let expected: Vec<u64> = simulator.counts().iter().map(|level| level.points.first().map_or(0, |c| c.misses)).collect();
        prop_assert_eq!(misses, expected);
    }

    /// A machine whose second level has everything after one cycle, and as much at once as is asked
    /// for, against the ordinary machine with all misses ideal.
    #[test]
    fn ideal_misses_of_all_are_a_perfect_memory(
        micros in prop::collection::vec((0usize..3, 0u8..5, 0u8..5, 0u8..3, any::<bool>()), 1..300),
    ) {
        let spec = CorePreset::named("alpha21264").unwrap().spec().unwrap();
        let mut perfect = spec.clone();
        (perfect.level[2].latency, perfect.mshrs) = (1, 1 << 16);
        let (mut ideal, mut real) = (CoreWindow::new(&spec).logging(), CoreWindow::new(&perfect).logging());
        for (n, (class, from, to, level, walks)) in micros.into_iter().enumerate() {
            let class = [UnitClass::Alu, UnitClass::Load, UnitClass::Load][class];
            let reach = Reach {
                addr: n as u64 * 64,
                size: 8,
                line: n as u64,
                level,
                walk: if walks { 30 } else { 0 },
                memory: 104,
                hint: false,
            };
            let micro = Micro {
                sources: [from, 0, 0, 0],
                dests: [to, 0, 0, 0],
                reach: (class != UnitClass::Alu).then_some(reach),
                ..Micro::new(class)
            };
            ideal.push(&micro, true);
            let found = Reach { level: level.min(1), walk: 0, ..reach };
            real.push(&Micro { reach: micro.reach.map(|_| found), ..micro }, false);
        }
        prop_assert_eq!(ideal.cycles(), real.cycles());
        prop_assert_eq!(ideal.log(), real.log());
    }
}
