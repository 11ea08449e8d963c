//! The runtime inside the target: it stays whole whatever the target does, and lets the target go
//! on where its own means end.

use memtrail_tests::guest::{self, Guest};
use memtrail_tests::run::{self, Configuration, Probes, Seen};
use memtrail_tests::tools;

const PLAIN: Configuration = Configuration {
    probes: Probes::Loop,
    max_block: None,
};

fn guest_named(name: &str) -> Guest {
    let mut all = guest::all().unwrap_or_else(|why| panic!("{why}"));
    all.retain(|g| g.name == name);
    all.pop().unwrap_or_else(|| panic!("there is no guest {name}"))
}

/// Records a guest; how it ended and what was said on standard error.
fn recorded(name: &str, options: &[&str]) -> (Seen, String) {
    let guest = guest_named(name);
    let binary = guest.built().unwrap_or_else(|why| panic!("{why}"));
    let trace = tools::work_directory().join(format!("{name}.{}.runtime.mtr", options.len()));
    let recorded = run::record(&binary, &guest.args, PLAIN, options, &trace);
    let (said, _) = run::transcript(&["check", "--deep"], &trace).unwrap_or_else(|why| panic!("{why}"));
    assert!(said.ends_with("status 0\n"), "{name}: {said}");
    let _ = std::fs::remove_file(&trace);
    recorded.unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn what_is_not_the_targets_cannot_be_mapped_over() {
    let (seen, said) = recorded("mappings_not_its_own", &[]);
    assert_eq!((seen.status, &seen.stdout[..]), (0, &b"done\n"[..]), "{said}");
    // The image, the session and its guard pages, the thread's area, the code cache: it found them
    // all.
    let ranges = said
        .lines()
        .find_map(|l| l.strip_suffix(" ranges"))
        .expect("the guest tells");
    assert!(ranges.parse::<u32>().is_ok_and(|n| n >= 20), "{said}");
    let told = said
        .lines()
        .filter(|l| l.contains("where memtrail's runtime lies, and was refused"));
    assert_eq!(told.count(), 1, "{said}");
}

/// What `record` says at the end of the threads that it left out.
fn left_out(said: &str) -> Vec<&str> {
    said.lines()
        .filter(|l| l.contains("not recorded: too many were alive"))
        .collect()
}

#[test]
fn threads_beyond_the_limit_run_on_unrecorded() {
    let (whole, said) = recorded("threads_beyond_the_limit", &[]);
    assert_eq!((whole.status, left_out(&said).len()), (0, 0), "{said}");
    // One slot is the process's, one its first thread's, four are other threads'.
    let (seen, said) = recorded("threads_beyond_the_limit", &["--slots", "6"]);
    assert_eq!((seen.status, &seen.stdout), (0, &whole.stdout), "{said}");
    assert_eq!(
        left_out(&said),
        ["memtrail: 8 threads were not recorded: too many were alive at once"]
    );
    assert_eq!(said.matches("some go on unrecorded").count(), 1, "{said}");
}

#[test]
fn processes_beyond_the_limit_run_on_unrecorded() {
    let (whole, said) = recorded("fork_and_wait", &[]);
    assert_eq!((whole.status, left_out(&said).len()), (0, 0), "{said}");
    // Of two children, one after the other, none finds a slot.
    let (seen, said) = recorded("fork_and_wait", &["--slots", "2"]);
    assert_eq!((seen.status, &seen.stdout), (0, &whole.stdout), "{said}");
    assert_eq!(
        left_out(&said),
        ["memtrail: 2 threads were not recorded: too many were alive at once"]
    );
}
