//! A recording in which a thread was not recorded for some time.
#[path = "common/by_hand.rs"]
mod by_hand;
mod common;

use by_hand::{recorded_with, scan, Thread0};
use common::blocks;
use memtrail_model::{Access, AccessSink, Event, Flow, GapReason, Note, Reply, Wants};
use memtrail_replay::{accesses, check_deep, Selection};
use memtrail_ring::record::{GAP, NOT_KNOWN, STATE};
use memtrail_trace::{Error, Known, Reader, Totals};
use std::io::Cursor;

/// What comes, in order.
#[derive(Debug, Default)]
struct All {
    addresses: Vec<u64>,
    /// With the number of accesses before.
    notes: Vec<(usize, Note)>,
    stacks: Vec<(usize, u64)>,
}

impl AccessSink for All {
    fn accesses(&mut self, batch: &[Access]) {
        self.addresses.extend(batch.iter().map(|a| a.addr));
    }
    fn wants(&self) -> Wants {
        Wants {
            notes: true,
            flows: true,
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let before = self.addresses.len();
        match event {
            Event::Note { note, .. } => self.notes.push((before, *note)),
            Event::Flow {
                flow: Flow::Stack { rsp },
                ..
            } => self.stacks.push((before, rsp)),
            _ => {}
        }
        Reply::NOTHING
    }
}

/// Two chunks with a gap in the first, of unknown size, and one between them; the totals say that
/// there are `gaps`.
fn with_gaps(reason: u64, gaps: u64) -> Vec<u8> {
    let block = &blocks()[2];
    let gap = |number, begin, end, instructions, accesses| [GAP, number, begin, end, reason, instructions, accesses];
    let mut first = vec![STATE, 0x8000, 0, 0];
    first.extend(scan(block, 0x1000, 3));
    first.extend(gap(0, 1100, 1200, NOT_KNOWN, NOT_KNOWN));
    first.extend([STATE, 0x7000, 0, 0]);
    first.extend(scan(block, 0x2000, 2));
    let mut second = gap(1, 2000, 2500, 70, 30).to_vec();
    second.extend([STATE, 0x6000, 0, 0]);
    second.extend(scan(block, 0x3000, 2));
    let thread = Thread0 {
        thread: 0,
        chunks: vec![(1000, first), (2500, second)],
    };
    recorded_with(&[thread], |totals| Totals { gaps, ..totals })
}

#[test]
fn a_gap_is_told_in_its_place_and_is_no_damage() {
    let mut reader = Reader::open(Cursor::new(with_gaps(2, 2))).unwrap();
    assert_eq!(check_deep(&mut reader).unwrap().gaps, Some(2));
    let known = Known::read(&mut reader).unwrap();
    let mut all = All::default();
    accesses(&mut reader, &known, &Selection::default(), &mut all).unwrap();
    assert_eq!(all.addresses, [0x1000, 0x1004, 0x1008, 0x2000, 0x2004, 0x3000, 0x3004]);
    let gap = |begin, end, instructions, accesses| Note::Gap {
        begin,
        end,
        reason: GapReason::Sampled,
        instructions,
        accesses,
    };
    let expected = [
        (3, gap(1100, 1200, None, None)),
        (5, gap(2000, 2500, Some(70), Some(30))),
    ];
    assert_eq!(all.notes, expected);
    // Where the stack is then does not follow from what was before.
    assert_eq!(all.stacks, [(0, 0x8000), (3, 0x7000), (5, 0x6000)]);
}

#[test]
fn the_number_of_gaps_is_checked() {
    let mut reader = Reader::open(Cursor::new(with_gaps(1, 3))).unwrap();
    let error = check_deep(&mut reader).unwrap_err();
    assert!(matches!(error, Error::Mismatch { said: 3, found: 2, .. }), "{error}");
}

#[test]
fn a_gap_of_unknown_reason_is_damage() {
    let mut reader = Reader::open(Cursor::new(with_gaps(9, 2))).unwrap();
    let error = check_deep(&mut reader).unwrap_err();
    assert!(matches!(error, Error::Decode { .. }), "{error}");
}
