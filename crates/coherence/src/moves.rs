//! What if some bytes lay elsewhere? An adapter that moves accesses to them.
//!
//! An access to bytes of which some are moved and others not becomes several, in the order of the
//! old addresses.
use memtrail_model::{Access, AccessSink, Event, Reply, SinkAdapter};
use std::ops::Range;

/// Bytes that lie elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub space: u32,
    pub from: Range<u64>,
    /// Where the first of them lies instead.
    pub to: u64,
}

/// Moves bytes on the way to a sink.
pub struct Moves<S> {
    sink: S,
    /// By address space and address; they do not overlap.
    moved: Vec<Moved>,
    /// How far everything else is moved.
    shift: u64,
    spaces: Vec<u32>,
    out: Vec<Access>,
}

impl<S: AccessSink> Moves<S> {
    /// Addresses that nobody else has: those that no process can map.
    pub const NOWHERE: u64 = 1 << 47;

    /// Of ranges that overlap, the first counts.
    pub fn new(sink: S, moved: Vec<Moved>) -> Moves<S> {
        let mut all = moved;
        all.sort_by_key(|moved| (moved.space, moved.from.start));
        let mut kept: Vec<Moved> = Vec::with_capacity(all.len());
        for moved in all {
            let overlaps = |last: &Moved| last.space == moved.space && last.from.end > moved.from.start;
            if !moved.from.is_empty() && !kept.last().is_some_and(overlaps) {
                kept.push(moved);
            }
        }
        Moves {
            sink,
            moved: kept,
            shift: 0,
            spaces: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Moves everything by the same number of bytes.
    pub fn all_by(sink: S, shift: u64) -> Moves<S> {
        let mut moves = Moves::new(sink, Vec::new());
        moves.shift = shift;
        moves
    }

    pub fn into_inner(self) -> S {
        self.sink
    }

    /// Where the bytes from `address` on lie, and how many of them from `left` lie there together.
    fn at(&self, space: u32, address: u64, left: u64) -> (u64, u64) {
        let after = self
            .moved
            .partition_point(|moved| (moved.space, moved.from.end) <= (space, address));
        match self.moved.get(after).filter(|moved| moved.space == space) {
            Some(moved) if moved.from.start <= address => {
                let to = moved.to + (address - moved.from.start);
                (to, left.min(moved.from.end - address))
            }
            Some(moved) => (address, left.min(moved.from.start - address)),
            None => (address, left),
        }
    }
}

impl<S: AccessSink> SinkAdapter for Moves<S> {
    type Inner = S;
    fn inner(&self) -> &S {
        &self.sink
    }
    fn inner_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    fn pass(&mut self, batch: &[Access]) {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        for access in batch {
            let space = self.spaces.get(access.thread.0 as usize).copied().unwrap_or(0);
            let mut address = access.addr;
            let mut left = u64::from(access.size.max(1));
            while left > 0 {
                let (addr, size) = self.at(space, address, left);
                out.push(Access {
                    addr: addr.wrapping_add(self.shift),
                    size: size as u32,
                    ..*access
                });
                address = address.wrapping_add(size);
                left -= size;
            }
        }
        self.sink.accesses(&out);
        self.out = out;
    }

    fn pass_event(&mut self, event: Event<'_>) -> Reply {
        match event {
            // What is moved comes access by access.
            Event::Loop(_) | Event::Enter(_) | Event::Iterated { .. } | Event::Leave => Reply::NOTHING,
            Event::Space { thread, space } => {
                let at = thread.0 as usize;
                if self.spaces.len() <= at {
                    self.spaces.resize(at + 1, 0);
                }
                self.spaces[at] = space;
                self.sink.event(event)
            }
            other => self.sink.event(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::{Kind, Point, Thread};

    #[derive(Default)]
    struct Seen(Vec<(u64, u32)>);
    impl AccessSink for Seen {
        fn accesses(&mut self, batch: &[Access]) {
            self.0.extend(batch.iter().map(|a| (a.addr, a.size)));
        }
    }

    fn at(addr: u64, size: u32) -> Access {
        Access {
            pc: 0,
            addr,
            size,
            point: Point(0),
            thread: Thread(0),
            kind: Kind::Write,
        }
    }

    #[test]
    fn an_access_is_split_where_its_bytes_part() {
        let moved = |from: Range<u64>, to| Moved { space: 0, from, to };
        let mut moves = Moves::new(Seen::default(), vec![moved(104..108, 1000), moved(96..104, 2000)]);
        moves.accesses(&[at(90, 20), at(100, 4), at(108, 1), at(0, 0)]);
        let expected = [(90, 6), (2000, 8), (1000, 4), (108, 2), (2004, 4), (108, 1), (0, 1)];
        assert_eq!(moves.into_inner().0, expected);
    }

    #[test]
    fn only_in_its_address_space() {
        let moved = Moved {
            space: 1,
            from: 0..64,
            to: 4096,
        };
        let mut moves = Moves::new(Seen::default(), vec![moved]);
        moves.accesses(&[at(8, 4)]);
        moves.event(Event::Space {
            thread: Thread(0),
            space: 1,
        });
        moves.accesses(&[at(8, 4)]);
        assert_eq!(moves.into_inner().0, [(8, 4), (4104, 4)]);
    }

    #[test]
    fn everything_moves_by_the_same() {
        let mut moves = Moves::all_by(Seen::default(), 32);
        moves.accesses(&[at(8, 4)]);
        assert_eq!(moves.into_inner().0, [(40, 4)]);
    }
}
