//! What differs between two runs, by object, reference, line and function.
//!
//! **Problem.** The interesting comparison is between two builds: before and after a change. Then
//! addresses are different, and lines have moved.
//!
//! **Idea.** Things are matched by names and structure. A function by its name. An object by its
//! name without the line that allocated it. A reference by its function, its words (`B[k][j]`) and
//! whether it reads or writes; if a function has several of the same, by their order in the code. A
//! line by its function and the references in it, again in order; of what is left, by file and
//! number. All of a library's function is one reference.
//!
//! **Invariant.** In each dimension the rows' counts, with those of the rows that did not change,
//! add up to the totals of both runs: nothing is lost where nothing matches, it stands in a row that
//! is not in the other run.
use crate::names::{function_of, named_rows, object_key, words_of};
use crate::words::plural;
use memtrail_report::columns::{cut, Align, Columns};
use memtrail_report::format::{base, ratio, thousands};
use memtrail_report::{kind_word, Dimension, Entry, Reference, ResultSet, Row};
use memtrail_simulate::{Hierarchy, PointCounts};
use serde_json::{json, Map, Value};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::str::FromStr;

/// Rows of a dimension that a text shows.
const TOP: usize = 10;

/// What something did in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Did {
    pub reads: u64,
    pub writes: u64,
    /// By level; empty if it was not there.
    pub levels: Vec<PointCounts>,
}

impl Did {
    fn add(&mut self, row: &Row) {
        self.reads += row.reads;
        self.writes += row.writes;
        self.levels.resize(row.levels.len(), PointCounts::default());
        self.levels
            .iter_mut()
            .zip(&row.levels)
            .for_each(|(sum, counts)| *sum += *counts);
    }

    fn merge(&mut self, other: Did) {
        let Did { reads, writes, levels } = other;
        let key = Vec::new();
        self.add(&Row {
            key,
            reads,
            writes,
            bytes: 0,
            levels,
        });
    }

    pub fn accesses(&self) -> u64 {
        self.reads + self.writes
    }

    pub fn misses(&self, level: usize) -> u64 {
        self.levels.get(level).map_or(0, |counts| counts.misses)
    }

    fn json(&self, hierarchy: &Hierarchy, level: usize) -> Value {
        let of = |at: usize| {
            let counts = self.levels.get(at).copied().unwrap_or_default();
            json!({"hits": counts.hits, "misses": counts.misses, "evictions": counts.evictions, "writebacks": counts.writebacks})
        };
        let levels: Map<String, Value> = hierarchy
            .levels
            .iter()
            .enumerate()
            .map(|(at, level)| (level.name.clone(), of(at)))
            .collect();
        json!({
            "accesses": self.accesses(),
            "reads": self.reads,
            "writes": self.writes,
            "misses": self.misses(level),
            "levels": levels,
        })
    }
}

/// Something that is in one of the runs, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// As it is called in the second run, or else in the first.
    pub name: String,
    pub dimension: Dimension,
    pub before: Did,
    pub after: Did,
    /// It is of a library or of start-up code.
    pub foreign: bool,
}

impl Change {
    fn misses_change(&self, level: usize) -> u64 {
        self.before.misses(level).abs_diff(self.after.misses(level))
    }

    fn accesses_change(&self) -> u64 {
        self.before.accesses().abs_diff(self.after.accesses())
    }
}

/// Why two runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    #[error("different caches were simulated: {before}, and {after}; give the recordings, or the same caches")]
    Caches { before: String, after: String },
    #[error("no caches were simulated")]
    Nothing,
    #[error("the two have no dimension in common that can be compared: object, ref, line or function")]
    Dimensions,
}

/// What differs between two runs.
#[derive(Clone, Debug)]
pub struct Diff {
    hierarchy: Hierarchy,
    level: usize,
    pub before: Did,
    pub after: Did,
    /// Those that changed: by dimension, what changed most first.
    pub rows: Vec<Change>,
}

/// What things of a dimension did in a run: by what they are matched by, and in order.
type Side = BTreeMap<String, Vec<(String, Did)>>;

/// What begins the keys of what is of libraries and start-up code.
const FOREIGN: char = '\x02';

