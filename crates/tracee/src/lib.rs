//! Everything that talks to the kernel about target processes: launching, injecting the
//! runtime, following through exec, waiting, and asking whether this machine can do it.
//!
//! **Problem.** The runtime must be inside a program before its first instruction runs, and
//! again after each exec, without the program being able to tell, and without a tracer
//! standing between the program and its signals afterwards.
//!
//! **Idea.** ptrace is used only in the short window after exec: the new image is stopped, a
//! few system calls are made in its name, control is handed to the runtime, and the tracer
//! lets go. The states of a target are types ([`Held`], [`Stopped`]), so that registers can
//! only be read of a process that stands still.
//!
//! **Caller's duties.** ptrace belongs to a thread: whatever launches or seizes a target must
//! also wait for it and let it go, on the same thread.
//!
//! Not for: rings, records, files. This crate knows the session only as a file descriptor.

mod attach;
mod cpu;
mod doctor;
mod error;
mod image;
mod inject;
mod launch;
mod leave;
mod place;
mod process;
mod refuse;
mod remote;
mod signals;
mod started;
mod stopped;
mod sys;

pub use attach::{inner_pid, Attached, Grip};
pub use cpu::xsave_table;
pub use doctor::{examine, Finding, Verdict};
pub use error::Error;
pub use inject::{inject, Payload, Serials};
pub use launch::{launch, program_is_wrong, run_native, survive_file_limit, Command, Held, Unfit};
pub use leave::{leave, Left};
pub use process::{keep_freed_memory, poll_pid, tell_and_close, Ended, Events, PidFd, Polled, Usage, Wake};
pub use refuse::{refusal, Refusal};
pub use signals::{interrupts, Interrupts};
pub use started::{started, Started};
pub use stopped::{interrupt, seize, wait, Event, Status, Stopped};

/// The runtime's ELF image, built by this crate's build script.
pub static IMAGE: &[u8] = include_bytes!(env!("MEMTRAIL_RUNTIME"));
