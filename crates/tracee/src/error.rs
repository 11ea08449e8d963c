//! What can go wrong around a target process.
use std::io;

/// The kernel lets nobody look into a program whose file they may not read.
pub(crate) const UNREADABLE: &str = "cannot be recorded without permission to read it";

/// Errors of launching and injecting. Each carries the value it is about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{program}: command not found")]
    NotFound { program: String },
    #[error("{program}: cannot execute: {source}")]
    CannotExecute { program: String, source: io::Error },
    #[error("{program}: cannot execute: not a program, and no '#!' line names its interpreter")]
    NoInterpreter { program: String },
    #[error("{program}: cannot execute: its interpreter {interpreter} does not exist")]
    InterpreterNotFound { program: String, interpreter: String },
    #[error("{program}: {UNREADABLE}")]
    Unreadable { program: String },
    #[error("{program}: {what}; memtrail records 64-bit x86-64 programs only")]
    WrongMachine { program: String, what: String },
    #[error("{call} failed: {source}")]
    System { call: &'static str, source: io::Error },
    #[error("{call} in the target failed: {source}")]
    Remote { call: &'static str, source: io::Error },
    #[error("process {pid} ended before it could be recorded ({how})")]
    Died { pid: i32, how: String },
    #[error("process {pid} stopped in a way that was not expected (wait status {status:#x})")]
    UnexpectedStop { pid: i32, status: i32 },
    #[error("process {pid} leaves no room in its address space for memtrail's runtime")]
    NoRoom { pid: i32 },
    #[error("memtrail's runtime could not begin in the target: {why}")]
    Runtime { why: String },
    #[error("{0}")]
    Refused(#[from] crate::Refusal),
    #[error("the runtime image is damaged: {0}")]
    BadImage(&'static str),
}

impl Error {
    pub(crate) fn system(call: &'static str) -> Error {
        Error::System {
            call,
            source: io::Error::last_os_error(),
        }
    }

    /// The exit status that tells a shell what happened, as `env` would choose it.
    pub fn exit_status(&self) -> i32 {
        match self {
            Error::NotFound { .. } | Error::InterpreterNotFound { .. } => 127,
            Error::CannotExecute { .. }
            | Error::NoInterpreter { .. }
            | Error::Unreadable { .. }
            | Error::WrongMachine { .. } => 126,
            _ => 125,
        }
    }
}
