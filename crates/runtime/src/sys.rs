//! System calls, raw. The runtime must never call into the target's C library.
use core::arch::asm;

pub const READ: usize = 0;
pub const WRITE: usize = 1;
pub const OPEN: usize = 2;
pub const CLOSE: usize = 3;
pub const MMAP: usize = 9;
pub const MPROTECT: usize = 10;
pub const MUNMAP: usize = 11;
pub const BRK: usize = 12;
pub const RT_SIGACTION: usize = 13;
pub const RT_SIGPROCMASK: usize = 14;
pub const RT_SIGRETURN: usize = 15;
pub const PREAD: usize = 17;
pub const READV: usize = 19;
pub const MREMAP: usize = 25;
pub const MADVISE: usize = 28;
pub const SHMAT: usize = 30;
pub const SHMCTL: usize = 31;
pub const GETPID: usize = 39;
pub const RECVFROM: usize = 45;
pub const RECVMSG: usize = 47;
pub const CLONE: usize = 56;
pub const FORK: usize = 57;
pub const VFORK: usize = 58;
pub const EXECVE: usize = 59;
pub const EXIT: usize = 60;
pub const SHMDT: usize = 67;
pub const READLINK: usize = 89;
pub const GETTIMEOFDAY: usize = 96;
pub const SIGALTSTACK: usize = 131;
pub const PRCTL: usize = 157;
pub const ARCH_PRCTL: usize = 158;
pub const GETTID: usize = 186;
pub const TKILL: usize = 200;
pub const TIME: usize = 201;
pub const FUTEX: usize = 202;
pub const REMAP_FILE_PAGES: usize = 216;
pub const CLOCK_GETTIME: usize = 228;
pub const EXIT_GROUP: usize = 231;
pub const TGKILL: usize = 234;
pub const PREADV: usize = 295;
pub const GETCPU: usize = 309;
pub const GETRANDOM: usize = 318;
pub const EXECVEAT: usize = 322;
pub const PREADV2: usize = 327;
pub const PKEY_MPROTECT: usize = 329;
pub const RSEQ: usize = 334;
pub const CLONE3: usize = 435;
pub const FUTEX_WAITV: usize = 449;
pub const MSEAL: usize = 462;

pub const EPERM: isize = -1;
pub const EAGAIN: isize = -11;
pub const ENOMEM: isize = -12;
pub const ESRCH: isize = -3;
pub const EINTR: isize = -4;
pub const EFAULT: isize = -14;
pub const EBUSY: isize = -16;
pub const EEXIST: isize = -17;
pub const EINVAL: isize = -22;
pub const ENOSYS: isize = -38;

pub const PROT_NONE: usize = 0;
pub const PROT_READ: usize = 1;
pub const PROT_WRITE: usize = 2;
pub const PROT_EXEC: usize = 4;
pub const MAP_SHARED: usize = 1;
pub const MAP_ANONYMOUS: usize = 0x20;
pub const MAP_ANON_PRIVATE: usize = 0x22;
pub const MAP_NORESERVE: usize = 0x4000;
pub const MAP_FIXED: usize = 0x10;
pub const MAP_FIXED_NOREPLACE: usize = 0x10_0000;

