//! The command line.
use crate::calibrate::CalibrateArgs;
use crate::sampling::args::{BbvArgs, EstimateArgs, SimpointArgs};
use crate::sim::args::{PcRange, SimArgs};
use crate::stalls::args::StallArgs;
use crate::tables::args::{EvictorArgs, TableArgs};
use crate::whatif::args::{AdviseArgs, WhatifArgs};
use clap::{Args as ArgGroup, FromArgMatches, Parser, Subcommand, ValueEnum};
use memtrail_collect::Allocators;
use memtrail_replay::Order;
use memtrail_ring::Paths;
use memtrail_trace::Limits;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Records every memory access of unmodified x86-64 Linux programs.
#[derive(Debug, Parser)]
#[command(
    name = "memtrail",
    version,
    about,
    arg_required_else_help = true,
    after_help = "Exit status: that of the recorded command (128 + N after signal N); 125 if memtrail fails, 126 if the \
        command cannot be executed, 127 if it is not found.\n\nTry: memtrail demo"
)]
pub struct Args {
    #[command(subcommand)]
    pub task: Option<Task>,
    /// Record this command and print a short summary.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Run a program and record every access to memory it makes.
    #[command(
        after_help = "Examples:\n  memtrail record -- ls -l\n  memtrail record -o ls.mtr -f -- ls -l\n  \
        memtrail record --discard --summary times.json -- ls -l"
    )]
    Record(RecordArgs),
    /// Record a process that is running already, for a while, and let it go as it was.
    #[command(after_help = "Examples:\n  memtrail attach --seconds 2 1234\n  \
        memtrail attach --accesses 1000000 -o server.mtr 1234\n\n\
        Without a limit it ends at ^C, or with the process. Needs the right to trace the process: \
        the same user, or root.")]
    Attach(AttachArgs),
    /// What a recording holds.
    Info(InfoArgs),
    /// Print accesses, one a line: thread, instruction, R/W/P, address, size.
    #[command(after_help = "Examples:\n  memtrail dump --limit 20 a.mtr\n  \
        memtrail dump --thread 0 --from 1000000 --to 1000100 a.mtr\n  \
        memtrail dump --from 250ms --to 251ms --order equal a.mtr\n  \
        memtrail dump --descriptors --limit 100 a.mtr\n  memtrail dump --tree a.mtr")]
    Dump(DumpArgs),
    /// Simulate caches: hits and misses of every instruction.
    #[command(after_help = "Examples:\n  memtrail sim a.mtr\n  \
        memtrail sim --cache L1=32K:64:8 --cache L2=1M:64:16:plru --evictors a.mtr\n  \
        memtrail sim --preset zen3 --instructions --json a.mtr\n  \
        memtrail sim --preset list\n  memtrail sim --config caches.toml --live -- ls -l")]
    Sim(Box<SimArgs>),
    /// Which reference in the source misses: hits, misses and use of each.
    #[command(after_help = "Examples:\n  memtrail refs --preset r12000 mm.mtr\n  \
        memtrail refs --function kernel --limit 1000000 mm.mtr\n  memtrail refs --by loop --json mm.mtr")]
    Refs(Box<TableArgs>),
    /// Which reference evicts whose lines.
    #[command(
        after_help = "Examples:\n  memtrail evictors --preset r12000 --function kernel mm.mtr\n  \
        memtrail evictors --by object mm.mtr\n  memtrail evictors --charge all mm.mtr"
    )]
    Evictors(Box<EvictorArgs>),
    /// Which data misses: variables, heap blocks by who allocated them, stacks, mapped files.
    #[command(
        after_help = "Examples:\n  memtrail objects a.mtr\n  memtrail objects --by object,function --top 50 a.mtr\n  \
        memtrail objects --wrapper my_new --threshold 4K --json a.mtr"
    )]
    Objects(Box<TableArgs>),
    /// The source, with what each line did beside it.
    Lines(Box<TableArgs>),
    /// Which data takes the cache away from which: evictions of what is missed again.
    Competition(Box<TableArgs>),
    /// The run with one thing changed: data elsewhere, loops in another order.
    #[command(after_help = "Examples:\n  memtrail whatif --split nodes:key,next a.mtr\n  \
        memtrail whatif --pad B:64 --pad C:64 a.mtr\n  memtrail whatif --interchange mm.c:9 mm.mtr\n  \
        memtrail whatif --tile mm.c:9:32 --json mm.mtr")]
    Whatif(Box<WhatifArgs>),
    /// Changes to the program that would save misses, tried on the recording.
    #[command(after_help = "Examples:\n  memtrail advise a.mtr\n  memtrail advise --level L2 --least 1 --json a.mtr")]
    Advise(Box<AdviseArgs>),
    /// Basic-block vectors of a recording, in the text form of the SimPoint tool.
    Bbv(BbvArgs),
    /// Which intervals of a run stand for all of it, with their weights.
    Simpoints(SimpointArgs),
    /// Misses of a run from a few of its intervals, with a confidence interval.
    #[command(
        after_help = "Examples:\n  memtrail estimate a.mtr\n  memtrail estimate --sample 100 --exact --preset zen3 a.mtr"
    )]
    Estimate(Box<EstimateArgs>),
    /// What the program waits for: cycles of an out-of-order core, charged to data.
    #[command(after_help = "Examples:\n  memtrail stalls a.mtr\n  \
        memtrail stalls --core alpha21264 --by object,ref a.mtr\n  \
        memtrail stalls --ideal nodes a.mtr\n  memtrail stalls --ideal-top 5 a.mtr\n  memtrail stalls --core list")]
    Stalls(Box<StallArgs>),
    /// Measure this machine's latencies and parallelism, for `stalls --core host`.
    #[command(after_help = "Examples:\n  memtrail calibrate\n  memtrail calibrate -o core.toml")]
    Calibrate(CalibrateArgs),
    /// Verify a recording: checksums, every record, the totals.
    #[command(after_help = "Examples:\n  memtrail check a.mtr\n  memtrail check --deep a.mtr")]
    Check(CheckArgs),
    /// Make a recording of another tool's trace.
    #[command(
        after_help = "Examples:\n  valgrind --tool=lackey --trace-mem=yes --log-file=ls.lackey ls\n  \
        memtrail import -o ls.mtr ls.lackey\n  \
        zcat trace.din.gz | memtrail import --format din --size 8 -o trace.mtr -\n  \
        memtrail import -o app.mtr drmemtrace.app.4711.dir/trace\n\n\
        Without --format the first input tells. Each further input of lackey or din is a further thread."
    )]
    Import(ImportArgs),
    /// Write a recording in the format of another tool.
    #[command(after_help = "Examples:\n  memtrail export --format lackey ls.mtr | head\n  \
        memtrail export --format din --fetches -o ls.din ls.mtr\n  \
        memtrail export --format drmemtrace -o ls.dir ls.mtr\n  \
        memtrail export --format raw ls.mtr | xz -6 | wc -c\n\n\
        All formats but drmemtrace hold one stream: all threads in the order of dump, unless --thread picks one. With \
        instructions (lackey, din --fetches) threads follow each other in long stretches.")]
    Export(ExportArgs),
    /// Pipe a recording into a command, in the format of another tool.
    #[command(
        after_help = "Examples:\n  memtrail replay --to 'sort | uniq -c' --format din ls.mtr\n  \
        memtrail replay --to ./my-simulator --format lackey --thread 0 --begin 1000000 --end 2000000 ls.mtr\n\n\
        Exit status: that of the command."
    )]
    Replay(ReplayArgs),
    /// Can this machine record? If not, why, and what to do.
    Doctor(DoctorArgs),
    /// Count a program's memory instructions and the probes they need.
    Points(PointsArgs),
    /// Measure what recording a command costs.
    Overhead(OverheadArgs),
    /// Record a small bundled example and show what to do with it.
    Demo(DemoArgs),
    /// The bundled example itself.
    #[command(name = "__demo", hide = true)]
    DemoKernel,
}

