//! Dinero's traditional input, `din`.
//!
//! ```text
//! 2 401000             0 a read, 1 a write, 2 an instruction fetch; a hexadecimal address
//! 0 7ffd0c3e1a68       what else is on a line is ignored
//! ```
//! Labels 3 and 4, which are no accesses, are skipped, as are empty lines. With fetches the
//! accesses up to the next one belong to the instruction that was fetched; without any, all are of
//! an instruction at address 0. Export writes a fetch before each instruction if it is asked to.
//!
//! **Cannot express:** threads (all go into one stream), sizes (import assumes one for all),
//! lengths of instructions, prefetches (left out), instructions unless there are fetches.
use crate::export::{Encode, LeftOut};
use crate::lines::{fields, hex, prefixed_hex, put_hex, Lines};
use crate::{Error, Event, Source};
use memtrail_model::{Access, Kind};
use std::io::{self, BufRead, Write};

/// What is assumed of an access if nothing is said.
pub const DEFAULT_SIZE: u32 = 4;

/// Reads `din`.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    size: u32,
    /// Whether there was a fetch.
    fetches: bool,
    /// The access itself, after its instruction.
    pending: Option<Event>,
}

impl<R: BufRead> Reader<R> {
    /// `size`: bytes of each access.
    pub fn new(input: R, size: u32) -> Reader<R> {
        Reader {
            lines: Lines::new(input),
            size,
            fetches: false,
            pending: None,
        }
    }
}

/// Label and address.
pub(crate) fn parse(line: &[u8]) -> Option<(u8, u64)> {
    let mut fields = fields(line);
    let [label @ b'0'..=b'4'] = fields.next()? else {
        return None;
    };
    let addr = fields.next()?;
    Some((*label, hex(addr).or_else(|| prefixed_hex(addr))?))
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        if let Some(event) = self.pending.take() {
            return Ok(Some(event));
        }
        while self.lines.advance()? {
            let line = self.lines.line();
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let expected = "a label from 0 to 4 and a hexadecimal address";
            let (label, addr) = parse(line).ok_or_else(|| self.lines.wrong(expected))?;
            let kind = match label {
                b'0' => Kind::Read,
                b'1' => Kind::Write,
                b'2' => {
                    self.fetches = true;
                    return Ok(Some(Event::Instruction { pc: addr, bytes: 0 }));
                }
                _ => continue,
            };
            let size = self.size;
            let access = Event::Access { kind, addr, size };
            if self.fetches {
                return Ok(Some(access));
            }
            self.pending = Some(access);
            return Ok(Some(Event::Instruction { pc: 0, bytes: 0 }));
        }
        Ok(None)
    }
}

/// Writes `din`.
#[derive(Debug, Default)]
pub struct Writer {
    fetches: bool,
    line: Vec<u8>,
    prefetches: u64,
}

impl Writer {
    pub fn new(fetches: bool) -> Writer {
        Writer {
            fetches,
            ..Writer::default()
        }
    }

    fn put(&mut self, label: u8, addr: u64, out: &mut dyn Write) -> io::Result<()> {
        self.line.clear();
        self.line.extend_from_slice(&[label, b' ']);
        put_hex(&mut self.line, addr, 1);
        self.line.push(b'\n');
        out.write_all(&self.line)
    }
}

impl Encode for Writer {
    fn wants_instructions(&self) -> bool {
        self.fetches
    }

    fn instruction(&mut self, pc: u64, _bytes: u32, out: &mut dyn Write) -> io::Result<()> {
        self.put(b'2', pc, out)
    }

    fn access(&mut self, access: &Access, out: &mut dyn Write) -> io::Result<()> {
        match access.kind {
            Kind::Read => self.put(b'0', access.addr, out),
            Kind::Write => self.put(b'1', access.addr, out),
            Kind::Prefetch => {
                self.prefetches += 1;
                Ok(())
            }
            Kind::Fetch => Ok(()),
        }
    }

    fn left_out(&self) -> LeftOut {
        LeftOut {
            prefetches: self.prefetches,
        }
    }
}
