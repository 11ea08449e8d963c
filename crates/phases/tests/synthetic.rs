//! Streams made by rule: what must be found in them is known.
use memtrail_phases::segments::Change;
use memtrail_phases::{analyse, choose, Behaviour, ChoiceOptions, PhaseOptions, ProfileShape, Reason, Stream};

const LEN: usize = 2000;

fn stream(of: impl Fn(usize) -> u64) -> Stream {
    Stream::new((0..LEN).map(of).collect())
}

/// A number that looks random for each place.
fn noise(t: usize, below: u64) -> u64 {
    let mixed = (t as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 32) % below
}

fn wave(t: usize, period: usize, high: usize) -> u64 {
    if t % period < high {
        90
    } else {
        10
    }
}

fn coarse_grid() -> ChoiceOptions {
    ChoiceOptions {
        grid: 10,
        ..ChoiceOptions::default()
    }
}

#[test]
fn a_period_of_seven_is_found_on_a_grid_of_ten() {
    let wave = stream(|t| wave(t, 7, 3));
    let choice = choose(&[&wave], &coarse_grid());
    assert_eq!((choice.multiple, choice.volatility), (7, 0.0));
    assert_eq!(choice.shape, ProfileShape::Oscillating);
    assert!(choice.spectrum.contains(&7), "{:?}", choice.spectrum);
    // Multiples of ten are all that was measured at first: none below 70 is quiet.
    let quiet = choice
        .profile
        .iter()
        .find(|point| point.multiple % 10 == 0 && point.volatility == 0.0);
    assert_eq!(quiet.unwrap().multiple, 70);
}

/// Fast waves: their own period is the shortest at which nothing changes.
#[test]
fn every_fast_wave_gets_its_own_period_whatever_the_grid() {
    for period in 2..20 {
        let wave = stream(|t| wave(t, period, period / 2));
        for grid in [1, 10] {
            let options = ChoiceOptions {
                grid,
                ..ChoiceOptions::default()
            };
            let choice = choose(&[&wave], &options);
            // Within one base unit; a curve of 2,000 points has no exact multiple of each period.
            assert!(choice.multiple.abs_diff(period) <= 1, "{period} on {grid}: {choice:?}");
            assert!(choice.volatility <= 0.1);
        }
    }
}

#[test]
fn waves_in_noise_are_found() {
    for period in [7, 9, 13, 18] {
        let noisy = stream(|t| wave(t, period, period / 2) + noise(t, 10));
        let choice = choose(&[&noisy], &coarse_grid());
        assert!(choice.multiple.abs_diff(period) <= 1, "{period}: {choice:?}");
    }
}

/// A wave with few changes is not damped: its changes are at 2 of 100 points, and they are phases.
#[test]
fn slow_waves_are_phases_and_stay_visible() {
    let slow = stream(|t| wave(t, 100, 50));
    let choice = choose(&[&slow], &ChoiceOptions::default());
    assert_eq!((choice.multiple, choice.reason), (1, Reason::QuietAtBase));
    assert_eq!(choice.coarse, Some(50));
    let found = analyse(&[&slow], 1, &PhaseOptions::default());
    assert_eq!(found.behaviour, Behaviour::Simple);
    assert_eq!(found.phases.len(), 40);
    for (number, phase) in found.phases.iter().enumerate() {
        assert_eq!((phase.from, phase.to), (50 * number, 50 * number + 50));
        assert_eq!(phase.id, number as u32 % 2 + 1);
    }
}

/// Strong noise on slow phases: the quietest period is that of the wave, and it would hide it.
#[test]
fn a_period_that_hides_coarse_changes_is_refused() {
    let noisy = stream(|t| wave(t, 100, 50) / 2 + noise(t, 60));
    let choice = choose(&[&noisy], &ChoiceOptions::default());
    let quiet = choice.profile.iter().filter(|point| point.volatility <= 0.1);
    let quiet: Vec<usize> = quiet.map(|point| point.multiple).collect();
    assert!(
        quiet.contains(&100) && quiet[0] > 80,
        "only near the period of the wave it is quiet enough"
    );
    assert_eq!(choice.refused.unwrap().multiple, quiet[0]);
    assert!(choice.multiple <= choice.most && choice.most <= 25, "{choice:?}");
    assert_eq!(choice.reason, Reason::Least);
}

