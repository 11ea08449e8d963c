//! The sections of a page, from results.
use super::{shown, Body, Chart, Matrix, Node, Picture, PictureRow, Section, Series, SourceFile, Table, MOST_ROWS};
use crate::answer::{Answer, Look};
use crate::cycles::{cycles, EvictionCycle};
use crate::map::{Cell, Map, COLUMNS, TIMES};
use memtrail_report::format::{base, bytes, ratio, thousands};
use memtrail_report::levels::spatial_use;
use memtrail_report::{Dimension, Entry, ResultSet, Row, Sort, View};
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Gives the text of a source file, or says why it is not there.
pub type Sources<'t> = &'t dyn Fn(&str) -> Result<Rc<str>, String>;

/// What a page is made of. Only the first is needed.
pub struct Inputs<'i> {
    /// By reference, object, loop and thread, with evictors: as many of these as there are.
    pub set: &'i ResultSet,
    /// By call path and function.
    pub calls: Option<&'i ResultSet>,
    /// With curves and reuse distances.
    pub curves: Option<&'i ResultSet>,
    pub map: Option<&'i Map>,
    /// By number in the map: the object, by its place in `objects`.
    pub object_of: Vec<u32>,
    pub objects: Vec<String>,
    pub sources: Sources<'i>,
    /// What commands are given.
    pub file: &'i str,
}

/// Rows and columns of a matrix.
const MOST_IN_MATRIX: usize = 16;
/// References among which cycles are looked for.
const MOST_IN_CYCLES: usize = 100;
const MOST_TIMELINES: usize = 12;
/// Rows of the map, if there are no more objects.
const MAP_ROWS: usize = 240;
/// Bytes of sources in the page.
const SOURCE_BUDGET: usize = 1 << 20;
/// Lines around one that did something, in a source that is too long.
const CONTEXT: u32 = 12;
/// Calls on a path.
const DEEPEST: usize = 60;

/// Everything there is to see.
pub fn sections(inputs: &Inputs<'_>) -> Vec<Section> {
    let mut all: Vec<Option<Section>> = vec![summary(inputs), objects(inputs)];
    all.extend([
        timelines(inputs),
        picture(inputs),
        evictors(inputs),
        references(inputs),
        source(inputs),
    ]);
    all.extend([
        loops(inputs),
        miss_curve(inputs),
        reuse(inputs),
        calls(inputs),
        threads(inputs),
    ]);
    all.into_iter().flatten().collect()
}

fn view<'s>(inputs: &Inputs<'s>, by: Dimension) -> Option<View<'s>> {
    View::new(inputs.set, &[by], Sort::Misses, None).ok()
}

fn summary(inputs: &Inputs<'_>) -> Option<Section> {
    let answer = Answer::of(inputs.set, false).ok()?;
    let look = Look {
        width: Some(110),
        colour: false,
    };
    Some(Section {
        id: "summary",
        title: "Summary".into(),
        about: "What was spent on memory, and what to look at first.".into(),
        body: Body::Text {
            lines: answer.text(inputs.file, look).lines().map(shown).collect(),
        },
    })
}

/// The columns that every table of counts has behind its names.
fn count_heads(set: &ResultSet) -> Vec<String> {
    let mut heads: Vec<String> = ["accesses", "reads", "writes"].map(String::from).to_vec();
    for level in &set.run.hierarchy.levels {
        heads.extend([format!("{} misses", level.name), format!("{} miss ratio", level.name)]);
    }
    heads.push("line use".into());
    heads
}

fn count_cells(set: &ResultSet, row: &Row) -> Vec<Value> {
    let mut cells = vec![row.accesses().into(), row.reads.into(), row.writes.into()];
    for counts in &row.levels {
        cells.push(counts.misses.into());
        cells.push(json!(ratio(counts.misses, counts.accesses())));
    }
    let line = set.run.hierarchy.levels.first().map_or(64, |level| level.line);
    cells.push(json!(row.levels.first().and_then(|counts| spatial_use(counts, line))));
    cells
}

/// A table of a view: what a row is called, then counts, then what else there is.
fn table_of(view: &View<'_>, heads: &[&str], more: &[&str], cells: impl Fn(&Row) -> (Vec<Value>, Vec<Value>)) -> Body {
    let mut all: Vec<String> = heads.iter().map(ToString::to_string).collect();
    all.extend(count_heads(view.set));
    all.extend(more.iter().map(ToString::to_string));
    let row = |row: &Row| {
        let (names, rest) = cells(row);
        [names, count_cells(view.set, row), rest].concat()
    };
    Body::Table(Table {
        heads: all,
        rows: view.rows.iter().take(MOST_ROWS).map(row).collect(),
        more: view.rows.len().saturating_sub(MOST_ROWS) as u64,
    })
}

