//! What stands between the tagger and the simulator while a map is drawn.
//!
//! The tagger has put the number of reference and object into each access, so the map knows whose
//! memory it draws. A map needs every access: loops are not taken whole while one is drawn.
use memtrail_explain::map::Map;
use memtrail_model::{Access, AccessSink, Event, Reply, SinkAdapter, Wants};

/// Hands everything on, and draws a map if one is wanted.
pub struct Mapped<S> {
    pub sink: S,
    pub map: Option<Map>,
}

impl<S: AccessSink> SinkAdapter for Mapped<S> {
    type Inner = S;
    fn inner(&self) -> &S {
        &self.sink
    }
    fn inner_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    fn adjust(&self, wants: Wants) -> Wants {
        match self.map {
            None => wants,
            Some(_) => Wants {
                loops: None,
                repeats: false,
                ..wants
            },
        }
    }

    #[inline]
    fn pass(&mut self, batch: &[Access]) {
        if let Some(map) = &mut self.map {
            map.see(batch);
        }
        self.sink.accesses(batch);
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        if let (Some(map), Event::Space { thread, space }) = (&mut self.map, event) {
            map.enter(thread.0, space);
        }
        self.sink.event(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::testing::check_adapter;
    use std::cell::RefCell;

    #[test]
    fn everything_is_handed_on() {
        let mapped = |sink| Mapped { sink, map: None };
        check_adapter(&RefCell::default(), mapped, |_| false);
    }
}
