//! `advise`: changes that would save misses, tried on the recording before they are named.
//!
//! **Candidates.** The loops of the worst references, interchanged, fused, tiled; objects of
//! structures whose lines are poorly used, taken apart by field; objects that lose lines to
//! conflicts, padded or moved. **Trial.** Every candidate is replayed ([`super`]); only what saves
//! the asked share of all misses is reported, and of loops only what is legal for this run. Of
//! several changes to the same loops or object the best is reported, the simpler one first where
//! they differ little.
use super::args::{AdviseArgs, ReplayedArgs};
use super::nests::{self, Nest};
use super::objects::Objects;
use super::{level, measure, relocator};
use crate::output;
use crate::say;
use crate::tables::references;
use crate::tables::run::{Measured, Wants};
use memtrail_analyze::objects::Kind as ObjectKind;
use memtrail_analyze::placement::{Placed, Placement};
use memtrail_report::format::{base, thousands};
use memtrail_report::json::SCHEMA_VERSION;
use memtrail_report::levels::spatial_use;
use memtrail_report::Reference;
use memtrail_simulate::PointCounts;
use memtrail_whatif::layout::Rule;
use memtrail_whatif::order::Order;
use serde_json::{json, Value};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::ops::Range;
use std::rc::Rc;

/// Sizes of blocks that are tried.
const TILES: [u32; 3] = [16, 32, 64];
/// A more complicated change must save this share more of what there is to save.
const WORTH: f64 = 0.15;
/// An object whose lines are used less than this may be taken apart.
const POOR: f64 = 0.75;
/// A field with less than this share of the most used one's accesses is cold.
const COLD: f64 = 0.1;
/// An object loses lines to conflicts if this share of its misses are.
const CONFLICTS: f64 = 0.25;

/// A change that was tried.
#[derive(Clone, Debug)]
struct Advice {
    change: &'static str,
    words: String,
    object: Option<String>,
    reference: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    /// Misses of the whole run at the level.
    before: u64,
    after: u64,
    /// Of loops: a window of how many iterations was tried.
    window: Option<u64>,
}

impl Advice {
    fn saved(&self) -> u64 {
        self.before.saturating_sub(self.after)
    }

    fn json(&self) -> Value {
        json!({
            "change": self.change,
            "words": self.words,
            "object": self.object,
            "reference": self.reference,
            "file": self.file,
            "line": self.line,
            "before": {"misses": self.before},
            "after": {"misses": self.after},
            // What is not legal is not advised. A layout changes no order.
            "legal": true,
            "exact": self.window.is_none(),
            "iterations": self.window,
        })
    }
}

/// What the search works on.
struct Search<'a> {
    args: &'a ReplayedArgs,
    measured: &'a Measured,
    objects: &'a Objects<'a>,
    references: Vec<Reference>,
    level: usize,
    /// Misses at the level, of all.
    total: u64,
    /// Fewer misses saved than this are not worth a word.
    least: u64,
}

pub fn command(args: &AdviseArgs) -> anyhow::Result<u8> {
    let replayed = &args.replayed;
    output::check(replayed.output.as_deref())?;
    let wants = Wants {
        classes: true,
        ..Wants::default()
    };
    let (measured, set) = measure(replayed, wants, None)?;
    let level = level(replayed, &measured)?;
    let total = set.total(level).misses;
    let objects = Objects::new(&measured);
    let search = Search {
        args: replayed,
        measured: &measured,
        objects: &objects,
        references: references::names(&measured),
        level,
        total,
        least: ((total as f64 * args.least / 100.0) as u64).max(1),
    };
    let mut found = search.loops(args.top)?;
    found.extend(search.layouts(args.top)?);
    found.sort_by_key(|advice| std::cmp::Reverse(advice.saved()));
    let name = &measured.hierarchy.levels[level].name;
    let text = match replayed.json {
        true => {
            let value = json!({
                "schema_version": SCHEMA_VERSION,
                "level": name,
                "misses": total,
                "advice": found.iter().map(Advice::json).collect::<Value>(),
            });
            format!("{value:#}\n")
        }
        false => as_text(name, total, &found, args.least)?,
    };
    let status = output::write(replayed.output.as_deref(), &text)?;
    if !replayed.json {
        let next = if found.is_empty() { "refs" } else { "lines" };
        say::line(format_args!(
            "next: memtrail {next}{} {}",
            replayed.caches,
            replayed.file.display()
        ));
    }
    Ok(status)
}

