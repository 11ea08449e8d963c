//! `sim` as users meet it: exact output on small traces whose counts can be worked out by hand,
//! options, and what can be wrong.
mod common;

use common::{memtrail, stderr};
use serde_json::{json, Value};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use tempfile::{tempdir, TempDir};

/// Runs memtrail, which must succeed; returns what it printed.
fn ok(dir: &TempDir, args: &[&str]) -> String {
    let output = memtrail(dir, args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn json(dir: &TempDir, args: &[&str]) -> Value {
    serde_json::from_str(&ok(dir, args)).unwrap()
}

/// Runs memtrail, which must fail with exactly this message.
fn fails(dir: &TempDir, args: &[&str], message: &str) {
    let output = memtrail(dir, args);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert_eq!(stderr(&output), format!("memtrail: {message}\n"));
    assert!(output.stdout.is_empty());
}

/// Makes a recording `t.mtr` of these lines: thread, instruction, kind, address, size.
fn recording(lines: &str) -> TempDir {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("t.txt"), lines).unwrap();
    ok(&dir, &["import", "--format", "text", "-o", "t.mtr", "t.txt"]);
    dir
}

/// With four lines of 32 bytes, direct-mapped: the first misses; a new word, and the same again; a
/// write that takes its place, dirty; and back.
const FIVE: &str = "\
0 0x401000 R 0x1000 8
0 0x401000 R 0x1008 8
0 0x401000 R 0x1008 8
0 0x401004 W 0x1080 8
0 0x401000 R 0x1000 8
";
const SMALL: [&str; 2] = ["--cache", "L1=128:32:1"];

#[test]
fn the_report_is_exact() {
    let dir = recording(FIVE);
    let args = [&["sim", "--classes", "--evictors", "--wide"], &SMALL[..], &["t.mtr"]].concat();
    let expected = "\
L1: 128 in lines of 32 bytes, direct-mapped, lru
  reads      = 4          temporal hits  = 1
  writes     = 1          spatial hits   = 1
  hits       = 2          temporal ratio = 0.50000
  misses     = 3          spatial ratio  = 0.50000
  miss ratio = 0.60000    spatial use    = 0.37500
  evictions  = 2          write-backs    = 1
  compulsory = 2          capacity       = 0
  conflict   = 1

reference  kind   hits  misses  miss ratio  temporal  spatial use  evictions  compulsory  capacity  conflict
0x401000   read      2       2     0.50000   0.50000      0.50000          1           1         0         1
0x401004   write     0       1     1.00000   no hits      0.25000          1           1         0         0

reference  kind   evicted by  kind   count  percent
0x401000   read   0x401004    write      1   100.00
0x401004   write  0x401000    read       1   100.00
";
    assert_eq!(ok(&dir, &args), expected);
    let output = memtrail(&dir, &args);
    assert_eq!(
        stderr(&output),
        "memtrail: next: memtrail objects --cache L1=128:32:1 t.mtr\n"
    );
    let output = memtrail(&dir, &[&["sim"], &SMALL[..], &["t.mtr"]].concat());
    assert_eq!(
        stderr(&output),
        "memtrail: next: memtrail refs --cache L1=128:32:1 t.mtr\n"
    );
}

#[test]
fn json_says_the_same() {
    let dir = recording(FIVE);
    let args = [&["sim", "--json", "--classes", "--evictors"], &SMALL[..], &["t.mtr"]].concat();
    let first = json!({
        "accesses": 4, "hits": 2, "misses": 2, "miss_ratio": 0.5, "temporal_hits": 1, "spatial_hits": 1, "temporal_ratio": 0.5,
        "spatial_ratio": 0.5, "spatial_use": 0.5, "used_bytes": 16, "evictions": 1, "writebacks": 0, "prefetch_hits": 0,
        "classes": {"compulsory": 1, "capacity": 0, "conflict": 1},
    });
    let second = json!({
        "accesses": 1, "hits": 0, "misses": 1, "miss_ratio": 1.0, "temporal_hits": 0, "spatial_hits": 0, "temporal_ratio": null,
        "spatial_ratio": null, "spatial_use": 0.25, "used_bytes": 8, "evictions": 1, "writebacks": 1, "prefetch_hits": 0,
        "classes": {"compulsory": 1, "capacity": 0, "conflict": 0},
    });
    let reference = |id: u64, pc: u64, kind: &str, counts: &Value| {
        let mut value = counts.clone();
        value["id"] = id.into();
        value["name"] = format!("{pc:#x}").into();
        value["pc"] = pc.into();
        value["module"] = Value::Null;
        value["offset"] = Value::Null;
        value["kind"] = kind.into();
        value["levels"] = json!({ "L1": counts });
        value
    };
    let evictor = |owner: u64, evictor: u64, name: &str, kind: &str| {
        json!({"level": "L1", "owner": owner, "evictor": evictor, "evictor_name": name, "evictor_kind": kind, "count": 1,
            "percent": 100.0})
    };
    let expected = json!({
        "schema_version": 1,
        "command": [],
        "file": "t.mtr",
        "config": {
            "source": "--cache", "cores": null, "seed": 0,
            "levels": [{
                "name": "L1", "size": 128, "line": 32, "ways": 1, "sets": 4, "policy": "lru", "holds": "data", "write": "back",
                "allocate": true, "inclusion": "none", "shared": 1, "prefetch": "none",
            }],
        },
        "accesses": 5,
        "charge": "owner",
        "skipped": 0,
        "levels": [{
            "name": "L1", "caches": 1, "accesses": 5, "hits": 2, "misses": 3, "miss_ratio": 0.6, "reads": 4, "read_misses": 2,
            "writes": 1, "write_misses": 1, "fetches": 0, "fetch_misses": 0, "prefetches": 0, "prefetch_misses": 0,
            "temporal_hits": 1, "spatial_hits": 1, "temporal_ratio": 0.5, "spatial_ratio": 0.5, "spatial_use": 0.375,
            "used_bytes": 24, "evictions": 2, "prefetch_hits": 0, "writebacks": 1, "writebacks_received": 0, "invalidations": 0,
            "classes": {"compulsory": 2, "capacity": 0, "conflict": 1},
        }],
        "refs": [reference(0, 0x401000, "read", &first), reference(1, 0x401004, "write", &second)],
        "charge": "owner",
        "evictors": [evictor(0, 1, "0x401004", "write"), evictor(1, 0, "0x401000", "read")],
    });
    let mut found = json(&dir, &args);
    found["command"] = json!([]);
    assert_eq!(found, expected);
}

#[test]
fn several_levels_get_a_column_each() {
    let dir = recording(FIVE);
    let text = ok(
        &dir,
        &[
            "sim",
            "--cache",
            "L1=128:32:1",
            "--cache",
            "L2=256:32:2",
            "--cache",
            "L3=512:64:2",
            "t.mtr",
        ],
    );
    let table: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("reference")).collect();
    let expected = [
        "reference  kind   hits  misses  miss ratio  temporal  spatial use  evictions  L2 misses  L3 misses",
        "0x401000   read      2       2     0.50000   0.50000      0.50000          1          1          1",
        "0x401004   write     0       1     1.00000   no hits      0.25000          1          1          1",
    ];
    assert_eq!(table, expected);
    let text = ok(
        &dir,
        &[
            "sim",
            "--cache",
            "L1=128:32:1",
            "--cache",
            "L2=256:32:2",
            "--level",
            "L2",
            "t.mtr",
        ],
    );
    let table: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("reference")).collect();
    let expected = [
        "reference  kind   hits  misses  miss ratio  temporal  spatial use  evictions",
        "0x401000   read      1       1     0.50000   1.00000    no evicts          0",
        "0x401004   write     0       1     1.00000   no hits    no evicts          0",
    ];
    assert_eq!(table, expected);
    let args = ["sim", "--cache", "L1=128:32:1", "--level", "L9", "t.mtr"];
    fails(&dir, &args, "--level L9: there are L1");
}

