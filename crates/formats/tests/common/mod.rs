//! Imports into memory and replays.
use memtrail_decode::{Counts, Expander, StepSink, Walker};
use memtrail_formats::{Error, Imported, Importer, Source};
use memtrail_model::{Access, AccessSink, Point, Thread};
use memtrail_replay::{check, replay, Filter};
use memtrail_trace::{Header, Known, Limits, Pipeline, Reader, Totals, Writer};
use std::io::Cursor;

/// All accesses, and instructions with their lengths.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub accesses: Vec<Access>,
    pub instructions: Vec<(u32, u64, u32)>,
}

impl AccessSink for Told {
    fn accesses(&mut self, batch: &[Access]) {
        self.accesses.extend_from_slice(batch);
    }
}

impl StepSink for Told {
    fn instruction(&mut self, thread: Thread, pc: u64, bytes: u32) {
        self.instructions.push((thread.0, pc, bytes));
    }
    fn access(&mut self, access: &Access) {
        self.accesses.push(*access);
    }
}

fn header() -> Header {
    Header {
        command: vec!["import".into()],
        pid: 0,
        probes: 1,
        max_block: 64,
        page_bytes: 4096,
        unix_time: 0,
        xcr0: 0,
        xsave: Vec::new(),
        features: Vec::new(),
        ranks: Default::default(),
    }
}

/// A recording in memory of what sources tell.
pub fn import(sources: &mut [&mut dyn Source]) -> Result<(Vec<u8>, Imported), Error> {
    let writer = Writer::new(Vec::new(), &header()).unwrap();
    let mut pipeline = Pipeline::new(writer, Limits::of(Limits::LEAST_BYTES));
    let mut importer = Importer::new(&mut pipeline)?;
    for source in sources {
        importer.read(*source)?;
    }
    let imported = importer.finish()?;
    let totals = Totals {
        threads: imported.threads,
        processes: 1,
        ring_words: imported.words,
        ..Totals::default()
    };
    let (bytes, _) = pipeline.finish(&totals.with_counts(&imported.counts)).unwrap();
    Ok((bytes, imported))
}

/// What a recording replays to; both ways of replaying must agree. The threads stand one after the
/// other. Points are looked up and then taken away, since traces know none.
pub fn replayed(bytes: &[u8]) -> (Told, Counts) {
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let counts = check(&mut reader).unwrap().counts;
    let known = Known::read(&mut reader).unwrap();
    let mut expander = Expander::new(&known.xsave, Told::default());
    replay(&mut reader, &known, &Filter::default(), &mut expander, |_| true).unwrap();
    let mut fast = expander.into_sink();
    let mut walker = Walker::new(&known.xsave, Told::default());
    replay(&mut reader, &known, &Filter::default(), &mut walker, |_| true).unwrap();
    let mut told = walker.into_sink();
    told.accesses.sort_by_key(|a| a.thread);
    fast.accesses.sort_by_key(|a| a.thread);
    told.instructions.sort_by_key(|i| i.0);
    assert_eq!(told.accesses, fast.accesses);
    for access in &mut told.accesses {
        let point = known.table.points()[access.point.index()];
        assert_eq!((point.pc, point.kind), (access.pc, access.kind));
        access.point = Point::NONE;
    }
    (told, counts)
}

/// Imports and replays.
pub fn through(source: &mut dyn Source) -> Told {
    let (bytes, imported) = import(&mut [source]).unwrap();
    let (told, counts) = replayed(&bytes);
    assert_eq!(counts, imported.counts);
    assert_eq!(counts.accesses(), told.accesses.len() as u64);
    assert_eq!(counts.instructions, told.instructions.len() as u64);
    told
}
