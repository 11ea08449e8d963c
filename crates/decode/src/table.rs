//! The block table: what the translator knows of every block of a session.
//!
//! Plans come from the blocks' code, derived by the same pure function the runtime used, or from a
//! recording. They are checked once, so that decoding can index without looking: after
//! [`Table::insert`] every slot a plan refers to exists.
use crate::affine::is_even;
use crate::follow::{Bend, Stretch, Turn};
use crate::images::{ImageId, Images};
use crate::linear::Recipes;
use crate::points::{Numbering, PointInfo, Points, Source};
use crate::shape::Fixed;
use crate::{Counts, DecodeError, Message};
use memtrail_model::Point;
use memtrail_plan::{Layout, Lin, LoopPlan, Mask, Plan, Shape, Side, Slot, Step, FIRST, RSP};
use memtrail_ring::record::{FIRST_BLOCK, LAST_BLOCK};

/// A session's block ids come from one counter, so they are dense: a jump is a damaged file.
const LONGEST_JUMP: usize = 1 << 22;

/// In [`Block::sources`]: a word that is not a general register's.
pub const NO_REGISTER: u8 = 16;

/// Pieces of a path behind the first at most: where an instruction stands is found by looking
/// through them.
pub const MOST_PIECES: usize = 255;

/// Ways out of a block before its end at most: which one it was fits a byte.
pub const MOST_SIDES: usize = 254;

/// A block as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub id: u32,
    pub plan: Plan,
    /// As in [`Block::sources`].
    pub sources: Box<[u8]>,
    /// As in [`Block::images`].
    pub images: Box<[ImageId]>,
    /// As [`Block::code`].
    pub code: Option<Box<[u8]>>,
}

/// A block, ready for decoding.
#[derive(Clone, Debug)]
pub struct Block {
    pub id: u32,
    pub plan: Plan,
    /// Where each value word of the record comes from: the number of a general register, or
    /// [`NO_REGISTER`].
    pub sources: Box<[u8]>,
    /// The images that its pieces of code lie in, the first piece first.
    pub images: Box<[ImageId]>,
    code: Option<Box<[u8]>>,
    /// The code addresses that its pieces begin at.
    pub(crate) starts: Box<[u64]>,
    /// The number of the first of its *leaves*: one for a whole record and one for each way out
    /// before its end; then the same for the record of a loop's later iterations.
    pub first_leaf: u32,
    /// The reference points of each of the plan's accesses.
    pub(crate) points: Box<[Points]>,
    /// Those of its instructions' fetches, if the table numbers them.
    pub(crate) fetches: Box<[Point]>,
    /// What one whole execution (iteration) does, apart from shapes that depend on values.
    pub(crate) fixed: Fixed,
    /// See [`is_even`].
    pub(crate) even: bool,
    /// Derived slots matter even when accesses are only counted.
    pub(crate) counts_need_derived: bool,
    /// What its end does to the stack.
    pub(crate) turn: Turn,
    /// What it ends with.
    pub(crate) end: Stretch,
    /// Where control goes from piece to piece.
    pub(crate) bends: Box<[Bend]>,
}

/// What a header word stands for.
#[derive(Clone, Copy, Debug)]
pub struct Found<'t> {
    pub block: &'t Block,
    /// Index into [`Table::blocks`].
    pub index: u32,
    /// The record of a later iteration of a partly steady loop.
    pub steady: bool,
    /// The way out before its end through which the block was left, by its place in the plan's
    /// sides.
    pub side: Option<usize>,
    /// Words of the record, header included.
    pub words: usize,
}

/// What counting needs to know of a block, in one small entry per id: most records are read by
/// looking at this and nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
    /// Words of the record, header included; 0 if the id means nothing (yet).
    pub words: u16,
    pub role: Role,
    /// 1 + the way out before its end through which the block was left; 0 for a whole record.
    pub side: u8,
    pub carry: Carry,
    /// Index into [`Table::blocks`].
    pub block: u32,
    /// Index into [`Table::outcomes`] and the ways out: those of a whole execution, then those of
    /// its sides.
    pub outcome: u32,
    /// The number of its leaf.
    pub leaf: u32,
}

/// What part a record plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// One execution, whose counts are fixed.
    Straight,
    /// The first iteration of a partly steady loop, whose counts are fixed.
    First,
    /// A later one.
    Steady,
    /// All iterations of a loop, whose counts are fixed.
    Affine,
    /// A later iteration whose values or counts depend on more than the record.
    OtherSteady,
    /// Anything else.
    Other,
}

