//! Everything a recording defines: blocks, processes, threads, mappings, modules.
use crate::blocks::Wrong;
use crate::chunk::{Head, Kind, StreamHead};
use crate::leaves::Leaves;
use crate::reader::{Chunk, Ending, Reader};
use crate::set::heads;
use crate::{blocks, events, Error, Ranks, Totals, SETS};
use memtrail_decode::{Block, DecodeError, Definition, ImageId, Images, Message, Module, Names, Table};
use memtrail_model::Thread;
use memtrail_plan::XsaveTable;
use memtrail_ring::message::FORKED;
use memtrail_ring::record::FIRST_BLOCK;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek};
use std::time::Duration;

/// What is known of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadInfo {
    pub serial: u32,
    /// Serial number of the process it began in.
    pub process: u32,
    /// Serial number of the process it was in last: see [`Known::space`].
    pub space: u32,
    pub tid: u32,
    /// Time stamp counter when it began.
    pub start: u64,
    /// Exit status and time stamp counter, if it ended by itself.
    pub end: Option<(u32, u64)>,
}

/// The chunks that define texts and hooks, by their offsets.
#[derive(Debug, Default)]
pub struct Definitions {
    pub texts: HashMap<u32, u64>,
    pub hooks: HashMap<u32, u64>,
}

/// Everything a recording defines, as far as it is whole.
#[derive(Debug)]
pub struct Known {
    pub table: Table,
    /// The same blocks as the leaves of descriptors.
    pub leaves: Leaves,
    pub xsave: XsaveTable,
    /// Everything processes told, with the serial number of the process, but for blocks.
    pub messages: Vec<(u32, Message)>,
    /// By serial number.
    pub threads: BTreeMap<u32, ThreadInfo>,
    /// What the numbers in notes stand for.
    pub names: Names,
    /// The ranks that were recorded, if it was a parallel job.
    pub ranks: Ranks,
    has_sets: bool,
    /// The number of blocks that are no copies of others, once there are copies.
    relocated_from: Option<usize>,
    /// The bytes of code met so far.
    code: blocks::CodeMap,
    /// Where in the file texts and hooks are defined.
    pub definitions: Definitions,
    /// Chunks of streams, in file order.
    pub streams: Vec<Chunk>,
    pub ending: Ending,
}

impl blocks::Catalog for Known {
    fn images(&self) -> &Images {
        self.table.images()
    }

    fn add(&mut self, block: Definition) -> Result<(), DecodeError> {
        let id = block.id;
        let blocks = self.table.blocks().len() as u64;
        if u64::from(id) > FIRST_BLOCK + MISSING_IDS + MISSING_IDS_PER_BLOCK * blocks {
            return Err(DecodeError::BadId { id: id.into() });
        }
        self.table.insert_definition(block)?;
        self.table.blocks().last().into_iter().for_each(|b| self.leaves.add(b));
        Ok(())
    }
}

/// Block ids come from one counter, so that there is a block for almost every id; these many may be
/// missing, and these many more for each block that is there. More are damage.
const MISSING_IDS: u64 = 1 << 22;
const MISSING_IDS_PER_BLOCK: u64 = 64;

