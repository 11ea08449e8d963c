//! Processes that were running when memtrail came, and letting go of them.
//!
//! **In.** The tracer holds all threads and has one of them run [`begin`], which makes what every
//! thread needs while the others stand still: areas, handlers, the first notes. Each thread then
//! enters by itself ([`rt_entered`]) and goes on where it was.
//!
//! **Out.** A thread that is asked to [`park`]s when the dispatcher has its exact state in hand:
//! it closes its slot, gives back its alternate stack and its restartable sequences, and reports.
//! When all have, one of them [departs](rt_depart) for the process: dispositions and page
//! protections are the target's again. The tracer does the rest. See `memtrail_ring::boot`.
//!
//! **Invariant.** A parked thread that nobody takes away, because the tracer died, goes on as if it
//! had not been asked.
use crate::buffer;
use crate::cache::CACHE;
use crate::dispatch;
use crate::entry;
use crate::lock;
use crate::notes;
use crate::process;
use crate::signals::{self, SYNC_MASK};
use crate::space;
use crate::sys;
use crate::thread::{self, Thread};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use memtrail_ring::boot::{report, AppState, Boot, Owned, FLAGS, MOST_OWNED, RIP};
use memtrail_ring::{message, record};

/// The states that the tracer has put behind `boot`.
pub fn states(boot: &mut Boot) -> &mut [AppState] {
    let count = boot.threads as usize;
    // SAFETY: the tracer has mapped the boot pages with so many states behind the head.
    unsafe { core::slice::from_raw_parts_mut((boot as *mut Boot).add(1).cast(), count) }
}

/// A thread with this state.
pub fn thread(state: &AppState) -> Option<&'static mut Thread> {
    let t = Thread::new(state.thread as u32)?;
    t.regs.copy_from_slice(&state.registers[..16]);
    t.pc = state.registers[RIP];
    t.flags = state.registers[FLAGS];
    t.fs_base = state.fs_base;
    t.app_gs = state.gs_base;
    t.first_mask = state.mask;
    t.blocked_sync = state.mask & SYNC_MASK;
    t.rseq = state.rseq;
    Some(t)
}

fn tell(what: u64, address: u64) {
    let arguments = [report::MAGIC as usize, what as usize, address as usize, 0, 0, 0];
    // SAFETY: getpid takes no arguments.
    unsafe { sys::call(report::CALL as usize, arguments) };
}

/// Prepares a process whose threads all stand still but the one that runs this. All its signals are
/// blocked, but the synchronous ones.
pub fn begin(boot: &mut Boot) -> ! {
    WAS_RUNNING.store(true, Relaxed);
    let mut first: Option<&mut Thread> = None;
    for state in states(boot) {
        let Some(t) = thread(state) else {
            fail(boot);
        };
        state.area = t.this;
        match &first {
            None => first = Some(t),
            Some(first) => t.actions = first.actions,
        }
    }
    let Some(t) = first else { fail(boot) };
    thread::set_gs(t.this);
    lock::threads_are_known();
    take_from_kernel(t);
    signals::begin(t);
    for state in states(boot) {
        // SAFETY: the threads made above, none of which runs yet.
        unsafe { (*(state.area as *mut Thread)).actions = t.actions };
    }
    process::begin(boot.process as u32, u32::MAX, message::LAUNCHED);
    open(t);
    // The first note of all, and those of the others come after these.
    notes::image(t, true);
    gap(t, 0, sys::tsc());
    entry::tell_places(boot);
    tell(report::READY, boot as *const Boot as u64);
    fail(boot)
}

fn fail(boot: &Boot) -> ! {
    tell(report::FAILED, boot as *const Boot as u64);
    // Only if the tracer is gone, and with it everything that could be done.
    sys::die(&[b"memtrail is gone while it attached"])
}

/// What the kernel knows of this thread and the runtime must have to itself.
fn take_from_kernel(t: &mut Thread) {
    t.altstack = signals::kernel_signal_stack();
    register_rseq(t, UNREGISTER);
}

