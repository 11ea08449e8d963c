//! The result set: rows of counts by ids, and dictionaries beside them.
use crate::entry::{Dimension, Entry};
use crate::view::Missing;
use memtrail_simulate::reuse::{Curve, Histogram, Touches};
use memtrail_simulate::sweep::Swept;
use memtrail_simulate::{Charge, Hierarchy, PointCounts, Traffic};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How often a line of the first row was evicted by the second.
pub type Pairs = BTreeMap<(u32, u32), u64>;

/// What ran, and where it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Source {
    pub command: Vec<String>,
    /// Nothing if no recording was kept.
    pub file: Option<String>,
}

/// What was counted besides what always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counted {
    /// Misses by cause.
    pub classes: bool,
    /// Who evicted whom, charged to these.
    pub evictors: Option<Charge>,
    /// Evictions of lines that were missed later.
    pub premature: bool,
    /// Bytes of accesses: not if some were skipped.
    pub bytes: bool,
}

impl Counted {
    /// Whether it is told who evicted whom, charged like this.
    pub fn has_evictors(&self, charge: Charge) -> Result<(), Missing> {
        match self.evictors {
            None => Err(Missing::Evictors),
            Some(counted) if counted != charge => Err(Missing::Charge(charge_word(counted))),
            Some(_) => Ok(()),
        }
    }
}

pub(crate) fn charge_word(charge: Charge) -> &'static str {
    match charge {
        Charge::Owner => "owner",
        Charge::All => "all",
    }
}

/// How the results came about.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Run {
    /// One, or those of all that were merged.
    pub sources: BTreeSet<Source>,
    /// The options that picked a part of it, as they were given.
    pub selection: BTreeSet<String>,
    /// Where the hierarchy is from: `--cache`, a file, a preset.
    pub config: String,
    /// Without levels if none was simulated.
    #[serde(with = "hierarchy")]
    pub hierarchy: Hierarchy,
    /// That were simulated, without fetches.
    pub accesses: u64,
    /// Accesses that were known to repeat others, and not simulated one by one.
    pub skipped: u64,
    pub counted: Counted,
    /// Why names are missing.
    pub reasons: BTreeSet<String>,
    /// What was wrong with the recording.
    pub warnings: BTreeSet<String>,
}

/// Levels as `--cache` takes them.
mod hierarchy {
    use memtrail_simulate::{short, Hierarchy};
    use serde::{de::Error, Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Written {
        levels: Vec<String>,
        cores: Option<u32>,
        seed: u64,
    }

    pub fn serialize<S: Serializer>(hierarchy: &Hierarchy, to: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            levels: hierarchy.levels.iter().map(ToString::to_string).collect(),
            cores: hierarchy.cores,
            seed: hierarchy.seed,
        };
        written.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Hierarchy, D::Error> {
        let Written { levels, cores, seed } = Written::deserialize(from)?;
        let levels = short::levels(&levels).map_err(D::Error::custom)?;
        let hierarchy = Hierarchy { levels, cores, seed };
        if !hierarchy.levels.is_empty() {
            hierarchy.check().map_err(D::Error::custom)?;
        }
        Ok(hierarchy)
    }
}

/// What happened at a level that is not counted by row.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LevelTotals {
    /// That were in use.
    pub caches: u32,
    pub traffic: Traffic,
    /// Rows whose lines were evicted, and rows that evicted them.
    #[serde(skip)]
    pub evictors: Pairs,
    /// The same, of lines that were missed later.
    #[serde(skip)]
    pub premature: Pairs,
}

/// Counts.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Row {
    /// An id for each dimension of the set.
    pub key: Vec<u32>,
    pub reads: u64,
    pub writes: u64,
    /// Read and written; 0 if that was not counted.
    pub bytes: u64,
    pub levels: Vec<PointCounts>,
}

impl Row {
    pub fn accesses(&self) -> u64 {
        self.reads + self.writes
    }

    /// Adds the counts of another row.
    pub fn add(&mut self, other: &Row) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes += other.bytes;
        self.levels.iter_mut().zip(&other.levels).for_each(|(a, b)| *a += *b);
    }

    fn is_idle(&self) -> bool {
        let did = |level: &PointCounts| level.accesses() > 0 || level.evictions > 0;
        self.accesses() == 0 && !self.levels.iter().any(did)
    }
}

/// Reuse distances in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReuseBucket {
    pub from: u64,
    /// Inclusive.
    pub to: u64,
    pub reads: u64,
    pub writes: u64,
}

/// Reuse distances: how many other lines were touched between two touches of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// Bytes of a line.
    pub line: u32,
    /// All touches.
    pub touches: Touches,
    /// The first of each line.
    pub first: Touches,
    /// Each power of two in 8 parts, up to the last that occurs.
    pub buckets: Vec<ReuseBucket>,
}

