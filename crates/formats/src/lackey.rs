//! What `valgrind --tool=lackey --trace-mem=yes` prints.
//!
//! ```text
//! I  04001090,3        an instruction: address, length
//!  L 1ffeffe7e,8       a load of its, " S" a store, " M" a load and a store of the same place
//! ==4711== anything    Valgrind's own words: skipped, as are empty lines
//! ```
//! Addresses are hexadecimal, sizes decimal. The accesses of an instruction follow it; each element
//! of a repeated string instruction is an execution of its own (Valgrind itself prints one more,
//! for finding that the count is 0). Programs that read this format take `I` lines for instruction
//! caches and to count instructions, so export writes one for every instruction that was executed.
//!
//! **Cannot express:** threads (all go into one stream, in long stretches), prefetches (left out).
use crate::export::{Encode, LeftOut};
use crate::lines::{decimal, hex, put_decimal, put_hex, Lines};
use crate::{Error, Event, Source};
use memtrail_model::{Access, Kind};
use std::io::{self, BufRead, Write};

/// Reads lackey's lines.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    /// The store of a modify.
    pending: Option<Event>,
}

impl<R: BufRead> Reader<R> {
    pub fn new(input: R) -> Reader<R> {
        Reader {
            lines: Lines::new(input),
            pending: None,
        }
    }
}

/// Kind letter, address, size.
pub(crate) fn parse(line: &[u8]) -> Option<(u8, u64, u32)> {
    let (letter, rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (b'I', rest),
        [b' ', letter @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*letter, rest),
        _ => return None,
    };
    let comma = rest.iter().position(|&b| b == b',')?;
    Some((letter, hex(&rest[..comma])?, decimal(&rest[comma + 1..])?))
}

/// Something Valgrind says, not lackey.
pub(crate) fn is_remark(line: &[u8]) -> bool {
    line.is_empty() || [b"==", b"--", b"**"].iter().any(|mark| line.starts_with(*mark))
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        if let Some(event) = self.pending.take() {
            return Ok(Some(event));
        }
        while self.lines.advance()? {
            let line = self.lines.line();
            if is_remark(line) {
                continue;
            }
            let expected = "\"I  \", \" L \", \" S \" or \" M \" with address,size";
            let (letter, addr, size) = parse(line).ok_or_else(|| self.lines.wrong(expected))?;
            let access = |kind| Event::Access { kind, addr, size };
            return Ok(Some(match letter {
                b'I' => Event::Instruction { pc: addr, bytes: size },
                b'S' => access(Kind::Write),
                b'M' => {
                    self.pending = Some(access(Kind::Write));
                    access(Kind::Read)
                }
                _ => access(Kind::Read),
            }));
        }
        Ok(None)
    }
}

/// Writes lackey's lines.
#[derive(Debug, Default)]
pub struct Writer {
    line: Vec<u8>,
    /// A read that may turn out to be the first half of a modify.
    read: Option<(u64, u32)>,
    prefetches: u64,
}

impl Writer {
    fn put(&mut self, mark: &[u8; 3], addr: u64, size: u32) {
        self.line.extend_from_slice(mark);
        put_hex(&mut self.line, addr, 8);
        self.line.push(b',');
        put_decimal(&mut self.line, size);
        self.line.push(b'\n');
    }

    fn put_read(&mut self) {
        if let Some((addr, size)) = self.read.take() {
            self.put(b" L ", addr, size);
        }
    }

    fn hand_over(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let written = out.write_all(&self.line);
        self.line.clear();
        written
    }
}

impl Encode for Writer {
    fn wants_instructions(&self) -> bool {
        true
    }

    fn instruction(&mut self, pc: u64, bytes: u32, out: &mut dyn Write) -> io::Result<()> {
        self.put_read();
        self.put(b"I  ", pc, bytes);
        self.hand_over(out)
    }

    fn access(&mut self, access: &Access, out: &mut dyn Write) -> io::Result<()> {
        let place = (access.addr, access.size);
        match access.kind {
            Kind::Write if self.read == Some(place) => {
                self.read = None;
                self.put(b" M ", access.addr, access.size);
            }
            Kind::Write => {
                self.put_read();
                self.put(b" S ", access.addr, access.size);
            }
            Kind::Read => {
                self.put_read();
                self.read = Some(place);
            }
            Kind::Prefetch => self.prefetches += 1,
            Kind::Fetch => {}
        }
        self.hand_over(out)
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.put_read();
        self.hand_over(out)
    }

    fn left_out(&self) -> LeftOut {
        LeftOut {
            prefetches: self.prefetches,
        }
    }
}
