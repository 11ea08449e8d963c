//! The options of `stalls`.
use crate::args::PartArgs;
use crate::sim::args::CacheArgs;
use crate::tables::args::{bytes, dimension, SymbolArgs, TableArgs};
use clap::Args as ArgGroup;
use memtrail_report::Dimension;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, ArgGroup)]
pub struct StallArgs {
    /// The core: a name, the file of a description, host for what `memtrail calibrate` measured, or
    /// list to see all [default: host if that was measured, else golden-cove].
    #[arg(long, value_name = "CORE")]
    pub core: Option<String>,
    /// What rows are told apart by: object, ref, callpath, line, function, loop, module, thread,
    /// process [default: object].
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = dimension)]
    pub by: Vec<Dimension>,
    /// How fast it would be if misses of this object took a single cycle; may be repeated: all of
    /// them together.
    #[arg(long, value_name = "OBJECT")]
    pub ideal: Vec<String>,
    /// The same for the object with most stall cycles, the first two, and so on to K, and for all.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=50))]
    pub ideal_top: Option<u64>,
    /// Most rows to print [default: 20; with --json all].
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    #[command(flatten)]
    pub part: PartArgs,
    /// Replay no more than this many accesses.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
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
    #[arg(required_unless_present = "core")]
    pub file: Option<PathBuf>,
}

impl StallArgs {
    /// The same as options of a table.
    pub fn table(&self) -> TableArgs {
        let caches = CacheArgs {
            instructions: true,
            ..CacheArgs::default()
        };
        TableArgs {
            by: self.by.clone(),
            top: self.top,
            part: self.part.clone(),
            limit: self.limit,
            wrappers: self.wrappers.clone(),
            depth: self.depth,
            threshold: self.threshold,
            json: self.json,
            output: self.output.clone(),
            ..TableArgs::of(self.file.as_deref().unwrap_or(Path::new("")), &caches, &self.symbols)
        }
    }
}
