//! Starting a program so that nothing of it runs before we are ready.
//!
//! The child is forked and *held* before exec: its process id is known (files can be named after
//! it) while nothing of the program exists yet. It is seized while it waits, so its exec is an
//! event like every later one. Failures of exec come back through a pipe that exec closes.
use crate::error::UNREADABLE;
use crate::image::{loader, wrong_machine, NOT_ELF};
use crate::stopped::{wait, Event, Stopped};
use crate::{sys, Ended, Error};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A program to run and how.
#[derive(Clone, Debug)]
pub struct Command {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Run without address-space randomisation.
    pub fixed_addresses: bool,
}

/// A child that waits to be told to exec. Dropping it ends the child.
#[derive(Debug)]
pub struct Held {
    pid: i32,
    program: String,
    go: File,
    failure: File,
    done: bool,
}

/// Signals that we, or the standard library's start-up code, treat otherwise than our caller
/// wanted, and what the caller wanted: targets get that.
static AT_START: [(i32, AtomicUsize); 3] = [
    (libc::SIGPIPE, AtomicUsize::new(libc::SIG_DFL)),
    (libc::SIGCHLD, AtomicUsize::new(libc::SIG_DFL)),
    (libc::SIGXFSZ, AtomicUsize::new(libc::SIG_DFL)),
];

extern "C" fn note_dispositions() {
    for (signal, handler) in &AT_START {
        handler.store(disposition(*signal), Ordering::Relaxed);
    }
}

/// Runs before `main` and before the standard library changes SIGPIPE.
#[used]
#[link_section = ".init_array"]
static NOTE_DISPOSITIONS: extern "C" fn() = note_dispositions;

/// To be called first: a limit on file sizes must end in an error that can be reported, not in our
/// death. Targets are not affected.
pub fn survive_file_limit() {
    set_disposition(libc::SIGXFSZ, libc::SIG_IGN);
}

fn disposition(signal: i32) -> usize {
    let mut old = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with no new action sigaction only fills `old`, whose zero bytes are valid anyway.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr());
        old.assume_init().sa_sigaction
    }
}

fn set_disposition(signal: i32, handler: usize) {
    // SAFETY: `handler` is SIG_DFL or SIG_IGN, so no code of ours can be called by it.
    unsafe { libc::signal(signal, handler) };
}

/// Where to look for a program, as `execvp` does.
fn candidates(program: &OsStr) -> Vec<CString> {
    let bytes = program.as_bytes();
    if bytes.contains(&b'/') {
        return CString::new(bytes).into_iter().collect();
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path)
        .filter_map(|dir| {
            let dir = if dir.as_os_str().is_empty() {
                Path::new(".").to_path_buf()
            } else {
                dir
            };
            CString::new(dir.join(program).as_os_str().as_bytes()).ok()
        })
        .collect()
}

/// Everything the child needs, made before fork: afterwards it must not allocate.
struct Prepared {
    candidates: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    _args: Vec<CString>,
    fixed_addresses: bool,
    go: OwnedFd,
    failure: OwnedFd,
}

/// Forks a child that will become the program, seized and held before exec.
pub fn launch(command: &Command) -> Result<Held, Error> {
    let program = command.program.to_string_lossy().into_owned();
    let not_found = || Error::NotFound {
        program: program.clone(),
    };
    let mut args = Vec::new();
    for arg in std::iter::once(&command.program).chain(&command.args) {
        args.push(CString::new(arg.as_bytes()).map_err(|_| not_found())?);
    }
    let mut argv: Vec<_> = args.iter().map(|a| a.as_ptr()).collect();
    argv.push(std::ptr::null());
    let (go_read, go_write) = sys::pipe()?;
    let (failure_read, failure_write) = sys::pipe()?;
    let prepared = Prepared {
        candidates: candidates(&command.program),
        argv,
        _args: args,
        fixed_addresses: command.fixed_addresses,
        go: go_read,
        failure: failure_write,
    };
    // Were it ignored, ended children would vanish before their status could be read.
    set_disposition(libc::SIGCHLD, libc::SIG_DFL);
    let mine = go_write.as_raw_fd();
    // SAFETY: the child calls nothing but async-signal-safe functions until exec or exit.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(Error::system("fork")),
        0 => child(&prepared, mine),
        _ => hold(pid, program, go_write, failure_read),
    }
}

fn hold(pid: i32, program: String, go: OwnedFd, failure: OwnedFd) -> Result<Held, Error> {
    let held = Held {
        pid,
        program,
        go: File::from(go),
        failure: File::from(failure),
        done: false,
    };
    crate::stopped::seize_child(pid)?;
    Ok(held)
}

