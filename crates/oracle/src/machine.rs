//! The state of a stopped thread, as an instruction about to run would see it.
//!
//! Problem: effective addresses depend on general registers, segment bases,
//! opmask registers, vector registers and now and then on memory. Idea: one
//! snapshot type that answers those questions by architectural names. General
//! registers are taken at every stop; the vector state is fetched only when an
//! instruction asks for it, because that is the larger and rarer half.
//!
//! Invariant: nothing here knows how the snapshot was obtained, except through
//! [`Target`], so that addresses can be unit-tested without a process.

use iced_x86::Register;
use std::sync::OnceLock;

/// What lies beyond the general registers of a stopped thread.
pub trait Target {
    /// The XSAVE image in standard (not compacted) format.
    fn xstate(&self) -> Vec<u8>;
    /// Fills `out` from memory; false if it is not all readable.
    fn read(&self, addr: u64, out: &mut [u8]) -> bool;
}

/// General registers in encoding order (rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8..r15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regs {
    pub gpr: [u64; 16],
    pub rip: u64,
    pub rflags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
}

pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RBX: usize = 3;
pub const RSP: usize = 4;
pub const RBP: usize = 5;
pub const RSI: usize = 6;
pub const RDI: usize = 7;

const DIRECTION_FLAG: u64 = 1 << 10;

impl Regs {
    /// Value of a general register of any width, zero-extended.
    pub fn get(&self, register: Register) -> u64 {
        if register == Register::None {
            return 0;
        }
        let full = self.gpr[register.full_register().number()];
        match register {
            Register::AH | Register::CH | Register::DH | Register::BH => (full >> 8) & 0xff,
            _ => match register.size() {
                1 => full & 0xff,
                2 => full & 0xffff,
                4 => full & 0xffff_ffff,
                _ => full,
            },
        }
    }

    /// Base added by a segment prefix: only fs and gs have one in 64-bit mode.
    pub fn segment_base(&self, segment: Register) -> u64 {
        match segment {
            Register::FS => self.fs_base,
            Register::GS => self.gs_base,
            _ => 0,
        }
    }

    pub fn rsp(&self) -> u64 {
        self.gpr[RSP]
    }

    /// True when string instructions walk downwards.
    pub fn backwards(&self) -> bool {
        self.rflags & DIRECTION_FLAG != 0
    }
}

/// Where one XSAVE state component lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Component {
    offset: usize,
    size: usize,
    /// In compacted format, starts on a 64-byte boundary.
    aligned: bool,
}

/// What CPUID says about the XSAVE area, and which components the system enabled.
#[derive(Debug)]
pub struct XsaveLayout {
    enabled: u64,
    components: [Component; 63],
}

const LEGACY_AND_HEADER: usize = 576;
const AVX: usize = 2;
const OPMASK: usize = 5;
const ZMM_HI256: usize = 6;
const HI16_ZMM: usize = 7;

impl XsaveLayout {
    pub fn of_this_cpu() -> &'static XsaveLayout {
        static LAYOUT: OnceLock<XsaveLayout> = OnceLock::new();
        LAYOUT.get_or_init(|| {
            use std::arch::x86_64::__cpuid_count;
            let mut components = [Component::default(); 63];
            for (i, component) in components.iter_mut().enumerate().skip(2) {
                let leaf = __cpuid_count(0xd, i as u32);
                *component = Component {
                    offset: leaf.ebx as usize,
                    size: leaf.eax as usize,
                    aligned: leaf.ecx & 2 != 0,
                };
            }
            XsaveLayout {
                enabled: xcr0(),
                components,
            }
        })
    }

    /// Components that an instruction with this EDX:EAX mask handles beyond the legacy area.
    fn requested(&self, mask: u64) -> impl Iterator<Item = Component> + '_ {
        let wanted = mask & self.enabled;
        (2..63)
            .filter(move |i| wanted >> i & 1 != 0)
            .map(|i| self.components[i])
    }

    /// Bytes up to the end of the last requested component, standard format.
    pub fn standard_extent(&self, mask: u64) -> usize {
        self.requested(mask)
            .map(|c| c.offset + c.size)
            .fold(LEGACY_AND_HEADER, usize::max)
    }

    /// Bytes of an image that holds just the requested components, compacted format.
    pub fn compact_extent(&self, mask: u64) -> usize {
        self.requested(mask).fold(LEGACY_AND_HEADER, |end, c| {
            let start = if c.aligned { end.next_multiple_of(64) } else { end };
            start + c.size
        })
    }
}

fn xcr0() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: XGETBV with ecx=0 only reads XCR0. Linux on any CPU that reports
    // leaf 0xD enables it for user code; the oracle needs XSAVE to work at all.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Vector and mask registers read out of a standard-format XSAVE image.
pub struct VectorState {
    image: Vec<u8>,
}

impl VectorState {
    pub fn new(image: Vec<u8>) -> Self {
        VectorState { image }
    }

    fn bytes(&self, component: usize, at: usize, len: usize) -> &[u8] {
        let layout = XsaveLayout::of_this_cpu();
        let start = layout.components[component].offset + at;
        self.image.get(start..start + len).unwrap_or(&[])
    }

    /// Value of an opmask register.
    pub fn opmask(&self, register: Register) -> u64 {
        let at = 8 * (register as usize - Register::K0 as usize);
        self.bytes(OPMASK, at, 8)
            .try_into()
            .map(u64::from_le_bytes)
            .unwrap_or(0)
    }

    /// All 64 bytes of a vector register; missing parts are zero.
    pub fn vector(&self, register: Register) -> [u8; 64] {
        let n = register.number();
        let mut value = [0u8; 64];
        let mut put = |at: usize, from: &[u8]| value[at..at + from.len()].copy_from_slice(from);
        if n < 16 {
            put(0, self.image.get(160 + 16 * n..176 + 16 * n).unwrap_or(&[]));
            put(16, self.bytes(AVX, 16 * n, 16));
            put(32, self.bytes(ZMM_HI256, 32 * n, 32));
        } else {
            put(0, self.bytes(HI16_ZMM, 64 * (n - 16), 64));
        }
        value
    }

    /// An MMX register: the low eight bytes of the x87 register in the same physical slot.
    ///
    /// The image stores ST(i) relative to the stack top; MMX names are absolute.
    pub fn mmx(&self, register: Register) -> [u8; 8] {
        let status = u16::from_le_bytes([self.image[2], self.image[3]]);
        let top = usize::from(status >> 11 & 7);
        let slot = (register.number() + 8 - top) % 8;
        let mut value = [0u8; 8];
        value.copy_from_slice(&self.image[32 + 16 * slot..40 + 16 * slot]);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_every_width() {
        let mut regs = Regs::default();
        regs.gpr[RAX] = 0x1122_3344_5566_7788;
        regs.gpr[15] = 0xffff_ffff_0000_0001;
        assert_eq!(regs.get(Register::RAX), 0x1122_3344_5566_7788);
        assert_eq!(regs.get(Register::EAX), 0x5566_7788);
        assert_eq!(regs.get(Register::AX), 0x7788);
        assert_eq!(regs.get(Register::AH), 0x77);
        assert_eq!(regs.get(Register::AL), 0x88);
        assert_eq!(regs.get(Register::R15L), 1);
        assert_eq!(regs.get(Register::R15D), 1);
    }

    #[test]
    fn xsave_extents_without_extended_components() {
        let layout = XsaveLayout::of_this_cpu();
        assert_eq!(layout.standard_extent(0b11), 576);
        assert_eq!(layout.compact_extent(0), 576);
    }
}