/// Five fetches of two instructions in one line. The trace does not tell their lengths, so that
/// each touches one byte.
#[test]
fn fetches_meet_the_levels_that_hold_instructions() {
    let dir = recording(FIVE);
    let caches = [
        "--cache",
        "D=128:32:1:data",
        "--cache",
        "I=64:32:1:instructions",
        "--cache",
        "L2=1K:32:2",
    ];
    let text = ok(&dir, &[&["sim", "--instructions"], &caches[..], &["t.mtr"]].concat());
    let expected = "\
I: 64 in lines of 32 bytes, direct-mapped, lru, instructions
  fetches    = 5          temporal hits  = 3
  hits       = 4          spatial hits   = 1
  misses     = 1          temporal ratio = 0.75000
  miss ratio = 0.20000    spatial ratio  = 0.25000
  evictions  = 0          spatial use    = no evicts

L2: 1K in lines of 32 bytes, 2 ways, lru
  reads          = 3          temporal hits  = 1
  writes         = 0          spatial hits   = 0
  fetches        = 1          temporal ratio = 1.00000
  hits           = 1          spatial ratio  = 0.00000
  misses         = 3          spatial use    = no evicts
  miss ratio     = 0.75000    evictions      = 0
  write-backs in = 1

reference  kind   hits  misses  miss ratio  temporal  spatial use  evictions  L2 misses
0x401000   read      2       2     0.50000   0.50000      0.50000          1          1
0x401000   fetch     3       1     0.25000   1.00000    no evicts          0          1
0x401004   write     0       1     1.00000   no hits      0.25000          1          1
0x401004   fetch     1       0     0.00000   0.00000    no evicts          0          0
";
    let from = text.find("I: 64").unwrap();
    assert_eq!(&text[from..], expected);
    let found = json(
        &dir,
        &[&["sim", "--instructions", "--json"], &caches[..], &["t.mtr"]].concat(),
    );
    assert_eq!(found["accesses"], 5);
    let found = json(&dir, &[&["sim", "--json"], &caches[..], &["t.mtr"]].concat());
    let names: Vec<&Value> = found["levels"].as_array().unwrap().iter().map(|l| &l["name"]).collect();
    assert_eq!(names, ["D", "L2"]);
}