impl Role {
    #[inline]
    pub fn is_steady(self) -> bool {
        matches!(self, Role::Steady | Role::OtherSteady)
    }
}

/// How an execution moves the stack pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carry {
    /// By a constant.
    Add(i32),
    /// To a constant distance from this word of the record.
    Set(u16, i32),
    /// In another way.
    Other,
}

const NOTHING: Hot = Hot {
    words: 0,
    role: Role::Other,
    side: 0,
    carry: Carry::Other,
    block: 0,
    outcome: 0,
    leaf: 0,
};

/// All blocks of a session by id.
#[derive(Debug, Default)]
pub struct Table {
    blocks: Vec<Block>,
    images: Images,
    recipes: Recipes,
    points: Numbering,
    numbers_fetches: bool,
    /// Nobody expands: there are neither recipes nor points nor bends.
    counts_only: bool,
    /// By `id - FIRST_BLOCK`.
    ids: Vec<Hot>,
    /// By `id - FIRST_BLOCK`: [`Hot::words`] once more, or 0 if that is more than 255. Reading a
    /// thread's records is a chain of looking up lengths: it runs as fast as the cache that holds
    /// this.
    lengths: Vec<u8>,
    /// Leaves in all.
    leaves: u32,
    outcomes: Vec<Counts>,
    /// As `outcomes`.
    carries: Vec<Carry>,
}

impl Table {
    /// For those who count executions but make no accesses of them: it takes half the memory.
    pub fn counting() -> Table {
        Table {
            counts_only: true,
            ..Table::default()
        }
    }

    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Where the code of blocks comes from.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Takes what is said of modules and images, which blocks refer to; of what else there is,
    /// nothing.
    pub fn learn(&mut self, message: &Message) -> Result<(), DecodeError> {
        self.images.learn(message)
    }

    /// All reference points so far, by [`Point`]. Every (instruction, kind) that a block's plan has
    /// is there once, executed or not; blocks that overlap share theirs.
    pub fn points(&self) -> &[PointInfo] {
        self.points.all()
    }

    /// Gives the fetches of all blocks points of their own, of those that are there and of those to
    /// come. Without it, fetches have [`Point::NONE`], and a sink that wants them is served more
    /// slowly.
    pub fn number_fetches(&mut self) {
        if !self.numbers_fetches {
            self.numbers_fetches = true;
            for block in &mut self.blocks {
                block.fetches = self.points.fetches(&block.source(&self.images));
                self.recipes.push_fetches(block);
            }
        }
    }

    pub(crate) fn numbers_fetches(&self) -> bool {
        self.numbers_fetches
    }

    pub(crate) fn recipes(&self) -> &Recipes {
        &self.recipes
    }

    /// The index of the block with this id.
    pub(crate) fn find_first(&self, id: u32) -> Option<u32> {
        self.find(id.into()).filter(|f| f.block.id == id).map(|f| f.index)
    }

    /// What executions do whose counts do not depend on values, by how they end: whole, or left
    /// through a branch.
    pub(crate) fn outcomes(&self) -> &[Counts] {
        &self.outcomes
    }

    /// How a whole execution moves the stack pointer, of a record's block.
    #[inline]
    pub(crate) fn whole(&self, hot: &Hot) -> (u32, Carry) {
        let outcome = hot.outcome - u32::from(hot.side);
        (outcome, self.carries[outcome as usize])
    }

    /// Adds a block whose plan is known, but not where its words come from.
    pub fn insert(&mut self, id: u32, plan: Plan) -> Result<(), DecodeError> {
        let sources = vec![NO_REGISTER; (plan.words as usize).saturating_sub(1)];
        self.insert_with(id, plan, sources.into())
    }

    /// Adds a block of unknown code whose plan is known; `sources` as in [`Block::sources`].
    pub fn insert_with(&mut self, id: u32, plan: Plan, sources: Box<[u8]>) -> Result<(), DecodeError> {
        let images = vec![ImageId::UNKNOWN; 1 + plan.pieces.len()].into();
        self.insert_definition(Definition {
            id,
            plan,
            sources,
            images,
            code: None,
        })
    }

