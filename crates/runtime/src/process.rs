//! The process as a whole: its definitions slot and what is announced there.
use crate::buffer::{self, session, slot};
use crate::lock::{rank, Lock};
use crate::maps::Range;
use crate::sys;
use crate::thread::Thread;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use memtrail_ring::{self as ring, hook, message, record, slot_kind};
use memtrail_translate::Stretch;

pub struct Process {
    pub serial: u32,
    /// The definitions slot, if the process has one.
    slot: Option<usize>,
    produced: u64,
    /// Words used in the current buffer.
    used: usize,
    /// Nothing is announced: the process is not followed, or the collector is gone.
    quiet: bool,
    /// Executable mappings that were told of.
    modules: Vec<Module>,
    /// Texts that were defined, with their ids.
    texts: BTreeMap<Vec<u8>, u32>,
}

/// An executable mapping.
struct Module {
    start: u64,
    end: u64,
    offset: u64,
    protection: u64,
    path: Vec<u8>,
}

/// Texts beyond these have no ids: a program that makes up names without end must not fill the
/// memory.
const MOST_TEXTS: usize = 1 << 16;

pub static PROCESS: Lock<Process, { rank::PROCESS }> = Lock::new(Process {
    serial: 0,
    slot: None,
    produced: 0,
    used: 0,
    quiet: true,
    modules: Vec::new(),
    texts: BTreeMap::new(),
});

impl Process {
    /// Append a message: head, then `words`, then `bytes` padded.
    pub fn send(&mut self, kind: u32, words: &[u64], bytes: &[u8]) {
        let Some(index) = self.slot.filter(|_| !self.quiet) else {
            return;
        };
        let n = 1 + words.len() + bytes.len().div_ceil(8);
        if self.used + n > ring::BUFFER_WORDS && !self.turn(index) {
            return;
        }
        let at = buffer::buffer_address(index, self.produced) + 8 * self.used as u64;
        // SAFETY: the buffer has room for n words, and is ours; it was zero, so the padding is too.
        unsafe {
            (at as *mut u64).write(message::head(kind, n));
            for (i, w) in words.iter().enumerate() {
                ((at + 8 + 8 * i as u64) as *mut u64).write(*w);
            }
            let to = (at + 8 + 8 * words.len() as u64) as *mut u8;
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        self.used += n;
        let head = &slot(index).buffers[(self.produced % ring::BUFFERS as u64) as usize];
        head.words.store(self.used as u64, Release);
    }

    /// Go on to the next buffer. False if the collector is gone.
    fn turn(&mut self, index: usize) -> bool {
        let c = slot(index);
        c.buffers[(self.produced % ring::BUFFERS as u64) as usize]
            .end
            .store(sys::tsc(), Relaxed);
        self.produced += 1;
        c.produced.store(self.produced, Release);
        buffer::ring_doorbell();
        while self.produced - c.consumed.load(Acquire) >= ring::BUFFERS as u64 {
            let seen = c.space.load(Acquire);
            c.waiting.store(1, SeqCst);
            if self.produced - c.consumed.load(SeqCst) < ring::BUFFERS as u64 {
                break;
            }
            buffer::ring_doorbell();
            sys::futex_wait(&c.space, seen, 200);
            if !buffer::collector_alive() {
                self.quiet = true;
                return false;
            }
        }
        let head = &c.buffers[(self.produced % ring::BUFFERS as u64) as usize];
        head.words.store(0, Relaxed);
        head.begin.store(sys::tsc(), Relaxed);
        self.used = 0;
        true
    }

    fn tell_module(&mut self, m: &Module) {
        self.send(
            message::MAP,
            &[
                m.start,
                m.end - m.start,
                m.offset,
                m.protection | (m.path.len() as u64) << 32,
            ],
            &m.path,
        );
    }

    /// The definitions slot, even if nothing is announced there.
    pub fn any_slot(&self) -> Option<&'static ring::Slot> {
        self.slot.map(slot)
    }

    /// The process is a child that is not to be recorded.
    pub fn go_unfollowed(&mut self, serial: u32) {
        self.serial = serial;
        self.slot = None;
        self.quiet = true;
    }

    pub fn request_slot(&self) -> Option<&'static ring::Slot> {
        self.any_slot().filter(|_| !self.quiet)
    }
}

/// Claim the definitions slot and announce the process; a forked one also tells what it has mapped.
/// `how`: 0 launched, 1 forked, 2 after exec.
pub fn begin(serial: u32, parent: u32, how: u32) {
    let mut p = PROCESS.lock();
    p.serial = serial;
    p.produced = 0;
    p.used = 0;
    p.quiet = true;
    p.slot = None;
    if !buffer::collector_alive() {
        return;
    }
    p.slot = buffer::claim(slot_kind::DEFINITIONS, serial, 0);
    p.quiet = session().discard.load(Relaxed) != 0;
    p.send(
        message::PROCESS,
        &[
            serial as u64 | (parent as u64) << 32,
            sys::getpid() as u64 | (how as u64) << 32,
        ],
        &[],
    );
    let inherited = core::mem::take(&mut p.modules);
    inherited.iter().for_each(|m| p.tell_module(m));
    p.modules = inherited;
}

