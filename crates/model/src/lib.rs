//! The nouns that every stage of memtrail shares.
//!
//! An *access* exists only between a decoder and a sink: it is never stored.
//! This crate has no I/O, no allocation and no unsafe code, so that code
//! inside the target and code outside it can both use it.
#![no_std]
#![forbid(unsafe_code)]

use core::fmt;

/// What an instruction did to memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    Read = 0,
    Write = 1,
    /// A software prefetch: kept in order among the others, but neither a read nor a write.
    Prefetch = 2,
}

impl Kind {
    /// The one-letter form used by `dump`: `R`, `W` or `P`.
    pub const fn letter(self) -> char {
        match self {
            Kind::Read => 'R',
            Kind::Write => 'W',
            Kind::Prefetch => 'P',
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Write::write_char(f, self.letter())
    }
}

/// Serial number of a thread in a recording: threads of all processes, numbered
/// from 0 in order of creation. Kernel thread ids are recycled, serials never.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
pub struct Thread(pub u32);

/// One user-space data access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    pub thread: Thread,
    /// Address of the instruction in the target.
    pub pc: u64,
    pub kind: Kind,
    pub addr: u64,
    /// Bytes touched.
    pub size: u32,
}

impl fmt::Display for Access {
    /// The `dump` form: `thread pc kind address size`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:#x} {} {:#x} {}",
            self.thread.0, self.pc, self.kind, self.addr, self.size
        )
    }
}

/// Whoever consumes accesses: counters, printers, simulators.
pub trait AccessSink {
    /// Accesses of one thread, in program order.
    fn accesses(&mut self, batch: &[Access]);
}
