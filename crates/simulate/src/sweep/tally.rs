//! How often each distance was seen, by kind.
//!
//! An access of several lines counts once, with the greatest distance of its lines. Those lie in one batch, mixed with others, so
//! their distances are kept by part number until the batch ends.
use super::front::{PART, READ, WRITE};

/// Distances and misses of a list.
#[derive(Clone)]
pub struct Tally {
    counts: Vec<u64>,
    /// Distances of a kind are `1 << bits` numbers.
    bits: u32,
    worst: Vec<u32>,
}

/// Tags are multiples of this, one for each kind that has a row; and distances in short lists are less.
pub const ROW: usize = 64;
const KINDS: usize = PART as usize / ROW;
/// Numbers of a short list, with room to make every index valid.
pub const SHORT: usize = 4 * ROW;

impl Tally {
    /// For distances from 0 to `most`.
    pub fn new(most: usize) -> Tally {
        let row = (most + 1).next_power_of_two().max(ROW);
        Tally {
            counts: vec![0; row * (KINDS + 1)],
            bits: row.trailing_zeros(),
            worst: Vec::new(),
        }
    }

    /// Of a list with distances less than [`ROW`]: tag + distance is the index.
    pub fn short(&mut self) -> Option<(&mut [u64; SHORT], &mut Vec<u32>)> {
        let counts = self.counts.as_mut_slice().try_into().ok()?;
        Some((counts, &mut self.worst))
    }

    /// Where a kind's distances begin.
    fn row(&self, tag: u16) -> usize {
        (usize::from(tag) / ROW) << self.bits
    }

    pub fn add(&mut self, tag: u16, distance: usize) {
        if tag < PART {
            let row = self.row(tag);
            self.counts[row + distance] += 1;
        } else {
            part(&mut self.worst, tag, distance);
        }
    }

    /// The batch has ended: its accesses of several lines had these tags; if `open`, the last of them is the first of the next batch.
    pub fn end_batch(&mut self, parts: &[u16], open: bool) {
        if self.worst.is_empty() {
            return;
        }
        self.worst.resize(parts.len(), 0);
        let whole = parts.len() - usize::from(open);
        for (i, &tag) in parts[..whole].iter().enumerate() {
            let row = self.row(tag);
            self.counts[row + self.worst[i] as usize] += 1;
        }
        self.worst.drain(..whole);
    }

    /// (reads, writes) with at least this distance.
    pub fn from(&self, distance: usize) -> (u64, u64) {
        let sum = |tag: u16| {
            let row = self.row(tag);
            self.counts[row + distance..row + (1 << self.bits)].iter().sum()
        };
        (sum(READ), sum(WRITE))
    }
}

/// Notes a distance of a part.
#[cold]
pub fn part(worst: &mut Vec<u32>, tag: u16, distance: usize) {
    let part = usize::from(tag - PART);
    if worst.len() <= part {
        worst.resize(part + 1, 0);
    }
    worst[part] = worst[part].max(distance as u32);
}
