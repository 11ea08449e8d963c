//! Taking a running process: all threads are stopped, the runtime is put in, all go on under it.
//!
//! **Problem.** A running process has threads in loops, in system calls, in handlers, with vector
//! registers in use. None may notice, and none may run on by itself while others are recorded.
//!
//! **Idea.** Threads are seized and stopped until a list of them brings no new one: those that stand
//! still make no others. One of them lends itself for a few system calls, with a `syscall`
//! instruction that the process has anyway, and runs the runtime's first steps; its registers,
//! extended ones included, are kept here meanwhile. Then all are sent into the runtime, and let go.
//!
//! Shared memory is a file that the *target* makes; we open it through its `/proc` entry. The other
//! way round it would not work from another pid namespace, or as another user.
//!
//! **System calls.** A thread that was stopped in one has the kernel's word for what is to become of
//! it in its registers. What the kernel would do with it is done here ([`restart`]), so that the
//! call begins anew under the runtime.
//!
//! **Invariant.** Until the threads are let go everything can be undone, and dropping a [`Grip`]
//! does so: the target runs on as it was.
use crate::image::{page_ceil, Image};
use crate::inject::{app_state, boot_pages, map, map_anonymous};
use crate::place::Place;
use crate::refuse::{field, not_permitted, Refusal};
use crate::remote::Remote;
use crate::stopped::{interrupt, look, seize, Event, Stopped};
use crate::{Error, IMAGE};
use memtrail_ring::boot::{how, report, state_offset, AppState, Boot, BOOT_WORDS, FLAGS, RIP, STATE_WORDS};
use memtrail_ring::{SESSION_BYTES, VERSION};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long threads may take to stop, and the runtime to make its first steps.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks at a thread that is to do something soon.
const NAP: Duration = Duration::from_micros(50);
/// What a thread of the runtime begins with.
const PLAIN_FLAGS: u64 = 0x202;
/// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
const SYNCHRONOUS: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10;
const CODE_64: u64 = 0x33;
/// No system call is in progress.
const NO_CALL: u64 = u64::MAX;

/// A thread in our hands.
#[derive(Debug)]
pub(crate) struct Taken {
    pub stopped: Stopped,
    /// What it goes on with if it is let go.
    pub regs: libc::user_regs_struct,
    pub state: AppState,
}

/// All threads of a running process, stopped. Dropping it lets them go on as they were.
#[derive(Debug)]
pub struct Grip {
    pid: i32,
    threads: Vec<Taken>,
    /// A `syscall` instruction of the target's own.
    gadget: Option<u64>,
    place: Option<Place>,
    mapped: Vec<(u64, u64)>,
    image: Image,
    since: Instant,
}

/// What must be known of an attached process to let it go again.
#[derive(Clone, Copy, Debug)]
pub struct Attached {
    pub pid: i32,
    /// How long its threads stood still.
    pub pause: Duration,
    pub(crate) boot: Boot,
}

impl Attached {
    /// The same for a process that was forked from it: the runtime lies where it does there.
    pub fn fork(&self, pid: i32) -> Attached {
        Attached { pid, ..*self }
    }
}

/// The id that a process has in its own pid namespace.
pub fn inner_pid(pid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let inner = field(&status, "NSpid").and_then(|v| v.split_whitespace().last()?.parse().ok());
    inner.unwrap_or(pid)
}

/// The threads of a process; none if it has ended.
pub(crate) fn tasks(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let names = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    names.collect()
}

pub(crate) fn is_dead(pid: i32, tid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
    status.map_or(true, |s| field(&s, "State").is_none_or(|s| s.starts_with(['Z', 'X'])))
}

/// A `syscall` instruction in the page of code that the kernel gives every process.
pub(crate) fn find_gadget(target: &mut Stopped) -> Option<u64> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.tid())).ok()?;
    let line = maps.lines().find(|l| l.ends_with("[vdso]"))?;
    let (start, rest) = line.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (number(start)?, number(rest.split(' ').next()?)?);
    let mut code = vec![0; (end - start).min(64 << 10) as usize];
    target.read(start, &mut code).ok()?;
    let at = code.windows(2).position(|bytes| bytes == [0x0f, 0x05])?;
    Some(start + at as u64)
}

