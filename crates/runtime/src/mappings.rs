//! The target's system calls that change its mappings.
//!
//! **Problem.** Code in a range that changes must be forgotten, what happens must be noted, and
//! no such call may touch memory of the runtime's ([`crate::space`]), which natively would not be
//! there.
//!
//! **Idea.** Where it can be done, the target gets what it would get natively: unmapping a hole
//! does nothing, and changing the protection of one fails with ENOMEM behind what lies in front
//! of it. What cannot be done is to map something where the runtime is. That is refused, with
//! EEXIST if the target asked for it and else with ENOMEM, and the user is told once.
//!
//! Not guarded against: a target that hands addresses of ours to other system calls as buffers.
use crate::cache::{Cache, CACHE};
use crate::notes;
use crate::process;
use crate::space::{self, SPACE};
use crate::sys;
use crate::syscalls::raw;
use crate::thread::Thread;
use core::sync::atomic::{AtomicBool, Ordering::*};
use memtrail_ring::record;

const MAP_ANONYMOUS: u64 = 0x20;
const MAP_FIXED: u64 = sys::MAP_FIXED as u64;
const MAP_FIXED_NOREPLACE: u64 = sys::MAP_FIXED_NOREPLACE as u64;
const MREMAP_FIXED: u64 = 2;
const SHM_REMAP: u64 = 0o40000;
const PROTECTION: u64 = 7;
/// No address of a process is this high.
const TOP: u64 = 1 << 47;

fn page_up(v: u64) -> u64 {
    v.saturating_add(4095) & !4095
}

fn end_of(start: u64, bytes: u64) -> u64 {
    start.saturating_add(page_up(bytes))
}

/// Whether the kernel would look at the mappings in this range at all.
fn plausible(start: u64, bytes: u64) -> bool {
    start & 4095 == 0 && bytes != 0 && end_of(start, bytes) <= TOP
}

/// mmap, munmap, mprotect, mremap, pkey_mprotect.
pub fn change(t: &mut Thread, n: usize, a: &[u64; 6]) -> isize {
    let mut name = [0; 4096];
    let anonymous = n != sys::MMAP || a[3] & MAP_ANONYMOUS != 0 || t.unrecorded;
    let source = if anonymous {
        &[]
    } else {
        notes::file_name(a[4], &mut name)
    };
    // The lock is held over the call, so that no other thread translates from a mapping in flux.
    let mut cache = CACHE.lock();
    match n {
        sys::MMAP => map(t, &mut cache, a, source, if anonymous { 0 } else { a[5] }),
        sys::MREMAP => remap(t, &mut cache, a),
        sys::MUNMAP => unmap(t, &mut cache, a),
        _ => protect(&mut cache, n, a),
    }
}

/// The target wants something where the runtime is. The first time the user is told.
fn refuse(start: u64, error: isize) -> isize {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Relaxed) {
        process::warn(&[
            b"the program wanted to map memory at ",
            &sys::hex(start),
            b", where memtrail's runtime lies, and was refused",
        ]);
    }
    error
}

fn map(t: &mut Thread, cache: &mut Cache, a: &[u64; 6], source: &[u8], offset: u64) -> isize {
    let r = if a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 && plausible(a[0], a[1]) {
        let space = SPACE.lock();
        if space.first_in(a[0], end_of(a[0], a[1])).is_some() {
            drop(space);
            let replaces = a[3] & MAP_FIXED_NOREPLACE == 0;
            return refuse(a[0], if replaces { sys::ENOMEM } else { sys::EEXIST });
        }
        raw(sys::MMAP, a)
    } else {
        raw(sys::MMAP, a)
    };
    if !sys::is_error(r) {
        let (start, end) = (r as u64, end_of(r as u64, a[1]));
        cache.invalidate(start, end);
        process::note_unmap(start, end);
        notes::mapped(t, start, end - start, a[2] & PROTECTION, source, offset);
    }
    r
}

fn remap(t: &mut Thread, cache: &mut Cache, a: &[u64; 6]) -> isize {
    let space = SPACE.lock();
    if plausible(a[0], a[1].max(1)) && space.first_in(a[0], end_of(a[0], a[1].max(1))).is_some() {
        return sys::EFAULT;
    }
    let fixed = a[3] & MREMAP_FIXED != 0 && plausible(a[4], a[2]);
    if fixed && space.first_in(a[4], end_of(a[4], a[2])).is_some() {
        drop(space);
        return refuse(a[4], sys::ENOMEM);
    }
    let r = raw(sys::MREMAP, a);
    drop(space);
    if !sys::is_error(r) {
        cache.invalidate(a[0], end_of(a[0], a[1]));
        cache.invalidate(r as u64, end_of(r as u64, a[2]));
        process::note_unmap(a[0], end_of(a[0], a[1]));
        let moved = [a[0], page_up(a[1]), r as u64, page_up(a[2])];
        notes::write(t, record::REMAPPED, moved);
    }
    r
}

