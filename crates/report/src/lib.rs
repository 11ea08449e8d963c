//! Results: what analyses found, kept, merged, saved, and shown.
//!
//! A [`ResultSet`] is rows of counts. A row's key has an id for each *dimension* that the set
//! declares (reference, object, function, …); what the ids stand for is told by dictionaries beside
//! the rows ([`Entry`]). All counts are sums, so that results of parts (threads, ranks, runs) can
//! be added up ([`merge`](ResultSet::merge)). A set is saved as JSON Lines and read again
//! ([`file`]; `docs/results-format.md`).
//!
//! Tables are *views*: [`View`] adds the rows up by some of the dimensions and sorts them, and
//! [`text`], [`lines`] and [`json`] print a view. Whatever made the set, a run just now or a file,
//! the same set gives the same bytes.
//!
//! **Canonical form.** Entries of a dimension are in the order of their keys (which is that of
//! their names) and no two have the same key; rows are in the order of their keys and no two have
//! the same. So ids can be compared instead of names, and equal results are equal sets.
//!
//! **To add a dimension** (phase, rank, time bucket): a variant of [`Dimension`] and of [`Entry`],
//! its columns in [`text`], its key in [`json`], and whoever counts has to give rows its ids.
//! Merging, saving and grouping follow.
//!
//! Not for: finding anything out. Simulating is in `memtrail-simulate`, what accesses belong to in
//! `memtrail-analyze`, names in `memtrail-symbols`.
#![forbid(unsafe_code)]

pub mod columns;
mod entry;
pub mod file;
pub mod format;
pub mod json;
pub mod levels;
pub mod lines;
mod many;
mod set;
pub mod text;
mod view;

pub use columns::{Align, Columns};
pub use entry::{is_library, kind_word};
pub use entry::{
    Block, CallPath, Dimension, Entry, Facts, Field, Function, Loop, Object, Process, Reference, SourceLine,
};
pub use set::renumbered;
pub use set::{Counted, LevelTotals, MergeError, Pairs, ResultSet, Reuse, ReuseBucket, Row, Run, Source};
pub use view::{first_level, level_named, object_names, Folded, Missing, Sort, View};
