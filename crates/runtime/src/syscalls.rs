//! The target's system calls: most pass through, some must not.
use crate::attach;
use crate::buffer::{self, session};
use crate::cache::{ANY_GUARDED, CACHE, GIVEN_UP};
use crate::entry::{self, app_syscall, ABANDONED};
use crate::heap;
use crate::mappings;
use crate::notes;
use crate::process::{self, PROCESS};
use crate::signals;
use crate::space;
use crate::sys;
use crate::thread::{self, Thread, R10, R11, R8, R9, RAX, RCX, RDI, RDX, RSI, RSP};
use core::sync::atomic::Ordering::*;
use memtrail_ring::{record, request};

const CLONE_VM: u64 = 0x100;
const CLONE_SIGHAND: u64 = 0x800;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;

/// Carry out the system call at `t.pc`; `t.pc` moves on past it, unless a signal came first.
pub fn run(t: &mut Thread) {
    let n = t.regs[RAX] as usize;
    let a = [
        t.regs[RDI],
        t.regs[RSI],
        t.regs[RDX],
        t.regs[R10],
        t.regs[R8],
        t.regs[R9],
    ];
    let at = t.pc;
    buffer::publish(t);
    if t.mail().is_full() {
        return;
    }
    let r = match n {
        sys::RT_SIGRETURN => return signals::sigreturn(t),
        sys::RT_SIGACTION => signals::sigaction(t, a[0], a[1], a[2], a[3]),
        sys::RT_SIGPROCMASK => signals::sigprocmask(t, a[0], a[1], a[2], a[3]),
        sys::SIGALTSTACK => signals::sigaltstack(t, a[0], a[1]),
        sys::MMAP | sys::MUNMAP | sys::MPROTECT | sys::MREMAP | sys::PKEY_MPROTECT => mappings::change(t, n, &a),
        sys::BRK | sys::SHMAT | sys::SHMDT => mappings::segment(t, n, &a),
        sys::MADVISE | sys::MSEAL | sys::REMAP_FILE_PAGES => mappings::treat(n, &a),
        sys::CLONE => clone(t, a[0], a[1], a[2], a[3], a[4]),
        sys::FORK => clone(t, 17, 0, 0, 0, 0),
        sys::VFORK => clone(t, 17 | CLONE_VM | CLONE_VFORK, 0, 0, 0, 0),
        // The C library falls back to clone.
        sys::CLONE3 => sys::ENOSYS,
        sys::RSEQ => attach::rseq(t, &a),
        sys::EXECVE | sys::EXECVEAT => exec(t, n, &a),
        sys::EXIT => return exit_thread(t, a[0]),
        sys::EXIT_GROUP => {
            process::announce_exit(t, a[0] as u32);
            buffer::close(t);
            // If the collector died and nobody has noticed, this is the last chance to say so.
            buffer::collector_alive();
            sys::exit_group(a[0] as i32)
        }
        sys::ARCH_PRCTL => arch_prctl(t, a[0], a[1]),
        sys::FUTEX => futex(t, &a),
        _ => pass(n, &a),
    };
    finish(t, at, r);
}

fn words(a: &[u64; 6]) -> [usize; 6] {
    a.map(|v| v as usize)
}

/// A call of the target's with its own arguments, which no signal interrupts.
pub fn raw(n: usize, a: &[u64; 6]) -> isize {
    // SAFETY: the target's own call with its own arguments.
    unsafe { sys::call(n, words(a)) }
}

/// An ordinary call.
fn pass(n: usize, a: &[u64; 6]) -> isize {
    if ANY_GUARDED.load(Relaxed) {
        make_writable(n, a);
    }
    loop {
        let before = GIVEN_UP.load(Acquire);
        let r = app_syscall(n, &words(a));
        // Perhaps the kernel could not write to a page we guard: give up all of them, or see that
        // another thread did, and try again.
        let ours = r == sys::EFAULT && (CACHE.lock().unguard_range(0, u64::MAX) || GIVEN_UP.load(Acquire) != before);
        if !ours {
            return r;
        }
    }
}

