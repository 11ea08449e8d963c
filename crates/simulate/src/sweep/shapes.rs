//! How far back the lines of rounds are that were left out.
//!
//! The second of two equal rounds has distances that follow from the round alone (`rounds.rs`):
//! from which of its lines are the same, and which share a set. Both depend only on how far they
//! are apart and, under longer lines, on where the first is in the longest line. That is the
//! round's *shape*. A loop makes rounds of few shapes, again and again, while its lines move on.
//! They are counted by shape, and what that means for every list is found once for many.
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
    /// Of these lines and tags.
    fn of(round: impl Iterator<Item = (i64, u16)>) -> Shape {
        let mut shape = Shape {
            lines: [0; LONGEST],
            tags: [0; LONGEST],
            len: 0,
        };
        for (i, (line, tag)) in round.take(LONGEST).enumerate() {
            shape.lines[i] = line;
            shape.tags[i] = tag;
            shape.len += 1;
        }
        shape
    }

    /// Whether it is [`Shape::of`] these. Made first and compared then, it would be read in larger
    /// pieces than it was just written in.
    #[inline(always)]
    fn is_of(&self, round: impl ExactSizeIterator<Item = (i64, u16)>) -> bool {
        self.len == round.len()
            && round
                .zip(self.lines.iter().zip(&self.tags))
                .all(|((line, tag), (&own_line, &own_tag))| (line == own_line) & (tag == own_tag))
    }
}

/// A number less than [`SHAPES`]. The tags have no part in it: who reads and who writes seldom
/// makes the difference.
#[inline(always)]
fn hash(round: impl Iterator<Item = (i64, u16)>) -> usize {
    let mix = |hash: u64, (line, _): (i64, u16)| (hash ^ line as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (round.fold(0, mix) >> 32) as usize % SHAPES
}

/// A round, moved down by a whole number of the longest lines; `longest`: logarithm of how many
/// lines those have.
#[inline(always)]
fn moved_down(
    round: impl ExactSizeIterator<Item = (u64, u16)> + Clone,
    longest: u32,
) -> impl ExactSizeIterator<Item = (i64, u16)> + Clone {
    let first = round.clone().next().map_or(0, |(line, _)| line);
    let base = first >> longest << longest;
    round.map(move |(line, tag)| (line.wrapping_sub(base) as i64, tag))
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

    /// Notes so many rounds of these lines and tags. If others have to make room, they are
    /// returned.
    #[inline(always)]
    pub fn add(&mut self, round: impl ExactSizeIterator<Item = (u64, u16)> + Clone, times: u64) -> Option<Repeated> {
        let round = moved_down(round, self.longest);
        let at = hash(round.clone());
        for at in [at, at ^ 1] {
            if let Some((seen, before)) = &mut self.seen[at] {
                if seen.is_of(round.clone()) {
                    *before += times;
                    return None;
                }
            }
        }
        let line = self.line;
        let moved = self.seen[at].replace((Shape::of(round), times));
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
    /// Of each touch, those touches (bits) that have the different lines since its own was touched
    /// last.
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

    fn round(lines: &[u64]) -> impl ExactSizeIterator<Item = (u64, u16)> + Clone + '_ {
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
        let same = |a: &[u64], b: &[u64]| Shape::of(moved_down(round(a), 2)).is_of(moved_down(round(b), 2));
        assert!(same(&[5, 100, 2], &[9, 104, 6]));
        // Longer lines begin elsewhere.
        assert!(!same(&[5, 100, 2], &[6, 101, 3]));
        assert!(!same(&[5, 100, 2], &[5, 100]));
        assert!(!same(&[5, 100], &[5, 100, 4]));
        assert!(!Shape::of([(5, 64), (100, 64)].into_iter()).is_of([(5, 64), (100, 0)].into_iter()));
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
