// A Rust program with scoped threads, a channel and panics caught by unwinding.
// guest: build=dynamic scope=output
use std::panic;
use std::sync::mpsc;

fn checked(value: i32) -> i32 {
    if value % 3 == 0 {
        panic!("multiple of three");
    }
    value * 2
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let caught: Vec<_> = (1..7).map(|i| panic::catch_unwind(|| checked(i)).unwrap_or(-1)).collect();
    println!("{caught:?}");
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for id in 0..4u64 {
            let sender = sender.clone();
            scope.spawn(move || sender.send((0..100).map(|i| i ^ id).sum::<u64>()));
        }
    });
    drop(sender);
    println!("{}", receiver.iter().sum::<u64>());
    let failed = std::thread::spawn(|| checked(9)).join().is_err();
    println!("{failed}");
}
