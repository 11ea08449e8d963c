//! Caches, simulated exactly.
//!
//! Accesses in, counts by reference point out. What is simulated is defined, to the last unit, in `docs/simulation.md`; a naive simulator in
//! the tests, written from that page, has to agree.
//!
//! **Caller's duties.** Accesses carry dense reference points; a thread's address space is told before its first access.
//!
//! Not for: files, names, terminals. This crate sees no string but the names of levels.
#![forbid(unsafe_code)]

pub mod config;
mod counts;
mod engine;
pub mod reuse;
mod sets;
pub mod sweep;

pub use config::{ConfigError, Hierarchy, Level};
pub use counts::{Classes, LevelCounts, PointCounts, Requests, Traffic};
pub use engine::{Options, Simulator};
