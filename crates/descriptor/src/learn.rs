//! The search for relations between columns: the encoder's affair alone.
//!
//! A frequent kind is watched for some of its events. From how a column and the sources have moved
//! between two of them, relations are guessed; those that are guessed first are kept and tried on
//! the events that follow. The one that leaves least to be written is taken, if it leaves less than
//! the column's own source and less than no relation.
use crate::bytes::{bits, zigzag};
use crate::column::{Form, Relation, Sources};
use crate::SOURCES;
use alloc::vec::Vec;

/// Relations that are tried on a column, the first two being none and its own source.
const TRIED: usize = 6;
/// Bits that a number costs besides its own, if it was not predicted.
const OVERHEAD: u32 = 6;

/// A relation that is tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    relation: Relation,
    /// Bits it would have cost.
    cost: u32,
}

/// A column that is watched.
#[derive(Clone, Debug)]
struct Watch {
    last: u64,
    /// How far that was from the one before.
    step: u64,
    /// Least and greatest value.
    least: u64,
    greatest: u64,
    /// The sources at the last value.
    then: [u64; SOURCES],
    trials: [Trial; TRIED],
    tried: usize,
}

/// The columns of one kind that is watched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learner {
    watched: Vec<Watch>,
    events: u32,
}

const UNTRIED: Trial = Trial {
    relation: Relation::NONE,
    cost: 0,
};

impl Watch {
    fn new(form: Form) -> Watch {
        let mut trials = [UNTRIED; TRIED];
        let mut tried = 1;
        if let Some(source) = form.own() {
            trials[1].relation = Relation { source, factor: 1 };
            tried = 2;
        }
        Watch {
            last: 0,
            step: 0,
            least: u64::MAX,
            greatest: 0,
            then: [0; SOURCES],
            trials,
            tried,
        }
    }

    /// Compares with the event before.
    fn compare(&mut self, value: u64, sources: &Sources) {
        let moved = value.wrapping_sub(self.last);
        let price = |off: u64| {
            if off == 0 {
                0
            } else {
                OVERHEAD + bits(zigzag(off))
            }
        };
        let predicted = moved == self.step || moved == self.step.wrapping_neg();
        for (i, trial) in self.trials[..self.tried].iter_mut().enumerate() {
            let Relation { source, .. } = trial.relation;
            let then = self.then.get(source as usize).copied().unwrap_or(0);
            let relation = trial.relation;
            let follows = relation
                .part(sources[source as usize])
                .wrapping_sub(relation.part(then));
            let off = moved.wrapping_sub(follows);
            trial.cost += if i == 0 && predicted { 0 } else { price(off) };
        }
        if moved == 0 || self.tried == TRIED || self.trials[1..self.tried].iter().any(|t| t.cost == 0) {
            return;
        }
        for (source, (now, then)) in sources.iter().zip(&self.then).enumerate() {
            let movement = now.wrapping_sub(*then);
            let Some(relation) = Relation::guess(source as u8, movement, moved) else {
                continue;
            };
            if self.tried < TRIED && self.trials[..self.tried].iter().all(|t| t.relation != relation) {
                // As if it had been no better than none so far.
                let cost = self.trials[0].cost;
                self.trials[self.tried] = Trial { relation, cost };
                self.tried += 1;
            }
        }
    }

    fn see(&mut self, value: u64, sources: &Sources) {
        self.step = value.wrapping_sub(self.last);
        self.last = value;
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
        self.then.copy_from_slice(&sources[..SOURCES]);
    }

    fn best(&self, events: u32) -> Relation {
        let mut trials = self.trials;
        let range = OVERHEAD + bits(self.greatest.wrapping_sub(self.least));
        trials[0].cost = trials[0].cost.min(events * range);
        let best = trials[..self.tried].iter().min_by_key(|t| t.cost);
        best.map_or(Relation::NONE, |t| t.relation)
    }
}

impl Learner {
    /// Events watched.
    pub fn events(&self) -> u32 {
        self.events
    }

    pub fn clear(&mut self) {
        self.events = 0;
    }

    /// Watches an event of a kind with columns of these forms; the first one, or the next.
    pub fn watch(&mut self, forms: &[Form], values: &[u64], sources: &Sources) {
        let first = self.events == 0;
        if first {
            self.watched.clear();
            self.watched.extend(forms.iter().map(|&f| Watch::new(f)));
        }
        self.events += 1;
        let mut now = *sources;
        for ((watch, &value), form) in self.watched.iter_mut().zip(values).zip(forms) {
            if !first {
                watch.compare(value, &now);
            }
            watch.see(value, &now);
            form.note(value, &mut now);
        }
    }

    /// The relations that were found best, column by column.
    pub fn learnt(&self) -> impl Iterator<Item = Relation> + '_ {
        self.watched.iter().map(|w| w.best(self.events))
    }
}
