//! Signal frames as the kernel lays them out, and the extended register state in them.
use crate::heap::{copy_in_target, read_target, write_target};
use crate::thread::{AltStack, Thread};
use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, _xgetbv};

/// `struct ucontext`, up to and with the signal mask.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Ucontext {
    pub flags: u64,
    pub link: u64,
    pub stack: AltStack,
    /// r8–r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp.
    pub regs: [u64; 16],
    pub rip: u64,
    pub eflags: u64,
    pub selectors: u64,
    pub err: u64,
    pub trapno: u64,
    pub oldmask: u64,
    pub cr2: u64,
    pub fpstate: u64,
    pub reserved: [u64; 8],
    pub mask: u64,
}
const _: () = assert!(core::mem::size_of::<Ucontext>() == 304);

/// Hardware number of each of [`Ucontext::regs`].
pub const ORDER: [usize; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4];
/// Index of r15 in [`Ucontext::regs`].
pub const UC_R15: usize = 7;
pub const UC_RBX: usize = 11;
pub const UC_RDX: usize = 12;
pub const UC_RAX: usize = 13;
pub const UC_RCX: usize = 14;

/// What fault registers a frame shows.
#[derive(Clone, Copy, Default)]
pub struct Fault {
    pub err: u64,
    pub trapno: u64,
    pub cr2: u64,
}

/// Offsets in an fxsave area: what the kernel keeps in its unused tail.
const SW_MAGIC: u64 = 464;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
const XMM_OFFSET: usize = 160;
const MXCSR_OFFSET: u64 = 24;
const HEADER: usize = 512;

/// Largest extended state we handle (AMX included).
const MAX_STATE: usize = 16 * 1024;

#[repr(C, align(64))]
struct State([u8; MAX_STATE]);

pub fn xcr0() -> u64 {
    // SAFETY: every x86-64 CPU that runs this has xsave (checked by `doctor`).
    unsafe { xgetbv0() }
}

#[target_feature(enable = "xsave")]
unsafe fn xgetbv0() -> u64 {
    // SAFETY: register 0 always exists.
    unsafe { _xgetbv(0) }
}

/// AMX's tiles. The kernel keeps room for them only in threads that have used them, and a thread
/// has to ask before it may.
const TILE_DATA: u64 = 1 << 18;

#[target_feature(enable = "xsave")]
unsafe fn in_use() -> u64 {
    // SAFETY: see `state_components`.
    unsafe { _xgetbv(1) }
}

/// The components that are in a frame.
fn state_components() -> u64 {
    let enabled = xcr0();
    if enabled & TILE_DATA == 0 {
        return enabled;
    }
    // SAFETY: whatever has tiles can tell what is in use.
    enabled & (!TILE_DATA | unsafe { in_use() })
}

/// Up to the end of the last of them.
fn state_bytes(components: u64) -> usize {
    let last = 63 - components.leading_zeros();
    let end = match last {
        0 | 1 => HEADER + 64,
        _ => {
            let leaf = __cpuid_count(0xd, last);
            (leaf.eax + leaf.ebx) as usize
        }
    };
    end.min(MAX_STATE - 4)
}

/// Bytes the extended state takes in a frame.
fn frame_state_bytes(from: Option<u64>) -> usize {
    if let Some(fp) = from {
        if read_target::<u32>(fp + SW_MAGIC) == Some(MAGIC1) {
            return read_target::<u32>(fp + SW_MAGIC + 4).unwrap_or(512) as usize;
        }
        return 512;
    }
    state_bytes(state_components()) + 4
}

/// The target's extended state while the runtime runs: the hardware's, but xmm as saved on the way
/// in.
fn save_live(t: &Thread, to: &mut State) {
    let components = state_components();
    let bytes = state_bytes(components);
    to.0[..bytes + 4].fill(0);
    // SAFETY: the area is aligned, zeroed and large enough.
    unsafe {
        asm!("xsave64 [{}]", in(reg) to.0.as_mut_ptr(), in("eax") components as u32, in("edx") (components >> 32) as u32, options(nostack))
    };
    for (i, x) in t.xmm.iter().enumerate() {
        let at = XMM_OFFSET + 16 * i;
        to.0[at..at + 8].copy_from_slice(&x[0].to_le_bytes());
        to.0[at + 8..at + 16].copy_from_slice(&x[1].to_le_bytes());
    }
    // SSE state is there whatever xsave's init optimisation thought of our own xmm registers.
    to.0[HEADER] |= 2;
    let sw = SW_MAGIC as usize;
    to.0[sw..sw + 4].copy_from_slice(&MAGIC1.to_le_bytes());
    to.0[sw + 4..sw + 8].copy_from_slice(&(bytes as u32 + 4).to_le_bytes());
    to.0[sw + 8..sw + 16].copy_from_slice(&components.to_le_bytes());
    to.0[sw + 16..sw + 20].copy_from_slice(&(bytes as u32).to_le_bytes());
    to.0[bytes..bytes + 4].copy_from_slice(&MAGIC2.to_le_bytes());
}

