//! DynamoRIO's drmemtrace: a file of 12-byte records for each thread, as its readers and simulators
//! take them.
//!
//! ```text
//! record := type:u16 size:u16 value:u64        little-endian, packed
//! ```
//! A file is a header, the thread and its process, markers, then instructions (value: address,
//! size: length), each with its reads, writes and prefetches behind it (value: address, size:
//! bytes), the end of the thread, and a footer. A stream may also hold several threads; a thread
//! record says whose records follow. Import takes both. It skips what is no access: encodings,
//! flushes, prefetches by the hardware, markers. Markers of time become the times of the recording,
//! so that threads from several files are in order.
//!
//! Export writes every instruction as of no particular kind, without its encoding, as traces before
//! version 4 are; each element of a repeated string instruction after the first is an instruction
//! that needs no fetch.
//!
//! **Cannot express:** sizes above 65535 bytes (an error). Kinds of branches and of prefetches,
//! signals, times within a thread are not exported.
use crate::export::Encode;
use crate::{Error, Event, Source};
use memtrail_model::{Access, Kind};
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, Write};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 12;

/// Types of records.
mod record {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const PREFETCH: u16 = 2;
    pub const LAST_PREFETCH: u16 = 9;
    /// Of no particular kind.
    pub const INSTRUCTION: u16 = 10;
    pub const LAST_INSTRUCTION: u16 = 16;
    /// Several instructions right behind the one before; the value holds their lengths, a byte
    /// each.
    pub const BUNDLE: u16 = 17;
    pub const FIRST_FLUSH: u16 = 18;
    pub const LAST_FLUSH: u16 = 21;
    pub const THREAD: u16 = 22;
    pub const THREAD_END: u16 = 23;
    pub const PROCESS: u16 = 24;
    pub const HEADER: u16 = 25;
    pub const FOOTER: u16 = 26;
    pub const HARDWARE_PREFETCH: u16 = 27;
    pub const MARKER: u16 = 28;
    /// Executed without being fetched again.
    pub const NOT_FETCHED: u16 = 29;
    pub const PERHAPS_FETCHED: u16 = 30;
    pub const SYSTEM_CALL: u16 = 31;
    pub const FIRST_OTHER_PREFETCH: u16 = 32;
    pub const LAST_OTHER_PREFETCH: u16 = 46;
    pub const ENCODING: u16 = 47;
    pub const TAKEN_JUMP: u16 = 48;
    pub const UNTAKEN_JUMP: u16 = 49;
}

/// Kinds of markers, in the size field.
mod marker {
    pub const TIME: u16 = 2;
    pub const CPU: u16 = 3;
    pub const FILE_TYPE: u16 = 9;
    pub const LINE_BYTES: u16 = 10;
    pub const VERSION: u16 = 12;
    pub const PAGE_BYTES: u16 = 18;
}

/// Recorded on x86-64.
const FILE_TYPE: u64 = 0x40;
/// Before encodings and kinds of branches.
const VERSION: u64 = 3;
/// From the epoch of time markers, the beginning of 1601, to 1970, in microseconds.
const TO_1970: u64 = 11_644_473_600_000_000;

fn is_instruction(kind: u16) -> bool {
    use record::*;
    matches!(
        kind,
        INSTRUCTION..=LAST_INSTRUCTION | NOT_FETCHED | PERHAPS_FETCHED | SYSTEM_CALL | TAKEN_JUMP | UNTAKEN_JUMP
    )
}

/// The access a type of record stands for.
fn access_kind(kind: u16) -> Option<Kind> {
    use record::*;
    match kind {
        READ => Some(Kind::Read),
        WRITE => Some(Kind::Write),
        PREFETCH..=LAST_PREFETCH | FIRST_OTHER_PREFETCH..=LAST_OTHER_PREFETCH => Some(Kind::Prefetch),
        _ => None,
    }
}

/// Whether these bytes can begin a file: whole records of known types, the header first.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.len() >= RECORD_BYTES
        && bytes[..2] == record::HEADER.to_le_bytes()
        && bytes
            .chunks_exact(RECORD_BYTES)
            .all(|r| u16::from_le_bytes([r[0], r[1]]) <= record::UNTAKEN_JUMP)
}

/// Reads the records of one file.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    at: u64,
    /// Serial numbers by the system's numbers.
    threads: HashMap<u64, u32>,
    first: u32,
    /// Whose records these are.
    thread: Option<u32>,
    /// Where the last instruction of this thread ended.
    end: Option<u64>,
    pending: VecDeque<Event>,
}

impl<R: BufRead> Reader<R> {
    /// The first thread gets this serial number, others the next.
    pub fn new(input: R, first: u32) -> Reader<R> {
        Reader {
            input,
            at: 0,
            threads: HashMap::new(),
            first,
            thread: None,
            end: None,
            pending: VecDeque::new(),
        }
    }

    /// The serial number that the next thread would get.
    pub fn next_serial(&self) -> u32 {
        self.first.saturating_add(self.threads.len() as u32)
    }

    fn wrong(&self, what: impl Into<String>) -> Error {
        Error::Byte {
            at: self.at,
            what: what.into(),
        }
    }

