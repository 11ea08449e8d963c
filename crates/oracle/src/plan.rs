//! From one decoded instruction and the registers before it, the accesses it is about to make.
//!
//! Problem: the list must be exact and ordered, also when an instruction stops
//! half-way. Idea: before the step, write down a [`Plan`]; after the step, ask
//! it what became true ([`Plan::settle`]). Most plans are all or nothing. Two
//! kinds of instruction commit piecewise by design of the architecture, and
//! keep their own progress in registers: repeated string instructions in rcx,
//! gathers and scatters in their mask. Those are settled from the difference
//! of that progress before and after, whatever the reason of the stop was.
//!
//! Invariants:
//! - only the decoder's view of operands and operand sizes is used from
//!   iced-x86; direction (read, write, both), implied operands, order and
//!   addresses are decided here, so that a wrong table there cannot make the
//!   oracle and the recorder wrong in the same way;
//! - an instruction whose direction is not known here is an error, never a guess.

use crate::direction::{direction, Direction};
use crate::machine::{Regs, Target, XsaveLayout, RAX, RBP, RBX, RCX, RDI, RDX, RSI};
use crate::vector;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use memtrail_model::Kind;

/// One access without thread and pc, which the stepper knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    pub kind: Kind,
    pub addr: u64,
    pub size: u32,
}

impl Touch {
    pub fn read(addr: u64, size: usize) -> Touch {
        Touch {
            kind: Kind::Read,
            addr,
            size: size as u32,
        }
    }

    pub fn write(addr: u64, size: usize) -> Touch {
        Touch {
            kind: Kind::Write,
            addr,
            size: size as u32,
        }
    }
}

/// One pointer of a string instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StringPointer {
    kind: Kind,
    segment_base: u64,
    start: u64,
}

/// What an instruction is about to touch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plan {
    /// All of it, if the instruction completes; none otherwise.
    Whole(Vec<Touch>),
    /// One round of `pointers` for each unit by which the counter falls.
    Repeat {
        count: u64,
        width: AddressWidth,
        step: i64,
        size: u32,
        pointers: Vec<StringPointer>,
    },
    /// One touch per lane whose mask bit falls.
    Lanes { mask: Register, lanes: Vec<(u32, Touch)> },
}

/// An instruction the oracle cannot account for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unclassified {
    pub pc: u64,
    pub code: Code,
}

impl std::fmt::Display for Unclassified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no access rule for {:?} at {:#x}", self.code, self.pc)
    }
}

impl std::error::Error for Unclassified {}

/// Address size of an instruction: a 67h prefix wraps offsets at 4 GB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressWidth {
    Bits32,
    Bits64,
}

impl AddressWidth {
    pub fn wrap(self, offset: u64) -> u64 {
        match self {
            AddressWidth::Bits32 => offset & 0xffff_ffff,
            AddressWidth::Bits64 => offset,
        }
    }

    fn of_explicit(instruction: &Instruction) -> AddressWidth {
        let registers = [instruction.memory_base(), instruction.memory_index()];
        let narrow = registers
            .iter()
            .any(|r| *r != Register::None && !r.is_vector_register() && r.size() == 4);
        let bare = registers.iter().all(|r| *r == Register::None || r.is_vector_register());
        // Without a register the decoder shows a 67h prefix only through the displacement's size.
        if narrow || (bare && instruction.memory_displ_size() == 4 && instruction.memory_displacement64() >> 32 == 0) {
            AddressWidth::Bits32
        } else {
            AddressWidth::Bits64
        }
    }
}

/// Offset and segment base of the explicit memory operand, `index` replacing a vector index.
pub fn effective_address(instruction: &Instruction, regs: &Regs, index: Option<u64>) -> u64 {
    let base = instruction.memory_base();
    let segment = regs.segment_base(instruction.memory_segment());
    if matches!(base, Register::RIP | Register::EIP) {
        return segment.wrapping_add(instruction.memory_displacement64());
    }
    let scaled = index
        .unwrap_or_else(|| regs.get(instruction.memory_index()))
        .wrapping_mul(u64::from(instruction.memory_index_scale()));
    let offset = regs
        .get(base)
        .wrapping_add(scaled)
        .wrapping_add(instruction.memory_displacement64());
    segment.wrapping_add(AddressWidth::of_explicit(instruction).wrap(offset))
}

