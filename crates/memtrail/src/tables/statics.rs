//! Where variables are: those of each module, from the moment it is mapped.
//!
//! **Problem.** A module's data is mapped in pieces: what comes from the file, then, over its end
//! or behind it, memory that begins as zeros. Where the module ended up is known when the first
//! piece is mapped.
//!
//! **Idea.** A piece that comes from a file tells how far the module was moved. That is kept for
//! each address space, and whatever is mapped where a known module's data belongs has its
//! variables.
use super::names::Names;
use memtrail_analyze::objects::{Kind, Objects};
use memtrail_analyze::tagger::{self, ThreadLocal};
use memtrail_model::Note;
use memtrail_report::format::base;
use memtrail_symbols::{Module, Place, Segment, Tls, Type};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// What is known of a variable.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    /// The path of its module.
    pub module: Rc<str>,
    /// Where the linker put it; nothing if every thread has its own, or if it is the rest of the
    /// module's data.
    pub vaddr: Option<u64>,
    pub bytes: u64,
    pub ty: Option<Rc<Type>>,
}

/// A variable in its module.
#[derive(Clone, Copy, Debug)]
struct Located {
    vaddr: u64,
    bytes: u64,
    group: u32,
}

/// A module that has variables.
#[derive(Debug)]
struct Image {
    segments: Vec<Segment>,
    /// The group of what is in no variable.
    rest: u32,
    /// By address, larger ones first.
    variables: Vec<Located>,
}

/// The variables of all modules.
#[derive(Debug, Default)]
pub struct Statics {
    images: HashMap<Vec<u8>, Rc<Image>>,
    /// By group of objects.
    pub variables: BTreeMap<u32, Variable>,
    /// Larger ones before those in them.
    pub thread_local: Vec<ThreadLocal>,
}

/// What the C library keeps behind the base of a thread's own memory.
const CONTROL_BLOCK: u64 = 2304;

impl Statics {
    /// Asks all modules for their variables, and gives each a group. `program` is the path of the
    /// executable.
    pub fn new(names: &Names, program: &[u8], objects: &mut Objects) -> Statics {
        let mut statics = Statics::default();
        let mut before = 0;
        let paths: Vec<Vec<u8>> = names.modules().map(<[u8]>::to_vec).collect();
        for path in paths.iter().filter(|path| path.starts_with(b"/")) {
            let Some(module) = names.module(path) else { continue };
            statics.add(path, &module, path == program, objects);
            let tls = module.tls();
            before += tls.map_or(0, |tls| tls.memsz.next_multiple_of(tls.align.max(1)));
        }
        let all = ThreadLocal {
            offset: -(before as i64),
            bytes: before + CONTROL_BLOCK,
            group: objects.new_group(Kind::ThreadLocal),
        };
        statics.thread_local.insert(0, all);
        statics
    }

    fn add(&mut self, path: &[u8], module: &Module<'_>, is_program: bool, objects: &mut Objects) {
        let shown: Rc<str> = String::from_utf8_lossy(path).into();
        let mut variables = Vec::new();
        for variable in module.variables().iter().filter(|variable| variable.size > 0) {
            let kind = match variable.place {
                Place::Static(_) => Kind::Static,
                Place::Tls(_) if is_program => Kind::ThreadLocal,
                Place::Tls(_) => continue,
            };
            let group = objects.new_group(kind);
            let about = Variable {
                name: variable.name.clone(),
                module: shown.clone(),
                vaddr: match variable.place {
                    Place::Static(vaddr) => Some(vaddr),
                    Place::Tls(_) => None,
                },
                bytes: variable.size,
                ty: variable.ty.clone(),
            };
            self.variables.insert(group, about);
            let bytes = variable.size;
            match variable.place {
                Place::Static(vaddr) => variables.push(Located { vaddr, bytes, group }),
                Place::Tls(offset) => {
                    let begin = module.tls().as_ref().map_or(0, Tls::executable_offset);
                    self.thread_local.push(ThreadLocal {
                        offset: begin.wrapping_add(offset as i64),
                        bytes,
                        group,
                    });
                }
            }
        }
        variables.sort_by_key(|v| (v.vaddr, std::cmp::Reverse(v.bytes)));
        let rest = objects.new_group(Kind::Static);
        let about = Variable {
            name: format!("[data of {}]", base(&shown)),
            module: shown.clone(),
            vaddr: None,
            bytes: module.segments().iter().filter(|s| s.writable).map(|s| s.memsz).sum(),
            ty: None,
        };
        self.variables.insert(rest, about);
        let image = Image {
            segments: module.segments().to_vec(),
            rest,
            variables,
        };
        self.images.insert(path.to_vec(), Rc::new(image));
    }

