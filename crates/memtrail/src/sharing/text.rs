//! The report as people read it: at most 120 columns.
use super::findings::{Finding, User, WouldShare};
use super::run::Between;
use super::Report;
use crate::args::ThreadOrder;
use memtrail_coherence::{Geometry, Protocol};
use memtrail_report::format::{bytes, percent, thousands};
use std::fmt::Write;

const WIDTH: usize = 120;
/// Places that a line is used from.
const MOST_USERS: usize = 12;
const MOST_OTHERS: usize = 5;

pub fn text(report: &Report<'_>, top: usize) -> String {
    let mut out = String::new();
    head(report, &mut out);
    for (i, finding) in report.findings.iter().take(top).enumerate() {
        line(i + 1, finding, &mut out);
    }
    let hidden = report.findings.len().saturating_sub(top);
    if hidden > 0 {
        put(
            &mut out,
            &format!("\n{} (--top N)", count(hidden as u64, "further line", "further lines")),
        );
    }
    if report.left_out > 0 {
        let lines = count(report.left_out as u64, "line was", "lines were");
        let less = format!("less than {} (--min 1 shows them)", count(report.min, "time", "times"));
        put(&mut out, &format!("\n{lines} taken from a thread, but missed {less}"));
    }
    would_share(report, &mut out);
    out
}

fn put(out: &mut String, line: &str) {
    let cut: String = match line.chars().count() > WIDTH {
        true => line.chars().take(WIDTH - 1).chain(['…']).collect(),
        false => line.to_string(),
    };
    out.push_str(&cut);
    out.push('\n');
}

fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(n), if n == 1 { one } else { many })
}

fn between(range: Between) -> String {
    match range.least == range.most {
        true => thousands(range.least),
        false => format!("{} to {}", thousands(range.least), thousands(range.most)),
    }
}

/// The verdict, and what was simulated.
fn head(report: &Report<'_>, out: &mut String) {
    let falsely = report.findings.iter().filter(|finding| finding.is_false()).count() as u64;
    let truly = report.findings.len() as u64 - falsely;
    let verdict = match (falsely, truly) {
        (0, 0) => "No line is falsely shared, and none is handed to and fro between threads.".to_string(),
        (0, n) => format!(
            "No line is falsely shared; {} truly.",
            count(n, "line is shared", "lines are shared")
        ),
        (n, 0) => format!("{} falsely shared.", count(n, "line is", "lines are")),
        (n, m) => format!(
            "{} falsely shared, and {} truly.",
            count(n, "line is", "lines are"),
            thousands(m)
        ),
    };
    put(out, &verdict);
    let t = &report.found.real.totals;
    put(
        out,
        &format!(
            "{} of {} accesses ({} %) miss because another thread wrote to the line: {} need not, {} must.",
            thousands(t.coherence_misses()),
            thousands(t.accesses),
            percent(t.coherence_misses(), t.accesses),
            thousands(t.false_misses),
            thousands(t.true_misses),
        ),
    );
    let (this, that) = match report.order {
        ThreadOrder::Equal => ("with the threads side by side", "in the recorded order"),
        ThreadOrder::Time => ("in the recorded order", "with the threads side by side"),
    };
    match (report.range, report.other) {
        (Some((misses, _)), Some(other)) => {
            let (range, other) = (between(misses), thousands(other));
            put(
                out,
                &format!("That is {this}; {that} it is {other}, and {range} in all orders that were tried."),
            );
        }
        _ => put(out, &format!("That is {this}.")),
    }
    let config = &report.found.config;
    let sizes = |all: &[Geometry]| all.iter().map(|g| bytes(g.size)).collect::<Vec<_>>().join(" + ");
    let protocol = match config.protocol {
        Protocol::Mesi => "MESI",
        Protocol::Moesi => "MOESI",
    };
    let shared = match config.shared.is_empty() {
        true => String::new(),
        false => format!(", {} shared", sizes(&config.shared)),
    };
    let cores = count(config.cores.into(), "core", "cores");
    let (private, line) = (sizes(&config.private), config.line);
    let of = &report.found.measured.source;
    put(
        out,
        &format!("{protocol}, {cores} with {private} each{shared}, lines of {line} bytes ({of})"),
    );
}

