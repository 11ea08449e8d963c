//! Views: a set's rows, added up by what is asked for, and in the order that is asked for.
use crate::entry::{Dimension, Entry, Object};
use crate::set::{renumbered, Pairs, ResultSet, Row};
use memtrail_model::Kind;
use memtrail_simulate::{Hierarchy, Level, PointCounts};
use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Misses,
    Accesses,
    Reads,
    Writes,
    Hits,
    MissRatio,
    Evictions,
    Writebacks,
    /// In the order of the code, or of names.
    Name,
}

/// What a set does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    #[error("its counts are by {has}, not by {asked}; --by {asked} with --save, on the recording, makes one that is")]
    Dimension { asked: Dimension, has: String },
    #[error("no hierarchy was simulated: it holds sweeps, curves or reuse distances only")]
    Hierarchy,
    #[error(
        "who evicted whom was not counted; memtrail evictors or sim --evictors, with --save, makes one that tells"
    )]
    Evictors,
    #[error("evictions were charged to {0}; --charge {0} shows them")]
    Charge(&'static str),
    #[error("premature evictions were not counted; memtrail competition, with --save, makes one that tells")]
    Premature,
    #[error("misses were not classified; memtrail sim --classes, with --save, makes one that tells")]
    Classes,
    #[error("--level {asked}: there are {levels}")]
    Level { asked: String, levels: String },
}

/// Rows as a table shows them.
pub struct View<'s> {
    pub set: &'s ResultSet,
    pub by: Vec<Dimension>,
    /// The level that the table is about, if one was named.
    pub level: Option<usize>,
    /// In order. A row's key has an id for each dimension in `by`.
    pub rows: Vec<Row>,
    /// By level, of the rows of the view.
    pub evictors: Vec<Pairs>,
    pub premature: Vec<Pairs>,
    /// Of the set that each dimension of `by` is.
    columns: Vec<usize>,
    /// By id of an object, if objects are asked for.
    names: Vec<String>,
    /// Most columns of a terminal that a text may take.
    pub width: Option<usize>,
    /// What is left out of the rows: libraries and start-up code.
    pub folded: Option<Folded>,
}

/// Rows that are left out, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    pub rows: u64,
    pub accesses: u64,
    /// At the level that the table is about.
    pub misses: u64,
}

/// Rows of libraries with at least this part of all misses or accesses are not left out: one of
/// this many.
const MATTERS: u64 = 50;

impl<'s> View<'s> {
    pub fn new(set: &'s ResultSet, by: &[Dimension], sort: Sort, level: Option<&str>) -> Result<View<'s>, Missing> {
        if set.levels.is_empty() {
            return Err(Missing::Hierarchy);
        }
        let level = level.map(|name| level_named(&set.run.hierarchy, name)).transpose()?;
        let column = |&asked: &Dimension| {
            let found = set.dimensions.iter().position(|&dimension| dimension == asked);
            let has = || set.dimensions.iter().map(|d| d.word()).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| Missing::Dimension { asked, has: has() })
        };
        let columns: Vec<usize> = by.iter().map(column).collect::<Result<_, _>>()?;
        let names = match by.iter().position(|&by| by == Dimension::Object) {
            Some(at) => object_names(&set.entries[columns[at]]),
            None => Vec::new(),
        };
        let mut view = View {
            set,
            by: by.to_vec(),
            level,
            rows: Vec::new(),
            evictors: set.levels.iter().map(|level| level.evictors.clone()).collect(),
            premature: set.levels.iter().map(|level| level.premature.clone()).collect(),
            columns,
            names,
            width: None,
            folded: None,
        };
        view.add_up();
        view.sort(sort);
        Ok(view)
    }

    /// The set's rows, by fewer dimensions.
    fn add_up(&mut self) {
        let mut numbers: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut new = Vec::with_capacity(self.set.rows.len());
        for row in &self.set.rows {
            let key: Vec<u32> = self.columns.iter().map(|&at| row.key[at]).collect();
            let next = self.rows.len() as u32;
            let number = *numbers.entry(key.clone()).or_insert(next);
            match self.rows.get_mut(number as usize) {
                Some(sum) => sum.add(row),
                None => self.rows.push(Row { key, ..row.clone() }),
            }
            new.push(Some(number));
        }
        self.renumber(&new);
    }

