//! Variables with a fixed place: globals, statics of files and functions, members of COMMON blocks,
//! thread-locals.
//!
//! **Problem.** They are scattered over all entries of all units, and most entries are something
//! else.
//!
//! **Idea.** One pass over the raw entries. Of an entry that may give a variable its qualified
//! name, only a [`Node`] is kept (its parent and where its name is), and names are put together for
//! the few entries that have a place. What debug information does not tell of, symbols do.
use crate::debug::{text, Debug, Parsed, Reader, Value};
use crate::demangle::demangle;
use crate::elf::{Symbol, SymbolKind};
use crate::types::{Type, Types};
use gimli::{AttributeValue, Operation, UnitOffset};
use std::collections::HashMap;
use std::rc::Rc;

/// A variable that has the same place as long as its module is loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Qualified: `ns::Class::count`, `function::counter`, `block::member`.
    pub name: String,
    pub place: Place,
    /// In bytes; 0 if unknown.
    pub size: u64,
    /// Unless only a symbol tells of it.
    pub ty: Option<Rc<Type>>,
}

/// Where a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The address that the linker gave it.
    Static(u64),
    /// The offset in its module's thread-local block.
    Tls(u64),
}

impl Variable {
    /// The name without what qualifies it.
    pub fn short_name(&self) -> &str {
        short(&self.name)
    }

    /// The way to what is `offset` bytes inside: `grid[3][7].pos.x`; without `indices`
    /// `grid[][].pos.x`.
    pub fn describe(&self, offset: u64, indices: bool) -> String {
        match &self.ty {
            Some(ty) => ty.path(&self.name, offset, indices),
            None if offset == 0 || !indices => self.name.clone(),
            None => format!("{}+{offset:#x}", self.name),
        }
    }

    /// The way to what is at an address of this variable, subscripts left empty.
    pub(crate) fn pattern_at(&self, address: u64) -> String {
        let (Place::Static(begin) | Place::Tls(begin)) = self.place;
        self.describe(address.saturating_sub(begin), false)
    }

    fn contains(&self, address: u64) -> bool {
        let (Place::Static(begin) | Place::Tls(begin)) = self.place;
        address
            .checked_sub(begin)
            .is_some_and(|inside| inside < self.size.max(1))
    }
}

/// The last part of a qualified name; template arguments may themselves be qualified.
pub(crate) fn short(name: &str) -> &str {
    let mut depth = 0i32;
    let bytes = name.as_bytes();
    for at in (1..bytes.len()).rev() {
        match bytes[at] {
            b'>' => depth += 1,
            b'<' => depth -= 1,
            b':' if depth == 0 && bytes[at - 1] == b':' => return &name[at + 1..],
            _ => {}
        }
    }
    name
}

/// An entry that others may be qualified by, or refer to for their name.
#[derive(Clone, Copy)]
struct Node<'s> {
    parent: Option<u32>,
    name: Option<Value<'s>>,
    /// The declaration that this completes.
    origin: Option<UnitOffset>,
    ty: Option<Value<'s>>,
}

/// What is being walked through.
struct Scope {
    depth: isize,
    node: Option<u32>,
}

struct Walk<'w, 's> {
    debug: &'w Debug<'s>,
    unit: &'w Parsed<'s>,
    types: &'w Types,
    nodes: Vec<Node<'s>>,
    at: HashMap<UnitOffset, u32>,
    found: &'w mut Vec<Variable>,
}

/// All variables that the debug information has.
pub(crate) fn of_debug(debug: &Debug<'_>, types: &Types) -> Vec<Variable> {
    let mut found = Vec::new();
    debug.for_each_unit(|unit| {
        let mut walk = Walk {
            debug,
            unit,
            types,
            nodes: Vec::new(),
            at: HashMap::new(),
            found: &mut found,
        };
        // What is damaged ends the walk through this unit; what was found before stays.
        let _ = walk.run();
    });
    found
}

