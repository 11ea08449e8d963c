//! The entry for fuzzing whole files: bytes in, no panic, no memory or time without bound. What
//! stands behind a file's checksums has entries in [`memtrail_trace::fuzzing`].
use crate::{accesses, replay, Filter, Point, Selection};
use memtrail_decode::{Consumer, Counter, Counts, Expander};
use memtrail_model::{Access, AccessSink, Event, Reply, Thread, Wants};
use memtrail_trace::fuzzing::{Limited, ENOUGH};
use memtrail_trace::{Known, Reader};
use std::io::Cursor;

/// A file as it may come: opened, its definitions read, its beginning replayed.
pub fn file(bytes: &[u8]) {
    let Ok(mut reader) = Reader::open(Cursor::new(bytes)) else {
        return;
    };
    let Ok(known) = Known::read(&mut reader) else {
        return;
    };
    let (all, mut batches) = (Filter::default(), 0);
    let mut go_on = || {
        batches += 1;
        batches < 8
    };
    let mut counter = Limited::new(Counter::new(&known.xsave));
    // Any error will do.
    let _ = replay(&mut reader, &known, &all, &mut counter, |_| go_on());
    counter.inner.counts(&known.table);
    let mut expander = Limited::new(Expander::new(&known.xsave, Counts::default()).with_limit(ENOUGH));
    let _ = replay(&mut reader, &known, &all, &mut expander, |e| !e.full() && go_on());
    let selection = Selection {
        limit: ENOUGH,
        ..Selection::default()
    };
    let _ = accesses(&mut reader, &known, &selection, &mut Counts::default());
    let later = Selection {
        thread: known.streams.first().map(|c| Thread(c.head.stream.thread)),
        from: Some(Point::Access(3)),
        to: Some(Point::Time(1300)),
        ..selection
    };
    let _ = accesses(&mut reader, &known, &later, &mut Counts::default());
    let _ = accesses(&mut reader, &known, &selection, &mut Noting(0));
}

/// A sink that wants notes, which put threads in another order.
struct Noting(u64);

impl AccessSink for Noting {
    fn accesses(&mut self, _batch: &[Access]) {}
    fn wants(&self) -> Wants {
        Wants {
            notes: true,
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        self.0 += u64::from(matches!(event, Event::Note { .. }));
        Reply::NOTHING
    }
    fn done(&self) -> bool {
        self.0 > ENOUGH
    }
}
