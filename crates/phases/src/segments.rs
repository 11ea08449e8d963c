//! Where vectors over time change: levels, and which of them are alike.
//!
//! **Rows.** At each point of the curves there is a *row*: a number for each stream, scaled such
//! that a row adds up to 1 on average.
//!
//! **Change points** come in two steps. First the segmentation that minimises the squared distance
//! of rows from their segment's mean, plus a penalty for each segment: the optimal partition, by
//! dynamic programming that drops starts which can no longer win (PELT). The penalty is
//! [`Change::penalty`]` · σ² · ln n`, where σ² is the noise, estimated from the medians of the
//! differences between neighbours, and at least 2% of the mean. So noise does not make segments.
//! Then neighbours that are not different enough are joined, the most alike first. So tiny changes
//! of a noiseless stream make none either. A segment is compared by its median, which neither a
//! single outlier nor the row in which one level ends and the next begins can move.
//!
//! **Alike** are two rows whose [`distance`] is less than [`Change::least`]. Segments that are alike
//! have one [`Label`], wherever they are.
use crate::Stream;
use std::ops::Range;

/// A row: a number for each stream.
pub type Row = Vec<f64>;

/// The number of a kind of segment.
pub type Label = usize;

/// Noise is at least this, as a share of the mean row.
const LEAST_NOISE: f64 = 0.02;

/// What counts as a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The least distance of two levels.
    pub least: f64,
    /// Rows that add up to less than this share of the mean row are not compared more closely than
    /// if they were this large: two levels at which next to nothing happens are alike.
    pub quiet: f64,
    pub penalty: f64,
}

impl Default for Change {
    fn default() -> Change {
        Change {
            least: 0.25,
            quiet: 0.1,
            penalty: 3.0,
        }
    }
}

/// Rows of streams at `multiple` base periods a point.
pub fn rows(streams: &[&Stream], multiple: usize) -> Vec<Row> {
    let curves: Vec<Vec<u64>> = streams.iter().map(|stream| stream.curve(multiple)).collect();
    let len = curves.iter().map(Vec::len).min().unwrap_or(0);
    let total: f64 = curves.iter().flatten().map(|&count| count as f64).sum();
    let scale = match total > 0.0 {
        true => len as f64 / total,
        false => 0.0,
    };
    let row = |t| curves.iter().map(|curve| curve[t] as f64 * scale).collect();
    (0..len).map(row).collect()
}

/// How different two rows are: the sum of differences over the sum of maxima, from 0 to 1.
pub fn distance(a: &[f64], b: &[f64], change: &Change) -> f64 {
    let (mut difference, mut most) = (0.0, 0.0);
    for (&a, &b) in a.iter().zip(b) {
        difference += (a - b).abs();
        most += a.max(b);
    }
    difference / f64::max(most, change.quiet)
}

/// The median of each column.
pub fn median(rows: &[Row]) -> Row {
    let width = rows.first().map_or(0, Vec::len);
    let column = |at: usize| {
        let mut values: Vec<f64> = rows.iter().map(|row| row[at]).collect();
        let middle = values.len() / 2;
        *values.select_nth_unstable_by(middle, f64::total_cmp).1
    };
    (0..width).map(column).collect()
}

/// Segments of different levels, in order and without gaps, of at least `least` rows each unless
/// there are fewer.
pub fn segments(rows: &[Row], least: usize, change: &Change) -> Vec<Range<usize>> {
    joined(rows, partition(rows, least.max(1), change), change)
}

/// σ² of all columns together.
fn noise(rows: &[Row]) -> f64 {
    let width = rows.first().map_or(0, Vec::len);
    let column = |at: usize| {
        let mut steps: Vec<f64> = rows.windows(2).map(|pair| (pair[1][at] - pair[0][at]).abs()).collect();
        if steps.is_empty() {
            return 0.0;
        }
        let middle = steps.len() / 2;
        let median = *steps.select_nth_unstable_by(middle, f64::total_cmp).1;
        // The median of |x| is 0.6745 σ in a normal distribution; a difference has twice the σ².
        (median / 0.6745).powi(2) / 2.0
    };
    (0..width).map(column).sum()
}

/// Sums over rows up to each, for the cost of any segment in constant time.
struct Sums {
    width: usize,
    /// By row and column.
    plain: Vec<f64>,
    /// By row.
    squares: Vec<f64>,
}

impl Sums {
    fn new(rows: &[Row]) -> Sums {
        let width = rows.first().map_or(0, Vec::len);
        let mut sums = Sums {
            width,
            plain: vec![0.0; width],
            squares: vec![0.0],
        };
        for (t, row) in rows.iter().enumerate() {
            for (at, value) in row.iter().enumerate() {
                sums.plain.push(sums.plain[t * width + at] + value);
            }
            sums.squares
                .push(sums.squares[t] + row.iter().map(|value| value * value).sum::<f64>());
        }
        sums
    }