    /// The next record; `None` at the end.
    fn record(&mut self) -> Result<Option<(u16, u16, [u8; 8])>, Error> {
        let mut bytes = [0; RECORD_BYTES];
        let mut got = 0;
        while got < bytes.len() {
            match self.input.read(&mut bytes[got..]) {
                Ok(0) if got == 0 => return Ok(None),
                Ok(0) => return Err(self.wrong(format!("a record of 12 bytes expected, not the end after {got}"))),
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::Read(e)),
            }
        }
        let [a, b, c, d, value @ ..] = bytes;
        Ok(Some((u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]), value)))
    }

    fn switch(&mut self, tid: u64) {
        let next = self.next_serial();
        let serial = *self.threads.entry(tid).or_insert(next);
        if self.thread != Some(serial) {
            self.thread = Some(serial);
            self.end = None;
            let tid = tid as u32;
            self.pending.push_back(Event::Thread { serial, tid });
        }
    }

    fn instruction(&mut self, pc: u64, bytes: u32) {
        self.pending.push_back(Event::Instruction { pc, bytes });
        self.end = Some(pc.wrapping_add(bytes.into()));
    }

    fn add(&mut self, kind: u16, size: u16, value: [u8; 8]) -> Result<(), Error> {
        use record::*;
        let number = u64::from_le_bytes(value);
        if kind == THREAD {
            self.switch(number);
        } else if is_instruction(kind) {
            self.ensure_thread();
            self.instruction(number, size.into());
        } else if let Some(kind) = access_kind(kind) {
            self.ensure_thread();
            let (addr, size) = (number, size.into());
            self.pending.push_back(Event::Access { kind, addr, size });
        } else {
            match kind {
                BUNDLE => {
                    let lengths = value.get(..size.into()).filter(|l| !l.is_empty());
                    let (Some(lengths), Some(_)) = (lengths, self.end) else {
                        return Err(self.wrong("one to eight instructions behind another expected in a bundle"));
                    };
                    for &length in lengths {
                        self.instruction(self.end.unwrap_or(0), length.into());
                    }
                }
                MARKER if size == marker::TIME => {
                    self.ensure_thread();
                    self.pending.push_back(Event::Time(number));
                }
                MARKER | THREAD_END | PROCESS | HEADER | FOOTER | HARDWARE_PREFETCH | ENCODING => {}
                FIRST_FLUSH..=LAST_FLUSH => {}
                _ => {
                    return Err(self.wrong(format!(
                        "a type of record from 0 to {UNTAKEN_JUMP} expected, not {kind}"
                    )))
                }
            }
        }
        Ok(())
    }

    /// A stream may do without a thread record.
    fn ensure_thread(&mut self) {
        if self.thread.is_none() {
            self.switch(self.first.into());
        }
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        while self.pending.is_empty() {
            let Some((kind, size, value)) = self.record()? else {
                return Ok(None);
            };
            self.add(kind, size, value)?;
            self.at += RECORD_BYTES as u64;
        }
        Ok(self.pending.pop_front())
    }
}

/// Whom a file is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub pid: u32,
    pub tid: u32,
    /// Microseconds since 1970 when it began.
    pub time: u64,
}

/// Writes the file of one thread.
#[derive(Debug)]
pub struct Writer {
    about: About,
    /// The instruction before. One that follows itself is taken for the next element of a repeated
    /// string instruction.
    last: Option<u64>,
}

impl Writer {
    pub fn new(about: About) -> Writer {
        Writer { about, last: None }
    }
}

fn put(out: &mut dyn Write, kind: u16, size: u16, value: u64) -> io::Result<()> {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    bytes[2..4].copy_from_slice(&size.to_le_bytes());
    bytes[4..].copy_from_slice(&value.to_le_bytes());
    out.write_all(&bytes)
}

fn small(size: u32, what: &str) -> io::Result<u16> {
    u16::try_from(size).map_err(|_| {
        let text = format!("{what} of {size} bytes: drmemtrace has no sizes above 65535");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

impl Encode for Writer {
    fn wants_instructions(&self) -> bool {
        true
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        use record::*;
        let About { pid, tid, time } = self.about;
        put(out, HEADER, 0, VERSION)?;
        put(out, MARKER, marker::VERSION, VERSION)?;
        put(out, MARKER, marker::FILE_TYPE, FILE_TYPE)?;
        put(out, THREAD, 4, tid.into())?;
        put(out, PROCESS, 4, pid.into())?;
        put(out, MARKER, marker::LINE_BYTES, 64)?;
        put(out, MARKER, marker::PAGE_BYTES, 4096)?;
        put(out, MARKER, marker::TIME, time.saturating_add(TO_1970))?;
        put(out, MARKER, marker::CPU, 0)
    }

    fn instruction(&mut self, pc: u64, bytes: u32, out: &mut dyn Write) -> io::Result<()> {
        let again = self.last == Some(pc);
        self.last = Some(pc);
        let kind = if again {
            record::NOT_FETCHED
        } else {
            record::INSTRUCTION
        };
        put(out, kind, small(bytes, "an instruction")?, pc)
    }

    fn access(&mut self, access: &Access, out: &mut dyn Write) -> io::Result<()> {
        let kind = match access.kind {
            Kind::Read => record::READ,
            Kind::Write => record::WRITE,
            Kind::Prefetch => record::PREFETCH,
            Kind::Fetch => return Ok(()),
        };
        put(out, kind, small(access.size, "an access")?, access.addr)
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        put(out, record::THREAD_END, 4, self.about.tid.into())?;
        put(out, record::FOOTER, 0, 0)
    }
}
