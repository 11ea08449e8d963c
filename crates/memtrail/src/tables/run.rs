//! One replay of a recording, and everything the tables need of it.
use super::args::TableArgs;
use super::feeders;
use super::mapped::Mapped;
use super::names::{Code, Names};
use super::processes;
use super::statics::Statics;
use super::tap::Tap;
use super::words;
use crate::dump::{replayed, selection};
use crate::info::Recording;
use crate::progress::Progress;
use crate::sim::args::Charge;
use crate::sim::choose::{choose, Chosen};
use crate::sim::feed::Feed;
use crate::sim::{cores, progress};
use anyhow::bail;
use memtrail_analyze::calls::Tree;
use memtrail_analyze::objects::{self, Common, Group};
use memtrail_analyze::patterns::Summary;
use memtrail_analyze::placement::Placement;
use memtrail_analyze::scopes::Scopes;
use memtrail_analyze::tagger::{Dimensions, FirstAccess, Key, Tagger, Tally};
use memtrail_decode::PointInfo;
use memtrail_explain::map::Map;
use memtrail_model::{AccessSink, Edge, Kind, Point};
use memtrail_phases::cut::{Cutter, Unit};
use memtrail_phases::gather::Gather;
use memtrail_phases::sampler::{Phased, RegionMark, Sampler, SamplerOptions, Touch};
use memtrail_replay::accesses;
use memtrail_report::{first_level, level_named, Dimension};
use memtrail_simulate::{Beside, Hierarchy, LevelCounts, Options, Simulator};
use memtrail_trace::{Known, Ranks};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;

/// What is wanted besides what the options say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wants {
    /// Who evicts whom, charged to these.
    pub evictors: Option<Charge>,
    pub premature: bool,
    /// Why lines are missed.
    pub classes: bool,
    /// A map of accesses and misses.
    pub map: bool,
}

/// What is made of time.
pub enum Over {
    /// All of it is one.
    Whole,
    /// Counts by base period: the first one, and how many are kept.
    Sampled { unit: Unit, period: u64, most: usize },
    /// Accesses are told apart by phase: how long each is, in this unit, and its number.
    Phases { unit: Unit, phases: Vec<(u64, u32)> },
}

impl Over {
    fn unit(&self) -> Unit {
        match self {
            Over::Whole => Unit::Accesses,
            Over::Sampled { unit, .. } | Over::Phases { unit, .. } => *unit,
        }
    }

    /// How long all phases of a number are together.
    pub fn length_of(&self, number: Option<u32>) -> Option<u64> {
        match (self, number) {
            (Over::Phases { phases, .. }, Some(number)) => {
                let own = phases.iter().filter(|phase| phase.1 == number);
                Some(own.map(|phase| phase.0).sum())
            }
            _ => None,
        }
    }
}

/// What was counted over time.
pub struct Sampled {
    pub gather: Gather,
    pub marks: Vec<RegionMark>,
    /// By unit of code: where it is.
    pub code: Vec<u64>,
    /// The level whose accesses are those of code.
    pub level: usize,
}

/// What a replay found, in numbers, and what is needed to name them.
pub struct Measured {
    pub hierarchy: Hierarchy,
    /// Where the hierarchy is from.
    pub source: String,
    /// Accesses that were simulated.
    pub accesses: u64,
    pub skipped: u64,
    pub points: Vec<PointInfo>,
    /// By composite.
    pub keys: Vec<Key>,
    /// Empty if they were not kept.
    pub tallies: Vec<Tally>,
    /// By level and composite.
    pub counts: Vec<LevelCounts>,
    pub tree: Tree,
    /// By group of objects.
    pub groups: Vec<Group>,
    pub patterns: Vec<Option<Summary>>,
    pub statics: Statics,
    /// By point: where its first access went, and where the instruction was then.
    pub first: Vec<Option<FirstAccess>>,
    pub scopes: Scopes,
    pub names: Rc<Names>,
    /// By point: what accesses are for that no expression stands for.
    pub words: Vec<Option<&'static str>>,
    /// By composite, if it was asked for.
    pub map: Option<Map>,
    /// Whether objects were asked for, but nothing was noted of any.
    pub unnoted: bool,
    /// Functions that the user says are wrappers.
    pub wrappers: Vec<String>,
    /// What notes refer to.
    pub texts: Rc<memtrail_decode::Names>,
    /// By serial number: what processes are called.
    pub processes: BTreeMap<u32, String>,
    pub ranks: Ranks,
    /// Counts over time, if they were asked for.
    pub sampled: Option<Sampled>,
    /// What is counted in other phases than this is left out of results.
    pub only_phase: Option<u32>,
}

