//! What was counted over time, by objects with names.
//!
//! Programs have thousands of objects, and most of them hardly matter. *Followed* are those that
//! have a hundredth of what is looked at, or lead in a hundredth of the base periods, up to
//! [`MOST`]; all others together are the rest, which counts for changes but neither leads nor is
//! correlated with anything.
use super::args::Followed;
use crate::tables::objects;
use crate::tables::run::{Measured, Sampled};
use memtrail_phases::sampler::OBJECTS;
use memtrail_phases::Stream;
use memtrail_report::{object_names, Entry};
use std::collections::HashMap;

/// Most objects that are followed.
const MOST: usize = 24;

/// An object, or all that are not followed.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    /// By level.
    pub accesses: Vec<Stream>,
    pub misses: Vec<Stream>,
    /// By level, with what came after the last whole base period.
    pub total_accesses: Vec<u64>,
    pub total_misses: Vec<u64>,
}

impl Line {
    fn new(name: String, levels: usize, points: usize) -> Line {
        let streams = vec![Stream::new(vec![0; points]); levels];
        Line {
            name,
            accesses: streams.clone(),
            misses: streams,
            total_accesses: vec![0; levels],
            total_misses: vec![0; levels],
        }
    }

    /// Adds counts at a point, or behind the last.
    fn add(&mut self, point: Option<usize>, counts: &[u64]) {
        for (level, pair) in counts.chunks_exact(2).enumerate() {
            self.total_accesses[level] += pair[0];
            self.total_misses[level] += pair[1];
            if let Some(point) = point {
                self.accesses[level].counts[point] += pair[0];
                self.misses[level].counts[point] += pair[1];
            }
        }
    }

    pub fn stream(&self, followed: Followed, level: usize) -> &Stream {
        match followed {
            Followed::Misses => &self.misses[level],
            Followed::Accesses => &self.accesses[level],
        }
    }
}

/// All lines of a run.
pub struct Timeline {
    pub base: u64,
    pub total: u64,
    pub points: usize,
    pub level: usize,
    pub followed: Followed,
    /// What is looked at most first; the rest, if there is any, behind the last.
    pub lines: Vec<Line>,
    /// How many of them are objects.
    pub named: usize,
}

impl Timeline {
    pub fn new(measured: &Measured, sampled: &Sampled, asked: Option<Followed>) -> Timeline {
        let gather = &sampled.gather;
        let (number_of, mut names) = named(measured, sampled);
        let (level, levels) = (sampled.level, measured.hierarchy.levels.len());
        let samples = gather.samples(OBJECTS);
        let parts = || {
            let whole = samples.iter().enumerate().map(|(at, sample)| (Some(at), sample));
            whole.chain(gather.tail(OBJECTS).map(|tail| (None, tail)))
        };
        let mut sums = vec![(0u64, 0u64); names.len()];
        for (group, counts) in parts().flat_map(|(_, sample)| sample.rows()) {
            let sum = &mut sums[number_of[&group]];
            sum.0 += counts[2 * level];
            sum.1 += counts[2 * level + 1];
        }
        let (accesses, misses) = sums.iter().fold((0, 0), |all, sum| (all.0 + sum.0, all.1 + sum.1));
        let followed = asked.unwrap_or(match misses.saturating_mul(1000) < accesses {
            true => Followed::Accesses,
            false => Followed::Misses,
        });
        let at = |counts: &[u64]| match followed {
            Followed::Accesses => counts[2 * level],
            Followed::Misses => counts[2 * level + 1],
        };
        let sums: Vec<u64> = (sums.iter())
            .map(|&(accesses, misses)| {
                if followed == Followed::Accesses {
                    accesses
                } else {
                    misses
                }
            })
            .collect();
        let mut leads = vec![0usize; names.len()];
        for sample in samples {
            let mut here: HashMap<usize, u64> = HashMap::new();
            for (group, counts) in sample.rows() {
                *here.entry(number_of[&group]).or_default() += at(counts);
            }
            let most = here
                .into_iter()
                .filter(|&(_, sum)| sum > 0)
                .max_by_key(|&(n, sum)| (sum, usize::MAX - n));
            most.into_iter().for_each(|(number, _)| leads[number] += 1);
        }
        let matters =
            |&n: &usize| sums[n] > 0 && (100 * sums[n] >= sums.iter().sum() || 100 * leads[n] >= samples.len());
        let mut chosen: Vec<usize> = (0..names.len()).filter(matters).collect();
        chosen.sort_by_key(|&n| (u64::MAX - sums[n], n));
        chosen.truncate(MOST);
        let line_of: HashMap<usize, usize> = chosen.iter().enumerate().map(|(line, &n)| (n, line)).collect();
        let line = |name| Line::new(name, levels, samples.len());
        let mut lines: Vec<Line> = chosen.iter().map(|&n| line(std::mem::take(&mut names[n]))).collect();
        let rest = lines.len();
        lines.push(line("[all others]".to_string()));
        for (point, sample) in parts() {
            for (group, counts) in sample.rows() {
                let line = line_of.get(&number_of[&group]).copied().unwrap_or(rest);
                lines[line].add(point, counts);
            }
        }
        if lines[rest].total_accesses.iter().all(|&n| n == 0) {
            lines.pop();
        }
        Timeline {
            base: gather.period(),
            total: gather.total(),
            points: samples.len(),
            level,
            followed,
            lines,
            named: rest,
        }
    }

    pub fn streams(&self) -> Vec<&Stream> {
        self.lines
            .iter()
            .map(|line| line.stream(self.followed, self.level))
            .collect()
    }
}

/// By group: the number of the object; and by number its name. Groups that have all in common that
/// a name is made of are one object.
fn named(measured: &Measured, sampled: &Sampled) -> (HashMap<u32, usize>, Vec<String>) {
    let gather = &sampled.gather;
    let busy = objects::busy_calls(measured);
    let (mut entries, mut number_of) = (Vec::new(), HashMap::new());
    let mut known = HashMap::new();
    let samples = gather.samples(OBJECTS).iter().chain(gather.tail(OBJECTS));
    for (group, _) in samples.flat_map(|sample| sample.rows()) {
        number_of.entry(group).or_insert_with(|| {
            let entry = Entry::Object(Box::new(objects::named(measured, group, &busy)));
            *known.entry(entry.key()).or_insert_with(|| {
                entries.push(entry);
                entries.len() - 1
            })
        });
    }
    let names = object_names(&entries);
    (number_of, names)
}
