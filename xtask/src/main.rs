//! `cargo xtask`: everything a developer runs, as one program.
//!
//! Scripts rot in silence; this is compiled, linted and tested with the rest.
//! Each subcommand is one module with its options and a `run`; what they share is small:
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

use clap::Parser;
use std::process::ExitCode;

/// What every subcommand returns: `Ok(false)` means "ran, and found something wrong".
pub type Outcome = Result<bool, String>;

/// Everything a developer runs. The tidy check compares documents with this.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub enum Xtask {
    /// The one test command: packages, fmt, clippy, build, all tests, models, fuzzing, real
    /// programs, tidy
    Test,
    /// Real programs, native against recorded
    LongTest(longtest::Options),
    /// How fast and how small: tables beside those of other tools
    Bench(bench::Bench),
    /// Are the documents true, and the dependencies as they should be?
    Tidy(tidy::Options),
}

fn main() -> ExitCode {
    let outcome = match Xtask::parse() {
        Xtask::Test => test::run(),
        Xtask::LongTest(options) => longtest::run(&options),
        Xtask::Bench(bench) => bench::run(&bench),
        Xtask::Tidy(options) => tidy::run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Xtask::command().debug_assert();
    }

    #[test]
    fn tables_and_workloads_are_told_apart() {
        let parse = |line: &str| Xtask::try_parse_from(line.split(' '));
        assert!(parse("xtask bench --quick fib gzip").is_ok());
        assert!(parse("xtask bench --modes native,loop --runs 2").is_ok());
        assert!(parse("xtask bench sizes --quick --only lu,gzip").is_ok());
        assert!(parse("xtask bench --runs 0").is_err());
        assert!(parse("xtask bench --modes fast").is_err());
        assert!(parse("xtask test --quick").is_err());
    }
}
