//! What stands before the counting: remembers the ways that control took.
use memtrail_model::{AccessSink, Edge, Event, Reply, SinkAdapter, Wants};

/// Hands everything on.
pub struct Tap<S> {
    sink: S,
    edges: Option<Vec<Edge>>,
}

impl<S: AccessSink> Tap<S> {
    /// `edges`: whether those are wanted.
    pub fn new(sink: S, edges: bool) -> Tap<S> {
        Tap {
            sink,
            edges: edges.then(Vec::new),
        }
    }

    /// What it stood before, and the ways that control took.
    pub fn finish(self) -> (S, Vec<Edge>) {
        (self.sink, self.edges.unwrap_or_default())
    }
}

impl<S: AccessSink> SinkAdapter for Tap<S> {
    type Inner = S;
    fn inner(&self) -> &S {
        &self.sink
    }
    fn inner_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    fn adjust(&self, wants: Wants) -> Wants {
        Wants {
            edges: wants.edges || self.edges.is_some(),
            ..wants
        }
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        if let (Event::Edge { edge, .. }, Some(edges)) = (event, &mut self.edges) {
            edges.push(*edge);
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
        check_adapter(&RefCell::default(), |probe| Tap::new(probe, false), |_| false);
    }
}
