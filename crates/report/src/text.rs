//! Tables for people.
use crate::columns::{Align, Columns};
use crate::entry::{kind_word, Dimension, Entry, Facts, Object};
use crate::format::{bytes, percent, ratio, shown_ratio, thousands};
use crate::levels::{self, shown_miss_ratio, shown_share, shown_use};
use crate::many;
use crate::set::{Pairs, ResultSet, Row};
use crate::view::{competition, View};
use memtrail_simulate::Classes;
use std::cmp::Reverse;
use std::fmt::Write;

/// Most evictors shown of one row.
const MOST_EVICTORS: usize = 10;
/// Calls of a path that are shown, the innermost ones.
const MOST_CALLS: usize = 6;

const LEFT: Align = Align::Left;
const RIGHT: Align = Align::Right;

type Head = Vec<(String, Align)>;

/// How a table names its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// A reference by its place, its name and its source.
    Source,
    /// A reference by its name if it has one, or its place, and its kind.
    Kind,
}

/// The heads of a dimension's columns.
fn heads(by: Dimension, naming: Naming) -> &'static [(&'static str, Align)] {
    match by {
        Dimension::Ref if naming == Naming::Kind => &[("reference", LEFT), ("kind", LEFT)],
        Dimension::Ref => &[("file:line", LEFT), ("reference", LEFT), ("source", LEFT)],
        Dimension::Callpath => &[("call path", LEFT)],
        Dimension::Object => &[("object", LEFT), ("kind", LEFT)],
        Dimension::Block => &[("block", RIGHT), ("bytes", RIGHT)],
        Dimension::Field => &[("field", LEFT), ("offset", RIGHT)],
        Dimension::Line => &[("file:line", LEFT)],
        Dimension::Function => &[("function", LEFT)],
        Dimension::Loop => &[("loop", LEFT)],
        Dimension::Module => &[("module", LEFT)],
        Dimension::Thread => &[("thread", RIGHT)],
        Dimension::Process => &[("process", LEFT)],
        Dimension::Rank => &[("rank", RIGHT)],
        Dimension::Phase => &[("phase", RIGHT)],
    }
}

/// A dimension's columns.
fn texts(view: &View<'_>, row: &Row, entry: &Entry, naming: Naming) -> Vec<String> {
    match entry {
        Entry::Ref(r) if naming == Naming::Kind => {
            let named = r.short_line().map(|line| format!("{} ({line})", r.name));
            vec![named.unwrap_or_else(|| r.address()), kind_word(r.kind).to_string()]
        }
        Entry::Ref(r) => vec![r.place(), r.name.clone(), r.words()],
        Entry::Callpath(path) => vec![innermost(&path.calls)],
        Entry::Object(object) => vec![view.object_name(row, object).to_string(), object.kind.clone()],
        Entry::Block(block) => vec![block.number.to_string(), thousands(block.bytes)],
        Entry::Field(None) => vec!["-".to_string(), "-".to_string()],
        Entry::Field(Some(field)) => vec![format!("{}.{}", field.of, field.name), field.offset.to_string()],
        Entry::Line(line) => vec![line.as_ref().map_or_else(|| "?".to_string(), ToString::to_string)],
        Entry::Function(function) => vec![function.name.clone()],
        Entry::Module(name) => vec![name.clone()],
        Entry::Loop(one) => vec![one.as_ref().map_or_else(|| "-".to_string(), ToString::to_string)],
        Entry::Thread(number) | Entry::Phase(number) => vec![number.to_string()],
        Entry::Process(process) => vec![process.name.clone()],
        Entry::Rank(rank) => vec![rank.map_or_else(|| "-".to_string(), |r| r.to_string())],
    }
}

/// The innermost calls of a path, the innermost first.
fn innermost(calls: &[String]) -> String {
    let mut shown: Vec<&str> = calls.iter().rev().take(MOST_CALLS).map(String::as_str).collect();
    if calls.len() > MOST_CALLS {
        shown.push("…");
    }
    if shown.is_empty() {
        return "-".to_string();
    }
    shown.join(" < ")
}

fn head_of(view: &View<'_>, naming: Naming) -> Head {
    let heads = view.by.iter().flat_map(|&by| heads(by, naming));
    heads.map(|(name, align)| (name.to_string(), *align)).collect()
}

