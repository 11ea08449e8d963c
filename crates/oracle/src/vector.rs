//! Memory operands whose extent is decided lane by lane.
//!
//! Problem: gathers, scatters, opmasks and byte masks select which elements of
//! an operand are touched, and elements that are not selected neither fault nor
//! count. Idea: reduce each form to "number of lanes, bytes per lane, which are
//! active, address of a lane"; everything else follows in ascending lane order.
//!
//! Two points of the architecture matter here:
//! - a broadcast (embedded `{1toN}` or a `vbroadcast`) touches its one source
//!   once if any destination lane is active, and not at all otherwise;
//! - some instructions (shuffles, packs, permutes: exception classes named "NF"
//!   in the manuals) mask only the result; their source is read whole. Which do
//!   so was compared with the silicon (AMD Zen 4, November 2026: with an empty
//!   mask and an unmapped operand, do they fault?) and agrees for all tried; the
//!   guest `masked_fault_suppression` repeats it.

use crate::direction::{direction, Direction};
use crate::machine::{Regs, Target, VectorState, RDI};
use crate::plan::{effective_address, memory_operand, AddressWidth, Plan, Touch};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// A plan for instructions with masked or indexed vector operands; None for all others.
pub fn lane_by_lane(instruction: &Instruction, regs: &Regs, target: &dyn Target) -> Option<Plan> {
    if instruction.is_vsib() {
        return gather_or_scatter(instruction, regs, target);
    }
    match instruction.mnemonic() {
        Mnemonic::Maskmovq | Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => {
            return Some(Plan::Whole(masked_bytes(instruction, regs, target)))
        }
        Mnemonic::Vmaskmovps | Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovd | Mnemonic::Vpmaskmovq => {
            return Some(Plan::Whole(sign_masked(instruction, regs, target)))
        }
        _ => {}
    }
    let operand = memory_operand(instruction)?;
    if !instruction.has_op_mask() || reads_whole_source(instruction) {
        return None;
    }
    let mask = VectorState::new(target.xstate()).opmask(instruction.op_mask());
    let addr = effective_address(instruction, regs, None);
    let direction = direction(instruction, operand)?;
    Some(Plan::Whole(opmasked(instruction, mask, addr, direction)))
}

fn opmasked(instruction: &Instruction, mask: u64, addr: u64, direction: Direction) -> Vec<Touch> {
    if let Some(lanes) = broadcast_lanes(instruction) {
        let any = mask & low_bits(lanes) != 0;
        return if any {
            direction.touches(addr, instruction.memory_size().size())
        } else {
            vec![]
        };
    }
    if let Some((lanes, size)) = packed_together(instruction) {
        let count = (mask & low_bits(lanes)).count_ones() as usize;
        return (0..count)
            .flat_map(|i| direction.touches(addr.wrapping_add((i * size) as u64), size))
            .collect();
    }
    let whole = instruction.memory_size().size();
    let size = lane_size(instruction).min(whole);
    (0..whole / size)
        .filter(|lane| mask >> lane & 1 != 0)
        .flat_map(|lane| direction.touches(addr.wrapping_add((lane * size) as u64), size))
        .collect()
}

fn low_bits(n: usize) -> u64 {
    if n >= 64 {
        u64::MAX
    } else {
        (1 << n) - 1
    }
}

/// Bytes of memory behind one mask bit.
fn lane_size(instruction: &Instruction) -> usize {
    match instruction.mnemonic() {
        // Dot products: small elements, but the mask counts the 32-bit sums.
        Mnemonic::Vpdpbusd | Mnemonic::Vpdpbusds | Mnemonic::Vpdpwssd | Mnemonic::Vpdpwssds | Mnemonic::Vdpbf16ps => 4,
        _ => instruction.memory_size().element_size(),
    }
}

/// Destination lanes fed by one broadcast source.
fn broadcast_lanes(instruction: &Instruction) -> Option<usize> {
    if instruction.is_broadcast() {
        // The decoder's size names the vector the source is spread over: Broadcast512_Float32.
        let name = format!("{:?}", instruction.memory_size());
        let bits: String = name
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        return Some(bits.parse::<usize>().ok()? / 8 / instruction.memory_size().size());
    }
    let element = match instruction.mnemonic() {
        Mnemonic::Vpbroadcastb => 1,
        Mnemonic::Vpbroadcastw => 2,
        Mnemonic::Vpbroadcastd
        | Mnemonic::Vbroadcastss
        | Mnemonic::Vbroadcastf32x2
        | Mnemonic::Vbroadcastf32x4
        | Mnemonic::Vbroadcastf32x8
        | Mnemonic::Vbroadcasti32x2
        | Mnemonic::Vbroadcasti32x4
        | Mnemonic::Vbroadcasti32x8 => 4,
        Mnemonic::Vpbroadcastq
        | Mnemonic::Vbroadcastsd
        | Mnemonic::Vbroadcastf64x2
        | Mnemonic::Vbroadcastf64x4
        | Mnemonic::Vbroadcasti64x2
        | Mnemonic::Vbroadcasti64x4 => 8,
        _ => return None,
    };
    Some(instruction.op0_register().size() / element)
}

