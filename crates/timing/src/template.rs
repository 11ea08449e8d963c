//! Instructions as micro-operations, from code bytes.
//!
//! **Shape.** An instruction is any number of loads, one for each access that it was recorded to
//! read, then at most one operation, then a store for each access that it wrote. A load depends on
//! the registers of the address and hands what it read to the operation ([`TEMPORARY`]), or is all
//! there is to do, and then writes the destination itself. A store depends on the address and on
//! what the operation made ([`VALUE`]), or on the registers that are stored.
//!
//! **Simplified.** The stack pointer's moves by push, pop, call and return cost nothing and nobody
//! waits for them, as with a stack engine. Flags are two registers, the carry and the others. What
//! writes a part of a general register also reads it. What is made of several operations in real
//! cores (`bsf`, `cpuid`, x87's transcendental functions) is one here.
use crate::micro::{Register, UnitClass, NO_REGISTER, TEMPORARY, VALUE};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, RflagsBits,
};
use memtrail_decode::{Block, Table};

const GENERAL: Register = 3;
const CARRY: Register = 19;
const FLAGS: Register = 20;
const VECTORS: Register = 21;
const MASKS: Register = 53;
const X87: Register = 61;

/// What an instruction does to the flow of control.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Control {
    #[default]
    None,
    Conditional,
    Jump,
    Indirect,
    Call,
    IndirectCall,
    Return,
}

/// What an instruction is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    /// Bytes of the instruction.
    pub length: u8,
    pub control: Control,
    /// A conditional branch behind it can share its entry.
    pub compares: bool,
    /// What its addresses are made of.
    pub address: [Register; 4],
    /// What its loads write.
    pub loaded: [Register; 4],
    /// What its stores wait for.
    pub stored: [Register; 4],
    /// The class of its operation, if it has one.
    pub class: Option<UnitClass>,
    pub sources: [Register; 4],
    pub dests: [Register; 4],
}

impl Template {
    /// Of code that is not known: an operation that depends on nothing.
    pub const UNKNOWN: Template = Template {
        length: 0,
        control: Control::None,
        compares: false,
        address: [NO_REGISTER; 4],
        loaded: [TEMPORARY, 0, 0, 0],
        stored: [VALUE, 0, 0, 0],
        class: Some(UnitClass::Alu),
        sources: [NO_REGISTER; 4],
        dests: [NO_REGISTER; 4],
    };

    /// Of the instruction that these bytes begin with.
    pub fn of(bytes: &[u8]) -> Template {
        let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
        let instruction = decoder.decode();
        match instruction.is_invalid() {
            true => Template::UNKNOWN,
            false => Builder::new(&instruction, InstructionInfoFactory::new().info(&instruction)).template(),
        }
    }
}

/// Templates by the point of an instruction's fetch.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    all: Vec<Template>,
    /// Instructions whose code the recording does not have.
    pub unknown: usize,
}

impl Templates {
    /// Of all instructions of a table that numbers fetches.
    pub fn new(table: &Table) -> Templates {
        let mut templates = Templates {
            all: vec![Template::UNKNOWN; table.points().len()],
            unknown: 0,
        };
        let mut made = vec![false; table.points().len()];
        for block in table.blocks() {
            templates.add(block, &mut made);
        }
        templates
    }

    fn add(&mut self, block: &Block, made: &mut [bool]) {
        let offsets = &block.plan.insn_offsets;
        for (insn, &offset) in offsets.iter().enumerate() {
            let at = block.fetch_point(insn as u16).index();
            if made.get(at).is_none_or(|&made| made) {
                continue;
            }
            made[at] = true;
            let code = block.code().and_then(|code| code.get(usize::from(offset)..));
            self.unknown += usize::from(code.is_none());
            let (_, length) = block.plan.instruction(insn as u16);
            self.all[at] = Template {
                length: length as u8,
                ..code.map_or(Template::UNKNOWN, Template::of)
            };
        }
    }

    #[inline]
    pub fn get(&self, point: usize) -> &Template {
        self.all.get(point).unwrap_or(&Template::UNKNOWN)
    }
}

/// Up to four registers, each once; more are dropped.
#[derive(Clone, Copy, Default)]
struct Four {
    all: [Register; 4],
    count: usize,
}

