//! Results of what was measured: counts by composite become rows of a set, and numbers get their
//! names.
use super::objects;
use super::references;
use super::run::Measured;
use super::scopes;
use memtrail_analyze::tagger::Key;
use memtrail_model::Kind;
use memtrail_report::{
    Dimension, Entry, Function, LevelTotals, Process, Reference, ResultSet, Row, Run, SourceLine, View,
};
use memtrail_simulate::PointCounts;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The ids of one dimension.
#[derive(Default)]
struct Dictionary {
    entries: Vec<Entry>,
    /// By what entries are told apart by.
    ids: HashMap<(String, u64, String), u32>,
    /// By number of the point, node, group or thread.
    known: HashMap<u32, u32>,
}

impl Dictionary {
    fn id(&mut self, number: u32, entry: impl FnOnce() -> Entry) -> u32 {
        if let Some(&id) = self.known.get(&number) {
            return id;
        }
        let entry = entry();
        let next = self.entries.len() as u32;
        let id = *self.ids.entry(entry.key()).or_insert(next);
        if id == next {
            self.entries.push(entry);
        } else {
            self.entries[id as usize].merge(entry);
        }
        self.known.insert(number, id);
        id
    }
}

/// What is needed to name anything.
struct Naming<'m> {
    measured: &'m Measured,
    /// By point, if references are asked for.
    references: Vec<Reference>,
    /// The keys of calls that wrappers without a telling name make.
    busy: HashSet<String>,
}

impl Naming<'_> {
    /// The number that a dimension's id depends on.
    fn number(&self, dimension: Dimension, key: &Key) -> u32 {
        match dimension {
            Dimension::Loop => self.measured.loop_of(key.point).unwrap_or(Key::NONE),
            Dimension::Callpath => key.node,
            Dimension::Object => key.group,
            Dimension::Thread => key.thread,
            Dimension::Process | Dimension::Rank => key.process,
            Dimension::Phase => key.phase,
            _ => key.point.0,
        }
    }

    fn entry(&self, dimension: Dimension, key: &Key) -> Entry {
        let found = self.measured;
        let point = found.points.get(key.point.index());
        let code = found.names.code(point.map_or(0, |point| point.code));
        match dimension {
            Dimension::Ref => match self.references.get(key.point.index()) {
                Some(reference) => Entry::Ref(Box::new(reference.clone())),
                None => Entry::Ref(Box::new(references::of(&code, code.pc, Kind::Read))),
            },
            Dimension::Callpath => Entry::Callpath(objects::path(&objects::calls(found, key.node))),
            Dimension::Object => Entry::Object(Box::new(objects::named(found, key.group, &self.busy))),
            Dimension::Line => Entry::Line(code.line().map(|(file, line)| SourceLine {
                file: file.to_string(),
                line,
            })),
            Dimension::Function => Entry::Function(Function {
                name: code.function_or_address(),
                module: code.module().map(str::to_string),
            }),
            Dimension::Loop => Entry::Loop(found.loop_of(key.point).map(|number| scopes::named(found, number))),
            Dimension::Module => Entry::Module(code.module().unwrap_or("[generated code]").to_string()),
            Dimension::Thread => Entry::Thread(key.thread),
            Dimension::Process => Entry::Process(Process {
                serial: key.process,
                name: found.processes.get(&key.process).cloned().unwrap_or_default(),
            }),
            Dimension::Rank => Entry::Rank(found.ranks.of_process(key.process)),
            Dimension::Phase => Entry::Phase(key.phase),
            // What --by does not offer.
            Dimension::Block | Dimension::Field => unreachable!("rows by {dimension}"),
        }
    }
}

/// By composite: which object it is of, by its place among the names.
pub fn objects_of(found: &Measured) -> (Vec<u32>, Vec<String>) {
    let busy = objects::busy_calls(found);
    let mut places: HashMap<u32, u32> = HashMap::new();
    let mut names = Vec::new();
    let of = found.keys.iter().map(|key| {
        *places.entry(key.group).or_insert_with(|| {
            names.push(match found.groups.get(key.group as usize) {
                Some(_) => objects::named(found, key.group, &busy).name,
                None => "[unknown]".to_string(),
            });
            names.len() as u32 - 1
        })
    });
    (of.collect(), names)
}

/// Composites by the rows that they belong to.
pub struct Grouped {
    pub dimensions: Vec<Dimension>,
    /// By dimension: what ids stand for.
    pub entries: Vec<Vec<Entry>>,
    /// The ids of each row.
    pub keys: Vec<Vec<u32>>,
    /// By composite; [`Grouped::NO_ROW`] for what is of another phase than the one that is asked
    /// for.
    pub row_of: Vec<u32>,
}

impl Grouped {
    pub const NO_ROW: u32 = u32::MAX;
}

