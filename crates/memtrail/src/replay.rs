//! `replay`: a recording as a stream into another command.
use crate::args::{ExportFormat, ReplayArgs};
use crate::dump;
use crate::export::{encoder, tell};
use crate::info::{open, threads, warn_unless_whole, Recording};
use anyhow::{bail, Context};
use memtrail_decode::{Consumer, StepSink, Walker};
use memtrail_formats::{Encode, Export, LeftOut};
use memtrail_model::{Access, Thread};
use memtrail_replay::{accesses, replay, Filter, Point, Selection};
use memtrail_trace::{Ending, Error, Known};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

const BUFFER: usize = 1 << 16;

/// As a shell reports it.
fn shell(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(signal) as u8
}

/// The standard input of a command. When it has seen enough there is nothing left to do but to wait
/// for it, and a loop of many iterations may lie ahead.
struct Reader(Child);

impl Reader {
    fn start(args: &ReplayArgs) -> anyhow::Result<Reader> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&args.to).stdin(Stdio::piped());
        Ok(Reader(command.spawn().context("cannot start /bin/sh")?))
    }

    /// Lets the command see the end of the stream, and waits for it.
    fn finish(&mut self) -> io::Result<u8> {
        drop(self.0.stdin.take());
        self.0.wait().map(shell)
    }

    fn checked<T>(&mut self, written: io::Result<T>) -> io::Result<T> {
        if matches!(&written, Err(e) if e.kind() == ErrorKind::BrokenPipe) {
            std::process::exit(self.finish()?.into());
        }
        written
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // If the replay has failed, that is what the user must know.
        let _ = self.finish();
    }
}

impl Write for Reader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.stdin.as_mut().map_or(Ok(0), |stdin| stdin.write(bytes));
        self.checked(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.0.stdin.as_mut().map_or(Ok(()), Write::flush);
        self.checked(flushed)
    }
}

/// Leaves out what comes before an access, and the instructions before that.
struct Window<S> {
    sink: S,
    skip: u64,
}

impl<S: StepSink> StepSink for Window<S> {
    fn instruction(&mut self, thread: Thread, pc: u64, bytes: u32) {
        if self.skip == 0 {
            self.sink.instruction(thread, pc, bytes);
        }
    }
    fn access(&mut self, access: &Access) {
        if self.skip == 0 {
            self.sink.access(access);
        } else {
            self.skip -= 1;
        }
    }
}

pub fn command(args: &ReplayArgs) -> anyhow::Result<u8> {
    if args.fetches && args.format != ExportFormat::Din {
        bail!("--fetches is for din; the other formats have instructions or have none");
    }
    let format = encoder(args.format, args.fetches)?;
    let mut reader = open(&args.file)?;
    let known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let threads = threads(&known, args.thread, &args.file)?;
    let selection = Selection {
        thread: args.thread.map(Thread),
        from: dump::point(args.begin, &known)?,
        to: dump::point(args.end, &known)?,
        limit: args.limit.unwrap_or(u64::MAX),
        order: args.order.into(),
    };
    let by_number = |p: Option<Point>| matches!(p, Some(Point::Access(_)));
    if threads.len() > 1 && (by_number(selection.from) || by_number(selection.to)) {
        let which = Error::WhichThread { threads: threads.len() };
        bail!("{which} (--thread T, or --begin 250ms)");
    }
    let by_time = |p: Option<Point>| matches!(p, Some(Point::Time(_)));
    if format.wants_instructions() && (by_time(selection.from) || by_time(selection.to)) {
        bail!("a format with instructions is cut at access numbers only: --thread T --begin N --end N");
    }
    let command = Reader::start(args)?;
    let (status, left_out) = stream(&mut reader, &known, &selection, format, command)?;
    tell(args.format, left_out, threads.len());
    match known.ending {
        Ending::Damaged { at, what } => Err(Error::Damaged { at, what }.into()),
        _ => Ok(status),
    }
}

/// Replays into a format and waits for the command that reads it.
fn stream(
    reader: &mut Recording,
    known: &Known,
    selection: &Selection,
    format: Box<dyn Encode>,
    command: Reader,
) -> anyhow::Result<(u8, LeftOut)> {
    let instructions = format.wants_instructions();
    let mut export = Export::new(format, BufWriter::with_capacity(BUFFER, command));
    if instructions {
        let number = |point| match point {
            Some(Point::Access(n)) => Some(n),
            _ => None,
        };
        let skip = number(selection.from).unwrap_or(0);
        let end = number(selection.to).unwrap_or(u64::MAX);
        let most = end.min(skip.saturating_add(selection.limit));
        let filter = Filter {
            thread: selection.thread,
        };
        let window = Window { sink: export, skip };
        let mut walker = Walker::new(&known.xsave, window).with_limit(most);
        if skip < most {
            let go_on = |w: &mut Walker<'_, Window<Export<_, _>>>| !w.full() && !w.sink().sink.failed();
            replay(reader, known, &filter, &mut walker, go_on)?;
        }
        export = walker.into_sink().sink;
    } else {
        accesses(reader, known, selection, &mut export)?;
    }
    let (_, left_out, out) = export.finish()?;
    let mut command = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok((command.finish()?, left_out))
}
