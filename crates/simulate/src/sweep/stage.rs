//! The chains of one line size.
//!
//! Stages follow each other by ascending line size, and each gets only what the one before has
//! left. What can be left out under some lines can be left out under longer ones; and of what is
//! left more can be left out now, by the same rules: lines that are the last touched of their class
//! ([`super::front`]), and rounds ([`super::rounds`]).
use super::chain::{Buffers, Chain, Numbered};
use super::front::Common;
use super::lanes::Lane;
use super::plan::ChainPlan;
use super::shapes::Repeated;

pub struct Stage<T> {
    /// Logarithm of the line's bytes.
    pub line: u32,
    common: Common,
    /// By class, the line touched last.
    recent: Vec<u64>,
    chains: Vec<Chain<T>>,
}

impl<T: Lane> Stage<T> {
    /// Of chains of one line size. `common` is that of this stage and of those behind it.
    pub fn new(plans: &[ChainPlan], common: Common) -> Stage<T> {
        Stage {
            line: plans[0].line,
            common,
            recent: vec![u64::MAX; common.classes as usize],
            chains: plans.iter().map(Chain::new).collect(),
        }
    }

    /// Of touches of lines of `line` bytes (logarithm), makes touches of these lines; leaves out
    /// what is the most recent.
    pub fn sift(&mut self, touches: &mut Vec<Numbered<T>>, line: u32) {
        let (longer, coarser) = (self.line - line, self.common.longest - self.line);
        let recent = &mut self.recent[..];
        let mut n = 0;
        for at in 0..touches.len() {
            let mut touch = touches[at];
            touch.line >>= longer;
            let class = (touch.line >> coarser) as usize & (recent.len() - 1);
            let before = std::mem::replace(&mut recent[class], touch.line);
            touches[n] = touch;
            n += usize::from(before != touch.line);
        }
        touches.truncate(n);
    }

    pub fn run(&mut self, touches: &[Numbered<T>], buffers: &mut Buffers<T>) {
        for chain in &mut self.chains {
            chain.run(touches, buffers);
        }
    }

    pub fn end_batch(&mut self, parts: &[u16], open: bool) {
        self.chains.iter_mut().for_each(|chain| chain.end_batch(parts, open));
    }

    pub fn each_page(&self, see: &mut dyn FnMut(T)) {
        self.chains.iter().for_each(|chain| chain.each_page(see));
    }

    pub fn each_result(&mut self, see: &mut dyn FnMut(usize, (u64, u64))) {
        self.chains.iter_mut().for_each(|chain| chain.each_result(see));
    }
}

impl Stage<u16> {
    pub fn widen(self) -> Stage<u32> {
        Stage {
            line: self.line,
            common: self.common,
            recent: self.recent,
            chains: self.chains.into_iter().map(Chain::widen).collect(),
        }
    }
}

/// Counts rounds that were left out before these stages.
pub fn count<T: Lane>(stages: &mut [Stage<T>], rounds: &Repeated) {
    for stage in stages {
        let distances = rounds.under(stage.line);
        stage.chains.iter_mut().for_each(|chain| chain.count(&distances));
    }
}
