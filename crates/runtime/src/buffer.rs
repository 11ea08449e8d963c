//! The producer's side of the rings.
use crate::cache::{paths, CACHE};
use crate::process;
use crate::space;
use crate::sys;
use crate::thread::Thread;
use core::sync::atomic::{AtomicU64, Ordering::*};
use memtrail_ring::{self as ring, collector, record, slot_kind, slot_state, Paths, Session, Slot};

/// [`Thread::slot`] of a thread that nobody listens to.
const NO_SLOT: usize = usize::MAX;

/// Where the tracer has mapped the session file. Set once, before anything else is done.
static SESSION: AtomicU64 = AtomicU64::new(0);

/// # Safety
/// The whole session file is mapped at `address`, for the life of the process.
pub unsafe fn use_session_at(address: u64) {
    SESSION.store(address, Relaxed);
}

/// The address `offset` bytes into the session.
fn in_session(offset: usize) -> u64 {
    SESSION.load(Relaxed) + offset as u64
}

pub fn session() -> &'static Session {
    // SAFETY: see `use_session_at`.
    unsafe { &*(in_session(0) as *const Session) }
}

pub fn slot(index: usize) -> &'static Slot {
    assert!(index < ring::SLOTS);
    // SAFETY: as above; every index below SLOTS lies in the mapping.
    unsafe { &*(in_session(ring::slot_offset(index)) as *const Slot) }
}

/// Where buffer number `n` of a slot lies.
pub fn buffer_address(index: usize, n: u64) -> u64 {
    in_session(ring::slot_offset(index) + ring::buffer_offset((n % ring::BUFFERS as u64) as usize))
}

/// Is anybody draining? Notices a collector that died without a word; whoever notices first says
/// so.
pub fn collector_alive() -> bool {
    let s = session();
    if s.collector.load(Acquire) != collector::ALIVE {
        return false;
    }
    if s.collector_life.load(Acquire) & collector::DIED == 0 {
        return true;
    }
    if s.collector.swap(collector::GONE, AcqRel) == collector::ALIVE {
        sys::say(&[b"the collector is gone; the program goes on unrecorded"]);
    }
    false
}

pub fn ring_doorbell() {
    let s = session();
    s.doorbell.fetch_add(1, AcqRel);
    if s.asleep.swap(0, AcqRel) != 0 {
        sys::futex_wake(&s.doorbell);
    }
}

/// Claim a slot. `None` if all are in use: those that are closed are waited for until the collector
/// has freed one.
pub fn claim(kind: u32, process: u32, thread: u32) -> Option<usize> {
    for _ in 0..PATIENCE {
        if let Some(i) = claim_now(kind, process, thread) {
            return Some(i);
        }
        if !(0..slots()).any(|i| slot(i).state.load(Relaxed) == slot_state::CLOSED) {
            return None;
        }
        ring_doorbell();
        let never = core::sync::atomic::AtomicU32::new(0);
        sys::futex_wait(&never, 0, 10);
    }
    None
}

/// Times of 10 ms.
const PATIENCE: usize = 500;

/// Slots that there are.
fn slots() -> usize {
    (session().slots.load(Relaxed) as usize).min(ring::SLOTS)
}

fn claim_now(kind: u32, process: u32, thread: u32) -> Option<usize> {
    let s = session();
    for i in 0..slots() {
        let c = slot(i);
        if c.state
            .compare_exchange(slot_state::FREE, slot_state::CLAIMING, AcqRel, Relaxed)
            .is_err()
        {
            continue;
        }
        let guard = |n| sys::protect(buffer_address(i, n) + ring::BUFFER_BYTES as u64, ring::PAGE, 0);
        if !(0..ring::BUFFERS as u64).all(guard) {
            // The kernel has no mappings left for this process. Without guard pages there is no
            // ring.
            c.state.store(slot_state::FREE, Release);
            return None;
        }
        c.kind.store(kind, Relaxed);
        c.pid.store(sys::getpid(), Relaxed);
        c.tid.store(sys::gettid(), Relaxed);
        c.process.store(process, Relaxed);
        c.thread.store(thread, Relaxed);
        c.request.store(0, Relaxed);
        c.buffers[0].words.store(0, Relaxed);
        c.buffers[0].begin.store(sys::tsc(), Relaxed);
        s.slot_high.fetch_max(i as u32 + 1, AcqRel);
        c.state.store(slot_state::ACTIVE, Release);
        ring_doorbell();
        return Some(i);
    }
    None
}

