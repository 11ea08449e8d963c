//! The one thing that a signal handler and the code it interrupts have in common.
//!
//! **Problem.** A signal may arrive while the runtime itself runs on this thread, with a
//! `&mut Thread` in its hands. The handler must not look at the thread then.
//!
//! **Protocol.** The handler's whole action is to [`put`](SignalBox::put) the signal into the box,
//! which lies behind the [`Thread`](crate::thread::Thread) and is no part of it, and to have the
//! kernel block all other signals when it returns. The dispatcher [`take`](SignalBox::take)s the
//! signal before it goes back to translated code, and enters the target's handler, which sets the
//! mask anew. So the box is written by a handler only while it is empty, and read by the thread
//! only while it is full. Both run on one thread: compiler fences are order enough.
//!
//! The five synchronous signals are never blocked, because the ring's guard pages need them. If one
//! is *sent* while the box is full it is dropped, as a second instance of a pending signal is.
use core::cell::UnsafeCell;
use core::sync::atomic::{compiler_fence, AtomicU64, Ordering::*};
use memtrail_ring::boot::PARK_BIT;

const FULL: u64 = 1;

/// A signal taken from the kernel and not yet given to the target.
#[derive(Clone, Copy)]
pub struct PendingSignal {
    pub number: u32,
    pub info: [u64; 16],
    /// The kernel's mask when it came.
    pub mask: u64,
}

#[repr(C)]
pub struct SignalBox {
    /// Bit 0: the box is full. [`PARK_BIT`]: the thread is asked to park. The assembly looks at it,
    /// too, and the tracer sets the second bit of a thread that stands still.
    pub waiting: AtomicU64,
    signal: UnsafeCell<PendingSignal>,
}

impl SignalBox {
    pub fn is_full(&self) -> bool {
        self.waiting.load(Relaxed) & FULL != 0
    }

    /// Called by a signal handler: the thread parks before it goes back to translated code.
    pub fn ask_to_park(&self) {
        self.waiting.fetch_or(PARK_BIT, Relaxed);
    }

    pub fn is_to_park(&self) -> bool {
        self.waiting.load(Relaxed) & PARK_BIT != 0
    }

    /// The thread goes on after all.
    pub fn need_not_park(&self) {
        self.waiting.fetch_and(!PARK_BIT, Relaxed);
    }

    /// Called by the signal handler that interrupted the runtime.
    ///
    /// # Safety
    /// The box is the calling thread's own.
    pub unsafe fn put(&self, signal: PendingSignal) {
        if self.is_full() {
            return;
        }
        // SAFETY: the box is empty, so the thread, which this handler interrupted, does not read
        // it.
        unsafe { self.signal.get().write(signal) };
        compiler_fence(Release);
        self.waiting.fetch_or(FULL, Relaxed);
    }

    /// Called by the thread's dispatcher.
    ///
    /// # Safety
    /// The box is the calling thread's own.
    pub unsafe fn take(&self) -> Option<PendingSignal> {
        if !self.is_full() {
            return None;
        }
        compiler_fence(Acquire);
        // SAFETY: the box is full, so no handler writes to it.
        let signal = unsafe { self.signal.get().read() };
        compiler_fence(Release);
        self.waiting.fetch_and(!FULL, Relaxed);
        Some(signal)
    }
}