#[test]
fn pure_noise_falls_until_the_threshold() {
    let noisy = stream(|t| 100 + noise(t, 100));
    let choice = choose(&[&noisy], &ChoiceOptions::default());
    assert_eq!(
        (choice.shape, choice.reason),
        (ProfileShape::Falling, Reason::Threshold)
    );
    assert!(choice.volatility <= 0.1);
    let before = choice
        .profile
        .iter()
        .take_while(|point| point.multiple < choice.multiple);
    assert!(before.clone().count() > 0 && before.into_iter().all(|point| point.volatility > 0.1));
    let found = analyse(&[&noisy], 1, &PhaseOptions::default());
    assert_eq!((found.behaviour, found.phases.len()), (Behaviour::None, 1));
}

#[test]
fn what_is_constant_or_nothing_is_left_as_it_is() {
    for level in [0, 17] {
        let found = analyse(&[&stream(|_| level)], 1, &PhaseOptions::default());
        assert_eq!(found.choice.multiple, 1);
        assert_eq!(found.choice.shape, ProfileShape::Low);
        assert_eq!((found.behaviour, found.phases.len()), (Behaviour::None, 1));
        assert_eq!(found.phases[0].leader.is_some(), level > 0);
    }
    let found = analyse(&[&Stream::default()], 1, &PhaseOptions::default());
    assert_eq!((found.behaviour, found.phases.len()), (Behaviour::None, 0));
}

/// A fast wave on slow levels: the wave is damped, the levels are phases.
#[test]
fn mixed_periods_are_told_apart() {
    let mixed = stream(|t| wave(t, 7, 3) * if (t / 400) % 2 == 0 { 1 } else { 4 });
    let found = analyse(&[&mixed], 1, &PhaseOptions::default());
    assert_eq!(found.choice.multiple, 7);
    assert_eq!(found.behaviour, Behaviour::Simple);
    let ids: Vec<u32> = found.phases.iter().map(|phase| phase.id).collect();
    assert_eq!(ids, [1, 2, 1, 2, 1]);
    for (number, phase) in found.phases.iter().enumerate() {
        assert!(phase.from.abs_diff(400 * number) <= 7, "{:?}", found.phases);
    }
}

#[test]
fn two_in_antiphase() {
    let one = stream(|t| if (t / 125) % 2 == 0 { 100 } else { 5 });
    let other = stream(|t| if (t / 125) % 2 == 0 { 5 } else { 80 });
    let found = analyse(&[&one, &other], 2, &PhaseOptions::default());
    assert_eq!(found.behaviour, Behaviour::Simple);
    assert_eq!(found.phases.len(), 16);
    assert_eq!(found.inversions.len(), 15);
    for (number, inversion) in found.inversions.iter().enumerate() {
        assert_eq!(inversion.at, 125 * (number + 1));
        assert_eq!((inversion.from, inversion.to), (number % 2, 1 - number % 2));
    }
    assert_eq!(found.pairs.len(), 1);
    assert!(found.pairs[0].correlation < -0.999);
}

#[test]
fn initialisation_then_steady_state() {
    let init = stream(|t| if t < 203 { 300 } else { 0 });
    let work = stream(|t| if t < 203 { 0 } else { 100 + noise(t, 9) });
    let found = analyse(&[&init, &work], 2, &PhaseOptions::default());
    assert_eq!(found.behaviour, Behaviour::None);
    assert_eq!(found.phases.len(), 2);
    assert_eq!(found.steady, 1..2);
    assert_eq!((found.phases[1].from, found.phases[1].leader), (203, Some(1)));
    // The first is constant after initialisation: no correlation is made of that.
    assert_eq!(found.pairs, []);
}

