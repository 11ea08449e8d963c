//! `dump`: accesses as text.
use crate::args::DumpArgs;
use crate::info::{open, warn_unless_whole};
use memtrail_collect::Expander;
use memtrail_model::{Access, AccessSink, Thread};
use memtrail_trace::{replay, Ending, Error, Filter, Known};
use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

/// Prints accesses; remembers the first error, since a sink cannot return one.
struct Printer {
    out: BufWriter<StdoutLock<'static>>,
    failed: Option<io::Error>,
}

impl AccessSink for Printer {
    fn accesses(&mut self, batch: &[Access]) {
        for access in batch {
            if let Err(error) = writeln!(self.out, "{access}") {
                if error.kind() == ErrorKind::BrokenPipe {
                    // The reader has seen enough. A loop of many iterations may lie ahead.
                    std::process::exit(0);
                }
                self.failed.get_or_insert(error);
                return;
            }
        }
    }
}

pub fn command(args: &DumpArgs) -> anyhow::Result<u8> {
    let mut reader = open(&args.file)?;
    let known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let printer = Printer {
        out: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
        failed: None,
    };
    let limit = args.limit.unwrap_or(u64::MAX);
    let mut expander = Expander::new(&known.xsave, printer).with_limit(limit);
    let filter = Filter {
        thread: args.thread.map(Thread),
    };
    let replayed = replay(&mut reader, &known, &filter, &mut expander, |e| !e.full());
    let mut printer = expander.into_sink();
    let flushed = printer.out.flush();
    replayed?;
    match (printer.failed.or(flushed.err()), known.ending) {
        (Some(e), _) if e.kind() != ErrorKind::BrokenPipe => Err(e.into()),
        (_, Ending::Damaged { at, what }) => Err(Error::Damaged { at, what }.into()),
        _ => Ok(0),
    }
}
