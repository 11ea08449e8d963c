//! Names for instructions: functions, lines, modules.
//!
//! Looked up when they are first asked for, and kept. What has no name is called by its module and
//! offset, and why is remembered, for the report to say once.
use crate::files::Bundled;
use memtrail_decode::{Images, Module as File, Table};
use memtrail_report::format::base;
use memtrail_symbols::{Frame, Location, Module, Options, Reason, Store, Symbols};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

/// An instruction, as people know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Its code address: see [`Images`].
    pub code: u64,
    /// Where it was in memory first.
    pub pc: u64,
    /// The path of its file, and the offset there; nothing if it is of no file.
    pub place: Option<(Rc<str>, u64)>,
    /// What the file is called.
    pub called: Option<Rc<str>>,
    pub location: Location,
}

impl Code {
    /// What the file is called: its name, or more where several have that name.
    pub fn module(&self) -> Option<&str> {
        self.called.as_deref()
    }

    /// `module+offset`, or the address.
    pub fn address(&self) -> String {
        match (self.module(), &self.place) {
            (Some(module), Some((_, offset))) => format!("{module}+{offset:#x}"),
            _ => format!("{:#x}", self.pc),
        }
    }

    /// Where a user would look: file and line.
    pub fn line(&self) -> Option<(&str, u32)> {
        let frame = self.location.user_frame()?;
        Some((frame.file.as_deref()?, frame.line?))
    }

    /// The same instruction as each function sees it that it was inlined through, innermost first:
    /// each with one frame, of the instruction itself or of the call that was inlined. Of an
    /// instruction without frames, the instruction.
    pub fn inlined(&self) -> Vec<Code> {
        let frames = &self.location.frames;
        let outermost = frames.len().saturating_sub(1);
        let seen = |(at, frame): (usize, &Frame)| {
            let really = self.location.function.as_ref().filter(|_| at == outermost);
            let mut code = self.clone();
            code.location.function = frame.function.as_ref().or(really).cloned();
            code.location.frames = vec![frame.clone()];
            code
        };
        match frames.is_empty() {
            true => vec![self.clone()],
            false => frames.iter().enumerate().map(seen).collect(),
        }
    }

    /// The file without its directories, and the line.
    pub fn short_line(&self) -> Option<String> {
        let (file, line) = self.line()?;
        Some(format!("{}:{line}", base(file)))
    }

    /// The function that a user would call it: of inlined ones, the one whose line it is.
    pub fn function(&self) -> Option<&str> {
        let inlined = self.location.user_frame().and_then(|frame| frame.function.as_deref());
        inlined.or(self.location.function.as_deref())
    }

    /// The function, or the address if it has none.
    pub fn function_or_address(&self) -> String {
        self.function().map_or_else(|| self.address(), str::to_string)
    }

    /// `function (file:line)`, as far as it is known.
    pub fn described(&self) -> String {
        match (self.function(), self.short_line()) {
            (Some(function), Some(line)) => format!("{function} ({line})"),
            (Some(function), None) => format!("{function} ({})", self.address()),
            (None, Some(line)) => line,
            (None, None) => self.address(),
        }
    }
}

/// What files are called: each by its name, those that share it by their paths, and those that
/// share even that, because a file was built again, by path and build id.
fn called(files: &[File]) -> HashMap<File, Rc<str>> {
    let path = |file: &File| String::from_utf8_lossy(&file.path).into_owned();
    let with_id = |file: &File| {
        let id = file.build_id.iter().flatten().take(4);
        format!(
            "{}@{}",
            path(file),
            id.map(|byte| format!("{byte:02x}")).collect::<String>()
        )
    };
    let called = |file: &File| {
        let others = || files.iter().filter(|other| *other != file);
        let text = match (
            others().any(|other| other.name() == file.name()),
            others().any(|other| other.path == file.path),
        ) {
            (_, true) => with_id(file),
            (true, _) => path(file),
            _ => file.name(),
        };
        (file.clone(), text.into())
    };
    files.iter().map(called).collect()
}

/// Names of everything in a recording.
pub struct Names {
    pub symbols: Symbols<'static>,
    images: Images,
    build_ids: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// What files are called.
    called: HashMap<File, Rc<str>>,
    /// By code address.
    codes: RefCell<HashMap<u64, Rc<Code>>>,
    /// Modules that are not there, or not as they were.
    missing: RefCell<BTreeSet<String>>,
}

