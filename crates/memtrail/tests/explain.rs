//! The short answer, `diff`, `report` and profiles, of a program whose misses are known by
//! construction: a matrix product that reads its second matrix down the columns.
mod common;

use common::{memtrail, stderr};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::{tempdir, TempDir};

/// A cache that holds half of a matrix.
const CACHE: [&str; 2] = ["--cache", "L1=16K:64:8"];
/// What a page must show as text.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";

const SLOW: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include "memtrail.h"
#define N 64
static double A[N][N], B[N][N], C[N][N];

__attribute__((noinline)) static void multiply(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                C[i][j] += A[i][k] * B[k][j];
}

int main(void) {
    char *named = malloc(4096);
    memtrail_name(named, 4096, "</script><img src=x onerror=alert(1)>");
    for (int i = 0; i < 4096; i += 64)
        named[i] = 1;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            A[i][j] = i + j, B[i][j] = i - j;
    multiply();
    printf("%g %d\n", C[3][4], named[64]);
    return 0;
}
"#;

/// The same with the loops interchanged, and other lines before.
fn repaired() -> String {
    let loops = "        for (int j = 0; j < N; j++)\n            for (int k = 0; k < N; k++)\n";
    let interchanged = "        for (int k = 0; k < N; k++)\n            for (int j = 0; j < N; j++)\n";
    assert!(SLOW.contains(loops));
    format!("/* Repaired. */\n\n{}", SLOW.replace(loops, interchanged))
}

