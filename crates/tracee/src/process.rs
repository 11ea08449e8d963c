//! Waiting for many things at once: ends of processes, ptrace stops, words from other threads.
//!
//! [`Events`] turns them all into one poll: a pidfd per process that is not our child, a
//! signalfd for SIGCHLD (which also announces ptrace stops), and an eventfd that any thread can
//! ring through a [`Wake`].
use crate::{sys, Error, Event, Status};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// A process that can be watched without being its parent.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Fails with `ESRCH` if there is no such process any more.
    pub fn open(pid: i32) -> io::Result<PidFd> {
        sys::pidfd_open(pid).map(PidFd)
    }

    /// Whether the process has ended.
    pub fn ended(&self) -> bool {
        let mut fd = [poll_in(&self.0)];
        wait_for_input(&mut fd, Duration::ZERO);
        !fd[0].revents().is_empty()
    }
}

fn poll_in(fd: &OwnedFd) -> PollFd<'_> {
    PollFd::new(fd, PollFlags::IN)
}

/// Sleeps until one of `fds` can be read, time is up, or a signal came.
fn wait_for_input(fds: &mut [PollFd], timeout: Duration) {
    let timeout = Timespec {
        tv_sec: timeout.as_secs().min(1 << 30) as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // Whatever it says, the caller looks at what happened by itself.
    let _ = poll(fds, Some(&timeout));
}

/// Time a process spent, as the kernel counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
}

/// How our child ended, and what it used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    pub status: Status,
    pub usage: Usage,
}

/// Rings the [`Events`] it came from; usable from any thread and from signal handlers.
#[derive(Clone, Debug)]
pub struct Wake(Arc<OwnedFd>);

impl Wake {
    pub fn ring(&self) {
        ring_fd(self.0.as_raw_fd());
    }
    pub(crate) fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

pub(crate) fn ring_fd(fd: i32) {
    let one = 1u64;
    // SAFETY: writes the eight bytes of `one`; write is async-signal-safe.
    unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

/// The one place where a supervisor sleeps.
#[derive(Debug)]
pub struct Events {
    bell: Arc<OwnedFd>,
    children: OwnedFd,
}

impl Events {
    /// Blocks SIGCHLD in the calling thread and those it starts: call it before starting others,
    /// and after the fork of a child that must not inherit the mask.
    pub fn new() -> Result<Events, Error> {
        Ok(Events {
            bell: Arc::new(sys::eventfd()?),
            children: sys::signalfd(libc::SIGCHLD)?,
        })
    }

    pub fn wake(&self) -> Wake {
        Wake(self.bell.clone())
    }

    /// Sleeps until something happens to a child or tracee, a process in `others` ends, a
    /// [`Wake`] is rung, or time is up. What happened must be asked for.
    pub fn sleep<'p>(&self, others: impl Iterator<Item = &'p PidFd>, timeout: Duration) {
        let mut fds = vec![poll_in(&self.bell), poll_in(&self.children)];
        fds.extend(others.map(|p| poll_in(&p.0)));
        wait_for_input(&mut fds, timeout);
        drain(self.bell.as_raw_fd());
        drain(self.children.as_raw_fd());
    }
}

/// What one look at a child or tracee brought.
#[derive(Debug)]
pub enum Polled {
    Nothing,
    /// It ended, and is reaped.
    Ended(Ended),
    /// It stands in a ptrace stop.
    Stopped(Event),
    /// It is neither child nor tracee of ours (any more).
    Unknown,
}

/// `wait4` on one child or tracee: who, wait status, usage.
fn wait4(pid: i32, flags: i32) -> (i32, i32, Usage) {
    let mut status = 0;
    // SAFETY: zero bytes are a valid rusage, and both pointers are valid for writes.
    let (who, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let flags = flags | libc::__WALL;
        (libc::wait4(pid, &mut status, flags, &mut usage), usage)
    };
    let usage = Usage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
    };
    (who, status, usage)
}

/// Looks, without waiting, whether anything happened to a child or tracee.
pub fn poll_pid(pid: i32) -> Polled {
    match wait4(pid, libc::WNOHANG) {
        (0, ..) => Polled::Nothing,
        (-1, ..) => Polled::Unknown,
        (_, status, usage) => match Event::from_raw(pid, status) {
            Event::Ended(status) => Polled::Ended(Ended { status, usage }),
            event => Polled::Stopped(event),
        },
    }
}

/// Waits until a child has ended.
pub(crate) fn wait_for_end(pid: i32) -> Result<Ended, Error> {
    loop {
        let (who, status, usage) = wait4(pid, 0);
        if let (true, Some(status)) = (who == pid, Status::from_raw(status)) {
            return Ok(Ended { status, usage });
        }
        let error = io::Error::last_os_error();
        if who == -1 && error.kind() != io::ErrorKind::Interrupted {
            return Err(Error::system("wait4"));
        }
    }
}

fn duration(t: libc::timeval) -> Duration {
    Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
}

fn drain(fd: i32) {
    let mut buffer = [0u8; 1024];
    // SAFETY: the pointer and the length describe `buffer`; the descriptor does not block.
    while unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
}

/// Writes to a descriptor that our caller has left us for this, and closes it. A reader that is gone
/// is none of our business.
pub fn tell_and_close(fd: i32, bytes: &[u8]) {
    // SAFETY: pointer and length describe `bytes`; who named the descriptor gave it away.
    unsafe {
        libc::write(fd, bytes.as_ptr().cast(), bytes.len());
        libc::close(fd);
    }
}

/// Lets the C library keep memory that was freed instead of giving it back to the system. Pieces of
/// a recording take and free megabytes all the time, and pages that are given back must be zeroed
/// by the kernel before they come again: that took as long as decoding them.
pub fn keep_freed_memory() {
    const MOST: libc::c_int = 32 << 20;
    // SAFETY: mallopt sets parameters of malloc, and may be called at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MOST);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 16 * MOST);
        libc::mallopt(libc::M_ARENA_MAX, 4);
    }
}
