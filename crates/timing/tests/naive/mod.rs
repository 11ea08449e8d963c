//! The same core, cycle after cycle, as simply as it can be written: in every cycle the next entries
//! are dispatched if they may, then every micro-operation that is not done with is looked at, oldest
//! first. Written from `docs/timing.md`; slow.
use memtrail_timing::{Cause, Charged, CoreSpec, Micro, Times, UnitClass};

/// What happens before and behind a micro-operation in the front end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Front {
    /// Cycles by which it comes later because its instruction was not there.
    pub delay: u64,
    /// It is a branch that was not foreseen.
    pub mispredicted: bool,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub micro: Micro,
    pub front: Front,
    pub ideal: bool,
}

/// How far the access of a micro-operation is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Has not asked.
    None,
    /// Asks from this cycle on.
    Asks(u64),
    /// A miss is under way since this cycle.
    Begun(u64),
    /// The memory channel has had it since then.
    Moves(u64),
    /// Waits for older misses of the same line; its own part is done in this cycle.
    Shares(u64),
    /// Waits for a store, which hands it on, or for it to drain.
    Forward(usize),
    Behind(usize),
    Done(u64),
}

#[derive(Clone, Copy, Debug)]
struct State {
    entry: usize,
    dispatch: Option<u64>,
    issue: Option<u64>,
    complete: Option<u64>,
    way: Way,
    /// When its miss began, when it ended, when it had the channel.
    miss: Option<(u64, Option<u64>)>,
    channel: Option<u64>,
    /// Of stores.
    committed: Option<u64>,
    drain: Option<u64>,
    port: Option<(u32, u64)>,
}

pub struct Naive<'s> {
    spec: &'s CoreSpec,
    steps: &'s [Step],
    reached: Vec<u64>,
    states: Vec<State>,
    /// First and end of each entry's micro-operations.
    entries: Vec<(usize, usize)>,
    commits: Vec<u64>,
    dispatches: Vec<u64>,
    last_drain: u64,
    pub charges: Vec<Charged>,
}