const DEFAULT_MEMORY: u32 = (Limits::DEFAULT_BYTES >> 20) as u32;
const LEAST_MEMORY: i64 = (Limits::LEAST_BYTES >> 20) as i64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProbeMode {
    /// No probes: translate only.
    None,
    /// One captured address per access.
    Naive,
    /// One record per block.
    Block,
    /// As block, and one record per entry of a regular loop.
    Loop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PathMode {
    /// Never.
    Off,
    /// Where the program spends its time.
    Hot,
    /// Wherever two follow each other.
    Eager,
}

/// Which functions are watched to know what is allocated.
#[derive(Clone, Debug, Default, ArgGroup)]
pub struct ObjectArgs {
    /// Do not note what is allocated and freed.
    #[arg(long)]
    pub no_objects: bool,
    /// A function of the program's own that returns memory, by its symbol; N is the argument that
    /// holds the size [default: 1].
    #[arg(long, value_name = "NAME[:N]")]
    pub allocator: Vec<NamedFunction>,
    /// One that gives memory back; N is the argument that holds its address [default: 1].
    #[arg(long, value_name = "NAME[:N]")]
    pub deallocator: Vec<NamedFunction>,
}

impl ObjectArgs {
    /// The functions to be watched.
    pub fn allocators(&self) -> Allocators {
        if self.no_objects {
            return Allocators::none();
        }
        let mut allocators = Allocators::standard();
        for f in &self.allocator {
            allocators.allocates(&f.name, f.argument);
        }
        for f in &self.deallocator {
            allocators.frees(&f.name, f.argument);
        }
        allocators
    }
}

/// A function, and which of its arguments is meant, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFunction {
    pub name: String,
    pub argument: u8,
}