const UNREGISTER: usize = 1;

/// Whether the process was running when memtrail came.
static WAS_RUNNING: AtomicBool = AtomicBool::new(false);

/// rseq as the target sees it. A program that begins under the runtime does without. One that has
/// begun with it believes in it, and the C library ends it if a new thread is refused: such a
/// registration is kept here, where the kernel does not see it, until the thread is native.
pub fn rseq(t: &mut Thread, a: &[u64; 6]) -> isize {
    let [address, bytes, flags, signature, ..] = *a;
    if !WAS_RUNNING.load(Relaxed) {
        return sys::ENOSYS;
    }
    let asked = [address, bytes, signature];
    match (flags as usize, t.rseq) {
        (0, [0, ..]) => t.rseq = asked,
        (UNREGISTER, now) if now == asked && address != 0 => t.rseq = [0; 3],
        (0, now) if now == asked => return sys::EBUSY,
        _ => return sys::EINVAL,
    }
    0
}

/// Code in the cache is not where a restartable sequence says it is.
fn register_rseq(t: &Thread, flags: usize) {
    let [address, bytes, signature] = t.rseq.map(|v| v as usize);
    if address != 0 {
        // SAFETY: what the target had registered itself.
        unsafe { sys::call(sys::RSEQ, [address, bytes, flags, signature, 0, 0]) };
    }
}

/// The thread is recorded from here on.
fn open(t: &mut Thread) {
    buffer::open(t, process::serial());
    process::announce_thread(t);
    buffer::push_state(t);
}

/// The thread was, or will be, not recorded from one time to another.
fn gap(t: &mut Thread, begin: u64, end: u64) {
    const STOPPED: u64 = 1;
    let words = [begin, end, STOPPED, record::NOT_KNOWN, record::NOT_KNOWN];
    notes::write(t, record::GAP, words);
    buffer::push_state(t);
}

/// A thread that was running enters. All signals are blocked, but the synchronous ones.
#[no_mangle]
extern "C" fn rt_entered(t: &mut Thread) {
    if t.buffer == 0 {
        take_from_kernel(t);
        signals::use_signal_stack(t);
        open(t);
        gap(t, 0, sys::tsc());
    }
    signals::set_mask(t.first_mask);
    dispatch::go_on(t);
}

/// Steps aside for the tracer, which takes the thread away. False if a signal must be delivered
/// first, or nobody took it.
#[must_use]
pub fn park(t: &mut Thread) -> bool {
    let Some(mask) = signals::hold(t) else { return false };
    t.parked = AppState {
        fs_base: t.fs_base,
        gs_base: t.app_gs,
        mask: mask | t.blocked_sync,
        thread: t.serial.into(),
        rseq: t.rseq,
        area: t.this,
        ..AppState::default()
    };
    t.parked.registers[..16].copy_from_slice(&t.regs);
    t.parked.registers[RIP] = t.pc;
    t.parked.registers[FLAGS] = t.flags;
    gap(t, sys::tsc(), record::NOT_KNOWN);
    buffer::close(t);
    signals::block_all();
    signals::give_back_signal_stack(t);
    register_rseq(t, 0);
    // SAFETY: the state outlives the call; the tracer does not send the thread back into it.
    unsafe { entry::rt_park(&mut t.parked) };
    t.mail().need_not_park();
    register_rseq(t, UNREGISTER);
    signals::use_signal_stack(t);
    open(t);
    gap(t, 0, sys::tsc());
    signals::set_mask(mask);
    false
}

/// All threads of the process are parked, and one of them comes here.
#[no_mangle]
extern "C" fn rt_depart(t: &mut Thread) -> ! {
    CACHE.lock().unguard_range(0, u64::MAX);
    signals::give_back(t);
    let mut owned = Owned {
        count: 0,
        ranges: [[0; 2]; MOST_OWNED],
    };
    space::list(&mut owned);
    tell(report::DEPARTED, &raw const owned as u64);
    sys::die(&[b"memtrail is gone while it let go"])
}