/// What the kernel does with an interrupted system call when no handler is run: it is begun again,
/// or gone on with by another call. Calls that end with EINTR whenever their thread was stopped are
/// begun again as well, unless a signal waits: natively they would not have been interrupted.
/// Returns whether the kernel's own note of how to go on is needed.
pub(crate) fn restart(regs: &mut libc::user_regs_struct, signal_waits: bool) -> bool {
    const EINTR: i64 = -4;
    const RESTARTS: [i64; 3] = [-512, -513, -514];
    const RESTART_BLOCK: i64 = -516;
    /// epoll_wait, epoll_pwait, epoll_pwait2, semop, semtimedop, rt_sigtimedwait, io_getevents.
    const GIVE_UP: [u64; 7] = [232, 281, 441, 65, 220, 128, 208];
    let (call, result) = (regs.orig_rax, regs.rax as i64);
    let number = if (call as i64) < 0 {
        None
    } else if RESTARTS.contains(&result) || result == EINTR && GIVE_UP.contains(&call) && !signal_waits {
        Some(call)
    } else if result == RESTART_BLOCK {
        Some(libc::SYS_restart_syscall as u64)
    } else {
        None
    };
    if let Some(number) = number {
        regs.rax = number;
        regs.rip -= 2;
    }
    regs.orig_rax = NO_CALL;
    result == RESTART_BLOCK && number.is_some()
}

/// Whether a signal waits for a thread that it does not block.
pub(crate) fn signal_waits(pid: i32, tid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
    let mask = |name| field(&status, name).and_then(|v| u64::from_str_radix(v, 16).ok());
    let [thread, process, blocked] = ["SigPnd", "ShdPnd", "SigBlk"].map(|name| mask(name).unwrap_or(0));
    (thread | process) & !blocked != 0
}

/// A thread in the middle of a restartable sequence goes on with what is to be done if it is
/// interrupted.
fn leave_sequence(thread: &mut Taken) -> Result<(), Error> {
    const POINTER: u64 = 8;
    let area = thread.state.rseq[0];
    if area == 0 {
        return Ok(());
    }
    let mut word = [0; 8];
    thread.stopped.read(area + POINTER, &mut word)?;
    let at = u64::from_le_bytes(word);
    if at == 0 {
        return Ok(());
    }
    let mut described = [0; 32];
    thread.stopped.read(at, &mut described)?;
    let field = |n: usize| {
        described[8 * n..8 * n + 8]
            .iter()
            .rev()
            .fold(0, |w, &b| w << 8 | u64::from(b))
    };
    let (start, bytes, abort) = (field(1), field(2), field(3));
    if thread.regs.rip.wrapping_sub(start) < bytes {
        thread.regs.rip = abort;
        thread.stopped.write(area + POINTER, &[0; 8])?;
    }
    Ok(())
}

impl Grip {
    /// Seizes and stops all threads of a process.
    pub fn take(pid: i32) -> Result<Grip, Error> {
        let mut grip = Grip {
            pid,
            threads: Vec::new(),
            gadget: None,
            place: None,
            mapped: Vec::new(),
            image: Image::parse(IMAGE)?,
            since: Instant::now(),
        };
        while grip.take_more()? {}
        if grip.threads.is_empty() {
            return Err(Refusal::NoSuchProcess { pid }.into());
        }
        for thread in &mut grip.threads {
            if thread.regs.cs != CODE_64 {
                return Err(Refusal::OtherMode { pid }.into());
            }
            leave_sequence(thread)?;
            let mask = thread.stopped.signal_mask()?;
            thread.state = AppState {
                rseq: thread.state.rseq,
                ..app_state(&thread.regs, mask)
            };
        }
        grip.gadget = find_gadget(&mut grip.threads[0].stopped);
        Ok(grip)
    }

