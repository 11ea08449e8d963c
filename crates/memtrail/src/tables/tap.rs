//! What stands before the counting: remembers where each reference point went first, and the ways that control took.
use memtrail_model::{Access, AccessSink, Edge, LoopAccess, LoopRun, Next, Repeat, Thread};

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

impl<S: AccessSink> AccessSink for Tap<S> {
    fn accesses(&mut self, batch: &[Access]) {
        for access in batch {
            self.see(access.point.index(), access.addr, access.pc);
        }
        self.sink.accesses(batch);
    }
    fn wants_loops(&self) -> bool {
        self.sink.wants_loops()
    }
    fn short_loops(&self) -> u64 {
        self.sink.short_loops()
    }
    fn wants_fetches(&self) -> bool {
        self.sink.wants_fetches()
    }
    fn looped(&mut self, run: &LoopRun<'_>) -> bool {
        for &LoopAccess { point, addr, pc, .. } in run.body {
            self.see(point.index(), addr, pc);
        }
        self.sink.looped(run)
    }
    fn wants_repeats(&self) -> bool {
        self.sink.wants_repeats()
    }
    fn enters(&mut self, repeat: &Repeat<'_>) -> u64 {
        self.sink.enters(repeat)
    }
    fn iterated(&mut self, repeat: &Repeat<'_>, iterations: u64, left: u64) -> Next {
        self.sink.iterated(repeat, iterations, left)
    }
    fn leaves(&mut self) {
        self.sink.leaves();
    }
    fn space(&mut self, thread: Thread, space: u32) {
        self.sink.space(thread, space);
    }
    fn wants_flows(&self) -> bool {
        self.sink.wants_flows()
    }
    fn flows(&mut self, thread: Thread, flow: memtrail_model::Flow) {
        self.sink.flows(thread, flow);
    }
    fn wants_edges(&self) -> bool {
        self.edges.is_some()
    }
    fn edges(&mut self, _thread: Thread, edge: &Edge) {
        if let Some(edges) = &mut self.edges {
            edges.push(*edge);
        }
    }
    fn wants_notes(&self) -> bool {
        self.sink.wants_notes()
    }
    fn notes(&mut self, thread: Thread, note: &memtrail_model::Note) {
        self.sink.notes(thread, note);
    }
    fn forks(&mut self, parent: u32, child: u32) {
        self.sink.forks(parent, child);
    }
    fn done(&self) -> bool {
        self.sink.done()
    }
}
