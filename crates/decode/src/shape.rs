//! What a memory operand amounts to, given the values of a record: expanded, or only counted.
//!
//! [`expand`] and [`count`] must agree for every shape; a test holds them to it.
use crate::points::Points;
use crate::{Counts, Cut, DecodeError};
use memtrail_model::{Kind, LoopAccess};
use memtrail_plan::XsaveTable;
use memtrail_plan::{Addr, Layout, Mask, Plan, PlannedAccess, Repeat, Shape, Xstate};

/// More accesses than any execution can have made; a larger number is a damaged record.
pub(crate) const MOST_ACCESSES: u64 = 1 << 48;
/// The legacy region and the header of an xsave area.
const XSAVE_BASE: u64 = 512 + 64;

/// What one whole execution of a block does regardless of values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fixed {
    pub counts: Counts,
    /// Indices of the accesses whose number or size depends on values.
    pub dynamic: Vec<u16>,
}

impl Fixed {
    pub fn of(plan: &Plan) -> Fixed {
        let mut fixed = Fixed::default();
        fixed.counts.instructions = plan.insn_offsets.len() as u64;
        fixed.counts.blocks = 1;
        for (i, access) in plan.accesses.iter().enumerate() {
            match access.shape.fixed_size() {
                Some(size) => fixed.counts.add(access.kind, 1, size.into()),
                None => fixed.dynamic.push(i as u16),
            }
        }
        fixed
    }

    /// What an execution does that is left through the branch `insn`, if nothing in it depends on
    /// values.
    pub fn until(plan: &Plan, insn: u16) -> Counts {
        let mut counts = Counts {
            instructions: u64::from(insn) + 1,
            blocks: 1,
            ..Counts::default()
        };
        for access in plan.accesses.iter().take_while(|a| a.insn <= insn) {
            if let Some(size) = access.shape.fixed_size() {
                counts.add(access.kind, 1, size.into());
            }
        }
        counts
    }
}

/// Where values come from while a shape is evaluated.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub block: u32,
    pub slots: &'a [u64],
    pub xsave: &'a XsaveTable,
    /// Set if this instruction is the one that did not complete.
    pub cut: Option<&'a Cut>,
}

/// A repeated string instruction, evaluated.
struct Repeated {
    elements: u64,
    step: u64,
}

impl Values<'_> {
    /// The address `offset` bytes after where `addr` points, wrapping as the address size does.
    #[inline]
    fn at(&self, addr: &Addr, offset: u64) -> u64 {
        let mut a = addr.lin.eval(self.slots).wrapping_add(offset);
        if addr.low32 {
            a = a as u32 as u64;
        }
        match addr.segment {
            Some(s) => a.wrapping_add(self.slots[s as usize]),
            None => a,
        }
    }

    /// Element `i`, of `bytes` bytes, of the vector that begins in slot `first`.
    fn element(&self, first: u16, bytes: u8, i: u8) -> u64 {
        let at = i as usize * bytes as usize;
        let word = self.slots[first as usize + at / 8];
        let bits = u32::from(bytes.clamp(1, 8)) * 8;
        word >> (at % 8 * 8) << (64 - bits) >> (64 - bits)
    }

    fn active(&self, mask: &Mask, i: u8) -> bool {
        match *mask {
            Mask::All => true,
            Mask::Bits(slot) => self.slots[slot as usize] >> (i & 63) & 1 == 1,
            Mask::SignOf { first, bytes } => {
                self.element(first, bytes, i) >> (u32::from(bytes.clamp(1, 8)) * 8 - 1) & 1 == 1
            }
        }
    }

    fn active_lanes(&self, mask: &Mask, lanes: u8) -> u64 {
        (0..lanes).filter(|&i| self.active(mask, i)).count() as u64
    }

    /// Lanes of a gather or scatter that were done: all, unless it was cut short.
    fn lane_done(&self, i: u8) -> bool {
        self.cut.is_none_or(|c| c.lanes >> (i & 63) & 1 == 1)
    }

    fn repeated(&self, repeat: &Repeat) -> Result<Repeated, DecodeError> {
        let narrow = |v: u64| if repeat.low32 { v as u32 as u64 } else { v };
        let (after, moved) = match self.cut {
            Some(c) => (c.rcx, if repeat.moved_is_rsi { c.rsi } else { c.rdi }),
            None => (
                self.slots[usize::from(repeat.after)],
                self.slots[usize::from(repeat.moved)],
            ),
        };
        let elements = narrow(repeat.before.eval(self.slots).wrapping_sub(after));
        if elements > MOST_ACCESSES / 2 {
            return Err(DecodeError::TooMany {
                id: self.block,
                count: elements.into(),
            });
        }
        let down = narrow(moved) < narrow(repeat.pointer.eval(self.slots));
        let size = u64::from(repeat.size);
        Ok(Repeated {
            elements,
            step: if down { size.wrapping_neg() } else { size },
        })
    }

    /// Bytes of an xsave area from its start to the end of the last component asked for.
    fn xsave_extent(&self, xstate: &Xstate) -> u64 {
        let mask = xsave_mask(xstate.low.eval(self.slots), xstate.high.eval(self.slots));
        let asked = mask & self.xsave.xcr0;
        let (compact, present) = match xstate.layout {
            Layout::Standard => (false, asked),
            Layout::Compact => (true, asked),
            Layout::Image(slot) => {
                let bv = self.slots[slot as usize];
                (bv >> 63 == 1, bv)
            }
        };
        let (mut extent, mut next) = (XSAVE_BASE, XSAVE_BASE);
        for c in &self.xsave.components {
            let has = |set: u64| set >> (c.index & 63) & 1 == 1;
            let begin = if compact {
                if !has(present) {
                    continue;
                }
                let begin = if c.aligned { next.next_multiple_of(64) } else { next };
                next = begin + u64::from(c.size);
                begin
            } else {
                u64::from(c.offset)
            };
            if has(asked) {
                extent = extent.max(begin + u64::from(c.size));
            }
        }
        extent
    }

    /// Offset of the word that holds bit `bit` of a bit string.
    fn bit_word(bit: u64, size: u8) -> u64 {
        let bits = u32::from(size.clamp(1, 8)) * 8;
        let signed = (bit << (64 - bits)) as i64 >> (64 - bits);
        (signed.div_euclid(i64::from(bits)) as u64).wrapping_mul(size.into())
    }
}