/// Lanes and element size of instructions that store or load active lanes side by side.
fn packed_together(instruction: &Instruction) -> Option<(usize, usize)> {
    let size = match instruction.mnemonic() {
        Mnemonic::Vpcompressb | Mnemonic::Vpexpandb => 1,
        Mnemonic::Vpcompressw | Mnemonic::Vpexpandw => 2,
        Mnemonic::Vpcompressd | Mnemonic::Vpexpandd | Mnemonic::Vcompressps | Mnemonic::Vexpandps => 4,
        Mnemonic::Vpcompressq | Mnemonic::Vpexpandq | Mnemonic::Vcompresspd | Mnemonic::Vexpandpd => 8,
        _ => return None,
    };
    let register = if instruction.op0_kind() == OpKind::Register {
        0
    } else {
        1
    };
    Some((instruction.op_register(register).size() / size, size))
}

/// Instructions that apply the mask to the result only ("no fault suppression").
fn reads_whole_source(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        // With a count in memory these read 16 bytes whatever the mask; with an immediate they are
        // ordinary.
        Mnemonic::Vpsllw
        | Mnemonic::Vpslld
        | Mnemonic::Vpsllq
        | Mnemonic::Vpsrlw
        | Mnemonic::Vpsrld
        | Mnemonic::Vpsrlq
        | Mnemonic::Vpsraw
        | Mnemonic::Vpsrad
        | Mnemonic::Vpsraq => instruction.op_count() == 3 && instruction.op2_kind() == OpKind::Memory,
        Mnemonic::Vmovddup
        | Mnemonic::Vmovshdup
        | Mnemonic::Vmovsldup
        | Mnemonic::Vpshufb
        | Mnemonic::Vpshufd
        | Mnemonic::Vpshufhw
        | Mnemonic::Vpshuflw
        | Mnemonic::Vshufps
        | Mnemonic::Vshufpd
        | Mnemonic::Vshuff32x4
        | Mnemonic::Vshuff64x2
        | Mnemonic::Vshufi32x4
        | Mnemonic::Vshufi64x2
        | Mnemonic::Vpunpckhbw
        | Mnemonic::Vpunpckhwd
        | Mnemonic::Vpunpckhdq
        | Mnemonic::Vpunpckhqdq
        | Mnemonic::Vpunpcklbw
        | Mnemonic::Vpunpcklwd
        | Mnemonic::Vpunpckldq
        | Mnemonic::Vpunpcklqdq
        | Mnemonic::Vunpckhps
        | Mnemonic::Vunpckhpd
        | Mnemonic::Vunpcklps
        | Mnemonic::Vunpcklpd
        | Mnemonic::Vpackssdw
        | Mnemonic::Vpacksswb
        | Mnemonic::Vpackusdw
        | Mnemonic::Vpackuswb
        | Mnemonic::Vpermb
        | Mnemonic::Vpermw
        | Mnemonic::Vpermd
        | Mnemonic::Vpermq
        | Mnemonic::Vpermps
        | Mnemonic::Vpermpd
        | Mnemonic::Vpermilps
        | Mnemonic::Vpermilpd
        | Mnemonic::Vpermi2b
        | Mnemonic::Vpermi2w
        | Mnemonic::Vpermi2d
        | Mnemonic::Vpermi2q
        | Mnemonic::Vpermi2ps
        | Mnemonic::Vpermi2pd
        | Mnemonic::Vpermt2b
        | Mnemonic::Vpermt2w
        | Mnemonic::Vpermt2d
        | Mnemonic::Vpermt2q
        | Mnemonic::Vpermt2ps
        | Mnemonic::Vpermt2pd
        | Mnemonic::Valignd
        | Mnemonic::Valignq
        | Mnemonic::Vpalignr
        | Mnemonic::Vdbpsadbw
        | Mnemonic::Vpmultishiftqb
        | Mnemonic::Vpmaddubsw
        | Mnemonic::Vpmaddwd
        | Mnemonic::Vpconflictd
        | Mnemonic::Vpconflictq
        | Mnemonic::Vgf2p8affineqb
        | Mnemonic::Vgf2p8affineinvqb
        | Mnemonic::Vinsertf32x4
        | Mnemonic::Vinsertf32x8
        | Mnemonic::Vinsertf64x2
        | Mnemonic::Vinsertf64x4
        | Mnemonic::Vinserti32x4
        | Mnemonic::Vinserti32x8
        | Mnemonic::Vinserti64x2
        | Mnemonic::Vinserti64x4 => true,
        _ => false,
    }
}

