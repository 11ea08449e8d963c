//! Single steps of a guest that already runs, natively or under the recorder, and a signal after one of them.
//!
//! The recorder traces its target around exec only, so that somebody else can do so later. ptrace belongs to a thread:
//! a [`Stepper`] is used on the thread that made it.

use libc::{c_int, c_long, user_regs_struct};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;

const PUSHF: u8 = 0x9c;
const TRAP_FLAG: u64 = 0x100;
const AT_SYSTEM_CALL: c_int = libc::SIGTRAP | 0x80;

/// A thread, the first of its process, that stands still.
pub struct Stepper {
    tid: i32,
    memory: File,
}

fn check(result: c_long) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

impl Stepper {
    /// Stops a running process of one thread.
    pub fn seize(tid: i32) -> io::Result<Stepper> {
        // SAFETY: no pointers are passed.
        check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0usize, libc::PTRACE_O_TRACESYSGOOD as usize) })?;
        let memory = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{tid}/mem"))?;
        let stepper = Stepper { tid, memory };
        // SAFETY: no pointers are passed.
        check(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0usize, 0usize) })?;
        stepper.wait()?;
        Ok(stepper)
    }

    /// Waits for the next stop, and returns its signal.
    fn wait(&self) -> io::Result<c_int> {
        let mut status = 0;
        // SAFETY: the kernel writes one integer behind the pointer.
        check(unsafe { libc::waitpid(self.tid, &mut status, libc::__WALL) }.into())?;
        match libc::WIFSTOPPED(status) {
            true => Ok(libc::WSTOPSIG(status)),
            false => Err(io::Error::other(format!("ended with status {status:#x}"))),
        }
    }

    fn resume(&self, request: libc::c_uint, signal: c_int) -> io::Result<c_int> {
        // SAFETY: no pointers are passed; the signal is a plain number.
        check(unsafe { libc::ptrace(request, self.tid, 0usize, signal as usize) })?;
        self.wait()
    }

    pub fn registers(&self) -> io::Result<user_regs_struct> {
        let mut registers = MaybeUninit::<user_regs_struct>::zeroed();
        // SAFETY: the kernel fills one user_regs_struct behind the pointer.
        check(unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.tid, 0usize, registers.as_mut_ptr()) })?;
        // SAFETY: all-zero bytes were already a valid value of this structure of integers.
        Ok(unsafe { registers.assume_init() })
    }

    /// The first two bytes of the code at an address.
    pub fn code(&self, address: u64) -> io::Result<[u8; 2]> {
        let mut code = [0; 2];
        self.memory.read_exact_at(&mut code, address)?;
        Ok(code)
    }

    /// Runs to where one byte has been read from standard input.
    pub fn run_to_read(&self) -> io::Result<()> {
        loop {
            let registers = match self.resume(libc::PTRACE_SYSCALL, 0)? {
                AT_SYSTEM_CALL => self.registers()?,
                other => return Err(io::Error::other(format!("signal {other} before the byte was read"))),
            };
            // At the entry of a call rax is an error.
            if registers.orig_rax == libc::SYS_read as u64 && registers.rdi == 0 && registers.rax == 1 {
                return Ok(());
            }
        }
    }

    /// Executes one instruction. The trap flag is kept out of flags that it pushes.
    pub fn step(&self, pushes_flags: bool) -> io::Result<()> {
        let mut signal = 0;
        loop {
            signal = self.resume(libc::PTRACE_SINGLESTEP, signal)?;
            if signal == libc::SIGTRAP {
                break;
            }
        }
        if pushes_flags {
            let top = self.registers()?.rsp;
            let mut flags = [0; 8];
            self.memory.read_exact_at(&mut flags, top)?;
            let flags = u64::from_le_bytes(flags) & !TRAP_FLAG;
            self.memory.write_all_at(&flags.to_le_bytes(), top)?;
        }
        Ok(())
    }

    /// Sends a signal, which is the first thing that happens, and lets go.
    pub fn interrupt_with(self, signal: c_int) -> io::Result<()> {
        // SAFETY: no pointers are passed; the thread is the first of its process, so that both ids are the same.
        check(unsafe { libc::syscall(libc::SYS_tgkill, self.tid, self.tid, signal) })?;
        self.release()
    }

    /// Lets go. Behind a step of `popf` the kernel may take the trap flag for the guest's own, and leave it: it must not stay.
    pub fn release(self) -> io::Result<()> {
        let mut registers = self.registers()?;
        if registers.eflags & TRAP_FLAG != 0 {
            registers.eflags &= !TRAP_FLAG;
            // SAFETY: the kernel reads one user_regs_struct behind the pointer.
            check(unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.tid, 0usize, &registers as *const _) })?;
        }
        // SAFETY: no pointers are passed.
        check(unsafe { libc::ptrace(libc::PTRACE_DETACH, self.tid, 0usize, 0usize) })
    }
}

/// Whether an instruction that begins with these bytes pushes the flags.
pub fn pushes_flags(code: [u8; 2]) -> bool {
    code[0] == PUSHF
}

/// Whether these bytes are a system call.
pub fn is_system_call(code: [u8; 2]) -> bool {
    code == [0x0f, 0x05]
}