fn as_text(level: &str, total: u64, found: &[Advice], least: f64) -> anyhow::Result<String> {
    let mut text = format!("{} misses: {}\n", level, thousands(total));
    if found.is_empty() {
        writeln!(
            text,
            "\nNo change that was tried saves {least}% of them: there is nothing to advise."
        )?;
        writeln!(
            text,
            "Tried: other orders of the worst references' loops, fields of structures apart, padding."
        )?;
        return Ok(text);
    }
    for (number, advice) in found.iter().enumerate() {
        let saves = 100.0 * advice.saved() as f64 / total.max(1) as f64;
        writeln!(text, "\n{}. {}", number + 1, advice.words)?;
        let place = match (&advice.file, advice.line) {
            (Some(file), Some(line)) => format!(" ({}:{line})", base(file)),
            _ => String::new(),
        };
        if let Some(reference) = &advice.reference {
            writeln!(text, "   because of {reference}{place}")?;
        }
        let (before, after) = (thousands(advice.before), thousands(advice.after));
        writeln!(text, "   saves {saves:.0}% of all misses: {before} -> {after}")?;
        match advice.window {
            Some(window) => writeln!(
                text,
                "   tried on {} iterations of the outermost loop; legal for this run as far as memory shows",
                thousands(window)
            )?,
            None => writeln!(text, "   tried on the whole run")?,
        }
    }
    Ok(text)
}

