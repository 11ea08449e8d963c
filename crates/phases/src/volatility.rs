//! How much a curve changes from one point to the next.
//!
//! The volatility at a point is `|X(t) − X(t−1)| / max(X(t), X(t−1))`: 0 if nothing changed, 0.5 if
//! the count doubled or halved, 1 if it came from or went to 0. Of 0 and 0 it is 0: nothing
//! changed. A curve of `n` points has `n − 1` of these.
//!
//! The volatility of a curve is that of its point at a percentile, by *nearest rank*: of `k` values
//! in ascending order, the one numbered `ceil(p · k / 100)`, counted from 1. So at least `p` per cent
//! of the points have this volatility or less, as the paper has it, and the value is always one
//! that occurs. Changes at fewer than `100 − p` per cent of the points do not show in it: those are
//! what phases are made of.
//!
//! Several streams together: the differences of all are added up, and so are the maxima:
//! `Σ|X(t) − X(t−1)| / Σ max(X(t), X(t−1))`. With one stream that is the definition above; with
//! several it is the mean of theirs, weighted by size, and what two streams do in opposite
//! directions does not cancel.
use crate::Stream;

/// Which point's volatility is the curve's, in per cent.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percentile(f64);

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} is no percentile: it is more than 0 and at most 100")]
pub struct WrongPercentile(pub f64);

impl Default for Percentile {
    /// The paper's.
    fn default() -> Percentile {
        Percentile(90.0)
    }
}

impl Percentile {
    pub fn new(percent: f64) -> Result<Percentile, WrongPercentile> {
        match percent > 0.0 && percent <= 100.0 {
            true => Ok(Percentile(percent)),
            false => Err(WrongPercentile(percent)),
        }
    }

    pub fn percent(self) -> f64 {
        self.0
    }

    /// The value at this percentile; 0 of none.
    pub fn of(self, mut values: Vec<f64>) -> f64 {
        if values.is_empty() {
            return 0.0;
        }
        let rank = (self.0 * values.len() as f64 / 100.0).ceil() as usize;
        let at = rank.clamp(1, values.len()) - 1;
        *values.select_nth_unstable_by(at, f64::total_cmp).1
    }
}

/// The volatility between two counts.
pub fn between(before: u64, after: u64) -> f64 {
    ratio(before.abs_diff(after), before.max(after))
}

fn ratio(difference: u64, most: u64) -> f64 {
    match most {
        0 => 0.0,
        most => difference as f64 / most as f64,
    }
}

/// The volatility at each point but the first, of curves together.
pub fn points(curves: &[Vec<u64>]) -> Vec<f64> {
    let len = curves.iter().map(Vec::len).min().unwrap_or(0);
    let at = |t: usize| {
        let (mut difference, mut most) = (0, 0);
        for curve in curves {
            difference += curve[t - 1].abs_diff(curve[t]);
            most += curve[t - 1].max(curve[t]);
        }
        ratio(difference, most)
    };
    (1..len).map(at).collect()
}

/// The volatility of streams together, at `multiple` base periods a point.
pub fn at(streams: &[&Stream], multiple: usize, percentile: Percentile) -> f64 {
    let curves: Vec<Vec<u64>> = streams.iter().map(|stream| stream.curve(multiple)).collect();
    percentile.of(points(&curves))
}

/// A point of a volatility profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilePoint {
    /// The sampling period, in base periods.
    pub multiple: usize,
    pub volatility: f64,
}

/// The volatility profile: the volatility at each of these multiples.
pub fn profile(
    streams: &[&Stream],
    multiples: impl IntoIterator<Item = usize>,
    percentile: Percentile,
) -> Vec<ProfilePoint> {
    let measure = |multiple| ProfilePoint {
        multiple,
        volatility: at(streams, multiple, percentile),
    };
    multiples.into_iter().map(measure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_counts() {
        assert_eq!(between(0, 0), 0.0);
        assert_eq!(between(5, 5), 0.0);
        assert_eq!(between(4, 8), 0.5);
        assert_eq!(between(8, 4), 0.5);
        assert_eq!(between(0, 3), 1.0);
        assert_eq!(between(3, 0), 1.0);
        assert_eq!(between(10, 9), 0.1);
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let at = |percent| Percentile::new(percent).unwrap().of(ten.clone());
        assert_eq!(at(90.0), 9.0);
        assert_eq!(at(90.1), 10.0);
        assert_eq!(at(100.0), 10.0);
        assert_eq!(at(50.0), 5.0);
        assert_eq!(at(0.1), 1.0);
        assert_eq!(Percentile::default().of(vec![7.0]), 7.0);
        assert_eq!(Percentile::default().of(Vec::new()), 0.0);
        for wrong in [0.0, -1.0, 100.5, f64::NAN] {
            assert!(Percentile::new(wrong).is_err(), "{wrong}");
        }
    }

    /// By hand: 4 8 8 2 0 0 1 1 1 1 1 has the volatilities ½ 0 ¾ 1 0 1 0 0 0 0; in order 0 0 0 0 0 0
    /// ½ ¾ 1 1, of which the ninth is 1 and the eighth ¾.
    #[test]
    fn of_a_curve_by_hand() {
        let curve = vec![4, 8, 8, 2, 0, 0, 1, 1, 1, 1, 1];
        let points = points(std::slice::from_ref(&curve));
        assert_eq!(points, [0.5, 0.0, 0.75, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        let stream = Stream::new(curve);
        assert_eq!(at(&[&stream], 1, Percentile::default()), 1.0);
        assert_eq!(at(&[&stream], 1, Percentile::new(80.0).unwrap()), 0.75);
        // In pairs: 12 10 0 2 2, volatilities 1/6 1 1 0: the fourth of four.
        assert_eq!(stream.curve(2), [12, 10, 0, 2, 2]);
        assert_eq!(at(&[&stream], 2, Percentile::default()), 1.0);
        assert_eq!(at(&[&stream], 2, Percentile::new(50.0).unwrap()), 1.0 / 6.0);
    }

    #[test]
    fn together_opposite_changes_do_not_cancel() {
        let one = Stream::new([3, 1].repeat(50));
        let other = Stream::new([1, 3].repeat(50));
        assert_eq!(at(&[&one], 1, Percentile::default()), 2.0 / 3.0);
        assert_eq!(at(&[&one, &other], 1, Percentile::default()), 2.0 / 3.0);
        assert_eq!(at(&[&one, &other], 2, Percentile::default()), 0.0);
        // The large one that does not change outweighs the small one that does.
        let steady = Stream::new(vec![97; 100]);
        assert_eq!(at(&[&one, &steady], 1, Percentile::default()), 0.02);
    }

    #[test]
    fn a_square_wave_has_troughs_at_its_period_and_multiples() {
        let wave = Stream::new([9, 9, 9, 1, 1, 1, 1].repeat(300));
        let profile = profile(&[&wave], 1..=21, Percentile::default());
        for point in profile {
            assert_eq!(point.volatility == 0.0, point.multiple % 7 == 0, "{point:?}");
        }
    }
}