/// Loops whose iterations repeat each other, with and without using that.
#[test]
fn skipping_changes_nothing() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/valid");
    let dir = tempdir().unwrap();
    let mut left = vec![
        "loop_nested.",
        "loop_trip_counts.",
        "string_backward.",
        "threads_raw_clone.",
    ];
    for entry in fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        let file = path.to_str().unwrap();
        let found = left
            .iter()
            .position(|name| file.ends_with(".mtr") && file.contains(name));
        let Some(found) = found else { continue };
        left.remove(found);
        let args = [
            "sim",
            "--json",
            "--cache",
            "L1=1K:32:2",
            "--cache",
            "L2=4K:32:4",
            "--evictors",
            "--classes",
            file,
        ];
        assert_eq!(
            ok(&dir, &args),
            ok(&dir, &[&args[..], &["--no-skip"]].concat()),
            "{file}"
        );
    }
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn parts_of_a_recording_can_be_picked() {
    let dir = recording(FIVE);
    let accesses = |more: &[&str]| {
        let found = json(&dir, &[&["sim", "--json"], &SMALL[..], more, &["t.mtr"]].concat());
        (
            found["accesses"].as_u64().unwrap(),
            found["levels"][0]["misses"].as_u64().unwrap(),
        )
    };
    assert_eq!(accesses(&[]), (5, 3));
    assert_eq!(accesses(&["--limit", "4"]), (4, 2));
    assert_eq!(accesses(&["--from", "3"]), (2, 2));
    assert_eq!(accesses(&["--from", "1", "--to", "3"]), (2, 1));
    assert_eq!(accesses(&["--pc", "0x401000-0x401001"]), (4, 1));
    assert_eq!(accesses(&["--pc", "0x401000-0x401001", "--limit", "2"]), (2, 1));
    assert_eq!(
        accesses(&["--pc", "0x401000-0x401001", "--pc", "401004-401008"]),
        (5, 3)
    );
    let args = [&["sim"], &SMALL[..], &["--pc", "0x1-0x2", "t.mtr"]].concat();
    fails(&dir, &args, "t.mtr: no access was simulated");
    let args = [&["sim"], &SMALL[..], &["--thread", "7", "t.mtr"]].concat();
    fails(&dir, &args, "t.mtr: no access was simulated");
}

#[test]
fn the_table_is_sorted_and_cut_as_told() {
    let dir = recording(FIVE);
    let first = |more: &[&str]| {
        let text = ok(&dir, &[&["sim"], &SMALL[..], more, &["--top", "1", "t.mtr"]].concat());
        let table: Vec<String> = text
            .lines()
            .skip_while(|l| !l.starts_with("reference"))
            .map(String::from)
            .collect();
        assert_eq!(table.len(), 3);
        (table[1][..8].to_string(), table[2].clone())
    };
    let rest = |misses| format!("and 1 more with {misses} misses (--top N)");
    assert_eq!(first(&[]), ("0x401000".to_string(), rest(1)));
    assert_eq!(first(&["--sort", "miss-ratio"]), ("0x401004".to_string(), rest(2)));
    let found = json(
        &dir,
        &[&["sim", "--json", "--top", "1"], &SMALL[..], &["t.mtr"]].concat(),
    );
    assert_eq!(found["refs"].as_array().unwrap().len(), 1);
    assert_eq!(found.get("evictors"), None);
    assert_eq!(found["levels"][0].get("classes"), None);
}

