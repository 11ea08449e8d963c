//! Expanding without interpreting: blocks whose addresses are linear forms, prepared once.
//!
//! **Problem.** A replay makes hundreds of millions of accesses per second, and a plan
//! is made for being understood: shapes, optional segments, terms that may or may not be there.
//!
//! **Idea.** Most blocks have only plain accesses, and most of those lie a constant away from a
//! captured value. For such blocks the table holds a *recipe*: every access is a slot and a
//! distance, and what is no slot yet (a sum of several, a narrowed value) is *work* that makes it
//! one, once for all accesses that need it. Slots are bytes into an array of 256, missing terms are
//! zero times a slot that is zero, so that nothing takes a branch or a check. For every way out of
//! the block it is known how many of the accesses were made, and what work they need. Recipes are
//! small and lie side by side: a program runs through many of them.
//!
//! **Invariant.** What a recipe gives is what [`crate::Expander`] gives without it.
use crate::columns::{Columns, Layout, WORTH};
use crate::decode::{Consumer, InLoop, ThreadDecoder};
use crate::follow::Turn;
use crate::points::Points;
use crate::table::{Block, Hot, Table};
use crate::work::{Move, Slots, Work, Works, SLOTS, USABLE, ZERO};
use memtrail_model::{Access, Kind, Thread};
use memtrail_plan::{Addr, Lin, LoopPlan, Plan, PlannedAccess, Shape, Step, FIRST, RSP};
use memtrail_ring::record::{CUT, END};

/// A plain access at a constant distance from a slot, as it will be but for two things: its address
/// is the distance, and its thread the slot. So one is made of the other by copying.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearAccess(Access);

impl LinearAccess {
    fn new(access: Access, slot: u8) -> LinearAccess {
        LinearAccess(Access {
            thread: Thread(slot.into()),
            ..access
        })
    }

    #[inline(always)]
    fn slot(&self) -> u8 {
        self.0.thread.0 as u8
    }

    /// With this value of its slot.
    #[inline(always)]
    pub fn from(&self, thread: Thread, base: u64) -> Access {
        let LinearAccess(mut access) = *self;
        access.addr = access.addr.wrapping_add(base);
        access.thread = thread;
        access
    }

    #[inline(always)]
    fn at(&self, thread: Thread, slots: &Slots) -> Access {
        self.from(thread, slots[self.slot() as usize])
    }
}

/// The address with its segment as one form.
fn linear(addr: &Addr) -> Option<Lin> {
    match addr.segment {
        _ if addr.low32 => None,
        None => Some(addr.lin),
        Some(segment) => addr.lin.add(&Lin::slot(segment), 1),
    }
}

/// A way out of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// The stack pointer then is so far from a slot.
    c: u64,
    /// Accesses made until then.
    pub accesses: u16,
    /// The branch, or the last instruction.
    pub insn: u16,
    slot: u8,
    /// What is to be worked out until then, and in iterations after the first.
    works: u8,
    works_again: u8,
}

impl Exit {
    /// The stack pointer after the execution.
    #[inline]
    fn rsp(&self, slots: &Slots) -> u64 {
        slots[self.slot as usize].wrapping_add(self.c)
    }
}

/// An access and what its address takes.
fn access_of(block: &Block, access: &PlannedAccess, points: &Points, works: &mut Works<'_>) -> Option<LinearAccess> {
    let Shape::Plain { addr, size } = &access.shape else {
        return None;
    };
    let (slot, c) = works.base(&linear(addr)?)?;
    let access = Access {
        pc: block.plan.instruction(access.insn).0,
        addr: c,
        size: *size,
        point: points.own,
        thread: Thread(0),
        kind: access.kind,
    };
    Some(LinearAccess::new(access, slot))
}

/// What is special in a partly steady loop.
#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    /// Slots that later records have.
    free: Box<[u8]>,
    moves: Box<[Move]>,
    /// Some slot moves by a multiple of another.
    plus: bool,
    /// Of a loop with one record: what counts its iterations, and the slot of that at the end.
    counter: Option<(Step, u8)>,
    /// How iterations are made slot by slot, if they can be.
    layout: Option<Layout>,
}

