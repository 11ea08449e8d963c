//! The options of `sim`.
use crate::args::PartArgs;
use crate::tables::args::{SortBy, SymbolArgs};
use clap::{Args as ArgGroup, ValueEnum};
use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

/// Addresses of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcRange(pub Range<u64>);

impl FromStr for PcRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<PcRange, &'static str> {
        let wrong = "not a range of addresses such as 0x401000-0x401800";
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => u64::from_str_radix(text, 16),
        };
        let (low, high) = text.split_once('-').ok_or(wrong)?;
        let (low, high) = (number(low).map_err(|_| wrong)?, number(high).map_err(|_| wrong)?);
        if low >= high {
            return Err("the end must lie behind the beginning");
        }
        Ok(PcRange(low..high))
    }
}

#[derive(Clone, Debug, Default, ArgGroup)]
pub struct CacheArgs {
    /// A level, from the processor outwards; may be repeated: L1=32K:64:8 is 32 KiB in lines of 64
    /// bytes, 8 ways.
    #[arg(long = "cache", value_name = "LEVEL", conflicts_with_all = ["config", "preset"])]
    pub caches: Vec<String>,
    /// Levels from a TOML file.
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    pub config: Option<PathBuf>,
    /// The caches of a machine: its name, host for this one, or list to see all [default: host].
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Fetch instructions, too: levels that hold instructions see them.
    #[arg(long)]
    pub instructions: bool,
    /// Seed of random replacement.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Run thread t on core t mod N; without it each thread has a core to itself.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cores: Option<u32>,
}

/// Analyses besides the hierarchy, in the same pass. If one is asked for and no caches are given,
/// no hierarchy is simulated.
#[derive(Clone, Debug, Default, ArgGroup)]
pub struct ManyArgs {
    /// Many data caches at once: size=8K..1M,line=32,64,ways=1,2,4,policy=lru,fifo or metasim26;
    /// may be repeated.
    #[arg(long = "sweep", value_name = "SPEC")]
    pub sweeps: Vec<String>,
    /// Miss ratios of LRU caches by size and ways.
    #[arg(long)]
    pub curve: bool,
    /// How many other lines were touched between two touches of a line.
    #[arg(long)]
    pub reuse: bool,
    /// Bytes of a line, for --curve and --reuse.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub line: u32,
}

impl ManyArgs {
    pub fn any(&self) -> bool {
        !self.sweeps.is_empty() || self.curve || self.reuse
    }
}

/// The options again, each with a space before it.
impl fmt::Display for CacheArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.caches.iter().try_for_each(|level| write!(f, " --cache {level}"))?;
        if let Some(path) = &self.config {
            write!(f, " --config {}", path.display())?;
        }
        if let Some(name) = &self.preset {
            write!(f, " --preset {name}")?;
        }
        if self.instructions {
            f.write_str(" --instructions")?;
        }
        if let Some(seed) = self.seed {
            write!(f, " --seed {seed}")?;
        }
        self.cores.map_or(Ok(()), |cores| write!(f, " --cores {cores}"))
    }
}

/// Which references an eviction is charged to, where it is told who evicts whose lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Charge {
    /// The one that brought the line in.
    Owner,
    /// Every one that touched the line.
    All,
}

impl From<Charge> for memtrail_simulate::Charge {
    fn from(charge: Charge) -> memtrail_simulate::Charge {
        match charge {
            Charge::Owner => memtrail_simulate::Charge::Owner,
            Charge::All => memtrail_simulate::Charge::All,
        }
    }
}

#[derive(Clone, Debug, ArgGroup)]
pub struct SimArgs {
    #[command(flatten)]
    pub caches: CacheArgs,
    #[command(flatten)]
    pub many: ManyArgs,
    /// Tell compulsory, capacity and conflict misses apart.
    #[arg(long)]
    pub classes: bool,
    /// Tell for each reference which others evicted its lines.
    #[arg(long)]
    pub evictors: bool,
    /// With --evictors: to whom an eviction is charged.
    #[arg(long, value_enum, value_name = "TO", default_value_t = Charge::Owner, requires = "evictors")]
    pub charge: Charge,
    /// Write back at the end what is dirty then.
    #[arg(long)]
    pub flush: bool,
    #[command(flatten)]
    pub part: PartArgs,
    /// Simulate no more than this many accesses.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Only accesses of instructions in this range of addresses, the end excluded; may be repeated.
    #[arg(long = "pc", value_name = "LO-HI")]
    pub pcs: Vec<PcRange>,
    /// Most references to print [default: 20; with --json all].
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// What comes first.
    #[arg(long, value_enum, default_value_t = SortBy::Misses)]
    pub sort: SortBy,
    /// The level that sorting and the table are about [default: the first].
    #[arg(long, value_name = "NAME")]
    pub level: Option<String>,
    /// Simulate every access of every loop, skipping none that repeats what is known.
    #[arg(long)]
    pub no_skip: bool,
    /// Do not cut names and columns to fit the terminal.
    #[arg(long)]
    pub wide: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write what was found to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep what was found in this file: `memtrail sim FILE` shows it again.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// Simulate while CMD runs; no recording is kept.
    #[arg(long, requires = "command", conflicts_with_all = ["file", "thread", "from", "to", "order"])]
    pub live: bool,
    /// The recording, or what was saved.
    #[arg(required_unless_present_any = ["live", "preset"])]
    pub file: Option<PathBuf>,
    /// With --live: the program and its arguments.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl SimArgs {
    /// Whether a hierarchy is simulated: unless other analyses are asked for, and nothing that
    /// needs one.
    pub fn hierarchy(&self) -> bool {
        let CacheArgs {
            caches,
            config,
            preset,
            instructions,
            ..
        } = &self.caches;
        let given = !caches.is_empty() || config.is_some() || preset.is_some();
        !self.many.any() || given || *instructions || self.classes || self.evictors || self.level.is_some()
    }

    /// The defaults, for a recording and one level.
    pub fn of(file: PathBuf, cache: &str) -> SimArgs {
        SimArgs {
            caches: CacheArgs {
                caches: vec![cache.to_string()],
                config: None,
                preset: None,
                instructions: false,
                seed: None,
                cores: None,
            },
            many: ManyArgs::default(),
            classes: false,
            evictors: false,
            charge: Charge::Owner,
            flush: false,
            part: PartArgs::all(),
            limit: None,
            pcs: Vec::new(),
            top: None,
            sort: SortBy::Misses,
            level: None,
            no_skip: false,
            wide: false,
            json: false,
            output: None,
            save: None,
            symbols: SymbolArgs::default(),
            live: false,
            file: Some(file),
            command: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_hexadecimal_and_not_empty() {
        assert_eq!("0x10-0x20".parse(), Ok(PcRange(0x10..0x20)));
        assert_eq!("401000-401800".parse(), Ok(PcRange(0x401000..0x401800)));
        for wrong in ["", "0x10", "0x10-", "-0x10", "x-y", "0x20-0x10", "0x10-0x10"] {
            assert!(wrong.parse::<PcRange>().is_err(), "{wrong}");
        }
    }
}
