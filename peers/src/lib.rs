//! memtrail against its peers, function by function.
//!
//! Problem: the single-stepping oracle and the recorder are both ours, and could
//! be wrong together. Two emulators that we did not write see the same programs:
//! Valgrind's lackey and, through a plugin, QEMU. They follow conventions of
//! their own about what one access is.
//!
//! Idea: each tool yields a [`Profile`]: accesses by instruction, at link-time
//! addresses. [`rules`] turns lackey's into the architectural view that memtrail
//! uses, and the architectural view into the pieces that QEMU sees. Then
//! reads, writes and bytes must be *equal* for every function compared.
//!
//! Caches are compared as well: cachegrind and pycachesim are run on the same accesses as our
//! simulation.
//!
//! What is deliberately not here: any decoder of ours. Instructions that need a
//! rule are found in objdump's listing, so that a decoding error of the recorder
//! cannot hide itself.
//!
//! Callers ask for whole programs only where start-up and library code are left
//! out: the emulators choose other string routines than the machine does.
#![forbid(unsafe_code)]

pub mod cachegrind;
pub mod compare;
pub mod fixture;
pub mod lackey;
pub mod listing;
pub mod memtrail;
pub mod profile;
pub mod program;
pub mod pycachesim;
pub mod qemu;
pub mod rules;

pub use compare::{equal, equal_pieces};
pub use fixture::Fixture;
pub use profile::{Counts, Function, Profile};
pub use program::{Program, Scratch};

/// Errors here are for a person who reads a failed test.
pub type Result<T> = std::result::Result<T, String>;
