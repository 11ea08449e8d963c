//! The options of `sharing`.
use crate::args::{PartArgs, Place, ThreadOrder};
use crate::sim::args::CacheArgs;
use crate::tables::args::SymbolArgs;
use clap::{Args as ArgGroup, ValueEnum};
use memtrail_coherence::Protocol;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtocolName {
    Mesi,
    Moesi,
}

impl From<ProtocolName> for Protocol {
    fn from(name: ProtocolName) -> Protocol {
        match name {
            ProtocolName::Mesi => Protocol::Mesi,
            ProtocolName::Moesi => Protocol::Moesi,
        }
    }
}

#[derive(Clone, Debug, ArgGroup)]
pub struct SharingArgs {
    #[command(flatten)]
    pub caches: CacheArgs,
    /// How private caches are kept coherent.
    #[arg(long, value_enum, default_value_t = ProtocolName::Mesi)]
    pub protocol: ProtocolName,
    /// Most lines to print [default: 10; with --json all].
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Leave lines out that were missed less often than this [default: once in 20,000 accesses].
    #[arg(long, value_name = "N")]
    pub min: Option<u64>,
    /// Only count: neither other orders of the threads, nor what padding saves, nor other lines.
    #[arg(long)]
    pub quick: bool,
    /// Which order of the threads the counts are of: as if all ran side by side, held up only where
    /// they wait for each other, or by recorded time. The other one is counted as well.
    #[arg(long, value_enum, default_value_t = ThreadOrder::Equal)]
    pub order: ThreadOrder,
    /// Begin here: a time since the recording began (10us, 250ms, 1.5s).
    #[arg(long, value_name = "POINT")]
    pub from: Option<Place>,
    /// End before this time.
    #[arg(long, value_name = "POINT")]
    pub to: Option<Place>,
    /// A function that only passes on what an allocator gives it: its callers are told apart; may
    /// be repeated.
    #[arg(long = "wrapper", value_name = "NAME")]
    pub wrappers: Vec<String>,
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

impl SharingArgs {
    pub fn part(&self) -> PartArgs {
        PartArgs {
            thread: None,
            rank: None,
            from: self.from,
            to: self.to,
            order: self.order,
        }
    }
}