fn objects(inputs: &Inputs<'_>) -> Option<Section> {
    let view = view(inputs, Dimension::Object)?;
    let body = table_of(
        &view,
        &["object", "kind"],
        &["bytes", "blocks", "mean lifetime", "pattern", "stride", "type"],
        |row| {
            let Some(Entry::Object(object)) = view.entries(row).next() else {
                return (vec!["?".into(), "".into()], vec![Value::Null; 6]);
            };
            let facts = &object.facts;
            let lifetime = (facts.ended > 0).then(|| (facts.lifetime / u128::from(facts.ended)) as u64);
            let names = vec![shown(view.object_name(row, object)).into(), object.kind.clone().into()];
            let rest = vec![
                json!(facts.bytes),
                facts.blocks.into(),
                json!(lifetime),
                json!(facts.pattern()),
                json!(facts.stride().map(|(stride, _)| stride)),
                json!(object.ty.as_deref().map(shown)),
            ];
            (names, rest)
        },
    );
    Some(Section {
        id: "objects",
        title: "Data".into(),
        about: "Variables, heap blocks by who allocated them, stacks and mapped files. Lifetimes are in accesses."
            .into(),
        body,
    })
}

fn references(inputs: &Inputs<'_>) -> Option<Section> {
    let view = view(inputs, Dimension::Ref)?;
    let body = table_of(&view, &["reference", "place", "function", "kind"], &[], |row| {
        let Some(Entry::Ref(r)) = view.entries(row).next() else {
            return (vec!["?".into(); 4], Vec::new());
        };
        let function = r.function.as_deref().map_or_else(String::new, shown);
        let names = [shown(&r.words()), shown(&r.place()), function];
        let kind = memtrail_report::kind_word(r.kind).to_string();
        (names.into_iter().chain([kind]).map(Value::from).collect(), Vec::new())
    });
    Some(Section {
        id: "references",
        title: "References".into(),
        about: "Instructions by what they access in the source; ? marks what was guessed.".into(),
        body,
    })
}

fn loops(inputs: &Inputs<'_>) -> Option<Section> {
    let view = view(inputs, Dimension::Loop)?;
    let body = table_of(&view, &["loop", "depth"], &[], |row| match view.entries(row).next() {
        Some(Entry::Loop(Some(one))) => (vec![shown(&one.to_string()).into(), one.depth.into()], Vec::new()),
        _ => (vec!["in no loop".into(), Value::Null], Vec::new()),
    });
    Some(Section {
        id: "loops",
        title: "Loops".into(),
        about:
            "By the innermost loop around; depth 0 is in no other. memtrail dump --descriptors has the strides of each."
                .into(),
        body,
    })
}

fn threads(inputs: &Inputs<'_>) -> Option<Section> {
    let view = view(inputs, Dimension::Thread)?;
    let body = table_of(&view, &["thread"], &[], |row| match view.entries(row).next() {
        Some(Entry::Thread(number)) => (vec![(*number).into()], Vec::new()),
        _ => (vec!["?".into()], Vec::new()),
    });
    Some(Section {
        id: "threads",
        title: "Threads".into(),
        about: "By their serial numbers.".into(),
        body,
    })
}

/// Numbers as digits: 0 for nothing, 9 for the most, by logarithms.
fn digits(values: &[u64], most: u64) -> String {
    let top = (most.max(1) as f64 + 1.0).ln();
    let digit = |&value: &u64| match value {
        0 => '0',
        value => {
            let level = 1.0 + 8.0 * (value as f64 + 1.0).ln() / top;
            char::from(b'0' + level.clamp(1.0, 9.0) as u8)
        }
    };
    values.iter().map(digit).collect()
}

fn part(cells: &[Cell], at: usize) -> Vec<u64> {
    cells.iter().map(|cell| cell[at].into()).collect()
}