impl FromStr for NamedFunction {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<NamedFunction, &'static str> {
        // A name may have colons of its own; the last part is a number if it can be one.
        let (name, argument) = match text.rsplit_once(':') {
            Some((name, number)) if number.bytes().all(|b| b.is_ascii_digit()) => (name, number.parse().unwrap_or(0)),
            _ => (text, 1),
        };
        match (name, argument) {
            ("", _) => Err("a function needs a name"),
            (_, 1..=6) => Ok(NamedFunction {
                name: name.to_owned(),
                argument,
            }),
            _ => Err("arguments are numbered from 1, and those from 7 on are not in registers"),
        }
    }
}

#[derive(Clone, Debug, ArgGroup)]
pub struct RecordArgs {
    /// Where to write the recording [default: memtrail.APP.PID.mtr].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite the output file.
    #[arg(short, long)]
    pub force: bool,
    /// How accesses are captured.
    #[arg(long, value_enum, default_value_t = ProbeMode::Loop)]
    pub probes: ProbeMode,
    /// Most instructions in a block.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub max_block: u32,
    /// Whether blocks that usually follow each other are joined to one: `eager` does so wherever it
    /// can, for testing.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = PathMode::Hot)]
    pub paths: PathMode,
    /// Acquire and throw away: for measuring.
    #[arg(long)]
    pub discard: bool,
    /// Record only the process that is launched, not its children or what it execs.
    #[arg(long)]
    pub no_follow: bool,
    /// Run the target without address-space randomisation.
    #[arg(long)]
    pub no_aslr: bool,
    /// Hash every access while recording, in the slowest and simplest way, for `check --deep` to
    /// compare with.
    #[arg(long)]
    pub verify: bool,
    /// Most memory for compressing, in MB; the target waits rather than that it is exceeded.
    #[arg(long, value_name = "MB", default_value_t = DEFAULT_MEMORY, value_parser = clap::value_parser!(u32).range(LEAST_MEMORY..=1 << 20))]
    pub memory: u32,
    /// Record no more than this many threads and processes at once, for testing.
    #[arg(long, value_name = "N", hide = true)]
    pub slots: Option<u32>,
    #[command(flatten)]
    pub objects: ObjectArgs,
    /// Write times and totals to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub command: Vec<OsString>,
}

