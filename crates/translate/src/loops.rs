//! Self-loops: which registers move how from one iteration to the next, and what that saves.
use crate::analyze::{Block, Capture, Exit, Needed};
use crate::effects::effects;
use crate::symbolic::{entry_atom, Atom, Machine, RSP_REG};
use alloc::vec::Vec;
use iced_x86::InstructionInfoFactory;
use memtrail_plan::{Lin, LoopPlan, Narrow, Slot, Step, FIRST, RSP};

/// A loop plan in terms of atoms.
pub(crate) enum LoopShape {
    Affine { steps: Vec<Move>, counter: Move },
    Partly { steps: Vec<Move> },
}

/// How the register behind `atom` moves from one iteration to the next.
#[derive(Clone, Copy)]
pub(crate) struct Move {
    atom: usize,
    by: u64,
    low32: bool,
    plus: Option<(Slot, i32)>,
    anew: bool,
}

impl Move {
    fn by(atom: usize, by: u64, low32: bool) -> Move {
        Move {
            atom,
            by,
            low32,
            plus: None,
            anew: false,
        }
    }
}

impl LoopShape {
    pub(crate) fn settle(self, slot_of: &[Slot], captures: &[Capture]) -> LoopPlan {
        let step = |m: &Move| Step {
            slot: slot_of[m.atom],
            by: m.by,
            low32: m.low32,
            plus: m.plus.map(|(s, k)| (slot_of[s as usize], k)),
            anew: m.anew,
        };
        match self {
            LoopShape::Affine { steps, counter } => LoopPlan::Affine {
                steps: steps.iter().map(step).collect(),
                counter: step(&counter),
            },
            LoopShape::Partly { steps } => {
                let steps: Vec<Step> = steps.iter().map(step).collect();
                let mut free = Vec::new();
                for c in captures {
                    if !steps.iter().any(|s| s.slot == c.slot) {
                        let n = if let Atom::Vector { words, .. } = c.atom {
                            words as Slot
                        } else {
                            1
                        };
                        free.extend((0..n).map(|k| c.slot + k));
                    }
                }
                LoopPlan::Partly { steps, free }
            }
        }
    }
}

/// How a register moves over one iteration: `Some((by, low32))` if by a constant.
pub(crate) fn induction(machine: &Machine, reg: usize, entry: Slot) -> Option<(u64, bool)> {
    let by_constant = |lin: &Lin| (lin.n == 1 && lin.terms[0] == (entry, 1)).then_some(lin.c);
    let exit = &machine.regs[reg];
    if let Some(by) = by_constant(exit) {
        return Some((by, false));
    }
    // add eax, 1: the 32-bit result of the entry value plus a constant, possibly in several
    // narrowings.
    let mut by = 0u64;
    let mut lin = *exit;
    let mut first = true;
    loop {
        if !first {
            if let Some(c) = by_constant(&lin) {
                return Some(((by.wrapping_add(c)) as i32 as i64 as u64, true));
            }
        }
        if lin.n != 1 || lin.terms[0].1 != 1 || (first && lin.c != 0) {
            return None;
        }
        by = by.wrapping_add(lin.c);
        match machine.atoms[lin.terms[0].0 as usize] {
            Atom::Derived(d) if machine.derived[d as usize].narrow == Narrow::ZERO32 => {
                lin = machine.derived[d as usize].of
            }
            _ => return None,
        }
        first = false;
    }
}

/// The registers that can count iterations: at every point inside the block they are a constant
/// away from where the iteration began, so that a branch out of it or a signal in the middle finds
/// the count. A bit per register.
fn counters(block: &Block) -> u16 {
    let mut machine = Machine::new();
    let mut infos = InstructionInfoFactory::new();
    let mut fit = u16::MAX;
    for (i, insn) in block.insns.iter().enumerate() {
        machine.step(insn, &effects(insn, &mut infos), i);
        for reg in 0..16 {
            if fit & 1 << reg != 0 && induction(&machine, reg, entry_atom(reg)).is_none() {
                fit &= !(1 << reg);
            }
        }
    }
    fit
}

