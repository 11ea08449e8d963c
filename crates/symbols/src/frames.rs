//! What is in a function's frame: where its frame is, and which variables are in it.
//!
//! **Idea.** Compilers describe locals relative to a register or to the *canonical frame address* (CFA), the value of the stack pointer before the call. The unwind
//! tables tell, for each instruction, by which register the CFA is found. So both can be told relative to the CFA, which stays the same throughout a call.
use crate::debug::{text, Debug, Die, Parsed, Reader, Value};
use crate::elf::Elf;
use crate::types::{Type, Types};
use crate::variables::{self, Place};
use gimli::{AttributeValue, BaseAddresses, Operation, Reader as _, UnwindSection};
use std::ops::Range;
use std::rc::Rc;

/// Numbers of registers as DWARF counts them.
pub const RBP: u16 = 6;
pub const RSP: u16 = 7;

/// The CFA is what a register holds, and `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cfa {
    pub register: u16,
    pub offset: i64,
}

/// A local variable or a parameter, at some instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    pub name: String,
    pub home: Home,
    /// In bytes; 0 if unknown.
    pub size: u64,
    pub ty: Option<Rc<Type>>,
    pub parameter: bool,
}

/// Where a local is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// So far from the CFA: in the frame below it, among stacked parameters above.
    Frame(i64),
    /// So far from what a register holds.
    Based { register: u16, offset: i64 },
    /// In a register.
    Register(u16),
    /// A static of the function.
    Fixed(Place),
    /// Nowhere at this instruction, or in a way that is not simple.
    Elsewhere,
}

/// Unwind tables, by the code they are of.
pub(crate) struct Unwind<'s> {
    section: Tables<'s>,
    bases: BaseAddresses,
    /// First address, first address behind, where in the section.
    index: Vec<(u64, u64, usize)>,
}

enum Tables<'s> {
    Eh(gimli::EhFrame<Reader<'s>>),
    Debug(gimli::DebugFrame<Reader<'s>>),
}

fn index<'s, S: UnwindSection<Reader<'s>>>(section: &S, bases: &BaseAddresses) -> Vec<(u64, u64, usize)>
where
    S::Offset: gimli::UnwindOffset<usize>,
{
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(S::cie_from_offset) else {
            continue;
        };
        if fde.len() > 0 {
            found.push((fde.initial_address(), fde.end_address(), fde.offset()));
        }
    }
    found.sort_unstable();
    found
}

fn rule<'s, S: UnwindSection<Reader<'s>>>(section: &S, bases: &BaseAddresses, at: usize, pc: u64) -> Option<Cfa>
where
    S::Offset: gimli::UnwindOffset<usize>,
{
    let fde = section.fde_from_offset(bases, at.into(), S::cie_from_offset).ok()?;
    let mut context = gimli::UnwindContext::new();
    let row = fde.unwind_info_for_address(section, bases, &mut context, pc).ok()?;
    match row.cfa() {
        gimli::CfaRule::RegisterAndOffset { register, offset } => Some(Cfa {
            register: register.0,
            offset: *offset,
        }),
        gimli::CfaRule::Expression(_) => None,
    }
}

impl<'s> Unwind<'s> {
    /// `debug`: the file with debug information, which may have tables that the program lacks.
    pub fn new(elf: &Elf<'s>, debug: Option<&Elf<'s>>) -> Unwind<'s> {
        let read = |elf: &Elf<'s>, name| Reader::new(elf.section(name).unwrap_or_default(), gimli::LittleEndian);
        let eh = read(elf, ".eh_frame");
        let at = |name| elf.address_of(name).unwrap_or(0);
        let bases = BaseAddresses::default()
            .set_eh_frame(at(".eh_frame"))
            .set_text(at(".text"));
        if !eh.is_empty() {
            let section = gimli::EhFrame::from(eh);
            let index = index(&section, &bases);
            let section = Tables::Eh(section);
            return Unwind { section, bases, index };
        }
        let section = gimli::DebugFrame::from(read(debug.unwrap_or(elf), ".debug_frame"));
        let index = index(&section, &bases);
        let section = Tables::Debug(section);
        Unwind { section, bases, index }
    }

    fn find(&self, pc: u64) -> Option<(u64, u64, usize)> {
        let index = self.index.partition_point(|&(begin, ..)| begin <= pc).checked_sub(1)?;
        self.index.get(index).copied().filter(|&(_, end, _)| pc < end)
    }

    /// The function, or the part of one, around an instruction.
    pub fn range(&self, pc: u64) -> Option<Range<u64>> {
        self.find(pc).map(|(begin, end, _)| begin..end)
    }

    pub fn cfa(&self, pc: u64) -> Option<Cfa> {
        let (_, _, at) = self.find(pc)?;
        match &self.section {
            Tables::Eh(section) => rule(section, &self.bases, at, pc),
            Tables::Debug(section) => rule(section, &self.bases, at, pc),
        }
    }
}

