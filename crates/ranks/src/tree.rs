//! Merging files: of many at once, or by the ranks themselves.
//!
//! Both do the same steps on the same tree, from recording to recording, so that the bytes are the
//! same.
use crate::whole::{MergeError, Whole};
use memtrail_merge::{reduce, Directory, Transport};
use memtrail_trace::Reader;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};

fn of(path: &Path) -> impl FnOnce(MergeError) -> MergeError + '_ {
    |source| MergeError::Of {
        path: path.display().to_string(),
        source: Box::new(source),
    }
}

fn read(input: impl Read + Seek, unless_said: Option<u32>) -> Result<Whole, MergeError> {
    Whole::read(&mut Reader::open(input)?, unless_said)
}

fn read_file(path: &Path, unless_said: Option<u32>) -> Result<Whole, MergeError> {
    let open = || read(BufReader::new(File::open(path)?), unless_said);
    open().map_err(of(path))
}

/// What a recording becomes before it is merged with others.
fn leaf(path: &Path, unless_said: Option<u32>) -> Result<Whole, MergeError> {
    let mut whole = read_file(path, unless_said)?;
    whole.fold_threads().map_err(of(path))?;
    Ok(whole)
}

/// Parts that wait in memory: members come one after the other, and nobody has to be waited for.
#[derive(Default)]
struct Desk {
    parts: BTreeMap<u32, Vec<u8>>,
    me: u32,
}

impl Transport for Desk {
    type Part = Vec<u8>;
    type Error = MergeError;
    fn send(&mut self, part: Vec<u8>, _to: u32) -> Result<(), MergeError> {
        self.parts.insert(self.me, part);
        Ok(())
    }
    fn receive(&mut self, from: u32) -> Result<Option<Vec<u8>>, MergeError> {
        Ok(self.parts.remove(&from))
    }
}

/// Merges recordings to one, those that do not say which rank they are being ranks by their place; a
/// recording by itself becomes one whose threads are merged. Returns its size.
pub fn merge<W: Write>(files: &[PathBuf], mut out: W) -> Result<(W, u64), MergeError> {
    let members = files.len() as u32;
    let mut desk = Desk::default();
    let mut whole = Vec::new();
    for (member, file) in (0..members).zip(files).rev() {
        desk.me = member;
        let own = leaf(file, (members > 1).then_some(member))?.write(Vec::new())?.0;
        let unite = |ours: Vec<u8>, theirs: Vec<u8>| {
            let theirs = read(Cursor::new(theirs), None)?;
            let both = read(Cursor::new(ours), None)?.unite(theirs).map_err(of(file))?;
            Ok(both.write(Vec::new())?.0)
        };
        whole = reduce(&mut desk, member, members, own, unite, |_| {})?.unwrap_or_default();
    }
    out.write_all(&whole)?;
    out.flush()?;
    Ok((out, whole.len() as u64))
}

/// What became of the recordings of a job's ranks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// The size of the merged recording; `None` if another rank goes on with it.
    pub size: Option<u64>,
    /// Ranks that died before they gave their part away.
    pub lost: Vec<u32>,
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

/// Where a rank records what is merged to `out` later.
pub fn own_file(out: &Path, rank: u32) -> PathBuf {
    with_suffix(out, &format!(".rank.{rank}"))
}

/// A rank's part of the merge of all: its own recording becomes part of `out`, and goes away.
///
/// What others gave to this rank goes away only when it has given its own part away: should it die
/// before, whoever waits for it takes theirs.
pub fn gather(mut directory: Directory, out: &Path, rank: u32, ranks: u32) -> Result<Gathered, MergeError> {
    let own = own_file(out, rank);
    let temporary = with_suffix(out, &format!(".merging.{rank}"));
    let mut done_with = vec![own.clone()];
    let write = |whole: &Whole| -> Result<(), MergeError> {
        let (file, _) = whole.write(BufWriter::new(File::create(&temporary)?))?;
        file.into_inner().map_err(|e| MergeError::Io(e.into_error()))?;
        Ok(())
    };
    let mut gathered = Gathered::default();
    let merged = (|| {
        write(&leaf(&own, Some(rank))?)?;
        let mut files = Files {
            directory: &mut directory,
        };
        let unite = |ours: PathBuf, theirs: PathBuf| {
            let both = read_file(&ours, None)?.unite(read_file(&theirs, None)?)?;
            write(&both)?;
            done_with.push(theirs);
            Ok(ours)
        };
        let lost = &mut gathered.lost;
        reduce(&mut files, rank, ranks, temporary.clone(), unite, |r| lost.push(r))
    })();
    let whole = merged.inspect_err(|_| {
        // The parts and the rank's own recording stay: nothing is lost.
        let _ = fs::remove_file(&temporary);
    })?;
    if let Some(whole) = whole {
        gathered.size = Some(fs::metadata(&whole)?.len());
        fs::rename(&whole, out)?;
    }
    for path in done_with {
        fs::remove_file(path)?;
    }
    directory.leave();
    Ok(gathered)
}

/// The directory, with the errors of merging.
struct Files<'d> {
    directory: &'d mut Directory,
}

impl Transport for Files<'_> {
    type Part = PathBuf;
    type Error = MergeError;
    fn send(&mut self, part: PathBuf, to: u32) -> Result<(), MergeError> {
        Ok(self.directory.send(part, to)?)
    }
    fn receive(&mut self, from: u32) -> Result<Option<PathBuf>, MergeError> {
        Ok(self.directory.receive(from)?)
    }
}
