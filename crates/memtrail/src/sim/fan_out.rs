//! Several analyses in one replay.
use memtrail_model::{Access, AccessSink, Event, Kind, LoopRun, Reply, Wants};

/// Hands everything to each of its sinks, but for repeats.
pub struct FanOut<'s> {
    sinks: Vec<&'s mut dyn AccessSink>,
    /// For sinks that do not take everything as it comes.
    batch: &'s mut Vec<Access>,
}

const BATCH: usize = 4096;

impl<'s> FanOut<'s> {
    pub fn new(sinks: Vec<&'s mut dyn AccessSink>, batch: &'s mut Vec<Access>) -> FanOut<'s> {
        FanOut { sinks, batch }
    }

    /// What one of the sinks wants; but iterations can be left out only if no other needs them.
    pub fn wants_of<'a>(sinks: impl Iterator<Item = &'a dyn AccessSink>) -> Wants {
        sinks.fold(Wants::default(), |all, sink| {
            let Wants {
                fetches,
                loops,
                repeats: _,
                flows,
                edges,
                notes,
            } = sink.wants();
            Wants {
                fetches: all.fetches || fetches,
                loops: all.loops.into_iter().chain(loops).min(),
                repeats: false,
                flows: all.flows || flows,
                edges: all.edges || edges,
                notes: all.notes || notes,
            }
        })
    }

    /// What one sink takes whole, the others get as accesses.
    fn offer(&mut self, run: LoopRun<'_>) -> Reply {
        let fetches = run.body.iter().any(|access| access.kind == Kind::Fetch);
        let mut take = |sink: &mut &mut dyn AccessSink| {
            let wants = sink.wants();
            match wants.loops.is_some() && (!fetches || wants.fetches) {
                true => sink.event(Event::Loop(run)).skip,
                false => 0,
            }
        };
        let taken: Vec<u64> = self.sinks.iter_mut().map(&mut take).collect();
        if taken.iter().all(|&taken| taken == 0) {
            return Reply::NOTHING;
        }
        for (sink, taken) in self.sinks.iter_mut().zip(taken).filter(|&(_, taken)| taken < run.trips) {
            let mut body = run.body.to_vec();
            body.iter_mut().for_each(|access| access.advance(taken));
            let rest = LoopRun {
                trips: run.trips - taken,
                body: &body,
                ..run
            };
            hand(rest.accesses(), self.batch, *sink);
        }
        Reply::skip(run.trips)
    }
}

/// Hands accesses on in batches; to a sink that does not want fetches without them.
fn hand(accesses: impl Iterator<Item = Access>, batch: &mut Vec<Access>, sink: &mut dyn AccessSink) {
    let fetches = sink.wants().fetches;
    batch.clear();
    for access in accesses.filter(|access| fetches || access.kind != Kind::Fetch) {
        batch.push(access);
        if batch.len() == BATCH {
            sink.accesses(batch);
            batch.clear();
        }
    }
    if !batch.is_empty() {
        sink.accesses(batch);
    }
}

