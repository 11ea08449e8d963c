//! The few machine instructions that probes and exits are made of, by hand.
//!
//! Only `mov`, `lea`, `movzx`, `not`, `jrcxz`, `push` of a constant and plain jumps: none touches
//! a flag, and none writes below the stack pointer.
use alloc::vec::Vec;

/// A growing piece of code at a known address.
pub struct Code {
    pub base: u64,
    pub bytes: Vec<u8>,
}

impl Code {
    pub fn at(base: u64) -> Code {
        Code {
            base,
            bytes: Vec::with_capacity(256),
        }
    }
    pub fn here(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }
    pub fn offset(&self) -> u32 {
        self.bytes.len() as u32
    }
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
    pub fn put32(&mut self, v: u32) {
        self.put(&v.to_le_bytes());
    }
    /// A 32-bit distance from the end of itself to `target`. Callers make sure it fits.
    pub fn rel32(&mut self, target: u64) {
        let d = target.wrapping_sub(self.here() + 4);
        self.put32(d as u32);
    }
    fn gs_modrm(&mut self, reg: u8, offset: u32) {
        self.put(&[(reg & 7) << 3 | 4, 0x25]);
        self.put32(offset);
    }
    /// `mov gs:[offset], reg`
    pub fn store_gs(&mut self, offset: u32, reg: u8) {
        self.put(&[0x65, 0x48 | (reg >> 3) << 2, 0x89]);
        self.gs_modrm(reg, offset);
    }
    /// `mov reg, gs:[offset]`
    pub fn load_gs(&mut self, reg: u8, offset: u32) {
        self.put(&[0x65, 0x48 | (reg >> 3) << 2, 0x8b]);
        self.gs_modrm(reg, offset);
    }
    /// `mov dword gs:[offset], imm`
    pub fn store_gs_imm(&mut self, offset: u32, imm: u32) {
        self.put(&[0x65, 0xc7]);
        self.gs_modrm(0, offset);
        self.put32(imm);
    }
    /// `jmp gs:[offset]`
    pub fn jump_gs(&mut self, offset: u32) {
        self.put(&[0x65, 0xff]);
        self.gs_modrm(4, offset);
    }
    /// `push qword gs:[offset]`
    pub fn push_gs(&mut self, offset: u32) {
        self.put(&[0x65, 0xff]);
        self.gs_modrm(6, offset);
    }
    /// `pop qword gs:[offset]`
    pub fn pop_gs(&mut self, offset: u32) {
        self.put(&[0x65, 0x8f]);
        self.gs_modrm(0, offset);
    }
    /// `jmp gs:[reg*8 + table]`, reg below 8
    pub fn jump_table(&mut self, reg: u8, table: u32) {
        self.put(&[0x65, 0xff, 0x24, 0xc5 | reg << 3]);
        self.put32(table);
    }
    fn r15_operand(&mut self, reg: u8, disp: u32) {
        if disp < 128 {
            self.put(&[0x47 | (reg & 7) << 3, disp as u8]);
        } else {
            self.put(&[0x87 | (reg & 7) << 3]);
            self.put32(disp);
        }
    }
    /// `mov [r15+disp], reg`
    pub fn capture(&mut self, disp: u32, reg: u8) {
        self.put(&[0x49 | (reg >> 3) << 2, 0x89]);
        self.r15_operand(reg, disp);
    }
    /// `mov qword [r15], imm`
    pub fn capture_id(&mut self, id: u32) {
        self.put(&[0x49, 0xc7, 0x07]);
        self.put32(id);
    }
    /// `mov qword [r15-back], imm`
    pub fn change_id(&mut self, back: u32, id: u32) {
        self.store_imm(back.wrapping_neg(), id);
    }
    /// `mov qword [r15+disp], 0`
    pub fn capture_zero(&mut self, disp: u32) {
        self.store_imm(disp, 0);
    }
    /// `mov qword [r15+disp], imm`
    fn store_imm(&mut self, disp: u32, imm: u32) {
        self.put(&[0x49, 0xc7]);
        self.r15_operand(0, disp);
        self.put32(imm);
    }
    /// `lea r15, [r15+disp]`
    pub fn advance(&mut self, disp: u32) {
        self.put(&[0x4d, 0x8d]);
        self.r15_operand(15, disp);
    }
    /// `mov reg, imm64`
    pub fn load_imm(&mut self, reg: u8, imm: u64) {
        self.put(&[0x48 | reg >> 3, 0xb8 | reg & 7]);
        self.put(&imm.to_le_bytes());
    }
    /// `lea reg, [reg+other]`
    pub fn add_reg(&mut self, reg: u8, other: u8) {
        // reg as the base with an 8-bit displacement of zero, so that rbp and r13 are fine too.
        self.put(&[
            0x48 | (reg >> 3) << 2 | reg >> 3 | (other >> 3) << 1,
            0x8d,
            0x44 | (reg & 7) << 3,
        ]);
        self.put(&[(other & 7) << 3 | reg & 7, 0]);
    }
    /// `push qword [constant]`
    pub fn push_constant(&mut self, at: u64) {
        self.put(&[0xff, 0x35]);
        self.rel32(at);
    }
    /// `jmp target`
    pub fn jump(&mut self, target: u64) {
        self.put(&[0xe9]);
        self.rel32(target);
    }
    /// Pad so that `bytes` bytes of code, `lead` bytes further on, lie within one aligned 8-byte
    /// word: then one store patches them, and no other processor sees half of it.
    pub fn align_for_patch(&mut self, lead: u64, bytes: u64) {
        let at = (self.here() + lead) % 8;
        if at + bytes > 8 {
            const NOPS: [&[u8]; 8] = [
                &[],
                &[0x90],
                &[0x66, 0x90],
                &[0x0f, 0x1f, 0x00],
                &[0x0f, 0x1f, 0x40, 0x00],
                &[0x0f, 0x1f, 0x44, 0x00, 0x00],
                &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
                &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
            ];
            self.put(NOPS[(8 - at) as usize]);
        }
    }
}
