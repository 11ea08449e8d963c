//! Bytes in segments, one per kind or column, most of which have a favourite byte.
//!
//! A byte coder spends a bit at least on every byte, and a favourite is worth less. So segments in
//! which one byte is most of all are written as *runs*: how often it stands before each other
//! byte. Four streams: for each non-empty segment a 0, or 1 + the favourite and the number of
//! other bytes; the bytes of plain segments; the runs; the other bytes.
use crate::bytes::{put, take};
use crate::decode::Error;
use crate::streams::{read, write, Pack};
use alloc::vec::Vec;

/// Shorter segments are written plain.
const SHORT: usize = 8;
/// A favourite is more than so many times as frequent as all others together.
const FAVOURITE: usize = 3;

/// Writes segments, one sequence of them after the other; nothing but memory is kept in between.
#[derive(Default)]
pub(crate) struct Segments {
    modes: Vec<u8>,
    plain: Vec<u8>,
    runs: Vec<u8>,
    others: Vec<u8>,
}

impl Segments {
    /// Writes `bytes`, which are segments of these sizes.
    pub fn write(&mut self, out: &mut Vec<u8>, sizes: impl Iterator<Item = usize>, bytes: &[u8], pack: &impl Pack) {
        let Segments {
            modes,
            plain,
            runs,
            others,
        } = self;
        for stream in [&mut *modes, plain, runs, others] {
            stream.clear();
        }
        let mut rest = bytes;
        for size in sizes.filter(|&s| s > 0) {
            let (segment, more) = rest.split_at(size);
            rest = more;
            let Some((byte, count)) = favourite(segment) else {
                modes.push(0);
                plain.extend_from_slice(segment);
                continue;
            };
            put(modes, 1 + u64::from(byte));
            put(modes, count as u64);
            let mut run = 0;
            for &b in segment {
                if b == byte {
                    run += 1;
                } else {
                    put(runs, run);
                    others.push(b);
                    run = 0;
                }
            }
        }
        for stream in [modes, plain, runs, others] {
            write(out, stream, pack);
        }
    }
}

/// The byte that is most of a segment, and the number of others.
fn favourite(segment: &[u8]) -> Option<(u8, usize)> {
    if segment.len() < SHORT {
        return None;
    }
    // A byte that is more than half of all is left over when unequal ones are crossed out in pairs.
    let (mut byte, mut lead) = (0, 0usize);
    for &b in segment {
        if lead == 0 {
            byte = b;
        }
        lead = if b == byte { lead + 1 } else { lead - 1 };
    }
    let others = segment.iter().filter(|&&b| b != byte).count();
    (others * (FAVOURITE + 1) < segment.len()).then_some((byte, others))
}

/// Reads back segments of these sizes, which come to at most `most` bytes.
pub(crate) fn read_segments(
    from: &mut &[u8],
    sizes: impl Iterator<Item = usize>,
    most: usize,
    pack: &impl Pack,
) -> Result<Vec<u8>, Error> {
    let modes = read(from, most.saturating_mul(4), pack)?;
    let plain = read(from, most, pack)?;
    let runs = read(from, most.saturating_mul(5), pack)?;
    let others = read(from, most, pack)?;
    let (mut modes, mut plain, mut runs, mut others) = (&modes[..], &plain[..], &runs[..], others.iter());
    let mut bytes = Vec::new();
    for size in sizes.filter(|&s| s > 0) {
        if size > most - bytes.len() {
            return Err(Error::TooLong);
        }
        let end = bytes.len() + size;
        let mode = take(&mut modes).ok_or(Error::CutOff)?;
        if mode == 0 {
            let (segment, more) = plain.split_at_checked(size).ok_or(Error::CutOff)?;
            bytes.extend_from_slice(segment);
            plain = more;
            continue;
        }
        let favourite = u8::try_from(mode - 1).map_err(|_| Error::Inconsistent)?;
        for _ in 0..take(&mut modes).ok_or(Error::CutOff)? {
            let run = take(&mut runs).ok_or(Error::CutOff)?;
            let other = *others.next().ok_or(Error::CutOff)?;
            let left = end - bytes.len();
            let run = usize::try_from(run)
                .ok()
                .filter(|&r| r < left)
                .ok_or(Error::Inconsistent)?;
            bytes.resize(bytes.len() + run, favourite);
            bytes.push(other);
        }
        bytes.resize(end, favourite);
    }
    if modes.is_empty() && plain.is_empty() && runs.is_empty() && others.next().is_none() {
        Ok(bytes)
    } else {
        Err(Error::Inconsistent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    struct Nothing;
    impl Pack for Nothing {
        fn pack(&self, bytes: &[u8]) -> Vec<u8> {
            bytes.to_vec()
        }
        fn unpack(&self, _: &[u8], _: usize) -> Option<Vec<u8>> {
            None
        }
    }

    #[test]
    fn segments_come_back() {
        let mut mostly = vec![7; 100];
        (mostly[3], mostly[50], mostly[99]) = (1, 2, 255);
        let segments = [
            vec![1, 2, 3],
            vec![],
            vec![9; 1000],
            mostly,
            (0..40).collect(),
            vec![7; 9],
        ];
        let sizes = || segments.iter().map(Vec::len);
        let bytes = segments.concat();
        let mut out = Vec::new();
        Segments::default().write(&mut out, sizes(), &bytes, &Nothing);
        // Two constant segments, one with three others, two plain ones.
        assert_eq!(out.len(), 8 + 2 + 3 * 2 + 3 + 40 + 3 + 3);
        let mut from = out.as_slice();
        assert_eq!(read_segments(&mut from, sizes(), bytes.len(), &Nothing).unwrap(), bytes);
        assert!(from.is_empty());
        assert_eq!(
            read_segments(&mut &out[..], sizes(), bytes.len() - 1, &Nothing),
            Err(Error::TooLong)
        );
        for length in 0..out.len() {
            assert!(read_segments(&mut &out[..length], sizes(), bytes.len(), &Nothing).is_err());
        }
    }
}
