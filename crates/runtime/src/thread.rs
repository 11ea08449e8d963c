//! A thread of the target as the runtime sees it: the structure that `gs` points to.
//!
//! The head of the structure is the contract with translated code ([`memtrail_translate::layout`]);
//! constant assertions tie the two together. The assembly in `entry.rs` takes its offsets from
//! here.
//!
//! **Who may refer to it.** The assembly hands a thread's `&mut Thread` to the runtime when it
//! leaves translated code, and there is no other until it goes back. A signal handler makes one
//! only if it interrupted translated code, when there is none. If it interrupted the runtime it
//! gets along with the [`SignalBox`], which lies beside the thread in its [`Area`].
use crate::hooks;
use crate::lock::{rank, Lock};
use crate::pending::SignalBox;
use crate::signals::Actions;
use crate::space;
use crate::sys;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use memtrail_ring::{self as ring, boot::AppState};
use memtrail_translate::layout;

pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RSP: usize = 4;
pub const RSI: usize = 6;
pub const RDI: usize = 7;
pub const R8: usize = 8;
pub const R9: usize = 9;
pub const R10: usize = 10;
pub const R11: usize = 11;
pub const R15: usize = 15;

/// Values of [`Thread::link`] that are no link.
pub const LINK_INDIRECT: u32 = 0xffff_fff0;
pub const LINK_RETURN: u32 = 0xffff_fff1;

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct AltStack {
    pub sp: u64,
    pub flags: u64,
    pub size: u64,
}

pub const SS_DISABLE: u64 = 2;

#[repr(C)]
pub struct Thread {
    pub this: u64,
    pub saved_rcx: u64,
    pub saved_rdx: u64,
    pub saved_stand_in: u64,
    pub saved_scratch: u64,
    pub app_r15: u64,
    pub app_gs: u64,
    pub leave: u64,
    pub indirect_miss: u64,
    pub return_miss: u64,
    pub link: u32,
    /// Counts misses that found their block.
    pub misses: u32,
    /// Target address of an indirect branch that missed.
    pub next_pc: u64,
    pub stack_top: u64,
    /// The target's registers while the runtime runs, hardware order; r15 is the target's.
    pub regs: [u64; 16],
    pub flags: u64,
    /// Code cache address to go on at.
    pub resume: u64,
    /// The buffer pointer while the runtime runs.
    pub cursor: u64,
    /// The miss path's own: registers, and flags as lahf and seto left them in rax.
    pub miss_rax: u64,
    pub miss_rbx: u64,
    pub miss_flags: u64,
    pub xmm: [[u64; 2]; 16],
    // From here on Rust only.
    /// Where the target goes on.
    pub pc: u64,
    pub fs_base: u64,
    pub serial: u32,
    pub tid: u32,
    pub slot: usize,
    /// Start of the current buffer; the guard page lies `BUFFER_BYTES` further.
    pub buffer: u64,
    /// Buffers submitted so far in this slot.
    pub produced: u64,
    /// Buffers filled so far.
    pub filled: u64,
    /// Up to where the records were looked at for paths.
    pub looked_at: u64,
    /// Records go nowhere: discarding, or the collector is gone, or the child is not followed.
    pub unrecorded: bool,
    pub discarded: u64,
    /// The mask that the thread begins with.
    pub first_mask: u64,
    pub altstack: AltStack,
    /// Synchronous signals the target believes blocked; the kernel never blocks them for us.
    pub blocked_sync: u64,
    /// Dispositions of this thread's process.
    pub actions: *const Actions,
    pub shares_memory_with_parent: bool,
    /// One instruction is to run from a page that stays writable.
    pub one_shot: bool,
    /// Calls of hooked functions that are under way.
    pub calls: hooks::Calls,
    /// The area for restartable sequences that was registered when the process was attached to.
    pub rseq: [u64; 3],
    /// Its state when it parks.
    pub parked: AppState,
}

/// What lies at the beginning of a thread's memory.
#[repr(C)]
pub struct Area {
    pub thread: Thread,
    pub mail: SignalBox,
    /// The ranks of the locks that this thread holds, as bits: see [`crate::lock`].
    pub held: AtomicU32,
}