    /// Takes the threads that are there and not taken yet. Whether there were any.
    fn take_more(&mut self) -> Result<bool, Error> {
        let mut new = Vec::new();
        for tid in tasks(self.pid) {
            if self.threads.iter().any(|t| t.stopped.tid() == tid) {
                continue;
            }
            match seize(tid) {
                Ok(()) => {
                    new.push(tid);
                    // A thread that ends meanwhile is seen to.
                    let _ = interrupt(tid);
                }
                Err(_) if is_dead(self.pid, tid) => {}
                Err(Error::System { source, .. }) if source.raw_os_error() == Some(libc::EPERM) => {
                    self.let_go_of(&new);
                    return Err(not_permitted(self.pid).into());
                }
                Err(error) => {
                    self.let_go_of(&new);
                    return Err(error);
                }
            }
        }
        for (i, &tid) in new.iter().enumerate() {
            match self.stop(tid) {
                Ok(Some(thread)) => self.threads.push(thread),
                Ok(None) => {}
                Err(error) => {
                    self.let_go_of(&new[i..]);
                    return Err(error);
                }
            }
        }
        Ok(!new.is_empty())
    }

    /// Seized threads that are not ours yet go on: the kernel lets go of those that have not stopped
    /// when this process ends, at the latest.
    fn let_go_of(&self, tids: &[i32]) {
        for &tid in tids {
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until {
                match look(tid) {
                    Ok(None) => std::thread::sleep(NAP),
                    Ok(Some(Event::Signal(stopped, signal))) => {
                        let _ = stopped.detach(signal);
                        break;
                    }
                    Ok(Some(
                        Event::Other(stopped)
                        | Event::GroupStop(stopped)
                        | Event::Syscall(stopped)
                        | Event::Exec(stopped),
                    )) => {
                        let _ = stopped.detach(0);
                        break;
                    }
                    Ok(Some(Event::Ended(_))) | Err(_) => break,
                }
            }
        }
    }

