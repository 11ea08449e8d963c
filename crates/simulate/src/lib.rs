//! Caches, simulated exactly.
//!
//! Accesses in, counts by reference point out. What is simulated is defined, to the last unit, in
//! `docs/simulation.md`; a naive simulator in the tests, written from that page, has to agree.
//!
//! **Caller's duties.** Accesses carry dense reference points; a thread's address space is told
//! before its first access.
//!
//! Not for: opening files, names of code, terminals. Configurations come as text or as values;
//! references are numbers here.
#![forbid(unsafe_code)]

mod beside;
pub mod config;
mod counts;
mod draft;
mod engine;
pub mod file;
pub mod host;
pub mod presets;
pub mod reuse;
mod sets;
pub mod short;
pub mod spec;
pub mod sweep;

pub use beside::Beside;
pub use config::{ConfigError, Hierarchy, Level};
pub use counts::{Classes, LevelCounts, PointCounts, Requests, Traffic};
pub use draft::{parse_size, show_size};
pub use engine::{Charge, MemoryRequest, Options, Simulator};
