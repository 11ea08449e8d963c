//! Encoding and decoding: exact, small where a column follows from others, and never out of bounds.
mod common;

use common::{affine, assert_comes_back, encoded, events_of, folded, leaf, repeat, run, Event, Keys, Random, Runs};
use memtrail_descriptor::{decode, Encoder, Error};

/// An index that follows no rule, a pointer into an array of `size` bytes per element, a counter.
fn indexed(n: u64, size: u64) -> Vec<Event> {
    let mut random = Random(1);
    (0..n)
        .map(|i| {
            let index = random.below(1 << 20);
            (1, vec![index, 0x7f00_0000_0000 + size * index, 3 * i])
        })
        .collect()
}

#[test]
fn an_index_and_the_pointer_that_follows_it_cost_as_much_as_the_index() {
    let n = 20_000;
    let alone: Vec<Event> = indexed(n, 8).into_iter().map(|(key, v)| (key, vec![v[0]])).collect();
    let alone = assert_comes_back(&events_of(&alone), &alone);
    // 20 bits in three bytes, and what says so.
    assert!((50_000..66_000).contains(&alone), "{alone}");
    for size in [1, 2, 8, 64] {
        let list = indexed(n, size);
        let bytes = assert_comes_back(&events_of(&list), &list);
        assert!(bytes < alone + 2000, "{size}: {bytes}, alone {alone}");
    }
    // A factor that is no relation.
    let list = indexed(n, 1000);
    assert!(assert_comes_back(&events_of(&list), &list) > alone + 20_000);
}

#[test]
fn counters_cost_nothing() {
    let list: Vec<Event> = (0..10_000u64).map(|i| (1, vec![8 * i, i.wrapping_neg(), 7])).collect();
    assert!(assert_comes_back(&events_of(&list), &list) < 200);
}

#[test]
fn values_wrap_around() {
    let list: Vec<Event> = (0..3000u64)
        .map(|i| {
            let x = (u64::MAX - 4000).wrapping_add(i * i);
            (
                1,
                vec![
                    x,
                    x.wrapping_mul(3),
                    (i % 2).wrapping_neg(),
                    1 << 63,
                    x ^ u64::MAX << (i % 64),
                ],
            )
        })
        .collect();
    assert_comes_back(&events_of(&list), &list);
    assert_comes_back(&folded(&list), &list);
    let wrapping = run(
        &[repeat(
            affine(1000, &[]),
            &[leaf(1, &[affine(-800, &[8]), affine(i64::MAX, &[1 << 62])])],
        )],
        1000,
    );
    let events = folded(&wrapping);
    assert_eq!(events.len(), 1);
    assert_comes_back(&events, &wrapping);
}

#[test]
fn leaves_without_parameters() {
    let mut random = Random(4);
    let list: Vec<Event> = (0..4000).map(|_| (random.below(9) as u32, vec![])).collect();
    assert_comes_back(&events_of(&list), &list);
    let list: Vec<Event> = (0..4000).map(|i| (i % 3, vec![])).collect();
    let events = folded(&list);
    assert_eq!(events.len(), 2);
    assert_eq!(events.parameters(0), [1333]);
    assert_comes_back(&events, &list);
}

#[test]
fn leaves_with_hundreds_of_parameters() {
    let mut random = Random(8);
    for arity in [7, 8, 9, 63, 64, 65, 500] {
        let mut list = Vec::new();
        for i in 0..120u64 {
            let values = (0..arity).map(|j| if (i + j) % 11 == 0 { random.next() } else { i * j });
            list.push((3, values.collect()));
        }
        assert_comes_back(&events_of(&list), &list);
        let list: Vec<Event> = (0..100).map(|i| (3, (0..arity).map(|j| i * j).collect())).collect();
        let events = folded(&list);
        assert_eq!(events.len(), 1);
        assert_eq!(events.values() as u64, 1 + 2 * arity);
        assert_comes_back(&events, &list);
    }
}

