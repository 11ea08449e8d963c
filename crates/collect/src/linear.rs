//! Expanding without interpreting: blocks whose addresses are linear forms, prepared once.
//!
//! **Problem.** A replay turns hundreds of millions of records into accesses per second or two, and a plan
//! is made for being understood: shapes, optional segments, terms that may or may not be there.
//!
//! **Idea.** Most blocks have only plain accesses. For those the table holds a [`Recipe`]: all
//! linear forms with the same number of terms (missing ones are zero times the stack pointer), slots as
//! bytes into an array of 256, so that evaluating a form takes no branch and no check. For every way out of the
//! block it is known how many of the accesses were made.
//!
//! **Invariant.** What a recipe gives is what [`crate::Expander`] gives without it.
use crate::decode::{Consumer, InLoop, ThreadDecoder};
use crate::table::{Block, Table};
use memtrail_model::{Access, Kind, Thread};
use memtrail_ring::record::{CUT, END, LEFT};
use memtrail_translate::plan::{Addr, Derived, Lin, LoopPlan, Narrow, Shape, Step, FIRST, RSP, TERMS};

/// Values by slot; a slot of a recipe fits a byte.
pub type Slots = [u64; 256];

/// `c + Σ slot·scale`.
#[derive(Clone, Copy, Debug)]
struct Form {
    c: u64,
    scales: [i16; TERMS],
    slots: [u8; TERMS],
}

impl Form {
    fn of(lin: &Lin) -> Option<Form> {
        let mut form = Form {
            c: lin.c,
            scales: [0; TERMS],
            slots: [RSP as u8; TERMS],
        };
        for (i, &(slot, scale)) in lin.terms().iter().enumerate() {
            form.scales[i] = scale.try_into().ok()?;
            form.slots[i] = slot.try_into().ok()?;
        }
        Some(form)
    }

    #[inline]
    fn eval(&self, slots: &Slots) -> u64 {
        let mut value = self.c;
        for (&slot, &scale) in self.slots.iter().zip(&self.scales) {
            value = value.wrapping_add(slots[slot as usize].wrapping_mul(scale as i64 as u64));
        }
        value
    }
}

/// A plain access whose address is a linear form.
#[derive(Clone, Copy, Debug)]
pub struct LinearAccess {
    pc: u64,
    addr: Form,
    size: u32,
    kind: Kind,
}

impl LinearAccess {
    #[inline]
    pub fn access(&self, thread: Thread, slots: &Slots) -> Access {
        Access {
            thread,
            pc: self.pc,
            kind: self.kind,
            addr: self.addr.eval(slots),
            size: self.size,
        }
    }
}

/// A derived value: the low bits of a form, extended with zeros or with their top bit.
#[derive(Clone, Copy, Debug)]
struct Narrowed {
    of: Form,
    mask: u64,
    /// The top bit if it is extended, else 0.
    sign: u64,
}

impl Narrowed {
    fn of(derived: &Derived) -> Option<Narrowed> {
        let (bits, signed) = match derived.narrow {
            Narrow::Zero8 => (8, false),
            Narrow::Zero16 => (16, false),
            Narrow::Zero32 => (32, false),
            Narrow::Sign8 => (8, true),
            Narrow::Sign16 => (16, true),
            Narrow::Sign32 => (32, true),
        };
        Some(Narrowed {
            of: Form::of(&derived.of)?,
            mask: (1 << bits) - 1,
            sign: u64::from(signed) << (bits - 1),
        })
    }

    #[inline]
    fn eval(&self, slots: &Slots) -> u64 {
        ((self.of.eval(slots) & self.mask) ^ self.sign).wrapping_sub(self.sign)
    }
}

/// A way out of a block.
#[derive(Clone, Copy, Debug)]
struct Exit {
    /// The branch; meaningless for the end of the block.
    insn: u16,
    /// Accesses made until then.
    accesses: u16,
    rsp: Form,
}

/// A block ready for expansion.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    accesses: Box<[LinearAccess]>,
    derived: Box<[Narrowed]>,
    /// Slot of the first derived value.
    first_derived: u8,
    end: Exit,
    sides: Box<[Exit]>,
    /// Of a partly steady loop: slots its later records have, and how the others move.
    free: Box<[u8]>,
    steps: Box<[Step]>,
    repeats: bool,
}

