//! Ranges of byte addresses, which wrap around at 2^64.

/// `len` bytes from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    pub start: u64,
    pub len: u64,
}

impl Bytes {
    pub fn none() -> Bytes {
        Bytes { start: 0, len: 0 }
    }

    /// Line `n` of lines of `line` bytes.
    pub fn line(n: u64, line: u64) -> Bytes {
        Bytes {
            start: n * line,
            len: line,
        }
    }

    /// The lines that it touches, from its first byte on.
    pub fn lines(self, line: u64) -> Vec<u64> {
        let count = (self.start % line + self.len).div_ceil(line);
        let first = self.start / line * line;
        (0..count).map(|i| first.wrapping_add(i * line) / line).collect()
    }

    /// What of it lies in line `n`.
    pub fn within(self, n: u64, line: u64) -> Bytes {
        let start = n * line;
        let until_line = start.wrapping_sub(self.start);
        let into_line = self.start.wrapping_sub(start);
        if until_line < self.len {
            let len = line.min(self.len - until_line);
            Bytes { start, len }
        } else if into_line < line {
            let len = self.len.min(line - into_line);
            Bytes { start: self.start, len }
        } else {
            Bytes::none()
        }
    }
}
