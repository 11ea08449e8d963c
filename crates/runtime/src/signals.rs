//! Signals, virtualised.
//!
//! **Dispositions.** A signal the target ignores or leaves to its default is left to the kernel.
//! One it handles is handled by [`on_signal`] in the kernel's eyes, with the target's restart and
//! child flags. The five synchronous signals are always ours.
//!
//! **Delivery.** If the signal interrupts translated code, the exact state of the target at that
//! instruction is recovered (the block is emitted again with its map), the record is cut there, and
//! the target's handler is entered at once. If it interrupts the runtime, a note is taken,
//! everything else is blocked, and the dispatcher delivers the signal before it goes back to
//! translated code. A system call that has not completed is given up and will be restarted by the
//! target, or not, as the kernel decided by its return value.
//!
//! **Masks.** The kernel's mask is the target's own, but for the synchronous signals, which are
//! never blocked in the kernel: the ring's guard pages need them.
use crate::buffer;
use crate::cache::{Cache, Piece, CACHE};
use crate::entry;
use crate::frame::{self, Fault, Ucontext};
use crate::heap;
use crate::hooks;
use crate::lock::{rank, Lock};
use crate::pending::PendingSignal;
use crate::process;
use crate::space;
use crate::sys;
use crate::thread::{self, AltStack, Thread, R15, RAX, RCX, RDI, RDX, RSI, RSP, SS_DISABLE};
use alloc::boxed::Box;
use memtrail_ring::boot::PARK;
use memtrail_ring::{self as ring, record};
use memtrail_translate::{emit_entry, Block, Saved, Settle, Site};

pub const SIGILL: u32 = 4;
pub const SIGTRAP: u32 = 5;
pub const SIGBUS: u32 = 7;
pub const SIGFPE: u32 = 8;
pub const SIGSEGV: u32 = 11;
const SYNC: [u32; 5] = [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV];

pub const fn bit(n: u32) -> u64 {
    1 << (n - 1)
}
pub const SYNC_MASK: u64 = bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV);

/// SIGCHLD, SIGCONT, SIGURG, SIGWINCH: the default is to do nothing.
const IGNORED_BY_DEFAULT: u64 = bit(17) | bit(18) | bit(23) | bit(28);

const SA_NOCLDSTOP: u64 = 1;
const SA_NOCLDWAIT: u64 = 2;
const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
/// In a page fault's error code: it was a write.
const WRITE_FAULT: u64 = 2;
/// In a signal's information: it was sent with a value.
const SI_QUEUE: i32 = -1;
const SS_ONSTACK: u64 = 1;
const SS_AUTODISARM: u64 = 1 << 31;

/// `struct sigaction` as the kernel takes it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

type Table = [Action; 65];

/// A process's dispositions. Table and kernel are changed under one lock, as the kernel does it
/// itself: threads that change dispositions at once cannot leave the two in different orders.
pub struct Actions(Lock<Table, { rank::ACTIONS }>);

impl Actions {
    fn new(table: Table) -> *const Actions {
        Box::into_raw(Box::new(Actions(Lock::new(table))))
    }

    fn get(&self, n: u32) -> Action {
        self.0.lock()[n as usize]
    }

    /// Set the disposition of `n`, in the kernel as well. Returns the one before.
    fn set(&self, n: u32, new: &Action) -> Action {
        let mut table = self.0.lock();
        let before = core::mem::replace(&mut table[n as usize], *new);
        if SYNC_MASK & bit(n) != 0 {
            // Always ours.
        } else if new.handler <= 1 {
            kernel_action(n, Some(new), None);
        } else {
            install_ours(n, new.flags);
        }
        before
    }

    /// The disposition of `n`, for delivery: one that is good for one time is back to the default.
    fn use_up(&self, n: u32) -> Action {
        let mut table = self.0.lock();
        let action = table[n as usize];
        if action.handler > 1 && action.flags & SA_RESETHAND != 0 {
            table[n as usize].handler = 0;
            if SYNC_MASK & bit(n) == 0 {
                kernel_action(n, Some(&Action::default()), None);
            }
        }
        action
    }

    /// Nobody changes a disposition while this lives.
    pub fn hold(&self) -> impl Drop + '_ {
        self.0.lock()
    }
}

pub fn actions(t: &Thread) -> &'static Actions {
    // SAFETY: set when the thread was made, and freed only after it has gone.
    unsafe { &*t.actions }
}

