//! Code bytes to a block: its instructions, how it ends, and its probe plan.
//!
//! A block runs from an address to the first control transfer, or to a limit. The limit is a pure
//! function of the code and the options, so the collector, given just the bytes of the block,
//! derives the same plan as the runtime did.
//!
//! A *path* is a block of several stretches of code that usually follow each other: it goes on
//! through branches that are taken, jumps, calls and returns. Which stretches is the runtime's
//! choice; everything else follows from their code as it does for other blocks. Where control may
//! turn out to go elsewhere the path has a way out.
use crate::accesses::Accesses;
use crate::effects::{effects, Effects};
use crate::loops::{induction, loop_shape, LoopShape};
use crate::marker::Marker;
use crate::symbolic::{Atom, Machine, R15, RSP_REG};
use alloc::vec::Vec;
use iced_x86::{
    Code, ConstantOffsets, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpKind, Register,
};
use memtrail_model::Via;
use memtrail_plan::{Derived, Lin, LoopPlan, Piece, Plan, Side, Slot, Step, Stretch, FIRST, RSP};
use memtrail_ring::Probes;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub probes: Probes,
    /// Most instructions in a block.
    pub max_block: u32,
}

/// What a recording has unless it is told otherwise.
impl Default for Options {
    fn default() -> Options {
        Options {
            probes: Probes::Loop,
            max_block: 64,
        }
    }
}

/// Why there is no block at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The first instruction does not decode.
    Unknown { pc: u64 },
    /// The first instruction runs past the bytes given.
    Truncated { pc: u64 },
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Unknown { pc } => write!(f, "unknown instruction at {pc:#x}"),
            Error::Truncated { pc } => write!(f, "the instruction at {pc:#x} runs past the end of the code"),
        }
    }
}

impl core::error::Error for Error {}

/// How a block ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Into the next instruction.
    Fall,
    Jump {
        target: u64,
    },
    /// Conditional; falls through otherwise. Includes loop and jrcxz.
    Branch {
        target: u64,
    },
    Call {
        target: u64,
    },
    JumpIndirect,
    CallIndirect,
    Return,
    Syscall,
    /// The runtime carries out the last instruction itself.
    Emulate,
    /// The program tells something.
    Marker(Marker),
    /// xbegin: taken as an abort at once.
    Abort {
        target: u64,
    },
}

/// A way out of a block before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A conditional branch that is taken leads here.
    Taken { target: u64 },
    /// One that is not taken leads here: the path goes on where it branches to.
    NotTaken { next: u64 },
    /// A return, or an indirect jump or call, that goes anywhere but here.
    NotTo { expected: u64 },
}

/// A value to store into the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capture {
    /// Just before this instruction.
    pub pos: u16,
    pub atom: Atom,
    pub slot: Slot,
}

impl Capture {
    /// The first word of the record that it takes; the id is word 0.
    pub(crate) fn word(&self) -> u16 {
        self.slot - FIRST + 1
    }
    /// Words of the record that it takes.
    pub(crate) fn words(&self) -> u16 {
        match self.atom {
            Atom::Vector { words, .. } => words.into(),
            _ => 1,
        }
    }
}

/// A decoded and planned block.
pub struct Block {
    pub pc: u64,
    pub insns: Vec<Instruction>,
    pub offsets: Vec<ConstantOffsets>,
    pub exit: Exit,
    pub plan: Plan,
    /// In order of position.
    pub captures: Vec<Capture>,
    /// General registers any instruction reads or writes, by hardware number.
    pub used: u16,
    pub writes_r15: bool,
    /// The bytes given ended before the block did.
    pub starved: bool,
    /// Where each of the plan's sides leads.
    pub ways: Vec<Way>,
}

