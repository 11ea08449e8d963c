//! What objects are called.
//!
//! A variable has its name. A heap block has that of the variable it was assigned to, if the source of the line that asked for it tells, and where that was;
//! if several objects would be called the same, the calls further out tell them apart.
use super::names::{base, Code};
use super::run::Found;
use memtrail_analyze::calls::Tree;
use memtrail_analyze::objects::{Common, Kind};
use memtrail_symbols::scan::{Language, Source};
use std::collections::{HashMap, HashSet};

/// An object, or a group of them, as people know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectName {
    pub name: String,
    pub kind: &'static str,
    /// The calls that allocated it, the first one first.
    pub path: Vec<String>,
    /// Of a variable.
    pub ty: Option<String>,
    pub module: Option<String>,
    /// Of the line that asked for it.
    pub line: Option<(String, u32)>,
}

pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Unknown => "unknown",
        Kind::Heap => "heap",
        Kind::File => "file",
        Kind::Anonymous => "anonymous",
        Kind::Allocator => "allocator",
        Kind::Stack => "stack",
        Kind::Static => "static",
        Kind::ThreadLocal => "tls",
        Kind::Named => "named",
    }
}

/// The names of all groups.
pub fn names(found: &Found) -> Vec<ObjectName> {
    let busy = busy_calls(found);
    let mut names: Vec<ObjectName> = (0..found.groups.len() as u32)
        .map(|group| named(found, group, &busy))
        .collect();
    let mut same: HashMap<String, Vec<usize>> = HashMap::new();
    for (group, name) in names.iter().enumerate() {
        same.entry(name.name.clone()).or_default().push(group);
    }
    for groups in same.into_values().filter(|groups| groups.len() > 1) {
        tell_apart(&mut names, &groups);
    }
    names
}

/// Adds to equal names the innermost call in which their paths differ from others.
fn tell_apart(names: &mut [ObjectName], groups: &[usize]) {
    let paths: Vec<Vec<String>> = groups.iter().map(|&group| names[group].path.clone()).collect();
    let call = |path: &[String], out: usize| path.len().checked_sub(1 + out).map(|at| path[at].clone());
    let longest = paths.iter().map(Vec::len).max().unwrap_or(0);
    for (i, &group) in groups.iter().enumerate() {
        let differs = |out: &usize| {
            let mine = call(&paths[i], *out);
            mine.is_some() && paths.iter().any(|other| call(other, *out) != mine)
        };
        if let Some(from) = (1..longest).find(differs).and_then(|out| call(&paths[i], out)) {
            names[group].name += &format!(" < {from}");
        }
    }
}

fn named(found: &Found, group: u32, busy: &HashSet<String>) -> ObjectName {
    let common = found.groups[group as usize].common;
    let kind = kind_word(common.kind());
    if let Some(variable) = found.statics.variables.get(&group) {
        return ObjectName {
            name: variable.name.clone(),
            kind,
            ty: variable.ty.as_ref().map(|ty| ty.name.clone()),
            module: Some(base(&variable.module).to_string()),
            ..ObjectName::default()
        };
    }
    let text = |number: u32| found.text(number).unwrap_or_else(|| format!("text {number}"));
    let mut object = ObjectName {
        kind,
        ..ObjectName::default()
    };
    match common {
        Common::Block { node } | Common::Anonymous { node } => allocated(found, node, busy, &mut object),
        Common::Unknown => object.name = "[unknown]".into(),
        Common::Small => object.name = "[small blocks]".into(),
        Common::File { source } => {
            let path = text(source);
            object.name = if path.starts_with('[') {
                path
            } else {
                base(&path).to_string()
            };
        }
        Common::Break => object.name = "[heap, in no block]".into(),
        Common::Arena => object.name = "[arenas, in no block]".into(),
        Common::Stack { thread } => object.name = format!("[stack of thread {}]", thread.0),
        Common::Name { text: number } => object.name = text(number),
        Common::Given { .. } => object.name = "[thread-local]".into(),
    }
    object
}