impl Repeat {
    /// Fills in the values of a later iteration's record.
    #[inline]
    pub fn begin(&self, slots: &mut Slots, values: &[u64]) {
        match (&*self.free, values) {
            // Most have one or two.
            (&[a], &[x, ..]) => slots[a as usize] = x,
            (&[a, b], &[x, y, ..]) => (slots[a as usize], slots[b as usize]) = (x, y),
            (all, _) => all.iter().zip(values).for_each(|(&s, &v)| slots[s as usize] = v),
        }
    }

    /// How many iterations a loop's one record stands for, if that is easily said.
    pub fn trips(&self, values: &[u64]) -> Option<u64> {
        let (counter, exit) = &self.counter?;
        let value = |slot: usize| slot.checked_sub(FIRST.into()).and_then(|i| values.get(i)).copied();
        let (entry, exit) = (value(counter.slot.into())?, value((*exit).into())?);
        Some(Plan::trips(counter, entry, exit)).filter(|&n| n > 0)
    }

    /// Moves the slots to the next iteration.
    #[inline]
    pub fn step(&self, slots: &mut Slots) {
        if self.plus {
            self.moves.iter().for_each(|m| m.apply::<true>(slots));
        } else {
            self.moves.iter().for_each(|m| m.apply::<false>(slots));
        }
    }
}

/// What all executions of a block have in common, ready for expansion: where in the arrays of
/// [`Recipes`] it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    accesses: u32,
    works: u32,
    works_again: u32,
    /// 1 + index of the [`Repeat`], 0 if it is no loop.
    pub repeat: u32,
    /// There is a recipe for an execution.
    pub ready: bool,
    /// There is one for an iteration, and a record for all of them.
    pub affine: bool,
}

/// A block ready for expansion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    pub body: Body,
    pub end: Exit,
    sides: u32,
    side_count: u16,
}

/// The recipes of all blocks, by the blocks' indices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recipes {
    recipes: Vec<Recipe>,
    accesses: Vec<LinearAccess>,
    sides: Vec<Exit>,
    works: Vec<Work>,
    repeats: Vec<Repeat>,
    /// As `accesses`, with the fetches among them. Not there if the table does not number fetches.
    fetching: Vec<LinearAccess>,
    /// By the blocks' indices: where in `fetching` the block's begin.
    first_fetching: Vec<u32>,
}

pub(crate) const NO_RECIPE: Recipe = Recipe {
    body: Body {
        accesses: 0,
        works: 0,
        works_again: 0,
        repeat: 0,
        ready: false,
        affine: false,
    },
    end: Exit {
        c: 0,
        accesses: 0,
        insn: 0,
        slot: ZERO,
        works: 0,
        works_again: 0,
    },
    sides: 0,
    side_count: 0,
};

impl Recipes {
    /// Adds the recipe of the next block.
    pub fn push(&mut self, block: &Block) {
        let recipe = self.make(block).unwrap_or(NO_RECIPE);
        self.recipes.push(recipe);
    }

    #[inline]
    pub fn get(&self, block: u32) -> Option<&Recipe> {
        self.recipes.get(block as usize)
    }

    /// Adds the fetches of the next block that has none yet. A fetch is an access whose address is
    /// constant.
    pub fn push_fetches(&mut self, block: &Block) {
        let recipe = self.recipes[self.first_fetching.len()];
        let first = u32::try_from(self.fetching.len()).unwrap_or(u32::MAX);
        self.first_fetching.push(first);
        if !recipe.body.ready {
            return;
        }
        let fetch = |insn: u16| {
            let (pc, size) = block.plan.instruction(insn);
            let access = Access {
                pc,
                addr: pc,
                size,
                point: block.fetch_point(insn),
                thread: Thread(0),
                kind: Kind::Fetch,
            };
            LinearAccess::new(access, ZERO)
        };
        let accesses = part(&self.accesses, recipe.body.accesses, recipe.end.accesses);
        self.fetching.extend(block.with_fetches(accesses, fetch));
    }

    /// What one execution fetches and accesses.
    #[inline]
    fn fetching(&self, block: u32, exit: &Exit) -> &[LinearAccess] {
        let first = self.first_fetching[block as usize] as usize;
        let fetches = usize::from(exit.insn.wrapping_add(1));
        &self.fetching[first..][..fetches + usize::from(exit.accesses)]
    }

