//! The bytes of code that blocks have in common.
//!
//! **Problem.** Blocks overlap, and paths consist of what blocks had before: stored with each of
//! them, code would be several times as long as it is.
//!
//! **Idea.** Whoever writes and whoever reads keep the byte at every code address met so far, and
//! only bytes that are not among these stand in the file. Code that differs from what was there
//! before is stored whole, and replaces it.
use crate::varint::{Bad, Fields};
use std::collections::HashMap;

const LINE: u64 = 64;

/// What is known of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// Bit `i` is set if byte `i` is known.
    known: u64,
    bytes: [u8; LINE as usize],
}

const UNKNOWN: Line = Line {
    known: 0,
    bytes: [0; LINE as usize],
};

/// What is known of code, by code address.
#[derive(Debug, Default)]
pub(crate) struct CodeMap {
    /// By code address / 64.
    lines: HashMap<u64, Line>,
}

/// Cuts `length` bytes from `at` on, which may go around the end of all addresses, at the ends of
/// lines: the line, the first byte in it, and how many.
fn lines(at: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let now = at.wrapping_add(done as u64);
        let first = (now % LINE) as usize;
        let count = (LINE as usize - first).min(length - done);
        done += count;
        (count > 0).then_some((now / LINE, first, count))
    })
}

impl CodeMap {
    /// Whether no byte that is known is another.
    pub fn agrees(&self, at: u64, code: &[u8]) -> bool {
        let mut rest = code;
        lines(at, code.len()).all(|(line, first, count)| {
            let (bytes, more) = rest.split_at(count);
            rest = more;
            let known = self.lines.get(&line).unwrap_or(&UNKNOWN);
            let agrees = |(i, &byte): (usize, &u8)| known.known >> i & 1 == 0 || known.bytes[i] == byte;
            (first..).zip(bytes).all(agrees)
        })
    }

    /// Adds code that agrees with what is known; the bytes that are new go to `to`.
    pub fn add(&mut self, at: u64, code: &[u8], to: &mut Vec<u8>) {
        let mut rest = code;
        for (line, first, count) in lines(at, code.len()) {
            let (bytes, more) = rest.split_at(count);
            rest = more;
            let line = self.lines.entry(line).or_insert(UNKNOWN);
            for (i, &byte) in (first..).zip(bytes) {
                if line.known >> i & 1 == 0 {
                    line.known |= 1 << i;
                    line.bytes[i] = byte;
                    to.push(byte);
                }
            }
        }
    }

    /// The inverse of [`CodeMap::add`]: code is appended to `all`, and the bytes that are new come
    /// from `from`.
    pub fn take(&mut self, at: u64, length: usize, from: &mut Fields<'_>, all: &mut Vec<u8>) -> Result<(), Bad> {
        for (line, first, count) in lines(at, length) {
            let line = self.lines.entry(line).or_insert(UNKNOWN);
            for i in first..first + count {
                if line.known >> i & 1 == 0 {
                    line.bytes[i] = from.byte()?;
                    line.known |= 1 << i;
                }
            }
            all.extend_from_slice(&line.bytes[first..first + count]);
        }
        Ok(())
    }

    /// This is what stands there now.
    pub fn replace(&mut self, at: u64, code: &[u8]) {
        let mut rest = code;
        for (line, first, count) in lines(at, code.len()) {
            let (bytes, more) = rest.split_at(count);
            rest = more;
            let line = self.lines.entry(line).or_insert(UNKNOWN);
            line.bytes[first..first + count].copy_from_slice(bytes);
            (first..first + count).for_each(|i| line.known |= 1 << i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code as it is written and read again: how many bytes each took.
    fn stored(codes: &[(u64, &[u8])]) -> Vec<usize> {
        let (mut writer, mut reader) = (CodeMap::default(), CodeMap::default());
        let one = |&(at, bytes): &(u64, &[u8])| {
            assert!(writer.agrees(at, bytes));
            let mut column = Vec::new();
            writer.add(at, bytes, &mut column);
            let (mut fields, mut all) = (Fields(&column), vec![1]);
            reader.take(at, bytes.len(), &mut fields, &mut all).unwrap();
            fields.end().unwrap();
            assert_eq!(all[1..], *bytes);
            assert_eq!(reader.lines, writer.lines);
            column.len()
        };
        codes.iter().map(one).collect()
    }

    #[test]
    fn what_is_known_is_not_stored_again() {
        let code: Vec<u8> = (0..200).collect();
        let part = |range: std::ops::Range<usize>| (0x103c + range.start as u64, &code[range]);
        let parts = [
            part(10..20),
            part(15..25),
            part(40..50),
            part(0..60),
            part(5..55),
            part(60..61),
            part(0..200),
            part(0..0),
        ];
        assert_eq!(stored(&parts), [10, 5, 10, 35, 0, 1, 139, 0]);
        assert_eq!(stored(&[(u64::MAX - 1, &code[..4]), (1, &code[3..5])]), [4, 1]);
    }

    #[test]
    fn code_that_differs_replaces_what_was_there() {
        let mut map = CodeMap::default();
        map.replace(100, &[1; 100]);
        assert!(!map.agrees(95, &[2; 20]) && !map.agrees(199, &[2; 2]) && map.agrees(200, &[2; 5]));
        map.replace(103, &[2; 2]);
        let mut all = Vec::new();
        map.take(102, 5, &mut Fields(&[]), &mut all).unwrap();
        assert_eq!(all, [1, 2, 2, 1, 1]);
        assert!(map.take(99, 2, &mut Fields(&[]), &mut all).is_err());
    }
}
