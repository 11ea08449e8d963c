//! The pipeline's memory stays small with many threads, each of which keeps a chunk open. In a file
//! of its own: it looks at the whole process.
mod common;

use common::{header, table};
use memtrail_collect::define;
use memtrail_decode::{Piece, Sink, State};
use memtrail_model::Thread;
use memtrail_trace::{Limits, Pipeline, Totals, Writer};
use memtrail_translate::Options;

/// The most memory this process has had, in MB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn three_hundred_threads_in_a_loop_of_a_large_program() {
    let mut table = table();
    // push rbp; mov rax, [rdi + 8]; ret
    let id = 150_000;
    define(
        &mut table,
        &Options::default(),
        id,
        0x40_1000,
        &[0x55, 0x48, 0x8b, 0x47, 0x08, 0xc3],
    )
    .unwrap();
    let limits = Limits {
        bytes: 64 << 20,
        workers: 2,
    };
    let mut pipeline = Pipeline::new(Writer::new(Vec::new(), &header()).unwrap(), limits);
    pipeline.blocks(table.blocks()).unwrap();
    let mut sent = 0;
    for round in 0..3 {
        for thread in 0..300 {
            let words: Vec<u64> = (0..5000).flat_map(|i| [id.into(), 8 * (5000 * round + i)]).collect();
            sent += words.len();
            let piece = Piece {
                thread: Thread(thread),
                process: 0,
                begin: 1000 * round,
                end: 1000 * round + 1,
                first: 10_000 * round,
                accesses: 10_000,
                state: &State::default(),
                words: &words,
                leaves: &[],
            };
            pipeline.records(&piece).unwrap();
        }
    }
    let (bytes, _) = pipeline.finish(&Totals::default()).unwrap();
    assert_eq!(sent, 9_000_000);
    // A loop per thread.
    assert!(bytes.len() < 300 * 400, "{}", bytes.len());
    assert!(peak() < 150, "{} MB", peak());
}
