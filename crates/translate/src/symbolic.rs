//! Symbolic execution of a block's integer registers.
//!
//! Every register is a linear form over *atoms*: the carried values, "register r as it was at
//! position p" (captured by a probe there if anything needs it), and *narrowings*, runs of bits of
//! other forms. What can be worked out later (add, sub, lea, mov, inc, dec, neg, not, push, pop;
//! masks, shifts and extensions by constants) stays a linear form or becomes a narrowing; anything
//! else makes a fresh atom at the position after the instruction. Nothing is captured until an
//! access needs it: that is the paper's delayed instrumentation, with aliases seen through.
use crate::effects::Effects;
use alloc::vec::Vec;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use memtrail_plan::{Derived, Lin, Narrow, Slot, FIRST, FS, GS, RSP};

/// Hardware numbers of the registers the translator treats specially.
pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RBX: usize = 3;
pub const RSP_REG: usize = 4;
pub const RBP: usize = 5;
pub const RSI: usize = 6;
pub const RDI: usize = 7;
pub const R15: usize = 15;

/// A value that cannot be expressed through others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atom {
    /// Kept up to date by the reader of the records: `RSP`, `FS`, `GS`.
    Carried,
    /// General register `reg` just before instruction `pos`.
    Gpr { pos: u16, reg: u8 },
    /// A vector register just before instruction `pos`, as `words` words.
    Vector { pos: u16, reg: Register, words: u8 },
    /// An opmask register just before instruction `pos`.
    Opmask { pos: u16, reg: Register },
    /// XCOMP_BV of the image that instruction `pos` (xrstor) is about to read.
    XcompBv { pos: u16 },
    /// Computed offline: this entry of [`Machine::derived`].
    Derived(u16),
}

/// The atom of register `r` at the entry of a block.
pub const fn entry_atom(r: usize) -> Slot {
    match r {
        RSP_REG => RSP,
        0..RSP_REG => FIRST + r as Slot,
        _ => FIRST + r as Slot - 1,
    }
}

/// Atoms before anything has happened: the carried ones, then one per register.
pub const ENTRY_ATOMS: [Atom; FIRST as usize + 15] = {
    let mut all = [Atom::Carried; FIRST as usize + 15];
    let mut r = 0;
    while r < 16 {
        if r != RSP_REG {
            all[entry_atom(r) as usize] = Atom::Gpr { pos: 0, reg: r as u8 };
        }
        r += 1;
    }
    all
};
const _: () = assert!(RSP == 0 && FS == 1 && GS == 2);

/// Hardware number of the 64-bit register that contains `r`, if `r` is a general register.
pub fn gpr(r: Register) -> Option<usize> {
    if r.is_gpr() {
        Some(r.full_register().number())
    } else {
        None
    }
}

/// The symbolic machine. Slots in its forms are atom numbers until the plan is laid out.
pub struct Machine {
    pub regs: [Lin; 16],
    pub atoms: Vec<Atom>,
    pub derived: Vec<Derived>,
    /// By atom: the bits it can have, counted from the lowest.
    bits: Vec<u8>,
}

impl Machine {
    pub fn new() -> Machine {
        let mut m = Machine {
            regs: [Lin::default(); 16],
            atoms: Vec::with_capacity(64),
            derived: Vec::with_capacity(16),
            bits: Vec::with_capacity(64),
        };
        m.reset();
        m
    }

    /// As at the entry of a block: every register its own atom, in order, rsp carried.
    pub fn reset(&mut self) {
        self.derived.clear();
        self.atoms.clear();
        self.atoms.extend_from_slice(&ENTRY_ATOMS);
        self.bits.clear();
        self.bits.resize(ENTRY_ATOMS.len(), 64);
        for (r, lin) in self.regs.iter_mut().enumerate() {
            *lin = Lin::slot(entry_atom(r));
        }
    }

    /// Forget everything: each register is its own atom at `pos` (the naive mode's rule at every
    /// access).
    pub fn forget(&mut self, pos: usize) {
        for r in 0..16 {
            self.regs[r] = Lin::slot(self.atom(Atom::Gpr {
                pos: pos as u16,
                reg: r as u8,
            }));
        }
    }

    /// Register `r` holds an unknown value of so many bits at `pos`. The atom is new by
    /// construction: no search.
    fn havoc(&mut self, r: usize, pos: usize, bits: u8) {
        self.regs[r] = Lin::slot(self.atoms.len() as Slot);
        self.atoms.push(Atom::Gpr {
            pos: pos as u16,
            reg: r as u8,
        });
        self.bits.push(bits);
    }

    /// The number of `atom`, shared if it is known already. Searched backwards: repeats are recent.
    pub fn atom(&mut self, atom: Atom) -> Slot {
        if let Some(i) = self.atoms.iter().rposition(|a| *a == atom) {
            return i as Slot;
        }
        self.bits.push(match atom {
            Atom::Derived(d) if !self.derived[d as usize].narrow.signed => self.derived[d as usize].narrow.bits,
            _ => 64,
        });
        self.atoms.push(atom);
        (self.atoms.len() - 1) as Slot
    }

