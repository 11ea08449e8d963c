//! Which loads the address of an access comes from.
//!
//! **Problem.** `a[b[i]]` and `a[random()]` look alike in their addresses. They differ in their
//! code: the first has the index from memory.
//!
//! **Idea.** Along instructions that run one after the other, each general register has the loads
//! that its value comes from: a load of its own, or those of the registers that it was made of by
//! copying, extending, adding, subtracting, shifting and masking. Anything else, and what a
//! register holds at the beginning, comes from no load that is known. So the answer may miss a load
//! but never has one that the address does not depend on.
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

/// More loads than this that make one address are not told.
const MOST: usize = 4;

/// Loads by the addresses of their instructions, in order.
type Loads = Vec<u64>;

/// The general registers while instructions run.
#[derive(Debug)]
pub struct Registers {
    /// By hardware number.
    loads: [Loads; 16],
    factory: InstructionInfoFactory,
}

impl Default for Registers {
    fn default() -> Registers {
        Registers {
            loads: Default::default(),
            factory: InstructionInfoFactory::new(),
        }
    }
}

/// The hardware number of the 64-bit register around `register`.
fn number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

/// What is in a register of 32 or 64 bits is all of it.
fn whole(register: Register) -> Option<usize> {
    number(register).filter(|_| register.is_gpr32() || register.is_gpr64())
}

impl Registers {
    fn of(&self, register: Register) -> Loads {
        number(register).map_or_else(Loads::new, |r| self.loads[r].clone())
    }

    fn joined(&self, one: Register, other: Register) -> Loads {
        let mut loads = self.of(one);
        loads.extend(self.of(other));
        loads.sort_unstable();
        loads.dedup();
        match loads.len() <= MOST {
            true => loads,
            false => Loads::new(),
        }
    }

    /// Runs the instruction that `bytes` are, which stands at `pc`. Returns the loads that the
    /// addresses of its explicit operands come from.
    pub fn run(&mut self, bytes: &[u8], pc: u64) -> Vec<u64> {
        let instruction = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
        let address = self.joined(instruction.memory_base(), instruction.memory_index());
        let result = self.result(&instruction);
        let info = self.factory.info(&instruction);
        let writes = |access| {
            let kinds = [
                OpAccess::Write,
                OpAccess::CondWrite,
                OpAccess::ReadWrite,
                OpAccess::ReadCondWrite,
            ];
            kinds.contains(&access)
        };
        for used in info.used_registers().iter().filter(|used| writes(used.access())) {
            if let Some(r) = number(used.register()) {
                self.loads[r].clear();
            }
        }
        if let Some((r, loads)) = result {
            self.loads[r] = loads;
        }
        address
    }

    /// The register whose new value comes from loads that are known, and these.
    fn result(&mut self, instruction: &Instruction) -> Option<(usize, Loads)> {
        use Mnemonic::{Add, And, Cdqe, Dec, Imul, Inc, Lea, Mov, Movsx, Movsxd, Movzx, Neg, Sar, Shl, Shr, Sub};
        if instruction.mnemonic() == Cdqe {
            return Some((0, self.loads[0].clone()));
        }
        if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let to = instruction.op0_register();
        let r = whole(to)?;
        let from = |op: u32| match instruction.op_kind(op) {
            OpKind::Register => Some(instruction.op_register(op)),
            OpKind::Memory => None,
            _ => Some(Register::None),
        };
        let loads = match instruction.mnemonic() {
            Mov | Movzx | Movsx | Movsxd if instruction.op1_kind() == OpKind::Memory => {
                vec![instruction.ip()]
            }
            Mov | Movzx | Movsx | Movsxd => self.of(from(1)?),
            Lea => self.joined(instruction.memory_base(), instruction.memory_index()),
            Inc | Dec | Neg => self.of(to),
            Add | Sub => self.joined(to, from(1)?),
            And | Shl | Shr | Sar if from(1)? == Register::None => self.of(to),
            Imul if instruction.op_count() == 3 => self.of(from(1)?),
            _ => return None,
        };
        Some((r, loads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loads behind the last of these instructions; each is known by its place, from 0.
    fn behind_last(code: &[&[u8]]) -> Vec<u64> {
        let mut registers = Registers::default();
        let told = code.iter().zip(0..).map(|(bytes, at)| registers.run(bytes, at));
        told.last().unwrap_or_default()
    }

    const LOAD_INDEX: &[u8] = &[0x48, 0x63, 0x04, 0x8f]; // movsxd rax, [rdi+rcx*4]
    const USE_INDEX: &[u8] = &[0x8b, 0x04, 0x86]; // mov eax, [rsi+rax*4]

    #[test]
    fn an_index_that_was_loaded() {
        assert_eq!(behind_last(&[LOAD_INDEX, USE_INDEX]), [0]);
        // The load itself is of an address that comes from nowhere.
        assert_eq!(behind_last(&[LOAD_INDEX]), []);
        // It is used up: what it loaded is in the register now.
        assert_eq!(behind_last(&[LOAD_INDEX, USE_INDEX, USE_INDEX]), [1]);
    }

    #[test]
    fn an_index_that_was_made_of_what_was_loaded() {
        // mov edx, eax; shl rdx, 2; add rdx, rsi; mov eax, [rdx]
        let made: [&[u8]; 4] = [
            &[0x89, 0xc2],
            &[0x48, 0xc1, 0xe2, 2],
            &[0x48, 0x01, 0xf2],
            &[0x8b, 0x02],
        ];
        assert_eq!(behind_last(&[&[LOAD_INDEX][..], &made].concat()), [0]);
        // A pointer of a place in memory, and an index: mov rdx, [rbp-8]; lea rax, [rdx+rax*4]; mov
        // eax, [rax]
        let both: [&[u8]; 4] = [
            LOAD_INDEX,
            &[0x48, 0x8b, 0x55, 0xf8],
            &[0x48, 0x8d, 0x04, 0x82],
            &[0x8b, 0x00],
        ];
        assert_eq!(behind_last(&both), [0, 1]);
    }

    #[test]
    fn what_is_computed_otherwise_comes_from_no_load() {
        // imul rax, rbx: a product of two registers.
        let product: [&[u8]; 3] = [LOAD_INDEX, &[0x48, 0x0f, 0xaf, 0xc3], USE_INDEX];
        assert_eq!(behind_last(&product), []);
        // mov al, bl: a part of it is another value.
        assert_eq!(behind_last(&[LOAD_INDEX, &[0x88, 0xd8], USE_INDEX]), []);
        // xor eax, eax
        assert_eq!(behind_last(&[LOAD_INDEX, &[0x31, 0xc0], USE_INDEX]), []);
        // cpuid writes it without saying so.
        assert_eq!(behind_last(&[LOAD_INDEX, &[0x0f, 0xa2], USE_INDEX]), []);
        // add rax, [rbx]: partly of another load.
        assert_eq!(behind_last(&[LOAD_INDEX, &[0x48, 0x03, 0x03], USE_INDEX]), []);
    }
}