pub fn copy_actions(t: &Thread) -> *const Actions {
    let table = *actions(t).0.lock();
    Actions::new(table)
}

/// Give back what [`copy_actions`] made, when no thread uses it any more.
pub fn free_actions(copy: *const Actions) {
    // SAFETY: made by `copy_actions` and used by one thread only, which is gone.
    drop(unsafe { Box::from_raw(copy.cast_mut()) });
}

pub fn has_handler(t: &Thread, n: u32) -> bool {
    actions(t).get(n).handler > 1
}

fn kernel_action(n: u32, new: Option<&Action>, old: Option<&mut Action>) -> isize {
    let new = new.map_or(0, |a| a as *const Action as usize);
    let old = old.map_or(0, |a| a as *mut Action as usize);
    // SAFETY: both are ours or null.
    unsafe { sys::call(sys::RT_SIGACTION, [n as usize, new, old, 8, 0, 0]) }
}

/// Set the kernel's mask; returns the old one.
pub fn set_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    let new = mask & !SYNC_MASK;
    // SAFETY: both words are ours.
    unsafe {
        sys::call(
            sys::RT_SIGPROCMASK,
            [2, &new as *const u64 as usize, &mut old as *mut u64 as usize, 8, 0, 0],
        );
    }
    old
}

/// Hold off all signals for a step that must not be interrupted. Returns the mask to go back to, or
/// `None` if a signal came first: it is noted, everything is blocked already, and what was to be
/// done must wait until it has been delivered.
pub fn hold(t: &Thread) -> Option<u64> {
    let mask = set_mask(u64::MAX);
    (!t.mail().is_full()).then_some(mask)
}

/// Our own handler for signal `n`, with those of the target's flags that the kernel must know.
fn install_ours(n: u32, app_flags: u64) {
    let flags = app_flags & (SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT) | SA_SIGINFO | SA_ONSTACK | SA_RESTORER;
    let ours = Action {
        handler: on_signal as *const () as u64,
        flags,
        restorer: entry::rt_restorer as *const () as u64,
        mask: !SYNC_MASK,
    };
    kernel_action(n, Some(&ours), None);
}

/// The kernel's alternate stack of this thread is ours.
pub fn use_signal_stack(t: &Thread) {
    let ss = t.signal_stack();
    // SAFETY: the stack is part of the thread's area.
    unsafe { sys::call(sys::SIGALTSTACK, [&ss as *const AltStack as usize, 0, 0, 0, 0, 0]) };
}

/// First thread of a new image, or of one that was running. Its mask is its caller's affair.
pub fn begin(t: &mut Thread) {
    let mut all = [Action::default(); 65];
    for n in 1..=64 {
        kernel_action(n, None, Some(&mut all[n as usize]));
    }
    t.actions = Actions::new(all);
    use_signal_stack(t);
    for n in SYNC {
        install_ours(n, 0);
    }
    for n in (1..=64).filter(|&n| SYNC_MASK & bit(n) == 0 && all[n as usize].handler > 1) {
        install_ours(n, all[n as usize].flags);
    }
}

/// Gives all dispositions back to the kernel.
pub fn give_back(t: &Thread) {
    let table = actions(t).0.lock();
    for n in (1..=64).filter(|&n| n != 9 && n != 19) {
        kernel_action(n, Some(&table[n as usize]), None);
    }
}

/// The kernel's alternate stack is the target's again.
pub fn give_back_signal_stack(t: &Thread) {
    let ss = t.altstack;
    // SAFETY: what the target had set itself; the runtime does not run on it.
    unsafe { sys::call(sys::SIGALTSTACK, [&ss as *const AltStack as usize, 0, 0, 0, 0, 0]) };
}

/// The alternate stack that the kernel has, before ours is used.
pub fn kernel_signal_stack() -> AltStack {
    let mut ss = AltStack::default();
    // SAFETY: filled by the kernel.
    unsafe { sys::call(sys::SIGALTSTACK, [0, &mut ss as *mut AltStack as usize, 0, 0, 0, 0]) };
    ss.flags &= 0xffff_ffff;
    ss
}

/// Blocks everything, even what the runtime needs.
pub fn block_all() {
    let all = u64::MAX;
    // SAFETY: the word is ours.
    unsafe { sys::call(sys::RT_SIGPROCMASK, [2, &all as *const u64 as usize, 0, 8, 0, 0]) };
}

fn in_runtime(pc: u64) -> bool {
    let image = space::image();
    (image.start..image.end).contains(&pc)
}

