//! How a program's behaviour changes over time: streams, volatility, the sampling period, phases.
//!
//! **Problem.** What a program does to its data changes while it runs. How the changes look depends
//! on the period over which counts are added up: too short a period shows noise, too long a one
//! nothing. Agaram, Keckler, Lin and McKinley (ISMM 2006) measure the noise and choose the period
//! by it; this crate does the same, and finds the phases.
//!
//! **The way.** A [`sampler::Sampler`] asks a simulation for its counts after each base period, and
//! [`gather::Gather`] keeps them by key, in bounded memory. One key's counts are a [`Stream`], and its sums over `m` base periods the *curve* at multiple `m`.
//! [`volatility`] measures how much a curve changes from point to point; [`choose`] picks the
//! multiple, with the help of the stream's [`spectrum`]; [`segments`] finds where the vector of all
//! streams changes; [`phases`] tells which parts of the run are alike, what leads them, and what
//! kind of behaviour that is. [`code`] does the same to what was executed, to compare.
//!
//! **Not for** recordings, names, printing: numbers in, numbers out.
#![forbid(unsafe_code)]

pub mod choose;
pub mod code;
pub mod cut;
pub mod gather;
pub mod phases;
pub mod sampler;
pub mod segments;
pub mod spectrum;
pub mod volatility;

pub use choose::{choose, ChoiceOptions, PeriodChoice, ProfileShape, Reason};
pub use phases::{analyse, Behaviour, Inversion, Pair, PhaseOptions, PhaseSpan, PhasesFound};
pub use volatility::{Percentile, WrongPercentile};

/// Counts of one key at each base period, all of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    pub counts: Vec<u64>,
}

impl Stream {
    pub fn new(counts: Vec<u64>) -> Stream {
        Stream { counts }
    }

    /// The stream at `multiple` base periods a point; what is left over at the end is no point.
    pub fn curve(&self, multiple: usize) -> Vec<u64> {
        let whole = self.counts.chunks_exact(multiple.max(1));
        whole.map(|chunk| chunk.iter().sum()).collect()
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}
