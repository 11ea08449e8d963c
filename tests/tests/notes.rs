//! What is allocated, freed, mapped and named: what guests say they did, and what was recorded of
//! it.

use memtrail_tests::guest::{self, Guest};
use memtrail_tests::run::{self, Configuration, Probes};
use memtrail_tests::tools;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const PLAIN: Configuration = Configuration {
    probes: Probes::Loop,
    max_block: None,
};

fn guest_named(name: &str) -> Guest {
    let mut all = guest::all().unwrap_or_else(|why| panic!("{why}"));
    all.retain(|g| g.name == name);
    all.pop().unwrap_or_else(|| panic!("there is no guest {name}"))
}

/// A line of `dump --notes`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    thread: u32,
    /// Accesses of the thread before it.
    accesses: u64,
    what: String,
}

/// Records a guest with an argument that makes it tell; what it printed, and what was noted.
fn noted(guest: &str, configuration: Configuration, options: &[&str], argument: &str) -> (String, Vec<Line>) {
    let guest = guest_named(guest);
    let binary = guest.built().unwrap_or_else(|why| panic!("{why}"));
    let name = format!("{}.{}.{}.notes.mtr", guest.name, configuration.name(), options.len());
    let trace = tools::work_directory().join(name);
    let recorded = run::record(&binary, &[argument.into()], configuration, options, &trace);
    let (seen, stderr) = recorded.unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(seen.status, 0, "{}: {stderr}", guest.name);
    let (said, _) = run::transcript(&["check", "--deep"], &trace).unwrap_or_else(|why| panic!("{why}"));
    assert!(said.ends_with("status 0\n"), "{}: {said}", guest.name);
    let lines = dumped(&trace);
    let _ = std::fs::remove_file(&trace);
    (String::from_utf8(seen.stdout).expect("text"), lines)
}

fn dumped(trace: &Path) -> Vec<Line> {
    let text = run::dump(trace, &["--notes"]).unwrap_or_else(|why| panic!("{why}"));
    let line = |text: &str| {
        let (thread, rest) = text.split_once(' ').expect("a thread");
        let (accesses, what) = rest.split_once(' ').expect("accesses");
        Line {
            thread: thread.parse().unwrap_or(u32::MAX),
            accesses: accesses.parse().unwrap_or(0),
            what: what.into(),
        }
    };
    text.lines().map(line).collect()
}

/// Whether a note is of memory that the system gives.
fn is_mapping(what: &str) -> bool {
    ["map", "unmap", "remap", "break"].contains(&what.split(' ').next().unwrap_or(""))
}

/// Whether a note is of threads, and not of memory.
fn is_of_threads(what: &str) -> bool {
    ["wait", "woken", "wake", "start", "end"].contains(&what.split(' ').next().unwrap_or(""))
}

/// What was noted of memory in the region "test".
fn in_test(lines: &[Line], mappings: bool) -> String {
    let mut inside = false;
    let mut text = String::new();
    for line in lines {
        match line.what.as_str() {
            "enter test" => inside = true,
            "leave test" => inside = false,
            what if inside && (mappings || !is_mapping(what)) && !is_of_threads(what) => text += &format!("{what}\n"),
            _ => {}
        }
    }
    text
}

/// What a guest expects, as `dump` writes it.
fn expected(stdout: &str) -> String {
    let lines = stdout.lines().filter(|&line| line != "caught");
    lines.map(|line| line.replace("(nil)", "0x0") + "\n").collect()
}

/// Lines without those of blocks that a guest does not know of: exceptions are allocated, too. They
/// are given back in the end.
fn known_to(found: &str, expected: &str) -> String {
    let is_known = |line: &&str| {
        let mut words = line.split(' ');
        let of_block = matches!(words.next(), Some("alloc" | "free" | "realloc"));
        let address = words.next().unwrap_or("").to_owned() + " ";
        !of_block || expected.contains(&address)
    };
    let (known, others): (Vec<&str>, Vec<&str>) = found.lines().partition(is_known);
    let mut blocks = Blocks::default();
    others.iter().for_each(|line| blocks.take(line));
    assert!(blocks.0.is_empty(), "never given back: {:?}", blocks.0);
    known.iter().map(|line| format!("{line}\n")).collect()
}

