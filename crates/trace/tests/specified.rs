//! The worked examples of streams in the specification are what is written, byte for byte.
use memtrail_collect::define;
use memtrail_decode::{State, Table};
use memtrail_trace::{compress, Leaves};
use memtrail_translate::Options;

/// The block of the examples.
fn leaves() -> Leaves {
    let mut table = Table::default();
    // push rbp; mov rax, [rdi + 8]; ret
    define(
        &mut table,
        &Options::default(),
        64,
        0x40_1000,
        &[0x55, 0x48, 0x8b, 0x47, 0x08, 0xc3],
    )
    .unwrap();
    let mut leaves = Leaves::default();
    table.blocks().iter().for_each(|b| leaves.add(b));
    leaves
}

/// The bytes in the second column of an example's table.
fn specified(example: &str) -> Vec<u8> {
    let text = include_str!("../../../docs/trace-format.md");
    let example = &text[text.find(example).expect("the example is there")..];
    let rows = example.lines().skip_while(|l| !l.starts_with("|---")).skip(1);
    let rows = rows.take_while(|l| l.starts_with('|'));
    let bytes = rows.filter_map(|l| l.split('|').nth(2)?.split('`').nth(1));
    let bytes = bytes.flat_map(|b| b.split(' ').map(|b| u8::from_str_radix(b, 16).unwrap()));
    bytes.collect()
}

/// A first chunk of these record words, behind a STATE.
fn written(records: impl Iterator<Item = [u64; 2]>) -> (Vec<u8>, u64) {
    let mut words = vec![3, 0x8000, 0, 0];
    words.extend(records.flatten());
    compress(&words, State::default(), 0, &leaves()).unwrap()
}

#[test]
fn four_records() {
    let values = [0x1000, 0x1010, 0x1020, 0x5000];
    let (bytes, raw) = written(values.iter().map(|&v| [64, v]));
    assert_eq!(bytes, specified("**Example A.**"));
    assert!(raw >= 112);
}

#[test]
fn a_loop() {
    let (bytes, raw) = written((0..100).map(|i| [64, 0x1000 + 8 * i]));
    assert_eq!(bytes, specified("**Example B.**"));
    assert!(raw >= 96);
}
