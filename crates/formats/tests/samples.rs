//! A sample of each format, written by hand, with exactly what it says; and everything that must be
//! refused.
mod common;

use common::{import, replayed, through};
use memtrail_decode::{Block, Message, Piece, Sink};
use memtrail_formats::{din, drmemtrace, lackey, text, Error, Event, Importer, Source};
use memtrail_model::{Access, Kind, Point, Thread};
use std::io;
use Kind::{Prefetch, Read, Write};

fn all(source: &mut dyn Source) -> Vec<Event> {
    std::iter::from_fn(|| source.next().unwrap()).collect()
}

fn i(pc: u64, bytes: u32) -> Event {
    Event::Instruction { pc, bytes }
}
fn a(kind: Kind, addr: u64, size: u32) -> Event {
    Event::Access { kind, addr, size }
}
fn thread(serial: u32, tid: u32) -> Event {
    Event::Thread { serial, tid }
}
fn access(thread: u32, pc: u64, kind: Kind, addr: u64, size: u32) -> Access {
    Access {
        thread: Thread(thread),
        pc,
        kind,
        addr,
        size,
        point: Point::NONE,
    }
}

const LACKEY: &[u8] = b"==29558== Lackey, an example Valgrind tool
--29558-- a warning
I  00401000,7
I  00401007,2
 L 1ffeffe7e8,8
 S 00402000,1

I  00401015,6
 M 00402000,4
==29558== Exit code:       0
";

#[test]
fn lackey() {
    let expected = [
        i(0x401000, 7),
        i(0x401007, 2),
        a(Read, 0x1f_feff_e7e8, 8),
        a(Write, 0x402000, 1),
        i(0x401015, 6),
        a(Read, 0x402000, 4),
        a(Write, 0x402000, 4),
    ];
    assert_eq!(all(&mut lackey::Reader::new(LACKEY)), expected);
    let told = through(&mut lackey::Reader::new(LACKEY));
    let accesses = [
        access(0, 0x401007, Read, 0x1f_feff_e7e8, 8),
        access(0, 0x401007, Write, 0x402000, 1),
        access(0, 0x401015, Read, 0x402000, 4),
        access(0, 0x401015, Write, 0x402000, 4),
    ];
    assert_eq!(told.accesses, accesses);
    assert_eq!(
        told.instructions,
        [(0, 0x401000, 7), (0, 0x401007, 2), (0, 0x401015, 6)]
    );
}

#[test]
fn an_access_before_any_instruction_has_address_0() {
    let told = through(&mut lackey::Reader::new(&b" S 10,4\n L 20,8\nI  30,1\n"[..]));
    assert_eq!(
        told.accesses,
        [access(0, 0, Write, 0x10, 4), access(0, 0, Read, 0x20, 8)]
    );
    assert_eq!(told.instructions, [(0, 0, 0), (0, 0x30, 1)]);
}

#[test]
fn din_with_and_without_fetches() {
    let sample = &b"2 401000 first\n0 0x7ffd0010 8 4\n1\t7FFD0018\r\n\n2 401004\n3 0\n4 0\n0 ffffffffffffffff"[..];
    let expected = [
        i(0x401000, 0),
        a(Read, 0x7ffd_0010, 8),
        a(Write, 0x7ffd_0018, 8),
        i(0x401004, 0),
        a(Read, u64::MAX, 8),
    ];
    assert_eq!(all(&mut din::Reader::new(sample, 8)), expected);
    let bare = &b"0 10\n1 10\n0 20\n"[..];
    let told = through(&mut din::Reader::new(bare, din::DEFAULT_SIZE));
    let accesses = [
        access(0, 0, Read, 0x10, 4),
        access(0, 0, Write, 0x10, 4),
        access(0, 0, Read, 0x20, 4),
    ];
    assert_eq!(told.accesses, accesses);
    assert_eq!(told.instructions, [(0, 0, 0); 3]);
}