impl Diff {
    /// Compares at a level, by its place.
    pub fn of(before: &ResultSet, after: &ResultSet, level: usize) -> Result<Diff, DiffError> {
        let hierarchy = &after.run.hierarchy;
        if hierarchy.levels.is_empty() || before.run.hierarchy.levels.is_empty() {
            return Err(DiffError::Nothing);
        }
        if before.run.hierarchy.levels != hierarchy.levels {
            let shown = |set: &ResultSet| {
                let levels = set.run.hierarchy.levels.iter().map(ToString::to_string);
                levels.collect::<Vec<_>>().join(" ")
            };
            let (before, after) = (shown(before), shown(after));
            return Err(DiffError::Caches { before, after });
        }
        let has = |needs: Dimension| before.dimensions.contains(&needs) && after.dimensions.contains(&needs);
        let mut rows = Vec::new();
        let mut compared = false;
        let mut compare = |dimension, needs, side: fn(&ResultSet) -> Side| {
            if has(needs) {
                compared = true;
                rows.extend(matched(dimension, side(before), side(after)));
            }
        };
        compare(Dimension::Object, Dimension::Object, objects);
        compare(Dimension::Ref, Dimension::Ref, references);
        compare(Dimension::Line, Dimension::Ref, lines);
        compare(Dimension::Function, Dimension::Ref, functions);
        if !compared {
            return Err(DiffError::Dimensions);
        }
        rows.retain(|change| change.before != change.after);
        let order = |change: &Change| {
            let place = [Dimension::Object, Dimension::Ref, Dimension::Line, Dimension::Function];
            let place = place.iter().position(|&d| d == change.dimension);
            (
                place,
                Reverse(change.misses_change(level)),
                Reverse(change.accesses_change()),
            )
        };
        rows.sort_by_key(order);
        Ok(Diff {
            hierarchy: hierarchy.clone(),
            level,
            before: total(before),
            after: total(after),
            rows,
        })
    }

    /// Leaves out what changed by less than this part of all misses, and of all accesses.
    pub fn without_noise(mut self, part: f64) -> Diff {
        let misses = part * self.before.misses(self.level) as f64;
        let accesses = part * self.before.accesses() as f64;
        let level = self.level;
        self.rows
            .retain(|change| change.misses_change(level) as f64 > misses || change.accesses_change() as f64 > accesses);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.before == self.after
    }

    /// Rows of a name, in a dimension.
    pub fn json(&self, before: &str, after: &str) -> Value {
        let row = |change: &Change| {
            json!({
                "name": change.name,
                "dimension": dimension_word(change.dimension),
                "before": change.before.json(&self.hierarchy, self.level),
                "after": change.after.json(&self.hierarchy, self.level),
            })
        };
        json!({
            "schema_version": memtrail_report::json::SCHEMA_VERSION,
            "files": {"before": before, "after": after},
            "level": self.hierarchy.levels[self.level].name,
            "before": self.before.json(&self.hierarchy, self.level),
            "after": self.after.json(&self.hierarchy, self.level),
            "rows": self.rows.iter().map(row).collect::<Value>(),
        })
    }

    /// For people. `names` are what the two runs are called; `all`: whether libraries are told row
    /// by row even if they hardly changed.
    pub fn text(&self, names: (&str, &str), all: bool, width: Option<usize>) -> String {
        if self.is_empty() {
            return "no difference\n".to_string();
        }
        let names = distinct(names);
        let mut text = String::new();
        for (at, level) in self.hierarchy.levels.iter().enumerate() {
            let (before, after) = (self.before.misses(at), self.after.misses(at));
            let _ = writeln!(text, "{}", direction(&names, "misses", &level.name, before, after));
        }
        let (before, after) = (self.before.accesses(), self.after.accesses());
        let _ = writeln!(text, "{}", direction(&names, "makes", "accesses", before, after));
        for dimension in [Dimension::Object, Dimension::Ref, Dimension::Line, Dimension::Function] {
            let rows: Vec<&Change> = self.rows.iter().filter(|row| row.dimension == dimension).collect();
            let folds = |row: &&Change| !all && row.foreign && !self.matters(row);
            let (folded, shown): (Vec<&Change>, Vec<&Change>) = rows.into_iter().partition(folds);
            if !shown.is_empty() {
                text += &self.table(dimension, &shown, width);
            }
            if !folded.is_empty() {
                let changed: u64 = folded.iter().map(|row| row.misses_change(self.level)).sum();
                let _ = writeln!(
                    text,
                    "{}libraries and start-up code: {}, misses changed by {} in all (--all)",
                    if shown.is_empty() { "\n" } else { "" },
                    plural(folded.len() as u64, dimension_word(dimension)),
                    thousands(changed),
                );
            }
        }
        text
    }

