//! Which format a file is in, by how it begins.
use crate::{din, drmemtrace, lackey, text};

/// A guess looks at no more than this many bytes.
pub const GUESS_BYTES: usize = 1 << 16;

/// What the first bytes of a file look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guess {
    Lackey,
    Din,
    Drmemtrace,
    Text,
    /// Nothing is in it.
    Empty,
    /// It is compressed in this way.
    Compressed(&'static str),
    /// It is a recording of ours.
    Recording,
    Unknown,
}

/// Looks at the first bytes of a file.
pub fn guess(bytes: &[u8]) -> Guess {
    let compressed = [
        (&b"\x1f\x8b"[..], "gzip"),
        (b"PK\x03\x04", "zip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\xfd7zXZ\0", "xz"),
        (b"BZh", "bzip2"),
        (b"\x04\x22\x4d\x18", "lz4"),
    ];
    if bytes.is_empty() {
        return Guess::Empty;
    }
    if let Some((_, name)) = compressed.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Guess::Compressed(name);
    }
    if bytes.starts_with(b"memtrail") {
        return Guess::Recording;
    }
    if drmemtrace::begins(bytes) {
        return Guess::Drmemtrace;
    }
    // The last line may have been cut off.
    let mut lines: Vec<&[u8]> = bytes.split(|&b| b == b'\n').collect();
    if lines.len() > 1 {
        lines.pop();
    }
    for line in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if lackey::parse(line).is_some() {
            return Guess::Lackey;
        }
        if text::parse(line).is_some() {
            return Guess::Text;
        }
        if din::parse(line).is_some() {
            return Guess::Din;
        }
        if !lackey::is_remark(line) && !text::is_remark(line) {
            return Guess::Unknown;
        }
    }
    Guess::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_from_their_first_lines() {
        for (bytes, expected) in [
            (&b""[..], Guess::Empty),
            (b"==12== Lackey\n==12== \n\nI  00401000,7\n", Guess::Lackey),
            (b" L 1ffeffe7e,8\n", Guess::Lackey),
            (b"\n# made by hand\n0 0x401000 R 0x10 8\n", Guess::Text),
            (b"0 0x401000 R 0x10 8", Guess::Text),
            (b"2 401000\n", Guess::Din),
            (b"0 0x401000 something\n", Guess::Din),
            (b"2 401000", Guess::Din),
            (b"memtrail\x02\0\0\0", Guess::Recording),
            (b"\x1f\x8b\x08", Guess::Compressed("gzip")),
            (b"\x19\0\0\0\x03\0\0\0\0\0\0\0", Guess::Drmemtrace),
            (b"\x19\0\0\0\x03\0\0\0\0\0\0", Guess::Unknown),
            (b"hello\n2 401000\n", Guess::Unknown),
            (b"==12== only remarks\n", Guess::Unknown),
        ] {
            assert_eq!(guess(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