/// The kernel's handler for everything.
extern "C" fn on_signal(n: u32, info: *mut [u64; 16], uc: *mut Ucontext) {
    // SAFETY: the kernel hands us valid, exclusive pointers on our signal stack.
    let (info, uc) = unsafe { (&mut *info, &mut *uc) };
    let code = (info[1] as u32) as i32;
    let synchronous = SYNC_MASK & bit(n) != 0 && code > 0;
    let found = entry::in_found_miss(uc.rip);
    if n == SIGTRAP && code == SI_QUEUE && info[3] == PARK {
        // SAFETY: the box of the thread that runs this handler.
        unsafe { (*thread::here()).mail.ask_to_park() };
        if in_runtime(uc.rip) && !found {
            return leave_sensitive_place(uc);
        }
        // SAFETY: as below.
        let t = unsafe { &mut (*thread::here()).thread };
        if found {
            entry::finish_miss(t, uc);
        }
        interrupt(t, &CACHE.lock(), uc);
        return leave_to_dispatch(uc);
    }
    if in_runtime(uc.rip) && !found {
        return if synchronous {
            fault_in_runtime(n, info, uc)
        } else {
            interrupt_runtime(n, info, uc)
        };
    }
    // SAFETY: translated code was interrupted, or assembly on its behalf. No other reference to the
    // thread is in use: the runtime gave up its own when it went back to translated code.
    let t = unsafe { &mut (*thread::here()).thread };
    if found {
        entry::finish_miss(t, uc);
    }
    if synchronous {
        fault(t, n, info, uc);
    } else {
        let cache = CACHE.lock();
        interrupt(t, &cache, uc);
        drop(cache);
        let mask = uc.mask | t.blocked_sync;
        enter_handler(t, n, info, mask, Some(uc), Fault::default());
        leave_to_dispatch(uc);
    }
}

/// The runtime was interrupted, and something waits: it must not miss that.
fn leave_sensitive_place(uc: &mut Ucontext) {
    match entry::place(uc.rip) {
        entry::Place::Resuming(to) | entry::Place::BeforeSyscall(to) => uc.rip = to,
        entry::Place::Elsewhere => {}
    }
}

/// The runtime was interrupted: the signal must wait. Nothing of the thread but its box is looked
/// at.
fn interrupt_runtime(n: u32, info: &[u64; 16], uc: &mut Ucontext) {
    leave_sensitive_place(uc);
    let signal = PendingSignal {
        number: n,
        info: *info,
        mask: uc.mask,
    };
    // SAFETY: the box of the thread that runs this handler.
    unsafe { (*thread::here()).mail.put(signal) };
    uc.mask = !SYNC_MASK;
}

/// The runtime faulted, as it may while it copies to and from the target's memory.
fn fault_in_runtime(n: u32, info: &[u64; 16], uc: &mut Ucontext) {
    let addr = fault_address(info);
    let memory = n == SIGSEGV || n == SIGBUS;
    let Some(landing) = heap::fault_landing(uc.rip).filter(|_| memory) else {
        sys::die(&[
            b"internal error: fault in the runtime at ",
            &sys::hex(uc.rip),
            b" address ",
            &sys::hex(addr),
        ]);
    };
    // Writing a frame onto a page we guard: the page is given up and the write goes on.
    let again = uc.err & WRITE_FAULT != 0 && {
        let mut cache = CACHE.lock();
        cache.unguard(addr) || cache.writable_by_now(addr)
    };
    if !again {
        uc.rip = landing;
    }
}

/// Send the thread to the dispatcher when the kernel's frame is returned from.
fn leave_to_dispatch(uc: &mut Ucontext) {
    uc.rip = entry::again();
    uc.eflags = 0x202;
}

/// Address a fault is about.
fn fault_address(info: &[u64; 16]) -> u64 {
    info[2]
}

