//! Whether the notes of a recording hold together.
//!
//! Threads come one after the other here. In each, numbers rise, from 0 again where a new image
//! begins; what a note refers to is defined in a chunk before its own. Of an address space with a
//! single image all numbers from 0 on are there, once: that is known without keeping them, by how
//! many they are, which is the highest, and a sum of their hashes. A thread that did not end by
//! itself may have taken one number more.
use memtrail_decode::{Message, Noted};
use memtrail_model::{Note, Thread};
use memtrail_trace::{Ending, Error, Known};
use std::cell::Cell;
use std::collections::BTreeMap;

/// The numbers of an address space.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    /// Of those that begin by exec, or with the recording.
    images: u64,
    count: u64,
    /// One more than the highest.
    end: u64,
    sum: u64,
}

/// A hash of a number, of which many can be added.
fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

pub(crate) struct Notes<'k> {
    known: &'k Known,
    /// Offset of the chunk that is being replayed.
    at: &'k Cell<u64>,
    /// By the serial number of the process.
    spaces: BTreeMap<u32, Numbers>,
    /// The thread that is being replayed, the process whose numbers it takes, and the next that it
    /// may.
    current: Option<(Thread, u32, u64)>,
    wrong: Option<Error>,
}

impl<'k> Notes<'k> {
    pub fn new(known: &'k Known, at: &'k Cell<u64>) -> Notes<'k> {
        Notes {
            known,
            at,
            spaces: BTreeMap::new(),
            current: None,
            wrong: None,
        }
    }

    pub fn failed(&self) -> bool {
        self.wrong.is_some()
    }

    /// The next note of a thread; `None` for a fork.
    pub fn take(&mut self, thread: Thread, number: u64, note: Option<&Note>) {
        let fresh = note.is_some_and(Noted::is_new_image);
        let (space, next) = match self.current {
            Some((before, space, next)) if before == thread => (space, next),
            _ => (self.known.threads.get(&thread.0).map_or(0, |t| t.process), 0),
        };
        let (space, next) = if fresh {
            (self.known.space(thread), 0)
        } else {
            (space, next)
        };
        if number < next || fresh && number != 0 {
            return self.damaged("the numbers of a thread's notes do not rise");
        }
        self.current = Some((thread, space, number.saturating_add(1)));
        let numbers = self.spaces.entry(space).or_default();
        numbers.images += u64::from(fresh);
        numbers.count += 1;
        numbers.end = numbers.end.max(number.saturating_add(1));
        numbers.sum = numbers.sum.wrapping_add(mixed(number));
        let definitions = &self.known.definitions;
        let before = |defined: Option<&u64>| defined.is_some_and(|&d| d < self.at.get());
        let text = |id: u32| before(definitions.texts.get(&id));
        let defined = match note {
            Some(&(Note::Alloc { hook, .. } | Note::Free { hook, .. } | Note::Realloc { hook, .. })) => {
                before(definitions.hooks.get(&hook))
            }
            Some(&Note::Map { source: id, .. } | &Note::Name { text: id, .. }) => id == Note::ANONYMOUS || text(id),
            Some(&Note::Enter { text: id } | &Note::Leave { text: id }) => id == Note::ANONYMOUS || text(id),
            _ => true,
        };
        if !defined {
            self.damaged("a note refers to a text or a function that is not defined before it");
        }
    }

    fn damaged(&mut self, what: &'static str) {
        let at = self.at.get();
        self.wrong.get_or_insert(Error::Damaged { at, what });
    }

    /// All has come.
    pub fn finish(self) -> Result<(), Error> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if !matches!(self.known.ending, Ending::Complete(_)) {
            return Ok(());
        }
        let forks = self.known.forks();
        for (&space, numbers) in &self.spaces {
            let images = numbers.images + u64::from(forks.contains_key(&space));
            let missing = numbers.end.wrapping_sub(numbers.count);
            let expected = || (0..numbers.end).fold(0u64, |sum, n| sum.wrapping_add(mixed(n)));
            let dense = match missing {
                _ if images > 1 => true,
                0 => numbers.sum == expected(),
                _ => numbers.end >= numbers.count && missing <= self.killed(space),
            };
            if !dense {
                return Err(Error::Notes {
                    process: space,
                    count: numbers.count,
                    end: numbers.end,
                });
            }
        }
        Ok(())
    }

    /// How many threads of a process did not say that they end.
    fn killed(&self, process: u32) -> u64 {
        let ended = |m: &(u32, Message)| matches!(m, (p, Message::ThreadEnd { .. }) if *p == process);
        let began = |m: &(u32, Message)| matches!(m, (p, Message::Thread { .. }) if *p == process);
        let count = |is: &dyn Fn(&(u32, Message)) -> bool| self.known.messages.iter().filter(|m| is(m)).count();
        count(&began).saturating_sub(count(&ended)) as u64
    }
}