    /// Waits until a seized thread has stopped where its state is whole. `None` if it ended.
    fn stop(&self, tid: i32) -> Result<Option<Taken>, Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            match look(tid) {
                Ok(None) if Instant::now() > until => {
                    return Err(Refusal::DoesNotStop { pid: self.pid, tid }.into());
                }
                Ok(None) => std::thread::sleep(NAP),
                // It gets its signal, and what the kernel does with its system call, first.
                Ok(Some(Event::Signal(stopped, signal))) => {
                    stopped.resume(signal)?;
                    let _ = interrupt(tid);
                }
                Ok(Some(Event::Exec(stopped))) => {
                    stopped.resume(0)?;
                    let _ = interrupt(tid);
                }
                Ok(Some(Event::Other(stopped) | Event::GroupStop(stopped) | Event::Syscall(stopped))) => {
                    let mut regs = stopped.registers()?;
                    restart(&mut regs, signal_waits(self.pid, tid));
                    let state = AppState {
                        rseq: stopped.rseq(),
                        ..AppState::default()
                    };
                    return Ok(Some(Taken { stopped, regs, state }));
                }
                Ok(Some(Event::Ended(_))) => return Ok(None),
                // Threads that another thread's exec made vanish are not waited for.
                Err(_) if is_dead(self.pid, tid) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Makes shared memory of the session's size in the target. It is empty, and ours to fill.
    pub fn share(&mut self) -> Result<OwnedFd, Error> {
        let (pid, gadget) = (self.pid, self.gadget);
        let place = Place::find(pid, self.image.span())?;
        let boot_bytes = page_ceil(state_offset(self.threads.len()) as u64);
        let first = &mut self.threads[0];
        let mut remote = Remote::with(&mut first.stopped, first.regs, gadget)?;
        map_anonymous(&mut remote, place.boot, boot_bytes)?;
        self.mapped.push((place.boot, boot_bytes));
        remote.write(place.boot, b"memtrail-session\0")?;
        let made = remote.call(
            "memfd_create",
            libc::SYS_memfd_create,
            [place.boot, libc::MFD_CLOEXEC.into(), 0, 0, 0, 0],
        )?;
        let shared = open_and_map(&mut remote, pid, made, &place);
        let closed = remote.call("close", libc::SYS_close, [made, 0, 0, 0, 0, 0]);
        self.mapped.push((place.session, SESSION_BYTES as u64));
        self.place = Some(place);
        remote.end()?;
        let shared = shared?;
        closed?;
        Ok(shared)
    }

    /// Puts the runtime in and lets all threads go on under it. `serial` gives a thread its serial.
    pub fn enter(mut self, process: u32, serial: impl FnMut() -> u32) -> Result<Attached, Error> {
        let boot = self.boot(process, serial)?;
        self.unmap(&[(self.place()?.boot, boot.bytes)])?;
        // From here on nothing can fail but what belongs to a thread that is being killed.
        for thread in std::mem::take(&mut self.threads) {
            let regs = libc::user_regs_struct {
                rip: boot.enter,
                gs_base: thread.state.area,
                eflags: PLAIN_FLAGS,
                orig_rax: NO_CALL,
                ..thread.regs
            };
            let stopped = thread.stopped;
            let _ = stopped.set_signal_mask(!SYNCHRONOUS);
            let _ = stopped.set_registers(&regs);
            let _ = stopped.detach(0);
        }
        self.mapped.clear();
        Ok(Attached {
            pid: self.pid,
            pause: self.since.elapsed(),
            boot,
        })
    }

    fn place(&self) -> Result<Place, Error> {
        self.place.ok_or(Error::NoRoom { pid: self.pid })
    }

    /// Maps the image and has the first thread run its first steps.
    fn boot(&mut self, process: u32, mut serial: impl FnMut() -> u32) -> Result<Boot, Error> {
        let place = self.place()?;
        self.map_image(&place)?;
        for thread in &mut self.threads {
            thread.state.thread = serial().into();
        }
        let states: Vec<AppState> = self.threads.iter().map(|t| t.state).collect();
        let boot = Boot {
            version: VERSION.into(),
            process: process.into(),
            how: how::ATTACHED,
            threads: states.len() as u64,
            bytes: page_ceil(state_offset(states.len()) as u64),
            session: place.session,
            room: place.room,
            room_end: place.room_end,
            ..Boot::default()
        };
        let entry = place.image + self.image.entry;
        let first = &mut self.threads[0];
        first.stopped.write(place.boot, &boot_pages(&boot, &states))?;
        first.stopped.set_signal_mask(!SYNCHRONOUS)?;
        let at = libc::user_regs_struct {
            rip: entry,
            rdi: place.boot,
            ..first.regs
        };
        let reported = run(&mut first.stopped, at, report::READY);
        first.stopped.set_signal_mask(first.state.mask)?;
        reported?;
        let mut words = [0u64; BOOT_WORDS];
        read_words(&mut first.stopped, place.boot, &mut words)?;
        let mut areas = Vec::new();
        for n in 0..states.len() {
            let mut words = [0u64; STATE_WORDS];
            read_words(&mut first.stopped, place.boot + state_offset(n) as u64, &mut words)?;
            areas.push(AppState::from_words(&words).area);
        }
        for (thread, area) in self.threads.iter_mut().zip(areas) {
            thread.state.area = area;
        }
        Ok(Boot::from_words(&words))
    }

    /// The image is written into memory of the target's own: a file of ours may be out of its reach.
    fn map_image(&mut self, place: &Place) -> Result<(), Error> {
        let image = &self.image;
        let file = image.placed_at(place.image);
        let first = &mut self.threads[0];
        let mut remote = Remote::with(&mut first.stopped, first.regs, self.gadget)?;
        for s in &image.segments {
            let (page, bytes) = (place.image + s.page(), page_ceil(s.memory_span()));
            map_anonymous(&mut remote, page, bytes)?;
            self.mapped.push((page, bytes));
            let content = s.offset as usize..(s.offset + s.file_bytes) as usize;
            remote.write(place.image + s.address, &file[content])?;
            remote.call("mprotect", libc::SYS_mprotect, [page, bytes, s.prot as u64, 0, 0, 0])?;
        }
        remote.end().map(|_| ())
    }

    fn unmap(&mut self, ranges: &[(u64, u64)]) -> Result<(), Error> {
        let first = &mut self.threads[0];
        unmap(&mut first.stopped, first.regs, self.gadget, ranges)
    }
}

/// Unmaps ranges, given by address and bytes, in the name of a thread that stands at the end of a
/// system call, or between instructions.
pub(crate) fn unmap(
    target: &mut Stopped,
    regs: libc::user_regs_struct,
    gadget: Option<u64>,
    ranges: &[(u64, u64)],
) -> Result<(), Error> {
    let mut remote = Remote::with(target, regs, gadget)?;
    for &(address, bytes) in ranges {
        remote.call("munmap", libc::SYS_munmap, [address, bytes, 0, 0, 0, 0])?;
    }
    remote.end().map(|_| ())
}

/// The target's file as it is seen from here, mapped there.
fn open_and_map(remote: &mut Remote, pid: i32, made: u64, place: &Place) -> Result<OwnedFd, Error> {
    let path = format!("/proc/{pid}/fd/{made}");
    let here = File::options().read(true).write(true).open(path);
    let here = here.map_err(|source| Error::System {
        call: "opening the target's shared memory",
        source,
    })?;
    here.set_len(SESSION_BYTES as u64).map_err(|source| Error::System {
        call: "making the shared memory",
        source,
    })?;
    // Opened by name once more, because only such opens are seen by leases: see `Session::shared`.
    // Where there is no /proc the target is watched in other ways.
    let name = format!("/proc/self/fd/{made}\0");
    remote.write(place.boot, name.as_bytes())?;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
    let opened = remote
        .call("open", libc::SYS_open, [place.boot, flags, 0, 0, 0, 0])
        .ok();
    let mapped = map(
        remote,
        place.session,
        SESSION_BYTES as u64,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE,
        (opened.unwrap_or(made), 0),
    );
    if let Some(opened) = opened {
        remote.call("close", libc::SYS_close, [opened, 0, 0, 0, 0, 0])?;
    }
    mapped.map(|()| here.into())
}

fn read_words(target: &mut Stopped, at: u64, words: &mut [u64]) -> Result<(), Error> {
    let mut bytes = vec![0; 8 * words.len()];
    target.read(at, &mut bytes)?;
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
    }
    Ok(())
}

