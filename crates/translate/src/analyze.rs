//! Code bytes to a block: its instructions, how it ends, and its probe plan.
//!
//! A block runs from an address to the first control transfer, or to a limit. The limit is a pure
//! function of the code and the options, so the collector, given just the bytes of the block, derives the same
//! plan as the runtime did.
use crate::accesses::Accesses;
use crate::plan::{Addr, Derived, Layout, Lin, LoopPlan, Mask, Plan, Shape, Side, Slot, Step, FIRST, RSP};
use crate::symbolic::{entry_atom, gpr, Atom, Machine, R15, RSP_REG};
use alloc::vec::Vec;
use iced_x86::{
    Code, ConstantOffsets, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpKind, Register,
};
use memtrail_ring::Probes;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub probes: Probes,
    /// Most instructions in a block.
    pub max_block: u32,
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
    /// xbegin: taken as an abort at once.
    Abort {
        target: u64,
    },
}

/// A value to store into the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capture {
    /// Just before this instruction.
    pub pos: u16,
    pub atom: Atom,
    pub slot: Slot,
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
    pub side_targets: Vec<u64>,
}

impl Block {
    pub fn end(&self) -> u64 {
        self.pc + self.plan.bytes as u64
    }
    /// Words of the record that later iterations of a partly affine loop write.
    pub fn steady_words(&self) -> usize {
        match &self.plan.looping {
            Some(LoopPlan::Partly { free, .. }) => 1 + free.len(),
            _ => self.plan.words as usize,
        }
    }
    /// How far instructions before number `done` have moved the loop counter `reg` in this iteration.
    pub fn moved_before(&self, reg: usize, done: usize) -> u64 {
        let mut machine = Machine::new();
        let entry = machine.regs[reg].terms[0].0;
        let mut infos = InstructionInfoFactory::new();
        for (i, insn) in self.insns.iter().take(done).enumerate() {
            machine.step(insn, infos.info(insn), i);
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

/// All general registers but rsp and r15: a block that touches r15 must leave one of them alone,
/// to stand in for r15 while that holds the buffer pointer. rcx and rdx are taken by indirect branches.
pub const STAND_INS: u16 = !(1 << RSP_REG | 1 << R15 | 1 << 1 | 1 << 2);

/// Most ways out of a block before its end.
pub const MOST_SIDES: usize = 3;

/// Words a record may have before the block is cut.
const WORDS_LIMIT: usize = memtrail_ring::MAX_RECORD_WORDS - 64;

/// Working memory, kept from block to block so that translating allocates next to nothing.
pub struct Scratch {
    infos: InstructionInfoFactory,
    machine: Machine,
    needed: Vec<bool>,
    slot_of: Vec<Slot>,
    order: Vec<u16>,
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
            spare: None,
        }
    }
}

/// Decode and plan the block at `pc`, whose code begins `code`.
pub fn analyze(code: &[u8], pc: u64, opts: &Options) -> Result<Block, Error> {
    Scratch::default().analyze(code, pc, opts)
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
            side_targets: Vec::new(),
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
        plan.words = 0;
        plan.derived.clear();
        plan.accesses.clear();
        plan.exit_rsp = Lin::slot(RSP);
        plan.looping = None;
        plan.sides.clear();
        block.side_targets.clear();
        block
    }

