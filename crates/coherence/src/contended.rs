//! Lines that one core took from another: what was done to their bytes, and why each miss was one.
//!
//! **Sharing, true and false** (after Dubois and others, ISCA 1993). A core misses a line *by
//! coherence* if another core's write was what it lost the line by. The line is then there until it
//! is lost again, by whatever cause. The miss is *true sharing* if in that time the core reads or
//! writes a byte that another core has written since this core last got the line by a miss that it
//! needed: one that was no coherence miss, or one of true sharing. Otherwise the miss is *false
//! sharing*: without it the core would have seen the same.
//!
//! **Idea.** Each core that has lost the line has a set of *news*: bytes that others have written.
//! A use of one of them decides the pending miss and clears the set, because the miss brought all
//! of them.
//!
//! **Invariant.** A core that holds the line and has no pending miss has no news: any other core's
//! write would have taken the line away.
use crate::hash::Map;
use memtrail_model::{Point, Thread};

/// A reference to bytes of a line: the same instruction, thread and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Use {
    /// Of the line.
    pub offset: u8,
    pub size: u8,
    pub write: bool,
    pub thread: Thread,
    pub point: Point,
}

/// Who takes a line from whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// Whose write it was that the other's core lost the line by.
    pub writer: Thread,
    /// Who missed it.
    pub loser: Thread,
}

/// What sharing did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SharingCounts {
    /// Reads and writes since the line is contended.
    pub accesses: u64,
    /// Copies of other cores that writes took away.
    pub invalidations: u64,
    /// Writes to a line that was there, but not to be written without asking.
    pub upgrades: u64,
    /// Times that a core got the line from another one that had written it.
    pub transfers: u64,
    pub true_misses: u64,
    pub false_misses: u64,
}

impl SharingCounts {
    pub fn coherence_misses(&self) -> u64 {
        self.true_misses + self.false_misses
    }
}

impl std::ops::AddAssign for SharingCounts {
    fn add_assign(&mut self, other: SharingCounts) {
        self.accesses += other.accesses;
        self.invalidations += other.invalidations;
        self.upgrades += other.upgrades;
        self.transfers += other.transfers;
        self.true_misses += other.true_misses;
        self.false_misses += other.false_misses;
    }
}

/// A contended line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLine {
    /// The address space it is in.
    pub space: u32,
    /// Of its first byte.
    pub address: u64,
    pub counts: SharingCounts,
    /// What was done by whom; in order.
    pub uses: Vec<(Use, SharingCounts)>,
    /// Coherence misses by who took the line from whom; in order.
    pub pairs: Vec<(Pair, SharingCounts)>,
}

/// A line's part in what a core did last.
#[derive(Clone, Copy, Debug)]
struct Pending {
    used: Use,
    pair: Pair,
}

/// A core that has lost the line at least once.
#[derive(Clone, Debug)]
struct Loser {
    core: u32,
    /// Whose write it lost the line by, as long as it has not got it again.
    lost: Option<Thread>,
    news: u128,
    /// A coherence miss that is neither true nor false so far.
    pending: Option<Pending>,
}

/// Dense number of a contended line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LineIndex(pub u32);

#[derive(Debug, Default)]
struct Record {
    line: u64,
    losers: Vec<Loser>,
}

/// All contended lines.
#[derive(Debug, Default)]
pub(crate) struct Contended {
    records: Vec<Record>,
    uses: Map<(u32, Use), SharingCounts>,
    pairs: Map<(u32, Pair), SharingCounts>,
}

impl Contended {
    /// A line is contended from now on.
    pub fn begin(&mut self, line: u64) -> LineIndex {
        self.records.push(Record {
            line,
            losers: Vec::new(),
        });
        LineIndex(self.records.len() as u32 - 1)
    }

    /// Lines from this number on.
    pub fn lines_from(&self, first: usize) -> impl Iterator<Item = u64> + '_ {
        self.records.iter().skip(first).map(|record| record.line)
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    fn loser(&mut self, line: LineIndex, core: u32) -> Option<&mut Loser> {
        let losers = &mut self.records[line.0 as usize].losers;
        losers.iter_mut().find(|loser| loser.core == core)
    }

