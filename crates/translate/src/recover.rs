//! From an interrupted thread back to the state of the target, and to a record that tells exactly
//! what the target did.
//!
//! The runtime calls this when a signal interrupts translated code; the checker calls it at every
//! instruction boundary of random code. It is pure: the runtime reads and writes the memory.
use crate::analyze::Block;
use crate::emit::{Recorded, Site, SitePc};
use crate::symbolic::Atom;

const RCX: usize = 1;
const RDX: usize = 2;
const RSP: usize = 4;
const R15: usize = 15;

/// The cells of the thread's area in which translated code keeps registers of the target.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    pub rcx: u64,
    pub rdx: u64,
    pub stand_in: u64,
    pub scratch: u64,
}

/// What has to be done to the record that was begun last, so that it tells what the target did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settle {
    /// Nothing.
    Leave,
    /// The record is complete: move the cursor past its `words` words.
    Pass { words: usize },
    /// No instruction of the block has run: put a zero where the record begins.
    Withdraw,
    /// The block was left after some of its instructions. If the record is `open`, it has that many
    /// words: put those that [`Site::missing`] tells, and move the cursor past the record. Then
    /// write a CUT record if there is a number to `cut` at, and a STATE record.
    Close { open: Option<usize>, cut: Option<u16> },
}

impl Site {
    /// Turns the hardware's registers, with the cell of the target's r15 in place of r15, into the
    /// target's. Returns the target's program counter. `read` reads a word of the target's memory.
    pub fn recover(&self, regs: &mut [u64; 16], saved: &Saved, read: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let pc = match self.pc {
            SitePc::Const(pc) => pc,
            SitePc::Rcx(k) => regs[RCX].wrapping_add(k),
            SitePc::BelowStack => read(regs[RSP].wrapping_sub(8)).unwrap_or(0),
        };
        if let Some(r) = self.stand_in {
            regs[R15] = regs[usize::from(r)];
            regs[usize::from(r)] = saved.stand_in;
        }
        if let Some(r) = self.scratch {
            regs[usize::from(r)] = saved.scratch;
        }
        if self.rcx_saved {
            regs[RCX] = saved.rcx;
        }
        if self.rdx_saved {
            regs[RDX] = saved.rdx;
        }
        regs[RSP] = regs[RSP].wrapping_add(self.rsp as u64);
        pc
    }

    /// What to do to the record of `block`, which was left here.
    pub fn settle(&self, block: &Block) -> Settle {
        if self.recorded == Recorded::Nothing {
            return Settle::Leave;
        }
        let words = block.record_words(self.steady);
        if self.leaving {
            let side = block.plan.sides.iter().find(|s| s.insn + 1 == self.done);
            let words = side.filter(|_| !self.steady).map_or(words, |s| s.words.into());
            return Settle::Pass { words };
        }
        let whole = usize::from(self.done) == block.insns.len();
        // At the head of an affine loop, too: without CUT, a record of no iterations would make no sense.
        let cut = (!whole).then_some(self.done);
        if self.recorded == Recorded::Done {
            return Settle::Close { open: None, cut };
        }
        // Of these the first instruction may have run in part.
        let divisible = block.insns[0].is_vsib() || block.insns[0].is_string_instruction();
        if self.done == 0 && !self.in_loop && !divisible {
            return Settle::Withdraw;
        }
        Settle::Close { open: Some(words), cut }
    }

    /// The words that an open record of `block` lacks to tell what was done until now: what is
    /// captured after instruction `done - 1` and is not in the record yet, and the counter of an
    /// affine loop. `regs` are the target's registers. Vectors are told to be zero: only an
    /// instruction that has not begun depends on them, and with no lane active it does nothing.
    pub fn missing(&self, block: &Block, regs: &[u64; 16], mut put: impl FnMut(usize, u64)) {
        let captures = block.captures_of(self.steady).skip(self.captured.into());
        for capture in captures.take_while(|c| c.pos <= self.done) {
            for n in 0..capture.words() {
                let value = match capture.atom {
                    Atom::Gpr { reg, .. } => regs[usize::from(reg)],
                    _ => 0,
                };
                put(usize::from(capture.word() + n), value);
            }
        }
        if let Some(counter) = self.in_loop.then(|| self.counter(block, regs)).flatten() {
            put(block.record_words(self.steady) - 1, counter);
        }
    }

    /// The counter of an affine loop: what it is if the loop has ended, and what it was when this
    /// iteration began otherwise.
    fn counter(&self, block: &Block, regs: &[u64; 16]) -> Option<u64> {
        let (reg, step) = block.counter()?;
        let moved = if usize::from(self.done) == block.insns.len() {
            0
        } else {
            block.moved_before(reg, self.done.into())
        };
        let value = regs[reg].wrapping_sub(moved);
        Some(if step.low32 { value as u32 as u64 } else { value })
    }
}