/// The child's side: waits for the word, execs, or reports why not.
fn child(prepared: &Prepared, parents_end: i32) -> ! {
    // SAFETY: only async-signal-safe calls, on memory prepared before the fork.
    unsafe {
        // With our copy open, the pipe would never report that the parent is gone.
        libc::close(parents_end);
        let mut word = 0u8;
        let go = prepared.go.as_raw_fd();
        if libc::read(go, (&raw mut word).cast(), 1) != 1 {
            libc::_exit(125);
        }
        for (signal, handler) in &AT_START {
            libc::signal(*signal, handler.load(Ordering::Relaxed));
        }
        if prepared.fixed_addresses {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        }
        let mut reason = libc::ENOENT;
        for path in &prepared.candidates {
            let environment = libc::environ.cast_const().cast();
            libc::execve(path.as_ptr(), prepared.argv.as_ptr(), environment);
            match *libc::__errno_location() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => reason = libc::EACCES,
                other => {
                    reason = other;
                    break;
                }
            }
        }
        let failure = prepared.failure.as_raw_fd();
        libc::write(failure, (&raw const reason).cast(), 4);
        libc::_exit(127)
    }
}

impl Held {
    /// The process id the program will have.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets the child exec. The result stands at its exec event: nothing of it has run.
    pub fn exec(mut self) -> Result<Stopped, Error> {
        self.go.write_all(&[1]).map_err(|source| Error::System {
            call: "releasing the child",
            source,
        })?;
        loop {
            match wait(self.pid)? {
                Event::Exec(stopped) => {
                    self.check_machine()?;
                    self.done = true;
                    return Ok(stopped);
                }
                Event::Ended(status) => {
                    self.done = true;
                    return Err(self.reason().unwrap_or(Error::Died {
                        pid: self.pid,
                        how: format!("{status:?}"),
                    }));
                }
                Event::Signal(stopped, signal) => stopped.resume(signal)?,
                Event::GroupStop(stopped) => stopped.listen()?,
                Event::Syscall(stopped) | Event::Other(stopped) => stopped.resume(0)?,
            }
        }
    }

    /// Why exec failed, if the child said so.
    fn reason(&mut self) -> Option<Error> {
        let mut errno = [0; 4];
        self.failure.read_exact(&mut errno).ok()?;
        let program = self.program.clone();
        let file = || candidates(OsStr::new(&self.program)).iter().find_map(open_program);
        Some(match i32::from_ne_bytes(errno) {
            libc::ENOENT | libc::ENOTDIR => match file().as_deref().and_then(interpreter) {
                Some(interpreter) => Error::InterpreterNotFound { program, interpreter },
                None => Error::NotFound { program },
            },
            libc::ENOEXEC => match file().as_deref().and_then(wrong_machine) {
                Some(what) if what != NOT_ELF => Error::WrongMachine { program, what },
                _ => Error::NoInterpreter { program },
            },
            errno => Error::CannotExecute {
                program,
                source: std::io::Error::from_raw_os_error(errno),
            },
        })
    }

    fn check_machine(&self) -> Result<(), Error> {
        match program_is_wrong(self.pid) {
            None => Ok(()),
            Some(Unfit::Unreadable) => Err(Error::Unreadable {
                program: self.program.clone(),
            }),
            Some(Unfit::Machine(what)) => Err(Error::WrongMachine {
                program: self.program.clone(),
                what,
            }),
        }
    }
}

/// Runs a command without recording it, in the same way otherwise: the base of comparisons.
pub fn run_native(command: &Command) -> Result<(Ended, Duration), Error> {
    let target = launch(command)?.exec()?;
    let (pid, begin) = (target.tid(), Instant::now());
    target.detach(0)?;
    let ended = crate::process::wait_for_end(pid)?;
    Ok((ended, begin.elapsed()))
}

/// Why a program cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is for another machine: this one.
    Machine(String),
    /// It may be executed but not read.
    Unreadable,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unfit::Machine(what) => f.write_str(what),
            Unfit::Unreadable => f.write_str(UNREADABLE),
        }
    }
}

/// Why the program a process runs cannot be recorded, if so.
pub fn program_is_wrong(pid: i32) -> Option<Unfit> {
    let mut header = [0; 64];
    match File::open(format!("/proc/{pid}/exe")).and_then(|mut f| f.read_exact(&mut header)) {
        Ok(()) => wrong_machine(&header).map(Unfit::Machine),
        // The file may not be read; what counts is whether the process may.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
            memory.is_err().then_some(Unfit::Unreadable)
        }
        Err(e) => Some(Unfit::Machine(format!("its program file cannot be read ({e})"))),
    }
}

/// The beginning of a program's file, if there is one that can be read.
fn open_program(path: &CString) -> Option<Vec<u8>> {
    let file = File::open(OsStr::from_bytes(path.as_bytes())).ok()?;
    let mut begin = Vec::new();
    file.take(64 * 1024).read_to_end(&mut begin).ok()?;
    Some(begin)
}

/// What a program wants to be started by: the `#!` line of a script, or the loader of an ELF file.
fn interpreter(begin: &[u8]) -> Option<String> {
    let path = match begin.strip_prefix(b"#!") {
        Some(line) => line.trim_ascii_start().split(|b| b.is_ascii_whitespace()).next()?,
        None => loader(begin)?,
    };
    Some(String::from_utf8_lossy(path).into_owned())
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.done {
            sys::kill(self.pid, libc::SIGKILL);
            let _ = sys::waitpid(self.pid, 0);
        }
    }
}
