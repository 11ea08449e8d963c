//! Ranges of addresses that do not overlap, each with a number.
use std::collections::BTreeMap;

/// A range: from, to (not included), whose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub start: u64,
    pub end: u64,
    pub id: u32,
}

/// By start: end and number. Neighbours with the same number are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces(BTreeMap<u64, (u64, u32)>);

impl Pieces {
    pub fn at(&self, addr: u64) -> Option<Piece> {
        let (&start, &(end, id)) = self.0.range(..=addr).next_back()?;
        (addr < end).then_some(Piece { start, end, id })
    }

    /// The end of the last one that begins at or before this address.
    pub fn end_before(&self, addr: u64) -> u64 {
        self.0.range(..=addr).next_back().map_or(0, |(_, &(end, _))| end)
    }

    /// The start of the first one that begins at or after this address.
    pub fn start_after(&self, addr: u64) -> u64 {
        self.0.range(addr..).next().map_or(u64::MAX, |(&start, _)| start)
    }

    /// Those that have something of a range, whole.
    pub fn over(&self, start: u64, end: u64) -> impl Iterator<Item = Piece> + '_ {
        let first = self.at(start).map_or(start, |piece| piece.start);
        let from_first = self.0.range(first..end.max(first));
        from_first
            .map(|(&start, &(end, id))| Piece { start, end, id })
            .filter(move |piece| piece.start < end && piece.end > start)
    }

    pub fn all(&self) -> impl Iterator<Item = Piece> + '_ {
        self.0.iter().map(|(&start, &(end, id))| Piece { start, end, id })
    }

    /// Makes a range somebody's, or nobody's.
    pub fn set(&mut self, start: u64, end: u64, id: Option<u32>) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        if let Some(before) = start.checked_sub(1).and_then(|at| self.at(at)) {
            if Some(before.id) == id {
                start = before.start;
            } else if before.end > start {
                self.0.insert(before.start, (start, before.id));
            }
            if before.end > end {
                if Some(before.id) == id {
                    end = before.end;
                } else {
                    self.0.insert(end, (before.end, before.id));
                }
            }
        }
        while let Some((&at, &(until, other))) = self.0.range(start..=end).next() {
            if at == end {
                if Some(other) == id {
                    self.0.remove(&at);
                    end = until;
                }
                break;
            }
            self.0.remove(&at);
            if until > end {
                if Some(other) == id {
                    end = until;
                } else {
                    self.0.insert(end, (until, other));
                    break;
                }
            }
        }
        if let Some(id) = id {
            self.0.insert(start, (end, id));
        }
    }
}
