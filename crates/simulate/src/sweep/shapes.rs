//! How far back the lines of rounds are that were left out.
//!
//! The second of two equal rounds has distances that follow from the round alone (`rounds.rs`): from which of its lines are the same, and which share a set. Both depend only on how far
//! they are apart and, under longer lines, on where the first is in the longest line. That is the round's *shape*. A loop makes rounds of few shapes,
//! again and again, while its lines move on. They are counted by shape, and what that means for every list is found once for many.
use super::rounds::LONGEST;

/// Shapes that are kept at a time.
const SHAPES: usize = 128;

/// A round, moved down by a whole number of the longest lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Lines, the first near 0, and tags. The rest is empty.
    lines: [i64; LONGEST],
    tags: [u16; LONGEST],
    len: usize,
}

impl Shape {
    /// `longest`: logarithm of how many lines the longest has.
    #[inline(always)]
    fn of(touches: impl Iterator<Item = (u64, u16)>, longest: u32) -> Shape {
        let mut shape = Shape {
            lines: [0; LONGEST],
            tags: [0; LONGEST],
            len: 0,
        };
        let mut base = 0;
        for (i, (line, tag)) in touches.take(LONGEST).enumerate() {
            if i == 0 {
                base = line >> longest << longest;
            }
            shape.lines[i] = line.wrapping_sub(base) as i64;
            shape.tags[i] = tag;
            shape.len += 1;
        }
        shape
    }

    /// A number less than [`SHAPES`].
    #[inline(always)]
    fn hash(&self) -> usize {
        // Of the tags nothing: who reads and who writes seldom makes the difference.
        let mix = |hash: u64, &line: &i64| (hash ^ line as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = self.lines[..self.len].iter().fold(0, mix);
        (hash >> 32) as usize % SHAPES
    }
}

/// How often rounds of each shape were left out, of the last few shapes.
pub struct Shapes {
    /// Logarithm of the bytes of the lines that rounds are of.
    line: u32,
    /// Logarithm of how many of those the longest line has.
    longest: u32,
    /// By hash: there, or beside it.
    seen: Vec<Option<(Shape, u64)>>,
}

impl Shapes {
    /// Of rounds of lines of so many bytes; the longest have so many (logarithms).
    pub fn new(line: u32, longest: u32) -> Shapes {
        Shapes {
            line,
            longest: longest - line,
            seen: vec![None; SHAPES],
        }
    }

    /// Notes so many rounds of these lines and tags. If others have to make room, they are returned.
    #[inline(always)]
    pub fn add(&mut self, round: impl Iterator<Item = (u64, u16)>, times: u64) -> Option<Repeated> {
        let shape = Shape::of(round, self.longest);
        let at = shape.hash();
        for at in [at, at ^ 1] {
            if let Some((seen, before)) = &mut self.seen[at] {
                if *seen == shape {
                    *before += times;
                    return None;
                }
            }
        }
        let line = self.line;
        let moved = self.seen[at].replace((shape, times));
        let others = std::mem::replace(&mut self.seen[at ^ 1], moved);
        others.map(|(shape, times)| Repeated { line, shape, times })
    }

    /// All there are; none are left.
    pub fn drain(&mut self) -> impl Iterator<Item = Repeated> + '_ {
        let line = self.line;
        let all = self.seen.iter_mut().filter_map(Option::take);
        all.map(move |(shape, times)| Repeated { line, shape, times })
    }
}

/// Rounds of one shape, to be counted.
pub struct Repeated {
    line: u32,
    shape: Shape,
    times: u64,
}

impl Repeated {
    /// Under lines of so many bytes (logarithm).
    pub fn under(&self, line: u32) -> Distances {
        let Repeated { shape, times, .. } = *self;
        let longer = line - self.line;
        let lines = shape.lines.map(|line| line >> longer);
        let mut since = [0u8; LONGEST];
        for (i, since) in since.iter_mut().enumerate().take(shape.len) {
            // From the latest back, into the round before.
            for j in (0..i).rev().chain((i..shape.len).rev()) {
                if lines[j] == lines[i] {
                    break;
                }
                let known = (0..shape.len).any(|k| *since >> k & 1 != 0 && lines[k] == lines[j]);
                *since |= u8::from(!known) << j;
            }
        }
        Distances {
            shape: Shape { lines, ..shape },
            since,
            times,
        }
    }
}

