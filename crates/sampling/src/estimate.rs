//! What a few intervals say about all of them.
//!
//! **Plan.** Strata are clusters. Each gets at least two intervals (or all it has), the others go
//! where intervals differ most: in proportion to a stratum's size times its spread (Neyman).
//!
//! **Estimate.** A total is the sum over strata of size times the mean of the drawn intervals. Its
//! variance is the sum of `N² (1 − n/N) s²/n`; the interval around it is Student's t with the
//! degrees of freedom of Satterthwaite's approximation. A stratum that was drawn whole adds no
//! variance.
//!
//! **Cold caches.** What an interval misses depends on what was in the caches before it, which is
//! known only as far as it was warmed. So each observation has two values: with everything unknown
//! taken as hits and as misses. The stated interval goes from the lower end for hits to the upper
//! end for misses.
use crate::random::SplitMix;

/// The least number of intervals of a stratum that tells about its spread.
const LEAST: usize = 2;

/// Which intervals are drawn, by stratum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Intervals of each stratum in all.
    pub sizes: Vec<usize>,
    pub drawn: Vec<Vec<usize>>,
}

impl Draw {
    /// Draws about `wanted` intervals from strata with these members; `spreads` say how much the
    /// members of each differ (any unit).
    pub fn new(strata: &[Vec<usize>], spreads: &[f64], wanted: usize, seed: u64) -> Draw {
        let mut random = SplitMix::new(seed);
        let numbers = allocated(strata, spreads, wanted);
        let drawn = strata.iter().zip(numbers).map(|(members, n)| {
            let mut members = members.clone();
            random.draw(&mut members, n);
            members.truncate(n);
            members.sort_unstable();
            members
        });
        Draw {
            drawn: drawn.collect(),
            sizes: strata.iter().map(Vec::len).collect(),
        }
    }

    /// All drawn intervals, in order.
    pub fn all(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.drawn.iter().flatten().copied().collect();
        all.sort_unstable();
        all
    }
}

/// How many intervals of each stratum are drawn.
fn allocated(strata: &[Vec<usize>], spreads: &[f64], wanted: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = strata.iter().map(|members| members.len().min(LEAST)).collect();
    let need: Vec<f64> = strata
        .iter()
        .zip(spreads)
        .map(|(m, s)| m.len() as f64 * s.max(0.0))
        .collect();
    let mut left = wanted.saturating_sub(numbers.iter().sum());
    while left > 0 {
        // The stratum whose next interval saves most variance.
        let gain = |&i: &usize| need[i] * need[i] / (numbers[i] * (numbers[i] + 1)) as f64;
        let open = (0..strata.len()).filter(|&i| numbers[i] < strata[i].len());
        let Some(next) = open.max_by(|a, b| gain(a).total_cmp(&gain(b))) else {
            break;
        };
        numbers[next] += 1;
        left -= 1;
    }
    numbers
}

/// What was counted in an interval: with the unknown taken as hits, and as misses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    pub least: f64,
    pub most: f64,
}

impl Observed {
    /// A value that does not depend on what was before.
    pub fn exactly(value: f64) -> Observed {
        Observed {
            least: value,
            most: value,
        }
    }
}

/// A total with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimated {
    /// Halfway between the estimates for hits and for misses.
    pub total: f64,
    /// The ends of the interval.
    pub low: f64,
    pub high: f64,
}

/// The total over all intervals, with a confidence of 95%; `observed` by stratum, in the order of
/// the draw.
pub fn estimate(draw: &Draw, observed: &[Vec<Observed>]) -> Estimated {
    let (least, least_off) = one(draw, observed, |o| o.least);
    let (most, most_off) = one(draw, observed, |o| o.most);
    Estimated {
        total: (least + most) / 2.0,
        low: (least - least_off).max(0.0),
        high: most + most_off,
    }
}