/// Whether an access at the instruction that was cut short may have happened in part.
fn can_be_partial(shape: &Shape) -> bool {
    matches!(shape, Shape::Repeat(_) | Shape::Lanes { .. })
}

/// Takes an access (kind, address, size); returns whether it wants more.
pub(crate) type Emit<'e> = &'e mut dyn FnMut(Kind, u64, u32) -> bool;

/// Calls `emit` with each access but the first `from`, in order, until it wants no more.
#[inline]
pub(crate) fn expand(
    access: &PlannedAccess,
    v: &Values,
    from: u64,
    mut emit: impl FnMut(Kind, u64, u32) -> bool,
) -> Result<(), DecodeError> {
    if let Shape::Plain { addr, size } = &access.shape {
        if v.cut.is_none() && from == 0 {
            emit(access.kind, v.at(addr, 0), *size);
        }
        return Ok(());
    }
    if v.cut.is_some() && !can_be_partial(&access.shape) {
        return Ok(());
    }
    if let Shape::Repeat(repeat) = &access.shape {
        return expand_repeat(repeat, v, from, &mut emit);
    }
    let mut seen = 0;
    expand_rare(access, v, &mut |kind, addr, size| {
        seen += 1;
        seen <= from || emit(kind, addr, size)
    });
    Ok(())
}

/// A repeated string instruction as a loop over its elements, from element `first` on: how many
/// there are, and the accesses of each. No accesses if it is none, or if its addresses are short.
pub(crate) fn as_loop(
    access: &PlannedAccess,
    v: &Values,
    first: u64,
    pc: u64,
    points: &Points,
) -> Result<(u64, Vec<LoopAccess>), DecodeError> {
    let Shape::Repeat(repeat) = &access.shape else {
        return Ok((0, Vec::new()));
    };
    let r = v.repeated(repeat)?;
    let source = repeat.source.iter().map(|addr| (addr, Kind::Read));
    let operands = source.chain(repeat.dest.iter().map(|(addr, kind)| (addr, *kind)));
    let one = |(addr, kind): (&Addr, Kind)| {
        (!addr.low32).then(|| LoopAccess {
            pc,
            kind,
            point: points.of(access, kind),
            size: repeat.size.into(),
            addr: v.at(addr, first.wrapping_mul(r.step)),
            stride: r.step,
        })
    };
    let body: Option<Vec<_>> = operands.map(one).collect();
    Ok((r.elements.saturating_sub(first), body.unwrap_or_default()))
}

