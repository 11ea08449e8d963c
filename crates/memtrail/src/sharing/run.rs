//! The replays that `sharing` needs.
//!
//! 1. In the order asked for: the machine as it is, and beside it the same with
//!    lines of twice the size and with all data half a line further on, for what *would* share.
//! 2. If lines are falsely shared: the same order, with what each thread uses on lines of its own,
//!    and with the objects aligned.
//! 3. In other orders, for the range of counts.
//!
//! All of them want notes, so that all are in the order that notes impose.
use super::args::SharingArgs;
use crate::args::ThreadOrder;
use crate::dump::{replayed, selection};
use crate::info::Recording;
use crate::sim::choose::{choose, Chosen};
use crate::sim::feed::Feed;
use crate::sim::progress;
use crate::tables::names::Names;
use crate::tables::run::{is_unnoted, tagged_apart, Apart, Measured};
use crate::tables::tap::Tap;
use anyhow::bail;
use memtrail_analyze::objects::UNKNOWN;
use memtrail_analyze::tagger::{Dimensions, Tagger};
use memtrail_coherence::{Coherence, CoherenceConfig, Geometry, Moved, Moves, Sharing, MOST_CORES};
use memtrail_model::{Access, AccessSink, Event, Reply, SinkAdapter, Wants};
use memtrail_replay::{accesses, Order, Selection};
use memtrail_simulate::{config::Shared, Hierarchy};
use memtrail_trace::Known;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A machine, and what is wanted so that all replays are in one order.
struct InOrder<S>(S);

impl<S: AccessSink> SinkAdapter for InOrder<S> {
    type Inner = S;
    fn inner(&self) -> &S {
        &self.0
    }
    fn inner_mut(&mut self) -> &mut S {
        &mut self.0
    }
    fn adjust(&self, wants: Wants) -> Wants {
        Wants { notes: true, ..wants }
    }
}

/// The machine as it is, with longer lines, and with everything half a line further on.
pub struct Machines {
    real: Coherence,
    wide: Option<Coherence>,
    shifted: Option<Moves<Coherence>>,
}

impl AccessSink for Machines {
    fn accesses(&mut self, batch: &[Access]) {
        self.real.accesses(batch);
        self.wide.iter_mut().for_each(|wide| wide.accesses(batch));
        self.shifted.iter_mut().for_each(|shifted| shifted.accesses(batch));
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        self.wide.iter_mut().for_each(|wide| _ = wide.event(event));
        self.shifted.iter_mut().for_each(|shifted| _ = shifted.event(event));
        self.real.event(event);
        Reply::NOTHING
    }
}

/// An object, or a part of one, in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Addresses of the first and the last byte in the line.
    pub first: u64,
    pub last: u64,
    pub group: u32,
    /// Of the object.
    pub address: u64,
    pub bytes: u64,
}

/// Objects by the lines that they lie in, in steps of this many bytes.
const STEP: u64 = 64;

/// Asks for the objects in lines as soon as those are contended.
struct Watcher {
    tagger: Tagger<Machines>,
    line: u64,
    /// By address space and address / [`STEP`].
    placed: HashMap<(u32, u64), Vec<Placed>>,
}

impl Watcher {
    fn look(&mut self) {
        let line = self.line;
        let machines = self.tagger.sink();
        let mut found: Vec<(u32, u64, u64)> = Vec::new();
        let real = machines.real.newly_contended().into_iter();
        found.extend(real.map(|(space, address)| (space, address, line)));
        if let Some(wide) = &mut machines.wide {
            let lines = wide.newly_contended().into_iter();
            found.extend(lines.map(|(space, address)| (space, address, 2 * line)));
        }
        if let Some(shifted) = &mut machines.shifted {
            let lines = shifted.inner_mut().newly_contended().into_iter();
            let back = |(space, address): (u32, u64)| (space, address.wrapping_sub(line / 2), line);
            found.extend(lines.map(back));
        }
        for (space, address, bytes) in found {
            let end = address.saturating_add(bytes);
            (address / STEP..end.div_ceil(STEP)).for_each(|step| self.look_up(space, step));
        }
    }

    fn look_up(&mut self, space: u32, step: u64) {
        if self.placed.contains_key(&(space, step)) {
            return;
        }
        let objects = self.tagger.objects();
        let index = objects.space(space);
        let end = (step + 1).saturating_mul(STEP);
        let mut first = step * STEP;
        let mut placed = Vec::new();
        while first < end {
            let (id, _, last) = objects.extent(index, first);
            let last = last.min(end - 1);
            let object = objects.object(id);
            if id != UNKNOWN {
                placed.push(Placed {
                    first,
                    last,
                    group: object.group,
                    address: object.address,
                    bytes: object.bytes,
                });
            }
            first = last + 1;
        }
        self.placed.insert((space, step), placed);
    }