fn fault(t: &mut Thread, n: u32, info: &mut [u64; 16], uc: &mut Ucontext) {
    let addr = fault_address(info);
    let memory = n == SIGSEGV || n == SIGBUS;
    if n == SIGSEGV && t.guard_hit(addr) {
        let cursor = uc.regs[frame::UC_R15];
        buffer::join_paths(t, cursor);
        let partial = (t.buffer + ring::BUFFER_BYTES as u64 - cursor) / 8;
        uc.regs[frame::UC_R15] = buffer::next_buffer(t, cursor, partial as usize);
        return;
    }
    let write = memory && uc.err & WRITE_FAULT != 0;
    let mut cache = CACHE.lock();
    if !cache.contains(uc.rip) {
        sys::die(&[b"internal error: fault outside translated code at ", &sys::hex(uc.rip)]);
    }
    if write && cache.writable_by_now(addr) {
        return;
    }
    interrupt(t, &cache, uc);
    if write && cache.unguard(addr) {
        // The target changed its own code: run just this instruction, then look at everything
        // afresh.
        t.one_shot = true;
        return leave_to_dispatch(uc);
    }
    drop(cache);
    if n == SIGTRAP && uc.trapno == 3 {
        info[2] = 0;
    }
    if memory && info[2] == uc.rip || matches!(n, SIGILL | SIGFPE) {
        info[2] = t.pc;
    }
    let shown = Fault {
        err: uc.err,
        trapno: uc.trapno,
        cr2: uc.cr2,
    };
    let mask = uc.mask | t.blocked_sync;
    if t.blocked_sync & bit(n) != 0 {
        die_by(t, n);
    }
    enter_handler(t, n, info, mask, Some(uc), shown);
    leave_to_dispatch(uc);
}

/// Translated code was interrupted: recover the target's state into `t` and settle the record.
fn interrupt(t: &mut Thread, cache: &Cache, uc: &mut Ucontext) {
    for (i, &r) in frame::ORDER.iter().enumerate() {
        t.regs[r] = uc.regs[i];
    }
    t.cursor = t.regs[R15];
    t.regs[R15] = t.app_r15;
    t.flags = uc.eflags;
    let Some((b, piece)) = cache.at(uc.rip) else {
        sys::die(&[b"internal error: interrupted at an unknown place ", &sys::hex(uc.rip)])
    };
    let info = &cache.blocks[b as usize];
    let (block, site) = match piece {
        Piece::Stale => (None, None),
        Piece::Entry(e) => {
            let (hot, cold) = (
                if e == memtrail_translate::Entry::Return {
                    info.ret
                } else {
                    info.indirect
                },
                0x1000,
            );
            (None, emit_entry(e, info.pc, hot, cold, info.head).site(uc.rip))
        }
        Piece::Body => match cache.again(b) {
            Some((block, out)) => {
                let site = out.site(uc.rip);
                (Some(block), site)
            }
            None => (None, None),
        },
    };
    let Some(site) = site else {
        // A stale stub: nothing but "go on at the block's start".
        t.pc = info.pc;
        return;
    };
    restore(t, &site);
    if let Some(block) = block {
        settle(t, &block, &site, uc.fpstate);
    }
}

fn restore(t: &mut Thread, site: &Site) {
    let saved = Saved {
        rcx: t.saved_rcx,
        rdx: t.saved_rdx,
        stand_in: t.saved_stand_in,
        scratch: t.saved_scratch,
    };
    t.pc = site.recover(&mut t.regs, &saved, heap::read_target);
}

/// Make the record say exactly what happened.
fn settle(t: &mut Thread, block: &Block, site: &Site, fpstate: u64) {
    if t.buffer == 0 {
        return;
    }
    let (open, cut) = match site.settle(block) {
        Settle::Leave => return,
        Settle::Pass { words } => {
            t.cursor += 8 * words as u64;
            return;
        }
        Settle::Withdraw => return put(t.cursor, 0),
        Settle::Close { open, cut } => (open, cut),
    };
    if let Some(words) = open {
        // The store that begins a record is at most a page's width from the guard: words past it go
        // to the next buffer.
        let room = (t.buffer + ring::BUFFER_BYTES as u64 - t.cursor) / 8;
        if (room as usize) < words {
            t.cursor = buffer::next_buffer(t, t.cursor, room as usize);
        }
        site.missing(block, &t.regs, |word, value| put(t.cursor + 8 * word as u64, value));
        t.cursor += 8 * words as u64;
    }
    if let Some(done) = cut {
        let lanes = block
            .insns
            .get(usize::from(done))
            .map_or(0, |i| frame::lanes_done(i, fpstate));
        let (rcx, rsi, rdi) = (t.regs[RCX], t.regs[RSI], t.regs[RDI]);
        buffer::push(t, &[record::CUT, done.into(), rcx, rsi, rdi, lanes]);
    }
    buffer::push_state(t);
}

fn put(at: u64, v: u64) {
    // SAFETY: inside the thread's current buffer.
    unsafe { (at as *mut u64).write(v) };
}

