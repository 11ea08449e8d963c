//! What was found, as JSON: `docs/guide.md` lists the fields.
use super::active::Active;
use super::args::PhasesArgs;
use super::{explain, Report};
use memtrail_phases::choose::PeriodChoice;
use memtrail_phases::{ProfileShape, Reason};
use serde_json::{json, Value};

fn shape(shape: ProfileShape) -> &'static str {
    match shape {
        ProfileShape::Low => "low",
        ProfileShape::Falling => "falling",
        ProfileShape::Oscillating => "oscillating",
    }
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::QuietAtBase => "quiet",
        Reason::Threshold => "threshold",
        Reason::Trough => "trough",
        Reason::Refined => "refined",
        Reason::Spectrum => "spectrum",
        Reason::Least => "least",
    }
}

fn choice(choice: &PeriodChoice, base: u64) -> Value {
    let length = |multiple: usize| multiple as u64 * base;
    json!({
        "period": length(choice.multiple),
        "multiple": choice.multiple,
        "volatility": choice.volatility,
        "profile": shape(choice.shape),
        "reason": reason(choice.reason),
        "longest_allowed": length(choice.most),
        "shortest_coarse_phase": choice.coarse.map(length),
        "refused": choice.refused.map(|point| json!({
            "period": length(point.multiple),
            "volatility": point.volatility,
        })),
        "spectrum": choice.spectrum.iter().map(|&multiple| length(multiple)).collect::<Vec<_>>(),
    })
}

fn named(all: &[(String, u64)], top: usize) -> Vec<Value> {
    let one = |(name, accesses): &(String, u64)| json!({ "name": name, "accesses": accesses });
    all.iter().take(top).map(one).collect()
}

fn kind(id: usize, active: &Active, top: usize) -> Value {
    json!({
        "id": id + 1,
        "accesses": active.accesses,
        "functions": named(&active.functions, top),
        "loops": named(&active.loops, top),
    })
}

pub fn report(report: &Report, args: &PhasesArgs) -> Value {
    let top = args.top.unwrap_or(usize::MAX);
    let (timeline, found) = (&report.timeline, &report.found);
    let base = timeline.base;
    let phases = report.phases.iter().map(|phase| {
        json!({
            "from": phase.from,
            "to": phase.to,
            "id": phase.id,
            "leader": phase.leader.map(|line| report.name(line)),
            "region": phase.region,
        })
    });
    let pairs = found.pairs.iter().take(top).map(|pair| {
        json!({
            "a": report.name(pair.a),
            "b": report.name(pair.b),
            "correlation": pair.correlation,
        })
    });
    let inversions = report.inversions().into_iter().map(|inversion| {
        json!({
            "at": inversion.at,
            "from": report.name(inversion.from),
            "to": report.name(inversion.to),
        })
    });
    let objects = timeline.lines[..timeline.named].iter().zip(&found.own_choices);
    let objects = objects.take(top).map(|(line, own)| {
        json!({
            "name": line.name,
            "accesses": line.total_accesses[timeline.level],
            "misses": line.total_misses[timeline.level],
            "choice": choice(own, base),
        })
    });
    let kinds = report.active.iter().enumerate();
    let mut value = json!({
        "file": args.file.display().to_string(),
        "period": report.period(),
        "unit": report.settings.unit.word(),
        "base": base,
        "points": timeline.points,
        "total": timeline.total,
        "config": report.measured.source,
        "level": report.measured.hierarchy.levels[timeline.level].name,
        "stream": timeline.followed.word(),
        "type": found.behaviour.word(),
        "why": explain::period(report).join(" "),
        "percentile": report.settings.analysis.choice.percentile.percent(),
        "threshold": report.settings.analysis.choice.threshold,
        "choice": choice(&found.choice, base),
        "initialisation": report.initialised(),
        "explained": found.explained,
        "phases": phases.collect::<Vec<_>>(),
        "kinds": kinds.map(|(id, active)| kind(id, active, top)).collect::<Vec<_>>(),
        "pairs": pairs.collect::<Vec<_>>(),
        "inversions": inversions.collect::<Vec<_>>(),
        "objects": objects.collect::<Vec<_>>(),
        "code": {
            "kinds": report.by_code.kinds,
            "phases": report.by_code.phases,
            "agreement": report.by_code.agreement,
        },
    });
    if args.profile {
        let points = found.choice.profile.iter().map(|point| {
            json!({
                "period": point.multiple as u64 * base,
                "volatility": point.volatility,
            })
        });
        value["profile"] = points.collect();
    }
    value
}