/// Calls that can stop half-way in front of a page we guard, and be content: they get it writable.
fn make_writable(n: usize, a: &[u64; 6]) {
    let give_up = |start: u64, bytes: u64| CACHE.lock().unguard_range(start, start.saturating_add(bytes));
    let vector = |at: u64, count: u64| {
        for i in 0..count.min(1024) {
            let Some([start, bytes]) = heap::read_target::<[u64; 2]>(at + 16 * i) else {
                return;
            };
            give_up(start, bytes);
        }
    };
    match n {
        sys::READ | sys::PREAD | sys::RECVFROM => {
            give_up(a[1], a[2]);
        }
        sys::GETRANDOM => {
            give_up(a[0], a[1]);
        }
        sys::READV | sys::PREADV | sys::PREADV2 => vector(a[1], a[2]),
        sys::RECVMSG => {
            // struct msghdr: name and its length, then the vector.
            if let Some([_, _, at, count]) = heap::read_target::<[u64; 4]>(a[1]) {
                vector(at, count);
            }
        }
        _ => {}
    }
}

/// The registers after a completed call.
fn finish(t: &mut Thread, at: u64, r: isize) {
    if r == ABANDONED {
        return;
    }
    t.regs[RAX] = r as u64;
    t.regs[RCX] = at + 2;
    t.regs[R11] = t.flags;
    t.pc = at + 2;
}

/// Notes who waits for whom. A number is taken before others are woken and after this thread was.
fn futex(t: &mut Thread, a: &[u64; 6]) -> isize {
    const COMMAND: u64 = 0x7f;
    // Wait, lock_pi, wait_bitset, wait_requeue_pi, lock_pi2; wake, requeue, cmp_requeue, wake_op,
    // unlock_pi, wake_bitset.
    match a[1] & COMMAND {
        0 | 6 | 9 | 11 | 13 => {
            notes::write(t, record::WAIT, [a[0], a[2] & 0xffff_ffff]);
            // It may wait until it is killed.
            buffer::publish(t);
            let r = pass(sys::FUTEX, a);
            let result = if r == ABANDONED { sys::EINTR } else { r };
            notes::write(t, record::WOKEN, [a[0], result as u64]);
            r
        }
        1 | 3 | 4 | 5 | 7 | 10 => {
            let number = notes::before(t);
            let r = pass(sys::FUTEX, a);
            let result = if r == ABANDONED { sys::EINTR } else { r };
            notes::after(t, record::WAKE, number, [a[0], result as u64]);
            r
        }
        _ => pass(sys::FUTEX, a),
    }
}

fn arch_prctl(t: &mut Thread, code: u64, addr: u64) -> isize {
    const SET_GS: u64 = 0x1001;
    const SET_FS: u64 = 0x1002;
    const GET_GS: u64 = 0x1004;
    match code {
        SET_GS => {
            t.app_gs = addr;
            buffer::push_state(t);
            0
        }
        GET_GS => {
            if heap::write_target(addr, &t.app_gs) {
                0
            } else {
                sys::EFAULT
            }
        }
        _ => {
            let r = raw(sys::ARCH_PRCTL, &[code, addr, 0, 0, 0, 0]);
            if code == SET_FS && r == 0 {
                t.fs_base = addr;
                buffer::push_state(t);
            }
            r
        }
    }
}

