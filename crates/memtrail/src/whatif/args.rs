//! The options of `whatif` and `advise`.
use crate::args::PartArgs;
use crate::sim::args::CacheArgs;
use crate::tables::args::{SymbolArgs, TableArgs};
use clap::Args as ArgGroup;
use memtrail_simulate::parse_size;
use std::path::PathBuf;
use std::str::FromStr;

/// What is simulated, and where names come from.
#[derive(Clone, Debug, ArgGroup)]
pub struct ReplayedArgs {
    #[command(flatten)]
    pub caches: CacheArgs,
    #[command(flatten)]
    pub part: PartArgs,
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// The level that tables and choices are about [default: the first].
    #[arg(long, value_name = "NAME")]
    pub level: Option<String>,
    /// Accesses of a nest of loops that are put in another order.
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    pub window: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write the report to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The recording.
    pub file: PathBuf,
}

impl ReplayedArgs {
    /// The options of a table of the same caches and accesses.
    pub fn table(&self) -> TableArgs {
        TableArgs {
            level: self.level.clone(),
            part: self.part.clone(),
            json: self.json,
            ..TableArgs::of(&self.file, &self.caches, &self.symbols)
        }
    }
}

/// The options of `whatif`.
#[derive(Clone, Debug, ArgGroup)]
pub struct WhatifArgs {
    /// Leave BYTES free after every ROW bytes of an object (default: the rows of its type), or in
    /// front of it if it has no rows: B:64, B:64@4096.
    #[arg(long, value_name = "OBJ:BYTES[@ROW]")]
    pub pad: Vec<PadSpec>,
    /// Let every block of an object begin at a multiple of N.
    #[arg(long, value_name = "OBJ:N")]
    pub align: Vec<SizeSpec>,
    /// Let an object lie BYTES further on.
    #[arg(long = "move", value_name = "OBJ:BYTES")]
    pub moved: Vec<SizeSpec>,
    /// Take an array of structures apart: an array of its own for each of these fields, and one for
    /// the rest. A field is a name, or bytes of an element (8-16, with /BYTES for the size of an
    /// element if it is not known).
    #[arg(long, value_name = "OBJ:FIELD,…[/BYTES]")]
    pub split: Vec<FieldSpec>,
    /// Put these fields first in each element.
    #[arg(long, value_name = "OBJ:FIELD,…[/BYTES]")]
    pub reorder: Vec<FieldSpec>,
    /// Exchange a loop with the one inside it. A loop is called as refs --by loop does: by line
    /// (mm.c:9), by lines (mm.c:9-10) or address; @D picks the one at depth D.
    #[arg(long, value_name = "LOOP")]
    pub interchange: Option<String>,
    /// Do a loop and those inside it in blocks of N iterations.
    #[arg(long, value_name = "LOOP:N")]
    pub tile: Option<SizeSpec>,
    /// Make one loop of those that follow each other inside this one.
    #[arg(long, value_name = "LOOP")]
    pub fuse: Option<String>,
    #[command(flatten)]
    pub replayed: ReplayedArgs,
}

/// The options of `advise`.
#[derive(Clone, Debug, ArgGroup)]
pub struct AdviseArgs {
    /// Advise only what saves this share of all misses of the level, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub least: f64,
    /// References and objects to try, from the worst on.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub top: usize,
    #[command(flatten)]
    pub replayed: ReplayedArgs,
}

/// An object or loop, and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeSpec {
    pub name: String,
    pub bytes: u64,
}

/// An object, bytes, and how long rows are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PadSpec {
    pub name: String,
    pub bytes: u64,
    pub row: Option<u64>,
}

/// An object, and fields of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    pub name: String,
    pub fields: Vec<String>,
    pub element: Option<u64>,
}

/// Names may have colons; what is asked for stands behind the last one.
fn named(text: &str) -> Result<(&str, &str), String> {
    let parts = text
        .rsplit_once(':')
        .filter(|(name, value)| !name.is_empty() && !value.is_empty());
    parts.ok_or_else(|| format!("{text}: a name, a colon and a value are wanted"))
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| format!("{text}: not a size such as 64 or 4K"))
}

impl FromStr for SizeSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<SizeSpec, String> {
        let (name, value) = named(text)?;
        Ok(SizeSpec {
            name: name.to_string(),
            bytes: size(value)?,
        })
    }
}

impl FromStr for PadSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<PadSpec, String> {
        let (name, value) = named(text)?;
        let (bytes, row) = match value.split_once('@') {
            Some((bytes, row)) => (bytes, Some(size(row)?)),
            None => (value, None),
        };
        Ok(PadSpec {
            name: name.to_string(),
            bytes: size(bytes)?,
            row,
        })
    }
}

impl FromStr for FieldSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldSpec, String> {
        let (name, value) = named(text)?;
        let (fields, element) = match value.rsplit_once('/') {
            Some((fields, element)) => (fields, Some(size(element)?)),
            None => (value, None),
        };
        Ok(FieldSpec {
            name: name.to_string(),
            fields: fields.split(',').map(str::to_string).collect(),
            element,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_the_last_colon() {
        let pad: PadSpec = "ns::grid:64@4K".parse().unwrap();
        assert_eq!((pad.name.as_str(), pad.bytes, pad.row), ("ns::grid", 64, Some(4096)));
        let split: FieldSpec = "nodes:key,0-8/48".parse().unwrap();
        assert_eq!(split.fields, ["key", "0-8"]);
        assert_eq!(split.element, Some(48));
        for wrong in ["", "a", "a:", ":8", "a:x"] {
            assert!(wrong.parse::<SizeSpec>().is_err(), "{wrong}");
        }
    }
}
