//! Executed instructions and tagged accesses, on their way to the model of time.
//!
//! The model needs of each fetch which instruction it is, and of each access whom it belongs to. A
//! tagger replaces the one by the other; it hands on as many accesses as it gets, in order. So a
//! batch is tagged, and both forms of it go on side by side. Where whom an instruction belongs to
//! depends on the instruction alone, its fetch is tagged the first time only.
use memtrail_analyze::tagger::Tagger;
use memtrail_model::{Access, AccessSink, Event, Kind, Reply, Wants};
use memtrail_timing::{CoreFlow, Tagged};
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
    pub flow: CoreFlow<'t>,
    ideals: Ideals,
    /// In which windows all misses are.
    always: u64,
    /// By composite.
    masks: Vec<u64>,
    /// By the point of a fetch: its composite, if that is always the same.
    fetches: Option<Vec<u32>>,
    batch: Vec<Access>,
}

/// Not tagged yet.
const UNTAGGED: u32 = u32::MAX;

impl<'t> Timed<'t> {
    /// `points`: how many there are, if a fetch's composite depends on its point alone.
    pub fn new(
        tagger: Tagger<Kept>,
        flow: CoreFlow<'t>,
        ideals: Ideals,
        always: u64,
        points: Option<usize>,
    ) -> Timed<'t> {
        Timed {
            tagger,
            flow,
            ideals,
            always,
            masks: Vec::new(),
            fetches: points.map(|points| vec![UNTAGGED; points]),
            batch: Vec::new(),
        }
    }

    /// The composite of a fetch that was met before.
    #[inline]
    fn known_tag(&self, access: &Access) -> Option<u32> {
        if access.kind != Kind::Fetch {
            return None;
        }
        let tag = *self.fetches.as_ref()?.get(access.point.index())?;
        (tag != UNTAGGED).then_some(tag)
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
        let mut untagged = std::mem::take(&mut self.batch);
        untagged.clear();
        untagged.extend(batch.iter().filter(|access| self.known_tag(access).is_none()));
        self.tagger.accesses(&untagged);
        let mut kept = std::mem::take(&mut self.tagger.sink().0);
        debug_assert_eq!(kept.len(), untagged.len());
        // Fetches are learnt afterwards: what was known before the batch was left out of it.
        let mut tagged = kept.iter();
        for access in batch {
            let tag = self.known_tag(access);
            let tag = tag.or_else(|| tagged.next().map(|tagged| tagged.point.0)).unwrap_or(0);
            let ideal = if access.kind == Kind::Fetch { 0 } else { self.mask(tag) };
            self.flow.next(&Tagged { access, tag, ideal });
        }
        if let Some(fetches) = &mut self.fetches {
            for (access, tagged) in untagged
                .iter()
                .zip(&kept)
                .filter(|(access, _)| access.kind == Kind::Fetch)
            {
                if let Some(known) = fetches.get_mut(access.point.index()) {
                    *known = tagged.point.0;
                }
            }
        }
        kept.clear();
        self.tagger.sink().0 = kept;
        self.batch = untagged;
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
