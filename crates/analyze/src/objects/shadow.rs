//! Which object is at an address, in a few nanoseconds.
//!
//! **Idea.** A page (4 KB) either is one object's as a whole or has a table with an entry for each
//! *granule* (16 bytes). Pages are filled when they are first asked for, from the ranges that the
//! object map keeps, so that a gigabyte costs nothing until it is used; what changes later is
//! painted over what is filled.
//!
//! **An entry** says: nothing is known yet; the whole granule is this object's (*exact*); some of
//! it is this object's, to be checked against where the object is; or ask the ranges. The third is
//! for the ends of blocks whose size is no multiple of 16, which are frequent: the check is a
//! comparison of what has to be loaded anyway.
use crate::hash::NumberMap;

const PAGE: u32 = 12;
const GRANULE: u32 = 4;
const GRANULES: usize = 1 << (PAGE - GRANULE);
/// Pages of a leaf: 2 MB.
const LEAF: u32 = 9;
const PAGES: usize = 1 << LEAF;
/// Leaves that are found without hashing.
const KNOWN: usize = 64;

/// What the shadow says of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// It is this object's.
    Exactly(u32),
    /// If it lies in this object and that has no others in it, it is this one's; otherwise ask.
    Perhaps(u32),
    /// Ask the ranges.
    Ask,
    /// Fill the page first.
    Nothing,
}

/// Packed: 0 for nothing, otherwise two bits of what kind and 30 of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Entry(u32);

impl Entry {
    const NOTHING: Entry = Entry(0);
    const ASK: Entry = Entry(Entry::INEXACT);
    const INEXACT: u32 = 1 << 30;
    const TABLE: u32 = 1 << 31;
    const NUMBER: u32 = (1 << 30) - 1;

    fn exact(id: u32) -> Entry {
        match id < Entry::NUMBER {
            true => Entry(id + 1),
            false => Entry::ASK,
        }
    }

    fn inexact(id: u32) -> Entry {
        Entry(Entry::exact(id).0 | Entry::INEXACT)
    }

    fn table(self) -> Option<usize> {
        (self.0 & Entry::TABLE != 0).then_some((self.0 & !Entry::TABLE) as usize)
    }

    #[inline]
    fn seen(self) -> Seen {
        match self {
            Entry::NOTHING => Seen::Nothing,
            Entry::ASK => Seen::Ask,
            Entry(e) if e & Entry::INEXACT != 0 => Seen::Perhaps((e & Entry::NUMBER) - 1),
            Entry(e) => Seen::Exactly(e - 1),
        }
    }
}

/// A part of a page, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub start: u64,
    pub end: u64,
    pub id: u32,
    /// Nothing else is in this object.
    pub alone: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Shadow {
    leaves: Vec<[Entry; PAGES]>,
    /// By address of the leaf.
    places: NumberMap<u64, u32>,
    /// Leaf numbers and places, by low bits of the number.
    known: Vec<(u64, u32)>,
    tables: Vec<[Entry; GRANULES]>,
    unused: Vec<u32>,
}

impl Shadow {
    #[inline]
    pub fn look(&mut self, addr: u64) -> Seen {
        let number = addr >> (PAGE + LEAF);
        let page = (addr >> PAGE) as usize % PAGES;
        let leaf = match self.known.get(number as usize % KNOWN) {
            Some(&(known, leaf)) if known == number => leaf,
            _ => match self.find(number) {
                Some(leaf) => leaf,
                None => return Seen::Nothing,
            },
        };
        let entry = self.leaves[leaf as usize][page];
        match entry.table() {
            Some(table) => self.tables[table][(addr >> GRANULE) as usize % GRANULES].seen(),
            None => entry.seen(),
        }
    }

    #[cold]
    fn find(&mut self, number: u64) -> Option<u32> {
        let leaf = *self.places.get(&number)?;
        self.known.resize(KNOWN, (u64::MAX, 0));
        self.known[number as usize % KNOWN] = (number, leaf);
        Some(leaf)
    }

    /// Where the page's entry is, if there is a leaf for it.
    fn entry(&mut self, page: u64) -> Option<&mut Entry> {
        let leaf = *self.places.get(&(page >> LEAF))?;
        Some(&mut self.leaves[leaf as usize][page as usize % PAGES])
    }

