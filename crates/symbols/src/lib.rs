//! Names for addresses, from ELF and DWARF.
//!
//! **Problem.** A recording knows instructions as offsets in files and data as addresses. People
//! know functions, lines, variables and the expressions that they wrote.
//!
//! **Idea.** Names are looked up late, in the files that were recorded or in their debug
//! information, wherever that is, and only for what is asked about. Each answer is the best there
//! is, with a [`Reason`] if it is not the whole one: lines need debug information, functions at
//! least symbols.
//!
//! **Caller's duties.** A [`Store`] outlives the [`Symbols`]. Addresses in questions are those that
//! the linker gave ([`Module::to_vaddr`]), not those at which a module ran.
//!
//! **Invariants.** I/O is behind [`Files`] alone. No input makes this panic or allocate out of
//! proportion to its size.
//!
//! Not for: recordings, reports, or finding out what is mapped where.
//!
//! ```no_run
//! let store = memtrail_symbols::Store::default();
//! let symbols = memtrail_symbols::Symbols::new(&store, Box::new(memtrail_symbols::Disk), Default::default());
//! let module = symbols.module(b"/usr/bin/gzip", None).expect("gzip");
//! println!("{:?}", module.locate(0x4321));
//! ```
#![forbid(unsafe_code)]

pub mod code;
mod debug;
mod demangle;
mod elf;
mod find;
mod frames;
pub mod loads;
mod locals;
mod module;
mod naming;
mod reason;
pub mod reference;
pub mod scan;
mod types;
mod variables;
mod wrappers;

pub use demangle::demangle;
pub use elf::{Input, Segment, Store, Tls};
pub use find::{Disk, Files, Options};
pub use frames::{Cfa, RBP, RSP};
pub use locals::{Home, Local};
pub use module::{Frame, Function, Location, Module};
pub use naming::{Seen, Target};
pub use reason::{BuildId, Reason};
pub use types::{Dim, Field, Pointee, Shape, Type};
pub use variables::{Place, Variable};

use find::Search;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// The path and the build id of a module.
type Recorded = (Vec<u8>, Option<Vec<u8>>);
type Opened<'s> = Result<Rc<Module<'s>>, Reason>;

/// All modules of a recording.
pub struct Symbols<'s> {
    search: Rc<Search<'s>>,
    modules: RefCell<HashMap<Recorded, Opened<'s>>>,
    sources: RefCell<HashMap<String, Result<Rc<str>, Reason>>>,
}

impl<'s> Symbols<'s> {
    pub fn new(store: &'s Store, files: Box<dyn Files>, options: Options) -> Symbols<'s> {
        let search = Search { store, files, options };
        Symbols {
            search: Rc::new(search),
            modules: RefCell::default(),
            sources: RefCell::default(),
        }
    }

    /// A module by the path and the build id it was recorded with.
    pub fn module(&self, path: &[u8], build_id: Option<&[u8]>) -> Opened<'s> {
        let key = (path.to_vec(), build_id.map(<[u8]>::to_vec));
        if let Some(known) = self.modules.borrow().get(&key) {
            return known.clone();
        }
        let elf = self.search.module(path, build_id);
        let opened = elf.map(|elf| Rc::new(Module::new(self.search.clone(), elf)));
        self.modules.borrow_mut().insert(key, opened.clone());
        opened
    }

    /// The text of a source file.
    pub fn source(&self, path: &str) -> Result<Rc<str>, Reason> {
        if let Some(known) = self.sources.borrow().get(path) {
            return known.clone();
        }
        let text = self.search.source(Path::new(path)).map(Rc::from);
        self.sources.borrow_mut().insert(path.to_string(), text.clone());
        text
    }

    /// Why a source that was asked for could not be read, if so.
    pub fn source_missing(&self, path: &str) -> Option<Reason> {
        self.sources.borrow().get(path)?.as_ref().err().cloned()
    }
}
