// Markers in Rust, and what the library allocates.
// guest: build=dynamic scope=exe
#[path = "../../crates/marker/src/lib.rs"]
mod marker;

use std::fmt::Write;
use std::hint::black_box;
use std::io::Write as _;

fn main() {
    let told = std::env::args().count() > 1;
    let mut expected = String::with_capacity(4096);
    marker::enter(c"test");
    let numbers: Vec<u64> = black_box(Vec::with_capacity(10));
    writeln!(expected, "alloc {:p} 80 malloc", numbers.as_ptr()).unwrap();
    marker::name_raw(numbers.as_ptr().cast(), 80, c"numbers");
    writeln!(expected, "name {:p} 80 numbers", numbers.as_ptr()).unwrap();
    for i in 0..3 {
        let region = marker::region(c"inner");
        writeln!(expected, "enter inner").unwrap();
        let boxed = black_box(Box::new([i; 3]));
        writeln!(expected, "alloc {boxed:p} 12 malloc").unwrap();
        writeln!(expected, "free {boxed:p} free").unwrap();
        drop(boxed);
        writeln!(expected, "leave inner").unwrap();
        drop(region);
    }
    marker::name(&told, c"told");
    writeln!(expected, "name {:p} 1 told", &told).unwrap();
    marker::leave(c"test");
    let text = if told { &expected } else { "done\n" };
    std::io::stdout().write_all(text.as_bytes()).unwrap();
}
