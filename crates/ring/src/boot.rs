//! What the tracer and the runtime hand each other of a process and its threads.
//!
//! **On the way in** the tracer maps the image, the session and the *boot pages*: a [`Boot`], then
//! an [`AppState`] for each thread. It sends one thread to the image's entry with `rdi` at the boot
//! pages. At launch and after exec there is one thread, which goes on by itself. If the process was
//! running already ([`ATTACHED`](how::ATTACHED)), that thread prepares the areas of all and
//! [reports](report); the tracer then sends every thread to [`Boot::enter`], with `gs` at its area.
//!
//! **On the way out** a thread that was asked to writes its `AppState`, gives back what it has of
//! the kernel's (alternate stack, rseq) and reports. When all have, one of them runs
//! [`Boot::depart`], which gives back dispositions and page protections and reports what is mapped.
//! The tracer unmaps it, restores registers and masks, and lets go. Extended registers (x87, vector,
//! masks) never pass through here: they are the target's in the hardware whenever a thread reports
//! that it is [parked](report::PARKED), and when it is sent to [`Boot::enter`].
//!
//! **How a thread reports.** It calls getpid with [`MAGIC`](report::MAGIC) as its first argument.
//! The tracer sees the call begin and does with the thread what it wants. A thread without a tracer
//! gets a number and goes on.
//!
//! All of it is whole words, so that either side can read it as numbers.
use crate::record;

/// How an image comes to be in a process: values of [`Boot::how`].
pub mod how {
    pub const LAUNCHED: u64 = 0;
    pub const EXEC: u64 = 1;
    /// The process was running: it has threads, handlers, and vector registers in use.
    pub const ATTACHED: u64 = 2;
}

/// The system call by which a thread reports: number, first argument, and what the second says.
/// The third is an address.
pub mod report {
    /// getpid.
    pub const CALL: u64 = 39;
    pub const MAGIC: u64 = u64::from_le_bytes(*b"memtrail") ^ 0x8080_8080_8080_8080;
    /// The process is ready to be recorded; the address is that of [`super::Boot`].
    pub const READY: u64 = 1;
    /// The thread's own state is in the [`super::AppState`] at the address.
    pub const PARKED: u64 = 2;
    /// Nothing of the kernel's is ours any more; the address is that of [`super::Owned`].
    pub const DEPARTED: u64 = 3;
    /// There is no memory for the process's threads.
    pub const FAILED: u64 = 4;
}

/// In the value of the SIGTRAP by which the tracer asks a thread to park. It is queued, so that no
/// other SIGTRAP looks like it.
pub const PARK: u64 = 0x6d74_7061_726b_2121;

/// Bit of the word at [`Boot::waiting`] in a thread's area that asks it to park.
pub const PARK_BIT: u64 = 2;

/// What the tracer hands to an injected image. States of threads follow it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    pub version: u64,
    /// Serial of the process: a new one at launch, the old one after exec.
    pub process: u64,
    /// See [`how`].
    pub how: u64,
    /// Number of [`AppState`]s that follow.
    pub threads: u64,
    /// Bytes of the boot pages.
    pub bytes: u64,
    /// Where the session file is mapped.
    pub session: u64,
    /// Free addresses in which the runtime maps what else it needs.
    pub room: u64,
    pub room_end: u64,
    // The rest is the runtime's answer.
    /// Where threads begin that were running.
    pub enter: u64,
    /// What one thread runs when all are parked, and its stack.
    pub depart: u64,
    pub depart_stack: u64,
    /// Where a system call of the target's is made, from the last look at what waits to behind the
    /// instruction, and where a thread goes on whose call is to be given up.
    pub syscall: u64,
    pub syscall_end: u64,
    pub abandon: u64,
    /// The way back to translated code, which can be begun anew.
    pub resume: u64,
    pub resume_end: u64,
    /// A way between two pieces of translated code that counts as such.
    pub found: u64,
    pub found_end: u64,
    /// The image.
    pub image: u64,
    pub image_end: u64,
    /// Offset of a thread's word of waiting things in its area.
    pub waiting: u64,
    /// Offset of the thread's kernel id, 32 bits, there: until it is set the area is not in use.
    pub tid: u64,
}

