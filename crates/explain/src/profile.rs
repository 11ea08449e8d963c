//! The counts of a run as profilers read them: callgrind, collapsed stacks, pprof.
//!
//! A profile is samples: a stack of calls, the outermost first, and numbers. Here a sample is all
//! accesses of a reference under a call path; the numbers are reads, writes and the misses of each
//! level. All three formats add up to the same totals.
mod callgrind;
mod collapsed;
mod pprof;

pub use callgrind::callgrind;
pub use collapsed::collapsed;
pub use pprof::pprof;

use crate::names::{named_rows, words_of};
use memtrail_report::{Dimension, Entry, ResultSet};
use std::collections::BTreeMap;

/// A function in a stack, and the line that it was at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackFrame {
    pub function: String,
    /// Empty if it is not known.
    pub file: String,
    /// 0 if it is not known.
    pub line: u32,
    pub module: String,
}

/// What a reference did under a call path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The outermost first; the last one is where the access was made.
    pub stack: Vec<StackFrame>,
    /// `B[k][j]`.
    pub words: String,
    pub object: Option<String>,
    pub thread: Option<u32>,
    /// As many as there are events.
    pub values: Vec<u64>,
}

/// All samples of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub command: String,
    /// What is counted: `Reads`, `Writes`, `L1_misses`.
    pub events: Vec<String>,
    pub samples: Vec<Sample>,
}

/// Results without references cannot be made a profile of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these results are not by reference and call path: give the recording, or save them with --by ref,callpath")]
pub struct NotAProfile;

/// A call as a path has it, `main (a.c:3)` or `main (prog+0x1150)`, at a site `prog+0x1150`.
fn frame_of(call: &str, site: &str) -> StackFrame {
    let module = site.rsplit_once('+').map_or("", |(module, _)| module).to_string();
    let place = call.strip_suffix(')').and_then(|call| call.rsplit_once(" ("));
    let (function, place) = place.unwrap_or((call, ""));
    let (file, line) = match place.rsplit_once(':') {
        Some((file, line)) => (file.to_string(), line.parse().unwrap_or(0)),
        None => (String::new(), 0),
    };
    StackFrame {
        function: function.to_string(),
        file,
        line,
        module,
    }
}

impl Profile {
    pub fn of(set: &ResultSet) -> Result<Profile, NotAProfile> {
        if !set.dimensions.contains(&Dimension::Ref) || !set.dimensions.contains(&Dimension::Callpath) {
            return Err(NotAProfile);
        }
        let mut events = vec!["Reads".to_string(), "Writes".to_string()];
        events.extend(
            set.run
                .hierarchy
                .levels
                .iter()
                .map(|level| format!("{}_misses", level.name)),
        );
        let mut samples = Vec::new();
        for (named, row) in named_rows(set) {
            let (Some(reference), Some(path)) = (named.reference(), named.path()) else {
                continue;
            };
            let mut stack: Vec<StackFrame> = path
                .calls
                .iter()
                .zip(&path.sites)
                .map(|(c, s)| frame_of(c, s))
                .collect();
            stack.push(StackFrame {
                function: reference.function.clone().unwrap_or_else(|| reference.address()),
                file: reference.file.clone().unwrap_or_default(),
                line: reference.line.unwrap_or(0),
                module: reference.module.clone().unwrap_or_default(),
            });
            let mut values = vec![row.reads, row.writes];
            values.extend(row.levels.iter().map(|counts| counts.misses));
            samples.push(Sample {
                stack,
                words: words_of(reference),
                object: named.object().map(|object| object.name.clone()),
                thread: named.entry(Dimension::Thread).and_then(|entry| match entry {
                    Entry::Thread(number) => Some(*number),
                    _ => None,
                }),
                values,
            });
        }
        // Calls know a file by its name alone, accesses by its path: one function has one file.
        let mut files: BTreeMap<(String, String), String> = BTreeMap::new();
        for frame in samples.iter().filter_map(|sample| sample.stack.last()) {
            let key = (frame.module.clone(), frame.function.clone());
            files.entry(key).or_insert_with(|| frame.file.clone());
        }
        for frame in samples.iter_mut().flat_map(|sample| &mut sample.stack) {
            if let Some(file) = files.get(&(frame.module.clone(), frame.function.clone())) {
                frame.file.clone_from(file);
            }
        }
        let source = set.run.sources.first();
        Ok(Profile {
            command: source.map(|source| source.command.join(" ")).unwrap_or_default(),
            events,
            samples,
        })
    }

    /// Of each event.
    pub fn totals(&self) -> Vec<u64> {
        let mut totals = vec![0; self.events.len()];
        for sample in &self.samples {
            totals.iter_mut().zip(&sample.values).for_each(|(sum, n)| *sum += n);
        }
        totals
    }
}

/// A name on one line: what would end it, or a field in it, is replaced.
fn one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
