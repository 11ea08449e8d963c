//! The index: the heads of all chunks before it, in columns.
//!
//! Chunks follow each other without gaps, so their sizes give their places. What is likely takes
//! one zero byte: a thread's chunk begins with the access, and at the time, at which the one before
//! ended. Payload checksums are not here: a chunk is read with its head.
use crate::chunk::{Head, Kind, StreamHead};
use crate::reader::Chunk;
use crate::varint::{put, put_signed, Bad, Fields};
use std::collections::HashMap;

pub(crate) const COLUMNS: usize = 10;

/// Where a thread's next chunk is likely to begin: access number, time.
type Next = HashMap<u32, (u64, u64)>;

#[derive(Default)]
pub(crate) struct Encoder {
    columns: [Vec<u8>; COLUMNS],
    next: Next,
}

impl Encoder {
    pub fn add(&mut self, head: &Head) {
        let [kind, stored, raw, rest @ ..] = &mut self.columns;
        put(kind, head.kind as u64);
        put(stored, head.stored_bytes.into());
        put(raw, head.raw_bytes.into());
        if head.kind != Kind::Stream {
            return;
        }
        let [thread, process, first, accesses, begin, end, words] = rest;
        let s = &head.stream;
        let next = self.next.entry(s.thread).or_default();
        put(thread, s.thread.into());
        put(process, s.process.into());
        put_signed(first, s.first.wrapping_sub(next.0));
        put(accesses, s.accesses);
        put_signed(begin, s.begin.wrapping_sub(next.1));
        put_signed(end, s.end.wrapping_sub(s.begin));
        put(words, s.words);
        *next = (s.first.wrapping_add(s.accesses), s.end);
    }

    pub fn take(&mut self) -> [Vec<u8>; COLUMNS] {
        std::mem::take(self).columns
    }
}

/// The chunks of an index, the first of which stands at byte `at`; all end before `end`.
pub(crate) fn decode(columns: &[Vec<u8>; COLUMNS], mut at: u64, end: u64) -> Result<Vec<Chunk>, Bad> {
    let mut columns = columns.each_ref().map(|c| Fields(c));
    let [kind, stored, raw, thread, process, first, accesses, begin, length, words] = &mut columns;
    let mut next = Next::new();
    let mut chunks = Vec::new();
    while !kind.0.is_empty() {
        let code: u32 = kind.small()?;
        let mut head = Head {
            kind: Kind::from_u32(code).ok_or("a chunk of unknown kind")?,
            stream: StreamHead::default(),
            stored_bytes: stored.small()?,
            raw_bytes: raw.small()?,
        };
        if head.kind == Kind::Stream {
            let thread = thread.small()?;
            let next = next.entry(thread).or_default();
            let begin = next.1.wrapping_add(begin.signed()?);
            head.stream = StreamHead {
                thread,
                process: process.small()?,
                first: next.0.wrapping_add(first.signed()?),
                accesses: accesses.number()?,
                begin,
                end: begin.wrapping_add(length.signed()?),
                words: words.number()?,
            };
            *next = (head.stream.first.wrapping_add(head.stream.accesses), head.stream.end);
        }
        head.check()?;
        chunks.push(Chunk { at, head, member: None });
        let after = at.checked_add(head.chunk_bytes()).filter(|&a| a <= end);
        at = after.ok_or("the index tells of more chunks than there are")?;
    }
    if at != end {
        return Err("the index leaves chunks out");
    }
    columns.iter().try_for_each(Fields::end)?;
    Ok(chunks)
}
