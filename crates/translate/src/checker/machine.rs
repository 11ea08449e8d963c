//! A small x86-64 interpreter: the instructions that the generator and the emitter use.
//!
//! It shares no code with the emitter. Undefined flags are left as they are: the original program
//! and the emitted code run on the same interpreter.
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use memtrail_model::Kind;
use std::collections::BTreeMap;
use std::vec::Vec;

pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RSP: usize = 4;
pub const RSI: usize = 6;
pub const RDI: usize = 7;
pub const R15: usize = 15;

const CF: u64 = 1;
const PF: u64 = 4;
const ZF: u64 = 0x40;
const SF: u64 = 0x80;
const OF: u64 = 0x800;
pub const DF: u64 = 0x400;

/// Mixes the bits of `v`.
pub fn hash(v: u64) -> u64 {
    let v = (v ^ v >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let v = (v ^ v >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    v ^ v >> 31
}

/// Memory that is mapped everywhere: words that nobody wrote have values of their own.
#[derive(Clone)]
pub struct Memory {
    written: BTreeMap<u64, u64>,
    seed: u64,
    /// All but one in 32 words that nobody wrote are one of these.
    likely: Vec<u64>,
}

impl Memory {
    pub fn new(seed: u64, likely: Vec<u64>) -> Memory {
        let written = BTreeMap::new();
        Memory { written, seed, likely }
    }
    /// All words that were written.
    pub fn written(&self) -> &BTreeMap<u64, u64> {
        &self.written
    }
    fn word(&self, at: u64) -> u64 {
        self.written.get(&at).copied().unwrap_or_else(|| {
            let v = hash(at ^ self.seed);
            match self.likely.len() {
                n if n > 0 && v % 32 != 0 => self.likely[(v >> 8) as usize % n],
                _ => hash(v),
            }
        })
    }
    pub fn load(&self, addr: u64, size: usize) -> u64 {
        let byte = |i: u64| {
            let at = addr.wrapping_add(i);
            self.word(at & !7) >> (at % 8 * 8) & 0xff
        };
        (0..size as u64).fold(0, |v, i| v | byte(i) << (i * 8))
    }
    pub fn store(&mut self, addr: u64, size: usize, value: u64) {
        for i in 0..size as u64 {
            let at = addr.wrapping_add(i);
            let shift = at % 8 * 8;
            let word = self.word(at & !7) & !(0xff << shift) | (value >> (i * 8) & 0xff) << shift;
            self.written.insert(at & !7, word);
        }
    }
}

/// Where an interpreter's loads, stores and instructions come from.
pub trait Bus {
    fn load(&mut self, addr: u64, size: usize) -> u64;
    fn store(&mut self, addr: u64, size: usize, value: u64);
    /// The code from `pc` on; empty if there is none.
    fn fetch(&self, pc: u64) -> &[u8];
}

/// An access of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub pc: u64,
    pub kind: Kind,
    pub addr: u64,
    pub size: u32,
}

/// What is visible of a processor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub pc: u64,
    pub regs: [u64; 16],
    pub flags: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pc {:x} flags {:x}", self.pc, self.flags)?;
        self.regs
            .iter()
            .enumerate()
            .try_for_each(|(i, r)| write!(f, " {i}:{r:x}"))
    }
}

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// An instruction is complete.
    Done,
    /// A repeated string instruction has done an element, and goes on.
    Element,
    /// There is no code.
    Nowhere,
}

#[derive(Clone)]
pub struct Machine<B> {
    pub state: State,
    pub fs: u64,
    pub gs: u64,
    pub bus: B,
    pub accesses: Vec<Access>,
    /// The last instruction that was completed.
    pub last: Option<Instruction>,
}

fn mask(size: usize) -> u64 {
    u64::MAX >> (64 - 8 * size)
}

fn sign(size: usize) -> u64 {
    1 << (8 * size - 1)
}

impl<B: Bus> Machine<B> {
    pub fn new(state: State, fs: u64, gs: u64, bus: B) -> Machine<B> {
        Machine {
            state,
            fs,
            gs,
            bus,
            accesses: Vec::new(),
            last: None,
        }
    }

