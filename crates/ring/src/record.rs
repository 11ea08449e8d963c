//! Raw records: what a thread writes into its data slot.
//!
//! A record is a header word and a number of value words that follows from the header alone.
//! Header values below [`FIRST_BLOCK`] are special records; all others are block ids, whose
//! length and meaning the block's plan gives. Zero never heads a record.

/// `[END]`: the rest of this buffer is unused.
pub const END: u64 = 1;

/// `[CUT][k][rcx][rsi][rdi][lanes]`: the block (or loop) record just before this one was left before
/// its instruction number `k` had completed: instructions `0..k` ran, and of instruction `k` only what the
/// registers tell (elements a repeated string instruction had done, lanes a gather had done).
/// For a loop record, `k` counts within the iteration after the last complete one.
pub const CUT: u64 = 2;
pub const CUT_WORDS: usize = 6;

/// `[STATE][rsp][fs base][gs base]`: the carried values from here on.
/// First record of a thread, and after every change that no block plan describes.
pub const STATE: u64 = 3;
pub const STATE_WORDS: usize = 4;

/// `[SIGNAL][number]`: a signal handler begins here.
pub const SIGNAL: u64 = 4;
pub const SIGNAL_WORDS: usize = 2;

/// `[SIGRETURN]`: a signal handler returned.
pub const SIGRETURN: u64 = 5;

/// `[LEFT | k]`: the block (or loop) record just before this one was left through the branch that is its instruction
/// number `k`. Its later captures were not made. For a loop record, the last word is the counter at that branch.
pub const LEFT: u64 = 0xffff_ffff_8000_0000;

/// The branch a LEFT record names.
pub const fn left(head: u64) -> Option<u32> {
    if head >= LEFT {
        Some((head - LEFT) as u32)
    } else {
        None
    }
}

/// First header value that is a block id.
pub const FIRST_BLOCK: u64 = 64;
/// Block ids stay below this: they are stored with a sign-extended 32-bit immediate.
pub const LAST_BLOCK: u64 = 0x7fff_ffff;

/// Words of a special record, header included; `None` if `head` is a block id or invalid.
pub const fn special_words(head: u64) -> Option<usize> {
    match head {
        END | SIGRETURN => Some(1),
        CUT => Some(CUT_WORDS),
        STATE => Some(STATE_WORDS),
        SIGNAL => Some(SIGNAL_WORDS),
        LEFT.. => Some(1),
        _ => None,
    }
}
