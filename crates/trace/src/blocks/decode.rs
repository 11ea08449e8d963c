//! Columns to plans. Whether a plan's slots exist is for the table to check.
use super::*;
use crate::varint::{unfold, Bad, Fields};
use memtrail_decode::{DecodeError, Definition, ImageId, Images, Table};
use memtrail_plan::{
    Addr, BitWord, Derived, Layout, LoopPlan, Mask, Narrow, Piece, PlannedAccess, Repeat, Shape, Side, Step, Xstate,
    FS, TERMS,
};

/// Why columns are no blocks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Layout(Bad),
    Plan(DecodeError),
}

impl From<DecodeError> for Wrong {
    fn from(error: DecodeError) -> Wrong {
        Wrong::Plan(error)
    }
}

impl From<Bad> for Wrong {
    fn from(what: Bad) -> Wrong {
        Wrong::Layout(what)
    }
}

const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Prefetch];

fn kind(code: u8) -> Result<Kind, Bad> {
    KINDS.get(usize::from(code)).copied().ok_or("an access of unknown kind")
}

/// Whoever takes blocks that are decoded.
pub(crate) trait Catalog {
    /// The images that blocks may refer to.
    fn images(&self) -> &Images;
    fn add(&mut self, block: Definition) -> Result<(), DecodeError>;
}

impl Catalog for Table {
    fn images(&self) -> &Images {
        Table::images(self)
    }
    fn add(&mut self, block: Definition) -> Result<(), DecodeError> {
        self.insert_definition(block)
    }
}

/// Hands every block to `catalog`. `code`: what is known from chunks before.
pub(crate) fn decode(
    columns: &[Vec<u8>; COLUMNS],
    code: &mut CodeMap,
    catalog: &mut impl Catalog,
) -> Result<(), Wrong> {
    let mut decoder = Decoder {
        columns: columns.each_ref().map(|c| Fields(c)),
        likely: Likely::new(),
        code,
    };
    while !decoder.at(Column::Flags).0.is_empty() {
        let definition = decoder.block(catalog.images())?;
        catalog.add(definition)?;
    }
    Ok(decoder.columns.iter().try_for_each(Fields::end)?)
}

struct Decoder<'c> {
    columns: [Fields<'c>; COLUMNS],
    likely: Likely,
    code: &'c mut CodeMap,
}