fn ok(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles and records a program.
fn record(dir: &TempDir, name: &str, source: &str) {
    let file = format!("{name}.c");
    fs::write(dir.path().join(&file), source).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut gcc = Command::new("gcc");
    gcc.current_dir(dir.path()).args(["-g", "-O1", "-I"]).arg(include);
    ok(gcc.args(["-o", name, &file]).output().unwrap());
    let (program, recording) = (format!("./{name}"), format!("{name}.mtr"));
    ok(memtrail(
        dir,
        &["record", "--no-aslr", "-f", "-o", &recording, "--", &program],
    ));
}

fn slow() -> TempDir {
    let dir = tempdir().unwrap();
    record(&dir, "slow", SLOW);
    dir
}

#[test]
fn the_short_answer_fits_and_names_the_worst_reference() {
    let dir = slow();
    let text = ok(memtrail(&dir, &[&CACHE[..], &["slow.mtr"]].concat()));
    assert!(
        text.contains("\n1. B[k][j]  slow.c:11 in multiply\n   262,144 of 262,144 reads miss L1"),
        "{text}"
    );
    assert!(
        text.contains("   an eighth of each line it brings in is used before it has to go; data: B (static, 32.8 KB"),
        "{text}"
    );
    assert!(text.contains("\nlibraries and start-up code: "), "{text}");
    assert!(text.contains("\n  memtrail report slow.mtr -o report.html"), "{text}");
    assert!(text.lines().count() <= 25, "{text}");
    for command in [
        &[][..],
        &["refs"],
        &["objects"],
        &["evictors"],
        &["lines"],
        &["competition"],
        &["sim"],
    ] {
        let text = ok(memtrail(&dir, &[command, &CACHE, &["slow.mtr"]].concat()));
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{widest} columns of {command:?}:\n{text}");
    }
    let wide = ok(memtrail(
        &dir,
        &[&["objects", "--wide", "--all"], &CACHE[..], &["slow.mtr"]].concat(),
    ));
    assert!(wide.lines().any(|line| line.chars().count() > 100), "{wide}");
    assert!(!wide.contains("(--all)") && !wide.contains("--wide"), "{wide}");
    let value: Value =
        serde_json::from_str(&ok(memtrail(&dir, &[&["--json"], &CACHE[..], &["slow.mtr"]].concat()))).unwrap();
    assert_eq!(value["first"][0]["reference"], "B[k][j]");
    assert_eq!(value["first"][0]["line"], 11);
    assert_eq!(value["first"][0]["misses"]["L1"], 262_144);
}

#[test]
fn a_command_is_recorded_and_explained_on_standard_error() {
    let dir = slow();
    let output = memtrail(&dir, &["--", "./slow"]);
    let told = stderr(&output);
    assert_eq!(ok(output), "82560 1\n", "the program's own output is all there is");
    assert!(told.contains("\nWhat to look at first\n"), "{told}");
    let missing = memtrail(&dir, &["recrod"]);
    assert_eq!(missing.status.code(), Some(125));
    assert!(stderr(&missing).contains("neither a file nor a command recrod"));
}

#[test]
fn diff_finds_the_repair_and_nothing_else() {
    let dir = slow();
    record(&dir, "fast", &repaired());
    fs::copy(dir.path().join("slow.mtr"), dir.path().join("first.mtr")).unwrap();
    record(&dir, "slow", SLOW);
    let diff = |options: &[&str]| memtrail(&dir, &[&["diff"], &CACHE[..], options].concat());
    // Two runs at the same addresses do the same.
    assert_eq!(ok(diff(&["first.mtr", "slow.mtr"])), "no difference\n");
    let text = ok(diff(&["slow.mtr", "fast.mtr"]));
    assert!(text.starts_with("fast.mtr misses L1 "), "{text}");
    assert!(
        text.lines().next().unwrap().contains("% less often than slow.mtr: "),
        "{text}"
    );
    assert!(text.contains("B[k][j] read (fast.c:13, was slow.c:11)"), "{text}");
    let value: Value = serde_json::from_str(&ok(diff(&["--json", "slow.mtr", "fast.mtr"]))).unwrap();
    let rows = value["rows"].as_array().unwrap();
    let b = rows
        .iter()
        .find(|row| row["dimension"] == "object" && row["name"] == "B")
        .unwrap();
    assert_eq!(b["before"]["accesses"], b["after"]["accesses"]);
    assert!(
        b["before"]["misses"].as_u64().unwrap() > 7 * b["after"]["misses"].as_u64().unwrap(),
        "{b}"
    );
    for dimension in ["object", "reference", "line", "function"] {
        assert!(rows.iter().any(|row| row["dimension"] == dimension), "{dimension}");
    }
    let rule = ["--fail-on", "L1.misses>+2%"];
    let better = diff(&[&rule[..], &["slow.mtr", "fast.mtr"]].concat());
    assert_eq!(better.status.code(), Some(0), "{}", stderr(&better));
    let worse = diff(&[&rule[..], &["fast.mtr", "slow.mtr"]].concat());
    assert_eq!(worse.status.code(), Some(1), "{}", stderr(&worse));
    assert!(stderr(&worse).contains("memtrail: failed: L1.misses>+2%: "));
    // Saved results stand for a recording.
    ok(memtrail(
        &dir,
        &[
            &["refs", "--by", "ref,object", "--save", "kept"],
            &CACHE[..],
            &["slow.mtr"],
        ]
        .concat(),
    ));
    let kept = memtrail(&dir, &["diff", "kept", "first.mtr"]);
    assert_eq!(ok(kept), "no difference\n");
}

/// What Chromium makes of a page, and what it says meanwhile.
fn drawn(dir: &TempDir, page: &str) -> (String, String) {
    let url = format!("file://{}", dir.path().join(page).display());
    let profile = format!("--user-data-dir={}", dir.path().join("chromium").display());
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args([
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            &profile,
            "--dump-dom",
            &url,
        ])
        .output()
        .expect("chromium is among the packages that tests need");
    let told = stderr(&output);
    (ok(output), told)
}

#[test]
fn the_page_is_drawn_whole_and_safely() {
    let dir = slow();
    ok(memtrail(
        &dir,
        &[&["report"], &CACHE[..], &["slow.mtr", "-o", "r.html"]].concat(),
    ));
    let bytes = fs::read(dir.path().join("r.html")).unwrap();
    assert!(bytes.len() < 6_000_000);
    let (dom, told) = drawn(&dir, "r.html");
    assert!(!told.contains("CONSOLE"), "{told}");
    assert!(!dom.contains("data-errors"), "an error was caught");
    assert!(dom.contains("data-drawn=\"12\""), "not everything was drawn");
    // As text it is there; as markup it would be an element.
    let main = &dom[dom.find("<main").unwrap()..dom.find("</main>").unwrap()];
    assert!(
        main.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"),
        "{HOSTILE} is not shown"
    );
    assert!(!main.contains("<img"));
    let section = |id: &str| {
        let start = main
            .find(&format!("<section id=\"{id}\""))
            .unwrap_or_else(|| panic!("no section {id}"));
        let end = main[start..].find("</section>").unwrap();
        &main[start..start + end]
    };
    assert!(section("summary").contains("1. B[k][j]  slow.c:11 in multiply"));
    assert!(section("objects").contains("<td class=\"name\">B</td><td class=\"\">static</td>"));
    assert!(section("timelines").contains("<rect "));
    assert_eq!(section("map").matches("<canvas").count(), 2);
    assert!(section("evictors").contains("loses lines to"));
    assert!(section("evictors").contains("evict each other: "), "A and B compete");
    assert!(section("references").contains("B[k][j]"));
    assert!(section("source").contains("C[i][j] += A[i][k] * B[k][j];"));
    assert!(section("source").contains(">266,"), "misses beside the line");
    assert!(section("loops").contains("multiply (slow.c:"));
    assert!(section("curve").contains("<polyline "));
    assert!(section("reuse").contains("<polyline "));
    assert!(section("calls").contains("multiply: "));
    assert!(section("threads").contains("<td class=\"number\">0</td>"));
}

#[test]
fn profiles_are_read_by_their_tools() {
    let dir = slow();
    let export = |format: &str, output: &str| {
        let options = ["export", "--format", format, "-f", "-o", output];
        ok(memtrail(&dir, &[&options, &CACHE[..], &["slow.mtr"]].concat()));
    };
    export("callgrind", "callgrind.out");
    let annotate = Command::new("callgrind_annotate")
        .current_dir(dir.path())
        .args(["--auto=no", "callgrind.out"])
        .output();
    let text = ok(annotate.expect("valgrind is among the packages that tests need"));
    let multiply = text.lines().find(|line| line.contains(":multiply [")).expect(&text);
    let numbers: Vec<&str> = multiply
        .split_whitespace()
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    // A and B in every iteration, C once for each sum, and the return address.
    assert_eq!(numbers[0], "528,385", "{text}");
    export("collapsed", "stacks");
    let stacks = fs::read_to_string(dir.path().join("stacks")).unwrap();
    assert!(
        stacks
            .lines()
            .any(|line| line.ends_with("main;multiply;B[k][j] 262144")),
        "{stacks}"
    );
    export("pprof", "profile.pb");
    // What it holds is checked by the crate's tests; here, that it begins with a sample type.
    assert_eq!(fs::read(dir.path().join("profile.pb")).unwrap()[0], 0x0a);
}

#[test]
fn compressed_traces_are_taken_as_they_are() {
    let dir = tempdir().unwrap();
    let lines = "0 0x401000 R 0x1000 8\n0 0x401000 R 0x2000 8\n";
    fs::write(dir.path().join("t.txt"), lines).unwrap();
    let python = "import gzip, zipfile\ndata = open('t.txt', 'rb').read()\nopen('t.gz', 'wb').write(gzip.compress(data[:22]) + gzip.compress(data[22:]))\n\
        z = zipfile.ZipFile('t.zip', 'w', zipfile.ZIP_DEFLATED)\nz.writestr('chunk.0001', data[22:])\nz.writestr('chunk.0000', data[:22])\nz.close()\n";
    ok(Command::new("python3")
        .current_dir(dir.path())
        .args(["-c", python])
        .output()
        .unwrap());
    let mut packed = lz4_flex::frame::FrameEncoder::new(Vec::new());
    packed.write_all(lines.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    fs::write(dir.path().join("t.lz4"), packed).unwrap();
    for packed in ["t.gz", "t.zip", "t.lz4"] {
        ok(memtrail(&dir, &["import", "-f", "-o", "t.mtr", packed]));
        assert_eq!(ok(memtrail(&dir, &["dump", "t.mtr"])), lines, "{packed}");
    }
}
