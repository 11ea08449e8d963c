//! Reading a recording: its header and the list of its chunks at once, their payloads one by one.
//!
//! A complete recording is opened with three reads: header, footer, index. Without a footer, or
//! with an index that makes no sense, the heads are read one after the other from the start, and
//! what is whole is kept. A chunk's own head is read again with its payload and must agree with the
//! list.
//!
//! **Invariant.** Nothing is allocated that the size of the file does not justify.
use crate::chunk::{Head, Kind, StreamHead, CHUNK_HEAD_BYTES};
use crate::columns::unpack;
use crate::footer::{Footer, FOOTER_BYTES};
use crate::header::{read_up_to, End};
use crate::{index, Error, Header, ThreadHash, Totals};
use std::io::{Read, Seek, SeekFrom};

/// Where a chunk stands, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Offset in the file.
    pub at: u64,
    /// Of a member of a set: that of a stream with what the member would have there, but the bytes are
    /// those of the whole set.
    pub head: Head,
    /// Which member of a set it is; `None` if it is a chunk by itself.
    pub member: Option<u32>,
}

impl Chunk {
    pub fn kind(&self) -> Kind {
        self.head.kind
    }
    fn end(&self) -> u64 {
        self.at.saturating_add(self.head.chunk_bytes())
    }
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Complete, with its totals.
    Complete(Totals),
    /// Cut off: the last complete chunk ends at this byte.
    CutOff { at: u64 },
    /// Damaged at this byte: what follows is not used.
    Damaged { at: u64, what: &'static str },
}

impl Ending {
    /// The byte behind what is whole.
    fn at(&self) -> Option<u64> {
        match *self {
            Ending::Complete(_) => None,
            Ending::CutOff { at } | Ending::Damaged { at, .. } => Some(at),
        }
    }
    fn damaged(error: Error) -> Result<Ending, Error> {
        match error {
            Error::Damaged { at, what } => Ok(Ending::Damaged { at, what }),
            other => Err(other),
        }
    }
}

/// An open recording.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    header: Header,
    first: u64,
    bytes: u64,
    chunks: Vec<Chunk>,
    ending: Ending,
    hashes: Option<Vec<ThreadHash>>,
}

