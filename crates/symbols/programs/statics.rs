//! Statics and inlined functions of Rust.
use std::sync::atomic::{AtomicU32, Ordering};

pub mod deep {
    pub static TABLE: [[u16; 3]; 2] = [[1, 2, 3], [4, 5, 6]];
    #[repr(C)]
    pub struct Pair {
        pub left: u8,
        pub right: u32,
    }
    pub static mut PAIRS: [Pair; 2] = [Pair { left: 1, right: 2 }, Pair { left: 3, right: 4 }];
}

static HITS: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
pub fn hit(n: u32) -> u32 {
    HITS.fetch_add(n, Ordering::Relaxed);
    u32::from(deep::TABLE[(n & 1) as usize][0])
}

fn main() {
    let sum = hit(1) + unsafe { deep::PAIRS[1].right };
    std::process::exit(if sum == 8 { 0 } else { 1 });
}
