//! Events in the file: what processes told about themselves, and where their code came from.
//!
//! Records of variable length in the order in which they were told. Addresses and times are
//! distances from those of the record before.
use crate::varint::{put, put_signed, Bad, Fields};
use memtrail_decode::{DecodeError, HookKind, Image, ImageId, Message, Module};

pub(crate) const COLUMNS: usize = 1;

const PROCESS: u8 = 1;
const THREAD: u8 = 2;
const THREAD_END: u8 = 3;
const MAP: u8 = 4;
const UNMAP: u8 = 5;
const EXIT: u8 = 6;
const WARN: u8 = 7;
const MODULE: u8 = 8;
const TEXT: u8 = 9;
const HOOK: u8 = 10;
const IMAGE: u8 = 11;
/// Only with the feature `sets`.
const RELOCATED: u8 = 13;

/// What the next record is told by.
#[derive(Clone, Copy, Default)]
struct Likely {
    /// End of the mapping before.
    addr: u64,
    tsc: u64,
}

#[derive(Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    likely: Likely,
}

impl Encoder {
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
    pub fn take(&mut self) -> [Vec<u8>; COLUMNS] {
        [std::mem::take(self).bytes]
    }

    fn module(&mut self, module: &Module) {
        self.text(&module.path);
        match &module.build_id {
            None => put(&mut self.bytes, 0),
            Some(id) => {
                put(&mut self.bytes, 1 + id.len() as u64);
                self.bytes.extend_from_slice(id);
            }
        }
        put(&mut self.bytes, module.generated.into());
    }

    pub fn message(&mut self, process: u32, message: &Message) {
        match message {
            // Blocks have chunks of their own.
            Message::Block { .. } | Message::Path { .. } => {}
            Message::Process {
                process: serial,
                parent,
                pid,
                how,
            } => {
                self.begin(PROCESS, process);
                self.numbers(&[*serial, parent.wrapping_add(1), *pid, *how].map(u64::from));
            }
            Message::Thread { thread, tid, tsc } => {
                self.begin(THREAD, process);
                self.numbers(&[*thread, *tid].map(u64::from));
                self.tsc(*tsc);
            }
            Message::ThreadEnd { thread, status, tsc } => {
                self.begin(THREAD_END, process);
                self.numbers(&[*thread, *status].map(u64::from));
                self.tsc(*tsc);
            }
            Message::Map {
                addr,
                len,
                offset,
                prot,
                path,
            } => {
                self.begin(MAP, process);
                self.range(*addr, *len);
                self.numbers(&[*offset, (*prot).into()]);
                self.text(path);
            }
            Message::Unmap { addr, len } => {
                self.begin(UNMAP, process);
                self.range(*addr, *len);
            }
            Message::Exit { status } => {
                self.begin(EXIT, process);
                self.numbers(&[*status]);
            }
            Message::Warn { text } => {
                self.begin(WARN, process);
                self.text(text.as_bytes());
            }
            Message::Text { id, text } => {
                self.begin(TEXT, process);
                self.numbers(&[u64::from(*id)]);
                self.text(text);
            }
            Message::Hook {
                id,
                kind,
                by_user,
                address,
                text,
            } => {
                self.begin(HOOK, process);
                self.numbers(&[(*id).into(), *kind as u64, (*by_user).into()]);
                self.address(*address);
                self.numbers(&[(*text).into()]);
            }
            Message::Module(module) => {
                self.begin(MODULE, process);
                self.module(module);
            }
            Message::Image(image) => {
                self.begin(IMAGE, process);
                self.numbers(&[image.module.into()]);
                self.address(image.base);
            }
            Message::Relocated { ids, images } => {
                self.begin(RELOCATED, process);
                self.numbers(&[(*ids).into(), images.len() as u64]);
                for (from, to) in images {
                    self.numbers(&[from.0, to.0].map(u64::from));
                }
            }
        }
    }

