//! Random programs that run: blocks that lead to each other in every way there is.
use super::machine::hash;
use crate::emit::registers::{part, GPR64};
use iced_x86::{Code, Encoder, Instruction, MemoryOperand, OpCodeOperandKind, Register};
use std::vec::Vec;

/// Random numbers.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(hash(seed ^ 0x9e37_79b9_7f4a_7c15))
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash(self.0)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }
    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A program's code, and where its blocks begin.
#[derive(Clone)]
pub struct Program {
    pub base: u64,
    pub code: Vec<u8>,
    pub labels: Vec<u64>,
}

impl Program {
    /// The code from `pc` on; empty if there is none.
    pub fn at(&self, pc: u64) -> &[u8] {
        match usize::try_from(pc.wrapping_sub(self.base)) {
            Ok(offset) if offset < self.code.len() => &self.code[offset..],
            _ => &[],
        }
    }
}

enum Item {
    Label,
    Plain(Instruction),
    /// To the beginning of a block.
    Branch(Code, usize),
    /// The address of a block, into a register.
    Address(Register, usize),
}

/// A program that is determined by `seed`.
pub fn program(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let base = rng.pick(&[0x40_1000, 0x5555_5555_4123]);
    let blocks = 2 + rng.below(7);
    let mut generator = Generator {
        registers: Vec::new(),
        blocks,
        base,
        winding: rng.once_in(2),
        rng,
        items: Vec::new(),
    };
    generator.choose_registers();
    for block in 0..blocks {
        generator.block(block);
    }
    assemble(base, &generator.items)
}

/// Two passes: lengths do not depend on where branches lead.
fn assemble(base: u64, items: &[Item]) -> Program {
    let mut labels = Vec::new();
    let mut code = Vec::new();
    let mut encoder = Encoder::new(64);
    for pass in 0..2 {
        let known = labels.clone();
        (labels, code) = (Vec::new(), Vec::new());
        for item in items {
            let here = base + code.len() as u64;
            let label = |n: usize| if pass == 0 { here } else { known[n] };
            let insn = match *item {
                Item::Label => {
                    labels.push(here);
                    continue;
                }
                Item::Plain(insn) => Ok(insn),
                Item::Branch(Code::Xbegin_rel32, n) => Instruction::with_xbegin(64, label(n)),
                Item::Branch(op, n) => {
                    // A short branch that does not reach leads to the next instruction.
                    let (short, to) = (op.op_code().op0_kind() == OpCodeOperandKind::br64_1, label(n));
                    let reaches = (here + 2 - 100..here + 2 + 100).contains(&to);
                    Instruction::with_branch(op, if short && !reaches { here + 2 } else { to })
                }
                Item::Address(r, n) => Instruction::with2(Code::Mov_r64_imm64, r, label(n)),
            };
            encoder.encode(&insn.unwrap(), here).unwrap();
            code.extend(encoder.take_buffer());
        }
    }
    Program { base, code, labels }
}

struct Generator {
    /// Those that the program uses, but for rsp. Few, so that blocks with r15 can be long.
    registers: Vec<usize>,
    blocks: usize,
    base: u64,
    /// Mostly calls, returns and indirect jumps.
    winding: bool,
    rng: Rng,
    items: Vec<Item>,
}

/// The 16-, 32- or 64-bit register or byte register number `n`.
fn sized(n: usize, size: usize) -> Register {
    let like = match size {
        1 => Register::R15L,
        2 => Register::R15W,
        4 => Register::R15D,
        _ => Register::R15,
    };
    part(n as u8, like)
}

impl Generator {
    fn choose_registers(&mut self) {
        let n = 3 + self.rng.below(5);
        while self.registers.len() < n {
            let r = self.rng.below(16);
            if r != 4 && !self.registers.contains(&r) {
                self.registers.push(r);
            }
        }
        if self.rng.once_in(2) && !self.registers.contains(&15) {
            self.registers.push(15);
        }
    }

    fn put(&mut self, insn: Result<Instruction, iced_x86::IcedError>) {
        self.items.push(Item::Plain(insn.unwrap()));
    }