impl RecordArgs {
    /// Whether paths are made. Not of what is there to be looked at in its smallest parts.
    pub fn paths(&self) -> Paths {
        let whole = matches!(self.probes, ProbeMode::Block | ProbeMode::Loop) && self.max_block > 1;
        match self.paths {
            PathMode::Hot if whole => Paths::Hot,
            PathMode::Eager if whole => Paths::Eager,
            _ => Paths::Off,
        }
    }

    /// The defaults, for a command.
    pub fn of(command: Vec<OsString>) -> RecordArgs {
        let parser = RecordArgs::augment_args(clap::Command::new("record").no_binary_name(true));
        let words = std::iter::once("--".into()).chain(command);
        RecordArgs::from_arg_matches(&parser.get_matches_from(words)).expect("it has just been parsed")
    }
}

#[derive(Debug, ArgGroup)]
pub struct AttachArgs {
    /// Where to write the recording [default: memtrail.APP.PID.mtr].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite the output file.
    #[arg(short, long)]
    pub force: bool,
    /// Let the process go when at least this many accesses have been recorded.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub accesses: Option<u64>,
    /// Let the process go after this many seconds.
    #[arg(long, value_name = "T", value_parser = seconds)]
    pub seconds: Option<std::time::Duration>,
    /// Write a line to this file descriptor when all threads are being recorded, and close it.
    #[arg(long, value_name = "FD", value_parser = clap::value_parser!(i32).range(0..))]
    pub ready_fd: Option<i32>,
    /// Attach even if the process has a seccomp filter. A strict filter ends the process.
    #[arg(long)]
    pub allow_seccomp: bool,
    /// How accesses are captured.
    #[arg(long, value_enum, default_value_t = ProbeMode::Loop)]
    pub probes: ProbeMode,
    /// Hash every access while recording, for `check --deep` to compare with.
    #[arg(long)]
    pub verify: bool,
    /// Most memory for compressing, in MB.
    #[arg(long, value_name = "MB", default_value_t = DEFAULT_MEMORY, value_parser = clap::value_parser!(u32).range(LEAST_MEMORY..=1 << 20))]
    pub memory: u32,
    #[command(flatten)]
    pub objects: ObjectArgs,
    /// The process.
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
}

/// A time in seconds, which may have a fraction.
fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let bad = || format!("{text:?} is no time in seconds above 0");
    let seconds: f64 = text.parse().map_err(|_| bad())?;
    let time = std::time::Duration::try_from_secs_f64(seconds).map_err(|_| bad())?;
    if time.is_zero() {
        return Err(bad());
    }
    Ok(time)
}

#[derive(Debug, ArgGroup)]
pub struct CheckArgs {
    /// Expand every access, and compare everything the file says twice.
    #[arg(long)]
    pub deep: bool,
    /// The recording.
    pub file: PathBuf,
}

#[derive(Debug, ArgGroup)]
pub struct InfoArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The recording.
    pub file: PathBuf,
}

/// A place in a recording, as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Access(u64),
    Time(Duration),
}

