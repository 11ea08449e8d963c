//! The options of `phases`.
use crate::args::PartArgs;
use crate::sim::args::{CacheArgs, PcRange};
use crate::tables::args::{bytes, SymbolArgs, TableArgs};
use clap::{Args as ArgGroup, ValueEnum};
use memtrail_phases::cut::Unit;
use memtrail_phases::{ChoiceOptions, Percentile, PhaseOptions};
use std::path::PathBuf;

/// What time is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnitArg {
    Accesses,
    Instructions,
}

impl From<UnitArg> for Unit {
    fn from(unit: UnitArg) -> Unit {
        match unit {
            UnitArg::Accesses => Unit::Accesses,
            UnitArg::Instructions => Unit::Instructions,
        }
    }
}

/// What is looked at over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Followed {
    Misses,
    Accesses,
}

impl Followed {
    pub fn word(self) -> &'static str {
        match self {
            Followed::Misses => "misses",
            Followed::Accesses => "accesses",
        }
    }
}

#[derive(Clone, Debug, ArgGroup)]
pub struct PhasesArgs {
    #[command(flatten)]
    pub caches: CacheArgs,
    /// The level whose misses are looked at [default: the first].
    #[arg(long, value_name = "NAME")]
    pub level: Option<String>,
    /// What is looked at [default: misses; accesses if fewer than one in a thousand misses].
    #[arg(long, value_enum, value_name = "WHAT")]
    pub stream: Option<Followed>,
    /// What time is counted in.
    #[arg(long, value_enum, default_value_t = UnitArg::Accesses)]
    pub unit: UnitArg,
    /// The base period, in that unit; doubled whenever there are too many points [default: such
    /// that there are 2,000 to 4,000 points].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub base: Option<u64>,
    /// Most points that are kept.
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub points: u32,
    /// Look at it with this sampling period, in base periods, instead of choosing one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub multiple: Option<u32>,
    /// Volatility that is low enough for a sampling period.
    #[arg(long, value_name = "V", default_value_t = 0.1)]
    pub volatility: f64,
    /// The percentile of a curve's points whose volatility is the curve's.
    #[arg(long, value_name = "P", default_value = "90", value_parser = percentile)]
    pub percentile: Percentile,
    /// Measure the volatility profile at multiples of this many base periods; what lies between is
    /// found all the same.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub grid: u32,
    /// Print the volatility profile.
    #[arg(long)]
    pub profile: bool,
    /// Write the streams to this file, for plotting: JSON if its name ends so, CSV otherwise.
    #[arg(long, value_name = "FILE")]
    pub curves: Option<PathBuf>,
    /// Most objects, pairs and functions to print [default: 8; with --json all].
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    #[command(flatten)]
    pub part: PartArgs,
    /// Simulate no more than this many accesses.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Only accesses of this function; may be repeated.
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// Only accesses of instructions in this range of addresses, the end excluded; may be repeated.
    #[arg(long = "pc", value_name = "LO-HI")]
    pub pcs: Vec<PcRange>,
    /// A function that only passes on what an allocator gives it: its callers are told apart; may
    /// be repeated.
    #[arg(long = "wrapper", value_name = "NAME")]
    pub wrappers: Vec<String>,
    /// Tell allocations apart by this many calls at most.
    #[arg(long, value_name = "N")]
    pub depth: Option<usize>,
    /// Heap blocks of less than this are not told apart.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "0")]
    pub threshold: u64,
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write what was found to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The recording.
    pub file: PathBuf,
}

impl PhasesArgs {
    /// What a table of the same accesses in the same caches would be asked for.
    pub fn table(&self) -> TableArgs {
        TableArgs {
            top: self.top,
            level: self.level.clone(),
            part: self.part.clone(),
            limit: self.limit,
            functions: self.functions.clone(),
            pcs: self.pcs.clone(),
            wrappers: self.wrappers.clone(),
            depth: self.depth,
            threshold: self.threshold,
            json: self.json,
            output: self.output.clone(),
            ..TableArgs::of(&self.file, &self.caches, &self.symbols)
        }
    }

    pub fn settings(&self) -> Settings {
        Settings {
            unit: self.unit.into(),
            base: self.base.unwrap_or(1),
            points: self.points as usize,
            followed: self.stream,
            analysis: PhaseOptions {
                choice: ChoiceOptions {
                    percentile: self.percentile,
                    threshold: self.volatility,
                    grid: self.grid as usize,
                    ..ChoiceOptions::default()
                },
                multiple: self.multiple.map(|multiple| multiple as usize),
                ..PhaseOptions::default()
            },
        }
    }
}

/// How phases are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub unit: Unit,
    pub base: u64,
    pub points: usize,
    pub followed: Option<Followed>,
    pub analysis: PhaseOptions,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            unit: Unit::Accesses,
            base: 1,
            points: 4000,
            followed: None,
            analysis: PhaseOptions::default(),
        }
    }
}

fn percentile(text: &str) -> Result<Percentile, String> {
    let percent: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
    Percentile::new(percent).map_err(|wrong| wrong.to_string())
}
