//! Which part of a recording is replayed, and which chunks that takes.
use crate::{Order, Segment};
use memtrail_model::Thread;
use memtrail_trace::{Chunk, Ending, Error, Known, Stream, StreamHead};
use std::collections::BTreeMap;

/// A place in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before this access of the thread, counted from 0.
    Access(u64),
    /// Before the first access at or after this value of the time stamp counter: see
    /// [`Known::ticks`].
    Time(u64),
}

/// What to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// One thread, or all.
    pub thread: Option<Thread>,
    /// From here on; access numbers are a thread's own, so they need a thread, or a recording with
    /// just one.
    pub from: Option<Point>,
    /// Up to here, exclusive.
    pub to: Option<Point>,
    /// No more accesses than this.
    pub limit: u64,
    /// How threads are put in one order.
    pub order: Order,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection {
            thread: None,
            from: None,
            to: None,
            limit: u64::MAX,
            order: Order::Time,
        }
    }
}

/// What of one thread is replayed.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub thread: Thread,
    /// In order; never none.
    pub chunks: Vec<Chunk>,
    pub from: Option<Point>,
    pub to: Option<Point>,
    /// The last chunk is the thread's last, so that nothing follows its last record.
    pub ends: bool,
    /// So many of the chunks come before the selection: none of their accesses are handed on.
    pub lead: usize,
}

impl Part {
    /// Whether the first access selected is the first of its chunk, at the time the chunk begins.
    pub fn begins_with_chunk(&self) -> bool {
        let head = self.chunks[0].head.stream;
        self.lead == 0
            && head.accesses > 0
            && match self.from {
                None => true,
                Some(Point::Access(n)) => n <= head.first,
                Some(Point::Time(t)) => t <= head.begin,
            }
    }
}

/// The chunks of each thread, in order. An error if they do not follow each other.
pub(crate) fn by_thread(known: &Known) -> Result<BTreeMap<u32, Vec<Chunk>>, Error> {
    let mut threads: BTreeMap<u32, Vec<Chunk>> = BTreeMap::new();
    for chunk in &known.streams {
        let chunks = threads.entry(chunk.head.stream.thread).or_default();
        let expected = match chunks.last() {
            None => Some(0),
            Some(last) => last.head.stream.first.checked_add(last.head.stream.accesses),
        };
        if expected != Some(chunk.head.stream.first) {
            let what = "a chunk does not begin where its thread's chunk before ends";
            return Err(Error::Damaged { at: chunk.at, what });
        }
        chunks.push(*chunk);
    }
    Ok(threads)
}

/// What of the time before a selection is gone through, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum History {
    Nothing,
    /// What the threads did that have a part in it.
    OfThreads,
    /// What all threads did: memory outlives those that have it from the system.
    OfAll,
}

/// What a selection takes, by thread. If fetches are wanted, those that follow an access go with
/// the next one.
pub(crate) fn parts(known: &Known, selection: &Selection, fetches: bool, history: History) -> Result<Vec<Part>, Error> {
    let mut threads = by_thread(known)?;
    if let Some(thread) = selection.thread {
        threads.retain(|&t, _| t == thread.0);
    }
    let by_number = |p: Option<Point>| matches!(p, Some(Point::Access(_)));
    if threads.len() > 1 && (by_number(selection.from) || by_number(selection.to)) {
        return Err(Error::WhichThread { threads: threads.len() });
    }
    let whole = matches!(known.ending, Ending::Complete(_));
    let part = |(thread, chunks): (u32, Vec<Chunk>)| {
        let begin = begin(&chunks, selection.from, fetches);
        let end = end(&chunks, selection.to);
        let lead = match history {
            History::Nothing => 0,
            History::OfThreads => begin,
            History::OfAll => begin.min(end),
        };
        let first = if history == History::Nothing { begin } else { 0 };
        (begin < end || history == History::OfAll && lead > 0).then(|| Part {
            thread: Thread(thread),
            ends: whole && begin < end && end == chunks.len(),
            chunks: chunks[first..end].to_vec(),
            from: selection.from,
            to: selection.to,
            lead,
        })
    };
    Ok(threads.into_iter().filter_map(part).collect())
}

