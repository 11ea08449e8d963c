//! Bare addresses: 8 bytes each, little-endian, of all accesses in order. For measuring
//! compressors; there is nothing to import in it.
//!
//! **Cannot express:** anything but addresses.
use crate::export::Encode;
use memtrail_model::Access;
use std::io::{self, Write};

/// Writes addresses.
#[derive(Debug, Default)]
pub struct Writer;

impl Encode for Writer {
    fn access(&mut self, access: &Access, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&access.addr.to_le_bytes())
    }
}
