//! Which memory a masked AVX-512 operand touches.
//!
//! Most instructions read only the elements whose mask bit is set and suppress faults on the others. Shuffles, packs and other
//! instructions whose result elements do not match source elements one to one mask only the result: they read their source whole.
use alloc::format;
use iced_x86::{Instruction, Mnemonic, OpKind};

/// Does the instruction read all of its memory operand whatever the mask?
pub fn reads_whole(insn: &Instruction) -> bool {
    use Mnemonic::*;
    match insn.mnemonic() {
        // A shift count in memory is 16 bytes; shifts of memory by an immediate are element by element.
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
    // The decoder names the width the element is spread over only in the variant's name: Broadcast512_Float32.
    let name = format!("{:?}", insn.memory_size());
    let bits = name
        .trim_start_matches("Broadcast")
        .split('_')
        .next()
        .and_then(|n| n.parse::<usize>().ok());
    (bits.unwrap_or(512) / 8 / insn.memory_size().size().max(1)) as u8
}
