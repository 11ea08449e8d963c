//! Why this sampling period, in words and numbers.
use super::Report;
use memtrail_phases::{ProfileShape, Reason};
use memtrail_report::format::thousands;

/// A few sentences.
pub fn period(report: &Report) -> Vec<String> {
    let (choice, options) = (&report.found.choice, &report.settings.analysis.choice);
    let base = report.timeline.base;
    let unit = report.settings.unit.word();
    let length = |multiple: usize| thousands(multiple as u64 * base);
    let percentile = options.percentile.percent();
    let mut said = vec![format!(
        "{} {unit} a point ({} x the base period of {}): volatility {:.3} at the {percentile}th percentile.",
        length(choice.multiple),
        thousands(choice.multiple as u64),
        thousands(base),
        choice.volatility,
    )];
    if report.settings.analysis.multiple.is_some() {
        said.push("It was given with --multiple.".to_string());
        return said;
    }
    let threshold = options.threshold;
    let at_base = choice.profile.first().map_or(0.0, |point| point.volatility);
    let profile = match choice.shape {
        ProfileShape::Low => "The volatility profile is low everywhere".to_string(),
        ProfileShape::Falling => format!("The volatility profile falls from {at_base:.3} at the base period"),
        ProfileShape::Oscillating => {
            format!("The volatility profile goes up and down, {at_base:.3} at the base period")
        }
    };
    let reason = match choice.reason {
        Reason::QuietAtBase | Reason::Threshold => format!("and this is the first period at or below {threshold}"),
        Reason::Trough => format!("and this is the shortest period at or below {threshold}, in a trough"),
        Reason::Refined => format!("and this is the shortest period at or below {threshold}, between two of the grid"),
        Reason::Spectrum => format!("and this is the shortest period at or below {threshold}, found by the spectrum"),
        Reason::Least => {
            format!("and never to {threshold}; this is the shortest of the quietest that hide nothing")
        }
    };
    said.push(match choice.reason {
        Reason::QuietAtBase => format!("The base period is quiet enough already: at most {threshold}."),
        _ => format!("{profile}, {reason}."),
    });
    if let Some(refused) = choice.refused {
        said.push(format!(
            "{} {unit} would have {:.3}, but hide changes: a phase that is known lasts only {}.",
            length(refused.multiple),
            refused.volatility,
            choice.coarse.map_or_else(|| "a little longer".to_string(), length),
        ));
    }
    said
}

/// What kind of behaviour it is.
pub fn behaviour(report: &Report) -> String {
    use memtrail_phases::Behaviour::{Complex, None, Simple};
    let kinds = report.active.len();
    match report.found.behaviour {
        None if report.phases.len() == 1 => "no phases: the same all along".to_string(),
        None => "no phases after initialisation".to_string(),
        Simple => format!(
            "simple phases: {} of {kinds} kinds, with sharp boundaries",
            report.phases.len()
        ),
        Complex => format!(
            "complex: {} phases of {kinds} kinds, not well defined",
            report.phases.len()
        ),
    }
}
