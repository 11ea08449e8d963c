//! What the processor says about itself: the layout of its extended state.
use core::arch::x86_64::{__cpuid, __cpuid_count};
use memtrail_plan::{XsaveComponent, XsaveTable};

const XSAVE_LEAF: u32 = 0xd;
const COMPONENTS: u32 = 63;

/// Reads the table from the processor this runs on.
#[allow(unused_unsafe)]
pub fn xsave_table() -> XsaveTable {
    const OSXSAVE: u32 = 1 << 27;
    // SAFETY: every x86-64 processor has cpuid; leaf 1 always exists.
    let (highest, features) = unsafe { (__cpuid(0).eax, __cpuid(1).ecx) };
    if highest < XSAVE_LEAF || features & OSXSAVE == 0 {
        return XsaveTable::default();
    }
    let components = (2..COMPONENTS)
        .filter_map(|index| {
            // SAFETY: the leaf exists, as checked above; unknown sub-leaves read as zero.
            let leaf = unsafe { __cpuid_count(XSAVE_LEAF, index) };
            (leaf.eax != 0).then_some(XsaveComponent {
                index: index as u8,
                size: leaf.eax,
                offset: leaf.ebx,
                aligned: leaf.ecx & 2 != 0,
            })
        })
        .collect();
    XsaveTable {
        xcr0: xcr0(),
        components,
    }
}

fn xcr0() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE was checked, so xgetbv exists and XCR0 is readable.
    unsafe {
        core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}
