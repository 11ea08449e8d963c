//! What reference points are called, after METRIC: `xz_Read_1` for `xz[k][j]`.
use super::names::{base, Code};
use super::run::Found;
use memtrail_model::Kind;
use memtrail_symbols::reference::Access;
use memtrail_symbols::{Module, Seen, Target};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A reference point, as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub pc: u64,
    /// `xz_Read_1`.
    pub name: String,
    /// `xz[k][j]`.
    pub source: Option<String>,
    /// Nothing had to be guessed.
    pub certain: bool,
    /// The variable and the way into it: `xz[][]`.
    pub variable: Option<String>,
    pub function: Option<String>,
    pub line: Option<(String, u32)>,
    pub module: Option<String>,
    pub offset: u64,
    pub kind: Kind,
}

impl Default for Reference {
    fn default() -> Reference {
        Reference {
            pc: 0,
            name: String::new(),
            source: None,
            certain: false,
            variable: None,
            function: None,
            line: None,
            module: None,
            offset: 0,
            kind: Kind::Read,
        }
    }
}

impl Reference {
    fn of(code: &Code, pc: u64, kind: Kind) -> Reference {
        let word = match kind {
            Kind::Read => "Read",
            Kind::Write => "Write",
            Kind::Prefetch => "Prefetch",
            Kind::Fetch => "Fetch",
        };
        Reference {
            pc,
            name: format!("{}_{word}", code.address()),
            source: None,
            certain: false,
            variable: None,
            function: code.function().map(str::to_string),
            line: code.line().map(|(file, line)| (file.to_string(), line)),
            module: code.module().map(str::to_string),
            offset: code.place.as_ref().map_or(code.pc, |place| place.1),
            kind,
        }
    }

    /// File and line, or module and offset.
    pub fn place(&self) -> String {
        match (&self.line, &self.module) {
            (Some((file, line)), _) => format!("{}:{line}", base(file)),
            (None, Some(module)) => format!("{module}+{:#x}", self.offset),
            (None, None) => format!("{:#x}", self.pc),
        }
    }
}

/// Points of one function of one module, by address.
type Members = BTreeMap<(u64, Kind), Vec<usize>>;

/// The names of these points, in their order. They are counted by function, in the order of its code.
pub fn names(found: &Found, points: &[u32]) -> Vec<Reference> {
    let info = |i: usize| found.points[points[i] as usize];
    let mut references: Vec<Reference> = (0..points.len())
        .map(|i| Reference::of(&found.names.code(info(i).code), info(i).pc, info(i).kind))
        .collect();
    let mut functions: BTreeMap<_, (Rc<Module<'static>>, Members)> = BTreeMap::new();
    for i in 0..points.len() {
        let code = found.names.code(info(i).code);
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
        members.entry((vaddr, info(i).kind)).or_default().push(i);
    }
    for (module, members) in functions.values() {
        name_function(found, points, module, members, &mut references);
    }
    references
}

fn name_function(found: &Found, points: &[u32], module: &Module<'static>, members: &Members, out: &mut [Reference]) {
    let known = |kind: &Kind| matches!(kind, Kind::Read | Kind::Write);
    let seen: Vec<Seen> = members
        .iter()
        .filter(|((_, kind), _)| known(kind))
        .map(|(&(pc, kind), same)| {
            let first = same
                .iter()
                .find_map(|&i| found.first.get(points[i] as usize).copied().flatten());
            Seen {
                pc,
                access: if kind == Kind::Write {
                    Access::Write
                } else {
                    Access::Read
                },
                target: first.map_or(Target::Object(None), |first| {
                    target(first.pc, pc, module, first.address)
                }),
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