impl<R: Read + Seek> Reader<R> {
    pub fn open(mut input: R) -> Result<Reader<R>, Error> {
        let bytes = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(0))?;
        let (header, first) = Header::read(&mut input)?;
        let mut reader = Reader {
            input,
            header,
            first,
            bytes,
            chunks: Vec::new(),
            ending: Ending::CutOff { at: first },
            hashes: None,
        };
        reader.list()?;
        Ok(reader)
    }

    pub fn header(&self) -> &Header {
        &self.header
    }
    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// How the file ends, as far as the list of its chunks tells.
    pub fn ending(&self) -> Ending {
        self.ending
    }
    /// Chunks of blocks, events and streams, in file order.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The hashes of all threads' accesses, if they were made while recording.
    pub fn hashes(&self) -> Option<&[ThreadHash]> {
        self.hashes.as_deref()
    }

    /// Whether the index says what the heads in the file say.
    pub fn compare_index(&mut self) -> Result<(), Error> {
        let (chunks, _) = self.scan()?;
        if chunks == self.chunks {
            return Ok(());
        }
        let differ = chunks.iter().zip(&self.chunks).find(|(a, b)| a != b);
        Err(Error::Damaged {
            at: differ.map_or(self.first, |(a, _)| a.at),
            what: "the index differs from the heads of the chunks",
        })
    }

    fn list(&mut self) -> Result<(), Error> {
        let wrong = match self.footer()? {
            None => None,
            Some(footer) => match self.indexed(footer) {
                Ok((chunks, end)) => {
                    (self.chunks, self.ending) = (chunks, Ending::Complete(end.totals));
                    self.hashes = end.verify;
                    return Ok(());
                }
                Err(error) => Some(Ending::damaged(error)?),
            },
        };
        (self.chunks, self.ending) = self.scan()?;
        match wrong {
            Some(wrong) if wrong.at() <= self.ending.at() => self.ending = wrong,
            _ => {}
        }
        Ok(())
    }

    fn footer(&mut self) -> Result<Option<Footer>, Error> {
        let Some(at) = self.bytes.checked_sub(FOOTER_BYTES as u64).filter(|&a| a >= self.first) else {
            return Ok(None);
        };
        self.input.seek(SeekFrom::Start(at))?;
        let mut bytes = [0; FOOTER_BYTES];
        self.input.read_exact(&mut bytes)?;
        Ok(Footer::from_bytes(&bytes))
    }

    /// The list as the index has it, and the totals.
    fn indexed(&mut self, footer: Footer) -> Result<(Vec<Chunk>, End), Error> {
        let damaged = |at, what| Error::Damaged { at, what };
        let at = footer.index;
        let index = self
            .head_at(at)?
            .filter(|c| c.kind() == Kind::Index && at >= self.first);
        let index = index.ok_or(damaged(at, "the index is not where the footer says"))?;
        let payload = self.payload(&index)?;
        let columns = unpack(&payload, index.head.raw_bytes.into()).map_err(|what| damaged(at, what))?;
        let chunks = index::decode(&columns, self.first, at).map_err(|what| damaged(at, what))?;
        let at = index.end();
        let end = self.head_at(at)?.filter(|c| c.kind() == Kind::End);
        let end = end.ok_or(damaged(at, "the totals are not behind the index"))?;
        if end.end().checked_add(FOOTER_BYTES as u64) != Some(self.bytes) {
            return Err(damaged(at, "something stands between the totals and the footer"));
        }
        let json = self.payload(&end)?;
        let totals = serde_json::from_slice(&json).map_err(|_| damaged(at, "the totals cannot be read"))?;
        Ok((chunks, totals))
    }

    /// The list from the heads, as far as they are whole.
    fn scan(&mut self) -> Result<(Vec<Chunk>, Ending), Error> {
        let mut chunks = Vec::new();
        let mut at = self.first;
        loop {
            let chunk = match self.head_at(at) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok((chunks, Ending::CutOff { at })),
                Err(error) => return Ok((chunks, Ending::damaged(error)?)),
            };
            at = chunk.end();
            match chunk.kind() {
                Kind::Blocks | Kind::Events | Kind::Stream | Kind::Set => chunks.push(chunk),
                Kind::Index => {}
                Kind::End if self.bytes - at < FOOTER_BYTES as u64 => return Ok((chunks, Ending::CutOff { at })),
                Kind::End => {
                    let what = "what follows the totals is not the footer";
                    return Ok((chunks, Ending::Damaged { at, what }));
                }
            }
        }
    }

    /// The chunk at an offset, or `None` if the file ends before it does.
    fn head_at(&mut self, at: u64) -> Result<Option<Chunk>, Error> {
        self.input.seek(SeekFrom::Start(at))?;
        let mut bytes = [0; CHUNK_HEAD_BYTES];
        if read_up_to(&mut self.input, &mut bytes)? < bytes.len() {
            return Ok(None);
        }
        let (head, _) = Head::from_bytes(&bytes).map_err(|what| Error::Damaged { at, what })?;
        let chunk = Chunk { at, head, member: None };
        Ok(Some(chunk).filter(|c| c.end() <= self.bytes))
    }

    /// The payload of a chunk, as it stands in the file, with its checksum verified.
    pub fn payload(&mut self, chunk: &Chunk) -> Result<Vec<u8>, Error> {
        let damaged = |what| Error::Damaged { at: chunk.at, what };
        if chunk.end() > self.bytes {
            return Err(damaged("a chunk runs past the end"));
        }
        self.input.seek(SeekFrom::Start(chunk.at))?;
        let mut bytes = [0; CHUNK_HEAD_BYTES];
        self.input.read_exact(&mut bytes)?;
        let (head, crc) = Head::from_bytes(&bytes).map_err(damaged)?;
        let said = match chunk.member {
            None => chunk.head,
            Some(_) => Head {
                kind: Kind::Set,
                stream: StreamHead::default(),
                ..chunk.head
            },
        };
        if head != said {
            return Err(damaged("a chunk's head is not what the index says"));
        }
        let mut payload = vec![0; head.stored_bytes as usize];
        self.input.read_exact(&mut payload)?;
        if crc32fast::hash(&payload) != crc {
            return Err(damaged("the checksum of a chunk differs"));
        }
        Ok(payload)
    }

    /// The columns of a chunk.
    pub(crate) fn columns<const N: usize>(&mut self, chunk: &Chunk) -> Result<[Vec<u8>; N], Error> {
        let payload = self.payload(chunk)?;
        unpack(&payload, chunk.head.raw_bytes.into()).map_err(|what| Error::Damaged { at: chunk.at, what })
    }
}