    /// The instruction that comes next.
    pub fn next(&self) -> Option<Instruction> {
        let code = self.bus.fetch(self.state.pc);
        let insn = Decoder::with_ip(64, code, self.state.pc, DecoderOptions::NONE).decode();
        (!insn.is_invalid()).then_some(insn)
    }

    pub fn step(&mut self) -> Step {
        let Some(insn) = self.next() else { return Step::Nowhere };
        if insn.is_string_instruction() && !self.string(&insn) {
            return Step::Element;
        }
        if !insn.is_string_instruction() {
            let next = insn.next_ip();
            let at = self.state.pc;
            self.state.pc = next;
            self.execute(&insn, at);
        }
        self.last = Some(insn);
        Step::Done
    }

    fn load(&mut self, pc: u64, addr: u64, size: usize) -> u64 {
        let (kind, size32) = (Kind::Read, size as u32);
        self.accesses.push(Access {
            pc,
            kind,
            addr,
            size: size32,
        });
        self.bus.load(addr, size)
    }

    fn store(&mut self, pc: u64, addr: u64, size: usize, value: u64) {
        let (kind, size32) = (Kind::Write, size as u32);
        self.accesses.push(Access {
            pc,
            kind,
            addr,
            size: size32,
        });
        self.bus.store(addr, size, value);
    }

    fn register(&self, r: Register) -> u64 {
        let v = self.state.regs[r.full_register().number()];
        if matches!(r, Register::AH | Register::CH | Register::DH | Register::BH) {
            return v >> 8 & 0xff;
        }
        v & mask(r.size())
    }

    fn set_register(&mut self, r: Register, value: u64) {
        let cell = &mut self.state.regs[r.full_register().number()];
        *cell = match (r, r.size()) {
            (Register::AH | Register::CH | Register::DH | Register::BH, _) => *cell & !0xff00 | (value & 0xff) << 8,
            (_, 4) => value & mask(4),
            (_, size) => *cell & !mask(size) | value & mask(size),
        };
    }

    fn address(&self, insn: &Instruction, op: u32) -> u64 {
        let value = |r: Register, _: usize, _: usize| {
            Some(match r {
                Register::FS => self.fs,
                Register::GS => self.gs,
                r if r.is_segment_register() => 0,
                r => self.register(r),
            })
        };
        insn.virtual_address(op, 0, value).unwrap()
    }

    fn size(insn: &Instruction, op: u32) -> usize {
        match insn.op_kind(op) {
            OpKind::Register => insn.op_register(op).size(),
            OpKind::Memory => insn.memory_size().size(),
            _ => 8,
        }
    }

    fn read(&mut self, insn: &Instruction, op: u32) -> u64 {
        match insn.op_kind(op) {
            OpKind::Register => self.register(insn.op_register(op)),
            OpKind::Memory => {
                let addr = self.address(insn, op);
                self.load(insn.ip(), addr, insn.memory_size().size())
            }
            OpKind::NearBranch64 => insn.near_branch64(),
            _ => insn.immediate(op),
        }
    }

    fn write(&mut self, insn: &Instruction, op: u32, value: u64) {
        match insn.op_kind(op) {
            OpKind::Register => self.set_register(insn.op_register(op), value),
            _ => {
                let addr = self.address(insn, op);
                self.store(insn.ip(), addr, insn.memory_size().size(), value);
            }
        }
    }

    fn push(&mut self, pc: u64, value: u64) {
        let at = self.state.regs[RSP].wrapping_sub(8);
        self.store(pc, at, 8, value);
        self.state.regs[RSP] = at;
    }

    fn pop(&mut self, pc: u64) -> u64 {
        let at = self.state.regs[RSP];
        let value = self.load(pc, at, 8);
        self.state.regs[RSP] = at.wrapping_add(8);
        value
    }

    fn flag(&mut self, flag: u64, on: bool) {
        self.state.flags = self.state.flags & !flag | if on { flag } else { 0 };
    }

    fn result_flags(&mut self, v: u64, size: usize) {
        let v = v & mask(size);
        self.flag(ZF, v == 0);
        self.flag(SF, v & sign(size) != 0);
        self.flag(PF, (v as u8).count_ones() % 2 == 0);
    }