/// Which dimensions a tagger must track.
fn dimensions(by: &[Dimension]) -> Dimensions {
    Dimensions {
        callpath: by.contains(&Dimension::Callpath),
        object: by.contains(&Dimension::Object),
        thread: by.contains(&Dimension::Thread),
        process: by.contains(&Dimension::Process) || by.contains(&Dimension::Rank),
    }
}

/// Replays the recording once.
pub fn run(
    args: &TableArgs,
    by: &[Dimension],
    wants: Wants,
    over: Over,
    reader: &mut Recording,
    known: &mut Known,
) -> anyhow::Result<Measured> {
    replay_once(args, by, wants, (over, None), reader, known)
}

/// Replays the recording once, with some objects elsewhere than they were.
pub fn run_placed(
    args: &TableArgs,
    by: &[Dimension],
    wants: Wants,
    placement: Option<Box<dyn Placement>>,
    reader: &mut Recording,
    known: &mut Known,
) -> anyhow::Result<Measured> {
    replay_once(args, by, wants, (Over::Whole, placement), reader, known)
}

fn replay_once(
    args: &TableArgs,
    by: &[Dimension],
    wants: Wants,
    (over, placement): (Over, Option<Box<dyn Placement>>),
    reader: &mut Recording,
    known: &mut Known,
) -> anyhow::Result<Measured> {
    let chosen = choose(&args.caches)?;
    let level = match &args.level {
        Some(name) => level_named(&chosen.hierarchy, name)?,
        None => first_level(&chosen.hierarchy, Kind::Read),
    };
    if args.caches.instructions || over.unit() == Unit::Instructions {
        known.table.number_fetches();
    }
    let known = &*known;
    let names = Rc::new(Names::new(&known.table, args.symbols.options()));
    let simulator = Simulator::new(
        &chosen.hierarchy,
        Options {
            evictors: wants.evictors.is_some(),
            charge: wants.evictors.map_or_else(Default::default, Into::into),
            premature: wants.premature,
            classes: wants.classes,
            instructions: args.caches.instructions,
            ..Options::default()
        },
    )?;
    if wants.map {
        let first = first_level(&chosen.hierarchy, Kind::Read);
        let map = Map::new(&chosen.hierarchy.levels[first]);
        let mut mapped = Mapped {
            sink: simulator,
            map: Some(map),
        };
        let measured = through(args, by, chosen, placement, &mut mapped, reader, known)?;
        let measured = measured.with_counts(&mut mapped.sink, args);
        return Ok(Measured {
            map: mapped.map,
            ..measured
        });
    }
    if matches!(over, Over::Whole) {
        let mut beside = Beside::new(simulator, cores());
        let measured = through(args, by, chosen, placement, &mut beside, reader, known)?;
        return Ok(measured.with_counts(beside.simulator(), args));
    }
    let touch = Touch::new(simulator, matches!(over, Over::Sampled { .. }));
    let TaggerFor { mut tagger, statics } = tagged(args, by, touch, &names, known);
    if let Some(placement) = placement {
        tagger = tagger.with_placement(placement);
    }
    let mut sampled = None;
    let replayed = match over {
        Over::Whole => replay_through(args, by, tagger, &names, reader, known)?,
        Over::Phases { unit, phases } => {
            let cutter = Cutter::new(Phased::new(tagger, phases), unit);
            let replayed = replay_through(args, by, cutter, &names, reader, known)?;
            replayed.map(|cutter| cutter.finish().0.finish())
        }
        Over::Sampled { unit, period, most } => {
            let (code_of, code) = code_units(known);
            let options = SamplerOptions {
                period,
                most,
                levels: chosen.hierarchy.levels.len(),
                level,
                code: code_of,
                marks: unit == Unit::Accesses,
            };
            let cutter = Cutter::new(Sampler::new(tagger, options), unit);
            let replayed = replay_through(args, by, cutter, &names, reader, known)?;
            replayed.map(|cutter| {
                let (sampler, room) = cutter.finish();
                let (tagger, gather, marks) = sampler.finish(room);
                sampled = Some(Sampled {
                    gather,
                    marks,
                    code,
                    level,
                });
                tagger
            })
        }
    };
    let mut tagger = replayed.sink;
    let measured = Measured {
        accesses: replayed.accesses,
        scopes: Scopes::new(&replayed.edges, &[]),
        statics,
        sampled,
        only_phase: args.phase,
        ..Measured::by_point(chosen, Vec::new(), known.table.points(), names)
    };
    let measured = measured.with_counts(tagger.sink().simulator(), args);
    Ok(measured.with_tags(&mut tagger, args, by, known))
}