impl Reuse {
    /// Each power of two is divided into `1 << FINE` buckets.
    const FINE: u32 = 3;

    pub fn of(histogram: &Histogram) -> Reuse {
        let buckets = histogram.buckets(Reuse::FINE);
        let bucket = |b: &memtrail_simulate::reuse::Bucket| ReuseBucket {
            from: b.from,
            to: b.to,
            reads: b.touches.reads,
            writes: b.touches.writes,
        };
        Reuse {
            line: histogram.line(),
            touches: histogram.touches(),
            first: histogram.never(),
            buckets: buckets.iter().map(bucket).collect(),
        }
    }

    fn merge(&mut self, other: &Reuse) {
        self.touches += other.touches;
        self.first += other.first;
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            mine.reads += theirs.reads;
            mine.writes += theirs.writes;
        }
        let more = other.buckets.get(self.buckets.len()..).unwrap_or_default();
        self.buckets.extend(more);
    }
}

/// Everything that was found: see the crate's head for the form that it always has.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResultSet {
    pub run: Run,
    pub dimensions: Vec<Dimension>,
    /// By dimension and id.
    pub entries: Vec<Vec<Entry>>,
    pub rows: Vec<Row>,
    /// By level of the hierarchy.
    pub levels: Vec<LevelTotals>,
    pub sweep: Vec<Swept>,
    /// Bytes of a line, and curves.
    pub curves: Option<(u32, Vec<Curve>)>,
    pub reuse: Option<Reuse>,
}

/// Why two sets cannot be added up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("results with different {what} cannot be merged: {mine}, and {other}")]
pub struct MergeError {
    what: &'static str,
    mine: String,
    other: String,
}

fn agree<T: PartialEq>(what: &'static str, mine: T, other: T, show: impl Fn(T) -> String) -> Result<(), MergeError> {
    if mine == other {
        return Ok(());
    }
    let (mine, other) = (show(mine), show(other));
    Err(MergeError { what, mine, other })
}

impl ResultSet {
    /// All rows together, at a level.
    pub fn total(&self, level: usize) -> PointCounts {
        let mut total = PointCounts::default();
        self.rows.iter().for_each(|row| total += row.levels[level]);
        total
    }

