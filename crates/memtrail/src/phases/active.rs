//! What is active in each kind of phase: functions and loops, by their accesses.
use super::Report;
use crate::tables::run::Sampled;
use crate::tables::scopes;
use memtrail_phases::sampler::CODE;
use std::collections::HashMap;

/// Of one kind of phase.
#[derive(Clone, Debug, Default)]
pub struct Active {
    pub accesses: u64,
    /// Names and accesses, most first.
    pub functions: Vec<(String, u64)>,
    pub loops: Vec<(String, u64)>,
}

/// By id of a phase, less 1. A base period belongs to the phase that it begins in.
pub fn by_id(report: &Report, sampled: &Sampled) -> Vec<Active> {
    let kinds = report.phases.iter().map(|phase| phase.id).max().unwrap_or(0);
    let mut by_unit: Vec<HashMap<u32, u64>> = vec![HashMap::new(); kinds as usize];
    let mut phase = 0;
    let samples = sampled.gather.samples(CODE).iter().chain(sampled.gather.tail(CODE));
    for (number, sample) in samples.enumerate() {
        let at = number as u64 * report.timeline.base;
        while phase + 1 < report.phases.len() && report.phases[phase].to <= at {
            phase += 1;
        }
        let own = &mut by_unit[report.phases[phase].id as usize - 1];
        for (unit, counts) in sample.rows() {
            *own.entry(unit).or_default() += counts[0];
        }
    }
    by_unit.into_iter().map(|units| named(report, sampled, units)).collect()
}

fn named(report: &Report, sampled: &Sampled, units: HashMap<u32, u64>) -> Active {
    let (mut functions, mut loops) = (HashMap::new(), HashMap::new());
    let mut accesses = 0;
    for (unit, count) in units {
        let code = sampled.code.get(unit as usize).copied().unwrap_or(0);
        let function = report.measured.names.code(code).function_or_address();
        *functions.entry(function).or_default() += count;
        if let Some(number) = report.measured.scopes.innermost(code) {
            *loops.entry(number).or_default() += count;
        }
        accesses += count;
    }
    let called = |(number, count): (u32, u64)| (scopes::named(&report.measured, number).to_string(), count);
    Active {
        accesses,
        functions: most_first(functions.into_iter().collect()),
        loops: most_first(loops.into_iter().map(called).collect()),
    }
}

fn most_first(mut all: Vec<(String, u64)>) -> Vec<(String, u64)> {
    all.retain(|(_, count)| *count > 0);
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}
