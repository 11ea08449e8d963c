//! Which reference points touched the lines of a cache, for charging an eviction to all of them.
//!
//! The owner of a line stands in its [`Meta`](crate::sets::Meta); the others stand here, by slot. A
//! line that moves takes them along.

/// The users of a line besides its owner, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Users(Vec<u32>);

impl Users {
    /// `point` touches a line of this owner.
    pub fn add(&mut self, owner: u32, point: u32) {
        if point == owner {
            return;
        }
        if let Err(at) = self.0.binary_search(&point) {
            self.0.insert(at, point);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
}

/// The users of a cache's lines, by slot. Nothing is kept unless it is wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct UsersBySlot(Option<Vec<Users>>);

impl UsersBySlot {
    /// For a cache of `lines` lines.
    pub fn new(wanted: bool, lines: usize) -> UsersBySlot {
        UsersBySlot(wanted.then(|| vec![Users::default(); lines]))
    }

    #[inline]
    pub fn add(&mut self, slot: u32, owner: u32, point: u32) {
        if let Some(users) = &mut self.0 {
            users[slot as usize].add(owner, point);
        }
    }

    /// Another line comes to the slot, with its users. Returns those of the one that was there.
    #[inline]
    pub fn replace(&mut self, slot: u32, users: Users) -> Users {
        let all = self.0.as_mut();
        all.map_or_else(Users::default, |all| std::mem::replace(&mut all[slot as usize], users))
    }
}
