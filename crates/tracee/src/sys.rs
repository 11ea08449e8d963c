//! Thin, safe wrappers of the system calls this crate needs: those that rustix has are its, the
//! others have one SAFETY argument each.
use crate::Error;
use rustix::event::EventfdFlags;
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::pipe::{pipe_with, PipeFlags};
use rustix::process::{Pid, PidfdFlags};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A ptrace request whose address and data are plain numbers.
pub(crate) fn ptrace(
    call: &'static str,
    request: libc::c_uint,
    tid: i32,
    addr: usize,
    data: usize,
) -> Result<(), Error> {
    // SAFETY: callers pass requests that take numbers here, so the kernel writes no memory of ours.
    let r = unsafe { libc::ptrace(request, tid, addr, data) };
    if r == -1 {
        return Err(Error::system(call));
    }
    Ok(())
}

/// `waitpid` on one thread or process. `None`: nothing to report (`WNOHANG`).
pub(crate) fn waitpid(pid: i32, flags: i32) -> io::Result<Option<(i32, i32)>> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for writes for the duration of the call.
        let r = unsafe { libc::waitpid(pid, &mut status, flags | libc::__WALL) };
        match r {
            0 => return Ok(None),
            -1 => {
                let e = io::Error::last_os_error();
                if e.kind() != io::ErrorKind::Interrupted {
                    return Err(e);
                }
            }
            who => return Ok(Some((who, status))),
        }
    }
}

fn failed(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
    move |errno| Error::System {
        call,
        source: errno.into(),
    }
}

pub(crate) fn memfd(name: &std::ffi::CStr) -> Result<OwnedFd, Error> {
    memfd_create(name, MemfdFlags::CLOEXEC).map_err(failed("memfd_create"))
}

pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// A pipe whose ends close on exec: (read, write).
pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    pipe_with(PipeFlags::CLOEXEC).map_err(failed("pipe2"))
}

/// A counter that poll sees when it is not 0.
pub(crate) fn eventfd() -> Result<OwnedFd, Error> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed("eventfd"))
}

/// A descriptor that can be read when `signal` is pending, which the calling thread blocks.
pub(crate) fn signalfd(signal: i32) -> Result<OwnedFd, Error> {
    // SAFETY: `set` is initialised by sigemptyset before it is read.
    let fd = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(Error::system("signalfd"));
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(crate) fn kill(pid: i32, signal: i32) {
    // SAFETY: kill takes two numbers; a target that is gone already is no error here.
    unsafe { libc::kill(pid, signal) };
}

/// Sends a signal with a value to one thread of another process.
pub(crate) fn queue(pid: i32, tid: i32, signal: i32, value: u64) -> Result<(), Error> {
    // siginfo: number, error, code; sender; value.
    let mut info = [0u64; 16];
    info[0] = signal as u64;
    info[1] = libc::SI_QUEUE as u32 as u64;
    info[3] = value;
    // SAFETY: the kernel reads the 128 bytes of `info`.
    let r = unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, info.as_ptr()) };
    if r == -1 {
        return Err(Error::system("rt_tgsigqueueinfo"));
    }
    Ok(())
}
