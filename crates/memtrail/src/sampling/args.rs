//! The options of `bbv`, `simpoints` and `estimate`.
use crate::sim::args::CacheArgs;
use clap::{Args as ArgGroup, ValueEnum};
use memtrail_sampling::vectors::Features;
use std::path::PathBuf;

/// How a run is cut into intervals.
#[derive(Clone, Debug, ArgGroup)]
pub struct IntervalArgs {
    /// Instructions of an interval; a repeated string instruction is one [default: a 500th of the
    /// run, at least 10,000].
    #[arg(long, value_name = "N")]
    pub interval: Option<u64>,
    /// Only this thread, by its serial number; without it the threads count together, in the order
    /// in which they ran.
    #[arg(long, value_name = "T")]
    pub thread: Option<u32>,
    /// The recording.
    pub file: PathBuf,
}

/// What intervals are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Which code ran.
    Code,
    /// How memory was used.
    Memory,
    Both,
}

impl From<By> for Features {
    fn from(by: By) -> Features {
        match by {
            By::Code => Features::Code,
            By::Memory => Features::Memory,
            By::Both => Features::Both,
        }
    }
}

/// How intervals are clustered.
#[derive(Clone, Debug, ArgGroup)]
pub struct ClusterArgs {
    /// What intervals are compared by.
    #[arg(long, value_enum, default_value_t = By::Both)]
    pub by: By,
    /// Clusters at most.
    #[arg(long, value_name = "K", default_value_t = 30)]
    pub max: usize,
    /// Which of all possible samples is drawn: the seed of what is random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub draw: u64,
}

#[derive(Clone, Debug, ArgGroup)]
pub struct BbvArgs {
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub intervals: IntervalArgs,
}

#[derive(Clone, Debug, ArgGroup)]
pub struct SimpointArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Write PREFIX.simpoints and PREFIX.weights, as the SimPoint tool does.
    #[arg(short, long, value_name = "PREFIX")]
    pub output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub intervals: IntervalArgs,
}

#[derive(Clone, Debug, ArgGroup)]
pub struct EstimateArgs {
    #[command(flatten)]
    pub caches: CacheArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Intervals to simulate; each cluster gets two at least.
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub sample: usize,
    /// Accesses that warm the caches before each interval [default: as many as an interval has].
    #[arg(long, value_name = "N")]
    pub warm: Option<u64>,
    /// Simulate the whole run, too, and say how far off the estimate is.
    #[arg(long)]
    pub exact: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub intervals: IntervalArgs,
}
