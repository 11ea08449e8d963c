//! What an interval does, as a vector.
//!
//! **Code**: instructions executed in each *block*, a run of instructions between two transfers of
//! control that were taken. **Memory**: accesses by the time since their line was last accessed
//! (powers of two; a first access is a bucket of its own), and the number of lines touched. Two
//! intervals that run the same code on data of other sizes have the same code vector and another
//! memory vector.
//!
//! **Projection.** Vectors have as many dimensions as a program has blocks. Each dimension is given
//! a random direction in [`DIMENSIONS`] dimensions, which follows from its number and a seed;
//! distances are kept nearly (Johnson and Lindenstrauss). Code and memory are scaled to sums of 1,
//! so each counts by its shares.
use crate::random::SplitMix;

/// Dimensions of a projected vector, as SimPoint has it.
pub const DIMENSIONS: usize = 15;

/// A projected vector.
pub type Projected = [f64; DIMENSIONS];

/// What one interval did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vector {
    /// Number of a block, and instructions executed in it, in ascending order.
    pub code: Vec<(u32, u64)>,
    /// Bucket of reuse, and accesses in it, in ascending order.
    pub memory: Vec<(u32, u64)>,
}

impl Vector {
    /// Instructions executed.
    pub fn instructions(&self) -> u64 {
        self.code.iter().map(|(_, times)| times).sum()
    }
}

/// What counts when intervals are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Features {
    Code,
    Memory,
    Both,
}

/// A direction for dimension `number` of a kind.
fn direction(kind: u64, number: u32, seed: u64) -> Projected {
    let mut random = SplitMix::new(seed ^ (kind << 32 | u64::from(number)).wrapping_mul(0xd6e8_feb8_6659_fd93));
    std::array::from_fn(|_| 2.0 * random.unit() - 1.0)
}

fn add(into: &mut Projected, kind: u64, part: &[(u32, u64)], seed: u64) {
    let sum: u64 = part.iter().map(|(_, times)| times).sum();
    for &(number, times) in part {
        let share = times as f64 / sum.max(1) as f64;
        let along = direction(kind, number, seed);
        into.iter_mut().zip(along).for_each(|(x, d)| *x += share * d);
    }
}

/// Projects a vector.
pub fn projected(vector: &Vector, features: Features, seed: u64) -> Projected {
    let mut out = [0.0; DIMENSIONS];
    if features != Features::Memory {
        add(&mut out, 1, &vector.code, seed);
    }
    if features != Features::Code {
        add(&mut out, 2, &vector.memory, seed);
    }
    out
}

/// The square of the distance.
pub fn distance(a: &Projected, b: &Projected) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(code: &[(u32, u64)], memory: &[(u32, u64)]) -> Vector {
        Vector {
            code: code.to_vec(),
            memory: memory.to_vec(),
        }
    }

    #[test]
    fn equal_shares_are_equal_vectors() {
        let (a, b) = (
            vector(&[(1, 10), (7, 30)], &[(0, 5)]),
            vector(&[(1, 20), (7, 60)], &[(0, 1)]),
        );
        let project = |v: &Vector| projected(v, Features::Both, 3);
        assert!(distance(&project(&a), &project(&b)) < 1e-20);
    }

    #[test]
    fn code_and_memory_are_told_apart() {
        let (a, b) = (vector(&[(1, 10)], &[(3, 10)]), vector(&[(1, 10)], &[(20, 10)]));
        let apart = |features| distance(&projected(&a, features, 3), &projected(&b, features, 3));
        assert_eq!(apart(Features::Code), 0.0);
        assert!(apart(Features::Memory) > 0.1);
        assert!((apart(Features::Both) - apart(Features::Memory)).abs() < 1e-9);
    }

    #[test]
    fn distances_survive_projection() {
        // Two vectors of 1,000 blocks each that share none: their distance is 2/1000 times what one
        // direction has, 15/3; on average over seeds.
        let a = vector(&(0..1000).map(|i| (i, 1)).collect::<Vec<_>>(), &[]);
        let b = vector(&(1000..2000).map(|i| (i, 1)).collect::<Vec<_>>(), &[]);
        let one = |seed| {
            distance(
                &projected(&a, Features::Code, seed),
                &projected(&b, Features::Code, seed),
            )
        };
        let mean = (0..50).map(one).sum::<f64>() / 50.0;
        assert!((mean - 2.0 / 1000.0 * 5.0).abs() < 0.001, "{mean}");
    }
}
