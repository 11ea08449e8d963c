//! `phases`: how a program's behaviour changes over time.
//!
//! One replay through the tagger and the caches, as for tables, with counts taken at the end of
//! each base period ([`memtrail_phases::sampler`]). [`timeline`] picks the objects that matter;
//! `memtrail-phases` chooses the sampling period and finds the phases; what is active in each comes
//! from the code that was executed in it ([`active`]).
mod active;
pub mod args;
mod curves;
mod explain;
mod json;
mod text;
mod timeline;

use crate::dump::whole;
use crate::info::{open, warn_unless_whole, Recording};
use crate::output;
use crate::say;
use crate::tables::args::TableArgs;
use crate::tables::run::{self, Measured, Over, Wants};
use active::Active;
use anyhow::Context;
use args::{PhasesArgs, Settings};
use memtrail_phases::code;
use memtrail_phases::phases::least_points;
use memtrail_phases::sampler::CODE;
use memtrail_phases::{analyse, PhasesFound};
use memtrail_report::Dimension;
use memtrail_trace::Known;
use timeline::Timeline;

/// A phase, in the unit of the run.
#[derive(Clone, Debug)]
pub struct Phase {
    pub from: u64,
    pub to: u64,
    pub id: u32,
    /// The number of the line that leads.
    pub leader: Option<usize>,
    /// The region whose beginning or end the phase begins at, if the program says so.
    pub region: Option<String>,
}

/// Another object leads.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub at: u64,
    pub from: usize,
    pub to: usize,
}

/// How phases by data compare with those by code.
#[derive(Clone, Copy, Debug)]
pub struct ByCode {
    pub kinds: usize,
    pub phases: usize,
    /// The adjusted Rand index.
    pub agreement: f64,
}

/// All that is told.
pub struct Report {
    pub settings: Settings,
    pub measured: Measured,
    pub timeline: Timeline,
    pub found: PhasesFound,
    pub phases: Vec<Phase>,
    /// By id of a phase, less 1.
    pub active: Vec<Active>,
    pub by_code: ByCode,
}

impl Report {
    /// The sampling period, in the unit of the run.
    pub fn period(&self) -> u64 {
        self.timeline.base * self.found.choice.multiple as u64
    }

    pub fn name(&self, line: usize) -> &str {
        &self.timeline.lines[line].name
    }

    /// What is looked at: `L1 misses`.
    pub fn subject(&self) -> String {
        let level = &self.measured.hierarchy.levels[self.timeline.level].name;
        format!("{level} {}", self.timeline.followed.word())
    }

    /// Boundaries at which another object leads.
    pub fn inversions(&self) -> Vec<Change> {
        let change = |pair: &[Phase]| {
            let (from, to) = (pair[0].leader?, pair[1].leader?);
            (from != to).then_some(Change {
                at: pair[1].from,
                from,
                to,
            })
        };
        self.phases.windows(2).filter_map(change).collect()
    }

    /// What leads all phases of an id together, and its share of what is looked at there.
    pub fn leader_of(&self, id: u32) -> (Option<usize>, Option<f64>) {
        let spans = || self.found.phases.iter().filter(move |phase| phase.id == id);
        let sum = |line: &timeline::Line| -> u64 {
            let counts = &line.stream(self.timeline.followed, self.timeline.level).counts;
            spans().flat_map(|phase| &counts[phase.from..phase.to]).sum()
        };
        let sums: Vec<u64> = self.timeline.lines.iter().map(sum).collect();
        let all: u64 = sums.iter().sum();
        let named = sums[..self.timeline.named]
            .iter()
            .enumerate()
            .filter(|(_, &sum)| sum > 0);
        match named.min_by_key(|&(at, &sum)| (u64::MAX - sum, at)) {
            Some((at, &sum)) => (Some(at), Some(sum as f64 / all as f64)),
            None => (None, None),
        }
    }

    /// Where initialisation ends.
    pub fn initialised(&self) -> u64 {
        self.phases.get(self.found.steady.start).map_or(0, |phase| phase.from)
    }
}

