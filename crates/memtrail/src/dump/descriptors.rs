//! `dump --descriptors`: tuples as METRIC and ScalaMemTrace have them.
//!
//! ```text
//! RSD <start_address, length, address_stride, event_type, start_sequence_id, sequence_id_stride, source_table_index>
//! PRSD <base_address, base_address_shift, sequence_id, sequence_id_shift, PRSD_length, RSD or PRSD>
//! IAD <address, event_type, sequence_id, source_table_index>
//! ```
//! The source table is told as it grows: index, instruction, size of the access, module and offset,
//! file and line.
use super::{output, written};
use crate::args::DumpArgs;
use crate::info::Recording;
use crate::tables::names::Names;
use memtrail_model::Kind;
use memtrail_trace::{describe, stream, Descriptor, Ending, Known, Source};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

fn event_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "READ",
        Kind::Write => "WRITE",
        Kind::Prefetch => "PREFETCH",
        Kind::Fetch => "FETCH",
    }
}

/// A descriptor as a tuple.
fn tuple(descriptor: &Descriptor, index: usize, text: &mut String) {
    // Writing to a string cannot fail.
    let _ = match descriptor {
        Descriptor::Iad {
            address,
            sequence,
            source,
        } => write!(
            text,
            "IAD <{address:#x}, {}, {sequence}, {index}>",
            event_type(source.kind)
        ),
        Descriptor::Rsd {
            address,
            length,
            stride,
            sequence,
            sequence_stride,
            source,
        } => write!(
            text,
            "RSD <{address:#x}, {length}, {}, {}, {sequence}, {sequence_stride}, {index}>",
            *stride as i64,
            event_type(source.kind)
        ),
        Descriptor::Prsd {
            address,
            shift,
            sequence,
            sequence_shift,
            length,
            of,
        } => {
            let _ = write!(
                text,
                "PRSD <{address:#x}, {}, {sequence}, {sequence_shift}, {length}, ",
                *shift as i64
            );
            tuple(of, index, text);
            write!(text, ">")
        }
    };
}

/// The source table so far.
struct Table<'k> {
    known: &'k Known,
    names: Names,
    sources: HashMap<Source, usize>,
}

impl Table<'_> {
    /// The index of a source, told if it is new.
    fn index(&mut self, source: Source, out: &mut impl Write) -> io::Result<usize> {
        let next = self.sources.len();
        let index = *self.sources.entry(source).or_insert(next);
        if index == next {
            let table = &self.known.table;
            let code = table
                .points()
                .get(source.point.index())
                .map_or(source.pc, |point| point.code);
            let name = table.images().place(code);
            write!(out, "source {index}: {:#x} size {} {name}", source.pc, source.size)?;
            match self.names.code(code).short_line() {
                Some(line) => writeln!(out, " {line}")?,
                None => writeln!(out)?,
            }
        }
        Ok(index)
    }
}

pub fn print(reader: &mut Recording, known: &Known, args: &DumpArgs) -> anyhow::Result<u8> {
    let mut out = output();
    let mut table = Table {
        known,
        names: Names::new(&known.table, Default::default()),
        sources: HashMap::new(),
    };
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut failed: Option<io::Error> = None;
    let last: HashMap<u32, u64> = known.streams.iter().map(|c| (c.head.stream.thread, c.at)).collect();
    let complete = matches!(known.ending, Ending::Complete(_));
    let wanted = |thread: u32| args.part.thread.is_none_or(|t| t == thread);
    for chunk in known.streams.iter().filter(|c| wanted(c.head.stream.thread)) {
        if left == 0 || failed.is_some() {
            break;
        }
        let head = chunk.head.stream;
        let written = writeln!(
            out,
            "thread {}, process {}, accesses {} to {}",
            head.thread,
            head.process,
            head.first,
            head.first.saturating_add(head.accesses)
        );
        failed = written.err();
        let stream = stream(reader, known, chunk)?;
        let is_last = complete && last.get(&head.thread) == Some(&chunk.at);
        describe(known, chunk, &stream, is_last, |descriptor| {
            let mut print = || {
                let index = table.index(descriptor.source(), &mut out)?;
                let mut text = String::new();
                tuple(&descriptor, index, &mut text);
                writeln!(out, "{text}")
            };
            failed = print().err();
            left -= 1;
            left > 0 && failed.is_none()
        })?;
    }
    written(failed.or(out.flush().err()))
}
