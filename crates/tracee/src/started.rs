//! The name that a program was started by.
//!
//! The kernel names the file that it maps, and a program that is started through a link is known to
//! people by the link: `redis-server` is a link to `redis-check-rdb`. What was started stands
//! behind AT_EXECFN of the auxiliary vector; it counts only if it leads to the file that is mapped,
//! so that scripts keep the name of their interpreter.
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A program's file, as the kernel names it and as it was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    pub mapped: PathBuf,
    pub link: PathBuf,
}

/// Longest path that is read.
const LONGEST: usize = 4096;
const AT_EXECFN: u64 = 31;

/// What a process that has just been started was started by, if that is a link of another name to
/// its program.
pub fn started(pid: i32) -> Option<Started> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let mapped = fs::read_link(proc.join("exe")).ok()?;
    let link = fs::read_link(proc.join("cwd")).ok()?.join(executed(&proc)?);
    // Without `.` in it.
    let link: PathBuf = link.components().collect();
    // A descriptor's number is no name.
    let is_name = !["/proc", "/dev/fd"].iter().any(|no_name| link.starts_with(no_name));
    let file = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
    let same = file(&link).is_some() && file(&link) == file(&proc.join("exe"));
    let renamed = link.file_name() != mapped.file_name();
    (is_name && same && renamed).then_some(Started { mapped, link })
}

/// The path that exec was given.
fn executed(proc: &Path) -> Option<PathBuf> {
    let vector = fs::read(proc.join("auxv")).ok()?;
    let words: Vec<u64> = vector
        .chunks_exact(8)
        .map(|bytes| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
        .collect();
    let at = words.chunks_exact(2).find(|pair| pair[0] == AT_EXECFN)?[1];
    let mut text = vec![0; LONGEST];
    // It is the last thing on the stack: less than that may be there.
    let read = File::open(proc.join("mem")).ok()?.read_at(&mut text, at).ok()?;
    let end = text[..read].iter().position(|&byte| byte == 0)?;
    Some(Path::new(OsStr::from_bytes(&text[..end])).to_path_buf())
}
