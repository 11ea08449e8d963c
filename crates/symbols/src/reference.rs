//! Names for reference points, and the source expressions they stand for.
//!
//! **Problem.** A line such as `xx[i][j] = xy[i][k] * xz[k][j] + xx[i][j]` makes several accesses. Which instruction is which expression, no table tells.
//!
//! **Idea.** Each point has expressions of its line as candidates, and what is known about it leaves fewer and fewer: whether it reads or writes; the variable that was
//! accessed, by its address; the column of its instruction. Candidates that differ only in constants (`b[i-1][k]`, `b[i][k]`) are in the order of the addresses. What is
//! still open is taken in the order of evaluation if there are as many points as candidates, and is otherwise left open: `b[i-1][k] | b[i][k]`.
//!
//! **Names** are METRIC's: the data's name, the kind of access, and the point's position, from 0, among all points of its function in the
//! order of the machine code: `xy_Read_0`, `xz_Read_1`, `xx_Read_2`, `xx_Write_3`.
use crate::scan::{Expression, Language, Source};
use crate::variables::short;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// What a point does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    Read,
    Write,
}

/// What a point accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// A variable, global or local, and the way into it with empty subscripts: `m.xz[][]`. `direct`: the instruction names it, so that no pointer is in between.
    Variable { pattern: String, direct: bool },
    /// Something that is reached through a pointer.
    Object {
        name: Option<String>,
        /// The pointer's name, if it is known, and the way from there: `p`, `p.value[]`.
        pointer: Option<String>,
    },
    /// The stack, but no variable: return addresses, saved registers, spilled values.
    Stack,
}

/// Something by which points of one expression, but for constants, are ordered: the lowest address accessed, or displacements to the same registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Positions with different keys cannot be compared.
    pub key: u32,
    pub at: i64,
}

/// An instruction that accesses memory in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    pub access: Access,
    pub data: Data,
    pub position: Option<Position>,
    /// Where it comes from, if that is known.
    pub file: Option<String>,
    pub line: Option<u32>,
    pub column: Option<u32>,
}

/// A point's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// `xz_Read_1`.
    pub name: String,
    /// `xz[k][j]`; several if it could not be decided which.
    pub source: Option<String>,
    /// Nothing had to be guessed.
    pub certain: bool,
    /// The variable and the way into it, whether there is a source or not: `m.xz[][]`.
    pub variable: Option<String>,
}

/// Names the points of one function, given in the order of its code. `text` gives source files as far as they are there.
pub fn references(points: &[Point], text: impl Fn(&str) -> Option<Rc<str>>) -> Vec<Reference> {
    let mut lines = Expressions::default();
    lines.read(points, text);
    let mut found: Vec<Option<Found>> = vec![None; points.len()];
    let mut groups: BTreeMap<(usize, u32, Access, Vec<usize>), Vec<usize>> = BTreeMap::new();
    for (index, point) in points.iter().enumerate() {
        let Some((file, line, expressions)) = lines.of(point) else {
            continue;
        };
        let candidates = candidates(point, line, expressions);
        let candidates = by_column(candidates, expressions, point.column);
        if !candidates.is_empty() {
            let key = (file, line, point.access, candidates);
            groups.entry(key).or_default().push(index);
        }
    }
    // Those with fewest candidates first: what they are certain to be, the others of their line are not, if anything else is left for them.
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((_, _, _, candidates), _)| candidates.len());
    let mut taken: HashMap<(usize, u32, Access), Vec<String>> = HashMap::new();
    for ((file, line, access, candidates), members) in groups {
        let Some(expressions) = lines.known.get(&(file, line)) else {
            continue;
        };
        let candidates: Vec<&Expression> = candidates.iter().map(|&c| &expressions[c]).collect();
        let column_major = lines.files.get(file).is_some_and(|f| Language::of(f) != Language::C);
        let mut chosen = choose(&candidates, points, &members, column_major);
        let taken = taken.entry((file, line, access)).or_default();
        let left: Vec<&Expression> = candidates
            .iter()
            .copied()
            .filter(|e| !taken.contains(&e.text))
            .collect();
        if chosen.iter().any(|f| !f.certain) && !left.is_empty() && left.len() < candidates.len() {
            let again = choose(&left, points, &members, column_major);
            chosen = again.into_iter().map(|f| Found { certain: false, ..f }).collect();
        }
        taken.extend(chosen.iter().filter(|f| f.certain).map(|f| f.text.clone()));
        for (&member, chosen) in members.iter().zip(chosen) {
            found[member] = Some(chosen);
        }
    }
    let around = |index: usize| found[index].clone().or_else(|| lines.elsewhere(&points[index]));
    let all: Vec<Option<Found>> = (0..points.len()).map(around).collect();
    points
        .iter()
        .zip(all)
        .enumerate()
        .map(|(index, (point, found))| reference(index, point, found))
        .collect()
}

