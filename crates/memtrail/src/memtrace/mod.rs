//! `memtrace`: the stream behind the last cache, with the object of every request; and `snooped`,
//! which finds the objects of a stream that hardware saw.
//!
//! The recording is replayed twice: once to learn which objects there are, since names come last, and
//! once to write.
pub mod args;
mod places;
mod write;

use crate::dump::whole;
use crate::info::{open, warn_unless_whole, Recording};
use crate::output;
use crate::pages::found::label;
use crate::pages::tlbs;
use crate::say;
use crate::sim::choose::{choose, Chosen};
use crate::tables::results::{grouped, Grouped};
use crate::tables::run::{allocators, program, through, Measured};
use anyhow::{bail, Context};
use args::{MemtraceArgs, SnoopedArgs, TraceFormat};
use memtrail_model::{Access, AccessSink, Event, Reply, Wants};
use memtrail_paging::{snoop, MemoryEvent, MemoryRecord, MemoryTrace, MmuOptions, PagingConfig};
use memtrail_report::json::SCHEMA_VERSION;
use memtrail_report::{Align, Columns, Dimension, Entry};
use memtrail_trace::Known;
use places::Places;
use serde_json::{json, Value};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::rc::Rc;
use write::{Named, Out, Snoop, MAGIC, RECORD};

/// Stretches of time that bandwidth is told of.
const STRETCHES: u64 = 32;

/// What an object asked of memory.
#[derive(Clone, Debug, Default)]
struct Traffic {
    reads: u64,
    writes: u64,
    walks: u64,
    /// Bytes, by stretch.
    bytes: Vec<u64>,
}

/// What takes requests.
struct Taker {
    out: Out,
    /// By composite.
    row_of: Vec<u32>,
    places: Places,
    traffic: Vec<Traffic>,
    /// Accesses in a stretch.
    window: u64,
    line: u64,
    time: u64,
    failed: Option<io::Error>,
}

impl Taker {
    fn take(&mut self, event: &MemoryEvent) {
        if self.failed.is_none() {
            self.failed = self.try_take(event).err();
        }
    }

    fn try_take(&mut self, event: &MemoryEvent) -> io::Result<()> {
        match event {
            MemoryEvent::Update(update) => self.out.update(update, self.time),
            MemoryEvent::Request(record) => self.request(record),
        }
    }

    fn request(&mut self, record: &MemoryRecord) -> io::Result<()> {
        self.time = record.time;
        let object = self.row_of.get(record.point as usize).copied().unwrap_or(0);
        let within = self.places.find(object, record.space, record.vaddr, record.time);
        if let Some(within) = within.filter(|within| within.first) {
            let line = format!("object {} {:#x} {} {object}", record.space, within.start, within.bytes);
            self.out.object(&line, record.time)?;
        }
        let traffic = &mut self.traffic[object as usize];
        match (record.walk, record.write) {
            (true, _) => traffic.walks += 1,
            (false, false) => traffic.reads += 1,
            (false, true) => traffic.writes += 1,
        }
        let stretch = (record.time / self.window) as usize;
        if traffic.bytes.len() <= stretch {
            traffic.bytes.resize(stretch + 1, 0);
        }
        traffic.bytes[stretch] += self.line;
        self.out.request(&Named { record, object, within })
    }
}

/// Requests go to the taker, and what memory is used for to its places.
struct Sink<F> {
    trace: MemoryTrace<F>,
    taker: Rc<RefCell<Taker>>,
}

impl<F: FnMut(&MemoryEvent)> AccessSink for Sink<F> {
    fn accesses(&mut self, batch: &[Access]) {
        self.trace.accesses(batch);
    }
    fn wants(&self) -> Wants {
        self.trace.wants()
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let reply = self.trace.event(event);
        self.taker.borrow_mut().places.event(event);
        reply
    }
    fn done(&self) -> bool {
        self.taker.borrow().failed.is_some()
    }
}

/// Counts only, to learn what there is.
struct Nothing;

impl AccessSink for Nothing {
    fn accesses(&mut self, _: &[Access]) {}
}

