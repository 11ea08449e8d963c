//! For tests of sinks and adapters: every event and every want there is, and a check that an
//! adapter forwards them. An event or a want that is added must be added here, or this does not
//! compile.
use crate::{
    Access, AccessSink, Edge, Event, Flow, Kind, LoopAccess, LoopRun, Mover, Note, Point, Repeat, Reply, Thread, Via,
    Wants,
};

const BODY: &[LoopAccess] = &[LoopAccess {
    pc: 1,
    kind: Kind::Read,
    point: Point(2),
    size: 8,
    addr: 0x1000,
    stride: 8,
}];
const MOVERS: &[Mover] = &[Mover {
    point: Point(2),
    times: 1,
    kind: Kind::Read,
    shift: 8,
    first: 0x1000,
    size: 8,
    grain: 0,
    low: 0x1000,
    high: 0x1027,
}];
const RUN: LoopRun<'static> = LoopRun {
    thread: THREAD,
    trips: 5,
    body: BODY,
};
const REPEAT: Repeat<'static> = Repeat {
    thread: THREAD,
    trips: 5,
    accesses: 1,
    movers: MOVERS,
};
const EDGE: &Edge = &Edge {
    start: 1,
    last: 2,
    end: 3,
    target: 4,
    via: Via::Call,
};
const THREAD: Thread = Thread(0);

/// The event that follows this one in the order of their declaration; the first for `None`.
fn following(event: Option<Event<'static>>) -> Option<Event<'static>> {
    let (thread, number) = (THREAD, 6);
    Some(match event {
        None => Event::Loop(RUN),
        Some(Event::Loop(_)) => Event::Enter(REPEAT),
        Some(Event::Enter(_)) => Event::Iterated {
            repeat: REPEAT,
            done: 2,
            left: 3,
        },
        Some(Event::Iterated { .. }) => Event::Leave,
        Some(Event::Leave) => Event::Space { thread, space: 0 },
        Some(Event::Space { .. }) => Event::Flow {
            thread,
            flow: Flow::SignalReturn,
        },
        Some(Event::Flow { .. }) => Event::Edge { thread, edge: EDGE },
        Some(Event::Edge { .. }) => Event::Note {
            thread,
            number,
            note: &Note::Break { address: 7 },
        },
        Some(Event::Note { .. }) => Event::ForkCall {
            thread,
            number,
            child: Some(9),
        },
        Some(Event::ForkCall { .. }) => Event::Fork { parent: 0, child: 9 },
        Some(Event::Fork { .. }) => return None,
    })
}

/// One of each kind of event.
pub fn events() -> impl Iterator<Item = Event<'static>> {
    core::iter::successors(following(None), |&event| following(Some(event)))
}

/// Nothing, and each want by itself.
pub fn wants() -> impl Iterator<Item = Wants> + Clone {
    (0..7).map(|i| Wants {
        fetches: i == 1,
        loops: (i == 2).then_some(3),
        repeats: i == 3,
        flows: i == 4,
        edges: i == 5,
        notes: i == 6,
    })
}

/// What the last sink behind an adapter wants, and what came to it last.
#[derive(Debug, Default)]
pub struct Probe {
    pub wants: Wants,
    pub enough: bool,
    pub event: Option<Event<'static>>,
    pub accesses: u64,
}

/// What a [`Probe`] replies to every event.
pub const REPLY: Reply = Reply { skip: 1, after: 4 };

impl AccessSink for Probe {
    fn accesses(&mut self, batch: &[Access]) {
        self.accesses += batch.len() as u64;
    }
    fn wants(&self) -> Wants {
        self.wants
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        self.event = events().find(|&known| known == event);
        REPLY
    }
    fn done(&self) -> bool {
        self.enough
    }
}

/// Checks that an adapter, made by `adapter` around a [`Probe`], hands on every event and the reply
/// to it, what the probe wants, accesses, and that the probe is done. Those events and wants that
/// the adapter deals with itself, `except` names by returning `true`.
pub fn check_adapter<'p, A: AccessSink>(
    probe: &'p core::cell::RefCell<Probe>,
    adapter: impl Fn(Shared<'p>) -> A,
    except: impl Fn(&Event<'_>) -> bool,
) {
    for wants in wants() {
        *probe.borrow_mut() = Probe {
            wants,
            ..Probe::default()
        };
        assert_eq!(adapter(Shared(probe)).wants(), wants);
    }
    for enough in [false, true] {
        probe.borrow_mut().enough = enough;
        assert_eq!(adapter(Shared(probe)).done(), enough);
    }
    for event in events().filter(|event| !except(event)) {
        *probe.borrow_mut() = Probe::default();
        let reply = adapter(Shared(probe)).event(event);
        assert_eq!(probe.borrow().event, Some(event));
        let asks = matches!(event, Event::Loop(_) | Event::Enter(_) | Event::Iterated { .. });
        assert!(!asks || reply == REPLY, "the reply to {event:?} is {reply:?}");
    }
    adapter(Shared(probe)).accesses(&[BODY[0].at(THREAD, 0)]);
    assert_eq!(probe.borrow().accesses, 1);
}

/// A [`Probe`] that can be looked at while an adapter has it.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'p>(pub &'p core::cell::RefCell<Probe>);

impl AccessSink for Shared<'_> {
    fn accesses(&mut self, batch: &[Access]) {
        self.0.borrow_mut().accesses(batch);
    }
    fn wants(&self) -> Wants {
        self.0.borrow().wants()
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        self.0.borrow_mut().event(event)
    }
    fn done(&self) -> bool {
        self.0.borrow().done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SinkAdapter;
    use core::cell::RefCell;

    /// Overrides nothing.
    struct Plain<S>(S);

    impl<S: AccessSink> SinkAdapter for Plain<S> {
        type Inner = S;
        fn inner(&self) -> &S {
            &self.0
        }
        fn inner_mut(&mut self) -> &mut S {
            &mut self.0
        }
    }

    #[test]
    fn an_adapter_that_overrides_nothing_forwards_everything() {
        let probe = RefCell::default();
        check_adapter(&probe, Plain, |_| false);
        check_adapter(&probe, |shared| Plain(Plain(shared)), |_| false);
    }

    #[test]
    fn a_reference_forwards_everything() {
        // `sink` is the reference itself, not what it refers to.
        fn told(mut sink: impl AccessSink, event: Event<'_>) -> (Wants, Reply, bool) {
            sink.accesses(&[BODY[0].at(THREAD, 0); 3]);
            (sink.wants(), sink.event(event), sink.done())
        }
        let mut seen = 0;
        for (event, wants) in events().zip(wants().cycle()) {
            let mut probe = Probe {
                wants,
                enough: true,
                ..Probe::default()
            };
            assert_eq!(told(&mut probe as &mut dyn AccessSink, event), (wants, REPLY, true));
            assert_eq!((probe.event, probe.accesses), (Some(event), 3));
            seen += 1;
        }
        assert_eq!(seen, 10);
    }

    #[test]
    fn every_want_is_wanted_once() {
        let all = wants().fold([0; 6], |mut sum, wants| {
            let Wants {
                fetches,
                loops,
                repeats,
                flows,
                edges,
                notes,
            } = wants;
            let each = [fetches, loops.is_some(), repeats, flows, edges, notes];
            sum.iter_mut().zip(each).for_each(|(sum, want)| *sum += u32::from(want));
            sum
        });
        assert_eq!(all, [1; 6]);
    }
}
