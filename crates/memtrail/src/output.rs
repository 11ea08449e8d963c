//! Where a report goes: to standard output, or to the file that was named.
use crate::dump::written;
use anyhow::Context;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// A file that cannot be written is told of before a long run. What is in it stays until there is
/// something to replace it.
pub fn check(output: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = output else { return Ok(()) };
    let is_new = !path.exists();
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    opened.with_context(|| cannot_write(path))?;
    if is_new {
        std::fs::remove_file(path).with_context(|| cannot_write(path))?;
    }
    Ok(())
}

pub fn write(output: Option<&Path>, text: &str) -> anyhow::Result<u8> {
    match output {
        None => written(std::io::stdout().write_all(text.as_bytes()).err()),
        Some(path) => {
            std::fs::write(path, text).with_context(|| cannot_write(path))?;
            Ok(0)
        }
    }
}

pub fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