/// The source of a point.
#[derive(Clone, Debug)]
struct Found {
    text: String,
    pattern: String,
    certain: bool,
}

impl Found {
    fn one(expression: &Expression, certain: bool) -> Found {
        Found {
            text: expression.text.clone(),
            pattern: expression.pattern.clone(),
            certain,
        }
    }

    /// Each text once, in order. `None`: too many to be of use.
    fn several(expressions: &[&Expression]) -> Option<Found> {
        const MOST: usize = 4;
        let mut texts: Vec<&str> = Vec::new();
        for expression in expressions {
            if !texts.contains(&expression.text.as_str()) {
                texts.push(&expression.text);
            }
        }
        let first = expressions.first()?;
        let same = expressions.iter().all(|e| e.pattern == first.pattern);
        (texts.len() <= MOST).then(|| Found {
            text: texts.join(" | "),
            pattern: if same { first.pattern.clone() } else { String::new() },
            certain: texts.len() == 1,
        })
    }
}

/// The expressions of all lines that points come from.
#[derive(Default)]
struct Expressions {
    files: Vec<String>,
    known: HashMap<(usize, u32), Vec<Expression>>,
}

impl Expressions {
    fn read(&mut self, points: &[Point], text: impl Fn(&str) -> Option<Rc<str>>) {
        let mut wanted: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for point in points {
            if let (Some(file), Some(line)) = (&point.file, point.line) {
                wanted.entry(file).or_default().push(line);
            }
        }
        for (index, (file, mut lines)) in wanted.into_iter().enumerate() {
            self.files.push(file.to_string());
            let Some(text) = text(file) else { continue };
            let source = Source::new(&text, Language::of(file));
            lines.sort_unstable();
            lines.dedup();
            self.known
                .extend(lines.into_iter().map(|line| ((index, line), source.expressions(line))));
        }
    }

    fn of(&self, point: &Point) -> Option<(usize, u32, &[Expression])> {
        let file = self.files.iter().position(|f| Some(f) == point.file.as_ref())?;
        let line = point.line?;
        Some((file, line, self.known.get(&(file, line))?))
    }

    /// Code that was moved has the line of where it went: what else in the function is to the same variable?
    fn elsewhere(&self, point: &Point) -> Option<Found> {
        let Data::Variable { pattern, .. } = &point.data else {
            return None;
        };
        let (file, ..) = self.of(point)?;
        let own = normal(pattern);
        let mut lines: Vec<_> = self.known.iter().filter(|((of, _), _)| *of == file).collect();
        lines.sort_unstable_by_key(|(key, _)| **key);
        let all = lines.iter().flat_map(|(_, expressions)| expressions.iter());
        let same: Vec<&Expression> = all
            .filter(|e| e.pattern == own && !e.partial && does(e, point.access))
            .collect();
        Found::several(&same).map(|found| Found {
            certain: false,
            ..found
        })
    }
}

fn does(expression: &Expression, access: Access) -> bool {
    match access {
        Access::Read => expression.reads,
        Access::Write => expression.writes,
    }
}

/// A variable's pattern as the scanner would give it: the root without qualification.
fn normal(pattern: &str) -> String {
    let end = pattern.find(['[', '(', '.']).unwrap_or(pattern.len());
    let (root, rest) = pattern.split_at(end);
    format!("{}{rest}", short(root))
}

