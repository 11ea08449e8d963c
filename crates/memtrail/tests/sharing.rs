//! `memtrail sharing`: traces whose counts follow from how they are made, and programs that share
//! truly, falsely and not at all.
mod common;

use common::{memtrail, stderr};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::{tempdir, TempDir};

const ROUNDS: u64 = 50;
const CACHE: &str = "L1=4K:64:8";

/// Makes a recording of two threads that write 8 bytes each in turn, at these addresses.
fn in_turn(dir: &TempDir, name: &str, addresses: [u64; 2]) {
    let mut text = String::new();
    for _ in 0..ROUNDS {
        for (thread, address) in addresses.iter().enumerate() {
            text.push_str(&format!("{thread} {:#x} W {address:#x} 8\n", 0x1000 + 16 * thread));
        }
    }
    fs::write(dir.path().join("trace"), text).unwrap();
    succeeds(dir, &["import", "--format", "text", "-f", "-o", name, "trace"]);
}

fn succeeds(dir: &TempDir, args: &[&str]) -> String {
    let output = memtrail(dir, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn json(dir: &TempDir, args: &[&str]) -> Value {
    let mut all = vec!["sharing", "--json"];
    all.extend(args);
    serde_json::from_str(&succeeds(dir, &all)).unwrap()
}

fn fits(text: &str) {
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest.unwrap_or(0) <= 120, "{text}");
}

#[test]
fn neighbours_in_a_line_are_shared_falsely() {
    let dir = tempdir().unwrap();
    in_turn(&dir, "a", [0x10000, 0x10008]);
    for protocol in ["mesi", "moesi"] {
        let found = json(&dir, &["--cache", CACHE, "--protocol", protocol, "a"]);
        // Every write but the first takes the line; each thread's first miss is a cold one.
        let [line] = &found["lines"].as_array().unwrap()[..] else {
            panic!("{found:#}")
        };
        assert_eq!(line["address"], 0x10000);
        assert_eq!(line["kind"], "false");
        assert_eq!(line["invalidations"], 2 * ROUNDS - 1);
        assert_eq!(line["coherence_misses"], 2 * ROUNDS - 2);
        assert_eq!(line["false_misses"], 2 * ROUNDS - 2);
        assert_eq!(line["transfers"], 2 * ROUNDS - 1);
        assert_eq!(line["upgrades"], 0);
        assert_eq!(line["threads"], serde_json::json!([0, 1]));
        assert_eq!(
            line["padded"],
            serde_json::json!({ "before": 2 * ROUNDS - 2, "after": 0 })
        );
        assert_eq!(found["coherence_misses"], 2 * ROUNDS - 2);
        assert_eq!(found["range"]["coherence_misses"][1], 2 * ROUNDS - 2);
        let users = line["users"].as_array().unwrap();
        let of = |user: &Value| {
            (
                user["thread"].as_u64(),
                user["offset"].as_u64(),
                user["writes"].as_u64(),
            )
        };
        let users: Vec<_> = users.iter().map(of).collect();
        // What is counted begins with the first access that takes the line.
        assert_eq!(
            users,
            [(Some(0), Some(0), Some(ROUNDS - 1)), (Some(1), Some(8), Some(ROUNDS))]
        );
    }
    // Stamps are not at every access: the recorded order is known less well.
    let found = json(&dir, &["--cache", CACHE, "--order", "time", "a"]);
    let misses = found["coherence_misses"].as_u64().unwrap();
    assert!((ROUNDS..=2 * ROUNDS - 2).contains(&misses), "{found:#}");
    assert_eq!(found["other_order"]["coherence_misses"], 2 * ROUNDS - 2);
    let text = succeeds(&dir, &["sharing", "--cache", CACHE, "a"]);
    assert!(text.starts_with("1 line is falsely shared.\n"), "{text}");
    fits(&text);
}

#[test]
fn one_counter_is_shared_truly() {
    let dir = tempdir().unwrap();
    in_turn(&dir, "a", [0x10000, 0x10000]);
    let found = json(&dir, &["--cache", CACHE, "a"]);
    let [line] = &found["lines"].as_array().unwrap()[..] else {
        panic!("{found:#}")
    };
    assert_eq!(line["kind"], "true");
    assert_eq!(line["true_misses"], 2 * ROUNDS - 2);
    assert_eq!(line["false_misses"], 0);
    assert_eq!(line["padded"], Value::Null);
    let text = succeeds(&dir, &["sharing", "--cache", CACHE, "a"]);
    assert!(
        text.starts_with("No line is falsely shared; 1 line is shared truly.\n"),
        "{text}"
    );
    fits(&text);
}

#[test]
fn what_does_not_share_may_share_elsewhere() {
    let dir = tempdir().unwrap();
    // Neighbouring lines, but in one line of 128 bytes, and in one of 64 that begins 32 bytes later.
    in_turn(&dir, "a", [0x10038, 0x10040]);
    let found = json(&dir, &["--cache", CACHE, "a"]);
    assert_eq!(found["lines"], serde_json::json!([]));
    assert_eq!(found["coherence_misses"], 0);
    let would = |which: &str| {
        let lines = found["would_share"][which].as_array().unwrap().iter();
        lines
            .map(|line| (line["address"].as_u64(), line["false_misses"].as_u64()))
            .collect::<Vec<_>>()
    };
    assert_eq!(would("wide"), [(Some(0x10000), Some(2 * ROUNDS - 2))]);
    assert_eq!(would("shifted"), [(Some(0x10020), Some(2 * ROUNDS - 2))]);
    let text = succeeds(&dir, &["sharing", "--cache", CACHE, "a"]);
    assert!(text.starts_with("No line is falsely shared"), "{text}");
    assert!(text.contains("with lines of 128 bytes it would be"), "{text}");
    // Two lines further on, nothing shares anywhere.
    in_turn(&dir, "b", [0x10000, 0x10100]);
    let text = succeeds(&dir, &["sharing", "--cache", CACHE, "b"]);
    assert!(!text.contains("it would be"), "{text}");
}

#[test]
fn threads_on_one_core_share_nothing() {
    let dir = tempdir().unwrap();
    in_turn(&dir, "a", [0x10000, 0x10008]);
    assert_eq!(
        json(&dir, &["--cache", CACHE, "--cores", "1", "a"])["coherence_misses"],
        0
    );
}

#[test]
fn what_cannot_be_kept_coherent_is_refused() {
    let dir = tempdir().unwrap();
    in_turn(&dir, "a", [0x10000, 0x10008]);
    let refused = |args: &[&str], message: &str| {
        let output = memtrail(&dir, &[&["sharing", "a"], args].concat());
        assert_eq!(output.status.code(), Some(125), "{args:?}");
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    };
    refused(&["--cache", "L1=4K:64:8", "--cores", "500"], "500 cores");
    refused(&["--cache", "L1=8K:256:8"], "lines of 256 bytes");
    refused(
        &["--cache", "L1=4K:32:8", "--cache", "L2=64K:64:8"],
        "lines of one size",
    );
}

/// Builds and records a guest.
fn recorded(dir: &TempDir, mode: &str) {
    let program = dir.path().join("shares");
    if !program.exists() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/shares.c");
        let built = Command::new("cc")
            .args(["-O1", "-g", "-pthread", "-o"])
            .arg(&program)
            .arg(source)
            .status();
        assert!(built.unwrap().success());
    }
    succeeds(dir, &["record", "-f", "-o", mode, "--", "./shares", mode]);
}

