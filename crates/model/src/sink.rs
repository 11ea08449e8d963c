//! How accesses, and what happens among them, get to whoever consumes them.
//!
//! **One way in.** A sink gets accesses through [`AccessSink::accesses`] and everything else
//! through [`AccessSink::event`]. What it wants beside accesses it says once, as a [`Wants`].
//!
//! **Adapters** stand before another sink. They implement [`SinkAdapter`], which forwards what they
//! do not override; so an event added later passes through all of them.
use crate::{Access, Edge, Flow, LoopRun, Note, Repeat, Thread};

/// What a sink wants beside data accesses. The default is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Wants {
    /// The fetch of every executed instruction, too: an access of kind [`Kind::Fetch`](crate::Kind)
    /// with the instruction's address and length, before what the instruction accesses. Fetches are
    /// in no number of accesses.
    pub fetches: bool,
    /// `Some(n)`: loops of more than `n` iterations are offered whole ([`Event::Loop`]). Shorter
    /// ones may come as accesses, for a sink that needs longer to take a loop than to go through
    /// it.
    pub loops: Option<u64>,
    /// [`Event::Enter`], [`Event::Iterated`] and [`Event::Leave`].
    pub repeats: bool,
    /// [`Event::Flow`].
    pub flows: bool,
    /// [`Event::Edge`].
    pub edges: bool,
    /// [`Event::Note`], [`Event::ForkCall`] and [`Event::Fork`].
    pub notes: bool,
}

impl Wants {
    /// Whether what happened before the first access of a selection is wanted as well.
    pub fn history(&self) -> bool {
        self.flows || self.edges || self.notes
    }
}

/// What happens among the accesses, in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// Iterations of a loop, whole. The sink replies how many of them, from the first, it has dealt
    /// with ([`Reply::skip`]); the others come as accesses.
    Loop(LoopRun<'a>),
    /// A loop begins whose accesses all move evenly. It comes as any other, iteration after
    /// iteration; other such loops may be inside, and [`Event::Leave`] ends it. The sink replies
    /// after how many iterations to ask whether some can be left out ([`Reply::after`]).
    Enter(Repeat<'a>),
    /// `done` iterations of the innermost loop have come since the sink was asked last, and `left`
    /// remain. The sink may reply that it has dealt with some of those.
    Iterated { repeat: Repeat<'a>, done: u64, left: u64 },
    /// The innermost loop has ended.
    Leave,
    /// The accesses of this thread, until told otherwise, are in this address space: equal
    /// addresses of different spaces are different memory. Told before the first of them, wanted or
    /// not.
    Space { thread: Thread, space: u32 },
    /// A call, a return or a change of stacks. The write of the return address comes before.
    Flow { thread: Thread, flow: Flow },
    /// Control took this way for the first time, or for the first time in this thread.
    Edge { thread: Thread, edge: &'a Edge },
    /// Memory was allocated, freed, mapped or named. Notes of one address space come in the order
    /// in which it happened, whatever the thread, and are numbered from 0, anew in each image.
    Note {
        thread: Thread,
        number: u64,
        note: &'a Note,
    },
    /// A thread copied its address space, and `child` is the copy; `None` if that failed. Numbered
    /// among the notes. Only for those who put threads in one order; others get [`Event::Fork`].
    ForkCall {
        thread: Thread,
        number: u64,
        child: Option<u32>,
    },
    /// Address space `child` begins as a copy of `parent`, with all that was allocated there. Told
    /// before its first access.
    Fork { parent: u32, child: u32 },
}

/// What a sink replies to an event about a loop. To others it replies [`Reply::NOTHING`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// Iterations that the sink has dealt with itself: they do not come.
    pub skip: u64,
    /// Iterations after which it wants to be asked again; 0 for never.
    pub after: u64,
}

impl Reply {
    pub const NOTHING: Reply = Reply { skip: 0, after: 0 };

    /// The sink has dealt with the next `n` iterations.
    pub const fn skip(n: u64) -> Reply {
        Reply { skip: n, after: 0 }
    }

    /// The sink wants to be asked after `n` iterations.
    pub const fn after(n: u64) -> Reply {
        Reply { skip: 0, after: n }
    }
}

/// Whoever consumes accesses: counters, printers, simulators.
pub trait AccessSink {
    /// Accesses of one thread, in program order.
    fn accesses(&mut self, batch: &[Access]);
    /// Asked at the beginning. What is asked of [`Wants::loops`] and [`Wants::repeats`] may change;
    /// it takes effect at the next chunk or slice at the latest.
    fn wants(&self) -> Wants {
        Wants::default()
    }
    /// What comes among the accesses. A sink ignores what it does not know.
    fn event(&mut self, _event: Event<'_>) -> Reply {
        Reply::NOTHING
    }
    /// Whether nothing more is wanted. Asked now and then; the sink ignores what still comes.
    fn done(&self) -> bool {
        false
    }
}

/// A sink that stands before another one. It forwards everything that it does not override.
pub trait SinkAdapter {
    type Inner: AccessSink + ?Sized;
    fn inner(&self) -> &Self::Inner;
    fn inner_mut(&mut self) -> &mut Self::Inner;
    /// What the adapter wants, given what the inner sink wants.
    #[inline]
    fn adjust(&self, wants: Wants) -> Wants {
        wants
    }
    /// As [`AccessSink::accesses`].
    #[inline]
    fn pass(&mut self, batch: &[Access]) {
        self.inner_mut().accesses(batch);
    }
    /// As [`AccessSink::event`].
    #[inline]
    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        self.inner_mut().event(event)
    }
    /// As [`AccessSink::done`].
    #[inline]
    fn has_enough(&self) -> bool {
        self.inner().done()
    }
}

impl<A: SinkAdapter> AccessSink for A {
    #[inline]
    fn accesses(&mut self, batch: &[Access]) {
        self.pass(batch);
    }
    #[inline]
    fn wants(&self) -> Wants {
        self.adjust(self.inner().wants())
    }
    #[inline]
    fn event(&mut self, event: Event<'_>) -> Reply {
        self.pass_event(event)
    }
    #[inline]
    fn done(&self) -> bool {
        self.has_enough()
    }
}

impl<S: AccessSink + ?Sized> SinkAdapter for &mut S {
    type Inner = S;
    fn inner(&self) -> &S {
        self
    }
    fn inner_mut(&mut self) -> &mut S {
        self
    }
}