    /// Whether a row has changed by a hundredth of all misses or accesses.
    fn matters(&self, row: &Change) -> bool {
        const PART: u64 = 100;
        let misses = self.before.misses(self.level).max(self.after.misses(self.level));
        let accesses = self.before.accesses().max(self.after.accesses());
        row.misses_change(self.level).saturating_mul(PART) >= misses.max(1)
            || row.accesses_change().saturating_mul(PART) >= accesses.max(1)
    }

    fn table(&self, dimension: Dimension, rows: &[&Change], width: Option<usize>) -> String {
        let level = &self.hierarchy.levels[self.level].name;
        let right = |name: String| (name, Align::Right);
        let mut columns = Columns::new(vec![
            (format!("by {}", dimension_word(dimension)), Align::Left),
            right(format!("{level} misses before")),
            right("after".into()),
            right("change".into()),
            right("%".into()),
            right("accesses".into()),
        ]);
        for change in rows.iter().take(TOP) {
            let (before, after) = (change.before.misses(self.level), change.after.misses(self.level));
            columns.row(vec![
                change.name.clone(),
                thousands(before),
                thousands(after),
                signed(before, after),
                relative(before, after),
                match (change.before.accesses(), change.after.accesses()) {
                    (before, after) if before == after => thousands(before),
                    (before, after) => format!("{} → {}", thousands(before), thousands(after)),
                },
            ]);
        }
        let mut text = format!("\n{}", columns.fit(width, &[5]));
        if rows.len() > TOP {
            let _ = writeln!(
                text,
                "and {} more (--json has all)",
                thousands((rows.len() - TOP) as u64)
            );
        }
        text
    }

    /// What a rule looks at, before and after.
    fn figure(&self, rule: &Rule) -> Result<(f64, f64), RuleError> {
        let level = match &rule.level {
            None => self.level,
            Some(name) => level_called(&self.hierarchy, name).ok_or_else(|| RuleError::Level {
                asked: name.clone(),
                levels: self
                    .hierarchy
                    .levels
                    .iter()
                    .map(|l| l.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            })?,
        };
        let of = |did: &Did| {
            let counts = did.levels.get(level).copied().unwrap_or_default();
            match (rule.metric, &rule.level) {
                (Metric::Misses, _) => counts.misses as f64,
                (Metric::MissRatio, _) => ratio(counts.misses, counts.accesses()).unwrap_or(0.0),
                (Metric::Writebacks, _) => counts.writebacks as f64,
                (Metric::Accesses, Some(_)) => counts.accesses() as f64,
                (Metric::Accesses, None) => did.accesses() as f64,
                (Metric::Reads, _) => did.reads as f64,
                (Metric::Writes, _) => did.writes as f64,
            }
        };
        Ok((of(&self.before), of(&self.after)))
    }

    /// Whether a rule says that this is a failure, and if so, why.
    pub fn fails(&self, rule: &Rule) -> Result<Option<String>, RuleError> {
        let (before, after) = self.figure(rule)?;
        let limit = match rule.bound {
            Bound::Absolute(limit) => limit,
            Bound::Change(change) => before + change,
            Bound::Percent(percent) => before * (1.0 + percent / 100.0),
        };
        let broken = match rule.above {
            true => after > limit,
            false => after < limit,
        };
        let shown = |value: f64| match value.fract() == 0.0 {
            true => thousands(value as u64),
            false => format!("{value:.5}"),
        };
        Ok(broken.then(|| format!("{}: {} before, {} after", rule.text, shown(before), shown(after))))
    }
}

/// `ref` is for command lines.
fn dimension_word(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Ref => "reference",
        other => other.word(),
    }
}

fn total(set: &ResultSet) -> Did {
    let mut total = Did::default();
    set.rows.iter().for_each(|row| total.add(row));
    total
}

/// What runs are called: their names, or `the second` if they have the same.
fn distinct((before, after): (&str, &str)) -> (String, String) {
    let (a, b) = (base(before), base(after));
    match a == b {
        true => ("the first".to_string(), "the second".to_string()),
        false => (cut(a, 30), cut(b, 30)),
    }
}

