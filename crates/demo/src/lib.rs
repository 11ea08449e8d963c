//! The example that `memtrail demo` records: a matrix product and a walk along a list.
//!
//! A crate of its own, because it is built with full debug information in every profile: the demo
//! names what it finds in the words of this file. The binary brings [`SOURCE`] along, so that it can
//! do so wherever it was copied to.
#![forbid(unsafe_code)]

use std::hint::black_box;

/// This file.
pub const SOURCE: &str = include_str!("lib.rs");
/// How its path ends.
pub const PATH: &str = "crates/demo/src/lib.rs";

const N: usize = 64;
const NODES: usize = 4096;

/// Runs the example and says what came of it.
pub fn run() {
    println!("example: trace of a {N}x{N} matrix product is {}", product());
    println!("example: a walk over {NODES} list nodes sums to {}", walk());
}

// Indices, as in the textbooks: it is what people write, and what the answer names.
#[allow(clippy::needless_range_loop)]
#[inline(never)]
fn product() -> f64 {
    let mut a = vec![0.0; N * N];
    let mut b = vec![0.0; N * N];
    let mut c = vec![0.0; N * N];
    for i in 0..N * N {
        a[i] = (i % 7) as f64;
        b[i] = (i % 5) as f64;
    }
    multiply(black_box(&a), black_box(&b), black_box(&mut c), black_box(N));
    (0..N).map(|i| c[i * N + i]).sum()
}

/// Reads `b` down its columns: every number is a row further on, in another line.
#[allow(clippy::needless_range_loop)]
#[inline(never)]
fn multiply(a: &[f64], b: &[f64], c: &mut [f64], n: usize) {
    for i in 0..n {
        for j in 0..n {
            let mut sum = 0.0;
            for k in 0..n {
                sum += a[i * n + k] * b[k * n + j];
            }
            c[i * n + j] = sum;
        }
    }
}

#[inline(never)]
fn walk() -> usize {
    // An odd step through a power of two visits every node once, in no obvious order.
    const STEP: usize = 2741;
    let next: Vec<usize> = (0..NODES).map(|i| (i + STEP) % NODES).collect();
    let next = black_box(next);
    let (mut at, mut sum) = (0, 0);
    for _ in 0..NODES {
        sum += at;
        at = next[at];
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_computes_what_it_says() {
        let expected: f64 = (0..N)
            .flat_map(|i| (0..N).map(move |k| ((i * N + k) % 7 * ((k * N + i) % 5)) as f64))
            .sum();
        assert_eq!(product(), expected);
        assert_eq!(walk(), NODES * (NODES - 1) / 2);
        assert!(file!().ends_with(PATH));
    }
}
