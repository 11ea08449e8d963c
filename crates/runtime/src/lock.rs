//! A small futex lock with a rank.
//!
//! A thread that holds a lock takes only locks of higher [`rank`], so that no two threads can wait
//! for each other. And a signal handler that interrupted the runtime takes none while its thread
//! holds one, which it might wait for for ever. Both are checked where debug assertions are on: the
//! locks a thread holds are noted in its [`Area`](crate::thread::Area).
use crate::sys;
use crate::thread;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// In the order in which locks may be taken.
pub mod rank {
    /// Translated code, and the mappings it was made from.
    pub const CACHE: u32 = 0;
    /// What is told to the collector.
    pub const PROCESS: u32 = 1;
    /// Areas of threads that have gone.
    pub const AREAS: u32 = 2;
    /// Dispositions of signals.
    pub const ACTIONS: u32 = 3;
    pub const HEAP: u32 = 4;
    /// The runtime's addresses.
    pub const SPACE: u32 = 5;
}

/// Locks of `RANK` and above, as bits.
const fn from(rank: u32) -> u32 {
    u32::MAX << rank
}

/// Whether `gs` points to an area already: before, there is one thread, and nothing to check.
static THREADS_KNOWN: AtomicBool = AtomicBool::new(false);

/// From now on the locks that threads hold are noted.
pub fn threads_are_known() {
    THREADS_KNOWN.store(true, Relaxed);
}

/// The ranks of the locks that the calling thread holds.
fn held() -> Option<&'static AtomicU32> {
    if !cfg!(debug_assertions) || !THREADS_KNOWN.load(Relaxed) {
        return None;
    }
    // SAFETY: areas live for ever, and this word is only ever shared.
    Some(unsafe { &(*thread::here()).held })
}

pub struct Lock<T, const RANK: u32> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and there is one guard at a time.
unsafe impl<T: Send, const RANK: u32> Sync for Lock<T, RANK> {}

pub struct Guard<'a, T, const RANK: u32>(&'a Lock<T, RANK>);

impl<T, const RANK: u32> Lock<T, RANK> {
    pub const fn new(value: T) -> Lock<T, RANK> {
        Lock {
            state: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }
    pub fn lock(&self) -> Guard<'_, T, RANK> {
        if let Some(held) = held() {
            let before = held.fetch_or(1 << RANK, Relaxed);
            assert!(before & from(RANK) == 0, "a lock is taken out of order");
        }
        let mut spins = 0;
        while self.state.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            spins += 1;
            if spins < 200 {
                core::hint::spin_loop();
            } else if self.state.swap(2, Acquire) == 0 {
                break;
            } else {
                sys::futex_wait(&self.state, 2, u64::MAX);
            }
        }
        Guard(self)
    }
}

impl<T, const RANK: u32> Deref for Guard<'_, T, RANK> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only way in.
        unsafe { &*self.0.value.get() }
    }
}
impl<T, const RANK: u32> DerefMut for Guard<'_, T, RANK> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}
impl<T, const RANK: u32> Drop for Guard<'_, T, RANK> {
    fn drop(&mut self) {
        if self.0.state.swap(0, Release) == 2 {
            sys::futex_wake(&self.0.state);
        }
        if let Some(held) = held() {
            held.fetch_and(!(1 << RANK), Relaxed);
        }
    }
}
