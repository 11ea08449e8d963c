//! `merge`: recordings of ranks, and the threads in them, as one recording.
use crate::args::MergeArgs;
use crate::info::bits_per_access;
use crate::{info, say};
use anyhow::{bail, Context};
use memtrail_report::format::{bytes, thousands};
use memtrail_trace::Ending;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

pub fn command(args: &MergeArgs) -> anyhow::Result<u8> {
    let out = &args.output;
    if out.exists() && !args.force {
        bail!("{} exists; use -f to overwrite it", out.display());
    }
    // Written beside it first: it may be one of those that are merged, and a failure costs nothing.
    let mut name = out.as_os_str().to_os_string();
    name.push(format!(".merging.{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let file = File::create(&temporary).with_context(|| format!("cannot create {}", temporary.display()))?;
    let merged = memtrail_ranks::merge(&args.files, BufWriter::new(file))
        .map_err(anyhow::Error::from)
        .and_then(|(mut file, size)| Ok(file.flush().map(|()| size)?))
        .and_then(|size| Ok(fs::rename(&temporary, out).map(|()| size)?));
    let size = match merged {
        Ok(size) => size,
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            return Err(error.context("cannot merge"));
        }
    };
    let before: u64 = args
        .files
        .iter()
        .filter_map(|f| fs::metadata(f).ok())
        .map(|m| m.len())
        .sum();
    let reader = info::open(out)?;
    let Ending::Complete(totals) = reader.ending() else {
        bail!("{} is not whole", out.display());
    };
    say::line(format_args!(
        "{} accesses of {} threads in {} ({}, {:.2} bits each; {} before)",
        thousands(totals.accesses),
        totals.threads,
        out.display(),
        bytes(size),
        bits_per_access(size, totals.accesses),
        bytes(before),
    ));
    say::line(format_args!("next: memtrail info {}", out.display()));
    Ok(0)
}
