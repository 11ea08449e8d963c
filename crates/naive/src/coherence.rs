//! A textbook simulator of coherent caches, written from "Coherence" of `docs/simulation.md`.
//!
//! Every core's private caches are lists of lines with a time of last use, every core has a state
//! (M, O, E, S or I) for every line, every request asks all cores; what became of a line's bytes is
//! worked out from a log of all that happened to the line, at the end.
use memtrail_model::{Access, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// A line's state in a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Modified,
    Owned,
    Exclusive,
    Shared,
}

/// Something that happened to a contended line.
#[derive(Clone, Debug)]
enum Happened {
    /// A core got it, by an access with this key.
    Got { core: u32, thread: u32, key: NaiveUse },
    /// A core lost it by a write of a thread.
    Taken { core: u32, by: u32 },
    /// A core lost it for another line.
    Evicted { core: u32 },
    /// A core read or wrote these bytes.
    Used {
        core: u32,
        write: bool,
        bytes: BTreeSet<u64>,
    },
}

/// Offset, size, whether it writes, thread, point.
pub type NaiveUse = (u64, u64, bool, u32, u32);

/// Accesses, invalidations, upgrades, transfers, true misses, false misses.
pub type NaiveCounts = [u64; 6];

/// What all did: accesses, misses, true and false coherence misses, upgrades, invalidations,
/// transfers, write-backs.
pub type NaiveTotals = [u64; 8];

/// A contended line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NaiveLine {
    pub uses: BTreeMap<NaiveUse, NaiveCounts>,
    /// True and false misses by writer and loser.
    pub pairs: BTreeMap<(u32, u32), [u64; 2]>,
}

/// A cache: for each set its lines, with the time of last use and whether they are dirty.
struct Lines {
    sets: u64,
    ways: usize,
    held: BTreeMap<u64, Vec<(u64, u64, bool)>>,
}

impl Lines {
    fn new((size, ways): (u64, u32), line: u64) -> Lines {
        Lines {
            sets: size / line / u64::from(ways),
            ways: ways as usize,
            held: BTreeMap::new(),
        }
    }
    fn set(&mut self, line: u64) -> &mut Vec<(u64, u64, bool)> {
        self.held.entry(line % self.sets).or_default()
    }
    fn has(&mut self, line: u64) -> bool {
        self.set(line).iter().any(|held| held.0 == line)
    }
    fn use_at(&mut self, line: u64, now: u64) {
        let held = self.set(line).iter_mut().filter(|held| held.0 == line);
        held.for_each(|held| held.1 = now);
    }
    fn remove(&mut self, line: u64) {
        self.set(line).retain(|held| held.0 != line);
    }
    fn place(&mut self, line: u64, now: u64, dirty: bool) -> Option<(u64, bool)> {
        let ways = self.ways;
        let set = self.set(line);
        let mut old = None;
        if set.len() == ways {
            let oldest = (0..set.len()).min_by_key(|&i| set[i].1)?;
            let (line, _, dirty) = set.remove(oldest);
            old = Some((line, dirty));
        }
        set.push((line, now, dirty));
        old
    }
}

/// A machine: see the module's head.
pub struct NaiveCoherence {
    moesi: bool,
    line: u64,
    cores: u32,
    /// By core, from the processor outwards.
    private: Vec<Vec<Lines>>,
    shared: Vec<Lines>,
    states: BTreeMap<(u32, u64), State>,
    logs: BTreeMap<u64, Vec<Happened>>,
    lines: BTreeMap<u64, NaiveLine>,
    totals: NaiveTotals,
    /// Requests, misses and write-backs of shared levels.
    pub shared_counts: Vec<[u64; 3]>,
    now: u64,
}

const ACCESSES: usize = 0;
const INVALIDATIONS: usize = 1;
const UPGRADES: usize = 2;
const TRANSFERS: usize = 3;
const TRUE: usize = 4;
const FALSE: usize = 5;

impl NaiveCoherence {
    /// Caches are (size, ways), from the processor outwards.
    pub fn new(moesi: bool, line: u64, cores: u32, private: &[(u64, u32)], shared: &[(u64, u32)]) -> NaiveCoherence {
        let caches = |all: &[(u64, u32)]| all.iter().map(|&cache| Lines::new(cache, line)).collect();
        NaiveCoherence {
            moesi,
            line,
            cores,
            private: (0..cores).map(|_| caches(private)).collect(),
            shared: caches(shared),
            states: BTreeMap::new(),
            logs: BTreeMap::new(),
            lines: BTreeMap::new(),
            totals: [0; 8],
            shared_counts: vec![[0; 3]; shared.len()],
            now: 0,
        }
    }

