//! Stops a stream of accesses at given places.
//!
//! A sink that implements [`Cuts`] says how much may come before it wants to be told, in accesses or
//! instructions; a [`Cutter`] before it splits batches there, and loops that are handed on whole.
//! The place is before the first access, or instruction, that is too many: so everything that an
//! instruction does stays together.
use memtrail_model::{Access, AccessSink, Event, Kind, LoopAccess, LoopRun, Reply, SinkAdapter, Wants};

/// What a run's length is counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Reads, writes and prefetches.
    #[default]
    Accesses,
    Instructions,
}

impl Unit {
    pub fn word(self) -> &'static str {
        match self {
            Unit::Accesses => "accesses",
            Unit::Instructions => "instructions",
        }
    }

    #[inline]
    fn counts(self, kind: Kind) -> bool {
        (kind == Kind::Fetch) == (self == Unit::Instructions)
    }
}

/// A sink that is told at places it chooses.
pub trait Cuts: AccessSink {
    /// How much comes before the next cut, at least 1.
    fn room(&self) -> u64;
    /// That much has come, and more is to come.
    fn cut(&mut self);
}

/// Cuts what goes to a sink.
pub struct Cutter<S> {
    sink: S,
    unit: Unit,
    /// What may come before the next cut.
    room: u64,
    /// The sink wants fetches, too.
    fetches: bool,
    /// Accesses without fetches, where the sink does not want them.
    without: Vec<Access>,
}

impl<S: Cuts> Cutter<S> {
    pub fn new(sink: S, unit: Unit) -> Cutter<S> {
        Cutter {
            room: sink.room(),
            fetches: sink.wants().fetches,
            sink,
            unit,
            without: Vec::new(),
        }
    }

    /// The sink, and what was left until the next cut.
    pub fn finish(self) -> (S, u64) {
        (self.sink, self.room)
    }

    fn cut(&mut self) {
        self.sink.cut();
        self.room = self.sink.room();
    }

    fn hand_on(&mut self, batch: &[Access]) {
        if self.unit == Unit::Accesses || self.fetches {
            return self.sink.accesses(batch);
        }
        self.without.clear();
        self.without
            .extend(batch.iter().filter(|access| access.kind != Kind::Fetch));
        if !self.without.is_empty() {
            self.sink.accesses(&self.without);
        }
    }

    /// Hands loops on whole between cuts, and iterations with a cut inside as accesses.
    fn looped(&mut self, run: &LoopRun<'_>) -> Reply {
        let each = run.body.iter().filter(|access| self.unit.counts(access.kind)).count() as u64;
        if each == 0 {
            return Reply::NOTHING;
        }
        let mut body = run.body.to_vec();
        let mut done = 0;
        while done < run.trips {
            let trips = (self.room / each).min(run.trips - done);
            let taken = match trips {
                0 => {
                    let iteration: Vec<Access> = body.iter().map(|access| access.at(run.thread, access.addr)).collect();
                    self.pass(&iteration);
                    1
                }
                trips => {
                    let taken = self.offer(run, &body, trips);
                    self.room -= taken * each;
                    if taken < trips {
                        return Reply::skip(done + taken);
                    }
                    taken
                }
            };
            body.iter_mut().for_each(|access| access.advance(taken));
            done += taken;
        }
        Reply::skip(done)
    }

    /// How many of the iterations that it was offered the sink took.
    fn offer(&mut self, run: &LoopRun<'_>, body: &[LoopAccess], trips: u64) -> u64 {
        let thread = run.thread;
        if self.unit == Unit::Accesses || self.fetches {
            return self.sink.event(Event::Loop(LoopRun { thread, trips, body })).skip;
        }
        let body: Vec<LoopAccess> = body.iter().copied().filter(|a| a.kind != Kind::Fetch).collect();
        match body.is_empty() {
            true => trips,
            false => {
                self.sink
                    .event(Event::Loop(LoopRun {
                        thread,
                        trips,
                        body: &body,
                    }))
                    .skip
            }
        }
    }
}

impl<S: Cuts> SinkAdapter for Cutter<S> {
    type Inner = S;
    fn inner(&self) -> &S {
        &self.sink
    }
    fn inner_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    fn adjust(&self, wants: Wants) -> Wants {
        Wants {
            fetches: wants.fetches || self.unit == Unit::Instructions,
            // What is left out cannot be cut.
            repeats: false,
            ..wants
        }
    }

