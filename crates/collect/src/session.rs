//! The session file, mapped: the only unsafe code of this crate. `rustix` makes most system calls;
//! `libc` those it lacks, leases and robust futexes.
//!
//! **Invariants.** The mapping covers the whole file and lives as long as [`Session`]. Everything
//! in it is reached as atomics, because other processes write it at any time; a target gone mad
//! can therefore give us wrong values but never undefined behaviour.
use crate::hooks::Allocators;
use memtrail_ring::{
    buffer_offset, collector, record, slot_offset, Paths, Probes, Session as Header, Slot as Control, BUFFER_WORDS,
    MAGIC, PAGE, SESSION_BYTES, SLOTS, SLOT_BYTES, VERSION,
};
use rustix::fs::{fallocate, memfd_create, FallocateFlags, MemfdFlags};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use rustix::thread::futex::{self, Timespec};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// What a session is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub probes: Probes,
    /// Most instructions in a block.
    pub max_block: u32,
    pub paths: Paths,
    /// Acquire and throw away.
    pub discard: bool,
    /// Record children, too.
    pub follow: bool,
}

/// A session file of ours, mapped.
#[derive(Debug)]
pub struct Session {
    options: Options,
    base: NonNull<u8>,
    file: OwnedFd,
    allocators: Allocators,
}

// SAFETY: the mapping belongs to this value and is only reached through atomics.
unsafe impl Send for Session {}
// SAFETY: as above; shared references give out atomics only.
unsafe impl Sync for Session {}

/// A file in memory, which is gone when nobody has it open any more.
#[derive(Debug)]
pub struct MemoryFile(pub File);

impl MemoryFile {
    /// An empty one; the name is for those who look at this process.
    pub fn create(name: &CStr) -> io::Result<MemoryFile> {
        Ok(MemoryFile(memfd_create(name, MemfdFlags::CLOEXEC)?.into()))
    }

    /// Where this process can open it again.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

impl Session {
    /// Makes an empty session for this process to collect.
    pub fn create(options: &Options) -> io::Result<Session> {
        let memory = MemoryFile::create(c"memtrail-session")?;
        memory.0.set_len(SESSION_BYTES as u64)?;
        // Opened once more by name, because only such opens are counted for leases: see `shared`.
        let file = File::options().read(true).write(true).open(memory.path())?;
        Session::of(file, options)
    }

    /// Makes a session of a file that a target has made for it: empty, and of the right size.
    pub fn of(file: File, options: &Options) -> io::Result<Session> {
        let session = Session {
            options: *options,
            base: map(&file)?,
            file: file.into(),
            allocators: Allocators::none(),
        };
        session.initialise();
        Ok(session)
    }

    /// What this session is to do.
    pub fn options(&self) -> &Options {
        &self.options
    }

    fn initialise(&self) {
        let (h, options) = (self.header(), &self.options);
        let set = |field: &AtomicU32, value: u32| field.store(value, Ordering::Relaxed);
        set(&h.version, VERSION);
        set(&h.collector, collector::ALIVE);
        set(&h.collector_pid, std::process::id());
        set(&h.probes, options.probes as u32);
        set(&h.max_block, options.max_block);
        set(&h.paths, options.paths as u32);
        set(&h.discard, options.discard.into());
        set(&h.follow, options.follow.into());
        set(&h.next_block, record::FIRST_BLOCK as u32);
        // Serials 0 go to the launched process and its first thread.
        set(&h.next_thread, 1);
        set(&h.next_process, 1);
        set(&h.slots, SLOTS as u32);
        h.magic.store(MAGIC, Ordering::Release);
    }

    /// Lets no more than `slots` threads and processes be recorded at once: for tests.
    pub fn limit_slots(&self, slots: u32) {
        self.header().slots.store(slots, Ordering::Relaxed);
    }

    /// Notes what these functions do. Without, no function is hooked.
    pub fn with_allocators(mut self, allocators: Allocators) -> Session {
        let hooks = !allocators.is_empty();
        self.header().hooks.store(hooks.into(), Ordering::Relaxed);
        self.allocators = allocators;
        self
    }

    pub fn allocators(&self) -> &Allocators {
        &self.allocators
    }

    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    pub fn header(&self) -> &Header {
        // SAFETY: the header lies at the page-aligned start of the mapping and is all atomics.
        unsafe { self.base.cast().as_ref() }
    }

