//! Phases: the parts of a run in which the streams are alike, and what leads them.
//!
//! A *phase* is a stretch of the run between two changes of the rows at the chosen period
//! ([`segments`](crate::segments)); phases that are alike have one id, from 1 on. A boundary is
//! found at the chosen period and then moved, by at most a period, to the base period where the
//! sums over one period before and behind differ most. The *leader* of a phase is the stream that has the largest
//! count in it. An *inversion* is a boundary at which the leader changes. Two streams are
//! *correlated* or *anti-correlated* by Pearson's coefficient of their curves after initialisation.
//!
//! **Three types**, the paper's, by rules of our own:
//! - *None*: one phase is left without initialisation and ending. Initialisation are the first
//!   phases, up to [`PhaseOptions::initialisation`] of the run together, if none of them recurs
//!   behind the last of them; the ending are the last ones, up to [`PhaseOptions::ending`], of
//!   which none occurs before.
//! - *Simple*: at least [`SHARP`] of the boundaries between the others are sharp, and the phases
//!   explain at least half of the variation. A boundary is sharp if, between two points before and
//!   two behind it, at least half of the change between the phases' medians happens. What phases
//!   explain is by how much the rows are nearer to their phase's median than to the run's.
//! - *Complex*: all others.
use crate::choose::{choose, ChoiceOptions, PeriodChoice};
use crate::segments::{labels, median, rows, segments, Change, Label, Row};
use crate::Stream;
use std::ops::Range;

/// Share of the boundaries that must be sharp for behaviour to be simple.
pub const SHARP: f64 = 0.75;

/// Points that a phase lasts at least.
pub const LEAST_POINTS: usize = 3;

/// Share of the run that a phase lasts at least: this is about the run as a whole.
pub const LEAST_SHARE: f64 = 0.005;

/// Points that a phase lasts at least, of so many.
pub fn least_points(points: usize) -> usize {
    ((points as f64 * LEAST_SHARE).ceil() as usize).max(LEAST_POINTS)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseOptions {
    pub choice: ChoiceOptions,
    /// Taken instead of a choice: base periods a point.
    pub multiple: Option<usize>,
    pub change: Change,
    /// Largest share of the run that is initialisation.
    pub initialisation: f64,
    /// Largest share of the run that is its ending.
    pub ending: f64,
    /// Least coefficient of a pair, up or down.
    pub correlation: f64,
}

impl Default for PhaseOptions {
    fn default() -> PhaseOptions {
        PhaseOptions {
            choice: ChoiceOptions::default(),
            multiple: None,
            change: Change::default(),
            initialisation: 0.25,
            ending: 0.05,
            correlation: 0.5,
        }
    }
}

/// The paper's types of phase behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Nothing changes after initialisation.
    None,
    /// A well-defined set of phases.
    Simple,
    /// Phases and boundaries are fuzzy.
    Complex,
}

impl Behaviour {
    pub fn word(self) -> &'static str {
        match self {
            Behaviour::None => "none",
            Behaviour::Simple => "simple",
            Behaviour::Complex => "complex",
        }
    }
}

/// A phase, in base periods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseSpan {
    pub from: usize,
    pub to: usize,
    /// From 1, in the order in which kinds of phases first occur.
    pub id: u32,
    /// The stream with the largest count in it; nothing if nothing is counted.
    pub leader: Option<usize>,
    /// Whether it begins at a sharp boundary; the first does.
    pub sharp: bool,
}

/// Two streams, and how they go together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    pub a: usize,
    pub b: usize,
    /// Pearson's coefficient.
    pub correlation: f64,
}

/// Another stream leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inversion {
    /// In base periods.
    pub at: usize,
    pub from: usize,
    pub to: usize,
}

/// All that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct PhasesFound {
    pub choice: PeriodChoice,
    /// By stream.
    pub own_choices: Vec<PeriodChoice>,
    pub behaviour: Behaviour,
    pub phases: Vec<PhaseSpan>,
    /// Which phases are neither initialisation nor ending.
    pub steady: Range<usize>,
    pub pairs: Vec<Pair>,
    pub inversions: Vec<Inversion>,
    /// Share of the variation after initialisation that the phases explain.
    pub explained: f64,
    /// By point of the curves: its phase's label.
    pub labels: Vec<Label>,
}

