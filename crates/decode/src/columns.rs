//! Iterations of a loop, a few at a time.
//!
//! **Problem.** A loop that has a record for every iteration makes runs of hundreds of records of
//! one kind. To go through its works and accesses for each of them takes longer for finding out
//! what to do than for doing it.
//!
//! **Idea.** What a slot is in [`ROWS`] iterations is a *column*. Columns follow from those before
//! them: first come the values of the records, then what moves from one iteration to the next,
//! which depends on a record at most, then what is worked out. Most of that is a constant and a
//! multiple of one other column: this is no column itself, but a [`Place`], and its constant is
//! made once for a run. Each step is as many instructions without a branch, and rows that are not
//! wanted are made all the same.
//!
//! **Invariant.** The accesses, and the slots that count afterwards, are as if iterations were made
//! one by one.
use crate::consume::NO_ACCESS;
use crate::linear::LinearAccess;
use crate::work::{How, Move, Slots, Work};
use memtrail_model::{Access, Thread};
use memtrail_plan::TERMS;
use safe_arch::{cast_to_m128d_from_m128i, cast_to_m128i_from_m128d, m128i, shuffle_abi_f64_all_m128d};

/// Iterations at a time.
const ROWS: usize = 8;
/// Fewer iterations are made one by one.
pub(crate) const WORTH: usize = 4;
/// Columns of a loop, its constants, and its accesses, at most.
const COLUMNS: usize = 32;
const CONSTANTS: usize = 64;
const ACCESSES: usize = 32;

type Column = [u64; ROWS];

/// What is known of a run at the moment.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: [Column; COLUMNS],
    constants: [u64; CONSTANTS],
    /// The accesses of the run, as they are if the columns they follow from are zero.
    accesses: [Access; ACCESSES],
}

impl Columns {
    pub fn new() -> Box<Columns> {
        Box::new(Columns {
            columns: [[0; ROWS]; COLUMNS],
            constants: [0; CONSTANTS],
            accesses: [NO_ACCESS; ACCESSES],
        })
    }

    #[inline(always)]
    fn constant(&self, constant: u8) -> u64 {
        self.constants[constant as usize % CONSTANTS]
    }

    /// The column of a place, shifted.
    #[inline(always)]
    fn moving(&self, place: Place) -> Column {
        self.columns[place.column as usize % COLUMNS].map(|value| value << (place.by % 64))
    }

    #[inline(always)]
    fn at(&self, place: Place) -> Column {
        let constant = self.constant(place.constant);
        self.moving(place).map(|value| value.wrapping_add(constant))
    }
}

/// A constant, and a column shifted to the left.
#[derive(Clone, Copy, Debug)]
struct Place {
    constant: u8,
    column: u8,
    by: u8,
}

/// A column whose rows are each a row later, with another in front. It is written in pairs, as
/// columns are read: what is read could not be taken from smaller writes that are still under way.
#[inline(always)]
fn later(first: u64, column: Column) -> Column {
    let mut before = m128i::from([0, first]);
    let mut rows = [0; ROWS];
    for (to, pair) in rows.chunks_exact_mut(2).zip(column.chunks_exact(2)) {
        let pair = m128i::from([pair[0], pair[1]]);
        let both = cast_to_m128i_from_m128d(shuffle_abi_f64_all_m128d::<0b01>(
            cast_to_m128d_from_m128i(before),
            cast_to_m128d_from_m128i(pair),
        ));
        to.copy_from_slice(&<[u64; 2]>::from(both));
        before = pair;
    }
    rows
}

/// Column and constant that are zero.
const ZERO: u8 = 0;

/// Something that is the same in all iterations of a run: a number and multiples of slots.
#[derive(Clone, Copy, Debug)]
struct Constant {
    c: u64,
    terms: [(u8, u64); TERMS],
}

/// What a column follows from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// A value of each record.
    Record { slot: u8, value: u8 },
    /// What it was, and a constant.
    Step { slot: u8, by: u8, mask: u64 },
    /// Another value in the iteration before.
    Anew { slot: u8, of: Place, mask: u64 },
    /// The bits of another value.
    Bits(Work, Place),
    /// Multiples of others, added up.
    Sum([(Place, u64); TERMS]),
}

