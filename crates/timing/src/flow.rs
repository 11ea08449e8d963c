//! From executed instructions and their accesses to micro-operations, with everything that does not
//! depend on time decided on the way.
//!
//! Accesses of a thread come in program order, each instruction's fetch before what it accesses.
//! An instruction is done with when the next fetch comes: only then it is known where a branch went.
//! Each thread runs on a core of its own with a clock of its own; caches that its core shares are
//! shared. Several windows can be driven at once, which differ in whose misses are ideal.
use crate::levels::{LevelStack, Translation};
use crate::memory::Rows;
use crate::micro::{Micro, Reach, UnitClass, NO_REGISTER};
use crate::predictor::Tournament;
use crate::spec::{CoreSpec, CoreSpecError};
use crate::template::{Control, Template, Templates};
use crate::window::{Charged, CoreWindow};
use memtrail_model::{Access, Kind, Thread};
use memtrail_simulate::config::Holds;

/// An access with whom it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Tagged<'a> {
    /// As it came; a fetch has the point that its template goes by.
    pub access: &'a Access,
    /// To whom cycles and misses are charged.
    pub tag: u32,
    /// Bit `n`: its misses are ideal in window `n`.
    pub ideal: u64,
}

/// Windows that can be driven at once.
pub const MOST_WINDOWS: usize = 64;

/// A branch whose target is not known yet.
#[derive(Clone, Copy, Debug)]
struct Branch {
    pc: u64,
    length: u8,
    control: Control,
}

/// A stream of lines within a page.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    page: u64,
    line: u64,
    run: u32,
    down: bool,
    /// The last line that was asked for ahead.
    until: u64,
}

const STREAMS: usize = 64;

/// What a thread's core is doing.
#[derive(Debug)]
struct Lane {
    predictor: Tournament,
    translation: Translation,
    windows: Vec<CoreWindow>,
    streams: Vec<Stream>,
    template: Template,
    /// The tag of the instruction's fetch.
    tag: u32,
    /// Its operation is still to come.
    due: bool,
    /// It has loaded something.
    loaded: bool,
    branch: Option<Branch>,
    /// The instruction before can share its entry with a branch.
    compared: bool,
    line: u64,
    space: u64,
    instructions: u64,
    mispredicted: u64,
}

/// Drives windows: see the module's head.
#[derive(Debug)]
pub struct CoreFlow<'t> {
    spec: CoreSpec,
    templates: &'t Templates,
    windows: usize,
    levels: LevelStack,
    rows: Rows,
    /// Cycles by which a fetch is later, by level.
    delays: Vec<u64>,
    lanes: Vec<Option<Box<Lane>>>,
    /// By tag and level: accesses that were not served by it.
    misses: Vec<Vec<u64>>,
}