    pub fn access(&mut self, access: &Access) {
        if !matches!(access.kind, Kind::Read | Kind::Write) {
            return;
        }
        let bytes: Vec<u64> = (0..u64::from(access.size.max(1))).map(|i| access.addr + i).collect();
        let line = self.line;
        for part in bytes.chunk_by(|a, b| a / line == b / line) {
            self.part(access, part);
        }
    }

    fn part(&mut self, access: &Access, bytes: &[u64]) {
        self.now += 1;
        self.totals[0] += 1;
        let (core, thread) = (access.thread.0 % self.cores, access.thread.0);
        let (line, write) = (bytes[0] / self.line, access.kind == Kind::Write);
        let key = (bytes[0] % self.line, bytes.len() as u64, write, thread, access.point.0);
        let mine = self.states.get(&(core, line)).copied();
        if mine.is_none() {
            self.totals[1] += 1;
            self.miss(core, line, key);
        }
        if write {
            self.write(core, line, key);
        }
        self.place_private(core, line);
        if let Some(log) = self.logs.get_mut(&line) {
            let bytes = bytes.iter().copied().collect();
            log.push(Happened::Used { core, write, bytes });
            self.count(line, key, ACCESSES);
        }
    }

    fn count(&mut self, line: u64, key: NaiveUse, what: usize) {
        self.lines.entry(line).or_default().uses.entry(key).or_default()[what] += 1;
    }

    fn contend(&mut self, line: u64) -> &mut Vec<Happened> {
        self.logs.entry(line).or_default()
    }

    fn state_of_others(&self, core: u32, line: u64, state: State) -> Option<u32> {
        (0..self.cores).find(|&other| other != core && self.states.get(&(other, line)) == Some(&state))
    }

    /// The core asks all others for a line.
    fn miss(&mut self, core: u32, line: u64, key: NaiveUse) {
        let write = key.2;
        if let Some(log) = self.logs.get_mut(&line) {
            log.push(Happened::Got {
                core,
                thread: key.3,
                key,
            });
        }
        let modified = self.state_of_others(core, line, State::Modified);
        let owned = self.state_of_others(core, line, State::Owned);
        if modified.or(owned).is_some() {
            self.contend(line);
            self.count(line, key, TRANSFERS);
            self.totals[6] += 1;
        } else {
            self.read_shared(line, 0);
        }
        if write {
            // All others lose it in `write`.
            self.states.insert((core, line), State::Shared);
            return;
        }
        if let Some(owner) = modified {
            let state = match self.moesi {
                true => State::Owned,
                false => State::Shared,
            };
            self.states.insert((owner, line), state);
            if !self.moesi {
                self.write_back(line);
            }
        }
        if let Some(owner) = self.state_of_others(core, line, State::Exclusive) {
            self.states.insert((owner, line), State::Shared);
        }
        let alone = (0..self.cores).all(|other| !self.states.contains_key(&(other, line)));
        let state = if alone { State::Exclusive } else { State::Shared };
        self.states.insert((core, line), state);
    }

    fn write(&mut self, core: u32, line: u64, key: NaiveUse) {
        let mine = self.states[&(core, line)];
        // A miss by a write asks for the line and for leave to write to it at once.
        let asked = !self.private[core as usize].iter_mut().any(|level| level.has(line));
        if matches!(mine, State::Shared | State::Owned) {
            if !asked {
                self.totals[4] += 1;
            }
            for other in (0..self.cores).filter(|&other| other != core) {
                if self.states.remove(&(other, line)).is_some() {
                    self.private[other as usize]
                        .iter_mut()
                        .for_each(|level| level.remove(line));
                    self.totals[5] += 1;
                    self.contend(line).push(Happened::Taken { core: other, by: key.3 });
                    self.count(line, key, INVALIDATIONS);
                }
            }
            if !asked && self.logs.contains_key(&line) {
                self.count(line, key, UPGRADES);
            }
        }
        self.states.insert((core, line), State::Modified);
    }

