//! Executed instructions and tagged accesses, on their way to the model of time.
//!
//! The model needs of each fetch which instruction it is, and of each access whom it belongs to. A
//! tagger replaces the one by the other; it hands on as many accesses as it gets, in order. So a
//! batch is tagged, and both forms of it go on side by side.
use memtrail_analyze::tagger::Tagger;
use memtrail_model::{Access, AccessSink, Event, Reply, Wants};
use memtrail_timing::{Flow, Tagged};
use std::collections::HashMap;

/// Keeps what it gets until it is taken.
#[derive(Debug, Default)]
pub struct Kept(Vec<Access>);

impl AccessSink for Kept {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.extend_from_slice(batch);
    }
    fn wants(&self) -> Wants {
        Wants {
            fetches: true,
            ..Wants::default()
        }
    }
}

/// In which windows the misses of a group of objects are ideal.
pub type Ideals = HashMap<u32, u64>;

/// Tags accesses and drives windows.
pub struct Timed<'t> {
    pub tagger: Tagger<Kept>,
    pub flow: Flow<'t>,
    ideals: Ideals,
    /// In which windows all misses are.
    always: u64,
    /// By composite.
    masks: Vec<u64>,
}

impl<'t> Timed<'t> {
    pub fn new(tagger: Tagger<Kept>, flow: Flow<'t>, ideals: Ideals, always: u64) -> Timed<'t> {
        Timed {
            tagger,
            flow,
            ideals,
            always,
            masks: Vec::new(),
        }
    }

    #[inline]
    fn mask(&mut self, composite: u32) -> u64 {
        match self.masks.get(composite as usize) {
            Some(&mask) => mask,
            None => self.learn(composite),
        }
    }

    #[cold]
    fn learn(&mut self, composite: u32) -> u64 {
        for number in self.masks.len() as u32..=composite {
            let group = self.tagger.composite(number).map(|key| key.group);
            let mask = group.and_then(|group| self.ideals.get(&group)).copied();
            self.masks.push(mask.unwrap_or(0) | self.always);
        }
        self.masks[composite as usize]
    }
}

impl AccessSink for Timed<'_> {
    fn accesses(&mut self, batch: &[Access]) {
        self.tagger.accesses(batch);
        let tagged = std::mem::take(&mut self.tagger.sink().0);
        debug_assert_eq!(tagged.len(), batch.len());
        for (access, tagged) in batch.iter().zip(&tagged) {
            let tag = tagged.point.0;
            let ideal = self.mask(tag);
            self.flow.next(&Tagged { access, tag, ideal });
        }
        let mut tagged = tagged;
        tagged.clear();
        self.tagger.sink().0 = tagged;
    }

    fn wants(&self) -> Wants {
        self.tagger.wants()
    }

    fn event(&mut self, event: Event<'_>) -> Reply {
        if let Event::Space { thread, space } = event {
            self.flow.space(thread, space);
        }
        self.tagger.event(event)
    }
}
