//! Physical traces of a bus snooper, made object-relative (paper 004, III).
//!
//! **Three texts go in.** Packets `seq duration rw paddr`: a number that counts packets, cycles of
//! the snooper's clock since the packet before, 1 for a read and 0 for a write, the address of a
//! cache line. Page tables, dump and updates alike: `table FRAME PID VADDR SHIFT` for a frame that
//! holds a table, `set` and `clear` `FRAME PID VADDR BYTES` for a page. Objects: `object PID START
//! BYTES ID`, `gone PID START`. Numbers are decimal, or hexadecimal behind `0x`.
//!
//! **Synchronised by tags.** Whoever writes a record of the second or third text then accesses a
//! reserved range of physical memory, which the snooper sees. The address tells which text it was
//! and, modulo [`TAGS`], the number of the record: records whose tags were lost are made up for at
//! the next one.
//!
//! **Lost packets** are the numbers that are missing.
use crate::config::PageSize;
use crate::reverse::{Placed, ReverseTable};
use crate::tables::TableUpdate;
use std::collections::BTreeMap;
use std::io::BufRead;

/// Where the reserved range begins: its first half is for page tables, the second for objects.
pub const RESERVED: u64 = 1 << 46;
/// Lines in each half: 16 MB.
pub const TAGS: u64 = (16 << 20) / 64;

/// The address of the tag for a record of the page-table trace.
pub fn table_tag(number: u64) -> u64 {
    RESERVED + number % TAGS * 64
}

/// The same for the object trace.
pub fn object_tag(number: u64) -> u64 {
    RESERVED + (TAGS + number % TAGS) * 64
}

/// An update as a line of the page-table trace.
pub fn shown(update: &TableUpdate) -> String {
    match *update {
        TableUpdate::Table {
            frame,
            space,
            vaddr,
            shift,
        } => format!("table {frame:#x} {space} {vaddr:#x} {shift}"),
        TableUpdate::Set {
            frame,
            size,
            space,
            vaddr,
        } => format!("set {frame:#x} {space} {vaddr:#x} {}", size.bytes()),
        TableUpdate::Clear {
            frame,
            size,
            space,
            vaddr,
        } => format!("clear {frame:#x} {space} {vaddr:#x} {}", size.bytes()),
    }
}

/// What is wrong with a trace.
#[derive(Debug, thiserror::Error)]
pub enum SnoopError {
    #[error("{trace} trace, line {line}: {text:?}: {why}")]
    Line {
        trace: &'static str,
        line: u64,
        text: String,
        why: &'static str,
    },
    #[error("{trace} trace, line {line}")]
    Read {
        trace: &'static str,
        line: u64,
        #[source]
        error: std::io::Error,
    },
}

/// A request, with where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnoopedRecord {
    pub paddr: u64,
    pub write: bool,
    /// Cycles of the snooper's clock since the first packet.
    pub time: u64,
    pub placed: Option<Placed>,
    /// The object that has the address; of a table, the one that the entry translates for.
    pub object: Option<u32>,
}

/// Requests of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectTraffic {
    pub reads: u64,
    pub writes: u64,
    pub walks: u64,
}

/// What a trace held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snooped {
    pub packets: u64,
    pub tags: u64,
    /// Packets that are missing, and in how many places.
    pub lost: u64,
    pub gaps: u64,
    /// Records of the other traces whose own tag was lost.
    pub late: u64,
    /// Requests to frames that nobody told of.
    pub unplaced: u64,
    /// By object; `None` for what belongs to none.
    pub objects: BTreeMap<Option<u32>, ObjectTraffic>,
}

/// Lines of one of the texts.
struct Lines<R> {
    trace: &'static str,
    input: R,
    line: u64,
    text: String,
}

impl<R: BufRead> Lines<R> {
    fn new(trace: &'static str, input: R) -> Lines<R> {
        Lines {
            trace,
            input,
            line: 0,
            text: String::new(),
        }
    }

    /// The words of the next line that has some; nothing at the end.
    fn next(&mut self) -> Result<Option<Vec<&str>>, SnoopError> {
        loop {
            self.text.clear();
            self.line += 1;
            let read = self.input.read_line(&mut self.text);
            let read = read.map_err(|error| SnoopError::Read {
                trace: self.trace,
                line: self.line,
                error,
            })?;
            if read == 0 {
                return Ok(None);
            }
            let text = self.text.trim();
            if !text.is_empty() && !text.starts_with('#') {
                break;
            }
        }
        Ok(Some(self.text.split_whitespace().collect()))
    }

