//! What was found, as text: one screen.
use super::active::Active;
use super::args::PhasesArgs;
use super::{explain, Report};
use memtrail_phases::Stream;
use memtrail_report::format::{percent, thousands};
use std::fmt::Write;

/// Columns of the timeline.
const STRIP: usize = 72;

/// Rows of lists, unless told otherwise.
const TOP: usize = 8;

/// Longest name in a list.
const NAME: usize = 30;

pub fn report(report: &Report, args: &PhasesArgs) -> String {
    let top = args.top.unwrap_or(TOP);
    let mut text = String::new();
    let mut say = |line: String| {
        text.push_str(line.trim_end());
        text.push('\n');
    };
    say(format!("{}: {}", report.subject(), explain::behaviour(report)));
    say(String::new());
    explain::period(report).into_iter().for_each(&mut say);
    say(String::new());
    strips(report, top).into_iter().for_each(&mut say);
    say(String::new());
    kinds(report, top).into_iter().for_each(&mut say);
    inversions(report, top).into_iter().for_each(&mut say);
    pairs(report, top).into_iter().for_each(&mut say);
    let code = &report.by_code;
    say(format!(
        "phases by the code that ran: {} of {} kinds; agreement {:.2} (adjusted Rand index; 1: the same)",
        code.phases, code.kinds, code.agreement
    ));
    if args.profile {
        say(String::new());
        profile(report).into_iter().for_each(&mut say);
    }
    text
}

/// A name that fits.
fn fitted(name: &str, most: usize) -> String {
    match name.chars().count() > most {
        true => name.chars().take(most - 1).chain(['…']).collect(),
        false => name.to_string(),
    }
}

/// A digit or letter for the id of a phase.
fn sign(id: u32) -> char {
    char::from_digit(id.min(35), 36).filter(|_| id < 36).unwrap_or('+')
}

/// The phases along the run, and below how much of what is looked at each object has.
fn strips(report: &Report, top: usize) -> Vec<String> {
    let total = report.timeline.total.max(1);
    let at = |column: usize| (2 * column as u128 + 1) * u128::from(total) / (2 * STRIP as u128);
    let phase_at = |column| {
        let place = at(column) as u64;
        report
            .phases
            .iter()
            .find(|phase| place < phase.to)
            .map_or(' ', |phase| sign(phase.id))
    };
    let mut lines = vec![format!(
        "{:NAME$} {}",
        "phase",
        (0..STRIP).map(phase_at).collect::<String>()
    )];
    let shown = report.timeline.lines[..report.timeline.named].iter().take(top.min(TOP));
    for line in shown {
        let bars = bars(line.stream(report.timeline.followed, report.timeline.level));
        lines.push(format!("{:NAME$} {bars}", fitted(&line.name, NAME)));
    }
    let unit = report.settings.unit.word();
    lines.push(format!(
        "{:NAME$} 0{:>width$}",
        "",
        format!("{} {unit}", thousands(total)),
        width = STRIP - 1
    ));
    lines
}

/// A stream as bars, from nothing to its own highest.
fn bars(stream: &Stream) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let len = stream.counts.len();
    let mean = |column: usize| {
        let (from, to) = (
            column * len / STRIP,
            ((column + 1) * len / STRIP).max(column * len / STRIP + 1),
        );
        let part = &stream.counts[from.min(len)..to.min(len)];
        part.iter().sum::<u64>() as f64 / part.len().max(1) as f64
    };
    let means: Vec<f64> = (0..STRIP).map(mean).collect();
    let highest = means.iter().copied().fold(0.0, f64::max);
    let bar = |&mean: &f64| match highest > 0.0 {
        true => BARS[(mean / highest * 8.0).ceil() as usize],
        false => ' ',
    };
    means.iter().map(bar).collect()
}

/// What the kinds of phases are.
fn kinds(report: &Report, top: usize) -> Vec<String> {
    let timeline = &report.timeline;
    let mut lines = vec![format!(
        "{:5} {:>6} {:>5}  {:NAME$} {:>7}  {}",
        "phase", "% run", "times", "leader", "% of it", "active"
    )];
    for (at, active) in report.active.iter().enumerate() {
        let own = || report.phases.iter().filter(|phase| phase.id as usize == at + 1);
        let length: u64 = own().map(|phase| phase.to - phase.from).sum();
        let (leader, share) = report.leader_of(at as u32 + 1);
        let name = leader.map_or("-", |line| report.name(line));
        let busy = busy(active);
        lines.push(format!(
            "{:<5} {:>6} {:>5}  {:NAME$} {:>7}  {}",
            sign(at as u32 + 1),
            percent(length, timeline.total),
            own().count(),
            fitted(name, NAME),
            share.map_or_else(String::new, |share| format!("{:.1}", 100.0 * share)),
            fitted(&busy.join(", "), 58),
        ));
        if at + 1 == 2 * top && report.active.len() > 2 * top {
            lines.push(format!("… and {} kinds more", report.active.len() - 2 * top));
            break;
        }
    }
    lines.push(String::new());
    lines
}

/// The loops and functions with most accesses, each once; no function of which a loop is there.
fn busy(active: &Active) -> Vec<&str> {
    let mut busy: Vec<&str> = Vec::new();
    let loops = active.loops.iter().take(3).map(|(name, _)| name.as_str());
    for name in loops.chain(active.functions.iter().take(3).map(|(name, _)| name.as_str())) {
        let is_there = |there: &&str| {
            there
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
        };
        if !busy.iter().any(is_there) {
            busy.push(name);
        }
    }
    busy
}

fn inversions(report: &Report, top: usize) -> Vec<String> {
    let all = report.inversions();
    let mut lines = match all.len() {
        0 => vec!["no inversion: the same object leads all along".to_string()],
        1 => vec!["1 inversion (another object leads from there on):".to_string()],
        n => vec![format!("{n} inversions (another object leads from there on):")],
    };
    for inversion in all.iter().take(top) {
        lines.push(format!(
            "  at {:>15}  {} -> {}",
            thousands(inversion.at),
            fitted(report.name(inversion.from), NAME),
            fitted(report.name(inversion.to), NAME)
        ));
    }
    if all.len() > top {
        lines.push(format!("  … and {} more", all.len() - top));
    }
    lines
}

fn pairs(report: &Report, top: usize) -> Vec<String> {
    let pairs = &report.found.pairs;
    let mut lines = Vec::new();
    for pair in pairs.iter().take(top) {
        let how = if pair.correlation < 0.0 {
            "anti-correlated"
        } else {
            "correlated"
        };
        let (a, b) = (fitted(report.name(pair.a), NAME), fitted(report.name(pair.b), NAME));
        lines.push(format!("{how} {:+.2}: {a} and {b}", pair.correlation));
    }
    if pairs.len() > top {
        lines.push(format!("… and {} pairs more", pairs.len() - top));
    }
    lines
}

/// The volatility profile, with a bar for each period.
fn profile(report: &Report) -> Vec<String> {
    let unit = report.settings.unit.word();
    let mut lines = vec![format!("{:>15}  volatility", format!("period, {unit}"))];
    for point in &report.found.choice.profile {
        let mut line = String::new();
        let mark = if point.multiple == report.found.choice.multiple {
            " <"
        } else {
            ""
        };
        let bar = "#".repeat((point.volatility * 60.0).round() as usize);
        let period = thousands(point.multiple as u64 * report.timeline.base);
        write!(line, "{period:>15}  {:.3} {bar}{mark}", point.volatility).expect("strings take all");
        lines.push(line);
    }
    lines
}
