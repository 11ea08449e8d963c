//! From what was seen of a function's accesses to the names of its reference points.
use crate::code::{Operand, Role};
use crate::frames::{RBP, RSP};
use crate::locals::{Home, Local};
use crate::module::Module;
use crate::reference::{references, Access, Data, Point, Position, Reference};
use crate::types::Shape;
use crate::Symbols;

/// A reference point of a module, as a recording has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The instruction's address, as the linker gave it.
    pub pc: u64,
    pub access: Access,
    pub target: Target,
    /// The lowest address it accessed, if known; compared with those of other points only.
    pub lowest: Option<u64>,
}

/// What a point accessed, by one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The module's own data, at an address as the linker gave it.
    Static(u64),
    /// The module's thread-local block, at an offset.
    Tls(u64),
    /// A stack.
    Stack,
    /// Anything else, by its name if it has one: the heap, another module's data.
    Object(Option<String>),
}

impl Symbols<'_> {
    /// Names the reference points of one function, given in the order of its code.
    pub fn references(&self, module: &Module<'_>, seen: &[Seen]) -> Vec<Reference> {
        let points: Vec<Point> = seen.iter().map(|seen| point(module, seen)).collect();
        references(&points, |file| self.source(file).ok())
    }
}

fn point(module: &Module<'_>, seen: &Seen) -> Point {
    let location = module.locate_vaddr(seen.pc);
    let frame = location.user_frame();
    let instruction = module.instruction_at(seen.pc);
    let does = |operand: &&Operand| match seen.access {
        Access::Read => operand.read,
        Access::Write => operand.write,
    };
    let operand = instruction.as_ref().and_then(|i| i.operands.iter().find(does));
    let role = instruction.as_ref().map_or(Role::Data, |i| i.role);
    let position = match (seen.lowest, operand) {
        (Some(lowest), _) => Some(Position {
            key: 0,
            at: lowest as i64,
        }),
        (None, Some(operand)) => Some(Position {
            key: registers(operand),
            at: operand.displacement,
        }),
        (None, None) => None,
    };
    Point {
        access: seen.access,
        data: data(module, seen, operand, role),
        position,
        file: frame.and_then(|f| f.file.clone()),
        line: frame.and_then(|f| f.line),
        column: frame.and_then(|f| f.column),
    }
}

/// One number for base, index and scale; never 0.
fn registers(operand: &Operand) -> u32 {
    let number = |register: Option<u16>| register.map_or(0, |r| u32::from(r) + 1);
    1 + number(operand.base) + (number(operand.index) << 8) + (operand.scale << 16)
}

fn data(module: &Module<'_>, seen: &Seen, operand: Option<&Operand>, role: Role) -> Data {
    let explicit = operand.filter(|operand| !operand.implicit);
    let of_frame = |operand: &Operand| matches!(operand.base, Some(RBP | RSP));
    let variable = match seen.target {
        Target::Static(vaddr) => module.variable_at(vaddr).map(|v| v.pattern_at(vaddr)),
        Target::Tls(offset) => module.tls_variable_at(offset).map(|v| v.pattern_at(offset)),
        Target::Stack => {
            let local = explicit.and_then(|operand| module.local_of(seen.pc, operand));
            local.map(|(local, at)| match &local.ty {
                Some(ty) => ty.path(&local.name, at, false),
                None => local.name,
            })
        }
        Target::Object(_) => None,
    };
    if let Some(pattern) = variable {
        let direct = explicit.is_some_and(|operand| operand.is_direct() || (seen.target == Target::Stack));
        return Data::Variable { pattern, direct };
    }
    let pointer = explicit.and_then(|operand| pointer(module, seen.pc, operand));
    match &seen.target {
        Target::Stack if role != Role::Data && explicit.is_none() => Data::Stack,
        Target::Stack if explicit.is_none_or(of_frame) => Data::Stack,
        Target::Static(vaddr) if explicit.is_some_and(Operand::is_direct) => match module.is_writable(*vaddr) {
            true => Data::Other,
            false => Data::Constant,
        },
        Target::Object(name) => Data::Object {
            name: name.clone(),
            pointer,
        },
        _ => Data::Object { name: None, pointer },
    }
}

/// The pointer that an operand's base register holds, and the way from there to what is accessed.
fn pointer(module: &Module<'_>, pc: u64, operand: &Operand) -> Option<String> {
    let base = operand.base?;
    let held = |local: &&Local| local.home == Home::Register(base);
    let locals = module.locals_at(pc);
    let local = locals.iter().find(held)?;
    let Shape::Pointer(pointee) = local.ty.as_ref()?.shape else {
        return None;
    };
    let ty = module.pointee(pointee)?;
    let size = ty
        .size
        .and_then(|size| i64::try_from(size).ok())
        .filter(|&size| size > 0)?;
    Some(ty.path(&local.name, operand.displacement.rem_euclid(size) as u64, false))
}
