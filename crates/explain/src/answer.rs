//! The short answer: what a program spent on memory, and where to look first, on one screen.
//!
//! **What is one thing.** A compiler makes several instructions of one expression (it unrolls,
//! peels, vectorises), so references are taken together that have the same function, line, words
//! and kind. Of a library all accesses of one function are one thing, called by the function and,
//! if call paths are known, by the line of the program that called it.
//!
//! **What comes first.** A miss that goes on to memory costs more than one that the next level
//! answers. Things are in the order of their *cost*: each miss of the first level counts 1, of the
//! second 3 more, of each further one 5 times as much as of the one before. That is about the
//! relation that latencies have in machines of today; it orders, it does not predict a time.
//!
//! **Libraries and start-up code** are one row together, unless one of them has a tenth of the cost.
//!
//! **Advice.** [`Thing::advice`] is for whoever knows what would help: lines put there are printed
//! below the thing, and are in the JSON.
use crate::names::{named_rows, own_call, words_of, Named};
use crate::words::{part_of, percent, plural};
use memtrail_report::columns::cut;
use memtrail_report::format::{base, bytes, ratio, thousands};
use memtrail_report::levels::spatial_use;
use memtrail_report::{kind_word, Dimension, Object, Reference, ResultSet, Row};
use memtrail_simulate::{show_size, PointCounts};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Things that are shown.
const MOST: usize = 3;
/// What has less than this part of the cost is not among them: one of this many.
const LEAST: u64 = 100;
/// What is of a library is shown by itself if it has this part of the cost: one of this many.
const FOREIGN_MATTERS: u64 = 10;
/// Terminals narrower than this get lines that are too long.
const NARROWEST: usize = 60;

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thing {
    /// `B[k][j]`, `spill`, `memmove from main (a.c:3)`.
    pub words: String,
    /// `read` or `write`.
    pub kind: &'static str,
    pub module: Option<String>,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The object that most of its misses are of.
    pub object: Option<Object>,
    pub accesses: u64,
    /// By level.
    pub levels: Vec<PointCounts>,
    /// See the module's head.
    pub cost: u64,
    /// What would help, a line each.
    pub advice: Vec<String>,
    foreign: bool,
}

/// What libraries and start-up code did, as far as it is not among the things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    pub things: u64,
    pub accesses: u64,
    /// Of the first level.
    pub misses: u64,
}

/// The short answer.
#[derive(Clone, Debug)]
pub struct Answer<'s> {
    set: &'s ResultSet,
    pub first: Vec<Thing>,
    /// Own things that are not among the first.
    pub others: u64,
    pub foreign: Foreign,
    threads: Option<u64>,
}

/// What a set has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("these results are not by reference: save them with memtrail refs --save, or give the recording")]
    References,
    #[error("no caches were simulated in these results: give the recording")]
    Caches,
}

/// How a text may look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Most columns; nothing for no limit.
    pub width: Option<usize>,
    pub colour: bool,
}

impl Look {
    fn paint(&self, code: &str, text: &str) -> String {
        match self.colour {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_string(),
        }
    }

