//! `cargo xtask test`: the one test command.
//!
//! Every step runs even when an earlier one failed, so that one run shows all
//! there is to fix; the summary at the end lists each step with its verdict.
//! No step is ever skipped: what a step needs and is not there is a failure.

use crate::project::{cargo, root, target_dir};
use crate::{longtest, packages, tidy, Outcome};
use std::process::Command;
use std::time::{Duration, Instant};

/// The runtime is not a workspace member: it is a freestanding image with its
/// own panic strategy and linker flags, so it is named to cargo by its manifest.
const RUNTIME: &str = "crates/runtime/Cargo.toml";

/// What the whole may take on two idle cores. More is told and does not fail: machines are not
/// idle.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// All that is tested is built with overflow checks and debug assertions, once.
const PROFILE: [&str; 2] = ["--profile", "ci"];

/// How long each of the five fuzz targets goes on; two run at a time.
const FUZZ_SECONDS: &str = "24";

pub fn run() -> Outcome {
    let mut steps = Steps::default();
    steps.step("Debian packages", || {
        packages::ensure(packages::FOR_TESTS).map(|()| true)
    });
    steps.step("rustfmt and clippy", components);
    steps.cargo("fmt, workspace", &["fmt", "--all", "--check"]);
    steps.runtime("fmt, runtime", &["fmt", "--check", "--manifest-path", RUNTIME]);
    // The profile of the tests: build scripts, among them the one that compiles zstd, run once.
    let deny = ["--", "-D", "warnings"];
    steps.cargo(
        "clippy, workspace",
        &[&["clippy"], &PROFILE[..], &["--workspace", "--all-targets"], &deny].concat(),
    );
    steps.runtime(
        "clippy, runtime",
        &[&["clippy", "--release", "--manifest-path", RUNTIME], &deny[..]].concat(),
    );
    steps.step("tests", || {
        // Built with the tests; by themselves those that need them would build them again, with
        // other features.
        let built = target_dir().join("ci");
        let args = [&["test"], &PROFILE[..], &["--workspace", "--no-fail-fast"]].concat();
        let mut tests = cargo(&args);
        tests.env("MEMTRAIL_BIN", built.join("memtrail"));
        succeed(tests.env("MEMTRAIL_ORACLE_BIN", built.join("memtrail-oracle")))
    });
    steps.step("models", || {
        // Flags of its own need a directory of their own.
        let args = ["test", "--release", "--package", "memtrail-sequencer"];
        let dir = target_dir().join("loom");
        let mut models = cargo(&args);
        succeed(models.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", dir))
    });
    steps.step("fuzzing", || {
        // Of the whole workspace, like the tests: otherwise features differ and all is built again.
        let args = [
            &["test"],
            &PROFILE[..],
            &["--workspace", "--test", "fuzz", "--", "--nocapture"],
        ]
        .concat();
        succeed(cargo(&args).env("MEMTRAIL_FUZZ_SECONDS", FUZZ_SECONDS))
    });
    // What users build; the steps below run it.
    steps.cargo("build, as users do", &["build", "--release"]);
    steps.step("real programs", || longtest::run(&longtest::Options::quick()));
    steps.step("tidy", || tidy::run(&tidy::Options::default()));
    Ok(steps.summary())
}

/// `cargo fmt` and `cargo clippy` are optional parts of a toolchain.
fn components() -> Outcome {
    let has = |sub: &str| cargo(&[sub, "--version"]).output().is_ok_and(|o| o.status.success());
    if has("fmt") && has("clippy") {
        return Ok(true);
    }
    eprintln!("xtask: installing the rustfmt and clippy components");
    let added = Command::new("rustup")
        .args(["component", "add", "rustfmt", "clippy"])
        .status();
    match added {
        Ok(status) if status.success() => Ok(true),
        _ => Err("this toolchain lacks rustfmt or clippy; run: rustup component add rustfmt clippy".into()),
    }
}

#[derive(Default)]
struct Steps {
    done: Vec<(&'static str, bool, Duration)>,
}

impl Steps {
    fn step(&mut self, name: &'static str, body: impl FnOnce() -> Outcome) {
        eprintln!("\n=== {name}");
        let begin = Instant::now();
        let good = body().unwrap_or_else(|message| {
            eprintln!("xtask: {name}: {message}");
            false
        });
        self.done.push((name, good, begin.elapsed()));
    }

    fn cargo(&mut self, name: &'static str, args: &[&str]) {
        self.step(name, || succeed(&mut cargo(args)));
    }

    /// The same, for the runtime: its own target directory keeps its flags from
    /// invalidating the workspace's artefacts.
    fn runtime(&mut self, name: &'static str, args: &[&str]) {
        self.step(name, || {
            if !root().join(RUNTIME).exists() {
                return Err(format!("{RUNTIME} does not exist"));
            }
            succeed(cargo(args).env("CARGO_TARGET_DIR", target_dir().join("runtime")))
        });
    }

    fn summary(&self) -> bool {
        eprintln!("\n=== summary");
        for (name, good, took) in &self.done {
            let verdict = if *good { "ok" } else { "FAILED" };
            eprintln!("{verdict:<7} {:>6.1} s  {name}", took.as_secs_f64());
        }
        let total: Duration = self.done.iter().map(|(_, _, took)| *took).sum();
        eprintln!("        {:>6.1} s  in all", total.as_secs_f64());
        if total > LIMIT {
            eprintln!(
                "warning: more than {} minutes; the test command must stay below that",
                LIMIT.as_secs() / 60
            );
        }
        self.done.iter().all(|(_, good, _)| *good)
    }
}

fn succeed(command: &mut Command) -> Outcome {
    let status = command
        .status()
        .map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    Ok(status.success())
}
