//! The options of `refs`, `evictors`, `objects`, `lines` and `competition`.
use crate::args::PartArgs;
use crate::sim::args::{CacheArgs, Charge, PcRange};
use anyhow::bail;
use clap::{Args as ArgGroup, FromArgMatches, ValueEnum};
use memtrail_report::{Dimension, Sort};
use memtrail_simulate::parse_size;
use memtrail_symbols::Options;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    Misses,
    Accesses,
    Reads,
    Writes,
    Hits,
    MissRatio,
    Evictions,
    Writebacks,
    /// In the order of the code, or of names.
    #[value(alias = "address")]
    Name,
}

impl From<SortBy> for Sort {
    fn from(by: SortBy) -> Sort {
        match by {
            SortBy::Misses => Sort::Misses,
            SortBy::Accesses => Sort::Accesses,
            SortBy::Reads => Sort::Reads,
            SortBy::Writes => Sort::Writes,
            SortBy::Hits => Sort::Hits,
            SortBy::MissRatio => Sort::MissRatio,
            SortBy::Evictions => Sort::Evictions,
            SortBy::Writebacks => Sort::Writebacks,
            SortBy::Name => Sort::Name,
        }
    }
}

#[derive(Clone, Debug, ArgGroup)]
pub struct TableArgs {
    #[command(flatten)]
    pub caches: CacheArgs,
    /// What rows are told apart by, in this order: ref, callpath, object, line, function, loop,
    /// module, thread, process, rank, phase.
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = dimension)]
    pub by: Vec<Dimension>,
    /// What comes first.
    #[arg(long, value_enum, default_value_t = SortBy::Misses)]
    pub sort: SortBy,
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
    /// Count only what happens in this kind of phase, by the number that memtrail phases gives it;
    /// caches see all of the run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub phase: Option<u32>,
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
    /// Also what libraries and start-up code do, one by one.
    #[arg(long)]
    pub all: bool,
    /// Do not cut names and columns to fit the terminal.
    #[arg(long)]
    pub wide: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write what was found to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep what was found in this file: any table with the same counts can be made of it.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Run a command, given behind `--`, and keep no recording of it.
    #[arg(long, conflicts_with = "file")]
    pub live: bool,
    /// The recording, or what was saved.
    #[arg(required_unless_present = "live")]
    pub file: Option<PathBuf>,
    /// The command, with --live.
    #[arg(last = true, value_name = "COMMAND", requires = "live")]
    pub command: Vec<OsString>,
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

impl TableArgs {
    /// The defaults, for a file.
    pub fn of(file: &Path, caches: &CacheArgs, symbols: &SymbolArgs) -> TableArgs {
        let parser = TableArgs::augment_args(clap::Command::new("refs").no_binary_name(true));
        let matches = parser.get_matches_from(["-"]);
        let mut args = TableArgs::from_arg_matches(&matches).expect("it has just been parsed");
        args.caches = caches.clone();
        args.symbols = symbols.clone();
        args.file = Some(file.to_path_buf());
        args
    }

    /// What the table is made of; nothing as long as a command is still to be run.
    pub fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(""))
    }

    /// The options that say what is counted, and how objects are told apart.
    pub fn selection(&self) -> BTreeSet<String> {
        let mut given = self.part.given(self.limit, &self.pcs, self.flush);
        given.extend(self.functions.iter().map(|name| format!("--function {name}")));
        given.extend(self.phase.map(|phase| format!("--phase {phase}")));
        given.extend(self.wrappers.iter().map(|name| format!("--wrapper {name}")));
        given.extend(self.depth.map(|depth| format!("--depth {depth}")));
        given.extend((self.threshold > 0).then(|| format!("--threshold {}", self.threshold)));
        given
    }

    /// Saved results are what they are.
    pub fn refuse_for_saved(&self) -> anyhow::Result<()> {
        refuse_for_saved(self.file(), &self.caches, &self.selection())
    }
}

/// Options about what is simulated need the recording.
pub fn refuse_for_saved(file: &Path, caches: &CacheArgs, selection: &BTreeSet<String>) -> anyhow::Result<()> {
    let caches = caches.to_string();
    let mut given: Vec<&str> = selection.iter().map(String::as_str).collect();
    given.extend(Some(caches.trim()).filter(|caches| !caches.is_empty()));
    if !given.is_empty() {
        let (file, given) = (file.display(), given.join(" "));
        bail!("{file}: these are saved results, of what was simulated then; {given} needs the recording");
    }
    Ok(())
}

/// What rows can be told apart by.
pub fn dimension(text: &str) -> Result<Dimension, String> {
    const OFFERED: [Dimension; 11] = [
        Dimension::Ref,
        Dimension::Callpath,
        Dimension::Object,
        Dimension::Line,
        Dimension::Function,
        Dimension::Loop,
        Dimension::Module,
        Dimension::Thread,
        Dimension::Process,
        Dimension::Rank,
        Dimension::Phase,
    ];
    let found = OFFERED.into_iter().find(|dimension| dimension.word() == text);
    found.ok_or_else(|| format!("there are {}", OFFERED.map(Dimension::word).join(", ")))
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

impl SymbolArgs {
    pub fn options(&self) -> Options {
        Options {
            sysroot: self.sysroot.clone(),
            debug_dirs: self.debug_dirs.clone(),
            force: self.force,
        }
    }
}

pub fn bytes(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "not a size such as 4096, 4K or 1M".to_string())
}
