// A vector (1000 writes, 1000 reads of 8 bytes) and a hash map with room for 448 entries: 512 of 16
// bytes, and 512 + 16 bytes of control. 400 entries are written, and the values read once by the
// closure.
use std::collections::HashMap;

#[inline(never)]
fn numbers() -> u64 {
    let mut numbers: Vec<u64> = Vec::with_capacity(1000);
    for i in 0..1000 {
        numbers.push(i);
    }
    let mut sum = 0;
    for i in 0..1000 {
        sum += numbers[i];
    }
    sum
}

#[inline(never)]
fn table() -> u64 {
    let mut table: HashMap<u64, u64> = HashMap::with_capacity(448);
    for i in 0..400 {
        table.insert(i, i);
    }
    (0..400).map(|i| table[&i]).sum()
}

fn main() {
    assert_eq!(numbers(), 499_500);
    assert_eq!(table(), 79_800);
}
