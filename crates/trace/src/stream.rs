//! The payload of a stream chunk: a thread's record words, compressed.
use std::io;

const ZSTD_LEVEL: i32 = 1;
/// A zstd block of 128 KB takes at least four bytes; anything denser is damage.
const DENSEST: u64 = 1 << 15;

pub fn encode(words: &[u64]) -> io::Result<Vec<u8>> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    zstd::bulk::compress(&bytes, ZSTD_LEVEL)
}

/// The words; `Err` says what is wrong.
pub fn decode(payload: &[u8], words: u64) -> Result<Vec<u64>, &'static str> {
    let bytes = words.checked_mul(8).filter(|&b| b <= DENSEST * payload.len() as u64);
    let bytes = bytes.and_then(|b| usize::try_from(b).ok());
    let bytes = bytes.ok_or("a stream of impossible size")?;
    let raw = zstd::bulk::decompress(payload, bytes).map_err(|_| "a stream cannot be decompressed")?;
    if raw.len() != bytes {
        return Err("a stream has the wrong length");
    }
    Ok(raw.chunks_exact(8).map(|eight| crate::chunk::long(eight, 0)).collect())
}