    fn pass(&mut self, batch: &[Access]) {
        let mut rest = batch;
        while !rest.is_empty() {
            let unit = self.unit;
            let mut counted = 0;
            let room = self.room;
            let too_many = rest.iter().position(|access| {
                let counts = unit.counts(access.kind);
                let is_too_many = counts && counted == room;
                counted += u64::from(counts && !is_too_many);
                is_too_many
            });
            let (part, behind) = rest.split_at(too_many.unwrap_or(rest.len()));
            self.room -= counted;
            if !part.is_empty() {
                self.hand_on(part);
            }
            if too_many.is_some() {
                self.cut();
            }
            rest = behind;
        }
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Loop(run) => self.looped(&run),
            other => self.sink.event(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::{Point, Thread};
    use proptest::prelude::*;

    /// Remembers addresses, with a `None` for each cut.
    struct Seen {
        each: u64,
        takes_loops: bool,
        fetches: bool,
        seen: Vec<Option<(Kind, u64)>>,
    }

    impl AccessSink for Seen {
        fn accesses(&mut self, batch: &[Access]) {
            self.seen
                .extend(batch.iter().map(|access| Some((access.kind, access.addr))));
        }
        fn wants(&self) -> Wants {
            Wants {
                loops: self.takes_loops.then_some(0),
                fetches: self.fetches,
                ..Wants::default()
            }
        }
        fn event(&mut self, event: Event<'_>) -> Reply {
            let Event::Loop(run) = event else {
                return Reply::NOTHING;
            };
            if !self.takes_loops {
                return Reply::NOTHING;
            }
            let all: Vec<Access> = run.accesses().collect();
            self.accesses(&all);
            Reply::skip(run.trips)
        }
    }

    impl Cuts for Seen {
        fn room(&self) -> u64 {
            self.each
        }
        fn cut(&mut self) {
            self.seen.push(None);
        }
    }

    fn body(kinds: &[Kind]) -> Vec<LoopAccess> {
        let one = |(at, &kind): (usize, &Kind)| LoopAccess {
            pc: at as u64,
            kind,
            point: Point(at as u32),
            size: 8,
            addr: 1000 * at as u64,
            stride: 1,
        };
        kinds.iter().enumerate().map(one).collect()
    }

    /// What a sink must see of a loop, by the definition.
    fn expected(run: &LoopRun<'_>, unit: Unit, each: u64, fetches: bool) -> Vec<Option<(Kind, u64)>> {
        let (mut seen, mut counted) = (Vec::new(), 0);
        for access in run.accesses() {
            if unit.counts(access.kind) {
                if counted == each {
                    seen.push(None);
                    counted = 0;
                }
                counted += 1;
            }
            if fetches || unit == Unit::Accesses || access.kind != Kind::Fetch {
                seen.push(Some((access.kind, access.addr)));
            }
        }
        seen
    }

    proptest! {
        /// Loops that are taken whole, loops that are refused, and batches all give the same.
        #[test]
        fn cuts_are_where_they_should_be(
            kinds in prop::collection::vec(prop::sample::select(vec![Kind::Read, Kind::Write, Kind::Fetch]), 1..5),
            trips in 1u64..30, each in 1u64..20, takes_loops: bool, as_loop: bool, instructions: bool, fetches: bool,
        ) {
            let unit = if instructions { Unit::Instructions } else { Unit::Accesses };
            let body = body(&kinds);
            let run = LoopRun { thread: Thread(0), trips, body: &body };
            let seen = Seen { each, takes_loops, fetches, seen: Vec::new() };
            let mut cutter = Cutter::new(seen, unit);
            let taken = if as_loop { cutter.event(Event::Loop(run)).skip } else { 0 };
            let rest: Vec<Access> = run.accesses().skip(taken as usize * body.len()).collect();
            rest.chunks(7).for_each(|batch| cutter.accesses(batch));
            let (seen, room) = cutter.finish();
            prop_assert_eq!(&seen.seen, &expected(&run, unit, each, fetches));
            let counted = kinds.iter().filter(|&&kind| unit.counts(kind)).count() as u64 * trips;
            let over = if counted == 0 { 0 } else { (counted - 1) % each + 1 };
            prop_assert_eq!(room, each - over);
        }
    }
}
