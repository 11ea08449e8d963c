//! Whose code it is: programs at the same address, and one program at several.

use memtrail_tests::subject::{compiled, source_path, Subject};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// `identity/hot.c`, with a function of this name that reads `times` times 1000 elements, and its
/// return address.
fn hot(name: &str, function: &str, times: u32, flags: &[&str]) -> PathBuf {
    let defines = [format!("-DHOT={function}"), format!("-DTIMES={times}")];
    let defines: Vec<&str> = defines.iter().map(String::as_str).collect();
    let flags = [&["-O1", "-g"], flags, &defines].concat();
    compiled("gcc", name, &source_path("tests/identity/hot.c"), &flags).unwrap_or_else(|why| panic!("{why}"))
}

/// The rows of `refs` with these options.
fn rows(subject: &Subject, options: &[&str]) -> Vec<Value> {
    let options = [&["--cache", "L1=32K:64:8"], options].concat();
    let told = subject.table("refs", &options).unwrap_or_else(|why| panic!("{why}"));
    told.found["refs"].as_array().unwrap().clone()
}

fn recorded(first: PathBuf, second: &Path) -> Subject {
    Subject::record(first, &[second.to_str().unwrap()]).unwrap_or_else(|why| panic!("{why}"))
}

/// What functions whose names begin with `hot` read, by name.
fn hot_functions(rows: &[Value]) -> Vec<(&str, u64)> {
    let row = |row: &'_ Value| row["reads"].as_u64().unwrap();
    let name = |row: &'_ Value| row["function"].as_str().unwrap().starts_with("hot");
    let mut all: Vec<_> = rows
        .iter()
        .filter(|r| name(r))
        .map(|r| (r["function"].as_str().unwrap(), row(r)))
        .collect();
    all.sort_unstable();
    all
}

/// One replaces the other, and both have their loops at the same address.
fn one_replaces_the_other() -> Subject {
    let flags = ["-static", "-no-pie"];
    let second = hot("identity-second", "hot_second", 5, &flags);
    recorded(hot("identity-first", "hot_first", 3, &flags), &second)
}

#[test]
fn programs_at_the_same_address_are_told_apart() {
    let subject = one_replaces_the_other();
    let functions = rows(&subject, &["--by", "function"]);
    assert_eq!(hot_functions(&functions), [("hot_first", 3001), ("hot_second", 5001)]);

    let only = rows(&subject, &["--by", "function", "--function", "hot_first"]);
    assert_eq!(hot_functions(&only), [("hot_first", 3001)]);

    // Their reference points are at the same address.
    let refs = rows(&subject, &[]);
    let hot: Vec<&Value> = refs.iter().filter(|r| r["reads"].as_u64() >= Some(3000)).collect();
    assert_eq!(hot.len(), 2, "{refs:#?}");
    assert_eq!(hot[0]["pc"], hot[1]["pc"]);
    assert_ne!(hot[0]["module"], hot[1]["module"]);
}

#[test]
fn so_are_their_loops() {
    let subject = one_replaces_the_other();
    let loops = rows(&subject, &["--by", "loop"]);
    let name = |row: &Value| row["loop"]["function"].as_str().map(str::to_string);
    let mut hot: Vec<_> = loops
        .iter()
        .filter(|row| name(row).is_some_and(|n| n.starts_with("hot")))
        .map(|row| (name(row).unwrap(), row["reads"].as_u64().unwrap()))
        .collect();
    hot.sort();
    assert_eq!(hot, [("hot_first".to_string(), 3000), ("hot_second".to_string(), 5000)]);
}

#[test]
fn a_process_is_called_by_the_programs_it_ran() {
    let processes = rows(&one_replaces_the_other(), &["--by", "process"]);
    let [process] = processes.as_slice() else {
        panic!("{processes:#?}");
    };
    let name = process["process"].as_str().unwrap();
    let (pid, programs) = name.split_once(' ').unwrap();
    assert!(pid.parse::<u32>().is_ok(), "{name}");
    assert_eq!(programs, "identity-first → identity-second");
    assert!(process["reads"].as_u64() > Some(8000));
}

#[test]
fn a_program_at_several_addresses_is_one() {
    let program = hot("identity-pie", "hot_pie", 4, &["-pie", "-fPIE", "-DFORK"]);
    let subject = recorded(program.clone(), &program);
    let functions = rows(&subject, &["--by", "function"]);
    assert_eq!(hot_functions(&functions), [("hot_pie", 8002)]);
    let refs = rows(&subject, &["--function", "hot_pie"]);
    assert_eq!(refs.iter().filter(|r| r["reads"] == 8000).count(), 1, "{refs:#?}");
    let processes = rows(&subject, &["--by", "process,function", "--function", "hot_pie"]);
    let told: Vec<_> = processes
        .iter()
        .map(|row| {
            (
                row["process"].as_str().unwrap().split_once(' ').unwrap().1,
                &row["reads"],
            )
        })
        .collect();
    let mut names: Vec<&str> = told.iter().map(|told| told.0).collect();
    names.sort_unstable();
    assert_eq!(names, ["identity-pie", "identity-pie → identity-pie"]);
    assert!(told.iter().all(|told| *told.1 == 4001), "{told:?}");
}