    /// The control page of a slot.
    pub fn control(&self, slot: usize) -> &Control {
        assert!(slot < SLOTS, "slot {slot} is outside the session");
        // SAFETY: the offset is page-aligned and inside the mapping; the type is all atomics.
        unsafe { self.base.add(slot_offset(slot)).cast().as_ref() }
    }

    /// The words of a buffer of a slot.
    pub fn buffer(&self, slot: usize, buffer: usize) -> &[AtomicU64] {
        assert!(slot < SLOTS && buffer < memtrail_ring::BUFFERS);
        let offset = slot_offset(slot) + buffer_offset(buffer);
        // SAFETY: slot and buffer are in range, so the words lie inside the mapping, aligned.
        unsafe {
            let first = self.base.add(offset).cast::<AtomicU64>();
            std::slice::from_raw_parts(first.as_ptr(), BUFFER_WORDS)
        }
    }

    /// Zeroes all buffers of a slot and gives their memory back to the system.
    pub fn clear(&self, slot: usize) -> io::Result<()> {
        let begin = slot_offset(slot) + PAGE;
        let length = SLOT_BYTES - PAGE;
        // The mapping stays as it is and reads as zeros.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, flags, begin as u64, length as u64)?)
    }

    /// Number of slots that have ever been claimed.
    pub fn slots(&self) -> usize {
        (self.header().slot_high.load(Ordering::Acquire) as usize).min(SLOTS)
    }

    /// Whether any other process still has the session mapped; `None` if the kernel cannot tell.
    ///
    /// A write lease is granted only while ours is the only open of the file. Mappings keep the
    /// open they were made from alive, through fork and until exec or exit. So this finds even a
    /// child that was forked a moment ago and has not run yet. Call it from the thread that
    /// injects: an open meets the lease otherwise.
    pub fn shared(&self) -> Option<bool> {
        let fd = self.file.as_raw_fd();
        // SAFETY: F_SETLEASE takes numbers.
        let granted = unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) } == 0;
        if !granted {
            let busy = io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
            return busy.then_some(true);
        }
        // SAFETY: as above.
        unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
        Some(false)
    }

    /// The processes that have the session mapped. Those whose parents have it, too, come last.
    pub fn sharers(&self) -> io::Result<Vec<i32>> {
        let inode = rustix::fs::fstat(&self.file)?.st_ino.to_string();
        let own = std::process::id() as i32;
        let has_it = |pid: i32| {
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            let ours = |l: &str| l.contains("/memfd:memtrail-session") && l.split_whitespace().nth(4) == Some(&inode);
            maps.lines().any(ours)
        };
        let pids = std::fs::read_dir("/proc")?.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
        let pids: Vec<i32> = pids.filter(|&pid| pid != own && has_it(pid)).collect();
        let parent = |pid: i32| -> Option<i32> {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            status
                .lines()
                .find_map(|l| l.strip_prefix("PPid:"))?
                .trim()
                .parse()
                .ok()
        };
        let (children, first) = pids
            .iter()
            .partition::<Vec<i32>, _>(|&&pid| parent(pid).is_some_and(|p| pids.contains(&p)));
        Ok([first, children].concat())
    }

    /// Tells every target that nobody drains any more, and wakes those that wait for us.
    pub fn abandon(&self) {
        self.header().collector.store(collector::GONE, Ordering::Release);
        for i in 0..self.slots() {
            let control = self.control(i);
            control.space.fetch_add(1, Ordering::Release);
            wake(&control.space);
            wake(&control.hooks.answered);
            let refused = control.request.compare_exchange(
                memtrail_ring::request::SEIZE,
                memtrail_ring::request::REFUSED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if refused.is_ok() {
                wake(&control.request);
            }
        }
    }
}

/// While this lives, the end of the thread that made it is seen by all targets.
///
/// The kernel walks a thread's list of robust futexes when the thread ends, in whatever way, and
/// marks those it owns. The list has one entry: head, offset from entry to futex, nothing pending;
/// then the entry, which leads back to the head.
#[derive(Debug)]
pub struct Hold<'s> {
    _list: Box<[usize; 4]>,
    /// The C library's list, to be put back.
    before: usize,
    /// Belongs to the thread that made it.
    _session: std::marker::PhantomData<(&'s Session, *const ())>,
}