    fn wrong(&self, why: &'static str) -> SnoopError {
        SnoopError::Line {
            trace: self.trace,
            line: self.line,
            text: self.text.trim().to_string(),
            why,
        }
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// All of these words as numbers.
fn numbers<const N: usize>(words: &[&str]) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> = words.iter().map(|word| number(word)).collect();
    numbers?.try_into().ok()
}

fn update_of(words: &[&str]) -> Option<TableUpdate> {
    let (kind, rest) = words.split_first()?;
    let [frame, space, vaddr, last] = numbers(rest)?;
    let space = space.try_into().ok()?;
    match *kind {
        "table" => Some(TableUpdate::Table {
            frame,
            space,
            vaddr,
            shift: u32::try_from(last)
                .ok()
                .filter(|shift| [12, 21, 30, 39, 48].contains(shift))?,
        }),
        "set" => Some(TableUpdate::Set {
            frame,
            size: PageSize::of_bytes(last)?,
            space,
            vaddr,
        }),
        "clear" => Some(TableUpdate::Clear {
            frame,
            size: PageSize::of_bytes(last)?,
            space,
            vaddr,
        }),
        _ => None,
    }
}

/// Objects by process and address.
#[derive(Default)]
struct Ranges {
    /// Where each begins: its bytes, and its id.
    starts: BTreeMap<(u32, u64), (u64, u32)>,
}

impl Ranges {
    fn update(&mut self, words: &[&str]) -> Option<()> {
        match words.split_first()? {
            (&"object", rest) => {
                let [space, start, bytes, id] = numbers(rest)?;
                let (space, id) = (space.try_into().ok()?, id.try_into().ok()?);
                // What was there before is gone.
                let end = start.saturating_add(bytes);
                self.starts.retain(|&(of, begin), &mut (bytes, _)| {
                    of != space || begin >= end || begin.saturating_add(bytes) <= start
                });
                self.starts.insert((space, start), (bytes, id));
            }
            (&"gone", rest) => {
                let [space, start] = numbers(rest)?;
                self.starts.remove(&(space.try_into().ok()?, start));
            }
            _ => return None,
        }
        Some(())
    }

