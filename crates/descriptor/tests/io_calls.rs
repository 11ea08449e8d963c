//! The same library on events that have nothing to do with memory: the I/O calls of the example.
#[path = "../examples/io_calls.rs"]
#[allow(dead_code)] // its main
mod example;

use example::{calls, compress, decompress, Job};

const JOB: Job = Job {
    checkpoints: 20,
    files: 8,
    blocks: 100,
    log: false,
};

#[test]
fn calls_come_back() {
    for log in [false, true] {
        for (checkpoints, files, blocks) in [(0, 1, 1), (1, 1, 1), (2, 3, 4), (20, 8, 100), (3, 200, 0), (300, 1, 1)] {
            let all = calls(&Job {
                checkpoints,
                files,
                blocks,
                log,
            });
            let (_, bytes) = compress(&all);
            assert!(
                decompress(&bytes, 4 * all.len() + 100) == Some(all),
                "{checkpoints} {files} {blocks}"
            );
        }
    }
}

#[test]
fn longer_loops_take_no_more_space() {
    let (events, bytes) = compress(&calls(&JOB));
    // The five calls about the settings, and one nest.
    assert_eq!(events.len(), 6);
    for factor in [10, 100] {
        let longer = calls(&Job {
            checkpoints: factor * JOB.checkpoints,
            ..JOB
        });
        let (more_events, more_bytes) = compress(&longer);
        assert_eq!(more_events.len(), 6);
        // The number of iterations takes more bytes, and nothing else.
        assert!(
            more_bytes.len() <= bytes.len() + 4,
            "{} {}",
            more_bytes.len(),
            bytes.len()
        );
        let wider = calls(&Job {
            blocks: factor * JOB.blocks,
            ..JOB
        });
        let (more_events, more_bytes) = compress(&wider);
        assert_eq!(more_events.len(), 6);
        assert!(
            more_bytes.len() <= bytes.len() + 4,
            "{} {}",
            more_bytes.len(),
            bytes.len()
        );
    }
}

#[test]
fn what_is_irregular_costs_what_it_tells() {
    let job = Job {
        checkpoints: 500,
        log: true,
        ..JOB
    };
    let all = calls(&job);
    let (events, bytes) = compress(&all);
    // Per checkpoint the nest of its files and a line of the log.
    assert_eq!(events.len(), 5 + 2 * 500);
    // Six random bits per line: a byte for the length, and a few for its being unexpected.
    assert!(bytes.len() < 500 * 8, "{}", bytes.len());
}
