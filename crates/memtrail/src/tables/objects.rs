//! What objects are called.
//!
//! A variable has its name. A heap block has that of the variable it was assigned to, if the source
//! of the line that asked for it tells, and where that was; if several objects would be called the
//! same, the calls further out tell them apart.
use super::names::Code;
use super::run::Measured;
use memtrail_analyze::calls::Tree;
use memtrail_analyze::objects::{busy, Common, Kind};
use memtrail_analyze::patterns::Pattern;
use memtrail_report::format::base;
use memtrail_report::{CallPath, Facts, Object, SourceLine};
use memtrail_symbols::scan::{declared, Language, Source};
use std::collections::HashSet;

fn kind_word(kind: Kind) -> &'static str {
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

fn pattern_word(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Regular => "regular",
        Pattern::Mixed => "mixed",
        Pattern::Indirect => "indirect",
        Pattern::Irregular => "irregular",
        Pattern::PointerChase => "pointer chase",
    }
}

/// A group of objects; `busy` are the keys of calls that wrappers without a telling name make.
pub fn named(found: &Measured, group: u32, busy: &HashSet<String>) -> Object {
    let common = found.groups[group as usize].common;
    let mut object = Object {
        kind: kind_word(common.kind()).to_string(),
        facts: facts(found, group),
        ..Object::default()
    };
    if let Some(variable) = found.statics.variables.get(&group) {
        object.name.clone_from(&variable.name);
        object.ty = variable.ty.as_ref().map(|ty| ty.name.clone());
        object.module = Some(base(&variable.module).to_string());
        object.offset = variable.vaddr;
        return object;
    }
    let text = |number: u32| found.text(number).unwrap_or_else(|| format!("text {number}"));
    match common {
        Common::Block { node } | Common::Anonymous { node } => allocated(found, node, busy, &mut object),
        Common::Unknown => object.name = "[unknown]".into(),
        Common::Small => object.name = "[small blocks]".into(),
        Common::File { source } => {
            let path = text(source);
            object.name = match path.starts_with('[') {
                true => path.clone(),
                false => base(&path).to_string(),
            };
            object.path.sites = vec![path];
        }
        Common::Break => object.name = "[heap, in no block]".into(),
        Common::Arena => object.name = "[arenas, in no block]".into(),
        Common::Stack { thread } => object.name = format!("[stack of thread {}]", thread.0),
        Common::Name { text: number } => object.name = text(number),
        Common::Given { .. } => object.name = "[thread-local]".into(),
    }
    object
}

/// What is known of a group.
fn facts(found: &Measured, group: u32) -> Facts {
    let about = &found.groups[group as usize];
    let variable = found.statics.variables.get(&group);
    // How much of a stack is one is not known.
    let sized = about.common.kind() != Kind::Stack;
    let (bytes, element, blocks) = match variable {
        Some(variable) => {
            let element = variable.ty.as_ref().and_then(|ty| ty.element().size);
            // However many pieces it was mapped in.
            (Some(variable.bytes), element, 1)
        }
        None => {
            let bytes = (sized && about.objects > 0).then_some(about.most_live_bytes);
            (bytes, about.element_bytes().filter(|_| sized), about.objects)
        }
    };
    let summary = found.patterns.get(group as usize).copied().flatten();
    Facts {
        bytes,
        blocks,
        most_live: about.most_live,
        total_bytes: about.bytes,
        resized: about.resized,
        ended: about.ended,
        lifetime: about.lifetime,
        longest: about.longest,
        elements: element.map(|bytes| (bytes, blocks)).into_iter().collect(),
        patterns: summary
            .map(|s| (pattern_word(s.pattern).to_string(), s.steps))
            .into_iter()
            .collect(),
        strides: summary.and_then(|s| s.stride).into_iter().collect(),
    }
}

/// A call in a path: made from an instruction, by a function that was inlined there or by the one
/// that is really there.
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

    /// Module and offset.
    fn site(&self) -> String {
        match self {
            Call::From(code) => code.address(),
            signal => signal.described(),
        }
    }

    /// What tells calls apart. A call in a function that was inlined in several places is the same
    /// one in all of them.
    fn key(&self) -> String {
        let column = match self {
            Call::From(code) => code.location.frames.first().and_then(|frame| frame.column),
            Call::Signal(_) => None,
        };
        format!("{}, {}", self.described(), column.unwrap_or(0))
    }

    fn is_of_wrapper(&self, found: &Measured) -> bool {
        matches!(self, Call::From(code) if found.is_wrapper(code))
    }
}

/// The calls that lead to a node, the first one first. Those that were inlined stand between the
/// call of the function that they were inlined into and the one made from them.
pub fn calls(found: &Measured, node: u32) -> Vec<Call> {
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

/// The calls that allocated something, without those that wrappers made at the end, unless there
/// are no others.
fn asking_calls(found: &Measured, node: u32) -> Vec<Call> {
    let mut calls = calls(found, node);
    let asking = calls.iter().rposition(|call| !call.is_of_wrapper(found));
    calls.truncate(asking.map_or(calls.len(), |at| at + 1));
    calls
}

/// The keys of calls that ask for blocks of many sizes on behalf of many callers.
pub fn busy_calls(found: &Measured) -> HashSet<String> {
    let keys = |node| asking_calls(found, node).iter().map(Call::key).collect();
    let paths = found.groups.iter().filter_map(|group| match group.common {
        Common::Block { node } => Some((keys(node), group.element_bytes().unwrap_or(0))),
        _ => None,
    });
    busy(&paths.collect::<Vec<_>>())
}

/// A path of calls, as people know it and as it is told apart.
pub fn path(calls: &[Call]) -> CallPath {
    CallPath {
        calls: calls.iter().map(Call::described).collect(),
        sites: calls.iter().map(Call::site).collect(),
    }
}

/// The instruction that asked for a block.
pub fn asking_code(found: &Measured, node: u32) -> Option<Code> {
    match asking_calls(found, node).pop()? {
        Call::From(code) => Some(code),
        Call::Signal(_) => None,
    }
}

/// What a call path allocated.
fn allocated(found: &Measured, node: u32, busy: &HashSet<String>, object: &mut Object) {
    let calls = asking_calls(found, node);
    object.path = path(&calls);
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
    object.line = code.line().map(|(file, line)| SourceLine {
        file: file.to_string(),
        line,
    });
    object.module = code.module().map(str::to_string);
    let place = code.short_line().unwrap_or_else(|| code.address());
    object.name = match (assigned(found, code), code.function()) {
        (Some(variable), _) => format!("{variable} ({place})"),
        (None, Some(function)) => format!("{function} ({place})"),
        (None, None) => place,
    };
}

/// The variable that a line assigns to, by its source.
pub fn assigned(found: &Measured, code: &Code) -> Option<String> {
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