    fn add(&mut self, a: u64, b: u64, size: usize) -> u64 {
        let (a, b) = (a & mask(size), b & mask(size));
        let v = a.wrapping_add(b) & mask(size);
        self.flag(CF, v < a);
        self.flag(OF, (a ^ v) & (b ^ v) & sign(size) != 0);
        self.result_flags(v, size);
        v
    }

    fn subtract(&mut self, a: u64, b: u64, size: usize) -> u64 {
        let (a, b) = (a & mask(size), b & mask(size));
        let v = a.wrapping_sub(b) & mask(size);
        self.flag(CF, a < b);
        self.flag(OF, (a ^ b) & (a ^ v) & sign(size) != 0);
        self.result_flags(v, size);
        v
    }

    fn logic(&mut self, v: u64, size: usize) -> u64 {
        self.flag(CF, false);
        self.flag(OF, false);
        self.result_flags(v, size);
        v
    }

    fn condition(&self, insn: &Instruction) -> bool {
        use iced_x86::ConditionCode as On;
        let flag = |f| self.state.flags & f != 0;
        let less = flag(SF) != flag(OF);
        match insn.condition_code() {
            On::o => flag(OF),
            On::no => !flag(OF),
            On::b => flag(CF),
            On::ae => !flag(CF),
            On::e => flag(ZF),
            On::ne => !flag(ZF),
            On::be => flag(CF) || flag(ZF),
            On::a => !flag(CF) && !flag(ZF),
            On::s => flag(SF),
            On::ns => !flag(SF),
            On::p => flag(PF),
            On::np => !flag(PF),
            On::l => less,
            On::ge => !less,
            On::le => flag(ZF) || less,
            On::g => !flag(ZF) && !less,
            On::None => panic!("{insn:?} has no condition"),
        }
    }

    fn execute(&mut self, insn: &Instruction, pc: u64) {
        use Mnemonic::*;
        let size = Self::size(insn, 0);
        match insn.mnemonic() {
            Mov | Movzx => {
                let v = self.read(insn, 1);
                self.write(insn, 0, v);
            }
            Movsx | Movsxd => {
                let v = self.read(insn, 1);
                let shift = 64 - 8 * Self::size(insn, 1);
                self.write(insn, 0, ((v << shift) as i64 >> shift) as u64);
            }
            Lea => {
                let mut plain = *insn;
                plain.set_segment_prefix(Register::None);
                let v = self.address(&plain, 1);
                self.write(insn, 0, v);
            }
            Add | Sub | And | Or | Xor => {
                let (a, b) = (self.read(insn, 0), self.read(insn, 1));
                let v = match insn.mnemonic() {
                    Add => self.add(a, b, size),
                    Sub => self.subtract(a, b, size),
                    And => self.logic(a & b, size),
                    Or => self.logic(a | b, size),
                    _ => self.logic(a ^ b, size),
                };
                self.write(insn, 0, v);
            }
            Cmp | Test => {
                let (a, b) = (self.read(insn, 0), self.read(insn, 1));
                match insn.mnemonic() {
                    Cmp => self.subtract(a, b, size),
                    _ => self.logic(a & b, size),
                };
            }
            Inc | Dec => {
                let carry = self.state.flags & CF;
                let a = self.read(insn, 0);
                let v = match insn.mnemonic() {
                    Inc => self.add(a, 1, size),
                    _ => self.subtract(a, 1, size),
                };
                self.flag(CF, carry != 0);
                self.write(insn, 0, v);
            }
            Not => {
                let v = self.read(insn, 0);
                self.write(insn, 0, !v);
            }
            Xchg => {
                let (a, b) = (self.read(insn, 0), self.read(insn, 1));
                self.write(insn, 0, b);
                self.write(insn, 1, a);
            }
            Push => {
                let v = self.read(insn, 0);
                self.push(pc, v);
            }
            Pop => {
                let v = self.pop(pc);
                self.write(insn, 0, v);
            }
            Std => self.flag(DF, true),
            Cld => self.flag(DF, false),
            Nop => {}
            _ => self.transfer(insn, pc),
        }
    }

