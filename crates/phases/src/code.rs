//! Phases by what is executed, to compare with those by what misses.
//!
//! The vector of a point is how often each basic block made an access, as shares of all accesses: a
//! basic-block vector (Sherwood, Perelman, Calder 2001), weighted by accesses rather than by
//! instructions. There may be any number of blocks, so they share [`BUCKETS`] numbers by a hash:
//! different vectors may then look more alike than they are, equal ones stay equal.
use crate::gather::Sample;
use crate::segments::{labels, segments, Change, Label, Row};
use std::collections::HashMap;

/// Numbers that blocks share.
pub const BUCKETS: usize = 32;

/// Rows by block, at `multiple` base periods a point; the first count of each key is what counts.
pub fn rows(samples: &[Sample], multiple: usize) -> Vec<Row> {
    samples.chunks_exact(multiple.max(1)).map(row).collect()
}

fn row(samples: &[Sample]) -> Row {
    let mut row = vec![0.0; BUCKETS];
    let mut total = 0.0;
    for (block, counts) in samples.iter().flat_map(Sample::rows) {
        let count = counts.first().map_or(0.0, |&count| count as f64);
        row[bucket(block)] += count;
        total += count;
    }
    if total > 0.0 {
        row.iter_mut().for_each(|value| *value /= total);
    }
    row
}

fn bucket(block: u32) -> usize {
    (u64::from(block).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as usize % BUCKETS
}

/// The label of each point.
pub fn by_point(rows: &[Row], least: usize, change: &Change) -> Vec<Label> {
    let found = segments(rows, least, change);
    let labels = labels(rows, &found, change);
    let each = found
        .iter()
        .zip(labels)
        .flat_map(|(range, label)| vec![label; range.len()]);
    each.collect()
}

/// How well two labellings of the same points agree: the adjusted Rand index, 1 if they are the
/// same but for names, about 0 if they have nothing to do with each other. Two that have one label
/// each agree.
pub fn agreement(a: &[Label], b: &[Label]) -> f64 {
    let pairs = |n: u64| (n * n.saturating_sub(1) / 2) as f64;
    let count = |labels: &mut dyn Iterator<Item = (Label, Label)>| {
        let mut counts: HashMap<(Label, Label), u64> = HashMap::new();
        labels.for_each(|label| *counts.entry(label).or_default() += 1);
        counts.into_values().map(pairs).sum::<f64>()
    };
    let both = count(&mut a.iter().copied().zip(b.iter().copied()));
    let ours = count(&mut a.iter().map(|&label| (label, 0)));
    let theirs = count(&mut b.iter().map(|&label| (label, 0)));
    let all = pairs(a.len().min(b.len()) as u64);
    let expected = if all > 0.0 { ours * theirs / all } else { 0.0 };
    let most = (ours + theirs) / 2.0;
    match most - expected > 0.0 {
        true => (both - expected) / (most - expected),
        false => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 0 0 0 1 1 1 against 0 0 1 1 2 2. Pairs in both: {1,2} and {5,6}, so 2; 6 and 3 pairs
    /// in each, 15 in all; expected 18/15 = 1.2, most 4.5: 0.8/3.3.
    #[test]
    fn agreement_by_hand() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(agreement(&[0, 0, 0, 1, 1, 1], &[0, 0, 1, 1, 2, 2]), 0.8 / 3.3));
        assert!(close(agreement(&[0, 0, 1, 1], &[5, 5, 2, 2]), 1.0));
        assert!(close(agreement(&[0, 1, 0, 1], &[0, 0, 1, 1]), -0.5));
        assert!(close(agreement(&[0; 9], &[3; 9]), 1.0));
        assert!(close(agreement(&[], &[]), 1.0));
    }

    #[test]
    fn blocks_make_phases() {
        let sample = |block: u32| Sample::new(vec![(block, [10]), (7, [1])]);
        let blocks = [vec![1; 30], vec![2; 30], vec![1; 30]].concat();
        let samples: Vec<Sample> = blocks.into_iter().map(sample).collect();
        let labels = by_point(&rows(&samples, 2), 3, &Change::default());
        assert_eq!(labels, [vec![0; 15], vec![1; 15], vec![0; 15]].concat());
    }
}
