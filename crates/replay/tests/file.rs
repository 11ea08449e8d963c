//! Recordings written and read back, whole, cut off at every byte, and damaged at every byte.
mod common;

use common::{header, message_list, recording, totals, Recording};
use memtrail_collect::define;
use memtrail_decode::{Message, Module, State};
use memtrail_replay::{accesses, Selection};
use memtrail_trace::{
    compress, create, describe, stream, words, ChunkKind, Ending, Error, Known, Leaves, Reader, StreamHead, ThreadInfo,
    Totals, Writer, CHUNK_HEAD_BYTES,
};
use memtrail_translate::Options;
use proptest::prelude::*;
use std::io::{Cursor, ErrorKind};

#[test]
fn what_was_written_is_read_back() {
    let r = recording();
    let mut reader = Reader::open(Cursor::new(&r.bytes)).unwrap();
    assert_eq!(*reader.header(), header());
    assert_eq!(reader.ending(), Ending::Complete(totals()));
    let places: Vec<_> = reader.chunks().iter().map(|c| (c.at, c.kind())).collect();
    assert_eq!(places, r.chunks);
    let known = Known::read(&mut reader).unwrap();
    assert_eq!(known.ending, Ending::Complete(totals()));
    assert_eq!(known.messages, message_list());
    let blocks: Vec<_> = known
        .table
        .blocks()
        .iter()
        .map(|b| (b.id, &b.plan, &b.sources, &b.images, b.code()))
        .collect();
    let expected: Vec<_> = r
        .blocks
        .iter()
        .map(|b| (b.id, &b.plan, &b.sources, &b.images, b.code()))
        .collect();
    assert_eq!(blocks, expected);
    let module = Module {
        path: b"/no/such/file".to_vec(),
        build_id: None,
        generated: false,
    };
    assert_eq!(known.modules(), [module]);
    let thread = |serial, end| ThreadInfo {
        serial,
        process: 0,
        space: 0,
        tid: 10 + serial,
        start: 1000,
        end,
    };
    let threads: Vec<_> = known.threads.values().copied().collect();
    assert_eq!(threads, [thread(0, None), thread(1, Some((2, 3000)))]);
    let heads: Vec<StreamHead> = known.streams.iter().map(|c| c.head.stream).collect();
    assert_eq!(heads, r.streams.iter().map(|(h, _)| *h).collect::<Vec<_>>());
    for (chunk, (_, expected)) in known.streams.iter().zip(&r.streams) {
        assert_eq!(words(&mut reader, &known, chunk).unwrap(), *expected);
    }
}

/// How many whole chunks of blocks, events and streams the first `length` bytes hold, and where
/// they end.
fn whole(r: &Recording, length: usize) -> (usize, u64) {
    let ends: Vec<u64> = r.ends.iter().copied().filter(|&e| e <= length as u64).collect();
    (ends.len().saturating_sub(1).min(r.chunks.len()), *ends.last().unwrap())
}

#[test]
fn cut_off_anywhere_it_is_readable_to_the_last_whole_chunk() {
    let r = recording();
    for length in 0..r.bytes.len() {
        let opened = Reader::open(Cursor::new(&r.bytes[..length]));
        if length < r.ends[0] as usize {
            assert!(
                matches!(opened, Err(Error::TruncatedHeader { at }) if at == length as u64),
                "{length}"
            );
            continue;
        }
        let mut reader = opened.unwrap();
        let (chunks, at) = whole(&r, length);
        assert_eq!(reader.ending(), Ending::CutOff { at }, "{length}");
        let places: Vec<_> = reader.chunks().iter().map(|c| (c.at, c.kind())).collect();
        assert_eq!(places, r.chunks[..chunks], "{length}");
        let known = Known::read(&mut reader).unwrap();
        assert_eq!(known.ending, Ending::CutOff { at });
        for (chunk, (_, expected)) in known.streams.iter().zip(&r.streams) {
            assert_eq!(words(&mut reader, &known, chunk).unwrap(), *expected);
        }
    }
}