/// The dispatcher gives the target the signal that waits, if there is one.
pub fn deliver_pending(t: &mut Thread) {
    // SAFETY: the thread's own box.
    if let Some(p) = unsafe { t.mail().take() } {
        let mask = p.mask | t.blocked_sync;
        enter_handler(t, p.number, &p.info, mask, None, Fault::default());
    }
}

/// A fault that never reached the hardware, such as a jump to nowhere.
pub fn synthesize(t: &mut Thread, n: u32, code: u32, addr: u64, trapno: u64, err: u64) {
    let mut info = [0u64; 16];
    info[0] = n as u64;
    info[1] = code as u64;
    info[2] = addr;
    // After a signal that came first, the target meets the same fault again.
    let Some(mask) = hold(t) else { return };
    if t.blocked_sync & bit(n) != 0 {
        die_by(t, n);
    }
    let cr2 = if n == SIGSEGV { addr } else { 0 };
    enter_handler(t, n, &info, mask | t.blocked_sync, None, Fault { err, trapno, cr2 });
}

/// Set the thread up to run its handler for signal `n`; `mask` is what to go back to.
fn enter_handler(t: &mut Thread, n: u32, info: &[u64; 16], mask: u64, uc: Option<&mut Ucontext>, shown: Fault) {
    let action = actions(t).use_up(n);
    if action.handler <= 1 {
        if shown.trapno == 0 && (action.handler == 1 || IGNORED_BY_DEFAULT & bit(n) != 0) {
            // Ignored meanwhile.
            match uc {
                Some(uc) => uc.mask = mask & !SYNC_MASK,
                None => {
                    set_mask(mask);
                }
            }
            return;
        }
        die_by(t, n);
    }
    let alt = t.altstack;
    let on_alt = alt.flags & SS_DISABLE == 0 && (alt.sp..alt.sp + alt.size).contains(&(t.regs[RSP].wrapping_sub(1)));
    let sp = if action.flags & SA_ONSTACK != 0 && alt.flags & SS_DISABLE == 0 && !on_alt {
        alt.sp + alt.size
    } else {
        t.regs[RSP] - 128
    };
    let mut image = Ucontext {
        flags: uc.as_ref().map_or(7, |u| u.flags),
        stack: AltStack {
            flags: alt.flags | if on_alt { SS_ONSTACK } else { 0 },
            ..alt
        },
        rip: t.pc,
        eflags: t.flags,
        selectors: uc.as_ref().map_or(0x002b_0000_0000_0033, |u| u.selectors),
        err: shown.err,
        trapno: shown.trapno,
        cr2: shown.cr2,
        oldmask: mask,
        mask,
        ..Ucontext::default()
    };
    for (i, &r) in frame::ORDER.iter().enumerate() {
        image.regs[i] = t.regs[r];
    }
    let kernel_fp = uc.as_ref().map(|u| u.fpstate);
    let Some((at, uc_at, info_at)) = frame::build(t, sp, image, info, action.restorer, kernel_fp) else {
        die_by(t, SIGSEGV)
    };
    if alt.flags & SS_AUTODISARM != 0 {
        t.altstack = AltStack {
            sp: 0,
            flags: SS_DISABLE,
            size: 0,
        };
    }
    let rsp = t.regs[RSP];
    hooks::interrupted(t, rsp, on_alt, at);
    t.regs[RDI] = n as u64;
    t.regs[RSI] = info_at;
    t.regs[RDX] = uc_at;
    t.regs[RAX] = 0;
    t.regs[RSP] = at;
    t.pc = action.handler;
    t.flags &= !0x1_0500; // trap, direction, resume
    let own = if action.flags & SA_NODEFER != 0 { 0 } else { bit(n) };
    let blocked = mask | action.mask | own;
    t.blocked_sync = blocked & SYNC_MASK;
    match uc {
        Some(uc) => {
            uc.mask = blocked & !SYNC_MASK;
            frame::reset_kernel_state(uc.fpstate);
        }
        None => {
            set_mask(blocked);
            frame::restore_state(t, 0);
        }
    }
    buffer::push(t, &[record::SIGNAL, n as u64]);
    buffer::push_state(t);
}