/// The first chunk that is needed. A thread's last record is in no chunk's number of accesses: the
/// last chunk stands for it.
fn begin(chunks: &[Chunk], from: Option<Point>, fetches: bool) -> usize {
    match from {
        None => 0,
        Some(Point::Access(n)) => {
            let end = |c: &Chunk| c.head.stream.first.saturating_add(c.head.stream.accesses);
            let before = |c: &Chunk| end(c) < n || end(c) == n && !fetches;
            chunks.partition_point(before).min(chunks.len() - 1)
        }
        Some(Point::Time(t)) => chunks.partition_point(|c| c.head.stream.end < t),
    }
}

/// The chunk behind the last that is needed.
fn end(chunks: &[Chunk], to: Option<Point>) -> usize {
    match to {
        None => chunks.len(),
        Some(Point::Access(n)) => chunks.partition_point(|c| c.head.stream.first < n),
        Some(Point::Time(t)) => chunks.partition_point(|c| c.head.stream.begin < t),
    }
}

/// The segments of a chunk: the stretches between its time stamps. `Err` if time runs backwards.
pub(crate) fn segments(head: &StreamHead, stream: &Stream) -> Result<Vec<Segment>, &'static str> {
    let mut segments = Vec::with_capacity(stream.stamps.len() + 1);
    let (mut accesses, mut begin) = (0, head.begin);
    let stamps = stream.stamps.iter().map(|s| (s.accesses, s.tsc));
    for (before, tsc) in stamps.chain([(head.accesses, head.end)]) {
        if before < accesses || tsc < begin {
            return Err("the time stamps of a chunk run backwards");
        }
        segments.push(Segment {
            begin,
            end: tsc,
            accesses: before - accesses,
        });
        (accesses, begin) = (before, tsc);
    }
    Ok(segments)
}

/// How many accesses of these segments happened before a time.
pub(crate) fn before(segments: &[Segment], time: u64) -> u64 {
    let mut accesses = 0;
    for segment in segments {
        let n = segment.before(time);
        accesses += n;
        if n < segment.accesses {
            break;
        }
    }
    accesses
}

/// The segments without their first `skip` accesses, and with `keep` of them at most.
pub(crate) fn clip(segments: &mut Vec<Segment>, mut skip: u64, mut keep: u64) {
    for segment in &mut *segments {
        let skipped = skip.min(segment.accesses);
        let kept = keep.min(segment.accesses - skipped);
        let end = if skipped + kept < segment.accesses {
            segment.time(skipped + kept)
        } else {
            segment.end
        };
        *segment = Segment {
            begin: segment.time(skipped).min(end),
            end,
            accesses: kept,
        };
        skip -= skipped;
        keep -= kept;
    }
    segments.retain(|s| s.accesses > 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(begin: u64, end: u64, accesses: u64) -> Segment {
        Segment { begin, end, accesses }
    }

    #[test]
    fn times_between_stamps_are_interpolated() {
        let two = [segment(100, 200, 10), segment(200, 300, 100)];
        assert_eq!(before(&two, 0), 0);
        assert_eq!(before(&two, 100), 0);
        assert_eq!(before(&two, 101), 1);
        assert_eq!(before(&two, 150), 5);
        assert_eq!(before(&two, 200), 10);
        assert_eq!(before(&two, 250), 60);
        assert_eq!(before(&two, 300), 110);
        assert_eq!(before(&two, u64::MAX), 110);
    }

    #[test]
    fn clipped_segments_keep_their_times() {
        let mut s = vec![segment(100, 200, 10), segment(200, 300, 100), segment(300, 400, 7)];
        clip(&mut s, 5, 15);
        assert_eq!(s, [segment(150, 200, 5), segment(200, 210, 10)]);
        clip(&mut s, 20, 1);
        assert_eq!(s, []);
    }
}
