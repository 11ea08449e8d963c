//! Writing a recording: one chunk after the other, each complete in the file before the next.
use crate::chunk::{to_bytes, Head, Kind};
use crate::{Header, Totals};
use memtrail_collect::{Piece, Sink};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use zstd::bulk::Compressor;

const ZSTD_LEVEL: i32 = 1;

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
    compressor: Compressor<'static>,
    bytes: Vec<u8>,
    stored: Vec<u8>,
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
            compressor: Compressor::new(ZSTD_LEVEL)?,
            bytes: Vec::new(),
            stored: Vec::new(),
        })
    }

    /// Bytes of whole chunks in the file so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn words(&mut self, head: Head, words: &[u64]) -> io::Result<()> {
        to_bytes(words, &mut self.bytes);
        self.stored.clear();
        self.stored.reserve(zstd::zstd_safe::compress_bound(self.bytes.len()));
        self.compressor.compress_to_buffer(&self.bytes, &mut self.stored)?;
        let stored = std::mem::take(&mut self.stored);
        let result = self.chunk(head, self.bytes.len(), &stored);
        self.stored = stored;
        result
    }

    /// A chunk goes out in one write, so that a reader never meets half of one that we finished.
    fn chunk(&mut self, head: Head, raw_bytes: usize, payload: &[u8]) -> io::Result<()> {
        let head = Head {
            raw_bytes: raw_bytes as u64,
            stored_bytes: payload.len() as u32,
            payload_crc: crc32fast::hash(payload),
            ..head
        };
        let mut chunk = head.to_bytes().to_vec();
        chunk.extend_from_slice(payload);
        self.out.write_all(&chunk)?;
        self.out.flush()?;
        self.written += chunk.len() as u64;
        Ok(())
    }

    /// Writes the end chunk: everything was recorded.
    pub fn finish(mut self, totals: &Totals) -> io::Result<(W, u64)> {
        let json = serde_json::to_vec(totals)?;
        self.chunk(head(Kind::End, 0, 0, 0, 0), json.len(), &json)?;
        Ok((self.out, self.written))
    }
}

fn head(kind: Kind, serial: u32, process: u32, begin: u64, end: u64) -> Head {
    Head {
        kind,
        serial,
        process,
        begin,
        end,
        raw_bytes: 0,
        stored_bytes: 0,
        payload_crc: 0,
    }
}

impl<W: Write + Send> Sink for Writer<W> {
    fn definitions(&mut self, process: u32, words: &[u64]) -> io::Result<()> {
        self.words(head(Kind::Definitions, process, process, 0, 0), words)
    }

    fn records(&mut self, p: &Piece<'_>) -> io::Result<()> {
        let head = head(Kind::Records, p.thread.0, p.process, p.begin, p.end);
        self.words(head, p.words)
    }
}
