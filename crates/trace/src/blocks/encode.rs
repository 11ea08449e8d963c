//! Plans to columns.
use super::*;
use crate::varint::{fold, put, put_signed};
use memtrail_decode::{Block, DecodeError, Images, Message, MOST_PIECES};
use memtrail_plan::{Addr, Layout, LoopPlan, Mask, Narrow, PlannedAccess, Repeat, Shape, Step, FS};
use std::io;

/// Collects blocks until they are written.
pub(crate) struct Encoder {
    columns: [Vec<u8>; COLUMNS],
    likely: Likely,
    /// What was told of images and code, in this chunk or before.
    images: Images,
    code: CodeMap,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder {
            columns: Default::default(),
            likely: Likely::new(),
            images: Images::default(),
            code: CodeMap::default(),
        }
    }
}

fn flag(set: bool, bit: u8) -> u8 {
    if set {
        bit
    } else {
        0
    }
}

fn unfit(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

impl Encoder {
    /// Bytes so far.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    /// The columns so far; what follows is another chunk.
    pub fn take(&mut self) -> [Vec<u8>; COLUMNS] {
        self.likely = Likely::new();
        std::mem::take(&mut self.columns)
    }

    /// Takes what is said of modules and images.
    pub fn learn(&mut self, message: &Message) -> io::Result<()> {
        self.images.learn(message).map_err(io::Error::other)
    }

    fn byte(&mut self, column: Column, byte: u8) {
        self.columns[column as usize].push(byte);
    }
    fn number(&mut self, column: Column, value: u64) {
        put(&mut self.columns[column as usize], value);
    }
    fn signed(&mut self, column: Column, value: u64) {
        put_signed(&mut self.columns[column as usize], value);
    }

    pub fn add(&mut self, block: &Block) -> io::Result<()> {
        let plan = &block.plan;
        check(plan)?;
        if block.images.len() != 1 + plan.pieces.len() {
            return Err(unfit("a block of more or fewer images than pieces"));
        }
        let code = self.code(block)?;
        let flags = code
            | flag(!plan.derived.is_empty(), DERIVED)
            | flag(!plan.pieces.is_empty(), PIECES)
            | match plan.looping {
                None => 0,
                Some(LoopPlan::Affine { .. }) => AFFINE,
                Some(LoopPlan::Partly { .. }) => PARTLY,
            };
        self.byte(Column::Flags, flags);
        self.signed(
            Column::Id,
            i64::from(block.id).wrapping_sub(self.likely.id.into()) as u64,
        );
        self.pc(plan.pc);
        self.number(Column::Words, plan.words.into());
        for &source in &block.sources {
            self.byte(Column::Source, source);
        }
        self.likely.enter_block();
        if !plan.derived.is_empty() {
            self.number(Column::Rare, plan.derived.len() as u64);
            for derived in &plan.derived {
                let Narrow { from, bits, signed } = derived.narrow;
                self.byte(Column::Rare, from);
                self.byte(Column::Rare, bits | flag(signed, NARROW_SIGNED));
                self.lin(&derived.of);
            }
        }
        if !plan.pieces.is_empty() {
            self.pieces(plan);
        }
        self.instructions(plan);
        self.rsp(&plan.exit_rsp);
        match &plan.looping {
            None => {}
            Some(LoopPlan::Affine { steps, counter }) => {
                self.steps(steps);
                self.step(counter);
            }
            Some(LoopPlan::Partly { steps, free }) => {
                self.steps(steps);
                self.number(Column::Rare, free.len() as u64);
                free.iter().for_each(|&s| self.number(Column::Rare, s.into()));
            }
        }
        for &image in &block.images {
            self.signed(Column::Image, u64::from(image.0).wrapping_sub(self.likely.image.into()));
            self.likely.image = image.0;
        }
        self.likely.leave_block(block.id, plan);
        Ok(())
    }

    /// Stores those bytes of a block's code that are not known yet; all of them, if they differ
    /// from those that are. Returns the flags that say so.
    fn code(&mut self, block: &Block) -> io::Result<u8> {
        let Some(code) = block.code() else { return Ok(0) };
        let plan = &block.plan;
        let ends = plan
            .insn_offsets
            .iter()
            .skip(1)
            .map(|&o| u32::from(o))
            .chain([plan.bytes]);
        let mut lengths = plan
            .insn_offsets
            .iter()
            .zip(ends)
            .map(|(&begin, end)| end - u32::from(begin));
        if lengths.any(|length| length > LONGEST_INSTRUCTION) || code.len() != plan.bytes as usize {
            return Err(unfit("code that is not that of its instructions"));
        }
        let address =
            |(&image, (pc, bytes)): (_, (u64, Range<usize>))| Ok((self.images.code_address(image, pc)?, &code[bytes]));
        let pieces: Result<Vec<_>, _> = block.images.iter().zip(pieces(plan)).map(address).collect();
        let pieces = pieces.map_err(|e: DecodeError| io::Error::other(e))?;
        let to = &mut self.columns[Column::Code as usize];
        if pieces.iter().all(|(at, bytes)| self.code.agrees(*at, bytes)) {
            pieces.iter().for_each(|(at, bytes)| self.code.add(*at, bytes, to));
            return Ok(CODE);
        }
        for (at, bytes) in pieces {
            to.extend_from_slice(bytes);
            self.code.replace(at, bytes);
        }
        Ok(CODE | CODE_ANEW)
    }

    fn pieces(&mut self, plan: &Plan) {
        self.byte(Column::Rare, plan.pieces.len() as u8);
        let mut first = 0;
        for piece in &plan.pieces {
            let head = u64::from(piece.insn - first) << INSNS_SHIFT | piece.via as u64;
            let (before, length) = plan.instruction(piece.insn - 1);
            self.number(Column::Rare, head);
            self.signed(Column::Rare, piece.pc.wrapping_sub(before).wrapping_sub(length.into()));
            first = piece.insn;
        }
    }

    fn instructions(&mut self, plan: &Plan) {
        let (mut accesses, mut sides) = (plan.accesses.as_slice(), plan.sides.as_slice());
        let ends = plan
            .insn_offsets
            .iter()
            .skip(1)
            .map(|&o| u32::from(o))
            .chain([plan.bytes]);
        let last = plan.insn_offsets.len() - 1;
        let affine = matches!(plan.looping, Some(LoopPlan::Affine { .. }));
        let mut words = 1;
        for (i, (&begin, end)) in plan.insn_offsets.iter().zip(ends).enumerate() {
            let length = end - u32::from(begin);
            let count = accesses.iter().take_while(|a| usize::from(a.insn) == i).count();
            let (mine, others) = accesses.split_at(count);
            accesses = others;
            let side = sides.split_first().filter(|(s, _)| usize::from(s.insn) == i);
            let short = length as u8 * u8::from(length <= u32::from(LENGTH));
            let few = count.min(ACCESSES.into()) as u8;
            let byte = short | flag(side.is_some(), WAY_OUT) | few << ACCESSES_SHIFT | flag(i == last, LAST);
            self.byte(Column::Instruction, byte);
            if short == 0 {
                self.number(Column::Rare, length.into());
            }
            if few == ACCESSES {
                self.number(Column::Rare, count as u64);
            }
            let pushes = length <= PUSH_LENGTH || i == last || ends_piece(plan, i);
            mine.iter().for_each(|a| self.access(a, pushes));
            if let Some((side, rest)) = side {
                self.rsp(&side.rsp);
                if affine {
                    self.signed(Column::Rare, side.moved);
                }
                if plan.looping.is_none() {
                    self.number(Column::Words, (side.words - words).into());
                    words = side.words;
                }
                sides = rest;
            }
        }
    }

    fn pc(&mut self, pc: u64) {
        let ends = &mut self.likely.ends;
        match ends.iter().rposition(|&end| end == pc) {
            Some(i) => {
                let back = ends.len() - i;
                ends.remove(i);
                self.number(Column::Pc, back as u64);
            }
            None => {
                self.number(Column::Pc, 0);
                self.signed(Column::Jump, pc.wrapping_sub(self.likely.end));
            }
        }
    }

    /// The stack pointer after a block, or at a way out of it.
    fn rsp(&mut self, rsp: &Lin) {
        let distance = fold(rsp.c.wrapping_sub(self.likely.rsp));
        if *rsp == stack(rsp.c) && distance < u64::MAX {
            self.number(Column::Rsp, distance + 1);
            self.likely.rsp = rsp.c;
        } else {
            self.number(Column::Rsp, 0);
            self.lin(rsp);
        }
    }

    /// `pushes`: if this is to the stack, the stack pointer moves along.
    fn access(&mut self, access: &PlannedAccess, pushes: bool) {
        let form = form(&access.shape);
        let size = match access.shape {
            Shape::Plain { size, .. } if form != FORM_OTHER => size.trailing_zeros() as u8,
            _ => 0,
        };
        self.byte(
            Column::Access,
            access.kind as u8 | size << SIZE_SHIFT | form << FORM_SHIFT,
        );
        let Shape::Plain { addr, size } = &access.shape else {
            return self.shape(&access.shape);
        };
        let lin = &addr.lin;
        match form {
            FORM_STACK => {
                self.signed(Column::Stack, lin.c.wrapping_sub(self.likely.rsp));
                if pushes {
                    self.likely.use_stack(lin.c, access.kind, *size);
                }
            }
            FORM_SLOT => {
                self.slot(lin.terms[0].0);
                self.signed(Column::Offset, lin.c);
            }
            FORM_CONSTANT => {
                self.signed(Column::Address, lin.c.wrapping_sub(self.likely.address));
                self.likely.address = lin.c;
            }
            FORM_INDEXED => {
                self.slot(lin.terms[0].0);
                self.slot(lin.terms[1].0);
                self.signed(Column::Rare, lin.terms[1].1 as u64);
                self.signed(Column::Offset, lin.c);
            }
            FORM_FS => self.signed(Column::Offset, lin.c),
            _ => self.shape(&access.shape),
        }
    }

    /// A slot, counted back from the first that was not used yet.
    fn slot(&mut self, slot: Slot) {
        self.signed(
            Column::Slot,
            i64::from(self.likely.slot).wrapping_sub(slot.into()) as u64,
        );
        self.likely.use_slot(slot);
    }

    fn lin(&mut self, lin: &Lin) {
        self.byte(Column::Rare, lin.n);
        for &(slot, scale) in lin.terms() {
            self.number(Column::Rare, slot.into());
            self.signed(Column::Rare, scale as u64);
        }
        self.signed(Column::Rare, lin.c);
    }

    fn addr(&mut self, addr: &Addr) {
        let segment = match addr.segment {
            None => 0,
            Some(slot) => 1 + u64::from(slot),
        };
        self.number(Column::Rare, segment << 1 | u64::from(addr.low32));
        self.lin(&addr.lin);
    }

    fn mask(&mut self, mask: &Mask) {
        match *mask {
            Mask::All => self.byte(Column::Rare, MASK_ALL),
            Mask::Bits(slot) => {
                self.byte(Column::Rare, MASK_BITS);
                self.number(Column::Rare, slot.into());
            }
            Mask::SignOf { first, bytes } => {
                self.byte(Column::Rare, MASK_SIGNS);
                self.number(Column::Rare, first.into());
                self.byte(Column::Rare, bytes);
            }
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        self.number(Column::Rare, steps.len() as u64);
        steps.iter().for_each(|s| self.step(s));
    }

    fn step(&mut self, step: &Step) {
        self.byte(
            Column::Rare,
            flag(step.low32, STEP_IS_LOW32) | flag(step.plus.is_some(), STEP_HAS_PLUS) | flag(step.anew, STEP_IS_ANEW),
        );
        self.number(Column::Rare, step.slot.into());
        self.signed(Column::Rare, step.by);
        if let Some((slot, scale)) = step.plus {
            self.number(Column::Rare, slot.into());
            self.signed(Column::Rare, scale as u64);
        }
    }

    /// A shape that has no form of its own.
    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Plain { addr, size } => {
                self.byte(Column::Rare, shape::PLAIN);
                self.addr(addr);
                self.number(Column::Rare, (*size).into());
            }
            Shape::Repeat(repeat) => {
                let Repeat { source, dest, .. } = repeat.as_ref();
                self.byte(Column::Rare, shape::REPEAT);
                let flags = flag(repeat.low32, COUNT_IS_LOW32)
                    | flag(repeat.moved_is_rsi, MOVED_IS_RSI)
                    | flag(source.is_some(), HAS_SOURCE)
                    | dest.map_or(0, |(_, kind)| 1 + kind as u8) << DEST_SHIFT;
                self.byte(Column::Rare, flags);
                source.iter().for_each(|a| self.addr(a));
                dest.iter().for_each(|(a, _)| self.addr(a));
                self.byte(Column::Rare, repeat.size);
                self.lin(&repeat.before);
                self.number(Column::Rare, repeat.after.into());
                self.lin(&repeat.pointer);
                self.number(Column::Rare, repeat.moved.into());
            }
            Shape::Lanes {
                addr,
                index,
                index_bytes,
                scale,
                lanes,
                mask,
                size,
            } => {
                self.byte(Column::Rare, shape::LANES);
                self.addr(addr);
                self.number(Column::Rare, (*index).into());
                self.byte(Column::Rare, *index_bytes);
                self.byte(Column::Rare, *scale);
                self.vector(*lanes, mask, *size);
            }
            Shape::Elements {
                addr,
                lanes,
                mask,
                size,
            } => {
                self.byte(Column::Rare, shape::ELEMENTS);
                self.addr(addr);
                self.vector(*lanes, mask, *size);
            }
            Shape::Broadcast {
                addr,
                lanes,
                mask,
                size,
            } => {
                self.byte(Column::Rare, shape::BROADCAST);
                self.addr(addr);
                self.vector(*lanes, mask, *size);
            }
            Shape::Packed {
                addr,
                lanes,
                mask,
                size,
            } => {
                self.byte(Column::Rare, shape::PACKED);
                self.addr(addr);
                self.vector(*lanes, mask, *size);
            }
            Shape::BitWord(word) => {
                self.byte(Column::Rare, shape::BIT_WORD);
                self.addr(&word.addr);
                self.lin(&word.bit);
                self.byte(Column::Rare, word.size);
            }
            Shape::Line { addr, size } => {
                self.byte(Column::Rare, shape::LINE);
                self.addr(addr);
                self.number(Column::Rare, (*size).into());
            }
            Shape::Xstate(xstate) => {
                self.byte(Column::Rare, shape::XSTATE);
                self.addr(&xstate.addr);
                self.lin(&xstate.low);
                self.lin(&xstate.high);
                let layout = match xstate.layout {
                    Layout::Standard => 0,
                    Layout::Compact => 1,
                    Layout::Image(slot) => 2 + u64::from(slot),
                };
                self.number(Column::Rare, layout);
            }
        }
    }

    fn vector(&mut self, lanes: u8, mask: &Mask, size: u8) {
        self.byte(Column::Rare, lanes);
        self.mask(mask);
        self.byte(Column::Rare, size);
    }
}

