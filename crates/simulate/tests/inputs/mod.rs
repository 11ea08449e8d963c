//! Hierarchies and streams of accesses to compare simulators on.
//!
//! **Problem.** A random hierarchy rarely makes sense, and random addresses rarely hit. **Idea.**
//! Every field is drawn freely and then, from the processor outwards, bent until the hierarchy
//! makes sense, so that nothing is thrown away and failures shrink; caches are a few lines large;
//! addresses stay near a few places.
mod hierarchies;
mod streams;

pub use hierarchies::{hierarchies, plain_hierarchies};
pub use streams::{nests, streams, Nest, Piece, Stream};
