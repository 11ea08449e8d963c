//! Which way branches go, as a tournament predictor foresees it: local histories against one global
//! history, and counters that choose between the two.
//!
//! The sizes of the 21264's are 10 bits of local histories of 10 bits each, and 12 bits of global
//! history. Where the tables are larger than the global history needs, the address of the branch is
//! mixed in.
use crate::spec::PredictorSpec;
use crate::template::Control;

/// A tournament predictor with targets and a stack of return addresses.
#[derive(Clone, Debug)]
pub struct Tournament {
    histories: Vec<u32>,
    local: Vec<u8>,
    global: Vec<u8>,
    choice: Vec<u8>,
    targets: Vec<u64>,
    returns: Vec<u64>,
    most_returns: usize,
    history: u64,
    local_mask: u32,
}

/// Moves a counter of 0 to `most` up or down.
#[inline]
fn train(counter: &mut u8, up: bool, most: u8) {
    *counter = match up {
        true => (*counter + 1).min(most),
        false => counter.saturating_sub(1),
    };
}

impl Tournament {
    pub fn new(spec: &PredictorSpec) -> Tournament {
        Tournament {
            histories: vec![0; 1 << spec.histories],
            local: vec![3; 1 << spec.history],
            global: vec![1; 1 << spec.global],
            choice: vec![1; 1 << spec.global],
            targets: vec![0; 1 << spec.targets],
            returns: Vec::new(),
            most_returns: spec.returns as usize,
            history: 0,
            local_mask: (1 << spec.history) - 1,
        }
    }

    /// A branch at `pc` with `length` bytes went to `target`. Returns whether that was foreseen.
    #[inline]
    pub fn went(&mut self, pc: u64, length: u8, control: Control, target: u64) -> bool {
        let next = pc.wrapping_add(length.into());
        match control {
            Control::None | Control::Jump => true,
            Control::Conditional => self.conditional(pc, target != next),
            Control::Indirect => self.indirect(pc, target),
            Control::Call => {
                self.call(next);
                true
            }
            Control::IndirectCall => {
                self.call(next);
                self.indirect(pc, target)
            }
            Control::Return => self.returns.pop() == Some(target),
        }
    }

    fn call(&mut self, next: u64) {
        if self.returns.len() == self.most_returns {
            self.returns.remove(0);
        }
        self.returns.push(next);
    }

    fn indirect(&mut self, pc: u64, target: u64) -> bool {
        let mask = self.targets.len() - 1;
        let at = (pc ^ pc >> 12 ^ self.history << 2) as usize & mask;
        let foreseen = std::mem::replace(&mut self.targets[at], target) == target;
        self.history = self.history << 2 ^ (target >> 2 & 3);
        foreseen
    }

    #[inline]
    fn conditional(&mut self, pc: u64, taken: bool) -> bool {
        let slot = (pc ^ pc >> 10) as usize & (self.histories.len() - 1);
        let mask = self.global.len() - 1;
        let by_history = (self.history ^ pc >> 2) as usize & mask;
        let mine = self.histories[slot];
        let local = &mut self.local[mine as usize];
        let global = &mut self.global[by_history];
        let choice = &mut self.choice[by_history];
        let (by_local, by_global) = (*local > 3, *global > 1);
        let foreseen = if *choice > 1 { by_global } else { by_local };
        if by_local != by_global {
            train(choice, by_global == taken, 3);
        }
        train(local, taken, 7);
        train(global, taken, 3);
        self.histories[slot] = (mine << 1 | u32::from(taken)) & self.local_mask;
        self.history = self.history << 1 | u64::from(taken);
        foreseen == taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor() -> Tournament {
        Tournament::new(&PredictorSpec {
            histories: 10,
            history: 10,
            global: 12,
            targets: 9,
            returns: 4,
        })
    }

    /// Mispredictions of the last half of a sequence of ways.
    fn missed(ways: impl Iterator<Item = bool>) -> usize {
        let mut predictor = predictor();
        let ways: Vec<bool> = ways.collect();
        let went = |&taken: &bool| {
            let target = if taken { 0x100 } else { 0x402 };
            !predictor.went(0x400, 2, Control::Conditional, target)
        };
        let missed: Vec<bool> = ways.iter().map(went).collect();
        missed[ways.len() / 2..].iter().filter(|&&missed| missed).count()
    }

    #[test]
    fn what_repeats_is_learnt() {
        assert_eq!(missed((0..1000).map(|_| true)), 0);
        assert_eq!(missed((0..1000).map(|i| i % 2 == 0)), 0);
        assert_eq!(missed((0..4000).map(|i| i % 7 == 0)), 0, "within the local history");
    }

    #[test]
    fn what_does_not_is_missed_half_the_time() {
        let mut seed = 1u64;
        let random = (0..20_000).map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed >> 63 == 1
        });
        let missed = missed(random);
        assert!((4500..5500).contains(&missed), "{missed} of 10000");
    }

    #[test]
    fn returns_match_calls_as_deep_as_the_stack() {
        let mut predictor = predictor();
        for depth in 0..6u64 {
            assert!(predictor.went(0x1000 * (depth + 1), 5, Control::Call, 0));
        }
        let foreseen: Vec<bool> = (0..6u64)
            .rev()
            .map(|depth| predictor.went(0, 1, Control::Return, 0x1000 * (depth + 1) + 5))
            .collect();
        assert_eq!(foreseen, [true, true, true, true, false, false]);
    }
}