#[test]
fn programs_that_share_falsely_truly_and_not_at_all() {
    let dir = tempdir().unwrap();
    let times = 20_000;
    for (mode, object, kind) in [("f", "neighbours", "false"), ("t", "together", "true")] {
        recorded(&dir, mode);
        let found = json(&dir, &["--preset", "generic", mode]);
        let [line] = &found["lines"].as_array().unwrap()[..] else {
            panic!("{found:#}")
        };
        assert_eq!(
            (line["object"].as_str(), line["kind"].as_str()),
            (Some(object), Some(kind))
        );
        // Side by side each takes the line from the other, but while one is made, or has ended.
        let misses = line["coherence_misses"].as_u64().unwrap();
        assert!((times..=2 * times).contains(&misses), "{line:#}");
        assert_eq!(line["threads"], serde_json::json!([1, 2]));
    }
    let found = json(&dir, &["--preset", "generic", "f"]);
    let line = &found["lines"][0];
    let users = line["users"].as_array().unwrap().iter();
    let members: Vec<&str> = users.clone().filter_map(|user| user["member"].as_str()).collect();
    assert_eq!(members, ["neighbours.left", "neighbours.right"]);
    for user in users {
        assert_eq!(user["function"], "work");
        assert!(
            user["file"].as_str().is_some_and(|file| file.ends_with("shares.c")),
            "{user:#}"
        );
        assert_eq!(user["line"], 31);
    }
    assert_eq!(line["padded"]["after"], 0);
    fits(&succeeds(&dir, &["sharing", "--preset", "generic", "f"]));
    recorded(&dir, "n");
    let found = json(&dir, &["--preset", "generic", "n"]);
    assert_eq!(found["lines"], serde_json::json!([]), "{found:#}");
    let text = succeeds(&dir, &["sharing", "--preset", "generic", "n"]);
    assert!(text.starts_with("No line is falsely shared, and none is handed to and fro between threads.\n"));
}
