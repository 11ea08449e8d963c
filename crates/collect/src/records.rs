//! Expanding records that were never words.
//!
//! **Problem.** A recording's events are records that are already told apart: a number says whose record it is and how the block was left, and the
//! number of the one behind it is known as well. Writing that down as words, and looking up for each what it is, would take longer than making its accesses.
//!
//! **Idea.** What each number stands for is looked up once ([`Kinds`]), and is small enough for one line of the cache. Values are written straight to
//! the slots that addresses follow from.
//!
//! **Invariant.** What [`ThreadDecoder::feed_records`] takes gives what [`ThreadDecoder::feed`] gives for its words; it leaves alone
//! whatever that has no recipe for, or what follows may cut short.
use crate::columns::{columns, Columns};
use crate::decode::{Consumer, ThreadDecoder};
use crate::linear::{begin, capture, wanted, Body, Exit, Recipes, NO_RECIPE};
use crate::table::Table;
use crate::work::{Slots, SLOTS, USABLE};
use crate::DecodeError;
use memtrail_model::{Access, Thread};
use memtrail_translate::plan::{FIRST, RSP};

/// Records of one thread, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    /// The number of each one's kind.
    pub kinds: &'a [u32],
    /// The values of all. There may be more.
    pub values: &'a [u64],
    /// What the numbers stand for.
    pub what: &'a Kinds,
}

/// What is known of a kind of records.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Kind {
    /// Without terms if the record is not to be expanded here.
    body: Body,
    exit: Exit,
    block: u32,
    /// Its head, or 0 if it is no block's record, or one that cannot be.
    head: u32,
    /// Values of the record.
    values: u16,
    /// A later iteration of a partly steady loop.
    steady: bool,
    /// The block was left through a branch.
    left: bool,
    /// It may tell that the record before it was cut short.
    cuts: bool,
    /// Nothing but linear forms: see [`expand_plain`].
    plain: bool,
}

const _: () = assert!(size_of::<Kind>() == 64);

/// What kinds of records are, by number.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    kinds: Vec<Kind>,
}

impl Kinds {
    /// Forgets all, but keeps the memory.
    pub fn clear(&mut self) {
        self.kinds.clear();
    }

    /// Adds the records with this head and so many values.
    pub fn push(&mut self, table: &Table, head: u64, values: usize) {
        self.kinds.push(block(table, head, values).unwrap_or(OTHER));
    }

    /// Adds other records. `cuts`: they may tell how the record before them ended.
    pub fn push_other(&mut self, cuts: bool) {
        self.kinds.push(Kind { cuts, ..OTHER });
    }

    /// Whether [`ThreadDecoder::feed_records`] may take such records.
    #[inline]
    pub fn is_ready(&self, kind: u32) -> bool {
        self.kinds.get(kind as usize).is_some_and(|k| k.head != 0)
    }
}

/// Iterations of a loop that are made here, at most.
const SHORT: usize = 32;
/// Records after which the consumer may be asked whether it wants more.
const AT_ONCE: usize = 2048;

const OTHER: Kind = Kind {
    body: NO_RECIPE.body,
    exit: NO_RECIPE.end,
    block: 0,
    head: 0,
    values: 0,
    steady: false,
    left: false,
    cuts: false,
    plain: false,
};

/// What is known of a block's record; `None` if there is no such block.
fn block(table: &Table, head: u64, values: usize) -> Option<Kind> {
    let hot = table.hot(head)?;
    let kind = Kind {
        block: hot.block,
        head: u32::try_from(head)
            .ok()
            .filter(|_| usize::from(hot.words) == values + 1)?,
        values: hot.words - 1,
        steady: hot.role.is_steady(),
        left: hot.side > 0,
        ..OTHER
    };
    let recipe = table.recipes().get(hot.block)?;
    let exit = table.recipes().exit(recipe, hot);
    Some(match exit.filter(|_| values <= USABLE - FIRST as usize) {
        Some(&exit) => Kind {
            body: recipe.body,
            exit,
            plain: recipe.body.ready || recipe.body.affine && hot.side == 0,
            ..kind
        },
        None => kind,
    })
}

