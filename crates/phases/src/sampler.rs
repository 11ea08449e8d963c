//! Counts over time: accesses and misses of each object, and what was executed, by base period.
//!
//! **Idea.** Caches are simulated as for any table, and counts grow by composite. At the end of each
//! base period the counts of the composites that were accessed in it are compared with what they
//! were before; all others are unchanged. So a period costs what was touched in it, whatever the
//! number of composites. [`Touch`] remembers what was touched; it stands behind the tagger, which
//! knows what composites stand for.
use crate::cut::Cuts;
use crate::gather::{Gather, Sample};
use memtrail_analyze::tagger::{Key, Tagger};
use memtrail_model::{Access, AccessSink, Event, Note, Reply, SinkAdapter, Wants};
use memtrail_simulate::Simulator;

/// A simulator, and which composites were accessed lately, if that is wanted.
pub struct Touch {
    simulator: Simulator,
    wanted: bool,
    /// By composite: the number of the time in which it was last accessed.
    stamps: Vec<u32>,
    now: u32,
    touched: Vec<u32>,
}

impl Touch {
    pub fn new(simulator: Simulator, wanted: bool) -> Touch {
        Touch {
            simulator,
            wanted,
            stamps: Vec::new(),
            now: 1,
            touched: Vec::new(),
        }
    }

    pub fn simulator(&mut self) -> &mut Simulator {
        &mut self.simulator
    }

    #[inline]
    fn touch(&mut self, composite: u32) {
        let at = composite as usize;
        if at >= self.stamps.len() {
            self.stamps.resize(at + 1, 0);
        }
        if self.stamps[at] != self.now {
            self.stamps[at] = self.now;
            self.touched.push(composite);
        }
    }

    /// Composites that were accessed since it was asked last.
    fn take(&mut self) -> Vec<u32> {
        self.now = self.now.wrapping_add(1);
        std::mem::take(&mut self.touched)
    }
}

impl SinkAdapter for Touch {
    type Inner = Simulator;
    fn inner(&self) -> &Simulator {
        &self.simulator
    }
    fn inner_mut(&mut self) -> &mut Simulator {
        &mut self.simulator
    }

    fn pass(&mut self, batch: &[Access]) {
        if self.wanted {
            batch.iter().for_each(|access| self.touch(access.point.0));
        }
        self.simulator.accesses(batch);
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        if let (Event::Loop(run), true) = (&event, self.wanted) {
            run.body.iter().for_each(|access| self.touch(access.point.0));
        }
        self.simulator.event(event)
    }
}

/// The tracks of a [`Gather`] that a [`Sampler`] fills.
pub const OBJECTS: usize = 0;
/// Keys are the units that [`SamplerOptions::code`] gives; one count, of accesses.
pub const CODE: usize = 1;

/// Numbers that samples may hold before the base period doubles: 160 MB.
const MOST_HELD: usize = 20 << 20;

/// Marks that are kept before every other one goes.
const MOST_MARKS: usize = 4096;

#[derive(Clone, Debug, Default)]
pub struct SamplerOptions {
    /// The first base period.
    pub period: u64,
    /// Samples before it is doubled.
    pub most: usize,
    pub levels: usize,
    /// The level whose accesses are those of code.
    pub level: usize,
    /// By reference point: the block of code that it is counted for.
    pub code: Vec<u32>,
    /// Remember regions that the program enters and leaves; only where accesses are the unit.
    pub marks: bool,
}

/// A region that the program named is entered or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionMark {
    /// How much came before.
    pub at: u64,
    pub text: u32,
    pub enters: bool,
}

/// Samples what a tagger and a simulator count. Stands behind a [`Cutter`](crate::cut::Cutter).
///
/// A key of the track [`OBJECTS`] is a group of objects; its counts are accesses and misses at the
/// first level, then at the second.
pub struct Sampler {
    tagger: Tagger<Touch>,
    options: SamplerOptions,
    gather: Gather,
    /// By composite, and level: accesses and misses at the last cut.
    before: Vec<u64>,
    /// Where the present period began.
    start: u64,
    marks: Vec<RegionMark>,
    /// A mark that is nearer to the last than this is not kept.
    marks_apart: u64,
    /// Accesses since the last cut, for the place of marks.
    since: u64,
}

impl Sampler {
    pub fn new(tagger: Tagger<Touch>, options: SamplerOptions) -> Sampler {
        Sampler {
            gather: Gather::new(2, options.period, options.most, MOST_HELD),
            tagger,
            options,
            before: Vec::new(),
            start: 0,
            marks: Vec::new(),
            marks_apart: 0,
            since: 0,
        }
    }

    /// The end of the run, with this much left until the next cut: what it stood before, the
    /// samples, and the regions that were entered and left.
    pub fn finish(mut self, room: u64) -> (Tagger<Touch>, Gather, Vec<RegionMark>) {
        let length = self.gather.period() - room;
        let samples = self.samples();
        match room {
            0 => self.gather.push(samples),
            _ => self.gather.finish(length, samples),
        }
        (self.tagger, self.gather, self.marks)
    }

