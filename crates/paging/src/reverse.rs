//! The reverse page table: which page of which process lies in a frame (paper 004, III.B).
//!
//! It is made of updates. A page that was unmapped is remembered until its frame is given to another,
//! because what caches still hold of it is written back later.
use crate::config::PageSize;
use crate::tables::TableUpdate;
use std::collections::BTreeMap;

/// What a frame holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Pages of address spaces: several, if they share it. The last one first.
    Page {
        size: PageSize,
        users: Vec<User>,
    },
    Table {
        space: u32,
        vaddr: u64,
        shift: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct User {
    space: u32,
    vaddr: u64,
    /// It is still mapped.
    mapped: bool,
}

/// What lies at a physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    Data {
        space: u32,
        vaddr: u64,
    },
    /// An entry of a page table: the first address that it translates.
    Table {
        space: u32,
        vaddr: u64,
    },
}

/// Frames, and what they hold now.
#[derive(Clone, Debug, Default)]
pub struct ReverseTable {
    frames: BTreeMap<u64, Content>,
}

impl ReverseTable {
    pub fn update(&mut self, update: &TableUpdate) {
        match *update {
            TableUpdate::Table {
                frame,
                space,
                vaddr,
                shift,
            } => drop(self.frames.insert(frame, Content::Table { space, vaddr, shift })),
            TableUpdate::Set {
                frame,
                size,
                space,
                vaddr,
            } => self.set(frame, size, space, vaddr),
            TableUpdate::Clear {
                frame, space, vaddr, ..
            } => self.clear(frame, space, vaddr),
        }
    }

    fn set(&mut self, frame: u64, size: PageSize, space: u32, vaddr: u64) {
        let user = User {
            space,
            vaddr,
            mapped: true,
        };
        match self.frames.get_mut(&frame) {
            Some(Content::Page { size: known, users }) if *known == size => {
                // Whoever had it before and has it no more is forgotten.
                users.retain(|user| user.mapped);
                users.insert(0, user);
            }
            _ => drop(self.frames.insert(
                frame,
                Content::Page {
                    size,
                    users: vec![user],
                },
            )),
        }
    }

    fn clear(&mut self, frame: u64, space: u32, vaddr: u64) {
        if let Some(Content::Page { users, .. }) = self.frames.get_mut(&frame) {
            let gone = users
                .iter_mut()
                .filter(|user| (user.space, user.vaddr) == (space, vaddr));
            gone.for_each(|user| user.mapped = false);
        }
    }

    /// What lies at a physical address; of a page that several processes share, the one of `space`,
    /// if it is one of them.
    pub fn find(&self, paddr: u64, space: Option<u32>) -> Option<Placed> {
        let (&frame, content) = self.frames.range(..=paddr).next_back()?;
        let within = paddr - frame;
        match content {
            Content::Table { space, vaddr, shift } => {
                let (space, vaddr) = (*space, vaddr.wrapping_add((within / 8) << shift));
                (within < PageSize::SMALL.bytes()).then_some(Placed::Table { space, vaddr })
            }
            Content::Page { size, users } => {
                let asked = users.iter().find(|user| Some(user.space) == space);
                let mapped = || users.iter().find(|user| user.mapped);
                let user = asked.or_else(mapped).or(users.first())?;
                (within < size.bytes()).then_some(Placed::Data {
                    space: user.space,
                    vaddr: user.vaddr.wrapping_add(within),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = 1 << 40;

    fn set(frame: u64, size: PageSize, space: u32, vaddr: u64) -> TableUpdate {
        TableUpdate::Set {
            frame,
            size,
            space,
            vaddr,
        }
    }

    #[test]
    fn frames_are_found_shared_remembered_and_reused() {
        let mut table = ReverseTable::default();
        let data = |space, vaddr| Some(Placed::Data { space, vaddr });
        table.update(&set(0x3000, PageSize::SMALL, 1, 0x7000));
        table.update(&set(0x3000, PageSize::SMALL, 2, 0x9000));
        table.update(&set(HUGE, PageSize::HUGE, 1, 0x20_0000));
        assert_eq!(table.find(0x3040, Some(1)), data(1, 0x7040));
        assert_eq!(table.find(0x3040, Some(2)), data(2, 0x9040));
        assert_eq!(table.find(HUGE + 0x12345, None), data(1, 0x21_2345));
        assert_eq!(table.find(0x4000, None), None);
        assert_eq!(table.find(HUGE + (2 << 20), None), None);
        // Unmapped, but not yet given to another.
        let clear = |space, vaddr| TableUpdate::Clear {
            frame: 0x3000,
            size: PageSize::SMALL,
            space,
            vaddr,
        };
        table.update(&clear(2, 0x9000));
        assert_eq!(table.find(0x3040, None), data(1, 0x7040));
        table.update(&clear(1, 0x7000));
        assert_eq!(table.find(0x3040, Some(1)), data(1, 0x7040));
        table.update(&set(0x3000, PageSize::SMALL, 3, 0xa000));
        assert_eq!(table.find(0x3040, Some(1)), data(3, 0xa040));
        table.update(&TableUpdate::Table {
            frame: 0x3000,
            space: 1,
            vaddr: 0x4000_0000,
            shift: 12,
        });
        let entry = Placed::Table {
            space: 1,
            vaddr: 0x4000_8000,
        };
        assert_eq!(table.find(0x3040, None), Some(entry));
    }
}
