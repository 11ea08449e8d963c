//! Numbers of variable length: seven bits a byte, the lowest first; the top bit says that more
//! follow.
//!
//! Signed numbers are folded first, so that small ones of either sign are short: 0, -1, 1, -2, …
//! become 0, 1, 2, 3, …

pub(crate) use memtrail_descriptor::bytes::{put, unzigzag as unfold, zigzag as fold};

/// Why bytes could not be taken apart.
/// What is wrong with some bytes.
pub type Bad = &'static str;
pub(crate) const TOO_SHORT: Bad = "a field runs past the end";

pub(crate) fn put_signed(out: &mut Vec<u8>, value: u64) {
    put(out, fold(value));
}

/// Takes fields off the front of some bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fields<'b>(pub &'b [u8]);

impl<'b> Fields<'b> {
    pub fn byte(&mut self) -> Result<u8, Bad> {
        let (&first, rest) = self.0.split_first().ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(first)
    }

    pub fn bytes(&mut self, count: u64) -> Result<&'b [u8], Bad> {
        let count = usize::try_from(count).map_err(|_| TOO_SHORT)?;
        let (first, rest) = self.0.split_at_checked(count).ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(first)
    }

    pub fn number(&mut self) -> Result<u64, Bad> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits")
    }

    pub fn signed(&mut self) -> Result<u64, Bad> {
        self.number().map(unfold)
    }

    /// A number that must fit a smaller type.
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Bad> {
        T::try_from(self.number()?).map_err(|_| "a number is out of range")
    }

    /// A signed number of 32 bits.
    pub fn scale(&mut self) -> Result<i32, Bad> {
        i32::try_from(self.signed()? as i64).map_err(|_| "a scale is out of range")
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), Bad> {
        match self.0 {
            [] => Ok(()),
            _ => Err("bytes are left over"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_the_bytes_they_need() {
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x80, 1]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out, bytes);
            let mut fields = Fields(&out);
            assert_eq!(fields.number(), Ok(value));
            assert_eq!(fields.end(), Ok(()));
        }
        let folded: Vec<u64> = [0, -1, 1, -2i64].iter().map(|&v| fold(v as u64)).collect();
        assert_eq!(folded, [0, 1, 2, 3]);
        for value in [0, 1, u64::MAX, 1 << 63, i64::MAX as u64] {
            assert_eq!(unfold(fold(value)), value);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(Fields(&[0x80]).number(), Err(TOO_SHORT));
        assert!(Fields(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 2])
            .number()
            .is_err());
        assert!(Fields(&[0x80; 11]).number().is_err());
        assert!(Fields(&[0x80, 2]).small::<u8>().is_err());
        assert_eq!(Fields(&[1]).bytes(2), Err(TOO_SHORT));
    }
}
