//! The user's wish to stop: SIGINT, SIGTERM and SIGHUP sent to memtrail itself.
use crate::process::ring_fd;
use crate::Wake;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
static TERMINATIONS: AtomicU32 = AtomicU32::new(0);
static BELL: AtomicI32 = AtomicI32::new(-1);

extern "C" fn note(signal: i32) {
    let counter = if signal == libc::SIGINT || signal == libc::SIGQUIT {
        &INTERRUPTS
    } else {
        &TERMINATIONS
    };
    counter.fetch_add(1, Ordering::Relaxed);
    let bell = BELL.load(Ordering::Relaxed);
    if bell >= 0 {
        ring_fd(bell);
    }
}

/// Counts of signals received since [`interrupts`] was called first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// SIGINT and SIGQUIT: the terminal sends these to the target, too.
    pub keyboard: u32,
    /// SIGTERM and SIGHUP: meant for memtrail.
    pub terminate: u32,
}

impl Interrupts {
    /// What has arrived so far.
    pub fn now() -> Interrupts {
        Interrupts {
            keyboard: INTERRUPTS.load(Ordering::Relaxed),
            terminate: TERMINATIONS.load(Ordering::Relaxed),
        }
    }
}

/// From now on counts these signals instead of dying of them, and rings `wake` on each.
/// Signals our caller chose to ignore stay ignored. A program exec'd later starts with defaults.
pub fn interrupts(wake: Option<&Wake>) {
    BELL.store(wake.map_or(-1, |w| w.raw()), Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: `note` does only atomic operations and write, both async-signal-safe; the
        // structures are plain data for which zero bytes are valid.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut old);
            if old.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = note as *const () as usize;
            new.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &new, std::ptr::null_mut());
        }
    }
}