    fn set(&mut self, page: u64, entry: Entry) {
        let Some(place) = self.entry(page) else { return };
        let before = std::mem::replace(place, entry);
        if let Some(table) = before.table() {
            self.unused.push(table as u32);
        }
    }

    /// The addresses of the page around an address.
    pub fn page_around(addr: u64) -> (u64, u64) {
        let start = addr >> PAGE << PAGE;
        (start, start.saturating_add(1 << PAGE))
    }

    /// Fills the page at an address with the parts it has, which leave nothing out.
    pub fn fill(&mut self, addr: u64, parts: &[Part]) {
        let number = addr >> (PAGE + LEAF);
        if !self.places.contains_key(&number) {
            self.places.insert(number, self.leaves.len() as u32);
            self.leaves.push([Entry::NOTHING; PAGES]);
        }
        if let [part] = parts {
            return self.set(addr >> PAGE, Entry::exact(part.id));
        }
        let mut granules = [Entry::NOTHING; GRANULES];
        for part in parts {
            paint(&mut granules, addr >> PAGE, part);
        }
        let table = match self.unused.pop() {
            Some(table) => {
                self.tables[table as usize] = granules;
                table
            }
            None => {
                self.tables.push(granules);
                self.tables.len() as u32 - 1
            }
        };
        self.set(addr >> PAGE, Entry(table | Entry::TABLE));
    }

    /// A range has become somebody's. The granules at its ends are asked for from now on unless the
    /// new one owns something of them and may be checked.
    pub fn paint(&mut self, part: &Part) {
        self.each_page(part.start, part.end, |shadow, page| {
            let (start, end) = (page << PAGE, (page << PAGE).saturating_add(1 << PAGE));
            let Some(&mut entry) = shadow.entry(page) else { return };
            if entry == Entry::NOTHING {
            } else if part.start <= start && part.end >= end {
                shadow.set(page, Entry::exact(part.id));
            } else if let Some(table) = entry.table() {
                paint(&mut shadow.tables[table], page, part);
            } else if entry != Entry::exact(part.id) {
                shadow.set(page, Entry::NOTHING);
            }
        });
    }

    /// What is known of a range is true no more.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.each_page(start, end, |shadow, page| shadow.set(page, Entry::NOTHING));
    }

    /// Goes through the pages of a range that have leaves.
    fn each_page(&mut self, start: u64, end: u64, mut visit: impl FnMut(&mut Shadow, u64)) {
        if start >= end {
            return;
        }
        let pages = start >> PAGE..((end - 1) >> PAGE) + 1;
        if pages.end - pages.start <= PAGES as u64 {
            return pages.for_each(|page| visit(self, page));
        }
        let (first, last) = (pages.start >> LEAF, (pages.end - 1) >> LEAF);
        let leaves: Vec<u64> = if last - first < self.places.len() as u64 {
            (first..=last).filter(|leaf| self.places.contains_key(leaf)).collect()
        } else {
            let there = self.places.keys().copied();
            there.filter(|leaf| (first..=last).contains(leaf)).collect()
        };
        for leaf in leaves {
            let from = pages.start.max(leaf << LEAF);
            let to = pages.end.min((leaf + 1) << LEAF);
            (from..to).for_each(|page| visit(self, page));
        }
    }
}

/// Gives a part of a page its granules.
fn paint(granules: &mut [Entry; GRANULES], page: u64, part: &Part) {
    let base = page << PAGE;
    let from = part.start.max(base) - base;
    let to = part.end.saturating_sub(base).min(1 << PAGE);
    let one = 1u64 << GRANULE;
    let whole = from.next_multiple_of(one) as usize >> GRANULE..to as usize >> GRANULE;
    if whole.start < whole.end {
        granules[whole].fill(Entry::exact(part.id));
    }
    for at in [from, to] {
        if at % one != 0 {
            let entry = &mut granules[at as usize >> GRANULE];
            *entry = match part.alone {
                true => Entry::inexact(part.id),
                false if matches!(entry.seen(), Seen::Perhaps(_)) => *entry,
                false => Entry::ASK,
            };
        }
    }
}
