//! The shared-memory ABI between the runtime inside the target and the collector outside it.
//!
//! **Problem.** Every thread of every target process produces words at memory speed; one
//! collector process drains them. Nothing may be lost when a thread, a process or the
//! collector dies, and the producer must not execute an instruction more than it has to.
//!
//! **Idea.** One *session file* (a memfd) is mapped by the collector and by every target
//! process (inherited by fork, mapped again after exec). It holds a [`Session`] header and
//! an array of *slots*. A slot is a small ring of buffers with one producer and one
//! consumer; each buffer is followed by a guard page, so that the producer needs no
//! bounds check: the store that runs off the end faults, and the fault switches buffers.
//! - a **data slot** belongs to a thread and holds raw records;
//! - a **definitions slot** belongs to a process and holds [`message`]s: blocks, threads, maps.
//!
//! **Invariants.**
//! 1. A buffer is all zero when the producer gets it: the consumer zeroes it before release.
//!    A record never starts with a zero word, so the end of what a killed thread wrote can
//!    be found by scanning.
//! 2. `produced - consumed <= BUFFERS`; buffer `n` lives at index `n % BUFFERS`.
//! 3. A definition is published before the first record that refers to it is written,
//!    so a consumer that meets an unknown id finds it by draining definitions again.
//! 4. Ids (blocks, threads, processes) come from counters in the header and are unique in a
//!    session.
//!
//! **Versioning.** Any change to a type, constant or meaning in this file bumps [`VERSION`].
//! The image inside the target is built from the same source, so the two never differ in
//! practice; the version is checked all the same, because a stale build could lie.
#![no_std]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, AtomicU64};

pub mod boot;
pub mod hook;
pub mod message;
pub mod record;

pub const MAGIC: u64 = u64::from_le_bytes(*b"memtrail");
pub const VERSION: u32 = 6;

pub const PAGE: usize = 4096;
/// Bytes of one buffer. 512 KB: an eighth of the faults of 64 KB, and still in a second-level cache
/// of 1 MB.
pub const BUFFER_BYTES: usize = 512 * 1024;
pub const BUFFER_WORDS: usize = BUFFER_BYTES / 8;
/// Buffers in a slot.
pub const BUFFERS: usize = 4;
/// A buffer and the guard page behind it.
pub const BUFFER_STRIDE: usize = BUFFER_BYTES + PAGE;
/// A slot: its control page, then the buffers.
pub const SLOT_BYTES: usize = PAGE + BUFFERS * BUFFER_STRIDE;
/// Slots in a session: an upper limit on recorded threads and processes alive at once.
pub const SLOTS: usize = 4096;
/// Where slot 0 begins in the session file.
pub const SLOTS_OFFSET: usize = PAGE;
/// Size of the (sparse) session file.
pub const SESSION_BYTES: usize = SLOTS_OFFSET + SLOTS * SLOT_BYTES;
/// The longest record, in words, header included. Blocks are cut so that none is longer.
pub const MAX_RECORD_WORDS: usize = 512;

pub const fn slot_offset(slot: usize) -> usize {
    SLOTS_OFFSET + slot * SLOT_BYTES
}
/// Offset of a buffer inside its slot.
pub const fn buffer_offset(index: usize) -> usize {
    PAGE + index * BUFFER_STRIDE
}

/// How accesses are captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Probes {
    /// No probes: translate only.
    None = 0,
    /// One captured address per access: the oracle mode.
    Naive = 1,
    /// One record per basic block, addresses derived offline.
    Block = 2,
    /// As `Block`, and one record per entry of an affine self-loop.
    Loop = 3,
}

impl Probes {
    pub const fn from_u32(v: u32) -> Option<Probes> {
        Some(match v {
            0 => Probes::None,
            1 => Probes::Naive,
            2 => Probes::Block,
            3 => Probes::Loop,
            _ => return None,
        })
    }
}

/// Whether blocks that usually follow each other are joined to paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Paths {
    Off = 0,
    /// Where a program spends its time.
    Hot = 1,
    /// Wherever two follow each other, and as soon as they do: for tests.
    Eager = 2,
}

impl Paths {
    pub const fn from_u32(v: u32) -> Option<Paths> {
        Some(match v {
            0 => Paths::Off,
            1 => Paths::Hot,
            2 => Paths::Eager,
            _ => return None,
        })
    }
}

/// Values of [`Session::collector`].
pub mod collector {
    /// The collector is draining.
    pub const ALIVE: u32 = 1;
    /// The collector said it will drain no more: targets go on unrecorded.
    pub const GONE: u32 = 2;
    /// In [`super::Session::collector_life`]: the collector died without a word. The bit is the
    /// kernel's FUTEX_OWNER_DIED.
    pub const DIED: u32 = 0x4000_0000;
}

