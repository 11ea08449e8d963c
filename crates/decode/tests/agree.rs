//! Random programs: every way to decode their records gives the same.
mod plans;

use memtrail_decode::{Counter, Counts, Expander, ThreadDecoder};
use memtrail_model::{Access, AccessSink, Thread};
use plans::*;

const THREAD: Thread = Thread(2);
const SEEDS: u64 = 600;

fn expand(program: &Program, expander: Expander<List>) -> Vec<Access> {
    let mut expander = expander;
    let mut decoder = ThreadDecoder::new(THREAD);
    decoder
        .feed(&program.table, &program.words(), &mut expander)
        .and_then(|()| decoder.finish(&program.table, &mut expander))
        .unwrap();
    expander.into_sink().0
}

#[test]
fn the_fast_ways_give_what_evaluating_one_by_one_gives() {
    let xsave = xsave();
    for seed in 0..SEEDS {
        let program = program(seed, 60);
        let expected = expand(&program, Expander::new(&xsave, List::default()).one_by_one());
        let fast = expand(&program, Expander::new(&xsave, List::default()));
        if let Some(i) = (0..expected.len()).find(|&i| fast.get(i) != Some(&expected[i])) {
            panic!(
                "seed {seed}, access {i}: {:?} instead of {:?}",
                fast.get(i),
                expected[i]
            );
        }
        assert_eq!(fast.len(), expected.len(), "seed {seed}");
    }
}

#[test]
fn counting_gives_the_counts_of_what_is_expanded() {
    let xsave = xsave();
    for seed in 0..SEEDS {
        let program = program(seed, 60);
        let mut counter = Counter::new(&xsave);
        let mut decoder = ThreadDecoder::new(THREAD);
        decoder.feed(&program.table, &program.words(), &mut counter).unwrap();
        decoder.finish(&program.table, &mut counter).unwrap();
        let counts = counter.counts(&program.table);
        let mut expected = Counts {
            instructions: counts.instructions,
            blocks: counts.blocks,
            ..Counts::default()
        };
        AccessSink::accesses(&mut expected, &expand(&program, Expander::new(&xsave, List::default())));
        assert_eq!(counts, expected, "seed {seed}");
    }
}

#[test]
fn counting_whole_buffers_counts_instructions_as_counting_record_by_record() {
    let xsave = xsave();
    for seed in 0..SEEDS {
        let program = program(seed, 60);
        let count = |buffers: &[Vec<u64>]| {
            let mut counter = Counter::new(&xsave);
            let mut decoder = ThreadDecoder::new(THREAD);
            for words in buffers {
                decoder.feed(&program.table, words, &mut counter).unwrap();
            }
            decoder.finish(&program.table, &mut counter).unwrap();
            (counter.counts(&program.table), decoder.state())
        };
        assert_eq!(count(&[program.words()]), count(&program.records), "seed {seed}");
    }
}

#[test]
fn a_limit_gives_the_first_accesses() {
    let xsave = xsave();
    for seed in 0..40 {
        let program = program(seed, 30);
        let all = expand(&program, Expander::new(&xsave, List::default()));
        for limit in [0, 1, 7, 511, 512, 513, 1024, all.len().saturating_sub(1), all.len()] {
            let some = expand(
                &program,
                Expander::new(&xsave, List::default()).with_limit(limit as u64),
            );
            assert_eq!(some, all[..limit.min(all.len())], "seed {seed}, limit {limit}");
        }
    }
}

#[test]
fn damaged_words_give_the_same_error_every_way() {
    let xsave = xsave();
    let mut errors = 0;
    let programs = (0..4000)
        .map(|seed| (seed, program(seed, 25)))
        .filter(|(_, p)| !p.affine);
    for (seed, program) in programs {
        let mut rng = Rng::new(seed + 77);
        let mut words = program.words();
        for _ in 0..1 + rng.below(3) {
            let (i, j) = (rng.below(words.len()), rng.below(words.len()));
            match rng.below(4) {
                0 => words[i] = words[j],
                1 => words[i] ^= 1 << rng.below(64),
                2 if words.len() > 1 => drop(words.remove(i)),
                _ => words.truncate(i.max(1)),
            }
        }
        let decode = |expander: Expander<List>| {
            let mut expander = expander;
            let mut decoder = ThreadDecoder::new(THREAD);
            let fed = decoder.feed(&program.table, &words, &mut expander);
            (fed, expander.into_sink().0)
        };
        let fast = decode(Expander::new(&xsave, List::default()));
        let expected = decode(Expander::new(&xsave, List::default()).one_by_one());
        assert!(fast == expected, "seed {seed}");
        let mut counter = Counter::new(&xsave);
        let counted = ThreadDecoder::new(THREAD).feed(&program.table, &words, &mut counter);
        assert_eq!(counted, expected.0, "seed {seed}");
        assert_eq!(
            counter.counts(&program.table).accesses(),
            expected.1.len() as u64,
            "seed {seed}"
        );
        errors += usize::from(counted.is_err());
    }
    assert!(errors > 100, "only {errors} were found damaged");
}
