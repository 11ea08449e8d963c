//! Which periods a stream repeats itself with.
//!
//! **Problem.** A volatility profile has narrow troughs at multiples of a stream's own period; one
//! that is measured at a few multiples only can miss them all (a period of 7, measured at 10, 20,
//! …).
//!
//! **Idea.** The power spectrum of the whole base stream shows all periods at once, in the time of
//! one Fourier transform. Its peaks are candidates. So are the peaks of the autocorrelation, its
//! inverse transform: a wave of short pulses has as much power in its harmonics as in its
//! fundamental, but it is like itself only after whole periods. The spectra of several streams are
//! added up, since in their sum opposite waves would cancel.
//!
//! Candidates are integers, for the volatility decides among them.
use crate::Stream;
use realfft::RealFftPlanner;

/// Peaks that are looked at, of each kind.
const PEAKS: usize = 8;

/// A peak of the spectrum has at least this share of the power of the highest.
const LEAST_POWER: f64 = 0.05;

/// A peak of the autocorrelation is at least this high.
const LEAST_LIKENESS: f64 = 0.2;

/// Periods that the streams together may have, in base periods, between 2 and `most`: ascending,
/// each once.
pub fn candidates(streams: &[&Stream], most: usize) -> Vec<usize> {
    let len = streams.iter().map(|stream| stream.counts.len()).min().unwrap_or(0);
    if len < 8 {
        return Vec::new();
    }
    let size = (2 * len).next_power_of_two();
    let power = power(streams, len, size);
    let mut found = Vec::new();
    for peak in peaks(&power, LEAST_POWER * highest(&power), 1) {
        // The true frequency lies between two of the transform's; what is near is tried, too.
        let period = size as f64 / peak;
        found.extend([period.floor() as usize, period.ceil() as usize]);
    }
    let likeness = likeness(power, len, size);
    let within = &likeness[..likeness.len().min(most + 2)];
    found.extend(
        peaks(within, LEAST_LIKENESS, 2)
            .into_iter()
            .map(|lag| lag.round() as usize),
    );
    found.retain(|period| (2..=most).contains(period));
    found.sort_unstable();
    found.dedup();
    found
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The sum of the streams' power spectra, without their means and straight trends; `size` is the
/// length of the transform, what is behind the streams' ends counts as 0.
fn power(streams: &[&Stream], len: usize, size: usize) -> Vec<f64> {
    let forward = RealFftPlanner::<f64>::new().plan_fft_forward(size);
    let mut sum = vec![0.0; size / 2 + 1];
    let mut spectrum = forward.make_output_vec();
    for stream in streams {
        let mut values = without_trend(&stream.counts[..len]);
        values.resize(size, 0.0);
        forward
            .process(&mut values, &mut spectrum)
            .expect("both have the transform's lengths");
        for (sum, value) in sum.iter_mut().zip(&spectrum) {
            *sum += value.norm_sqr();
        }
    }
    sum
}

/// The stream less the straight line that fits it best.
fn without_trend(counts: &[u64]) -> Vec<f64> {
    let n = counts.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let mean = counts.iter().map(|&count| count as f64).sum::<f64>() / n;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (t, &count) in counts.iter().enumerate() {
        let from_middle = t as f64 - middle;
        covariance += from_middle * (count as f64 - mean);
        variance += from_middle * from_middle;
    }
    let slope = covariance / variance;
    let rest = |(t, &count): (usize, &u64)| count as f64 - mean - slope * (t as f64 - middle);
    counts.iter().enumerate().map(rest).collect()
}

/// The autocorrelation by lag: 1 if a stream moved by the lag is the same, as far as both overlap.
fn likeness(power: Vec<f64>, len: usize, size: usize) -> Vec<f64> {
    let inverse = RealFftPlanner::<f64>::new().plan_fft_inverse(size);
    let mut spectrum = inverse.make_input_vec();
    for (value, power) in spectrum.iter_mut().zip(power) {
        value.re = power;
    }
    let mut lags = inverse.make_output_vec();
    inverse
        .process(&mut spectrum, &mut lags)
        .expect("both have the transform's lengths");
    let whole = lags[0];
    if whole <= 0.0 {
        return Vec::new();
    }
    let at = |(lag, &value): (usize, &f64)| value / whole * len as f64 / (len - lag) as f64;
    // With less than half of the stream left there is little to compare.
    lags[..len / 2].iter().enumerate().map(at).collect()
}

/// The highest local maxima from `first` on that are at least `least`: where they are, between two
/// values if that is where a parabola through the three around has its top.
fn peaks(values: &[f64], least: f64, first: usize) -> Vec<f64> {
    let mut tops: Vec<usize> = (first.max(1)..values.len().saturating_sub(1))
        .filter(|&at| values[at] >= least && values[at] > 0.0)
        .filter(|&at| values[at] > values[at - 1] && values[at] >= values[at + 1])
        .collect();
    // Equally high ones: the shorter lag, or the lower frequency, first.
    tops.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
    tops.truncate(PEAKS);
    let top = |at: usize| {
        let (before, here, after) = (values[at - 1], values[at], values[at + 1]);
        let bend = before - 2.0 * here + after;
        match bend < 0.0 {
            true => at as f64 + 0.5 * (before - after) / bend,
            false => at as f64,
        }
    };
    tops.into_iter().map(top).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: Vec<u64>, most: usize) -> Vec<usize> {
        candidates(&[&Stream::new(counts)], most)
    }

    #[test]
    fn every_integer_period_of_a_square_wave_is_a_candidate() {
        for period in 2..=60usize {
            let high = period / 2;
            let counts = (0..2000).map(|t| if t % period < high { 90 } else { 10 }).collect();
            let found = of(counts, 100);
            assert!(found.contains(&period), "{period}: {found:?}");
        }
    }

    #[test]
    fn short_pulses_have_their_own_period_not_a_harmonics() {
        for period in [7usize, 23, 50] {
            let counts = (0..2000).map(|t| u64::from(t % period == 3) * 100).collect();
            let found = of(counts, 100);
            assert!(found.contains(&period), "{period}: {found:?}");
        }
    }

    #[test]
    fn a_sum_of_two_waves_has_both_periods() {
        let wave = |t: usize, period: usize| (std::f64::consts::TAU * t as f64 / period as f64).sin();
        let counts = (0..2000).map(|t| (1000.0 + 200.0 * wave(t, 11) + 300.0 * wave(t, 64)) as u64);
        let found = of(counts.collect(), 100);
        assert!(found.contains(&11) && found.contains(&64), "{found:?}");
    }

    #[test]
    fn opposite_streams_do_not_cancel() {
        let one = Stream::new((0..1000).map(|t| u64::from(t % 14 < 7) * 10).collect());
        let other = Stream::new((0..1000).map(|t| u64::from(t % 14 >= 7) * 10).collect());
        assert!(candidates(&[&one, &other], 50).contains(&14));
    }

    #[test]
    fn what_is_constant_or_short_has_none() {
        assert_eq!(of(vec![5; 1000], 100), []);
        assert_eq!(of(vec![0; 1000], 100), []);
        assert_eq!(of(vec![1, 2, 1, 2], 100), []);
        assert_eq!(of(Vec::new(), 100), []);
    }
}
