//! The recording file: written append-only while targets run, read by chunks.
//!
//! A file is a header, chunks, and a footer. Chunks of *blocks* hold plans, chunks of *events* what
//! processes told about themselves, and chunks of *streams* the records of one thread; what a
//! stream refers to stands before it. At the end there are an *index* of all chunks and the totals.
//! Heads and payloads are checksummed; a file that was cut off anywhere is readable up to its last
//! complete chunk. `docs/trace-format.md` is the specification.
//!
//! **Invariants.** Reading needs no code of the recorded program, nor the translator. No bytes make
//! a reader panic, or allocate more than the file's size justifies.
//!
//! Not for: what records mean (that is `memtrail-decode`), in which order threads go
//! (`memtrail-replay`).
#![forbid(unsafe_code)]

mod blocks;
mod chunk;
mod columns;
mod describe;
mod error;
mod events;
mod footer;
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod header;
mod index;
mod known;
mod leaves;
mod pipeline;
mod ranks;
mod reader;
mod set;
mod stream;
mod varint;
mod walk;
mod writer;

pub use chunk::{Head, Kind as ChunkKind, StreamHead, CHUNK_HEAD_BYTES, MOST_BYTES};
pub use describe::{describe, Descriptor, Source};
pub use error::Error;
pub use hash::{whole, Hasher, ThreadHash, Verifier};
pub use header::{Header, Totals, SETS, VERSION};
pub use known::{Definitions, Known, ThreadInfo};
pub use leaves::{cuts, LeafName, Leaves};
pub use pipeline::{Limits, Pipeline};
pub use ranks::{RankInfo, Ranks};
pub use reader::{Chunk, Ending, Reader};
pub use set::{set, Member, Members};
pub use stream::{compress, parse, stream, words, Compressed, Compressor, Decoding, Stamp, Stream};
pub use varint::Bad;
pub use walk::{walk, Drive};
pub use writer::{create, Writer};