/// Which rows there are, by `by`.
pub fn grouped(found: &Measured, by: &[Dimension]) -> Grouped {
    let dimensions = Dimension::with_implied(by);
    let naming = Naming {
        measured: found,
        references: match dimensions.contains(&Dimension::Ref) {
            true => references::names(found),
            false => Vec::new(),
        },
        busy: objects::busy_calls(found),
    };
    let mut dictionaries: Vec<Dictionary> = dimensions.iter().map(|_| Dictionary::default()).collect();
    let mut numbers: HashMap<Vec<u32>, u32> = HashMap::new();
    let (mut keys, mut row_of) = (Vec::new(), Vec::with_capacity(found.keys.len()));
    for key in &found.keys {
        if found.only_phase.is_some_and(|phase| phase != key.phase) {
            row_of.push(Grouped::NO_ROW);
            continue;
        }
        let dictionaries = dimensions.iter().zip(&mut dictionaries);
        let id = |(&dimension, dictionary): (&Dimension, &mut Dictionary)| {
            dictionary.id(naming.number(dimension, key), || naming.entry(dimension, key))
        };
        let ids: Vec<u32> = dictionaries.map(id).collect();
        let row = *numbers.entry(ids.clone()).or_insert(keys.len() as u32);
        if row as usize == keys.len() {
            keys.push(ids);
        }
        row_of.push(row);
    }
    Grouped {
        dimensions,
        entries: dictionaries.into_iter().map(|dictionary| dictionary.entries).collect(),
        keys,
        row_of,
    }
}

/// What was measured, by `by`; how it came about is told by `run`, but for what is known here.
pub fn results(found: &Measured, by: &[Dimension], run: Run) -> ResultSet {
    let grouped = grouped(found, by);
    let row = |key: Vec<u32>| Row {
        key,
        levels: vec![PointCounts::default(); found.counts.len()],
        ..Row::default()
    };
    let mut rows: Vec<Row> = grouped.keys.into_iter().map(row).collect();
    for (composite, (key, &row)) in found.keys.iter().zip(&grouped.row_of).enumerate() {
        if row != Grouped::NO_ROW {
            rows[row as usize].add(&counted(found, composite, key));
        }
    }
    let row_of = grouped
        .row_of
        .into_iter()
        .map(|row| (row != Grouped::NO_ROW).then_some(row));
    let row_of: Vec<Option<u32>> = row_of.collect();
    let level = |counts: &memtrail_simulate::LevelCounts| LevelTotals {
        caches: counts.caches,
        traffic: counts.traffic,
        evictors: memtrail_report::renumbered(&counts.evictors, &row_of),
        premature: memtrail_report::renumbered(&counts.premature, &row_of),
    };
    let set = ResultSet {
        levels: found.counts.iter().map(level).collect(),
        entries: grouped.entries,
        dimensions: grouped.dimensions,
        rows,
        run: Run {
            config: found.source.clone(),
            hierarchy: found.hierarchy.clone(),
            accesses: found.accesses,
            skipped: found.skipped,
            reasons: found.reasons().into_iter().collect(),
            ..run
        },
        ..ResultSet::default()
    };
    set.canonical()
}

/// The groups of objects that were accessed, each with what it is called by itself and in a view
/// by object.
pub fn shown_groups(found: &Measured, view: &View<'_>) -> Vec<(u32, Vec<String>)> {
    let busy = objects::busy_calls(found);
    let mut shown: HashMap<_, String> = HashMap::new();
    for row in &view.rows {
        for entry in view.entries(row) {
            if let Entry::Object(object) = entry {
                shown.insert(entry.key(), view.object_name(row, object).to_string());
            }
        }
    }
    let groups: BTreeSet<u32> = found.keys.iter().map(|key| key.group).collect();
    let known = groups.into_iter().filter(|&group| group != Key::NONE);
    let names = |group: u32| {
        let entry = Entry::Object(Box::new(objects::named(found, group, &busy)));
        let in_view = shown.get(&entry.key()).cloned();
        let own = match entry {
            Entry::Object(object) => Some(object.name),
            _ => None,
        };
        (group, in_view.into_iter().chain(own).collect())
    };
    known.map(names).collect()
}

/// What a composite did.
fn counted(found: &Measured, composite: usize, key: &Key) -> Row {
    let at = |level: usize| found.counts[level].points.get(composite).copied().unwrap_or_default();
    let mut row = Row {
        bytes: found.tallies.get(composite).map_or(0, |tally| tally.bytes),
        levels: (0..found.counts.len()).map(at).collect(),
        ..Row::default()
    };
    if let Some(point) = found.points.get(key.point.index()) {
        // What was skipped is counted by the simulator only.
        let counts = at(memtrail_report::first_level(&found.hierarchy, point.kind));
        match point.kind {
            Kind::Read => row.reads = counts.accesses(),
            Kind::Write => row.writes = counts.accesses(),
            Kind::Prefetch | Kind::Fetch => {}
        }
    }
    row
}
