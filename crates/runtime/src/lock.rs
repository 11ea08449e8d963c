//! A small futex lock. Never taken in a signal handler that interrupted the runtime.
use crate::sys;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::*};

pub struct Lock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and there is one guard at a time.
unsafe impl<T> Sync for Lock<T> {}

pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub const fn new(value: T) -> Lock<T> {
        Lock {
            state: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }
    pub fn lock(&self) -> Guard<'_, T> {
        let mut spins = 0;
        while self.state.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            spins += 1;
            if spins < 200 {
                core::hint::spin_loop();
            } else if self.state.swap(2, Acquire) == 0 {
                break;
            } else {
                sys::futex_wait(&self.state, 2, 100);
            }
        }
        Guard(self)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only way in.
        unsafe { &*self.0.value.get() }
    }
}
impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}
impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if self.0.state.swap(0, Release) == 2 {
            sys::futex_wake(&self.0.state);
        }
    }
}
