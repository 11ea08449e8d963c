//! `cargo xtask tidy`: are the documents true?
//!
//! Documents go stale because nothing fails when they do. Here something fails: a path in a
//! document must exist, a command in a document must be one that the program accepts (its own
//! `--help` is asked), and nothing may speak of one developer's machine. Dependencies are looked at
//! as well (`dependencies`). What is checked of documents is only what is written as code
//! (backticks, fenced blocks) or as a link, so prose stays free.

mod commands;
mod dependencies;
mod documents;

use crate::project::root;
use crate::Outcome;
use documents::{code_spans, links, paths_in};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a reader may expect to find.
const REQUIRED: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    ".ci/run",
    "docs/guide.md",
    "docs/benchmarks.md",
];

/// Past this many lines a file is asking to be two.
const LONG_FILE: usize = 900;

/// Beginnings of absolute paths that exist on one developer's machine only.
/// Spelled in halves: this file is checked as well.
const PRIVATE: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
];

/// The only registry a committed lock file may name.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

#[derive(clap::Args, Default)]
pub struct Options {
    /// Do not build memtrail to ask it for its commands
    #[arg(long)]
    no_binary: bool,
}

pub fn run(options: &Options) -> Outcome {
    let files = tracked_files()?;
    let mut found = Findings::default();
    for name in REQUIRED {
        if !root().join(name).exists() {
            found.errors.push(format!("{name} is missing"));
        }
    }
    let mut mentioned = Vec::new();
    for file in &files {
        let Ok(text) = std::fs::read_to_string(root().join(file)) else {
            continue;
        };
        check_text(file, &text, &mut found);
        if is_document(file) {
            check_document(file, &text, &mut found);
            mentioned.extend(commands::mentioned(file, &code_spans(&text)));
        }
    }
    commands::check(&mentioned, !options.no_binary, &mut found.errors)?;
    dependencies::check(&mut found.errors)?;
    found.warnings.iter().for_each(|w| eprintln!("warning: {w}"));
    found.errors.iter().for_each(|e| eprintln!("error: {e}"));
    eprintln!(
        "tidy: {} files, {} commands in documents, {} errors, {} warnings",
        files.len(),
        mentioned.len(),
        found.errors.len(),
        found.warnings.len()
    );
    Ok(found.errors.is_empty())
}

/// What git tracks, or would track if added: build products are no business of ours.
fn tracked_files() -> Result<Vec<PathBuf>, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .map_err(|e| format!("git: {e}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names
        .lines()
        .map(PathBuf::from)
        .filter(|p| root().join(p).is_file())
        .collect())
}

fn is_document(file: &Path) -> bool {
    file.extension().is_some_and(|e| e == "md") && !file.starts_with("bench/results")
}

fn check_text(file: &Path, text: &str, found: &mut Findings) {
    let shown = file.display();
    for (number, line) in text.lines().enumerate() {
        for private in PRIVATE {
            if names_private_path(line, private) {
                found
                    .errors
                    .push(format!("{shown}:{}: a path of one machine: {private}", number + 1));
            }
        }
        let source = line
            .trim()
            .strip_prefix("source = \"")
            .filter(|_| file.ends_with("Cargo.lock"));
        if source.is_some_and(|s| !s.starts_with(REGISTRY)) {
            found
                .errors
                .push(format!("{shown}:{}: not from the public registry", number + 1));
        }
    }
    let lines = text.lines().count();
    if lines > LONG_FILE && !is_generated(file) {
        found.warnings.push(format!("{shown} has {lines} lines"));
    }
    if file.extension().is_some_and(|e| e == "rs") {
        let crate_head = ["src/lib.rs", "src/main.rs"].iter().any(|end| file.ends_with(end));
        if crate_head && !text.starts_with("//!") {
            found
                .errors
                .push(format!("{shown} does not begin with a crate head (`//!`)"));
        }
    }
}

fn is_generated(file: &Path) -> bool {
    file.ends_with("Cargo.lock") || file.starts_with("bench/results") || file.starts_with("tests/golden")
}

/// `/x/` begins an absolute path only where nothing path-like stands before it.
fn names_private_path(line: &str, private: &str) -> bool {
    line.match_indices(private).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-$}~)*".contains(c))
    })
}

fn check_document(file: &Path, text: &str, found: &mut Findings) {
    let shown = file.display();
    let dir = file.parent().unwrap_or(Path::new(""));
    for (line, span) in code_spans(text) {
        for path in paths_in(&span) {
            // The README of a crate may speak of its own `tests/`.
            if !root().join(path).exists() && !root().join(dir).join(path).exists() {
                found.errors.push(format!("{shown}:{line}: no such path: {path}"));
            }
        }
    }
    for (line, target) in links(text) {
        if !root().join(dir).join(&target).exists() {
            found.errors.push(format!("{shown}:{line}: broken link: {target}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_paths() {
        let private = PRIVATE[0];
        assert!(names_private_path(&format!("see {private}me/x"), private));
        assert!(names_private_path(&format!("\"{private}me\""), private));
        assert!(!names_private_path(&format!("a{private}me"), private));
    }
}