/// Compares a guest's word with what was noted, in every configuration.
fn agrees(guest: &str, options: &[&str], argument: &str, mappings: bool) {
    for configuration in Configuration::all() {
        let (stdout, lines) = noted(guest, configuration, options, argument);
        let expected = expected(&stdout);
        assert!(expected.lines().count() >= 4, "{guest} tells nothing: {stdout}");
        let found = in_test(&lines, mappings);
        assert_eq!(
            known_to(&found, &expected),
            expected,
            "{guest}, {}",
            configuration.name()
        );
    }
}

#[test]
fn every_function_of_the_c_library() {
    agrees("notes_malloc", &[], "tell", false);
}

#[test]
fn every_function_of_a_static_c_library() {
    agrees("notes_malloc_static", &[], "tell", false);
}

#[test]
fn new_and_delete_and_exceptions() {
    agrees("notes_new", &[], "tell", false);
}

#[test]
fn functions_that_the_user_names() {
    let options = [
        "--allocator",
        "pool_alloc:2",
        "--allocator",
        "plain_alloc",
        "--deallocator",
        "pool_free:2",
    ];
    agrees("notes_pool", &options, "tell", false);
}

#[test]
fn handlers_that_allocate_while_something_is_allocated() {
    agrees("notes_interrupted", &[], "tell", false);
}

#[test]
fn allocators_that_are_left_by_a_jump() {
    agrees("notes_left_by_jump", &[], "tell", false);
}

#[test]
fn mappings() {
    agrees("notes_mappings", &[], "tell", true);
}

#[test]
fn markers_in_rust() {
    agrees("notes_markers", &[], "tell", false);
}

#[test]
fn a_library_opened_at_run_time() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/include/notes_library_of.h");
    let library: PathBuf = tools::work_directory().join("libnotes.so");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-shared", "-fPIC", "-x", "c"]).arg(&source);
    run::text_of({
        gcc.arg("-o").arg(&library);
        gcc
    })
    .unwrap_or_else(|why| panic!("{why}"));
    agrees("notes_library", &[], library.to_str().expect("text"), false);
}

/// The blocks that live, as the notes have it; fails if one is given that is live, or one given
/// back that is not.
#[derive(Default)]
struct Blocks(BTreeSet<String>);

impl Blocks {
    fn take(&mut self, what: &str) {
        let words: Vec<&str> = what.split(' ').collect();
        match words[..] {
            ["alloc", address, ..] => assert!(self.0.insert(address.into()), "{what}: is live"),
            ["free", address, _] => assert!(self.0.remove(address), "{what}: is not live"),
            ["realloc", old, "0x0", ..] => assert!(self.0.insert(old.into()), "{what}: is live"),
            ["realloc", _, address, ..] => assert!(self.0.insert(address.into()), "{what}: is live"),
            _ => {}
        }
    }
}

#[test]
fn threads_that_free_each_others_blocks() {
    let (_, lines) = noted("notes_threads", PLAIN, &[], "tell");
    let mut blocks = Blocks::default();
    let mut threads: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut allocs, mut frees) = (0, 0);
    for (i, line) in lines.iter().enumerate() {
        // When a thread ends the C library gives the free blocks that it kept for it to `free` once
        // more.
        let own = |l: &Line| l.thread == line.thread;
        let ends = line.thread != 0
            && !lines[i..]
                .iter()
                .any(|l| own(l) && !l.what.starts_with("free") && !is_of_threads(&l.what));
        match line.what.strip_prefix("free ").filter(|_| ends) {
            Some(freed) => drop(blocks.0.remove(freed.trim_end_matches(" free"))),
            None => blocks.take(&line.what),
        }
        allocs += u32::from(line.what.starts_with("alloc"));
        frees += u32::from(line.what.starts_with("free"));
        // Within a thread, notes stand in order among its accesses.
        let before = threads.insert(line.thread, line.accesses);
        assert!(before.is_none_or(|n| n <= line.accesses), "{line:?}");
    }
    assert_eq!(threads.len(), 9);
    // 3000 blocks each and 47 that are resized; a thread makes a few for itself.
    assert!(allocs >= 8 * 3047 && frees >= 8 * 3047, "{allocs} {frees}");
}

