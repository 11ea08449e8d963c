//! Drains the rings of a session and supervises its processes.
//!
//! A [`Session`] owns the shared memory. [`record`] starts a drain thread, which takes full buffers
//! and hands them to a [`Sink`](memtrail_decode::Sink), and supervises processes on the calling
//! thread. [`define`] and [`define_path`] derive the plan of a block from its code, as the runtime
//! did in the target.
//!
//! **Caller's duties.** [`record`] must be called on the thread that launched the target.
//!
//! Not for: what records mean (that is `memtrail-decode`), files, names, analysis.
#![deny(unsafe_code)]

mod attach;
mod build_id;
#[allow(unsafe_code)] // reads the time stamp counter
mod clock;
mod define;
mod drain;
mod hooks;
mod mapped;
mod renamed;
#[allow(unsafe_code)] // the mapping: see its head
mod session;
mod supervise;

pub use attach::{attach, Until};
pub use define::{define, define_in, define_path};
pub use drain::{CollectError, Drained};
pub use hooks::Allocators;
pub use session::{MemoryFile, Options, Session};
pub use supervise::{record, Notice, Outcome, Stop};