/// `new.mtr misses L1 12% more often than old.mtr: 262,144 → 293,601`.
fn direction((a, b): &(String, String), verb: &str, what: &str, before: u64, after: u64) -> String {
    let (verb, often) = match verb {
        "misses" => (format!("misses {what}"), "often "),
        verb => (verb.to_string(), ""),
    };
    let object = if often.is_empty() {
        format!("{what} ")
    } else {
        String::new()
    };
    let numbers = format!("{} → {}", thousands(before), thousands(after));
    match (before, after) {
        _ if before == after && often.is_empty() => format!("{b} {verb} as many {what} as {a}: {}", thousands(before)),
        _ if before == after => format!("{b} {verb} as often as {a}: {}", thousands(before)),
        (0, _) => format!("{b} {verb} {object}where {a} does not: {numbers}"),
        _ => {
            let change = 100.0 * (after as f64 - before as f64) / before as f64;
            let word = if change > 0.0 { "more" } else { "less" };
            let word = if often.is_empty() && change < 0.0 {
                "fewer"
            } else {
                word
            };
            let amount = match change.abs() {
                amount if amount >= 9.95 => format!("{amount:.0}%"),
                amount => format!("{amount:.1}%"),
            };
            format!("{b} {verb} {amount} {word} {often}{object}than {a}: {numbers}")
        }
    }
}

fn signed(before: u64, after: u64) -> String {
    let sign = match after.cmp(&before) {
        std::cmp::Ordering::Less => "-",
        std::cmp::Ordering::Equal => "",
        std::cmp::Ordering::Greater => "+",
    };
    format!("{sign}{}", thousands(before.abs_diff(after)))
}

fn relative(before: u64, after: u64) -> String {
    match (before, after) {
        (0, 0) => "0.0".to_string(),
        (0, _) => "new".to_string(),
        (_, 0) => "gone".to_string(),
        _ => format!("{:+.1}", 100.0 * (after as f64 - before as f64) / before as f64),
    }
}

/// Pairs what both runs have: the first of a key with the first, the second with the second.
fn matched(dimension: Dimension, mut before: Side, mut after: Side) -> Vec<Change> {
    let keys: BTreeSet<String> = before.keys().chain(after.keys()).cloned().collect();
    let mut changes = Vec::new();
    for key in keys {
        let mut old = before.remove(&key).unwrap_or_default().into_iter();
        let mut new = after.remove(&key).unwrap_or_default().into_iter();
        loop {
            let (old, new) = (old.next(), new.next());
            let name = match (&old, &new) {
                (Some((old, _)), Some((new, _))) if old != new => moved(old, new),
                (_, Some((name, _))) | (Some((name, _)), None) => name.clone(),
                (None, None) => break,
            };
            let did = |side: Option<(String, Did)>| side.map(|(_, did)| did).unwrap_or_default();
            changes.push(Change {
                name,
                dimension,
                foreign: key.starts_with(FOREIGN),
                before: did(old),
                after: did(new),
            });
        }
    }
    changes
}

/// Something whose line has moved: `B[k][j] (a.c:9, was a.c:7)`.
fn moved(old: &str, new: &str) -> String {
    let place = |name: &str| match name.rsplit_once('(') {
        Some((_, place)) => place.trim_end_matches(')').to_string(),
        None => name.to_string(),
    };
    match new.strip_suffix(')') {
        Some(start) if start.contains('(') => format!("{start}, was {})", place(old)),
        _ => format!("{new} (was {})", place(old)),
    }
}

fn objects(set: &ResultSet) -> Side {
    let mut side = Side::new();
    for (named, row) in named_rows(set) {
        let Some(object) = named.object() else { continue };
        // Objects of the same name: one for each path of calls, by the functions in it.
        let functions = object
            .path
            .calls
            .iter()
            .map(|call| call.split(" (").next().unwrap_or(""));
        let key = format!("{}\0{}", object_key(object), functions.collect::<Vec<_>>().join("\0"));
        let key = keyed(key, Entry::Object(Box::new(object.clone())).is_foreign());
        add(&mut side, key, &object.name, row);
    }
    side
}

/// What something is matched by, marked if it is of a library or of start-up code.
fn keyed(key: String, foreign: bool) -> String {
    match foreign {
        true => format!("{FOREIGN}{key}"),
        false => key,
    }
}