fn unmap(t: &mut Thread, cache: &mut Cache, a: &[u64; 6]) -> isize {
    let end = end_of(a[0], a[1]);
    let r = around(sys::MUNMAP, a, 0);
    if !sys::is_error(r) {
        cache.invalidate(a[0], end);
        process::note_unmap(a[0], end);
        notes::write(t, record::UNMAPPED, [a[0], end - a[0]]);
    }
    r
}

fn protect(cache: &mut Cache, n: usize, a: &[u64; 6]) -> isize {
    let end = end_of(a[0], a[1]);
    let space = SPACE.lock();
    let ours = space.first_in(a[0], end).filter(|_| plausible(a[0], a[1]));
    let r = match ours {
        None => raw(n, a),
        Some(ours) if ours.start <= a[0] => sys::ENOMEM,
        Some(ours) => match raw(n, &[a[0], ours.start - a[0], a[2], a[3], 0, 0]) {
            0 => sys::ENOMEM,
            error => error,
        },
    };
    drop(space);
    if !sys::is_error(r) || n == sys::MPROTECT || ours.is_some() {
        cache.invalidate(a[0], end);
    }
    r
}

/// Make the call, whose first arguments are a start and a length, for each part of the range that
/// is not ours. `result` is what the call returns if it meets a hole, as it would natively.
fn around(n: usize, a: &[u64; 6], result: isize) -> isize {
    let space = SPACE.lock();
    let (mut start, end) = (a[0], end_of(a[0], a[1]));
    if !plausible(a[0], a[1]) || space.first_in(start, end).is_none() {
        if n == sys::MADVISE {
            // It may wait for another thread of the target, and it takes nothing away: the worst is
            // that it drops pages of memory that became ours this moment, which are still empty.
            drop(space);
        }
        return raw(n, a);
    }
    while start < end {
        let ours = space.first_in(start, end);
        let to = ours.map_or(end, |r| r.start);
        if start < to {
            let r = raw(n, &[start, to - start, a[2], a[3], a[4], a[5]]);
            if sys::is_error(r) && r != result {
                return r;
            }
        }
        start = ours.map_or(end, |r| r.end);
    }
    result
}

/// madvise, mseal and remap_file_pages.
pub fn treat(n: usize, a: &[u64; 6]) -> isize {
    match n {
        sys::MADVISE => around(n, a, sys::ENOMEM),
        _ => {
            let space = SPACE.lock();
            let ours = plausible(a[0], a[1]) && space.first_in(a[0], end_of(a[0], a[1])).is_some();
            match n {
                sys::MSEAL if ours => sys::ENOMEM,
                _ if ours => sys::EINVAL,
                _ => raw(n, a),
            }
        }
    }
}

/// brk, shmat and shmdt. Under the same lock, so that notes are numbered in the order in which it
/// happened.
pub fn segment(t: &mut Thread, n: usize, a: &[u64; 6]) -> isize {
    let cache = CACHE.lock();
    // A segment that is detached is as long as it was when it was attached: the kernel knows.
    let bytes = |at: u64| {
        let mut bytes = 0;
        crate::maps::each(&mut |r, path| {
            if r.start == at + bytes && path.starts_with(b"/SYSV") {
                bytes += r.end - r.start;
            }
        });
        bytes
    };
    let detached = if n == sys::SHMDT { bytes(a[0]) } else { 0 };
    let r = if n == sys::SHMAT { attach(a) } else { raw(n, a) };
    match n {
        _ if sys::is_error(r) => {}
        sys::BRK if a[0] == 0 => {}
        sys::BRK => notes::write(t, record::BREAK, [r as u64]),
        sys::SHMDT => notes::write(t, record::UNMAPPED, [a[0], detached]),
        _ => notes::mapped(t, r as u64, bytes(r as u64), 3, b"/SYSV", 0),
    }
    drop(cache);
    r
}

/// shmat. The kernel itself refuses an address that is taken, unless it is told to replace what
/// is there.
fn attach(a: &[u64; 6]) -> isize {
    if a[2] & SHM_REMAP == 0 {
        return raw(sys::SHMAT, a);
    }
    const IPC_STAT: usize = 2;
    /// Index of the size in `struct shmid64_ds`, behind `struct ipc64_perm`.
    const SIZE: usize = 6;
    let mut about = [0u64; 16];
    // SAFETY: the structure has 112 bytes, and the buffer is ours.
    unsafe {
        sys::call(
            sys::SHMCTL,
            [a[0] as usize, IPC_STAT, about.as_mut_ptr() as usize, 0, 0, 0],
        )
    };
    let space = space::hold();
    if space.first_in(a[1], end_of(a[1], about[SIZE])).is_some() {
        drop(space);
        return refuse(a[1], sys::EINVAL);
    }
    raw(sys::SHMAT, a)
}