#[test]
fn threads_have_caches_of_their_own_unless_they_share_cores() {
    let dir = recording("0 0x10 R 0x1000 8\n1 0x10 R 0x1000 8\n2 0x10 R 0x1000 8\n");
    let found = |more: &[&str]| {
        let found = json(&dir, &[&["sim", "--json"], more, &["t.mtr"]].concat());
        (
            found["levels"][0]["caches"].as_u64().unwrap(),
            found["levels"][0]["misses"].as_u64().unwrap(),
        )
    };
    assert_eq!(found(&["--cache", "L1=128:32:1"]), (3, 3));
    assert_eq!(found(&["--cache", "L1=128:32:1", "--cores", "2"]), (2, 2));
    assert_eq!(found(&["--cache", "L1=128:32:1:shared"]), (1, 1));
    assert_eq!(found(&["--cache", "L1=128:32:1:shared=2"]), (2, 2));
}

#[test]
fn configurations_come_from_files_and_presets() {
    let dir = recording(FIVE);
    fs::write(
        dir.path().join("c.toml"),
        "seed = 3\n[[level]]\nname = \"X\"\nsize = 128\nline = 32\nways = 1\n",
    )
    .unwrap();
    let found = json(&dir, &["sim", "--json", "--config", "c.toml", "t.mtr"]);
    assert_eq!(found["config"]["source"], "c.toml");
    assert_eq!(found["config"]["seed"], 3);
    assert_eq!(
        (&found["levels"][0]["name"], &found["levels"][0]["misses"]),
        (&json!("X"), &json!(3))
    );
    let found = json(
        &dir,
        &[
            "sim", "--json", "--config", "c.toml", "--seed", "9", "--cores", "2", "t.mtr",
        ],
    );
    assert_eq!(
        (&found["config"]["seed"], &found["config"]["cores"]),
        (&json!(9), &json!(2))
    );
    let found = json(&dir, &["sim", "--json", "--preset", "zen3", "t.mtr"]);
    let names: Vec<&Value> = found["levels"].as_array().unwrap().iter().map(|l| &l["name"]).collect();
    assert_eq!(names, ["L1D", "L2", "L3"]);
    assert!(ok(&dir, &["sim", "--preset", "list"]).contains("a64fx"));
}

#[test]
fn bad_configurations_are_named() {
    let dir = recording(FIVE);
    let with = |option: &str, value: &str, message: &str| fails(&dir, &["sim", option, value, "t.mtr"], message);
    with(
        "--cache",
        "L1=32K:64:0",
        "--cache: L1: ways = 0: a set has at least one way",
    );
    with(
        "--cache",
        "L1=32:64:1",
        "--cache: L1: size = 32: less than a line of 64 bytes",
    );
    with("--cache", "L1=32K:64:8:instructions", "--cache: no level holds data");
    with(
        "--preset",
        "pentium",
        "there is no preset pentium; memtrail sim --preset list names them",
    );
    with(
        "--config",
        "none.toml",
        "none.toml: No such file or directory (os error 2)",
    );
    fs::write(
        dir.path().join("c.toml"),
        "[[level]]\nname = \"L1\"\nsize = \"32K\"\nasoc = 8\n",
    )
    .unwrap();
    let known = "name, size, line, ways, policy, holds, write, allocate, inclusion, shared, prefetch";
    with(
        "--config",
        "c.toml",
        &format!("c.toml: line 4: unknown field asoc; there are {known}"),
    );
    let args = ["sim", "--instructions", "--cache", "L1=32K:64:8:data", "t.mtr"];
    fails(&dir, &args, "--instructions: no level holds instructions");
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let dir = recording(FIVE);
    fails(
        &dir,
        &["sim", "t.mtr", "--", "true"],
        "a command is simulated with --live",
    );
    for args in [
        &["sim"][..],
        &["sim", "--preset", "host"],
        &["sim", "--cache", "L1=1K", "--preset", "zen2", "t.mtr"],
        &["sim", "--cache", "L1=1K", "--config", "c.toml", "t.mtr"],
        &["sim", "--pc", "5", "t.mtr"],
        &["sim", "--live", "t.mtr"],
        &["sim", "--cores", "0", "t.mtr"],
    ] {
        let output = memtrail(&dir, args);
        assert_eq!(output.status.code(), Some(125), "{args:?}");
    }
}

