//! Reuse distances, exactly: how many different lines were touched since a line was touched last.
//!
//! The distance is the line's depth in a stack of all lines by last use. What has to be fast is
//! what is common, so the stack is kept in three parts:
//! - the line touched last: a repeat is left out by the sweep's front ([`crate::sweep`]), with one
//!   class;
//! - the fifteen before it and itself: a list in registers, searched and moved without a branch;
//! - all others: a [`Timeline`](timeline), in which a line gets its place when it falls off the
//!   list. Lines fall off in the order of their last use, so places are in that order too, and a
//!   line's distance is sixteen plus the number of lines at later places.
//!
//! Lines have numbers: that of their page of 64 lines, which a hash table knows, and the place in
//! it. Memory grows with the number of pages that are touched: this is the only simulation that
//! does.
//!
//! All threads make one sequence. Prefetches touch lines but are not counted.
mod curves;
mod histogram;
mod timeline;

use crate::config::{ConfigError, LEAST_LINE, MOST_LINE};
use crate::engine::placed;
use crate::sweep::front::{Batch, Common, Front, Touch, BATCH, READ, UNCOUNTED, WRITE};
use crate::sweep::lanes::{table, touch, Lane, Moves};
use crate::sweep::pages::Pages;
use crate::sweep::spaces::Spaces;
pub use curves::{Curve, Curves};
pub use histogram::{Bucket, CurvePoint, Histogram, Touches};
use memtrail_model::{Access, AccessSink, Event, Kind, Reply, Thread};
use safe_arch::m128i;
pub(crate) use timeline::Timeline;

/// Lines of a page (logarithm).
const PAGE: u32 = 6;
/// Vectors of the list.
const VECTORS: usize = 4;
const LISTED: usize = VECTORS * u32::LANES;
/// Where a line is that is on the list or was never touched.
const NOWHERE: u32 = u32::MAX;
/// Buckets of a reference point.
pub const POINT_BUCKETS: usize = 34;

/// What a reference point's touches had for distances: none (0); 1; 2 and 3; 4 to 7; and so on; the
/// last: never touched before.
pub type PointBuckets = [u64; POINT_BUCKETS];

/// The bucket of a distance.
pub fn point_bucket(distance: Option<u64>) -> usize {
    match distance {
        None => POINT_BUCKETS - 1,
        Some(0) => 0,
        Some(distance) => (distance.ilog2() as usize + 1).min(POINT_BUCKETS - 2),
    }
}

/// A touch of a line that was not on the list.
#[derive(Clone, Copy, Default)]
struct Fallen {
    line: u32,
    /// What fell off; 0: nothing.
    off: u32,
    point: u32,
    tag: u16,
}

/// The stack of all lines.
struct Stack {
    pages: Pages<u32>,
    list: [m128i; VECTORS],
    moves: Box<Moves<VECTORS>>,
    /// Places of lines in the timeline.
    places: Vec<u32>,
    timeline: Timeline,
    histogram: Histogram,
    points: Option<Vec<PointBuckets>>,
    fallen: Box<[Fallen; BATCH]>,
}

impl Stack {
    /// The number of a line.
    #[inline(always)]
    fn number(&mut self, line: u64) -> u32 {
        if self.pages.room() == 0 {
            self.pages.grow();
        }
        let page = self.pages.number(line >> PAGE);
        assert!(page < 1 << (32 - PAGE), "fewer than 2^32 lines");
        (page << PAGE) | (line as u32 & ((1 << PAGE) - 1))
    }

    fn count(&mut self, distance: Option<u64>, kind: u16, point: u32) {
        let slot = self.histogram.slot(distance);
        match kind {
            READ => slot.reads += 1,
            WRITE => slot.writes += 1,
            _ => return,
        }
        if let Some(points) = &mut self.points {
            bucket(points, point, point_bucket(distance), 1);
        }
    }

    fn take(&mut self, batch: &Batch) {
        let mut near = [[0u64; 3]; LISTED + 1];
        let mut n = 0;
        let mut list = self.list;
        for &Touch { line, point, tag } in batch.touches() {
            let line = self.number(line);
            let kind = batch.kind(tag);
            let off = u32::last(list[VECTORS - 1]);
            let distance = touch::<u32, VECTORS>(&mut list, line, &self.moves);
            near[distance.min(LISTED)][usize::from(kind / WRITE).min(2)] += 1;
            self.fallen[n & (BATCH - 1)] = Fallen { line, off, point, tag };
            n += usize::from(distance == LISTED);
            if let Some(points) = &mut self.points {
                if distance < LISTED && kind != UNCOUNTED {
                    bucket(points, point, point_bucket(Some(distance as u64)), 1);
                }
            }
        }
        self.list = list;
        for (distance, &[reads, writes, _]) in near[..LISTED].iter().enumerate() {
            *self.histogram.slot(Some(distance as u64)) += Touches { reads, writes };
        }
        let most = (self.pages.most() as usize + 1) << PAGE;
        if self.places.len() < most {
            self.places.resize(most.next_power_of_two(), NOWHERE);
        }
        for i in 0..n {
            let fallen = self.fallen[i];
            self.far(fallen, batch.kind(fallen.tag));
        }
    }

