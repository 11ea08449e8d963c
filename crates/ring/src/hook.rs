//! Hooks: functions at whose entry and return the runtime takes notes.
//!
//! Which functions allocate is known from symbols, and those are read outside the target. When the
//! runtime is about to translate code from a module it has not met before, it sends the module's
//! MAP message, adds 1 to [`Answer::asked`], rings, and waits on [`Answer::answered`] as a futex
//! until the two are equal. The collector answers with the functions of the modules it was told of;
//! if they do not fit, `more` says so, and the runtime asks again. A collector that is gone does
//! not answer, and the runtime goes on without.
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Hooks in an answer.
pub const MOST: usize = 128;

#[repr(C)]
pub struct Answer {
    pub asked: AtomicU32,
    pub answered: AtomicU32,
    pub count: AtomicU32,
    /// 1: there are more.
    pub more: AtomicU32,
    /// Address, [`Function`] packed, id.
    pub hooks: [[AtomicU64; 3]; MOST],
}

/// What a function does when it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Action {
    /// Returns a block.
    Allocate = 1,
    /// Gives a block back.
    Free = 2,
    /// Gives a block back and returns another, or the same.
    Resize = 3,
    /// Stores the address of a block where its first argument points, and returns 0.
    Store = 4,
    /// Catches an exception: calls further down the stack will never return.
    Catch = 5,
    /// Jumps up the stack: calls that are under way will never return.
    Jump = 6,
    /// Makes an exception: an allocation function that is under way has failed, and what the
    /// exception needs is not its own.
    Throw = 7,
}

/// A function by what it does and where its arguments are. Arguments are numbered from 1; 0: there
/// is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    pub action: Action,
    /// The argument that is the size.
    pub size: u8,
    /// The one that it is multiplied with.
    pub times: u8,
    /// The one that is the block to give back.
    pub block: u8,
    /// Named by the user: what it calls is noted as well.
    pub by_user: bool,
}

impl Function {
    pub const fn new(action: Action, size: u8, times: u8, block: u8) -> Function {
        Function {
            action,
            size,
            times,
            block,
            by_user: false,
        }
    }

    pub const fn pack(self) -> u64 {
        self.action as u64
            | (self.size as u64) << 8
            | (self.times as u64) << 16
            | (self.block as u64) << 24
            | (self.by_user as u64) << 32
    }

    pub const fn unpack(word: u64) -> Option<Function> {
        let action = match word as u8 {
            1 => Action::Allocate,
            2 => Action::Free,
            3 => Action::Resize,
            4 => Action::Store,
            5 => Action::Catch,
            6 => Action::Jump,
            7 => Action::Throw,
            _ => return None,
        };
        Some(Function {
            action,
            size: (word >> 8) as u8,
            times: (word >> 16) as u8,
            block: (word >> 24) as u8,
            by_user: word >> 32 & 1 == 1,
        })
    }
}