    /// The squared distances of rows `from..to` from their mean.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let (before, after) = (&self.plain[from * self.width..], &self.plain[to * self.width..]);
        let columns = before.iter().zip(after).take(self.width);
        let of_mean: f64 = columns.map(|(before, after)| (after - before).powi(2)).sum();
        // Rounding must not make a cost of less than nothing.
        (self.squares[to] - self.squares[from] - of_mean / (to - from) as f64).max(0.0)
    }
}

/// A place where the last segment may begin.
struct Start {
    at: usize,
    /// Of the best partition whose last segment goes from here to the present end, but for that
    /// segment's penalty.
    cost: f64,
    /// From this end on another start is better.
    until: usize,
}

/// The optimal partition.
fn partition(rows: &[Row], least: usize, change: &Change) -> Vec<Range<usize>> {
    let n = rows.len();
    if n < 2 * least {
        return (n > 0).then_some(0..n).into_iter().collect();
    }
    let sums = Sums::new(rows);
    let sigma2 = noise(rows).max(LEAST_NOISE * LEAST_NOISE);
    let penalty = change.penalty * sigma2 * (n as f64).ln();
    // The best that can be done up to each end, and where the last segment begins then.
    let mut costs = vec![f64::INFINITY; n + 1];
    let mut begins = vec![0; n + 1];
    costs[0] = -penalty;
    let start = |at| Start {
        at,
        cost: 0.0,
        until: usize::MAX,
    };
    let mut starts = vec![start(0)];
    for end in least..=n {
        if end >= 2 * least {
            starts.push(start(end - least));
        }
        for start in &mut starts {
            start.cost = costs[start.at] + sums.cost(start.at, end);
        }
        let best = starts.iter().min_by(|a, b| a.cost.total_cmp(&b.cost));
        let best = best.expect("0 is always there");
        (costs[end], begins[end]) = (best.cost + penalty, best.at);
        for start in &mut starts {
            // What is no better than to begin at `end` will not be, once `end` may be begun at.
            if start.until == usize::MAX && start.cost > costs[end] {
                start.until = end + least;
            }
        }
        starts.retain(|start| start.at == 0 || start.until > end + 1);
    }
    let mut found = Vec::new();
    let mut end = n;
    while end > 0 {
        found.push(begins[end]..end);
        end = begins[end];
    }
    found.reverse();
    found
}

/// Joins neighbours that are alike, the most alike first.
fn joined(rows: &[Row], mut segments: Vec<Range<usize>>, change: &Change) -> Vec<Range<usize>> {
    let mut medians: Vec<Row> = segments.iter().map(|range| median(&rows[range.clone()])).collect();
    let apart = |medians: &[Row], at: usize| distance(&medians[at], &medians[at + 1], change);
    let mut distances: Vec<f64> = (1..segments.len()).map(|at| apart(&medians, at - 1)).collect();
    while let Some((at, &nearest)) = distances.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)) {
        if nearest >= change.least {
            break;
        }
        segments[at].end = segments[at + 1].end;
        segments.remove(at + 1);
        medians.remove(at + 1);
        distances.remove(at);
        medians[at] = median(&rows[segments[at].clone()]);
        for next_to in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            if next_to < distances.len() {
                distances[next_to] = apart(&medians, next_to);
            }
        }
    }
    segments
}