pub fn memory_operand(instruction: &Instruction) -> Option<u32> {
    (0..instruction.op_count()).find(|&i| instruction.op_kind(i) == OpKind::Memory)
}

/// What `instruction` will touch when run from `regs`.
pub fn plan(instruction: &Instruction, regs: &Regs, target: &dyn Target) -> Result<Plan, Unclassified> {
    if let Some(plan) = string_instruction(instruction, regs) {
        return Ok(plan);
    }
    if let Some(plan) = vector::lane_by_lane(instruction, regs, target) {
        return Ok(plan);
    }
    if let Some(touches) = stack_instruction(instruction, regs) {
        return Ok(Plan::Whole(touches));
    }
    if let Some(touches) = implied_operands(instruction, regs, target) {
        return Ok(Plan::Whole(touches));
    }
    let Some(operand) = memory_operand(instruction) else {
        return Ok(Plan::Whole(Vec::new()));
    };
    let direction = direction(instruction, operand).ok_or(Unclassified {
        pc: instruction.ip(),
        code: instruction.code(),
    })?;
    let addr = effective_address(instruction, regs, None);
    let size = instruction.memory_size().size();
    Ok(Plan::Whole(direction.touches(addr, size)))
}

impl Direction {
    pub fn touches(self, addr: u64, size: usize) -> Vec<Touch> {
        match self {
            Direction::Nothing => vec![],
            Direction::Read => vec![Touch::read(addr, size)],
            Direction::Write => vec![Touch::write(addr, size)],
            Direction::ReadThenWrite => vec![Touch::read(addr, size), Touch::write(addr, size)],
            Direction::Prefetch => vec![Touch {
                kind: Kind::Prefetch,
                addr,
                size: 1,
            }],
        }
    }
}

fn string_instruction(instruction: &Instruction, regs: &Regs) -> Option<Plan> {
    let pointer = |operand: u32, kind: Kind| {
        let (register, width, segment) = match instruction.op_kind(operand) {
            OpKind::MemorySegRSI => (RSI, AddressWidth::Bits64, instruction.memory_segment()),
            OpKind::MemorySegESI => (RSI, AddressWidth::Bits32, instruction.memory_segment()),
            OpKind::MemoryESRDI => (RDI, AddressWidth::Bits64, Register::ES),
            OpKind::MemoryESEDI => (RDI, AddressWidth::Bits32, Register::ES),
            _ => return None,
        };
        let start = width.wrap(regs.gpr[register]);
        Some((
            width,
            StringPointer {
                kind,
                segment_base: regs.segment_base(segment),
                start,
            },
        ))
    };
    // cmps names [rsi] first, movs names [rdi] first: both touch [rsi] first.
    let operands: &[(u32, Kind)] = match instruction.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq => &[(1, Kind::Read), (0, Kind::Write)],
        Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsd | Mnemonic::Cmpsq => &[(0, Kind::Read), (1, Kind::Read)],
        Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq => &[(1, Kind::Read)],
        Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => &[(1, Kind::Read)],
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => &[(0, Kind::Write)],
        _ => return None,
    };
    // The scalar-double movsd and cmpsd share these names; their operands are of other kinds.
    let found: Vec<_> = operands
        .iter()
        .map(|&(operand, kind)| pointer(operand, kind))
        .collect::<Option<_>>()?;
    let width = found[0].0;
    let pointers: Vec<_> = found.into_iter().map(|(_, p)| p).collect();
    let size = instruction.memory_size().size();
    if instruction.has_rep_prefix() || instruction.has_repne_prefix() {
        let step = if regs.backwards() { -(size as i64) } else { size as i64 };
        return Some(Plan::Repeat {
            count: width.wrap(regs.gpr[RCX]),
            width,
            step,
            size: size as u32,
            pointers,
        });
    }
    let once = pointers.iter().map(|p| Touch {
        kind: p.kind,
        addr: p.segment_base.wrapping_add(p.start),
        size: size as u32,
    });
    Some(Plan::Whole(once.collect()))
}

/// Pushes from `sp` downwards, remembering what they wrote.
struct Stack {
    sp: u64,
    slot: usize,
    touches: Vec<Touch>,
}

impl Stack {
    fn new(regs: &Regs, slot: usize) -> Stack {
        Stack {
            sp: regs.rsp(),
            slot,
            touches: Vec::new(),
        }
    }

