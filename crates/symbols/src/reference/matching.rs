//! Which expression of a line a point stands for.
use super::{Access, Data, Point, Position};
use crate::scan::Expression;
use crate::variables::short;
use std::collections::BTreeMap;

/// The source of a point.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub text: String,
    pub pattern: String,
    pub certain: bool,
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
    pub fn several(expressions: &[&Expression]) -> Option<Found> {
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

pub(super) fn does(expression: &Expression, access: Access) -> bool {
    match access {
        Access::Read => expression.reads,
        Access::Write => expression.writes,
    }
}

/// A variable's pattern as the scanner would give it: the root without qualification.
pub(super) fn normal(pattern: &str) -> String {
    let end = pattern.find(['[', '(', '.']).unwrap_or(pattern.len());
    let (root, rest) = pattern.split_at(end);
    format!("{}{rest}", short(root))
}

/// Without subscripts.
pub(super) fn bare(pattern: &str) -> String {
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

/// What a point may stand for.
struct Candidates {
    /// Numbers of expressions.
    all: Vec<usize>,
    /// By the name of what is accessed, rather than for want of one.
    named: bool,
}

type Predicate<'p> = Box<dyn Fn(&Expression) -> bool + 'p>;

/// The expressions that a point may stand for: the best kind of match there is.
fn candidates(point: &Point, line: u32, expressions: &[Expression]) -> Candidates {
    let pick = |accept: &Predicate<'_>| -> Vec<usize> {
        let fits = |e: &Expression| does(e, point.access) && accept(e);
        let all: Vec<usize> = (0..expressions.len()).filter(|&i| fits(&expressions[i])).collect();
        let here: Vec<usize> = all.iter().copied().filter(|&i| expressions[i].line == line).collect();
        if here.is_empty() {
            all
        } else {
            here
        }
    };
    let first = |kinds: &[Predicate<'_>]| {
        kinds
            .iter()
            .map(pick)
            .find(|found| !found.is_empty())
            .unwrap_or_default()
    };
    let (by_name, pointed) = match &point.data {
        Data::Stack | Data::Constant | Data::Other => (Vec::new(), false),
        Data::Object { pointer, .. } => (pointer.as_deref().map_or(Vec::new(), through), true),
        Data::Variable { pattern, direct } => (into(pattern, *direct), !direct),
    };
    let all = first(&by_name);
    if !all.is_empty() || !pointed {
        return Candidates { all, named: true };
    }
    // References, in C++ and Rust, look like what they refer to. A function often calls what it is
    // given as its caller does.
    let called = match &point.data {
        Data::Object { name, .. } => name.as_deref(),
        _ => None,
    };
    let any: [Predicate<'_>; 3] = [
        Box::new(move |e| {
            e.indirect && called.is_some_and(|name| normal(&e.pattern).split(['[', '(', '.']).next() == Some(name))
        }),
        Box::new(|e| e.indirect),
        Box::new(|e| e.pattern.contains('.')),
    ];
    let all = first(&any);
    Candidates { all, named: false }
}

/// Expressions for what is in a variable, the best first.
fn into(pattern: &str, direct: bool) -> Vec<Predicate<'_>> {
    let own = normal(pattern);
    let (same, member) = (own.clone(), own.clone());
    let mut kinds: Vec<Predicate<'_>> = vec![
        Box::new(move |e| e.pattern == own),
        Box::new(move |e| !e.partial && bare(&e.pattern) == bare(&same)),
    ];
    if !direct {
        // Through a pointer, or in a method: only the end of the way is the same.
        kinds.push(Box::new(move |e| !e.partial && ends_alike(&e.pattern, &member)));
    }
    kinds
}

/// Expressions for what is reached through a pointer, the best first.
fn through(pointer: &str) -> Vec<Predicate<'_>> {
    let way = way_of(pointer);
    // In a method, what is reached through the object may be named alone.
    let own = pointer.strip_prefix("this.").unwrap_or(&way).to_string();
    let root = bare(own.split('.').next().unwrap_or_default());
    let followed = way.clone();
    vec![
        Box::new(move |e| e.indirect && way_of(&e.pattern) == followed),
        Box::new(move |e| !e.indirect && (e.pattern == own || e.pattern == way)),
        // A part of what the source names that only a library knows.
        Box::new(move |e| !e.indirect && e.pattern == root),
    ]
}