    fn has_news(&self) -> bool {
        let machines = self.tagger.inner();
        let shifted = machines.shifted.as_ref().map(SinkAdapter::inner);
        let others = machines.wide.as_ref().into_iter().chain(shifted);
        machines.real.has_news() || others.into_iter().any(Coherence::has_news)
    }
}

impl SinkAdapter for Watcher {
    type Inner = Tagger<Machines>;
    fn inner(&self) -> &Tagger<Machines> {
        &self.tagger
    }
    fn inner_mut(&mut self) -> &mut Tagger<Machines> {
        &mut self.tagger
    }
    fn pass(&mut self, batch: &[Access]) {
        self.tagger.accesses(batch);
        if self.has_news() {
            self.look();
        }
    }
    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        if matches!(event, Event::Note { .. }) {
            // What lies there may be something else from now on.
            self.look();
        }
        self.tagger.event(event)
    }
}

/// What the first replay found.
pub struct Found {
    pub measured: Measured,
    pub config: CoherenceConfig,
    pub real: Sharing,
    pub wide: Option<Sharing>,
    /// Its addresses are half a line too high.
    pub shifted: Option<Sharing>,
    pub accesses: u64,
    placed: HashMap<(u32, u64), Vec<Placed>>,
}

impl Found {
    /// Those of all lines that were looked at.
    pub fn all_objects(&self) -> impl Iterator<Item = &Placed> {
        self.placed.values().flatten()
    }

    /// The objects in a range of addresses, in order.
    pub fn objects(&self, space: u32, address: u64, bytes: u64) -> Vec<Placed> {
        let end = address.saturating_add(bytes);
        let mut objects: Vec<Placed> = Vec::new();
        for step in address / STEP..end.div_ceil(STEP) {
            for placed in self.placed.get(&(space, step)).into_iter().flatten() {
                let (first, last) = (placed.first.max(address), placed.last.min(end - 1));
                let object = (placed.group, placed.address);
                match objects.last_mut() {
                    _ if first > last => {}
                    Some(before) if (before.group, before.address) == object => before.last = last,
                    _ => objects.push(Placed { first, last, ..*placed }),
                }
            }
        }
        objects
    }
}

/// The machine that a hierarchy stands for, with a core for each thread unless there are fewer.
fn machine(args: &SharingArgs, hierarchy: &Hierarchy, known: &Known) -> CoherenceConfig {
    let levels = || hierarchy.levels.iter().filter(|level| level.holds.data());
    let is_private = |level: &&memtrail_simulate::Level| level.shared == Shared::By(1);
    let geometry = |level: &memtrail_simulate::Level| Geometry {
        size: level.size,
        ways: level.ways,
    };
    let private: Vec<Geometry> = levels().take_while(is_private).map(geometry).collect();
    let threads = known.streams.iter().map(|chunk| chunk.head.stream.thread + 1).max();
    CoherenceConfig {
        protocol: args.protocol.into(),
        line: levels().next().map_or(64, |level| level.line),
        shared: levels().skip(private.len()).map(geometry).collect(),
        private,
        cores: hierarchy.cores.unwrap_or(threads.unwrap_or(1).min(MOST_CORES)),
    }
}

/// The order in which replays are.
pub fn order(args: &SharingArgs) -> Order {
    match args.order {
        ThreadOrder::Time => Order::Finest,
        ThreadOrder::Equal => Order::EqualRate { quantum: 1 },
    }
}

fn select(args: &SharingArgs, known: &Known, order: Order) -> anyhow::Result<Selection> {
    let selected = selection(&args.part(), None, known)?;
    Ok(Selection { order, ..selected })
}

