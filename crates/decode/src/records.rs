//! Expanding records that were never words.
//!
//! **Problem.** A recording's events are records that are already told apart: a number says whose
//! record it is and how the block was left, and the number of the one behind it is known as well.
//! Writing that down as words, and looking up for each what it is, would take longer than making
//! its accesses.
//!
//! **Idea.** What each number stands for is looked up once ([`Kinds`]), and is small enough for one
//! line of the cache. Values are written straight to the slots that addresses follow from.
//!
//! **Invariant.** What [`ThreadDecoder::feed_records`] takes gives what [`ThreadDecoder::feed`]
//! gives for its words; it leaves alone whatever that has no recipe for, or what follows may cut
//! short.
use crate::columns::Columns;
use crate::decode::{Consumer, ThreadDecoder};
use crate::follow::Turn;
use crate::linear::{begin, capture, wanted, Body, Exit, Recipes, NO_RECIPE};
use crate::table::Table;
use crate::work::{Slots, SLOTS, USABLE};
use crate::DecodeError;
use memtrail_model::{Access, Thread};
use memtrail_plan::{FIRST, RSP};

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
    /// There are calls, returns or changes of stacks among its accesses.
    bends: bool,
    /// What it ended with may be one of these: the next record tells.
    turns: bool,
    /// If it is nothing but linear forms: see [`expand_plain`].
    way: Way,
}

/// What a plain record stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// An execution.
    Once,
    /// An iteration: the first, or a later one.
    First,
    Later,
    /// All iterations of a loop.
    Whole,
    /// It is not plain.
    Other,
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

    /// Adds the records with this head and this number of values.
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
const SHORT: u64 = 32;
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
    bends: false,
    turns: false,
    way: Way::Other,
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
    let block = &table.blocks()[hot.block as usize];
    let bends = |exit: &Exit| block.bends.iter().any(|b| b.insn <= exit.insn && !b.stays());
    let turn = |exit: &Exit| match block.side(exit.insn).filter(|_| kind.left) {
        Some(side) => Turn::at(&block.plan, exit.insn, &side.rsp),
        None => block.turn,
    };
    Some(match exit.filter(|_| values <= USABLE - FIRST as usize) {
        Some(&exit) => Kind {
            body: recipe.body,
            exit,
            bends: bends(&exit),
            turns: turn(&exit) != Turn::None,
            way: match recipe.body {
                Body { affine: true, .. } if !kind.left => Way::Whole,
                Body { ready: false, .. } => Way::Other,
                _ if kind.steady => Way::Later,
                Body { repeat: 0, .. } => Way::Once,
                _ if kind.left => Way::Once,
                _ => Way::First,
            },
            ..kind
        },
        None => kind,
    })
}

/// What became of plain records.
struct Expanded {
    /// The number of the last one's kind.
    last: Option<u32>,
    records: usize,
    values: usize,
    accesses: usize,
}