/// Lines 0x1000 and 0x1080 of 32 bytes: in one set of 4 or 2 sets of one way, in two ways of one
/// set.
#[test]
fn many_caches_are_swept_at_once() {
    let dir = recording(FIVE);
    let text = ok(
        &dir,
        &[
            "sim",
            "--sweep",
            "size=64,128,line=32,ways=1,2,policy=lru,fifo",
            "t.mtr",
        ],
    );
    let expected = "\
size  line  ways  policy  misses  miss ratio  read misses  write misses
  64    32     1  lru          3     0.60000            2             1
  64    32     1  fifo         3     0.60000            2             1
  64    32     2  lru          2     0.40000            1             1
  64    32     2  fifo         2     0.40000            1             1
 128    32     1  lru          3     0.60000            2             1
 128    32     1  fifo         3     0.60000            2             1
 128    32     2  lru          2     0.40000            1             1
 128    32     2  fifo         2     0.40000            1             1
";
    assert_eq!(text, expected);
    let found = json(
        &dir,
        &[
            "sim",
            "--json",
            "--sweep",
            "size=64,line=32,ways=2",
            "--sweep",
            "metasim26",
            "t.mtr",
        ],
    );
    let sweep = found["sweep"].as_array().unwrap();
    assert_eq!(sweep.len(), 27);
    let first = json!({
        "size": 64, "line": 32, "ways": 2, "sets": 1, "skipped": 0, "policy": "lru", "accesses": 5, "misses": 2, "miss_ratio": 0.4,
        "reads": 4, "read_misses": 1, "writes": 1, "write_misses": 1,
    });
    assert_eq!(sweep[0], first);
    assert_eq!(found.get("levels"), None, "no hierarchy was asked for");
    let both = [&["sim", "--json", "--sweep", "metasim26"], &SMALL[..], &["t.mtr"]].concat();
    let found = json(&dir, &both);
    assert_eq!(found["levels"][0]["misses"], 3);
    assert_eq!(found["sweep"].as_array().unwrap().len(), 26);
    let bad = ["sim", "--sweep", "size=1K,policy=plru", "t.mtr"];
    fails(&dir, &bad, "--sweep: policy = \"plru\": a sweep has lru and fifo");
}

/// Distances: first, 0, 0, first, 1.
#[test]
fn reuse_distances_and_curves_are_exact() {
    let dir = recording(FIVE);
    let text = ok(&dir, &["sim", "--reuse", "--line", "32", "t.mtr"]);
    let expected = "\
other lines of 32 bytes touched between two touches of a line
   distance  reads  writes  percent  so far
          0      2       0    40.00   40.00
          1      1       0    20.00   60.00
first touch      1       1    40.00  100.00
";
    assert_eq!(text, expected);
    let found = json(&dir, &["sim", "--json", "--reuse", "--curve", "--line", "32", "t.mtr"]);
    let reuse = json!({
        "line": 32, "touches": {"reads": 4, "writes": 1}, "first": {"reads": 1, "writes": 1},
        "buckets": [{"from": 0, "to": 0, "reads": 2, "writes": 0}, {"from": 1, "to": 1, "reads": 1, "writes": 0}],
    });
    assert_eq!(found["reuse"], reuse);
    let curves = found["curve"]["curves"].as_array().unwrap();
    let ways: Vec<Option<u64>> = curves.iter().map(|c| c["ways"].as_u64()).collect();
    assert_eq!(ways, [Some(1), Some(2), Some(4), Some(8), Some(16), None]);
    let point = json!({
        "size": 1024, "accesses": 5, "misses": 2, "miss_ratio": 0.4, "reads": 4, "read_misses": 1, "writes": 1, "write_misses": 1,
    });
    assert!(curves.iter().all(|curve| curve["points"][0] == point), "{curves:#?}");
    let text = ok(&dir, &["sim", "--curve", "--line", "32", "t.mtr"]);
    let lines: Vec<&str> = text.lines().take(3).collect();
    let expected = [
        "miss ratio of LRU caches with lines of 32 bytes",
        "size  direct-mapped   2 ways   4 ways   8 ways  16 ways  fully associative",
        "  1K        0.40000  0.40000  0.40000  0.40000  0.40000            0.40000",
    ];
    assert_eq!(lines, expected);
    assert_eq!(text.lines().count(), 19);
    fails(
        &dir,
        &["sim", "--reuse", "--line", "48", "t.mtr"],
        "reuse distances: line = 48: a line is a power of two from 4 to 4096 bytes",
    );
}