fn expand_repeat(repeat: &Repeat, v: &Values, from: u64, emit: Emit) -> Result<(), DecodeError> {
    let Repeat { source, dest, .. } = repeat;
    let r = v.repeated(repeat)?;
    let size = repeat.size.into();
    let both = source.is_some() && dest.is_some();
    let first = if both { from / 2 } else { from };
    let mut source_done = both && from % 2 == 1;
    for i in first..r.elements {
        let offset = i.wrapping_mul(r.step);
        if let Some(addr) = source.as_ref().filter(|_| !source_done) {
            if !emit(Kind::Read, v.at(addr, offset), size) {
                break;
            }
        }
        source_done = false;
        if let Some((addr, kind)) = dest {
            if !emit(*kind, v.at(addr, offset), size) {
                break;
            }
        }
    }
    Ok(())
}

/// Shapes with few accesses.
fn expand_rare(access: &PlannedAccess, v: &Values, emit: Emit) {
    let kind = access.kind;
    match &access.shape {
        Shape::Repeat(_) => {}
        Shape::Plain { addr, size } => {
            emit(kind, v.at(addr, 0), *size);
        }
        Shape::Line { addr, size } => {
            emit(kind, v.at(addr, 0) & !u64::from(*size).wrapping_sub(1), *size);
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
            let shift = 64 - u32::from((*index_bytes).clamp(1, 8)) * 8;
            let mut active = (0..*lanes).filter(|&i| v.active(mask, i) && v.lane_done(i));
            active.all(|i| {
                let raw = v.element(*index, *index_bytes, i);
                let index = ((raw << shift) as i64 >> shift) as u64;
                let offset = index.wrapping_mul((*scale).into());
                emit(kind, v.at(addr, offset), (*size).into())
            });
        }
        Shape::Elements {
            addr,
            lanes,
            mask,
            size,
        } => {
            let mut active = (0..*lanes).filter(|&i| v.active(mask, i));
            active.all(|i| emit(kind, v.at(addr, u64::from(i) * u64::from(*size)), (*size).into()));
        }
        Shape::Broadcast {
            addr,
            lanes,
            mask,
            size,
        } => {
            if v.active_lanes(mask, *lanes) > 0 {
                emit(kind, v.at(addr, 0), (*size).into());
            }
        }
        Shape::Packed {
            addr,
            lanes,
            mask,
            size,
        } => {
            let mut elements = 0..v.active_lanes(mask, *lanes);
            elements.all(|i| emit(kind, v.at(addr, i * u64::from(*size)), (*size).into()));
        }
        Shape::BitWord(word) => {
            let offset = Values::bit_word(word.bit.eval(v.slots), word.size);
            emit(kind, v.at(&word.addr, offset), word.size.into());
        }
        Shape::Xstate(xstate) => {
            emit(kind, v.at(&xstate.addr, 0), v.xsave_extent(xstate) as u32);
        }
    }
}

fn xsave_mask(low: u64, high: u64) -> u64 {
    u64::from(low as u32) | high << 32
}

/// Adds to `counts` what [`expand`] would emit, in time independent of repeat counts.
pub(crate) fn count(access: &PlannedAccess, v: &Values, counts: &mut Counts) -> Result<(), DecodeError> {
    if v.cut.is_some() && !can_be_partial(&access.shape) {
        return Ok(());
    }
    let kind = access.kind;
    match &access.shape {
        Shape::Plain { size, .. } | Shape::Line { size, .. } => counts.add(kind, 1, (*size).into()),
        Shape::Repeat(repeat) => {
            let (n, size) = (v.repeated(repeat)?.elements, repeat.size.into());
            if repeat.source.is_some() {
                counts.add(Kind::Read, n, size);
            }
            if let Some((_, kind)) = repeat.dest {
                counts.add(kind, n, size);
            }
        }
        Shape::Lanes { lanes, mask, size, .. } => {
            let done = (0..*lanes).filter(|&i| v.active(mask, i) && v.lane_done(i));
            counts.add(kind, done.count() as u64, (*size).into());
        }
        Shape::Elements { lanes, mask, size, .. } | Shape::Packed { lanes, mask, size, .. } => {
            counts.add(kind, v.active_lanes(mask, *lanes), (*size).into())
        }
        Shape::Broadcast { lanes, mask, size, .. } => {
            let n = u64::from(v.active_lanes(mask, *lanes) > 0);
            counts.add(kind, n, (*size).into());
        }
        Shape::BitWord(word) => counts.add(kind, 1, word.size.into()),
        Shape::Xstate(xstate) => counts.add(kind, 1, v.xsave_extent(xstate)),
    }
    Ok(())
}
