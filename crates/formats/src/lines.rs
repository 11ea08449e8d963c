//! Lines and numbers of text formats.
use crate::Error;
use std::io::{BufRead, Read};

/// Longer lines are no trace.
const LONGEST: u64 = 4096;
/// How much of a wrong line is shown.
const SHOWN: usize = 60;

/// Reads line by line, and knows where it is.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub fn new(input: R) -> Lines<R> {
        Lines {
            input,
            line: Vec::new(),
            number: 0,
        }
    }

    /// Goes to the next line; false at the end.
    pub fn advance(&mut self) -> Result<bool, Error> {
        self.line.clear();
        let mut limited = (&mut self.input).take(LONGEST);
        let got = limited.read_until(b'\n', &mut self.line).map_err(Error::Read)?;
        if got == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        } else if got as u64 == LONGEST {
            return Err(self.wrong("a line of less than 4096 bytes"));
        }
        Ok(true)
    }

    /// The line without its end.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// This line is not what was expected.
    pub fn wrong(&self, expected: &'static str) -> Error {
        let shown = &self.line[..self.line.len().min(SHOWN)];
        Error::Line {
            line: self.number,
            expected,
            found: String::from_utf8_lossy(shown).into_owned(),
        }
    }
}

/// A hexadecimal number, without a prefix.
#[inline]
pub(crate) fn hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut value = 0;
    for &digit in digits {
        value = value << 4 | u64::from(char::from(digit).to_digit(16)?);
    }
    Some(value)
}

/// A hexadecimal number with `0x` before it.
pub(crate) fn prefixed_hex(text: &[u8]) -> Option<u64> {
    hex(text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"))?)
}

/// A decimal number.
#[inline]
pub(crate) fn decimal(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 10 {
        return None;
    }
    let mut value = 0u64;
    for &digit in digits {
        value = value * 10 + u64::from(char::from(digit).to_digit(10)?);
    }
    u32::try_from(value).ok()
}

/// The fields between blanks.
pub(crate) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace()).filter(|f| !f.is_empty())
}

/// Adds a hexadecimal number of at least `least` digits.
pub(crate) fn put_hex(out: &mut Vec<u8>, value: u64, least: u32) {
    let digits = (u64::BITS - value.leading_zeros()).div_ceil(4).max(least).max(1);
    for i in (0..digits).rev() {
        let digit = (value.checked_shr(i * 4).unwrap_or(0) & 15) as u8;
        out.push(b"0123456789abcdef"[usize::from(digit)]);
    }
}

/// Adds a decimal number.
pub(crate) fn put_decimal(out: &mut Vec<u8>, mut value: u32) {
    let begin = out.len();
    loop {
        out.push(b'0' + (value % 10) as u8);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out[begin..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for value in [0, 9, 10, 0xdead_beef, u64::MAX] {
            let mut out = Vec::new();
            put_hex(&mut out, value, 8);
            assert_eq!(out, format!("{value:08x}").into_bytes());
            assert_eq!(hex(&out), Some(value));
            out.clear();
            put_decimal(&mut out, value as u32);
            assert_eq!(out, (value as u32).to_string().into_bytes());
            assert_eq!(decimal(&out), Some(value as u32));
        }
        for bad in [&b""[..], b"12345678901234567", b"g", b"-1", b"0x1"] {
            assert_eq!(hex(bad), None);
        }
        for bad in [&b""[..], b"4294967296", b"99999999999", b"a", b"+1"] {
            assert_eq!(decimal(bad), None);
        }
        assert_eq!(prefixed_hex(b"0x1f"), Some(31));
        assert_eq!(prefixed_hex(b"1f"), None);
    }

    #[test]
    fn long_lines_are_refused_and_the_last_needs_no_end() {
        let mut lines = Lines::new(&b"a\r\n\nb"[..]);
        for expected in [&b"a"[..], b"", b"b"] {
            assert!(lines.advance().unwrap());
            assert_eq!(lines.line(), expected);
        }
        assert!(!lines.advance().unwrap());
        let long = vec![b'x'; 5000];
        let error = Lines::new(&long[..]).advance().unwrap_err();
        assert!(error
            .to_string()
            .starts_with("line 1: a line of less than 4096 bytes expected"));
    }
}