impl Recipe {
    /// `None` if not all addresses are linear, or if the block is a loop with one record.
    pub fn of(block: &Block) -> Option<Recipe> {
        let plan = &block.plan;
        if plan.slots() > 256 || matches!(plan.looping, Some(LoopPlan::Affine { .. })) {
            return None;
        }
        let access = |a: &memtrail_translate::plan::PlannedAccess| {
            let Shape::Plain { addr, size } = &a.shape else {
                return None;
            };
            Some(LinearAccess {
                pc: plan.pc.wrapping_add(plan.insn_offsets[a.insn as usize].into()),
                addr: Form::of(&linear(addr)?)?,
                size: *size,
                kind: a.kind,
            })
        };
        let side = |s: &memtrail_translate::plan::Side| {
            Some(Exit {
                insn: s.insn,
                accesses: plan.accesses.iter().take_while(|a| a.insn <= s.insn).count() as u16,
                rsp: Form::of(&s.rsp)?,
            })
        };
        let free = match &plan.looping {
            Some(LoopPlan::Partly { free, .. }) => free.as_slice(),
            _ => &[],
        };
        Some(Recipe {
            accesses: plan.accesses.iter().map(access).collect::<Option<_>>()?,
            derived: plan.derived.iter().map(Narrowed::of).collect::<Option<_>>()?,
            first_derived: u8::try_from(plan.slots() - plan.derived.len()).unwrap_or(u8::MAX),
            end: Exit {
                insn: 0,
                accesses: plan.accesses.len() as u16,
                rsp: Form::of(&plan.exit_rsp)?,
            },
            sides: plan.sides.iter().map(side).collect::<Option<_>>()?,
            free: free.iter().map(|&s| s as u8).collect(),
            steps: block.steps().into(),
            repeats: plan.looping.is_some(),
        })
    }

    #[inline]
    fn exit(&self, follows: u64) -> Option<&Exit> {
        match follows {
            LEFT.. => self.sides.iter().find(|s| u64::from(s.insn) == follows - LEFT),
            CUT | END => None,
            _ => Some(&self.end),
        }
    }

    #[inline]
    fn derive(&self, slots: &mut Slots) {
        for (i, derived) in self.derived.iter().enumerate() {
            slots[(self.first_derived as usize + i) & 255] = derived.eval(slots);
        }
    }
}

/// The address with its segment as one form.
fn linear(addr: &Addr) -> Option<Lin> {
    match addr.segment {
        _ if addr.low32 => None,
        None => Some(addr.lin),
        Some(segment) => addr.lin.add(&Lin::slot(segment), 1),
    }
}

/// Values copied at once: a copy of fixed length is a few instructions, one of any length is a call.
const COPIED: usize = 8;

/// Puts a record's values into their slots.
#[inline]
fn capture(slots: &mut Slots, words: &[u64], at: usize, next: usize) {
    let first = FIRST as usize;
    let values = next - at - 1;
    match words.get(at + 1..at + 1 + COPIED) {
        // Whatever follows the record goes where derived values are, or nothing.
        Some(eight) if values <= COPIED => slots[first..first + COPIED].copy_from_slice(eight),
        _ => slots[first..first + values].copy_from_slice(&words[at + 1..next]),
    }
}

impl ThreadDecoder {
    /// Expands records as far as there are recipes for them and nothing cuts them. Returns where to go on.
    pub(crate) fn expand_linear<C: Consumer>(
        &mut self,
        table: &Table,
        words: &[u64],
        mut at: usize,
        consumer: &mut C,
    ) -> usize {
        let mut wide = self.wide.take().unwrap_or_else(|| Box::new([0; 256]));
        let slots: &mut Slots = &mut wide;
        slots[..3].copy_from_slice(&self.carried);
        let mut in_loop = self.loop_under_way(table);
        if let Some(block) = in_loop {
            let captured = table.blocks()[block as usize].captured();
            let values = FIRST as usize..(FIRST as usize + captured).min(256);
            slots[values.clone()].copy_from_slice(&self.slots[values]);
        }
        let begin = at;
        while let Some(hot) = words.get(at).and_then(|&head| table.hot(head)) {
            let next = at + hot.words as usize;
            let Some(&follows) = words.get(next) else { break };
            let Some(recipe) = table.recipe(hot.block) else { break };
            let Some(exit) = recipe.exit(follows) else { break };
            if !hot.role.is_steady() {
                capture(slots, words, at, next);
            } else if in_loop == Some(hot.block) {
                for (&slot, &value) in recipe.free.iter().zip(&words[at + 1..next]) {
                    slots[slot as usize] = value;
                }
            } else {
                break;
            }
            recipe.derive(slots);
            consumer.linear(self.thread, &recipe.accesses[..exit.accesses as usize], slots);
            let rsp = exit.rsp.eval(slots);
            let left = follows >= LEFT;
            in_loop = None;
            if recipe.repeats && !left {
                for step in &recipe.steps {
                    slots[step.slot as usize & 255] = crate::decode::step_by(step, &slots[..], 1);
                }
                in_loop = Some(hot.block);
            }
            slots[RSP as usize] = rsp;
            at = next + usize::from(left);
        }
        if at > begin {
            self.carried[RSP as usize] = slots[RSP as usize];
            self.in_loop = in_loop.map(|block| {
                let block = &table.blocks()[block as usize];
                self.slots.clear();
                self.slots
                    .extend_from_slice(&slots[..FIRST as usize + block.captured()]);
                self.slots.resize(block.plan.slots(), 0);
                InLoop::of(block)
            });
        }
        self.wide = Some(wide);
        at
    }
}
