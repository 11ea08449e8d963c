//! What programs do, in small: walks, loops, scattered accesses, of several threads.
use memtrail_model::{Access, Kind, LoopAccess, LoopRun, Mover, Point, Thread};
use proptest::prelude::*;
use proptest::sample::select;

/// What one thread does for a while.
#[derive(Clone, Debug)]
pub enum Piece {
    Accesses(Vec<Access>),
    Loop {
        thread: Thread,
        trips: u64,
        body: Vec<LoopAccess>,
    },
}

impl Piece {
    fn of(self, thread: Thread) -> Piece {
        match self {
            Piece::Accesses(mut accesses) => {
                accesses.iter_mut().for_each(|access| access.thread = thread);
                Piece::Accesses(accesses)
            }
            Piece::Loop { trips, body, .. } => Piece::Loop { thread, trips, body },
        }
    }

    pub fn accesses(&self) -> Vec<Access> {
        match self {
            Piece::Accesses(accesses) => accesses.clone(),
            Piece::Loop { thread, trips, body } => {
                let run = LoopRun {
                    thread: *thread,
                    trips: *trips,
                    body,
                };
                run.accesses().collect()
            }
        }
    }
}

/// What happens, and the process of each thread.
#[derive(Clone, Debug)]
pub struct Stream {
    pub pieces: Vec<Piece>,
    pub spaces: Vec<(u32, u32)>,
}

impl Stream {
    pub fn accesses(&self) -> Vec<Access> {
        self.pieces.iter().flat_map(Piece::accesses).collect()
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![5 => Just(Kind::Read), 4 => Just(Kind::Write), 1 => Just(Kind::Prefetch), 2 => Just(Kind::Fetch)]
}

fn sizes() -> impl Strategy<Value = u32> {
    prop_oneof![6 => select(vec![1, 2, 4, 8]), 2 => 0..=70u32, 1 => 71..=512u32]
}

/// Places far apart, among them the ends of the numbers and of what belongs to one process.
fn places() -> impl Strategy<Value = u64> {
    let far = vec![(1 << 47) - 100, 1 << 47, 1 << 48, u64::MAX - 150];
    prop_oneof![6 => select(vec![0, 0x1000, 0x5550]), 1 => select(far)]
}

fn addresses() -> impl Strategy<Value = u64> {
    (places(), 0..400u64).prop_map(|(place, offset)| place.wrapping_add(offset))
}

/// Reference points are few, so that they meet.
fn points() -> impl Strategy<Value = u32> {
    0..8u32
}

fn scattered() -> impl Strategy<Value = Piece> {
    let one = (points(), kinds(), addresses(), sizes()).prop_map(|(point, kind, addr, size)| Access {
        pc: 0,
        thread: Thread(0),
        point: Point(point),
        kind,
        addr,
        size,
    });
    prop::collection::vec(one, 1..12).prop_map(Piece::Accesses)
}

/// A loop of a few accesses; sometimes all of them move alike. Fetches stay where they are.
fn walk() -> impl Strategy<Value = Piece> {
    let stride = || prop_oneof![2 => -9..=80i64, 1 => select(vec![-64i64, 0, 64, 128, 256, 1000])];
    let one = (points(), kinds(), addresses(), sizes(), stride());
    let body = prop::collection::vec(one, 1..4);
    let trips = prop_oneof![4 => 1..24u64, 1 => 24..200u64];
    (body, prop::option::of(stride()), trips).prop_map(|(body, common, trips)| {
        let access = |(point, kind, addr, size, stride)| LoopAccess {
            pc: 0,
            point: Point(point),
            kind,
            addr,
            size,
            stride: if kind == Kind::Fetch {
                0
            } else {
                common.unwrap_or(stride) as u64
            },
        };
        Piece::Loop {
            thread: Thread(0),
            trips,
            body: body.into_iter().map(access).collect(),
        }
    })
}

/// A piece of one thread, done several times.
fn stretch() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![scattered(), walk()];
    (0..4u32, piece, 1..4usize).prop_map(|(thread, piece, times)| vec![piece.of(Thread(thread)); times])
}

pub fn streams() -> impl Strategy<Value = Stream> {
    let spaces = prop::collection::vec((0..4u32, select(vec![0, 1, 2, 0x1_0001])), 0..3);
    (prop::collection::vec(stretch(), 1..20), spaces).prop_map(|(stretches, spaces)| Stream {
        pieces: stretches.concat(),
        spaces,
    })
}

/// An inner loop again and again, each time so much further on. Fetches stay where they are.
#[derive(Clone, Debug)]
pub struct Nest {
    pub thread: Thread,
    pub times: u64,
    pub further: i64,
    /// Of the inner loop.
    pub trips: u64,
    pub body: Vec<LoopAccess>,
}

impl Nest {
    /// The inner loop's body in one iteration of the outer one.
    pub fn body(&self, iteration: u64) -> Vec<LoopAccess> {
        let by = self.further * iteration as i64;
        let moved = |access: &LoopAccess| match access.kind {
            Kind::Fetch => *access,
            _ => LoopAccess {
                addr: access.addr.wrapping_add_signed(by),
                ..*access
            },
        };
        self.body.iter().map(moved).collect()
    }

    pub fn accesses(&self) -> Vec<Access> {
        let iteration = |i: u64| {
            let piece = Piece::Loop {
                thread: self.thread,
                trips: self.trips,
                body: self.body(i),
            };
            piece.accesses()
        };
        (0..self.times).flat_map(iteration).collect()
    }

    /// How each access moves, unless one wraps around.
    pub fn movers(&self) -> Option<Vec<Mover>> {
        let mover = |access: &LoopAccess| {
            let further = if access.kind == Kind::Fetch { 0 } else { self.further };
            let ways = [
                i128::from(access.stride as i64) * i128::from(self.trips - 1),
                i128::from(further) * i128::from(self.times - 1),
            ];
            let (down, up) = (ways.iter().map(|&way| way.min(0)), ways.iter().map(|&way| way.max(0)));
            let last = i128::from(access.size.max(1)) - 1;
            Some(Mover {
                point: access.point,
                times: self.trips,
                kind: access.kind,
                shift: further as u64,
                first: access.addr,
                size: access.size,
                grain: if self.trips > 1 {
                    (access.stride as i64).unsigned_abs()
                } else {
                    0
                },
                low: u64::try_from(i128::from(access.addr) + down.sum::<i128>()).ok()?,
                high: u64::try_from(i128::from(access.addr) + up.sum::<i128>() + last).ok()?,
            })
        };
        self.body.iter().map(mover).collect()
    }
}

pub fn nests() -> impl Strategy<Value = Vec<Nest>> {
    let further = prop_oneof![Just(0i64), -130..=130i64, select(vec![-64i64, 32, 64, 256, 512, 1024])];
    let times = prop_oneof![3 => 1..12u64, 2 => 12..60u64, 1 => 60..600u64];
    let nest = (walk(), further, times).prop_map(|(inner, further, times)| match inner {
        Piece::Loop { thread, trips, body } => Nest {
            thread,
            times,
            further,
            trips,
            body,
        },
        Piece::Accesses(_) => unreachable!("a walk is a loop"),
    });
    prop::collection::vec(nest, 1..4)
}
