//! Chunk heads: 72 bytes that say what follows, and whether to believe it.

pub(crate) const MAGIC: [u8; 4] = *b"MTRK";
pub const CHUNK_HEAD_BYTES: usize = 72;
const CRC_AT: usize = CHUNK_HEAD_BYTES - 4;

/// A chunk has no more bytes than this, packed or not.
pub const MOST_BYTES: u32 = 1 << 28;
/// What is decoded from a stream takes several times its bytes, so these are smaller; none that was
/// recorded has half as many.
pub(crate) const MOST_STREAM_BYTES: u32 = 1 << 26;
/// Plans take more memory than bytes, so chunks of blocks and events are smaller.
pub(crate) const MOST_DEFINITION_BYTES: u32 = 1 << 22;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    Blocks = 1,
    Events = 2,
    Stream = 3,
    Index = 4,
    End = 5,
    /// Streams of several threads; only with the feature `sets`.
    Set = 7,
}

impl Kind {
    pub(crate) fn from_u32(code: u32) -> Option<Kind> {
        [
            Kind::Blocks,
            Kind::Events,
            Kind::Stream,
            Kind::Index,
            Kind::End,
            Kind::Set,
        ]
        .into_iter()
        .find(|&k| k as u32 == code)
    }
}

/// What the head of a stream says besides: all zero in other chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamHead {
    /// Serial number of the thread.
    pub thread: u32,
    /// Serial number of its process.
    pub process: u32,
    /// Accesses of this thread before this chunk.
    pub first: u64,
    /// Accesses in this chunk.
    pub accesses: u64,
    /// Time stamp counter at the first and after the last record.
    pub begin: u64,
    pub end: u64,
    /// Words of the records.
    pub words: u64,
}

/// A chunk's head without its magic and checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    pub stream: StreamHead,
    /// Bytes of the payload in the file.
    pub stored_bytes: u32,
    /// Bytes of the payload unpacked.
    pub raw_bytes: u32,
}

impl Head {
    pub fn to_bytes(self, payload_crc: u32) -> [u8; CHUNK_HEAD_BYTES] {
        let mut bytes = [0; CHUNK_HEAD_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        let s = self.stream;
        put(&MAGIC);
        put(&(self.kind as u32).to_le_bytes());
        put(&s.thread.to_le_bytes());
        put(&s.process.to_le_bytes());
        [s.first, s.accesses, s.begin, s.end, s.words]
            .iter()
            .for_each(|long| put(&long.to_le_bytes()));
        put(&self.stored_bytes.to_le_bytes());
        put(&self.raw_bytes.to_le_bytes());
        put(&payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The head and the checksum of its payload. `Err` says what is wrong.
    pub fn from_bytes(bytes: &[u8; CHUNK_HEAD_BYTES]) -> Result<(Head, u32), &'static str> {
        if bytes[..4] != MAGIC {
            return Err("no chunk begins here");
        }
        if crc32fast::hash(&bytes[..CRC_AT]) != word(bytes, CRC_AT) {
            return Err("the checksum of a chunk's head differs");
        }
        let head = Head {
            kind: Kind::from_u32(word(bytes, 4)).ok_or("a chunk of unknown kind")?,
            stream: StreamHead {
                thread: word(bytes, 8),
                process: word(bytes, 12),
                first: long(bytes, 16),
                accesses: long(bytes, 24),
                begin: long(bytes, 32),
                end: long(bytes, 40),
                words: long(bytes, 48),
            },
            stored_bytes: word(bytes, 56),
            raw_bytes: word(bytes, 60),
        };
        head.check()?;
        Ok((head, word(bytes, 64)))
    }

    /// Whether this can be the head of a chunk.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let most = match self.kind {
            Kind::Blocks | Kind::Events => MOST_DEFINITION_BYTES,
            Kind::Stream | Kind::Set => MOST_STREAM_BYTES,
            Kind::Index | Kind::End => MOST_BYTES,
        };
        if self.raw_bytes > most || self.stored_bytes > most {
            return Err("a chunk of impossible size");
        }
        if self.kind != Kind::Stream && self.stream != StreamHead::default() {
            return Err("a chunk that is no stream has a stream's head");
        }
        Ok(())
    }

    /// Bytes of the whole chunk in the file.
    pub fn chunk_bytes(&self) -> u64 {
        CHUNK_HEAD_BYTES as u64 + u64::from(self.stored_bytes)
    }
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}
