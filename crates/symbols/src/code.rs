//! What an instruction does to memory, as far as names need it.
use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction as Decoded, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};

/// An instruction that accesses memory, or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub len: usize,
    /// In the order of the instruction's own list: explicit operands first.
    pub operands: Vec<Operand>,
    pub role: Role,
}

/// What the stack is used for by an instruction that uses it without saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Any other instruction.
    Data,
    Push,
    Pop,
    Call,
    Return,
}

/// A place in memory that an instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Numbered as DWARF does; `None`: the address is fixed, or relative to a segment.
    pub base: Option<u16>,
    pub index: Option<u16>,
    pub scale: u32,
    /// Of an operand relative to the instruction pointer: the address.
    pub displacement: i64,
    /// Relative to `fs`, where thread-local variables are.
    pub thread: bool,
    /// In bytes.
    pub size: usize,
    pub read: bool,
    pub write: bool,
    /// Not written in the instruction: what a push stores.
    pub implicit: bool,
}

impl Operand {
    /// Is this a variable's own address, rather than one computed from registers?
    pub fn is_direct(&self) -> bool {
        self.base.is_none() && self.index.is_none() && !self.implicit
    }
}

fn number(register: Register) -> Option<u16> {
    let in_order = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
    if !register.is_gpr() {
        return None;
    }
    in_order.get(register.full_register().number()).copied()
}

/// Decodes the first instruction of `bytes`.
pub fn decode(bytes: &[u8], pc: u64) -> Option<Instruction> {
    let decoded = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
    if decoded.code() == Code::INVALID {
        return None;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&decoded);
    let written = |memory: &iced_x86::UsedMemory| {
        let same = decoded.memory_base() == memory.base()
            && decoded.memory_index() == memory.index()
            && decoded.memory_displacement64() == memory.displacement();
        let explicit = (0..decoded.op_count()).any(|i| decoded.op_kind(i) == iced_x86::OpKind::Memory);
        let relative = decoded.is_ip_rel_memory_operand() && memory.displacement() == decoded.ip_rel_memory_address();
        explicit && (same || relative)
    };
    let operands = info.used_memory().iter().filter_map(|memory| {
        let (read, write) = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            OpAccess::None | OpAccess::NoMemAccess => return None,
        };
        Some(Operand {
            base: number(memory.base()),
            index: number(memory.index()),
            scale: memory.scale(),
            displacement: memory.displacement() as i64,
            thread: memory.segment() == Register::FS,
            size: memory.memory_size().size(),
            read,
            write,
            implicit: !written(memory),
        })
    });
    Some(Instruction {
        len: decoded.len(),
        operands: operands.collect(),
        role: role(&decoded),
    })
}

fn role(decoded: &Decoded) -> Role {
    match decoded.mnemonic() {
        Mnemonic::Push | Mnemonic::Pushfq | Mnemonic::Enter => Role::Push,
        Mnemonic::Pop | Mnemonic::Popfq | Mnemonic::Leave => Role::Pop,
        Mnemonic::Call => Role::Call,
        Mnemonic::Ret => Role::Return,
        _ => Role::Data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(bytes: &[u8]) -> Operand {
        decode(bytes, 0x1000).unwrap().operands[0]
    }

    #[test]
    fn pointer_based_and_direct_operands() {
        // mov eax, [rbp-0x14]
        let local = operand(&[0x8b, 0x45, 0xec]);
        assert_eq!(
            (local.base, local.index, local.displacement, local.size),
            (Some(6), None, -0x14, 4)
        );
        assert!((local.read, local.write, local.is_direct(), local.implicit) == (true, false, false, false));
        // movsd xmm0, [rax+rcx*8+0x4080]
        let array = operand(&[0xf2, 0x0f, 0x10, 0x84, 0xc8, 0x80, 0x40, 0, 0]);
        assert_eq!(
            (array.base, array.index, array.scale, array.displacement),
            (Some(0), Some(2), 8, 0x4080)
        );
        // add dword [rip+0x10], 1
        let global = operand(&[0x83, 0x05, 0x10, 0, 0, 0, 1]);
        assert_eq!((global.base, global.displacement), (None, 0x1017));
        assert!(global.read && global.write && global.is_direct());
        // mov rax, fs:[-8]
        let tls = operand(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff]);
        assert!(tls.thread && tls.is_direct() && tls.displacement == -8);
    }

    #[test]
    fn uses_of_the_stack() {
        let push = decode(&[0x55], 0).unwrap();
        assert_eq!(
            (push.role, push.operands.len(), push.operands[0].implicit),
            (Role::Push, 1, true)
        );
        assert_eq!(decode(&[0xc3], 0).unwrap().role, Role::Return);
        // call [rax]: the target is read, the return address written.
        let call = decode(&[0xff, 0x10], 0).unwrap();
        let seen: Vec<(bool, bool)> = call.operands.iter().map(|o| (o.write, o.implicit)).collect();
        assert_eq!((call.role, seen), (Role::Call, vec![(false, false), (true, true)]));
        assert_eq!(decode(&[0x06], 0), None);
    }
}
