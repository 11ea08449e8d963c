//! System calls in the name of a stopped target.
//!
//! **Idea.** A `syscall` instruction that the target has already is used, if one was found; else two
//! bytes at the program counter become one. The thread runs from system-call stop to system-call
//! stop, never through a SIGTRAP, so no signal disposition of the target is touched. All signals are
//! blocked meanwhile; a SIGSTOP that gets through is remembered.
//!
//! **Invariant.** When [`Remote`] ends, code bytes, registers and signal mask are what they were.
use crate::stopped::{wait, Event, Stopped};
use crate::Error;
use std::io;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
const ALL_BLOCKED: u64 = u64::MAX;

/// The scope of remote system calls.
pub(crate) struct Remote<'t> {
    target: &'t mut Stopped,
    saved: libc::user_regs_struct,
    /// Where the instruction is, and what was there if it is ours.
    at: u64,
    code: Option<[u8; 2]>,
    mask: u64,
    /// A signal that arrived all the same, to be delivered when the target goes on.
    held_signal: i32,
    ended: bool,
}

impl<'t> Remote<'t> {
    /// Begins at a stop from which the target returns straight to user code.
    pub fn begin(target: &'t mut Stopped) -> Result<Remote<'t>, Error> {
        let saved = target.registers()?;
        Remote::with(target, saved, None)
    }

    /// As [`Remote::begin`], with a `syscall` instruction of the target's own, if there is one.
    /// `saved` is what the registers will be in the end.
    pub fn with(target: &'t mut Stopped, saved: libc::user_regs_struct, own: Option<u64>) -> Result<Remote<'t>, Error> {
        let mask = target.signal_mask()?;
        let code = match own {
            Some(_) => None,
            None => {
                let mut code = [0; 2];
                target.read(saved.rip, &mut code)?;
                Some(code)
            }
        };
        target.set_signal_mask(ALL_BLOCKED)?;
        if code.is_some() {
            target.write(saved.rip, &SYSCALL)?;
        }
        Ok(Remote {
            at: own.unwrap_or(saved.rip),
            target,
            saved,
            code,
            mask,
            held_signal: 0,
            ended: false,
        })
    }

    /// The registers as the program had them.
    pub fn saved(&self) -> &libc::user_regs_struct {
        &self.saved
    }

    /// The signals that the program blocks.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Error> {
        self.target.write(addr, bytes)
    }

    /// Makes one system call in the target.
    pub fn call(&mut self, name: &'static str, number: libc::c_long, args: [u64; 6]) -> Result<u64, Error> {
        let mut regs = self.saved;
        regs.rax = number as u64;
        regs.rip = self.at;
        regs.orig_rax = u64::MAX;
        [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9] = args;
        self.target.set_registers(&regs)?;
        self.run_to_syscall_stop()?;
        self.run_to_syscall_stop()?;
        let result = self.target.registers()?.rax;
        // The kernel returns errors as the last page of numbers.
        if (result as i64) < 0 && (result as i64) >= -4095 {
            return Err(Error::Remote {
                call: name,
                source: io::Error::from_raw_os_error(-(result as i64) as i32),
            });
        }
        Ok(result)
    }

    fn run_to_syscall_stop(&mut self) -> Result<(), Error> {
        let pid = self.target.tid();
        loop {
            self.target.resume_to_syscall()?;
            match wait(pid)? {
                Event::Syscall(_) => return Ok(()),
                Event::Signal(_, signal) => self.held_signal = signal,
                Event::GroupStop(_) | Event::Other(_) | Event::Exec(_) => {}
                Event::Ended(status) => {
                    self.ended = true;
                    return Err(Error::Died {
                        pid,
                        how: format!("{status:?}"),
                    });
                }
            }
        }
    }

    /// Puts everything back. Returns the signal to deliver when the target goes on, or 0.
    pub fn end(mut self) -> Result<i32, Error> {
        self.restore()?;
        Ok(self.held_signal)
    }

    fn restore(&mut self) -> Result<(), Error> {
        if self.ended {
            return Ok(());
        }
        self.ended = true;
        if let Some(code) = self.code {
            self.target.write(self.at, &code)?;
        }
        self.target.set_signal_mask(self.mask)?;
        let mut regs = self.saved;
        // No system call is in progress: the kernel must not restart one.
        regs.orig_rax = u64::MAX;
        self.target.set_registers(&regs)
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        // On an error path the target may be gone; there is nobody left to tell.
        let _ = self.restore();
    }
}
