//! The runtime's own part of the target's address space.
//!
//! **Problem.** The target may map at addresses of its own choice, over anything that is there.
//! What the runtime has mapped must survive that, and must not be in the way of those who cannot
//! lie elsewhere, such as the shadow memory of sanitizers.
//!
//! **Idea.** The tracer chooses a large free range, the *room*, when it injects the image
//! (`tracee/place.rs` says where and why). The runtime takes its memory from *slabs* there: large
//! mappings without permissions, of which regions are opened as they are needed. So everything
//! that is the runtime's lies in a few ranges: the image, the session, the slabs, and the arenas
//! of the code cache, which lie near the target's code. They are listed here, and
//! [`crate::mappings`] keeps the target's system calls off them.
//!
//! **Invariant.** A range is listed for as long as anything of the runtime's is mapped in it. The
//! lock is held from the look at the list until the system call that relied on it has returned.
use crate::lock::{rank, Guard, Lock};
use crate::sys;
use memtrail_ring::boot::{Owned, MOST_OWNED};

/// Bytes of address space that are taken at once.
const SLAB: u64 = 64 << 20;
/// Between two regions, without permissions: running out of one must not end in the next.
const GAP: u64 = 64 << 10;
/// Neighbours are joined, so that few entries go a long way.
const MOST_RANGES: usize = MOST_OWNED;
/// Closed regions that are kept to be opened again.
const MOST_CLOSED: usize = 64;

#[derive(Clone, Copy, Default)]
pub struct Range {
    pub start: u64,
    pub end: u64,
}

const NONE: Range = Range { start: 0, end: 0 };

pub struct Space {
    /// What is left of the room.
    room: Range,
    /// What is left of the current slab.
    slab: Range,
    owned: [Range; MOST_RANGES],
    count: usize,
    closed: [Range; MOST_CLOSED],
}

pub static SPACE: Lock<Space, { rank::SPACE }> = Lock::new(Space {
    room: NONE,
    slab: NONE,
    owned: [NONE; MOST_RANGES],
    count: 0,
    closed: [NONE; MOST_CLOSED],
});

// Defined by the linker script.
extern "C" {
    static rt_image_start: u8;
    static rt_image_end: u8;
}

/// Where the image lies.
pub fn image() -> Range {
    Range {
        start: &raw const rt_image_start as u64,
        end: &raw const rt_image_end as u64,
    }
}

/// First steps: what the tracer has mapped, and the room it found.
pub fn begin(session: Range, room: Range) {
    let mut space = SPACE.lock();
    space.room = room;
    space.own(image());
    space.own(session);
}

impl Space {
    /// `range` is the runtime's from now on.
    fn own(&mut self, range: Range) {
        let known = &mut self.owned[..self.count];
        if let Some(left) = known.iter_mut().find(|r| r.end == range.start) {
            left.end = range.end;
        } else if let Some(right) = known.iter_mut().find(|r| r.start == range.end) {
            right.start = range.start;
        } else if self.count < MOST_RANGES {
            self.owned[self.count] = range;
            self.count += 1;
        }
    }

    /// The lowest range of ours that has an address in `start..end`.
    pub fn first_in(&self, start: u64, end: u64) -> Option<Range> {
        let meets = |r: &&Range| r.start < end && r.end > start;
        self.owned[..self.count]
            .iter()
            .filter(meets)
            .min_by_key(|r| r.start)
            .copied()
    }

    /// Makes the current slab longer by at least `bytes`, or begins another of at least `bytes`.
    /// False: the kernel refuses.
    fn extend(&mut self, bytes: u64) -> bool {
        let bytes = (bytes + SLAB - 1) & !(SLAB - 1);
        while self.room.end - self.room.start >= bytes {
            let start = self.room.start;
            if sys::map(start, bytes as usize, sys::PROT_NONE).is_some() {
                self.room.start += bytes;
                self.take(start, bytes);
                return true;
            }
            // Something of the target's lies there.
            self.room.start += SLAB;
        }
        // The room is used up: wherever the kernel finds place.
        let found = sys::map(0, bytes as usize, sys::PROT_NONE);
        found.map(|start| self.take(start, bytes)).is_some()
    }

    fn take(&mut self, start: u64, bytes: u64) {
        let end = start + bytes;
        self.own(Range { start, end });
        if self.slab.end == start {
            self.slab.end = end;
        } else {
            self.slab = Range { start, end };
        }
    }

    fn open(&mut self, bytes: u64, prot: usize) -> Option<u64> {
        let fits = |r: &&mut Range| r.end - r.start == bytes;
        if let Some(old) = self.closed.iter_mut().find(fits) {
            let start = core::mem::take(old).start;
            return sys::protect(start, bytes as usize, prot).then_some(start);
        }
        let wanted = bytes + GAP;
        if self.slab.end - self.slab.start < wanted && !self.extend(wanted) {
            return None;
        }
        let start = self.slab.start;
        self.slab.start += wanted;
        sys::protect(start, bytes as usize, prot).then_some(start)
    }
}

fn whole_pages(bytes: usize) -> u64 {
    (bytes as u64 + 4095) & !4095
}

/// Fresh zeroed pages, or `None` if the kernel refuses them.
pub fn try_region(bytes: usize, prot: usize) -> Option<u64> {
    SPACE.lock().open(whole_pages(bytes), prot)
}

/// As [`try_region`], where there is no going on without.
pub fn region(bytes: usize, prot: usize) -> u64 {
    match try_region(bytes, prot) {
        Some(start) => start,
        None => sys::die(&[b"out of memory: the kernel refused a mapping"]),
    }
}

/// Give back a region of `bytes` bytes.
pub fn close(start: u64, bytes: usize) {
    let bytes = whole_pages(bytes);
    let mut space = SPACE.lock();
    // Its addresses stay ours; its memory goes back to the kernel.
    // SAFETY: the caller owns the region and uses it no more.
    unsafe {
        sys::call(
            sys::MMAP,
            [
                start as usize,
                bytes as usize,
                sys::PROT_NONE,
                sys::MAP_ANON_PRIVATE | sys::MAP_NORESERVE | sys::MAP_FIXED,
                usize::MAX,
                0,
            ],
        );
    }
    if let Some(empty) = space.closed.iter_mut().find(|r| r.end == 0) {
        *empty = Range {
            start,
            end: start + bytes,
        };
    }
}

/// Map `bytes` at `start`, outside the slabs. `None` if there is something already.
pub fn map_at(start: u64, bytes: u64, prot: usize) -> Option<u64> {
    let mut space = SPACE.lock();
    sys::map(start, bytes as usize, prot)?;
    space.own(Range {
        start,
        end: start + bytes,
    });
    Some(start)
}

/// Whether `start` is an address of ours.
pub fn is_ours(start: u64) -> bool {
    SPACE.lock().first_in(start, start + 1).is_some()
}

/// What is ours, for the tracer to unmap.
pub fn list(to: &mut Owned) {
    let space = SPACE.lock();
    to.count = space.count as u64;
    for (to, r) in to.ranges.iter_mut().zip(&space.owned[..space.count]) {
        *to = [r.start, r.end];
    }
}

/// Nobody maps or unmaps anything of ours while this lives.
pub fn hold() -> Guard<'static, Space, { rank::SPACE }> {
    SPACE.lock()
}