impl Names {
    pub fn new(table: &Table, options: Options) -> Names {
        let images = table.images().clone();
        let files = images.modules().iter().filter(|module| module.path.starts_with(b"/"));
        let build_ids = files.map(|file| (file.path.clone(), file.build_id.clone())).collect();
        // As long as the program runs there is something to name.
        let store: &'static Store = Box::leak(Box::default());
        Names {
            symbols: Symbols::new(store, Box::new(Bundled), options),
            called: called(images.modules()),
            images,
            build_ids,
            codes: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// The paths of all modules.
    pub fn modules(&self) -> impl Iterator<Item = &[u8]> {
        self.build_ids.keys().map(Vec::as_slice)
    }

    pub fn module(&self, path: &[u8]) -> Option<Rc<Module<'static>>> {
        let build_id = self.build_ids.get(path).and_then(Option::as_deref);
        self.open(path, build_id)
    }

    /// The module of a file, if that is the one with this build id.
    fn open(&self, path: &[u8], build_id: Option<&[u8]>) -> Option<Rc<Module<'static>>> {
        match self.symbols.module(path, build_id) {
            Ok(module) => Some(module),
            Err(reason) => {
                self.miss(path, &reason);
                None
            }
        }
    }

    fn miss(&self, path: &[u8], reason: &Reason) {
        let path = String::from_utf8_lossy(path);
        if !path.starts_with('/') || path.starts_with("/memfd:") {
            return;
        }
        self.missing.borrow_mut().insert(format!("{}: {reason}", base(&path)));
    }

    /// Why some names are missing.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = self.missing.borrow().clone();
        for code in self.codes.borrow().values() {
            // A single address that nothing covers is no news.
            match (code.module(), &code.location.reason) {
                (_, Some(Reason::NotCovered | Reason::NoSymbolHere | Reason::NotLoaded(_))) => {}
                (Some(module), Some(reason)) => drop(reasons.insert(format!("{module}: {reason}"))),
                _ => {}
            }
        }
        reasons.extend(self.missing_sources());
        reasons.into_iter().collect()
    }

    /// By module: sources that were looked for in vain.
    fn missing_sources(&self) -> Vec<String> {
        let mut missing: BTreeMap<String, BTreeMap<String, Reason>> = BTreeMap::new();
        for code in self.codes.borrow().values() {
            let Some((module, (file, _))) = code.module().zip(code.line()) else {
                continue;
            };
            if let Some(reason) = self.symbols.source_missing(file) {
                missing.entry(module.into()).or_default().insert(file.into(), reason);
            }
        }
        let told = |(module, files): (String, BTreeMap<String, Reason>)| {
            let first = files.values().next()?;
            let others = match files.len() - 1 {
                0 => String::new(),
                others => format!(", nor {others} other sources"),
            };
            Some(format!("{module}: {first}{others}"))
        };
        missing.into_iter().filter_map(told).collect()
    }

    /// The instruction at a code address.
    pub fn code(&self, code: u64) -> Rc<Code> {
        if let Some(known) = self.codes.borrow().get(&code) {
            return known.clone();
        }
        let found = Rc::new(self.find(code));
        self.codes.borrow_mut().insert(code, found.clone());
        found
    }

    fn find(&self, code: u64) -> Code {
        let place = self.images.place(code);
        let file = place.file();
        let module = self.module_of(code);
        Code {
            code,
            pc: self.images.address(code),
            place: file.map(|file| (String::from_utf8_lossy(&file.path).into(), place.offset)),
            called: file.and_then(|file| self.called.get(file)).cloned(),
            location: module.map_or_else(Location::default, |module| module.locate(place.offset)),
        }
    }

    /// What is known of the file that code is of.
    pub fn module_of(&self, code: u64) -> Option<Rc<Module<'static>>> {
        let file = self
            .images
            .place(code)
            .file()
            .filter(|file| file.path.starts_with(b"/"))?;
        self.open(&file.path, file.build_id.as_deref())
    }
}

impl Names {
    /// Where functions of this name lie around the given instructions, as code addresses. Of a
    /// function that was inlined, these are the instructions themselves.
    pub fn function_ranges(&self, name: &str, codes: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for code in codes {
            if ranges.iter().any(|range| range.contains(&code)) {
                continue;
            }
            let Some(module) = self.module_of(code) else {
                continue;
            };
            let offset = self.images.place(code).offset;
            let Some(function) = module.function_at(offset) else {
                continue;
            };
            if let (true, Some(vaddr)) = (function.name.as_deref() == Some(name), module.to_vaddr(offset)) {
                let moved = code.wrapping_sub(vaddr);
                ranges.push(function.range.start.wrapping_add(moved)..function.range.end.wrapping_add(moved));
                continue;
            }
            let frames = &self.code(code).location.frames;
            if frames.iter().any(|frame| frame.function.as_deref() == Some(name)) {
                ranges.push(code..code.wrapping_add(1));
            }
        }
        ranges
    }
}