impl Block {
    /// The first byte behind it.
    pub fn end(&self) -> u64 {
        self.insns.last().map_or(self.pc, |i| i.next_ip())
    }
    /// Words of a record: of an iteration after the first of a partly affine loop if it is
    /// `steady`.
    pub fn record_words(&self, steady: bool) -> usize {
        let first = if steady { self.plan.steady_ids() } else { 0 };
        self.plan.record(first).words.into()
    }
    /// The captures of a record in order, with the slots of that record: of an iteration after the
    /// first of a partly affine loop if it is `steady`.
    pub(crate) fn captures_of(&self, steady: bool) -> impl Iterator<Item = Capture> + '_ {
        let free = match &self.plan.looping {
            Some(LoopPlan::Partly { free, .. }) if steady => Some(free),
            _ => None,
        };
        self.captures.iter().filter_map(move |c| match free {
            None => Some(*c),
            Some(free) => free.iter().position(|s| *s == c.slot).map(|k| Capture {
                slot: FIRST + k as Slot,
                ..*c
            }),
        })
    }
    /// How far instructions before number `done` have moved the loop counter `reg` in this
    /// iteration.
    pub fn moved_before(&self, reg: usize, done: usize) -> u64 {
        let mut machine = Machine::new();
        let entry = machine.regs[reg].terms[0].0;
        let mut infos = InstructionInfoFactory::new();
        for (i, insn) in self.insns.iter().take(done).enumerate() {
            machine.step(insn, &effects(insn, &mut infos), i);
        }
        induction(&machine, reg, entry).map_or(0, |m| m.0)
    }
    /// Register and step of an affine loop's counter.
    pub fn counter(&self) -> Option<(usize, Step)> {
        match &self.plan.looping {
            Some(LoopPlan::Affine { counter, .. }) => {
                if counter.slot == RSP {
                    return Some((RSP_REG, *counter));
                }
                let cap = self.captures.iter().find(|c| c.slot == counter.slot)?;
                match cap.atom {
                    Atom::Gpr { reg, .. } => Some((reg as usize, *counter)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// All general registers but rsp and r15: a block that touches r15 must leave one of them alone, to
/// stand in for r15 while that holds the buffer pointer. rcx and rdx are taken by indirect
/// branches.
pub const STAND_INS: u16 = !(1 << RSP_REG | 1 << R15 | 1 << 1 | 1 << 2);

/// Most ways out of a block before its end.
const MOST_SIDES: usize = 4;

/// The same of a path.
const MOST_SIDES_OF_PATH: usize = 31;

/// Most instructions of a path.
const LONGEST_PATH: usize = 400;

/// Words that a path's record may have before it is cut.
const PATH_WORDS_LIMIT: usize = 200;

/// Words a record may have before the block is cut.
const WORDS_LIMIT: usize = memtrail_ring::MAX_RECORD_WORDS - 64;

/// Working memory, kept from block to block so that translating allocates next to nothing.
pub struct Scratch {
    infos: InstructionInfoFactory,
    machine: Machine,
    needed: Vec<bool>,
    slot_of: Vec<Slot>,
    order: Vec<u16>,
    /// Most words that the record so far can need.
    words: usize,
    spare: Option<Block>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            infos: InstructionInfoFactory::new(),
            machine: Machine::new(),
            needed: Vec::new(),
            slot_of: Vec::new(),
            order: Vec::new(),
            words: 1,
            spare: None,
        }
    }
}

/// Decode and plan the block at `pc`, whose code begins `code`.
pub fn analyze(code: &[u8], pc: u64, opts: &Options) -> Result<Block, Error> {
    Scratch::default().analyze(code, pc, opts)
}

/// As [`Scratch::analyze_path`].
pub fn analyze_path(code: &[u8], stretches: &[Stretch], opts: &Options) -> Result<Block, Error> {
    Scratch::default().analyze_path(code, stretches, opts)
}

impl Scratch {
    /// Take a block's memory back for the next one.
    pub fn recycle(&mut self, block: Block) {
        self.spare = Some(block);
    }

    fn empty_block(&mut self, pc: u64) -> Block {
        let mut block = self.spare.take().unwrap_or_else(|| Block {
            pc,
            insns: Vec::with_capacity(16),
            offsets: Vec::with_capacity(16),
            exit: Exit::Fall,
            plan: Plan {
                pc,
                bytes: 0,
                insn_offsets: Vec::with_capacity(16),
                pieces: Vec::new(),
                words: 0,
                derived: Vec::new(),
                accesses: Vec::with_capacity(16),
                exit_rsp: Lin::slot(RSP),
                looping: None,
                sides: Vec::new(),
            },
            captures: Vec::with_capacity(16),
            used: 0,
            writes_r15: false,
            starved: false,
            ways: Vec::new(),
        });
        block.pc = pc;
        block.insns.clear();
        block.offsets.clear();
        block.exit = Exit::Fall;
        block.captures.clear();
        block.used = 0;
        block.writes_r15 = false;
        block.starved = false;
        let plan = &mut block.plan;
        plan.pc = pc;
        plan.bytes = 0;
        plan.insn_offsets.clear();
        plan.pieces.clear();
        plan.words = 0;
        plan.derived.clear();
        plan.accesses.clear();
        plan.exit_rsp = Lin::slot(RSP);
        plan.looping = None;
        plan.sides.clear();
        block.ways.clear();
        block
    }

    /// As [`analyze`].
    pub fn analyze(&mut self, code: &[u8], pc: u64, opts: &Options) -> Result<Block, Error> {
        let mut decoder = Decoder::with_ip(64, code, pc, DecoderOptions::NONE);
        let mut block = self.empty_block(pc);
        let mut insn = Instruction::default();
        self.begin();
        while block.insns.len() < opts.max_block.max(1) as usize {
            decoder.decode_out(&mut insn);
            if insn.is_invalid() {
                let starved = decoder.last_error() == DecoderError::NoMoreBytes;
                if block.insns.is_empty() {
                    return Err(if starved {
                        Error::Truncated { pc }
                    } else {
                        Error::Unknown { pc }
                    });
                }
                block.starved = starved;
                break;
            }
            let effects = effects(&insn, &mut self.infos);
            if !leaves_stand_in(&block, &effects) {
                break;
            }
            self.add(&mut block, &insn, decoder.get_constant_offsets(&insn), &effects, opts);
            if self.goes_on(&mut block, &insn, opts) {
                continue;
            }
            if block.exit != Exit::Fall || ends_block(&insn) || self.words > WORDS_LIMIT {
                break;
            }
        }
        self.finish(&mut block, opts);
        Ok(block)
    }

    /// Decode and plan the path along `stretches`, whose code lies end to end in `code`. A path
    /// that would be too long ends early: [`Plan::bytes`] tells how far it goes.
    pub fn analyze_path(&mut self, code: &[u8], stretches: &[Stretch], opts: &Options) -> Result<Block, Error> {
        let pc = stretches.first().map_or(0, |s| s.pc);
        let mut block = self.empty_block(pc);
        let mut insn = Instruction::default();
        self.begin();
        let mut rest = code;
        'path: for (n, stretch) in stretches.iter().enumerate() {
            let unknown = Err(Error::Unknown { pc: stretch.pc });
            let Some((own, others)) = rest.split_at_checked(stretch.bytes as usize) else {
                return Err(Error::Truncated { pc: stretch.pc });
            };
            rest = others;
            let mut decoder = Decoder::with_ip(64, own, stretch.pc, DecoderOptions::NONE);
            while decoder.can_decode() {
                decoder.decode_out(&mut insn);
                if insn.is_invalid() {
                    return unknown;
                }
                let effects = effects(&insn, &mut self.infos);
                let long = block.insns.len() == LONGEST_PATH || block.plan.sides.len() == MOST_SIDES_OF_PATH;
                if long || self.words > PATH_WORDS_LIMIT || !leaves_stand_in(&block, &effects) {
                    break 'path;
                }
                if !block.insns.is_empty() && !self.turns(&mut block, insn.ip()) {
                    return unknown;
                }
                self.add(&mut block, &insn, decoder.get_constant_offsets(&insn), &effects, opts);
                let last = n + 1 == stretches.len() && !decoder.can_decode();
                if ends_block(&insn) && !last {
                    return unknown;
                }
            }
        }
        if block.insns.is_empty() {
            return Err(Error::Truncated { pc });
        }
        self.finish(&mut block, opts);
        Ok(block)
    }

    fn begin(&mut self) {
        self.machine.reset();
        self.words = 1;
    }

    /// Adds an instruction to the block.
    fn add(
        &mut self,
        block: &mut Block,
        insn: &Instruction,
        offsets: ConstantOffsets,
        effects: &Effects,
        opts: &Options,
    ) {
        let i = block.insns.len();
        let atoms = self.machine.atoms.len();
        if opts.probes == Probes::Naive && touches_memory(insn) {
            self.machine.forget(i);
        }
        let mut accesses = Accesses {
            machine: &mut self.machine,
            list: core::mem::take(&mut block.plan.accesses),
        };
        accesses.of(insn, effects, i);
        block.plan.accesses = accesses.list;
        self.machine.step(insn, effects, i);
        self.words += new_words(&self.machine.atoms[atoms..]);
        block.used |= effects.used;
        block.writes_r15 |= effects.written & (1 << R15) != 0;
        block.offsets.push(offsets);
        block.plan.insn_offsets.push(block.plan.bytes as u16);
        block.insns.push(*insn);
        block.plan.bytes += insn.len() as u32;
        block.exit = exit_of(insn);
    }

    fn finish(&mut self, block: &mut Block, opts: &Options) {
        // A branch that nothing follows is the block's exit after all.
        if block
            .plan
            .sides
            .last()
            .is_some_and(|s| s.insn as usize + 1 == block.insns.len())
        {
            block.plan.sides.pop();
            block.ways.pop();
            block.exit = block.insns.last().map_or(Exit::Fall, exit_of);
        }
        if opts.probes != Probes::None {
            self.lay_out(block, opts);
        } else {
            // Nothing is captured, so nothing may be said in terms of captured values.
            block.plan.accesses.clear();
            for side in &mut block.plan.sides {
                side.rsp = Lin::slot(RSP);
            }
        }
    }
}

/// Whether a register is left that can stand in for r15 if the block gets an instruction with these
/// effects, too.
fn leaves_stand_in(block: &Block, effects: &Effects) -> bool {
    let all = block.used | effects.used;
    block.insns.is_empty() || all & (1 << R15) == 0 || all & STAND_INS != STAND_INS
}

/// An upper bound of the record words that new atoms can need.
fn new_words(atoms: &[Atom]) -> usize {
    atoms
        .iter()
        .map(|a| match a {
            Atom::Vector { words, .. } => *words as usize,
            Atom::Carried | Atom::Derived(_) => 0,
            _ => 1,
        })
        .sum()
}

fn touches_memory(insn: &Instruction) -> bool {
    insn.is_stack_instruction()
        || insn.is_string_instruction()
        || matches!(
            insn.mnemonic(),
            Mnemonic::Leave | Mnemonic::Enter | Mnemonic::Clzero | Mnemonic::Xlatb
        )
        || (0..insn.op_count()).any(|op| {
            !matches!(
                insn.op_kind(op),
                OpKind::Register
                    | OpKind::NearBranch64
                    | OpKind::Immediate8
                    | OpKind::Immediate16
                    | OpKind::Immediate32
                    | OpKind::Immediate64
                    | OpKind::Immediate8to32
                    | OpKind::Immediate8to64
                    | OpKind::Immediate32to64
            )
        })
}

fn exit_of(insn: &Instruction) -> Exit {
    match insn.flow_control() {
        FlowControl::UnconditionalBranch => match insn.op0_kind() {
            OpKind::NearBranch64 => Exit::Jump {
                target: insn.near_branch64(),
            },
            _ => Exit::Emulate,
        },
        FlowControl::ConditionalBranch => Exit::Branch {
            target: insn.near_branch64(),
        },
        FlowControl::Call => match insn.code() {
            Code::Syscall => Exit::Syscall,
            Code::Call_rel32_64 => Exit::Call {
                target: insn.near_branch64(),
            },
            Code::Call_rel16 => Exit::Emulate,
            _ => Exit::Fall,
        },
        FlowControl::IndirectBranch => match insn.code() {
            Code::Jmp_rm64 => Exit::JumpIndirect,
            _ => Exit::Emulate,
        },
        FlowControl::IndirectCall => match insn.code() {
            Code::Call_rm64 => Exit::CallIndirect,
            _ => Exit::Emulate,
        },
        FlowControl::Return => match insn.code() {
            Code::Retnq | Code::Retnq_imm16 => Exit::Return,
            _ => Exit::Emulate,
        },
        FlowControl::XbeginXabortXend if insn.mnemonic() == Mnemonic::Xbegin => Exit::Abort {
            target: insn.near_branch64(),
        },
        _ => match insn.mnemonic() {
            Mnemonic::Nop => Marker::of(insn).map_or(Exit::Fall, Exit::Marker),
            // Each lane's address is cut to 32 bits before our own gs base is replaced: no
            // rewriting can do that.
            _ if insn.is_vsib() && insn.memory_segment() == Register::GS && insn.memory_base().is_gpr32() => {
                Exit::Emulate
            }
            // An address that the instruction only implies cannot be given another base.
            _ if insn.memory_segment() == Register::GS && implied_address(insn) => Exit::Emulate,
            Mnemonic::Rdgsbase | Mnemonic::Wrgsbase | Mnemonic::Wrfsbase | Mnemonic::Lgs | Mnemonic::Lfs => {
                Exit::Emulate
            }
            Mnemonic::Mov | Mnemonic::Pop
                if insn.op0_kind() == OpKind::Register
                    && matches!(insn.op0_register(), Register::GS | Register::FS) =>
            {
                Exit::Emulate
            }
            _ => Exit::Fall,
        },
    }
}

/// xlat, string instructions and maskmov: their address registers are not theirs to choose.
fn implied_address(insn: &Instruction) -> bool {
    insn.mnemonic() == Mnemonic::Xlatb
        || (0..insn.op_count()).any(|op| {
            matches!(
                insn.op_kind(op),
                OpKind::MemorySegSI
                    | OpKind::MemorySegESI
                    | OpKind::MemorySegRSI
                    | OpKind::MemorySegDI
                    | OpKind::MemorySegEDI
                    | OpKind::MemorySegRDI
            )
        })
}

/// Instructions after which decoding on makes no sense.
fn ends_block(insn: &Instruction) -> bool {
    matches!(insn.flow_control(), FlowControl::Exception | FlowControl::Interrupt)
}

impl Scratch {
    /// Go on past a forward branch, taking it for not taken: compilers put the likely way straight
    /// ahead.
    fn goes_on(&self, block: &mut Block, insn: &Instruction, opts: &Options) -> bool {
        let Exit::Branch { target } = block.exit else {
            return false;
        };
        let plain = opts.probes != Probes::Naive;
        if !plain || target <= insn.ip() || !insn.is_jcc_short_or_near() || block.plan.sides.len() == MOST_SIDES {
            return false;
        }
        self.side(block, Way::Taken { target });
        true
    }

    /// The last instruction is a way out; the block goes on behind it.
    fn side(&self, block: &mut Block, way: Way) {
        block.plan.sides.push(Side {
            insn: block.insns.len() as u16 - 1,
            rsp: self.machine.regs[RSP_REG],
            moved: 0,
            words: 0,
        });
        block.ways.push(way);
        block.exit = Exit::Fall;
    }

    /// A path goes on at `pc` after its last instruction. Returns whether it can.
    fn turns(&self, block: &mut Block, pc: u64) -> bool {
        let end = block.end();
        let via = match block.exit {
            Exit::Fall if pc == end => return true,
            Exit::Branch { target } if block.insns.last().is_some_and(|i| i.is_jcc_short_or_near()) => {
                if pc == end {
                    self.side(block, Way::Taken { target });
                    return true;
                }
                if pc != target {
                    return false;
                }
                self.side(block, Way::NotTaken { next: end });
                Via::Jump
            }
            Exit::Jump { target } if pc == target => Via::Jump,
            // One to the next instruction only asks where it is.
            Exit::Call { target } if pc == target && pc == end => Via::Jump,
            Exit::Call { target } if pc == target => Via::Call,
            Exit::Return if block.insns.last().is_some_and(|i| i.op_count() == 0) => {
                self.side(block, Way::NotTo { expected: pc });
                Via::Return
            }
            Exit::JumpIndirect => {
                self.side(block, Way::NotTo { expected: pc });
                Via::Jump
            }
            Exit::CallIndirect => {
                self.side(block, Way::NotTo { expected: pc });
                if pc == end {
                    Via::Jump
                } else {
                    Via::Call
                }
            }
            _ => return false,
        };
        block.exit = Exit::Fall;
        block.plan.pieces.push(Piece {
            insn: block.insns.len() as u16,
            pc,
            via,
        });
        true
    }

    /// Turn atoms into slots and settle the plan.
    fn lay_out(&mut self, block: &mut Block, opts: &Options) {
        let machine = &mut self.machine;
        self.needed.clear();
        self.needed.resize(machine.atoms.len(), false);
        let mut needed = Needed {
            flags: &mut self.needed,
        };
        for a in &mut block.plan.accesses {
            a.shape.each_slot(&mut |s| needed.mark(machine, *s));
        }
        let exit = machine.regs[RSP_REG];
        needed.mark_lin(machine, &exit);
        for side in &block.plan.sides {
            needed.mark_lin(machine, &side.rsp);
        }
        let shape = if opts.probes == Probes::Loop && block.plan.pieces.is_empty() {
            loop_shape(block, machine, &mut needed)
        } else {
            None
        };

        // Captured atoms by position, then derived ones in order of creation (operands come first).
        self.order.clear();
        for (a, atom) in machine.atoms.iter().enumerate().skip(FIRST as usize) {
            if self.needed[a] && !matches!(atom, Atom::Derived(_)) {
                self.order.push(a as u16);
            }
        }
        self.order.sort_by_key(|&a| position(&machine.atoms[a as usize]));
        self.slot_of.clear();
        self.slot_of.resize(machine.atoms.len(), 0);
        let slot_of = &mut self.slot_of;
        for (i, s) in slot_of.iter_mut().take(FIRST as usize).enumerate() {
            *s = i as Slot;
        }
        let mut next = FIRST;
        for &a in &self.order {
            slot_of[a as usize] = next;
            let atom = machine.atoms[a as usize];
            block.captures.push(Capture {
                pos: position(&atom),
                atom,
                slot: next,
            });
            next += block.captures.last().map_or(0, Capture::words);
        }
        let mut words = 1 + next - FIRST;
        if matches!(shape, Some(LoopShape::Affine { .. })) {
            words += 1;
            next += 1;
        }
        for a in FIRST as usize..machine.atoms.len() {
            if let (true, Atom::Derived(d)) = (self.needed[a], machine.atoms[a]) {
                slot_of[a] = next;
                next += 1;
                let d = machine.derived[d as usize];
                block.plan.derived.push(Derived {
                    narrow: d.narrow,
                    of: map_lin(&d.of, slot_of),
                });
            }
        }
        block.plan.words = words;
        block.plan.exit_rsp = map_lin(&machine.regs[RSP_REG], slot_of);
        for a in &mut block.plan.accesses {
            a.shape.each_slot(&mut |s| *s = slot_of[*s as usize]);
        }
        for side in &mut block.plan.sides {
            side.rsp = map_lin(&side.rsp, slot_of);
            let captured = block.captures.iter().take_while(|c| c.pos <= side.insn);
            side.words = match (&shape, captured.last()) {
                (Some(_), _) => words,
                (None, Some(last)) => last.slot - FIRST + 1 + last.words(),
                (None, None) => 1,
            };
        }
        block.plan.looping = shape.map(|shape| shape.settle(slot_of, &block.captures));
        if let Some((reg, _)) = block.counter() {
            for i in 0..block.plan.sides.len() {
                block.plan.sides[i].moved = block.moved_before(reg, block.plan.sides[i].insn as usize + 1);
            }
        }
    }
}

fn position(atom: &Atom) -> u16 {
    match atom {
        Atom::Gpr { pos, .. } | Atom::Vector { pos, .. } | Atom::Opmask { pos, .. } | Atom::XcompBv { pos } => *pos,
        Atom::Carried | Atom::Derived(_) => 0,
    }
}

pub(crate) struct Needed<'a> {
    pub(crate) flags: &'a mut [bool],
}

impl Needed<'_> {
    fn mark(&mut self, machine: &Machine, s: Slot) {
        let s = s as usize;
        if s < FIRST as usize || self.flags[s] {
            return;
        }
        self.flags[s] = true;
        if let Atom::Derived(d) = machine.atoms[s] {
            self.mark_lin(machine, &machine.derived[d as usize].of);
        }
    }
    fn mark_lin(&mut self, machine: &Machine, lin: &Lin) {
        for &(s, _) in lin.terms() {
            self.mark(machine, s);
        }
    }
}

/// A linear form over atoms, over slots instead.
fn map_lin(lin: &Lin, slot_of: &[Slot]) -> Lin {
    let mut lin = *lin;
    lin.each_slot(&mut |s| *s = slot_of[*s as usize]);
    lin
}
