//! Page tables of all address spaces, as the processor would find them in physical memory.
//!
//! A table is a frame of 512 entries of 8 bytes. The entry whose lowest translated bit is `shift`
//! lies in the table that covers bits from `shift + 9` on. Tables and pages are made when they are
//! first needed, tables from the root down, then the page; tables stay when pages go.
use crate::config::PageSize;
use crate::frames::Frames;
use crate::hash::PageMap;
use crate::plan::PagePlan;

/// A page, as the tables have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    pub size: PageSize,
    /// Where it begins in physical memory.
    pub start: u64,
    /// Shared after a fork: the first write of either side gets a page of its own.
    pub copied: bool,
}

#[derive(Clone, Debug, Default)]
struct Space {
    /// By the shift of their entries, and the address bits above them: where tables are.
    tables: PageMap<(u32, u64), u64>,
    /// By shift and number.
    pages: PageMap<(u32, u64), Page>,
}

#[derive(Clone, Debug)]
pub struct Tables {
    levels: u32,
    pub plan: PagePlan,
    frames: Frames,
    spaces: PageMap<u32, Space>,
}

impl Tables {
    pub fn new(levels: u32, plan: PagePlan) -> Tables {
        Tables {
            levels,
            plan,
            frames: Frames::default(),
            spaces: PageMap::default(),
        }
    }

    /// The shift of the root's entries.
    pub fn root(&self) -> u32 {
        12 + 9 * (self.levels - 1)
    }

    /// The bits of an address that are translated.
    pub fn translated(&self, address: u64) -> u64 {
        address & ((1 << (self.root() + 9)) - 1)
    }

    /// The physical address of the entry with this shift that translates an address.
    pub fn entry(&mut self, space: u32, address: u64, shift: u32) -> u64 {
        let (frames, space) = (&mut self.frames, self.spaces.entry(space).or_default());
        let table = space.tables.entry((shift, address >> (shift + 9)));
        let table = *table.or_insert_with(|| frames.take(PageSize::SMALL));
        table + (address >> shift) % 512 * 8
    }

    /// The page of an address; made if there is none. Its tables are there by then.
    pub fn page(&mut self, space: u32, address: u64) -> Page {
        let size = self.plan.size(space, address);
        let frames = &mut self.frames;
        let pages = &mut self.spaces.entry(space).or_default().pages;
        *pages.entry((size.shift(), size.page(address))).or_insert_with(|| Page {
            size,
            start: frames.take(size),
            copied: false,
        })
    }

    /// Whether the page of an address is shared since a fork.
    pub fn is_copied(&self, space: u32, address: u64, size: PageSize) -> bool {
        let pages = self.spaces.get(&space).map(|space| &space.pages);
        let page = pages.and_then(|pages| pages.get(&(size.shift(), size.page(address))));
        page.is_some_and(|page| page.copied)
    }

    /// A shared page is written to: the writer gets a copy.
    pub fn copy(&mut self, space: u32, address: u64, size: PageSize) {
        let start = self.frames.take(size);
        let pages = &mut self.spaces.entry(space).or_default().pages;
        if let Some(page) = pages.get_mut(&(size.shift(), size.page(address))) {
            (page.start, page.copied) = (start, false);
        }
    }

    /// `child` begins with the pages of `parent`; it has its own tables.
    pub fn fork(&mut self, parent: u32, child: u32) {
        let pages = &mut self.spaces.entry(parent).or_default().pages;
        pages.values_mut().for_each(|page| page.copied = true);
        let pages = pages.clone();
        let tables = PageMap::default();
        self.spaces.insert(child, Space { tables, pages });
    }

    /// Pages that have a byte of [first, last] go.
    pub fn unmap(&mut self, space: u32, first: u64, last: u64) {
        if let Some(space) = self.spaces.get_mut(&space) {
            let within = |&(shift, page): &(u32, u64)| (first >> shift..=last >> shift).contains(&page);
            space.pages.retain(|key, _| !within(key));
        }
    }
}