    /// Adds a block. The images it refers to have been told of.
    pub fn insert_definition(&mut self, definition: Definition) -> Result<(), DecodeError> {
        let Definition { id, ref plan, .. } = definition;
        let bad_id = DecodeError::BadId { id: id.into() };
        if u64::from(id) < FIRST_BLOCK || u64::from(id) + u64::from(plan.ids()) > LAST_BLOCK {
            return Err(bad_id);
        }
        let first = id as usize - FIRST_BLOCK as usize;
        let end = first + plan.ids() as usize;
        if first > self.ids.len() + LONGEST_JUMP {
            return Err(bad_id);
        }
        if self.ids.len() < end {
            self.ids.resize(end, NOTHING);
            self.lengths.resize(end, 0);
        }
        if self.ids[first..end].iter().any(|e| e.words != 0) {
            return Err(DecodeError::DefinedTwice { id });
        }
        validate(id, plan)?;
        if definition.sources.len() != (plan.words as usize).saturating_sub(1) {
            let (slot, slots) = (definition.sources.len(), plan.slots());
            return Err(DecodeError::BadPlan { id, slot, slots });
        }
        let starts = self.code_starts(&definition)?;
        let mut block = Block::new(definition, starts);
        block.first_leaf = self.leaves;
        if !self.counts_only {
            block.points = self.points.of(&block.source(&self.images));
        }
        if self.numbers_fetches {
            block.fetches = self.points.fetches(&block.source(&self.images));
        }
        let outcome = self.outcomes.len() as u32;
        let carries = block.carries();
        self.outcomes.push(block.fixed.counts);
        let left = |side: &Side| Fixed::until(&block.plan, side.insn);
        self.outcomes.extend(block.plan.sides.iter().map(left));
        for (n, entry) in self.ids[first..end].iter_mut().enumerate() {
            let record = block.plan.record(n as u32);
            let side = record.side.map_or(0, |s| s as u8 + 1);
            *entry = Hot {
                words: record.words,
                role: block.role(record.steady),
                side,
                carry: carries[usize::from(side)],
                block: self.blocks.len() as u32,
                outcome: outcome + u32::from(side),
                leaf: self.leaves + n as u32,
            };
            self.lengths[first + n] = u8::try_from(entry.words).unwrap_or(0);
        }
        self.leaves += block.plan.ids();
        self.carries.extend(carries);
        if !self.counts_only {
            block.bends = Bend::all(&block);
            self.recipes.push(&block);
        }
        if self.numbers_fetches {
            self.recipes.push_fetches(&block);
        }
        self.blocks.push(block);
        Ok(())
    }

    /// The code addresses of a block's pieces, if its images are known and its code is as long as
    /// its instructions.
    fn code_starts(&self, definition: &Definition) -> Result<Box<[u64]>, DecodeError> {
        let Definition {
            id, plan, images, code, ..
        } = definition;
        let (have, need) = (images.len(), 1 + plan.pieces.len());
        if have != need {
            return Err(DecodeError::BadImages { id: *id, have, need });
        }
        if let Some(code) = code.as_ref().filter(|code| code.len() != plan.bytes as usize) {
            let (have, need) = (code.len(), plan.bytes as usize);
            return Err(DecodeError::BadCodeLength { id: *id, have, need });
        }
        let start = |(&image, pc)| self.images.code_address(image, pc);
        images.iter().zip(piece_addresses(plan)).map(start).collect()
    }

    /// Words of the record with this header, unless that is no block's or uncommonly long.
    #[inline]
    pub(crate) fn length(&self, head: u64) -> Option<usize> {
        let index = usize::try_from(head.wrapping_sub(FIRST_BLOCK)).ok()?;
        self.lengths.get(index).filter(|&&n| n != 0).map(|&n| n.into())
    }

    /// The entry of a header word; a block that writes no records cannot be found in any.
    #[inline]
    pub(crate) fn hot(&self, head: u64) -> Option<&Hot> {
        let index = head.wrapping_sub(FIRST_BLOCK);
        self.ids.get(usize::try_from(index).ok()?).filter(|h| h.words != 0)
    }

    /// What a header word stands for, if it is a known block id.
    #[inline]
    pub fn find(&self, head: u64) -> Option<Found<'_>> {
        let hot = self.hot(head)?;
        Some(Found {
            block: &self.blocks[hot.block as usize],
            index: hot.block,
            steady: hot.role.is_steady(),
            side: usize::from(hot.side).checked_sub(1),
            words: hot.words.into(),
        })
    }
}

