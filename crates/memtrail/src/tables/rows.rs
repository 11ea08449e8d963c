//! Rows of a table: what was counted, added up by what is asked for, and what each row is called.
use super::args::{By, Sort};
use super::names::Code;
use super::objects::{self, ObjectName};
use super::references::{self, Reference};
use super::run::Found;
use super::scopes::LoopName;
use crate::sim::rows::by_miss_ratio;
use memtrail_analyze::tables::{self, Grouping, Pairs};
use memtrail_analyze::tagger::Key;
use memtrail_model::{Kind, Point};
use memtrail_simulate::PointCounts;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

/// Things by number.
#[derive(Debug)]
struct Numbers<T> {
    all: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    fn new() -> Numbers<T> {
        Numbers {
            all: Vec::new(),
            numbers: HashMap::new(),
        }
    }
    fn of(&mut self, thing: T) -> u32 {
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(thing.clone()).or_insert(next);
        if number == next {
            self.all.push(thing);
        }
        number
    }
}

/// What a dimension of a row is.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Ref(Rc<Reference>),
    Callpath(Vec<String>),
    Object(Rc<ObjectName>, u32),
    /// File and line; nothing if that is not known.
    Line(Option<(String, u32)>),
    Function(String),
    Loop(Option<Rc<LoopName>>),
    Module(String),
    Thread(u32),
    /// Its serial number, and what it is called.
    Process(u32, String),
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub cells: Vec<Cell>,
    pub reads: u64,
    pub writes: u64,
    /// Read and written; nothing if that was not counted.
    pub bytes: Option<u64>,
    pub levels: Vec<PointCounts>,
}

impl Row {
    pub fn accesses(&self) -> u64 {
        self.reads + self.writes
    }
}

/// Rows, in order, and by level which row's lines were evicted by which; and of lines that were missed again.
#[derive(Debug, Default)]
pub struct Rows {
    pub rows: Vec<Row>,
    pub evictors: Vec<Pairs>,
    pub premature: Vec<Pairs>,
}

/// Of a point, what it is known by.
struct Places {
    codes: Vec<Rc<Code>>,
    refs: Numbers<(u64, Kind, Option<Point>)>,
    lines: Numbers<Option<(String, u32)>>,
    functions: Numbers<(Option<String>, String)>,
    modules: Numbers<String>,
    /// By number of a reference: one of its points.
    ref_points: Vec<u32>,
}

impl Places {
    fn number(&mut self, found: &Found, by: tables::By, point: Point) -> u32 {
        let Some(code) = self.codes.get(point.index()) else {
            return Key::NONE;
        };
        match by {
            tables::By::Ref => {
                // Of code that is of no file, several instructions may have been at the same address.
                let apart = code.place.is_none().then_some(point);
                let number = self.refs.of((code.code, found.points[point.index()].kind, apart));
                if number as usize == self.ref_points.len() {
                    self.ref_points.push(point.0);
                }
                number
            }
            tables::By::Line => self.lines.of(code.line().map(|(file, line)| (file.to_string(), line))),
            tables::By::Function => {
                let path = code.place.as_ref().map(|(path, _)| path.to_string());
                self.functions.of((path, code.function_or_address()))
            }
            tables::By::Module => self.modules.of(code.module().unwrap_or("[generated code]").to_string()),
            tables::By::Loop => found.scopes.innermost(code.code).unwrap_or(Key::NONE),
            tables::By::CallPath | tables::By::Object | tables::By::Thread | tables::By::Process => Key::NONE,
        }
    }
}

fn dimension(by: By) -> tables::By {
    match by {
        By::Ref => tables::By::Ref,
        By::Callpath => tables::By::CallPath,
        By::Object => tables::By::Object,
        By::Line => tables::By::Line,
        By::Function => tables::By::Function,
        By::Loop => tables::By::Loop,
        By::Module => tables::By::Module,
        By::Thread => tables::By::Thread,
        By::Process => tables::By::Process,
    }
}

