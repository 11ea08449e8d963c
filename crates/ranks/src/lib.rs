//! Recordings of the ranks of a parallel job, and of the threads of a process, as one recording.
//!
//! [`Place`] says which rank this process is. [`Whole`] is a recording in memory: read, [united]
//! with another, its threads [folded], and written. [`merge`] does all of that with files, on the
//! same tree that ranks use among themselves, so that the bytes are the same.
//!
//! **Idea.** Ranks run the same code at other addresses. A block of the second recording that is a
//! block of the first, relocated, is not stored: its ids become those of the other, and one event
//! says where the second rank has its images. Then the streams of both are over the same alphabet, and
//! what threads did in common is stored once (`memtrail-merge`).
//!
//! **Invariants.** Replay of a merged recording gives the accesses of each thread of each rank
//! exactly as its own recording does. A set is only made of streams if that is shorter.
//!
//! Not for: aligning sequences (`memtrail-merge`), the file's layout (`memtrail-trace`).
//!
//! [united]: Whole::unite
//! [folded]: Whole::fold_threads
#![forbid(unsafe_code)]

mod environment;
mod group;
mod names;
mod together;
mod tree;
mod whole;

pub use environment::{expand_name, Place, RankError};
pub use tree::{gather, merge, own_file, Gathered};
pub use whole::{MergeError, Whole};
