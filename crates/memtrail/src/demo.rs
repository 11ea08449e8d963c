//! `demo`: records a small program we carry with us, simulates a small cache on it, and says what
//! that means.
//!
//! The example does what most programs do: a loop nest over arrays (a matrix product) and a walk
//! along pointers (a shuffled list). One shows regular accesses, the other irregular ones. The
//! matrix product reads its second matrix down the columns, and that is what the answer names.
use crate::args::{DemoArgs, RecordArgs};
use crate::explain;
use crate::info::bits_per_access;
use crate::record::{self, Keep};
use anyhow::Context;
use memtrail_report::format::{bytes, thousands};

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
    println!(
        "{} accesses of {} instructions, in {} of {} ({:.2} bits an access)\n",
        thousands(t.accesses),
        thousands(t.instructions),
        path.display(),
        bytes(*size),
        bits_per_access(*size, t.accesses)
    );
    print!("{}", explain::with_cache(path, CACHE)?);
    println!("  memtrail -- ls -l");
    Ok(done.status())
}

/// What the demo records.
pub fn kernel() -> anyhow::Result<u8> {
    memtrail_demo::run();
    Ok(0)
}