    fn register(&mut self) -> usize {
        let registers = &self.registers;
        registers[self.rng.below(registers.len())]
    }

    fn r64(&mut self) -> Register {
        GPR64[self.register()]
    }

    fn label(&mut self) -> usize {
        self.rng.below(self.blocks)
    }

    fn memory(&mut self) -> MemoryOperand {
        let near = self.rng.next() as i8 as i64;
        let far = self.rng.next() as i32 as i64;
        let (base, index) = (self.r64(), self.r64());
        let scale = self.rng.pick(&[1, 2, 4, 8]);
        let none = Register::None;
        match self.rng.below(12) {
            0..=2 => MemoryOperand::with_base_displ(base, near),
            3 => MemoryOperand::new(base, index, scale, far, 8, false, none),
            4 => MemoryOperand::new(base, index, scale, 0, 0, false, none),
            5 => MemoryOperand::with_base_displ(Register::RSP, near),
            6 => MemoryOperand::new(Register::RSP, index, scale, near, 1, false, none),
            7 => MemoryOperand::new(none, index, 8, far, 8, false, none),
            8 => MemoryOperand::with_base_displ(Register::RIP, (self.base + 0x8000) as i64 + near),
            9 => self.segment(Register::FS),
            10 => self.segment(Register::GS),
            _ => {
                let low = |r: Register| sized(r.number(), 4);
                MemoryOperand::new(low(base), low(index), scale, near, 1, false, none)
            }
        }
    }

    fn segment(&mut self, segment: Register) -> MemoryOperand {
        let near = self.rng.next() as i8 as i64;
        let (base, index) = (self.register(), self.register());
        let none = Register::None;
        match self.rng.below(4) {
            0 => MemoryOperand::new(none, none, 1, 0x28, 8, false, segment),
            1 => MemoryOperand::new(GPR64[base], none, 1, near, 1, false, segment),
            2 => MemoryOperand::new(GPR64[base], GPR64[index], 4, near, 1, false, segment),
            _ => MemoryOperand::new(sized(base, 4), sized(index, 4), 2, near, 1, false, segment),
        }
    }

    fn block(&mut self, n: usize) {
        self.items.push(Item::Label);
        if self.rng.once_in(if self.winding { 12 } else { 3 }) {
            return self.self_loop(n);
        }
        for _ in 0..self.rng.below(8) {
            self.instruction();
            if self.rng.once_in(8) {
                let condition = self.condition();
                let to = self.label();
                self.items.push(Item::Branch(condition, to));
            }
        }
        self.end(n);
    }

    fn condition(&mut self) -> Code {
        self.rng.pick(&[
            Code::Je_rel32_64,
            Code::Jne_rel32_64,
            Code::Jb_rel32_64,
            Code::Jae_rel32_64,
            Code::Jl_rel32_64,
            Code::Jg_rel32_64,
            Code::Js_rel32_64,
            Code::Jno_rel32_64,
            Code::Jp_rel32_64,
        ])
    }

    /// A loop as compilers write it. Behind it the program goes on with the next block.
    fn self_loop(&mut self, n: usize) {
        self.items.pop();
        let counter = self.register();
        let trips = 1 + self.rng.below(5) as u32;
        self.put(Instruction::with2(Code::Mov_r32_imm32, sized(counter, 4), trips));
        self.items.push(Item::Label);
        for _ in 0..self.rng.below(4) {
            let r = self.register();
            let base = self.r64();
            let near = self.rng.next() as i8 as i64;
            let operand = MemoryOperand::with_base_displ(base, near);
            match self.rng.below(5) {
                0 if r != counter => self.put(Instruction::with2(Code::Mov_r64_rm64, GPR64[r], operand)),
                1 => self.put(Instruction::with2(Code::Mov_rm64_r64, operand, GPR64[r])),
                2 if r != counter => self.put(Instruction::with2(Code::Add_r64_rm64, GPR64[r], operand)),
                3 => {
                    self.put(Instruction::with2(Code::Cmp_r64_rm64, GPR64[r], operand));
                    let (condition, to) = (self.condition(), self.label());
                    self.items.push(Item::Branch(condition, to));
                }
                _ => self.instruction(),
            }
            if r != counter && !self.rng.once_in(3) {
                self.put(Instruction::with2(Code::Add_rm64_imm8, GPR64[r], near as i32));
            }
        }
        if counter == 1 && self.rng.once_in(2) {
            return self.items.push(Item::Branch(Code::Loop_rel8_64_RCX, n));
        }
        match self.rng.below(3) {
            0 => self.put(Instruction::with1(Code::Dec_rm32, sized(counter, 4))),
            1 => self.put(Instruction::with2(Code::Sub_rm64_imm8, GPR64[counter], 1)),
            _ => self.put(Instruction::with1(Code::Dec_rm64, GPR64[counter])),
        }
        self.items.push(Item::Branch(Code::Jne_rel32_64, n));
    }

