//! What each instruction does to memory, as access shapes over the symbolic machine.
//!
//! The rules are those of the project's conventions: the architecture's accesses, one per element
//! of a repeated string instruction, one per active lane of a masked or indexed one, a read then a
//! write for a read-modify-write, prefetches marked.
use crate::effects::Effects;
use crate::masked;
use crate::symbolic::{gpr, Atom, Machine, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP_REG};
use alloc::vec::Vec;
use iced_x86::{Code, Instruction, MemorySize, Mnemonic, OpKind, Register};
use memtrail_model::Kind;
use memtrail_plan::{Addr, BitWord, Layout, Lin, Mask, PlannedAccess, Repeat, Shape, Slot, Xstate, FS, GS};

/// Collects the accesses of one block.
pub struct Accesses<'a> {
    pub machine: &'a mut Machine,
    pub list: Vec<PlannedAccess>,
}

impl Accesses<'_> {
    /// Add the accesses of instruction number `i`; the machine is as before it.
    pub fn of(&mut self, insn: &Instruction, effects: &Effects, i: usize) {
        if self.special(insn, i) {
            return;
        }
        if memory_operand(insn).is_none() {
            self.stack(insn, i);
            return;
        }
        if insn.mnemonic() == Mnemonic::Pop {
            // The operand's address is computed after the increment.
            let size = insn.stack_pointer_increment() as u64;
            self.plain(i, Kind::Read, Addr::of(self.machine.regs[RSP_REG]), size as u32);
            let saved = self.machine.regs[RSP_REG];
            self.machine.regs[RSP_REG] = saved.offset(size);
            let addr = self.address(insn, i);
            self.machine.regs[RSP_REG] = saved;
            self.plain(i, Kind::Write, addr, insn.memory_size().size() as u32);
            return;
        }
        let addr = self.address(insn, i);
        let shape = self.operand_shape(insn, addr, i);
        if effects.reads {
            self.push(i, Kind::Read, shape.clone());
        }
        if effects.writes {
            self.push(i, Kind::Write, shape);
        }
        self.stack(insn, i);
    }

    /// The implicit stack access of push, pop, call and near ret.
    fn stack(&mut self, insn: &Instruction, i: usize) {
        if !insn.is_stack_instruction() {
            return;
        }
        let inc = insn.stack_pointer_increment();
        let top = Addr::of(self.machine.regs[RSP_REG]);
        match insn.mnemonic() {
            Mnemonic::Ret => self.plain(i, Kind::Read, top, 8),
            _ if inc < 0 => {
                let addr = Addr::of(self.machine.regs[RSP_REG].offset(inc as i64 as u64));
                self.plain(i, Kind::Write, addr, inc.unsigned_abs());
            }
            _ if inc > 0 => self.plain(i, Kind::Read, top, inc as u32),
            _ => {}
        }
    }

    /// Instructions whose accesses do not follow from one memory operand.
    fn special(&mut self, insn: &Instruction, i: usize) -> bool {
        use Mnemonic::*;
        match insn.mnemonic() {
            Prefetch | Prefetchw | Prefetchwt1 | Prefetchnta | Prefetcht0 | Prefetcht1 | Prefetcht2 | Prefetchit0
            | Prefetchit1 => {
                let addr = self.address(insn, i);
                self.plain(i, Kind::Prefetch, addr, 1);
            }
            Nop | Lea | Clflush | Clflushopt | Clwb | Cldemote | Invlpg => {}
            Movsb | Movsw | Movsd | Movsq | Stosb | Stosw | Stosd | Stosq | Lodsb | Lodsw | Lodsd | Lodsq | Cmpsb
            | Cmpsw | Cmpsd | Cmpsq | Scasb | Scasw | Scasd | Scasq
                if insn.is_string_instruction() =>
            {
                self.string(insn, i)
            }
            Xlatb => {
                let al = self
                    .machine
                    .narrowed(memtrail_plan::Narrow::ZERO8, self.machine.regs[RAX]);
                let lin = self.machine.regs[RBX].add(&al, 1);
                let lin = match lin {
                    Some(lin) => lin,
                    None => self.fresh(RBX, i).add(&al, 1).unwrap_or_default(),
                };
                let addr = Addr {
                    lin,
                    low32: insn.memory_base().is_gpr32(),
                    segment: segment(insn),
                };
                self.plain(i, Kind::Read, addr, 1);
            }
            Leave => {
                let size = if insn.code() == Code::Leavew { 2 } else { 8 };
                self.plain(i, Kind::Read, Addr::of(self.machine.regs[RBP]), size);
            }
            Enter => self.enter(insn, i),
            Retf => {
                let size = match insn.code() {
                    Code::Retfq | Code::Retfq_imm16 => 8,
                    Code::Retfd | Code::Retfd_imm16 => 4,
                    _ => 2,
                };
                self.pops(i, 2, size);
            }
            Call if insn.is_call_far_indirect() => {
                let addr = self.address(insn, i);
                self.plain(i, Kind::Read, addr, insn.memory_size().size() as u32);
                let size: u64 = match insn.code() {
                    Code::Call_m1616 => 2,
                    Code::Call_m1632 => 4,
                    _ => 8,
                };
                for k in 1..=2 {
                    let addr = Addr::of(self.machine.regs[RSP_REG].offset((k * size).wrapping_neg()));
                    self.plain(i, Kind::Write, addr, size as u32);
                }
            }
            Iretq => self.pops(i, 5, 8),
            Iretd => self.pops(i, 5, 4),
            Iret => self.pops(i, 5, 2),
            Maskmovq | Maskmovdqu | Vmaskmovdqu => {
                let bytes = if insn.mnemonic() == Maskmovq { 8 } else { 16 };
                let first = self.vector(insn.op_register(2), bytes, i);
                let lin = self.machine.regs[RDI];
                let low32 = insn.op0_kind() == OpKind::MemorySegEDI;
                let addr = Addr {
                    lin,
                    low32,
                    segment: segment(insn),
                };
                let mask = Mask::SignOf { first, bytes: 1 };
                self.push(
                    i,
                    Kind::Write,
                    Shape::Elements {
                        addr,
                        lanes: bytes as u8,
                        mask,
                        size: 1,
                    },
                );
            }
            Xsave | Xsave64 | Xsaveopt | Xsaveopt64 => self.xstate(insn, i, Kind::Write, Layout::Standard),
            Xsavec | Xsavec64 => self.xstate(insn, i, Kind::Write, Layout::Compact),
            Xrstor | Xrstor64 => {
                let word = self.machine.atom(Atom::XcompBv { pos: i as u16 });
                self.xstate(insn, i, Kind::Read, Layout::Image(word));
            }
            Clzero => {
                let lin = self.machine.regs[RAX];
                self.push(
                    i,
                    Kind::Write,
                    Shape::Line {
                        addr: Addr::of(lin),
                        size: 64,
                    },
                );
            }
            Movdir64b => {
                let addr = self.address(insn, i);
                self.plain(i, Kind::Read, addr, 64);
                if let Some(r) = gpr(insn.op0_register()) {
                    let low32 = insn.op0_register().is_gpr32();
                    let addr = Addr {
                        lin: self.machine.regs[r],
                        low32,
                        segment: None,
                    };
                    self.plain(i, Kind::Write, addr, 64);
                }
            }
            Bt | Bts | Btr | Btc if insn.op0_kind() == OpKind::Memory && insn.op1_kind() == OpKind::Register => {
                let addr = self.address(insn, i);
                let Some(r) = gpr(insn.op1_register()) else { return true };
                let shape = Shape::from(BitWord {
                    addr,
                    bit: self.machine.regs[r],
                    size: insn.memory_size().size() as u8,
                });
                self.push(i, Kind::Read, shape.clone());
                if insn.mnemonic() != Bt {
                    self.push(i, Kind::Write, shape);
                }
            }
            _ => return false,
        }
        true
    }

    fn enter(&mut self, insn: &Instruction, i: usize) {
        let frame = self.machine.regs[RSP_REG].offset(8u64.wrapping_neg());
        self.plain(i, Kind::Write, Addr::of(frame), 8);
        let levels = insn.immediate8_2nd() as u64 % 32;
        for l in 1..levels {
            let down = (8 * l).wrapping_neg();
            self.plain(i, Kind::Read, Addr::of(self.machine.regs[RBP].offset(down)), 8);
            self.plain(i, Kind::Write, Addr::of(frame.offset(down)), 8);
        }
        if levels > 0 {
            self.plain(i, Kind::Write, Addr::of(frame.offset((8 * levels).wrapping_neg())), 8);
        }
    }

    fn pops(&mut self, i: usize, n: u64, size: u64) {
        for k in 0..n {
            let addr = Addr::of(self.machine.regs[RSP_REG].offset(k * size));
            self.plain(i, Kind::Read, addr, size as u32);
        }
    }

    fn xstate(&mut self, insn: &Instruction, i: usize, kind: Kind, layout: Layout) {
        let addr = self.address(insn, i);
        let (low, high) = (self.machine.regs[RAX], self.machine.regs[RDX]);
        self.push(
            i,
            kind,
            Shape::from(Xstate {
                addr,
                low,
                high,
                layout,
            }),
        );
    }

    fn string(&mut self, insn: &Instruction, i: usize) {
        let (mut source, mut dest) = (None, None);
        let (mut low32, mut size) = (false, 0);
        for op in 0..insn.op_count() {
            match insn.op_kind(op) {
                OpKind::MemorySegSI | OpKind::MemorySegESI | OpKind::MemorySegRSI => {
                    low32 |= insn.op_kind(op) == OpKind::MemorySegESI;
                    source = Some(Addr {
                        lin: self.machine.regs[RSI],
                        low32,
                        segment: segment(insn),
                    });
                    size = insn.memory_size().size() as u8;
                }
                OpKind::MemoryESDI | OpKind::MemoryESEDI | OpKind::MemoryESRDI => {
                    low32 |= insn.op_kind(op) == OpKind::MemoryESEDI;
                    let kind = match insn.mnemonic() {
                        Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsd | Mnemonic::Cmpsq => Kind::Read,
                        Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => Kind::Read,
                        _ => Kind::Write,
                    };
                    dest = Some((
                        Addr {
                            lin: self.machine.regs[RDI],
                            low32,
                            segment: None,
                        },
                        kind,
                    ));
                    size = insn.memory_size().size() as u8;
                }
                _ => {}
            }
        }
        if !(insn.has_rep_prefix() || insn.has_repne_prefix()) {
            if let Some(addr) = source {
                self.plain(i, Kind::Read, addr, size as u32);
            }
            if let Some((addr, kind)) = dest {
                self.plain(i, kind, addr, size as u32);
            }
            return;
        }
        let next = (i + 1) as u16;
        let moved_is_rsi = source.is_some();
        let (pointer, moved) = if moved_is_rsi { (RSI, RSI) } else { (RDI, RDI) };
        let kind = dest.map_or(Kind::Read, |d| d.1);
        let shape = Shape::from(Repeat {
            source,
            dest,
            size,
            before: self.machine.regs[RCX],
            after: self.machine.atom(Atom::Gpr {
                pos: next,
                reg: RCX as u8,
            }),
            low32,
            pointer: self.machine.regs[pointer],
            moved: self.machine.atom(Atom::Gpr {
                pos: next,
                reg: moved as u8,
            }),
            moved_is_rsi,
        });
        self.push(i, kind, shape);
    }

    /// The shape of an ordinary explicit memory operand.
    fn operand_shape(&mut self, insn: &Instruction, addr: Addr, i: usize) -> Shape {
        use Mnemonic::*;
        let memory = insn.memory_size();
        if insn.is_vsib() {
            return self.lanes(insn, addr, i);
        }
        match insn.mnemonic() {
            Vmaskmovps | Vmaskmovpd | Vpmaskmovd | Vpmaskmovq => {
                let size = memory.element_size() as u8;
                let bytes = memory.size();
                let first = self.vector(insn.op_register(1), bytes, i);
                let mask = Mask::SignOf { first, bytes: size };
                return Shape::Elements {
                    addr,
                    lanes: (bytes / size as usize) as u8,
                    mask,
                    size,
                };
            }
            _ => {}
        }
        if insn.op_mask() == Register::None || masked::reads_whole(insn) {
            return Shape::Plain {
                addr,
                size: memory.size() as u32,
            };
        }
        let word = self.machine.atom(Atom::Opmask {
            pos: i as u16,
            reg: insn.op_mask(),
        });
        let mask = Mask::Bits(word);
        let size = masked::element(insn).min(memory.size()) as u8;
        let vector = (0..insn.op_count())
            .filter(|&op| insn.op_kind(op) == OpKind::Register && insn.op_register(op).is_vector_register())
            .map(|op| insn.op_register(op).size())
            .max()
            .unwrap_or(size as usize);
        let lanes = (memory.size() / size as usize).max(1) as u8;
        match insn.mnemonic() {
            Vcompressps | Vcompresspd | Vpcompressb | Vpcompressw | Vpcompressd | Vpcompressq | Vexpandps
            | Vexpandpd | Vpexpandb | Vpexpandw | Vpexpandd | Vpexpandq => Shape::Packed {
                addr,
                lanes,
                mask,
                size,
            },
            Vbroadcastss | Vbroadcastsd | Vpbroadcastb | Vpbroadcastw | Vpbroadcastd | Vpbroadcastq => {
                let lanes = (vector / size as usize) as u8;
                Shape::Broadcast {
                    addr,
                    lanes,
                    mask,
                    size,
                }
            }
            _ if insn.is_broadcast() => {
                let size = memory.size() as u8;
                Shape::Broadcast {
                    addr,
                    lanes: masked::broadcast_lanes(insn),
                    mask,
                    size,
                }
            }
            _ if is_tuple_broadcast(insn.mnemonic()) => {
                let lanes = (vector / size as usize) as u8;
                Shape::Broadcast {
                    addr,
                    lanes,
                    mask,
                    size: memory.size() as u8,
                }
            }
            _ => Shape::Elements {
                addr,
                lanes,
                mask,
                size,
            },
        }
    }

    fn lanes(&mut self, insn: &Instruction, addr: Addr, i: usize) -> Shape {
        let index = insn.memory_index();
        let index_bytes: u8 = if insn.is_vsib64() { 8 } else { 4 };
        let first = self.vector(index, index.size(), i);
        let size = element(insn.memory_size()) as u8;
        let mut data = index.size();
        let mut mask = Mask::All;
        for op in 0..insn.op_count() {
            if insn.op_kind(op) == OpKind::Register && insn.op_register(op).is_vector_register() {
                data = insn.op_register(op).size();
            }
        }
        if insn.op_mask() != Register::None {
            mask = Mask::Bits(self.machine.atom(Atom::Opmask {
                pos: i as u16,
                reg: insn.op_mask(),
            }));
        } else if insn.op_count() == 3 && insn.op2_kind() == OpKind::Register {
            let reg = insn.op2_register();
            mask = Mask::SignOf {
                first: self.vector(reg, reg.size(), i),
                bytes: size,
            };
        }
        let lanes = (data / size as usize).min(index.size() / index_bytes as usize) as u8;
        let scale = insn.memory_index_scale() as u8;
        Shape::Lanes {
            addr,
            index: first,
            index_bytes,
            scale,
            lanes,
            mask,
            size,
        }
    }

    fn vector(&mut self, reg: Register, bytes: usize, i: usize) -> Slot {
        self.machine.atom(Atom::Vector {
            pos: i as u16,
            reg,
            words: bytes.div_ceil(8) as u8,
        })
    }

    /// Register `r` as it is right before instruction `i`, as an atom of its own.
    fn fresh(&mut self, r: usize, i: usize) -> Lin {
        Lin::slot(self.machine.atom(Atom::Gpr {
            pos: i as u16,
            reg: r as u8,
        }))
    }

    /// The address of the explicit memory operand. Where the linear form would have too many terms,
    /// the registers are captured right before the instruction instead.
    fn address(&mut self, insn: &Instruction, i: usize) -> Addr {
        let low32 = insn.memory_base().is_gpr32()
            || insn.memory_index().is_gpr32()
            || insn.memory_base() == Register::EIP
            || (insn.memory_base() == Register::None
                && insn.memory_index() == Register::None
                && insn.memory_displ_size() == 4);
        let lin = match self.machine.effective(insn) {
            Some(lin) => lin,
            None => {
                let mut lin = Lin::constant(insn.memory_displacement64());
                if let Some(b) = gpr(insn.memory_base()) {
                    lin = lin.add(&self.fresh(b, i), 1).unwrap_or_default();
                }
                if let Some(x) = gpr(insn.memory_index()) {
                    lin = lin
                        .add(&self.fresh(x, i), insn.memory_index_scale() as i64)
                        .unwrap_or_default();
                }
                lin
            }
        };
        Addr {
            lin,
            low32,
            segment: segment(insn),
        }
    }

    fn plain(&mut self, i: usize, kind: Kind, addr: Addr, size: u32) {
        self.push(i, kind, Shape::Plain { addr, size });
    }

    fn push(&mut self, i: usize, kind: Kind, shape: Shape) {
        self.list.push(PlannedAccess {
            insn: i as u16,
            kind,
            shape,
        });
    }
}

fn segment(insn: &Instruction) -> Option<Slot> {
    match insn.memory_segment() {
        Register::FS => Some(FS),
        Register::GS => Some(GS),
        _ => None,
    }
}

/// The explicit memory operand's number, if there is one.
pub fn memory_operand(insn: &Instruction) -> Option<u32> {
    (0..insn.op_count()).find(|&op| insn.op_kind(op) == OpKind::Memory)
}

/// Element size of a memory operand, its whole size if it is no vector.
pub fn element(memory: MemorySize) -> usize {
    match memory.element_size() {
        0 => memory.size().max(1),
        n => n,
    }
}

fn is_tuple_broadcast(m: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        m,
        Vbroadcastf32x2
            | Vbroadcastf32x4
            | Vbroadcastf32x8
            | Vbroadcastf64x2
            | Vbroadcastf64x4
            | Vbroadcasti32x2
            | Vbroadcasti32x4
            | Vbroadcasti32x8
            | Vbroadcasti64x2
            | Vbroadcasti64x4
    )
}