fn names(view: &View<'_>, row: &Row, naming: Naming) -> Vec<String> {
    view.entries(row)
        .flat_map(|entry| texts(view, row, entry, naming))
        .collect()
}

/// The columns that name a view's rows, for tables with figures of their own.
pub fn name_heads(view: &View<'_>) -> Vec<(String, Align)> {
    head_of(view, Naming::Kind)
}

/// What stands in them.
pub fn row_names(view: &View<'_>, row: &Row) -> Vec<String> {
    names(view, row, Naming::Kind)
}

fn right(name: impl ToString) -> (String, Align) {
    (name.to_string(), RIGHT)
}

fn misses_head(view: &View<'_>, level: usize) -> (String, Align) {
    right(format!("{} misses", view.hierarchy().levels[level].name))
}

/// METRIC's Figure 5, of any rows: what `refs` and `lines` print.
pub fn counts(view: &View<'_>, top: usize) -> String {
    figures(view, top, Naming::Source, &view.other_levels(), &[])
}

/// A figure of some tables only: its head, and what it is of a row.
type Figure<'f> = (&'static str, &'f dyn Fn(&Row) -> u64);

fn figures(view: &View<'_>, top: usize, naming: Naming, others: &[usize], more: &[Figure<'_>]) -> String {
    let mut head = head_of(view, naming);
    let first = head.len();
    head.extend(["hits", "misses", "miss ratio", "temporal", "spatial use"].map(right));
    head.extend(more.iter().map(|(name, _)| right(name)));
    // Temporal hits, further levels from the last, figures of some tables only, hits.
    let further = first + 5..first + 5 + more.len() + others.len();
    let spare: Vec<usize> = [first + 3].into_iter().chain(further.rev()).chain([first]).collect();
    head.extend(others.iter().map(|&level| misses_head(view, level)));
    let mut columns = Columns::new(head);
    for row in view.rows.iter().take(top) {
        let counts = view.counts(row);
        let mut texts = names(view, row, naming);
        texts.extend([
            thousands(counts.hits),
            thousands(counts.misses),
            shown_miss_ratio(counts),
            shown_share(counts.temporal_hits(), counts),
            shown_use(counts, view.hierarchy().levels[view.level_of(row)].line),
        ]);
        texts.extend(more.iter().map(|(_, figure)| thousands(figure(row))));
        texts.extend(others.iter().map(|&at| thousands(row.levels[at].misses)));
        columns.row(texts);
    }
    with_rest(columns.fit(view.width, &spare), view, top)
}

fn with_rest(columns: Columns, view: &View<'_>, top: usize) -> String {
    let mut text = columns.to_string();
    let rest = view.rows.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        let misses: u64 = rest.iter().map(|row| view.counts(row).misses).sum();
        let (rows, misses) = (thousands(rest.len() as u64), thousands(misses));
        let _ = writeln!(text, "and {rows} more with {misses} misses (--top N)");
    }
    if let Some(folded) = &view.folded {
        let (rows, misses) = (thousands(folded.rows), thousands(folded.misses));
        let _ = writeln!(
            text,
            "libraries and start-up code: {rows} more with {misses} misses (--all)"
        );
    }
    text
}

/// What `sim` prints of a hierarchy: each level, a line for each reference, and who evicted whose
/// lines if asked for.
fn hierarchy(view: &View<'_>, top: usize, classes: bool, with_evictors: bool) -> Vec<String> {
    let mut parts: Vec<String> = (0..view.set.levels.len())
        .map(|level| levels::block(view.set, level, classes))
        .collect();
    let prefetch_hits = |row: &Row| view.counts(row).prefetch_hits;
    let class = |of: fn(Classes) -> u64| move |row: &Row| of(view.counts(row).classes);
    let [compulsory, capacity, conflict] = [class(|c| c.compulsory), class(|c| c.capacity), class(|c| c.conflict)];
    let evictions = |row: &Row| view.counts(row).evictions;
    let mut more: Vec<Figure<'_>> = vec![("evictions", &evictions)];
    if view.rows.iter().any(|row| prefetch_hits(row) > 0) {
        more.push(("prefetch hits", &prefetch_hits));
    }
    if classes {
        more.extend::<[Figure<'_>; 3]>([
            ("compulsory", &compulsory),
            ("capacity", &capacity),
            ("conflict", &conflict),
        ]);
    }
    // Only those behind what is told.
    let first = view.rows.iter().map(|row| view.level_of(row)).min().unwrap_or(0);
    let further: Vec<usize> = view.other_levels().into_iter().filter(|&at| at > first).collect();
    parts.push(figures(view, top, Naming::Kind, &further, &more));
    if with_evictors {
        parts.push(evicted(view, top, Naming::Kind, "no line was evicted\n"));
    }
    parts
}