    pub fn narrowed(&mut self, narrow: Narrow, of: Lin) -> Lin {
        if of.n == 0 {
            return Lin::constant(narrow.apply(of.c));
        }
        // What fits stays as it is.
        let most = narrow.mask() - narrow.sign();
        if narrow.from == 0 && self.greatest(&of).is_some_and(|g| g <= most) {
            return of;
        }
        let new = Derived { narrow, of };
        let known = self.derived.iter().rposition(|d| *d == new);
        let index = known.unwrap_or_else(|| {
            self.derived.push(new);
            self.derived.len() - 1
        });
        Lin::slot(self.atom(Atom::Derived(index as u16)))
    }

    /// The greatest value that a form can have, if it has only positive terms and cannot wrap.
    fn greatest(&self, lin: &Lin) -> Option<u64> {
        let mut greatest = lin.c;
        for &(slot, scale) in lin.terms() {
            let bits = u32::from(self.bits[slot as usize]);
            let most = u64::MAX.checked_shr(64 - bits)?;
            greatest = greatest.checked_add(most.checked_mul(u64::try_from(scale).ok()?)?)?;
        }
        Some(greatest)
    }

    /// The bits of `old` that a mask leaves, if they lie side by side.
    fn masked(&mut self, old: Lin, mask: u64) -> Option<Lin> {
        if mask == 0 {
            return Some(Lin::constant(0));
        }
        let from = mask.trailing_zeros();
        let bits = (!(mask >> from)).trailing_zeros();
        let Some(narrow) = Narrow::checked(from as u8, bits as u8, false) else {
            return (mask == u64::MAX).then_some(old);
        };
        if narrow.mask() != mask >> from || from > 30 {
            return None;
        }
        Lin::constant(0).add(&self.narrowed(narrow, old), 1 << from)
    }

    /// The offset part of a memory operand (no segment), `None` if it has too many terms or a
    /// vector index.
    pub fn effective(&self, insn: &Instruction) -> Option<Lin> {
        if insn.is_ip_rel_memory_operand() {
            return Some(Lin::constant(insn.ip_rel_memory_address()));
        }
        let mut lin = Lin::constant(insn.memory_displacement64());
        if let Some(b) = gpr(insn.memory_base()) {
            lin = lin.add(&self.regs[b], 1)?;
        }
        if let Some(x) = gpr(insn.memory_index()) {
            lin = lin.add(&self.regs[x], insn.memory_index_scale() as i64)?;
        }
        Some(lin)
    }

    /// Advance over instruction number `i`.
    pub fn step(&mut self, insn: &Instruction, effects: &Effects, i: usize) {
        if let Some((reg, lin)) = self.reversible(insn) {
            self.regs[reg] = lin;
            return;
        }
        match insn.mnemonic() {
            Mnemonic::Xchg if insn.op0_register().is_gpr64() && insn.op1_register().is_gpr64() => {
                let (Some(a), Some(b)) = (gpr(insn.op0_register()), gpr(insn.op1_register())) else {
                    return;
                };
                self.regs.swap(a, b);
                return;
            }
            Mnemonic::Leave => {
                let frame = self.regs[RBP];
                self.havoc(RBP, i + 1, 64);
                self.regs[RSP_REG] = frame.offset(if insn.code() == iced_x86::Code::Leavew { 2 } else { 8 });
                return;
            }
            Mnemonic::Enter => {
                let frame = self.regs[RSP_REG].offset(8u64.wrapping_neg());
                let levels = insn.immediate8_2nd() as u64 % 32;
                self.regs[RBP] = frame;
                self.regs[RSP_REG] = frame
                    .offset((8 * levels).wrapping_neg())
                    .offset((insn.immediate16() as u64).wrapping_neg());
                return;
            }
            _ => {}
        }
        let moved = self.regs[RSP_REG].offset(insn.stack_pointer_increment() as i64 as u64);
        let implicit_stack = insn.is_stack_instruction();
        let mut written = effects.written;
        if implicit_stack && !pops_into_rsp(insn) {
            written &= !(1 << RSP_REG);
        }
        let result = result_bits(insn);
        while written != 0 {
            let r = written.trailing_zeros() as usize;
            let bits = result.filter(|result| result.0 == r).map_or(64, |result| result.1);
            self.havoc(r, i + 1, bits);
            written &= written - 1;
        }
        if implicit_stack && !pops_into_rsp(insn) {
            self.regs[RSP_REG] = moved;
        }
    }