    fn transfer(&mut self, insn: &Instruction, pc: u64) {
        use Mnemonic::*;
        match insn.mnemonic() {
            Jmp => self.state.pc = self.read(insn, 0),
            Call => {
                let target = self.read(insn, 0);
                self.push(pc, insn.next_ip());
                self.state.pc = target;
            }
            Ret => {
                self.state.pc = self.pop(pc);
                if insn.op_count() == 1 {
                    let more = insn.immediate16().into();
                    self.state.regs[RSP] = self.state.regs[RSP].wrapping_add(more);
                }
            }
            Loop | Loope | Loopne => {
                self.state.regs[RCX] = self.state.regs[RCX].wrapping_sub(1);
                let zero = self.state.flags & ZF != 0;
                let on = match insn.mnemonic() {
                    Loop => true,
                    Loope => zero,
                    _ => !zero,
                };
                if on && self.state.regs[RCX] != 0 {
                    self.state.pc = insn.near_branch64();
                }
            }
            Jrcxz => {
                if self.state.regs[RCX] == 0 {
                    self.state.pc = insn.near_branch64();
                }
            }
            // The kernel answers something.
            Syscall => {
                let regs = &mut self.state.regs;
                regs[RAX] = hash(regs[RAX] ^ regs[RDI]);
                regs[RCX] = insn.next_ip();
                regs[11] = self.state.flags;
            }
            // A transaction that is never begun.
            Xbegin => {
                self.state.regs[RAX] = 0;
                self.state.pc = insn.near_branch64();
            }
            // Only what the emitter does in advance to know its layout is of interest here.
            Xrstor => {}
            _ if insn.is_jcc_short_or_near() => {
                if self.condition(insn) {
                    self.state.pc = insn.near_branch64();
                }
            }
            _ => panic!("the interpreter does not know {insn:?}"),
        }
    }

    /// One element of a string instruction. Returns whether that was the last.
    fn string(&mut self, insn: &Instruction) -> bool {
        use Mnemonic::*;
        let repeats = insn.has_rep_prefix() || insn.has_repne_prefix();
        if repeats && self.state.regs[RCX] == 0 {
            self.state.pc = insn.next_ip();
            return true;
        }
        let (pc, size) = (insn.ip(), insn.memory_size().size());
        let (rsi, rdi) = (self.state.regs[RSI], self.state.regs[RDI]);
        let by = if self.state.flags & DF != 0 {
            -(size as i64)
        } else {
            size as i64
        } as u64;
        let (mut source, mut dest) = (false, false);
        let mut compares = false;
        match insn.mnemonic() {
            Movsb | Movsw | Movsd | Movsq => {
                let v = self.load(pc, rsi, size);
                self.store(pc, rdi, size, v);
                (source, dest) = (true, true);
            }
            Stosb | Stosw | Stosd | Stosq => {
                self.store(pc, rdi, size, self.state.regs[RAX]);
                dest = true;
            }
            Lodsb | Lodsw | Lodsd | Lodsq => {
                let v = self.load(pc, rsi, size);
                self.set_register(insn.op0_register(), v);
                source = true;
            }
            Scasb | Scasw | Scasd | Scasq => {
                let v = self.load(pc, rdi, size);
                self.subtract(self.state.regs[RAX], v, size);
                (dest, compares) = (true, true);
            }
            Cmpsb | Cmpsw | Cmpsd | Cmpsq => {
                let a = self.load(pc, rsi, size);
                let b = self.load(pc, rdi, size);
                self.subtract(a, b, size);
                (source, dest, compares) = (true, true, true);
            }
            _ => panic!("the interpreter does not know {insn:?}"),
        }
        if source {
            self.state.regs[RSI] = rsi.wrapping_add(by);
        }
        if dest {
            self.state.regs[RDI] = rdi.wrapping_add(by);
        }
        if repeats {
            self.state.regs[RCX] = self.state.regs[RCX].wrapping_sub(1);
            let equal = self.state.flags & ZF != 0;
            let on = !compares || equal == insn.has_repe_prefix();
            if on && self.state.regs[RCX] != 0 {
                return false;
            }
        }
        self.state.pc = insn.next_ip();
        true
    }
}