fn picture(inputs: &Inputs<'_>) -> Option<Section> {
    let map = inputs.map?;
    let object = |by: u32| inputs.object_of.get(by as usize).copied().unwrap_or(u32::MAX);
    let rows = map.rows(MAP_ROWS, object);
    let columns = map.accesses().div_ceil(map.per_column()).clamp(1, COLUMNS as u64) as usize;
    let most = |at: usize| {
        rows.iter()
            .flat_map(|(piece, _)| part(&piece.cells[..], at))
            .max()
            .unwrap_or(0)
    };
    let most = [most(0), most(1)];
    let row = |(piece, owner): &(crate::map::Piece, Option<u32>)| PictureRow {
        from: match piece.space {
            0 => format!("{:#x}", piece.from),
            space => format!("{:#x} of process {space}", piece.from),
        },
        bytes: piece.to - piece.from,
        object: owner
            .and_then(|owner| inputs.objects.get(owner as usize))
            .map_or_else(|| "unknown".to_string(), |name| shown(name)),
        accesses: digits(&part(&piece.cells[..columns], 0), most[0]),
        misses: digits(&part(&piece.cells[..columns], 1), most[1]),
    };
    Some(Section {
        id: "map",
        title: "Map".into(),
        about: format!(
            "Addresses down, time to the right: {} accesses, {} in a column; darker is more, by logarithms. Memory that \
             nobody touched has no row. Straight lines are regular, clouds are not. Misses are those of one LRU cache of the \
             shape of the first level.",
            thousands(map.accesses()),
            thousands(map.per_column())
        ),
        body: Body::Map(Picture {
            columns,
            step: map.per_column(),
            rows: rows.iter().take(4 * MAP_ROWS).map(row).collect(),
        }),
    })
}

fn timelines(inputs: &Inputs<'_>) -> Option<Section> {
    let map = inputs.map?;
    let mut sums: HashMap<u32, Vec<[u64; 2]>> = HashMap::new();
    for (number, line) in map.timelines().enumerate() {
        let object = inputs.object_of.get(number).copied().unwrap_or(u32::MAX);
        let sum = sums.entry(object).or_insert_with(|| vec![[0; 2]; TIMES]);
        for (sum, cell) in sum.iter_mut().zip(line) {
            sum[0] += u64::from(cell[0]);
            sum[1] += u64::from(cell[1]);
        }
    }
    let total = |line: &[[u64; 2]], at: usize| line.iter().map(|cell| cell[at]).sum::<u64>();
    let mut ordered: Vec<(u32, Vec<[u64; 2]>)> = sums.into_iter().collect();
    ordered.sort_by_key(|(object, line)| (std::cmp::Reverse((total(line, 1), total(line, 0))), *object));
    ordered.truncate(MOST_TIMELINES);
    let most = ordered
        .iter()
        .flat_map(|(_, line)| line.iter().map(|cell| cell[0]))
        .max()
        .unwrap_or(0);
    let used = map.accesses().div_ceil(map.per_column()).clamp(1, COLUMNS as u64) as usize;
    let used = (used * TIMES).div_ceil(COLUMNS);
    ordered.iter_mut().for_each(|(_, line)| line.truncate(used));
    let of = |at: usize| {
        let one =
            |(_, line): &(u32, Vec<[u64; 2]>)| digits(&line.iter().map(|cell| cell[at]).collect::<Vec<_>>(), most);
        ordered.iter().map(one).collect()
    };
    let name = |(object, line): &(u32, Vec<[u64; 2]>)| {
        let name = inputs.objects.get(*object as usize).map_or("others", String::as_str);
        format!("{} ({} misses)", shown(name), thousands(total(line, 1)))
    };
    Some(Section {
        id: "timelines",
        title: "Over time".into(),
        about: "Accesses and, in front, misses of the data that misses most, from the first access to the last; by logarithms.".into(),
        body: Body::Timelines {
            names: ordered.iter().map(name).collect(),
            accesses: of(0),
            misses: of(1),
        },
    })
}

/// `A and B evict each other: A loses 90 lines to B, B loses 80 to A`.
fn cycle_words(cycle: &EvictionCycle, name: &dyn Fn(u32) -> String) -> String {
    let mut members: Vec<String> = cycle.members.iter().map(|&member| name(member)).collect();
    let last = members.pop().unwrap_or_default();
    let edge =
        |&(owner, by, n): &(u32, u32, u64)| format!("{} loses {} lines to {}", name(owner), thousands(n), name(by));
    let edges: Vec<String> = cycle.edges.iter().take(6).map(edge).collect();
    format!(
        "{} and {last} evict each other: {}",
        members.join(", "),
        edges.join("; ")
    )
}