#[test]
fn text() {
    let sample = &b"# two threads
0 0x401000 R 0x7ffd0c3e1a68 8
0 0x401000 W 0x7ffd0c3e1a68 8
7 0x401000 P 0x0 1

0 0x401000 R 0x7ffd0c3e1a68 8
7 0x401000 W 0xffffffffffffffff 4294967295
0 0x401000 W 0x7ffd0c3e1a68 8
"[..];
    let (stack, top) = (0x7ffd_0c3e_1a68, u64::MAX);
    let expected = [
        thread(0, 0),
        i(0x401000, 0),
        a(Read, stack, 8),
        a(Write, stack, 8),
        thread(7, 7),
        i(0x401000, 0),
        a(Prefetch, 0, 1),
        thread(0, 0),
        i(0x401000, 0),
        a(Read, stack, 8),
        thread(7, 7),
        i(0x401000, 0),
        a(Write, top, u32::MAX),
        thread(0, 0),
        i(0x401000, 0),
        a(Write, stack, 8),
    ];
    assert_eq!(all(&mut text::Reader::new(sample)), expected);
    let told = through(&mut text::Reader::new(sample));
    let pc = 0x401000;
    let accesses = [
        access(0, pc, Read, stack, 8),
        access(0, pc, Write, stack, 8),
        access(0, pc, Read, stack, 8),
        access(0, pc, Write, stack, 8),
        access(7, pc, Prefetch, 0, 1),
        access(7, pc, Write, top, u32::MAX),
    ];
    assert_eq!(told.accesses, accesses);
}

fn record(kind: u16, size: u16, value: u64) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(size.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    bytes
}

/// One of each type of record that there is.
fn drmemtrace_sample() -> Vec<u8> {
    [
        (25, 0, 3),
        (28, 12, 3),
        (28, 9, 0x40),
        (22, 4, 4711),
        (24, 4, 4711),
        (28, 2, 1000),
        (28, 3, 0),
        (47, 3, 0x90_9090),
        (10, 3, 0x401000),
        (0, 8, 0x10),
        (1, 4, 0x20),
        (17, 2, 0x0502),
        (3, 64, 0x40),
        (29, 5, 0x401005),
        (1, 16, 0x50),
        (18, 64, 0x1000),
        (27, 64, 0x2000),
        (28, 2, 2000),
        (48, 2, 0x40100a),
        (46, 1, 0x60),
        (23, 4, 4711),
        (26, 0, 0),
    ]
    .iter()
    .flat_map(|&(kind, size, value)| record(kind, size, value))
    .collect()
}

#[test]
fn drmemtrace() {
    let sample = drmemtrace_sample();
    let expected = [
        thread(3, 4711),
        Event::Time(1000),
        i(0x401000, 3),
        a(Read, 0x10, 8),
        a(Write, 0x20, 4),
        i(0x401003, 2),
        i(0x401005, 5),
        a(Prefetch, 0x40, 64),
        i(0x401005, 5),
        a(Write, 0x50, 16),
        Event::Time(2000),
        i(0x40100a, 2),
        a(Prefetch, 0x60, 1),
    ];
    let mut reader = drmemtrace::Reader::new(&sample[..], 3);
    assert_eq!(all(&mut reader), expected);
    assert_eq!(reader.next_serial(), 4);
    let told = through(&mut drmemtrace::Reader::new(&sample[..], 3));
    let accesses = [
        access(3, 0x401000, Read, 0x10, 8),
        access(3, 0x401000, Write, 0x20, 4),
        access(3, 0x401005, Prefetch, 0x40, 64),
        access(3, 0x401005, Write, 0x50, 16),
        access(3, 0x40100a, Prefetch, 0x60, 1),
    ];
    assert_eq!(told.accesses, accesses);
}