/// Several processes, each with its libraries somewhere else.
#[test]
fn references_are_places_in_files_and_add_up() {
    let dir = tempdir().unwrap();
    let script = "/bin/true; /bin/true; exec /bin/true";
    ok(&dir, &["record", "-o", "t.mtr", "--", "sh", "-c", script]);
    let info = json(&dir, &["info", "--json", "t.mtr"]);
    assert!(info["processes"].as_u64().unwrap() >= 3);
    let found = json(&dir, &["sim", "--json", "--preset", "generic", "--evictors", "t.mtr"]);
    let refs = found["refs"].as_array().unwrap();
    let names: HashSet<(&str, &str)> = refs
        .iter()
        .map(|r| (r["name"].as_str().unwrap(), r["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(names.len(), refs.len(), "one row for each place and kind");
    let places = refs.iter().filter(|r| r["module"].is_string()).count();
    assert!(places * 10 > refs.len() * 9, "{places} of {} are in a file", refs.len());
    assert!(names.iter().any(|(name, _)| name.starts_with("libc.so.6+0x")));
    let first = &found["levels"][0];
    for key in [
        "accesses",
        "hits",
        "misses",
        "temporal_hits",
        "spatial_hits",
        "evictions",
        "used_bytes",
    ] {
        let sum: u64 = refs.iter().map(|r| r[key].as_u64().unwrap()).sum();
        assert_eq!(first[key].as_u64(), Some(sum), "{key}");
    }
    let evicted = |level: &str| -> u64 {
        let evictors = found["evictors"].as_array().unwrap().iter();
        evictors
            .filter(|e| e["level"] == level)
            .map(|e| e["count"].as_u64().unwrap())
            .sum()
    };
    for level in found["levels"].as_array().unwrap() {
        assert_eq!(
            level["evictions"].as_u64(),
            Some(evicted(level["name"].as_str().unwrap()))
        );
    }
    assert_eq!(first["reads"], info["reads"]);
    assert_eq!(first["writes"], info["writes"]);
    let misses = first["read_misses"].as_u64().unwrap() + first["write_misses"].as_u64().unwrap();
    assert_eq!(first["misses"].as_u64(), Some(misses));
}

#[test]
fn programs_are_simulated_while_they_run() {
    let dir = tempdir().unwrap();
    let script = "echo from the target; exit 3";
    let args = [
        "sim",
        "--json",
        "-o",
        "found.json",
        "--cache",
        "L1=32K",
        "--sweep",
        "size=32K",
        "--live",
        "--",
        "sh",
        "-c",
        script,
    ];
    let output = memtrail(&dir, &args);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(output.stdout, b"from the target\n");
    let found: Value = serde_json::from_slice(&fs::read(dir.path().join("found.json")).unwrap()).unwrap();
    assert_eq!(found["command"], json!(["sh", "-c", script]));
    assert_eq!(found["file"], Value::Null);
    let level = &found["levels"][0];
    assert!(level["accesses"].as_u64().unwrap() > 1000);
    assert_eq!(found["sweep"][0]["misses"], level["misses"]);
    assert_eq!(found["sweep"][0]["accesses"], level["accesses"]);
    let named = |r: &Value| r["name"].as_str().unwrap().starts_with("libc.so.6+0x");
    assert!(found["refs"].as_array().unwrap().iter().any(named));
    let files: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    assert_eq!(files, ["found.json"], "nothing is stored");
    let output = memtrail(
        &dir,
        &["sim", "--cache", "L1=32K", "--live", "--", "sh", "-c", "kill -TERM $$"],
    );
    assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("L1: 32K in lines of 64 bytes, 8 ways, lru\n"));
    let output = memtrail(&dir, &["sim", "--live", "--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    let limited = json(
        &dir,
        &[
            "sim", "--json", "--cache", "L1=32K", "--limit", "100", "--live", "--", "true",
        ],
    );
    assert_eq!(limited["accesses"], 100);
    let witness = dir.path().join("witness");
    let touch = format!("touch {}", witness.display());
    let output = memtrail(
        &dir,
        &["sim", "-o", "/no/such/file", "--live", "--", "sh", "-c", &touch],
    );
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        stderr(&output),
        "memtrail: cannot write /no/such/file: No such file or directory (os error 2)\n"
    );
    assert!(!witness.exists(), "the program ran");
}

/// What is simulated live is what would have been recorded: of a program whose recording is small
/// to the end, and of one whose recording becomes too large to be kept.
#[test]
fn live_is_as_recorded() {
    let dir = tempdir().unwrap();
    let numbers: String = (1..60_000u32).map(|i| format!("{}\n", i * 7919 % 100_003)).collect();
    fs::write(dir.path().join("numbers"), numbers).unwrap();
    let caches = ["--cache", "L1=32K", "--sweep", "size=8K,32K,ways=2,8"];
    let small: &[&str] = &["sh", "-c", "i=0; while [ $i -lt 500 ]; do i=$((i+1)); done"];
    let large: &[&str] = &["gzip", "-n", "-c", "numbers"];
    for (command, is_small) in [(small, true), (large, false)] {
        let run = |args: &[&str]| {
            let mut setarch = std::process::Command::new("setarch");
            let command = setarch
                .arg("-R")
                .arg(env!("CARGO_BIN_EXE_memtrail"))
                .args(args)
                .args(command);
            let output = command
                .current_dir(dir.path())
                .output()
                .expect("util-linux is everywhere");
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        };
        run(&["record", "-f", "-o", "t.mtr", "--"]);
        let size = fs::metadata(dir.path().join("t.mtr")).unwrap().len();
        assert_eq!(size < 1 << 20, is_small, "{size} bytes");
        assert_eq!(size < 8 << 20, is_small, "{size} bytes");
        let mut recorded = json(&dir, &[&["sim", "--json"], &caches[..], &["t.mtr"]].concat());
        run(&[&["sim", "--json", "-o", "live.json"], &caches[..], &["--live", "--"]].concat());
        let mut live: Value = serde_json::from_slice(&fs::read(dir.path().join("live.json")).unwrap()).unwrap();
        for found in [&mut recorded, &mut live] {
            found["file"] = Value::Null;
            // Live, every access is simulated.
            found["skipped"] = Value::Null;
            let sweep = found["sweep"].as_array_mut().unwrap().iter_mut();
            sweep.for_each(|config| config["skipped"] = Value::Null);
        }
        assert!(recorded == live, "{command:?}: {recorded}\n{live}");
    }
}

/// What is in the file stays until there is something to replace it, and none is made before.
#[test]
fn what_fails_leaves_the_output_as_it_was() {
    let dir = recording(FIVE);
    let kept = dir.path().join("kept");
    fs::write(&kept, "precious").unwrap();
    for command in ["sim", "refs"] {
        for output in ["kept", "new"] {
            let failed = memtrail(&dir, &[command, "-o", output, "no-such-file"]);
            assert_eq!(failed.status.code(), Some(125), "{}", stderr(&failed));
        }
        let failed = memtrail(&dir, &[command, "-o", "/no/such/file", "t.mtr"]);
        assert!(stderr(&failed).starts_with("memtrail: cannot write /no/such/file: "));
        assert_eq!(fs::read_to_string(&kept).unwrap(), "precious");
        assert!(!dir.path().join("new").exists());
    }
    for command in ["sim", "refs"] {
        ok(&dir, &[command, "-o", "kept", "t.mtr"]);
        assert_eq!(fs::read_to_string(&kept).unwrap(), ok(&dir, &[command, "t.mtr"]));
    }
}

#[test]
fn a_recording_cut_off_is_simulated_as_far_as_it_goes() {
    let dir = tempdir().unwrap();
    ok(&dir, &["record", "-o", "t.mtr", "--", "true"]);
    let bytes = fs::read(dir.path().join("t.mtr")).unwrap();
    fs::write(dir.path().join("cut.mtr"), &bytes[..bytes.len() - 40]).unwrap();
    let output = memtrail(&dir, &["sim", "--json", "--cache", "L1=32K", "cut.mtr"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("cut off"), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["accesses"].as_u64().unwrap() > 0);
}

#[test]
fn the_demo_ends_with_the_answer() {
    let dir = tempdir().unwrap();
    let text = ok(&dir, &["demo"]);
    // All, but for lines at the ends of the matrix that others happen to keep.
    let (before, _) = text.split_once(" of 262,144 reads miss L1: ").expect(&text);
    let misses = before.rsplit(' ').next().unwrap().replace(',', "");
    assert!(misses.parse::<u32>().unwrap() > 261_000, "{text}");
    // In the words of its source, in every profile that the demo can be built with.
    assert!(text.contains("\n1. b[k * n + j]"), "{text}");
    assert!(text.contains(" in memtrail_demo::multiply\n"), "{text}");
    assert!(text.contains("data: b (lib.rs:"), "{text}");
    // An eighth, give or take what shares lines with the matrix where it lies this time.
    let used = ["an eighth of", "12% of", "13% of"].map(|part| format!("   {part} each line it brings in is used"));
    assert!(used.iter().any(|used| text.contains(used)), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// The same table from what was saved as from the recording, byte for byte.
#[test]
fn saved_results_give_the_same_tables() {
    let dir = recording(FIVE);
    let again = |command: &str, save: &[&str], shows: &[&[&str]]| {
        let save = [&[command], &SMALL[..], save, &["--save", "saved", "t.mtr"]].concat();
        ok(&dir, &save);
        for show in shows {
            for json in [&[][..], &["--json"]] {
                let recorded = ok(&dir, &[show, json, &SMALL[..], &["t.mtr"]].concat());
                let saved = ok(&dir, &[show, json, &["saved"]].concat());
                assert_eq!(saved, recorded, "{show:?} of {command}");
            }
        }
    };
    let by_ref: &[&[&str]] = &[
        &["refs"],
        &["refs", "--by", "function", "--sort", "name"],
        &["refs", "--by", "module,line", "--top", "1"],
        &["lines"],
    ];
    again("refs", &[], by_ref);
    again(
        "evictors",
        &[],
        &[&["evictors"], &["evictors", "--by", "line"], &["refs"]],
    );
    again("lines", &[], &[&["lines"]]);
    again(
        "objects",
        &["--by", "object,thread"],
        &[&["objects"], &["objects", "--by", "thread,object"]],
    );
    again("competition", &[], &[&["competition"], &["objects"]]);
    let all: &[&str] = &["--classes", "--evictors", "--sweep", "size=1K", "--curve", "--reuse"];
    let saved = [&["sim"], &SMALL[..], all, &["--save", "saved", "--json", "t.mtr"]].concat();
    let recorded = ok(&dir, &saved);
    assert_eq!(
        ok(&dir, &["sim", "--classes", "--evictors", "--json", "saved"]),
        recorded
    );
}

#[test]
fn what_saved_results_lack_is_named() {
    let dir = recording(FIVE);
    ok(&dir, &[&["refs"], &SMALL[..], &["--save", "saved", "t.mtr"]].concat());
    let lacks = |args: &[&str], message: &str| fails(&dir, args, &format!("saved: {message}"));
    lacks(
        &["objects", "saved"],
        "its counts are by ref, line, function, module, not by object; --by object with --save, on the recording, makes one that is",
    );
    lacks(
        &["evictors", "saved"],
        "who evicted whom was not counted; memtrail evictors or sim --evictors, with --save, makes one that tells",
    );
    lacks(
        &["competition", "--by", "ref", "saved"],
        "premature evictions were not counted; memtrail competition, with --save, makes one that tells",
    );
    lacks(
        &["sim", "--classes", "saved"],
        "misses were not classified; memtrail sim --classes, with --save, makes one that tells",
    );
    lacks(
        &["refs", "--cache", "L1=1K", "--limit", "3", "saved"],
        "these are saved results, of what was simulated then; --limit 3 --cache L1=1K needs the recording",
    );
    lacks(&["refs", "--level", "L9", "saved"], "--level L9: there are L1");
    let bytes = fs::read(dir.path().join("saved")).unwrap();
    fs::write(dir.path().join("saved"), &bytes[..bytes.len() - 1]).unwrap();
    let lines = bytes.iter().filter(|b| **b == b'\n').count() - 1;
    lacks(
        &["refs", "saved"],
        &format!("the results are cut off after line {lines}: the last line is missing"),
    );
}

/// Tables of a command that is run are those of its recording, and it ends as the command does.
#[test]
fn tables_live_are_as_recorded() {
    let dir = tempdir().unwrap();
    let script = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done";
    let run = |args: &[&str]| {
        let mut setarch = std::process::Command::new("setarch");
        let command = setarch.arg("-R").arg(env!("CARGO_BIN_EXE_memtrail")).args(args);
        let output = command
            .args(["--", "sh", "-c", script])
            .current_dir(dir.path())
            .output();
        let output = output.expect("util-linux is everywhere");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        output.stdout
    };
    run(&["record", "-f", "-o", "t.mtr"]);
    for table in ["refs", "objects", "lines"] {
        let options = [table, "--json", "--cache", "L1=32K", "--cache", "L2=256K"];
        let recorded = json(&dir, &[&options[..], &["t.mtr"]].concat());
        let mut live: Value = serde_json::from_slice(&run(&[&options[..], &["--live"]].concat())).unwrap();
        assert_eq!(live["file"], Value::Null);
        live["file"] = "t.mtr".into();
        assert!(live == recorded, "{table}: {recorded}\n{live}");
    }
    let ends = memtrail(
        &dir,
        &["refs", "--cache", "L1=32K", "--live", "--", "sh", "-c", "exit 7"],
    );
    assert_eq!(ends.status.code(), Some(7), "{}", stderr(&ends));
    fails(&dir, &["refs", "--live"], "--live needs a command, behind `--`");
}