/// The way from a pointer, however it is followed: `p->x[]`, `p[].x[]` and `(*p).x[]` are all
/// `p.x[]`.
fn way_of(pattern: &str) -> String {
    let pattern = pattern.trim_start_matches('*').replace("->", ".");
    let (root, rest) = pattern.split_at(pattern.find('.').unwrap_or(pattern.len()));
    format!("{}{rest}", bare(root))
}

/// Is what follows the last pointer in an expression the end of the way into a variable?
fn ends_alike(expression: &str, variable: &str) -> bool {
    let tail = expression.rsplit("->").next().unwrap_or_default();
    let tail = tail.trim_start_matches('*');
    !tail.is_empty() && variable.strip_suffix(tail).is_some_and(|rest| rest.ends_with('.'))
}

/// Those that a column is in. Compilers give the begin of an expression, or, in the middle, the
/// bracket or dot that makes it: then the innermost is meant.
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
        return around
            .into_iter()
            .filter(|&i| expressions[i].columns.start == column)
            .collect();
    }
    around.into_iter().filter(|&i| length(i) == length(innermost)).collect()
}

/// What the points of one line that do the same stand for.
pub(super) fn of_line(
    expressions: &[Expression],
    line: u32,
    points: &[Point],
    members: &[usize],
    column_major: bool,
) -> Vec<(usize, Found)> {
    let all: Vec<Candidates> = members
        .iter()
        .map(|&m| candidates(&points[m], line, expressions))
        .collect();
    let narrow = |(candidates, &member): (&Candidates, &usize)| {
        by_column(candidates.all.clone(), expressions, points[member].column)
    };
    let mut narrowed: Vec<Vec<usize>> = all.iter().zip(members).map(narrow).collect();
    settle(expressions, &all, &mut narrowed);
    let mut groups: BTreeMap<&[usize], Vec<usize>> = BTreeMap::new();
    for (candidates, &member) in narrowed
        .iter()
        .zip(members)
        .filter(|(candidates, _)| !candidates.is_empty())
    {
        groups.entry(candidates).or_default().push(member);
    }
    // Those with fewest candidates first: what they are certain to be, the others are not, if
    // anything else is left for them.
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(candidates, _)| candidates.len());
    let (mut taken, mut found): (Vec<String>, Vec<(usize, Found)>) = (Vec::new(), Vec::new());
    for (candidates, members) in groups {
        let candidates: Vec<&Expression> = candidates.iter().map(|&c| &expressions[c]).collect();
        let mut chosen = choose(&candidates, points, &members, column_major);
        let left = candidates.iter().copied().filter(|e| !taken.contains(&e.text));
        let left: Vec<&Expression> = left.collect();
        if chosen.iter().any(|f| !f.certain) && !left.is_empty() && left.len() < candidates.len() {
            let again = choose(&left, points, &members, column_major);
            chosen = again.into_iter().map(|f| Found { certain: false, ..f }).collect();
        }
        taken.extend(chosen.iter().filter(|f| f.certain).map(|f| f.text.clone()));
        found.extend(members.into_iter().zip(chosen));
    }
    found
}

/// The column of a load that was made part of another operation is that operation's. So where
/// columns do not tell all points of a line apart, and there are as many points whose data has no
/// name as there are expressions left for them, columns are not believed.
fn settle(expressions: &[Expression], all: &[Candidates], narrowed: &mut [Vec<usize>]) {
    let open: Vec<usize> = (0..all.len())
        .filter(|&i| !all[i].named && !all[i].all.is_empty())
        .collect();
    let mut told: Vec<&[usize]> = open.iter().map(|&i| &narrowed[i][..]).collect();
    told.sort_unstable();
    told.dedup();
    if told.len() == open.len() && told.iter().all(|candidates| candidates.len() == 1) {
        return;
    }
    let named: Vec<usize> = (0..all.len())
        .filter(|&i| all[i].named)
        .flat_map(|i| narrowed[i].clone())
        .collect();
    let Some(&first) = open.first() else { return };
    let left: Vec<usize> = all[first]
        .all
        .iter()
        .copied()
        .filter(|c| !expressions[*c].partial && !named.contains(c))
        .collect();
    if left.len() == open.len() {
        open.iter().for_each(|&i| narrowed[i].clone_from(&left));
    }
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

/// By the order of addresses, if the candidates differ only in constants and there is one of them
/// for each position.
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
