//! `export --format callgrind|collapsed|pprof`: counts by call path, as profilers read them.
use super::replayed;
use crate::args::{ExportArgs, ExportFormat};
use crate::input::Input;
use crate::output;
use crate::tables::args::{SymbolArgs, TableArgs};
use anyhow::{bail, Context};
use memtrail_explain::profile::{callgrind, collapsed, pprof, Profile};
use memtrail_report::Dimension;
use std::io::Write;
use std::path::Path;

const BY: [Dimension; 4] = [
    Dimension::Ref,
    Dimension::Callpath,
    Dimension::Object,
    Dimension::Thread,
];

pub fn command(args: &ExportArgs) -> anyhow::Result<u8> {
    if args.fetches || args.thread.is_some() {
        bail!("--fetches and --thread are for traces; a profile is of a whole recording");
    }
    let to = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if let Some(path) = to.filter(|path| path.exists() && !args.force) {
        bail!("{} exists; use -f to overwrite it", path.display());
    }
    output::check(to)?;
    let (set, whole) = match Input::open(&args.file)? {
        Input::Saved(set) => (*set, Ok(0)),
        Input::Recording(mut reader) => {
            let mut table = TableArgs::of(&args.file, &args.caches, &SymbolArgs::default());
            table.limit = args.limit;
            replayed(&table, &BY, &mut reader)?
        }
    };
    let profile = Profile::of(&set).with_context(|| args.file.display().to_string())?;
    let bytes = match args.format {
        ExportFormat::Callgrind => callgrind(&profile).into_bytes(),
        ExportFormat::Collapsed => collapsed(&profile, event(args, &profile)?).into_bytes(),
        _ => pprof(&profile),
    };
    match to {
        Some(path) => std::fs::write(path, bytes).with_context(|| output::cannot_write(path))?,
        None => drop(crate::dump::written(std::io::stdout().write_all(&bytes).err())?),
    }
    whole
}

/// Which event of a profile: the one that was named, or misses of the first level.
fn event(args: &ExportArgs, profile: &Profile) -> anyhow::Result<usize> {
    let Some(name) = &args.event else {
        let misses = profile.events.iter().position(|event| event.ends_with("_misses"));
        return Ok(misses.unwrap_or(0));
    };
    let found = profile.events.iter().position(|event| event == name);
    found.with_context(|| format!("there is no event {name}; there are {}", profile.events.join(", ")))
}