pub fn command(args: &MemtraceArgs) -> anyhow::Result<u8> {
    if args.caches.instructions {
        bail!("--instructions: memtrace follows data only");
    }
    if args.format != TraceFormat::Snoop {
        output::check(args.output.as_deref())?;
    }
    let caches = choose(&args.caches)?;
    let (mut config, source) = tlbs(&args.tlbs, &args.caches)?;
    config.cores = caches.hierarchy.cores;
    let mut reader = open(&args.file)?;
    let known = Known::read(&mut reader)?;
    warn_unless_whole(&known.ending);
    let by = [Dimension::Object];
    let measured = replayed(args, &caches, &mut Nothing, &mut reader, &known)?;
    let rows = grouped(&measured, &by);
    let names: Vec<(String, String)> = rows.keys.iter().map(|ids| named(&rows, ids)).collect();
    let taker = Rc::new(RefCell::new(Taker {
        out: opened(args, &names)?,
        row_of: rows.row_of.clone(),
        places: Places::new(
            &measured.names,
            &program(&known),
            known.names.clone(),
            allocators(&known.names),
        ),
        traffic: vec![Traffic::default(); names.len()],
        window: measured.accesses.div_ceil(STRETCHES).max(1),
        line: caches.hierarchy.levels.last().map_or(64, |level| level.line).into(),
        time: 0,
        failed: None,
    }));
    traced(args, &caches, &config, &taker, &mut reader, &known)?;
    let mut taker = taker.borrow_mut();
    let finished = taker.out.finish();
    let failed = taker.failed.take().or(finished.err());
    crate::dump::written(failed)?;
    if args.json {
        let found = summary(&taker, &names, &measured, &config, &source);
        output::write(args.output.as_deref(), &format!("{found:#}\n"))?;
    } else if args.format != TraceFormat::Text {
        beside(args, &summary(&taker, &names, &measured, &config, &source))?;
    }
    whole(&known)
}

fn replayed<S: AccessSink>(
    args: &MemtraceArgs,
    caches: &Chosen,
    sink: &mut S,
    reader: &mut Recording,
    known: &Known,
) -> anyhow::Result<Measured> {
    let chosen = Chosen {
        hierarchy: caches.hierarchy.clone(),
        source: caches.source.clone(),
    };
    through(&args.table(), &[Dimension::Object], chosen, None, sink, reader, known)
}

/// The second replay.
fn traced(
    args: &MemtraceArgs,
    caches: &Chosen,
    config: &PagingConfig,
    taker: &Rc<RefCell<Taker>>,
    reader: &mut Recording,
    known: &Known,
) -> anyhow::Result<()> {
    let taking = taker.clone();
    let emit = move |event: &MemoryEvent| taking.borrow_mut().take(event);
    let mut sink = Sink {
        trace: MemoryTrace::new(config, &caches.hierarchy, MmuOptions::default(), emit)?,
        taker: taker.clone(),
    };
    replayed(args, caches, &mut sink, reader, known)?;
    if !args.no_flush {
        sink.trace.flush();
    }
    Ok(())
}

/// What an object is called, and its kind.
fn named(rows: &Grouped, ids: &[u32]) -> (String, String) {
    match &rows.entries[0][ids[0] as usize] {
        entry @ Entry::Object(object) => (label(entry), object.kind.clone()),
        entry => (label(entry), String::new()),
    }
}

fn opened(args: &MemtraceArgs, names: &[(String, String)]) -> anyhow::Result<Out> {
    let create = |path: &Path| File::create(path).with_context(|| output::cannot_write(path));
    Ok(match (args.json, args.format, &args.output) {
        (true, ..) => Out::Nowhere,
        (_, TraceFormat::Binary, Some(path)) => {
            let mut out = BufWriter::new(create(path)?);
            out.write_all(MAGIC)?;
            out.write_all(&(RECORD as u64).to_le_bytes())?;
            Out::Binary(out)
        }
        (_, TraceFormat::Snoop, Some(path)) => {
            let snoop = Snoop::create(path).with_context(|| output::cannot_write(path))?;
            Out::Snoop(Box::new(snoop))
        }
        (_, _, path) => {
            let mut out: Box<dyn Write> = match path {
                Some(path) => Box::new(BufWriter::new(create(path)?)),
                None => Box::new(BufWriter::with_capacity(1 << 16, io::stdout().lock())),
            };
            for (id, (name, kind)) in names.iter().enumerate() {
                // A reader that has seen enough is no failure; the requests will tell.
                let _ = writeln!(out, "# object {id} {kind} {name}");
            }
            let _ = writeln!(out, "# paddr r/w time pid vaddr object instance offset page-walk");
            Out::Text(out)
        }
    })
}