/// Expands plain records, which are most, as far as there is room for their accesses. It is a
/// function by itself so that all it needs is in registers. `FOLLOW`: only as long as nothing is to
/// be told of calls and returns, whether among the accesses of a record or before the next one.
#[inline(never)]
fn expand_plain<const FOLLOW: bool>(
    thread: Thread,
    recipes: &Recipes,
    records: &Records<'_>,
    (slots, columns): (&mut Slots, &mut Columns),
    in_loop: &mut Option<u32>,
    longest: u64,
    room: &mut [Access],
) -> Expanded {
    let kinds = records.what.kinds.as_slice();
    let rooms = room.len();
    let mut last = None;
    let (mut left, mut values, mut room) = (records.kinds, records.values, room);
    // What follows the last one is not known.
    while let [first, second, ..] = *left {
        let (Some(kind), Some(after)) = (kinds.get(first as usize), kinds.get(second as usize)) else {
            break;
        };
        let (body, exit) = (&kind.body, &kind.exit);
        let (each, accesses) = (usize::from(kind.values), usize::from(exit.accesses));
        let fits = each <= values.len() && accesses <= room.len();
        if !fits || after.cuts || FOLLOW && kind.bends {
            break;
        }
        // Records, and executions.
        let (mut n, mut times) = (1, 1);
        match kind.way {
            Way::Once => {
                slots[RSP as usize] = recipes.expand_one(thread, body, exit, (values, each), slots, room);
                *in_loop = None;
            }
            Way::First => {
                recipes.expand_first(thread, body, exit, (values, each), slots, room);
                *in_loop = Some(kind.block);
            }
            Way::Later if *in_loop == Some(kind.block) => {
                if kind.left {
                    *in_loop = None;
                } else if !FOLLOW || !kind.turns {
                    // What follows the last one of them may cut it.
                    n = left.iter().take_while(|&&k| k == first).count();
                    let last = left.get(n).and_then(|&k| kinds.get(k as usize));
                    n -= usize::from(last.is_none_or(|after| after.cuts));
                    if n * each > values.len() || n * accesses > room.len() {
                        let fit = |all: usize, each: usize| all.checked_div(each).unwrap_or(n);
                        n = fit(values.len(), each).min(fit(room.len(), accesses)).min(n);
                    }
                }
                recipes.expand_run(thread, body, exit, n, (values, each), (slots, columns), room);
                times = n;
            }
            Way::Whole if longest > 0 => {
                let trips = recipes.repeat(body).trips(&values[..each]);
                let Some(trips) = trips.filter(|&t| t <= longest && t as usize * accesses <= room.len()) else {
                    break;
                };
                times = trips as usize;
                recipes.expand_first(thread, body, exit, (values, each), slots, room);
                let room = &mut room[accesses..];
                recipes.expand_run(thread, body, exit, times - 1, (&[], 0), (slots, columns), room);
                *in_loop = None;
            }
            _ => break,
        }
        left = &left[n..];
        values = &values[n * each..];
        room = &mut room[times * accesses..];
        if FOLLOW {
            last = Some(first);
            if kind.turns {
                break;
            }
        }
    }
    Expanded {
        last,
        records: records.kinds.len() - left.len(),
        values: records.values.len() - values.len(),
        accesses: rooms - room.len(),
    }
}

impl ThreadDecoder {
    /// Expands the first records, as far as there are recipes for them and nothing cuts them, but
    /// no more than some thousands. Returns how many records that were, and how many words they
    /// would be.
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
        let mut columns = self.columns.take().unwrap_or_else(Columns::new);
        let mut in_loop = self.enter(table, slots);
        let (following, longest) = (consumer.follows(), consumer.short_loops().min(SHORT));
        let kinds = records.what.kinds.as_slice();
        let kind = |i: usize| records.kinds.get(i).and_then(|&k| kinds.get(k as usize));
        let mut values = records.values;
        let (mut taken, mut words) = (0, 0);
        let mut next = kind(0);
        // What follows the last one is not known.
        while let (Some(first), 0..AT_ONCE) = (next, taken) {
            if !FETCH && first.way != Way::Other && (!following || consumer.is_calm()) {
                let rest = Records {
                    kinds: &records.kinds[taken..records.kinds.len().min(AT_ONCE)],
                    values,
                    what: records.what,
                };
                let room = consumer.room(self.thread);
                let expand = match following {
                    true => expand_plain::<true>,
                    false => expand_plain::<false>,
                };
                let plain = expand(
                    self.thread,
                    recipes,
                    &rest,
                    (slots, &mut columns),
                    &mut in_loop,
                    longest,
                    room,
                );
                consumer.filled(plain.accesses);
                if let Some(last) = plain.last.map(|last| &kinds[last as usize]) {
                    let block = &table.blocks()[last.block as usize];
                    consumer.went(last.block, block, last.left.then_some(last.exit.insn));
                }
                values = &values[plain.values..];
                words += (plain.records + plain.values) as u64;
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
