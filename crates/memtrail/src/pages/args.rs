//! The options of `pages`.
use crate::args::PartArgs;
use crate::sim::args::CacheArgs;
use crate::tables::args::{bytes, dimension, SymbolArgs, TableArgs};
use clap::Args as ArgGroup;
use memtrail_paging::PageSize;
use memtrail_report::Dimension;
use std::path::PathBuf;

#[derive(Clone, Debug, ArgGroup)]
pub struct PagesArgs {
    /// TLBs: a machine's name, list to see all, or parts; may be repeated: L1=4K:64:4 is 64 entries
    /// for pages of 4K in 4 ways, PDE=32:4 a page-walk cache, levels=5 the depth of page tables
    /// [default: as --preset, if there are TLBs of that name].
    #[arg(long = "tlb", value_name = "NAME|PART")]
    pub tlbs: Vec<String>,
    #[command(flatten)]
    pub caches: CacheArgs,
    /// Data goes through the caches by physical address, of a simulated memory.
    #[arg(long)]
    pub physical: bool,
    /// Cycles of a hit in each level of caches, then of memory: 4,14,50,200.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub latency: Vec<u64>,
    /// Ask for this many objects what huge pages would change, those with the costliest walks first;
    /// each is a simulation of its own.
    #[arg(long = "what-if", value_name = "N", default_value_t = 6)]
    pub what_if: usize,
    /// The size of huge pages.
    #[arg(long, value_name = "SIZE", value_parser = page_size, default_value = "2M")]
    pub page_size: PageSize,
    /// There are no more than this many huge pages to be given out.
    #[arg(long, value_name = "N")]
    pub huge_pages: Option<u64>,
    /// What rows are told apart by besides the object: thread, process, ref, function, line, …
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = dimension)]
    pub by: Vec<Dimension>,
    /// Most rows to print [default: 20; with --json all].
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
    /// A function that only passes on what an allocator gives it: its callers are told apart; may
    /// be repeated.
    #[arg(long = "wrapper", value_name = "NAME")]
    pub wrappers: Vec<String>,
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
    #[arg(required_unless_present = "tlbs")]
    pub file: Option<PathBuf>,
}

fn page_size(text: &str) -> Result<PageSize, String> {
    let size = memtrail_simulate::parse_size(text).and_then(PageSize::of_bytes);
    let larger = size.filter(|&size| size > PageSize::SMALL);
    larger.ok_or_else(|| "a page size is a power of two from 8K to 1G, such as 64K or 2M".to_string())
}

impl PagesArgs {
    /// What rows are told apart by.
    pub fn by(&self) -> Vec<Dimension> {
        match self.by.is_empty() {
            true => vec![Dimension::Object],
            false => self.by.clone(),
        }
    }

    /// As the tables have it.
    pub fn table(&self, file: PathBuf) -> TableArgs {
        TableArgs {
            top: self.top,
            part: self.part.clone(),
            limit: self.limit,
            functions: self.functions.clone(),
            wrappers: self.wrappers.clone(),
            threshold: self.threshold,
            json: self.json,
            output: self.output.clone(),
            ..TableArgs::of(&file, &self.caches, &self.symbols)
        }
    }
}
