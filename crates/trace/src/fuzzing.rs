//! Entries for fuzzing: bytes in, no panic, no memory or time without bound. The targets in `fuzz/`
//! and a test call the same functions.
//!
//! Checksums would stop almost every mutation at the door. So there is an entry that makes them
//! right again, and there are entries behind them, where columns and streams stand unpacked.
use crate::chunk::{word, CHUNK_HEAD_BYTES, MAGIC};
use crate::footer::{Footer, FOOTER_BYTES};
use crate::stream::Zstd;
use crate::{blocks, events, index, Leaves};
use memtrail_decode::Counts;
use memtrail_decode::{
    Consumer, Counter, DecodeError, Expander, Image, Images, Linear, Mark, Message, Module, Run, State, Table, Tally,
    ThreadDecoder,
};
use memtrail_descriptor::{decode, Alphabet, Encoder, Leaf, Pack};
use memtrail_model::Thread;
use memtrail_plan::XsaveTable;

/// Leaves, words and accesses that an entry goes through, at most.
pub const ENOUGH: u64 = 1 << 14;

/// A consumer that has no patience.
pub struct Limited<C> {
    pub inner: C,
    left: u64,
}

impl<C> Limited<C> {
    pub fn new(inner: C) -> Limited<C> {
        Limited { inner, left: ENOUGH }
    }
}

impl<C: Consumer> Consumer for Limited<C> {
    const NEEDS_ADDRESSES: bool = C::NEEDS_ADDRESSES;

    fn run(&mut self, run: Run<'_>) -> Result<(), DecodeError> {
        self.left = self
            .left
            .checked_sub(run.complete.saturating_add(1))
            .ok_or(DecodeError::TooMany {
                id: run.block.id,
                count: run.complete.into(),
            })?;
        self.inner.run(run)
    }
    fn tally(&mut self, table: &Table) -> Option<&mut Tally> {
        self.inner.tally(table)
    }
    fn takes_linear(&self) -> bool {
        self.inner.takes_linear()
    }
    fn full(&self) -> bool {
        self.inner.full()
    }
    fn takes(&self, accesses: usize) -> bool {
        self.inner.takes(accesses)
    }
    fn linear(&mut self, linear: &Linear<'_>) {
        self.inner.linear(linear);
    }
    fn mark(&mut self, thread: Thread, mark: Mark) {
        self.inner.mark(thread, mark);
    }
}

/// Makes the checksums of a damaged file right again, as far as its chunks can be found.
pub fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some(length) = bytes.get(12..16).map(|b| word(b, 0) as usize) else {
        return bytes;
    };
    let mut at = 20usize.saturating_add(length);
    let Some(json) = bytes.get(20..at) else {
        return bytes;
    };
    let crc = crc32fast::hash(json).to_le_bytes();
    bytes[16..20].copy_from_slice(&crc);
    let mut last = at as u64;
    while bytes.get(at..at + 4) == Some(&MAGIC[..]) && bytes.len() >= at + CHUNK_HEAD_BYTES {
        let stored = word(&bytes, at + 56) as usize;
        let payload = at + CHUNK_HEAD_BYTES;
        let Some(crc) = bytes.get(payload..payload + stored).map(crc32fast::hash) else {
            break;
        };
        bytes[at + 64..at + 68].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[at..at + 68]);
        bytes[at + 68..at + 72].copy_from_slice(&crc.to_le_bytes());
        if word(&bytes, at + 4) == crate::ChunkKind::Index as u32 {
            last = at as u64;
        }
        at = payload + stored;
    }
    if bytes.len() == at + FOOTER_BYTES {
        bytes[at..].copy_from_slice(&Footer { index: last }.to_bytes());
    }
    bytes
}

/// Nothing is packed, so that mutations reach what is behind.
pub struct Plain;

impl Pack for Plain {
    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
    fn unpack(&self, packed: &[u8], length: usize) -> Option<Vec<u8>> {
        Zstd::new(0).unpack(packed, length)
    }
}

/// Leaves of any number of parameters, from many sources.
pub struct Any;

impl Alphabet for Any {
    fn leaf(&self, key: u32) -> Option<Leaf<'_>> {
        const SOURCES: [u8; 8] = [0, 1, 2, 3, 0, 15, 16, 255];
        (key < 1000).then_some(Leaf {
            arity: if key == 999 { 500 } else { key as usize % 9 },
            sources: &SOURCES,
        })
    }
}

