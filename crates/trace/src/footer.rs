//! The footer: sixteen bytes at the very end that say where the index is.
use crate::chunk::{long, word};

pub(crate) const FOOTER_BYTES: usize = 16;
const MAGIC: [u8; 4] = *b"MTRE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Offset of the index chunk.
    pub index: u64,
}

impl Footer {
    pub fn to_bytes(self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..8].copy_from_slice(&self.index.to_le_bytes());
        bytes[8..12].copy_from_slice(&crc32fast::hash(&self.index.to_le_bytes()).to_le_bytes());
        bytes[12..].copy_from_slice(&MAGIC);
        bytes
    }

    /// `None` if this is no footer.
    pub fn from_bytes(bytes: &[u8; FOOTER_BYTES]) -> Option<Footer> {
        let right = bytes[12..] == MAGIC && word(bytes, 8) == crc32fast::hash(&bytes[..8]);
        right.then(|| Footer { index: long(bytes, 0) })
    }
}