impl Block {
    fn new(definition: Definition, starts: Box<[u64]>) -> Block {
        let Definition {
            id,
            mut plan,
            sources,
            images,
            code,
        } = definition;
        // Kept for the whole session, by the hundred thousand.
        plan.accesses.shrink_to_fit();
        let fixed = Fixed::of(&plan);
        let derived_from = plan.slots() - plan.derived.len();
        let rsp_derived = plan.exit_rsp.terms().iter().any(|t| t.0 as usize >= derived_from);
        let mut block = Block {
            id,
            even: is_even(&plan),
            counts_need_derived: !fixed.dynamic.is_empty() || rsp_derived,
            fixed,
            turn: Turn::at_end(&plan),
            end: Stretch::default(),
            bends: Box::default(),
            plan,
            sources,
            images,
            code,
            starts,
            first_leaf: 0,
            points: Box::default(),
            fetches: Box::default(),
        };
        block.end = Stretch::at_end(&block);
        block
    }

    /// The block as it was told.
    pub fn definition(&self) -> Definition {
        Definition {
            id: self.id,
            plan: self.plan.clone(),
            sources: self.sources.clone(),
            images: self.images.clone(),
            code: self.code.clone(),
        }
    }

    /// The bytes of its instructions, those of its pieces one after the other; `None` if they are
    /// not known.
    pub fn code(&self) -> Option<&[u8]> {
        self.code.as_deref()
    }

    /// The code address of an instruction.
    pub fn code_address(&self, insn: u16) -> u64 {
        let (pc, _) = self.plan.instruction(insn);
        self.piece_code(insn)
            .wrapping_add(pc.wrapping_sub(self.plan.piece_start(insn)))
    }

    /// The code address at which the piece begins that instruction `insn` is in.
    pub(crate) fn piece_code(&self, insn: u16) -> u64 {
        self.starts[self.plan.pieces.partition_point(|piece| piece.insn <= insn)]
    }

    fn source<'b>(&'b self, images: &'b Images) -> Source<'b> {
        Source { block: self, images }
    }

    fn role(&self, steady: bool) -> Role {
        let fixed = self.fixed.dynamic.is_empty();
        match &self.plan.looping {
            None if fixed => Role::Straight,
            Some(LoopPlan::Affine { .. }) if fixed => Role::Affine,
            Some(LoopPlan::Partly { steps, free }) if fixed && steps_apart(steps, free) => {
                if steady {
                    Role::Steady
                } else {
                    Role::First
                }
            }
            _ if steady => Role::OtherSteady,
            _ => Role::Other,
        }
    }

    /// How the stack pointer moves: to the end first, then to the sides.
    fn carries(&self) -> Vec<Carry> {
        let plan = &self.plan;
        let end = self.carry(&plan.exit_rsp, plan.words);
        let sides = plan.sides.iter().map(|s| self.carry(&s.rsp, s.words));
        [end].into_iter().chain(sides).collect()
    }

    /// To `rsp`, if the record has so many words.
    fn carry(&self, rsp: &Lin, words: u16) -> Carry {
        let Ok(add) = i32::try_from(rsp.c as i64) else {
            return Carry::Other;
        };
        match rsp.terms() {
            [(RSP, 1)] => Carry::Add(add),
            // The records of later iterations have not all the words.
            &[(slot, 1)] if self.plan.looping.is_none() => match slot.checked_sub(FIRST) {
                Some(i) if i + 1 < words => Carry::Set(i + 1, add),
                _ => Carry::Other,
            },
            _ => Carry::Other,
        }
    }

    /// Values in the block's (first) record.
    pub fn captured(&self) -> usize {
        (self.plan.words as usize).saturating_sub(1)
    }

    /// The point of an instruction's fetch, if it has one.
    pub fn fetch_point(&self, insn: u16) -> Point {
        self.fetches.get(usize::from(insn)).copied().unwrap_or(Point::NONE)
    }

