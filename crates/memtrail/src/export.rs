//! `export`: a recording in the format of another tool.
use crate::args::{ExportArgs, ExportFormat};
use crate::explain;
use crate::import::is_same;
use crate::info::{open, threads, warn_unless_whole, Recording};
use crate::say;
use anyhow::{bail, Context};
use memtrail_decode::{Consumer, Message, Walker};
use memtrail_formats::{din, drmemtrace, lackey, raw, text, Encode, Export, LeftOut};
use memtrail_model::Thread;
use memtrail_replay::{accesses, replay, Filter, Selection};
use memtrail_report::format::thousands;
use memtrail_trace::{create, Ending, Error, Known};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::path::Path;

const BUFFER: usize = 1 << 16;

/// Standard output. When the reader has seen enough there is nothing left to do, and a loop of many
/// iterations may lie ahead.
struct Stdout(StdoutLock<'static>);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(leave_if_unheard)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(leave_if_unheard)
    }
}

fn leave_if_unheard(error: &io::Error) {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
}

pub fn command(args: &ExportArgs) -> anyhow::Result<u8> {
    if args.format.is_profile() {
        return explain::profile::command(args);
    }
    if args.fetches && args.format != ExportFormat::Din {
        bail!("--fetches is for din; the other formats have instructions or have none");
    }
    if args.output.as_deref().is_some_and(|o| is_same(o, &args.file)) {
        bail!("{}: it would be overwritten while it is read", args.file.display());
    }
    let mut reader = open(&args.file)?;
    let known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let threads = threads(&known, args.thread, &args.file)?;
    if threads.is_empty() {
        bail!("{}: there is no access in it", args.file.display());
    }
    let (count, left_out) = if args.format == ExportFormat::Drmemtrace {
        directory(args, &mut reader, &known, &threads)?
    } else {
        single(args, &mut reader, &known)?
    };
    if count == 0 {
        bail!("{}: there was no access to export", args.file.display());
    }
    tell(args.format, left_out, threads.len());
    match known.ending {
        Ending::Damaged { at, what } => Err(Error::Damaged { at, what }.into()),
        _ => Ok(0),
    }
}

/// Says what a format has no room for.
pub fn tell(format: ExportFormat, left_out: LeftOut, threads: usize) {
    if left_out.prefetches > 0 {
        let prefetches = thousands(left_out.prefetches);
        say::line(format_args!(
            "{prefetches} prefetches were left out: the format has none"
        ));
    }
    if threads > 1 && matches!(format, ExportFormat::Lackey | ExportFormat::Din) {
        say::line("several threads are in one stream, since the format has none; --thread picks one");
    }
}

/// Writes a format that is one stream.
pub fn encoder(format: ExportFormat, fetches: bool) -> anyhow::Result<Box<dyn Encode>> {
    Ok(match format {
        ExportFormat::Lackey => Box::new(lackey::Writer::default()),
        ExportFormat::Din => Box::new(din::Writer::new(fetches)),
        ExportFormat::Text => Box::new(text::Writer::default()),
        ExportFormat::Raw => Box::new(raw::Writer),
        ExportFormat::Drmemtrace => bail!("drmemtrace has a file for each thread: use export"),
        ExportFormat::Callgrind | ExportFormat::Collapsed | ExportFormat::Pprof => {
            bail!("a profile is no stream of accesses: use export")
        }
    })
}

/// Replays into a format.
fn write<E: Encode, W: Write>(
    reader: &mut Recording,
    known: &Known,
    selection: &Selection,
    format: E,
    out: W,
) -> anyhow::Result<(u64, LeftOut)> {
    let instructions = format.wants_instructions();
    let mut export = Export::new(format, BufWriter::with_capacity(BUFFER, out));
    if instructions {
        let filter = Filter {
            thread: selection.thread,
        };
        let mut walker = Walker::new(&known.xsave, export).with_limit(selection.limit);
        replay(reader, known, &filter, &mut walker, |w| !w.full() && !w.sink().failed())?;
        export = walker.into_sink();
    } else {
        accesses(reader, known, selection, &mut export)?;
    }
    let (count, left_out, _) = export.finish()?;
    Ok((count, left_out))
}

