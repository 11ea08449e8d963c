//! How often each distance was seen, by kind.
//!
//! An access of several lines counts once, with the greatest distance of its lines. Those lie in
//! one batch, mixed with others, so their distances are kept by part number until the batch ends.
use super::front::{PART, READ, WRITE};

/// Tags are multiples of this, one for each kind that has a row; and distances in short lists are
/// less.
const ROW: usize = 64;
const KINDS: usize = PART as usize / ROW;
/// All rows, with room to make every index valid.
pub const SHORT: usize = 4 * ROW;

/// What was seen in a list.
#[derive(Clone)]
pub struct Tally {
    /// A row for each kind; in that, a number for each distance or step.
    counts: Vec<u64>,
    row: usize,
    /// Of long lists: the distances that matter; what is counted is how many of them are not
    /// greater. None: the distance itself.
    steps: Option<Vec<u32>>,
    worst: Vec<u32>,
}

impl Tally {
    /// Of a list with distances less than [`ROW`].
    pub fn short() -> Tally {
        Tally {
            counts: vec![0; SHORT],
            row: ROW,
            steps: None,
            worst: Vec::new(),
        }
    }

    /// Of a longer list that only these numbers of ways are wanted of.
    pub fn long(wanted: &[(usize, u32)]) -> Tally {
        let mut steps: Vec<u32> = wanted.iter().map(|&(_, ways)| ways).collect();
        steps.sort_unstable();
        steps.dedup();
        let row = steps.len() + 1;
        Tally {
            counts: vec![0; row * KINDS],
            row,
            steps: Some(steps),
            worst: Vec::new(),
        }
    }

    /// Of a short list: tag + distance is the index; and what [`part`] needs.
    pub fn parts(&mut self) -> (&mut [u64; SHORT], &mut Vec<u32>) {
        let counts = self.counts.as_mut_slice().try_into();
        (counts.expect("a short list's tally"), &mut self.worst)
    }

    /// Where a kind's row begins.
    fn row(&self, tag: u16) -> usize {
        usize::from(tag) / ROW * self.row
    }

    /// What is counted for a distance.
    fn step(&self, distance: usize) -> usize {
        match &self.steps {
            None => distance,
            Some(steps) => steps.partition_point(|&step| step as usize <= distance),
        }
    }

    /// So many touches with the same distance; parts come one by one.
    pub fn add(&mut self, tag: u16, distance: usize, times: u64) {
        let step = self.step(distance);
        if tag < PART {
            let row = self.row(tag);
            self.counts[row + step] += times;
        } else {
            part(&mut self.worst, tag, step);
        }
    }

    /// The batch has ended: its accesses of several lines had these tags; if `open`, the last of
    /// them is the first of the next batch.
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
            let row = &self.counts[self.row(tag)..][..self.row];
            row[self.step(distance)..].iter().sum()
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
