//! Golden files: recordings of known accesses, and damaged ones with what is said of them. See `golden/README.md`.

use memtrail_collect::{Counter, ThreadDecoder};
use memtrail_model::Thread;
use memtrail_ring::record::special_words;
use memtrail_tests::run::{dump, record, transcript, Configuration, Probes};
use memtrail_tests::{guest, reader};
use memtrail_trace::{compress, words, Ending, Known, Reader, StreamHead, Writer, VERSION};
use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

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
    "cut",
    "enter",
    "forked",
    "free",
    "leave",
    "left",
    "loop",
    "mapped",
    "name",
    "on expected",
    "partly affine loop",
    "processes",
    "realloc",
    "relation",
    "remapped",
    "residual of the last",
    "residual of the least",
    "several chunks of a thread",
    "signal",
    "sigreturn",
    "threads",
    "unmapped",
    "verify",
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
            let refusal = format!("this memtrail reads format {VERSION}");
            let (said, printed) = transcript(&["dump"], &path).unwrap();
            assert!(
                said.contains(&refusal) && printed.is_empty(),
                "{}: {said}",
                path.display()
            );
        }
    }
    assert_eq!(read, GUESTS.len() + 1);
}

#[test]
fn the_independent_readers_agree_and_meet_everything() {
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

/// Makes the files of this version anew.
#[test]
#[ignore = "changes the golden files"]
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
    writer.blocks(known.table.blocks()).unwrap();
    for (process, message) in &known.messages {
        writer.message(*process, message).unwrap();
    }
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

/// Words of the record with this head.
fn length(known: &Known, head: u64) -> usize {
    let block = known.table.find(head).map(|f| f.words);
    block.or(special_words(head)).expect("a record begins here")
}
