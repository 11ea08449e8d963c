//! The options of `memtrace`.
use crate::args::PartArgs;
use crate::sim::args::CacheArgs;
use crate::tables::args::{bytes, SymbolArgs, TableArgs};
use clap::{Args as ArgGroup, ValueEnum};
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// A line for each request, the objects before them.
    Text,
    /// Records of 48 bytes.
    Binary,
    /// Three files in a directory, as a bus snooper and a kernel would write them.
    Snoop,
}

#[derive(Clone, Debug, ArgGroup)]
pub struct MemtraceArgs {
    /// TLBs: a machine's name, or parts, as for pages.
    #[arg(long = "tlb", value_name = "NAME|PART")]
    pub tlbs: Vec<String>,
    #[command(flatten)]
    pub caches: CacheArgs,
    /// How requests are written.
    #[arg(long, value_enum, default_value_t = TraceFormat::Text)]
    pub format: TraceFormat,
    /// Leave in the caches what is dirty at the end.
    #[arg(long)]
    pub no_flush: bool,
    /// Print no requests, but what each object asked of memory, and when, as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub part: PartArgs,
    /// Simulate no more than this many accesses.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Only accesses of this function; may be repeated.
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// A function that only passes on what an allocator gives it: its callers are told apart; may
    /// be repeated.
    #[arg(long = "wrapper", value_name = "NAME")]
    pub wrappers: Vec<String>,
    /// Heap blocks of less than this are not told apart.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "0")]
    pub threshold: u64,
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// Write to this file, or directory for snoop, instead of standard output.
    #[arg(short, long, value_name = "FILE", required_if_eq_any = [("format", "binary"), ("format", "snoop")])]
    pub output: Option<PathBuf>,
    /// The recording.
    pub file: PathBuf,
}

/// The options of `snooped`.
#[derive(Clone, Debug, ArgGroup)]
pub struct SnoopedArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The directory with memory.txt, tables.txt and objects.txt.
    pub directory: PathBuf,
}

impl MemtraceArgs {
    /// As the tables have it.
    pub fn table(&self) -> TableArgs {
        TableArgs {
            part: self.part.clone(),
            limit: self.limit,
            functions: self.functions.clone(),
            wrappers: self.wrappers.clone(),
            threshold: self.threshold,
            json: self.json,
            output: self.output.clone(),
            ..TableArgs::of(&self.file, &self.caches, &self.symbols)
        }
    }
}
