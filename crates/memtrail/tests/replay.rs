//! Replay as users meet it: parts of a recording, orders, hashes, descriptors, deep checks.
mod common;

use common::{memtrail, stderr};
use std::fs;
use tempfile::{tempdir, TempDir};

fn lines(dir: &TempDir, args: &[&str]) -> Vec<String> {
    let output = memtrail(dir, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(String::from)
        .collect()
}

fn refused(dir: &TempDir, args: &[&str], message: &str) {
    let output = memtrail(dir, args);
    assert_eq!(output.status.code(), Some(125), "{args:?}");
    assert!(stderr(&output).contains(message), "{}", stderr(&output));
}

#[test]
fn parts_of_a_thread_are_parts_of_its_dump() {
    let dir = tempdir().unwrap();
    lines(&dir, &["record", "-o", "a", "--", "true"]);
    let all = lines(&dir, &["dump", "a"]);
    assert!(all.len() > 2000, "{}", all.len());
    for (from, to) in [(0, 10), (777, 1555), (all.len() - 3, all.len() + 5)] {
        let (f, t) = (from.to_string(), to.to_string());
        let part = lines(&dir, &["dump", "--from", &f, "--to", &t, "a"]);
        assert_eq!(part, all[from..to.min(all.len())]);
    }
    let part = lines(&dir, &["dump", "--thread", "0", "--from", "1000", "--limit", "7", "a"]);
    assert_eq!(part, all[1000..1007]);
    // Everything happened in the first hour, nothing after it.
    assert_eq!(lines(&dir, &["dump", "--to", "3600s", "a"]), all);
    assert_eq!(lines(&dir, &["dump", "--from", "3600s", "a"]), [""; 0]);
    // Two parts by time are the whole.
    for at in ["1us", "200us", "0.5ms"] {
        let before = lines(&dir, &["dump", "--to", at, "a"]);
        let after = lines(&dir, &["dump", "--from", at, "a"]);
        assert_eq!([before, after].concat(), all, "{at}");
    }
    refused(
        &dir,
        &["dump", "--from", "1h", "a"],
        "neither an access number nor a time",
    );
}

#[test]
fn several_threads_are_put_in_one_order() {
    let dir = tempdir().unwrap();
    lines(&dir, &["record", "-o", "a", "--", "sh", "-c", "/bin/true; /bin/true"]);
    let all = lines(&dir, &["dump", "a"]);
    let equal = lines(&dir, &["dump", "--order", "equal", "a"]);
    assert_eq!(all.len(), equal.len());
    assert_eq!(equal[..6].iter().map(|l| &l[..1]).collect::<String>(), "012012");
    let mut sum = 0;
    for thread in ["0", "1", "2"] {
        let alone = lines(&dir, &["dump", "--thread", thread, "a"]);
        let of = |all: &[String]| {
            all.iter()
                .filter(|l| l.starts_with(thread))
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&all), alone);
        assert_eq!(of(&equal), alone);
        sum += alone.len();
    }
    assert_eq!(sum, all.len());
    // The shell starts its children one after the other. How their ends lie among its last accesses
    // is known only to within the time that passed between two stamps.
    let first = |t: &str| all.iter().position(|l| l.starts_with(t)).unwrap();
    assert!(first("0") < first("1") && first("1") < first("2"));
    refused(&dir, &["dump", "--from", "5", "a"], "--thread T");
    assert_eq!(lines(&dir, &["dump", "--limit", "50", "a"]), all[..50]);
    // Whatever the order, the hash is the same.
    assert_eq!(
        lines(&dir, &["dump", "--hash", "a"]),
        lines(&dir, &["dump", "--hash", "--order", "equal", "a"])
    );
}

