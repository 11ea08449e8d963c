//! Totals over accesses.
use memtrail_model::{Access, AccessSink, Kind};
use std::ops::AddAssign;

/// How many accesses of each kind, and what else went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    pub prefetches: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub instructions: u64,
    /// Executions of blocks; each iteration of a loop is one.
    pub blocks: u64,
}

impl Counts {
    pub fn accesses(&self) -> u64 {
        self.reads.wrapping_add(self.writes).wrapping_add(self.prefetches)
    }
    /// Bytes read and written. A prefetch moves none as far as the program can see.
    pub fn bytes(&self) -> u64 {
        self.read_bytes.wrapping_add(self.written_bytes)
    }
    /// Counts `n` accesses of `size` bytes. Fetches are none.
    #[inline]
    pub fn add(&mut self, kind: Kind, n: u64, size: u64) {
        let bytes = n.wrapping_mul(size);
        let (count, total) = match kind {
            Kind::Read => (&mut self.reads, &mut self.read_bytes),
            Kind::Write => (&mut self.writes, &mut self.written_bytes),
            Kind::Prefetch => {
                self.prefetches = self.prefetches.wrapping_add(n);
                return;
            }
            Kind::Fetch => return,
        };
        *count = count.wrapping_add(n);
        *total = total.wrapping_add(bytes);
    }
    /// Adds `other` `n` times.
    #[inline]
    pub fn add_times(&mut self, other: &Counts, n: u64) {
        let add = |a: &mut u64, b: u64| *a = a.wrapping_add(b.wrapping_mul(n));
        add(&mut self.reads, other.reads);
        add(&mut self.writes, other.writes);
        add(&mut self.prefetches, other.prefetches);
        add(&mut self.read_bytes, other.read_bytes);
        add(&mut self.written_bytes, other.written_bytes);
        add(&mut self.instructions, other.instructions);
        add(&mut self.blocks, other.blocks);
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.add_times(&other, 1);
    }
}

impl AccessSink for Counts {
    fn accesses(&mut self, batch: &[Access]) {
        for a in batch {
            self.add(a.kind, 1, a.size.into());
        }
    }
}