/// A call in a path: made from an instruction, by a function that was inlined there or by the one that is really there.
pub enum Call {
    From(Code),
    Signal(u32),
}

impl Call {
    pub fn described(&self) -> String {
        match self {
            Call::From(code) => code.described(),
            Call::Signal(number) => format!("signal {number}"),
        }
    }

    /// What tells calls apart. A call in a function that was inlined in several places is the same one in all of them.
    fn key(&self) -> String {
        let column = match self {
            Call::From(code) => code.location.frames.first().and_then(|frame| frame.column),
            Call::Signal(_) => None,
        };
        format!("{}, {}", self.described(), column.unwrap_or(0))
    }

    fn is_of_wrapper(&self, found: &Found) -> bool {
        matches!(self, Call::From(code) if found.is_wrapper(code))
    }
}

/// The calls that lead to a node, the first one first. Those that were inlined stand between the call of the function that they were inlined into and the one made from them.
pub fn calls(found: &Found, node: u32) -> Vec<Call> {
    let sites = found.tree.path(node);
    let calls = |site: u64| match Tree::signal_of(site) {
        Some(number) => vec![Call::Signal(number)],
        None => found
            .names
            .code(site)
            .inlined()
            .into_iter()
            .rev()
            .map(Call::From)
            .collect(),
    };
    sites.into_iter().flat_map(calls).collect()
}

/// The calls that allocated something, without those that wrappers made at the end, unless there are no others.
fn asking_calls(found: &Found, node: u32) -> Vec<Call> {
    let mut calls = calls(found, node);
    let asking = calls.iter().rposition(|call| !call.is_of_wrapper(found));
    calls.truncate(asking.map_or(calls.len(), |at| at + 1));
    calls
}

/// Callers, and sizes of blocks, that make a call one of a wrapper that has no name to tell.
const MANY_CALLERS: usize = 3;
const MANY_SIZES: usize = 3;

/// Calls that ask for blocks of many sizes on behalf of many callers, by their keys.
fn busy_calls(found: &Found) -> HashSet<String> {
    let mut busy = HashSet::new();
    let keys = |node| asking_calls(found, node).iter().map(Call::key).collect();
    let paths: Vec<(Vec<String>, u64)> = found
        .groups
        .iter()
        .filter_map(|group| match group.common {
            Common::Block { node } => Some((keys(node), group.element_bytes().unwrap_or(0))),
            _ => None,
        })
        .collect();
    loop {
        let mut seen: HashMap<&str, (HashSet<&str>, HashSet<u64>)> = HashMap::new();
        for (path, size) in &paths {
            let mut outwards = path.iter().rev().skip_while(|call| busy.contains(*call));
            if let (Some(call), Some(caller)) = (outwards.next(), outwards.next()) {
                let (callers, sizes) = seen.entry(call).or_default();
                callers.insert(caller);
                sizes.insert(*size);
            }
        }
        let many = |(callers, sizes): &(HashSet<&str>, HashSet<u64>)| {
            callers.len() >= MANY_CALLERS && sizes.len() >= MANY_SIZES
        };
        let found = seen.iter().filter(|(_, seen)| many(seen));
        let found: Vec<String> = found.map(|(call, _)| call.to_string()).collect();
        if found.is_empty() {
            return busy;
        }
        busy.extend(found);
    }
}

/// What a call path allocated.
fn allocated(found: &Found, node: u32, busy: &HashSet<String>, object: &mut ObjectName) {
    let calls = asking_calls(found, node);
    object.path = calls.iter().map(Call::described).collect();
    let asking = calls
        .iter()
        .rfind(|call| !busy.contains(&call.key()) && !call.is_of_wrapper(found));
    let code = match asking.or(calls.last()) {
        Some(Call::From(code)) => code,
        Some(signal) => {
            object.name = signal.described();
            return;
        }
        None => {
            object.name = "[before any call]".into();
            return;
        }
    };
    object.line = code.line().map(|(file, line)| (file.to_string(), line));
    object.module = code.module().map(str::to_string);
    let place = code.short_line().unwrap_or_else(|| code.address());
    object.name = match (assigned(found, code), code.function()) {
        (Some(variable), _) => format!("{variable} ({place})"),
        (None, Some(function)) => format!("{function} ({place})"),
        (None, None) => place,
    };
}

