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

/// A change of page tables, as a kernel could tell of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableUpdate {
    /// A frame holds a table now, whose entries with this shift translate addresses from `vaddr` on.
    Table {
        frame: u64,
        space: u32,
        vaddr: u64,
        shift: u32,
    },
    /// A page of an address space lies here now.
    Set {
        frame: u64,
        size: PageSize,
        space: u32,
        vaddr: u64,
    },
    /// It no longer does.
    Clear {
        frame: u64,
        size: PageSize,
        space: u32,
        vaddr: u64,
    },
}

#[derive(Clone, Debug)]
pub struct Tables {
    levels: u32,
    /// What has changed since it was asked for, if that is wanted.
    pub updates: Option<Vec<TableUpdate>>,
    pub plan: PagePlan,
    frames: Frames,
    spaces: PageMap<u32, Space>,
}

impl Tables {
    pub fn new(levels: u32, plan: PagePlan) -> Tables {
        Tables {
            levels,
            updates: None,
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
        let key = (shift, address >> (shift + 9));
        let tables = &mut self.spaces.entry(space).or_default().tables;
        let table = match tables.get(&key) {
            Some(&table) => table,
            None => {
                let frame = self.frames.take(PageSize::SMALL);
                tables.insert(key, frame);
                let vaddr = key.1 << (shift + 9);
                let made = TableUpdate::Table {
                    frame,
                    space,
                    vaddr,
                    shift,
                };
                self.updates.iter_mut().for_each(|updates| updates.push(made));
                frame
            }
        };
        table + (address >> shift) % 512 * 8
    }

    /// The page of an address; made if there is none. Its tables are there by then.
    pub fn page(&mut self, space: u32, address: u64) -> Page {
        let size = self.plan.size(space, address);
        let key = (size.shift(), size.page(address));
        let pages = &mut self.spaces.entry(space).or_default().pages;
        if let Some(&page) = pages.get(&key) {
            return page;
        }
        let page = Page {
            size,
            start: self.frames.take(size),
            copied: false,
        };
        pages.insert(key, page);
        self.tell(true, space, key, &page);
        page
    }

    /// Tells of a page that came or went.
    fn tell(&mut self, came: bool, space: u32, (shift, number): (u32, u64), page: &Page) {
        let Some(updates) = &mut self.updates else { return };
        let (frame, size, vaddr) = (page.start, page.size, number << shift);
        updates.push(match came {
            true => TableUpdate::Set {
                frame,
                size,
                space,
                vaddr,
            },
            false => TableUpdate::Clear {
                frame,
                size,
                space,
                vaddr,
            },
        });
    }

    /// Whether the page of an address is shared since a fork.
    pub fn is_copied(&self, space: u32, address: u64, size: PageSize) -> bool {
        let pages = self.spaces.get(&space).map(|space| &space.pages);
        let page = pages.and_then(|pages| pages.get(&(size.shift(), size.page(address))));
        page.is_some_and(|page| page.copied)
    }

    /// A shared page is written to: the writer gets a copy.
    pub fn copy(&mut self, space: u32, address: u64, size: PageSize) {
        let key = (size.shift(), size.page(address));
        let pages = &mut self.spaces.entry(space).or_default().pages;
        let Some(page) = pages.get_mut(&key) else { return };
        let before = *page;
        (page.start, page.copied) = (self.frames.take(size), false);
        let after = *page;
        self.tell(false, space, key, &before);
        self.tell(true, space, key, &after);
    }

    /// `child` begins with the pages of `parent`; it has its own tables.
    pub fn fork(&mut self, parent: u32, child: u32) {
        let pages = &mut self.spaces.entry(parent).or_default().pages;
        pages.values_mut().for_each(|page| page.copied = true);
        let pages = pages.clone();
        self.unmap(child, 0, u64::MAX);
        for (&key, page) in in_order(&pages) {
            self.tell(true, child, key, page);
        }
        let tables = PageMap::default();
        self.spaces.insert(child, Space { tables, pages });
    }

    /// Pages that have a byte of [first, last] go.
    pub fn unmap(&mut self, space: u32, first: u64, last: u64) {
        let Some(known) = self.spaces.get_mut(&space) else {
            return;
        };
        let within = |&(shift, page): &(u32, u64)| (first >> shift..=last >> shift).contains(&page);
        let gone: PageMap<(u32, u64), Page> = known.pages.extract_if(|key, _| within(key)).collect();
        for (&key, page) in in_order(&gone) {
            self.tell(false, space, key, page);
        }
    }
}

/// Pages in the order of their addresses, so that what is told does not depend on a map's order.
fn in_order(pages: &PageMap<(u32, u64), Page>) -> Vec<(&(u32, u64), &Page)> {
    let mut pages: Vec<_> = pages.iter().collect();
    pages.sort_unstable_by_key(|(&(shift, number), _)| (number << shift, shift));
    pages
}
