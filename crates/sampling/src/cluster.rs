//! Clusters of intervals.
//!
//! k-means (Lloyd's iterations from centres chosen as k-means++ does, several seeds, the tightest
//! kept) for each number of clusters up to a limit. The number is the smallest whose Bayesian
//! information criterion, after Pelleg and Moore's X-means, comes within a tenth of the best one's
//! advantage over the worst: SimPoint's rule.
use crate::random::SplitMix;
use crate::vectors::{distance, Projected, DIMENSIONS};

/// How clusters are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Clusters at most.
    pub most: usize,
    /// Beginnings that are tried for each number.
    pub seeds: u64,
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Search {
        Search {
            most: 30,
            seeds: 5,
            seed: 1,
        }
    }
}

/// The share of the best criterion's advantage that suffices.
const ENOUGH: f64 = 0.9;
/// Iterations at most.
const ITERATIONS: usize = 100;

/// Intervals in clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// By interval: its cluster.
    pub of: Vec<usize>,
    pub centres: Vec<Projected>,
    /// The sum of squared distances to the centres.
    pub spread: f64,
    pub criterion: f64,
}

impl Clusters {
    /// By cluster: its intervals.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.centres.len()];
        for (interval, &cluster) in self.of.iter().enumerate() {
            members[cluster].push(interval);
        }
        members
    }

    /// By cluster: the interval nearest to the middle, the earliest of equal ones.
    pub fn representatives(&self, vectors: &[Projected]) -> Vec<usize> {
        let nearest = |(cluster, members): (usize, Vec<usize>)| {
            let far = |&&i: &&usize| distance(&vectors[i], &self.centres[cluster]);
            members.iter().min_by(|a, b| far(a).total_cmp(&far(b))).copied()
        };
        self.members().into_iter().enumerate().filter_map(nearest).collect()
    }
}

/// The best clusters of these vectors; none if there are no vectors.
pub fn clusters(vectors: &[Projected], search: &Search) -> Option<Clusters> {
    let most = search.most.clamp(1, vectors.len().max(1));
    let all: Vec<Clusters> = (1..=most).filter_map(|k| best_of(vectors, k, search)).collect();
    let criteria = || all.iter().map(|clusters| clusters.criterion);
    let best = criteria().fold(f64::NEG_INFINITY, f64::max);
    let worst = criteria().fold(f64::INFINITY, f64::min);
    let enough = worst + ENOUGH * (best - worst);
    all.into_iter().find(|clusters| clusters.criterion >= enough)
}

fn best_of(vectors: &[Projected], k: usize, search: &Search) -> Option<Clusters> {
    let tries = (0..search.seeds.max(1)).filter_map(|n| {
        let mut random = SplitMix::new(search.seed.wrapping_mul(1 << 20) ^ (k as u64) << 8 ^ n);
        one(vectors, k, &mut random)
    });
    tries.min_by(|a, b| a.spread.total_cmp(&b.spread))
}

/// One run of k-means; none if fewer than `k` vectors differ.
fn one(vectors: &[Projected], k: usize, random: &mut SplitMix) -> Option<Clusters> {
    let mut centres = beginnings(vectors, k, random)?;
    let mut of = vec![usize::MAX; vectors.len()];
    for _ in 0..ITERATIONS {
        let nearest: Vec<usize> = vectors.iter().map(|v| nearest(v, &centres)).collect();
        if nearest == of {
            break;
        }
        of = nearest;
        centres = middles(vectors, &of, &centres);
    }
    let spread = vectors.iter().zip(&of).map(|(v, &c)| distance(v, &centres[c])).sum();
    let criterion = criterion(&of, k, spread);
    Some(Clusters {
        of,
        centres,
        spread,
        criterion,
    })
}

fn nearest(vector: &Projected, centres: &[Projected]) -> usize {
    let far = |&i: &usize| distance(vector, &centres[i]);
    let order = |a: &usize, b: &usize| far(a).total_cmp(&far(b));
    (0..centres.len()).min_by(order).unwrap_or(0)
}