    fn begin(&mut self, kind: u8, process: u32) {
        self.bytes.push(kind);
        put(&mut self.bytes, process.into());
    }
    fn numbers(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|&n| put(&mut self.bytes, n));
    }
    fn tsc(&mut self, tsc: u64) {
        put_signed(&mut self.bytes, tsc.wrapping_sub(self.likely.tsc));
        self.likely.tsc = tsc;
    }
    fn address(&mut self, addr: u64) {
        put_signed(&mut self.bytes, addr.wrapping_sub(self.likely.addr));
        self.likely.addr = addr;
    }
    fn range(&mut self, addr: u64, len: u64) {
        self.address(addr);
        put(&mut self.bytes, len);
        self.likely.addr = addr.wrapping_add(len);
    }
    fn text(&mut self, text: &[u8]) {
        put(&mut self.bytes, text.len() as u64);
        self.bytes.extend_from_slice(text);
    }
}

/// Why a column is no list of events.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Layout(Bad),
    Event(DecodeError),
}

impl From<Bad> for Wrong {
    fn from(what: Bad) -> Wrong {
        Wrong::Layout(what)
    }
}

/// Hands every event, and the process that told it, to `add`.
pub(crate) fn decode(
    [bytes]: &[Vec<u8>; COLUMNS],
    mut add: impl FnMut(u32, Message) -> Result<(), DecodeError>,
) -> Result<(), Wrong> {
    let mut decoder = Decoder {
        fields: Fields(bytes),
        likely: Likely::default(),
    };
    while !decoder.fields.0.is_empty() {
        let (process, message) = decoder.event()?;
        add(process, message).map_err(Wrong::Event)?;
    }
    Ok(())
}

struct Decoder<'b> {
    fields: Fields<'b>,
    likely: Likely,
}

