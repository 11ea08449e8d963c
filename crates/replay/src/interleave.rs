//! Several threads' accesses as one sequence.
//!
//! **Problem.** Each thread's accesses are recorded in order, but when one thread's happened among
//! another's is known only from time stamps, one pair for thousands of accesses.
//!
//! **Idea.** A thread's accesses come in *segments* with a time at each end. They are spread evenly
//! between the two, cut into slices, and the slices of all threads are handed on by the time of
//! their first access. Or else time is left aside, and the threads take turns. A stream may also
//! have to wait until another has come to a certain place: it is *held*, and takes up its place
//! when it can go on.
//!
//! **Invariants.** Each thread's accesses stay in order. The result is a function of the segments
//! alone: where times are equal, the earlier stream goes first. Of every stream no more than one
//! slice is asked for at a time, and a segment is asked for only when the one before is used up.
use memtrail_model::AccessSink;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stretch of one thread's accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Time when its first access may have happened.
    pub begin: u64,
    /// Time when all had happened.
    pub end: u64,
    pub accesses: u64,
}

impl Segment {
    /// The time of access `i`.
    pub fn time(&self, i: u64) -> u64 {
        let length = u128::from(self.end.saturating_sub(self.begin));
        let passed = length * u128::from(i) / u128::from(self.accesses.max(1));
        self.begin + passed as u64
    }

    /// How many of its accesses happened before a time.
    pub fn before(&self, time: u64) -> u64 {
        let (mut low, mut high) = (0, self.accesses);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.time(middle) < time {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// One thread's accesses, segment by segment.
pub trait Stream {
    type Error;
    /// The next segment; called when all accesses of the one before have been produced. Fetches
    /// that follow them go to the sink.
    fn segment<S: AccessSink>(&mut self, sink: &mut S) -> Result<Option<Segment>, Self::Error>;
    /// Hands on the next `n` accesses, and the fetches before them; there are that many left in the
    /// segment. Returns how many: fewer if the stream is held.
    fn produce<S: AccessSink>(&mut self, n: u64, sink: &mut S) -> Result<u64, Self::Error>;
    /// Hands on what comes before the next access and is none. Returns `false` if the stream is
    /// held.
    fn settle<S: AccessSink>(&mut self, _sink: &mut S) -> Result<bool, Self::Error> {
        Ok(true)
    }
    /// Every stream is held: this one is to go on all the same. Called for the one that waits for
    /// the least.
    fn insist(&mut self) {}
    /// What a stream that is held waits for; the least goes on first if all are.
    fn waits_for(&self) -> u64 {
        0
    }
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By recorded time, in slices.
    Time,
    /// By recorded time, access by access: for those to whom it matters which thread was first.
    Finest,
    /// This number of accesses of each stream in turn, as long as it has any.
    EqualRate { quantum: u64 },
}

/// Most accesses handed on in one go when ordering by time.
pub const SLICE: u64 = 1000;

/// In the finest order, while streams wait for what the only other one does.
const FINE_SLICE: u64 = 8;

/// A stream and how far it has come.
struct Place<'s, T> {
    stream: &'s mut T,
    segment: Segment,
    /// Accesses of the segment already handed on.
    done: u64,
}

/// How a stream stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ready {
    /// There is an access.
    Yes,
    Held,
    /// There is none any more.
    Over,
}

impl<T: Stream> Place<'_, T> {
    /// Goes on to the next segment that has accesses if this one is used up.
    fn ready<S: AccessSink>(&mut self, sink: &mut S) -> Result<Ready, T::Error> {
        loop {
            if !self.stream.settle(sink)? {
                return Ok(Ready::Held);
            }
            if self.done < self.segment.accesses {
                return Ok(Ready::Yes);
            }
            match self.stream.segment(sink)? {
                Some(segment) => (self.segment, self.done) = (segment, 0),
                None => return Ok(Ready::Over),
            }
        }
    }