/// A total, and half the width of its interval.
fn one(draw: &Draw, observed: &[Vec<Observed>], value: impl Fn(&Observed) -> f64) -> (f64, f64) {
    let (mut total, mut variance, mut freedom) = (0.0, 0.0, 0.0);
    for (&size, values) in draw.sizes.iter().zip(observed) {
        let (size, n) = (size as f64, values.len() as f64);
        if values.is_empty() {
            continue;
        }
        let mean = values.iter().map(&value).sum::<f64>() / n;
        total += size * mean;
        if values.len() < 2 {
            continue;
        }
        let spread = values.iter().map(|o| (value(o) - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let part = size * size * (1.0 - n / size) * spread / n;
        variance += part;
        freedom += part * part / (n - 1.0);
    }
    let freedom = if freedom > 0.0 {
        variance * variance / freedom
    } else {
        f64::INFINITY
    };
    (total, student(freedom) * variance.sqrt())
}

/// The value that Student's t with `freedom` degrees stays below with a chance of 97.5%. Table to 30
/// degrees, then an expansion about the normal distribution (Cornish and Fisher), which is right
/// to four digits there.
fn student(freedom: f64) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    const Z: f64 = 1.959_963_985;
    if freedom.is_infinite() {
        return Z;
    }
    let whole = freedom.floor().max(1.0);
    if whole <= 30.0 {
        return TABLE[whole as usize - 1];
    }
    let first = (Z.powi(3) + Z) / 4.0;
    let second = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0;
    Z + first / freedom + second / (freedom * freedom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_census_is_exact() {
        let strata = [vec![0, 1, 2], vec![3, 4]];
        let draw = Draw::new(&strata, &[1.0, 1.0], 100, 1);
        assert_eq!(draw.drawn, strata);
        let values = |members: &Vec<usize>| members.iter().map(|&i| Observed::exactly(i as f64)).collect();
        let observed: Vec<Vec<Observed>> = draw.drawn.iter().map(values).collect();
        let found = estimate(&draw, &observed);
        assert_eq!((found.total, found.low, found.high), (10.0, 10.0, 10.0));
    }

    #[test]
    fn intervals_go_where_they_differ() {
        let strata = [(0..100).collect(), (100..200).collect(), vec![200]];
        let draw = Draw::new(&strata, &[0.1, 3.0, 0.0], 33, 1);
        let numbers: Vec<usize> = draw.drawn.iter().map(Vec::len).collect();
        assert_eq!(numbers, [2, 30, 1]);
        assert_eq!(draw.all().len(), 33);
    }

    /// By hand: a stratum of 10 of which 4 and 6 were seen, and one of 5 whose two are alike.
    #[test]
    fn the_interval_is_what_the_formula_says() {
        let draw = Draw {
            sizes: vec![10, 5],
            drawn: vec![vec![0, 1], vec![10, 11]],
        };
        let seen = [vec![4.0, 6.0], vec![2.0, 2.0]].map(|v| v.into_iter().map(Observed::exactly).collect());
        let found = estimate(&draw, &seen);
        assert_eq!(found.total, 60.0);
        // Variance 100 * 0.8 * 2 / 2 = 80, one degree of freedom.
        let off = 12.706 * 80f64.sqrt();
        assert!((found.high - (60.0 + off)).abs() < 1e-9);
        assert_eq!(found.low, 0.0);
    }

    #[test]
    fn what_is_unknown_widens_the_interval() {
        let draw = Draw {
            sizes: vec![2],
            drawn: vec![vec![0, 1]],
        };
        let seen = vec![vec![Observed { least: 1.0, most: 3.0 }; 2]];
        let found = estimate(&draw, &seen);
        assert_eq!((found.low, found.total, found.high), (2.0, 4.0, 6.0));
    }

    #[test]
    fn student_is_right_at_both_ends_of_the_table() {
        for (freedom, expected) in [
            (1.0, 12.706),
            (30.9, 2.042),
            (40.0, 2.0211),
            (120.0, 1.9799),
            (1e9, 1.95996),
        ] {
            assert!(
                (student(freedom) - expected).abs() < 2e-4,
                "{freedom}: {}",
                student(freedom)
            );
        }
    }

    /// 400 populations of three strata, each estimated once: the truth lies within the interval
    /// nineteen times of twenty.
    #[test]
    fn the_stated_confidence_is_the_true_one() {
        let mut random = SplitMix::new(77);
        let mut covered = 0;
        for round in 0..400 {
            let mut values = Vec::new();
            let mut strata = Vec::new();
            for stratum in 0..3 {
                let (middle, width) = (100.0 * (1 + stratum) as f64, 10.0 + 60.0 * random.unit());
                let first = values.len();
                values.extend((0..200).map(|_| middle + width * (random.unit() + random.unit() + random.unit() - 1.5)));
                strata.push((first..values.len()).collect::<Vec<usize>>());
            }
            let draw = Draw::new(&strata, &[1.0; 3], 36, round);
            let seen = draw
                .drawn
                .iter()
                .map(|d| d.iter().map(|&i| Observed::exactly(values[i])).collect());
            let found = estimate(&draw, &seen.collect::<Vec<Vec<Observed>>>());
            let truth: f64 = values.iter().sum();
            covered += u32::from((found.low..=found.high).contains(&truth));
        }
        assert!((368..=392).contains(&covered), "{covered} of 400");
    }
}
