//! How fast a recording is replayed into a sink that does nothing:
//! `cargo run --release --example replay -- FILE`.
use memtrail_model::{Access, AccessSink, Event, Reply, Wants};
use memtrail_replay::{accesses, Selection};
use memtrail_trace::{Known, Reader};
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

/// Counts, so that nothing can be left out.
#[derive(Default)]
struct Empty {
    accesses: u64,
    takes_loops: bool,
}

impl AccessSink for Empty {
    fn accesses(&mut self, batch: &[Access]) {
        self.accesses += std::hint::black_box(batch).len() as u64;
    }
    fn wants(&self) -> Wants {
        Wants {
            loops: self.takes_loops.then_some(0),
            ..Wants::default()
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        let Event::Loop(run) = event else {
            return Reply::NOTHING;
        };
        self.accesses += run.trips * std::hint::black_box(run).body.len() as u64;
        Reply::skip(run.trips)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which recording?")?;
    for takes_loops in [false, true] {
        let mut reader = Reader::open(BufReader::new(File::open(&path)?))?;
        let known = Known::read(&mut reader)?;
        let mut sink = Empty {
            takes_loops,
            ..Empty::default()
        };
        let begin = Instant::now();
        accesses(&mut reader, &known, &Selection::default(), &mut sink)?;
        let seconds = begin.elapsed().as_secs_f64();
        let how = if takes_loops { "loops whole" } else { "one by one" };
        let rate = sink.accesses as f64 / seconds / 1e6;
        println!("{how}: {} accesses in {seconds:.2} s, {rate:.0} M/s", sink.accesses);
    }
    Ok(())
}