/// Replays the recording once, through a tagger into a sink; what the sink counts is not in what
/// is returned. Composites are the same in each replay of the same part.
pub fn through<S: AccessSink>(
    args: &TableArgs,
    by: &[Dimension],
    chosen: Chosen,
    placement: Option<Box<dyn Placement>>,
    sink: &mut S,
    reader: &mut Recording,
    known: &Known,
) -> anyhow::Result<Measured> {
    let names = Rc::new(Names::new(&known.table, args.symbols.options()));
    let TaggerFor { mut tagger, statics } = tagged(args, by, sink, &names, known);
    if let Some(placement) = placement {
        tagger = tagger.with_placement(placement);
    }
    let replayed = replay_through(args, by, tagger, &names, reader, known)?;
    let mut tagger = replayed.sink;
    // It has everything by then.
    tagger.sink();
    let measured = Measured {
        accesses: replayed.accesses,
        scopes: Scopes::new(&replayed.edges, &[]),
        statics,
        ..Measured::by_point(chosen, Vec::new(), known.table.points(), names)
    };
    Ok(measured.with_tags(&mut tagger, args, by, known))
}

/// A tagger before some sink, and what it knows of variables.
pub struct TaggerFor<S> {
    pub tagger: Tagger<S>,
    pub statics: Statics,
}

/// A tagger that tracks what `by` needs.
pub fn tagged<S: AccessSink>(
    args: &TableArgs,
    by: &[Dimension],
    sink: S,
    names: &Rc<Names>,
    known: &Known,
) -> TaggerFor<S> {
    let apart = Apart {
        wrappers: &args.wrappers,
        depth: args.depth,
        threshold: args.threshold,
    };
    let (tagger, statics) = tagged_apart(sink, dimensions(by), &apart, names, known);
    TaggerFor { tagger, statics }
}

/// How allocations are told apart.
pub struct Apart<'a> {
    /// Functions that only pass on what an allocator gives them.
    pub wrappers: &'a [String],
    /// Calls that count, at most.
    pub depth: Option<usize>,
    /// Blocks of fewer bytes are not told apart.
    pub threshold: u64,
}

/// A tagger before a sink that knows where variables are, if objects are tracked.
pub fn tagged_apart<S: AccessSink>(
    sink: S,
    dimensions: Dimensions,
    apart: &Apart<'_>,
    names: &Rc<Names>,
    known: &Known,
) -> (Tagger<S>, Statics) {
    let objects = objects::Options {
        wrapper: Some(wrappers(names.clone(), apart.wrappers)),
        depth: apart.depth.unwrap_or(usize::MAX),
        threshold: apart.threshold,
        allocators: allocators(&known.names),
        ..objects::Options::default()
    };
    let mut tagger = Tagger::new(sink, dimensions, objects);
    if !dimensions.object {
        return (tagger, Statics::default());
    }
    let statics = Statics::new(names, &program(known), tagger.objects());
    let texts = known.names.clone();
    tagger = tagger.with_thread_local(statics.thread_local.clone());
    tagger = tagger.with_variables(statics.watch(move |text| texts.text(text).map(<[u8]>::to_vec)));
    (tagger, statics)
}

/// Whether nothing was noted of any object.
pub fn is_unnoted(groups: &[Group]) -> bool {
    let noted = |group: &Group| group.objects > 0 && !matches!(group.common, Common::Stack { .. });
    !groups.iter().any(noted)
}