fn evictors(inputs: &Inputs<'_>) -> Option<Section> {
    inputs.set.run.counted.evictors?;
    let mut told = Vec::new();
    let mut matrix = Matrix::default();
    for (by, what) in [(Dimension::Object, "data"), (Dimension::Ref, "references")] {
        let Some(view) = view(inputs, by) else { continue };
        let name = |row: u32| {
            let row = &view.rows[row as usize];
            match view.entries(row).next() {
                Some(Entry::Object(object)) => shown(view.object_name(row, object)),
                Some(Entry::Ref(r)) => shown(&format!("{} ({})", r.words(), r.place())),
                _ => "?".to_string(),
            }
        };
        let near = |most: usize| {
            let pairs = view.evictors[0]
                .iter()
                .filter(move |(&(a, b), _)| (a.max(b) as usize) < most);
            pairs.map(|(&pair, &n)| (pair, n)).collect::<BTreeMap<_, _>>()
        };
        for cycle in cycles(&near(MOST_IN_CYCLES)).iter().take(5) {
            told.push(format!("{what}: {}", cycle_words(cycle, &name)));
        }
        if matrix.names.is_empty() {
            let shown = view.rows.len().min(MOST_IN_MATRIX);
            matrix.names = (0..shown as u32).map(name).collect();
            matrix.cells = near(shown).into_iter().map(|((a, b), n)| (a, b, n)).collect();
        }
    }
    matrix.cycles = told;
    let level = &inputs.set.run.hierarchy.levels.first()?.name;
    Some(Section {
        id: "evictors",
        title: "Evictors".into(),
        about: format!(
            "Who takes whose lines out of {level}: each row loses lines to the columns. Data or references that evict each \
             other compete for the same sets: pad, tile, or use them one after the other."
        ),
        body: Body::Matrix(matrix),
    })
}

fn source(inputs: &Inputs<'_>) -> Option<Section> {
    let view = view(inputs, Dimension::Line)?;
    let mut files: Vec<(&str, BTreeMap<u32, &Row>)> = Vec::new();
    // In the order of the worst line of each.
    for row in &view.rows {
        let Some(Entry::Line(Some(line))) = view.entries(row).next() else {
            continue;
        };
        match files.iter_mut().find(|(file, _)| *file == line.file) {
            Some((_, lines)) => drop(lines.insert(line.line, row)),
            None => files.push((&line.file, BTreeMap::from([(line.line, row)]))),
        }
    }
    let mut heads = vec!["accesses".to_string()];
    heads.extend(
        inputs
            .set
            .run
            .hierarchy
            .levels
            .iter()
            .map(|level| format!("{} misses", level.name)),
    );
    let mut budget = SOURCE_BUDGET;
    let mut found: Vec<SourceFile> = Vec::new();
    for (file, lines) in files.iter().take(40) {
        let read = (inputs.sources)(file);
        // Of libraries there are lines, but hardly ever sources.
        if read.is_err() && found.len() >= 3 {
            continue;
        }
        let one = annotated(file, lines, read);
        let bytes: usize = one
            .lines
            .iter()
            .map(|(_, text, figures)| 24 + text.len() + 12 * figures.len())
            .sum();
        if bytes > budget {
            break;
        }
        budget -= bytes;
        found.push(one);
    }
    (!found.is_empty()).then_some(Section {
        id: "source",
        title: "Source".into(),
        about: "Each line with what it did. Bars compare the lines of a file.".into(),
        body: Body::Source { heads, files: found },
    })
}

fn annotated(file: &str, lines: &BTreeMap<u32, &Row>, read: Result<Rc<str>, String>) -> SourceFile {
    let figures = |line: u32| {
        let row = lines.get(&line)?;
        let misses = row.levels.iter().map(|counts| counts.misses);
        Some(std::iter::once(row.accesses()).chain(misses).collect::<Vec<u64>>())
    };
    let near = |line: u32| {
        lines
            .range(line.saturating_sub(CONTEXT)..=line.saturating_add(CONTEXT))
            .next()
            .is_some()
    };
    let (note, texts) = match read {
        Ok(text) => {
            let all = text.lines().zip(1u32..).filter(|&(_, line)| near(line));
            let texts: Vec<(u32, String)> = all
                .map(|(text, line)| (line, shown(&text.replace('\t', "    "))))
                .collect();
            (String::new(), texts)
        }
        Err(why) => (why, lines.keys().map(|&line| (line, String::new())).collect()),
    };
    let name = match base(file) == file {
        true => shown(file),
        false => shown(&format!("{} ({file})", base(file))),
    };
    SourceFile {
        name,
        note: shown(&note),
        lines: texts
            .into_iter()
            .map(|(line, text)| (line, text, figures(line).unwrap_or_default()))
            .collect(),
    }
}