/// The first replay.
pub fn run(args: &SharingArgs, reader: &mut Recording, known: &Known) -> anyhow::Result<Found> {
    let chosen: Chosen = choose(&args.caches)?;
    let config = machine(args, &chosen.hierarchy, known);
    if chosen.hierarchy.levels.iter().any(|level| level.line != config.line) {
        bail!("coherence is simulated with lines of one size in all levels");
    }
    let names = Rc::new(Names::new(&known.table, args.symbols.options()));
    let line = config.line;
    let wide = CoherenceConfig {
        line: 2 * line,
        ..config.clone()
    };
    let wanted = |config: &CoherenceConfig| (!args.quick).then(|| Coherence::new(config).ok()).flatten();
    let machines = Machines {
        real: Coherence::new(&config)?,
        wide: wanted(&wide),
        shifted: wanted(&config).map(|machine| Moves::all_by(machine, u64::from(line) / 2)),
    };
    let dimensions = Dimensions {
        object: true,
        ..Dimensions::default()
    };
    let apart = Apart {
        wrappers: &args.wrappers,
        depth: None,
        threshold: 0,
    };
    let (tagger, statics) = tagged_apart(machines, dimensions, &apart, &names, known);
    let watcher = Watcher {
        tagger,
        line: line.into(),
        placed: HashMap::new(),
    };
    let selected = select(args, known, order(args))?;
    let mut feed = Feed::new(
        Tap::new(watcher, false),
        Vec::new(),
        u64::MAX,
        progress(known, &selected),
    );
    replayed(accesses(reader, known, &selected, &mut feed))?;
    let (tap, count) = feed.finish();
    if count == 0 {
        bail!("{}: no access was simulated", args.file.display());
    }
    let (mut watcher, _) = tap.finish();
    watcher.look();
    let Watcher { mut tagger, placed, .. } = watcher;
    let groups = tagger.objects().groups().to_vec();
    let measured = Measured {
        accesses: count,
        keys: tagger.keys(),
        tree: tagger.calls().tree().clone(),
        unnoted: is_unnoted(&groups),
        groups,
        statics,
        first: tagger.firsts(),
        wrappers: args.wrappers.clone(),
        texts: Rc::new(known.names.clone()),
        ..Measured::by_point(chosen, Vec::new(), known.table.points(), names)
    };
    let Machines { real, wide, shifted } = tagger.into_sink();
    Ok(Found {
        measured,
        config,
        real: real.finish(),
        wide: wide.map(Coherence::finish),
        shifted: shifted.map(|shifted| shifted.into_inner().finish()),
        accesses: count,
        placed,
    })
}

/// The machine again, with some bytes elsewhere.
pub struct Elsewhere {
    pub padded: Sharing,
    pub aligned: Sharing,
}

struct Two(Moves<Coherence>, Moves<Coherence>);

impl AccessSink for Two {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.accesses(batch);
        self.1.accesses(batch);
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        self.0.event(event);
        self.1.event(event)
    }
}

/// The second replay: `padded` and `aligned` say which bytes lie elsewhere.
pub fn run_moved(
    args: &SharingArgs,
    reader: &mut Recording,
    known: &Known,
    config: &CoherenceConfig,
    (padded, aligned): (Vec<Moved>, Vec<Moved>),
) -> anyhow::Result<Elsewhere> {
    let machine = |moved| anyhow::Ok(Moves::new(Coherence::new(config)?, moved));
    let mut sink = InOrder(Two(machine(padded)?, machine(aligned)?));
    replayed(accesses(reader, known, &select(args, known, order(args))?, &mut sink))?;
    let InOrder(Two(padded, aligned)) = sink;
    Ok(Elsewhere {
        padded: padded.into_inner().finish(),
        aligned: aligned.into_inner().finish(),
    })
}

/// The machine with the threads in another order.
pub fn run_ordered(
    args: &SharingArgs,
    reader: &mut Recording,
    known: &Known,
    config: &CoherenceConfig,
    order: Order,
) -> anyhow::Result<Sharing> {
    let mut sink = InOrder(Coherence::new(config)?);
    replayed(accesses(reader, known, &select(args, known, order)?, &mut sink))?;
    Ok(sink.0.finish())
}

/// Least and most of what several orders gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    pub least: u64,
    pub most: u64,
}

impl Between {
    pub fn new(values: impl Iterator<Item = u64> + Clone) -> Between {
        Between {
            least: values.clone().min().unwrap_or(0),
            most: values.max().unwrap_or(0),
        }
    }
}

/// Coherence misses and invalidations of a line.
pub type Range = (Between, Between);

/// What lines did in all orders: by address space and address.
pub fn ranges(orders: &[&Sharing]) -> BTreeMap<(u32, u64), Range> {
    let mut counts: BTreeMap<(u32, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for (i, sharing) in orders.iter().enumerate() {
        for line in &sharing.lines {
            let all = counts.entry((line.space, line.address)).or_default();
            all.resize(orders.len(), (0, 0));
            all[i] = (line.counts.coherence_misses(), line.counts.invalidations);
        }
    }
    let range = |counts: Vec<(u64, u64)>| {
        let misses = Between::new(counts.iter().map(|c| c.0));
        let invalidations = Between::new(counts.iter().map(|c| c.1));
        (misses, invalidations)
    };
    counts.into_iter().map(|(line, counts)| (line, range(counts))).collect()
}
