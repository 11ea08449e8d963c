//! Groups of objects: what tables show. Everything that is remembered of dead objects is here.
use super::Kind;
use crate::hash::NumberMap;
use memtrail_model::Thread;

/// What the objects of a group have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Common {
    /// Nothing is known of them.
    Unknown,
    /// Heap blocks by call path: the node of the call that asked for them, wrappers not counted.
    Block {
        node: u32,
    },
    /// Heap blocks below the threshold.
    Small,
    /// Mapped from the file or area with this text number.
    File {
        source: u32,
    },
    /// Anonymous memory by the call path that mapped it.
    Anonymous {
        node: u32,
    },
    /// The heap segment, where there is no block.
    Break,
    /// Anonymous memory that has heap blocks in it, where there is none.
    Arena,
    Stack {
        thread: Thread,
    },
    /// The program gave it this name.
    Name {
        text: u32,
    },
    /// Made by [`super::Objects::new_group`]: the how-manieth.
    Given {
        kind: Kind,
        number: u32,
    },
}

impl Common {
    pub fn kind(&self) -> Kind {
        match *self {
            Common::Unknown => Kind::Unknown,
            Common::Block { .. } | Common::Small => Kind::Heap,
            Common::File { .. } => Kind::File,
            Common::Anonymous { .. } => Kind::Anonymous,
            Common::Break | Common::Arena => Kind::Allocator,
            Common::Stack { .. } => Kind::Stack,
            Common::Name { .. } => Kind::Named,
            Common::Given { kind, .. } => kind,
        }
    }
}

/// What is known of a group. Objects that a forked process got with its memory are in no number.
#[derive(Clone, Debug)]
pub struct Group {
    pub common: Common,
    /// Objects that there have been; those that moved or grew count once.
    pub objects: u64,
    /// Their bytes when they were made, and all that they grew by.
    pub bytes: u64,
    pub live: u64,
    pub live_bytes: u64,
    pub most_live: u64,
    pub most_live_bytes: u64,
    /// How often one was resized.
    pub resized: u64,
    /// Of those that ended: how many, and for how many accesses of the whole run they lived, in sum
    /// and at most.
    pub ended: u64,
    pub lifetime: u128,
    pub longest: u64,
    sizes: [(u64, u64); 4],
}

impl Group {
    fn new(common: Common) -> Group {
        Group {
            common,
            objects: 0,
            bytes: 0,
            live: 0,
            live_bytes: 0,
            most_live: 0,
            most_live_bytes: 0,
            resized: 0,
            ended: 0,
            lifetime: 0,
            longest: 0,
            sizes: [(0, 0); 4],
        }
    }

    /// The size that most objects had when they were made; found for certain if more than a fifth
    /// had it.
    pub fn element_bytes(&self) -> Option<u64> {
        let most = self.sizes.iter().filter(|s| s.1 > 0).max_by_key(|s| s.1);
        most.map(|s| s.0)
    }

    /// An object is made, or comes from another group.
    pub(super) fn join(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
        self.live += 1;
        self.grow(0, bytes);
        if let Some(known) = self.sizes.iter_mut().find(|s| s.0 == bytes && s.1 > 0) {
            known.1 += 1;
        } else if let Some(free) = self.sizes.iter_mut().find(|s| s.1 == 0) {
            *free = (bytes, 1);
        } else {
            self.sizes.iter_mut().for_each(|s| s.1 -= 1);
        }
    }

    /// A living one is no longer one of this group.
    pub(super) fn part(&mut self, bytes: u64) {
        self.objects -= 1;
        self.bytes -= bytes;
        self.die(bytes);
    }

    pub(super) fn die(&mut self, bytes: u64) {
        self.live -= 1;
        self.live_bytes -= bytes;
    }

    /// One that had died was alive after all.
    pub(super) fn revive(&mut self, bytes: u64) {
        self.live += 1;
        self.grow(0, bytes);
    }

    pub(super) fn grow(&mut self, from: u64, to: u64) {
        self.live_bytes = self.live_bytes - from + to;
        self.most_live = self.most_live.max(self.live);
        self.most_live_bytes = self.most_live_bytes.max(self.live_bytes);
    }

    pub(super) fn end(&mut self, lived: u64) {
        self.ended += 1;
        self.lifetime += u128::from(lived);
        self.longest = self.longest.max(lived);
    }
}

/// Groups by what they have in common.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    pub all: Vec<Group>,
    by_common: NumberMap<Common, u32>,
    given: u32,
}

impl Default for Groups {
    fn default() -> Groups {
        let mut groups = Groups {
            all: Vec::new(),
            by_common: NumberMap::default(),
            given: 0,
        };
        groups.of(Common::Unknown);
        groups
    }
}

impl Groups {
    pub const UNKNOWN: u32 = 0;

    pub fn of(&mut self, common: Common) -> u32 {
        let next = self.all.len() as u32;
        let group = *self.by_common.entry(common).or_insert(next);
        if group == next {
            self.all.push(Group::new(common));
        }
        group
    }

    pub fn give(&mut self, kind: Kind) -> u32 {
        let number = self.given;
        self.given += 1;
        self.of(Common::Given { kind, number })
    }
}
