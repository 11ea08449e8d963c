//! One replay of a recording, and everything the tables need of it.
use super::args::{By, TableArgs};
use super::feeders;
use super::names::{Code, Names};
use super::statics::Statics;
use super::tap::{First, Tap};
use super::{processes, wrappers};
use crate::dump::{replayed, selection};
use crate::info::Recording;
use crate::progress::Progress;
use crate::sim::analyses::level_named;
use crate::sim::args::Charge;
use crate::sim::choose::choose;
use crate::sim::feed::Feed;
use crate::sim::progress;
use crate::sim::rows::first_level;
use anyhow::bail;
use memtrail_analyze::calls::Tree;
use memtrail_analyze::objects::{self, Common, Group};
use memtrail_analyze::patterns::Summary;
use memtrail_analyze::scopes::Scopes;
use memtrail_analyze::tagger::{Dimensions, Key, Tagger, Tally};
use memtrail_decode::PointInfo;
use memtrail_model::Kind;
use memtrail_replay::accesses;
use memtrail_simulate::{Hierarchy, LevelCounts, Options, Simulator};
use memtrail_symbols as symbols;
use memtrail_trace::Known;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// What is wanted besides what the options say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wants {
    /// Who evicts whom, charged to these.
    pub evictors: Option<Charge>,
    pub premature: bool,
}

/// What was found.
pub struct Found {
    pub hierarchy: Hierarchy,
    /// Where the hierarchy is from.
    pub source: String,
    /// The level that the table is about.
    pub level: usize,
    /// Accesses that were simulated.
    pub accesses: u64,
    pub skipped: u64,
    pub points: Vec<PointInfo>,
    /// By composite.
    pub keys: Vec<Key>,
    pub tallies: Vec<Tally>,
    /// By level and composite.
    pub counts: Vec<LevelCounts>,
    pub tree: Tree,
    /// By group of objects.
    pub groups: Vec<Group>,
    pub patterns: Vec<Option<Summary>>,
    pub statics: Statics,
    /// By point: where its first access went, and where the instruction was then.
    pub first: Vec<Option<First>>,
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
fn dimensions(by: &[By]) -> Dimensions {
    Dimensions {
        callpath: by.contains(&By::Callpath),
        object: by.contains(&By::Object),
        thread: by.contains(&By::Thread),
        process: by.contains(&By::Process),
    }
}

/// Replays the recording once.
pub fn run(
    args: &TableArgs,
    by: &[By],
    wants: Wants,
    reader: &mut Recording,
    known: &mut Known,
) -> anyhow::Result<Found> {
    let chosen = choose(&args.caches)?;
    let level = match &args.level {
        Some(name) => level_named(&chosen.hierarchy, name)?,
        None => 0,
    };
    if args.caches.instructions {
        known.table.number_fetches();
    }
    let known = &*known;
    let options = symbols::Options {
        sysroot: args.symbols.sysroot.clone(),
        debug_dirs: args.symbols.debug_dirs.clone(),
        force: args.symbols.force,
    };
    let names = Rc::new(Names::new(known, options));
    let pcs: Vec<Range<u64>> = args.pcs.iter().map(|range| range.0.clone()).collect();
    let points = points_of(&args.functions, &names, known.table.points())?;
    let simulator = Simulator::new(
        &chosen.hierarchy,
        Options {
            evictors: wants.evictors.is_some(),
            charge: wants.evictors.map_or_else(Default::default, Into::into),
            premature: wants.premature,
            instructions: args.caches.instructions,
            ..Options::default()
        },
    )?;
    let dimensions = dimensions(by);
    let objects = objects::Options {
        wrapper: Some(wrappers::judge(names.clone(), &args.wrappers)),
        depth: args.depth.unwrap_or(usize::MAX),
        threshold: args.threshold,
        allocators: allocators(&known.names),
        ..objects::Options::default()
    };
    let texts = Rc::new(known.names.clone());
    let mut tagger = Tagger::new(simulator, dimensions, objects);
    let mut statics = Statics::default();
    if dimensions.object {
        statics = Statics::new(&names, &program(known), tagger.objects());
        tagger = tagger.with_thread_local(statics.thread_local.clone());
        let texts = texts.clone();
        tagger = tagger.with_variables(statics.watch(move |text| texts.text(text).map(<[u8]>::to_vec)));
    }
    let tap = Tap::new(tagger, by.contains(&By::Loop));
    // The limit is for accesses that are simulated, whatever else is replayed.
    let limit = if pcs.is_empty() && points.is_empty() {
        args.limit
    } else {
        None
    };
    let mut selection = selection(&args.part, limit, known)?;
    let thread = selection.thread;
    if dimensions.object && thread.is_some() && args.part.from.is_none() && args.part.to.is_none() {
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
        bail!("{}: no access was simulated", args.file.display());
    }
    let (mut tagger, first, edges) = tap.finish();
    if args.flush {
        tagger.sink().flush();
    }
    let counts = tagger.sink().counts();
    let feeders = feeders::feeders(known, tagger.unexplained().collect());
    let noted = |group: &Group| group.objects > 0 && !matches!(group.common, Common::Stack { .. });
    let unnoted = dimensions.object && !tagger.objects().groups().iter().any(noted);
    let skipped = tagger.sink().skipped();
    Ok(Found {
        level,
        accesses,
        skipped,
        points: known.table.points().to_vec(),
        keys: tagger.keys(),
        tallies: tagger.tallies().collect(),
        counts,
        tree: tagger.calls().tree().clone(),
        patterns: tagger.patterns(&feeders),
        groups: tagger.objects().groups().to_vec(),
        statics,
        first,
        scopes: Scopes::new(&edges, &[]),
        names,
        unnoted,
        wrappers: args.wrappers.clone(),
        texts,
        processes: processes::names(known),
        hierarchy: chosen.hierarchy,
        source: chosen.source,
    })
}

/// By hook: which allocator it belongs to. The usual functions are one, and those that the user named another, which gets its memory from the first.
fn allocators(names: &memtrail_decode::Names) -> Vec<u32> {
    let hooks = (0..).map_while(|id| names.hook(id));
    hooks.map(|hook| u32::from(hook.by_user)).collect()
}

/// The path of the program that was launched: the first file that a process told of, but for our own.
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

impl Found {
    /// Why some names are missing.
    pub fn reasons(&self) -> Vec<String> {
        let unnoted = "the recording does not tell what was allocated and mapped: objects are unknown";
        let mut reasons: Vec<String> = self.unnoted.then(|| unnoted.to_string()).into_iter().collect();
        reasons.extend(self.names.reasons());
        reasons
    }