/// What the layout takes for granted. The translator's plans are like that.
fn check(plan: &Plan) -> io::Result<()> {
    let ascending = |a: &[u16]| a.windows(2).all(|w| w[0] < w[1]);
    if plan.insn_offsets.first() != Some(&0) || !ascending(&plan.insn_offsets) {
        return Err(unfit("a block's instructions are not in order"));
    }
    if plan.insn_offsets.last().is_some_and(|&o| u32::from(o) > plan.bytes) {
        return Err(unfit("a block's last instruction lies outside it"));
    }
    let pieces: Vec<u16> = [0].into_iter().chain(plan.pieces.iter().map(|p| p.insn)).collect();
    if pieces
        .last()
        .is_some_and(|&p| usize::from(p) >= plan.insn_offsets.len())
        || !ascending(&pieces)
    {
        return Err(unfit("a block's pieces are not in order"));
    }
    if plan.pieces.len() > MOST_PIECES {
        return Err(unfit("a block has too many pieces"));
    }
    let last = plan.accesses.last().map_or(0, |a| a.insn.into());
    if last >= plan.insn_offsets.len() || !plan.accesses.is_sorted_by_key(|a| a.insn) {
        return Err(unfit("a block's accesses are not in order"));
    }
    let sides: Vec<u16> = plan.sides.iter().map(|s| s.insn).collect();
    if sides.last().is_some_and(|&s| usize::from(s) >= plan.insn_offsets.len()) || !ascending(&sides) {
        return Err(unfit("a block's ways out are not in order"));
    }
    let affine = matches!(plan.looping, Some(LoopPlan::Affine { .. }));
    let least = if plan.looping.is_some() { plan.words } else { 1 };
    let rising = plan.sides.is_sorted_by_key(|s| s.words);
    if !rising || plan.sides.iter().any(|s| !(least..=plan.words).contains(&s.words)) {
        return Err(unfit("a way out has other words than the block"));
    }
    if !affine && plan.sides.iter().any(|s| s.moved != 0) {
        return Err(unfit("a counter moves in a block that has none"));
    }
    Ok(())
}

fn form(shape: &Shape) -> u8 {
    let &Shape::Plain { addr, size } = shape else {
        return FORM_OTHER;
    };
    if addr.low32 || !size.is_power_of_two() || size.trailing_zeros() > SIZE.into() {
        return FORM_OTHER;
    }
    match (addr.segment, addr.lin.terms()) {
        (None, []) => FORM_CONSTANT,
        (None, [(RSP, 1)]) => FORM_STACK,
        (None, [(_, 1)]) => FORM_SLOT,
        (None, [(_, 1), (_, _)]) => FORM_INDEXED,
        (Some(FS), []) => FORM_FS,
        _ => FORM_OTHER,
    }
}