impl<'t> CoreFlow<'t> {
    /// `windows`: how many, up to [`MOST_WINDOWS`]; the first one charges cycles.
    pub fn new(spec: &CoreSpec, templates: &'t Templates, windows: usize) -> Result<CoreFlow<'t>, CoreSpecError> {
        spec.check()?;
        let levels = LevelStack::new(&spec.hierarchy()?);
        let reached = spec.reached_after(Holds::instructions);
        let first = reached.first().copied().unwrap_or(0);
        Ok(CoreFlow {
            templates,
            windows: windows.clamp(1, MOST_WINDOWS),
            rows: Rows::new(&spec.memory, levels.line_bits()),
            delays: reached.iter().map(|&cycles| u64::from(cycles - first)).collect(),
            lanes: Vec::new(),
            misses: vec![Vec::new(); levels.data_levels()],
            levels,
            spec: spec.clone(),
        })
    }

    /// A thread's addresses are in this space from now on.
    pub fn space(&mut self, thread: Thread, space: u32) {
        self.lane(thread).space = u64::from(space) << 48;
    }

    fn lane(&mut self, thread: Thread) -> &mut Lane {
        let at = thread.0 as usize;
        if self.lanes.len() <= at {
            self.lanes.resize_with(at + 1, || None);
        }
        let (spec, count) = (&self.spec, self.windows);
        self.lanes[at].get_or_insert_with(|| Box::new(Lane::new(spec, count)))
    }

    /// What comes next in a thread.
    #[inline]
    pub fn next(&mut self, tagged: &Tagged<'_>) {
        let thread = tagged.access.thread;
        if self.lanes.get(thread.0 as usize).is_none_or(|lane| lane.is_none()) {
            self.lane(thread);
        }
        let Some(Some(lane)) = self.lanes.get_mut(thread.0 as usize) else {
            return;
        };
        match tagged.access.kind {
            Kind::Fetch => {
                let template = *self.templates.get(tagged.access.point.index());
                lane.begin(tagged, template, self.spec.fuse);
                let line = placed(tagged.access.addr, lane.space) >> self.levels.line_bits();
                if line != lane.line {
                    lane.line = line;
                    let level = self.levels.fetch(thread.0, line);
                    if level > 0 {
                        let behind = self.delays.last().copied().unwrap_or(0);
                        let delay = self.delays.get(usize::from(level)).copied();
                        let delay = delay.unwrap_or_else(|| behind + u64::from(self.rows.access(line)));
                        lane.windows.iter_mut().for_each(|window| window.fetch_delay(delay));
                    }
                }
            }
            kind => {
                let reach = reach(&mut self.levels, &mut self.rows, lane, tagged.access);
                self.count(tagged.tag, reach.level, kind);
                let Some(Some(lane)) = self.lanes.get_mut(thread.0 as usize) else {
                    return;
                };
                lane.access(tagged, reach, self.spec.fuse);
                if self.spec.ahead > 0 {
                    run_ahead(&mut self.levels, &mut self.rows, lane, thread, &reach, self.spec.ahead);
                }
            }
        }
    }

    #[inline]
    fn count(&mut self, tag: u32, level: u8, kind: Kind) {
        if level == 0 || kind == Kind::Prefetch {
            return;
        }
        for misses in self.misses.iter_mut().take(level.into()) {
            if misses.len() <= tag as usize {
                misses.resize(tag as usize + 1, 0);
            }
            misses[tag as usize] += 1;
        }
    }

    /// Ends the last instructions.
    pub fn finish(&mut self) {
        let fuse = self.spec.fuse;
        for lane in self.lanes.iter_mut().flatten() {
            lane.operate(fuse);
            lane.windows.iter_mut().for_each(|window| {
                window.cycles();
            });
        }
    }

    /// Cycles of each thread in window `n`; threads that did nothing are not there.
    pub fn cycles(&mut self, n: usize) -> Vec<(Thread, u64)> {
        let lanes = self.lanes.iter_mut().enumerate();
        let cycles = |(at, lane): (usize, &mut Option<Box<Lane>>)| {
            let cycles = lane.as_mut()?.windows.get_mut(n)?.cycles();
            Some((Thread(at as u32), cycles))
        };
        lanes.filter_map(cycles).collect()
    }

    pub fn instructions(&self) -> u64 {
        self.lanes.iter().flatten().map(|lane| lane.instructions).sum()
    }

    /// Branches that were not foreseen.
    pub fn mispredicted(&self) -> u64 {
        self.lanes.iter().flatten().map(|lane| lane.mispredicted).sum()
    }

    /// By tag: cycles of all threads by cause, without any ideal misses.
    pub fn charges(&self) -> Vec<Charged> {
        let mut all: Vec<Charged> = Vec::new();
        for window in self.lanes.iter().flatten().filter_map(|lane| lane.windows.first()) {
            let charges = window.charges();
            all.resize(all.len().max(charges.len()), Charged::default());
            all.iter_mut().zip(charges).for_each(|(sum, charged)| *sum += *charged);
        }
        all
    }

    /// By level of data, and by tag: accesses that missed.
    pub fn misses(&self) -> &[Vec<u64>] {
        &self.misses
    }
}

/// Where an address of an address space lies among all.
#[inline]
fn placed(addr: u64, space: u64) -> u64 {
    if addr < 1 << 47 {
        addr | space
    } else {
        addr
    }
}

/// Where an access goes, in program order.
#[inline]
fn reach(levels: &mut LevelStack, rows: &mut Rows, lane: &mut Lane, access: &Access) -> Reach {
    let addr = placed(access.addr, lane.space);
    let hit = levels.data(access.thread.0, addr, access.size, access.kind == Kind::Write);
    let memory = match usize::from(hit.level) == levels.data_levels() {
        true => rows.access(hit.line),
        false => 0,
    };
    Reach {
        addr,
        size: access.size,
        line: hit.line,
        level: hit.level,
        walk: lane.translation.walk(addr),
        memory,
        hint: access.kind == Kind::Prefetch,
    }
}

/// Asks for the lines that a stream will come to.
fn run_ahead(levels: &mut LevelStack, rows: &mut Rows, lane: &mut Lane, thread: Thread, reach: &Reach, ahead: u32) {
    let bits = levels.line_bits();
    let line = reach.addr >> bits;
    let page = reach.addr >> 12;
    let stream = &mut lane.streams[page as usize % STREAMS];
    if stream.page != page {
        *stream = Stream {
            page,
            line,
            ..Stream::default()
        };
        return;
    }
    if stream.line == line {
        return;
    }
    let down = line < stream.line;
    let near = line.abs_diff(stream.line) <= 2;
    stream.run = if near && (stream.run == 0 || down == stream.down) {
        stream.run + 1
    } else {
        0
    };
    (stream.line, stream.down) = (line, down);
    if stream.run < 2 {
        stream.until = line;
        return;
    }
    let most = (4096 >> bits) - 1;
    let (first, last) = (page << (12 - bits), (page << (12 - bits)) + most);
    let (mut next, until) = match down {
        false => (stream.until.max(line), (line + u64::from(ahead)).min(last)),
        true => (stream.until.min(line), line.saturating_sub(ahead.into()).max(first)),
    };
    while next != until && (next < until) != down {
        next = if down { next - 1 } else { next + 1 };
        let Some(level) = levels.prefetch(thread.0, next) else {
            continue;
        };
        let memory = match usize::from(level) == levels.data_levels() {
            true => rows.access(next),
            false => 0,
        };
        let asked = Reach {
            line: next,
            level,
            memory,
            ..Reach::default()
        };
        lane.windows.iter_mut().for_each(|window| window.prefetch(&asked));
    }
    lane.streams[page as usize % STREAMS].until = next;
}

impl Lane {
    fn new(spec: &CoreSpec, windows: usize) -> Lane {
        let window = |n: usize| match n {
            0 => CoreWindow::new(spec).charging(),
            _ => CoreWindow::new(spec),
        };
        Lane {
            predictor: Tournament::new(&spec.predictor),
            translation: Translation::new(&spec.tlb),
            windows: (0..windows).map(window).collect(),
            streams: vec![Stream::default(); STREAMS],
            template: Template::UNKNOWN,
            tag: 0,
            due: false,
            loaded: false,
            branch: None,
            compared: false,
            line: u64::MAX,
            space: 0,
            instructions: 0,
            mispredicted: 0,
        }
    }