/// What is left of a replay.
pub struct ReplayedInto<S> {
    pub sink: S,
    pub edges: Vec<Edge>,
    pub accesses: u64,
}

impl<S> ReplayedInto<S> {
    /// With what becomes of the sink.
    fn map<T>(self, made: impl FnOnce(S) -> T) -> ReplayedInto<T> {
        ReplayedInto {
            sink: made(self.sink),
            edges: self.edges,
            accesses: self.accesses,
        }
    }
}

/// Replays what the options select into a sink.
pub fn replay_through<S: AccessSink>(
    args: &TableArgs,
    by: &[Dimension],
    sink: S,
    names: &Names,
    reader: &mut Recording,
    known: &Known,
) -> anyhow::Result<ReplayedInto<S>> {
    let pcs: Vec<Range<u64>> = args.pcs.iter().map(|range| range.0.clone()).collect();
    let points = points_of(&args.functions, names, known.table.points())?;
    let tap = Tap::new(sink, by.contains(&Dimension::Loop));
    // The limit is for accesses that are simulated, whatever else is replayed.
    let limit = if pcs.is_empty() && points.is_empty() {
        args.limit
    } else {
        None
    };
    let mut selection = selection(&args.part, limit, known)?;
    let thread = selection.thread;
    let object = by.contains(&Dimension::Object);
    if object && thread.is_some() && args.part.from.is_none() && args.part.to.is_none() {
        // What a thread accesses may have been allocated by another.
        selection.thread = None;
        selection.limit = u64::MAX;
    }
    let progress: Progress = progress(known, &selection);
    let feed = Feed::new(tap, pcs, args.limit.unwrap_or(u64::MAX), progress);
    let mut feed = feed.with_points(points).only(thread);
    replayed(accesses(reader, known, &selection, &mut feed))?;
    let (tap, accesses) = feed.finish();
    if accesses == 0 {
        bail!("{}: no access was simulated", args.file().display());
    }
    let (sink, edges) = tap.finish();
    Ok(ReplayedInto { sink, edges, accesses })
}

/// By reference point: the number of the first block that it stands in; and by number, where that
/// is. Instructions of no block are a block each.
fn code_units(known: &Known) -> (Vec<u32>, Vec<u64>) {
    let mut unit_of: HashMap<u64, u32> = HashMap::new();
    let mut places = Vec::new();
    for block in known.table.blocks() {
        let unit = places.len() as u32;
        let mut is_new = false;
        for access in &block.plan.accesses {
            unit_of.entry(block.code_address(access.insn)).or_insert_with(|| {
                is_new = true;
                unit
            });
        }
        if is_new {
            let own = block.plan.accesses.iter().map(|access| block.code_address(access.insn));
            places.extend(own.clone().find(|code| unit_of[code] == unit));
        }
    }
    let of_point = |point: &PointInfo| {
        *unit_of.entry(point.code).or_insert_with(|| {
            places.push(point.code);
            places.len() as u32 - 1
        })
    };
    let units = known.table.points().iter().map(of_point).collect();
    (units, places)
}

/// Says of call sites whether they lie in a wrapper; `named` are those that the user names.
fn wrappers(names: Rc<Names>, named: &[String]) -> objects::Wrapper {
    let named = named.to_vec();
    let known: RefCell<HashMap<u64, bool>> = RefCell::default();
    Box::new(move |site| {
        let known_already = known.borrow().get(&site).copied();
        known_already.unwrap_or_else(|| {
            let codes = names.code(site).inlined();
            let wrapper = codes.iter().all(|code| code.location.is_wrapper(&named));
            known.borrow_mut().insert(site, wrapper);
            wrapper
        })
    })
}

/// By hook: which allocator it belongs to. The usual functions are one, and those that the user
/// named another, which gets its memory from the first.
pub fn allocators(names: &memtrail_decode::Names) -> Vec<u32> {
    let hooks = (0..).map_while(|id| names.hook(id));
    hooks.map(|hook| u32::from(hook.by_user)).collect()
}

/// The path of the program that was launched: the first file that a process told of, but for our
/// own.
pub fn program(known: &Known) -> Vec<u8> {
    let program = known.modules().iter().find(|module| !module.generated);
    program.map(|module| module.path.clone()).unwrap_or_default()
}

