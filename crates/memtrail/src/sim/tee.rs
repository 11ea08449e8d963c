//! Several analyses in one replay.
use memtrail_model::{Access, AccessSink, Kind, LoopRun, Thread};

/// Hands everything to each of its sinks. Repeats are not offered: iterations can be left out only if nobody else wants them.
pub struct Tee<'s> {
    sinks: Vec<&'s mut dyn AccessSink>,
    /// For sinks that do not take everything as it comes.
    batch: &'s mut Vec<Access>,
}

const BATCH: usize = 4096;

impl<'s> Tee<'s> {
    pub fn new(sinks: Vec<&'s mut dyn AccessSink>, batch: &'s mut Vec<Access>) -> Tee<'s> {
        Tee { sinks, batch }
    }

    pub fn is_empty(&self) -> bool {
        self.sinks.is_empty()
    }
}

/// Hands accesses on in batches; to a sink that does not want fetches without them.
fn hand(accesses: impl Iterator<Item = Access>, batch: &mut Vec<Access>, sink: &mut dyn AccessSink) {
    let fetches = sink.wants_fetches();
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

impl AccessSink for Tee<'_> {
    fn accesses(&mut self, batch: &[Access]) {
        let mixed = self.wants_fetches();
        for sink in &mut self.sinks {
            match mixed && !sink.wants_fetches() {
                true => hand(batch.iter().copied(), self.batch, *sink),
                false => sink.accesses(batch),
            }
        }
    }

    fn space(&mut self, thread: Thread, space: u32) {
        self.sinks.iter_mut().for_each(|sink| sink.space(thread, space));
    }

    fn wants_loops(&self) -> bool {
        self.sinks.iter().any(|sink| sink.wants_loops())
    }

    fn wants_fetches(&self) -> bool {
        self.sinks.iter().any(|sink| sink.wants_fetches())
    }

    /// What one sink takes whole, the others get as accesses.
    fn looped(&mut self, run: &LoopRun<'_>) -> bool {
        let fetches = run.body.iter().any(|access| access.kind == Kind::Fetch);
        let mut take = |sink: &mut &mut dyn AccessSink| {
            sink.wants_loops() && (!fetches || sink.wants_fetches()) && sink.looped(run)
        };
        let taken: Vec<bool> = self.sinks.iter_mut().map(&mut take).collect();
        if !taken.contains(&true) {
            return false;
        }
        for (sink, _) in self.sinks.iter_mut().zip(taken).filter(|(_, taken)| !taken) {
            hand(run.accesses(), self.batch, *sink);
        }
        true
    }

    fn done(&self) -> bool {
        self.sinks.iter().all(|sink| sink.done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::{LoopAccess, Point};

    #[derive(Default)]
    struct Seen {
        addresses: Vec<u64>,
        takes_loops: bool,
        loops: u32,
        fetches: bool,
        enough: bool,
    }

    impl AccessSink for Seen {
        fn accesses(&mut self, batch: &[Access]) {
            self.addresses.extend(batch.iter().map(|a| a.addr));
        }
        fn wants_loops(&self) -> bool {
            self.takes_loops
        }
        fn wants_fetches(&self) -> bool {
            self.fetches
        }
        fn looped(&mut self, _: &LoopRun<'_>) -> bool {
            self.loops += 1;
            true
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
        let mut tee = Tee::new(vec![&mut plain, &mut looping], &mut spare);
        assert!(!tee.wants_loops());
        assert!(!tee.looped(&run), "nobody takes it");
        looping.takes_loops = true;
        let mut tee = Tee::new(vec![&mut plain, &mut looping], &mut spare);
        assert!(tee.wants_loops());
        assert!(tee.looped(&run));
        let expected: Vec<u64> = (0..trips).map(|i| 1000 + 8 * i).collect();
        assert_eq!(plain.addresses, expected);
        assert_eq!((looping.loops, looping.addresses.len()), (1, 0));
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
        let mut tee = Tee::new(vec![&mut plain, &mut fetching], &mut spare);
        assert!(tee.wants_fetches());
        tee.accesses(&[
            access(1, Kind::Fetch),
            access(2, Kind::Read),
            access(3, Kind::Fetch),
            access(4, Kind::Write),
        ]);
        assert_eq!(plain.addresses, [2, 4]);
        assert_eq!(fetching.addresses, [1, 2, 3, 4]);
    }

    #[test]
    fn it_is_done_when_all_are() {
        let (mut first, mut second, mut spare) = (Seen::default(), Seen::default(), Vec::new());
        first.enough = true;
        assert!(!Tee::new(vec![&mut first, &mut second], &mut spare).done());
        second.enough = true;
        assert!(Tee::new(vec![&mut first, &mut second], &mut spare).done());
    }
}
