//! `info` and `check`: what a recording holds, and whether it holds together.
use crate::args::{CheckArgs, InfoArgs};
use crate::say;
use anyhow::{bail, Context};
use memtrail_decode::Counter;
use memtrail_replay::{replay, Filter};
use memtrail_report::format::{bytes, thousands};
use memtrail_trace::{Ending, Header, Known, RankInfo, Reader, Totals};
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

pub type Recording = Reader<BufReader<File>>;

pub fn open(path: &Path) -> anyhow::Result<Recording> {
    let name = || path.display().to_string();
    let file = File::open(path).with_context(name)?;
    Reader::open(BufReader::new(file)).with_context(name)
}

/// The threads of a recording, or the one that is picked.
pub fn threads(known: &Known, picked: Option<u32>, path: &Path) -> anyhow::Result<BTreeSet<u32>> {
    let mut threads: BTreeSet<u32> = known.streams.iter().map(|c| c.head.stream.thread).collect();
    if let Some(thread) = picked {
        threads.retain(|&t| t == thread);
        if threads.is_empty() {
            bail!("{}: there is no thread {thread} in it", path.display());
        }
    }
    Ok(threads)
}

pub fn warn_unless_whole(ending: &Ending) {
    ending_warning(ending).into_iter().for_each(say::line);
}

/// What a user has to know of a recording that is not whole.
pub fn ending_warning(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Complete(_) => None,
        Ending::CutOff { at } => Some(format!(
            "this recording was cut off: it is whole up to byte {at}, and what follows is missing"
        )),
        Ending::Damaged { at, what } => Some(format!(
            "this recording is damaged at byte {at} ({what}): what follows is not used"
        )),
    }
}

/// The totals: as recorded, or counted afresh if the recording was cut off.
fn totals(reader: &mut Recording) -> anyhow::Result<(Totals, bool)> {
    if let Ending::Complete(totals) = reader.ending() {
        return Ok((totals, true));
    }
    let known = Known::read(reader)?;
    warn_unless_whole(&known.ending);
    let mut counter = Counter::new(&known.xsave);
    replay(reader, &known, &Filter::default(), &mut counter, |_| true)?;
    let threads: BTreeSet<u32> = known.streams.iter().map(|c| c.head.stream.thread).collect();
    let processes: BTreeSet<u32> = known.messages.iter().map(|(p, _)| *p).collect();
    let totals = Totals {
        threads: threads.len() as u32,
        processes: processes.len() as u32,
        ..Totals::default()
    };
    Ok((totals.with_counts(&counter.counts(&known.table)), false))
}

pub fn bits_per_access(file_bytes: u64, accesses: u64) -> f64 {
    if accesses == 0 {
        return 0.0;
    }
    file_bytes as f64 * 8.0 / accesses as f64
}

/// The totals as JSON, under the names `info --json` promises.
pub fn totals_json(t: &Totals, file_bytes: u64) -> Value {
    json!({
        "accesses": t.accesses,
        "reads": t.reads,
        "writes": t.writes,
        "prefetches": t.prefetches,
        "bytes": t.bytes,
        "instructions": t.instructions,
        "blocks": t.blocks,
        "threads": t.threads,
        "processes": t.processes,
        "file_bytes": file_bytes,
        "bits_per_access": bits_per_access(file_bytes, t.accesses),
        "ring_words": t.ring_words,
        "lost_tail": t.lost_tail,
        "gaps": t.gaps,
        "exit_status": t.exit_status,
    })
}

pub fn info(args: &InfoArgs) -> anyhow::Result<u8> {
    let mut reader = open(&args.file)?;
    let (totals, complete) = totals(&mut reader)?;
    let file_bytes = reader.bytes();
    let header = reader.header();
    if args.json {
        let mut value = totals_json(&totals, file_bytes);
        value["complete"] = complete.into();
        value["command"] = header.command.clone().into();
        value["probes"] = probes(header).into();
        value["max_block"] = header.max_block.into();
        let ranks = rank_rows(header, &totals);
        value["ranks"] = ranks.len().max(1).into();
        let row = |r: &RankInfo| json!({"rank": r.rank, "processes": r.processes, "threads": r.threads});
        value["rank_list"] = ranks.iter().map(row).collect();
        tell(&format!("{value:#}\n"))?;
        return Ok(0);
    }
    tell(&table(header, &totals, file_bytes, complete))?;
    Ok(0)
}

