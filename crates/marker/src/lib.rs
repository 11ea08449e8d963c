//! Markers: a program tells memtrail what it knows of itself.
//!
//! Where the program is not recorded, and on other processors than x86-64, these functions do
//! nothing; on x86-64 they cost an instruction that does nothing, and its operands.
//! `include/memtrail.h` is the same for C and C++.
//!
//! ```
//! let matrix = vec![0.0f64; 100];
//! memtrail_marker::name(&matrix[..], c"matrix");
//! let region = memtrail_marker::region(c"multiply");
//! // …
//! drop(region);
//! ```
#![no_std]

use core::ffi::CStr;

/// One marker: `nop dword ptr [rax + rax + displacement]`.
macro_rules! mark {
    ($number:literal, $address:expr, $bytes:expr, $name:expr) => {{
        let (address, bytes, name): (*const u8, usize, &CStr) = ($address, $bytes, $name);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction does nothing. That it may read what the name points to is all the
        // compiler has to know.
        unsafe {
            core::arch::asm!(
                concat!(".byte 0x0f, 0x1f, 0x84, 0x00, 0x6d, 0x74, 0x72, ", $number),
                in("rdi") address,
                in("rsi") bytes,
                in("rdx") name.as_ptr(),
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (address, bytes, name);
    }};
}

/// This value, or all of a slice, has this name.
#[inline(always)]
pub fn name<T: ?Sized>(value: &T, name: &CStr) {
    let bytes = core::mem::size_of_val(value);
    name_raw((value as *const T).cast(), bytes, name);
}

/// These bytes have this name. With 0 bytes: the allocated block that the address is in.
#[inline(always)]
pub fn name_raw(address: *const u8, bytes: usize, name: &CStr) {
    mark!("0x01", address, bytes, name);
}

/// A region of this name begins, in this thread.
#[inline(always)]
pub fn enter(region: &CStr) {
    mark!("0x02", core::ptr::null(), 0, region);
}

/// It ends.
#[inline(always)]
pub fn leave(region: &CStr) {
    mark!("0x03", core::ptr::null(), 0, region);
}

/// A region that ends when this is dropped.
#[derive(Debug)]
pub struct Region<'n>(&'n CStr);

/// A region of this name begins, and ends when what is returned is dropped.
#[inline(always)]
pub fn region(name: &CStr) -> Region<'_> {
    enter(name);
    Region(name)
}

impl Drop for Region<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        leave(self.0);
    }
}
