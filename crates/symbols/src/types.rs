//! Types of variables, and the way into them: `grid[3][7].pos.x`.
//!
//! **Idea.** A type is a tree of what it is made of. Where it points to something, the tree ends:
//! so it is finite, and shared between all variables that have the type. Typedefs and qualifiers
//! are looked through; the outermost typedef's name is kept.
use crate::debug::{text, Debug, Die, Parsed, Value};
use gimli::AttributeValue;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;
use std::rc::Rc;

/// What a variable is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// As the source has it: `double`, `Particle`, `double [800][800]`, `node *`.
    pub name: String,
    /// In bytes, unless that is known only when the program runs.
    pub size: Option<u64>,
    pub shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A number, a character, a Fortran string, a pointer to a member: nothing inside.
    Base,
    Enumeration,
    Pointer(Pointee),
    Array {
        element: Rc<Type>,
        dims: Vec<Dim>,
        /// The first index runs fastest, as in Fortran.
        column_major: bool,
        /// The variable is a descriptor of an array that lies elsewhere: allocatable, pointer,
        /// assumed shape.
        descriptor: bool,
    },
    /// Also classes and unions.
    Struct(Vec<Field>),
    /// Not described, or described in a way we do not know.
    Unknown,
}

/// What a pointer points to: looked up by [`crate::Module::pointee`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pointee(pub(crate) Option<Die>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    /// The first index: 0 in C, 1 in Fortran unless declared otherwise.
    pub lower: i64,
    /// How many, unless that is known only when the program runs.
    pub count: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Empty: a base class, or a struct without a name. Its fields are the outer one's.
    pub name: String,
    pub offset: u64,
    /// In bytes; less than the type's if it is a bit field.
    pub size: u64,
    pub ty: Rc<Type>,
}

impl Type {
    fn new(name: impl Into<String>, size: Option<u64>, shape: Shape) -> Type {
        let name = name.into();
        Type { name, size, shape }
    }

    fn unknown() -> Rc<Type> {
        Rc::new(Type::new("", None, Shape::Unknown))
    }

    /// What an array is of; for anything else, the type itself.
    pub fn element(&self) -> &Type {
        match &self.shape {
            Shape::Array { element, .. } => element.element(),
            _ => self,
        }
    }

    /// The path from a variable of this type, called `name`, to what is `offset` bytes inside.
    /// Without `indices`, subscripts are left empty: all elements have the same path then.
    pub fn path(&self, name: &str, offset: u64, indices: bool) -> String {
        let mut out = name.to_string();
        let (mut ty, mut offset) = (self, offset);
        // Types are finite trees; a path is not longer than a tree is high.
        loop {
            match &ty.shape {
                Shape::Array {
                    element,
                    dims,
                    column_major,
                    descriptor: false,
                } => {
                    let Some(size) = element.size.filter(|&s| s > 0) else {
                        return out;
                    };
                    subscript(&mut out, dims, *column_major, indices.then_some(offset / size));
                    offset %= size;
                    ty = element;
                }
                Shape::Struct(fields) => {
                    let inside = |f: &&Field| f.offset <= offset && offset - f.offset < f.size.max(1);
                    let Some(field) = fields.iter().find(inside) else {
                        return out;
                    };
                    if !field.name.is_empty() {
                        let _ = write!(out, ".{}", field.name);
                    }
                    offset -= field.offset;
                    ty = &field.ty;
                }
                _ => return out,
            }
        }
    }
}

/// `[3][7]`, or `(4,8)`; without an element's number `[][]` or `(,)`.
fn subscript(out: &mut String, dims: &[Dim], column_major: bool, element: Option<u64>) {
    let mut rest = element.unwrap_or(0);
    let mut indices = vec![0; dims.len()];
    let order: Vec<usize> = if column_major {
        (0..dims.len()).collect()
    } else {
        (0..dims.len()).rev().collect()
    };
    for (step, &dim) in order.iter().enumerate() {
        // The slowest dimension takes what is left, whatever it claims to hold.
        let count = dims[dim].count.filter(|&c| c > 0 && step + 1 < order.len());
        let index = count.map_or(rest, |count| rest % count);
        rest = count.map_or(0, |count| rest / count);
        indices[dim] = dims[dim].lower.wrapping_add(index as i64);
    }
    let show = |index: &i64| {
        if element.is_some() {
            index.to_string()
        } else {
            String::new()
        }
    };
    if column_major {
        let shown: Vec<String> = indices.iter().map(show).collect();
        let _ = write!(out, "({})", shown.join(","));
    } else {
        for index in &indices {
            let _ = write!(out, "[{}]", show(index));
        }
    }
}

