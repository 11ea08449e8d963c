//! A thread in a ptrace stop, and the stops themselves.
//!
//! Only a [`Stopped`] thread has registers and memory that can be touched. Every way to let it
//! run consumes the value, so a thread that runs cannot be asked for its registers.
use crate::{sys, Error};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Options for every seized thread: exec events, and system-call stops told apart from SIGTRAP.
const OPTIONS: i32 = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;
const SIGNAL_MASK_BYTES: usize = 8;
/// More than any processor has.
const MOST_EXTENDED: usize = 64 << 10;

/// How a thread or process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    Exited(i32),
    Killed(i32),
}

impl Status {
    pub(crate) fn from_raw(status: i32) -> Option<Status> {
        if libc::WIFEXITED(status) {
            Some(Status::Exited(libc::WEXITSTATUS(status)))
        } else if libc::WIFSIGNALED(status) {
            Some(Status::Killed(libc::WTERMSIG(status)))
        } else {
            None
        }
    }
    /// The status a shell reports: 128 + N after signal N.
    pub fn shell(self) -> i32 {
        match self {
            Status::Exited(code) => code,
            Status::Killed(signal) => 128 + signal,
        }
    }
}

/// What waiting for a traced thread brought.
#[derive(Debug)]
pub enum Event {
    /// An exec is complete: the new image is in place and has not run.
    Exec(Stopped),
    /// A system call begins or ends.
    Syscall(Stopped),
    /// A signal is about to be delivered.
    Signal(Stopped, i32),
    /// A group-stop: the process was stopped by a signal.
    GroupStop(Stopped),
    /// Stopped because we asked, or by another ptrace event.
    Other(Stopped),
    Ended(Status),
}

/// A thread that stands still in a ptrace stop.
#[derive(Debug)]
pub struct Stopped {
    tid: i32,
    memory: Option<File>,
}

/// Begins to trace a running thread. It keeps running.
pub fn seize(tid: i32) -> Result<(), Error> {
    sys::ptrace("PTRACE_SEIZE", libc::PTRACE_SEIZE, tid, 0, OPTIONS as usize)
}

/// As [`seize`], for our own child: it must not outlive us half-injected.
pub(crate) fn seize_child(pid: i32) -> Result<(), Error> {
    let options = (OPTIONS | libc::PTRACE_O_EXITKILL) as usize;
    sys::ptrace("PTRACE_SEIZE", libc::PTRACE_SEIZE, pid, 0, options)
}

/// Waits until `tid` stops or ends.
pub fn wait(tid: i32) -> Result<Event, Error> {
    match sys::waitpid(tid, 0) {
        Ok(Some((who, status))) => Ok(Event::from_raw(who, status)),
        Ok(None) => Err(Error::UnexpectedStop { pid: tid, status: 0 }),
        Err(source) => Err(Error::System {
            call: "waitpid",
            source,
        }),
    }
}

/// As [`wait`], but looks once: `None` if nothing has happened.
pub(crate) fn look(tid: i32) -> Result<Option<Event>, Error> {
    match sys::waitpid(tid, libc::WNOHANG) {
        Ok(found) => Ok(found.map(|(who, status)| Event::from_raw(who, status))),
        Err(source) => Err(Error::System {
            call: "waitpid",
            source,
        }),
    }
}

impl Event {
    pub(crate) fn from_raw(tid: i32, status: i32) -> Event {
        if let Some(ended) = Status::from_raw(status) {
            return Event::Ended(ended);
        }
        let stopped = Stopped { tid, memory: None };
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        match (event, signal) {
            (libc::PTRACE_EVENT_EXEC, _) => Event::Exec(stopped),
            (libc::PTRACE_EVENT_STOP, libc::SIGTRAP) => Event::Other(stopped),
            (libc::PTRACE_EVENT_STOP, _) => Event::GroupStop(stopped),
            (0, s) if s == libc::SIGTRAP | 0x80 => Event::Syscall(stopped),
            (0, s) => Event::Signal(stopped, s),
            _ => Event::Other(stopped),
        }
    }
}

impl Stopped {
    pub fn tid(&self) -> i32 {
        self.tid
    }