/// By reference point: whether it is of one of these functions; nothing if there are none.
fn points_of(functions: &[String], names: &Names, points: &[PointInfo]) -> anyhow::Result<Vec<bool>> {
    if functions.is_empty() {
        return Ok(Vec::new());
    }
    let mut ranges = Vec::new();
    for wanted in functions {
        let mut found = names.function_ranges(wanted, points.iter().map(|point| point.code));
        if found.is_empty() {
            bail!("--function {wanted}: no access was made by a function of this name");
        }
        ranges.append(&mut found);
    }
    let is_wanted = |point: &PointInfo| ranges.iter().any(|range| range.contains(&point.code));
    Ok(points.iter().map(is_wanted).collect())
}

impl Measured {
    /// With what a simulator counted.
    fn with_counts(self, simulator: &mut Simulator, args: &TableArgs) -> Measured {
        if args.flush {
            simulator.flush();
        }
        Measured {
            counts: simulator.counts(),
            skipped: simulator.skipped(),
            ..self
        }
    }

    /// With what a tagger knows of composites.
    pub fn with_tags<S: AccessSink>(
        self,
        tagger: &mut Tagger<S>,
        args: &TableArgs,
        by: &[Dimension],
        known: &Known,
    ) -> Measured {
        let feeders = feeders::feeders(known, tagger.unexplained().collect());
        let unnoted = by.contains(&Dimension::Object) && is_unnoted(tagger.objects().groups());
        Measured {
            keys: tagger.keys(),
            tallies: tagger.tallies().collect(),
            first: tagger.firsts(),
            tree: tagger.calls().tree().clone(),
            patterns: tagger.patterns(&feeders),
            groups: tagger.objects().groups().to_vec(),
            unnoted,
            wrappers: args.wrappers.clone(),
            texts: Rc::new(known.names.clone()),
            processes: processes::names(known),
            ranks: known.ranks.clone(),
            words: match by.contains(&Dimension::Ref) {
                true => words::words(known.table.blocks(), known.table.points(), &self.names),
                false => Vec::new(),
            },
            ..self
        }
    }

    /// Of a simulation that counts by reference point and nothing else.
    pub fn by_point(chosen: Chosen, counts: Vec<LevelCounts>, points: &[PointInfo], names: Rc<Names>) -> Measured {
        let key = |point| Key {
            point: Point(point),
            node: Key::NONE,
            group: Key::NONE,
            thread: Key::NONE,
            process: Key::NONE,
            phase: Key::NONE,
        };
        Measured {
            hierarchy: chosen.hierarchy,
            source: chosen.source,
            accesses: 0,
            skipped: 0,
            points: points.to_vec(),
            keys: (0..points.len() as u32).map(key).collect(),
            tallies: Vec::new(),
            counts,
            tree: Tree::default(),
            groups: Vec::new(),
            patterns: Vec::new(),
            statics: Statics::default(),
            first: Vec::new(),
            scopes: Scopes::new(&[], &[]),
            names,
            words: Vec::new(),
            map: None,
            unnoted: false,
            wrappers: Vec::new(),
            texts: Rc::default(),
            processes: BTreeMap::new(),
            ranks: Ranks::default(),
            sampled: None,
            only_phase: None,
        }
    }

    /// Why some names are missing.
    pub fn reasons(&self) -> Vec<String> {
        let unnoted = "the recording does not tell what was allocated and mapped: objects are unknown";
        let mut reasons: Vec<String> = self.unnoted.then(|| unnoted.to_string()).into_iter().collect();
        reasons.extend(self.names.reasons());
        reasons
    }

    /// A text that notes refer to.
    pub fn text(&self, number: u32) -> Option<String> {
        let text = self.texts.text(number)?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// Whether the function of one frame only passes on what an allocator gives it.
    pub fn is_wrapper(&self, code: &Code) -> bool {
        code.location.is_wrapper(&self.wrappers)
    }

    /// The innermost loop around a point.
    pub fn loop_of(&self, point: Point) -> Option<u32> {
        let point = self.points.get(point.index())?;
        self.scopes.innermost(point.code)
    }
}
