//! Chunk heads: 56 bytes that say what follows, and whether to believe it.

pub(crate) const MAGIC: [u8; 4] = *b"MTRK";
pub const CHUNK_HEAD_BYTES: usize = 56;
/// A buffer is 256 KB; definitions come in runs of at most that. Anything larger is damage.
pub(crate) const MOST_RAW_BYTES: u64 = 1 << 28;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    Definitions = 1,
    Records = 2,
    End = 3,
}

/// A chunk's head without its magic and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    /// Process of definitions, thread of records.
    pub serial: u32,
    pub process: u32,
    pub begin: u64,
    pub end: u64,
    pub raw_bytes: u64,
    pub stored_bytes: u32,
    pub payload_crc: u32,
}

impl Head {
    pub fn to_bytes(self) -> [u8; CHUNK_HEAD_BYTES] {
        let mut bytes = [0; CHUNK_HEAD_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&(self.kind as u32).to_le_bytes());
        put(&self.serial.to_le_bytes());
        put(&self.process.to_le_bytes());
        put(&self.begin.to_le_bytes());
        put(&self.end.to_le_bytes());
        put(&self.raw_bytes.to_le_bytes());
        put(&self.stored_bytes.to_le_bytes());
        put(&self.payload_crc.to_le_bytes());
        // Keeps heads a multiple of eight; must be zero.
        put(&0u32.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..CHUNK_HEAD_BYTES - 4]);
        bytes[CHUNK_HEAD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `Err` says what is wrong.
    pub fn from_bytes(bytes: &[u8; CHUNK_HEAD_BYTES]) -> Result<Head, &'static str> {
        if bytes[..4] != MAGIC {
            return Err("no chunk begins here");
        }
        if crc32fast::hash(&bytes[..CHUNK_HEAD_BYTES - 4]) != word(bytes, CHUNK_HEAD_BYTES - 4) {
            return Err("the checksum of a chunk's head differs");
        }
        let kind = match word(bytes, 4) {
            1 => Kind::Definitions,
            2 => Kind::Records,
            3 => Kind::End,
            _ => return Err("a chunk of unknown kind"),
        };
        let head = Head {
            kind,
            serial: word(bytes, 8),
            process: word(bytes, 12),
            begin: long(bytes, 16),
            end: long(bytes, 24),
            raw_bytes: long(bytes, 32),
            stored_bytes: word(bytes, 40),
            payload_crc: word(bytes, 44),
        };
        if head.raw_bytes > MOST_RAW_BYTES || u64::from(head.stored_bytes) > MOST_RAW_BYTES {
            return Err("a chunk of impossible size");
        }
        Ok(head)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}
fn long(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

pub(crate) fn to_bytes(words: &[u64], bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(words.len() * 8, 0);
    for (eight, word) in bytes.chunks_exact_mut(8).zip(words) {
        eight.copy_from_slice(&word.to_le_bytes());
    }
}

pub(crate) fn to_words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|eight| long(eight, 0)).collect()
}