    fn renumber(&mut self, new: &[Option<u32>]) {
        for pairs in self.evictors.iter_mut().chain(&mut self.premature) {
            *pairs = renumbered(pairs, new);
        }
    }

    fn sort(&mut self, sort: Sort) {
        let at = |i: &usize| *self.counts(&self.rows[*i]);
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        // Ids are in the order of names.
        order.sort_by_key(|&i| &self.rows[i].key);
        match sort {
            Sort::Name => {}
            Sort::Misses => order.sort_by_key(|i| Reverse((at(i).misses, at(i).accesses()))),
            Sort::Accesses => order.sort_by_key(|i| Reverse(at(i).accesses())),
            Sort::Reads => order.sort_by_key(|i| Reverse(self.rows[*i].reads)),
            Sort::Writes => order.sort_by_key(|i| Reverse(self.rows[*i].writes)),
            Sort::Hits => order.sort_by_key(|i| Reverse(at(i).hits)),
            Sort::Evictions => order.sort_by_key(|i| Reverse(at(i).evictions)),
            Sort::Writebacks => order.sort_by_key(|i| Reverse(at(i).writebacks)),
            Sort::MissRatio => order.sort_by(|a, b| by_miss_ratio(&at(a), &at(b))),
        }
        let mut new = vec![None; self.rows.len()];
        for (now, &before) in order.iter().enumerate() {
            new[before] = Some(now as u32);
        }
        self.rows = order.iter().map(|&i| std::mem::take(&mut self.rows[i])).collect();
        self.renumber(&new);
    }

    /// Leaves out the rows of libraries and start-up code, but for those that matter: that have one
    /// of [`MATTERS`] misses or accesses. If nothing else would be left, all rows stay.
    pub fn fold(&mut self) {
        let count = |of: &dyn Fn(&Row) -> u64| self.rows.iter().map(of).sum::<u64>();
        let accesses = count(&Row::accesses);
        let misses = count(&|row| self.counts(row).misses);
        let matters = |row: &Row| {
            row.accesses().saturating_mul(MATTERS) >= accesses.max(1)
                || self.counts(row).misses.saturating_mul(MATTERS) >= misses.max(1)
        };
        let stays = |row: &Row| matters(row) || !self.entries(row).any(Entry::is_foreign);
        let stay: Vec<bool> = self.rows.iter().map(stays).collect();
        if stay.iter().all(|stays| *stays) || !self.rows.iter().any(|row| !self.entries(row).any(Entry::is_foreign)) {
            return;
        }
        let mut folded = Folded::default();
        let mut next = 0;
        let new = |&stays: &bool| {
            next += u32::from(stays);
            stays.then(|| next - 1)
        };
        let new: Vec<Option<u32>> = stay.iter().map(new).collect();
        for row in self
            .rows
            .iter()
            .zip(&stay)
            .filter(|(_, stays)| !**stays)
            .map(|(row, _)| row)
        {
            folded.rows += 1;
            folded.accesses += row.accesses();
            folded.misses += self.counts(row).misses;
        }
        let mut stay = stay.into_iter();
        self.rows.retain(|_| stay.next().unwrap_or(true));
        self.renumber(&new);
        self.folded = Some(folded);
    }

    pub fn hierarchy(&self) -> &'s Hierarchy {
        &self.set.run.hierarchy
    }

    /// What a row's ids stand for.
    pub fn entries<'v>(&'v self, row: &'v Row) -> impl Iterator<Item = &'s Entry> + 'v {
        let columns = self.columns.iter().zip(&row.key);
        columns.map(|(&at, &id)| &self.set.entries[at][id as usize])
    }

    /// What an object is called, with what tells it from others.
    pub fn object_name<'v>(&'v self, row: &Row, object: &'v Object) -> &'v str {
        let at = self.by.iter().position(|&by| by == Dimension::Object);
        let name = at.and_then(|at| self.names.get(row.key[at] as usize));
        name.map_or(&object.name, String::as_str)
    }

    /// The level that a row's figures are told of: that which was named, or the first that its
    /// accesses meet.
    pub fn level_of(&self, row: &Row) -> usize {
        let kind = |entry: &Entry| match entry {
            Entry::Ref(reference) => Some(reference.kind),
            _ => None,
        };
        let first = || first_level(self.hierarchy(), self.entries(row).find_map(kind).unwrap_or(Kind::Read));
        self.level.unwrap_or_else(first)
    }

    /// A row's figures at that level.
    pub fn counts<'v>(&self, row: &'v Row) -> &'v PointCounts {
        &row.levels[self.level_of(row)]
    }

    /// The levels that no row's figures are told of.
    pub fn other_levels(&self) -> Vec<usize> {
        let told: Vec<usize> = self.rows.iter().map(|row| self.level_of(row)).collect();
        (0..self.hierarchy().levels.len())
            .filter(|at| !told.contains(at))
            .collect()
    }
}

