//! The pipeline from words to a file: the same bytes from any number of workers, and an end
//! whatever fails.
mod common;

use common::{blocks, header, message_list};
use memtrail_decode::{Block, Piece, Sink, State};
use memtrail_model::Thread;
use memtrail_trace::{words, Known, Limits, Pipeline, Reader, Totals, Writer};
use std::collections::BTreeMap;
use std::io::{self, Cursor, ErrorKind, Write};
use std::sync::mpsc::channel;
use std::time::Duration;

/// xorshift
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// What a thread does: a loop, anything, or now the one and now the other.
#[derive(Clone, Copy)]
enum Manner {
    Dense,
    Irregular,
    Mixed,
}

/// About `count` words of thread `thread`, which has made `before` so far.
fn some_words(blocks: &[Block], manner: Manner, before: u64, count: usize, random: &mut Random) -> Vec<u64> {
    let mut words = Vec::new();
    while words.len() < count {
        let at = before + words.len() as u64;
        let dense = match manner {
            Manner::Dense => true,
            Manner::Irregular => false,
            Manner::Mixed => at / 30_000 % 2 == 0,
        };
        let which = if dense { 0 } else { (random.next() >> 60) as usize % 3 };
        let block = &blocks[which];
        words.push(block.id.into());
        let value = if dense { 8 * at } else { random.next() >> 40 };
        words.resize(words.len() + block.plan.words as usize - 1, value);
    }
    words
}

/// What was sent, by thread.
type Sent = BTreeMap<u32, Vec<u64>>;

/// Sends words of several threads, interleaved, in pieces of `piece` words.
fn send(sink: &mut dyn Sink, threads: &[Manner], rounds: usize, piece: usize) -> io::Result<Sent> {
    let all = blocks();
    sink.blocks(&all[..2])?;
    for (process, message) in message_list() {
        sink.message(process, &message)?;
    }
    sink.blocks(&all[2..])?;
    let (mut sent, mut random, mut time) = (Sent::new(), Random(7), 1000);
    for _ in 0..rounds {
        for (thread, &manner) in threads.iter().enumerate() {
            let thread = thread as u32;
            let list = sent.entry(thread).or_default();
            let length = piece / 2 + random.next() as usize % piece;
            let words = some_words(&all, manner, list.len() as u64, length, &mut random);
            let state = State {
                carried: [list.len() as u64, 0, 0],
                ..State::default()
            };
            sink.records(&Piece {
                thread: Thread(thread),
                process: 0,
                begin: time,
                end: time + 900,
                first: list.len() as u64,
                accesses: words.len() as u64,
                state: &state,
                words: &words,
                leaves: &[],
            })?;
            list.extend(words);
            time += 1000;
        }
    }
    Ok(sent)
}

const SMALL: usize = 16 << 20;

fn recorded(threads: &[Manner], rounds: usize, piece: usize, limits: Limits) -> (Vec<u8>, Sent) {
    let writer = Writer::new(Vec::new(), &header()).unwrap();
    let mut pipeline = Pipeline::new(writer, limits);
    let sent = send(&mut pipeline, threads, rounds, piece).unwrap();
    let (bytes, size) = pipeline.finish(&Totals::default()).unwrap();
    assert_eq!(bytes.len() as u64, size);
    (bytes, sent)
}

/// The words of every thread as they stand in a file.
fn read_back(bytes: &[u8]) -> (usize, Sent) {
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut all = Sent::new();
    for chunk in &known.streams {
        let list = all.entry(chunk.head.stream.thread).or_default();
        assert_eq!(chunk.head.stream.first, list.len() as u64);
        list.extend(words(&mut reader, &known, chunk).unwrap());
    }
    (known.streams.len(), all)
}

#[test]
fn the_file_is_the_same_whatever_the_number_of_workers() {
    let threads = [Manner::Dense, Manner::Irregular, Manner::Mixed, Manner::Dense];
    let limits = |workers| Limits { bytes: SMALL, workers };
    let (first, sent) = recorded(&threads, 30, 12_000, limits(1));
    let (chunks, back) = read_back(&first);
    assert!(back == sent);
    // The dense threads are one chunk each, the others several.
    assert!(chunks > 6, "{chunks}");
    for workers in [2, 3, 7] {
        let (bytes, _) = recorded(&threads, 30, 12_000, limits(workers));
        assert!(bytes == first, "{workers} workers");
    }
}

/// A disk with room for so many bytes.
struct Small(usize);

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(self.0);
        if n == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        self.0 -= n;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Fails the test if `body` does not come to an end.
fn ends<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(body()));
    receiver
        .recv_timeout(Duration::from_secs(120))
        .expect("it hangs, or has panicked")
}

#[test]
fn a_disk_that_fills_up_anywhere_is_reported() {
    let record = |room, workers| {
        let writer = Writer::new(Small(room), &header())?;
        let mut pipeline = Pipeline::new(writer, Limits { bytes: SMALL, workers });
        send(
            &mut pipeline,
            &[Manner::Irregular, Manner::Dense, Manner::Mixed],
            6,
            9000,
        )?;
        pipeline.finish(&Totals::default()).map(|(_, size)| size)
    };
    let size = record(usize::MAX, 2).unwrap() as usize;
    for workers in [1, 2, 4] {
        for room in (0..12).map(|i| size * i / 12).chain([size - 1]) {
            let result = ends(move || record(room, workers));
            assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull, "{room} of {size}");
        }
    }
}

#[test]
fn a_disk_that_is_full_when_only_the_end_is_missing() {
    // The second chunk is encoded long before the first, which then cannot be written.
    for _ in 0..20 {
        let result = ends(|| {
            let writer = Writer::new(Small(600), &header())?;
            let mut pipeline = Pipeline::new(
                writer,
                Limits {
                    bytes: SMALL,
                    workers: 2,
                },
            );
            send(
                &mut pipeline,
                &[Manner::Irregular, Manner::Dense, Manner::Dense],
                1,
                20_000,
            )?;
            pipeline.finish(&Totals::default()).map(|_| ())
        });
        assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
    }
}

/// A disk whose driver panics.
struct Broken(usize);

impl Write for Broken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(self.0 >= bytes.len(), "as meant by the test");
        self.0 -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_panics_is_an_error() {
    let result = ends(|| {
        let writer = Writer::new(Broken(2000), &header())?;
        let mut pipeline = Pipeline::new(
            writer,
            Limits {
                bytes: SMALL,
                workers: 2,
            },
        );
        // It is noticed while records still come: they would pile up.
        let sent = send(&mut pipeline, &[Manner::Irregular, Manner::Mixed], 1000, 9000);
        assert!(sent.is_err(), "nobody noticed");
        pipeline.finish(&Totals::default()).map(|_| ())
    });
    assert!(result.is_err());
}

#[test]
fn many_threads_of_few_records() {
    let limits = Limits {
        bytes: 1 << 20,
        workers: 2,
    };
    let (bytes, sent) = recorded(&[Manner::Mixed; 300], 5, 100, limits);
    let (chunks, back) = read_back(&bytes);
    assert!(back == sent);
    assert!(chunks >= 300);
}