    /// Looks the line up in the private caches, from the processor outwards, and places it in those
    /// that do not have it, from the outermost inwards.
    fn place_private(&mut self, core: u32, line: u64) {
        let now = self.now;
        let caches = &mut self.private[core as usize];
        let levels = caches.len();
        let found = (0..levels).find(|&i| caches[i].has(line)).unwrap_or(levels);
        if found < levels {
            caches[found].use_at(line, now);
        }
        let mut left = None;
        for i in (0..found).rev() {
            if let Some((old, _)) = caches[i].place(line, now, false) {
                (0..i).for_each(|inner| caches[inner].remove(old));
                left = left.or((i + 1 == levels).then_some(old));
            }
        }
        let Some(old) = left else { return };
        let state = self.states.remove(&(core, old));
        if matches!(state, Some(State::Modified | State::Owned)) {
            self.write_back(old);
        }
        if let Some(log) = self.logs.get_mut(&old) {
            log.push(Happened::Evicted { core });
        }
    }

    fn read_shared(&mut self, line: u64, level: usize) {
        if level == self.shared.len() {
            return;
        }
        self.shared_counts[level][0] += 1;
        self.now += 1;
        if self.shared[level].has(line) {
            self.shared[level].use_at(line, self.now);
            return;
        }
        self.shared_counts[level][1] += 1;
        self.read_shared(line, level + 1);
        self.place_shared(line, level, false);
    }

    fn place_shared(&mut self, line: u64, level: usize, dirty: bool) {
        self.now += 1;
        if let Some((old, true)) = self.shared[level].place(line, self.now, dirty) {
            self.write_shared(old, level + 1);
        }
    }

    fn write_back(&mut self, line: u64) {
        self.totals[7] += 1;
        self.write_shared(line, 0);
    }

    fn write_shared(&mut self, line: u64, level: usize) {
        if level == self.shared.len() {
            return;
        }
        self.shared_counts[level][2] += 1;
        self.now += 1;
        if self.shared[level].has(line) {
            self.shared[level].use_at(line, self.now);
            let set = self.shared[level].set(line);
            set.iter_mut()
                .filter(|held| held.0 == line)
                .for_each(|held| held.2 = true);
        } else {
            self.place_shared(line, level, true);
        }
    }

    /// Totals, and contended lines by number.
    pub fn finish(mut self) -> (NaiveTotals, BTreeMap<u64, NaiveLine>) {
        for (line, log) in std::mem::take(&mut self.logs) {
            for core in 0..self.cores {
                self.classify(line, &log, core);
            }
        }
        (self.totals, self.lines)
    }

    /// The coherence misses of one core on one line, from all that happened to the line.
    fn classify(&mut self, line: u64, log: &[Happened], core: u32) {
        // From where on what others write is news to this core.
        let mut seen_up_to = 0;
        let mut lost_by = None;
        for (at, happened) in log.iter().enumerate() {
            match happened {
                Happened::Taken { core: lost, by } if *lost == core => lost_by = Some(*by),
                Happened::Evicted { core: lost } if *lost == core => lost_by = None,
                Happened::Got {
                    core: gets,
                    thread,
                    key,
                } if *gets == core => {
                    let Some(writer) = lost_by.take() else {
                        seen_up_to = at;
                        continue;
                    };
                    let news = written_by_others(&log[seen_up_to..at], core);
                    let needed = uses_while_held(&log[at..], core).any(|bytes| !bytes.is_disjoint(&news));
                    if needed {
                        seen_up_to = at;
                    }
                    self.totals[if needed { 2 } else { 3 }] += 1;
                    self.count(line, *key, if needed { TRUE } else { FALSE });
                    let pair = self.lines.entry(line).or_default().pairs.entry((writer, *thread));
                    pair.or_default()[usize::from(!needed)] += 1;
                }
                _ => {}
            }
        }
    }
}

fn written_by_others(log: &[Happened], core: u32) -> BTreeSet<u64> {
    let mut written = BTreeSet::new();
    for happened in log {
        if let Happened::Used {
            core: by,
            write: true,
            bytes,
        } = happened
        {
            if *by != core {
                written.extend(bytes.iter().copied());
            }
        }
    }
    written
}

/// What a core reads and writes until it loses the line.
fn uses_while_held(log: &[Happened], core: u32) -> impl Iterator<Item = &BTreeSet<u64>> {
    let lost = move |happened: &&Happened| !matches!(happened, Happened::Taken { core: loses, .. } | Happened::Evicted { core: loses } if *loses == core);
    log.iter().take_while(lost).filter_map(move |happened| match happened {
        Happened::Used { core: by, bytes, .. } if *by == core => Some(bytes),
        _ => None,
    })
}
