//! Whether an explicit memory operand is read, written, or both.
//!
//! The rule of the architecture is almost positional: a memory operand that is
//! not the first is a source; a first operand is a destination. What remains is
//! to name, among instructions whose first operand is memory, those that read
//! it before they write it, and those that only read it.

use iced_x86::{EncodingKind, Instruction, Mnemonic};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Nothing,
    Read,
    Write,
    ReadThenWrite,
    Prefetch,
}

/// Direction of memory operand number `operand`; None if there is no rule for it.
pub fn direction(instruction: &Instruction, operand: u32) -> Option<Direction> {
    let mnemonic = instruction.mnemonic();
    if let Some(direction) = not_data(mnemonic) {
        return Some(direction);
    }
    if operand > 0 {
        return Some(Direction::Read);
    }
    match mnemonic {
        Mnemonic::Vldmxcsr => return Some(Direction::Read),
        m if compares_and_adds(m) => return Some(Direction::ReadThenWrite),
        _ if instruction.encoding() != EncodingKind::Legacy => return Some(Direction::Write),
        _ => {}
    }
    if let Some(direction) = x87(mnemonic) {
        return Some(direction);
    }
    read_modify_write(mnemonic)
        .or_else(|| read_only(mnemonic))
        .or_else(|| write_only(mnemonic))
}

fn not_data(mnemonic: Mnemonic) -> Option<Direction> {
    Some(match mnemonic {
        Mnemonic::Lea
        | Mnemonic::Nop
        | Mnemonic::Reservednop
        | Mnemonic::Clflush
        | Mnemonic::Clflushopt
        | Mnemonic::Clwb
        | Mnemonic::Cldemote
        | Mnemonic::Ud0
        | Mnemonic::Ud1 => Direction::Nothing,
        Mnemonic::Prefetch
        | Mnemonic::Prefetchnta
        | Mnemonic::Prefetcht0
        | Mnemonic::Prefetcht1
        | Mnemonic::Prefetcht2
        | Mnemonic::Prefetchw
        | Mnemonic::Prefetchwt1
        | Mnemonic::Prefetchit0
        | Mnemonic::Prefetchit1 => Direction::Prefetch,
        _ => return None,
    })
}

fn read_modify_write(mnemonic: Mnemonic) -> Option<Direction> {
    match mnemonic {
        Mnemonic::Add
        | Mnemonic::Or
        | Mnemonic::Adc
        | Mnemonic::Sbb
        | Mnemonic::And
        | Mnemonic::Sub
        | Mnemonic::Xor
        | Mnemonic::Not
        | Mnemonic::Neg
        | Mnemonic::Inc
        | Mnemonic::Dec
        | Mnemonic::Rol
        | Mnemonic::Ror
        | Mnemonic::Rcl
        | Mnemonic::Rcr
        | Mnemonic::Shl
        | Mnemonic::Sal
        | Mnemonic::Shr
        | Mnemonic::Sar
        | Mnemonic::Shld
        | Mnemonic::Shrd
        | Mnemonic::Xchg
        | Mnemonic::Xadd
        | Mnemonic::Cmpxchg
        | Mnemonic::Cmpxchg8b
        | Mnemonic::Cmpxchg16b
        | Mnemonic::Aadd
        | Mnemonic::Aand
        | Mnemonic::Aor
        | Mnemonic::Axor => Some(Direction::ReadThenWrite),
        _ => None,
    }
}

/// The one VEX family that reads its destination.
fn compares_and_adds(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Cmpoxadd
            | Mnemonic::Cmpnoxadd
            | Mnemonic::Cmpbxadd
            | Mnemonic::Cmpnbxadd
            | Mnemonic::Cmpzxadd
            | Mnemonic::Cmpnzxadd
            | Mnemonic::Cmpbexadd
            | Mnemonic::Cmpnbexadd
            | Mnemonic::Cmpsxadd
            | Mnemonic::Cmpnsxadd
            | Mnemonic::Cmppxadd
            | Mnemonic::Cmpnpxadd
            | Mnemonic::Cmplxadd
            | Mnemonic::Cmpnlxadd
            | Mnemonic::Cmplexadd
            | Mnemonic::Cmpnlexadd
    )
}