    fn push(&mut self) {
        self.sp = self.sp.wrapping_sub(self.slot as u64);
        self.touches.push(Touch::write(self.sp, self.slot));
    }

    fn pop(&mut self) {
        self.touches.push(Touch::read(self.sp, self.slot));
        self.sp = self.sp.wrapping_add(self.slot as u64);
    }
}

fn stack_instruction(instruction: &Instruction, regs: &Regs) -> Option<Vec<Touch>> {
    let slot = stack_slot(instruction)?;
    let mut stack = Stack::new(regs, slot);
    let in_memory = memory_operand(instruction).is_some();
    let source = |stack: &mut Stack| {
        if in_memory {
            let addr = effective_address(instruction, regs, None);
            stack.touches.push(Touch::read(addr, instruction.memory_size().size()));
        }
    };
    match instruction.mnemonic() {
        Mnemonic::Push => {
            source(&mut stack);
            stack.push();
        }
        Mnemonic::Call => {
            source(&mut stack);
            stack.push();
            if instruction.is_call_far_indirect() {
                stack.push();
            }
        }
        Mnemonic::Pushf | Mnemonic::Pushfd | Mnemonic::Pushfq => stack.push(),
        Mnemonic::Popf | Mnemonic::Popfd | Mnemonic::Popfq | Mnemonic::Ret => stack.pop(),
        Mnemonic::Retf => (0..2).for_each(|_| stack.pop()),
        Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => (0..5).for_each(|_| stack.pop()),
        Mnemonic::Leave => {
            stack.sp = regs.gpr[RBP];
            stack.pop();
        }
        Mnemonic::Enter => enter(&mut stack, regs, instruction.immediate8_2nd() & 31),
        Mnemonic::Pop => {
            stack.pop();
            if in_memory {
                let mut after = *regs;
                after.gpr[crate::machine::RSP] = stack.sp;
                let addr = effective_address(instruction, &after, None);
                stack.touches.push(Touch::write(addr, slot));
            }
        }
        _ => return None,
    }
    Some(stack.touches)
}

/// Copies `level - 1` frame pointers from the enclosing frame, then pushes the new one.
fn enter(stack: &mut Stack, regs: &Regs, level: u8) {
    stack.push();
    let mut outer = regs.gpr[RBP];
    for _ in 1..level {
        outer = outer.wrapping_sub(stack.slot as u64);
        stack.touches.push(Touch::read(outer, stack.slot));
        stack.push();
    }
    if level > 0 {
        stack.push();
    }
}

/// Bytes per slot for instructions that use the stack.
fn stack_slot(instruction: &Instruction) -> Option<usize> {
    Some(match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Pop => instruction.stack_pointer_increment().unsigned_abs() as usize,
        Mnemonic::Call if instruction.is_call_far_indirect() => match instruction.code() {
            Code::Call_m1616 => 2,
            Code::Call_m1632 => 4,
            _ => 8,
        },
        Mnemonic::Call | Mnemonic::Pushfq | Mnemonic::Popfq | Mnemonic::Iretq => 8,
        Mnemonic::Ret => match instruction.code() {
            Code::Retnw | Code::Retnw_imm16 => 2,
            _ => 8,
        },
        Mnemonic::Retf => match instruction.code() {
            Code::Retfw | Code::Retfw_imm16 => 2,
            Code::Retfd | Code::Retfd_imm16 => 4,
            _ => 8,
        },
        Mnemonic::Pushf | Mnemonic::Popf | Mnemonic::Iret => 2,
        Mnemonic::Iretd => 4,
        Mnemonic::Leave if instruction.code() == Code::Leavew => 2,
        Mnemonic::Enter if instruction.code() == Code::Enterw_imm16_imm8 => 2,
        Mnemonic::Leave | Mnemonic::Enter => 8,
        _ => return None,
    })
}

