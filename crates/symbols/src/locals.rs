//! Functions, and the variables in their frames.
//!
//! **Idea.** Compilers describe locals relative to a register or to the CFA. As it is known by
//! which register the CFA is found, both can be told relative to the CFA. What a function has is
//! read once; where it is, for each instruction that is asked about.
use crate::debug::{text, Debug, Die, Parsed, Reader, Value};
use crate::frames::Cfa;
use crate::types::{Type, Types};
use crate::variables::{self, Place};
use gimli::{AttributeValue, Operation};
use std::ops::Range;
use std::rc::Rc;

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
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.tag() != gimli::DW_TAG_subprogram {
            continue;
        }
        let die = unit.die(entry.offset());
        let code = ranges(unit, entry).into_iter().filter(|range| range.start < range.end);
        pieces.extend(code.map(|range| Piece {
            begin: range.start,
            end: range.end,
            die,
        }));
    }
    pieces.sort_by_key(|piece| piece.begin);
    pieces
}

type Entry<'s> = gimli::DebuggingInformationEntry<Reader<'s>>;

/// An attribute of an entry, or else of what it is an instance of.
pub(crate) fn inherited<'s, T>(
    debug: &Debug<'s>,
    unit: &Parsed<'s>,
    entry: &Entry<'s>,
    get: impl Fn(&Parsed<'s>, &Entry<'s>) -> Option<T> + Copy,
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

fn origin<'s>(debug: &Debug<'s>, unit: &Parsed<'s>, entry: &Entry<'s>) -> Option<Die> {
    let either = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
    let value = either.iter().find_map(|&name| entry.attr_value(name))?;
    debug.follow(unit, value)
}

pub(crate) fn name_of<'s>(
    debug: &Debug<'s>,
    unit: &Parsed<'s>,
    entry: &Entry<'s>,
    which: gimli::DwAt,
) -> Option<String> {
    inherited(debug, unit, entry, |unit, entry| {
        unit.string(entry.attr_value(which)?).map(text)
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

/// The variables of a function, and the blocks they are in; where they are depends on the
/// instruction.
pub(crate) struct Body<'s> {
    frame_base: Option<Value<'s>>,
    /// The first is the function; others follow those that they are in.
    blocks: Vec<Block>,
    locals: Vec<Described<'s>>,
}

struct Block {
    parent: usize,
    depth: isize,
    /// Empty: everywhere in what is around it.
    ranges: Vec<Range<u64>>,
}

struct Described<'s> {
    block: usize,
    name: String,
    ty: Option<Die>,
    location: Option<Value<'s>>,
    parameter: bool,
}

impl<'s> Body<'s> {
    pub fn read(debug: &Debug<'s>, unit: &Parsed<'s>, function: Die) -> Option<Body<'s>> {
        let mut cursor = unit.unit.entries_at_offset(function.at).ok()?;
        let entry = cursor.next_dfs().ok()??;
        let whole = Block {
            parent: 0,
            depth: 0,
            ranges: Vec::new(),
        };
        let mut body = Body {
            frame_base: entry.attr_value(gimli::DW_AT_frame_base),
            blocks: vec![whole],
            locals: Vec::new(),
        };
        let (mut block, mut closed) = (0, None);
        while let Ok(Some(entry)) = cursor.next_dfs() {
            let depth = entry.depth();
            if depth <= 0 {
                break;
            }
            while body.blocks[block].depth >= depth {
                block = body.blocks[block].parent;
            }
            if closed.is_some_and(|closed| depth > closed) {
                continue;
            }
            closed = None;
            match entry.tag() {
                gimli::DW_TAG_lexical_block | gimli::DW_TAG_inlined_subroutine => {
                    let ranges = ranges(unit, entry);
                    let parent = block;
                    block = body.blocks.len();
                    body.blocks.push(Block { parent, depth, ranges });
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    body.locals.extend(Described::read(debug, unit, entry, block));
                }
                // Types, and functions within functions, have locals of their own.
                gimli::DW_TAG_subprogram | gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                    closed = Some(depth);
                }
                _ => {}
            }
        }
        Some(body)
    }

    /// The variables at an instruction, those of inner blocks first.
    pub fn locals(&self, at: &Instruction<'_, 's>, scope: Scope) -> Vec<Local> {
        let base = self.frame_base.and_then(|value| at.home(value, Home::Elsewhere));
        let base = base.unwrap_or(Home::Elsewhere);
        let mut open = vec![true; self.blocks.len()];
        for (index, block) in self.blocks.iter().enumerate().skip(1) {
            let here = block.ranges.is_empty() || block.ranges.iter().any(|range| range.contains(&at.pc));
            open[index] = scope == Scope::Function || (open[block.parent] && here);
        }
        let mut locals: Vec<&Described<'s>> = self.locals.iter().filter(|local| open[local.block]).collect();
        locals.sort_by_key(|local| -self.blocks[local.block].depth);
        let described = locals.into_iter().map(|local| {
            // Lists say where a variable is in its own scope; outside, only a place for good
            // counts.
            let listed = !matches!(local.location, Some(AttributeValue::Exprloc(_)));
            let location = local.location.filter(|_| scope == Scope::Here || !listed);
            let home = location
                .and_then(|value| at.home(value, base))
                .unwrap_or(Home::Elsewhere);
            let ty = local.ty.map(|die| at.types.get(at.debug, die));
            Local {
                name: local.name.clone(),
                home: relative(home, at.cfa),
                size: ty.as_ref().and_then(|t| t.size).unwrap_or(0),
                ty,
                parameter: local.parameter,
            }
        });
        described.collect()
    }
}

impl<'s> Described<'s> {
    fn read(debug: &Debug<'s>, unit: &Parsed<'s>, entry: &Entry<'s>, block: usize) -> Option<Described<'s>> {
        let name = name_of(debug, unit, entry, gimli::DW_AT_name)?;
        let ty = inherited(debug, unit, entry, |unit, entry| {
            debug.follow(unit, entry.attr_value(gimli::DW_AT_type)?)
        });
        Some(Described {
            block,
            name,
            ty,
            location: entry.attr_value(gimli::DW_AT_location),
            parameter: entry.tag() == gimli::DW_TAG_formal_parameter,
        })
    }
}

fn ranges<'s>(unit: &Parsed<'s>, entry: &Entry<'s>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let Ok(mut ranges) = unit.dwarf.die_ranges(&unit.unit, entry) else {
        return found;
    };
    while let Ok(Some(range)) = ranges.next() {
        found.push(range.begin..range.end);
    }
    found
}

/// An instruction, and what it takes to say where variables are there.
pub(crate) struct Instruction<'a, 's> {
    pub debug: &'a Debug<'s>,
    pub types: &'a Types,
    pub unit: &'a Parsed<'s>,
    pub pc: u64,
    pub cfa: Option<Cfa>,
}

impl<'s> Instruction<'_, 's> {
    fn home(&self, value: Value<'s>, base: Home) -> Option<Home> {
        let Instruction { debug, unit, pc, .. } = *self;
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