/// Reads everything there is, strictly.
fn read_all(bytes: &[u8]) -> Result<(), Error> {
    let mut reader = Reader::open(Cursor::new(bytes))?;
    let known = Known::read(&mut reader)?;
    for chunk in &known.streams {
        words(&mut reader, &known, chunk)?;
    }
    match known.ending {
        Ending::Complete(_) => Ok(()),
        Ending::CutOff { at } => Err(Error::Damaged { at, what: "cut off" }),
        Ending::Damaged { at, what } => Err(Error::Damaged { at, what }),
    }
}

#[test]
fn damage_anywhere_is_noticed() {
    let r = recording();
    read_all(&r.bytes).unwrap();
    for at in 0..r.bytes.len() {
        for bit in [0, 7] {
            let mut damaged = r.bytes.clone();
            damaged[at] ^= 1 << bit;
            let error = read_all(&damaged).expect_err("damage was not noticed");
            // The place that is named is the chunk that holds the damage; the header has no places.
            if let Error::Damaged { at: said, .. } = error {
                assert!(said <= at as u64, "byte {at}, bit {bit}: {said}");
            }
        }
    }
}

#[test]
fn what_stands_before_the_damage_is_used() {
    let r = recording();
    for (i, &(at, _)) in r.chunks.iter().enumerate() {
        for inside in [0, CHUNK_HEAD_BYTES] {
            let mut damaged = r.bytes.clone();
            damaged[at as usize + inside] ^= 0x40;
            let mut reader = Reader::open(Cursor::new(damaged)).unwrap();
            // The index still lists the chunk.
            assert_eq!(reader.chunks().len(), r.chunks.len());
            let known = Known::read(&mut reader).unwrap();
            let streams = r.chunks[..i].iter().filter(|c| c.1 == ChunkKind::Stream).count();
            if r.chunks[i].1 == ChunkKind::Stream {
                assert!(
                    matches!(words(&mut reader, &known, &known.streams[streams]), Err(Error::Damaged { at: a, .. }) if a == at)
                );
            } else {
                assert!(
                    matches!(known.ending, Ending::Damaged { at: a, .. } if a == at),
                    "{:?}",
                    known.ending
                );
                assert_eq!(known.streams.len(), streams);
            }
            for (chunk, (_, expected)) in known.streams[..streams].iter().zip(&r.streams) {
                assert_eq!(words(&mut reader, &known, chunk).unwrap(), *expected);
            }
        }
    }
}

/// A sink for accesses that do not matter.
struct Nobody;
impl memtrail_model::AccessSink for Nobody {
    fn accesses(&mut self, _: &[memtrail_model::Access]) {}
}

proptest! {
    /// As somebody would damage a file who knows about checksums.
    #[test]
    fn wrong_payloads_with_right_checksums_do_no_harm(which in 0usize..9, at in any::<u16>(), byte in any::<u8>()) {
        let r = recording();
        let begin = r.ends[which] as usize;
        let end = r.ends[which + 1] as usize;
        let payload = begin + CHUNK_HEAD_BYTES..end;
        let mut bytes = r.bytes.clone();
        bytes[payload.start + usize::from(at) % payload.len()] = byte;
        let crc = crc32fast::hash(&bytes[payload]);
        bytes[begin + 64..begin + 68].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[begin..begin + 68]);
        bytes[begin + 68..begin + 72].copy_from_slice(&crc.to_le_bytes());
        let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
        // Whatever comes out: no panic.
        if let Ok(known) = Known::read(&mut reader) {
            for chunk in &known.streams {
                let _ = words(&mut reader, &known, chunk);
            }
        }
        let _ = memtrail_replay::check(&mut reader);
        let _ = memtrail_replay::check_deep(&mut reader);
        if let Ok(known) = Known::read(&mut reader) {
            let _ = accesses(&mut reader, &known, &Selection::default(), &mut Nobody);
            for chunk in &known.streams {
                if let Ok(stream) = stream(&mut reader, &known, chunk) {
                    let _ = describe(&known, chunk, &stream, true, |_| true);
                }
            }
        }
    }
}