    fn strong(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn faint(&self, text: &str) -> String {
        self.paint("2", text)
    }
}

/// What tells things apart: module, function, file, line, words and kind.
type ThingKey = (String, String, String, u32, String, &'static str);

/// What misses cost, by level.
fn weights(levels: usize) -> Vec<u64> {
    let further = std::iter::successors(Some(3u64), |weight| weight.checked_mul(5));
    std::iter::once(1).chain(further).take(levels).collect()
}

fn key_of(reference: &Reference, row: Named<'_>) -> ThingKey {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut words = words_of(reference);
    let kind = kind_word(reference.kind);
    if reference.is_foreign() {
        if let Some(call) = row.path().and_then(own_call) {
            let _ = write!(words, " from {call}");
        }
        // All of a library's function is one.
        return (
            text(&reference.module),
            String::new(),
            String::new(),
            0,
            words,
            "access",
        );
    }
    let (file, line) = (text(&reference.file), reference.line.unwrap_or(0));
    let named = reference.source.is_some() || reference.variable.is_some();
    // Spills of a function are one thing, wherever they are.
    let line = if named { line } else { 0 };
    if reference.source.is_some() && !reference.certain {
        // As tables mark what was guessed.
        words.push_str(" ?");
    }
    (
        text(&reference.module),
        text(&reference.function),
        file,
        line,
        words,
        kind,
    )
}

impl<'s> Answer<'s> {
    /// Of results by reference, and by object, call path and thread if they are known. `all`:
    /// whether libraries are as good as the program's own code.
    pub fn of(set: &'s ResultSet, all: bool) -> Result<Answer<'s>, NoAnswer> {
        if set.levels.is_empty() {
            return Err(NoAnswer::Caches);
        }
        if !set.dimensions.contains(&Dimension::Ref) {
            return Err(NoAnswer::References);
        }
        let mut things = things(set);
        let whole: u64 = things.iter().map(|thing| thing.cost).sum();
        let shown = |thing: &Thing| !thing.foreign || all || thing.cost.saturating_mul(FOREIGN_MATTERS) >= whole.max(1);
        let mut foreign = Foreign::default();
        for thing in things.iter().filter(|thing| !shown(thing)) {
            foreign.things += 1;
            foreign.accesses += thing.accesses;
            foreign.misses += thing.levels[0].misses;
        }
        things.retain(shown);
        // What hardly costs anything is nothing to look at, least of all first.
        let costs = |thing: &&Thing| thing.cost > 0 && thing.cost.saturating_mul(LEAST) >= whole;
        let missing = things.iter().filter(costs).count();
        let others = things.len().saturating_sub(MOST.min(missing)) as u64;
        things.truncate(MOST.min(missing));
        let threads = set.dimensions.iter().position(|&d| d == Dimension::Thread);
        Ok(Answer {
            set,
            first: things,
            others,
            foreign,
            threads: threads.map(|at| set.entries[at].len() as u64),
        })
    }

    /// Whether call paths would tell more: something of a library is among the first, and it is not
    /// known who called it.
    pub fn wants_paths(&self) -> bool {
        !self.set.dimensions.contains(&Dimension::Callpath) && self.first.iter().any(|thing| thing.foreign)
    }

    /// Adds what would help: `of` is asked for each of the first things.
    pub fn advise(&mut self, mut of: impl FnMut(&Thing) -> Vec<String>) {
        for thing in &mut self.first {
            thing.advice = of(thing);
        }
    }

    fn total_cost(&self) -> u64 {
        let weights = weights(self.set.levels.len());
        (0..weights.len())
            .map(|at| weights[at] * self.set.total(at).misses)
            .sum()
    }

    /// For people. `file` is what commands that are suggested are given.
    pub fn text(&self, file: &str, look: Look) -> String {
        let mut text = self.head(look);
        if self.first.is_empty() {
            text += "\nNothing misses: the program's data stays in the caches.\n";
        } else {
            let _ = writeln!(text, "\n{}", look.strong("What to look at first"));
        }
        let cost = self.total_cost();
        for (number, thing) in (1..).zip(&self.first) {
            text += &self.thing(number, thing, cost, look);
        }
        if self.others > 0 {
            let _ = writeln!(text, "{}", look.faint(&format!("and {} more", thousands(self.others))));
        }
        if self.foreign.things > 0 {
            let all = self.set.total(0).misses;
            let line = format!(
                "libraries and start-up code: {} accesses, {} of the misses (--all)",
                thousands(self.foreign.accesses),
                percent(ratio(self.foreign.misses, all).unwrap_or(0.0)),
            );
            let _ = writeln!(text, "{}", look.faint(&line));
        }
        text + &self.next(file, look)
    }

    /// What ran, and what it spent on memory.
    fn head(&self, look: Look) -> String {
        let run = &self.set.run;
        let command = run
            .sources
            .first()
            .map(|source| source.command.join(" "))
            .unwrap_or_default();
        let command = match command.is_empty() {
            true => "the recording".to_string(),
            false => cut(&command, look.width.unwrap_or(usize::MAX).max(NARROWEST) / 2),
        };
        let count = |of: fn(&Row) -> u64| self.set.rows.iter().map(of).sum::<u64>();
        let threads = self
            .threads
            .map_or_else(String::new, |n| format!(" in {}", plural(n, "thread")));
        let moved = match (run.counted.bytes, count(|row| row.bytes)) {
            (true, moved) => format!(", {}", bytes(moved)),
            (false, _) => String::new(),
        };
        let (reads, writes) = (thousands(count(|row| row.reads)), thousands(count(|row| row.writes)));
        let mut text = format!(
            "{}: {reads} reads, {writes} writes{moved}{threads}\n",
            look.strong(&command)
        );
        let source = match run.config.as_str() {
            "host" => "the caches of this machine".to_string(),
            "--cache" => "the caches you named".to_string(),
            preset => format!("the caches of {}", cut(preset, 40)),
        };
        let _ = writeln!(text, "{} would do this:", look.faint(&source));
        let levels = &run.hierarchy.levels;
        let width = levels.iter().map(|level| level.name.len()).max().unwrap_or(0);
        let digits = (0..levels.len()).map(|at| thousands(self.set.total(at).misses).len());
        let digits = digits.max().unwrap_or(0);
        for (at, level) in levels.iter().enumerate() {
            let total = self.set.total(at);
            if total.accesses() == 0 {
                continue;
            }
            let used = spatial_use(&total, level.line);
            let used = used.map_or_else(String::new, |used| format!(", {} it used", part_of(used)));
            let _ = writeln!(
                text,
                "  {:<width$} {:>5}  {:>digits$} misses, {:>5} of its accesses: {} fetched{used}",
                level.name,
                show_size(level.size),
                thousands(total.misses),
                percent(ratio(total.misses, total.accesses()).unwrap_or(0.0)),
                bytes(total.misses.saturating_mul(level.line.into())),
            );
        }
        text
    }

    fn thing(&self, number: usize, thing: &Thing, all: u64, look: Look) -> String {
        let width = look.width.unwrap_or(usize::MAX).max(NARROWEST);
        let place = thing.place().map_or_else(String::new, |place| format!("  {place}"));
        let words = cut(&thing.words, (width - 6).saturating_sub(place.chars().count()).max(20));
        let place = cut(&place, width.saturating_sub(4 + words.chars().count()));
        let mut text = format!("{number}. {}{place}\n", look.strong(&words));
        let mut line = |sentence: String| {
            for part in wrapped(&sentence, width - 3) {
                let _ = writeln!(text, "   {part}");
            }
        };
        line(self.misses(thing, all));
        if let Some(about) = self.about(thing) {
            line(about);
        }
        for advice in &thing.advice {
            line(format!("→ {advice}"));
        }
        text
    }

    /// `262,144 of 262,144 reads miss L1, 63% of the cost of all misses; 1,024 miss L2`.
    fn misses(&self, thing: &Thing, all: u64) -> String {
        let levels = &self.set.run.hierarchy.levels;
        let share = percent(ratio(thing.cost, all).unwrap_or(0.0));
        let kind = match thing.kind {
            "access" => "accesses".to_string(),
            kind => format!("{kind}s"),
        };
        let mut text = format!(
            "{} of {} {kind} miss {}",
            thousands(thing.levels[0].misses),
            thousands(thing.levels[0].accesses()),
            levels[0].name,
        );
        for (level, counts) in levels.iter().zip(&thing.levels).skip(1).filter(|(_, c)| c.misses > 0) {
            let _ = write!(text, ", {} miss {}", thousands(counts.misses), level.name);
        }
        text + &format!(": {share} of the cost of all misses")
    }

    /// How lines are used, and which data it is.
    fn about(&self, thing: &Thing) -> Option<String> {
        let line = self.set.run.hierarchy.levels[0].line;
        let mut parts = Vec::new();
        if let Some(used) = spatial_use(&thing.levels[0], line) {
            parts.push(format!(
                "{} each line it brings in is used before it has to go",
                part_of(used)
            ));
        }
        if let Some(object) = &thing.object {
            let facts = &object.facts;
            let mut about = vec![object.kind.clone()];
            about.extend(facts.bytes.map(bytes));
            if facts.blocks > 1 {
                about.push(plural(facts.blocks, "block"));
            }
            match (facts.pattern(), facts.stride()) {
                (Some(pattern), Some((stride, _))) => about.push(format!("{pattern}, mostly {stride:+} bytes")),
                (Some(pattern), None) => about.push(pattern),
                (None, _) => {}
            }
            parts.push(format!("data: {} ({})", cut(&object.name, 50), about.join(", ")));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// What to do next.
    fn next(&self, file: &str, look: Look) -> String {
        let file = shell_word(file);
        let nameless = self.first.iter().any(|thing| !thing.foreign && thing.file.is_none());
        let mut next = Vec::new();
        if nameless {
            next.push((
                "compile with -g and record again".to_string(),
                "lines and expressions instead of addresses",
            ));
        }
        if !self.first.is_empty() {
            next.push((
                format!("memtrail advise {file}"),
                "changes that would help, each tried on the recording",
            ));
        }
        next.push((
            format!("memtrail lines {file}"),
            "the source, with misses beside each line",
        ));
        next.push((
            format!("memtrail report {file} -o report.html"),
            "all of it, to look at in a browser",
        ));
        let width = next
            .iter()
            .map(|(command, _)| command.chars().count())
            .max()
            .unwrap_or(0);
        let mut text = format!("\n{}\n", look.strong("Next"));
        for (command, why) in next {
            match look.width.is_some_and(|limit| width + why.len() + 6 > limit) {
                true => text += &format!("  {command}\n"),
                false => text += &format!("  {command:<width$}  {}\n", look.faint(&format!("# {why}"))),
            }
        }
        text
    }

    /// For programs.
    pub fn json(&self, file: &str) -> Value {
        let run = &self.set.run;
        let source = run.sources.first().cloned().unwrap_or_default();
        let levels = run.hierarchy.levels.iter().enumerate().map(|(at, level)| {
            let total = self.set.total(at);
            json!({
                "name": level.name, "size": level.size, "line": level.line,
                "accesses": total.accesses(), "hits": total.hits, "misses": total.misses,
                "miss_ratio": ratio(total.misses, total.accesses()),
                "spatial_use": spatial_use(&total, level.line),
            })
        });
        let cost = self.total_cost();
        json!({
            "schema_version": memtrail_report::json::SCHEMA_VERSION,
            "command": source.command,
            "file": source.file,
            "accesses": run.accesses,
            "reads": self.set.rows.iter().map(|row| row.reads).sum::<u64>(),
            "writes": self.set.rows.iter().map(|row| row.writes).sum::<u64>(),
            "levels": levels.collect::<Value>(),
            "first": self.first.iter().map(|thing| self.thing_json(thing, cost)).collect::<Value>(),
            "others": self.others,
            "libraries": {"things": self.foreign.things, "accesses": self.foreign.accesses, "misses": self.foreign.misses},
            "next": [format!("memtrail advise {}", shell_word(file)), format!("memtrail lines {}", shell_word(file)), format!("memtrail report {} -o report.html", shell_word(file))],
        })
    }

    fn thing_json(&self, thing: &Thing, cost: u64) -> Value {
        let levels = &self.set.run.hierarchy.levels;
        let misses: serde_json::Map<String, Value> = levels
            .iter()
            .zip(&thing.levels)
            .map(|(level, counts)| (level.name.clone(), counts.misses.into()))
            .collect();
        json!({
            "reference": thing.words,
            "kind": thing.kind,
            "module": thing.module,
            "function": thing.function,
            "file": thing.file,
            "line": thing.line,
            "object": thing.object.as_ref().map(|object| &object.name),
            "accesses": thing.accesses,
            "misses": misses,
            "miss_ratio": ratio(thing.levels[0].misses, thing.levels[0].accesses()),
            "spatial_use": spatial_use(&thing.levels[0], levels[0].line),
            "cost_share": ratio(thing.cost, cost),
            "library": thing.foreign,
            "advice": thing.advice,
        })
    }
}

impl Thing {
    /// `slow.c:9 in multiply`.
    fn place(&self) -> Option<String> {
        let line = match (&self.file, self.line) {
            (Some(file), Some(line)) => Some(format!("{}:{line}", base(file))),
            _ => None,
        };
        match (line, &self.function, &self.module) {
            (Some(line), Some(function), _) => Some(format!("{line} in {function}")),
            (Some(line), None, _) => Some(line),
            (None, Some(function), Some(module)) => Some(format!("in {function} of {module}")),
            (None, Some(function), None) => Some(format!("in {function}")),
            (None, None, Some(module)) => Some(format!("in {module}")),
            (None, None, None) => None,
        }
    }
}

/// Everything there is to look at, what costs most first.
fn things(set: &ResultSet) -> Vec<Thing> {
    let weights = weights(set.levels.len());
    let mut things: BTreeMap<ThingKey, (Thing, BTreeMap<u32, u64>)> = BTreeMap::new();
    let at = set.dimensions.iter().position(|&d| d == Dimension::Object);
    for (named, row) in named_rows(set) {
        let Some(reference) = named.reference() else { continue };
        let key = key_of(reference, named);
        let (thing, objects) = things
            .entry(key)
            .or_insert_with_key(|key| (start(key, reference), BTreeMap::new()));
        thing.accesses += row.accesses();
        thing.levels.resize(row.levels.len(), PointCounts::default());
        thing
            .levels
            .iter_mut()
            .zip(&row.levels)
            .for_each(|(sum, counts)| *sum += *counts);
        thing.line = thing.line.min(reference.line).or(thing.line);
        if let Some(at) = at {
            *objects.entry(row.key[at]).or_default() += row.levels[0].misses;
        }
    }
    let finished = |(mut thing, objects): (Thing, BTreeMap<u32, u64>)| {
        let misses = thing.levels.iter().map(|counts| counts.misses);
        thing.cost = misses.zip(&weights).map(|(misses, weight)| misses * weight).sum();
        let most = objects.into_iter().rev().max_by_key(|(_, misses)| *misses);
        thing.object = most
            .zip(at)
            .and_then(|((id, _), at)| match &set.entries[at][id as usize] {
                memtrail_report::Entry::Object(object) => Some((**object).clone()),
                _ => None,
            });
        thing
    };
    let mut things: Vec<Thing> = things.into_values().map(finished).collect();
    things.sort_by_key(|thing| std::cmp::Reverse(thing.cost));
    things
}

/// A thing of which nothing is counted yet.
fn start(key: &ThingKey, reference: &Reference) -> Thing {
    let foreign = reference.is_foreign();
    Thing {
        words: key.4.clone(),
        kind: key.5,
        module: reference.module.clone(),
        function: reference.function.clone().filter(|_| !foreign),
        file: reference.file.clone().filter(|_| !foreign),
        line: reference.line.filter(|_| !foreign),
        object: None,
        accesses: 0,
        levels: Vec::new(),
        cost: 0,
        advice: Vec::new(),
        foreign,
    }
}

/// A sentence in lines of at most `width`, broken between words.
fn wrapped(sentence: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in sentence.split(' ') {
        let last = lines.last_mut().expect("there is always a line");
        let used = last.chars().count();
        if used > 0 && used + 1 + word.chars().count() > width {
            lines.push(cut(word, width));
        } else {
            if used > 0 {
                last.push(' ');
            }
            last.push_str(&cut(word, width));
        }
    }
    lines
}

/// A word of a command, quoted if a shell would take it for something else.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+:,@%=".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeper_misses_cost_more() {
        assert_eq!(weights(0), Vec::<u64>::new());
        assert_eq!(weights(1), [1]);
        assert_eq!(weights(4), [1, 3, 15, 75]);
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one", 7), ["one"]);
        assert_eq!(wrapped("abcdefghijkl x", 7), ["abc…jkl", "x"]);
    }

    #[test]
    fn commands_can_be_pasted() {
        assert_eq!(shell_word("a.mtr"), "a.mtr");
        assert_eq!(shell_word("my file.mtr"), "'my file.mtr'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