impl<'c> Decoder<'c> {
    fn at(&mut self, column: Column) -> &mut Fields<'c> {
        &mut self.columns[column as usize]
    }
    fn rare(&mut self) -> &mut Fields<'c> {
        self.at(Column::Rare)
    }

    fn block(&mut self, known: &Images) -> Result<Definition, Wrong> {
        let flags = self.at(Column::Flags).byte()?;
        let id = u64::from(self.likely.id).wrapping_add(self.at(Column::Id).signed()?);
        let id = u32::try_from(id).map_err(|_| "a block id is out of range")?;
        let pc = self.pc()?;
        let words: u16 = self.at(Column::Words).small()?;
        let sources = self.at(Column::Source).bytes(u64::from(words).saturating_sub(1))?;
        self.likely.enter_block();
        let mut derived = Vec::new();
        if flags & DERIVED != 0 {
            for _ in 0..self.rare().small::<u16>()? {
                let (from, bits) = (self.rare().byte()?, self.rare().byte()?);
                let narrow = Narrow::checked(from, bits & !NARROW_SIGNED, bits & NARROW_SIGNED != 0);
                let narrow = narrow.ok_or("a derived value of bits that do not exist")?;
                let of = self.lin()?;
                derived.push(Derived { narrow, of });
            }
        }
        let mut plan = Plan {
            pc,
            bytes: 0,
            insn_offsets: Vec::new(),
            pieces: Vec::new(),
            words,
            derived,
            accesses: Vec::new(),
            exit_rsp: Lin::default(),
            looping: None,
            sides: Vec::new(),
        };
        if flags & PIECES != 0 {
            plan.pieces = self.pieces()?;
        }
        self.instructions(&mut plan, flags)?;
        place(&mut plan)?;
        plan.exit_rsp = self.rsp()?;
        plan.looping = match flags & !(DERIVED | PIECES | CODE | CODE_ANEW) {
            0 => None,
            AFFINE => {
                let steps = self.steps()?;
                let counter = self.step()?;
                Some(LoopPlan::Affine { steps, counter })
            }
            PARTLY => {
                let steps = self.steps()?;
                let mut free = Vec::new();
                for _ in 0..self.rare().small::<u16>()? {
                    free.push(self.rare().small()?);
                }
                Some(LoopPlan::Partly { steps, free })
            }
            _ => return Err("a block of unknown kind".into()),
        };
        let images = self.images(&plan)?;
        let code = self.code(&plan, known, &images, flags)?;
        self.likely.leave_block(id, &plan);
        Ok(Definition {
            id,
            plan,
            sources: sources.into(),
            images,
            code,
        })
    }

    fn images(&mut self, plan: &Plan) -> Result<Box<[ImageId]>, Bad> {
        let mut images = Vec::with_capacity(1 + plan.pieces.len());
        for _ in 0..=plan.pieces.len() {
            let image = u64::from(self.likely.image).wrapping_add(self.at(Column::Image).signed()?);
            self.likely.image = u32::try_from(image).map_err(|_| "the number of an image is out of range")?;
            images.push(ImageId(self.likely.image));
        }
        Ok(images.into())
    }

    fn code(&mut self, plan: &Plan, known: &Images, images: &[ImageId], flags: u8) -> Result<Option<Box<[u8]>>, Wrong> {
        if flags & CODE == 0 {
            return match flags & CODE_ANEW {
                0 => Ok(None),
                _ => Err("code that is not there is new".into()),
            };
        }
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
        if lengths.any(|length| length > LONGEST_INSTRUCTION) {
            return Err("the code of an instruction of more than 15 bytes".into());
        }
        let mut all = Vec::with_capacity(plan.bytes as usize);
        for (&image, (pc, bytes)) in images.iter().zip(pieces(plan)) {
            let at = known.code_address(image, pc)?;
            if flags & CODE_ANEW != 0 {
                let bytes = self.columns[Column::Code as usize].bytes(bytes.len() as u64)?;
                self.code.replace(at, bytes);
                all.extend_from_slice(bytes);
            } else {
                self.code
                    .take(at, bytes.len(), &mut self.columns[Column::Code as usize], &mut all)?;
            }
        }
        Ok(Some(all.into()))
    }

    fn pc(&mut self) -> Result<u64, Bad> {
        let back: usize = self.at(Column::Pc).small()?;
        if back == 0 {
            return Ok(self.likely.end.wrapping_add(self.at(Column::Jump).signed()?));
        }
        let i = self.likely.ends.len().checked_sub(back);
        Ok(self
            .likely
            .ends
            .remove(i.ok_or("a block begins at an end that is not known")?))
    }

    /// Pieces, each with the distance from the instruction before it for its address.
    fn pieces(&mut self) -> Result<Vec<Piece>, Bad> {
        let (mut pieces, mut insn) = (Vec::new(), 0u16);
        for _ in 0..self.rare().byte()? {
            let head = self.rare().number()?;
            let via = *VIAS
                .get((head & VIA) as usize)
                .ok_or("a piece that is reached in an unknown way")?;
            let insns = u16::try_from(head >> INSNS_SHIFT).ok().filter(|&n| n > 0);
            insn = insns.and_then(|n| insn.checked_add(n)).ok_or(PIECES_OUT_OF_ORDER)?;
            let pc = self.rare().signed()?;
            pieces.push(Piece { insn, pc, via });
        }
        Ok(pieces)
    }

    fn instructions(&mut self, plan: &mut Plan, flags: u8) -> Result<(), Bad> {
        let many = "a block is too long";
        loop {
            let insn = u16::try_from(plan.insn_offsets.len()).map_err(|_| many)?;
            plan.insn_offsets.push(u16::try_from(plan.bytes).map_err(|_| many)?);
            let byte = self.at(Column::Instruction).byte()?;
            let length = match byte & LENGTH {
                0 => self.rare().small()?,
                short => short.into(),
            };
            plan.bytes = plan.bytes.checked_add(length).ok_or(many)?;
            let count = match byte >> ACCESSES_SHIFT & ACCESSES {
                ACCESSES => self.rare().number()?,
                few => few.into(),
            };
            let pushes = length <= PUSH_LENGTH || byte & LAST != 0 || ends_piece(plan, insn.into());
            for _ in 0..count {
                let access = self.access(insn, pushes)?;
                plan.accesses.push(access);
            }
            if byte & WAY_OUT != 0 {
                let rsp = self.rsp()?;
                let moved = if flags & AFFINE != 0 { self.rare().signed()? } else { 0 };
                let words = match plan.sides.last() {
                    _ if flags & (AFFINE | PARTLY) != 0 => plan.words,
                    last => last
                        .map_or(1, |s| s.words)
                        .checked_add(self.at(Column::Words).small()?)
                        .filter(|&w| w <= plan.words)
                        .ok_or("a way out has more words than the block")?,
                };
                plan.sides.push(Side {
                    insn,
                    rsp,
                    moved,
                    words,
                });
            }
            if byte & LAST != 0 {
                return Ok(());
            }
        }
    }

    fn rsp(&mut self) -> Result<Lin, Bad> {
        match self.at(Column::Rsp).number()? {
            0 => self.lin(),
            n => {
                self.likely.rsp = self.likely.rsp.wrapping_add(unfold(n - 1));
                Ok(stack(self.likely.rsp))
            }
        }
    }

    fn access(&mut self, insn: u16, pushes: bool) -> Result<PlannedAccess, Bad> {
        let byte = self.at(Column::Access).byte()?;
        let kind = kind(byte & KIND)?;
        let size = 1u32 << (byte >> SIZE_SHIFT & SIZE);
        let (mut lin, mut segment) = (Lin::default(), None);
        match byte >> FORM_SHIFT {
            FORM_STACK => {
                lin = stack(self.likely.rsp.wrapping_add(self.at(Column::Stack).signed()?));
                if pushes {
                    self.likely.use_stack(lin.c, kind, size);
                }
            }
            FORM_SLOT => {
                lin = Lin::slot(self.slot()?);
                lin.c = self.at(Column::Offset).signed()?;
            }
            FORM_CONSTANT => {
                self.likely.address = self.likely.address.wrapping_add(self.at(Column::Address).signed()?);
                lin.c = self.likely.address;
            }
            FORM_INDEXED => {
                lin.n = 2;
                lin.terms[0] = (self.slot()?, 1);
                lin.terms[1] = (self.slot()?, self.rare().scale()?);
                lin.c = self.at(Column::Offset).signed()?;
            }
            FORM_FS => {
                lin.c = self.at(Column::Offset).signed()?;
                segment = Some(FS);
            }
            FORM_OTHER => {
                let shape = self.shape()?;
                return Ok(PlannedAccess { insn, kind, shape });
            }
            _ => return Err("an address of unknown form"),
        }
        let addr = Addr {
            lin,
            low32: false,
            segment,
        };
        let shape = Shape::Plain { addr, size };
        Ok(PlannedAccess { insn, kind, shape })
    }

    fn slot(&mut self) -> Result<Slot, Bad> {
        let slot = u64::from(self.likely.slot).wrapping_sub(self.at(Column::Slot).signed()?);
        let slot = Slot::try_from(slot).map_err(|_| "a slot is out of range")?;
        self.likely.use_slot(slot);
        Ok(slot)
    }

    fn lin(&mut self) -> Result<Lin, Bad> {
        let mut lin = Lin {
            n: self.rare().byte()?,
            ..Lin::default()
        };
        if usize::from(lin.n) > TERMS {
            return Err("a form of too many terms");
        }
        for term in &mut lin.terms[..usize::from(lin.n)] {
            *term = (self.rare().small()?, self.rare().scale()?);
        }
        lin.c = self.rare().signed()?;
        Ok(lin)
    }

    fn addr(&mut self) -> Result<Addr, Bad> {
        let head = self.rare().number()?;
        let segment = match head >> 1 {
            0 => None,
            slot => Some(Slot::try_from(slot - 1).map_err(|_| "a segment is out of range")?),
        };
        Ok(Addr {
            low32: head & 1 == 1,
            segment,
            lin: self.lin()?,
        })
    }

    fn vector(&mut self) -> Result<(u8, Mask, u8), Bad> {
        let lanes = self.rare().byte()?;
        let mask = match self.rare().byte()? {
            MASK_ALL => Mask::All,
            MASK_BITS => Mask::Bits(self.rare().small()?),
            MASK_SIGNS => Mask::SignOf {
                first: self.rare().small()?,
                bytes: self.rare().byte()?,
            },
            _ => return Err("a mask of unknown kind"),
        };
        Ok((lanes, mask, self.rare().byte()?))
    }

    fn steps(&mut self) -> Result<Vec<Step>, Bad> {
        let mut steps = Vec::new();
        for _ in 0..self.rare().small::<u16>()? {
            steps.push(self.step()?);
        }
        Ok(steps)
    }

    fn step(&mut self) -> Result<Step, Bad> {
        let rare = self.rare();
        let flags = rare.byte()?;
        if flags & !(STEP_IS_LOW32 | STEP_HAS_PLUS | STEP_IS_ANEW) != 0 {
            return Err("a step of unknown kind");
        }
        Ok(Step {
            low32: flags & STEP_IS_LOW32 != 0,
            slot: rare.small()?,
            by: rare.signed()?,
            plus: match flags & STEP_HAS_PLUS {
                0 => None,
                _ => Some((rare.small()?, rare.scale()?)),
            },
            anew: flags & STEP_IS_ANEW != 0,
        })
    }

    fn shape(&mut self) -> Result<Shape, Bad> {
        let tag = self.rare().byte()?;
        if tag == shape::REPEAT {
            return self.repeat();
        }
        let addr = self.addr()?;
        Ok(match tag {
            shape::PLAIN => Shape::Plain {
                addr,
                size: self.rare().small()?,
            },
            shape::LANES => {
                let rare = self.rare();
                let (index, index_bytes, scale) = (rare.small()?, rare.byte()?, rare.byte()?);
                let (lanes, mask, size) = self.vector()?;
                Shape::Lanes {
                    addr,
                    index,
                    index_bytes,
                    scale,
                    lanes,
                    mask,
                    size,
                }
            }
            shape::ELEMENTS | shape::BROADCAST | shape::PACKED => {
                let (lanes, mask, size) = self.vector()?;
                masked(tag, addr, lanes, mask, size)
            }
            shape::BIT_WORD => Shape::from(BitWord {
                addr,
                bit: self.lin()?,
                size: self.rare().byte()?,
            }),
            shape::LINE => Shape::Line {
                addr,
                size: self.rare().small()?,
            },
            shape::XSTATE => Shape::from(Xstate {
                addr,
                low: self.lin()?,
                high: self.lin()?,
                layout: match self.rare().number()? {
                    0 => Layout::Standard,
                    1 => Layout::Compact,
                    slot => Layout::Image(Slot::try_from(slot - 2).map_err(|_| "a slot is out of range")?),
                },
            }),
            _ => return Err("an access of unknown shape"),
        })
    }

    fn repeat(&mut self) -> Result<Shape, Bad> {
        let flags = self.rare().byte()?;
        let source = match flags & HAS_SOURCE {
            0 => None,
            _ => Some(self.addr()?),
        };
        let dest = match flags >> DEST_SHIFT {
            0 => None,
            code => Some((self.addr()?, kind(code - 1)?)),
        };
        Ok(Shape::from(Repeat {
            source,
            dest,
            size: self.rare().byte()?,
            before: self.lin()?,
            after: self.rare().small()?,
            low32: flags & COUNT_IS_LOW32 != 0,
            pointer: self.lin()?,
            moved: self.rare().small()?,
            moved_is_rsi: flags & MOVED_IS_RSI != 0,
        }))
    }
}

const PIECES_OUT_OF_ORDER: Bad = "a block's pieces are not in order";

/// Puts the pieces where they are, now that the instructions before them are known.
fn place(plan: &mut Plan) -> Result<(), Bad> {
    if plan
        .pieces
        .last()
        .is_some_and(|p| usize::from(p.insn) >= plan.insn_offsets.len())
    {
        return Err(PIECES_OUT_OF_ORDER);
    }
    for i in 0..plan.pieces.len() {
        let (before, length) = plan.instruction(plan.pieces[i].insn - 1);
        let piece = &mut plan.pieces[i];
        piece.pc = piece.pc.wrapping_add(before).wrapping_add(length.into());
    }
    Ok(())
}

fn masked(tag: u8, addr: Addr, lanes: u8, mask: Mask, size: u8) -> Shape {
    match tag {
        shape::ELEMENTS => Shape::Elements {
            addr,
            lanes,
            mask,
            size,
        },
        shape::BROADCAST => Shape::Broadcast {
            addr,
            lanes,
            mask,
            size,
        },
        _ => Shape::Packed {
            addr,
            lanes,
            mask,
            size,
        },
    }
}