    /// For a [`tagger::Tagger`]: which variables a mapping brings. `path` gives the text of a
    /// mapping's source.
    pub fn watch(&self, path: impl Fn(u32) -> Option<Vec<u8>> + 'static) -> tagger::Variables {
        let images = self.images.clone();
        // By address space: modules that are there, and how far they were moved.
        let mut loaded: HashMap<u32, Vec<(u64, Rc<Image>)>> = HashMap::new();
        Box::new(move |space, note| {
            let &Note::Map {
                address,
                bytes,
                protection,
                source,
                offset,
            } = note
            else {
                return Vec::new();
            };
            let here = loaded.entry(space).or_default();
            if let Some(image) = path(source).and_then(|path| images.get(&path)) {
                let known: Vec<u64> = here
                    .iter()
                    .filter(|(_, other)| Rc::ptr_eq(other, image))
                    .map(|(at, _)| *at)
                    .collect();
                let moved = image.moved(address, offset, protection, &known);
                if let Some(moved) = moved.filter(|moved| !known.contains(moved)) {
                    here.push((moved, image.clone()));
                }
            }
            let end = address.saturating_add(bytes);
            here.iter()
                .flat_map(|(moved, image)| image.between(*moved, address, end))
                .collect()
        })
    }
}

impl Image {
    /// How far the module was moved, if this piece of its file is mapped here. The same page of a
    /// file may be mapped for two segments: the one that agrees with what is `known`, or else with
    /// the protection, is meant.
    fn moved(&self, address: u64, offset: u64, protection: u32, known: &[u64]) -> Option<u64> {
        const PAGE: u64 = 4096;
        let begins = |s: &&Segment| s.offset & !(PAGE - 1) == offset;
        let moved = |s: &Segment| address.wrapping_add(s.offset - offset).wrapping_sub(s.vaddr);
        let agrees = |s: &&Segment| {
            let protected = (s.writable, s.executable);
            protected == (protection & 2 != 0, protection & 4 != 0)
        };
        let all = || self.segments.iter().filter(begins);
        let one = all()
            .find(|s| known.contains(&moved(s)))
            .or_else(|| all().find(agrees))
            .or_else(|| all().next())?;
        Some(moved(one))
    }

    /// The variables that have something in a range, and what of them.
    fn between(&self, moved: u64, start: u64, end: u64) -> Vec<tagger::Variable> {
        let lies = |v: &&Located| {
            let at = v.vaddr.wrapping_add(moved);
            at < end && at.saturating_add(v.bytes) > start
        };
        let placed = |v: &Located| {
            let at = v.vaddr.wrapping_add(moved);
            let address = at.max(start);
            tagger::Variable {
                address,
                bytes: at.saturating_add(v.bytes).min(end) - address,
                group: v.group,
            }
        };
        let data = self.segments.iter().filter(|s| s.writable).map(|s| Located {
            vaddr: s.vaddr,
            bytes: s.memsz,
            group: self.rest,
        });
        let data: Vec<Located> = data.collect();
        data.iter().chain(&self.variables).filter(lies).map(placed).collect()
    }
}