    /// How many accesses, from the next one on, come before a time: at least 1, at most a slice.
    fn before(&self, time: u64) -> u64 {
        let earlier = |n: u64| self.segment.time(self.done.saturating_add(n)) < time;
        let (mut low, mut step) = (1, 1);
        // Mostly it is a few.
        while low + step <= SLICE && earlier(low + step - 1) {
            low += step;
            step *= 2;
        }
        while step > 1 {
            step /= 2;
            if low + step <= SLICE && earlier(low + step - 1) {
                low += step;
            }
        }
        low
    }

    /// Hands on at most `n` accesses of the segment; returns how many.
    fn produce<S: AccessSink>(&mut self, n: u64, sink: &mut S) -> Result<u64, T::Error> {
        let n = n.min(self.segment.accesses - self.done);
        let n = self.stream.produce(n, sink)?;
        self.done += n;
        Ok(n)
    }
}

/// Hands all accesses of all streams on in one order.
pub fn interleave<T: Stream, S: AccessSink>(streams: &mut [T], order: Order, sink: &mut S) -> Result<(), T::Error> {
    let nothing = Segment {
        begin: 0,
        end: 0,
        accesses: 0,
    };
    let mut places: Vec<Place<T>> = streams
        .iter_mut()
        .map(|stream| Place {
            stream,
            segment: nothing,
            done: 0,
        })
        .collect();
    match order {
        Order::Time => by_time(&mut places, false, sink),
        Order::Finest => by_time(&mut places, true, sink),
        Order::EqualRate { quantum } => in_turn(&mut places, quantum.max(1), sink),
    }
}

fn by_time<T: Stream, S: AccessSink>(places: &mut [Place<T>], finest: bool, sink: &mut S) -> Result<(), T::Error> {
    let mut next = BinaryHeap::new();
    let mut held: Vec<usize> = (0..places.len()).collect();
    loop {
        // Those that were held may have waited for what was handed on last.
        let mut i = 0;
        while i < held.len() {
            let place = &mut places[held[i]];
            match place.ready(sink)? {
                Ready::Yes => next.push(Reverse((place.segment.time(place.done), held[i]))),
                Ready::Over => {}
                Ready::Held => {
                    i += 1;
                    continue;
                }
            }
            // One that goes on may let the ones before it go on.
            held.remove(i);
            i = 0;
        }
        let Some(Reverse((_, i))) = next.pop() else {
            if !insist(places, &held) {
                return Ok(());
            }
            continue;
        };
        let slice = match next.peek() {
            Some(&Reverse((time, other))) if finest => {
                // Equal times go to the earlier stream.
                places[i].before(time.saturating_add(u64::from(i < other)))
            }
            // One that waits may be let go on by any of these.
            None if finest && !held.is_empty() => FINE_SLICE,
            _ => SLICE,
        };
        places[i].produce(slice, sink)?;
        match places[i].ready(sink)? {
            Ready::Yes => next.push(Reverse((places[i].segment.time(places[i].done), i))),
            Ready::Held => held.push(i),
            Ready::Over => {}
        }
    }
}

/// Lets one of the streams go on though it is held. Returns whether there is one.
fn insist<T: Stream>(places: &mut [Place<T>], held: &[usize]) -> bool {
    let least = held.iter().copied().min_by_key(|&i| places[i].stream.waits_for());
    least.map(|i| places[i].stream.insist()).is_some()
}

fn in_turn<T: Stream, S: AccessSink>(places: &mut [Place<T>], quantum: u64, sink: &mut S) -> Result<(), T::Error> {
    let mut live: Vec<usize> = (0..places.len()).collect();
    while !live.is_empty() {
        let (mut left, mut moved) = (Vec::with_capacity(live.len()), false);
        for i in live {
            let (ready, n) = turn(&mut places[i], quantum, sink)?;
            moved |= n > 0 || ready == Ready::Over;
            if ready != Ready::Over {
                left.push(i);
            }
        }
        live = left;
        if !moved {
            insist(places, &live);
        }
    }
    Ok(())
}