/// clone, fork and vfork.
fn clone(t: &mut Thread, flags: u64, stack: u64, ptid: u64, ctid: u64, tls: u64) -> isize {
    if flags & CLONE_VM == 0 {
        return fork(t, flags, stack, ptid, ctid, tls);
    }
    // Nothing may interrupt the child before it has its signal stack.
    let Some(mask) = signals::hold(t) else { return ABANDONED };
    let s = session();
    let Some(child) = Thread::new(s.next_thread.fetch_add(1, AcqRel)) else {
        signals::set_mask(mask);
        return sys::EAGAIN;
    };
    child.regs = t.regs;
    child.regs[RAX] = 0;
    child.regs[RCX] = t.pc + 2;
    child.regs[R11] = t.flags;
    if stack != 0 {
        child.regs[RSP] = stack;
    }
    child.app_r15 = t.app_r15;
    child.app_gs = t.app_gs;
    child.fs_base = if flags & CLONE_SETTLS != 0 { tls } else { t.fs_base };
    child.flags = t.flags;
    child.xmm = t.xmm;
    child.pc = t.pc + 2;
    child.shares_memory_with_parent = flags & CLONE_THREAD == 0;
    child.actions = if flags & CLONE_SIGHAND != 0 {
        t.actions
    } else {
        signals::copy_actions(t)
    };
    child.blocked_sync = t.blocked_sync;
    if flags & CLONE_THREAD == 0 && flags & CLONE_VFORK != 0 {
        child.altstack = t.altstack;
    }
    child.first_mask = mask;
    let (top, this, actions, serial) = (child.stack_top, child.this, child.actions, child.serial);
    // What the child does comes after what was done before it was made.
    buffer::stamp(t);
    let number = notes::before(t);
    // SAFETY: the child runs on its own runtime stack and goes on in `rt_thread_begin`.
    let r = unsafe { entry::rt_clone(flags as usize, top, ptid as usize, ctid as usize, tls as usize, this) };
    let started = if sys::is_error(r) {
        record::NO_THREAD
    } else {
        serial.into()
    };
    let cleared = if flags & CLONE_CHILD_CLEARTID != 0 { ctid } else { 0 };
    notes::after(t, record::STARTED, number, [started, cleared]);
    signals::set_mask(mask);
    if sys::is_error(r) || flags & (CLONE_VFORK | CLONE_THREAD) == CLONE_VFORK {
        // No child, or it has exec'ed or exited by now: what it had is free.
        if flags & CLONE_SIGHAND == 0 {
            signals::free_actions(actions);
        }
        thread::release(this);
        if !sys::is_error(r) {
            end_request(r as u32);
        }
    }
    r
}

/// The serial of the process this thread belongs to. A process that shares its parent's memory and
/// is not followed must not pass for a thread of its parent.
fn own_process(t: &Thread) -> u32 {
    let s = session();
    if t.shares_memory_with_parent && s.follow.load(Relaxed) == 0 {
        s.next_process.fetch_add(1, AcqRel)
    } else {
        PROCESS.lock().serial
    }
}

/// A new thread (or a process that shares our memory) begins, on its runtime stack.
#[no_mangle]
extern "C" fn rt_thread_begin(t: &mut Thread) {
    thread::set_gs(t.this);
    signals::use_signal_stack(t);
    let process = own_process(t);
    buffer::open(t, process);
    process::announce_thread(t);
    buffer::push_state(t);
    signals::set_mask(t.first_mask);
    crate::dispatch::go_on(t);
}

fn fork(t: &mut Thread, flags: u64, stack: u64, ptid: u64, ctid: u64, tls: u64) -> isize {
    // No signal before the child has its own rings.
    let Some(mask) = signals::hold(t) else { return ABANDONED };
    let s = session();
    let thread = s.next_thread.fetch_add(1, AcqRel);
    let serial = s.next_process.fetch_add(1, AcqRel);
    // All locks in a known state: the threads that hold them do not exist in the child.
    let cache = CACHE.lock();
    let process = PROCESS.lock();
    let areas = thread::AREAS.lock();
    let actions = signals::actions(t).hold();
    let heap = heap::hold();
    let space = space::hold();
    let parent = process.serial;
    let number = notes::before_fork(t);
    let r = raw(sys::CLONE, &[flags, 0, ptid, ctid, tls, 0]);
    drop(space);
    drop(heap);
    drop(actions);
    drop(areas);
    drop(process);
    drop(cache);
    if r != 0 {
        let child = if sys::is_error(r) {
            record::NO_PROCESS
        } else {
            serial.into()
        };
        notes::forked(t, number, child);
    } else {
        notes::restart();
        thread::new_tables();
        if !thread::map_tables(t.this) {
            sys::die(&[b"out of memory: the kernel refused the entry tables of a new process"]);
        }
        t.serial = thread;
        t.buffer = 0;
        if s.follow.load(Relaxed) != 0 {
            process::begin(serial, parent, memtrail_ring::message::FORKED);
        } else {
            PROCESS.lock().go_unfollowed(serial);
        }
        buffer::open(t, serial);
        process::announce_thread(t);
        if stack != 0 {
            t.regs[RSP] = stack;
        }
        if flags & CLONE_SETTLS != 0 {
            t.fs_base = tls;
        }
        buffer::push_state(t);
    }
    signals::set_mask(mask);
    r
}