/// The columns of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    constants: Box<[Constant]>,
    columns: Box<[Origin]>,
    /// By access: what it is a constant distance from.
    bases: Box<[Place]>,
}

impl Layout {
    /// That of a loop whose records have the values of the `free` slots, and which does not move
    /// the stack pointer. `None` if what moves depends on more than a record, or if there is too
    /// much.
    pub fn new(free: &[u8], moves: &[Move], works: &[Work], bases: impl Iterator<Item = u8>) -> Option<Layout> {
        let moved = |slot: u8| moves.iter().filter(|m| m.slot == slot).count();
        if moves
            .iter()
            .any(|m| moved(m.slot) > 1 || moved(m.plus) > 0 || free.contains(&m.slot))
        {
            return None;
        }
        let mut found = Found::default();
        for (value, &slot) in (0..).zip(free) {
            found.column(slot, Origin::Record { slot, value })?;
        }
        for m in moves {
            found.moves(m)?;
        }
        for work in works {
            found.work(work)?;
        }
        let bases: Option<Box<[Place]>> = bases.map(|slot| found.place(slot)).collect();
        Some(Layout {
            bases: bases.filter(|b| b.len() <= ACCESSES)?,
            constants: found.constants.into(),
            columns: found.columns.into(),
        })
    }

    /// Makes the accesses of `n` iterations, the values of each behind those of the one before,
    /// where there is room for them. Returns how many it made: behind values and room there must be
    /// some more of both.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    pub fn expand(
        &self,
        thread: Thread,
        accesses: &[LinearAccess],
        n: usize,
        (values, each): (&[u64], usize),
        slots: &mut Slots,
        all: &mut Columns,
        room: &mut [Access],
    ) -> usize {
        self.prepare(thread, accesses, slots, all);
        let (mut values, mut room) = (values, room);
        for begin in (0..n).step_by(ROWS) {
            let (own, places) = (values.get(..ROWS * each), room.get_mut(..ROWS * accesses.len()));
            let (Some(own), Some(places)) = (own, places) else {
                return begin;
            };
            self.fill((n - begin).min(ROWS), (own, each), slots, all);
            for (i, (access, &base)) in all.accesses.iter().zip(&self.bases).enumerate() {
                let mut at = i;
                for base in all.moving(base) {
                    let place = &mut places[at];
                    *place = *access;
                    place.addr = place.addr.wrapping_add(base);
                    at += accesses.len();
                }
            }
            values = &values[ROWS * each..];
            room = &mut room[ROWS * accesses.len()..];
        }
        n
    }

    /// Makes what stays the same in a run.
    fn prepare(&self, thread: Thread, accesses: &[LinearAccess], slots: &Slots, all: &mut Columns) {
        for (i, constant) in (1..).zip(&self.constants) {
            let terms = constant.terms.iter();
            all.constants[i % CONSTANTS] = terms.fold(constant.c, |sum, &(slot, scale)| {
                sum.wrapping_add(slots[slot as usize].wrapping_mul(scale))
            });
        }
        for (i, (access, base)) in accesses.iter().zip(&self.bases).enumerate() {
            all.accesses[i % ACCESSES] = access.from(thread, all.constant(base.constant));
        }
    }

    /// Fills the columns for the next iterations. Leaves the slots as they are after `rows` of
    /// them, those that are worked out excepted.
    #[inline(always)]
    fn fill(&self, rows: usize, (values, each): (&[u64], usize), slots: &mut Slots, all: &mut Columns) {
        for (i, origin) in (1..).zip(&self.columns) {
            let i = i % COLUMNS;
            match origin {
                &Origin::Record { slot, value } => {
                    let column = &mut all.columns[i];
                    match values.first_chunk() {
                        Some(values) if each == 1 => *column = *values,
                        _ => {
                            let values = values[value as usize..].iter().step_by(each);
                            column.iter_mut().zip(values).for_each(|(place, &value)| *place = value);
                        }
                    }
                    slots[slot as usize] = column[(rows - 1) % ROWS];
                }
                &Origin::Step { slot, by, mask } => {
                    let (value, by) = (slots[slot as usize], all.constant(by));
                    // The mask leaves the lowest bits.
                    let after = |n: usize| value.wrapping_add(by.wrapping_mul(n as u64)) & mask;
                    all.columns[i] = std::array::from_fn(|row| if row == 0 { value } else { after(row) });
                    slots[slot as usize] = after(rows);
                }
                &Origin::Anew { slot, of, mask } => {
                    let next = all.at(of).map(|value| value & mask);
                    let first = std::mem::replace(&mut slots[slot as usize], next[(rows - 1) % ROWS]);
                    all.columns[i] = later(first, next);
                }
                Origin::Bits(work, of) => all.columns[i] = all.at(*of).map(|value| work.bits(value)),
                Origin::Sum(terms) => {
                    all.columns[i] = terms.iter().fold([0; ROWS], |mut sums, &(place, scale)| {
                        let each = sums.iter_mut().zip(all.at(place));
                        each.for_each(|(sum, value)| *sum = sum.wrapping_add(value.wrapping_mul(scale)));
                        sums
                    });
                }
            }
        }
    }
}

