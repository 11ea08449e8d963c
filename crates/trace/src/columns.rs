//! Columns of bytes, packed: each compressed on its own, because alike bytes compress best among
//! themselves.
//!
//! The columns of block plans take 6% less this way than as one frame (gzip: 24.9 KB instead of
//! 26.9 KB).
use crate::varint::{put, Bad, Fields, TOO_SHORT};
use std::io;
use zstd::bulk::{Compressor, Decompressor};

/// Level 19 takes 2.5 times as long for 0.3% less (190,000 blocks of python3 and the shells that
/// start it).
const ZSTD_LEVEL: i32 = 15;
/// A zstd block of 128 KB takes at least four bytes; anything denser is damage.
const DENSEST: u64 = 1 << 15;

pub(crate) struct Packer(Compressor<'static>);

impl Packer {
    pub fn new() -> io::Result<Packer> {
        let mut compressor = Compressor::new(ZSTD_LEVEL)?;
        compressor.include_checksum(false)?;
        Ok(Packer(compressor))
    }

    /// The payload.
    pub fn pack(&mut self, columns: &[Vec<u8>]) -> io::Result<Vec<u8>> {
        let mut lengths = Vec::with_capacity(columns.len() * 6);
        let mut stored = Vec::new();
        for column in columns {
            let frame = self.0.compress(column)?;
            let shorter = if frame.len() < column.len() { &frame } else { column };
            put(&mut lengths, column.len() as u64);
            put(&mut lengths, shorter.len() as u64);
            stored.extend_from_slice(shorter);
        }
        lengths.extend_from_slice(&stored);
        Ok(lengths)
    }
}

/// The columns of a payload, which must have `raw_bytes` in all.
pub(crate) fn unpack<const N: usize>(payload: &[u8], raw_bytes: u64) -> Result<[Vec<u8>; N], Bad> {
    let mut fields = Fields(payload);
    let mut lengths = [(0, 0); N];
    let mut all: u64 = 0;
    for length in &mut lengths {
        *length = (fields.number()?, fields.number()?);
        let (raw, stored) = *length;
        all = all.saturating_add(raw);
        if stored > raw || raw > stored.saturating_mul(DENSEST) {
            return Err("a column of impossible size");
        }
    }
    if all != raw_bytes {
        return Err("the columns have another size than the chunk's head says");
    }
    let mut columns = [const { Vec::new() }; N];
    let mut decompressor = Decompressor::new().map_err(|_| "zstd cannot be used")?;
    for (column, (raw, stored)) in columns.iter_mut().zip(lengths) {
        let bytes = fields.bytes(stored)?;
        *column = if stored == raw {
            bytes.to_vec()
        } else {
            let raw = usize::try_from(raw).map_err(|_| TOO_SHORT)?;
            let column = decompressor
                .decompress(bytes, raw)
                .map_err(|_| "a column cannot be decompressed")?;
            if column.len() != raw {
                return Err("a column has the wrong length");
            }
            column
        };
    }
    fields.end()?;
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_compressed_only_if_that_helps() {
        let columns = [vec![7; 1000], vec![1, 2, 3], Vec::new()];
        let payload = Packer::new().unwrap().pack(&columns).unwrap();
        assert_eq!(payload[0..2], [0xe8, 0x07]);
        assert_eq!(payload[3..7], [3, 3, 0, 0]);
        assert!(payload.len() < 40);
        assert_eq!(unpack(&payload, 1003), Ok(columns));
        assert!(unpack::<3>(&payload, 1004).is_err());
        assert!(unpack::<2>(&payload, 1003).is_err());
    }

    #[test]
    fn a_column_cannot_be_larger_than_its_bytes_allow() {
        let mut payload = Vec::new();
        put(&mut payload, 1 << 40);
        put(&mut payload, 4);
        payload.extend_from_slice(&[0; 4]);
        assert_eq!(unpack::<1>(&payload, 1 << 40), Err("a column of impossible size"));
    }
}