/// Labels of segments, numbered in the order in which they first occur; the longest segments are
/// the models that others are compared with.
pub fn labels(rows: &[Row], segments: &[Range<usize>], change: &Change) -> Vec<Label> {
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_by_key(|&at| (usize::MAX - segments[at].len(), at));
    let mut models: Vec<Row> = Vec::new();
    let mut model_of = vec![0; segments.len()];
    for at in order {
        let own = median(&rows[segments[at].clone()]);
        let distances = models.iter().map(|model| distance(model, &own, change)).enumerate();
        let nearest = distances.min_by(|a, b| a.1.total_cmp(&b.1));
        model_of[at] = match nearest {
            Some((model, distance)) if distance < change.least => model,
            _ => {
                models.push(own);
                models.len() - 1
            }
        };
    }
    let mut numbers = vec![None; models.len()];
    let mut next = 0;
    let number = |&model: &usize| {
        *numbers[model].get_or_insert_with(|| {
            next += 1;
            next - 1
        })
    };
    model_of.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(counts: Vec<u64>) -> Vec<Row> {
        rows(&[&Stream::new(counts)], 1)
    }

    fn found(counts: Vec<u64>) -> Vec<Range<usize>> {
        segments(&of(counts), 3, &Change::default())
    }

    #[test]
    fn rows_add_up_to_one_on_average() {
        let (a, b) = (Stream::new(vec![1, 2, 3, 2, 9]), Stream::new(vec![4, 0, 2, 2, 9]));
        // Points 3 + 4 and 5 + 4: 16 in two points.
        assert_eq!(rows(&[&a, &b], 2), [vec![0.375, 0.5], vec![0.625, 0.5]]);
        assert_eq!(rows(&[&Stream::new(vec![0, 0])], 1), [vec![0.0], vec![0.0]]);
    }

    #[test]
    fn distances_by_hand() {
        let change = Change::default();
        assert_eq!(distance(&[1.0, 0.0], &[0.0, 1.0], &change), 1.0);
        assert_eq!(distance(&[1.0, 1.0], &[1.0, 0.5], &change), 0.25);
        assert_eq!(distance(&[0.0], &[0.0], &change), 0.0);
        // 0.025 and 0 are both nearly nothing.
        assert_eq!(distance(&[0.025], &[0.0], &change), 0.25);
    }

    #[test]
    fn levels_without_noise_are_found_exactly() {
        let levels = [(40, 100), (35, 10), (25, 100), (3, 0), (97, 50)];
        let counts = levels.iter().flat_map(|&(len, level)| vec![level; len]).collect();
        assert_eq!(found(counts), [0..40, 40..75, 75..100, 100..103, 103..200]);
    }

    #[test]
    fn small_steps_and_outliers_are_no_changes() {
        assert_eq!(found([vec![100; 50], vec![110; 50]].concat()), vec![0..100]);
        let mut outlier = vec![100; 100];
        outlier[50] = 500;
        assert_eq!(found(outlier), vec![0..100]);
        assert_eq!(found(vec![0; 100]), vec![0..100]);
        assert_eq!(found(vec![7]), vec![0..1]);
        assert_eq!(found(Vec::new()), []);
    }

    /// Numbers that look random, from 0 to `below`.
    fn random(seed: u64, below: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        })
    }

    #[test]
    fn levels_in_noise_are_found_within_a_point() {
        for seed in 0..20 {
            let noise = random(seed, 60);
            let counts = noise
                .enumerate()
                .map(|(t, noise)| if (t / 100) % 2 == 0 { 200 } else { 100 } + noise);
            let found = found(counts.take(600).collect());
            assert_eq!(found.len(), 6, "{seed}: {found:?}");
            for (number, segment) in found.iter().enumerate() {
                assert!(segment.start.abs_diff(100 * number) <= 1, "{seed}: {found:?}");
            }
        }
    }

    #[test]
    fn noise_is_one_level() {
        for seed in 0..20 {
            let counts: Vec<u64> = random(seed, 100).map(|noise| 100 + noise).take(1000).collect();
            assert_eq!(found(counts).len(), 1, "{seed}");
        }
    }

    #[test]
    fn what_is_alike_has_one_label() {
        let counts: Vec<u64> = [10, 100, 12, 50, 105]
            .iter()
            .flat_map(|&level| vec![level; 20])
            .collect();
        let rows = of(counts);
        let segments = segments(&rows, 3, &Change::default());
        assert_eq!(labels(&rows, &segments, &Change::default()), [0, 1, 0, 2, 1]);
    }

    /// Every partition into segments of at least `least`, tried one by one.
    fn least_cost(sums: &Sums, n: usize, least: usize, penalty: f64) -> f64 {
        let mut costs = vec![f64::INFINITY; n + 1];
        costs[0] = -penalty;
        for end in least..=n {
            for start in (0..=end - least).filter(|&start| start == 0 || start >= least) {
                costs[end] = costs[end].min(costs[start] + sums.cost(start, end) + penalty);
            }
        }
        costs[n]
    }

    proptest! {
        /// Dropping starts loses nothing.
        #[test]
        fn partitions_are_optimal(counts in prop::collection::vec(0u64..20, 6..80), least in 1usize..5) {
            let rows = of(counts);
            let change = Change { penalty: 0.3, ..Change::default() };
            let sums = Sums::new(&rows);
            let penalty = change.penalty * noise(&rows).max(LEAST_NOISE * LEAST_NOISE) * (rows.len() as f64).ln();
            let found = partition(&rows, least, &change);
            let cost = found.iter().map(|range| sums.cost(range.start, range.end) + penalty).sum::<f64>() - penalty;
            prop_assert!(found.iter().all(|range| range.len() >= least.min(rows.len())));
            prop_assert!((cost - least_cost(&sums, rows.len(), least, penalty)).abs() < 1e-9);
        }
    }
}