fn summary(
    taker: &Taker,
    names: &[(String, String)],
    measured: &Measured,
    config: &PagingConfig,
    source: &str,
) -> Value {
    let object = |(id, ((name, kind), traffic)): (usize, (&(String, String), &Traffic))| {
        json!({
            "id": id,
            "name": name,
            "kind": kind,
            "reads": traffic.reads,
            "writes": traffic.writes,
            "walks": traffic.walks,
            "bytes_by_window": traffic.bytes,
        })
    };
    json!({
        "schema_version": SCHEMA_VERSION,
        "accesses": measured.accesses,
        "config": {"tlb": {"source": source, "parts": config.to_string()}, "caches": measured.source},
        "line_bytes": taker.line,
        "window_accesses": taker.window,
        "processes": measured.processes,
        "objects": names.iter().zip(&taker.traffic).enumerate().map(object).collect::<Value>(),
    })
}

/// The object table, beside what was written.
fn beside(args: &MemtraceArgs, found: &Value) -> anyhow::Result<()> {
    let Some(path) = &args.output else { return Ok(()) };
    let table = match args.format {
        TraceFormat::Snoop => path.join("objects.json"),
        _ => {
            let mut name = path.clone().into_os_string();
            name.push(".objects.json");
            name.into()
        }
    };
    output::write(Some(&table), &format!("{found:#}\n"))?;
    say::line(format_args!("objects are in {}", table.display()));
    if args.format == TraceFormat::Snoop {
        say::line(format_args!("next: memtrail snooped {}", path.display()));
    }
    Ok(())
}

pub fn snooped(args: &SnoopedArgs) -> anyhow::Result<u8> {
    let file = |name: &str| {
        let path = args.directory.join(name);
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        anyhow::Ok(BufReader::new(file))
    };
    let directory = || args.directory.display().to_string();
    let (memory, tables, objects) = (file("memory.txt")?, file("tables.txt")?, file("objects.txt")?);
    let found = snoop::relate(memory, tables, objects, |_| {}).with_context(directory)?;
    let names = names_beside(&args.directory);
    let name = |object: &Option<u32>| match object {
        Some(id) => names
            .get(*id as usize)
            .cloned()
            .unwrap_or_else(|| format!("object {id}")),
        None => "[no object]".to_string(),
    };
    let text = if args.json {
        let object = |(id, traffic): (&Option<u32>, &snoop::ObjectTraffic)| json!({"id": id, "name": name(id), "reads": traffic.reads, "writes": traffic.writes, "walks": traffic.walks});
        let value = json!({
            "schema_version": SCHEMA_VERSION,
            "packets": found.packets,
            "tags": found.tags,
            "lost_packets": found.lost,
            "gaps": found.gaps,
            "late_records": found.late,
            "unplaced": found.unplaced,
            "objects": found.objects.iter().map(object).collect::<Value>(),
        });
        format!("{value:#}\n")
    } else {
        let right = |name| (name, Align::Right);
        let mut columns = Columns::new([("object", Align::Left), right("reads"), right("writes"), right("walks")]);
        for (id, traffic) in &found.objects {
            let numbers = [traffic.reads, traffic.writes, traffic.walks].map(memtrail_report::format::thousands);
            columns.row([vec![name(id)], numbers.to_vec()].concat());
        }
        format!(
            "{} packets, {} of them tags; {} packets lost in {} places; {} requests to frames nobody told of\n\n{columns}",
            found.packets, found.tags, found.lost, found.gaps, found.unplaced
        )
    };
    output::write(None, &text)
}

/// The names of objects, if there is a table of them.
fn names_beside(directory: &Path) -> Vec<String> {
    let table = std::fs::read(directory.join("objects.json")).unwrap_or_default();
    let table: Value = serde_json::from_slice(&table).unwrap_or_default();
    let objects = table["objects"].as_array().cloned().unwrap_or_default();
    let name = |object: &Value| object["name"].as_str().unwrap_or_default().to_string();
    objects.iter().map(name).collect()
}
