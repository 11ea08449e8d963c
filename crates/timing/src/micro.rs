//! Micro-operations: what instructions are made of, as a core sees them.

/// The number of a register in the dependence model; 0 is none.
pub type Register = u8;

/// Always ready, never written.
pub const NO_REGISTER: Register = 0;
/// What an instruction's loads hand to its operation.
pub const TEMPORARY: Register = 1;
/// What an instruction's operation hands to its stores.
pub const VALUE: Register = 2;
/// Registers in all: the three above, 16 general, 2 for flags, 32 vector, 8 mask, the x87 stack.
pub const REGISTERS: usize = 64;

/// What kind of unit executes a micro-operation. A core gives each a latency and ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum UnitClass {
    /// Needs no unit and waits for nothing.
    Nop,
    /// A copy of a register.
    Move,
    Alu,
    Mul,
    Div,
    FpAdd,
    FpMul,
    FpDiv,
    Vector,
    VectorMul,
    /// Between kinds of registers or numbers.
    Convert,
    Branch,
    Load,
    Store,
    /// System calls and the like.
    System,
}

impl UnitClass {
    pub const ALL: [UnitClass; 15] = [
        UnitClass::Nop,
        UnitClass::Move,
        UnitClass::Alu,
        UnitClass::Mul,
        UnitClass::Div,
        UnitClass::FpAdd,
        UnitClass::FpMul,
        UnitClass::FpDiv,
        UnitClass::Vector,
        UnitClass::VectorMul,
        UnitClass::Convert,
        UnitClass::Branch,
        UnitClass::Load,
        UnitClass::Store,
        UnitClass::System,
    ];

    /// Its name in a file that describes a core.
    pub fn word(self) -> &'static str {
        match self {
            UnitClass::Nop => "nop",
            UnitClass::Move => "move",
            UnitClass::Alu => "alu",
            UnitClass::Mul => "mul",
            UnitClass::Div => "div",
            UnitClass::FpAdd => "fp-add",
            UnitClass::FpMul => "fp-mul",
            UnitClass::FpDiv => "fp-div",
            UnitClass::Vector => "vector",
            UnitClass::VectorMul => "vector-mul",
            UnitClass::Convert => "convert",
            UnitClass::Branch => "branch",
            UnitClass::Load => "load",
            UnitClass::Store => "store",
            UnitClass::System => "system",
        }
    }
}

/// Where an access went, as far as that does not depend on time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    pub addr: u64,
    pub size: u32,
    /// The line that had to come, or the first one.
    pub line: u64,
    /// The level that had it, from 0; as many as there are levels for memory.
    pub level: u8,
    /// Cycles that the translation of the address took.
    pub walk: u16,
    /// Cycles that memory takes for it, without waiting for the channel.
    pub memory: u16,
    /// It asks for the line and nothing waits for it: a software prefetch.
    pub hint: bool,
}

/// One micro-operation of the executed program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Micro {
    pub class: UnitClass,
    /// It shares the entry of the reorder buffer with the one before.
    pub fused: bool,
    pub sources: [Register; 4],
    pub dests: [Register; 4],
    /// Of loads and stores.
    pub reach: Option<Reach>,
    /// To whom cycles are charged.
    pub tag: u32,
}

impl Micro {
    pub fn new(class: UnitClass) -> Micro {
        Micro {
            class,
            fused: false,
            sources: [NO_REGISTER; 4],
            dests: [NO_REGISTER; 4],
            reach: None,
            tag: 0,
        }
    }
}
