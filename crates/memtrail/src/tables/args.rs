//! The options of `refs`, `evictors`, `objects`, `lines` and `competition`.
use crate::args::PartArgs;
use crate::sim::args::{CacheArgs, Charge, PcRange};
use clap::{Args as ArgGroup, ValueEnum};
use memtrail_simulate::parse_size;
use std::path::PathBuf;

/// What rows are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum By {
    /// An instruction's reads, or its writes.
    Ref,
    /// The calls that led there.
    Callpath,
    /// The data: a variable, or blocks allocated by the same calls.
    Object,
    /// A line of source.
    Line,
    Function,
    /// The innermost loop around.
    Loop,
    /// A program or library.
    Module,
    Thread,
    Process,
}

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    Misses,
    Accesses,
    Reads,
    Writes,
    Hits,
    MissRatio,
    Evictions,
    Writebacks,
    /// In the order of the code, or of names.
    Name,
}

#[derive(Clone, Debug, ArgGroup)]
pub struct TableArgs {
    #[command(flatten)]
    pub caches: CacheArgs,
    /// What rows are told apart by, in this order: ref, callpath, object, line, function, loop, module, thread, process.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub by: Vec<By>,
    /// What comes first.
    #[arg(long, value_enum, default_value_t = Sort::Misses)]
    pub sort: Sort,
    /// Most rows to print [default: 20; with --json all].
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// The level that sorting and the table are about [default: the first].
    #[arg(long, value_name = "NAME")]
    pub level: Option<String>,
    /// Write back at the end what is dirty then.
    #[arg(long)]
    pub flush: bool,
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
    /// A function that only passes on what an allocator gives it: its callers are told apart; may be repeated.
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

/// The options of `evictors`.
#[derive(Clone, Debug, ArgGroup)]
pub struct EvictorArgs {
    /// To whom an eviction is charged; `all` counts by reference only.
    #[arg(long, value_enum, value_name = "TO", default_value_t = Charge::Owner)]
    pub charge: Charge,
    #[command(flatten)]
    pub table: TableArgs,
}

/// Where names come from.
#[derive(Clone, Debug, Default, ArgGroup)]
pub struct SymbolArgs {
    /// Look for programs, libraries and sources under this directory.
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Look for debug information here, too; may be repeated.
    #[arg(long = "debug-dir", value_name = "DIR")]
    pub debug_dirs: Vec<PathBuf>,
    /// Take names from files that are not the ones that were recorded.
    #[arg(long)]
    pub force: bool,
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "not a size such as 4096, 4K or 1M".to_string())
}