impl Search<'_> {
    /// Counts at the level, by what a composite's key gives.
    fn counts_by(&self, number: impl Fn(usize) -> Option<u32>) -> Vec<(u32, PointCounts)> {
        let mut sums: HashMap<u32, PointCounts> = HashMap::new();
        for (composite, counts) in self.measured.counts[self.level].points.iter().enumerate() {
            if let Some(number) = number(composite) {
                *sums.entry(number).or_default() += *counts;
            }
        }
        let mut sums: Vec<(u32, PointCounts)> = sums.into_iter().collect();
        sums.sort_by_key(|&(number, counts)| (std::cmp::Reverse(counts.misses), number));
        sums
    }

    /// The worst object of a reference.
    fn object_of(&self, point: u32) -> Option<u32> {
        let of_point = |composite: usize| {
            let key = self.measured.keys.get(composite)?;
            (key.point.0 == point).then_some(key.group)
        };
        self.counts_by(of_point).first().map(|&(group, _)| group)
    }

    /// Tries other orders of the loops of the worst references.
    fn loops(&self, top: usize) -> anyhow::Result<Vec<Advice>> {
        let points = self.counts_by(|composite| Some(self.measured.keys.get(composite)?.point.0));
        let mut tried = BTreeSet::new();
        let mut found = Vec::new();
        for &(point, counts) in points.iter().filter(|(_, counts)| counts.misses >= self.least) {
            if tried.len() >= top {
                break;
            }
            let Some(info) = self.measured.points.get(point as usize) else {
                continue;
            };
            // Nobody rewrites loops without a source.
            let has_source = self.references[point as usize].file.is_some();
            let Some(inner) = self.measured.scopes.innermost(info.code).filter(|_| has_source) else {
                continue;
            };
            if !tried.insert(inner) || counts.misses == 0 {
                continue;
            }
            if let Some(nest) = Nest::around(self.args, self.measured, inner)? {
                found.extend(self.best_order(&nest, inner, point)?);
            }
        }
        // Loops that share a root are one nest: the best for it.
        let mut best: BTreeMap<String, Advice> = BTreeMap::new();
        for (root, advice) in found {
            let known = best.entry(root).or_insert_with(|| advice.clone());
            if advice.saved() > known.saved() {
                *known = advice;
            }
        }
        Ok(best.into_values().collect())
    }

    /// Orders of a nest that are worth a trial, simple ones first.
    fn candidates(&self, nest: &Nest, inner: u32) -> Vec<(&'static str, String, Order)> {
        let levels = nest.window.levels();
        let Some(depth) = nest.level_of(inner) else {
            return Vec::new();
        };
        let described = |level: u8| {
            let mut path: Vec<u32> = self.measured.scopes.outwards(inner).collect();
            path.reverse();
            let root = path.iter().position(|&number| number == nest.root).unwrap_or(0);
            let number = path.get(root + usize::from(level)).copied().unwrap_or(inner);
            nests::described(self.measured, number)
        };
        let mut all = Vec::new();
        let mut orders = vec![(String::new(), Order::original(levels))];
        for outer in (0..depth).rev() {
            let order = Order::interchanged(levels, outer, depth);
            let words = format!("interchange the loop {} with {}", described(outer), described(depth));
            orders.push((words.clone(), order.clone()));
            all.push(("interchange", words, order));
        }
        for level in 1..levels as u8 {
            if nest.window.loops[usize::from(level)].len() < 2 {
                continue;
            }
            for (before, order) in &orders {
                let fuse = format!("fuse the loops inside {}", described(level - 1));
                let words = match before.is_empty() {
                    true => fuse,
                    false => format!("{before}, and {fuse}"),
                };
                all.push(("fuse", words, order.fused(level)));
            }
        }
        for (before, order) in &orders {
            for size in TILES {
                let tiled: Vec<u8> = (depth.saturating_sub(1)..=depth).collect();
                let tile = format!("do {} in blocks of {size} x {size} iterations", described(depth));
                let words = match before.is_empty() {
                    true => tile,
                    false => format!("{before}, and {tile}"),
                };
                all.push(("tile", words, order.tiled(&tiled, size)));
            }
        }
        all
    }

    /// The best order of a nest, with the name of its root.
    fn best_order(&self, nest: &Nest, inner: u32, point: u32) -> anyhow::Result<Option<(String, Advice)>> {
        let own = nest.simulate(self.measured, &Order::original(nest.window.levels()))?;
        let own = own.misses(self.level);
        let of_run = nest.misses_of_run(self.measured, self.level);
        if own == 0 || of_run < self.least {
            return Ok(None);
        }
        let mut best: Option<(u64, &'static str, String)> = None;
        for (change, words, order) in self.candidates(nest, inner) {
            if nest.check(&order).is_err() {
                continue;
            }
            let misses = nest.simulate(self.measured, &order)?.misses(self.level);
            // Simple candidates come first.
            let bar = best.as_ref().map_or(own, |(misses, ..)| *misses);
            let worth = match &best {
                None => 0.0,
                Some((_, known, _)) if *known == change => 0.02,
                Some(_) => WORTH,
            };
            if (misses as f64) < bar as f64 - worth * own as f64 {
                best = Some((misses, change, words));
            }
        }
        let Some((misses, change, words)) = best else {
            return Ok(None);
        };
        let saved = (of_run as f64 * (1.0 - misses as f64 / own as f64)) as u64;
        if saved < self.least {
            return Ok(None);
        }
        let reference = &self.references[point as usize];
        let advice = Advice {
            change,
            words: capitalised(&words),
            object: self.object_of(point).map(|group| self.objects.name(group).to_string()),
            reference: reference.source.clone().or_else(|| Some(reference.name.clone())),
            file: reference.file.clone(),
            line: reference.line,
            before: self.total,
            after: self.total - saved.min(self.total),
            window: Some(nest.window.iterations),
        };
        Ok(Some((nests::described(self.measured, nest.root), advice)))
    }

    /// Tries other layouts of the worst objects.
    fn layouts(&self, top: usize) -> anyhow::Result<Vec<Advice>> {
        let groups = self.counts_by(|composite| Some(self.measured.keys.get(composite)?.group));
        let worst: Vec<(u32, PointCounts)> = groups
            .into_iter()
            .filter(|(group, counts)| counts.misses >= self.least && self.can_move(*group))
            .take(top)
            .collect();
        let hot = self.hot_fields(&worst)?;
        let mut found = Vec::new();
        for &(group, counts) in &worst {
            let mut best: Option<Advice> = None;
            for (change, words, rule) in self.rules(group, &counts, hot.get(&group)) {
                let placement = Box::new(relocator(self.measured, [(group, rule)].into())?);
                let (_, set) = measure(self.args, Wants::default(), Some(placement))?;
                let after = set.total(self.level).misses;
                let saved = self.total.saturating_sub(after);
                if saved < self.least || best.as_ref().is_some_and(|best| best.saved() + self.least > saved) {
                    continue;
                }
                best = Some(self.layout_advice(group, change, words, after));
            }
            found.extend(best);
        }
        Ok(found)
    }

    fn layout_advice(&self, group: u32, change: &'static str, words: String, after: u64) -> Advice {
        let of_group = |composite: usize| {
            let key = self.measured.keys.get(composite)?;
            (key.group == group).then_some(key.point.0)
        };
        let worst = self.counts_by(of_group).first().map(|&(point, _)| point);
        let reference = worst.and_then(|point| self.references.get(point as usize));
        Advice {
            change,
            words,
            object: Some(self.objects.name(group).to_string()),
            reference: reference.map(|r| r.source.clone().unwrap_or_else(|| r.name.clone())),
            file: reference.and_then(|r| r.file.clone()),
            line: reference.and_then(|r| r.line),
            before: self.total,
            after,
            window: None,
        }
    }

    /// Whether the program decides where it lies.
    fn can_move(&self, group: u32) -> bool {
        let kind = self
            .measured
            .groups
            .get(group as usize)
            .map(|group| group.common.kind());
        matches!(
            kind,
            Some(ObjectKind::Heap | ObjectKind::Static | ObjectKind::Anonymous | ObjectKind::Named)
        )
    }

    /// Counts accesses to the fields of these objects.
    fn hot_fields(&self, worst: &[(u32, PointCounts)]) -> anyhow::Result<HashMap<u32, Vec<u64>>> {
        let mut fields = HashMap::new();
        for &(group, _) in worst {
            if let Some((element, ranges)) = self.objects.fields(group).filter(|(element, _)| *element > 0) {
                let ranges: Vec<Range<u64>> = ranges.into_iter().map(|(_, range)| range).collect();
                fields.insert(group, (element, vec![0; ranges.len()], ranges));
            }
        }
        if fields.is_empty() {
            return Ok(HashMap::new());
        }
        let counter = FieldCounter(Rc::new(RefCell::new(fields)));
        let counted = counter.0.clone();
        measure(self.args, Wants::default(), Some(Box::new(counter)))?;
        let counted = counted.borrow();
        Ok(counted
            .iter()
            .map(|(&group, (_, counts, _))| (group, counts.clone()))
            .collect())
    }

    /// Layouts of an object that are worth a trial.
    fn rules(&self, group: u32, counts: &PointCounts, hot: Option<&Vec<u64>>) -> Vec<(&'static str, String, Rule)> {
        let name = self.objects.name(group);
        let line = self.measured.hierarchy.levels[self.level].line;
        let mut rules = Vec::new();
        let fields = self.objects.fields(group).zip(hot);
        if let Some(((element, fields), hot)) =
            fields.filter(|_| spatial_use(counts, line).is_none_or(|used| used < POOR))
        {
            rules.extend(splits(name, element, &fields, hot));
        }
        if counts.classes.conflict as f64 >= CONFLICTS * counts.misses as f64 && counts.classes.conflict >= self.least {
            let bytes = u64::from(line);
            if let Some(row) = self.objects.row(group) {
                let words = format!("Pad the rows of {name} with {bytes} bytes each");
                let rule = Rule::Pad { row: Some(row), bytes };
                rules.push(("pad", words, rule));
            }
            let level = &self.measured.hierarchy.levels[self.level];
            let way = level.size / u64::from(level.ways.max(1));
            for by in [bytes, way / 2, way / 4].into_iter().filter(|by| *by >= bytes) {
                let words = format!("Put {by} bytes of padding in front of {name}");
                rules.push(("pad", words, Rule::Move(by)));
            }
        }
        rules
    }
}

