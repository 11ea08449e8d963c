//! What is to be found out, and finding it out in one pass.
use super::args::SimArgs;
use super::choose::{choose, Chosen};
use super::fan_out::FanOut;
use super::{cores, Findings, Found};
use anyhow::Context;
use memtrail_model::{Access, AccessSink, Event, Reply, Wants};
use memtrail_report::{level_named, Reuse};
use memtrail_simulate::config::Shared;
use memtrail_simulate::reuse::{Curves, Reuse as Distances};
use memtrail_simulate::spec::configurations;
use memtrail_simulate::sweep::{Sweep, SweepConfig, Swept};
use memtrail_simulate::{Beside, LevelCounts, Options, Simulator};

/// Sizes of the caches on a curve, and their ways.
const CURVE_SIZES: std::ops::RangeInclusive<u32> = 10..=26;
const CURVE_WAYS: [u32; 5] = [1, 2, 4, 8, 16];
/// A sweep on more cores than this waits for the one that hands out the accesses.
const MOST_WORKERS: usize = 4;

/// A hierarchy being simulated.
struct Levels {
    chosen: Chosen,
    simulator: Beside,
    /// Of other threads, simulated by others.
    others: Vec<Vec<LevelCounts>>,
    others_skipped: u64,
}

/// Many configurations.
struct Many {
    configs: Vec<SweepConfig>,
    how: How,
}

enum How {
    /// All in one pass.
    AtOnce(Sweep),
    /// Each has been simulated by itself.
    Done(Vec<Swept>),
}

impl Many {
    fn sweep(&self) -> Option<&Sweep> {
        match &self.how {
            How::AtOnce(sweep) => Some(sweep),
            How::Done(_) => None,
        }
    }

    fn sweep_mut(&mut self) -> Option<&mut Sweep> {
        match &mut self.how {
            How::AtOnce(sweep) => Some(sweep),
            How::Done(_) => None,
        }
    }

    fn found(self) -> Vec<Swept> {
        let mut sweep = match self.how {
            How::AtOnce(sweep) => sweep,
            How::Done(swept) => return swept,
        };
        let swept = |(config, counts)| Swept {
            config,
            counts,
            skipped: 0,
        };
        self.configs.into_iter().zip(sweep.counts()).map(swept).collect()
    }
}

/// Everything that was asked for.
pub struct Analyses {
    levels: Option<Levels>,
    many: Option<Many>,
    curves: Option<Curves>,
    reuse: Option<Distances>,
    /// For [`FanOut`].
    spare: Vec<Access>,
}

impl Analyses {
    pub fn new(args: &SimArgs) -> anyhow::Result<Analyses> {
        let levels = args.hierarchy().then(|| Levels::new(args, cores())).transpose()?;
        let mut configs = Vec::new();
        for text in &args.many.sweeps {
            let levels = configurations(text).context("--sweep")?;
            configs.extend(levels.iter().map(SweepConfig::from));
        }
        let many = match configs.is_empty() {
            true => None,
            false => {
                let sweep = Sweep::on(&configs, cores().min(MOST_WORKERS)).context("--sweep")?;
                let how = How::AtOnce(sweep.sharing(Shared::By(1), args.caches.cores));
                Some(Many { configs, how })
            }
        };
        let line = args.many.line;
        let sizes: Vec<u64> = CURVE_SIZES.map(|power| 1 << power).collect();
        let curves = args.many.curve.then(|| Curves::new(line, &sizes, &CURVE_WAYS));
        let reuse = args.many.reuse.then(|| Distances::new(line));
        Ok(Analyses {
            levels,
            many,
            curves: curves.transpose()?,
            reuse: reuse.transpose()?,
            spare: Vec::new(),
        })
    }

    /// Of the hierarchy alone, while others do the same on other cores.
    pub fn of_levels(args: &SimArgs) -> anyhow::Result<Analyses> {
        Ok(Analyses {
            levels: Some(Levels::new(args, 1)?),
            many: None,
            curves: None,
            reuse: None,
            spare: Vec::new(),
        })
    }

    /// Has the configurations of a sweep simulated one by one, if there are any and that can be
    /// done. Returns how many accesses there were then.
    pub fn by_itself(
        &mut self,
        simulate: impl FnOnce(&[SweepConfig]) -> anyhow::Result<Option<(Vec<Swept>, u64)>>,
    ) -> anyhow::Result<Option<u64>> {
        let Some(many) = &mut self.many else { return Ok(None) };
        let Some((swept, accesses)) = simulate(&many.configs)? else {
            return Ok(None);
        };
        many.how = How::Done(swept);
        Ok(Some(accesses))
    }

    /// Whether nothing is left to be found out.
    pub fn is_done(&self) -> bool {
        self.sinks().next().is_none()
    }