    /// `None` if not all addresses are linear.
    fn make(&mut self, block: &Block) -> Option<Recipe> {
        let plan = &block.plan;
        if plan.slots() > USABLE {
            return None;
        }
        let mut works = Works::new(plan);
        let (mut accesses, mut sides) = (Vec::new(), Vec::new());
        let mut left = plan.accesses.iter().zip(&block.points).peekable();
        // The accesses up to instruction `insn`, and the exit there.
        let mut until = |insn: u16, rsp: &Lin, works: &mut Works<'_>| {
            while let Some((access, points)) = left.next_if(|(a, _)| a.insn <= insn) {
                accesses.push(access_of(block, access, points, works)?);
            }
            let (slot, c) = works.base(rsp)?;
            Some(Exit {
                c,
                accesses: accesses.len().try_into().ok()?,
                insn,
                slot,
                works: works.count()?,
                works_again: 0,
            })
        };
        for side in &plan.sides {
            sides.push(until(side.insn, &side.rsp, &mut works)?);
        }
        let mut plus = block.steps().iter().filter_map(|s| s.plus);
        plus.try_for_each(|(slot, _)| works.need(slot))?;
        let mut end = Exit {
            insn: (plan.insn_offsets.len() as u16).wrapping_sub(1),
            ..until(u16::MAX, &plan.exit_rsp, &mut works)?
        };
        let affine = matches!(plan.looping, Some(LoopPlan::Affine { .. }));
        let again = works.again(plan);
        for exit in sides.iter_mut().chain([&mut end]) {
            let until = again.iter().take(exit.works.into());
            exit.works_again = until.filter(|&&again| again).count() as u8;
        }
        let index = |len: usize| u32::try_from(len).ok();
        let recipe = Recipe {
            body: Body {
                accesses: index(self.accesses.len())?,
                works: index(self.works.len())?,
                works_again: index(self.works.len() + works.list.len())?,
                repeat: match plan.looping {
                    Some(_) => index(self.repeats.len() + 1)?,
                    None => 0,
                },
                ready: !affine,
                affine,
            },
            end,
            sides: index(self.sides.len())?,
            side_count: sides.len().try_into().ok()?,
        };
        if let Some(looping) = &plan.looping {
            let (free, counter) = match looping {
                LoopPlan::Affine { counter, .. } => (&[][..], Some((*counter, (FIRST + plan.words - 2) as u8))),
                LoopPlan::Partly { free, .. } => (&free[..], None),
            };
            let free: Box<[u8]> = free.iter().map(|&s| s as u8).collect();
            let moves: Box<[Move]> = block.steps().iter().filter(|s| s.moves()).map(Move::of).collect();
            let again = works.list.iter().zip(again).filter(|w| w.1);
            self.works.extend(&works.list);
            self.works.extend(again.map(|w| w.0));
            let layout = (!affine && plan.exit_rsp == Lin::slot(RSP)).then(|| {
                let works = self.works(&recipe.body, &end, true);
                Layout::new(&free, &moves, works, accesses.iter().map(LinearAccess::slot))
            });
            self.repeats.push(Repeat {
                free,
                moves,
                plus: block.steps().iter().any(|s| s.plus.is_some()),
                counter,
                layout: layout.flatten(),
            });
        } else {
            self.works.extend(&works.list);
        }
        self.accesses.extend(accesses);
        self.sides.extend(sides);
        Some(recipe)
    }

    /// How an execution ended, by its record.
    #[inline]
    pub fn exit<'r>(&'r self, recipe: &'r Recipe, hot: &Hot) -> Option<&'r Exit> {
        match hot.side {
            0 => Some(&recipe.end),
            side => part(&self.sides, recipe.sides, recipe.side_count).get(usize::from(side) - 1),
        }
    }

    /// What the accesses of an execution follow from; in an iteration after the first, what can
    /// have changed.
    #[inline(always)]
    fn works(&self, body: &Body, exit: &Exit, again: bool) -> &[Work] {
        match again {
            false => part(&self.works, body.works, exit.works.into()),
            true => part(&self.works, body.works_again, exit.works_again.into()),
        }
    }

    #[inline(always)]
    fn work(&self, body: &Body, exit: &Exit, again: bool, slots: &mut Slots) {
        self.works(body, exit, again).iter().for_each(|w| w.done(slots));
    }

    /// All that the accesses of an execution follow from.
    #[inline(always)]
    fn prepared<'r, const FETCH: bool>(
        &'r self,
        thread: Thread,
        block: u32,
        body: &Body,
        exit: &Exit,
        slots: &'r Slots,
    ) -> Linear<'r> {
        Linear {
            thread,
            accesses: if FETCH {
                self.fetching(block, exit)
            } else {
                part(&self.accesses, body.accesses, exit.accesses)
            },
            slots,
        }
    }

    /// Hands on the accesses of one execution; returns the stack pointer after it. `again`: it is
    /// an iteration after the first.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub fn execute<C: Consumer, const FETCH: bool>(
        &self,
        thread: Thread,
        block: u32,
        body: &Body,
        exit: &Exit,
        again: bool,
        slots: &mut Slots,
        consumer: &mut C,
    ) -> u64 {
        self.work(body, exit, again, slots);
        let linear = self.prepared::<FETCH>(thread, block, body, exit, slots);
        if FETCH {
            consumer.linear_fetching(&linear, exit.accesses.into());
        } else {
            consumer.linear(&linear);
        }
        exit.rsp(slots)
    }

    /// As [`Recipes::execute`], but tells of the block's bends as well.
    #[inline(never)]
    pub fn execute_bending<C: Consumer, const FETCH: bool>(
        &self,
        thread: Thread,
        (index, block): (u32, &Block),
        body: &Body,
        exit: &Exit,
        slots: &mut Slots,
        consumer: &mut C,
    ) -> u64 {
        // A bend may need what no access until then does.
        self.work(body, self.get(index).map_or(exit, |r| &r.end), false, slots);
        let linear = self.prepared::<FETCH>(thread, index, body, exit, slots);
        let mut done = (0, 0);
        for (n, bend) in block.bends.iter().enumerate().take_while(|(_, b)| b.insn <= exit.insn) {
            done = linear.hand_on::<C, FETCH>(done, (bend.insn, bend.accesses), consumer);
            consumer.bend(thread, block, n, linear.slots);
        }
        linear.hand_on::<C, FETCH>(done, (exit.insn.wrapping_add(1), exit.accesses), consumer);
        exit.rsp(slots)
    }

    /// As [`Recipes::execute`], for a record's values; writes the accesses where there is room for
    /// them.
    #[inline(always)]
    pub fn expand_one(
        &self,
        thread: Thread,
        body: &Body,
        exit: &Exit,
        (values, each): (&[u64], usize),
        slots: &mut Slots,
        room: &mut [Access],
    ) -> u64 {
        capture(slots, values, each);
        self.work(body, exit, false, slots);
        let accesses = part(&self.accesses, body.accesses, exit.accesses);
        let linear = Linear {
            thread,
            accesses,
            slots,
        };
        linear.write(room);
        exit.rsp(slots)
    }

    /// As [`Recipes::expand_one`], for the first iteration of a loop: the slots are ready for the
    /// next.
    #[inline(always)]
    pub fn expand_first(
        &self,
        thread: Thread,
        body: &Body,
        exit: &Exit,
        values: (&[u64], usize),
        slots: &mut Slots,
        room: &mut [Access],
    ) {
        let rsp = self.expand_one(thread, body, exit, values, slots, room);
        self.repeat(body).step(slots);
        slots[RSP as usize] = rsp;
    }

    /// As [`Recipes::expand_one`], for `n` iterations after the first that ended in the same way,
    /// the values of each behind those of the one before.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub fn expand_run(
        &self,
        thread: Thread,
        body: &Body,
        exit: &Exit,
        n: usize,
        (values, each): (&[u64], usize),
        (slots, columns): (&mut Slots, &mut Columns),
        room: &mut [Access],
    ) {
        let repeat = self.repeat(body);
        let accesses = part(&self.accesses, body.accesses, exit.accesses);
        let mut made = 0;
        if let Some(layout) = repeat.layout.as_ref().filter(|_| n >= WORTH) {
            made = layout.expand(thread, accesses, n, (values, each), slots, columns, room);
        }
        let works = self.works(body, exit, true);
        for i in made..n {
            repeat.begin(slots, &values[i * each..]);
            works.iter().for_each(|w| w.done(slots));
            let linear = Linear {
                thread,
                accesses,
                slots,
            };
            linear.write(&mut room[i * accesses.len()..]);
            let rsp = exit.rsp(slots);
            repeat.step(slots);
            slots[RSP as usize] = rsp;
        }
    }

    /// Goes through later iterations of a partly steady loop, whose records begin with `steady`.
    /// Returns where they end.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn iterate<C: Consumer, const FETCH: bool>(
        &self,
        thread: Thread,
        block: u32,
        recipe: &Recipe,
        steady: u64,
        slots: &mut Slots,
        words: &[u64],
        mut at: usize,
        consumer: &mut C,
    ) -> usize {
        let body = &recipe.body;
        let length = 1 + self.repeat(body).free.len();
        while let Some(record) = words.get(at..at + length + 1) {
            let (head, follows) = (record[0], record[length]);
            let whole = !matches!(follows, CUT | END);
            if head != steady || !whole || !consumer.takes(wanted::<FETCH>(&recipe.end)) {
                break;
            }
            self.repeat(body).begin(slots, &record[1..]);
            let rsp = self.execute::<C, FETCH>(thread, block, body, &recipe.end, true, slots, consumer);
            self.repeat(body).step(slots);
            slots[RSP as usize] = rsp;
            at += length;
        }
        at
    }

    /// What is special in a loop, which the block must be.
    #[inline]
    pub fn repeat(&self, body: &Body) -> &Repeat {
        &self.repeats[body.repeat as usize - 1]
    }
}