#[test]
fn threads_start_wait_wake_and_end() {
    let (_, lines) = noted("notes_threads", PLAIN, &[], "tell");
    let place = |thread: u32, what: &str| {
        lines
            .iter()
            .position(|l| l.thread == thread && l.what.starts_with(what))
    };
    let started: Vec<(u32, String)> = lines
        .iter()
        .filter_map(|l| l.what.strip_prefix("start "))
        .map(|what| what.split_once(' ').unwrap())
        .map(|(thread, cleared)| (thread.parse().unwrap(), cleared.to_string()))
        .collect();
    let mut threads: Vec<u32> = started.iter().map(|(thread, _)| *thread).collect();
    threads.sort_unstable();
    assert_eq!(threads, (1..=8).collect::<Vec<u32>>());
    for (thread, cleared) in &started {
        // A thread does nothing before it is made, and nothing after it ends.
        let first = lines.iter().position(|l| l.thread == *thread).unwrap();
        let last = lines.iter().rposition(|l| l.thread == *thread).unwrap();
        assert!(place(0, &format!("start {thread} ")).unwrap() < first);
        assert_eq!(lines[last].what, "end 0");
        // Whoever joins it waits for the word that its end clears, and goes on after that.
        if let Some(waits) = place(0, &format!("wait {cleared} ")) {
            let goes_on = place(0, &format!("woken {cleared} ")).unwrap();
            assert!(waits < goes_on && last < goes_on, "{thread}: {waits} {goes_on} {last}");
        }
    }
    // Each waits for one thing at a time.
    let mut waits: BTreeMap<u32, String> = BTreeMap::new();
    for line in &lines {
        let address = || line.what.split(' ').nth(1).unwrap().to_string();
        if line.what.starts_with("wait ") {
            assert_eq!(waits.insert(line.thread, address()), None);
        } else if line.what.starts_with("woken ") {
            assert_eq!(waits.remove(&line.thread), Some(address()));
        }
    }
    assert_eq!(waits, BTreeMap::new());
}

#[test]
fn processes_that_fork_spawn_and_become_others() {
    let (_, lines) = noted("notes_processes", PLAIN, &[], "tell");
    let of = |thread: u32| -> Vec<String> {
        let own = lines.iter().filter(|l| l.thread == thread);
        let what = own.map(|l| l.what.clone());
        what.filter(|w| !is_of_threads(w) && (!is_mapping(w) || w.starts_with("unmap 0x0 ")))
            .collect()
    };
    let sized = |thread: u32, bytes: &str| -> String {
        let found = of(thread)
            .into_iter()
            .find(|w| w.starts_with("alloc") && w.contains(bytes));
        let what = found.unwrap_or_else(|| panic!("thread {thread} allocates {bytes}: {lines:#?}"));
        what.split(' ').nth(1).expect("an address").into()
    };
    let (mine, shared) = (sized(0, " 100 "), sized(0, " 200 "));
    let image = format!("unmap 0x0 {}", u64::MAX);
    let parent: Vec<String> = of(0).into_iter().filter(|w| *w != image).collect();
    let freed: Vec<&String> = parent.iter().filter(|w| w.starts_with("free")).collect();
    assert_eq!(
        freed[..2],
        [&format!("free {mine} free"), &format!("free {shared} free")]
    );
    // The forked child frees its copy, allocates, and becomes another program.
    let child = of(1);
    assert_eq!(child[0], format!("free {shared} free"));
    assert!(
        child[1].starts_with("alloc ") && child[1].ends_with(" 300 malloc"),
        "{child:?}"
    );
    assert_eq!(child[2], image);
    assert!(child.iter().any(|w| w.contains(" 604 malloc")), "{child:?}");
    // The spawned one allocates nothing before it is another program.
    let spawned = of(2);
    assert_eq!(spawned[0], image);
    assert!(spawned.iter().any(|w| w.contains(" 603 malloc")), "{spawned:?}");
    // The fork is told when the parent has come to it.
    let place = |what: &dyn Fn(&Line) -> bool| lines.iter().position(what).expect("a line");
    let fork = place(&|l| l.thread == u32::MAX);
    assert_eq!(lines[fork].what, "1", "fork 0 1");
    assert!(place(&|l| l.what.contains(" 200 malloc")) < fork);
    assert!(fork < place(&|l| l.thread == 1));
    assert!(fork < place(&|l| l.what == format!("free {mine} free")));
}

#[test]
fn without_objects_nothing_is_hooked() {
    let (_, lines) = noted("notes_malloc", PLAIN, &["--no-objects"], "tell");
    assert_eq!(in_test(&lines, false), "");
    assert!(lines.iter().any(|l| l.what.starts_with("map ")));
}
