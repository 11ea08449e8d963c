//! `memtrail FILE`, `diff`, `report`: what a recording means, and what has changed.
//!
//! The wiring only: one replay by reference and object, and `memtrail-explain` for the words.
pub mod diff;
pub mod page;
pub mod profile;

use crate::args::AnswerArgs;
use crate::info::Recording;
use crate::input::Input;
use crate::output;
use crate::say;
use crate::sim::args::CacheArgs;
use crate::tables::args::{refuse_for_saved, SymbolArgs, TableArgs};
use crate::tables::run::Wants;
use crate::tables::simulated;
use crate::terminal;
use anyhow::{bail, Context};
use memtrail_explain::answer::{Answer, Look};
use memtrail_report::{Dimension, ResultSet};
use std::collections::BTreeSet;
use std::path::Path;

/// What the short answer is made of.
const BY: [Dimension; 3] = [Dimension::Ref, Dimension::Object, Dimension::Thread];
/// The same, if something of a library matters: who called it.
const WITH_PATHS: [Dimension; 4] = [
    Dimension::Ref,
    Dimension::Callpath,
    Dimension::Object,
    Dimension::Thread,
];

/// `memtrail FILE`.
pub fn command(args: &AnswerArgs) -> anyhow::Result<u8> {
    let Some(file) = &args.file else {
        bail!("no recording was given");
    };
    if !file.exists() {
        // A command that was mistyped is the likelier mistake.
        bail!(
            "there is neither a file nor a command {}: memtrail --help lists the commands",
            file.display()
        );
    }
    let (set, whole) = results_of(file, &args.caches, &args.symbols, args.all)?;
    let text = match args.json {
        true => {
            let answer = Answer::of(&set, args.all).with_context(|| file.display().to_string())?;
            format!("{:#}\n", answer.json(&file.display().to_string()))
        }
        false => text_of(&set, file, args.all, terminal::look(args.wide))?,
    };
    output::write(None, &text)?;
    whole
}

/// What is printed of results.
fn text_of(set: &ResultSet, file: &Path, all: bool, look: Look) -> anyhow::Result<String> {
    let name = file.display().to_string();
    let answer = Answer::of(set, all).with_context(|| name.clone())?;
    // Whoever can say what would help adds it here: `answer.advise(|thing| …)`.
    Ok(answer.text(&name, look))
}

/// Saved results, or those of a replay; and whether the recording was whole.
fn results_of(
    file: &Path,
    caches: &CacheArgs,
    symbols: &SymbolArgs,
    all: bool,
) -> anyhow::Result<(ResultSet, anyhow::Result<u8>)> {
    match Input::open(file)? {
        Input::Saved(set) => {
            refuse_for_saved(file, caches, &BTreeSet::new())?;
            set.run.warnings.iter().for_each(say::line);
            Ok((*set, Ok(0)))
        }
        Input::Recording(mut reader) => {
            let args = TableArgs::of(file, caches, symbols);
            let found = replayed(&args, &BY, &mut reader)?;
            match Answer::of(&found.0, all).is_ok_and(|answer| answer.wants_paths()) {
                true => replayed(&args, &WITH_PATHS, &mut reader),
                false => Ok(found),
            }
        }
    }
}

/// Results of a recording by these dimensions, and whether it was whole.
pub fn replayed(
    args: &TableArgs,
    by: &[Dimension],
    reader: &mut Recording,
) -> anyhow::Result<(ResultSet, anyhow::Result<u8>)> {
    simulated(Wants::default(), args, by, reader)
}

/// The short answer about a recording that was just made, for standard error: standard output
/// belongs to the program.
pub fn tell_about(file: &Path) -> anyhow::Result<()> {
    let (set, _) = results_of(file, &CacheArgs::default(), &SymbolArgs::default(), false)?;
    let text = text_of(&set, file, false, terminal::look_of_stderr())?;
    say::text(&format!("\n{text}"));
    Ok(())
}

/// The short answer about a recording, with one small cache.
pub fn with_cache(file: &Path, cache: &str) -> anyhow::Result<String> {
    let caches = CacheArgs {
        caches: vec![cache.to_string()],
        ..CacheArgs::default()
    };
    let (set, _) = results_of(file, &caches, &SymbolArgs::default(), false)?;
    text_of(&set, file, false, terminal::look(false))
}