impl FromStr for Place {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Place, &'static str> {
        let wrong = "neither an access number nor a time such as 10us, 250ms or 1.5s";
        if let Ok(number) = text.parse() {
            return Ok(Place::Access(number));
        }
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        let found = units
            .iter()
            .find_map(|&(unit, ns)| Some((text.strip_suffix(unit)?, ns)));
        let (number, nanoseconds) = found.ok_or(wrong)?;
        let value: f64 = number.parse().map_err(|_| wrong)?;
        if !(0.0..1e9).contains(&(value * nanoseconds / 1e9)) {
            return Err("a time out of range");
        }
        Ok(Place::Time(Duration::from_nanos((value * nanoseconds).round() as u64)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ThreadOrder {
    /// By recorded time.
    Time,
    /// One access of each thread in turn.
    Equal,
}

impl From<ThreadOrder> for Order {
    fn from(order: ThreadOrder) -> Order {
        match order {
            ThreadOrder::Time => Order::Time,
            ThreadOrder::Equal => Order::EqualRate { quantum: 1 },
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Access(number) => write!(f, "{number}"),
            Place::Time(since) => write!(f, "{}ns", since.as_nanos()),
        }
    }
}

/// Which part of a recording, and in which order its threads are taken.
#[derive(Clone, Debug, ArgGroup)]
pub struct PartArgs {
    /// Only this thread, by its serial number.
    #[arg(long, value_name = "T")]
    pub thread: Option<u32>,
    /// Begin here: an access number of the thread, or a time since the recording began (10us,
    /// 250ms, 1.5s).
    #[arg(long, value_name = "POINT")]
    pub from: Option<Place>,
    /// End before this access or time.
    #[arg(long, value_name = "POINT")]
    pub to: Option<Place>,
    /// How threads are interleaved.
    #[arg(long, value_enum, default_value_t = ThreadOrder::Time)]
    pub order: ThreadOrder,
}

impl PartArgs {
    /// The options that pick a part, as they can be given again.
    pub fn given(&self, limit: Option<u64>, pcs: &[PcRange], flush: bool) -> BTreeSet<String> {
        let mut given = BTreeSet::new();
        given.extend(self.thread.map(|thread| format!("--thread {thread}")));
        given.extend(self.from.map(|from| format!("--from {from}")));
        given.extend(self.to.map(|to| format!("--to {to}")));
        given.extend((self.order == ThreadOrder::Equal).then(|| "--order equal".to_string()));
        given.extend(limit.map(|limit| format!("--limit {limit}")));
        given.extend(
            pcs.iter()
                .map(|PcRange(pcs)| format!("--pc {:#x}-{:#x}", pcs.start, pcs.end)),
        );
        given.extend(flush.then(|| "--flush".to_string()));
        given
    }

    /// Everything, in the order it happened.
    pub fn all() -> PartArgs {
        PartArgs {
            thread: None,
            from: None,
            to: None,
            order: ThreadOrder::Time,
        }
    }
}

#[derive(Debug, ArgGroup)]
pub struct DumpArgs {
    /// Print no more than this many accesses, descriptors, or lines of the tree.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    #[command(flatten)]
    pub part: PartArgs,
    /// Print regular section descriptors (RSD, PRSD, IAD) instead of accesses; sequence ids are
    /// access numbers.
    #[arg(long, conflicts_with_all = ["from", "to", "hash"])]
    pub descriptors: bool,
    /// Print the loops over blocks instead of accesses.
    #[arg(long, conflicts_with_all = ["from", "to", "hash", "descriptors"])]
    pub tree: bool,
    /// Print notes instead of accesses: what was allocated, freed, mapped and named.
    #[arg(long, conflicts_with_all = ["hash", "descriptors", "tree", "limit"])]
    pub notes: bool,
    /// Print a hash of each thread's accesses, and one of all, instead of the accesses.
    #[arg(long)]
    pub hash: bool,
    /// The recording.
    pub file: PathBuf,
}

#[derive(Debug, ArgGroup)]
pub struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ArgGroup)]
pub struct PointsArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// An x86-64 ELF file: program or library.
    pub program: PathBuf,
}

#[derive(Debug, ArgGroup)]
pub struct OverheadArgs {
    /// Take the best of this many runs.
    #[arg(short, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub n: u32,
    /// Simulate 26 caches with the probes of every stage, not only with the best ones: this is
    /// slow.
    #[arg(long)]
    pub all_stages: bool,
    /// Print JSON on stderr after the table.
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub command: Vec<OsString>,
}

#[derive(Debug, ArgGroup)]
pub struct DemoArgs {
    /// Where to write the recording [default: memtrail.demo.mtr, overwritten each time].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite the output file.
    #[arg(short, long)]
    pub force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// What valgrind --tool=lackey --trace-mem=yes prints.
    Lackey,
    /// Dinero's label and address.
    Din,
    /// DynamoRIO's 12-byte records, a file for each thread.
    Drmemtrace,
    /// What memtrail dump prints.
    Text,
}