impl Four {
    fn add(&mut self, register: Register) {
        if register != NO_REGISTER && !self.has(register) && self.count < 4 {
            self.all[self.count] = register;
            self.count += 1;
        }
    }
    fn has(&self, register: Register) -> bool {
        self.all[..self.count].contains(&register)
    }
    fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl FromIterator<Register> for Four {
    fn from_iter<I: IntoIterator<Item = Register>>(registers: I) -> Four {
        let mut four = Four::default();
        registers.into_iter().for_each(|register| four.add(register));
        four
    }
}

struct Builder<'i> {
    instruction: &'i Instruction,
    name: String,
    address: Four,
    reads: Four,
    writes: Four,
    loads: bool,
    stores: bool,
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

/// A register's number, if others can depend on it.
fn number(register: iced_x86::Register) -> Register {
    use iced_x86::Register as R;
    let full = register.full_register();
    if full.is_gpr() {
        GENERAL + full.number() as Register
    } else if full.is_vector_register() {
        VECTORS + full.number() as Register
    } else if full.is_k() {
        MASKS + full.number() as Register
    } else if full.is_st() || full.is_mm() {
        X87
    } else {
        debug_assert_ne!(full, R::RAX);
        NO_REGISTER
    }
}

impl<'i> Builder<'i> {
    fn new(instruction: &'i Instruction, info: &InstructionInfo) -> Builder<'i> {
        let stack_moves = is_stack_engine(instruction.mnemonic());
        let rsp = number(iced_x86::Register::RSP);
        let memory = info.used_memory();
        let parts = memory.iter().flat_map(|m| [m.base(), m.index()]);
        let address: Four = parts.map(number).collect();
        let (mut read, mut written) = (Four::default(), Four::default());
        for used in info.used_registers() {
            let register = number(used.register());
            if register == rsp && stack_moves {
                continue;
            }
            let both = reads(used.access()) && writes(used.access());
            if reads(used.access()) && (both || !address.has(register)) {
                read.add(register);
            }
            if writes(used.access()) {
                written.add(register);
                let gpr = used.register().is_gpr8() || used.register().is_gpr16();
                if gpr {
                    read.add(register);
                }
            }
        }
        // An operand is data, also if the address is made of the same register.
        for i in 0..instruction.op_count() {
            if instruction.op_kind(i) == OpKind::Register && reads(info.op_access(i)) {
                let register = number(instruction.op_register(i));
                if !(register == rsp && stack_moves && instruction.mnemonic() != Mnemonic::Push) {
                    read.add(register);
                }
            }
        }
        add_flags(&mut read, instruction.rflags_read());
        add_flags(&mut written, instruction.rflags_modified());
        Builder {
            instruction,
            name: format!("{:?}", instruction.mnemonic()),
            loads: memory.iter().any(|m| reads(m.access())),
            stores: memory.iter().any(|m| writes(m.access())),
            address,
            reads: read,
            writes: written,
        }
    }

    fn template(mut self) -> Template {
        let control = control(self.instruction);
        if self.is_zeroing() {
            self.reads = Four::default();
        }
        let only_loads = self.loads && !self.stores && self.reads.is_empty() && self.is_copy();
        let only_stores = self.stores
            && !self.loads
            && self.writes.is_empty()
            && control == Control::None
            && self.class() == UnitClass::Alu;
        let (mut sources, mut dests) = (self.reads, self.writes);
        if self.loads {
            // What came from memory is waited for, whatever is dropped.
            sources = [TEMPORARY].into_iter().chain(sources.all).collect();
        }
        if self.stores && control == Control::None {
            dests = [VALUE].into_iter().chain(dests.all).collect();
        }
        // What a call stores waits for nothing.
        let stored = match only_stores || control != Control::None {
            true if control != Control::None => self.address,
            true => self.address.all.into_iter().chain(self.reads.all).collect(),
            false => [VALUE].into_iter().chain(self.address.all).collect::<Four>(),
        };
        Template {
            length: self.instruction.len() as u8,
            control,
            compares: self.compares(),
            address: self.address.all,
            loaded: if only_loads {
                self.writes.all
            } else {
                [TEMPORARY, 0, 0, 0]
            },
            stored: stored.all,
            class: (!only_loads && !only_stores).then(|| self.class()),
            sources: sources.all,
            dests: dests.all,
        }
    }

    /// Copies what it reads, and no more.
    fn is_copy(&self) -> bool {
        let copies = [
            "Mov",
            "Vmov",
            "Lddqu",
            "Vlddqu",
            "Pop",
            "Vbroadcast",
            "Vpbroadcast",
            "Lods",
        ];
        copies.iter().any(|copy| self.name.starts_with(copy)) && !self.name.starts_with("Popcnt")
    }

    /// The result does not depend on the operands: `xor eax, eax`.
    fn is_zeroing(&self) -> bool {
        let zeroing = [
            "Xor", "Sub", "Pxor", "Xorps", "Xorpd", "Psub", "Vpxor", "Vxorps", "Vxorpd", "Vpsub", "Pcmpeq",
        ];
        let i = self.instruction;
        let operands = match i.op_count() {
            2 => Some((i.op_register(0), i.op_register(1))),
            3 => Some((i.op_register(1), i.op_register(2))),
            _ => None,
        };
        let registers = (0..i.op_count()).all(|n| i.op_kind(n) == OpKind::Register);
        registers
            && zeroing.iter().any(|zero| self.name.starts_with(zero))
            && operands.is_some_and(|(a, b)| a == b && !a.is_gpr8())
    }

    fn compares(&self) -> bool {
        use Mnemonic::{Add, And, Cmp, Dec, Inc, Sub, Test};
        matches!(self.instruction.mnemonic(), Cmp | Test | Add | Sub | And | Inc | Dec) && !self.stores
    }

    fn has_vector(&self) -> bool {
        let vector = |&r: &Register| (VECTORS..=X87).contains(&r);
        self.reads.all.iter().chain(&self.writes.all).any(vector)
    }

    fn has_general(&self) -> bool {
        let general = |&r: &Register| (GENERAL..CARRY).contains(&r);
        self.reads.all.iter().chain(&self.writes.all).any(general)
    }

    fn class(&self) -> UnitClass {
        if control(self.instruction) != Control::None {
            return UnitClass::Branch;
        }
        if self.is_zeroing() {
            return UnitClass::Nop;
        }
        match self.has_vector() {
            true => self.vector_class(),
            false => self.general_class(),
        }
    }

    fn general_class(&self) -> UnitClass {
        use Mnemonic::{Cpuid, Div, Endbr64, Idiv, Imul, Mov, Mul, Mulx, Nop, Pause, Rdtsc, Rdtscp, Syscall, Xgetbv};
        match self.instruction.mnemonic() {
            Nop | Endbr64 => UnitClass::Nop,
            Mov if !self.loads && !self.stores && !self.writes.is_empty() => match self.reads.is_empty() {
                true => UnitClass::Alu,
                false => UnitClass::Move,
            },
            Mul | Imul | Mulx => UnitClass::Mul,
            Div | Idiv => UnitClass::Div,
            Cpuid | Rdtsc | Rdtscp | Syscall | Xgetbv | Pause => UnitClass::System,
            _ => UnitClass::Alu,
        }
    }

    fn vector_class(&self) -> UnitClass {
        let full = self.name.as_str();
        let name = full.strip_prefix('V').unwrap_or(full);
        let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
        // The last letters of packed and scalar operations on floating-point numbers.
        let is_fp = ["ps", "pd", "ss", "sd", "ph", "sh"]
            .iter()
            .any(|end| name.ends_with(end));
        if begins(&["Fdiv", "Fsqrt", "Fidiv"]) || (is_fp && begins(&["Div", "div", "Sqrt", "sqrt"])) {
            return UnitClass::FpDiv;
        }
        if begins(&["Fmul", "Fimul", "fmadd", "fmsub", "fnmadd", "fnmsub"]) || (is_fp && begins(&["Mul", "mul"])) {
            return UnitClass::FpMul;
        }
        if begins(&[
            "Cvt", "cvt", "Comis", "comis", "Ucomis", "ucomis", "Ptest", "ptest", "Pextr", "pextr", "Pinsr",
        ]) || begins(&["Pmovmsk", "pmovmsk", "Movmsk", "movmsk", "Kmov"])
            || (begins(&["Movd", "movd", "Movq", "movq"]) && self.has_general())
        {
            return UnitClass::Convert;
        }
        let adds = [
            "Add", "add", "Sub", "sub", "Max", "max", "Min", "min", "Round", "round", "Hadd", "hadd", "Cmp",
        ];
        if begins(&["Fadd", "Fsub", "Fiadd", "Fcom", "Fucom", "Fild"]) || (is_fp && begins(&adds)) {
            return UnitClass::FpAdd;
        }
        if begins(&["Pmul", "pmul", "Pmadd", "pmadd", "Psad", "psad"]) {
            return UnitClass::VectorMul;
        }
        match begins(&["Mov", "mov"]) && !self.loads && !self.stores && self.instruction.op_count() == 2 {
            true if self.reads.count == 1 && self.writes.count == 1 => UnitClass::Move,
            _ => UnitClass::Vector,
        }
    }
}

fn add_flags(to: &mut Four, bits: u32) {
    if bits & RflagsBits::CF != 0 {
        to.add(CARRY);
    }
    let others = RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::PF;
    if bits & others != 0 {
        to.add(FLAGS);
    }
}

fn is_stack_engine(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Call, Pop, Popfq, Push, Pushfq, Ret};
    matches!(mnemonic, Push | Pop | Call | Ret | Pushfq | Popfq)
}

fn control(instruction: &Instruction) -> Control {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => Control::Conditional,
        FlowControl::UnconditionalBranch => Control::Jump,
        FlowControl::IndirectBranch => Control::Indirect,
        FlowControl::Call if instruction.code() != Code::Syscall => Control::Call,
        FlowControl::IndirectCall => Control::IndirectCall,
        FlowControl::Return => Control::Return,
        _ => Control::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAX: Register = GENERAL;
    const RCX: Register = GENERAL + 1;
    const RBX: Register = GENERAL + 3;
    const RSP: Register = GENERAL + 4;
    const RDI: Register = GENERAL + 7;
    const XMM0: Register = VECTORS;
    const XMM1: Register = VECTORS + 1;

    fn of(bytes: &[u8]) -> Template {
        let template = Template::of(bytes);
        assert_eq!(usize::from(template.length), bytes.len());
        template
    }

    #[test]
    fn a_load_writes_its_register_itself() {
        // mov rax, [rdi+rcx*8]
        let t = of(&[0x48, 0x8b, 0x04, 0xcf]);
        assert_eq!((t.class, t.address, t.loaded), (None, [RDI, RCX, 0, 0], [RAX, 0, 0, 0]));
    }

    #[test]
    fn an_operation_waits_for_what_its_load_brings() {
        // add rax, [rdi]
        let t = of(&[0x48, 0x03, 0x07]);
        assert_eq!((t.address, t.loaded), ([RDI, 0, 0, 0], [TEMPORARY, 0, 0, 0]));
        assert_eq!((t.class, t.sources), (Some(UnitClass::Alu), [TEMPORARY, RAX, 0, 0]));
        assert_eq!(t.dests, [RAX, CARRY, FLAGS, 0]);
        // addsd xmm0, [rdi]
        let t = of(&[0xf2, 0x0f, 0x58, 0x07]);
        assert_eq!((t.class, t.sources), (Some(UnitClass::FpAdd), [TEMPORARY, XMM0, 0, 0]));
        // vfmadd231sd xmm0, xmm1, [rdi]
        let t = of(&[0xc4, 0xe2, 0xf1, 0xb9, 0x07]);
        assert_eq!(
            (t.class, t.sources),
            (Some(UnitClass::FpMul), [TEMPORARY, XMM0, XMM1, 0])
        );
    }

    #[test]
    fn a_store_waits_for_address_and_data() {
        // mov [rdi+8], rax
        let t = of(&[0x48, 0x89, 0x47, 0x08]);
        assert_eq!((t.class, t.stored), (None, [RDI, RAX, 0, 0]));
        // add [rdi], rax: a load, an operation and a store
        let t = of(&[0x48, 0x01, 0x07]);
        assert_eq!((t.class, t.sources), (Some(UnitClass::Alu), [TEMPORARY, RAX, 0, 0]));
        assert_eq!((t.dests, t.stored), ([VALUE, CARRY, FLAGS, 0], [VALUE, RDI, 0, 0]));
        // mov [rax], rax: the register is both
        assert_eq!(of(&[0x48, 0x89, 0x00]).stored, [RAX, 0, 0, 0]);
    }

    #[test]
    fn the_stack_pointer_costs_nothing() {
        // push rbx; pop rbx; ret
        let t = of(&[0x53]);
        assert_eq!((t.class, t.stored, t.dests), (None, [RSP, RBX, 0, 0], [VALUE, 0, 0, 0]));
        let t = of(&[0x5b]);
        assert_eq!((t.class, t.address, t.loaded), (None, [RSP, 0, 0, 0], [RBX, 0, 0, 0]));
        let t = of(&[0xc3]);
        assert_eq!((t.class, t.control), (Some(UnitClass::Branch), Control::Return));
        assert_eq!((t.sources, t.dests), ([TEMPORARY, 0, 0, 0], [0; 4]));
        // call rel32
        let t = of(&[0xe8, 0, 0, 0, 0]);
        assert_eq!((t.class, t.control), (Some(UnitClass::Branch), Control::Call));
        assert_eq!((t.stored, t.dests), ([RSP, 0, 0, 0], [0; 4]));
    }

    #[test]
    fn flags_are_two_registers() {
        // inc rax leaves the carry; adc reads it; jne reads the others
        let t = of(&[0x48, 0xff, 0xc0]);
        assert_eq!((t.dests, t.compares), ([RAX, FLAGS, 0, 0], true));
        assert_eq!(of(&[0x48, 0x11, 0xd8]).sources, [RAX, RBX, CARRY, 0]);
        let t = of(&[0x75, 0xfe]);
        assert_eq!((t.control, t.sources), (Control::Conditional, [FLAGS, 0, 0, 0]));
    }

    #[test]
    fn classes() {
        let class = |bytes: &[u8]| of(bytes).class.unwrap();
        assert_eq!(class(&[0x31, 0xc0]), UnitClass::Nop, "xor eax, eax");
        assert_eq!(of(&[0x31, 0xc0]).sources, [0; 4]);
        assert_eq!(class(&[0x48, 0x89, 0xd8]), UnitClass::Move, "mov rax, rbx");
        assert_eq!(class(&[0xb8, 1, 0, 0, 0]), UnitClass::Alu, "mov eax, 1");
        assert_eq!(class(&[0x48, 0x0f, 0xaf, 0xc3]), UnitClass::Mul, "imul rax, rbx");
        assert_eq!(class(&[0x48, 0xf7, 0xf3]), UnitClass::Div, "div rbx");
        assert_eq!(class(&[0xf2, 0x0f, 0x59, 0xc1]), UnitClass::FpMul, "mulsd xmm0, xmm1");
        assert_eq!(class(&[0xf2, 0x0f, 0x5e, 0xc1]), UnitClass::FpDiv, "divsd xmm0, xmm1");
        assert_eq!(
            class(&[0xf2, 0x48, 0x0f, 0x2a, 0xc0]),
            UnitClass::Convert,
            "cvtsi2sd xmm0, rax"
        );
        assert_eq!(class(&[0x66, 0x0f, 0xfe, 0xc1]), UnitClass::Vector, "paddd xmm0, xmm1");
        assert_eq!(class(&[0x0f, 0x28, 0xc1]), UnitClass::Move, "movaps xmm0, xmm1");
        assert_eq!(class(&[0x0f, 0x05]), UnitClass::System, "syscall");
        assert_eq!(class(&[0x48, 0x8d, 0x04, 0xcf]), UnitClass::Alu, "lea rax, [rdi+rcx*8]");
        assert_eq!(of(&[0x48, 0x8d, 0x04, 0xcf]).sources, [RDI, RCX, 0, 0]);
        // What writes a part of a register reads the rest: mov al, bl.
        assert_eq!(of(&[0x88, 0xd8]).sources, [RAX, RBX, 0, 0]);
    }

    #[test]
    fn what_is_no_instruction_is_unknown() {
        assert_eq!(Template::of(&[0x06]), Template::UNKNOWN);
        assert_eq!(Template::of(&[]), Template::UNKNOWN);
    }
}