    /// What was counted since the last time.
    fn samples(&mut self) -> Vec<Sample> {
        let levels = self.options.levels;
        let touched = self.tagger.sink().take();
        let mut objects: Vec<(u32, usize)> = Vec::with_capacity(touched.len());
        let mut deltas: Vec<u64> = Vec::with_capacity(touched.len() * 2 * levels);
        let mut code: Vec<(u32, [u64; 1])> = Vec::with_capacity(touched.len());
        for (number, composite) in touched.into_iter().enumerate() {
            let Key { point, group, .. } = self.tagger.composite(composite).expect("it was made by the tagger");
            let at = composite as usize * 2 * levels;
            if self.before.len() < at + 2 * levels {
                self.before.resize(at + 2 * levels, 0);
            }
            for level in 0..levels {
                let counts = self.tagger.sink().simulator.counts_of(level, composite);
                for (i, now) in [counts.accesses(), counts.misses].into_iter().enumerate() {
                    let before = &mut self.before[at + 2 * level + i];
                    deltas.push(now - *before);
                    *before = now;
                }
            }
            objects.push((group, number));
            let unit = self.options.code.get(point.index()).copied().unwrap_or(point.0);
            code.push((unit, [deltas[(number * levels + self.options.level) * 2]]));
        }
        objects.sort_unstable();
        let mut sample = Sample::default();
        for (group, number) in objects {
            sample.add(group, &deltas[number * 2 * levels..][..2 * levels]);
        }
        vec![sample, Sample::new(code)]
    }

    fn mark(&mut self, text: u32, enters: bool) {
        let at = self.start + self.since;
        if !self.options.marks {
            return;
        }
        if self.marks.last().is_some_and(|last| at - last.at < self.marks_apart) {
            return;
        }
        self.marks.push(RegionMark { at, text, enters });
        if self.marks.len() >= MOST_MARKS {
            self.marks_apart = (2 * self.marks_apart).max(self.gather.period());
            let apart = self.marks_apart;
            let mut last = None;
            self.marks.retain(|mark| {
                let keep = last.is_none_or(|last| mark.at - last >= apart);
                last = if keep { Some(mark.at) } else { last };
                keep
            });
        }
    }
}

impl Cuts for Sampler {
    fn room(&self) -> u64 {
        self.gather.period()
    }

    fn cut(&mut self) {
        self.start += self.gather.period();
        self.since = 0;
        let samples = self.samples();
        self.gather.push(samples);
    }
}

impl SinkAdapter for Sampler {
    type Inner = Tagger<Touch>;
    fn inner(&self) -> &Tagger<Touch> {
        &self.tagger
    }
    fn inner_mut(&mut self) -> &mut Tagger<Touch> {
        &mut self.tagger
    }

    fn adjust(&self, wants: Wants) -> Wants {
        Wants { notes: true, ..wants }
    }

    fn pass(&mut self, batch: &[Access]) {
        self.since += batch.len() as u64;
        self.tagger.accesses(batch);
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Note {
                note: &Note::Enter { text },
                ..
            } => self.mark(text, true),
            Event::Note {
                note: &Note::Leave { text },
                ..
            } => self.mark(text, false),
            _ => {}
        }
        let reply = self.tagger.event(event);
        if let Event::Loop(run) = event {
            self.since += reply.skip * run.body.len() as u64;
        }
        reply
    }
}

/// Gives a tagger the number of the phase that each access is in. Stands behind a
/// [`Cutter`](crate::cut::Cutter).
pub struct Phased {
    tagger: Tagger<Touch>,
    /// How long phases are, and their numbers; the last goes on.
    phases: Vec<(u64, u32)>,
    at: usize,
}

impl Phased {
    pub fn new(mut tagger: Tagger<Touch>, phases: Vec<(u64, u32)>) -> Phased {
        if let Some(&(_, number)) = phases.first() {
            tagger.set_phase(number);
        }
        Phased { tagger, phases, at: 0 }
    }

    pub fn finish(self) -> Tagger<Touch> {
        self.tagger
    }
}

impl Cuts for Phased {
    fn room(&self) -> u64 {
        match self.phases.get(self.at) {
            Some(&(length, _)) if self.at + 1 < self.phases.len() => length.max(1),
            _ => u64::MAX,
        }
    }

    fn cut(&mut self) {
        self.at += 1;
        if let Some(&(_, number)) = self.phases.get(self.at) {
            self.tagger.set_phase(number);
        }
    }
}

impl SinkAdapter for Phased {
    type Inner = Tagger<Touch>;
    fn inner(&self) -> &Tagger<Touch> {
        &self.tagger
    }
    fn inner_mut(&mut self) -> &mut Tagger<Touch> {
        &mut self.tagger
    }
}
