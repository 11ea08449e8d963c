//! Definition messages, parsed. See `memtrail_ring::message` for the layout.
use crate::images::{Image, ImageId, Module};
use crate::DecodeError;
use memtrail_plan::Stretch;
use memtrail_ring::message as m;

/// What a process tells about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    Block {
        id: u32,
        pc: u64,
        code: Vec<u8>,
    },
    /// A block of several stretches of code.
    Path {
        id: u32,
        stretches: Vec<Stretch>,
        code: Vec<u8>,
    },
    Process {
        process: u32,
        parent: u32,
        pid: u32,
        how: u32,
    },
    Thread {
        thread: u32,
        tid: u32,
        tsc: u64,
    },
    ThreadEnd {
        thread: u32,
        status: u32,
        tsc: u64,
    },
    Map {
        addr: u64,
        len: u64,
        offset: u64,
        prot: u32,
        path: Vec<u8>,
    },
    Unmap {
        addr: u64,
        len: u64,
    },
    Exit {
        status: u64,
    },
    Warn {
        text: String,
    },
    /// A text that notes and hooks refer to. Ids of texts are unique in a recording, and so are
    /// those of hooks.
    Text {
        id: u32,
        text: Vec<u8>,
    },
    /// A function whose calls are noted. Processes do not tell this: whoever collects has read
    /// their symbols.
    Hook {
        id: u32,
        kind: HookKind,
        /// The user named it, so that what it calls is noted as well.
        by_user: bool,
        address: u64,
        text: u32,
    },
    /// What code comes from: the next number of a module. As hooks, processes do not tell this.
    Module(Module),
    /// A module in memory: the next number of an image.
    Image(Image),
    /// All blocks that were told before are there once more, with ids so much higher, as far as all
    /// of their images have others that take their place: pairs of both. Only merged recordings have
    /// this.
    Relocated {
        ids: u32,
        images: Vec<(ImageId, ImageId)>,
    },
}

/// What a hooked function does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookKind {
    Allocates = 1,
    Frees = 2,
    Resizes = 3,
}

impl HookKind {
    pub fn from_number(number: u32) -> Option<HookKind> {
        [HookKind::Allocates, HookKind::Frees, HookKind::Resizes]
            .into_iter()
            .find(|&kind| kind as u32 == number)
    }
}

/// Parses a run of whole messages.
pub fn parse(words: &[u64]) -> Messages<'_> {
    Messages { words, at: 0 }
}

/// Iterator over messages. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Messages<'w> {
    words: &'w [u64],
    at: usize,
}

impl Iterator for Messages<'_> {
    type Item = Result<Message, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let &head = self.words.get(self.at)?;
        let (kind, length) = m::split(head);
        let payload = length
            .checked_add(self.at)
            .and_then(|end| self.words.get(self.at + 1..end));
        let parsed = payload.and_then(|p| one(kind, p));
        let error = DecodeError::BadMessage {
            head,
            at: self.at,
            words: self.words.len(),
        };
        match &parsed {
            Some(_) => self.at += length,
            None => self.at = self.words.len(),
        }
        Some(parsed.ok_or(error))
    }
}

fn low(word: u64) -> u32 {
    word as u32
}
fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

fn bytes(words: &[u64], count: usize) -> Option<Vec<u8>> {
    if count > words.len() * 8 {
        return None;
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.truncate(count);
    Some(bytes)
}

fn one(kind: u32, p: &[u64]) -> Option<Message> {
    Some(match (kind, p) {
        (m::BLOCK, [a, pc, code @ ..]) => Message::Block {
            id: low(*a),
            pc: *pc,
            code: bytes(code, high(*a) as usize)?,
        },
        (m::PATH, [a, count, rest @ ..]) => {
            let (stretches, code) = rest.split_at_checked(usize::try_from(*count).ok()?.checked_mul(2)?)?;
            let stretch = |s: &[u64]| Stretch {
                pc: s[0],
                bytes: low(s[1]),
            };
            Message::Path {
                id: low(*a),
                stretches: stretches.chunks_exact(2).map(stretch).collect(),
                code: bytes(code, high(*a) as usize)?,
            }
        }
        (m::PROCESS, [a, b, ..]) => Message::Process {
            process: low(*a),
            parent: high(*a),
            pid: low(*b),
            how: high(*b),
        },
        (m::THREAD, [a, tsc, ..]) => Message::Thread {
            thread: low(*a),
            tid: high(*a),
            tsc: *tsc,
        },
        (m::THREAD_END, [a, tsc, ..]) => Message::ThreadEnd {
            thread: low(*a),
            status: high(*a),
            tsc: *tsc,
        },
        (m::MAP, [addr, len, offset, a, path @ ..]) => Message::Map {
            addr: *addr,
            len: *len,
            offset: *offset,
            prot: low(*a),
            path: bytes(path, high(*a) as usize)?,
        },
        (m::UNMAP, [addr, len, ..]) => Message::Unmap { addr: *addr, len: *len },
        (m::TEXT, [a, text @ ..]) => Message::Text {
            id: low(*a),
            text: bytes(text, high(*a) as usize)?,
        },
        (m::EXIT, [status, ..]) => Message::Exit { status: *status },
        (m::WARN, [count, text @ ..]) => Message::Warn {
            text: String::from_utf8_lossy(&bytes(text, *count as usize)?).into_owned(),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back_in_order() {
        let words = [
            m::head(m::BLOCK, 4),
            64 | 3 << 32,
            0x1000,
            0x00c3_9090,
            m::head(m::THREAD, 3),
            5 | 77 << 32,
            9,
            m::head(m::WARN, 3),
            2,
            u64::from_le_bytes(*b"hi\0\0\0\0\0\0"),
        ];
        let got: Result<Vec<_>, _> = parse(&words).collect();
        let expected = vec![
            Message::Block {
                id: 64,
                pc: 0x1000,
                code: vec![0x90, 0x90, 0xc3],
            },
            Message::Thread {
                thread: 5,
                tid: 77,
                tsc: 9,
            },
            Message::Warn { text: "hi".into() },
        ];
        assert_eq!(got.unwrap(), expected);
    }

    #[test]
    fn nonsense_is_an_error_and_ends_the_iteration() {
        for words in [
            vec![0],
            vec![m::head(m::BLOCK, 0)],
            vec![m::head(m::BLOCK, 9), 1, 2],
            vec![m::head(m::BLOCK, 3), 1 | 100 << 32, 2],
            vec![m::head(99, 1)],
            vec![u64::MAX, u64::MAX],
        ] {
            let all: Vec<_> = parse(&words).collect();
            assert_eq!(all.len(), 1, "{words:?}");
            assert!(all[0].is_err(), "{words:?}");
        }
    }
}
