//! `cargo xtask`: everything a developer runs, as one program.
//!
//! Scripts rot in silence; this is compiled, linted and tested with the rest.
//! Each subcommand is one module with a `run(args)`; what they share is small:
//! `packages` (what Debian must provide), `process` (run, watch, time, clean up)
//! and `project` (where things are, how cargo is called).
//!
//! Not for users of memtrail: nothing here is needed to record a program.

mod bench;
mod longtest;
mod packages;
mod process;
mod project;
mod table;
mod test;
mod tidy;

use std::process::ExitCode;

/// What every subcommand returns: `Ok(false)` means "ran, and found something wrong".
pub type Outcome = Result<bool, String>;

type Entry = fn(&[String]) -> Outcome;

/// Name, one line of help, entry point. The tidy check reads the names.
pub const SUBCOMMANDS: &[(&str, &str, Entry)] = &[
    (
        "test",
        "the one test command: packages, fmt, clippy, build, all tests, tidy",
        test::run,
    ),
    (
        "long-test",
        "real programs, native against recorded: [--write] [--list] [NAME…]",
        longtest::run,
    ),
    (
        "bench",
        "overhead table: [--quick] [--write] [--runs N] [--valgrind no] [--modes A,B] [NAME…]\n             \
         trace sizes: sizes [--quick] [--write] [--runs N] [--no-peers] [--keep] [--only NAME,…]\n             \
         recording to a file: record [--quick] [--write] [--runs N] [--no-lackey] [NAME…]\n             \
         simulation: sim [--quick] [--write] [--runs N] [--no-peers] [--only NAME,…]",
        bench::run,
    ),
    ("tidy", "are the documents true? [--no-binary]", tidy::run),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else {
        usage();
        return ExitCode::from(2);
    };
    let Some((_, _, entry)) = SUBCOMMANDS.iter().find(|(known, _, _)| known == name) else {
        eprintln!("xtask: no subcommand `{name}`");
        usage();
        return ExitCode::from(2);
    };
    match entry(rest) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask {name}: {message}");
            ExitCode::FAILURE
        }
    }
}

fn usage() {
    eprintln!("usage: cargo xtask SUBCOMMAND");
    for (name, help, _) in SUBCOMMANDS {
        eprintln!("  {name:<10} {help}");
    }
}