/// The level of this name.
pub fn level_named(hierarchy: &Hierarchy, name: &str) -> Result<usize, Missing> {
    let names: Vec<&str> = hierarchy.levels.iter().map(|level| level.name.as_str()).collect();
    let found = names.iter().position(|n| *n == name);
    found.ok_or_else(|| Missing::Level {
        asked: name.to_string(),
        levels: names.join(", "),
    })
}

/// The first level that accesses of a kind meet.
pub fn first_level(hierarchy: &Hierarchy, kind: Kind) -> usize {
    let holds = |level: &Level| match kind {
        Kind::Fetch => level.holds.instructions(),
        _ => level.holds.data(),
    };
    hierarchy.levels.iter().position(holds).unwrap_or(0)
}

/// The higher miss ratio first, without rounding; of equal ones the one with more misses.
fn by_miss_ratio(a: &PointCounts, b: &PointCounts) -> Ordering {
    let cross = |x: &PointCounts, y: &PointCounts| u128::from(x.misses) * u128::from(y.accesses().max(1));
    cross(b, a).cmp(&cross(a, b)).then(b.misses.cmp(&a.misses))
}

/// The names of objects. If several are called the same, the calls that allocated them tell them
/// apart.
pub fn object_names(entries: &[Entry]) -> Vec<String> {
    let none = Object::default();
    let objects: Vec<&Object> = entries
        .iter()
        .map(|entry| match entry {
            Entry::Object(object) => object,
            _ => &none,
        })
        .collect();
    let mut names: Vec<String> = objects.iter().map(|object| object.name.clone()).collect();
    let mut same: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, object) in objects.iter().enumerate() {
        same.entry(&object.name).or_default().push(at);
    }
    for alike in same.into_values().filter(|alike| alike.len() > 1) {
        let paths: Vec<&[String]> = alike.iter().map(|&at| objects[at].path.calls.as_slice()).collect();
        for (&at, suffix) in alike.iter().zip(tell_apart(&paths)) {
            names[at] += &suffix.map_or_else(String::new, |call| format!(" < {call}"));
        }
    }
    names
}

/// Of each path the innermost call, but for the last, in which it differs from others.
fn tell_apart<'p>(paths: &[&'p [String]]) -> Vec<Option<&'p String>> {
    let call = |path: &'p [String], out: usize| path.len().checked_sub(1 + out).map(|at| &path[at]);
    let longest = paths.iter().map(|path| path.len()).max().unwrap_or(0);
    let suffix = |path: &&'p [String]| {
        let differs = |out: &usize| {
            let mine = call(path, *out);
            mine.is_some() && paths.iter().any(|other| call(other, *out) != mine)
        };
        (1..longest).find(differs).and_then(|out| call(path, out))
    };
    paths.iter().map(suffix).collect()
}

/// What a row loses to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Of its lines, to itself.
    pub to_itself: u64,
    /// Of its lines, to others.
    pub to_others: u64,
    /// Of others' lines, to it.
    pub from_others: u64,
}

/// Sums of a matrix of who evicts whom, by row (DTrack's Figure 6).
pub fn competition(rows: usize, pairs: &Pairs) -> Vec<Losses> {
    let mut losses = vec![Losses::default(); rows];
    for (&(victim, evictor), &times) in pairs {
        if victim == evictor {
            losses[victim as usize].to_itself += times;
        } else {
            losses[victim as usize].to_others += times;
            losses[evictor as usize].from_others += times;
        }
    }
    losses
}
