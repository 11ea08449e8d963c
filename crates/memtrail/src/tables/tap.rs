//! What stands before the counting: remembers where each reference point went first, and the ways
//! that control took.
use memtrail_model::{Access, AccessSink, Edge, Event, Reply, SinkAdapter, Wants};

/// The first access of a reference point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// What it accessed.
    pub address: u64,
    /// Where the instruction was.
    pub pc: u64,
}

/// Hands everything on.
pub struct Tap<S> {
    sink: S,
    /// By point.
    first: Vec<Option<First>>,
    edges: Option<Vec<Edge>>,
}

impl<S: AccessSink> Tap<S> {
    /// `edges`: whether those are wanted.
    pub fn new(sink: S, edges: bool) -> Tap<S> {
        Tap {
            sink,
            first: Vec::new(),
            edges: edges.then(Vec::new),
        }
    }

    /// What it stood before, where points went first, and the ways that control took.
    pub fn finish(self) -> (S, Vec<Option<First>>, Vec<Edge>) {
        (self.sink, self.first, self.edges.unwrap_or_default())
    }

    #[inline]
    fn see(&mut self, point: usize, address: u64, pc: u64) {
        match self.first.get_mut(point) {
            Some(Some(_)) => {}
            Some(first) => *first = Some(First { address, pc }),
            None => {
                self.first.resize(point + 1, None);
                self.first[point] = Some(First { address, pc });
            }
        }
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

    fn pass(&mut self, batch: &[Access]) {
        for access in batch {
            self.see(access.point.index(), access.addr, access.pc);
        }
        self.sink.accesses(batch);
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Loop(run) => run.body.iter().for_each(|a| self.see(a.point.index(), a.addr, a.pc)),
            Event::Edge { edge, .. } => self.edges.iter_mut().for_each(|edges| edges.push(*edge)),
            _ => {}
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
