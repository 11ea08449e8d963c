//! `pages`: which objects TLBs miss, what the walks cost, and what huge pages would change.
pub mod args;
pub mod found;
mod json;
mod run;
mod text;

use crate::dump::whole;
use crate::info::{open, warn_unless_whole};
use crate::output;
use crate::say;
use crate::sim::args::CacheArgs;
use crate::sim::choose::{choose, LIST};
use anyhow::{bail, Context};
use args::PagesArgs;
use memtrail_paging::{Latencies, PagingConfig, TlbPreset, TLB_GENERIC, TLB_PRESETS};
use memtrail_report::Dimension;
use memtrail_simulate::Hierarchy;
use memtrail_trace::{Ending, Known};
use run::{Machine, Replays};

/// Stretches that working sets are told of.
const STRETCHES: u64 = 32;

pub fn command(args: &PagesArgs) -> anyhow::Result<u8> {
    if args.tlbs == [LIST] {
        return output::write(args.output.as_deref(), &list());
    }
    let Some(file) = args.file.clone() else {
        bail!("which recording? memtrail pages FILE");
    };
    output::check(args.output.as_deref())?;
    let machine = machine(args)?;
    let mut reader = open(&file)?;
    let known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let accesses = match known.ending {
        Ending::Complete(totals) => totals.accesses,
        _ => 0,
    };
    // Of a recording that was cut off nobody knows how long it is.
    let window = accesses
        .min(args.limit.unwrap_or(u64::MAX))
        .div_ceil(STRETCHES)
        .max(1 << 10);
    let command = reader.header().command.clone();
    let replays = Replays {
        args: args.table(file.clone()),
        by: dimensions(args),
        machine,
        reader: &mut reader,
        known: &known,
        replays: 0,
        simulations: 0,
    };
    let found = found::find(args, replays, window)?;
    let text = match args.json {
        true => format!("{:#}\n", json::report(&found, &file, &command)),
        false => text::report(&found, args.top.unwrap_or(20)),
    };
    for reason in &found.reasons {
        say::line(format_args!("some names are missing: {reason}"));
    }
    output::write(args.output.as_deref(), &text)?;
    if !args.json {
        say::line(format_args!("next: memtrail objects{} {}", args.caches, file.display()));
    }
    whole(&known)
}

/// What composites must tell apart.
fn dimensions(args: &PagesArgs) -> Vec<Dimension> {
    let mut by = args.by();
    if !by.contains(&Dimension::Object) {
        by.push(Dimension::Object);
    }
    by
}

fn machine(args: &PagesArgs) -> anyhow::Result<Machine> {
    if args.caches.instructions {
        bail!("--instructions: pages translates data only");
    }
    let chosen = choose(&args.caches)?;
    let (mut tlbs, tlb_source) = tlbs(&args.tlbs, &args.caches)?;
    tlbs.cores = chosen.hierarchy.cores;
    Ok(Machine {
        latencies: latencies(&args.latency, &chosen.hierarchy)?,
        caches: chosen.hierarchy,
        source: chosen.source,
        tlb_source,
        tlbs,
        physical: args.physical,
    })
}

/// The TLBs that were asked for, and where they are from: without any, those of the machine whose
/// caches are taken, if they are known.
pub fn tlbs(given: &[String], caches: &CacheArgs) -> anyhow::Result<(PagingConfig, String)> {
    if given.is_empty() {
        let same = caches.preset.as_deref().and_then(TlbPreset::named);
        let name = same.map_or(TLB_GENERIC, |preset| preset.name);
        return Ok((PagingConfig::parse(&[name])?, name.to_string()));
    }
    let config = PagingConfig::parse(given).context("--tlb")?;
    let source = match given {
        [name] if !name.contains('=') => name.clone(),
        _ => "--tlb".to_string(),
    };
    Ok((config, source))
}

fn latencies(given: &[u64], hierarchy: &Hierarchy) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::of(hierarchy);
    if let Some((&memory, caches)) = given.split_last() {
        let levels = hierarchy.levels.len();
        if caches.len() != levels {
            bail!(
                "--latency: {} numbers for {levels} levels of caches and memory: give {}",
                given.len(),
                levels + 1
            );
        }
        latencies.caches = caches.to_vec();
        latencies.memory = memory;
    }
    Ok(latencies)
}

/// All presets, with their parts as they can be given to `--tlb`.
fn list() -> String {
    let width = TLB_PRESETS.iter().map(|preset| preset.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for preset in TLB_PRESETS {
        text += &format!("{:<width$}  {}\n", preset.name, preset.about);
        text += &format!("{:<width$}  {}\n", "", preset.parts.join(" "));
    }
    text
}
