//! The ptrace requests the oracle needs, each as a safe function over a thread id.
//!
//! libc is used directly: nix wraps neither PTRACE_GETSIGMASK nor the XSTATE
//! register set, and half a wrapper is worse than none. Every function here
//! only passes pointers to memory it owns, which is the whole safety argument.

use crate::machine::{Regs, Target};
use libc::{c_int, c_long, c_void, pid_t};
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;

pub const NT_X86_XSTATE: usize = 0x202;
const PTRACE_GETSIGMASK: u32 = 0x420a;
const PTRACE_SETSIGMASK: u32 = 0x420b;
const KERNEL_SIGSET_BYTES: usize = 8;

/// How to let a stopped thread go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// One instruction.
    Step,
    /// To the next boundary of a system call.
    ToSyscall,
    /// Stay stopped, as the job-control stop demands.
    Listen,
}

fn check(result: c_long) -> io::Result<c_long> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

pub fn resume(tid: pid_t, how: Resume, signal: c_int) -> io::Result<()> {
    let request = match how {
        Resume::Step => libc::PTRACE_SINGLESTEP,
        Resume::ToSyscall => libc::PTRACE_SYSCALL,
        Resume::Listen => libc::PTRACE_LISTEN,
    };
    // SAFETY: no pointers are passed; signal is a plain number.
    check(unsafe { libc::ptrace(request, tid, 0usize, signal as usize) }).map(drop)
}

/// The raw registers, kept whole because writing back needs all of them.
#[derive(Clone, Copy)]
pub struct RawRegs(pub libc::user_regs_struct);

impl RawRegs {
    pub fn regs(&self) -> Regs {
        let r = &self.0;
        Regs {
            gpr: [
                r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
                r.r15,
            ],
            rip: r.rip,
            rflags: r.eflags,
            fs_base: r.fs_base,
            gs_base: r.gs_base,
        }
    }
}

pub fn get_regs(tid: pid_t) -> io::Result<RawRegs> {
    let mut regs = MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: the kernel fills exactly one user_regs_struct behind the pointer.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, 0usize, regs.as_mut_ptr()) })?;
    // SAFETY: the call above succeeded, so the structure is filled.
    Ok(RawRegs(unsafe { regs.assume_init() }))
}

pub fn set_regs(tid: pid_t, regs: &RawRegs) -> io::Result<()> {
    // SAFETY: the kernel reads one user_regs_struct behind the pointer.
    check(unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid, 0usize, &regs.0 as *const _) }).map(drop)
}

/// `si_code` of the signal the thread is stopped for.
pub fn signal_code(tid: pid_t) -> io::Result<c_int> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the kernel fills one siginfo_t behind the pointer.
    check(unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid, 0usize, info.as_mut_ptr()) })?;
    // SAFETY: zeroed before, filled by the successful call.
    Ok(unsafe { info.assume_init() }.si_code)
}

pub fn event_message(tid: pid_t) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the kernel writes one unsigned long behind the pointer.
    check(unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0usize, &mut message as *mut _) })?;
    Ok(message)
}

/// Keeps SIGTRAP deliverable: a step trap that meets a blocked SIGTRAP resets the target's handler.
pub fn unblock_sigtrap(tid: pid_t) -> io::Result<()> {
    let mut mask = 0u64;
    // SAFETY: the kernel writes eight bytes, the size passed, behind the pointer.
    check(unsafe { libc::ptrace(PTRACE_GETSIGMASK, tid, KERNEL_SIGSET_BYTES, &mut mask as *mut _) })?;
    let sigtrap = 1u64 << (libc::SIGTRAP - 1);
    if mask & sigtrap != 0 {
        mask &= !sigtrap;
        // SAFETY: the kernel reads eight bytes, the size passed, behind the pointer.
        check(unsafe { libc::ptrace(PTRACE_SETSIGMASK, tid, KERNEL_SIGSET_BYTES, &mask as *const _) })?;
    }
    Ok(())
}

/// True at a system call's entry, false at its exit.
pub fn at_syscall_entry(tid: pid_t) -> io::Result<bool> {
    const PTRACE_GET_SYSCALL_INFO: u32 = 0x420e;
    const ENTRY: u8 = 1;
    let mut info = [0u8; 96];
    // SAFETY: the kernel writes at most the size passed behind the pointer.
    check(unsafe { libc::ptrace(PTRACE_GET_SYSCALL_INFO, tid, info.len(), info.as_mut_ptr()) })?;
    Ok(info[0] == ENTRY)
}

/// A stopped thread's memory and vector registers.
pub struct Stopped(pub pid_t);

impl Target for Stopped {
    fn xstate(&self) -> Vec<u8> {
        let mut image = vec![0u8; 16384];
        let mut iov = libc::iovec {
            iov_base: image.as_mut_ptr().cast(),
            iov_len: image.len(),
        };
        // SAFETY: the iovec describes `image`, which outlives the call.
        let result = unsafe {
            libc::ptrace(
                libc::PTRACE_GETREGSET,
                self.0,
                NT_X86_XSTATE,
                &mut iov as *mut libc::iovec,
            )
        };
        image.truncate(if result == -1 { 0 } else { iov.iov_len });
        image
    }

    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        read_some(self.0, addr, out) == out.len()
    }
}

