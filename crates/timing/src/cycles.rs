//! Who has what in which cycle: ports, misses under way, the memory channel.
//!
//! Everything here is asked in program order and answers for *older* micro-operations only.
//! `now` is the cycle of the last dispatch: nobody asks about cycles before it any more, so that
//! what ended by then is forgotten.
use std::collections::HashMap;

const SLOTS: usize = 1 << 14;

#[derive(Clone, Copy, Debug)]
struct PortSlot {
    cycle: u64,
    busy: u32,
    /// Micro-operations that issue in this cycle.
    issued: u32,
}

/// Which ports are taken, by cycle, and how many micro-operations wait in the scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    slots: Vec<PortSlot>,
    /// Cycles whose slot another one has that still counts.
    others: HashMap<u64, PortSlot>,
    /// Micro-operations that issue in this cycle or later.
    waiting: u64,
    from: u64,
    last_issue: u64,
}

impl Calendar {
    pub fn new() -> Calendar {
        let none = PortSlot {
            cycle: u64::MAX,
            busy: 0,
            issued: 0,
        };
        Calendar {
            slots: vec![none; SLOTS],
            others: HashMap::new(),
            waiting: 0,
            from: 0,
            last_issue: 0,
        }
    }

    /// The first cycle from `from` on before which all but `places` have issued. Nobody asks about
    /// earlier cycles again.
    #[inline]
    pub fn room(&mut self, from: u64, places: u64) -> u64 {
        if from > self.last_issue {
            (self.waiting, self.from) = (0, from);
        }
        while self.from < from || self.waiting >= places {
            self.waiting -= self.issued(self.from);
            self.from += 1;
        }
        self.from
    }

    #[inline]
    fn issued(&self, cycle: u64) -> u64 {
        let slot = &self.slots[cycle as usize % SLOTS];
        let issued = if slot.cycle == cycle { slot.issued } else { 0 };
        let others = match self.others.is_empty() {
            true => 0,
            false => self.others.get(&cycle).map_or(0, |slot| slot.issued),
        };
        u64::from(issued + others)
    }

    #[inline]
    fn busy(&self, cycle: u64) -> u32 {
        let slot = &self.slots[cycle as usize % SLOTS];
        let busy = if slot.cycle == cycle { slot.busy } else { 0 };
        match self.others.is_empty() {
            true => busy,
            false => busy | self.others.get(&cycle).map_or(0, |slot| slot.busy),
        }
    }

    #[inline]
    fn mark(&mut self, cycle: u64, port: u32, issued: u32, now: u64) {
        let slot = &mut self.slots[cycle as usize % SLOTS];
        if slot.cycle == cycle {
            slot.busy |= port;
            slot.issued += issued;
        } else if slot.cycle < now || slot.cycle == u64::MAX {
            *slot = PortSlot {
                cycle,
                busy: port,
                issued,
            };
        } else {
            self.mark_other(cycle, port, issued, now);
        }
    }

    #[cold]
    fn mark_other(&mut self, cycle: u64, port: u32, issued: u32, now: u64) {
        if self.others.len() >= SLOTS {
            self.others.retain(|&cycle, _| cycle >= now);
        }
        let none = PortSlot {
            cycle,
            busy: 0,
            issued: 0,
        };
        let slot = self.others.entry(cycle).or_insert(none);
        slot.busy |= port;
        slot.issued += issued;
    }

    /// Takes one of `ports`, the lowest that is free, from the first possible cycle on and for
    /// `busy` cycles.
    #[inline]
    pub fn take(&mut self, from: u64, ports: u32, busy: u32, now: u64) -> u64 {
        let mut cycle = from;
        loop {
            let free = ports & !self.busy(cycle);
            if free != 0 {
                let port = free & free.wrapping_neg();
                self.mark(cycle, port, 1, now);
                for n in 1..u64::from(busy) {
                    self.mark(cycle + n, port, 0, now);
                }
                self.waiting += 1;
                self.last_issue = self.last_issue.max(cycle);
                return cycle;
            }
            cycle += 1;
        }
    }
}

/// A line on its way to the first level.
#[derive(Clone, Copy, Debug)]
struct Fill {
    line: u64,
    begin: u64,
    end: u64,
    /// It has one of the first level's registers for misses.
    held: bool,
}

/// Lines on their way, and the channel that they come through.
#[derive(Clone, Debug)]
pub(crate) struct Fills {
    all: Vec<Fill>,
    /// How many lines of `all` have this hash.
    by_hash: Vec<u16>,
    last_end: u64,
    /// When lines have the channel.
    channel: Vec<(u64, u64)>,
    mshrs: usize,
    transfer: u64,
}

const HASHES: usize = 256;

#[inline]
fn hash(line: u64) -> usize {
    (line ^ line >> 8) as usize % HASHES
}

impl Fills {
    pub fn new(mshrs: u32, transfer: u32) -> Fills {
        Fills {
            all: Vec::new(),
            by_hash: vec![0; HASHES],
            last_end: 0,
            channel: Vec::new(),
            mshrs: mshrs as usize,
            transfer: transfer.into(),
        }
    }

    /// When a line that the first level has is really there; 0 if it has been for long.
    #[inline]
    pub fn arrival(&self, line: u64) -> u64 {
        if self.by_hash[hash(line)] == 0 {
            return 0;
        }
        let fills = self.all.iter().filter(|fill| fill.line == line);
        fills.map(|fill| fill.end).max().unwrap_or(0)
    }

    /// The first cycle from `from` on in which a miss can begin.
    pub fn register(&self, from: u64) -> u64 {
        let mut cycle = from;
        loop {
            let (mut under_way, mut next) = (0, u64::MAX);
            for fill in &self.all {
                if fill.held && fill.begin <= cycle && cycle < fill.end {
                    under_way += 1;
                    next = next.min(fill.end);
                }
            }
            if under_way < self.mshrs {
                return cycle;
            }
            cycle = next;
        }
    }

    /// The first cycle from `from` on in which the channel is free; takes it.
    pub fn transfer(&mut self, from: u64) -> u64 {
        let mut cycle = from;
        loop {
            let before = cycle;
            for &(begin, end) in &self.channel {
                if begin <= cycle && cycle < end {
                    cycle = end;
                }
            }
            if cycle == before {
                break;
            }
        }
        self.channel.push((cycle, cycle + self.transfer));
        cycle
    }

    /// A line is on its way.
    pub fn add(&mut self, line: u64, begin: u64, end: u64, held: bool, now: u64) {
        self.forget(now);
        self.all.push(Fill { line, begin, end, held });
        self.by_hash[hash(line)] += 1;
        self.last_end = self.last_end.max(end);
    }

    /// Forgets what ended before `now`.
    fn forget(&mut self, now: u64) {
        let by_hash = &mut self.by_hash;
        self.all.retain(|fill| {
            let stays = fill.end > now;
            by_hash[hash(fill.line)] -= u16::from(!stays);
            stays
        });
        self.channel.retain(|&(_, end)| end > now);
    }

    /// Forgets lines that have all arrived, if that is cheap to see.
    #[inline]
    pub fn settle(&mut self, now: u64) {
        if self.last_end <= now && !self.all.is_empty() {
            self.forget(now);
        }
    }
}
