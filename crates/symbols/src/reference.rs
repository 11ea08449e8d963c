//! Names for reference points, and the source expressions they stand for.
//!
//! **Problem.** A line such as `xx[i][j] = xy[i][k] * xz[k][j] + xx[i][j]` makes several accesses.
//! Which instruction is which expression, no table tells.
//!
//! **Idea.** Each point has expressions of its line as candidates, and what is known about it
//! leaves fewer and fewer: whether it reads or writes; the variable that was accessed, by its
//! address; the column of its instruction. Candidates that differ only in constants (`b[i-1][k]`,
//! `b[i][k]`) are in the order of the addresses. What is still open is taken in the order of
//! evaluation if there are as many points as candidates, and is otherwise left open:
//! `b[i-1][k] | b[i][k]`.
//!
//! **Names** are METRIC's: the data's name, the kind of access, and the point's position, from 0,
//! among all points of its function in the order of the machine code: `xy_Read_0`, `xz_Read_1`,
//! `xx_Read_2`, `xx_Write_3`.
mod matching;

use crate::scan::{Expression, Language, Source};
use matching::{bare, does, normal, of_line, Found};
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
    /// A variable, global or local, and the way into it with empty subscripts: `m.xz[][]`.
    /// `direct`: the instruction names it, so that no pointer is in between.
    Variable { pattern: String, direct: bool },
    /// Something that is reached through a pointer.
    Object {
        name: Option<String>,
        /// The pointer's name, if it is known, and the way from there: `p`, `p.value[]`.
        pointer: Option<String>,
    },
    /// The stack, but no variable: return addresses, saved registers, spilled values.
    Stack,
    /// A value that the compiler put into memory.
    Constant,
    /// What else the source does not name: tables of the linker.
    Other,
}

/// Something by which points of one expression, but for constants, are ordered: the lowest address
/// accessed, or displacements to the same registers.
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
    /// The variable, or the pointer, and the way from there, whether there is a source or not:
    /// `m.xz[][]`.
    pub variable: Option<String>,
}

/// Names the points of one function, given in the order of its code. `text` gives source files as
/// far as they are there.
pub fn references(points: &[Point], text: impl Fn(&str) -> Option<Rc<str>>) -> Vec<Reference> {
    let mut lines = Expressions::default();
    lines.read(points, text);
    let mut alike: BTreeMap<(usize, u32, Access), Vec<usize>> = BTreeMap::new();
    for (index, point) in points.iter().enumerate() {
        if let Some((file, line, _)) = lines.of(point) {
            alike.entry((file, line, point.access)).or_default().push(index);
        }
    }
    let mut found: Vec<Option<Found>> = vec![None; points.len()];
    for ((file, line, _), members) in alike {
        let Some(expressions) = lines.known.get(&(file, line)) else {
            continue;
        };
        let column_major = lines.files.get(file).is_some_and(|f| Language::of(f) != Language::C);
        for (member, chosen) in of_line(expressions, line, points, &members, column_major) {
            found[member] = Some(chosen);
        }
    }
    let named = points.iter().zip(found).enumerate().map(|(index, (point, found))| {
        let found = found.or_else(|| lines.elsewhere(point));
        reference(index, point, found)
    });
    named.collect()
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

    /// Code that was moved has the line of where it went: what else in the function is to the same
    /// variable?
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

fn reference(index: usize, point: &Point, found: Option<Found>) -> Reference {
    let found = found.filter(|f| !f.text.is_empty());
    let written = found
        .as_ref()
        .map(|f| bare(&f.pattern))
        .map(|p| p.trim_start_matches('*').to_string());
    let (stem, variable) = match &point.data {
        Data::Variable { pattern, .. } => (bare(&normal(pattern)), Some(pattern.clone())),
        Data::Object { name, pointer } => {
            let written = written.filter(|stem| !stem.is_empty());
            let stem = written.or(name.clone()).unwrap_or_else(|| "ref".to_string());
            (stem, pointer.clone().or(name.clone()))
        }
        Data::Stack => ("stack".to_string(), None),
        Data::Constant => ("const".to_string(), None),
        Data::Other => ("ref".to_string(), None),
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
