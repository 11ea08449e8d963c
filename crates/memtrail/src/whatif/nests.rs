//! Loops by name, and what their caches do when iterations come in another order.
use super::args::ReplayedArgs;
use crate::dump::{replayed, selection};
use crate::info::open;
use crate::tables::run::Measured;
use crate::tables::scopes;
use anyhow::{bail, Context};
use memtrail_analyze::objects::Kind as ObjectKind;
use memtrail_decode::PointInfo;
use memtrail_model::{Access, AccessSink, Event, Kind, Thread};
use memtrail_replay::accesses;
use memtrail_report::format::base;
use memtrail_simulate::{LevelCounts, Options, Simulator};
use memtrail_trace::Known;
use memtrail_whatif::capture::{Capture, Standing, Window, LEVELS};
use memtrail_whatif::legality::{self, Broken};
use memtrail_whatif::order::Order;
use std::collections::HashSet;

/// Accesses that are handed to a simulator at once.
const BATCH: usize = 4096;

/// The loop that the user calls this.
pub fn find(measured: &Measured, text: &str) -> anyhow::Result<u32> {
    let (name, depth) = match text.rsplit_once('@') {
        Some((name, depth)) => (
            name,
            Some(depth.parse::<u32>().with_context(|| format!("{text}: @DEPTH"))?),
        ),
        None => (text, None),
    };
    let loops = (0..measured.scopes.loops().len() as u32).map(|number| (number, scopes::named(measured, number)));
    let loops: Vec<_> = loops
        .filter(|(_, l)| depth.is_none_or(|depth| l.depth == depth))
        .collect();
    let lines = |l: &memtrail_report::Loop| {
        let (file, low, high) = (l.file.as_deref()?, l.first_line?, l.last_line?);
        Some((base(file).to_string(), low, high))
    };
    let exact = loops.iter().filter(|(_, l)| {
        l.address == name || lines(l).is_some_and(|(file, low, high)| format!("{file}:{low}-{high}") == name)
    });
    if let Some((number, _)) = exact.min_by_key(|(_, l)| l.depth) {
        return Ok(*number);
    }
    let (file, line) = match name.rsplit_once(':') {
        Some((file, line)) => (Some(base(file)), line),
        None => (None, name),
    };
    let line: u32 = line.parse().with_context(|| unknown(measured, text))?;
    let here = |l: &memtrail_report::Loop| lines(l).filter(|(f, ..)| file.is_none_or(|file| file == f));
    let begins = loops
        .iter()
        .filter(|(_, l)| here(l).is_some_and(|(_, low, _)| low == line));
    let holds = loops
        .iter()
        .filter(|(_, l)| here(l).is_some_and(|(_, low, high)| (low..=high).contains(&line)));
    let found = begins
        .min_by_key(|(_, l)| l.depth)
        .or_else(|| holds.max_by_key(|(_, l)| l.depth));
    found
        .map(|(number, _)| *number)
        .with_context(|| unknown(measured, text))
}

fn unknown(measured: &Measured, text: &str) -> String {
    let all = (0..measured.scopes.loops().len() as u32).map(|number| scopes::named(measured, number));
    let mut all: Vec<String> = all
        .filter(|l| l.file.is_some())
        .map(|l| format!("{l}@{}", l.depth))
        .collect();
    all.truncate(12);
    format!("there is no loop {text}; there are {}", all.join(", "))
}

/// Some iterations of a nest, ready to be put in order.
pub struct Nest {
    /// The outermost loop.
    pub root: u32,
    pub window: Window,
    points: Vec<PointInfo>,
    private: HashSet<u32>,
}

/// What caches did in some order of a nest's iterations.
pub struct Outcome {
    pub counts: Vec<LevelCounts>,
    pub accesses: u64,
}

impl Outcome {
    pub fn misses(&self, level: usize) -> u64 {
        let points = self.counts.get(level).map(|level| &level.points);
        points.map_or(0, |points| points.iter().map(|counts| counts.misses).sum())
    }
}

impl Nest {
    /// Collects iterations of a loop in the largest nest around it that can be.
    pub fn around(args: &ReplayedArgs, measured: &Measured, inner: u32) -> anyhow::Result<Option<Nest>> {
        let mut around: Vec<u32> = measured.scopes.outwards(inner).collect();
        around.truncate(LEVELS);
        for &root in around.iter().rev() {
            if let Some(nest) = Nest::of(args, measured, root)? {
                return Ok(Some(nest));
            }
        }
        Ok(None)
    }

