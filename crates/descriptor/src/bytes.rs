//! Variable-length numbers, and numbers with a sign as numbers without.
use alloc::vec::Vec;

/// Seven bits a byte, the lowest first; the top bit says that more follow.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number from the front of `from`.
pub(crate) fn take(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Small magnitudes become small numbers.
#[inline]
pub const fn zigzag(value: u64) -> u64 {
    value << 1 ^ ((value as i64) >> 63) as u64
}
#[inline]
pub const fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

/// Bits needed to write a number.
#[inline]
pub(crate) const fn bits(value: u64) -> u32 {
    64 - value.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::MAX >> 1, u64::MAX - 1, u64::MAX, 1 << 63] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut rest = bytes.as_slice();
            assert_eq!((take(&mut rest), rest.len()), (Some(value), 0));
            assert_eq!(unzigzag(zigzag(value)), value);
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None);
        }
        assert_eq!([zigzag(0), zigzag(u64::MAX), zigzag(1), zigzag(2)], [0, 1, 2, 4]);
        assert_eq!(take(&mut [0xff; 9].as_slice()), None);
        assert_eq!(
            take(&mut [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2].as_slice()),
            None
        );
    }
}
