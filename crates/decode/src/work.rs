//! What has to be worked out before a block's accesses are slots and distances.
//!
//! **Idea.** Captured values have their slots. Sums of several and narrowed values get slots of
//! their own, and a short list of *work* fills them: once for all accesses that need one, and in
//! the order in which they are needed, so that for a block that was left early the front of the
//! list does. Of later iterations of a loop most is as it was.
use memtrail_plan::{Derived, Lin, LoopPlan, Plan, Slot, Step, RSP, TERMS};

/// Values by slot; a slot of a recipe fits a byte.
pub(crate) type Slots = [u64; SLOTS];
pub(crate) const SLOTS: usize = 256;
/// Is never written, and so is zero: what constants are sums with.
pub(crate) const ZERO: u8 = 255;
/// Slots that a recipe can use as it likes.
pub(crate) const USABLE: usize = ZERO as usize;

/// A value to be worked out, and where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// What it is from.
    pub slots: [u8; TERMS],
    pub to: u8,
    pub how: How,
    /// The lowest bit.
    pub from: u8,
    pub with: [u64; TERMS],
}

/// What is done with the slots.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// The first, and a constant; of that the bits from a lowest one on, as far as a mask goes,
    /// extended with a sign if that is not 0.
    Bits,
    /// Multiples of two, or of all, added up.
    Two,
    Three,
}

const _: () = assert!(size_of::<Work>() == 32);

impl Work {
    #[inline(always)]
    pub fn done(&self, slots: &mut Slots) {
        let of = |i: usize| slots[self.slots[i] as usize];
        let times = |i: usize| of(i).wrapping_mul(self.with[i]);
        slots[self.to as usize] = match self.how {
            How::Bits => self.bits(of(0)),
            How::Two => times(0).wrapping_add(times(1)),
            How::Three => times(0).wrapping_add(times(1)).wrapping_add(times(2)),
        };
    }

    /// Of a value the bits that are wanted.
    #[inline(always)]
    pub fn bits(&self, value: u64) -> u64 {
        let [c, mask, sign] = self.with;
        let bits = value.wrapping_add(c).wrapping_shr(self.from.into()) & mask;
        (bits ^ sign).wrapping_sub(sign)
    }
}

/// How a slot moves from one iteration to the next: by a constant and a multiple of another slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub by: u64,
    pub scale: u64,
    /// What stays of the value it had, and of the new one.
    pub keeps: u64,
    pub mask: u64,
    pub slot: u8,
    pub plus: u8,
}

impl Move {
    pub fn of(step: &Step) -> Move {
        let (plus, scale) = step.plus.unwrap_or((RSP, 0));
        Move {
            by: step.by,
            scale: scale as i64 as u64,
            keeps: if step.anew { 0 } else { u64::MAX },
            mask: if step.low32 { u32::MAX.into() } else { u64::MAX },
            slot: step.slot as u8,
            plus: plus as u8,
        }
    }

    /// What is added if the other slot is `plus`.
    #[inline(always)]
    pub fn step(&self, plus: u64) -> u64 {
        self.by.wrapping_add(plus.wrapping_mul(self.scale))
    }

    /// What comes after this value.
    #[inline(always)]
    pub fn next(&self, value: u64, step: u64) -> u64 {
        (value & self.keeps).wrapping_add(step) & self.mask
    }

    #[inline(always)]
    pub fn apply<const PLUS: bool>(&self, slots: &mut Slots) {
        let step = if PLUS {
            self.step(slots[self.plus as usize])
        } else {
            self.by
        };
        let value = &mut slots[self.slot as usize];
        *value = self.next(*value, step);
    }
}

/// Lists the work for a block, what is needed first at the front.
pub(crate) struct Works<'p> {
    pub list: Vec<Work>,
    derived: &'p [Derived],
    first_derived: usize,
    /// Those that are listed.
    has: Vec<bool>,
    /// Sums that are listed, and their slots.
    sums: Vec<([(Slot, i32); TERMS], u8)>,
    /// Slots in use.
    slots: usize,
}

impl<'p> Works<'p> {
    pub fn new(plan: &'p Plan) -> Works<'p> {
        Works {
            list: Vec::new(),
            derived: &plan.derived,
            first_derived: plan.slots() - plan.derived.len(),
            has: vec![false; plan.derived.len()],
            sums: Vec::new(),
            slots: plan.slots(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> Option<u8> {
        self.list.len().try_into().ok()
    }

    /// Sees to it that a slot has its value.
    pub fn need(&mut self, slot: Slot) -> Option<()> {
        let Some(n) = usize::from(slot).checked_sub(self.first_derived) else {
            return Some(());
        };
        if !*self.has.get(n)? {
            let Derived { narrow, of } = self.derived[n];
            let to = slot.try_into().ok()?;
            let slot = match of.terms() {
                [] => ZERO,
                &[(slot, 1)] => {
                    self.need(slot)?;
                    slot.try_into().ok()?
                }
                _ => self.sum(&of, to)?,
            };
            self.list.push(Work {
                slots: [slot, ZERO, ZERO],
                to,
                how: How::Bits,
                from: narrow.from,
                with: [of.c, narrow.mask(), narrow.sign()],
            });
            self.has[n] = true;
        }
        Some(())
    }

    /// Adds the work for a form's terms. Returns where it goes.
    fn sum(&mut self, form: &Lin, to: u8) -> Option<u8> {
        let mut work = Work {
            slots: [ZERO; TERMS],
            to,
            how: if form.terms().len() < TERMS {
                How::Two
            } else {
                How::Three
            },
            from: 0,
            with: [0; TERMS],
        };
        for (i, &(slot, scale)) in form.terms().iter().enumerate() {
            self.need(slot)?;
            (work.slots[i], work.with[i]) = (slot.try_into().ok()?, scale as i64 as u64);
        }
        self.list.push(work);
        Some(to)
    }

    /// Of the work, that which has to be done for iterations after the first: the rest is as it
    /// was.
    pub fn again(&self, plan: &Plan) -> Vec<bool> {
        let (steps, free) = match &plan.looping {
            None => return vec![true; self.list.len()],
            Some(LoopPlan::Affine { steps, .. }) => (steps, &[][..]),
            Some(LoopPlan::Partly { steps, free }) => (steps, &free[..]),
        };
        let mut changes = [false; SLOTS];
        changes[RSP as usize] = plan.exit_rsp != Lin::slot(RSP);
        let moving = steps.iter().filter(|s| s.moves()).map(|s| s.slot);
        moving
            .chain(free.iter().copied())
            .for_each(|s| changes[usize::from(s) % SLOTS] = true);
        let again = |work: &Work| {
            changes[work.to as usize] = work.slots.iter().any(|&s| changes[s as usize]);
            changes[work.to as usize]
        };
        self.list.iter().map(again).collect()
    }

    /// The slot that a form is a constant distance from, and the distance.
    pub fn base(&mut self, form: &Lin) -> Option<(u8, u64)> {
        let slot = match form.terms() {
            [] => ZERO,
            &[(slot, 1)] => {
                self.need(slot)?;
                slot.try_into().ok()?
            }
            _ => match self.sums.iter().find(|s| s.0 == form.terms) {
                Some(&(_, slot)) => slot,
                None => {
                    let slot = u8::try_from(self.slots).ok().filter(|&s| s < ZERO)?;
                    self.slots += 1;
                    self.sum(form, slot)?;
                    self.sums.push((form.terms, slot));
                    slot
                }
            },
        };
        Some((slot, form.c))
    }
}
