//! Which pages are touched, by reference point, and how many within a stretch of time.
use crate::config::PageSize;
use crate::hash::PageMap;
use memtrail_model::{Access, AccessSink, Event, Kind, Reply, Thread};

/// Small pages of an area as large as a huge page, and aligned as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Region {
    pub space: u32,
    /// Its address in huge pages.
    pub number: u64,
    /// A bit for each small page that was touched.
    pub touched: [u64; 8],
}

impl Region {
    pub fn touched_pages(&self) -> u64 {
        self.touched.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    pub fn merge(&mut self, other: &Region) {
        for (mine, theirs) in self.touched.iter_mut().zip(other.touched) {
            *mine |= theirs;
        }
    }
}

/// Counts pages; wants accesses and what space they are in.
#[derive(Debug)]
pub struct Footprint {
    /// By thread.
    spaces: Vec<u32>,
    /// By point: the small page it touched last.
    last: Vec<(u32, u64)>,
    regions: PageMap<(u32, u32, u64), [u64; 8]>,
    /// Accesses in a stretch.
    window: u64,
    accesses: u64,
    /// By page: the number of the last stretch in which it was touched, from 1.
    seen: PageMap<(u32, u64), u64>,
    windows: Vec<u64>,
}

const NOWHERE: (u32, u64) = (u32::MAX, u64::MAX);

impl Footprint {
    /// With working sets of stretches of this many accesses.
    pub fn new(window: u64) -> Footprint {
        Footprint {
            spaces: Vec::new(),
            last: Vec::new(),
            regions: PageMap::default(),
            window: window.max(1),
            accesses: 0,
            seen: PageMap::default(),
            windows: Vec::new(),
        }
    }

    /// What each reference point touched, in no order.
    pub fn regions(&self) -> impl Iterator<Item = (u32, Region)> + '_ {
        let region = |(&(point, space, number), &touched): (&(u32, u32, u64), &[u64; 8])| {
            let region = Region { space, number, touched };
            (point, region)
        };
        self.regions.iter().map(region)
    }

    /// By stretch: small pages that were touched in it.
    pub fn windows(&self) -> &[u64] {
        &self.windows
    }

    /// Small pages touched at all.
    pub fn pages(&self) -> u64 {
        self.seen.len() as u64
    }

    fn touch(&mut self, point: usize, space: u32, page: u64) {
        let now = self.windows.len() as u64;
        let seen = self.seen.entry((space, page)).or_default();
        if *seen != now {
            *seen = now;
            if let Some(pages) = self.windows.last_mut() {
                *pages += 1;
            }
        }
        if self.last.len() <= point {
            self.last.resize(point + 1, NOWHERE);
        }
        self.last[point] = (space, page);
        let (region, bit) = (page / 512, page % 512);
        let touched = self.regions.entry((point as u32, space, region)).or_default();
        touched[(bit / 64) as usize] |= 1 << (bit % 64);
    }

    fn access(&mut self, space: u32, access: &Access) {
        if self.accesses % self.window == 0 {
            self.windows.push(0);
            self.last.fill(NOWHERE);
        }
        self.accesses += 1;
        let point = access.point.index();
        let end = access.addr.saturating_add(u64::from(access.size.max(1)) - 1);
        let (first, end) = (PageSize::SMALL.page(access.addr), PageSize::SMALL.page(end));
        if first == end && self.last.get(point) == Some(&(space, first)) {
            return;
        }
        (first..=end).for_each(|page| self.touch(point, space, page));
    }

    fn space(&self, thread: Thread) -> u32 {
        self.spaces.get(thread.0 as usize).copied().unwrap_or(0)
    }
}

impl AccessSink for Footprint {
    fn accesses(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        let space = self.space(first.thread);
        let data = batch.iter().filter(|access| access.kind != Kind::Fetch);
        data.for_each(|access| self.access(space, access));
    }

    fn event(&mut self, event: Event<'_>) -> Reply {
        if let Event::Space { thread, space } = event {
            let at = thread.0 as usize;
            if self.spaces.len() <= at {
                self.spaces.resize(at + 1, 0);
            }
            self.spaces[at] = space;
        }
        Reply::NOTHING
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::Point;

    #[test]
    fn pages_regions_and_working_sets_are_counted() {
        let mut footprint = Footprint::new(3);
        let access = |point: u32, addr: u64, size: u32| Access {
            pc: 0,
            addr,
            size,
            point: Point(point),
            thread: Thread(0),
            kind: Kind::Read,
        };
        footprint.accesses(&[
            access(0, 0x0, 8),
            access(0, 0x8, 8),
            // Two pages at once.
            access(1, 0x1ffc, 8),
            access(0, 0x1000, 8),
            access(0, 0x20_0000, 8),
        ]);
        assert_eq!(footprint.pages(), 4);
        assert_eq!(footprint.windows(), [3, 2]);
        let mut regions: Vec<(u32, u64, u64)> = footprint
            .regions()
            .map(|(point, region)| (point, region.number, region.touched[0]))
            .collect();
        regions.sort_unstable();
        assert_eq!(regions, [(0, 0, 0b11), (0, 1, 0b1), (1, 0, 0b110)]);
    }
}
