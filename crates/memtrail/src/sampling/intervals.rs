//! Cuts a recording into intervals and says what each did.
use super::args::IntervalArgs;
use crate::dump::replayed;
use crate::info::{open, threads, Recording};
use crate::progress::Progress;
use anyhow::bail;
use memtrail_model::{Access, AccessSink, Kind, Thread, Wants};
use memtrail_replay::{accesses, Selection};
use memtrail_sampling::vectors::Vector;
use memtrail_trace::{Ending, Known};
use std::collections::HashMap;

/// Intervals of a run, unless told otherwise.
const INTERVALS: u64 = 500;
/// Fewer instructions are no interval.
const SHORTEST: u64 = 10_000;
/// Bytes of a line, for what is used again.
const LINE: u32 = 6;
/// The bucket of lines that were not accessed before.
const FIRST: u32 = 64;

/// One interval.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// The number of its first access.
    pub first: u64,
    pub accesses: u64,
    pub vector: Vector,
}

/// A recording and its intervals.
pub struct Cut {
    pub reader: Recording,
    pub known: Known,
    /// Instructions of an interval.
    pub length: u64,
    pub intervals: Vec<Interval>,
    pub selection: Selection,
    /// Whether all that was selected is of one thread, so that its accesses can be found by number.
    pub of_one_thread: bool,
}

impl Cut {
    pub fn new(args: &IntervalArgs) -> anyhow::Result<Cut> {
        let mut reader = open(&args.file)?;
        let mut known = Known::read(&mut reader)?;
        crate::info::warn_unless_whole(&known.ending);
        known.table.number_fetches();
        let of_one_thread = threads(&known, args.thread, &args.file)?.len() == 1;
        let length = args
            .interval
            .unwrap_or((instructions(&known) / INTERVALS).max(SHORTEST));
        if length == 0 {
            bail!("--interval 0: an interval has at least one instruction");
        }
        let selection = Selection {
            thread: args.thread.map(Thread),
            ..Selection::default()
        };
        let mut cutter = Cutter::new(length, Progress::new());
        replayed(accesses(&mut reader, &known, &selection, &mut cutter))?;
        let intervals = cutter.finish();
        if intervals.is_empty() {
            bail!("{}: no instruction was replayed", args.file.display());
        }
        Ok(Cut {
            reader,
            known,
            length,
            intervals,
            selection,
            of_one_thread,
        })
    }

    /// Accesses of the whole.
    pub fn accesses(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.accesses).sum()
    }
}

/// Instructions of the whole recording, as far as it was completed.
fn instructions(known: &Known) -> u64 {
    match &known.ending {
        Ending::Complete(totals) => totals.instructions,
        _ => 0,
    }
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    /// The first byte behind its last instruction.
    end: u64,
    block: u32,
}

/// Counts instructions by block and accesses by reuse, interval by interval.
struct Cutter {
    length: u64,
    progress: Progress,
    intervals: Vec<Interval>,
    current: Interval,
    instructions: u64,
    code: HashMap<u32, u64>,
    memory: [u64; FIRST as usize + 1],
    running: HashMap<Thread, Running>,
    /// By line: when it was last accessed, in accesses.
    lines: HashMap<u64, u64>,
    now: u64,
}

impl Cutter {
    fn new(length: u64, progress: Progress) -> Cutter {
        Cutter {
            length,
            progress,
            intervals: Vec::new(),
            current: Interval::default(),
            instructions: 0,
            code: HashMap::new(),
            memory: [0; FIRST as usize + 1],
            running: HashMap::new(),
            lines: HashMap::new(),
            now: 0,
        }
    }

    fn fetch(&mut self, access: &Access) {
        if self.instructions == self.length {
            self.end();
        }
        self.instructions += 1;
        let at = self.running.entry(access.thread).or_default();
        if at.end != access.addr {
            // Control came from elsewhere: a block begins. Numbers begin with 1 in SimPoint's files.
            at.block = access.point.0 + 1;
        }
        at.end = access.addr.wrapping_add(access.size.into());
        *self.code.entry(at.block).or_default() += 1;
    }

    fn access(&mut self, access: &Access) {
        self.now += 1;
        self.current.accesses += 1;
        let before = self.lines.insert(access.addr >> LINE, self.now);
        let bucket = before.map_or(FIRST, |before| (self.now - before).ilog2());
        self.memory[bucket as usize] += 1;
    }

    fn end(&mut self) {
        let mut code: Vec<(u32, u64)> = self.code.drain().collect();
        code.sort_unstable();
        let memory = (0..).zip(self.memory).filter(|(_, times)| *times > 0).collect();
        self.memory.fill(0);
        let next = Interval {
            first: self.now,
            ..Interval::default()
        };
        let mut done = std::mem::replace(&mut self.current, next);
        done.vector = Vector { code, memory };
        self.intervals.push(done);
        self.instructions = 0;
    }

    /// The last interval may be shorter.
    fn finish(mut self) -> Vec<Interval> {
        if self.instructions > 0 {
            self.end();
        }
        self.intervals
    }
}

impl AccessSink for Cutter {
    fn accesses(&mut self, batch: &[Access]) {
        let before = self.now;
        for access in batch {
            match access.kind {
                Kind::Fetch => self.fetch(access),
                _ => self.access(access),
            }
        }
        self.progress.add(self.now - before, None);
    }

    fn wants(&self) -> Wants {
        Wants {
            fetches: true,
            ..Wants::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::Point;

    fn access(kind: Kind, point: u32, addr: u64) -> Access {
        Access {
            pc: addr,
            addr,
            size: 4,
            point: Point(point),
            thread: Thread(0),
            kind,
        }
    }

    /// Two blocks: one of two instructions with a read, and a jump back to its own beginning.
    #[test]
    fn instructions_count_to_the_block_that_control_came_to() {
        let mut cutter = Cutter::new(4, Progress::new());
        for _ in 0..4 {
            cutter.accesses(&[
                access(Kind::Fetch, 0, 100),
                access(Kind::Read, 9, 4096),
                access(Kind::Fetch, 1, 104),
            ]);
        }
        cutter.accesses(&[access(Kind::Fetch, 7, 200)]);
        let found = cutter.finish();
        let code: Vec<&[(u32, u64)]> = found.iter().map(|i| i.vector.code.as_slice()).collect();
        assert_eq!(code, [&[(1, 4)][..], &[(1, 4)], &[(8, 1)]]);
        let memory: Vec<&[(u32, u64)]> = found.iter().map(|i| i.vector.memory.as_slice()).collect();
        // The line is new once, and then one access later.
        assert_eq!(memory, [&[(0, 1), (FIRST, 1)][..], &[(0, 2)], &[]]);
        let first: Vec<(u64, u64)> = found.iter().map(|i| (i.first, i.accesses)).collect();
        assert_eq!(first, [(0, 2), (2, 2), (4, 0)]);
    }
}
