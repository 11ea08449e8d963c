//! Writing a recording: one chunk after the other, each complete in the file before the next.
//!
//! Blocks and events are collected and written before the next stream, or when there are many. A
//! chunk goes out in one write, so that a reader never meets half of one that was finished, and a
//! full disk leaves whole chunks.
use crate::chunk::{Head, Kind, StreamHead, MOST_BYTES};
use crate::columns::Packer;
use crate::footer::Footer;
use crate::header::End;
use crate::{blocks, events, index};
use crate::{Header, ThreadHash, Totals};
use memtrail_decode::{Block, Message};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Blocks and events are written when they come to this many bytes.
const ENOUGH: usize = 256 << 10;

/// Creates the file of a recording. An existing file is an error unless `overwrite`; it keeps
/// what it holds until [`Writer::start`], so that a command that cannot run costs nothing.
pub fn create(path: &Path, overwrite: bool) -> io::Result<File> {
    let mut options = File::options();
    options.write(true);
    if overwrite {
        options.create(true).truncate(false);
    } else {
        options.create_new(true);
    }
    options.open(path)
}

/// Writes a recording to anything that takes bytes.
pub struct Writer<W> {
    out: W,
    written: u64,
    packer: Packer,
    blocks: blocks::Encoder,
    events: events::Encoder,
    index: index::Encoder,
}

impl Writer<File> {
    /// Empties the file and begins a recording in it.
    pub fn start(file: File, header: &Header) -> io::Result<Writer<File>> {
        // Pipes and devices have no length to cut.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Writer::new(file, header)
    }
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, header: &Header) -> io::Result<Writer<W>> {
        let written = header.write(&mut out)?;
        out.flush()?;
        Ok(Writer {
            out,
            written,
            packer: Packer::new()?,
            blocks: blocks::Encoder::default(),
            events: events::Encoder::default(),
            index: index::Encoder::default(),
        })
    }

    /// Bytes of whole chunks in the file so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Adds blocks. They are in the file before any stream that is added later, and behind the
    /// images they refer to, which have been told of.
    pub fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
        for block in blocks {
            self.blocks.add(block)?;
            if self.blocks.bytes() >= ENOUGH {
                self.write_definitions()?;
            }
        }
        Ok(())
    }

    /// Adds what a process tells about itself; blocks are told with [`Writer::blocks`].
    pub fn message(&mut self, process: u32, message: &Message) -> io::Result<()> {
        self.blocks.learn(message)?;
        self.events.message(process, message);
        if self.events.bytes() >= ENOUGH {
            self.write_events()?;
        }
        Ok(())
    }

    /// Adds a part of a thread's stream: its payload, and the bytes it had before it was
    /// compressed.
    pub fn stream(&mut self, head: &StreamHead, raw_bytes: u64, payload: &[u8]) -> io::Result<()> {
        self.write_definitions()?;
        self.chunk(Kind::Stream, *head, raw_bytes, payload)
    }

    /// Adds the streams of several threads: the payload, and the bytes it needs.
    pub fn set(&mut self, raw_bytes: u64, payload: &[u8]) -> io::Result<()> {
        self.write_definitions()?;
        self.chunk(Kind::Set, StreamHead::default(), raw_bytes, payload)
    }

    /// Writes what was told so far; what is told later stands behind it.
    pub fn write_definitions(&mut self) -> io::Result<()> {
        // Blocks refer to events.
        self.write_events()?;
        self.write_blocks()
    }

    fn write_blocks(&mut self) -> io::Result<()> {
        match self.blocks.bytes() {
            0 => Ok(()),
            _ => {
                let columns = self.blocks.take();
                self.packed(Kind::Blocks, &columns)
            }
        }
    }

    fn write_events(&mut self) -> io::Result<()> {
        match self.events.bytes() {
            0 => Ok(()),
            _ => {
                let columns = self.events.take();
                self.packed(Kind::Events, &columns)
            }
        }
    }

    fn packed(&mut self, kind: Kind, columns: &[Vec<u8>]) -> io::Result<()> {
        let raw = columns.iter().map(|c| c.len() as u64).sum();
        let payload = self.packer.pack(columns)?;
        self.chunk(kind, StreamHead::default(), raw, &payload)
    }

    fn chunk(&mut self, kind: Kind, stream: StreamHead, raw_bytes: u64, payload: &[u8]) -> io::Result<()> {
        let (bytes, head) = chunk(kind, stream, raw_bytes, payload)?;
        self.put(&bytes)?;
        self.index.add(&head);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Everything was recorded: writes the index, the totals and the footer. Returns the size of
    /// the file.
    pub fn finish(self, totals: &Totals) -> io::Result<(W, u64)> {
        self.finish_verified(totals, None)
    }

    /// As [`Writer::finish`], with the hashes of all threads' accesses if they are known.
    pub fn finish_verified(mut self, totals: &Totals, hashes: Option<&[ThreadHash]>) -> io::Result<(W, u64)> {
        self.write_definitions()?;
        let index = self.written;
        let columns = self.index.take();
        self.packed(Kind::Index, &columns)?;
        let json = serde_json::to_vec(&End {
            totals: *totals,
            verify: hashes.map(<[ThreadHash]>::to_vec),
        })?;
        let (mut end, _) = chunk(Kind::End, StreamHead::default(), json.len() as u64, &json)?;
        end.extend_from_slice(&Footer { index }.to_bytes());
        self.put(&end)?;
        Ok((self.out, self.written))
    }
}

/// A whole chunk, and its head.
fn chunk(kind: Kind, stream: StreamHead, raw_bytes: u64, payload: &[u8]) -> io::Result<(Vec<u8>, Head)> {
    let size = |bytes: u64| u32::try_from(bytes).ok().filter(|&b| b <= MOST_BYTES);
    let too_large = || io::Error::new(io::ErrorKind::InvalidInput, "a chunk is too large");
    let head = Head {
        kind,
        stream,
        stored_bytes: size(payload.len() as u64).ok_or_else(too_large)?,
        raw_bytes: size(raw_bytes).ok_or_else(too_large)?,
    };
    head.check().map_err(|_| too_large())?;
    let mut bytes = head.to_bytes(crc32fast::hash(payload)).to_vec();
    bytes.extend_from_slice(payload);
    Ok((bytes, head))
}