/// Types that were looked up, by entry.
#[derive(Default)]
pub(crate) struct Types {
    known: RefCell<HashMap<Die, Rc<Type>>>,
}

impl Types {
    /// The type that an entry describes.
    pub fn get(&self, debug: &Debug<'_>, die: Die) -> Rc<Type> {
        const DEPTH: usize = 64;
        self.build(debug, die, DEPTH)
    }

    fn build(&self, debug: &Debug<'_>, die: Die, depth: usize) -> Rc<Type> {
        if let Some(known) = self.known.borrow().get(&die) {
            return known.clone();
        }
        // A type within itself, which only damaged information has, ends here.
        self.known.borrow_mut().insert(die, Type::unknown());
        let built = debug.unit_of(die).and_then(|unit| {
            let entry = Entry::read(debug, &unit, die)?;
            self.build_entry(&entry, depth.checked_sub(1)?)
        });
        let built = built.map_or_else(Type::unknown, Rc::new);
        self.known.borrow_mut().insert(die, built.clone());
        built
    }

    fn build_entry(&self, entry: &Entry<'_, '_>, depth: usize) -> Option<Type> {
        let name = entry.name.clone().unwrap_or_default();
        let inner = |value: Option<Die>| value.map(|die| self.build(entry.debug, die, depth));
        let size = entry.size;
        Some(match entry.tag {
            gimli::DW_TAG_base_type | gimli::DW_TAG_string_type | gimli::DW_TAG_ptr_to_member_type => {
                Type::new(name, size, Shape::Base)
            }
            gimli::DW_TAG_enumeration_type => {
                let size = size.or_else(|| inner(entry.ty).and_then(|t| t.size));
                Type::new(name, size, Shape::Enumeration)
            }
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                let name = if name.is_empty() { pointer_name(entry) } else { name };
                Type::new(name, size.or(Some(8)), Shape::Pointer(Pointee(entry.ty)))
            }
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type
            | gimli::DW_TAG_subrange_type
            | gimli::DW_TAG_template_alias => {
                let target = inner(entry.ty)?;
                let name = if name.is_empty() { target.name.clone() } else { name };
                Type::new(name, target.size.or(size), target.shape.clone())
            }
            gimli::DW_TAG_array_type => self.array(entry, inner(entry.ty)?),
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type => {
                let fields = self.fields(entry, depth);
                Type::new(name, size, Shape::Struct(fields))
            }
            _ => return None,
        })
    }

    fn array(&self, entry: &Entry<'_, '_>, element: Rc<Type>) -> Type {
        let fortran = entry.unit.is_fortran();
        let (mut dims, mut stride) = (Vec::new(), entry.stride);
        entry.children(|child| match child.tag {
            gimli::DW_TAG_subrange_type | gimli::DW_TAG_enumeration_type | gimli::DW_TAG_generic_subrange => {
                stride = stride.or(child.stride);
                let lower = child.lower.unwrap_or(i64::from(fortran));
                let upper = child.upper.and_then(|u| u.checked_sub(lower)?.checked_add(1));
                let count = child.count.or(upper.and_then(|n| u64::try_from(n).ok()));
                dims.push(Dim { lower, count });
            }
            _ => {}
        });
        let total = dims.iter().try_fold(1u64, |n, d| n.checked_mul(d.count?));
        let each = stride.or(element.size);
        let size = entry.size.or_else(|| each?.checked_mul(total?));
        let (mut dims, mut element) = (dims, element);
        // Rust nests arrays where C has several dimensions.
        let inner = match &element.shape {
            Shape::Array {
                element,
                dims,
                column_major: false,
                descriptor: false,
            } if !fortran => Some((element.clone(), dims.clone())),
            _ => None,
        };
        if let Some((innermost, more)) = inner {
            element = innermost;
            dims.extend(more);
        }
        let mut name = element.name.clone();
        let count = |d: &Dim, unknown: &str| d.count.map_or(unknown.to_string(), |c| c.to_string());
        if fortran {
            let all: Vec<String> = dims.iter().map(|d| count(d, ":")).collect();
            let _ = write!(name, "({})", all.join(","));
        } else {
            name.push(' ');
            name.extend(dims.iter().map(|d| format!("[{}]", count(d, ""))));
        }
        let shape = Shape::Array {
            element,
            dims,
            column_major: fortran,
            descriptor: entry.data_location,
        };
        Type::new(name, size.filter(|_| !entry.data_location), shape)
    }

    fn fields(&self, entry: &Entry<'_, '_>, depth: usize) -> Vec<Field> {
        let mut fields = Vec::new();
        entry.children(|child| {
            let base = child.tag == gimli::DW_TAG_inheritance;
            let member = child.tag == gimli::DW_TAG_member;
            // Members without an offset: of a union, or, if declared only, of the class and not of
            // its objects.
            if (!base && !member) || child.declaration {
                return;
            }
            let Some(ty) = child.ty.map(|die| self.build(entry.debug, die, depth)) else {
                return;
            };
            let size = ty.size.unwrap_or(0);
            let (offset, size) = child.place(size);
            fields.push(Field {
                name: if base {
                    String::new()
                } else {
                    child.name.clone().unwrap_or_default()
                },
                offset,
                size,
                ty,
            });
        });
        fields
    }
}