/// What a thread at a system-call stop reports, and the address with it.
pub(crate) fn reported(regs: &libc::user_regs_struct) -> Option<(u64, u64)> {
    // So it looks as long as the call has not been made.
    let begins = regs.rax as i64 == -i64::from(libc::ENOSYS);
    (begins && regs.orig_rax == report::CALL && regs.rdi == report::MAGIC).then_some((regs.rsi, regs.rdx))
}

/// Has a thread run code of the runtime's from `at` on until it reports `what`; returns the address
/// it reports. Afterwards it stands at the end of a system call, with its extended registers as
/// before. What the runtime does if it has to give up is no end of the target's here.
pub(crate) fn run(target: &mut Stopped, mut at: libc::user_regs_struct, what: u64) -> Result<u64, Error> {
    let mut extended = target.extended()?;
    at.orig_rax = NO_CALL;
    at.eflags = PLAIN_FLAGS;
    target.set_registers(&at)?;
    let found = run_to_report(target, what);
    target.set_extended(&mut extended)?;
    found
}

fn run_to_report(target: &mut Stopped, what: u64) -> Result<u64, Error> {
    let (tid, until) = (target.tid(), Instant::now() + PATIENCE);
    let mut said = String::new();
    target.resume_to_syscall()?;
    loop {
        match look(tid)? {
            None if Instant::now() > until => {
                interrupt(tid)?;
                crate::stopped::wait(tid)?;
                return Err(failed(said, "it took too long"));
            }
            None => std::thread::sleep(NAP),
            Some(Event::Syscall(stopped)) => {
                let regs = stopped.registers()?;
                let begins = regs.rax as i64 == -i64::from(libc::ENOSYS);
                if let Some((report, address)) = reported(&regs) {
                    skip_call(target)?;
                    return match report == what {
                        true => Ok(address),
                        false => Err(failed(said, "there is not enough memory")),
                    };
                }
                match regs.orig_rax as i64 {
                    libc::SYS_exit_group if begins => {
                        skip_call(target)?;
                        return Err(failed(said, "it gave up"));
                    }
                    libc::SYS_write if begins && regs.rdi == 2 => {
                        let mut text = vec![0; regs.rdx.min(256) as usize];
                        target.read(regs.rsi, &mut text)?;
                        said.push_str(String::from_utf8_lossy(&text).trim());
                        skip_call(target)?;
                    }
                    _ => {}
                }
                target.resume_to_syscall()?;
            }
            Some(Event::Signal(_, signal)) if SYNCHRONOUS & 1 << (signal - 1) != 0 => {
                return Err(failed(said, "it crashed"));
            }
            // Only SIGSTOP comes through: the others have it as well, and stop when they are let go.
            Some(Event::Signal(_, _) | Event::GroupStop(_) | Event::Other(_) | Event::Exec(_)) => {
                target.resume_to_syscall()?;
            }
            Some(Event::Ended(status)) => {
                let how = format!("{status:?}");
                return Err(Error::Died { pid: tid, how });
            }
        }
    }
}

