//! Fetching memory before it is needed: the only unsafe code of this crate.
//!
//! Sorting writes to as many places as there are kinds, more than the processor follows by itself, and each new line would
//! cost a trip to the last cache, a third of the time.
#![allow(unsafe_code)]

/// Asks for element `at` of a slice, which need not exist.
#[inline(always)]
pub(crate) fn ahead<T>(slice: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let address = slice.as_ptr().wrapping_add(at);
        // SAFETY: prefetching has no effect that a program could see, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at);
}