#[test]
fn a_drmemtrace_stream_may_hold_several_threads_or_name_none() {
    let sample: Vec<u8> = [
        (10, 3, 0x1000),
        (22, 4, 50),
        (10, 3, 0x2000),
        (0, 8, 0x10),
        (22, 4, 60),
        (10, 1, 0x3000),
        (22, 4, 50),
        (1, 8, 0x18),
    ]
    .iter()
    .flat_map(|&(kind, size, value)| record(kind, size, value))
    .collect();
    let mut reader = drmemtrace::Reader::new(&sample[..], 0);
    let (bytes, imported) = import(&mut [&mut reader]).unwrap();
    assert_eq!((imported.threads, reader.next_serial()), (3, 3));
    let (told, _) = replayed(&bytes);
    let accesses = [access(1, 0x2000, Read, 0x10, 8), access(1, 0x2000, Write, 0x18, 8)];
    assert_eq!(told.accesses, accesses);
    // The instruction that goes on after the other thread counts once more.
    let instructions = [(0, 0x1000, 3), (1, 0x2000, 3), (1, 0x2000, 3), (2, 0x3000, 1)];
    assert_eq!(told.instructions, instructions);
}

#[test]
fn an_instruction_may_make_any_number_of_accesses() {
    let mut sample = b"I  1000,4\n".to_vec();
    for n in 0..1000 {
        sample.extend(format!(" S {:x},8\n", 0x5000 + 8 * n).into_bytes());
    }
    sample.extend(b"I  1004,4\n");
    let told = through(&mut lackey::Reader::new(&sample[..]));
    let expected: Vec<Access> = (0..1000).map(|n| access(0, 0x1000, Write, 0x5000 + 8 * n, 8)).collect();
    assert_eq!(told.accesses, expected);
    // In records of 64 accesses.
    assert_eq!(told.instructions.len(), 1000usize.div_ceil(64) + 1);
}

#[test]
fn runs_of_instructions_are_blocks() {
    let body = "I  1000,4\n L 5000,8\nI  1004,3\nI  1007,2\n S 6000,4\n";
    let sample = format!("I  ffc,4\n{}", body.repeat(500));
    let mut reader = lackey::Reader::new(sample.as_bytes());
    let (bytes, imported) = import(&mut [&mut reader]).unwrap();
    let (told, counts) = replayed(&bytes);
    assert_eq!(counts, imported.counts);
    assert_eq!(
        (counts.instructions, counts.blocks, imported.words),
        (1501, 500, 4 + 1500)
    );
    assert_eq!(told.accesses.len(), 1000);
    assert!(bytes.len() < 1200, "{} bytes", bytes.len());
}

#[test]
fn lines_that_are_wrong_are_named() {
    let line = |error: Error| error.to_string();
    let lackeys = [
        (
            "I  401000,7\nhello\n",
            "line 2: \"I  \", \" L \", \" S \" or \" M \" with address,size expected, not \"hello\"",
        ),
        ("I 401000,7\n", "line 1: "),
        ("I  401000\n", "line 1: "),
        ("\n\n L 401000,\n", "line 3: "),
        (" L ,8\n", "line 1: "),
        (" L 11112222333344445,8\n", "line 1: "),
        (" L 10,4294967296\n", "line 1: "),
        (" X 10,4\n", "line 1: "),
        (" L 10,4 \n", "line 1: "),
    ];
    for (sample, expected) in lackeys {
        let error = import(&mut [&mut lackey::Reader::new(sample.as_bytes())]).unwrap_err();
        assert!(line(error).starts_with(expected), "{sample:?}");
    }
    let dins = [
        (
            "0 10\n5 10\n",
            "line 2: a label from 0 to 4 and a hexadecimal address expected, not \"5 10\"",
        ),
        ("0\n", "line 1: "),
        ("0 xyz\n", "line 1: "),
        ("00 10\n", "line 1: "),
        ("r 10\n", "line 1: "),
    ];
    for (sample, expected) in dins {
        let error = import(&mut [&mut din::Reader::new(sample.as_bytes(), 4)]).unwrap_err();
        assert!(line(error).starts_with(expected), "{sample:?}");
    }
    let texts = [
        (
            "0 0x1 R 0x2 8\n0 0x1 R 0x2\n",
            "line 2: thread 0xPC R|W|P 0xADDRESS size expected, not \"0 0x1 R 0x2\"",
        ),
        ("0 1 R 0x2 8\n", "line 1: "),
        ("0 0x1 X 0x2 8\n", "line 1: "),
        ("0 0x1 R 2 8\n", "line 1: "),
        ("0 0x1 R 0x2 -8\n", "line 1: "),
        ("0 0x1 R 0x2 8 9\n", "line 1: "),
        ("-1 0x1 R 0x2 8\n", "line 1: "),
        ("\u{e9}\n", "line 1: "),
    ];
    for (sample, expected) in texts {
        let error = import(&mut [&mut text::Reader::new(sample.as_bytes())]).unwrap_err();
        assert!(line(error).starts_with(expected), "{sample:?}");
    }
}

