//! A simulator on a core of its own.
//!
//! **Problem.** Making accesses, attributing them and simulating them takes about as long each. One
//! after the other on one core, the caches wait for the accesses and the accesses for the caches.
//!
//! **Idea.** Accesses and whole loops are put into *parcels*, which another thread simulates in the
//! order in which they were sent. Nobody needs an answer, but for one question: which iterations of
//! a loop may be left out ([`Event::Iterated`]). So the simulator stays in the thread that brings
//! accesses at first, and as long as most of them are left out; it moves to another when they are
//! not, and is not asked there. It comes back for a while now and then, since loops of another part
//! of the program may repeat themselves.
//!
//! **Invariant.** The simulator sees what it would see without this, in the same order; only how
//! accesses are cut into batches, and what is left out because it repeats, may differ. Neither
//! changes a count.
use crate::Simulator;
use memtrail_model::{Access, AccessSink, Event, LoopAccess, LoopRun, Reply, Thread, Wants};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::thread::JoinHandle;

/// Accesses of a parcel, counting those of loop bodies once: it stays in the second-level cache
/// until it is simulated.
const PARCEL: usize = 8192;
/// Parcels that may wait for the simulator.
const WAITING: usize = 3;
/// Accesses that the simulator is given at once: its log of misses stays near.
const BATCH: usize = 1024;
/// After this number of accesses it is decided where the simulator goes on.
const TRIAL: u64 = 1 << 21;
/// One trial here follows this number of them elsewhere.
const AWAY: u64 = 24;

/// What came, in order.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The next accesses, of one thread.
    Accesses(usize),
    /// A loop; its body is the next of the bodies' accesses.
    Loop {
        thread: Thread,
        trips: u64,
        length: usize,
    },
    Space {
        thread: Thread,
        space: u32,
    },
}

#[derive(Debug, Default)]
struct Parcel {
    steps: Vec<Step>,
    accesses: Vec<Access>,
    bodies: Vec<LoopAccess>,
}

impl Parcel {
    fn is_full(&self) -> bool {
        self.accesses.len() + self.bodies.len() >= PARCEL || self.steps.len() >= PARCEL
    }

    fn clear(&mut self) {
        self.steps.clear();
        self.accesses.clear();
        self.bodies.clear();
    }

    fn put(&mut self, mut batch: &[Access]) {
        while let Some(first) = batch.first() {
            let follows = self.accesses.last().is_some_and(|last| last.thread == first.thread);
            let room = match self.steps.last_mut() {
                Some(Step::Accesses(n)) if follows && *n < BATCH => {
                    let now = batch.len().min(BATCH - *n);
                    *n += now;
                    now
                }
                _ => {
                    let now = batch.len().min(BATCH);
                    self.steps.push(Step::Accesses(now));
                    now
                }
            };
            let (now, later) = batch.split_at(room);
            self.accesses.extend_from_slice(now);
            batch = later;
        }
    }

    fn simulate(&self, simulator: &mut Simulator) {
        let (mut accesses, mut bodies) = (self.accesses.as_slice(), self.bodies.as_slice());
        for &step in &self.steps {
            match step {
                Step::Accesses(n) => {
                    let (now, later) = accesses.split_at(n);
                    simulator.accesses(now);
                    accesses = later;
                }
                Step::Loop { thread, trips, length } => {
                    let (body, later) = bodies.split_at(length);
                    whole(simulator, LoopRun { thread, trips, body });
                    bodies = later;
                }
                Step::Space { thread, space } => {
                    simulator.event(Event::Space { thread, space });
                }
            }
        }
    }
}

/// A loop, as far as it is taken whole, and the rest of it.
fn whole(simulator: &mut Simulator, run: LoopRun<'_>) {
    let taken = simulator.event(Event::Loop(run)).skip;
    if taken >= run.trips {
        return;
    }
    let mut body = run.body.to_vec();
    body.iter_mut().for_each(|access| access.advance(taken));
    let rest = LoopRun {
        trips: run.trips - taken,
        body: &body,
        ..run
    };
    let mut accesses = rest.accesses().peekable();
    let mut batch = Vec::with_capacity(BATCH);
    while accesses.peek().is_some() {
        batch.extend(accesses.by_ref().take(BATCH));
        simulator.accesses(&batch);
        batch.clear();
    }
}

/// The thread that simulates.
#[derive(Debug)]
struct Worker {
    parcels: SyncSender<Parcel>,
    used: Receiver<Parcel>,
    thread: JoinHandle<Simulator>,
}

impl Worker {
    fn start(mut simulator: Simulator) -> Worker {
        let (parcels, sent) = sync_channel::<Parcel>(WAITING);
        let (back, used): (Sender<Parcel>, _) = channel();
        let thread = std::thread::spawn(move || {
            for mut parcel in sent {
                parcel.simulate(&mut simulator);
                parcel.clear();
                // Whoever sent it may be done.
                let _ = back.send(parcel);
            }
            simulator
        });
        Worker { parcels, used, thread }
    }