/// One stream's turn; returns how it stands then, and how many accesses it had.
fn turn<T: Stream, S: AccessSink>(place: &mut Place<T>, quantum: u64, sink: &mut S) -> Result<(Ready, u64), T::Error> {
    let mut n = 0;
    loop {
        let ready = place.ready(sink)?;
        if ready != Ready::Yes || n == quantum {
            return Ok((ready, n));
        }
        n += place.produce((quantum - n).min(SLICE), sink)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::{Access, Kind, Point, Thread};

    /// A thread whose access number `i` touches address `i`.
    struct Numbers {
        thread: u32,
        segments: std::vec::IntoIter<Segment>,
        next: u64,
        left: u64,
    }

    impl Stream for Numbers {
        type Error = &'static str;
        fn segment<S: AccessSink>(&mut self, _sink: &mut S) -> Result<Option<Segment>, &'static str> {
            assert_eq!(self.left, 0, "asked for a segment too early");
            let segment = self.segments.next();
            self.left = segment.map_or(0, |s| s.accesses);
            match segment {
                Some(s) if s.begin == u64::MAX => Err("a bad segment"),
                other => Ok(other),
            }
        }
        fn produce<S: AccessSink>(&mut self, n: u64, sink: &mut S) -> Result<u64, &'static str> {
            assert!(0 < n && n <= self.left.min(SLICE));
            let batch: Vec<Access> = (self.next..self.next + n)
                .map(|addr| Access {
                    thread: Thread(self.thread),
                    pc: 0,
                    kind: Kind::Read,
                    addr,
                    size: 1,
                    point: Point::NONE,
                })
                .collect();
            sink.accesses(&batch);
            self.next += n;
            self.left -= n;
            Ok(n)
        }
    }

    /// Runs of (thread, first access, number of accesses).
    #[derive(Default)]
    struct Runs(Vec<(u32, u64, u64)>);

    impl AccessSink for Runs {
        fn accesses(&mut self, batch: &[Access]) {
            self.0.push((batch[0].thread.0, batch[0].addr, batch.len() as u64));
        }
    }

    fn streams(threads: &[&[(u64, u64, u64)]]) -> Vec<Numbers> {
        let segment = |&(begin, end, accesses): &(u64, u64, u64)| Segment { begin, end, accesses };
        let stream = |(i, segments): (usize, &&[(u64, u64, u64)])| Numbers {
            thread: i as u32,
            segments: segments.iter().map(segment).collect::<Vec<_>>().into_iter(),
            next: 0,
            left: 0,
        };
        threads.iter().enumerate().map(stream).collect()
    }

    fn runs(threads: &[&[(u64, u64, u64)]], order: Order) -> Vec<(u32, u64, u64)> {
        let mut sink = Runs::default();
        interleave(&mut streams(threads), order, &mut sink).unwrap();
        sink.0
    }

    #[test]
    fn slices_come_by_the_time_of_their_first_access() {
        // Thread 0: accesses 0, 1000, 2000 at 100, 200, 300. Thread 1: 0 and 1000 at 150 and 250.
        let order = runs(&[&[(100, 400, 3000)], &[(150, 350, 2000)]], Order::Time);
        let expected = [
            (0, 0, 1000),
            (1, 0, 1000),
            (0, 1000, 1000),
            (1, 1000, 1000),
            (0, 2000, 1000),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn in_the_finest_order_every_access_has_its_turn() {
        // Thread 0: every 10 from 100 on. Thread 1: every 20 from 105 on, and at 140 as thread 0.
        let order = runs(&[&[(100, 150, 5)], &[(105, 145, 2), (140, 160, 1)]], Order::Finest);
        assert_eq!(
            order,
            [(0, 0, 1), (1, 0, 1), (0, 1, 2), (1, 1, 1), (0, 3, 2), (1, 2, 1)]
        );
        // Alone, or long before the others, it is slices.
        let order = runs(&[&[(0, 1100, 1100)], &[(1050, 1060, 1)]], Order::Finest);
        assert_eq!(order, [(0, 0, 1000), (0, 1000, 51), (1, 0, 1), (0, 1051, 49)]);
    }

    #[test]
    fn the_finest_order_is_that_of_times() {
        let threads: &[&[(u64, u64, u64)]] =
            &[&[(0, 997, 100), (1000, 1003, 50)], &[(3, 900, 77)], &[(500, 1001, 300)]];
        let mut all: Vec<(u64, u32, u64)> = Vec::new();
        for (thread, segments) in threads.iter().enumerate() {
            let mut number = 0;
            for &(begin, end, accesses) in *segments {
                let segment = Segment { begin, end, accesses };
                for i in 0..accesses {
                    all.push((segment.time(i), thread as u32, number));
                    number += 1;
                }
            }
        }
        all.sort_unstable();
        let expected: Vec<(u32, u64)> = all.into_iter().map(|(_, thread, number)| (thread, number)).collect();
        let found = runs(threads, Order::Finest).into_iter();
        let found: Vec<(u32, u64)> = found
            .flat_map(|(t, first, n)| (first..first + n).map(move |i| (t, i)))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn equal_times_go_to_the_earlier_stream() {
        let order = runs(&[&[(5, 5, 1500)], &[(5, 5, 1)], &[(4, 9, 1)]], Order::Time);
        assert_eq!(order, [(2, 0, 1), (0, 0, 1000), (0, 1000, 500), (1, 0, 1)]);
    }

    #[test]
    fn segments_follow_each_other_and_empty_ones_are_passed_over() {
        let first: &[(u64, u64, u64)] = &[(10, 20, 2), (20, 20, 0), (40, 50, 3)];
        let order = runs(&[first, &[(0, 0, 0), (30, 35, 1)], &[], &[(7, 8, 0)]], Order::Time);
        assert_eq!(order, [(0, 0, 2), (1, 0, 1), (0, 2, 3)]);
    }

    #[test]
    fn long_and_backward_times_do_not_overflow() {
        let long = Segment {
            begin: 1,
            end: u64::MAX,
            accesses: u64::MAX,
        };
        assert_eq!(long.time(u64::MAX - 1), u64::MAX - 1);
        let backward = Segment {
            begin: 9,
            end: 3,
            accesses: 5,
        };
        assert_eq!(backward.time(4), 9);
    }

    #[test]
    fn at_equal_rate_every_stream_gets_its_quantum_in_turn() {
        let threads: &[&[(u64, u64, u64)]] = &[&[(900, 901, 3), (902, 903, 4)], &[(0, 1, 2)], &[(5, 6, 5)]];
        let order = runs(threads, Order::EqualRate { quantum: 4 });
        // A quantum may span segments.
        let expected = [(0, 0, 3), (0, 3, 1), (1, 0, 2), (2, 0, 4), (0, 4, 3), (2, 4, 1)];
        assert_eq!(order, expected);
        let order = runs(&[&[(0, 1, 2500)], &[(0, 1, 1)]], Order::EqualRate { quantum: 2200 });
        assert_eq!(
            order,
            [(0, 0, 1000), (0, 1000, 1000), (0, 2000, 200), (1, 0, 1), (0, 2200, 300)]
        );
    }

    #[test]
    fn an_error_ends_it() {
        for order in [Order::Time, Order::EqualRate { quantum: 7 }] {
            let mut threads = streams(&[&[(0, 1, 10), (u64::MAX, 0, 1)], &[(2, 3, 10)]]);
            let mut sink = Runs::default();
            assert_eq!(interleave(&mut threads, order, &mut sink), Err("a bad segment"));
            assert_eq!(sink.0[0].0, 0);
        }
    }
}
