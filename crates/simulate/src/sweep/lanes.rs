//! A short list of page numbers in vector registers, and moving to its front without a branch.
//!
//! A list of *V* vectors holds `V * LANES` numbers, the most recent in the lowest lane. [`touch`]
//! finds the lane of a number, and writes back, lane by lane, the old list or the old list moved up
//! by one with the number in lane 0: which of the two, a table says for each lane in which the
//! number can have been found. The table makes the policy:
//! - LRU, found in lane d: lanes up to d move up, the others stay. Not found: all move up, and what
//!   was in the last lane is gone.
//! - FIFO of W ways, found in a lane below W: nothing moves. Otherwise all do. Lanes from W on hold
//!   what has been evicted; what is found there counts as not found. A number can be there as well
//!   as below W, but then it is found below.
//!
//! 0 is no number: it fills what is empty.
use safe_arch::{
    bitandnot_m128i, byte_shl_imm_u128_m128i, byte_shr_imm_u128_m128i, cmp_eq_mask_i16_m128i, cmp_eq_mask_i32_m128i,
    extract_i16_as_i32_m128i, get_i32_from_m128i_s, m128i, move_mask_i8_m128i, set_i32_m128i_s, set_splat_i16_m128i,
    set_splat_i32_m128i,
};

/// A page number of some width.
pub trait Lane: Copy + Default + Eq + Send + Sync + 'static {
    const LANES: usize;
    fn new(number: u32) -> Self;
    fn number(self) -> u32;
    fn splat(self) -> m128i;
    /// Sixteen bits: all of those of the lanes that are equal.
    fn equal(a: m128i, b: m128i) -> u32;
    /// All lanes move up by one; this goes to the lowest.
    fn shift_in(self, list: m128i) -> m128i;
    /// The highest lane.
    fn last(list: m128i) -> Self;
    fn lanes(list: m128i) -> impl Iterator<Item = Self>;
}

impl Lane for u16 {
    const LANES: usize = 8;
    fn new(number: u32) -> u16 {
        number as u16
    }
    fn number(self) -> u32 {
        u32::from(self)
    }
    fn splat(self) -> m128i {
        set_splat_i16_m128i(self as i16)
    }
    fn equal(a: m128i, b: m128i) -> u32 {
        move_mask_i8_m128i(cmp_eq_mask_i16_m128i(a, b)) as u32
    }
    fn shift_in(self, list: m128i) -> m128i {
        byte_shl_imm_u128_m128i::<2>(list) | set_i32_m128i_s(i32::from(self))
    }
    fn last(list: m128i) -> u16 {
        extract_i16_as_i32_m128i::<7>(list) as u16
    }
    fn lanes(list: m128i) -> impl Iterator<Item = u16> {
        <[u16; 8]>::from(list).into_iter()
    }
}

impl Lane for u32 {
    const LANES: usize = 4;
    fn new(number: u32) -> u32 {
        number
    }
    fn number(self) -> u32 {
        self
    }
    fn splat(self) -> m128i {
        set_splat_i32_m128i(self as i32)
    }
    fn equal(a: m128i, b: m128i) -> u32 {
        move_mask_i8_m128i(cmp_eq_mask_i32_m128i(a, b)) as u32
    }
    fn shift_in(self, list: m128i) -> m128i {
        byte_shl_imm_u128_m128i::<4>(list) | set_i32_m128i_s(self as i32)
    }
    fn last(list: m128i) -> u32 {
        get_i32_from_m128i_s(byte_shr_imm_u128_m128i::<12>(list)) as u32
    }
    fn lanes(list: m128i) -> impl Iterator<Item = u32> {
        <[u32; 4]>::from(list).into_iter()
    }
}

/// What moves up, by the lane in which the number was found; `V * LANES` if in none.
pub type Moves<const V: usize> = [[m128i; V]; 64];

/// `moves(d)` lanes move up if the number was found in lane d.
pub fn table<T: Lane, const V: usize>(moves: impl Fn(usize) -> usize) -> Box<Moves<V>> {
    const { assert!(V * T::LANES < 64) };
    let rows = std::array::from_fn(|found| {
        std::array::from_fn(|v| {
            let bytes: [u8; 16] = std::array::from_fn(|byte| {
                let lane = v * T::LANES + byte * T::LANES / 16;
                if lane < moves(found) {
                    0xff
                } else {
                    0
                }
            });
            m128i::from(bytes)
        })
    });
    Box::new(rows)
}

/// Deals with a look-up of `page` as the table says; returns the lane it was in, `V * LANES` if in
/// none.
#[inline(always)]
pub fn touch<T: Lane, const V: usize>(list: &mut [m128i; V], page: T, moves: &Moves<V>) -> usize {
    let wanted = page.splat();
    let mut found = if V < 4 { 1u64 << (16 * V) } else { 0 };
    for (v, &lanes) in list.iter().enumerate() {
        found |= u64::from(T::equal(lanes, wanted)) << (16 * v);
    }
    let lane = found.trailing_zeros() as usize / (16 / T::LANES);
    let moving = &moves[lane & 63];
    let mut incoming = page;
    for (lanes, &moving) in list.iter_mut().zip(moving) {
        let old = *lanes;
        *lanes = (moving & incoming.shift_in(old)) | bitandnot_m128i(moving, old);
        incoming = T::last(old);
    }
    lane
}
