//! What `memtrail dump` prints.
//!
//! ```text
//! 0 0x401000 R 0x7ffd0c3e1a68 8        thread, instruction, R, W or P (prefetch), address, size
//! ```
//! Empty lines and lines that begin with `#` are skipped. On import a line is an execution of its
//! instruction, but a read with a write of the same place by the same instruction behind it is one.
//!
//! **Cannot express:** instructions without accesses, lengths of instructions.
use crate::export::Encode;
use crate::lines::{decimal, fields, prefixed_hex, put_decimal, put_hex, Lines};
use crate::{Error, Event, Source};
use memtrail_model::{Access, Kind, Point, Thread};
use std::collections::VecDeque;
use std::io::{self, BufRead, Write};

/// Reads lines of `memtrail dump`.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    thread: Option<Thread>,
    /// The line before, if it was a read that may have a write.
    read: Option<Access>,
    pending: VecDeque<Event>,
}

impl<R: BufRead> Reader<R> {
    pub fn new(input: R) -> Reader<R> {
        Reader {
            lines: Lines::new(input),
            thread: None,
            read: None,
            pending: VecDeque::new(),
        }
    }

    fn add(&mut self, access: Access) {
        if self.thread != Some(access.thread) {
            self.thread = Some(access.thread);
            let serial = access.thread.0;
            self.pending.push_back(Event::Thread { serial, tid: serial });
        }
        let second = Access {
            kind: Kind::Read,
            ..access
        };
        if access.kind != Kind::Write || self.read != Some(second) {
            let pc = access.pc;
            self.pending.push_back(Event::Instruction { pc, bytes: 0 });
        }
        self.read = Some(access).filter(|a| a.kind == Kind::Read);
        self.pending.push_back(Event::Access {
            kind: access.kind,
            addr: access.addr,
            size: access.size,
        });
    }
}

pub(crate) fn parse(line: &[u8]) -> Option<Access> {
    let mut fields = fields(line);
    let thread = Thread(decimal(fields.next()?)?);
    let pc = prefixed_hex(fields.next()?)?;
    let kind = match fields.next()? {
        b"R" => Kind::Read,
        b"W" => Kind::Write,
        b"P" => Kind::Prefetch,
        _ => return None,
    };
    let addr = prefixed_hex(fields.next()?)?;
    let size = decimal(fields.next()?)?;
    fields.next().is_none().then_some(Access {
        thread,
        pc,
        kind,
        addr,
        size,
        point: Point::NONE,
    })
}

/// A line that says nothing.
pub(crate) fn is_remark(line: &[u8]) -> bool {
    line.first() == Some(&b'#') || line.iter().all(u8::is_ascii_whitespace)
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        while self.pending.is_empty() && self.lines.advance()? {
            let line = self.lines.line();
            if is_remark(line) {
                continue;
            }
            let expected = "thread 0xPC R|W|P 0xADDRESS size";
            let access = parse(line).ok_or_else(|| self.lines.wrong(expected))?;
            self.add(access);
        }
        Ok(self.pending.pop_front())
    }
}

/// Writes lines as `memtrail dump` does.
#[derive(Debug, Default)]
pub struct Writer {
    line: Vec<u8>,
}

impl Encode for Writer {
    fn access(&mut self, access: &Access, out: &mut dyn Write) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        put_decimal(line, access.thread.0);
        line.extend_from_slice(b" 0x");
        put_hex(line, access.pc, 1);
        line.extend_from_slice(&[b' ', access.kind.letter() as u8]);
        line.extend_from_slice(b" 0x");
        put_hex(line, access.addr, 1);
        line.push(b' ');
        put_decimal(line, access.size);
        line.push(b'\n');
        out.write_all(line)
    }
}