    /// As [`analyze`].
    pub fn analyze(&mut self, code: &[u8], pc: u64, opts: &Options) -> Result<Block, Error> {
        let mut decoder = Decoder::with_ip(64, code, pc, DecoderOptions::NONE);
        let mut block = self.empty_block(pc);
        self.machine.reset();
        let mut list = core::mem::take(&mut block.plan.accesses);
        let mut insn = Instruction::default();
        let mut words = 1;
        while block.insns.len() < opts.max_block.max(1) as usize {
            decoder.decode_out(&mut insn);
            if insn.is_invalid() {
                let starved = decoder.last_error() == DecoderError::NoMoreBytes;
                if block.insns.is_empty() {
                    return Err(if starved { Error::Truncated { pc } } else { Error::Unknown { pc } });
                }
                block.starved = starved;
                break;
            }
            let i = block.insns.len();
            let info = self.infos.info(&insn);
            let (used, writes_r15) = registers(info);
            let all = block.used | used;
            if i > 0 && all & (1 << R15) != 0 && all & STAND_INS == STAND_INS {
                break;
            }
            let atoms = self.machine.atoms.len();
            if opts.probes == Probes::Naive && touches_memory(&insn) {
                self.machine.forget(i);
            }
            let mut accesses = Accesses { machine: &mut self.machine, list };
            accesses.of(&insn, info, i);
            list = accesses.list;
            self.machine.step(&insn, info, i);
            words += new_words(&self.machine.atoms[atoms..]);
            block.used = all;
            block.writes_r15 |= writes_r15;
            block.offsets.push(decoder.get_constant_offsets(&insn));
            block.plan.insn_offsets.push((insn.ip() - pc) as u16);
            block.insns.push(insn);
            block.plan.bytes = (insn.next_ip() - pc) as u32;
            block.exit = exit_of(&insn);
            if self.goes_on(&mut block, &insn, opts) {
                continue;
            }
            if block.exit != Exit::Fall || ends_block(&insn) || words > WORDS_LIMIT {
                break;
            }
        }
        block.plan.accesses = list;
        // A branch that nothing follows is the block's exit after all.
        if block.plan.sides.last().is_some_and(|s| s.insn as usize + 1 == block.insns.len()) {
            block.plan.sides.pop();
            if let Some(target) = block.side_targets.pop() {
                block.exit = Exit::Branch { target };
            }
        }
        if opts.probes != Probes::None {
            self.lay_out(&mut block, opts);
        }
        Ok(block)
    }
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
        || matches!(insn.mnemonic(), Mnemonic::Leave | Mnemonic::Enter | Mnemonic::Clzero | Mnemonic::Xlatb)
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

/// The registers an instruction touches, and whether it writes r15.
fn registers(info: &iced_x86::InstructionInfo) -> (u16, bool) {
    use iced_x86::OpAccess::*;
    let (mut used, mut writes_r15) = (0u16, false);
    for u in info.used_registers() {
        if let Some(r) = gpr(u.register()) {
            used |= 1 << r;
            writes_r15 |= r == R15 && matches!(u.access(), Write | CondWrite | ReadWrite | ReadCondWrite);
        }
    }
    (used, writes_r15)
}

fn exit_of(insn: &Instruction) -> Exit {
    match insn.flow_control() {
        FlowControl::UnconditionalBranch => match insn.op0_kind() {
            OpKind::NearBranch64 => Exit::Jump { target: insn.near_branch64() },
            _ => Exit::Emulate,
        },
        FlowControl::ConditionalBranch => Exit::Branch { target: insn.near_branch64() },
        FlowControl::Call => match insn.code() {
            Code::Syscall => Exit::Syscall,
            Code::Call_rel32_64 => Exit::Call { target: insn.near_branch64() },
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
        FlowControl::XbeginXabortXend if insn.mnemonic() == Mnemonic::Xbegin => {
            Exit::Abort { target: insn.near_branch64() }
        }
        _ => match insn.mnemonic() {
            // Each lane's address is cut to 32 bits before our own gs base is replaced: no rewriting can do that.
            _ if insn.is_vsib() && insn.memory_segment() == Register::GS && insn.memory_base().is_gpr32() => Exit::Emulate,
            // An address that the instruction only implies cannot be given another base.
            _ if insn.memory_segment() == Register::GS && implied_address(insn) => Exit::Emulate,
            Mnemonic::Rdgsbase | Mnemonic::Wrgsbase | Mnemonic::Wrfsbase | Mnemonic::Lgs | Mnemonic::Lfs => Exit::Emulate,
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
    /// Go on past a forward branch, taking it for not taken: compilers put the likely way straight ahead.
    fn goes_on(&self, block: &mut Block, insn: &Instruction, opts: &Options) -> bool {
        let Exit::Branch { target } = block.exit else { return false };
        let plain = opts.probes != Probes::Naive;
        if !plain || target <= insn.ip() || !insn.is_jcc_short_or_near() || block.plan.sides.len() == MOST_SIDES {
            return false;
        }
        let side = Side { insn: block.insns.len() as u16 - 1, rsp: self.machine.regs[RSP_REG], moved: 0 };
        block.plan.sides.push(side);
        block.side_targets.push(target);
        block.exit = Exit::Fall;
        true
    }

    /// Turn atoms into slots and settle the plan.
    fn lay_out(&mut self, block: &mut Block, opts: &Options) {
        let machine = &mut self.machine;
        self.needed.clear();
        self.needed.resize(machine.atoms.len(), false);
        let mut needed = Needed { flags: &mut self.needed };
        for a in &block.plan.accesses {
            each_slot(&a.shape, &mut |s| needed.mark(machine, s));
        }
        let exit = machine.regs[RSP_REG];
        needed.mark_lin(machine, &exit);
        for side in &block.plan.sides {
            needed.mark_lin(machine, &side.rsp);
        }
        let shape = if opts.probes == Probes::Loop { loop_shape(block, machine, &mut needed) } else { None };

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
            block.captures.push(Capture { pos: position(&atom), atom, slot: next });
            next += if let Atom::Vector { words, .. } = atom { words as Slot } else { 1 };
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
                block.plan.derived.push(Derived { narrow: d.narrow, of: map_lin(&d.of, slot_of) });
            }
        }
        block.plan.words = words;
        block.plan.exit_rsp = map_lin(&machine.regs[RSP_REG], slot_of);
        for a in &mut block.plan.accesses {
            map_shape(&mut a.shape, slot_of);
        }
        for side in &mut block.plan.sides {
            side.rsp = map_lin(&side.rsp, slot_of);
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

struct Needed<'a> {
    flags: &'a mut [bool],
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

/// A loop plan in terms of atoms.
enum LoopShape {
    Affine { steps: Vec<Move>, counter: Move },
    Partly { steps: Vec<Move> },
}

/// How the register behind `atom` moves from one iteration to the next.
#[derive(Clone, Copy)]
struct Move {
    atom: usize,
    by: u64,
    low32: bool,
    plus: Option<(Slot, i32)>,
}

impl LoopShape {
    fn settle(self, slot_of: &[Slot], captures: &[Capture]) -> LoopPlan {
        let step = |m: &Move| Step {
            slot: slot_of[m.atom],
            by: m.by,
            low32: m.low32,
            plus: m.plus.map(|(s, k)| (slot_of[s as usize], k)),
        };
        match self {
            LoopShape::Affine { steps, counter } => {
                LoopPlan::Affine { steps: steps.iter().map(step).collect(), counter: step(&counter) }
            }
            LoopShape::Partly { steps } => {
                let steps: Vec<Step> = steps.iter().map(step).collect();
                let mut free = Vec::new();
                for c in captures {
                    if !steps.iter().any(|s| s.slot == c.slot) {
                        let n = if let Atom::Vector { words, .. } = c.atom { words as Slot } else { 1 };
                        free.extend((0..n).map(|k| c.slot + k));
                    }
                }
                LoopPlan::Partly { steps, free }
            }
        }
    }
}

/// How a register moves over one iteration: `Some((by, low32))` if by a constant.
fn induction(machine: &Machine, reg: usize, entry: Slot) -> Option<(u64, bool)> {
    let by_constant = |lin: &Lin| (lin.n == 1 && lin.terms[0] == (entry, 1)).then_some(lin.c);
    let exit = &machine.regs[reg];
    if let Some(by) = by_constant(exit) {
        return Some((by, false));
    }
    // add eax, 1: the 32-bit result of the entry value plus a constant, possibly in several narrowings.
    let mut by = 0u64;
    let mut lin = *exit;
    let mut first = true;
    loop {
        if !first {
            if let Some(c) = by_constant(&lin) {
                return Some(((by.wrapping_add(c)) as i32 as i64 as u64, true));
            }
        }
        if lin.n != 1 || lin.terms[0].1 != 1 || (first && lin.c != 0) {
            return None;
        }
        by = by.wrapping_add(lin.c);
        match machine.atoms[lin.terms[0].0 as usize] {
            Atom::Derived(d) if machine.derived[d as usize].narrow == crate::plan::Narrow::Zero32 => {
                lin = machine.derived[d as usize].of
            }
            _ => return None,
        }
        first = false;
    }
}

/// Is this a self-loop whose records can be thinned, and how.
fn loop_shape(block: &Block, machine: &mut Machine, needed: &mut Needed) -> Option<LoopShape> {
    if (block.exit != Exit::Branch { target: block.pc }) {
        return None;
    }
    let (rsp_by, rsp32) = induction(machine, RSP_REG, RSP)?;
    if rsp32 {
        return None;
    }
    let mut steps = Vec::new();
    let mut free = false;
    let mut counter: Option<Move> = None;
    if rsp_by != 0 {
        let by_rsp = Move { atom: RSP as usize, by: rsp_by, low32: false, plus: None };
        steps.push(by_rsp);
        counter = Some(by_rsp);
    }
    for reg in (0..16).filter(|&r| r != RSP_REG) {
        let atom = entry_atom(reg) as usize;
        debug_assert_eq!(machine.atoms[atom], Atom::Gpr { pos: 0, reg: reg as u8 });
        let Some((by, low32)) = induction(machine, reg, atom as Slot) else {
            match strided(machine, reg, atom as Slot).filter(|_| needed.flags[atom]) {
                Some((by, plus)) => {
                    needed.flags[plus.0 as usize] = true;
                    steps.push(Move { atom, by, low32: false, plus: Some(plus) });
                }
                None => free |= needed.flags[atom],
            }
            continue;
        };
        let this = Move { atom, by, low32, plus: None };
        if needed.flags[atom] {
            steps.push(this);
        }
        if by != 0 {
            // Best: 64-bit and captured anyway.
            let rank = |c: &Move| (!c.low32, c.atom < FIRST as usize || needed.flags[c.atom]);
            if counter.as_ref().is_none_or(|c| rank(&this) > rank(c)) {
                counter = Some(this);
            }
        }
    }
    // Registers that became needed as strides stay as they are.
    for reg in (0..16).filter(|&r| r != RSP_REG) {
        let atom = entry_atom(reg) as usize;
        if needed.flags[atom] && !steps.iter().any(|m| m.atom == atom) && induction(machine, reg, atom as Slot).is_some() {
            steps.push(Move { atom, by: 0, low32: false, plus: None });
        }
    }
    let affine_end = FIRST as usize + 15;
    free |= (affine_end..machine.atoms.len()).any(|a| needed.flags[a] && !matches!(machine.atoms[a], Atom::Derived(_)));
    match counter {
        Some(counter) if !free => {
            if counter.atom >= FIRST as usize && !needed.flags[counter.atom] {
                needed.flags[counter.atom] = true;
                steps.push(counter);
            }
            Some(LoopShape::Affine { steps, counter })
        }
        // Nothing to thin out: an ordinary block does as well, without a second copy.
        _ if steps.iter().all(|s| s.atom < FIRST as usize) => None,
        _ => Some(LoopShape::Partly { steps }),
    }
}

/// A register that moves by a constant and a multiple of one other register, which does not move.
fn strided(machine: &Machine, reg: usize, entry: Slot) -> Option<(u64, (Slot, i32))> {
    let exit = &machine.regs[reg];
    let [a, b] = exit.terms() else { return None };
    let (own, other) = if a.0 == entry { (a, b) } else { (b, a) };
    let stays = (0..16).any(|r| entry_atom(r) == other.0 && machine.regs[r] == Lin::slot(other.0));
    (*own == (entry, 1) && stays && other.0 >= FIRST).then_some((exit.c, *other))
}

fn map_lin(lin: &Lin, slot_of: &[Slot]) -> Lin {
    let mut lin = *lin;
    let n = lin.n as usize;
    for t in &mut lin.terms[..n] {
        t.0 = slot_of[t.0 as usize];
    }
    lin
}

fn map_addr(addr: &mut Addr, slot_of: &[Slot]) {
    addr.lin = map_lin(&addr.lin, slot_of);
}

fn map_mask(mask: &mut Mask, slot_of: &[Slot]) {
    match mask {
        Mask::All => {}
        Mask::Bits(s) | Mask::SignOf { first: s, .. } => *s = slot_of[*s as usize],
    }
}

fn map_shape(shape: &mut Shape, slot_of: &[Slot]) {
    match shape {
        Shape::Plain { addr, .. } | Shape::Line { addr, .. } => map_addr(addr, slot_of),
        Shape::Repeat { source, dest, before, after, pointer, moved, .. } => {
            if let Some(a) = source {
                map_addr(a, slot_of);
            }
            if let Some((a, _)) = dest {
                map_addr(a, slot_of);
            }
            *before = map_lin(before, slot_of);
            *pointer = map_lin(pointer, slot_of);
            *after = slot_of[*after as usize];
            *moved = slot_of[*moved as usize];
        }
        Shape::Lanes { addr, index, mask, .. } => {
            map_addr(addr, slot_of);
            *index = slot_of[*index as usize];
            map_mask(mask, slot_of);
        }
        Shape::Elements { addr, mask, .. } | Shape::Broadcast { addr, mask, .. } | Shape::Packed { addr, mask, .. } => {
            map_addr(addr, slot_of);
            map_mask(mask, slot_of);
        }
        Shape::BitWord { addr, bit, .. } => {
            map_addr(addr, slot_of);
            *bit = map_lin(bit, slot_of);
        }
        Shape::Xstate { addr, low, high, layout } => {
            map_addr(addr, slot_of);
            *low = map_lin(low, slot_of);
            *high = map_lin(high, slot_of);
            if let Layout::Image(s) = layout {
                *s = slot_of[*s as usize];
            }
        }
    }
}

/// Every slot a shape refers to.
fn each_slot(shape: &Shape, f: &mut dyn FnMut(Slot)) {
    let lin = |l: &Lin, f: &mut dyn FnMut(Slot)| l.terms().iter().for_each(|t| f(t.0));
    let mask = |m: &Mask, f: &mut dyn FnMut(Slot)| match m {
        Mask::All => {}
        Mask::Bits(s) | Mask::SignOf { first: s, .. } => f(*s),
    };
    match shape {
        Shape::Plain { addr, .. } | Shape::Line { addr, .. } => lin(&addr.lin, f),
        Shape::Repeat { source, dest, before, after, pointer, moved, .. } => {
            source.iter().for_each(|a| lin(&a.lin, f));
            dest.iter().for_each(|(a, _)| lin(&a.lin, f));
            lin(before, f);
            lin(pointer, f);
            f(*after);
            f(*moved);
        }
        Shape::Lanes { addr, index, mask: m, .. } => {
            lin(&addr.lin, f);
            f(*index);
            mask(m, f);
        }
        Shape::Elements { addr, mask: m, .. } | Shape::Broadcast { addr, mask: m, .. } | Shape::Packed { addr, mask: m, .. } => {
            lin(&addr.lin, f);
            mask(m, f);
        }
        Shape::BitWord { addr, bit, .. } => {
            lin(&addr.lin, f);
            lin(bit, f);
        }
        Shape::Xstate { addr, low, high, layout } => {
            lin(&addr.lin, f);
            lin(low, f);
            lin(high, f);
            if let Layout::Image(s) = layout {
                f(*s);
            }
        }
    }
}
