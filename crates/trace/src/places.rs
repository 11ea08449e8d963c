//! Names for code without looking at sources: module and offset.
//!
//! **Problem.** An instruction is known by its address and its process. What was mapped there, processes tell as they go, but not
//! when; a forked process has its parent's code and does not tell of it again.
//!
//! **Idea.** Of each process, what was mapped at every address last; what was unmapped keeps its name, since it was executed before. What a
//! process did not map is what it was forked or spawned with: its parent's.
use crate::known::Known;
use memtrail_decode::Message;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// A piece of code in memory.
#[derive(Clone, Debug)]
struct Mapped {
    /// First address behind it.
    end: u64,
    /// Of the module's first byte, if it were mapped whole, modulo 2^64.
    base: u64,
    /// Empty if it is of no file.
    path: Box<[u8]>,
    ambiguous: bool,
}

#[derive(Clone, Debug, Default)]
struct Image {
    parent: Option<u32>,
    /// By first address; these do not overlap.
    mapped: BTreeMap<u64, Mapped>,
}

impl Image {
    fn find(&self, pc: u64) -> Option<&Mapped> {
        let (_, mapped) = self.mapped.range(..=pc).next_back()?;
        (pc < mapped.end).then_some(mapped)
    }

    /// Maps something, over what was there.
    fn map(&mut self, begin: u64, mut new: Mapped) {
        let before = self.mapped.range(..new.end).next_back();
        let mut overlap = before.filter(|(_, m)| m.end > begin).map(|(&at, _)| at);
        while let Some(at) = overlap {
            let Some(old) = self.mapped.remove(&at) else { break };
            new.ambiguous |= old.ambiguous || (old.base, &old.path) != (new.base, &new.path);
            if old.end > new.end {
                self.mapped.insert(new.end, old.clone());
            }
            if at < begin {
                self.mapped.insert(at, Mapped { end: begin, ..old });
            }
            let before = self.mapped.range(..new.end).next_back();
            overlap = before.filter(|(_, m)| m.end > begin).map(|(&at, _)| at);
        }
        self.mapped.insert(begin, new);
    }
}

/// Where an instruction comes from. Displayed as `libc.so.6+0x9a3b0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'p> {
    /// As the target's kernel names it.
    pub path: &'p [u8],
    /// In the file.
    pub offset: u64,
    /// Other code was at this address before, in the same process: what was executed may have been that.
    pub ambiguous: bool,
}

impl Place<'_> {
    /// The path's last part.
    pub fn module(&self) -> String {
        let name = self.path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.module(), self.offset)
    }
}

/// Why an instruction has no module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nowhere {
    #[error("no process told of code there")]
    Unmapped,
    #[error("the code there is of no file")]
    Anonymous,
}

/// All code that was ever mapped.
#[derive(Clone, Debug, Default)]
pub struct Places {
    images: BTreeMap<u32, Image>,
    /// The process each thread was in last.
    threads: HashMap<u32, u32>,
}

impl Places {
    pub fn new(known: &Known) -> Places {
        let mut places = Places::default();
        for (process, message) in &known.messages {
            places.learn(*process, message);
        }
        places
    }

