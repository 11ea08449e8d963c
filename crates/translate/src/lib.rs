//! Basic blocks in, instrumented code and probe plan out: a safe, pure function.
//!
//! The same crate runs twice. Inside the target the runtime calls [`analyze`] and [`emit`]
//! and installs the bytes; outside, the collector calls [`analyze`] on the same code bytes
//! to learn what the records mean. Because the function is pure, nothing but the code
//! itself has to cross the boundary. It is also run a third time, when a signal
//! interrupts translated code: emitting again with a map tells what the machine's state meant.
//!
//! Not for: installing code, linking, system calls, or anything that needs a pointer.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod accesses;
mod analyze;
mod loops;
mod masked;
mod symbolic;

pub use analyze::{analyze, analyze_path, Block, Capture, Error, Exit, Options, Scratch, Way, STAND_INS};
pub use memtrail_plan::Stretch;
pub use symbolic::Atom;

mod code;
pub mod effects;
pub use code::Code;
mod emit;
pub mod layout;
mod marker;
pub use marker::Marker;
mod recover;
pub use recover::{Saved, Settle};

#[cfg(test)]
mod checker;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;

pub use emit::{emit, emit_entry, emit_with, EmitScratch, Emitted, Entry, LinkKind, Place, Recorded, Site, SitePc};
