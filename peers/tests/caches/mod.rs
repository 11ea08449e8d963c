//! What the comparisons with other cache simulators share: programs, what they do, and our simulation of it.
#[path = "../../../crates/simulate/tests/naive/mod.rs"]
mod naive;

use memtrail_simulate::{Hierarchy, Level, LevelCounts};
use naive::Naive;
pub use naive::{Access, Kind};
use peers::{lackey, Program, Result, Scratch};
use std::path::Path;

/// A point for each sort of reference.
const POINTS: [Kind; 3] = [Kind::Fetch, Kind::Read, Kind::Write];

pub fn simulate(levels: Vec<Level>, accesses: &[Access]) -> Vec<LevelCounts> {
    let mut naive = Naive::new(&Hierarchy::of(levels), false, false);
    for access in accesses {
        naive.access(access);
    }
    naive.counts()
}

/// What a program does: every access as lackey prints it, and how many of them are modifies.
pub fn accesses(program: &Program) -> Result<(Vec<Access>, u64)> {
    let mut accesses = Vec::new();
    let mut modifies = 0;
    lackey::run(program, |_, line| {
        let mut push = |point: u32| {
            accesses.push(Access {
                thread: 0,
                point,
                kind: POINTS[point as usize],
                addr: line.address,
                size: line.size,
            });
        };
        match line.kind {
            b'I' => push(0),
            b'L' => push(1),
            b'S' => push(2),
            _ => {
                push(1);
                push(2);
                modifies += 1;
            }
        }
        Ok(())
    })?;
    Ok((accesses, modifies))
}

/// A program that calls the kernel for nothing but output to /dev/null, linked statically at a fixed address: the same in both tools.
pub fn build(source: &str, purpose: &str, options: &[&str], args: &[&str]) -> Result<(Program, Scratch)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let scratch = Scratch::new(&format!("{name}.{purpose}"))?;
    let path = scratch.path(&name);
    let options = [options, &["-O2", "-fno-pie", "-static", "-no-pie"]].concat();
    scratch.compile(&options, &source, &path)?;
    Ok((Program::new(&path, args, None)?, scratch))
}

/// One of the benchmark kernels.
pub fn kernel(name: &str, purpose: &str, args: &[&str]) -> Result<(Program, Scratch)> {
    build(&format!("../bench/kernels/{name}.c"), purpose, &[], args)
}