/// How many accesses a limit must allow for an execution: nothing may follow the last one, so with
/// fetches one more.
#[inline(always)]
pub(crate) fn wanted<const FETCH: bool>(exit: &Exit) -> usize {
    usize::from(exit.accesses) + usize::from(FETCH)
}

#[inline]
fn part<T>(all: &[T], first: u32, count: u16) -> &[T] {
    &all[first as usize..][..count as usize]
}

/// The accesses of one execution, linear forms and their values; also fetches, if they are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    pub thread: Thread,
    accesses: &'a [LinearAccess],
    slots: &'a Slots,
}

impl Linear<'_> {
    /// Hands on what is between two places in an execution: a number of instructions and one of
    /// accesses. Returns the second.
    #[inline]
    fn hand_on<C: Consumer, const FETCH: bool>(
        &self,
        from: (u16, u16),
        to: (u16, u16),
        consumer: &mut C,
    ) -> (u16, u16) {
        let at = |(insns, accesses): (u16, u16)| usize::from(accesses) + if FETCH { insns.into() } else { 0 };
        let part = Linear {
            accesses: &self.accesses[at(from)..at(to)],
            ..*self
        };
        if FETCH {
            consumer.linear_fetching(&part, (to.1 - from.1).into());
        } else {
            consumer.linear(&part);
        }
        to
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.accesses.len()
    }
    pub fn is_empty(&self) -> bool {
        self.accesses.is_empty()
    }
    /// Writes the accesses, as many as there is room for.
    #[inline]
    pub fn write(&self, room: &mut [Access]) {
        for (access, place) in self.accesses.iter().zip(room) {
            *place = access.at(self.thread, self.slots);
        }
    }
}