/// Adds a row to the thing of this name.
fn add(side: &mut Side, key: String, name: &str, row: &Row) {
    let things = side.entry(key).or_default();
    let at = things.iter().position(|(other, _)| other == name);
    let at = at.unwrap_or_else(|| {
        things.push((name.to_string(), Did::default()));
        things.len() - 1
    });
    things[at].1.add(row);
}

fn functions(set: &ResultSet) -> Side {
    let mut side = Side::new();
    for (named, row) in named_rows(set) {
        let Some(reference) = named.reference() else { continue };
        let name = match &reference.function {
            Some(_) => function_of(reference),
            None => nameless(reference),
        };
        add(&mut side, keyed(name.clone(), reference.is_foreign()), &name, row);
    }
    side
}

/// Code without a function is that of its module.
fn nameless(reference: &Reference) -> String {
    let module = reference.module.as_deref().unwrap_or("generated code");
    format!("[{module}]")
}

/// What references are matched by, without their place.
fn reference_key(reference: &Reference) -> String {
    match (reference.is_foreign(), &reference.function) {
        (_, None) => nameless(reference),
        (true, Some(_)) => function_of(reference),
        (false, Some(function)) => {
            format!("{function}\0{}\0{}", words_of(reference), kind_word(reference.kind))
        }
    }
}

fn references(set: &ResultSet) -> Side {
    // By line, so that equal ones are in the order of the source.
    let mut ordered: BTreeMap<(String, u32, String), Did> = BTreeMap::new();
    for (named, row) in named_rows(set) {
        let Some(reference) = named.reference() else { continue };
        let has_words = reference.source.is_some() || reference.variable.is_some();
        let line = reference
            .line
            .filter(|_| has_words && !reference.is_foreign())
            .unwrap_or(0);
        let name = match (reference.is_foreign(), &reference.function) {
            (_, None) => nameless(reference),
            (true, _) => format!(
                "{} ({})",
                words_of(reference),
                reference.module.as_deref().unwrap_or("?")
            ),
            (false, Some(function)) => {
                let place = reference.short_line().filter(|_| line > 0);
                let place = place.unwrap_or_else(|| function.clone());
                format!("{} {} ({place})", words_of(reference), kind_word(reference.kind))
            }
        };
        let key = keyed(reference_key(reference), reference.is_foreign());
        ordered.entry((key, line, name)).or_default().add(row);
    }
    let mut side = Side::new();
    for ((key, _, name), did) in ordered {
        side.entry(key).or_default().push((name, did));
    }
    side
}

fn lines(set: &ResultSet) -> Side {
    /// What is known of a line: what its references are, and what they did.
    type Found = (BTreeSet<String>, Did, bool);
    let mut found: BTreeMap<(String, u32), Found> = BTreeMap::new();
    let mut unknown = Did::default();
    for (named, row) in named_rows(set) {
        let Some(reference) = named.reference() else { continue };
        match (&reference.file, reference.line) {
            (Some(file), Some(line)) => {
                let (words, did, foreign) = found.entry((file.clone(), line)).or_default();
                words.insert(reference_key(reference));
                *foreign |= reference.is_foreign();
                did.add(row);
            }
            _ => {
                let mut one = Did::default();
                one.add(row);
                unknown.merge(one);
            }
        }
    }
    let mut side = Side::new();
    for ((file, line), (words, did, foreign)) in found {
        let words: Vec<String> = words.into_iter().collect();
        let key = keyed(format!("{}\x01{}", base(&file), words.join("\x01")), foreign);
        side.entry(key)
            .or_default()
            .push((format!("{}:{line}", base(&file)), did));
    }
    if unknown != Did::default() {
        side.insert(String::new(), vec![("[no line known]".to_string(), unknown)]);
    }
    side
}

/// The level of this name, or the first that begins with it: `L1` is `L1D` where there is one.
pub fn level_called(hierarchy: &Hierarchy, name: &str) -> Option<usize> {
    let levels = &hierarchy.levels;
    let exact = levels.iter().position(|level| level.name.eq_ignore_ascii_case(name));
    exact.or_else(|| {
        let begins = |level: &str| level.to_ascii_lowercase().starts_with(&name.to_ascii_lowercase());
        levels.iter().position(|level| begins(&level.name))
    })
}

/// What a rule can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    Misses,
    MissRatio,
    Writebacks,
    Accesses,
    Reads,
    Writes,
}