fn exit_thread(t: &mut Thread, status: u64) {
    notes::write(t, record::ENDED, [status & 0xffff_ffff]);
    process::announce_end(t, status as u32);
    signals::set_mask(u64::MAX);
    buffer::close(t);
    if !t.shares_memory_with_parent {
        thread::release_own(t);
    }
    raw(sys::EXIT, &[status, 0, 0, 0, 0, 0]);
}

/// The definitions slot through which the collector is asked for things, if it is to be asked at
/// all.
fn request_slot() -> Option<&'static memtrail_ring::Slot> {
    let s = session();
    if s.follow.load(Relaxed) == 0 || !buffer::collector_alive() {
        return None;
    }
    let p = PROCESS.lock();
    if s.discard.load(Relaxed) != 0 {
        p.any_slot()
    } else {
        p.request_slot()
    }
}

/// Wait while `slot.request` is `value`. False if the collector is gone.
fn while_request_is(slot: &memtrail_ring::Slot, value: u32) -> bool {
    let mut rounds = 0;
    while slot.request.load(Acquire) == value {
        sys::futex_wait(&slot.request, value, 200);
        rounds += 1;
        if rounds % 5 == 0 && !buffer::collector_alive() {
            return false;
        }
    }
    true
}

/// Ask the collector to watch this thread. There is one request at a time in a process.
fn ask_to_be_seized(slot: &memtrail_ring::Slot) {
    while let Err(now) = slot
        .request
        .compare_exchange(request::NONE, request::TAKEN, AcqRel, Acquire)
    {
        if !while_request_is(slot, now) {
            return;
        }
    }
    // SAFETY: PR_SET_PTRACER for our own process; refused where not known.
    unsafe {
        sys::call(
            sys::PRCTL,
            [0x5961_6d61, session().collector_pid.load(Relaxed) as usize, 0, 0, 0, 0],
        );
    }
    slot.request_tid.store(sys::gettid(), Relaxed);
    slot.request.store(request::SEIZE, Release);
    buffer::ring_doorbell();
    while_request_is(slot, request::SEIZE);
}

/// The request of thread `tid` is done with: the next may ask.
fn end_request(tid: u32) {
    let Some(slot) = request_slot() else { return };
    if slot.request_tid.compare_exchange(tid, 0, AcqRel, Relaxed).is_ok() {
        slot.request.store(request::NONE, Release);
        sys::futex_wake(&slot.request);
    }
}

/// execve and execveat: the collector must be watching to go on in the new image.
fn exec(t: &mut Thread, n: usize, a: &[u64; 6]) -> isize {
    let slot = request_slot();
    if let Some(slot) = slot {
        ask_to_be_seized(slot);
    }
    // What is in the buffer must be seen even though the address space goes.
    buffer::close(t);
    let r = app_syscall(n, &words(a));
    // Still here: it failed, or a signal came first.
    if let Some(slot) = slot {
        if slot.request.load(Acquire) == request::READY {
            slot.request.store(request::FAILED, Release);
            buffer::ring_doorbell();
            while_request_is(slot, request::FAILED);
        }
        end_request(sys::gettid());
    }
    let process = own_process(t);
    buffer::open(t, process);
    buffer::push_state(t);
    r
}
