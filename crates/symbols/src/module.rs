//! One program or library: everything that can be asked about an address in it.
use crate::code::{self, Operand};
use crate::debug::{is_fortran, Debug, Die, FileIndex, UnitKey};
use crate::demangle::{demangle, fortran};
use crate::elf::{Elf, Segment, Symbol, SymbolKind, Tls};
use crate::find::Search;
use crate::frames::{Cfa, Unwind};
use crate::locals::{self, Body, Home, Instruction, Local, Piece, Scope};
use crate::reason::{BuildId, Reason};
use crate::types::{Pointee, Type, Types};
use crate::variables::{self, Place, Variable};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// A function that an instruction is in, and the line it was made from. Of functions that were
/// inlined, the line is the callee's, and the next frame's that of the call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// From 1.
    pub column: Option<u32>,
}

impl Frame {
    /// Is this code of a compiler's or a library's header, rather than the user's?
    pub fn is_library(&self) -> bool {
        let places = [
            "/usr/include/",
            "/usr/lib/",
            "/rustc/",
            "/rustlib/src/",
            "/.cargo/registry/",
            "/usr/local/include/",
        ];
        self.file
            .as_deref()
            .is_some_and(|file| places.iter().any(|place| file.contains(place)))
    }
}

/// What is known about an instruction's origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The function that is really there: the outermost frame's.
    pub function: Option<String>,
    /// Innermost first; empty if no line is known.
    pub frames: Vec<Frame>,
    /// Why there is no line, or no function.
    pub reason: Option<Reason>,
}

impl Location {
    /// The frame that a user would look for: the innermost that is not of a library, or else the
    /// innermost.
    pub fn user_frame(&self) -> Option<&Frame> {
        let own = self
            .frames
            .iter()
            .find(|frame| frame.file.is_some() && !frame.is_library());
        own.or(self.frames.first())
    }
}

/// A function, and the piece of code around the address asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// `None`: there is a function, by the unwind tables, but it has no name.
    pub name: Option<String>,
    /// Addresses as the linker gave them.
    pub range: Range<u64>,
}

/// Symbols, and how good a table they are from.
struct Table<'s> {
    /// By address.
    functions: Vec<Symbol<'s>>,
    variables: Vec<Symbol<'s>>,
    /// Why it is not the full table.
    reason: Option<Reason>,
}

/// A unit, by file and offset.
type UnitInFile = (FileIndex, UnitKey);

/// A program or library. Everything is looked up when it is first asked for, and kept.
pub struct Module<'s> {
    search: Rc<Search<'s>>,
    elf: Elf<'s>,
    debug_elf: OnceCell<Result<Elf<'s>, Option<Reason>>>,
    debug: OnceCell<Result<Debug<'s>, Reason>>,
    table: OnceCell<Table<'s>>,
    types: Types,
    variables: OnceCell<Vec<Variable>>,
    unwind: OnceCell<Unwind<'s>>,
    /// Functions by unit.
    pieces: RefCell<HashMap<UnitInFile, Rc<Vec<Piece>>>>,
    /// What functions have in their frames.
    bodies: RefCell<HashMap<Die, Option<Rc<Body<'s>>>>>,
}

impl std::fmt::Debug for Module<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({})", self.elf.path.display())
    }
}

