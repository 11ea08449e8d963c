//! Merging: the event sequences of many members (threads, ranks) as one.
//!
//! **Problem.** Threads and ranks of a parallel program do the same on different data. Stored one by
//! one their sequences grow with their number, although what they do does not.
//!
//! **Idea.** A [`Set`] is one sequence of events in which each event says *who* has it, and each
//! parameter how far it *moves* from member to member: a vector of distances from the first member
//! that has the event. The same few vectors come again and again (a load address that differs, an
//! index times a block size), so that they are numbered; and they are functions of the member's
//! index, affine or a nest of affine functions, so that each takes a few bytes however many members
//! there are (module [`nest`]). What is no such function is stored as it is.
//! Two sets are merged by aligning their sequences by kind (module `align`); [`reduce`] does that
//! on a radix tree, with a [`Transport`] between those who have the sets.
//!
//! **Invariants.** Nothing is lost: [`Set::member`] gives back exactly what went in. The result
//! depends on the sequences and the shape of the tree alone.
//!
//! Not for: what events mean. Nothing here knows memory, threads, ranks or MPI; a member is an index.
#![forbid(unsafe_code)]

mod align;
mod code;
mod files;
pub mod nest;
mod set;
mod tree;

pub use align::{align, Pair};
pub use code::{decode, encode, SetError};
pub use files::{Directory, DirectoryError};
pub use set::{Mapped, Set};
pub use tree::{partners, reduce, steps, Transport};