    pub fn registers(&self) -> Result<libc::user_regs_struct, Error> {
        let mut regs = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
        // SAFETY: PTRACE_GETREGS fills the structure its data argument points to.
        let r = unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.tid, 0, regs.as_mut_ptr()) };
        if r == -1 {
            return Err(Error::system("PTRACE_GETREGS"));
        }
        // SAFETY: all-zero bytes were already a valid value of this structure of integers.
        Ok(unsafe { regs.assume_init() })
    }

    pub fn set_registers(&self, regs: &libc::user_regs_struct) -> Result<(), Error> {
        // SAFETY: PTRACE_SETREGS only reads the structure its data argument points to.
        let r = unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.tid, 0, regs) };
        if r == -1 {
            return Err(Error::system("PTRACE_SETREGS"));
        }
        Ok(())
    }

    pub fn signal_mask(&self) -> Result<u64, Error> {
        let mut mask = 0u64;
        // SAFETY: PTRACE_GETSIGMASK writes the eight bytes of `mask`.
        let r = unsafe { libc::ptrace(libc::PTRACE_GETSIGMASK, self.tid, SIGNAL_MASK_BYTES, &mut mask) };
        if r == -1 {
            return Err(Error::system("PTRACE_GETSIGMASK"));
        }
        Ok(mask)
    }

    pub fn set_signal_mask(&self, mask: u64) -> Result<(), Error> {
        // SAFETY: PTRACE_SETSIGMASK reads the eight bytes of `mask`.
        let r = unsafe { libc::ptrace(libc::PTRACE_SETSIGMASK, self.tid, SIGNAL_MASK_BYTES, &mask) };
        if r == -1 {
            return Err(Error::system("PTRACE_SETSIGMASK"));
        }
        Ok(())
    }

    /// The extended registers (x87, vector, mask), as the kernel keeps them.
    pub(crate) fn extended(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; MOST_EXTENDED];
        let length = self.extended_set("PTRACE_GETREGSET", libc::PTRACE_GETREGSET, &mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    pub(crate) fn set_extended(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let set = self.extended_set("PTRACE_SETREGSET", libc::PTRACE_SETREGSET, bytes);
        set.map(|_| ())
    }

    fn extended_set(&self, call: &'static str, request: libc::c_uint, bytes: &mut [u8]) -> Result<usize, Error> {
        const NT_X86_XSTATE: usize = 0x202;
        let mut vector = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: both requests stay within the vector, which describes `bytes`.
        let r = unsafe { libc::ptrace(request, self.tid, NT_X86_XSTATE, &mut vector) };
        if r == -1 {
            return Err(Error::system(call));
        }
        Ok(vector.iov_len)
    }

    /// The area for restartable sequences that the thread has registered: address, bytes and
    /// signature, or zeros. None before Linux 5.13, which cannot tell.
    pub(crate) fn rseq(&self) -> [u64; 3] {
        const GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
        let mut words = [0u64; 3];
        let bytes = std::mem::size_of_val(&words);
        // SAFETY: the kernel writes at most as many bytes to `words` as it is given the size of.
        let r = unsafe { libc::ptrace(GET_RSEQ_CONFIGURATION, self.tid, bytes, words.as_mut_ptr()) };
        if r < 0 || words[0] == 0 {
            return [0; 3];
        }
        [words[0], words[1] & 0xffff_ffff, words[1] >> 32]
    }

    fn memory(&mut self) -> Result<&File, Error> {
        if self.memory.is_none() {
            let file = File::options()
                .read(true)
                .write(true)
                .open(format!("/proc/{}/mem", self.tid))
                .map_err(|source| Error::System {
                    call: "opening the target's memory",
                    source,
                })?;
            self.memory = Some(file);
        }
        self.memory.as_ref().ok_or(Error::UnexpectedStop {
            pid: self.tid,
            status: 0,
        })
    }

    pub fn read(&mut self, addr: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let read = self.memory()?.read_exact_at(bytes, addr);
        read.map_err(|source| Error::System {
            call: "reading the target's memory",
            source,
        })
    }

    /// Writes through page protections, as a debugger does.
    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        let written = self.memory()?.write_all_at(bytes, addr);
        written.map_err(|source| Error::System {
            call: "writing the target's memory",
            source,
        })
    }

    /// Lets it run on, delivering `signal` if not 0.
    pub fn resume(self, signal: i32) -> Result<(), Error> {
        let signal = signal as usize;
        sys::ptrace("PTRACE_CONT", libc::PTRACE_CONT, self.tid, 0, signal)
    }

    /// Lets it run to the next system-call stop.
    pub(crate) fn resume_to_syscall(&self) -> Result<(), Error> {
        self.deliver_to_syscall(0)
    }

    /// As above, delivering `signal` if not 0.
    pub(crate) fn deliver_to_syscall(&self, signal: i32) -> Result<(), Error> {
        let signal = signal as usize;
        sys::ptrace("PTRACE_SYSCALL", libc::PTRACE_SYSCALL, self.tid, 0, signal)
    }

    /// Leaves a group-stopped thread stopped, but lets it hear SIGCONT.
    pub fn listen(self) -> Result<(), Error> {
        sys::ptrace("PTRACE_LISTEN", libc::PTRACE_LISTEN, self.tid, 0, 0)
    }

    /// Ends tracing and lets it run on, delivering `signal` if not 0.
    pub fn detach(self, signal: i32) -> Result<(), Error> {
        let signal = signal as usize;
        sys::ptrace("PTRACE_DETACH", libc::PTRACE_DETACH, self.tid, 0, signal)
    }

    /// Ends it and reaps it.
    pub fn kill(self) {
        sys::kill(self.tid, libc::SIGKILL);
        // Dead already is as good.
        while let Ok(event) = wait(self.tid) {
            if matches!(event, Event::Ended(_)) {
                break;
            }
        }
    }

    /// The thread id this thread had before an exec made it the leader.
    pub fn tid_before_exec(&self) -> Result<i32, Error> {
        let mut message: libc::c_ulong = 0;
        // SAFETY: PTRACE_GETEVENTMSG writes one unsigned long.
        let r = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, self.tid, 0, &mut message) };
        if r == -1 {
            return Err(Error::system("PTRACE_GETEVENTMSG"));
        }
        Ok(message as i32)
    }
}

/// Asks a seized thread to stop; [`wait`] tells when it has.
pub fn interrupt(tid: i32) -> Result<(), Error> {
    sys::ptrace("PTRACE_INTERRUPT", libc::PTRACE_INTERRUPT, tid, 0, 0)
}
