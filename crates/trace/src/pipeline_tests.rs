//! What can be seen from inside only: limits, and a worker that panics.
use super::*;
use memtrail_collect::define;
use memtrail_decode::State;
use memtrail_decode::Table;
use memtrail_descriptor::Dictionary;
use memtrail_model::Thread;
use memtrail_ring::Probes;
use memtrail_translate::Options;

fn pipeline(limits: Limits) -> Pipeline<Vec<u8>> {
    let header = crate::Header {
        command: vec!["a".into()],
        pid: 1,
        probes: Probes::Loop as u32,
        max_block: 64,
        page_bytes: 4096,
        unix_time: 0,
        xcr0: 0,
        xsave: Vec::new(),
        features: Vec::new(),
        ranks: Default::default(),
    };
    let mut pipeline = Pipeline::new(Writer::new(Vec::new(), &header).unwrap(), limits);
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
    pipeline.blocks(table.blocks()).unwrap();
    pipeline
}

/// Sends `count` records of two words.
fn send(pipeline: &mut Pipeline<Vec<u8>>, thread: u32, count: u64, random: &mut u64) -> io::Result<()> {
    let words: Vec<u64> = (0..count)
        .flat_map(|_| {
            *random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            [64, *random >> 30]
        })
        .collect();
    pipeline.records(&Piece {
        thread: Thread(thread),
        process: 0,
        begin: 0,
        end: 1,
        first: 0,
        accesses: 0,
        state: &State::default(),
        words: &words,
        leaves: &[],
    })
}

#[test]
fn limits_hold_with_many_threads() {
    let limits = Limits {
        bytes: 1 << 20,
        workers: 2,
    };
    assert_eq!((limits.open(), limits.folded()), (1 << 14, 1 << 13));
    let mut pipeline = pipeline(limits);
    let (mut random, mut most_open, mut most_in_flight) = (1, 0, 0);
    for _ in 0..20 {
        for thread in 0..300 {
            send(&mut pipeline, thread, 50, &mut random).unwrap();
            assert_eq!(
                pipeline.open_words,
                pipeline.open.values().map(Raw::words).sum::<usize>()
            );
            most_open = most_open.max(pipeline.open_words);
            most_in_flight = most_in_flight.max(pipeline.shared.sequencer.in_flight());
        }
    }
    assert!(
        most_open <= limits.open() && most_open > limits.open() / 2,
        "{most_open}"
    );
    // A piece is let in as long as there is room, and chunks besides.
    assert!(most_in_flight <= limits.in_flight() + limits.open() + limits.folded());
    pipeline.finish(&Totals::default()).unwrap();
}

#[test]
fn a_worker_that_panics_ends_the_recording() {
    for workers in [1, 2, 3] {
        let mut pipeline = pipeline(Limits {
            bytes: Limits::LEAST_BYTES,
            workers,
        });
        let mut random = 1;
        send(&mut pipeline, 1, 100, &mut random).unwrap();
        // Events of kinds that are in no dictionary.
        let mut events = Events::default();
        events.push_leaf(64, &[5]);
        events.dictionary = Dictionary::default();
        let stream = Stream {
            state: State::default(),
            stamps: Vec::new(),
            events,
        };
        let open = Open {
            head: StreamHead::default(),
            stream,
        };
        let job = Job::Encode(u64::MAX, open, pipeline.leaves.clone());
        pipeline.shared.sequencer.submit_urgent(job, 0);
        let sent = (0..1000).try_for_each(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            send(&mut pipeline, 1, 1 << 18, &mut random)
        });
        assert!(sent.is_err(), "nobody noticed");
        assert!(pipeline.finish(&Totals::default()).is_err());
    }
}