#[test]
fn few_events_and_none() {
    assert_comes_back(&events_of(&[]), &[]);
    for value in [0, 1, 127, 1 << 63, u64::MAX] {
        let list = [(1000, vec![value, value])];
        assert_comes_back(&events_of(&list), &list);
    }
    let list = [(0, vec![]), (u16::MAX.into(), vec![9])];
    assert_comes_back(&events_of(&list), &list);
}

#[test]
fn many_kinds_in_any_order() {
    let mut random = Random(12);
    let list: Vec<Event> = (0..20_000)
        .map(|_| {
            let key = random.below(3000) as u32;
            (key, (0..key % 4).map(|_| random.next() >> (key % 64)).collect())
        })
        .collect();
    assert_comes_back(&events_of(&list), &list);
}

#[test]
fn the_bytes_depend_on_the_events_alone() {
    let mut encoder = Encoder::default();
    let mut random = Random(2);
    let noise: Vec<Event> = (0..5000)
        .map(|i| (i % 5, vec![random.below(1 << 30), u64::from(i)]))
        .collect();
    for list in [indexed(3000, 4), noise, indexed(500, 16)] {
        let (keys, events) = (Keys::of(&list), folded(&list));
        let mut out = vec![1, 2, 3];
        // This encoder has seen other pieces before.
        encoder.encode(&events, &keys, &Runs, &mut out);
        assert_eq!(out[..3], [1, 2, 3]);
        assert_eq!(out[3..], encoded(&events, &keys));
    }
}

#[test]
fn the_bound_is_kept() {
    let list = indexed(300, 8);
    let (keys, events) = (Keys::of(&list), events_of(&list));
    let bytes = encoded(&events, &keys);
    assert!(decode(&bytes, &keys, &Runs, events.size()).is_ok());
    for bound in [0, 1, 299, 300, 899] {
        assert_eq!(decode(&bytes, &keys, &Runs, bound), Err(Error::TooLong), "{bound}");
    }
}

#[test]
fn cut_off_anywhere_it_is_an_error() {
    let list = indexed(300, 8);
    let (keys, events) = (Keys::of(&list), events_of(&list));
    let bytes = encoded(&events, &keys);
    for length in 0..bytes.len() {
        assert!(
            decode(&bytes[..length], &keys, &Runs, events.size()).is_err(),
            "{length}"
        );
    }
    assert_eq!(
        decode(&[&bytes[..], &[0]].concat(), &keys, &Runs, events.size()),
        Err(Error::Inconsistent)
    );
    let others = Keys::default();
    assert_eq!(
        decode(&bytes, &others, &Runs, events.size()),
        Err(Error::UnknownLeaf(1))
    );
}

/// A stream as it stands in a piece: not packed.
fn put_stream(out: &mut Vec<u8>, bytes: &[u8]) {
    for mut number in [bytes.len(), 2 * bytes.len()] {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }
    out.extend_from_slice(bytes);
}

#[test]
fn kinds_that_nothing_uses_cost_nothing() {
    // Ten leaves of 500 parameters, and ten thousand loops over any four of them: forty million
    // columns.
    let list: Vec<Event> = (0..10).map(|key| (key, vec![0; 500])).collect();
    let keys = Keys::of(&list);
    let mut definitions = vec![0];
    definitions.extend([4; 9]);
    for i in 0..10_000u32 {
        definitions.push(4 << 1 | 1);
        definitions.extend([1000, 100, 10, 1].map(|d| (i / d % 10) as u8));
    }
    let kinds = 10_010;
    let mut bytes = vec![0];
    put_stream(&mut bytes, &definitions);
    put_stream(&mut bytes, &vec![0; kinds]);
    // Paths, the first event's kind, columns, planes, relations.
    (0..4).for_each(|_| put_stream(&mut bytes, &[]));
    put_stream(&mut bytes, &[0]);
    (0..13).for_each(|_| put_stream(&mut bytes, &[]));
    let events = decode(&bytes, &keys, &Runs, 1 << 17).unwrap();
    assert_eq!((events.len(), events.dictionary.len()), (0, kinds));
}
