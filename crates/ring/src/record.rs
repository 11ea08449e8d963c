//! Raw records: what a thread writes into its data slot.
//!
//! A record is a header word and a number of value words that follows from the header alone. Header
//! values below [`FIRST_BLOCK`] are special records; all others are block ids, whose length and
//! meaning the block's plan gives: a block has one for its whole record, and one for each way out
//! of it. Zero never heads a record.

/// `[END]`: the rest of this buffer is unused.
pub const END: u64 = 1;

/// `[CUT][k][rcx][rsi][rdi][lanes]`: the block (or loop) record just before this one was left
/// before its instruction number `k` had completed: instructions `0..k` ran, and of instruction `k`
/// only what the registers tell (elements a repeated string instruction had done, lanes a gather
/// had done). For a loop record, `k` counts within the iteration after the last complete one.
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

// Notes: what a thread did to memory as a whole, and to other threads. The first word of each is
// its number: notes of one address space are numbered from 0 without gaps, in the order in which it
// happened. A number is taken after memory was had, and before it is given back. Head 6 is taken by
// the file.

/// `[ALLOC][number][hook][bytes][address]`: an allocation function returned a block.
pub const ALLOC: u64 = 8;
/// `[FREE][number][hook][address]`: a function was entered that gives a block back, or resizes it.
pub const FREE: u64 = 9;
/// `[REALLOC][number][hook][old][bytes][address]`: one that resizes returned a block; address 0: it
/// failed.
pub const REALLOC: u64 = 10;
/// `[MAPPED][number][address][bytes][protection][source][offset]`: memory was mapped; the source is
/// a text, [`NO_TEXT`] if it has none.
pub const MAPPED: u64 = 11;
/// `[UNMAPPED][number][address][bytes]`: mappings went away. All of them, up to address
/// [`u64::MAX`]: a new image begins.
pub const UNMAPPED: u64 = 12;
/// `[REMAPPED][number][old][old bytes][address][bytes]`: a mapping was moved or resized.
pub const REMAPPED: u64 = 13;
/// `[BREAK][number][address]`: the heap segment ends here.
pub const BREAK: u64 = 14;
/// `[NAME][number][address][bytes][text]`: the program named memory.
pub const NAME: u64 = 15;
/// `[ENTER][number][text]`: the program entered a region.
pub const ENTER: u64 = 16;
/// `[LEAVE][number][text]`: it left it.
pub const LEAVE: u64 = 17;
/// `[FORKED][number][process]`: the process was copied; the serial of the copy, [`NO_PROCESS`] if
/// that failed.
pub const FORKED: u64 = 18;

// What threads do to each other. A number is taken before a thread wakes or starts another, and
// after it was woken, so that what follows has a higher one.

/// `[WAIT][number][address][value]`: a futex wait begins, as long as this value is there.
pub const WAIT: u64 = 19;
/// `[WOKEN][number][address][result]`: it ended; 0, or the negative number of the error.
pub const WOKEN: u64 = 20;
/// `[WAKE][number][address][result]`: those who wait there are woken: how many, or the negative
/// number of an error.
pub const WAKE: u64 = 21;
/// `[STARTED][number][thread][cleared]`: a thread was made: its serial, [`NO_THREAD`] if that
/// failed; the address of the word that is cleared, and whose futex is woken, when it ends, 0 for
/// none.
pub const STARTED: u64 = 22;
/// `[ENDED][number][status]`: the thread ends.
pub const ENDED: u64 = 23;
/// `[GAP][number][begin][end][reason][instructions][accesses]`: the thread was not recorded from
/// one time to the other; what it executed and accessed meanwhile, [`NOT_KNOWN`] if that is not
/// known. A STATE follows before the next block.
pub const GAP: u64 = 24;

// Head 25 is reserved for time stamps at locked instructions.

/// Of a thread that could not be made.
pub const NO_THREAD: u64 = 0xffff_ffff;
/// A number in a gap that is not known.
pub const NOT_KNOWN: u64 = u64::MAX;

/// Source of a mapping without a name.
pub const NO_TEXT: u64 = 0xffff_ffff;
/// Of a fork that failed.
pub const NO_PROCESS: u64 = 0xffff_ffff;

/// Whether `head` is that of a note.
pub const fn is_note(head: u64) -> bool {
    ALLOC <= head && head <= GAP
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
        BREAK | ENTER | LEAVE | FORKED | ENDED => Some(3),
        FREE | UNMAPPED | WAIT | WOKEN | WAKE | STARTED => Some(4),
        ALLOC | NAME => Some(5),
        REALLOC | REMAPPED => Some(6),
        MAPPED | GAP => Some(7),
        _ => None,
    }
}