/// Whether the collector can know of the process at all. Its threads are recorded only then.
pub fn is_listed() -> bool {
    PROCESS.lock().slot.is_some()
}

/// The process's serial.
pub fn serial() -> u32 {
    PROCESS.lock().serial
}

/// Tell the user something, by way of the collector.
pub fn warn(parts: &[&[u8]]) {
    let text = parts.concat();
    PROCESS.lock().send(message::WARN, &[text.len() as u64], &text);
}

pub fn announce_thread(t: &Thread) {
    if !t.unrecorded {
        let words = [t.serial as u64 | (t.tid as u64) << 32, sys::tsc()];
        PROCESS.lock().send(message::THREAD, &words, &[]);
    }
}

pub fn announce_end(t: &Thread, status: u32) {
    if !t.unrecorded {
        let words = [t.serial as u64 | (status as u64) << 32, sys::tsc()];
        PROCESS.lock().send(message::THREAD_END, &words, &[]);
    }
}

pub fn announce_exit(t: &Thread, status: u32) {
    if t.shares_memory_with_parent {
        // The process that ends is a guest in its parent's memory: the parent lives on.
        return announce_end(t, status);
    }
    PROCESS.lock().send(message::EXIT, &[status as u64], &[]);
}

/// An executable mapping was seen. Whether it is new, and of a file.
pub fn note_module(r: &Range, path: &[u8]) -> bool {
    let mut p = PROCESS.lock();
    if p.modules.iter().any(|m| (m.start, m.end) == (r.start, r.end)) {
        return false;
    }
    let module = Module {
        start: r.start,
        end: r.end,
        offset: r.offset,
        protection: 1 | (r.write as u64) << 1 | 4,
        path: path[..path.len().min(4096)].to_vec(),
    };
    p.tell_module(&module);
    p.modules.push(module);
    path.starts_with(b"/")
}

/// The functions to hook in the modules that were noted since this was asked last: address,
/// function, id.
pub fn ask_for_hooks(mut take: impl FnMut(u64, hook::Function, u32)) {
    let slot = PROCESS.lock().request_slot();
    let Some(slot) = slot.filter(|_| session().hooks.load(Relaxed) != 0) else {
        return;
    };
    let answer = &slot.hooks;
    loop {
        let asked = answer.asked.load(Relaxed).wrapping_add(1);
        answer.asked.store(asked, Release);
        buffer::ring_doorbell();
        loop {
            let answered = answer.answered.load(Acquire);
            if answered == asked {
                break;
            }
            if !buffer::collector_alive() {
                return;
            }
            sys::futex_wait(&answer.answered, answered, 200);
        }
        let count = answer.count.load(Relaxed) as usize;
        for [address, function, id] in answer.hooks.iter().take(count) {
            if let Some(function) = hook::Function::unpack(function.load(Relaxed)) {
                take(address.load(Relaxed), function, id.load(Relaxed) as u32);
            }
        }
        if answer.more.load(Relaxed) == 0 {
            return;
        }
    }
}

/// The id of a text, which is told when it is met first.
pub fn text(text: &[u8]) -> u64 {
    let mut p = PROCESS.lock();
    if let Some(&id) = p.texts.get(text) {
        return id as u64;
    }
    if p.texts.len() == MOST_TEXTS {
        return record::NO_TEXT;
    }
    let id = session().next_text.fetch_add(1, AcqRel);
    p.send(message::TEXT, &[id as u64 | (text.len() as u64) << 32], text);
    p.texts.insert(text.to_vec(), id);
    id as u64
}

/// Executable mappings went away.
pub fn note_unmap(start: u64, end: u64) {
    let mut p = PROCESS.lock();
    let before = p.modules.len();
    p.modules.retain(|m| m.end <= start || m.start >= end);
    if p.modules.len() != before {
        p.send(message::UNMAP, &[start, end - start], &[]);
    }
}

/// Take `ids` block ids and announce the block; it is a path if it has stretches.
pub fn define_block(ids: u32, pc: u64, stretches: &[Stretch], code: &[u8]) -> u32 {
    let id = session().next_block.fetch_add(ids, AcqRel);
    if id as u64 + ids as u64 > record::LAST_BLOCK {
        sys::die(&[b"block ids are used up"]);
    }
    let head = id as u64 | (code.len() as u64) << 32;
    if stretches.is_empty() {
        PROCESS.lock().send(message::BLOCK, &[head, pc], code);
    } else {
        let mut words = vec![head, stretches.len() as u64];
        words.extend(stretches.iter().flat_map(|s| [s.pc, s.bytes.into()]));
        PROCESS.lock().send(message::PATH, &words, code);
    }
    id
}
