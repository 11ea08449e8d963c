//! The nouns that every stage of memtrail shares.
//!
//! An *access* exists only between a decoder and a sink: it is never stored.
//! This crate has no I/O, no allocation and no unsafe code, so that code
//! inside the target and code outside it can both use it.
#![no_std]
#![forbid(unsafe_code)]

mod sink;
#[doc(hidden)]
pub mod testing;

use core::fmt;
pub use sink::{AccessSink, Event, Reply, SinkAdapter, Wants};

/// The greatest common divisor, of strides and periods; of 0 and `a` it is `a`.
pub const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// What an instruction did to memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    Read = 0,
    Write = 1,
    /// A software prefetch: kept in order among the others, but neither a read nor a write.
    Prefetch = 2,
    /// The fetch of an instruction: only for sinks that want them, and in no number of accesses.
    Fetch = 3,
}

impl Kind {
    /// The one-letter form used by `dump`: `R`, `W` or `P`; `I` for fetches, which it never prints.
    pub const fn letter(self) -> char {
        match self {
            Kind::Read => 'R',
            Kind::Write => 'W',
            Kind::Prefetch => 'P',
            Kind::Fetch => 'I',
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

/// Dense number of a reference point: one instruction's accesses of one kind. The block table
/// numbers them and knows what they are; numbers of different tables have nothing to do with each
/// other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Point(pub u32);

impl Point {
    /// Of an access that came from no table.
    pub const NONE: Point = Point(u32::MAX);

    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One user-space data access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C)]
pub struct Access {
    /// Address of the instruction in the target.
    pub pc: u64,
    pub addr: u64,
    /// Bytes touched.
    pub size: u32,
    pub point: Point,
    pub thread: Thread,
    pub kind: Kind,
}

// Replay makes hundreds of millions of them per second: two to a cache line.
const _: () = assert!(size_of::<Access>() == 32);

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

/// One access of the body of a loop whose addresses move evenly.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LoopAccess {
    /// Address of the instruction in the target.
    pub pc: u64,
    pub kind: Kind,
    pub point: Point,
    /// Bytes touched.
    pub size: u32,
    /// Address in the first iteration.
    pub addr: u64,
    /// How far the address moves from one iteration to the next, modulo 2^64.
    pub stride: u64,
}

impl LoopAccess {
    /// Moves on by `n` iterations.
    #[inline]
    pub fn advance(&mut self, n: u64) {
        self.addr = self.addr.wrapping_add(n.wrapping_mul(self.stride));
    }

    /// As it is at some address.
    #[inline(always)]
    pub fn at(&self, thread: Thread, addr: u64) -> Access {
        Access {
            thread,
            pc: self.pc,
            kind: self.kind,
            addr,
            size: self.size,
            point: self.point,
        }
    }
}

/// Iterations of a loop, whole: access `j` of iteration `i` touches
/// `body[j].addr + i * body[j].stride`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopRun<'a> {
    pub thread: Thread,
    pub trips: u64,
    /// The accesses of each iteration, in order; fetches, if they are wanted, are among them and do
    /// not move.
    pub body: &'a [LoopAccess],
}

impl LoopRun<'_> {
    /// Its accesses, one by one.
    pub fn accesses(&self) -> impl Iterator<Item = Access> + '_ {
        let thread = self.thread;
        let iteration = move |i: u64| {
            self.body
                .iter()
                .map(move |a| a.at(thread, a.addr.wrapping_add(i.wrapping_mul(a.stride))))
        };
        (0..self.trips).flat_map(iteration)
    }
}

/// How an access of a loop's body, and what loops inside make of it, moves from one iteration of
/// the loop to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mover {
    pub point: Point,
    pub kind: Kind,
    /// Accesses in one iteration of the loop: more than 1 if loops are inside.
    pub times: u64,
    /// By how many bytes, modulo 2^64.
    pub shift: u64,
    /// The first address in the first iteration, and how many bytes are touched there.
    pub first: u64,
    pub size: u32,
    /// The other addresses of an iteration are multiples of this away from the first; 0 if there
    /// are no others.
    pub grain: u64,
    /// The first and the last byte that are touched in all iterations.
    pub low: u64,
    pub high: u64,
}

/// A loop in which every access moves evenly: what an access touches in one iteration it touches in
/// the next, so much further on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeat<'a> {
    pub thread: Thread,
    pub trips: u64,
    /// Of one iteration.
    pub accesses: u64,
    /// How they move: each access of the body, in order.
    pub movers: &'a [Mover],
}