impl Known {
    /// Reads all definitions of a recording. If one is damaged, nothing behind it is known:
    /// [`Known::ending`] says so.
    pub fn read<R: Read + Seek>(reader: &mut Reader<R>) -> Result<Known, Error> {
        let mut known = Known {
            table: Table::default(),
            leaves: Leaves::default(),
            xsave: reader.header().xsave_table(),
            messages: Vec::new(),
            threads: BTreeMap::new(),
            names: Names::default(),
            ranks: reader.header().ranks.clone(),
            has_sets: reader.header().features.iter().any(|f| f == SETS),
            relocated_from: None,
            code: blocks::CodeMap::default(),
            definitions: Definitions::default(),
            streams: Vec::new(),
            ending: reader.ending(),
        };
        for i in 0..reader.chunks().len() {
            let chunk = reader.chunks()[i];
            match known.learn(reader, &chunk) {
                Ok(()) => {}
                Err(Error::Damaged { at, what }) => {
                    known.ending = Ending::Damaged { at, what };
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(known)
    }

    fn learn<R: Read + Seek>(&mut self, reader: &mut Reader<R>, chunk: &Chunk) -> Result<(), Error> {
        let at = chunk.at;
        match chunk.kind() {
            Kind::Stream => self.streams.push(*chunk),
            Kind::Set => {
                let damaged = |what| Error::Damaged { at, what };
                if !self.has_sets {
                    return Err(damaged("a set in a recording that says it has none"));
                }
                let heads = heads(&reader.payload(chunk)?, chunk.head.raw_bytes).map_err(damaged)?;
                let member = |(m, (stream, _)): (usize, &(StreamHead, u32))| Chunk {
                    at,
                    head: Head {
                        kind: Kind::Stream,
                        stream: *stream,
                        ..chunk.head
                    },
                    member: Some(m as u32),
                };
                self.streams.extend(heads.iter().enumerate().map(member));
            }
            Kind::Blocks if self.relocated_from.is_some() => {
                let what = "blocks are defined behind copies of all blocks";
                return Err(Error::Damaged { at, what });
            }
            Kind::Blocks => {
                let columns = reader.columns(chunk)?;
                let mut code = std::mem::take(&mut self.code);
                let decoded = blocks::decode(&columns, &mut code, self);
                self.code = code;
                decoded.map_err(|wrong| match wrong {
                    Wrong::Layout(what) => Error::Damaged { at, what },
                    Wrong::Plan(source) => Error::Decode { at, source },
                })?;
            }
            Kind::Events => {
                let columns = reader.columns(chunk)?;
                let add = |process, message| self.event(process, message, at);
                events::decode(&columns, add).map_err(|wrong| match wrong {
                    events::Wrong::Layout(what) => Error::Damaged { at, what },
                    events::Wrong::Event(source) => Error::Decode { at, source },
                })?;
            }
            Kind::Index | Kind::End => {
                let what = "the index or the totals stand in the middle";
                return Err(Error::Damaged { at, what });
            }
        }
        Ok(())
    }

    fn event(&mut self, process: u32, message: Message, at: u64) -> Result<(), DecodeError> {
        self.table.learn(&message)?;
        if let Message::Relocated { ids, images } = &message {
            self.relocate(*ids, images)?;
        }
        match message {
            Message::Thread { thread, tid, tsc } => {
                let info = ThreadInfo {
                    serial: thread,
                    process,
                    space: process,
                    tid,
                    start: tsc,
                    end: None,
                };
                // A thread that execs tells of itself again.
                self.threads.entry(thread).or_insert(info).space = process;
            }
            Message::ThreadEnd { thread, status, tsc } => {
                if let Some(info) = self.threads.get_mut(&thread) {
                    info.end = Some((status, tsc));
                }
            }
            Message::Text { id, .. } => drop(self.definitions.texts.insert(id, at)),
            Message::Hook { id, .. } => drop(self.definitions.hooks.insert(id, at)),
            _ => {}
        }
        self.names.learn(&message);
        self.messages.push((process, message));
        Ok(())
    }

    /// The blocks that are no copies of others at other addresses.
    pub fn own_blocks(&self) -> &[Block] {
        let blocks = self.table.blocks();
        &blocks[..self.relocated_from.unwrap_or(blocks.len())]
    }

    /// Adds copies of all blocks in other images.
    fn relocate(&mut self, ids: u32, images: &[(ImageId, ImageId)]) -> Result<(), DecodeError> {
        let blocks = *self.relocated_from.get_or_insert(self.table.blocks().len());
        let other: HashMap<ImageId, ImageId> = images.iter().copied().collect();
        for i in 0..blocks {
            let block = self.table.blocks()[i].definition();
            let moved = block.relocated(self.table.images(), |image| match image {
                ImageId::UNKNOWN => Some(image),
                image => other.get(&image).copied(),
            })?;
            if let Some(mut moved) = moved {
                let id = u64::from(moved.id) + u64::from(ids);
                moved.id = u32::try_from(id).map_err(|_| DecodeError::BadId { id })?;
                blocks::Catalog::add(self, moved)?;
            }
        }
        Ok(())
    }

    /// What code comes from.
    pub fn modules(&self) -> &[Module] {
        self.table.images().modules()
    }

    /// The address space of a thread: the serial number of the process it was in last. Addresses of
    /// different spaces have nothing to do with each other. A child that is spawned (vfork and
    /// exec) begins as a thread of its parent and becomes a process of its own; all its accesses
    /// count as that one's, also the few before its exec. A process that execs by itself keeps its
    /// number.
    pub fn space(&self, thread: Thread) -> u32 {
        let heads = || self.streams.iter().map(|c| c.head.stream);
        let told = self.threads.get(&thread.0).map(|t| t.space);
        told.or_else(|| heads().find(|h| h.thread == thread.0).map(|h| h.process))
            .unwrap_or(0)
    }

    /// Processes that began as copies of others, and those.
    pub fn forks(&self) -> BTreeMap<u32, u32> {
        let fork = |(_, message): &(u32, Message)| match *message {
            Message::Process {
                process,
                parent,
                how: FORKED,
                ..
            } => Some((process, parent)),
            _ => None,
        };
        self.messages.iter().filter_map(fork).collect()
    }

    /// Time stamp counter when the recording began.
    pub fn beginning(&self) -> u64 {
        let threads = self.threads.values().map(|t| t.start);
        let streams = self.streams.iter().map(|c| c.head.stream.begin);
        threads.chain(streams).min().unwrap_or(0)
    }

    /// Time stamp counter so long after the recording began. `None` if the counter's rate is not
    /// known.
    pub fn ticks(&self, since: Duration) -> Option<u64> {
        let Ending::Complete(Totals { tsc_hz, .. }) = self.ending else {
            return None;
        };
        let ticks = since.as_nanos().checked_mul(tsc_hz.into())? / 1_000_000_000;
        let time = self
            .beginning()
            .saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX));
        (tsc_hz > 0).then_some(time)
    }

    /// Streams by the time they were begun; a thread's stay in file order.
    pub fn by_time(&self) -> Vec<Chunk> {
        let mut latest: HashMap<u32, u64> = HashMap::new();
        let mut keyed: Vec<(u64, Chunk)> = Vec::with_capacity(self.streams.len());
        for &chunk in &self.streams {
            let key = latest.entry(chunk.head.stream.thread).or_default();
            *key = (*key).max(chunk.head.stream.begin);
            keyed.push((*key, chunk));
        }
        keyed.sort_by_key(|&(key, _)| key);
        keyed.into_iter().map(|(_, chunk)| chunk).collect()
    }
}