    fn find(&self, space: u32, address: u64) -> Option<u32> {
        let (&(of, start), &(bytes, id)) = self.starts.range(..=(space, address)).next_back()?;
        (of == space && address - start < bytes).then_some(id)
    }
}

/// How many records to read for a tag: those up to the one that it is for, modulo [`TAGS`].
fn due(tag: u64, read: u64) -> u64 {
    (tag + TAGS - read % TAGS) % TAGS + 1
}

/// Puts the three traces together. Every request is given to `emit`, in its order.
pub fn relate(
    packets: impl BufRead,
    tables: impl BufRead,
    objects: impl BufRead,
    mut emit: impl FnMut(&SnoopedRecord),
) -> Result<Snooped, SnoopError> {
    let mut packets = Lines::new("memory", packets);
    let (mut tables, mut objects) = (Lines::new("page-table", tables), Lines::new("object", objects));
    let (mut tables_read, mut objects_read) = (0, 0);
    let (mut reverse, mut ranges) = (ReverseTable::default(), Ranges::default());
    let mut found = Snooped::default();
    let (mut expected, mut time) = (None, 0u64);
    while let Some(words) = packets.next()? {
        let packet = numbers(&words).filter(|&[_, _, rw, _]: &[u64; 4]| rw <= 1);
        let [sequence, duration, read, paddr] =
            packet.ok_or_else(|| packets.wrong("a packet is: number, duration, 1 for a read or 0, address"))?;
        if let Some(lost) = expected
            .and_then(|expected| sequence.checked_sub(expected))
            .filter(|&lost| lost > 0)
        {
            found.lost += lost;
            found.gaps += 1;
        }
        expected = Some(sequence.wrapping_add(1));
        time = time.saturating_add(duration);
        found.packets += 1;
        let tag = paddr.wrapping_sub(RESERVED) / 64;
        if tag < TAGS {
            found.tags += 1;
            let due = due(tag, tables_read);
            found.late += due - 1;
            for _ in 0..due {
                let Some(words) = tables.next()? else { break };
                let update = update_of(&words);
                let update = update.ok_or_else(|| tables.wrong("table, set or clear, frame, pid, address, size"))?;
                reverse.update(&update);
                tables_read += 1;
            }
            continue;
        }
        if tag < 2 * TAGS {
            found.tags += 1;
            let due = due(tag - TAGS, objects_read);
            found.late += due - 1;
            for _ in 0..due {
                let Some(words) = objects.next()? else { break };
                let known = ranges.update(&words);
                known.ok_or_else(|| objects.wrong("object, pid, start, bytes, id; or gone, pid, start"))?;
                objects_read += 1;
            }
            continue;
        }
        let placed = reverse.find(paddr, None);
        let object = match placed {
            Some(Placed::Data { space, vaddr }) => ranges.find(space, vaddr),
            Some(Placed::Table { space, vaddr }) => ranges.find(space, vaddr),
            None => None,
        };
        found.unplaced += u64::from(placed.is_none());
        let traffic = found.objects.entry(object).or_default();
        match (placed, read) {
            (Some(Placed::Table { .. }), _) => traffic.walks += 1,
            (_, 1) => traffic.reads += 1,
            _ => traffic.writes += 1,
        }
        emit(&SnoopedRecord {
            paddr,
            write: read == 0,
            time,
            placed,
            object,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn related(packets: &str) -> Snooped {
        let tables = "table 0x1000 7 0x0 12\nset 0x2000 7 0x5000 4096\nset 0x3000 7 0x6000 4096\n";
        let objects = "object 7 0x5000 0x1000 3\nobject 7 0x6000 0x10 4\n";
        relate(packets.as_bytes(), tables.as_bytes(), objects.as_bytes(), |_| {}).unwrap()
    }

    /// The tags of all five records, as packets 0 to 4.
    fn tags() -> Vec<String> {
        let tags = (0..3).map(table_tag).chain((0..2).map(object_tag));
        tags.enumerate().map(|(at, tag)| format!("{at} 1 0 {tag:#x}")).collect()
    }

    /// A walk for 0x5000, a read and a write in object 3, a read beside object 4, one of nothing.
    const REQUESTS: &str = "5 1 1 0x1028\n6 9 1 0x2040\n7 1 0 0x2080\n8 1 1 0x3040\n9 1 1 0x9000\n";

    #[test]
    fn requests_find_their_pages_and_objects() {
        let found = related(&format!("{}\n{REQUESTS}", tags().join("\n")));
        assert_eq!((found.packets, found.tags, found.lost, found.late), (10, 5, 0, 0));
        assert_eq!(found.unplaced, 1);
        let three = ObjectTraffic {
            reads: 1,
            writes: 1,
            walks: 1,
        };
        let none = ObjectTraffic {
            reads: 2,
            ..ObjectTraffic::default()
        };
        assert_eq!(found.objects, [(Some(3), three), (None, none)].into());
    }

    #[test]
    fn lost_packets_are_found_and_lost_tags_made_up_for() {
        let whole = related(&format!("{}\n{REQUESTS}", tags().join("\n")));
        let mut tags = tags();
        // The first two tags of tables, and the first of objects.
        tags.remove(3);
        tags.drain(..2);
        let found = related(&format!("{}\n{REQUESTS}", tags.join("\n")));
        assert_eq!(found.objects, whole.objects);
        // What is missing before the first packet is not known.
        assert_eq!((found.packets, found.lost, found.gaps, found.late), (7, 1, 1, 3));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let error = relate("0 1 1 0x40\n1 1 2 0x40\n".as_bytes(), &b""[..], &b""[..], |_| {}).unwrap_err();
        let expected =
            "memory trace, line 2: \"1 1 2 0x40\": a packet is: number, duration, 1 for a read or 0, address";
        assert_eq!(error.to_string(), expected);
        let packets = format!("0 1 0 {:#x}\n", table_tag(0));
        let error = relate(packets.as_bytes(), "set 0x1 1 2 3\n".as_bytes(), &b""[..], |_| {}).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("page-table trace, line 1: \"set 0x1 1 2 3\""),
            "{error}"
        );
    }
}