/// The ranks of a recording, with no more processes and threads than it has.
fn rank_rows(header: &Header, totals: &Totals) -> Vec<RankInfo> {
    let most = totals.threads as usize;
    let cut = |mut rank: RankInfo| {
        rank.processes = rank.processes.min(totals.processes);
        rank.threads = rank.threads.min(totals.threads);
        rank
    };
    header.ranks.iter(most).map(cut).collect()
}

fn probes(header: &Header) -> &'static str {
    ["none", "naive", "block", "loop"]
        .get(header.probes as usize)
        .copied()
        .unwrap_or("unknown")
}

/// Prints all at once. Whoever reads it may have heard enough.
fn tell(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}

/// Numbers as people list them: 0-3, 5.
fn spans(numbers: &[u32]) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match spans.last_mut() {
            Some(span) if span.1.checked_add(1) == Some(number) => span.1 = number,
            _ => spans.push((number, number)),
        }
    }
    let text = |&(from, to): &(u32, u32)| {
        if from == to {
            from.to_string()
        } else {
            format!("{from}-{to}")
        }
    };
    spans.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn table(header: &Header, t: &Totals, file_bytes: u64, complete: bool) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| text += &format!("{name:<16} {value}\n");
    row("command", header.command.join(" "));
    row(
        "probes",
        format!("{}, blocks up to {}", probes(header), header.max_block),
    );
    row("accesses", thousands(t.accesses));
    row("reads", thousands(t.reads));
    row("writes", thousands(t.writes));
    row("prefetches", thousands(t.prefetches));
    row("bytes", thousands(t.bytes));
    row("instructions", thousands(t.instructions));
    row("blocks", thousands(t.blocks));
    row("threads", thousands(t.threads.into()));
    row("processes", thousands(t.processes.into()));
    let ranks = rank_rows(header, t);
    if !ranks.is_empty() {
        let numbers: Vec<u32> = ranks.iter().map(|r| r.rank).collect();
        row("ranks", format!("{} ({})", numbers.len(), spans(&numbers)));
    }
    row("file", bytes(file_bytes));
    row(
        "bits per access",
        format!("{:.3}", bits_per_access(file_bytes, t.accesses)),
    );
    if t.gaps > 0 {
        row("gaps", thousands(t.gaps));
    }
    if t.lost_tail > 0 {
        row("lost records", thousands(t.lost_tail));
    }
    let status = match (complete, t.exit_status) {
        (false, _) => "unknown: the recording is not whole".to_string(),
        (true, None) => "unknown: the recording ended before the program".to_string(),
        (true, Some(status)) => status.to_string(),
    };
    row("exit status", status);
    text
}

pub fn check(args: &CheckArgs) -> anyhow::Result<u8> {
    let mut reader = open(&args.file)?;
    let checked = if args.deep {
        memtrail_replay::check_deep(&mut reader)
    } else {
        memtrail_replay::check(&mut reader)
    };
    let checked = checked.with_context(|| args.file.display().to_string())?;
    let mut text = format!(
        "{}: {} accesses in {} chunks of {} threads, {} blocks defined\n",
        args.file.display(),
        thousands(checked.counts.accesses()),
        thousands(checked.chunks as u64),
        checked.threads,
        thousands(checked.blocks_defined as u64),
    );
    match checked.ending {
        Ending::Complete(_) => {
            let deep = if args.deep { ", accesses, states" } else { "" };
            text += &format!("all checksums, records{deep} and totals hold\n");
            if checked.verified {
                text += "every access is the one that was recorded: the hashes agree\n";
            }
            tell(&text)?;
            Ok(0)
        }
        Ending::CutOff { .. } | Ending::Damaged { .. } => {
            tell(&text)?;
            warn_unless_whole(&checked.ending);
            Ok(1)
        }
    }
}