/// The state of a thread of the target, but for its extended registers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppState {
    /// Hardware numbers 0–15, then the instruction pointer and the flags.
    pub registers: [u64; 18],
    pub fs_base: u64,
    pub gs_base: u64,
    /// Blocked signals.
    pub mask: u64,
    /// Serial of the thread.
    pub thread: u64,
    /// The registered area for restartable sequences: address (0: there is none), bytes, signature.
    pub rseq: [u64; 3],
    /// Where the runtime keeps the thread. Its answer.
    pub area: u64,
}

/// The ranges that are the runtime's when it departs: their number, then start and end of each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    pub count: u64,
    pub ranges: [[u64; 2]; MOST_OWNED],
}
pub const MOST_OWNED: usize = 512;

pub const BOOT_WORDS: usize = 22;
pub const STATE_WORDS: usize = 26;
pub const RIP: usize = 16;
pub const FLAGS: usize = 17;

const _: () = assert!(core::mem::size_of::<Boot>() == 8 * BOOT_WORDS);
const _: () = assert!(core::mem::size_of::<AppState>() == 8 * STATE_WORDS);
// A word that a report could be mistaken for is no record's head.
const _: () = assert!(report::MAGIC > record::LAST_BLOCK);

impl Boot {
    /// In the order of the fields.
    pub fn words(&self) -> [u64; BOOT_WORDS] {
        [
            self.version,
            self.process,
            self.how,
            self.threads,
            self.bytes,
            self.session,
            self.room,
            self.room_end,
            self.enter,
            self.depart,
            self.depart_stack,
            self.syscall,
            self.syscall_end,
            self.abandon,
            self.resume,
            self.resume_end,
            self.found,
            self.found_end,
            self.image,
            self.image_end,
            self.waiting,
            self.tid,
        ]
    }

    pub fn from_words(words: &[u64; BOOT_WORDS]) -> Boot {
        Boot {
            version: words[0],
            process: words[1],
            how: words[2],
            threads: words[3],
            bytes: words[4],
            session: words[5],
            room: words[6],
            room_end: words[7],
            enter: words[8],
            depart: words[9],
            depart_stack: words[10],
            syscall: words[11],
            syscall_end: words[12],
            abandon: words[13],
            resume: words[14],
            resume_end: words[15],
            found: words[16],
            found_end: words[17],
            image: words[18],
            image_end: words[19],
            waiting: words[20],
            tid: words[21],
        }
    }
}

impl AppState {
    /// In the order of the fields.
    pub fn words(&self) -> [u64; STATE_WORDS] {
        let mut words = [0; STATE_WORDS];
        words[..18].copy_from_slice(&self.registers);
        words[18..22].copy_from_slice(&[self.fs_base, self.gs_base, self.mask, self.thread]);
        words[22..25].copy_from_slice(&self.rseq);
        words[25] = self.area;
        words
    }

    pub fn from_words(words: &[u64; STATE_WORDS]) -> AppState {
        let mut state = AppState {
            fs_base: words[18],
            gs_base: words[19],
            mask: words[20],
            thread: words[21],
            area: words[25],
            ..AppState::default()
        };
        state.registers.copy_from_slice(&words[..18]);
        state.rseq.copy_from_slice(&words[22..25]);
        state
    }
}

/// Offset of the state of thread number `n` in the boot pages.
pub const fn state_offset(n: usize) -> usize {
    8 * (BOOT_WORDS + n * STATE_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_every_field_in_its_place() {
        let numbers = core::array::from_fn(|i| i as u64 + 1);
        let boot = Boot::from_words(&numbers);
        assert_eq!(boot.words(), numbers);
        assert_eq!(boot.waiting, core::mem::offset_of!(Boot, waiting) as u64 / 8 + 1);
        assert_eq!(boot.session, core::mem::offset_of!(Boot, session) as u64 / 8 + 1);
        let numbers = core::array::from_fn(|i| i as u64 + 1);
        let state = AppState::from_words(&numbers);
        assert_eq!(state.words(), numbers);
        assert_eq!(state.mask, core::mem::offset_of!(AppState, mask) as u64 / 8 + 1);
        assert_eq!(state.area, core::mem::offset_of!(AppState, area) as u64 / 8 + 1);
        assert_eq!(state_offset(1), 8 * (BOOT_WORDS + STATE_WORDS));
    }
}
