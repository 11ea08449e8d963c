//! Iterations of a loop, slot by slot instead of one after the other.
//!
//! **Problem.** A loop that has a record for every iteration makes runs of hundreds of records of one kind. To go through its works and accesses for each of them takes
//! longer for finding out what to do than for doing it.
//!
//! **Idea.** What a slot is in some iterations is a *column*. Columns follow from those before them: first come the values of the records, then what moves from one iteration
//! to the next, which depends on a record at most, then what is worked out. So each takes a short loop without branches, and so does each access of the body.
//!
//! **Invariant.** What comes out, and what the slots are afterwards, is as if iterations were made one by one.
use crate::linear::LinearAccess;
use crate::work::{How, Move, Slots, Work, SLOTS};
use memtrail_model::{Access, Thread};
use memtrail_translate::plan::TERMS;

/// Iterations at once, at most.
const ROWS: usize = 32;
/// As many as a multiple of this are made, even if not all of them are wanted: so loops take no branches for the rest.
const STRIDE: usize = 4;
/// Columns of a loop, at most.
const COLUMNS: usize = 24;
/// Fewer iterations are made one by one.
pub(crate) const WORTH: usize = 3;

/// What slots are in some iterations.
pub(crate) type Columns = [Column; COLUMNS];
type Column = [u64; ROWS];

pub(crate) fn columns() -> Box<Columns> {
    Box::new([[0; ROWS]; COLUMNS])
}

/// Where a value is: in a slot, the same in all iterations, or in a column.
#[derive(Clone, Copy, Debug)]
enum Place {
    Slot(u8),
    Column(u8),
}

/// What a column follows from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// A value of each record.
    Record(u8),
    /// The iteration before, and another value then.
    Move(Move, Place),
    /// Other values of the same iteration.
    Work(Work, [Place; TERMS]),
}

/// The columns of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// By column: its slot, and what it follows from, which comes before it.
    columns: Box<[(u8, Origin)]>,
    /// By access: where it is a constant distance from.
    bases: Box<[Place]>,
}

impl Layout {
    /// That of a loop whose records have the values of the `free` slots, and which does not move the stack pointer. `None` if what moves depends on more than a record, or if
    /// there are too many columns.
    pub fn new(free: &[u8], moves: &[Move], works: &[Work], bases: impl Iterator<Item = u8>) -> Option<Layout> {
        let moved = |slot: u8| moves.iter().filter(|m| m.slot == slot).count();
        if moves
            .iter()
            .any(|m| moved(m.slot) > 1 || moved(m.plus) > 0 || free.contains(&m.slot))
        {
            return None;
        }
        let mut found = Found {
            at: [None; SLOTS],
            columns: Vec::new(),
        };
        for (i, &slot) in free.iter().enumerate() {
            found.push(slot, Origin::Record(i.try_into().ok()?));
        }
        for m in moves {
            found.push(m.slot, Origin::Move(*m, found.place(m.plus)));
        }
        for work in works {
            found.push(work.to, Origin::Work(*work, work.slots.map(|s| found.place(s))));
        }
        let bases = bases.map(|slot| found.place(slot)).collect();
        (found.columns.len() <= COLUMNS).then(|| Layout {
            columns: found.columns.into(),
            bases,
        })
    }