/// Give the thread a data slot, or have it go on unrecorded if there is none.
pub fn open(t: &mut Thread, process: u32) {
    t.tid = sys::gettid();
    t.unrecorded = true;
    let followed = process == 0 || session().follow.load(Relaxed) != 0;
    // Without a collector nobody would give a slot back.
    let wanted = followed && collector_alive();
    let claimed = match wanted && process::is_listed() {
        true => claim(slot_kind::DATA, process, t.serial),
        false => None,
    };
    match claimed {
        Some(i) => {
            t.slot = i;
            t.produced = 0;
            t.unrecorded = session().discard.load(Relaxed) != 0;
            t.buffer = buffer_address(i, 0);
        }
        None => {
            if wanted {
                leave_out();
            }
            // What the code writes goes to a buffer of the thread's own, over and over.
            t.slot = NO_SLOT;
            t.buffer = space::region(ring::BUFFER_STRIDE, sys::PROT_READ | sys::PROT_WRITE);
            sys::protect(t.buffer + ring::BUFFER_BYTES as u64, ring::PAGE, 0);
        }
    }
    t.cursor = t.buffer;
}

/// A thread goes on unrecorded, because there is no slot for it. The user is told of the first at
/// once; how many there were is told at the end.
fn leave_out() {
    if session().unrecorded_threads.fetch_add(1, Relaxed) == 0 {
        process::warn(&[b"there are more threads and processes at once than can be recorded: some go on unrecorded"]);
    }
}

/// The thread writes no more: submit what there is and hand the slot over.
pub fn close(t: &mut Thread) {
    if t.slot == NO_SLOT {
        let buffer = core::mem::take(&mut t.buffer);
        space::close(buffer, ring::BUFFER_STRIDE);
        return;
    }
    let c = slot(t.slot);
    if session().discard.load(Relaxed) != 0 {
        session()
            .discarded_words
            .fetch_add(t.discarded + (t.cursor - t.buffer) / 8, Relaxed);
        t.discarded = 0;
        // Nobody will read the buffer, but the next owner must find it zero.
        // SAFETY: the buffer is ours.
        unsafe { core::ptr::write_bytes(t.buffer as *mut u8, 0, ring::BUFFER_BYTES) };
    } else if !t.unrecorded {
        submit(t, t.cursor);
    }
    t.buffer = 0;
    t.unrecorded = true;
    c.state.store(slot_state::CLOSED, Release);
    ring_doorbell();
}

/// Tell the collector how far the current buffer is valid, at a system call.
pub fn publish(t: &Thread) {
    if !t.unrecorded {
        let words = (t.cursor - t.buffer) / 8;
        slot(t.slot).buffers[(t.produced % ring::BUFFERS as u64) as usize]
            .words
            .store(words, Release);
    }
}

fn submit(t: &mut Thread, cursor: u64) {
    let c = slot(t.slot);
    let head = &c.buffers[(t.produced % ring::BUFFERS as u64) as usize];
    head.words.store((cursor - t.buffer) / 8, Relaxed);
    head.end.store(sys::tsc(), Relaxed);
    t.produced += 1;
    c.produced.store(t.produced, Release);
    if session().asleep.load(Relaxed) != 0 {
        ring_doorbell();
    }
}

/// Wait until the ring has a free buffer. False if the collector is gone.
fn wait_for_space(t: &Thread) -> bool {
    let c = slot(t.slot);
    loop {
        if t.produced - c.consumed.load(Acquire) < ring::BUFFERS as u64 {
            return true;
        }
        let seen = c.space.load(Acquire);
        c.waiting.store(1, SeqCst);
        if t.produced - c.consumed.load(SeqCst) < ring::BUFFERS as u64 {
            return true;
        }
        ring_doorbell();
        sys::futex_wait(&c.space, seen, 200);
        if !collector_alive() {
            return false;
        }
    }
}