/// What `sim` prints. `view`: by reference, if a hierarchy was simulated.
pub fn sim(set: &ResultSet, view: Option<&View<'_>>, top: usize, classes: bool, evictors: bool) -> String {
    let mut parts = view.map_or_else(Vec::new, |view| hierarchy(view, top, classes, evictors));
    if !set.sweep.is_empty() {
        parts.push(many::sweep(&set.sweep));
    }
    parts.extend(set.curves.iter().map(|(line, curves)| many::curves(*line, curves)));
    parts.extend(set.reuse.iter().map(many::reuse));
    parts.join("\n")
}

/// METRIC's Figure 6: who evicted whose lines.
pub fn evictors(view: &View<'_>, top: usize) -> String {
    evicted(view, top, Naming::Source, "nothing was evicted\n")
}

fn evicted(view: &View<'_>, top: usize, naming: Naming, nothing: &str) -> String {
    let mut head = head_of(view, naming);
    let width = head.len();
    let mut by = head.clone();
    by.iter_mut().for_each(|head| *head = (String::new(), LEFT));
    if naming == Naming::Kind {
        by = head.clone();
    }
    if let Some(first) = by.first_mut() {
        first.0 = "evicted by".to_string();
    }
    head.extend(by);
    head.extend(["count", "percent"].map(right));
    let mut columns = Columns::new(head);
    for (owner, row) in view.rows.iter().take(top).enumerate() {
        let others = evictors_of(&view.evictors[view.level_of(row)], owner as u32);
        let all: u64 = others.iter().map(|(_, n)| n).sum();
        let mut first = names(view, row, naming);
        let (shown, more) = others.split_at(others.len().min(MOST_EVICTORS));
        for &(by, n) in shown {
            let mut texts = std::mem::replace(&mut first, vec![String::new(); width]);
            texts.extend(names(view, &view.rows[by as usize], naming));
            texts.extend([thousands(n), percent(n, all)]);
            columns.row(texts);
        }
        if !more.is_empty() {
            let n = more.iter().map(|(_, n)| n).sum();
            let mut texts = vec![String::new(); 2 * width];
            texts[width] = format!("{} others", thousands(more.len() as u64));
            texts.extend([thousands(n), percent(n, all)]);
            columns.row(texts);
        }
    }
    match columns.is_empty() {
        true => nothing.to_string(),
        false => columns.fit(view.width, &[]).to_string(),
    }
}

/// Who evicted a row's lines, and how often: most often first.
pub(crate) fn evictors_of(pairs: &Pairs, owner: u32) -> Vec<(u32, u64)> {
    let of_owner = pairs.range((owner, 0)..=(owner, u32::MAX));
    let mut others: Vec<(u32, u64)> = of_owner.map(|(&(_, by), &n)| (by, n)).collect();
    others.sort_by_key(|&(by, n)| (Reverse(n), by));
    others
}

