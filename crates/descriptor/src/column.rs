//! What is predicted of one parameter of one kind: a column.
//!
//! Four predictions, from the column's own past and from the *sources*, the latest values of
//! parameters that share a source (see [`Leaf`](crate::Leaf)):
//!
//! | code | prediction |
//! |---|---|
//! | [`STRIDE`] | the last value, moved by the last distance seen twice in a row |
//! | [`RELATION`] | the last value, moved as a source has moved since, times a factor |
//! | [`BEFORE`] | the value before the last |
//! | [`CONTEXT`] | the value that came after the last value's previous occurrence |
//!
//! Each column expects one of them, the one that was right when last the expectation failed. The
//! relation begins as "its own source, moved as that has moved"; the encoder looks for better ones
//! and tells the decoder. It is what makes an index, a pointer into the array and the loop's
//! counter cost as much as one of them.
//!
//! Encoder and decoder both run this code on the same values, so that their states agree.
use crate::SOURCES;
use alloc::vec;
use alloc::vec::Vec;

pub const STRIDE: u8 = 0;
pub const RELATION: u8 = 1;
pub const BEFORE: u8 = 2;
pub const CONTEXT: u8 = 3;

/// How a column follows a source: `value += factor * movement`, or `movement >> shift` if the
/// factor is [`SHIFT`]` - shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    pub source: u8,
    pub factor: i8,
}

/// Factors at and below this are shifts to the right.
const SHIFT: i8 = -100;
const MOST_SHIFT: i8 = 6;
const MOST_FACTOR: u64 = 64;

impl Relation {
    /// `None` if the bytes mean nothing.
    pub fn checked(source: u8, factor: i8) -> Option<Relation> {
        let fine = (source as usize) < SOURCES && factor >= SHIFT - MOST_SHIFT;
        fine.then_some(Relation { source, factor })
    }

    /// A multiplication and a shift to the right that come to the same, so that no branch has to tell them apart.
    const fn steps(self) -> (i8, u8) {
        if self.factor <= SHIFT {
            (1, (SHIFT - self.factor) as u8)
        } else {
            (self.factor, 0)
        }
    }

    fn moved(self, movement: u64) -> u64 {
        let (times, shift) = self.steps();
        moved(movement, times, shift)
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
            return (relation.moved(movement) == value).then_some(relation);
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
const fn moved(movement: u64, times: i8, shift: u8) -> u64 {
    (movement as i64).wrapping_mul(times as i64).wrapping_shr(shift as u32) as u64
}

/// The latest value of each source; the last one stands for none and stays zero.
pub(crate) type Sources = [u64; SOURCES + 1];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    last: u64,
    /// Distance of the last value from the one before.
    step: u64,
    /// Last distance seen twice in a row.
    stride: u64,
    /// The related source's value at the last value.
    anchor: u64,
    relation: Relation,
    /// The relation's steps.
    times: i8,
    shift: u8,
    /// Source of this column's own values.
    source: u8,
    /// The prediction that is expected to be right.
    pub expected: u8,
    /// The encoder has noted the sources at the last value.
    pub noted: bool,
}

impl Column {
    pub fn new(source: Option<u8>) -> Column {
        let none = SOURCES as u8;
        let source = source.map_or(none, |s| s.min(none));
        Column {
            last: 0,
            step: 0,
            stride: 0,
            anchor: 0,
            relation: Relation { source, factor: 1 },
            times: 1,
            shift: 0,
            source,
            expected: RELATION,
            noted: false,
        }
    }

    #[inline]
    pub fn last(&self) -> u64 {
        self.last
    }
    #[inline]
    pub fn stride(&self) -> u64 {
        self.last.wrapping_add(self.stride)
    }
    #[inline]
    pub fn relation(&self, sources: &Sources) -> u64 {
        let movement = sources[self.relation.source as usize].wrapping_sub(self.anchor);
        self.last.wrapping_add(moved(movement, self.times, self.shift))
    }
    #[inline]
    pub fn before(&self) -> u64 {
        self.last.wrapping_sub(self.step)
    }

    /// The prediction that is expected to be right. The two that mostly are cost no branch.
    #[inline(always)]
    pub fn expect(&self, sources: &Sources, contexts: &Contexts, number: usize) -> u64 {
        let (strided, related) = (self.stride(), self.relation(sources));
        if self.expected <= RELATION {
            return if self.expected == RELATION { related } else { strided };
        }
        self.predict(self.expected, sources, contexts, number)
    }

    /// The prediction with this code.
    pub fn predict(&self, code: u8, sources: &Sources, contexts: &Contexts, number: usize) -> u64 {
        match code {
            STRIDE => self.stride(),
            RELATION => self.relation(sources),
            BEFORE => self.before(),
            _ => contexts.after(number, self.last),
        }
    }

    /// Takes in the value that came.
    #[inline(always)]
    pub fn update(&mut self, value: u64, sources: &mut Sources) {
        let step = value.wrapping_sub(self.last);
        if step == self.step {
            self.stride = step;
        }
        self.step = step;
        self.last = value;
        self.anchor = sources[self.relation.source as usize];
        if (self.source as usize) < SOURCES {
            sources[self.source as usize] = value;
        }
    }

    pub fn related(&self) -> Relation {
        self.relation
    }
    pub fn relate(&mut self, relation: Relation) {
        self.relation = relation;
        (self.times, self.shift) = relation.steps();
    }
}

/// What came after which value, for all columns together: a table that forgets.
#[derive(Clone, Debug)]
pub(crate) struct Contexts {
    next: Vec<u64>,
}

const CONTEXT_BITS: u32 = 15;

impl Default for Contexts {
    fn default() -> Contexts {
        Contexts {
            next: vec![0; 1 << CONTEXT_BITS],
        }
    }
}

impl Contexts {
    pub fn clear(&mut self) {
        self.next.fill(0);
    }
    #[inline]
    fn place(number: usize, last: u64) -> usize {
        let mixed = last.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        (mixed >> (64 - CONTEXT_BITS)) as usize
    }
    /// What followed `last` in column `number`, when that was last noted.
    #[inline]
    pub fn after(&self, number: usize, last: u64) -> u64 {
        self.next[Contexts::place(number, last)]
    }
    #[inline]
    pub fn note(&mut self, number: usize, last: u64, next: u64) {
        self.next[Contexts::place(number, last)] = next;
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
                assert_eq!(guess.moved(movement), value);
                assert_eq!(Relation::checked(guess.source, guess.factor), Some(guess));
            }
        }
        assert_eq!(Relation::checked(16, 1), None);
        assert_eq!(Relation::checked(0, SHIFT - MOST_SHIFT - 1), None);
    }

    #[test]
    fn a_column_follows_another_of_the_same_source() {
        let mut sources: Sources = [0; SOURCES + 1];
        let (mut a, mut b) = (Column::new(Some(3)), Column::new(Some(3)));
        for value in [100, 1000, 17, 5] {
            a.update(value, &mut sources);
            if value != 100 {
                assert_eq!(b.relation(&sources), value + 8);
            }
            b.update(value + 8, &mut sources);
        }
        assert_eq!(b.before(), 25);
    }
}