/// The buffer is full up to `cursor`: before it is handed in, its records show which blocks belong
/// together.
pub fn join_paths(t: &mut Thread, cursor: u64) {
    t.filled += 1;
    let manner = Paths::from_u32(session().paths.load(Relaxed)).unwrap_or(Paths::Off);
    if t.unrecorded || manner == Paths::Off || !paths::is_due(t.filled) {
        return;
    }
    CACHE.lock().join(records(t.buffer, cursor), manner);
    t.looked_at = 0;
}

/// As [`join_paths`] with what is new since then, if all is to be joined that can be.
pub fn join_eagerly(t: &mut Thread) {
    if t.unrecorded || session().paths.load(Relaxed) != Paths::Eager as u32 {
        return;
    }
    let from = if (t.buffer..t.cursor).contains(&t.looked_at) {
        t.looked_at
    } else {
        t.buffer
    };
    t.looked_at = t.cursor;
    CACHE.lock().join(records(from, t.cursor), Paths::Eager);
}

/// Whole records of this thread's buffer, which is not submitted yet.
fn records(from: u64, cursor: u64) -> &'static [u64] {
    // SAFETY: the buffer is ours, and written up to the cursor.
    unsafe { core::slice::from_raw_parts(from as *const u64, (cursor - from) as usize / 8) }
}

/// The buffer is full up to `cursor`; `partial` words of an unfinished record follow it. Returns
/// the new cursor. May run in a signal handler.
pub fn next_buffer(t: &mut Thread, cursor: u64, partial: usize) -> u64 {
    let old = t.buffer;
    // Taken out before the buffer is submitted: from then on it is the collector's.
    let mut kept = [0u64; ring::MAX_RECORD_WORDS];
    for (i, k) in kept[..partial].iter_mut().enumerate() {
        let at = (cursor + 8 * i as u64) as *mut u64;
        // SAFETY: inside the buffer, which is still ours.
        unsafe {
            *k = at.read();
            at.write(0);
        }
    }
    if !t.unrecorded {
        submit(t, cursor);
        if wait_for_space(t) {
            t.buffer = buffer_address(t.slot, t.produced);
            let head = &slot(t.slot).buffers[(t.produced % ring::BUFFERS as u64) as usize];
            head.words.store(0, Relaxed);
            head.begin.store(sys::tsc(), Relaxed);
        } else {
            t.unrecorded = true;
        }
    } else {
        t.discarded += (cursor - old) / 8;
    }
    for (i, k) in kept[..partial].iter().enumerate() {
        // SAFETY: a record is far shorter than a buffer.
        unsafe { ((t.buffer + 8 * i as u64) as *mut u64).write(*k) };
    }
    t.buffer
}

/// Hands in what was written so far, whose end then has a time stamp: what another thread is made
/// to do from now on comes after it.
pub fn stamp(t: &mut Thread) {
    if !t.unrecorded && t.cursor > t.buffer {
        t.cursor = next_buffer(t, t.cursor, 0);
    }
}

/// Append a special record at `t.cursor`.
pub fn push(t: &mut Thread, words: &[u64]) {
    if t.buffer == 0 {
        return;
    }
    if t.cursor + 8 * words.len() as u64 > t.buffer + ring::BUFFER_BYTES as u64 {
        t.cursor = next_buffer(t, t.cursor, 0);
    }
    for (i, w) in words.iter().enumerate().rev() {
        // SAFETY: the buffer has room. Back to front, so that the head appears last.
        unsafe { (*((t.cursor + 8 * i as u64) as *const AtomicU64)).store(*w, Release) };
    }
    t.cursor += 8 * words.len() as u64;
}

pub fn push_state(t: &mut Thread) {
    let words = [record::STATE, t.regs[crate::thread::RSP], t.fs_base, t.app_gs];
    push(t, &words);
}