    /// Takes what a process tells; in order.
    pub fn learn(&mut self, process: u32, message: &Message) {
        match message {
            Message::Process { process, parent, .. } => {
                // After an exec the process tells of itself again, without a parent.
                self.begin(*process, *parent);
            }
            Message::Thread { thread, .. } => {
                if let Some(before) = self.threads.insert(*thread, process) {
                    // A spawned child was a thread of its parent until its exec.
                    self.begin(process, before);
                }
            }
            Message::Map {
                addr,
                len,
                offset,
                path,
                ..
            } => {
                let new = Mapped {
                    end: addr.saturating_add(*len),
                    base: addr.wrapping_sub(*offset),
                    path: path.as_slice().into(),
                    ambiguous: false,
                };
                if *addr < new.end {
                    self.images.entry(process).or_default().map(*addr, new);
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, process: u32, parent: u32) {
        let image = self.images.entry(process).or_default();
        if parent < process {
            image.parent = Some(parent);
        }
    }

    fn mapped(&self, process: u32, pc: u64) -> Option<&Mapped> {
        let mut image = self.images.get(&process)?;
        loop {
            if let Some(mapped) = image.find(pc) {
                return Some(mapped);
            }
            // Parents have smaller numbers, so this ends.
            image = self.images.get(&image.parent?)?;
        }
    }

    /// What is at an address of a process.
    pub fn find(&self, process: u32, pc: u64) -> Result<Place<'_>, Nowhere> {
        let mapped = self.mapped(process, pc).ok_or(Nowhere::Unmapped)?;
        if mapped.path.is_empty() {
            return Err(Nowhere::Anonymous);
        }
        Ok(Place {
            path: &mapped.path,
            offset: pc.wrapping_sub(mapped.base),
            ambiguous: mapped.ambiguous,
        })
    }

    /// What is at an address in the first process that has a file there: reference points do not tell their process.
    pub fn find_anywhere(&self, pc: u64) -> Result<Place<'_>, Nowhere> {
        let mut why = Nowhere::Unmapped;
        for &process in self.images.keys() {
            match self.find(process, pc) {
                Ok(place) => return Ok(place),
                Err(Nowhere::Anonymous) => why = Nowhere::Anonymous,
                Err(Nowhere::Unmapped) => {}
            }
        }
        Err(why)
    }

    /// `module+offset`, or the address if there is no module.
    pub fn name(&self, process: u32, pc: u64) -> String {
        match self.find(process, pc) {
            Ok(place) => place.to_string(),
            Err(_) => format!("{pc:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(process: u32, parent: u32, how: u32) -> (u32, Message) {
        let pid = 100 + process;
        let message = Message::Process {
            process,
            parent,
            pid,
            how,
        };
        (process, message)
    }

    fn map(process: u32, addr: u64, len: u64, offset: u64, path: &str) -> (u32, Message) {
        let message = Message::Map {
            addr,
            len,
            offset,
            prot: 5,
            path: path.into(),
        };
        (process, message)
    }

    fn places(messages: &[(u32, Message)]) -> Places {
        let mut places = Places::default();
        for (process, message) in messages {
            places.learn(*process, message);
        }
        places
    }

    #[test]
    fn offsets_are_in_the_file() {
        let places = places(&[
            process(0, u32::MAX, 0),
            map(0, 0x40_1000, 0x2000, 0x1000, "/bin/ls"),
            map(0, 0x7f00, 0x100, 0, ""),
        ]);
        assert_eq!(places.name(0, 0x40_1000), "ls+0x1000");
        assert_eq!(places.name(0, 0x40_2fff), "ls+0x2fff");
        assert_eq!(places.name(0, 0x40_3000), "0x403000");
        assert_eq!(places.find(0, 0x40_0fff), Err(Nowhere::Unmapped));
        assert_eq!(places.find(0, 0x7f80), Err(Nowhere::Anonymous));
        assert_eq!(places.find(7, 0x40_1000), Err(Nowhere::Unmapped));
        assert_eq!(places.name(0, 0x7f80), "0x7f80");
    }

    #[test]
    fn a_forked_process_has_its_parents_code() {
        let places = places(&[
            process(0, u32::MAX, 0),
            map(0, 0x1000, 0x1000, 0, "/a"),
            map(0, 0x5000, 0x1000, 0, "/a"),
            process(1, 0, 1),
            process(2, 1, 1),
            map(2, 0x5000, 0x1000, 0x3000, "/b"),
        ]);
        assert_eq!(places.name(2, 0x1010), "a+0x10");
        assert_eq!(places.name(2, 0x5010), "b+0x3010");
        assert_eq!(places.name(1, 0x5010), "a+0x10");
        assert!(!places.find(2, 0x5010).unwrap().ambiguous);
    }

    #[test]
    fn the_latest_code_covers_what_was_there() {
        let all = [
            process(0, u32::MAX, 0),
            map(0, 0x1000, 0x4000, 0, "/old"),
            map(0, 0x8000, 0x1000, 0, "/old"),
            process(0, u32::MAX, 2),
            map(0, 0x2000, 0x1000, 0x100, "/new"),
            map(0, 0x4800, 0x4000, 0, "/c"),
            map(0, 0x2000, 0x1000, 0x100, "/new"),
        ];
        let places = places(&all);
        for (pc, name, ambiguous) in [
            (0x1fff, "old+0xfff", false),
            (0x2000, "new+0x100", true),
            (0x3000, "old+0x2000", false),
            (0x4800, "c+0x0", true),
            (0x87ff, "c+0x3fff", true),
            (0x8800, "old+0x800", false),
        ] {
            let place = places.find(0, pc).unwrap();
            assert_eq!(
                (place.to_string().as_str(), place.ambiguous),
                (name, ambiguous),
                "{pc:#x}"
            );
        }
    }

    #[test]
    fn what_makes_no_sense_does_no_harm() {
        let places = places(&[
            process(3, 3, 0),
            process(4, 9, 1),
            map(3, u64::MAX, u64::MAX, u64::MAX, "/x"),
            map(3, 5, 0, 0, "/x"),
            map(3, u64::MAX - 1, 5, 7, "/x"),
        ]);
        assert_eq!(places.find(3, 4), Err(Nowhere::Unmapped));
        assert_eq!(places.name(3, u64::MAX - 1), "x+0x7");
    }
}
