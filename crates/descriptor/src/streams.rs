//! The byte streams of an encoded piece.
use crate::bytes::{put, take};
use crate::decode::Error;
use alloc::vec::Vec;

/// A general-purpose compressor, and what else the caller can do that this crate cannot.
pub trait Pack {
    /// The bytes, packed.
    fn pack(&self, bytes: &[u8]) -> Vec<u8>;
    /// The `length` bytes that were packed; `None` if that is not what comes out.
    fn unpack(&self, packed: &[u8], length: usize) -> Option<Vec<u8>>;
    /// As [`Pack::unpack`], in place of what is in `into`, in whose memory there may be room.
    fn unpack_to(&self, packed: &[u8], length: usize, into: &mut Vec<u8>) -> Option<()> {
        *into = self.unpack(packed, length)?;
        Some(())
    }
    /// This will be read or written soon: a chance to have it fetched into the cache.
    #[inline(always)]
    fn soon<T>(&self, _place: &T) {}
}

/// Streams shorter than this are not worth packing.
const SHORT: usize = 24;

/// `raw length, stored length * 2 + packed?, bytes`.
pub fn write(out: &mut Vec<u8>, stream: &[u8], pack: &impl Pack) {
    put(out, stream.len() as u64);
    let packed = (stream.len() >= SHORT)
        .then(|| pack.pack(stream))
        .filter(|p| p.len() < stream.len());
    let stored = packed.as_deref().unwrap_or(stream);
    put(out, (stored.len() as u64) << 1 | u64::from(packed.is_some()));
    out.extend_from_slice(stored);
}

/// Takes a stream of at most `most` bytes from the front of `from`; it takes the place of what is
/// in `into`.
pub fn read(from: &mut &[u8], most: usize, pack: &impl Pack, into: &mut Vec<u8>) -> Result<(), Error> {
    let raw = take(from).ok_or(Error::CutOff)?;
    let stored = take(from).ok_or(Error::CutOff)?;
    let raw = usize::try_from(raw).ok().filter(|&r| r <= most).ok_or(Error::TooLong)?;
    let length = usize::try_from(stored >> 1).unwrap_or(usize::MAX);
    let bytes = from.get(..length).ok_or(Error::CutOff)?;
    *from = &from[length..];
    if stored & 1 == 1 {
        let unpacked = pack.unpack_to(bytes, raw, into);
        unpacked.filter(|()| into.len() == raw).ok_or(Error::Unpack)
    } else if length == raw {
        into.clear();
        into.extend_from_slice(bytes);
        Ok(())
    } else {
        Err(Error::Inconsistent)
    }
}