impl<'s> Walk<'_, 's> {
    fn run(&mut self) -> Result<(), gimli::Error> {
        let unit = &self.unit.unit;
        let mut raw = unit.entries_raw(None)?;
        let mut scopes: Vec<Scope> = Vec::new();
        while !raw.is_empty() {
            let (at, depth) = (raw.next_offset(), raw.next_depth());
            let Some(abbreviation) = raw.read_abbreviation()? else {
                continue;
            };
            while scopes.last().is_some_and(|scope| scope.depth >= depth) {
                scopes.pop();
            }
            let parent = scopes.last().and_then(|scope| scope.node);
            let tag = abbreviation.tag();
            let opens = match tag {
                gimli::DW_TAG_namespace
                | gimli::DW_TAG_module
                | gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type
                | gimli::DW_TAG_subprogram
                | gimli::DW_TAG_common_block => true,
                gimli::DW_TAG_variable | gimli::DW_TAG_member => false,
                _ => {
                    raw.skip_attributes(abbreviation.attributes())?;
                    continue;
                }
            };
            let mut node = Node {
                // A COMMON block is the same one in every procedure.
                parent: parent.filter(|_| tag != gimli::DW_TAG_common_block),
                name: None,
                origin: None,
                ty: None,
            };
            let mut location = None;
            for &specification in abbreviation.attributes() {
                let attribute = raw.read_attribute(specification)?;
                match attribute.name() {
                    gimli::DW_AT_name => node.name = Some(attribute.value()),
                    gimli::DW_AT_type => node.ty = Some(attribute.value()),
                    gimli::DW_AT_location => location = Some(attribute.value()),
                    gimli::DW_AT_specification | gimli::DW_AT_abstract_origin => {
                        if let AttributeValue::UnitRef(origin) = attribute.value() {
                            node.origin = Some(origin);
                        }
                    }
                    _ => {}
                }
            }
            let index = self.nodes.len() as u32;
            self.nodes.push(node);
            self.at.insert(at, index);
            if opens && abbreviation.has_children() {
                let node = Some(index);
                scopes.push(Scope { depth, node });
            } else if let Some(AttributeValue::Exprloc(expression)) = location {
                self.variable(index, expression);
            }
        }
        Ok(())
    }

    fn variable(&mut self, index: u32, location: gimli::Expression<Reader<'s>>) {
        let Some(place) = place(self.debug, self.unit, location) else {
            return;
        };
        let (name, ty) = self.resolve(index);
        if name.is_empty() {
            return;
        }
        let ty = ty.and_then(|value| self.debug.follow(self.unit, value));
        let ty = ty.map(|die| self.types.get(self.debug, die));
        self.found.push(Variable {
            name,
            place,
            size: ty.as_ref().and_then(|t| t.size).unwrap_or(0),
            ty,
        });
    }

    /// The qualified name and the type, from the entry or from the one that it completes.
    fn resolve(&self, index: u32) -> (String, Option<Value<'s>>) {
        const DEPTH: usize = 64;
        let mut parts: Vec<String> = Vec::new();
        let (mut ty, mut next) = (None, Some(index));
        for _ in 0..DEPTH {
            let Some(node) = next.and_then(|index| self.nodes.get(index as usize)) else {
                break;
            };
            if parts.is_empty() {
                ty = ty.or(node.ty);
            }
            let origin = node.origin.and_then(|at| self.at.get(&at)).copied();
            match (node.name.and_then(|value| self.unit.string(value)), origin) {
                (_, Some(origin)) => {
                    next = Some(origin);
                    continue;
                }
                (Some(name), None) => parts.push(text(name)),
                // A namespace without a name.
                (None, None) if parts.is_empty() => return (String::new(), None),
                (None, None) => {}
            }
            next = node.parent;
        }
        parts.reverse();
        (parts.join("::"), ty)
    }
}