/// The variable that a line assigns to, by its source.
fn assigned(found: &Found, code: &Code) -> Option<String> {
    let (file, line) = code.line()?;
    let text = found.names.symbols.source(file).ok()?;
    let source = Source::new(&text, Language::of(file));
    // Of several assignments in a line, the last one that begins before the call.
    let column = code
        .location
        .user_frame()
        .and_then(|frame| frame.column)
        .unwrap_or(u32::MAX);
    let all = source.expressions(line);
    let mut written = all.iter().filter(|e| e.writes && e.line == line);
    let first = written.clone().next();
    let written = written.rfind(|e| e.columns.start <= column).or(first);
    let written = written.map(|e| e.text.trim_start_matches(['*', '&']).to_string());
    let declared = || declared(text.lines().nth(line as usize - 1)?);
    written.or_else(declared)
}

/// The variable that a line declares or calls a function of: `std::unique_ptr<long[]> owned(new long[64]);`, `numbers.reserve(1000);`, `allocate(matrix(20, 30))`.
fn declared(line: &str) -> Option<String> {
    let line = line.trim();
    let small = line.to_ascii_lowercase();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if let Some(rest) = small.strip_prefix("allocate").map(|rest| rest.trim_start()) {
        let inside = rest.strip_prefix('(')?.trim_start();
        let name: String = inside.chars().take_while(|&c| is_name(c) || c == '%').collect();
        return (!name.is_empty()).then_some(name);
    }
    let before = line.split('(').next()?;
    if before.len() == line.len() {
        return None;
    }
    if let Some((object, _)) = before.rsplit_once("->").or(before.rsplit_once('.')) {
        let name: String = object.chars().rev().take_while(|&c| is_name(c)).collect();
        let name: String = name.chars().rev().collect();
        return (!name.is_empty()).then_some(name);
    }
    // A declaration has a type and a name.
    let (ty, name) = before.rsplit_once(char::is_whitespace)?;
    let keyword = ["return", "new", "else", "throw", "delete", "="];
    let is_declaration =
        !name.is_empty() && name.chars().all(is_name) && !keyword.iter().any(|k| ty.trim().ends_with(k));
    is_declaration.then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_what_they_make() {
        let name = |line| declared(line).unwrap_or_default();
        assert_eq!(name("    std::unique_ptr<long[]> owned(new long[64]);"), "owned");
        assert_eq!(name("numbers.reserve(1000);"), "numbers");
        assert_eq!(name("    this->table->insert(7);"), "table");
        assert_eq!(name("  allocate(matrix(20, 30))"), "matrix");
        assert_eq!(name("  return make(3);"), "");
        assert_eq!(name("free(p);"), "");
        assert_eq!(name("x;"), "");
    }

    #[test]
    fn equal_names_are_told_apart_by_their_callers() {
        let object = |path: &[&str]| ObjectName {
            name: "fresh (l.c:5)".into(),
            path: path.iter().map(ToString::to_string).collect(),
            ..ObjectName::default()
        };
        let mut names = vec![
            object(&["main (l.c:30)", "push (l.c:5)"]),
            object(&["main (l.c:32)", "push (l.c:5)"]),
        ];
        tell_apart(&mut names, &[0, 1]);
        assert_eq!(names[0].name, "fresh (l.c:5) < main (l.c:30)");
        assert_eq!(names[1].name, "fresh (l.c:5) < main (l.c:32)");
    }
}