fn failed(said: String, else_: &str) -> Error {
    let why = if said.is_empty() { else_.to_string() } else { said };
    Error::Runtime { why }
}

/// At the begin of a system call: goes to its end without making it.
pub(crate) fn skip_call(target: &mut Stopped) -> Result<(), Error> {
    let mut regs = target.registers()?;
    regs.orig_rax = NO_CALL;
    target.set_registers(&regs)?;
    let tid = target.tid();
    target.resume_to_syscall()?;
    loop {
        match crate::stopped::wait(tid)? {
            Event::Syscall(_) => return Ok(()),
            Event::Ended(status) => {
                let how = format!("{status:?}");
                return Err(Error::Died { pid: tid, how });
            }
            _ => target.resume_to_syscall()?,
        }
    }
}

/// A thread's registers from its state.
pub(crate) fn registers_of(state: &AppState, like: libc::user_regs_struct) -> libc::user_regs_struct {
    let r = &state.registers;
    libc::user_regs_struct {
        rax: r[0],
        rcx: r[1],
        rdx: r[2],
        rbx: r[3],
        rsp: r[4],
        rbp: r[5],
        rsi: r[6],
        rdi: r[7],
        r8: r[8],
        r9: r[9],
        r10: r[10],
        r11: r[11],
        r12: r[12],
        r13: r[13],
        r14: r[14],
        r15: r[15],
        rip: r[RIP],
        eflags: r[FLAGS],
        fs_base: state.fs_base,
        gs_base: state.gs_base,
        orig_rax: NO_CALL,
        ..like
    }
}

impl Drop for Grip {
    fn drop(&mut self) {
        if !self.threads.is_empty() && !self.mapped.is_empty() {
            let mapped = std::mem::take(&mut self.mapped);
            // On an error the target may be gone; there is nobody left to tell.
            let _ = self.unmap(&mapped);
        }
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.stopped.set_registers(&thread.regs);
            let _ = thread.stopped.detach(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped_in(call: i64, result: i64) -> libc::user_regs_struct {
        // SAFETY: zero bytes are valid registers.
        let mut regs: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        (regs.orig_rax, regs.rax, regs.rip) = (call as u64, result as u64, 0x1002);
        regs
    }

    #[test]
    fn interrupted_calls_are_begun_again_as_the_kernel_does_it() {
        for (call, result, waits, expected) in [
            (0, -512, false, (0, 0x1000)),
            (0, -512, true, (0, 0x1000)),
            (34, -514, false, (34, 0x1000)),
            (56, -513, false, (56, 0x1000)),
            (35, -516, false, (219, 0x1000)),
            (232, -4, false, (232, 0x1000)),
            (232, -4, true, (-4, 0x1002)),
            (0, -4, false, (-4, 0x1002)),
            (0, 17, false, (17, 0x1002)),
            (-1, -512, false, (-512, 0x1002)),
        ] {
            let mut regs = stopped_in(call, result);
            let block = restart(&mut regs, waits);
            assert_eq!((regs.rax as i64, regs.rip), expected, "{call} {result}");
            assert_eq!(regs.orig_rax, u64::MAX);
            assert_eq!(block, result == -516);
        }
    }
}