/// The fixed place that a location means, if it means one.
pub(crate) fn place<'s>(
    debug: &Debug<'s>,
    unit: &Parsed<'s>,
    location: gimli::Expression<Reader<'s>>,
) -> Option<Place> {
    let mut operations = location.operations(unit.unit.encoding());
    let indexed = |index| unit.dwarf.address(&unit.unit, index).ok();
    let mut value = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } | Operation::ConstantIndex { index } => indexed(index)?,
        Operation::UnsignedConstant { value } => value,
        Operation::SignedConstant { value } => value as u64,
        _ => return None,
    };
    let constant = !matches!(
        location.operations(unit.unit.encoding()).next().ok()??,
        Operation::Address { .. } | Operation::AddressIndex { .. }
    );
    let mut tls = false;
    while let Some(operation) = operations.next().ok()? {
        match operation {
            Operation::PlusConstant { value: more } => value = value.checked_add(more)?,
            Operation::TLS => tls = true,
            _ => return None,
        }
    }
    match tls {
        true => Some(Place::Tls(debug.in_tls(value))),
        // What the linker dropped is at zero, or at the very end.
        false if constant || value == 0 || value >= u64::MAX - 1 => None,
        false => Some(Place::Static(value)),
    }
}

/// All variables of a module in the order of their places.
pub(crate) fn merge(mut variables: Vec<Variable>, symbols: &[Symbol<'_>]) -> Vec<Variable> {
    let places = |kind| match kind {
        SymbolKind::Object => Some(Place::Static as fn(u64) -> Place),
        SymbolKind::Tls => Some(Place::Tls as fn(u64) -> Place),
        SymbolKind::Function => None,
    };
    let mut sizes: HashMap<Place, &Symbol<'_>> = HashMap::new();
    for symbol in symbols.iter().filter(|s| s.size > 0) {
        let Some(place) = places(symbol.kind) else { continue };
        let best = sizes.entry(place(symbol.value)).or_insert(symbol);
        if rank(symbol) < rank(best) {
            *best = symbol;
        }
    }
    for variable in &mut variables {
        if let Some(symbol) = sizes.remove(&variable.place) {
            // The symbol knows what a descriptor or an array of unknown length takes.
            variable.size = if variable.size == 0 { symbol.size } else { variable.size };
        }
    }
    sort(&mut variables);
    let more = sizes.iter().filter(|(place, _)| find(&variables, **place).is_none());
    let more: Vec<Variable> = more
        .map(|(&place, symbol)| Variable {
            name: demangle(symbol.name),
            place,
            size: symbol.size,
            ty: None,
        })
        .collect();
    variables.extend(more);
    sort(&mut variables);
    variables.dedup_by(|a, b| a.place == b.place && a.name == b.name);
    variables
}

/// Of several names for one place, the one for people: few underscores, short.
fn rank<'s>(symbol: &Symbol<'s>) -> (usize, bool, usize, &'s [u8]) {
    let underscores = symbol.name.iter().take_while(|&&b| b == b'_').count();
    (underscores, !symbol.global, symbol.name.len(), symbol.name)
}

/// The largest first among those that begin together, so that [`find`] sees inner ones last.
fn sort(variables: &mut [Variable]) {
    variables.sort_by(|a, b| (a.place, b.size, &a.name).cmp(&(b.place, a.size, &b.name)));
}

/// The variable at a place: of several, the one that begins last, then the smallest that is not
/// empty.
pub(crate) fn find(variables: &[Variable], place: Place) -> Option<&Variable> {
    // Variables rarely overlap (COMMON blocks may); how far back to look is bounded.
    const BACK: usize = 32;
    let (Place::Static(address) | Place::Tls(address)) = place;
    let same = |v: &&Variable| matches!(v.place, Place::Static(_)) == matches!(place, Place::Static(_));
    let end = variables.partition_point(|v| v.place <= place);
    let before = variables[..end].iter().rev().take(BACK).take_while(same);
    before.filter(|v| v.contains(address)).max_by_key(|v| v.size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_of_templates() {
        assert_eq!(short("ns::Foo<a::b>::count"), "count");
        assert_eq!(short("count"), "count");
        assert_eq!(short("f<a::b>"), "f<a::b>");
    }
}
