//! Commands named in documents, checked against the programs themselves.

use crate::project::memtrail;
use crate::Xtask;
use clap::CommandFactory;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// `memtrail record --discard -- CMD` in a document: place, program, subcommand, options.
#[derive(Debug, PartialEq, Eq)]
pub struct Mention {
    place: String,
    program: Program,
    subcommand: String,
    options: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Memtrail,
    Xtask,
}

/// Ways a document spells the beginning of a command.
const PREFIXES: &[(&str, Program)] = &[
    ("cargo xtask ", Program::Xtask),
    ("cargo run --release -- ", Program::Memtrail),
    ("target/release/memtrail ", Program::Memtrail),
    ("memtrail ", Program::Memtrail),
];

pub fn mentioned(file: &Path, spans: &[(usize, String)]) -> Vec<Mention> {
    spans
        .iter()
        .filter_map(|(line, span)| {
            let (program, words) = command_in(span)?;
            let words: Vec<&str> = words
                .split_whitespace()
                .take_while(|w| *w != "--" && !w.starts_with('#'))
                .collect();
            let subcommand = words.first().filter(|w| is_word(w))?.to_string();
            let options = words[1..].iter().filter(|w| w.trim_start_matches('[').starts_with('-'));
            let options = options
                .map(|w| w.trim_matches(['[', ']', ',', '…']).to_string())
                .collect();
            Some(Mention {
                place: format!("{}:{line}", file.display()),
                program,
                subcommand,
                options,
            })
        })
        .collect()
}

fn command_in(span: &str) -> Option<(Program, &str)> {
    let span = span.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
    PREFIXES
        .iter()
        .find_map(|(prefix, program)| Some((*program, span.strip_prefix(prefix)?)))
}

/// Subcommands are lower case; `memtrail FILE` or `memtrail: message` are none.
fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-')
}

/// Asks each program for what it accepts.
pub fn check(mentions: &[Mention], with_binary: bool, errors: &mut Vec<String>) -> Result<(), String> {
    for mention in mentions.iter().filter(|m| m.program == Program::Xtask) {
        match xtask_help(&mention.subcommand) {
            None => errors.push(format!("{}: no `cargo xtask {}`", mention.place, mention.subcommand)),
            Some(help) => check_options(mention, &help, "cargo xtask", errors),
        }
    }
    if !with_binary {
        eprintln!("tidy: memtrail's commands were NOT checked (--no-binary)");
        return Ok(());
    }
    let binary = memtrail()?;
    let mut helps: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for mention in mentions.iter().filter(|m| m.program == Program::Memtrail) {
        let sub = mention.subcommand.as_str();
        let help = helps.entry(sub).or_insert_with(|| {
            let output = Command::new(&binary).args([sub, "--help"]).output().ok()?;
            output
                .status
                .success()
                .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        });
        match help {
            None => errors.push(format!("{}: no `memtrail {sub}`", mention.place)),
            Some(help) => check_options(mention, help, "memtrail", errors),
        }
    }
    Ok(())
}

/// Help of a subcommand of ours and of the subcommands below it.
fn xtask_help(name: &str) -> Option<String> {
    let mut all = Xtask::command();
    let found = all.find_subcommand_mut(name)?;
    let mut help = found.render_long_help().to_string();
    for below in found.get_subcommands_mut() {
        help += &below.render_long_help().to_string();
    }
    Some(help)
}

fn check_options(mention: &Mention, help: &str, program: &str, errors: &mut Vec<String>) {
    for option in &mention.options {
        let option = option.split('=').next().unwrap_or(option);
        let known = help
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .any(|word| word == option);
        if !known {
            errors.push(format!(
                "{}: `{program} {}` has no {option}",
                mention.place, mention.subcommand
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_code() {
        let spans = vec![
            (1, "memtrail record [-o FILE] --discard -- ls --all".to_string()),
            (2, "memtrail -- CMD".to_string()),
            (3, "cargo xtask test".to_string()),
            (4, "memtrail.APP.PID.mtr".to_string()),
        ];
        let found = mentioned(Path::new("x.md"), &spans);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].subcommand, "record");
        assert_eq!(found[0].options, ["-o", "--discard"]);
        assert_eq!(found[1].subcommand, "test");
    }

    #[test]
    fn unknown_options_are_errors() {
        let found = mentioned(
            Path::new("x.md"),
            &[(1, "cargo xtask bench --quick --nonsense".to_string())],
        );
        let mut errors = Vec::new();
        check(&found, false, &mut errors).expect("no binary needed");
        assert_eq!(errors, ["x.md:1: `cargo xtask bench` has no --nonsense"]);
    }
}