    #[inline]
    fn push(&mut self, micro: &Micro, ideal: u64) {
        for (n, window) in self.windows.iter_mut().enumerate() {
            window.push(micro, ideal >> n & 1 == 1);
        }
    }

    /// An instruction begins; the one before is done.
    #[inline]
    fn begin(&mut self, tagged: &Tagged<'_>, template: Template, fuse: bool) {
        self.operate(fuse);
        let pc = tagged.access.pc;
        if let Some(branch) = self.branch.take() {
            if !self.predictor.went(branch.pc, branch.length, branch.control, pc) {
                self.mispredicted += 1;
                self.windows.iter_mut().for_each(CoreWindow::mispredicted);
            }
        }
        self.instructions += 1;
        self.compared = self.template.compares;
        (self.template, self.tag) = (template, tagged.tag);
        (self.due, self.loaded) = (template.class.is_some(), false);
        if template.control != Control::None {
            self.branch = Some(Branch {
                pc,
                length: template.length,
                control: template.control,
            });
        }
    }

    /// The instruction's operation, if it is still to come.
    #[inline]
    fn operate(&mut self, fuse: bool) {
        let Some(class) = self.template.class.filter(|_| self.due) else {
            return;
        };
        self.due = false;
        let template = &self.template;
        let with_compare = fuse && self.compared && template.control == Control::Conditional;
        let micro = Micro {
            class: if with_compare { UnitClass::Nop } else { class },
            fused: with_compare || (fuse && self.loaded),
            sources: template.sources,
            dests: template.dests,
            reach: None,
            tag: self.tag,
        };
        self.push(&micro, 0);
    }

    #[inline]
    fn access(&mut self, tagged: &Tagged<'_>, reach: Reach, fuse: bool) {
        let is_store = tagged.access.kind == Kind::Write;
        // Branches come last: what follows them waits for them.
        if is_store && self.template.control == Control::None {
            self.operate(fuse);
        }
        self.loaded |= !is_store;
        let template = &self.template;
        let micro = Micro {
            class: if is_store { UnitClass::Store } else { UnitClass::Load },
            fused: false,
            sources: if is_store { template.stored } else { template.address },
            dests: match is_store || reach.hint {
                true => [NO_REGISTER; 4],
                false => template.loaded,
            },
            reach: Some(reach),
            tag: tagged.tag,
        };
        self.push(&micro, tagged.ideal);
    }
}