/// All rows that did anything.
pub fn rows(found: &Found, by: &[By], sort: Sort) -> Rows {
    let mut places = Places {
        codes: found.points.iter().map(|point| found.names.code(point.code)).collect(),
        refs: Numbers::new(),
        lines: Numbers::new(),
        functions: Numbers::new(),
        modules: Numbers::new(),
        ref_points: Vec::new(),
    };
    let dimensions: Vec<tables::By> = by.iter().map(|&by| dimension(by)).collect();
    let grouping = Grouping::new(&found.keys, &dimensions, |by, point| places.number(found, by, point));
    let mut rows = counted(found, &grouping);
    let cells = Cells::new(found, by, places);
    for (row, key) in rows.iter_mut().zip(grouping.keys()) {
        row.cells = by
            .iter()
            .zip(key)
            .map(|(&by, &number)| cells.cell(found, by, number))
            .collect();
    }
    let pairs = |of: &dyn Fn(usize) -> Pairs| (0..found.counts.len()).map(of).collect::<Vec<_>>();
    let evictors = pairs(&|level| grouping.pairs(&found.counts[level].evictors));
    let premature = pairs(&|level| grouping.pairs(&found.counts[level].premature));
    let order = order(&rows, grouping.keys(), sort, found);
    renumbered(rows, &order, evictors, premature)
}

/// The rows without their names.
fn counted(found: &Found, grouping: &Grouping) -> Vec<Row> {
    let mut rows = vec![Row::default(); grouping.len()];
    for counts in &found.counts {
        let level = grouping.level(counts);
        rows.iter_mut()
            .zip(level)
            .for_each(|(row, counts)| row.levels.push(counts));
    }
    let whole = found.skipped == 0;
    for (composite, key) in found.keys.iter().enumerate() {
        let Some(row) = grouping.row(composite as u32) else {
            continue;
        };
        let row = &mut rows[row as usize];
        let Some(point) = found.points.get(key.point.index()) else {
            continue;
        };
        // What was left out is counted by the simulator only.
        let first = found.first_level(point.kind);
        let counts = found.counts[first].points.get(composite).copied().unwrap_or_default();
        match point.kind {
            Kind::Read => row.reads += counts.accesses(),
            Kind::Write => row.writes += counts.accesses(),
            Kind::Prefetch | Kind::Fetch => {}
        }
        if whole {
            *row.bytes.get_or_insert(0) += found.tallies[composite].bytes;
        }
    }
    rows
}

/// What numbers stand for.
struct Cells {
    places: Places,
    references: Vec<Rc<Reference>>,
    objects: Vec<Rc<ObjectName>>,
    loops: Vec<Rc<LoopName>>,
}

impl Cells {
    fn new(found: &Found, by: &[By], places: Places) -> Cells {
        let mut cells = Cells {
            references: Vec::new(),
            objects: Vec::new(),
            loops: Vec::new(),
            places,
        };
        if by.contains(&By::Ref) {
            let named = references::names(found, &cells.places.ref_points);
            cells.references = named.into_iter().map(Rc::new).collect();
        }
        if by.contains(&By::Object) {
            cells.objects = objects::names(found).into_iter().map(Rc::new).collect();
        }
        if by.contains(&By::Loop) {
            let codes = || found.points.iter().map(|point| point.code);
            let named = |one| Rc::new(LoopName::of(one, &found.names, codes()));
            cells.loops = found.scopes.loops().iter().map(named).collect();
        }
        cells
    }