#[derive(Debug, ArgGroup)]
pub struct ImportArgs {
    /// The format of the input [default: what it looks like].
    #[arg(long, value_enum)]
    pub format: Option<ImportFormat>,
    /// Where to write the recording [default: memtrail.INPUT.mtr].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite the output file.
    #[arg(short, long)]
    pub force: bool,
    /// Bytes of each access in din, which has no sizes.
    #[arg(long, value_name = "N", default_value_t = memtrail_formats::din::DEFAULT_SIZE, value_parser = clap::value_parser!(u32).range(1..))]
    pub size: u32,
    /// Traces; - is standard input; of drmemtrace also directories.
    #[arg(required = true)]
    pub input: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// As valgrind --tool=lackey --trace-mem=yes prints.
    Lackey,
    /// Dinero's label and address.
    Din,
    /// DynamoRIO's 12-byte records, a file for each thread.
    Drmemtrace,
    /// As memtrail dump prints.
    Text,
    /// Bare addresses, 8 bytes each, little-endian.
    Raw,
}

#[derive(Debug, ArgGroup)]
pub struct ReplayArgs {
    /// The command, for sh -c; it reads the stream on its standard input.
    #[arg(long, value_name = "CMD")]
    pub to: OsString,
    /// The format of the stream; drmemtrace is none.
    #[arg(long, value_enum, default_value_t = ExportFormat::Text)]
    pub format: ExportFormat,
    /// Only this thread, by its serial number.
    #[arg(long, value_name = "T")]
    pub thread: Option<u32>,
    /// Begin here: an access number of the thread, or a time since the recording began (10us,
    /// 250ms, 1.5s).
    #[arg(long, value_name = "POINT")]
    pub begin: Option<Place>,
    /// End before this access or time.
    #[arg(long, value_name = "POINT")]
    pub end: Option<Place>,
    /// No more than this many accesses.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// How threads are interleaved.
    #[arg(long, value_enum, default_value_t = ThreadOrder::Time)]
    pub order: ThreadOrder,
    /// In din: a fetch for each instruction.
    #[arg(long)]
    pub fetches: bool,
    /// The recording.
    pub file: PathBuf,
}

#[derive(Debug, ArgGroup)]
pub struct ExportArgs {
    /// The format of the output.
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// Where to write: a file, or - for standard output, which is the default; of drmemtrace a
    /// directory.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite the output.
    #[arg(short, long)]
    pub force: bool,
    /// Only this thread, by its serial number.
    #[arg(long, value_name = "T")]
    pub thread: Option<u32>,
    /// No more than this many accesses (of each thread in drmemtrace).
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// In din: a fetch for each instruction.
    #[arg(long)]
    pub fetches: bool,
    /// The recording.
    pub file: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_names_with_an_argument() {
        let named = |name: &str, argument| {
            Ok(NamedFunction {
                name: name.into(),
                argument,
            })
        };
        assert_eq!("pool_alloc".parse(), named("pool_alloc", 1));
        assert_eq!("pool_alloc:2".parse(), named("pool_alloc", 2));
        assert_eq!("pool::alloc".parse(), named("pool::alloc", 1));
        for wrong in ["", ":1", "f:0", "f:7", "f:"] {
            assert!(wrong.parse::<NamedFunction>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn places_are_numbers_or_times() {
        let time = |ns| Ok(Place::Time(Duration::from_nanos(ns)));
        assert_eq!("12".parse(), Ok(Place::Access(12)));
        assert_eq!("250ms".parse(), time(250_000_000));
        assert_eq!("1.5s".parse(), time(1_500_000_000));
        assert_eq!("10us".parse(), time(10_000));
        assert_eq!("7ns".parse(), time(7));
        for wrong in ["", "s", "-1s", "1.5", "3 s", "1h", "nans", "infs", "1e10s"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
