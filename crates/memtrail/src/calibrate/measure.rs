//! Small kernels that show how fast this machine is: safe code, timed by the clock.
//!
//! Each is run several times and the fastest counts: whatever else the machine does makes them
//! slower, never faster. Latencies are those of a chase along pointers in random order, which no
//! prefetcher foresees; each step is a load whose address is what the last one brought.
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes of a line.
const LINE: usize = 64;
/// Numbers in a line.
const STEP: usize = LINE / size_of::<u32>();
const PAGE: usize = 4096;

/// How often each kernel is run.
const RUNS: usize = 7;

/// The shortest of several runs, in nanoseconds.
fn fastest(mut kernel: impl FnMut()) -> f64 {
    let timed = |_| {
        let begin = Instant::now();
        kernel();
        begin.elapsed()
    };
    let fastest: Option<Duration> = (0..RUNS).map(timed).min();
    fastest.unwrap_or_default().as_nanos() as f64
}

/// Cycles per nanosecond: a chain of operations of one cycle each.
pub fn ghz() -> f64 {
    const N: u64 = 4_000_000;
    let key = black_box(0x9e37_79b9_7f4a_7c15u64);
    let ns = fastest(|| {
        let mut x = black_box(1u64);
        for _ in 0..N {
            x = (x ^ key).rotate_left(5);
        }
        black_box(x);
    });
    2.0 * N as f64 / ns
}

/// Numbers of 0 to `n` in random order.
fn shuffled(n: usize) -> Vec<u32> {
    let mut all: Vec<u32> = (0..n as u32).collect();
    let mut seed = 1u64;
    for i in (1..n).rev() {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        all.swap(i, (seed >> 33) as usize % (i + 1));
    }
    all
}

/// A memory in which `places`, in their order, lead from one to the next and round again. `spread`
/// says where a place is.
fn ring(places: &[u32], spread: impl Fn(u32) -> usize) -> Vec<u32> {
    let most = places.iter().map(|&place| spread(place)).max().unwrap_or(0);
    let mut memory = vec![0u32; most + 1];
    for (n, &place) in places.iter().enumerate() {
        memory[spread(place)] = spread(places[(n + 1) % places.len()]) as u32;
    }
    memory
}

/// Nanoseconds for each step along a ring.
fn chase(memory: &[u32], steps: u64) -> f64 {
    let mut at = 0u32;
    let walk = |at: &mut u32, steps: u64| {
        for _ in 0..steps {
            *at = memory[*at as usize];
        }
        black_box(*at);
    };
    walk(&mut at, steps);
    fastest(|| walk(&mut at, steps)) / steps as f64
}

/// Nanoseconds from one load to the next that depends on it, within this many bytes.
pub fn latency(bytes: usize) -> f64 {
    let lines = (bytes / LINE).max(2);
    let memory = ring(&shuffled(lines), |line| line as usize * STEP);
    chase(&memory, 400_000.min(20 * lines as u64).max(100_000))
}

/// The same if every load is in another page, on another line of it.
pub fn page_latency(pages: usize) -> f64 {
    let spread = |page: u32| (page as usize * PAGE + page as usize % (PAGE / LINE) * LINE) / size_of::<u32>();
    let memory = ring(&shuffled(pages), spread);
    chase(&memory, 400_000)
}

/// How many loads of a memory of this size can be under way at once: as many times as long a chase
/// takes than its share of several at once.
pub fn parallelism(bytes: usize) -> f64 {
    const CHAINS: usize = 32;
    const STEPS: usize = 20_000;
    let lines = (bytes / LINE).max(CHAINS);
    let order = shuffled(lines);
    let memory = ring(&order, |line| line as usize * STEP);
    let alone = chase(&memory, STEPS as u64 * 4);
    let mut heads: [u32; CHAINS] = std::array::from_fn(|n| order[n * (lines / CHAINS)] * STEP as u32);
    let together = fastest(|| {
        for _ in 0..STEPS {
            for head in &mut heads {
                *head = memory[*head as usize];
            }
        }
        black_box(&heads);
    });
    alone * (STEPS * CHAINS) as f64 / together
}

/// Nanoseconds for each line of a long sweep.
pub fn sweep(bytes: usize) -> f64 {
    let memory = vec![1u64; bytes / size_of::<u64>()];
    let ns = fastest(|| {
        black_box(memory.iter().fold(0u64, |sum, &x| sum.wrapping_add(x)));
    });
    ns / (bytes / LINE) as f64
}

/// Nanoseconds that a branch costs which is not foreseen.
pub fn mispredict() -> f64 {
    const N: usize = 1 << 16;
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        seed >> 63 == 1
    };
    let ways: Vec<bool> = (0..N).map(|_| random()).collect();
    let mut sorted = ways.clone();
    sorted.sort_unstable();
    let time = |ways: &[bool]| {
        fastest(|| {
            let mut sum = 0u64;
            for &way in ways {
                // Two ways that cannot be made one without a branch.
                if way {
                    sum = black_box(sum + 1);
                } else {
                    sum = black_box(sum ^ 3);
                }
            }
            black_box(sum);
        })
    };
    2.0 * (time(&ways) - time(&sorted)) / N as f64
}
