//! How a column, one parameter of one kind, is written: its *form*.
//!
//! A column's values are rarely news: a register is where it was when it was last seen, an index
//! has moved as the pointer that follows from it. So what is written of a value is what is left
//! when its *relation* to a *source* has been taken away: `value - factor * source`, where the
//! source is the latest value of a parameter that shares it (see [`Leaf`](crate::Leaf)). If the
//! relation holds, that does not change. Columns begin without a relation; the encoder looks for
//! them where a kind is frequent, and tells the decoder.
//!
//! Encoder and decoder both keep the sources up to date, so that they agree.
use crate::SOURCES;

/// How a column follows a source: `factor * source`, or `source >> shift` if the factor is
/// [`SHIFT`]` - shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    /// Below [`SOURCES`], or [`ZERO`] for none.
    pub source: u8,
    pub factor: i8,
}

/// Factors at and below this are shifts to the right.
const SHIFT: i8 = -100;
const MOST_SHIFT: i8 = 6;
const MOST_FACTOR: u64 = 64;

/// The latest value of each source. Two more places keep those without a source from being told
/// apart.
pub(crate) type Sources = [u64; 2 * SOURCES];
/// Is never written, and so is zero.
const ZERO: u8 = SOURCES as u8;
/// Is never read.
const NOWHERE: u8 = SOURCES as u8 + 1;

impl Relation {
    /// None at all: values are written as they are.
    pub const NONE: Relation = Relation {
        source: ZERO,
        factor: 1,
    };

    /// `None` if the bytes mean nothing.
    pub fn checked(source: u8, factor: i8) -> Option<Relation> {
        let fine = source <= ZERO && factor >= SHIFT - MOST_SHIFT;
        fine.then_some(Relation { source, factor })
    }

    /// A multiplication and a shift to the right that come to the same, so that no branch has to
    /// tell them apart.
    const fn steps(self) -> (i8, u8) {
        if self.factor <= SHIFT {
            (1, (SHIFT - self.factor) as u8)
        } else {
            (self.factor, 0)
        }
    }

    /// What of a column follows from this value of the source.
    pub fn part(self, source: u64) -> u64 {
        let (times, shift) = self.steps();
        part(source, times, shift)
    }

    /// The relation by which `value` has moved if `source` has moved by `movement`.
    #[inline]
    pub fn guess(source: u8, movement: u64, value: u64) -> Option<Relation> {
        let with = |factor| Some(Relation { source, factor });
        if movement == 0 || value == 0 {
            return None;
        }
        if movement == value {
            return with(1);
        }
        // Powers of two, which are most, without dividing.
        let up = value.trailing_zeros() as i32 - movement.trailing_zeros() as i32;
        if (0..=MOST_SHIFT as i32).contains(&up) {
            let moved = movement.wrapping_shl(up as u32);
            if moved == value {
                return with(1 << up);
            }
            if moved == value.wrapping_neg() {
                return with(-1 << up);
            }
        } else if (-(MOST_SHIFT as i32)..0).contains(&up) {
            let relation = Relation {
                source,
                factor: SHIFT + up as i8,
            };
            return (relation.part(movement) == value).then_some(relation);
        }
        let (m, v) = (i32::try_from(movement as i64).ok()?, i32::try_from(value as i64).ok()?);
        let fits = u64::from(v.unsigned_abs()) <= MOST_FACTOR * u64::from(m.unsigned_abs());
        (fits && v.wrapping_rem(m) == 0).then(|| Relation {
            source,
            factor: v.wrapping_div(m) as i8,
        })
    }
}

#[inline(always)]
const fn part(source: u64, times: i8, shift: u8) -> u64 {
    (source as i64).wrapping_mul(times as i64).wrapping_shr(shift as u32) as u64
}

/// A column's own source, and its relation in the form in which it is worked out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    own: u8,
    source: u8,
    times: i8,
    shift: u8,
}

impl Form {
    /// That of a column with this source, before anything better is known.
    pub fn new(source: Option<u8>) -> Form {
        Form {
            own: source.filter(|&s| (s as usize) < SOURCES).unwrap_or(NOWHERE),
            source: ZERO,
            times: 1,
            shift: 0,
        }
    }

