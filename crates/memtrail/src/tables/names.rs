//! Names for instructions: functions, lines, modules.
//!
//! Looked up when they are first asked for, and kept. What has no name is called by its module and offset, and why is remembered, for the
//! report to say once.
use memtrail_decode::Message;
use memtrail_report::format::base;
use memtrail_symbols::{Disk, Frame, Location, Module, Options, Reason, Store, Symbols};
use memtrail_trace::{Known, Places};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

/// An instruction, as people know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    pub pc: u64,
    /// The path of its file, and the offset there; nothing if it is of no file.
    pub place: Option<(Rc<str>, u64)>,
    pub location: Location,
}

impl Code {
    /// The file's name.
    pub fn module(&self) -> Option<&str> {
        let (path, _) = self.place.as_ref()?;
        path.rsplit('/').next()
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

    /// The same instruction as each function sees it that it was inlined through, innermost first: each with one frame, of the instruction itself or of the call that was
    /// inlined. Of an instruction without frames, the instruction.
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

/// Names of everything in a recording.
pub struct Names {
    pub symbols: Symbols<'static>,
    places: Places,
    build_ids: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    codes: RefCell<HashMap<u64, Rc<Code>>>,
    /// Modules that are not there, or not as they were.
    missing: RefCell<BTreeSet<String>>,
}

impl Names {
    pub fn new(known: &Known, options: Options) -> Names {
        let modules = known.modules.iter().cloned();
        let build_ids = modules.map(|module| (module.path, module.build_id)).collect();
        Names::of(Places::new(known), build_ids, options)
    }

    /// Of a program that was not recorded: what its processes told. Its files are taken for what they were just now.
    pub fn of_messages(messages: &[(u32, Message)], options: Options) -> Names {
        let mut places = Places::default();
        for (process, message) in messages {
            places.learn(*process, message);
        }
        Names::of(places, BTreeMap::new(), options)
    }

    fn of(places: Places, build_ids: BTreeMap<Vec<u8>, Option<Vec<u8>>>, options: Options) -> Names {
        // As long as the program runs there is something to name.
        let store: &'static Store = Box::leak(Box::default());
        Names {
            symbols: Symbols::new(store, Box::new(Disk), options),
            places,
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

    /// The instruction at an address.
    pub fn code(&self, pc: u64) -> Rc<Code> {
        if let Some(code) = self.codes.borrow().get(&pc) {
            return code.clone();
        }
        let code = Rc::new(self.find(pc));
        self.codes.borrow_mut().insert(pc, code.clone());
        code
    }

    /// The code of an instruction, if it is in a file.
    pub fn bytes(&self, pc: u64, bytes: u64) -> Option<&'static [u8]> {
        let place = self.places.find_anywhere(pc).ok()?;
        let module = place
            .path
            .starts_with(b"/")
            .then(|| self.module(place.path))
            .flatten()?;
        let code = module.code_at(module.to_vaddr(place.offset)?, bytes)?;
        (code.len() as u64 == bytes).then_some(code)
    }

    fn find(&self, pc: u64) -> Code {
        let Ok(place) = self.places.find_anywhere(pc) else {
            return Code { pc, ..Code::default() };
        };
        let location = match place.path.starts_with(b"/").then(|| self.module(place.path)).flatten() {
            Some(module) => module.locate(place.offset),
            None => Location::default(),
        };
        Code {
            pc,
            place: Some((String::from_utf8_lossy(place.path).into(), place.offset)),
            location,
        }
    }
}

impl Names {
    /// Where functions of this name lie around the given instructions. Of a function that was inlined, these are the instructions themselves.
    pub fn function_ranges(&self, name: &str, pcs: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for pc in pcs {
            if ranges.iter().any(|range| range.contains(&pc)) {
                continue;
            }
            let Ok(place) = self.places.find_anywhere(pc) else {
                continue;
            };
            let Some(module) = self.module(place.path) else {
                continue;
            };
            let Some(function) = module.function_at(place.offset) else {
                continue;
            };
            let vaddr = module.to_vaddr(place.offset);
            if let (true, Some(vaddr)) = (function.name.as_deref() == Some(name), vaddr) {
                let moved = pc.wrapping_sub(vaddr);
                ranges.push(function.range.start.wrapping_add(moved)..function.range.end.wrapping_add(moved));
                continue;
            }
            let frames = &self.code(pc).location.frames;
            if frames.iter().any(|frame| frame.function.as_deref() == Some(name)) {
                ranges.push(pc..pc.wrapping_add(1));
            }
        }
        ranges
    }
}
