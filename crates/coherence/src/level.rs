//! One cache with LRU replacement.
//!
//! A set is a slice with the line that was used last in front and empty ways at its end; so the
//! line that makes room is the last one.
use crate::config::Geometry;

/// In place of a line that is none: no line has this number, as lines have at least 4 bytes.
const EMPTY: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Level<F> {
    sets: u64,
    ways: usize,
    /// A line, and what the owner of the cache keeps with it.
    lines: Vec<(u64, F)>,
}

impl<F: Copy + Default> Level<F> {
    pub fn new(geometry: Geometry, line: u32) -> Level<F> {
        let lines = geometry.size / u64::from(line);
        Level {
            sets: lines / u64::from(geometry.ways),
            ways: geometry.ways as usize,
            lines: vec![(EMPTY, F::default()); lines as usize],
        }
    }

    #[inline]
    fn set(&mut self, line: u64) -> &mut [(u64, F)] {
        let set = match self.sets.is_power_of_two() {
            true => line & (self.sets - 1),
            false => line % self.sets,
        };
        let first = set as usize * self.ways;
        &mut self.lines[first..first + self.ways]
    }

    /// Uses a line, if it is there.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<&mut F> {
        let set = self.set(line);
        let way = set.iter().position(|&(there, _)| there == line)?;
        if way > 0 {
            set[..=way].rotate_right(1);
        }
        Some(&mut set[0].1)
    }

    /// What is kept with a line, if it is there; no use of it.
    pub fn peek(&mut self, line: u64) -> Option<&mut F> {
        let there = self.set(line).iter_mut().find(|(there, _)| *there == line);
        there.map(|(_, kept)| kept)
    }

    /// Places a line that is not there. Returns the one that made room.
    pub fn place(&mut self, line: u64, kept: F) -> Option<(u64, F)> {
        let set = self.set(line);
        set.rotate_right(1);
        let old = std::mem::replace(&mut set[0], (line, kept));
        (old.0 != EMPTY).then_some(old)
    }

    /// Removes a line, if it is there.
    pub fn remove(&mut self, line: u64) -> Option<F> {
        let set = self.set(line);
        let way = set.iter().position(|&(there, _)| there == line)?;
        let kept = set[way].1;
        set[way..].rotate_left(1);
        set[set.len() - 1] = (EMPTY, F::default());
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_used_longest_ago_makes_room_and_a_free_way_is_filled_first() {
        let mut level: Level<u8> = Level::new(Geometry { size: 3 * 64, ways: 3 }, 64);
        assert_eq!(
            (level.place(1, 1), level.place(2, 2), level.place(3, 3)),
            (None, None, None)
        );
        assert_eq!(level.touch(1).copied(), Some(1));
        assert_eq!(level.place(4, 4), Some((2, 2)));
        assert_eq!((level.remove(1), level.remove(2)), (Some(1), None));
        assert_eq!(level.peek(3).copied(), Some(3));
        assert_eq!(level.place(5, 5), None);
        assert_eq!(level.place(6, 6), Some((3, 3)));
    }
}
