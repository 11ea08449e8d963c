//! The recording file: written append-only while targets run, read by chunks.
//!
//! The simplest format that loses nothing: the raw record words of every buffer and the
//! definition messages, each chunk compressed and checksummed. A file that was cut off anywhere
//! is readable up to its last complete chunk. The layout, all numbers little-endian:
//!
//! ```text
//! file   := "memtrail" version:u32 length:u32 crc:u32 header-json chunk* end-chunk
//! chunk  := "MTRK" kind:u32 serial:u32 process:u32 begin:u64 end:u64
//!           raw-bytes:u64 stored-bytes:u32 payload-crc:u32 zero:u32 head-crc:u32 payload
//! kind   := 1 definitions (serial: process) | 2 records (serial: thread) | 3 end (payload: json)
//! ```
//! Payloads of kinds 1 and 2 are 64-bit words, zstd-compressed. CRCs are CRC-32 (IEEE).
//!
//! Not for: what records mean (that is `memtrail-collect`).
#![forbid(unsafe_code)]

mod chunk;
mod error;
mod header;
mod reader;
mod replay;
mod writer;

pub use chunk::{Kind as ChunkKind, CHUNK_HEAD_BYTES};
pub use error::Error;
pub use header::{Header, Totals, VERSION};
pub use reader::{Chunk, Ending, Reader};
pub use replay::{check, replay, Checked, Filter, Known};
pub use writer::{create, Writer};
