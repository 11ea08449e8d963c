//! `sharing`: lines that threads take from each other, and whether they need to.
//!
//! [`run`] replays and simulates, [`findings`] says what lies in a line and who uses it, [`text`]
//! and [`json`] show it.
pub mod args;
mod findings;
mod json;
mod run;
mod text;

use crate::args::ThreadOrder;
use crate::dump::whole;
use crate::info::{open, warn_unless_whole, Recording};
use crate::output;
use crate::say;
use args::SharingArgs;
use findings::{related, Finder, Finding, Layout, Saving, WouldShare};
use memtrail_coherence::{Sharing, Totals};
use memtrail_replay::Order;
use memtrail_trace::Known;
use run::{Between, Found};

/// Lines in the text, unless told otherwise.
const TOP: usize = 10;
/// A line that is missed once in this many accesses costs about a hundredth of the time: a miss
/// takes some 100 cycles, two accesses one.
const RARE: u64 = 20_000;

/// All that is shown.
pub struct Report<'a> {
    found: &'a Found,
    file: String,
    /// The worst first.
    findings: Vec<Finding>,
    /// Lines that were missed by coherence, but less often than this.
    min: u64,
    left_out: usize,
    /// Coherence misses and invalidations over all orders.
    range: Option<run::Range>,
    /// With lines of twice the size, and with everything half a line further on.
    wide: Vec<WouldShare>,
    shifted: Vec<WouldShare>,
    others: bool,
    order: ThreadOrder,
    /// Coherence misses in the order that was not asked for.
    other: Option<u64>,
}

pub fn command(args: &SharingArgs) -> anyhow::Result<u8> {
    output::check(args.output.as_deref())?;
    let mut reader = open(&args.file)?;
    let known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let found = run::run(args, &mut reader, &known)?;
    let report = report(args, &mut reader, &known, &found)?;
    let text = match args.json {
        true => format!("{:#}\n", json::json(&report, args)),
        false => text::text(&report, args.top.unwrap_or(TOP)),
    };
    for reason in found.measured.reasons() {
        say::line(format_args!("some names are missing: {reason}"));
    }
    output::write(args.output.as_deref(), &text)?;
    if !args.json {
        say::line(format_args!(
            "next: memtrail objects --by object,thread{} {}",
            args.caches,
            args.file.display()
        ));
    }
    whole(&known)
}

fn report<'a>(
    args: &SharingArgs,
    reader: &mut Recording,
    known: &Known,
    found: &'a Found,
) -> anyhow::Result<Report<'a>> {
    let min = args.min.unwrap_or_else(|| found.accesses.div_ceil(RARE)).max(1);
    let finder = Finder::new(found);
    let missed = found
        .real
        .lines
        .iter()
        .filter(|line| line.counts.coherence_misses() > 0 || line.counts.invalidations > 0);
    let often = |line: &&memtrail_coherence::SharedLine| line.counts.coherence_misses() >= min;
    let mut findings: Vec<Finding> = missed.clone().filter(often).map(|line| finder.finding(line)).collect();
    findings.sort_by_key(|f| (std::cmp::Reverse(f.counts.coherence_misses()), f.space, f.address));
    let mut report = Report {
        file: args.file.display().to_string(),
        left_out: missed.count() - findings.len(),
        min,
        range: None,
        wide: Vec::new(),
        shifted: Vec::new(),
        others: !args.quick,
        order: args.order,
        other: None,
        found,
        findings,
    };
    if args.quick {
        return Ok(report);
    }
    let line = u64::from(found.config.line);
    let would = |other: &Option<Sharing>, bytes, back| {
        let found = other
            .as_ref()
            .map(|other| finder.would_share(other, (bytes, back), &report.findings, min));
        found.unwrap_or_default()
    };
    (report.wide, report.shifted) = (would(&found.wide, 2 * line, 0), would(&found.shifted, line, line / 2));
    save(args, reader, known, &mut report)?;
    reorder(args, reader, known, &mut report)?;
    Ok(report)
}

/// What padding and alignment save.
fn save(args: &SharingArgs, reader: &mut Recording, known: &Known, report: &mut Report<'_>) -> anyhow::Result<()> {
    let findings = &mut report.findings;
    if !findings.iter().any(Finding::is_false) {
        return Ok(());
    }
    let line = u64::from(report.found.config.line);
    let first = related(findings);
    let (padded, aligned) = (Layout::padded(findings, line), Layout::aligned(findings, &first, line));
    let moved = (padded.moved.clone(), aligned.moved.clone());
    let elsewhere = run::run_moved(args, reader, known, &report.found.config, moved)?;
    for (i, after) in padded.left(&elsewhere.padded) {
        let before = findings[i].counts.coherence_misses();
        findings[i].padded = Some(Saving { before, after });
    }
    for (of, after) in aligned.left(&elsewhere.aligned) {
        let together = |(i, finding): (usize, &Finding)| match first[i] == of && finding.is_false() {
            true => finding.counts.coherence_misses(),
            false => 0,
        };
        let before = findings.iter().enumerate().map(together).sum();
        let of_these = findings.iter_mut().zip(&first).filter(|(_, first)| **first == of);
        for (finding, _) in of_these.filter(|(finding, _)| finding.is_false()) {
            finding.aligned = Some(Saving { before, after });
        }
    }
    Ok(())
}

/// What other orders of the threads give.
fn reorder(args: &SharingArgs, reader: &mut Recording, known: &Known, report: &mut Report<'_>) -> anyhow::Result<()> {
    if known
        .streams
        .iter()
        .all(|chunk| chunk.head.stream.thread == known.streams[0].head.stream.thread)
    {
        return Ok(());
    }
    let config = &report.found.config;
    let orders = [Order::Finest, Order::EqualRate { quantum: 1 }, Order::Time];
    let main = run::order(args);
    let others = orders.into_iter().filter(|order| *order != main);
    let others: Vec<Sharing> = others
        .map(|order| run::run_ordered(args, reader, known, config, order))
        .collect::<anyhow::Result<_>>()?;
    let all: Vec<&Sharing> = std::iter::once(&report.found.real).chain(&others).collect();
    let total = |count: fn(&Totals) -> u64| Between::new(all.iter().map(|sharing| count(&sharing.totals)));
    report.range = Some((total(Totals::coherence_misses), total(|totals| totals.invalidations)));
    // The first of the others is the other one of the two that can be asked for.
    report.other = others.first().map(|sharing| sharing.totals.coherence_misses());
    let ranges = run::ranges(&all);
    for finding in &mut report.findings {
        finding.range = ranges.get(&(finding.space, finding.address)).copied();
    }
    Ok(())
}
