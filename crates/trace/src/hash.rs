//! An order-sensitive hash of a thread's accesses: two replays that agree in it agree in every
//! access and in their order.
//!
//! From 0, for each access, modulo 2^64: `h ← (rotate-left(h, 5) xor w) · K`, where `w` is a sum of
//! the address, the instruction's address, and size and kind, each times a constant of its own. It
//! finds mistakes, not forgeries.
use memtrail_decode::{Block, Counts, DecodeError, Expander, Piece, Table, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Event, Kind, Reply, Thread, Wants};
use memtrail_plan::XsaveTable;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

const K: u64 = 0x9e37_79b9_7f4a_7c15;
const ADDRESS: u64 = 0xbf58_476d_1ce4_e5b9;
const PC: u64 = 0x94d0_49bb_1331_11eb;
const SHAPE: u64 = 0xd6e8_feb8_6659_fd93;

#[inline]
fn word(pc: u64, kind: Kind, addr: u64, size: u32) -> u64 {
    let shape = u64::from(size) << 2 | kind as u64;
    addr.wrapping_mul(ADDRESS)
        .wrapping_add(pc.wrapping_mul(PC))
        .wrapping_add(shape.wrapping_mul(SHAPE))
}

#[inline]
fn step(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(K)
}

/// The accesses of one thread: how many, and their hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadHash {
    pub thread: u32,
    pub accesses: u64,
    /// In JSON hexadecimal, as text: not every reader of numbers keeps 64 bits.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    pub hash: u64,
}

fn to_text<S: Serializer>(hash: &u64, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&format!("{hash:#018x}"))
}

fn from_text<'d, D: Deserializer<'d>>(input: D) -> Result<u64, D::Error> {
    let text = String::deserialize(input)?;
    let digits = text.strip_prefix("0x").unwrap_or_default();
    u64::from_str_radix(digits, 16).map_err(serde::de::Error::custom)
}

/// The hashes of all threads as one: how threads were interleaved makes no difference.
pub fn whole(threads: &[ThreadHash]) -> u64 {
    threads.iter().fold(0, |hash, t| {
        let hash = step(hash, t.thread.into());
        step(step(hash, t.accesses), t.hash)
    })
}

/// A sink that hashes, and counts on the way.
#[derive(Clone, Debug, Default)]
pub struct Hasher {
    /// Of the thread whose accesses came last.
    now: Option<ThreadHash>,
    others: BTreeMap<u32, ThreadHash>,
    counts: Counts,
}

impl Hasher {
    /// By thread; threads without accesses are not there.
    pub fn hashes(mut self) -> Vec<ThreadHash> {
        self.switch(None);
        self.others.into_values().collect()
    }

    /// What was counted; blocks and instructions are not.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn switch(&mut self, thread: Option<Thread>) {
        if let Some(now) = self.now.take() {
            self.others.insert(now.thread, now);
        }
        self.now = thread.map(|t| {
            self.others.remove(&t.0).unwrap_or(ThreadHash {
                thread: t.0,
                accesses: 0,
                hash: 0,
            })
        });
    }

    #[inline]
    fn of(&mut self, thread: Thread) -> &mut ThreadHash {
        if self.now.is_none_or(|n| n.thread != thread.0) {
            self.switch(Some(thread));
        }
        self.now.get_or_insert(ThreadHash {
            thread: thread.0,
            accesses: 0,
            hash: 0,
        })
    }
}

impl AccessSink for Hasher {
    fn accesses(&mut self, batch: &[Access]) {
        let Some(first) = batch.first() else { return };
        let state = self.of(first.thread);
        let mut hash = state.hash;
        // Tallies by kind: number, bytes.
        let mut tallies = [(0u64, 0u64); 4];
        for a in batch {
            hash = step(hash, word(a.pc, a.kind, a.addr, a.size));
            let tally = &mut tallies[a.kind as usize & 3];
            *tally = (tally.0 + 1, tally.1 + u64::from(a.size));
        }
        state.hash = hash;
        state.accesses += batch.len() as u64;
        let [reads, writes, prefetches, _] = tallies;
        self.counts.reads += reads.0;
        self.counts.read_bytes += reads.1;
        self.counts.writes += writes.0;
        self.counts.written_bytes += writes.1;
        self.counts.prefetches += prefetches.0;
    }

    fn wants(&self) -> Wants {
        Wants {
            loops: Some(0),
            ..Wants::default()
        }
    }

    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return Reply::NOTHING;
        };
        let first =
            |a: &memtrail_model::LoopAccess| (word(a.pc, a.kind, a.addr, a.size), a.stride.wrapping_mul(ADDRESS));
        let mut words: Vec<(u64, u64)> = run.body.iter().map(first).collect();
        let state = self.of(run.thread);
        let mut hash = state.hash;
        for _ in 0..run.trips {
            for (word, stride) in &mut words {
                hash = step(hash, *word);
                *word = word.wrapping_add(*stride);
            }
        }
        state.hash = hash;
        state.accesses += run.trips * run.body.len() as u64;
        run.body
            .iter()
            .for_each(|a| self.counts.add(a.kind, run.trips, a.size.into()));
        Reply::skip(run.trips)
    }
}

/// Hashes what is recorded while it is recorded, every access evaluated by itself.
#[derive(Debug)]
pub struct Verifier<'x> {
    table: Table,
    decoders: BTreeMap<u32, ThreadDecoder>,
    expander: Expander<'x, Hasher>,
}

impl<'x> Verifier<'x> {
    pub fn new(xsave: &'x XsaveTable) -> Verifier<'x> {
        Verifier {
            table: Table::default(),
            decoders: BTreeMap::new(),
            expander: Expander::new(xsave, Hasher::default()).one_by_one(),
        }
    }

    /// Blocks that were just defined.
    pub fn blocks(&mut self, blocks: &[Block]) -> Result<(), DecodeError> {
        let mut add = |b: &Block| self.table.insert_with(b.id, b.plan.clone(), b.sources.clone());
        blocks.iter().try_for_each(&mut add)
    }

    /// Records of one thread, in order.
    pub fn records(&mut self, piece: &Piece<'_>) -> Result<(), DecodeError> {
        let thread = piece.thread;
        let decoder = self
            .decoders
            .entry(thread.0)
            .or_insert_with(|| ThreadDecoder::new(thread));
        decoder.feed(&self.table, piece.words, &mut self.expander)
    }

    /// Nothing follows.
    pub fn finish(mut self) -> Result<Vec<ThreadHash>, DecodeError> {
        for decoder in self.decoders.values_mut() {
            decoder.finish(&self.table, &mut self.expander)?;
        }
        Ok(self.expander.into_sink().hashes())
    }
}
