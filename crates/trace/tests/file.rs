//! Recordings written and read back, whole, cut off at every byte, and damaged at every byte.
use memtrail_collect::{Piece, Sink};
use memtrail_model::Thread;
use memtrail_trace::{create, ChunkKind, Ending, Error, Header, Reader, Totals, Writer};
use std::io::{Cursor, ErrorKind};

fn header() -> Header {
    Header {
        command: vec!["ls".into(), "-l".into()],
        pid: 4711,
        probes: 3,
        max_block: 64,
        page_bytes: 4096,
        unix_time: 1,
        xcr0: 7,
        xsave: vec![(2, 256, 576, false)],
    }
}

fn totals() -> Totals {
    Totals {
        threads: 2,
        exit_status: Some(3),
        ..Totals::default()
    }
}

fn piece(thread: u32, begin: u64, words: &[u64]) -> Piece<'_> {
    Piece {
        thread: Thread(thread),
        process: 0,
        begin,
        end: begin + 1,
        words,
    }
}

/// A small recording; returns it and the offsets where its chunks end.
fn recording() -> (Vec<u8>, Vec<usize>) {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let mut ends = vec![writer.written() as usize];
    writer.definitions(0, &[1, 2, 3]).unwrap();
    ends.push(writer.written() as usize);
    writer.records(&piece(1, 20, &[7; 1000])).unwrap();
    ends.push(writer.written() as usize);
    writer.records(&piece(0, 10, &[u64::MAX, 0])).unwrap();
    ends.push(writer.written() as usize);
    let (bytes, size) = writer.finish(&totals()).unwrap();
    assert_eq!(bytes.len() as u64, size);
    (bytes, ends)
}

#[test]
fn what_was_written_is_read_back() {
    let (bytes, _) = recording();
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    assert_eq!(*reader.header(), header());
    let (chunks, ending) = reader.chunks().unwrap();
    assert_eq!(ending, Ending::Complete(totals()));
    let kinds: Vec<_> = chunks.iter().map(|c| (c.kind(), c.serial(), c.begin())).collect();
    let expected = vec![
        (ChunkKind::Definitions, 0, 0),
        (ChunkKind::Records, 1, 20),
        (ChunkKind::Records, 0, 10),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(reader.words(&chunks[0]).unwrap(), vec![1, 2, 3]);
    assert_eq!(reader.words(&chunks[1]).unwrap(), vec![7; 1000]);
    assert_eq!(reader.words(&chunks[2]).unwrap(), vec![u64::MAX, 0]);
}

#[test]
fn cut_off_anywhere_it_is_readable_to_the_last_whole_chunk() {
    let (bytes, ends) = recording();
    for length in 0..bytes.len() {
        let opened = Reader::open(Cursor::new(&bytes[..length]));
        if length < ends[0] {
            assert!(matches!(opened, Err(Error::TruncatedHeader { .. })), "{length}");
            continue;
        }
        let mut reader = opened.unwrap();
        let (chunks, ending) = reader.chunks().unwrap();
        let whole = ends.iter().filter(|&&e| e <= length).count() - 1;
        assert_eq!(chunks.len(), whole, "{length}");
        let at = ends[whole] as u64;
        assert_eq!(ending, Ending::CutOff { at }, "{length}");
        for chunk in &chunks {
            reader.words(chunk).unwrap();
        }
    }
}

#[test]
fn damage_anywhere_is_noticed() {
    let (bytes, _) = recording();
    for at in 0..bytes.len() {
        for bit in [0, 7] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(read_all(damaged).is_err(), "byte {at}, bit {bit}");
        }
    }
}

fn read_all(bytes: Vec<u8>) -> Result<(), Error> {
    let mut reader = Reader::open(Cursor::new(bytes))?;
    let (chunks, ending) = reader.chunks()?;
    for chunk in &chunks {
        reader.words(chunk)?;
    }
    match ending {
        Ending::Complete(_) => Ok(()),
        Ending::CutOff { at } => Err(Error::Damaged { at, what: "cut off" }),
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
    let (mut bytes, _) = recording();
    bytes[8] = 200;
    assert!(matches!(open(&bytes), Error::Version { found: 200, .. }));
    let (mut bytes, _) = recording();
    bytes.push(0);
    assert!(matches!(read_all(bytes), Err(Error::Damaged { .. })));
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
    let mut reader = Reader::open(std::fs::File::open(&path).unwrap()).unwrap();
    assert!(matches!(reader.chunks().unwrap().1, Ending::CutOff { .. }));
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
    let error = (0..100).find_map(|_| writer.records(&piece(0, 1, &[5; 50])).err());
    assert_eq!(error.unwrap().kind(), ErrorKind::StorageFull);
}
