//! What can be wrong with a recording.
use crate::ThreadHash;
use memtrail_decode::DecodeError;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("process {process} has {count} notes, numbered up to {end}: some are missing, or there twice")]
    Notes { process: u32, count: u64, end: u64 },
    #[error("not a memtrail recording")]
    NotARecording,
    #[error("recorded by an older memtrail (format {found}); this one reads format {known}: record again, or use the memtrail that wrote it")]
    OlderVersion { found: u32, known: u32 },
    #[error(
        "recorded by a newer memtrail (format {found}); this one reads format {known}: use the memtrail that wrote it"
    )]
    NewerVersion { found: u32, known: u32 },
    #[error("this memtrail cannot read what the recording makes use of: {unknown}")]
    Features { unknown: String },
    #[error("the file ends inside its header, at byte {at}: nothing was recorded")]
    TruncatedHeader { at: u64 },
    #[error("the header is damaged: {what}")]
    BadHeader { what: String },
    #[error("the file is damaged at byte {at}: {what}")]
    Damaged { at: u64, what: &'static str },
    #[error("the chunk at byte {at}: {source}")]
    Decode { at: u64, source: DecodeError },
    #[error("access numbers are a thread's own: select one of the {threads} threads, or give a time")]
    WhichThread { threads: usize },
    #[error("the accesses of thread {thread} are not those that were recorded: {} with hash {:#018x}, not {} with {:#018x}",
        .found.accesses, .found.hash, .said.accesses, .said.hash)]
    Hash {
        thread: u32,
        said: ThreadHash,
        found: ThreadHash,
    },
    #[error("{what} is {found}, but the recording says {said}")]
    Mismatch { what: &'static str, said: u64, found: u64 },
}