    /// Adds up results of parts: threads with caches of their own, ranks, runs. Things that are the
    /// same in both are one in the result. The order of the parts does not matter.
    pub fn merge(mut self, other: ResultSet) -> Result<ResultSet, MergeError> {
        self.check_alike(&other)?;
        let ids: Vec<u32> = self.entries.iter().map(|entries| entries.len() as u32).collect();
        let first = self.rows.len() as u32;
        for (mine, theirs) in self.entries.iter_mut().zip(other.entries) {
            mine.extend(theirs);
        }
        self.rows.extend(other.rows.into_iter().map(|mut row| {
            row.key.iter_mut().zip(&ids).for_each(|(id, before)| *id += before);
            row
        }));
        for (mine, theirs) in self.levels.iter_mut().zip(other.levels) {
            mine.caches += theirs.caches;
            mine.traffic += theirs.traffic;
            let moved = |pairs: Pairs| pairs.into_iter().map(move |((a, b), n)| ((a + first, b + first), n));
            mine.evictors.extend(moved(theirs.evictors));
            mine.premature.extend(moved(theirs.premature));
        }
        self.run.merge(other.run);
        for (mine, theirs) in self.sweep.iter_mut().zip(&other.sweep) {
            mine.counts += theirs.counts;
            mine.skipped += theirs.skipped;
        }
        if let (Some((_, mine)), Some((_, theirs))) = (&mut self.curves, &other.curves) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                let points = mine.points.iter_mut().zip(&theirs.points);
                points.for_each(|(mine, theirs)| mine.counts += theirs.counts);
            }
        }
        if let (Some(mine), Some(theirs)) = (&mut self.reuse, &other.reuse) {
            mine.merge(theirs);
        }
        Ok(self.canonical())
    }

    fn check_alike(&self, other: &ResultSet) -> Result<(), MergeError> {
        agree("dimensions", &self.dimensions, &other.dimensions, |d| shown(d))?;
        agree("caches", &self.run.hierarchy, &other.run.hierarchy, |h| {
            shown(&h.levels)
        })?;
        let configs = |set: &ResultSet| set.sweep.iter().map(|swept| swept.config).collect::<Vec<_>>();
        agree("sweeps", configs(self), configs(other), |c| shown(&c))?;
        let curves = |set: &ResultSet| {
            let size = |curve: &Curve| (curve.ways, curve.points.iter().map(|p| p.size).collect::<Vec<_>>());
            set.curves
                .as_ref()
                .map(|(line, c)| (*line, c.iter().map(size).collect::<Vec<_>>()))
        };
        agree("curves", curves(self), curves(other), |c| format!("{c:?}"))?;
        let reuse = |set: &ResultSet| set.reuse.as_ref().map(|reuse| reuse.line);
        agree("lines of reuse distances", reuse(self), reuse(other), |l| {
            format!("{l:?}")
        })
    }

    /// In the form that every set has: see the crate's head.
    pub fn canonical(mut self) -> ResultSet {
        let Counted {
            classes,
            evictors,
            premature,
            bytes,
        } = self.run.counted;
        for level in &mut self.levels {
            level.evictors.retain(|_, n| evictors.is_some() && *n > 0);
            level.premature.retain(|_, n| premature && *n > 0);
        }
        for row in &mut self.rows {
            row.bytes = if bytes { row.bytes } else { 0 };
            if !classes {
                row.levels
                    .iter_mut()
                    .for_each(|level| level.classes = Default::default());
            }
        }
        let mut active: Vec<bool> = self.rows.iter().map(|row| !row.is_idle()).collect();
        for level in &self.levels {
            for &(owner, evictor) in level.evictors.keys().chain(level.premature.keys()) {
                active[owner as usize] = true;
                active[evictor as usize] = true;
            }
        }
        for at in 0..self.dimensions.len() {
            self.renumber_entries(at, &active);
        }
        self.renumber_rows(&active);
        self
    }

    /// Sorts the entries of a dimension that active rows use, and merges those that are the same.
    fn renumber_entries(&mut self, at: usize, active: &[bool]) {
        let entries = std::mem::take(&mut self.entries[at]);
        let mut used = vec![false; entries.len()];
        for (row, _) in self.rows.iter().zip(active).filter(|(_, active)| **active) {
            used[row.key[at] as usize] = true;
        }
        let mut new = vec![0; entries.len()];
        let used = entries.into_iter().enumerate().filter(|(id, _)| used[*id]);
        let mut keyed: Vec<_> = used.map(|(id, entry)| (entry.key(), id, entry)).collect();
        keyed.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        let mut last = None;
        let merged = &mut self.entries[at];
        for (key, id, entry) in keyed {
            match merged.last_mut().filter(|_| last.as_ref() == Some(&key)) {
                Some(same) => same.merge(entry),
                None => merged.push(entry),
            }
            new[id] = merged.len() as u32 - 1;
            last = Some(key);
        }
        self.rows
            .iter_mut()
            .for_each(|row| row.key[at] = new[row.key[at] as usize]);
    }

    /// Sorts active rows, and adds up those with the same key.
    fn renumber_rows(&mut self, active: &[bool]) {
        let mut new: Vec<Option<u32>> = vec![None; self.rows.len()];
        let rows = std::mem::take(&mut self.rows).into_iter().enumerate();
        let mut rows: Vec<(usize, Row)> = rows.filter(|(at, _)| active[*at]).collect();
        rows.sort_by(|a, b| a.1.key.cmp(&b.1.key));
        for (at, row) in rows {
            match self.rows.last_mut().filter(|last| last.key == row.key) {
                Some(same) => same.add(&row),
                None => self.rows.push(row),
            }
            new[at] = Some(self.rows.len() as u32 - 1);
        }
        for level in &mut self.levels {
            level.evictors = renumbered(&level.evictors, &new);
            level.premature = renumbered(&level.premature, &new);
        }
    }
}

/// Pairs of other rows: `new` says which each has become, if any.
pub fn renumbered(pairs: &Pairs, new: &[Option<u32>]) -> Pairs {
    let mut result = Pairs::new();
    for (&(owner, evictor), n) in pairs {
        if let (Some(owner), Some(evictor)) = (new[owner as usize], new[evictor as usize]) {
            *result.entry((owner, evictor)).or_default() += n;
        }
    }
    result
}

fn shown<T: ToString>(all: &[T]) -> String {
    match all {
        [] => "none".to_string(),
        all => all.iter().map(T::to_string).collect::<Vec<_>>().join(" "),
    }
}

impl Run {
    fn merge(&mut self, other: Run) {
        self.sources.extend(other.sources);
        self.selection.extend(other.selection);
        self.config = std::mem::take(&mut self.config).min(other.config);
        self.accesses += other.accesses;
        self.skipped += other.skipped;
        let (mine, theirs) = (self.counted, other.counted);
        self.counted = Counted {
            classes: mine.classes && theirs.classes,
            evictors: mine.evictors.filter(|_| mine.evictors == theirs.evictors),
            premature: mine.premature && theirs.premature,
            bytes: mine.bytes && theirs.bytes,
        };
        self.reasons.extend(other.reasons);
        self.warnings.extend(other.warnings);
    }
}