    fn far(&mut self, Fallen { line, off, point, .. }: Fallen, kind: u16) {
        let place = std::mem::replace(&mut self.places[line as usize], NOWHERE);
        let distance = (place != NOWHERE).then(|| LISTED as u64 + self.timeline.remove(place));
        self.count(distance, kind, point);
        if off != 0 {
            if self.timeline.full() {
                let places = &mut self.places;
                self.timeline.compact(|line, place| places[line as usize] = place);
            }
            self.places[off as usize] = self.timeline.push(off);
        }
    }
}

fn bucket(points: &mut Vec<PointBuckets>, point: u32, bucket: usize, n: u64) {
    let point = point as usize;
    if points.len() <= point {
        points.resize(point + 1, [0; POINT_BUCKETS]);
    }
    points[point][bucket] += n;
}

/// Finds reuse distances. See [`Histogram`] for an example.
pub struct Reuse {
    line: u32,
    spaces: Spaces,
    front: Front,
    stack: Stack,
    /// By reference point, all touches.
    totals: Vec<u64>,
}

impl Reuse {
    /// Of lines of `line` bytes.
    pub fn new(line: u32) -> Result<Reuse, ConfigError> {
        if !line.is_power_of_two() || !(LEAST_LINE..=MOST_LINE).contains(&line) {
            return Err(ConfigError::Field {
                level: "reuse distances".to_string(),
                field: "line",
                value: line.to_string(),
                why: format!("a line is a power of two from {LEAST_LINE} to {MOST_LINE} bytes"),
            });
        }
        Ok(Reuse {
            line,
            spaces: Spaces::default(),
            front: Front::new(Common::of(&[(line.ilog2(), 1)])),
            stack: Stack {
                pages: Pages::long(),
                list: Default::default(),
                moves: table::<u32, VECTORS>(|found| (found + 1).min(LISTED)),
                places: Vec::new(),
                timeline: Timeline::new(),
                histogram: Histogram::new(line),
                points: None,
                fallen: Box::new([Fallen::default(); BATCH]),
            },
            totals: Vec::new(),
        })
    }

    /// Also by reference point. To be called before the first access.
    pub fn by_point(mut self) -> Reuse {
        self.stack.points = Some(Vec::new());
        self
    }

    /// Says which address space (process) a thread belongs to; it is 0 otherwise. To be called
    /// before the thread's first access.
    pub fn set_space(&mut self, thread: Thread, space: u32) {
        self.spaces.set(thread, space);
    }

    /// What was found so far.
    pub fn histogram(&mut self) -> Histogram {
        let stack = &mut self.stack;
        self.front.flush(&mut |batch| stack.take(batch));
        let mut histogram = self.stack.histogram.clone();
        let counted = histogram.touches();
        // What the front has left out.
        *histogram.slot(Some(0)) += Touches {
            reads: self.front.reads + self.front.more_reads - counted.reads,
            writes: self.front.writes + self.front.more_writes - counted.writes,
        };
        histogram
    }

    /// By reference point, if that was asked for; points without touches may be missing at the end.
    pub fn points(&mut self) -> Vec<PointBuckets> {
        let stack = &mut self.stack;
        self.front.flush(&mut |batch| stack.take(batch));
        let mut points = self.stack.points.clone().unwrap_or_default();
        for (point, &total) in self.totals.iter().enumerate() {
            let counted: u64 = points.get(point).map_or(0, |buckets| buckets.iter().sum());
            bucket(&mut points, point as u32, 0, total - counted);
        }
        points
    }

    /// Counts all touches by reference point: what the front leaves out follows from that.
    fn total(&mut self, access: &Access, address: u64) {
        if matches!(access.kind, Kind::Read | Kind::Write) {
            let point = access.point.index();
            if self.totals.len() <= point {
                self.totals.resize(point + 1, 0);
            }
            let first = address % u64::from(self.line);
            let last = first + u64::from(access.size.max(1) - 1);
            self.totals[point] += 1 + last / u64::from(self.line);
        }
    }
}

impl AccessSink for Reuse {
    fn event(&mut self, event: Event<'_>) -> Reply {
        if let Event::Space { thread, space } = event {
            self.set_space(thread, space);
        }
        Reply::NOTHING
    }

    fn accesses(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        let space = self.spaces.of(first.thread);
        if self.stack.points.is_some() {
            batch
                .iter()
                .for_each(|access| self.total(access, placed(access.addr, space)));
        }
        let stack = &mut self.stack;
        self.front.take(batch, space, &mut |full| stack.take(full));
    }
}
