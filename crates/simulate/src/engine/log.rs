//! What a cache has missed, in order.
//!
//! **Problem.** A miss is much to do, at a moment that could not be foreseen, for a loop that has
//! its hands full with hits.
//!
//! **Idea.** There and then, only what the next look-up may depend on is done. The rest is written
//! down: it is counted in a loop of its own when the batch is through, and it is what the next
//! level is asked for.
//!
//! **Invariant.** There is room for whatever is written down before the next [`Log::make_room`].
use super::cache::DIRTY;
use super::shadow::Class;
use crate::sets::Meta;

/// A line that was not there and is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missed {
    pub line: u64,
    /// What was touched of it.
    pub bits: u64,
    /// To whom it is due.
    pub point: u32,
    /// Of an access that is no write, or of a level above, it is read.
    pub is_write: bool,
    /// It has to be asked for: it was not written back from above.
    pub is_asked_for: bool,
    pub class: Option<Class>,
    /// The line that was there before, if there was one, and what was known of it.
    evicted: Option<(u64, Meta)>,
}

impl Missed {
    pub fn new(line: u64, bits: u64, point: u32, is_write: bool) -> Missed {
        Missed {
            line,
            bits,
            point,
            is_write,
            is_asked_for: true,
            class: None,
            evicted: None,
        }
    }

    /// It has been placed where another line was, or none.
    #[inline(always)]
    pub fn evicting(self, evicted: Option<(u64, Meta)>) -> Missed {
        Missed { evicted, ..self }
    }

    /// The line that had to go, and what was known of it.
    #[inline(always)]
    pub fn evicted(&self) -> Option<(u64, &Meta)> {
        self.evicted.as_ref().map(|(line, old)| (*line, old))
    }

    /// The line that is written back, and who owned it.
    #[inline(always)]
    pub fn written_back(&self) -> Option<(u64, u32)> {
        let dirty = self.evicted().filter(|(_, old)| old.flags & DIRTY != 0);
        dirty.map(|(line, old)| (line, old.owner))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// The first `len` are written down, the others are room.
    missed: Vec<Missed>,
    len: usize,
}

impl Log {
    /// For so many more.
    pub fn make_room(&mut self, more: usize) {
        let all = self.len + more;
        if self.missed.len() < all {
            self.missed.resize(all, Missed::new(0, 0, 0, false));
        }
    }

    #[inline(always)]
    pub fn push(&mut self, missed: Missed) {
        self.missed[self.len] = missed;
        self.len += 1;
    }

    pub fn all(&self) -> &[Missed] {
        &self.missed[..self.len]
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }
}
