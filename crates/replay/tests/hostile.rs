//! Streams that are well formed and lie: loops without end, heads that claim another length, states
//! that fit nothing.
mod common;

use common::{blocks, header};
use memtrail_decode::{Counter, DecodeError};
use memtrail_descriptor::{Encoder, Events};
use memtrail_replay::{replay, Filter};
use memtrail_trace::fuzzing::Plain;
use memtrail_trace::{Error, Known, Leaves, Reader, StreamHead, Totals, Writer};
use std::io::Cursor;

/// Numbers as they stand in a payload.
fn put(out: &mut Vec<u8>, numbers: &[u64]) {
    for &number in numbers {
        let mut rest = number;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
}

/// What a chunk says of the state before it: loop, captured values, held words.
type State<'a> = (u64, &'a [u64], &'a [u64]);
const NO_STATE: State = (0, &[], &[]);

/// Replays a file with one stream for at most `batches` batches. Returns how many there were.
fn played(events: &Events, words: u64, state: State<'_>, batches: u32) -> Result<u32, Error> {
    let mut leaves = Leaves::default();
    blocks().iter().for_each(|b| leaves.add(b));
    let (in_loop, captured, held) = state;
    let mut payload = Vec::new();
    put(&mut payload, &[0, 0, 0, in_loop]);
    for list in [captured, held] {
        put(&mut payload, &[list.len() as u64]);
        put(&mut payload, list);
    }
    put(&mut payload, &[0]);
    Encoder::default().encode(events, &leaves, &Plain, &mut payload);
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    writer.blocks(&blocks()).unwrap();
    let head = StreamHead {
        words,
        ..StreamHead::default()
    };
    writer.stream(&head, 8 * events.size() as u64, &payload).unwrap();
    let (bytes, _) = writer.finish(&Totals::default()).unwrap();
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut played = 0;
    let mut counter = Counter::new(&known.xsave);
    replay(&mut reader, &known, &Filter::default(), &mut counter, |_| {
        played += 1;
        played < batches
    })?;
    Ok(played)
}

/// The head of the record of block 64, which has one value.
const KEY: u32 = 64;

/// A nest of loops of so many trips each, around a record of two words.
fn nest(trips: &[u64]) -> Events {
    let mut events = Events::default();
    let mut kind = events.dictionary.leaf(KEY, 1);
    let mut parameters = vec![0x1000];
    for &trips in trips {
        kind = events.dictionary.repetition(&[kind]);
        let mut outer = vec![trips];
        outer.extend(&parameters);
        outer.resize(1 + 2 * parameters.len(), 0);
        parameters = outer;
    }
    events.push(kind, &parameters);
    events
}

fn is_wrong_length(error: &Error) -> bool {
    matches!(error, Error::Damaged { what, .. } if *what == "a stream has another length than its head says")
}

#[test]
fn loops_go_no_further_than_the_head_says() {
    for trips in [&[1 << 60][..], &[u64::MAX], &[1 << 60, 1 << 60], &[1000; 9]] {
        for words in [0, 2, 10, 100_000] {
            assert!(is_wrong_length(
                &played(&nest(trips), words, NO_STATE, u32::MAX).unwrap_err()
            ));
        }
        // A head that claims as much as it likes: whoever replays can stop at any time.
        assert_eq!(played(&nest(trips), u64::MAX, NO_STATE, 5).unwrap(), 5);
    }
    assert!(is_wrong_length(
        &played(&nest(&[10]), 21, NO_STATE, u32::MAX).unwrap_err()
    ));
    assert_eq!(played(&nest(&[10]), 20, NO_STATE, u32::MAX).unwrap(), 1);
}

#[test]
fn loops_without_iterations_are_damage() {
    for trips in [&[0][..], &[0, 1 << 60], &[1 << 60, 0]] {
        assert!(is_wrong_length(
            &played(&nest(trips), 1 << 40, NO_STATE, u32::MAX).unwrap_err()
        ));
    }
}

#[test]
fn states_that_fit_nothing_are_errors() {
    let some = nest(&[60]);
    let error = |state| match played(&some, 120, state, u32::MAX).unwrap_err() {
        Error::Decode { source, .. } => source,
        other => panic!("{other}"),
    };
    assert!(matches!(error((0, &[], &[64])), DecodeError::ShortRecord { .. }));
    assert!(matches!(error((0, &[], &[64, 1, 2])), DecodeError::ShortRecord { .. }));
    assert!(matches!(error((0, &[], &[9999])), DecodeError::UnknownBlock { .. }));
    assert!(matches!(
        error((0, &[], &[2, 0, 0, 0, 0, 0])),
        DecodeError::UnknownBlock { .. }
    ));
    // A loop that is none, or is not there, is not gone on with.
    for in_loop in [1, 65, 66, 67, 1 << 32] {
        assert_eq!(played(&some, 120, (in_loop, &[1, 2, 3], &[]), u32::MAX).unwrap(), 1);
    }
    let far = played(&some, 120, (1 << 40, &[], &[]), u32::MAX).unwrap_err();
    assert!(matches!(far, Error::Damaged { .. }));
    let long = vec![0; 1 << 17];
    let long = played(&some, 120, (0, &long, &[]), u32::MAX).unwrap_err();
    assert!(matches!(long, Error::Damaged { .. }));
}