/// Where a function's code is: one piece of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub begin: u64,
    pub end: u64,
    pub die: Die,
}

/// The functions of a unit in the order of their code.
pub(crate) fn functions(unit: &Parsed<'_>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut entries = unit.unit.entries();
    while let Ok(Some((_, entry))) = entries.next_dfs() {
        if entry.tag() != gimli::DW_TAG_subprogram {
            continue;
        }
        let Ok(mut ranges) = unit.dwarf.die_ranges(&unit.unit, entry) else {
            continue;
        };
        while let Ok(Some(range)) = ranges.next() {
            if range.begin < range.end {
                let (begin, end, die) = (range.begin, range.end, unit.die(entry.offset()));
                pieces.push(Piece { begin, end, die });
            }
        }
    }
    pieces.sort_by_key(|piece| piece.begin);
    pieces
}

type Entry<'a, 's> = gimli::DebuggingInformationEntry<'a, 'a, Reader<'s>>;

/// An attribute of an entry, or else of what it is an instance of.
pub(crate) fn inherited<'s, T>(
    debug: &Debug<'s>,
    unit: &Parsed<'s>,
    entry: &Entry<'_, 's>,
    get: impl Fn(&Parsed<'s>, &Entry<'_, 's>) -> Option<T> + Copy,
) -> Option<T> {
    const DEPTH: usize = 8;
    if let Some(value) = get(unit, entry) {
        return Some(value);
    }
    let mut next = origin(debug, unit, entry);
    for _ in 0..DEPTH {
        let die = next?;
        let parsed = debug.unit_of(die)?;
        let entry = parsed.unit.entry(die.at).ok()?;
        if let Some(value) = get(&parsed, &entry) {
            return Some(value);
        }
        next = origin(debug, &parsed, &entry);
    }
    None
}

fn origin<'s>(debug: &Debug<'s>, unit: &Parsed<'s>, entry: &Entry<'_, 's>) -> Option<Die> {
    let either = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
    let value = either.iter().find_map(|&name| entry.attr_value(name).ok()?)?;
    debug.follow(unit, value)
}

pub(crate) fn name_of<'s>(
    debug: &Debug<'s>,
    unit: &Parsed<'s>,
    entry: &Entry<'_, 's>,
    which: gimli::DwAt,
) -> Option<String> {
    inherited(debug, unit, entry, |unit, entry| {
        unit.string(entry.attr_value(which).ok()??).map(text)
    })
}

/// Which variables of a function to tell of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those that the source could name at the instruction.
    Here,
    /// Those of all blocks: parameters of an inlined function are written before its code begins.
    Function,
}