macro_rules! offset_is {
    ($field:ident, $offset:expr) => {
        const _: () = assert!(core::mem::offset_of!(Area, thread.$field) == $offset as usize);
    };
}
offset_is!(saved_rcx, layout::SAVED_RCX);
offset_is!(saved_rdx, layout::SAVED_RDX);
offset_is!(saved_stand_in, layout::SAVED_STAND_IN);
offset_is!(saved_scratch, layout::SAVED_SCRATCH);
offset_is!(app_r15, layout::APP_R15);
offset_is!(app_gs, layout::APP_GS);
offset_is!(leave, layout::LEAVE);
offset_is!(indirect_miss, layout::INDIRECT_MISS);
offset_is!(return_miss, layout::RETURN_MISS);
offset_is!(link, layout::LINK);
offset_is!(next_pc, layout::TARGET);
const _: () = assert!(core::mem::size_of::<Area>() < layout::INDIRECT_TABLE as usize);

const TABLES_BYTES: usize = 2 * layout::TABLE_ENTRIES * 8;
const TABLES_END: usize = layout::RETURN_TABLE as usize + layout::TABLE_ENTRIES * 8;
const STACK_BYTES: usize = 128 * 1024;
const SIGNAL_STACK_BYTES: usize = 192 * 1024;
const GUARD: usize = 4096;
pub const AREA_BYTES: usize = TABLES_END + 2 * GUARD + STACK_BYTES + SIGNAL_STACK_BYTES;
const _: () = assert!(layout::RETURN_TABLE as usize == layout::INDIRECT_TABLE as usize + layout::TABLE_ENTRIES * 8);

/// The process's entry tables, mapped into every thread's area.
static TABLES: AtomicU64 = AtomicU64::new(0);

extern "C" {
    static rt_leave: u8;
    static rt_indirect_miss: u8;
    static rt_return_miss: u8;
}

fn address_of(symbol: &u8) -> u64 {
    symbol as *const u8 as u64
}

/// New shared memory that holds the two tables, every entry a miss. Called at start and in a forked
/// child: parent and child must not see each other's entries.
pub fn new_tables() {
    let rw = sys::PROT_READ | sys::PROT_WRITE;
    let addr = space::region(TABLES_BYTES, rw);
    let flags = sys::MAP_SHARED | sys::MAP_ANONYMOUS | sys::MAP_FIXED;
    // SAFETY: a fresh mapping in place of the region, which is ours.
    let r = unsafe { sys::call(sys::MMAP, [addr as usize, TABLES_BYTES, rw, flags, usize::MAX, 0]) };
    if sys::is_error(r) {
        sys::die(&[b"out of memory: the kernel refused the entry tables"]);
    }
    let old = TABLES.swap(addr, SeqCst);
    if old != 0 {
        space::close(old, TABLES_BYTES);
    }
    clear_tables();
}

/// Make every entry a miss.
pub fn clear_tables() {
    let table = TABLES.load(Relaxed) as *const AtomicU64;
    // SAFETY: addresses of our own assembly; the table has this many entries.
    unsafe {
        for i in 0..layout::TABLE_ENTRIES {
            (*table.add(i)).store(address_of(&rt_indirect_miss), Relaxed);
            (*table.add(layout::TABLE_ENTRIES + i)).store(address_of(&rt_return_miss), Relaxed);
        }
    }
}

/// Point a table entry at `code`.
pub fn set_table(is_return: bool, pc: u64, code: u64) {
    let index = (pc as u16) as usize + if is_return { layout::TABLE_ENTRIES } else { 0 };
    let table = TABLES.load(Relaxed) as *const AtomicU64;
    // SAFETY: the index is below twice the number of entries.
    unsafe { (*table.add(index)).store(code, Release) };
}

/// Take back a table entry if it points at `code`.
pub fn unset_table(is_return: bool, pc: u64, code: u64) {
    let index = (pc as u16) as usize + if is_return { layout::TABLE_ENTRIES } else { 0 };
    let table = TABLES.load(Relaxed) as *const AtomicU64;
    // SAFETY: as in `set_table`.
    unsafe {
        let miss = if is_return {
            address_of(&rt_return_miss)
        } else {
            address_of(&rt_indirect_miss)
        };
        let _ = (*table.add(index)).compare_exchange(code, miss, Release, Relaxed);
    }
}

