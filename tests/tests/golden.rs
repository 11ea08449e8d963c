//! Golden files: recordings of known accesses, and damaged ones with what is said of them. See
//! `golden/README.md`.

use memtrail_decode::{Counter, Definition, State, ThreadDecoder};
use memtrail_model::{Kind, Thread, Via};
use memtrail_plan::{Addr, Derived, Lin, LoopPlan, Narrow, Piece, Plan, PlannedAccess, Shape, Side, Step, FIRST, RSP};
use memtrail_ring::record::{is_note, special_words, CUT, GAP, NOT_KNOWN, STATE, WAIT, WAKE, WOKEN};
use memtrail_tests::run::{dump, record, transcript, Configuration, Probes};
use memtrail_tests::{guest, reader};
use memtrail_trace::{compress, words, Ending, Known, Reader, StreamHead, Writer, VERSION};
use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Guests that are small and together make use of everything.
const GUESTS: &[&str] = &[
    "address_32bit",
    "bit_strings",
    "compress_expand_avx512",
    "exit_code",
    "fork_and_wait",
    "gather_fault_midway",
    "jump_table",
    "loop_nested",
    "loop_trip_counts",
    "masks_and_shifts",
    "masked_broadcast_avx512",
    "notes_of_all_kinds",
    "prefetch_kinds",
    "rep_fault_midway",
    "string_backward",
    "threads_raw_clone",
    "vmaskmov_avx",
    "xsave_forms",
];
/// The one that is cut into small chunks besides.
const RECHUNKED: &str = "rep_fault_midway";
/// The one behind which hand-made paths are executed.
const PATHS: &str = "exit_code";
/// Records in each of those.
const RECORDS: usize = 5;
/// The one that is damaged in many ways.
const DAMAGED: &str = "loop_trip_counts";

/// The one whose notes are compared, too.
const NOTED: &str = "notes_of_all_kinds";

/// Everything is checked.
const CHECK: &[&str] = &["check", "--deep"];

/// What the reader names.
const EVERYTHING: &[&str] = &[
    "BitWord",
    "Broadcast",
    "Elements",
    "Lanes",
    "Line",
    "Packed",
    "Plain",
    "Repeat",
    "Xstate",
    "affine loop",
    "alloc",
    "back expected",
    "break",
    "code",
    "code anew",
    "cut",
    "ended",
    "enter",
    "forked",
    "free",
    "gap",
    "leave",
    "left",
    "left in a later iteration",
    "left with fewer words",
    "loop",
    "mapped",
    "module",
    "name",
    "on expected",
    "partly affine loop",
    "pieces",
    "processes",
    "realloc",
    "relation",
    "remapped",
    "residual of the last",
    "residual of the least",
    "several chunks of a thread",
    "signal",
    "sigreturn",
    "started",
    "threads",
    "unknown code",
    "unmapped",
    "verify",
    "wait",
    "wake",
    "woken",
];

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// Ends of the names of this version's files.
fn suffix() -> String {
    format!(".v{VERSION}.mtr")
}

/// The recordings in a directory, by name.
fn recordings(name: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory(name)).unwrap().map(|e| e.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|p| p.extension().is_some_and(|e| e == "mtr")).collect();
    paths.sort();
    paths
}

fn is_current(path: &Path) -> bool {
    path.to_string_lossy().ends_with(&suffix())
}

/// A valid recording of this version.
fn valid(name: &str) -> PathBuf {
    directory("valid").join(format!("{name}{}", suffix()))
}