/// The target returns from a handler.
pub fn sigreturn(t: &mut Thread) {
    if hold(t).is_none() {
        return;
    }
    let at = t.regs[RSP] - 8;
    let Some(uc) = heap::read_target::<Ucontext>(at + 8) else {
        die_by(t, SIGSEGV)
    };
    if !frame::restore_state(t, uc.fpstate) {
        die_by(t, SIGSEGV);
    }
    for (i, &r) in frame::ORDER.iter().enumerate() {
        t.regs[r] = uc.regs[i];
    }
    hooks::resumed(t, at);
    t.pc = uc.rip;
    t.flags = uc.eflags & 0x24_4dd5 | 0x202;
    t.altstack = AltStack {
        flags: uc.stack.flags & !SS_ONSTACK,
        ..uc.stack
    };
    t.blocked_sync = uc.mask & SYNC_MASK;
    buffer::push(t, &[record::SIGRETURN]);
    buffer::push_state(t);
    set_mask(uc.mask);
}

/// The default action of a signal that ends the process.
pub fn die_by(t: &mut Thread, n: u32) -> ! {
    process::announce_exit(t, 128 + n);
    buffer::close(t);
    kernel_action(n, Some(&Action::default()), None);
    let unblocked = !bit(n);
    // SAFETY: unblocks and raises the signal; it ends us.
    unsafe {
        sys::call(sys::RT_SIGPROCMASK, [2, &unblocked as *const u64 as usize, 0, 8, 0, 0]);
        sys::call(
            sys::TGKILL,
            [sys::getpid() as usize, sys::gettid() as usize, n as usize, 0, 0, 0],
        );
    }
    sys::exit_group(128 + n as i32)
}

/// rt_sigaction as the target sees it.
pub fn sigaction(t: &Thread, n: u64, new: u64, old: u64, size: u64) -> isize {
    if size != 8 || n == 0 || n > 64 {
        return sys::EINVAL;
    }
    let n = n as u32;
    // The target's memory is read and written without the lock: it may fault.
    let before = if new != 0 {
        if n == 9 || n == 19 {
            return sys::EINVAL;
        }
        let Some(mut a) = heap::read_target::<Action>(new) else {
            return sys::EFAULT;
        };
        a.mask &= !(bit(9) | bit(19));
        actions(t).set(n, &a)
    } else {
        actions(t).get(n)
    };
    if old != 0 && !heap::write_target(old, &before) {
        return sys::EFAULT;
    }
    0
}

/// rt_sigprocmask as the target sees it.
pub fn sigprocmask(t: &mut Thread, how: u64, new: u64, old: u64, size: u64) -> isize {
    if size != 8 {
        return sys::EINVAL;
    }
    let Some(kernel) = hold(t) else { return entry::ABANDONED };
    let r = change_mask(how, new, old, kernel | t.blocked_sync);
    match r {
        Ok(next) => {
            t.blocked_sync = next & SYNC_MASK;
            set_mask(next);
            0
        }
        Err(error) => {
            set_mask(kernel);
            error
        }
    }
}

/// The new mask, and the old one stored where the target wants it.
fn change_mask(how: u64, new: u64, old: u64, now: u64) -> Result<u64, isize> {
    let mut next = now;
    if new != 0 {
        let set = heap::read_target::<u64>(new).ok_or(sys::EFAULT)?;
        next = match how {
            0 => now | set,
            1 => now & !set,
            2 => set,
            _ => return Err(sys::EINVAL),
        } & !(bit(9) | bit(19));
    }
    if old != 0 && !heap::write_target(old, &now) {
        return Err(sys::EFAULT);
    }
    Ok(next)
}

/// sigaltstack as the target sees it.
pub fn sigaltstack(t: &mut Thread, new: u64, old: u64) -> isize {
    let alt = t.altstack;
    let on = alt.flags & SS_DISABLE == 0 && (alt.sp..alt.sp + alt.size).contains(&(t.regs[RSP].wrapping_sub(1)));
    if new != 0 {
        let Some(mut ss) = heap::read_target::<AltStack>(new) else {
            return sys::EFAULT;
        };
        ss.flags &= 0xffff_ffff;
        if on {
            return sys::EPERM;
        }
        let mode = ss.flags & !SS_AUTODISARM;
        if mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0 {
            return sys::EINVAL;
        }
        if mode == SS_DISABLE {
            ss.sp = 0;
            ss.size = 0;
        } else if ss.size < 2048 {
            return sys::ENOMEM;
        }
        ss.flags &= !SS_ONSTACK;
        t.altstack = ss;
    }
    let shown = AltStack {
        flags: alt.flags | if on { SS_ONSTACK } else { 0 },
        ..alt
    };
    if old != 0 && !heap::write_target(old, &shown) {
        return sys::EFAULT;
    }
    0
}