fn read_only(mnemonic: Mnemonic) -> Option<Direction> {
    match mnemonic {
        Mnemonic::Cmp
        | Mnemonic::Test
        | Mnemonic::Mul
        | Mnemonic::Imul
        | Mnemonic::Div
        | Mnemonic::Idiv
        | Mnemonic::Jmp
        | Mnemonic::Ldmxcsr
        | Mnemonic::Fxrstor
        | Mnemonic::Fxrstor64
        | Mnemonic::Verr
        | Mnemonic::Verw
        | Mnemonic::Ptwrite => Some(Direction::Read),
        _ => None,
    }
}

fn write_only(mnemonic: Mnemonic) -> Option<Direction> {
    match mnemonic {
        Mnemonic::Mov
        | Mnemonic::Movbe
        | Mnemonic::Movnti
        | Mnemonic::Movdiri
        | Mnemonic::Stmxcsr
        | Mnemonic::Fxsave
        | Mnemonic::Fxsave64
        | Mnemonic::Smsw
        | Mnemonic::Str
        | Mnemonic::Sldt
        | Mnemonic::Sgdt
        | Mnemonic::Sidt
        | Mnemonic::Movd
        | Mnemonic::Movq
        | Mnemonic::Movss
        | Mnemonic::Movsd
        | Mnemonic::Movaps
        | Mnemonic::Movapd
        | Mnemonic::Movups
        | Mnemonic::Movupd
        | Mnemonic::Movdqa
        | Mnemonic::Movdqu
        | Mnemonic::Movlps
        | Mnemonic::Movlpd
        | Mnemonic::Movhps
        | Mnemonic::Movhpd
        | Mnemonic::Movntps
        | Mnemonic::Movntpd
        | Mnemonic::Movntdq
        | Mnemonic::Movntq
        | Mnemonic::Movntss
        | Mnemonic::Movntsd
        | Mnemonic::Pextrb
        | Mnemonic::Pextrw
        | Mnemonic::Pextrd
        | Mnemonic::Pextrq
        | Mnemonic::Extractps => Some(Direction::Write),
        m if sets_by_condition(m) => Some(Direction::Write),
        _ => None,
    }
}

fn sets_by_condition(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Seta
            | Mnemonic::Setae
            | Mnemonic::Setb
            | Mnemonic::Setbe
            | Mnemonic::Sete
            | Mnemonic::Setg
            | Mnemonic::Setge
            | Mnemonic::Setl
            | Mnemonic::Setle
            | Mnemonic::Setne
            | Mnemonic::Setno
            | Mnemonic::Setnp
            | Mnemonic::Setns
            | Mnemonic::Seto
            | Mnemonic::Setp
            | Mnemonic::Sets
    )
}

fn x87(mnemonic: Mnemonic) -> Option<Direction> {
    Some(match mnemonic {
        Mnemonic::Fld
        | Mnemonic::Fild
        | Mnemonic::Fbld
        | Mnemonic::Fldcw
        | Mnemonic::Fldenv
        | Mnemonic::Frstor
        | Mnemonic::Fadd
        | Mnemonic::Fmul
        | Mnemonic::Fcom
        | Mnemonic::Fcomp
        | Mnemonic::Fsub
        | Mnemonic::Fsubr
        | Mnemonic::Fdiv
        | Mnemonic::Fdivr
        | Mnemonic::Fiadd
        | Mnemonic::Fimul
        | Mnemonic::Ficom
        | Mnemonic::Ficomp
        | Mnemonic::Fisub
        | Mnemonic::Fisubr
        | Mnemonic::Fidiv
        | Mnemonic::Fidivr => Direction::Read,
        Mnemonic::Fst
        | Mnemonic::Fstp
        | Mnemonic::Fist
        | Mnemonic::Fistp
        | Mnemonic::Fisttp
        | Mnemonic::Fbstp
        | Mnemonic::Fnstcw
        | Mnemonic::Fstcw
        | Mnemonic::Fnstsw
        | Mnemonic::Fstsw
        | Mnemonic::Fnstenv
        | Mnemonic::Fstenv
        | Mnemonic::Fnsave
        | Mnemonic::Fsave => Direction::Write,
        _ => return None,
    })
}
