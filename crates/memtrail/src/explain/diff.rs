//! `diff`: two runs, and what a change did.
use super::replayed;
use crate::input::Input;
use crate::output;
use crate::say;
use crate::sim::args::CacheArgs;
use crate::tables::args::{refuse_for_saved, SymbolArgs, TableArgs};
use crate::terminal;
use anyhow::Context;
use clap::Args as ArgGroup;
use memtrail_explain::diff::{level_called, Diff, Rule};
use memtrail_report::{level_named, Dimension, ResultSet};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The status if a rule says that the comparison has failed.
const FAILED: u8 = 1;

#[derive(Clone, Debug, ArgGroup)]
pub struct DiffArgs {
    #[command(flatten)]
    pub caches: CacheArgs,
    /// The level that rows are compared at [default: the first].
    #[arg(long, value_name = "NAME")]
    pub level: Option<String>,
    /// Leave out what changed by no more than this part of all misses and accesses, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub noise: f64,
    /// End with status 1 if this is so: L1.misses>+2%, accesses>+1000, L2.miss_ratio>0.05; may be
    /// repeated.
    #[arg(long = "fail-on", value_name = "RULE")]
    pub fail_on: Vec<Rule>,
    /// Also libraries and start-up code that hardly changed, row by row.
    #[arg(long)]
    pub all: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Do not cut names and columns to fit the terminal.
    #[arg(long)]
    pub wide: bool,
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// Write what was found to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The run before: a recording, or what was saved.
    pub before: PathBuf,
    /// The run after.
    pub after: PathBuf,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    let number = number.filter(|n| (0.0..=100.0).contains(n));
    number.ok_or_else(|| "not a percentage from 0 to 100".to_string())
}

pub fn command(args: &DiffArgs) -> anyhow::Result<u8> {
    output::check(args.output.as_deref())?;
    let mut inputs = [Input::open(&args.before)?, Input::open(&args.after)?];
    let caches = caches(args, &inputs)?;
    let [before, after] = &mut inputs;
    let before = results(args, &caches, &args.before, before)?;
    let after = results(args, &caches, &args.after, after)?;
    let level = match &args.level {
        None => 0,
        Some(name) => match level_called(&after.run.hierarchy, name) {
            Some(level) => level,
            None => level_named(&after.run.hierarchy, name)?,
        },
    };
    let diff = Diff::of(&before, &after, level)?.without_noise(args.noise / 100.0);
    let names = (args.before.display().to_string(), args.after.display().to_string());
    let text = match args.json {
        true => format!("{:#}\n", diff.json(&names.0, &names.1)),
        false => diff.text((&names.0, &names.1), args.all, terminal::width(args.wide)),
    };
    let mut status = output::write(args.output.as_deref(), &text)?;
    for rule in &args.fail_on {
        if let Some(why) = diff.fails(rule)? {
            say::line(format_args!("failed: {why}"));
            status = FAILED;
        }
    }
    Ok(status)
}

/// The caches for recordings: those that are given, or those of saved results that a recording is
/// compared with.
fn caches(args: &DiffArgs, inputs: &[Input]) -> anyhow::Result<CacheArgs> {
    let saved = inputs.iter().find_map(|input| match input {
        Input::Saved(set) => Some(set),
        Input::Recording(_) => None,
    });
    let Some(set) = saved else {
        return Ok(args.caches.clone());
    };
    for (input, file) in inputs.iter().zip([&args.before, &args.after]) {
        if matches!(input, Input::Saved(_)) {
            refuse_for_saved(file, &args.caches, &BTreeSet::new())?;
        }
    }
    Ok(CacheArgs {
        caches: set.run.hierarchy.levels.iter().map(ToString::to_string).collect(),
        cores: set.run.hierarchy.cores,
        seed: Some(set.run.hierarchy.seed),
        ..CacheArgs::default()
    })
}

fn results(args: &DiffArgs, caches: &CacheArgs, file: &Path, input: &mut Input) -> anyhow::Result<ResultSet> {
    match input {
        Input::Saved(set) => {
            set.run.warnings.iter().for_each(say::line);
            Ok((**set).clone())
        }
        Input::Recording(reader) => {
            let args = TableArgs::of(file, caches, &args.symbols);
            let found = replayed(&args, &[Dimension::Ref, Dimension::Object], reader);
            let (set, whole) = found.with_context(|| file.display().to_string())?;
            whole?;
            Ok(set)
        }
    }
}