/// The session header, at offset 0 of the session file.
#[repr(C)]
pub struct Session {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    /// See [`collector`].
    pub collector: AtomicU32,
    pub collector_pid: AtomicU32,
    /// A robust futex that the collector's first thread owns: however it ends, the kernel sets
    /// [`collector::DIED`]. Unlike its process id this is right in every pid namespace, for
    /// zombies, and when ids are used again.
    pub collector_life: AtomicU32,
    /// [`Probes`].
    pub probes: AtomicU32,
    /// Most instructions in a block.
    pub max_block: AtomicU32,
    /// [`Paths`].
    pub paths: AtomicU32,
    /// 1: records are thrown away inside the target and never shown to the collector.
    pub discard: AtomicU32,
    /// 1: children (fork, exec) are recorded too.
    pub follow: AtomicU32,
    /// Next block id; ids below [`record::FIRST_BLOCK`] are taken by special records.
    pub next_block: AtomicU32,
    /// Next thread serial.
    pub next_thread: AtomicU32,
    /// Next id of a text.
    pub next_text: AtomicU32,
    /// 1: the collector looks for allocation functions and answers when it is asked for
    /// [hooks](hook).
    pub hooks: AtomicU32,
    /// Next process serial (a process keeps its serial across exec).
    pub next_process: AtomicU32,
    /// Futex the collector sleeps on; producers add 1 and wake it when `asleep` is set.
    pub doorbell: AtomicU32,
    pub asleep: AtomicU32,
    /// Slots at and above this index have never been claimed.
    pub slot_high: AtomicU32,
    /// Slots that may be claimed: [`SLOTS`], or fewer in a test.
    pub slots: AtomicU32,
    /// Threads that found no slot and run on unrecorded.
    pub unrecorded_threads: AtomicU32,
    /// Words thrown away under `discard`, added up as threads end.
    pub discarded_words: AtomicU64,
}

/// Values of [`Slot::state`]. free -> claiming (producer) -> active (producer) -> closed (producer,
/// or the collector for a dead process) -> free (collector, once drained and zeroed).
pub mod slot_state {
    pub const FREE: u32 = 0;
    pub const CLAIMING: u32 = 1;
    pub const ACTIVE: u32 = 2;
    pub const CLOSED: u32 = 3;
}

/// Values of [`Slot::kind`].
pub mod slot_kind {
    pub const DATA: u32 = 1;
    pub const DEFINITIONS: u32 = 2;
}

/// Values of [`Slot::request`] (definitions slots): the exec hand-shake.
///
/// A thread about to call execve writes its tid to `request_tid` and sets `SEIZE`, rings, and waits
/// on `request` as a futex. The collector seizes that thread with PTRACE_SEIZE and
/// PTRACE_O_TRACEEXEC and answers `READY` (or `REFUSED`: exec goes on unrecorded). If execve fails
/// the thread sets `FAILED` and waits for `NONE`, which the collector sets after letting go.
pub mod request {
    pub const NONE: u32 = 0;
    pub const SEIZE: u32 = 1;
    pub const READY: u32 = 2;
    pub const REFUSED: u32 = 3;
    pub const FAILED: u32 = 4;
    /// A thread is about to ask: the slot has one request at a time.
    pub const TAKEN: u32 = 5;
}

/// One buffer's header, in the control page.
#[repr(C)]
pub struct BufferHead {
    /// Words written. Data slots: set when the buffer is submitted, and as a hint at system calls.
    /// Definitions slots: published after every message.
    pub words: AtomicU64,
    /// Time stamp counter when the producer began and ended this buffer.
    pub begin: AtomicU64,
    pub end: AtomicU64,
}

/// A slot's control page.
#[repr(C)]
pub struct Slot {
    pub state: AtomicU32,
    pub kind: AtomicU32,
    pub pid: AtomicU32,
    pub tid: AtomicU32,
    /// Process serial.
    pub process: AtomicU32,
    /// Thread serial (data slots).
    pub thread: AtomicU32,
    /// Buffers submitted by the producer.
    pub produced: AtomicU64,
    /// Buffers released by the consumer.
    pub consumed: AtomicU64,
    /// Futex a producer waits on while the ring is full; the consumer adds 1 and wakes it if
    /// `waiting`.
    pub space: AtomicU32,
    pub waiting: AtomicU32,
    /// See [`request`].
    pub request: AtomicU32,
    pub request_tid: AtomicU32,
    pub buffers: [BufferHead; BUFFERS],
    /// Definitions slots: see [`hook`].
    pub hooks: hook::Answer,
}

const _: () = assert!(core::mem::size_of::<Session>() <= PAGE);
const _: () = assert!(core::mem::size_of::<Slot>() <= PAGE);
const _: () = assert!(MAX_RECORD_WORDS * 4 <= BUFFER_WORDS);
