// A single-threaded Rust program: vectors, a tree map, strings, and a panic caught.
// guest: build=dynamic scope=exe
use std::collections::BTreeMap;

fn main() {
    let mut counts = BTreeMap::new();
    for word in "one two three two three three".split(' ') {
        *counts.entry(word.to_string()).or_insert(0u32) += 1;
    }
    let mut numbers: Vec<u64> = (0..60).map(|i| (i * 7919) % 101).collect();
    numbers.sort();
    println!("{counts:?} {}", numbers[30]);
    std::panic::set_hook(Box::new(|_| {}));
    let caught = std::panic::catch_unwind(|| numbers[numbers.len()]);
    println!("{}", caught.is_err());
}
