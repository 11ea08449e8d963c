//! What accesses belong to: call paths, data objects, loops.
//!
//! Numbers in, numbers out. A [`Tagger`] stands between a replay and a simulator and gives every
//! access a number for everything that tables tell apart: the reference point, the call path, the
//! object, the thread. The simulator counts by that number as it counts by reference points;
//! `memtrail-report` adds up what it has counted.
//!
//! **Caller's duties.** Reference points are dense; a thread's address space is told before its
//! first access; notes of an address space come in the order in which it happened.
//!
//! Not for: opening files, names. Whoever knows what a call site, a point or a text is called
//! attaches the names to the rows.
#![forbid(unsafe_code)]

pub mod calls;
mod composites;
mod hash;
pub mod objects;
pub mod patterns;
pub mod placement;
pub mod scopes;
pub mod tagger;

pub use calls::{Calls, Tree};
pub use objects::{Kind, Objects};
pub use tagger::{Dimensions, Key, Tagger};
