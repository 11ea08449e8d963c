//! Messages in a definitions slot.
//!
//! A message is a header word, `kind | words << 32` (words with the header), and its payload words.
//! Messages never span buffers. Byte strings are padded with zeros to whole words.

/// `[id | code_bytes << 32][pc][code…]`: a block. Its plan is not sent: the
/// collector derives it from the code with the same pure function the runtime used.
pub const BLOCK: u32 = 1;
/// `[process | parent << 32][pid | how << 32]`: a process starts (parent `u32::MAX`: it has none,
/// or goes on with another program). How: [`LAUNCHED`], [`FORKED`], [`EXEC`].
pub const PROCESS: u32 = 2;
/// How the first process begins.
pub const LAUNCHED: u32 = 0;
/// How a process begins that is a copy of another.
pub const FORKED: u32 = 1;
/// How a process goes on with another program.
pub const EXEC: u32 = 2;
/// `[thread | tid << 32][tsc]`: a thread starts.
pub const THREAD: u32 = 3;
/// `[thread | status << 32][tsc]`: a thread ends by itself.
pub const THREAD_END: u32 = 4;
/// `[addr][len][file offset][prot | path_bytes << 32][path…]`: an executable mapping appears.
pub const MAP: u32 = 5;
/// `[addr][len]`: mappings that held code go away.
pub const UNMAP: u32 = 6;
/// `[status]`: the process calls exit_group.
pub const EXIT: u32 = 7;
/// `[bytes][text…]`: a warning for the user.
pub const WARN: u32 = 8;

/// `[id | bytes << 32][text…]`: a text that notes refer to. Ids are unique in a session.
pub const TEXT: u32 = 9;

/// `[id | code_bytes << 32][stretches][pc][bytes]…[code…]`: a path, as a block; where its stretches
/// stand and how many bytes of the code each has.
pub const PATH: u32 = 10;

pub const fn head(kind: u32, words: usize) -> u64 {
    kind as u64 | (words as u64) << 32
}
/// The kind and length in words of the message headed by `head`.
pub const fn split(head: u64) -> (u32, usize) {
    (head as u32, (head >> 32) as usize)
}