impl AccessSink for FanOut<'_> {
    fn accesses(&mut self, batch: &[Access]) {
        let mixed = self.wants().fetches;
        for sink in &mut self.sinks {
            match mixed && !sink.wants().fetches {
                true => hand(batch.iter().copied(), self.batch, *sink),
                false => sink.accesses(batch),
            }
        }
    }

    fn wants(&self) -> Wants {
        FanOut::wants_of(self.sinks.iter().map(|sink| &**sink))
    }

    fn event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Loop(run) => self.offer(run),
            // Iterations can be left out only if no other sink needs them.
            Event::Enter(_) | Event::Iterated { .. } | Event::Leave => Reply::NOTHING,
            other => {
                for sink in &mut self.sinks {
                    sink.event(other);
                }
                Reply::NOTHING
            }
        }
    }

    fn done(&self) -> bool {
        self.sinks.iter().all(|sink| sink.done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::{testing, LoopAccess, Point, Thread};

    #[derive(Default)]
    struct Seen {
        addresses: Vec<u64>,
        takes_loops: bool,
        loops: u32,
        /// Iterations of a loop that it wants as accesses.
        leaves: u64,
        fetches: bool,
        enough: bool,
    }

    impl AccessSink for Seen {
        fn accesses(&mut self, batch: &[Access]) {
            self.addresses.extend(batch.iter().map(|a| a.addr));
        }
        fn wants(&self) -> Wants {
            Wants {
                loops: self.takes_loops.then_some(5),
                fetches: self.fetches,
                ..Wants::default()
            }
        }
        fn event(&mut self, event: Event<'_>) -> Reply {
            let Event::Loop(run) = event else {
                return Reply::NOTHING;
            };
            self.loops += 1;
            Reply::skip(run.trips - self.leaves)
        }
        fn done(&self) -> bool {
            self.enough
        }
    }

    #[test]
    fn who_takes_no_loops_gets_their_accesses() {
        let body = [LoopAccess {
            pc: 0,
            kind: Kind::Read,
            point: Point(0),
            size: 8,
            addr: 1000,
            stride: 8,
        }];
        let trips = 2 * BATCH as u64 + 1;
        let run = LoopRun {
            thread: Thread(0),
            trips,
            body: &body,
        };
        let (mut plain, mut looping, mut spare) = (Seen::default(), Seen::default(), Vec::new());
        let mut all = FanOut::new(vec![&mut plain, &mut looping], &mut spare);
        assert_eq!(all.wants().loops, None);
        assert_eq!(all.event(Event::Loop(run)), Reply::NOTHING, "no sink takes it");
        (looping.takes_loops, looping.leaves) = (true, 1);
        let mut all = FanOut::new(vec![&mut plain, &mut looping], &mut spare);
        assert_eq!(all.wants().loops, Some(5));
        assert_eq!(all.event(Event::Loop(run)), Reply::skip(trips));
        let expected: Vec<u64> = (0..trips).map(|i| 1000 + 8 * i).collect();
        assert_eq!(plain.addresses, expected);
        assert_eq!(
            (looping.loops, &looping.addresses[..]),
            (1, &expected[expected.len() - 1..])
        );
    }

    #[test]
    fn fetches_are_for_those_who_want_them() {
        let access = |addr, kind| Access {
            thread: Thread(0),
            pc: 0,
            kind,
            addr,
            size: 8,
            point: Point(0),
        };
        let (mut plain, mut fetching, mut spare) = (Seen::default(), Seen::default(), Vec::new());
        fetching.fetches = true;
        let mut all = FanOut::new(vec![&mut plain, &mut fetching], &mut spare);
        assert!(all.wants().fetches);
        all.accesses(&[
            access(1, Kind::Fetch),
            access(2, Kind::Read),
            access(3, Kind::Fetch),
            access(4, Kind::Write),
        ]);
        assert_eq!(plain.addresses, [2, 4]);
        assert_eq!(fetching.addresses, [1, 2, 3, 4]);
    }

    #[test]
    fn every_sink_gets_every_event_and_wants_are_added_up() {
        for wants in testing::wants() {
            let (mut plain, mut wanting, mut spare) =
                (testing::Probe::default(), testing::Probe::default(), Vec::new());
            wanting.wants = wants;
            let expected = Wants {
                repeats: false,
                ..wants
            };
            assert_eq!(
                FanOut::new(vec![&mut plain, &mut wanting], &mut spare).wants(),
                expected
            );
        }
        for event in testing::events() {
            let (mut first, mut second, mut spare) = (testing::Probe::default(), testing::Probe::default(), Vec::new());
            FanOut::new(vec![&mut first, &mut second], &mut spare).event(event);
            let about_loops = matches!(
                event,
                Event::Loop(_) | Event::Enter(_) | Event::Iterated { .. } | Event::Leave
            );
            let expected = (!about_loops).then_some(event);
            assert_eq!((first.event, second.event), (expected, expected));
        }
    }

    #[test]
    fn it_is_done_when_all_are() {
        let (mut first, mut second, mut spare) = (Seen::default(), Seen::default(), Vec::new());
        first.enough = true;
        assert!(!FanOut::new(vec![&mut first, &mut second], &mut spare).done());
        second.enough = true;
        assert!(FanOut::new(vec![&mut first, &mut second], &mut spare).done());
    }
}
