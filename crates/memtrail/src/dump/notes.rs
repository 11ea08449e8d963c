//! `dump --notes`: what threads did to memory as a whole, and to each other.
//!
//! A line for each note: the thread, its accesses before the note, and what happened.
use super::{done, output, written};
use crate::info::Recording;
use memtrail_model::{Access, AccessSink, Event, GapReason, Note, Reply, Wants};
use memtrail_replay::{accesses, Selection};
use memtrail_trace::Known;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

struct Printer<'k> {
    known: &'k Known,
    out: BufWriter<StdoutLock<'static>>,
    failed: Option<io::Error>,
    /// Accesses so far, by thread.
    accesses: BTreeMap<u32, u64>,
}

impl Printer<'_> {
    fn line(&mut self, start: impl Display, what: impl Display) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{start} {what}").err();
        }
    }

    fn text(&self, id: u32) -> String {
        match self.known.names.text(id) {
            Some(text) => String::from_utf8_lossy(text).into_owned(),
            None => "-".into(),
        }
    }

    fn hook(&self, id: u32) -> String {
        match self.known.names.hook(id) {
            Some(hook) => String::from_utf8_lossy(hook.name).into_owned(),
            None => "-".into(),
        }
    }

    /// What a note says.
    fn describe(&self, note: &Note) -> String {
        match *note {
            Note::Alloc { hook, address, bytes } => format!("alloc {address:#x} {bytes} {}", self.hook(hook)),
            Note::Free { hook, address } => format!("free {address:#x} {}", self.hook(hook)),
            Note::Realloc {
                hook,
                old,
                address,
                bytes,
            } => format!("realloc {old:#x} {address:#x} {bytes} {}", self.hook(hook)),
            Note::Map {
                address,
                bytes,
                protection,
                source,
                offset,
            } => {
                let letter = |bit: u32, letter| if protection & bit != 0 { letter } else { '-' };
                let (r, w, x) = (letter(1, 'r'), letter(2, 'w'), letter(4, 'x'));
                format!("map {address:#x} {bytes} {r}{w}{x} {offset:#x} {}", self.text(source))
            }
            Note::Unmap { address, bytes } => format!("unmap {address:#x} {bytes}"),
            Note::Remap {
                old,
                old_bytes,
                address,
                bytes,
            } => format!("remap {old:#x} {old_bytes} {address:#x} {bytes}"),
            Note::Break { address } => format!("break {address:#x}"),
            Note::Name { address, bytes, text } => format!("name {address:#x} {bytes} {}", self.text(text)),
            Note::Enter { text } => format!("enter {}", self.text(text)),
            Note::Leave { text } => format!("leave {}", self.text(text)),
            Note::Wait { address, value } => format!("wait {address:#x} {value:#x}"),
            Note::Woken { address, result } => format!("woken {address:#x} {result}"),
            Note::Wake { address, result } => format!("wake {address:#x} {result}"),
            Note::Start { thread, cleared } => match thread {
                Some(thread) => format!("start {} {cleared:#x}", thread.0),
                None => format!("start - {cleared:#x}"),
            },
            Note::End { status } => format!("end {status}"),
            Note::Gap {
                begin,
                end,
                reason,
                instructions,
                accesses,
            } => {
                let reason = match reason {
                    GapReason::Stopped => "stopped",
                    GapReason::Sampled => "sampled",
                    GapReason::Limit => "limit",
                };
                let known = |number: Option<u64>| number.map_or("-".to_string(), |n| n.to_string());
                let (instructions, accesses) = (known(instructions), known(accesses));
                format!("gap {} {reason} {instructions} {accesses}", end - begin)
            }
        }
    }
}

impl AccessSink for Printer<'_> {
    fn accesses(&mut self, batch: &[Access]) {
        if let Some(first) = batch.first() {
            *self.accesses.entry(first.thread.0).or_default() += batch.len() as u64;
        }
    }
    fn wants(&self) -> Wants {
        Wants {
            notes: true,
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Note { thread, note, .. } => {
                let accesses = self.accesses.get(&thread.0).copied().unwrap_or(0);
                let what = self.describe(note);
                self.line(format_args!("{} {accesses}", thread.0), what);
            }
            Event::Fork { parent, child } => self.line("fork", format_args!("{parent} {child}")),
            _ => {}
        }
        Reply::NOTHING
    }
    fn done(&self) -> bool {
        self.failed.is_some()
    }
}

pub fn print(reader: &mut Recording, known: &Known, selection: &Selection) -> anyhow::Result<u8> {
    let mut printer = Printer {
        known,
        out: output(),
        failed: None,
        accesses: BTreeMap::new(),
    };
    let replayed = accesses(reader, known, selection, &mut printer);
    let flushed = printer.out.flush();
    let failed = printer.failed.or(flushed.err());
    if failed.is_some() {
        return written(failed);
    }
    done(replayed, known)
}