    /// How a block ends.
    fn end(&mut self, n: usize) {
        let (to, r) = (self.label(), self.r64());
        let how = if self.winding && !self.rng.once_in(4) {
            4 + self.rng.below(10)
        } else {
            self.rng.below(17)
        };
        if !matches!(how, 4..=9) {
            // No round of branches alone: the state would be the same before and after.
            let moves = self.registers.iter().map(|s| GPR64[*s]).find(|s| *s != r).unwrap_or(r);
            let more = MemoryOperand::with_base_displ(moves, 1);
            self.put(Instruction::with2(Code::Lea_r64_m, moves, more));
        }
        match how {
            0 | 1 => self.items.push(Item::Branch(Code::Jmp_rel32_64, to)),
            2 | 3 => {
                let condition = self.condition();
                self.items.push(Item::Branch(condition, to));
            }
            4 | 5 => self.items.push(Item::Branch(Code::Call_rel32_64, to)),
            6..=8 => self.put(Ok(Instruction::with(Code::Retnq))),
            9 => {
                let more = self.rng.pick(&[8, 16, 200]);
                self.put(Instruction::with1(Code::Retnq_imm16, more));
            }
            10 | 11 => {
                if self.rng.once_in(2) {
                    self.items.push(Item::Address(r, to));
                } else {
                    self.put(Instruction::with1(Code::Pop_r64, r));
                }
                let op = self.rng.pick(&[Code::Jmp_rm64, Code::Call_rm64]);
                self.put(Instruction::with1(op, r));
            }
            12 | 13 => {
                let operand = match self.rng.once_in(2) {
                    true => MemoryOperand::with_base_displ(Register::RSP, 8),
                    false => self.memory(),
                };
                let op = self.rng.pick(&[Code::Jmp_rm64, Code::Call_rm64]);
                self.put(Instruction::with1(op, operand));
            }
            14 => self.put(Ok(Instruction::with(Code::Syscall))),
            15 if self.rng.once_in(3) => self.items.push(Item::Branch(Code::Xbegin_rel32, to)),
            15 => {
                let op = self.rng.pick(&[
                    Code::Jrcxz_rel8_64,
                    Code::Loop_rel8_64_RCX,
                    Code::Loopne_rel8_64_RCX,
                    Code::Loope_rel8_64_RCX,
                ]);
                self.items.push(Item::Branch(op, n));
            }
            // Into the next block, if there is one.
            _ => {}
        }
    }

