//! What reference points are called, after METRIC: `xz_Read_1` for `xz[k][j]`.
use super::names::Code;
use super::objects;
use super::run::Measured;
use memtrail_analyze::tagger::Key;
use memtrail_model::Kind;
use memtrail_report::Reference;
use memtrail_simulate::{LevelCounts, PointCounts};
use memtrail_symbols::reference::Access;
use memtrail_symbols::{Module, Seen, Target};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// An instruction's accesses of a kind, before they have a name from the source.
pub fn of(code: &Code, pc: u64, kind: Kind) -> Reference {
    let word = match kind {
        Kind::Read => "Read",
        Kind::Write => "Write",
        Kind::Prefetch => "Prefetch",
        Kind::Fetch => "Fetch",
    };
    let line = code.line();
    Reference {
        module: code.module().map(str::to_string),
        offset: code.place.as_ref().map(|place| place.1),
        kind,
        name: format!("{}_{word}", code.address()),
        source: None,
        certain: false,
        variable: None,
        function: code.function().map(str::to_string),
        file: line.map(|(file, _)| file.to_string()),
        line: line.map(|(_, line)| line),
        pc,
        instance: 0,
        what: None,
    }
}

/// Points of one function of one module, by address.
type Members = BTreeMap<(u64, Kind), Vec<usize>>;

/// The references that points are, by point. Those that did anything are numbered by function, in
/// the order of its code.
pub fn names(found: &Measured) -> Vec<Reference> {
    let mut used = vec![false; found.points.len()];
    for (composite, key) in found.keys.iter().enumerate() {
        let did = |level: &LevelCounts| {
            level
                .points
                .get(composite)
                .is_some_and(|c| *c != PointCounts::default())
        };
        if let Some(used) = used.get_mut(key.point.index()) {
            *used |= found.counts.iter().any(did);
        }
    }
    names_of(found, &used)
}

/// The same, if those of `used` are all that did anything.
pub fn names_of(found: &Measured, used: &[bool]) -> Vec<Reference> {
    let points = &found.points;
    let mut references: Vec<Reference> = points
        .iter()
        .map(|point| of(&found.names.code(point.code), point.pc, point.kind))
        .collect();
    for (reference, word) in references.iter_mut().zip(&found.words) {
        reference.what = word.map(str::to_string);
    }
    number_instances(&mut references);
    let mut functions: BTreeMap<_, (Rc<Module<'static>>, Members)> = BTreeMap::new();
    for (i, point) in points.iter().enumerate().filter(|(i, _)| used[*i]) {
        let code = found.names.code(point.code);
        let Some((path, offset)) = &code.place else { continue };
        let Some(module) = found.names.module_of(code.code) else {
            continue;
        };
        let Some(vaddr) = module.to_vaddr(*offset) else {
            continue;
        };
        let entry = module
            .function_at(*offset)
            .map_or(u64::MAX, |function| function.range.start);
        // A file may have been built again.
        let key = (path.as_bytes().to_vec(), Rc::as_ptr(&module), entry);
        let (_, members) = functions.entry(key).or_insert_with(|| (module.clone(), Members::new()));
        members.entry((vaddr, point.kind)).or_default().push(i);
    }
    let mut data = DataNames::new(found);
    for (module, members) in functions.values() {
        name_function(found, module, members, &mut data, &mut references);
    }
    references
}

/// What the data is called that points access, where it was allocated: `b` for `b (main.c:9)`.
#[derive(Default)]
struct DataNames {
    /// By point: a group of objects that it accesses.
    groups: HashMap<u32, u32>,
    names: HashMap<u32, Option<String>>,
}

impl DataNames {
    fn new(found: &Measured) -> DataNames {
        let known = found.keys.iter().filter(|key| key.group != Key::NONE);
        DataNames {
            groups: known.map(|key| (key.point.0, key.group)).collect(),
            names: HashMap::new(),
        }
    }

    fn name(&mut self, found: &Measured, point: usize) -> Option<String> {
        let group = *self.groups.get(&(point as u32))?;
        let name = || {
            let name = objects::named(found, group, &HashSet::new()).name;
            name.split_once(" (").map(|(variable, _)| variable.to_string())
        };
        self.names.entry(group).or_insert_with(name).clone()
    }
}

/// Of code that is of no file, several instructions may have been at one address: each is a
/// reference of its own.
fn number_instances(references: &mut [Reference]) {
    let mut seen: HashMap<(u64, Kind), u32> = HashMap::new();
    for reference in references.iter_mut().filter(|reference| reference.module.is_none()) {
        let next = seen.entry((reference.pc, reference.kind)).or_default();
        reference.instance = *next;
        *next += 1;
    }
}

fn name_function(
    found: &Measured,
    module: &Module<'static>,
    members: &Members,
    data: &mut DataNames,
    out: &mut [Reference],
) {
    let known = |kind: &Kind| matches!(kind, Kind::Read | Kind::Write);
    let seen: Vec<Seen> = members
        .iter()
        .filter(|((_, kind), _)| known(kind))
        .map(|(&(pc, kind), same)| {
            let first = same.iter().find_map(|&i| found.first.get(i).copied().flatten());
            Seen {
                pc,
                access: if kind == Kind::Write {
                    Access::Write
                } else {
                    Access::Read
                },
                target: match first.map(|first| target(first.pc, pc, module, first.address)) {
                    Some(Target::Object(None)) | None => Target::Object(same.iter().find_map(|&i| data.name(found, i))),
                    Some(target) => target,
                },
                lowest: first.map(|first| first.address),
            }
        })
        .collect();
    let named = found.names.symbols.references(module, &seen);
    let of = members.iter().filter(|((_, kind), _)| known(kind));
    for ((_, same), reference) in of.zip(named) {
        for &i in same {
            out[i].name.clone_from(&reference.name);
            out[i].source.clone_from(&reference.source);
            out[i].variable.clone_from(&reference.variable);
            out[i].certain = reference.certain;
        }
    }
}

/// What a point of a module accessed, by an address: the module's data are moved as its code is.
fn target(pc: u64, vaddr: u64, module: &Module<'static>, address: u64) -> Target {
    let at = address.wrapping_sub(pc.wrapping_sub(vaddr));
    let inside = |s: &memtrail_symbols::Segment| at.checked_sub(s.vaddr).is_some_and(|offset| offset < s.memsz);
    if module.segments().iter().any(inside) {
        return Target::Static(at);
    }
    // Where the kernel puts the first thread's stack; others are told by their instructions.
    const STACKS: u64 = 0x7ff0_0000_0000;
    if address >= STACKS {
        return Target::Stack;
    }
    Target::Object(None)
}