/// Ways to take a structure apart.
fn splits(name: &str, element: u64, fields: &[(String, Range<u64>)], hot: &[u64]) -> Vec<(&'static str, String, Rule)> {
    let most = hot.iter().copied().max().unwrap_or(0);
    let is_hot = |count: u64| count as f64 >= COLD * most as f64 && count > 0;
    let mut rules = Vec::new();
    let cold: Vec<&(String, Range<u64>)> = fields
        .iter()
        .zip(hot)
        .filter(|(_, &n)| !is_hot(n))
        .map(|(f, _)| f)
        .collect();
    if !cold.is_empty() && cold.len() < fields.len() {
        let kept: Vec<&str> = fields
            .iter()
            .zip(hot)
            .filter(|(_, &n)| is_hot(n))
            .map(|(f, _)| f.0.as_str())
            .collect();
        let words = format!(
            "Keep {} of {name} together and split the other fields off",
            kept.join(", ")
        );
        let parts = joined(cold.iter().map(|(_, range)| range.clone()));
        rules.push(("split", words, Rule::Split { element, parts }));
    }
    let used: Vec<&(String, Range<u64>)> = fields.iter().zip(hot).filter(|(_, &n)| n > 0).map(|(f, _)| f).collect();
    if fields.len() > 1 && !used.is_empty() {
        let names: Vec<&str> = used.iter().map(|(name, _)| name.as_str()).collect();
        let words = format!("Make arrays of their own of the fields {} of {name}", names.join(", "));
        let parts = used.iter().map(|(_, range)| range.clone()).collect();
        rules.push(("split", words, Rule::Split { element, parts }));
    }
    rules
}

/// Ranges in ascending order; those that touch are one.
fn joined(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// By group: bytes of an element, accesses by field, and the fields.
type Fields = HashMap<u32, (u64, Vec<u64>, Vec<Range<u64>>)>;

/// Moves nothing, and counts which fields are accessed.
struct FieldCounter(Rc<RefCell<Fields>>);

impl Placement for FieldCounter {
    fn moves(&self, group: u32) -> bool {
        self.0.borrow().contains_key(&group)
    }

    fn place(&mut self, object: &Placed, addr: u64) -> u64 {
        if let Some((element, counts, fields)) = self.0.borrow_mut().get_mut(&object.group) {
            let within = addr.wrapping_sub(object.address) % *element;
            if let Some(at) = fields.iter().position(|range| range.contains(&within)) {
                counts[at] += 1;
            }
        }
        addr
    }
}