/// `node *`: the name alone, as what is pointed to may be anything.
fn pointer_name(entry: &Entry<'_, '_>) -> String {
    const DEPTH: usize = 16;
    let (mut stars, mut next) = (
        if entry.tag == gimli::DW_TAG_pointer_type {
            "*".to_string()
        } else {
            "&".to_string()
        },
        entry.ty,
    );
    for _ in 0..DEPTH {
        let Some(die) = next else {
            return format!("void {stars}");
        };
        let Some(unit) = entry.debug.unit_of(die) else { break };
        let Some(target) = Entry::read(entry.debug, &unit, die) else {
            break;
        };
        if let Some(name) = target.name {
            return format!("{name} {stars}");
        }
        if target.tag == gimli::DW_TAG_subroutine_type {
            return format!("function {stars}");
        }
        if target.tag == gimli::DW_TAG_pointer_type {
            stars.insert(0, '*');
        }
        next = target.ty;
    }
    format!("? {stars}")
}

/// The attributes of an entry that types are made from.
struct Entry<'d, 's> {
    debug: &'d Debug<'s>,
    unit: &'d Parsed<'s>,
    die: Die,
    tag: gimli::DwTag,
    name: Option<String>,
    size: Option<u64>,
    ty: Option<Die>,
    lower: Option<i64>,
    upper: Option<i64>,
    count: Option<u64>,
    stride: Option<u64>,
    member_offset: Option<u64>,
    /// Of a bit field: its width, and where it begins, from the struct's begin or, as DWARF 3 had
    /// it, from its storage's end.
    bits: Option<u64>,
    first_bit: Option<u64>,
    bits_before: Option<u64>,
    declaration: bool,
    data_location: bool,
}

impl<'d, 's> Entry<'d, 's> {
    fn read(debug: &'d Debug<'s>, unit: &'d Parsed<'s>, die: Die) -> Option<Entry<'d, 's>> {
        let entry = unit.unit.entry(die.at).ok()?;
        Entry::of(debug, unit, &entry)
    }

