//! Names: the METRIC paper's tables with its references, and what is told when names are missing or
//! wrong.
//!
//! The figures of the tables are explained in `metric.rs`; here they stand beside the names.
//! Whatever is missing, tables are made, counts are the same, and the reason is told, in the table
//! and beside it.

use memtrail_tests::subject::{compiled, output, source_path, Subject, Table};
use memtrail_tests::tools::{self, work_directory};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const CACHE: [&str; 2] = ["--cache", "L1=32K:64:8"];

fn table(subject: &Subject, command: &str, options: &[&str]) -> Table {
    let told = subject.table(command, options);
    told.unwrap_or_else(|why| panic!("{why}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], |list| list)
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} in {row:#}"))
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row:#}"))
}

/// The first million accesses of the kernel, through the paper's cache.
fn kernel(name: &str, source: &str, flags: &[&str], args: &[&str], command: &str) -> Value {
    let subject = Subject::new(name, source, &[&["-O1", "-g"], flags].concat(), args);
    let limit = ["--function", "kernel", "--limit", "1000000", "--sort", "name"];
    let options = [&["--preset", "r12000"][..], &limit].concat();
    table(&subject.unwrap_or_else(|why| panic!("{why}")), command, &options).found
}

/// Name, source and misses of each reference, in the order of the code.
fn named(found: &Value) -> Vec<(&str, &str, u64)> {
    let one = |row| (text(row, "name"), text(row, "source"), number(&row["misses"], "L1"));
    list(&found["refs"]).iter().map(one).collect()
}

/// Owner, evictor and count, by name.
fn evictors(found: &Value) -> Vec<(&str, &str, u64)> {
    let name = |row: &Value, key| text(&found["refs"][number(row, key) as usize], "name");
    let one = |row| (name(row, "owner"), name(row, "evictor"), number(row, "count"));
    list(&found["evictors"]).iter().map(one).collect()
}

/// Function and line of each reference; the line as it stands in the source.
fn lines(found: &Value, source: &str) -> Vec<(String, String)> {
    let source = std::fs::read_to_string(source_path(source)).unwrap_or_else(|e| panic!("{e}"));
    let one = |row: &Value| {
        let line = source.lines().nth(number(row, "line") as usize - 1);
        (text(row, "function").to_string(), line.unwrap_or("").trim().to_string())
    };
    list(&found["refs"]).iter().map(one).collect()
}

fn at(function: &str, line: &str) -> (String, String) {
    (function.to_string(), line.to_string())
}

/// Figures 5 and 6.
#[test]
fn matrix_multiply() {
    const SOURCE: &str = "tests/metric/mm.c";
    let found = kernel("names-mm", SOURCE, &[], &["1"], "evictors");
    let expected = [
        ("m.xy_Read_0", "m.xy[i][k]", 9_459),
        ("m.xz_Read_1", "m.xz[k][j]", 250_000),
        ("m.xx_Read_2", "m.xx[i][j]", 79),
        ("m.xx_Write_3", "m.xx[i][j]", 0),
    ];
    assert_eq!(named(&found), expected);
    let expected = [
        at("kernel", "double y = m.xy[i][k];"),
        at("kernel", "double z = m.xz[k][j];"),
        at("kernel", "double x = m.xx[i][j];"),
        at("kernel", "m.xx[i][j] = y * z + x;"),
    ];
    assert_eq!(lines(&found, SOURCE), expected);
    let expected = [
        ("m.xy_Read_0", "m.xz_Read_1", 9_291),
        ("m.xz_Read_1", "m.xy_Read_0", 9_281),
        ("m.xz_Read_1", "m.xz_Read_1", 239_800),
        ("m.xz_Read_1", "m.xx_Read_2", 71),
        ("m.xx_Read_2", "m.xz_Read_1", 71),
    ];
    assert_eq!(evictors(&found), expected);
}

/// A function that was inlined can be asked for as well.
#[test]
fn an_inlined_function() {
    let subject = Subject::new("names-inlined", "tests/metric/adi.c", &["-O1", "-g", "-DFUSED"], &[]);
    let subject = subject.unwrap_or_else(|why| panic!("{why}"));
    let options = [
        &CACHE[..],
        &["--function", "second", "--sort", "name", "--limit", "1000"],
    ]
    .concat();
    let found = table(&subject, "refs", &options).found;
    let sources: Vec<&str> = list(&found["refs"]).iter().map(|row| text(row, "source")).collect();
    let expected = ["m.a[i][k]", "m.a[i][k]", "m.b[i - 1][k]", "m.b[i][k]", "m.b[i][k]"];
    assert_eq!(sources, expected);
    assert!(list(&found["refs"]).iter().all(|row| row["accesses"] == 200));
}

/// Section 7.2, fused. Statements are in functions of their own, inlined.
#[test]
fn adi() {
    const SOURCE: &str = "tests/metric/adi.c";
    let found = kernel("names-adi", SOURCE, &["-DFUSED"], &[], "evictors");
    let expected = [
        ("m.x_Read_0", "m.x[i - 1][k]", 200),
        ("m.a_Read_1", "m.a[i][k]", 25_032),
        ("m.b_Read_2", "m.b[i - 1][k]", 25_032),
        ("m.x_Read_3", "m.x[i][k]", 25_032),
        ("m.x_Write_4", "m.x[i][k]", 0),
        ("m.a_Read_5", "m.a[i][k]", 0),
        ("m.a_Read_6", "m.a[i][k]", 0),
        ("m.b_Read_7", "m.b[i - 1][k]", 0),
        ("m.b_Read_8", "m.b[i][k]", 25_032),
        ("m.b_Write_9", "m.b[i][k]", 0),
    ];
    assert_eq!(named(&found), expected);
    let lines = lines(&found, SOURCE);
    assert_eq!(lines[3], at("first", "double x = m.x[i][k];"));
    assert_eq!(lines[9], at("second", "m.b[i][k] = b - a * again / above;"));
    let circle = [
        ("m.x_Read_0", "m.a_Read_1", 200),
        ("m.a_Read_1", "m.b_Read_2", 24_889),
        ("m.b_Read_2", "m.b_Read_8", 24_720),
        ("m.x_Read_3", "m.a_Read_1", 24_576),
        ("m.b_Read_8", "m.x_Read_3", 24_919),
    ];
    assert_eq!(evictors(&found), circle);
}

/// `objects/lists.c`, built with these flags.
fn lists(name: &str, flags: &[&str]) -> PathBuf {
    let source = source_path("tests/objects/lists.c");
    compiled("gcc", name, &source, flags).unwrap_or_else(|why| panic!("{why}"))
}

fn recorded(program: PathBuf) -> Subject {
    Subject::record(program, &[]).unwrap_or_else(|why| panic!("{why}"))
}

/// The names of both lists: the one of 1000 nodes first. Their counts are known, whatever they are
/// called.
fn both_lists(told: &Table) -> Vec<String> {
    let heap = list(&told.found["objects"]).iter().filter(|row| row["kind"] == "heap");
    let mut found: Vec<_> = heap
        .map(|row| {
            (
                ["blocks", "reads", "writes", "bytes"].map(|key| number(row, key)),
                text(row, "name"),
            )
        })
        .collect();
    found.sort();
    let (counts, names): (Vec<_>, Vec<_>) = found.into_iter().rev().unzip();
    assert_eq!(counts, [[1000, 2000, 2000, 16_000], [500, 3000, 1000, 8000]]);
    names.into_iter().map(str::to_string).collect()
}

/// Why names of this module are missing, as told in the table; it is also said.
fn reasons(told: &Table, module: &str) -> Vec<String> {
    let reasons = list(&told.found["reasons"]).iter().filter_map(Value::as_str);
    let of_module = reasons.filter(|reason| reason.starts_with(&format!("{module}: ")));
    let of_module: Vec<String> = of_module.map(str::to_string).collect();
    assert!(
        of_module.iter().all(|reason| told.said.contains(reason)),
        "{}",
        told.said
    );
    of_module
}

/// Whether both are `first < second` for the call and its caller, each told as given.
fn assert_told_by(names: &[String], call: &str, caller: &str) {
    for name in names {
        let parts: Vec<&str> = name.split(" < ").collect();
        assert!(
            parts.len() == 2 && parts[0].starts_with(call) && parts[1].starts_with(caller),
            "{name}"
        );
    }
    assert_ne!(names[0], names[1]);
}

#[test]
fn a_stripped_program_is_told_by_offsets() {
    let program = lists("names-stripped", &["-O0", "-g"]);
    output(Command::new("strip").arg(&program)).unwrap_or_else(|why| panic!("{why}"));
    let told = table(&recorded(program), "objects", &CACHE);
    assert_told_by(&both_lists(&told), "names-stripped+0x", "names-stripped+0x");
    assert_eq!(
        reasons(&told, "names-stripped"),
        ["names-stripped: stripped: no symbols"]
    );
}

#[test]
fn without_debug_information_functions_are_known() {
    let told = table(&recorded(lists("names-plain", &["-O0"])), "objects", &CACHE);
    assert_told_by(&both_lists(&told), "push (names-plain+0x", "main (names-plain+0x");
    assert_eq!(reasons(&told, "names-plain"), ["names-plain: no debug information"]);
}

#[test]
fn without_its_source_a_program_still_has_lines_and_variables() {
    let source = work_directory().join("names-gone.c");
    std::fs::copy(source_path("tests/objects/statics.c"), &source).unwrap_or_else(|e| panic!("{e}"));
    let program = compiled("gcc", "names-gone", &source, &["-O0", "-g"]);
    let subject = recorded(program.unwrap_or_else(|why| panic!("{why}")));
    let row = |found: &Value| {
        let fields = list(&found["refs"])
            .iter()
            .find(|row| row["variable"] == "bodies[].at.x");
        fields.cloned().unwrap_or_else(|| panic!("no bodies[].at.x"))
    };
    let before = table(&subject, "refs", &CACHE);
    assert_eq!(reasons(&before, "names-gone"), [""; 0]);
    let before = row(&before.found);
    assert_eq!(before["source"], "bodies[i].at.x");
    std::fs::remove_file(&source).unwrap_or_else(|e| panic!("{e}"));
    let told = table(&subject, "refs", &CACHE);
    let after = row(&told.found);
    assert_eq!(after["source"], Value::Null);
    for key in ["name", "line", "function", "reads", "writes"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    let expected = format!("names-gone: {} not found", source.display());
    assert_eq!(reasons(&told, "names-gone"), [expected]);
    let mut lines = Command::new(tools::memtrail().unwrap_or_else(|why| panic!("{why}")));
    let annotated = output(
        lines
            .args(["lines", "--wide", "--top", "9999"])
            .args(CACHE)
            .arg(&subject.recording),
    );
    let annotated = annotated.unwrap_or_else(|why| panic!("{why}"));
    assert!(
        annotated.contains(&format!("{} not found", source.display())),
        "{annotated}"
    );
}

#[test]
fn another_build_is_refused_unless_forced() {
    let subject = recorded(lists("names-replaced", &["-O0", "-g"]));
    lists("names-replaced", &["-O0", "-g", "-Wl,--build-id=0x1234"]);
    let told = table(&subject, "objects", &CACHE);
    assert_told_by(&both_lists(&told), "names-replaced+0x", "names-replaced+0x");
    let reasons_told = reasons(&told, "names-replaced");
    assert_eq!(reasons_told.len(), 1);
    assert!(
        reasons_told[0].contains("is another build: its build id is 1234, "),
        "{reasons_told:?}"
    );
    // It happens to be the same code.
    let told = table(&subject, "objects", &[&CACHE[..], &["--force"]].concat());
    assert_told_by(&both_lists(&told), "fresh (lists.c:", "main (lists.c:");
    assert_eq!(reasons(&told, "names-replaced"), [""; 0]);
}

#[test]
fn programs_of_another_machine_are_found_under_its_root() {
    let program = lists("names-moved", &["-O0", "-g"]);
    let subject = recorded(program.clone());
    let root = work_directory().join("names-root");
    let there = root.join(program.strip_prefix("/").unwrap_or(&program));
    let moved = std::fs::create_dir_all(there.parent().unwrap_or(Path::new("/")));
    moved
        .and_then(|()| std::fs::rename(&program, &there))
        .unwrap_or_else(|e| panic!("{e}"));
    let told = table(&subject, "objects", &CACHE);
    assert_told_by(&both_lists(&told), "names-moved+0x", "names-moved+0x");
    let expected = format!("names-moved: {} not found", program.display());
    assert_eq!(reasons(&told, "names-moved"), [expected]);
    let sysroot = ["--sysroot", &root.to_string_lossy()];
    let told = table(&subject, "objects", &[&CACHE[..], &sysroot].concat());
    assert_told_by(&both_lists(&told), "fresh (lists.c:", "main (lists.c:");
    assert_eq!(reasons(&told, "names-moved"), [""; 0]);
}

/// Other tools' traces have accesses, and nothing of what lay there.
#[test]
fn of_an_imported_trace_no_object_is_known() {
    let trace = work_directory().join("names-lackey.txt");
    let lines = "I  04000a80,3\n L 1ffefffe50,8\n S 1ffefffe58,8\nI  04000a83,5\n M 04222d80,4\n";
    std::fs::write(&trace, lines).unwrap_or_else(|e| panic!("{e}"));
    let recording = trace.with_extension("mtr");
    let mut import = Command::new(tools::memtrail().unwrap_or_else(|why| panic!("{why}")));
    import
        .args(["import", "--force", "--format", "lackey", "-o"])
        .arg(&recording);
    output(import.arg(&trace)).unwrap_or_else(|why| panic!("{why}"));
    let subject = Subject {
        program: trace,
        recording,
    };
    let told = table(&subject, "objects", &CACHE);
    let rows = list(&told.found["objects"]);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (text(&rows[0], "name"), text(&rows[0], "kind")),
        ("[unknown]", "unknown")
    );
    assert_eq!(["reads", "writes"].map(|key| number(&rows[0], key)), [2, 2]);
    let reason = "the recording does not tell what was allocated and mapped: objects are unknown";
    assert_eq!(list(&told.found["reasons"]), [reason]);
    assert!(told.said.contains(reason), "{}", told.said);
    for command in ["refs", "evictors", "lines", "competition"] {
        assert_eq!(
            number(&table(&subject, command, &CACHE).found, "accesses"),
            4,
            "{command}"
        );
    }
}