/// Finds the phases of streams of equal length. All count for changes; only the first `named` can
/// lead, and be correlated.
pub fn analyse(streams: &[&Stream], named: usize, options: &PhaseOptions) -> PhasesFound {
    let mut choice = choose(streams, &options.choice);
    if let Some(multiple) = options.multiple {
        choice.multiple = multiple.max(1);
        choice.volatility = crate::volatility::at(streams, choice.multiple, options.choice.percentile);
    }
    let multiple = choice.multiple;
    let len = streams.iter().map(|stream| stream.counts.len()).min().unwrap_or(0);
    let rows = rows(streams, multiple);
    let mut parts = segments(&rows, least_points(rows.len()), &options.change);
    let part_labels = labels(&rows, &parts, &options.change);
    let mut ids = join_equal(&mut parts, part_labels);
    number(&mut ids);
    let bounds = refined(streams, &parts, multiple);
    let by_point: Vec<Label> = labels_of_points(&parts, &ids);
    let centres = centres(&rows, &by_point);
    let mut phases = Vec::new();
    for (at, &label) in ids.iter().enumerate() {
        let (from, to) = (bounds[at], if at + 1 < ids.len() { bounds[at + 1] } else { len });
        phases.push(PhaseSpan {
            from,
            to,
            id: label as u32 + 1,
            leader: leader(&streams[..named], from..to),
            sharp: at == 0 || is_sharp(&rows, parts[at].start, &centres[ids[at - 1]], &centres[label]),
        });
    }
    let steady = steady(&phases, len, options);
    let explained = explained(&rows, &parts, &by_point, &centres, &steady);
    let behaviour = behaviour(&phases[steady.clone()], explained);
    // The first point behind a boundary may straddle it.
    let after = match steady.start {
        0 => 0,
        first => parts[first].start + 1,
    };
    PhasesFound {
        own_choices: streams[..named]
            .iter()
            .map(|stream| choose(&[stream], &options.choice))
            .collect(),
        behaviour,
        inversions: inversions(&phases),
        pairs: pairs(&streams[..named], multiple, after, options.correlation),
        phases,
        steady,
        explained,
        labels: by_point,
        choice,
    }
}

/// Joins neighbours of one label.
fn join_equal(parts: &mut Vec<Range<usize>>, labels: Vec<Label>) -> Vec<Label> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    let mut ids: Vec<Label> = Vec::new();
    for (part, label) in parts.drain(..).zip(labels) {
        match (joined.last_mut(), ids.last()) {
            (Some(last), Some(&id)) if id == label => last.end = part.end,
            _ => {
                joined.push(part);
                ids.push(label);
            }
        }
    }
    *parts = joined;
    ids
}

/// Numbers labels from 0 in the order in which they occur.
fn number(labels: &mut [Label]) {
    let mut seen: Vec<Label> = Vec::new();
    for label in labels {
        let at = seen.iter().position(|seen| seen == label).unwrap_or_else(|| {
            seen.push(*label);
            seen.len() - 1
        });
        *label = at;
    }
}

fn labels_of_points(parts: &[Range<usize>], ids: &[Label]) -> Vec<Label> {
    let each = parts.iter().zip(ids).flat_map(|(part, &id)| vec![id; part.len()]);
    each.collect()
}

/// By label: the median of its rows.
fn centres(rows: &[Row], labels: &[Label]) -> Vec<Row> {
    let kinds = labels.iter().max().map_or(0, |&label| label + 1);
    let own = |kind: usize| {
        let rows = rows.iter().zip(labels).filter(|(_, &label)| label == kind);
        median(&rows.map(|(row, _)| row.clone()).collect::<Vec<Row>>())
    };
    (0..kinds).map(own).collect()
}

fn apart(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum()
}

/// Where each part begins, in base periods: within a period of the curve's boundary, where the sums
/// over one period before and behind differ most. Sums over whole periods, so that what repeats with
/// the period does not matter.
fn refined(streams: &[&Stream], parts: &[Range<usize>], multiple: usize) -> Vec<usize> {
    let len = streams.iter().map(|stream| stream.counts.len()).min().unwrap_or(0);
    let change = |at: usize| {
        let of = |stream: &&Stream| {
            let sum = |range: Range<usize>| stream.counts[range].iter().sum::<u64>();
            sum(at - multiple..at).abs_diff(sum(at..at + multiple))
        };
        streams.iter().map(of).sum::<u64>()
    };
    let mut bounds: Vec<usize> = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let coarse = part.start * multiple;
        if number == 0 || multiple == 1 {
            bounds.push(coarse);
            continue;
        }
        let from = (coarse - multiple).max(bounds[number - 1] + 1).max(multiple);
        let to = (coarse + multiple).min(len - multiple);
        let best = (from..=to).max_by_key(|&at| (change(at), usize::MAX - at.abs_diff(coarse)));
        bounds.push(best.unwrap_or(coarse));
    }
    bounds
}

fn leader(streams: &[&Stream], span: Range<usize>) -> Option<usize> {
    let sums = streams
        .iter()
        .map(|stream| stream.counts[span.clone()].iter().sum::<u64>());
    let by_sum = sums.enumerate().filter(|&(_, sum)| sum > 0);
    // Of equal ones the first.
    by_sum.min_by_key(|&(at, sum)| (u64::MAX - sum, at)).map(|(at, _)| at)
}