    fn of(
        debug: &'d Debug<'s>,
        unit: &'d Parsed<'s>,
        die: &gimli::DebuggingInformationEntry<crate::debug::Reader<'s>>,
    ) -> Option<Entry<'d, 's>> {
        let mut entry = Entry {
            debug,
            unit,
            die: unit.die(die.offset()),
            tag: die.tag(),
            name: None,
            size: None,
            ty: None,
            lower: None,
            upper: None,
            count: None,
            stride: None,
            member_offset: None,
            bits: None,
            first_bit: None,
            bits_before: None,
            declaration: false,
            data_location: false,
        };
        for attribute in die.attrs() {
            entry.take(attribute.name(), attribute.value());
        }
        Some(entry)
    }

    fn take(&mut self, name: gimli::DwAt, value: Value<'s>) {
        match name {
            gimli::DW_AT_name => self.name = self.unit.string(value).map(text),
            gimli::DW_AT_byte_size => self.size = value.udata_value(),
            gimli::DW_AT_type => self.ty = self.debug.follow(self.unit, value),
            gimli::DW_AT_lower_bound => self.lower = signed(&value),
            gimli::DW_AT_upper_bound => self.upper = signed(&value),
            gimli::DW_AT_count => self.count = value.udata_value(),
            gimli::DW_AT_byte_stride => self.stride = value.udata_value(),
            gimli::DW_AT_data_member_location => self.member_offset = member_offset(&self.unit.unit, value),
            gimli::DW_AT_bit_size => self.bits = value.udata_value(),
            gimli::DW_AT_data_bit_offset => self.first_bit = value.udata_value(),
            gimli::DW_AT_bit_offset => self.bits_before = value.udata_value(),
            gimli::DW_AT_declaration => self.declaration = value == AttributeValue::Flag(true),
            gimli::DW_AT_data_location => self.data_location = true,
            _ => {}
        }
    }

    /// The bytes of a member, given those of its type.
    fn place(&self, size: u64) -> (u64, u64) {
        let offset = self.member_offset.unwrap_or(0);
        let old = || {
            let storage = self.size.unwrap_or(size).checked_mul(8)?;
            let within = storage.checked_sub(self.bits_before?)?.checked_sub(self.bits?)?;
            offset.checked_mul(8)?.checked_add(within)
        };
        let (Some(first), Some(bits)) = (self.first_bit.or_else(old), self.bits) else {
            return (offset, size);
        };
        let end = first.saturating_add(bits).div_ceil(8);
        (first / 8, end - first / 8)
    }

    /// Visits what is directly inside, looking through the parts of a Rust enumeration.
    fn children(&self, mut visit: impl FnMut(&Entry<'_, '_>)) {
        const MOST: usize = 1 << 16;
        let Ok(mut cursor) = self.unit.unit.entries_at_offset(self.die.at) else {
            return;
        };
        let Ok(Some(_)) = cursor.next_dfs() else { return };
        // How far below this entry it may look.
        let mut open = 1;
        for _ in 0..MOST {
            let Ok(Some(die)) = cursor.next_dfs() else {
                return;
            };
            let depth = die.depth();
            if depth <= 0 {
                return;
            }
            open = open.min(depth);
            if depth > open {
                continue;
            }
            if matches!(die.tag(), gimli::DW_TAG_variant_part | gimli::DW_TAG_variant) {
                open = depth + 1;
                continue;
            }
            if let Some(child) = Entry::of(self.debug, self.unit, die) {
                visit(&child);
            }
        }
    }
}

fn signed(value: &Value<'_>) -> Option<i64> {
    match value {
        // Fortran and Ada have bounds below zero; a 4- or 8-byte form says by its width what is
        // meant.
        AttributeValue::Data4(v) => Some(i64::from(*v as i32)),
        AttributeValue::Data8(v) => Some(*v as i64),
        AttributeValue::Sdata(v) => Some(*v),
        other => other.udata_value().and_then(|v| i64::try_from(v).ok()),
    }
}

fn member_offset(unit: &crate::debug::Unit<'_>, value: Value<'_>) -> Option<u64> {
    let AttributeValue::Exprloc(expression) = value else {
        return value.udata_value();
    };
    let mut operations = expression.operations(unit.encoding());
    match operations.next() {
        Ok(Some(gimli::Operation::PlusConstant { value } | gimli::Operation::UnsignedConstant { value })) => {
            Some(value)
        }
        _ => None,
    }
}