    /// Whether each thread can be dealt with by itself.
    pub fn keeps_threads_apart(&self) -> bool {
        let levels = self.levels.as_ref().filter(|_| self.alone().is_some());
        levels.is_some_and(|levels| levels.chosen.hierarchy.keeps_threads_apart())
    }

    /// Takes over what was found of another thread.
    pub fn add(&mut self, other: &mut Analyses) {
        if let (Some(levels), Some(other)) = (&mut self.levels, &mut other.levels) {
            let simulator = other.simulator.simulator();
            levels.others.push(simulator.counts());
            levels.others_skipped += simulator.skipped();
        }
    }

    /// All accesses have come.
    pub fn end(mut self, args: &SimArgs) -> Analyses {
        if let Some(levels) = self.levels.as_mut().filter(|_| args.flush) {
            levels.simulator.simulator().flush();
        }
        self
    }

    /// The simulator, if nothing else is asked for.
    fn alone(&self) -> Option<&Beside> {
        let sweeps = self
            .many
            .as_ref()
            .is_some_and(|many| matches!(many.how, How::AtOnce(_)));
        let others = sweeps || self.curves.is_some() || self.reuse.is_some();
        let levels = self.levels.as_ref().filter(|_| !others)?;
        Some(&levels.simulator)
    }

    fn alone_mut(&mut self) -> Option<&mut Beside> {
        self.alone()?;
        self.levels.as_mut().map(|levels| &mut levels.simulator)
    }

    /// What is to be found out and is not yet.
    fn sinks(&self) -> impl Iterator<Item = &dyn AccessSink> {
        let sweep = self.many.as_ref().and_then(Many::sweep);
        let levels = self.levels.as_ref().map(|l| &l.simulator as &dyn AccessSink);
        let sweep = sweep.map(|sweep| sweep as &dyn AccessSink);
        let curves = self.curves.as_ref().map(|curves| curves as &dyn AccessSink);
        let reuse = self.reuse.as_ref().map(|reuse| reuse as &dyn AccessSink);
        [levels, sweep, curves, reuse].into_iter().flatten()
    }

    fn fan_out(&mut self) -> FanOut<'_> {
        let sweep = self.many.as_mut().and_then(Many::sweep_mut);
        let levels = self.levels.as_mut().map(|l| &mut l.simulator as &mut dyn AccessSink);
        let sweep = sweep.map(|sweep| sweep as &mut dyn AccessSink);
        let curves = self.curves.as_mut().map(|curves| curves as &mut dyn AccessSink);
        let reuse = self.reuse.as_mut().map(|reuse| reuse as &mut dyn AccessSink);
        let sinks = [levels, sweep, curves, reuse].into_iter().flatten().collect();
        FanOut::new(sinks, &mut self.spare)
    }

    /// What was found: of the hierarchy in numbers, to be named, and the rest.
    pub fn found(self, args: &SimArgs) -> Found {
        Found {
            levels: self.levels.map(Levels::found),
            sweep: self.many.map(Many::found).unwrap_or_default(),
            curves: self.curves.map(|mut curves| (args.many.line, curves.curves())),
            reuse: self.reuse.map(|mut reuse| Reuse::of(&reuse.histogram())),
        }
    }
}

/// A simulator that is alone gets everything as it comes; several analyses share it.
impl AccessSink for Analyses {
    fn accesses(&mut self, batch: &[Access]) {
        match self.alone_mut() {
            Some(simulator) => simulator.accesses(batch),
            None => self.fan_out().accesses(batch),
        }
    }
    fn wants(&self) -> Wants {
        match self.alone() {
            Some(simulator) => simulator.wants(),
            None => FanOut::wants_of(self.sinks()),
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        match self.alone_mut() {
            Some(simulator) => simulator.event(event),
            None => self.fan_out().event(event),
        }
    }
}

impl Levels {
    fn new(args: &SimArgs, cores: usize) -> anyhow::Result<Levels> {
        let chosen = choose(&args.caches)?;
        if let Some(name) = &args.level {
            level_named(&chosen.hierarchy, name)?;
        }
        let options = Options {
            evictors: args.evictors,
            charge: args.charge.into(),
            classes: args.classes,
            instructions: args.caches.instructions,
            no_skip: args.no_skip,
            ..Options::default()
        };
        Ok(Levels {
            simulator: Beside::new(Simulator::new(&chosen.hierarchy, options)?, cores),
            chosen,
            others: Vec::new(),
            others_skipped: 0,
        })
    }

    fn found(mut self) -> Findings {
        let simulator = self.simulator.simulator();
        let mut counts = simulator.counts();
        for other in &self.others {
            counts.iter_mut().zip(other).for_each(|(all, part)| all.merge(part));
        }
        Findings {
            skipped: simulator.skipped() + self.others_skipped,
            chosen: self.chosen,
            counts,
        }
    }
}