#[test]
fn recordings_are_verified() {
    let dir = tempdir().unwrap();
    let run = ["--no-aslr", "--", "sh", "-c", "exec true"];
    lines(&dir, &[&["record", "--verify", "-o", "a"], &run[..]].concat());
    lines(&dir, &[&["record", "--probes", "naive", "-o", "b"], &run[..]].concat());
    let deep = lines(&dir, &["check", "--deep", "a"]).join("\n");
    assert!(deep.contains("the hashes agree"), "{deep}");
    let deep = lines(&dir, &["check", "--deep", "b"]).join("\n");
    assert!(!deep.contains("hashes") && deep.contains("accesses, states"), "{deep}");
    let hash = lines(&dir, &["dump", "--hash", "a"]);
    assert_eq!(hash.len(), 2);
    assert!(hash[0].starts_with("0 ") && hash[1].starts_with("all "));
    // Another hash in the file, and all checksums right.
    let mut bytes = fs::read(dir.path().join("a")).unwrap();
    let word = hash[0].rsplit(' ').next().unwrap().as_bytes();
    let at = bytes.windows(word.len()).rposition(|w| w == word).unwrap() + word.len() - 1;
    bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
    let end = bytes.windows(4).rposition(|w| w == b"MTRK").unwrap();
    let footer = bytes.len() - 16;
    let crc = crc32(&bytes[end + 72..footer]);
    bytes[end + 64..end + 68].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32(&bytes[end..end + 68]);
    bytes[end + 68..end + 72].copy_from_slice(&crc.to_le_bytes());
    fs::write(dir.path().join("c"), bytes).unwrap();
    lines(&dir, &["check", "c"]);
    refused(
        &dir,
        &["check", "--deep", "c"],
        "thread 0 are not those that were recorded",
    );
}

/// As in zlib.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |mut crc, &byte| {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
        crc
    })
}

#[test]
fn descriptors_and_trees_are_printed() {
    let dir = tempdir().unwrap();
    lines(&dir, &["record", "-o", "a", "--", "true"]);
    let tuples = lines(&dir, &["dump", "--descriptors", "a"]);
    assert!(
        tuples[0].starts_with("thread 0, process 0, accesses 0 to "),
        "{}",
        tuples[0]
    );
    assert!(tuples[1].starts_with("source 0: 0x"), "{}", tuples[1]);
    let some = lines(&dir, &["dump", "--descriptors", "--limit", "9", "a"]);
    assert_eq!(some, tuples[..some.len()]);
    assert_eq!(some.iter().filter(|l| l.contains('<')).count(), 9);
    let tree = lines(&dir, &["dump", "--tree", "a"]);
    assert!(tree.iter().any(|l| l.starts_with("  loop ")), "no loop");
    assert!(
        tree.iter().any(|l| l.contains("ld-linux") && l.contains(": r")),
        "no block"
    );
    assert_eq!(lines(&dir, &["dump", "--tree", "--limit", "4", "a"]), tree[..4]);
    refused(&dir, &["dump", "--tree", "--from", "4", "a"], "cannot be used with");
}

/// Twenty rows of thirty reads: all but the last row are a nest. How the last record ended is known
/// only at the end, so it stands alone.
#[test]
fn a_nest_is_printed_as_the_papers_tuples() {
    let dir = tempdir().unwrap();
    let read = |i: u64, j: u64| format!("0 0x1000 R {:#x} 8\n", 0x10000 + i * 0x1000 + j * 8);
    let text: String = (0..20).flat_map(|i| (0..30).map(move |j| read(i, j))).collect();
    std::fs::write(dir.path().join("nest.txt"), text).unwrap();
    lines(&dir, &["import", "-o", "a", "nest.txt"]);
    assert_eq!(
        lines(&dir, &["dump", "--descriptors", "a"])[2..],
        [
            "PRSD <0x10000, 4096, 0, 30, 19, RSD <0x10000, 30, 8, READ, 0, 1, 0>>",
            "RSD <0x23000, 29, 8, READ, 570, 1, 0>",
            "IAD <0x230e8, READ, 599, 0>",
        ]
    );
}

/// Standard output and status of `memtrail replay --to`.
fn piped(dir: &TempDir, to: &str, args: &[&str]) -> (Vec<u8>, Option<i32>) {
    let output = memtrail(dir, &[&["replay", "--to", to], args].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.is_empty() || stderr.contains("several threads"), "{stderr}");
    (output.stdout, output.status.code())
}

