//! Address translation, simulated exactly: TLBs, page-walk caches, walks through the data caches.
//!
//! **Problem.** A cache simulator sees what the program asks for. It does not see the reads of page
//! tables that the processor makes on the program's behalf when a TLB has no translation, nor what
//! would become of them if an object lay in huge pages.
//!
//! **Idea.** An [`Mmu`] is a sink that stands before a cache simulator. It translates every access
//! and puts the reads of a walk before the access that caused it, as accesses with a reference
//! point of their own ([`walk_point`]): so the caches serve walks as they serve data, and what
//! walks cost is in the counts of those points. What is simulated is defined in `docs/paging.md`; a
//! plain simulator in the tests, written from that page, has to agree.
//!
//! **Page tables are simulated.** User space cannot see the frames that hold them. Frames come from
//! an allocator of this crate, in the order of first touch.
//!
//! **Caller's duties.** As those of `memtrail-simulate`: dense reference points, and a thread's
//! address space is told before its first access.
//!
//! Not for: opening files, names of objects, recording.
#![forbid(unsafe_code)]

mod advice;
mod config;
mod counts;
mod footprint;
mod frames;
mod hash;
mod memory_trace;
mod mmu;
mod plan;
mod presets;
mod reverse;
mod short;
pub mod snoop;
mod tables;
mod tlb;

pub use advice::{best_set, Budget, Choice, Gain};
pub use config::{PageSize, PagingConfig, PagingError, TlbArray, WalkCache};
pub use counts::{Latencies, TranslationCounts, WalkTotals};
pub use footprint::{Footprint, Region};
pub use memory_trace::{MemoryEvent, MemoryRecord, MemoryTrace, MemoryTraceError};
pub use mmu::{data_point, walk_point, Mmu, MmuOptions};
pub use plan::PagePlan;
pub use presets::{TlbPreset, TLB_GENERIC, TLB_PRESETS};
pub use reverse::{Placed, ReverseTable};
pub use tables::TableUpdate;