/// Centres to begin with: each far from those before it, with a chance by the square of the
/// distance.
fn beginnings(vectors: &[Projected], k: usize, random: &mut SplitMix) -> Option<Vec<Projected>> {
    let first = vectors.get(random.below(vectors.len().max(1)))?;
    let mut centres = vec![*first];
    let mut far: Vec<f64> = vectors.iter().map(|v| distance(v, first)).collect();
    while centres.len() < k {
        let sum: f64 = far.iter().sum();
        if sum <= f64::EPSILON {
            return None;
        }
        let mut at = random.unit() * sum;
        let chosen = far.iter().position(|d| {
            at -= d;
            at < 0.0
        });
        let centre = vectors[chosen.unwrap_or(vectors.len() - 1)];
        far.iter_mut()
            .zip(vectors)
            .for_each(|(d, v)| *d = d.min(distance(v, &centre)));
        centres.push(centre);
    }
    Some(centres)
}

/// The middle of each cluster; one without members stays where it was.
fn middles(vectors: &[Projected], of: &[usize], before: &[Projected]) -> Vec<Projected> {
    let mut sums = vec![[0.0; DIMENSIONS]; before.len()];
    let mut counts = vec![0usize; before.len()];
    for (vector, &cluster) in vectors.iter().zip(of) {
        sums[cluster].iter_mut().zip(vector).for_each(|(sum, x)| *sum += x);
        counts[cluster] += 1;
    }
    let middle = |((sum, &count), &before): ((&Projected, &usize), &Projected)| match count {
        0 => before,
        _ => sum.map(|x| x / count as f64),
    };
    sums.iter().zip(&counts).zip(before).map(middle).collect()
}

/// The Bayesian information criterion of spherical clusters of one variance.
fn criterion(of: &[usize], k: usize, spread: f64) -> f64 {
    let n = of.len() as f64;
    let d = DIMENSIONS as f64;
    let mut sizes = vec![0usize; k];
    of.iter().for_each(|&cluster| sizes[cluster] += 1);
    // Of points that lie in their centres the likelihood would be infinite.
    let variance = (spread / (d * (n - k as f64).max(1.0))).max(1e-12);
    let shares: f64 = sizes
        .iter()
        .filter(|&&size| size > 0)
        .map(|&size| size as f64 * (size as f64 / n).ln())
        .sum();
    let likelihood = shares - n * d / 2.0 * (2.0 * std::f64::consts::PI * variance).ln() - d * (n - k as f64) / 2.0;
    let parameters = (k - 1) as f64 + k as f64 * d + 1.0;
    likelihood - parameters / 2.0 * n.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Points around some centres.
    fn around(centres: &[f64], each: usize, noise: f64) -> Vec<Projected> {
        let mut random = SplitMix::new(9);
        let point = |&centre: &f64| {
            let mut p = [centre; DIMENSIONS];
            p.iter_mut().for_each(|x| *x += noise * (random.unit() - 0.5));
            p
        };
        centres.repeat(each).iter().map(point).collect()
    }

    #[test]
    fn as_many_clusters_are_found_as_there_are() {
        for n in 1..6 {
            let centres: Vec<f64> = (0..n).map(f64::from).collect();
            let vectors = around(&centres, 40, 0.05);
            let found = clusters(&vectors, &Search::default()).unwrap();
            assert_eq!(found.centres.len(), centres.len());
            // The vectors of one centre, and no others, are together.
            for (i, &cluster) in found.of.iter().enumerate() {
                assert_eq!(cluster, found.of[i % centres.len()]);
            }
        }
    }

    #[test]
    fn equal_vectors_are_one_cluster() {
        let found = clusters(&[[1.0; DIMENSIONS]; 20], &Search::default()).unwrap();
        assert_eq!(found.centres, [[1.0; DIMENSIONS]]);
        assert_eq!(found.representatives(&[[1.0; DIMENSIONS]; 20]), [0]);
        assert_eq!(clusters(&[], &Search::default()), None);
    }

    proptest! {
        #[test]
        fn every_vector_is_with_the_nearest_centre(values in proptest::collection::vec(0.0f64..1.0, 1..60), k in 1usize..8) {
            let vectors: Vec<Projected> = values.iter().map(|&v| [v; DIMENSIONS]).collect();
            if let Some(found) = one(&vectors, k, &mut SplitMix::new(4)) {
                for (vector, &cluster) in vectors.iter().zip(&found.of) {
                    let own = distance(vector, &found.centres[cluster]);
                    for centre in &found.centres {
                        prop_assert!(own <= distance(vector, centre) + 1e-9);
                    }
                }
            }
        }
    }
}