/// # Safety
/// As for the system call itself.
#[inline]
pub unsafe fn call(n: usize, a: [usize; 6]) -> isize {
    let r: isize;
    // SAFETY: the kernel clobbers rcx and r11 only; the caller answers for the rest.
    unsafe {
        asm!("syscall", inlateout("rax") n as isize => r, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
             in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    r
}

pub fn is_error(r: isize) -> bool {
    (-4095..0).contains(&r)
}

/// A new private mapping, at `addr` exactly if it is not 0.
pub fn map(addr: u64, bytes: usize, prot: usize) -> Option<u64> {
    let fixed = if addr == 0 { 0 } else { MAP_FIXED_NOREPLACE };
    // SAFETY: a fresh mapping replaces nothing.
    let r = unsafe {
        call(
            MMAP,
            [
                addr as usize,
                bytes,
                prot,
                MAP_ANON_PRIVATE | MAP_NORESERVE | fixed,
                usize::MAX,
                0,
            ],
        )
    };
    if is_error(r) {
        return None;
    }
    if addr != 0 && r as u64 != addr {
        // An old kernel took the address as a hint.
        unmap(r as u64, bytes);
        return None;
    }
    Some(r as u64)
}

pub fn unmap(addr: u64, bytes: usize) {
    // SAFETY: callers own the range.
    unsafe { call(MUNMAP, [addr as usize, bytes, 0, 0, 0, 0]) };
}

pub fn protect(addr: u64, bytes: usize, prot: usize) -> bool {
    // SAFETY: only changes protections of ranges the caller is responsible for.
    unsafe { call(MPROTECT, [addr as usize, bytes, prot, 0, 0, 0]) == 0 }
}

pub fn gettid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(GETTID, [0; 6]) as u32 }
}

pub fn getpid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(GETPID, [0; 6]) as u32 }
}

pub fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { call(EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Wait while `*word == seen`, at most `millis` (`u64::MAX`: for ever). Shared between processes.
///
/// By futex_waitv where there is one: a futex wait with a limit that is interrupted makes the kernel
/// forget how to go on with a system call of the target's that was interrupted before.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, seen: u32, millis: u64) {
    const SIZE_32: u64 = 2;
    const MONOTONIC: usize = 1;
    let (at, seen) = (word.as_ptr() as usize, seen as usize);
    if millis == u64::MAX {
        // SAFETY: `word` is valid for the call.
        unsafe { call(FUTEX, [at, 0, seen, 0, 0, 0]) };
        return;
    }
    let mut until = [0u64; 2];
    let waiter = [seen as u64, at as u64, SIZE_32];
    // SAFETY: all that is pointed to is ours and lives for the calls.
    let r = unsafe {
        call(CLOCK_GETTIME, [MONOTONIC, until.as_mut_ptr() as usize, 0, 0, 0, 0]);
        let nanos = until[1] + millis % 1000 * 1_000_000;
        until = [until[0] + millis / 1000 + nanos / 1_000_000_000, nanos % 1_000_000_000];
        let waiters = waiter.as_ptr() as usize;
        call(FUTEX_WAITV, [waiters, 1, 0, until.as_ptr() as usize, MONOTONIC, 0])
    };
    if r == ENOSYS || r == EPERM {
        let limit = [millis / 1000, millis % 1000 * 1_000_000];
        // SAFETY: as above.
        unsafe { call(FUTEX, [at, 0, seen, limit.as_ptr() as usize, 0, 0]) };
    }
}

pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: as above.
    unsafe { call(FUTEX, [word.as_ptr() as usize, 1, i32::MAX as usize, 0, 0, 0]) };
}

pub fn tsc() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Write to the target's standard error.
pub fn say(parts: &[&[u8]]) {
    let mut line = [0u8; 256];
    let mut n = 0;
    for p in [b"memtrail: " as &[u8]]
        .iter()
        .chain(parts)
        .chain([b"\n" as &[u8]].iter())
    {
        let k = p.len().min(line.len() - n);
        line[n..n + k].copy_from_slice(&p[..k]);
        n += k;
    }
    // SAFETY: the buffer is ours.
    unsafe { call(WRITE, [2, line.as_ptr() as usize, n, 0, 0, 0]) };
}

/// A number as hexadecimal text.
pub fn hex(v: u64) -> [u8; 18] {
    let mut t = *b"0x0000000000000000";
    for (i, b) in t[2..].iter_mut().enumerate() {
        *b = b"0123456789abcdef"[(v >> (60 - 4 * i) & 15) as usize];
    }
    t
}

/// Our own failure: say so and end the target with status 125.
pub fn die(parts: &[&[u8]]) -> ! {
    say(parts);
    exit_group(125)
}