/// Values copied at once: a copy of fixed length is a few instructions, one of any length is a
/// call.
const COPIED: usize = 8;

/// Puts a record's values, the first `n`, into their slots.
#[inline(always)]
pub(crate) fn capture(slots: &mut Slots, values: &[u64], n: usize) {
    let from = FIRST as usize;
    match values.first_chunk::<COPIED>() {
        // Whatever follows the record goes where nothing is: derived values come later, and if it
        // ended early nobody asks for the rest.
        Some(some) if n <= COPIED => slots[from..from + COPIED].copy_from_slice(some),
        _ => capture_any(slots, &values[..n]),
    }
}

#[inline(never)]
fn capture_any(slots: &mut Slots, values: &[u64]) {
    let from = FIRST as usize;
    slots[from..from + values.len()].copy_from_slice(values);
}

/// Tells a consumer that follows of an execution, which was left through instruction `left` or came
/// to its end. Returns whether bends are to be told, too.
#[inline(always)]
pub(crate) fn begin<C: Consumer>(
    thread: Thread,
    (index, block): (u32, &Block),
    left: Option<u16>,
    slots: &Slots,
    consumer: &mut C,
) -> bool {
    consumer.enters(thread, index, block, slots[RSP as usize]);
    if left.is_some() {
        consumer.leaves(block, left);
    }
    consumer.bends(block)
}