const METRICS: [(&str, Metric); 6] = [
    ("misses", Metric::Misses),
    ("miss_ratio", Metric::MissRatio),
    ("writebacks", Metric::Writebacks),
    ("accesses", Metric::Accesses),
    ("reads", Metric::Reads),
    ("writes", Metric::Writes),
];

/// What the figure may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    Absolute(f64),
    Change(f64),
    Percent(f64),
}

/// When a comparison has failed: `L1.misses>+2%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    text: String,
    level: Option<String>,
    metric: Metric,
    /// Whether more is a failure; else less is.
    above: bool,
    bound: Bound,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("{0:?} is no rule such as L1.misses>+2%, accesses>+1000 or L2.miss_ratio>0.05")]
    Form(String),
    #[error("{asked:?} is nothing that is counted: there are misses, miss_ratio, writebacks, accesses, reads, writes")]
    Metric { asked: String },
    #[error("there is no level {asked}; there are {levels}")]
    Level { asked: String, levels: String },
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let wrong = || RuleError::Form(text.to_string());
        let at = text.find(['>', '<']).ok_or_else(wrong)?;
        let (subject, rest) = text.split_at(at);
        let (level, metric) = match subject.trim().rsplit_once('.') {
            Some((level, metric)) => (Some(level.to_string()), metric),
            None => (None, subject.trim()),
        };
        let known = METRICS.iter().find(|(name, _)| *name == metric);
        let asked = metric.to_string();
        let (_, metric) = known.ok_or(RuleError::Metric { asked })?;
        let value = rest[1..].trim();
        let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite()).ok_or_else(wrong);
        let bound = match value.strip_suffix('%') {
            Some(percent) => Bound::Percent(number(percent.trim())?),
            None if value.starts_with(['+', '-']) => Bound::Change(number(value)?),
            None => Bound::Absolute(number(value)?),
        };
        Ok(Rule {
            text: text.to_string(),
            level,
            metric: *metric,
            above: rest.starts_with('>'),
            bound,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        let rule: Rule = "L1.misses>+2%".parse().unwrap();
        assert_eq!(rule.level.as_deref(), Some("L1"));
        assert_eq!(
            (rule.metric, rule.above, rule.bound),
            (Metric::Misses, true, Bound::Percent(2.0))
        );
        let rule: Rule = "accesses < -1000".parse().unwrap();
        assert_eq!(
            (rule.level, rule.above, rule.bound),
            (None, false, Bound::Change(-1000.0))
        );
        let rule: Rule = "L2.miss_ratio>0.05".parse().unwrap();
        assert_eq!((rule.metric, rule.bound), (Metric::MissRatio, Bound::Absolute(0.05)));
        for wrong in ["", "L1.misses", "L1.misses>", "L1.misses>x%", "L1.misses>nan", ">2"] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
        }
        let error = "L1.mises>2".parse::<Rule>().unwrap_err();
        assert_eq!(error, RuleError::Metric { asked: "mises".into() });
    }

    #[test]
    fn the_direction_is_said_from_the_second_run() {
        let names = ("old.mtr".to_string(), "new.mtr".to_string());
        assert_eq!(
            direction(&names, "misses", "L1", 100, 112),
            "new.mtr misses L1 12% more often than old.mtr: 100 → 112"
        );
        assert_eq!(
            direction(&names, "misses", "L1", 1000, 995),
            "new.mtr misses L1 0.5% less often than old.mtr: 1,000 → 995"
        );
        assert_eq!(
            direction(&names, "misses", "L1", 7, 7),
            "new.mtr misses L1 as often as old.mtr: 7"
        );
        assert_eq!(
            direction(&names, "makes", "accesses", 100, 50),
            "new.mtr makes 50% fewer accesses than old.mtr: 100 → 50"
        );
        assert_eq!(
            direction(&names, "makes", "accesses", 7, 7),
            "new.mtr makes as many accesses as old.mtr: 7"
        );
    }

    #[test]
    fn what_has_moved_says_where_from() {
        assert_eq!(
            moved("B[k][j] read (a.c:7)", "B[k][j] read (a.c:9)"),
            "B[k][j] read (a.c:9, was a.c:7)"
        );
        assert_eq!(moved("a.c:7", "a.c:9"), "a.c:9 (was a.c:7)");
    }
}