    pub fn count(&mut self, line: LineIndex, used: Use) -> &mut SharingCounts {
        self.uses.entry((line.0, used)).or_default()
    }

    /// The pending miss of a core was of this sort.
    fn decide(&mut self, line: LineIndex, pending: Pending, needed: bool) {
        let used = self.uses.entry((line.0, pending.used)).or_default();
        let pair = self.pairs.entry((line.0, pending.pair)).or_default();
        for counts in [used, pair] {
            match needed {
                true => counts.true_misses += 1,
                false => counts.false_misses += 1,
            }
        }
    }

    /// Decides that the pending miss of a core was not needed, if there is one: the line is lost.
    fn give_up(&mut self, line: LineIndex, core: u32) {
        if let Some(pending) = self.loser(line, core).and_then(|loser| loser.pending.take()) {
            self.decide(line, pending, false);
        }
    }

    /// A core loses the line by a write.
    pub fn invalidated(&mut self, line: LineIndex, core: u32, writer: Thread) {
        self.give_up(line, core);
        match self.loser(line, core) {
            Some(loser) => loser.lost = Some(writer),
            None => self.records[line.0 as usize].losers.push(Loser {
                core,
                lost: Some(writer),
                news: 0,
                pending: None,
            }),
        }
    }

    /// A core loses the line because another line takes its place.
    pub fn evicted(&mut self, line: LineIndex, core: u32) {
        self.give_up(line, core);
        if let Some(loser) = self.loser(line, core) {
            loser.lost = None;
        }
    }

    /// A core that does not have the line gets it. Returns whether it missed by coherence.
    pub fn filled(&mut self, line: LineIndex, core: u32, used: Use) -> bool {
        let Some(loser) = self.loser(line, core) else {
            return false;
        };
        match loser.lost.take() {
            Some(writer) => {
                let loses = used.thread;
                let pair = Pair { writer, loser: loses };
                loser.pending = Some(Pending { used, pair });
                true
            }
            None => {
                loser.news = 0;
                false
            }
        }
    }

    /// A core that has the line uses bytes of it.
    pub fn used(&mut self, line: LineIndex, core: u32, used: Use, bytes: u128) {
        self.count(line, used).accesses += 1;
        let mut needed = None;
        for loser in &mut self.records[line.0 as usize].losers {
            if loser.core != core {
                if used.write {
                    loser.news |= bytes;
                }
            } else if loser.news & bytes != 0 && loser.pending.is_some() {
                loser.news = 0;
                needed = loser.pending.take();
            }
        }
        if let Some(pending) = needed {
            self.decide(line, pending, true);
        }
    }

    /// All lines, by number; misses that are pending were not needed until now.
    pub fn finish(&mut self, place: impl Fn(u64) -> (u32, u64)) -> Vec<SharedLine> {
        for i in 0..self.records.len() {
            let cores: Vec<u32> = self.records[i].losers.iter().map(|loser| loser.core).collect();
            cores
                .into_iter()
                .for_each(|core| self.give_up(LineIndex(i as u32), core));
        }
        let shared = |record: &Record| {
            let (space, address) = place(record.line);
            SharedLine {
                space,
                address,
                counts: SharingCounts::default(),
                uses: Vec::new(),
                pairs: Vec::new(),
            }
        };
        let mut lines: Vec<SharedLine> = self.records.iter().map(shared).collect();
        for (&(line, used), &counts) in &self.uses {
            let line = &mut lines[line as usize];
            line.counts += counts;
            line.uses.push((used, counts));
        }
        for (&(line, pair), &counts) in &self.pairs {
            lines[line as usize].pairs.push((pair, counts));
        }
        for line in &mut lines {
            line.uses.sort_unstable_by_key(|(used, _)| *used);
            line.pairs.sort_unstable_by_key(|(pair, _)| *pair);
        }
        lines.sort_by_key(|line| (line.space, line.address));
        lines
    }
}
