//! The payload of a stream chunk: where decoding goes on from, when it was, and the descriptors.
//!
//! ```text
//! payload := state stamps descriptors
//! state   := rsp fs gs loop captured… held…      (numbers; loop: 0, or 1 + id; lists with their length before)
//! stamps  := count (accesses ticks)*             (each since the one before)
//! ```
//! A stamp says that so many accesses after the previous one the time was that many ticks later;
//! before the first is the chunk's begin. Between stamps time is taken to pass evenly.
use crate::known::Known;
use crate::leaves::{Kinds, Leaves, Numbers};
use crate::reader::{Chunk, Reader};
use crate::varint::{put, Bad, Fields};
use crate::walk::{walk, Plainly};
use crate::Error;
use memtrail_decode::{DecodeError, State};
use memtrail_descriptor::{fold, Decoder, Encoder, Events, Folder, Pack};
use std::cell::RefCell;
use std::io::{self, Read, Seek};
use zstd::bulk;

/// A point among the accesses of a chunk, and in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Accesses of the chunk before it.
    pub accesses: u64,
    pub tsc: u64,
}

/// Most stamps of a chunk.
const MOST_STAMPS: usize = 16;

/// Adds a stamp. Those on a straight line, to within a 32nd, are left out, and every other one when
/// there are many: a loop that runs for an hour does not need one for each of its buffers.
pub(crate) fn add_stamp(stamps: &mut Vec<Stamp>, begin: Stamp, new: Stamp) {
    if let Some(&last) = stamps.last() {
        let from = stamps.len().checked_sub(2).map_or(begin, |i| stamps[i]);
        let (accesses, ticks) = (
            u128::from(new.accesses - from.accesses),
            u128::from(new.tsc.saturating_sub(from.tsc)),
        );
        let expected = u128::from(last.accesses - from.accesses) * ticks / accesses.max(1);
        let off = u128::from(last.tsc.saturating_sub(from.tsc)).abs_diff(expected);
        if off <= ticks / 32 {
            stamps.pop();
        }
    }
    if stamps.len() >= MOST_STAMPS {
        let mut i = 0;
        stamps.retain(|_| {
            i += 1;
            i % 2 == 0
        });
    }
    stamps.push(new);
}

/// A thread's events and where they belong.
#[derive(Debug, Default)]
pub struct Stream {
    /// The decoder's state before the first word.
    pub state: State,
    pub stamps: Vec<Stamp>,
    pub events: Events,
}

/// zstd as the packer of descriptor streams. Its working memory is kept.
pub struct Zstd {
    level: i32,
    compressor: RefCell<Option<bulk::Compressor<'static>>>,
    decompressor: RefCell<Option<bulk::Decompressor<'static>>>,
    room: RefCell<Vec<u8>>,
}

/// A zstd block of 128 KB takes at least four bytes; anything denser is damage.
const DENSEST: usize = 1 << 15;

impl Zstd {
    pub fn new(level: i32) -> Zstd {
        Zstd {
            level,
            compressor: RefCell::new(None),
            decompressor: RefCell::new(None),
            room: RefCell::new(Vec::new()),
        }
    }

    fn try_pack(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let (mut compressor, mut room) = (self.compressor.borrow_mut(), self.room.borrow_mut());
        if compressor.is_none() {
            *compressor = Some(bulk::Compressor::new(self.level)?);
        }
        room.clear();
        room.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        if let Some(compressor) = &mut *compressor {
            compressor.compress_to_buffer(bytes, &mut *room)?;
        }
        Ok(room.clone())
    }

    fn try_unpack(&self, packed: &[u8], length: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let mut decompressor = self.decompressor.borrow_mut();
        if decompressor.is_none() {
            *decompressor = Some(bulk::Decompressor::new()?);
        }
        into.clear();
        into.reserve(length);
        if let Some(decompressor) = &mut *decompressor {
            decompressor.decompress_to_buffer(packed, into)?;
        }
        Ok(())
    }
}

impl Pack for Zstd {
    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        // Compressing memory to memory fails only without memory; then the bytes go as they are.
        self.try_pack(bytes).unwrap_or_else(|_| bytes.to_vec())
    }
    fn unpack(&self, packed: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.unpack_to(packed, length, &mut bytes).map(|()| bytes)
    }
    fn unpack_to(&self, packed: &[u8], length: usize, into: &mut Vec<u8>) -> Option<()> {
        if length / DENSEST > packed.len() {
            return None;
        }
        self.try_unpack(packed, length, into).ok()
    }
    #[inline(always)]
    fn soon<T>(&self, place: &T) {
        safe_arch::prefetch_t0(place);
    }
}

