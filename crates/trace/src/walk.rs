//! A stream's words, loop by loop.
//!
//! Whoever takes the words is told of loops, and can have iterations of them left out. What is no
//! loop can also be taken without ever being words.
use crate::leaves::Words;
use crate::stream::Stream;
use crate::varint::Bad;
use memtrail_descriptor::{Definition, Dictionary, Events};
use memtrail_model::Reply;

/// Whoever takes the words of a stream and may leave out iterations of its loops.
pub trait Drive {
    /// Whole records. Returns whether to go on.
    fn words(&mut self, words: &[u64]) -> bool;
    /// Whether [`Drive::records`] may take an event of this kind.
    fn takes(&self, _kind: u32) -> bool {
        false
    }
    /// Takes events from the one with this number on, as many as it likes. Returns how many, and
    /// how many words they would be, or `None` to stop.
    fn records(&mut self, _events: &Events, _first: usize) -> Option<(usize, u64)> {
        Some((0, 0))
    }
    /// A loop comes next. Returns after how many iterations to ask; 0 for never.
    fn enters(&mut self, dictionary: &Dictionary, kind: u32, parameters: &[u64]) -> u64;
    /// So many iterations have been handed over, and so many are left. The second number is how
    /// many words will not come.
    fn iterated(&mut self, iterations: u64, left: u64) -> (Reply, u64);
    /// The innermost loop that was entered and is asked about has ended.
    fn leaves(&mut self);
}

/// Takes all of the words.
pub(crate) struct Plainly<F>(pub F);

impl<F: FnMut(&[u64]) -> bool> Drive for Plainly<F> {
    fn words(&mut self, words: &[u64]) -> bool {
        self.0(words)
    }
    fn enters(&mut self, _dictionary: &Dictionary, _kind: u32, _parameters: &[u64]) -> u64 {
        0
    }
    fn iterated(&mut self, _iterations: u64, _left: u64) -> (Reply, u64) {
        (Reply::default(), 0)
    }
    fn leaves(&mut self) {}
}

const OTHER_LENGTH: &str = "a stream has another length than its head says";

/// Words in a batch, about.
const BATCH: usize = 4096;

/// Loops of fewer iterations, or fewer events, are handed over like anything else.
const FEWEST_TRIPS: u64 = 8;
const FEWEST_EVENTS: u64 = 64;

/// A walk through a stream, loop by loop.
struct Walk<'w, D> {
    dictionary: &'w Dictionary,
    words: Words,
    left: Option<u64>,
    stopped: bool,
    drive: &'w mut D,
}

impl<D: Drive> Walk<'_, D> {
    fn deliver(&mut self) -> bool {
        let words = &mut self.words.words;
        self.left = self.left.and_then(|l| l.checked_sub(words.len() as u64));
        self.stopped |= self.left.is_some() && !self.drive.words(words);
        words.clear();
        self.left.is_some() && !self.stopped
    }

    /// Everything. Returns whether to go on.
    fn events(&mut self, events: &Events) -> bool {
        let mut at = 0;
        while at < events.len() {
            if self.drive.takes(events.kind(at)) {
                if !self.words.words.is_empty() && !self.deliver() {
                    return false;
                }
                let Some((taken, words)) = self.drive.records(events, at) else {
                    self.stopped = true;
                    return false;
                };
                self.left = self.left.and_then(|l| l.checked_sub(words));
                if self.left.is_none() {
                    return false;
                }
                at += taken;
                if taken > 0 {
                    continue;
                }
            }
            if !self.event(events.kind(at), events.parameters(at)) {
                return false;
            }
            at += 1;
        }
        true
    }

    fn event(&mut self, kind: u32, parameters: &[u64]) -> bool {
        match self.dictionary.definition(kind) {
            Definition::Leaf(key) => {
                self.words.push(*key, parameters);
                self.words.words.len() < BATCH || self.deliver()
            }
            Definition::Loop(body) => {
                let trips = parameters[0];
                let worth = trips >= FEWEST_TRIPS && trips.saturating_mul(body.len() as u64) >= FEWEST_EVENTS;
                let mut after = 0;
                if worth {
                    if !self.deliver() {
                        return false;
                    }
                    after = self.drive.enters(self.dictionary, kind, parameters);
                }
                let entered = after > 0;
                let going = self.iterations(body, trips, &parameters[1..], after);
                if entered {
                    self.drive.leaves();
                }
                going
            }
        }
    }

    fn iterations(&mut self, body: &[u32], trips: u64, rest: &[u64], mut after: u64) -> bool {
        let (first, strides) = rest.split_at(rest.len() / 2);
        let mut now: Vec<u64> = first.into();
        let (mut trip, mut since) = (0, 0);
        let mut skip = 0;
        // A loop without iterations, which folding never makes, counts as a stop.
        let mut going = trips > 0;
        while going && trip < trips {
            if trip > 0 {
                for (value, stride) in now.iter_mut().zip(strides) {
                    *value = value.wrapping_add(stride.wrapping_mul(1 + skip));
                }
            }
            skip = 0;
            let mut rest = now.as_slice();
            for &kind in body {
                let (own, others) = rest.split_at(self.dictionary.arity(kind));
                going = going && self.event(kind, own);
                rest = others;
            }
            trip += 1;
            since += 1;
            if going && since == after && trip < trips {
                going = self.deliver();
                let (next, words) = self.drive.iterated(since, trips - trip);
                self.left = self.left.and_then(|l| l.checked_sub(words));
                (since, after) = (0, next.after);
                skip = next.skip;
                trip += skip;
            }
        }
        going
    }
}

/// Hands all `most` words of a stream over.
pub fn walk(stream: &Stream, most: u64, drive: &mut impl Drive) -> Result<(), Bad> {
    let events = &stream.events;
    let mut walk = Walk {
        dictionary: &events.dictionary,
        words: Words {
            words: Vec::with_capacity(2 * BATCH),
        },
        left: Some(most),
        stopped: false,
        drive,
    };
    if walk.events(events) {
        walk.deliver();
    }
    if !walk.stopped && walk.left != Some(0) {
        return Err(OTHER_LENGTH);
    }
    Ok(())
}
