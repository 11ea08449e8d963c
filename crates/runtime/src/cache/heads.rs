//! The map from target addresses to translated code.
use crate::space;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Target address to head and entries, open addressing, for the miss path in `entry.rs`: a mask word, three spare ones, then rows of
/// address, head, distances from the head to the indirect and the return entry (32 bits each), block number + 1. Written under the cache's lock, read without: a row's address is stored last, and a
/// table that is outgrown stays.
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
        unsafe { &*((self.at + 32 + offset) as *const [AtomicU64; 4]) }
    }

    /// Head 0: there is no block any more.
    pub fn set(&mut self, pc: u64, values: [u64; 3]) {
        if self.at == 0 || (self.filled + 1) * 64 > self.mask {
            self.grow();
        }
        let mut offset = ((pc >> 15 ^ pc) << 5) & self.mask;
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
            offset = (offset + 32) & self.mask;
        }
    }

    pub fn find(&self, pc: u64) -> Option<u32> {
        if self.at == 0 {
            return None;
        }
        let mut offset = ((pc >> 15 ^ pc) << 5) & self.mask;
        loop {
            let row = self.row(offset);
            match row[0].load(Relaxed) {
                k if k == pc => return (row[3].load(Relaxed) as u32).checked_sub(1),
                0 => return None,
                _ => offset = (offset + 32) & self.mask,
            }
        }
    }

    fn grow(&mut self) {
        // Rows are met at random: huge pages save a fault for nearly every one of them.
        const HUGE: u64 = 2 << 20;
        let rows = if self.at == 0 {
            HUGE / 32
        } else {
            (self.mask / 32 + 1) * 2
        };
        let bytes = 32 * (rows + 1);
        let whole = space::region((bytes + HUGE) as usize, sys::PROT_READ | sys::PROT_WRITE);
        let at = (whole + HUGE - 1) & !(HUGE - 1);
        // SAFETY: advice on our own memory.
        unsafe { sys::call(sys::MADVISE, [at as usize, (bytes & !4095) as usize, 14, 0, 0, 0]) };
        let mut new = Heads {
            at,
            mask: (rows - 1) * 32,
            filled: 0,
        };
        // SAFETY: the first word of a fresh table.
        unsafe { (at as *mut u64).write(new.mask) };
        if self.at != 0 {
            for offset in (0..=self.mask).step_by(32) {
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