/// What encoding needs besides the events, kept from chunk to chunk.
pub(crate) struct Encoding {
    pub encoder: Encoder,
    pub quick: Zstd,
    pub thorough: Zstd,
}

impl Default for Encoding {
    fn default() -> Encoding {
        Encoding {
            encoder: Encoder::default(),
            quick: Zstd::new(1),
            thorough: Zstd::new(19),
        }
    }
}

/// Small chunks are worth more effort: there are few, and they are all there is.
pub(crate) const THOROUGH_BELOW: usize = 1 << 14;

/// The payload of a chunk.
pub(crate) fn encode(stream: &Stream, begin: u64, leaves: &Leaves, encoding: &mut Encoding) -> Vec<u8> {
    let mut out = Vec::new();
    put_begin(&stream.state, &stream.stamps, begin, &mut out);
    let small = stream.events.len() < THOROUGH_BELOW;
    let pack = if small { &encoding.thorough } else { &encoding.quick };
    encoding.encoder.encode(&stream.events, leaves, pack, &mut out);
    out
}

/// State and stamps, as they stand before the descriptors.
pub(crate) fn put_begin(state: &State, stamps: &[Stamp], begin: u64, out: &mut Vec<u8>) {
    state.carried.iter().for_each(|&c| put(out, c));
    put(out, state.in_loop.map_or(0, |id| 1 + u64::from(id)));
    for list in [&state.captured, &state.held] {
        put(out, list.len() as u64);
        list.iter().for_each(|&w| put(out, w));
    }
    put(out, stamps.len() as u64);
    let mut before = Stamp {
        accesses: 0,
        tsc: begin,
    };
    for &stamp in stamps {
        put(out, stamp.accesses.wrapping_sub(before.accesses));
        put(out, stamp.tsc.wrapping_sub(before.tsc));
        before = stamp;
    }
}

/// Compresses runs of whole records of a recording, each to a chunk of its own. Nothing but memory
/// is kept from one to the next.
pub struct Compressor<'k> {
    known: &'k Known,
    numbers: Numbers,
    kinds: Kinds,
    events: Events,
    folder: Folder,
    encoding: Encoding,
}

/// A run of records, compressed.
#[derive(Debug)]
pub struct Compressed {
    /// That of the chunk.
    pub payload: Vec<u8>,
    /// The bytes it decodes to.
    pub raw_bytes: u64,
    /// Records, those of a loop's iterations one by one.
    pub events: usize,
}

impl<'k> Compressor<'k> {
    pub fn new(known: &'k Known) -> Compressor<'k> {
        let mut numbers = Numbers::default();
        known.table.blocks().iter().for_each(|b| numbers.add(b));
        Compressor {
            known,
            numbers,
            kinds: Kinds::default(),
            events: Events::default(),
            folder: Folder::default(),
            encoding: Encoding::default(),
        }
    }

    /// `leaves` as in [`Piece::leaves`](memtrail_decode::Piece::leaves).
    pub fn compress(
        &mut self,
        words: &[u64],
        leaves: &[u32],
        state: State,
        begin: u64,
    ) -> Result<Compressed, DecodeError> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        events.dictionary.clear();
        self.kinds.clear();
        let all = &self.known.leaves;
        all.parse_numbered(words, leaves, &self.numbers, &mut self.kinds, &mut events)?;
        let (compressed, events) = pack(events, state, begin, all, &mut self.folder, &mut self.encoding);
        self.events = events;
        Ok(compressed)
    }
}

/// Folds and encodes events; returns them for their memory.
fn pack(
    mut events: Events,
    state: State,
    begin: u64,
    leaves: &Leaves,
    folder: &mut Folder,
    encoding: &mut Encoding,
) -> (Compressed, Events) {
    let records = events.len();
    fold(&mut events, folder);
    let raw_bytes = 8 * events.size() as u64;
    let stream = Stream {
        state,
        stamps: Vec::new(),
        events,
    };
    let payload = encode(&stream, begin, leaves, encoding);
    let compressed = Compressed {
        payload,
        raw_bytes,
        events: records,
    };
    (compressed, stream.events)
}