/// Map the process's tables into the area at `base`. False if the kernel refuses.
#[must_use]
pub fn map_tables(base: u64) -> bool {
    let from = TABLES.load(Relaxed) as usize;
    let to = base as usize + layout::INDIRECT_TABLE as usize;
    // SAFETY: the destination is ours; old length 0 duplicates a shared mapping.
    let r = unsafe { sys::call(sys::MREMAP, [from, 0, TABLES_BYTES, 3, to, 0]) };
    !sys::is_error(r)
}

impl Thread {
    /// A new thread area, or `None` if the kernel refuses it. The ring slot is claimed separately,
    /// by the thread itself.
    pub fn new(serial: u32) -> Option<&'static mut Thread> {
        let old = free_area();
        let base = match old {
            Some(base) => base,
            None => space::try_region(AREA_BYTES, sys::PROT_READ | sys::PROT_WRITE)?,
        };
        if !map_tables(base) {
            space::close(base, AREA_BYTES);
            return None;
        }
        let guard = base + TABLES_END as u64;
        let stack = guard + GUARD as u64;
        let stack_top = stack + STACK_BYTES as u64;
        if old.is_none() {
            sys::protect(guard, GUARD, 0);
            sys::protect(stack_top, GUARD, 0);
        } else {
            // SAFETY: the area is ours alone, and its head is at least this long.
            unsafe { core::ptr::write_bytes(base as *mut u8, 0, core::mem::size_of::<Area>()) };
        }
        // SAFETY: the area is unused, its head zeroed, large enough, and zero is valid for every
        // field.
        let t = unsafe { &mut (*(base as *mut Area)).thread };
        t.this = base;
        // SAFETY: only addresses are taken.
        unsafe {
            t.leave = address_of(&rt_leave);
            t.indirect_miss = address_of(&rt_indirect_miss);
            t.return_miss = address_of(&rt_return_miss);
        }
        t.stack_top = stack_top - 64;
        t.serial = serial;
        t.altstack = AltStack {
            sp: 0,
            flags: SS_DISABLE,
            size: 0,
        };
        t.unrecorded = true;
        Some(t)
    }
    /// The thread's box for signals, which is no part of the thread.
    pub fn mail(&self) -> &'static SignalBox {
        // SAFETY: the area lives for ever, and the box is only ever shared.
        unsafe { &(*(self.this as *const Area)).mail }
    }

    pub fn signal_stack(&self) -> AltStack {
        let sp = self.this + (TABLES_END + 2 * GUARD + STACK_BYTES) as u64;
        AltStack {
            sp,
            flags: 0,
            size: SIGNAL_STACK_BYTES as u64,
        }
    }
    pub fn guard_hit(&self, addr: u64) -> bool {
        let guard = self.buffer + ring::BUFFER_BYTES as u64;
        self.buffer != 0 && (guard..guard + ring::PAGE as u64).contains(&addr)
    }
}

/// Areas for later threads, each with the kernel's id of the thread that may still be running on
/// it; 0: nobody is.
pub static AREAS: Lock<Vec<(u64, u32)>, { rank::AREAS }> = Lock::new(Vec::new());

/// Give back the area of a thread that will never run again.
pub fn release(base: u64) {
    AREAS.lock().push((base, 0));
}

/// Give back the area of the calling thread, which goes on to use it until it has exited.
pub fn release_own(t: &Thread) {
    AREAS.lock().push((t.this, sys::gettid()));
}

/// An area whose thread has exited.
fn free_area() -> Option<u64> {
    /// Looked at in one go: threads that have just been told to exit are few.
    const MOST: usize = 16;
    let mut areas = AREAS.lock();
    // SAFETY: signal 0 only asks.
    let gone = |tid: u32| tid == 0 || unsafe { sys::call(sys::TKILL, [tid as usize, 0, 0, 0, 0, 0]) } == sys::ESRCH;
    let i = areas.iter().take(MOST).position(|a| gone(a.1))?;
    Some(areas.swap_remove(i).0)
}

/// The area of the thread that runs this code.
pub fn here() -> *mut Area {
    let base: u64;
    // SAFETY: gs points to an area whenever the runtime runs, and its first word is its own
    // address.
    unsafe { core::arch::asm!("mov {}, gs:[0]", out(reg) base, options(nostack, preserves_flags, readonly)) };
    base as *mut Area
}

/// Set this thread's gs base.
pub fn set_gs(base: u64) {
    // SAFETY: ARCH_SET_GS with our own area.
    unsafe { sys::call(sys::ARCH_PRCTL, [0x1001, base as usize, 0, 0, 0, 0]) };
}