fn miss_curve(inputs: &Inputs<'_>) -> Option<Section> {
    let (line, curves) = inputs.curves?.curves.as_ref()?;
    let series = curves.iter().map(|curve| Series {
        name: match curve.ways {
            None => "fully associative".to_string(),
            Some(1) => "direct-mapped".to_string(),
            Some(ways) => format!("{ways} ways"),
        },
        points: curve
            .points
            .iter()
            .map(|point| {
                let total = point.counts.total();
                (point.size as f64, ratio(total.misses, total.requests).unwrap_or(0.0))
            })
            .collect(),
    });
    Some(Section {
        id: "curve",
        title: "Miss ratio".into(),
        about: format!(
            "What LRU caches of each size would miss, with lines of {line} bytes. A step is a working set that begins to fit."
        ),
        body: Body::Chart(Chart {
            x: "bytes of cache".into(),
            y: "miss ratio".into(),
            log: true,
            series: series.collect(),
        }),
    })
}

fn reuse(inputs: &Inputs<'_>) -> Option<Section> {
    let reuse = inputs.curves?.reuse.as_ref()?;
    let all = reuse.touches.total().max(1) as f64;
    let mut sum = 0u64;
    let points = reuse.buckets.iter().map(|bucket| {
        sum += bucket.reads + bucket.writes;
        (bucket.to.max(1) as f64, sum as f64 / all)
    });
    let points: Vec<(f64, f64)> = points.collect();
    Some(Section {
        id: "reuse",
        title: "Reuse".into(),
        about: format!(
            "How many other lines of {} bytes were touched between two touches of a line: the part of all touches up to a \
             distance. {} of {} touches were a line's first.",
            reuse.line,
            thousands(reuse.first.total()),
            thousands(reuse.touches.total())
        ),
        body: Body::Chart(Chart {
            x: "distance in lines".into(),
            y: "part of touches".into(),
            log: true,
            series: vec![Series {
                name: "touches".into(),
                points,
            }],
        }),
    })
}

/// Call paths as a tree of functions: of the first level, or of any other by its place.
pub fn icicle(set: &ResultSet, level: usize) -> Option<Node> {
    let view = View::new(set, &[Dimension::Callpath, Dimension::Function], Sort::Misses, None).ok()?;
    let mut root = Node {
        name: "all".into(),
        ..Node::default()
    };
    for row in &view.rows {
        let (misses, accesses) = (row.levels.get(level).map_or(0, |counts| counts.misses), row.accesses());
        let mut entries = view.entries(row);
        let (Some(Entry::Callpath(path)), Some(Entry::Function(function))) = (entries.next(), entries.next()) else {
            continue;
        };
        let calls = path
            .calls
            .iter()
            .map(|call| call.split(" (").next().unwrap_or(call).to_string());
        let names = calls.take(DEEPEST).chain([function.name.clone()]);
        let mut node = &mut root;
        node.misses += misses;
        node.accesses += accesses;
        for name in names {
            let name = shown(&name);
            let at = node.calls.iter().position(|call| call.name == name);
            let at = at.unwrap_or_else(|| {
                node.calls.push(Node {
                    name,
                    ..Node::default()
                });
                node.calls.len() - 1
            });
            node = &mut node.calls[at];
            node.misses += misses;
            node.accesses += accesses;
        }
    }
    Some(root)
}

/// Without what is too small to be seen, what misses most first.
fn pruned(node: &mut Node, least: u64) {
    node.calls.retain(|call| call.misses >= least.max(1));
    node.calls.sort_by_key(|call| std::cmp::Reverse(call.misses));
    node.calls.iter_mut().for_each(|call| pruned(call, least));
}

fn calls(inputs: &Inputs<'_>) -> Option<Section> {
    let mut root = icicle(inputs.calls?, 0)?;
    let least = root.misses / 1000;
    pruned(&mut root, least);
    let moved = bytes(inputs.set.run.hierarchy.levels.first()?.line.into());
    Some(Section {
        id: "calls",
        title: "Call paths".into(),
        about: format!(
            "Each function as wide as the misses of it and all it called, below the one that called it; each miss brings in \
             {moved}. Redder ones miss more of their accesses. A click or Enter makes one the whole width, and back."
        ),
        body: Body::Icicle(Box::new(root)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_tell_nothing_from_little() {
        assert_eq!(digits(&[0, 1, 9, 100, 1000], 1000), "01369");
        assert_eq!(digits(&[0, 0], 0), "00");
        assert_eq!(digits(&[1], 1), "9");
    }

    #[test]
    fn a_cycle_is_told_in_words() {
        let cycle = EvictionCycle {
            members: vec![0, 1],
            evictions: 170,
            edges: vec![(0, 1, 90), (1, 0, 80)],
        };
        let name = |row: u32| ["A", "B"][row as usize].to_string();
        assert_eq!(
            cycle_words(&cycle, &name),
            "A and B evict each other: A loses 90 lines to B; B loses 80 lines to A"
        );
    }
}