/// Reads as many bytes from `addr` as are mapped; returns how many.
pub fn read_some(tid: pid_t, addr: u64, out: &mut [u8]) -> usize {
    let got = read_once(tid, addr, out);
    if got == out.len() {
        return got;
    }
    // A read that crosses into an unreadable page fails whole or stops there: retry up to the
    // page's end.
    let to_page_end = (4096 - (addr as usize & 4095)).min(out.len());
    let got = read_once(tid, addr, &mut out[..to_page_end]);
    if got > 0 {
        return got;
    }
    peek(tid, addr, &mut out[..to_page_end])
}

fn read_once(tid: pid_t, addr: u64, out: &mut [u8]) -> usize {
    let local = libc::iovec {
        iov_base: out.as_mut_ptr().cast(),
        iov_len: out.len(),
    };
    let remote = libc::iovec {
        iov_base: addr as *mut c_void,
        iov_len: out.len(),
    };
    // SAFETY: `local` describes `out`; `remote` is only looked at in the other process.
    let got = unsafe { libc::process_vm_readv(tid, &local, 1, &remote, 1, 0) };
    usize::try_from(got).unwrap_or(0)
}

/// Word by word with the debugger's right to read pages the program itself may not (execute-only).
fn peek(tid: pid_t, addr: u64, out: &mut [u8]) -> usize {
    let mut done = 0;
    for chunk in out.chunks_mut(8) {
        let at = addr.wrapping_add(done as u64);
        let mut word: c_long = 0;
        // SAFETY: the raw system call stores the word behind the fourth argument.
        let result = unsafe {
            libc::syscall(
                libc::SYS_ptrace,
                libc::PTRACE_PEEKDATA,
                tid,
                at as usize,
                &mut word as *mut c_long,
            )
        };
        if result == -1 {
            break;
        }
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        done += chunk.len();
    }
    done
}

/// Clears bits of one byte of the target.
pub fn clear_bits(tid: pid_t, addr: u64, bits: u8) -> io::Result<()> {
    let mut byte = [0u8];
    if read_once(tid, addr, &mut byte) != 1 || byte[0] & bits == 0 {
        return Ok(());
    }
    byte[0] &= !bits;
    let local = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let remote = libc::iovec {
        iov_base: addr as *mut c_void,
        iov_len: 1,
    };
    // SAFETY: `local` describes `byte`; the write goes to the other process.
    let wrote = unsafe { libc::process_vm_writev(tid, &local, 1, &remote, 1, 0) };
    check(wrote as c_long).map(drop)
}

/// Waits for any thread of any followed process.
pub fn wait_any() -> io::Result<(pid_t, c_int)> {
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one int behind the pointer.
        let tid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
        if tid >= 0 {
            return Ok((tid, status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Settings of a fresh target process.
#[derive(Clone, Copy, Default, Debug)]
pub struct Launch {
    pub no_aslr: bool,
    /// Run target and oracle on this CPU only: a step is a pair of context
    /// switches, and they are cheaper without crossing cores.
    pub cpu: Option<usize>,
}

/// Starts `argv` seized but not yet executing: the first stop reported will be its exec.
pub fn launch(argv: &[String], settings: Launch) -> io::Result<pid_t> {
    let argv: Vec<CString> = argv
        .iter()
        .map(|a| CString::new(a.as_str()))
        .collect::<Result<_, _>>()?;
    let mut pointers: Vec<*const libc::c_char> = argv.iter().map(|a| a.as_ptr()).collect();
    pointers.push(std::ptr::null());
    if let Some(cpu) = settings.cpu {
        pin(cpu);
    }
    let mut gate = [0; 2];
    // SAFETY: the kernel writes two descriptors into the array.
    check(unsafe { libc::pipe2(gate.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    // SAFETY: the oracle is single-threaded, and the child calls only
    // async-signal-safe functions before it executes the program or exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: as above; all memory used was prepared before the fork.
        unsafe { enter_program(gate, &pointers, settings.no_aslr) }
    }
    check(pid.into())?;
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    // SAFETY: no pointers are passed.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0usize, options as usize) })?;
    // SAFETY: both descriptors are ours; one byte is written from a static.
    unsafe {
        libc::write(gate[1], b"g".as_ptr().cast(), 1);
        libc::close(gate[0]);
        libc::close(gate[1]);
    }
    Ok(pid)
}

fn pin(cpu: usize) {
    // SAFETY: an all-zero cpu_set_t is valid, and the kernel only reads it.
    // Failing to pin costs speed, nothing else.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// In the forked child: wait to be seized, then become the program.
///
/// # Safety
/// Only between fork and exec; `argv` must end with a null pointer.
unsafe fn enter_program(gate: [c_int; 2], argv: &[*const libc::c_char], no_aslr: bool) -> ! {
    let mut byte = 0u8;
    // SAFETY: plain system calls on prepared memory; see the caller.
    unsafe {
        libc::read(gate[0], (&mut byte as *mut u8).cast(), 1);
        if no_aslr {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        }
        libc::execvp(argv[0], argv.as_ptr());
        libc::_exit(127)
    }
}

pub fn kill(pid: pid_t) {
    // SAFETY: no pointers; a process that is already gone is no harm.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
    }
}