pub fn command(args: &PhasesArgs) -> anyhow::Result<u8> {
    output::check(args.output.as_deref())?;
    output::check(args.curves.as_deref())?;
    let mut reader = open(&args.file)?;
    let mut known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let report = find(&args.table(), args.settings(), &mut reader, &mut known)?;
    if let Some(path) = &args.curves {
        std::fs::write(path, curves::written(&report, path)).with_context(|| output::cannot_write(path))?;
    }
    let text = match args.json {
        true => format!("{:#}\n", json::report(&report, args)),
        false => text::report(&report, args),
    };
    for reason in report.measured.reasons() {
        say::line(format_args!("some names are missing: {reason}"));
    }
    output::write(args.output.as_deref(), &text)?;
    if !args.json {
        let (caches, file) = (&args.caches, args.file.display());
        say::line(format_args!("next: memtrail objects --by phase,object{caches} {file}"));
    }
    whole(&known)
}

/// Finds the phases of a recording.
pub fn find(args: &TableArgs, settings: Settings, reader: &mut Recording, known: &mut Known) -> anyhow::Result<Report> {
    let over = Over::Sampled {
        unit: settings.unit,
        period: settings.base,
        most: settings.points,
    };
    let by = [Dimension::Object, Dimension::Loop];
    let mut measured = run::run(args, &by, Wants::default(), over, reader, known)?;
    let sampled = measured.sampled.take().context("counts over time were asked for")?;
    let timeline = Timeline::new(&measured, &sampled, settings.followed);
    let found = analyse(&timeline.streams(), timeline.named, &settings.analysis);
    let rows = code::rows(sampled.gather.samples(CODE), found.choice.multiple);
    let by_code = code::by_point(&rows, least_points(rows.len()), &settings.analysis.change);
    let compared = ByCode {
        kinds: by_code.iter().max().map_or(0, |&label| label + 1),
        phases: usize::from(!by_code.is_empty()) + by_code.windows(2).filter(|pair| pair[0] != pair[1]).count(),
        agreement: code::agreement(&found.labels, &by_code),
    };
    let mut report = Report {
        phases: placed(&found, &timeline),
        settings,
        timeline,
        active: Vec::new(),
        by_code: compared,
        found,
        measured,
    };
    at_marks(&mut report, &sampled.marks);
    report.active = active::by_id(&report, &sampled);
    Ok(report)
}

/// Phases in the unit of the run. The last one goes on to the end.
fn placed(found: &PhasesFound, timeline: &Timeline) -> Vec<Phase> {
    let last = found.phases.len().saturating_sub(1);
    let place = |(number, phase): (usize, &memtrail_phases::PhaseSpan)| Phase {
        from: phase.from as u64 * timeline.base,
        to: match number == last {
            true => timeline.total,
            false => phase.to as u64 * timeline.base,
        },
        id: phase.id,
        leader: phase.leader,
        region: None,
    };
    let placed: Vec<Phase> = found.phases.iter().enumerate().map(place).collect();
    match placed.is_empty() {
        // A run of less than one base period.
        true => vec![Phase {
            from: 0,
            to: timeline.total,
            id: 1,
            leader: (timeline.named > 0).then_some(0),
            region: None,
        }],
        false => placed,
    }
}

/// Moves boundaries to where the program says that a region begins or ends, if that is within one
/// sampling period.
fn at_marks(report: &mut Report, marks: &[memtrail_phases::sampler::RegionMark]) {
    let period = report.period();
    for number in 1..report.phases.len() {
        let at = report.phases[number].from;
        let least = report.phases[number - 1].from + 1;
        let most = report.phases[number].to - 1;
        let near = marks.iter().filter(|mark| mark.at.abs_diff(at) <= period);
        let near = near.filter(|mark| (least..=most).contains(&mark.at));
        let Some(mark) = near.min_by_key(|mark| mark.at.abs_diff(at)) else {
            continue;
        };
        let name = report.measured.text(mark.text).unwrap_or_default();
        let verb = if mark.enters { "enters" } else { "leaves" };
        report.phases[number].from = mark.at;
        report.phases[number].region = Some(format!("{verb} {name}"));
        report.phases[number - 1].to = mark.at;
    }
}