    /// What stands for the plan's accesses, with what stands for the fetch of each instruction
    /// before those of its accesses.
    pub(crate) fn with_fetches<T: Copy>(&self, accesses: &[T], fetch: impl Fn(u16) -> T) -> Vec<T> {
        let mut insns = 0..self.plan.insn_offsets.len() as u16;
        let mut all = Vec::with_capacity(accesses.len() + insns.len());
        for (planned, access) in self.plan.accesses.iter().zip(accesses) {
            all.extend((insns.start..=planned.insn).map(&fetch));
            insns.start = insns.start.max(planned.insn + 1);
            all.push(*access);
        }
        all.extend(insns.map(fetch));
        all
    }

    /// Whether following calls finds nothing in an execution of it that is left at its end, or
    /// through `side`: no call, no return, no other stack.
    pub fn stays(&self, side: Option<&Side>) -> bool {
        let turn = side.map_or(self.turn, |side| Turn::at(&self.plan, side.insn, &side.rsp));
        turn == Turn::None && self.bends.iter().all(Bend::stays)
    }

    /// The point of access number `n` of its plan.
    pub fn point(&self, n: usize) -> Point {
        let access = &self.plan.accesses[n];
        self.points[n].of(access, access.kind)
    }

    /// The way out at branch `insn`, if that is one.
    pub fn side(&self, insn: u16) -> Option<&Side> {
        self.plan.sides.iter().find(|s| s.insn == insn)
    }

    /// The counter when the iteration began that was left through `side`; the record has `exit`,
    /// the counter at the branch.
    pub(crate) fn before(side: &Side, counter: &Step, exit: u64) -> u64 {
        let begin = exit.wrapping_sub(side.moved);
        if counter.low32 {
            u64::from(begin as u32)
        } else {
            begin
        }
    }

    pub fn steps(&self) -> &[Step] {
        match &self.plan.looping {
            Some(LoopPlan::Affine { steps, .. } | LoopPlan::Partly { steps, .. }) => steps,
            None => &[],
        }
    }
}

/// Whether stepped slots depend on nothing but the number of iterations, or on the last one alone.
fn steps_apart(steps: &[Step], free: &[Slot]) -> bool {
    let steps_on = |slot: Slot| steps.iter().any(|s| s.slot == slot && s.moves());
    let apart = |s: &Step, slot: Slot| !steps_on(slot) && (s.anew || !free.contains(&slot));
    steps
        .iter()
        .all(|s| !free.contains(&s.slot) && s.plus.is_none_or(|(slot, _)| apart(s, slot)))
}

/// The addresses that a plan's pieces begin at.
fn piece_addresses(plan: &Plan) -> impl Iterator<Item = u64> + '_ {
    [plan.pc].into_iter().chain(plan.pieces.iter().map(|piece| piece.pc))
}

/// Collects every slot a plan refers to and checks that it exists.
fn validate(id: u32, plan: &Plan) -> Result<(), DecodeError> {
    let slots = plan.slots();
    let check = |slot: usize, limit: usize| {
        if slot < limit {
            Ok(())
        } else {
            Err(DecodeError::BadPlan { id, slot, slots })
        }
    };
    // Slots and instructions are counted in 16 bits.
    for n in [slots, plan.insn_offsets.len(), plan.accesses.len()] {
        check(n, usize::from(u16::MAX))?;
    }
    check(plan.pieces.len(), MOST_PIECES + 1)?;
    let mut first = 0;
    for piece in &plan.pieces {
        check(piece.insn.into(), plan.insn_offsets.len())?;
        check(usize::from(piece.insn <= first) * slots, slots)?;
        first = piece.insn;
    }
    let lin = |l: &Lin, limit: usize| {
        check(l.n as usize, l.terms.len() + 1)?;
        l.terms().iter().try_for_each(|t| check(t.0 as usize, limit))
    };
    let first_derived = slots - plan.derived.len();
    for (i, derived) in plan.derived.iter().enumerate() {
        lin(&derived.of, first_derived + i)?;
    }
    lin(&plan.exit_rsp, slots)?;
    check(plan.sides.len(), MOST_SIDES + 1)?;
    let least = match plan.looping {
        Some(_) => plan.words,
        None => plan.words.min(1),
    };
    for side in &plan.sides {
        let has_words = (least..=plan.words).contains(&side.words);
        check(usize::from(!has_words) * slots, slots)?;
        lin(&side.rsp, slots)?;
        check(side.insn as usize + 1, plan.insn_offsets.len())?;
    }
    let steps = match &plan.looping {
        Some(LoopPlan::Affine { steps, .. } | LoopPlan::Partly { steps, .. }) => steps.as_slice(),
        None => &[],
    };
    for (slot, _) in steps.iter().filter_map(|s| s.plus) {
        check(slot.into(), first_derived)?;
    }
    for access in &plan.accesses {
        check(access.insn as usize, plan.insn_offsets.len())?;
        for l in linear_forms(&access.shape) {
            lin(&l, slots)?;
        }
        for slot in plain_slots(&access.shape) {
            check(slot, slots)?;
        }
    }
    let word_slots = FIRST as usize..first_derived;
    if let Some(LoopPlan::Affine { steps, counter }) = &plan.looping {
        steps
            .iter()
            .chain([counter])
            .try_for_each(|s| check(s.slot as usize, first_derived))?;
        check(usize::from(counter.by == 0) * slots, slots)?;
        let anew = steps.iter().chain([counter]).any(|s| s.anew);
        check(usize::from(anew) * slots, slots)?;
        check(usize::from(plan.words < 2) * slots, slots)?;
    }
    if let Some(LoopPlan::Partly { steps, free }) = &plan.looping {
        check(free.len(), usize::from(u16::MAX))?;
        let all = steps.iter().map(|s| s.slot).chain(free.iter().copied());
        for slot in all.map(usize::from) {
            check(slot, word_slots.end)?;
        }
    }
    Ok(())
}

