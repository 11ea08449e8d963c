//! Drains the rings of a session, decodes records to accesses, drives sinks.
//!
//! Two halves. The **live** half ([`Session`], [`record`]) owns the shared memory: a drain thread
//! takes buffers and hands them to a [`Sink`], which may be [`Live`]; the calling thread supervises processes. The
//! **pure** half ([`Table`], [`ThreadDecoder`], [`Expander`], [`Counter`]) turns words into
//! executions of blocks and those into accesses; it is used again when a file is read.
//!
//! **Caller's duties.** [`record`] must be called on the thread that launched the target.
//!
//! Not for: files (that is `memtrail-trace`), names, analysis.
#![deny(unsafe_code)]

mod affine;
#[allow(unsafe_code)] // reads the time stamp counter
mod clock;
mod columns;
mod consume;
mod counts;
mod decode;
mod drain;
mod error;
mod follow;
mod hooks;
mod interleave;
mod linear;
mod live;
mod message;
mod names;
mod notes;
mod points;
mod records;
#[allow(unsafe_code)] // the mapping: see its head
mod session;
mod shape;
mod skim;
mod supervise;
mod table;
mod walk;
mod work;

pub use consume::{Counter, Expander, Tally, NO_LEAF};
pub use counts::Counts;
pub use decode::{tail, Consumer, Cut, Fed, Mark, Run, State, Tail, ThreadDecoder};
pub use drain::{CollectError, Drained, Piece, Sink};
pub use error::DecodeError;
pub use hooks::Allocators;
pub use interleave::{interleave, Order, Segment, Stream, SLICE};
pub use linear::Linear;
pub use live::{Live, Lived};
pub use memtrail_tracee::{XsaveComponent, XsaveTable};
pub use message::{parse as messages, HookKind, Message, Messages};
pub use names::{Hook, Names};
pub use notes::Noted;
pub use points::PointInfo;
pub use records::{Kinds, Records};
pub use session::{MemoryFile, Options, Session};
pub use supervise::{record, Notice, Outcome, Stop};
pub use table::{Block, Found, Table, MOST_PIECES, NO_REGISTER};
pub use walk::{StepSink, Walker};

pub(crate) use shape::MOST_ACCESSES;
