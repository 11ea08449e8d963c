//! Thin, safe wrappers of the system calls this crate needs, each with its one SAFETY argument.
use crate::Error;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

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

/// Takes over a descriptor a system call has just returned.
pub(crate) fn owned(call: &'static str, fd: i64) -> Result<OwnedFd, Error> {
    if fd < 0 {
        return Err(Error::system(call));
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

pub(crate) fn memfd(name: &std::ffi::CStr) -> Result<OwnedFd, Error> {
    // SAFETY: `name` is a valid C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    owned("memfd_create", fd.into())
}

pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    owned("pidfd_open", fd).map_err(|_| io::Error::last_os_error())
}

/// A pipe whose ends close on exec: (read, write).
pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let mut ends = [-1; 2];
    // SAFETY: `ends` has room for the two descriptors.
    let r = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    if r == -1 {
        return Err(Error::system("pipe2"));
    }
    Ok((owned("pipe2", ends[0].into())?, owned("pipe2", ends[1].into())?))
}

pub(crate) fn kill(pid: i32, signal: i32) {
    // SAFETY: kill takes two numbers; a target that is gone already is no error here.
    unsafe { libc::kill(pid, signal) };
}
