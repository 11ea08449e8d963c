//! What resolving costs: time and peak memory for one program.
//!
//! usage: resolve PROGRAM [ADDRESSES]     resolves so many addresses, spread evenly over the code,
//! then all variables
use memtrail_symbols::{Disk, Options, Store, Symbols};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap_or_default();
    let number = line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    number.unwrap_or(0) / 1024
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next().ok_or("usage: resolve PROGRAM [ADDRESSES]")?;
    let count: u64 = match arguments.next() {
        Some(count) => count.to_string_lossy().parse()?,
        None => 10_000,
    };
    let store = Store::default();
    let symbols = Symbols::new(&store, Box::new(Disk), Options::default());
    let start = Instant::now();
    let report = |what: &str| {
        println!(
            "{:8.3} s {:6} MB  {what}",
            start.elapsed().as_secs_f64(),
            peak_megabytes()
        )
    };
    let module = symbols.module(program.as_bytes(), None)?;
    report("opened");
    let code: u64 = module
        .segments()
        .iter()
        .filter(|s| s.executable)
        .map(|s| s.filesz)
        .sum();
    let step = (code / count.max(1)).max(1);
    let (mut named, mut lines, mut frames) = (0, 0, 0);
    for segment in module.segments().iter().filter(|s| s.executable) {
        for at in (0..segment.filesz).step_by(step as usize) {
            let location = module.locate(segment.offset + at);
            named += u64::from(location.function.is_some());
            lines += u64::from(location.frames.first().is_some_and(|f| f.line.is_some()));
            frames += location.frames.len();
        }
    }
    report(&format!(
        "{count} addresses: {named} with a function, {lines} with a line, {frames} frames"
    ));
    let mut functions = 0;
    for segment in module.segments().iter().filter(|s| s.executable) {
        for at in (0..segment.filesz).step_by(step as usize) {
            functions += u64::from(module.function_at(segment.offset + at).is_some());
        }
    }
    report(&format!("the same addresses: {functions} with a function's range"));
    let (all, typed) = (
        module.variables(),
        module.variables().iter().filter(|v| v.ty.is_some()).count(),
    );
    report(&format!("{} variables, {typed} with a type", all.len()));
    for reason in module.reasons() {
        println!("{reason}");
    }
    Ok(())
}