#[test]
fn without_its_index_a_recording_is_read_by_its_heads() {
    let r = recording();
    let index = r.ends[r.chunks.len()] as usize;
    let footer = r.bytes.len() - 16;
    for at in [
        index + 5,
        index + CHUNK_HEAD_BYTES,
        r.ends[r.chunks.len() + 1] as usize + CHUNK_HEAD_BYTES,
        footer,
    ] {
        let mut damaged = r.bytes.clone();
        damaged[at] ^= 1;
        let reader = Reader::open(Cursor::new(damaged)).unwrap();
        assert_eq!(reader.chunks().len(), r.chunks.len(), "byte {at}");
        assert!(
            matches!(reader.ending(), Ending::Damaged { at: said, .. } if said <= at as u64 && said >= index as u64)
        );
    }
}

#[test]
fn other_files_are_told_apart() {
    let open = |bytes: &[u8]| Reader::open(Cursor::new(bytes.to_vec())).unwrap_err();
    assert!(matches!(
        open(b"\x7fELF and so on, for more than a header"),
        Error::NotARecording
    ));
    assert!(matches!(open(b""), Error::TruncatedHeader { at: 0 }));
    let mut bytes = recording().bytes;
    bytes[8] = 1;
    assert!(matches!(open(&bytes), Error::OlderVersion { found: 1, known: 7 }));
    let mut bytes = recording().bytes;
    bytes.push(0);
    assert!(matches!(read_all(&bytes), Err(Error::Damaged { .. })));
}

#[test]
fn a_header_that_claims_to_be_long_costs_nothing() {
    let mut bytes = recording().bytes;
    bytes[12..16].copy_from_slice(&0xff_ffffu32.to_le_bytes());
    assert!(matches!(
        Reader::open(Cursor::new(bytes)),
        Err(Error::TruncatedHeader { .. })
    ));
}

#[test]
fn existing_files_are_kept_unless_told_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.mtr");
    std::fs::write(&path, "precious").unwrap();
    let refused = create(&path, false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    let file = create(&path, true).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    Writer::start(file, &header()).unwrap();
    let reader = Reader::open(std::fs::File::open(&path).unwrap()).unwrap();
    assert!(matches!(reader.ending(), Ending::CutOff { .. }));
}

#[test]
fn an_empty_recording_is_complete() {
    let (bytes, _) = Writer::new(Vec::new(), &header())
        .unwrap()
        .finish(&Totals::default())
        .unwrap();
    let reader = Reader::open(Cursor::new(bytes)).unwrap();
    assert_eq!(reader.ending(), Ending::Complete(Totals::default()));
    assert!(reader.chunks().is_empty());
}

#[test]
fn many_events_are_written_at_once() {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let before = writer.written();
    let warning = Message::Warn {
        text: "x".repeat(300_000),
    };
    writer.message(0, &warning).unwrap();
    assert!(writer.written() > before, "nothing was written");
    let (bytes, _) = writer.finish(&totals()).unwrap();
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    assert_eq!(Known::read(&mut reader).unwrap().messages, [(0, warning)]);
}

/// A disk with room for so many bytes.
struct Small(usize);
impl std::io::Write for Small {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        let n = bytes.len().min(self.0);
        self.0 -= n;
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_of_its_own() {
    let mut writer = Writer::new(Small(400), &header()).unwrap();
    let error = (0..100).find_map(|_| writer.stream(&StreamHead::default(), 5, &[5; 50]).err());
    assert_eq!(error.unwrap().kind(), ErrorKind::StorageFull);
}

#[test]
fn a_chunk_that_is_one_loop_over_blocks_without_values() {
    let mut table = common::table();
    for id in 64..70 {
        // push rax; pop rax; ret
        define(&mut table, &Options::default(), id, 0x40_1000, &[0x50, 0x58, 0xc3]).unwrap();
    }
    let mut leaves = Leaves::default();
    table.blocks().iter().for_each(|b| leaves.add(b));
    let records: Vec<u64> = (0..6000).map(|i| 64 + i % 6).collect();
    // One event with one parameter, of the last of seven kinds.
    let (payload, raw_bytes) = compress(&records, State::default(), 0, &leaves).unwrap();
    assert!(payload.len() < 120);
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    writer.blocks(table.blocks()).unwrap();
    let head = StreamHead {
        words: 6000,
        ..StreamHead::default()
    };
    writer.stream(&head, raw_bytes, &payload).unwrap();
    let (bytes, _) = writer.finish(&totals()).unwrap();
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    assert_eq!(words(&mut reader, &known, &known.streams[0]).unwrap(), records);
}
