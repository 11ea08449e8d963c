//! What the kernel says of the target's address space: /proc/self/maps, read on demand.
use alloc::vec::Vec;

use crate::sys;

#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub start: u64,
    pub end: u64,
    pub read: bool,
    pub write: bool,
    pub exec: bool,
    pub offset: u64,
}

/// Read the file whole and hand over each line's range and path. False if it cannot be read: the
/// target has no descriptor left, or has gone where there is no /proc.
pub fn each(f: &mut dyn FnMut(Range, &[u8])) -> bool {
    let path = b"/proc/self/maps\0";
    // SAFETY: plain file reading with our own buffer; the descriptor is closed before we return.
    unsafe {
        let fd = sys::call(sys::OPEN, [path.as_ptr() as usize, 0o2000000, 0, 0, 0, 0]);
        if sys::is_error(fd) {
            return false;
        }
        let mut text: Vec<u8> = Vec::with_capacity(32 * 1024);
        loop {
            if text.capacity() - text.len() < 8192 {
                text.reserve(text.capacity());
            }
            let room = text.capacity() - text.len();
            let n = sys::call(
                sys::READ,
                [fd as usize, text.as_mut_ptr().add(text.len()) as usize, room, 0, 0, 0],
            );
            if n <= 0 {
                break;
            }
            text.set_len(text.len() + n as usize);
        }
        sys::call(sys::CLOSE, [fd as usize, 0, 0, 0, 0, 0]);
        for line in text.split(|&b| b == b'\n') {
            if let Some((range, path)) = parse(line) {
                f(range, path);
            }
        }
    }
    true
}

fn hex(text: &mut &[u8]) -> Option<u64> {
    let mut v = 0u64;
    let mut n = 0;
    while let Some((&b, rest)) = text.split_first() {
        let d = match b {
            b'0'..=b'9' => b - b'0',
            b'a'..=b'f' => b - b'a' + 10,
            _ => break,
        };
        v = v << 4 | d as u64;
        n += 1;
        *text = rest;
    }
    (n > 0).then_some(v)
}

fn parse(line: &[u8]) -> Option<(Range, &[u8])> {
    let mut t = line;
    let start = hex(&mut t)?;
    t = t.get(1..)?;
    let end = hex(&mut t)?;
    let flags = t.get(1..5)?;
    t = t.get(6..)?;
    let offset = hex(&mut t)?;
    let path = match line.iter().position(|&b| b == b'/' || b == b'[') {
        Some(i) => &line[i..],
        None => &[],
    };
    let range = Range {
        start,
        end,
        read: flags[0] == b'r',
        write: flags[1] == b'w',
        exec: flags[2] == b'x',
        offset,
    };
    Some((range, path))
}

/// An address for `bytes` free bytes as near `want` as can be, within `reach` of `center`.
pub fn hole(center: u64, want: u64, bytes: u64, reach: u64) -> Option<u64> {
    let mut best: Option<u64> = None;
    let mut last_end = 0x1_0000u64;
    let mut consider = |from: u64, to: u64| {
        let from = (from + 0x1f_ffff) & !0x1f_ffff;
        if to < bytes || from > to - bytes {
            return;
        }
        let at = want.clamp(from, (to - bytes) & !0x1f_ffff);
        let far = at.abs_diff(center).max((at + bytes).abs_diff(center));
        if at < from || far > reach {
            return;
        }
        if best.is_none_or(|b| at.abs_diff(want) < b.abs_diff(want)) {
            best = Some(at);
        }
    };
    let known = each(&mut |r, _| {
        if r.start > last_end {
            consider(last_end, r.start);
        }
        last_end = last_end.max(r.end);
    });
    if !known {
        return None;
    }
    consider(last_end, 0x7fff_ffff_f000);
    best
}
