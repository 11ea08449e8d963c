//! `dump`: accesses as text.
mod descriptors;
mod notes;
mod tree;

use crate::args::{DumpArgs, PartArgs, Place};
use crate::info::{open, warn_unless_whole, Recording};
use anyhow::{bail, Context};
use memtrail_model::{Access, AccessSink, Thread};
use memtrail_replay::{accesses, Point, Selection};
use memtrail_trace::{Ending, Error, Hasher, Known, ThreadHash};
use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

/// Prints accesses; remembers the first error, since a sink cannot return one.
struct Printer {
    out: BufWriter<StdoutLock<'static>>,
    failed: Option<io::Error>,
}

impl AccessSink for Printer {
    fn accesses(&mut self, batch: &[Access]) {
        for access in batch {
            if self.failed.is_some() {
                return;
            }
            self.failed = writeln!(self.out, "{access}").err();
        }
    }
    fn done(&self) -> bool {
        self.failed.is_some()
    }
}

fn output() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// How writing went; a reader that has seen enough is no failure.
pub fn written(failed: Option<io::Error>) -> anyhow::Result<u8> {
    match failed {
        Some(e) if e.kind() != ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(0),
    }
}

/// A place in this recording.
pub fn point(place: Option<Place>, known: &Known) -> anyhow::Result<Option<Point>> {
    Ok(match place {
        None => None,
        Some(Place::Access(n)) => Some(Point::Access(n)),
        Some(Place::Time(since)) => {
            let ticks = known.ticks(since);
            let ticks = ticks.context("this recording does not say how fast its clock ran: give access numbers")?;
            Some(Point::Time(ticks))
        }
    })
}

/// What the arguments select.
pub fn selection(part: &PartArgs, limit: Option<u64>, known: &Known) -> anyhow::Result<Selection> {
    Ok(Selection {
        thread: part.thread.map(Thread),
        from: point(part.from, known)?,
        to: point(part.to, known)?,
        limit: limit.unwrap_or(u64::MAX),
        order: part.order.into(),
    })
}

pub fn command(args: &DumpArgs) -> anyhow::Result<u8> {
    let mut reader = open(&args.file)?;
    let mut known = Known::read(&mut reader)?;
    args.part.only_rank(&mut known)?;
    warn_unless_whole(&known.ending);
    let selection = selection(&args.part, args.limit, &known)?;
    if args.descriptors {
        return descriptors::print(&mut reader, &known, args);
    }
    if args.tree {
        return tree::print(&mut reader, &known, args);
    }
    if args.notes {
        return notes::print(&mut reader, &known, &selection);
    }
    if args.hash {
        return hash(&mut reader, &known, &selection);
    }
    let mut printer = Printer {
        out: output(),
        failed: None,
    };
    let replayed = accesses(&mut reader, &known, &selection, &mut printer);
    let flushed = printer.out.flush();
    let failed = printer.failed.or(flushed.err());
    if failed.is_some() {
        return written(failed);
    }
    done(replayed, &known)
}

/// How a replay went, and whether all there was to replay was there.
fn done(result: Result<(), Error>, known: &Known) -> anyhow::Result<u8> {
    replayed(result)?;
    whole(known)
}

/// How a replay went.
pub fn replayed(result: Result<(), Error>) -> anyhow::Result<()> {
    match result {
        Err(error @ Error::WhichThread { .. }) => bail!("{error} (--thread T, or --from 250ms)"),
        other => Ok(other?),
    }
}

/// A failure if the recording is damaged.
pub fn whole(known: &Known) -> anyhow::Result<u8> {
    match known.ending {
        Ending::Damaged { at, what } => Err(Error::Damaged { at, what }.into()),
        _ => Ok(0),
    }
}

/// A line for each thread (serial, accesses, hash) and one for all.
fn hash(reader: &mut Recording, known: &Known, selection: &Selection) -> anyhow::Result<u8> {
    let mut hasher = Hasher::default();
    let replayed = accesses(reader, known, selection, &mut hasher);
    let hashes = hasher.hashes();
    for ThreadHash { thread, accesses, hash } in &hashes {
        println!("{thread} {accesses} {hash:#018x}");
    }
    let total: u64 = hashes.iter().map(|h| h.accesses).sum();
    println!("all {total} {:#018x}", memtrail_trace::whole(&hashes));
    done(replayed, known)
}