/// What is expected of a recording.
fn text(path: &Path) -> String {
    let path = path.with_extension("txt");
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// All that memtrail says of a file that it must not accept. What `dump` prints is only counted.
fn said_of(path: &Path) -> String {
    let (said, printed) = transcript(CHECK, path).unwrap();
    assert!(!said.ends_with("status 0\n"), "{} passes the check", path.display());
    let (dump, accesses) = transcript(&["dump"], path).unwrap();
    format!("{printed}{said}{} accesses\n{dump}", accesses.lines().count())
}

#[test]
fn valid_files_are_read_exactly() {
    bless();
    let mut read = 0;
    for path in recordings("valid") {
        if is_current(&path) {
            let expected = text(&path);
            assert!(!expected.is_empty(), "{}", path.display());
            reader::same_as_dump(&path, &expected).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let (said, printed) = transcript(CHECK, &path).unwrap();
            assert_eq!(said, "status 0\n", "{printed}");
            let notes = path.with_extension("notes");
            if path == valid(NOTED) {
                assert_eq!(dump(&path, &["--notes"]).unwrap(), fs::read_to_string(notes).unwrap());
            }
            read += 1;
        } else {
            let refusal = format!("; this one reads format {VERSION}: record again");
            let (said, printed) = transcript(&["dump"], &path).unwrap();
            assert!(
                said.contains(&refusal) && printed.is_empty(),
                "{}: {said}",
                path.display()
            );
        }
    }
    assert_eq!(read, GUESTS.len() + 2);
}

#[test]
fn paths_are_named_by_both_their_ends() {
    bless();
    let tree = dump(&valid("paths"), &["--tree"]).unwrap();
    for line in [
        "exit_code+0x1900..+0x1911 (3 pieces): rdi=0x10000, rsi=0x0",
        "exit_code+0x1900..+0x1911 (3 pieces) left at exit_code+0x1804: rdi=0x20000",
        "0x600000..0x5ffff0 (3 pieces) again left at 0x700000000000: rsi=0x3456",
    ] {
        assert!(tree.lines().any(|l| l.trim_start() == line), "{line} is not in\n{tree}");
    }
}

#[test]
fn the_independent_readers_agree_and_meet_everything() {
    bless();
    let mut met = BTreeSet::new();
    for path in recordings("valid").iter().filter(|p| is_current(p)) {
        assert_eq!(reader::accesses(path).unwrap(), text(path), "{}", path.display());
        assert_eq!(reader::clean_room(path).unwrap(), text(path), "{}", path.display());
        met.extend(reader::features(path).unwrap());
    }
    let missing: Vec<_> = EVERYTHING.iter().filter(|f| !met.contains(**f)).collect();
    assert!(missing.is_empty(), "no golden file makes use of {missing:?}");
}

#[test]
fn invalid_files_are_refused_with_these_words() {
    bless();
    let mut refused = 0;
    for path in recordings("invalid").iter().filter(|p| is_current(p)) {
        assert_eq!(said_of(path), text(path), "{}", path.display());
        let error = reader::accesses(path).expect_err(&path.display().to_string());
        let name = path.file_name().unwrap().to_string_lossy();
        // It says so in one line, and does not fall over.
        assert!(
            error.contains(&*name) && error.trim_end().lines().count() == 2,
            "{error}"
        );
        refused += 1;
    }
    assert!(refused > 70, "{refused}");
}

/// With `MEMTRAIL_BLESS=1` the files of this version are made anew, before any is read.
fn bless() {
    static MADE: Once = Once::new();
    if std::env::var_os("MEMTRAIL_BLESS").is_some() {
        MADE.call_once(make);
    }
}

fn make() {
    for name in ["valid", "invalid"] {
        for path in recordings(name).iter().filter(|p| is_current(p)) {
            fs::remove_file(path.with_extension("txt")).unwrap();
            fs::remove_file(path).unwrap();
        }
    }
    for guest in guest::all()
        .unwrap()
        .iter()
        .filter(|g| GUESTS.contains(&g.name.as_str()))
    {
        // Paths are in the file: not those of this machine.
        let program = Path::new("/tmp/memtrail-golden").join(&guest.name);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::copy(guest.built().unwrap(), &program).unwrap();
        let configuration = Configuration {
            probes: Probes::Loop,
            max_block: None,
        };
        let verify: &[&str] = if guest.name == DAMAGED { &["--verify"] } else { &[] };
        record(&program, &guest.args, configuration, verify, &valid(&guest.name)).unwrap();
    }
    let original = fs::read(valid(RECHUNKED)).unwrap();
    fs::write(valid("rechunked"), rechunked(original)).unwrap();
    let original = fs::read(valid(PATHS)).unwrap();
    fs::write(valid("paths"), with_paths(original)).unwrap();
    for path in recordings("valid").iter().filter(|p| is_current(p)) {
        fs::write(path.with_extension("txt"), reader::by_thread(&dump(path, &[]).unwrap())).unwrap();
    }
    let notes = dump(&valid(NOTED), &["--notes"]).unwrap();
    fs::write(valid(NOTED).with_extension("notes"), notes).unwrap();
    reader::make_invalid(&valid(DAMAGED), &directory("invalid"), &suffix()).unwrap();
    for path in recordings("invalid").iter().filter(|p| is_current(p)) {
        fs::write(path.with_extension("txt"), said_of(path)).unwrap();
    }
    fs::remove_dir_all("/tmp/memtrail-golden").unwrap();
}

/// The same recording with every stream cut into chunks of a few records.
fn rechunked(bytes: Vec<u8>) -> Vec<u8> {
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let Ending::Complete(totals) = known.ending else {
        panic!("the recording is not complete");
    };
    let mut writer = Writer::new(Vec::new(), reader.header()).unwrap();
    for (process, message) in &known.messages {
        writer.message(*process, message).unwrap();
    }
    writer.blocks(known.table.blocks()).unwrap();
    for chunk in &known.streams {
        let StreamHead { thread, process, .. } = chunk.head.stream;
        let mut begin = chunk.head.stream.begin;
        let mut decoder = ThreadDecoder::new(Thread(thread));
        let mut counter = Counter::new(&known.xsave);
        let all = words(&mut reader, &known, chunk).unwrap();
        let mut rest = all.as_slice();
        while !rest.is_empty() {
            let length = (0..RECORDS).fold(0, |at, _| at + rest.get(at).map_or(0, |&head| length(&known, head)));
            let (piece, more) = rest.split_at(length);
            rest = more;
            let (state, first) = (decoder.state(), counter.accesses());
            decoder.feed(&known.table, piece, &mut counter).unwrap();
            let (payload, raw_bytes) = compress(piece, state, begin, &known.leaves).unwrap();
            let head = StreamHead {
                thread,
                process,
                first,
                accesses: counter.accesses() - first,
                begin,
                end: begin + 1,
                words: piece.len() as u64,
            };
            begin = head.end;
            writer.stream(&head, raw_bytes, &payload).unwrap();
        }
    }
    writer.finish(&totals).unwrap().0
}

/// A path that calls a function and returns from it, and one that is a loop and jumps back and
/// forth.
fn paths() -> [Plan; 2] {
    let plain = |insn, kind, lin| PlannedAccess {
        insn,
        kind,
        shape: Shape::Plain {
            addr: Addr {
                lin,
                low32: false,
                segment: None,
            },
            size: 8,
        },
    };
    let rsp = |c: i64| Lin::slot(RSP).offset(c as u64);
    let piece = |insn, pc, via| Piece { insn, pc, via };
    let calls = Plan {
        pc: 0x40_1900,
        bytes: 26,
        insn_offsets: vec![0, 4, 9, 13, 14, 22],
        pieces: vec![piece(2, 0x40_1800, Via::Call), piece(4, 0x40_1909, Via::Return)],
        words: 3,
        derived: Vec::new(),
        accesses: vec![
            plain(0, Kind::Read, Lin::slot(FIRST)),
            plain(1, Kind::Write, rsp(-8)),
            plain(2, Kind::Write, Lin::slot(FIRST).offset(8)),
            plain(3, Kind::Read, rsp(-8)),
            plain(4, Kind::Read, rsp(-24)),
            plain(5, Kind::Prefetch, Lin::slot(FIRST + 1)),
        ],
        exit_rsp: rsp(0),
        looping: None,
        sides: vec![Side {
            insn: 3,
            rsp: rsp(0),
            moved: 0,
            words: 2,
        }],
    };
    let low = Derived {
        narrow: Narrow::ZERO8,
        of: Lin::slot(FIRST + 1),
    };
    let middle = Derived {
        narrow: Narrow {
            from: 4,
            bits: 9,
            signed: true,
        },
        of: Lin::slot(FIRST + 2),
    };
    let step = Step {
        slot: FIRST,
        by: 16,
        low32: false,
        plus: None,
        anew: false,
    };
    let renewed = Step {
        slot: FIRST + 2,
        by: 8,
        low32: false,
        plus: Some((FIRST + 1, 2)),
        anew: true,
    };
    let loops = Plan {
        pc: 0x60_0000,
        bytes: 9,
        insn_offsets: vec![0, 3, 6],
        pieces: vec![piece(1, 0x7000_0000_0000, Via::Jump), piece(2, 0x5f_fff0, Via::Jump)],
        words: 4,
        derived: vec![low, middle],
        accesses: vec![
            plain(0, Kind::Read, Lin::slot(FIRST)),
            plain(1, Kind::Write, Lin::slot(FIRST + 3).offset(0x1000)),
            plain(1, Kind::Read, Lin::slot(FIRST + 4).offset(0x2000)),
            plain(2, Kind::Read, Lin::slot(FIRST + 1)),
        ],
        exit_rsp: rsp(0),
        looping: Some(LoopPlan::Partly {
            steps: vec![step, renewed],
            free: vec![FIRST + 1],
        }),
        sides: vec![Side {
            insn: 1,
            rsp: rsp(0),
            moved: 0,
            words: 4,
        }],
    };
    [calls, loops]
}

/// The same recording of one thread with executions of paths at its end.
fn with_paths(bytes: Vec<u8>) -> Vec<u8> {
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let mut known = Known::read(&mut reader).unwrap();
    let Ending::Complete(totals) = known.ending else {
        panic!("the recording is not complete");
    };
    let [chunk] = known.streams.as_slice() else {
        panic!("the recording has several chunks");
    };
    let mut all = words(&mut reader, &known, chunk).unwrap();
    let mut head = chunk.head.stream;
    let blocks = known.table.blocks().iter();
    let id = blocks.map(|b| b.id + b.plan.ids()).max().unwrap();
    let [calls, loops] = paths();
    let next = id + calls.ids();
    // One is of the program; of the other, it is not known what it is of. And the program's first
    // block once more, with other code.
    let mut first = known.table.blocks()[0].definition();
    let of_program = Definition {
        id,
        sources: [7, 6].into(),
        images: [first.images[0]; 3].into(),
        code: Some([0x90; 26].into()),
        plan: calls,
    };
    first.id = next + loops.ids();
    first
        .code
        .iter_mut()
        .flat_map(|code| code.iter_mut())
        .for_each(|byte| *byte = !*byte);
    known.table.insert_definition(of_program).unwrap();
    known.table.insert_with(next, loops, [7, 6, 2].into()).unwrap();
    known.table.insert_definition(first).unwrap();
    for block in known.table.blocks().iter().filter(|b| b.id >= id) {
        known.leaves.add(block);
    }
    let (calls, loops) = (u64::from(id), u64::from(next));
    let (calls_left, steady, steady_left) = (calls + 1, loops + 2, loops + 3);
    all.extend([calls, 0x1_0000, 0]);
    all.extend([calls_left, 0x2_0000]);
    all.extend([loops, 0x3_0000, 0x1234, 0xfedc, steady, 0x2345, steady_left, 0x3456]);
    all.extend([calls, 0x4_0000, 0, CUT, 4, 0, 0, 0, 0, STATE, 0x7000, 0, 0]);
    let number = notes(&known, &all);
    all.extend([WAIT, number, 0x1000, 1, WOKEN, number + 1, 0x1000, 0]);
    all.extend([WAKE, number + 2, 0x2000, 1]);
    all.extend([GAP, number + 3, 5, 9, 2, NOT_KNOWN, 12, STATE, 0x7000, 0, 0]);
    // One value follows from the other, often enough to be worth telling.
    let mut value = 1u64;
    for _ in 0..200 {
        value = value.wrapping_mul(0x5_deec_e66d).wrapping_add(11) & 0xffff_fff8;
        all.extend([calls, value, 0x100 + 8 * value]);
    }
    let mut decoder = ThreadDecoder::new(Thread(head.thread));
    let mut counter = Counter::new(&known.xsave);
    decoder.feed(&known.table, &all, &mut counter).unwrap();
    // The last record is in no chunk's number.
    (head.accesses, head.words) = (counter.accesses(), all.len() as u64);
    decoder.finish(&known.table, &mut counter).unwrap();
    let mut totals = totals.with_counts(&counter.counts(&known.table));
    totals.ring_words = head.words;
    totals.gaps = 1;
    let mut writer = Writer::new(Vec::new(), reader.header()).unwrap();
    for (process, message) in &known.messages {
        writer.message(*process, message).unwrap();
    }
    writer.blocks(known.table.blocks()).unwrap();
    let (payload, raw_bytes) = compress(&all, State::default(), head.begin, &known.leaves).unwrap();
    writer.stream(&head, raw_bytes, &payload).unwrap();
    writer.finish(&totals).unwrap().0
}

/// How many notes there are.
fn notes(known: &Known, words: &[u64]) -> u64 {
    let (mut at, mut notes) = (0, 0);
    while at < words.len() {
        notes += u64::from(is_note(words[at]));
        at += length(known, words[at]);
    }
    notes
}

/// Words of the record with this head.
fn length(known: &Known, head: u64) -> usize {
    let block = known.table.find(head).map(|f| f.words);
    block.or(special_words(head)).expect("a record begins here")
}
