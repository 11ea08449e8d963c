//! What a recording says about itself: at its start, and at its end.
use crate::{Error, Ranks, ThreadHash};
use memtrail_decode::Counts;
use memtrail_plan::{XsaveComponent, XsaveTable};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

pub(crate) const MAGIC: &[u8; 8] = b"memtrail";
/// Version of the file format. Any change to the layout or the meaning of a field bumps it.
pub const VERSION: u32 = 7;
/// Longer headers are damage.
const LONGEST: u32 = 1 << 24;

/// Written before the target runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The command as given.
    pub command: Vec<String>,
    /// Process id of the launched process.
    pub pid: u32,
    /// [`Probes`] as a number.
    pub probes: u32,
    pub max_block: u32,
    pub page_bytes: u32,
    /// Seconds since 1970.
    pub unix_time: u64,
    pub xcr0: u64,
    /// (index, size, offset, aligned) of each component of the xsave area.
    pub xsave: Vec<(u8, u32, u32, bool)>,
    /// What a reader must know besides this version to read the file; whoever does not know one of
    /// these refuses it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The ranks of a parallel job that were recorded, if it was one.
    #[serde(default, skip_serializing_if = "Ranks::is_empty")]
    pub ranks: Ranks,
}

/// The features that are known.
const FEATURES: &[&str] = &[SETS];
/// There are chunks with the streams of several threads.
pub const SETS: &str = "sets";

impl Header {
    pub fn set_xsave(&mut self, table: &XsaveTable) {
        let tuple = |c: &XsaveComponent| (c.index, c.size, c.offset, c.aligned);
        self.xcr0 = table.xcr0;
        self.xsave = table.components.iter().map(tuple).collect();
    }

    pub fn xsave_table(&self) -> XsaveTable {
        let component = |&(index, size, offset, aligned): &_| XsaveComponent {
            index,
            size,
            offset,
            aligned,
        };
        XsaveTable {
            xcr0: self.xcr0,
            components: self.xsave.iter().map(component).collect(),
        }
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> std::io::Result<u64> {
        let json = serde_json::to_vec(self)?;
        let mut bytes = Vec::with_capacity(json.len() + 20);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&json).to_le_bytes());
        bytes.extend_from_slice(&json);
        out.write_all(&bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Reads the header; returns it and where the first chunk begins.
    pub(crate) fn read(input: &mut impl Read) -> Result<(Header, u64), Error> {
        let mut fixed = [0; 20];
        let got = read_up_to(input, &mut fixed)?;
        let magic = got.min(MAGIC.len());
        if fixed[..magic] != MAGIC[..magic] {
            return Err(Error::NotARecording);
        }
        if got < fixed.len() {
            return Err(Error::TruncatedHeader { at: got as u64 });
        }
        let word = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let (found, length, crc) = (word(8), word(12), word(16));
        if found != VERSION {
            return Err(match found < VERSION {
                true => Error::OlderVersion { found, known: VERSION },
                false => Error::NewerVersion { found, known: VERSION },
            });
        }
        if length > LONGEST {
            return Err(Error::BadHeader {
                what: format!("{length} bytes"),
            });
        }
        // Grows as it is read, so that a wrong length costs nothing.
        let mut json = Vec::new();
        let got = input.take(length.into()).read_to_end(&mut json)? as u64;
        let end = fixed.len() as u64 + got;
        if got < length.into() {
            return Err(Error::TruncatedHeader { at: end });
        }
        if crc32fast::hash(&json) != crc {
            return Err(Error::BadHeader {
                what: "its checksum differs".into(),
            });
        }
        let header: Header = serde_json::from_slice(&json).map_err(|e| Error::BadHeader { what: e.to_string() })?;
        let unknown = |feature: &&String| !FEATURES.contains(&feature.as_str());
        let unknown: Vec<&str> = header.features.iter().filter(unknown).map(String::as_str).collect();
        match unknown.is_empty() {
            true => Ok((header, end)),
            false => Err(Error::Features {
                unknown: unknown.join(", "),
            }),
        }
    }
}

/// As `read_exact`, but tells how much there was.
pub(crate) fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

/// Written when everything was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub accesses: u64,
    pub reads: u64,
    pub writes: u64,
    pub prefetches: u64,
    pub bytes: u64,
    pub instructions: u64,
    pub blocks: u64,
    pub threads: u32,
    pub processes: u32,
    pub ring_words: u64,
    /// Records dropped at the ends of killed threads.
    pub lost_tail: u64,
    /// As a shell reports it; `None` if the recording ended before the target.
    pub exit_status: Option<i32>,
    /// Ticks of the time stamp counter in a second; 0 if that is not known.
    #[serde(default)]
    pub tsc_hz: u64,
    /// How often threads were not recorded for some time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gaps: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What the end of a recording says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    #[serde(flatten)]
    pub totals: Totals,
    /// The hash of each thread's accesses, made while recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Vec<ThreadHash>>,
}

impl Totals {
    pub fn with_counts(mut self, counts: &Counts) -> Totals {
        self.accesses = counts.accesses();
        self.reads = counts.reads;
        self.writes = counts.writes;
        self.prefetches = counts.prefetches;
        self.bytes = counts.bytes();
        self.instructions = counts.instructions;
        self.blocks = counts.blocks;
        self
    }
}
