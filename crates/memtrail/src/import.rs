//! `import`: a recording of another tool's trace.
use crate::args::{ImportArgs, ImportFormat};
use crate::info::bits_per_access;
use crate::progress::Progress;
use crate::record::Output;
use crate::say;
use crate::unpack::unpacked;
use anyhow::{bail, Context};
use memtrail_decode::{Block, Message, Piece, Sink};
use memtrail_formats::{din, drmemtrace, guess, lackey, text, Error, Event, Guess, Imported, Importer, GUESS_BYTES};
use memtrail_report::format::{bytes, thousands};
use memtrail_ring::Probes;
use memtrail_trace::{Header, Limits, Pipeline, Totals};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const BUFFER: usize = 1 << 17;

/// A pipeline that tells how far it is.
struct Watched {
    pipeline: Pipeline<File>,
    progress: Progress,
}

impl Sink for Watched {
    fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
        self.pipeline.blocks(blocks)
    }
    fn message(&mut self, process: u32, message: &Message) -> io::Result<()> {
        self.pipeline.message(process, message)
    }
    fn records(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        self.pipeline.records(piece)?;
        self.progress.add(piece.accesses, Some(self.pipeline.written()));
        Ok(())
    }
}

/// The first bytes of an input, and what they look like.
fn look(from: &mut Box<dyn BufRead>) -> io::Result<(Vec<u8>, Guess)> {
    let mut first = Vec::new();
    from.by_ref().take(GUESS_BYTES as u64).read_to_end(&mut first)?;
    let looks = guess(&first);
    Ok((first, looks))
}

/// Whether a file of a directory is a thread's trace, compressed or not.
fn is_trace(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let ends = [".trace", ".trace.gz", ".trace.zip", ".trace.lz4", ".trace.zst"];
    path.is_file() && ends.iter().any(|end| name.ends_with(end))
}

/// An open input, and what it looks like.
struct Input {
    name: String,
    looks: Guess,
    from: Box<dyn BufRead>,
}

impl Input {
    fn open(path: &Path) -> anyhow::Result<Input> {
        let name = path.display().to_string();
        let mut from: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            let file = File::open(path).with_context(|| name.clone())?;
            Box::new(BufReader::with_capacity(BUFFER, file))
        };
        let (mut first, mut looks) = look(&mut from).with_context(|| name.clone())?;
        if let Guess::Compressed(how) = looks {
            from = unpacked(how, path, Box::new(Cursor::new(first).chain(from)))?;
            (first, looks) = look(&mut from).with_context(|| name.clone())?;
        }
        match looks {
            Guess::Empty => bail!("{name}: it is empty"),
            Guess::Recording => bail!("{name}: it is a recording already; memtrail info {name} reads it"),
            Guess::Compressed(_) => bail!("{name}: it is compressed twice; unpack it first"),
            _ => {}
        }
        Ok(Input {
            name,
            looks,
            from: Box::new(Cursor::new(first).chain(from)),
        })
    }

    /// The format it looks like.
    fn format(&self) -> anyhow::Result<ImportFormat> {
        let format = match self.looks {
            Guess::Lackey => ImportFormat::Lackey,
            Guess::Din => ImportFormat::Din,
            Guess::Drmemtrace => ImportFormat::Drmemtrace,
            Guess::Text => ImportFormat::Text,
            _ => bail!(
                "{}: cannot tell its format; give --format lackey, din, drmemtrace or text",
                self.name
            ),
        };
        say::line(format_args!("{} looks like {}", self.name, name_of(format)));
        Ok(format)
    }
}

fn name_of(format: ImportFormat) -> &'static str {
    match format {
        ImportFormat::Lackey => "lackey",
        ImportFormat::Din => "din",
        ImportFormat::Drmemtrace => "drmemtrace",
        ImportFormat::Text => "text",
    }
}

/// The files to read: those of a directory in the order of their names.
fn files(args: &ImportArgs) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in &args.input {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let name = || path.display().to_string();
        if args.format.is_some_and(|f| f != ImportFormat::Drmemtrace) {
            bail!("{}: it is a directory; only drmemtrace has those", name());
        }
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).with_context(name)? {
            let path = entry.with_context(name)?.path();
            if is_trace(&path) {
                inside.push(path);
            }
        }
        if inside.is_empty() {
            bail!(
                "{}: there are no files NAME.trace in it, nor NAME.trace.gz, .zip, .lz4 or .zst",
                name()
            );
        }
        inside.sort_unstable();
        all.extend(inside);
    }
    Ok(all)
}