    fn cell(&self, found: &Found, by: By, number: u32) -> Cell {
        let at = number as usize;
        match by {
            By::Ref => Cell::Ref(self.references.get(at).cloned().unwrap_or_default()),
            By::Callpath => {
                let calls = objects::calls(found, number);
                Cell::Callpath(calls.iter().map(|call| call.described()).collect())
            }
            By::Object => Cell::Object(self.objects.get(at).cloned().unwrap_or_default(), number),
            By::Line => Cell::Line(self.places.lines.all.get(at).cloned().flatten()),
            By::Function => Cell::Function(
                self.places
                    .functions
                    .all
                    .get(at)
                    .map_or_else(String::new, |f| f.1.clone()),
            ),
            By::Loop => Cell::Loop(self.loops.get(at).cloned()),
            By::Module => Cell::Module(self.places.modules.all.get(at).cloned().unwrap_or_default()),
            By::Thread => Cell::Thread(number),
            By::Process => Cell::Process(number, found.processes.get(&number).cloned().unwrap_or_default()),
        }
    }
}

/// The rows to show, in order.
fn order(rows: &[Row], keys: &[Vec<u32>], sort: Sort, found: &Found) -> Vec<usize> {
    let active = |row: &Row| row.levels.iter().any(|l| l.accesses() > 0 || l.evictions > 0);
    let mut order: Vec<usize> = (0..rows.len()).filter(|&i| active(&rows[i])).collect();
    let at = |i: &usize| rows[*i].levels[found.level];
    let name = |i: &usize| rows[*i].cells.iter().map(Cell::order).collect::<Vec<_>>();
    order.sort_by_cached_key(|i| (name(i), keys[*i].clone()));
    match sort {
        Sort::Name => {}
        Sort::Misses => order.sort_by_key(|i| Reverse((at(i).misses, at(i).accesses()))),
        Sort::Accesses => order.sort_by_key(|i| Reverse(rows[*i].accesses())),
        Sort::Reads => order.sort_by_key(|i| Reverse(rows[*i].reads)),
        Sort::Writes => order.sort_by_key(|i| Reverse(rows[*i].writes)),
        Sort::Hits => order.sort_by_key(|i| Reverse(at(i).hits)),
        Sort::Evictions => order.sort_by_key(|i| Reverse(at(i).evictions)),
        Sort::Writebacks => order.sort_by_key(|i| Reverse(at(i).writebacks)),
        Sort::MissRatio => order.sort_by(|a, b| by_miss_ratio(&at(a), &at(b))),
    }
    order
}

/// Rows in their order, and pairs of them accordingly.
fn renumbered(mut rows: Vec<Row>, order: &[usize], evictors: Vec<Pairs>, premature: Vec<Pairs>) -> Rows {
    let mut new = vec![None; rows.len()];
    for (now, &before) in order.iter().enumerate() {
        new[before] = Some(now as u32);
    }
    let renumber = |pairs: Pairs| {
        let pair = |((owner, by), n): ((u32, u32), u64)| Some(((new[owner as usize]?, new[by as usize]?), n));
        pairs.into_iter().filter_map(pair).collect()
    };
    Rows {
        rows: order.iter().map(|&i| std::mem::take(&mut rows[i])).collect(),
        evictors: evictors.into_iter().map(renumber).collect(),
        premature: premature.into_iter().map(renumber).collect(),
    }
}

impl Cell {
    /// What sorting by name goes by: files and lines in their order, references as they stand in the code.
    fn order(&self) -> (String, u64) {
        match self {
            Cell::Ref(reference) => (reference.module.clone().unwrap_or_default(), reference.offset),
            Cell::Callpath(calls) => (calls.join("\0"), 0),
            Cell::Object(object, _) => (object.name.clone(), 0),
            Cell::Line(line) => line
                .clone()
                .map_or_else(Default::default, |(file, line)| (file, line.into())),
            Cell::Function(name) | Cell::Module(name) => (name.clone(), 0),
            Cell::Loop(one) => one
                .as_ref()
                .map_or_else(Default::default, |one| (one.address.clone(), 0)),
            Cell::Thread(number) | Cell::Process(number, _) => (String::new(), (*number).into()),
        }
    }
}