/// A chunk of its own from a run of whole records: its payload, and the bytes it decodes to.
pub fn compress(words: &[u64], state: State, begin: u64, leaves: &Leaves) -> Result<(Vec<u8>, u64), DecodeError> {
    let mut events = Events::default();
    leaves.parse(words, &mut events)?;
    let (mut folder, mut encoding) = (Folder::default(), Encoding::default());
    let (compressed, _) = pack(events, state, begin, leaves, &mut folder, &mut encoding);
    Ok((compressed.payload, compressed.raw_bytes))
}

/// What decoding needs, kept from chunk to chunk.
pub struct Decoding {
    pub(crate) decoder: Decoder,
    pub(crate) zstd: Zstd,
}

impl Default for Decoding {
    fn default() -> Decoding {
        Decoding {
            decoder: Decoder::default(),
            zstd: Zstd::new(0),
        }
    }
}

/// Reads a payload back, in place of what is in `stream`, whose memory is used again. `most` bounds
/// its events and their parameters.
pub(crate) fn read(
    payload: &[u8],
    begin: u64,
    leaves: &Leaves,
    most: usize,
    decoding: &mut Decoding,
    stream: &mut Stream,
) -> Result<(), Bad> {
    let mut fields = Fields(payload);
    (stream.state, stream.stamps) = take_begin(&mut fields, begin)?;
    let Decoding { decoder, zstd } = decoding;
    let decoded = decoder.decode(fields.0, leaves, zstd, most, &mut stream.events);
    decoded.map_err(|_| "the descriptors make no sense")
}

/// State and stamps, as [`put_begin`] puts them.
pub(crate) fn take_begin(fields: &mut Fields<'_>, begin: u64) -> Result<(State, Vec<Stamp>), Bad> {
    let mut state = State::default();
    for carried in &mut state.carried {
        *carried = fields.number()?;
    }
    state.in_loop = match fields.number()? {
        0 => None,
        id => Some(u32::try_from(id - 1).map_err(|_| "a loop's id is out of range")?),
    };
    state.captured = list(fields)?;
    state.held = list(fields)?;
    let mut stamps = Vec::new();
    let mut last = Stamp {
        accesses: 0,
        tsc: begin,
    };
    for _ in 0..fields.number()? {
        last.accesses = last.accesses.wrapping_add(fields.number()?);
        last.tsc = last.tsc.wrapping_add(fields.number()?);
        stamps.push(last);
    }
    Ok((state, stamps))
}

fn list(fields: &mut Fields<'_>) -> Result<Vec<u64>, Bad> {
    let length = fields.number()?;
    if length > memtrail_ring::MAX_RECORD_WORDS as u64 {
        return Err("a record of impossible length");
    }
    (0..length).map(|_| fields.number()).collect()
}

impl Stream {
    /// Hands all words to `take`, in batches of whole records, until it says no or `most` have been
    /// handed over. `Err` if there are more, or less.
    pub fn words(&self, most: u64, take: impl FnMut(&[u64]) -> bool) -> Result<(), Bad> {
        walk(self, most, &mut Plainly(take))
    }
}

/// Reads the stream in a chunk's payload into `stream`, in place of what is there.
pub fn parse(
    known: &Known,
    chunk: &Chunk,
    payload: &[u8],
    decoding: &mut Decoding,
    stream: &mut Stream,
) -> Result<(), Error> {
    let most = chunk.head.raw_bytes as usize / 8;
    let begin = chunk.head.stream.begin;
    if let Some(member) = chunk.member {
        let read = crate::set::read_member(payload, member, &known.leaves, most, decoding, stream);
        return read.map_err(|what| Error::Damaged { at: chunk.at, what });
    }
    read(payload, begin, &known.leaves, most, decoding, stream).map_err(|what| Error::Damaged { at: chunk.at, what })
}

/// The stream in a chunk.
pub fn stream<R: Read + Seek>(reader: &mut Reader<R>, known: &Known, chunk: &Chunk) -> Result<Stream, Error> {
    let mut stream = Stream::default();
    let payload = reader.payload(chunk)?;
    parse(known, chunk, &payload, &mut Decoding::default(), &mut stream)?;
    Ok(stream)
}

/// All record words of a chunk.
pub fn words<R: Read + Seek>(reader: &mut Reader<R>, known: &Known, chunk: &Chunk) -> Result<Vec<u64>, Error> {
    let stream = stream(reader, known, chunk)?;
    let mut all = Vec::new();
    let take = |words: &[u64]| {
        all.extend_from_slice(words);
        true
    };
    let expanded = stream.words(chunk.head.stream.words, take);
    expanded.map_err(|what| Error::Damaged { at: chunk.at, what })?;
    Ok(all)
}
