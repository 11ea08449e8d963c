//! Which functions of a target are hooked.
//!
//! **Problem.** A target calls functions by address; which of them allocate is known by their names
//! only, and those are in the symbol tables of its modules, which are not mapped.
//!
//! **Idea.** When a process tells that code of a file was mapped, the file's symbol tables are
//! read, and nothing else of it, and defined functions with the [names](names) of allocation
//! functions become *hooks*, at the addresses that the mapping gives them. They are numbered here,
//! told to the sink, and the process gets them as the answer to its question
//! ([`memtrail_ring::hook`]).
//!
//! **Invariant.** No file makes this panic, wait, or read more than the file has.
mod elf;
mod names;

pub use names::Allocators;

use memtrail_decode::{HookKind, Message};
use memtrail_ring::hook::{Action, Answer, Function, MOST};
use std::collections::{HashMap, VecDeque};
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// A function of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Found {
    /// Where its code begins in the file.
    offset: u64,
    name: String,
    function: Function,
}

/// A file as it was when it was read: device, number, size, time of its last change.
pub(crate) type Version = (u64, u64, u64, i64, i64);

pub(crate) fn version(meta: &Metadata) -> Version {
    (meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec())
}

/// A mapping of code.
pub(crate) struct Mapping<'m> {
    pub pid: u32,
    pub addr: u64,
    pub len: u64,
    pub offset: u64,
    pub path: &'m [u8],
}

impl Mapping<'_> {
    /// Where its file may be found: as the target sees it, or else as we do.
    pub fn files(&self) -> [PathBuf; 2] {
        let path = Path::new(std::ffi::OsStr::from_bytes(self.path));
        let mut root = PathBuf::from(format!("/proc/{}/root", self.pid));
        root.extend(path.components().skip(1));
        [root, path.into()]
    }
}

/// The hooks of a session.
pub(crate) struct Hooks<'s> {
    allocators: &'s Allocators,
    next_text: &'s AtomicU32,
    files: HashMap<Version, Arc<[Found]>>,
    texts: HashMap<String, u32>,
    /// Ids by address, function and text.
    ids: HashMap<(u64, u64, u32), u32>,
    /// What each slot is still to be told.
    untold: HashMap<usize, VecDeque<[u64; 3]>>,
}

impl<'s> Hooks<'s> {
    pub fn new(allocators: &'s Allocators, next_text: &'s AtomicU32) -> Hooks<'s> {
        Hooks {
            allocators,
            next_text,
            files: HashMap::new(),
            texts: HashMap::new(),
            ids: HashMap::new(),
            untold: HashMap::new(),
        }
    }

    /// The process of a slot told of a mapping. Returns what is to be said of the hooks in it.
    pub fn mapped(&mut self, slot: usize, mapping: &Mapping<'_>) -> Vec<Message> {
        let mut messages = Vec::new();
        if self.allocators.is_empty() || !mapping.path.starts_with(b"/") {
            return messages;
        }
        let found = self.functions(mapping);
        let inside = |f: &&Found| f.offset.checked_sub(mapping.offset).is_some_and(|d| d < mapping.len);
        for f in found.iter().filter(inside) {
            let address = mapping.addr.wrapping_add(f.offset - mapping.offset);
            let id = self.define(address, f, &mut messages);
            let hook = [address, f.function.pack(), id.into()];
            self.untold.entry(slot).or_default().push_back(hook);
        }
        messages
    }

    fn define(&mut self, address: u64, f: &Found, messages: &mut Vec<Message>) -> u32 {
        let Some(kind) = kind(f.function.action) else {
            return u32::MAX;
        };
        let text = *self.texts.entry(f.name.clone()).or_insert_with(|| {
            let id = self.next_text.fetch_add(1, Ordering::AcqRel);
            messages.push(Message::Text {
                id,
                text: f.name.clone().into_bytes(),
            });
            id
        });
        let next = self.ids.len() as u32;
        let known = self.ids.entry((address, f.function.pack(), text));
        *known.or_insert_with(|| {
            messages.push(Message::Hook {
                id: next,
                kind,
                by_user: f.function.by_user,
                address,
                text,
            });
            next
        })
    }

    /// The functions to hook in the file of a mapping; none if it cannot be read.
    fn functions(&mut self, mapping: &Mapping<'_>) -> Arc<[Found]> {
        for path in mapping.files() {
            let path = path.as_path();
            // Opening a fifo would wait for ever.
            let Some(meta) = path.metadata().ok().filter(Metadata::is_file) else {
                continue;
            };
            if let Some(found) = self.files.get(&version(&meta)) {
                return found.clone();
            }
            if let Some(found) = File::open(path).ok().and_then(|f| elf::functions(f, self.allocators)) {
                let found: Arc<[Found]> = found.into();
                self.files.insert(version(&meta), found.clone());
                return found;
            }
        }
        [].into()
    }

    /// Answers a question, if one was asked. `asked`: as it was before the last messages were
    /// taken.
    pub fn answer(&mut self, slot: usize, asked: u32, answer: &Answer) {
        if answer.answered.load(Ordering::Relaxed) == asked {
            return;
        }
        let untold = self.untold.entry(slot).or_default();
        let now = untold.len().min(MOST);
        for (place, hook) in answer.hooks.iter().zip(untold.drain(..now)) {
            for (place, word) in place.iter().zip(hook) {
                place.store(word, Ordering::Relaxed);
            }
        }
        answer.count.store(now as u32, Ordering::Relaxed);
        answer.more.store((!untold.is_empty()).into(), Ordering::Relaxed);
        answer.answered.store(asked, Ordering::Release);
        crate::session::wake(&answer.answered);
    }

    /// A slot is given back.
    pub fn forget(&mut self, slot: usize) {
        self.untold.remove(&slot);
    }
}

/// How a hook is told of; `None` if it is one of ours only.
fn kind(action: Action) -> Option<HookKind> {
    match action {
        Action::Allocate | Action::Store => Some(HookKind::Allocates),
        Action::Free => Some(HookKind::Frees),
        Action::Resize => Some(HookKind::Resizes),
        Action::Catch | Action::Jump | Action::Throw => None,
    }
}