/// Is this a self-loop whose records can be thinned, and how.
pub(crate) fn loop_shape(block: &Block, machine: &mut Machine, needed: &mut Needed) -> Option<LoopShape> {
    if (block.exit != Exit::Branch { target: block.pc }) {
        return None;
    }
    let (rsp_by, rsp32) = induction(machine, RSP_REG, RSP)?;
    if rsp32 {
        return None;
    }
    let mut steps = Vec::new();
    let mut free = false;
    let mut counter: Option<Move> = None;
    let counters = counters(block);
    if rsp_by != 0 {
        let by_rsp = Move::by(RSP as usize, rsp_by, false);
        steps.push(by_rsp);
        counter = (counters & 1 << RSP_REG != 0).then_some(by_rsp);
    }
    for reg in (0..16).filter(|&r| r != RSP_REG) {
        let atom = entry_atom(reg) as usize;
        debug_assert_eq!(machine.atoms[atom], Atom::Gpr { pos: 0, reg: reg as u8 });
        let Some((by, low32)) = induction(machine, reg, atom as Slot) else {
            if needed.flags[atom] {
                if let Some((by, plus)) = strided(machine, reg, atom as Slot) {
                    needed.flags[plus.0 as usize] = true;
                    steps.push(Move {
                        plus: Some(plus),
                        ..Move::by(atom, by, false)
                    });
                } else {
                    free = true;
                    steps.extend(renewed(machine, reg, atom, needed));
                }
            }
            continue;
        };
        let this = Move::by(atom, by, low32);
        if needed.flags[atom] {
            steps.push(this);
        }
        if by != 0 && counters & 1 << reg != 0 {
            // Best: 64-bit and captured anyway.
            let rank = |c: &Move| (!c.low32, c.atom < FIRST as usize || needed.flags[c.atom]);
            if counter.as_ref().is_none_or(|c| rank(&this) > rank(c)) {
                counter = Some(this);
            }
        }
    }
    // Registers that became needed as strides stay as they are.
    for reg in (0..16).filter(|&r| r != RSP_REG) {
        let atom = entry_atom(reg) as usize;
        if needed.flags[atom]
            && !steps.iter().any(|m| m.atom == atom)
            && induction(machine, reg, atom as Slot).is_some()
        {
            steps.push(Move::by(atom, 0, false));
        }
    }
    let affine_end = FIRST as usize + 15;
    free |= (affine_end..machine.atoms.len()).any(|a| needed.flags[a] && !matches!(machine.atoms[a], Atom::Derived(_)));
    match counter {
        Some(counter) if !free => {
            if counter.atom >= FIRST as usize && !needed.flags[counter.atom] {
                needed.flags[counter.atom] = true;
                steps.push(counter);
            }
            Some(LoopShape::Affine { steps, counter })
        }
        // Nothing to thin out: an ordinary block does as well, without a second copy.
        _ if steps.iter().all(|s| s.atom < FIRST as usize) => None,
        _ => Some(LoopShape::Partly { steps }),
    }
}

/// A register that ends an iteration as one that was captured in it, up to a constant and a factor:
/// that need not be captured twice.
fn renewed(machine: &Machine, reg: usize, atom: usize, needed: &Needed) -> Option<Move> {
    let exit = &machine.regs[reg];
    let &[plus] = exit.terms() else { return None };
    let captured = plus.0 >= FIRST + 15
        && needed.flags[plus.0 as usize]
        && matches!(machine.atoms[plus.0 as usize], Atom::Gpr { .. });
    captured.then_some(Move {
        plus: Some(plus),
        anew: true,
        ..Move::by(atom, exit.c, false)
    })
}

/// A register that moves by a constant and a multiple of one other register, which does not move.
fn strided(machine: &Machine, reg: usize, entry: Slot) -> Option<(u64, (Slot, i32))> {
    let exit = &machine.regs[reg];
    let [a, b] = exit.terms() else { return None };
    let (own, other) = if a.0 == entry { (a, b) } else { (b, a) };
    let stays = (0..16).any(|r| entry_atom(r) == other.0 && machine.regs[r] == Lin::slot(other.0));
    (*own == (entry, 1) && stays && other.0 >= FIRST).then_some((exit.c, *other))
}