/// What has been found of a layout. Column and constant 0 are not in the lists.
#[derive(Default)]
struct Found {
    /// By slot, those that do not stay as they are.
    places: Vec<(u8, Place)>,
    columns: Vec<Origin>,
    constants: Vec<Constant>,
}

impl Found {
    /// Where a slot is that does not stay as it is.
    fn changing(&self, slot: u8) -> Option<Place> {
        self.places.iter().rfind(|p| p.0 == slot).map(|p| p.1)
    }

    fn place(&mut self, slot: u8) -> Option<Place> {
        self.changing(slot).or_else(|| self.sum(0, &[(slot, 1)]))
    }

    /// Where multiples of slots are, and a number, added up; `None` if that is no place.
    fn sum(&mut self, c: u64, terms: &[(u8, u64)]) -> Option<Place> {
        let mut place = Place {
            constant: ZERO,
            column: ZERO,
            by: 0,
        };
        let mut constant = Constant {
            c,
            terms: [(0, 0); TERMS],
        };
        for (own, &(slot, scale)) in constant.terms.iter_mut().zip(terms) {
            match self.changing(slot) {
                Some(of) if scale != 0 => {
                    let by = u32::from(of.by) + scale.trailing_zeros();
                    let first = place.column == ZERO && of.constant == ZERO;
                    if !first || !scale.is_power_of_two() || by >= u64::BITS {
                        return None;
                    }
                    place = Place { by: by as u8, ..of };
                }
                _ => *own = (slot, scale),
            }
        }
        self.constants.push(constant);
        place.constant = u8::try_from(self.constants.len()).ok()?;
        (self.constants.len() < CONSTANTS).then_some(place)
    }

    /// The next column, which is this slot's from now on.
    fn column(&mut self, slot: u8, origin: Origin) -> Option<()> {
        self.columns.push(origin);
        let place = Place {
            constant: ZERO,
            column: u8::try_from(self.columns.len()).ok()?,
            by: 0,
        };
        self.places.push((slot, place));
        (self.columns.len() < COLUMNS).then_some(())
    }

    fn moves(&mut self, m: &Move) -> Option<()> {
        let (slot, mask) = (m.slot, m.mask);
        let of = self.sum(m.by, &[(m.plus, m.scale)])?;
        let origin = match m.keeps {
            0 => Origin::Anew { slot, of, mask },
            _ if of.column == ZERO => Origin::Step {
                slot,
                by: of.constant,
                mask,
            },
            _ => return None,
        };
        self.column(slot, origin)
    }

    fn work(&mut self, work: &Work) -> Option<()> {
        if let How::Bits = work.how {
            let of = self.place(work.slots[0])?;
            return self.column(work.to, Origin::Bits(*work, of));
        }
        let terms: [(u8, u64); TERMS] = std::array::from_fn(|i| (work.slots[i], work.with[i]));
        if let Some(place) = self.sum(0, &terms) {
            self.places.push((work.to, place));
            return Some(());
        }
        let mut places = [(self.place(terms[0].0)?, terms[0].1); TERMS];
        for (place, term) in places.iter_mut().zip(terms).skip(1) {
            *place = (self.place(term.0)?, term.1);
        }
        self.column(work.to, Origin::Sum(places))
    }
}