    /// The new form of the one register that a reversible instruction writes.
    fn reversible(&mut self, insn: &Instruction) -> Option<(usize, Lin)> {
        if insn.op_count() == 0 {
            return match insn.mnemonic() {
                Mnemonic::Cdqe => Some((RAX, self.narrowed(Narrow::SIGN32, self.regs[RAX]))),
                _ => None,
            };
        }
        if insn.op0_kind() != OpKind::Register {
            return None;
        }
        let dest = insn.op0_register();
        let (wide, d) = if dest.is_gpr64() {
            (true, gpr(dest)?)
        } else if dest.is_gpr32() {
            (false, gpr(dest)?)
        } else {
            return None;
        };
        let old = self.regs[d];
        let lin = match insn.mnemonic() {
            Mnemonic::Mov => self.operand(insn, 1)?,
            Mnemonic::Lea => {
                let lin = self.effective(insn)?;
                let short = insn.memory_base().is_gpr32() || insn.memory_index().is_gpr32();
                if short {
                    self.narrowed(Narrow::ZERO32, lin)
                } else {
                    lin
                }
            }
            Mnemonic::Add => old.add(&self.operand(insn, 1)?, 1)?,
            Mnemonic::Sub => old.add(&self.operand(insn, 1)?, -1)?,
            Mnemonic::Xor if insn.op1_kind() == OpKind::Register && insn.op1_register() == dest => Lin::constant(0),
            Mnemonic::Inc => old.offset(1),
            Mnemonic::Dec => old.offset(1u64.wrapping_neg()),
            Mnemonic::Neg => Lin::constant(0).add(&old, -1)?,
            Mnemonic::Not => Lin::constant(u64::MAX).add(&old, -1)?,
            Mnemonic::And => {
                let mask = immediate(insn, 1)?;
                self.masked(old, if wide { mask } else { mask & u64::from(u32::MAX) })?
            }
            Mnemonic::Shr | Mnemonic::Sar if insn.op1_kind() == OpKind::Immediate8 => {
                let size = if wide { 64 } else { 32 };
                let by = insn.immediate8() & (size - 1);
                let signed = insn.mnemonic() == Mnemonic::Sar;
                match Narrow::checked(by, size - by, signed).filter(|_| by > 0) {
                    Some(narrow) => self.narrowed(narrow, old),
                    None => old,
                }
            }
            Mnemonic::Shl | Mnemonic::Sal if insn.op1_kind() == OpKind::Immediate8 => {
                let by = insn.immediate8() & if wide { 63 } else { 31 };
                Lin::constant(0).add(&old, 1i64.checked_shl(by as u32).filter(|_| by < 31)?)?
            }
            Mnemonic::Imul if insn.op_count() == 3 && insn.op1_kind() == OpKind::Register => {
                let factor = immediate(insn, 2)?;
                Lin::constant(0).add(&self.operand(insn, 1)?, factor as i64)?
            }
            Mnemonic::Movsxd if wide && insn.op1_kind() == OpKind::Register && insn.op1_register().is_gpr32() => {
                let source = self.regs[gpr(insn.op1_register())?];
                return Some((d, self.narrowed(Narrow::SIGN32, source)));
            }
            Mnemonic::Movzx | Mnemonic::Movsx if insn.op1_kind() == OpKind::Register => {
                let r = insn.op1_register();
                let narrow = Narrow {
                    from: if is_high_byte(r) { 8 } else { 0 },
                    bits: if r.is_gpr16() { 16 } else { 8 },
                    signed: insn.mnemonic() == Mnemonic::Movsx,
                };
                self.narrowed(narrow, self.regs[gpr(r)?])
            }
            _ => return None,
        };
        Some((d, if wide { lin } else { self.narrowed(Narrow::ZERO32, lin) }))
    }

    /// A register or immediate source operand of the destination's width or wider meaning.
    fn operand(&self, insn: &Instruction, op: u32) -> Option<Lin> {
        if insn.op_kind(op) == OpKind::Register {
            let r = insn.op_register(op);
            if !(r.is_gpr64() || r.is_gpr32()) {
                return None;
            }
            return Some(self.regs[gpr(r)?]);
        }
        immediate(insn, op).map(Lin::constant)
    }
}

fn immediate(insn: &Instruction, op: u32) -> Option<u64> {
    match insn.op_kind(op) {
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => Some(insn.immediate(op)),
        _ => None,
    }
}

/// The register that an instruction with two operands or more writes, and the bits that the result
/// can have.
fn result_bits(insn: &Instruction) -> Option<(usize, u8)> {
    if insn.op_count() < 2 || insn.op0_kind() != OpKind::Register {
        return None;
    }
    let dest = insn.op0_register();
    let bits = match insn.mnemonic() {
        Mnemonic::Movzx => 8 * insn.memory_size().size() as u8,
        // A result of 32 bits clears those above.
        Mnemonic::Mov
        | Mnemonic::Movsx
        | Mnemonic::Add
        | Mnemonic::Sub
        | Mnemonic::And
        | Mnemonic::Or
        | Mnemonic::Xor
        | Mnemonic::Imul
        | Mnemonic::Shl
        | Mnemonic::Shr
        | Mnemonic::Sar
            if dest.is_gpr32() =>
        {
            32
        }
        _ => return None,
    };
    Some((gpr(dest).filter(|_| dest.is_gpr32() || dest.is_gpr64())?, bits))
}

fn is_high_byte(r: Register) -> bool {
    matches!(r, Register::AH | Register::BH | Register::CH | Register::DH)
}

/// `pop rsp` and `pop sp`: the increment is overwritten by what is popped.
fn pops_into_rsp(insn: &Instruction) -> bool {
    insn.mnemonic() == Mnemonic::Pop && insn.op0_kind() == OpKind::Register && gpr(insn.op0_register()) == Some(RSP_REG)
}
