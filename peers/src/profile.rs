//! What a tool saw: accesses by instruction, direction and size.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    Read,
    Write,
}

/// How often each size was read and written by one instruction.
pub type Sizes = BTreeMap<(Direction, u32), u64>;

/// Accesses by the instruction's link-time address.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub by_pc: BTreeMap<u64, Sizes>,
}

impl Profile {
    pub fn add(&mut self, pc: u64, direction: Direction, size: u32, times: u64) {
        *self.by_pc.entry(pc).or_default().entry((direction, size)).or_default() += times;
    }

    /// Sums over the instructions of a function, less those that are left out.
    pub fn of(&self, function: &Function, left_out: impl Fn(u64) -> bool) -> Counts {
        let mut counts = Counts::default();
        for (_, sizes) in self
            .by_pc
            .range(function.start..function.end)
            .filter(|(pc, _)| !left_out(**pc))
        {
            counts.add(&Counts::from(sizes));
        }
        counts
    }
}

/// The figures that must be equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
    }

    pub fn is_zero(&self) -> bool {
        *self == Counts::default()
    }
}

impl From<&Sizes> for Counts {
    fn from(sizes: &Sizes) -> Counts {
        let mut counts = Counts::default();
        for ((direction, size), times) in sizes {
            let bytes = u64::from(*size) * times;
            match direction {
                Direction::Read => {
                    (counts.reads, counts.read_bytes) = (counts.reads + times, counts.read_bytes + bytes)
                }
                Direction::Write => {
                    (counts.writes, counts.written_bytes) = (counts.writes + times, counts.written_bytes + bytes)
                }
            }
        }
        counts
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "R {} ({} B) W {} ({} B)",
            self.reads, self.read_bytes, self.writes, self.written_bytes
        )
    }
}

/// A range of link-time addresses with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub start: u64,
    pub end: u64,
}