pub fn command(args: &ImportArgs) -> anyhow::Result<u8> {
    let files = files(args)?;
    let first = Input::open(&files[0])?;
    let format = match args.format {
        Some(format) => format,
        None => first.format()?,
    };
    let path = args.output.clone().unwrap_or_else(|| default_output(&args.input[0]));
    if let Some(same) = files.iter().find(|f| is_same(f, &path)) {
        bail!("{}: it would be overwritten while it is read", same.display());
    }
    let output = Output::create(path, args.force)?;
    let (writer, path) = output.start(&header(args, format))?;
    let name = || path.display().to_string();
    let pipeline = Pipeline::new(writer, Limits::of(Limits::DEFAULT_BYTES));
    let mut watched = Watched {
        pipeline,
        progress: Progress::new(),
    };
    let finished = import(args, format, first, &files[1..], &mut watched).and_then(|imported| {
        let totals = totals(&imported);
        let (_, size) = watched
            .pipeline
            .finish(&totals)
            .with_context(|| format!("cannot write {}", name()))?;
        Ok((imported, size))
    });
    let (imported, size) = match finished {
        Ok(done) => done,
        Err(error) => {
            // Half a trace is none. The error is already on its way to the user.
            if path.is_file() {
                let _ = std::fs::remove_file(&path);
            }
            return Err(error);
        }
    };
    let accesses = imported.counts.accesses();
    say::line(format_args!(
        "{} accesses in {} ({}, {:.2} bits each)",
        thousands(accesses),
        name(),
        bytes(size),
        bits_per_access(size, accesses),
    ));
    say::line(format_args!("next: memtrail info {}", name()));
    Ok(0)
}

/// Whether both paths lead to the same file.
pub fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|m| (m.dev(), m.ino()));
    identity(a).is_some_and(|i| identity(b) == Some(i))
}

/// Reads all inputs.
fn import(
    args: &ImportArgs,
    format: ImportFormat,
    first: Input,
    others: &[PathBuf],
    sink: &mut Watched,
) -> anyhow::Result<Imported> {
    let mut importer = Importer::new(sink)?;
    let mut next_serial = 0;
    let others = others.iter().map(|path| Input::open(path));
    for (i, input) in std::iter::once(Ok(first)).chain(others).enumerate() {
        let Input { name, from, .. } = input?;
        let thread = Event::Thread {
            serial: i as u32,
            tid: i as u32,
        };
        let read = || -> Result<(), Error> {
            match format {
                ImportFormat::Lackey => {
                    importer.event(thread)?;
                    importer.read(&mut lackey::Reader::new(from))
                }
                ImportFormat::Din => {
                    importer.event(thread)?;
                    importer.read(&mut din::Reader::new(from, args.size))
                }
                ImportFormat::Text => importer.read(&mut text::Reader::new(from)),
                ImportFormat::Drmemtrace => {
                    let mut reader = drmemtrace::Reader::new(from, next_serial);
                    importer.read(&mut reader)?;
                    next_serial = reader.next_serial();
                    Ok(())
                }
            }
        };
        read().with_context(|| name.clone())?;
    }
    let finished = importer.finish();
    finished.with_context(|| args.input[0].display().to_string())
}

fn default_output(input: &Path) -> PathBuf {
    let mut name = OsString::from("memtrail.");
    match input.file_name() {
        Some(file) if input != Path::new("-") => name.push(file),
        _ => name.push("import"),
    }
    name.push(".mtr");
    PathBuf::from(name)
}

fn header(args: &ImportArgs, format: ImportFormat) -> Header {
    let mut command = vec!["import".to_string(), "--format".into(), name_of(format).into()];
    command.extend(args.input.iter().map(|p| p.display().to_string()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Header {
        command,
        pid: 0,
        probes: Probes::Naive as u32,
        max_block: 64,
        page_bytes: memtrail_ring::PAGE as u32,
        unix_time: now.map_or(0, |d| d.as_secs()),
        xcr0: 0,
        xsave: Vec::new(),
        features: Vec::new(),
        ranks: Default::default(),
    }
}

fn totals(imported: &Imported) -> Totals {
    Totals {
        threads: imported.threads,
        processes: 1,
        ring_words: imported.words,
        ..Totals::default()
    }
    .with_counts(&imported.counts)
}
