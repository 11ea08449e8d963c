//! What programs wait for, where that is known by construction: the two critical data structures of
//! DTrack's section 3.4, rebuilt. What each does is said at its head, in `stalls/`.
//!
//! Both are run on the machine of the paper's figure 2. The critical object has few of the misses
//! and most of the stall cycles; another has most of the misses.
use memtrail_tests::subject::{compiled, source_path, Subject};
use serde_json::Value;

fn recorded(name: &str) -> Subject {
    let path = source_path(&format!("tests/stalls/{name}.c"));
    let program = compiled("gcc", &format!("stalls-{name}"), &path, &["-O1", "-g"]);
    Subject::record(program.unwrap_or_else(|why| panic!("{why}")), &[]).unwrap_or_else(|why| panic!("{why}"))
}

fn stalls(subject: &Subject, options: &[&str]) -> Value {
    let options = [&["--core", "alpha21264"], options].concat();
    let table = subject.table("stalls", &options);
    table.unwrap_or_else(|why| panic!("{why}")).found
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row:#}"))
}

fn share(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row:#}"))
}

fn named<'a>(found: &'a Value, name: &str) -> &'a Value {
    let rows = found["objects"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["name"].as_str().is_some_and(|n| n.starts_with(name)));
    row.unwrap_or_else(|| panic!("no {name} in {found:#}"))
}

/// Every cycle is somebody's, and what objects are charged adds up.
fn adds_up(found: &Value) {
    let stack: u64 = found["stack"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(stack, number(found, "cycles"));
    let rows = found["objects"].as_array().unwrap();
    let stalls: u64 = rows.iter().map(|row| number(row, "stall_cycles")).sum();
    assert_eq!(stalls, number(found, "stall_cycles"));
}

#[test]
fn a_reduction_with_branches_on_data_stalls_at_few_misses() {
    let subject = recorded("reduction");
    let found = stalls(&subject, &["--ideal", "tds", "--ideal-top", "2"]);
    adds_up(&found);
    let first = &found["objects"][0];
    assert_eq!(first["name"], "tds");
    let (tds, bus) = (named(&found, "tds"), named(&found, "bus"));
    // 16 rounds of 256, nearly each on a line that is nowhere; whether it is added is known when it
    // has come, and not foreseen every other time: two such loads in 119 cycles.
    assert_eq!(number(tds, "accesses"), 16 * 256);
    assert!(number(tds, "misses") > 16 * 256 * 99 / 100, "{tds:#}");
    let each = number(tds, "stall_cycles") as f64 / number(tds, "misses") as f64;
    assert!((60.0..119.0).contains(&each), "{each} cycles a miss");
    assert!(
        share(tds, "miss_share") < 0.06 && share(tds, "stall_share") > 0.5,
        "{tds:#}"
    );
    assert!(
        share(bus, "miss_share") > 0.9 && share(bus, "stall_share") < 0.35,
        "{bus:#}"
    );
    // Ideal by name, and as the first of the list, is the same; all is at least as fast.
    let (ideal, cycles) = (number(&found, "ideal_cycles"), number(&found, "cycles"));
    let top = found["ideal_top"].as_array().unwrap();
    assert_eq!(
        (top[0]["object"].as_str(), number(&top[0], "cycles")),
        (Some("tds"), ideal)
    );
    assert!(number(&found, "perfect_cycles") <= number(&top[1], "cycles"));
    assert!(number(&top[1], "cycles") < ideal && ideal < cycles - number(tds, "stall_cycles") / 2);
}

#[test]
fn a_structure_at_the_root_of_a_chain_stalls_though_it_rarely_misses() {
    let found = stalls(&recorded("root"), &[]);
    adds_up(&found);
    let first = &found["objects"][0];
    assert!(
        first["name"].as_str().is_some_and(|name| name.starts_with("search")),
        "{first:#}"
    );
    // Once for each of 2,000 positions, of 25 accesses, and at the beginning.
    assert_eq!((number(first, "accesses"), number(first, "misses")), (50_001, 2_001));
    assert!(
        share(first, "miss_share") < 0.02 && share(first, "stall_share") > 0.45,
        "{first:#}"
    );
    let table = named(&found, "table");
    assert!(
        share(table, "miss_share") > 0.9 && share(table, "stall_share") < 0.25,
        "{table:#}"
    );
}

#[test]
fn rows_can_be_told_apart_by_anything_that_tables_know() {
    let subject = recorded("reduction");
    let objects = stalls(&subject, &[]);
    for by in [
        "ref", "line", "function", "loop", "callpath", "module", "thread", "process",
    ] {
        let found = stalls(&subject, &["--by", by]);
        assert_eq!(found["cycles"], objects["cycles"], "{by}");
        assert_eq!(found["stall_cycles"], objects["stall_cycles"], "{by}");
    }
    let functions = stalls(&subject, &["--by", "function"]);
    let first = &functions["functions"][0];
    assert_eq!(first["name"], "winner", "{first:#}");
    let both = stalls(&subject, &["--by", "object,function"]);
    let first = &both["objects"][0];
    assert_eq!((&first["name"], &first["function"]), (&"tds".into(), &"winner".into()));
}

#[test]
fn what_is_wrong_is_said() {
    let subject = recorded("root");
    let fails = |options: &[&str]| subject.table("stalls", options).unwrap_err();
    let said = fails(&["--core", "pentium"]);
    assert!(said.contains("--core pentium: neither a core nor a file"), "{said}");
    let said = fails(&["--core", "zen5", "--ideal", "nothing"]);
    assert!(
        said.contains("--ideal nothing: no object of this name was accessed"),
        "{said}"
    );
}