impl<'s> Module<'s> {
    pub(crate) fn new(search: Rc<Search<'s>>, elf: Elf<'s>) -> Module<'s> {
        Module {
            search,
            elf,
            debug_elf: OnceCell::new(),
            debug: OnceCell::new(),
            table: OnceCell::new(),
            types: Types::default(),
            variables: OnceCell::new(),
            unwind: OnceCell::new(),
            pieces: RefCell::default(),
            bodies: RefCell::default(),
        }
    }

    /// Where the file was found.
    pub fn path(&self) -> &Path {
        &self.elf.path
    }

    pub fn build_id(&self) -> &BuildId {
        &self.elf.build_id
    }

    /// What is loaded, in the order of the file. A module runs at these addresses and a bias: that
    /// of a mapping's begin is its address, less the `vaddr` that its file offset has here.
    pub fn segments(&self) -> &[Segment] {
        &self.elf.segments
    }

    pub fn tls(&self) -> Option<Tls> {
        self.elf.tls
    }

    /// The address of a byte of the file.
    pub fn to_vaddr(&self, offset: u64) -> Option<u64> {
        let inside = |s: &&Segment| offset.checked_sub(s.offset).is_some_and(|at| at < s.filesz);
        let loaded: Vec<&Segment> = self.elf.segments.iter().filter(inside).collect();
        // Pages at the border of two segments are mapped twice; code is what is asked for most.
        let segment = loaded.iter().find(|s| s.executable).or(loaded.first())?;
        segment.vaddr.checked_add(offset - segment.offset)
    }

    /// Is an address in a segment that the program may write?
    pub fn is_writable(&self, vaddr: u64) -> bool {
        let inside = |s: &Segment| vaddr.checked_sub(s.vaddr).is_some_and(|at| at < s.memsz);
        self.elf.segments.iter().any(|s| s.writable && inside(s))
    }

    /// What had to be done without: debug files that were refused, split units that are missing.
    pub fn reasons(&self) -> Vec<Reason> {
        let mut reasons = Vec::new();
        match self.debug() {
            Ok(debug) => reasons.extend(debug.reasons.borrow().iter().cloned()),
            Err(why) => reasons.push(why.clone()),
        }
        reasons.extend(self.table().reason.clone());
        reasons
    }

    /// The file with debug information and the full symbol table, if that is another one.
    fn debug_elf(&self) -> Option<&Elf<'s>> {
        let found = self.debug_elf.get_or_init(|| match self.elf.has(".debug_info") {
            true => Err(None),
            false => self.search.debug_file(&self.elf),
        });
        found.as_ref().ok()
    }

    fn debug(&self) -> Result<&Debug<'s>, &Reason> {
        let debug = self.debug.get_or_init(|| {
            let elf = self.debug_elf().unwrap_or(&self.elf);
            if !elf.has(".debug_info") {
                let refused = self.debug_elf.get().and_then(|found| found.as_ref().err()?.clone());
                return Err(refused.unwrap_or(Reason::NoDebugInfo));
            }
            Debug::new(&self.search, &self.elf, elf)
        });
        debug.as_ref()
    }

    fn table(&self) -> &Table<'s> {
        self.table.get_or_init(|| {
            let (symbols, reason) = self.symbols();
            let of = |function: bool| {
                let wanted = symbols.iter().filter(|s| (s.kind == SymbolKind::Function) == function);
                let mut wanted: Vec<Symbol<'s>> = wanted.copied().collect();
                wanted.sort_by_key(|s| (s.value, s.size, s.global));
                wanted
            };
            let (functions, variables) = (of(true), of(false));
            Table {
                functions,
                variables,
                reason,
            }
        })
    }

    fn symbols(&self) -> (Vec<Symbol<'s>>, Option<Reason>) {
        for elf in [Some(&self.elf), self.debug_elf()].into_iter().flatten() {
            let symbols = elf.symbols(".symtab");
            if !symbols.is_empty() {
                return (symbols, None);
            }
        }
        let mut symbols = self.elf.symbols(".dynsym");
        let mut reason = if symbols.is_empty() {
            Reason::NoSymbols
        } else {
            Reason::Stripped
        };
        match self.elf.mini() {
            Some(Ok(mini)) => {
                symbols.extend(mini.symbols(".symtab"));
                return (symbols, None);
            }
            Some(Err(why)) => reason = why,
            None => {}
        }
        (symbols, Some(reason))
    }

    /// Function, lines and inlined functions for a byte of the file.
    pub fn locate(&self, offset: u64) -> Location {
        match self.to_vaddr(offset) {
            Some(pc) => self.locate_vaddr(pc),
            None => Location {
                reason: Some(Reason::NotLoaded(offset)),
                ..Location::default()
            },
        }
    }

    /// [`Module::locate`], by address.
    pub fn locate_vaddr(&self, pc: u64) -> Location {
        let (frames, why) = match self.debug() {
            Ok(debug) => (
                self.frames(debug, pc),
                debug.reasons.borrow().first().cloned().unwrap_or(Reason::NotCovered),
            ),
            Err(why) => (Vec::new(), why.clone()),
        };
        let outermost = frames.last().and_then(|frame| frame.function.clone());
        let function = outermost.or_else(|| self.symbol(pc).map(|s| demangle(s.name)));
        let has_line = frames.first().is_some_and(|frame| frame.line.is_some());
        let reason = match (has_line, &function) {
            (true, _) => None,
            (false, Some(_)) => Some(match (&self.table().reason, &why) {
                (Some(stripped), Reason::NoDebugInfo) => stripped.clone(),
                _ => why,
            }),
            (false, None) => Some(match (&self.table().reason, why) {
                (Some(table), Reason::NoDebugInfo) => table.clone(),
                (None, Reason::NoDebugInfo) => Reason::NoSymbolHere,
                (_, why) => why,
            }),
        };
        Location {
            function,
            frames,
            reason,
        }
    }

    fn frames(&self, debug: &Debug<'s>, pc: u64) -> Vec<Frame> {
        const MOST: usize = 256;
        let mut frames = Vec::new();
        let Ok(mut found) = debug.drive(debug.context.find_frames(pc)) else {
            return frames;
        };
        while let Ok(Some(frame)) = found.next() {
            let function = frame.function.map(|name| match is_fortran(name.language) {
                false => demangle(name.name.slice()),
                true => self.fortran_name(debug, pc, frame.dw_die_offset, name.name.slice()),
            });
            let location = frame.location;
            frames.push(Frame {
                function,
                file: location.as_ref().and_then(|l| l.file).map(str::to_string),
                line: location.as_ref().and_then(|l| l.line).filter(|&line| line > 0),
                column: location.as_ref().and_then(|l| l.column).filter(|&column| column > 0),
            });
            if frames.len() == MOST {
                break;
            }
        }
        frames
    }

    /// The name in the source: of a main program, the symbol does not even resemble it.
    fn fortran_name(&self, debug: &Debug<'s>, pc: u64, at: Option<gimli::UnitOffset>, linkage: &[u8]) -> String {
        let name = fortran(linkage);
        if name.contains("::") {
            return name;
        }
        let source = || {
            let unit = debug.unit_at(pc)?;
            let entry = unit.unit.entry(at?).ok()?;
            locals::name_of(debug, &unit, &entry, gimli::DW_AT_name)
        };
        source().unwrap_or(name)
    }

    fn symbol(&self, pc: u64) -> Option<&Symbol<'s>> {
        let functions = &self.table().functions;
        let end = functions.partition_point(|s| s.value <= pc);
        // Aliases, and functions with a part elsewhere, lie close by.
        const BACK: usize = 16;
        let before = functions[..end].iter().rev().take(BACK);
        before.clone().find(|s| pc - s.value < s.size).or_else(|| {
            // Assembler code does not tell sizes: such a symbol reaches to the next one.
            before.clone().next().filter(|s| s.size == 0)
        })
    }

    /// The function around a byte of the file.
    pub fn function_at(&self, offset: u64) -> Option<Function> {
        self.function_at_vaddr(self.to_vaddr(offset)?)
    }

    /// [`Module::function_at`], by address.
    pub fn function_at_vaddr(&self, pc: u64) -> Option<Function> {
        if let Some((debug, piece)) = self.piece(pc) {
            let frames = self.frames(debug, pc);
            if let Some(name) = frames.last().and_then(|frame| frame.function.clone()) {
                return Some(Function {
                    name: Some(name),
                    range: piece.begin..piece.end,
                });
            }
        }
        let around = || self.unwind().range(pc);
        if let Some(symbol) = self.symbol(pc) {
            let range = match symbol.size {
                0 => around().unwrap_or(symbol.value..pc + 1),
                size => symbol.value..symbol.value.saturating_add(size),
            };
            let name = Some(demangle(symbol.name));
            return Some(Function { name, range });
        }
        around().map(|range| Function { name: None, range })
    }

    /// The function that has an instruction, by debug information.
    fn piece(&self, pc: u64) -> Option<(&Debug<'s>, Piece)> {
        let debug = self.debug().ok()?;
        let unit = debug.unit_at(pc)?;
        let key = (unit.file, UnitKey::of(&unit.unit.header));
        let known = self.pieces.borrow().get(&key).cloned();
        let pieces = known.unwrap_or_else(|| {
            let found = Rc::new(locals::functions(&unit));
            self.pieces.borrow_mut().insert(key, found.clone());
            found
        });
        let end = pieces.partition_point(|piece| piece.begin <= pc);
        // Functions within functions share code with nobody; damaged information may claim so.
        pieces[..end]
            .iter()
            .rev()
            .take(16)
            .find(|piece| pc < piece.end)
            .map(|&piece| (debug, piece))
    }

    /// All variables with a fixed place, in the order of their places.
    pub fn variables(&self) -> &[Variable] {
        self.variables.get_or_init(|| {
            let described = self
                .debug()
                .map_or(Vec::new(), |debug| variables::of_debug(debug, &self.types));
            variables::merge(described, &self.table().variables)
        })
    }

    /// The variable at an address.
    pub fn variable_at(&self, vaddr: u64) -> Option<&Variable> {
        variables::find(self.variables(), Place::Static(vaddr))
    }

    /// The variable at an offset in the module's thread-local block.
    pub fn tls_variable_at(&self, offset: u64) -> Option<&Variable> {
        variables::find(self.variables(), Place::Tls(offset))
    }

    /// What a pointer points to.
    pub fn pointee(&self, pointee: Pointee) -> Option<Rc<Type>> {
        Some(self.types.get(self.debug().ok()?, pointee.0?))
    }

    fn unwind(&self) -> &Unwind<'s> {
        self.unwind.get_or_init(|| Unwind::new(&self.elf, self.debug_elf()))
    }

    /// How the frame of the function is found at an instruction.
    pub fn cfa_at(&self, pc: u64) -> Option<Cfa> {
        self.unwind().cfa(pc)
    }

    /// Locals and parameters in scope at an instruction, those of inner blocks first.
    pub fn locals_at(&self, pc: u64) -> Vec<Local> {
        self.locals(pc, self.cfa_at(pc), Scope::Here).unwrap_or_default()
    }

    fn locals(&self, pc: u64, cfa: Option<Cfa>, scope: Scope) -> Option<Vec<Local>> {
        let (debug, piece) = self.piece(pc)?;
        let unit = debug.unit_at(pc)?;
        let known = self.bodies.borrow().get(&piece.die).cloned();
        let body = known.unwrap_or_else(|| {
            let body = Body::read(debug, &unit, piece.die).map(Rc::new);
            self.bodies.borrow_mut().insert(piece.die, body.clone());
            body
        })?;
        let types = &self.types;
        let (debug, unit) = (debug, &*unit);
        Some(body.locals(
            &Instruction {
                debug,
                types,
                unit,
                pc,
                cfa,
            },
            scope,
        ))
    }

    /// Code at an address, at most `bytes` long, as far as the file has it.
    pub fn code_at(&self, pc: u64, bytes: u64) -> Option<&'s [u8]> {
        self.elf.bytes_at(pc, bytes)
    }

    /// The instruction at an address.
    pub fn instruction_at(&self, pc: u64) -> Option<code::Instruction> {
        const LONGEST: u64 = 15;
        code::decode(self.elf.bytes_at(pc, LONGEST)?, pc)
    }

    /// The local that an operand of the instruction at `pc` is in, if it is addressed from the
    /// frame, and how far inside.
    pub fn local_of(&self, pc: u64, operand: &Operand) -> Option<(Local, u64)> {
        let Operand {
            base: Some(register),
            displacement,
            ..
        } = *operand
        else {
            return None;
        };
        let cfa = self.cfa_at(pc);
        let inside = |local: &Local| {
            let begin = match local.home {
                Home::Frame(at) => {
                    let cfa = cfa.filter(|cfa| cfa.register == register)?;
                    at.checked_add(cfa.offset)?
                }
                Home::Based { register: base, offset } if base == register => offset,
                _ => return None,
            };
            let at = u64::try_from(displacement.checked_sub(begin)?).ok()?;
            (at < local.size.max(1)).then_some(at)
        };
        let places = |local: Local| inside(&local).map(|at| (local, at));
        let here = self.locals(pc, cfa, Scope::Here)?;
        if let Some(found) = here.into_iter().find_map(places) {
            return Some(found);
        }
        let mut around = self.locals(pc, cfa, Scope::Function)?.into_iter().filter_map(places);
        // Blocks may share a place; then it is not known whose it is.
        let found = around.next();
        found.filter(|_| around.next().is_none())
    }
}
