//! Requests, written down.
use super::places::Within;
use memtrail_paging::{snoop, MemoryRecord, TableUpdate};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The first bytes of the binary form.
pub const MAGIC: &[u8; 8] = b"MEMTRC01";
/// Of one record of the binary form.
pub const RECORD: usize = 48;

/// A request, with its object.
pub struct Named<'r> {
    pub record: &'r MemoryRecord,
    pub object: u32,
    pub within: Option<Within>,
}

/// Where requests go.
pub enum Out {
    Text(Box<dyn Write>),
    Binary(BufWriter<File>),
    Snoop(Box<Snoop>),
    Nowhere,
}

impl Out {
    pub fn request(&mut self, named: &Named<'_>) -> io::Result<()> {
        match self {
            Out::Text(out) => text(out, named),
            Out::Binary(out) => out.write_all(&binary(named)),
            Out::Snoop(snoop) => snoop.request(named.record),
            Out::Nowhere => Ok(()),
        }
    }

    pub fn update(&mut self, update: &TableUpdate, time: u64) -> io::Result<()> {
        match self {
            Out::Snoop(snoop) => snoop.update(update, time),
            _ => Ok(()),
        }
    }

    pub fn object(&mut self, line: &str, time: u64) -> io::Result<()> {
        match self {
            Out::Snoop(snoop) => snoop.object(line, time),
            _ => Ok(()),
        }
    }

    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Out::Text(out) => out.flush(),
            Out::Binary(out) => out.flush(),
            Out::Snoop(snoop) => snoop.finish(),
            Out::Nowhere => Ok(()),
        }
    }
}

fn text(out: &mut impl Write, Named { record, object, within }: &Named<'_>) -> io::Result<()> {
    let rw = if record.write { 'W' } else { 'R' };
    write!(
        out,
        "{:#x} {rw} {} {} {:#x} {object}",
        record.paddr, record.time, record.space, record.vaddr
    )?;
    match within {
        Some(Within { instance, offset, .. }) => write!(out, " {instance} {offset}")?,
        None => write!(out, " - -")?,
    }
    writeln!(out, " {}", u8::from(record.walk))
}

/// Little-endian: paddr, time, vaddr, offset (8 bytes each), object, instance, process, flags (4
/// each). Flags: 1 a write, 2 a walk, 4 instance and offset are not known.
fn binary(Named { record, object, within }: &Named<'_>) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    let offset = within.map_or(0, |within| within.offset);
    for (at, word) in [record.paddr, record.time, record.vaddr, offset]
        .into_iter()
        .enumerate()
    {
        bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
    }
    let flags = u32::from(record.write) | u32::from(record.walk) << 1 | u32::from(within.is_none()) << 2;
    let instance = within.map_or(0, |within| within.instance);
    for (at, word) in [*object, instance, record.space, flags].into_iter().enumerate() {
        bytes[32 + 4 * at..36 + 4 * at].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// What a bus snooper sees, and what a kernel and an allocator tell beside it: see `docs/paging.md`.
pub struct Snoop {
    memory: BufWriter<File>,
    tables: BufWriter<File>,
    objects: BufWriter<File>,
    sequence: u64,
    last: u64,
    /// Records so far of the page-table and object traces.
    told: [u64; 2],
}

impl Snoop {
    pub fn create(directory: &Path) -> io::Result<Snoop> {
        std::fs::create_dir_all(directory)?;
        let file = |name: &str| File::create(directory.join(name)).map(BufWriter::new);
        Ok(Snoop {
            memory: file("memory.txt")?,
            tables: file("tables.txt")?,
            objects: file("objects.txt")?,
            sequence: 0,
            last: 0,
            told: [0; 2],
        })
    }

    fn packet(&mut self, time: u64, write: bool, paddr: u64) -> io::Result<()> {
        let (sequence, duration) = (self.sequence, time.saturating_sub(self.last));
        self.sequence += 1;
        self.last = time;
        writeln!(self.memory, "{sequence} {duration} {} {paddr:#x}", u8::from(!write))
    }

    fn request(&mut self, record: &MemoryRecord) -> io::Result<()> {
        self.packet(record.time, record.write, record.paddr)
    }

    fn update(&mut self, update: &TableUpdate, time: u64) -> io::Result<()> {
        writeln!(self.tables, "{}", snoop::shown(update))?;
        self.told[0] += 1;
        self.packet(time, true, snoop::table_tag(self.told[0] - 1))
    }

    fn object(&mut self, line: &str, time: u64) -> io::Result<()> {
        writeln!(self.objects, "{line}")?;
        self.told[1] += 1;
        self.packet(time, true, snoop::object_tag(self.told[1] - 1))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.memory.flush()?;
        self.tables.flush()?;
        self.objects.flush()
    }
}
