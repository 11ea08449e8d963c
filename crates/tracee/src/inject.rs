//! Putting the runtime into a program that has just been exec'd.
//!
//! The image is mapped from a memfd of ours that the target opens through `/proc`, so its pages
//! are shared by all targets and nothing is copied. The boot page is mapped first and lends its
//! space to the path names, so neither the target's stack nor its data is ever written.
use crate::image::{page_ceil, Image, Segment};
use crate::remote::Remote;
use crate::stopped::{wait, Event, Stopped};
use crate::{sys, Error, IMAGE};
use memtrail_ring::{Boot, BOOT_BASE, PAGE, SESSION_BASE, SESSION_BYTES, VERSION};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
const NO_FILE: u64 = u64::MAX;

/// What is put into targets: the image and the session, as files of this process.
#[derive(Debug)]
pub struct Payload {
    file: File,
    image: Image,
    session: RawFd,
}

/// Serials for the process and its thread: new ones at launch, the old ones after exec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Serials {
    pub thread: u32,
    pub process: u32,
}

impl Payload {
    /// `session` must stay open for as long as the payload is used.
    pub fn new(session: &OwnedFd) -> Result<Payload, Error> {
        let mut file = File::from(sys::memfd(c"memtrail-runtime")?);
        file.write_all(IMAGE).map_err(|source| Error::System {
            call: "writing the runtime image",
            source,
        })?;
        Ok(Payload {
            file,
            image: Image::parse(IMAGE)?,
            session: session.as_raw_fd(),
        })
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
    let mut remote = Remote::begin(target)?;
    map_anonymous(&mut remote, BOOT_BASE, PAGE as u64)?;
    let image = open(&mut remote, payload.file.as_raw_fd(), libc::O_RDONLY)?;
    for segment in &payload.image.segments {
        map_segment(&mut remote, segment, image)?;
    }
    remote.call("close", libc::SYS_close, [image, 0, 0, 0, 0, 0])?;
    let session = open(&mut remote, payload.session, libc::O_RDWR)?;
    map(
        &mut remote,
        SESSION_BASE,
        SESSION_BYTES as u64,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE,
        (session, 0),
    )?;
    remote.call("close", libc::SYS_close, [session, 0, 0, 0, 0, 0])?;
    let saved = *remote.saved();
    remote.write(BOOT_BASE, &boot_page(&saved, serials))?;
    let signal = remote.end()?;
    let mut regs = saved;
    regs.rip = payload.image.entry;
    regs.rdi = BOOT_BASE;
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

fn map(
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

fn map_anonymous(remote: &mut Remote, addr: u64, bytes: u64) -> Result<(), Error> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    map(remote, addr, bytes, prot, ANONYMOUS, (NO_FILE, 0))
}

fn map_segment(remote: &mut Remote, s: &Segment, image: u64) -> Result<(), Error> {
    let (file_end, memory_end) = (page_ceil(s.file_span()), page_ceil(s.memory_span()));
    if s.file_bytes > 0 {
        let offset = s.offset - (s.vaddr - s.page());
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
        map(remote, s.page(), file_end, s.prot, flags, (image, offset))?;
        if s.memory_bytes > s.file_bytes {
            let tail = vec![0; (file_end - s.file_span()) as usize];
            remote.write(s.page() + s.file_span(), &tail)?;
        }
    }
    let mapped = if s.file_bytes > 0 { file_end } else { 0 };
    if memory_end > mapped {
        map_anonymous(remote, s.page() + mapped, memory_end - mapped)?;
    }
    Ok(())
}

/// Opens, in the target, a file this process has open as `fd`.
fn open(remote: &mut Remote, fd: RawFd, flags: i32) -> Result<u64, Error> {
    let path = format!("/proc/{}/fd/{fd}\0", std::process::id());
    remote.write(BOOT_BASE, path.as_bytes())?;
    let flags = (flags | libc::O_CLOEXEC) as u64;
    remote.call("open", libc::SYS_open, [BOOT_BASE, flags, 0, 0, 0, 0])
}

/// The boot page's bytes: [`Boot`] in the target's (our own) layout, the rest zero.
fn boot_page(regs: &libc::user_regs_struct, serials: Serials) -> Vec<u8> {
    let registers = [
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
    ];
    let mut page = Vec::with_capacity(PAGE);
    for half in [VERSION, serials.thread, serials.process, 0] {
        page.extend_from_slice(&half.to_le_bytes());
    }
    for word in registers.iter().chain([&regs.fs_base, &regs.gs_base]) {
        page.extend_from_slice(&word.to_le_bytes());
    }
    debug_assert_eq!(page.len(), std::mem::size_of::<Boot>());
    page.resize(PAGE, 0);
    page
}

// The bytes above are laid out by hand; these tie them to the type.
const _: () = assert!(std::mem::offset_of!(Boot, registers) == 16);
const _: () = assert!(std::mem::offset_of!(Boot, fs_base) == 16 + 18 * 8);
const _: () = assert!(std::mem::size_of::<Boot>() == 16 + 20 * 8);
