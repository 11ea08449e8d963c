//! Reading a recording: its header at once, its chunks one by one.
use crate::chunk::{to_words, Head, Kind, CHUNK_HEAD_BYTES};
use crate::header::read_up_to;
use crate::{Error, Header, Totals};
use std::io::{Read, Seek, SeekFrom};

/// Where a chunk stands, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Offset in the file.
    pub at: u64,
    pub(crate) head: Head,
}

impl Chunk {
    pub fn kind(&self) -> Kind {
        self.head.kind
    }
    /// Thread of records, process of definitions.
    pub fn serial(&self) -> u32 {
        self.head.serial
    }
    pub fn begin(&self) -> u64 {
        self.head.begin
    }
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Complete, with its totals.
    Complete(Totals),
    /// Cut off: the last complete chunk ends at this byte.
    CutOff { at: u64 },
}

/// An open recording.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    header: Header,
    first: u64,
    bytes: u64,
}

impl<R: Read + Seek> Reader<R> {
    pub fn open(mut input: R) -> Result<Reader<R>, Error> {
        let bytes = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(0))?;
        let (header, first) = Header::read(&mut input)?;
        Ok(Reader {
            input,
            header,
            first,
            bytes,
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }
    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All chunks in file order, and how the file ends. Reads heads only.
    pub fn chunks(&mut self) -> Result<(Vec<Chunk>, Ending), Error> {
        let mut chunks = Vec::new();
        let mut at = self.first;
        loop {
            let Some(chunk) = self.head_at(at)? else {
                return Ok((chunks, Ending::CutOff { at }));
            };
            at += (CHUNK_HEAD_BYTES as u64) + u64::from(chunk.head.stored_bytes);
            if at > self.bytes {
                return Ok((chunks, Ending::CutOff { at: chunk.at }));
            }
            if chunk.kind() != Kind::End {
                chunks.push(chunk);
                continue;
            }
            let json = self.payload(&chunk)?;
            let totals = serde_json::from_slice(&json).map_err(|_| Error::Damaged {
                at: chunk.at,
                what: "the totals cannot be read",
            })?;
            if at != self.bytes {
                let what = "something follows the end";
                return Err(Error::Damaged { at, what });
            }
            return Ok((chunks, Ending::Complete(totals)));
        }
    }

    /// The chunk at an offset, or `None` if the file ends before its head does.
    fn head_at(&mut self, at: u64) -> Result<Option<Chunk>, Error> {
        self.input.seek(SeekFrom::Start(at))?;
        let mut bytes = [0; CHUNK_HEAD_BYTES];
        if read_up_to(&mut self.input, &mut bytes)? < bytes.len() {
            return Ok(None);
        }
        let head = Head::from_bytes(&bytes).map_err(|what| Error::Damaged { at, what })?;
        Ok(Some(Chunk { at, head }))
    }

    fn payload(&mut self, chunk: &Chunk) -> Result<Vec<u8>, Error> {
        let start = chunk.at + CHUNK_HEAD_BYTES as u64;
        self.input.seek(SeekFrom::Start(start))?;
        let mut payload = vec![0; chunk.head.stored_bytes as usize];
        self.input.read_exact(&mut payload)?;
        if crc32fast::hash(&payload) != chunk.head.payload_crc {
            return Err(Error::Damaged {
                at: chunk.at,
                what: "the checksum of a chunk differs",
            });
        }
        Ok(payload)
    }

    /// The words of a chunk of definitions or records.
    pub fn words(&mut self, chunk: &Chunk) -> Result<Vec<u64>, Error> {
        let damaged = |what| Error::Damaged { at: chunk.at, what };
        let payload = self.payload(chunk)?;
        let raw = chunk.head.raw_bytes as usize;
        let bytes = zstd::bulk::decompress(&payload, raw).map_err(|_| damaged("a chunk cannot be decompressed"))?;
        if bytes.len() != raw || raw % 8 != 0 {
            return Err(damaged("a chunk has the wrong length"));
        }
        Ok(to_words(&bytes))
    }
}