fn line(number: usize, finding: &Finding, out: &mut String) {
    let kind = match finding.is_false() {
        true => "FALSE",
        false => "true",
    };
    let c = &finding.counts;
    put(
        out,
        &format!("\n{number}. {kind}  {:#x}  {}", finding.address, finding.object()),
    );
    let range = finding
        .range
        .map(|(misses, _)| misses)
        .filter(|range| range.least < range.most);
    let range = range.map_or_else(String::new, |range| format!(" ({} by order)", between(range)));
    put(
        out,
        &format!(
            "   {}{range}: {} false, {} true; {}, {}, {}",
            count(c.coherence_misses(), "miss", "misses"),
            thousands(c.false_misses),
            thousands(c.true_misses),
            count(c.invalidations, "invalidation", "invalidations"),
            count(c.upgrades, "upgrade", "upgrades"),
            count(c.transfers, "bounce", "bounces"),
        ),
    );
    put(
        out,
        &format!(
            "   {:>7}  {:<30} {:>6} {:>11} {:>11} {:>9}  from",
            "bytes", "member", "thread", "writes", "reads", "misses"
        ),
    );
    finding.users.iter().take(MOST_USERS).for_each(|u| put(out, &user(u)));
    if finding.users.len() > MOST_USERS {
        put(
            out,
            &format!(
                "   … and from {} other places (--json)",
                finding.users.len() - MOST_USERS
            ),
        );
    }
    let mut pairs = finding.pairs.clone();
    pairs.sort_by_key(|(pair, counts)| (std::cmp::Reverse(counts.coherence_misses()), *pair));
    let took = pairs.iter().take(4).map(|(pair, counts)| {
        let times = thousands(counts.coherence_misses());
        format!("{} from {} {times} times", pair.writer.0, pair.loser.0)
    });
    put(
        out,
        &format!(
            "   thread takes it from thread: {}",
            took.collect::<Vec<_>>().join(", ")
        ),
    );
    savings(finding, out);
}

fn user(u: &User) -> String {
    let range = format!("{}..{}", u.offset, u.offset + u.bytes);
    let from = match &u.source {
        Some(source) => format!("{}  {source}", u.place),
        None => u.place.clone(),
    };
    let member = match u.member.chars().count() > 30 {
        true => u.member.chars().take(29).chain(['…']).collect(),
        false => u.member.clone(),
    };
    format!(
        "   {range:>7}  {member:<30} {:>6} {:>11} {:>11} {:>9}  {from}",
        u.thread,
        thousands(u.writes),
        thousands(u.reads),
        thousands(u.counts.coherence_misses()),
    )
}

/// What other layouts save.
fn savings(finding: &Finding, out: &mut String) {
    let mut said = String::new();
    if let Some(saving) = finding.padded {
        let lines = finding.runs.len();
        let _ = write!(
            said,
            "   With each thread's bytes on lines of their own ({lines} instead of 1) {} of {} misses are left",
            thousands(saving.after),
            thousands(saving.before),
        );
    }
    if let Some(saving) = finding.aligned {
        match saving.after < saving.before {
            true => {
                let (after, before) = (thousands(saving.after), thousands(saving.before));
                let _ = write!(said, "; aligned, {after} of {before}");
            }
            false => said.push_str("; alignment saves none"),
        }
    }
    if !said.is_empty() {
        put(out, &said);
    }
}

/// Lines that another machine, or another run, might share.
fn would_share(report: &Report<'_>, out: &mut String) {
    let line = report.found.config.line;
    let mut tell = |what: String, would: &[WouldShare]| {
        if would.is_empty() {
            return;
        }
        put(out, &format!("\n{what}:"));
        for line in would.iter().take(MOST_OTHERS) {
            let misses = count(line.false_misses, "false miss", "false misses");
            put(out, &format!("   {:#x}  {misses}  {}", line.address, line.object));
        }
        if would.len() > MOST_OTHERS {
            put(out, &format!("   … and {} others", would.len() - MOST_OTHERS));
        }
    };
    tell(
        format!("Not shared here, but with lines of {} bytes it would be", 2 * line),
        &report.wide,
    );
    tell(
        format!(
            "Not shared here, but {} bytes further on in memory it would be",
            line / 2
        ),
        &report.shifted,
    );
}
