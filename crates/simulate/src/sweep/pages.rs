//! Short numbers for the pages that caches hold lines of.
//!
//! Lists compare lines. Within a set a line is known by its *page*, a piece of memory no longer
//! than *sets·line* bytes of any list and no shorter than a line: two lines of a page are never in
//! the same set. Pages get numbers of 16 bits, so that eight fit a register.
//!
//! When the numbers run out, those of pages that no list holds a line of are taken back: what is
//! forgotten everywhere may get a new number when it comes again. So the memory needed is bounded
//! by the size of the lists. If too many are in use, the lists have to go over to longer numbers;
//! pages keep theirs.
use super::lanes::Lane;
use std::marker::PhantomData;

/// 0 is no page.
const NONE: u32 = 0;

#[derive(Clone, Copy)]
struct Slot {
    page: u64,
    number: u32,
}

const EMPTY: Slot = Slot { page: 0, number: NONE };

pub struct Pages<T> {
    /// Open addressing; at most half full.
    slots: Vec<Slot>,
    /// Numbers below this have been given out; those that were taken back are in `free`.
    next: u32,
    free: Vec<u32>,
    /// Numbers are below this.
    limit: u32,
    /// The hash's upper bits that give a place: all but so many.
    drop: u32,
    width: PhantomData<T>,
}

/// 16-bit numbers.
const SHORT: u32 = 1 << 16;

impl<T: Lane> Pages<T> {
    fn sized(limit: u32) -> Pages<T> {
        Pages {
            slots: vec![EMPTY; 2 * limit as usize],
            next: NONE + 1,
            free: Vec::new(),
            limit,
            drop: 64 - (2 * limit as usize).trailing_zeros(),
            width: PhantomData,
        }
    }

    fn home(&self, page: u64) -> usize {
        (page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.drop) as usize
    }

    /// The number of a page. There must be [`Pages::room`].
    #[inline(always)]
    pub fn number(&mut self, page: u64) -> T {
        let mut at = self.home(page);
        loop {
            let slot = self.slots[at];
            if slot.page == page && slot.number != NONE {
                return T::new(slot.number);
            }
            if slot.number == NONE {
                return T::new(self.insert(page, at));
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, page: u64, at: usize) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.slots[at] = Slot { page, number };
        number
    }

    /// How many new pages can be numbered.
    pub fn room(&self) -> usize {
        (self.limit - self.next) as usize + self.free.len()
    }

    /// The greatest number that was given out.
    pub fn most(&self) -> u32 {
        self.next - 1
    }

    /// Takes back the numbers that are not in use; `in_use` calls back with each that is.
    pub fn collect(&mut self, in_use: impl FnOnce(&mut dyn FnMut(T))) {
        let mut used = vec![false; self.limit as usize];
        in_use(&mut |number| used[number.number() as usize] = true);
        let kept: Vec<Slot> = self
            .slots
            .iter()
            .copied()
            .filter(|slot| used[slot.number as usize] && slot.number != NONE)
            .collect();
        self.free = (NONE + 1..self.next).filter(|&number| !used[number as usize]).collect();
        self.fill(kept);
    }

    fn fill(&mut self, kept: Vec<Slot>) {
        self.slots.fill(EMPTY);
        for slot in kept {
            let mut at = self.home(slot.page);
            while self.slots[at].number != NONE {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = slot;
        }
    }

    /// The same numbers, and room for as many more, in another width.
    fn grown<U: Lane>(&self) -> Pages<U> {
        let mut pages = Pages::sized(self.limit * 2);
        pages.next = self.next;
        pages.free.clone_from(&self.free);
        pages.fill(self.slots.iter().copied().filter(|slot| slot.number != NONE).collect());
        pages
    }

    /// Whether so few numbers are left that collecting would not be worth its while much longer.
    pub fn crowded(&self) -> bool {
        self.room() < self.limit as usize / 4
    }
}

impl Pages<u16> {
    pub fn new() -> Pages<u16> {
        Pages::sized(SHORT)
    }

    pub fn widen(&self) -> Pages<u32> {
        self.grown()
    }
}

impl Pages<u32> {
    pub fn long() -> Pages<u32> {
        Pages::sized(1 << 12)
    }

    pub fn grow(&mut self) {
        *self = self.grown();
    }
}
