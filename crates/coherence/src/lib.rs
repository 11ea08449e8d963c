//! Caches of several cores that are kept coherent, and what that costs the program.
//!
//! **Problem.** When a core writes to a line, the other cores lose their copies of it. They miss
//! the next time they use the line: for data that another wrote (true sharing) or for other data
//! that happens to lie beside it (false sharing).
//!
//! **Idea.** Every core has private caches. A *directory* knows which cores hold a line and which
//! of them may write to it, so that an access that finds a line as it needs it touches the core's
//! own caches only. A line is *contended* from the first time that one core takes it from another;
//! only then are bytes and references told apart (see `contended.rs`), because most lines never
//! are.
//!
//! The model is defined in `docs/simulation.md`, "Coherence". `memtrail-naive` has a textbook
//! version, which tests hold this one to.
//!
//! Not for: order among threads, names, recordings. Accesses come from a replay; their points may
//! be anything that the caller tells apart.
#![forbid(unsafe_code)]

mod config;
mod contended;
mod hash;
mod level;
mod machine;
mod moves;

pub use config::{CoherenceConfig, CoherenceError, Geometry, Protocol, MOST_CORES};
pub use contended::{Pair, SharedLine, SharingCounts, Use};
pub use machine::{Coherence, SharedLevelCounts, Sharing, Totals};
pub use moves::{Moved, Moves};

/// Where an address of an address space is, among those of all: see `docs/simulation.md`, "What
/// goes in".
pub(crate) fn place(space: u32, address: u64) -> u64 {
    match address >> 47 {
        0 => address.wrapping_add(u64::from(space) << 48),
        _ => address,
    }
}
