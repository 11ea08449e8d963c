//! The slow truth about a program's memory accesses.
//!
//! The recorder translates code and derives addresses cleverly; this crate
//! runs the untouched program one instruction at a time under ptrace and, from
//! the registers before each step, writes down what that step touches. It is
//! some four orders of magnitude slower than the program, and shares no code
//! with the translator: what both agree on is very likely so.
//!
//! The caller's duties: run it on a kernel that allows ptrace of children, from
//! a single thread, and give a sink. It is not for measuring, not for attaching,
//! and not for 32-bit code.
//!
//! Known limits, all of single-stepping itself:
//! - the target always finds SIGTRAP unblocked (a step trap that meets a blocked
//!   SIGTRAP makes the kernel forget the target's handler);
//! - a target that sets the trap flag itself does not see its own traps;
//! - the instruction after `mov ss` or `pop ss` runs unseen;
//! - real time is stretched: timers fire earlier in terms of instructions.

pub mod direction;
pub mod machine;
pub mod plan;
mod stepper;
mod sys;
pub mod vector;

pub use stepper::{run, Ending, Options, Summary, LOST_STEP};
