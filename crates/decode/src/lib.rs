//! Records in, executions and accesses out.
//!
//! [`Table`] holds what is known of every block; [`ThreadDecoder`] cuts a thread's words into
//! records and tells a [`Consumer`] what was executed; [`Counter`] counts what executions do,
//! [`Expander`] makes accesses of them. [`Message`] is what a process tells about itself, and
//! [`Sink`] takes all of it as it comes: from a collector, from a recording, from another tool's
//! trace.
//!
//! **Invariants.** Pure: no system call, no file. No words make a decoder panic. The same words
//! give the same accesses, whichever of the fast ways is taken.
//!
//! Not for: making plans (that is `memtrail-translate`), files (`memtrail-trace`), putting threads
//! in order (`memtrail-replay`).
#![forbid(unsafe_code)]

mod affine;
mod columns;
mod consume;
mod counts;
mod decode;
mod error;
mod follow;
mod images;
mod linear;
mod message;
mod names;
mod notes;
mod points;
mod records;
mod relocate;
mod shape;
mod sink;
mod skim;
mod table;
mod walk;
mod work;

pub use consume::{Counter, Expander, Tally, NO_LEAF};
pub use counts::Counts;
pub use decode::{tail, Consumer, Cut, Fed, Mark, Run, State, Tail, ThreadDecoder};
pub use error::DecodeError;
pub use images::{Image, ImageId, Images, Module, Place, MOST_MODULES};
pub use linear::Linear;
pub use message::{parse as messages, HookKind, Message, Messages};
pub use names::{Hook, Names};
pub use notes::Noted;
pub use points::PointInfo;
pub use records::{Kinds, Records};
pub use sink::{Piece, Sink};
pub use table::{Block, Definition, Found, Table, MOST_PIECES, NO_REGISTER};
pub use walk::{StepSink, Walker};

pub(crate) use shape::MOST_ACCESSES;