/// The point in which initialisation ends is no correlation.
#[test]
fn a_straddling_point_makes_no_pair() {
    let init = stream(|t| [300, 120, 0][usize::from(t >= 203) + usize::from(t > 203)]);
    let work = stream(|t| [0, 60, 100][usize::from(t >= 203) + usize::from(t > 203)]);
    let found = analyse(&[&init, &work], 2, &PhaseOptions::default());
    assert_eq!((found.behaviour, found.phases.len()), (Behaviour::None, 2));
    assert_eq!(found.pairs, []);
}

#[test]
fn one_inversion_in_the_middle() {
    let falling = stream(|t| if t < 1100 { 90 } else { 20 });
    let rising = stream(|t| if t < 1100 { 30 } else { 110 });
    let found = analyse(&[&falling, &rising], 2, &PhaseOptions::default());
    assert_eq!(found.behaviour, Behaviour::Simple);
    assert_eq!(found.inversions.len(), 1);
    assert_eq!(
        (found.inversions[0].at, found.inversions[0].from, found.inversions[0].to),
        (1100, 0, 1)
    );
}

#[test]
fn slow_drift_has_fuzzy_boundaries() {
    let drift = stream(|t| 100 + t as u64 / 5);
    let found = analyse(&[&drift], 1, &PhaseOptions::default());
    assert_eq!(found.choice.multiple, 1);
    assert_eq!(found.behaviour, Behaviour::Complex);
    assert!(found.phases.len() >= 3 && found.phases[1..].iter().all(|phase| !phase.sharp));
    // Up and down again is complex as well, and the same levels are the same phases.
    let hill = stream(|t| 100 + (t.min(LEN - t)) as u64 / 2);
    let found = analyse(&[&hill], 1, &PhaseOptions::default());
    assert_eq!(found.behaviour, Behaviour::Complex);
    assert_eq!(found.phases[0].id, found.phases.last().unwrap().id);
}

#[test]
fn a_small_drift_is_none() {
    let found = analyse(&[&stream(|t| 1000 + t as u64 / 10)], 1, &PhaseOptions::default());
    assert_eq!((found.behaviour, found.phases.len()), (Behaviour::None, 1));
}

/// Opposite waves have a constant sum, and no volatility: only together are they seen.
#[test]
fn the_joint_period_is_not_that_of_the_sum() {
    let one = stream(|t| wave(t, 14, 7));
    let other = stream(|t| 100 - wave(t, 14, 7));
    let sum = stream(|_| 100);
    assert_eq!(choose(&[&sum], &coarse_grid()).multiple, 1);
    assert_eq!(choose(&[&one, &other], &coarse_grid()).multiple, 14);
}

#[test]
fn levels_in_strong_noise_are_found_within_a_period() {
    let level = |t: usize| [300, 60, 150][(t / 500) % 3];
    let noisy = stream(|t| level(t) + noise(t, level(t) / 2));
    let found = analyse(&[&noisy], 1, &PhaseOptions::default());
    let ids: Vec<u32> = found.phases.iter().map(|phase| phase.id).collect();
    assert_eq!(ids, [1, 2, 3, 1], "{found:?}");
    for (number, phase) in found.phases.iter().enumerate() {
        assert!(phase.from.abs_diff(500 * number) <= found.choice.multiple, "{found:?}");
    }
}

#[test]
fn a_multiple_may_be_given() {
    let wave = stream(|t| wave(t, 100, 50));
    let options = PhaseOptions {
        multiple: Some(30),
        change: Change::default(),
        ..PhaseOptions::default()
    };
    let found = analyse(&[&wave], 1, &options);
    assert_eq!(found.choice.multiple, 30);
    assert_eq!(found.labels.len(), LEN / 30);
}