fn create_file(path: &Path, force: bool) -> anyhow::Result<File> {
    let file = match create(path, force) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists; use -f to overwrite it", path.display())
        }
        Err(e) => return Err(e).with_context(|| format!("cannot create {}", path.display())),
    };
    if file.metadata().is_ok_and(|m| m.is_file()) {
        file.set_len(0)
            .with_context(|| format!("cannot overwrite {}", path.display()))?;
    }
    Ok(file)
}

/// Everything in one stream.
fn single(args: &ExportArgs, reader: &mut Recording, known: &Known) -> anyhow::Result<(u64, LeftOut)> {
    let format = encoder(args.format, args.fetches)?;
    let selection = selection(args, args.thread);
    match args.output.as_deref().filter(|p| *p != Path::new("-")) {
        None => write(reader, known, &selection, format, Stdout(io::stdout().lock())),
        Some(path) => {
            let file = create_file(path, args.force)?;
            let is_file = file.metadata().is_ok_and(|m| m.is_file());
            let written = write(reader, known, &selection, format, file);
            if is_file && matches!(written, Ok((0, _))) {
                // What is empty is of no use. An error is on its way to the user.
                let _ = std::fs::remove_file(path);
            }
            written.with_context(|| format!("cannot write {}", path.display()))
        }
    }
}

fn selection(args: &ExportArgs, thread: Option<u32>) -> Selection {
    Selection {
        thread: thread.map(Thread),
        limit: args.limit.unwrap_or(u64::MAX),
        ..Selection::default()
    }
}

/// A file for each thread.
fn directory(
    args: &ExportArgs,
    reader: &mut Recording,
    known: &Known,
    threads: &BTreeSet<u32>,
) -> anyhow::Result<(u64, LeftOut)> {
    let Some(path) = args.output.as_deref().filter(|p| *p != Path::new("-")) else {
        bail!("drmemtrace has a file for each thread: give a directory with -o");
    };
    let cannot = || format!("cannot create {}", path.display());
    std::fs::create_dir_all(path).with_context(cannot)?;
    for entry in std::fs::read_dir(path).with_context(cannot)? {
        let old = entry.with_context(cannot)?.path();
        if !args.force {
            bail!("{} is not empty; use -f to replace the traces in it", path.display());
        }
        if old.extension().is_some_and(|e| e == "trace") {
            std::fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    let begun = reader.header().unix_time.saturating_mul(1_000_000);
    let (mut count, mut left_out) = (0, LeftOut::default());
    for &serial in threads {
        let path = path.join(format!("thread-{serial:05}.trace"));
        let file = create_file(&path, true)?;
        let format = drmemtrace::Writer::new(about(known, serial, begun));
        let written = write(reader, known, &selection(args, Some(serial)), format, file);
        let (more, less) = written.with_context(|| format!("cannot write {}", path.display()))?;
        count += more;
        left_out.prefetches += less.prefetches;
    }
    Ok((count, left_out))
}

/// What the recording knows of a thread. Threads begin one after the other, so that readers keep
/// their order.
fn about(known: &Known, serial: u32, begun: u64) -> drmemtrace::About {
    let info = known.threads.get(&serial);
    let process = info.map_or(0, |i| i.process);
    let pid = known.messages.iter().find_map(|(_, message)| match message {
        Message::Process { process: p, pid, .. } if *p == process => Some(*pid),
        _ => None,
    });
    drmemtrace::About {
        pid: pid.unwrap_or(0),
        tid: info.map_or(serial, |i| i.tid),
        time: begun.saturating_add(serial.into()),
    }
}
