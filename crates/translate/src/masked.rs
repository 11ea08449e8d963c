//! Which memory a masked AVX-512 operand touches.
//!
//! Most instructions read only the elements whose mask bit is set and suppress faults on the
//! others. Shuffles, packs and other instructions whose result elements do not match source
//! elements one to one mask only the result: they read their source whole.
use iced_x86::{Instruction, MemorySize, Mnemonic, OpKind};

/// Does the instruction read all of its memory operand whatever the mask?
pub fn reads_whole(insn: &Instruction) -> bool {
    use Mnemonic::*;
    match insn.mnemonic() {
        // A shift count in memory is 16 bytes; shifts of memory by an immediate are element by
        // element.
        Vpsllw | Vpslld | Vpsllq | Vpsrlw | Vpsrld | Vpsrlq | Vpsraw | Vpsrad | Vpsraq => {
            insn.op_count() == 3 && insn.op2_kind() == OpKind::Memory
        }
        Vmovddup | Vmovshdup | Vmovsldup => true,
        Vpshufb | Vpshufd | Vpshufhw | Vpshuflw | Vshufps | Vshufpd => true,
        Vshuff32x4 | Vshuff64x2 | Vshufi32x4 | Vshufi64x2 => true,
        Vpunpckhbw | Vpunpckhwd | Vpunpckhdq | Vpunpckhqdq => true,
        Vpunpcklbw | Vpunpcklwd | Vpunpckldq | Vpunpcklqdq => true,
        Vunpckhps | Vunpckhpd | Vunpcklps | Vunpcklpd => true,
        Vpackssdw | Vpacksswb | Vpackusdw | Vpackuswb => true,
        Vpermb | Vpermw | Vpermd | Vpermq | Vpermps | Vpermpd | Vpermilps | Vpermilpd => true,
        Vpermi2b | Vpermi2w | Vpermi2d | Vpermi2q | Vpermi2ps | Vpermi2pd => true,
        Vpermt2b | Vpermt2w | Vpermt2d | Vpermt2q | Vpermt2ps | Vpermt2pd => true,
        Valignd | Valignq | Vpalignr | Vdbpsadbw | Vpmultishiftqb | Vpmaddubsw | Vpmaddwd => true,
        Vpconflictd | Vpconflictq | Vgf2p8affineqb | Vgf2p8affineinvqb => true,
        Vinsertf32x4 | Vinsertf32x8 | Vinsertf64x2 | Vinsertf64x4 => true,
        Vinserti32x4 | Vinserti32x8 | Vinserti64x2 | Vinserti64x4 => true,
        _ => false,
    }
}

/// Bytes of memory behind one mask bit.
pub fn element(insn: &Instruction) -> usize {
    use Mnemonic::*;
    match insn.mnemonic() {
        // Dot products sum small elements into the 32-bit ones that the mask counts.
        Vpdpbusd | Vpdpbusds | Vpdpwssd | Vpdpwssds | Vdpbf16ps => 4,
        _ => super::accesses::element(insn.memory_size()),
    }
}

/// Destination elements that an embedded broadcast feeds.
pub fn broadcast_lanes(insn: &Instruction) -> u8 {
    let memory = insn.memory_size();
    let spread = broadcast_bytes(memory).unwrap_or(memory.size());
    (spread / memory.size().max(1)) as u8
}

/// Bytes over which an embedded broadcast spreads its element; `None` if there is no broadcast.
fn broadcast_bytes(memory: MemorySize) -> Option<usize> {
    use MemorySize::*;
    Some(match memory {
        Broadcast32_Float16 => 4,
        Broadcast64_UInt32 | Broadcast64_Int32 | Broadcast64_Float16 | Broadcast64_Float32 => 8,
        Broadcast128_Int16
        | Broadcast128_UInt16
        | Broadcast128_UInt32
        | Broadcast128_Int32
        | Broadcast128_UInt52
        | Broadcast128_UInt64
        | Broadcast128_Int64
        | Broadcast128_Float16
        | Broadcast128_Float32
        | Broadcast128_Float64
        | Broadcast128_2xInt16
        | Broadcast128_2xInt32
        | Broadcast128_2xUInt32
        | Broadcast128_2xFloat16
        | Broadcast128_2xBFloat16 => 16,
        Broadcast256_Int16
        | Broadcast256_UInt16
        | Broadcast256_UInt32
        | Broadcast256_Int32
        | Broadcast256_UInt52
        | Broadcast256_UInt64
        | Broadcast256_Int64
        | Broadcast256_Float16
        | Broadcast256_Float32
        | Broadcast256_Float64
        | Broadcast256_2xInt16
        | Broadcast256_2xInt32
        | Broadcast256_2xUInt32
        | Broadcast256_2xFloat16
        | Broadcast256_2xBFloat16 => 32,
        Broadcast512_Int16
        | Broadcast512_UInt16
        | Broadcast512_UInt32
        | Broadcast512_Int32
        | Broadcast512_UInt52
        | Broadcast512_UInt64
        | Broadcast512_Int64
        | Broadcast512_Float16
        | Broadcast512_Float32
        | Broadcast512_Float64
        | Broadcast512_2xFloat16
        | Broadcast512_2xInt16
        | Broadcast512_2xUInt32
        | Broadcast512_2xInt32
        | Broadcast512_2xBFloat16 => 64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    /// The decoder tells the width only in the variant's name: `Broadcast512_Float32`.
    #[test]
    fn every_broadcast_has_the_width_that_its_name_tells() {
        let mut broadcasts = 0;
        for memory in MemorySize::values() {
            let name = format!("{memory:?}");
            let bits = name.strip_prefix("Broadcast").and_then(|rest| rest.split('_').next());
            let bytes = bits.map(|bits| bits.parse::<usize>().unwrap() / 8);
            assert_eq!(broadcast_bytes(memory), bytes, "{name}");
            assert_eq!(memory.is_broadcast(), bytes.is_some(), "{name}");
            broadcasts += usize::from(bytes.is_some());
        }
        assert_eq!(broadcasts, 50);
    }
}
