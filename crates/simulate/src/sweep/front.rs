//! From accesses to the touches that can matter.
//!
//! Whatever the configuration, a touch of a line that is the most recent in its set is a hit and
//! changes nothing, under LRU and under FIFO. One look at one table finds most of those for all
//! configurations at once.
//!
//! Let *l* be the shortest line and *G* the longest, and *R* a number such that *R·G* divides
//! *sets·line* of every configuration, or 1. Memory is cut into granules of *G* bytes; granule *g*
//! is of class *g* mod *R*. The table holds, for each class, the *l*-line touched last in it.
//!
//! **A touch of the *l*-line in the table can be left out.** Nothing else in its class was touched
//! since. Take a configuration with lines of *L* bytes and *S* sets, and two different lines *y*,
//! *y'* of the same set: *yL ≡ y'L* modulo *SL*, hence modulo *RG*, so (*L* divides *G*) their
//! granules are of the same class. So no other line of the set was touched since this line was: it
//! is the most recent. If *R* = 1 all is one class, and the touch repeats the last touch of all.
//!
//! An access that is not within one *l*-line is a touch of each of its *l*-lines. Under longer
//! lines some of these are the same; the second is then a touch of the most recent line. What the
//! access counts as is found at the end of the batch: see [`Touch::tag`].
use crate::engine::placed;
use memtrail_model::{Access, Kind};

/// Touches that are dealt with together.
pub const BATCH: usize = 1024;
const CLASSES: usize = 512;

/// What a touch counts as: one of these, or a part of an access of several lines.
/// Multiples of the kind's number.
pub const READ: u16 = WRITE * Kind::Read as u16;
pub const WRITE: u16 = 64;
/// A prefetch.
pub const UNCOUNTED: u16 = WRITE * Kind::Prefetch as u16;
/// From here on: part number `tag - PART` of the batch.
pub const PART: u16 = 192;

#[derive(Clone, Copy, Default)]
pub struct Touch {
    /// Of the shortest line size.
    pub line: u64,
    pub point: u32,
    pub tag: u16,
}

/// Touches of one cache, in order.
#[derive(Clone)]
pub struct Batch {
    touches: Box<[Touch; BATCH]>,
    len: usize,
    /// The tags of the accesses that have several lines, by part number.
    pub parts: Vec<u16>,
    /// The last of them goes on as the first in the next batch.
    pub open: bool,
}

impl Batch {
    pub fn new() -> Batch {
        Batch {
            touches: Box::new([Touch::default(); BATCH]),
            len: 0,
            parts: Vec::new(),
            open: false,
        }
    }

    pub fn touches(&self) -> &[Touch] {
        &self.touches[..self.len]
    }

    /// The kind's tag of a touch, also if it is a part.
    pub fn kind(&self, tag: u16) -> u16 {
        match tag.checked_sub(PART) {
            None => tag,
            Some(part) => self.parts[usize::from(part)],
        }
    }

    pub fn clear(&mut self) {
        self.len = 0;
        self.parts.clear();
        self.open = false;
    }

    fn push(&mut self, touch: Touch) {
        self.touches[self.len] = touch;
        self.len += 1;
    }
}

/// The geometry all of a sweep's configurations have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Logarithms of the shortest and the longest line.
    pub shortest: u32,
    pub longest: u32,
    /// R: a power of two, at most [`CLASSES`].
    pub classes: u64,
}

impl Common {
    /// Of (log2 line, sets) pairs.
    pub fn of(shapes: &[(u32, u64)]) -> Common {
        let shortest = shapes.iter().map(|&(line, _)| line).min().unwrap_or(0);
        let longest = shapes.iter().map(|&(line, _)| line).max().unwrap_or(0);
        let period = shapes
            .iter()
            .map(|&(line, sets)| line + sets.trailing_zeros())
            .min()
            .unwrap_or(0);
        let classes = 1u64 << period.saturating_sub(longest);
        Common {
            shortest,
            longest,
            classes: classes.min(CLASSES as u64),
        }
    }
}

impl Common {
    /// The class of a line.
    #[inline(always)]
    fn class(self, line: u64) -> usize {
        let class = (line >> (self.longest - self.shortest)) & (self.classes - 1);
        class as usize & (CLASSES - 1)
    }

    /// The first and the last line of an access.
    #[inline(always)]
    fn lines(self, access: &Access, space: u64) -> (u64, u64) {
        let address = placed(access.addr, space);
        let last = address.wrapping_add(u64::from(access.size.max(1) - 1));
        (address >> self.shortest, last >> self.shortest)
    }
}

/// Turns accesses into batches of touches.
pub struct Front {
    common: Common,
    recent: Box<[u64; CLASSES]>,
    batch: Batch,
    /// Demand accesses.
    pub reads: u64,
    pub writes: u64,
    /// How many more lines than one they had.
    pub more_reads: u64,
    pub more_writes: u64,
}