/// What became of plain records.
#[derive(Default)]
struct Expanded {
    records: usize,
    values: usize,
    words: u64,
    accesses: usize,
}

impl Expanded {
    /// So many records with so many values each.
    fn add(&mut self, records: usize, values: usize, accesses: usize) {
        self.records += records;
        self.values += records * values;
        self.words += (records * (values + 1)) as u64;
        self.accesses += accesses;
    }
}

/// Expands plain records, which are most, as far as there is room for their accesses. It is a function by itself so that all it needs is in registers.
#[inline(never)]
fn expand_plain(
    thread: Thread,
    recipes: &Recipes,
    records: &Records<'_>,
    (slots, columns): (&mut Slots, &mut Columns),
    in_loop: &mut Option<u32>,
    loops: bool,
    room: &mut [Access],
) -> Expanded {
    let kinds = records.what.kinds.as_slice();
    let mut done = Expanded::default();
    let mut left = records.kinds;
    // What follows the last one is not known.
    while let [first, others @ .., _] = left {
        let Some(kind) = kinds.get(*first as usize) else { break };
        if !kind.plain || kind.steady && *in_loop != Some(kind.block) {
            break;
        }
        let ends = kind.steady && kind.left;
        let alike = others.iter().take_while(|&k| k == first && !ends).count();
        let (values, room) = (&records.values[done.values..], &mut room[done.accesses..]);
        let (each, accesses) = (usize::from(kind.values), usize::from(kind.exit.accesses));
        let mut n = 1 + alike;
        if kind.body.affine {
            let fits = |trips: &usize| loops && *trips <= SHORT && trips * accesses <= room.len();
            let trips = values.get(..each).and_then(|own| recipes.repeat(&kind.body).trips(own));
            let follows = left.get(1).and_then(|&k| kinds.get(k as usize));
            let Some(trips) = trips
                .map(|t| t as usize)
                .filter(fits)
                .filter(|_| follows.is_some_and(|f| !f.cuts))
            else {
                break;
            };
            recipes.expand::<false>(thread, &kind.body, &kind.exit, 1, (values, each), slots, room);
            let room = &mut room[accesses..];
            recipes.expand::<true>(thread, &kind.body, &kind.exit, trips - 1, (&[], 0), slots, room);
            *in_loop = None;
            left = &left[1..];
            done.add(1, each, trips * accesses);
            continue;
        }
        if n * each > values.len() || n * accesses > room.len() {
            let fit = |all: usize, each: usize| all.checked_div(each).unwrap_or(n);
            n = fit(values.len(), each).min(fit(room.len(), accesses)).min(n);
        } else if kinds.get(left[n] as usize).is_none_or(|after| after.cuts) {
            n = alike;
        }
        if n == 0 {
            break;
        }
        if kind.steady {
            recipes.expand_run(thread, &kind.body, &kind.exit, n, (values, each), slots, columns, room);
        } else {
            recipes.expand::<false>(thread, &kind.body, &kind.exit, n, (values, each), slots, room);
        }
        *in_loop = (kind.body.repeat != 0 && !kind.left).then_some(kind.block);
        left = &left[n..];
        done.add(n, each, n * accesses);
    }
    done
}

impl ThreadDecoder {
    /// Expands the first records, as far as there are recipes for them and nothing cuts them, but no more than some thousands. Returns how many
    /// records that were, and how many words they would be.
    pub fn feed_records<C: Consumer>(
        &mut self,
        table: &Table,
        records: &Records<'_>,
        consumer: &mut C,
    ) -> Result<(usize, u64), DecodeError> {
        let ready = records.kinds.first().is_some_and(|&k| records.what.is_ready(k));
        if !(C::NEEDS_ADDRESSES && consumer.takes_linear() && ready) || consumer.full() {
            return Ok((0, 0));
        }
        self.hand_on(table, consumer)?;
        match consumer.wants_fetches() {
            false => self.expand_records::<C, false>(table, records, consumer),
            true if table.numbers_fetches() => self.expand_records::<C, true>(table, records, consumer),
            true => Ok((0, 0)),
        }
    }