/// Whether most of the change between two phases happens at their boundary, which the point before
/// or behind it may straddle.
fn is_sharp(rows: &[Row], at: usize, before: &[f64], after: &[f64]) -> bool {
    let mean = |range: Range<usize>| {
        let rows = &rows[range];
        let column = |c: usize| rows.iter().map(|row| row[c]).sum::<f64>() / rows.len() as f64;
        (0..before.len()).map(column).collect::<Row>()
    };
    let left = mean(at.saturating_sub(LEAST_POINTS)..at.saturating_sub(1).max(1));
    let right = mean((at + 1).min(rows.len() - 1)..(at + LEAST_POINTS).min(rows.len()));
    apart(&left, &right) >= 0.5 * apart(before, after)
}

/// Which phases are neither initialisation nor ending.
fn steady(phases: &[PhaseSpan], len: usize, options: &PhaseOptions) -> Range<usize> {
    let share = |from: usize, to: usize| (to - from) as f64 / len.max(1) as f64;
    let apart = |one: &[PhaseSpan], other: &[PhaseSpan]| {
        let is_in = |phase: &PhaseSpan| other.iter().any(|other| other.id == phase.id);
        !one.iter().any(is_in)
    };
    let is_start = |&end: &usize| {
        let (start, rest) = phases.split_at(end);
        share(0, start[end - 1].to) <= options.initialisation && apart(start, rest)
    };
    let first = (1..phases.len()).rev().find(is_start).unwrap_or(0);
    let is_end = |&begin: &usize| {
        let (rest, end) = phases[first..].split_at(begin - first);
        share(end[0].from, len) <= options.ending && apart(rest, end)
    };
    let last = (first + 1..phases.len()).find(is_end).unwrap_or(phases.len());
    first..last
}

fn explained(rows: &[Row], parts: &[Range<usize>], labels: &[Label], centres: &[Row], steady: &Range<usize>) -> f64 {
    let Some(parts) = parts.get(steady.clone()).filter(|parts| !parts.is_empty()) else {
        return 1.0;
    };
    let within = parts[0].start..parts[parts.len() - 1].end;
    let middle = median(&rows[within.clone()]);
    let all: f64 = rows[within.clone()].iter().map(|row| apart(row, &middle)).sum();
    let own = rows[within.clone()].iter().zip(&labels[within]);
    let own: f64 = own.map(|(row, &label)| apart(row, &centres[label])).sum();
    match all > 0.0 {
        true => (1.0 - own / all).max(0.0),
        false => 1.0,
    }
}

fn behaviour(steady: &[PhaseSpan], explained: f64) -> Behaviour {
    if steady.len() < 2 {
        return Behaviour::None;
    }
    let sharp = steady[1..].iter().filter(|phase| phase.sharp).count();
    match sharp as f64 >= SHARP * (steady.len() - 1) as f64 && explained >= 0.5 {
        true => Behaviour::Simple,
        false => Behaviour::Complex,
    }
}

fn inversions(phases: &[PhaseSpan]) -> Vec<Inversion> {
    let change = |pair: &[PhaseSpan]| {
        let (from, to) = (pair[0].leader?, pair[1].leader?);
        (from != to).then_some(Inversion {
            at: pair[1].from,
            from,
            to,
        })
    };
    phases.windows(2).filter_map(change).collect()
}

/// Pearson's coefficient; nothing if one of them is constant.
pub fn correlation(a: &[u64], b: &[u64]) -> Option<f64> {
    let n = a.len().min(b.len()) as f64;
    let mean = |values: &[u64]| values.iter().map(|&value| value as f64).sum::<f64>() / n;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut only_a, mut only_b) = (0.0, 0.0, 0.0);
    for (&a, &b) in a.iter().zip(b) {
        let (a, b) = (a as f64 - mean_a, b as f64 - mean_b);
        both += a * b;
        only_a += a * a;
        only_b += b * b;
    }
    let both_vary = only_a > 0.0 && only_b > 0.0;
    both_vary.then(|| (both / (only_a * only_b).sqrt()).clamp(-1.0, 1.0))
}

/// Pairs from a point on, the strongest first.
fn pairs(streams: &[&Stream], multiple: usize, after: usize, least: f64) -> Vec<Pair> {
    let curves: Vec<Vec<u64>> = streams.iter().map(|stream| stream.curve(multiple)).collect();
    let mut found = Vec::new();
    for (a, one) in curves.iter().enumerate() {
        for (b, other) in curves.iter().enumerate().skip(a + 1) {
            let coefficient = correlation(&one[after.min(one.len())..], &other[after.min(other.len())..]);
            let coefficient = coefficient.filter(|coefficient| coefficient.abs() >= least);
            found.extend(coefficient.map(|correlation| Pair { a, b, correlation }));
        }
    }
    found.sort_by(|x, y| {
        y.correlation
            .abs()
            .total_cmp(&x.correlation.abs())
            .then((x.a, x.b).cmp(&(y.a, y.b)))
    });
    found
}
