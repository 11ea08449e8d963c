//! Notes of several threads come in the order of their numbers, whatever the times say, and each in
//! its place among its thread's accesses.
#[path = "common/by_hand.rs"]
mod by_hand;
mod common;

use by_hand::{recorded, scan, Thread0};
use common::blocks;
use memtrail_model::{Access, AccessSink, Event, Kind, Note, Reply, Thread, Wants};
use memtrail_replay::Order;
use memtrail_replay::{accesses, check_deep, Point, Selection};
use memtrail_ring::record::BREAK;
use memtrail_trace::{Error, Known, Reader};
use std::collections::BTreeMap;
use std::io::Cursor;

/// Notes by number and thread, and how many accesses of its thread came before each.
#[derive(Default)]
struct Noted {
    fetches: bool,
    notes: Vec<(u64, u32, u64)>,
    accesses: BTreeMap<u32, u64>,
}

impl AccessSink for Noted {
    fn accesses(&mut self, batch: &[Access]) {
        let data = batch.iter().filter(|a| a.kind != Kind::Fetch).count();
        *self.accesses.entry(batch[0].thread.0).or_default() += data as u64;
    }
    fn wants(&self) -> Wants {
        Wants {
            fetches: self.fetches,
            notes: true,
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Note { thread, note, .. } = event else {
            return Reply::NOTHING;
        };
        let &Note::Break { address } = note else {
            panic!("{note:?}");
        };
        let before = self.accesses.get(&thread.0).copied().unwrap_or(0);
        self.notes.push((address, thread.0, before));
        Reply::NOTHING
    }
}

/// A note that has its number twice.
fn note(number: u64) -> Vec<u64> {
    vec![BREAK, number, number]
}

/// Three threads, one after the other by their times, whose notes take turns: thread `t` has the
/// numbers `t`, `t + 3`, …, each before ten accesses, and one at its end.
fn threads(rounds: u64) -> Vec<Thread0> {
    let block = &blocks()[2];
    let chunk = |t: u64| {
        let mut words = Vec::new();
        for i in 0..rounds {
            words.extend(note(3 * i + t));
            words.extend(scan(block, 0x1000 * (i + 1), 10));
        }
        words.extend(note(3 * rounds + t));
        words
    };
    (0..3)
        .map(|t| Thread0 {
            thread: t as u32,
            chunks: vec![(10_000 * (3 - t), chunk(t))],
        })
        .collect()
}

fn replayed(bytes: &[u8], order: Order, fetches: bool) -> Noted {
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut noted = Noted {
        fetches,
        ..Noted::default()
    };
    let selection = Selection {
        order,
        ..Selection::default()
    };
    accesses(&mut reader, &known, &selection, &mut noted).unwrap();
    noted
}

const ORDERS: [Order; 3] = [
    Order::Time,
    Order::EqualRate { quantum: 1 },
    Order::EqualRate { quantum: 7 },
];

#[test]
fn notes_come_by_number_and_in_place() {
    const ROUNDS: u64 = 700;
    let bytes = recorded(&threads(ROUNDS));
    let expected: Vec<(u64, u32, u64)> = (0..3 * (ROUNDS + 1)).map(|n| (n, (n % 3) as u32, n / 3 * 10)).collect();
    for order in ORDERS {
        for fetches in [false, true] {
            let noted = replayed(&bytes, order, fetches);
            assert_eq!(noted.notes, expected, "{order:?} {fetches}");
            assert!(noted.accesses.values().all(|&n| n == 10 * ROUNDS));
        }
    }
    check_deep(&mut Reader::open(Cursor::new(bytes)).unwrap()).unwrap();
}

#[test]
fn notes_before_the_selection_come_all_the_same() {
    // Thread 2 has ended when it begins, thread 0 has not begun.
    let bytes = recorded(&threads(20));
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut noted = Noted::default();
    let selection = Selection {
        from: Some(Point::Time(20_500)),
        to: Some(Point::Time(29_000)),
        ..Selection::default()
    };
    accesses(&mut reader, &known, &selection, &mut noted).unwrap();
    let numbers: Vec<u64> = noted.notes.iter().map(|n| n.0).collect();
    assert_eq!(numbers, (0..63).filter(|n| n % 3 != 0).collect::<Vec<_>>());
    assert_eq!(noted.accesses, BTreeMap::from([(1, 100)]));
}

#[test]
fn one_thread_by_itself_waits_for_nobody() {
    let bytes = recorded(&threads(20));
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut noted = Noted::default();
    let selection = Selection {
        thread: Some(Thread(2)),
        ..Selection::default()
    };
    accesses(&mut reader, &known, &selection, &mut noted).unwrap();
    let numbers: Vec<u64> = noted.notes.iter().map(|n| n.0).collect();
    assert_eq!(numbers, (0..21).map(|i| 3 * i + 2).collect::<Vec<_>>());
}

#[test]
fn notes_that_are_missing_hold_nobody_up() {
    // Without the thread that has every third of them.
    let mut some = threads(50);
    some.remove(1);
    let bytes = recorded(&some);
    for order in ORDERS {
        let noted = replayed(&bytes, order, false);
        let numbers: Vec<u64> = noted.notes.iter().map(|n| n.0).collect();
        let expected: Vec<u64> = (0..153).filter(|n| n % 3 != 1).collect();
        assert_eq!(numbers, expected, "{order:?}");
    }
    // Two threads that did not end by themselves account for two numbers, not for so many.
    let error = check_deep(&mut Reader::open(Cursor::new(bytes)).unwrap()).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Notes {
                process: 0,
                count: 102,
                end: 153
            }
        ),
        "{error}"
    );
}

#[test]
fn a_recording_cut_off_anywhere_is_replayed_to_its_end() {
    let mut long = threads(30);
    for thread in &mut long {
        let more = (30_000 * u64::from(thread.thread + 2), scan(&blocks()[2], 1, 3));
        thread.chunks.push(more);
    }
    let bytes = recorded(&long);
    for length in (0..bytes.len()).step_by(37) {
        let Ok(mut reader) = Reader::open(Cursor::new(&bytes[..length])) else {
            continue;
        };
        let known = Known::read(&mut reader).unwrap();
        let mut noted = Noted::default();
        accesses(&mut reader, &known, &Selection::default(), &mut noted).unwrap();
        assert!(noted.notes.is_sorted(), "{length}");
    }
}

#[test]
fn numbers_that_fall_or_are_there_twice_are_damage() {
    let thread = |thread, words: Vec<u64>| Thread0 {
        thread,
        chunks: vec![(1000, [words, scan(&blocks()[2], 1, 3)].concat())],
    };
    let falling = recorded(&[thread(0, [note(1), note(0)].concat())]);
    let error = check_deep(&mut Reader::open(Cursor::new(falling)).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    let twice = recorded(&[thread(0, [note(0), note(2)].concat()), thread(1, [note(0)].concat())]);
    let error = check_deep(&mut Reader::open(Cursor::new(twice)).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Notes { .. }), "{error}");
}