#[test]
fn bytes_that_are_wrong_are_named() {
    let sample = drmemtrace_sample();
    let wrong = |bytes: &[u8]| {
        let error = import(&mut [&mut drmemtrace::Reader::new(bytes, 0)]).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        wrong(&sample[..sample.len() - 1]),
        "byte 252: a record of 12 bytes expected, not the end after 11"
    );
    let mut unknown = sample.clone();
    unknown[24] = 50;
    assert_eq!(
        wrong(&unknown),
        "byte 24: a type of record from 0 to 49 expected, not 50"
    );
    for size in [0, 9] {
        let bundle = [record(10, 1, 0x1000), record(17, size, 1)].concat();
        let expected = "byte 12: one to eight instructions behind another expected in a bundle";
        assert_eq!(wrong(&bundle), expected);
    }
    assert!(wrong(&record(17, 1, 1)).starts_with("byte 0: one to eight"));
}

#[test]
fn a_trace_without_accesses_is_refused() {
    let empty = "there is no access in it";
    for sample in ["", "==1== \n", "I  1000,4\n"] {
        let error = import(&mut [&mut lackey::Reader::new(sample.as_bytes())]).unwrap_err();
        assert_eq!(error.to_string(), empty);
    }
    let error = import(&mut [&mut din::Reader::new(&b"2 10\n"[..], 4)]).unwrap_err();
    assert_eq!(error.to_string(), empty);
    let error = import(&mut [&mut drmemtrace::Reader::new(&record(25, 0, 3)[..], 0)]).unwrap_err();
    assert_eq!(error.to_string(), empty);
}

#[test]
fn loops_without_accesses_are_kept() {
    let loops = "2 10\n2 14\n2 18\n".repeat(20);
    let told = through(&mut din::Reader::new(format!("2 8\n0 80\n{loops}").as_bytes(), 4));
    assert_eq!(told.accesses, [access(0, 8, Read, 0x80, 4)]);
    let mut instructions = vec![(0, 8, 0)];
    (0..20).for_each(|_| instructions.extend([(0, 0x10, 0), (0, 0x14, 0), (0, 0x18, 0)]));
    assert_eq!(told.instructions, instructions);
}

/// Keeps nothing.
struct Nowhere;

impl Sink for Nowhere {
    fn blocks(&mut self, _blocks: &[Block]) -> io::Result<()> {
        Ok(())
    }
    fn message(&mut self, _process: u32, _message: &Message) -> io::Result<()> {
        Ok(())
    }
    fn records(&mut self, _piece: &Piece<'_>) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn more_threads_than_any_program_has_are_refused() {
    let sample: String = (0..70_000).map(|t| format!("{t} 0x1 R 0x2 8\n")).collect();
    let mut nowhere = Nowhere;
    let mut importer = Importer::new(&mut nowhere).unwrap();
    let error = importer.read(&mut text::Reader::new(sample.as_bytes())).unwrap_err();
    assert_eq!(error.to_string(), "there are more than 65536 different threads in it");
}
