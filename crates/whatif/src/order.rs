//! The accesses of a window in another order.
//!
//! An order of iterations is a list of [`Rank`]s, the most significant first. The program's own
//! order of a nest of three loops is `I0 B1 I1 B2 I2`: by the iteration of the root, then by the
//! inner loop (branch), then by its iteration. Interchanging two loops exchanges their indices;
//! tiling puts the numbers of blocks of iterations in front; fusing the loops of one level puts the
//! branch behind the index. Within one iteration, accesses stay in their order.
//!
//! **Copies.** An access that stands beside an inner loop (see [`capture`](crate::capture)) is made
//! once for all iterations of that loop, mostly because the compiler keeps what it touches in a
//! register meanwhile. If the inner loop moves out, past a loop around the access, nothing can be
//! kept: the access is then made in each iteration, or in each block of iterations.
use crate::capture::{Captured, Window, LEVELS};
use memtrail_model::Access;

/// What iterations are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rank {
    /// By the iteration of a level.
    Index(u8),
    /// By blocks of this many iterations.
    Block(u8, u32),
    /// By which loop of a level it is.
    Branch(u8),
}

/// An order of iterations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order(pub Vec<Rank>);

/// Ranks that an order can have.
const RANKS: usize = 2 * LEVELS + LEVELS;

impl Order {
    /// The program's own.
    pub fn original(levels: usize) -> Order {
        let inner = (1..levels as u8).flat_map(|level| [Rank::Branch(level), Rank::Index(level)]);
        Order([Rank::Index(0)].into_iter().chain(inner).take(RANKS).collect())
    }

    /// Loops of two levels change places. Loops beside each other in a level between are
    /// distributed: each gets a nest of its own.
    pub fn interchanged(levels: usize, outer: u8, inner: u8) -> Order {
        let mut level_at: Vec<u8> = (0..levels as u8).collect();
        level_at.swap(usize::from(outer), usize::from(inner));
        Order::permuted(&level_at)
    }

    /// Loops in this order of levels, the outermost first.
    pub fn permuted(level_at: &[u8]) -> Order {
        // Branches first wherever the order differs from the program's.
        let same = level_at
            .iter()
            .enumerate()
            .take_while(|(at, &level)| *at == usize::from(level))
            .count();
        let mut ranks = Vec::new();
        for (at, &level) in level_at.iter().enumerate() {
            if at == same {
                ranks.extend((same.max(1)..level_at.len()).map(|level| Rank::Branch(level as u8)));
            }
            if at < same && level > 0 {
                ranks.push(Rank::Branch(level));
            }
            ranks.push(Rank::Index(level));
        }
        Order(ranks)
    }

    /// Loops of these levels in blocks of `size` iterations; the loops over blocks are outside of
    /// all others.
    pub fn tiled(&self, levels: &[u8], size: u32) -> Order {
        let blocks = levels.iter().map(|&level| Rank::Block(level, size));
        Order(blocks.chain(self.0.iter().copied()).collect())
    }

    /// The loops of a level that lie beside each other become one.
    pub fn fused(&self, level: u8) -> Order {
        let mut ranks: Vec<Rank> = self
            .0
            .iter()
            .copied()
            .filter(|rank| *rank != Rank::Branch(level))
            .collect();
        let innermost = ranks.iter().rposition(|rank| matches!(rank, Rank::Index(_)));
        ranks.insert(innermost.map_or(ranks.len(), |at| at + 1), Rank::Branch(level));
        Order(ranks)
    }

    fn key(&self, captured: &Captured) -> [u32; RANKS + 1] {
        let mut key = [0; RANKS + 1];
        key[0] = captured.at.instance;
        for (slot, rank) in key[1..].iter_mut().zip(&self.0) {
            *slot = match *rank {
                Rank::Index(level) => captured.at.index[usize::from(level)],
                Rank::Block(level, size) => captured.at.index[usize::from(level)] / size.max(1),
                Rank::Branch(level) => captured.at.branch[usize::from(level)].into(),
            };
        }
        key
    }

    /// Every access with its key and its number.
    fn keyed(&self, window: &Window) -> Vec<([u32; RANKS + 1], u32)> {
        (0..).zip(&window.accesses).map(|(i, a)| (self.key(a), i)).collect()
    }

    /// After how many iterations of a loop of `level` an access beside it is made anew; nothing if
    /// it is made once.
    fn copied_every(&self, level: u8) -> Option<u32> {
        let around = |rank: &Rank| matches!(rank, Rank::Index(m) if *m < level);
        let innermost_around = self.0.iter().rposition(around)?;
        let before = |wanted: &Rank| {
            let at = self.0.iter().position(|rank| rank == wanted);
            at.is_some_and(|at| at < innermost_around)
        };
        if before(&Rank::Index(level)) {
            return Some(1);
        }
        self.0.iter().find_map(|rank| match *rank {
            Rank::Block(of, size) if of == level && before(rank) => Some(size.max(1)),
            _ => None,
        })
    }

    /// The numbers of the accesses in this order, without copies.
    pub fn sequence(&self, window: &Window) -> Vec<u32> {
        let mut keyed = self.keyed(window);
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, number)| number).collect()
    }

    /// The accesses in this order, with the copies that it takes.
    pub fn accesses(&self, window: &Window) -> Vec<Access> {
        let mut keyed = self.keyed(window);
        for sunk in &window.sunk {
            let Some(every) = self.copied_every(sunk.level) else {
                continue;
            };
            let mut copy = window.accesses[sunk.access as usize];
            let trips = window.trips[sunk.entry as usize];
            let level = usize::from(sunk.level);
            let own = copy.at.index[level] / every;
            for block in (0..trips.div_ceil(every)).filter(|&block| block != own) {
                let first = block * every;
                copy.at.index[level] = if sunk.after {
                    (first + every).min(trips) - 1
                } else {
                    first
                };
                keyed.push((self.key(&copy), sunk.access));
            }
        }
        keyed.sort_unstable();
        keyed
            .into_iter()
            .map(|(_, number)| window.accesses[number as usize].access)
            .collect()
    }
}