    fn instruction(&mut self) {
        let (r, s) = (self.register(), self.register());
        let size = self.rng.pick(&[1, 2, 4, 8, 8, 8]);
        let which = [1, 2, 4, 8].iter().position(|s| *s == size).unwrap();
        let (d, e) = (sized(r, size), sized(s, size));
        let imm = self.rng.next() as i8 as i32;
        let of = |ops: [Code; 4]| ops[which];
        match self.rng.below(21) {
            0..=2 => {
                let operand = self.memory();
                let load = of([
                    Code::Mov_r8_rm8,
                    Code::Mov_r16_rm16,
                    Code::Mov_r32_rm32,
                    Code::Mov_r64_rm64,
                ]);
                self.put(Instruction::with2(load, d, operand));
            }
            3 | 4 => {
                let operand = self.memory();
                let store = of([
                    Code::Mov_rm8_r8,
                    Code::Mov_rm16_r16,
                    Code::Mov_rm32_r32,
                    Code::Mov_rm64_r64,
                ]);
                self.put(Instruction::with2(store, operand, e));
            }
            5 => {
                let add = of([
                    Code::Add_rm8_r8,
                    Code::Add_rm16_r16,
                    Code::Add_rm32_r32,
                    Code::Add_rm64_r64,
                ]);
                self.put(Instruction::with2(add, d, e));
            }
            6 => {
                let operand = self.memory();
                let op = self
                    .rng
                    .pick(&[Code::Add_r64_rm64, Code::Cmp_r64_rm64, Code::Xor_r64_rm64]);
                self.put(Instruction::with2(op, GPR64[r], operand));
            }
            7 => {
                let operand = self.memory();
                let op = self
                    .rng
                    .pick(&[Code::Sub_rm64_r64, Code::Or_rm64_r64, Code::Xchg_rm64_r64]);
                self.put(Instruction::with2(op, operand, GPR64[r]));
            }
            8 => {
                let op = self
                    .rng
                    .pick(&[Code::Add_rm64_imm8, Code::Cmp_rm64_imm8, Code::And_rm64_imm8]);
                self.put(Instruction::with2(op, GPR64[r], imm));
            }
            9 => {
                let operand = self.memory();
                self.put(Instruction::with2(Code::Lea_r64_m, GPR64[r], operand));
            }
            10 | 11 => self.put(Instruction::with1(Code::Push_r64, GPR64[r])),
            12 => self.put(Instruction::with1(Code::Pop_r64, GPR64[r])),
            13 => {
                let operand = self.memory();
                let op = self.rng.pick(&[Code::Push_rm64, Code::Pop_rm64, Code::Inc_rm64]);
                self.put(Instruction::with1(op, operand));
            }
            14 => self.put(Instruction::with2(Code::Mov_r64_rm64, GPR64[r], GPR64[s])),
            15 => self.put(Instruction::with2(Code::Mov_rm32_imm32, sized(r, 4), imm)),
            16 => self.string(),
            17 => {
                let by = self.rng.pick(&[-32, -8, 8, 16]);
                self.put(Instruction::with2(Code::Add_rm64_imm8, Register::RSP, by));
            }
            18 => {
                let operand = self.memory();
                let op = self
                    .rng
                    .pick(&[Code::Movzx_r64_rm8, Code::Movsx_r64_rm16, Code::Movsxd_r64_rm32]);
                self.put(Instruction::with2(op, GPR64[r], operand));
            }
            19 if self.rng.once_in(4) => {
                let operand = self.memory();
                self.put(Instruction::with1(Code::Xrstor_mem, operand));
            }
            19 if self.rng.once_in(3) => {
                let operand = self.memory();
                self.put(Instruction::with2(Code::Mov_r64_rm64, Register::RSP, operand));
            }
            _ => {
                let op = self.rng.pick(&[Code::Nopd, Code::Std, Code::Cld]);
                self.put(Ok(Instruction::with(op)));
            }
        }
    }

    fn string(&mut self) {
        use iced_x86::{Register as R, RepPrefixKind as Rep};
        if !self.rng.once_in(10) {
            let n = self.rng.below(4) as u32;
            self.put(Instruction::with2(Code::Mov_r32_imm32, R::ECX, n));
        }
        let rep = self.rng.pick(&[Rep::None, Rep::Repe, Rep::Repe, Rep::Repne]);
        let plain = if rep == Rep::None { rep } else { Rep::Repe };
        let insn = match self.rng.below(6) {
            0 => Instruction::with_movsb(64, R::None, plain),
            1 => Instruction::with_movsq(64, R::None, plain),
            2 => Instruction::with_stosd(64, plain),
            3 => Instruction::with_lodsw(64, R::None, plain),
            4 => Instruction::with_scasb(64, rep),
            _ => Instruction::with_cmpsb(64, R::None, rep),
        };
        self.put(insn);
    }
}