/// No line has this number.
const NO_LINE: u64 = u64::MAX;

impl Front {
    pub fn new(common: Common) -> Front {
        Front {
            common,
            recent: Box::new([NO_LINE; CLASSES]),
            batch: Batch::new(),
            reads: 0,
            writes: 0,
            more_reads: 0,
            more_writes: 0,
        }
    }

    /// Whether a touch of this line can matter; from now on it is the last of its class.
    fn matters(&mut self, line: u64) -> bool {
        let recent = &mut self.recent[self.common.class(line)];
        std::mem::replace(recent, line) != line
    }

    /// Takes accesses of an address space; hands over batches that are full.
    pub fn take(&mut self, accesses: &[Access], space: u64, full: &mut impl FnMut(&mut Batch)) {
        let mut rest = accesses;
        while !rest.is_empty() {
            if self.batch.len == BATCH {
                self.flush(full);
            }
            let taken = match space {
                0 => self.plain(rest, |addr| addr),
                _ => self.plain(rest, |addr| placed(addr, space)),
            };
            rest = &rest[taken..];
            if let (Some(access), true) = (rest.first(), self.batch.len < BATCH) {
                self.special(access, space, full);
                rest = &rest[1..];
            }
        }
    }

    /// Takes accesses of one line each, as long as they fit; returns how many.
    #[inline(always)]
    fn plain(&mut self, accesses: &[Access], place: impl Fn(u64) -> u64) -> usize {
        let common = self.common;
        let recent = &mut *self.recent;
        let touches = &mut *self.batch.touches;
        let mut len = self.batch.len;
        let fit = accesses.len().min(BATCH - len);
        let mut taken = fit;
        // Sums of the kinds' numbers, and of the upper bit of each: prefetches.
        let (mut kinds, mut prefetches) = (0, 0);
        let within = (1 << common.shortest) - 1;
        for (i, access) in accesses[..fit].iter().enumerate() {
            let address = place(access.addr);
            let is_long = (address & within) + u64::from(access.size) > within + 1;
            if is_long || access.kind == Kind::Fetch {
                taken = i;
                break;
            }
            let line = address >> common.shortest;
            let kind = access.kind as u64;
            kinds += kind;
            prefetches += kind / Kind::Prefetch as u64;
            let recent = &mut recent[common.class(line)];
            let before = std::mem::replace(recent, line);
            touches[len & (BATCH - 1)] = Touch {
                line,
                point: access.point.0,
                tag: kind as u16 * WRITE,
            };
            len += usize::from(before != line);
        }
        self.batch.len = len;
        let writes = kinds - prefetches * Kind::Prefetch as u64;
        self.writes += writes;
        self.reads += taken as u64 - writes - prefetches;
        taken
    }

    /// Takes an access of several lines, or a fetch.
    #[inline(never)]
    fn special(&mut self, access: &Access, space: u64, full: &mut impl FnMut(&mut Batch)) {
        let tag = match access.kind {
            Kind::Read => READ,
            Kind::Write => WRITE,
            Kind::Prefetch => UNCOUNTED,
            Kind::Fetch => return,
        };
        self.reads += u64::from(tag == READ);
        self.writes += u64::from(tag == WRITE);
        let (line, last) = self.common.lines(access, space);
        let point = access.point.0;
        self.several(Touch { line, point, tag }, last, full);
    }

    /// An access of several lines, from that of `touch` to the last.
    fn several(&mut self, mut touch: Touch, last: u64, full: &mut impl FnMut(&mut Batch)) {
        let all = u64::MAX >> self.common.shortest;
        let tag = touch.tag;
        let more = last.wrapping_sub(touch.line) & all;
        self.more_reads += if tag == READ { more } else { 0 };
        self.more_writes += if tag == WRITE { more } else { 0 };
        let mut part = None;
        loop {
            if self.matters(touch.line) {
                if self.batch.len == BATCH {
                    self.batch.open = part.is_some();
                    self.flush(full);
                    part = part.map(|_| 0);
                    self.batch.parts.extend(part.map(|_: u16| tag));
                }
                let part = *part.get_or_insert_with(|| {
                    self.batch.parts.push(tag);
                    self.batch.parts.len() as u16 - 1
                });
                touch.tag = PART + part;
                self.batch.push(touch);
            }
            if touch.line == last {
                return;
            }
            touch.line = (touch.line + 1) & all;
        }
    }

    /// Hands over what there is.
    pub fn flush(&mut self, full: &mut impl FnMut(&mut Batch)) {
        if self.batch.len > 0 {
            full(&mut self.batch);
            self.batch.clear();
        }
    }
}