    fn of(args: &ReplayedArgs, measured: &Measured, root: u32) -> anyhow::Result<Option<Nest>> {
        let mut reader = open(&args.file)?;
        let mut known = Known::read(&mut reader)?;
        known.table.number_fetches();
        let points = known.table.points().to_vec();
        let standing = points.iter().map(|point| standing(measured, point, root)).collect();
        let mut capture = Capture::new(standing, args.part.thread.map(Thread), args.window);
        let selection = selection(&args.part, None, &known)?;
        replayed(accesses(&mut reader, &known, &selection, &mut capture))?;
        let Some(window) = capture.finish() else {
            return Ok(None);
        };
        let stack = on_stacks(measured);
        let is_on_stack = |point: u32| {
            points
                .get(point as usize)
                .is_some_and(|p| stack.contains(&(p.code, p.kind)))
        };
        Ok(Some(Nest {
            root,
            private: legality::private(&window, is_on_stack),
            points,
            window,
        }))
    }

    /// The level of a loop of the nest.
    pub fn level_of(&self, number: u32) -> Option<u8> {
        let level = self.window.loops.iter().position(|loops| loops.contains(&number));
        level.map(|level| level as u8)
    }

    /// Whether an order is legal for this run.
    pub fn check(&self, order: &Order) -> Result<(), Broken> {
        legality::check(&self.window, order, &self.private)
    }

    /// Simulates the iterations in an order, from empty caches.
    pub fn simulate(&self, measured: &Measured, order: &Order) -> anyhow::Result<Outcome> {
        let accesses: Vec<Access> = order.accesses(&self.window);
        let mut simulator = Simulator::new(&measured.hierarchy, Options::default())?;
        if let Some(first) = accesses.first() {
            let thread = first.thread;
            simulator.event(Event::Space { thread, space: 0 });
        }
        accesses.chunks(BATCH).for_each(|batch| simulator.accesses(batch));
        Ok(Outcome {
            counts: simulator.counts(),
            accesses: accesses.len() as u64,
        })
    }

    /// What the references of the nest missed in the whole run, at a level.
    pub fn misses_of_run(&self, measured: &Measured, level: usize) -> u64 {
        let seen: HashSet<(u64, Kind)> = self
            .window
            .accesses
            .iter()
            .filter_map(|captured| self.points.get(captured.access.point.index()))
            .map(|point| (point.code, point.kind))
            .collect();
        let counts = measured.counts[level].points.iter().zip(&measured.keys);
        counts
            .filter(|(_, key)| {
                let point = measured.points.get(key.point.index());
                point.is_some_and(|point| seen.contains(&(point.code, point.kind)))
            })
            .map(|(counts, _)| counts.misses)
            .sum()
    }
}

/// Where an instruction stands in the nest of a root.
fn standing(measured: &Measured, point: &PointInfo, root: u32) -> Option<Standing> {
    if point.kind != Kind::Fetch {
        return None;
    }
    let innermost = measured.scopes.innermost(point.code)?;
    let mut loops: Vec<u32> = measured.scopes.outwards(innermost).collect();
    let at = loops.iter().position(|&number| number == root)?;
    loops.truncate(at + 1);
    loops.reverse();
    Some(Standing {
        loops,
        header: measured.scopes.loops()[innermost as usize].header == point.code,
    })
}

/// Instructions that access nothing but stacks.
fn on_stacks(measured: &Measured) -> HashSet<(u64, Kind)> {
    let (mut stack, mut other) = (HashSet::new(), HashSet::new());
    for key in &measured.keys {
        let (Some(point), Some(group)) = (
            measured.points.get(key.point.index()),
            measured.groups.get(key.group as usize),
        ) else {
            continue;
        };
        let is_stack = group.common.kind() == ObjectKind::Stack;
        let set = if is_stack { &mut stack } else { &mut other };
        set.insert((point.code, point.kind));
    }
    stack.retain(|point| !other.contains(point));
    stack
}

/// The loop and how it is called, for messages.
pub fn described(measured: &Measured, number: u32) -> String {
    scopes::named(measured, number).to_string()
}

/// The order that options ask for.
pub fn asked(
    nest: &Nest,
    level: u8,
    (interchange, tile, fuse): (bool, Option<u32>, bool),
) -> anyhow::Result<(&'static str, Order)> {
    let levels = nest.window.levels();
    let inner = level + 1;
    if usize::from(inner) >= levels {
        bail!("there is no loop inside that one that was executed");
    }
    if interchange {
        return Ok(("interchange", Order::interchanged(levels, level, inner)));
    }
    if fuse {
        if nest.window.loops[usize::from(inner)].len() < 2 {
            bail!("there are not two loops that follow each other inside that one");
        }
        return Ok(("fuse", Order::original(levels).fused(inner)));
    }
    let size = tile.context("nothing is asked for")?;
    let tiled: Vec<u8> = (level..levels as u8).collect();
    Ok(("tile", Order::original(levels).tiled(&tiled, size)))
}