/// Without subscripts.
fn bare(pattern: &str) -> String {
    let (mut out, mut depth) = (String::new(), 0);
    for c in pattern.chars() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// The expressions that a point may stand for, by number: the best kind of match there is.
fn candidates(point: &Point, line: u32, expressions: &[Expression]) -> Vec<usize> {
    let pick = |accept: &dyn Fn(&Expression) -> bool| -> Vec<usize> {
        let fits = |e: &Expression| does(e, point.access) && accept(e);
        let all: Vec<usize> = (0..expressions.len()).filter(|&i| fits(&expressions[i])).collect();
        let here: Vec<usize> = all.iter().copied().filter(|&i| expressions[i].line == line).collect();
        if here.is_empty() {
            all
        } else {
            here
        }
    };
    let pointed = |e: &Expression| e.indirect;
    match &point.data {
        Data::Stack => Vec::new(),
        Data::Object { pointer, .. } => {
            let through = pointer.as_deref().map(bare);
            let same = through.map(|way| pick(&|e| e.indirect && way_of(&e.pattern) == way));
            same.filter(|same| !same.is_empty()).unwrap_or_else(|| pick(&pointed))
        }
        Data::Variable { pattern, direct } => {
            let own = normal(pattern);
            let exact = pick(&|e| e.pattern == own);
            if !exact.is_empty() {
                return exact;
            }
            let same = pick(&|e| !e.partial && bare(&e.pattern) == bare(&own));
            if !same.is_empty() || *direct {
                return same;
            }
            // Through a pointer, or in a method: only the end of the way is the same.
            let ends = |e: &Expression| !e.partial && own.split_once('.').is_some_and(|_| ends_alike(&e.pattern, &own));
            let members = pick(&ends);
            if !members.is_empty() {
                return members;
            }
            pick(&pointed)
        }
    }
}

/// The way from a pointer, however it is followed: `p->x`, `p[].x` and `(*p).x` are all `p.x`.
fn way_of(pattern: &str) -> String {
    bare(pattern).trim_start_matches('*').replace("->", ".")
}

/// Is what follows the last pointer in an expression the end of the way into a variable?
fn ends_alike(expression: &str, variable: &str) -> bool {
    let tail = expression.rsplit("->").next().unwrap_or_default();
    let tail = tail.trim_start_matches('*');
    !tail.is_empty() && variable.strip_suffix(tail).is_some_and(|rest| rest.ends_with('.'))
}

/// Those that a column is in. Compilers give the begin of an expression, or, in the middle, the bracket or dot that makes it: then the innermost is meant.
fn by_column(candidates: Vec<usize>, expressions: &[Expression], column: Option<u32>) -> Vec<usize> {
    let Some(column) = column else { return candidates };
    let around = candidates
        .iter()
        .copied()
        .filter(|&i| expressions[i].columns.contains(&column));
    let around: Vec<usize> = around.collect();
    let length = |i: usize| expressions[i].columns.end - expressions[i].columns.start;
    let Some(&innermost) = around.iter().min_by_key(|&&i| length(i)) else {
        return candidates;
    };
    if expressions[innermost].columns.start == column {
        return around;
    }
    around.into_iter().filter(|&i| length(i) == length(innermost)).collect()
}

/// One of the candidates, or several, for each of the points that have the same ones.
fn choose(candidates: &[&Expression], points: &[Point], members: &[usize], column_major: bool) -> Vec<Found> {
    let whole: Vec<&Expression> = candidates.iter().copied().filter(|e| !e.partial).collect();
    let partial = whole.is_empty() || (members.len() > whole.len() && members.len() % candidates.len() == 0);
    let candidates = if partial { candidates } else { &whole[..] };
    let first = candidates[0];
    if candidates.iter().all(|e| e.text == first.text) {
        return vec![Found::one(first, true); members.len()];
    }
    if let Some(found) = by_position(candidates, points, members, column_major) {
        return found;
    }
    if members.len() % candidates.len() == 0 {
        let in_turn = (0..members.len()).map(|k| Found::one(candidates[k % candidates.len()], false));
        return in_turn.collect();
    }
    let open = Found::several(candidates).unwrap_or_else(|| Found {
        text: String::new(),
        pattern: String::new(),
        certain: false,
    });
    vec![open; members.len()]
}

/// By the order of addresses, if the candidates differ only in constants and there is one of them for each position.
fn by_position(
    candidates: &[&Expression],
    points: &[Point],
    members: &[usize],
    column_major: bool,
) -> Option<Vec<Found>> {
    let first = candidates[0];
    if candidates.iter().any(|e| e.skeleton != first.skeleton) {
        return None;
    }
    let positions: Vec<Position> = members.iter().map(|&m| points[m].position).collect::<Option<_>>()?;
    if positions.iter().any(|p| p.key != positions[0].key) {
        return None;
    }
    let order = |e: &Expression| {
        let mut constants = e.constants.clone();
        if column_major {
            constants.reverse();
        }
        constants
    };
    let mut places: Vec<i64> = positions.iter().map(|p| p.at).collect();
    places.sort_unstable();
    places.dedup();
    let mut different: Vec<&Expression> = candidates.to_vec();
    different.sort_by_key(|e| order(e));
    different.dedup_by_key(|e| order(e));
    if places.len() != different.len() {
        return None;
    }
    let of = |p: &Position| {
        places
            .binary_search(&p.at)
            .ok()
            .map(|rank| Found::one(different[rank], true))
    };
    positions.iter().map(of).collect()
}

fn reference(index: usize, point: &Point, found: Option<Found>) -> Reference {
    let found = found.filter(|f| !f.text.is_empty());
    let written = found
        .as_ref()
        .map(|f| bare(&f.pattern))
        .map(|p| p.trim_start_matches('*').to_string());
    let (stem, variable) = match &point.data {
        Data::Variable { pattern, .. } => (bare(&normal(pattern)), Some(pattern.clone())),
        Data::Object { name, .. } => {
            let written = written.filter(|stem| !stem.is_empty());
            (
                written.or(name.clone()).unwrap_or_else(|| "ref".to_string()),
                name.clone(),
            )
        }
        Data::Stack => ("stack".to_string(), None),
    };
    let kind = match point.access {
        Access::Read => "Read",
        Access::Write => "Write",
    };
    Reference {
        name: format!("{stem}_{kind}_{index}"),
        certain: found.as_ref().is_some_and(|f| f.certain),
        source: found.map(|f| f.text),
        variable,
    }
}

#[cfg(test)]
mod tests;