/// Load an extended state into the hardware, xmm into the thread's saved copy.
fn load(t: &mut Thread, from: &mut State, extended: bool) {
    for i in 0..16 {
        let at = XMM_OFFSET + 16 * i;
        let word = |k: usize| u64::from_le_bytes(from.0[at + 8 * k..at + 8 * k + 8].try_into().unwrap_or([0; 8]));
        t.xmm[i] = [word(0), word(1)];
    }
    // Reserved bits of mxcsr would fault.
    from.0[26] = 0;
    from.0[27] = 0;
    // SAFETY: the area is aligned; its header is made valid below.
    unsafe {
        if extended {
            let bv = u64::from_le_bytes(from.0[HEADER..HEADER + 8].try_into().unwrap_or([0; 8]));
            if bv & 2 == 0 {
                t.xmm = [[0; 2]; 16];
            }
            from.0[HEADER..HEADER + 8].copy_from_slice(&(bv & xcr0()).to_le_bytes());
            from.0[HEADER + 8..HEADER + 64].fill(0);
            asm!("xrstor64 [{}]", in(reg) from.0.as_ptr(), in("eax") u32::MAX, in("edx") u32::MAX,
                 out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                 out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                 out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _, options(nostack));
        } else {
            asm!("fxrstor64 [{}]", in(reg) from.0.as_ptr(),
                 out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                 out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                 out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _, options(nostack));
        }
    }
}

/// Restore the extended state at `fp` of a frame the target returns through. False if it cannot be
/// read.
pub fn restore_state(t: &mut Thread, fp: u64) -> bool {
    let mut state = State([0; MAX_STATE]);
    if fp == 0 {
        state.0[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
        load(t, &mut state, true);
        return true;
    }
    let bytes = frame_state_bytes(Some(fp)).min(MAX_STATE);
    if !copy_in_target(state.0.as_mut_ptr() as u64, fp, bytes) {
        return false;
    }
    load(t, &mut state, bytes > 512 + 64);
    true
}

/// The state a handler starts with: nothing but defaults. In a kernel frame, for the state at `fp`.
pub fn reset_kernel_state(fp: u64) {
    if fp == 0 {
        return;
    }
    write_target(fp + MXCSR_OFFSET, &0x1f80u32);
    if read_target::<u32>(fp + SW_MAGIC) == Some(MAGIC1) {
        write_target(fp + HEADER as u64, &0u64);
    }
}

/// Build a frame on the target's stack below `sp`. Returns `(frame, uc, info)` addresses, or `None`
/// if the stack cannot be written. `kernel_fp`: the state as the kernel saved it for us, or none if
/// it is live.
pub fn build(
    t: &Thread,
    sp: u64,
    mut uc: Ucontext,
    info: &[u64; 16],
    restorer: u64,
    kernel_fp: Option<u64>,
) -> Option<(u64, u64, u64)> {
    let bytes = frame_state_bytes(kernel_fp);
    let fp = (sp - bytes as u64) & !63;
    let frame = ((fp - (8 + 304 + 128)) & !15) - 8;
    let ok = match kernel_fp {
        Some(from) => copy_in_target(fp, from, bytes),
        None => {
            let mut state = State([0; MAX_STATE]);
            save_live(t, &mut state);
            copy_in_target(fp, state.0.as_ptr() as u64, bytes)
        }
    };
    uc.fpstate = fp;
    let (uc_at, info_at) = (frame + 8, frame + 8 + 304);
    if ok && write_target(frame, &restorer) && write_target(uc_at, &uc) && write_target(info_at, info) {
        Some((frame, uc_at, info_at))
    } else {
        None
    }
}

/// Lanes that an interrupted gather or scatter has done, as bits: it clears their mask as it goes.
/// 0 for other instructions.
pub fn lanes_done(insn: &iced_x86::Instruction, fp: u64) -> u64 {
    if !insn.is_vsib() || fp == 0 {
        return 0;
    }
    let present = read_target::<u64>(fp + HEADER as u64).unwrap_or(0);
    let component = |n: u32| fp + __cpuid_count(0xd, n).ebx as u64;
    if insn.op_mask() != iced_x86::Register::None {
        const OPMASKS: u32 = 5;
        if present & (1 << OPMASKS) == 0 {
            return u64::MAX;
        }
        let active = read_target::<u64>(component(OPMASKS) + 8 * insn.op_mask().number() as u64).unwrap_or(0);
        return !active;
    }
    const UPPER_HALVES: u32 = 2;
    let n = insn.op2_register().number() as u64;
    let size = insn.memory_size().size().max(4);
    let mut mask = [0u8; 32];
    copy_in_target(mask.as_mut_ptr() as u64, fp + XMM_OFFSET as u64 + 16 * n, 16);
    if present & (1 << UPPER_HALVES) != 0 {
        copy_in_target(mask[16..].as_mut_ptr() as u64, component(UPPER_HALVES) + 16 * n, 16);
    }
    let lanes = mask.chunks(size).enumerate();
    lanes
        .filter(|(_, lane)| lane[size - 1] & 0x80 == 0)
        .map(|(i, _)| 1 << i)
        .sum()
}