    /// The simulator, when it has dealt with everything.
    fn end(self) -> Simulator {
        drop(self.parcels);
        match self.thread.join() {
            Ok(simulator) => simulator,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

#[derive(Debug)]
enum Place {
    Here(Box<Simulator>),
    Elsewhere(Worker),
    /// Only while it moves.
    Nowhere,
}

/// A simulator that works beside the thread that brings accesses: see the module's head.
#[derive(Debug)]
pub struct Beside {
    place: Place,
    wants: Wants,
    /// There is a core for it.
    moves: bool,
    /// [`TRIAL`]
    trial: u64,
    /// The simulator is asked which iterations of loops may be left out.
    asks: bool,
    /// What has not been sent.
    parcel: Parcel,
    /// Accesses that came since it was decided how to go on; those that were left out did not.
    came: u64,
    /// Those that had been left out by then.
    skipped: u64,
    /// Loops that the simulator is being asked about.
    asked: usize,
}

impl Beside {
    /// It gets a thread of its own if there are several cores. Where it is asked about loops is
    /// decided in the same way for any number of them.
    pub fn new(simulator: Simulator, cores: usize) -> Beside {
        Beside {
            wants: simulator.wants(),
            place: Place::Here(Box::new(simulator)),
            moves: cores > 1,
            trial: TRIAL,
            asks: true,
            parcel: Parcel::default(),
            came: 0,
            skipped: 0,
            asked: 0,
        }
    }

    /// The simulator, which has everything by then.
    pub fn simulator(&mut self) -> &mut Simulator {
        self.come_back();
        match &mut self.place {
            Place::Here(simulator) => simulator,
            Place::Elsewhere(_) | Place::Nowhere => unreachable!("it has come back"),
        }
    }

    fn come_back(&mut self) {
        self.send();
        match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Elsewhere(worker) => self.place = Place::Here(Box::new(worker.end())),
            place => self.place = place,
        }
    }

    fn send(&mut self) {
        let Place::Elsewhere(worker) = &self.place else { return };
        if self.parcel.steps.is_empty() {
            return;
        }
        let next = worker.used.try_recv().unwrap_or_default();
        let parcel = std::mem::replace(&mut self.parcel, next);
        if worker.parcels.send(parcel).is_err() {
            // It has panicked: that comes to light here.
            self.come_back();
        }
    }

    /// After some accesses: how to go on.
    #[cold]
    fn decide(&mut self) {
        if !self.asks {
            if self.wants.repeats && self.came >= AWAY * self.trial {
                self.come_back();
                (self.asks, self.came) = (true, 0);
            }
            return;
        }
        let came = std::mem::take(&mut self.came);
        match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Here(simulator) => {
                let skipped = simulator.skipped() - self.skipped;
                self.skipped += skipped;
                self.asks = self.asked > 0 || 2 * skipped > came;
                self.place = match self.moves && !self.asks {
                    true => Place::Elsewhere(Worker::start(*simulator)),
                    false => Place::Here(simulator),
                };
            }
            place => self.place = place,
        }
    }

    #[inline]
    fn count(&mut self, accesses: u64) {
        self.came = self.came.saturating_add(accesses);
        if self.came >= self.trial {
            self.decide();
        }
    }

    /// Something that is not answered.
    fn put(&mut self, step: Step, body: &[LoopAccess]) {
        self.parcel.steps.push(step);
        self.parcel.bodies.extend_from_slice(body);
        if self.parcel.is_full() {
            self.send();
        }
    }

    /// A loop is done with.
    fn taken(&mut self, run: &LoopRun<'_>) {
        self.count(run.trips.saturating_mul(run.body.len() as u64));
    }
}

impl AccessSink for Beside {
    fn accesses(&mut self, batch: &[Access]) {
        match &mut self.place {
            Place::Here(simulator) => simulator.accesses(batch),
            _ => {
                self.parcel.put(batch);
                if self.parcel.is_full() {
                    self.send();
                }
            }
        }
        self.count(batch.len() as u64);
    }

    fn wants(&self) -> Wants {
        self.wants
    }

