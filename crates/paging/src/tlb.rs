//! One array of translations: sets of ways, the least recently used entry makes room.

/// What an entry is found by. Entries of page-walk caches have the same form: the number of the
/// area that a directory entry covers, and its shift.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tag {
    pub space: u32,
    pub page: u64,
    pub shift: u32,
}

impl Tag {
    pub fn of(space: u32, address: u64, shift: u32) -> Tag {
        Tag {
            space,
            page: address >> shift,
            shift,
        }
    }

    /// Whether it translates an address of [first, last].
    fn overlaps(&self, space: u32, first: u64, last: u64) -> bool {
        self.space == space && (first >> self.shift..=last >> self.shift).contains(&self.page)
    }
}

/// A set-associative array under LRU.
#[derive(Clone, Debug)]
pub struct Tlb {
    sets: u64,
    ways: usize,
    /// Set after set, in each the most recently used entry first.
    entries: Vec<Option<Tag>>,
}

impl Tlb {
    pub fn new(entries: u32, ways: u32) -> Tlb {
        Tlb {
            sets: u64::from(entries / ways),
            ways: ways as usize,
            entries: vec![None; entries as usize],
        }
    }

    fn set(&mut self, tag: &Tag) -> &mut [Option<Tag>] {
        let first = (tag.page % self.sets) as usize * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    /// Whether it is there; then it is the most recently used one of its set.
    pub fn look_up(&mut self, tag: Tag) -> bool {
        let set = self.set(&tag);
        let found = set.iter().position(|entry| *entry == Some(tag));
        if let Some(at) = found {
            set[..=at].rotate_right(1);
        }
        found.is_some()
    }

    /// Puts an entry in that is not there. The least recently used one of the set goes, unless a way
    /// is free.
    pub fn insert(&mut self, tag: Tag) {
        let set = self.set(&tag);
        let room = set.iter().position(Option::is_none).unwrap_or(set.len() - 1);
        set[room] = Some(tag);
        set[..=room].rotate_right(1);
    }

    /// Takes out whatever translates an address of [first, last].
    pub fn invalidate(&mut self, space: u32, first: u64, last: u64) {
        for set in self.entries.chunks_mut(self.ways) {
            let mut kept = 0;
            for at in 0..set.len() {
                if set[at].is_some_and(|tag| !tag.overlaps(space, first, last)) {
                    set.swap(kept, at);
                    kept += 1;
                }
            }
            set[kept..].fill(None);
        }
    }
}
