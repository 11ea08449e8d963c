//! The image that memtrail injects into a target.
//!
//! **Problem.** Run the target's code, all of it, through the translator, at nearly native speed,
//! without the target noticing: not its registers, its stack, its signals, its file descriptors or
//! its memory layout.
//!
//! **Idea.** A dispatcher translates blocks on demand into a code cache near the original code;
//! blocks are linked to each other, so that the dispatcher is seldom seen. Whatever could escape
//! (system calls, signals, new threads and processes, changed code) comes back here.
//!
//! **Invariants.**
//! 1. No code of the target ever runs untranslated, until the process is let go.
//! 2. The runtime uses legacy SSE at most, and saves xmm0–15 on the way in: upper vector halves,
//!    x87 and opmask registers stay live in the hardware and are never disturbed.
//! 3. `gs` points to this thread's [`thread::Thread`]; the target's own gs base is virtual.
//! 4. A lock is never wanted by a signal handler that interrupted the runtime: such a handler only
//!    takes a note.
//! 5. No file descriptor stays open, and no memory of the target's is written but what the kernel
//!    itself would write (signal frames).
//!
//! **Where the target is ended.** A limit of ours must not end a program: a thread or process that
//! finds no slot goes on unrecorded, a thread that finds no memory is refused with EAGAIN, and if
//! /proc cannot be read pages that hold code are believed to be executable. [`sys::die`] is left
//! for:
//!
//! | where | why nothing else can be done |
//! |---|---|
//! | `rt_boot`: versions differ, or the probe mode is not known | a stale build; nothing of the target has run |
//! | `rt_boot`, `space::region`, `new_tables`, `fork`: out of memory | the runtime cannot go on without this memory, and has no state to let the target go with |
//! | `panic`, `fault`, `interrupt`: internal errors | the target's state is not known any more |
//! | `attach`: the tracer is gone in the middle of attaching or letting go | half of the process is ours |
//! | `define_block`: block ids used up | 4 billion blocks: records could not be told apart |
//! | `unsupported`: far branches out of 64-bit code | the target's next instruction cannot be translated |
//!
//! Module map: `entry` (assembly), `attach` (processes that were running, and letting go), `thread`, `process`, `buffer` (rings), `cache` (translated
//! code), `dispatch`, `syscalls`, `signals` and `frame` (virtual signals), `notes` and `hooks`
//! (what the target does to memory as a whole), `space` (where the runtime's own memory lies) and
//! `mappings` (how the target is kept off it), `maps`, `heap`, `lock`, `sys`.
#![no_std]
#![no_main]

extern crate alloc;

mod attach;
mod buffer;
mod cache;
mod dispatch;
mod entry;
mod frame;
mod heap;
mod hooks;
mod lock;
mod mappings;
mod maps;
mod notes;
mod pending;
mod process;
mod signals;
mod space;
mod sys;
mod syscalls;
mod thread;

use core::sync::atomic::Ordering::*;
use memtrail_ring::boot::{how, Boot};
use memtrail_ring::{self as ring, Probes};

/// First steps in a new address space; returns into `rt_resume`, unless the process was running
/// already.
#[no_mangle]
extern "C" fn rt_boot(boot: &mut Boot) {
    // SAFETY: the tracer has mapped it there before it jumped to the image.
    unsafe { buffer::use_session_at(boot.session) };
    let s = buffer::session();
    let version = ring::VERSION;
    if boot.version != version.into() || s.magic.load(Relaxed) != ring::MAGIC || s.version.load(Relaxed) != version {
        sys::die(&[b"the runtime and the collector differ in version; rebuild memtrail"]);
    }
    let session = space::Range {
        start: boot.session,
        end: boot.session + ring::SESSION_BYTES as u64,
    };
    let room = space::Range {
        start: boot.room,
        end: boot.room_end,
    };
    space::begin(session, room);
    // The one place where a mode that is not known is refused: plans of another would not fit.
    let Some(probes) = Probes::from_u32(s.probes.load(Relaxed)) else {
        sys::die(&[b"the collector asks for a probe mode that this runtime does not know; rebuild memtrail"]);
    };
    {
        let mut c = cache::CACHE.lock();
        c.reserve();
        c.options.probes = probes;
        c.options.max_block = s.max_block.load(Relaxed);
    }
    thread::new_tables();
    if boot.how == how::ATTACHED {
        attach::begin(boot);
    }
    let state = attach::states(boot)[0];
    let Some(t) = attach::thread(&state) else {
        sys::die(&[b"out of memory: the kernel refused the first thread's area"]);
    };
    thread::set_gs(t.this);
    lock::threads_are_known();
    signals::begin(t);
    signals::set_mask(t.first_mask);
    let how = match boot.how {
        how::LAUNCHED => ring::message::LAUNCHED,
        _ => ring::message::EXEC,
    };
    let (process, pages) = (boot.process as u32, boot.bytes as usize);
    process::begin(process, u32::MAX, how);
    buffer::open(t, process);
    process::announce_thread(t);
    sys::unmap(boot as *const Boot as u64, pages);
    buffer::push_state(t);
    notes::image(t, false);
    dispatch::go_on(t);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    let (file, line) = info.location().map_or(("?", 0), |l| (l.file(), l.line()));
    sys::die(&[
        b"internal error in the target at ",
        file.as_bytes(),
        b" line ",
        &sys::hex(line as u64),
    ])
}

/// Referenced by the precompiled core library; never called, because panics abort.
#[no_mangle]
extern "C" fn rust_eh_personality() {}

/// As above.
#[no_mangle]
extern "C" fn _Unwind_Resume() {
    sys::exit_group(125)
}