/// One 1-byte write per mask byte with its top bit set, at [rdi].
fn masked_bytes(instruction: &Instruction, regs: &Regs, target: &dyn Target) -> Vec<Touch> {
    let (width, offset) = match instruction.op0_kind() {
        OpKind::MemorySegEDI => (AddressWidth::Bits32, regs.gpr[RDI]),
        _ => (AddressWidth::Bits64, regs.gpr[RDI]),
    };
    let start = regs
        .segment_base(instruction.memory_segment())
        .wrapping_add(width.wrap(offset));
    let state = VectorState::new(target.xstate());
    let register = instruction.op2_register();
    let mask: Vec<u8> = match instruction.mnemonic() {
        Mnemonic::Maskmovq => state.mmx(register).to_vec(),
        _ => state.vector(register)[..16].to_vec(),
    };
    let active = (0..mask.len()).filter(|&i| mask[i] & 0x80 != 0);
    active.map(|i| Touch::write(start.wrapping_add(i as u64), 1)).collect()
}

/// AVX masked moves: a lane is active if the top bit of the same lane of the mask register is set.
fn sign_masked(instruction: &Instruction, regs: &Regs, target: &dyn Target) -> Vec<Touch> {
    let size = match instruction.mnemonic() {
        Mnemonic::Vmaskmovps | Mnemonic::Vpmaskmovd => 4,
        _ => 8,
    };
    let addr = effective_address(instruction, regs, None);
    let store = instruction.op0_kind() == OpKind::Memory;
    let register = instruction.op1_register();
    let mask = VectorState::new(target.xstate()).vector(register);
    (0..register.size() / size)
        .filter(|lane| mask[lane * size + size - 1] & 0x80 != 0)
        .map(|lane| {
            let at = addr.wrapping_add((lane * size) as u64);
            if store {
                Touch::write(at, size)
            } else {
                Touch::read(at, size)
            }
        })
        .collect()
}

fn gather_or_scatter(instruction: &Instruction, regs: &Regs, target: &dyn Target) -> Option<Plan> {
    let store = instruction.op0_kind() == OpKind::Memory;
    let data = if store {
        instruction.op1_register()
    } else {
        instruction.op0_register()
    };
    let index = instruction.memory_index();
    let wide_index = instruction.is_vsib64();
    let index_size = if wide_index { 8 } else { 4 };
    let size = instruction.memory_size().element_size();
    let count = (data.size() / size).min(index.size() / index_size);
    // AVX2 gathers carry their mask in the last operand, a vector register.
    let mask = if instruction.has_op_mask() {
        instruction.op_mask()
    } else {
        instruction.op2_register()
    };
    let state = VectorState::new(target.xstate());
    let indices = state.vector(index);
    let address = |lane: usize| {
        let at = lane * index_size;
        let value = if wide_index {
            u64::from_le_bytes(indices[at..at + 8].try_into().ok()?)
        } else {
            i32::from_le_bytes(indices[at..at + 4].try_into().ok()?) as i64 as u64
        };
        Some(effective_address(instruction, regs, Some(value)))
    };
    let mut lanes = Vec::new();
    for lane in 0..count {
        let addr = address(lane)?;
        let touch = if store {
            Touch::write(addr, size)
        } else {
            Touch::read(addr, size)
        };
        lanes.push((lane as u32, touch));
    }
    let active = active_lanes(mask, &lanes, target);
    lanes.retain(|(lane, _)| active.contains(lane));
    Some(Plan::Lanes { mask, lanes })
}

/// Those of `lanes` whose bit in the mask register (opmask or vector) is set now.
pub fn active_lanes(mask: Register, lanes: &[(u32, Touch)], target: &dyn Target) -> Vec<u32> {
    let state = VectorState::new(target.xstate());
    let all = lanes.iter().map(|(lane, _)| *lane);
    if mask.is_k() {
        let bits = state.opmask(mask);
        return all.filter(|lane| bits >> lane & 1 != 0).collect();
    }
    let value = state.vector(mask);
    lanes
        .iter()
        .filter(|(lane, touch)| value[(*lane as usize + 1) * touch.size as usize - 1] & 0x80 != 0)
        .map(|(lane, _)| *lane)
        .collect()
}