impl Decoder<'_> {
    fn event(&mut self) -> Result<(u32, Message), Bad> {
        let kind = self.fields.byte()?;
        let process = self.fields.small()?;
        let fields = &mut self.fields;
        let message = match kind {
            PROCESS => Message::Process {
                process: fields.small()?,
                parent: fields.small::<u32>()?.wrapping_sub(1),
                pid: fields.small()?,
                how: fields.small()?,
            },
            THREAD => Message::Thread {
                thread: fields.small()?,
                tid: fields.small()?,
                tsc: self.tsc()?,
            },
            THREAD_END => Message::ThreadEnd {
                thread: fields.small()?,
                status: fields.small()?,
                tsc: self.tsc()?,
            },
            MAP => {
                let (addr, len) = self.range()?;
                Message::Map {
                    addr,
                    len,
                    offset: self.fields.number()?,
                    prot: self.fields.small()?,
                    path: self.text()?,
                }
            }
            UNMAP => {
                let (addr, len) = self.range()?;
                Message::Unmap { addr, len }
            }
            EXIT => Message::Exit {
                status: fields.number()?,
            },
            WARN => Message::Warn {
                text: String::from_utf8_lossy(&self.text()?).into_owned(),
            },
            TEXT => Message::Text {
                id: fields.small()?,
                text: self.text()?,
            },
            HOOK => {
                let (id, kind, by_user) = (fields.small()?, fields.small()?, fields.number()?);
                Message::Hook {
                    id,
                    kind: HookKind::from_number(kind).ok_or("a hook of unknown kind")?,
                    by_user: by_user == 1,
                    address: self.address()?,
                    text: self.fields.small()?,
                }
            }
            MODULE => Message::Module(self.module()?),
            IMAGE => Message::Image(Image {
                module: fields.small()?,
                base: self.address()?,
            }),
            RELOCATED => {
                let (ids, count) = (fields.small()?, fields.number()?);
                let pair = |_| Ok((ImageId(fields.small()?), ImageId(fields.small()?)));
                Message::Relocated {
                    ids,
                    images: (0..count).map(pair).collect::<Result<_, Bad>>()?,
                }
            }
            _ => return Err("an event of unknown kind"),
        };
        Ok((process, message))
    }

    fn module(&mut self) -> Result<Module, Bad> {
        let path = self.text()?;
        let build_id = match self.fields.number()? {
            0 => None,
            n => Some(self.fields.bytes(n - 1)?.to_vec()),
        };
        let generated = match self.fields.number()? {
            0 => false,
            1 => true,
            _ => return Err("a module of unknown kind"),
        };
        Ok(Module {
            path,
            build_id,
            generated,
        })
    }

    fn tsc(&mut self) -> Result<u64, Bad> {
        self.likely.tsc = self.likely.tsc.wrapping_add(self.fields.signed()?);
        Ok(self.likely.tsc)
    }
    fn address(&mut self) -> Result<u64, Bad> {
        self.likely.addr = self.likely.addr.wrapping_add(self.fields.signed()?);
        Ok(self.likely.addr)
    }
    fn range(&mut self) -> Result<(u64, u64), Bad> {
        let addr = self.address()?;
        let len = self.fields.number()?;
        self.likely.addr = addr.wrapping_add(len);
        Ok((addr, len))
    }
    fn text(&mut self) -> Result<Vec<u8>, Bad> {
        let length = self.fields.number()?;
        self.fields.bytes(length).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(u32, Message)> {
        let messages = vec![
            Message::Process {
                process: 0,
                parent: u32::MAX,
                pid: 4711,
                how: 0,
            },
            Message::Thread {
                thread: 0,
                tid: 4711,
                tsc: 1 << 40,
            },
            Message::Map {
                addr: 0x40_0000,
                len: 0x1000,
                offset: u64::MAX,
                prot: 5,
                path: b"/bin/\xff".to_vec(),
            },
            Message::Unmap {
                addr: 0x1000,
                len: u64::MAX,
            },
            Message::Warn { text: "well".into() },
            Message::Text {
                id: 7,
                text: b"mal\xffloc".to_vec(),
            },
            Message::Hook {
                id: u32::MAX,
                kind: HookKind::Resizes,
                by_user: true,
                address: 0x7fff_0000_1234,
                text: 7,
            },
            Message::ThreadEnd {
                thread: u32::MAX,
                status: 256,
                tsc: 5,
            },
            Message::Exit { status: 1 << 63 },
        ];
        let module = |path: &[u8], build_id: Option<&[u8]>, generated| {
            Message::Module(Module {
                path: path.to_vec(),
                build_id: build_id.map(<[u8]>::to_vec),
                generated,
            })
        };
        let image = |module, base| Message::Image(Image { module, base });
        let mut all = vec![
            module(b"/bin/ls", Some(&[7; 20]), false),
            module(b"", None, true),
            module(b"a", Some(b""), false),
            image(2, 0x7fff_0000_0000),
            image(0, u64::MAX),
            Message::Relocated {
                ids: 1000,
                images: vec![(ImageId(1), ImageId(2)), (ImageId(u32::MAX), ImageId(0))],
            },
        ];
        all.extend(messages);
        all.into_iter().map(|m| (3, m)).collect()
    }

    fn encoded() -> [Vec<u8>; COLUMNS] {
        let mut encoder = Encoder::default();
        for (process, message) in all() {
            encoder.message(process, &message);
        }
        encoder.take()
    }

    #[test]
    fn events_are_read_back_in_order() {
        let mut got = Vec::new();
        decode(&encoded(), |process, message| {
            got.push((process, message));
            Ok(())
        })
        .unwrap();
        assert_eq!(got, all());
    }

    #[test]
    fn half_an_event_is_refused() {
        let [bytes] = encoded();
        let mut ends = vec![];
        for length in 0..bytes.len() {
            let mut got = Vec::new();
            let take = |process, message| {
                got.push((process, message));
                Ok(())
            };
            if decode(&[bytes[..length].to_vec()], take).is_ok() {
                ends.push(length);
            }
            assert_eq!(got, all()[..got.len()]);
        }
        assert_eq!(ends.len(), all().len());
    }
}
