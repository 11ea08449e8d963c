//! Putting the runtime into a program that has just been exec'd.
//!
//! The image is mapped from a memfd of ours that the target opens through `/proc`, so its pages are
//! shared by all targets that have it at one address, which nearly always are all. The boot page is
//! mapped first and lends its space to the path names, so neither the target's stack nor its data
//! is ever written.
use crate::image::{page_ceil, Image, Segment};
use crate::place::Place;
use crate::remote::Remote;
use crate::stopped::{wait, Event, Stopped};
use crate::{sys, Error, IMAGE};
use memtrail_ring::boot::{how, state_offset, AppState, Boot};
use memtrail_ring::{PAGE, SESSION_BYTES, VERSION};
use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
const NO_FILE: u64 = u64::MAX;

/// What is put into targets: the image and the session, as files of this process.
#[derive(Debug)]
pub struct Payload {
    image: Image,
    /// The image as it must be mapped at an address, for each address at which a target has it.
    placed: RefCell<Vec<(u64, File)>>,
    session: RawFd,
}

/// Serials for the process and its thread: new ones at launch, the old ones after exec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Serials {
    pub thread: u32,
    pub process: u32,
    /// Whether the process has exec'ed while it was recorded.
    pub exec: bool,
}

impl Payload {
    /// `session` must stay open for as long as the payload is used.
    pub fn new(session: &OwnedFd) -> Result<Payload, Error> {
        Ok(Payload {
            image: Image::parse(IMAGE)?,
            placed: RefCell::default(),
            session: session.as_raw_fd(),
        })
    }

    /// A file of ours that holds the image for targets that have it at `base`.
    fn placed_at(&self, base: u64) -> Result<RawFd, Error> {
        let mut placed = self.placed.borrow_mut();
        if let Some((_, file)) = placed.iter().find(|(b, _)| *b == base) {
            return Ok(file.as_raw_fd());
        }
        let mut file = File::from(sys::memfd(c"memtrail-runtime")?);
        let written = file.write_all(&self.image.placed_at(base));
        written.map_err(|source| Error::System {
            call: "writing the runtime image",
            source,
        })?;
        let fd = file.as_raw_fd();
        placed.push((base, file));
        Ok(fd)
    }
}

/// Injects the runtime into a target at an exec event, hands control to it, and lets go.
///
/// On an error the target has been given back its registers and is returned, still stopped,
/// unless it has died.
pub fn inject(mut target: Stopped, payload: &Payload, serials: Serials) -> Result<(), (Error, Option<Stopped>)> {
    match prepare(&mut target, payload, serials) {
        Ok(signal) => target.detach(signal).map_err(|e| (e, None)),
        Err(e @ Error::Died { .. }) => Err((e, None)),
        Err(e) => Err((e, Some(target))),
    }
}

fn prepare(target: &mut Stopped, payload: &Payload, serials: Serials) -> Result<i32, Error> {
    finish_exec(target)?;
    let place = Place::find(target.tid(), payload.image.span())?;
    let file = payload.placed_at(place.image)?;
    let mut remote = Remote::begin(target)?;
    let mask = remote.mask();
    map_anonymous(&mut remote, place.boot, PAGE as u64)?;
    let image = open(&mut remote, place.boot, file, libc::O_RDONLY)?;
    for segment in &payload.image.segments {
        map_segment(&mut remote, segment, place.image, image)?;
    }
    remote.call("close", libc::SYS_close, [image, 0, 0, 0, 0, 0])?;
    let session = open(&mut remote, place.boot, payload.session, libc::O_RDWR)?;
    map(
        &mut remote,
        place.session,
        SESSION_BYTES as u64,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE,
        (session, 0),
    )?;
    remote.call("close", libc::SYS_close, [session, 0, 0, 0, 0, 0])?;
    let saved = *remote.saved();
    let boot = Boot {
        version: VERSION.into(),
        process: serials.process.into(),
        how: if serials.exec { how::EXEC } else { how::LAUNCHED },
        threads: 1,
        bytes: PAGE as u64,
        session: place.session,
        room: place.room,
        room_end: place.room_end,
        ..Boot::default()
    };
    let state = AppState {
        thread: serials.thread.into(),
        ..app_state(&saved, mask)
    };
    remote.write(place.boot, &boot_pages(&boot, &[state]))?;
    let signal = remote.end()?;
    let mut regs = saved;
    regs.rip = place.image + payload.image.entry;
    regs.rdi = place.boot;
    regs.orig_rax = u64::MAX;
    target.set_registers(&regs)?;
    Ok(signal)
}