    fn event(&mut self, event: Event<'_>) -> Reply {
        let about_loops = matches!(event, Event::Enter(_) | Event::Iterated { .. } | Event::Leave);
        if about_loops && !self.asks {
            return Reply::NOTHING;
        }
        match (&mut self.place, event) {
            (Place::Here(simulator), Event::Loop(run)) => {
                whole(simulator, run);
                self.taken(&run);
                Reply::skip(run.trips)
            }
            (Place::Here(simulator), event) => {
                let reply = simulator.event(event);
                match event {
                    Event::Enter(_) if reply.after > 0 => self.asked += 1,
                    Event::Leave => self.asked = self.asked.saturating_sub(1),
                    _ => {}
                }
                reply
            }
            (_, Event::Loop(run)) => {
                let (thread, trips, length) = (run.thread, run.trips, run.body.len());
                self.put(Step::Loop { thread, trips, length }, run.body);
                self.taken(&run);
                Reply::skip(trips)
            }
            (_, Event::Space { thread, space }) => {
                self.put(Step::Space { thread, space }, &[]);
                Reply::NOTHING
            }
            // The rest is not for simulators.
            _ => Reply::NOTHING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hierarchy, Level, LevelCounts, Options};
    use memtrail_model::{Kind, Mover, Point, Repeat};

    fn simulator() -> Simulator {
        let levels = vec![Level::new("L1", 4 << 10, 64, 4), Level::new("L2", 32 << 10, 64, 8)];
        Simulator::new(&Hierarchy::of(levels), Options::default()).unwrap()
    }

    /// Numbers that are the same every time.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (self.0 >> 33) % n
        }

        fn access(&mut self) -> LoopAccess {
            LoopAccess {
                pc: 0,
                kind: [Kind::Read, Kind::Write, Kind::Prefetch][self.below(20) as usize / 9],
                point: Point(self.below(5) as u32),
                size: [1, 4, 8, 64][self.below(4) as usize],
                addr: 0x10000 + self.below(1 << 16),
                stride: [0, 8, 24, 64, 8u64.wrapping_neg()][self.below(5) as usize],
            }
        }
    }

    /// Accesses, loops and changes of address spaces, of three threads.
    fn drive(sink: &mut impl AccessSink, seed: u64) {
        let mut numbers = Numbers(seed);
        for _ in 0..400 {
            let thread = Thread(numbers.below(3) as u32);
            match numbers.below(8) {
                0 => {
                    let space = numbers.below(2) as u32;
                    sink.event(Event::Space { thread, space });
                }
                1..4 => {
                    let body: Vec<LoopAccess> = (0..1 + numbers.below(3)).map(|_| numbers.access()).collect();
                    let trips = 1 + numbers.below(300);
                    let run = LoopRun {
                        thread,
                        trips,
                        body: &body,
                    };
                    if sink.event(Event::Loop(run)).skip == 0 {
                        let accesses: Vec<Access> = run.accesses().collect();
                        sink.accesses(&accesses);
                    }
                }
                _ => {
                    let access = |_| {
                        let access = numbers.access();
                        access.at(thread, access.addr)
                    };
                    let batch: Vec<Access> = (0..1 + seed % 7 * 300).map(access).collect();
                    sink.accesses(&batch);
                }
            }
        }
    }

    fn directly(seed: u64) -> Vec<LevelCounts> {
        let mut simulator = simulator();
        drive(&mut simulator, seed);
        simulator.counts()
    }

    #[test]
    fn what_is_simulated_elsewhere_is_what_would_be_here() {
        let mut elsewhere = 0;
        for seed in 1..15 {
            let expected = directly(seed);
            for (cores, trial) in [(1, 1000), (2, 1), (2, 1000), (2, 20_000), (2, u64::MAX)] {
                let mut beside = Beside {
                    trial,
                    ..Beside::new(simulator(), cores)
                };
                drive(&mut beside, seed);
                let is_elsewhere = matches!(beside.place, Place::Elsewhere(_));
                assert!(!is_elsewhere || cores > 1 && trial < u64::MAX);
                elsewhere += usize::from(is_elsewhere);
                assert_eq!(beside.simulator().counts(), expected, "{seed}: {cores}, {trial}");
            }
        }
        assert!(elsewhere > 20, "{elsewhere}");
    }

    #[test]
    fn it_is_not_asked_about_loops_elsewhere_and_comes_back() {
        let mut beside = Beside {
            trial: 10,
            ..Beside::new(simulator(), 2)
        };
        let thread = Thread(0);
        let access = Numbers(1).access();
        let batch = vec![access.at(thread, 0x1000); 10];
        let movers = [Mover {
            point: Point(0),
            kind: Kind::Read,
            times: 1,
            shift: 8,
            first: 0x1000,
            size: 8,
            grain: 0,
            low: 0x1000,
            high: 0x1000 + 8 * 999_999 + 7,
        }];
        let repeat = Repeat {
            thread,
            trips: 1_000_000,
            accesses: 1,
            movers: &movers,
        };
        let enter = |beside: &mut Beside| beside.event(Event::Enter(repeat)).after;
        assert!(enter(&mut beside) > 0);
        beside.accesses(&batch);
        assert!(beside.asks, "it is being asked");
        beside.event(Event::Leave);
        beside.accesses(&batch);
        assert!(!beside.asks);
        assert_eq!(enter(&mut beside), 0);
        for _ in 0..AWAY {
            beside.accesses(&batch);
        }
        assert!(enter(&mut beside) > 0);
        let reads = beside.simulator().counts()[0].total().accesses();
        assert_eq!(reads, 10 * (AWAY + 2));
    }
}