impl<'s> Naive<'s> {
    pub fn new(spec: &'s CoreSpec, steps: &'s [Step]) -> Naive<'s> {
        let mut entries: Vec<(usize, usize)> = Vec::new();
        let mut states = Vec::new();
        for (n, step) in steps.iter().enumerate() {
            match entries.last_mut() {
                Some(last) if step.micro.fused => last.1 = n + 1,
                _ => entries.push((n, n + 1)),
            }
            states.push(State {
                entry: entries.len() - 1,
                dispatch: None,
                issue: None,
                complete: None,
                way: Way::None,
                miss: None,
                channel: None,
                committed: None,
                drain: None,
                port: None,
            });
        }
        let reached = spec.reached_after(|holds| holds.data());
        Naive {
            spec,
            steps,
            reached: reached.into_iter().map(u64::from).collect(),
            states,
            entries,
            commits: Vec::new(),
            dispatches: Vec::new(),
            last_drain: 0,
            charges: Vec::new(),
        }
    }

    /// Times of all micro-operations.
    pub fn run(&mut self) -> Vec<Times> {
        let mut cycle = 0;
        while self.commits.len() < self.entries.len() {
            assert!(cycle < 1_000_000, "it never ends");
            self.dispatch(cycle);
            let committed = self.commits.len();
            for n in 0..self.steps.len() {
                self.advance(n, cycle);
                let entry = self.states[n].entry;
                if n + 1 == self.entries[entry].1 {
                    self.commit(entry, cycle);
                }
            }
            self.charge(committed, cycle);
            cycle += 1;
        }
        let times = |s: &State| Times {
            dispatch: s.dispatch.unwrap(),
            issue: s.issue.or(s.dispatch).unwrap(),
            complete: s.complete.unwrap(),
            commit: self.commits[s.entry],
        };
        self.states.iter().map(times).collect()
    }

    fn is_load(&self, n: usize) -> bool {
        self.steps[n].micro.reach.is_some() && self.steps[n].micro.class != UnitClass::Store
    }

    fn is_store(&self, n: usize) -> bool {
        self.steps[n].micro.class == UnitClass::Store
    }

    fn dispatch(&mut self, cycle: u64) {
        while self.dispatches.len() < self.entries.len() && self.may_dispatch(self.dispatches.len(), cycle) {
            let (first, end) = self.entries[self.dispatches.len()];
            self.states[first..end]
                .iter_mut()
                .for_each(|s| s.dispatch = Some(cycle));
            self.dispatches.push(cycle);
        }
    }

    fn may_dispatch(&self, entry: usize, cycle: u64) -> bool {
        let first = self.entries[entry].0;
        let in_cycle = self.dispatches.iter().filter(|&&d| d == cycle).count();
        let in_rob = entry - self.commits.iter().filter(|&&c| c < cycle).count();
        let scheduled = |n: &usize| {
            let s = &self.states[*n];
            !self.ports(*n).is_empty() && s.issue.is_none_or(|issue| issue >= cycle)
        };
        let waiting = (0..first).filter(scheduled).count();
        let committed = |n: usize| self.commits.get(self.states[n].entry).is_some_and(|&c| c < cycle);
        let loads = (0..first).filter(|&n| self.is_load(n) && !committed(n)).count();
        let drained = |n: usize| self.states[n].drain.is_some_and(|d| d < cycle);
        let stores = (0..first).filter(|&n| self.is_store(n) && !drained(n)).count();
        in_cycle < self.spec.width as usize
            && in_rob < self.spec.rob as usize
            && waiting < self.spec.scheduler as usize
            && (!self.is_load(first) || loads < self.spec.loads as usize)
            && (!self.is_store(first) || stores < self.spec.stores as usize)
            && self.barrier(entry).is_some_and(|barrier| cycle >= barrier)
    }

    /// The first cycle in which the front end has an entry; `None` as long as it is not known.
    fn barrier(&self, entry: usize) -> Option<u64> {
        let mut barrier = 0;
        for e in 0..=entry {
            let first = self.entries[e].0;
            if first > 0 && self.steps[first - 1].front.mispredicted {
                barrier = barrier.max(self.states[first - 1].complete? + u64::from(self.spec.mispredict));
            }
            let delay = self.steps[first].front.delay;
            if delay > 0 {
                let before = if e > 0 { self.dispatches[e - 1] } else { 0 };
                barrier = barrier.max(before) + delay;
            }
        }
        Some(barrier)
    }

    fn ports(&self, n: usize) -> Vec<u8> {
        self.spec.class(self.steps[n].micro.class).ports
    }

    /// The last older micro-operation that writes a register.
    fn operand(&self, n: usize, register: u8, cycle: u64) -> bool {
        let writes = |m: &usize| register != 0 && self.steps[*m].micro.dests.contains(&register);
        let writer = (0..n).rev().find(writes);
        writer.is_none_or(|w| self.states[w].complete.is_some_and(|c| c <= cycle))
    }

    fn advance(&mut self, n: usize, cycle: u64) {
        if self.states[n].dispatch.is_none_or(|d| d > cycle) {
            return;
        }
        self.issue(n, cycle);
        let before = self.states[n].way;
        self.follow(n, cycle);
        if self.states[n].way != before {
            // What takes no time happens at once.
            self.follow(n, cycle);
            self.follow(n, cycle);
        }
        self.drain(n, cycle);
    }

    fn issue(&mut self, n: usize, cycle: u64) {
        let state = self.states[n];
        if state.issue.is_some() || state.complete.is_some() {
            return;
        }
        let micro = &self.steps[n].micro;
        if !micro.sources.iter().all(|&s| self.operand(n, s, cycle)) {
            return;
        }
        let class = self.spec.class(micro.class);
        if class.ports.is_empty() {
            // It completes when its operands are there, and its latency later.
            self.states[n].complete = Some(cycle + u64::from(class.latency));
            return;
        }
        if state.dispatch == Some(cycle) {
            return;
        }
        let taken = |port: u8| {
            let has = |s: &State| {
                s.port
                    .is_some_and(|(p, until)| p == port.into() && s.issue.unwrap() <= cycle && cycle < until)
            };
            self.states[..n].iter().any(has)
        };
        let mut ports = class.ports.clone();
        ports.sort_unstable();
        let Some(port) = ports.into_iter().find(|&port| !taken(port)) else {
            return;
        };
        let walk = micro
            .reach
            .map_or(0, |r| if self.steps[n].ideal { 0 } else { u64::from(r.walk) });
        let state = &mut self.states[n];
        state.issue = Some(cycle);
        state.port = Some((port.into(), cycle + u64::from(class.busy)));
        match micro.reach {
            None => state.complete = Some(cycle + u64::from(class.latency)),
            Some(_) if micro.class == UnitClass::Store => {
                state.complete = Some(cycle + u64::from(class.latency) + walk);
            }
            Some(reach) => {
                state.way = Way::Asks(cycle + walk);
                if reach.hint {
                    state.complete = Some(cycle + 1);
                }
            }
        }
    }

    /// Whether an older miss counts for what is asked of this line.
    fn misses(&self, m: usize, line: u64) -> bool {
        let reach = self.steps[m].micro.reach;
        !self.steps[m].ideal && reach.is_some_and(|r| r.line == line && r.level > 0)
    }

    fn follow(&mut self, n: usize, cycle: u64) {
        let Some(reach) = self.steps[n].micro.reach else { return };
        let (ideal, first) = (self.steps[n].ideal, self.reached[0]);
        match self.states[n].way {
            Way::Asks(at) if at <= cycle => {
                let store = (!self.is_store(n) && !reach.hint)
                    .then(|| self.store_before(n, cycle))
                    .flatten();
                self.states[n].way = match store {
                    Some((store, true)) => Way::Forward(store),
                    Some((store, false)) => Way::Behind(store),
                    None if ideal => Way::Done(at + first + u64::from(reach.level != 0)),
                    None if reach.level == 0 => Way::Shares(at + if self.is_store(n) { 0 } else { first }),
                    None => {
                        let under_way = |s: &State| {
                            s.miss
                                .is_some_and(|(begin, end)| begin <= cycle && end.is_none_or(|end| end > cycle))
                        };
                        let busy = self.states[..n].iter().filter(|s| under_way(s)).count();
                        if busy >= self.spec.mshrs as usize {
                            return;
                        }
                        self.states[n].miss = Some((cycle, None));
                        Way::Begun(cycle)
                    }
                };
            }
            Way::Begun(begin) => {
                if let Some(&reached) = self.reached.get(usize::from(reach.level)) {
                    self.states[n].miss = Some((begin, Some(begin + reached)));
                    self.states[n].way = Way::Done(begin + reached);
                } else if begin + self.reached.last().unwrap() <= cycle {
                    let transfer = u64::from(self.spec.memory.transfer);
                    let has = |s: &State| s.channel.is_some_and(|b| b <= cycle && cycle < b + transfer);
                    if !self.states[..n].iter().any(has) {
                        self.states[n].channel = Some(cycle);
                        let end = cycle + u64::from(reach.memory);
                        self.states[n].miss = Some((begin, Some(end)));
                        self.states[n].way = Way::Moves(end);
                    }
                }
            }
            Way::Moves(end) => self.states[n].way = Way::Done(end),
            Way::Shares(own) => {
                let older = (0..n).filter(|&m| self.misses(m, reach.line));
                let end = |m: usize| self.states[m].miss.and_then(|(_, end)| end);
                let ends: Option<Vec<u64>> = older.map(end).collect();
                if let Some(end) = ends {
                    self.states[n].way = Way::Done(own.max(end.into_iter().max().unwrap_or(0)));
                }
            }
            Way::Forward(store) => {
                if let (Some(complete), Some(issue)) = (self.states[store].complete, self.states[n].issue) {
                    let at = issue + if ideal { 0 } else { u64::from(reach.walk) };
                    self.states[n].way = Way::Done(at.max(complete) + u64::from(self.spec.forward));
                }
            }
            Way::Behind(store) => {
                if let Some(drain) = self.states[store].drain {
                    self.states[n].way = Way::Done(drain + first);
                }
            }
            Way::Done(end) if !self.is_store(n) && !reach.hint => self.states[n].complete = Some(end),
            _ => {}
        }
        if let (Way::Done(end), false, false) = (self.states[n].way, self.is_store(n), reach.hint) {
            self.states[n].complete = Some(end);
        }
    }

    /// The youngest older store that overlaps a load and has not drained, and whether it has all.
    fn store_before(&self, n: usize, cycle: u64) -> Option<(usize, bool)> {
        let load = self.steps[n].micro.reach.unwrap();
        let (from, to) = (load.addr, load.addr + u64::from(load.size));
        let overlaps = |m: &usize| {
            let store = self.steps[*m].micro.reach;
            self.is_store(*m) && store.is_some_and(|s| s.addr < to && from < s.addr + u64::from(s.size))
        };
        let youngest = (0..n).rev().find(overlaps)?;
        if self.states[youngest].drain.is_some_and(|drain| drain <= cycle) {
            return None;
        }
        let store = self.steps[youngest].micro.reach.unwrap();
        let has_all = store.addr <= from && to <= store.addr + u64::from(store.size);
        Some((youngest, has_all))
    }

    fn commit(&mut self, entry: usize, cycle: u64) {
        let (first, end) = self.entries[entry];
        let done = |s: &State| s.complete.is_some_and(|c| c <= cycle);
        let in_cycle = self.commits.iter().filter(|&&c| c == cycle).count();
        if self.commits.len() != entry
            || in_cycle >= self.spec.commit as usize
            || !self.states[first..end].iter().all(done)
        {
            return;
        }
        self.commits.push(cycle);
        for n in first..end {
            if self.is_store(n) {
                self.states[n].committed = Some(cycle);
                self.states[n].way = match self.steps[n].ideal {
                    true => Way::Done(cycle),
                    false => Way::Asks(cycle),
                };
                (0..3).for_each(|_| self.follow(n, cycle));
                self.drain(n, cycle);
            }
        }
    }

    fn drain(&mut self, n: usize, cycle: u64) {
        let state = self.states[n];
        let Way::Done(there) = state.way else { return };
        let older = (0..n)
            .filter(|&m| self.is_store(m))
            .all(|m| self.states[m].drain.is_some());
        if state.committed.is_some() && state.drain.is_none() && older && there <= cycle && cycle > self.last_drain {
            self.states[n].drain = Some(cycle);
            self.last_drain = cycle;
        }
    }

    fn charge(&mut self, committed: usize, cycle: u64) {
        let next = committed;
        let Some(&(first, end)) = self.entries.get(next) else {
            return;
        };
        let tag = |n: usize| self.steps[n].micro.tag as usize;
        let access = (first..end).find(|&n| self.steps[n].micro.reach.is_some());
        let waits = access.filter(|&n| self.states[n].complete.is_none_or(|c| c > cycle));
        let (tag, cause) = if self.commits.len() > committed {
            (tag(first), Cause::Base)
        } else if self.states[first].dispatch.is_none() {
            // Whatever held it up: compared as one.
            (0, Cause::Fetch)
        } else if let Some(n) = waits {
            let level = self.steps[n].micro.reach.unwrap().level;
            (tag(n), Cause::Level(if self.is_store(n) { 0 } else { level }))
        } else {
            (tag(first), Cause::Execute)
        };
        if self.charges.len() <= tag {
            self.charges.resize(tag + 1, Charged::default());
        }
        self.charges[tag].0[cause.index()] += 1;
    }
}