/// How control moved where it was no jump within a function: what call paths are made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Flow {
    /// The call instruction at `site` pushed its return address at `slot` and went to `target`.
    Call { site: u64, target: u64, slot: u64 },
    /// A return instruction took the return address at `slot`.
    Return { slot: u64 },
    /// The stack pointer was set to something that does not follow from its value before: a frame
    /// was left, a jump went far up the stack, or another stack is used from here on.
    Stack { rsp: u64 },
    /// The base of the thread's own memory, the segment base of `fs`, is here from now on.
    ThreadPointer { base: u64 },
    /// A signal handler begins; the calls it makes are on top of what it interrupted.
    Signal { number: u32 },
    /// It returned.
    SignalReturn,
}

/// How control went from one place to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Via {
    /// A branch, or by going straight on.
    Jump,
    Call,
    Return,
}

/// Control went from the end of a stretch of instructions to the beginning of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Edge {
    /// The first instruction of the stretch.
    pub start: u64,
    /// Its last instruction that ran: the branch, call or return, if it is one.
    pub last: u64,
    /// The first byte behind that.
    pub end: u64,
    pub target: u64,
    pub via: Via,
}

/// Why a thread was not recorded for some time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GapReason {
    /// The user stopped the recording and went on with it.
    Stopped = 1,
    /// Only samples are recorded.
    Sampled = 2,
    /// A limit of the recorder's was reached.
    Limit = 3,
}

impl GapReason {
    pub fn from_number(number: u64) -> Option<GapReason> {
        [GapReason::Stopped, GapReason::Sampled, GapReason::Limit]
            .into_iter()
            .find(|&reason| reason as u64 == number)
    }
}

/// What a thread did to blocks of memory as a whole, or to other threads, in its place among its
/// accesses. Blocks live from the return of the function that made them to the entry of the one
/// that gives them back: what the allocator does in between to its own memory is the allocator's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Note {
    /// Allocation function number `hook` returned a block.
    Alloc { hook: u32, address: u64, bytes: u64 },
    /// Function number `hook` was entered to give a block back; one that resizes also says so.
    Free { hook: u32, address: u64 },
    /// Function number `hook` returned a block for an old one (0: for none). If `address` is 0 it
    /// failed, and the old one is still there.
    Realloc {
        hook: u32,
        old: u64,
        address: u64,
        bytes: u64,
    },
    /// Memory was mapped: `source` is the number of the text that names the file or area,
    /// [`Note::ANONYMOUS`] if there is none.
    Map {
        address: u64,
        bytes: u64,
        protection: u32,
        source: u32,
        /// Where in the file it begins.
        offset: u64,
    },
    /// Mappings in this range went away; from 0 to the end of all memory if a new image begins
    /// (exec).
    Unmap { address: u64, bytes: u64 },
    /// A mapping was moved or resized.
    Remap {
        old: u64,
        old_bytes: u64,
        address: u64,
        bytes: u64,
    },
    /// The heap segment of the process now ends here.
    Break { address: u64 },
    /// The program gave this memory a name, number `text`; with no bytes, the block that holds the
    /// address.
    Name { address: u64, bytes: u64, text: u32 },
    /// The program entered the region named `text`.
    Enter { text: u32 },
    /// The program left it.
    Leave { text: u32 },
    /// The thread waits for the futex at an address, as long as that has this value.
    Wait { address: u64, value: u64 },
    /// It was woken, or did not wait: 0, or the negative number of an error.
    Woken { address: u64, result: i64 },
    /// The thread wakes those who wait for a futex: how many, or the negative number of an error.
    Wake { address: u64, result: i64 },
    /// The thread makes another, unless that failed. At the other's end the word at `cleared`, if
    /// that is not 0, becomes 0 and its futex is woken: whoever joins it waits for that.
    Start { thread: Option<Thread>, cleared: u64 },
    /// The thread ends.
    End { status: u32 },
    /// The thread was not recorded between two values of the time stamp counter, and did this
    /// meanwhile, as far as it is known.
    Gap {
        begin: u64,
        end: u64,
        reason: GapReason,
        instructions: Option<u64>,
        accesses: Option<u64>,
    },
}

impl Note {
    /// Source of a mapping that has no name.
    pub const ANONYMOUS: u32 = u32::MAX;
}
