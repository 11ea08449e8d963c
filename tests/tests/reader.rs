//! The independent reader decodes real recordings to the accesses that `memtrail dump` prints.
//!
//! The guests are chosen to make use of everything in the format; that the reader meets all of it,
//! whatever this CPU can run, the golden files see to.

use libtest_mimic::{Arguments, Failed, Trial};
use memtrail_tests::guest::{self, Guest};
use memtrail_tests::run::{record, text_of, Configuration, Probes};
use memtrail_tests::{cpu, reader, tools};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const GUESTS: &[&str] = &[
    // Shapes.
    "address_32bit",
    "bit_strings",
    "compress_expand_avx512",
    "gather_avx512",
    "masked_broadcast_avx512",
    "prefetch_kinds",
    "string_backward",
    "vmaskmov_avx",
    "xsave_forms",
    // Loops.
    "loop_byte_string_early_exit",
    "loop_nested",
    "loop_trip_counts",
    "unoptimised_kernels",
    // Blocks that were cut.
    "fault_in_middle_of_loop",
    "gather_fault_midway",
    "rep_fault_midway",
    // Signals, threads, processes.
    "execve_self",
    "fork_and_wait",
    "signal_nested",
    "threads_mutex_counter",
    "vfork_exec",
];

const LOOP: Configuration = Configuration {
    probes: Probes::Loop,
    max_block: None,
};

fn trace(name: &str) -> PathBuf {
    tools::work_directory().join(format!("reader.{name}.mtr"))
}

/// Records a program; the reader must agree, and find what is `wanted`.
fn check(
    name: &str,
    program: &Path,
    args: &[String],
    configuration: Configuration,
    wanted: &[&str],
) -> Result<(), Failed> {
    let trace = trace(name);
    record(program, args, configuration, &["--verify"], &trace)?;
    reader::agree(&trace)?;
    if !wanted.is_empty() {
        let features = reader::features(&trace)?;
        if let Some(missing) = wanted.iter().find(|w| !features.iter().any(|f| f == *w)) {
            return Err(format!("no {missing} in {}: {features:?}", trace.display()).into());
        }
    }
    std::fs::remove_file(&trace)?;
    Ok(())
}

fn check_guest(guest: &Guest, configuration: Configuration) -> Result<(), Failed> {
    let name = format!("{}.{}", guest.name, configuration.name());
    check(&name, &guest.built()?, &guest.args, configuration, &[])
}

/// So many records that they take several chunks.
fn many_chunks() -> Result<(), Failed> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("reader/many_chunks.c");
    let program = tools::work_directory().join("many_chunks");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O2", "-w", "-nostdlib", "-static", "-ffreestanding", "-o"]);
    if !compiler.arg(&program).arg(source).status()?.success() {
        return Err("many_chunks.c does not build".into());
    }
    check(
        "many_chunks",
        &program,
        &[],
        LOOP,
        &["several chunks of a thread", "stamp"],
    )
}

/// A recording that was made from another one's accesses, by no recorder.
fn imported() -> Result<(), Failed> {
    let name = format!("golden/valid/threads_raw_clone.v{}.txt", memtrail_trace::VERSION);
    let accesses = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let trace = trace("imported");
    let mut import = Command::new(tools::memtrail()?);
    import.args(["import", "--force", "--format", "text", "--output"]);
    import.arg(&trace).arg(&accesses);
    text_of(import)?;
    let read = reader::accesses(&trace)?;
    if read != std::fs::read_to_string(&accesses)? {
        return Err(format!("other accesses than {}:\n{read}", accesses.display()).into());
    }
    reader::agree(&trace)?;
    std::fs::remove_file(&trace)?;
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let guests = match guest::all() {
        Ok(guests) => guests,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = vec![
        Trial::test("many_chunks", many_chunks),
        Trial::test("imported", imported),
        Trial::test("true", || check("true", Path::new("/usr/bin/true"), &[], LOOP, &[])),
    ];
    for name in GUESTS {
        let Some(guest) = guests.iter().find(|g| g.name == *name) else {
            eprintln!("there is no guest {name}");
            return ExitCode::FAILURE;
        };
        let missing = cpu::missing(&guest.needs);
        if !missing.is_empty() {
            eprintln!(
                "******** NOT RUNNABLE HERE: guest {name} needs {} ********",
                missing.join(", ")
            );
        }
        let guest = guest.clone();
        let runner = move || check_guest(&guest, LOOP);
        trials.push(Trial::test(*name, runner).with_ignored_flag(!missing.is_empty()));
    }
    // Naive probes make other plans: every address is a value word.
    if let Some(guest) = guests.iter().find(|g| g.name == "string_backward").cloned() {
        let naive = Configuration {
            probes: Probes::Naive,
            max_block: Some(1),
        };
        trials.push(Trial::test("string_backward::naive-max1", move || {
            check_guest(&guest, naive)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
