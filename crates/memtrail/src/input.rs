//! What commands that take a recording or saved results are given, and where they save results.
use crate::info::{open, Recording};
use crate::output;
use anyhow::Context;
use memtrail_report::{file, ResultSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;

/// A file that holds something to be looked at.
pub enum Input {
    Recording(Box<Recording>),
    Saved(Box<ResultSet>),
}

impl Input {
    /// By what is in it, whatever it is called.
    pub fn open(path: &Path) -> anyhow::Result<Input> {
        let name = || path.display().to_string();
        let mut first = Vec::new();
        let opened = File::open(path).with_context(name)?;
        opened
            .take(file::MAGIC.len() as u64)
            .read_to_end(&mut first)
            .with_context(name)?;
        if !file::begins(&first) {
            return Ok(Input::Recording(Box::new(open(path)?)));
        }
        let opened = File::open(path).with_context(name)?;
        let set = file::load(BufReader::new(opened)).with_context(name)?;
        Ok(Input::Saved(Box::new(set)))
    }
}

/// Saves results, if a file is given.
pub fn save(set: &ResultSet, path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let created = File::create(path).with_context(|| output::cannot_write(path))?;
    file::save(set.clone(), BufWriter::new(created)).with_context(|| output::cannot_write(path))
}