#[test]
fn a_recording_is_piped_into_a_command() {
    let dir = tempdir().unwrap();
    lines(&dir, &["record", "-o", "a", "--", "true"]);
    let dump = memtrail(&dir, &["dump", "a"]).stdout;
    assert_eq!(piped(&dir, "cat", &["a"]), (dump.clone(), Some(0)));
    for format in [&["text"][..], &["raw"], &["lackey"], &["din"], &["din", "--fetches"]] {
        let exported = memtrail(&dir, &[&["export", "a", "--format"], format].concat()).stdout;
        let (replayed, status) = piped(&dir, "cat", &[&["a", "--format"], format].concat());
        assert_eq!(status, Some(0));
        assert!(!exported.is_empty() && replayed == exported, "{format:?}");
    }
    // Shell words, and a part.
    let all: Vec<&[u8]> = dump.split_inclusive(|&b| b == b'\n').collect();
    let part = ["--thread", "0", "--begin", "1000", "--end", "1010", "a"];
    assert_eq!(piped(&dir, "cat", &part).0, all[1000..1010].concat());
    let (counted, status) = piped(&dir, "tail -n +3 | wc -l", &part);
    assert_eq!((String::from_utf8_lossy(&counted).trim(), status), ("8", Some(0)));
    assert_eq!(piped(&dir, "cat", &["--limit", "7", "a"]).0, all[..7].concat());
    assert_eq!(piped(&dir, "cat", &["--begin", "3600s", "a"]), (vec![], Some(0)));
}

#[test]
fn parts_with_instructions_are_cut_at_accesses() {
    let dir = tempdir().unwrap();
    lines(&dir, &["record", "-o", "a", "--", "true"]);
    let whole = piped(&dir, "cat", &["--format", "din", "--fetches", "a"]).0;
    let whole: Vec<&[u8]> = whole.split_inclusive(|&b| b == b'\n').collect();
    let accesses: Vec<usize> = (0..whole.len()).filter(|&i| !whole[i].starts_with(b"2 ")).collect();
    let mut at = 0;
    for (begin, end) in [(0, 1), (1, 500), (500, 777), (777, 1000)] {
        let (b, e) = (begin.to_string(), end.to_string());
        let part = piped(
            &dir,
            "cat",
            &["--format", "din", "--fetches", "--begin", &b, "--end", &e, "a"],
        )
        .0;
        let next = accesses[end - 1] + 1;
        assert_eq!(part, whole[at..next].concat(), "{begin} to {end}");
        at = next;
    }
    let empty = piped(&dir, "cat", &["--format", "lackey", "--begin", "9", "--end", "9", "a"]);
    assert_eq!(empty, (vec![], Some(0)));
    let times = ["replay", "--to", "cat", "--format", "lackey", "--begin", "1ms", "a"];
    refused(&dir, &times, "cut at access numbers only");
}

#[test]
fn the_status_of_the_command_is_passed_on() {
    let dir = tempdir().unwrap();
    lines(
        &dir,
        &[
            "record",
            "-o",
            "a",
            "--",
            "sh",
            "-c",
            "i=0; while [ $i -lt 100 ]; do i=$((i+1)); done",
        ],
    );
    assert_eq!(piped(&dir, "cat > /dev/null; exit 7", &["a"]), (vec![], Some(7)));
    assert_eq!(piped(&dir, "kill -9 $$", &["a"]).1, Some(137));
    assert_eq!(piped(&dir, "no-such-command 2> /dev/null", &["a"]).1, Some(127));
    // One that stops reading is waited for.
    let (out, status) = piped(
        &dir,
        "head -n 1 > /dev/null; exec < /dev/null; sleep 0.3; echo over; exit 3",
        &["a"],
    );
    assert_eq!((out.as_slice(), status), (&b"over\n"[..], Some(3)));
    for format in ["text", "lackey"] {
        let (out, status) = piped(&dir, "head -n 2", &["--format", format, "a"]);
        assert_eq!((out.iter().filter(|&&b| b == b'\n').count(), status), (2, Some(0)));
    }
}

#[test]
fn what_cannot_be_piped_is_refused() {
    let dir = tempdir().unwrap();
    lines(&dir, &["record", "-o", "a", "--", "sh", "-c", "(exit 1); exit 0"]);
    let replay = |args: &[&str], message: &str| refused(&dir, &[&["replay", "--to", "cat"], args].concat(), message);
    replay(&["--format", "drmemtrace", "a"], "a file for each thread");
    replay(&["--format", "lackey", "--fetches", "a"], "--fetches is for din");
    replay(&["--thread", "9", "a"], "there is no thread 9");
    replay(&["--begin", "5", "a"], "--thread T");
    replay(&["no-such-file"], "no-such-file");
    refused(&dir, &["replay", "a"], "--to");
}
