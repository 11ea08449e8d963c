//! `demo`: records a small program we carry with us, this one, and simulates a small cache on it.
//!
//! The example does what most programs do: a loop nest over arrays (a matrix product) and a walk
//! along pointers (a shuffled list). One shows regular accesses, the other irregular ones. The
//! matrix product reads its second matrix down the columns, and that is what the simulation finds.
use crate::args::{DemoArgs, RecordArgs};
use crate::info::bits_per_access;
use crate::record::{self, Keep};
use crate::sim;
use crate::sim::args::SimArgs;
use anyhow::{bail, Context};
use memtrail_report::format::{bytes, thousands};
use memtrail_report::{kind_word, levels, Dimension, Entry, Sort, View};
use std::hint::black_box;
use std::path::Path;

const N: usize = 64;
const NODES: usize = 4096;
/// Bytes of a row of a matrix.
const ROW: usize = N * size_of::<f64>();
/// What is simulated: half of a matrix fits.
const CACHE: &str = "L1=16K:64:8";

pub fn command(args: &DemoArgs) -> anyhow::Result<u8> {
    let me = std::env::current_exe().context("cannot find my own program")?;
    let mut record_args = RecordArgs::of(vec![me.into(), "__demo".into()]);
    let output = args.output.clone();
    // A demo that can only be run once would be a poor one, and the default name is our own.
    record_args.force = args.force || output.is_none();
    record_args.output = Some(output.unwrap_or_else(|| "memtrail.demo.mtr".into()));
    let done = record::run(&record_args, Keep::File)?;
    if done.outcome.drained.failure.is_some() || done.totals.accesses == 0 {
        return record::finish(&record_args, &done, true);
    }
    let (path, size) = done.file.as_ref().context("no file was written")?;
    let t = &done.totals;
    println!("\nThe example (a matrix product and a walk along a list) ran unmodified, and every access");
    println!("to memory that it made, from its very first instruction on, was recorded:");
    println!("  accesses      {:>14}", thousands(t.accesses));
    println!("  reads         {:>14}", thousands(t.reads));
    println!("  writes        {:>14}", thousands(t.writes));
    println!("  bytes moved   {:>14}", thousands(t.bytes));
    println!("  instructions  {:>14}", thousands(t.instructions));
    println!(
        "  in {} of {} ({:.2} bits an access)",
        path.display(),
        bytes(*size),
        bits_per_access(*size, t.accesses)
    );
    answer(path)?;
    println!("\nNext:");
    let name = path.display().to_string();
    for (next, why) in [
        (format!("memtrail info {name}"), "what the recording holds"),
        (
            format!("memtrail dump --limit 20 {name}"),
            "the first accesses, one a line",
        ),
        (
            format!("memtrail sim --evictors {name}"),
            "this machine's caches: who misses, who evicts whom",
        ),
        ("memtrail -- ls -l".to_string(), "record any program of yours"),
    ] {
        println!("  {next:<44} # {why}");
    }
    Ok(done.status())
}

/// Simulates a cache on the recording and says what that means.
fn answer(path: &Path) -> anyhow::Result<()> {
    let set = sim::of_file(&SimArgs::of(path.to_path_buf(), CACHE), path)?;
    println!("\nA small cache would have dealt with them like this:\n");
    println!("{}", levels::block(&set, 0, false));
    let view = View::new(&set, &[Dimension::Ref], Sort::Misses, None)?;
    let worst = view.rows.first().context("no reference point was simulated")?;
    let Some(Entry::Ref(reference)) = view.entries(worst).next() else {
        bail!("no reference point was simulated");
    };
    let figures = &worst.levels[0];
    let share = 100.0 * figures.misses as f64 / set.total(0).misses.max(1) as f64;
    println!(
        "The worst reference point is the {} at {}:",
        kind_word(reference.kind),
        reference.address()
    );
    println!(
        "  {} of its {} accesses miss, {share:.0}% of all misses",
        thousands(figures.misses),
        thousands(figures.accesses())
    );
    if let Some(used) = levels::spatial_use(figures, set.run.hierarchy.levels[0].line) {
        println!(
            "  of each line it brings in, {:.0}% is used before the line has to go",
            100.0 * used
        );
    }
    println!("That is the matrix product, which reads its second matrix down the columns: every read is");
    println!("{ROW} bytes further on, in another line, and the line is gone when its next number is wanted.");
    Ok(())
}

/// What the demo records.
pub fn kernel() -> anyhow::Result<u8> {
    println!("example: trace of a {N}x{N} matrix product is {}", matmul());
    println!("example: a walk over {NODES} list nodes sums to {}", walk());
    Ok(0)
}

#[inline(never)]
fn matmul() -> f64 {
    let a: Vec<f64> = (0..N * N).map(|i| (i % 7) as f64).collect();
    let b: Vec<f64> = (0..N * N).map(|i| (i % 5) as f64).collect();
    let (a, b) = (black_box(a), black_box(b));
    let mut c = vec![0.0; N * N];
    for i in 0..N {
        for j in 0..N {
            for k in 0..N {
                c[i * N + j] += a[i * N + k] * b[k * N + j];
            }
        }
    }
    let c = black_box(c);
    (0..N).map(|i| c[i * N + i]).sum()
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