    pub fn relate(&mut self, relation: Relation) {
        self.source = relation.source;
        (self.times, self.shift) = relation.steps();
    }

    /// Its own source, if it has one.
    pub fn own(self) -> Option<u8> {
        ((self.own as usize) < SOURCES).then_some(self.own)
    }

    /// Its relation as it was given.
    pub fn relation(self) -> Relation {
        let factor = if self.shift > 0 {
            SHIFT - self.shift as i8
        } else {
            self.times
        };
        Relation {
            source: self.source,
            factor,
        }
    }

    /// Whether a value follows from the one before it in the same column.
    pub fn follows_itself(self) -> bool {
        self.source == self.own
    }

    /// Whether what follows from the source is the source.
    pub fn is_whole(self) -> bool {
        (self.times, self.shift) == (1, 0)
    }

    /// What follows from the sources.
    #[inline(always)]
    pub fn part(self, sources: &Sources) -> u64 {
        part(sources[self.source as usize % sources.len()], self.times, self.shift)
    }

    /// Takes in the value that came.
    #[inline(always)]
    pub fn note(self, value: u64, sources: &mut Sources) {
        sources[self.own as usize % sources.len()] = value;
    }

    /// What is left of a value that came; takes it in.
    #[inline(always)]
    pub fn number(self, value: u64, sources: &mut Sources) -> u64 {
        let number = value.wrapping_sub(self.part(sources));
        self.note(value, sources);
        number
    }

    /// The value of which this number is left; takes it in.
    #[inline(always)]
    pub fn value(self, number: u64, sources: &mut Sources) -> u64 {
        let value = number.wrapping_add(self.part(sources));
        self.note(value, sources);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_guessed_and_hold() {
        for (movement, value, factor) in [
            (5, 5, Some(1)),
            (3, 12, Some(4)),
            (12, 3, Some(SHIFT - 2)),
            (3u64.wrapping_neg(), 24u64.wrapping_neg(), Some(8)),
            (24u64.wrapping_neg(), 3u64.wrapping_neg(), Some(SHIFT - 3)),
            (24, 3u64.wrapping_neg(), None),
            (4, 40u64.wrapping_neg(), Some(-10)),
            (u64::MAX, 4u64.wrapping_neg(), Some(4)),
            (5, 60, Some(12)),
            (24, 8, None),
            (1, 65, None),
            (1, 127u64.wrapping_neg(), None),
            (3, 192u64.wrapping_neg(), Some(-64)),
            (1 << 63, u64::MAX, None),
            (u64::MAX, 1 << 63, None),
            (0, 7, None),
            (7, 0, None),
            (3, 7, None),
            (1, 1000, None),
        ] {
            let guess = Relation::guess(2, movement, value);
            assert_eq!(guess.map(|g| g.factor), factor, "{movement} {value}");
            if let Some(guess) = guess {
                assert_eq!(guess.part(movement), value);
                assert_eq!(Relation::checked(guess.source, guess.factor), Some(guess));
            }
        }
        assert_eq!(Relation::checked(ZERO, 1), Some(Relation::NONE));
        assert_eq!(Relation::checked(ZERO + 1, 1), None);
        assert_eq!(Relation::checked(0, SHIFT - MOST_SHIFT - 1), None);
    }

    #[test]
    fn what_is_left_of_a_column_that_follows_its_source_does_not_change() {
        let mut sources: Sources = [0; 2 * SOURCES];
        let (a, mut b, c) = (Form::new(Some(3)), Form::new(Some(4)), Form::new(None));
        b.relate(Relation { source: 3, factor: 8 });
        for value in [100, 1000, 17, 5u64.wrapping_neg()] {
            a.note(value, &mut sources);
            let follows = value.wrapping_mul(8).wrapping_add(7);
            assert_eq!(follows.wrapping_sub(b.part(&sources)), 7);
            b.note(follows, &mut sources);
            assert_eq!((a.part(&sources), c.part(&sources)), (0, 0));
            c.note(9, &mut sources);
        }
    }
}