    /// As [`ThreadDecoder::expand_linear`].
    fn expand_records<C: Consumer, const FETCH: bool>(
        &mut self,
        table: &Table,
        records: &Records<'_>,
        consumer: &mut C,
    ) -> Result<(usize, u64), DecodeError> {
        let recipes = table.recipes();
        let mut wide = self.wide.take().unwrap_or_else(|| Box::new([0; SLOTS]));
        let slots: &mut Slots = &mut wide;
        let mut columns = self.columns.take().unwrap_or_else(columns);
        let mut in_loop = self.enter(table, slots);
        let (following, loops) = (consumer.follows(), consumer.takes_short_loops());
        let kinds = records.what.kinds.as_slice();
        let kind = |i: usize| records.kinds.get(i).and_then(|&k| kinds.get(k as usize));
        let mut values = records.values;
        let (mut taken, mut words) = (0, 0);
        let mut next = kind(0);
        // What follows the last one is not known.
        while let (Some(first), 0..AT_ONCE) = (next, taken) {
            if !FETCH && !following && first.plain {
                let rest = Records {
                    kinds: &records.kinds[taken..records.kinds.len().min(AT_ONCE)],
                    values,
                    what: records.what,
                };
                let room = consumer.room(self.thread);
                let plain = expand_plain(
                    self.thread,
                    recipes,
                    &rest,
                    (slots, &mut columns),
                    &mut in_loop,
                    loops,
                    room,
                );
                consumer.filled(plain.accesses);
                values = &values[plain.values..];
                words += plain.words;
                taken += plain.records;
                next = kind(taken);
            }
            let (Some(kind), Some(after)) = (next, kind(taken + 1)) else {
                break;
            };
            let Kind { body, exit, block, .. } = kind;
            let Some((own, others)) = values.split_at_checked(kind.values.into()) else {
                break;
            };
            if kind.head == 0 || after.cuts {
                break;
            }
            let ready = body.ready && (!kind.steady || in_loop == Some(*block));
            let takes = ready && consumer.takes(wanted::<FETCH>(exit));
            if !takes && consumer.full() {
                break;
            }
            let all = values;
            (next, values) = (Some(after), others);
            taken += 1;
            words += u64::from(kind.values) + 1;
            if !takes {
                self.leave(table, slots, in_loop);
                self.any(table, kind, own, consumer)?;
                in_loop = self.enter(table, slots);
                continue;
            }
            if kind.steady {
                recipes.repeat(body).begin(slots, own);
            } else {
                capture(slots, all, own.len());
            }
            let mut bends = None;
            if following {
                let found = (*block, &table.blocks()[*block as usize]);
                let left = kind.left.then_some(exit.insn);
                bends = begin(self.thread, found, left, slots, consumer).then_some(found);
            }
            let rsp = match bends {
                Some(found) => recipes.execute_bending::<C, FETCH>(self.thread, found, body, exit, slots, consumer),
                None => recipes.execute::<C, FETCH>(self.thread, *block, body, exit, kind.steady, slots, consumer),
            };
            in_loop = None;
            if body.repeat != 0 && !kind.left {
                recipes.repeat(body).step(slots);
                in_loop = Some(*block);
            }
            slots[RSP as usize] = rsp;
        }
        if taken > 0 {
            self.leave(table, slots, in_loop);
        }
        (self.wide, self.columns) = (Some(wide), Some(columns));
        Ok((taken, words))
    }

    /// Takes a record of any block, in the way that takes everything.
    #[inline(never)]
    fn any<C: Consumer>(
        &mut self,
        table: &Table,
        kind: &Kind,
        values: &[u64],
        consumer: &mut C,
    ) -> Result<(), DecodeError> {
        let mut record = std::mem::take(&mut self.held);
        record.clear();
        record.push(kind.head.into());
        record.extend_from_slice(values);
        let done = self.block(table, &record, &[], 0, consumer);
        record.clear();
        self.held = record;
        done.map(|_| ())
    }
}
