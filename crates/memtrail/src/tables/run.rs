//! One replay of a recording, and everything the tables need of it.
use super::args::TableArgs;
use super::feeders;
use super::names::{Code, Names};
use super::processes;
use super::statics::Statics;
use super::tap::Tap;
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
use memtrail_model::{AccessSink, Edge, Point};
use memtrail_replay::accesses;
use memtrail_report::{level_named, Dimension};
use memtrail_simulate::{Beside, Hierarchy, LevelCounts, Options, Simulator};
use memtrail_trace::Known;
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
    /// Whether objects were asked for, but nothing was noted of any.
    unnoted: bool,
    /// Functions that the user says are wrappers.
    wrappers: Vec<String>,
    /// What notes refer to.
    texts: Rc<memtrail_decode::Names>,
    /// By serial number: what processes are called.
    pub processes: BTreeMap<u32, String>,
}

/// Which dimensions a tagger must track.
fn dimensions(by: &[Dimension]) -> Dimensions {
    Dimensions {
        callpath: by.contains(&Dimension::Callpath),
        object: by.contains(&Dimension::Object),
        thread: by.contains(&Dimension::Thread),
        process: by.contains(&Dimension::Process),
    }
}

/// Replays the recording once.
pub fn run(
    args: &TableArgs,
    by: &[Dimension],
    wants: Wants,
    reader: &mut Recording,
    known: &mut Known,
) -> anyhow::Result<Measured> {
    run_placed(args, by, wants, None, reader, known)
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
    let chosen = choose(&args.caches)?;
    if let Some(name) = &args.level {
        level_named(&chosen.hierarchy, name)?;
    }
    if args.caches.instructions {
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
    let mut tagged = tagged(args, by, Beside::new(simulator, cores()), &names, known);
    if let Some(placement) = placement {
        tagged.tagger = tagged.tagger.with_placement(placement);
    }
    let replayed = replay_through(args, by, tagged.tagger, &names, reader, known)?;
    let mut tagger = replayed.sink;
    if args.flush {
        tagger.sink().simulator().flush();
    }
    let measured = Measured {
        counts: tagger.sink().simulator().counts(),
        skipped: tagger.sink().simulator().skipped(),
        accesses: replayed.accesses,
        scopes: Scopes::new(&replayed.edges, &[]),
        statics: tagged.statics,
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
    let dimensions = dimensions(by);
    let objects = objects::Options {
        wrapper: Some(wrappers(names.clone(), &args.wrappers)),
        depth: args.depth.unwrap_or(usize::MAX),
        threshold: args.threshold,
        allocators: allocators(&known.names),
        ..objects::Options::default()
    };
    let mut tagger = Tagger::new(sink, dimensions, objects);
    let mut statics = Statics::default();
    if dimensions.object {
        statics = Statics::new(names, &program(known), tagger.objects());
        tagger = tagger.with_thread_local(statics.thread_local.clone());
        let texts = known.names.clone();
        tagger = tagger.with_variables(statics.watch(move |text| texts.text(text).map(<[u8]>::to_vec)));
    }
    TaggerFor { tagger, statics }
}

/// What is left of a replay.
pub struct ReplayedInto<S> {
    pub sink: S,
    pub edges: Vec<Edge>,
    pub accesses: u64,
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
fn allocators(names: &memtrail_decode::Names) -> Vec<u32> {
    let hooks = (0..).map_while(|id| names.hook(id));
    hooks.map(|hook| u32::from(hook.by_user)).collect()
}

/// The path of the program that was launched: the first file that a process told of, but for our
/// own.
fn program(known: &Known) -> Vec<u8> {
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
    /// With what a tagger knows of composites.
    pub fn with_tags<S: AccessSink>(
        self,
        tagger: &mut Tagger<S>,
        args: &TableArgs,
        by: &[Dimension],
        known: &Known,
    ) -> Measured {
        let feeders = feeders::feeders(known, tagger.unexplained().collect());
        let noted = |group: &Group| group.objects > 0 && !matches!(group.common, Common::Stack { .. });
        let unnoted = by.contains(&Dimension::Object) && !tagger.objects().groups().iter().any(noted);
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
            unnoted: false,
            wrappers: Vec::new(),
            texts: Rc::default(),
            processes: BTreeMap::new(),
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