impl ThreadDecoder {
    /// Expands records as far as there are recipes for them and nothing cuts them. Returns where to
    /// go on. With `FETCH` the table must number fetches.
    pub(crate) fn expand_linear<C: Consumer, const FETCH: bool>(
        &mut self,
        table: &Table,
        words: &[u64],
        mut at: usize,
        consumer: &mut C,
    ) -> usize {
        let first = at;
        let recipes = table.recipes();
        let mut wide = self.wide.take().unwrap_or_else(|| Box::new([0; SLOTS]));
        let slots: &mut Slots = &mut wide;
        let mut in_loop = self.enter(table, slots);
        let following = consumer.follows();
        while let Some(&head) = words.get(at) {
            let Some(length) = table.length(head) else { break };
            let next = at + length;
            let Some(&follows) = words.get(next) else { break };
            let Some(hot) = table.hot(head) else { break };
            let Some(recipe) = recipes.get(hot.block) else { break };
            let Some(exit) = recipes.exit(recipe, hot).filter(|_| !matches!(follows, CUT | END)) else {
                break;
            };
            let left = hot.side > 0;
            let body = &recipe.body;
            if !body.ready || !consumer.takes(wanted::<FETCH>(exit)) {
                break;
            }
            if !hot.role.is_steady() {
                capture(slots, &words[at + 1..], length - 1);
            } else if in_loop == Some(hot.block) {
                recipes.repeat(body).begin(slots, &words[at + 1..next]);
            } else {
                break;
            }
            let (mut bends, mut tells) = (None, false);
            if following {
                let block = &table.blocks()[hot.block as usize];
                let way_out = left.then_some(exit.insn);
                bends = begin(self.thread, (hot.block, block), way_out, slots, consumer).then_some(block);
                tells = bends.is_some() || block.turn != Turn::None;
            }
            let rsp = match bends {
                Some(block) => {
                    recipes.execute_bending::<C, FETCH>(self.thread, (hot.block, block), body, exit, slots, consumer)
                }
                None => {
                    let again = hot.role.is_steady();
                    recipes.execute::<C, FETCH>(self.thread, hot.block, body, exit, again, slots, consumer)
                }
            };
            at = next;
            in_loop = None;
            if body.repeat != 0 && !left {
                recipes.repeat(body).step(slots);
                in_loop = Some(hot.block);
            }
            slots[RSP as usize] = rsp;
            // If there is something to tell of every iteration they come one by one.
            if in_loop.is_some() && !tells {
                let block = &table.blocks()[hot.block as usize];
                let steady = u64::from(block.id + block.plan.steady_ids());
                at = recipes.iterate::<C, FETCH>(self.thread, hot.block, recipe, steady, slots, words, at, consumer);
            }
        }
        if at > first {
            self.leave(table, slots, in_loop);
        }
        self.wide = Some(wide);
        at
    }

    /// Fills the slots with what is known; returns the loop that is under way.
    pub(crate) fn enter(&mut self, table: &Table, slots: &mut Slots) -> Option<u32> {
        slots[..self.carried.len()].copy_from_slice(&self.carried);
        let block = self.loop_under_way(table)?;
        let end = FIRST as usize + table.blocks()[block as usize].captured();
        let known = FIRST as usize..end.min(USABLE);
        slots[known.clone()].copy_from_slice(&self.slots[known]);
        // What later iterations leave as it was.
        if let Some(Recipe { body, end, .. }) = table.recipes().get(block) {
            table.recipes().work(body, end, false, slots);
        }
        Some(block)
    }

    pub(crate) fn leave(&mut self, table: &Table, slots: &Slots, in_loop: Option<u32>) {
        self.carried[RSP as usize] = slots[RSP as usize];
        self.in_loop = in_loop.map(|block| {
            let block = &table.blocks()[block as usize];
            self.slots.clear();
            self.slots
                .extend_from_slice(&slots[..FIRST as usize + block.captured()]);
            self.slots.resize(block.plan.slots(), 0);
            InLoop::of(block)
        });
    }
}