/// Instructions whose address or extent does not follow from a plain memory operand.
fn implied_operands(instruction: &Instruction, regs: &Regs, target: &dyn Target) -> Option<Vec<Touch>> {
    let mask = regs.gpr[RDX] << 32 | regs.gpr[RAX] & 0xffff_ffff;
    let xsave = XsaveLayout::of_this_cpu();
    Some(match instruction.mnemonic() {
        Mnemonic::Xlatb => {
            let segment = regs.segment_base(instruction.memory_segment());
            let wide = instruction.memory_base() == Register::RBX;
            let width = if wide {
                AddressWidth::Bits64
            } else {
                AddressWidth::Bits32
            };
            let offset = width.wrap(regs.gpr[RBX].wrapping_add(regs.get(Register::AL)));
            vec![Touch::read(segment.wrapping_add(offset), 1)]
        }
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc => bit_string(instruction, regs)?,
        Mnemonic::Xsave | Mnemonic::Xsave64 | Mnemonic::Xsaveopt | Mnemonic::Xsaveopt64 => {
            vec![Touch::write(
                effective_address(instruction, regs, None),
                xsave.standard_extent(mask),
            )]
        }
        Mnemonic::Xsavec | Mnemonic::Xsavec64 => {
            vec![Touch::write(
                effective_address(instruction, regs, None),
                xsave.compact_extent(mask),
            )]
        }
        Mnemonic::Xrstor | Mnemonic::Xrstor64 => {
            let addr = effective_address(instruction, regs, None);
            let mut xcomp_bv = [0u8; 8];
            let compacted = target.read(addr.wrapping_add(520), &mut xcomp_bv) && xcomp_bv[7] & 0x80 != 0;
            let extent = if compacted {
                xsave.compact_extent(mask)
            } else {
                xsave.standard_extent(mask)
            };
            vec![Touch::read(addr, extent)]
        }
        Mnemonic::Movdir64b => {
            let destination = regs.get(instruction.op0_register());
            vec![
                Touch::read(effective_address(instruction, regs, None), 64),
                Touch::write(destination, 64),
            ]
        }
        Mnemonic::Clzero => vec![Touch::write(regs.gpr[RAX] & !63, 64)],
        _ => return None,
    })
}

/// `bt m, r`: the register is a signed bit offset that may leave the addressed word.
fn bit_string(instruction: &Instruction, regs: &Regs) -> Option<Vec<Touch>> {
    if instruction.op0_kind() != OpKind::Memory {
        return None;
    }
    let size = instruction.memory_size().size();
    let mut addr = effective_address(instruction, regs, None);
    if instruction.op1_kind() == OpKind::Register {
        let raw = regs.get(instruction.op1_register());
        let signed = match size {
            2 => raw as u16 as i16 as i64,
            4 => raw as u32 as i32 as i64,
            _ => raw as i64,
        };
        let words = signed >> (8 * size).trailing_zeros();
        let segment = regs.segment_base(instruction.memory_segment());
        let offset = addr.wrapping_sub(segment).wrapping_add((words * size as i64) as u64);
        addr = segment.wrapping_add(AddressWidth::of_explicit(instruction).wrap(offset));
    }
    let direction = if instruction.mnemonic() == Mnemonic::Bt {
        Direction::Read
    } else {
        Direction::ReadThenWrite
    };
    Some(direction.touches(addr, size))
}

impl Plan {
    /// The touches that did happen. `completed`: the instruction ran to its end
    /// (for a repeated one: an iteration did). `after`: registers at the stop.
    pub fn settle(&self, completed: bool, after: &Regs, target: &dyn Target, out: &mut Vec<Touch>) {
        match self {
            Plan::Whole(touches) => {
                if completed {
                    out.extend_from_slice(touches);
                }
            }
            Plan::Repeat {
                count,
                width,
                step,
                size,
                pointers,
            } => {
                let done = width.wrap(count.wrapping_sub(after.gpr[RCX]));
                for i in 0..done as i64 {
                    for p in pointers {
                        let offset = width.wrap(p.start.wrapping_add((i * step) as u64));
                        out.push(Touch {
                            kind: p.kind,
                            addr: p.segment_base.wrapping_add(offset),
                            size: *size,
                        });
                    }
                }
            }
            Plan::Lanes { mask, lanes } => {
                let remaining = vector::active_lanes(*mask, lanes, target);
                let done = lanes.iter().filter(|(lane, _)| !remaining.contains(lane));
                out.extend(done.map(|(_, touch)| *touch));
            }
        }
    }

    /// Whether settling needs registers after the step.
    pub fn piecewise(&self) -> bool {
        !matches!(self, Plan::Whole(_))
    }
}
