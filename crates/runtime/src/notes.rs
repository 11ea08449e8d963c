//! Notes: what the target does to memory as a whole, written into the stream of the thread that
//! does it.
//!
//! **Invariant.** Notes of an address space are numbered in the order in which it happened: a
//! number is taken after memory was had and before it is given back, and numbers of mappings are
//! taken under the lock that their system calls are made under.
use crate::buffer;
use crate::heap;
use crate::maps;
use crate::process;
use crate::space;
use crate::sys;
use crate::thread::{Thread, RDI, RDX, RSI};
use core::sync::atomic::{AtomicU64, Ordering::*};
use memtrail_ring::record;
use memtrail_translate::Marker;

/// The next number. Threads, and processes that share this memory, have it in common.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Longest name a marker may give.
const MOST_NAME: usize = 1024;

/// Write a note; `words` are what follows its number.
pub fn write<const N: usize>(t: &mut Thread, head: u64, words: [u64; N]) {
    if !t.unrecorded {
        let number = NUMBER.fetch_add(1, SeqCst);
        write_numbered(t, head, number, words);
    }
}

fn write_numbered<const N: usize>(t: &mut Thread, head: u64, number: u64, words: [u64; N]) {
    let mut record = [0; 8];
    record[0] = head;
    record[1] = number;
    record[2..2 + N].copy_from_slice(&words);
    buffer::push(t, &record[..2 + N]);
}

/// What there was of memory without a file before anybody noted who allocated what.
const BEFORE: [(&[u8], &[u8]); 2] = [(b"[heap]", b"[heap before attach]"), (b"", b"[memory before attach]")];

/// A new image: nothing of the one before is left, and this is mapped. `was_running`: it is not new.
pub fn image(t: &mut Thread, was_running: bool) {
    if t.unrecorded {
        return;
    }
    write(t, record::UNMAPPED, [0, u64::MAX]);
    maps::each(&mut |r, path| {
        if !space::is_ours(r.start) {
            let known = BEFORE.iter().find(|(name, _)| was_running && *name == path);
            let path = known.map_or(path, |(_, named)| named);
            let protection = r.read as u64 | (r.write as u64) << 1 | (r.exec as u64) << 2;
            mapped(t, r.start, r.end - r.start, protection, path, r.offset);
        }
    });
    // SAFETY: only asks.
    let end = unsafe { sys::call(sys::BRK, [0; 6]) };
    write(t, record::BREAK, [end as u64]);
}

pub fn mapped(t: &mut Thread, address: u64, bytes: u64, protection: u64, source: &[u8], offset: u64) {
    if !t.unrecorded {
        let source = match source {
            [] => record::NO_TEXT,
            path => process::text(path),
        };
        write(t, record::MAPPED, [address, bytes, protection, source, offset]);
    }
}

/// The number of something that is about to happen, if it is to be told.
pub fn before(t: &Thread) -> Option<u64> {
    (!t.unrecorded).then(|| NUMBER.fetch_add(1, SeqCst))
}

/// It has happened.
pub fn after<const N: usize>(t: &mut Thread, head: u64, number: Option<u64>, words: [u64; N]) {
    if let Some(number) = number {
        write_numbered(t, head, number, words);
    }
}

/// The number of a fork that is about to happen, if it is to be told.
pub fn before_fork(t: &Thread) -> Option<u64> {
    let told = !t.unrecorded && buffer::session().follow.load(Relaxed) != 0;
    told.then(|| NUMBER.fetch_add(1, SeqCst))
}

/// In the parent: it has happened, or failed.
pub fn forked(t: &mut Thread, number: Option<u64>, child: u64) {
    if let Some(number) = number {
        write_numbered(t, record::FORKED, number, [child]);
    }
}

/// In a forked child, whose memory is its own.
pub fn restart() {
    NUMBER.store(0, SeqCst);
}

/// The target's own word.
pub fn marker(t: &mut Thread, marker: Marker) {
    if t.unrecorded {
        return;
    }
    let mut name = [0u8; MOST_NAME];
    let text = process::text(read_text(t.regs[RDX], &mut name));
    match marker {
        Marker::Name => write(t, record::NAME, [t.regs[RDI], t.regs[RSI], text]),
        Marker::Enter => write(t, record::ENTER, [text]),
        Marker::Leave => write(t, record::LEAVE, [text]),
    }
}

/// A text of the target's that ends with a zero byte, as far as it can be read.
fn read_text(from: u64, to: &mut [u8; MOST_NAME]) -> &[u8] {
    let mut have = 0;
    while have < MOST_NAME {
        let at = from.wrapping_add(have as u64);
        // No further than the page: the next may not be there.
        let n = (64 - (at & 63) as usize).min(MOST_NAME - have);
        if !heap::copy_in_target(to[have..].as_mut_ptr() as u64, at, n) {
            break;
        }
        if let Some(end) = to[have..have + n].iter().position(|&b| b == 0) {
            return &to[..have + end];
        }
        have += n;
    }
    &to[..have]
}

/// The name of an open file. Empty if there is none.
pub fn file_name(fd: u64, to: &mut [u8; 4096]) -> &[u8] {
    let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut digits = [0u8; 10];
    let (mut n, mut rest) = (0, fd as u32);
    loop {
        digits[n] = b'0' + (rest % 10) as u8;
        (n, rest) = (n + 1, rest / 10);
        if rest == 0 {
            break;
        }
    }
    for (to, from) in link[14..].iter_mut().zip(digits[..n].iter().rev()) {
        *to = *from;
    }
    // SAFETY: both buffers are ours.
    let r = unsafe {
        sys::call(
            sys::READLINK,
            [link.as_ptr() as usize, to.as_mut_ptr() as usize, to.len(), 0, 0, 0],
        )
    };
    &to[..r.max(0) as usize]
}
