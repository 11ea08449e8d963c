//! Traces of other tools, read and written.
//!
//! ```text
//! foreign trace ──Source──► events ──Importer──► blocks and records ──► any memtrail_decode::Sink
//! replay ──Expander or Walker──► Export<Encode> ──► foreign trace
//! ```
//! A [`Source`] tells what a foreign trace says as [`Event`]s; [`Importer`] makes blocks and
//! records of them, as if a program had been recorded. An [`Encode`] writes instructions and
//! accesses in a foreign format; [`Export`] feeds it from a replay. Each format has a module whose
//! head says what the format is and what it cannot express.
//!
//! **Invariants.** Everything streams: memory depends on the number of different instructions and
//! threads, not on the length of a trace. No input makes a reader panic. Errors name the line or
//! the byte, and what was expected there.
//!
//! Not for: opening files (callers give readers and writers), and the recording's own file (that is
//! `memtrail-trace`).
#![forbid(unsafe_code)]

pub mod din;
pub mod drmemtrace;
mod export;
mod guess;
mod import;
pub mod lackey;
mod lines;
pub mod raw;
pub mod text;

pub use export::{Encode, Export, LeftOut};
pub use guess::{guess, Guess, GUESS_BYTES};
pub use import::{Imported, Importer};

use memtrail_decode::DecodeError;
use memtrail_model::Kind;
use std::io;

/// What a foreign trace says next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// What follows is of this thread. `tid` is what the system called it.
    Thread {
        serial: u32,
        tid: u32,
    },
    /// What follows, in this thread, happened at this time or later. In any unit, as long as it is
    /// the same everywhere.
    Time(u64),
    /// An instruction is executed; the accesses up to the next one are its. `bytes` is its length,
    /// 0 if that is not known.
    Instruction {
        pc: u64,
        bytes: u32,
    },
    Access {
        kind: Kind,
        addr: u64,
        size: u32,
    },
}

/// A foreign trace that is being read.
pub trait Source {
    /// What comes next; `None` at the end.
    fn next(&mut self) -> Result<Option<Event>, Error>;
}

/// Why a foreign trace cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    #[error("cannot store: {0}")]
    Store(#[source] io::Error),
    #[error("line {line}: {expected} expected, not {found:?}")]
    Line {
        line: u64,
        expected: &'static str,
        found: String,
    },
    #[error("byte {at}: {what}")]
    Byte { at: u64, what: String },
    #[error("there is no access in it")]
    Empty,
    #[error("there are more than {most} different {what} in it")]
    TooMany { what: &'static str, most: usize },
    #[error("what was read makes no sense: {0}")]
    Decode(#[from] DecodeError),
}
