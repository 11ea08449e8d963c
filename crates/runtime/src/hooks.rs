//! Calls of functions that allocate, from their entry to their return.
//!
//! **Problem.** A block lives from the return of the function that made it to the entry of the one
//! that gives it back. Functions call each other (`operator new` calls `malloc`, `calloc` may jump
//! to it), are interrupted by handlers that allocate, and are left by exceptions and jumps without
//! ever returning.
//!
//! **Idea.** Translated code stops at the entry of a hooked function, and at the return addresses
//! it was called with ([`crate::cache`]). What is under way is a list in the thread: each call with
//! the address of its return address on the stack. That slot tells a return from other ways to the
//! same address, and a nested call (deeper) from a tail call (the same slot) and from one that was
//! left in some other way (further up, or another return address in the slot).
//!
//! **Invariants.**
//! 1. Inside a function that memtrail knows by itself nothing else is noted; inside one that the
//!    user named, everything is.
//! 2. Coming to an entry again with the same slot and arguments, as after a signal that came first,
//!    notes nothing twice.
//! 3. What a signal handler does is not inside what it interrupted: the handler is an entry of the
//!    list by itself.
use crate::heap;
use crate::notes;
use crate::thread::{Thread, R8, R9, RAX, RCX, RDI, RDX, RSI, RSP, SS_DISABLE};
use memtrail_ring::hook::{Action, Function};
use memtrail_ring::record;

/// Most calls under way at once; those inside are not noted.
const MOST: usize = 32;

/// A call under way, or a signal handler if it is of no function.
#[derive(Clone, Copy)]
pub struct Call {
    /// Where its return address lies. Of a handler: the stack pointer that it interrupted.
    slot: u64,
    /// The return address. Of a handler: its frame.
    back: u64,
    /// [`Function`], packed.
    function: u64,
    id: u32,
    /// On the thread's alternate stack.
    alternate: bool,
    bytes: u64,
    /// The block to give back, or where the address is stored.
    block: u64,
}

/// The list. All zero is empty.
pub struct Calls {
    list: [Call; MOST],
    count: usize,
}

/// A hooked function.
#[derive(Clone, Copy)]
pub struct Hook {
    pub function: Function,
    pub id: u32,
}

fn on_alternate_stack(t: &Thread) -> bool {
    let alt = t.altstack;
    alt.flags & SS_DISABLE == 0 && (alt.sp..alt.sp.saturating_add(alt.size)).contains(&t.regs[RSP].wrapping_sub(1))
}

/// An argument of the call that the thread is at the beginning of, by its number from 1.
fn argument(t: &Thread, number: u8) -> u64 {
    const ORDER: [usize; 6] = [RDI, RSI, RDX, RCX, R8, R9];
    let register = (number as usize).checked_sub(1).and_then(|i| ORDER.get(i));
    register.map_or(0, |&r| t.regs[r])
}

impl Call {
    fn by_user(&self) -> bool {
        Function::unpack(self.function).is_some_and(|f| f.by_user)
    }
}

impl Calls {
    /// Forgets calls that can never return, seen from a call at `slot` that returns to `back`.
    fn forget(&mut self, slot: u64, back: u64, alternate: bool) {
        while let Some(last) = self.list[..self.count].last() {
            let gone = last.slot < slot || last.slot == slot && last.back != back;
            if !gone || last.alternate != alternate {
                break;
            }
            self.count -= 1;
        }
    }

    /// The calls under way in what runs now, the innermost first.
    fn innermost(&self) -> impl Iterator<Item = (usize, &Call)> {
        let list = self.list[..self.count].iter().enumerate().rev();
        list.take_while(|(_, call)| call.function != 0)
    }
}

/// The thread is at the entry of a hooked function, which returns to `back`. The call, if it is to
/// be noted.
pub fn arrive(t: &mut Thread, hook: Hook, back: u64) -> Option<Call> {
    let (slot, alternate) = (t.regs[RSP], on_alternate_stack(t));
    t.calls.forget(slot, back, alternate);
    let function = hook.function;
    let times = if function.times == 0 {
        1
    } else {
        argument(t, function.times)
    };
    let call = Call {
        slot,
        back,
        function: function.pack(),
        id: hook.id,
        alternate,
        bytes: argument(t, function.size).saturating_mul(times),
        block: argument(t, function.block),
    };
    match function.action {
        Action::Catch => return None,
        Action::Jump => {
            t.calls.count = 0;
            return None;
        }
        Action::Throw => {
            let failed = t.calls.innermost().next().is_some_and(|(_, c)| !c.by_user());
            t.calls.count -= failed as usize;
            return None;
        }
        Action::Free if call.block == 0 => return None,
        _ => {}
    }
    let mut stale = None;
    for (i, other) in t.calls.innermost() {
        if other.slot == slot {
            let again = other.id == call.id && (other.bytes, other.block) != (call.bytes, call.block);
            if !again {
                return None;
            }
            // The one before was left without returning.
            stale = Some(i);
        } else if !other.by_user() {
            return None;
        }
    }
    if let Some(i) = stale {
        t.calls.count = i;
    }
    (t.calls.count < MOST).then_some(call)
}

/// A call begins.
pub fn begin(t: &mut Thread, call: Call) {
    t.calls.list[t.calls.count] = call;
    t.calls.count += 1;
    let action = Function::unpack(call.function).map(|f| f.action);
    if matches!(action, Some(Action::Free | Action::Resize)) && call.block != 0 {
        notes::write(t, record::FREE, [call.id as u64, call.block]);
    }
}

/// The thread is at an address that hooked functions return to.
pub fn return_(t: &mut Thread) {
    let slot = t.regs[RSP].wrapping_sub(8);
    let found = t.calls.innermost().find(|(_, c)| c.slot == slot && c.back == t.pc);
    let Some((i, &call)) = found else { return };
    t.calls.count = i;
    let Some(function) = Function::unpack(call.function) else {
        return;
    };
    let (hook, result) = (call.id as u64, t.regs[RAX]);
    let allocated = |t: &mut Thread, address: u64| {
        if address != 0 {
            notes::write(t, record::ALLOC, [hook, call.bytes, address]);
        }
    };
    match function.action {
        Action::Allocate => allocated(t, result),
        Action::Store if result as u32 == 0 => allocated(t, heap::read_target(call.block).unwrap_or(0)),
        // To nothing: it was given back. From nothing to nothing: it failed.
        Action::Resize if result != 0 || call.bytes != 0 && call.block != 0 => {
            notes::write(t, record::REALLOC, [hook, call.block, call.bytes, result]);
        }
        _ => {}
    }
}

/// A signal handler begins, with this frame, on whatever stack.
pub fn interrupted(t: &mut Thread, rsp: u64, alternate: bool, frame: u64) {
    if t.calls.count == 0 || t.calls.count == MOST {
        return;
    }
    t.calls.list[t.calls.count] = Call {
        slot: rsp,
        back: frame,
        function: 0,
        id: 0,
        alternate,
        bytes: 0,
        block: 0,
    };
    t.calls.count += 1;
}

/// The handler with this frame returns.
pub fn resumed(t: &mut Thread, frame: u64) {
    let list = &t.calls.list[..t.calls.count];
    if let Some(i) = list.iter().rposition(|c| c.function == 0 && c.back == frame) {
        t.calls.count = i;
    }
}