fn linear_forms(shape: &Shape) -> Vec<Lin> {
    match shape {
        Shape::Plain { addr, .. }
        | Shape::Line { addr, .. }
        | Shape::Lanes { addr, .. }
        | Shape::Elements { addr, .. }
        | Shape::Broadcast { addr, .. }
        | Shape::Packed { addr, .. } => vec![addr.lin],
        Shape::BitWord(word) => vec![word.addr.lin, word.bit],
        Shape::Xstate(xstate) => vec![xstate.addr.lin, xstate.low, xstate.high],
        Shape::Repeat(repeat) => {
            let mut all = vec![repeat.before, repeat.pointer];
            all.extend(repeat.source.map(|a| a.lin));
            all.extend(repeat.dest.map(|(a, _)| a.lin));
            all
        }
    }
}

/// Slots a shape refers to outside linear forms; vectors by their last word.
fn plain_slots(shape: &Shape) -> Vec<usize> {
    let mut all = Vec::new();
    let mut mask = |m: &Mask, lanes: u8| match m {
        Mask::All => {}
        Mask::Bits(s) => all.push(*s as usize),
        Mask::SignOf { first, bytes } => {
            let words = (lanes as usize * *bytes as usize).div_ceil(8).max(1);
            all.push(*first as usize + words - 1);
        }
    };
    match shape {
        Shape::Plain { .. } | Shape::Line { .. } | Shape::BitWord(_) => {}
        Shape::Elements { lanes, mask: m, .. }
        | Shape::Broadcast { lanes, mask: m, .. }
        | Shape::Packed { lanes, mask: m, .. } => mask(m, *lanes),
        Shape::Lanes {
            index,
            index_bytes,
            lanes,
            mask: m,
            ..
        } => {
            mask(m, *lanes);
            let words = (*lanes as usize * *index_bytes as usize).div_ceil(8).max(1);
            all.push(*index as usize + words - 1);
        }
        Shape::Xstate(xstate) => {
            if let Layout::Image(s) = xstate.layout {
                all.push(s.into());
            }
        }
        Shape::Repeat(repeat) => all.extend([repeat.after, repeat.moved].map(usize::from)),
    }
    all.extend(segments(shape));
    all
}

fn segments(shape: &Shape) -> Vec<usize> {
    let slot = |a: &memtrail_plan::Addr| a.segment.map(usize::from);
    match shape {
        Shape::Plain { addr, .. }
        | Shape::Line { addr, .. }
        | Shape::Lanes { addr, .. }
        | Shape::Elements { addr, .. }
        | Shape::Broadcast { addr, .. }
        | Shape::Packed { addr, .. } => slot(addr).into_iter().collect(),
        Shape::BitWord(word) => slot(&word.addr).into_iter().collect(),
        Shape::Xstate(xstate) => slot(&xstate.addr).into_iter().collect(),
        Shape::Repeat(repeat) => {
            let both = repeat.source.iter().chain(repeat.dest.iter().map(|(a, _)| a));
            both.filter_map(slot).collect()
        }
    }
}