    /// How many objects a group has. A variable is one, in however many pieces it was mapped.
    pub fn blocks(&self, group: u32) -> u64 {
        match self.statics.variables.contains_key(&group) {
            true => 1,
            false => self.groups.get(group as usize).map_or(0, |about| about.objects),
        }
    }

    /// A text that notes refer to.
    pub fn text(&self, number: u32) -> Option<String> {
        let text = self.texts.text(number)?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// Whether the function of one frame only passes on what an allocator gives it.
    pub fn is_wrapper(&self, code: &Code) -> bool {
        wrappers::wraps(code, &self.wrappers)
    }

    /// The first level that accesses of a kind come to.
    pub fn first_level(&self, kind: Kind) -> usize {
        first_level(&self.hierarchy, kind)
    }

    /// The bytes of a group's objects: of a variable its own, of others the most that there were at a time.
    pub fn object_bytes(&self, group: u32) -> Option<u64> {
        if let Some(variable) = self.statics.variables.get(&group) {
            return Some(variable.bytes);
        }
        let about = self.groups.get(group as usize)?;
        // How much of a stack is one is not known.
        let sized = about.objects > 0 && about.common.kind() != objects::Kind::Stack;
        sized.then_some(about.most_live_bytes)
    }

    /// The bytes of an element: of an array its element's, of others those that most blocks have.
    pub fn element_bytes(&self, group: u32) -> Option<u64> {
        if let Some(variable) = self.statics.variables.get(&group) {
            return variable.ty.as_ref().and_then(|ty| ty.element().size);
        }
        let about = self.groups.get(group as usize)?;
        about
            .element_bytes()
            .filter(|_| about.common.kind() != objects::Kind::Stack)
    }
}
