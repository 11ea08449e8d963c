//! Memory behind the caches: which rows are open.
use crate::spec::MemorySpec;

/// The rows that were opened last, by bank, in program order.
#[derive(Clone, Debug)]
pub struct Rows {
    open: Vec<u64>,
    row: u64,
    hit: u16,
    miss: u16,
    line_bits: u32,
}

impl Rows {
    pub fn new(spec: &MemorySpec, line_bits: u32) -> Rows {
        Rows {
            open: vec![u64::MAX; spec.banks as usize],
            row: spec.row,
            hit: spec.open as u16,
            miss: spec.closed as u16,
            line_bits,
        }
    }

    /// Cycles that memory takes for a line. Rows are spread over the banks.
    pub fn access(&mut self, line: u64) -> u16 {
        let row = (line << self.line_bits) / self.row;
        let bank = (row % self.open.len() as u64) as usize;
        match std::mem::replace(&mut self.open[bank], row) == row {
            true => self.hit,
            false => self.miss,
        }
    }
}
