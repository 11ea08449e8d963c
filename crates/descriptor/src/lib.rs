//! Loop descriptors: a sequence of events with parameters, as nests of loops and predicted columns.
//!
//! **Problem.** A program that repeats itself leaves an event sequence as long as its run. What it
//! did follows from its loops, a few numbers each, and from what truly varies.
//!
//! **Idea.** Two steps, both exact, both on whole arrays of events (a *piece*):
//! 1. *Structure*: [`fold`] replaces stretches that repeat, with every parameter moving by its own
//!    constant, by one event: a loop over a body, whose parameters are the trip count, the body's
//!    first parameters and their strides. Such an event is like any other, so the same step again
//!    gives nests, and a triangular nest is one whose inner trip count has a stride. [`stitch`]
//!    does the same across the border of two pieces.
//! 2. *Columns*: [`Encoder`] puts the events of a kind together. The kinds of the events behind
//!    them, and each of their parameters, less what follows from others (module `column`), are
//!    series of numbers, of which only those that are not as expected (module `series`) are
//!    written, like by like; and that goes to a general-purpose compressor of the caller's
//!    ([`Pack`]).
//!
//! **Invariants.** Arithmetic is wrapping addition and multiplication of 64-bit words; nothing is
//! divided but to guess. [`decode`] and [`Dictionary::expand`] give back exactly what went in, and
//! neither panic nor allocate without bound whatever they are given. The result depends on the
//! events alone. Memory is proportional to the piece.
//!
//! Not for: what events mean. An [`Alphabet`] tells how many parameters a leaf has, and which of
//! them are likely related; memory accesses, I/O calls and messages are all the same here.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bytes;
mod column;
mod decode;
mod dictionary;
mod encode;
mod events;
mod fold;
mod learn;
mod series;
mod stitch;
mod streams;

pub use decode::{decode, Decoder, Error};
pub use dictionary::{Definition, Dictionary, Visit, MOST_PARAMETERS};
pub use encode::Encoder;
pub use events::{Batch, Events, BATCH_EVENTS};
pub use fold::{fold, Folder};
pub use stitch::stitch;
pub use streams::{read as read_string, write as write_string, Pack};

/// What a leaf is, as far as this crate cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf<'a> {
    /// Number of parameters.
    pub arity: usize,
    /// For each parameter the *source* it was taken from, below [`SOURCES`], or anything else for
    /// none; may be shorter than `arity`. Parameters from one source are expected to be close to
    /// each other in consecutive events: a machine register, a file's position.
    pub sources: &'a [u8],
}

/// The leaves an event sequence is made of, by key.
pub trait Alphabet {
    /// `None` if there is no such leaf.
    fn leaf(&self, key: u32) -> Option<Leaf<'_>>;
}

/// Number of sources a parameter can be from.
pub const SOURCES: usize = 16;