/// DTrack's Figures 4 and 5: what objects cost, and what they are like.
pub fn objects(view: &View<'_>, top: usize) -> String {
    let mut head = head_of(view, Naming::Source);
    head.extend(["accesses", "%", "writes %"].map(right));
    for level in 0..view.hierarchy().levels.len() {
        head.extend([misses_head(view, level), right("%"), right("ratio")]);
    }
    head.extend(["size", "blocks", "element"].map(right));
    head.push(("pattern".to_string(), LEFT));
    let spare = spare_of_objects(head.len(), view.hierarchy().levels.len());
    let mut columns = Columns::new(head);
    // Shares are of everything, whatever is left out of the rows.
    let all: u64 = view.set.rows.iter().map(Row::accesses).sum();
    let misses = |at: usize| view.set.total(at).misses;
    let all_misses: Vec<u64> = (0..view.hierarchy().levels.len()).map(misses).collect();
    for row in view.rows.iter().take(top) {
        let mut texts = names(view, row, Naming::Source);
        texts.extend([
            thousands(row.accesses()),
            percent(row.accesses(), all),
            percent(row.writes, row.accesses()),
        ]);
        for (counts, &whole) in row.levels.iter().zip(&all_misses) {
            texts.push(thousands(counts.misses));
            texts.push(percent(counts.misses, whole));
            texts.push(shown_ratio(ratio(counts.misses, counts.accesses()), "-"));
        }
        texts.extend(shape(view.entries(row).find_map(object)));
        columns.row(texts);
    }
    with_rest(columns.fit(view.width, &spare), view, top)
}

/// What a table of objects with this many columns and levels can do without, the least useful
/// first: the element, the part of writes, ratios and shares of further levels from the last, the
/// number of blocks, the misses of further levels, the ratio of the first, and the size.
fn spare_of_objects(columns: usize, levels: usize) -> Vec<usize> {
    let [size, blocks, element] = [columns - 4, columns - 3, columns - 2];
    let level = |at: usize, figure: usize| size - 3 * (levels - at) + figure;
    let mut spare = vec![element, level(0, 0) - 1];
    for at in (1..levels).rev() {
        spare.extend([level(at, 2), level(at, 1)]);
    }
    spare.push(blocks);
    spare.extend((1..levels).rev().map(|at| level(at, 0)));
    spare.extend([level(0, 2), size]);
    spare
}

fn object(entry: &Entry) -> Option<&Object> {
    match entry {
        Entry::Object(object) => Some(object),
        _ => None,
    }
}

/// Size, number of blocks, element and pattern of an object.
fn shape(object: Option<&Object>) -> [String; 4] {
    let nothing = || "-".to_string();
    let Some(facts) = object.map(|object| &object.facts) else {
        return [nothing(), nothing(), nothing(), nothing()];
    };
    [
        facts.bytes.map_or_else(nothing, bytes),
        thousands(facts.blocks),
        facts.element_bytes().map_or_else(nothing, bytes),
        pattern(facts).unwrap_or_else(nothing),
    ]
}

fn pattern(facts: &Facts) -> Option<String> {
    let word = facts.pattern()?;
    Some(match facts.stride() {
        Some((stride, times)) => format!("{word}, {stride:+} in {}%", percent(times, facts.steps())),
        None => word,
    })
}

/// DTrack's Figure 6: evictions of what is missed again, by the same object and by others.
pub fn competitors(view: &View<'_>, top: usize) -> String {
    let level = view.level.unwrap_or(0);
    let pairs = &view.premature[level];
    let losses = competition(view.rows.len(), pairs);
    let mut head = head_of(view, Naming::Source);
    let first = head.len();
    head.extend(["evictions", "premature", "%", "by itself", "%", "by others", "%"].map(right));
    head.extend([("most by".to_string(), LEFT), right("")]);
    let mut columns = Columns::new(head);
    for (i, row) in view.rows.iter().take(top).enumerate() {
        let loss = losses[i];
        let premature = loss.to_itself + loss.to_others;
        let evictions = row.levels[level].evictions;
        let mut texts = names(view, row, Naming::Source);
        texts.extend([
            thousands(evictions),
            thousands(premature),
            percent(premature, evictions),
            thousands(loss.to_itself),
            percent(loss.to_itself, premature),
            thousands(loss.to_others),
            percent(loss.to_others, premature),
        ]);
        let others = evictors_of(pairs, i as u32);
        let worst = others.into_iter().find(|&(other, _)| other != i as u32);
        texts.extend(match worst {
            Some((by, n)) => [
                names(view, &view.rows[by as usize], Naming::Source)[0].clone(),
                thousands(n),
            ],
            None => [String::new(), String::new()],
        });
        columns.row(texts);
    }
    with_rest(
        columns.fit(view.width, &[first + 4, first + 6, first + 2, first]),
        view,
        top,
    )
}
