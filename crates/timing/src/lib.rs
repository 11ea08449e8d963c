//! How long a program takes on an out-of-order core, and which accesses it waits for.
//!
//! **Problem.** Misses do not say what they cost: some hide behind each other, others hold up
//! everything. What counts are the cycles in which nothing leaves the reorder buffer, charged to
//! the access at its head.
//!
//! **Idea.** The recording has every executed instruction in order, with its accesses. Code bytes
//! give each instruction a [`Template`] of micro-operations with the registers they read and write.
//! What does not depend on time is decided in program order, once ([`CoreFlow`]): at which level an
//! access hits, whether a branch was foreseen, whether a page or a row was open. A [`CoreWindow`] then
//! gives each micro-operation the cycles in which it is dispatched, issued, complete and committed,
//! from those of the ones before it, without going through cycles one by one.
//!
//! **Invariants.** Whether a micro-operation can have a resource depends on *older* ones only; that
//! is what makes one pass in program order exact. A model in the tests goes through the same
//! machine cycle by cycle, and has to agree. Every cycle is either one in which something commits
//! or is charged to exactly one cause.
//!
//! **Caller's duties.** Fetches come before the accesses of their instruction; fetches carry the
//! points that [`Templates`] were made for.
//!
//! Not for: opening recordings, names, tables.
#![forbid(unsafe_code)]

mod cycles;
mod flow;
mod levels;
mod memory;
mod micro;
mod predictor;
pub mod presets;
mod spec;
mod template;
mod window;

pub use flow::{CoreFlow, Tagged};
pub use levels::{Hit, LevelStack, Translation};
pub use memory::Rows;
pub use micro::{Micro, Reach, Register, UnitClass, NO_REGISTER, REGISTERS, TEMPORARY, VALUE};
pub use predictor::Tournament;
pub use spec::{ClassSpec, CoreSpec, CoreSpecError, LevelSpec, MemorySpec, PredictorSpec, TlbSpec};
pub use template::{Control, Template, Templates};
pub use window::{Cause, Charged, CoreWindow, Times};