/// The variables of a function at an instruction, those of inner blocks first.
pub(crate) fn locals<'s>(
    debug: &Debug<'s>,
    types: &Types,
    unit: &Parsed<'s>,
    function: Die,
    at: (u64, Option<Cfa>),
    scope: Scope,
) -> Vec<Local> {
    let (pc, cfa) = at;
    let mut found: Vec<(isize, Local)> = Vec::new();
    let Ok(mut cursor) = unit.unit.entries_at_offset(function.at) else {
        return Vec::new();
    };
    let Ok(Some((_, entry))) = cursor.next_dfs() else {
        return Vec::new();
    };
    let base = entry.attr_value(gimli::DW_AT_frame_base).ok().flatten();
    let base = base.and_then(|value| home(debug, unit, value, pc, Home::Elsewhere));
    let base = base.unwrap_or(Home::Elsewhere);
    let (mut depth, mut closed) = (0isize, None);
    while let Ok(Some((delta, entry))) = cursor.next_dfs() {
        depth += delta;
        if depth <= 0 {
            break;
        }
        if closed.is_some_and(|closed| depth > closed) {
            continue;
        }
        closed = None;
        match entry.tag() {
            gimli::DW_TAG_lexical_block | gimli::DW_TAG_inlined_subroutine
                if scope == Scope::Here && !covers(unit, entry, pc) =>
            {
                closed = Some(depth);
            }
            gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                let Some(name) = name_of(debug, unit, entry, gimli::DW_AT_name) else {
                    continue;
                };
                let place = entry.attr_value(gimli::DW_AT_location).ok().flatten();
                let place = place.and_then(|value| home(debug, unit, value, pc, base));
                let ty = inherited(debug, unit, entry, |unit, entry| {
                    debug.follow(unit, entry.attr_value(gimli::DW_AT_type).ok()??)
                });
                let ty = ty.map(|die| types.get(debug, die));
                let local = Local {
                    name,
                    home: relative(place.unwrap_or(Home::Elsewhere), cfa),
                    size: ty.as_ref().and_then(|t| t.size).unwrap_or(0),
                    ty,
                    parameter: entry.tag() == gimli::DW_TAG_formal_parameter,
                };
                found.push((depth, local));
            }
            // Types, and functions within functions, have locals of their own.
            gimli::DW_TAG_subprogram | gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => closed = Some(depth),
            _ => {}
        }
    }
    found.sort_by_key(|(depth, _)| -depth);
    found.into_iter().map(|(_, local)| local).collect()
}

/// Is an instruction in a block? A block that does not say where it is, is everywhere in what is around it.
fn covers(unit: &Parsed<'_>, entry: &Entry<'_, '_>, pc: u64) -> bool {
    let Ok(mut ranges) = unit.dwarf.die_ranges(&unit.unit, entry) else {
        return false;
    };
    let mut any = false;
    while let Ok(Some(range)) = ranges.next() {
        if range.begin <= pc && pc < range.end {
            return true;
        }
        any = true;
    }
    !any
}

fn home<'s>(debug: &Debug<'s>, unit: &Parsed<'s>, value: Value<'s>, pc: u64, base: Home) -> Option<Home> {
    if let AttributeValue::Exprloc(expression) = value {
        return simple(debug, unit, expression, base);
    }
    let mut list = unit.dwarf.attr_locations(&unit.unit, value).ok()??;
    while let Ok(Some(entry)) = list.next() {
        if entry.range.begin <= pc && pc < entry.range.end {
            return simple(debug, unit, entry.data, base);
        }
    }
    None
}

/// A location of one operation.
fn simple<'s>(
    debug: &Debug<'s>,
    unit: &Parsed<'s>,
    expression: gimli::Expression<Reader<'s>>,
    base: Home,
) -> Option<Home> {
    if let Some(place) = variables::place(debug, unit, expression) {
        return Some(Home::Fixed(place));
    }
    let mut operations = expression.operations(unit.unit.encoding());
    let home = match operations.next().ok()?? {
        Operation::CallFrameCFA => Home::Frame(0),
        Operation::Register { register } => Home::Register(register.0),
        Operation::RegisterOffset { register, offset, .. } => Home::Based {
            register: register.0,
            offset,
        },
        Operation::FrameOffset { offset } => match base {
            Home::Frame(at) => Home::Frame(at.checked_add(offset)?),
            // A frame base that is a register is what the register holds.
            Home::Register(register) => Home::Based { register, offset },
            Home::Based { register, offset: at } => Home::Based {
                register,
                offset: at.checked_add(offset)?,
            },
            _ => return None,
        },
        _ => return None,
    };
    operations.next().ok()?.is_none().then_some(home)
}

fn relative(home: Home, cfa: Option<Cfa>) -> Home {
    match (home, cfa) {
        (Home::Based { register, offset }, Some(cfa)) if register == cfa.register => {
            offset.checked_sub(cfa.offset).map_or(home, Home::Frame)
        }
        _ => home,
    }
}