/// At an exec event the kernel is still inside execve and would overwrite the result register;
/// the end of that system call is a stop from which user code is entered directly.
fn finish_exec(target: &Stopped) -> Result<(), Error> {
    let pid = target.tid();
    loop {
        target.resume_to_syscall()?;
        match wait(pid)? {
            Event::Syscall(_) => return Ok(()),
            Event::Ended(status) => {
                return Err(Error::Died {
                    pid,
                    how: format!("{status:?}"),
                })
            }
            _ => {}
        }
    }
}

pub(crate) fn map(
    remote: &mut Remote,
    addr: u64,
    bytes: u64,
    prot: i32,
    flags: i32,
    (fd, offset): (u64, u64),
) -> Result<(), Error> {
    let args = [addr, bytes, prot as u64, flags as u64, fd, offset];
    let got = remote.call("mmap", libc::SYS_mmap, args)?;
    if got == addr {
        return Ok(());
    }
    // A kernel older than MAP_FIXED_NOREPLACE takes the address as a mere wish.
    Err(Error::Remote {
        call: "mmap",
        source: std::io::Error::from_raw_os_error(libc::EEXIST),
    })
}

pub(crate) fn map_anonymous(remote: &mut Remote, addr: u64, bytes: u64) -> Result<(), Error> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    map(remote, addr, bytes, prot, ANONYMOUS, (NO_FILE, 0))
}

fn map_segment(remote: &mut Remote, s: &Segment, base: u64, image: u64) -> Result<(), Error> {
    let page = base + s.page();
    let (file_end, memory_end) = (page_ceil(s.file_span()), page_ceil(s.memory_span()));
    if s.file_bytes > 0 {
        let offset = s.offset - (s.address - s.page());
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
        map(remote, page, file_end, s.prot, flags, (image, offset))?;
        if s.memory_bytes > s.file_bytes {
            let tail = vec![0; (file_end - s.file_span()) as usize];
            remote.write(page + s.file_span(), &tail)?;
        }
    }
    let mapped = if s.file_bytes > 0 { file_end } else { 0 };
    if memory_end > mapped {
        map_anonymous(remote, page + mapped, memory_end - mapped)?;
    }
    Ok(())
}

/// Opens, in the target, a file this process has open as `fd`. `page` is lent to its path.
fn open(remote: &mut Remote, page: u64, fd: RawFd, flags: i32) -> Result<u64, Error> {
    let path = format!("/proc/{}/fd/{fd}\0", std::process::id());
    remote.write(page, path.as_bytes())?;
    let flags = (flags | libc::O_CLOEXEC) as u64;
    remote.call("open", libc::SYS_open, [page, flags, 0, 0, 0, 0])
}

/// The boot pages' bytes.
pub(crate) fn boot_pages(boot: &Boot, states: &[AppState]) -> Vec<u8> {
    let words = boot.words().into_iter().chain(states.iter().flat_map(AppState::words));
    let mut pages: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    debug_assert_eq!(pages.len(), state_offset(states.len()));
    pages.resize(boot.bytes as usize, 0);
    pages
}

/// What is at hand of a thread's state in its registers.
pub(crate) fn app_state(regs: &libc::user_regs_struct, mask: u64) -> AppState {
    AppState {
        registers: [
            regs.rax,
            regs.rcx,
            regs.rdx,
            regs.rbx,
            regs.rsp,
            regs.rbp,
            regs.rsi,
            regs.rdi,
            regs.r8,
            regs.r9,
            regs.r10,
            regs.r11,
            regs.r12,
            regs.r13,
            regs.r14,
            regs.r15,
            regs.rip,
            regs.eflags,
        ],
        fs_base: regs.fs_base,
        gs_base: regs.gs_base,
        mask,
        ..AppState::default()
    }
}
