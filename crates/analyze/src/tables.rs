//! Tables: what was counted by composite, added up by what is asked for.
//!
//! A [`Grouping`] says to which row each composite belongs. Rows are told apart by one number for each dimension in the list; composites that agree in all of them are one row. Whatever was counted by composite can then be
//! added up by row: what a simulator counted at a level, the tallies of a tagger, and pairs of composites such as evictors.
//!
//! **Competition** (DTrack's Figure 6) is such pairs by object: how often a line of the first was evicted by an access to the second. Pairs of *premature* evictions, of
//! lines that are missed again later, are added up in the same way.
use crate::hash::NumberMap;
use crate::tagger::Key;
use memtrail_model::Point;
use memtrail_simulate::{LevelCounts, PointCounts};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// What rows are told apart by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum By {
    CallPath,
    Object,
    Thread,
    Process,
    /// These follow from the reference point; what their numbers mean is the caller's business.
    Ref,
    Line,
    Function,
    Loop,
    Module,
}

/// How often the first was met by the second.
pub type Pairs = BTreeMap<(u32, u32), u64>;

/// The rows of a table, and which composite is in which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// By row: a number for each dimension.
    keys: Vec<Vec<u32>>,
    /// By composite.
    rows: Vec<u32>,
}

impl Grouping {
    /// Of what composites (by number) stand for. `place` gives the number of a point's reference, line, function, loop or module.
    pub fn new(composites: &[Key], by: &[By], mut place: impl FnMut(By, Point) -> u32) -> Grouping {
        let mut numbers: NumberMap<Vec<u32>, u32> = NumberMap::default();
        let mut keys = Vec::new();
        let mut row_of = |composite: &Key| {
            let number = |by: &By| match by {
                By::CallPath => composite.node,
                By::Object => composite.group,
                By::Thread => composite.thread,
                By::Process => composite.process,
                &place_of => place(place_of, composite.point),
            };
            let key: Vec<u32> = by.iter().map(number).collect();
            let next = keys.len() as u32;
            let row = *numbers.entry(key.clone()).or_insert(next);
            if row == next {
                keys.push(key);
            }
            row
        };
        let rows = composites.iter().map(&mut row_of).collect();
        Grouping { keys, rows }
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// A row's numbers, in the order in which dimensions were asked for.
    pub fn key(&self, row: u32) -> &[u32] {
        &self.keys[row as usize]
    }

    pub fn keys(&self) -> &[Vec<u32>] {
        &self.keys
    }

    /// The row of a composite.
    pub fn row(&self, composite: u32) -> Option<u32> {
        self.rows.get(composite as usize).copied()
    }

    /// Anything that was counted by composite, by row.
    pub fn sums<T: AddAssign + Default + Clone>(&self, by_composite: impl IntoIterator<Item = T>) -> Vec<T> {
        let mut sums = vec![T::default(); self.keys.len()];
        for (&row, counted) in self.rows.iter().zip(by_composite) {
            sums[row as usize] += counted;
        }
        sums
    }

    /// What happened at a level, by row.
    pub fn level(&self, counts: &LevelCounts) -> Vec<PointCounts> {
        self.sums(counts.points.iter().copied())
    }

    /// Pairs of composites, such as a level's evictors, as pairs of rows. Those of unknown composites are left out.
    pub fn pairs(&self, of_composites: &Pairs) -> Pairs {
        let mut pairs = Pairs::new();
        for (&(first, second), &times) in of_composites {
            if let (Some(first), Some(second)) = (self.row(first), self.row(second)) {
                *pairs.entry((first, second)).or_default() += times;
            }
        }
        pairs
    }
}

/// What a row loses to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Of its lines, to itself.
    pub to_itself: u64,
    /// Of its lines, to others.
    pub to_others: u64,
    /// Of others' lines, to it.
    pub from_others: u64,
}

/// Sums of a matrix of who evicts whom, by row.
pub fn competition(rows: usize, pairs: &Pairs) -> Vec<Losses> {
    let mut losses = vec![Losses::default(); rows];
    for (&(victim, evictor), &times) in pairs {
        if victim == evictor {
            if let Some(row) = losses.get_mut(victim as usize) {
                row.to_itself += times;
            }
            continue;
        }
        if let Some(row) = losses.get_mut(victim as usize) {
            row.to_others += times;
        }
        if let Some(row) = losses.get_mut(evictor as usize) {
            row.from_others += times;
        }
    }
    losses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tagger::Tally;

    fn composites() -> Vec<Key> {
        let key = |point, group, thread| Key {
            point: Point(point),
            node: Key::NONE,
            group,
            thread,
            process: Key::NONE,
        };
        vec![key(0, 7, 0), key(1, 7, 0), key(0, 8, 1), key(1, 8, 0), key(1, 7, 1)]
    }

    fn misses(n: u64) -> PointCounts {
        PointCounts {
            misses: n,
            ..PointCounts::default()
        }
    }

    #[test]
    fn rows_are_what_composites_have_in_common() {
        let by_object = Grouping::new(&composites(), &[By::Object], |_, _| unreachable!());
        assert_eq!(by_object.keys(), [[7], [8]]);
        let level = LevelCounts {
            points: [1, 2, 4, 8, 16].map(misses).to_vec(),
            evictors: Pairs::from([((0, 1), 5), ((0, 2), 3), ((3, 4), 2), ((4, 0), 1), ((9, 0), 100)]),
            ..LevelCounts::default()
        };
        assert_eq!(by_object.level(&level), [misses(19), misses(12)]);
        let pairs = by_object.pairs(&level.evictors);
        assert_eq!(pairs, Pairs::from([((0, 0), 6), ((0, 1), 3), ((1, 0), 2)]));
        let losses = |to_itself, to_others, from_others| Losses {
            to_itself,
            to_others,
            from_others,
        };
        assert_eq!(competition(2, &pairs), [losses(6, 3, 2), losses(0, 2, 3)]);
    }

    #[test]
    fn dimensions_are_in_the_order_asked_for() {
        let line = |by, point: Point| match by {
            By::Line => 100 + point.0,
            _ => unreachable!(),
        };
        let rows = Grouping::new(&composites(), &[By::Thread, By::Line], line);
        assert_eq!(rows.keys(), [[0, 100], [0, 101], [1, 100], [1, 101]]);
        let tally = |reads| Tally {
            reads,
            ..Tally::default()
        };
        let sums = rows.sums([1, 2, 3, 4, 5].map(tally));
        assert_eq!(sums, [1, 6, 3, 5].map(tally));
        assert_eq!(rows.row(3), Some(1));
        assert_eq!(rows.row(5), None);
    }

    #[test]
    fn counts_may_end_before_the_composites_do() {
        let all = Grouping::new(&composites(), &[], |_, _| unreachable!());
        assert_eq!((all.len(), all.key(0)), (1, &[][..]));
        let level = LevelCounts {
            points: vec![misses(3)],
            ..LevelCounts::default()
        };
        assert_eq!(all.level(&level), [misses(3)]);
        assert!(Grouping::new(&[], &[By::Ref], |_, _| unreachable!()).is_empty());
    }
}