/// Rounds under one line size.
pub struct Distances {
    shape: Shape,
    /// Of each touch, those touches (bits) that have the different lines since its own was touched last.
    since: [u8; LONGEST],
    times: u64,
}

impl Distances {
    /// The tag of each touch, its distance under so many sets, and how often.
    pub fn each(&self, sets: u64, mut see: impl FnMut(u16, usize, u64)) {
        let Shape { lines, tags, len } = &self.shape;
        let share = |a: i64, b: i64| match a.abs_diff(b) {
            apart if sets.is_power_of_two() => apart & (sets - 1) == 0,
            apart => apart % sets == 0,
        };
        for i in 0..*len {
            let counts = |&j: &usize| self.since[i] >> j & 1 != 0 && share(lines[i], lines[j]);
            see(tags[i], (0..*len).filter(counts).count(), self.times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(lines: &[u64]) -> impl Iterator<Item = (u64, u16)> + '_ {
        lines.iter().map(|&line| (line, 64))
    }

    #[test]
    fn distances_are_those_of_the_second_of_two_rounds() {
        let distances = |lines: &[u64], longer: u32, sets| {
            let mut all = Vec::new();
            let mut shapes = Shapes::new(5, 7);
            assert!(shapes.add(round(lines), 3).is_none());
            let repeated = shapes.drain().next().unwrap();
            repeated.under(5 + longer).each(sets, |tag, distance, times| {
                assert_eq!((tag, times), (64, 3));
                all.push(distance);
            });
            all
        };
        assert_eq!(distances(&[10, 20, 30], 0, 1), [2, 2, 2]);
        assert_eq!(distances(&[30, 20, 10], 0, 20), [1, 0, 1]);
        assert_eq!(distances(&[30, 20, 11], 0, 9), [0, 1, 1]);
        // 10 and 11 are one line twice as long, 11 and 12 are not.
        assert_eq!(distances(&[10, 11, 20], 1, 1), [1, 0, 1]);
        assert_eq!(distances(&[11, 12, 20], 1, 1), [2, 2, 2]);
        assert_eq!(distances(&[20, 9, 12], 2, 3), [1, 1, 0]);
        // Lines that come twice.
        assert_eq!(distances(&[1, 2, 1, 3, 2, 3], 0, 1), [2, 2, 1, 2, 2, 1]);
        assert_eq!(distances(&[1, 2, 1], 0, 1), [0, 1, 1]);
    }

    #[test]
    fn rounds_that_have_moved_have_one_shape() {
        let shape = |lines: &[u64]| Shape::of(round(lines), 2);
        assert_eq!(shape(&[5, 100, 2]), shape(&[9, 104, 6]));
        // Longer lines begin elsewhere.
        assert_ne!(shape(&[5, 100, 2]), shape(&[6, 101, 3]));
        assert_ne!(shape(&[5, 100, 2]), shape(&[5, 100]));
        assert_ne!(shape(&[5, 100]), shape(&[5, 100, 4]));
        assert_ne!(shape(&[5, 100]), Shape::of([(5, 64), (100, 0)].into_iter(), 2));
    }

    #[test]
    fn none_is_lost_where_others_need_the_room() {
        let mut shapes = Shapes::new(5, 5);
        let mut times = 0;
        for line in 1..1000 {
            for more in [1, 2] {
                times += shapes.add(round(&[0, line]), more).map_or(0, |out| out.times);
            }
        }
        assert!(times > 0);
        times += shapes.drain().map(|out| out.times).sum::<u64>();
        assert_eq!(times, 999 * 3);
        assert_eq!(shapes.drain().count(), 0);
    }
}
