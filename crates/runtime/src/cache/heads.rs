//! The map from target addresses to translated code.
use crate::space;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Bytes of a row, and of what stands in front of the rows.
pub const ROW: u64 = 1 << ROW_SHIFT;
pub const ROW_SHIFT: u32 = 5;
pub const ROWS: u64 = ROW;
/// Offsets in a row: the head, and the distances from it to the two entries, 32 bits each.
pub const HEAD: u64 = 8;
pub const INDIRECT: u64 = 16;
pub const RETURN: u64 = 20;
/// How far an address is shifted to mix its higher bits into the number of its row.
pub const HASH_SHIFT: u32 = 15;

/// Target address to head and entries, open addressing, for the miss path in `entry.rs`: a mask
/// word, three spare ones, then rows of address, head, distances from the head to the indirect and
/// the return entry (32 bits each), block number + 1. Written under the cache's lock, read without:
/// a row's address is stored last, and a table that is outgrown stays.
pub(super) struct Heads {
    at: u64,
    /// Of byte offsets.
    mask: u64,
    filled: u64,
}

impl Heads {
    pub const EMPTY: Heads = Heads {
        at: 0,
        mask: 0,
        filled: 0,
    };

    fn row(&self, offset: u64) -> &[AtomicU64; 4] {
        // SAFETY: the offset is masked; the table is ours for ever.
        unsafe { &*((self.at + ROWS + offset) as *const [AtomicU64; 4]) }
    }

    /// Where the search for `pc` begins.
    fn first(&self, pc: u64) -> u64 {
        ((pc >> HASH_SHIFT ^ pc) << ROW_SHIFT) & self.mask
    }

    /// Head 0: there is no block any more.
    pub fn set(&mut self, pc: u64, values: [u64; 3]) {
        if self.at == 0 || (self.filled + 1) * 2 * ROW > self.mask {
            self.grow();
        }
        let mut offset = self.first(pc);
        loop {
            let row = self.row(offset);
            let key = row[0].load(Relaxed);
            if key == pc || key == 0 {
                for (cell, v) in row[1..].iter().zip(values) {
                    cell.store(v, Release);
                }
                row[0].store(pc, Release);
                self.filled += (key == 0) as u64;
                return;
            }
            offset = (offset + ROW) & self.mask;
        }
    }

    pub fn find(&self, pc: u64) -> Option<u32> {
        if self.at == 0 {
            return None;
        }
        let mut offset = self.first(pc);
        loop {
            let row = self.row(offset);
            match row[0].load(Relaxed) {
                k if k == pc => return (row[3].load(Relaxed) as u32).checked_sub(1),
                0 => return None,
                _ => offset = (offset + ROW) & self.mask,
            }
        }
    }

    fn grow(&mut self) {
        // Rows are met at random: huge pages save a fault for nearly every one of them.
        const HUGE: u64 = 2 << 20;
        let rows = if self.at == 0 {
            HUGE / ROW
        } else {
            (self.mask / ROW + 1) * 2
        };
        let bytes = ROW * rows + ROWS;
        let whole = space::region((bytes + HUGE) as usize, sys::PROT_READ | sys::PROT_WRITE);
        let at = (whole + HUGE - 1) & !(HUGE - 1);
        // SAFETY: advice on our own memory.
        unsafe { sys::call(sys::MADVISE, [at as usize, (bytes & !4095) as usize, 14, 0, 0, 0]) };
        let mut new = Heads {
            at,
            mask: (rows - 1) * ROW,
            filled: 0,
        };
        // SAFETY: the first word of a fresh table.
        unsafe { (at as *mut u64).write(new.mask) };
        if self.at != 0 {
            for offset in (0..=self.mask).step_by(ROW as usize) {
                let row = self.row(offset);
                if row[1].load(Relaxed) != 0 {
                    new.set(row[0].load(Relaxed), [1, 2, 3].map(|i| row[i].load(Relaxed)));
                }
            }
        }
        // SAFETY: the assembly's variable; one store publishes the table.
        unsafe { crate::entry::rt_heads.store(at, Release) };
        *self = new;
    }
}