/// Descriptors: decoded, expanded as far as patience goes, and encoded again.
pub fn descriptors(bytes: &[u8]) {
    const MOST: usize = 1 << 16;
    let Ok(events) = decode(bytes, &Any, &Plain, MOST) else {
        return;
    };
    let mut left = ENOUGH;
    for i in 0..events.len() {
        let mut visit = |_, _: &[u64]| {
            left = left.saturating_sub(1);
            left > 0
        };
        if !events
            .dictionary
            .expand(events.kind(i), events.parameters(i), &mut visit)
        {
            break;
        }
    }
    let mut again = Vec::new();
    Encoder::default().encode(&events, &Any, &Plain, &mut again);
    let back = decode(&again, &Any, &Plain, events.size());
    let same =
        back.is_ok_and(|b| b.len() == events.len() && (0..b.len()).all(|i| b.parameters(i) == events.parameters(i)));
    assert!(same, "what was decoded does not come back");
}

/// Takes a length of two bytes, then that number of bytes.
fn part<'b>(bytes: &mut &'b [u8]) -> &'b [u8] {
    let Some((&[low, high], rest)) = bytes.split_first_chunk() else {
        return std::mem::take(bytes);
    };
    let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (part, rest) = rest.split_at(length);
    *bytes = rest;
    part
}

fn parts<const N: usize>(bytes: &mut &[u8]) -> [Vec<u8>; N] {
    [(); N].map(|()| part(bytes).to_vec())
}

/// Columns of blocks, and records of theirs: each column, and then the words, with two bytes of
/// length before.
pub fn columns_of_blocks(bytes: &[u8]) {
    let mut rest = bytes;
    let columns = parts::<{ blocks::COLUMNS }>(&mut rest);
    let mut table = Table::default();
    for message in two_images() {
        let _ = table.learn(&message);
    }
    // Blocks before the damage are used.
    let _ = blocks::decode(&columns, &mut blocks::CodeMap::default(), &mut table);
    let mut leaves = Leaves::default();
    table.blocks().iter().for_each(|b| leaves.add(b));
    let words: Vec<u64> = rest
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        })
        .collect();
    let _ = leaves.parse(&words, &mut Default::default());
    let xsave = XsaveTable {
        xcr0: 7,
        components: Vec::new(),
    };
    let middle = words.len() / 2;
    let state = State {
        carried: [words.first().copied().unwrap_or(0), 0, 0],
        in_loop: table.blocks().last().map(|b| b.id),
        captured: words[..middle.min(20)].to_vec(),
        held: Vec::new(),
    };
    let mut counter = Limited::new(Counter::new(&xsave));
    feed(&table, &words, &state, &mut counter);
    counter.inner.counts(&table);
    feed(
        &table,
        &words,
        &state,
        &mut Limited::new(Expander::new(&xsave, Counts::default()).with_limit(ENOUGH)),
    );
}

/// The words in two batches, from the state and from nothing.
fn feed(table: &Table, words: &[u64], state: &State, consumer: &mut impl Consumer) {
    for mut decoder in [ThreadDecoder::new(Thread(1)), ThreadDecoder::resume(Thread(1), state)] {
        let halves = words.split_at(words.len() / 2);
        let fed = [halves.0, halves.1]
            .iter()
            .try_for_each(|half| decoder.feed(table, half, consumer));
        if fed.is_ok() && !consumer.full() {
            let _ = decoder.finish(table, consumer);
        }
    }
}

/// Events, and an index: each column with two bytes of length before.
pub fn columns_of_events(bytes: &[u8]) {
    let mut rest = bytes;
    let columns = parts::<{ events::COLUMNS }>(&mut rest);
    let mut images = Images::default();
    let _ = events::decode(&columns, |_, message| images.learn(&message));
    let columns = parts::<{ index::COLUMNS }>(&mut rest);
    let _ = index::decode(&columns, 100, 1 << 40);
}

/// A file and generated code, at the beginning of memory.
fn two_images() -> impl Iterator<Item = Message> {
    let module = |generated| {
        Message::Module(Module {
            path: if generated { Vec::new() } else { b"/a".to_vec() },
            build_id: None,
            generated,
        })
    };
    let image = |module| Message::Image(Image { module, base: 0 });
    [module(false), module(true), image(0), image(1)].into_iter()
}

/// The columns that [`columns_of_blocks`] takes, of these blocks, followed by `words`.
pub fn blocks_to_columns(blocks: &[memtrail_decode::Block], words: &[u64]) -> Vec<u8> {
    let mut encoder = blocks::Encoder::default();
    let mut out = Vec::new();
    two_images().for_each(|message| drop(encoder.learn(&message)));
    for block in blocks {
        // Those that fit no file fit no corpus either.
        let _ = encoder.add(block);
    }
    for column in encoder.take() {
        out.extend((column.len() as u16).to_le_bytes());
        out.extend(column);
    }
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    out
}