    /// Makes the accesses of `n` iterations, the values of each behind those of the one before, where there is room for them. Returns how many it made: behind values and room there
    /// must be some more of both.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    pub fn expand(
        &self,
        thread: Thread,
        accesses: &[LinearAccess],
        n: usize,
        (values, each): (&[u64], usize),
        slots: &mut Slots,
        columns: &mut Columns,
        room: &mut [Access],
    ) -> usize {
        for begin in (0..n).step_by(ROWS) {
            let rows = (n - begin).min(ROWS);
            let made = rows.next_multiple_of(STRIDE);
            let values = values[begin * each..].get(..made * each);
            let room = room[begin * accesses.len()..].get_mut(..made * accesses.len());
            let (Some(values), Some(room)) = (values, room) else {
                return begin;
            };
            self.fill((rows, made), (values, each), slots, columns);
            for (i, (access, base)) in accesses.iter().zip(&self.bases).enumerate() {
                let mut at = i;
                match *base {
                    Place::Slot(slot) => {
                        let access = access.from(thread, slots[slot as usize]);
                        for _ in 0..made {
                            room[at] = access;
                            at += accesses.len();
                        }
                    }
                    Place::Column(c) => {
                        for &base in &columns[c as usize][..made] {
                            room[at] = access.from(thread, base);
                            at += accesses.len();
                        }
                    }
                }
            }
        }
        n
    }

    /// Fills the columns for the next `made` iterations, and leaves the slots as they are after `rows` of them.
    #[inline(always)]
    fn fill(
        &self,
        (rows, made): (usize, usize),
        (values, each): (&[u64], usize),
        slots: &mut Slots,
        columns: &mut Columns,
    ) {
        for (c, (slot, origin)) in self.columns.iter().enumerate() {
            let slot = usize::from(*slot);
            let (before, others) = columns.split_at_mut(c);
            let column = &mut others[0][..made];
            let other = |c: u8| &before[c as usize][..made];
            let mut after = None;
            match origin {
                Origin::Record(i) => {
                    let mut at = usize::from(*i);
                    for place in &mut *column {
                        *place = values[at];
                        at += each;
                    }
                }
                Origin::Move(m, plus) => {
                    let end = match *plus {
                        Place::Slot(plus) => moving(m, column, slots[slot], m.step(slots[plus as usize])),
                        Place::Column(plus) => following(m, column, slots[slot], other(plus)),
                    };
                    after = Some(column.get(rows).copied().unwrap_or(end));
                }
                Origin::Work(work, from) => {
                    let scales = work.scales();
                    let constant = |i: usize| match from[i] {
                        Place::Slot(slot) => slots[slot as usize].wrapping_mul(scales[i]),
                        Place::Column(_) => 0,
                    };
                    column.fill((0..TERMS).map(constant).fold(0, u64::wrapping_add));
                    for (place, scale) in from.iter().zip(scales) {
                        if let &Place::Column(c) = place {
                            add(column, other(c), scale);
                        }
                    }
                    if let How::Bits = work.how {
                        column.iter_mut().for_each(|value| *value = work.bits(*value));
                    }
                }
            }
            slots[slot] = after.unwrap_or(column[rows - 1]);
        }
    }
}

/// What has been found of the columns.
struct Found {
    /// By slot.
    at: [Option<u8>; SLOTS],
    columns: Vec<(u8, Origin)>,
}

impl Found {
    fn place(&self, slot: u8) -> Place {
        self.at[slot as usize].map_or(Place::Slot(slot), Place::Column)
    }

    /// The next column, which is this slot's from now on.
    fn push(&mut self, slot: u8, origin: Origin) {
        self.at[slot as usize] = self.columns.len().try_into().ok();
        self.columns.push((slot, origin));
    }
}

/// Adds a multiple of a column to another.
#[inline(always)]
fn add(sums: &mut [u64], column: &[u64], scale: u64) {
    let each = sums.iter_mut().zip(column);
    if scale.is_power_of_two() {
        // Most are, and several can be shifted at once.
        let by = scale.trailing_zeros();
        each.for_each(|(sum, value)| *sum = sum.wrapping_add(value << by));
    } else {
        each.for_each(|(sum, value)| *sum = sum.wrapping_add(value.wrapping_mul(scale)));
    }
}

/// Where a slot is that moves by the same in each iteration, and where it comes to in the end.
#[inline(always)]
fn moving(m: &Move, column: &mut [u64], first: u64, step: u64) -> u64 {
    column.iter_mut().fold(first, |value, place| {
        *place = value;
        m.next(value, step)
    })
}

/// As [`moving`], by what is in another column.
#[inline(always)]
fn following(m: &Move, column: &mut [u64], first: u64, plus: &[u64]) -> u64 {
    if m.keeps == 0 {
        // No value follows from the one before.
        let (place, others) = column.split_first_mut().expect("there are rows");
        *place = first;
        others.fill(m.by);
        add(others, plus, m.scale);
        others.iter_mut().for_each(|value| *value &= m.mask);
        return m.next(0, m.step(plus[plus.len() - 1]));
    }
    column.iter_mut().zip(plus).fold(first, |value, (place, &plus)| {
        *place = value;
        m.next(value, m.step(plus))
    })
}
