//! `phases` as users meet it: traces whose phases are known to the access, programs whose phases are
//! known by construction, phases as a dimension of tables.
mod common;

use common::{memtrail, stderr};
use serde_json::{json, Value};
use std::fmt::Write;
use std::fs;
use std::process::Command;
use tempfile::{tempdir, TempDir};

/// Four lines of 32 bytes.
const SMALL: [&str; 2] = ["--cache", "L1=128:32:4"];

fn ok(dir: &TempDir, args: &[&str]) -> String {
    let output = memtrail(dir, args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn json_of(dir: &TempDir, args: &[&str]) -> Value {
    serde_json::from_str(&ok(dir, args)).unwrap()
}

/// Makes a recording `t.mtr` of these addresses, all read by one instruction.
fn recording(addresses: impl Iterator<Item = u64>) -> TempDir {
    let dir = tempdir().unwrap();
    let mut text = String::new();
    for address in addresses {
        writeln!(text, "0 0x401000 R {address:#x} 8").unwrap();
    }
    fs::write(dir.path().join("t.txt"), text).unwrap();
    ok(&dir, &["import", "--format", "text", "-o", "t.mtr", "t.txt"]);
    dir
}

/// What all data of such a recording is called, which notes nothing of data.
fn data(dir: &TempDir) -> String {
    let table = json_of(dir, &[&["objects", "--json", "t.mtr"], &SMALL[..]].concat());
    let objects = table["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 1);
    objects[0]["name"].as_str().unwrap().to_string()
}

/// 3,000 accesses that all miss, and 3,000 that all hit the last line.
fn two_halves() -> TempDir {
    recording((0..6000u64).map(|n| 0x10000 + 32 * n.min(2999)))
}

#[test]
fn two_halves_are_told_to_the_access() {
    let dir = two_halves();
    let found = json_of(&dir, &[&["phases", "--json", "t.mtr"], &SMALL[..]].concat());
    // 4,000 points of one access were full; 6,000 accesses are 3,000 points of two.
    let expected = json!({
        "period": 2, "unit": "accesses", "base": 2, "points": 3000, "total": 6000,
        "level": "L1", "stream": "misses", "type": "simple", "initialisation": 0,
        "phases": [
            { "from": 0, "to": 3000, "id": 1, "leader": data(&dir), "region": null },
            { "from": 3000, "to": 6000, "id": 2, "leader": null, "region": null },
        ],
        "pairs": [], "inversions": [],
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&found[name], value, "{name}");
    }
    let object = &found["objects"][0];
    assert_eq!((&object["accesses"], &object["misses"]), (&json!(6000), &json!(3000)));
}

/// The first screen, in full.
#[test]
fn the_report_is_exact() {
    let dir = two_halves();
    let expected = format!(
        "\
L1 misses: simple phases: 2 of 2 kinds, with sharp boundaries

2 accesses a point (1 x the base period of 2): volatility 0.000 at the 90th percentile.
The base period is quiet enough already: at most 0.1.

phase                          111111111111111111111111111111111111222222222222222222222222222222222222
{data:30} ████████████████████████████████████
                               0                                                         6,000 accesses

phase  % run times  leader                         % of it  active
1      50.00     1  {data:30}   100.0  0x401000
2      50.00     1  -                                       0x401000

no inversion: the same object leads all along
phases by the code that ran: 1 of 1 kinds; agreement 0.00 (adjusted Rand index; 1: the same)
",
        data = data(&dir)
    );
    assert_eq!(ok(&dir, &[&["phases", "t.mtr"], &SMALL[..]].concat()), expected);
}

/// A wave of 7 base periods, 3 of misses and 4 of hits, on a grid of 10.
#[test]
fn a_wave_of_seven_is_found_on_a_grid_of_ten() {
    let base = 10u64;
    let mut line = 0;
    let dir = recording((0..30_000u64).map(|n| {
        line += u64::from((n / base) % 7 < 3);
        0x10000 + 32 * line
    }));
    let args = ["phases", "--json", "--profile", "--grid", "10", "--base", "10", "t.mtr"];
    let found = json_of(&dir, &[&args[..], &SMALL].concat());
    assert_eq!((&found["base"], &found["points"]), (&json!(10), &json!(3000)));
    assert_eq!(found["period"], 70);
    assert_eq!(found["choice"]["reason"], "spectrum");
    assert_eq!(found["type"], "none");
    let profile = found["profile"].as_array().unwrap();
    let quiet = profile
        .iter()
        .find(|point| point["volatility"].as_f64() < Some(0.1))
        .unwrap();
    assert_eq!(quiet["period"], 70);
}

#[test]
fn curves_hold_every_base_period() {
    let dir = two_halves();
    let args = ["phases", "--curves", "c.csv", "--base", "1000", "t.mtr"];
    ok(&dir, &[&args[..], &SMALL].concat());
    let csv = fs::read_to_string(dir.path().join("c.csv")).unwrap();
    let data = data(&dir);
    let mut expected = "from,object,level,accesses,misses\n".to_string();
    for (from, misses) in [(0, 1000), (1000, 1000), (2000, 1000), (3000, 0), (4000, 0), (5000, 0)] {
        writeln!(expected, "{from},{data},L1,1000,{misses}").unwrap();
    }
    assert_eq!(csv, expected);
    let args = ["phases", "--curves", "c.json", "--base", "2000", "t.mtr"];
    ok(&dir, &[&args[..], &SMALL].concat());
    let curves: Value = serde_json::from_slice(&fs::read(dir.path().join("c.json")).unwrap()).unwrap();
    assert_eq!(curves["base"], 2000);
    assert_eq!(curves["streams"][0]["misses"], json!([2000, 1000, 0]));
}

#[test]
fn phases_are_a_dimension_of_tables() {
    let dir = two_halves();
    let table = json_of(
        &dir,
        &[
            &["refs", "--by", "phase", "--sort", "name", "--json", "t.mtr"],
            &SMALL[..],
        ]
        .concat(),
    );
    let rows = |table: &Value| -> Vec<(Value, Value, Value)> {
        let rows = table["refs"].as_array().unwrap().iter();
        rows.map(|row| (row["phase"].clone(), row["reads"].clone(), row["misses"]["L1"].clone()))
            .collect()
    };
    assert_eq!(
        rows(&table),
        [(json!(1), json!(3000), json!(3000)), (json!(2), json!(3000), json!(0))]
    );
    let args = ["objects", "--phase", "2", "--by", "phase,object", "--json", "t.mtr"];
    let table = json_of(&dir, &[&args[..], &SMALL].concat());
    assert_eq!(table["objects"].as_array().unwrap().len(), 1);
    assert_eq!(table["objects"][0]["reads"], 3000);
    let output = memtrail(&dir, &[&["refs", "--phase", "3", "t.mtr"], &SMALL[..]].concat());
    assert_eq!(output.status.code(), Some(125));
    let message = "memtrail: --phase 3: there are 2 kinds of phases (memtrail phases t.mtr shows them)\n";
    assert!(stderr(&output).ends_with(message), "{}", stderr(&output));
}

#[test]
fn wrong_values_are_told() {
    let dir = two_halves();
    for (args, words) in [
        (
            ["--percentile", "0"],
            "0 is no percentile: it is more than 0 and at most 100",
        ),
        (["--percentile", "x"], "x is no number"),
        (["--base", "0"], "0 is not in 1.."),
        (["--level", "L7"], "--level L7: there are L1"),
    ] {
        let output = memtrail(&dir, &[&["phases", "t.mtr"], &args[..], &SMALL].concat());
        assert_eq!(output.status.code(), Some(125), "{args:?}");
        assert!(stderr(&output).contains(words), "{args:?}: {}", stderr(&output));
    }
}

/// Compiles and records a program.
fn recorded(source: &str) -> TempDir {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("p.c"), source).unwrap();
    let mut cc = Command::new("cc");
    let built = cc.args(["-O1", "-g", "-o", "p", "p.c"]).current_dir(dir.path());
    let built = built.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    ok(&dir, &["record", "-o", "p.mtr", "./p"]);
    dir
}

const L1: [&str; 2] = ["--cache", "L1=32K:64:8"];

fn phases_of(source: &str, more: &[&str]) -> (TempDir, Value) {
    let dir = recorded(source);
    let found = json_of(&dir, &[&["phases", "--json", "p.mtr"], &L1[..], more].concat());
    (dir, found)
}

/// Walks through arrays in steps of a cache line; each walk makes `times` x 16,384 accesses that
/// miss.
const WALK: &str = "
    #define N (1 << 20)
    static volatile char first[N], second[N];
    __attribute__((noinline)) static void walk(volatile char *a, int times) {
        for (int t = 0; t < times; t++)
            for (int i = 0; i < N; i += 64) a[i];
    }
";

#[test]
fn two_arrays_in_antiphase() {
    let main = "int main(void) { for (int r = 0; r < 8; r++) { walk(first, 4); walk(second, 4); } }";
    let (_, found) = phases_of(&format!("{WALK}{main}"), &[]);
    assert_eq!(found["type"], "simple");
    let period = found["period"].as_u64().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let all = found["inversions"].as_array().unwrap().iter();
    let between: Vec<(u64, String)> = all
        .filter(|inversion| text(&inversion["from"]).ends_with("st") || text(&inversion["from"]) == "second")
        .map(|inversion| (inversion["at"].as_u64().unwrap(), text(&inversion["to"])))
        .collect();
    assert_eq!(between.len(), 15, "{found:#}");
    for (number, (at, to)) in between.iter().enumerate() {
        assert_eq!(to, if number % 2 == 0 { "second" } else { "first" });
        // The last walk ends with the program, but for a few thousand accesses of exit.
        let rest = found["total"].as_u64().unwrap() - at;
        let expected = (15 - number as u64) * 4 * 16_384;
        assert!(
            (expected..expected + period + 4_000).contains(&rest),
            "{rest} {expected} {period}"
        );
    }
    for pair in between.windows(2) {
        let apart = pair[1].0 - pair[0].0;
        assert!(apart.abs_diff(4 * 16_384) <= period, "{apart}");
    }
    let pair = found["pairs"].as_array().unwrap().iter();
    let pair = pair.clone().find(|pair| pair["a"] == "first" && pair["b"] == "second");
    assert!(pair.unwrap()["correlation"].as_f64().unwrap() < -0.8, "{found:#}");
}

#[test]
fn an_inversion_in_the_middle() {
    let main = "int main(void) { walk(first, 24); walk(second, 40); }";
    let (dir, found) = phases_of(&format!("{WALK}{main}"), &[]);
    assert_eq!(found["type"], "simple");
    let all = found["inversions"].as_array().unwrap();
    let inversion = all.iter().find(|inversion| inversion["to"] == "second").unwrap();
    assert_eq!(inversion["from"], "first");
    let rest = found["total"].as_u64().unwrap() - inversion["at"].as_u64().unwrap();
    let period = found["period"].as_u64().unwrap();
    assert!((40 * 16_384..40 * 16_384 + period + 4_000).contains(&rest), "{rest}");
    // In instructions the run is as long as the recorder says, and has the same phases.
    let args = ["phases", "--json", "--unit", "instructions", "p.mtr"];
    let by_instruction = json_of(&dir, &[&args[..], &L1].concat());
    assert_eq!(by_instruction["type"], "simple");
    assert_eq!(
        by_instruction["total"],
        json_of(&dir, &["info", "--json", "p.mtr"])["instructions"]
    );
}

#[test]
fn initialisation_then_steady_state() {
    let main = "int main(void) { walk(first, 8); walk(second, 60); }";
    let (_, found) = phases_of(&format!("{WALK}{main}"), &[]);
    assert_eq!(found["type"], "none", "{found:#}");
    let rest = found["total"].as_u64().unwrap() - found["initialisation"].as_u64().unwrap();
    let period = found["period"].as_u64().unwrap();
    assert!((60 * 16_384..60 * 16_384 + period + 4_000).contains(&rest), "{rest}");
    let last = found["phases"].as_array().unwrap().last().unwrap();
    assert_eq!(last["leader"], "second");
}

#[test]
fn nothing_changes() {
    let (_, found) = phases_of(&format!("{WALK}int main(void) {{ walk(first, 64); }}"), &[]);
    assert_eq!(found["type"], "none", "{found:#}");
    // What the loader does before comes first.
    let initialised = found["initialisation"].as_u64().unwrap();
    let mut inversions = found["inversions"].as_array().unwrap().iter();
    assert!(inversions.all(|inversion| inversion["at"].as_u64().unwrap() <= initialised));
}

#[test]
fn slow_drift_is_complex() {
    let main = "int main(void) {
        unsigned at = 0;
        for (int step = 0; step < 16000; step++) {
            int misses = 4 + step * 56 / 16000;
            for (int i = 0; i < misses; i++) { first[at % N]; at += 64; }
            for (int i = misses; i < 64; i++) first[0];
        }
    }";
    let (_, found) = phases_of(&format!("{WALK}{main}"), &[]);
    assert_eq!(found["type"], "complex", "{found:#}");
    assert!(found["phases"].as_array().unwrap().len() >= 3);
}

/// What the program says about itself is where phases begin.
#[test]
fn regions_are_boundaries() {
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include/memtrail.h");
    let main = "int main(void) {
        walk(first, 30);
        memtrail_enter(\"solve\");
        walk(second, 30);
        memtrail_leave(\"solve\");
        walk(first, 30);
    }";
    let (_, found) = phases_of(&format!("#include \"{header}\"\n{WALK}{main}"), &[]);
    let phases = found["phases"].as_array().unwrap();
    let told: Vec<&str> = phases.iter().filter_map(|phase| phase["region"].as_str()).collect();
    assert_eq!(told, ["enters solve", "leaves solve"]);
    let at = |region: &str| {
        phases.iter().find(|phase| phase["region"] == region).unwrap()["from"]
            .as_u64()
            .unwrap()
    };
    // Nothing but the walk and its call comes between.
    let apart = at("leaves solve") - at("enters solve");
    assert!((30 * 16_384..30 * 16_384 + 16).contains(&apart), "{apart}");
}