const ROBUST_HEAD_BYTES: usize = 24;

impl Session {
    /// Lets targets see whether the calling thread, and so the collector, is alive.
    pub fn hold(&self) -> io::Result<Hold<'_>> {
        let word = &self.header().collector_life;
        let mut list = Box::new([0; 4]);
        let head = list.as_ptr() as usize;
        let entry = head + ROBUST_HEAD_BYTES;
        *list = [entry, (word.as_ptr() as usize).wrapping_sub(entry), 0, head];
        let (mut before, mut length) = (0usize, 0usize);
        // SAFETY: gettid takes nothing, get_robust_list fills its two results.
        let tid = unsafe {
            libc::syscall(libc::SYS_get_robust_list, 0, &raw mut before, &raw mut length);
            libc::gettid()
        };
        word.store(tid as u32, Ordering::Release);
        // SAFETY: the list is well-formed and stays where it is until `Hold` takes it away again.
        if unsafe { libc::syscall(libc::SYS_set_robust_list, head, ROBUST_HEAD_BYTES) } == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Hold {
            _list: list,
            before,
            _session: std::marker::PhantomData,
        })
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        // SAFETY: this is the list that the C library had registered for this thread.
        unsafe { libc::syscall(libc::SYS_set_robust_list, self.before, ROBUST_HEAD_BYTES) };
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and all references into it have ended with `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), SESSION_BYTES) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

fn map(file: &File) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let base = unsafe {
        mmap(
            std::ptr::null_mut(),
            SESSION_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::NORESERVE,
            file,
            0,
        )?
    };
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned null"))
}

/// Wakes everyone who sleeps on a word of the session, in whatever process.
pub fn wake(word: &AtomicU32) {
    // The word is mapped, so this cannot fail.
    let woken = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    debug_assert!(woken.is_ok(), "{woken:?}");
}

/// Sleeps while `word` holds `value`, at most for `timeout`.
pub fn sleep(word: &AtomicU32, value: u32, timeout: Duration) {
    // Longer than the kernel can count is for ever.
    let timeout = Timespec::try_from(timeout).ok();
    // Whether the word has changed, the time is over or a signal came: the caller looks again.
    let _ = futex::wait(word, futex::Flags::empty(), value, timeout.as_ref());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_session_is_empty_and_ours_alone() {
        let options = Options {
            probes: Probes::Loop,
            max_block: 64,
            paths: Paths::Hot,
            discard: false,
            follow: true,
        };
        let session = Session::create(&options).unwrap();
        assert_eq!(session.header().magic.load(Ordering::Relaxed), MAGIC);
        assert_eq!(session.slots(), 0);
        assert_eq!(session.shared(), Some(false));
        let other = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/self/fd/{}", session.file().as_raw_fd()))
            .unwrap();
        assert_eq!(session.shared(), Some(true));
        drop(other);
        assert_eq!(session.shared(), Some(false));
    }

    #[test]
    fn the_end_of_the_thread_that_holds_a_session_is_seen() {
        let options = Options {
            probes: Probes::Loop,
            max_block: 64,
            paths: Paths::Hot,
            discard: false,
            follow: true,
        };
        let session = Session::create(&options).unwrap();
        let life = || session.header().collector_life.load(Ordering::Acquire);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(session.hold().unwrap()));
        });
        assert_eq!(life() & collector::DIED, 0, "let go in time");
        std::thread::scope(|scope| {
            scope.spawn(|| std::mem::forget(session.hold().unwrap()));
        });
        // The scope ends a little before its threads do.
        let begin = std::time::Instant::now();
        while life() & collector::DIED == 0 {
            assert!(begin.elapsed() < Duration::from_secs(10), "the end was not seen");
        }
    }

    #[test]
    fn the_last_word_of_the_last_buffer_is_inside() {
        let options = Options {
            probes: Probes::None,
            max_block: 1,
            paths: Paths::Hot,
            discard: true,
            follow: false,
        };
        let session = Session::create(&options).unwrap();
        let words = session.buffer(SLOTS - 1, memtrail_ring::BUFFERS - 1);
        words[BUFFER_WORDS - 1].store(7, Ordering::Relaxed);
        assert_eq!(words[BUFFER_WORDS - 1].load(Ordering::Relaxed), 7);
    }
}
